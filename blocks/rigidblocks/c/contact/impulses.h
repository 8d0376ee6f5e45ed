/* Impulses of contacts, by what is quicker. */

#ifndef RB_IMPULSES_H
#define RB_IMPULSES_H

#include "start.h"
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

/* How well impulses are known: the least speed that counts, the part of the fastest by which
   velocities may change in the last sweep, and of the speeds before the step after many. */
struct accuracy {
    double speed, part, later;
};

/* The fastest of what the contacts and stops that are listed are of, all links of a tree together,
   before the step, and with its forces too. */
static inline void speeds_of(const struct scene *s, const struct solution *all, int trees,
                             double *before, double *fastest)
{
    unsigned char known[RB_BODIES + 1] = {0};
    *before = *fastest = 0.0;
    for (int k = 0; k < 2 * all->list; k++) {
        const struct touch *c = &all->touch[all->listed[k / 2]];
        const int number = k % 2 ? c->b : c->a;
        *before = more_of(*before, s->body[number].slow);
        *fastest = more_of(*fastest, s->body[number].fast);
        if (trees && RB_LEAF[number] >= 0)
            known[head_of(number)] = 1;
    }
    for (int k = 0; k < all->stops; k++)
        known[head_of(RB_LINK_BODY[RB_DOF_LINK[all->stop[k].dof]])] = 1;
    for (int k = 0; k < RB_BODIES && trees; k++) {
        if (RB_LEAF[k] < 0 || !known[head_of(k)])
            continue;
        *before = more_of(*before, s->body[k].slow);
        *fastest = more_of(*fastest, s->body[k].fast);
    }
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
                solve_together(&free, own, later > tolerance ? 1 : RB_HIGHER)) {
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

/* The contacts that are listed, and stops with trees, in the quicker of the two ways. */
static inline void solve_group(struct scene *s, struct solution *all, int trees,
                               const struct accuracy *wanted, int most)
{
    double before, fastest;
    speeds_of(s, all, trees, &before, &fastest);
    const double tolerance = wanted->part * more_of(wanted->speed, fastest),
                 later = wanted->later * before;
    all->residual = 0.0;
    if (trees || all->list > RB_LIGHTS)
        solve_impulses(s, all, tolerance, later, most);
    else
        solve_free(s, all, tolerance, later, most);
}

/* The impulses of the contacts that are listed, of each island by itself: how well they are known,
   and how many sweeps that takes, is not of what bodies elsewhere do. The sweeps made are those of
   the island that takes most. */
static inline void find_impulses(struct scene *s, struct solution *all,
                                 const struct accuracy *wanted, int most)
{
    struct groups found;
    const int list = all->list, stops = all->stops, begun = all->sweeps;
    int made = begun;
    double residual = 0.0;
    group_contacts(all, &found);
    for (int i = 0; i < found.count; i++) {
        list_group(&found, i, all);
        all->stops = i == 0 ? stops : 0; /* none where strikes are sought */
        all->sweeps = begun;
        if (all->list + all->stops == 0)
            continue;
        solve_group(s, all, i == 0, wanted, most);
        made = all->sweeps > made ? all->sweeps : made;
        residual = more_of(residual, all->residual);
    }
    memcpy(all->listed, found.listed, (size_t)list * sizeof(int));
    all->list = list;
    all->stops = stops;
    all->sweeps = made;
    all->residual = residual;
}

#endif
