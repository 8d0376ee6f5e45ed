/* Turntable, traced to C. Operations: derivative 16, initial 2, update 2, output 1, project 6, rate_slopes 14.

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
enum { RB_MAX_INNER_STEPS = 20, 
       RB_ENOUGH_SIGNS = 15, RB_SCREEN_PAUSE = 16,
       RB_MOST_TRIES = 1000000, RB_TEST_TRIES = 10000 };
#define RB_ADAPTIVE 1
#define RB_EXPLICIT 0
#define RB_IMPLICIT 1
#define RB_LINEARLY_IMPLICIT 1
#define RB_COLLOCATION 0
#define RB_EXACT_SLOPES 1
enum { RB_IMPLICIT_STAGES = 6 };
static const double RB_GAMMA = 0.25;
static const double RB_IMPLICIT_A[7][6] = {{0.0, 0.0, 0.0, 0.0, 0.0, 0.0}, {3.0, 0.0, 0.0, 0.0, 0.0, 0.0}, {1.831036793486759, 0.4955183967433795, 0.0, 0.0, 0.0, 0.0}, {2.304376582692669, -0.05249275245743001, -1.176798761832782, 0.0, 0.0, 0.0}, {-7.170454962423024, -4.741636671481785, -16.31002631330971, -1.062004044111401, 0.0, 0.0}, {-7.170454962423024, -4.741636671481785, -16.31002631330971, -1.062004044111401, 1.0, 0.0}, {-7.170454962423024, -4.741636671481785, -16.31002631330971, -1.062004044111401, 1.0, 1.0}};
static const double RB_IMPLICIT_C[] = {0.0, 0.75, 0.21, 0.63, 1.0, 1.0};
static const double RB_COUPLING[7][6] = {{0.0, 0.0, 0.0, 0.0, 0.0, 0.0}, {-12.0, 0.0, 0.0, 0.0, 0.0, 0.0}, {-8.791795173947035, -2.207865586973518, 0.0, 0.0, 0.0, 0.0}, {10.81793056857153, 6.780270611428266, 19.5348594464241, 0.0, 0.0, 0.0}, {34.19095006749676, 15.49671153725963, 54.7476087596413, 14.16005392148534, 0.0, 0.0}, {34.62605830930532, 15.30084976114473, 56.99955578662667, 18.40807009793095, -5.714285714285717, 0.0}, {0.0, 0.0, 0.0, 0.0, 0.0, 0.0}};
static const double RB_TIME[] = {0.25, -0.5, -0.023504, -0.0362, 0.0, 0.0};
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

static inline void rate_slopes(const double *in, double *out)
{
    (void)in;
    (void)out;
    out[0] = 0.0; /* d der(d[1]) / d d[1] */
    const double v3 = -in[3]; /* w */
    out[1] = v3; /* d der(d[1]) / d d[2] */
    const double v6 = -in[2]; /* d[2] */
    out[2] = v6; /* d der(d[1]) / d w */
    out[3] = in[3]; /* d der(d[2]) / d d[1] */
    out[4] = 0.0; /* d der(d[2]) / d d[2] */
    out[5] = in[1]; /* d[1], d der(d[2]) / d w */
    out[6] = 0.0; /* d der(w) / d d[1] */
    out[7] = 0.0; /* d der(w) / d d[2] */
    const double v16 = in[7] * in[3]; /* b */
    const double v18 = (v16 < -1.0) ? 1.0 : 0.0;
    const double v19 = (v18 != 0.0) ? -1.0 : 0.0;
    const double v20 = (v18 == 0.0) ? 1.0 : 0.0;
    const double v21 = (v20 != 0.0) ? v16 : 0.0;
    const double v22 = v19 + v21;
    const double v23 = (1.0 < v22) ? 1.0 : 0.0;
    const double v24 = (v23 == 0.0) ? 1.0 : 0.0;
    const double v26 = in[7] / in[6]; /* I */
    const double v27 = -v26;
    const double v28 = (v20 != 0.0) ? v27 : 0.0;
    const double v29 = (v24 != 0.0) ? v28 : 0.0;
    out[8] = v29; /* d der(w) / d w */
    out[9] = 0.0; /* d der(d[1]) / d t */
    out[10] = 0.0; /* d der(d[2]) / d t */
    out[11] = 0.0; /* d der(w) / d t */
}

#endif
