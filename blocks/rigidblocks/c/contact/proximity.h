/* The signed distance of two shapes, the normal and the closest points: closed forms where they
   exist, GJK and EPA else. */

#ifndef RB_PROXIMITY_H
#define RB_PROXIMITY_H

#include "polish.h"

/* How far cores that touch are pushed into each other, for their size. */
#define RB_PUSH 1e-8

/* The unit normal out of B towards A, the distance along it, negative where the shapes overlap, and
   the points. */
struct proximity {
    double n[3], gap, on_a[3], on_b[3];
};

/* The closest points of two segments, of which a half is `e` and `f` (Ericson 5.1.9). */
static inline void closest_of_segments(const double *p, const double *e, const double *q,
                                       const double *f, double *on_a, double *on_b)
{
    double r[3];
    difference(p, q, r);
    const double aa = dot(e, e), bb = dot(f, f), ab = dot(e, f), ar = dot(e, r), br = dot(f, r);
    const double det = aa * bb - ab * ab;
    double s = 0.0, t = 0.0;
    if (aa > 0.0 && bb > 0.0) {
        s = det > 1e-14 * aa * bb ? limited((ab * br - ar * bb) / det, -1.0, 1.0) : 0.0;
        t = (ab * s + br) / bb;
        if (fabs(t) > 1.0) {
            t = limited(t, -1.0, 1.0);
            s = limited((ab * t - ar) / aa, -1.0, 1.0);
        }
    } else if (aa > 0.0) {
        s = limited(-ar / aa, -1.0, 1.0);
    } else if (bb > 0.0) {
        t = limited(br / bb, -1.0, 1.0);
    }
    along(p, s, e, on_a);
    along(q, t, f, on_b);
}

/* From the closest points of two cores that are apart, or lie on each other along n. */
static inline void between_points(struct proximity *c)
{
    double apart[3];
    difference(c->on_a, c->on_b, apart);
    c->gap = norm(apart);
    if (c->gap > 1e-14 * (norm(c->on_a) + norm(c->on_b))) { /* else it is rounding */
        memcpy(c->n, apart, sizeof c->n);
        normalize(c->n);
    }
}

static inline void of_segments(const struct placed *a, const struct placed *b, struct proximity *c)
{
    double e[3], f[3];
    for (int i = 0; i < 3; i++) {
        e[i] = a->shape[3] * a->r[3 * i + 2];
        f[i] = b->shape[3] * b->r[3 * i + 2];
    }
    cross(e, f, c->n);
    if (!(norm(c->n) > 1e-9 * norm(e) * norm(f))) {
        const double *axis = dot(e, e) > dot(f, f) ? e : f;
        double one[3] = {axis[0], axis[1], axis[2]};
        if (normalize(one) > 0.0) {
            double other[3];
            across(one, c->n, other);
        }
    }
    normalize(c->n);
    closest_of_segments(a->p, e, b->p, f, c->on_a, c->on_b);
    between_points(c);
}

/* A point against a box, or against a cylinder as a box with the axes rho and z. */
static inline void of_point(const struct placed *a, const struct placed *b, struct proximity *c)
{
    const int round_one = kind_of(b->shape) == RB_CYLINDER, axes = round_one ? 2 : 3;
    double x[3], rho[3] = {1.0, 0.0, 0.0}, y[3], half[3], n[3] = {0.0, 0.0, 0.0},
                 nearest = -INFINITY;
    int outside = 0, side = 0;
    difference(a->p, b->p, x);
    turn_back(b->r, x, x);
    memcpy(y, x, sizeof y);
    memcpy(half, b->shape + 1, sizeof half);
    if (round_one) {
        const double flat[3] = {x[0], x[1], 0.0};
        memcpy(rho, flat, sizeof rho);
        y[0] = normalize(rho);
        if (!(y[0] > 0.0)) {
            rho[0] = 1.0;
            rho[2] = 0.0;
        }
        y[1] = x[2];
        half[1] = half[2];
    }
    for (int i = 0; i < axes; i++) {
        const double over = fabs(y[i]) - half[i];
        outside += over > 0.0;
        if (over > 0.0)
            n[i] = with_sign(over, y[i]);
        if (over > nearest) {
            nearest = over;
            side = i;
        }
    }
    c->gap = outside ? normalize(n) : nearest;
    if (!outside)
        n[side] = with_sign(1.0, y[side]);
    if (round_one) {
        const double radial = n[0], axial = n[1];
        times(radial, rho, n);
        n[2] = axial;
    }
    turn(b->r, n, c->n);
    memcpy(c->on_a, a->p, sizeof c->on_a);
    along(c->on_a, -c->gap, c->n, c->on_b);
}

static inline void turn_round(struct proximity *c)
{
    double kept[3];
    memcpy(kept, c->on_a, sizeof kept);
    memcpy(c->on_a, c->on_b, sizeof kept);
    memcpy(c->on_b, kept, sizeof kept);
    times(-1.0, c->n, c->n);
}

/* The overlap of two cores by EPA, from what GJK left. 0 where they only touch. */
static inline int of_overlap(const struct placed *a, const struct placed *b, struct simplex *s,
                             struct proximity *c)
{
    struct overlap o;
    if (!epa(a, b, s, &o))
        return 0;
    memcpy(c->n, o.n, sizeof c->n);
    memcpy(c->on_a, o.on_a, sizeof c->on_a);
    memcpy(c->on_b, o.on_b, sizeof c->on_b);
    c->gap = -o.depth;
    return 1;
}

/* Two cores that only just touch, so that what is between them is no normal: that of an overlap is
   well defined, so they are pushed into each other a little, and what is found of them is taken as
   far back. */
static inline void of_touching(const struct placed *a, const struct placed *b, double push,
                               struct proximity *c)
{
    struct placed moved = *b;
    struct simplex s;
    struct proximity deep = *c;
    double back[3], size;
    along(b->p, c->gap + push, c->n, moved.p);
    if (gjk(a, &moved, &s) || !of_overlap(a, &moved, &s, &deep))
        return;
    polish(a, &moved, deep.n, &deep.gap, deep.on_a, deep.on_b);
    deep.gap = gap_and_size(a, b, deep.n, &size);
    if (deep.gap < gap_and_size(a, b, c->n, &size))
        return;
    difference(b->p, moved.p, back);
    along(deep.on_b, 1.0, back, deep.on_b);
    *c = deep;
}

/* Two cores by GJK, and EPA where they overlap; along the line of their middles where they only
   touch and have no volume together. */
static inline void of_cores(const struct placed *a, const struct placed *b, struct proximity *c)
{
    const double push = RB_PUSH * fmin(a->shape[RB_SHAPE_SIZE], b->shape[RB_SHAPE_SIZE]);
    struct simplex s;
    double size;
    const int apart = gjk(a, b, &s);
    difference(a->p, b->p, c->n);
    normalize(c->n);
    if (apart || s.n < 4)
        witnesses(&s, c->on_a, c->on_b);
    if (apart)
        between_points(c);
    else if (!of_overlap(a, b, &s, c))
        c->gap = 0.0;
    if (fabs(c->gap) <= push && gap_and_size(a, b, c->n, &size) < c->gap - 1e-15 * size)
        of_touching(a, b, push, c);
    polish(a, b, c->n, &c->gap, c->on_a, c->on_b);
}

/* A against the half-space B. */
static inline void of_half_space(const struct placed *a, const struct placed *b,
                                 struct proximity *c)
{
    double down[3], x[3];
    for (int i = 0; i < 3; i++)
        c->n[i] = b->r[3 * i + 2];
    times(-1.0, c->n, down);
    support(a, down, c->on_a);
    difference(c->on_a, b->p, x);
    c->gap = dot(c->n, x);
    along(c->on_a, -c->gap, c->n, c->on_b);
}

static inline int is_line(const struct placed *a)
{
    return kind_of(a->shape) == RB_POINT || kind_of(a->shape) == RB_SEGMENT;
}

static inline int is_block(const struct placed *a)
{
    return kind_of(a->shape) == RB_BOX || kind_of(a->shape) == RB_CYLINDER;
}

static inline void core_proximity(const struct placed *a, const struct placed *b,
                                  struct proximity *c)
{
    if (kind_of(b->shape) == RB_HALF_SPACE) {
        of_half_space(a, b, c);
    } else if (is_line(a) && is_line(b)) {
        of_segments(a, b, c);
    } else if (kind_of(a->shape) == RB_POINT && is_block(b)) {
        of_point(a, b, c);
    } else if (kind_of(b->shape) == RB_POINT && is_block(a)) {
        of_point(b, a, c);
        turn_round(c);
    } else {
        of_cores(a, b, c);
    }
}

/* From the cores to the whole shapes. */
static inline void add_radii(const struct placed *a, const struct placed *b, struct proximity *c)
{
    along(c->on_a, -radius_of(a->shape), c->n, c->on_a);
    along(c->on_b, radius_of(b->shape), c->n, c->on_b);
    c->gap -= radius_of(a->shape) + radius_of(b->shape);
}

/* The signed distance of two shapes, of which at most one is a half-space. */
static inline void proximity(const struct placed *a, const struct placed *b, struct proximity *c)
{
    if (kind_of(a->shape) == RB_HALF_SPACE) {
        core_proximity(b, a, c);
        turn_round(c);
    } else {
        core_proximity(a, b, c);
    }
    add_radii(a, b, c);
}

#endif
