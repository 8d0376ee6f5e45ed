/* Impacts with restitution, one after the other within a step: what a strike drives against a third
   body strikes that one in the next round, as in Newton's cradle, and each strike of e = 1 without
   friction keeps the energy. */

#ifndef RB_STRIKE_H
#define RB_STRIKE_H

#include "passive.h"

/* rounds of strikes in a step, and how often one may be taken back in part */
enum { RB_STRIKES = 64, RB_LESS = 3 };

/* of the tolerance: what a strike is out by would stay as energy */
static const double RB_PRECISE = 1e-3;

/* Lists the contacts that close within the step with the velocities as they are, of what comes near
   faster than impulses are known for: with e times that velocity they go apart, or by Poisson's law come to rest
   first. What lies in contact is not among them: before the forces of the step act it has none. */
static inline void list_strikes(const struct scene *s, struct solution *all,
                                const struct accuracy *wanted)
{
    all->list = all->stops = all->sweeps = 0;
    for (int k = 0; k < all->count; k++) {
        struct touch *c = &all->touch[k];
        double w[3];
        if (!(c->e > 0.0))
            continue;
        slip(s, c, w);
        for (int i = 0; i < 3; i++)
            c->before[i] = w[i] + c->lead[i];
        const double fastest = more_of(s->body[c->a].fast, s->body[c->b].fast),
                     least = wanted->part * more_of(wanted->speed, fastest);
        if (!(c->e * c->before[0] < -least) ||
            !(c->gap + RB_SCENE_STEP * (w[0] + c->shift[0]) < 0.0))
            continue;
        c->least = more_of(c->resting, RB_POISSON ? 0.0 : -c->e * c->before[0]);
        memset(c->impulse, 0, sizeof c->impulse);
        all->listed[all->list++] = k;
    }
}

/* The work of the impulse of a contact over a round. */
static inline double work_of(const struct scene *s, const struct touch *c)
{
    double w[3], work = 0.0;
    slip(s, c, w);
    for (int i = 0; i < 3; i++)
        work += 0.5 * c->impulse[i] * (c->before[i] + w[i]);
    return work;
}

/* With Newton's restitution friction that turns a slip round may bring energy (Kane and Levinson
   1985): a contact that does bounces by so much less. Returns whether there are any. */
static inline int bounce_less(const struct scene *s, struct solution *all)
{
    int found = 0;
    for (int k = 0; k < all->list; k++) {
        struct touch *c = &all->touch[all->listed[k]];
        double w[3];
        const double work = work_of(s, c);
        if (!(c->least > c->resting) || !(c->impulse[0] > 0.0))
            continue;
        slip(s, c, w);
        if (!(work > 1e-9 * c->impulse[0] * fabs(c->before[0])))
            continue;
        c->least = fmax(c->resting, fmin(c->least, w[0]) - 2.0 * work / c->impulse[0]);
        found = 1;
    }
    return found;
}

/* The impulses of the strikes that are listed. */
static inline void find_strikes(struct scene *s, struct solution *all,
                                const struct accuracy *wanted)
{
    const struct accuracy precise = {wanted->speed, RB_PRECISE * wanted->part, 0.0};
    all->sweeps = 0;
    find_impulses(s, all, &precise, RB_SCENE_SWEEPS / 8);
    all->strike_sweeps += all->sweeps;
}

/* Newton's law: what comes near goes apart with e times the velocity. */
static inline void rebound(struct scene *s, struct solution *all, const struct accuracy *wanted)
{
    for (int less = 0; less <= RB_LESS; less++) {
        find_strikes(s, all, wanted);
        if (!bounce_less(s, all))
            break;
    }
}

/* Poisson's law: after the compression, in which nothing comes nearer, each contact takes e times
   its normal impulse again, but for what the forces of the step are in it, and more where it would
   not go apart otherwise. Friction has its limit in each of the two. */
static inline void compress_and_expand(struct scene *s, struct solution *all,
                                       const struct accuracy *wanted)
{
    find_strikes(s, all, wanted);
    for (int k = 0; k < all->list; k++) {
        struct touch *c = &all->touch[all->listed[k]];
        const double taken = more_of(c->impulse[0] - c->lead[0] * c->inertia, 0.0);
        const double again[RB_PARTS] = {c->floor = c->e * (c->impulse[0] > 0.0 ? taken : 0.0)};
        for (int i = 0; i < RB_PARTS; i++)
            c->compressed[RB_POISSON ? i : 0] = c->impulse[i];
        memcpy(c->impulse, again, sizeof again);
        apply(s, c, again);
    }
    find_strikes(s, all, wanted);
    for (int k = 0; k < all->list; k++) {
        struct touch *c = &all->touch[all->listed[k]];
        for (int i = 0; i < RB_PARTS; i++)
            c->impulse[i] += c->compressed[RB_POISSON ? i : 0];
        c->floor = 0.0;
    }
}

/* What touches an island of which less than all impulses are left bounces no more in this step. */
static inline void bounce_no_more(struct solution *all, struct islands *found)
{
    static const double all_but_all = 0.999;
    for (int k = 0; k < all->count; k++) {
        struct touch *c = &all->touch[k];
        const int a = head_of(c->a), b = head_of(c->b);
        if ((a >= 0 && found->part[island_of(found, a)] < all_but_all) ||
            (b >= 0 && found->part[island_of(found, b)] < all_but_all))
            c->e = 0.0;
    }
}

/* All strikes of a step. Their impulses are kept by themselves: contact starts from none where
   there was one. Where those of a round bring energy still, as where friction jams a body in a
   corner and no sweeps come to an end, nothing that touches there bounces after it. Returns how
   many rounds there were. */
static inline int strike(struct scene *s, struct solution *all, const struct stage *freely,
                         const struct accuracy *wanted)
{
    struct stage start;
    struct islands found;
    int round = 0;
    for (; round < RB_STRIKES; round++) {
        list_strikes(s, all, wanted);
        if (all->list == 0)
            break;
        note_velocities(s, &start);
        if (RB_POISSON)
            compress_and_expand(s, all, wanted);
        else
            rebound(s, all, wanted);
        const double left = bring_no_energy(s, all, freely, &start, &found);
        for (int k = 0; k < all->list; k++) {
            struct touch *c = &all->touch[all->listed[k]];
            for (int i = 0; i < RB_PARTS; i++)
                c->struck[i] += c->impulse[i];
            memset(c->impulse, 0, sizeof c->impulse);
            c->least = c->resting;
        }
        if (left < 1.0)
            bounce_no_more(all, &found);
    }
    return round;
}

#endif
