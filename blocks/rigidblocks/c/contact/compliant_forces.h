/* Forces of compliant contact between shapes, from positions and velocities.

   Two polytopes, or a polytope and a half-space or terrain, exert a pressure on each other
   (first part of this file). Other shapes touch at the points of `rb_shape_contacts`. Each point
   has a spring and a damper along the normal. Friction acts on the whole pair: a massless patch
   sticks to the body while its force is within the friction cone. The patch has a spring and a
   damper, and a moment about the normal with its own limit. The stiffness of a patch is constant,
   so it conserves energy.

   kernel/model_interface.h lists the generated tables.

   Inputs, in this order:
     of each body       rotation to base coordinates, position of the origin, angular velocity,
                        velocity of the origin
     of each pair       with friction: displacement of the patch (3, in coordinates of the second
                        body), and its rotation
     of each material   K, D, and with friction mu
     last               K_t and D_t if they are given

   Outputs, in this order:
     of each body       wrench about the base origin
     of each pair       with friction: derivatives of the patch state
     of each pair       margin
     of each body       contact indicator, centre of pressure, depth, largest pressure, normal force
     last               number of points and polygons that did not fit, and RB_FELT_ALL numbers of
                        the sensors (sensors.h) */

#ifndef RB_COMPLIANT_FORCES_H
#define RB_COMPLIANT_FORCES_H

#if !defined(RB_TABLES_H) /* else the generated tables precede this header */
#include "tables.h"
#endif

#include "sensors.h"
#include "terrain.h"
#include "workspace.h"

/* ---- pressure of two overlapping polytopes ----

   Each polytope has a pressure field p = k depth(x), which acts on the faces of the other one. The
   depth of a point is its smallest distance inside the planes of the faces.

   The potential energy is k times the integral of the depth over the overlap. The elastic force
   derives from it, so no closed motion gains energy. Each field contributes half of the energy;
   between a polytope and a half-space only the field of the half-space contributes. Faces are
   clipped by the planes, and by the bisectors between the nearest planes. On each part the depth is
   linear, so the integrals of the elastic force and its moment are exact.

   Damping forces are parallel to the normal of the plane. They are proportional to the cosine
   between plane and face, so they do not damp sliding. Parts on which the total force would pull
   are clipped too. The force is then an exact integral of a polynomial, and it stays continuous if
   parts change.

   The row of a polytope is [number of planes, of faces, area of the largest face | planes | faces].
   A plane is its outward unit normal and its distance from the origin along the normal. A face is
   the index of its plane, the number of its corners, and the corners. */

enum { RB_POLY_PLANES, RB_POLY_FACES, RB_POLY_AREA, RB_POLY_HEAD };
enum {
    RB_MOST_PLANES = 128, /* planes of a polytope: hulls with up to 64 vertices have up to 124 */
    RB_QUADRATURE = 6     /* points of the quadrature over a triangle */
};

/* Contact law: force = (k depth + c rate) (1 + dissipation rate), if both factors are positive;
   `rate` is the derivative of the depth. */
struct rb_law {
    double k, c, dissipation;
};

/* Motion of a body, in the order of the inputs: rotation to base coordinates and origin of its
   frame, angular velocity, and velocity of its origin. */
struct rb_moving {
    double r[9], p[3], w[3], v[3];
};

/* Load on A:
     force, moment     total force, and moment about the base origin
     depth, pressure   largest depth and pressure
     holds             depth for the margin of the pair
     left_out          number of points or polygons that did not fit
     load              sum of the normal forces f at points x
     first, second     sums of x f^T and |x|^2 f, with x relative to `origin`
     n, normal         direction of the load, and total force in this direction
     centre, spread    centre of the load, and root mean square distance of the forces from it */
struct rb_pressed {
    double force[3], moment[3], depth, pressure, holds, left_out;
    double load[3], origin[3], first[9], second[3];
    double normal, n[3], centre[3], spread;
};

/* A plane: outward unit normal, and distance from the origin along it. */
struct plane {
    double n[3], s;
};

/* Compute the velocity of a point of a body. */
static inline void material_velocity(const struct rb_moving *body, const double *x, double *out)
{
    double arm[3], u[3];
    rb_subtract(x, body->p, arm);
    rb_cross(body->w, arm, u);
    rb_axpy(body->v, 1.0, u, out);
}

/* Compute the velocity of A relative to B at a point. */
static inline void rb_relative_velocity(const struct rb_moving *a, const struct rb_moving *b,
                                        const double *x, double *out)
{
    double u[3];
    material_velocity(b, x, u);
    material_velocity(a, x, out);
    rb_subtract(out, u, out);
}

/* Add a force f on A at x. */
static inline void add_force(struct rb_pressed *all, const double *x, const double *f)
{
    double moment[3];
    rb_cross(x, f, moment);
    rb_axpy(all->force, 1.0, f, all->force);
    rb_axpy(all->moment, 1.0, moment, all->moment);
}

/* Add a force on A that acts along a normal; it counts as a load. */
static inline void rb_press(struct rb_pressed *all, const double *x, const double *f)
{
    double arm[3];
    add_force(all, x, f);
    rb_subtract(x, all->origin, arm);
    rb_axpy(all->load, 1.0, f, all->load);
    rb_axpy(all->second, rb_dot(arm, arm), f, all->second);
    for (int i = 0; i < 3; i++)
        rb_axpy(all->first + 3 * i, arm[i], f, all->first + 3 * i);
}

/* Compute the direction of the load, its centre, its spread (0 for a single point), and the total
   force along it. */
static inline void rb_find_centre(struct rb_pressed *all)
{
    double arm[3];
    memcpy(all->n, all->load, sizeof all->n);
    const double size = rb_normalize(all->n);
    if (!(size > 0.0))
        return;
    all->normal = fmax(0.0, rb_dot(all->force, all->n));
    rb_rotate(all->first, all->n, arm);
    rb_scale(1.0 / size, arm, arm);
    const double squares = rb_dot(all->second, all->n) / size;
    /* the factor makes the spread of a single point 0 in spite of rounding errors */
    all->spread = sqrt(fmax(0.0, (1.0 - 1e-12) * squares - rb_dot(arm, arm)));
    rb_axpy(all->origin, 1.0, arm, all->centre);
}

/* Compute the planes of a polytope in base coordinates. Returns their number. */
static inline int polytope_planes(const struct rb_placed_shape *a, const double *poly,
                                  struct plane *out)
{
    const int n = (int)poly[RB_POLY_PLANES];
    for (int k = 0; k < n; k++) {
        const double *row = poly + RB_POLY_HEAD + 4 * k;
        rb_rotate(a->r, row, out[k].n);
        out[k].s = row[3] + rb_dot(out[k].n, a->p);
    }
    return n;
}

static inline double plane_depth(const struct plane *plane, const double *x)
{
    return plane->s - rb_dot(plane->n, x);
}

/* A linear field: value `at` the origin, and gradient `by`. */
struct field {
    double at, by[3];
};

static inline double field_value(const struct field *f, const double *x)
{
    return f->at + rb_dot(f->by, x);
}

/* Compute the derivative of the depth of a point of A below a plane of B. With `sign` -1, the point
   belongs to B and the plane to A. */
static inline void rate_below(const struct plane *plane, double sign, const struct rb_moving *a,
                              const struct rb_moving *b, struct field *out)
{
    const double origin[3] = {0.0, 0.0, 0.0};
    double v[3], w[3];
    rb_relative_velocity(a, b, origin, v);
    rb_subtract(a->w, b->w, w);
    rb_cross(plane->n, w, out->by);
    rb_scale(-sign, out->by, out->by);
    out->at = -sign * rb_dot(plane->n, v);
}

/* Add the force of a pressure on A in the direction `way`. The pressure is the product of two
   linear fields, which is integrated over a polygon. If `loads` is 1, the force counts as a
   load. */
static inline void integrate_pressure(double (*x)[3], int n, const struct field *one,
                                      const struct field *other, const double *way, int loads,
                                      struct rb_pressed *all)
{
    /* quadrature of degree 4 (Dunavant 1985) */
    static const double at[2] = {0.445948490915965, 0.091576213509771};
    static const double weight[2] = {0.223381589678011, 0.109951743655322};
    double e[3], f[3], g[3];
    for (int k = 1; k + 1 < n; k++) {
        rb_subtract(x[k], x[0], e);
        rb_subtract(x[k + 1], x[0], f);
        rb_cross(e, f, g);
        const double area = 0.5 * rb_norm(g);
        for (int i = 0; i < RB_QUADRATURE; i++) {
            const double near = at[i / 3], far = 1.0 - 2.0 * near;
            double node[3], force[3];
            rb_axpy(x[0], i % 3 == 0 ? far : near, e, node);
            rb_axpy(node, i % 3 == 1 ? far : near, f, node);
            rb_scale(weight[i / 3] * area * field_value(one, node) * field_value(other, node), way,
                     force);
            if (loads)
                rb_press(all, node, force);
            else
                add_force(all, node, force);
        }
    }
}

/* Clip a polygon to the part in which a field is positive. */
static inline int where_positive(double (*x)[3], int n, const struct field *f)
{
    double down[3];
    rb_scale(-1.0, f->by, down);
    return rb_clip_polygon(x, n, down, f->at, 0.0);
}

/* Add the pressure on a polygon of a face on which the depth below one plane is linear. The force
   is multiplied by `share`. The face belongs to A and the field to B; with `sign` -1, the face
   belongs to B and the field to A. `up` is the outward unit normal of the face. */
static inline void press_polygon(double (*x)[3], int n, const struct plane *plane, const double *up,
                                 const struct rb_law *law, double share, double sign,
                                 const struct rb_moving *a, const struct rb_moving *b,
                                 struct rb_pressed *all)
{
    const double turned = fmax(0.0, -rb_dot(up, plane->n));
    const struct field one = {1.0, {0.0, 0.0, 0.0}};
    struct field elastic = {law->k * plane->s, {0.0, 0.0, 0.0}}, damped, factor, rate;
    double way[3];
    rb_scale(-law->k, plane->n, elastic.by);
    rate_below(plane, sign, a, b, &rate);
    damped = elastic;
    damped.at += law->c * rate.at;
    rb_axpy(damped.by, law->c, rate.by, damped.by);
    factor.at = 1.0 + law->dissipation * rate.at;
    rb_scale(law->dissipation, rate.by, factor.by);
    rb_axpy(up, turned, plane->n, way);
    rb_scale(-sign * share, way, way);
    integrate_pressure(x, n, &elastic, &one, way, 0,
                       all); /* component that is not parallel to the plane normal */
    for (int k = 0; k < n; k++)
        all->depth = fmax(all->depth, plane_depth(plane, x[k]));
    n = where_positive(x, n, &damped);
    n = n > 2 ? where_positive(x, n, &factor) : 0;
    rb_scale(sign * share * turned, plane->n, way);
    integrate_pressure(x, n, &damped, &factor, way, 1, all);
    for (int k = 0; k < n; k++)
        all->pressure =
            fmax(all->pressure, turned * field_value(&damped, x[k]) * field_value(&factor, x[k]));
}

/* Compute the smallest and largest depth of the corners of a polygon below a plane. */
static inline void polygon_depths(double (*x)[3], int n, const struct plane *plane, double *least,
                                  double *most)
{
    *least = INFINITY;
    *most = -INFINITY;
    for (int k = 0; k < n; k++) {
        const double depth = plane_depth(plane, x[k]);
        *least = fmin(*least, depth);
        *most = fmax(*most, depth);
    }
}

/* Add the pressure on the parts of a polygon that are inside all planes. Each part has one nearest
   plane. */
static inline void press_inside(double (*x)[3], int n, const struct plane *plane, int planes,
                                const double *up, const struct rb_law *law, double share,
                                double sign, const struct rb_moving *a, const struct rb_moving *b,
                                struct rb_pressed *all)
{
    double part[RB_CLIPPED][3], g[3], most = INFINITY, least[RB_MOST_PLANES];
    for (int j = 0; j < planes && n > 2; j++)
        n = rb_clip_polygon(x, n, plane[j].n, plane[j].s, 0.0);
    if (n < 3)
        return;
    all->left_out += n == RB_CLIPPED;
    for (int j = 0; j < planes; j++) {
        double high;
        polygon_depths(x, n, &plane[j], &least[j], &high);
        most = fmin(most, high);
    }
    for (int j = 0; j < planes; j++) {
        int m = n;
        if (least[j] > most)
            continue;
        memcpy(part, x, (size_t)n * sizeof *part);
        for (int i = 0; i < planes && m > 2; i++) {
            if (i == j || least[i] > most)
                continue;
            rb_subtract(plane[i].n, plane[j].n, g);
            m = rb_clip_polygon(part, m, g, plane[i].s - plane[j].s, 0.0);
        }
        if (m > 2)
            press_polygon(part, m, &plane[j], up, law, share, sign, a, b, all);
    }
}

/* Compute the corners of a face in base coordinates. Returns their number. */
static inline int place_face(const struct rb_placed_shape *own, const double *row, double (*x)[3])
{
    const int n = (int)row[1];
    for (int i = 0; i < n; i++) {
        rb_rotate(own->r, row + 2 + 3 * i, x[i]);
        rb_axpy(x[i], 1.0, own->p, x[i]);
    }
    return n;
}

/* Add the pressure on the faces of a polytope in the field of another polytope with these
   planes. */
static inline void press_faces(const struct rb_placed_shape *own, const double *poly,
                               const struct plane *plane, int planes, const struct rb_law *law,
                               double share, double sign, const struct rb_moving *a,
                               const struct rb_moving *b, struct rb_pressed *all)
{
    const double *normals = poly + RB_POLY_HEAD, *row = normals + 4 * (int)poly[RB_POLY_PLANES];
    for (int k = 0; k < (int)poly[RB_POLY_FACES]; k++) {
        double x[RB_CLIPPED][3];
        int outside = 0;
        const int n = place_face(own, row, x);
        for (int j = 0; j < planes && !outside; j++) {
            double low, high;
            polygon_depths(x, n, &plane[j], &low, &high);
            outside = !(high > 0.0);
        }
        if (!outside) {
            double up[3];
            rb_rotate(own->r, normals + 4 * (int)row[0], up);
            press_inside(x, n, plane, planes, up, law, share, sign, a, b, all);
        }
        row += 2 + 3 * n;
    }
}

/* Compute the load between two polytopes, or between a polytope and a half-space (`poly_other` is
   NULL). `law` gives a pressure. */
static inline void rb_press_polytopes(const struct rb_placed_shape *one, const double *poly,
                                      const struct rb_placed_shape *other, const double *poly_other,
                                      const struct rb_law *law, const struct rb_moving *a,
                                      const struct rb_moving *b, struct rb_pressed *all)
{
    struct plane plane[RB_MOST_PLANES];
    if (!poly_other) {
        rb_shape_axis(other, 2, plane[0].n);
        plane[0].s = rb_dot(plane[0].n, other->p);
        press_faces(one, poly, plane, 1, law, 1.0, 1.0, a, b, all);
        return;
    }
    int n = polytope_planes(other, poly_other, plane);
    press_faces(one, poly, plane, n, law, 0.5, 1.0, a, b, all);
    n = polytope_planes(one, poly, plane);
    press_faces(other, poly_other, plane, n, law, 0.5, -1.0, a, b, all);
}

/* ---- pressure between a polytope and terrain ----

   The depth of a point in a height field is its depth below the plane of the triangle above it. The
   field p = k depth acts on the faces of the polytope and pushes it out from any depth. A mesh has
   only a surface: the field of the polytope acts on it as on a face of another polytope. Both
   forces derive from an energy, k times the integral of the depth over the overlap. Therefore no
   edge of terrain or polytope gains energy. */

/* Clip a polygon to the part vertically below a triangle of a height field. */
static inline int clip_below(double (*x)[3], int n, const struct rb_triangle *t,
                             const struct plane *plane)
{
    const double up[3] = {0.0, 0.0, 1.0};
    n = rb_clip_polygon(x, n, plane->n, plane->s, 0.0);
    for (int k = 0; k < 3 && n > 2; k++) {
        double edge[3], out[3];
        rb_subtract(t->x[(k + 1) % 3], t->x[k], edge);
        rb_cross(edge, up, out);
        n = rb_clip_polygon(x, n, out, rb_dot(out, t->x[k]), 0.0);
    }
    return n;
}

/* Add the pressure of a height field on a face; `up` is the outward unit normal of the face. */
static inline void press_face_on_field(double (*x)[3], int n, const double *up,
                                       const struct rb_placed_shape *ground,
                                       const struct rb_law *law, const struct rb_moving *a,
                                       const struct rb_moving *b, struct rb_pressed *all)
{
    double low[3] = {INFINITY, INFINITY, INFINITY}, high[3] = {-INFINITY, -INFINITY, -INFINITY};
    int first[2], last[2], cell[2];
    for (int k = 0; k < n; k++) {
        for (int i = 0; i < 3; i++) {
            low[i] = fmin(low[i], x[k][i]);
            high[i] = fmax(high[i], x[k][i]);
        }
    }
    rb_find_cells(ground, low, high, first, last);
    for (cell[0] = first[0]; cell[0] <= last[0]; cell[0]++) {
        for (cell[1] = first[1]; cell[1] <= last[1]; cell[1]++) {
            for (int half = 0; half < 2; half++) {
                struct rb_triangle t;
                double part[RB_CLIPPED][3];
                rb_find_triangle(ground, rb_first_of_cell(ground->shape, cell) + half, &t);
                if (low[2] >= fmax(t.x[0][2], fmax(t.x[1][2], t.x[2][2])))
                    continue;
                const struct plane plane = {{t.n[0], t.n[1], t.n[2]}, rb_dot(t.n, t.x[0])};
                memcpy(part, x, (size_t)n * sizeof *part);
                const int m = clip_below(part, n, &t, &plane);
                all->left_out += m == RB_CLIPPED;
                if (m > 2)
                    press_polygon(part, m, &plane, up, law, 1.0, 1.0, a, b, all);
            }
        }
    }
}

/* Add the pressure of a height field on all faces of a polytope. */
static inline void press_on_field(const struct rb_placed_shape *own, const double *poly,
                                  const struct rb_placed_shape *ground, const struct rb_law *law,
                                  const struct rb_moving *a, const struct rb_moving *b,
                                  struct rb_pressed *all)
{
    const double *normals = poly + RB_POLY_HEAD, *row = normals + 4 * (int)poly[RB_POLY_PLANES];
    for (int k = 0; k < (int)poly[RB_POLY_FACES]; k++) {
        double x[RB_CLIPPED][3], up[3];
        const int n = place_face(own, row, x);
        rb_rotate(own->r, normals + 4 * (int)row[0], up);
        press_face_on_field(x, n, up, ground, law, a, b, all);
        row += 2 + 3 * n;
    }
}

/* Add the pressure of the field of a polytope on the triangles of a mesh. */
static inline void press_on_mesh(const struct rb_placed_shape *own, const double *poly,
                                 const struct rb_placed_shape *ground, const struct rb_law *law,
                                 const struct rb_moving *a, const struct rb_moving *b,
                                 struct rb_pressed *all)
{
    struct plane plane[RB_MOST_PLANES];
    struct rb_query q;
    int first[2], last[2], cell[2];
    const int planes = polytope_planes(own, poly, plane);
    rb_query_box(own, 0.0, &q);
    rb_find_cells(ground, q.low, q.high, first, last);
    for (cell[0] = first[0]; cell[0] <= last[0]; cell[0]++) {
        for (cell[1] = first[1]; cell[1] <= last[1]; cell[1]++) {
            int count = 0;
            const double *list = rb_cell_list(ground->shape, cell[0], cell[1], &count);
            for (int k = 0; k < count; k++) {
                struct rb_triangle t;
                double x[RB_CLIPPED][3];
                rb_find_triangle(ground, (int)list[k], &t);
                if (!rb_is_near(&t, &q, 0) || !rb_is_home(ground, &t, cell, first))
                    continue;
                memcpy(x, t.x, sizeof t.x);
                press_inside(x, 3, plane, planes, t.n, law, 1.0, -1.0, a, b, all);
            }
        }
    }
}

static inline void rb_press_on_ground(const struct rb_placed_shape *own, const double *poly,
                                      const struct rb_placed_shape *ground,
                                      const struct rb_law *law, const struct rb_moving *a,
                                      const struct rb_moving *b, struct rb_pressed *all)
{
    if (rb_is_kind(ground->shape, RB_FIELD))
        press_on_field(own, poly, ground, law, a, b, all);
    else
        press_on_mesh(own, poly, ground, law, a, b, all);
}

/* ---- forces of all pairs of shapes ---- */

/* Number of elements of the state of a friction patch: displacement (3) and rotation. */
enum { RB_PATCH = 4 };

/* For a disc: mean distance from the centre divided by the root mean square distance, 2 sqrt(2) /
   3. */
#define RB_OF_DISC 0.9428090415820634

/* Pointers to the parts of the input, and the placed bodies and shapes. */
struct soft {
    const double *patch, *K, *D, *mu, *K_t, *D_t;
    struct rb_moving body[RB_SOFT_BODIES + 1];
    struct rb_placed_shape shape[RB_SHAPES];
    double low[RB_SHAPES][3], high[RB_SHAPES][3];
};

/* Pointers to the parts of the output. */
struct written {
    double *wrench, *rate, *margin, *there, *centre, *depth, *pressure, *normal, *left_out, *felt;
};

/* Stiffness, damping and friction of a pair. */
struct resistance {
    double K, D, mu;
};

static inline void read_motion(const double *in, struct soft *s)
{
    memset(&s->body[RB_SOFT_BODIES], 0, sizeof s->body[RB_SOFT_BODIES]);
    s->body[RB_SOFT_BODIES].r[0] = s->body[RB_SOFT_BODIES].r[4] = s->body[RB_SOFT_BODIES].r[8] =
        1.0;
    memcpy(s->body, in, RB_SOFT_BODIES * sizeof *s->body);
    in += RB_SOFT_BODIES * (int)(sizeof *s->body / sizeof *in);
    s->patch = in;
    s->K = in + (RB_FRICTION ? RB_PATCH * RB_SOFT_PAIRS : 0);
    s->D = s->K + RB_MATERIALS + RB_NAMED_PAIRS;
    s->mu = s->D + RB_MATERIALS + RB_NAMED_PAIRS;
    s->K_t = s->mu + (RB_FRICTION ? RB_MATERIALS + RB_NAMED_PAIRS : 0);
    s->D_t = s->K_t + RB_OWN_PATCH;
}

/* Place the shapes and compute their axis-aligned bounds. */
static inline void place_all(struct soft *s)
{
    for (int k = 0; k < RB_SHAPES; k++) {
        const struct rb_moving *body = &s->body[RB_SHAPE_BODY[k]];
        struct rb_placed_shape *shape = &s->shape[k];
        rb_place_shape(RB_SHAPE_TABLE + RB_SHAPE_AT[k], rb_pose_of(RB_SHAPE_POSE[k]), body->r,
                       body->p, shape);
        for (int i = 0; i < 3; i++) {
            double axis[3] = {i == 0, i == 1, i == 2}, top[3];
            s->low[k][i] = -INFINITY;
            s->high[k][i] = INFINITY;
            if (rb_is_kind(shape->shape, RB_HALF_SPACE) || rb_is_kind(shape->shape, RB_FIELD))
                continue;
            rb_support(shape, axis, top);
            s->high[k][i] = top[i] + rb_shape_radius(shape->shape);
            rb_scale(-1.0, axis, axis);
            rb_support(shape, axis, top);
            s->low[k][i] = top[i] - rb_shape_radius(shape->shape);
        }
    }
}

/* Return the distance between the bounds of two shapes; 0 if they overlap. */
static inline double bounds_distance(const struct soft *s, int a, int b)
{
    double squares = 0.0;
    for (int i = 0; i < 3; i++) {
        const double gap =
            fmax(0.0, fmax(s->low[a][i] - s->high[b][i], s->low[b][i] - s->high[a][i]));
        squares += gap * gap;
    }
    return sqrt(squares);
}

/* Return the index of the parameters of a named pair of materials; -1 if the pair is not named. */
static inline int material_pair(int a, int b)
{
    const double key = (double)(a < b ? a : b) * RB_MATERIALS + (a < b ? b : a);
    for (int k = 0; k < RB_NAMED_PAIRS; k++)
        if (!(RB_NAMED_PAIR[k] < key) && !(RB_NAMED_PAIR[k] > key))
            return RB_MATERIALS + k;
    return -1;
}

/* Compute the parameters of a pair: stiffness of two springs in series, damping with the
   dissipation of both dampers, geometric mean of the friction coefficients. If neither material has
   a stiffness, the pair has the parameters of the block. */
static inline void pair_resistance(const struct soft *s, int a, int b, struct resistance *out)
{
    const int pair = RB_NAMED_PAIRS > 0 ? material_pair(a, b) : -1;
    if (pair >= 0) {
        out->K = s->K[pair];
        out->D = s->D[pair];
        out->mu = RB_FRICTION ? s->mu[pair] : 0.0;
        return;
    }
    out->mu = RB_FRICTION ? sqrt(s->mu[a] * s->mu[b]) : 0.0;
    if (RB_SAYS_K[a] && RB_SAYS_K[b]) {
        const double whole = s->K[a] + s->K[b], part_a = s->K[b] / whole, part_b = s->K[a] / whole;
        out->K = s->K[a] * part_a;
        out->D = (RB_SAYS_D[a] ? s->D[a] * part_a * part_a : 0.0) +
                 (RB_SAYS_D[b] ? s->D[b] * part_b * part_b : 0.0);
    } else {
        const int one = RB_SAYS_K[a] ? a : (RB_SAYS_K[b] ? b : 0);
        out->K = s->K[one];
        out->D = s->D[one];
    }
}

/* Return the size of the smaller shape of a pair, or 0 if one is a point. */
static inline double smaller_size(const struct soft *s, int a, int b)
{
    return fmin(s->shape[a].shape[RB_SHAPE_SIZE], s->shape[b].shape[RB_SHAPE_SIZE]);
}

/* Return the reference area for the stiffness of a pair of polytopes: the smaller of their largest
   faces. */
static inline double face_area(int a, int b)
{
    const double own = RB_POLY_TABLE[RB_SHAPE_POLY[a] + RB_POLY_AREA];
    return RB_SHAPE_POLY[b] < 0 ? own : fmin(own, RB_POLY_TABLE[RB_SHAPE_POLY[b] + RB_POLY_AREA]);
}

/* Add springs and dampers at the contact points of two shapes. */
static inline void press_points(const struct soft *s, int a, int b, const struct rb_law *law,
                                struct rb_pressed *all)
{
    const struct rb_moving *one = &s->body[RB_SHAPE_BODY[a]], *other = &s->body[RB_SHAPE_BODY[b]];
    struct rb_patches found;
    rb_shape_contacts(&s->shape[a], &s->shape[b], 0.0, 0.0, &found);
    all->left_out += found.left_out;
    for (int i = 0; i < found.count; i++) {
        const struct rb_manifold *m = &found.one[i];
        for (int k = 0; k < m->count; k++) {
            const double depth = -m->gap[k];
            double v[3];
            if (!(depth > 0.0))
                continue;
            const double g = RB_DEPTH_REF > 0.0 ? sqrt(depth / RB_DEPTH_REF) : 1.0;
            rb_relative_velocity(one, other, m->point[k], v);
            const double rate = -rb_dot(m->n, v), damped = depth + law->c / law->k * rate;
            const double factor = fmax(0.0, 1.0 + law->dissipation * rate);
            all->depth = fmax(all->depth, depth);
            all->holds = fmax(all->holds, fmin(depth, damped));
            rb_scale(g * factor * law->k * fmax(0.0, damped), m->n, v);
            rb_press(all, m->point[k], v);
        }
    }
}

/* Return the distance between two shapes that are not in contact. */
static inline double shape_gap(const struct soft *s, int a, int b)
{
    const double far = bounds_distance(s, a, b), size = smaller_size(s, a, b);
    struct rb_proximity c = {{0.0, 0.0, 1.0}, 0.0, {0.0, 0.0, 0.0}, {0.0, 0.0, 0.0}};
    if (rb_is_ground(&s->shape[b])) {
        const double margin = fmax(size, s->high[a][0] - s->low[a][0]);
        struct rb_patches found;
        double least = margin;
        rb_shape_contacts(&s->shape[a], &s->shape[b], margin, margin, &found);
        for (int i = 0; i < found.count; i++)
            least = fmin(least, rb_least_gap(&found.one[i]));
        return fmax(least, 0.0);
    }
    if (far > size)
        return far;
    rb_proximity(&s->shape[a], &s->shape[b], &c);
    return fmax(c.gap, 0.0);
}

/* Add a force and its moment about the origin to the wrench on a body. */
static inline void add_wrench(const struct written *out, int body, double sign,
                              const double *moment, const double *force)
{
    if (body == RB_SOFT_BODIES)
        return;
    rb_axpy(out->wrench + 6 * body, sign, moment, out->wrench + 6 * body);
    rb_axpy(out->wrench + 6 * body + 3, sign, force, out->wrench + 6 * body + 3);
}

/* Add the friction of a pair: a force at the centre of pressure and a moment about the normal. Also
   compute the derivatives of the patch states. */
static inline void friction_wrench(const struct soft *s, int pair, const struct resistance *law,
                                   struct rb_pressed *all, double *rate)
{
    const int a = RB_SOFT_PAIR[pair][0], b = RB_SOFT_PAIR[pair][1];
    const struct rb_moving *one = &s->body[RB_SHAPE_BODY[a]], *other = &s->body[RB_SHAPE_BODY[b]];
    const double *patch = s->patch + RB_PATCH * pair, K = RB_OWN_PATCH ? *s->K_t : law->K;
    const double D =
        RB_OWN_DAMPER
            ? *s->D_t
            : sqrt(K * fmin(RB_SOFT_MASS[RB_SHAPE_BODY[a]], RB_SOFT_MASS[RB_SHAPE_BODY[b]]));
    const double size = smaller_size(s, a, b),
                 lever = size > 0.0 && size < 1e299 ? 0.25 * size * size : 1.0;
    double f[3] = {0.0, 0.0, 0.0}, m = 0.0;
    if (all->normal > 0.0) {
        const double *n = all->n;
        double x[3], v[3], w[3], moment[3];
        rb_relative_velocity(one, other, all->centre, v);
        rb_subtract(one->w, other->w, w);
        rb_rotate(other->r, patch, x);
        rb_axpy(x, -rb_dot(x, n), n, x);
        rb_axpy(v, -rb_dot(v, n), n, v);
        rb_scale(-K, x, f);
        rb_axpy(f, -D, v, f);
        const double most = law->mu * all->normal,
                     spread = all->pressure > 0.0 ? RB_OF_DISC * all->spread : all->spread;
        const double wanted = rb_norm(f);
        if (wanted > most)
            rb_scale(most / wanted, f, f);
        m = rb_clamp(-lever * (K * patch[3] + D * rb_dot(w, n)), -most * spread, most * spread);
        rb_cross(all->centre, f, moment);
        rb_axpy(moment, m, n, moment);
        rb_axpy(all->moment, 1.0, moment, all->moment);
        rb_axpy(all->force, 1.0, f, all->force);
        rb_rotate_back(other->r, f, f);
    }
    for (int i = 0; i < 3; i++)
        rate[i] = -(K * patch[i] + f[i]) / D;
    rate[3] = -(K * patch[3] + m / lever) / D;
}

/* Add the load of a pair to the outputs of the sensors. */
static inline void sense_pair(const struct soft *s, int a, int b, const struct rb_pressed *all,
                              double *out)
{
    for (int k = 0; k < RB_SENSORS; k++) {
        const int side = RB_SENSOR_SIDE[k][a];
        double slip[3];
        if (side * RB_SENSOR_SIDE[k][b] >= 0)
            continue;
        rb_add_sensor_wrench(rb_sensor_at(out, k), side, all->moment, all->force);
        if (!(all->normal > 0.0))
            continue;
        rb_relative_velocity(&s->body[RB_SHAPE_BODY[a]], &s->body[RB_SHAPE_BODY[b]], all->centre,
                             slip);
        rb_axpy(slip, -rb_dot(slip, all->n), all->n, slip);
        rb_add_sensor_normal(rb_sensor_at(out, k), side, all->normal, slip, all->centre);
    }
}

/* Add the load of a pair to the outputs of a body. */
static inline void add_body_wrench(const struct rb_pressed *all, int body,
                                   const struct written *out)
{
    if (body == RB_SOFT_BODIES || !(all->normal > 0.0))
        return;
    out->there[body] = 1.0;
    rb_axpy(out->centre + 3 * body, all->normal, all->centre, out->centre + 3 * body);
    out->normal[body] += all->normal;
    out->depth[body] = fmax(out->depth[body], all->depth);
    out->pressure[body] = fmax(out->pressure[body], all->pressure);
}

/* Compute the load on the first shape of a pair with overlapping bounds. */
static inline void press_pair(const struct soft *s, int a, int b, const struct resistance *own,
                              struct rb_pressed *all)
{
    const struct rb_placed_shape *one = &s->shape[a], *other = &s->shape[b];
    const struct rb_moving *body = &s->body[RB_SHAPE_BODY[a]], *second = &s->body[RB_SHAPE_BODY[b]];
    const int flat = rb_is_kind(other->shape, RB_HALF_SPACE), ground = rb_is_ground(other);
    if (RB_SHAPE_POLY[a] < 0 || !(flat || ground || RB_SHAPE_POLY[b] >= 0)) {
        const struct rb_law law = {own->K, own->D, RB_DISSIPATION};
        press_points(s, a, b, &law, all);
        return;
    }
    const double area = face_area(a, b), *poly = RB_POLY_TABLE + RB_SHAPE_POLY[a];
    const struct rb_law law = {own->K / area, own->D / area, RB_DISSIPATION};
    if (ground)
        rb_press_on_ground(one, poly, other, &law, body, second, all);
    else
        rb_press_polytopes(one, poly, other, flat ? NULL : RB_POLY_TABLE + RB_SHAPE_POLY[b], &law,
                           body, second, all);
    all->holds = all->depth;
}

static inline void touch_softly(const struct soft *s, int pair, const struct written *out)
{
    const int a = RB_SOFT_PAIR[pair][0], b = RB_SOFT_PAIR[pair][1];
    struct rb_pressed all;
    struct resistance own;
    pair_resistance(s, RB_SHAPE_MATERIAL[a], RB_SHAPE_MATERIAL[b], &own);
    memset(&all, 0, sizeof all);
    memcpy(all.origin, s->shape[a].p, sizeof all.origin);
    all.holds = -INFINITY;
    if (!(bounds_distance(s, a, b) > 0.0))
        press_pair(s, a, b, &own, &all);
    rb_find_centre(&all);
    if (RB_FRICTION)
        friction_wrench(s, pair, &own, &all, out->rate + RB_PATCH * pair);
    add_wrench(out, RB_SHAPE_BODY[a], 1.0, all.moment, all.force);
    add_wrench(out, RB_SHAPE_BODY[b], -1.0, all.moment, all.force);
    out->margin[pair] = all.depth > 0.0 ? all.holds : -shape_gap(s, a, b);
    *out->left_out += all.left_out;
    sense_pair(s, a, b, &all, out->felt);
    add_body_wrench(&all, RB_SHAPE_BODY[a], out);
    add_body_wrench(&all, RB_SHAPE_BODY[b], out);
}

static inline void soft_contact(const double *in, double *out)
{
    RB_WORKSPACE(RB_LARGE_SCENE, struct soft, s, 1);
    struct written parts;
    parts.wrench = out;
    parts.rate = parts.wrench + 6 * RB_SOFT_BODIES;
    parts.margin = parts.rate + (RB_FRICTION ? RB_PATCH * RB_SOFT_PAIRS : 0);
    parts.there = parts.margin + RB_SOFT_PAIRS;
    parts.centre = parts.there + RB_SOFT_BODIES;
    parts.depth = parts.centre + 3 * RB_SOFT_BODIES;
    parts.pressure = parts.depth + RB_SOFT_BODIES;
    parts.normal = parts.pressure + RB_SOFT_BODIES;
    parts.left_out = parts.normal + RB_SOFT_BODIES;
    parts.felt = parts.left_out + 1;
    for (double *one = out; one < parts.felt + RB_FELT_ALL; one++)
        *one = 0.0;
    read_motion(in, s);
    place_all(s);
    for (int k = 0; k < RB_SOFT_PAIRS; k++)
        touch_softly(s, k, &parts);
    for (int k = 0; k < RB_NEARS; k++)
        rb_measure_distance(s->shape, k, rb_distance_at(parts.felt, k));
    for (int k = 0; k < RB_SOFT_BODIES; k++)
        if (parts.normal[k] > 0.0)
            rb_scale(1.0 / parts.normal[k], parts.centre + 3 * k, parts.centre + 3 * k);
}

#endif
