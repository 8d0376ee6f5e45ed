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
    fmu->now.mode = fmu->modes & EVENT ? EVENT : STEPPING;
    return OK;
}

/* Into another mode, if it is one of the instance. */
static Status enter(Instance *fmu, const char *function, int from, int mode)
{
    if (!allowed(fmu, function, fmu && !(fmu->modes & mode) ? 0 : from))
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

/* The course of the inputs in a step from t; NULL when they are held, which they are without derivatives. */
static const Course *course_of(const Instance *fmu, double t, Course *course)
{
    if (!fmu->now.slopes_given)
        return NULL;
    *course = (Course){.t0 = t};
    store(course->c[0], fmu->now.m + U, NU);
    double factorial = 1.0;
    for (int k = 1; k <= COURSE_ORDER; k++) {
        factorial *= k;
        for (int i = 0; i < NU && SLOPES > 0; i++)
            course->c[k][i] = fmu->now.slope[(k - 1) * NU + i] / factorial;
    }
    return course;
}

/* The end of a step to `t` that is not finite: the memory before is back, and the run has failed. */
static Status undo(Instance *fmu, const double *before, double t, double dt)
{
    const int culprit = first_not_finite(fmu->now.m, SIZE);
    store(fmu->now.m, before, SIZE);
    fmu->now.mode = FAILED;
    return report(fmu, DISCARD, "%s is not finite at t = %g s: the step of %g s is undone", NAMES[culprit], t, dt);
}

static Status does_not_fit(const Instance *fmu, double dt)
{
    return report(fmu, FAILURE, "the step %g s does not fit the sample time %g s: one must be a multiple of the other", dt,
                  SAMPLE_TIME);
}

/* A step, after which the inputs are held again at the end of their course. */
static Status do_step(Instance *fmu, const char *function, double t, double dt)
{
    Course course;
    double before[SIZE];
    if (!allowed(fmu, function, STEPPING) || !step_allowed(fmu, t, dt))
        return FAILURE;
    store(before, fmu->now.m, SIZE);
    switch (step(fmu->now.m, t, dt, course_of(fmu, t, &course))) {
    case STEP_OK:
        forget_slopes(fmu);
        return OK;
    case STEP_DOES_NOT_FIT: return does_not_fit(fmu, dt);
    default: return undo(fmu, before, t + dt, dt);
    }
}

/* ---- events and model exchange ---- */

/* Whether the next sample is due. */
static int is_due(const Instance *fmu)
{
    return SAMPLE_TIME > 0.0 && fmu->now.m[T] / SAMPLE_TIME > fmu->now.next_sample - 1e-6;
}

/* Whether the function may be called in the mode that the instance is in, and is made for model exchange. */
static int exchanges(const Instance *fmu, const char *function, int modes)
{
    return allowed(fmu, function, fmu && fmu->modes != MODEL_EXCHANGE ? 0 : modes);
}

/* The states moved back to where they belong, and the sample if one is due. `moved` tells whether states have moved. */
static Status handle_event(Instance *fmu, const char *function, int *moved)
{
    double m[SIZE];
    if (!allowed(fmu, function, EVENT))
        return FAILURE;
    const double t = fmu->now.m[T];
    const int due = is_due(fmu);
    store(m, fmu->now.m, SIZE);
    put_back(m, t);
    if (due)
        sample(m);
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
    if (!exchanges(fmu, function, EVENT | CONTINUOUS))
        return FAILURE;
    if (!isfinite(t))
        return report(fmu, FAILURE, "the time must be finite, not %g s", t);
    fmu->now.m[T] = t;
    return OK;
}

/* Whether the host's vector has an element for each continuous state. */
static int states_fit(const Instance *fmu, const char *function, const double x[], size_t n)
{
    if (n != NX)
        report(fmu, FAILURE, "%s: there are %d continuous states, not %lu", function, NX, (unsigned long)n);
    return n == NX && given(fmu, function, x, n);
}

static Status set_states(Instance *fmu, const char *function, const double x[], size_t n)
{
    if (!exchanges(fmu, function, CONTINUOUS) || !states_fit(fmu, function, x, n))
        return FAILURE;
    for (int i = 0; i < NX; i++)
        if (!isfinite(x[i]))
            return report(fmu, FAILURE, "%s must be finite, not %g", NAMES[X + i], x[i]);
    if (NX > 0)
        store(fmu->now.m + X, x, NX);
    return OK;
}

static Status get_states(const Instance *fmu, const char *function, double x[], size_t n)
{
    if (!exchanges(fmu, function, EVENT | CONTINUOUS) || !states_fit(fmu, function, x, n))
        return FAILURE;
    if (NX > 0)
        store(x, fmu->now.m + X, NX);
    return OK;
}

static Status get_rates(const Instance *fmu, const char *function, double rates[], size_t n)
{
    double computed[NX + 1] = {0};
    if (!exchanges(fmu, function, EVENT | CONTINUOUS) || !states_fit(fmu, function, rates, n))
        return FAILURE;
    derivative(fmu->now.m, computed);
    for (int i = 0; i < NX; i++)
        if (!isfinite(computed[i]))
            return not_finite(fmu, SIZE + i);
    if (NX > 0)
        store(rates, computed, NX);
    return OK;
}

static Status get_nominals(const Instance *fmu, const char *function, double nominals[], size_t n)
{
    if (!exchanges(fmu, function, MODEL_EXCHANGE) || !states_fit(fmu, function, nominals, n))
        return FAILURE;
    for (size_t i = 0; i < n; i++)
        nominals[i] = NOMINAL[i];
    return OK;
}
