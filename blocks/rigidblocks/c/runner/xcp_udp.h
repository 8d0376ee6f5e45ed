/* XCP on UDP: a thread waits for commands, the loop answers them between two steps and sends the
   signals after one. So a step without a connection only looks at a number. */

#ifndef RB_XCP_UDP_H
#define RB_XCP_UDP_H

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE /* for Linux's own calls; NOLINT(bugprone-reserved-identifier) */
#endif

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "address.h"
#include "xcp_daq.h"

/* commands that may wait, a power of 2; the bytes of a datagram; and of the head of a message, its
   length and its number */
enum { XCP_WAITING = 64, XCP_DATAGRAM = 1400, XCP_MESSAGE = 4 };

typedef struct {
    struct sockaddr_in from;
    int size;
    uint8_t bytes[XCP_MESSAGE + XCP_CTO];
} XcpCommand;

typedef struct {
    Xcp xcp;
    int socket, over;
    struct sockaddr_in master;
    uint16_t sequence;
    uint64_t written, taken; /* commands, by the thread and by the loop */
    /* counted: refused is what was answered by an error */
    uint64_t commands, foreign, refused, sent, unsent;
    /* commands that found no room, by the thread */
    uint64_t lost;
    int filled;
    uint8_t datagram[XCP_DATAGRAM];
    XcpCommand waiting[XCP_WAITING + 1]; /* the last is for one that finds no room */
    pthread_t thread;
} XcpServer;

static inline void *await_commands(void *argument)
{
    XcpServer *server = argument;
    while (!__atomic_load_n(&server->over, __ATOMIC_ACQUIRE)) {
        struct pollfd ready = {server->socket, POLLIN, 0};
        if (poll(&ready, 1, 100) <= 0)
            continue;
        const int is_full =
            server->written - __atomic_load_n(&server->taken, __ATOMIC_ACQUIRE) >= XCP_WAITING;
        XcpCommand *to = &server->waiting[is_full ? XCP_WAITING : server->written % XCP_WAITING];
        socklen_t length = sizeof to->from;
        to->size = (int)recvfrom(server->socket, to->bytes, sizeof to->bytes, MSG_TRUNC,
                                 (struct sockaddr *)&to->from, &length);
        if (to->size < 0)
            continue;
        if (is_full)
            server->lost++;
        else
            __atomic_store_n(&server->written, server->written + 1, __ATOMIC_RELEASE);
    }
    return NULL;
}

/* Binds a socket to an address; -1 where that fails. */
static inline int open_xcp(XcpServer *server, const XcpPlan *plan, const struct sockaddr_in *own,
                           double *memory)
{
    server->xcp.plan = plan;
    server->xcp.memory = memory;
    server->socket = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (server->socket < 0)
        return -1;
    return bind(server->socket, (const struct sockaddr *)own, sizeof *own);
}

/* Listens at an address; -1, with a message, where that fails. */
static inline int start_xcp(XcpServer *server, const XcpPlan *plan, const char *address,
                            double *memory)
{
    struct sockaddr_in own;
    if (parse_address(address, &own) != 0) {
        (void)fprintf(stderr, "--xcp is an address such as 127.0.0.1:5555, not '%s'\n", address);
        return -1;
    }
    if (open_xcp(server, plan, &own, memory) != 0) {
        (void)fprintf(stderr, "XCP cannot listen on %s: %s\n", address, strerror(errno));
        return -1;
    }
    return pthread_create(&server->thread, NULL, await_commands, server);
}

static inline void end_xcp(XcpServer *server)
{
    __atomic_store_n(&server->over, 1, __ATOMIC_RELEASE);
    (void)pthread_join(server->thread, NULL);
    (void)close(server->socket);
}

static inline void send_messages(XcpServer *server)
{
    if (server->filled == 0)
        return;
    const struct sockaddr *to = (const struct sockaddr *)&server->master;
    const ssize_t sent = sendto(server->socket, server->datagram, (size_t)server->filled, 0, to,
                                sizeof server->master);
    if (sent == server->filled)
        server->sent++;
    else
        server->unsent++;
    server->filled = 0;
}

/* Where the next message of up to n bytes goes in the datagram, which is sent before when it is
   full. */
static inline uint8_t *message_room(XcpServer *server, int n)
{
    if (server->filled + XCP_MESSAGE + n > XCP_DATAGRAM)
        send_messages(server);
    return server->datagram + server->filled + XCP_MESSAGE;
}

static inline void add_message(XcpServer *server, int n)
{
    uint8_t *head = server->datagram + server->filled;
    xcp_put(head, (uint32_t)n, 2);
    xcp_put(head + 2, server->sequence++, 2);
    server->filled += XCP_MESSAGE + n;
}

static inline int is_master(const XcpServer *server, const XcpCommand *command)
{
    return command->from.sin_port == server->master.sin_port &&
           command->from.sin_addr.s_addr == server->master.sin_addr.s_addr;
}

/* Answers a command of the master; who connects becomes the master. */
static inline void answer_command(XcpServer *server, const XcpCommand *command)
{
    const uint8_t *packet = command->bytes + XCP_MESSAGE;
    const int n = command->size - XCP_MESSAGE;
    if (n < 1 || command->size > (int)sizeof command->bytes ||
        xcp_get(command->bytes, 2) != (uint32_t)n ||
        (packet[0] != 0xff && !is_master(server, command))) {
        server->foreign++;
        return;
    }
    if (packet[0] == 0xff)
        server->master = command->from;
    uint8_t *out = message_room(server, XCP_CTO);
    const int size = xcp_command(&server->xcp, packet, n, out);
    server->commands++;
    if (size > 0) {
        server->refused += out[0] == XCP_ERROR;
        add_message(server, size);
        send_messages(server);
    }
}

/* Before a step: the commands that have come. */
static inline void serve_xcp(XcpServer *server)
{
    uint64_t next = server->taken;
    const uint64_t end = __atomic_load_n(&server->written, __ATOMIC_ACQUIRE);
    for (; next != end; next++) {
        answer_command(server, &server->waiting[next % XCP_WAITING]);
        __atomic_store_n(&server->taken, next + 1, __ATOMIC_RELEASE);
    }
}

/* After a step, at t: the signals that the master asked for. */
static inline void send_signals(XcpServer *server, double t)
{
    Xcp *xcp = &server->xcp;
    if (!xcp->is_connected)
        return;
    xcp->clock = (uint32_t)(uint64_t)(1e6 * t + 0.5);
    for (int i = 0; i < xcp->n_lists; i++) {
        if (!xcp_is_due(&xcp->lists[i]))
            continue;
        for (int k = 0; k < xcp->lists[i].n; k++)
            add_message(server, xcp_sample(xcp, i, k,
                                           message_room(server, xcp_size(xcp, &xcp->lists[i], k))));
    }
    send_messages(server);
}

static inline void report_xcp(FILE *file, const XcpServer *server)
{
    (void)fprintf(file,
                  "  \"xcp\": {\"commands\": %llu, \"refused\": %llu, \"foreign\": %llu, \"lost\": "
                  "%llu, \"datagrams sent\": %llu, "
                  "\"datagrams not sent\": %llu},\n",
                  (unsigned long long)server->commands, (unsigned long long)server->refused,
                  (unsigned long long)server->foreign, (unsigned long long)server->lost,
                  (unsigned long long)server->sent, (unsigned long long)server->unsent);
}

#endif
