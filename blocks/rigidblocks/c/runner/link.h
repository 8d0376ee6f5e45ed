/* Link by UDP, shared memory or CAN. It sends signals of the system and receives its inputs. After
   a timeout, the inputs get their safe values. */

#ifndef RB_LINK_H
#define RB_LINK_H

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE /* for Linux-specific calls; NOLINT(bugprone-reserved-identifier) */
#endif

#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>

#include "can.h"
#include "shared_memory.h"

/* Kinds of links. */
enum { LINK_UDP, LINK_SHARED, LINK_CAN };

/* Configuration of a link, fixed when the program is built. It includes the positions of the values
   in the memory of the system. */
typedef struct {
    const char *name;
    int kind;
    /* addresses such as 127.0.0.1:5005; `peer` may be a shared memory or a CAN interface */
    const char *peer, *listen;
    /* [ns] timeout after which inputs get their safe values */
    int64_t timeout;
    /* 1: each step waits for the answer to its packet, at most for the timeout */
    int lock_step;
    int n_sent, n_received, n_targets;
    const int *sent, *targets, *values; /* targets[k] receives the value with index values[k] */
    const double *safe;
    const double *open; /* value to send if no signal is connected (sent[k] is negative) */
    const CanPlan *can; /* only for CAN */
} LinkPlan;

/* Counters for the report. */
typedef struct {
    uint64_t sent, unsent, received, lost, late, doubled, foreign, version, size, not_finite,
        restarts, safe_steps, watchdog;
    uint64_t checksum, beyond; /* only for CAN */
} LinkCounts;

/* State of a link. */
typedef struct {
    const LinkPlan *plan;
    int socket, is_safe;
    struct sockaddr_in peer;
    RbShared shared;
    struct Can *can;         /* only for CAN */
    uint32_t sequence, last; /* sequence numbers of the last packets sent and received */
    uint32_t answered;       /* own sequence number that the last received packet answers */
    int64_t heard;           /* [ns] time of the last received packet */
    double *values;
    uint8_t *bytes;
    LinkCounts counts;
} Link;

/* Return the time [ns] of the monotonic clock. */
int64_t rb_clock_nanoseconds(void);

/* Parse an internet address such as 127.0.0.1:5005. Returns 0, or -1 if the text is not an
   address. */
int rb_parse_address(const char *text, struct sockaddr_in *address);

/* Return the k-th value to send from the memory of the system. */
double rb_sent_value(const LinkPlan *plan, int k, const double *m);

/* Set the inputs of the system to received or safe values. */
void rb_set_inputs(const LinkPlan *plan, const double *values, double *m);

/* Open a link. Prints a message and returns -1 on failure. */
int rb_link_open(Link *link, const LinkPlan *plan);

/* Send the signals at t and receive. In lock-step, wait for the answer. */
void rb_link_exchange(Link *link, double *m, double t);

/* Write the counters of a link to the report. */
void rb_link_report(FILE *file, const Link *link, int is_last);

void rb_link_close(Link *link);

#endif
