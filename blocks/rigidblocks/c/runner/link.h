/* A link by UDP, shared memory or CAN: signals of the system go out, inputs of it come in, and stay
   safe when nothing comes. */

#ifndef RB_LINK_H
#define RB_LINK_H

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE /* for Linux's own calls; NOLINT(bugprone-reserved-identifier) */
#endif

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "address.h"
#include "can.h"
#include "clock.h"
#include "link_plan.h"
#include "packet.h"
#include "shared.h"

enum { MOST_VALUES = 8000, MOST_BYTES = RB_PACKET_HEADER + 8 * MOST_VALUES };

typedef struct {
    const LinkPlan *plan;
    int socket, is_safe;
    struct sockaddr_in peer;
    RbShared shared;
    Can can;
    uint32_t sequence, last; /* of the packets sent, and of the last one received */
    uint32_t answered;       /* which of ours that one answers */
    int64_t heard;           /* when that was */
    double *values;
    uint8_t *bytes;
    LinkCounts counts;
} Link;

/* Opens the socket of a link; -1, with a message, where that fails. */
static inline int open_socket(Link *link)
{
    const LinkPlan *plan = link->plan;
    struct sockaddr_in own;
    if (parse_address(plan->peer, &link->peer) != 0 || parse_address(plan->listen, &own) != 0) {
        (void)fprintf(stderr, "link '%s': %s and %s must be addresses such as 127.0.0.1:5005\n",
                      plan->name, plan->peer, plan->listen);
        return -1;
    }
    link->socket = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (link->socket < 0 || bind(link->socket, (struct sockaddr *)&own, sizeof own) != 0) {
        (void)fprintf(stderr, "link '%s' cannot listen on %s: %s\n", plan->name, plan->listen,
                      strerror(errno));
        return -1;
    }
    return 0;
}

static inline int open_shared(Link *link)
{
    const LinkPlan *plan = link->plan;
    const size_t sent = RB_PACKET_HEADER + 8 * (size_t)plan->n_sent;
    if (rb_shared_make(&link->shared, plan->peer, sent,
                       RB_PACKET_HEADER + 8 * (size_t)plan->n_received) == 0)
        return 0;
    (void)fprintf(stderr, "link '%s' has no shared memory '%s': %s\n", plan->name, plan->peer,
                  errno == EWOULDBLOCK ? "another simulation has it" : strerror(errno));
    return -1;
}

static inline int open_link(Link *link, const LinkPlan *plan)
{
    memset(link, 0, sizeof *link);
    link->plan = plan;
    link->values = malloc(MOST_VALUES * sizeof *link->values);
    link->bytes = malloc(MOST_BYTES + 1);
    link->heard = now();
    if (!link->values || !link->bytes)
        return -1;
    if (plan->kind == LINK_CAN)
        return open_can(&link->can, plan);
    return plan->kind == LINK_SHARED ? open_shared(link) : open_socket(link);
}

/* Whether a packet of the link's bytes went out. */
static inline int send_bytes(Link *link, size_t size)
{
    const struct sockaddr *peer = (const struct sockaddr *)&link->peer;
    if (link->plan->kind == LINK_SHARED)
        return rb_shared_write(&link->shared, link->bytes, size) == 0;
    return sendto(link->socket, link->bytes, size, 0, peer, sizeof link->peer) == (ssize_t)size;
}

/* The size of the next packet that has come, in the link's bytes; -1 where there is none. */
static inline ptrdiff_t take_bytes(Link *link)
{
    if (link->plan->kind == LINK_SHARED)
        return rb_shared_read(&link->shared, link->bytes, MOST_BYTES + 1);
    return recv(link->socket, link->bytes, MOST_BYTES + 1, 0);
}

/* Waits for a packet since `began`, for no longer than the time limit. */
static inline void wait_for_bytes(const Link *link, int64_t began)
{
    const int64_t waited = now() - began;
    if (link->plan->kind == LINK_UDP) {
        struct pollfd ready = {link->socket, POLLIN, 0};
        (void)poll(&ready, 1, (int)((link->plan->timeout - waited) / 1000000) + 1);
    } else if (waited > SPIN) { /* before that looking again is fastest */
        const struct timespec pause = {0, SPIN / 4};
        (void)nanosleep(&pause, NULL);
    }
}

static inline void close_link(Link *link)
{
    if (link->socket > 0)
        (void)close(link->socket);
    rb_shared_close(&link->shared);
    close_can(&link->can);
    free(link->values);
    free(link->bytes);
}

/* One that is accepted sets the inputs. A partner that was silent for the time limit may begin
   anew. */
static inline void accept_packet(Link *link, const RbPacket *packet, double *m)
{
    const LinkPlan *plan = link->plan;
    const uint32_t ahead = packet->sequence - link->last;
    if (link->last && ahead == 0) {
        link->counts.doubled++;
        return;
    }
    if (link->last && ahead > UINT32_MAX / 2) {
        if (now() - link->heard <= plan->timeout) {
            link->counts.late++;
            return;
        }
        link->counts.restarts++;
    } else if (link->last)
        link->counts.lost += ahead - 1;
    link->last = packet->sequence;
    link->answered = packet->echo;
    link->heard = now();
    link->is_safe = 0;
    link->counts.received++;
    set_inputs(plan, link->values, m);
}

/* All packets that are there. */
static inline void receive(Link *link, double *m)
{
    ptrdiff_t size;
    while ((size = take_bytes(link)) >= 0) {
        RbPacket packet;
        switch (rb_packet_read(link->bytes, (size_t)size, &packet, link->values,
                               link->plan->n_received)) {
        case RB_PACKET_OK: accept_packet(link, &packet, m); break;
        case RB_PACKET_VERSION_DIFFERS: link->counts.version++; break;
        case RB_PACKET_WRONG_SIZE: link->counts.size++; break;
        case RB_PACKET_NOT_FINITE: link->counts.not_finite++; break;
        default: link->counts.foreign++; break;
        }
    }
}

/* Sends the signals at t and takes what has come; in lock-step what answers them. */
static inline void exchange_packets(Link *link, double *m, double t)
{
    const LinkPlan *plan = link->plan;
    if (++link->sequence == 0)
        link->sequence = 1;
    const RbPacket packet = {link->sequence, link->last, t};
    for (int k = 0; k < plan->n_sent; k++)
        link->values[k] = sent_value(plan, k, m);
    const size_t size = rb_packet_write(link->bytes, &packet, link->values, plan->n_sent);
    const int64_t began = now();
    if (send_bytes(link, size))
        link->counts.sent++;
    else
        link->counts.unsent++;
    receive(link, m);
    while (plan->lock_step && link->answered != link->sequence && now() - began < plan->timeout) {
        wait_for_bytes(link, began);
        receive(link, m);
    }
    if (now() - link->heard > plan->timeout ||
        (plan->lock_step && link->answered != link->sequence)) {
        link->counts.watchdog += !link->is_safe;
        link->is_safe = 1;
    }
    if (link->is_safe || !link->last) {
        link->counts.safe_steps++;
        set_inputs(plan, plan->safe, m);
    }
}

static inline void exchange(Link *link, double *m, double t)
{
    if (link->plan->kind == LINK_CAN)
        exchange_frames(&link->can, link->plan, &link->counts, m, t);
    else
        exchange_packets(link, m, t);
}

static inline void report_link(FILE *file, const Link *link, int is_last)
{
    const LinkCounts *c = &link->counts;
    const struct {
        const char *name;
        uint64_t count;
    } rows[] = {{"sent", c->sent},
                {"unsent", c->unsent},
                {"received", c->received},
                {"lost", c->lost},
                {"late", c->late},
                {"doubled", c->doubled},
                {"foreign", c->foreign},
                {"of another version", c->version},
                {"of wrong size", c->size},
                {"not finite", c->not_finite},
                {"restarts of the partner", c->restarts},
                {"steps with safe values", c->safe_steps},
                {"watchdog events", c->watchdog},
                {"of wrong checksum", c->checksum}, /* of CAN alone */
                {"beyond bounds", c->beyond}};
    const int n = (int)(sizeof rows / sizeof rows[0]) - (link->plan->kind == LINK_CAN ? 0 : 2);
    (void)fprintf(file, "    \"%s\": {", link->plan->name);
    for (int k = 0; k < n; k++)
        (void)fprintf(file, "%s\"%s\": %llu", k ? ", " : "", rows[k].name,
                      (unsigned long long)rows[k].count);
    (void)fprintf(file, "}%s\n", is_last ? "" : ",");
}

#endif
