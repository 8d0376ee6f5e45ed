/* Collision shapes: support points, inner spheres and feature edges. The first part is the algebra of
   vectors of three doubles, of rotation matrices stored by rows, and of pairs of doubles. */

#ifndef RB_SHAPES_H
#define RB_SHAPES_H

#include <float.h>
#include <math.h>
#include <string.h>

/* ---- vectors of three doubles, and rotation matrices of nine doubles by rows ----

   The functions use only sums, products, quotients and square roots, so that every machine computes
   the same bits. Loops are unrolled by hand, because compilers do not unroll such short loops by
   default. */

static inline double rb_dot(const double *a, const double *b)
{
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

static inline double rb_norm(const double *a)
{
    return sqrt(rb_dot(a, a));
}

static inline void rb_cross(const double *a, const double *b, double *out)
{
    const double x = a[1] * b[2] - a[2] * b[1], y = a[2] * b[0] - a[0] * b[2],
                 z = a[0] * b[1] - a[1] * b[0];
    out[0] = x;
    out[1] = y;
    out[2] = z;
}

static inline void rb_subtract(const double *a, const double *b, double *out)
{
    out[0] = a[0] - b[0];
    out[1] = a[1] - b[1];
    out[2] = a[2] - b[2];
}

/* out = a + s b */
static inline void rb_axpy(const double *a, double s, const double *b, double *out)
{
    out[0] = a[0] + s * b[0];
    out[1] = a[1] + s * b[1];
    out[2] = a[2] + s * b[2];
}

static inline void rb_scale(double s, const double *a, double *out)
{
    out[0] = s * a[0];
    out[1] = s * a[1];
    out[2] = s * a[2];
}

/* Return the larger of two numbers, or b if one is NaN. Unlike fmax, this needs no function
   call. */
static inline double rb_max(double a, double b)
{
    return a > b ? a : b;
}

/* Return the smaller of two numbers, or b if one is NaN. */
static inline double rb_min(double a, double b)
{
    return a < b ? a : b;
}

/* Normalize a vector; the zero vector becomes the z axis. Returns the length before. The division
   by the largest component prevents overflow and underflow of the squares. */
static inline double rb_normalize(double *a)
{
    const double most = fmax(fabs(a[0]), fmax(fabs(a[1]), fabs(a[2])));
    if (!(most > 0.0)) {
        a[0] = a[1] = 0.0;
        a[2] = 1.0;
        return 0.0;
    }
    rb_scale(1.0 / most, a, a);
    const double length = rb_norm(a);
    rb_scale(1.0 / length, a, a);
    return most * length;
}

/* out = R a */
static inline void rb_rotate(const double *r, const double *a, double *out)
{
    const double x = rb_dot(r, a), y = rb_dot(r + 3, a), z = rb_dot(r + 6, a);
    out[0] = x;
    out[1] = y;
    out[2] = z;
}

/* out = R^T a */
static inline void rb_rotate_back(const double *r, const double *a, double *out)
{
    const double x = r[0] * a[0] + r[3] * a[1] + r[6] * a[2];
    const double y = r[1] * a[0] + r[4] * a[1] + r[7] * a[2];
    const double z = r[2] * a[0] + r[5] * a[1] + r[8] * a[2];
    out[0] = x;
    out[1] = y;
    out[2] = z;
}

/* out = A B */
static inline void rb_multiply3(const double *a, const double *b, double *out)
{
    double c[9];
    for (int i = 0; i < 9; i += 3) {
        c[i] = a[i] * b[0] + a[i + 1] * b[3] + a[i + 2] * b[6];
        c[i + 1] = a[i] * b[1] + a[i + 1] * b[4] + a[i + 2] * b[7];
        c[i + 2] = a[i] * b[2] + a[i + 1] * b[5] + a[i + 2] * b[8];
    }
    memcpy(out, c, sizeof c);
}

/* Pose of a frame: rotation matrix by rows, and position. */
struct rb_pose {
    double r[9], p[3];
};

/* Return the pose that twelve numbers of a table contain. */
static inline const struct rb_pose *rb_pose_of(const double *numbers)
{
    return (const struct rb_pose *)numbers;
}

/* Compute two unit vectors that form a right-handed frame with the unit vector n: u = n x e, v = n
   x u. The axis e belongs to the smallest component of n, so that n x e is far from zero. */
static inline void rb_tangent_basis(const double *n, double *u, double *v)
{
    const double x = fabs(n[0]), y = fabs(n[1]), z = fabs(n[2]);
    const double e[3] = {x <= y && x <= z, y < x && y <= z, z < x && z < y};
    rb_cross(n, e, u);
    rb_normalize(u);
    rb_cross(n, u, v);
}

/* Return a number from 0 to 4 that increases with the angle of (x, y), without trigonometry:

     1 - x / (|x| + |y|) for y >= 0,   3 + x / (|x| + |y|) for y < 0 */
static inline double rb_pseudo_angle(double x, double y)
{
    const double whole = fabs(x) + fabs(y) + DBL_MIN;
    return y >= 0.0 ? 1.0 - x / whole : 3.0 + x / whole;
}

static inline double rb_clamp(double x, double low, double high)
{
    return x < low ? low : (x > high ? high : x);
}

/* ---- pairs of doubles ----

   Each component has the same result as the scalar operation, so all compilers and processors
   compute the same bits. */

#if defined(__GNUC__)
typedef double rb_pair __attribute__((vector_size(16)));
#else
typedef struct {
    double x, y;
} rb_pair;
#endif

static inline rb_pair rb_pair_make(double x, double y)
{
    const rb_pair a = {x, y};
    return a;
}

static inline rb_pair rb_pair_both(double x)
{
    return rb_pair_make(x, x);
}

#if defined(__GNUC__)
static inline double rb_pair_first(rb_pair a)
{
    return a[0];
}

static inline double rb_pair_second(rb_pair a)
{
    return a[1];
}

static inline rb_pair rb_pair_add(rb_pair a, rb_pair b)
{
    return a + b;
}

static inline rb_pair rb_pair_subtract(rb_pair a, rb_pair b)
{
    return a - b;
}

static inline rb_pair rb_pair_multiply(rb_pair a, rb_pair b)
{
    return a * b;
}
#else
static inline double rb_pair_first(rb_pair a)
{
    return a.x;
}

static inline double rb_pair_second(rb_pair a)
{
    return a.y;
}

static inline rb_pair rb_pair_add(rb_pair a, rb_pair b)
{
    return rb_pair_make(a.x + b.x, a.y + b.y);
}

static inline rb_pair rb_pair_subtract(rb_pair a, rb_pair b)
{
    return rb_pair_make(a.x - b.x, a.y - b.y);
}

static inline rb_pair rb_pair_multiply(rb_pair a, rb_pair b)
{
    return rb_pair_make(a.x * b.x, a.y * b.y);
}
#endif

/* y += s x for n numbers. */
static inline void rb_axpy_n(int n, double s, const double *x, double *y)
{
    int i = 0;
    for (; i + 1 < n; i += 2) {
        const rb_pair sum =
            rb_pair_add(rb_pair_make(y[i], y[i + 1]),
                        rb_pair_multiply(rb_pair_both(s), rb_pair_make(x[i], x[i + 1])));
        y[i] = rb_pair_first(sum);
        y[i + 1] = rb_pair_second(sum);
    }
    if (i < n)
        y[i] += s * x[i];
}

/* ---- shapes as rows of a table of doubles ----

   A row is [kind, a, b, c, radius, number of vertices, size, graph | vertices]. A shape is its
   core, inflated by `radius`; a, b and c are the half lengths of the core along the axes of its
   frame. `size` is the smallest length of the whole shape; tolerances are relative to it. Terrain
   rows differ (terrain.h).

   `graph` is the index of the hull graph in the row, or 0 for a shape without a graph. The graph
   contains the start vertex of each cell of directions, the start of each vertex in the list of
   neighbours, the end of the list, and the list. Points inside the hull have no neighbours. */

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
enum { RB_SHAPE_RADIUS = 4, RB_SHAPE_COUNT, RB_SHAPE_SIZE, RB_SHAPE_GRAPH, RB_SHAPE_VERTICES };
enum { RB_HULL_VERTICES = 256 };        /* largest number of vertices of a hull */
enum { RB_START_CELLS = 4 };            /* cells of directions along each edge of a cube face */
enum { RB_FACE = 12 };                  /* largest number of vertices of a clipped face */
#define RB_HALF_ROOT 0.7071067811865476 /* sqrt(1/2) */
/* A cap of a cylinder touches if the cosine of the angle between axis and normal is larger, else
   its side. It is about the cosine of 45 degrees. */
#define RB_CAP_COSINE 0.7
#define RB_COINCIDENT 1e-9 /* relative to the size: closer points are equal up to rounding errors */
/* Thickness of a hull facet relative to the size. Coplanar vertices differ by the rounding errors
   of their description. Found by trial. */
#define RB_FACET_THICKNESS 1e-3

/* A placed shape: x = R x_shape + p. */
struct rb_placed_shape {
    const double *shape;
    double r[9], p[3];
};

/* Place the shape of a table row that has this pose in a body with the rotation matrix r and the
   position x. */
static inline void rb_place_shape(const double *row, const struct rb_pose *pose, const double *r,
                                  const double *x, struct rb_placed_shape *out)
{
    out->shape = row;
    rb_multiply3(r, pose->r, out->r);
    rb_rotate(r, pose->p, out->p);
    rb_axpy(x, 1.0, out->p, out->p);
}

/* Set of the kinds of shapes of a scene, one bit for each kind. The generated tables define it, so
   that the compiler leaves out the code for other kinds. */
#ifndef RB_KINDS_PRESENT
#define RB_KINDS_PRESENT ((1 << RB_SHAPE_KINDS) - 1)
#endif

static inline int rb_shape_kind(const double *shape)
{
    return (int)shape[0];
}

/* Return 1 if the shape is of this kind; 0 at compile time if the scene has no shape of it. */
static inline int rb_is_kind(const double *shape, int kind)
{
    return (RB_KINDS_PRESENT & 1 << kind) && rb_shape_kind(shape) == kind;
}

static inline double rb_shape_radius(const double *shape)
{
    return shape[RB_SHAPE_RADIUS];
}

/* The neighbours of a hull vertex: a range of the list of neighbours. */
struct rb_hull_neighbours {
    const double *at, *end;
};

static inline const double *hull_vertex(const double *shape, int k)
{
    return shape + RB_SHAPE_VERTICES + 3 * k;
}

/* Cells of directions on the six faces of a cube. */
enum { RB_ALL_CELLS = 6 * RB_START_CELLS * RB_START_CELLS };

/* Return the neighbours of vertex k of a hull with a graph. */
static inline struct rb_hull_neighbours hull_neighbours(const double *shape, int k)
{
    const double *start = shape + (int)shape[RB_SHAPE_GRAPH] + RB_ALL_CELLS,
                 *list = start + (int)shape[RB_SHAPE_COUNT] + 1;
    const struct rb_hull_neighbours found = {list + (int)start[k], list + (int)start[k + 1]};
    return found;
}

static inline int direction_tick(double part)
{
    const int tick = (int)((part + 1.0) * (0.5 * RB_START_CELLS));
    return tick < RB_START_CELLS - 1 ? tick : RB_START_CELLS - 1;
}

/* Return the cell of a direction: the face of the cube that it passes through, and the cell of that
   face. */
static inline int direction_cell(const double *d)
{
    const double x = fabs(d[0]), y = fabs(d[1]), z = fabs(d[2]);
    const int i = x >= y && x >= z ? 0 : (y >= z ? 1 : 2);
    const double most = i == 0 ? x : (i == 1 ? y : z), part = most > 0.0 ? 1.0 / most : 0.0;
    const int u = direction_tick(part * d[(i + 1) % 3]), v = direction_tick(part * d[(i + 2) % 3]);
    return ((2 * i + (d[i] < 0.0)) * RB_START_CELLS + u) * RB_START_CELLS + v;
}

/* Return the index of the hull vertex farthest along d, by hill climbing from the start vertex of
   the cell of d. A vertex of a convex polytope without a higher neighbour is the highest one.
   Without a graph, the function compares all vertices. */
static inline int farthest_vertex(const double *shape, const double *d)
{
    const int n = (int)shape[RB_SHAPE_COUNT], graph = (int)shape[RB_SHAPE_GRAPH];
    int best = graph > 0 ? (int)shape[graph + direction_cell(d)] : 0, from = graph > 0 ? -1 : best;
    double most = rb_dot(hull_vertex(shape, best), d);
    while (from != best) {
        const struct rb_hull_neighbours next = hull_neighbours(shape, from = best);
        for (const double *k = next.at; k < next.end; k++) {
            const double s = rb_dot(hull_vertex(shape, (int)*k), d);
            if (s > most) {
                most = s;
                best = (int)*k;
            }
        }
    }
    for (int k = 1; k < n && graph == 0; k++) {
        const double s = rb_dot(hull_vertex(shape, k), d);
        if (s > most) {
            most = s;
            best = k;
        }
    }
    return best;
}

static inline double rb_copy_sign(double length, double d)
{
    return d < 0.0 ? -length : length;
}

/* Compute the support point of a core along d = `toward`, in the frame of the shape:

     segment, box   x_i = half_i sign(d_i)
     cylinder       (x, y) = radius (d_x, d_y) / |(d_x, d_y)|,  z = half_z sign(d_z)
     ellipsoid      x_i = a_i w_i,  w = normalize(a_1 d_1, a_2 d_2, a_3 d_3)
     hull           the vertex with the largest d . x

   If d is parallel to the axis of a cylinder up to rounding errors (1e-14), the result is the
   centre of the cap. */
static inline void rb_local_support(const double *shape, const double *toward, double *out)
{
    const double *half = shape + 1, d[3] = {toward[0], toward[1], toward[2]};
    out[0] = out[1] = out[2] = 0.0;
    if (rb_is_kind(shape, RB_SEGMENT)) {
        out[2] = rb_copy_sign(half[2], d[2]);
    } else if (rb_is_kind(shape, RB_BOX) || rb_is_kind(shape, RB_MESH)) {
        for (int i = 0; i < 3; i++) /* for a mesh: its bounding box */
            out[i] = rb_copy_sign(half[i], d[i]);
    } else if (rb_is_kind(shape, RB_CYLINDER)) {
        const double rim = sqrt(d[0] * d[0] + d[1] * d[1]);
        out[0] = rim > 1e-14 * fabs(d[2]) ? half[0] * (d[0] / rim) : 0.0;
        out[1] = rim > 1e-14 * fabs(d[2]) ? half[0] * (d[1] / rim) : 0.0;
        out[2] = rb_copy_sign(half[2], d[2]);
    } else if (rb_is_kind(shape, RB_ELLIPSOID)) {
        double w[3];
        for (int i = 0; i < 3; i++)
            w[i] = half[i] * d[i];
        rb_normalize(w);
        for (int i = 0; i < 3; i++)
            out[i] = half[i] * w[i];
    } else if (rb_is_kind(shape, RB_HULL)) {
        memcpy(out, shape + RB_SHAPE_VERTICES + 3 * farthest_vertex(shape, d), 3 * sizeof *out);
    }
}

/* Compute the support point in base coordinates. */
static inline void rb_support(const struct rb_placed_shape *a, const double *d, double *out)
{
    double local[3];
    rb_rotate_back(a->r, d, local);
    rb_local_support(a->shape, local, local);
    rb_rotate(a->r, local, out);
    rb_axpy(out, 1.0, a->p, out);
}

/* Return the slope of a hull edge: its length along d divided by its length perpendicular to d. If
   `side` is given, the divisor is the length along `side`. Returns -infinity for coincident
   vertices, and for vertices that are not on the side `side`. */
static inline double edge_slope(const double *shape, int from, int to, const double *d,
                                const double *side)
{
    double way[3], flat[3];
    rb_subtract(hull_vertex(shape, to), hull_vertex(shape, from), way);
    const double drop = rb_dot(way, d);
    rb_axpy(way, -drop, d, flat);
    const double length = side ? rb_dot(way, side) : rb_norm(flat);
    return length > RB_COINCIDENT * shape[RB_SHAPE_SIZE] ? drop / length : -INFINITY;
}

/* Return the other end of the hull edge from the vertex `from` that descends least along d, which
   has the largest `edge_slope`. If `side` is given, the function considers only vertices on that
   side. Returns -1 if no such vertex exists. */
static inline int least_sloped_vertex(const double *shape, int from, const double *d,
                                      const double *side)
{
    static const struct rb_hull_neighbours none = {NULL, NULL};
    const int graph = (int)shape[RB_SHAPE_GRAPH];
    const struct rb_hull_neighbours near = graph > 0 ? hull_neighbours(shape, from) : none;
    const int n = graph > 0 ? (int)(near.end - near.at) : (int)shape[RB_SHAPE_COUNT];
    int best = -1;
    double most = -INFINITY;
    for (int k = 0; k < n; k++) {
        const int to = graph > 0 ? (int)near.at[k] : k;
        const double slope = edge_slope(shape, from, to, d, side);
        if (slope > most) {
            most = slope;
            best = to;
        }
    }
    return best;
}

/* Compute the unit normal of a hull facet at the support vertex along d: the facet whose normal is
   closest to d. The facet contains the edge that descends least. Its third vertex descends least
   perpendicular to this edge, on one of the two sides (gift wrapping). */
static inline void facet_normal(const double *shape, const double *d, double *out)
{
    const int from = farthest_vertex(shape, d), other = least_sloped_vertex(shape, from, d, NULL);
    double edge[3], up[3], side[3], best = -INFINITY;
    memcpy(out, d, 3 * sizeof *out);
    if (other < 0)
        return;
    rb_subtract(hull_vertex(shape, other), hull_vertex(shape, from), edge);
    rb_normalize(edge);
    rb_axpy(d, -rb_dot(d, edge), edge, up);
    if (!(rb_normalize(up) > 0.0))
        return;
    for (int way = 0; way < 2; way++) {
        double arm[3], n[3];
        rb_cross(edge, up, side);
        rb_scale(way ? -1.0 : 1.0, side, side);
        const int third = least_sloped_vertex(shape, from, up, side);
        if (third < 0)
            continue;
        rb_subtract(hull_vertex(shape, third), hull_vertex(shape, from), arm);
        rb_cross(edge, arm, n);
        rb_normalize(n);
        if (rb_dot(n, d) < 0.0)
            rb_scale(-1.0, n, n);
        if (rb_dot(n, d) > best) {
            best = rb_dot(n, d);
            memcpy(out, n, sizeof n);
        }
    }
}

/* Collect the indices of the hull vertices that are not below `low` along d. With a graph, the
   search spreads from the vertex `top` over the neighbours, because these vertices of a convex
   polytope are connected. */
static inline int vertices_above(const double *shape, const double *d, double low, int top,
                                 int *out)
{
    const int count = (int)shape[RB_SHAPE_COUNT];
    unsigned char known[RB_HULL_VERTICES];
    int n = 0;
    if ((int)shape[RB_SHAPE_GRAPH] == 0) {
        for (int k = 0; k < count; k++)
            if (!(rb_dot(hull_vertex(shape, k), d) < low))
                out[n++] = k;
        return n;
    }
    memset(known, 0, (size_t)count);
    known[top] = 1;
    out[n++] = top;
    for (int i = 0; i < n; i++) {
        const struct rb_hull_neighbours next = hull_neighbours(shape, out[i]);
        for (const double *at = next.at; at < next.end; at++) {
            const int k = (int)*at;
            if (!known[k] && !(rb_dot(hull_vertex(shape, k), d) < low))
                out[n++] = k;
            known[k] = 1;
        }
    }
    return n;
}

/* Select RB_FACE of `count` hull vertices: the support vertex `top`, and vertices that are far from
   the centre c of all of them in evenly spaced directions w perpendicular to d. A body that rests
   on a face of many vertices would tilt if the selected vertices were on one side of the face.
   Lower vertices have a smaller weight:

     maximize (1 - (h_top - h) / thick) w . (p - c)   with the height h along d */
static inline void spread_vertices(const double *shape, const double *d, double thick, int top,
                                   const int *from, int count, double (*out)[3])
{
    const double high = rb_dot(hull_vertex(shape, top), d);
    double u[3], v[3], w[3], centre[3] = {0.0, 0.0, 0.0}, weight[RB_HULL_VERTICES];
    for (int k = 0; k < count; k++) {
        const double *p = hull_vertex(shape, from[k]);
        rb_axpy(centre, 1.0 / count, p, centre);
        weight[k] = from[k] == top ? -1.0 : fmax(0.0, 1.0 - (high - rb_dot(p, d)) / thick);
    }
    rb_tangent_basis(d, u, v);
    memcpy(out[0], hull_vertex(shape, top), sizeof *out);
    for (int i = 1; i < RB_FACE; i++) {
        const double angle = 6.283185307179586 * i / (RB_FACE - 1);
        double most = -INFINITY;
        int best = 0; /* the vertex for a pose with NaN */
        rb_scale(cos(angle), u, w);
        rb_axpy(w, sin(angle), v, w);
        for (int k = 0; k < count; k++) {
            double arm[3];
            rb_subtract(hull_vertex(shape, from[k]), centre, arm);
            if (weight[k] >= 0.0 && weight[k] * rb_dot(w, arm) > most) {
                most = weight[k] * rb_dot(w, arm);
                best = k;
            }
        }
        memcpy(out[i], hull_vertex(shape, from[best]), sizeof *out);
        weight[best] = -1.0;
    }
}

/* Collect the hull vertices that are less than `thick` below the support vertex along d, ordered by
   angle about d (insertion sort). If there are more than RB_FACE, `spread_vertices` selects. */
static inline int hull_face(const double *shape, const double *d, double thick, double (*out)[3])
{
    const int top = farthest_vertex(shape, d);
    const double low = rb_dot(hull_vertex(shape, top), d) - thick;
    double u[3], v[3], middle[3] = {0.0, 0.0, 0.0}, angle[RB_FACE] = {0.0};
    int at_top[RB_HULL_VERTICES], n = 0;
    const int count = vertices_above(shape, d, low, top, at_top);
    if (count > RB_FACE)
        spread_vertices(shape, d, thick, top, at_top, count, out);
    for (n = 0; n < count && n < RB_FACE; n++)
        if (count <= RB_FACE)
            memcpy(out[n], hull_vertex(shape, at_top[n]), sizeof *out);
    for (int k = 0; k < n; k++)
        rb_axpy(middle, 1.0 / n, out[k], middle);
    rb_tangent_basis(d, u, v);
    for (int k = 0; k < n; k++) {
        double arm[3], kept[3];
        rb_subtract(out[k], middle, arm);
        const double turned = rb_pseudo_angle(rb_dot(arm, u), rb_dot(arm, v));
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

/* Compute the corners of the box face whose normal is closest to d. */
static inline int box_face(const double *half, const double *d, double (*out)[3])
{
    const double x = fabs(d[0]), y = fabs(d[1]), z = fabs(d[2]);
    const int i = x >= y && x >= z ? 0 : (y >= z ? 1 : 2), j = (i + 1) % 3, k = (i + 2) % 3;
    for (int corner = 0; corner < 4; corner++) {
        out[corner][i] = rb_copy_sign(half[i], d[i]);
        out[corner][j] = corner == 0 || corner == 3 ? half[j] : -half[j];
        out[corner][k] = corner < 2 ? half[k] : -half[k];
    }
    return 4;
}

/* Compute eight points of the cylinder cap that faces d, beginning with the point in the direction
   of d. If the side faces d, compute the two ends of the line along the side. */
static inline int cylinder_face(const double *half, const double *d, double (*out)[3])
{
    static const double c[8] = {1.0,  RB_HALF_ROOT,  0.0, -RB_HALF_ROOT,
                                -1.0, -RB_HALF_ROOT, 0.0, RB_HALF_ROOT};
    const double rim = sqrt(d[0] * d[0] + d[1] * d[1]);
    /* the direction of a shorter vector would consist of rounding errors: any direction will do */
    const double x = rim > 1e-9 ? d[0] / rim : 1.0, y = rim > 1e-9 ? d[1] / rim : 0.0;
    const int count = fabs(d[2]) > RB_CAP_COSINE ? 8 : 2;
    for (int k = 0; k < count; k++) {
        const double cosine = count == 8 ? c[k] : 1.0, sine = count == 8 ? c[(k + 6) % 8] : 0.0;
        out[k][0] = half[0] * (cosine * x - sine * y);
        out[k][1] = half[0] * (cosine * y + sine * x);
        out[k][2] = count == 8 ? rb_copy_sign(half[2], d[2]) : (k == 0 ? half[2] : -half[2]);
    }
    return count;
}

/* Compute the support feature of a core along the unit vector d: the ordered vertices of a face, an
   edge or a point, in base coordinates. For a hull with `thick` = 0 it is the facet whose normal is
   closest to d. For `thick` > 0 it is all vertices less than `thick` below the support vertex. */
static inline int rb_support_face(const struct rb_placed_shape *a, const double *d, double thick,
                                  double (*out)[3])
{
    const double *shape = a->shape;
    double local[3], up[3];
    int n = 1;
    rb_rotate_back(a->r, d, local);
    memcpy(up, local, sizeof up);
    if (rb_is_kind(shape, RB_HULL) && !(thick > 0.0))
        facet_normal(shape, local, up);
    if (rb_is_kind(shape, RB_BOX))
        n = box_face(shape + 1, local, out);
    else if (rb_is_kind(shape, RB_CYLINDER))
        n = cylinder_face(shape + 1, local, out);
    else if (rb_is_kind(shape, RB_HULL))
        n = hull_face(shape, up, fmax(thick, RB_FACET_THICKNESS * shape[RB_SHAPE_SIZE]), out);
    else
        rb_local_support(shape, local, out[0]);
    if (rb_is_kind(shape, RB_SEGMENT)) {
        n = 2;
        memcpy(out[1], out[0], sizeof *out);
        out[1][2] = -out[0][2];
    }
    for (int k = 0; k < n; k++) {
        rb_rotate(a->r, out[k], out[k]);
        rb_axpy(out[k], 1.0, a->p, out[k]);
    }
    return n;
}

static inline void rb_shape_axis(const struct rb_placed_shape *a, int i, double *out)
{
    for (int k = 0; k < 3; k++)
        out[k] = a->r[3 * k + i];
}

/* ---- edges of cores that are nearly perpendicular to a normal ---- */

enum { RB_EDGES = 3 }; /* largest number of edges of one core */
/* [rad] edges with a smaller sine are parallel: their cross product gives no accurate normal */
#define RB_PARALLEL 1e-3

static inline int add_edge(const double *from, const double *to, const double *d, double most,
                           double (*edge)[3], int count)
{
    rb_subtract(to, from, edge[count]);
    rb_normalize(edge[count]);
    return count + (fabs(rb_dot(edge[count], d)) < most);
}

/* Collect the hull edges at the support vertex along d: the edge that descends least, and its
   neighbours on both sides. */
static inline int hull_edges(const struct rb_placed_shape *a, const double *d, double most,
                             double (*edge)[3])
{
    const double *shape = a->shape;
    const int from = farthest_vertex(shape, d), first = least_sloped_vertex(shape, from, d, NULL);
    const double *corner = hull_vertex(shape, from);
    double up[3], side[3];
    int count = first < 0 ? 0 : add_edge(corner, hull_vertex(shape, first), d, most, edge, 0);
    if (count == 0)
        return 0;
    rb_axpy(d, -rb_dot(d, edge[0]), edge[0], up);
    rb_normalize(up);
    rb_cross(edge[0], up, side);
    for (int way = 0; way < 2; way++) {
        const int next = least_sloped_vertex(shape, from, up, side);
        if (next >= 0)
            count = add_edge(corner, hull_vertex(shape, next), d, most, edge, count);
        rb_scale(-1.0, side, side);
    }
    for (int k = 0; k < count; k++)
        rb_rotate(a->r, edge[k], edge[k]);
    return count;
}

/* Collect the edges and face directions that may touch along n, as unit vectors. The cosine of
   their angle with n is below `most`. */
static inline int rb_candidate_edges(const struct rb_placed_shape *a, const double *n, double most,
                                     double (*edge)[3])
{
    const int kind = rb_shape_kind(a->shape);
    double d[3];
    int count = 0;
    rb_rotate_back(a->r, n, d);
    if (kind == RB_HULL)
        return hull_edges(a, d, most, edge);
    const int lies = kind == RB_SEGMENT || (kind == RB_CYLINDER && fabs(d[2]) < RB_HALF_ROOT);
    for (int i = lies ? 2 : 0; i < (kind == RB_CYLINDER && !lies ? 2 : 3); i++)
        if (kind != RB_ELLIPSOID && fabs(d[i]) < most)
            rb_shape_axis(a, i, edge[count++]);
    return count;
}

/* Rotate n so that it is perpendicular to one unit vector e or to two, e and f. Returns 0 if both
   are parallel.

     n' = normalize(n - (n . e) e),   or n' = +- normalize(e x f) */
static inline int rb_rotate_to_edges(const double (*edge)[3], int kept, double *n)
{
    if (kept == 1)
        rb_axpy(n, -rb_dot(n, edge[0]), edge[0], n);
    if (kept == 2) {
        double up[3];
        rb_cross(edge[0], edge[1], up);
        if (rb_norm(up) < RB_PARALLEL)
            return 0;
        rb_scale(rb_dot(up, n) < 0.0 ? -1.0 : 1.0, up, n);
    }
    rb_normalize(n);
    return 1;
}

/* Return the number of edges of a core that are perpendicular to n, up to rounding errors. `edge`
   receives the first one. */
static inline int rb_perpendicular_edges(const struct rb_placed_shape *a, const double *n,
                                         double *edge)
{
    double found[RB_EDGES][3];
    const int count = rb_candidate_edges(a, n, 1e-9, found); /* cosine of a right angle */
    if (count > 0)
        memcpy(edge, found[0], sizeof *found);
    return count;
}

#endif
