/* Inner steps that know their error: what block/control.py does, by the same arithmetic in the same
   order.

   An inner step is tried, its error is measured in tolerances, and it is taken when that is at most
   1; if not, it is tried again, shorter. What is remembered from step to step is in the memory,
   from RB_S on. Only + - * / sqrt, fabs and comparisons decide, so that all compilers decide
   alike. */

#ifndef RB_CONTROL_H
#define RB_CONTROL_H

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
static inline double try_step(double *m, Trial *trial, Progress *progress, const Course *course)
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

#if RB_EXPLICIT && RB_IMPLICIT
/* Counts what an implicit step that is taken, with the Jacobian `slopes`, says of the other
   methods: whether explicit ones would be stable, by h times a bound of the eigenvalues, and what
   it has cost. */
RB_NOT_INLINED
static void compare(double *s, const Trial *trial, const double *slopes, double dearness)
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
#endif

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
#endif

/* What has become of a communication step before its first inner step. */
typedef enum {
    RB_SCREEN_NOT_TRIED,
    RB_SCREEN_FAILED,
    RB_SCREEN_TAKEN,
} Screened;

/* The whole of a communication step by the screen, where what is remembered lets it be tried and no
   law changes on the way. Where it fails, `rates` are those at the start. */
static inline Screened go_at_once(double *m, double start, double length, double end,
                                  const Course *course, double *rates)
{
#if RB_EXPLICIT
    Trial trial;
    double *s = m + RB_S;
    if (s[RB_IS_STIFF] != 0.0)
        return RB_SCREEN_NOT_TRIED;
    if (s[RB_NEXT_STEP] == 0.0)
        s[RB_NEXT_STEP] = length;
    if (first_length(s, length) != length)
        return RB_SCREEN_NOT_TRIED;
    if (s[RB_PAUSE] > 0.0) {
        s[RB_PAUSE] -= 1.0;
        return RB_SCREEN_NOT_TRIED;
    }
    trial.t = start;
    trial.h = length;
    trial.end = end;
    store(trial.x, m + RB_X, RB_NX);
    rates_at(m, start, trial.x, course, trial.f);
    int is_taken = try_screen(m, &trial, course);
#ifdef RB_MARGINS
    Approach approach = {0.0, 0.0, 0, 0};
    is_taken = is_taken && !(until_change(m, &trial, &approach, course) > 0.0);
#endif
    if (is_taken)
        return RB_SCREEN_TAKEN;
    s[RB_PAUSE] = RB_SCREEN_PAUSE; /* the pair tries the same */
    store(m + RB_X, trial.x, RB_NX);
    store(rates, trial.f, RB_NX);
    return RB_SCREEN_FAILED;
#else
    (void)m, (void)start, (void)length, (void)end, (void)course, (void)rates;
    return RB_SCREEN_NOT_TRIED;
#endif
}

/* Takes one inner step; returns the time at its end. The states are not finite where none can be
   taken. */
static inline double controlled_step(double *m, Progress *progress, const Course *course)
{
    Trial trial;
    double *s = m + RB_S;
    const double t = progress->start + progress->done, end = progress->end,
                 left = progress->length - progress->done;
    /* a shorter one is lost in the rounding of the time */
    const double shortest = 16.0 * DBL_EPSILON * larger(fabs(t), fabs(end));
    int shortened = 0;
#if !RB_EXPLICIT
    s[RB_IS_STIFF] = RB_COLLOCATION ? 2.0 : 1.0;
#endif
    const double kind = s[RB_IS_STIFF];
    trial.t = t;
    store(trial.x, m + RB_X, RB_NX);
    if (!progress->known)
        rates_at(m, t, trial.x, course, progress->rates);
    store(trial.f, progress->rates, RB_NX);
    if (s[RB_NEXT_STEP] == 0.0)
        s[RB_NEXT_STEP] = length_at_start(&trial, left);
    trial.h = first_length(s, left);
#if RB_IMPLICIT
    trial.slopes_known = 0;
#endif
#if RB_EXPLICIT && RB_COLLOCATION
    const double spent = s[RB_COST];
    if (kind == 1.0)
        s[RB_COST] += RB_PRICE_OF_SLOPES;
#endif
    trial.next_known = 0;
#ifdef RB_MARGINS
    progress->approach.expected = 0.0;
    progress->approach.dips = progress->approach.crosses = 0;
    const double signs[6] = {s[RB_IS_STIFF],  s[RB_SIGNS], s[RB_EIGENVALUE],
                             s[RB_STIFFNESS], s[RB_RIVAL], s[RB_ASKED]};
#endif
    for (;;) {
        if (RB_MAX_INNER_STEPS > 0 && progress->tried >= RB_MAX_INNER_STEPS) {
            cut_short(m, &trial, left, end, course);
            progress->done = progress->length;
            return end;
        }
        const int crawls =
            progress->tried == RB_TEST_TRIES && progress->done < 0.01 * progress->length;
        if (crawls || progress->tried >= RB_MOST_TRIES) {
            if (RB_MAX_INNER_STEPS > 0)
                cut_short(m, &trial, left, end, course);
            else
                m[RB_X] = NAN;
            progress->done = progress->length;
            return end;
        }
        progress->tried++;
        trial.end = trial.h == left ? end : progress->start + (progress->done + trial.h);
        const double error = try_step(m, &trial, progress, course);
#ifdef RB_MARGINS
        const double before =
            error <= 1.0 ? until_change(m, &trial, &progress->approach, course) : 0.0;
        /* the rates jump there over next to no distance */
        if (before > 0.0 || (error <= 1.0 && progress->approach.crosses)) {
            s[RB_IS_STIFF] = signs[0];
            s[RB_SIGNS] = signs[1];
            s[RB_EIGENVALUE] = signs[2];
            s[RB_STIFFNESS] = signs[3];
            s[RB_RIVAL] = signs[4];
            s[RB_ASKED] = signs[5];
        }
        if (before > 0.0 && trial.h > 2.0 * shortest) {
            if (progress->approach.resumed == 0.0)
                progress->approach.resumed = s[RB_NEXT_STEP];
            trial.h = s[RB_NEXT_STEP] = larger(before, 2.0 * shortest);
            continue;
        }
#endif
        const double shorter = shorter_length(trial.h, error);
        const int spite = error > 1.0 && error <= DBL_MAX && shorter < shortest;
        if (error <= 1.0 || spite) {
#if RB_EXPLICIT && RB_LINEARLY_IMPLICIT
            if (kind == 1.0 && trial.slopes_known && !spite)
                compare(s, &trial, trial.slopes, RB_DEARNESS);
#endif
#if RB_EXPLICIT && RB_COLLOCATION
            if (kind == 2.0 && progress->stages.have_slopes && !spite)
                compare(s, &trial, progress->stages.slopes, (s[RB_COST] - spent) / (RB_STAGES - 1));
#endif
            if (spite) {
                s[RB_SPITE] += 1.0;
                s[RB_NEXT_STEP] = larger(s[RB_NEXT_STEP], 2.0 * trial.h);
                arrive(m, &trial, course);
            } else
                remember(s, trial.h, error, shortened, kind);
#if RB_COLLOCATION
            if (kind == 2.0 && !spite)
                s[RB_NEXT_STEP] = keep_stages(&progress->stages, trial.h, s[RB_NEXT_STEP]);
            else
                start_stages(&progress->stages);
#ifdef RB_MARGINS
            if (progress->approach.crosses) /* another law */
                start_stages(&progress->stages);
#endif
#endif
#ifdef RB_MARGINS
            if (!spite)
                s[RB_NEXT_STEP] = length_after(&progress->approach, trial.h, s[RB_NEXT_STEP]);
#endif
            progress->known = trial.next_known && !spite;
            if (progress->known)
                store(progress->rates, trial.next, RB_NX);
            progress->done = trial.h == left ? progress->length : progress->done + trial.h;
            return trial.end;
        }
        if (shorter < shortest) {
            if (RB_MAX_INNER_STEPS > 0)
                cut_short(m, &trial, left, end, course);
            else
                m[RB_X] = NAN;
            progress->done = progress->length;
            return end;
        }
        shortened = 1;
        trial.h = s[RB_NEXT_STEP] = shorter;
    }
}

#endif

#endif
