/* The methods of an inner step: each makes trial->y and tells its error, as block/trial.py does, by
   the same arithmetic in the same order. */

#ifndef RB_METHODS_H
#define RB_METHODS_H

#include "implicit.h"
#include "stiffness.h"
#include "trial.h"

#if RB_ADAPTIVE

#if RB_EXPLICIT

/* The classical step of order 4, where its change against one of order 2 is within the tolerance:
   that costs nothing, and misses nothing of third order. Its sums are written out: they are all that
   it costs beside the rates. */
static inline int try_screen(double *m, Trial *trial, const Course *course)
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
    return are_tolerable(e, trial->x, trial->y) && arrive(m, trial, course) <= 1.0;
}

/* Looks for stiffness by the change of the rates between two places at the end of a step. */
static inline void look_for_stiffness(double *s, double h, const double *x, const double *y,
                                      const double *before, const double *rates,
                                      const double *rates_before)
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
        look_for_stiffness(m + RB_S, trial->h, trial->x, trial->y, before, k[RB_STAGES - 1],
                           k[RB_STAGES - 2]);
    return error;
}

#endif

#if RB_LINEARLY_IMPLICIT

/* A step of the linearly implicit pair, its last stage the error; inputs on a course are held in
   the middle. */
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
        trial->y[i] = trial->x[i] + trial->h * weighted(RB_IMPLICIT_A[RB_IMPLICIT_STAGES], k,
                                                        RB_IMPLICIT_STAGES, i);
        e[i] = trial->h * k[RB_IMPLICIT_STAGES - 1][i];
    }
    const double error = in_tolerances(e, trial->x, trial->y);
    trial->next_known = 0;
    return error <= 1.0 ? larger(error, arrive(m, trial, course)) : error;
}

#endif

#endif

#endif
