#ifndef RB_FUNCTIONS_H
#define RB_FUNCTIONS_H

#include "model.h"
#include "sine.h"

static inline void lane_derivative(const real *in, real *out)
{
    (void)in;
    (void)out;
    const real v2 = in[3] * in[2];
    const real v3 = -v2;
    out[0] = v3;
    const real v6 = in[3] * in[1];
    out[1] = v6;
    const real v11 = in[7] * in[3];
    const real v13 = truth((bits)(v11 < lanes(-1.0)));
    const real v14 = masked((bits)(v13 != lanes(0.0)), lanes(-1.0));
    const real v15 = truth((bits)(v13 == lanes(0.0)));
    const real v16 = masked((bits)(v15 != lanes(0.0)), v11);
    const real v17 = v14 + v16;
    const real v18 = truth((bits)(lanes(1.0) < v17));
    const real v19 = masked((bits)(v18 != lanes(0.0)), lanes(1.0));
    const real v20 = truth((bits)(v18 == lanes(0.0)));
    const real v21 = masked((bits)(v20 != lanes(0.0)), v17);
    const real v22 = v19 + v21;
    const real v23 = in[4] - v22;
    const real v25 = v23 / in[6];
    out[2] = v25;
}

static inline void lane_update(const real *in, real *out)
{
    (void)in;
    (void)out;
    const real v2 = in[5] - in[3];
    const real v3 = v2 + v2;
    out[0] = v3;
}

static inline void lane_output(const real *in, real *out)
{
    (void)in;
    (void)out;
    const real v2 = in[4] * in[3];
    out[0] = v2;
}

static inline void lane_project(const real *in, real *out)
{
    (void)in;
    (void)out;
    const real v1 = in[1] * in[1];
    const real v3 = in[2] * in[2];
    const real v4 = v1 + v3;
    const real v5 = square_root(v4);
    const real r0 = lanes(1.0) / v5;
    const real v6 = in[1] * r0;
    out[0] = v6;
    const real v8 = in[2] * r0;
    out[1] = v8;
    out[2] = in[3];
}

static const double RB_STEP = 0.001;
enum { RB_SPANS = 1 };

#endif
