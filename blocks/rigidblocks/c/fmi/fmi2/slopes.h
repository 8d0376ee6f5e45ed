/* Derivatives of inputs by time, which FMI 2.0 has: in the next step an input follows the
   polynomial of them. */

#ifndef RB_SLOPES_H
#define RB_SLOPES_H

#include "values.h"

static inline Status set_slopes(Instance *fmu, const char *function, const Reference vr[], size_t n,
                                const int order[], const double values[])
{
    if (!allowed(fmu, function, RB_BEFORE_THE_RUN | RB_STEPPING) || !known(fmu, function, vr, n) ||
        !given(fmu, function, order, n) || !given(fmu, function, values, n))
        return RB_FAILURE;
    if (fmu->modes == RB_MODEL_EXCHANGE)
        return report(fmu, RB_FAILURE, "%s is not for model exchange", function);
    for (size_t i = 0; i < n; i++) {
        if (!within(vr[i], RB_U, RB_NU))
            return report(fmu, RB_FAILURE, "%s: %s is no input", function, RB_NAMES[vr[i]]);
        if (order[i] < 1 || order[i] > RB_COURSE_ORDER)
            return report(fmu, RB_FAILURE,
                          "%s: the order of a derivative of %s must be from 1 to %d, not %d",
                          function, RB_NAMES[vr[i]], RB_COURSE_ORDER, order[i]);
        if (!isfinite(values[i]))
            return report(fmu, RB_FAILURE, "%s: a derivative of %s must be finite, not %g",
                          function, RB_NAMES[vr[i]], values[i]);
    }
    for (size_t i = 0; i < n; i++)
        fmu->now.slope[(order[i] - 1) * RB_NU + (int)vr[i] - RB_U] = values[i];
    fmu->now.slopes_given |= n > 0;
    return RB_OK;
}

#endif
