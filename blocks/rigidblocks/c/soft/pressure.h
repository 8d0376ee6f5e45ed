/* The pressure where two polytopes overlap, a field p = k depth(x) in each, in which the faces of
   the other one are.

   depth is by how far a point is inside: the least distance behind the planes of its faces. The
   elastic force is that of the energy k times the integral of the depth over the overlap, half of
   that of each field (between a polytope and a half-space that of the half-space alone), so that no
   motion gains any. Faces are clipped by the planes, and by those between which of them is nearest:
   on what is left the depth is linear, and the integrals of the elastic force and its moment are
   exact. Dampers push along the normal of the plane, as far as the face is turned to it: nothing
   brakes what slides along. Where the whole would pull is cut off too, so that the force is an
   exact integral of a polynomial, and goes on as the parts change.

   The row of a polytope is [number of planes, of faces, area of the largest face | planes | faces]:
   a plane is its outward unit normal and its distance from the origin along it, a face the number
   of its plane, that of its corners, and these. */

#ifndef RB_PRESSURE_H
#define RB_PRESSURE_H

#include "patches.h"

enum { RB_POLY_PLANES, RB_POLY_FACES, RB_POLY_AREA, RB_POLY_HEAD };
enum { RB_MOST_PLANES = 128, RB_QUADRATURE = 6 };

/* How a force comes from a depth and its rate: (k depth + c rate) (1 + dissipation rate), where
   both are positive. */
struct law {
    double k, c, dissipation;
};

/* A body: its frame, angular velocity and the velocity of its origin. */
struct moving {
    double r[9], p[3], w[3], v[3];
};

/* What presses on A: the force and the moment about the base origin, the largest depth and
   pressure, by how much the law of points holds; of forces along normals their sum, and about
   `origin` those of x f^T and |x|^2 f of the forces f at x; its direction, the whole force along
   it, its centre, and how far from there the forces act, as the root of the mean square; and how
   many points or polygons found no room. */
struct pressed {
    double force[3], moment[3], depth, pressure, holds, left_out;
    double load[3], origin[3], first[9], second[3];
    double normal, n[3], centre[3], spread;
};

/* A plane in space: the unit normal out of the polytope, and its place along it. */
struct plane {
    double n[3], s;
};

/* The velocity of a body's material at a point. */
static inline void velocity_at(const struct moving *body, const double *x, double *out)
{
    double arm[3], u[3];
    difference(x, body->p, arm);
    cross(body->w, arm, u);
    along(body->v, 1.0, u, out);
}

/* The velocity of A against B at a point. */
static inline void relative_velocity(const struct moving *a, const struct moving *b,
                                     const double *x, double *out)
{
    double u[3];
    velocity_at(b, x, u);
    velocity_at(a, x, out);
    difference(out, u, out);
}

/* What the damper adds to the elastic force: never more than this where it pulls. */
static inline double damping_of(const struct law *law, double depth, double rate)
{
    return fmax(-law->k * depth, (law->k * depth * law->dissipation + law->c) * rate);
}

/* A force f on A at x. */
static inline void add_force(struct pressed *all, const double *x, const double *f)
{
    double moment[3];
    cross(x, f, moment);
    along(all->force, 1.0, f, all->force);
    along(all->moment, 1.0, moment, all->moment);
}

/* One along a normal. */
static inline void press(struct pressed *all, const double *x, const double *f)
{
    double arm[3];
    add_force(all, x, f);
    difference(x, all->origin, arm);
    along(all->load, 1.0, f, all->load);
    along(all->second, dot(arm, arm), f, all->second);
    for (int i = 0; i < 3; i++)
        along(all->first + 3 * i, arm[i], f, all->first + 3 * i);
}

/* The direction of the load, its centre and spread, which is nothing where there is a point alone,
   and the force along it. */
static inline void find_centre(struct pressed *all)
{
    double arm[3];
    memcpy(all->n, all->load, sizeof all->n);
    const double size = normalize(all->n);
    if (!(size > 0.0))
        return;
    all->normal = fmax(0.0, dot(all->force, all->n));
    turn(all->first, all->n, arm);
    times(1.0 / size, arm, arm);
    const double squares = dot(all->second, all->n) / size;
    all->spread = sqrt(fmax(0.0, (1.0 - 1e-12) * squares - dot(arm, arm)));
    along(all->origin, 1.0, arm, all->centre);
}

/* The planes of a polytope in space; returns how many. */
static inline int planes_of(const struct placed *a, const double *poly, struct plane *out)
{
    const int n = (int)poly[RB_POLY_PLANES];
    for (int k = 0; k < n; k++) {
        const double *row = poly + RB_POLY_HEAD + 4 * k;
        turn(a->r, row, out[k].n);
        out[k].s = row[3] + dot(out[k].n, a->p);
    }
    return n;
}

static inline double depth_at(const struct plane *plane, const double *x)
{
    return plane->s - dot(plane->n, x);
}

/* A field that is linear in space: `at` the origin and, by the way from it, `by`. */
struct field {
    double at, by[3];
};

static inline double value_at(const struct field *f, const double *x)
{
    return f->at + dot(f->by, x);
}

/* The rate of the depth below a plane of B of what moves with A; of what moves with B below one of
   A with `sign` -1. */
static inline void rate_below(const struct plane *plane, double sign, const struct moving *a,
                              const struct moving *b, struct field *out)
{
    const double origin[3] = {0.0, 0.0, 0.0};
    double v[3], w[3];
    relative_velocity(a, b, origin, v);
    difference(a->w, b->w, w);
    cross(plane->n, w, out->by);
    times(-sign, out->by, out->by);
    out->at = -sign * dot(plane->n, v);
}

/* The forces of a pressure along a vector on A, the product of two linear fields over a polygon;
   they are a load or not. */
static inline void press_over(double (*x)[3], int n, const struct field *one,
                              const struct field *other, const double *way, int loads,
                              struct pressed *all)
{
    /* degree 4 (Dunavant 1985) */
    static const double at[2] = {0.445948490915965, 0.091576213509771};
    static const double weight[2] = {0.223381589678011, 0.109951743655322};
    double e[3], f[3], g[3];
    for (int k = 1; k + 1 < n; k++) {
        difference(x[k], x[0], e);
        difference(x[k + 1], x[0], f);
        cross(e, f, g);
        const double area = 0.5 * norm(g);
        for (int i = 0; i < RB_QUADRATURE; i++) {
            const double near = at[i / 3], far = 1.0 - 2.0 * near;
            double node[3], force[3];
            along(x[0], i % 3 == 0 ? far : near, e, node);
            along(node, i % 3 == 1 ? far : near, f, node);
            times(weight[i / 3] * area * value_at(one, node) * value_at(other, node), way, force);
            if (loads)
                press(all, node, force);
            else
                add_force(all, node, force);
        }
    }
}

/* The part of a polygon where a field is positive. */
static inline int where_positive(double (*x)[3], int n, const struct field *f)
{
    double down[3];
    times(-1.0, f->by, down);
    return clip(x, n, down, f->at, 0.0);
}

/* The pressure on a part of a face, a polygon in which the depth below the plane is linear: of
   `share` of the law, in a field of B, or on a face of B in one of A with `sign` -1. `up` is the
   unit normal out of the face. */
static inline void press_polygon(double (*x)[3], int n, const struct plane *plane, const double *up,
                                 const struct law *law, double share, double sign,
                                 const struct moving *a, const struct moving *b,
                                 struct pressed *all)
{
    const double turned = fmax(0.0, -dot(up, plane->n));
    const struct field one = {1.0, {0.0, 0.0, 0.0}};
    struct field elastic = {law->k * plane->s, {0.0, 0.0, 0.0}}, damped, factor, rate;
    double way[3];
    times(-law->k, plane->n, elastic.by);
    rate_below(plane, sign, a, b, &rate);
    damped = elastic;
    damped.at += law->c * rate.at;
    along(damped.by, law->c, rate.by, damped.by);
    factor.at = 1.0 + law->dissipation * rate.at;
    times(law->dissipation, rate.by, factor.by);
    along(up, turned, plane->n, way);
    times(-sign * share, way, way);
    press_over(x, n, &elastic, &one, way, 0, all); /* what is not along the normal of the plane */
    for (int k = 0; k < n; k++)
        all->depth = fmax(all->depth, depth_at(plane, x[k]));
    n = where_positive(x, n, &damped);
    n = n > 2 ? where_positive(x, n, &factor) : 0;
    times(sign * share * turned, plane->n, way);
    press_over(x, n, &damped, &factor, way, 1, all);
    for (int k = 0; k < n; k++)
        all->pressure =
            fmax(all->pressure, turned * value_at(&damped, x[k]) * value_at(&factor, x[k]));
}

/* The smallest and the largest depth of the corners of a polygon below a plane. */
static inline void depths_of(double (*x)[3], int n, const struct plane *plane, double *least,
                             double *most)
{
    *least = INFINITY;
    *most = -INFINITY;
    for (int k = 0; k < n; k++) {
        const double depth = depth_at(plane, x[k]);
        *least = fmin(*least, depth);
        *most = fmax(*most, depth);
    }
}

/* The parts of a polygon inside all planes, each nearest to one of them. */
static inline void press_inside(double (*x)[3], int n, const struct plane *plane, int planes,
                                const double *up, const struct law *law, double share, double sign,
                                const struct moving *a, const struct moving *b, struct pressed *all)
{
    double part[RB_CLIPPED][3], g[3], most = INFINITY, least[RB_MOST_PLANES];
    for (int j = 0; j < planes && n > 2; j++)
        n = clip(x, n, plane[j].n, plane[j].s, 0.0);
    if (n < 3)
        return;
    all->left_out += n == RB_CLIPPED;
    for (int j = 0; j < planes; j++) {
        double high;
        depths_of(x, n, &plane[j], &least[j], &high);
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
            difference(plane[i].n, plane[j].n, g);
            m = clip(part, m, g, plane[i].s - plane[j].s, 0.0);
        }
        if (m > 2)
            press_polygon(part, m, &plane[j], up, law, share, sign, a, b, all);
    }
}

/* The corners of a face in space; returns how many. */
static inline int place_face(const struct placed *own, const double *row, double (*x)[3])
{
    const int n = (int)row[1];
    for (int i = 0; i < n; i++) {
        turn(own->r, row + 2 + 3 * i, x[i]);
        along(x[i], 1.0, own->p, x[i]);
    }
    return n;
}

/* The faces of a polytope in the field of another one, whose planes these are. */
static inline void press_faces(const struct placed *own, const double *poly,
                               const struct plane *plane, int planes, const struct law *law,
                               double share, double sign, const struct moving *a,
                               const struct moving *b, struct pressed *all)
{
    const double *normals = poly + RB_POLY_HEAD, *row = normals + 4 * (int)poly[RB_POLY_PLANES];
    for (int k = 0; k < (int)poly[RB_POLY_FACES]; k++) {
        double x[RB_CLIPPED][3];
        int outside = 0;
        const int n = place_face(own, row, x);
        for (int j = 0; j < planes && !outside; j++) {
            double low, high;
            depths_of(x, n, &plane[j], &low, &high);
            outside = !(high > 0.0);
        }
        if (!outside) {
            double up[3];
            turn(own->r, normals + 4 * (int)row[0], up);
            press_inside(x, n, plane, planes, up, law, share, sign, a, b, all);
        }
        row += 2 + 3 * n;
    }
}

/* Two polytopes, or one and a half-space, whose row is NULL. `law` is that of a pressure. */
static inline void press_polytopes(const struct placed *one, const double *poly,
                                   const struct placed *other, const double *poly_other,
                                   const struct law *law, const struct moving *a,
                                   const struct moving *b, struct pressed *all)
{
    struct plane plane[RB_MOST_PLANES];
    if (!poly_other) {
        axis_of(other, 2, plane[0].n);
        plane[0].s = dot(plane[0].n, other->p);
        press_faces(one, poly, plane, 1, law, 1.0, 1.0, a, b, all);
        return;
    }
    int n = planes_of(other, poly_other, plane);
    press_faces(one, poly, plane, n, law, 0.5, 1.0, a, b, all);
    n = planes_of(one, poly, plane);
    press_faces(other, poly_other, plane, n, law, 0.5, -1.0, a, b, all);
}

#endif
