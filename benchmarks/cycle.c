/* Duration of a processor cycle. Each iteration consists of two dependent integer operations of one
   cycle each. */
#define _POSIX_C_SOURCE 199309L
#include <stdint.h>
#include <time.h>

__attribute__((visibility("default"))) double nanoseconds_per_cycle(int steps);

double nanoseconds_per_cycle(int steps)
{
    struct timespec before, after;
    volatile uint64_t start = 1;
    uint64_t x = start;
    clock_gettime(CLOCK_MONOTONIC, &before);
    for (int k = 0; k < steps; k++)
        x ^= x << 1;
    start = x;
    clock_gettime(CLOCK_MONOTONIC, &after);
    return (1e9 * (double)(after.tv_sec - before.tv_sec) +
            (double)(after.tv_nsec - before.tv_nsec)) /
           (2.0 * steps);
}
