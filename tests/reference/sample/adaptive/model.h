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
enum { RB_MAX_INNER_STEPS = 0, 
       RB_ENOUGH_SIGNS = 15, RB_SCREEN_PAUSE = 16,
       RB_MOST_TRIES = 1000000, RB_TEST_TRIES = 10000 };
#define RB_ADAPTIVE 1
#define RB_EXPLICIT 1
#define RB_IMPLICIT 0
#define RB_LINEARLY_IMPLICIT 0
#define RB_COLLOCATION 0
#define RB_EXACT_SLOPES 0
enum { RB_STAGES = 7 };
static const double RB_A[8][7] = {{0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0}, {0.2, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0}, {0.075, 0.225, 0.0, 0.0, 0.0, 0.0, 0.0}, {0.9777777777777777, -3.7333333333333334, 3.5555555555555554, 0.0, 0.0, 0.0, 0.0}, {2.9525986892242035, -11.595793324188385, 9.822892851699436, -0.2908093278463649, 0.0, 0.0, 0.0}, {2.8462752525252526, -10.757575757575758, 8.906422717743473, 0.2784090909090909, -0.2735313036020583, 0.0, 0.0}, {0.09114583333333333, 0.0, 0.44923629829290207, 0.6510416666666666, -0.322376179245283, 0.13095238095238096, 0.0}, {0.09114583333333333, 0.0, 0.44923629829290207, 0.6510416666666666, -0.322376179245283, 0.13095238095238096, 0.0}};
static const double RB_A_POSITION[8][7] = {{0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0}, {0.2, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0}, {0.075, 0.225, 0.0, 0.0, 0.0, 0.0, 0.0}, {0.9777777777777777, -3.7333333333333334, 3.5555555555555554, 0.0, 0.0, 0.0, 0.0}, {2.9525986892242035, -11.595793324188385, 9.822892851699436, -0.2908093278463649, 0.0, 0.0, 0.0}, {2.8462752525252526, -10.757575757575758, 8.906422717743473, 0.2784090909090909, -0.2735313036020583, 0.0, 0.0}, {0.09114583333333333, 0.0, 0.44923629829290207, 0.6510416666666666, -0.322376179245283, 0.13095238095238096, 0.0}, {0.09114583333333333, 0.0, 0.44923629829290207, 0.6510416666666666, -0.322376179245283, 0.13095238095238096, 0.0}};
static const double RB_C[] = {0.0, 0.2, 0.3, 0.8, 0.8888888888888888, 1.0, 1.0};
static const unsigned char RB_POSITION[RB_NX + 1] = {0, 0, 0, 0};
static const double RB_ERROR[] = {0.0012326388888888888, 0.0, -0.0042527702905061394, 0.03697916666666667, -0.05086379716981132, 0.0419047619047619, -0.025};
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
