/* A step of bodies in rigid contact, free ones and links of trees: velocities and impulses by
   time-stepping.

   Momenta belong to the middle of the step before: they get the forces and the impulses of the
   contacts at once, where the bodies are, and move them over the step (leapfrog). A free body keeps
   its energy and its angular momentum on the way. The generated text before this also has where the
   sampled states are, RB_AT_Q and so on, and RB_SCENE_STEP [s], RB_SCENE_SWEEPS,
   RB_SCENE_TOLERANCE. */

#ifndef RB_PLANT_H
#define RB_PLANT_H

#include "anew.h"
#include "motion.h"
#include "reach.h"
#include "sense.h"
#include "strike.h"

/* of finding contacts and their impulses; of finding what may touch */
enum { RB_ROUNDS = 4, RB_TRIES = 3 };

/* Of the speeds that bodies have already: a heap that falls about need not be known as well as what
   should stay where it is, and what is small is known well within a few sweeps. */
static const double RB_MOVING_TOLERANCE = 1e-4;

/* The force of a free body's own joint, [n; f] at its origin in its coordinates. */
static inline void drive_body(const double *tau, int k, double kick, struct body *body,
                              double *momentum)
{
    double n[3], f[3];
    cross(RB_CENTRE[k], tau + 3, n);
    difference(tau, n, n);
    turn(body->r, n, n);
    turn(body->r, tau + 3, f);
    along(momentum, kick, n, momentum);
    along(body->v, kick * body->lightness, f, body->v);
}

/* A stop as it starts the step: the velocities between which it keeps a freedom. */
static inline void start_stop(const struct given *in, int k, struct stop *stop)
{
    static const double felt = 1e-8; /* [rad or m] */
    const double q = in->state[RB_AT_Q + RB_STOP_Q[k]], low = RB_STOP_LOW[k] - q,
                 high = RB_STOP_HIGH[k] - q, over = fmax(low, 0.0) + fmin(high, 0.0);
    stop->number = k;
    stop->dof = RB_STOP_DOF[k];
    stop->most = RB_STOP_MOST[k] * RB_SCENE_STEP;
    stop->low = fmin(low / RB_SCENE_STEP, 0.0);
    stop->high = fmax(high / RB_SCENE_STEP, 0.0);
    stop->pushed = 0.0;
    stop->push = fabs(over) > felt ? limited(0.2 * over / RB_SCENE_STEP, -1.0, 1.0) : 0.0;
    if (RB_STOP_MOST[k] < 1e300) /* dry friction */
        stop->low = stop->high = stop->push = 0.0;
    stop->impulse = in->state[RB_AT_STOP_IMPULSE + k];
}

/* What the impulse of a stop changes. */
static inline void prepare_stop(const struct scene *s, struct stop *stop)
{
    const int d = stop->dof, *path = RB_PATH + RB_DOF_ROW[d];
    double x[RB_DOFS + 1] = {0.0}, open = 0.0;
    x[d] = 1.0;
    solve_upwards(&s->inertia, d, x);
    for (int at = 0; at <= RB_DOF_DEPTH[d]; at++) {
        stop->y[at] = x[path[at]];
        open += stop->y[at] * stop->y[at];
    }
    stop->mass = open;
    if (RB_CLOSURES == 0)
        return;
    hold_row(s, d, stop->y, 1, stop->w);
    stop->mass = 0.0;
    for (int at = 0; at <= RB_DOF_DEPTH[d]; at++)
        stop->mass += stop->y[at] * stop->w[path[at] - RB_DOF_FIRST[d]];
    if (!(stop->mass > 1e-9 * open)) /* what loops hold needs no stop */
        stop->mass = stop->most = stop->impulse = 0.0;
}

/* Whether a stop did not hold its freedom and velocities do not come to it by more than a part of
   the way. */
static inline int is_far(const struct given *in, const struct scene *s, int k, double part)
{
    const double q = in->state[RB_AT_Q + RB_STOP_Q[k]], low = RB_STOP_LOW[k] - q,
                 high = RB_STOP_HIGH[k] - q;
    const double way = RB_SCENE_STEP * s->qd[RB_STOP_DOF[k]],
                 impulse = in->state[RB_AT_STOP_IMPULSE + k];
    return RB_STOP_MOST[k] >= 1e300 && low <= 0.0 && high >= 0.0 && way >= part * low &&
           way <= part * high && !(impulse < 0.0) && !(impulse > 0.0);
}

/* The stops that are not among those reached and that velocities come to by more than a part of the
   way to them. Returns whether there are any. */
static inline int reach_stops(const struct given *in, const struct scene *s, double part,
                              struct solution *all)
{
    const int count = all->reached;
    unsigned char known[RB_STOPS + 1] = {0};
    for (int k = 0; k < count; k++)
        known[all->stop[k].number] = 1;
    for (int k = 0; k < RB_STOPS; k++) {
        if (known[k] || is_far(in, s, k, part))
            continue;
        start_stop(in, k, &all->stop[all->reached]);
        prepare_stop(s, &all->stop[all->reached++]);
    }
    return all->reached > count;
}

/* A body as it starts the step, with the velocities that it would have without contact. */
static inline void start_body(const struct given *in, int k, struct scene *s)
{
    struct body *body = &s->body[k];
    const double *q = in->state + RB_AT_Q + RB_Q_AT[k], *qd = in->state + RB_AT_QD + RB_QD_AT[k];
    const double *f = in->f_ext + 6 * k;
    const double kick = in->state[RB_AT_STEPS] > 0.0 ? RB_SCENE_STEP : 0.5 * RB_SCENE_STEP;
    double unit[4], now[9], momentum[3], moment[3];
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

    turned_matrix(body->r, RB_INERTIA[k], now);
    turn(now, body->w, momentum);
    cross(body->x, f + 3, moment);
    difference(f, moment, moment);
    along(momentum, kick, moment, momentum);
    body->lightness = 1.0 / RB_MASS[k];
    along(body->v, kick * body->lightness, f + 3, body->v);
    if (in->tau)
        drive_body(in->tau + RB_QD_AT[k], k, kick, body, momentum);
    along(body->v, kick, in->gravity, body->v);
    inverse_of(RB_INERTIA[k], now);
    turned_matrix(body->r, now, body->turning);
    turn(body->turning, momentum, body->w);
    mean_rate(s, k, body->rate);
    difference(body->rate, body->w, body->rate);
}

/* What a contact asks of what moves bodies apart: what is open keeps so much of its gap as is left
   after the step. */
static inline double push_asked(const struct scene *s, const struct touch *c)
{
    double w[3];
    if (c->gap <= 0.0)
        return c->push;
    slip(s, c, w);
    return -fmax(0.0, c->gap / RB_SCENE_STEP + w[0] + c->shift[0]);
}

/* What overlaps is moved apart, until the last sweep changed 1e-4 of what is asked for.
   Contacts that stay open by more than bodies may come to move are left alone. */
static inline void separate(struct scene *s, struct solution *all)
{
    static const double much = 10.0;
    double asked = 0.0, changed = INFINITY;
    int near[RB_CONTACTS], count = 0;
    for (int k = 0; k < all->reached; k++)
        asked = more_of(asked, fabs(all->stop[k].push));
    for (int k = 0; k < all->count; k++)
        asked = more_of(asked, all->touch[k].push);
    for (int k = 0; k < all->count && asked > 0.0; k++) {
        struct touch *c = &all->touch[k];
        c->push = push_asked(s, c);
        if (c->push > -much * asked)
            near[count++] = k;
    }
    for (int sweep = 0; sweep < 50 && asked > 0.0 && changed > 1e-4 * asked; sweep++) {
        changed = 0.0;
        for (int k = 0; k < all->reached; k++)
            changed = more_of(changed, push_inside(s, &all->stop[k]));
        for (int k = 0; k < count; k++)
            changed = more_of(changed, push_apart(s, &all->touch[near[k]]));
    }
}

/* A body after the step. What moves it apart turns its velocities with it, which leaves its energy
   as it is. */
static inline void end_body(const struct given *in, int k, const struct scene *s, double *out)
{
    const struct body *body = &s->body[k];
    double *q = out + RB_AT_Q + RB_Q_AT[k], *qd = out + RB_AT_QD + RB_QD_AT[k];
    double angle[3], x[3], r[9], arm[3], inverse[9], turned[4];
    mean_rate(s, k, angle);
    times(RB_SCENE_STEP, angle, angle);
    turned_by(in->state + RB_AT_Q + RB_Q_AT[k], angle, turned);
    rotation_of(turned, r);
    momentum_of(s, k, arm);
    turn_back(r, arm, arm);
    inverse_of(RB_INERTIA[k], inverse);
    turn(inverse, arm, qd);
    times(RB_SCENE_STEP, body->push_w, angle);
    turned_by(turned, angle, q);
    rotation_of(q, r);
    along(body->x, RB_SCENE_STEP, body->v, x);
    along(x, RB_SCENE_STEP, body->push_v, x);
    turn(r, RB_CENTRE[k], arm);
    difference(x, arm, q + 4);
    turn_back(r, body->v, qd + 3);
    cross(qd, RB_CENTRE[k], arm);
    difference(qd + 3, arm, qd + 3);
}

/* The trees after the step, and the impulses of their stops. */
static inline void end_trees(const struct given *in, struct scene *s, const struct solution *all,
                             double *out)
{
    double moved[RB_DOFS + 1];
    slow_trees(s);
    for (int d = 0; d < RB_DOFS; d++)
        out[RB_AT_QD + RB_DOF_QD[d]] = s->qd[d];
    tree_motion(in, s, moved, out);
    move_trees(in, s->qd, out);
    push_trees(in, s, moved, out);
    for (int k = 0; k < RB_STOPS; k++)
        out[RB_AT_STOP_IMPULSE + k] = 0.0;
    for (int k = 0; k < all->reached; k++)
        out[RB_AT_STOP_IMPULSE + all->stop[k].number] = all->stop[k].impulse;
}

/* The mean of the points of a body, in_contact being for now the sum of the weights. */
static inline void add_pressure(double *out, int k, double weight, const double *point)
{
    double *whole = out + RB_AT_IN_CONTACT + k, *centre = out + RB_AT_CENTRE_OF_PRESSURE + 3 * k,
           way[3];
    if (!(weight > 0.0))
        return;
    *whole += weight;
    difference(point, centre, way);
    along(centre, weight / *whole, way, centre);
}

/* The impulses of contact for the next step, and the forces that they and those of strikes are over
   this one. */
static inline void end_contacts(const struct given *in, const struct scene *s, struct solution *all,
                                double *out)
{
    double depth = 0.0;
    memset(out + RB_AT_KEY, 0, RB_CONTACTS * sizeof *out);
    memset(out + RB_AT_IMPULSE, 0, RB_PARTS * RB_CONTACTS * sizeof *out);
    if (in->mu_static)
        memset(out + RB_AT_STICKS, 0, RB_CONTACTS * sizeof *out);
    memset(out + RB_AT_F_CONTACT, 0, 6 * RB_BODIES * sizeof *out);
    memset(out + RB_AT_IN_CONTACT, 0, RB_BODIES * sizeof *out);
    memset(out + RB_AT_CENTRE_OF_PRESSURE, 0, 3 * RB_BODIES * sizeof *out);
    start_sensors(out);
    for (int k = 0; k < all->count; k++) {
        struct touch *c = &all->touch[k];
        double p[6] = {0.0}, force[3], moment[3], point[3];
        for (int i = 0; i < RB_PARTS; i++)
            along(p + i / 3 * 3, c->impulse[i], c->frame[i % 3], p + i / 3 * 3);
        out[RB_AT_KEY + k] = c->key;
        memcpy(out + RB_AT_IMPULSE + RB_PARTS * k, p, RB_PARTS * sizeof *p);
        if (in->mu_static)
            out[RB_AT_STICKS + k] = sticks(c);
        for (int i = 0; i < RB_PARTS; i++) {
            along(p + i / 3 * 3, c->struck[i], c->frame[i % 3], p + i / 3 * 3);
            c->impulse[i] += c->struck[i];
        }
        times(1.0 / RB_SCENE_STEP, p, force);
        along(s->body[c->a].x, 1.0, c->arm_a, point);
        cross(point, force, moment);
        along(moment, 1.0 / RB_SCENE_STEP, p + 3, moment);
        sense_contact(s, c, moment, force, point, out);
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
    for (int k = 0; k < s->pairs; k++) /* what touches now and is deeper at the end counts once */
        out[RB_AT_LEFT_OUT] += fmax(s->pair[k].left_out[0], s->pair[k].left_out[1]);
    out[RB_AT_RESIDUAL] = all->residual;
    out[RB_AT_SWEEPS_MADE] = all->sweeps + all->strike_sweeps;
    out[RB_AT_DEPTH] = depth;
}

/* No contact, no stop and no row is known yet. */
static inline void start_solution(struct solution *all)
{
    all->count = 0;
    all->reached = 0;
    all->turns[0].body = all->turns[1].body = -1;
}

/* How many sweeps may have been made after a round: an eighth of all is left to each that may
   follow. */
static inline int sweeps_until(int round)
{
    return RB_SCENE_SWEEPS - (RB_ROUNDS - 1 - round) * (RB_SCENE_SWEEPS / 8);
}

/* The contacts of the pairs that were found, and the stops that may be reached, as they start the
   step. */
static inline void find_contacts(const struct given *in, struct scene *s, struct solution *all)
{
    start_solution(all);
    for (int k = 0; k < s->pairs; k++)
        touch_pair(in, s, &s->pair[k], all);
    reach_stops(in, s, 0.5, all);
}

/* The contacts and stops that velocities come to, which were not found before. Returns whether
   there are any. */
static inline int find_more(const struct given *in, struct scene *s, struct solution *all)
{
    const int stops = reach_stops(in, s, 1.0, all);
    return touch_more(in, s, all) || stops;
}

/* Impulses until nothing more is met, from those that there are, in the rounds from `round` on, and
   the velocities of trees with them. */
static inline void meet_all(const struct given *in, struct scene *s, struct solution *all,
                            const struct accuracy *wanted, int round)
{
    do {
        list_all(all);
        find_impulses(s, all, wanted, sweeps_until(round));
        free_velocities(s, s->z, s->qd);
    } while (++round < RB_ROUNDS && find_more(in, s, all));
}

/* The velocities after the step from those after its forces, with the impulses of strikes and
   contacts. */
static inline void find_velocities(const struct given *in, struct scene *s, struct solution *all,
                                   struct stage *freely, const struct accuracy *wanted)
{
    struct stage start;
    struct islands found;
    double change[RB_DOFS + 1];
    const int struck = strike(s, all, freely, wanted) > 0;
    if (struck)
        note_velocities(s, &start);
    start_impulses(s, all, in->state[RB_AT_SWEEPS_MADE]);
    meet_all(in, s, all, wanted, 0);
    if (RB_DOFS > 0 && kick_again(in, s, freely, change)) {
        for (int d = 0; d < RB_DOFS && struck; d++)
            start.z[d] += change[d];
        meet_all(in, s, all, wanted, RB_ROUNDS - 2);
    }
    if (bring_no_energy(s, all, freely, struck ? &start : freely, &found) < 1.0)
        free_velocities(s, s->z, s->qd);
}

/* The sampled states after a step. Where impulses make bodies so fast, or overlaps move them so
   far, that they may meet others than was found, the step begins anew, with these. */
static inline void step_scene(const struct given *in, double *out)
{
    struct scene s;
    struct solution all;
    struct stage freely;
    const struct accuracy usual = {RB_SCENE_STEP * norm(in->gravity), RB_SCENE_TOLERANCE,
                                   RB_MOVING_TOLERANCE};
    s.left_out = 0;
    s.first = in->state[RB_AT_STEPS] == 0.0;
    s.loops.count = 0;
    memset(s.body, 0, sizeof s.body);
    s.body[RB_BODIES].r[0] = s.body[RB_BODIES].r[4] = s.body[RB_BODIES].r[8] = 1.0;
    if (RB_LINKS > 0)
        start_trees(in, &s);
    for (int k = 0; k < RB_BODIES; k++) {
        if (RB_FREE[k])
            start_body(in, k, &s);
        s.body[k].slow = norm(s.body[k].before_v);
        s.body[k].fast = norm(s.body[k].v);
    }
    find_near(&s, RB_SCENE_STEP);
    note_velocities(&s, &freely);
    all.strike_sweeps = 0;
    for (int tries = 1; tries <= RB_TRIES; tries++) {
        find_contacts(in, &s, &all);
        find_velocities(in, &s, &all, &freely, &usual);
        separate(&s, &all);
        if (tries == RB_TRIES || !meet_more(&s, &all))
            break;
        begin_anew(&s, &freely);
        all.strike_sweeps += all.sweeps;
    }
    for (int k = 0; k < RB_BODIES; k++)
        if (RB_FREE[k])
            end_body(in, k, &s, out);
    end_trees(in, &s, &all, out);
    end_contacts(in, &s, &all, out);
    out[RB_AT_STEPS] = in->state[RB_AT_STEPS] + 1.0;
    if (RB_NEARS > 0)
        measure_distances(&s, out + RB_AT_Q, out);
}

/* The distances where a run starts, of states that are there. */
static inline void contact_start(const double *state, RB_ARGUMENTS, double *out)
{
    struct scene s;
    RB_GATHER
    const struct given given = {.state = state, RB_GIVEN};
    if (RB_NEARS > 0)
        measure_distances(&s, given.state + RB_AT_Q, out);
}

/* The same, of what the tables call its arguments and gather from them. */
static inline void contact_step(const double *state, RB_ARGUMENTS, double *out)
{
    RB_GATHER
    const struct given given = {.state = state, RB_GIVEN};
    step_scene(&given, out);
}

#endif
