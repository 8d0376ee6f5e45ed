/* Sweeps with conjugate gradients between them (Silcowitz-Hansen et al. 2010), until nothing
   changes any more. What holds trees is solved for directly on the way. */

#ifndef RB_CONJUGATE_H
#define RB_CONJUGATE_H

#include "direct.h"

/* How far the last sweep has come, squared. */
static inline double squared_way(const struct solution *all)
{
    double squared = 0.0;
    for (int k = 0; k < all->list; k++) {
        const double *step = all->touch[all->listed[k]].step;
        for (int i = 0; i < RB_PARTS; i++)
            squared += step[i] * step[i];
    }
    for (int k = 0; k < all->stops; k++)
        squared += all->stop[k].step * all->stop[k].step;
    return squared;
}

/* The velocities of free bodies and of trees after the last sweep, and the ways that they have
   come. */
struct motion {
    double last[RB_BODIES][6], way[RB_BODIES][6], last_z[RB_DOFS + 1], way_z[RB_DOFS + 1];
};

static inline void start_motion(const struct scene *s, struct motion *m)
{
    memset(m, 0, sizeof *m);
    memcpy(m->last_z, s->z, sizeof m->last_z);
    for (int k = 0; k < RB_BODIES; k++) {
        memcpy(m->last[k], s->body[k].v, 3 * sizeof(double));
        memcpy(m->last[k] + 3, s->body[k].w, 3 * sizeof(double));
    }
}

/* A velocity that a sweep has brought from `last` on along its way before. */
static inline void carry_on(double kept, double *last, double *way, double *now)
{
    const double change = kept * *way;
    *way = change + *now - *last;
    *now += change;
    *last = *now;
}

/* How much of the way of sweeps before is kept, by how far the last one and the one before it have
   come, squared. */
static inline double kept_of(double squared, double before)
{
    const double part = before > 0.0 ? squared / before : 2.0;
    return part <= 1.0 ? part : 0.0;
}

/* From where a sweep has come on along the way of those before, conjugate to it: impulses, and
   velocities, which are linear in them. */
static inline void go_on(struct scene *s, struct solution *all, struct motion *m, double *before)
{
    const double squared = squared_way(all), kept = kept_of(squared, *before);
    /* where some are free */
    const int links = RB_LINKS, bodies = links < RB_BODIES ? RB_BODIES : 0;
    for (int k = 0; k < all->list; k++) {
        struct touch *c = &all->touch[all->listed[k]];
        for (int i = 0; i < RB_PARTS; i++) {
            const double change = kept * c->way[i];
            c->way[i] = change + c->step[i];
            c->impulse[i] += change;
        }
    }
    for (int k = 0; k < all->stops; k++) {
        struct stop *stop = &all->stop[k];
        const double change = kept * stop->way;
        stop->way = change + stop->step;
        stop->impulse += change;
    }
    for (int k = 0; k < bodies; k++) {
        for (int i = 0; RB_LEAF[k] < 0 && i < 3; i++) {
            carry_on(kept, &m->last[k][i], &m->way[k][i], &s->body[k].v[i]);
            carry_on(kept, &m->last[k][3 + i], &m->way[k][3 + i], &s->body[k].w[i]);
        }
    }
    for (int d = 0; d < RB_DOFS; d++)
        carry_on(kept, &m->last_z[d], &m->way_z[d], &s->z[d]);
    *before = squared;
}

/* How much a velocity may change in the last sweep, after so many. */
static inline double enough_after(int sweeps, double tolerance, double later)
{
    return sweeps < RB_PATIENT_SWEEPS ? tolerance : more_of(later, tolerance);
}

/* All ways from here on. */
static inline void start_ways(const struct scene *s, struct solution *all, struct motion *m)
{
    start_motion(s, m);
    for (int k = 0; k < all->list; k++)
        memset(all->touch[all->listed[k]].way, 0, sizeof all->touch[k].way);
    for (int k = 0; k < all->stops; k++)
        all->stop[k].way = 0.0;
}

/* Sweeps until no velocity changes by more than the tolerance, after so many than a larger one, or
   `most` have been made in this step. Where a few more have not halved the changes, as many more
   would not: what trees that stick ask for may need impulses without end, as where one foot would
   have to turn against another. */
static inline void solve_impulses(struct scene *s, struct solution *all, double tolerance,
                                  double later, int most)
{
    struct motion m;
    double before = 0.0, last = INFINITY;
    int own = 0, patience = 0;
    const int early = all->sweeps == 0 && solve_directly(s, all);
    start_ways(s, all, &m);
    while (all->sweeps < most && all->list + all->stops > 0) {
        all->residual = sweep_once(s, all);
        if (++own % RB_STALLING_SWEEPS == 0) {
            patience = all->residual > 0.5 * last ? RB_PATIENT_SWEEPS : 0;
            last = all->residual;
        }
        if (++all->sweeps == most ||
            all->residual <= enough_after(all->sweeps - 1 + patience, tolerance, later))
            break;
        if (is_turn(own, early) && solve_directly(s, all)) {
            start_ways(s, all, &m);
            before = 0.0;
            continue;
        }
        go_on(s, all, &m, &before);
    }
}

#endif
