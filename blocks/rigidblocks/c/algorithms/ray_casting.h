/* Distances along rays to shapes, triangles and height fields.

   A scene contains the shapes that are fixed to one body, in the coordinates of the body. A tree of
   bounding boxes (bounding volume hierarchy) contains all shapes except planes. The distance is the
   smallest t >= 0 for which p + t d is on a surface, also if the ray starts inside a shape. */

#ifndef RB_RAY_CASTING_H
#define RB_RAY_CASTING_H

#include <math.h>

#define RB_NO_HIT 1e300      /* [m] distance if the ray misses all shapes */
#define RB_RAY_EPSILON 1e-15 /* smallest component of a direction, or ratio of discriminant to a */
#define RB_RAY_STACK 64      /* largest depth of the tree */

enum { RB_PLANE, RB_SPHERE, RB_CAPSULE, RB_ELLIPSOID, RB_CYLINDER, RB_BOX, RB_HEIGHT_FIELD };

/* Shape with the transform from body to shape coordinates. A height field has the half-extents
   size[0] and size[1], the largest height size[2] and the depth of its base size[3]. An ellipsoid
   has the inverses of its radii. */
typedef struct {
    int kind, rows, columns, first; /* of the heights */
    double size[4], E[9], r[3];
} RbRayShape;

/* Box of the tree. A leaf has `count` items from the index `next`. An inner box has count = 0; its
   children are the following box and the box with the index `next`. */
typedef struct {
    float lower[3], upper[3];
    int next, count;
} RbRayBox;

/* An item below `triangles` is a triangle, and a larger item is a shape. Planes are the first
   shapes. Without boxes, the ray is tested with all items. */
typedef struct {
    int planes, shapes, triangles, boxes;
    const RbRayShape *shape;
    const double (*vertex)[3];
    const int (*corner)[3];
    const RbRayBox *box;
    const int *item;
    const float *height;
} RbRayScene;

typedef struct {
    double t;
    int item;
    double normal[3]; /* of a height field, in its coordinates */
} RbRayHit;

static inline double rb_ray_dot(const double a[3], const double b[3])
{
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

static inline void rb_ray_cross(const double a[3], const double b[3], double c[3])
{
    c[0] = a[1] * b[2] - a[2] * b[1];
    c[1] = a[2] * b[0] - a[0] * b[2];
    c[2] = a[0] * b[1] - a[1] * b[0];
}

static inline void rb_ray_subtract(const double a[3], const double b[3], double c[3])
{
    for (int k = 0; k < 3; k++)
        c[k] = a[k] - b[k];
}

static inline double rb_ray_safe(double x)
{
    return fabs(x) < RB_RAY_EPSILON ? RB_RAY_EPSILON : x;
}

/* Solutions t of a t^2 + 2 b t + c = 0, the smaller one first; returns 0 without a solution. */
static inline int rb_ray_quadratic(double a, double b, double c, double t[2])
{
    const double square = b * b - a * c;
    if (a < RB_RAY_EPSILON || square < RB_RAY_EPSILON * a)
        return 0;
    const double root = sqrt(square), inverse = 1.0 / a;
    t[0] = (-b - root) * inverse;
    t[1] = (-b + root) * inverse;
    return 1;
}

/* Distances t at which a ray enters and leaves a box; returns 0 if the ray misses the box. */
static inline int rb_ray_slabs(const double half[3], const double p[3], const double d[3],
                               double t[2])
{
    t[0] = -RB_NO_HIT;
    t[1] = RB_NO_HIT;
    for (int k = 0; k < 3; k++) {
        const double scale = 1.0 / rb_ray_safe(d[k]);
        const double a = (-half[k] - p[k]) * scale, b = (half[k] - p[k]) * scale;
        const double first = a < b ? a : b, last = a < b ? b : a;
        t[0] = first > t[0] ? first : t[0];
        t[1] = last < t[1] ? last : t[1];
    }
    return t[0] <= t[1];
}

static inline double rb_ray_smallest(const double t[2])
{
    return t[0] >= 0.0 ? t[0] : t[1] >= 0.0 ? t[1] : RB_NO_HIT;
}

/* The plane z = 0; half-extents of 0 denote an infinite plane. A ray from below misses it. */
static inline double rb_ray_plane(const double size[4], const double p[3], const double d[3])
{
    if (d[2] > -RB_RAY_EPSILON)
        return RB_NO_HIT;
    const double t = -p[2] / d[2];
    for (int k = 0; k < 2; k++)
        if (size[k] > 0.0 && fabs(p[k] + t * d[k]) > size[k])
            return RB_NO_HIT;
    return t >= 0.0 ? t : RB_NO_HIT;
}

/* The lateral surface of a cylinder with the radius size[0] and the half length size[1]. */
static inline double rb_ray_side(const double size[4], const double p[3], const double d[3])
{
    double t[2], best = RB_NO_HIT;
    if (!rb_ray_quadratic(d[0] * d[0] + d[1] * d[1], d[0] * p[0] + d[1] * p[1],
                          p[0] * p[0] + p[1] * p[1] - size[0] * size[0], t))
        return RB_NO_HIT;
    for (int k = 0; k < 2; k++)
        if (t[k] >= 0.0 && t[k] < best && fabs(p[2] + t[k] * d[2]) <= size[1])
            best = t[k];
    return best;
}

static inline double rb_ray_capsule(const double size[4], const double p[3], const double d[3])
{
    double best = rb_ray_side(size, p, d), t[2];
    for (int end = 0; end < 2; end++) {
        const double sign = end ? -1.0 : 1.0;
        const double s[3] = {p[0], p[1], p[2] - sign * size[1]};
        if (!rb_ray_quadratic(rb_ray_dot(d, d), rb_ray_dot(d, s),
                              rb_ray_dot(s, s) - size[0] * size[0], t))
            continue;
        for (int k = 0; k < 2; k++)
            if (t[k] >= 0.0 && t[k] < best && sign * (p[2] + t[k] * d[2]) >= size[1])
                best = t[k];
    }
    return best;
}

static inline double rb_ray_cylinder(const double size[4], const double p[3], const double d[3])
{
    const double a = d[0] * d[0] + d[1] * d[1], c = p[0] * p[0] + p[1] * p[1] - size[0] * size[0];
    double t[2] = {-RB_NO_HIT, RB_NO_HIT};
    if (a < RB_RAY_EPSILON ? c > 0.0 : !rb_ray_quadratic(a, d[0] * p[0] + d[1] * p[1], c, t))
        return RB_NO_HIT;
    const double scale = 1.0 / rb_ray_safe(d[2]);
    const double u = (-size[1] - p[2]) * scale, v = (size[1] - p[2]) * scale;
    const double first = u < v ? u : v, last = u < v ? v : u;
    t[0] = first > t[0] ? first : t[0];
    t[1] = last < t[1] ? last : t[1];
    return t[0] <= t[1] ? rb_ray_smallest(t) : RB_NO_HIT;
}

/* Ray with the shear that turns its direction to the axis with the largest component. */
typedef struct {
    double p[3], d[3], shear[2];
    int x, y, z;
} RbRay;

static inline RbRay rb_ray(const double p[3], const double d[3])
{
    const double a[3] = {fabs(d[0]), fabs(d[1]), fabs(d[2])};
    const int z = a[0] > a[1] ? (a[0] > a[2] ? 0 : 2) : (a[1] > a[2] ? 1 : 2);
    const int x = (z + 1) % 3, y = (z + 2) % 3;
    return (RbRay){{p[0], p[1], p[2]}, {d[0], d[1], d[2]}, {d[x] / d[z], d[y] / d[z]}, x, y, z};
}

/* Distance to a triangle; the ray can hit both sides. Each corner is sheared to the plane across the
   ray, in which U, V and W are the areas of the edges with the ray. Rounding can make an area zero,
   but does not change its sign. No ray passes between two triangles with a common edge (Woop,
   Benthin and Wald, 2013). */
static inline double rb_ray_triangle(const double a[3], const double b[3], const double c[3],
                                     const RbRay *ray, double normal[3])
{
    const double *const corner[3] = {a, b, c};
    double X[3], Y[3];
    for (int k = 0; k < 3; k++) {
        const double z = corner[k][ray->z] - ray->p[ray->z];
        X[k] = corner[k][ray->x] - ray->p[ray->x] - ray->shear[0] * z;
        Y[k] = corner[k][ray->y] - ray->p[ray->y] - ray->shear[1] * z;
    }
    const double U = X[2] * Y[1] - Y[2] * X[1], V = X[0] * Y[2] - Y[0] * X[2];
    const double W = X[1] * Y[0] - Y[1] * X[0];
    if ((U < 0.0 || V < 0.0 || W < 0.0) && (U > 0.0 || V > 0.0 || W > 0.0))
        return RB_NO_HIT;
    double A[3], e[3], f[3];
    rb_ray_subtract(a, ray->p, A);
    rb_ray_subtract(b, a, e);
    rb_ray_subtract(c, a, f);
    rb_ray_cross(e, f, normal);
    const double along = rb_ray_dot(normal, ray->d);
    if (fabs(along) <= 0.0)
        return RB_NO_HIT;
    const double t = rb_ray_dot(A, normal) / along;
    return t >= 0.0 ? t : RB_NO_HIT;
}

/* Height field: the triangles of the surface, four sides, and the box of its base. */
static inline double rb_ray_field(const RbRayShape *f, const float *height, const double p[3],
                                  const double d[3], double normal[3])
{
    const double *size = f->size, top = size[2];
    const double base[3] = {size[0], size[1], size[3] / 2},
                 in_base[3] = {p[0], p[1], p[2] + size[3] / 2};
    const double box[3] = {size[0], size[1], top / 2}, in_box[3] = {p[0], p[1], p[2] - top / 2};
    double t[2], best = RB_NO_HIT;
    if (rb_ray_slabs(base, in_base, d, t))
        best = rb_ray_smallest(t);
    if (best < RB_NO_HIT) { /* the face that the ray hits at the smallest distance */
        double least = RB_NO_HIT;
        for (int k = 0; k < 3; k++) {
            const double gap = fabs(fabs(in_base[k] + best * d[k]) - base[k]);
            if (gap < least) {
                least = gap;
                normal[0] = normal[1] = normal[2] = 0.0;
                normal[k] = 1.0;
            }
        }
    }
    if (!rb_ray_slabs(box, in_box, d, t) || t[1] < 0.0)
        return best;
    const double begin = t[0] > 0.0 ? t[0] : 0.0, end = t[1];
    const int rows = f->rows, columns = f->columns;
    const double dx = 2.0 * size[0] / (columns - 1), dy = 2.0 * size[1] / (rows - 1);
    const RbRay ray = rb_ray(p, d);
    height += f->first;
    /* rows in the order of the ray */
    const double y_begin = (p[1] + begin * d[1] + size[1]) / dy;
    const double y_end = (p[1] + end * d[1] + size[1]) / dy;
    const int step = y_end < y_begin ? -1 : 1;
    int row = (int)floor(y_begin) - step, last = (int)floor(y_end) + step;
    row = row < 0 ? 0 : row > rows - 2 ? rows - 2 : row;
    last = last < 0 ? 0 : last > rows - 2 ? rows - 2 : last;
    for (;; row += step) {
        /* part of the ray above the row, with a margin of a quarter of a cell */
        double s0 = begin, s1 = end;
        if (fabs(d[1]) > 1e-9) {
            const double near = (row - 0.25) * dy - size[1] - p[1];
            const double far = (row + 1.25) * dy - size[1] - p[1];
            const double u = near / d[1], v = far / d[1];
            const double low = u < v ? u : v, high = u < v ? v : u;
            s0 = low > s0 ? low : s0;
            s1 = high < s1 ? high : s1;
        }
        if (best < s0)
            break;
        if (s0 <= s1) {
            const double x0 = (p[0] + s0 * d[0] + size[0]) / dx;
            const double x1 = (p[0] + s1 * d[0] + size[0]) / dx;
            const double z0 = p[2] + s0 * d[2], z1 = p[2] + s1 * d[2];
            const double lowest = (z0 < z1 ? z0 : z1) - 1e-9 * top;
            int first = (int)floor((x0 < x1 ? x0 : x1) - 0.25);
            int final = (int)floor((x0 < x1 ? x1 : x0) + 0.25);
            first = first < 0 ? 0 : first;
            final = final > columns - 2 ? columns - 2 : final;
            for (int column = first; column <= final; column++) {
                const float *z = height + row * columns + column;
                const float *next = z + columns;
                if (lowest > top * z[0] && lowest > top * z[1] && lowest > top * next[0] &&
                    lowest > top * next[1])
                    continue;
                const double x = dx * column - size[0], y = dy * row - size[1];
                const double X = dx * (column + 1) - size[0], Y = dy * (row + 1) - size[1];
                const double corner[4][3] = {{x, y, top * z[0]},
                                             {X, y, top * z[1]},
                                             {X, Y, top * next[1]},
                                             {x, Y, top * next[0]}};
                for (int k = 0; k < 2; k++) {
                    double n[3];
                    const double one =
                        rb_ray_triangle(corner[0], corner[k + 1], corner[k + 2], &ray, n);
                    if (one < best) {
                        best = one;
                        for (int i = 0; i < 3; i++)
                            normal[i] = n[i];
                    }
                }
            }
        }
        if (row == last)
            break;
    }
    for (int side = 0; side < 4; side++) {
        const int k = side / 2, m = 1 - k;
        const double one = ((side % 2 ? size[k] : -size[k]) - p[k]) / rb_ray_safe(d[k]);
        const double across = p[m] + one * d[m], z = p[2] + one * d[2];
        if (one < 0.0 || one >= best || fabs(across) > size[m] || z < 0.0 || z > top)
            continue;
        const int count = k ? columns : rows, stride = k ? 1 : columns;
        const double place = (across + size[m]) / (m ? dy : dx);
        int index = (int)floor(place);
        index = index < 0 ? 0 : index > count - 2 ? count - 2 : index;
        const float *edge =
            height + (k ? (side % 2 ? (rows - 1) * columns : 0) : (side % 2 ? columns - 1 : 0));
        const double low = top * edge[index * stride], high = top * edge[(index + 1) * stride];
        if (z < low * (index + 1 - place) + high * (place - index)) {
            best = one;
            normal[0] = normal[1] = normal[2] = 0.0;
            normal[k] = 1.0;
        }
    }
    return best;
}

/* Ray in the coordinates of a shape. */
static inline void rb_ray_in_shape(const RbRayShape *shape, const double p[3], const double d[3],
                                   double q[3], double e[3])
{
    double s[3];
    rb_ray_subtract(p, shape->r, s);
    for (int k = 0; k < 3; k++) {
        q[k] = rb_ray_dot(shape->E + 3 * k, s);
        e[k] = rb_ray_dot(shape->E + 3 * k, d);
    }
}

static inline double rb_ray_shape(const RbRayScene *scene, const RbRayShape *shape,
                                  const double p[3], const double d[3], double normal[3])
{
    double q[3], e[3], t[2];
    const double *size = shape->size;
    if (shape->kind == RB_SPHERE) {
        rb_ray_subtract(p, shape->r, q);
        return rb_ray_quadratic(rb_ray_dot(d, d), rb_ray_dot(d, q),
                                rb_ray_dot(q, q) - size[0] * size[0], t)
                   ? rb_ray_smallest(t)
                   : RB_NO_HIT;
    }
    rb_ray_in_shape(shape, p, d, q, e);
    switch (shape->kind) {
    case RB_PLANE: return rb_ray_plane(size, q, e);
    case RB_CAPSULE: return rb_ray_capsule(size, q, e);
    case RB_CYLINDER: return rb_ray_cylinder(size, q, e);
    case RB_HEIGHT_FIELD: return rb_ray_field(shape, scene->height, q, e, normal);
    case RB_BOX: return rb_ray_slabs(size, q, e, t) ? rb_ray_smallest(t) : RB_NO_HIT;
    default: { /* ellipsoid, scaled to the unit sphere */
        for (int k = 0; k < 3; k++) {
            q[k] *= size[k];
            e[k] *= size[k];
        }
        return rb_ray_quadratic(rb_ray_dot(e, e), rb_ray_dot(e, q), rb_ray_dot(q, q) - 1.0, t)
                   ? rb_ray_smallest(t)
                   : RB_NO_HIT;
    }
    }
}

static inline void rb_ray_item(const RbRayScene *scene, int item, const double p[3],
                               const double d[3], const RbRay *ray, RbRayHit *hit)
{
    double n[3] = {0.0, 0.0, 0.0}, t;
    if (item < scene->triangles) {
        const int *k = scene->corner[item];
        t = rb_ray_triangle(scene->vertex[k[0]], scene->vertex[k[1]], scene->vertex[k[2]], ray, n);
    } else
        t = rb_ray_shape(scene, scene->shape + (item - scene->triangles), p, d, n);
    if (t < hit->t) {
        hit->t = t;
        hit->item = item;
        for (int k = 0; k < 3; k++)
            hit->normal[k] = n[k];
    }
}

/* Distance at which a ray enters a box of the tree, or RB_NO_HIT if it misses the box. */
static inline double rb_ray_enter(const RbRayBox *box, const double p[3], const double inverse[3],
                                  double best)
{
    double first = 0.0, last = best;
    for (int k = 0; k < 3; k++) {
        const double a = ((double)box->lower[k] - p[k]) * inverse[k];
        const double b = ((double)box->upper[k] - p[k]) * inverse[k];
        const double low = a < b ? a : b, high = (a < b ? b : a) * (1.0 + 1e-15);
        first = low > first ? low : first;
        last = high < last ? high : last;
    }
    return first <= last ? first : RB_NO_HIT;
}

/* Nearest hit of the ray from p with the unit direction d, in body coordinates. */
static inline RbRayHit rb_nearest_hit(const RbRayScene *scene, const double p[3], const double d[3])
{
    RbRay ray = {0}; /* only for triangles */
    if (scene->triangles)
        ray = rb_ray(p, d);
    RbRayHit hit = {RB_NO_HIT, -1, {0.0, 0.0, 0.0}};
    const int count = scene->boxes ? scene->planes : scene->shapes;
    for (int k = 0; k < count; k++)
        rb_ray_item(scene, scene->triangles + k, p, d, &ray, &hit);
    if (!scene->boxes) {
        for (int k = 0; k < scene->triangles; k++)
            rb_ray_item(scene, k, p, d, &ray, &hit);
        return hit;
    }
    double inverse[3];
    for (int k = 0; k < 3; k++)
        inverse[k] = 1.0 / (fabs(d[k]) < 1e-300 ? 1e-300 : d[k]);
    struct {
        int box;
        double first;
    } stack[RB_RAY_STACK];
    int depth = 0, box = 0;
    double first = rb_ray_enter(scene->box, p, inverse, hit.t);
    for (;;) {
        if (first < hit.t || (first <= hit.t && hit.t < RB_NO_HIT)) {
            const RbRayBox *here = scene->box + box;
            if (!here->count) {
                const int far = here->next;
                const double a = rb_ray_enter(here + 1, p, inverse, hit.t);
                const double b = rb_ray_enter(scene->box + far, p, inverse, hit.t);
                const int swap = b < a;
                stack[depth].box = swap ? box + 1 : far;
                stack[depth++].first = swap ? a : b;
                box = swap ? far : box + 1;
                first = swap ? b : a;
                continue;
            }
            for (int k = 0; k < here->count; k++)
                rb_ray_item(scene, scene->item[here->next + k], p, d, &ray, &hit);
        }
        if (!depth)
            return hit;
        box = stack[--depth].box;
        first = stack[depth].first;
    }
}

/* Outward or inward normal of the surface at the point x of a hit, in body coordinates. */
static inline void rb_ray_normal(const RbRayScene *scene, const RbRayHit *hit, const double x[3],
                                 double normal[3])
{
    if (hit->item < scene->triangles) {
        for (int k = 0; k < 3; k++)
            normal[k] = hit->normal[k];
        return;
    }
    const RbRayShape *shape = scene->shape + (hit->item - scene->triangles);
    const double *size = shape->size;
    double q[3], unused[3], n[3] = {0.0, 0.0, 0.0};
    rb_ray_in_shape(shape, x, x, q, unused);
    switch (shape->kind) {
    case RB_PLANE: n[2] = 1.0; break;
    case RB_HEIGHT_FIELD:
        for (int k = 0; k < 3; k++)
            n[k] = hit->normal[k];
        break;
    case RB_BOX: {
        int face = 0;
        for (int k = 1; k < 3; k++)
            if (fabs(q[k]) - size[k] > fabs(q[face]) - size[face])
                face = k;
        n[face] = 1.0;
        break;
    }
    case RB_CYLINDER:
    case RB_CAPSULE: {
        const double z = q[2] > size[1] ? size[1] : q[2] < -size[1] ? -size[1] : q[2];
        n[0] = q[0];
        n[1] = q[1];
        if (shape->kind == RB_CAPSULE)
            n[2] = q[2] - z;
        else if (fabs(q[2]) - size[1] > sqrt(q[0] * q[0] + q[1] * q[1]) - size[0]) {
            n[0] = n[1] = 0.0;
            n[2] = 1.0;
        }
        break;
    }
    default:
        for (int k = 0; k < 3; k++)
            n[k] = shape->kind == RB_SPHERE ? q[k] : q[k] * size[k] * size[k];
    }
    for (int k = 0; k < 3; k++)
        normal[k] = shape->E[k] * n[0] + shape->E[3 + k] * n[1] + shape->E[6 + k] * n[2];
}

/* Cast `rays` rays with the unit directions `direction` from a sensor. The rays start at the distance
   `start` from the sensor, and the distances are from the sensor.

   x contains the position p (3) of the sensor and the rotation R (9, by rows) from sensor to body
   coordinates. With hits = 0, y contains the distances. With hits = 1, y contains for each ray the
   distance t, g = n / (n . d), and the hit point (3). n is the normal of the surface. For a ray
   without a hit, g and the point are zero. */
static inline void rb_cast_rays(const RbRayScene *scene, int rays, const double (*direction)[3],
                                double start, int hits, const double *x, double *y)
{
    for (int k = 0; k < rays; k++) {
        double d[3], p[3];
        for (int i = 0; i < 3; i++) {
            d[i] = rb_ray_dot(x + 3 + 3 * i, direction[k]);
            p[i] = x[i] + start * d[i];
        }
        RbRayHit hit = rb_nearest_hit(scene, p, d);
        hit.t += hit.item < 0 ? 0.0 : start;
        if (!hits) {
            y[k] = hit.t;
            continue;
        }
        double *result = y + 7 * k, n[3];
        result[0] = hit.t;
        for (int i = 1; i < 7; i++)
            result[i] = 0.0;
        if (hit.item < 0)
            continue;
        for (int i = 0; i < 3; i++)
            result[4 + i] = x[i] + hit.t * d[i];
        rb_ray_normal(scene, &hit, result + 4, n);
        const double along = rb_ray_dot(n, d);
        for (int i = 0; i < 3 && fabs(along) > 0.0; i++)
            result[1 + i] = n[i] / along;
    }
}

#endif
