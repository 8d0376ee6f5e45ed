/* Bodies with shapes, and the pairs of shapes that may touch.

   The generated text before this has RB_BODIES and their tables RB_MASS, RB_CENTRE (3 each, centre
   of mass), RB_INERTIA (9 each, about it), RB_ISOTROPIC, RB_Q_AT and RB_QD_AT (where each has its
   variables); what trees.h asks for; RB_APART and RB_APARTS, pairs of bodies that do not touch, as
   a RB_BODIES + 1 times the one with the smaller number and the other, in order; RB_SHAPES and
   theirs: RB_SHAPE_TABLE with the rows of shape.h, RB_SHAPE_AT (where each row starts),
   RB_SHAPE_BODY (RB_BODIES for what is at rest), RB_SHAPE_POSE (9 + 3 each, about the centre of
   mass) and RB_SHAPE_REACH (the radius about it); RB_CONTACTS, the most contacts; and RB_PAIRS, the
   most pairs. */

#ifndef RB_SCENE_H
#define RB_SCENE_H

#include "patches.h"

#if !defined(RB_TABLES_H) /* unless they are before this in one text */
#include "tables.h"
#endif

/* A body: centre of mass, rotation, velocities in base coordinates, what a unit of impulse changes,
   and by how much it turns faster over the step than at its start. What is at rest is one more
   body, which nothing moves. */
struct body {
    double x[3], r[9], v[3], w[3], push_v[3], push_w[3], before_v[3], before_w[3];
    double lightness, turning[9], rate[3];
    double slow, fast; /* its speed before the step, and that with the forces of the step */
};

/* A link of a tree: the origin of its frame and its velocity, accelerations of both at rest of the
   joints, the force and the moment that it needs, with all that hangs on it mass, centre of mass
   and inertia about it, and the inertia of its own. */
struct link {
    double o[3], v[3], turning[3], speeding[3], f[3], n[3];
    double arm[3], centre[3]; /* from the origin of its parent to its own, and on to its centre */
    double mass, middle[3], inertia[9], own[9];
};

/* Bounds of a shape along the axes, with what it may move in a step, and the way that its own speed
   would take it. */
struct bounds {
    double low[3], high[3], margin, way;
};

/* Two shapes that may touch, how much they overlap, as a gap, a normal of b between them, zero
   where there are several, and how many of their points found no room, of those that touch now, and
   of those that would at the end of the step. */
struct pair {
    int a, b, left_out[2];
    double gap, n[3];
};

/* The directions in which loops hold, in coordinates of unit inertia, the row that each comes from,
   and the parts of the rows. */
struct loops {
    double way[RB_LOOP_ROWS + 1][RB_DOFS + 1], part[RB_LOOP_ROWS + 1][RB_LOOP_ROWS + 1];
    int row[RB_LOOP_ROWS + 1], taken[RB_LOOP_ROWS + 1], count;
};

/* L of a symmetric matrix L^T L with the branches of the trees, by rows, and the inverse of its
   diagonal. */
struct factor {
    double row[RB_ROWS + 1], inverse[RB_DOFS + 1];
};

struct scene {
    struct body body[RB_BODIES + 1];
    struct placed shape[RB_SHAPES], coming[RB_SHAPES]; /* now, and at the end of the step */
    struct bounds bounds[RB_SHAPES];
    struct pair pair[RB_PAIRS];
    int order[RB_SHAPES], pairs, left_out, first; /* whether it is the first step of all */
    struct link link[RB_LINKS + 1];               /* the last is the base */
    double column[RB_DOFS + 1][6], qd[RB_DOFS + 1];
    struct factor inertia;
    /* L qd, in which the inertia is 1, and what moves trees apart in the same */
    double z[RB_DOFS + 1], push_z[RB_DOFS + 1];
    /* L qd as the step starts, and qd expected for its middle */
    double before_z[RB_DOFS + 1], middle[RB_DOFS + 1];
    struct loops loops;
};

/* The rotation of a unit quaternion, scalar first, from body to base coordinates. */
static inline void rotation_of(const double *q, double *r)
{
    const double w = q[0], x = q[1], y = q[2], z = q[3];
    r[0] = 1.0 - 2.0 * (y * y + z * z);
    r[1] = 2.0 * (x * y - w * z);
    r[2] = 2.0 * (x * z + w * y);
    r[3] = 2.0 * (x * y + w * z);
    r[4] = 1.0 - 2.0 * (x * x + z * z);
    r[5] = 2.0 * (y * z - w * x);
    r[6] = 2.0 * (x * z - w * y);
    r[7] = 2.0 * (y * z + w * x);
    r[8] = 1.0 - 2.0 * (x * x + y * y);
}

/* The tangent of half an angle by the angle, of its square: as a series, exact to 1e-12 below a
   tenth of a radian. */
static inline double half_tangent(double squared)
{
    const double s = 0.25 * squared;
    return 0.5 * (1.0 + s * (1.0 / 3.0 + s * (2.0 / 15.0 + s * 17.0 / 315.0)));
}

/* A quaternion turned by the vector `angle`, in base coordinates. */
static inline void turned_by(const double *q, const double *angle, double *out)
{
    const double c = half_tangent(dot(angle, angle));
    const double x = c * angle[0], y = c * angle[1], z = c * angle[2];
    const double p[4] = {
        q[0] - x * q[1] - y * q[2] - z * q[3], q[1] + x * q[0] + y * q[3] - z * q[2],
        q[2] + y * q[0] + z * q[1] - x * q[3], q[3] + z * q[0] + x * q[2] - y * q[1]};
    const double length = sqrt(p[0] * p[0] + p[1] * p[1] + p[2] * p[2] + p[3] * p[3]);
    for (int i = 0; i < 4; i++)
        out[i] = p[i] / length;
}

/* R M R^T of a symmetric matrix. */
static inline void turned_matrix(const double *r, const double *m, double *out)
{
    double left[9];
    product(r, m, left);
    out[0] = dot(left, r);
    out[1] = out[3] = dot(left, r + 3);
    out[2] = out[6] = dot(left, r + 6);
    out[4] = dot(left + 3, r + 3);
    out[5] = out[7] = dot(left + 3, r + 6);
    out[8] = dot(left + 6, r + 6);
}

/* The inverse of a symmetric positive definite matrix. */
static inline void inverse_of(const double *m, double *out)
{
    cross(m + 3, m + 6, out);
    cross(m + 6, m, out + 3);
    cross(m, m + 3, out + 6);
    const double det = dot(m, out);
    for (int i = 0; i < 9; i++)
        out[i] /= det;
}

/* The angular momentum of a free body about its centre of mass. */
static inline void momentum_of(const struct scene *s, int k, double *out)
{
    turn_back(s->body[k].r, s->body[k].w, out);
    turn(RB_INERTIA[k], out, out);
    turn(s->body[k].r, out, out);
}

/* The mean angular velocity of a body over the step: a turn by it leaves the angular momentum where
   it is, and the energy as it is (Simo and Wong 1991), for it goes with the mean x of the momentum
   as the body sees it before and after,
       x + tan(h w / 2) / w (w x x) = L,  w = I^-1 x. */
static inline void mean_rate(const struct scene *s, int k, double *w)
{
    const struct body *body = &s->body[k];
    double momentum[3], x[3], change = 1.0;
    memcpy(w, body->w, sizeof body->w);
    if (!RB_FREE[k] || RB_ISOTROPIC[k])
        return;
    momentum_of(s, k, momentum);
    memcpy(x, momentum, sizeof x);
    for (int i = 0; i < 20 && change > 1e-16; i++) {
        double next[3], u[3];
        cross(w, x, u);
        along(momentum, -RB_SCENE_STEP * half_tangent(RB_SCENE_STEP * RB_SCENE_STEP * dot(w, w)), u,
              next);
        difference(next, x, u);
        change = norm(u) / (norm(x) + DBL_MIN);
        memcpy(x, next, sizeof x);
        turn(body->turning, x, w);
    }
}

/* The most that a point of a shape moves in a unit of time. */
static inline double speed_of(const struct scene *s, int k)
{
    const struct body *body = &s->body[RB_SHAPE_BODY[k]];
    const double now = norm(body->v) + norm(body->w) * RB_SHAPE_REACH[k];
    const double before = norm(body->before_v) + norm(body->before_w) * RB_SHAPE_REACH[k];
    return more_of(now, before);
}

/* Of the size of a shape: what may hit it comes in many steps. */
static const double RB_LITTLE_WAY = 0.02;

/* By how much the bounds of a shape are wider than itself, for the way that it may come. */
static inline double margin_for(int k, double way)
{
    return way + 1e-4 * RB_SHAPE_TABLE[RB_SHAPE_AT[k] + RB_SHAPE_SIZE];
}

/* The bounds of a shape wider by so much. */
static inline void widen(struct bounds *bounds, double more)
{
    for (int i = 0; i < 3; i++) {
        bounds->low[i] -= more;
        bounds->high[i] += more;
    }
    bounds->margin += more;
}

/* Where the shapes are, and their bounds: with the way that they may come in a step, hit by the
   fastest or not. Returns whether that is far for some, which then have what is little for their
   size. */
static inline int place_shapes(struct scene *s, double h)
{
    double fastest = 0.0;
    int far = 0;
    for (int k = 0; k < RB_SHAPES; k++)
        fastest = more_of(fastest, s->bounds[k].way = h * speed_of(s, k));
    for (int k = 0; k < RB_SHAPES; k++) {
        const struct body *body = &s->body[RB_SHAPE_BODY[k]];
        struct placed *shape = &s->shape[k];
        struct bounds *bounds = &s->bounds[k];
        const double radius = RB_SHAPE_TABLE[RB_SHAPE_AT[k] + RB_SHAPE_RADIUS];
        const double size = RB_SHAPE_TABLE[RB_SHAPE_AT[k] + RB_SHAPE_SIZE];
        shape->shape = RB_SHAPE_TABLE + RB_SHAPE_AT[k];
        product(body->r, RB_SHAPE_POSE[k], shape->r);
        turn(body->r, RB_SHAPE_POSE[k] + 9, shape->p);
        along(body->x, 1.0, shape->p, shape->p);
        bounds->margin = 0.0;
        if (RB_SHAPE_BODY[k] < RB_BODIES) {
            const double way = fmin(0.5 * fastest, RB_LITTLE_WAY * size);
            bounds->margin = margin_for(k, more_of(bounds->way, way));
            far |= 0.5 * fastest > way;
        }
        for (int i = 0; i < 3; i++) {
            if (kind_of(shape->shape) == RB_HALF_SPACE || kind_of(shape->shape) == RB_FIELD) {
                bounds->low[i] = -INFINITY;
                bounds->high[i] = INFINITY;
                continue;
            }
            const double *to = shape->r + 3 * i, back[3] = {-to[0], -to[1], -to[2]};
            double top[3];
            local_support(shape->shape, to, top);
            const double high = dot(to, top);
            double low = -high; /* all shapes but hulls are as far the other way */
            if (kind_of(shape->shape) == RB_HULL) {
                local_support(shape->shape, back, top);
                low = dot(to, top);
            }
            bounds->high[i] = shape->p[i] + high + radius + bounds->margin;
            bounds->low[i] = shape->p[i] + low - radius - bounds->margin;
        }
    }
    return far;
}

/* The axis along which the shapes are spread most. */
static inline int widest_axis(const struct scene *s)
{
    double spread[3] = {0.0, 0.0, 0.0};
    for (int i = 0; i < 3; i++) {
        double sum = 0.0, squares = 0.0;
        for (int k = 0; k < RB_BODIES; k++) {
            sum += s->body[k].x[i];
            squares += s->body[k].x[i] * s->body[k].x[i];
        }
        spread[i] = squares - sum * sum / RB_BODIES;
    }
    return spread[0] >= spread[1] && spread[0] >= spread[2] ? 0 : (spread[1] >= spread[2] ? 1 : 2);
}

/* Sorts `n` numbers of things by the key of each, those with the same key by their numbers. */
static inline void sort_by(int *order, int n, const double *key)
{
    for (int gap = n / 2; gap > 0; gap = gap == 2 ? 1 : gap * 5 / 11) {
        for (int k = gap; k < n; k++) {
            const int one = order[k];
            int at = k;
            while (at >= gap && (key[order[at - gap]] > key[one] ||
                                 (!(key[order[at - gap]] < key[one]) && order[at - gap] > one))) {
                order[at] = order[at - gap];
                at -= gap;
            }
            order[at] = one;
        }
    }
}

/* Whether two bodies may touch. */
static inline int may_touch(int a, int b)
{
    const double key = (double)(a < b ? a : b) * (RB_BODIES + 1) + (a < b ? b : a);
    int low = 0, high = RB_APARTS;
    while (low < high) {
        const int middle = low + (high - low) / 2;
        if (RB_APART[middle] < key)
            low = middle + 1;
        else
            high = middle;
    }
    return a != b && (low == RB_APARTS || RB_APART[low] > key);
}

/* Whether a shape comes no nearer to the plane of a half-space than its reach about its centre of
   mass. */
static inline int is_above(const struct scene *s, int k, int plane)
{
    const struct placed *ground = &s->shape[plane];
    double up[3], way[3];
    if (kind_of(ground->shape) != RB_HALF_SPACE)
        return 0;
    axis_of(ground, 2, up);
    difference(s->body[RB_SHAPE_BODY[k]].x, ground->p, way);
    return dot(up, way) > RB_SHAPE_REACH[k] + s->bounds[k].margin + s->bounds[plane].margin;
}

/* A pair whose bounds meet, unless it may not touch. */
static inline void add_pair(struct scene *s, int one, int other)
{
    const int a = one < other ? one : other, b = one < other ? other : one;
    if (!may_touch(RB_SHAPE_BODY[a], RB_SHAPE_BODY[b]) || is_above(s, a, b) || is_above(s, b, a))
        return;
    if (s->pairs == RB_PAIRS) {
        s->left_out++;
        return;
    }
    s->pair[s->pairs].a = a;
    s->pair[s->pairs++].b = b;
}

/* A shape that the sweep is in: where it ends along its axis, and its bounds along the two
   others. */
struct swept {
    double end, low[2], high[2];
    int shape;
};

static inline struct swept swept_of(const struct scene *s, int k, int axis)
{
    const struct bounds *bounds = &s->bounds[k];
    const int one = axis == 0, other = axis == 2 ? 1 : 2;
    const struct swept found = {bounds->high[axis],
                                {bounds->low[one], bounds->low[other]},
                                {bounds->high[one], bounds->high[other]},
                                k};
    return found;
}

/* Whether the bounds meet along the two other axes: without branches, for it is no more likely than
   not. */
static inline int meet_across(const struct swept *a, const struct swept *b)
{
    return (a->low[0] <= b->high[0]) & (b->low[0] <= a->high[0]) & (a->low[1] <= b->high[1]) &
           (b->low[1] <= a->high[1]);
}

/* Pairs in the order of the numbers of their a or their b, by counting; those with the same stay as
   they are. */
static inline void in_order(const struct pair *from, int n, int by_b, struct pair *to)
{
    int at[RB_SHAPES + 1] = {0};
    for (int k = 0; k < n; k++)
        at[(by_b ? from[k].b : from[k].a) + 1]++;
    for (int k = 0; k < RB_SHAPES; k++)
        at[k + 1] += at[k];
    for (int k = 0; k < n; k++)
        to[at[by_b ? from[k].b : from[k].a]++] = from[k];
}

/* The pairs whose bounds meet, by a sweep along the widest axis, in the order of their numbers. */
static inline void find_pairs(struct scene *s)
{
    const int axis = widest_axis(s);
    double key[RB_SHAPES];
    struct swept active[RB_SHAPES] = {{0.0, {0.0, 0.0}, {0.0, 0.0}, 0}};
    struct pair found[RB_PAIRS];
    int count = 0;
    for (int k = 0; k < RB_SHAPES; k++) {
        s->order[k] = k;
        key[k] = s->bounds[k].low[axis];
    }
    sort_by(s->order, RB_SHAPES, key);
    s->pairs = 0;
    for (int k = 0; k < RB_SHAPES; k++) {
        const struct swept one = swept_of(s, s->order[k], axis);
        const double start = s->bounds[one.shape].low[axis];
        for (int i = 0; i < count;) {
            if (active[i].end < start) { /* what the sweep has left makes room */
                active[i] = active[--count];
                continue;
            }
            if (meet_across(&active[i], &one))
                add_pair(s, active[i].shape, one.shape);
            i++;
        }
        active[count++] = one;
    }
    in_order(s->pair, s->pairs, 1, found);
    in_order(found, s->pairs, 0, s->pair);
}

#endif
