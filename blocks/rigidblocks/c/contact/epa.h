/* How deep two convex cores overlap: the expanding polytope of van den Bergen (2001). */

#ifndef RB_EPA_H
#define RB_EPA_H

#include "gjk.h"

enum { RB_EPA_CORNERS = 96, RB_EPA_FACES = 2 * RB_EPA_CORNERS, RB_EPA_EDGES = 96 };

/* A face of the polytope: its corners counter-clockwise from outside, its unit normal and distance;
   none where it has no area. */
struct facet {
    int at[3];
    double n[3], d;
};

struct polytope {
    struct corner at[RB_EPA_CORNERS];
    struct facet face[RB_EPA_FACES];
    int corners, faces;
};

/* The overlap: unit normal out of B towards A, depth, and the deepest points. */
struct overlap {
    double n[3], depth, on_a[3], on_b[3];
};

static inline void add_facet(struct polytope *p, int i, int j, int k)
{
    struct facet *f = &p->face[p->faces++];
    double e[3], g[3], h[3];
    difference(p->at[j].w, p->at[i].w, e);
    difference(p->at[k].w, p->at[i].w, g);
    difference(p->at[k].w, p->at[j].w, h);
    cross(e, g, f->n);
    const double longest = fmax(dot(e, e), fmax(dot(g, g), dot(h, h)));
    f->at[0] = i;
    f->at[1] = j;
    f->at[2] = k;
    if (norm(f->n) <= 1e-13 * longest) {
        f->n[0] = f->n[1] = f->n[2] = 0.0;
        f->d = INFINITY;
        return;
    }
    normalize(f->n);
    f->d = dot(f->n, p->at[i].w);
}

/* Corners until the simplex is a tetrahedron with a volume; 0 where there is none. */
static inline int fill_tetrahedron(const struct placed *a, const struct placed *b,
                                   struct simplex *s, double size)
{
    for (int trial = 0; trial < 12 && s->n < 4; trial++) {
        double d[3] = {0.0, 0.0, 0.0}, e[3], f[3];
        d[trial / 2 % 3] = trial % 2 ? -1.0 : 1.0;
        if (s->n >= 2) {
            difference(s->at[1].w, s->at[0].w, e);
            cross(e, d, d);
        }
        if (s->n == 3) {
            difference(s->at[2].w, s->at[0].w, f);
            cross(e, f, d);
            if (trial % 2)
                times(-1.0, d, d);
        }
        if (normalize(d) <= 0.0)
            continue;
        corner_along(a, b, d, &s->at[s->n]);
        difference(s->at[s->n].w, s->at[0].w, f);
        double far = norm(f);
        if (s->n == 2) {
            double n[3];
            cross(e, f, n);
            far = norm(n) / norm(e);
        } else if (s->n == 3) {
            far = fabs(dot(f, d));
        }
        s->n += far > 1e-9 * size;
    }
    return s->n == 4;
}

static inline int start_polytope(const struct simplex *s, struct polytope *p)
{
    static const int faces[4][3] = {{0, 1, 2}, {0, 2, 3}, {0, 3, 1}, {1, 3, 2}};
    double e[3], f[3], g[3], n[3];
    memcpy(p->at, s->at, sizeof s->at);
    difference(p->at[1].w, p->at[0].w, e);
    difference(p->at[2].w, p->at[0].w, f);
    difference(p->at[3].w, p->at[0].w, g);
    cross(e, f, n);
    if (dot(n, g) > 0.0) { /* outward */
        const struct corner kept = p->at[1];
        p->at[1] = p->at[2];
        p->at[2] = kept;
    }
    p->corners = 4;
    p->faces = 0;
    for (int k = 0; k < 4; k++)
        add_facet(p, faces[k][0], faces[k][1], faces[k][2]);
    return dot(n, g) != 0.0;
}

static inline int closest_facet(const struct polytope *p)
{
    int best = 0;
    for (int k = 1; k < p->faces; k++)
        if (p->face[k].d < p->face[best].d)
            best = k;
    return best;
}

/* An edge of a hole: one that two of its faces share is none. */
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

/* The polytope with one more corner: the faces that see it, and those in whose planes it is, give
   way to those around it, so that none is without an area. 0 where there is no room. */
static inline int expand(struct polytope *p, const struct corner *next, double tiny)
{
    int edge[RB_EPA_EDGES][2], edges = 0, kept = 0;
    for (int k = 0; k < p->faces; k++) {
        const struct facet f = p->face[k];
        if (dot(f.n, next->w) - f.d > -tiny && edges + 3 <= RB_EPA_EDGES) {
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

/* The points of A and B at the point of a facet that is closest to the origin; returns how far it
   is, squared. */
static inline double points_of(const struct polytope *p, const struct facet *f, struct overlap *out)
{
    struct simplex s;
    int which[3];
    double weight[3];
    for (int k = 0; k < 3; k++)
        s.at[k] = p->at[f->at[k]];
    s.n = closest_of_triangle(s.at[0].w, s.at[1].w, s.at[2].w, which, weight);
    keep(&s, s.n, which, weight);
    weigh(&s, s.n, which, s.weight, s.v);
    witnesses(&s, out->on_a, out->on_b);
    return dot(s.v, s.v);
}

/* The overlap by the closest facet, at the one of those in its plane that the origin is over. */
static inline void deepest(const struct polytope *p, const struct facet *f, double tiny,
                           struct overlap *out)
{
    double least = points_of(p, f, out);
    for (int k = 0; k < p->faces; k++) {
        struct overlap other = *out;
        const struct facet *g = &p->face[k];
        if (g->d <= f->d + tiny && dot(g->n, f->n) > 1.0 - 1e-12) {
            const double squared = points_of(p, g, &other);
            if (squared < least) {
                least = squared;
                *out = other;
            }
        }
    }
    times(-1.0, f->n, out->n);
    out->depth = f->d;
}

/* The overlap of two cores from a simplex in which gjk found the origin. 0 where they have no
   volume together. */
static inline int epa(const struct placed *a, const struct placed *b, struct simplex *s,
                      struct overlap *out)
{
    struct polytope p;
    const double size = fmin(a->shape[RB_SHAPE_SIZE], b->shape[RB_SHAPE_SIZE]);
    if (!fill_tetrahedron(a, b, s, size) || !start_polytope(s, &p))
        return 0;
    struct facet best = p.face[0];
    double far = 0.0, least = INFINITY; /* how far the shapes reach over each other along best.n */
    for (int k = 0; k < 4; k++)
        far = fmax(far, norm(p.at[k].w));
    const double tiny = 1e-12 * far;
    for (;;) {
        struct corner next = {.w = {0.0, 0.0, 0.0}};
        const struct facet f = p.face[closest_facet(&p)];
        if (!isfinite(f.d))
            break;
        corner_along(a, b, f.n, &next);
        const double reach = dot(f.n, next.w);
        if (reach < least || (reach <= least + tiny && f.d > best.d)) {
            least = reach;
            best = f;
        }
        if (reach - f.d <= tiny || !expand(&p, &next, tiny))
            break;
    }
    if (!isfinite(least))
        return 0;
    deepest(&p, &best, tiny, out);
    out->depth = least;
    return 1;
}

#endif
