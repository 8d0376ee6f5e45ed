/* Links by UDP, shared memory and SocketCAN. */

#define _GNU_SOURCE /* for Linux-specific calls; NOLINT(bugprone-reserved-identifier) */

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/can.h>
#include <linux/can/raw.h>
#include <net/if.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "link.h"
#include "packet.h"

/* values of a packet: with 8 bytes each they fit in a UDP datagram of 65507 bytes */
enum { MOST_VALUES = 8000, MOST_BYTES = RB_PACKET_HEADER + 8 * MOST_VALUES };

/* [ns] A link polls shared memory for this time. Then it sleeps for a quarter of this time before
   each test, because a sleeping thread wakes up late by about POLLED. */
enum { POLLED = 50000 };

/* [ns] RESENT: interval at which the link repeats a packet that nobody has received. WATCHED:
   longest wait between two tests for a termination signal. SILENCE: silence after which the link
   prints a message. */
enum { RESENT = 20000000, WATCHED = 100000000, SILENCE = 1000000000 };

int64_t rb_clock_nanoseconds(void)
{
    struct timespec time;
    (void)clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

int rb_parse_address(const char *text, struct sockaddr_in *address)
{
    char host[64], *end;
    const char *colon = strrchr(text, ':');
    memset(address, 0, sizeof *address);
    if (!colon || colon - text >= (ptrdiff_t)sizeof host)
        return -1;
    memcpy(host, text, (size_t)(colon - text));
    host[colon - text] = 0;
    const long port = strtol(colon + 1, &end, 10);
    if (end == colon + 1 || *end || port < 0 || port > 65535)
        return -1;
    address->sin_family = AF_INET;
    address->sin_port = htons((uint16_t)port);
    return inet_pton(AF_INET, host, &address->sin_addr) == 1 ? 0 : -1;
}

double rb_sent_value(const LinkPlan *plan, int k, const double *m)
{
    return plan->sent[k] < 0 ? plan->open[k] : m[plan->sent[k]];
}

void rb_set_inputs(const LinkPlan *plan, const double *values, double *m)
{
    for (int k = 0; k < plan->n_targets; k++)
        m[plan->targets[k]] = values[plan->values[k]];
}

/* ---- wait for answers in lock-step ---- */

typedef struct {
    int64_t began, sent; /* [ns] time of the first and of the last packet of this step */
    int64_t limit;       /* [ns] longest wait */
    int is_silent;       /* 1 after the message about the silence */
} Wait;

/* Return 1 if the link holds the last received values after a missed answer. */
static int holds(const LinkPlan *plan)
{
    return plan->lock_step && plan->lost == LOST_HOLD;
}

static Wait begin_wait(const Link *link)
{
    const LinkPlan *plan = link->plan;
    const int64_t now = rb_clock_nanoseconds();
    const int is_first = plan->lost == LOST_END && !link->is_met;
    return (Wait){now, now, is_first ? plan->start_timeout : plan->timeout, 0};
}

/* Return the time [ns] until the link must test again for an answer; 0 if the wait is over. After
   1 s of silence, print a message. */
static int64_t time_left(const Link *link, Wait *wait)
{
    const int64_t waited = rb_clock_nanoseconds() - wait->began, left = wait->limit - waited;
    if (waited >= SILENCE && !wait->is_silent) {
        wait->is_silent = 1;
        (void)fprintf(stderr, "link '%s' is waiting for %s\n", link->plan->name, link->plan->peer);
    }
    if (*link->stop || left <= 0)
        return 0;
    return left < WATCHED ? left : WATCHED;
}

/* End an exchange. Returns LINK_LOST if the answer is missing and ends the run. */
static int end_wait(Link *link, const Wait *wait, int is_answered, double t)
{
    const LinkPlan *plan = link->plan;
    if (!plan->lock_step || plan->lost != LOST_END || *link->stop)
        return LINK_OK;
    if (is_answered) {
        link->is_met = 1;
        return LINK_OK;
    }
    (void)fprintf(stderr,
                  "link '%s' has received no answer from %s within %g s at t = %.9g s; start the "
                  "partner, or build the link with a longer timeout or with lost=\"hold\"\n",
                  plan->name, plan->peer, 1e-9 * (double)wait->limit, t);
    return LINK_LOST;
}

/* ---- CAN ---- */

enum { CAN_MOST = 256 }; /* largest number of messages in a direction */

/* State of a received message. */
typedef struct {
    int64_t heard;
    uint64_t count; /* last value of the message counter */
    int is_known, is_safe, is_new;
} CanHeard;

typedef struct Can {
    int socket;
    uint32_t sent[CAN_MOST]; /* number of times that each message was sent */
    double cycle[CAN_MOST];  /* last period in which each message was sent */
    CanHeard heard[CAN_MOST];
    /* values that are sent or held, and values of the frame that is being read */
    double *values, *fresh;
} Can;

static int bind_can(Can *can, const LinkPlan *plan)
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
        /* with CAN_ERR_FLAG in the mask, the filter would select only error frames */
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

/* Close the interface; `can` may be NULL. */
static void can_close(Can *can)
{
    if (!can)
        return;
    if (can->socket > 0)
        (void)close(can->socket);
    free(can->values);
    free(can->fresh);
    free(can);
}

/* Open the CAN interface of a link, or use the socket "fd:N" that the program inherited. Prints a
   message and returns NULL on failure. */
static Can *can_open(const LinkPlan *plan)
{
    const size_t n = (size_t)(plan->n_sent + plan->n_received) + 1;
    Can *can = calloc(1, sizeof *can);
    if (!can)
        return NULL;
    can->values = malloc(n * sizeof *can->values);
    can->fresh = malloc(n * sizeof *can->fresh);
    if (!can->values || !can->fresh) {
        can_close(can);
        return NULL;
    }
    memcpy(can->values + plan->n_sent, plan->safe, (size_t)plan->n_received * sizeof *plan->safe);
    for (int k = 0; k < plan->can->n_sent; k++)
        can->cycle[k] = -1.0;
    for (int k = 0; k < plan->can->n_received; k++)
        can->heard[k].heard = rb_clock_nanoseconds();
    if (strncmp(plan->peer, "fd:", 3) == 0)
        can->socket = fcntl((int)strtol(plan->peer + 3, NULL, 10), F_DUPFD_CLOEXEC, 3);
    if (strncmp(plan->peer, "fd:", 3) == 0 ? can->socket >= 0 : bind_can(can, plan) == 0)
        return can;
    (void)fprintf(stderr, "link '%s' cannot open the CAN interface %s: %s\n", plan->name,
                  plan->peer, strerror(errno));
    can_close(can);
    return NULL;
}

/* Send a message. Returns 1 on success. */
static int send_message(Can *can, const FrameMessage *message, uint32_t count,
                        const FrameSignal *signals, uint64_t *beyond)
{
    struct canfd_frame frame; /* its first part is a CAN frame */
    memset(&frame, 0, sizeof frame);
    frame.can_id = message->id;
    frame.len = (uint8_t)message->wire_size;
    if (message->is_fd)
        /* the flag 0x04 marks CAN FD */
        frame.flags = (uint8_t)((message->has_fast_bits ? CANFD_BRS : 0) | 0x04);
    frame_pack(message, signals, can->values, count, frame.data, beyond);
    const size_t size = message->is_fd ? CANFD_MTU : CAN_MTU;
    return send(can->socket, &frame, size, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)size;
}

/* Send the messages that are due at t. Periodic messages are sent once in a period, the others each
   time. */
static void send_due(Can *can, const LinkPlan *plan, LinkCounts *counts, const double *m, double t)
{
    for (int k = 0; k < plan->n_sent; k++)
        can->values[k] = rb_sent_value(plan, k, m);
    for (int k = 0; k < plan->can->n_sent; k++) {
        const FrameMessage *message = &plan->can->sent[k];
        /* a time that is a multiple of the period may be smaller by rounding errors */
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

/* Return the increment of the counter since the last message. Return 1 if the message has no
   counter, for the first message, and after a timeout. */
static uint64_t frames_ahead(const FrameMessage *message, const CanHeard *heard, uint64_t count)
{
    if (!message->counter || !heard->is_known || heard->is_safe)
        return 1;
    return (count - heard->count) & (((uint64_t)1 << message->counter->length) - 1);
}

/* Accept the data of a message if it is complete, within its bounds and new. */
static void accept_frame(Can *can, const LinkPlan *plan, LinkCounts *counts, int k,
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
        *heard = (CanHeard){rb_clock_nanoseconds(), count, 1, 0, 1};
        memcpy(can->values + plan->n_sent + message->first, can->fresh + message->first,
               (size_t)message->n * sizeof(double));
    }
}

/* Receive all waiting frames. */
static void receive_frames(Can *can, const LinkPlan *plan, LinkCounts *counts)
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
        else if (frame.len > size - 8) /* incomplete frame */
            counts->size++;
        else
            accept_frame(can, plan, counts, k, &frame);
    }
}

static int all_are_new(const Can *can, const CanPlan *plan)
{
    int k = 0;
    while (k < plan->n_received && can->heard[k].is_new)
        k++;
    return k == plan->n_received;
}

/* Set the safe values of messages that have timed out. */
static void watch_messages(Can *can, const LinkPlan *plan, LinkCounts *counts)
{
    int is_safe = 0;
    const int64_t time = rb_clock_nanoseconds();
    for (int k = 0; k < plan->can->n_received; k++) {
        const FrameMessage *message = &plan->can->received[k];
        CanHeard *heard = &can->heard[k];
        if (plan->lock_step ? !heard->is_new : time - heard->heard > message->timeout) {
            counts->watchdog += !heard->is_safe;
            heard->is_safe = 1;
        }
        if ((heard->is_safe && !holds(plan)) || !heard->is_known) {
            is_safe = 1;
            memcpy(can->values + plan->n_sent + message->first, plan->safe + message->first,
                   (size_t)message->n * sizeof(double));
        }
    }
    counts->safe_steps += (uint64_t)is_safe;
}

/* Send the messages at t and receive. In lock-step, wait for a new message of each kind. `m` is the
   memory of the system. */
static int can_exchange(Link *link, double *m, double t)
{
    Can *can = link->can;
    const LinkPlan *plan = link->plan;
    Wait wait = begin_wait(link);
    for (int k = 0; k < plan->can->n_received; k++)
        can->heard[k].is_new = 0;
    send_due(can, plan, &link->counts, m, t);
    receive_frames(can, plan, &link->counts);
    while (plan->lock_step && !all_are_new(can, plan->can)) {
        const int64_t left = time_left(link, &wait);
        if (left <= 0)
            break;
        struct pollfd ready = {can->socket, POLLIN, 0};
        (void)poll(&ready, 1, (int)(left / 1000000) + 1);
        receive_frames(can, plan, &link->counts);
    }
    watch_messages(can, plan, &link->counts);
    rb_set_inputs(plan, can->values + plan->n_sent, m);
    return end_wait(link, &wait, all_are_new(can, plan->can), t);
}

/* ---- UDP and shared memory ---- */

/* Open the socket of a link. Prints a message and returns -1 on failure. */
static int open_socket(Link *link)
{
    const LinkPlan *plan = link->plan;
    struct sockaddr_in own;
    if (rb_parse_address(plan->peer, &link->peer) != 0 ||
        rb_parse_address(plan->listen, &own) != 0) {
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
    const int on = 1; /* in lock-step, report packets that nobody has received */
    if (plan->lock_step)
        (void)setsockopt(link->socket, IPPROTO_IP, IP_RECVERR, &on, sizeof on);
    return 0;
}

static int open_shared(Link *link)
{
    const LinkPlan *plan = link->plan;
    const size_t sent = RB_PACKET_HEADER + 8 * (size_t)plan->n_sent;
    if (rb_shared_make(&link->shared, plan->peer, sent,
                       RB_PACKET_HEADER + 8 * (size_t)plan->n_received) == 0)
        return 0;
    (void)fprintf(stderr, "link '%s' has no shared memory '%s': %s\n", plan->name, plan->peer,
                  errno == EWOULDBLOCK ? "another simulation uses it" : strerror(errno));
    return -1;
}

int rb_link_open(Link *link, const LinkPlan *plan, const volatile int *stop)
{
    memset(link, 0, sizeof *link);
    link->plan = plan;
    link->stop = stop;
    link->values = malloc(MOST_VALUES * sizeof *link->values);
    link->bytes = malloc(MOST_BYTES + 1);
    link->heard = rb_clock_nanoseconds();
    if (!link->values || !link->bytes)
        return -1;
    if (plan->kind == LINK_CAN) {
        link->can = can_open(plan);
        return link->can ? 0 : -1;
    }
    return plan->kind == LINK_SHARED ? open_shared(link) : open_socket(link);
}

/* Send the packet in the buffer of the link. Returns 1 on success. */
static int send_bytes(Link *link, size_t size)
{
    const struct sockaddr *peer = (const struct sockaddr *)&link->peer;
    if (link->plan->kind == LINK_SHARED)
        return rb_shared_write(&link->shared, link->bytes, size) == 0;
    ssize_t sent = -1;
    for (int k = 0; k < 2 && sent < 0; k++) /* the first call may return an earlier error */
        sent = sendto(link->socket, link->bytes, size, 0, peer, sizeof link->peer);
    return sent == (ssize_t)size;
}

/* Return the size of the next received packet; -1 if no packet has arrived. */
static ptrdiff_t take_bytes(Link *link)
{
    if (link->plan->kind == LINK_SHARED)
        return rb_shared_read(&link->shared, link->bytes, MOST_BYTES + 1);
    enum { ERRORS = 100 }; /* bound of the errors that are skipped; each call of recv returns one */
    for (int k = 0; k < ERRORS; k++) {
        const ssize_t size = recv(link->socket, link->bytes, MOST_BYTES + 1, 0);
        if (size >= 0 || errno == EAGAIN || errno == EWOULDBLOCK)
            return size;
        if (errno == EINTR)
            continue;
        link->is_undelivered = 1;
        while (recv(link->socket, link->bytes, MOST_BYTES + 1, MSG_ERRQUEUE) >= 0)
            ;
    }
    return -1;
}

/* Wait for a packet, at most for `left` [ns]. */
static void wait_for_bytes(const Link *link, const Wait *wait, int64_t left)
{
    if (link->plan->kind == LINK_UDP) {
        struct pollfd ready = {link->socket, POLLIN, 0};
        (void)poll(&ready, 1, (int)(left / 1000000) + 1);
    } else if (rb_clock_nanoseconds() - wait->began >
               POLLED) { /* before that, polling is fastest */
        const struct timespec pause = {0, POLLED / 4};
        (void)nanosleep(&pause, NULL);
    }
}

void rb_link_close(Link *link)
{
    if (link->socket > 0)
        (void)close(link->socket);
    rb_shared_close(&link->shared);
    can_close(link->can);
    free(link->values);
    free(link->bytes);
}

/* Accept a packet and set the inputs. A partner that was silent for longer than the timeout may
   restart its sequence numbers. In lock-step, a partner may do so with each answer. */
static void accept_packet(Link *link, const RbPacket *packet, double *m)
{
    const LinkPlan *plan = link->plan;
    const uint32_t ahead = packet->sequence - link->last;
    const int is_answer = plan->lock_step && packet->echo == link->sequence;
    if (plan->lock_step && !is_answer)
        link->counts.late++;
    if (link->last && ahead == 0 && !(is_answer && link->answered != link->sequence)) {
        link->counts.doubled++;
        return;
    }
    if (link->last && (ahead == 0 || ahead > UINT32_MAX / 2)) {
        if (!is_answer && rb_clock_nanoseconds() - link->heard <= plan->timeout) {
            link->counts.late += !plan->lock_step;
            return;
        }
        link->counts.restarts++;
    } else if (link->last)
        link->counts.lost += ahead - 1;
    link->last = packet->sequence;
    link->answered = packet->echo;
    link->heard = rb_clock_nanoseconds();
    link->is_safe = 0;
    link->counts.received++;
    rb_set_inputs(plan, link->values, m);
}

/* Receive all waiting packets. */
static void receive(Link *link, double *m)
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

/* Send the signals at t with the current sequence number. Returns 1 on success. */
static int send_packet(Link *link, const double *m, double t)
{
    const LinkPlan *plan = link->plan;
    const RbPacket packet = {link->sequence, link->last, t};
    for (int k = 0; k < plan->n_sent; k++)
        link->values[k] = rb_sent_value(plan, k, m);
    link->is_undelivered = 0;
    return send_bytes(link, rb_packet_write(link->bytes, &packet, link->values, plan->n_sent));
}

/* Send the signals at t and receive. In lock-step, wait for the answer. If nobody has received the
   packet, send it again. */
static int exchange_packets(Link *link, double *m, double t)
{
    const LinkPlan *plan = link->plan;
    if (++link->sequence == 0)
        link->sequence = 1;
    Wait wait = begin_wait(link);
    if (send_packet(link, m, t))
        link->counts.sent++;
    else
        link->counts.unsent++;
    receive(link, m);
    while (plan->lock_step && link->answered != link->sequence) {
        const int64_t left = time_left(link, &wait);
        if (left <= 0)
            break;
        wait_for_bytes(link, &wait, left);
        receive(link, m);
        if (link->is_undelivered && rb_clock_nanoseconds() - wait.sent > RESENT) {
            wait.sent = rb_clock_nanoseconds();
            (void)send_packet(link, m, t);
        } else if (link->is_undelivered) {
            const struct timespec pause = {0, RESENT / 4};
            (void)nanosleep(&pause, NULL);
        }
    }
    const int is_answered = link->answered == link->sequence;
    if (plan->lock_step ? !is_answered : rb_clock_nanoseconds() - link->heard > plan->timeout) {
        link->counts.watchdog += !link->is_safe;
        link->is_safe = 1;
    }
    if ((link->is_safe && !holds(plan)) || !link->last) {
        link->counts.safe_steps++;
        rb_set_inputs(plan, plan->safe, m);
    }
    return end_wait(link, &wait, is_answered, t);
}

int rb_link_exchange(Link *link, double *m, double t)
{
    return link->plan->kind == LINK_CAN ? can_exchange(link, m, t) : exchange_packets(link, m, t);
}

void rb_link_report(FILE *file, const Link *link, int is_last)
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
                {"of wrong checksum", c->checksum},
                {"beyond bounds", c->beyond}};
    const int n = (int)(sizeof rows / sizeof rows[0]) - (link->plan->kind == LINK_CAN ? 0 : 2);
    (void)fprintf(file, "    \"%s\": {", link->plan->name);
    for (int k = 0; k < n; k++)
        (void)fprintf(file, "%s\"%s\": %llu", k ? ", " : "", rows[k].name,
                      (unsigned long long)rows[k].count);
    (void)fprintf(file, "}%s\n", is_last ? "" : ",");
}
