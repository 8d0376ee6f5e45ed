/* Where a step goes from one law to another: what block/margins.py does, by the same arithmetic in
   the same order. */

#ifndef RB_MARGINS_H
#define RB_MARGINS_H

#include "block.h"

#ifdef RB_MARGINS

#define RB_HALVINGS 40 /* of the part of a step until a margin is zero */
#define RB_BEFORE 1e-4 /* of the way to a change: so far before it a step ends */
#define RB_DIPS \
    6 /* times that an inner step is shortened to see whether a margin comes to zero within it */

/* The margins at a place, and their rates times the step. */
typedef struct {
    double value[RB_MARGINS], change[RB_MARGINS];
} Margins;

/* What is done about changes of sign on the way through a communication step: a step in which a
   margin changes its sign is taken only when the change of the rates in it is within the tolerance.
   Until then it is shortened to end before that. */
typedef struct {
    double resumed;  /* the length from before, 0 where there is nothing to approach */
    double expected; /* the length of the inner step to the change, if it is known */
    int dips;
    int crosses;
} Approach;

/* An inner step begins. */
static inline void begin_approach(Approach *way)
{
    way->expected = 0.0;
    way->dips = way->crosses = 0;
}

static inline double cubic_value(double s, double g0, double d0, double g1, double d1)
{
    const double a = d0 + d1 - 2.0 * (g1 - g0), b = 3.0 * (g1 - g0) - 2.0 * d0 - d1;
    return g0 + s * (d0 + s * (b + s * a));
}

/* Where a cubic that is positive at 0 and not at 1 is zero. */
static inline double cubic_root(double g0, double d0, double g1, double d1)
{
    double low = 0.0, high = 1.0;
    for (int i = 0; i < RB_HALVINGS; i++) {
        const double middle = 0.5 * (low + high);
        if (cubic_value(middle, g0, d0, g1, d1) > 0.0)
            low = middle;
        else
            high = middle;
    }
    return high;
}

/* Where a margin that is positive at both ends may be least, if it may be negative there; else 1.
   That is where the tangents meet: a convex one, as the distance from a convex body along a
   straight way, is nowhere less. */
static inline double tangents_meet(double g0, double d0, double g1, double d1)
{
    if (!(d0 < 0.0 && 0.0 < d1))
        return 1.0;
    const double s = (g1 - d1 - g0) / (d0 - d1);
    return 0.0 < s && s < 1.0 && g0 + s * d0 < 0.0 ? s : 1.0;
}

/* The part of a step until the first margin changes its sign, or may come to zero and back; 1 where
   none does. `known` is 1 where the sign is another at the end. */
static inline double first_change(const Margins *start, const Margins *end, int *known)
{
    double part = 1.0;
    *known = 0;
    for (int i = 0; i < RB_MARGINS; i++) {
        const double sign = start->value[i] > 0.0 ? 1.0 : -1.0;
        const double g0 = sign * start->value[i], d0 = sign * start->change[i];
        const double g1 = sign * end->value[i], d1 = sign * end->change[i];
        if ((start->value[i] > 0.0) != (end->value[i] > 0.0)) {
            const double one = cubic_root(g0, d0, g1, d1);
            if (!*known || one < part)
                part = one;
            *known = 1;
        } else if (!*known) {
            const double one = tangents_meet(g0, d0, g1, d1);
            if (one < part)
                part = one;
        }
    }
    return part;
}

/* The length to try instead of h, 0 where this step may be taken; `error` is the change of the
   rates over it. */
static inline double shorter_step(Approach *way, double h, const Margins *start, const Margins *end,
                                  double error)
{
    const double part = first_change(start, end, &way->crosses);
    if (way->crosses) {
        way->expected = part * h;
        return error <= 1.0 ? 0.0 : way->expected * (1.0 - RB_BEFORE);
    }
    if (part == 1.0 || way->dips == RB_DIPS)
        return 0.0;
    way->dips++;
    return part * h;
}

/* The length of the step after one of length h, instead of the one that its error says. */
static inline double length_after(Approach *way, double h, double length)
{
    if (way->crosses && way->resumed > 0.0) {
        length = way->resumed > length ? way->resumed : length;
        way->resumed = 0.0;
    } else if (way->expected > h && 2.0 * (way->expected - h) < length)
        length = 2.0 * (way->expected - h);
    return length;
}

#endif

#endif
