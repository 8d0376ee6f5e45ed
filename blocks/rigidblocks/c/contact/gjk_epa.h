/* Distance and penetration of two convex shapes: GJK and EPA. */

#ifndef RB_GJK_EPA_H
#define RB_GJK_EPA_H

#include "shapes.h"

/* ---- GJK: distance of two convex cores (Gilbert, Johnson and Keerthi 1988). The closest point of
   a simplex is found by its Voronoi regions (Ericson, Real-Time Collision Detection, 2005, 5.1)
   ---- */

/* Largest numbers of iterations, and of restarts of a simplex that rounding errors have made
   degenerate. They only bound the work. */
enum { RB_GJK_STEPS = 256, RB_GJK_STARTS = 16 };

/* A point of the Minkowski difference A - B, and the corresponding points of A and B. */
struct corner {
    double w[3], a[3], b[3];
};

/* A simplex: up to four corners, the weights of the point closest to the origin, and this point. */
struct rb_simplex {
    struct corner at[4];
    double weight[4], v[3];
    int n;
};

static inline void support_corner(const struct rb_placed_shape *a, const struct rb_placed_shape *b,
                                  const double *d, struct corner *out)
{
    double back[3];
    rb_scale(-1.0, d, back);
    rb_support(a, d, out->a);
    rb_support(b, back, out->b);
    rb_subtract(out->a, out->b, out->w);
}

/* Keep the given corners and their weights. */
static inline void keep_vertices(struct rb_simplex *s, int n, const int *which,
                                 const double *weight)
{
    const struct rb_simplex all = *s;
    for (int k = 0; k < n; k++) {
        s->at[k] = all.at[which[k]];
        s->weight[k] = weight[k];
    }
    s->n = n;
}

/* Compute the weights of the triangle point closest to the origin. Returns the number of corners
   with a nonzero weight. With a = q - p and b = r - p

     d1 = -a.p, d2 = -b.p, d3 = -a.q, d4 = -b.q, d5 = -a.r, d6 = -b.r
     (va, vb, vc) = (d3 d6 - d5 d4, d5 d2 - d1 d6, d1 d4 - d3 d2)

   va, vb and vc are proportional to the barycentric coordinates of p, q and r. A negative one, and
   the signs of d1 to d6, select the edge or corner whose Voronoi region contains the origin. */
static inline int rb_closest_on_triangle(const double *p, const double *q, const double *r,
                                         int *which, double *weight)
{
    double pq[3], pr[3];
    rb_subtract(q, p, pq);
    rb_subtract(r, p, pr);
    const double d1 = -rb_dot(pq, p), d2 = -rb_dot(pr, p), d3 = -rb_dot(pq, q), d4 = -rb_dot(pr, q),
                 d5 = -rb_dot(pq, r), d6 = -rb_dot(pr, r);
    const double vc = d1 * d4 - d3 * d2, vb = d5 * d2 - d1 * d6, va = d3 * d6 - d5 * d4;
    which[0] = 0;
    which[1] = 1;
    which[2] = 2;
    weight[0] = 1.0;
    if (d1 <= 0.0 && d2 <= 0.0)
        return 1;
    if (d3 >= 0.0 && d4 <= d3) {
        which[0] = 1;
        return 1;
    }
    if (d6 >= 0.0 && d5 <= d6) {
        which[0] = 2;
        return 1;
    }
    if (vc <= 0.0 && d1 >= 0.0 && d3 <= 0.0) {
        weight[1] = d1 / (d1 - d3);
    } else if (vb <= 0.0 && d2 >= 0.0 && d6 <= 0.0) {
        which[1] = 2;
        weight[1] = d2 / (d2 - d6);
    } else if (va <= 0.0 && d4 - d3 >= 0.0 && d5 - d6 >= 0.0) {
        which[0] = 1;
        which[1] = 2;
        weight[1] = (d4 - d3) / ((d4 - d3) + (d5 - d6));
    } else {
        weight[1] = vb / (va + vb + vc);
        weight[2] = vc / (va + vb + vc);
        weight[0] = 1.0 - weight[1] - weight[2];
        return 3;
    }
    weight[0] = 1.0 - weight[1];
    return 2;
}

static inline void set_weights(const struct rb_simplex *s, int n, const int *which,
                               const double *weight, double *v)
{
    v[0] = v[1] = v[2] = 0.0;
    for (int k = 0; k < n; k++)
        rb_axpy(v, weight[k], s->at[which[k]].w, v);
}

/* Return 1 if the face i j k of a tetrahedron contains the origin or separates it from the
   corner l: with the normal n of the face, -(x_i . n) and (x_l - x_i) . n have different signs.
   Return 1 for every flat tetrahedron. Its relative height is below 1e-12, so its sign is a
   rounding error. */
static inline int is_outside_face(const struct rb_simplex *s, int i, int j, int k, int l)
{
    double e[3], f[3], g[3], n[3];
    rb_subtract(s->at[j].w, s->at[i].w, e);
    rb_subtract(s->at[k].w, s->at[i].w, f);
    rb_subtract(s->at[l].w, s->at[i].w, g);
    rb_cross(e, f, n);
    const double height = rb_dot(g, n);
    return fabs(height) <= 1e-12 * rb_norm(g) * rb_norm(n) ||
           -rb_dot(s->at[i].w, n) * height <= 0.0;
}

/* Reduce the simplex to the corners that its closest point depends on; four if the origin is
   inside. */
static inline void reduce_simplex(struct rb_simplex *s)
{
    static const int faces[4][4] = {{0, 1, 2, 3}, {0, 2, 3, 1}, {0, 3, 1, 2}, {1, 3, 2, 0}};
    static const double whole = 1.0;
    int which[4] = {0, 1, 2, 3}, best[3] = {0, 0, 0}, count = 0;
    double weight[4], found[3], least = INFINITY, v[3];
    if (s->n == 1)
        keep_vertices(s, 1, which, &whole);
    if (s->n == 2) {
        double e[3];
        rb_subtract(s->at[1].w, s->at[0].w, e);
        const double length = rb_dot(e, e),
                     part =
                         length > 0.0 ? rb_clamp(-rb_dot(s->at[0].w, e) / length, 0.0, 1.0) : 0.0;
        which[0] = part >= 1.0;
        weight[0] = part > 0.0 && part < 1.0 ? 1.0 - part : 1.0;
        weight[1] = part;
        keep_vertices(s, part > 0.0 && part < 1.0 ? 2 : 1, which, weight);
    } else if (s->n == 3) {
        const int n = rb_closest_on_triangle(s->at[0].w, s->at[1].w, s->at[2].w, which, weight);
        keep_vertices(s, n, which, weight);
    } else if (s->n == 4) {
        for (int f = 0; f < 4; f++) {
            const int *at = faces[f];
            if (!is_outside_face(s, at[0], at[1], at[2], at[3]))
                continue;
            const int n = rb_closest_on_triangle(s->at[at[0]].w, s->at[at[1]].w, s->at[at[2]].w,
                                                 which, weight);
            for (int k = 0; k < n; k++)
                which[k] = at[which[k]];
            set_weights(s, n, which, weight, v);
            if (rb_dot(v, v) < least) {
                least = rb_dot(v, v);
                count = n;
                memcpy(best, which, sizeof best);
                memcpy(found, weight, sizeof found);
            }
        }
        if (count > 0)
            keep_vertices(s, count, best, found);
    }
    for (int k = 0; k < 3; k++)
        which[k] = k;
    if (s->n < 4)
        set_weights(s, s->n, which, s->weight, s->v);
}

static inline int is_corner(const struct rb_simplex *s, const double *w)
{
    for (int k = 0; k < s->n; k++)
        if (s->at[k].w[0] == w[0] && s->at[k].w[1] == w[1] && s->at[k].w[2] == w[2])
            return 1;
    return 0;
}

/* Compute the points of A and B that correspond to the simplex point closest to the origin. */
static inline void rb_witness_points(const struct rb_simplex *s, double *on_a, double *on_b)
{
    on_a[0] = on_a[1] = on_a[2] = on_b[0] = on_b[1] = on_b[2] = 0.0;
    for (int k = 0; k < s->n; k++) {
        rb_axpy(on_a, s->weight[k], s->at[k].a, on_a);
        rb_axpy(on_b, s->weight[k], s->at[k].b, on_b);
    }
}

/* Restart from one corner at the closest point if rounding errors have made the simplex
   degenerate. */
static inline void restart_simplex(struct rb_simplex *s)
{
    struct corner one = {.w = {0.0, 0.0, 0.0}};
    rb_witness_points(s, one.a, one.b);
    rb_subtract(one.a, one.b, one.w);
    s->at[0] = one;
    s->n = 1;
    reduce_simplex(s);
}

/* Compute the simplex of A - B closest to the origin. Returns 1 if the cores are separate, 0 if
   they overlap or touch. The search ends early if the distance exceeds `reach`.

   v is the point of the simplex closest to the origin, w the support point of A - B along -v. An
   iteration adds w to the simplex. The distance lies between v . w / |v| and |v|, so v is exact up
   to rounding errors if

     |v|^2 - v . w <= 1e-15 |v|^2

   A squared distance below `tiny` = (1e-14 |w_0|)^2 is a rounding error: the cores touch. The
   constant 1e-200 [m^2] keeps `tiny` positive if w_0 = 0. */
static inline int rb_gjk(const struct rb_placed_shape *a, const struct rb_placed_shape *b,
                         double reach, struct rb_simplex *s)
{
    struct rb_simplex best = {.n = 0};
    double d[3], before = INFINITY;
    int starts = RB_GJK_STARTS;
    memset(s, 0, sizeof *s);
    rb_subtract(b->p, a->p, d);
    rb_normalize(d);
    s->n = 1;
    support_corner(a, b, d, &s->at[0]);
    const double tiny = 1e-28 * fmax(rb_dot(s->at[0].w, s->at[0].w), 1e-200);
    reduce_simplex(s);
    for (int step = 0; step < RB_GJK_STEPS; step++) {
        struct corner next = {.w = {0.0, 0.0, 0.0}};
        const double squared = rb_dot(s->v, s->v);
        if (s->n < 4 && !(squared > tiny))
            return 0;
        if (s->n == 4 || squared >= before) {
            *s = best;
            if (s->n == 1 || starts-- == 0)
                return 1;
            restart_simplex(s);
        }
        before = rb_dot(s->v, s->v);
        best = *s;
        rb_scale(-1.0, s->v, d);
        support_corner(a, b, d, &next);
        const double along = rb_dot(s->v, next.w); /* at most |v| times the distance */
        if (before - along <= 1e-15 * before || is_corner(s, next.w) ||
            (along > 0.0 && along * along > reach * reach * before))
            return 1;
        s->at[s->n++] = next;
        reduce_simplex(s);
        if (s->n == 4 && rb_dot(best.v, next.w) <= 0.0)
            /* otherwise a plane perpendicular to v separates the cores, despite rounding errors */
            return 0;
    }
    *s = best;
    return 1;
}

/* ---- EPA: penetration depth of two convex cores (expanding polytope, van den Bergen 2001) ----

   The polytope is inside A - B and contains the origin. The penetration depth is the smallest
   support value of A - B over all directions:

     min_k d_k <= depth <= h(n_k) = max over A - B of n_k . w   for each facet k: n_k . x = d_k

   Each iteration adds the support point of the facet nearest to the origin. It stops if both bounds
   agree up to rounding errors (1e-12 of the largest corner). */

/* The numbers bound the size of the polytope on the stack. If it is full, the smallest h(n_k) so
   far is the result. */
enum { RB_EPA_CORNERS = 96, RB_EPA_FACES = 2 * RB_EPA_CORNERS, RB_EPA_EDGES = 96 };

/* A face of the polytope: corners counter-clockwise from outside, unit normal, and distance from
   the origin. Degenerate faces are dropped. */
struct facet {
    int at[3];
    double n[3], d;
};

struct polytope {
    struct corner at[RB_EPA_CORNERS];
    struct facet face[RB_EPA_FACES];
    int corners, faces;
};

/* Penetration: unit normal from B towards A, depth, and the deepest points. */
struct rb_overlap {
    double n[3], depth, on_a[3], on_b[3];
};

static inline void add_facet(struct polytope *p, int i, int j, int k)
{
    struct facet *f = &p->face[p->faces++];
    double e[3], g[3], h[3];
    rb_subtract(p->at[j].w, p->at[i].w, e);
    rb_subtract(p->at[k].w, p->at[i].w, g);
    rb_subtract(p->at[k].w, p->at[j].w, h);
    rb_cross(e, g, f->n);
    const double longest = fmax(rb_dot(e, e), fmax(rb_dot(g, g), rb_dot(h, h)));
    f->at[0] = i;
    f->at[1] = j;
    f->at[2] = k;
    if (rb_norm(f->n) <= 1e-13 * longest) { /* the direction would consist of rounding errors */
        f->n[0] = f->n[1] = f->n[2] = 0.0;
        f->d = INFINITY;
        return;
    }
    rb_normalize(f->n);
    f->d = rb_dot(f->n, p->at[i].w);
}

/* Add corners until the simplex is a tetrahedron with nonzero volume. Returns 0 if this fails. The
   trials search along all axes, perpendicular to the first edge, or along both face normals. A
   corner counts if it is farther than 1e-9 of the size from the simplex, so that the normals are
   accurate. */
static inline int fill_tetrahedron(const struct rb_placed_shape *a, const struct rb_placed_shape *b,
                                   struct rb_simplex *s, double size)
{
    for (int trial = 0; trial < 12 && s->n < 4; trial++) {
        double d[3] = {0.0, 0.0, 0.0}, e[3], f[3];
        d[trial / 2 % 3] = trial % 2 ? -1.0 : 1.0;
        if (s->n >= 2) {
            rb_subtract(s->at[1].w, s->at[0].w, e);
            rb_cross(e, d, d);
        }
        if (s->n == 3) {
            rb_subtract(s->at[2].w, s->at[0].w, f);
            rb_cross(e, f, d);
            if (trial % 2)
                rb_scale(-1.0, d, d);
        }
        if (rb_normalize(d) <= 0.0)
            continue;
        support_corner(a, b, d, &s->at[s->n]);
        rb_subtract(s->at[s->n].w, s->at[0].w, f);
        double far = rb_norm(f);
        if (s->n == 2) {
            double n[3];
            rb_cross(e, f, n);
            far = rb_norm(n) / rb_norm(e);
        } else if (s->n == 3) {
            far = fabs(rb_dot(f, d));
        }
        s->n += far > 1e-9 * size;
    }
    return s->n == 4;
}

static inline int start_polytope(const struct rb_simplex *s, struct polytope *p)
{
    static const int faces[4][3] = {{0, 1, 2}, {0, 2, 3}, {0, 3, 1}, {1, 3, 2}};
    double e[3], f[3], g[3], n[3];
    memcpy(p->at, s->at, sizeof s->at);
    rb_subtract(p->at[1].w, p->at[0].w, e);
    rb_subtract(p->at[2].w, p->at[0].w, f);
    rb_subtract(p->at[3].w, p->at[0].w, g);
    rb_cross(e, f, n);
    if (rb_dot(n, g) > 0.0) { /* make the normals point outward */
        const struct corner kept = p->at[1];
        p->at[1] = p->at[2];
        p->at[2] = kept;
    }
    p->corners = 4;
    p->faces = 0;
    for (int k = 0; k < 4; k++)
        add_facet(p, faces[k][0], faces[k][1], faces[k][2]);
    return rb_dot(n, g) != 0.0;
}

static inline int closest_facet(const struct polytope *p)
{
    int best = 0;
    for (int k = 1; k < p->faces; k++)
        if (p->face[k].d < p->face[best].d)
            best = k;
    return best;
}

/* Add an edge to the boundary of the hole; remove an edge that two removed faces share. */
static inline int toggle_edge(int (*edge)[2], int n, int from, int to)
{
    for (int k = 0; k < n; k++) {
        if (edge[k][0] == to && edge[k][1] == from) {
            edge[k][0] = edge[n - 1][0];
            edge[k][1] = edge[n - 1][1];
            return n - 1;
        }
    }
    edge[n][0] = from;
    edge[n][1] = to;
    return n + 1;
}

/* Expand the polytope by one corner. New faces replace the faces that are visible from the corner
   or coplanar with it, so no face is degenerate. Returns 0 if the memory is full. */
static inline int expand_polytope(struct polytope *p, const struct corner *next, double tiny)
{
    int edge[RB_EPA_EDGES][2], edges = 0, kept = 0;
    for (int k = 0; k < p->faces; k++) {
        const struct facet f = p->face[k];
        if (rb_dot(f.n, next->w) - f.d > -tiny && edges + 3 <= RB_EPA_EDGES) {
            for (int i = 0; i < 3; i++)
                edges = toggle_edge(edge, edges, f.at[i], f.at[(i + 1) % 3]);
        } else {
            p->face[kept++] = f;
        }
    }
    p->faces = kept;
    if (edges == 0 || kept + edges > RB_EPA_FACES || p->corners == RB_EPA_CORNERS)
        return 0;
    p->at[p->corners++] = *next;
    for (int k = 0; k < edges; k++)
        add_facet(p, edge[k][0], edge[k][1], p->corners - 1);
    return 1;
}

/* Compute the points of A and B for the facet point closest to the origin. Returns the squared
   distance of this point. */
static inline double facet_points(const struct polytope *p, const struct facet *f,
                                  struct rb_overlap *out)
{
    struct rb_simplex s;
    int which[3];
    double weight[3];
    for (int k = 0; k < 3; k++)
        s.at[k] = p->at[f->at[k]];
    s.n = rb_closest_on_triangle(s.at[0].w, s.at[1].w, s.at[2].w, which, weight);
    keep_vertices(&s, s.n, which, weight);
    set_weights(&s, s.n, which, s.weight, s.v);
    rb_witness_points(&s, out->on_a, out->on_b);
    return rb_dot(s.v, s.v);
}

/* Compute the penetration from the coplanar facet nearest to the origin. Several triangles can form
   one face of A - B; only one of them contains the projection of the origin. */
static inline void penetration_of_polytope(const struct polytope *p, const struct facet *f,
                                           double tiny, struct rb_overlap *out)
{
    double least = facet_points(p, f, out);
    for (int k = 0; k < p->faces; k++) {
        struct rb_overlap other = *out;
        const struct facet *g = &p->face[k];
        if (g->d <= f->d + tiny && rb_dot(g->n, f->n) > 1.0 - 1e-12) {
            const double squared = facet_points(p, g, &other);
            if (squared < least) {
                least = squared;
                *out = other;
            }
        }
    }
    rb_scale(-1.0, f->n, out->n);
    out->depth = f->d;
}

/* Compute the penetration of two cores from a GJK simplex that contains the origin. Returns 0 if
   the overlap has no volume. */
static inline int rb_epa(const struct rb_placed_shape *a, const struct rb_placed_shape *b,
                         struct rb_simplex *s, struct rb_overlap *out)
{
    struct polytope p;
    const double size = fmin(a->shape[RB_SHAPE_SIZE], b->shape[RB_SHAPE_SIZE]);
    if (!fill_tetrahedron(a, b, s, size) || !start_polytope(s, &p))
        return 0;
    struct facet best = p.face[0];
    double far = 0.0, least = INFINITY; /* least: overlap of the shapes along best.n */
    for (int k = 0; k < 4; k++)
        far = fmax(far, rb_norm(p.at[k].w));
    const double tiny = 1e-12 * far;
    for (;;) {
        struct corner next = {.w = {0.0, 0.0, 0.0}};
        const struct facet f = p.face[closest_facet(&p)];
        if (!isfinite(f.d))
            break;
        support_corner(a, b, f.n, &next);
        const double reach = rb_dot(f.n, next.w);
        if (reach < least || (reach <= least + tiny && f.d > best.d)) {
            least = reach;
            best = f;
        }
        if (reach - f.d <= tiny || !expand_polytope(&p, &next, tiny))
            break;
    }
    if (!isfinite(least))
        return 0;
    penetration_of_polytope(&p, &best, tiny, out);
    out->depth = least;
    return 1;
}

#endif
