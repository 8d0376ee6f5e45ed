/* The pressure between a polytope and ground of triangles.

   A height field is in every point below it as deep as that is below the plane of the triangle
   above, a field of pressure p = k depth in which the faces of the polytope are: what lies in it is
   pushed out from any depth. A mesh is a surface alone; it lies in the field of the polytope, as a
   face of another one does. Either has an energy, k times the integral of the depth over what
   overlaps (pressure.h), so that no edge, neither of the ground nor of the polytope, gains any. */

#ifndef RB_TERRAIN_H
#define RB_TERRAIN_H

#include "pressure.h"

/* The part of a polygon that is straight below a triangle of a field. */
static inline int clip_below(double (*x)[3], int n, const struct triangle *t,
                             const struct plane *plane)
{
    const double up[3] = {0.0, 0.0, 1.0};
    n = clip(x, n, plane->n, plane->s, 0.0);
    for (int k = 0; k < 3 && n > 2; k++) {
        double edge[3], out[3];
        difference(t->x[(k + 1) % 3], t->x[k], edge);
        cross(edge, up, out);
        n = clip(x, n, out, dot(out, t->x[k]), 0.0);
    }
    return n;
}

/* A face, a polygon, in a height field; `up` is the unit normal out of the polytope. */
static inline void press_face_on_field(double (*x)[3], int n, const double *up,
                                       const struct placed *ground, const struct law *law,
                                       const struct moving *a, const struct moving *b,
                                       struct pressed *all)
{
    double low[3] = {INFINITY, INFINITY, INFINITY}, high[3] = {-INFINITY, -INFINITY, -INFINITY};
    int first[2], last[2], cell[2];
    for (int k = 0; k < n; k++) {
        for (int i = 0; i < 3; i++) {
            low[i] = fmin(low[i], x[k][i]);
            high[i] = fmax(high[i], x[k][i]);
        }
    }
    find_cells(ground, low, high, first, last);
    for (cell[0] = first[0]; cell[0] <= last[0]; cell[0]++) {
        for (cell[1] = first[1]; cell[1] <= last[1]; cell[1]++) {
            for (int half = 0; half < 2; half++) {
                struct triangle t;
                double part[RB_CLIPPED][3];
                find_triangle(ground, first_of_cell(ground->shape, cell) + half, &t);
                if (low[2] >= fmax(t.x[0][2], fmax(t.x[1][2], t.x[2][2])))
                    continue;
                const struct plane plane = {{t.n[0], t.n[1], t.n[2]}, dot(t.n, t.x[0])};
                memcpy(part, x, (size_t)n * sizeof *part);
                const int m = clip_below(part, n, &t, &plane);
                all->left_out += m == RB_CLIPPED;
                if (m > 2)
                    press_polygon(part, m, &plane, up, law, 1.0, 1.0, a, b, all);
            }
        }
    }
}

/* All faces of a polytope in a height field. */
static inline void press_on_field(const struct placed *own, const double *poly,
                                  const struct placed *ground, const struct law *law,
                                  const struct moving *a, const struct moving *b,
                                  struct pressed *all)
{
    const double *normals = poly + RB_POLY_HEAD, *row = normals + 4 * (int)poly[RB_POLY_PLANES];
    for (int k = 0; k < (int)poly[RB_POLY_FACES]; k++) {
        double x[RB_CLIPPED][3], up[3];
        const int n = place_face(own, row, x);
        turn(own->r, normals + 4 * (int)row[0], up);
        press_face_on_field(x, n, up, ground, law, a, b, all);
        row += 2 + 3 * n;
    }
}

/* The triangles of a mesh in the field of a polytope. */
static inline void press_on_mesh(const struct placed *own, const double *poly,
                                 const struct placed *ground, const struct law *law,
                                 const struct moving *a, const struct moving *b,
                                 struct pressed *all)
{
    struct plane plane[RB_MOST_PLANES];
    struct query q;
    int first[2], last[2], cell[2];
    const int planes = planes_of(own, poly, plane);
    around(own, 0.0, &q);
    find_cells(ground, q.low, q.high, first, last);
    for (cell[0] = first[0]; cell[0] <= last[0]; cell[0]++) {
        for (cell[1] = first[1]; cell[1] <= last[1]; cell[1]++) {
            int count = 0;
            const double *list = cell_list(ground->shape, cell[0], cell[1], &count);
            for (int k = 0; k < count; k++) {
                struct triangle t;
                double x[RB_CLIPPED][3];
                find_triangle(ground, (int)list[k], &t);
                if (!is_near(&t, &q, 0) || !is_home(ground, &t, cell, first))
                    continue;
                memcpy(x, t.x, sizeof t.x);
                press_inside(x, 3, plane, planes, t.n, law, 1.0, -1.0, a, b, all);
            }
        }
    }
}

static inline void press_on_ground(const struct placed *own, const double *poly,
                                   const struct placed *ground, const struct law *law,
                                   const struct moving *a, const struct moving *b,
                                   struct pressed *all)
{
    if (kind_of(ground->shape) == RB_FIELD)
        press_on_field(own, poly, ground, law, a, b, all);
    else
        press_on_mesh(own, poly, ground, law, a, b, all);
}

#endif
