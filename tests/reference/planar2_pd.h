/* PDController, traced to C. Operations: derivative 0, initial 0, update 0, output 10.

   index  port    element  unit
       0  t                s
   inputs
       1  q_ref   1        rad
       2  q_ref   2        rad
       3  q       1        rad
       4  q       2        rad
       5  qd_ref  1        rad/s
       6  qd_ref  2        rad/s
       7  qd      1        rad/s
       8  qd      2        rad/s
   tunable parameters
       9  kp      1        N.m/rad
      10  kp      2        N.m/rad
      11  kd      1        N.m.s/rad
      12  kd      2        N.m.s/rad
   computed outputs
      13  tau     1        N.m
      14  tau     2        N.m
*/

#ifndef RB_MODEL_H
#define RB_MODEL_H

#include <math.h>

enum { RB_T = 0, RB_X = 1, RB_NX = 0, RB_Z = 1, RB_NZ = 0, RB_U = 1, RB_NU = 8, RB_P = 9, RB_NP = 4, RB_Y = 13, RB_NY = 2, RB_S = 15, RB_NS = 0, RB_SIZE = 15 };
#define RB_LARGE 0
#define RB_PROJECTS 0
static const double RB_SAMPLE_TIME = 0.0;
static const double RB_INNER_STEP = 0.001;
static const double RB_START[] = {0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1000.0, 1000.0, 15.0, 15.0, 0.0, 0.0};
#define RB_ADAPTIVE 0
#define RB_EXPLICIT 1
#define RB_IMPLICIT 0
#define RB_LINEARLY_IMPLICIT 0
#define RB_COLLOCATION 0
#define RB_EXACT_SLOPES 0
enum { RB_STAGES = 4 };
static const double RB_A[5][4] = {{0.0, 0.0, 0.0, 0.0}, {0.5, 0.0, 0.0, 0.0}, {0.0, 0.5, 0.0, 0.0}, {0.0, 0.0, 1.0, 0.0}, {0.16666666666666666, 0.3333333333333333, 0.3333333333333333, 0.16666666666666666}};
static const double RB_A_POSITION[5][4] = {{0.0, 0.0, 0.0, 0.0}, {0.5, 0.0, 0.0, 0.0}, {0.0, 0.5, 0.0, 0.0}, {0.0, 0.0, 1.0, 0.0}, {0.16666666666666666, 0.3333333333333333, 0.3333333333333333, 0.16666666666666666}};
static const double RB_C[] = {0.0, 0.5, 0.5, 1.0};
static const unsigned char RB_POSITION[RB_NX + 1] = {0};
static inline void derivative(const double *in, double *out)
{
    (void)in;
    (void)out;
}

static inline void initial(const double *in, double *out)
{
    (void)in;
    (void)out;
}

static inline void update(const double *in, double *out)
{
    (void)in;
    (void)out;
}

static inline void output(const double *in, double *out)
{
    (void)in;
    (void)out;
    const double v3 = in[1] - in[3]; /* q_ref[1], q[1] */
    const double v4 = in[9] * v3; /* kp[1] */
    const double v8 = in[5] - in[7]; /* qd_ref[1], qd[1] */
    const double v9 = in[11] * v8; /* kd[1] */
    const double v10 = v4 + v9;
    out[0] = v10; /* tau[1] */
    const double v15 = in[2] - in[4]; /* q_ref[2], q[2] */
    const double v16 = in[10] * v15; /* kp[2] */
    const double v20 = in[6] - in[8]; /* qd_ref[2], qd[2] */
    const double v21 = in[12] * v20; /* kd[2] */
    const double v22 = v16 + v21;
    out[1] = v22; /* tau[2] */
}

#endif
