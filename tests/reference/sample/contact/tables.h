#define RB_TABLES_H
enum { RB_BODIES = 2, RB_SHAPES = 3, RB_CONTACTS = 8, RB_PAIRS = 19, RB_SCENE_SWEEPS = 200 };
enum { RB_AT_Q = 0, RB_AT_QD = 14, RB_AT_F_CONTACT = 26, RB_AT_CONTACTS = 38, RB_AT_LEFT_OUT = 39, RB_AT_RESIDUAL = 40, RB_AT_SWEEPS_MADE = 41, RB_AT_DEPTH = 42, RB_AT_STEPS = 43, RB_AT_KEY = 44, RB_AT_IMPULSE = 52 };
static const double RB_SCENE_STEP = 0.001;
static const double RB_SCENE_TOLERANCE = 1e-05;
static const double RB_MASS[2] = {2.0, 1.0};
static const double RB_CENTRE[2][3] = {{0.0, 0.0, 0.0}, {0.0, 0.0, 0.0}};
static const double RB_INERTIA[2][9] = {{0.021666666666666667, 0.0, 0.0, 0.0, 0.03333333333333334, 0.0, 0.0, 0.0, 0.041666666666666664}, {0.010833333333333334, 0.0, 0.0, 0.0, 0.01666666666666667, 0.0, 0.0, 0.0, 0.020833333333333332}};
static const int RB_ISOTROPIC[2] = {0, 0};
static const double RB_SHAPE_TABLE[24] = {2.0, 0.2, 0.15, 0.1, 0.0, 0.0, 0.2, 0.0, 2.0, 0.2, 0.15, 0.1, 0.0, 0.0, 0.2, 0.0, 6.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1e300, 0.0};
static const int RB_SHAPE_AT[3] = {0, 8, 16};
static const int RB_SHAPE_BODY[3] = {0, 1, 2};
static const double RB_SHAPE_POSE[3][12] = {{1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0}, {1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0}, {0.0, -1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0}};
static const double RB_SHAPE_REACH[3] = {0.2692582403567252, 0.2692582403567252, 0.0};
