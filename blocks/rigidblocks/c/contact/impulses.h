/* Impulses of contacts, by what is quicker. */

#ifndef RB_IMPULSES_H
#define RB_IMPULSES_H

#include "together.h"

/* After how many sweeps free bodies are solved for together, and how many times as many later. */
enum { RB_TOGETHER = 8, RB_LATER = 3 };

/* Whether as many sweeps again would not be enough, by what the second half of them has done. What
   moves need not be known as well as what stands, and so is left to sweeps for longer. */
static inline int takes_long(int sweeps, double residual, double halfway, double tolerance,
                             double later)
{
    const double part = residual / halfway;
    return (sweeps > RB_TOGETHER || !(later > tolerance)) &&
           residual * part * part > enough_after(2 * sweeps, tolerance, later);
}

/* `solve_impulses` where all contacts are of free bodies. */
static inline void solve_free(struct scene *s, struct solution *all, double tolerance, double later,
                              int most)
{
    struct flights free;
    double before = 0.0, squared, kept = 0.0, circling = INFINITY, halfway = INFINITY;
    int own = 0, next = RB_TOGETHER;
    free.following = 1.0;
    start_flights(s, all, &free);
    while (all->sweeps < most) {
        all->residual = sweep_lights(&free, kept, &squared);
        if (++all->sweeps == most ||
            all->residual <= enough_after(all->sweeps - 1, tolerance, later))
            break;
        follow_less(++own, more_of(later, tolerance), all->residual, &circling, &free.following);
        if (own == next / 2)
            halfway = all->residual;
        if (own == next) {
            next *= RB_LATER;
            if (takes_long(own, all->residual, halfway, tolerance, later) &&
                solve_together(&free, own)) {
                before = kept = 0.0;
                continue;
            }
        }
        kept = kept_of(squared, before);
        carry_flights(&free, kept);
        before = squared;
    }
    end_flights(s, &free, all);
}

/* `solve_impulses` in the quicker of the two ways. */
static inline void find_impulses(struct scene *s, struct solution *all, double tolerance,
                                 double later, int most)
{
    if (all_free(all))
        solve_free(s, all, tolerance, later, most);
    else
        solve_impulses(s, all, tolerance, later, most);
}

#endif
