/* Impulses of contacts with the friction cone: projected Gauss-Seidel sweeps with conjugate gradients between them
   (Silcowitz-Hansen et al. 2010), from the impulses of the step before, until nothing changes any more. */

#ifndef RB_SOLVER_H
#define RB_SOLVER_H

#include "scene.h"

/* A contact: its bodies, the normal towards a and two tangents, the arms from the centres of mass; the least velocity along
   the normal; impulses. */
struct touch {
    int a, b;
    double frame[3][3], arm_a[3], arm_b[3], least, push, mu, key, gap;
    double mass[9], rate, impulse[3], pushed, last[3], way[3];
};

struct solution {
    struct touch touch[RB_CONTACTS];
    int count, sweeps;
    double residual;
};

/* The velocity of A against B at a contact, along its frame. */
static inline void slip(const struct scene *s, const struct touch *c, double *out)
{
    const struct body *a = &s->body[c->a], *b = &s->body[c->b];
    double u[3], v[3];
    cross(a->w, c->arm_a, u);
    along(u, 1.0, a->v, u);
    cross(b->w, c->arm_b, v);
    along(v, 1.0, b->v, v);
    difference(u, v, u);
    for (int i = 0; i < 3; i++)
        out[i] = dot(c->frame[i], u);
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

/* Both bodies with an impulse along the frame of a contact. */
static inline void apply(struct scene *s, const struct touch *c, const double *change)
{
    double p[3];
    times(change[0], c->frame[0], p);
    along(p, change[1], c->frame[1], p);
    along(p, change[2], c->frame[2], p);
    push_body(&s->body[c->a], 1.0, c->arm_a, p, s->body[c->a].v, s->body[c->a].w);
    push_body(&s->body[c->b], -1.0, c->arm_b, p, s->body[c->b].v, s->body[c->b].w);
}

/* What unit impulses change of the velocities at the contact itself (3 x 3). */
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

static inline void prepare(const struct scene *s, struct touch *c)
{
    memset(c->mass, 0, sizeof c->mass);
    add_mobility(&s->body[c->a], c->arm_a, c);
    add_mobility(&s->body[c->b], c->arm_b, c);
    const double mean = 0.5 * (c->mass[4] + c->mass[8]), half = 0.5 * (c->mass[4] - c->mass[8]);
    c->rate = 1.0 / (mean + sqrt(half * half + c->mass[5] * c->mass[5])); /* of the largest eigenvalue of the tangents */
}

/* The impulse of one contact with all others as they are. Returns the velocity by which it changed. */
static inline double solve_contact(struct scene *s, struct touch *c)
{
    double w[3], next[3], change[3];
    slip(s, c, w);
    next[0] = fmax(0.0, c->impulse[0] - (w[0] - c->least) / c->mass[0]);
    change[0] = next[0] - c->impulse[0];
    for (int i = 1; i < 3; i++)
        next[i] = c->impulse[i] - c->rate * (w[i] + c->mass[3 * i] * change[0]);
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
    return fmax(fabs(change[0]) * c->mass[0], fmax(fabs(change[1]), fabs(change[2])) / c->rate);
}

/* From where a sweep has come on along the way of those before, conjugate to it. */
static inline void go_on(struct scene *s, struct solution *all, double *before)
{
    double squared = 0.0;
    for (int k = 0; k < all->count; k++) {
        const struct touch *c = &all->touch[k];
        for (int i = 0; i < 3; i++)
            squared += (c->impulse[i] - c->last[i]) * (c->impulse[i] - c->last[i]);
    }
    const double part = *before > 0.0 ? squared / *before : 2.0;
    for (int k = 0; k < all->count; k++) {
        struct touch *c = &all->touch[k];
        double change[3];
        for (int i = 0; i < 3; i++) {
            const double step = c->impulse[i] - c->last[i];
            change[i] = part <= 1.0 ? part * c->way[i] : 0.0;
            c->way[i] = (part <= 1.0 ? part * c->way[i] : 0.0) + step;
            c->impulse[i] += change[i];
        }
        if (part <= 1.0)
            apply(s, c, change);
    }
    *before = squared;
}

/* Sweeps until no velocity changes by more than the tolerance. */
static inline void solve_impulses(struct scene *s, struct solution *all, double tolerance)
{
    double before = 0.0;
    all->residual = 0.0;
    for (int k = 0; k < all->count; k++) {
        memset(all->touch[k].way, 0, sizeof all->touch[k].way);
        apply(s, &all->touch[k], all->touch[k].impulse);
    }
    for (all->sweeps = 0; all->sweeps < RB_SCENE_SWEEPS && all->count > 0;) {
        double most = 0.0;
        for (int k = 0; k < all->count; k++)
            memcpy(all->touch[k].last, all->touch[k].impulse, sizeof all->touch[k].last);
        for (int k = 0; k < all->count; k++)
            most = fmax(most, solve_contact(s, &all->touch[k]));
        all->residual = most;
        if (++all->sweeps == RB_SCENE_SWEEPS || most <= tolerance)
            break;
        go_on(s, all, &before);
    }
}

/* One contact in a sweep that moves bodies apart without giving them a velocity. */
static inline void push_apart(struct scene *s, struct touch *c)
{
    struct body *a = &s->body[c->a], *b = &s->body[c->b];
    double u[3], v[3], p[3];
    cross(a->push_w, c->arm_a, u);
    along(u, 1.0, a->push_v, u);
    cross(b->push_w, c->arm_b, v);
    along(v, 1.0, b->push_v, v);
    difference(u, v, u);
    const double next = fmax(0.0, c->pushed - (dot(c->frame[0], u) - c->push) / c->mass[0]);
    times(next - c->pushed, c->frame[0], p);
    c->pushed = next;
    push_body(a, 1.0, c->arm_a, p, a->push_v, a->push_w);
    push_body(b, -1.0, c->arm_b, p, b->push_v, b->push_w);
}

#endif
