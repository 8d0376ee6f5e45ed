/* The distance of two convex cores by the algorithm of Gilbert, Johnson and Keerthi (1988), with
   the closest point of a simplex by its regions (Ericson, Real-Time Collision Detection, 2005,
   5.1). */

#ifndef RB_GJK_H
#define RB_GJK_H

#include "shape.h"

enum { RB_GJK_STEPS = 256, RB_GJK_STARTS = 16 };

/* A point of the difference A - B, and the points of A and B that it is of. */
struct corner {
    double w[3], a[3], b[3];
};

/* Up to four corners, the weights of the closest point, and the closest point itself. */
struct simplex {
    struct corner at[4];
    double weight[4], v[3];
    int n;
};

static inline void corner_along(const struct placed *a, const struct placed *b, const double *d,
                                struct corner *out)
{
    double back[3];
    times(-1.0, d, back);
    support(a, d, out->a);
    support(b, back, out->b);
    difference(out->a, out->b, out->w);
}

/* Keeps the corners whose numbers are given, with their weights. */
static inline void keep(struct simplex *s, int n, const int *which, const double *weight)
{
    const struct simplex all = *s;
    for (int k = 0; k < n; k++) {
        s->at[k] = all.at[which[k]];
        s->weight[k] = weight[k];
    }
    s->n = n;
}

/* The weights of the point of a triangle that is closest to the origin; returns how many corners it
   is of. */
static inline int closest_of_triangle(const double *p, const double *q, const double *r, int *which,
                                      double *weight)
{
    double pq[3], pr[3];
    difference(q, p, pq);
    difference(r, p, pr);
    const double d1 = -dot(pq, p), d2 = -dot(pr, p), d3 = -dot(pq, q), d4 = -dot(pr, q),
                 d5 = -dot(pq, r), d6 = -dot(pr, r);
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

static inline void weigh(const struct simplex *s, int n, const int *which, const double *weight,
                         double *v)
{
    v[0] = v[1] = v[2] = 0.0;
    for (int k = 0; k < n; k++)
        along(v, weight[k], s->at[which[k]].w, v);
}

/* Whether the origin is beyond the face i j k of a tetrahedron, on the other side than its corner
   l, or in it; of a flat one, always. */
static inline int is_beyond(const struct simplex *s, int i, int j, int k, int l)
{
    double e[3], f[3], g[3], n[3];
    difference(s->at[j].w, s->at[i].w, e);
    difference(s->at[k].w, s->at[i].w, f);
    difference(s->at[l].w, s->at[i].w, g);
    cross(e, f, n);
    const double height = dot(g, n);
    return fabs(height) <= 1e-12 * norm(g) * norm(n) || -dot(s->at[i].w, n) * height <= 0.0;
}

/* Leaves the corners that the closest point needs; four stay where the origin is inside. */
static inline void reduce(struct simplex *s)
{
    static const int faces[4][4] = {{0, 1, 2, 3}, {0, 2, 3, 1}, {0, 3, 1, 2}, {1, 3, 2, 0}};
    static const double whole = 1.0;
    int which[4] = {0, 1, 2, 3}, best[3] = {0, 0, 0}, count = 0;
    double weight[4], found[3], least = INFINITY, v[3];
    if (s->n == 1)
        keep(s, 1, which, &whole);
    if (s->n == 2) {
        double e[3];
        difference(s->at[1].w, s->at[0].w, e);
        const double length = dot(e, e),
                     part = length > 0.0 ? limited(-dot(s->at[0].w, e) / length, 0.0, 1.0) : 0.0;
        which[0] = part >= 1.0;
        weight[0] = part > 0.0 && part < 1.0 ? 1.0 - part : 1.0;
        weight[1] = part;
        keep(s, part > 0.0 && part < 1.0 ? 2 : 1, which, weight);
    } else if (s->n == 3) {
        const int n = closest_of_triangle(s->at[0].w, s->at[1].w, s->at[2].w, which, weight);
        keep(s, n, which, weight);
    } else if (s->n == 4) {
        for (int f = 0; f < 4; f++) {
            const int *at = faces[f];
            if (!is_beyond(s, at[0], at[1], at[2], at[3]))
                continue;
            const int n =
                closest_of_triangle(s->at[at[0]].w, s->at[at[1]].w, s->at[at[2]].w, which, weight);
            for (int k = 0; k < n; k++)
                which[k] = at[which[k]];
            weigh(s, n, which, weight, v);
            if (dot(v, v) < least) {
                least = dot(v, v);
                count = n;
                memcpy(best, which, sizeof best);
                memcpy(found, weight, sizeof found);
            }
        }
        if (count > 0)
            keep(s, count, best, found);
    }
    for (int k = 0; k < 3; k++)
        which[k] = k;
    if (s->n < 4)
        weigh(s, s->n, which, s->weight, s->v);
}

static inline int is_corner(const struct simplex *s, const double *w)
{
    for (int k = 0; k < s->n; k++)
        if (s->at[k].w[0] == w[0] && s->at[k].w[1] == w[1] && s->at[k].w[2] == w[2])
            return 1;
    return 0;
}

/* The points of A and B that the closest point is of. */
static inline void witnesses(const struct simplex *s, double *on_a, double *on_b)
{
    on_a[0] = on_a[1] = on_a[2] = on_b[0] = on_b[1] = on_b[2] = 0.0;
    for (int k = 0; k < s->n; k++) {
        along(on_a, s->weight[k], s->at[k].a, on_a);
        along(on_b, s->weight[k], s->at[k].b, on_b);
    }
}

/* One corner in the place of the closest point: where rounding leaves nothing of a thin simplex,
   the search starts anew. */
static inline void gather(struct simplex *s)
{
    struct corner one = {.w = {0.0, 0.0, 0.0}};
    witnesses(s, one.a, one.b);
    difference(one.a, one.b, one.w);
    s->at[0] = one;
    s->n = 1;
    reduce(s);
}

/* The simplex of A - B that is closest to the origin. Returns 1 where the cores are apart, 0 where
   they overlap or touch. */
static inline int gjk(const struct placed *a, const struct placed *b, struct simplex *s)
{
    struct simplex best = {.n = 0};
    double d[3], before = INFINITY;
    int starts = RB_GJK_STARTS;
    memset(s, 0, sizeof *s);
    difference(b->p, a->p, d);
    normalize(d);
    s->n = 1;
    corner_along(a, b, d, &s->at[0]);
    const double tiny = 1e-28 * fmax(dot(s->at[0].w, s->at[0].w), 1e-200);
    reduce(s);
    for (int step = 0; step < RB_GJK_STEPS; step++) {
        struct corner next = {.w = {0.0, 0.0, 0.0}};
        const double squared = dot(s->v, s->v);
        if (s->n < 4 && !(squared > tiny))
            return 0;
        if (s->n == 4 || squared >= before) {
            *s = best;
            if (s->n == 1 || starts-- == 0)
                return 1;
            gather(s);
        }
        before = dot(s->v, s->v);
        best = *s;
        times(-1.0, s->v, d);
        corner_along(a, b, d, &next);
        if (before - dot(s->v, next.w) <= 1e-15 * before || is_corner(s, next.w))
            return 1;
        s->at[s->n++] = next;
        reduce(s);
        if (s->n == 4 && dot(best.v, next.w) <= 0.0)
            /* else a plane across v parts them, whatever rounding made of the tetrahedron */
            return 0;
    }
    *s = best;
    return 1;
}

#endif
