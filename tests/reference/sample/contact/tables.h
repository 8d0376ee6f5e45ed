#define RB_ARGUMENTS const double *tau, const double *f_ext, const double *gravity, const double *mu, const double *e
#define RB_GATHER
#define RB_GIVEN .tau = tau, .f_ext = f_ext, .gravity = gravity, .mu = mu, .e = e
#define RB_TABLES_H
#define RB_LARGE_SCENE 1
enum { RB_BODIES = 4, RB_SHAPES = 4, RB_CONTACTS = 12, RB_PAIRS = 52, RB_SCENE_SWEEPS = 320, RB_CONTACT_ROWS = 3, RB_POISSON = 0 };
enum { RB_AT_Q = 0, RB_AT_QD = 10, RB_AT_F_CONTACT = 19, RB_AT_IN_CONTACT = 43, RB_AT_CENTRE_OF_PRESSURE = 47, RB_AT_CONTACTS = 59, RB_AT_LEFT_OUT = 60, RB_AT_RESIDUAL = 61, RB_AT_SWEEPS_MADE = 62, RB_AT_DEPTH = 63, RB_AT_STEPS = 64, RB_AT_KEY = 65, RB_AT_IMPULSE = 77, RB_AT_STOP_IMPULSE = 113, RB_AT_LEFT_WRENCH = 119, RB_AT_LEFT_NORMAL_FORCE = 125, RB_AT_LEFT_IN_CONTACT = 126, RB_AT_LEFT_SLIP = 127, RB_AT_LEFT_CENTRE_OF_PRESSURE = 130, RB_AT_LEFT_DISTANCE = 133, RB_AT_LEFT_ON_ONE = 134, RB_AT_LEFT_ON_OTHER = 137, RB_AT_FLOOR_WRENCH = 140, RB_AT_FLOOR_NORMAL_FORCE = 146, RB_AT_FLOOR_IN_CONTACT = 147, RB_AT_FLOOR_SLIP = 148, RB_AT_FLOOR_CENTRE_OF_PRESSURE = 151, RB_AT_STICKS = 154, RB_AT_LOOP_ERROR = 154 };
static const double RB_SCENE_STEP = 0.001;
static const double RB_SCENE_TOLERANCE = 1e-05;
static const double RB_MOVING_TOLERANCE = 0.0001;
enum { RB_CLOSURES = 0, RB_LOOP_ROWS = 0, RB_POSITIONS = 10 };
static const int RB_LOOP_BODY[1][2] = {{4, 4}};
static const double RB_LOOP_FRAME[1][12] = {{1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0}};
static const int RB_LOOP_TURN[1] = {0};
static const double RB_LOOP_AXIS[1][3] = {{0.0, 0.0, 0.0}};
static const int RB_ROW_LOOP[1] = {0};
static const double RB_LOOP_ROW[1][6] = {{0.0, 0.0, 0.0, 0.0, 0.0, 0.0}};
enum { RB_LINKS = 3, RB_DOFS = 3, RB_ROWS = 5, RB_DEPTH = 2, RB_SPAN = 3, RB_STOPS = 6 };
static const int RB_FREE[4] = {0, 0, 0, 1};
static const int RB_Q_AT[4] = {0, 1, 2, 3};
static const int RB_QD_AT[4] = {0, 1, 2, 3};
static const int RB_LEAF[5] = {0, 1, 2, -1, -1};
static const int RB_LINK_BODY[4] = {0, 1, 2, 4};
static const int RB_LINK_PARENT[4] = {3, 0, 0, 3};
static const int RB_LINK_JOINT[4] = {1, 1, 1, 0};
static const int RB_LINK_DOF[4] = {0, 1, 2, 3};
static const int RB_LINK_DOFS[4] = {1, 1, 1, 0};
static const double RB_LINK_FRAME[4][12] = {{1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0}, {1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, -0.06, 0.0, 0.0}, {1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.06, 0.0, 0.0}, {0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0}};
static const int RB_LINK_TURNED[4] = {0, 0, 0, 0};
static const int RB_DOF_LINK[4] = {0, 1, 2, 0};
static const int RB_DOF_QD[4] = {0, 1, 2, 0};
static const int RB_DOF_Q[4] = {0, 1, 2, 0};
static const int RB_DOF_PARENT[4] = {-1, 0, 0, -1};
static const int RB_DOF_DEPTH[4] = {0, 1, 1, 0};
static const int RB_DOF_ROW[4] = {0, 1, 3, 5};
static const int RB_PATH[6] = {0, 1, 0, 2, 0, 0};
static const int RB_DOF_FIRST[4] = {0, 0, 0, 0};
static const int RB_DOF_COUNT[4] = {3, 3, 3, 0};
static const double RB_DOF_COLUMN[4][6] = {{0.0, 0.0, 0.0, 0.0, 0.0, 1.0}, {0.0, 0.0, 0.0, 1.0, 0.0, 0.0}, {0.0, 0.0, 0.0, -1.0, 0.0, 0.0}, {0.0, 0.0, 0.0, 0.0, 0.0, 0.0}};
static const double RB_DOF_ARMATURE[4] = {0.0, 0.0, 0.0, 0.0};
static const double RB_DOF_DAMPING[4] = {1.0, 1.0, 1.0, 0.0};
static const double RB_DOF_STIFFNESS[4] = {0.0, 0.0, 0.0, 0.0};
static const double RB_DOF_REST[4] = {0.0, 0.0, 0.0, 0.0};
static const int RB_STOP_DOF[7] = {0, 0, 1, 1, 2, 2, 0};
static const int RB_STOP_Q[7] = {0, 0, 1, 1, 2, 2, 0};
static const double RB_STOP_LOW[7] = {-0.2, -1e300, -0.2, -1e300, -0.2, -1e300, 0.0};
static const double RB_STOP_HIGH[7] = {0.2, 1e300, 0.2, 1e300, 0.2, 1e300, 0.0};
static const double RB_STOP_MOST[7] = {1e300, 0.1, 1e300, 0.1, 1e300, 0.1, 0.0};
enum { RB_APARTS = 2 };
static const double RB_APART[3] = {1.0, 2.0, 0.0};
static const double RB_MASS[4] = {1.0, 0.1, 0.1, 0.2};
static const double RB_CENTRE[4][3] = {{0.0, 0.0, 0.0}, {0.0, 0.0, 0.0}, {0.0, 0.0, 0.0}, {0.0, 0.0, 0.0}};
static const double RB_INERTIA[4][9] = {{0.0010416666666666669, 0.0, 0.0, 0.0, 0.0035416666666666674, 0.0, 0.0, 0.0, 0.0041666666666666675}, {5.9999999999999995e-05, 0.0, 0.0, 0.0, 3.3333333333333335e-05, 0.0, 0.0, 0.0, 3.3333333333333335e-05}, {5.9999999999999995e-05, 0.0, 0.0, 0.0, 3.3333333333333335e-05, 0.0, 0.0, 0.0, 3.3333333333333335e-05}, {8.333333333333334e-05, 0.0, 0.0, 0.0, 8.333333333333334e-05, 0.0, 0.0, 0.0, 8.333333333333334e-05}};
static const int RB_ISOTROPIC[4] = {0, 0, 0, 1};
#define RB_KINDS_PRESENT 68
static const double RB_SHAPE_TABLE[32] = {2.0, 0.01, 0.03, 0.03, 0.0, 0.0, 0.02, 0.0, 2.0, 0.01, 0.03, 0.03, 0.0, 0.0, 0.02, 0.0, 2.0, 0.025, 0.025, 0.025, 0.0, 0.0, 0.05, 0.0, 6.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1e300, 0.0};
static const int RB_SHAPE_AT[4] = {0, 8, 16, 24};
static const int RB_SHAPE_BODY[4] = {1, 2, 3, 4};
static const double RB_SHAPE_POSE[4][12] = {{1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0}, {1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0}, {1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0}, {0.0, -1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0}};
static const double RB_SHAPE_REACH[4] = {0.04358898943540673, 0.04358898943540673, 0.04330127018922194, 0.0};
enum { RB_MATERIALS = 5, RB_NAMED_PAIRS = 0 };
static const int RB_SHAPE_MATERIAL[4] = {1, 2, 3, 4};
static const double RB_NAMED_PAIR[1] = {0.0};
enum { RB_SENSORS = 2, RB_NEARS = 1 };
static const int RB_SENSOR_AT[3] = {119, 140, 0};
static const int RB_SENSOR_SIDE[3][4] = {{-1, 0, 1, 0}, {0, 0, 1, -1}, {0, 0, 0, 0}};
static const int RB_NEAR_AT[2] = {133, 0};
static const int RB_NEAR_FIRST[2][3] = {{0, 1, 2}, {0, 0, 0}};
static const int RB_NEAR_SHAPE[3] = {2, 0, 0};
