/* The course of a run of an instance: its start, the steps of a co-simulation, and the events of a
   model exchange. */

#ifndef RB_RUN_H
#define RB_RUN_H

#include "values.h"
#include "watch.h"

/* ---- start and end ---- */

static inline Status set_up(Instance *fmu, double start_time, int stop_time_defined,
                            double stop_time, int tolerance_defined, double tolerance)
{
    if (!isfinite(start_time))
        return report(fmu, RB_FAILURE, "the start time must be finite, not %g s", start_time);
    if (stop_time_defined && !(stop_time >= start_time))
        return report(fmu, RB_FAILURE, "the stop time %g s is before the start time %g s",
                      stop_time, start_time);
    fmu->now.m[RB_T] = start_time;
    fmu->now.stop_time = stop_time_defined ? stop_time : INFINITY;
    fmu->now.drift = allowed_drift(tolerance_defined && tolerance > 0.0 ? tolerance : RB_TOLERANCE);
    apply_settings(fmu);
    return RB_OK;
}

/* The multiple of the sample time that is next after t. */
static inline double next_sample(double t)
{
    return RB_SAMPLE_TIME > 0.0 ? floor(t / RB_SAMPLE_TIME + 1e-6) + 1.0 : 0.0;
}

static inline Status begin(Instance *fmu)
{
    double m[RB_SIZE];
    store(m, fmu->now.m, RB_SIZE);
    if (initialize(m, m[RB_T]) != RB_STEP_OK)
        return not_finite(fmu, first_not_finite(m, RB_SIZE));
    store(fmu->now.m, m, RB_SIZE);
    watch(fmu, m);
    fmu->now.next_sample = next_sample(m[RB_T]);
    find_sides(m, fmu->now.side);
    fmu->now.mode = fmu->modes & RB_EVENT ? RB_EVENT : RB_STEPPING;
    return RB_OK;
}

static inline Status start_run(Instance *fmu, const char *function)
{
    if (!allowed(fmu, function, RB_INITIALIZATION))
        return RB_FAILURE;
    apply_settings(fmu);
    return RB_LOCKED(fmu, begin(fmu));
}

/* Into another mode, if it is one of the instance. */
static inline Status enter(Instance *fmu, const char *function, int from, int mode)
{
    if (!allowed(fmu, function, fmu && !(fmu->modes & mode) ? 0 : from))
        return RB_FAILURE;
    fmu->now.mode = mode;
    return RB_OK;
}

/* The end of a run, of which the log is told what there is to be said. */
static inline Status terminate(Instance *fmu, const char *function)
{
    const Status status =
        enter(fmu, function, RB_STEPPING | RB_FAILED | RB_EVENT | RB_CONTINUOUS, RB_TERMINATED);
    if (status == RB_OK) {
        end_service(fmu);
        tell_of_run(fmu);
    }
    return status;
}

static inline Status reset(Instance *fmu, const char *function)
{
    if (!allowed(fmu, function, RB_ANY))
        return RB_FAILURE;
    reset_settings(fmu);
    restart(fmu);
    return RB_OK;
}

/* ---- co-simulation ---- */

/* Whether a step is accepted; if not it is said why. */
static inline int accepts(const Instance *fmu, double t, double dt, int by_samples)
{
    const double now = fmu->now.m[RB_T], end = fmu->now.stop_time;
    switch (step_refusal(now, end, t, dt, by_samples)) {
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
               "the step of %g s has too many inner steps of %g s: at most %g can be taken", dt,
               longest_inner_step(), RB_MOST_INNER_STEPS);
        break;
    case RB_STEP_BEYOND_END:
        report(fmu, RB_FAILURE, "the step to %.15g s is beyond the stop time %.15g s", t + dt, end);
        break;
    default:
        report(
            fmu, RB_FAILURE,
            "the step %g s does not fit the sample time %g s: one must be a multiple of the other",
            dt, RB_SAMPLE_TIME);
    }
    return 0;
}

/* The course of the inputs in a step from t; NULL when they are held, which they are without
   derivatives. */
static inline const Course *course_of(const Instance *fmu, double t, Course *course)
{
    if (!fmu->now.slopes_given)
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

/* The end of a step to `t` that is not finite: the memory before is back, and the run has
   failed. */
static inline Status undo(Instance *fmu, const double *before, double t, double dt)
{
    const int culprit = first_not_finite(fmu->now.m, RB_SIZE);
    store(fmu->now.m, before, RB_SIZE);
    fmu->now.mode = RB_FAILED;
    return report(fmu, RB_DISCARD, "%s is not finite at t = %g s: the step of %g s is undone%s",
                  RB_NAMES[culprit], t, dt, RB_SUSPICION);
}

/* A step, after which the inputs are held again at the end of their course. */
static inline Status do_step(Instance *fmu, const char *function, double t, double dt)
{
    Course course;
    double before[RB_SIZE];
    if (!allowed(fmu, function, RB_STEPPING) || !accepts(fmu, t, dt, 0))
        return RB_FAILURE;
    store(before, fmu->now.m, RB_SIZE);
    if (step(fmu->now.m, t, dt, course_of(fmu, t, &course)) != RB_STEP_OK)
        return undo(fmu, before, t + dt, dt);
    watch(fmu, before);
    forget_slopes(fmu);
    return RB_OK;
}

/* ---- events and model exchange ---- */

/* Whether the next sample is due. */
static inline int is_due(const Instance *fmu)
{
    return RB_SAMPLE_TIME > 0.0 && fmu->now.m[RB_T] / RB_SAMPLE_TIME > fmu->now.next_sample - 1e-6;
}

/* Whether the function may be called in the mode that the instance is in, and is made for model
   exchange. */
static inline int exchanges(const Instance *fmu, const char *function, int modes)
{
    return allowed(fmu, function, fmu && fmu->modes != RB_MODEL_EXCHANGE ? 0 : modes);
}

enum { RB_MOST_IMPACTS = 1000 }; /* one after the other, at one event */

/* The sides of laws at an event. Where the states are moved to where they belong, as by an impact,
   that may change sides, by which they may move once more. Returns whether that has an end. */
static inline int settle(double *m, double *side)
{
    for (int round = 0; round < RB_MOST_IMPACTS; round++) {
        if (!change_sides(m, side, 0.0) || !RB_PROJECTS)
            return 1;
        put_back(m, m[RB_T]);
    }
    return 0;
}

/* The states moved back to where they belong, the sample if one is due, and the laws that hold from
   here on. `moved` tells whether states have moved. */
static inline Status handle_event(Instance *fmu, const char *function, int *moved)
{
    double m[RB_SIZE], side[RB_SIDES];
    if (!allowed(fmu, function, RB_EVENT))
        return RB_FAILURE;
    const double t = fmu->now.m[RB_T];
    const int due = is_due(fmu);
    store(m, fmu->now.m, RB_SIZE);
    put_back(m, t);
    if (due)
        sample(m);
    store(side, fmu->now.side, RB_SIDES);
    const int settled = fmu->modes != RB_MODEL_EXCHANGE || settle(m, side);
    if (!all_finite(m))
        return not_finite(fmu, first_not_finite(m, RB_SIZE));
    if (!settled)
        return report(fmu, RB_FAILURE,
                      "the event at t = %g s has no end: its states moved %d times", t,
                      RB_MOST_IMPACTS);
    *moved = memcmp(m + RB_X, fmu->now.m + RB_X, RB_NX * sizeof(double)) != 0;
    store(fmu->now.m, m, RB_SIZE);
    store(fmu->now.side, side, RB_SIDES);
    if (due)
        fmu->now.next_sample = next_sample(t);
    return RB_OK;
}

/* Whether a state is farther from where it belongs than is allowed. */
static inline int has_drifted(const Instance *fmu)
{
    int drifted = 0;
#if RB_PROJECTS
    double x[RB_NX];
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

/* Whether the states ask for an event, after a step of the host's solver: where they have drifted,
   or where an indicator has changed its sign, which the solver may not have seen. */
static inline int wants_event(const Instance *fmu)
{
    double side[RB_SIDES];
    store(side, fmu->now.side, RB_SIDES);
    return has_drifted(fmu) || change_sides(fmu->now.m, side, RB_SHIFT);
}

static inline Status set_time(Instance *fmu, const char *function, double t)
{
    if (!exchanges(fmu, function, RB_EVENT | RB_CONTINUOUS))
        return RB_FAILURE;
    if (!isfinite(t))
        return report(fmu, RB_FAILURE, "the time must be finite, not %g s", t);
    fmu->now.m[RB_T] = t;
    return RB_OK;
}

/* Whether the host's vector has an element for each continuous state. */
static inline int states_fit(const Instance *fmu, const char *function, const double x[], size_t n)
{
    if (n != RB_NX)
        report(fmu, RB_FAILURE, "%s: there are %d continuous states, not %lu", function, RB_NX,
               (unsigned long)n);
    return n == RB_NX && given(fmu, function, x, n);
}

static inline Status set_states(Instance *fmu, const char *function, const double x[], size_t n)
{
    if (!exchanges(fmu, function, RB_CONTINUOUS) || !states_fit(fmu, function, x, n))
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
    if (!exchanges(fmu, function, RB_EVENT | RB_CONTINUOUS) || !states_fit(fmu, function, x, n))
        return RB_FAILURE;
    if (RB_NX > 0)
        store(x, fmu->now.m + RB_X, RB_NX);
    return RB_OK;
}

static inline Status get_rates(const Instance *fmu, const char *function, double rates[], size_t n)
{
    double computed[RB_NX + 1] = {0};
    if (!exchanges(fmu, function, RB_EVENT | RB_CONTINUOUS) || !states_fit(fmu, function, rates, n))
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
    if (!exchanges(fmu, function, RB_MODEL_EXCHANGE) || !states_fit(fmu, function, nominals, n))
        return RB_FAILURE;
    for (size_t i = 0; i < n; i++)
        nominals[i] = RB_NOMINAL[i];
    return RB_OK;
}

static inline Status get_indicators(const Instance *fmu, const char *function, double z[], size_t n)
{
    double computed[RB_SIDES] = {0};
    if (!exchanges(fmu, function, RB_EVENT | RB_CONTINUOUS))
        return RB_FAILURE;
    if (n != RB_INDICATORS)
        return report(fmu, RB_FAILURE, "%s: there are %d event indicators, not %lu", function,
                      RB_INDICATORS, (unsigned long)n);
    if (!given(fmu, function, z, n))
        return RB_FAILURE;
    indicators_on(fmu->now.m, fmu->now.side, RB_SHIFT, computed);
    for (int i = 0; i < RB_INDICATORS; i++)
        if (!isfinite(computed[i]))
            return not_finite(fmu, RB_SIZE + RB_NX + i);
    if (n > 0)
        store(z, computed, RB_INDICATORS);
    return RB_OK;
}

#endif
