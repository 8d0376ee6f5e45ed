/* Where two shapes touch: up to four points with the gap at each, all along one normal. */

#ifndef RB_MANIFOLD_H
#define RB_MANIFOLD_H

#include "boxes.h"

enum { RB_MANIFOLD = 4, RB_CLIPPED = 2 * RB_FACE };

/* Points on the middle between the shapes, and their gaps, along the unit normal out of B towards
   A. */
struct manifold {
    double n[3], point[RB_CLIPPED][3], gap[RB_CLIPPED];
    int count;
};

static inline void add_point(struct manifold *m, const double *on_a, double gap, double margin)
{
    if (gap > margin || m->count == RB_CLIPPED)
        return;
    along(on_a, -0.5 * gap, m->n, m->point[m->count]);
    m->gap[m->count++] = gap;
}

/* The unit normal of a polygon, in either sense, the one that spans most of its corners. */
static inline int normal_of(double (*x)[3], int n, double *out)
{
    double e[3], f[3], g[3];
    out[0] = out[1] = out[2] = 0.0;
    for (int k = 1; k + 1 < n; k++) {
        difference(x[k], x[0], e);
        difference(x[k + 1], x[0], f);
        cross(e, f, g);
        along(out, 1.0, g, out);
    }
    return n > 2 && normalize(out) > 0.0;
}

/* The part of a polygon or segment on the inner side of the plane g . x = s. */
static inline int clip(double (*x)[3], int n, const double *g, double s, double slack)
{
    double kept[RB_CLIPPED][3];
    int m = 0;
    for (int k = 0; k < n; k++) {
        const double *p = x[k], *q = x[(k + 1) % n];
        const double dp = dot(g, p) - s, dq = dot(g, q) - s;
        if (dp <= slack && m < RB_CLIPPED)
            memcpy(kept[m++], p, sizeof *kept);
        if ((dp > slack) != (dq > slack) && !(n == 2 && k == 1) && m < RB_CLIPPED) {
            double e[3];
            difference(q, p, e);
            along(p, limited(dp / (dp - dq), 0.0, 1.0), e, kept[m++]);
        }
    }
    memcpy(x, kept, (size_t)m * sizeof *kept);
    return m;
}

/* A polygon clipped by planes through the edges of another one, along d. */
static inline int clip_by(double (*x)[3], int n, double (*other)[3], int sides, const double *d,
                          double slack)
{
    double middle[3] = {0.0, 0.0, 0.0};
    for (int k = 0; k < sides; k++)
        along(middle, 1.0 / sides, other[k], middle);
    for (int k = 0; k < sides && n > 1; k++) {
        double e[3], g[3], to[3];
        difference(other[(k + 1) % sides], other[k], e);
        cross(e, d, g);
        if (!(normalize(g) > 0.0))
            continue;
        difference(middle, other[k], to);
        if (dot(g, to) > 0.0)
            times(-1.0, g, g);
        n = clip(x, n, g, dot(g, other[k]), slack);
    }
    return n;
}

/* Two edges side by side: the part of A's that is along B's. */
static inline void edges_together(struct manifold *m, double (*x)[3], double (*y)[3], double radius,
                                  double radii, double margin)
{
    double e[3], f[3], g[3];
    difference(x[1], x[0], e);
    difference(y[1], y[0], f);
    cross(e, f, g);
    const double length = norm(f);
    if (norm(g) > 0.1 * norm(e) * length)
        return;
    times(1.0 / length, f, f);
    int n = clip(x, 2, f, dot(f, y[1]), 0.0);
    times(-1.0, f, g);
    n = n == 2 ? clip(x, n, g, dot(g, y[0]), 0.0) : 0;
    for (int k = 0; k < n; k++) {
        difference(x[k], y[0], e);
        along(e, -dot(e, f), f, e);
        const double gap = dot(e, m->n);
        along(x[k], -radius, m->n, g);
        add_point(m, g, gap - radii, margin);
    }
}

/* What a point counts for: less where its gap is more than `soon` above the least. */
static inline double weight_of(const struct manifold *m, int k, double least, double soon)
{
    return soon / (soon + m->gap[k] - least);
}

static inline int nearest_point(const struct manifold *m, double tiny)
{
    int best = 0;
    for (int k = 1; k < m->count; k++)
        if (m->gap[k] < m->gap[best] - tiny)
            best = k;
    return best;
}

/* Of many points the deepest, the one farthest from it, and those that span most on both sides of
   their line; those that are farther apart than the shapes come in a step, `soon`, count less. Of
   those that are as good but for rounding it is the first. */
static inline void reduce_manifold(struct manifold *m, double soon, double tiny)
{
    static const double more = 1.01;
    int best[RB_MANIFOLD] = {0, 0, 0, 0}, count = 0;
    double most = 0.0, high = tiny * tiny, low = high, e[3], f[3], g[3];
    if (m->count <= RB_MANIFOLD)
        return;
    best[0] = nearest_point(m, 1e-3 * soon);
    const double least = m->gap[best[0]];
    for (int k = 0; k < m->count; k++) {
        const double weight = weight_of(m, k, least, soon);
        difference(m->point[k], m->point[best[0]], e);
        if (weight * weight * dot(e, e) > more * most) {
            most = weight * weight * dot(e, e);
            best[1] = k;
        }
    }
    difference(m->point[best[1]], m->point[best[0]], e);
    best[2] = best[3] = best[0];
    for (int k = 0; k < m->count; k++) {
        difference(m->point[k], m->point[best[0]], f);
        cross(e, f, g);
        const double area = weight_of(m, k, least, soon) * dot(g, m->n);
        if (area > more * high) {
            high = area;
            best[2] = k;
        }
        if (-area > more * low) {
            low = -area;
            best[3] = k;
        }
    }
    for (int k = 0; k < m->count; k++) { /* in their order */
        if (k != best[0] && k != best[1] && k != best[2] && k != best[3])
            continue;
        memmove(m->point[count], m->point[k], sizeof *m->point);
        m->gap[count++] = m->gap[k];
    }
    m->count = count;
}

/* A direction across the normal that goes with a shape: an axis of it, of a round one that about
   which it is round. */
static inline void mark(const struct placed *a, const double *n, double *out)
{
    const int kind = kind_of(a->shape);
    double other[3];
    for (int k = kind == RB_SEGMENT || kind == RB_CYLINDER ? 2 : 0; k < 3; k++) {
        axis_of(a, k, out);
        const double up = dot(out, n);
        along(out, -up, n, out);
        if (fabs(up) < 0.8 && normalize(out) > 0.0)
            return;
    }
    across(n, out, other);
}

/* The points in an order that goes with the first shape, whichever face was clipped by the other
   one and wherever that began: by the angle about their middle, from one that symmetric shapes do
   not have. Impulses of the step before are found by it. */
static inline void order_manifold(const struct placed *a, struct manifold *m)
{
    double middle[3] = {0.0, 0.0, 0.0}, u[3], v[3], x[3], angle[RB_CLIPPED];
    if (m->count < 2)
        return;
    for (int k = 0; k < m->count; k++)
        along(middle, 1.0 / m->count, m->point[k], middle);
    mark(a, m->n, x);
    cross(m->n, x, v);
    times(0.8775825618903728, x, u); /* turned by 0.5 rad */
    along(u, 0.479425538604203, v, u);
    cross(m->n, u, v);
    for (int k = 0; k < m->count; k++) {
        double point[3];
        difference(m->point[k], middle, x);
        const double gap = m->gap[k], turned = turn_about(dot(x, u), dot(x, v));
        int at = k;
        memcpy(point, m->point[k], sizeof point);
        for (; at > 0 && angle[at - 1] > turned; at--) {
            angle[at] = angle[at - 1];
            m->gap[at] = m->gap[at - 1];
            memcpy(m->point[at], m->point[at - 1], sizeof point);
        }
        angle[at] = turned;
        m->gap[at] = gap;
        memcpy(m->point[at], point, sizeof point);
    }
}

/* Two cores that may only touch are pushed into each other a little: the normal of an overlap is
   well defined. */
static inline void pushed_together(const struct placed *a, const struct placed *b,
                                   struct proximity *c)
{
    const double size = fmin(a->shape[RB_SHAPE_SIZE], b->shape[RB_SHAPE_SIZE]), push = 1e-3 * size;
    struct placed moved = *b;
    struct proximity deep = *c;
    double x[3], y[3];
    if (c->gap < -push)
        return;
    along(b->p, c->gap + push, c->n, moved.p);
    of_cores(a, &moved, &deep);
    if (!(deep.gap < 0.0))
        return;
    *c = deep;
    difference(moved.p, b->p, x);
    difference(c->on_b, x, c->on_b);
    times(-1.0, c->n, x);
    support(a, x, x);
    support(b, c->n, y);
    difference(x, y, x);
    c->gap = dot(c->n, x);
}

/* A against the half-space B. */
static inline void on_half_space(const struct placed *a, const struct placed *b, double margin,
                                 struct manifold *m)
{
    double down[3], x[RB_CLIPPED][3];
    axis_of(b, 2, m->n);
    times(-1.0, m->n, down);
    const int n = face(a, down, fmax(margin, 1e-9 * a->shape[RB_SHAPE_SIZE]), x);
    for (int k = 0; k < n; k++) {
        along(x[k], -radius_of(a->shape), m->n, x[k]);
        difference(x[k], b->p, down);
        add_point(m, x[k], dot(m->n, down), margin);
    }
}

/* What one shape turns to the other one, clipped by a face of that: where and how far apart they
   are along the normal. A face need not be across it: where it is not, only some of the points may
   touch soon. Returns 0 where there is no face. */
static inline int on_face(struct manifold *m, double (*x)[3], int n, double (*y)[3], int sides,
                          double tiny, double radii, double radius, int turned, double margin)
{
    double up[3], e[3];
    if (n < 2 || !normal_of(y, sides, up) || fabs(dot(up, m->n)) < 0.3)
        return 0;
    const double across_it = dot(up, m->n), sign = turned ? -1.0 : 1.0;
    n = clip_by(x, n, y, sides, m->n, tiny);
    for (int k = 0; k < n; k++) {
        difference(x[k], y[0], e);
        const double apart = sign * dot(up, e) / across_it, gap = apart - radii;
        along(x[k], turned ? gap + radius : -radius, m->n, e);
        add_point(m, e, gap, margin);
    }
    return n > 0;
}

/* The faces and edges that two shapes turn to each other; nothing where they touch with a point. */
static inline void faces_together(const struct placed *a, const struct placed *b, double margin,
                                  struct manifold *m)
{
    const double tiny = 1e-9 * fmin(a->shape[RB_SHAPE_SIZE], b->shape[RB_SHAPE_SIZE]);
    const double radii = radius_of(a->shape) + radius_of(b->shape);
    double down[3], x[RB_CLIPPED][3], y[RB_CLIPPED][3], up_a[3], up_b[3];
    times(-1.0, m->n, down);
    int i = face(a, down, 0.0, x), j = face(b, m->n, 0.0, y);
    const double flat_a = normal_of(x, i, up_a) ? fabs(dot(up_a, m->n)) : 0.0;
    const double flat_b = normal_of(y, j, up_b) ? fabs(dot(up_b, m->n)) : 0.0;
    if (i == 2 && j == 2) {
        edges_together(m, x, y, radius_of(a->shape), radii, margin);
    } else if (flat_b >= flat_a - 1e-6) {
        if (kind_of(a->shape) == RB_HULL)
            i = face(a, down, fmax(margin, tiny), x);
        on_face(m, x, i, y, j, tiny, radii, radius_of(a->shape), 0, margin);
    } else {
        if (kind_of(b->shape) == RB_HULL)
            j = face(b, m->n, fmax(margin, tiny), y);
        on_face(m, y, j, x, i, tiny, radii, radius_of(b->shape), 1, margin);
    }
}

/* The deepest point, where the faces do not have it. */
static inline void add_deepest(struct manifold *m, const struct proximity *c, double tiny,
                               double margin)
{
    for (int k = 0; k < m->count; k++)
        if (m->gap[k] <= c->gap + tiny)
            return;
    if (m->count == RB_CLIPPED)
        m->count--;
    add_point(m, c->on_a, c->gap, margin);
}

/* The points at which two shapes touch or are closer than `margin`, of which at most one is a
   half-space: up to four, where there are more those rather that are closer than `soon`. */
static inline void collide(const struct placed *a, const struct placed *b, double margin,
                           double soon, struct manifold *m)
{
    struct proximity c = {{0.0, 0.0, 1.0}, 0.0, {0.0, 0.0, 0.0}, {0.0, 0.0, 0.0}};
    const double size = fmin(a->shape[RB_SHAPE_SIZE], b->shape[RB_SHAPE_SIZE]);
    const int boxes = kind_of(a->shape) == RB_BOX && kind_of(b->shape) == RB_BOX;
    m->count = 0;
    if (kind_of(a->shape) == RB_HALF_SPACE) {
        on_half_space(b, a, margin, m);
        times(-1.0, m->n, m->n);
    } else if (kind_of(b->shape) == RB_HALF_SPACE) {
        on_half_space(a, b, margin, m);
    } else {
        int crossed = 1;
        if (boxes) {
            crossed = of_boxes(a, b, &c);
            if (c.gap > margin)
                return;
        } else {
            core_proximity(a, b, &c);
            if (c.gap <= margin && !is_line(a) && !is_line(b))
                pushed_together(a, b, &c);
        }
        add_radii(a, b, &c);
        memcpy(m->n, c.n, sizeof m->n);
        if (c.gap > margin)
            return;
        faces_together(a, b, margin, m);
        if (m->count == 0 && !crossed) { /* boxes that pass each other with an edge or a corner */
            of_cores(a, b, &c);
            memcpy(m->n, c.n, sizeof m->n);
            crossed = 1;
        }
        if (crossed)
            add_deepest(m, &c, 1e-9 * size, margin);
    }
    order_manifold(a, m);
    reduce_manifold(m, soon + 1e-3 * size, 1e-9 * size);
}

#endif
