/* Convex shapes as rows of a table of doubles.

   A row is [kind, a, b, c, radius, number of vertices, size, 0 | vertices]. A shape is its core
   with all that is not farther from it than `radius`; a, b and c are the half lengths of the core
   along the axes of its frame. `size` is the smallest length of the whole shape: small things are
   small beside it. Ground of triangles has rows of its own (ground.h). */

#ifndef RB_SHAPE_H
#define RB_SHAPE_H

#include "vector.h"

enum {
    RB_POINT,
    RB_SEGMENT,
    RB_BOX,
    RB_CYLINDER,
    RB_ELLIPSOID,
    RB_HULL,
    RB_HALF_SPACE,
    RB_FIELD,
    RB_MESH,
    RB_SHAPE_KINDS
};
enum { RB_SHAPE_RADIUS = 4, RB_SHAPE_COUNT = 5, RB_SHAPE_SIZE = 6, RB_SHAPE_VERTICES = 8 };
enum { RB_FACE = 12 };                  /* the most vertices of a face that is clipped */
#define RB_HALF_ROOT 0.7071067811865476 /* sqrt(1/2) */

/* A shape in space: x = R x_shape + p. */
struct placed {
    const double *shape;
    double r[9], p[3];
};

static inline int kind_of(const double *shape)
{
    return (int)shape[0];
}

static inline double radius_of(const double *shape)
{
    return shape[RB_SHAPE_RADIUS];
}

/* The number of the vertex of a hull that is farthest along d, the first of several. */
static inline int farthest_vertex(const double *shape, const double *d)
{
    const int n = (int)shape[RB_SHAPE_COUNT];
    int best = 0;
    double most = dot(shape + RB_SHAPE_VERTICES, d);
    for (int k = 1; k < n; k++) {
        const double s = dot(shape + RB_SHAPE_VERTICES + 3 * k, d);
        if (s > most) {
            most = s;
            best = k;
        }
    }
    return best;
}

static inline double with_sign(double length, double d)
{
    return d < 0.0 ? -length : length;
}

/* The point of a core that is farthest along `toward`, in the frame of the shape. */
static inline void local_support(const double *shape, const double *toward, double *out)
{
    const double *half = shape + 1, d[3] = {toward[0], toward[1], toward[2]};
    double rim, w[3];
    out[0] = out[1] = out[2] = 0.0;
    switch (kind_of(shape)) {
    case RB_SEGMENT: out[2] = with_sign(half[2], d[2]); break;
    case RB_BOX:
    case RB_MESH: /* what it is in */
        for (int i = 0; i < 3; i++)
            out[i] = with_sign(half[i], d[i]);
        break;
    case RB_CYLINDER:
        rim = sqrt(d[0] * d[0] + d[1] * d[1]);
        out[0] = rim > 1e-14 * fabs(d[2]) ? half[0] * (d[0] / rim) : 0.0;
        out[1] = rim > 1e-14 * fabs(d[2]) ? half[0] * (d[1] / rim) : 0.0;
        out[2] = with_sign(half[2], d[2]);
        break;
    case RB_ELLIPSOID:
        for (int i = 0; i < 3; i++)
            w[i] = half[i] * d[i];
        normalize(w);
        for (int i = 0; i < 3; i++)
            out[i] = half[i] * w[i];
        break;
    case RB_HULL:
        memcpy(out, shape + RB_SHAPE_VERTICES + 3 * farthest_vertex(shape, d), 3 * sizeof *out);
        break;
    default: break;
    }
}

/* The same in space. */
static inline void support(const struct placed *a, const double *d, double *out)
{
    double local[3];
    turn_back(a->r, d, local);
    local_support(a->shape, local, local);
    turn(a->r, local, out);
    along(out, 1.0, a->p, out);
}

/* The vertex of a hull to which it falls off least from `from`, by the drop along d for the way
   across it: the other end of an edge. With `side`, of those on one side of the line along `edge`
   alone; -1 where there is none. */
static inline int flattest(const double *shape, const double *from, const double *d,
                           const double *side)
{
    int best = -1;
    double most = -INFINITY;
    for (int k = 0; k < (int)shape[RB_SHAPE_COUNT]; k++) {
        double way[3], flat[3];
        difference(shape + RB_SHAPE_VERTICES + 3 * k, from, way);
        const double drop = dot(way, d);
        along(way, -drop, d, flat);
        const double length = side ? dot(way, side) : norm(flat);
        if (!(length > 1e-9 * shape[RB_SHAPE_SIZE]))
            continue;
        const double slope = drop / length;
        if (slope > most) {
            most = slope;
            best = k;
        }
    }
    return best;
}

/* The unit normal of the facet of a hull at the vertex farthest along d that faces d most. */
static inline void facet_normal(const double *shape, const double *d, double *out)
{
    const double *vertex = shape + RB_SHAPE_VERTICES,
                 *from = vertex + 3 * farthest_vertex(shape, d);
    const int other = flattest(shape, from, d, NULL);
    double edge[3], up[3], side[3], best = -INFINITY;
    memcpy(out, d, 3 * sizeof *out);
    if (other < 0)
        return;
    difference(vertex + 3 * other, from, edge);
    normalize(edge);
    along(d, -dot(d, edge), edge, up);
    if (!(normalize(up) > 0.0))
        return;
    for (int way = 0; way < 2; way++) {
        double arm[3], n[3];
        cross(edge, up, side);
        times(way ? -1.0 : 1.0, side, side);
        const int third = flattest(shape, from, up, side);
        if (third < 0)
            continue;
        difference(vertex + 3 * third, from, arm);
        cross(edge, arm, n);
        normalize(n);
        if (dot(n, d) < 0.0)
            times(-1.0, n, n);
        if (dot(n, d) > best) {
            best = dot(n, d);
            memcpy(out, n, sizeof n);
        }
    }
}

/* The vertices of a hull less than `thick` below the farthest one along d, the highest where there
   are many, around d. */
static inline int hull_face(const double *shape, const double *d, double thick, double (*out)[3])
{
    const double *vertex = shape + RB_SHAPE_VERTICES;
    const double top = dot(vertex + 3 * farthest_vertex(shape, d), d);
    double u[3], v[3], middle[3] = {0.0, 0.0, 0.0}, angle[RB_FACE];
    int n = 0;
    for (int k = 0; k < (int)shape[RB_SHAPE_COUNT]; k++) {
        const double *p = vertex + 3 * k, height = dot(p, d);
        int lowest = 0;
        if (height < top - thick)
            continue;
        if (n < RB_FACE) {
            memcpy(out[n++], p, sizeof *out);
            continue;
        }
        for (int i = 1; i < n; i++)
            if (dot(out[i], d) < dot(out[lowest], d))
                lowest = i;
        if (dot(out[lowest], d) < height)
            memcpy(out[lowest], p, sizeof *out);
    }
    for (int k = 0; k < n; k++)
        along(middle, 1.0 / n, out[k], middle);
    across(d, u, v);
    for (int k = 0; k < n; k++) {
        double arm[3], kept[3];
        difference(out[k], middle, arm);
        const double turned = turn_about(dot(arm, u), dot(arm, v));
        int at = k;
        memcpy(kept, out[k], sizeof kept);
        for (; at > 0 && angle[at - 1] > turned; at--) {
            angle[at] = angle[at - 1];
            memcpy(out[at], out[at - 1], sizeof *out);
        }
        angle[at] = turned;
        memcpy(out[at], kept, sizeof kept);
    }
    return n;
}

/* The corners of the face of a box that faces d most. */
static inline int box_face(const double *half, const double *d, double (*out)[3])
{
    const double x = fabs(d[0]), y = fabs(d[1]), z = fabs(d[2]);
    const int i = x >= y && x >= z ? 0 : (y >= z ? 1 : 2), j = (i + 1) % 3, k = (i + 2) % 3;
    for (int corner = 0; corner < 4; corner++) {
        out[corner][i] = with_sign(half[i], d[i]);
        out[corner][j] = corner == 0 || corner == 3 ? half[j] : -half[j];
        out[corner][k] = corner < 2 ? half[k] : -half[k];
    }
    return 4;
}

/* Eight points of the cap of a cylinder that faces d, the first where d points to, or the line
   along its side. */
static inline int cylinder_face(const double *half, const double *d, double (*out)[3])
{
    static const double c[8] = {1.0,  RB_HALF_ROOT,  0.0, -RB_HALF_ROOT,
                                -1.0, -RB_HALF_ROOT, 0.0, RB_HALF_ROOT};
    const double rim = sqrt(d[0] * d[0] + d[1] * d[1]);
    const double x = rim > 1e-9 ? d[0] / rim : 1.0, y = rim > 1e-9 ? d[1] / rim : 0.0;
    const int count = fabs(d[2]) > 0.7 ? 8 : 2;
    for (int k = 0; k < count; k++) {
        const double cosine = count == 8 ? c[k] : 1.0, sine = count == 8 ? c[(k + 6) % 8] : 0.0;
        out[k][0] = half[0] * (cosine * x - sine * y);
        out[k][1] = half[0] * (cosine * y + sine * x);
        out[k][2] = count == 8 ? with_sign(half[2], d[2]) : (k == 0 ? half[2] : -half[2]);
    }
    return count;
}

/* The face, edge or point of a core that is farthest along the unit vector d: its vertices in
   space, in order. Of a hull the facet that faces d most, or with `thick` all vertices that are
   less below the farthest one. */
static inline int face(const struct placed *a, const double *d, double thick, double (*out)[3])
{
    const double *shape = a->shape;
    double local[3], up[3];
    int n = 1;
    turn_back(a->r, d, local);
    memcpy(up, local, sizeof up);
    if (kind_of(shape) == RB_HULL && !(thick > 0.0))
        facet_normal(shape, local, up);
    if (kind_of(shape) == RB_BOX)
        n = box_face(shape + 1, local, out);
    else if (kind_of(shape) == RB_CYLINDER)
        n = cylinder_face(shape + 1, local, out);
    else if (kind_of(shape) == RB_HULL)
        n = hull_face(shape, up, fmax(thick, 1e-3 * shape[RB_SHAPE_SIZE]), out);
    else
        local_support(shape, local, out[0]);
    if (kind_of(shape) == RB_SEGMENT) {
        n = 2;
        memcpy(out[1], out[0], sizeof *out);
        out[1][2] = -out[0][2];
    }
    for (int k = 0; k < n; k++) {
        turn(a->r, out[k], out[k]);
        along(out[k], 1.0, a->p, out[k]);
    }
    return n;
}

static inline void axis_of(const struct placed *a, int i, double *out)
{
    for (int k = 0; k < 3; k++)
        out[k] = a->r[3 * k + i];
}

#endif
