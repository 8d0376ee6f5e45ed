/* Inner steps that know their error: what block/control.py does, by the same arithmetic in the same order.

   An inner step is tried, its error is measured in tolerances, and it is taken when that is at most 1; if not, it is tried
   again, shorter. What is remembered from step to step is in the memory, from RB_S on. Only + - * / sqrt, fabs and
   comparisons decide, so that all compilers decide alike. */

#ifndef RB_CONTROL_H
#define RB_CONTROL_H

#include <float.h>
#include <math.h>

#include "choice.h"
#include "collocation.h"
#include "course.h"
#include "implicit.h"
#include "margins.h"
#include "stiffness.h"
#include "trial.h"

#if RB_ADAPTIVE

/* How far inner steps have got on the way from `start` to `end`. Lengths are not the difference of times, which rounds. */
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

static inline void start_progress(Progress *progress, double start, double length, double end)
{
    progress->start = start;
    progress->length = length;
    progress->end = end;
    progress->done = 0.0;
    progress->known = progress->tried = 0;
#if RB_COLLOCATION
    start_stages(&progress->stages);
#endif
#ifdef RB_MARGINS
    progress->approach.resumed = 0.0;
#endif
}

/* ---- the methods: each makes trial->y and tells its error ---- */

#if RB_EXPLICIT

/* The classical step of order 4; its change against one of order 2 costs nothing, and misses nothing of third order. Its sums
   are written out: they are all that it costs beside the rates. */
static inline double try_screen(double *m, Trial *trial, const Course *course)
{
    static const double times[4] = {0.0, 0.5, 0.5, 1.0};
    const double h = trial->h, sixth = 1.0 / 6, third = 1.0 / 3;
    double k[4][RB_NX + 1], e[RB_NX + 1];
    store(k[0], trial->f, RB_NX);
    for (int s = 1; s < 4; s++) {
        for (int i = 0; i < RB_NX; i++)
            trial->y[i] = trial->x[i] + h * (times[s] * k[s - 1][i]);
        rates_at(m, trial->t + times[s] * h, trial->y, course, k[s]);
    }
    for (int i = 0; i < RB_NX; i++) {
        const double first = sixth * k[0][i], last = sixth * k[3][i];
        trial->y[i] = trial->x[i] + h * (first + third * k[1][i] + third * k[2][i] + last);
        e[i] = h * (first - sixth * k[1][i] - sixth * k[2][i] + last);
    }
    trial->next_known = 0;
    const double error = in_tolerances(e, trial->x, trial->y);
    return error <= 1.0 ? larger(error, arrive(m, trial, course)) : error;
}

/* Looks for stiffness by the change of the rates between two places at the end of a step. */
static inline void look_for_stiffness(double *s, double h, const double *x, const double *y, const double *before,
                                      const double *rates, const double *rates_before)
{
    double apart[RB_NX + 1], change_of_rates[RB_NX + 1];
    for (int i = 0; i < RB_NX; i++) {
        apart[i] = y[i] - before[i];
        change_of_rates[i] = rates[i] - rates_before[i];
    }
    const double distance = in_tolerances(apart, x, y), fast = in_tolerances(change_of_rates, x, y);
    count_sign(s, h, distance, fast);
}

/* A step of the explicit pair. Its last stage is at the end. */
static inline double try_pair(double *m, Trial *trial, const Course *course)
{
    double k[RB_STAGES][RB_NX + 1], e[RB_NX + 1], before[RB_NX + 1];
    trial->next_known = 0;
    store(k[0], trial->f, RB_NX);
    for (int s = 1; s < RB_STAGES; s++) {
        change(trial->h, RB_A[s], k, s, e);
        if (s == RB_STAGES - 1)
            store(before, trial->y, RB_NX);
        for (int i = 0; i < RB_NX; i++)
            trial->y[i] = trial->x[i] + e[i];
        if (s < RB_STAGES - 1)
            rates_at(m, trial->t + RB_C[s] * trial->h, trial->y, course, k[s]);
    }
    const double move = arrive(m, trial, course);
    if (!(move <= 1.0))
        return move;
    derivative(m, k[RB_STAGES - 1]);
    change(trial->h, RB_ERROR, k, RB_STAGES, e);
    store(trial->next, k[RB_STAGES - 1], RB_NX);
    trial->next_known = 1;
    const double error = larger(move, in_tolerances(e, trial->x, trial->y));
    if (error <= 1.0)
        look_for_stiffness(m + RB_S, trial->h, trial->x, trial->y, before, k[RB_STAGES - 1], k[RB_STAGES - 2]);
    return error;
}

#endif

#if RB_LINEARLY_IMPLICIT

/* A step of the linearly implicit pair, its last stage the error; inputs on a course are held in the middle. */
RB_NOT_INLINED
static double try_implicit(double *m, Trial *trial, const Course *course)
{
    double k[RB_IMPLICIT_STAGES][RB_NX + 1], e[RB_NX + 1];
    store(m + RB_X, trial->x, RB_NX);
    m[RB_T] = trial->t;
    follow(course, m, trial->t + 0.5 * trial->h);
    if (course)
        derivative(m, trial->f);
    if (course || !trial->slopes_known)
        slopes_at(m, trial->h, trial->f, trial->slopes);
    trial->slopes_known = 1;
    implicit_stages(m, trial->t, trial->h, trial->x, trial->f, trial->slopes, k);
    for (int i = 0; i < RB_NX; i++) {
        trial->y[i] = trial->x[i] + trial->h * weighted(RB_IMPLICIT_A[RB_IMPLICIT_STAGES], k, RB_IMPLICIT_STAGES, i);
        e[i] = trial->h * k[RB_IMPLICIT_STAGES - 1][i];
    }
    const double error = in_tolerances(e, trial->x, trial->y);
    trial->next_known = 0;
    return error <= 1.0 ? larger(error, arrive(m, trial, course)) : error;
}

#endif

static inline double try_step(double *m, Trial *trial, Progress *progress, int screen, const Course *course)
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
    return screen ? try_screen(m, trial, course) : try_pair(m, trial, course);
#else
    (void)screen;
    return INFINITY;
#endif
}

/* ---- the control of the length ---- */

/* About the root of the error that the length goes with: of fifth order, of fourth in linearly implicit steps, of sixth in
   those of collocation. */
static inline double root(double error, double kind)
{
    const double q = sqrt(sqrt(error));
#if RB_COLLOCATION
    if (kind == 2.0)
        return sqrt(q) * sqrt(sqrt(sqrt(q)));
#endif
    return kind == 1.0 ? sqrt(q) * sqrt(sqrt(q)) : sqrt(q);
}

/* What a step of a kind that is taken leaves: the length of the next one, by its error and the one before. */
static inline void remember(double *s, double h, double error, int shortened, double kind)
{
    const double now = larger(error, 1e-8), last = s[RB_LAST_ERROR] > 0.0 ? s[RB_LAST_ERROR] : 1e-4;
    double factor = 0.9 / root(now, kind) * sqrt(root(last, kind));
    factor = factor < 0.2 ? 0.2 : factor > 5.0 ? 5.0 : factor;
    if (shortened && factor > 1.0)
        factor = 1.0;
    s[RB_LAST_ERROR] = coarse(now);
    if (h >= s[RB_NEXT_STEP] || factor < 1.0 || h * factor > s[RB_NEXT_STEP])
        s[RB_NEXT_STEP] = coarse(h * factor); /* a step that the end has cut short does not shorten the next one */
}

/* The length to try first: what is remembered, and at most `left`, which is divided when there are two to go. */
static inline double first_length(const double *s, double left)
{
    const double h = s[RB_NEXT_STEP] < RB_INNER_STEP ? s[RB_NEXT_STEP] : RB_INNER_STEP;
    return h >= left * (1.0 - 1e-9) ? left : h > 0.5 * left ? 0.5 * left : h;
}

/* The rest of a communication step whose inner steps are used up: one step of a method that is always at its end. */
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
    const double error = try_screen(m, trial, course);
    const double move = error <= 1.0 ? error : arrive(m, trial, course);
#endif
    int finite = move <= DBL_MAX;
    for (int i = 0; i < RB_NX; i++)
        finite = finite && isfinite(trial->y[i]);
    if (!finite)
        store(m + RB_X, trial->x, RB_NX); /* time goes on without them */
}

#if RB_EXPLICIT && RB_IMPLICIT
/* Counts what an implicit step that is taken, with the Jacobian `slopes`, says of the other methods: whether explicit ones
   would be stable, by h times a bound of the eigenvalues, and what it has cost. */
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
/* The margins where the states x at t change by h times their rates, from what is near them on the way into the step. */
static inline void margins_near(double *m, double t, const double *x, double h, const double *rates, double way,
                                const Course *course, Margins *at)
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

/* The length to try instead where a margin changes its sign in a trial, else 0; its rates at the end are known then. */
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
    return shorter_step(approach, trial->h, &before, &behind, in_tolerances(change_of_rates, trial->x, trial->y));
}
#endif

/* The length that is tried first where nothing is remembered: all that is left, or what changes no state by much. */
static inline double length_at_start(const Trial *trial, double left)
{
#if RB_COLLOCATION && !RB_EXPLICIT
    const double fastest = in_tolerances(trial->f, trial->x, trial->x), part = RB_START_PART / RB_RTOL;
    return fastest <= DBL_MAX && part < fastest * left ? coarse(part / fastest) : left;
#else
    (void)trial;
    return left;
#endif
}

/* Takes one inner step; returns the time at its end. The states are not finite where none can be taken. */
static inline double controlled_step(double *m, Progress *progress, const Course *course)
{
    Trial trial;
    double *s = m + RB_S;
    const double t = progress->start + progress->done, end = progress->end, left = progress->length - progress->done;
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
    int screen = trial.h == left && progress->tried == 0 && s[RB_IS_STIFF] == 0.0;
    if (screen && s[RB_PAUSE] > 0.0) {
        s[RB_PAUSE] -= 1.0;
        screen = 0;
    }
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
        const int crawls = progress->tried == RB_TEST_TRIES && progress->done < 0.01 * progress->length;
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
        const double error = try_step(m, &trial, progress, screen, course);
#ifdef RB_MARGINS
        const double before = error <= 1.0 ? until_change(m, &trial, &progress->approach, course) : 0.0;
        if (screen && before > 0.0) {
            screen = 0;
            s[RB_PAUSE] = RB_SCREEN_PAUSE;
            progress->approach.dips = 0;
            continue;
        }
        if (before > 0.0 || (error <= 1.0 && progress->approach.crosses)) { /* the rates jump there over next to no distance */
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
        if (screen && error <= 1.0) {
            progress->done = progress->length;
            return end;
        }
        if (screen) { /* the pair tries the same */
            screen = 0;
            s[RB_PAUSE] = RB_SCREEN_PAUSE;
            continue;
        }
        const double factor = error <= DBL_MAX ? 0.9 / sqrt(sqrt(error)) : 0.2;
        const double shorter = coarse(trial.h * (factor < 0.2 ? 0.2 : factor > 0.5 ? 0.5 : factor));
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
