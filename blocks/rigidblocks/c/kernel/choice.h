/* The choice between two implicit methods, by what the steps of each cost for the time that they
   come: what block/choice.py does, by the same arithmetic in the same order. Costs are in
   evaluations of the rates. */

#ifndef RB_CHOICE_H
#define RB_CHOICE_H

#include "stiffness.h"

#if RB_ADAPTIVE && RB_EXPLICIT && RB_LINEARLY_IMPLICIT && RB_COLLOCATION

/* Counts an implicit step of length h that is taken, whose cost is in s already; where the window
   is spent, its cost for the time is compared to that of the other method when it was at work. A
   method that is tried and costs more gives way at once, and then twice as many comparisons are
   waited for before the next try. */
static inline void count_cost(double *s, double h)
{
    s[RB_COMPARED] += h;
    if (s[RB_COST] < RB_WINDOW)
        return;
    const double rate = coarse(s[RB_COST] / s[RB_COMPARED]);
    const int is_tried = s[RB_WINDOWS] == 0.0 && s[RB_OTHER] > 0.0,
              failed = is_tried && rate > s[RB_OTHER];
    const double trust = s[RB_TRUST] > RB_FIRST_TRUST ? s[RB_TRUST] : RB_FIRST_TRUST;
    s[RB_COST] = s[RB_COMPARED] = 0.0;
    s[RB_WINDOWS] += 1.0;
    if (is_tried)
        s[RB_TRUST] = !failed                       ? RB_FIRST_TRUST
                      : 2.0 * trust < RB_MOST_TRUST ? 2.0 * trust
                                                    : RB_MOST_TRUST;
    if (failed || s[RB_WINDOWS] > (s[RB_TRUST] > RB_FIRST_TRUST ? s[RB_TRUST] : RB_FIRST_TRUST)) {
        s[RB_OTHER] = rate;
        s[RB_WINDOWS] = failed;
        s[RB_IS_STIFF] = s[RB_ASKED] = 3.0 - s[RB_IS_STIFF];
    }
}

#endif

#endif
