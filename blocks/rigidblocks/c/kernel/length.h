/* The lengths of inner steps, which is tried and which goes on from a step's error: what
   block/length.py does, by the same arithmetic in the same order. */

#ifndef RB_LENGTH_H
#define RB_LENGTH_H

#include <float.h>
#include <math.h>

#include "stiffness.h"
#include "trial.h"

#if RB_ADAPTIVE

/* About the root of the error that the length goes with: of fifth order, of fourth in linearly
   implicit steps, of sixth in those of collocation. */
static inline double root(double error, double kind)
{
    const double q = sqrt(sqrt(error));
#if RB_COLLOCATION
    if (kind == 2.0)
        return sqrt(q) * sqrt(sqrt(sqrt(q)));
#endif
    return kind == 1.0 ? sqrt(q) * sqrt(sqrt(q)) : sqrt(q);
}

/* What a step of a kind that is taken leaves: the length of the next one, by its error and the one
   before. */
static inline void remember(double *s, double h, double error, int shortened, double kind)
{
    const double now = larger(error, 1e-8), last = s[RB_LAST_ERROR] > 0.0 ? s[RB_LAST_ERROR] : 1e-4;
    double factor = 0.9 / root(now, kind) * sqrt(root(last, kind));
    factor = factor < 0.2 ? 0.2 : factor > 5.0 ? 5.0 : factor;
    if (shortened && factor > 1.0)
        factor = 1.0;
    s[RB_LAST_ERROR] = coarse(now);
    if (h >= s[RB_NEXT_STEP] || factor < 1.0 || h * factor > s[RB_NEXT_STEP])
        /* a step that the end has cut short does not shorten the next one */
        s[RB_NEXT_STEP] = coarse(h * factor);
}

/* The length to try first: what is remembered, and at most `left`, which is divided when there are
   two to go. */
static inline double first_length(const double *s, double left)
{
    const double h = s[RB_NEXT_STEP] < RB_INNER_STEP ? s[RB_NEXT_STEP] : RB_INNER_STEP;
    return h >= left * (1.0 - 1e-9) ? left : h > 0.5 * left ? 0.5 * left : h;
}

/* The length that is tried first where nothing is remembered: all that is left, or what changes no
   state by much. */
static inline double length_at_start(const Trial *trial, double left)
{
#if RB_COLLOCATION && !RB_EXPLICIT
    const double fastest = in_tolerances(trial->f, trial->x, trial->x),
                 part = RB_START_PART / RB_RTOL;
    return fastest <= DBL_MAX && part < fastest * left ? coarse(part / fastest) : left;
#else
    (void)trial;
    return left;
#endif
}

/* The shortest step that the numbers of these times can tell. */
static inline double least_length(double t, double end)
{
    return 16.0 * DBL_EPSILON * larger(fabs(t), fabs(end));
}

/* Whether a step with this error is taken: in spite of it where time has no shorter one. */
static inline int is_good(double error, int is_shortest)
{
    return error <= 1.0 || (is_shortest && error <= DBL_MAX);
}

/* The length to try after a step with this error, infinite where it was not finite. */
static inline double shorter_length(double h, double error)
{
    const double factor = error <= DBL_MAX ? 0.9 / sqrt(sqrt(error)) : 0.2;
    return coarse(h * (factor < 0.2 ? 0.2 : factor > 0.5 ? 0.5 : factor));
}

#endif

#endif
