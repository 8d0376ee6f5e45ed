/* Impulses of contacts and stops bring no energy: where they would, as where friction jams and the
   sweeps come to no end, where restitution with friction turns a slip round, or where the normal of
   what rolls turns within a step, they are made smaller, all by the same part, which keeps them in
   their cones, until they bring none: each island of bodies that touch each other by itself.

   Over a step the mechanical energy in the middle of it changes by p . (u- + u+) / 2, u- being the
   velocity before the forces of the step, as that of a ball does that falls back on the ground with
   the velocity with which it left it. */

#ifndef RB_PASSIVE_H
#define RB_PASSIVE_H

#include "touch.h"

/* Velocities of bodies and trees at a stage of the step. */
struct stage {
    double v[RB_BODIES + 1][3], w[RB_BODIES + 1][3], z[RB_DOFS + 1];
};

static inline void note_velocities(const struct scene *s, struct stage *now)
{
    memcpy(now->z, s->z, sizeof now->z);
    for (int k = 0; k <= RB_BODIES; k++) {
        memcpy(now->v[k], s->body[k].v, sizeof now->v[k]);
        memcpy(now->w[k], s->body[k].w, sizeof now->w[k]);
    }
}

/* Velocities of a free body or of a link a part of the way from what they were to what they are. */
static inline void body_back(struct body *body, const struct stage *before, int k, double part)
{
    for (int i = 0; i < 3; i++) {
        body->v[i] = before->v[k][i] + part * (body->v[i] - before->v[k][i]);
        body->w[i] = before->w[k][i] + part * (body->w[i] - before->w[k][i]);
    }
}

/* All velocities as they were. */
static inline void go_back(struct scene *s, const struct stage *before)
{
    memcpy(s->z, before->z, sizeof s->z);
    for (int k = 0; k < RB_BODIES; k++)
        body_back(&s->body[k], before, k, 0.0);
}

/* Marks the bodies of the contacts that are listed: no other free one has an impulse. */
static inline void mark_touched(const struct solution *all, unsigned char *touched)
{
    memset(touched, 0, RB_BODIES + 1);
    for (int k = 0; k < all->list; k++)
        touched[all->touch[all->listed[k]].a] = touched[all->touch[all->listed[k]].b] = 1;
}

/* Adds to the work t a + t^2 / 2 b of a part t of the impulses since `start` what a free body has
   of it. */
static inline void add_work(const struct scene *s, int k, const struct stage *freely,
                            const struct stage *start, double *work)
{
    const struct body *body = &s->body[k];
    double change[3], mean[3], moment[3];
    difference(body->v, start->v[k], change);
    difference(body->before_v, freely->v[k], mean);
    along(start->v[k], 0.5, mean, mean);
    work[0] += RB_MASS[k] * dot(change, mean);
    work[1] += RB_MASS[k] * dot(change, change);
    difference(body->w, start->w[k], change);
    difference(body->before_w, freely->w[k], mean);
    along(start->w[k], 0.5, mean, mean);
    turn_back(body->r, change, change);
    turn_back(body->r, mean, mean);
    turn(RB_INERTIA[k], change, moment);
    work[0] += dot(moment, mean);
    work[1] += dot(moment, change);
}

/* The work of each island. */
static inline void add_all_work(const struct scene *s, const struct solution *all,
                                const struct stage *freely, const struct stage *start,
                                struct islands *found)
{
    unsigned char touched[RB_BODIES + 1];
    mark_touched(all, touched);
    memset(found->work, 0, sizeof found->work);
    for (int k = 0; k < RB_BODIES; k++)
        if (RB_FREE[k] && touched[k])
            add_work(s, k, freely, start, found->work[island_of(found, k)]);
    for (int d = 0; d < RB_DOFS; d++) {
        double *work = found->work[island_of(found, head_of(RB_LINK_BODY[RB_DOF_LINK[d]]))];
        const double change = s->z[d] - start->z[d];
        work[0] += change * (start->z[d] + 0.5 * (s->before_z[d] - freely->z[d]));
        work[1] += change * change;
    }
}

/* Impulses of islands, and what they changed, as far as they are left. */
static inline void leave_parts(struct scene *s, struct solution *all, const struct stage *start,
                               struct islands *found)
{
    for (int k = 0; k < all->list; k++) {
        struct touch *c = &all->touch[all->listed[k]];
        for (int i = 0; i < RB_PARTS; i++)
            c->impulse[i] *= found->part[island_at(found, c)];
    }
    for (int k = 0; k < all->stops; k++)
        all->stop[k].impulse *=
            found->part[island_of(found, head_of(RB_LINK_BODY[RB_DOF_LINK[all->stop[k].dof]]))];
    for (int d = 0; d < RB_DOFS; d++)
        s->z[d] =
            start->z[d] + found->part[island_of(found, head_of(RB_LINK_BODY[RB_DOF_LINK[d]]))] *
                              (s->z[d] - start->z[d]);
    for (int k = 0; k < RB_BODIES; k++)
        if (head_of(k) >= 0 && found->part[island_of(found, head_of(k))] < 1.0)
            body_back(&s->body[k], start, k, found->part[island_of(found, head_of(k))]);
}

/* The impulses of the listed contacts and stops, by which the velocities came from those of
   `start`, are made smaller until they bring no energy; `freely` are the velocities after the
   forces of the step. Returns the least part that is left. */
static inline double bring_no_energy(struct scene *s, struct solution *all,
                                     const struct stage *freely, const struct stage *start,
                                     struct islands *found)
{
    static const double none = 1e-12; /* of what they exchange */
    double least = 1.0;
    if (all->list + all->stops == 0)
        return 1.0;
    find_islands(all, found);
    add_all_work(s, all, freely, start, found);
    for (int k = 0; k < RB_BODIES; k++) {
        const double *work = found->work[k];
        found->part[k] = 1.0;
        if (work[0] + 0.5 * work[1] > none * work[1])
            found->part[k] = limited(-2.0 * work[0] / work[1], 0.0, 1.0);
        least = fmin(least, found->part[k]);
    }
    if (least < 1.0)
        leave_parts(s, all, start, found);
    return least;
}

#endif
