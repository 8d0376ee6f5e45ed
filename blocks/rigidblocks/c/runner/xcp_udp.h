/* XCP on UDP, in a real-time program or in an FMU instance.

   A thread receives commands. The loop answers them between two steps and sends signals after a
   step. Without a connection, a step only checks one number. */

#ifndef RB_XCP_UDP_H
#define RB_XCP_UDP_H

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE /* for Linux-specific calls; NOLINT(bugprone-reserved-identifier) */
#endif

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "xcp.h"

/* XCP_WAITING: number of waiting commands, a power of 2. XCP_DATAGRAM: bytes of a datagram.
   XCP_MESSAGE: bytes of a message header (length and counter). */
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
    uint64_t written, taken; /* commands written by the thread and taken by the loop */
    /* counters; `refused` counts commands that were answered by an error */
    uint64_t commands, foreign, refused, sent, unsent;
    /* number of commands that the thread dropped */
    uint64_t lost;
    int filled;
    uint8_t datagram[XCP_DATAGRAM];
    XcpCommand waiting[XCP_WAITING + 1]; /* the last element receives dropped commands */
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

/* Bind a socket to an address. Returns -1 on failure. */
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

/* Listen at an address and start the thread. Returns a nonzero value on failure. */
static inline int start_xcp(XcpServer *server, const XcpPlan *plan, const struct sockaddr_in *own,
                            double *memory)
{
    if (open_xcp(server, plan, own, memory) != 0)
        return -1;
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

/* Return the address in the datagram for the next message of up to n bytes. If the datagram is
   full, send it first. */
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

/* Answer a command of the master. A client that connects becomes the master. */
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

/* Answer the waiting commands, before a step. */
static inline void serve_xcp(XcpServer *server)
{
    uint64_t next = server->taken;
    const uint64_t end = __atomic_load_n(&server->written, __ATOMIC_ACQUIRE);
    for (; next != end; next++) {
        answer_command(server, &server->waiting[next % XCP_WAITING]);
        __atomic_store_n(&server->taken, next + 1, __ATOMIC_RELEASE);
    }
}

/* Send the requested signals, after a step at t. */
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

/* ---- XCP in an FMU instance ----

   A thread answers the commands of a master while no call of the instance is active. Requested
   signals are sent after each co-simulation step. */

/* Variables of FMI-LS-XCP; their value references follow the value references of the block. */
enum { RB_XCP_ENABLED, RB_XCP_PORT, RB_XCP_ADDRESS, RB_SERVICES };
enum { RB_LONGEST_ADDRESS = 15 };

/* Address of the service. */
typedef struct {
    int enabled, port; /* -1: no port */
    char address[RB_LONGEST_ADDRESS + 1];
} ServiceAddress;

typedef struct {
    ServiceAddress wanted, tried; /* address that the host requested; address tried last */
    int is_tried, is_on;
    int wake[2]; /* pipe that wakes the thread and ends it */
    pthread_mutex_t lock;
    pthread_t thread;
    XcpServer server;
} Service;

static inline void *answer_commands(void *argument)
{
    Service *service = argument;
    struct pollfd ready[] = {{service->server.socket, POLLIN, 0}, {service->wake[0], POLLIN, 0}};
    XcpCommand command;
    while (!ready[1].revents) {
        if (poll(ready, 2, -1) <= 0 || !ready[0].revents)
            continue;
        socklen_t length = sizeof command.from;
        command.size = (int)recvfrom(service->server.socket, command.bytes, sizeof command.bytes,
                                     MSG_TRUNC, (struct sockaddr *)&command.from, &length);
        if (command.size < 0)
            continue;
        (void)pthread_mutex_lock(&service->lock);
        answer_command(&service->server, &command);
        (void)pthread_mutex_unlock(&service->lock);
    }
    return NULL;
}

/* Initialize the stopped service of a new FMU instance. The lock is recursive, because a host may
   call the FMU in an intermediate update. */
static inline void make_service(Service *service, const ServiceAddress *address)
{
    pthread_mutexattr_t attributes;
    (void)pthread_mutexattr_init(&attributes);
    (void)pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
    (void)pthread_mutex_init(&service->lock, &attributes);
    (void)pthread_mutexattr_destroy(&attributes);
    service->wanted = *address;
}

static inline void stop_service(Service *service)
{
    if (service->is_on) {
        (void)!write(service->wake[1], "", 1);
        (void)pthread_join(service->thread, NULL);
        (void)close(service->wake[0]);
        (void)close(service->wake[1]);
        (void)close(service->server.socket);
    }
    service->is_on = service->is_tried = 0;
}

/* Listen and start the thread. Returns 0, or an error number. */
static inline int listen_at(Service *service, const struct sockaddr_in *own, const XcpPlan *plan,
                            double *memory)
{
    memset(&service->server, 0, sizeof service->server);
    if (open_xcp(&service->server, plan, own, memory) != 0) {
        const int error = errno;
        if (service->server.socket >= 0)
            (void)close(service->server.socket);
        return error;
    }
    if (pipe(service->wake) != 0) {
        const int error = errno;
        (void)close(service->server.socket);
        return error;
    }
    const int error = pthread_create(&service->thread, NULL, answer_commands, service);
    service->is_on = error == 0;
    if (error) {
        (void)close(service->wake[0]);
        (void)close(service->wake[1]);
        (void)close(service->server.socket);
    }
    return error;
}

/* Start, stop or move the service as the host requests. Returns NULL, or the reason of a
   failure. */
static inline const char *apply_service(Service *service, const XcpPlan *plan, double *memory)
{
    const ServiceAddress *wanted = &service->wanted;
    struct sockaddr_in own;
    const int is_same = wanted->enabled == service->tried.enabled &&
                        wanted->port == service->tried.port &&
                        strcmp(wanted->address, service->tried.address) == 0;
    if (service->is_tried && is_same)
        return NULL;
    stop_service(service);
    service->tried = *wanted;
    service->is_tried = 1;
    if (!wanted->enabled || wanted->port == -1)
        return NULL;
    memset(&own, 0, sizeof own);
    own.sin_family = AF_INET;
    own.sin_port = htons((uint16_t)wanted->port);
    if (inet_pton(AF_INET, wanted->address, &own.sin_addr) != 1)
        return "this is not an IP address such as 127.0.0.1";
    const int error = listen_at(service, &own, plan, memory);
    return error ? strerror(error) : NULL;
}

#endif
