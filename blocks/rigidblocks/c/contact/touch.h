/* The contacts of a step: where shapes touch now, and where they would overlap at its end. */

#ifndef RB_TOUCH_H
#define RB_TOUCH_H

#include "rolling.h"

/* Gaps that count as none, relative to the smaller shape: closing one of rounding within a step
   would be a velocity. */
static const double RB_TOUCHING = 1e-7;

/* What a step is made from: the sampled states, the wrenches on the bodies, and the parameters:
   gravity, and of each material and each pair of materials that the tables name what it is. NULL
   where there are no trees, and where the tables say so. */
struct given {
    const double *state, *tau, *f_ext, *gravity, *mu, *e, *mu_static, *torsional, *rolling;
};

/* Where a pair of materials is that is named as one, -1 where it is not. */
static inline int named_pair(int a, int b)
{
    const double key = (double)(a < b ? a : b) * RB_MATERIALS + (a < b ? b : a);
    for (int k = 0; k < RB_NAMED_PAIRS; k++)
        if (!(RB_NAMED_PAIR[k] < key) && !(RB_NAMED_PAIR[k] > key))
            return RB_MATERIALS + k;
    return -1;
}

/* The geometric mean of two materials, or what is said of the pair. */
static inline double mean_of(const double *values, int a, int b, int pair)
{
    return pair >= 0 ? values[pair] : sqrt(values[a] * values[b]);
}

static inline double larger_of(const double *values, int a, int b, int pair)
{
    if (!values)
        return 0.0;
    return pair >= 0 ? values[pair] : fmax(values[a], values[b]);
}

/* Whether what was not pressed before slides: more than by what gravity gives it in a step. */
static inline int arrives_sliding(const struct given *in, const struct scene *s,
                                  const struct touch *c)
{
    double w[3];
    slip(s, c, w);
    return sqrt(w[1] * w[1] + w[2] * w[2]) > 2.0 * RB_SCENE_STEP * norm(in->gravity);
}

/* The friction of a contact between the materials a and b, after `recall`. Returns the
   restitution. */
static inline double resist(const struct given *in, const struct scene *s, int a, int b,
                            struct touch *c)
{
    const int pair = RB_NAMED_PAIRS > 0 ? named_pair(a, b) : -1;
    c->mu = mean_of(in->mu, a, b, pair);
    if (in->mu_static && (c->impulse[0] > 0.0 ? c->sticks : !arrives_sliding(in, s, c)))
        c->mu = fmax(c->mu, mean_of(in->mu_static, a, b, pair));
    c->torsional = larger_of(in->torsional, a, b, pair);
    c->rolling = larger_of(in->rolling, a, b, pair);
    return mean_of(in->e, a, b, pair);
}

/* The impulse of a contact in the step before, zero for a new one: keys are in order. */
static inline void recall(const struct given *in, double key, struct touch *c)
{
    const double *keys = in->state + RB_AT_KEY;
    int low = 0, high = (int)in->state[RB_AT_CONTACTS];
    while (low < high) {
        const int middle = low + (high - low) / 2;
        if (keys[middle] < key)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < (int)in->state[RB_AT_CONTACTS] && !(keys[low] > key)) {
        const double *p = in->state + RB_AT_IMPULSE + RB_PARTS * low;
        for (int i = 0; i < RB_PARTS; i++)
            c->impulse[i] = dot(c->frame[i % 3], p + i / 3 * 3);
        c->impulse[0] = fmax(c->impulse[0], 0.0);
        c->sticks = in->mu_static && in->state[RB_AT_STICKS + low] > 0.0;
    }
}

/* A length of the smaller shape of a pair; of points alone that of the body. */
static inline double pair_size(const struct scene *s, const struct pair *pair)
{
    const double size =
        fmin(s->shape[pair->a].shape[RB_SHAPE_SIZE], s->shape[pair->b].shape[RB_SHAPE_SIZE]);
    return size > 0.0 ? size : fmax(RB_SHAPE_REACH[pair->a], RB_SHAPE_REACH[pair->b]);
}

/* What a contact asks for that does not bounce: over the step that the gap closes at most, and no
   slip; and its velocity half a step before, which the first step has not and takes from half of the
   forces that it has. Where the other one is `flat`, a shape that touches there with `one` point alone may roll
   on. */
static inline void demand(const struct scene *s, const struct pair *pair, int flat, int one,
                          struct touch *c)
{
    const struct body *a = &s->body[c->a], *b = &s->body[c->b];
    double w[3], u[3], v[3];
    slip(s, c, w);
    cross(a->rate, c->arm_a, u);
    cross(b->rate, c->arm_b, v);
    difference(u, v, u);
    if (c->impulse[0] > 0.0 && RB_LEAF[c->a] < 0 && flat) {
        rolling_shift(s, pair->a, c, one, v);
        along(u, 1.0, v, u);
    }
    for (int i = 0; i < 3; i++)
        c->shift[i] = dot(c->frame[i], u);
    cross(a->before_w, c->arm_a, u);
    along(u, 1.0, a->before_v, u);
    cross(b->before_w, c->arm_b, v);
    along(v, 1.0, b->before_v, v);
    difference(u, v, u);
    for (int i = 0; i < 3; i++)
        c->lead[i] = (s->first ? 2.0 : 1.0) * (dot(c->frame[i], u) - w[i]);
    c->least = -fmax(0.0, c->gap - RB_TOUCHING * pair_size(s, pair)) / RB_SCENE_STEP - c->shift[0];
    c->resting = c->least;
}

/* How far two shapes are moved apart in a step: all of a small overlap, a fifth of a large one.
   Hardly more than what is left to them is let be, for it would be work in every step. */
static inline double way_apart(double depth, double size)
{
    static const double left = 1e-6; /* of the smaller shape */
    const double whole = depth - left * size;
    return whole > RB_TOUCHING * size ? fmax(0.2 * whole, fmin(whole, 0.1 * size)) : 0.0;
}

/* A contact of a pair of shapes at a point; NULL where there is no room for it, or nothing to
   move. */
static inline struct touch *add_touch(const struct given *in, struct scene *s,
                                      const struct pair *pair, const double *n, const double *point,
                                      double key, struct solution *all)
{
    if (all->count == RB_CONTACTS)
        return NULL;
    struct touch *c = &all->touch[all->count];
    memset(c, 0, sizeof *c);
    c->a = RB_SHAPE_BODY[pair->a];
    c->b = RB_SHAPE_BODY[pair->b];
    c->shape_a = pair->a;
    c->shape_b = pair->b;
    c->key = key;
    memcpy(c->frame[0], n, sizeof c->frame[0]);
    across(n, c->frame[1], c->frame[2]);
    difference(point, s->body[c->a].x, c->arm_a);
    difference(point, s->body[c->b].x, c->arm_b);
    recall(in, key, c);
    if (!prepare(s, all, c))
        return NULL;
    all->count++;
    c->e = resist(in, s, RB_SHAPE_MATERIAL[pair->a], RB_SHAPE_MATERIAL[pair->b], c);
    if (c->torsional > 0.0 || c->rolling > 0.0)
        prepare_turning(s, c);
    return c;
}

/* The key of the first contact of a pair, of those that are found at once or later. */
static inline double first_key(const struct pair *pair, int later)
{
    const double number = ((double)later * RB_SHAPES + pair->a) * RB_SHAPES + pair->b;
    return number * RB_MANIFOLD * RB_PATCHES;
}

/* The contacts of a pair of shapes. */
static inline void touch_pair(const struct given *in, struct scene *s, struct pair *pair,
                              struct solution *all)
{
    const struct bounds *a = &s->bounds[pair->a], *b = &s->bounds[pair->b];
    struct patches found;
    pair->gap = 0.0;
    pair->left_out[0] = pair->left_out[1] = 0;
    meet(&s->shape[pair->a], &s->shape[pair->b], a->margin + b->margin, a->way + b->way, &found);
    memset(pair->n, 0, sizeof pair->n);
    if (found.count == 1 && found.one[0].count > 0 && !is_ground(&s->shape[pair->b]))
        memcpy(pair->n, found.one[0].n, sizeof pair->n);
    for (int i = 0; i < found.count; i++) {
        const struct manifold *m = &found.one[i];
        for (int k = 0; k < m->count; k++) {
            const double key = first_key(pair, 0) + RB_MANIFOLD * i + k;
            pair->left_out[0] += all->count == RB_CONTACTS;
            struct touch *c = add_touch(in, s, pair, m->n, m->point[k], key, all);
            pair->gap = fmin(pair->gap, m->gap[k]);
            if (!c)
                continue;
            c->gap = m->gap[k];
            c->push = way_apart(-c->gap, pair_size(s, pair)) / RB_SCENE_STEP;
            demand(s, pair, found.flat[i], m->count == 1, c);
        }
    }
}

/* Where the shapes will be at the end of the step with the velocities as they are. */
static inline void coming_shapes(struct scene *s)
{
    double way[3], angle[3] = {0.0, 0.0, 0.0};
    for (int k = 0; k < RB_SHAPES; k++) {
        const int body = RB_SHAPE_BODY[k];
        double turned[3];
        if (body == RB_BODIES)
            memset(angle, 0, sizeof angle);
        else if (k == 0 || body != RB_SHAPE_BODY[k - 1])
            mean_rate(s, body, angle);
        times(RB_SCENE_STEP, angle, turned);
        times(RB_SCENE_STEP, s->body[body].v, way);
        moved_shape(s, k, way, turned, &s->coming[k]);
    }
}

/* Whether a plane across the normal of the contact, or across the way between the middles, shows at
   the end of the step that two shapes are farther apart than `gap`: no way apart is shorter than
   that along any normal. */
static inline int stay_apart(const struct scene *s, const struct pair *pair, double gap)
{
    const struct placed *a = &s->coming[pair->a], *b = &s->coming[pair->b];
    double n[3], back[3], on_a[3], on_b[3];
    if (is_ground(b) || kind_of(a->shape) == RB_HALF_SPACE)
        return 0;
    if (kind_of(b->shape) == RB_HALF_SPACE)
        axis_of(b, 2, n);
    else if (dot(pair->n, pair->n) > 0.0)
        memcpy(n, pair->n, sizeof n);
    else
        difference(a->p, b->p, n);
    normalize(n);
    times(-1.0, n, back);
    support(a, back, on_a);
    if (kind_of(b->shape) == RB_HALF_SPACE)
        memcpy(on_b, b->p, sizeof on_b);
    else
        support(b, n, on_b);
    difference(on_a, on_b, back);
    return dot(n, back) - radius_of(a->shape) - radius_of(b->shape) > gap;
}

/* By how much the gap of a pair may be smaller at the end of the step than now. */
static inline double slack_of(const struct scene *s, const struct pair *pair)
{
    return 1.5e-3 * pair_size(s, pair);
}

/* Whether two shapes move against each other by more than that. */
static inline int moves_apart(const struct scene *s, const struct pair *pair)
{
    const struct body *a = &s->body[RB_SHAPE_BODY[pair->a]], *b = &s->body[RB_SHAPE_BODY[pair->b]];
    const double turning =
        norm(a->w) * RB_SHAPE_REACH[pair->a] + norm(b->w) * RB_SHAPE_REACH[pair->b];
    double way[3];
    difference(a->v, b->v, way);
    return !(RB_SCENE_STEP * (norm(way) + turning) < slack_of(s, pair));
}

/* The contacts of a pair that would overlap at the end of the step by more than now, where what
   touched first did not show it: parts that turn towards each other. They take what velocity makes
   them overlap and no more, so they give none; what has passed through the other within the step,
   as an edge that rolls over it, is moved back. */
static inline void touch_later(const struct given *in, struct scene *s, struct pair *pair,
                               struct solution *all)
{
    const struct body *a = &s->body[RB_SHAPE_BODY[pair->a]], *b = &s->body[RB_SHAPE_BODY[pair->b]];
    const double slack = slack_of(s, pair), half = RB_SHAPE_BODY[pair->b] < RB_BODIES ? 0.5 : 1.0;
    struct patches found;
    double way[3], point[3], w[3];
    pair->left_out[1] = 0;
    if (stay_apart(s, pair, pair->gap - slack))
        return;
    meet(&s->coming[pair->a], &s->coming[pair->b], pair->gap - slack, 0.0, &found);
    times(-half * RB_SCENE_STEP, a->v, way);
    along(way, -half * RB_SCENE_STEP, b->v, way);
    for (int i = 0; i < found.count; i++) {
        const struct manifold *m = &found.one[i];
        for (int k = 0; k < m->count; k++) {
            along(m->point[k], 1.0, way, point);
            pair->left_out[1] += all->count == RB_CONTACTS;
            struct touch *c =
                add_touch(in, s, pair, m->n, point, first_key(pair, 1) + RB_MANIFOLD * i + k, all);
            if (!c)
                continue;
            memset(c->impulse, 0, sizeof c->impulse); /* the velocities have none of it yet */
            slip(s, c, w);
            const double asked = (pair->gap - m->gap[k]) / RB_SCENE_STEP;
            c->least = fmin(0.0, w[0] + asked);
            c->push =
                fmin(fmax(0.0, asked + fmin(0.0, w[0])), 0.1 * pair_size(s, pair) / RB_SCENE_STEP);
        }
    }
}

/* What would overlap at the end of the step, of all pairs. Returns whether there is any. */
static inline int touch_more(const struct given *in, struct scene *s, struct solution *all)
{
    const int count = all->count;
    int moving = 0;
    if (RB_LINKS > 0)
        move_links(s, s->qd);
    for (int k = 0; k < s->pairs && !moving; k++)
        moving = moves_apart(s, &s->pair[k]);
    if (!moving)
        return 0;
    coming_shapes(s);
    for (int k = 0; k < s->pairs; k++)
        if (moves_apart(s, &s->pair[k]))
            touch_later(in, s, &s->pair[k], all);
    return all->count > count;
}

#endif
