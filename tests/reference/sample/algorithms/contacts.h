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
    const double v3 = in[0] * in[15];
    const double v4 = (in[12] < v3 || in[12] != in[12]) ? in[12] : v3;
    const double v5 = fabs(v4);
    const double v9 = in[10] * in[13];
    const double v10 = in[16] - v9;
    const double v11 = v10 * v10;
    const double v15 = in[11] * in[14];
    const double v16 = in[17] - v15;
    const double v17 = v16 * v16;
    const double v18 = v11 + v17;
    const double v19 = sqrt(v18);
    const double v21 = in[18] * in[15];
    const double v23 = v21 + in[19];
    const double v24 = (v19 < v23) ? 1.0 : 0.0;
    const double v26 = (v24 != 0.0) ? 1.0 : 0.0;
    const double v27 = (v24 == 0.0) ? 1.0 : 0.0;
    const double v29 = (v19 < 1e-200) ? 1.0 : 0.0;
    const double v30 = (v29 != 0.0) ? 1e-200 : 0.0;
    const double v31 = (v29 == 0.0) ? 1.0 : 0.0;
    const double v32 = (v31 != 0.0) ? v19 : 0.0;
    const double v33 = v30 + v32;
    const double v34 = v23 / v33;
    const double v35 = (v27 != 0.0) ? v34 : 0.0;
    const double v36 = v26 + v35;
    const double v37 = v36 * v10;
    const double v38 = v37 - in[16];
    const double v39 = fabs(v38);
    const double v40 = (in[10] < 1e-200) ? 1.0 : 0.0;
    const double v41 = (v40 != 0.0) ? 1e-200 : 0.0;
    const double v42 = (v40 == 0.0) ? 1.0 : 0.0;
    const double v43 = (v42 != 0.0) ? in[10] : 0.0;
    const double v44 = v41 + v43;
    const double v45 = v39 / v44;
    const double v46 = (v5 > v45 || v5 != v5) ? v5 : v45;
    const double v47 = v36 * v16;
    const double v48 = v47 - in[17];
    const double v49 = fabs(v48);
    const double v50 = (in[11] < 1e-200) ? 1.0 : 0.0;
    const double v51 = (v50 != 0.0) ? 1e-200 : 0.0;
    const double v52 = (v50 == 0.0) ? 1.0 : 0.0;
    const double v53 = (v52 != 0.0) ? in[11] : 0.0;
    const double v54 = v51 + v53;
    const double v55 = v49 / v54;
    const double v56 = (v46 > v55 || v46 != v46) ? v46 : v55;
    out[0] = v56;
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
    const double v4 = (in[2] < v3 || in[2] != in[2]) ? in[2] : v3;
    const double v5 = fabs(v4);
    out[0] = v5;
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
