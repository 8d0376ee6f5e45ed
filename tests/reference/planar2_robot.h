/* RobotPlant, traced to C. Operations: derivative 42, initial 0, update 0, output 79.

   index  port     element  unit
       0  t                 s
   continuous states
       1  q        1        rad
       2  q        2        rad
       3  qd       1        rad/s
       4  qd       2        rad/s
   inputs
       5  tau      1        N.m
       6  tau      2        N.m
   tunable parameters
       7  gravity  1        m/s2
       8  gravity  2        m/s2
       9  gravity  3        m/s2
   computed outputs
      10  qdd      1        rad/s2
      11  qdd      2        rad/s2
      12  energy            J
*/

#ifndef RB_MODEL_H
#define RB_MODEL_H

#include <math.h>

enum { RB_T = 0, RB_X = 1, RB_NX = 4, RB_Z = 5, RB_NZ = 0, RB_U = 5, RB_NU = 2, RB_P = 7, RB_NP = 3, RB_Y = 10, RB_NY = 3, RB_S = 13, RB_NS = 0, RB_SIZE = 13 };
#define RB_LARGE 0
#define RB_PROJECTS 0
static const double RB_SAMPLE_TIME = 0.0;
static const double RB_INNER_STEP = 0.001;
static const double RB_START[] = {0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, -9.81, 0.0, 0.0, 0.0};
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
static const unsigned char RB_POSITION[RB_NX + 1] = {1, 1, 0, 0, 0};
static inline void derivative(const double *in, double *out)
{
    (void)in;
    (void)out;
    out[0] = in[3]; /* qd[1], der(q[1]) */
    out[1] = in[4]; /* qd[2], der(q[2]) */
    const double v7 = cos(in[2]); /* q[2] */
    const double v9 = sin(in[2]);
    const double v10 = in[3] * in[3];
    const double v11 = v9 * v10;
    const double v12 = -0.75 * v11;
    const double v14 = 1.5 * in[6]; /* tau[2] */
    const double v15 = v12 + v14;
    const double v16 = v7 * v15;
    const double v18 = in[3] + in[4];
    const double v19 = v18 * v18;
    const double v20 = 0.5 * v19;
    const double v21 = v9 * v20;
    const double v22 = v16 - v21;
    const double v23 = in[6] + v22;
    const double v24 = in[5] - v23; /* tau[1] */
    const double v25 = v9 * v9;
    const double v26 = -0.75 * v25;
    const double v27 = -0.75 - v26;
    const double v29 = v27 + 1.3333333333333333;
    const double r0 = 1.0 / v29;
    const double v30 = v24 * r0;
    const double v31 = v7 * v9;
    const double v32 = -0.75 * v31;
    const double v33 = v32 * r0;
    const double v35 = cos(in[1]); /* q[1] */
    const double v37 = v35 * in[7]; /* gravity[1] */
    const double v38 = sin(in[1]);
    const double v40 = v38 * in[8]; /* gravity[2] */
    const double v41 = v37 + v40;
    const double v42 = v33 * v41;
    const double v43 = v27 + 1.5;
    const double v44 = v43 * r0;
    const double v45 = v38 * in[7];
    const double v46 = v35 * in[8];
    const double v47 = v45 - v46;
    const double v48 = v44 * v47;
    const double v49 = v42 + v48;
    const double v50 = v30 - v49;
    out[2] = v50; /* der(qd[1]) */
    const double v53 = 3.0 * in[6];
    const double v54 = v9 * v41;
    const double v55 = v47 + v50;
    const double v56 = v7 * v55;
    const double v57 = v54 + v56;
    const double v58 = v57 + v11;
    const double v59 = 1.5 * v58;
    const double v60 = v50 + v59;
    const double v61 = v53 - v60;
    out[3] = v61; /* der(qd[2]) */
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
    const double v3 = cos(in[2]); /* q[2] */
    const double v5 = sin(in[2]);
    const double v7 = in[3] * in[3]; /* qd[1] */
    const double v8 = v5 * v7;
    const double v9 = -0.75 * v8;
    const double v11 = 1.5 * in[6]; /* tau[2] */
    const double v12 = v9 + v11;
    const double v13 = v3 * v12;
    const double v16 = in[3] + in[4]; /* qd[2] */
    const double v17 = v16 * v16;
    const double v18 = 0.5 * v17;
    const double v19 = v5 * v18;
    const double v20 = v13 - v19;
    const double v21 = in[6] + v20;
    const double v22 = in[5] - v21; /* tau[1] */
    const double v23 = v5 * v5;
    const double v24 = -0.75 * v23;
    const double v25 = -0.75 - v24;
    const double v27 = v25 + 1.3333333333333333;
    const double r0 = 1.0 / v27;
    const double v28 = v22 * r0;
    const double v29 = v3 * v5;
    const double v30 = -0.75 * v29;
    const double v31 = v30 * r0;
    const double v33 = cos(in[1]); /* q[1] */
    const double v35 = v33 * in[7]; /* gravity[1] */
    const double v36 = sin(in[1]);
    const double v38 = v36 * in[8]; /* gravity[2] */
    const double v39 = v35 + v38;
    const double v40 = v31 * v39;
    const double v41 = v25 + 1.5;
    const double v42 = v41 * r0;
    const double v43 = v36 * in[7];
    const double v44 = v33 * in[8];
    const double v45 = v43 - v44;
    const double v46 = v42 * v45;
    const double v47 = v40 + v46;
    const double v48 = v28 - v47;
    out[0] = v48; /* qdd[1] */
    const double v51 = 3.0 * in[6];
    const double v52 = v5 * v39;
    const double v53 = v45 + v48;
    const double v54 = v3 * v53;
    const double v55 = v52 + v54;
    const double v56 = v55 + v8;
    const double v57 = 1.5 * v56;
    const double v58 = v48 + v57;
    const double v59 = v51 - v58;
    out[1] = v59; /* qdd[2] */
    const double v62 = 0.3333333333333333 * in[3];
    const double v63 = in[3] * v62;
    const double r1 = 1.0 / 2.0;
    const double v65 = v63 * r1;
    const double v66 = 0.3333333333333333 * v16;
    const double v67 = v3 * in[3];
    const double v68 = 0.5 * v67;
    const double v69 = v66 + v68;
    const double v70 = v16 * v69;
    const double v71 = v5 * in[3];
    const double v72 = v71 * v71;
    const double v73 = v70 + v72;
    const double v74 = 0.5 * v16;
    const double v75 = v67 + v74;
    const double v76 = v67 * v75;
    const double v77 = v73 + v76;
    const double v78 = v77 * r1;
    const double v79 = v65 + v78;
    const double v80 = 0.5 * v33;
    const double v81 = in[7] * v80;
    const double v82 = 0.5 * v36;
    const double v83 = in[8] * v82;
    const double v84 = v81 + v83;
    const double v85 = v3 * v33;
    const double v86 = v5 * v36;
    const double v87 = v85 - v86;
    const double v88 = 0.5 * v87;
    const double v89 = v33 + v88;
    const double v90 = in[7] * v89;
    const double v91 = v3 * v36;
    const double v92 = v5 * v33;
    const double v93 = v91 + v92;
    const double v94 = 0.5 * v93;
    const double v95 = v36 + v94;
    const double v96 = in[8] * v95;
    const double v97 = v90 + v96;
    const double v98 = v84 + v97;
    const double v99 = v79 - v98;
    out[2] = v99; /* energy */
}

#endif
