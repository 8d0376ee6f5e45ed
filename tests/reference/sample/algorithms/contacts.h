#ifndef RB_CONTACTS_H
#define RB_CONTACTS_H

#include <math.h>

enum { RB_N = 4, RB_COUNT = 2, RB_FRICTION = 1, RB_SWEEPS = 10 };
static inline void forces3(const double *in, double *out)
{
    (void)in;
    (void)out;
    const double v3 = in[9] * in[12];
    const double v4 = in[15] - v3;
    const double v6 = (v4 < 0.0) ? 1.0 : 0.0;
    const double v7 = (v6 == 0.0) ? 1.0 : 0.0;
    const double v8 = (v7 != 0.0) ? v4 : 0.0;
    out[0] = v8;
    const double v14 = v8 - in[15];
    const double v15 = in[3] * v14;
    const double v16 = in[13] + v15;
    const double v17 = in[10] * v16;
    const double v18 = in[16] - v17;
    const double v19 = v18 * v18;
    const double v24 = in[6] * v14;
    const double v25 = in[14] + v24;
    const double v26 = in[11] * v25;
    const double v27 = in[17] - v26;
    const double v28 = v27 * v27;
    const double v29 = v19 + v28;
    const double v30 = sqrt(v29);
    const double v32 = in[18] * v4;
    const double v33 = (v7 != 0.0) ? v32 : 0.0;
    const double v35 = v33 + in[19];
    const double v36 = (v30 < v35) ? 1.0 : 0.0;
    const double v38 = (v36 != 0.0) ? 1.0 : 0.0;
    const double v39 = (v36 == 0.0) ? 1.0 : 0.0;
    const double v41 = (v30 < 1e-200) ? 1.0 : 0.0;
    const double v42 = (v41 != 0.0) ? 1e-200 : 0.0;
    const double v43 = (v41 == 0.0) ? 1.0 : 0.0;
    const double v44 = (v43 != 0.0) ? v30 : 0.0;
    const double v45 = v42 + v44;
    const double v46 = v35 / v45;
    const double v47 = (v39 != 0.0) ? v46 : 0.0;
    const double v48 = v38 + v47;
    const double v49 = v48 * v18;
    out[1] = v49;
    const double v51 = v48 * v27;
    out[2] = v51;
}
static inline void rates3(const double *in, double *out)
{
    (void)in;
    (void)out;
    const double v2 = (in[0] < 1e-200) ? 1.0 : 0.0;
    const double v3 = (v2 == 0.0) ? 1.0 : 0.0;
    const double v4 = (v2 != 0.0) ? 1e-200 : 0.0;
    const double v5 = (v3 != 0.0) ? in[0] : 0.0;
    const double v6 = v4 + v5;
    const double v7 = 1.0 / v6;
    const double v8 = (v3 != 0.0) ? v7 : 0.0;
    out[0] = v8;
    const double v12 = in[4] + in[8];
    const double r0 = 1.0 / 2.0;
    const double v14 = v12 * r0;
    const double v15 = in[4] - in[8];
    const double v16 = v15 * r0;
    const double v17 = v16 * v16;
    const double v19 = in[5] * in[5];
    const double v20 = v17 + v19;
    const double v21 = sqrt(v20);
    const double v22 = v14 + v21;
    const double v23 = (v22 < 1e-200) ? 1.0 : 0.0;
    const double v24 = (v23 == 0.0) ? 1.0 : 0.0;
    const double v25 = (v23 != 0.0) ? 1e-200 : 0.0;
    const double v26 = (v24 != 0.0) ? v22 : 0.0;
    const double v27 = v25 + v26;
    const double v28 = 1.0 / v27;
    const double v29 = (v24 != 0.0) ? v28 : 0.0;
    out[1] = v29;
    out[2] = v29;
}
static inline void error3(const double *in, double *out)
{
    (void)in;
    (void)out;
    const double v3 = in[10] * in[13];
    const double v4 = in[16] - v3;
    const double v5 = v4 * v4;
    const double v9 = in[11] * in[14];
    const double v10 = in[17] - v9;
    const double v11 = v10 * v10;
    const double v12 = v5 + v11;
    const double v13 = sqrt(v12);
    const double v16 = in[18] * in[15];
    const double v18 = v16 + in[19];
    const double v19 = (v13 < v18) ? 1.0 : 0.0;
    const double v21 = (v19 != 0.0) ? 1.0 : 0.0;
    const double v22 = (v19 == 0.0) ? 1.0 : 0.0;
    const double v24 = (v13 < 1e-200) ? 1.0 : 0.0;
    const double v25 = (v24 != 0.0) ? 1e-200 : 0.0;
    const double v26 = (v24 == 0.0) ? 1.0 : 0.0;
    const double v27 = (v26 != 0.0) ? v13 : 0.0;
    const double v28 = v25 + v27;
    const double v29 = v18 / v28;
    const double v30 = (v22 != 0.0) ? v29 : 0.0;
    const double v31 = v21 + v30;
    const double v32 = v31 * v10;
    const double v33 = v32 - in[17];
    const double v34 = fabs(v33);
    const double v35 = (in[11] < 1e-200) ? 1.0 : 0.0;
    const double v36 = (v35 != 0.0) ? 1e-200 : 0.0;
    const double v37 = (v35 == 0.0) ? 1.0 : 0.0;
    const double v38 = (v37 != 0.0) ? in[11] : 0.0;
    const double v39 = v36 + v38;
    const double v40 = v34 / v39;
    const double v41 = v31 * v4;
    const double v42 = v41 - in[16];
    const double v43 = fabs(v42);
    const double v44 = (in[10] < 1e-200) ? 1.0 : 0.0;
    const double v45 = (v44 != 0.0) ? 1e-200 : 0.0;
    const double v46 = (v44 == 0.0) ? 1.0 : 0.0;
    const double v47 = (v46 != 0.0) ? in[10] : 0.0;
    const double v48 = v45 + v47;
    const double v49 = v43 / v48;
    const double v52 = in[0] * in[15];
    const double v53 = (in[12] < v52) ? 1.0 : 0.0;
    const double v54 = (v53 != 0.0) ? in[12] : 0.0;
    const double v55 = (v53 == 0.0) ? 1.0 : 0.0;
    const double v56 = (v55 != 0.0) ? v52 : 0.0;
    const double v57 = v54 + v56;
    const double v58 = fabs(v57);
    const double v59 = (v49 < v58) ? 1.0 : 0.0;
    const double v60 = (v59 != 0.0) ? v58 : 0.0;
    const double v61 = (v59 == 0.0) ? 1.0 : 0.0;
    const double v62 = (v61 != 0.0) ? v49 : 0.0;
    const double v63 = v60 + v62;
    const double v64 = (v40 < v63) ? 1.0 : 0.0;
    const double v65 = (v64 != 0.0) ? v63 : 0.0;
    const double v66 = (v64 == 0.0) ? 1.0 : 0.0;
    const double v67 = (v66 != 0.0) ? v40 : 0.0;
    const double v68 = v65 + v67;
    out[0] = v68;
}
static inline void forces1(const double *in, double *out)
{
    (void)in;
    (void)out;
    const double v3 = in[1] * in[2];
    const double v4 = in[3] - v3;
    const double v6 = (v4 < 0.0) ? 1.0 : 0.0;
    const double v7 = (v6 == 0.0) ? 1.0 : 0.0;
    const double v8 = (v7 != 0.0) ? v4 : 0.0;
    out[0] = v8;
}
static inline void rates1(const double *in, double *out)
{
    (void)in;
    (void)out;
    const double v2 = (in[0] < 1e-200) ? 1.0 : 0.0;
    const double v3 = (v2 == 0.0) ? 1.0 : 0.0;
    const double v4 = (v2 != 0.0) ? 1e-200 : 0.0;
    const double v5 = (v3 != 0.0) ? in[0] : 0.0;
    const double v6 = v4 + v5;
    const double v7 = 1.0 / v6;
    const double v8 = (v3 != 0.0) ? v7 : 0.0;
    out[0] = v8;
}
static inline void error1(const double *in, double *out)
{
    (void)in;
    (void)out;
    const double v3 = in[0] * in[3];
    const double v4 = (in[2] < v3) ? 1.0 : 0.0;
    const double v5 = (v4 != 0.0) ? in[2] : 0.0;
    const double v6 = (v4 == 0.0) ? 1.0 : 0.0;
    const double v7 = (v6 != 0.0) ? v3 : 0.0;
    const double v8 = v5 + v7;
    const double v9 = fabs(v8);
    out[0] = v9;
}
static inline void goes_on(const double *in, double *out)
{
    (void)in;
    (void)out;
    const double v2 = (in[0] < in[1]) ? 1.0 : 0.0;
    const double v4 = (in[1] < 1e-200) ? 1.0 : 0.0;
    const double v5 = (v4 != 0.0) ? 1e-200 : 0.0;
    const double v6 = (v4 == 0.0) ? 1.0 : 0.0;
    const double v7 = (v6 != 0.0) ? in[1] : 0.0;
    const double v8 = v5 + v7;
    const double v9 = in[0] / v8;
    const double v10 = (v2 != 0.0) ? v9 : 0.0;
    out[0] = v10;
}

#endif
