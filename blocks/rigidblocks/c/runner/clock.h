/* Time and priority: when a step is due, and what the operating system lets a program do about
   it. */

#ifndef RB_CLOCK_H
#define RB_CLOCK_H

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE /* for Linux's own calls; NOLINT(bugprone-reserved-identifier) */
#endif

#include <errno.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

/* the last part of a wait [ns], in which the processor is kept: a sleeper is woken up late by about
   that */
enum { SPIN = 50000 };

/* ns on a clock that only goes on */
static inline int64_t now(void)
{
    struct timespec time;
    (void)clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

/* Comes back when it is `due` [ns] or a signal has come; returns the time. */
static inline int64_t wait_until(int64_t due, const volatile int *stop)
{
    const int64_t sleep = due - SPIN;
    const struct timespec until = {(time_t)(sleep / 1000000000), (long)(sleep % 1000000000)};
    int64_t time = now();
    if (time < sleep)
        (void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
    for (time = now(); time < due && !*stop; time = now())
        ;
    return time;
}

/* Work that takes its time and nothing else: it reads no memory but its own counter. */
static inline void spin(int64_t rounds)
{
    for (volatile int64_t k = 0; k < rounds; k++)
        ;
}

/* The rounds of `spin` that take some time [us] when nothing comes in between. */
static inline int64_t rounds_of(double us)
{
    enum { TRIES = 200, ROUNDS = 1000 };
    int64_t least = INT64_MAX;
    for (int k = 0; k < TRIES; k++) {
        const int64_t began = now();
        spin(ROUNDS);
        const int64_t took = now() - began;
        if (took < least)
            least = took;
    }
    return (int64_t)(1e3 * us * ROUNDS / (double)(least > 0 ? least : 1)) + 1;
}

/* Asks for a priority of SCHED_FIFO, a processor and memory that is not paged out, and says what
   was not allowed. */
static inline void ask_for_real_time(int priority, int processor, FILE *said)
{
    if (priority > 0) {
        const struct sched_param parameter = {.sched_priority = priority};
        if (sched_setscheduler(0, SCHED_FIFO, &parameter) != 0)
            (void)fprintf(said,
                          "no SCHED_FIFO with priority %d: %s; deadlines depend on the load\n",
                          priority, strerror(errno));
        if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0)
            (void)fprintf(said, "memory is not locked: %s\n", strerror(errno));
    }
    if (processor >= 0) {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET((unsigned)processor, &set);
        if (sched_setaffinity(0, sizeof set, &set) != 0)
            (void)fprintf(said, "not kept on processor %d: %s\n", processor, strerror(errno));
    }
}

#endif
