/* Shared library that computes in lanes, RB_LANES at once: a function for many arguments, or many
   runs of a block. It also detects the number of lanes of the processor.

   For a function, the generated function.h defines `evaluate`, and RB_IN and RB_OUT, the numbers of
   its input and output values. It also defines RB_READ(row) and RB_WRITE(row), which call `read`
   and `write` for each input or output array. Their arguments are the index of the array, the
   length of its rows, and its position among all inputs or outputs.

   For runs (-DRB_RUNS), the generated steps.h defines RB_SIZE, the length of the memory, whose
   first number is the time. It also defines the step size RB_DT. The function `begin` computes the
   memory at the start of a run, and `advance` the memory after a step.

   -DRB_VECTOR_WIDTH: detection of the vector width, the largest number of doubles that the processor
   and the operating system support in one operation. */

#include "lanes.h"

#if defined(RB_VECTOR_WIDTH)

#if defined(__x86_64__)
#include <cpuid.h>
#endif

RB_EXPORT int rb_widest(void);

#if defined(__x86_64__)

/* Return the set of registers that the operating system saves (XCR0). */
static unsigned saved_registers(void)
{
    unsigned low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

RB_EXPORT int rb_widest(void)
{
    const unsigned avx = 1u << 28, osxsave = 1u << 27, fma = 1u << 12, movbe = 1u << 22,
                   f16c = 1u << 29;
    /* AVX2 needs BMI1 and BMI2 too */
    const unsigned avx2 = 1u << 5 | 1u << 3 | 1u << 8;
    /* AVX-512 subsets F, DQ, CD, BW, VL */
    const unsigned avx512 = 1u << 16 | 1u << 17 | 1u << 28 | 1u << 30 | 1u << 31;
    const unsigned v3 = avx | osxsave | fma | movbe | f16c;
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || (c & v3) != v3 || (saved_registers() & 6) != 6)
        return 2;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (b & avx2) != avx2)
        return 2;
    return (b & avx512) == avx512 && (saved_registers() & 0xe6) == 0xe6 ? 8 : 4;
}

#else

RB_EXPORT int rb_widest(void)
{
    return 2;
}

#endif

#elif defined(RB_RUNS)

#include "steps.h"

/* Records of n runs. After each `every`-th step, a run records a row of `width` numbers from the
   `places` of its memory. For each run there is also the number of steps before a number was not
   finite, or -1. */
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

/* Return 0 in the lanes whose numbers are all finite, else NaN. */
static inline real not_finite(const real *m)
{
    real sum = lanes(0.0);
    for (int i = 0; i < RB_SIZE; i++)
        sum += m[i] * lanes(0.0);
    return sum;
}

/* Mark failed runs. Returns the number of runs that have not failed. */
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

RB_EXPORT void rb_begin(double *memories, long first, long last);

/* Initialize the runs from `first` to `last` - 1; their memories begin with the time. */
RB_EXPORT void rb_begin(double *memories, long first, long last)
{
    RB_WORKSPACE(RB_LARGE_LANES, real, m, RB_SIZE);
    RB_WORKSPACE(RB_LARGE_LANES, real, next, RB_SIZE);
    for (long at = first; at < last; at += RB_LANES) {
        const int count = last - at < RB_LANES ? (int)(last - at) : RB_LANES;
        read_rows(memories + at * RB_SIZE, RB_SIZE, count, m);
        begin(m, next);
        write_rows(memories + at * RB_SIZE, RB_SIZE, count, next);
    }
}

RB_EXPORT void rb_step(double *memories, long first, long last, unsigned char *failed);

/* Step the runs from `first` to `last` - 1 once, and set `failed` of runs that are not finite. */
RB_EXPORT void rb_step(double *memories, long first, long last, unsigned char *failed)
{
    RB_WORKSPACE(RB_LARGE_LANES, real, m, RB_SIZE);
    RB_WORKSPACE(RB_LARGE_LANES, real, next, RB_SIZE);
    for (long at = first; at < last; at += RB_LANES) {
        const int count = last - at < RB_LANES ? (int)(last - at) : RB_LANES;
        read_rows(memories + at * RB_SIZE, RB_SIZE, count, m);
        advance(m, next);
        const bits bad = is_nan(not_finite(next));
        if (any(bad))
            for (int k = 0; k < count; k++)
                if (bad[k])
                    failed[at + k] = 1;
        write_rows(memories + at * RB_SIZE, RB_SIZE, count, next);
    }
}

RB_EXPORT void rb_run(double *memories, long first, long last, double t, long steps,
                      const struct record *record);

/* Do the runs from `first` to `last` - 1, beginning at t; their memories are contiguous. */
RB_EXPORT void rb_run(double *memories, long first, long last, double t, long steps,
                      const struct record *record)
{
    RB_WORKSPACE(RB_LARGE_LANES, real, m, RB_SIZE);
    RB_WORKSPACE(RB_LARGE_LANES, real, next, RB_SIZE);
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

#else

#include "function.h"

RB_EXPORT void rb_evaluate_rows(const double *const *inputs, double *const *outputs, long first,
                                long last, real *work);

/* Evaluate the rows from `first` to `last` - 1. `work` has room for RB_IN + RB_OUT numbers and the
   workspace of `evaluate`. */
RB_EXPORT void rb_evaluate_rows(const double *const *inputs, double *const *outputs, long first,
                                long last, real *work)
{
    real *in = work, *out = in + RB_IN;
    long row = first;
    for (; row + RB_LANES <= last; row += RB_LANES) {
        RB_READ(RB_LANES)
        evaluate(in, out, out + RB_OUT);
        RB_WRITE(RB_LANES)
    }
    if (row < last) {
        const int count = (int)(last - row);
        RB_READ(count)
        evaluate(in, out, out + RB_OUT);
        RB_WRITE(count)
    }
}

#endif
