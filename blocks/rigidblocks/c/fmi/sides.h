/* The laws that hold between two events of model exchange.

   Each event indicator is the margin of a law. The law's side, 1 where the margin is positive and
   else -1, is held until the next event, so that a host's solver sees smooth rates. An indicator is
   its margin, shifted by a little towards the side: it is never zero after an event, and has
   changed its sign only where the margin is beyond zero by so much. */

#ifndef RB_SIDES_H
#define RB_SIDES_H

#include "events.h"
#include "step.h"

#define RB_SHIFT 1e-12 /* of margins, which are of the order of 1 */

enum { RB_SIDES = RB_INDICATORS + 1 }; /* one more */

#if RB_INDICATORS > 0

enum { RB_BOTH = RB_SIZE + RB_INDICATORS };

/* The memory, and behind it the sides. */
static inline void put_beside(double in[RB_BOTH], const double *m, const double *side)
{
    store(in, m, RB_SIZE);
    store(in + RB_SIZE, side, RB_INDICATORS);
}

/* The rates, RB_NX. */
static inline void rates_on(const double *m, const double *side, double *rates)
{
    double in[RB_BOTH];
    put_beside(in, m, side);
    held_rates(in, rates);
}

/* The computed outputs, RB_NY. */
static inline void outputs_on(const double *m, const double *side, double *y)
{
    double in[RB_BOTH];
    put_beside(in, m, side);
    held_outputs(in, y);
}

/* The event indicators, shifted by so much. */
static inline void indicators_on(const double *m, const double *side, double shift, double *z)
{
    double in[RB_BOTH];
    put_beside(in, m, side);
    indicators(in, z);
    for (int i = 0; i < RB_INDICATORS; i++)
        z[i] += shift * side[i];
}

/* Brings every side to where its indicator is, and returns whether one has changed. A margin may
   read the sides of laws before its own, so that after each round one more of them is final. */
static inline int change_sides(const double *m, double *side, double shift)
{
    int any = 0, changed = 1;
    for (int round = 0; changed && round <= RB_INDICATORS; round++) {
        double z[RB_INDICATORS];
        changed = 0;
        indicators_on(m, side, shift, z);
        for (int i = 0; i < RB_INDICATORS; i++) {
            const double now = z[i] > 0.0 ? 1.0 : -1.0;
            changed |= (now > 0.0) != (side[i] > 0.0);
            side[i] = now;
        }
        any |= changed;
    }
    return any;
}

#else

static inline void rates_on(const double *m, const double *side, double *rates)
{
    (void)side;
    derivative(m, rates);
}

static inline void outputs_on(const double *m, const double *side, double *y)
{
    (void)side;
    output(m, y);
}

static inline void indicators_on(const double *m, const double *side, double shift, double *z)
{
    (void)m, (void)side, (void)shift, (void)z;
}

static inline int change_sides(const double *m, double *side, double shift)
{
    (void)m, (void)side, (void)shift;
    return 0;
}

#endif

/* The sides on which everything is at the start of a run, or at any other place. */
static inline void find_sides(const double *m, double *side)
{
    for (int i = 0; i < RB_SIDES; i++)
        side[i] = -1.0;
    change_sides(m, side, 0.0);
}

#endif
