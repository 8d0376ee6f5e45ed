/* A step of free bodies in rigid contact: velocities and impulses by time-stepping.

   Velocities belong to the middle of the step before: they get the forces and the impulses of the contacts at once, and move
   the bodies over the step (leapfrog). The generated text before this also has where the sampled states are, RB_AT_Q and so
   on, and RB_SCENE_STEP [s], RB_SCENE_SWEEPS, RB_SCENE_TOLERANCE. */

#ifndef RB_PLANT_H
#define RB_PLANT_H

#include "solver.h"

/* What a step is made from: the sampled states, the wrenches on the bodies, and the parameters. */
struct given {
    const double *state, *f_ext, *gravity, *mu, *e;
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

/* A body as it starts the step, with the velocities that it would have without contact. */
static inline void start_body(const struct given *in, int k, struct body *body)
{
    const double *q = in->state + RB_AT_Q + 7 * k, *qd = in->state + RB_AT_QD + 6 * k, *f = in->f_ext + 6 * k;
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
    along(body->v, kick, in->gravity, body->v);
    spin(body, unit, RB_INERTIA[k], momentum, RB_ISOTROPIC[k]);
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
        const double *p = in->state + RB_AT_IMPULSE + 3 * low;
        for (int i = 0; i < 3; i++)
            c->impulse[i] = dot(c->frame[i], p);
        c->impulse[0] = fmax(c->impulse[0], 0.0);
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

/* The contacts of a pair of shapes. */
static inline void touch_pair(const struct given *in, struct scene *s, const struct pair *pair, struct solution *all)
{
    const int i = RB_SHAPE_BODY[pair->a], j = RB_SHAPE_BODY[pair->b];
    const double slack = 1e-6 * fmin(s->shape[pair->a].shape[RB_SHAPE_SIZE], s->shape[pair->b].shape[RB_SHAPE_SIZE]);
    struct manifold m = {.count = 0};
    collide(&s->shape[pair->a], &s->shape[pair->b], s->bounds[pair->a].margin + s->bounds[pair->b].margin, &m);
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
        c->mu = sqrt(in->mu[i] * in->mu[j]);
        c->push = fmax(0.0, 0.2 * (-c->gap - slack) / RB_SCENE_STEP);
        prepare(s, c);
        demand(s, c, sqrt(in->e[i] * in->e[j]));
        recall(in, c->key, c);
    }
}

/* What overlaps is moved apart by a part of the overlap. */
static inline void separate(struct scene *s, struct solution *all)
{
    int overlaps = 0;
    for (int k = 0; k < all->count; k++)
        overlaps |= all->touch[k].push > 0.0;
    for (int sweep = 0; sweep < 20 && overlaps; sweep++)
        for (int k = 0; k < all->count; k++)
            if (all->touch[k].gap <= 0.0)
                push_apart(s, &all->touch[k]);
}

/* A body after the step. */
static inline void end_body(const struct given *in, int k, const struct body *body, double *out)
{
    double *q = out + RB_AT_Q + 7 * k, *qd = out + RB_AT_QD + 6 * k;
    double angle[3], x[3], r[9], arm[3];
    along(body->w, 1.0, body->push_w, angle);
    times(RB_SCENE_STEP, angle, angle);
    turned_by(in->state + RB_AT_Q + 7 * k, angle, q);
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

/* The impulses for the next step, and the forces that they are over this one. */
static inline void end_contacts(const struct scene *s, const struct solution *all, double *out)
{
    double depth = 0.0;
    memset(out + RB_AT_KEY, 0, RB_CONTACTS * sizeof *out);
    memset(out + RB_AT_IMPULSE, 0, 3 * RB_CONTACTS * sizeof *out);
    memset(out + RB_AT_F_CONTACT, 0, 6 * RB_BODIES * sizeof *out);
    for (int k = 0; k < all->count; k++) {
        const struct touch *c = &all->touch[k];
        double p[3], force[3], moment[3], point[3];
        times(c->impulse[0], c->frame[0], p);
        along(p, c->impulse[1], c->frame[1], p);
        along(p, c->impulse[2], c->frame[2], p);
        out[RB_AT_KEY + k] = c->key;
        memcpy(out + RB_AT_IMPULSE + 3 * k, p, sizeof p);
        times(1.0 / RB_SCENE_STEP, p, force);
        along(s->body[c->a].x, 1.0, c->arm_a, point);
        cross(point, force, moment);
        for (int side = 0; side < 2; side++) {
            double *f = out + RB_AT_F_CONTACT + 6 * (side ? c->b : c->a);
            const double sign = side ? -1.0 : 1.0;
            if ((side ? c->b : c->a) == RB_BODIES)
                continue;
            along(f, sign, moment, f);
            along(f + 3, sign, force, f + 3);
        }
        depth = fmax(depth, -c->gap);
    }
    out[RB_AT_CONTACTS] = all->count;
    out[RB_AT_LEFT_OUT] = s->left_out;
    out[RB_AT_RESIDUAL] = all->residual;
    out[RB_AT_SWEEPS_MADE] = all->sweeps;
    out[RB_AT_DEPTH] = depth;
}

/* The sampled states after a step. */
static inline void contact_step(const double *state, const double *f_ext, const double *gravity, const double *mu,
                                const double *e, double *out)
{
    const struct given given = {state, f_ext, gravity, mu, e}, *in = &given;
    struct scene s;
    struct solution all;
    double fastest = RB_SCENE_STEP * norm(gravity);
    s.left_out = 0;
    all.count = 0;
    memset(&s.body[RB_BODIES], 0, sizeof *s.body);
    s.body[RB_BODIES].r[0] = s.body[RB_BODIES].r[4] = s.body[RB_BODIES].r[8] = 1.0;
    for (int k = 0; k < RB_BODIES; k++) {
        start_body(in, k, &s.body[k]);
        fastest = fmax(fastest, norm(s.body[k].v));
    }
    place_shapes(&s, RB_SCENE_STEP);
    find_pairs(&s);
    for (int k = 0; k < s.pairs; k++)
        touch_pair(in, &s, &s.pair[k], &all);
    solve_impulses(&s, &all, RB_SCENE_TOLERANCE * fastest);
    separate(&s, &all);
    for (int k = 0; k < RB_BODIES; k++)
        end_body(in, k, &s.body[k], out);
    end_contacts(&s, &all, out);
    out[RB_AT_STEPS] = in->state[RB_AT_STEPS] + 1.0;
}

#endif
