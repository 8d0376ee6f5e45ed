/* Steps of an instance and the diagnostics of a run. */

#ifndef RB_SIMULATION_RUN_H
#define RB_SIMULATION_RUN_H

#include "instance.h"
#include "variable_access.h"

/* ---- diagnostics: singular configurations of loops, and steps that reached a limit ---- */

/* Log the largest value of a condition number that exceeded its limit, after it has decreased
   again. */
static inline void log_largest(Instance *fmu, int loop)
{
    Passage *passage = &fmu->now.passages[loop];
    if (isinf(passage->largest))
        report(fmu, RB_WARNING, "%s decreased at t = %g s: a singular configuration",
               RB_NAMES[RB_AT_RANK[loop]], passage->t);
    else
        report(fmu, RB_WARNING, "%s was %.3g at t = %g s: near a singular configuration",
               RB_NAMES[RB_AT_CONDITION[loop]], passage->largest, passage->t);
    passage->reported = passage->largest;
}

/* Record the condition number of a loop after a step. If it exceeded RB_CLOSE times its minimum,
   its largest value is logged when it decreases below that limit. To limit the number of messages,
   the largest value must be at least twice the last logged one. */
static inline void record_loop_condition(Instance *fmu, int loop)
{
    Passage *passage = &fmu->now.passages[loop];
    const double condition = fmu->now.m[RB_AT_CONDITION[loop]], rank = fmu->now.m[RB_AT_RANK[loop]];
    if (passage->least == 0.0 || condition < passage->least)
        passage->least = condition;
    if (rank > passage->rank)
        passage->rank = rank;
    const double now = rank < passage->rank ? INFINITY : condition;
    if (now > RB_CLOSE * passage->least) {
        if (now > passage->largest) {
            passage->largest = now;
            passage->t = fmu->now.m[RB_T];
        }
    } else if (passage->largest > 2.0 * passage->reported)
        log_largest(fmu, loop);
}

/* Record the diagnostics of a step. */
static inline void record_diagnostics(Instance *fmu, const double *before)
{
    for (int i = 0; i < RB_LOOPS; i++)
        record_loop_condition(fmu, i);
    for (int i = 0; i < RB_STEPPED; i++)
        if (fmu->now.m[RB_AT_CUT_SHORT[i]] > 0.0 && before[RB_AT_CUT_SHORT[i]] == 0.0)
            report(
                fmu, RB_WARNING,
                "max_inner_steps is reached at t = %g s: one step without error control completes "
                "the communication step, here and whenever %s "
                "grows",
                fmu->now.m[RB_T], RB_NAMES[RB_AT_CUT_SHORT[i]]);
}

/* Log the summary at the end of a run. */
static inline void log_run_summary(Instance *fmu)
{
    const double *m = fmu->now.m;
    for (int i = 0; i < RB_LOOPS; i++)
        if (fmu->now.passages[i].largest > fmu->now.passages[i].reported)
            log_largest(fmu, i);
    for (int i = 0; i < RB_STEPPED; i++) {
        if (m[RB_AT_CUT_SHORT[i]] > 0.0)
            report(fmu, RB_WARNING,
                   "%s is %g: communication steps that reached the limit of inner steps; raise "
                   "max_inner_steps",
                   RB_NAMES[RB_AT_CUT_SHORT[i]], m[RB_AT_CUT_SHORT[i]]);
        if (m[RB_AT_ABOVE_TOLERANCE[i]] > 0.0)
            report(fmu, RB_WARNING,
                   "%s is %g: inner steps with an error above the tolerance, because no shorter "
                   "steps are possible",
                   RB_NAMES[RB_AT_ABOVE_TOLERANCE[i]], m[RB_AT_ABOVE_TOLERANCE[i]]);
        if (m[RB_AT_STIFFNESS[i]] > 0.0 && m[RB_AT_EXPLICIT_LENGTH[i]] == 0.0)
            report(fmu, RB_WARNING,
                   "%s is %g: stability limits the inner steps; a stiff method permits longer "
                   "steps",
                   RB_NAMES[RB_AT_STIFFNESS[i]], m[RB_AT_STIFFNESS[i]]);
    }
}

/* ---- start and end ---- */

static inline Status set_up_run(Instance *fmu, double start_time, int stop_time_defined,
                                double stop_time, int tolerance_defined, double tolerance)
{
    if (!isfinite(start_time))
        return report(fmu, RB_FAILURE, "the start time must be finite, not %g s", start_time);
    if (stop_time_defined && !(stop_time >= start_time))
        return report(fmu, RB_FAILURE, "the stop time %g s is before the start time %g s",
                      stop_time, start_time);
    if (RB_SAMPLE_TIME > 0.0 && RB_SAMPLE_TIME < RB_RESOLVED * fabs(start_time))
        return report(fmu, RB_FAILURE,
                      "the start time %g s is too far from 0 for samples every %g s", start_time,
                      RB_SAMPLE_TIME);
    fmu->now.m[RB_T] = start_time;
    fmu->now.stop_time = stop_time_defined ? stop_time : INFINITY;
    fmu->now.drift = allowed_drift(tolerance_defined && tolerance > 0.0 ? tolerance : RB_TOLERANCE);
    apply_settings(fmu);
    return RB_OK;
}

/* Return the index of the next sample after t: a multiple of the sample time. */
static inline double next_sample(double t)
{
    return RB_SAMPLE_TIME > 0.0 ? last_sample(t) + 1.0 : 0.0;
}

static inline Status begin(Instance *fmu)
{
    RB_WORKSPACE(RB_LARGE, double, m, RB_SIZE);
    store(m, fmu->now.m, RB_SIZE);
    if (initialize_from_start_values(m) != RB_STEP_OK)
        return not_finite(fmu, first_not_finite(m, RB_SIZE));
    store(fmu->now.m, m, RB_SIZE);
    record_diagnostics(fmu, m);
    fmu->now.next_sample = next_sample(m[RB_T]);
    expect_ticks_from(fmu, m[RB_T]);
    find_sides(m, fmu->now.side);
    fmu->now.mode = fmu->modes & RB_EVENT        ? RB_EVENT
                    : fmu->modes & RB_ACTIVATION ? RB_ACTIVATION
                                                 : RB_STEPPING;
    return RB_OK;
}

static inline Status start_run(Instance *fmu, const char *function)
{
    if (!is_allowed(fmu, function, RB_INITIALIZATION))
        return RB_FAILURE;
    apply_settings(fmu);
    return RB_LOCKED(fmu, begin(fmu));
}

/* Enter a mode if the instance supports it. */
static inline Status enter_mode(Instance *fmu, const char *function, int from, int mode)
{
    if (!is_allowed(fmu, function, fmu && !(fmu->modes & mode) ? 0 : from))
        return RB_FAILURE;
    fmu->now.mode = mode;
    return RB_OK;
}

/* End a run and log its summary. */
static inline Status terminate(Instance *fmu, const char *function)
{
    const Status status = enter_mode(
        fmu, function, RB_STEPPING | RB_FAILED | RB_EVENT | RB_CONTINUOUS | RB_ACTIVATION,
        RB_TERMINATED);
    if (status == RB_OK) {
        end_service(fmu);
        log_run_summary(fmu);
    }
    return status;
}

static inline Status reset(Instance *fmu, const char *function)
{
    if (!is_allowed(fmu, function, RB_ANY))
        return RB_FAILURE;
    reset_settings(fmu);
    restart(fmu);
    return RB_OK;
}

/* ---- co-simulation ---- */

/* Return 1 if a step is accepted; otherwise log the reason for the rejection. */
static inline int is_step_accepted(const Instance *fmu, double t, double dt)
{
    const double now = fmu->now.m[RB_T], end = fmu->now.stop_time;
    switch (step_refusal(now, end, t, dt)) {
    case RB_STEP_OK: return 1;
    case RB_STEP_NOT_FINITE:
        report(fmu, RB_FAILURE, "the step must be finite, not %g s", dt);
        break;
    case RB_STEP_NOT_POSITIVE:
        report(fmu, RB_FAILURE, "the step must be positive, not %g s", dt);
        break;
    case RB_STEP_NOT_AT_TIME:
        report(fmu, RB_FAILURE,
               "the communication point %.15g s is not the time %.15g s of the FMU", t, now);
        break;
    case RB_STEP_TOO_LONG:
        report(fmu, RB_FAILURE,
               "the step of %g s has too many inner steps of %g s: at most %g are allowed", dt,
               longest_inner_step(), RB_MOST_INNER_STEPS);
        break;
    default:
        report(fmu, RB_FAILURE, "the step to %.15g s is beyond the stop time %.15g s", t + dt, end);
    }
    return 0;
}

/* Return the input polynomials of a step from t. Return NULL if the inputs have no derivatives and
   are held. */
static inline const InputPolynomials *step_input_polynomials(const Instance *fmu, double t,
                                                             InputPolynomials *course)
{
    if (fmu->now.slopes != RB_NEXT_SLOPES)
        return NULL;
    memset(course, 0, sizeof *course);
    course->t0 = t;
    store(course->c[0], fmu->now.m + RB_U, RB_NU);
    double factorial = 1.0;
    for (int k = 1; k <= RB_COURSE_ORDER; k++) {
        factorial *= k;
        for (int i = 0; i < RB_NU && RB_SLOPES > 0; i++)
            course->c[k][i] = fmu->now.slope[(k - 1) * RB_NU + i] / factorial;
    }
    return course;
}

/* Store the input derivatives at the end of a step of length dt, if the step had input
   derivatives. */
static inline void end_slopes(Instance *fmu, double dt)
{
    if (fmu->now.slopes != RB_NEXT_SLOPES) {
        forget_slopes(fmu);
        return;
    }
    for (int i = 0; i < RB_NU && RB_SLOPES > 0; i++)
        for (int k = 0; k < RB_COURSE_ORDER; k++) {
            double sum = 0.0; /* u^(k)(t + dt) = sum_j u^(k + j)(t) dt^j / j!, by Horner's rule */
            for (int j = RB_COURSE_ORDER - 1 - k; j >= 0; j--)
                sum = sum * dt / (j + 1) + fmu->now.slope[(k + j) * RB_NU + i];
            fmu->now.slope[k * RB_NU + i] = sum;
        }
    fmu->now.slopes = RB_PAST_SLOPES;
}

/* Undo a step to `t` whose result is not finite: restore the memory and mark the run as failed. */
static inline Status undo_step(Instance *fmu, const double *before, double t, double dt)
{
    const int culprit = first_not_finite(fmu->now.m, RB_SIZE);
    store(fmu->now.m, before, RB_SIZE);
    fmu->now.mode = RB_FAILED;
    return report(fmu, RB_DISCARD, "%s is not finite at t = %g s: the step of %g s is undone%s",
                  RB_NAMES[culprit], t, dt, RB_SUSPICION);
}

/* Do a step. Afterwards the inputs have the final values of their polynomials. */
static inline Status do_step(Instance *fmu, const char *function, double t, double dt)
{
    RB_WORKSPACE(RB_LARGE, InputPolynomials, course, 1);
    RB_WORKSPACE(RB_LARGE, double, before, RB_SIZE);
    if (!is_allowed(fmu, function, RB_STEPPING) || !is_step_accepted(fmu, t, dt))
        return RB_FAILURE;
    store(before, fmu->now.m, RB_SIZE);
    if (step(fmu->now.m, t, dt, step_input_polynomials(fmu, t, course)) != RB_STEP_OK)
        return undo_step(fmu, before, t + dt, dt);
    record_diagnostics(fmu, before);
    end_slopes(fmu, dt);
    return RB_OK;
}

/* ---- events and model exchange ---- */

/* Return 1 if the next sample is due, and no clock of the host takes it. */
static inline int is_due(const Instance *fmu)
{
    return !is_clocked(fmu) && RB_SAMPLE_TIME > 0.0 &&
           last_sample(fmu->now.m[RB_T]) >= fmu->now.next_sample;
}

/* Return 1 if the function may be called in the current mode and the instance is for model
   exchange. */
static inline int is_model_exchange_call(const Instance *fmu, const char *function, int modes)
{
    return is_allowed(fmu, function, fmu && fmu->modes != RB_MODEL_EXCHANGE ? 0 : modes);
}

enum { RB_MOST_IMPACTS = 1000 }; /* largest number of impacts at one event */

/* Update the sides of the switching functions at an event. A projection of the states, such as an
   impact, may change sides and require another projection. Returns 1 if the iteration ends. */
static inline int settle_events(double *m, double *side)
{
    for (int round = 0; round < RB_MOST_IMPACTS; round++) {
        if (!change_sides(m, side, 0.0) || !RB_PROJECTS)
            return 1;
        project_states(m, m[RB_T]);
    }
    return 0;
}

/* Handle an event: project the states, take the sample if one is due, and update the sides of the
   switching functions. `moved` becomes 1 if states changed. */
static inline Status handle_event(Instance *fmu, const char *function, int *moved)
{
    RB_WORKSPACE(RB_LARGE, double, m, RB_SIZE);
    RB_WORKSPACE(RB_LARGE, double, side, RB_SIDES);
    if (!is_allowed(fmu, function, RB_EVENT))
        return RB_FAILURE;
    const double t = fmu->now.m[RB_T];
    const int due = is_due(fmu);
    store(m, fmu->now.m, RB_SIZE);
    project_states(m, t);
    if (due || takes_clocked_sample(fmu))
        sample(m);
    store(side, fmu->now.side, RB_SIDES);
    const int settled = fmu->modes != RB_MODEL_EXCHANGE || settle_events(m, side);
    if (!all_finite(m))
        return not_finite(fmu, first_not_finite(m, RB_SIZE));
    if (!settled)
        return report(fmu, RB_FAILURE,
                      "the event at t = %g s did not converge: its states changed %d times", t,
                      RB_MOST_IMPACTS);
    *moved = memcmp(m + RB_X, fmu->now.m + RB_X, RB_NX * sizeof(double)) != 0;
    store(fmu->now.m, m, RB_SIZE);
    store(fmu->now.side, side, RB_SIDES);
    if (due)
        fmu->now.next_sample = next_sample(t);
    end_tick(fmu);
    return RB_OK;
}

/* Return 1 if the clock does not tick; otherwise log that the event must be handled first. */
static inline int is_tick_handled(const Instance *fmu, const char *function)
{
    if (clock_ticks(fmu))
        report(fmu, RB_FAILURE, "%s: the clock ticks at %.15g s; handle this event first", function,
               fmu->now.m[RB_T]);
    return !clock_ticks(fmu);
}

/* Return 1 if the states have drifted from their constraints by more than the allowed amount. */
static inline int has_drifted(const Instance *fmu)
{
    int drifted = 0;
#if RB_PROJECTS
    RB_WORKSPACE(RB_LARGE, double, x, RB_NX);
    project(fmu->now.m, x);
    for (int i = 0; i < RB_NX; i++) {
        const double size = fmax(RB_NOMINAL[i], fabs(x[i]));
        drifted |= !(fabs(fmu->now.m[RB_X + i] - x[i]) <= fmu->now.drift * size);
    }
#else
    (void)fmu;
#endif
    return drifted;
}

/* Return 1 if the states require an event after a step of the host's solver. Either they have
   drifted, or an indicator has changed its sign without detection by the solver. */
static inline int wants_event(const Instance *fmu)
{
    RB_WORKSPACE(RB_LARGE, double, side, RB_SIDES);
    store(side, fmu->now.side, RB_SIDES);
    return has_drifted(fmu) || change_sides(fmu->now.m, side, RB_SHIFT);
}

static inline Status set_time(Instance *fmu, const char *function, double t)
{
    if (!is_model_exchange_call(fmu, function, RB_EVENT | RB_CONTINUOUS))
        return RB_FAILURE;
    if (!isfinite(t))
        return report(fmu, RB_FAILURE, "the time must be finite, not %g s", t);
    fmu->now.m[RB_T] = t;
    return RB_OK;
}

/* Return 1 if the vector of the host has one element for each continuous state. */
static inline int states_fit(const Instance *fmu, const char *function, const double x[], size_t n)
{
    if (n != RB_NX)
        report(fmu, RB_FAILURE, "%s: there are %d continuous states, not %lu", function, RB_NX,
               (unsigned long)n);
    return n == RB_NX && is_given(fmu, function, x, n);
}

static inline Status set_states(Instance *fmu, const char *function, const double x[], size_t n)
{
    if (!is_model_exchange_call(fmu, function, RB_CONTINUOUS) || !states_fit(fmu, function, x, n))
        return RB_FAILURE;
    for (int i = 0; i < RB_NX; i++)
        if (!isfinite(x[i]))
            return report(fmu, RB_FAILURE, "%s must be finite, not %g", RB_NAMES[RB_X + i], x[i]);
    if (RB_NX > 0)
        store(fmu->now.m + RB_X, x, RB_NX);
    return RB_OK;
}

static inline Status get_states(const Instance *fmu, const char *function, double x[], size_t n)
{
    if (!is_model_exchange_call(fmu, function, RB_EVENT | RB_CONTINUOUS) ||
        !states_fit(fmu, function, x, n))
        return RB_FAILURE;
    if (RB_NX > 0)
        store(x, fmu->now.m + RB_X, RB_NX);
    return RB_OK;
}

static inline Status get_rates(const Instance *fmu, const char *function, double rates[], size_t n)
{
    RB_WORKSPACE(RB_LARGE, double, computed, RB_NX + 1);
    memset(computed, 0, (RB_NX + 1) * sizeof *computed);
    if (!is_model_exchange_call(fmu, function, RB_EVENT | RB_CONTINUOUS) ||
        !states_fit(fmu, function, rates, n))
        return RB_FAILURE;
    rates_on(fmu->now.m, fmu->now.side, computed);
    for (int i = 0; i < RB_NX; i++)
        if (!isfinite(computed[i]))
            return not_finite(fmu, RB_SIZE + i);
    if (RB_NX > 0)
        store(rates, computed, RB_NX);
    return RB_OK;
}

static inline Status get_nominals(const Instance *fmu, const char *function, double nominals[],
                                  size_t n)
{
    if (!is_model_exchange_call(fmu, function, RB_MODEL_EXCHANGE) ||
        !states_fit(fmu, function, nominals, n))
        return RB_FAILURE;
    for (size_t i = 0; i < n; i++)
        nominals[i] = RB_NOMINAL[i];
    return RB_OK;
}

static inline Status get_indicators(const Instance *fmu, const char *function, double z[], size_t n)
{
    RB_WORKSPACE(RB_LARGE, double, computed, RB_SIDES);
    memset(computed, 0, RB_SIDES * sizeof *computed);
    if (!is_model_exchange_call(fmu, function, RB_EVENT | RB_CONTINUOUS))
        return RB_FAILURE;
    if (n != RB_INDICATORS)
        return report(fmu, RB_FAILURE, "%s: there are %d event indicators, not %lu", function,
                      RB_INDICATORS, (unsigned long)n);
    if (!is_given(fmu, function, z, n))
        return RB_FAILURE;
    indicators_on(fmu->now.m, fmu->now.side, RB_SHIFT, computed);
    for (int i = 0; i < RB_INDICATORS; i++)
        if (!isfinite(computed[i]))
            return not_finite(fmu, RB_SIZE + RB_NX + i);
    if (n > 0)
        store(z, computed, RB_INDICATORS);
    return RB_OK;
}

/* ---- FMI 3.0: steps with intermediate updates ----

   The host gets an update after each inner step; it may then set inputs and end the step early. In
   event mode the step ends at each sample, because a sample is an event that the host handles. The
   samples of a clock are not events of the FMU; the host ends its steps at the ticks. */

#if RB_FMI == 3

#include "sparsity.h"

/* Return 1 if the host handles samples as events; this requires early return. */
static inline int has_events(const Instance *fmu)
{
    return (fmu->modes & RB_EVENT) && fmu->host.early_return;
}

/* Report an inner step to the host. The host may request an earlier end of the step, even the
   current time. */
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

/* Do inner steps until the time `to`, and report all of them except the last to the host. Stop if
   the host requests an earlier end of the step. */
static inline int stretch(Instance *fmu, double to, double *end)
{
    double *m = fmu->now.m;
    RB_WORKSPACE(RB_LARGE, double, rates, RB_NX + 1);
    RB_WORKSPACE(RB_LARGE, StepProgress, progress, 1);
    const double from = m[RB_T];
    const ScreenResult screened = screen_communication_step(m, from, to - from, to, NULL, rates);
    if (screened == RB_SCREEN_TAKEN) {
        m[RB_T] = to;
        return RB_STEP_OK;
    }
    start_progress(progress, from, to - from, to, screened == RB_SCREEN_FAILED ? rates : NULL);
    while (progress->done < progress->length && to <= *end) {
        m[RB_T] = take_inner_step(m, progress, NULL);
        if (progress->done < progress->length) {
            output(m, m + RB_Y);
            if (!all_finite(m))
                return RB_STEP_FAILED;
            show(fmu, end);
            progress->known = 0; /* the host may have changed inputs in the update */
        }
    }
    return RB_STEP_OK;
}

#else

/* Do inner steps until the time `to`, and report all of them except the last to the host. Stop if
   the host requests an earlier end of the step. */
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

/* Advance to the next sample or to the end of the step. `event` becomes 1 if a sample is due as an
   event; other samples are taken. */
static inline int advance(Instance *fmu, double *end, int *event)
{
    double *m = fmu->now.m;
    const double next = fmu->now.next_sample * RB_SAMPLE_TIME;
    const int due = !is_clocked(fmu) && RB_SAMPLE_TIME > 0.0 && next > m[RB_T] &&
                    last_sample(*end) >= fmu->now.next_sample;
    const int at_end = due && last_sample(*end) == fmu->now.next_sample && is_at_sample(*end);
    const double to = due && !at_end ? next : *end;
    if (stretch(fmu, to, end) != RB_STEP_OK)
        return RB_STEP_FAILED;
    if (m[RB_T] < to)
        return RB_STEP_OK; /* the host requested an earlier end */
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

/* Do a step. `event` becomes 1 if it ends at an event, `early` if it returns before t + dt. */
static inline Status shared_step(Instance *fmu, const char *function, double t, double dt,
                                 int *event, int *early)
{
    double end = t + dt;
    if (!is_allowed(fmu, function, RB_STEPPING) || !is_step_accepted(fmu, t, dt))
        return RB_FAILURE;
    if (has_events(fmu) && is_due(fmu))
        return report(fmu, RB_FAILURE,
                      "%s: the sample at %.15g s is an event; handle this event first", function,
                      fmu->now.m[RB_T]);
    RB_WORKSPACE(RB_LARGE, double, before, RB_SIZE);
    const double next = fmu->now.next_sample;
    store(before, fmu->now.m, RB_SIZE);
    fmu->now.m[RB_T] = t;
    if (!has_events(fmu))
        fmu->now.next_sample = next_sample(t);
    do
        if (advance(fmu, &end, event) != RB_STEP_OK) {
            fmu->now.next_sample = next;
            return undo_step(fmu, before, fmu->now.m[RB_T], dt);
        }
    while (fmu->now.m[RB_T] < end && !*event);
    record_diagnostics(fmu, before);
    *early = fmu->now.m[RB_T] < t + dt;
    return RB_OK;
}

/* Return 1 if the host uses intermediate updates or events. */
static inline int is_shared(const Instance *fmu)
{
    return fmu && (fmu->host.update || fmu->host.early_return || (fmu->modes & RB_EVENT));
}

/* Compute the outputs and return from event mode to step mode. */
static inline Status enter_step_mode(Instance *fmu, const char *function)
{
    RB_WORKSPACE(RB_LARGE, double, y, RB_NY + 1);
    if (!is_allowed(fmu, function, fmu && fmu->modes & RB_STEPPING ? RB_EVENT : 0))
        return RB_FAILURE;
    if (has_events(fmu) && is_due(fmu))
        return report(fmu, RB_FAILURE,
                      "%s: the sample at %.15g s is an event; handle this event first", function,
                      fmu->now.m[RB_T]);
    if (!is_tick_handled(fmu, function))
        return RB_FAILURE;
    output(fmu->now.m, y);
    for (int i = 0; i < RB_NY; i++)
        if (!isfinite(y[i]))
            return not_finite(fmu, RB_Y + i);
    store(fmu->now.m + RB_Y, y, RB_NY);
    fmu->now.mode = RB_STEPPING;
    return RB_OK;
}

/* Store the variables that the host uses in intermediate updates. Returns 0 if one of them cannot
   be used. */
static inline int keep_required(Instance *fmu, const Reference vr[], size_t n)
{
    if (!are_known(fmu, "fmi3InstantiateCoSimulation", vr, n))
        return 0;
    for (size_t i = 0; i < n; i++) {
        if (!RB_INTERMEDIATE_UPDATE[vr[i]]) {
            report(fmu, RB_FAILURE, "%s is not available in intermediate updates", RB_NAMES[vr[i]]);
            return 0;
        }
        fmu->required[vr[i]] = 1;
    }
    return 1;
}

#endif

#endif
