/* The record of a run: rows go through a ring to a thread that writes them, so that no step waits
   for a disk. */

#ifndef RB_RECORD_H
#define RB_RECORD_H

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE /* for Linux's own calls; NOLINT(bugprone-reserved-identifier) */
#endif

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROWS = 1 << 14 }; /* in the ring; a power of 2 */

typedef struct {
    FILE *file;
    int width;
    double *ring;
    /* rows put in, rows written out, and rows that found no room */
    uint64_t written, taken, dropped;
    int over, waits;
    pthread_t thread;
} Record;

static inline void *write_rows(void *argument)
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

/* Starts the record of the named signals as a CSV file; -1 where that fails. With `waits` no row is
   dropped. */
static inline int start_record(Record *record, const char *path, const char *const *names, int n,
                               int waits)
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

static inline void add_row(Record *record, double t, const double *m, const int *places)
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

/* Writes what is left; -1 where the file is not whole. */
static inline int end_record(Record *record)
{
    __atomic_store_n(&record->over, 1, __ATOMIC_RELEASE);
    (void)pthread_join(record->thread, NULL);
    const int failed = ferror(record->file);
    free(record->ring);
    return fclose(record->file) != 0 || failed ? -1 : 0;
}

#endif
