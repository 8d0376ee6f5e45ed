/* How long things took: a histogram whose bins are 3 % wide, so that no step needs memory of its
   own. */

#ifndef RB_TIMES_H
#define RB_TIMES_H

#include <math.h>
#include <stdint.h>
#include <stdio.h>

enum { BINS_PER_OCTAVE = 24, OCTAVES = 40, BINS = BINS_PER_OCTAVE * OCTAVES };

typedef struct {
    uint64_t counts[BINS], n;
    int64_t longest;
} Times;

static inline void count_time(Times *times, int64_t ns)
{
    const int bin = ns <= 1 ? 0 : (int)(BINS_PER_OCTAVE * log2((double)ns));
    times->counts[bin < BINS ? bin : BINS - 1]++;
    times->n++;
    if (ns > times->longest)
        times->longest = ns;
}

/* us that a share of them did not take longer than, to 3 % */
static inline double quantile(const Times *times, double share)
{
    const double wanted = share * (double)times->n;
    uint64_t sum = 0;
    for (int bin = 0; bin < BINS; bin++) {
        sum += times->counts[bin];
        if (sum > 0 && (double)sum >= wanted)
            return fmin(1e-3 * exp2((double)(bin + 1) / BINS_PER_OCTAVE),
                        1e-3 * (double)times->longest);
    }
    return 1e-3 * (double)times->longest;
}

/* The quantiles [us], and the histogram by octaves. */
static inline void report_times(FILE *file, const char *name, const Times *times)
{
    (void)fprintf(file,
                  "  \"%s\": {\"median\": %.3f, \"p99\": %.3f, \"p99.9\": %.3f, \"max\": %.3f, "
                  "\"octaves\": [",
                  name, quantile(times, 0.5), quantile(times, 0.99), quantile(times, 0.999),
                  1e-3 * (double)times->longest);
    int last = 0;
    for (int bin = 0; bin < BINS; bin++)
        if (times->counts[bin])
            last = bin / BINS_PER_OCTAVE;
    for (int octave = 0; octave <= last; octave++) {
        uint64_t sum = 0;
        for (int k = 0; k < BINS_PER_OCTAVE; k++)
            sum += times->counts[octave * BINS_PER_OCTAVE + k];
        (void)fprintf(file, "%s%llu", octave ? ", " : "", (unsigned long long)sum);
    }
    (void)fprintf(file, "]},\n");
}

#endif
