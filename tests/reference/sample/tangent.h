/* Derivatives of Turntable, traced to C. Operations: 34. */

#ifndef RB_TANGENT_H
#define RB_TANGENT_H

#include <math.h>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((minsize)), apply_to = function)
#elif defined(__GNUC__)
#pragma GCC push_options
#pragma GCC optimize("Os")
#endif
static inline void tangent(const double *in, double *out)
{
    (void)in;
    (void)out;
    const double v2 = in[2] * in[12]; /* d[2], change of w */
    const double v5 = in[3] * in[11]; /* w, change of d[2] */
    const double v6 = v2 + v5;
    const double v7 = -v6;
    out[0] = v7; /* change of der(d[1]) */
    const double v10 = in[1] * in[12]; /* d[1] */
    const double v12 = in[3] * in[10]; /* change of d[1] */
    const double v13 = v10 + v12;
    out[1] = v13; /* change of der(d[2]) */
    const double v18 = in[7] * in[3]; /* b */
    const double v20 = (v18 < (-1.0)) ? 1.0 : 0.0;
    const double v21 = (v20 != 0.0) ? (-1.0) : 0.0;
    const double v22 = (v20 == 0.0) ? 1.0 : 0.0;
    const double v23 = (v22 != 0.0) ? v18 : 0.0;
    const double v24 = v21 + v23;
    const double v25 = (1.0 < v24) ? 1.0 : 0.0;
    const double v26 = (v25 == 0.0) ? 1.0 : 0.0;
    const double v28 = in[3] * in[16]; /* change of b */
    const double v29 = in[7] * in[12];
    const double v30 = v28 + v29;
    const double v31 = -v30;
    const double v32 = (v22 != 0.0) ? v31 : 0.0;
    const double v33 = (v26 != 0.0) ? v32 : 0.0;
    const double v34 = in[13] + v33; /* change of tau */
    const double r0 = 1.0 / in[6]; /* I */
    const double v36 = v34 * r0;
    const double v38 = (v25 != 0.0) ? 1.0 : 0.0;
    const double v39 = (v26 != 0.0) ? v24 : 0.0;
    const double v40 = v38 + v39;
    const double v41 = in[4] - v40; /* tau */
    const double v42 = v41 * r0;
    const double v43 = v42 * r0;
    const double v45 = v43 * in[15]; /* change of I */
    const double v46 = v36 - v45;
    out[2] = v46; /* change of der(w) */
    const double v48 = in[3] * in[13];
    const double v49 = in[4] * in[12];
    const double v50 = v48 + v49;
    out[3] = v50; /* change of P */
}

#if defined(__clang__)
#pragma clang attribute pop
#elif defined(__GNUC__)
#pragma GCC pop_options
#endif

#endif
