/* The choice between an explicit pair and implicit methods, and the Jacobian of the latter: what
   block/stiffness.py does, by the same arithmetic in the same order. */

#ifndef RB_STIFFNESS_H
#define RB_STIFFNESS_H

#include <math.h>

#include "course.h"

#if RB_ADAPTIVE

/* What is remembered from step to step, by its place behind RB_S. */
enum {
    RB_NEXT_STEP = 0,  /* length of the next inner step [s]; 0 before the first */
    RB_LAST_ERROR = 1, /* of the last inner step; 0 before the first */
    RB_PAUSE = 2,      /* communication steps in which the screen is not tried */
    RB_IS_STIFF = 3,   /* 1 while the linearly implicit method is at work, 2 collocation */
    RB_SIGNS = 4,      /* inner steps in a row that speak for the other method */
    RB_EIGENVALUE = 5, /* [1/s] an estimate of the fastest one, from the last sign of stiffness */
    RB_CUT_SHORT = 6,  /* communication steps whose inner steps were used up */
    RB_SPITE = 7,      /* inner steps taken with a larger error, for the time has no shorter ones */
    RB_STIFFNESS = 8,  /* how often there were signs enough that the block is stiff */
    /* [s] length of the explicit steps when the linearly implicit ones took over */
    RB_RIVAL = 9,
    RB_PATIENCE = 10, /* how often more signs are waited for, after changes that did not pay */
    /* the implicit method that stiffness asks for: 1 or 2, 0 before it is known */
    RB_ASKED = 11,
    RB_COST = 12,     /* evaluations' worth of the implicit steps that are being compared */
    RB_COMPARED = 13, /* [s] over which these steps have come */
    RB_OTHER = 14,    /* [1/s] cost per time of the other implicit method when it was at work */
    RB_WINDOWS = 15,  /* comparisons since the implicit method was changed; 0 while one is tried */
    RB_TRUST = 16     /* comparisons after which the other implicit method is tried again */
};

/* x rounded to nine binary digits. What is remembered of an error and decided by it is rounded so:
   an estimate of an error is the small difference of large numbers, and its last digits are other
   ones in every form of a block. */
static inline double coarse(double x)
{
    const double c = x * (0x1p44 + 1.0);
    return c - (c - x);
}

#if RB_EXPLICIT

/* Counts the signs that stability and not accuracy limits an explicit step of length h. `fast` over
   `distance` is an estimate of the fastest eigenvalue: the change of the rates between two places
   at the end of the step (Hairer and Wanner II, IV.2). */
static inline void count_sign(double *s, double h, double distance, double fast)
{
    if (h * fast > RB_STABLE * distance && distance > 1e-5) { /* less is rounding */
        s[RB_EIGENVALUE] = coarse(fast / distance);
        s[RB_SIGNS] += 1.0;
    } else if (s[RB_SIGNS] > 0.0)
        s[RB_SIGNS] -= 0.5;
    if (s[RB_SIGNS] >= RB_ENOUGH_SIGNS * (1.0 + s[RB_PATIENCE])) {
        s[RB_STIFFNESS] += 1.0;
        s[RB_SIGNS] = 0.0;
#if RB_IMPLICIT
        if (s[RB_ASKED] == 0.0)
            s[RB_ASKED] = RB_COLLOCATION ? 2.0 : 1.0;
        s[RB_RIVAL] = h;
        s[RB_IS_STIFF] = s[RB_ASKED];
#endif
    }
}

#if RB_IMPLICIT

/* Counts the signs that explicit steps are cheaper than an implicit one of length h, which costs
   `dearness` of them: they would be stable, `bound` being one of the fastest eigenvalue, or as many
   of them as one costs came further before. */
static inline void count_calm(double *s, double h, double bound, double dearness)
{
    const int calm = bound * h < 2.0 * dearness;
    s[RB_SIGNS] = calm || h < dearness * s[RB_RIVAL] ? s[RB_SIGNS] + 1.0 : 0.0;
    if (s[RB_SIGNS] >= RB_ENOUGH_SIGNS) {
        s[RB_SIGNS] = s[RB_IS_STIFF] = 0.0;
        if (!calm) {
            const double more = 2.0 * s[RB_PATIENCE] + 1.0;
            s[RB_PATIENCE] = more < RB_MOST_PATIENCE ? more : RB_MOST_PATIENCE;
        }
    }
}

#endif

#endif

#if RB_IMPLICIT && RB_EXACT_SLOPES

/* [J by rows | df/dt] at the memory, where the rates are f, for a step of length h. */
RB_NOT_INLINED
static void slopes_at(double *m, double h, const double *f, double *slopes)
{
    (void)h;
    (void)f;
    rate_slopes(m, slopes);
}

#elif RB_IMPLICIT

/* J by rows at the memory, where the rates are f, as quotients of differences: each state is moved
   the way it goes, by the 2^-26th of its size. */
RB_NOT_INLINED
static void state_slopes_at(double *m, const double *f, double *slopes)
{
    double rates[RB_NX + 1];
    for (int j = 0; j < RB_NX; j++) {
        const double x = m[RB_X + j], size = fabs(x);
        const double move = 0x1p-26 * (size > RB_USUAL[j] ? size : RB_USUAL[j]);
        const double moved = f[j] < 0.0 ? x - move : x + move;
        m[RB_X + j] = moved;
        derivative(m, rates);
        for (int i = 0; i < RB_NX; i++)
            slopes[i * RB_NX + j] = (rates[i] - f[i]) / (moved - x);
        m[RB_X + j] = x;
    }
}

/* [J by rows | df/dt], the time moved by the 2^-20th of h. */
RB_NOT_INLINED
static void slopes_at(double *m, double h, const double *f, double *slopes)
{
    const double t = m[RB_T], soon = 0x1p-20 * h, rounding = 0x1p-50 * fabs(t);
    double rates[RB_NX + 1];
    state_slopes_at(m, f, slopes);
    const double later = t + (soon > rounding ? soon : rounding);
    m[RB_T] = later;
    derivative(m, rates);
    for (int i = 0; i < RB_NX; i++)
        slopes[RB_NX * RB_NX + i] = (rates[i] - f[i]) / (later - t);
    m[RB_T] = t;
}

#endif

#endif

#endif
