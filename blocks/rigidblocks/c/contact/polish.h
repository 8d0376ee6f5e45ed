/* The normal of two cores of which one is curved, to rounding: GJK and EPA come close, Newton's
   method does the rest.

   The gap along n is g(n) = n . w, w = s_A(-n) - s_B(n) being the difference of what is farthest;
   it is largest along the normal, where w is along n. A core that touches with an edge or a face
   has n across that, and only what is left of n is sought. */

#ifndef RB_POLISH_H
#define RB_POLISH_H

#include "epa.h"

enum { RB_POLISH_STEPS = 8 };

/* A normal, how far w is from it across all but the directions that are kept, and the points of
   both cores. */
struct polished {
    double n[3], on_a[3], on_b[3], gap, off;
};

/* How the farthest point moves with its direction d, in the frame of the shape (3 x 3,
   symmetric). */
static inline void support_slope(const double *shape, const double *d, double *out)
{
    memset(out, 0, 9 * sizeof *out);
    if (kind_of(shape) == RB_ELLIPSOID) {
        double x[3], w[3];
        for (int i = 0; i < 3; i++) {
            w[i] = shape[1 + i] * d[i];
            x[i] = shape[1 + i] * w[i];
        }
        const double length = norm(w);
        for (int i = 0; i < 3; i++) {
            out[4 * i] = shape[1 + i] * shape[1 + i] / length;
            for (int j = 0; j < 3; j++)
                out[3 * i + j] -= x[i] / length * (x[j] / length) / length;
        }
    }
    const double rim = sqrt(d[0] * d[0] + d[1] * d[1]);
    if (kind_of(shape) == RB_CYLINDER && rim > 1e-6) {
        const double c = d[0] / rim, s = d[1] / rim, most = shape[1] / rim;
        out[0] = most * s * s;
        out[1] = out[3] = -most * s * c;
        out[4] = most * c * c;
    }
}

/* What both curvatures say of the turn of n by v, along u. */
static inline double curved(const struct placed *a, const struct placed *b, const double *n,
                            const double *u, const double *v)
{
    double sum = 0.0;
    for (int side = 0; side < 2; side++) {
        const struct placed *one = side ? b : a;
        double d[3], x[3], y[3], slope[9], moved[3];
        turn_back(one->r, n, d); /* of -n it is the same */
        turn_back(one->r, u, x);
        turn_back(one->r, v, y);
        support_slope(one->shape, d, slope);
        turn(slope, y, moved);
        sum += dot(x, moved);
    }
    return sum;
}

/* The directions across n in which it may turn: all, or with `edge` that across it as well. */
static inline int free_ways(const double *n, const double *edge, int kept, double (*way)[3])
{
    if (kept == 0) {
        across(n, way[0], way[1]);
        return 2;
    }
    cross(n, edge, way[0]);
    return kept == 1 && normalize(way[0]) > 0.0;
}

static inline void gap_along(const struct placed *a, const struct placed *b, const double (*way)[3],
                             int ways, struct polished *p)
{
    double back[3], w[3];
    times(-1.0, p->n, back);
    support(a, back, p->on_a);
    support(b, p->n, p->on_b);
    difference(p->on_a, p->on_b, w);
    p->gap = dot(p->n, w);
    p->off = 0.0;
    for (int i = 0; i < ways; i++)
        p->off += fabs(dot(way[i], w));
}

/* Newton's method from p->n, across the `kept` directions of edges. */
static inline void newton(const struct placed *a, const struct placed *b, const double (*edge)[3],
                          int kept, struct polished *p)
{
    double way[2][3];
    int ways = free_ways(p->n, edge[0], kept, way);
    gap_along(a, b, (const double (*)[3])way, ways, p);
    for (int step = 0; step < RB_POLISH_STEPS && ways > 0 && p->off > 0.0; step++) {
        struct polished next = *p;
        double w[3], turned[2] = {0.0, 0.0};
        difference(p->on_a, p->on_b, w);
        const double x = dot(way[0], w), y = ways > 1 ? dot(way[1], w) : 0.0;
        const double m = p->gap + curved(a, b, p->n, way[0], way[0]);
        const double k = ways > 1 ? curved(a, b, p->n, way[0], way[1]) : 0.0;
        const double l = ways > 1 ? p->gap + curved(a, b, p->n, way[1], way[1]) : 1.0;
        const double det = m * l - k * k;
        if (!(m > 0.0) || !(det > 0.0))
            return;
        turned[0] = (l * x - k * y) / det;
        turned[1] = (m * y - k * x) / det;
        for (int i = 0; i < ways; i++)
            along(next.n, turned[i], way[i], next.n);
        normalize(next.n);
        ways = free_ways(next.n, edge[0], kept, way);
        gap_along(a, b, (const double (*)[3])way, ways, &next);
        if (!(next.off < p->off))
            return;
        *p = next;
    }
}

/* The edges that a core may touch with along n, as directions that n is nearly across; returns how
   many there are in all. */
static inline int edges_across(const struct placed *a, const double *n, double (*edge)[3],
                               int count)
{
    const int kind = kind_of(a->shape), round_one = kind == RB_CYLINDER;
    double local[3];
    turn_back(a->r, n, local);
    for (int i = kind == RB_BOX ? 0 : 2; i < 3; i++)
        if ((kind == RB_BOX || kind == RB_SEGMENT || round_one) && fabs(local[i]) < 1e-3 &&
            count < 2)
            axis_of(a, i, edge[count++]);
    for (int i = 0; i < 2; i++)
        if (round_one && local[0] * local[0] + local[1] * local[1] < 1e-6 && count < 2)
            axis_of(a, i, edge[count++]);
    return count;
}

/* n across one edge, or along the normal of a face with two. */
static inline void turn_across(const double (*edge)[3], int kept, double *n)
{
    double up[3];
    if (kept == 1) {
        along(n, -dot(n, edge[0]), edge[0], n);
    } else if (kept == 2) {
        cross(edge[0], edge[1], up);
        times(dot(up, n) < 0.0 ? -1.0 : 1.0, up, n);
    }
    normalize(n);
}

/* Whether p is a normal, and no worse than a gap. */
static inline int is_normal(const struct polished *p, double gap, double size)
{
    return p->off <= 1e-12 * size && p->gap >= gap - 1e-14 * size;
}

/* The normal, the gap and the points of two cores from near ones; nothing where both have corners
   alone. */
static inline void polish(const struct placed *a, const struct placed *b, double *n, double *gap,
                          double *on_a, double *on_b)
{
    const double size = fmax(a->shape[RB_SHAPE_SIZE], b->shape[RB_SHAPE_SIZE]);
    const int smooth_a = kind_of(a->shape) == RB_ELLIPSOID,
              smooth_b = kind_of(b->shape) == RB_ELLIPSOID;
    struct polished p = {.gap = 0.0}, near;
    double edge[2][3] = {{0.0, 0.0, 0.0}, {0.0, 0.0, 0.0}};
    if (!smooth_a && !smooth_b && kind_of(a->shape) != RB_CYLINDER &&
        kind_of(b->shape) != RB_CYLINDER)
        return;
    memcpy(p.n, n, sizeof p.n);
    near = p;
    newton(a, b, (const double (*)[3])edge, 0, &p);
    gap_along(a, b, NULL, 0, &near);
    int kept = 0;
    if (!is_normal(&p, near.gap, size)) {
        kept = edges_across(b, n, edge, edges_across(a, n, edge, 0));
        p = near;
        turn_across((const double (*)[3])edge, kept, p.n);
        newton(a, b, (const double (*)[3])edge, kept, &p);
        if (kept == 0 || !is_normal(&p, near.gap, size))
            return;
    }
    memcpy(n, p.n, sizeof p.n);
    *gap = p.gap;
    if (kept == 0 || smooth_a || smooth_b) {
        memcpy(on_a, p.on_a, sizeof p.on_a);
        memcpy(on_b, p.on_b, sizeof p.on_b);
    }
    if (kept > 0 && !smooth_a && !smooth_b) { /* where they were along the edge or on the face */
        times(0.5, on_a, p.on_a);
        along(p.on_a, 0.5, on_b, p.on_a);
        along(p.on_a, 0.5 * p.gap, n, on_a);
    }
    if (kept > 0 && !smooth_a && smooth_b)
        along(on_b, p.gap, n, on_a);
    else if (kept > 0)
        along(on_a, -p.gap, n, on_b);
}

#endif
