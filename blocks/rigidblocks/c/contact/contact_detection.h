/* Contacts of a step: shapes that touch at its start, shapes that would overlap at its end, and
   joint stops that the step may reach. */

#ifndef RB_CONTACT_DETECTION_H
#define RB_CONTACT_DETECTION_H

#include "islands.h"

/* ---- rolling correction: second-order motion of the contact point over a body in a step ---- */

/* Compute the pose of a shape in base coordinates after a motion of its body. The motion is a
   displacement `way` [m] and a rotation about the centre of mass by the rotation vector `angle`
   [rad]. */
static inline void rb_moved_shape(const struct rb_scene *s, int k, const double *way,
                                  const double *angle, struct rb_placed_shape *out)
{
    static const double upright[4] = {1.0, 0.0, 0.0, 0.0};
    const struct rb_body *body = &s->body[RB_SHAPE_BODY[k]];
    double q[4], turned[9], arm[3];
    rb_rotate_quaternion(upright, angle, q);
    rb_rotation_of_quaternion(q, turned);
    out->shape = s->shape[k].shape;
    rb_multiply3(turned, s->shape[k].r, out->r);
    rb_subtract(s->shape[k].p, body->x, arm);
    rb_rotate(turned, arm, out->p);
    rb_axpy(out->p, 1.0, body->x, out->p);
    rb_axpy(out->p, 1.0, way, out->p);
}

/* Compute the point of a turned shape that touches a half-space in the direction `down`, in the
   shape frame. A corner stays the contact point. A rim or an ellipsoid touches with another point.
   The points of a flat cap stay the same. `local` holds the point before the turn. */
static inline void next_lowest(const double *shape, const double *down, int one, double *local)
{
    /* the direction of a shorter vector than 1e-9 would consist of rounding errors */
    const double rim = sqrt(down[0] * down[0] + down[1] * down[1]);
    if (rb_is_kind(shape, RB_ELLIPSOID))
        rb_local_support(shape, down, local);
    if (rb_is_kind(shape, RB_CYLINDER) && (one || fabs(down[2]) <= RB_CAP_COSINE) && rim > 1e-9) {
        local[0] = shape[1] * (down[0] / rim);
        local[1] = shape[1] * (down[1] / rim);
    }
}

/* Compute the change of the contact point velocity from the start to the middle of the step, for a
   contact with a plane (base coordinates). The contact arm turns with the body, and the contact
   point rolls on. With the contact points x_0 now and x_1 after half a step

     change = w x (x_1 - x_0 - h / 2 v)

   `one` is 1 if the shape touches at only this point. */
static inline void rb_rolling_correction(const struct rb_scene *s, int k,
                                         const struct rb_contact *c, int one, double *out)
{
    const struct rb_body *body = &s->body[c->a];
    const struct rb_placed_shape *now = &s->shape[k];
    struct rb_placed_shape then;
    double way[3], angle[3], down[3], local[3], core[3];
    rb_scale(0.5 * RB_SCENE_STEP, body->before_v, way);
    rb_scale(0.5 * RB_SCENE_STEP, body->before_w, angle);
    rb_moved_shape(s, k, way, angle, &then);
    rb_axpy(body->x, 1.0, c->arm_a, core);
    rb_axpy(core, 0.5 * c->gap + rb_shape_radius(now->shape), c->frame[0], core);
    rb_subtract(core, now->p, local);
    rb_rotate_back(now->r, local, local);
    rb_scale(-1.0, c->frame[0], down);
    rb_rotate_back(then.r, down, down);
    next_lowest(now->shape, down, one, local);
    rb_rotate(then.r, local, local);
    rb_axpy(local, 1.0, then.p, local);
    rb_subtract(local, core, local);
    rb_axpy(local, -1.0, way, local);
    rb_cross(body->before_w, local, out);
}

/* ---- contacts of a step ---- */

/* Smaller gaps, relative to the size of the smaller shape, count as zero. Otherwise a gap that is
   only a rounding error would allow a closing velocity. */
static const double RB_TOUCHING = 1e-7;

/* A new contact with a lower sliding speed counts as sticking. The unit is the speed that gravity
   causes in one step. Found by trial. */
static const double RB_ARRIVAL_STEPS = 2.0;

/* Penetration correction of a step. RB_LEFT_DEPTH [size of the smaller shape]: overlap that
   remains, because its correction would do work in every step. RB_CORRECTED_PART: fraction of a
   large overlap that a step removes. RB_CORRECTED_DEPTH [size]: a step removes smaller overlaps
   completely. Found by trial. */
static const double RB_LEFT_DEPTH = 1e-6, RB_CORRECTED_PART = 0.2, RB_CORRECTED_DEPTH = 0.1;

/* Decrease of a gap in a step, relative to the size of the smaller shape, that needs no detection
   at the end of the step. Found by trial. */
static const double RB_UNCHECKED_DISTANCE = 1.5e-3;

/* Inputs of a step: sampled states, joint torques, wrenches on the bodies, gravity, and the contact
   parameters of each material and of each named pair of materials. Members that the generated
   tables lack are NULL; tau is NULL if there are no trees. */
struct rb_step_inputs {
    const double *state, *tau, *f_ext, *gravity, *mu, *e, *mu_static, *torsional, *rolling;
};

/* Return the index of the parameters of a named pair of materials; -1 if the pair is not named. */
static inline int find_material_pair(int a, int b)
{
    const double key = (double)(a < b ? a : b) * RB_MATERIALS + (a < b ? b : a);
    for (int k = 0; k < RB_NAMED_PAIRS; k++)
        if (!(RB_NAMED_PAIR[k] < key) && !(RB_NAMED_PAIR[k] > key))
            return RB_MATERIALS + k;
    return -1;
}

/* Return the parameter of the named pair; otherwise the geometric mean of both materials. */
static inline double pair_mean(const double *values, int a, int b, int pair)
{
    return pair >= 0 ? values[pair] : sqrt(values[a] * values[b]);
}

static inline double pair_maximum(const double *values, int a, int b, int pair)
{
    if (!values)
        return 0.0;
    return pair >= 0 ? values[pair] : fmax(values[a], values[b]);
}

/* Return 1 if the sliding velocity of a new contact exceeds RB_ARRIVAL_STEPS h |g|. */
static inline int arrives_with_slip(const struct rb_step_inputs *in, const struct rb_scene *s,
                                    const struct rb_contact *c)
{
    double w[3];
    rb_contact_velocity(s, c, w);
    return sqrt(w[1] * w[1] + w[2] * w[2]) >
           RB_ARRIVAL_STEPS * RB_SCENE_STEP * rb_norm(in->gravity);
}

/* Set the friction of a contact between the materials a and b; call `recall_impulse` first. Returns
   the restitution coefficient. */
static inline double set_friction(const struct rb_step_inputs *in, const struct rb_scene *s, int a,
                                  int b, struct rb_contact *c)
{
    const int pair = RB_NAMED_PAIRS > 0 ? find_material_pair(a, b) : -1;
    c->mu = pair_mean(in->mu, a, b, pair);
    if (in->mu_static && (c->impulse[0] > 0.0 ? c->sticks : !arrives_with_slip(in, s, c)))
        c->mu = fmax(c->mu, pair_mean(in->mu_static, a, b, pair));
    c->torsional = pair_maximum(in->torsional, a, b, pair);
    c->rolling = pair_maximum(in->rolling, a, b, pair);
    return pair_mean(in->e, a, b, pair);
}

/* Return the index that a contact had in the last step, by binary search for its key; -1 for a new
   contact. */
static inline int previous_contact(const struct rb_step_inputs *in, double key)
{
    const double *keys = in->state + RB_AT_KEY;
    int low = 0, high = (int)in->state[RB_AT_CONTACTS];
    while (low < high) {
        const int middle = low + (high - low) / 2;
        if (keys[middle] < key)
            low = middle + 1;
        else
            high = middle;
    }
    return low < (int)in->state[RB_AT_CONTACTS] && !(keys[low] > key) ? low : -1;
}

/* Copy the impulse of a contact from the last step; it is zero for a new contact. */
static inline void recall_impulse(const struct rb_step_inputs *in, double key, struct rb_contact *c)
{
    const int low = previous_contact(in, key);
    if (low >= 0) {
        const double *p = in->state + RB_AT_IMPULSE + RB_CONTACT_ROWS * low;
        for (int i = 0; i < RB_CONTACT_ROWS; i++)
            c->impulse[i] = rb_dot(c->frame[i % 3], p + i / 3 * 3);
        c->impulse[0] = fmax(c->impulse[0], 0.0);
        c->sticks = in->mu_static && in->state[RB_AT_STICKS + low] > 0.0;
    }
}

/* Return the size of the smaller shape of a pair [m]. For points it is their distance from the
   centre of mass of their body. */
static inline double pair_size(const struct rb_scene *s, const struct rb_shape_pair *pair)
{
    const double size =
        fmin(s->shape[pair->a].shape[RB_SHAPE_SIZE], s->shape[pair->b].shape[RB_SHAPE_SIZE]);
    return size > 0.0 ? size : fmax(RB_SHAPE_REACH[pair->a], RB_SHAPE_REACH[pair->b]);
}

/* Return the key of the first contact of a pair. `later` is 1 for contacts that are not found at
   the start of the step. */
static inline double first_key(const struct rb_shape_pair *pair, int later)
{
    const double number = ((double)later * RB_SHAPES + pair->a) * RB_SHAPES + pair->b;
    return number * RB_MANIFOLD * RB_PATCHES;
}

/* Return 1 if the single contact point of a cylinder or ellipsoid was closed in the last step. The
   point may have moved over the surface since then. At the start of a run, a point that touches
   counts as closed. */
static inline int is_rolling(const struct rb_step_inputs *in, const struct rb_scene *s,
                             const struct rb_shape_pair *pair, const struct rb_contact *c)
{
    const int kind = rb_shape_kind(s->shape[pair->a].shape);
    if (kind != RB_CYLINDER && kind != RB_ELLIPSOID)
        return 0;
    if (s->first)
        return c->gap <= RB_TOUCHING * pair_size(s, pair);
    for (int k = 0; k < RB_MANIFOLD; k++) {
        const int number = previous_contact(in, first_key(pair, 1) + k);
        const double *p = in->state + RB_AT_IMPULSE + RB_CONTACT_ROWS * number;
        if (number >= 0 && rb_dot(p, c->frame[0]) > 0.0)
            return 1;
    }
    return 0;
}

/* Set the required velocities of a contact without restitution: over the step the contact closes at
   most by its gap and does not slip. Also set the contact velocity half a step earlier; in the
   first step, it results from half of the applied forces. On a `flat` surface, a shape can roll if
   it touches with only `one` point. */
static inline void set_velocity_targets(const struct rb_step_inputs *in, const struct rb_scene *s,
                                        const struct rb_shape_pair *pair, int flat, int one,
                                        struct rb_contact *c)
{
    const struct rb_body *a = &s->body[c->a], *b = &s->body[c->b];
    double w[3], u[3], v[3];
    rb_contact_velocity(s, c, w);
    rb_cross(a->rate, c->arm_a, u);
    rb_cross(b->rate, c->arm_b, v);
    rb_subtract(u, v, u);
    if (RB_LEAF[c->a] < 0 && flat && (c->impulse[0] > 0.0 || (one && is_rolling(in, s, pair, c)))) {
        rb_rolling_correction(s, pair->a, c, one, v);
        rb_axpy(u, 1.0, v, u);
    }
    for (int i = 0; i < 3; i++)
        c->bias[i] = rb_dot(c->frame[i], u);
    rb_cross(a->before_w, c->arm_a, u);
    rb_axpy(u, 1.0, a->before_v, u);
    rb_cross(b->before_w, c->arm_b, v);
    rb_axpy(v, 1.0, b->before_v, v);
    rb_subtract(u, v, u);
    for (int i = 0; i < 3; i++)
        c->velocity_lead[i] = (s->first ? 2.0 : 1.0) * (rb_dot(c->frame[i], u) - w[i]);
    c->velocity_min =
        -fmax(0.0, c->gap - RB_TOUCHING * pair_size(s, pair)) / RB_SCENE_STEP - c->bias[0];
    c->resting_velocity = c->velocity_min;
}

/* Return the penetration correction of a step [m]: all of a small overlap, a fifth of a large one.
   With whole = depth - RB_LEFT_DEPTH size

     max(RB_CORRECTED_PART whole, min(whole, RB_CORRECTED_DEPTH size)) */
static inline double correction_distance(double depth, double size)
{
    const double whole = depth - RB_LEFT_DEPTH * size;
    return whole > RB_TOUCHING * size
               ? fmax(RB_CORRECTED_PART * whole, fmin(whole, RB_CORRECTED_DEPTH * size))
               : 0.0;
}

/* Add a contact of a pair of shapes at a point. Returns NULL if the memory is full, or if the
   impulse could move nothing. */
static inline struct rb_contact *add_contact_point(const struct rb_step_inputs *in,
                                                   struct rb_scene *s,
                                                   const struct rb_shape_pair *pair,
                                                   const double *n, const double *point, double key,
                                                   struct rb_contact_list *all)
{
    if (all->count == RB_CONTACTS)
        return NULL;
    struct rb_contact *c = &all->contact[all->count];
    memset(c, 0, sizeof *c);
    c->a = RB_SHAPE_BODY[pair->a];
    c->b = RB_SHAPE_BODY[pair->b];
    c->shape_a = pair->a;
    c->shape_b = pair->b;
    c->key = key;
    memcpy(c->frame[0], n, sizeof c->frame[0]);
    rb_tangent_basis(n, c->frame[1], c->frame[2]);
    rb_subtract(point, s->body[c->a].x, c->arm_a);
    rb_subtract(point, s->body[c->b].x, c->arm_b);
    recall_impulse(in, key, c);
    if (!rb_prepare_contact(s, all, c))
        return NULL;
    all->count++;
    c->e = set_friction(in, s, RB_SHAPE_MATERIAL[pair->a], RB_SHAPE_MATERIAL[pair->b], c);
    if (c->torsional > 0.0 || c->rolling > 0.0)
        rb_prepare_moments(s, c);
    return c;
}

/* Return 1 if all points of a manifold except point `k` stay open over the step with the velocities
   before the step. */
static inline int is_single_contact(const struct rb_scene *s, const struct rb_shape_pair *pair,
                                    const struct rb_manifold *m, int k)
{
    const struct rb_body *a = &s->body[RB_SHAPE_BODY[pair->a]],
                         *b = &s->body[RB_SHAPE_BODY[pair->b]];
    for (int i = 0; i < m->count; i++) {
        double arm[3], u[3], v[3];
        rb_subtract(m->point[i], a->x, arm);
        rb_cross(a->before_w, arm, u);
        rb_axpy(u, 1.0, a->before_v, u);
        rb_subtract(m->point[i], b->x, arm);
        rb_cross(b->before_w, arm, v);
        rb_axpy(v, 1.0, b->before_v, v);
        rb_subtract(u, v, u);
        if (i != k && !(m->gap[i] + fmin(0.0, RB_SCENE_STEP * rb_dot(m->n, u)) >
                        RB_TOUCHING * pair_size(s, pair)))
            return 0;
    }
    return 1;
}

/* Add the contacts of a pair of shapes. */
static inline void rb_detect_pair(const struct rb_step_inputs *in, struct rb_scene *s,
                                  struct rb_shape_pair *pair, struct rb_contact_list *all)
{
    const struct rb_bounds *a = &s->bounds[pair->a], *b = &s->bounds[pair->b];
    struct rb_patches found;
    pair->gap = 0.0;
    pair->left_out[0] = pair->left_out[1] = 0;
    rb_shape_contacts(&s->shape[pair->a], &s->shape[pair->b], a->margin + b->margin,
                      a->way + b->way, &found);
    memset(pair->n, 0, sizeof pair->n);
    if (found.count == 1 && found.one[0].count > 0 && !rb_is_ground(&s->shape[pair->b]))
        memcpy(pair->n, found.one[0].n, sizeof pair->n);
    for (int i = 0; i < found.count; i++) {
        const struct rb_manifold *m = &found.one[i];
        for (int k = 0; k < m->count; k++) {
            const double key = first_key(pair, 0) + RB_MANIFOLD * i + k;
            pair->left_out[0] += all->count == RB_CONTACTS;
            struct rb_contact *c = add_contact_point(in, s, pair, m->n, m->point[k], key, all);
            pair->gap = fmin(pair->gap, m->gap[k]);
            if (!c)
                continue;
            c->gap = m->gap[k];
            c->correction_velocity =
                correction_distance(-c->gap, pair_size(s, pair)) / RB_SCENE_STEP;
            set_velocity_targets(in, s, pair, found.flat[i], is_single_contact(s, pair, m, k), c);
        }
    }
}

/* Predict the pose of a shape at the end of the step from the current velocities. */
static inline void predict_shape(struct rb_scene *s, int k)
{
    const int body = RB_SHAPE_BODY[k];
    double way[3], angle[3] = {0.0, 0.0, 0.0};
    if (body < RB_BODIES)
        rb_mean_angular_velocity(s, body, angle);
    rb_scale(RB_SCENE_STEP, angle, angle);
    rb_scale(RB_SCENE_STEP, s->body[body].v, way);
    rb_moved_shape(s, k, way, angle, &s->coming[k]);
}

/* Return 1 if a plane separates two shapes by more than `gap` at the end of the step. The function
   tests only one plane: perpendicular to the contact normal or to the line through the centres. The
   separation along any normal is a lower bound of the distance. */
static inline int stays_separated(const struct rb_scene *s, const struct rb_shape_pair *pair,
                                  double gap)
{
    const struct rb_placed_shape *a = &s->coming[pair->a], *b = &s->coming[pair->b];
    double n[3], back[3], on_a[3], on_b[3];
    if (rb_is_ground(b) || rb_is_kind(a->shape, RB_HALF_SPACE))
        return 0;
    if (rb_is_kind(b->shape, RB_HALF_SPACE))
        rb_shape_axis(b, 2, n);
    else if (rb_dot(pair->n, pair->n) > 0.0)
        memcpy(n, pair->n, sizeof n);
    else
        rb_subtract(a->p, b->p, n);
    rb_normalize(n);
    rb_scale(-1.0, n, back);
    rb_support(a, back, on_a);
    if (rb_is_kind(b->shape, RB_HALF_SPACE))
        memcpy(on_b, b->p, sizeof on_b);
    else
        rb_support(b, n, on_b);
    rb_subtract(on_a, on_b, back);
    return rb_dot(n, back) - rb_shape_radius(a->shape) - rb_shape_radius(b->shape) > gap;
}

/* Return the largest decrease of the gap of a pair [m] for which the step needs no new contact
   detection. */
static inline double closing_distance(const struct rb_scene *s, const struct rb_shape_pair *pair)
{
    return RB_UNCHECKED_DISTANCE * pair_size(s, pair);
}

/* Return 1 if two shapes can approach each other by more than `closing_distance` in the step. */
static inline int approaches_faster(const struct rb_scene *s, const struct rb_shape_pair *pair)
{
    const struct rb_body *a = &s->body[RB_SHAPE_BODY[pair->a]],
                         *b = &s->body[RB_SHAPE_BODY[pair->b]];
    const double turning =
        rb_norm(a->w) * RB_SHAPE_REACH[pair->a] + rb_norm(b->w) * RB_SHAPE_REACH[pair->b];
    double way[3];
    rb_subtract(a->v, b->v, way);
    return !(RB_SCENE_STEP * (rb_norm(way) + turning) < closing_distance(s, pair));
}

/* Add contacts of a pair that would overlap more at the end of the step than at its start. This
   happens, for example, if other parts of the shapes turn towards each other. These contacts remove
   only the overlap that the velocity causes, so they add no energy. The penetration correction
   moves shapes back that passed through each other within the step, for example an edge that rolls
   over another. */
static inline void detect_later_contacts(const struct rb_step_inputs *in, struct rb_scene *s,
                                         struct rb_shape_pair *pair, struct rb_contact_list *all)
{
    const struct rb_body *a = &s->body[RB_SHAPE_BODY[pair->a]],
                         *b = &s->body[RB_SHAPE_BODY[pair->b]];
    const double slack = closing_distance(s, pair),
                 half = RB_SHAPE_BODY[pair->b] < RB_BODIES ? 0.5 : 1.0;
    struct rb_patches found;
    double way[3], point[3], w[3];
    pair->left_out[1] = 0;
    if (stays_separated(s, pair, pair->gap - slack))
        return;
    rb_shape_contacts(&s->coming[pair->a], &s->coming[pair->b], pair->gap - slack, 0.0, &found);
    rb_scale(-half * RB_SCENE_STEP, a->v, way);
    rb_axpy(way, -half * RB_SCENE_STEP, b->v, way);
    for (int i = 0; i < found.count; i++) {
        const struct rb_manifold *m = &found.one[i];
        for (int k = 0; k < m->count; k++) {
            rb_axpy(m->point[k], 1.0, way, point);
            pair->left_out[1] += all->count == RB_CONTACTS;
            struct rb_contact *c = add_contact_point(in, s, pair, m->n, point,
                                                     first_key(pair, 1) + RB_MANIFOLD * i + k, all);
            if (!c)
                continue;
            memset(c->impulse, 0, sizeof c->impulse); /* not yet in the velocities */
            rb_contact_velocity(s, c, w);
            const double asked = (pair->gap - m->gap[k]) / RB_SCENE_STEP;
            c->velocity_min = fmin(0.0, w[0] + asked);
            c->correction_velocity = fmin(fmax(0.0, asked + fmin(0.0, w[0])),
                                          RB_CORRECTED_DEPTH * pair_size(s, pair) / RB_SCENE_STEP);
        }
    }
}

/* Add the contacts of all pairs that would overlap at the end of the step. Returns 1 if there
   are any. */
static inline int rb_detect_more(const struct rb_step_inputs *in, struct rb_scene *s,
                                 struct rb_contact_list *all)
{
    const int count = all->count;
    RB_WORKSPACE(RB_LARGE_SCENE, char, predicted, RB_SHAPES);
    memset(predicted, 0, RB_SHAPES * sizeof *predicted);
    if (RB_LINKS > 0)
        rb_move_links(s, s->qd);
    for (int k = 0; k < s->pairs; k++) {
        struct rb_shape_pair *pair = &s->pair[k];
        if (!approaches_faster(s, pair))
            continue;
        for (int side = 0; side < 2; side++) {
            const int shape = side ? pair->b : pair->a;
            if (!predicted[shape])
                predict_shape(s, shape);
            predicted[shape] = 1;
        }
        detect_later_contacts(in, s, pair, all);
    }
    return all->count > count;
}

/* ---- joint stops of a step ---- */

/* [N m or N] value of RB_STOP_MOST for a joint stop, whose force is not bounded. Dry friction has
   smaller values. */
static const double RB_UNBOUNDED = 1e300;

/* Correction of a joint position beyond its stop. RB_STOP_SLACK [rad or m]: distance that is not
   corrected, because it may be a rounding error. RB_STOP_PART: fraction of the distance that a step
   corrects. RB_STOP_SPEED [rad/s or m/s]: largest speed of the correction. Found by trial. */
static const double RB_STOP_SLACK = 1e-8, RB_STOP_PART = 0.2, RB_STOP_SPEED = 1.0;

/* Prepare a stop: compute the velocities that keep its joint within the limits. */
static inline void start_stop(const struct rb_step_inputs *in, int k, struct rb_stop *stop)
{
    const double q = in->state[RB_AT_Q + RB_STOP_Q[k]], low = RB_STOP_LOW[k] - q,
                 high = RB_STOP_HIGH[k] - q, over = fmax(low, 0.0) + fmin(high, 0.0);
    stop->number = k;
    stop->dof = RB_STOP_DOF[k];
    stop->impulse_max = RB_STOP_MOST[k] * RB_SCENE_STEP;
    stop->low = fmin(low / RB_SCENE_STEP, 0.0);
    stop->high = fmax(high / RB_SCENE_STEP, 0.0);
    stop->correction_impulse = 0.0;
    stop->correction_velocity =
        fabs(over) > RB_STOP_SLACK
            ? rb_clamp(RB_STOP_PART * over / RB_SCENE_STEP, -RB_STOP_SPEED, RB_STOP_SPEED)
            : 0.0;
    if (RB_STOP_MOST[k] < RB_UNBOUNDED) /* dry friction */
        stop->low = stop->high = stop->correction_velocity = 0.0;
    stop->impulse = in->state[RB_AT_STOP_IMPULSE + k];
}

/* Compute the mobility (inverse effective inertia) of a stop: y . w with y = L^-T e_d, and its
   projection w onto the closed loops. Without loops w = y. */
static inline void prepare_stop(const struct rb_scene *s, struct rb_stop *stop)
{
    const int d = stop->dof, *path = RB_PATH + RB_DOF_ROW[d];
    double open = 0.0;
    RB_WORKSPACE(RB_LARGE_SCENE, double, x, RB_DOFS + 1);
    memset(x, 0, (RB_DOFS + 1) * sizeof *x);
    x[d] = 1.0;
    rb_solve_upwards(&s->inertia, d, x);
    for (int at = 0; at <= RB_DOF_DEPTH[d]; at++) {
        stop->y[at] = x[path[at]];
        open += stop->y[at] * stop->y[at];
    }
    stop->delassus = open;
    if (RB_CLOSURES == 0)
        return;
    rb_hold_row(s, d, stop->y, 1, stop->w);
    stop->delassus = 0.0;
    for (int at = 0; at <= RB_DOF_DEPTH[d]; at++)
        stop->delassus += stop->y[at] * stop->w[path[at] - RB_DOF_FIRST[d]];
    if (!(stop->delassus > 1e-9 * open)) /* closed loops hold this joint, up to rounding */
        stop->delassus = stop->impulse_max = stop->impulse = 0.0;
}

/* Return 1 if a stop was inactive in the last step, and the joint approaches it in this step by at
   most the fraction `part` of the distance. */
static inline int is_far_from_stop(const struct rb_step_inputs *in, const struct rb_scene *s, int k,
                                   double part)
{
    const double q = in->state[RB_AT_Q + RB_STOP_Q[k]], low = RB_STOP_LOW[k] - q,
                 high = RB_STOP_HIGH[k] - q;
    const double way = RB_SCENE_STEP * s->qd[RB_STOP_DOF[k]],
                 impulse = in->state[RB_AT_STOP_IMPULSE + k];
    return RB_STOP_MOST[k] >= RB_UNBOUNDED && low <= 0.0 && high >= 0.0 && way >= part * low &&
           way <= part * high && !(impulse < 0.0) && !(impulse > 0.0);
}

/* Add the stops that a joint approaches by more than the fraction `part` of the distance, and that
   are not in the list yet. Returns 1 if a stop was added. */
static inline int rb_reach_stops(const struct rb_step_inputs *in, const struct rb_scene *s,
                                 double part, struct rb_contact_list *all)
{
    const int count = all->reached_stops;
    RB_WORKSPACE(RB_LARGE_SCENE, unsigned char, known, RB_STOPS + 1);
    memset(known, 0, (RB_STOPS + 1) * sizeof *known);
    for (int k = 0; k < count; k++)
        known[all->stop[k].number] = 1;
    for (int k = 0; k < RB_STOPS; k++) {
        if (known[k] || is_far_from_stop(in, s, k, part))
            continue;
        start_stop(in, k, &all->stop[all->reached_stops]);
        prepare_stop(s, &all->stop[all->reached_stops++]);
    }
    return all->reached_stops > count;
}

#endif
