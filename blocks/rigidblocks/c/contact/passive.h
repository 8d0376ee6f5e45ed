/* Where the sweeps come to no end, as where friction jams, impulses may bring energy: they are then made smaller, all by the same
   part, which keeps them in their cones, until they bring none. */

#ifndef RB_PASSIVE_H
#define RB_PASSIVE_H

#include "strike.h"

/* The velocities that bodies and trees would have without contact. */
struct freely {
    double v[RB_BODIES + 1][3], w[RB_BODIES + 1][3], z[RB_DOFS + 1];
};

static inline void note_velocities(const struct scene *s, struct freely *before)
{
    memcpy(before->z, s->z, sizeof before->z);
    for (int k = 0; k <= RB_BODIES; k++) {
        memcpy(before->v[k], s->body[k].v, sizeof before->v[k]);
        memcpy(before->w[k], s->body[k].w, sizeof before->w[k]);
    }
}

/* Velocities a part of the way from what they were to what they are. */
static inline void go_back(struct scene *s, const struct freely *before, double part)
{
    for (int d = 0; d < RB_DOFS; d++)
        s->z[d] = before->z[d] + part * (s->z[d] - before->z[d]);
    for (int k = 0; k < RB_BODIES; k++) {
        for (int i = 0; i < 3; i++) {
            s->body[k].v[i] = before->v[k][i] + part * (s->body[k].v[i] - before->v[k][i]);
            s->body[k].w[i] = before->w[k][i] + part * (s->body[k].w[i] - before->w[k][i]);
        }
    }
}

/* The sum of impulses times velocities, as they are now. */
static inline double power_of(const struct scene *s, const struct solution *all)
{
    double sum = 0.0, w[3];
    for (int k = 0; k < all->count; k++) {
        const struct touch *c = &all->touch[k];
        slip(s, c, w);
        sum += dot(c->impulse, w);
        if (RB_PARTS > 3) {
            turning_at(s, c, w);
            for (int i = 3; i < RB_PARTS; i++)
                sum += c->impulse[i] * w[i - 3];
        }
    }
    for (int k = 0; k < all->reached; k++)
        sum += all->stop[k].impulse * stop_speed(&all->stop[k], s->z);
    return sum;
}

/* The same, of the velocities that contacts and stops ask for, as far as these are given to bodies. */
static inline double power_asked(const struct solution *all)
{
    double sum = 0.0;
    for (int k = 0; k < all->count; k++)
        sum += all->touch[k].impulse[0] * fmax(0.0, all->touch[k].least);
    for (int k = 0; k < all->reached; k++)
        sum += fmax(0.0, fmax(all->stop[k].impulse * all->stop[k].low, all->stop[k].impulse * all->stop[k].high));
    return sum;
}

/* The energy that a part t of the impulses brings is t p.u0 + t^2 / 2 p.(u1 - u0): where all of them bring more than is asked
   for, that part which takes most is left. */
static inline void bring_no_energy(struct scene *s, struct solution *all, const struct freely *before)
{
    struct freely after;
    const double now = power_of(s, all), asked = power_asked(all);
    note_velocities(s, &after);
    go_back(s, before, 0.0);
    const double then = power_of(s, all), square = now - then;
    double part = 1.0;
    if (0.5 * (now + then) > asked)
        part = square > 0.0 ? limited((asked - then) / square, 0.0, 1.0) : 0.0;
    go_back(s, &after, 1.0 - part);
    for (int k = 0; k < all->count; k++)
        for (int i = 0; i < RB_PARTS; i++)
            all->touch[k].impulse[i] *= part;
    for (int k = 0; k < all->reached; k++)
        all->stop[k].impulse *= part;
}

#endif
