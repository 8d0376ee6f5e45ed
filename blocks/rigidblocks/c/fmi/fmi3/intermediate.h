/* Steps of FMI 3.0 that the host takes part in: it is shown each inner step, may set inputs then
   and end the step early; and with event mode, the step ends at each sample, which is an event for
   the host to handle.

   Such a step goes from sample to sample, so that one of any length fits. */

#ifndef RB_INTERMEDIATE_H
#define RB_INTERMEDIATE_H

#include "run.h"
#include "sparsity.h"

/* Whether samples are events that the host handles; without early return they cannot be. */
static inline int has_events(const Instance *fmu)
{
    return (fmu->modes & RB_EVENT) && fmu->host.early_return;
}

/* Shows the host the inner step that is done; it may ask for an earlier end of the step, which may
   be now. */
static inline void show(Instance *fmu, double *end)
{
    const double now = fmu->now.m[RB_T];
    fmi3Boolean requested = fmi3False;
    fmi3Float64 time = now;
    if (!fmu->host.update)
        return;
    fmu->now.mode = RB_INTERMEDIATE;
    fmu->inputs_wanted = now < *end;
    fmu->host.update(fmu->host.environment, now, fmu->inputs_wanted, fmi3True, fmi3True,
                     fmu->host.early_return, &requested, &time);
    fmu->now.mode = RB_STEPPING;
    if (requested && fmu->host.early_return && time < *end)
        *end = time > now ? time : now;
}

#if RB_ADAPTIVE

/* Inner steps from now to `to`, each but the last shown to the host, as long as the step does not
   end before. */
static inline int stretch(Instance *fmu, double to, double *end)
{
    double *m = fmu->now.m, rates[RB_NX + 1];
    Progress progress;
    const double from = m[RB_T];
    const Screened screened = go_at_once(m, from, to - from, to, NULL, rates);
    if (screened == RB_SCREEN_TAKEN) {
        m[RB_T] = to;
        return RB_STEP_OK;
    }
    start_progress(&progress, from, to - from, to, screened == RB_SCREEN_FAILED ? rates : NULL);
    while (progress.done < progress.length && to <= *end) {
        m[RB_T] = controlled_step(m, &progress, NULL);
        if (progress.done < progress.length) {
            output(m, m + RB_Y);
            if (!all_finite(m))
                return RB_STEP_FAILED;
            show(fmu, end);
            progress.known = 0; /* the host may have set inputs */
        }
    }
    return RB_STEP_OK;
}

#else

/* Inner steps from now to `to`, each but the last shown to the host, as long as the step does not
   end before. */
static inline int stretch(Instance *fmu, double to, double *end)
{
    double *m = fmu->now.m;
    const double from = m[RB_T], span = to - from;
    const int n = inner_steps(span);
    for (int j = 0; j < n && to <= *end; j++) {
        const double then = j + 1 < n ? from + (j + 1) * (span / n) : to;
        inner_step(m, from + j * (span / n), span / n, then, NULL);
        m[RB_T] = then;
        if (j + 1 < n) {
            output(m, m + RB_Y);
            if (!all_finite(m))
                return RB_STEP_FAILED;
            show(fmu, end);
        }
    }
    return RB_STEP_OK;
}

#endif

/* On to the next sample or the end; a sample that is no event is taken. Tells whether there is an
   event. */
static inline int advance(Instance *fmu, double *end, int *event)
{
    double *m = fmu->now.m;
    const double next = fmu->now.next_sample * RB_SAMPLE_TIME;
    const int due = RB_SAMPLE_TIME > 0.0 && next > m[RB_T] &&
                    *end / RB_SAMPLE_TIME > fmu->now.next_sample - 1e-6;
    const double to = due && next < *end - 1e-6 * RB_SAMPLE_TIME ? next : *end;
    if (stretch(fmu, to, end) != RB_STEP_OK)
        return RB_STEP_FAILED;
    if (m[RB_T] < to)
        return RB_STEP_OK; /* the host has asked for another end */
    *event = due && has_events(fmu);
    if (due && !*event) {
        sample(m);
        fmu->now.next_sample = next_sample(m[RB_T]);
    }
    output(m, m + RB_Y);
    if (!all_finite(m))
        return RB_STEP_FAILED;
    show(fmu, end);
    return RB_STEP_OK;
}

/* A step, and whether it ends with an event, and early: before t + dt. */
static inline Status shared_step(Instance *fmu, const char *function, double t, double dt,
                                 int *event, int *early)
{
    double end = t + dt;
    if (!allowed(fmu, function, RB_STEPPING) || !accepts(fmu, t, dt, 1))
        return RB_FAILURE;
    if (has_events(fmu) && is_due(fmu))
        return report(fmu, RB_FAILURE, "%s: the sample at %.15g s is an event, which comes first",
                      function, fmu->now.m[RB_T]);
    double before[RB_SIZE];
    const double next = fmu->now.next_sample;
    store(before, fmu->now.m, RB_SIZE);
    fmu->now.m[RB_T] = t;
    if (!has_events(fmu))
        fmu->now.next_sample = next_sample(t);
    do
        if (advance(fmu, &end, event) != RB_STEP_OK) {
            fmu->now.next_sample = next;
            return undo(fmu, before, fmu->now.m[RB_T], dt);
        }
    while (fmu->now.m[RB_T] < end && !*event);
    watch(fmu, before);
    *early = fmu->now.m[RB_T] < t + dt;
    return RB_OK;
}

/* Whether the host takes part in steps. */
static inline int is_shared(const Instance *fmu)
{
    return fmu && (fmu->host.update || fmu->host.early_return || (fmu->modes & RB_EVENT));
}

/* From event mode back to steps, the outputs computed. */
static inline Status enter_step_mode(Instance *fmu, const char *function)
{
    double y[RB_NY + 1];
    if (!allowed(fmu, function, fmu && fmu->modes & RB_STEPPING ? RB_EVENT : 0))
        return RB_FAILURE;
    if (has_events(fmu) && is_due(fmu))
        return report(fmu, RB_FAILURE, "%s: the sample at %.15g s is an event, which comes first",
                      function, fmu->now.m[RB_T]);
    output(fmu->now.m, y);
    for (int i = 0; i < RB_NY; i++)
        if (!isfinite(y[i]))
            return not_finite(fmu, RB_Y + i);
    store(fmu->now.m + RB_Y, y, RB_NY);
    fmu->now.mode = RB_STEPPING;
    return RB_OK;
}

/* Keeps which variables the host will use in intermediate updates; 0 when one of them cannot be. */
static inline int keep_required(Instance *fmu, const Reference vr[], size_t n)
{
    if (!known(fmu, "fmi3InstantiateCoSimulation", vr, n))
        return 0;
    for (size_t i = 0; i < n; i++) {
        if (!RB_INTERMEDIATE_UPDATE[vr[i]]) {
            report(fmu, RB_FAILURE, "%s is no variable for intermediate updates", RB_NAMES[vr[i]]);
            return 0;
        }
        fmu->required[vr[i]] = 1;
    }
    return 1;
}

#endif
