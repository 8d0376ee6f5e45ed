/* Where a shape touches ground of triangles: with its corners on faces, and with all of it on edges
   and corners of the ground that stand out. The ground has no thickness to fall through: what is
   below a field is in it. */

#ifndef RB_PATCHES_H
#define RB_PATCHES_H

#include "ground.h"

enum { RB_PATCHES = 8, RB_RANKS = 1000, RB_KNOWN = 64 };

/* Manifolds, one for each normal, the rank of their points, by which they are in order, whether
   they are on a plane, and how many points that overlap had no room, with the first of them:
   several edges may offer one. */
struct patches {
    struct manifold one[RB_PATCHES];
    double known[RB_KNOWN][3];
    int rank[RB_PATCHES][RB_CLIPPED], flat[RB_PATCHES], count, left_out;
};

static inline double least_gap(const struct manifold *m)
{
    double least = INFINITY;
    for (int k = 0; k < m->count; k++)
        least = fmin(least, m->gap[k]);
    return least;
}

/* A point that overlaps has no room; one that is known counts once. */
static inline void leave_out(struct patches *all, const double *point, double gap, double tiny)
{
    double way[3];
    if (!(gap < 0.0))
        return;
    for (int k = 0; k < all->left_out && k < RB_KNOWN; k++) {
        difference(point, all->known[k], way);
        if (norm(way) <= tiny)
            return;
    }
    if (all->left_out < RB_KNOWN)
        memcpy(all->known[all->left_out], point, sizeof *all->known);
    all->left_out++;
}

static inline int is_of(const struct manifold *m, const double *point)
{
    for (int k = 0; k < m->count; k++)
        if (memcmp(m->point[k], point, sizeof *m->point) == 0)
            return 1;
    return 0;
}

/* Up to four points of a patch. */
static inline void reduce_patch(struct patches *all, int at, double soon, double tiny)
{
    struct manifold *m = &all->one[at];
    if (m->count <= RB_MANIFOLD)
        return;
    const struct manifold before = *m;
    reduce_manifold(m, soon, tiny);
    for (int k = 0; k < before.count; k++)
        if (!is_of(m, before.point[k]))
            leave_out(all, before.point[k], before.gap[k], tiny);
}

/* The patch with the normal of a point, perhaps a new one, in the place of the one that is farthest
   where there is no room; -1 for none. */
static inline int patch_of(struct patches *all, const double *n, const double *point, double gap,
                           double tiny)
{
    const int full = all->count == RB_PATCHES;
    int worst = 0;
    for (int k = 0; k < all->count; k++)
        if (dot(all->one[k].n, n) > 1.0 - 1e-10)
            return k;
    if (full) {
        for (int k = 1; k < RB_PATCHES; k++)
            if (least_gap(&all->one[k]) > least_gap(&all->one[worst]))
                worst = k;
        if (!(gap < least_gap(&all->one[worst]))) {
            leave_out(all, point, gap, tiny);
            return -1;
        }
    }
    const int at = full ? worst : all->count++;
    struct manifold *m = &all->one[at];
    for (int k = 0; full && k < m->count; k++)
        leave_out(all, m->point[k], m->gap[k], tiny);
    m->count = 0;
    memcpy(m->n, n, sizeof m->n);
    return at;
}

/* A point between the surfaces, in the order of the ranks of its patch, unless it is there
   already. */
static inline void add_ranked(struct patches *all, const double *n, const double *point, double gap,
                              int rank, double tiny, double soon)
{
    const int at = patch_of(all, n, point, gap, tiny);
    if (at < 0)
        return;
    struct manifold *m = &all->one[at];
    double way[3];
    for (int k = 0; k < m->count; k++) {
        difference(point, m->point[k], way);
        if (norm(way) <= tiny || (rank < RB_RANKS && rank == all->rank[at][k]))
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

/* Whether the ground is bent at an edge, -1 inward, 1 outward, by the vertex beyond it; where it
   ends it is bent outward. */
static inline int bend_at(const struct triangle *t, const struct triangle *next)
{
    double way[3];
    for (int k = 0; next && k < 3; k++) {
        difference(next->x[k], t->x[0], way);
        const double height = dot(t->n, way), least = 1e-9 * norm(way);
        if (fabs(height) > least)
            return height > 0.0 ? -1 : 1;
    }
    return !next;
}

/* Whether a point is above or below a triangle along its normal. What is below is also where the
   normals of two triangles leave room between them, behind an edge that is bent inward. */
static inline int is_over(const struct placed *ground, const struct triangle *t, const double *x,
                          double gap, double tiny)
{
    for (int k = 0; k < 3; k++) {
        double edge[3], in[3], way[3];
        difference(t->x[(k + 1) % 3], t->x[k], edge);
        cross(t->n, edge, in);
        normalize(in);
        difference(x, t->x[k], way);
        const double outside = -dot(in, way);
        if (outside <= tiny)
            continue;
        const int other = gap < 0.0 && outside < -3.0 * gap ? beyond(ground->shape, t->id, k) : -1;
        struct triangle next;
        if (other < 0)
            return 0;
        find_corners(ground, other, &next);
        if (bend_at(t, &next) >= 0)
            return 0;
    }
    return 1;
}

/* Whether a point is below a triangle of a field, straight down. */
static inline int is_below(const struct triangle *t, const double *x, double gap, double tiny)
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

/* Whether a point that is so deep behind a triangle would come out there, not sooner elsewhere:
   beyond a ridge. */
static inline int comes_out(const struct placed *ground, const struct triangle *t, const double *x,
                            double depth, double size)
{
    if (depth <= 1e-6 * size)
        return 1;
    if (kind_of(ground->shape) == RB_FIELD)
        return depth <= field_height(ground, x) - x[2] + 1e-9 * size;
    return is_clear(ground, x, (1.0 - 1e-9) * distance_to(t, x));
}

/* The corners of A on a triangle. */
static inline void corners_on(const struct placed *a, const struct placed *ground,
                              const struct triangle *t, double margin, double soon,
                              struct patches *all)
{
    const int field = kind_of(ground->shape) == RB_FIELD;
    const double size = a->shape[RB_SHAPE_SIZE], tiny = 1e-9 * size;
    double down[3], x[RB_CLIPPED][3], way[3];
    difference(t->x[1], t->x[0], way);
    const double most = size > 0.0 ? 0.5 * size : norm(way);
    times(-1.0, t->n, down);
    const int n = face(a, down, fmax(margin, tiny), x);
    for (int k = 0; k < n; k++) {
        along(x[k], -radius_of(a->shape), t->n, x[k]);
        difference(x[k], t->x[0], way);
        const double gap = dot(t->n, way);
        if (gap > margin || (!field && gap < -most))
            continue;
        if (!(field && is_below(t, x[k], gap, tiny)) && !is_over(ground, t, x[k], gap, tiny))
            continue;
        if (!comes_out(ground, t, x[k], -gap, size))
            continue;
        along(x[k], -0.5 * gap, t->n, x[k]);
        add_ranked(all, t->n, x[k], gap, k, tiny, soon);
    }
}

/* An edge of the ground as a shape. */
static inline void as_segment(const double *from, const double *to, double *row, struct placed *out)
{
    double z[3], u[3], v[3];
    difference(to, from, z);
    const double length = normalize(z);
    memset(row, 0, RB_SHAPE_VERTICES * sizeof *row);
    row[0] = RB_SEGMENT;
    row[3] = 0.5 * length;
    row[RB_SHAPE_SIZE] = length;
    across(z, u, v);
    out->shape = row;
    along(from, 0.5 * length, z, out->p);
    for (int i = 0; i < 3; i++) {
        out->r[3 * i] = u[i];
        out->r[3 * i + 1] = v[i];
        out->r[3 * i + 2] = z[i];
    }
}

/* A against a segment: one that only just touches is pushed up into A, for the normal of an overlap
   is well defined. */
static inline void on_segment(const struct placed *a, const struct placed *edge, const double *up,
                              double margin, struct manifold *m)
{
    struct proximity c = {{0.0, 0.0, 1.0}, 0.0, {0.0, 0.0, 0.0}, {0.0, 0.0, 0.0}};
    m->count = 0;
    core_proximity(a, edge, &c);
    if (!is_line(a) &&
        fabs(c.gap) <= 1e-3 * fmin(a->shape[RB_SHAPE_SIZE], edge->shape[RB_SHAPE_SIZE])) {
        memcpy(c.n, up, sizeof c.n);
        c.gap = fmax(c.gap, 0.0);
        pushed_together(a, edge, &c);
    }
    add_radii(a, edge, &c);
    memcpy(m->n, c.n, sizeof m->n);
    if (c.gap > margin)
        return;
    faces_together(a, edge, margin, m);
    add_deepest(m, &c, 1e-9 * a->shape[RB_SHAPE_SIZE], margin);
}

/* Whether a point of an edge, in parts of it, stands out along n: between its triangles, or at its
   end. */
static inline int stands_out(const struct placed *ground, const struct triangle *t,
                             const struct triangle *next, int edge, const double *n, double part)
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

/* A on the edges of a triangle that stand out, each of the triangle with the smaller number. */
static inline void on_edges(const struct placed *a, const struct placed *ground,
                            const struct triangle *t, double margin, double soon,
                            struct patches *all)
{
    const double tiny = 1e-9 * a->shape[RB_SHAPE_SIZE];
    for (int edge = 0; edge < 3; edge++) {
        const int other = beyond(ground->shape, t->id, edge);
        const double *from = t->x[edge];
        double row[RB_SHAPE_VERTICES], up[3], way[3];
        struct triangle next;
        struct placed segment;
        struct manifold m;
        if (other >= 0 && other < t->id)
            continue;
        if (other >= 0)
            find_triangle(ground, other, &next);
        if (bend_at(t, other < 0 ? NULL : &next) <= 0)
            continue;
        memcpy(up, t->n, sizeof up);
        if (other >= 0)
            along(up, 1.0, next.n, up);
        normalize(up);
        as_segment(from, t->x[(edge + 1) % 3], row, &segment);
        on_segment(a, &segment, up, margin, &m);
        if (!(dot(m.n, up) > 0.0))
            continue;
        for (int k = 0; k < m.count; k++) {
            double z[3];
            axis_of(&segment, 2, z);
            difference(m.point[k], from, way);
            const double part = dot(way, z) / row[RB_SHAPE_SIZE];
            if (stands_out(ground, t, other < 0 ? NULL : &next, edge, m.n, part))
                add_ranked(all, m.n, m.point[k], m.gap[k], RB_RANKS, tiny, soon);
        }
    }
}

/* A on one triangle, where it is near. */
static inline void on_triangle(const struct placed *a, const struct placed *ground, int id,
                               const struct query *q, double margin, double soon,
                               struct patches *all)
{
    struct triangle t;
    find_triangle(ground, id, &t);
    if (!is_near(&t, q, kind_of(ground->shape) == RB_FIELD))
        return;
    corners_on(a, ground, &t, margin, soon, all);
    on_edges(a, ground, &t, margin, soon, all);
}

/* Whether a cell is the first of those asked for that a triangle is in. */
static inline int is_home(const struct placed *ground, const struct triangle *t, const int *cell,
                          const int *first)
{
    const double *row = ground->shape;
    for (int i = 0; i < 2; i++) {
        const double low = fmin(t->x[0][i], fmin(t->x[1][i], t->x[2][i])) - ground->p[i];
        const int own =
            cell_at(low, row[RB_MESH_X + i], row[RB_MESH_DX + i], 0, (int)row[RB_MESH_NX + i] - 1);
        if (cell[i] != (own > first[i] ? own : first[i]))
            return 0;
    }
    return 1;
}

/* A on the triangles of a cell of a mesh, each in the first of the cells asked for that it is
   in. */
static inline void on_cell(const struct placed *a, const struct placed *ground, const int *cell,
                           const int *first, const struct query *q, double margin, double soon,
                           struct patches *all)
{
    int count = 0;
    const double *list = cell_list(ground->shape, cell[0], cell[1], &count);
    for (int k = 0; k < count; k++) {
        struct triangle t;
        find_corners(ground, (int)list[k], &t);
        if (is_home(ground, &t, cell, first))
            on_triangle(a, ground, (int)list[k], q, margin, soon, all);
    }
}

/* What is around A. */
static inline void around(const struct placed *a, double margin, struct query *q)
{
    const double wide = radius_of(a->shape) + fmax(margin, 0.0) + 1e-9 * a->shape[RB_SHAPE_SIZE];
    for (int i = 0; i < 3; i++) {
        const double axis[3] = {i == 0, i == 1, i == 2}, back[3] = {-axis[0], -axis[1], -axis[2]};
        double top[3];
        support(a, axis, top);
        q->high[i] = top[i] + wide;
        support(a, back, top);
        q->low[i] = top[i] - wide;
    }
}

/* The cells of the ground, from the first to the last along each axis, that are between two
   corners. */
static inline void find_cells(const struct placed *ground, const double *low, const double *high,
                              int *first, int *last)
{
    const double *row = ground->shape;
    const int field = kind_of(row) == RB_FIELD;
    const double *corner = row + (field ? RB_FIELD_X : RB_MESH_X),
                 *cells = row + (field ? RB_FIELD_DX : RB_MESH_DX);
    for (int i = 0; i < 2; i++) {
        const int most = (int)row[(field ? RB_FIELD_NX : RB_MESH_NX) + i] - 1,
                  least = field ? -1 : 0;
        first[i] = cell_at(low[i] - ground->p[i], corner[i], cells[i], least, most);
        last[i] = cell_at(high[i] - ground->p[i], corner[i], cells[i], least, most);
    }
}

/* The first of the two triangles of a cell of a field. */
static inline int first_of_cell(const double *row, const int *cell)
{
    return 2 * ((cell[0] + 1) * ((int)row[RB_FIELD_NY] + 1) + cell[1] + 1);
}

/* Where A touches the ground or is closer than `margin`: up to four points for each normal. */
static inline void on_ground(const struct placed *a, const struct placed *ground, double margin,
                             double soon, struct patches *all)
{
    const double *row = ground->shape, size = a->shape[RB_SHAPE_SIZE];
    const int field = kind_of(row) == RB_FIELD;
    int first[2], last[2], cell[2];
    struct query q;
    all->count = all->left_out = 0;
    around(a, margin, &q);
    find_cells(ground, q.low, q.high, first, last);
    for (cell[0] = first[0]; cell[0] <= last[0]; cell[0]++) {
        for (cell[1] = first[1]; cell[1] <= last[1]; cell[1]++) {
            const int id = field ? first_of_cell(row, cell) : 0;
            for (int half = 0; field && half < 2; half++)
                on_triangle(a, ground, id + half, &q, margin, soon + 1e-3 * size, all);
            if (!field)
                on_cell(a, ground, cell, first, &q, margin, soon + 1e-3 * size, all);
        }
    }
    for (int k = 0; k < all->count; k++) {
        all->flat[k] = all->rank[k][all->one[k].count - 1] < RB_RANKS;
        reduce_patch(all, k, soon + 1e-3 * size, 1e-9 * size);
    }
}

/* The same of any two shapes, of which the second may be such ground. */
static inline void meet(const struct placed *a, const struct placed *b, double margin, double soon,
                        struct patches *all)
{
    if (is_ground(b)) {
        on_ground(a, b, margin, soon, all);
        for (int k = 0; k < all->count; k++)
            order_manifold(a, &all->one[k]);
        return;
    }
    all->count = 1;
    all->left_out = 0;
    all->flat[0] = kind_of(b->shape) == RB_HALF_SPACE;
    collide(a, b, margin, soon, &all->one[0]);
}

#endif
