/* What may touch within a step, hit by something fast or not. */

#ifndef RB_REACH_H
#define RB_REACH_H

#include "islands.h"

enum { RB_REACHES = 4 }; /* how often what may be hit may hit others */

/* The bounds of what may be hit, through others too, with half of the way of the fastest of these.
   Returns whether any became wider. */
static inline int reach_farther(struct scene *s)
{
    struct islands found;
    double way[RB_BODIES + 1] = {0.0};
    int wider = 0;
    start_islands(&found);
    for (int k = 0; k < s->pairs; k++)
        join_islands(&found, RB_SHAPE_BODY[s->pair[k].a], RB_SHAPE_BODY[s->pair[k].b]);
    for (int k = 0; k < RB_SHAPES; k++) {
        const int head = head_of(RB_SHAPE_BODY[k]);
        if (head >= 0) {
            double *most = &way[island_of(&found, head)];
            *most = more_of(*most, s->bounds[k].way);
        }
    }
    for (int k = 0; k < RB_SHAPES; k++) {
        const int head = head_of(RB_SHAPE_BODY[k]);
        if (head < 0)
            continue;
        const double more = margin_for(k, 0.5 * way[island_of(&found, head)]) - s->bounds[k].margin;
        if (!(more > 0.0))
            continue;
        widen(&s->bounds[k], more);
        wider = 1;
    }
    return wider;
}

/* The pairs of shapes that may touch within a step of length h. What is far from all that is fast
   is not asked for more than its own way. */
static inline void find_near(struct scene *s, double h)
{
    const int far = place_shapes(s, h);
    find_pairs(s);
    for (int time = 0; time < RB_REACHES && far && reach_farther(s); time++) {
        s->left_out = 0;
        find_pairs(s);
    }
}

#endif
