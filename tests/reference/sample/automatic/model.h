/* Turntable, traced to C. Operations: derivative 16, initial 2, update 2, output 1, project 6.

   index  port                   element  unit
       0  t                               s
   continuous states
       1  d                      1        1
       2  d                      2        1
       3  w                               rad/s
   sampled states
       4  tau                             N.m
   inputs
       5  w_ref                           rad/s
   tunable parameters
       6  I                               kg.m2
       7  b                               N.m.s/rad
   computed outputs
       8  P                               W
   steps
       9  steps.length                    s
      10  steps.error                     1
      11  steps.pause                     1
      12  steps.is_stiff                  1
      13  steps.votes                     1
      14  steps.eigenvalue                1/s
      15  steps.cut_short                 1
      16  steps.above_tolerance           1
      17  steps.stiffness                 1
      18  steps.explicit_length           s
      19  steps.patience                  1
      20  steps.implicit                  1
      21  steps.cost                      1
      22  steps.span                      s
      23  steps.other                     1/s
      24  steps.windows                   1
      25  steps.trust                     1
*/

#ifndef RB_MODEL_H
#define RB_MODEL_H

#include <math.h>

enum { RB_T = 0, RB_X = 1, RB_NX = 3, RB_Z = 4, RB_NZ = 1, RB_U = 5, RB_NU = 1, RB_P = 6, RB_NP = 2, RB_Y = 8, RB_NY = 1, RB_S = 9, RB_NS = 17, RB_SIZE = 26 };
#define RB_LARGE 0
#define RB_PROJECTS 1
static const double RB_SAMPLE_TIME = 0.002;
static const double RB_INNER_STEP = 0.001;
static const double RB_START[] = {0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.5, 0.1, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0};
static const double RB_RTOL = 1e-07;
static const double RB_ATOL[] = {1e-07, 1e-07, 1e-07, 1.0};
static const double RB_STABLE = 1.6;
static const double RB_USUAL[] = {1.0, 1.0, 1.0, 1.0};
static const double RB_DEARNESS = 1.7833333333333332;
static const double RB_MOST_PATIENCE = 63.0;
enum { RB_MAX_INNER_STEPS = 0, 
       RB_ENOUGH_SIGNS = 15, RB_SCREEN_PAUSE = 16,
       RB_MOST_TRIES = 1000000, RB_TEST_TRIES = 10000 };
#define RB_ADAPTIVE 1
#define RB_EXPLICIT 1
#define RB_IMPLICIT 1
#define RB_LINEARLY_IMPLICIT 1
#define RB_COLLOCATION 1
#define RB_EXACT_SLOPES 0
enum { RB_STAGES = 7 };
static const double RB_A[8][7] = {{0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0}, {0.2, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0}, {0.075, 0.225, 0.0, 0.0, 0.0, 0.0, 0.0}, {0.9777777777777777, -3.7333333333333334, 3.5555555555555554, 0.0, 0.0, 0.0, 0.0}, {2.9525986892242035, -11.595793324188385, 9.822892851699436, -0.2908093278463649, 0.0, 0.0, 0.0}, {2.8462752525252526, -10.757575757575758, 8.906422717743473, 0.2784090909090909, -0.2735313036020583, 0.0, 0.0}, {0.09114583333333333, 0.0, 0.44923629829290207, 0.6510416666666666, -0.322376179245283, 0.13095238095238096, 0.0}, {0.09114583333333333, 0.0, 0.44923629829290207, 0.6510416666666666, -0.322376179245283, 0.13095238095238096, 0.0}};
static const double RB_A_POSITION[8][7] = {{0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0}, {0.2, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0}, {0.075, 0.225, 0.0, 0.0, 0.0, 0.0, 0.0}, {0.9777777777777777, -3.7333333333333334, 3.5555555555555554, 0.0, 0.0, 0.0, 0.0}, {2.9525986892242035, -11.595793324188385, 9.822892851699436, -0.2908093278463649, 0.0, 0.0, 0.0}, {2.8462752525252526, -10.757575757575758, 8.906422717743473, 0.2784090909090909, -0.2735313036020583, 0.0, 0.0}, {0.09114583333333333, 0.0, 0.44923629829290207, 0.6510416666666666, -0.322376179245283, 0.13095238095238096, 0.0}, {0.09114583333333333, 0.0, 0.44923629829290207, 0.6510416666666666, -0.322376179245283, 0.13095238095238096, 0.0}};
static const double RB_C[] = {0.0, 0.2, 0.3, 0.8, 0.8888888888888888, 1.0, 1.0};
static const unsigned char RB_POSITION[RB_NX + 1] = {0, 0, 0, 0};
static const double RB_ERROR[] = {0.0012326388888888888, 0.0, -0.0042527702905061394, 0.03697916666666667, -0.05086379716981132, 0.0419047619047619, -0.025};
enum { RB_IMPLICIT_STAGES = 6 };
static const double RB_GAMMA = 0.25;
static const double RB_IMPLICIT_A[7][6] = {{0.0, 0.0, 0.0, 0.0, 0.0, 0.0}, {3.0, 0.0, 0.0, 0.0, 0.0, 0.0}, {1.831036793486759, 0.4955183967433795, 0.0, 0.0, 0.0, 0.0}, {2.304376582692669, -0.05249275245743001, -1.176798761832782, 0.0, 0.0, 0.0}, {-7.170454962423024, -4.741636671481785, -16.31002631330971, -1.062004044111401, 0.0, 0.0}, {-7.170454962423024, -4.741636671481785, -16.31002631330971, -1.062004044111401, 1.0, 0.0}, {-7.170454962423024, -4.741636671481785, -16.31002631330971, -1.062004044111401, 1.0, 1.0}};
static const double RB_IMPLICIT_C[] = {0.0, 0.75, 0.21, 0.63, 1.0, 1.0};
static const double RB_COUPLING[7][6] = {{0.0, 0.0, 0.0, 0.0, 0.0, 0.0}, {-12.0, 0.0, 0.0, 0.0, 0.0, 0.0}, {-8.791795173947035, -2.207865586973518, 0.0, 0.0, 0.0, 0.0}, {10.81793056857153, 6.780270611428266, 19.5348594464241, 0.0, 0.0, 0.0}, {34.19095006749676, 15.49671153725963, 54.7476087596413, 14.16005392148534, 0.0, 0.0}, {34.62605830930532, 15.30084976114473, 56.99955578662667, 18.40807009793095, -5.714285714285717, 0.0}, {0.0, 0.0, 0.0, 0.0, 0.0, 0.0}};
static const double RB_TIME[] = {0.25, -0.5, -0.023504, -0.0362, 0.0, 0.0};
static const double RB_COLLOCATION_A[5][5] = {{0.07299886431790333, -0.02673533110794557, 0.018676929763984353, -0.01287910609330644, 0.005042839233882015}, {0.15377523147918246, 0.14621486784749352, -0.03644456890512809, 0.02123306311930472, -0.007935579902728777}, {0.14006304568480987, 0.29896712949128346, 0.16758507013524895, -0.03396910168661774, 0.010944288744192253}, {0.14489430810953477, 0.2765000687601592, 0.32579792291042103, 0.12875675325490976, -0.015708917378805327}, {0.14371356079122594, 0.28135601514946207, 0.31182652297574126, 0.22310390108357075, 0.04}};
static const double RB_NODE_TIMES[] = {0.05710419611451768, 0.2768430136381238, 0.5835904323689168, 0.8602401356562195, 1.0};
static const double RB_ROOTS[] = {0.15906584442746913, 0.13317907701829965, 0.07499451183581861, 0.06506577854574351, 0.11646852774031705};
static const double RB_THERE[5][5] = {{27.697693775684066, 12.783337911304407, 3.2084893867134436, -0.9514904122489136, 0.7415504960259902}, {-33.041880213518944, -17.37695347906356, -0.1721290632540259, -0.099169777982543, 0.5312281158383051}, {8.611443979875306, -9.699991409528778, -1.914728639696876, -2.4186920060849406, 1.0474634879353364}, {5.3441864378348845, 4.593615567759155, -3.036360323459418, 1.0506601902314567, -0.27277861186429536}, {-3.7480598074398097, 3.9849657363438684, 1.044415641608016, -1.1840985681379481, 0.44991777015677953}};
static const double RB_BACK[5][5] = {{0.013576867344947851, -0.011478515255229568, 0.014019858892875475, -0.010242047817908826, -0.04767387729029579}, {0.0016179004017191502, -0.007668830749180203, -0.024708578426518517, 0.050172864517371255, 0.09433181918161158}, {0.07915785334744688, 0.019398463998828754, -0.0818003537037511, -0.23053953404341834, -0.10270304538012552}, {0.4122560826804609, 0.40760117128019857, -0.19968242788680238, 0.37789390224886105, -0.4667441303324945}, {1.0, 1.0, 0.0, 1.0, 0.0}};
static const double RB_NODE_ERROR[] = {-4.418997716796381, 0.57923485225667, -0.199237560953468, 0.09416748369194548, -0.03181316888549383};
enum { RB_MOST_NEWTON = 10 };
static const double RB_LOOSE = 0.03;
static const double RB_CONTRACTION = 0.3;
static const double RB_REACH = 10.0;
static const double RB_SLOPES_AT = 0.75;
static const double RB_START_PART = 0.001;
static const double RB_PRICE_OF_SLOPES = 4.0;
static const double RB_PRICE_OF_ROSENBROCK = 7.85;
static const double RB_PRICE_OF_FACTORS = 0.45;
static const double RB_PRICE_OF_NEWTON = 7.45;
static const double RB_WINDOW = 94.8;
static const double RB_FIRST_TRUST = 3.0;
static const double RB_MOST_TRUST = 64.0;
static const double RB_NEWTON_CLOSE = 1e-05;
static inline void derivative(const double *in, double *out)
{
    (void)in;
    (void)out;
    const double v2 = in[3] * in[2]; /* w, d[2] */
    const double v3 = -v2;
    out[0] = v3; /* der(d[1]) */
    const double v6 = in[3] * in[1]; /* d[1] */
    out[1] = v6; /* der(d[2]) */
    const double v11 = in[7] * in[3]; /* b */
    const double v13 = (v11 < -1.0) ? 1.0 : 0.0;
    const double v14 = (v13 != 0.0) ? -1.0 : 0.0;
    const double v15 = (v13 == 0.0) ? 1.0 : 0.0;
    const double v16 = (v15 != 0.0) ? v11 : 0.0;
    const double v17 = v14 + v16;
    const double v18 = (1.0 < v17) ? 1.0 : 0.0;
    const double v19 = (v18 != 0.0) ? 1.0 : 0.0;
    const double v20 = (v18 == 0.0) ? 1.0 : 0.0;
    const double v21 = (v20 != 0.0) ? v17 : 0.0;
    const double v22 = v19 + v21;
    const double v23 = in[4] - v22; /* tau */
    const double v25 = v23 / in[6]; /* I */
    out[2] = v25; /* der(w) */
}

static inline void initial(const double *in, double *out)
{
    (void)in;
    (void)out;
    const double v2 = in[5] - in[3]; /* w_ref, w */
    const double v3 = v2 + v2;
    out[0] = v3; /* tau */
}

static inline void update(const double *in, double *out)
{
    (void)in;
    (void)out;
    const double v2 = in[5] - in[3]; /* w_ref, w */
    const double v3 = v2 + v2;
    out[0] = v3; /* tau */
}

static inline void output(const double *in, double *out)
{
    (void)in;
    (void)out;
    const double v2 = in[4] * in[3]; /* tau, w */
    out[0] = v2; /* P */
}

static inline void project(const double *in, double *out)
{
    (void)in;
    (void)out;
    const double v1 = in[1] * in[1]; /* d[1] */
    const double v3 = in[2] * in[2]; /* d[2] */
    const double v4 = v1 + v3;
    const double v5 = sqrt(v4);
    const double r0 = 1.0 / v5;
    const double v6 = in[1] * r0;
    out[0] = v6; /* d[1] */
    const double v8 = in[2] * r0;
    out[1] = v8; /* d[2] */
    out[2] = in[3]; /* w */
}

#endif
