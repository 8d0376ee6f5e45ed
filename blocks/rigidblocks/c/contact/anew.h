/* A step that begins anew: what impulses made so fast, or what was moved apart so far, that it may
   meet others than was found. */

#ifndef RB_ANEW_H
#define RB_ANEW_H

#include "passive.h"

/* The bounds of what impulses made faster than they say, or what is moved apart by more, become
   wider. Returns how many of the latter there are, `wider` how many of both. */
static inline int widen_bounds(struct scene *s, const struct solution *all, int *wider)
{
    unsigned char touched[RB_BODIES + 1];
    int moved = 0;
    mark_touched(all, touched);
    *wider = 0;
    for (int k = 0; k < RB_SHAPES; k++) {
        const int number = RB_SHAPE_BODY[k];
        if (number == RB_BODIES || (RB_FREE[number] && !touched[number]))
            continue;
        const struct body *body = &s->body[number];
        struct bounds *bounds = &s->bounds[k];
        const double push =
            RB_SCENE_STEP * (norm(body->push_v) + norm(body->push_w) * RB_SHAPE_REACH[k]);
        const double way = RB_SCENE_STEP * speed_of(s, k) + push, more = way - bounds->margin;
        if (!(more > 0.0))
            continue;
        moved += push > bounds->margin;
        widen(bounds, more);
        bounds->way = bounds->margin;
        ++*wider;
    }
    return moved;
}

/* Whether bodies may meet others within the step than was found, for impulses made them faster or
   they are moved apart: the pairs are then all found anew. */
static inline int meet_more(struct scene *s, const struct solution *all)
{
    struct pair found[RB_PAIRS];
    const int pairs = s->pairs, left_out = s->left_out;
    int wider;
    const int moved = widen_bounds(s, all, &wider);
    if (wider == 0)
        return 0;
    memcpy(found, s->pair, (size_t)pairs * sizeof *found);
    s->left_out = 0;
    find_pairs(s);
    if (s->pairs > pairs || moved > 0)
        return 1;
    memcpy(s->pair, found, (size_t)pairs * sizeof *found);
    s->left_out = left_out;
    return 0;
}

/* Velocities as they are without contact, and nothing is moved apart. */
static inline void begin_anew(struct scene *s, const struct stage *freely)
{
    go_back(s, freely);
    free_velocities(s, s->z, s->qd);
    memset(s->push_z, 0, sizeof s->push_z);
    for (int k = 0; k < RB_BODIES; k++) {
        memset(s->body[k].push_v, 0, sizeof s->body[k].push_v);
        memset(s->body[k].push_w, 0, sizeof s->body[k].push_w);
    }
}

#endif
