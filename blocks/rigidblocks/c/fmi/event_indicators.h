/* Event indicators of a block, and the sides of its switching functions between two events of model
   exchange.

     block_step.h  start and step of a block on its memory
     events.h      generated: switching functions, and the block with held sides

   Each event indicator belongs to a switching function. The side of a switching function is 1 if it
   is positive and else -1. The side is held until the next event, so that the host's solver gets
   smooth derivatives. The event indicator is the switching function plus RB_SHIFT times the side.
   It is therefore never zero after an event. It changes its sign only when the switching function
   is beyond zero by RB_SHIFT. */

#ifndef RB_EVENT_INDICATORS_H
#define RB_EVENT_INDICATORS_H

#include "events.h"
#include "block_step.h"

#define RB_SHIFT 1e-12 /* for switching functions of magnitude 1 */

enum { RB_SIDES = RB_INDICATORS + 1 }; /* array length, never 0 */

#if RB_INDICATORS > 0

enum { RB_BOTH = RB_SIZE + RB_INDICATORS };

/* Copy the memory and then the sides into one vector. */
static inline void copy_memory_and_sides(double in[RB_BOTH], const double *m, const double *side)
{
    store(in, m, RB_SIZE);
    store(in + RB_SIZE, side, RB_INDICATORS);
}

/* Compute the RB_NX state derivatives. Their long code is compiled once for all callers. */
RB_NOT_INLINED static void rates_on(const double *m, const double *side, double *rates)
{
    RB_WORKSPACE(RB_LARGE, double, in, RB_BOTH);
    copy_memory_and_sides(in, m, side);
    held_rates(in, rates);
}

/* Compute the RB_NY outputs. */
static inline void outputs_on(const double *m, const double *side, double *y)
{
    RB_WORKSPACE(RB_LARGE, double, in, RB_BOTH);
    copy_memory_and_sides(in, m, side);
    held_outputs(in, y);
}

/* Compute the switching functions plus `shift` times their sides. */
static inline void indicators_on(const double *m, const double *side, double shift, double *z)
{
    RB_WORKSPACE(RB_LARGE, double, in, RB_BOTH);
    copy_memory_and_sides(in, m, side);
    indicators(in, z);
    for (int i = 0; i < RB_INDICATORS; i++)
        z[i] += shift * side[i];
}

/* Update all sides from the switching functions. Returns 1 if any side has changed. A switching
   function may depend on the sides of earlier ones, so each round makes at least one more side
   final. */
static inline int change_sides(const double *m, double *side, double shift)
{
    int any = 0, changed = 1;
    for (int round = 0; changed && round <= RB_INDICATORS; round++) {
        RB_WORKSPACE(RB_LARGE, double, z, RB_INDICATORS);
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

RB_NOT_INLINED static void rates_on(const double *m, const double *side, double *rates)
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

/* Compute all sides at the start of a run, or for another state. */
static inline void find_sides(const double *m, double *side)
{
    for (int i = 0; i < RB_SIDES; i++)
        side[i] = -1.0;
    change_sides(m, side, 0.0);
}

#endif
