/* The course of a run of an instance: its start, the steps of a co-simulation, and the events of a model exchange. */

/* ---- start and end ---- */

static Status set_up(Instance *fmu, double start_time, int stop_time_defined, double stop_time)
{
    if (!isfinite(start_time))
        return report(fmu, FAILURE, "the start time must be finite, not %g s", start_time);
    if (stop_time_defined && !(stop_time >= start_time))
        return report(fmu, FAILURE, "the stop time %g s is before the start time %g s", stop_time, start_time);
    fmu->now.m[T] = start_time;
    fmu->now.stop_time = stop_time_defined ? stop_time : INFINITY;
    return OK;
}

/* The multiple of the sample time that is next after t. */
static double next_sample(double t)
{
    return SAMPLE_TIME > 0.0 ? floor(t / SAMPLE_TIME + 1e-6) + 1.0 : 0.0;
}

static Status start_run(Instance *fmu, const char *function)
{
    double m[SIZE];
    if (!allowed(fmu, function, INITIALIZATION))
        return FAILURE;
    store(m, fmu->now.m, SIZE);
    if (initialize(m, m[T]) != STEP_OK)
        return not_finite(fmu, first_not_finite(m, SIZE));
    store(fmu->now.m, m, SIZE);
    fmu->now.next_sample = next_sample(m[T]);
    fmu->now.mode = fmu->modes == CO_SIMULATION ? STEPPING : EVENT;
    return OK;
}

static Status enter(Instance *fmu, const char *function, int from, int mode)
{
    if (!allowed(fmu, function, from))
        return FAILURE;
    fmu->now.mode = mode;
    return OK;
}

static Status reset(Instance *fmu, const char *function)
{
    if (!allowed(fmu, function, ANY))
        return FAILURE;
    restart(fmu);
    return OK;
}

/* ---- co-simulation ---- */

static int step_allowed(const Instance *fmu, double t, double dt)
{
    const double now = fmu->now.m[T], stop = fmu->now.stop_time;
    const double rounding = 1e-6 * dt + 4.0 * DBL_EPSILON * fabs(now); /* hosts count time in their own ways */
    if (!(dt > 0.0) || !isfinite(dt))
        report(fmu, FAILURE, "the step must be positive, not %g s", dt);
    else if (!(fabs(t - now) <= rounding))
        report(fmu, FAILURE, "the communication point %.15g s is not the time %.15g s of the FMU", t, now);
    else if (dt / INNER_STEP > INT_MAX)
        report(fmu, FAILURE, "the step of %g s has too many inner steps of %g s", dt, INNER_STEP);
    else if (t + dt > stop + rounding)
        report(fmu, FAILURE, "the step to %.15g s is beyond the stop time %.15g s", t + dt, stop);
    else
        return 1;
    return 0;
}

static Status do_step(Instance *fmu, const char *function, double t, double dt)
{
    double before[SIZE];
    int culprit;
    if (!allowed(fmu, function, STEPPING) || !step_allowed(fmu, t, dt))
        return FAILURE;
    store(before, fmu->now.m, SIZE);
    switch (step(fmu->now.m, t, dt)) {
    case STEP_OK:
        return OK;
    case STEP_DOES_NOT_FIT:
        return report(fmu, FAILURE, "the step %g s does not fit the sample time %g s: one must be a multiple of the other",
                      dt, SAMPLE_TIME);
    default:
        culprit = first_not_finite(fmu->now.m, SIZE);
        store(fmu->now.m, before, SIZE);
        fmu->now.mode = FAILED;
        return report(fmu, DISCARD, "%s is not finite at t = %g s: the step of %g s is undone", NAMES[culprit], t + dt, dt);
    }
}

/* ---- model exchange ---- */

/* The states moved back to where they belong, and the sample if one is due. `moved` tells whether states have moved. */
static Status handle_event(Instance *fmu, const char *function, int *moved)
{
    double m[SIZE], z[NZ + 1];
    if (!allowed(fmu, function, EVENT))
        return FAILURE;
    const double t = fmu->now.m[T];
    const int due = SAMPLE_TIME > 0.0 && t / SAMPLE_TIME > fmu->now.next_sample - 1e-6;
    store(m, fmu->now.m, SIZE);
    put_back(m, t);
    if (due) {
        update(m, z);
        store(m + Z, z, NZ);
    }
    if (!all_finite(m))
        return not_finite(fmu, first_not_finite(m, SIZE));
    *moved = memcmp(m + X, fmu->now.m + X, NX * sizeof(double)) != 0;
    store(fmu->now.m, m, SIZE);
    if (due)
        fmu->now.next_sample = next_sample(t);
    return OK;
}

static Status set_time(Instance *fmu, const char *function, double t)
{
    if (!allowed(fmu, function, EVENT | CONTINUOUS))
        return FAILURE;
    if (!isfinite(t))
        return report(fmu, FAILURE, "the time must be finite, not %g s", t);
    fmu->now.m[T] = t;
    return OK;
}

/* Whether the host's vectors have an element for each continuous state. */
static int states_fit(const Instance *fmu, const char *function, size_t n)
{
    if (n != NX)
        report(fmu, FAILURE, "%s: there are %d continuous states, not %lu", function, NX, (unsigned long)n);
    return n == NX;
}

static Status set_states(Instance *fmu, const char *function, const double x[], size_t n)
{
    if (!allowed(fmu, function, CONTINUOUS) || !states_fit(fmu, function, n))
        return FAILURE;
    for (int i = 0; i < NX; i++)
        if (!isfinite(x[i]))
            return report(fmu, FAILURE, "%s must be finite, not %g", NAMES[X + i], x[i]);
    store(fmu->now.m + X, x, NX);
    return OK;
}

static Status get_states(const Instance *fmu, const char *function, double x[], size_t n)
{
    if (!allowed(fmu, function, EVENT | CONTINUOUS) || !states_fit(fmu, function, n))
        return FAILURE;
    store(x, fmu->now.m + X, NX);
    return OK;
}

static Status get_rates(const Instance *fmu, const char *function, double rates[], size_t n)
{
    double computed[NX + 1] = {0};
    if (!allowed(fmu, function, EVENT | CONTINUOUS) || !states_fit(fmu, function, n))
        return FAILURE;
    derivative(fmu->now.m, computed);
    for (int i = 0; i < NX; i++)
        if (!isfinite(computed[i]))
            return not_finite(fmu, SIZE + i);
    store(rates, computed, NX);
    return OK;
}

/* No state is nominally larger than another. */
static Status get_nominals(const Instance *fmu, const char *function, double nominals[], size_t n)
{
    if (!allowed(fmu, function, MODEL_EXCHANGE) || !states_fit(fmu, function, n))
        return FAILURE;
    for (size_t i = 0; i < n; i++)
        nominals[i] = 1.0;
    return OK;
}
