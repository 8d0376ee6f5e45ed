/* Derivatives of Turntable, traced to C. Operations: 21. */

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
    const double v17 = in[3] * in[16]; /* change of b */
    const double v19 = in[7] * in[12]; /* b */
    const double v20 = v17 + v19;
    const double v21 = in[13] - v20; /* change of tau */
    const double r0 = 1.0 / in[6]; /* I */
    const double v23 = v21 * r0;
    const double v25 = in[7] * in[3];
    const double v26 = in[4] - v25; /* tau */
    const double v27 = v26 * r0;
    const double v28 = v27 * r0;
    const double v30 = v28 * in[15]; /* change of I */
    const double v31 = v23 - v30;
    out[2] = v31; /* change of der(w) */
    const double v33 = in[3] * in[13];
    const double v34 = in[4] * in[12];
    const double v35 = v33 + v34;
    out[3] = v35; /* change of P */
}

#if defined(__clang__)
#pragma clang attribute pop
#elif defined(__GNUC__)
#pragma GCC pop_options
#endif

#endif
