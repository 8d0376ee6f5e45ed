/* Narrow phase: distance, closest points and normal of two shapes. */

#ifndef RB_NARROW_PHASE_H
#define RB_NARROW_PHASE_H

#include "gjk_epa.h"
#include "shapes.h"

/* ---- refinement of the normal of curved cores ----

   GJK and EPA give an approximate normal; Newton's method refines it to rounding accuracy. The gap
   along n is

     g(n) = n . w,   w = s_A(-n) - s_B(n)   (s: support point)

   The gap g has its maximum at the contact normal, where w is parallel to n. If a core touches with
   an edge or a face, n is perpendicular to it, and Newton's method varies only the remaining
   directions of n. The search tries all edges near n and all pairs of them, and takes the largest
   g. */

enum { RB_POLISH_STEPS = 24 }; /* largest number of iterations; found by trial */
#define RB_POLISH_TURN 0.5     /* [rad] largest rotation in one iteration; found by trial */
#define RB_POLISH_PART 0.01    /* smallest fraction of a Newton rotation; found by trial */
#define RB_POLISH_OFF 1e-12    /* tangential residual relative to the size, from rounding errors */
#define RB_POLISH_LEAST 1e-10  /* relative to the largest curvature: smaller ones count as flat */

/* A normal n, the gap g(n), the tangential residual of w in the free directions, and the support
   points of both cores. */
struct polished {
    double n[3], on_a[3], on_b[3], gap, off;
};

static inline int is_curved(const struct rb_placed_shape *a)
{
    return rb_is_kind(a->shape, RB_ELLIPSOID) || rb_is_kind(a->shape, RB_CYLINDER);
}

/* Compute the derivative of the support point with respect to its direction d, in the shape frame
   (3 x 3, symmetric):

     ellipsoid   ds_i/dd_j = (a_i^2 delta_ij - s_i s_j) / |w|,   w_i = a_i d_i,  s_i = a_i w_i / |w|
     cylinder    ds/dd = radius / |(d_x, d_y)| t t^T,   t = tangent of the rim

   For |(d_x, d_y)| < 1e-6 the support point is on a cap, and the derivative is not used. */
static inline void support_slope(const double *shape, const double *d, double *out)
{
    memset(out, 0, 9 * sizeof *out);
    if (rb_is_kind(shape, RB_ELLIPSOID)) {
        double x[3], w[3];
        for (int i = 0; i < 3; i++) {
            w[i] = shape[1 + i] * d[i];
            x[i] = shape[1 + i] * w[i];
        }
        const double length = rb_norm(w);
        for (int i = 0; i < 3; i++) {
            out[4 * i] = shape[1 + i] * shape[1 + i] / length;
            for (int j = 0; j < 3; j++)
                out[3 * i + j] -= x[i] / length * (x[j] / length) / length;
        }
    }
    const double rim = sqrt(d[0] * d[0] + d[1] * d[1]);
    if (rb_is_kind(shape, RB_CYLINDER) && rim > 1e-6) {
        const double c = d[0] / rim, s = d[1] / rim, most = shape[1] / rim;
        out[0] = most * s * s;
        out[1] = out[3] = -most * s * c;
        out[4] = most * c * c;
    }
}

/* Return the curvature term of both cores: u . (derivative of the support points) v, where v is the
   rotation of n. */
static inline double curvature_term(const struct rb_placed_shape *a,
                                    const struct rb_placed_shape *b, const double *n,
                                    const double *u, const double *v)
{
    double sum = 0.0;
    for (int side = 0; side < 2; side++) {
        const struct rb_placed_shape *one = side ? b : a;
        double d[3], x[3], y[3], slope[9], moved[3];
        rb_rotate_back(one->r, n, d); /* -n gives the same derivative */
        rb_rotate_back(one->r, u, x);
        rb_rotate_back(one->r, v, y);
        support_slope(one->shape, d, slope);
        rb_rotate(slope, y, moved);
        sum += rb_dot(x, moved);
    }
    return sum;
}

/* Compute the free directions of n: all perpendicular directions, or if one edge is kept, the
   direction perpendicular to n and to the edge. */
static inline int free_ways(const double *n, const double *edge, int kept, double (*way)[3])
{
    if (kept == 0) {
        rb_tangent_basis(n, way[0], way[1]);
        return 2;
    }
    rb_cross(n, edge, way[0]);
    return kept == 1 && rb_normalize(way[0]) > 0.0;
}

static inline void gap_in_direction(const struct rb_placed_shape *a,
                                    const struct rb_placed_shape *b, const double (*way)[3],
                                    int ways, struct polished *p)
{
    double back[3], w[3];
    rb_scale(-1.0, p->n, back);
    rb_support(a, back, p->on_a);
    rb_support(b, p->n, p->on_b);
    rb_subtract(p->on_a, p->on_b, w);
    p->gap = rb_dot(p->n, w);
    p->off = 0.0;
    for (int i = 0; i < ways; i++)
        p->off += fabs(rb_dot(way[i], w));
}

/* Compute the Newton rotation of n from the residual and the curvatures m, k, l:

     H = [m k; k l] = V diag(lambda) V^T,   turn = V diag(1 / |lambda|) V^T off

   The absolute values make the rotation increase the gap even far from a maximum. The rotation
   leaves out flat directions, whose eigenvalue is below RB_POLISH_LEAST, for example rotations
   about a common axis. It is at most RB_POLISH_TURN. */
static inline void newton_rotation(double m, double k, double l, const double *off, double *out)
{
    const double half = 0.5 * (m - l), root = sqrt(half * half + k * k), mean = 0.5 * (m + l);
    const double first = fabs(mean + root), second = fabs(mean - root),
                 least = RB_POLISH_LEAST * rb_max(first, second);
    double way[3] = {half >= 0.0 ? half + root : k, half >= 0.0 ? k : root - half, 0.0};
    if (!(root > 0.0))
        way[0] = 1.0;
    rb_normalize(way);
    const double x = way[0] * off[0] + way[1] * off[1], y = way[0] * off[1] - way[1] * off[0];
    const double along_it = first > least ? x / first : 0.0,
                 across_it = second > least ? y / second : 0.0,
                 part = RB_POLISH_TURN /
                        rb_max(RB_POLISH_TURN, sqrt(along_it * along_it + across_it * across_it));
    out[0] = part * (along_it * way[0] - across_it * way[1]);
    out[1] = part * (along_it * way[1] + across_it * way[0]);
}

/* Compute the rotation of p->n in its free directions. */
static inline void next_newton_rotation(const struct rb_placed_shape *a,
                                        const struct rb_placed_shape *b, const struct polished *p,
                                        const double (*way)[3], int ways, double *turned)
{
    double w[3], off[2] = {0.0, 0.0};
    rb_subtract(p->on_a, p->on_b, w);
    for (int i = 0; i < ways; i++)
        off[i] = rb_dot(way[i], w);
    const double m = p->gap + curvature_term(a, b, p->n, way[0], way[0]);
    const double k = ways > 1 ? curvature_term(a, b, p->n, way[0], way[1]) : 0.0;
    const double l = ways > 1 ? p->gap + curvature_term(a, b, p->n, way[1], way[1]) : m;
    newton_rotation(m, k, l, off, turned);
}

/* Run Newton's method from p->n, which stays perpendicular to the `kept` edges. Each iteration
   increases the gap by more than `tiny`, or reduces the residual. If neither happens, it tries a
   quarter of the rotation. */
static inline void newton_normal(const struct rb_placed_shape *a, const struct rb_placed_shape *b,
                                 const double (*edge)[3], int kept, double tiny, struct polished *p)
{
    const double *first = edge[0];
    double way[2][3], turned[2], part = 1.0;
    int ways = free_ways(p->n, first, kept, way);
    gap_in_direction(a, b, (const double (*)[3])way, ways, p);
    for (int step = 0; step < RB_POLISH_STEPS && ways > 0 && p->off > 0.0; step++) {
        struct polished next = *p;
        double other[2][3];
        next_newton_rotation(a, b, p, (const double (*)[3])way, ways, turned);
        for (int i = 0; i < ways; i++)
            rb_axpy(next.n, part * turned[i], way[i], next.n);
        rb_normalize(next.n);
        free_ways(next.n, first, kept, other);
        gap_in_direction(a, b, (const double (*)[3])other, ways, &next);
        const int is_nearer = next.gap >= p->gap - tiny && next.off < p->off;
        if (!is_nearer && !(next.gap > p->gap + tiny)) {
            if (part < RB_POLISH_PART)
                return;
            part *= 0.25;
            continue;
        }
        part = 1.0;
        memcpy(way, other, sizeof way);
        *p = next;
    }
}

/* The best normals found: `best` has no residual and the largest gap, `rough` has the smallest
   residual. Neither has a smaller gap than `least`. */
struct search {
    const double *start;
    double size, least;
    struct polished best, rough;
};

/* Try the normal that is perpendicular to these edges. Two parallel edges are skipped. */
static inline void try_edges(const struct rb_placed_shape *a, const struct rb_placed_shape *b,
                             const double (*edge)[3], int kept, struct search *s)
{
    struct polished p = {.gap = 0.0};
    memcpy(p.n, s->start, sizeof p.n);
    if (!rb_rotate_to_edges(edge, kept, p.n))
        return;
    newton_normal(a, b, edge, kept, 1e-14 * s->size, &p);
    if (p.gap > s->least && p.off < s->rough.off)
        s->rough = p;
    if (p.off <= RB_POLISH_OFF * s->size && p.gap > s->best.gap + 1e-15 * s->size)
        s->best = p;
}

static inline void try_all_edges(const struct rb_placed_shape *a, const struct rb_placed_shape *b,
                                 double most, struct search *s)
{
    double down[3], edge[2 * RB_EDGES][3], of[2][3] = {{0.0, 0.0, 0.0}, {0.0, 0.0, 0.0}};
    rb_scale(-1.0, s->start, down);
    int count = rb_candidate_edges(a, down, most, edge);
    count += rb_candidate_edges(b, s->start, most, edge + count);
    for (int i = 0; i < count; i++)
        try_edges(a, b, (const double (*)[3])edge + i, 1, s);
    for (int i = 0; i < count; i++) {
        for (int j = 0; j < i; j++) {
            memcpy(of[0], edge[i], sizeof *of);
            memcpy(of[1], edge[j], sizeof *of);
            try_edges(a, b, (const double (*)[3])of, 2, s);
        }
    }
}

/* Compute the closest points of both cores. If edges or faces allow several points, the result is
   near the midpoint of the initial `on_a` and `on_b`. */
static inline void touching_points(const struct rb_placed_shape *a, const struct rb_placed_shape *b,
                                   const struct polished *p, double *on_a, double *on_b)
{
    double down[3], e[3] = {0.0, 0.0, 0.0}, f[3] = {0.0, 0.0, 0.0}, g[3], w[3], middle[3], arm[3];
    rb_scale(-1.0, p->n, down);
    const int of_a = rb_perpendicular_edges(a, down, e), of_b = rb_perpendicular_edges(b, p->n, f);
    rb_scale(0.5, on_a, middle);
    rb_axpy(middle, 0.5, on_b, middle);
    rb_cross(f, p->n, g);
    rb_subtract(p->on_a, p->on_b, w);
    rb_subtract(middle, of_b == 1 ? p->on_b : p->on_a, arm);
    if (of_a == 0) {
        memcpy(on_a, p->on_a, sizeof p->on_a);
    } else if (of_b == 0) {
        rb_axpy(p->on_b, p->gap, p->n, on_a);
    } else if (of_a == 1 && of_b == 1 && fabs(rb_dot(e, g)) > RB_PARALLEL) {
        rb_axpy(p->on_a, -rb_dot(w, g) / rb_dot(e, g), e, on_a);
    } else if (of_b == 1) {
        rb_axpy(p->on_b, rb_dot(arm, f), f, on_a);
        rb_axpy(on_a, p->gap, p->n, on_a);
    } else if (of_a == 1) {
        rb_axpy(p->on_a, rb_dot(arm, e), e, on_a);
    } else {
        rb_axpy(middle, -rb_dot(arm, p->n), p->n, on_a);
    }
    rb_axpy(on_a, -p->gap, p->n, on_b);
}

/* Return the norm of the residual: the vector between the points minus the gap along the normal. */
static inline double normal_residual(const double *n, double gap, const double *on_a,
                                     const double *on_b)
{
    double w[3];
    rb_subtract(on_a, on_b, w);
    rb_axpy(w, -gap, n, w);
    return rb_norm(w);
}

/* Return the magnitude of the coordinates of a point, to which its rounding errors are
   proportional. */
static inline double rounding_scale(const struct rb_placed_shape *a, const double *point)
{
    double arm[3];
    rb_subtract(point, a->p, arm);
    return rb_norm(arm) + rb_norm(point);
}

/* Return the gap g(n). `size` receives the magnitude of the coordinates from which the gap is
   computed. */
static inline double gap_and_size(const struct rb_placed_shape *a, const struct rb_placed_shape *b,
                                  const double *n, double *size)
{
    struct polished p = {.gap = 0.0};
    memcpy(p.n, n, sizeof p.n);
    gap_in_direction(a, b, NULL, 0, &p);
    *size = rounding_scale(a, p.on_a) + rounding_scale(b, p.on_b);
    return p.gap;
}

/* Refine the normal, the gap and the points of two cores. They stay unchanged if neither core is
   curved, or if the refinement gives no improvement. */
static inline void refine_normal(const struct rb_placed_shape *a, const struct rb_placed_shape *b,
                                 double *n, double *gap, double *on_a, double *on_b)
{
    static const double none[1][3] = {{0.0, 0.0, 0.0}};
    static const double cosine[2] = {
        1e-3, 0.1}; /* largest cosine between an edge and n: first 1e-3, then 0.1 */
    struct search s = {.start = n};
    if (!is_curved(a) && !is_curved(b))
        return;
    s.least = gap_and_size(a, b, n, &s.size) - 1e-14 * s.size;
    s.best.gap = s.least;
    s.best.off = INFINITY;
    s.rough.gap = -INFINITY;
    s.rough.off = normal_residual(n, *gap, on_a, on_b);
    try_edges(a, b, none, 0, &s);
    for (int k = 0; k < 2 && isinf(s.best.off); k++)
        try_all_edges(a, b, cosine[k], &s);
    const struct polished *found = isinf(s.best.off) ? &s.rough : &s.best;
    if (!(found->gap > s.least))
        return;
    memcpy(n, found->n, sizeof found->n);
    *gap = found->gap;
    touching_points(a, b, found, on_a, on_b);
}

/* ---- signed distance, normal and closest points: closed-form solutions, otherwise GJK and EPA
   ---- */

/* Depth by which touching cores are pushed into each other, relative to their size. */
#define RB_PUSH 1e-8

/* Unit normal from B towards A, signed distance along it (negative for overlap), and the closest
   points. */
struct rb_proximity {
    double n[3], gap, on_a[3], on_b[3];
};

/* Compute the closest points p + s e and q + t f of two segments with half vectors e and f (Ericson
   5.1.9). With r = p - q, they minimize |r + s e - t f|^2 for |s| <= 1 and |t| <= 1:

     s = ((e.f) (f.r) - (e.r) (f.f)) / ((e.e) (f.f) - (e.f)^2),   t = ((e.f) s + f.r) / (f.f)

   If the squared sine of their angle is below 1e-14, the segments are parallel up to rounding
   errors, and s starts at 0. */
static inline void closest_of_segments(const double *p, const double *e, const double *q,
                                       const double *f, double *on_a, double *on_b)
{
    double r[3];
    rb_subtract(p, q, r);
    const double aa = rb_dot(e, e), bb = rb_dot(f, f), ab = rb_dot(e, f), ar = rb_dot(e, r),
                 br = rb_dot(f, r);
    const double det = aa * bb - ab * ab;
    double s = 0.0, t = 0.0;
    if (aa > 0.0 && bb > 0.0) {
        s = det > 1e-14 * aa * bb ? rb_clamp((ab * br - ar * bb) / det, -1.0, 1.0) : 0.0;
        t = (ab * s + br) / bb;
        if (fabs(t) > 1.0) {
            t = rb_clamp(t, -1.0, 1.0);
            s = rb_clamp((ab * t - ar) / aa, -1.0, 1.0);
        }
    } else if (aa > 0.0) {
        s = rb_clamp(-ar / aa, -1.0, 1.0);
    } else if (bb > 0.0) {
        t = rb_clamp(br / bb, -1.0, 1.0);
    }
    rb_axpy(p, s, e, on_a);
    rb_axpy(q, t, f, on_b);
}

/* Set the result from the closest points of two separate cores. Touching cores keep the
   normal n. */
static inline void proximity_of_points(struct rb_proximity *c)
{
    double apart[3];
    rb_subtract(c->on_a, c->on_b, apart);
    c->gap = rb_norm(apart);
    if (c->gap > 1e-14 * (rb_norm(c->on_a) + rb_norm(c->on_b))) { /* else a rounding error */
        memcpy(c->n, apart, sizeof c->n);
        rb_normalize(c->n);
    }
}

static inline void proximity_of_segments(const struct rb_placed_shape *a,
                                         const struct rb_placed_shape *b, struct rb_proximity *c)
{
    double e[3], f[3];
    for (int i = 0; i < 3; i++) {
        e[i] = a->shape[3] * a->r[3 * i + 2];
        f[i] = b->shape[3] * b->r[3 * i + 2];
    }
    rb_cross(e, f, c->n);
    if (!(rb_norm(c->n) > 1e-9 * rb_norm(e) * rb_norm(f))) { /* parallel up to rounding errors */
        const double *axis = rb_dot(e, e) > rb_dot(f, f) ? e : f;
        double one[3] = {axis[0], axis[1], axis[2]};
        if (rb_normalize(one) > 0.0) {
            double other[3];
            rb_tangent_basis(one, c->n, other);
        }
    }
    rb_normalize(c->n);
    closest_of_segments(a->p, e, b->p, f, c->on_a, c->on_b);
    proximity_of_points(c);
}

/* Compute the result for a point against a box or a cylinder. A cylinder is treated as a box with
   the axes rho and z. */
static inline void proximity_of_point(const struct rb_placed_shape *a,
                                      const struct rb_placed_shape *b, struct rb_proximity *c)
{
    const int round_one = rb_is_kind(b->shape, RB_CYLINDER), axes = round_one ? 2 : 3;
    double x[3], rho[3] = {1.0, 0.0, 0.0}, y[3], half[3], n[3] = {0.0, 0.0, 0.0},
                 nearest = -INFINITY;
    int outside = 0, side = 0;
    rb_subtract(a->p, b->p, x);
    rb_rotate_back(b->r, x, x);
    memcpy(y, x, sizeof y);
    memcpy(half, b->shape + 1, sizeof half);
    if (round_one) {
        const double flat[3] = {x[0], x[1], 0.0};
        memcpy(rho, flat, sizeof rho);
        y[0] = rb_normalize(rho);
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
            n[i] = rb_copy_sign(over, y[i]);
        if (over > nearest) {
            nearest = over;
            side = i;
        }
    }
    c->gap = outside ? rb_normalize(n) : nearest;
    if (!outside)
        n[side] = rb_copy_sign(1.0, y[side]);
    if (round_one) {
        const double radial = n[0], axial = n[1];
        rb_scale(radial, rho, n);
        n[2] = axial;
    }
    rb_rotate(b->r, n, c->n);
    memcpy(c->on_a, a->p, sizeof c->on_a);
    rb_axpy(c->on_a, -c->gap, c->n, c->on_b);
}

static inline void swap_shapes(struct rb_proximity *c)
{
    double kept[3];
    memcpy(kept, c->on_a, sizeof kept);
    memcpy(c->on_a, c->on_b, sizeof kept);
    memcpy(c->on_b, kept, sizeof kept);
    rb_scale(-1.0, c->n, c->n);
}

/* Compute the overlap of two cores by EPA from the simplex of GJK. Returns 0 if they only touch. */
static inline int proximity_of_overlap(const struct rb_placed_shape *a,
                                       const struct rb_placed_shape *b, struct rb_simplex *s,
                                       struct rb_proximity *c)
{
    struct rb_overlap o;
    if (!rb_epa(a, b, s, &o))
        return 0;
    memcpy(c->n, o.n, sizeof c->n);
    memcpy(c->on_a, o.on_a, sizeof c->on_a);
    memcpy(c->on_b, o.on_b, sizeof c->on_b);
    c->gap = -o.depth;
    return 1;
}

/* Compute the result for cores that only touch. The vector between their closest points gives no
   normal, but overlapping cores have a well-defined one. The function therefore pushes the cores
   into each other and moves the result back. */
static inline void proximity_of_touching_cores(const struct rb_placed_shape *a,
                                               const struct rb_placed_shape *b, double push,
                                               struct rb_proximity *c)
{
    struct rb_placed_shape moved = *b;
    struct rb_simplex s;
    struct rb_proximity deep = *c;
    double back[3], size;
    rb_axpy(b->p, c->gap + push, c->n, moved.p);
    if (rb_gjk(a, &moved, INFINITY, &s) || !proximity_of_overlap(a, &moved, &s, &deep))
        return;
    refine_normal(a, &moved, deep.n, &deep.gap, deep.on_a, deep.on_b);
    deep.gap = gap_and_size(a, b, deep.n, &size);
    if (deep.gap < gap_and_size(a, b, c->n, &size))
        return;
    rb_subtract(b->p, moved.p, back);
    rb_axpy(deep.on_b, 1.0, back, deep.on_b);
    *c = deep;
}

/* Compute the result for two cores by GJK, or by EPA if they overlap. If they touch without common
   volume, the normal is along the line through their centres. If the distance exceeds `reach`, the
   result is an upper bound of the distance that also exceeds it. */
static inline void rb_proximity_of_cores(const struct rb_placed_shape *a,
                                         const struct rb_placed_shape *b, double reach,
                                         struct rb_proximity *c)
{
    const double push = RB_PUSH * fmin(a->shape[RB_SHAPE_SIZE], b->shape[RB_SHAPE_SIZE]);
    struct rb_simplex s;
    double size;
    const int apart = rb_gjk(a, b, reach, &s);
    rb_subtract(a->p, b->p, c->n);
    rb_normalize(c->n);
    if (apart || s.n < 4)
        rb_witness_points(&s, c->on_a, c->on_b);
    if (apart)
        proximity_of_points(c);
    else if (!proximity_of_overlap(a, b, &s, c))
        c->gap = 0.0;
    if (c->gap > reach)
        return;
    if (fabs(c->gap) <= push && gap_and_size(a, b, c->n, &size) < c->gap - 1e-15 * size)
        proximity_of_touching_cores(a, b, push, c);
    refine_normal(a, b, c->n, &c->gap, c->on_a, c->on_b);
}

/* Compute the result for A against the half-space B. */
static inline void proximity_of_half_space(const struct rb_placed_shape *a,
                                           const struct rb_placed_shape *b, struct rb_proximity *c)
{
    double down[3], x[3];
    for (int i = 0; i < 3; i++)
        c->n[i] = b->r[3 * i + 2];
    rb_scale(-1.0, c->n, down);
    rb_support(a, down, c->on_a);
    rb_subtract(c->on_a, b->p, x);
    c->gap = rb_dot(c->n, x);
    rb_axpy(c->on_a, -c->gap, c->n, c->on_b);
}

/* Return 1 if the core of a body shape is a point or a segment. */
static inline int rb_is_line(const struct rb_placed_shape *a)
{
    enum { LINES = 1 << RB_POINT | 1 << RB_SEGMENT };
    enum { GROUND = 1 << RB_HALF_SPACE | 1 << RB_FIELD | 1 << RB_MESH };
    return !(RB_KINDS_PRESENT & ~(LINES | GROUND)) || rb_is_kind(a->shape, RB_POINT) ||
           rb_is_kind(a->shape, RB_SEGMENT);
}

static inline int is_block(const struct rb_placed_shape *a)
{
    return rb_is_kind(a->shape, RB_BOX) || rb_is_kind(a->shape, RB_CYLINDER);
}

/* Compute the result for two cores. A must not be a half-space. If the distance exceeds `reach`,
   the result may be an upper bound. */
static inline void rb_core_proximity(const struct rb_placed_shape *a,
                                     const struct rb_placed_shape *b, double reach,
                                     struct rb_proximity *c)
{
    if (rb_is_kind(b->shape, RB_HALF_SPACE)) {
        proximity_of_half_space(a, b, c);
    } else if (rb_is_line(a) && rb_is_line(b)) {
        proximity_of_segments(a, b, c);
    } else if (rb_is_kind(a->shape, RB_POINT) && is_block(b)) {
        proximity_of_point(a, b, c);
    } else if (rb_is_kind(b->shape, RB_POINT) && is_block(a)) {
        proximity_of_point(b, a, c);
        swap_shapes(c);
    } else {
        rb_proximity_of_cores(a, b, reach, c);
    }
}

/* Add the radii of the shapes to the result for their cores. */
static inline void rb_add_radii(const struct rb_placed_shape *a, const struct rb_placed_shape *b,
                                struct rb_proximity *c)
{
    rb_axpy(c->on_a, -rb_shape_radius(a->shape), c->n, c->on_a);
    rb_axpy(c->on_b, rb_shape_radius(b->shape), c->n, c->on_b);
    c->gap -= rb_shape_radius(a->shape) + rb_shape_radius(b->shape);
}

/* Compute the signed distance of two shapes, at most one of which is a half-space. */
static inline void rb_proximity(const struct rb_placed_shape *a, const struct rb_placed_shape *b,
                                struct rb_proximity *c)
{
    if (rb_is_kind(a->shape, RB_HALF_SPACE)) {
        rb_core_proximity(b, a, INFINITY, c);
        swap_shapes(c);
    } else {
        rb_core_proximity(a, b, INFINITY, c);
    }
    rb_add_radii(a, b, c);
}

/* ---- boxes: separating axis test of fifteen candidates, faces before edges (Gottschalk, Lin and
   Manocha 1996) ----

   The signed distance of two boxes is the largest gap along 15 axes: the three face normals of each
   box and the nine cross products of their edges.

     gap(n) = |n . (p_a - p_b)| - sum_i half_a,i |n . x_a,i| - sum_i half_b,i |n . x_b,i| */

static inline double half_width(const struct rb_placed_shape *a, const double *n)
{
    double local[3];
    rb_rotate_back(a->r, n, local);
    return a->shape[1] * fabs(local[0]) + a->shape[2] * fabs(local[1]) +
           a->shape[3] * fabs(local[2]);
}

/* Use an axis if the gap along it exceeds the largest gap so far by more than `bias`. Returns 1 if
   it is used. */
static inline int try_axis(const struct rb_placed_shape *a, const struct rb_placed_shape *b,
                           const double *axis, double bias, struct rb_proximity *c)
{
    double apart[3];
    rb_subtract(a->p, b->p, apart);
    const double s = rb_dot(apart, axis), gap = fabs(s) - half_width(a, axis) - half_width(b, axis);
    if (!(gap > c->gap + bias))
        return 0;
    c->gap = gap;
    rb_scale(s < 0.0 ? -1.0 : 1.0, axis, c->n);
    return 1;
}

/* Compute the middle and the half vector of the box edge parallel to axis i and farthest
   along d. */
static inline void support_edge(const struct rb_placed_shape *a, int i, const double *d,
                                double *middle, double *half)
{
    double local[3];
    rb_rotate_back(a->r, d, local);
    rb_local_support(a->shape, local, local);
    local[i] = 0.0;
    rb_rotate(a->r, local, middle);
    rb_axpy(middle, 1.0, a->p, middle);
    rb_shape_axis(a, i, half);
    rb_scale(a->shape[1 + i], half, half);
}

/* Compute the normal and the gap of two boxes. If the closest features are crossing edges, also
   compute the points and return 1. */
static inline int rb_proximity_of_boxes(const struct rb_placed_shape *a,
                                        const struct rb_placed_shape *b, struct rb_proximity *c)
{
    /* more than rounding errors, so that the selected axis does not alternate between steps */
    const double bias = 1e-6 * fmin(a->shape[RB_SHAPE_SIZE], b->shape[RB_SHAPE_SIZE]);
    double axis[3], u[3], v[3], p[3], q[3];
    int edges = -1;
    c->gap = -INFINITY;
    for (int k = 0; k < 6; k++) {
        rb_shape_axis(k < 3 ? a : b, k % 3, axis);
        try_axis(a, b, axis, k == 0 ? 0.0 : bias, c);
    }
    for (int k = 0; k < 9; k++) {
        rb_shape_axis(a, k / 3, u);
        rb_shape_axis(b, k % 3, v);
        rb_cross(u, v, axis);
        if (rb_dot(axis, axis) < 1e-6) /* parallel edges: a face normal covers their direction */
            continue;
        rb_normalize(axis);
        if (try_axis(a, b, axis, bias, c))
            edges = k;
    }
    if (edges < 0)
        return 0;
    rb_scale(-1.0, c->n, axis);
    support_edge(a, edges / 3, axis, p, u);
    support_edge(b, edges % 3, c->n, q, v);
    closest_of_segments(p, u, q, v, c->on_a, c->on_b);
    return 1;
}

#endif
