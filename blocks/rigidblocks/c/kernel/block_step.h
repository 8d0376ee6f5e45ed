/* Step of a block: integration and samples on the flat memory of the generated model.h.

     memory = [t | continuous states | sampled states | inputs | tunable parameters
               | computed outputs | steps]

   initialize and advance of block/stepper.py do the same arithmetic in the same order. */

#ifndef RB_BLOCK_STEP_H
#define RB_BLOCK_STEP_H

#include <math.h>

#include "adaptive_step.h"
#include "integrators.h"

/* Status of a step: done, failed, or the reason for a rejection. */
enum {
    RB_STEP_OK = 0,
    RB_STEP_FAILED = 1,       /* a result is not finite */
    RB_STEP_NOT_FINITE = 2,   /* the step size is not finite */
    RB_STEP_NOT_POSITIVE = 3, /* the step size is not positive */
    RB_STEP_TOO_LONG = 4,     /* the step needs too many inner steps */
    RB_STEP_NOT_AT_TIME = 5,  /* the step does not start at the time in the memory */
    RB_STEP_BEYOND_END = 6    /* the step ends after the run */
};

#define RB_MOST_INNER_STEPS 1e9 /* bound of the inner steps of a step, which an int counts */
#define RB_RESOLVED (128.0 * DBL_EPSILON) /* shortest period that is resolved, relative to a time */

/* Return 1 if all numbers are finite: 0 x is 0 for finite x, else NaN. Four sums run in
   parallel. */
static inline int all_finite(const double *m)
{
    enum { WHOLE = RB_SIZE / 4 * 4 };
    double sum[4] = {0.0, 0.0, 0.0, 0.0};
    for (int i = 0; i < WHOLE; i += 4)
        for (int k = 0; k < 4; k++)
            sum[k] += 0.0 * m[i + k];
    for (int i = WHOLE; i < RB_SIZE; i++)
        sum[0] += 0.0 * m[i];
    return sum[0] + sum[1] + sum[2] + sum[3] == 0.0;
}

/* Set the time, and project the states if the block has a projection. */
static inline void project_states(double *m, double t)
{
    m[RB_T] = t;
#if RB_PROJECTS
    RB_WORKSPACE(RB_LARGE, double, x, RB_NX);
    project(m, x);
    store(m + RB_X, x, RB_NX);
#endif
}

/* Return the tolerance of a sample instant, in sample periods. Masters compute times in different
   ways: a sum of 1e7 rounded steps has a relative error of up to about 1e-9. */
static inline double sample_slack(double periods)
{
    return fmin(1e-6 + 1e-9 * fabs(periods), 1e-2);
}

/* Return the number k of the last sample instant k RB_SAMPLE_TIME that is not after t. */
static inline double last_sample(double t)
{
    const double periods = t / RB_SAMPLE_TIME;
    return floor(periods + sample_slack(periods));
}

static inline int is_at_sample(double t)
{
    const double periods = t / RB_SAMPLE_TIME, slack = sample_slack(periods);
    return periods - floor(periods + slack) <= slack;
}

/* Return the size of the largest inner step [s]. Inner steps end at each sample. */
static inline double longest_inner_step(void)
{
    return RB_SAMPLE_TIME > 0.0 && RB_SAMPLE_TIME < RB_INNER_STEP ? RB_SAMPLE_TIME : RB_INNER_STEP;
}

/* Return RB_STEP_OK, or the reason to reject the step dt from t. `now` is the time of the memory,
   `end` the end of the run. Masters compute times in different ways, so the comparison allows for
   rounding errors: 1e-6 of the step, and a few units in the last place of the time. */
static inline int step_refusal(double now, double end, double t, double dt)
{
    const double rounding = 1e-6 * dt + 4.0 * DBL_EPSILON * fabs(now);
    if (!isfinite(dt))
        return RB_STEP_NOT_FINITE;
    if (dt <= 0.0)
        return RB_STEP_NOT_POSITIVE;
    if (!(fabs(t - now) <= rounding))
        return RB_STEP_NOT_AT_TIME;
    if (dt >= RB_MOST_INNER_STEPS * longest_inner_step())
        return RB_STEP_TOO_LONG;
    if (t + dt > end + rounding)
        return RB_STEP_BEYOND_END;
    return RB_STEP_OK;
}

/* Start a run at t: compute the sampled states and outputs from the inputs. */
static inline int initialize(double *m, double t)
{
    RB_WORKSPACE(RB_LARGE, double, z, RB_NZ + 1);
#if RB_ADAPTIVE
    store(m + RB_S, RB_START + RB_S, RB_NS);
#endif
    project_states(m, t);
    initial(m, z);
    store(m + RB_Z, z, RB_NZ);
    output(m, m + RB_Y);
    return all_finite(m) ? RB_STEP_OK : RB_STEP_FAILED;
}

/* Return the number of equal inner steps in a span of time; each is at most RB_INNER_STEP, up to
   the rounding error 1e-9 of the ratio. */
static inline int inner_steps(double span)
{
    const double ratio = ceil(span / RB_INNER_STEP - 1e-9);
    return ratio > 1.0 ? (int)ratio : 1;
}

#if RB_ADAPTIVE
/* Integrate from t to `end` by inner steps. After a failed screen, `rates` holds the state
   derivatives at t; without a screen it is NULL. */
RB_NOT_INLINED
static void go_by_inner_steps(double *m, double t, double length, double end,
                              const InputPolynomials *course, const double *rates)
{
    RB_WORKSPACE(RB_LARGE, StepProgress, progress, 1);
    start_progress(progress, t, length, end, rates);
    while (progress->done < length)
        take_inner_step(m, progress, course);
}

/* Integrate from t to `end` by inner steps with error control. */
static inline void go_through(double *m, double t, double length, double end,
                              const InputPolynomials *course)
{
    RB_WORKSPACE(RB_LARGE, double, rates, RB_NX + 1);
    const ScreenResult screened = screen_communication_step(m, t, length, end, course, rates);
    if (screened != RB_SCREEN_TAKEN)
        go_by_inner_steps(m, t, length, end, course, screened == RB_SCREEN_FAILED ? rates : NULL);
}
#else
/* Do one inner step from t to `end` with projection. If there are no continuous states, only the
   time advances. */
static inline void inner_step(double *m, double t, double h, double end,
                              const InputPolynomials *course)
{
    if (RB_NX > 0) {
        integrate_inputs(m, t, h, course);
        evaluate_inputs(course, m, end);
        project_states(m, end);
    }
}
#endif

/* Update the sampled states at the time in the memory. */
static inline void sample(double *m)
{
    RB_WORKSPACE(RB_LARGE, double, z, RB_NZ + 1);
    update(m, z);
    store(m + RB_Z, z, RB_NZ);
}

/* Integrate from t to `end` without samples, with polynomial inputs. */
static inline void flow(double *m, double t, double span, double end,
                        const InputPolynomials *course)
{
#if RB_ADAPTIVE
    go_through(m, t, span, end, course);
#else
    const int n = inner_steps(span);
    for (int j = 0; j < n && RB_NX > 0; j++)
        inner_step(m, t + j * (span / n), span / n, t + (j + 1) * (span / n), course);
#endif
    m[RB_T] = end;
    evaluate_inputs(course, m, end);
}

/* Integrate from t to t + dt with all samples in the step. The span between two sample instants
   is divided into equal inner steps. */
static inline void flow_and_sample(double *m, double t, double dt, const InputPolynomials *course)
{
    const double end = t + dt, first = last_sample(t) + 1.0;
    const double samples = last_sample(end) + 1.0 - first; /* NaN if the quotient overflows */
    const int n = samples > 0.0 ? (int)fmin(samples, RB_MOST_INNER_STEPS) : 0;
    const int at_end = is_at_sample(end);
    if (n == 0) {
        flow(m, t, dt, end, course);
    } else if (at_end && (n == 1 || is_at_sample(t))) {
        const double span = dt / n;
        for (int k = 0; k < n; k++) {
            flow(m, t + k * span, span, t + (k + 1) * span, course);
            sample(m);
        }
    } else {
        double now = t;
        for (int k = 0; k < n; k++) {
            const double instant = at_end && k + 1 == n ? end : (first + k) * RB_SAMPLE_TIME;
            flow(m, now, instant - now, instant, course);
            sample(m);
            now = instant;
        }
        if (!at_end)
            flow(m, now, end - now, end, course);
    }
}

/* Do an accepted step from t to t + dt with polynomial inputs: inner steps of at most
   RB_INNER_STEP, samples at multiples of the sample time, then the outputs. */
static inline int step(double *m, double t, double dt, const InputPolynomials *course)
{
    if (RB_SAMPLE_TIME > 0.0)
        flow_and_sample(m, t, dt, course);
    else
        flow(m, t, dt, t + dt, course);
    output(m, m + RB_Y);
    return all_finite(m) ? RB_STEP_OK : RB_STEP_FAILED;
}

#endif
