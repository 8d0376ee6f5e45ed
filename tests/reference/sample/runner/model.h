/* FusedSystem, traced to C. Operations: derivative 0, initial 9, update 145, output 0.

   index  port         element  unit
       0  t                     s
   sampled states
       1  table.d      1        1
       2  table.d      2        1
       3  table.w               rad/s
       4  table.tau             N.m
       5  table.P               W
   inputs
       6  table.w_ref           rad/s
   tunable parameters
       7  table.I               kg.m2
       8  table.b               N.m.s/rad
*/

#ifndef RB_MODEL_H
#define RB_MODEL_H

#include <math.h>

enum { RB_T = 0, RB_X = 1, RB_NX = 0, RB_Z = 1, RB_NZ = 5, RB_U = 6, RB_NU = 1, RB_P = 7, RB_NP = 2, RB_Y = 9, RB_NY = 0, RB_S = 9, RB_NS = 0, RB_SIZE = 9 };
#define RB_PROJECTS 0
static const double RB_SAMPLE_TIME = 0.002;
static const double RB_INNER_STEP = 0.001;
static const double RB_START[] = {0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.5, 0.1};
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
    const double v1 = in[1] * in[1]; /* table.d[1] */
    const double v3 = in[2] * in[2]; /* table.d[2] */
    const double v4 = v1 + v3;
    const double v5 = sqrt(v4);
    const double r0 = 1.0 / v5;
    const double v6 = in[1] * r0;
    out[0] = v6; /* table.d[1] */
    const double v8 = in[2] * r0;
    out[1] = v8; /* table.d[2] */
    out[2] = in[3]; /* table.w */
    const double v13 = in[6] - in[3]; /* table.w_ref */
    const double v14 = v13 + v13;
    out[3] = v14; /* table.tau */
    const double v16 = v14 * in[3];
    out[4] = v16; /* table.P */
}

static inline void update(const double *in, double *out)
{
    (void)in;
    (void)out;
    const double v5 = in[3] * in[2]; /* table.w, table.d[2] */
    const double v6 = 0.16666666666666666 * v5;
    const double v11 = in[8] * in[3]; /* table.b */
    const double v12 = in[4] - v11; /* table.tau */
    const double r0 = 1.0 / in[7]; /* table.I */
    const double v14 = v12 * r0;
    const double v15 = 0.0005 * v14;
    const double v16 = in[3] + v15;
    const double v17 = in[3] * in[1]; /* table.d[1] */
    const double v18 = 0.0005 * v17;
    const double v19 = in[2] + v18;
    const double v20 = v16 * v19;
    const double v21 = 0.3333333333333333 * v20;
    const double v22 = v6 + v21;
    const double v23 = in[8] * v16;
    const double v24 = in[4] - v23;
    const double v25 = v24 * r0;
    const double v26 = 0.0005 * v25;
    const double v27 = in[3] + v26;
    const double v28 = 0.0005 * v5;
    const double v29 = in[1] - v28;
    const double v30 = v16 * v29;
    const double v31 = 0.0005 * v30;
    const double v32 = in[2] + v31;
    const double v33 = v27 * v32;
    const double v34 = 0.3333333333333333 * v33;
    const double v35 = v22 + v34;
    const double v36 = in[8] * v27;
    const double v37 = in[4] - v36;
    const double v38 = v37 * r0;
    const double v39 = 0.001 * v38;
    const double v40 = in[3] + v39;
    const double v41 = 0.0005 * v20;
    const double v42 = in[1] - v41;
    const double v43 = v27 * v42;
    const double v44 = 0.001 * v43;
    const double v45 = in[2] + v44;
    const double v46 = v40 * v45;
    const double v47 = 0.16666666666666666 * v46;
    const double v48 = v35 + v47;
    const double v49 = 0.001 * v48;
    const double v50 = in[1] - v49;
    const double v51 = v50 * v50;
    const double v52 = 0.16666666666666666 * v17;
    const double v53 = 0.3333333333333333 * v30;
    const double v54 = v52 + v53;
    const double v55 = 0.3333333333333333 * v43;
    const double v56 = v54 + v55;
    const double v57 = 0.001 * v33;
    const double v58 = in[1] - v57;
    const double v59 = v40 * v58;
    const double v60 = 0.16666666666666666 * v59;
    const double v61 = v56 + v60;
    const double v62 = 0.001 * v61;
    const double v63 = in[2] + v62;
    const double v64 = v63 * v63;
    const double v65 = v51 + v64;
    const double v66 = sqrt(v65);
    const double r1 = 1.0 / v66;
    const double v67 = v50 * r1;
    const double v68 = 0.16666666666666666 * v14;
    const double v69 = 0.3333333333333333 * v25;
    const double v70 = v68 + v69;
    const double v71 = 0.3333333333333333 * v38;
    const double v72 = v70 + v71;
    const double v73 = in[8] * v40;
    const double v74 = in[4] - v73;
    const double v75 = v74 * r0;
    const double v76 = 0.16666666666666666 * v75;
    const double v77 = v72 + v76;
    const double v78 = 0.001 * v77;
    const double v79 = in[3] + v78;
    const double v80 = v63 * r1;
    const double v81 = v79 * v80;
    const double v82 = 0.16666666666666666 * v81;
    const double v83 = in[8] * v79;
    const double v84 = in[4] - v83;
    const double v85 = v84 * r0;
    const double v86 = 0.0005 * v85;
    const double v87 = v79 + v86;
    const double v88 = v79 * v67;
    const double v89 = 0.0005 * v88;
    const double v90 = v80 + v89;
    const double v91 = v87 * v90;
    const double v92 = 0.3333333333333333 * v91;
    const double v93 = v82 + v92;
    const double v94 = in[8] * v87;
    const double v95 = in[4] - v94;
    const double v96 = v95 * r0;
    const double v97 = 0.0005 * v96;
    const double v98 = v79 + v97;
    const double v99 = 0.0005 * v81;
    const double v100 = v67 - v99;
    const double v101 = v87 * v100;
    const double v102 = 0.0005 * v101;
    const double v103 = v80 + v102;
    const double v104 = v98 * v103;
    const double v105 = 0.3333333333333333 * v104;
    const double v106 = v93 + v105;
    const double v107 = in[8] * v98;
    const double v108 = in[4] - v107;
    const double v109 = v108 * r0;
    const double v110 = 0.001 * v109;
    const double v111 = v79 + v110;
    const double v112 = 0.0005 * v91;
    const double v113 = v67 - v112;
    const double v114 = v98 * v113;
    const double v115 = 0.001 * v114;
    const double v116 = v80 + v115;
    const double v117 = v111 * v116;
    const double v118 = 0.16666666666666666 * v117;
    const double v119 = v106 + v118;
    const double v120 = 0.001 * v119;
    const double v121 = v67 - v120;
    const double v122 = v121 * v121;
    const double v123 = 0.16666666666666666 * v88;
    const double v124 = 0.3333333333333333 * v101;
    const double v125 = v123 + v124;
    const double v126 = 0.3333333333333333 * v114;
    const double v127 = v125 + v126;
    const double v128 = 0.001 * v104;
    const double v129 = v67 - v128;
    const double v130 = v111 * v129;
    const double v131 = 0.16666666666666666 * v130;
    const double v132 = v127 + v131;
    const double v133 = 0.001 * v132;
    const double v134 = v80 + v133;
    const double v135 = v134 * v134;
    const double v136 = v122 + v135;
    const double v137 = sqrt(v136);
    const double r2 = 1.0 / v137;
    const double v138 = v121 * r2;
    out[0] = v138; /* table.d[1] */
    const double v140 = v134 * r2;
    out[1] = v140; /* table.d[2] */
    const double v142 = 0.16666666666666666 * v85;
    const double v143 = 0.3333333333333333 * v96;
    const double v144 = v142 + v143;
    const double v145 = 0.3333333333333333 * v109;
    const double v146 = v144 + v145;
    const double v147 = in[8] * v111;
    const double v148 = in[4] - v147;
    const double v149 = v148 * r0;
    const double v150 = 0.16666666666666666 * v149;
    const double v151 = v146 + v150;
    const double v152 = 0.001 * v151;
    const double v153 = v79 + v152;
    out[2] = v153; /* table.w */
    const double v156 = in[6] - v153; /* table.w_ref */
    const double v157 = v156 + v156;
    out[3] = v157; /* table.tau */
    const double v159 = v157 * v153;
    out[4] = v159; /* table.P */
}

static inline void output(const double *in, double *out)
{
    (void)in;
    (void)out;
}

#endif
