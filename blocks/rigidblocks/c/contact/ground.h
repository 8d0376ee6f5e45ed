/* Ground of triangles, a height field or a mesh: its triangles, those beside them, and which are
   near a box.

   The row of a field has, behind what every row has (shape.h): the numbers of nodes along x and y,
   the place of the first one, the spacing, how far the level ground around it goes, and the
   heights, y running fastest. Each cell is two triangles, cut from its first node to the opposite
   one. The row of a mesh has the numbers of vertices, of triangles, and of cells of a grid along x
   and y, the corner of the grid and the size of a cell; then the vertices; of each triangle its
   vertices, counter- clockwise as seen from outside, and the triangles beyond the edges from each
   to the next, -1 for none; where the list of each cell starts, and the lists. Both are along the
   axes of base coordinates. */

#ifndef RB_GROUND_H
#define RB_GROUND_H

#include "manifold.h"

enum {
    RB_FIELD_NX = RB_SHAPE_VERTICES,
    RB_FIELD_NY,
    RB_FIELD_X,
    RB_FIELD_DX = RB_FIELD_X + 2,
    RB_FIELD_SKIRT = RB_FIELD_DX + 2,
    RB_FIELD_HEIGHTS
};
enum {
    RB_MESH_VERTICES = RB_SHAPE_VERTICES,
    RB_MESH_TRIANGLES,
    RB_MESH_NX,
    RB_MESH_NY,
    RB_MESH_X,
    RB_MESH_DX = RB_MESH_X + 2,
    RB_MESH_TABLES = RB_MESH_DX + 2
};

/* A triangle: its number, vertices, their numbers, and the unit normal. */
struct triangle {
    int id, v[3];
    double x[3][3], n[3];
};

/* What is asked for: between two corners, and how far it may be below. */
struct query {
    double low[3], high[3];
};

static inline int is_ground(const struct placed *a)
{
    return kind_of(a->shape) == RB_FIELD || kind_of(a->shape) == RB_MESH;
}

/* A node of a field; there is one more around it, far away and as high. */
static inline void field_node(const double *row, int i, int j, double *x)
{
    const int count[2] = {(int)row[RB_FIELD_NX], (int)row[RB_FIELD_NY]}, at[2] = {i, j};
    int inside[2];
    for (int k = 0; k < 2; k++) {
        inside[k] = at[k] < 0 ? 0 : (at[k] < count[k] ? at[k] : count[k] - 1);
        x[k] = row[RB_FIELD_X + k] + row[RB_FIELD_DX + k] * inside[k] +
               row[RB_FIELD_SKIRT] * (at[k] - inside[k]);
    }
    x[2] = row[RB_FIELD_HEIGHTS + inside[0] * count[1] + inside[1]];
}

static inline const double *mesh_triangle(const double *row, int id)
{
    return row + RB_MESH_TABLES + 3 * (int)row[RB_MESH_VERTICES] + 6 * id;
}

/* The vertices of a triangle and their numbers. */
static inline void find_corners(const struct placed *ground, int id, struct triangle *t)
{
    static const int corner[2][3][2] = {{{0, 0}, {1, 0}, {1, 1}}, {{0, 0}, {1, 1}, {0, 1}}};
    const double *row = ground->shape;
    t->id = id;
    for (int k = 0; k < 3; k++) {
        if (kind_of(row) == RB_FIELD) {
            const int rows = (int)row[RB_FIELD_NY] + 1, cell = id / 2;
            const int i = cell / rows + corner[id % 2][k][0],
                      j = cell % rows + corner[id % 2][k][1];
            t->v[k] = i * (rows + 1) + j;
            field_node(row, i - 1, j - 1, t->x[k]);
        } else {
            t->v[k] = (int)mesh_triangle(row, id)[k];
            memcpy(t->x[k], row + RB_MESH_TABLES + 3 * t->v[k], sizeof *t->x);
        }
        along(t->x[k], 1.0, ground->p, t->x[k]);
    }
}

static inline void find_triangle(const struct placed *ground, int id, struct triangle *t)
{
    double e[3], f[3];
    find_corners(ground, id, t);
    difference(t->x[1], t->x[0], e);
    difference(t->x[2], t->x[0], f);
    cross(e, f, t->n);
    normalize(t->n);
}

/* The triangle beyond an edge, the one from this corner to the next; -1 for none. */
static inline int beyond(const double *row, int id, int edge)
{
    static const int way[2][3][2] = {{{0, -1}, {1, 0}, {0, 0}}, {{0, 0}, {0, 1}, {-1, 0}}};
    if (kind_of(row) == RB_MESH)
        return (int)mesh_triangle(row, id)[3 + edge];
    const int columns = (int)row[RB_FIELD_NX] + 1, rows = (int)row[RB_FIELD_NY] + 1;
    const int i = id / 2 / rows + way[id % 2][edge][0], j = id / 2 % rows + way[id % 2][edge][1];
    return i < 0 || j < 0 || i >= columns || j >= rows ? -1 : 2 * (i * rows + j) + (id % 2 == 0);
}

/* The number of the cell that a coordinate is in, of those from `first` to `last`. */
static inline int cell_at(double x, double corner, double size, int first, int last)
{
    return (int)fmin(fmax(floor((x - corner) / size), first), last);
}

/* Whether a triangle is near: all of a field's that are below. */
static inline int is_near(const struct triangle *t, const struct query *q, int field)
{
    for (int i = 0; i < 3; i++) {
        const double low = fmin(t->x[0][i], fmin(t->x[1][i], t->x[2][i]));
        const double high = fmax(t->x[0][i], fmax(t->x[1][i], t->x[2][i]));
        if (high < q->low[i] || (low > q->high[i] && !(field && i == 2)))
            return 0;
    }
    return 1;
}

/* How high a field is at a point: what is below is in the ground. */
static inline double field_height(const struct placed *ground, const double *x)
{
    const double *row = ground->shape;
    const int columns = (int)row[RB_FIELD_NX], rows = (int)row[RB_FIELD_NY];
    const double *at = row + RB_FIELD_X, *size = row + RB_FIELD_DX;
    const int i = cell_at(x[0] - ground->p[0], at[0], size[0], -1, columns - 1);
    const int j = cell_at(x[1] - ground->p[1], at[1], size[1], -1, rows - 1);
    struct triangle t;
    double way[3], edge[3];
    const int id = 2 * ((i + 1) * (rows + 1) + j + 1);
    find_triangle(ground, id, &t);
    difference(t.x[2], t.x[0], edge);
    difference(x, t.x[0], way);
    if (edge[0] * way[1] > edge[1] * way[0]) { /* left of the cut */
        find_triangle(ground, id + 1, &t);
        difference(x, t.x[0], way);
    }
    return t.x[0][2] - (t.n[0] * way[0] + t.n[1] * way[1]) / t.n[2];
}

/* The list of a cell of a mesh, and how long it is. */
static inline const double *cell_list(const double *row, int i, int j, int *count)
{
    const int rows = (int)row[RB_MESH_NY], cells = (int)row[RB_MESH_NX] * rows, at = i * rows + j;
    const double *starts = mesh_triangle(row, (int)row[RB_MESH_TRIANGLES]);
    *count = (int)starts[at + 1] - (int)starts[at];
    return starts + cells + 1 + (int)starts[at];
}

/* How far a point is from a triangle. */
static inline double distance_to(const struct triangle *t, const double *point)
{
    double x[3][3], weight[3] = {0.0, 0.0, 0.0}, closest[3] = {0.0, 0.0, 0.0};
    int which[3];
    for (int k = 0; k < 3; k++)
        difference(t->x[k], point, x[k]);
    const int n = closest_of_triangle(x[0], x[1], x[2], which, weight);
    for (int k = 0; k < n; k++)
        along(closest, weight[k], x[which[k]], closest);
    return norm(closest);
}

/* Whether no triangle of a mesh is nearer to a point than this: what it is behind is where it would
   come out. */
static inline int is_clear(const struct placed *ground, const double *point, double distance)
{
    const double *row = ground->shape, *corner = row + RB_MESH_X, *size = row + RB_MESH_DX;
    int first[2], last[2];
    for (int i = 0; i < 2; i++) {
        const double x = point[i] - ground->p[i];
        first[i] = cell_at(x - distance, corner[i], size[i], 0, (int)row[RB_MESH_NX + i] - 1);
        last[i] = cell_at(x + distance, corner[i], size[i], 0, (int)row[RB_MESH_NX + i] - 1);
    }
    for (int i = first[0]; i <= last[0]; i++) {
        for (int j = first[1]; j <= last[1]; j++) {
            int count = 0;
            const double *list = cell_list(row, i, j, &count);
            for (int k = 0; k < count; k++) {
                struct triangle t;
                find_corners(ground, (int)list[k], &t);
                if (distance_to(&t, point) < distance)
                    return 0;
            }
        }
    }
    return 1;
}

/* The corner of a triangle with this number, -1 where it has none. */
static inline int corner_of(const struct triangle *t, int vertex)
{
    for (int k = 0; k < 3; k++)
        if (t->v[k] == vertex)
            return k;
    return -1;
}

/* Whether a point of the ground is not lower, along n, than another one. */
static inline int is_top(const double *n, const double *point, const double *other)
{
    double way[3];
    difference(other, point, way);
    return dot(n, way) <= 1e-6 * norm(way);
}

/* Whether all triangles around a vertex are on its lower side along n: by the edges after it, then
   by those before it. */
static inline int vertex_is_top(const struct placed *ground, const struct triangle *from,
                                int corner, const double *n)
{
    const int vertex = from->v[corner];
    for (int back = 0; back < 2; back++) {
        struct triangle t = *from;
        for (int k = 0; k < 1000; k++) {
            const int at = corner_of(&t, vertex);
            if (at < 0 || !is_top(n, t.x[at], t.x[(at + 1) % 3]) ||
                !is_top(n, t.x[at], t.x[(at + 2) % 3]))
                return 0;
            const int next = beyond(ground->shape, t.id, back ? at : (at + 2) % 3);
            if (next == from->id)
                return 1;
            if (next < 0)
                break;
            find_corners(ground, next, &t);
        }
    }
    return 1;
}

#endif
