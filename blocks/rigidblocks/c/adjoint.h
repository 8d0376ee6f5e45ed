/* Adjoint derivatives, which FMI 3.0 has: the gradient by knowns of the sum of unknowns weighted with the seed.

   One directional derivative for each element of the knowns gives them exactly, with no code of their own. */

/* The derivative of the weighted sum by element k of the memory; `in` has the memory and, behind it, zeros. An unknown
   without weight does not count, whatever its derivative is. */
static double partial(double in[2 * SIZE], const double weight[COUNT], Reference k)
{
    double out[NX + NY + 1], sum = weight[k]; /* an unknown that is a state is its own derivative */
    in[SIZE + k] = 1.0;
    tangent(in, out);
    in[SIZE + k] = 0.0;
    for (int i = 0; i < NX; i++)
        if (weight[SIZE + i] != 0.0)
            sum += weight[SIZE + i] * out[i];
    for (int i = 0; i < NY; i++)
        if (weight[Y + i] != 0.0)
            sum += weight[Y + i] * out[NX + i];
    return sum;
}

static Status adjoint(const Instance *fmu, const char *function, const Reference unknowns[], size_t n_unknowns,
                      const Reference knowns[], size_t n_knowns, const double seed[], size_t n_seed, double sensitivity[],
                      size_t n_sensitivity)
{
    double weight[COUNT] = {0}, in[2 * SIZE] = {0}, gradient[SIZE];
    if (!differentiable(fmu, function, unknowns, n_unknowns, knowns, n_knowns) ||
        !fits(fmu, function, unknowns, n_unknowns, n_seed) || !fits(fmu, function, knowns, n_knowns, n_sensitivity) ||
        !given(fmu, function, seed, n_seed) || !given(fmu, function, sensitivity, n_sensitivity))
        return FAILURE;
    for (size_t i = 0; i < n_unknowns; i++)
        for (int k = 0; k < LENGTH[unknowns[i]]; k++)
            weight[unknowns[i] + (Reference)k] += *seed++;
    store(in, fmu->now.m, SIZE);
    for (size_t i = 0; i < n_knowns; i++)
        for (Reference k = knowns[i]; k < knowns[i] + LENGTH[knowns[i]]; k++)
            if (!isfinite(gradient[k] = partial(in, weight, k)))
                return report(fmu, DISCARD, "%s: the derivative by %s is not finite", function, NAMES[k]);
    for (size_t i = 0; i < n_knowns; sensitivity += LENGTH[knowns[i++]])
        store(sensitivity, gradient + knowns[i], LENGTH[knowns[i]]);
    return OK;
}
