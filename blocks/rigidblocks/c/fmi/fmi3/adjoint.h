/* Adjoint derivatives, which FMI 3.0 has: the gradient by knowns of the sum of unknowns weighted
   with the seed.

   One directional derivative for each element of the knowns gives them exactly, with no code of
   their own. */

#ifndef RB_ADJOINT_H
#define RB_ADJOINT_H

#include "values.h"

/* The derivative of the weighted sum by element k of the memory; `in` has the memory, zeros, and
   the sides. An unknown without weight does not count, whatever its derivative is. */
static inline double partial(double in[RB_SEEDED], const double weight[RB_COUNT], Reference k)
{
    /* an unknown that is a state is its own derivative */
    double out[RB_NX + RB_NY + 1], sum = weight[k];
    in[RB_SIZE + k] = 1.0;
    tangent(in, out);
    in[RB_SIZE + k] = 0.0;
    for (int i = 0; i < RB_NX; i++)
        if (weight[RB_SIZE + i] != 0.0)
            sum += weight[RB_SIZE + i] * out[i];
    for (int i = 0; i < RB_NY; i++)
        if (weight[RB_Y + i] != 0.0)
            sum += weight[RB_Y + i] * out[RB_NX + i];
    return sum;
}

static inline Status adjoint(const Instance *fmu, const char *function, const Reference unknowns[],
                             size_t n_unknowns, const Reference knowns[], size_t n_knowns,
                             const double seed[], size_t n_seed, double sensitivity[],
                             size_t n_sensitivity)
{
    double weight[RB_COUNT] = {0}, in[RB_SEEDED], gradient[RB_SIZE];
    if (!fmu || !differentiable(fmu, function, unknowns, n_unknowns, knowns, n_knowns) ||
        !fits(fmu, function, unknowns, n_unknowns, n_seed) ||
        !fits(fmu, function, knowns, n_knowns, n_sensitivity) ||
        !given(fmu, function, seed, n_seed) || !given(fmu, function, sensitivity, n_sensitivity))
        return RB_FAILURE;
    for (size_t i = 0; i < n_unknowns; i++)
        for (int k = 0; k < RB_LENGTH[unknowns[i]]; k++)
            weight[unknowns[i] + (Reference)k] += *seed++;
    put_unseeded(fmu, in);
    for (size_t i = 0; i < n_knowns; i++)
        for (Reference k = knowns[i]; k < knowns[i] + RB_LENGTH[knowns[i]]; k++)
            if (!isfinite(gradient[k] = partial(in, weight, k)))
                return report(fmu, RB_DISCARD, "%s: the derivative by %s is not finite", function,
                              RB_NAMES[k]);
    for (size_t i = 0; i < n_knowns; sensitivity += RB_LENGTH[knowns[i++]])
        store(sensitivity, gradient + knowns[i], RB_LENGTH[knowns[i]]);
    return RB_OK;
}

#endif
