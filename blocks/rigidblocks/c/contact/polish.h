/* The normal of two cores of which one is curved, to rounding: GJK and EPA come close, Newton's
   method does the rest.

   The gap along n is g(n) = n . w, w = s_A(-n) - s_B(n) being the difference of what is farthest;
   it is largest along the normal, where w is along n. A core that touches with an edge or a face
   has n across that, and only what is left of n is sought; of all edges near n, and of all two of
   them, those are taken whose g is the largest. */

#ifndef RB_POLISH_H
#define RB_POLISH_H

#include "edges.h"
#include "epa.h"

enum { RB_POLISH_STEPS = 24 };
#define RB_POLISH_TURN 0.5    /* [rad], the most in a step */
#define RB_POLISH_PART 0.01   /* of a step, the least */
#define RB_POLISH_OFF 1e-12   /* of the size, across a normal */
#define RB_POLISH_LEAST 1e-10 /* of the largest curvature */

/* A normal, how far w is from it across all but the directions that are kept, and the points of
   both cores. */
struct polished {
    double n[3], on_a[3], on_b[3], gap, off;
};

static inline int is_curved(const struct placed *a)
{
    return kind_of(a->shape) == RB_ELLIPSOID || kind_of(a->shape) == RB_CYLINDER;
}

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

/* The turn of n by Newton's method for what is off and the curvatures m, k, l, that makes the gap
   larger where it is no largest one, too; not along a way that is not curved, as where all turns
   round an axis are as good. */
static inline void turn_of(double m, double k, double l, const double *off, double *out)
{
    const double half = 0.5 * (m - l), root = sqrt(half * half + k * k), mean = 0.5 * (m + l);
    const double first = fabs(mean + root), second = fabs(mean - root),
                 least = RB_POLISH_LEAST * more_of(first, second);
    double way[3] = {half >= 0.0 ? half + root : k, half >= 0.0 ? k : root - half, 0.0};
    if (!(root > 0.0))
        way[0] = 1.0;
    normalize(way);
    const double x = way[0] * off[0] + way[1] * off[1], y = way[0] * off[1] - way[1] * off[0];
    const double along_it = first > least ? x / first : 0.0,
                 across_it = second > least ? y / second : 0.0,
                 part = RB_POLISH_TURN /
                        more_of(RB_POLISH_TURN, sqrt(along_it * along_it + across_it * across_it));
    out[0] = part * (along_it * way[0] - across_it * way[1]);
    out[1] = part * (along_it * way[1] + across_it * way[0]);
}

/* The turn of p->n across the ways that are free. */
static inline void next_turn(const struct placed *a, const struct placed *b,
                             const struct polished *p, const double (*way)[3], int ways,
                             double *turned)
{
    double w[3], off[2] = {0.0, 0.0};
    difference(p->on_a, p->on_b, w);
    for (int i = 0; i < ways; i++)
        off[i] = dot(way[i], w);
    const double m = p->gap + curved(a, b, p->n, way[0], way[0]);
    const double k = ways > 1 ? curved(a, b, p->n, way[0], way[1]) : 0.0;
    const double l = ways > 1 ? p->gap + curved(a, b, p->n, way[1], way[1]) : m;
    turn_of(m, k, l, off, turned);
}

/* Newton's method from p->n, which is across the `kept` edges: each step makes the gap larger, by
   more than `tiny`, or brings w nearer to n. */
static inline void newton(const struct placed *a, const struct placed *b, const double (*edge)[3],
                          int kept, double tiny, struct polished *p)
{
    const double *first = edge[0];
    double way[2][3], turned[2], part = 1.0;
    int ways = free_ways(p->n, first, kept, way);
    gap_along(a, b, (const double (*)[3])way, ways, p);
    for (int step = 0; step < RB_POLISH_STEPS && ways > 0 && p->off > 0.0; step++) {
        struct polished next = *p;
        double other[2][3];
        next_turn(a, b, p, (const double (*)[3])way, ways, turned);
        for (int i = 0; i < ways; i++)
            along(next.n, part * turned[i], way[i], next.n);
        normalize(next.n);
        free_ways(next.n, first, kept, other);
        gap_along(a, b, (const double (*)[3])other, ways, &next);
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

/* What is found from a near normal: the best one, and where none is to rounding that which is
   nearest to one. None has a smaller gap than `least`. */
struct search {
    const double *start;
    double size, least;
    struct polished best, rough;
};

/* The normal across these edges, of which two may be one. */
static inline void try_edges(const struct placed *a, const struct placed *b,
                             const double (*edge)[3], int kept, struct search *s)
{
    struct polished p = {.gap = 0.0};
    memcpy(p.n, s->start, sizeof p.n);
    if (!turn_across(edge, kept, p.n))
        return;
    newton(a, b, edge, kept, 1e-14 * s->size, &p);
    if (p.gap > s->least && p.off < s->rough.off)
        s->rough = p;
    if (p.off <= RB_POLISH_OFF * s->size && p.gap > s->best.gap + 1e-15 * s->size)
        s->best = p;
}

static inline void try_all_edges(const struct placed *a, const struct placed *b, double most,
                                 struct search *s)
{
    double down[3], edge[2 * RB_EDGES][3], of[2][3] = {{0.0, 0.0, 0.0}, {0.0, 0.0, 0.0}};
    times(-1.0, s->start, down);
    int count = edges_across(a, down, most, edge);
    count += edges_across(b, s->start, most, edge + count);
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

/* The points of both cores: where edges and faces leave more than one, near the middle of those
   given. */
static inline void touching_points(const struct placed *a, const struct placed *b,
                                   const struct polished *p, double *on_a, double *on_b)
{
    double down[3], e[3] = {0.0, 0.0, 0.0}, f[3] = {0.0, 0.0, 0.0}, g[3], w[3], middle[3], arm[3];
    times(-1.0, p->n, down);
    const int of_a = edges_at(a, down, e), of_b = edges_at(b, p->n, f);
    times(0.5, on_a, middle);
    along(middle, 0.5, on_b, middle);
    cross(f, p->n, g);
    difference(p->on_a, p->on_b, w);
    difference(middle, of_b == 1 ? p->on_b : p->on_a, arm);
    if (of_a == 0) {
        memcpy(on_a, p->on_a, sizeof p->on_a);
    } else if (of_b == 0) {
        along(p->on_b, p->gap, p->n, on_a);
    } else if (of_a == 1 && of_b == 1 && fabs(dot(e, g)) > RB_PARALLEL) {
        along(p->on_a, -dot(w, g) / dot(e, g), e, on_a);
    } else if (of_b == 1) {
        along(p->on_b, dot(arm, f), f, on_a);
        along(on_a, p->gap, p->n, on_a);
    } else if (of_a == 1) {
        along(p->on_a, dot(arm, e), e, on_a);
    } else {
        along(middle, -dot(arm, p->n), p->n, on_a);
    }
    along(on_a, -p->gap, p->n, on_b);
}

/* How far the points are from having the gap along the normal between them. */
static inline double off_normal(const double *n, double gap, const double *on_a, const double *on_b)
{
    double w[3];
    difference(on_a, on_b, w);
    along(w, -gap, n, w);
    return norm(w);
}

/* What rounding is measured by. */
static inline double reach_of(const struct placed *a, const double *point)
{
    double arm[3];
    difference(point, a->p, arm);
    return norm(arm) + norm(point);
}

/* g(n), and how large the numbers are that it is of. */
static inline double gap_and_size(const struct placed *a, const struct placed *b, const double *n,
                                  double *size)
{
    struct polished p = {.gap = 0.0};
    memcpy(p.n, n, sizeof p.n);
    gap_along(a, b, NULL, 0, &p);
    *size = reach_of(a, p.on_a) + reach_of(b, p.on_b);
    return p.gap;
}

/* The normal, the gap and the points of two cores from near ones; nothing where both have corners
   alone, or where nothing better is found. */
static inline void polish(const struct placed *a, const struct placed *b, double *n, double *gap,
                          double *on_a, double *on_b)
{
    static const double none[1][3] = {{0.0, 0.0, 0.0}};
    static const double cosine[2] = {1e-3, 0.1}; /* of edges with n, of those tried */
    struct search s = {.start = n};
    if (!is_curved(a) && !is_curved(b))
        return;
    s.least = gap_and_size(a, b, n, &s.size) - 1e-14 * s.size;
    s.best.gap = s.least;
    s.best.off = INFINITY;
    s.rough.gap = -INFINITY;
    s.rough.off = off_normal(n, *gap, on_a, on_b);
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

#endif
