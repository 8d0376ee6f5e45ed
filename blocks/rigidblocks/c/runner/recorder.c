/* Recording of signals. */

#define _GNU_SOURCE /* for Linux-specific calls; NOLINT(bugprone-reserved-identifier) */

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "link.h"
#include "recorder.h"

enum { ROWS = 1 << 14 }; /* rows of the ring buffer; a power of 2 */

static void *write_rows(void *argument)
{
    Record *record = argument;
    for (;;) {
        const int over = __atomic_load_n(&record->over, __ATOMIC_ACQUIRE);
        const uint64_t written = __atomic_load_n(&record->written, __ATOMIC_ACQUIRE);
        for (uint64_t k = record->taken; k < written; k++) {
            const double *row = record->ring + (k % ROWS) * (uint64_t)record->width;
            for (int i = 0; i < record->width; i++)
                (void)fprintf(record->file, i ? ",%.17g" : "%.17g", row[i]);
            (void)fputc('\n', record->file);
            __atomic_store_n(&record->taken, k + 1, __ATOMIC_RELEASE);
        }
        if (over)
            return NULL;
        const struct timespec pause = {0, 2000000};
        (void)nanosleep(&pause, NULL);
    }
}

int rb_record_start(Record *record, const char *path, const char *const *names, int n, int waits)
{
    memset(record, 0, sizeof *record);
    record->width = n + 1;
    record->waits = waits;
    record->ring = calloc((size_t)ROWS * (size_t)(n + 1), sizeof(double));
    record->file = fopen(path, "w");
    if (!record->ring || !record->file) {
        perror(path);
        return -1;
    }
    (void)fputs("time", record->file);
    for (int k = 0; k < n; k++)
        (void)fprintf(record->file, strchr(names[k], ',') ? ",\"%s\"" : ",%s", names[k]);
    (void)fputc('\n', record->file);
    return pthread_create(&record->thread, NULL, write_rows, record);
}

void rb_record_add(Record *record, double t, const double *m, const int *places)
{
    while (record->written - __atomic_load_n(&record->taken, __ATOMIC_ACQUIRE) >= ROWS) {
        if (!record->waits) {
            record->dropped++;
            return;
        }
        const struct timespec pause = {0, 100000};
        (void)nanosleep(&pause, NULL);
    }
    double *row = record->ring + (record->written % ROWS) * (uint64_t)record->width;
    row[0] = t;
    for (int i = 1; i < record->width; i++)
        row[i] = m[places[i - 1]];
    __atomic_store_n(&record->written, record->written + 1, __ATOMIC_RELEASE);
}

int rb_record_end(Record *record)
{
    __atomic_store_n(&record->over, 1, __ATOMIC_RELEASE);
    (void)pthread_join(record->thread, NULL);
    const int failed = ferror(record->file);
    free(record->ring);
    return fclose(record->file) != 0 || failed ? -1 : 0;
}

/* Return 1 if a signal is selected. Each name selects all signals that begin with it. If there are
   no names, all signals are selected. */
static int is_chosen(const char *name, const char *const *beginnings, int n)
{
    for (int k = 0; k < n; k++)
        if (strncmp(name, beginnings[k], strlen(beginnings[k])) == 0)
            return 1;
    return n == 0;
}

/* Write the datagram, for example {"timestamp": 1.5, "robot.q[1]": 0.25}. Returns its length. */
static size_t tap_text(const Tap *tap)
{
    char *to = tap->text;
    to += sprintf(to, "{\"timestamp\": %.9g", tap->row[0]);
    for (int k = 0; k < tap->n; k++)
        to += sprintf(to, ", \"%s\": %.9g", tap->names[tap->chosen[k]], tap->row[k + 1]);
    *to++ = '}';
    return (size_t)(to - tap->text);
}

static void *send_rows(void *argument)
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

int rb_tap_select(Tap *tap, const char *const *names, int n, const char *const *beginnings, int m)
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
        stderr, "--tap selects %d signals; a datagram contains 1 to about 1000: use --tap-signal\n",
        tap->n);
    return -1;
}

int rb_tap_start(Tap *tap, const char *address, uint64_t every)
{
    tap->every = every;
    tap->socket = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (rb_parse_address(address, &tap->to) != 0 || tap->socket < 0) {
        (void)fprintf(stderr, "--tap must be an address such as 127.0.0.1:9870, not '%s'\n",
                      address);
        return -1;
    }
    return pthread_create(&tap->thread, NULL, send_rows, tap);
}

void rb_tap_add(Tap *tap, uint64_t steps, double t, const double *m, const int *places)
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

void rb_tap_end(Tap *tap)
{
    __atomic_store_n(&tap->over, 1, __ATOMIC_RELEASE);
    (void)pthread_join(tap->thread, NULL);
    (void)close(tap->socket);
    free(tap->chosen);
    free(tap->row);
    free(tap->text);
}
