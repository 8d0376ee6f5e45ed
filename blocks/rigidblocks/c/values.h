/* Reading and setting the variables of an instance, and their derivatives by each other. */

/* What can be read now: the memory, the outputs in it computed where they are not kept, and the rates if they are asked
   for. In initialization mode, what the run would start with. */
static void compute(const Instance *fmu, int rates, double *values)
{
    store(values, fmu->now.m, SIZE);
    if (fmu->now.mode == INITIALIZATION)
        initialize(values, values[T]);
    else if (fmu->modes == MODEL_EXCHANGE || fmu->now.mode == EVENT)
        output(values, values + Y);
    if (rates)
        derivative(values, values + SIZE);
}

static Status not_finite(const Instance *fmu, int variable)
{
    if (fmu->now.mode == INITIALIZATION)
        return report(fmu, FAILURE, "%s is not finite at the start, t = %g s", NAMES[variable], fmu->now.m[T]);
    return report(fmu, DISCARD, "%s is not finite at t = %g s", NAMES[variable], fmu->now.m[T]);
}

/* Whether the host has said that it uses the variables in intermediate updates, if it is in one. */
static int required(const Instance *fmu, const char *function, const Reference vr[], size_t n)
{
    for (size_t i = 0; i < n && fmu->now.mode == INTERMEDIATE; i++)
        if (!fmu->required[vr[i]]) {
            report(fmu, FAILURE, "%s: %s is not one of the variables required in intermediate updates", function,
                   NAMES[vr[i]]);
            return 0;
        }
    return 1;
}

static Status get(const Instance *fmu, const char *function, const Reference vr[], size_t n, double values[], size_t n_values)
{
    double computed[COUNT];
    int rates = 0;
    if (!allowed(fmu, function, (ANY & ~INSTANTIATED) | INTERMEDIATE) || !known(fmu, function, vr, n) ||
        !fits(fmu, function, vr, n, n_values) || !given(fmu, function, values, n_values) || !required(fmu, function, vr, n))
        return FAILURE;
    for (size_t i = 0; i < n; i++)
        rates |= vr[i] >= SIZE;
    const int kept = !rates && fmu->modes != MODEL_EXCHANGE && !(fmu->now.mode & (INITIALIZATION | EVENT));
    const double *from = kept ? fmu->now.m : computed;
    if (!kept)
        compute(fmu, rates, computed);
    for (size_t i = 0; i < n; i++)
        for (Reference k = vr[i]; k < vr[i] + LENGTH[vr[i]]; k++)
            if (!isfinite(from[k]))
                return not_finite(fmu, (int)k);
    for (size_t i = 0; i < n; values += LENGTH[vr[i++]])
        store(values, from + vr[i], LENGTH[vr[i]]);
    return OK;
}

static int settable(const Instance *fmu, Reference k, double value)
{
    if (SETTABLE[k] == NEVER)
        report(fmu, FAILURE, "%s is computed and cannot be set", NAMES[k]);
    else if (!(SETTABLE_IN[SETTABLE[k]] & fmu->now.mode))
        report(fmu, FAILURE, "%s %s, which cannot be set %s", NAMES[k],
               SETTABLE[k] == TUNABLE ? "is a parameter" : "has a start value", mode_name(fmu->now.mode));
    else if (!isfinite(value))
        report(fmu, FAILURE, "%s must be finite, not %g", NAMES[k], value);
    else
        return 1;
    return 0;
}

static Status set(Instance *fmu, const char *function, const Reference vr[], size_t n, const double values[], size_t n_values)
{
    const double *value = values;
    if (!allowed(fmu, function, SETTABLE_IN[ALWAYS]) || !known(fmu, function, vr, n) ||
        !fits(fmu, function, vr, n, n_values) || !given(fmu, function, values, n_values) || !required(fmu, function, vr, n))
        return FAILURE;
    if (fmu->now.mode == INTERMEDIATE && !fmu->inputs_wanted)
        return report(fmu, FAILURE, "%s: at the end of a step no inputs are wanted", function);
    for (size_t i = 0; i < n; i++)
        for (Reference k = vr[i]; k < vr[i] + LENGTH[vr[i]]; k++)
            if (!settable(fmu, k, *value++))
                return FAILURE;
    for (size_t i = 0; i < n; values += LENGTH[vr[i++]])
        store(fmu->now.m + vr[i], values, LENGTH[vr[i]]);
    return OK;
}

/* ---- derivatives, exact: those of the rates and the computed outputs are traced, tangent.h ---- */

static int within(Reference k, int start, int n)
{
    return k >= (Reference)start && k < (Reference)(start + n);
}

/* Whether there are derivatives of `unknowns` by `knowns`, and as many values as they have elements. Samples are not
   differentiated: between them, sampled states are constants. */
static int differentiable(const Instance *fmu, const char *function, const Reference unknowns[], size_t n_unknowns,
                          const Reference knowns[], size_t n_knowns)
{
    if (!allowed(fmu, function, INITIALIZATION | STEPPING | EVENT | CONTINUOUS) || !known(fmu, function, unknowns, n_unknowns) ||
        !known(fmu, function, knowns, n_knowns))
        return 0;
    if (fmu->now.mode == INITIALIZATION && (NZ > 0 || PROJECTS)) {
        report(fmu, FAILURE, "%s is not provided in initialization mode for states that are computed at the start", function);
        return 0;
    }
    for (size_t i = 0; i < n_unknowns; i++)
        if (!within(unknowns[i], X, NX + NZ) && !within(unknowns[i], Y, NY + NX)) {
            report(fmu, FAILURE, "%s: %s is neither an output nor a rate", function, NAMES[unknowns[i]]);
            return 0;
        }
    for (size_t i = 0; i < n_knowns; i++)
        if (!within(knowns[i], X, NX) && !within(knowns[i], U, NU + NP)) {
            report(fmu, FAILURE, "%s: %s is no input, continuous state or parameter", function, NAMES[knowns[i]]);
            return 0;
        }
    return 1;
}

/* The change of unknowns that a change of knowns, the seed, makes. */
static Status directional(const Instance *fmu, const char *function, const Reference unknowns[], size_t n_unknowns,
                          const Reference knowns[], size_t n_knowns, const double seed[], size_t n_seed,
                          double sensitivity[], size_t n_sensitivity)
{
    double in[2 * SIZE] = {0}, d[COUNT + NX + 1] = {0}; /* d = changes of [memory | rates] */
    double out[NX + NY + 1];
    if (!differentiable(fmu, function, unknowns, n_unknowns, knowns, n_knowns) ||
        !fits(fmu, function, knowns, n_knowns, n_seed) || !fits(fmu, function, unknowns, n_unknowns, n_sensitivity) ||
        !given(fmu, function, seed, n_seed) || !given(fmu, function, sensitivity, n_sensitivity))
        return FAILURE;
    store(in, fmu->now.m, SIZE);
    for (size_t i = 0; i < n_knowns; i++)
        for (int k = 0; k < LENGTH[knowns[i]]; k++)
            in[SIZE + knowns[i] + (Reference)k] += *seed++;
    tangent(in, out);
    store(d, in + SIZE, SIZE);
    store(d + SIZE, out, NX);
    store(d + Y, out + NX, NY);
    for (size_t i = 0; i < n_unknowns; i++)
        for (Reference k = unknowns[i]; k < unknowns[i] + LENGTH[unknowns[i]]; k++)
            if (!isfinite(d[k]))
                return report(fmu, DISCARD, "%s: the derivative of %s is not finite", function, NAMES[k]);
    for (size_t i = 0; i < n_unknowns; sensitivity += LENGTH[unknowns[i++]])
        store(sensitivity, d + unknowns[i], LENGTH[unknowns[i]]);
    return OK;
}
