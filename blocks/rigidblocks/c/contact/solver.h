/* Impulses of contacts with the friction cone, one after the other with all others as they are:
   sweeps of projected Gauss-Seidel, from the impulses of the step before. */

#ifndef RB_SOLVER_H
#define RB_SOLVER_H

#include "mobility.h"

enum { RB_PATIENT_SWEEPS = 32, RB_STALLING_SWEEPS = 4 };

/* Whether friction is less than the most that it can be. */
static inline int sticks(const struct touch *c)
{
    const double limit = c->mu * c->impulse[0];
    return sqrt(c->impulse[1] * c->impulse[1] + c->impulse[2] * c->impulse[2]) <
           (1.0 - 1e-9) * limit;
}

/* The velocity of a body at a contact, along its frame. */
static inline void speed_at(const struct scene *s, const struct touch *c, int side, double *out)
{
    const int k = side ? c->b : c->a;
    if (RB_LEAF[k] < 0) {
        const struct body *body = &s->body[k];
        const double (*spin)[3] = c->arms[side].spin;
        out[0] = dot(c->frame[0], body->v) + dot(spin[0], body->w);
        out[1] = dot(c->frame[1], body->v) + dot(spin[1], body->w);
        out[2] = dot(c->frame[2], body->v) + dot(spin[2], body->w);
        return;
    }
    const int leaf = RB_LEAF[k], *path = RB_PATH + RB_DOF_ROW[leaf];
    const double (*row)[RB_PARTS] = c->rows[side].y;
    double x = 0.0, y = 0.0, z = 0.0;
    for (int at = 0; at <= RB_DOF_DEPTH[leaf]; at++) {
        const double v = s->z[path[at]];
        x += row[at][0] * v;
        y += row[at][1] * v;
        z += row[at][2] * v;
    }
    out[0] = x;
    out[1] = y;
    out[2] = z;
}

/* The velocity of A against B at a contact, along its frame. */
static inline void slip(const struct scene *s, const struct touch *c, double *out)
{
    double v[3];
    speed_at(s, c, 0, out);
    if (c->b == RB_BODIES)
        return;
    speed_at(s, c, 1, v);
    difference(out, v, out);
}

/* The freedoms of the tree of a body with an impulse along the frame of a contact. */
static inline void push_tree(const struct touch *c, int side, const double *change, double *z)
{
    const int leaf = RB_LEAF[side ? c->b : c->a], *path = RB_PATH + RB_DOF_ROW[leaf];
    const int count = RB_CLOSURES > 0 ? RB_DOF_COUNT[leaf] : RB_DOF_DEPTH[leaf] + 1;
    const double (*row)[RB_PARTS] = RB_CLOSURES > 0 ? c->rows[side].w : c->rows[side].y;
    const double sign = side ? -1.0 : 1.0, x = sign * change[0], y = sign * change[1],
                 v = sign * change[2];
    for (int k = 0; k < count; k++) {
        double sum = row[k][0] * x + row[k][1] * y + row[k][2] * v;
        for (int i = 3; i < RB_PARTS; i++)
            sum += row[k][i] * sign * change[i];
        z[RB_CLOSURES > 0 ? RB_DOF_FIRST[leaf] + k : path[k]] += sum;
    }
}

/* A free body with the moments of a contact. */
static inline void twist_body(struct body *body, const struct touch *c, double sign,
                              const double *change)
{
    double moment[3] = {0.0, 0.0, 0.0};
    for (int i = 3; i < RB_PARTS; i++)
        along(moment, change[i], c->frame[i - 3], moment);
    turn(body->turning, moment, moment);
    along(body->w, sign, moment, body->w);
}

/* A free body with an impulse along the frame of a contact. */
static inline void push_body(const struct touch *c, int side, const double *change,
                             double lightness, double *v, double *w)
{
    const struct arms *arms = &c->arms[side];
    const double sign = side ? -1.0 : 1.0, x = sign * change[0], y = sign * change[1],
                 z = sign * change[2];
    for (int i = 0; i < 3; i++) {
        v[i] += lightness * (c->frame[0][i] * x + c->frame[1][i] * y + c->frame[2][i] * z);
        w[i] += arms->whirl[0][i] * x + arms->whirl[1][i] * y + arms->whirl[2][i] * z;
    }
}

/* Both bodies with an impulse along the frame of a contact. */
static inline void apply(struct scene *s, const struct touch *c, const double *change)
{
    for (int side = 0; side < 2; side++) {
        const int k = side ? c->b : c->a;
        struct body *body = &s->body[k];
        if (RB_LEAF[k] >= 0) {
            push_tree(c, side, change, s->z);
        } else if (body->lightness > 0.0) {
            push_body(c, side, change, body->lightness, body->v, body->w);
            if (RB_PARTS > 3)
                twist_body(body, c, side ? -1.0 : 1.0, change);
        }
    }
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
                out[i - 3] += sign * c->rows[side].y[at][i] * s->z[d];
    }
}

/* The moments of one contact with all others as they are. Returns the velocity of a point by which
   they changed. */
static inline double solve_turning(struct scene *s, struct touch *c)
{
    double w[3], next[RB_PARTS], change[RB_PARTS] = {0.0};
    const double most = c->torsional * c->impulse[0], limit = c->rolling * c->impulse[0];
    turning_at(s, c, w);
    memcpy(next, c->impulse, sizeof next);
    for (int i = 3; i < RB_PARTS; i++)
        next[i] -= (i == 3 ? c->twist : c->roll) * w[i - 3];
    next[RB_PARTS - 3] = limited(next[RB_PARTS - 3], -most, most);
    const double length =
        sqrt(next[RB_PARTS - 2] * next[RB_PARTS - 2] + next[RB_PARTS - 1] * next[RB_PARTS - 1]);
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
    memcpy(c->step + 3, change + 3, (RB_PARTS - 3) * sizeof *change);
    memcpy(c->impulse, next, sizeof next);
    apply(s, c, change);
    return turned * c->lever;
}

/* The impulse of one contact with all others as they are. Returns the velocity by which it
   changed. */
static inline double solve_contact(struct scene *s, struct touch *c)
{
    double w[3], next[3], change[RB_PARTS] = {0.0};
    slip(s, c, w);
    next[0] = c->impulse[0] - (w[0] - c->least) * c->inertia;
    next[0] = more_of(next[0], c->floor);
    change[0] = next[0] - c->impulse[0];
    next[1] = c->impulse[1] - c->rate * (w[1] + c->shift[1] + c->mass[3] * change[0]);
    next[2] = c->impulse[2] - c->rate * (w[2] + c->shift[2] + c->mass[6] * change[0]);
    const double limit = c->mu * next[0], squared = next[1] * next[1] + next[2] * next[2];
    if (squared > limit * limit) {
        const double part = limit / sqrt(squared);
        next[1] *= part;
        next[2] *= part;
    }
    change[1] = next[1] - c->impulse[1];
    change[2] = next[2] - c->impulse[2];
    memcpy(c->step, change, sizeof change);
    if (change[0] == 0.0 && change[1] == 0.0 && change[2] == 0.0)
        return 0.0;
    memcpy(c->impulse, next, sizeof next);
    apply(s, c, change);
    return more_of(fabs(change[0]) * c->mass[0],
                   more_of(fabs(change[1]), fabs(change[2])) * c->across_it);
}

static inline void push_stop(const struct stop *stop, double change, double *z)
{
    const int d = stop->dof, *path = RB_PATH + RB_DOF_ROW[d];
    for (int at = 0; RB_CLOSURES == 0 && at <= RB_DOF_DEPTH[d]; at++)
        z[path[at]] += change * stop->y[at];
    for (int k = 0; RB_CLOSURES > 0 && k < RB_DOF_COUNT[d]; k++)
        z[RB_DOF_FIRST[d] + k] += change * stop->w[k];
}

/* The velocity of the freedom of a stop. */
static inline double stop_speed(const struct stop *stop, const double *z)
{
    const int *path = RB_PATH + RB_DOF_ROW[stop->dof];
    double sum = 0.0;
    for (int at = 0; at <= RB_DOF_DEPTH[stop->dof]; at++)
        sum += stop->y[at] * z[path[at]];
    return sum;
}

/* The impulse of a stop with all others as they are. Returns the velocity by which it changed. */
static inline double solve_stop(struct scene *s, struct stop *stop)
{
    stop->step = 0.0;
    if (!(stop->mass > 0.0))
        return 0.0;
    const double free = stop_speed(stop, s->z) - stop->mass * stop->impulse;
    const double wanted = (limited(free, stop->low, stop->high) - free) / stop->mass;
    const double change = limited(wanted, -stop->most, stop->most) - stop->impulse;
    stop->step = change;
    if (change == 0.0)
        return 0.0;
    stop->impulse += change;
    push_stop(stop, change, s->z);
    return fabs(change) * stop->mass;
}

/* One sweep over the contacts that are listed, and stops. Returns the largest change of a
   velocity. */
static inline double sweep_once(struct scene *s, struct solution *all)
{
    double most = 0.0;
    for (int k = 0; k < all->stops; k++)
        most = more_of(most, solve_stop(s, &all->stop[k]));
    for (int k = 0; k < all->list; k++) {
        struct touch *c = &all->touch[all->listed[k]];
        most = more_of(most, solve_contact(s, c));
        if (RB_PARTS > 3 && (c->torsional > 0.0 || c->rolling > 0.0))
            most = more_of(most, solve_turning(s, c));
    }
    return most;
}

/* The velocity along the normal with which a body is moved apart. */
static inline double push_speed(const struct scene *s, const struct touch *c, int side)
{
    const int k = side ? c->b : c->a;
    double sum = 0.0;
    if (RB_LEAF[k] < 0) {
        return dot(c->frame[0], s->body[k].push_v) + dot(c->arms[side].spin[0], s->body[k].push_w);
    }
    const int *path = RB_PATH + RB_DOF_ROW[RB_LEAF[k]];
    for (int at = 0; at <= RB_DOF_DEPTH[RB_LEAF[k]]; at++)
        sum += c->rows[side].y[at][0] * s->push_z[path[at]];
    return sum;
}

/* The freedoms of the tree of a body with an impulse along the normal of a contact. */
static inline void part_tree(const struct touch *c, int side, double change, double *z)
{
    const int leaf = RB_LEAF[side ? c->b : c->a], *path = RB_PATH + RB_DOF_ROW[leaf];
    const double signed_change = side ? -change : change;
    for (int at = 0; RB_CLOSURES == 0 && at <= RB_DOF_DEPTH[leaf]; at++)
        z[path[at]] += signed_change * c->rows[side].y[at][0];
    for (int k = 0; RB_CLOSURES > 0 && k < RB_DOF_COUNT[leaf]; k++)
        z[RB_DOF_FIRST[leaf] + k] += signed_change * c->rows[side].w[k][0];
}

/* Where what moves along the normal is less than this part of what moves across it, as where the
   axis of a joint is along the normal, less than the whole overlap is taken back: to open it would
   take the joint far round. The way across is so at most ten times the overlap. */
static const double RB_ACROSS = 1e-2;

/* One contact in a sweep that moves bodies apart without giving them a velocity. Returns by how
   much it changed one. */
static inline double push_apart(struct scene *s, struct touch *c)
{
    const double speed = push_speed(s, c, 0) - (c->b < RB_BODIES ? push_speed(s, c, 1) : 0.0);
    const double mass = fmax(c->mass[0], RB_ACROSS * c->across_it);
    const double next = fmax(0.0, (c->mass[0] * c->pushed - (speed - c->push)) / mass);
    const double change[RB_PARTS] = {next - c->pushed};
    if (change[0] == 0.0)
        return 0.0;
    c->pushed = next;
    for (int side = 0; side < 2; side++) {
        struct body *body = &s->body[side ? c->b : c->a];
        if (RB_LEAF[side ? c->b : c->a] >= 0)
            part_tree(c, side, change[0], s->push_z);
        else if (body->lightness > 0.0)
            push_body(c, side, change, body->lightness, body->push_v, body->push_w);
    }
    return fabs(change[0]) * c->mass[0];
}

/* A freedom beyond its stop, in such a sweep. Returns by how much it changed its velocity. */
static inline double push_inside(struct scene *s, struct stop *stop)
{
    const double sign = stop->push < 0.0 ? -1.0 : 1.0,
                 missing = stop->push - stop_speed(stop, s->push_z);
    if (!(stop->mass > 0.0) || !(fabs(stop->push) > 0.0))
        return 0.0;
    const double next = sign * more_of(0.0, sign * (stop->pushed + missing / stop->mass)),
                 change = next - stop->pushed;
    stop->pushed = next;
    push_stop(stop, change, s->push_z);
    return fabs(change) * stop->mass;
}

#endif
