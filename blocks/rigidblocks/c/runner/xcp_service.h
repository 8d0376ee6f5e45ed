/* XCP on UDP in an instance: a thread answers the commands of a master whenever the instance is not
   in a call, and after each step of a co-simulation the signals that the master asked for go
   out. */

#ifndef RB_XCP_SERVICE_H
#define RB_XCP_SERVICE_H

#include "xcp_udp.h"

/* The variables of FMI-LS-XCP; their value references follow those of the block. */
enum { RB_XCP_ENABLED, RB_XCP_PORT, RB_XCP_ADDRESS, RB_SERVICES };
enum { RB_LONGEST_ADDRESS = 15 };

/* Where it listens, if it does. */
typedef struct {
    int enabled, port; /* -1 for no port */
    char address[RB_LONGEST_ADDRESS + 1];
} ServiceAddress;

typedef struct {
    ServiceAddress wanted, tried; /* what the host has set, and what was last begun */
    int is_tried, is_on;
    int wake[2]; /* a pipe that ends the thread */
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

/* A service that is not begun, as an FMU has it that was just made. Calls within calls are those of
   a host that is shown where a step is. */
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

/* Listens and begins the thread; 0, or the number of an error. */
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

/* Begins, ends or moves it as the host wants it; NULL, or why it does not listen. */
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
        return "this is no address such as 127.0.0.1";
    const int error = listen_at(service, &own, plan, memory);
    return error ? strerror(error) : NULL;
}

#endif
