/* How near bodies are to each other: of every sensor the least distance between shapes of one side and of the other.

   The generated text has RB_NEARS, how many sensors measure it, RB_NEAR_AT (where the states of each start: the distance and
   the two points), RB_NEAR_FIRST (3 each: where its shapes start, where those of the other side do, and where they end) and
   RB_NEAR_SHAPE, the shapes. */

#ifndef RB_NEAR_H
#define RB_NEAR_H

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

/* The distance of a sensor's two sides, and the points that have it. */
static inline void nearest_of(const struct scene *s, int k, double *out)
{
    const int *first = RB_NEAR_FIRST[k];
    double least = INFINITY;
    for (int i = first[0]; i < first[1]; i++) {
        for (int j = first[1]; j < first[2]; j++) {
            struct proximity c = {.gap = 0.0};
            proximity(&s->shape[RB_NEAR_SHAPE[i]], &s->shape[RB_NEAR_SHAPE[j]], &c);
            if (!(c.gap < least))
                continue;
            least = out[0] = c.gap;
            memcpy(out + 1, c.on_a, sizeof c.on_a);
            memcpy(out + 4, c.on_b, sizeof c.on_b);
        }
    }
}

/* The distances of all sensors at q, to where the states have them. */
static inline void measure_distances(struct scene *s, const double *q, double *out)
{
    place_at(s, q);
    for (int k = 0; k < RB_NEARS; k++)
        nearest_of(s, k, out + RB_NEAR_AT[k]);
}

/* The sample of a block that measures distances alone. */
static inline void proximity_step(const double *state, const double *q, double *out)
{
    struct scene s;
    (void)state;
    measure_distances(&s, q, out);
}

#endif
