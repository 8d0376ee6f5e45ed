/* Events of Turntable: the laws between two of them, and their indicators. */

#ifndef RB_EVENTS_H
#define RB_EVENTS_H

#include <math.h>

#define RB_INDICATORS 2

static inline void held_rates(const double *in, double *out)
{
    (void)in;
    (void)out;
    const double v2 = in[3] * in[2]; /* w, d[2] */
    const double v3 = -v2;
    out[0] = v3; /* der(d[1]) */
    const double v6 = in[3] * in[1]; /* d[1] */
    out[1] = v6; /* der(d[2]) */
    const double v11 = (0.0 < in[10]) ? 1.0 : 0.0; /* side of indicator 2 */
    const double v13 = (0.0 < in[9]) ? 1.0 : 0.0; /* side of indicator 1 */
    const double v15 = in[7] * in[3]; /* b */
    const double v16 = (v13 != 0.0) ? v15 : 0.0;
    const double v17 = (v13 == 0.0) ? 1.0 : 0.0;
    const double v19 = (v17 != 0.0) ? -1.0 : 0.0;
    const double v20 = v16 + v19;
    const double v21 = (v11 != 0.0) ? v20 : 0.0;
    const double v22 = (v11 == 0.0) ? 1.0 : 0.0;
    const double v24 = (v22 != 0.0) ? 1.0 : 0.0;
    const double v25 = v21 + v24;
    const double v26 = in[4] - v25; /* tau */
    const double v28 = v26 / in[6]; /* I */
    out[2] = v28; /* der(w) */
}

static inline void held_outputs(const double *in, double *out)
{
    (void)in;
    (void)out;
    const double v2 = in[4] * in[3]; /* tau, w */
    out[0] = v2; /* P */
}

static inline void indicators(const double *in, double *out)
{
    (void)in;
    (void)out;
    const double v2 = in[7] * in[3]; /* b, w */
    const double v4 = v2 - -1.0;
    const double v5 = fabs(v2);
    const double v7 = v5 + 1.0;
    const double v8 = v7 + 1.0;
    const double v9 = v4 / v8;
    out[0] = v9; /* indicator 1 */
    const double v13 = (0.0 < in[9]) ? 1.0 : 0.0; /* side of indicator 1 */
    const double v14 = (v13 != 0.0) ? v2 : 0.0;
    const double v15 = (v13 == 0.0) ? 1.0 : 0.0;
    const double v16 = (v15 != 0.0) ? -1.0 : 0.0;
    const double v17 = v14 + v16;
    const double v18 = 1.0 - v17;
    const double v19 = fabs(v17);
    const double v21 = v19 + 2.0;
    const double v22 = v18 / v21;
    out[1] = v22; /* indicator 2 */
}

#endif
