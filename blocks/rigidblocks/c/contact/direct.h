/* Impulses of what holds trees on what is at rest, all at once: Newton's method for the equations
   of those contacts that are pressed, and of those stops that are reached, as a sweep leaves them.
   In coordinates of unit inertia

       Y dz + E dp = missing,  dz = Y^T dp,  so that  (1 + Y^T E^-1 Y) dz = Y^T E^-1 missing,

   whose matrix has the branches of the trees. The compliance E shares among supports that are
   redundant, and keeps small what hardly helps; from the impulses that are found the same once more
   leaves its square (proximal points, Rockafellar 1976). */

#ifndef RB_DIRECT_H
#define RB_DIRECT_H

#include "solver.h"

static const double RB_COMPLIANCE = 1e-3; /* of what a unit impulse changes */

/* Whether a contact presses a tree on what is at rest. */
static inline int holds(const struct touch *c)
{
    return c->impulse[0] > 0.0 && RB_LEAF[c->a] >= 0 && c->b == RB_BODIES;
}

/* Whether a stop holds its freedom. */
static inline int is_held(const struct stop *stop)
{
    return stop->mass > 0.0 && fabs(stop->impulse) > 0.0 && fabs(stop->impulse) < stop->most;
}

/* The stiffness of the part of a contact: none across it where it slides, and where nothing
   moves. */
static inline double stiffness_of(const struct touch *c, int i)
{
    return c->mass[4 * i] > 0.0 && (i == 0 || sticks(c)) ? 1.0 / (RB_COMPLIANCE * c->mass[4 * i])
                                                         : 0.0;
}

/* Adds what a contact does: its rows to the matrix, and what is missing, which is noted as
   `change`, to the other side. */
static inline void hold_contact(const struct scene *s, struct touch *c, struct factor *l,
                                double *pull)
{
    const int leaf = RB_LEAF[c->a], *path = RB_PATH + RB_DOF_ROW[leaf], depth = RB_DOF_DEPTH[leaf];
    const double (*y)[RB_PARTS] = (const double (*)[RB_PARTS])c->rows[0].y, *missing = c->change;
    const double stiff[3] = {stiffness_of(c, 0), stiffness_of(c, 1), stiffness_of(c, 2)};
    double w[3];
    slip(s, c, w);
    c->change[0] = c->least - w[0];
    c->change[1] = -c->shift[1] - w[1];
    c->change[2] = -c->shift[2] - w[2];
    for (int at = 0; at <= depth; at++) {
        const double x = stiff[0] * y[at][0], u = stiff[1] * y[at][1], v = stiff[2] * y[at][2];
        double *row = l->row + RB_DOF_ROW[path[at]] - at;
        pull[path[at]] += x * missing[0] + u * missing[1] + v * missing[2];
        for (int before = at; before <= depth; before++)
            row[before] += x * y[before][0] + u * y[before][1] + v * y[before][2];
    }
}

/* The same of a stop. */
static inline void hold_stop(const struct scene *s, struct stop *stop, struct factor *l,
                             double *pull)
{
    const int *path = RB_PATH + RB_DOF_ROW[stop->dof], depth = RB_DOF_DEPTH[stop->dof];
    const double stiff = 1.0 / (RB_COMPLIANCE * stop->mass);
    stop->change = (stop->impulse > 0.0 ? stop->low : stop->high) - stop_speed(stop, s->z);
    for (int at = 0; at <= depth; at++) {
        const double part = stiff * stop->y[at];
        double *row = l->row + RB_DOF_ROW[path[at]] - at;
        pull[path[at]] += part * stop->change;
        for (int before = at; before <= depth; before++)
            row[before] += part * stop->y[before];
    }
}

/* The change of the impulse of a contact, as `change`, for the sum of what velocities leave both
   times. Returns whether it still presses, and sticks if it did. */
static inline int find_change(struct touch *c, const double *sum)
{
    const int leaf = RB_LEAF[c->a], *path = RB_PATH + RB_DOF_ROW[leaf], sticking = sticks(c);
    const double (*y)[RB_PARTS] = (const double (*)[RB_PARTS])c->rows[0].y;
    double next[3] = {2.0 * c->change[0], 2.0 * c->change[1], 2.0 * c->change[2]};
    for (int at = 0; at <= RB_DOF_DEPTH[leaf]; at++)
        along(next, -sum[path[at]], y[at], next);
    c->change[0] = next[0] * stiffness_of(c, 0);
    for (int i = 1; i < 3; i++) /* friction that slides goes with the pressure */
        c->change[i] =
            sticking ? next[i] * stiffness_of(c, i) : c->impulse[i] * c->change[0] / c->impulse[0];
    along(c->impulse, 1.0, c->change, next);
    const double limit = c->mu * next[0];
    return next[0] > 0.0 && (!sticking || next[1] * next[1] + next[2] * next[2] <= limit * limit);
}

/* The same of a stop. */
static inline int find_stop_change(struct stop *stop, const double *sum)
{
    stop->change = (2.0 * stop->change - stop_speed(stop, sum)) / (RB_COMPLIANCE * stop->mass);
    const double next = stop->impulse + stop->change;
    return fabs(next) <= stop->most && (!(stop->low < stop->high) || next * stop->impulse > 0.0);
}

/* The changes of all. Returns whether none is another kind of contact with it. */
static inline int find_changes(struct solution *all, const double *sum)
{
    for (int k = 0; k < all->list; k++) {
        struct touch *c = &all->touch[all->listed[k]];
        if (holds(c) && !find_change(c, sum))
            return 0;
    }
    for (int k = 0; k < all->stops; k++)
        if (is_held(&all->stop[k]) && !find_stop_change(&all->stop[k], sum))
            return 0;
    return 1;
}

/* The matrix and the other side. Returns 0 where a contact is between what moves, or expands,
   or there are none. */
static inline int hold_all(const struct scene *s, struct solution *all, struct factor *l,
                           double *pull)
{
    int count = 0;
    memset(l, 0, sizeof *l);
    for (int d = 0; d < RB_DOFS; d++)
        l->row[RB_DOF_ROW[d]] = 1.0;
    for (int k = 0; k < all->list; k++) {
        struct touch *c = &all->touch[all->listed[k]];
        if (c->floor > 0.0 ||
            (c->impulse[0] > 0.0 && c->b < RB_BODIES && (RB_LEAF[c->a] >= 0 || RB_LEAF[c->b] >= 0)))
            return 0;
        if (!holds(c))
            continue;
        hold_contact(s, c, l, pull);
        count++;
    }
    for (int k = 0; k < all->stops; k++)
        if (is_held(&all->stop[k]))
            hold_stop(s, &all->stop[k], l, pull);
    return count;
}

/* All impulses by their changes. */
static inline void make_changes(struct scene *s, struct solution *all)
{
    for (int k = 0; k < all->list; k++) {
        struct touch *c = &all->touch[all->listed[k]];
        double impulse[RB_PARTS] = {0.0};
        if (!holds(c))
            continue;
        memcpy(impulse, c->change, sizeof c->change);
        along(c->impulse, 1.0, impulse, c->impulse);
        apply(s, c, impulse);
    }
    for (int k = 0; k < all->stops; k++) {
        struct stop *stop = &all->stop[k];
        if (!is_held(stop))
            continue;
        stop->impulse += stop->change;
        push_stop(stop, stop->change, s->z);
    }
}

/* Whether it is worth while after so many sweeps: after the first, unless the impulses of the step
   before have been good for it already, and where that was too early. */
static inline int is_turn(int sweeps, int early)
{
    return (sweeps == 1 && !early) || sweeps == 7;
}

/* All at once. Returns 0 where nothing was changed: where one would not hold any more, or loops
   do. */
static inline int solve_directly(struct scene *s, struct solution *all)
{
    struct factor l;
    double dz[RB_DOFS + 1] = {0.0}, sum[RB_DOFS + 1];
    if (RB_DOFS == 0 || RB_CLOSURES > 0 || !hold_all(s, all, &l, dz))
        return 0;
    factorize_branches(&l);
    solve_all_upwards(&l, dz);
    solve_downwards(&l, 0, RB_DOFS, dz);
    for (int d = 0; d < RB_DOFS; d++)
        sum[d] = 2.0 * dz[d];
    solve_all_upwards(&l, dz); /* what is missing then is E dp, so that dz is the other side */
    solve_downwards(&l, 0, RB_DOFS, dz);
    for (int d = 0; d < RB_DOFS; d++)
        sum[d] += dz[d];
    if (!find_changes(all, sum))
        return 0;
    make_changes(s, all);
    return 1;
}

#endif
