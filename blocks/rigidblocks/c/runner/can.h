/* A link by CAN: messages of signals go out and come in on a bus, by SocketCAN. */

#ifndef RB_CAN_H
#define RB_CAN_H

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE /* for Linux's own calls; NOLINT(bugprone-reserved-identifier) */
#endif

#include <errno.h>
#include <fcntl.h>
#include <linux/can.h>
#include <linux/can/raw.h>
#include <math.h>
#include <net/if.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clock.h"
#include "link_plan.h"

enum { CAN_MOST = 256 }; /* messages in a direction */

/* What is remembered of a message that is received. */
typedef struct {
    int64_t heard;
    uint64_t count; /* of its counter */
    int is_known, is_safe, is_new;
} CanHeard;

typedef struct {
    int socket;
    uint32_t sent[CAN_MOST]; /* how often */
    double cycle[CAN_MOST];  /* the last in which it was */
    CanHeard heard[CAN_MOST];
    /* those that were sent or are held, and those of the frame that is read */
    double *values, *fresh;
} Can;

static inline int bind_can(Can *can, const LinkPlan *plan)
{
    const CanPlan *of = plan->can;
    struct can_filter filters[CAN_MOST];
    struct sockaddr_can address;
    int flexible = 0;
    const int on = 1;
    for (int k = 0; k < of->n_sent; k++)
        flexible |= of->sent[k].is_fd;
    for (int k = 0; k < of->n_received; k++) {
        const canid_t id = of->received[k].id;
        flexible |= of->received[k].is_fd;
        filters[k].can_id = id;
        /* CAN_ERR_FLAG in a mask would ask for error frames, and for nothing else */
        filters[k].can_mask =
            CAN_EFF_FLAG | CAN_RTR_FLAG | ((id & CAN_EFF_FLAG) ? CAN_EFF_MASK : CAN_SFF_MASK);
    }
    memset(&address, 0, sizeof address);
    address.can_family = AF_CAN;
    address.can_ifindex = (int)if_nametoindex(plan->peer);
    can->socket = socket(PF_CAN, SOCK_RAW | SOCK_CLOEXEC, CAN_RAW);
    if (can->socket < 0 || address.can_ifindex == 0 ||
        setsockopt(can->socket, SOL_CAN_RAW, CAN_RAW_FILTER, filters,
                   (socklen_t)of->n_received * sizeof *filters) != 0)
        return -1;
    if (flexible && setsockopt(can->socket, SOL_CAN_RAW, CAN_RAW_FD_FRAMES, &on, sizeof on) != 0)
        return -1;
    return bind(can->socket, (struct sockaddr *)&address, sizeof address);
}

/* Opens the bus of a link, or takes the socket "fd:N" that the program was started with; -1, with a
   message, where that fails. */
static inline int open_can(Can *can, const LinkPlan *plan)
{
    const size_t n = (size_t)(plan->n_sent + plan->n_received) + 1;
    can->values = malloc(n * sizeof *can->values);
    can->fresh = malloc(n * sizeof *can->fresh);
    if (!can->values || !can->fresh)
        return -1;
    memcpy(can->values + plan->n_sent, plan->safe, (size_t)plan->n_received * sizeof *plan->safe);
    for (int k = 0; k < plan->can->n_sent; k++)
        can->cycle[k] = -1.0;
    for (int k = 0; k < plan->can->n_received; k++)
        can->heard[k].heard = now();
    if (strncmp(plan->peer, "fd:", 3) == 0)
        can->socket = fcntl((int)strtol(plan->peer + 3, NULL, 10), F_DUPFD_CLOEXEC, 3);
    if (strncmp(plan->peer, "fd:", 3) == 0 ? can->socket >= 0 : bind_can(can, plan) == 0)
        return 0;
    (void)fprintf(stderr, "link '%s' cannot open the CAN interface %s: %s\n", plan->name,
                  plan->peer, strerror(errno));
    return -1;
}

static inline void close_can(Can *can)
{
    if (can->socket > 0)
        (void)close(can->socket);
    free(can->values);
    free(can->fresh);
}

/* Sends a message; whether it went out. */
static inline int send_message(Can *can, const FrameMessage *message, uint32_t count,
                               const FrameSignal *signals, uint64_t *beyond)
{
    struct canfd_frame frame; /* that of CAN is its beginning */
    memset(&frame, 0, sizeof frame);
    frame.can_id = message->id;
    frame.len = (uint8_t)message->wire_size;
    if (message->is_fd)
        /* the last says that it is CAN FD */
        frame.flags = (uint8_t)((message->has_fast_bits ? CANFD_BRS : 0) | 0x04);
    frame_pack(message, signals, can->values, count, frame.data, beyond);
    const size_t size = message->is_fd ? CANFD_MTU : CAN_MTU;
    return send(can->socket, &frame, size, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)size;
}

/* The messages that are due at t: each, or those of a period once in it. */
static inline void send_due(Can *can, const LinkPlan *plan, LinkCounts *counts, const double *m,
                            double t)
{
    for (int k = 0; k < plan->n_sent; k++)
        can->values[k] = sent_value(plan, k, m);
    for (int k = 0; k < plan->can->n_sent; k++) {
        const FrameMessage *message = &plan->can->sent[k];
        const double cycle =
            message->period > 0.0 ? floor(t / message->period + 1e-6) : can->cycle[k] + 1.0;
        if (cycle == can->cycle[k])
            continue;
        can->cycle[k] = cycle;
        if (send_message(can, message, can->sent[k]++, plan->can->sent_signals, &counts->beyond))
            counts->sent++;
        else
            counts->unsent++;
    }
}

/* By how many the counter of a message is ahead of the last: 1 without one, after a silence, and
   where it is the next. */
static inline uint64_t frames_ahead(const FrameMessage *message, const CanHeard *heard,
                                    uint64_t count)
{
    if (!message->counter || !heard->is_known || heard->is_safe)
        return 1;
    return (count - heard->count) & (((uint64_t)1 << message->counter->length) - 1);
}

/* Takes the data of a message that is whole, within its bounds and new. */
static inline void accept_frame(Can *can, const LinkPlan *plan, LinkCounts *counts, int k,
                                const struct canfd_frame *frame)
{
    const FrameMessage *message = &plan->can->received[k];
    CanHeard *heard = &can->heard[k];
    int beyond = 0, finite = 1;
    if (frame->len < message->size) {
        counts->size++;
        return;
    }
    if (message->checksum &&
        frame_take(message->checksum, frame->data) != frame_checksum(message, frame->data)) {
        counts->checksum++;
        return;
    }
    frame_unpack(message, plan->can->received_signals, frame->data, can->fresh, &beyond);
    for (int i = message->first; i < message->first + message->n; i++)
        finite &= isfinite(can->fresh[i]) != 0;
    const uint64_t count = message->counter ? frame_take(message->counter, frame->data) : 0;
    const uint64_t ahead = frames_ahead(message, heard, count);
    if (!finite)
        counts->not_finite++;
    else if (beyond)
        counts->beyond++;
    else if (ahead == 0)
        counts->doubled++;
    else {
        counts->lost += ahead - 1;
        counts->received++;
        *heard = (CanHeard){now(), count, 1, 0, 1};
        memcpy(can->values + plan->n_sent + message->first, can->fresh + message->first,
               (size_t)message->n * sizeof(double));
    }
}

/* All frames that are there. */
static inline void receive_frames(Can *can, const LinkPlan *plan, LinkCounts *counts)
{
    struct canfd_frame frame;
    ssize_t size;
    while ((size = recv(can->socket, &frame, sizeof frame, MSG_DONTWAIT | MSG_TRUNC)) > 0) {
        int k = 0;
        const int is_frame = size == CAN_MTU || size == CANFD_MTU;
        while (is_frame && k < plan->can->n_received && plan->can->received[k].id != frame.can_id)
            k++;
        if (!is_frame || k == plan->can->n_received)
            counts->foreign++;
        else if (frame.len > size - 8) /* more than there is */
            counts->size++;
        else
            accept_frame(can, plan, counts, k, &frame);
    }
}

static inline int all_are_new(const Can *can, const CanPlan *plan)
{
    int k = 0;
    while (k < plan->n_received && can->heard[k].is_new)
        k++;
    return k == plan->n_received;
}

/* Falls back to the safe values of messages that have not come in time. */
static inline void watch_messages(Can *can, const LinkPlan *plan, LinkCounts *counts)
{
    int is_safe = 0;
    const int64_t time = now();
    for (int k = 0; k < plan->can->n_received; k++) {
        const FrameMessage *message = &plan->can->received[k];
        CanHeard *heard = &can->heard[k];
        if (time - heard->heard > message->timeout || (plan->lock_step && !heard->is_new)) {
            counts->watchdog += !heard->is_safe;
            heard->is_safe = 1;
        }
        if (heard->is_safe || !heard->is_known) {
            is_safe = 1;
            memcpy(can->values + plan->n_sent + message->first, plan->safe + message->first,
                   (size_t)message->n * sizeof(double));
        }
    }
    counts->safe_steps += (uint64_t)is_safe;
}

/* Sends the messages at t and takes what has come; in lock-step each of the received ones anew. */
static inline void exchange_frames(Can *can, const LinkPlan *plan, LinkCounts *counts, double *m,
                                   double t)
{
    const int64_t began = now();
    for (int k = 0; k < plan->can->n_received; k++)
        can->heard[k].is_new = 0;
    send_due(can, plan, counts, m, t);
    receive_frames(can, plan, counts);
    while (plan->lock_step && !all_are_new(can, plan->can) && now() - began < plan->timeout) {
        struct pollfd ready = {can->socket, POLLIN, 0};
        (void)poll(&ready, 1, (int)((plan->timeout - (now() - began)) / 1000000) + 1);
        receive_frames(can, plan, counts);
    }
    watch_messages(can, plan, counts);
    set_inputs(plan, can->values + plan->n_sent, m);
}

#endif
