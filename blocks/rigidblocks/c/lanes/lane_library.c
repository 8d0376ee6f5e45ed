/* Many runs of a block, RB_LANES of them at once.

   The generated steps.h has RB_SIZE, the numbers of the memory, of which the first is the time; the
   functions `begin`, from a memory to that at the start of a run, and `advance`, to that after a
   step; and the step RB_DT. */

#include "rows.h"
#include "steps.h"

/* What is kept of n runs: of each a row of `width` numbers, those at the `places` of its memory,
   after every `every`-th step; how many steps it has taken when a number of it is no longer finite,
   -1 before that. */
struct record {
    long width, every, rows;
    const long *places;
    double *values;
    long *failed;
};

static inline void keep(const struct record *record, long run, int count, long row, const real *m)
{
    for (int k = 0; k < count; k++) {
        double *values = record->values + ((run + k) * record->rows + row) * record->width;
        for (long j = 0; j < record->width; j++)
            values[j] = m[record->places[j]][k];
    }
}

/* 0 in the lanes whose numbers are all finite, else NaN. */
static inline real not_finite(const real *m)
{
    real sum = lanes(0.0);
    for (int i = 0; i < RB_SIZE; i++)
        sum += m[i] * lanes(0.0);
    return sum;
}

/* Marks the runs that have failed; returns how many of them have not. */
static inline int still_finite(const struct record *record, long run, int count, long steps,
                               const real *m)
{
    const bits bad = is_nan(not_finite(m));
    int good = count;
    if (!any(bad))
        return good;
    for (int k = 0; k < count; k++)
        if (record->failed[run + k] >= 0 || bad[k]) {
            good--;
            if (record->failed[run + k] < 0)
                record->failed[run + k] = steps;
        }
    return good;
}

RB_EXPORT void run(double *memories, long first, long last, double t, long steps,
                   const struct record *record);

/* The runs from `first` on and before `last`, from t on, with their memories one behind the
   other. */
RB_EXPORT void run(double *memories, long first, long last, double t, long steps,
                   const struct record *record)
{
    real m[RB_SIZE], next[RB_SIZE];
    for (long at = first; at < last; at += RB_LANES) {
        const int count = last - at < RB_LANES ? (int)(last - at) : RB_LANES;
        read_rows(memories + at * RB_SIZE, RB_SIZE, count, next);
        next[0] = lanes(t);
        begin(next, m);
        int good = still_finite(record, at, count, 0, m);
        keep(record, at, count, 0, m);
        for (long k = 1; k <= steps && good > 0; k++) {
            m[0] = lanes(t + (double)(k - 1) * RB_DT);
            advance(m, next);
            for (int i = 0; i < RB_SIZE; i++)
                m[i] = next[i];
            good = still_finite(record, at, count, k, m);
            if (k % record->every == 0)
                keep(record, at, count, k / record->every, m);
        }
        write_rows(memories + at * RB_SIZE, RB_SIZE, count, m);
    }
}
