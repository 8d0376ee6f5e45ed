/* Derivatives of Turntable, traced to C. Operations: 34, 2. */

#ifndef RB_TANGENT_H
#define RB_TANGENT_H

#include <math.h>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((minsize)), apply_to = function)
#elif defined(__GNUC__)
#pragma GCC push_options
#pragma GCC optimize("Os")
#endif

#define RB_OUTPUT_ORDER 2 /* highest order of output derivatives */
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
    const double v18 = (0.0 < in[19]) ? 1.0 : 0.0; /* side of indicator 2 */
    const double v20 = (0.0 < in[18]) ? 1.0 : 0.0; /* side of indicator 1 */
    const double v22 = in[3] * in[16]; /* change of b */
    const double v24 = in[7] * in[12]; /* b */
    const double v25 = v22 + v24;
    const double v26 = -v25;
    const double v27 = (v20 != 0.0) ? v26 : 0.0;
    const double v28 = (v18 != 0.0) ? v27 : 0.0;
    const double v29 = in[13] + v28; /* change of tau */
    const double r0 = 1.0 / in[6]; /* I */
    const double v31 = v29 * r0;
    const double v33 = in[7] * in[3];
    const double v34 = (v20 != 0.0) ? v33 : 0.0;
    const double v35 = (v20 == 0.0) ? 1.0 : 0.0;
    const double v37 = (v35 != 0.0) ? -1.0 : 0.0;
    const double v38 = v34 + v37;
    const double v39 = (v18 != 0.0) ? v38 : 0.0;
    const double v40 = (v18 == 0.0) ? 1.0 : 0.0;
    const double v42 = (v40 != 0.0) ? 1.0 : 0.0;
    const double v43 = v39 + v42;
    const double v44 = in[4] - v43; /* tau */
    const double v45 = v44 * r0;
    const double v46 = v45 * r0;
    const double v48 = v46 * in[15]; /* change of I */
    const double v49 = v31 - v48;
    out[2] = v49; /* change of der(w) */
    const double v51 = in[3] * in[13];
    const double v52 = in[4] * in[12];
    const double v53 = v51 + v52;
    out[3] = v53; /* change of P */
}
static inline void curvature(const double *in, double *out)
{
    (void)in;
    (void)out;
    const double v2 = in[13] * in[12]; /* change of tau, change of w */
    const double v3 = v2 + v2;
    out[0] = v3; /* second change of P */
}

#if defined(__clang__)
#pragma clang attribute pop
#elif defined(__GNUC__)
#pragma GCC pop_options
#endif

#endif
