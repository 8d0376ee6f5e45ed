/* Steps of FMI 3.0 that the host takes part in: it is shown each inner step, may set inputs then and end the step early;
   and with event mode, the step ends at each sample, which is an event for the host to handle.

   Such a step goes from sample to sample, so that one of any length fits. */

/* Whether samples are events that the host handles; without early return they cannot be. */
static int has_events(const Instance *fmu)
{
    return (fmu->modes & EVENT) && fmu->host.early_return;
}

/* Shows the host the inner step that is done; it may ask for an earlier end of the step, which may be now. */
static void show(Instance *fmu, double *end)
{
    const double now = fmu->now.m[T];
    fmi3Boolean requested = fmi3False;
    fmi3Float64 time = now;
    if (!fmu->host.update)
        return;
    fmu->now.mode = INTERMEDIATE;
    fmu->inputs_wanted = now < *end;
    fmu->host.update(fmu->host.environment, now, fmu->inputs_wanted, fmi3True, fmi3True, fmu->host.early_return, &requested,
                     &time);
    fmu->now.mode = STEPPING;
    if (requested && fmu->host.early_return && time < *end)
        *end = time > now ? time : now;
}

/* Inner steps from now to `to`, each but the last shown to the host, as long as the step does not end before. */
static int stretch(Instance *fmu, double to, double *end)
{
    double *m = fmu->now.m;
    const double from = m[T], span = to - from;
    const int n = inner_steps(span);
    for (int j = 0; j < n && to <= *end; j++) {
        const double then = j + 1 < n ? from + (j + 1) * (span / n) : to;
        inner_step(m, from + j * (span / n), span / n, then, NULL);
        m[T] = then;
        if (j + 1 < n) {
            output(m, m + Y);
            if (!all_finite(m))
                return STEP_NOT_FINITE;
            show(fmu, end);
        }
    }
    return STEP_OK;
}

/* On to the next sample or the end; a sample that is no event is taken. Tells whether there is an event. */
static int advance(Instance *fmu, double *end, int *event)
{
    double *m = fmu->now.m;
    const double next = fmu->now.next_sample * SAMPLE_TIME;
    const int due = SAMPLE_TIME > 0.0 && next > m[T] && *end / SAMPLE_TIME > fmu->now.next_sample - 1e-6;
    const double to = due && next < *end - 1e-6 * SAMPLE_TIME ? next : *end;
    if (stretch(fmu, to, end) != STEP_OK)
        return STEP_NOT_FINITE;
    if (m[T] < to)
        return STEP_OK; /* the host has asked for another end */
    *event = due && has_events(fmu);
    if (due && !*event) {
        sample(m);
        fmu->now.next_sample = next_sample(m[T]);
    }
    output(m, m + Y);
    if (!all_finite(m))
        return STEP_NOT_FINITE;
    show(fmu, end);
    return STEP_OK;
}

/* A step, and whether it ends with an event, and early: before t + dt. */
static Status shared_step(Instance *fmu, const char *function, double t, double dt, int *event, int *early)
{
    double end = t + dt;
    if (!allowed(fmu, function, STEPPING) || !step_allowed(fmu, t, dt))
        return FAILURE;
    if (SAMPLE_TIME > 0.0 && dt / SAMPLE_TIME > INT_MAX)
        return does_not_fit(fmu, dt);
    if (has_events(fmu) && is_due(fmu))
        return report(fmu, FAILURE, "%s: the sample at %.15g s is an event, which comes first", function, fmu->now.m[T]);
    double before[SIZE];
    const double next = fmu->now.next_sample;
    store(before, fmu->now.m, SIZE);
    fmu->now.m[T] = t;
    if (!has_events(fmu))
        fmu->now.next_sample = next_sample(t);
    do
        if (advance(fmu, &end, event) != STEP_OK) {
            fmu->now.next_sample = next;
            return undo(fmu, before, fmu->now.m[T], dt);
        }
    while (fmu->now.m[T] < end && !*event);
    *early = fmu->now.m[T] < t + dt;
    return OK;
}

/* Whether the host takes part in steps. */
static int is_shared(const Instance *fmu)
{
    return fmu && (fmu->host.update || fmu->host.early_return || (fmu->modes & EVENT));
}

/* From event mode back to steps, the outputs computed. */
static Status enter_step_mode(Instance *fmu, const char *function)
{
    double y[NY + 1];
    if (!allowed(fmu, function, fmu && fmu->modes & STEPPING ? EVENT : 0))
        return FAILURE;
    if (has_events(fmu) && is_due(fmu))
        return report(fmu, FAILURE, "%s: the sample at %.15g s is an event, which comes first", function, fmu->now.m[T]);
    output(fmu->now.m, y);
    for (int i = 0; i < NY; i++)
        if (!isfinite(y[i]))
            return not_finite(fmu, Y + i);
    store(fmu->now.m + Y, y, NY);
    fmu->now.mode = STEPPING;
    return OK;
}

/* Keeps which variables the host will use in intermediate updates; 0 when one of them cannot be. */
static int keep_required(Instance *fmu, const Reference vr[], size_t n)
{
    if (!known(fmu, "fmi3InstantiateCoSimulation", vr, n))
        return 0;
    for (size_t i = 0; i < n; i++) {
        if (!INTERMEDIATE_UPDATE[vr[i]]) {
            report(fmu, FAILURE, "%s is no variable for intermediate updates", NAMES[vr[i]]);
            return 0;
        }
        fmu->required[vr[i]] = 1;
    }
    return 1;
}
