/* How near the bodies of a scene are to each other, where its joints say. */

#ifndef RB_NEAR_H
#define RB_NEAR_H

#include "nearest.h"
#include "trees.h"

/* Bodies and shapes where q says. */
static inline void place_at(struct scene *s, const double *q)
{
    memset(&s->link[RB_LINKS], 0, sizeof s->link[RB_LINKS]);
    memset(&s->body[RB_BODIES], 0, sizeof s->body[RB_BODIES]);
    s->body[RB_BODIES].r[0] = s->body[RB_BODIES].r[4] = s->body[RB_BODIES].r[8] = 1.0;
    for (int k = 0; k < RB_BODIES; k++) {
        if (!RB_FREE[k])
            continue;
        unit_rotation(q + RB_Q_AT[k], s->body[k].r);
        turn(s->body[k].r, RB_CENTRE[k], s->body[k].x);
        along(s->body[k].x, 1.0, q + RB_Q_AT[k] + 4, s->body[k].x);
    }
    place_links(s, q);
    for (int k = 0; k < RB_SHAPES; k++) {
        const struct body *body = &s->body[RB_SHAPE_BODY[k]];
        s->shape[k].shape = RB_SHAPE_TABLE + RB_SHAPE_AT[k];
        product(body->r, RB_SHAPE_POSE[k], s->shape[k].r);
        turn(body->r, RB_SHAPE_POSE[k] + 9, s->shape[k].p);
        along(s->shape[k].p, 1.0, body->x, s->shape[k].p);
    }
}

/* The distances of all sensors at q, to where the states have them. */
static inline void measure_distances(struct scene *s, const double *q, double *out)
{
    place_at(s, q);
    for (int k = 0; k < RB_NEARS; k++)
        nearest_of(s->shape, k, out + RB_NEAR_AT[k]);
}

/* The sample of a block that measures distances alone. */
static inline void proximity_step(const double *state, const double *q, double *out)
{
    struct scene s;
    (void)state;
    measure_distances(&s, q, out);
}

#endif
