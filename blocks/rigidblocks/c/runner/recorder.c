/* A live tap: chosen signals, now and then, as JSON in UDP datagrams for whoever looks. The loop
   only copies numbers, and only when the thread that writes and sends them is ready; so no listener
   delays a step. */

#ifndef RB_TAP_H
#define RB_TAP_H

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE /* for Linux's own calls; NOLINT(bugprone-reserved-identifier) */
#endif

#include <pthread.h>

#include "link.h"

/* the pause in ns */
enum { TAP_NAMES = 16, TAP_BYTES = 60000, TAP_VALUE = 40, TAP_PAUSE = 2000000 };

typedef struct {
    int n, socket, is_full, over; /* signals; whether there is a row for the thread */
    uint64_t every, sent, left_out;
    struct sockaddr_in to;
    const char *const *names;
    int *chosen; /* numbers of signals */
    double *row; /* time, then values */
    char *text;
    pthread_t thread;
} Tap;

/* Whether a signal is one of those: each stands for all signals that begin with it; without any it
   is. */
static inline int is_chosen(const char *name, const char *const *beginnings, int n)
{
    for (int k = 0; k < n; k++)
        if (strncmp(name, beginnings[k], strlen(beginnings[k])) == 0)
            return 1;
    return n == 0;
}

/* {"timestamp": 1.5, "robot.q[1]": 0.25} */
static inline size_t tap_text(const Tap *tap)
{
    char *to = tap->text;
    to += sprintf(to, "{\"timestamp\": %.9g", tap->row[0]);
    for (int k = 0; k < tap->n; k++)
        to += sprintf(to, ", \"%s\": %.9g", tap->names[tap->chosen[k]], tap->row[k + 1]);
    *to++ = '}';
    return (size_t)(to - tap->text);
}

static inline void *send_rows(void *argument)
{
    Tap *tap = argument;
    const struct timespec pause = {0, TAP_PAUSE};
    while (!__atomic_load_n(&tap->over, __ATOMIC_ACQUIRE)) {
        if (__atomic_load_n(&tap->is_full, __ATOMIC_ACQUIRE)) {
            const size_t size = tap_text(tap);
            const struct sockaddr *to = (const struct sockaddr *)&tap->to;
            tap->sent += sendto(tap->socket, tap->text, size, MSG_DONTWAIT, to, sizeof tap->to) ==
                         (ssize_t)size;
            __atomic_store_n(&tap->is_full, 0, __ATOMIC_RELEASE);
        } else
            (void)nanosleep(&pause, NULL);
    }
    return NULL;
}

/* Takes the signals that are asked for; -1, with a message, where there are none or too many for a
   datagram. */
static inline int choose_signals(Tap *tap, const char *const *names, int n,
                                 const char *const *beginnings, int m)
{
    size_t bytes = TAP_VALUE;
    tap->names = names;
    tap->chosen = calloc((size_t)n + 1, sizeof *tap->chosen);
    tap->row = calloc((size_t)n + 1, sizeof *tap->row);
    for (int k = 0; k < n && tap->chosen; k++)
        if (is_chosen(names[k], beginnings, m)) {
            tap->chosen[tap->n++] = k;
            bytes += strlen(names[k]) + TAP_VALUE;
        }
    tap->text = malloc(bytes);
    if (tap->chosen && tap->row && tap->text && tap->n > 0 && bytes <= TAP_BYTES)
        return 0;
    (void)fprintf(
        stderr,
        "--tap has %d signals, and a datagram takes 1 up to some 1000: choose by --tap-signal\n",
        tap->n);
    return -1;
}

/* Sends to an address, each `every`'th step; -1, with a message, where that fails. */
static inline int start_tap(Tap *tap, const char *address, uint64_t every)
{
    tap->every = every;
    tap->socket = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (parse_address(address, &tap->to) != 0 || tap->socket < 0) {
        (void)fprintf(stderr, "--tap is an address such as 127.0.0.1:9870, not '%s'\n", address);
        return -1;
    }
    return pthread_create(&tap->thread, NULL, send_rows, tap);
}

/* After a step, at t. */
static inline void tap_row(Tap *tap, uint64_t steps, double t, const double *m, const int *places)
{
    if (!tap->every || steps % tap->every)
        return;
    if (__atomic_load_n(&tap->is_full, __ATOMIC_ACQUIRE)) {
        tap->left_out++;
        return;
    }
    tap->row[0] = t;
    for (int k = 0; k < tap->n; k++)
        tap->row[k + 1] = m[places[tap->chosen[k]]];
    __atomic_store_n(&tap->is_full, 1, __ATOMIC_RELEASE);
}

static inline void end_tap(Tap *tap)
{
    __atomic_store_n(&tap->over, 1, __ATOMIC_RELEASE);
    (void)pthread_join(tap->thread, NULL);
    (void)close(tap->socket);
    free(tap->chosen);
    free(tap->row);
    free(tap->text);
}

#endif
