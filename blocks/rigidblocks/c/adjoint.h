/* Adjoint derivatives, which FMI 3.0 has: the gradient by knowns of the sum of unknowns weighted with the seed. */

static Status adjoint(const Instance *fmu, const char *function, const Reference unknowns[], size_t n_unknowns,
                      const Reference knowns[], size_t n_knowns, const double seed[], size_t n_seed, double sensitivity[],
                      size_t n_sensitivity)
{
    double weight[COUNT] = {0}, in[COUNT + NY], gradient[SIZE];
    if (!differentiable(fmu, function, unknowns, n_unknowns, knowns, n_knowns) ||
        !fits(fmu, function, unknowns, n_unknowns, n_seed) || !fits(fmu, function, knowns, n_knowns, n_sensitivity))
        return FAILURE;
    for (size_t i = 0; i < n_unknowns; i++)
        for (int k = 0; k < LENGTH[unknowns[i]]; k++)
            weight[unknowns[i] + (Reference)k] += *seed++;
    store(in, fmu->now.m, SIZE);
    store(in + SIZE, weight + SIZE, NX);
    store(in + COUNT, weight + Y, NY);
    cotangent(in, gradient);
    for (int k = X; k < X + NX; k++)
        gradient[k] += weight[k]; /* an unknown that is a state */
    for (size_t i = 0; i < n_knowns; i++)
        for (Reference k = knowns[i]; k < knowns[i] + LENGTH[knowns[i]]; k++)
            if (!isfinite(gradient[k]))
                return report(fmu, DISCARD, "%s: the derivative by %s is not finite", function, NAMES[k]);
    for (size_t i = 0; i < n_knowns; sensitivity += LENGTH[knowns[i++]])
        store(sensitivity, gradient + knowns[i], LENGTH[knowns[i]]);
    return OK;
}
