/* The impulses of the step before, as those of this one start. */

#ifndef RB_START_H
#define RB_START_H

#include "groups.h"
#include "solver.h"

/* Half of the work of the impulses that are listed with the velocities of now, against what is asked
   for. */
static inline double half_work(const struct scene *s, const struct solution *all)
{
    double work = 0.0, w[3];
    for (int k = 0; k < all->list; k++) {
        const struct touch *c = &all->touch[all->listed[k]];
        slip(s, c, w);
        work += c->impulse[0] * (0.5 * w[0] - 0.5 * c->least);
        for (int i = 1; i < 3; i++)
            work += 0.5 * c->impulse[i] * (w[i] + c->shift[i]);
    }
    for (int k = 0; k < all->stops; k++) {
        const struct stop *stop = &all->stop[k];
        work += 0.5 * stop->impulse *
                (stop_speed(stop, s->z) - (stop->impulse > 0.0 ? stop->low : stop->high));
    }
    return work;
}

/* The impulses that are listed by `sign`. */
static inline void apply_listed(struct scene *s, const struct solution *all, double sign)
{
    for (int k = 0; k < all->list; k++) {
        const struct touch *c = &all->touch[all->listed[k]];
        double change[RB_PARTS];
        for (int i = 0; i < RB_PARTS; i++)
            change[i] = sign * c->impulse[i];
        apply(s, c, change);
    }
    for (int k = 0; k < all->stops; k++)
        push_stop(&all->stop[k], sign * all->stop[k].impulse, s->z);
}

static inline void list_all(struct solution *all)
{
    all->list = all->count;
    all->stops = all->reached;
    for (int k = 0; k < all->count; k++)
        all->listed[k] = k;
}

/* The function that sweeps lower, from zero on: the impulses that are listed are applied, and are so
   afterwards. */
static inline double lowered(struct scene *s, const struct solution *all)
{
    const double with = half_work(s, all);
    apply_listed(s, all, -1.0);
    const double without = half_work(s, all);
    apply_listed(s, all, 1.0);
    return with + without;
}

/* Whether the impulses that are listed, of the step before, lower what sweeps lower, if need be
   after a few: those of heavy bodies on light ones are off by little that counts for much, and what
   is off in light bodies goes with the first sweeps. */
static inline int are_of_use(struct scene *s, struct solution *all)
{
    if (lowered(s, all) <= 0.0)
        return 1;
    for (int k = 0; k < RB_STALLING_SWEEPS; k++)
        sweep_once(s, all);
    return lowered(s, all) <= 0.0;
}

static inline void give_up(struct scene *s, struct solution *all)
{
    apply_listed(s, all, -1.0);
    for (int k = 0; k < all->list; k++)
        memset(all->touch[all->listed[k]].impulse, 0, sizeof all->touch[k].impulse);
    for (int k = 0; k < all->stops; k++)
        all->stop[k].impulse = 0.0;
}

/* What starts from the impulses of the step before gets them. Where many sweeps were made for them
   they may be those of demands that contradict each other, and those of an island are given up that
   are of no use. */
static inline void start_impulses(struct scene *s, struct solution *all, double sweeps)
{
    struct groups found;
    list_all(all);
    all->sweeps = 0;
    all->residual = 0.0;
    apply_listed(s, all, 1.0);
    if (sweeps < RB_PATIENT_SWEEPS)
        return;
    group_contacts(all, &found);
    for (int i = 0; i < found.count; i++) {
        list_group(&found, i, all);
        if (all->list + all->stops > 0 && !are_of_use(s, all))
            give_up(s, all);
    }
    list_all(all);
}

#endif
