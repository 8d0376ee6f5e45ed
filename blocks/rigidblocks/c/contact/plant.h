/* A step of bodies in rigid contact, free ones and links of trees: velocities and impulses by time-stepping.

   Velocities belong to the middle of the step before: they get the forces and the impulses of the contacts at once, and move
   the bodies over the step (leapfrog). The generated text before this also has where the sampled states are, RB_AT_Q and so
   on, and RB_SCENE_STEP [s], RB_SCENE_SWEEPS, RB_SCENE_TOLERANCE. */

#ifndef RB_PLANT_H
#define RB_PLANT_H

#include "solver.h"

/* What a step is made from: the sampled states, the wrenches on the bodies, and the parameters: gravity, and of each material
   and each pair of materials that the tables name what it is. NULL where there are no trees, and where the tables say so. */
struct given {
    const double *state, *tau, *f_ext, *gravity, *mu, *e, *mu_static, *torsional, *rolling;
};

/* The angular velocity from the angular momentum, where the body will be in the middle of the step: about its own motion,
   found by substitution. */
static inline void spin(struct body *body, const double *q, const double *inertia, const double *momentum, int isotropic)
{
    double inverse[9], middle[4], r[9];
    inverse_of(inertia, inverse);
    for (int k = 0; k < (isotropic ? 1 : 6); k++) {
        double angle[3];
        times(0.5 * RB_SCENE_STEP, body->w, angle);
        turned_by(q, angle, middle);
        rotation_of(middle, r);
        turned_matrix(r, inverse, body->turning);
        turn(body->turning, momentum, body->w);
    }
}

/* The force of a free body's own joint, [n; f] at its origin in its coordinates. */
static inline void drive_body(const double *tau, int k, double kick, struct body *body, double *momentum)
{
    double n[3], f[3];
    cross(RB_CENTRE[k], tau + 3, n);
    difference(tau, n, n);
    turn(body->r, n, n);
    turn(body->r, tau + 3, f);
    along(momentum, kick, n, momentum);
    along(body->v, kick * body->lightness, f, body->v);
}

/* The force of the damper and the spring of a freedom at the end of a step that would not change its velocity. */
static inline double element_force(const struct given *in, int d, double qd)
{
    const double stretch = RB_DOF_STIFFNESS[d] > 0.0 ? in->state[RB_AT_Q + RB_DOF_Q[d]] - RB_DOF_REST[d] : 0.0;
    return -RB_DOF_STIFFNESS[d] * (stretch + RB_SCENE_STEP * qd) - RB_DOF_DAMPING[d] * qd;
}

/* The velocities of trees as they would be without contact. Forces that go with velocities are those in the middle between
   the old and the new ones, which are estimated with the contacts of the step before. */
static inline void start_trees(const struct given *in, struct scene *s)
{
    const int moving = in->state[RB_AT_STEPS] > 0.0;
    double wrench[6 * RB_BODIES], force[RB_DOFS + 1] = {0.0}, middle[RB_DOFS + 1];
    memset(&s->link[RB_LINKS], 0, sizeof *s->link);
    memset(s->push_qd, 0, sizeof s->push_qd);
    memset(s->qd, 0, sizeof s->qd);
    for (int d = 0; d < RB_DOFS; d++)
        s->qd[d] = in->state[RB_AT_QD + RB_DOF_QD[d]];
    memcpy(middle, s->qd, sizeof middle);
    place_links(s, in->state + RB_AT_Q);
    move_links(s, s->qd);
    joint_inertia(s, RB_SCENE_STEP);
    factorize_inertia(s);
    if (RB_CLOSURES > 0)
        find_loops(s);
    for (int k = 0; k < 6 * RB_BODIES; k++)
        wrench[k] = in->f_ext[k] + in->state[RB_AT_F_CONTACT + k];
    for (int i = 0; i < RB_LINKS; i++) {
        struct body *body = &s->body[RB_LINK_BODY[i]];
        memcpy(body->before_v, body->v, sizeof body->v);
        memcpy(body->before_w, body->w, sizeof body->w);
    }
    for (int last = !moving; last < 2; last++) {
        const double kick = last && moving ? RB_SCENE_STEP : 0.5 * RB_SCENE_STEP;
        bias_forces(s, middle, in->gravity, last ? in->f_ext : wrench, force);
        for (int d = 0; d < RB_DOFS; d++)
            force[d] = in->tau[RB_DOF_QD[d]] - force[d] + element_force(in, d, s->qd[d]);
        solve_all_upwards(s, force);
        keep_loops(s, 0, RB_DOFS, force);
        solve_downwards(s, 0, RB_DOFS, force);
        for (int d = 0; d < RB_DOFS; d++)
            middle[d] = s->qd[d] + kick * force[d];
        if (RB_CLOSURES > 0 && !last)
            hold_loops(s, middle);
        move_links(s, middle);
    }
    memcpy(s->qd, middle, sizeof middle);
    if (RB_CLOSURES > 0) {
        close_loops(s, in->state + RB_AT_Q, RB_SCENE_STEP, 2, s->qd);
        move_links(s, s->qd);
    }
}

/* A stop as it starts the step: the velocities between which it keeps a freedom, and what its impulse changes. */
static inline void start_stop(const struct given *in, const struct scene *s, int k, struct stop *stop)
{
    const int d = RB_STOP_DOF[k];
    const double q = in->state[RB_AT_Q + RB_STOP_Q[k]], low = RB_STOP_LOW[k] - q, high = RB_STOP_HIGH[k] - q;
    double x[RB_DOFS + 1] = {0.0};
    stop->dof = d;
    stop->most = RB_STOP_MOST[k] * RB_SCENE_STEP;
    stop->low = low < 0.0 ? low / RB_SCENE_STEP : fmin(0.2 * low / RB_SCENE_STEP, 1.0);
    stop->high = high > 0.0 ? high / RB_SCENE_STEP : fmax(0.2 * high / RB_SCENE_STEP, -1.0);
    if (RB_STOP_MOST[k] < 1e300) /* dry friction */
        stop->low = stop->high = 0.0;
    stop->impulse = in->state[RB_AT_STOP_IMPULSE + k];
    x[d] = 1.0;
    solve_upwards(s, d, x);
    const double open = x[d];
    keep_loops(s, RB_DOF_FIRST[d], RB_DOF_COUNT[d], x);
    solve_downwards(s, RB_DOF_FIRST[d], RB_DOF_COUNT[d], x);
    memcpy(stop->w, x + RB_DOF_FIRST[d], (size_t)RB_DOF_COUNT[d] * sizeof *x);
    stop->mass = x[d];
    if (!(x[d] > 1e-9 * open * open)) /* what loops hold needs no stop */
        stop->mass = stop->most = stop->impulse = 0.0;
}

/* A body as it starts the step, with the velocities that it would have without contact. */
static inline void start_body(const struct given *in, int k, struct body *body)
{
    const double *q = in->state + RB_AT_Q + RB_Q_AT[k], *qd = in->state + RB_AT_QD + RB_QD_AT[k];
    const double *f = in->f_ext + 6 * k;
    const double kick = in->state[RB_AT_STEPS] > 0.0 ? RB_SCENE_STEP : 0.5 * RB_SCENE_STEP;
    double unit[4], middle[4], r[9], now[9], momentum[3], moment[3];
    const double length = sqrt(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3]);
    for (int i = 0; i < 4; i++)
        unit[i] = q[i] / length;
    memset(body, 0, sizeof *body);
    rotation_of(unit, body->r);
    turn(body->r, RB_CENTRE[k], body->x);
    along(q + 4, 1.0, body->x, body->x);
    turn(body->r, qd, body->w);
    cross(qd, RB_CENTRE[k], body->v);
    along(body->v, 1.0, qd + 3, body->v);
    turn(body->r, body->v, body->v);
    memcpy(body->before_v, body->v, sizeof body->v);
    memcpy(body->before_w, body->w, sizeof body->w);

    times(in->state[RB_AT_STEPS] > 0.0 ? -0.5 * RB_SCENE_STEP : 0.0, body->w, moment);
    turned_by(unit, moment, middle); /* where it was when it had this velocity */
    rotation_of(middle, r);
    turned_matrix(r, RB_INERTIA[k], now);
    turn(now, body->w, momentum);
    cross(body->x, f + 3, moment);
    difference(f, moment, moment);
    along(momentum, kick, moment, momentum);
    body->lightness = 1.0 / RB_MASS[k];
    along(body->v, kick * body->lightness, f + 3, body->v);
    if (in->tau)
        drive_body(in->tau + RB_QD_AT[k], k, kick, body, momentum);
    along(body->v, kick, in->gravity, body->v);
    spin(body, unit, RB_INERTIA[k], momentum, RB_ISOTROPIC[k]);
}

/* Where a pair of materials is that is named as one, -1 where it is not. */
static inline int named_pair(int a, int b)
{
    const double key = (double)(a < b ? a : b) * RB_MATERIALS + (a < b ? b : a);
    for (int k = 0; k < RB_NAMED_PAIRS; k++)
        if (!(RB_NAMED_PAIR[k] < key) && !(RB_NAMED_PAIR[k] > key))
            return RB_MATERIALS + k;
    return -1;
}

/* The geometric mean of two materials, or what is said of the pair. */
static inline double mean_of(const double *values, int a, int b, int pair)
{
    return pair >= 0 ? values[pair] : sqrt(values[a] * values[b]);
}

static inline double larger_of(const double *values, int a, int b, int pair)
{
    if (!values)
        return 0.0;
    return pair >= 0 ? values[pair] : fmax(values[a], values[b]);
}

/* Whether what was not pressed before slides: more than by what gravity gives it in a step. */
static inline int arrives_sliding(const struct given *in, const struct scene *s, const struct touch *c)
{
    double w[3];
    slip(s, c, w);
    return sqrt(w[1] * w[1] + w[2] * w[2]) > 2.0 * RB_SCENE_STEP * norm(in->gravity);
}

/* The friction of a contact between the materials a and b, after `recall`. Returns the restitution. */
static inline double resist(const struct given *in, const struct scene *s, int a, int b, struct touch *c)
{
    const int pair = RB_NAMED_PAIRS > 0 ? named_pair(a, b) : -1;
    c->mu = mean_of(in->mu, a, b, pair);
    if (in->mu_static && (c->impulse[0] > 0.0 ? c->sticks : !arrives_sliding(in, s, c)))
        c->mu = fmax(c->mu, mean_of(in->mu_static, a, b, pair));
    c->torsional = larger_of(in->torsional, a, b, pair);
    c->rolling = larger_of(in->rolling, a, b, pair);
    return mean_of(in->e, a, b, pair);
}

/* Whether friction is less than the most that it can be. */
static inline int sticks(const struct touch *c)
{
    const double limit = c->mu * c->impulse[0];
    return sqrt(c->impulse[1] * c->impulse[1] + c->impulse[2] * c->impulse[2]) < (1.0 - 1e-9) * limit;
}

/* The impulse of a contact in the step before, zero for a new one: keys are in order. */
static inline void recall(const struct given *in, double key, struct touch *c)
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
    if (low < (int)in->state[RB_AT_CONTACTS] && !(keys[low] > key)) {
        const double *p = in->state + RB_AT_IMPULSE + RB_PARTS * low;
        for (int i = 0; i < RB_PARTS; i++)
            c->impulse[i] = dot(c->frame[i % 3], p + i / 3 * 3);
        c->impulse[0] = fmax(c->impulse[0], 0.0);
        c->sticks = in->mu_static && in->state[RB_AT_STICKS + low] > 0.0;
    }
}

/* The least velocity along the normal after the step: as much as closes the gap, or e times that of the approach. */
static inline void demand(const struct scene *s, struct touch *c, double e)
{
    const struct body *a = &s->body[c->a], *b = &s->body[c->b];
    double w[3], u[3], v[3];
    slip(s, c, w);
    cross(a->before_w, c->arm_a, u);
    along(u, 1.0, a->before_v, u);
    cross(b->before_w, c->arm_b, v);
    along(v, 1.0, b->before_v, v);
    difference(u, v, u);
    const double approach = dot(c->frame[0], u);
    c->least = c->gap > 0.0 ? -c->gap / RB_SCENE_STEP : 0.0;
    if (e > 0.0 && approach < 0.0 && c->gap + RB_SCENE_STEP * w[0] < 0.0)
        c->least = fmax(c->least, -e * approach);
}

/* How far two shapes are moved apart in a step: all of a small overlap, a fifth of a large one. */
static inline double way_apart(double depth, double size)
{
    const double whole = fmax(0.0, depth - 1e-6 * size);
    return fmax(0.2 * whole, fmin(whole, 0.1 * size));
}

/* The contacts of a pair of shapes. */
static inline void touch_pair(const struct given *in, struct scene *s, const struct pair *pair, struct solution *all)
{
    const int i = RB_SHAPE_BODY[pair->a], j = RB_SHAPE_BODY[pair->b];
    const double size = fmin(s->shape[pair->a].shape[RB_SHAPE_SIZE], s->shape[pair->b].shape[RB_SHAPE_SIZE]);
    struct manifold m = {.count = 0};
    const struct bounds *a = &s->bounds[pair->a], *b = &s->bounds[pair->b];
    collide(&s->shape[pair->a], &s->shape[pair->b], a->margin + b->margin, a->way + b->way, &m);
    for (int k = 0; k < m.count; k++) {
        if (all->count == RB_CONTACTS) {
            s->left_out++;
            continue;
        }
        struct touch *c = &all->touch[all->count++];
        memset(c, 0, sizeof *c);
        c->a = i;
        c->b = j;
        c->gap = m.gap[k];
        c->key = ((double)pair->a * RB_SHAPES + pair->b) * RB_MANIFOLD + k;
        memcpy(c->frame[0], m.n, sizeof m.n);
        across(m.n, c->frame[1], c->frame[2]);
        difference(m.point[k], s->body[i].x, c->arm_a);
        difference(m.point[k], s->body[j].x, c->arm_b);
        recall(in, c->key, c);
        c->push = way_apart(-c->gap, size) / RB_SCENE_STEP;
        if (!prepare(s, c)) {
            all->count--;
            continue;
        }
        const double e = resist(in, s, RB_SHAPE_MATERIAL[pair->a], RB_SHAPE_MATERIAL[pair->b], c);
        if (c->torsional > 0.0 || c->rolling > 0.0)
            prepare_turning(s, c);
        demand(s, c, e);
    }
}

/* What overlaps is moved apart, until the last sweep changed a hundredth of what is asked for. */
static inline void separate(struct scene *s, struct solution *all)
{
    double asked = 0.0, changed = INFINITY;
    for (int k = 0; k < all->count; k++)
        asked = fmax(asked, all->touch[k].push);
    for (int sweep = 0; sweep < 50 && changed > 0.01 * asked; sweep++) {
        changed = 0.0;
        for (int k = 0; k < all->count; k++)
            if (all->touch[k].gap <= 0.0)
                changed = fmax(changed, push_apart(s, &all->touch[k]));
    }
}

/* A body after the step. */
static inline void end_body(const struct given *in, int k, const struct body *body, double *out)
{
    double *q = out + RB_AT_Q + RB_Q_AT[k], *qd = out + RB_AT_QD + RB_QD_AT[k];
    double angle[3], x[3], r[9], arm[3];
    along(body->w, 1.0, body->push_w, angle);
    times(RB_SCENE_STEP, angle, angle);
    turned_by(in->state + RB_AT_Q + RB_Q_AT[k], angle, q);
    rotation_of(q, r);
    along(body->x, RB_SCENE_STEP, body->v, x);
    along(x, RB_SCENE_STEP, body->push_v, x);
    turn(r, RB_CENTRE[k], arm);
    difference(x, arm, q + 4);
    turn_back(r, body->w, qd);
    turn_back(r, body->v, qd + 3);
    cross(qd, RB_CENTRE[k], arm);
    difference(qd + 3, arm, qd + 3);
}

/* The trees after the step, and the impulses of their stops. */
static inline void end_trees(const struct given *in, struct scene *s, const struct solution *all, double *out)
{
    double moved[RB_DOFS + 1];
    for (int d = 0; d < RB_DOFS; d++) {
        out[RB_AT_QD + RB_DOF_QD[d]] = s->qd[d];
        moved[d] = s->qd[d] + s->push_qd[d];
    }
    if (RB_CLOSURES > 0)
        out[RB_AT_LOOP_ERROR] = close_loops(s, in->state + RB_AT_Q, RB_SCENE_STEP, 3, moved);
    for (int i = 0; i < RB_LINKS; i++) {
        const int at = RB_AT_Q + RB_Q_AT[RB_LINK_BODY[i]];
        move_joint(i, in->state + at, moved + RB_LINK_DOF[i], RB_SCENE_STEP, out + at);
    }
    for (int k = 0; k < RB_STOPS; k++)
        out[RB_AT_STOP_IMPULSE + k] = all->stop[k].impulse;
}

/* The mean of the points of a body, in_contact being for now the sum of the weights. */
static inline void add_pressure(double *out, int k, double weight, const double *point)
{
    double *whole = out + RB_AT_IN_CONTACT + k, *centre = out + RB_AT_CENTRE_OF_PRESSURE + 3 * k, way[3];
    if (!(weight > 0.0))
        return;
    *whole += weight;
    difference(point, centre, way);
    along(centre, weight / *whole, way, centre);
}

/* The impulses for the next step, and the forces that they are over this one. */
static inline void end_contacts(const struct given *in, const struct scene *s, const struct solution *all, double *out)
{
    double depth = 0.0;
    memset(out + RB_AT_KEY, 0, RB_CONTACTS * sizeof *out);
    memset(out + RB_AT_IMPULSE, 0, RB_PARTS * RB_CONTACTS * sizeof *out);
    if (in->mu_static)
        memset(out + RB_AT_STICKS, 0, RB_CONTACTS * sizeof *out);
    memset(out + RB_AT_F_CONTACT, 0, 6 * RB_BODIES * sizeof *out);
    memset(out + RB_AT_IN_CONTACT, 0, RB_BODIES * sizeof *out);
    memset(out + RB_AT_CENTRE_OF_PRESSURE, 0, 3 * RB_BODIES * sizeof *out);
    for (int k = 0; k < all->count; k++) {
        const struct touch *c = &all->touch[k];
        double p[6] = {0.0}, force[3], moment[3], point[3];
        for (int i = 0; i < RB_PARTS; i++)
            along(p + i / 3 * 3, c->impulse[i], c->frame[i % 3], p + i / 3 * 3);
        out[RB_AT_KEY + k] = c->key;
        memcpy(out + RB_AT_IMPULSE + RB_PARTS * k, p, RB_PARTS * sizeof *p);
        if (in->mu_static)
            out[RB_AT_STICKS + k] = sticks(c);
        times(1.0 / RB_SCENE_STEP, p, force);
        along(s->body[c->a].x, 1.0, c->arm_a, point);
        cross(point, force, moment);
        along(moment, 1.0 / RB_SCENE_STEP, p + 3, moment);
        for (int side = 0; side < 2; side++) {
            double *f = out + RB_AT_F_CONTACT + 6 * (side ? c->b : c->a);
            const double sign = side ? -1.0 : 1.0;
            if ((side ? c->b : c->a) == RB_BODIES)
                continue;
            along(f, sign, moment, f);
            along(f + 3, sign, force, f + 3);
            add_pressure(out, side ? c->b : c->a, c->impulse[0], point);
        }
        depth = fmax(depth, -c->gap);
    }
    for (int k = 0; k < RB_BODIES; k++)
        out[RB_AT_IN_CONTACT + k] = out[RB_AT_IN_CONTACT + k] > 0.0;
    out[RB_AT_CONTACTS] = all->count;
    out[RB_AT_LEFT_OUT] = s->left_out;
    out[RB_AT_RESIDUAL] = all->residual;
    out[RB_AT_SWEEPS_MADE] = all->sweeps;
    out[RB_AT_DEPTH] = depth;
}

/* The sampled states after a step. */
static inline void step_scene(const struct given *in, double *out)
{
    struct scene s;
    struct solution all;
    double fastest = RB_SCENE_STEP * norm(in->gravity);
    s.left_out = 0;
    s.loops.count = 0;
    all.count = 0;
    memset(s.body, 0, sizeof s.body);
    s.body[RB_BODIES].r[0] = s.body[RB_BODIES].r[4] = s.body[RB_BODIES].r[8] = 1.0;
    if (RB_LINKS > 0)
        start_trees(in, &s);
    for (int k = 0; k < RB_BODIES; k++) {
        if (RB_FREE[k])
            start_body(in, k, &s.body[k]);
        fastest = fmax(fastest, norm(s.body[k].v));
    }
    place_shapes(&s, RB_SCENE_STEP);
    find_pairs(&s);
    for (int k = 0; k < s.pairs; k++)
        touch_pair(in, &s, &s.pair[k], &all);
    for (int k = 0; k < RB_STOPS; k++)
        start_stop(in, &s, k, &all.stop[k]);
    solve_impulses(&s, &all, RB_SCENE_TOLERANCE * fastest);
    separate(&s, &all);
    for (int k = 0; k < RB_BODIES; k++)
        if (RB_FREE[k])
            end_body(in, k, &s.body[k], out);
    end_trees(in, &s, &all, out);
    end_contacts(in, &s, &all, out);
    out[RB_AT_STEPS] = in->state[RB_AT_STEPS] + 1.0;
}

/* The same, of what the tables call its arguments and gather from them. */
static inline void contact_step(const double *state, RB_ARGUMENTS, double *out)
{
    RB_GATHER
    const struct given given = {.state = state, RB_GIVEN};
    step_scene(&given, out);
}

#endif
