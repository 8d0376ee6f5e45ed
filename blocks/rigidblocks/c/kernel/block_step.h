/* The step of a block: fixed-step integration and samples on the flat memory that the generated
   model.h lays out.

   memory = [t | continuous states | sampled states | inputs | tunable parameters | computed outputs
   | steps]

   The same arithmetic, in the same order, as initialize and advance of block/step.py. */

#ifndef RB_STEP_H
#define RB_STEP_H

#include <math.h>

#include "control.h"
#include "course.h"
#include "implicit.h"

/* What becomes of a step: it is taken, it fails, or it is refused for a reason. */
enum {
    RB_STEP_OK = 0,
    RB_STEP_FAILED = 1,       /* a value after it is not finite */
    RB_STEP_NOT_FINITE = 2,   /* its length */
    RB_STEP_NOT_POSITIVE = 3, /* its length */
    RB_STEP_TOO_LONG = 4,     /* it has RB_MOST_INNER_STEPS or more */
    /* neither of its length and the sample time is a multiple of the other */
    RB_STEP_OFF_SAMPLES = 5,
    RB_STEP_NOT_AT_TIME = 6, /* it does not start at the time of the memory */
    RB_STEP_BEYOND_END = 7   /* of the run */
};

#define RB_MOST_INNER_STEPS 1e9

/* 0 x is 0 of what is finite, NaN else; four sums, so that they are made side by side. */
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

#if RB_ADAPTIVE
#elif RB_LINEARLY_IMPLICIT /* the inputs are held in each inner step, in their middle */
static inline void integrate_inputs(double *m, double t, double h, const Course *course)
{
    follow(course, m, t + 0.5 * h);
    integrate(m, t, h);
}
#else
/* One step of the integrator of model.h: x + h sum b_i k_i with k_i = derivative(t + c_i h,
   x_i). */
static inline void integrate_inputs(double *m, double t, double h, const Course *course)
{
    double x[RB_NX + 1], k[RB_STAGES][RB_NX + 1];
    store(x, m + RB_X, RB_NX);
    for (int s = 0; s <= RB_STAGES; s++) {
        for (int i = 0; i < RB_NX; i++) {
            const double *weight = RB_POSITION[i] ? RB_A_POSITION[s] : RB_A[s];
            double sum = 0.0;
            for (int r = 0; r < s; r++)
                sum += weight[r] * k[r][i];
            m[RB_X + i] = x[i] + h * sum;
        }
        if (s < RB_STAGES) {
            m[RB_T] = t + RB_C[s] * h;
            follow(course, m, m[RB_T]);
            derivative(m, k[s]);
        }
    }
}
#endif

/* The states moved back to where they belong at t, in a block that has a projection. */
static inline void put_back(double *m, double t)
{
    m[RB_T] = t;
#if RB_PROJECTS
    double x[RB_NX];
    project(m, x);
    store(m + RB_X, x, RB_NX);
#endif
}

/* The number of equal parts of dt such that a sample can only fall on the end of one; 0 when dt
   does not fit. */
static inline int sample_spans(double dt)
{
    const double longer = RB_SAMPLE_TIME / dt, shorter = dt / RB_SAMPLE_TIME;
    if (RB_SAMPLE_TIME <= 0.0 || (fabs(longer - floor(longer + 0.5)) < 1e-6 && longer >= 0.5))
        return 1;
    return fabs(shorter - floor(shorter + 0.5)) > 1e-6 ? 0 : (int)floor(shorter + 0.5);
}

static inline int is_sample(double t, double span)
{
    const double samples = t / RB_SAMPLE_TIME;
    return span > RB_SAMPLE_TIME * (1.0 - 1e-6) || fabs(samples - floor(samples + 0.5)) < 1e-6;
}

/* No inner step is longer; a sample ends one. */
static inline double longest_inner_step(void)
{
    return RB_SAMPLE_TIME > 0.0 && RB_SAMPLE_TIME < RB_INNER_STEP ? RB_SAMPLE_TIME : RB_INNER_STEP;
}

/* RB_STEP_OK, or why no step dt from t is taken by a memory at `now` in a run that ends at `end`.
   Hosts count time in their own ways: times are compared with what rounding leaves of them. A step
   that goes `by_samples` need not fit them. */
static inline int step_refusal(double now, double end, double t, double dt, int by_samples)
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
    return by_samples || sample_spans(dt) > 0 ? RB_STEP_OK : RB_STEP_OFF_SAMPLES;
}

/* The start of a run at t: sampled states and outputs computed from the inputs. */
static inline int initialize(double *m, double t)
{
    double z[RB_NZ + 1];
#if RB_ADAPTIVE
    store(m + RB_S, RB_START + RB_S, RB_NS);
#endif
    put_back(m, t);
    initial(m, z);
    store(m + RB_Z, z, RB_NZ);
    output(m, m + RB_Y);
    return all_finite(m) ? RB_STEP_OK : RB_STEP_FAILED;
}

/* The number of equal inner steps, none longer than RB_INNER_STEP, that make a span of time. */
static inline int inner_steps(double span)
{
    const double ratio = ceil(span / RB_INNER_STEP - 1e-9);
    return ratio > 1.0 ? (int)ratio : 1;
}

#if RB_ADAPTIVE
/* From t to `end` by inner steps, after the screen has failed at these rates, or was not tried. */
RB_NOT_INLINED
static void go_by_inner_steps(double *m, double t, double length, double end, const Course *course,
                              const double *rates)
{
    Progress progress;
    start_progress(&progress, t, length, end, rates);
    while (progress.done < length)
        controlled_step(m, &progress, course);
}

/* From t to `end` by inner steps that know their error. */
static inline void go_through(double *m, double t, double length, double end, const Course *course)
{
    double rates[RB_NX + 1];
    const Screened screened = go_at_once(m, t, length, end, course, rates);
    if (screened != RB_SCREEN_TAKEN)
        go_by_inner_steps(m, t, length, end, course, screened == RB_SCREEN_FAILED ? rates : NULL);
}
#else
/* One inner step from t to `end`, the states put back then; without continuous states there is only
   the time. */
static inline void inner_step(double *m, double t, double h, double end, const Course *course)
{
    if (RB_NX > 0) {
        integrate_inputs(m, t, h, course);
        follow(course, m, end);
        put_back(m, end);
    }
}
#endif

/* The sampled states at the time that the memory is at. */
static inline void sample(double *m)
{
    double z[RB_NZ + 1];
    update(m, z);
    store(m + RB_Z, z, RB_NZ);
}

/* From t to `end`, a span of time in which nothing is sampled, the inputs on their course. */
static inline void flow(double *m, double t, double span, double end, const Course *course)
{
#if RB_ADAPTIVE
    go_through(m, t, span, end, course);
#else
    const int n = inner_steps(span);
    for (int j = 0; j < n && RB_NX > 0; j++)
        inner_step(m, t + j * (span / n), span / n, t + (j + 1) * (span / n), course);
#endif
    m[RB_T] = end;
    follow(course, m, end);
}

/* From t to t + dt, a step that is not refused, the inputs on their course: inner steps of at most
   RB_INNER_STEP, samples where they fall, then the outputs. */
static inline int step(double *m, double t, double dt, const Course *course)
{
    const int spans = sample_spans(dt);
    const double span = dt / spans;
    for (int k = 0; k < spans; k++) {
        flow(m, t + k * span, span, t + (k + 1) * span, course);
        if (RB_SAMPLE_TIME > 0.0 && is_sample(m[RB_T], span))
            sample(m);
    }
    output(m, m + RB_Y);
    return all_finite(m) ? RB_STEP_OK : RB_STEP_FAILED;
}

#endif
