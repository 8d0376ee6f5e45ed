/* The step of a block in lanes: what step.h does from the time t of a memory, which all lanes
   share, to that after RB_STEP [s].

   The generated functions.h has lane_update and lane_output, as in block.h, and RB_SPANS, the
   number of equal parts of the step such that a sample can only fall on the end of one. */

#ifndef RB_ADVANCE_H
#define RB_ADVANCE_H

#include <math.h>

#include "flow.h"
#include "lanes.h"

#include "functions.h"

static inline int ends_at_sample(double t, double span)
{
    const double samples = t / RB_SAMPLE_TIME;
    return span > RB_SAMPLE_TIME * (1.0 - 1e-6) || fabs(samples - floor(samples + 0.5)) < 1e-6;
}

/* The memory after the step. */
static inline void advance(const real *in, real *out)
{
    const double t = in[0][0], span = RB_STEP / RB_SPANS;
    real z[RB_NZ + 1], y[RB_NY + 1];
    for (int i = 0; i < RB_SIZE; i++)
        out[i] = in[i];
    for (int k = 0; k < RB_SPANS; k++) {
        const double end = t + (k + 1) * span;
#if RB_ADAPTIVE
        lane_flow(out, t + k * span, span, end);
#endif
        out[0] = lanes(end);
        if (RB_SAMPLE_TIME > 0.0 && ends_at_sample(end, span)) {
            lane_update(out, z);
            for (int i = 0; i < RB_NZ; i++)
                out[RB_Z + i] = z[i];
        }
    }
    lane_output(out, y);
    for (int i = 0; i < RB_NY; i++)
        out[RB_Y + i] = y[i];
}

#endif
