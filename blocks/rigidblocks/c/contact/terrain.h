/* Contacts with terrain: height fields and triangle meshes. */

#ifndef RB_TERRAIN_H
#define RB_TERRAIN_H

#include "manifold.h"

/* ---- terrain of triangles: the triangles, their neighbours, and the triangles near a box ----

   The row of a height field contains, in this order:
     the common part (shapes.h)
     the numbers of nodes along x and y, the position of the first node, and the spacing
     the extent of the level ground around the field
     the heights, with y as the faster index
   The diagonal from its first node to the opposite node divides each cell into two triangles.

   The row of a mesh contains, in this order:
     the common part
     the numbers of vertices, of triangles, and of grid cells along x and y
     the corner of the grid, and the cell size
     the vertices
     of each triangle: its three vertices, counter-clockwise from outside, and its three
       neighbours, which are the triangles across the edges from each vertex to the next, or -1
     the start of the triangle list of each cell, and the lists
   Both rows are in base coordinates. */

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

enum { RB_AROUND = 1000 }; /* largest number of triangles around a vertex; bounds a search */
#define RB_LEVEL 1e-6      /* sine of a direction that is perpendicular up to rounding errors */

/* A triangle: index, vertices, vertex indices, and unit normal. */
struct rb_triangle {
    int id, v[3];
    double x[3][3], n[3];
};

/* Box of a query for the triangles near a shape. */
struct rb_query {
    double low[3], high[3];
};

static inline int rb_is_ground(const struct rb_placed_shape *a)
{
    return rb_is_kind(a->shape, RB_FIELD) || rb_is_kind(a->shape, RB_MESH);
}

/* Compute a node of a height field. Around the field, one more node on each side is far away at the
   height of the boundary. */
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

/* Compute the vertices of a triangle and their indices. */
static inline void find_corners(const struct rb_placed_shape *ground, int id, struct rb_triangle *t)
{
    static const int corner[2][3][2] = {{{0, 0}, {1, 0}, {1, 1}}, {{0, 0}, {1, 1}, {0, 1}}};
    const double *row = ground->shape;
    t->id = id;
    for (int k = 0; k < 3; k++) {
        if (rb_is_kind(row, RB_FIELD)) {
            const int rows = (int)row[RB_FIELD_NY] + 1, cell = id / 2;
            const int i = cell / rows + corner[id % 2][k][0],
                      j = cell % rows + corner[id % 2][k][1];
            t->v[k] = i * (rows + 1) + j;
            field_node(row, i - 1, j - 1, t->x[k]);
        } else {
            t->v[k] = (int)mesh_triangle(row, id)[k];
            memcpy(t->x[k], row + RB_MESH_TABLES + 3 * t->v[k], sizeof *t->x);
        }
        rb_axpy(t->x[k], 1.0, ground->p, t->x[k]);
    }
}

static inline void rb_find_triangle(const struct rb_placed_shape *ground, int id,
                                    struct rb_triangle *t)
{
    double e[3], f[3];
    find_corners(ground, id, t);
    rb_subtract(t->x[1], t->x[0], e);
    rb_subtract(t->x[2], t->x[0], f);
    rb_cross(e, f, t->n);
    rb_normalize(t->n);
}

/* Return the triangle across the edge from this corner to the next one; -1 at the boundary. */
static inline int rb_adjacent_triangle(const double *row, int id, int edge)
{
    static const int way[2][3][2] = {{{0, -1}, {1, 0}, {0, 0}}, {{0, 0}, {0, 1}, {-1, 0}}};
    if (rb_is_kind(row, RB_MESH))
        return (int)mesh_triangle(row, id)[3 + edge];
    const int columns = (int)row[RB_FIELD_NX] + 1, rows = (int)row[RB_FIELD_NY] + 1;
    const int i = id / 2 / rows + way[id % 2][edge][0], j = id / 2 % rows + way[id % 2][edge][1];
    return i < 0 || j < 0 || i >= columns || j >= rows ? -1 : 2 * (i * rows + j) + (id % 2 == 0);
}

/* Return the cell index of a coordinate, limited to the range from `first` to `last`. */
static inline int cell_index(double x, double corner, double size, int first, int last)
{
    return (int)fmin(fmax(floor((x - corner) / size), first), last);
}

/* Return 1 if the bounds of a triangle overlap the box. In a height field, the box may also be
   below the triangle. */
static inline int rb_is_near(const struct rb_triangle *t, const struct rb_query *q, int field)
{
    for (int i = 0; i < 3; i++) {
        const double low = fmin(t->x[0][i], fmin(t->x[1][i], t->x[2][i]));
        const double high = fmax(t->x[0][i], fmax(t->x[1][i], t->x[2][i]));
        if (high < q->low[i] || (low > q->high[i] && !(field && i == 2)))
            return 0;
    }
    return 1;
}

/* Return the height of a height field at a point. Points below this height are inside the
   ground. */
static inline double field_height(const struct rb_placed_shape *ground, const double *x)
{
    const double *row = ground->shape;
    const int columns = (int)row[RB_FIELD_NX], rows = (int)row[RB_FIELD_NY];
    const double *at = row + RB_FIELD_X, *size = row + RB_FIELD_DX;
    const int i = cell_index(x[0] - ground->p[0], at[0], size[0], -1, columns - 1);
    const int j = cell_index(x[1] - ground->p[1], at[1], size[1], -1, rows - 1);
    struct rb_triangle t;
    double way[3], edge[3];
    const int id = 2 * ((i + 1) * (rows + 1) + j + 1);
    rb_find_triangle(ground, id, &t);
    rb_subtract(t.x[2], t.x[0], edge);
    rb_subtract(x, t.x[0], way);
    if (edge[0] * way[1] > edge[1] * way[0]) { /* left of the diagonal */
        rb_find_triangle(ground, id + 1, &t);
        rb_subtract(x, t.x[0], way);
    }
    return t.x[0][2] - (t.n[0] * way[0] + t.n[1] * way[1]) / t.n[2];
}

/* Return the triangle list of a mesh cell; `count` receives its length. */
static inline const double *rb_cell_list(const double *row, int i, int j, int *count)
{
    const int rows = (int)row[RB_MESH_NY], cells = (int)row[RB_MESH_NX] * rows, at = i * rows + j;
    const double *starts = mesh_triangle(row, (int)row[RB_MESH_TRIANGLES]);
    *count = (int)starts[at + 1] - (int)starts[at];
    return starts + cells + 1 + (int)starts[at];
}

/* Return the distance of a point from a triangle. */
static inline double distance_to_triangle(const struct rb_triangle *t, const double *point)
{
    double x[3][3], weight[3] = {0.0, 0.0, 0.0}, closest[3] = {0.0, 0.0, 0.0};
    int which[3];
    for (int k = 0; k < 3; k++)
        rb_subtract(t->x[k], point, x[k]);
    const int n = rb_closest_on_triangle(x[0], x[1], x[2], which, weight);
    for (int k = 0; k < n; k++)
        rb_axpy(closest, weight[k], x[which[k]], closest);
    return rb_norm(closest);
}

/* Return 1 if no triangle of a mesh is nearer to a point than `distance`. If the result is 1, a
   point inside the ground leaves the ground through the triangle at this distance. */
static inline int is_clear(const struct rb_placed_shape *ground, const double *point,
                           double distance)
{
    const double *row = ground->shape, *corner = row + RB_MESH_X, *size = row + RB_MESH_DX;
    int first[2], last[2];
    for (int i = 0; i < 2; i++) {
        const double x = point[i] - ground->p[i];
        first[i] = cell_index(x - distance, corner[i], size[i], 0, (int)row[RB_MESH_NX + i] - 1);
        last[i] = cell_index(x + distance, corner[i], size[i], 0, (int)row[RB_MESH_NX + i] - 1);
    }
    for (int i = first[0]; i <= last[0]; i++) {
        for (int j = first[1]; j <= last[1]; j++) {
            int count = 0;
            const double *list = rb_cell_list(row, i, j, &count);
            for (int k = 0; k < count; k++) {
                struct rb_triangle t;
                find_corners(ground, (int)list[k], &t);
                if (distance_to_triangle(&t, point) < distance)
                    return 0;
            }
        }
    }
    return 1;
}

/* Return the corner of a triangle with this vertex index, or -1. */
static inline int corner_with_number(const struct rb_triangle *t, int vertex)
{
    for (int k = 0; k < 3; k++)
        if (t->v[k] == vertex)
            return k;
    return -1;
}

/* Return 1 if `point` of the ground is not lower along n than `other`. */
static inline int is_top(const double *n, const double *point, const double *other)
{
    double way[3];
    rb_subtract(other, point, way);
    return rb_dot(n, way) <= RB_LEVEL * rb_norm(way);
}

/* Return 1 if no triangle around a vertex extends above the vertex along n. The loop visits the
   triangles in one direction first, then in the other. */
static inline int vertex_is_top(const struct rb_placed_shape *ground,
                                const struct rb_triangle *from, int corner, const double *n)
{
    const int vertex = from->v[corner];
    for (int back = 0; back < 2; back++) {
        struct rb_triangle t = *from;
        for (int k = 0; k < RB_AROUND; k++) {
            const int at = corner_with_number(&t, vertex);
            if (at < 0 || !is_top(n, t.x[at], t.x[(at + 1) % 3]) ||
                !is_top(n, t.x[at], t.x[(at + 2) % 3]))
                return 0;
            const int next = rb_adjacent_triangle(ground->shape, t.id, back ? at : (at + 2) % 3);
            if (next == from->id)
                return 1;
            if (next < 0)
                break;
            find_corners(ground, next, &t);
        }
    }
    return 1;
}

/* ---- contacts: corners of the shape on faces, the whole shape on protruding edges and corners
   ----

   A height field is solid below its surface; a mesh has no thickness. */

/* RB_PATCHES: largest number of normals of one shape on terrain. RB_RANKS: first rank of points
   that are on no face of the shape. RB_KNOWN: number of dropped points that are compared with new
   ones. */
enum { RB_PATCHES = 8, RB_RANKS = 1000, RB_KNOWN = 64 };

#define RB_SAME_NORMAL (1.0 - 1e-10) /* cosine of two normals that differ by rounding errors */
/* Width of the wedge at a concave edge relative to the depth: it has an angle of up to 72 degrees.
   Found by trial. */
#define RB_WEDGE 3.0

/* Manifolds, one for each normal. `rank` orders the points, `flat` is 1 for points on a plane.
   `left_out` counts the overlapping points that did not fit. `known` stores the first of them,
   because several edges may find the same point. */
struct rb_patches {
    struct rb_manifold one[RB_PATCHES];
    double known[RB_KNOWN][3];
    int rank[RB_PATCHES][RB_CLIPPED], flat[RB_PATCHES], count, left_out;
};

static inline double rb_least_gap(const struct rb_manifold *m)
{
    double least = INFINITY;
    for (int k = 0; k < m->count; k++)
        least = fmin(least, m->gap[k]);
    return least;
}

/* Count an overlapping point that does not fit into the list, unless it was counted before. */
static inline void drop_point(struct rb_patches *all, const double *point, double gap, double tiny)
{
    double way[3];
    if (!(gap < 0.0))
        return;
    for (int k = 0; k < all->left_out && k < RB_KNOWN; k++) {
        rb_subtract(point, all->known[k], way);
        if (rb_norm(way) <= tiny)
            return;
    }
    if (all->left_out < RB_KNOWN)
        memcpy(all->known[all->left_out], point, sizeof *all->known);
    all->left_out++;
}

static inline int triangle_has_vertex(const struct rb_manifold *m, const double *point)
{
    for (int k = 0; k < m->count; k++)
        if (memcmp(m->point[k], point, sizeof *m->point) == 0)
            return 1;
    return 0;
}

/* Reduce the points of a patch to four. */
static inline void reduce_patch(struct rb_patches *all, int at, double soon, double tiny)
{
    struct rb_manifold *m = &all->one[at];
    if (m->count <= RB_MANIFOLD)
        return;
    const struct rb_manifold before = *m;
    rb_reduce_manifold(m, soon, tiny);
    for (int k = 0; k < before.count; k++)
        if (!triangle_has_vertex(m, before.point[k]))
            drop_point(all, before.point[k], before.gap[k], tiny);
}

/* Return the patch for the normal of a point: an existing one, a new one, or one that replaces the
   patch with the largest gap. Returns -1 if none is free. */
static inline int find_patch(struct rb_patches *all, const double *n, const double *point,
                             double gap, double tiny)
{
    const int full = all->count == RB_PATCHES;
    int worst = 0;
    for (int k = 0; k < all->count; k++)
        if (rb_dot(all->one[k].n, n) > RB_SAME_NORMAL)
            return k;
    if (full) {
        for (int k = 1; k < RB_PATCHES; k++)
            if (rb_least_gap(&all->one[k]) > rb_least_gap(&all->one[worst]))
                worst = k;
        if (!(gap < rb_least_gap(&all->one[worst]))) {
            drop_point(all, point, gap, tiny);
            return -1;
        }
    }
    const int at = full ? worst : all->count++;
    struct rb_manifold *m = &all->one[at];
    for (int k = 0; full && k < m->count; k++)
        drop_point(all, m->point[k], m->gap[k], tiny);
    m->count = 0;
    memcpy(m->n, n, sizeof m->n);
    return at;
}

/* Add a point to the patch of its normal, in the order of the ranks. Points that the patch already
   contains are not added. */
static inline void add_ranked(struct rb_patches *all, const double *n, const double *point,
                              double gap, int rank, double tiny, double soon)
{
    const int at = find_patch(all, n, point, gap, tiny);
    if (at < 0)
        return;
    struct rb_manifold *m = &all->one[at];
    double way[3];
    for (int k = 0; k < m->count; k++) {
        rb_subtract(point, m->point[k], way);
        if (rb_norm(way) <= tiny || (rank < RB_RANKS && rank == all->rank[at][k]))
            return;
    }
    if (m->count == RB_CLIPPED) {
        reduce_patch(all, at, soon, tiny);
        for (int k = 0; k < m->count; k++)
            all->rank[at][k] = k;
    }
    int k = m->count++;
    for (; k > 0 && all->rank[at][k - 1] > rank; k--) {
        memcpy(m->point[k], m->point[k - 1], sizeof *m->point);
        m->gap[k] = m->gap[k - 1];
        all->rank[at][k] = all->rank[at][k - 1];
    }
    memcpy(m->point[k], point, sizeof *m->point);
    m->gap[k] = gap;
    all->rank[at][k] = rank;
}

/* Return 1 if the ground is convex at the edge between two triangles, and -1 if it is concave.
   Return 0 if it is flat, and 1 at the boundary of the ground. The vertex opposite the edge
   decides. */
static inline int edge_bend(const struct rb_triangle *t, const struct rb_triangle *next)
{
    double way[3];
    for (int k = 0; next && k < 3; k++) {
        rb_subtract(next->x[k], t->x[0], way);
        const double height = rb_dot(t->n, way), least = 1e-9 * rb_norm(way);
        if (fabs(height) > least)
            return height > 0.0 ? -1 : 1;
    }
    return !next;
}

/* Return 1 if the projection of a point along the triangle normal is inside the triangle. The wedge
   between the normals at a concave edge counts as inside for points below the triangle. */
static inline int is_above_or_below(const struct rb_placed_shape *ground,
                                    const struct rb_triangle *t, const double *x, double gap,
                                    double tiny)
{
    for (int k = 0; k < 3; k++) {
        double edge[3], in[3], way[3];
        rb_subtract(t->x[(k + 1) % 3], t->x[k], edge);
        rb_cross(t->n, edge, in);
        rb_normalize(in);
        rb_subtract(x, t->x[k], way);
        const double outside = -rb_dot(in, way);
        if (outside <= tiny)
            continue;
        const int other = gap < 0.0 && outside < -RB_WEDGE * gap
                              ? rb_adjacent_triangle(ground->shape, t->id, k)
                              : -1;
        struct rb_triangle next;
        if (other < 0)
            return 0;
        find_corners(ground, other, &next);
        if (edge_bend(t, &next) >= 0)
            return 0;
    }
    return 1;
}

/* Return 1 if a point is vertically below a triangle of a height field. */
static inline int is_below(const struct rb_triangle *t, const double *x, double gap, double tiny)
{
    if (!(gap < 0.0))
        return 0;
    for (int k = 0; k < 3; k++) {
        const double *p = t->x[k], *q = t->x[(k + 1) % 3];
        if ((q[0] - p[0]) * (x[1] - p[1]) - (q[1] - p[1]) * (x[0] - p[0]) < -tiny * tiny)
            return 0;
    }
    return 1;
}

/* Return 1 if a point at this depth leaves the ground on the shortest way through this triangle.
   Otherwise another triangle is nearer, for example beyond a ridge. Depths below 1e-6 of the size
   pass without a search. The terms 1e-9 allow for rounding errors. */
static inline int exits_through(const struct rb_placed_shape *ground, const struct rb_triangle *t,
                                const double *x, double depth, double size)
{
    if (depth <= 1e-6 * size)
        return 1;
    if (rb_is_kind(ground->shape, RB_FIELD))
        return depth <= field_height(ground, x) - x[2] + RB_COINCIDENT * size;
    return is_clear(ground, x, (1.0 - 1e-9) * distance_to_triangle(t, x));
}

/* Add the contacts of the corners of A with the face of a triangle. */
static inline void corner_contacts(const struct rb_placed_shape *a,
                                   const struct rb_placed_shape *ground,
                                   const struct rb_triangle *t, double margin, double soon,
                                   struct rb_patches *all)
{
    const int field = rb_is_kind(ground->shape, RB_FIELD);
    const double size = a->shape[RB_SHAPE_SIZE], tiny = RB_COINCIDENT * size;
    double down[3], x[RB_CLIPPED][3], way[3];
    rb_subtract(t->x[1], t->x[0], way);
    const double most = size > 0.0 ? 0.5 * size : rb_norm(way);
    rb_scale(-1.0, t->n, down);
    const int n = rb_support_face(a, down, fmax(margin, tiny), x);
    for (int k = 0; k < n; k++) {
        rb_axpy(x[k], -rb_shape_radius(a->shape), t->n, x[k]);
        rb_subtract(x[k], t->x[0], way);
        const double gap = rb_dot(t->n, way);
        if (gap > margin || (!field && gap < -most))
            continue;
        if (!(field && is_below(t, x[k], gap, tiny)) &&
            !is_above_or_below(ground, t, x[k], gap, tiny))
            continue;
        if (!exits_through(ground, t, x[k], -gap, size))
            continue;
        rb_axpy(x[k], -0.5 * gap, t->n, x[k]);
        add_ranked(all, t->n, x[k], gap, k, tiny, soon);
    }
}

/* Convert an edge of the ground to a segment shape. */
static inline void edge_segment(const double *from, const double *to, double *row,
                                struct rb_placed_shape *out)
{
    double z[3], u[3], v[3];
    rb_subtract(to, from, z);
    const double length = rb_normalize(z);
    memset(row, 0, RB_SHAPE_VERTICES * sizeof *row);
    row[0] = RB_SEGMENT;
    row[3] = 0.5 * length;
    row[RB_SHAPE_SIZE] = length;
    rb_tangent_basis(z, u, v);
    out->shape = row;
    rb_axpy(from, 0.5 * length, z, out->p);
    for (int i = 0; i < 3; i++) {
        out->r[3 * i] = u[i];
        out->r[3 * i + 1] = v[i];
        out->r[3 * i + 2] = z[i];
    }
}

/* Compute the contacts of A with a segment. A segment that touches A is pushed into A, because the
   normal of overlapping cores is well defined. */
static inline void segment_contacts(const struct rb_placed_shape *a,
                                    const struct rb_placed_shape *edge, const double *up,
                                    double margin, struct rb_manifold *m)
{
    struct rb_proximity c = {{0.0, 0.0, 1.0}, 0.0, {0.0, 0.0, 0.0}, {0.0, 0.0, 0.0}};
    m->count = 0;
    rb_core_proximity(a, edge, INFINITY, &c);
    if (!rb_is_line(a) &&
        fabs(c.gap) <= 1e-3 * fmin(a->shape[RB_SHAPE_SIZE], edge->shape[RB_SHAPE_SIZE])) {
        memcpy(c.n, up, sizeof c.n);
        c.gap = fmax(c.gap, 0.0);
        rb_push_cores(a, edge, &c);
    }
    rb_add_radii(a, edge, &c);
    memcpy(m->n, c.n, sizeof m->n);
    if (c.gap > margin)
        return;
    rb_face_contacts(a, edge, margin, m);
    rb_add_deepest(m, &c, RB_COINCIDENT * a->shape[RB_SHAPE_SIZE], margin);
}

/* Return 1 if the ground protrudes along n at the fraction `part` of an edge. Inside the edge, n
   must be between the normals of the two triangles; at its ends, the vertex must be a maximum. */
static inline int is_protruding(const struct rb_placed_shape *ground, const struct rb_triangle *t,
                                const struct rb_triangle *next, int edge, const double *n,
                                double part)
{
    if (part <= 1e-9)
        return vertex_is_top(ground, t, edge, n);
    if (part >= 1.0 - 1e-9)
        return vertex_is_top(ground, t, (edge + 1) % 3, n);
    if (!is_top(n, t->x[edge], t->x[(edge + 2) % 3]))
        return 0;
    for (int k = 0; next && k < 3; k++)
        if (next->v[k] != t->v[edge] && next->v[k] != t->v[(edge + 1) % 3] &&
            !is_top(n, t->x[edge], next->x[k]))
            return 0;
    return 1;
}

/* Add the contacts of A with the protruding edges of a triangle. If two triangles share an edge,
   the triangle with the smaller index handles it. */
static inline void edge_contacts(const struct rb_placed_shape *a,
                                 const struct rb_placed_shape *ground, const struct rb_triangle *t,
                                 double margin, double soon, struct rb_patches *all)
{
    const double tiny = RB_COINCIDENT * a->shape[RB_SHAPE_SIZE];
    for (int edge = 0; edge < 3; edge++) {
        const int other = rb_adjacent_triangle(ground->shape, t->id, edge);
        const double *from = t->x[edge];
        double row[RB_SHAPE_VERTICES], up[3], way[3];
        struct rb_triangle next;
        struct rb_placed_shape segment;
        struct rb_manifold m;
        if (other >= 0 && other < t->id)
            continue;
        if (other >= 0)
            rb_find_triangle(ground, other, &next);
        if (edge_bend(t, other < 0 ? NULL : &next) <= 0)
            continue;
        memcpy(up, t->n, sizeof up);
        if (other >= 0)
            rb_axpy(up, 1.0, next.n, up);
        rb_normalize(up);
        edge_segment(from, t->x[(edge + 1) % 3], row, &segment);
        segment_contacts(a, &segment, up, margin, &m);
        if (!(rb_dot(m.n, up) > 0.0))
            continue;
        for (int k = 0; k < m.count; k++) {
            double z[3];
            rb_shape_axis(&segment, 2, z);
            rb_subtract(m.point[k], from, way);
            const double part = rb_dot(way, z) / row[RB_SHAPE_SIZE];
            if (is_protruding(ground, t, other < 0 ? NULL : &next, edge, m.n, part))
                add_ranked(all, m.n, m.point[k], m.gap[k], RB_RANKS, tiny, soon);
        }
    }
}

/* Add the contacts of A with one triangle if it is near A. */
static inline void triangle_contacts(const struct rb_placed_shape *a,
                                     const struct rb_placed_shape *ground, int id,
                                     const struct rb_query *q, double margin, double soon,
                                     struct rb_patches *all)
{
    struct rb_triangle t;
    rb_find_triangle(ground, id, &t);
    if (!rb_is_near(&t, q, rb_is_kind(ground->shape, RB_FIELD)))
        return;
    corner_contacts(a, ground, &t, margin, soon, all);
    edge_contacts(a, ground, &t, margin, soon, all);
}

/* Return 1 if no earlier cell of the query contains the triangle. */
static inline int rb_is_home(const struct rb_placed_shape *ground, const struct rb_triangle *t,
                             const int *cell, const int *first)
{
    const double *row = ground->shape;
    for (int i = 0; i < 2; i++) {
        const double low = fmin(t->x[0][i], fmin(t->x[1][i], t->x[2][i])) - ground->p[i];
        const int own = cell_index(low, row[RB_MESH_X + i], row[RB_MESH_DX + i], 0,
                                   (int)row[RB_MESH_NX + i] - 1);
        if (cell[i] != (own > first[i] ? own : first[i]))
            return 0;
    }
    return 1;
}

/* Add the contacts of A with the triangles of a mesh cell. A triangle in several cells is handled
   in the first cell of the query. */
static inline void cell_contacts(const struct rb_placed_shape *a,
                                 const struct rb_placed_shape *ground, const int *cell,
                                 const int *first, const struct rb_query *q, double margin,
                                 double soon, struct rb_patches *all)
{
    int count = 0;
    const double *list = rb_cell_list(ground->shape, cell[0], cell[1], &count);
    for (int k = 0; k < count; k++) {
        struct rb_triangle t;
        find_corners(ground, (int)list[k], &t);
        if (rb_is_home(ground, &t, cell, first))
            triangle_contacts(a, ground, (int)list[k], q, margin, soon, all);
    }
}

/* Compute the query box around A. */
static inline void rb_query_box(const struct rb_placed_shape *a, double margin, struct rb_query *q)
{
    const double wide =
        rb_shape_radius(a->shape) + fmax(margin, 0.0) + RB_COINCIDENT * a->shape[RB_SHAPE_SIZE];
    for (int i = 0; i < 3; i++) {
        const double axis[3] = {i == 0, i == 1, i == 2}, back[3] = {-axis[0], -axis[1], -axis[2]};
        double top[3];
        rb_support(a, axis, top);
        q->high[i] = top[i] + wide;
        rb_support(a, back, top);
        q->low[i] = top[i] - wide;
    }
}

/* Compute the range of ground cells between two corners of a box. */
static inline void rb_find_cells(const struct rb_placed_shape *ground, const double *low,
                                 const double *high, int *first, int *last)
{
    const double *row = ground->shape;
    const int field = rb_is_kind(row, RB_FIELD);
    const double *corner = row + (field ? RB_FIELD_X : RB_MESH_X),
                 *cells = row + (field ? RB_FIELD_DX : RB_MESH_DX);
    for (int i = 0; i < 2; i++) {
        const int most = (int)row[(field ? RB_FIELD_NX : RB_MESH_NX) + i] - 1,
                  least = field ? -1 : 0;
        first[i] = cell_index(low[i] - ground->p[i], corner[i], cells[i], least, most);
        last[i] = cell_index(high[i] - ground->p[i], corner[i], cells[i], least, most);
    }
}

/* Return the first of the two triangles of a field cell. */
static inline int rb_first_of_cell(const double *row, const int *cell)
{
    return 2 * ((cell[0] + 1) * ((int)row[RB_FIELD_NY] + 1) + cell[1] + 1);
}

/* Compute the contacts of A with terrain within `margin`: up to four points for each normal. */
static inline void terrain_contacts(const struct rb_placed_shape *a,
                                    const struct rb_placed_shape *ground, double margin,
                                    double soon, struct rb_patches *all)
{
    const double *row = ground->shape, size = a->shape[RB_SHAPE_SIZE];
    const int field = rb_is_kind(row, RB_FIELD);
    int first[2], last[2], cell[2];
    struct rb_query q;
    all->count = all->left_out = 0;
    rb_query_box(a, margin, &q);
    rb_find_cells(ground, q.low, q.high, first, last);
    for (cell[0] = first[0]; cell[0] <= last[0]; cell[0]++) {
        for (cell[1] = first[1]; cell[1] <= last[1]; cell[1]++) {
            const int id = field ? rb_first_of_cell(row, cell) : 0;
            for (int half = 0; field && half < 2; half++)
                triangle_contacts(a, ground, id + half, &q, margin, soon + 1e-3 * size, all);
            if (!field)
                cell_contacts(a, ground, cell, first, &q, margin, soon + 1e-3 * size, all);
        }
    }
    for (int k = 0; k < all->count; k++) {
        all->flat[k] = all->rank[k][all->one[k].count - 1] < RB_RANKS;
        reduce_patch(all, k, soon + 1e-3 * size, RB_COINCIDENT * size);
    }
}

/* Compute the contacts of any two shapes; the second may be terrain. */
static inline void rb_shape_contacts(const struct rb_placed_shape *a,
                                     const struct rb_placed_shape *b, double margin, double soon,
                                     struct rb_patches *all)
{
    if (rb_is_ground(b)) {
        terrain_contacts(a, b, margin, soon, all);
        for (int k = 0; k < all->count; k++)
            rb_order_manifold(a, &all->one[k]);
        return;
    }
    all->count = 1;
    all->left_out = 0;
    all->flat[0] = rb_is_kind(b->shape, RB_HALF_SPACE);
    rb_collide(a, b, margin, soon, &all->one[0]);
}

#endif
