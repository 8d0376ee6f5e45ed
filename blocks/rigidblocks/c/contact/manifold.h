/* Contact manifold of two shapes: up to four points with their gaps, along one normal. */

#ifndef RB_MANIFOLD_H
#define RB_MANIFOLD_H

#include "narrow_phase.h"

/* RB_MANIFOLD: largest number of points of a manifold. RB_CLIPPED: largest number of vertices of a
   polygon during clipping, which is the sum for two polygons of RB_FACE vertices. */
enum { RB_MANIFOLD = 4, RB_CLIPPED = 2 * RB_FACE };

#define RB_EDGE_SINE 0.1   /* edges with a smaller sine touch along a line; found by trial */
#define RB_FACE_COSINE 0.3 /* steeper faces are not used to clip the other shape; found by trial */
#define RB_TIE 1.01        /* factor by which a later candidate must be better; found by trial */
#define RB_AXIS_COSINE 0.8 /* axes closer to the normal define no accurate perpendicular */
#define RB_CORE_PUSH 1e-3  /* depth of pushed cores relative to the size; found by trial */

/* Points midway between the surfaces of the two shapes, and their gaps along the unit normal from B
   towards A. */
struct rb_manifold {
    double n[3], point[RB_CLIPPED][3], gap[RB_CLIPPED];
    int count;
};

static inline void add_point(struct rb_manifold *m, const double *on_a, double gap, double margin)
{
    if (gap > margin || m->count == RB_CLIPPED)
        return;
    rb_axpy(on_a, -0.5 * gap, m->n, m->point[m->count]);
    m->gap[m->count++] = gap;
}

/* Compute the unit normal of a polygon, with either sign, from its area vector. */
static inline int polygon_normal(double (*x)[3], int n, double *out)
{
    double e[3], f[3], g[3];
    out[0] = out[1] = out[2] = 0.0;
    for (int k = 1; k + 1 < n; k++) {
        rb_subtract(x[k], x[0], e);
        rb_subtract(x[k + 1], x[0], f);
        rb_cross(e, f, g);
        rb_axpy(out, 1.0, g, out);
    }
    return n > 2 && rb_normalize(out) > 0.0;
}

/* Clip a polygon or segment by the half-space g . x <= s + slack (Sutherland and Hodgman 1974). An
   edge from p to q crosses the plane at p + d_p / (d_p - d_q) (q - p), with d = g . x - s. */
static inline int rb_clip_polygon(double (*x)[3], int n, const double *g, double s, double slack)
{
    double kept[RB_CLIPPED][3];
    int m = 0;
    for (int k = 0; k < n; k++) {
        const double *p = x[k], *q = x[(k + 1) % n];
        const double dp = rb_dot(g, p) - s, dq = rb_dot(g, q) - s;
        if (dp <= slack && m < RB_CLIPPED)
            memcpy(kept[m++], p, sizeof *kept);
        if ((dp > slack) != (dq > slack) && !(n == 2 && k == 1) && m < RB_CLIPPED) {
            double e[3];
            rb_subtract(q, p, e);
            rb_axpy(p, rb_clamp(dp / (dp - dq), 0.0, 1.0), e, kept[m++]);
        }
    }
    memcpy(x, kept, (size_t)m * sizeof *kept);
    return m;
}

/* Clip a polygon by planes that contain the edges of another polygon and the direction d. */
static inline int clip_by_polygon(double (*x)[3], int n, double (*other)[3], int sides,
                                  const double *d, double slack)
{
    double middle[3] = {0.0, 0.0, 0.0};
    for (int k = 0; k < sides; k++)
        rb_axpy(middle, 1.0 / sides, other[k], middle);
    for (int k = 0; k < sides && n > 1; k++) {
        double e[3], g[3], to[3];
        rb_subtract(other[(k + 1) % sides], other[k], e);
        rb_cross(e, d, g);
        if (!(rb_normalize(g) > 0.0))
            continue;
        rb_subtract(middle, other[k], to);
        if (rb_dot(g, to) > 0.0)
            rb_scale(-1.0, g, g);
        n = rb_clip_polygon(x, n, g, rb_dot(g, other[k]), slack);
    }
    return n;
}

/* Clip the edge of A by the end points of a parallel edge of B. */
static inline void clip_parallel_edges(struct rb_manifold *m, double (*x)[3], double (*y)[3],
                                       double radius, double radii, double margin)
{
    double e[3], f[3], g[3];
    rb_subtract(x[1], x[0], e);
    rb_subtract(y[1], y[0], f);
    rb_cross(e, f, g);
    const double length = rb_norm(f);
    if (rb_norm(g) > RB_EDGE_SINE * rb_norm(e) * length)
        return;
    rb_scale(1.0 / length, f, f);
    int n = rb_clip_polygon(x, 2, f, rb_dot(f, y[1]), 0.0);
    rb_scale(-1.0, f, g);
    n = n == 2 ? rb_clip_polygon(x, n, g, rb_dot(g, y[0]), 0.0) : 0;
    for (int k = 0; k < n; k++) {
        rb_subtract(x[k], y[0], e);
        rb_axpy(e, -rb_dot(e, f), f, e);
        const double gap = rb_dot(e, m->n);
        rb_axpy(x[k], -radius, m->n, g);
        add_point(m, g, gap - radii, margin);
    }
}

/* Return the weight soon / (soon + gap - least) of a point, in (0, 1]. It decreases if the gap
   exceeds the smallest gap by about `soon` or more. */
static inline double point_weight(const struct rb_manifold *m, int k, double least, double soon)
{
    return soon / (soon + m->gap[k] - least);
}

static inline int nearest_point(const struct rb_manifold *m, double tiny)
{
    int best = 0;
    for (int k = 1; k < m->count; k++)
        if (m->gap[k] < m->gap[best] - tiny)
            best = k;
    return best;
}

/* Reduce the points to at most four. The first two are the deepest point and the point farthest
   from it. The others are the points with the largest triangle area on each side of the line
   through the first two. Points whose gap is larger than the motion in a step (`soon`) have a
   smaller weight. If two points are equal up to rounding errors, the function selects the first
   one. */
static inline void rb_reduce_manifold(struct rb_manifold *m, double soon, double tiny)
{
    int best[RB_MANIFOLD] = {0, 0, 0, 0}, count = 0;
    double most = 0.0, high = tiny * tiny, low = high, e[3], f[3], g[3];
    if (m->count <= RB_MANIFOLD)
        return;
    best[0] = nearest_point(m, 1e-3 * soon);
    const double least = m->gap[best[0]];
    for (int k = 0; k < m->count; k++) {
        const double weight = point_weight(m, k, least, soon);
        rb_subtract(m->point[k], m->point[best[0]], e);
        if (weight * weight * rb_dot(e, e) > RB_TIE * most) {
            most = weight * weight * rb_dot(e, e);
            best[1] = k;
        }
    }
    rb_subtract(m->point[best[1]], m->point[best[0]], e);
    best[2] = best[3] = best[0];
    for (int k = 0; k < m->count; k++) {
        rb_subtract(m->point[k], m->point[best[0]], f);
        rb_cross(e, f, g);
        const double area = point_weight(m, k, least, soon) * rb_dot(g, m->n);
        if (area > RB_TIE * high) {
            high = area;
            best[2] = k;
        }
        if (-area > RB_TIE * low) {
            low = -area;
            best[3] = k;
        }
    }
    for (int k = 0; k < m->count; k++) {
        if (k != best[0] && k != best[1] && k != best[2] && k != best[3])
            continue;
        memmove(m->point[count], m->point[k], sizeof *m->point);
        m->gap[count++] = m->gap[k];
    }
    m->count = count;
}

/* Compute a direction perpendicular to the normal that is fixed to a shape. It comes from an axis
   of the shape frame; for a round shape, from the axis of revolution. */
static inline void reference_direction(const struct rb_placed_shape *a, const double *n,
                                       double *out)
{
    const int kind = rb_shape_kind(a->shape);
    double other[3];
    for (int k = kind == RB_SEGMENT || kind == RB_CYLINDER ? 2 : 0; k < 3; k++) {
        rb_shape_axis(a, k, out);
        const double up = rb_dot(out, n);
        rb_axpy(out, -up, n, out);
        if (fabs(up) < RB_AXIS_COSINE && rb_normalize(out) > 0.0)
            return;
    }
    rb_tangent_basis(n, out, other);
}

/* Order the points by the angle about their centre, in a frame that is fixed to the first shape.
   The order does not depend on which face was clipped. The warm start identifies contacts by this
   order. The angle starts at a direction that is no symmetry axis of the shape. */
static inline void rb_order_manifold(const struct rb_placed_shape *a, struct rb_manifold *m)
{
    double middle[3] = {0.0, 0.0, 0.0}, u[3], v[3], x[3], angle[RB_CLIPPED];
    if (m->count < 2)
        return;
    for (int k = 0; k < m->count; k++)
        rb_axpy(middle, 1.0 / m->count, m->point[k], middle);
    reference_direction(a, m->n, x);
    rb_cross(m->n, x, v);
    rb_scale(0.8775825618903728, x, u);  /* cos 0.5 */
    rb_axpy(u, 0.479425538604203, v, u); /* sin 0.5 */
    rb_cross(m->n, u, v);
    for (int k = 0; k < m->count; k++) {
        double point[3];
        rb_subtract(m->point[k], middle, x);
        const double gap = m->gap[k], turned = rb_pseudo_angle(rb_dot(x, u), rb_dot(x, v));
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

/* Push two touching cores into each other along their normal, because the normal of overlapping
   cores is well defined. The gap is then evaluated at the original poses: gap = n . (s_A(-n) -
   s_B(n)). */
static inline void rb_push_cores(const struct rb_placed_shape *a, const struct rb_placed_shape *b,
                                 struct rb_proximity *c)
{
    const double size = fmin(a->shape[RB_SHAPE_SIZE], b->shape[RB_SHAPE_SIZE]),
                 push = RB_CORE_PUSH * size;
    struct rb_placed_shape moved = *b;
    struct rb_proximity deep = *c;
    double x[3], y[3];
    if (c->gap < -push)
        return;
    rb_axpy(b->p, c->gap + push, c->n, moved.p);
    rb_proximity_of_cores(a, &moved, INFINITY, &deep);
    if (!(deep.gap < 0.0))
        return;
    *c = deep;
    rb_subtract(moved.p, b->p, x);
    rb_subtract(c->on_b, x, c->on_b);
    rb_scale(-1.0, c->n, x);
    rb_support(a, x, x);
    rb_support(b, c->n, y);
    rb_subtract(x, y, x);
    c->gap = rb_dot(c->n, x);
}

/* Compute the contacts of A with the half-space B. */
static inline void half_space_contacts(const struct rb_placed_shape *a,
                                       const struct rb_placed_shape *b, double margin,
                                       struct rb_manifold *m)
{
    double down[3], x[RB_CLIPPED][3];
    rb_shape_axis(b, 2, m->n);
    rb_scale(-1.0, m->n, down);
    const int n =
        rb_support_face(a, down, fmax(margin, RB_COINCIDENT * a->shape[RB_SHAPE_SIZE]), x);
    for (int k = 0; k < n; k++) {
        rb_axpy(x[k], -rb_shape_radius(a->shape), m->n, x[k]);
        rb_subtract(x[k], b->p, down);
        add_point(m, x[k], rb_dot(m->n, down), margin);
    }
}

/* Clip the support feature of one shape by a face of the other, and compute points and gaps along
   the normal. If the face is not perpendicular to the normal, the gaps differ and only some points
   may touch:

     gap = +- up . (x - y_0) / (up . n) - radii   with the unit normal `up` of the face

   Returns 0 if the shape has no face along the normal, or if no point remains. */
static inline int face_contacts(struct rb_manifold *m, double (*x)[3], int n, double (*y)[3],
                                int sides, double tiny, double radii, double radius, int turned,
                                double margin)
{
    double up[3], e[3];
    if (n < 2 || !polygon_normal(y, sides, up) || fabs(rb_dot(up, m->n)) < RB_FACE_COSINE)
        return 0;
    const double across_it = rb_dot(up, m->n), sign = turned ? -1.0 : 1.0;
    n = clip_by_polygon(x, n, y, sides, m->n, tiny);
    for (int k = 0; k < n; k++) {
        rb_subtract(x[k], y[0], e);
        const double apart = sign * rb_dot(up, e) / across_it, gap = apart - radii;
        rb_axpy(x[k], turned ? gap + radius : -radius, m->n, e);
        add_point(m, e, gap, margin);
    }
    return n > 0;
}

/* Compute the contacts of the support features of two shapes. Shapes that touch in one point give
   no contacts. */
static inline void rb_face_contacts(const struct rb_placed_shape *a,
                                    const struct rb_placed_shape *b, double margin,
                                    struct rb_manifold *m)
{
    const double tiny = RB_COINCIDENT * fmin(a->shape[RB_SHAPE_SIZE], b->shape[RB_SHAPE_SIZE]);
    const double radii = rb_shape_radius(a->shape) + rb_shape_radius(b->shape);
    double down[3], x[RB_CLIPPED][3], y[RB_CLIPPED][3], up_a[3], up_b[3];
    rb_scale(-1.0, m->n, down);
    int i = rb_support_face(a, down, 0.0, x), j = rb_support_face(b, m->n, 0.0, y);
    const double flat_a = polygon_normal(x, i, up_a) ? fabs(rb_dot(up_a, m->n)) : 0.0;
    const double flat_b = polygon_normal(y, j, up_b) ? fabs(rb_dot(up_b, m->n)) : 0.0;
    if (i == 2 && j == 2) {
        clip_parallel_edges(m, x, y, rb_shape_radius(a->shape), radii, margin);
    } else if (flat_b >= flat_a - 1e-6) { /* prefer the face of B despite rounding errors */
        if (rb_is_kind(a->shape, RB_HULL))
            i = rb_support_face(a, down, fmax(margin, tiny), x);
        face_contacts(m, x, i, y, j, tiny, radii, rb_shape_radius(a->shape), 0, margin);
    } else {
        if (rb_is_kind(b->shape, RB_HULL))
            j = rb_support_face(b, m->n, fmax(margin, tiny), y);
        face_contacts(m, y, j, x, i, tiny, radii, rb_shape_radius(b->shape), 1, margin);
    }
}

/* Add the deepest point if the manifold does not contain it yet. */
static inline void rb_add_deepest(struct rb_manifold *m, const struct rb_proximity *c, double tiny,
                                  double margin)
{
    for (int k = 0; k < m->count; k++)
        if (m->gap[k] <= c->gap + tiny)
            return;
    if (m->count == RB_CLIPPED)
        m->count--;
    add_point(m, c->on_a, c->gap, margin);
}

/* Compute up to four points at which two shapes touch or are closer than `margin`. At most one of
   the shapes is a half-space. Points with gaps below `soon` have priority. */
static inline void rb_collide(const struct rb_placed_shape *a, const struct rb_placed_shape *b,
                              double margin, double soon, struct rb_manifold *m)
{
    struct rb_proximity c = {{0.0, 0.0, 1.0}, 0.0, {0.0, 0.0, 0.0}, {0.0, 0.0, 0.0}};
    const double size = fmin(a->shape[RB_SHAPE_SIZE], b->shape[RB_SHAPE_SIZE]);
    const int boxes = rb_is_kind(a->shape, RB_BOX) && rb_is_kind(b->shape, RB_BOX);
    m->count = 0;
    if (rb_is_kind(a->shape, RB_HALF_SPACE)) {
        half_space_contacts(b, a, margin, m);
        rb_scale(-1.0, m->n, m->n);
    } else if (rb_is_kind(b->shape, RB_HALF_SPACE)) {
        half_space_contacts(a, b, margin, m);
    } else {
        int crossed = 1;
        if (boxes) {
            crossed = rb_proximity_of_boxes(a, b, &c);
            if (c.gap > margin)
                return;
        } else {
            rb_core_proximity(a, b, margin + rb_shape_radius(a->shape) + rb_shape_radius(b->shape),
                              &c);
            if (c.gap <= margin && !rb_is_line(a) && !rb_is_line(b))
                rb_push_cores(a, b, &c);
        }
        rb_add_radii(a, b, &c);
        memcpy(m->n, c.n, sizeof m->n);
        if (c.gap > margin)
            return;
        rb_face_contacts(a, b, margin, m);
        if (m->count == 0 && !crossed) { /* boxes whose faces miss each other near an edge */
            rb_proximity_of_cores(a, b, INFINITY, &c);
            memcpy(m->n, c.n, sizeof m->n);
            crossed = 1;
        }
        if (crossed)
            rb_add_deepest(m, &c, RB_COINCIDENT * size, margin);
    }
    rb_order_manifold(a, m);
    rb_reduce_manifold(m, soon + 1e-3 * size, RB_COINCIDENT * size);
}

#endif
