/* The edges with which a core may touch along a normal, and lines in its faces. */

#ifndef RB_EDGES_H
#define RB_EDGES_H

#include "shape.h"

enum { RB_EDGES = 3 };
#define RB_PARALLEL 1e-3 /* the sine of two edges that are one */

static inline int add_edge(const double *from, const double *to, const double *d, double most,
                           double (*edge)[3], int count)
{
    difference(to, from, edge[count]);
    normalize(edge[count]);
    return count + (fabs(dot(edge[count], d)) < most);
}

/* The edges at the vertex of a hull that is farthest along d: the flattest one, and those next to
   it on both sides. */
static inline int hull_edges(const struct placed *a, const double *d, double most,
                             double (*edge)[3])
{
    const double *shape = a->shape, *vertex = shape + RB_SHAPE_VERTICES,
                 *from = vertex + 3 * farthest_vertex(shape, d);
    const int first = flattest(shape, from, d, NULL);
    double up[3], side[3];
    int count = first < 0 ? 0 : add_edge(from, vertex + 3 * first, d, most, edge, 0);
    if (count == 0)
        return 0;
    along(d, -dot(d, edge[0]), edge[0], up);
    normalize(up);
    cross(edge[0], up, side);
    for (int way = 0; way < 2; way++) {
        const int next = flattest(shape, from, up, side);
        if (next >= 0)
            count = add_edge(from, vertex + 3 * next, d, most, edge, count);
        times(-1.0, side, side);
    }
    for (int k = 0; k < count; k++)
        turn(a->r, edge[k], edge[k]);
    return count;
}

/* The edges, and lines in a face, with which a core may touch what is from it along n: unit vectors
   across n, but for a cosine of `most`. */
static inline int edges_across(const struct placed *a, const double *n, double most,
                               double (*edge)[3])
{
    const int kind = kind_of(a->shape);
    double d[3];
    int count = 0;
    turn_back(a->r, n, d);
    if (kind == RB_HULL)
        return hull_edges(a, d, most, edge);
    const int lies = kind == RB_SEGMENT || (kind == RB_CYLINDER && fabs(d[2]) < RB_HALF_ROOT);
    for (int i = lies ? 2 : 0; i < (kind == RB_CYLINDER && !lies ? 2 : 3); i++)
        if (kind != RB_ELLIPSOID && fabs(d[i]) < most)
            axis_of(a, i, edge[count++]);
    return count;
}

/* n across one edge, or along the normal of two; 0 where these are one. */
static inline int turn_across(const double (*edge)[3], int kept, double *n)
{
    if (kept == 1)
        along(n, -dot(n, edge[0]), edge[0], n);
    if (kept == 2) {
        double up[3];
        cross(edge[0], edge[1], up);
        if (norm(up) < RB_PARALLEL)
            return 0;
        times(dot(up, n) < 0.0 ? -1.0 : 1.0, up, n);
    }
    normalize(n);
    return 1;
}

/* How many edges of a core are across n, to rounding, and the first of them. */
static inline int edges_at(const struct placed *a, const double *n, double *edge)
{
    double found[RB_EDGES][3];
    const int count = edges_across(a, n, 1e-9, found);
    if (count > 0)
        memcpy(edge, found[0], sizeof *found);
    return count;
}

#endif
