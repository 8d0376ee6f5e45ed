/* An inner step while it is tried, and what it is judged by. */

#ifndef RB_TRIAL_H
#define RB_TRIAL_H

#include <float.h>
#include <math.h>

#include "course.h"

#if RB_ADAPTIVE

/* One inner step while it is tried: from the states x at t, with the rates f there, to y at t +
   h. */
typedef struct {
    double t, h, end;
    double x[RB_NX + 1], f[RB_NX + 1], y[RB_NX + 1], next[RB_NX + 1]; /* next: the rates at y */
    int next_known;
#if RB_IMPLICIT
    double slopes[RB_NX * RB_NX + RB_NX + 1];
    int slopes_known;
#endif
} Trial;

/* The largest element of e in tolerances at the states x and y; infinite when one of e or y is not
   finite. */
static inline double in_tolerances(const double *e, const double *x, const double *y)
{
    double largest = 0.0;
    for (int i = 0; i < RB_NX; i++) {
        const double a = fabs(x[i]), b = fabs(y[i]);
        const double one = fabs(e[i]) / (RB_ATOL[i] + RB_RTOL * (a > b ? a : b));
        if (!(one <= DBL_MAX && b <= DBL_MAX))
            return INFINITY;
        if (one > largest)
            largest = one;
    }
    return largest;
}

/* Whether `in_tolerances` is at most 1, which e / d is just where e is at most d. */
static inline int are_tolerable(const double *e, const double *x, const double *y)
{
    int all = 1;
    for (int i = 0; i < RB_NX; i++) {
        const double a = fabs(x[i]), b = fabs(y[i]);
        all &= (fabs(e[i]) <= RB_ATOL[i] + RB_RTOL * (a > b ? a : b)) & (b <= DBL_MAX);
    }
    return all;
}

/* h sum weight_i k_i */
static inline void change(double h, const double *weights, double k[][RB_NX + 1], int n, double *e)
{
    for (int i = 0; i < RB_NX; i++) {
        double sum = 0.0;
        for (int r = 0; r < n; r++)
            sum += weights[r] * k[r][i];
        e[i] = h * sum;
    }
}

/* The memory at t with the states x, and the rates there. */
static inline void rates_at(double *m, double t, const double *x, const Course *course,
                            double *rates)
{
    store(m + RB_X, x, RB_NX);
    m[RB_T] = t;
    follow(course, m, t);
    derivative(m, rates);
}

/* The memory at the end of a step with the states y, moved back to where they belong; how far, in
   tolerances. */
static inline double arrive(double *m, Trial *trial, const Course *course)
{
    store(m + RB_X, trial->y, RB_NX);
    m[RB_T] = trial->end;
    follow(course, m, trial->end);
#if RB_PROJECTS
    double back[RB_NX + 1], move[RB_NX + 1];
    project(m, back);
    for (int i = 0; i < RB_NX; i++) {
        move[i] = back[i] - trial->y[i];
        trial->y[i] = back[i];
    }
    store(m + RB_X, back, RB_NX);
    return in_tolerances(move, trial->x, trial->y);
#else
    return 0.0;
#endif
}

static inline double larger(double a, double b)
{
    return a > b ? a : b;
}

#endif

#endif
