/* Sweeps over contacts of free bodies, with each other and with what is at rest: those of solver.h,
   with the rows of a contact next to each other and in coordinates in which a body has unit
   inertia, so that the numbers that give the velocity along the frame are also what unit impulses
   change. They are taken two at a time. */

#ifndef RB_FREE_H
#define RB_FREE_H

#include "conjugate.h"
#include "two.h"

/* A contact: its bodies; of both what makes the velocity along the frame; impulses, and the changes
   of the last sweep and of those before; what a unit of velocity takes along and across the normal,
   and a unit of impulse changes; the least impulse and velocity along the normal, and those across it that are
   to vanish, both against the start of the sweeps; friction, and the most that it can be. */
struct light {
    int a, b;
    two of_a[RB_PARTS][3], of_b[RB_PARTS][3];
    double impulse[RB_PARTS], step[RB_PARTS], way[RB_PARTS];
    double inertia, rate, mass[3], across_it, floor, least, shift[2], mu, limit;
    double spin[3], twist, roll, torsional, rolling, lever;
};

/* A free body: how its velocities have changed since the start, up to the last sweep, and the way
   that they have come. */
struct flight {
    two y[3], last[3], way[3];
};

/* Room for as many as a heap has at once, where there is room for many in all: they are on the stack
   of whoever steps, which is 8 MB where nobody asks for more. */
enum { RB_LIGHTS = RB_CONTACTS <= 2048 ? RB_CONTACTS : RB_CONTACTS / 2 };

/* All contacts that are solved for, and the bodies that they touch; the part of what it is behind by
   which the most that friction can be follows the normal impulse in a sweep. */
struct flights {
    struct light light[RB_LIGHTS];
    struct flight body[RB_BODIES + 1];
    double root[RB_BODIES][7]; /* of the inverse of mass and inertia: L L^T = I^-1, by rows */
    int touched[RB_BODIES], bodies, count;
    double following;
};

/* Zero where the divisor is, as it is of a body that nothing moves. */
static inline double quotient(double a, double b)
{
    return b > 0.0 ? a / b : 0.0;
}

/* The lower triangle L of Cholesky, behind the root of the inverse mass. */
static inline void root_of(const struct body *body, double *out)
{
    const double *m = body->turning;
    out[0] = sqrt(body->lightness);
    out[1] = sqrt(m[0]);
    out[2] = quotient(m[3], out[1]);
    out[4] = quotient(m[6], out[1]);
    out[3] = sqrt(more_of(m[4] - out[2] * out[2], 0.0));
    out[5] = quotient(m[7] - out[4] * out[2], out[3]);
    out[6] = sqrt(more_of(m[8] - out[4] * out[4] - out[5] * out[5], 0.0));
}

/* A direction, and one about which a body turns, in its coordinates. */
static inline void make_row(const double *root, double sign, const double *n, const double *spin,
                            two *out)
{
    const double part = sign * root[0];
    out[0] = pair_of(part * n[0], part * n[1]);
    out[1] =
        pair_of(part * n[2], sign * (root[1] * spin[0] + root[2] * spin[1] + root[4] * spin[2]));
    out[2] = pair_of(sign * (root[3] * spin[1] + root[5] * spin[2]), sign * (root[6] * spin[2]));
}

static inline void make_rows_of(const struct flights *all, const struct touch *c, int side,
                                two (*out)[3])
{
    static const double none[3] = {0.0, 0.0, 0.0};
    const int k = side ? c->b : c->a;
    const double sign = side ? -1.0 : 1.0;
    memset(out, 0, RB_PARTS * sizeof *out);
    if (k == RB_BODIES)
        return;
    for (int i = 0; i < 3; i++)
        make_row(all->root[k], sign, c->frame[i], c->arms[side].spin[i], out[i]);
    for (int i = 3; i < RB_PARTS; i++)
        make_row(all->root[k], sign, none, c->frame[i - 3], out[i]);
}

/* A body that a contact touches: none of its velocities has changed yet. */
static inline void touch_body(const struct scene *s, struct flights *all, unsigned char *known,
                              int k)
{
    if (k == RB_BODIES || known[k])
        return;
    known[k] = 1;
    root_of(&s->body[k], all->root[k]);
    memset(&all->body[k], 0, sizeof all->body[k]);
    all->touched[all->bodies++] = k;
}

/* A contact as its sweeps start from the velocities of now. */
static inline void start_light(const struct scene *s, const struct flights *all,
                               const struct touch *c, struct light *out)
{
    double w[3];
    memset(out, 0, sizeof *out);
    out->a = c->a;
    out->b = c->b;
    make_rows_of(all, c, 0, out->of_a);
    make_rows_of(all, c, 1, out->of_b);
    memcpy(out->impulse, c->impulse, sizeof out->impulse);
    slip(s, c, w);
    out->inertia = c->inertia;
    out->rate = c->rate;
    out->across_it = c->across_it;
    out->mu = c->mu;
    out->floor = c->floor;
    out->least = c->least - w[0];
    for (int i = 0; i < 2; i++)
        out->shift[i] = c->shift[1 + i] + w[1 + i];
    for (int i = 0; i < 3; i++)
        out->mass[i] = c->mass[3 * i];
    if (RB_PARTS > 3) {
        turning_at(s, c, out->spin);
        out->twist = c->twist;
        out->roll = c->roll;
        out->torsional = c->torsional;
        out->rolling = c->rolling;
        out->lever = c->lever;
    }
}

static inline void start_flights(const struct scene *s, const struct solution *from,
                                 struct flights *all)
{
    unsigned char known[RB_BODIES + 1];
    all->bodies = 0;
    all->count = from->list;
    memset(&all->body[RB_BODIES], 0, sizeof all->body[RB_BODIES]);
    for (int k = 0; k < all->count; k++)
        known[from->touch[from->listed[k]].a] = known[from->touch[from->listed[k]].b] = 0;
    for (int k = 0; k < all->count; k++) {
        const struct touch *c = &from->touch[from->listed[k]];
        touch_body(s, all, known, c->a);
        touch_body(s, all, known, c->b);
        start_light(s, all, c, &all->light[k]);
    }
}

/* A row times the changes of both bodies. */
static inline double row_speed(const two *a, const two *b, const two *x, const two *y)
{
    two sum = times_two(a[0], x[0]);
    sum = plus_two(sum, times_two(a[1], x[1]));
    sum = plus_two(sum, times_two(a[2], x[2]));
    sum = plus_two(sum, times_two(b[0], y[0]));
    sum = plus_two(sum, times_two(b[1], y[1]));
    sum = plus_two(sum, times_two(b[2], y[2]));
    return first_of(sum) + second_of(sum);
}

/* A body with three impulses along rows. */
static inline void push_flight(const two (*row)[3], two p, two q, two r, two *y)
{
    for (int i = 0; i < 3; i++) {
        const two change = plus_two(plus_two(times_two(row[0][i], p), times_two(row[1][i], q)),
                                    times_two(row[2][i], r));
        y[i] = plus_two(y[i], change);
    }
}

/* Both bodies of a contact. */
static inline void push_flights(struct flights *all, const struct light *c, int from)
{
    const two p = both(c->step[from]), q = both(c->step[from + 1]), r = both(c->step[from + 2]);
    push_flight(c->of_a + from, p, q, r, all->body[c->a].y);
    if (c->b < RB_BODIES)
        push_flight(c->of_b + from, p, q, r, all->body[c->b].y);
}

/* The impulses of a contact on from where the last sweep has come. */
static inline void carry_light(struct light *c, double kept)
{
    for (int i = 0; i < RB_PARTS; i++) {
        const double change = kept * c->way[i];
        c->way[i] = change + c->step[i];
        c->impulse[i] += change;
    }
}

/* Whether a contact has no impulses. */
static inline int is_loose(const struct light *c)
{
    return c->impulse[0] == 0.0 && c->impulse[1] == 0.0 && c->impulse[2] == 0.0;
}

/* Of what counts as enough, below which changes are of no account to what follows; and the least of
   what friction is behind. */
static const double RB_CIRCLING = 100.0, RB_LEAST_FOLLOWING = 0.125;

/* Where sweeps go round in a circle, as they may where friction changes the velocity along the
   normal by as much as the normal impulse does, the most that friction can be follows that impulse
   slowly: with what it is held, sweeps lower a convex function, and come to an end. By half as much
   after so many sweeps as did not halve the changes, as long as these are much. */
static inline void follow_less(int sweeps, double enough, double residual, double *last,
                               double *following)
{
    if (sweeps % RB_PATIENT_SWEEPS > 0)
        return;
    if (residual > 0.5 * *last && residual > RB_CIRCLING * enough)
        *following = fmax(RB_LEAST_FOLLOWING, 0.5 * *following);
    *last = residual;
}

/* `solve_contact` of a contact of free bodies: changes, or by how much friction is out of what the
   normal impulse allows. */
static inline double solve_light(struct flights *all, struct light *c, double following)
{
    const two *x = all->body[c->a].y, *y = all->body[c->b].y;
    double next[3];
    const double u = row_speed(c->of_a[0], c->of_b[0], x, y);
    next[0] = more_of(c->impulse[0] - (u - c->least) * c->inertia, c->floor);
    if (!(next[0] > 0.0) && is_loose(c)) {
        memset(c->step, 0, sizeof c->step);
        c->limit *= 1.0 - following;
        return c->limit * c->across_it;
    }
    const double v = row_speed(c->of_a[1], c->of_b[1], x, y),
                 w = row_speed(c->of_a[2], c->of_b[2], x, y);
    c->step[0] = next[0] - c->impulse[0];
    next[1] = c->impulse[1] - c->rate * (v + c->shift[0] + c->mass[1] * c->step[0]);
    next[2] = c->impulse[2] - c->rate * (w + c->shift[1] + c->mass[2] * c->step[0]);
    c->limit = (1.0 - following) * c->limit + following * (c->mu * next[0]);
    const double squared = next[1] * next[1] + next[2] * next[2];
    if (squared > c->limit * c->limit) {
        const double part = c->limit / sqrt(squared);
        next[1] *= part;
        next[2] *= part;
    }
    for (int i = 0; i < 3; i++) {
        c->step[i] = next[i] - c->impulse[i];
        c->impulse[i] = next[i];
    }
    push_flights(all, c, 0);
    const double out = fabs(c->mu * next[0] - c->limit);
    return more_of(fabs(c->step[0]) * c->mass[0],
                   more_of(out, more_of(fabs(c->step[1]), fabs(c->step[2]))) * c->across_it);
}

/* `solve_turning` of the same. */
static inline double solve_spin(struct flights *all, struct light *c)
{
    const two *x = all->body[c->a].y, *y = all->body[c->b].y;
    double next[3], turned = 0.0;
    const double rate[3] = {c->twist, c->roll, c->roll};
    const double most = c->torsional * c->impulse[0], limit = c->rolling * c->impulse[0];
    for (int i = 0; i < 3; i++)
        next[i] = c->impulse[RB_PARTS - 3 + i] -
                  rate[i] * (c->spin[i] +
                             row_speed(c->of_a[RB_PARTS - 3 + i], c->of_b[RB_PARTS - 3 + i], x, y));
    next[0] = limited(next[0], -most, most);
    const double length = sqrt(next[1] * next[1] + next[2] * next[2]);
    for (int i = 1; i < 3 && length > limit; i++)
        next[i] *= limit / length;
    for (int i = 0; i < 3; i++) {
        double *step = &c->step[RB_PARTS - 3 + i];
        *step = next[i] - c->impulse[RB_PARTS - 3 + i];
        turned = rate[i] > 0.0 ? more_of(turned, fabs(*step) / rate[i]) : turned;
        c->impulse[RB_PARTS - 3 + i] = next[i];
    }
    push_flights(all, c, RB_PARTS - 3);
    return turned * c->lever;
}

/* One sweep, on from the one before with what is kept of its way. Returns the largest change of a
   velocity, and how far it has come, squared. */
static inline double sweep_lights(struct flights *all, double kept, double *squared)
{
    double most = 0.0, sum = 0.0;
    for (int k = 0; k < all->count; k++) {
        struct light *c = &all->light[k];
        carry_light(c, kept);
        most = more_of(most, solve_light(all, c, all->following));
        if (RB_PARTS > 3 && (c->torsional > 0.0 || c->rolling > 0.0))
            most = more_of(most, solve_spin(all, c));
        for (int i = 0; i < RB_PARTS; i++)
            sum += c->step[i] * c->step[i];
    }
    *squared = sum;
    return most;
}

/* The bodies on along the way that sweeps have brought them. */
static inline void carry_flights(struct flights *all, double kept)
{
    for (int k = 0; k < all->bodies; k++) {
        struct flight *one = &all->body[all->touched[k]];
        for (int i = 0; i < 3; i++) {
            const two change = times_two(both(kept), one->way[i]);
            one->way[i] = plus_two(change, minus_two(one->y[i], one->last[i]));
            one->last[i] = one->y[i] = plus_two(one->y[i], change);
        }
    }
}

static inline void parts_of(const two *x, double *out)
{
    for (int i = 0; i < 3; i++) {
        out[2 * i] = first_of(x[i]);
        out[2 * i + 1] = second_of(x[i]);
    }
}

/* Impulses and velocities as the sweeps leave them. */
static inline void end_flights(struct scene *s, const struct flights *all, struct solution *to)
{
    for (int k = 0; k < all->count; k++)
        memcpy(to->touch[to->listed[k]].impulse, all->light[k].impulse,
               sizeof all->light[k].impulse);
    for (int k = 0; k < all->bodies; k++) {
        struct body *body = &s->body[all->touched[k]];
        const double *root = all->root[all->touched[k]];
        double y[6];
        parts_of(all->body[all->touched[k]].y, y);
        along(body->v, root[0], y, body->v);
        body->w[0] += root[1] * y[3];
        body->w[1] += root[2] * y[3] + root[3] * y[4];
        body->w[2] += root[4] * y[3] + root[5] * y[4] + root[6] * y[5];
    }
}

#endif
