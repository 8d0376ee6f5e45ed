/* Time of a traced function in a C loop; each call depends on the result of the previous call. */
#define _POSIX_C_SOURCE 199309L
#include <math.h>
#include <time.h>

#include "function.h"

__attribute__((visibility("default"))) double nanoseconds_per_call(double *in, double *out,
                                                                   int calls);

double nanoseconds_per_call(double *in, double *out, int calls)
{
    struct timespec before, after;
    clock_gettime(CLOCK_MONOTONIC, &before);
    for (int k = 0; k < calls; k++) {
        function(in, out);
        in[0] += 1e-12 * out[0];
    }
    clock_gettime(CLOCK_MONOTONIC, &after);
    return (1e9 * (double)(after.tv_sec - before.tv_sec) +
            (double)(after.tv_nsec - before.tv_nsec)) /
           calls;
}
