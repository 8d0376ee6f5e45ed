/* Bodies with shapes, and the broad phase: pairs of shapes that may touch. model_interface.h lists
   the generated tables. */

#ifndef RB_BROAD_PHASE_H
#define RB_BROAD_PHASE_H

#if !defined(RB_TABLES_H) /* else the generated tables precede this header */
#include "tables.h"
#endif

#include "terrain.h"
#include "workspace.h"

typedef double rb_three_numbers[3];
typedef double rb_six_numbers[6];

/* A body, in base coordinates. The array of bodies has one additional static body.

     x, r                     centre of mass [m], rotation matrix
     v, w                     linear and angular velocity
     push_v, push_w           velocities of the penetration correction
     before_v, before_w       velocities before the step
     inverse_mass             [1/kg]
     inverse_inertia          3 x 3, about the centre of mass [1/(kg m^2)]
     rate                     mean angular velocity over the step minus its initial value [rad/s]
     start_w, start_mean_w    initial and mean angular velocity over the step without contact */
struct rb_body {
    double x[3], r[9], v[3], w[3], push_v[3], push_w[3], before_v[3], before_w[3];
    double inverse_mass, inverse_inertia[9], rate[3];
    double start_w[3], start_mean_w[3];
    double slow, fast; /* speed before the step, and after the applied forces of the step [m/s] */
};

/* A link of a tree:
     o, v                origin of its frame, and velocity of the origin
     turning, speeding   angular acceleration, and linear acceleration of the origin, at qdd = 0
     f, n                required force and moment
     mass, middle, inertia   mass, centre of mass and inertia of its subtree
     own                 inertia of the link itself */
struct rb_link {
    double o[3], v[3], turning[3], speeding[3], f[3], n[3];
    double arm[3],
        centre[3]; /* link origin from the parent origin; centre of mass from the link origin */
    double mass, middle[3], inertia[9], own[9];
};

/* Axis-aligned bounds of a shape with their margin, and the displacement of the shape in a step
   [m]. */
struct rb_bounds {
    double low[3], high[3], margin, way;
};

/* A pair of shapes that may touch. `gap` is the smallest gap of the contact points, at most 0. `n`
   is the contact normal towards a, or zero if there are several normals. `left_out` counts the
   contact points that did not fit into the list, at the start and at the end of the step. */
struct rb_shape_pair {
    int a, b, left_out[2];
    double gap, n[3];
};

/* Orthonormal constraint directions of the loops in unit-inertia coordinates, the constraint row of
   each direction, and the coefficients of the rows. */
struct rb_loop_rows {
    double way[RB_LOOP_ROWS + 1][RB_DOFS + 1], part[RB_LOOP_ROWS + 1][RB_LOOP_ROWS + 1];
    int row[RB_LOOP_ROWS + 1], taken[RB_LOOP_ROWS + 1], count;
};

/* Factor L of a symmetric matrix L^T L with the branch-induced sparsity of the trees, stored by
   rows, and the inverse of its diagonal. */
struct rb_factor {
    double row[RB_ROWS + 1], inverse[RB_DOFS + 1];
};

struct rb_scene {
    struct rb_body body[RB_BODIES + 1];
    struct rb_placed_shape shape[RB_SHAPES],
        coming[RB_SHAPES]; /* poses at the start and at the end of the step */
    struct rb_bounds bounds[RB_SHAPES];
    struct rb_shape_pair pair[RB_PAIRS];
    int order[RB_SHAPES], pairs, left_out, first; /* `first`: 1 in the first step of the run */
    struct rb_link link[RB_LINKS + 1];            /* the last one is the base */
    double column[RB_DOFS + 1][6], qd[RB_DOFS + 1];
    struct rb_factor inertia;
    /* unit-inertia coordinates z = L qd of the velocities and of the penetration correction */
    double z[RB_DOFS + 1], push_z[RB_DOFS + 1];
    /* L qd at the start of the step, and predicted qd at its middle */
    double before_z[RB_DOFS + 1], middle[RB_DOFS + 1];
    struct rb_loop_rows loops;
};

/* Compute the rotation matrix of a unit quaternion, scalar first, from body to base coordinates. */
static inline void rb_rotation_of_quaternion(const double *q, double *r)
{
    const double w = q[0], x = q[1], y = q[2], z = q[3];
    r[0] = 1.0 - 2.0 * (y * y + z * z);
    r[1] = 2.0 * (x * y - w * z);
    r[2] = 2.0 * (x * z + w * y);
    r[3] = 2.0 * (x * y + w * z);
    r[4] = 1.0 - 2.0 * (x * x + z * z);
    r[5] = 2.0 * (y * z - w * x);
    r[6] = 2.0 * (x * z - w * y);
    r[7] = 2.0 * (y * z + w * x);
    r[8] = 1.0 - 2.0 * (x * x + y * y);
}

/* Return tan(a / 2) / a for `squared` = a^2 by its series. Below 0.1 rad the error is at most
   1e-12:

     tan(x) / x = 1 + x^2 / 3 + 2 x^4 / 15 + 17 x^6 / 315 + ..,   x = a / 2 */
static inline double half_tangent(double squared)
{
    const double s = 0.25 * squared;
    return 0.5 * (1.0 + s * (1.0 / 3.0 + s * (2.0 / 15.0 + s * 17.0 / 315.0)));
}

/* Return the derivative of `half_tangent` with respect to its argument. */
static inline double half_tangent_slope(double squared)
{
    const double s = 0.25 * squared;
    return 0.125 * (1.0 / 3.0 + s * (4.0 / 15.0 + s * 51.0 / 315.0));
}

/* Rotate a quaternion by the rotation vector `angle` (base coordinates):

     q' = normalize([1, tan(a / 2) / a angle] q),   a = |angle| */
static inline void rb_rotate_quaternion(const double *q, const double *angle, double *out)
{
    const double c = half_tangent(rb_dot(angle, angle));
    const double x = c * angle[0], y = c * angle[1], z = c * angle[2];
    const double p[4] = {
        q[0] - x * q[1] - y * q[2] - z * q[3], q[1] + x * q[0] + y * q[3] - z * q[2],
        q[2] + y * q[0] + z * q[1] - x * q[3], q[3] + z * q[0] + x * q[2] - y * q[1]};
    const double scale = 1.0 / sqrt(p[0] * p[0] + p[1] * p[1] + p[2] * p[2] + p[3] * p[3]);
    for (int i = 0; i < 4; i++)
        out[i] = scale * p[i];
}

/* Compute R M R^T for a symmetric matrix M. */
static inline void rb_rotate_matrix(const double *r, const double *m, double *out)
{
    double left[9];
    rb_multiply3(r, m, left);
    out[0] = rb_dot(left, r);
    out[1] = out[3] = rb_dot(left, r + 3);
    out[2] = out[6] = rb_dot(left, r + 6);
    out[4] = rb_dot(left + 3, r + 3);
    out[5] = out[7] = rb_dot(left + 3, r + 6);
    out[8] = rb_dot(left + 6, r + 6);
}

/* Compute the angular momentum of a free body about its centre of mass. */
static inline void rb_angular_momentum(const struct rb_scene *s, int k, double *out)
{
    rb_rotate_back(s->body[k].r, s->body[k].w, out);
    rb_rotate(RB_INERTIA[k], out, out);
    rb_rotate(s->body[k].r, out, out);
}

/* Residual of the equation of the mean momentum x of a body over the step:

     f(x) = x + g w x x - L,  w = I^-1 x,  g = h tan(h w / 2) / (h w) */
struct rb_mean_momentum {
    double x[3], w[3], whirl[3], factor, f[3], squared; /* whirl = w x x, squared = f . f */
};

static inline void evaluate_mean_momentum(const struct rb_body *body, const double *momentum,
                                          struct rb_mean_momentum *at)
{
    rb_rotate(body->inverse_inertia, at->x, at->w);
    rb_cross(at->w, at->x, at->whirl);
    at->factor = RB_SCENE_STEP * half_tangent(RB_SCENE_STEP * RB_SCENE_STEP * rb_dot(at->w, at->w));
    rb_subtract(at->x, momentum, at->f);
    rb_axpy(at->f, at->factor, at->whirl, at->f);
    at->squared = rb_dot(at->f, at->f);
}

/* Compute Newton's step d of the mean momentum by Cramer's rule: f'(x) d = -f. */
static inline void mean_momentum_step(const struct rb_body *body, const struct rb_mean_momentum *at,
                                      double *d)
{
    const double slope = 2.0 * RB_SCENE_STEP * RB_SCENE_STEP * RB_SCENE_STEP *
                         half_tangent_slope(RB_SCENE_STEP * RB_SCENE_STEP * rb_dot(at->w, at->w));
    double column[3][3], normal[3];
    for (int j = 0; j < 3; j++) {
        const double *dw = body->inverse_inertia + 3 * j, e[3] = {j == 0, j == 1, j == 2};
        rb_cross(at->w, e, normal);
        rb_axpy(e, at->factor, normal, column[j]);
        rb_cross(dw, at->x, normal);
        rb_axpy(column[j], at->factor, normal, column[j]);
        rb_axpy(column[j], slope * rb_dot(at->w, dw), at->whirl, column[j]);
    }
    rb_cross(column[1], column[2], normal);
    const double det = rb_dot(column[0], normal);
    d[0] = -rb_dot(at->f, normal) / det;
    rb_cross(column[2], column[0], normal);
    d[1] = -rb_dot(at->f, normal) / det;
    rb_cross(column[0], column[1], normal);
    d[2] = -rb_dot(at->f, normal) / det;
}

/* Solve for the mean angular velocity of a body that rotates far in a step, by Newton's method with
   step halving. The bounds of 30 steps and 20 halvings were found by trial. */
static inline void solve_fast_rotation(const struct rb_body *body, const double *momentum,
                                       double *w)
{
    struct rb_mean_momentum at, next;
    double d[3];
    int halvings = 0;
    memcpy(at.x, momentum, sizeof at.x);
    evaluate_mean_momentum(body, momentum, &at);
    for (int i = 0; i < 30 && halvings < 20 && at.squared > 1e-30 * rb_dot(momentum, momentum);
         i++) {
        mean_momentum_step(body, &at, d);
        for (halvings = 0; halvings < 20; halvings++) {
            rb_axpy(at.x, 1.0 / (1 << halvings), d, next.x);
            evaluate_mean_momentum(body, momentum, &next);
            if (next.squared < at.squared) {
                at = next;
                break;
            }
        }
    }
    memcpy(w, at.w, sizeof at.w);
}

/* Solve for the mean angular velocity w of a body over the step. A rotation with this velocity
   conserves the angular momentum and the energy (Simo and Wong 1991). x is the mean of the momentum
   in the body frame before and after the step, L the initial momentum. Fixed-point iteration solves

       x + tan(h w / 2) / w (w x x) = L,  w = I^-1 x.

   If the body turns by more than about 1 rad in a step, the iteration converges slowly or not at
   all, and Newton's method follows. */
static inline void rb_solve_mean_angular_velocity(const struct rb_scene *s, int k, double *w)
{
    const struct rb_body *body = &s->body[k];
    double momentum[3], x[3], before = 0.0;
    memcpy(w, body->w, sizeof body->w);
    rb_angular_momentum(s, k, momentum);
    memcpy(x, momentum, sizeof x);
    /* Each iteration reduces the relative change by about the same factor. The loop ends if the
       next change would be below 1e-16, less than the rounding error; 20 iterations bound the work.
       `change` and `before` are squared changes. A small first change does not end the loop: near a
       principal axis it is small, but its error would increase the nutation in each step. */
    for (int i = 0; i < 20; i++) {
        double next[3], u[3];
        rb_cross(w, x, u);
        rb_axpy(momentum,
                -RB_SCENE_STEP * half_tangent(RB_SCENE_STEP * RB_SCENE_STEP * rb_dot(w, w)), u,
                next);
        rb_subtract(next, x, u);
        const double change = rb_dot(u, u) / (rb_dot(x, x) + DBL_MIN);
        memcpy(x, next, sizeof x);
        rb_rotate(body->inverse_inertia, x, w);
        if (change * change <= 1e-32 * before)
            return;
        before = change;
    }
    if (!(before <= 1e-30))
        solve_fast_rotation(body, momentum, w);
}

/* Compute the mean angular velocity w of a body over the step. Without contact, the value from the
   start of the step is still valid. */
static inline void rb_mean_angular_velocity(const struct rb_scene *s, int k, double *w)
{
    const struct rb_body *body = &s->body[k];
    if (!RB_FREE[k] || RB_ISOTROPIC[k])
        memcpy(w, body->w, sizeof body->w);
    else if (memcmp(body->w, body->start_w, sizeof body->w) == 0)
        memcpy(w, body->start_mean_w, sizeof body->w);
    else
        rb_solve_mean_angular_velocity(s, k, w);
}

/* Return an upper bound of the speed of a shape's points [m/s], before the step and now. */
static inline double rb_shape_speed(const struct rb_scene *s, int k)
{
    const struct rb_body *body = &s->body[RB_SHAPE_BODY[k]];
    const double now = rb_norm(body->v) + rb_norm(body->w) * RB_SHAPE_REACH[k];
    const double before = rb_norm(body->before_v) + rb_norm(body->before_w) * RB_SHAPE_REACH[k];
    return rb_max(now, before);
}

/* Displacement of a slow step, relative to the size of a shape. Found by trial. */
static const double RB_SMALL_DISPLACEMENT = 0.02;

/* Return the margin of the bounds of a shape for the displacement `way`. The additional 1e-4 of its
   size covers rounding errors. */
static inline double rb_bounds_margin(int k, double way)
{
    return way + 1e-4 * RB_SHAPE_TABLE[RB_SHAPE_AT[k] + RB_SHAPE_SIZE];
}

/* Widen the bounds of a shape. */
static inline void rb_widen_bounds(struct rb_bounds *bounds, double more)
{
    for (int i = 0; i < 3; i++) {
        bounds->low[i] -= more;
        bounds->high[i] += more;
    }
    bounds->margin += more;
}

/* Return half the extent of a core along the unit vector `d` of its frame. For a hull or a mesh, it
   is the extent of its bounding box. */
static inline double half_extent(const double *shape, const double *d)
{
    double top[3];
    if (rb_is_kind(shape, RB_HULL))
        return shape[1] * fabs(d[0]) + shape[2] * fabs(d[1]) + shape[3] * fabs(d[2]);
    rb_local_support(shape, d, top);
    return rb_dot(d, top); /* these cores are symmetric */
}

/* Compute the poses and the bounds of the shapes. The margin covers the displacement of a shape in
   a step. It also covers the displacement after a hit by the fastest body, up to a small fraction
   of the size. Returns 1 if this displacement is larger for some shapes. */
static inline int rb_place_shapes(struct rb_scene *s, double h)
{
    double fastest = 0.0;
    int far = 0;
    for (int k = 0; k < RB_SHAPES; k++)
        fastest = rb_max(fastest, s->bounds[k].way = h * rb_shape_speed(s, k));
    for (int k = 0; k < RB_SHAPES; k++) {
        const struct rb_body *body = &s->body[RB_SHAPE_BODY[k]];
        struct rb_placed_shape *shape = &s->shape[k];
        struct rb_bounds *bounds = &s->bounds[k];
        const double radius = RB_SHAPE_TABLE[RB_SHAPE_AT[k] + RB_SHAPE_RADIUS];
        const double size = RB_SHAPE_TABLE[RB_SHAPE_AT[k] + RB_SHAPE_SIZE];
        rb_place_shape(RB_SHAPE_TABLE + RB_SHAPE_AT[k], rb_pose_of(RB_SHAPE_POSE[k]), body->r,
                       body->x, shape);
        bounds->margin = 0.0;
        if (RB_SHAPE_BODY[k] < RB_BODIES) {
            const double way = fmin(0.5 * fastest, RB_SMALL_DISPLACEMENT * size);
            bounds->margin = rb_bounds_margin(k, rb_max(bounds->way, way));
            far |= 0.5 * fastest > way;
        }
        for (int i = 0; i < 3; i++) {
            if (rb_is_kind(shape->shape, RB_HALF_SPACE) || rb_is_kind(shape->shape, RB_FIELD)) {
                bounds->low[i] = -INFINITY;
                bounds->high[i] = INFINITY;
                continue;
            }
            const double *to = shape->r + 3 * i;
            const double high = half_extent(shape->shape, to);
            bounds->high[i] = shape->p[i] + high + radius + bounds->margin;
            bounds->low[i] = shape->p[i] - high - radius - bounds->margin;
        }
    }
    return far;
}

/* Return the axis along which the positions of the bodies have the largest variance:

     n var = sum x^2 - (sum x)^2 / n */
static inline int widest_axis(const struct rb_scene *s)
{
    double spread[3] = {0.0, 0.0, 0.0};
    for (int i = 0; i < 3; i++) {
        double sum = 0.0, squares = 0.0;
        for (int k = 0; k < RB_BODIES; k++) {
            sum += s->body[k].x[i];
            squares += s->body[k].x[i] * s->body[k].x[i];
        }
        spread[i] = squares - sum * sum / RB_BODIES;
    }
    return spread[0] >= spread[1] && spread[0] >= spread[2] ? 0 : (spread[1] >= spread[2] ? 1 : 2);
}

/* Sort n indices by their keys, equal keys by index. Shell sort with gaps that shrink by 5 / 11 and
   end with 2, 1 (Gonnet and Baeza-Yates 1991) needs no additional memory. */
static inline void sort_by_key(int *order, int n, const double *key)
{
    for (int gap = n / 2; gap > 0; gap = gap == 2 ? 1 : gap * 5 / 11) {
        for (int k = gap; k < n; k++) {
            const int one = order[k];
            int at = k;
            while (at >= gap && (key[order[at - gap]] > key[one] ||
                                 (!(key[order[at - gap]] < key[one]) && order[at - gap] > one))) {
                order[at] = order[at - gap];
                at -= gap;
            }
            order[at] = one;
        }
    }
}

/* Return 1 if two bodies may touch: they are different and have no collision exclusion. */
static inline int may_touch(int a, int b)
{
    const double key = (double)(a < b ? a : b) * (RB_BODIES + 1) + (a < b ? b : a);
    int low = 0, high = RB_APARTS;
    while (low < high) {
        const int middle = low + (high - low) / 2;
        if (RB_APART[middle] < key)
            low = middle + 1;
        else
            high = middle;
    }
    return a != b && (low == RB_APARTS || RB_APART[low] > key);
}

/* Return 1 if a shape is above the plane of a half-space by more than the margins. The test uses
   the bounding radius of the shape about the centre of mass of its body. */
static inline int is_above(const struct rb_scene *s, int k, int plane)
{
    const struct rb_placed_shape *ground = &s->shape[plane];
    double up[3], way[3];
    if (!rb_is_kind(ground->shape, RB_HALF_SPACE))
        return 0;
    rb_shape_axis(ground, 2, up);
    rb_subtract(s->body[RB_SHAPE_BODY[k]].x, ground->p, way);
    return rb_dot(up, way) > RB_SHAPE_REACH[k] + s->bounds[k].margin + s->bounds[plane].margin;
}

/* Add a pair of shapes with overlapping bounds, unless contact is excluded. */
static inline void add_pair(struct rb_scene *s, int one, int other)
{
    const int a = one < other ? one : other, b = one < other ? other : one;
    if (!may_touch(RB_SHAPE_BODY[a], RB_SHAPE_BODY[b]) || is_above(s, a, b) || is_above(s, b, a))
        return;
    if (s->pairs == RB_PAIRS) {
        s->left_out++;
        return;
    }
    s->pair[s->pairs].a = a;
    s->pair[s->pairs++].b = b;
}

/* A shape in the sweep: its upper end along the axis, and its bounds along the other axes. */
struct rb_sweep_entry {
    double end, low[2], high[2];
    int shape;
};

static inline struct rb_sweep_entry sweep_entry(const struct rb_scene *s, int k, int axis)
{
    const struct rb_bounds *bounds = &s->bounds[k];
    const int one = axis == 0, other = axis == 2 ? 1 : 2;
    const struct rb_sweep_entry found = {bounds->high[axis],
                                         {bounds->low[one], bounds->low[other]},
                                         {bounds->high[one], bounds->high[other]},
                                         k};
    return found;
}

/* Return 1 if the bounds overlap along the other axes. The function avoids branches, because
   processors cannot predict their outcome. */
static inline int overlap_across_axis(const struct rb_sweep_entry *a,
                                      const struct rb_sweep_entry *b)
{
    return (a->low[0] <= b->high[0]) & (b->low[0] <= a->high[0]) & (a->low[1] <= b->high[1]) &
           (b->low[1] <= a->high[1]);
}

/* Sort pairs by the index of a or b (stable counting sort). */
static inline void sort_pairs(const struct rb_shape_pair *from, int n, int by_b,
                              struct rb_shape_pair *to)
{
    RB_WORKSPACE(RB_LARGE_SCENE, int, at, RB_SHAPES + 1);
    memset(at, 0, (RB_SHAPES + 1) * sizeof *at);
    for (int k = 0; k < n; k++)
        at[(by_b ? from[k].b : from[k].a) + 1]++;
    for (int k = 0; k < RB_SHAPES; k++)
        at[k + 1] += at[k];
    for (int k = 0; k < n; k++)
        to[at[by_b ? from[k].b : from[k].a]++] = from[k];
}

/* Find the pairs with overlapping bounds by sweep and prune along the widest axis. The sweep visits
   the shapes in the order of their lower ends. It compares each shape with the active shapes, whose
   upper ends it has not passed. The pairs are sorted by the indices of the shapes. */
static inline void rb_find_pairs(struct rb_scene *s)
{
    const int axis = widest_axis(s);
    int count = 0;
    RB_WORKSPACE(RB_LARGE_SCENE, double, key, RB_SHAPES);
    RB_WORKSPACE(RB_LARGE_SCENE, struct rb_sweep_entry, active, RB_SHAPES);
    RB_WORKSPACE(RB_LARGE_SCENE, struct rb_shape_pair, found, RB_PAIRS);
    memset(active, 0, RB_SHAPES * sizeof *active);
    for (int k = 0; k < RB_SHAPES; k++) {
        s->order[k] = k;
        key[k] = s->bounds[k].low[axis];
    }
    sort_by_key(s->order, RB_SHAPES, key);
    s->pairs = 0;
    for (int k = 0; k < RB_SHAPES; k++) {
        const struct rb_sweep_entry one = sweep_entry(s, s->order[k], axis);
        const double start = s->bounds[one.shape].low[axis];
        for (int i = 0; i < count;) {
            if (active[i].end < start) { /* the sweep has passed this shape */
                active[i] = active[--count];
                continue;
            }
            if (overlap_across_axis(&active[i], &one))
                add_pair(s, active[i].shape, one.shape);
            i++;
        }
        active[count++] = one;
    }
    sort_pairs(s->pair, s->pairs, 1, found);
    sort_pairs(found, s->pairs, 0, s->pair);
}

#endif
