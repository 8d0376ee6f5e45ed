/* Recording of signals: rows of a CSV file, and live values by UDP. */

#ifndef RB_RECORDER_H
#define RB_RECORDER_H

#include <netinet/in.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>

/* ---- CSV: a ring buffer passes rows to a writer thread, so steps do not wait for a disk ---- */

typedef struct {
    FILE *file;
    int width;
    double *ring;
    /* number of rows written to the ring buffer, of rows in the file, and of dropped rows */
    uint64_t written, taken, dropped;
    int over, waits;
    pthread_t thread;
} Record;

/* Start recording the named signals as a CSV file. Returns -1 on failure. If `waits` is 1, no row
   is dropped. */
int rb_record_start(Record *record, const char *path, const char *const *names, int n, int waits);

/* Add a row with the time t and the values at `places` of the memory. */
void rb_record_add(Record *record, double t, const double *m, const int *places);

/* Write the remaining rows. Returns -1 if the file is incomplete. */
int rb_record_end(Record *record);

/* ---- live tap: selected signals as JSON in UDP datagrams ----

   The loop copies numbers only if the sender thread is ready, and does nothing else. No listener
   can therefore delay a step. */

enum {
    TAP_NAMES = 16,     /* largest number of options --tap-signal */
    TAP_BYTES = 60000,  /* largest datagram; UDP allows 65507 bytes */
    TAP_VALUE = 40,     /* largest number of bytes of a value and its punctuation */
    TAP_PAUSE = 2000000 /* [ns] pause of the sender thread, the largest delay of a row */
};

typedef struct {
    int n, socket, is_full, over; /* n: number of signals; is_full: 1 if a row waits for sending */
    uint64_t every, sent, left_out;
    struct sockaddr_in to;
    const char *const *names;
    int *chosen; /* indices of the selected signals */
    double *row; /* time, then values */
    char *text;
    pthread_t thread;
} Tap;

/* Select the signals whose names begin with one of the m `beginnings`; without beginnings, select
   all signals. If the selection is empty or too large for a datagram, print a message and return
   -1. */
int rb_tap_select(Tap *tap, const char *const *names, int n, const char *const *beginnings, int m);

/* Start to send to an address after each `every`-th step. Prints a message and returns -1 on
   failure. */
int rb_tap_start(Tap *tap, const char *address, uint64_t every);

/* Pass a row to the sender thread after a step at t, if one is due. */
void rb_tap_add(Tap *tap, uint64_t steps, double t, const double *m, const int *places);

void rb_tap_end(Tap *tap);

#endif
