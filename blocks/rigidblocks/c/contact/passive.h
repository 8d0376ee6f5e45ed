/* Impulses of contacts and stops bring no energy: where they would, as where friction jams and the sweeps come to no end, where
   restitution with friction turns a slip round, or where the normal of what rolls turns within a step, they are made smaller, all by
   the same part, which keeps them in their cones, until they bring none.

   Over a step the mechanical energy in the middle of it changes by p . (u- + u+) / 2, u- being the velocity before the forces of
   the step, as that of a ball does that falls back on the ground with the velocity with which it left it. */

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

/* Velocities a part of the way from what they were to what they are. */
static inline void go_back(struct scene *s, const struct stage *before, double part)
{
    for (int d = 0; d < RB_DOFS; d++)
        s->z[d] = before->z[d] + part * (s->z[d] - before->z[d]);
    for (int k = 0; k < RB_BODIES; k++) {
        for (int i = 0; i < 3; i++) {
            s->body[k].v[i] = before->v[k][i] + part * (s->body[k].v[i] - before->v[k][i]);
            s->body[k].w[i] = before->w[k][i] + part * (s->body[k].w[i] - before->w[k][i]);
        }
    }
}

/* Marks the bodies of the contacts that are listed: no other free one has an impulse. */
static inline void mark_touched(const struct solution *all, unsigned char *touched)
{
    memset(touched, 0, RB_BODIES + 1);
    for (int k = 0; k < all->list; k++)
        touched[all->touch[all->listed[k]].a] = touched[all->touch[all->listed[k]].b] = 1;
}

/* Adds to the work t a + t^2 / 2 b of a part t of the impulses since `start` what a free body has of it. */
static inline void add_work(const struct scene *s, int k, const struct stage *freely, const struct stage *start, double *work)
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

/* The same of all trees. */
static inline void add_work_on_trees(const struct scene *s, const struct stage *freely, const struct stage *start, double *work)
{
    for (int d = 0; d < RB_DOFS; d++) {
        const double change = s->z[d] - start->z[d];
        work[0] += change * (start->z[d] + 0.5 * (s->before_z[d] - freely->z[d]));
        work[1] += change * change;
    }
}

/* The impulses of the listed contacts and stops, by which the velocities came from those of `start`, are made smaller until they
   bring no energy; `freely` are the velocities after the forces of the step. Returns the part that is left. */
static inline double bring_no_energy(struct scene *s, struct solution *all, const struct stage *freely, const struct stage *start)
{
    static const double none = 1e-12; /* of what they exchange */
    unsigned char touched[RB_BODIES + 1];
    double work[2] = {0.0, 0.0};
    mark_touched(all, touched);
    for (int k = 0; k < RB_BODIES; k++)
        if (RB_FREE[k] && touched[k])
            add_work(s, k, freely, start, work);
    add_work_on_trees(s, freely, start, work);
    if (!(work[0] + 0.5 * work[1] > none * work[1]))
        return 1.0;
    const double part = work[1] > 0.0 ? limited(-2.0 * work[0] / work[1], 0.0, 1.0) : 0.0;
    go_back(s, start, part);
    for (int k = 0; k < all->list; k++)
        for (int i = 0; i < RB_PARTS; i++)
            all->touch[all->listed[k]].impulse[i] *= part;
    for (int k = 0; k < all->stops; k++)
        all->stop[k].impulse *= part;
    return part;
}

#endif
