/* An inner step that knows its error, from where it begins until one of its lengths is taken: the
   parts of what block/control.py does, by the same arithmetic in the same order. */

#ifndef RB_INNER_H
#define RB_INNER_H

#include <float.h>
#include <math.h>

#include "choice.h"
#include "collocation.h"
#include "course.h"
#include "length.h"
#include "margins.h"
#include "methods.h"
#include "stiffness.h"
#include "trial.h"

#if RB_ADAPTIVE

/* How far inner steps have got on the way from `start` to `end`. Lengths are not the difference of
   times, which rounds. */
typedef struct {
    double start, length, end;
    double done;             /* of the length */
    double rates[RB_NX + 1]; /* at the states of the memory, if they are known */
    int known;
    int tried;
#if RB_COLLOCATION
    Stages stages;
#endif
#ifdef RB_MARGINS
    Approach approach;
#endif
} Progress;

/* The way begins; `rates` are those at its start where the screen has been tried in vain, or
   NULL. */
static inline void start_progress(Progress *progress, double start, double length, double end,
                                  const double *rates)
{
    progress->start = start;
    progress->length = length;
    progress->end = end;
    progress->done = 0.0;
    progress->known = progress->tried = rates != NULL;
    if (rates)
        store(progress->rates, rates, RB_NX);
#if RB_COLLOCATION
    start_stages(&progress->stages);
#endif
#ifdef RB_MARGINS
    progress->approach.resumed = 0.0;
#endif
}

/* A step by the method that is at work; its error. */
static inline double attempt(double *m, Trial *trial, Progress *progress, const Course *course)
{
    (void)progress;
#if RB_COLLOCATION
    if (m[RB_S + RB_IS_STIFF] == 2.0) {
        const double error = try_stages(m, trial, &progress->stages, course);
        m[RB_S + RB_COST] += RB_EXPLICIT ? progress->stages.spent : 0.0;
        return error;
    }
#endif
#if RB_LINEARLY_IMPLICIT
    if (m[RB_S + RB_IS_STIFF] == 1.0) {
#if RB_EXPLICIT && RB_COLLOCATION
        m[RB_S + RB_COST] += RB_PRICE_OF_ROSENBROCK;
#endif
        return try_implicit(m, trial, course);
    }
#endif
#if RB_EXPLICIT
    return try_pair(m, trial, course);
#else
    return INFINITY;
#endif
}

/* The rest of a communication step whose inner steps are used up: one step of a method that is
   always at its end. */
RB_NOT_INLINED
static void cut_short(double *m, Trial *trial, double left, double end, const Course *course)
{
    trial->h = left;
    trial->end = end;
    m[RB_S + RB_CUT_SHORT] += 1.0;
#if RB_IMPLICIT
    double w[RB_NX + 1][RB_NX + 1], k[RB_NX + 1];
    int pivot[RB_NX + 1];
    store(m + RB_X, trial->x, RB_NX);
    m[RB_T] = trial->t;
    follow(course, m, end);
    derivative(m, k);
    slopes_at(m, trial->h, k, trial->slopes);
    implicit_matrix(w, trial->h, trial->slopes);
    factorize(w, pivot);
    for (int i = 0; i < RB_NX; i++)
        k[i] += trial->h * trial->slopes[RB_NX * RB_NX + i];
    solve(w, pivot, k);
    for (int i = 0; i < RB_NX; i++)
        trial->y[i] = trial->x[i] + trial->h * k[i];
    const double move = arrive(m, trial, course);
#else
    const double move = try_screen(m, trial, course) ? 0.0 : arrive(m, trial, course);
#endif
    int finite = move <= DBL_MAX;
    for (int i = 0; i < RB_NX; i++)
        finite = finite && isfinite(trial->y[i]);
    if (!finite)
        store(m + RB_X, trial->x, RB_NX); /* time goes on without them */
}

#ifdef RB_MARGINS
/* The margins where the states x at t change by h times their rates, from what is near them on the
   way into the step. */
static inline void margins_near(double *m, double t, const double *x, double h, const double *rates,
                                double way, const Course *course, Margins *at)
{
    const double near = way * (1.0 / 64.0);
    double there[RB_MARGINS];
    m[RB_T] = t;
    follow(course, m, t);
    store(m + RB_X, x, RB_NX);
    margins(m, at->value);
    for (int i = 0; i < RB_NX; i++)
        m[RB_X + i] = x[i] + near * (h * rates[i]);
    margins(m, there);
    for (int i = 0; i < RB_MARGINS; i++)
        at->change[i] = (there[i] - at->value[i]) / near;
}

/* The length to try instead where a margin changes its sign in a trial, else 0; its rates at the
   end are known then. */
static inline double until_change(double *m, Trial *trial, Approach *approach, const Course *course)
{
    Margins before, behind;
    double change_of_rates[RB_NX + 1];
    if (!trial->next_known)
        rates_at(m, trial->end, trial->y, course, trial->next);
    trial->next_known = 1;
    for (int i = 0; i < RB_NX; i++)
        change_of_rates[i] = trial->h * (trial->next[i] - trial->f[i]);
    margins_near(m, trial->t, trial->x, trial->h, trial->f, 1.0, course, &before);
    margins_near(m, trial->end, trial->y, trial->h, trial->next, -1.0, course, &behind);
    store(m + RB_X, trial->y, RB_NX);
    return shorter_step(approach, trial->h, &before, &behind,
                        in_tolerances(change_of_rates, trial->x, trial->y));
}

/* What signs of stiffness change of what is remembered. */
enum { RB_OF_STIFFNESS = 6 };
static const int RB_WHERE_OF_STIFFNESS[RB_OF_STIFFNESS] = {
    RB_IS_STIFF, RB_SIGNS, RB_EIGENVALUE, RB_STIFFNESS, RB_RIVAL, RB_ASKED,
};

static inline void keep_signs(double *signs, const double *s)
{
    for (int i = 0; i < RB_OF_STIFFNESS; i++)
        signs[i] = s[RB_WHERE_OF_STIFFNESS[i]];
}

static inline void put_signs(double *s, const double *signs)
{
    for (int i = 0; i < RB_OF_STIFFNESS; i++)
        s[RB_WHERE_OF_STIFFNESS[i]] = signs[i];
}
#endif

/* An inner step while its lengths are tried: what it begins with, and what its trials share. */
typedef struct {
    double *m;
    Progress *progress;
    const Course *course;
    Trial trial;     /* the last one */
    double left;     /* of the communication step */
    double shortest; /* a shorter one is lost in the rounding of the time */
    double kind;     /* of the method that is at work */
    int shortened;
#if RB_EXPLICIT && RB_COLLOCATION
    double spent; /* until now */
#endif
#ifdef RB_MARGINS
    double signs[RB_OF_STIFFNESS]; /* at its start */
    double before; /* the length to before a change of law in the last trial, 0 without */
#endif
} Inner;

/* The time at the end of a step of the length that is tried. */
static inline double arrival(const Inner *inner)
{
    const Progress *progress = inner->progress;
    const double h = inner->trial.h;
    return h == inner->left ? progress->end : progress->start + (progress->done + h);
}

/* How much of the length is done then. */
static inline double done_after(const Inner *inner)
{
    const Progress *progress = inner->progress;
    const double h = inner->trial.h;
    return h == inner->left ? progress->length : progress->done + h;
}

/* Where a step starts; its rates may be known from the last one. */
static inline void start_trial(double *m, double t, Progress *progress, const Course *course,
                               Trial *trial)
{
    trial->t = t;
    store(trial->x, m + RB_X, RB_NX);
    if (!progress->known)
        rates_at(m, t, trial->x, course, progress->rates);
    store(trial->f, progress->rates, RB_NX);
    trial->next_known = 0;
#if RB_IMPLICIT
    trial->slopes_known = 0;
#endif
}

/* What all trials of an inner step have, and the length of the first: the one remembered, or all
   that is left. */
static inline void begin_step(Inner *inner, double *m, Progress *progress, const Course *course)
{
    double *s = m + RB_S;
    const double t = progress->start + progress->done;
    inner->m = m;
    inner->progress = progress;
    inner->course = course;
    inner->left = progress->length - progress->done;
    inner->shortest = least_length(t, progress->end);
    inner->shortened = 0;
#if !RB_EXPLICIT
    s[RB_IS_STIFF] = RB_COLLOCATION ? 2.0 : 1.0;
#endif
    inner->kind = s[RB_IS_STIFF];
    start_trial(m, t, progress, course, &inner->trial);
    if (s[RB_NEXT_STEP] == 0.0)
        s[RB_NEXT_STEP] = length_at_start(&inner->trial, inner->left);
    inner->trial.h = first_length(s, inner->left);
#if RB_EXPLICIT && RB_COLLOCATION
    inner->spent = s[RB_COST];
    if (inner->kind == 1.0)
        s[RB_COST] += RB_PRICE_OF_SLOPES;
#endif
#ifdef RB_MARGINS
    begin_approach(&progress->approach);
    keep_signs(inner->signs, s);
#endif
}

/* Whether there are more inner steps in this communication step. */
static inline int may_try(const Progress *progress)
{
    const int bound = RB_MAX_INNER_STEPS > 0 && RB_MAX_INNER_STEPS < RB_MOST_TRIES
                          ? RB_MAX_INNER_STEPS
                          : RB_MOST_TRIES;
    if (progress->tried == RB_TEST_TRIES && progress->done < 0.01 * progress->length)
        return 0; /* it crawls */
    return progress->tried < bound;
}

/* A trial, and its error. The signs of stiffness are those before a change of law in it: the rates
   jump there over next to no distance. */
static inline double try_step(Inner *inner)
{
    Progress *progress = inner->progress;
    progress->tried++;
    inner->trial.end = arrival(inner);
    const double error = attempt(inner->m, &inner->trial, progress, inner->course);
#ifdef RB_MARGINS
    inner->before = error <= 1.0
                        ? until_change(inner->m, &inner->trial, &progress->approach, inner->course)
                        : 0.0;
    if (inner->before > 0.0 || (error <= 1.0 && progress->approach.crosses))
        put_signs(inner->m + RB_S, inner->signs);
#endif
    return error;
}

/* Whether the next trial ends before a change of law in the last one. */
static inline int is_to_end_before(Inner *inner)
{
#ifdef RB_MARGINS
    double *s = inner->m + RB_S, *resumed = &inner->progress->approach.resumed;
    if (!(inner->before > 0.0 && inner->trial.h > 2.0 * inner->shortest))
        return 0;
    if (*resumed == 0.0)
        *resumed = s[RB_NEXT_STEP];
    inner->trial.h = s[RB_NEXT_STEP] = larger(inner->before, 2.0 * inner->shortest);
    return 1;
#else
    (void)inner;
    return 0;
#endif
}

#if RB_EXPLICIT && RB_IMPLICIT
/* Counts what an implicit step that is taken, with the Jacobian `slopes`, says of the other
   methods: whether explicit ones would be stable, by h times a bound of the eigenvalues, and what
   it has cost. */
RB_NOT_INLINED
static void compare_by(double *s, const Trial *trial, const double *slopes, double dearness)
{
    double bound = 0.0;
    for (int i = 0; i < RB_NX; i++) {
        double sum = 0.0;
        for (int j = 0; j < RB_NX; j++)
            sum += fabs(slopes[i * RB_NX + j]) * (RB_ATOL[j] + RB_RTOL * fabs(trial->x[j]));
        bound = larger(bound, sum / (RB_ATOL[i] + RB_RTOL * fabs(trial->x[i])));
    }
    count_calm(s, trial->h, bound, dearness);
#if RB_LINEARLY_IMPLICIT && RB_COLLOCATION
    if (s[RB_IS_STIFF] != 0.0)
        count_cost(s, trial->h);
#endif
}

/* The same by the method that was at work. */
static inline void compare(const Inner *inner)
{
    double *s = inner->m + RB_S;
#if RB_LINEARLY_IMPLICIT
    if (inner->kind == 1.0 && inner->trial.slopes_known)
        compare_by(s, &inner->trial, inner->trial.slopes, RB_DEARNESS);
#endif
#if RB_COLLOCATION
    const Stages *stages = &inner->progress->stages;
    if (inner->kind == 2.0 && stages->have_slopes)
        compare_by(s, &inner->trial, stages->slopes, (s[RB_COST] - inner->spent) / (RB_STAGES - 1));
#endif
}
#endif

/* What a step that is taken leaves for the next one: the stages, and the length. */
static inline void keep_step(Inner *inner, double error)
{
    Progress *progress = inner->progress;
    double *s = inner->m + RB_S;
    const double h = inner->trial.h;
    remember(s, h, error, inner->shortened, inner->kind);
#if RB_COLLOCATION
    if (inner->kind == 2.0)
        s[RB_NEXT_STEP] = keep_stages(&progress->stages, h, s[RB_NEXT_STEP]);
    else
        start_stages(&progress->stages);
#endif
#if RB_COLLOCATION && defined(RB_MARGINS)
    if (progress->approach.crosses) /* another law */
        start_stages(&progress->stages);
#endif
#ifdef RB_MARGINS
    s[RB_NEXT_STEP] = length_after(&progress->approach, h, s[RB_NEXT_STEP]);
#endif
    progress->known = inner->trial.next_known;
}

/* Takes a step with a larger error, for the time has no shorter ones. */
static inline void take_in_spite(Inner *inner)
{
    double *s = inner->m + RB_S;
    s[RB_SPITE] += 1.0;
    s[RB_NEXT_STEP] = larger(s[RB_NEXT_STEP], 2.0 * inner->trial.h);
    arrive(inner->m, &inner->trial, inner->course);
#if RB_COLLOCATION
    start_stages(&inner->progress->stages);
#endif
    inner->progress->known = 0;
}

/* Takes the step that was tried; returns the time at its end. */
static inline double take_step(Inner *inner, double error)
{
    Progress *progress = inner->progress;
    if (error <= 1.0) {
#if RB_EXPLICIT && RB_IMPLICIT
        compare(inner);
#endif
        keep_step(inner, error);
    } else
        take_in_spite(inner);
    if (progress->known)
        store(progress->rates, inner->trial.next, RB_NX);
    progress->done = done_after(inner);
    return inner->trial.end;
}

/* The end of the communication step where no step could be taken: cut short by the bound on steps,
   or not finite. */
static inline double without_step(Inner *inner)
{
    Progress *progress = inner->progress;
    if (RB_MAX_INNER_STEPS > 0)
        cut_short(inner->m, &inner->trial, inner->left, progress->end, inner->course);
    else
        inner->m[RB_X] = NAN;
    progress->done = progress->length;
    return progress->end;
}

#endif

#endif
