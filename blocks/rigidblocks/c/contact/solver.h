/* Impulses of contacts with the friction cone: projected Gauss-Seidel sweeps with conjugate gradients between them
   (Silcowitz-Hansen et al. 2010), from the impulses of the step before, until nothing changes any more. */

#ifndef RB_SOLVER_H
#define RB_SOLVER_H

#include "loops.h"

/* What a contact is for the freedoms of a tree: its velocity along the frame by those that move the body, from the last
   to the first, and what unit impulses change of all of them; where there is torsional or rolling friction (RB_PARTS is 6, not
   3), the angular velocity and unit moments behind. */
struct rows {
    double j[RB_PARTS][RB_DEPTH], w[RB_PARTS][RB_SPAN];
};

/* A freedom that is kept between two velocities by an impulse of at most `most`: a stop, or dry friction. */
struct stop {
    int dof;
    double low, high, most, impulse, mass, last, way, w[RB_SPAN];
};

/* A contact: its bodies and shapes, the normal towards a and two tangents, the arms from the centres of mass; the least velocity along
   the normal, the restitution, how much faster a point is over the step than at its start; what unit impulses change, `open` being that with open loops; friction, `mu` being that of what sticks where it stuck; impulses, and the moments of torsion and rolling. */
struct touch {
    int a, b, shape_a, shape_b, sticks;
    double frame[3][3], arm_a[3], arm_b[3], shift[3], least, push, e, mu, torsional, rolling, lever, key, gap;
    double before[3], resting; /* velocities before the step, and the least one of what does not bounce */
    double mass[9], open, rate, twist, roll, impulse[RB_PARTS], pushed, last[RB_PARTS], way[RB_PARTS];
    struct rows rows[2];
};

struct solution {
    struct touch touch[RB_CONTACTS];
    struct stop stop[RB_STOPS + 1];
    int count, sweeps;
    double residual;
};

/* The velocity of a point of a body that moves with v and w. */
static inline void point_velocity(const double *v, const double *w, const double *arm, double *out)
{
    cross(w, arm, out);
    along(out, 1.0, v, out);
}

/* The velocity of a body at a contact, along its frame. */
static inline void speed_at(const struct scene *s, const struct touch *c, int side, double *out)
{
    const int k = side ? c->b : c->a;
    if (RB_LEAF[k] < 0) {
        double u[3];
        point_velocity(s->body[k].v, s->body[k].w, side ? c->arm_b : c->arm_a, u);
        for (int i = 0; i < 3; i++)
            out[i] = dot(c->frame[i], u);
        return;
    }
    out[0] = out[1] = out[2] = 0.0;
    for (int d = RB_LEAF[k], at = 0; d >= 0; d = RB_DOF_PARENT[d], at++)
        for (int i = 0; i < 3; i++)
            out[i] += c->rows[side].j[i][at] * s->qd[d];
}

/* The velocity of A against B at a contact, along its frame. */
static inline void slip(const struct scene *s, const struct touch *c, double *out)
{
    double v[3];
    speed_at(s, c, 0, out);
    speed_at(s, c, 1, v);
    difference(out, v, out);
}

static inline void push_body(struct body *body, double sign, const double *arm, const double *p, double *v, double *w)
{
    double moment[3];
    if (!(body->lightness > 0.0))
        return;
    cross(arm, p, moment);
    turn(body->turning, moment, moment);
    along(v, sign * body->lightness, p, v);
    along(w, sign, moment, w);
}

/* The freedoms of the tree of a body with an impulse along the frame of a contact. */
static inline void push_tree(const struct touch *c, int side, const double *change, double *qd)
{
    const int leaf = RB_LEAF[side ? c->b : c->a], first = RB_DOF_FIRST[leaf];
    const struct rows *rows = &c->rows[side];
    const double sign = side ? -1.0 : 1.0, x = sign * change[0], y = sign * change[1], z = sign * change[2];
    for (int k = 0; k < RB_DOF_COUNT[leaf]; k++)
        qd[first + k] += rows->w[0][k] * x + rows->w[1][k] * y + rows->w[2][k] * z;
    for (int i = 3; i < RB_PARTS; i++)
        for (int k = 0; k < RB_DOF_COUNT[leaf]; k++)
            qd[first + k] += rows->w[i][k] * sign * change[i];
}

/* A free body with the moments of a contact. */
static inline void twist_body(struct body *body, const struct touch *c, double sign, const double *change)
{
    double moment[3] = {0.0, 0.0, 0.0};
    for (int i = 3; i < RB_PARTS; i++)
        along(moment, change[i], c->frame[i - 3], moment);
    turn(body->turning, moment, moment);
    along(body->w, sign, moment, body->w);
}

/* Both bodies with an impulse along the frame of a contact. */
static inline void apply(struct scene *s, const struct touch *c, const double *change)
{
    double p[3];
    times(change[0], c->frame[0], p);
    along(p, change[1], c->frame[1], p);
    along(p, change[2], c->frame[2], p);
    for (int side = 0; side < 2; side++) {
        struct body *body = &s->body[side ? c->b : c->a];
        if (RB_LEAF[side ? c->b : c->a] >= 0) {
            push_tree(c, side, change, s->qd);
            continue;
        }
        push_body(body, side ? -1.0 : 1.0, side ? c->arm_b : c->arm_a, p, body->v, body->w);
        if (RB_PARTS > 3 && body->lightness > 0.0)
            twist_body(body, c, side ? -1.0 : 1.0, change);
    }
}

/* What unit impulses change of the velocities of a free body at the contact itself (3 x 3). */
static inline void add_mobility(const struct body *body, const double *arm, struct touch *c)
{
    if (!(body->lightness > 0.0))
        return;
    for (int j = 0; j < 3; j++) {
        double moment[3], u[3];
        cross(arm, c->frame[j], moment);
        turn(body->turning, moment, moment);
        cross(moment, arm, u);
        along(u, body->lightness, c->frame[j], u);
        for (int i = 0; i < 3; i++)
            c->mass[3 * i + j] += dot(c->frame[i], u);
    }
}

/* The rows of a contact for the tree of a body: J, and H^-1 J^T. */
static inline void make_rows(const struct scene *s, struct touch *c, int side)
{
    const int k = side ? c->b : c->a, leaf = RB_LEAF[k], first = RB_DOF_FIRST[leaf], count = RB_DOF_COUNT[leaf];
    double point[3], x[RB_DOFS + 1];
    along(s->body[k].x, 1.0, side ? c->arm_b : c->arm_a, point);
    for (int d = leaf, at = 0; d >= 0; d = RB_DOF_PARENT[d], at++) {
        double arm[3], v[3];
        difference(point, s->link[RB_DOF_LINK[d]].o, arm);
        cross(s->column[d], arm, v);
        along(v, 1.0, s->column[d] + 3, v);
        for (int i = 0; i < 3; i++)
            c->rows[side].j[i][at] = dot(c->frame[i], v);
        for (int i = 3; i < RB_PARTS; i++)
            c->rows[side].j[i][at] = dot(c->frame[i - 3], s->column[d]);
    }
    for (int i = 0; i < RB_PARTS; i++) {
        memset(x + first, 0, (size_t)count * sizeof *x);
        for (int d = leaf, at = 0; d >= 0; d = RB_DOF_PARENT[d], at++)
            x[d] = c->rows[side].j[i][at];
        solve_upwards(s, leaf, x);
        for (int d = 0; RB_CLOSURES > 0 && i == 0 && d < count; d++)
            c->open += x[first + d] * x[first + d];
        keep_loops(s, first, count, x);
        solve_downwards(s, first, count, x);
        memcpy(c->rows[side].w[i], x + first, (size_t)count * sizeof *x);
    }
}

/* What unit impulses on one side change of the velocities of a link on the same or the other one. */
static inline void add_tree_mobility(struct touch *c, int of, int by)
{
    const int leaf = RB_LEAF[of ? c->b : c->a], first = RB_DOF_FIRST[leaf];
    for (int d = leaf, at = 0; d >= 0; d = RB_DOF_PARENT[d], at++)
        for (int i = 0; i < 3; i++)
            for (int j = 0; j < 3; j++)
                c->mass[3 * i + j] += (of == by ? 1.0 : -1.0) * c->rows[of].j[i][at] * c->rows[by].w[j][d - first];
}

/* The angular velocity of A against B at a contact, along its frame. */
static inline void turning_at(const struct scene *s, const struct touch *c, double *out)
{
    memset(out, 0, 3 * sizeof *out);
    for (int side = 0; side < 2; side++) {
        const int k = side ? c->b : c->a;
        const double sign = side ? -1.0 : 1.0;
        for (int i = 0; RB_LEAF[k] < 0 && i < 3; i++)
            out[i] += sign * dot(c->frame[i], s->body[k].w);
        for (int d = RB_LEAF[k], at = 0; d >= 0; d = RB_DOF_PARENT[d], at++)
            for (int i = 3; i < RB_PARTS; i++)
                out[i - 3] += sign * c->rows[side].j[i][at] * s->qd[d];
    }
}

/* What unit moments change of the angular velocity of one side by those on another (3 x 3, added). */
static inline void add_turning(const struct scene *s, const struct touch *c, int of, int by, double *mass)
{
    const int k = of ? c->b : c->a, leaf = RB_LEAF[k];
    double u[3];
    for (int j = 0; leaf < 0 && j < 3; j++) {
        turn(s->body[k].turning, c->frame[j], u);
        for (int i = 0; i < 3; i++)
            mass[3 * i + j] += dot(c->frame[i], u);
    }
    for (int d = leaf, at = 0; d >= 0; d = RB_DOF_PARENT[d], at++)
        for (int i = 3; i < RB_PARTS; i++)
            for (int j = 3; j < RB_PARTS; j++)
                mass[3 * (i - 3) + j - 3] += (of == by ? 1.0 : -1.0) * c->rows[of].j[i][at] *
                                             c->rows[by].w[j][d - RB_DOF_FIRST[leaf]];
}

/* How much a moment changes of the spin about the normal, and at most of the rolling. */
static inline void prepare_turning(const struct scene *s, struct touch *c)
{
    const int a = RB_LEAF[c->a], b = RB_LEAF[c->b];
    double mass[9] = {0.0};
    add_turning(s, c, 0, 0, mass);
    add_turning(s, c, 1, 1, mass);
    c->lever = fmax(c->a < RB_BODIES ? norm(c->arm_a) : 0.0, c->b < RB_BODIES ? norm(c->arm_b) : 0.0);
    if (a >= 0 && b >= 0 && RB_DOF_FIRST[a] == RB_DOF_FIRST[b]) {
        add_turning(s, c, 0, 1, mass);
        add_turning(s, c, 1, 0, mass);
    }
    const double mean = 0.5 * (mass[4] + mass[8]), half = 0.5 * (mass[4] - mass[8]);
    const double most = mean + sqrt(half * half + mass[5] * mass[5]);
    c->twist = mass[0] > 1e-12 * most ? 1.0 / mass[0] : 0.0;
    c->roll = most > 1e-12 * mass[0] ? 1.0 / most : 0.0;
}

/* What is particular to a contact. Returns 0 for one whose impulse could move nothing. */
static inline int prepare(const struct scene *s, struct touch *c)
{
    const int a = RB_LEAF[c->a], b = RB_LEAF[c->b];
    memset(c->mass, 0, sizeof c->mass);
    for (int side = 0; side < 2; side++) {
        if ((side ? b : a) < 0) {
            add_mobility(&s->body[side ? c->b : c->a], side ? c->arm_b : c->arm_a, c);
        } else {
            make_rows(s, c, side);
            add_tree_mobility(c, side, side);
        }
    }
    if (a >= 0 && b >= 0 && RB_DOF_FIRST[a] == RB_DOF_FIRST[b]) { /* a tree that touches itself */
        add_tree_mobility(c, 0, 1);
        add_tree_mobility(c, 1, 0);
    }
    const double mean = 0.5 * (c->mass[4] + c->mass[8]), half = 0.5 * (c->mass[4] - c->mass[8]);
    const double most = mean + sqrt(half * half + c->mass[5] * c->mass[5]); /* the largest eigenvalue of the tangents */
    c->rate = most > 1e-12 * c->mass[0] ? 1.0 / most : 0.0;
    return c->mass[0] > 1e-12 * most && c->mass[0] > 1e-9 * c->open;
}

/* The moments of one contact with all others as they are. Returns the velocity of a point by which they changed. */
static inline double solve_turning(struct scene *s, struct touch *c)
{
    double w[3], next[RB_PARTS], change[RB_PARTS] = {0.0};
    const double most = c->torsional * c->impulse[0], limit = c->rolling * c->impulse[0];
    turning_at(s, c, w);
    memcpy(next, c->impulse, sizeof next);
    for (int i = 3; i < RB_PARTS; i++)
        next[i] -= (i == 3 ? c->twist : c->roll) * w[i - 3];
    next[RB_PARTS - 3] = limited(next[RB_PARTS - 3], -most, most);
    const double length = sqrt(next[RB_PARTS - 2] * next[RB_PARTS - 2] + next[RB_PARTS - 1] * next[RB_PARTS - 1]);
    for (int i = 4; i < RB_PARTS && length > limit; i++)
        next[i] *= limit / length;
    double turned = 0.0;
    for (int i = 3; i < RB_PARTS; i++) {
        const double rate = i == 3 ? c->twist : c->roll;
        change[i] = next[i] - c->impulse[i];
        turned = rate > 0.0 ? fmax(turned, fabs(change[i]) / rate) : turned;
    }
    if (!(turned > 0.0))
        return 0.0;
    memcpy(c->impulse, next, sizeof next);
    apply(s, c, change);
    return turned * c->lever;
}

/* The impulse of one contact with all others as they are. Returns the velocity by which it changed. */
static inline double solve_contact(struct scene *s, struct touch *c)
{
    double w[3], next[3], change[RB_PARTS] = {0.0};
    slip(s, c, w);
    next[0] = fmax(0.0, c->impulse[0] - (w[0] - c->least) / c->mass[0]);
    change[0] = next[0] - c->impulse[0];
    for (int i = 1; i < 3; i++)
        next[i] = c->impulse[i] - c->rate * (w[i] + c->shift[i] + c->mass[3 * i] * change[0]);
    const double limit = c->mu * next[0], length = sqrt(next[1] * next[1] + next[2] * next[2]);
    const double part = length > limit ? limit / length : 1.0;
    for (int i = 1; i < 3; i++) {
        next[i] *= part;
        change[i] = next[i] - c->impulse[i];
    }
    if (change[0] == 0.0 && change[1] == 0.0 && change[2] == 0.0)
        return 0.0;
    memcpy(c->impulse, next, sizeof next);
    apply(s, c, change);
    const double across_it = c->rate > 0.0 ? fmax(fabs(change[1]), fabs(change[2])) / c->rate : 0.0;
    return fmax(fabs(change[0]) * c->mass[0], across_it);
}

static inline void push_stop(struct scene *s, const struct stop *stop, double change)
{
    for (int k = 0; k < RB_DOF_COUNT[stop->dof]; k++)
        s->qd[RB_DOF_FIRST[stop->dof] + k] += change * stop->w[k];
}

/* The impulse of a stop with all others as they are. Returns the velocity by which it changed. */
static inline double solve_stop(struct scene *s, struct stop *stop)
{
    if (!(stop->mass > 0.0))
        return 0.0;
    const double free = s->qd[stop->dof] - stop->mass * stop->impulse;
    const double wanted = (limited(free, stop->low, stop->high) - free) / stop->mass;
    const double change = limited(wanted, -stop->most, stop->most) - stop->impulse;
    if (change == 0.0)
        return 0.0;
    stop->impulse += change;
    push_stop(s, stop, change);
    return fabs(change) * stop->mass;
}

/* How far the last sweep has come, squared. */
static inline double squared_way(const struct solution *all)
{
    double squared = 0.0;
    for (int k = 0; k < all->count; k++) {
        const struct touch *c = &all->touch[k];
        for (int i = 0; i < RB_PARTS; i++)
            squared += (c->impulse[i] - c->last[i]) * (c->impulse[i] - c->last[i]);
    }
    for (int k = 0; k < RB_STOPS; k++)
        squared += (all->stop[k].impulse - all->stop[k].last) * (all->stop[k].impulse - all->stop[k].last);
    return squared;
}

/* From where a sweep has come on along the way of those before, conjugate to it. */
static inline void go_on(struct scene *s, struct solution *all, double *before)
{
    const double squared = squared_way(all), part = *before > 0.0 ? squared / *before : 2.0;
    const double kept = part <= 1.0 ? part : 0.0;
    for (int k = 0; k < all->count; k++) {
        struct touch *c = &all->touch[k];
        double change[RB_PARTS];
        for (int i = 0; i < RB_PARTS; i++) {
            change[i] = kept * c->way[i];
            c->way[i] = change[i] + c->impulse[i] - c->last[i];
            c->impulse[i] += change[i];
        }
        if (kept > 0.0)
            apply(s, c, change);
    }
    for (int k = 0; k < RB_STOPS; k++) {
        struct stop *stop = &all->stop[k];
        const double change = kept * stop->way;
        stop->way = change + stop->impulse - stop->last;
        stop->impulse += change;
        push_stop(s, stop, change);
    }
    *before = squared;
}

/* One sweep over all contacts and stops. Returns the largest change of a velocity. */
static inline double sweep_once(struct scene *s, struct solution *all)
{
    double most = 0.0;
    for (int k = 0; k < RB_STOPS; k++) {
        all->stop[k].last = all->stop[k].impulse;
        most = fmax(most, solve_stop(s, &all->stop[k]));
    }
    for (int k = 0; k < all->count; k++)
        memcpy(all->touch[k].last, all->touch[k].impulse, sizeof all->touch[k].last);
    for (int k = 0; k < all->count; k++) {
        struct touch *c = &all->touch[k];
        most = fmax(most, solve_contact(s, c));
        if (RB_PARTS > 3 && (c->torsional > 0.0 || c->rolling > 0.0))
            most = fmax(most, solve_turning(s, c));
    }
    return most;
}

/* What starts from the impulses of the step before gets them. */
static inline void start_impulses(struct scene *s, struct solution *all)
{
    all->sweeps = 0;
    all->residual = 0.0;
    for (int k = 0; k < all->count; k++)
        apply(s, &all->touch[k], all->touch[k].impulse);
    for (int k = 0; k < RB_STOPS; k++)
        push_stop(s, &all->stop[k], all->stop[k].impulse);
}

/* Sweeps until no velocity changes by more than the tolerance, or `most` have been made in this step. */
static inline void solve_impulses(struct scene *s, struct solution *all, double tolerance, int most)
{
    double before = 0.0;
    for (int k = 0; k < all->count; k++)
        memset(all->touch[k].way, 0, sizeof all->touch[k].way);
    for (int k = 0; k < RB_STOPS; k++)
        all->stop[k].way = 0.0;
    while (all->sweeps < most && all->count + RB_STOPS > 0) {
        all->residual = sweep_once(s, all);
        if (++all->sweeps == most || all->residual <= tolerance)
            break;
        go_on(s, all, &before);
    }
}

/* The velocity along the normal with which a body is moved apart. */
static inline double push_speed(const struct scene *s, const struct touch *c, int side)
{
    const int k = side ? c->b : c->a;
    double sum = 0.0;
    if (RB_LEAF[k] < 0) {
        double u[3];
        point_velocity(s->body[k].push_v, s->body[k].push_w, side ? c->arm_b : c->arm_a, u);
        return dot(c->frame[0], u);
    }
    for (int d = RB_LEAF[k], at = 0; d >= 0; d = RB_DOF_PARENT[d], at++)
        sum += c->rows[side].j[0][at] * s->push_qd[d];
    return sum;
}

/* One contact in a sweep that moves bodies apart without giving them a velocity. Returns by how much it changed one. */
static inline double push_apart(struct scene *s, struct touch *c)
{
    const double speed = push_speed(s, c, 0) - push_speed(s, c, 1);
    const double next = fmax(0.0, c->pushed - (speed - c->push) / c->mass[0]);
    const double change[RB_PARTS] = {next - c->pushed};
    double p[3];
    if (change[0] == 0.0)
        return 0.0;
    times(change[0], c->frame[0], p);
    c->pushed = next;
    for (int side = 0; side < 2; side++) {
        struct body *body = &s->body[side ? c->b : c->a];
        if (RB_LEAF[side ? c->b : c->a] >= 0)
            push_tree(c, side, change, s->push_qd);
        else
            push_body(body, side ? -1.0 : 1.0, side ? c->arm_b : c->arm_a, p, body->push_v, body->push_w);
    }
    return fabs(change[0]) * c->mass[0];
}

#endif
