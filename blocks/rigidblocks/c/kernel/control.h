/* Inner steps that know their error: what block/control.py does, by the same arithmetic in the same
   order.

   An inner step is tried, its error is measured in tolerances, and it is taken when that is at most
   1; if not, it is tried again, shorter. What is remembered from step to step is in the memory,
   from RB_S on. Only + - * / sqrt, fabs and comparisons decide, so that all compilers decide
   alike. */

#ifndef RB_CONTROL_H
#define RB_CONTROL_H

#include "course.h"
#include "inner.h"
#include "length.h"
#include "margins.h"
#include "methods.h"
#include "stiffness.h"
#include "trial.h"

#if RB_ADAPTIVE

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

/* Takes one inner step, of the first length that is tried or a shorter one; returns the time at its
   end. The states are not finite where none can be taken. */
static inline double controlled_step(double *m, Progress *progress, const Course *course)
{
    Inner inner;
    begin_step(&inner, m, progress, course);
    while (may_try(progress)) {
        const double error = try_step(&inner);
        if (is_to_end_before(&inner))
            continue;
        const double shorter = shorter_length(inner.trial.h, error);
        if (is_good(error, shorter < inner.shortest))
            return take_step(&inner, error);
        if (shorter < inner.shortest)
            break;
        inner.shortened = 1;
        inner.trial.h = m[RB_S + RB_NEXT_STEP] = shorter;
    }
    return without_step(&inner);
}

#endif

#endif
