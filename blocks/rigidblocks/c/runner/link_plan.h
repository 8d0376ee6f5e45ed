/* What a link is, and what it counts. */

#ifndef RB_LINK_PLAN_H
#define RB_LINK_PLAN_H

#include <stdint.h>

#include "frame.h"

/* The messages of a link by CAN, and their signals: first those that are sent. */
typedef struct {
    int n_sent, n_received;
    const FrameMessage *sent, *received;
    const FrameSignal *sent_signals, *received_signals;
} CanPlan;

/* The kinds of links. */
enum { LINK_UDP, LINK_SHARED, LINK_CAN };

/* What a link is, known when the program is made: where its values are in the memory of the
   system. */
typedef struct {
    const char *name;
    int kind;
    /* addresses as 127.0.0.1:5005; the first may be a shared memory, or a CAN interface */
    const char *peer, *listen;
    /* ns without a packet after which the inputs are the safe ones */
    int64_t timeout;
    /* whether each step waits, no longer than that, for the answer to its own packet */
    int lock_step;
    int n_sent, n_received, n_targets;
    const int *sent, *targets, *values; /* targets[k] gets the received value number values[k] */
    const double *safe;
    const double *open; /* what is sent where sent[k] is negative, because nothing is connected */
    const CanPlan *can; /* NULL for other kinds */
} LinkPlan;

typedef struct {
    uint64_t sent, unsent, received, lost, late, doubled, foreign, version, size, not_finite,
        restarts, safe_steps, watchdog;
    uint64_t checksum, beyond; /* of CAN alone */
} LinkCounts;

/* What is sent for the k-th value. */
static inline double sent_value(const LinkPlan *plan, int k, const double *m)
{
    return plan->sent[k] < 0 ? plan->open[k] : m[plan->sent[k]];
}

static inline void set_inputs(const LinkPlan *plan, const double *values, double *m)
{
    for (int k = 0; k < plan->n_targets; k++)
        m[plan->targets[k]] = values[plan->values[k]];
}

#endif
