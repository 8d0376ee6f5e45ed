/* RobotPlant, traced to C. Operations: derivative 44, initial 0, update 0, output 81. */
#include <math.h>

enum { T = 0, X = 1, NX = 4, Z = 5, NZ = 0, U = 5, NU = 2, P = 7, NP = 3, Y = 10, NY = 3, SIZE = 13, STAGES = 4 };
#define PROJECTS 0
static const double SAMPLE_TIME = 0.0;
static const double INNER_STEP = 0.001;
static const double START[] = {0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, -9.81, 0.0, 0.0, 0.0};
static const double A[STAGES + 1][STAGES] = {{0.0, 0.0, 0.0, 0.0}, {0.5, 0.0, 0.0, 0.0}, {0.0, 0.5, 0.0, 0.0}, {0.0, 0.0, 1.0, 0.0}, {0.16666666666666666, 0.3333333333333333, 0.3333333333333333, 0.16666666666666666}};
static const double A_POSITION[STAGES + 1][STAGES] = {{0.0, 0.0, 0.0, 0.0}, {0.5, 0.0, 0.0, 0.0}, {0.0, 0.5, 0.0, 0.0}, {0.0, 0.0, 1.0, 0.0}, {0.16666666666666666, 0.3333333333333333, 0.3333333333333333, 0.16666666666666666}};
static const double C[] = {0.0, 0.5, 0.5, 1.0};
static const unsigned char POSITION[NX + 1] = {1, 1, 0, 0, 0};
static void derivative(const double *in, double *out)
{
    (void)in;
    (void)out;
    out[0] = in[3];
    out[1] = in[4];
    const double v7 = cos(in[2]);
    const double v9 = sin(in[2]);
    const double v10 = in[3] * in[3];
    const double v11 = v9 * v10;
    const double v12 = 0.25 * v11;
    const double v14 = 1.5 * in[6];
    const double v15 = v12 + v14;
    const double v16 = v7 * v15;
    const double v18 = in[3] + in[4];
    const double v19 = v18 * v18;
    const double v20 = 0.5 * v19;
    const double v21 = v7 * v10;
    const double v22 = v20 + v21;
    const double v23 = v9 * v22;
    const double v24 = v16 - v23;
    const double v25 = in[6] + v24;
    const double v26 = in[5] - v25;
    const double v28 = v9 * v9;
    const double v29 = (-0.75) * v28;
    const double v30 = 0.25 - v29;
    const double v32 = v30 + 0.3333333333333333;
    const double r0 = 1.0 / v32;
    const double v33 = v26 * r0;
    const double v34 = v7 * v9;
    const double v35 = (-0.75) * v34;
    const double v36 = v35 * r0;
    const double v38 = cos(in[1]);
    const double v40 = v38 * in[7];
    const double v41 = sin(in[1]);
    const double v43 = v41 * in[8];
    const double v44 = v40 + v43;
    const double v45 = v36 * v44;
    const double v46 = v30 + 0.5;
    const double v47 = v46 * r0;
    const double v48 = v41 * in[7];
    const double v49 = v38 * in[8];
    const double v50 = v48 - v49;
    const double v51 = v47 * v50;
    const double v52 = v45 + v51;
    const double v53 = v33 - v52;
    out[2] = v53;
    const double v56 = 3.0 * in[6];
    const double v57 = v9 * v44;
    const double v58 = v50 + v53;
    const double v59 = v7 * v58;
    const double v60 = v57 + v59;
    const double v61 = v60 + v11;
    const double v62 = 1.5 * v61;
    const double v63 = v53 + v62;
    const double v64 = v56 - v63;
    out[3] = v64;
}

static void initial(const double *in, double *out)
{
    (void)in;
    (void)out;

}

static void update(const double *in, double *out)
{
    (void)in;
    (void)out;

}

static void output(const double *in, double *out)
{
    (void)in;
    (void)out;
    const double v3 = cos(in[2]);
    const double v5 = sin(in[2]);
    const double v7 = in[3] * in[3];
    const double v8 = v5 * v7;
    const double v9 = 0.25 * v8;
    const double v11 = 1.5 * in[6];
    const double v12 = v9 + v11;
    const double v13 = v3 * v12;
    const double v16 = in[3] + in[4];
    const double v17 = v16 * v16;
    const double v18 = 0.5 * v17;
    const double v19 = v3 * v7;
    const double v20 = v18 + v19;
    const double v21 = v5 * v20;
    const double v22 = v13 - v21;
    const double v23 = in[6] + v22;
    const double v24 = in[5] - v23;
    const double v26 = v5 * v5;
    const double v27 = (-0.75) * v26;
    const double v28 = 0.25 - v27;
    const double v30 = v28 + 0.3333333333333333;
    const double r0 = 1.0 / v30;
    const double v31 = v24 * r0;
    const double v32 = v3 * v5;
    const double v33 = (-0.75) * v32;
    const double v34 = v33 * r0;
    const double v36 = cos(in[1]);
    const double v38 = v36 * in[7];
    const double v39 = sin(in[1]);
    const double v41 = v39 * in[8];
    const double v42 = v38 + v41;
    const double v43 = v34 * v42;
    const double v44 = v28 + 0.5;
    const double v45 = v44 * r0;
    const double v46 = v39 * in[7];
    const double v47 = v36 * in[8];
    const double v48 = v46 - v47;
    const double v49 = v45 * v48;
    const double v50 = v43 + v49;
    const double v51 = v31 - v50;
    out[0] = v51;
    const double v54 = 3.0 * in[6];
    const double v55 = v5 * v42;
    const double v56 = v48 + v51;
    const double v57 = v3 * v56;
    const double v58 = v55 + v57;
    const double v59 = v58 + v8;
    const double v60 = 1.5 * v59;
    const double v61 = v51 + v60;
    const double v62 = v54 - v61;
    out[1] = v62;
    const double v64 = 0.3333333333333333 * in[3];
    const double v65 = in[3] * v64;
    const double r1 = 1.0 / 2.0;
    const double v67 = v65 * r1;
    const double v68 = 0.3333333333333333 * v16;
    const double v69 = v3 * in[3];
    const double v70 = 0.5 * v69;
    const double v71 = v68 + v70;
    const double v72 = v16 * v71;
    const double v73 = v5 * in[3];
    const double v74 = v73 * v73;
    const double v75 = v72 + v74;
    const double v76 = 0.5 * v16;
    const double v77 = v69 + v76;
    const double v78 = v69 * v77;
    const double v79 = v75 + v78;
    const double v80 = v79 * r1;
    const double v81 = v67 + v80;
    const double v82 = 0.5 * v36;
    const double v83 = in[7] * v82;
    const double v84 = 0.5 * v39;
    const double v85 = in[8] * v84;
    const double v86 = v83 + v85;
    const double v87 = v3 * v36;
    const double v88 = v5 * v39;
    const double v89 = v87 - v88;
    const double v90 = 0.5 * v89;
    const double v91 = v36 + v90;
    const double v92 = in[7] * v91;
    const double v93 = v3 * v39;
    const double v94 = v5 * v36;
    const double v95 = v93 + v94;
    const double v96 = 0.5 * v95;
    const double v97 = v39 + v96;
    const double v98 = in[8] * v97;
    const double v99 = v92 + v98;
    const double v100 = v86 + v99;
    const double v101 = v81 - v100;
    out[2] = v101;
}
