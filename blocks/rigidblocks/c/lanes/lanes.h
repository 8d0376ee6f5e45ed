/* Vectors with one number for each lane, and transposition from and to rows. */

#ifndef RB_LANES_H
#define RB_LANES_H

#include <math.h>
#include <string.h>

/* ---- arithmetic: `real` is RB_LANES doubles ----

   No operation mixes lanes, and each operation is rounded by IEEE 754. A lane therefore has the
   same bits for any number of lanes. */

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

typedef double real __attribute__((vector_size(8 * RB_LANES)));
typedef long long bits __attribute__((vector_size(8 * RB_LANES)));

/* Return a vector with the same number in all lanes. */
static inline real lanes(double x)
{
    return x - (real){0.0}; /* keeps the sign of zero */
}

static inline bits all_bits(long long x)
{
    return x - (bits){0};
}

/* Convert the mask of a comparison to 1.0 or 0.0. */
static inline real truth(bits mask)
{
    return (real)(mask & (bits)lanes(1.0));
}

/* Return a in the lanes of the mask, and b in the others. */
static inline real choice(bits mask, real a, real b)
{
    return (real)((mask & (bits)a) | (~mask & (bits)b));
}

/* Return a in the lanes of the mask, and 0 in the others. */
static inline real masked(bits mask, real a)
{
    return (real)(mask & (bits)a);
}

static inline int any(bits mask)
{
#if RB_LANES == 8 && defined(__AVX512DQ__)
    return _mm512_movepi64_mask((__m512i)mask) != 0;
#elif RB_LANES == 4 && defined(__AVX__)
    return _mm256_movemask_pd((__m256d)mask) != 0;
#elif RB_LANES == 2 && defined(__x86_64__)
    return _mm_movemask_pd((__m128d)mask) != 0;
#else
    long long some = 0;
    for (int k = 0; k < RB_LANES; k++)
        some |= mask[k];
    return some != 0;
#endif
}

/* Apply a C library function to each lane. */
static inline real each(double (*function)(double), real x)
{
    real y = x;
    for (int k = 0; k < RB_LANES; k++)
        y[k] = function(x[k]);
    return y;
}

static inline real each_of_two(double (*function)(double, double), real x, real y)
{
    real z = x;
    for (int k = 0; k < RB_LANES; k++)
        z[k] = function(x[k], y[k]);
    return z;
}

static inline real square_root(real x)
{
#if RB_LANES == 8 && defined(__AVX512F__)
    return (real)_mm512_sqrt_pd((__m512d)x);
#elif RB_LANES == 4 && defined(__AVX__)
    return (real)_mm256_sqrt_pd((__m256d)x);
#elif RB_LANES == 2 && defined(__x86_64__)
    return (real)_mm_sqrt_pd((__m128d)x);
#elif RB_LANES == 2 && defined(__aarch64__)
    return (real)vsqrtq_f64((float64x2_t)x);
#else
    return each(sqrt, x);
#endif
}

static inline real rounded_down(real x)
{
#if RB_LANES == 8 && defined(__AVX512F__)
    return (real)_mm512_roundscale_pd((__m512d)x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
#elif RB_LANES == 4 && defined(__AVX__)
    return (real)_mm256_floor_pd((__m256d)x);
#elif RB_LANES == 2 && defined(__aarch64__)
    return (real)vrndmq_f64((float64x2_t)x);
#else
    return each(floor, x);
#endif
}

static inline real rounded_up(real x)
{
    return -rounded_down(-x);
}

static inline real magnitude(real x)
{
    return (real)((bits)x & all_bits(0x7fffffffffffffffLL));
}

static inline bits is_nan(real x)
{
    return ~(bits)(magnitude(x) <= lanes(INFINITY));
}

/* Return the smaller or the larger of two numbers; NaN if one of them is NaN. */
static inline real minimum(real a, real b)
{
    return choice((bits)(a < b) | is_nan(a), a, b);
}

static inline real maximum(real a, real b)
{
    return choice((bits)(a > b) | is_nan(a), a, b);
}

static inline real sign(real x)
{
    return choice((bits)(x > lanes(0.0)), lanes(1.0), masked((bits)(x < lanes(0.0)), lanes(-1.0)));
}

/* ---- transposition: a contiguous row in memory corresponds to one lane ---- */

#if defined(_WIN32)
#define RB_EXPORT __declspec(dllexport)
#else
#define RB_EXPORT __attribute__((visibility("default")))
#endif

typedef double anywhere __attribute__((vector_size(8 * RB_LANES), aligned(8), may_alias));

#if defined(__clang__) || __GNUC__ >= 12
#define RB_MIX(x, y, ...) __builtin_shufflevector(x, y, __VA_ARGS__)
#else
#define RB_MIX(x, y, ...) __builtin_shuffle(x, y, (bits){__VA_ARGS__})
#endif

/* Exchange the off-diagonal squares of 1, 2 or 4 numbers between two rows. */
#define RB_EXCHANGE(name, first, second)      \
    static inline void name(real *a, real *b) \
    {                                         \
        const real x = *a, y = *b;            \
        *a = RB_MIX(x, y, RB_UNPACK first);   \
        *b = RB_MIX(x, y, RB_UNPACK second);  \
    }
#define RB_UNPACK(...) __VA_ARGS__

/* Transpose RB_LANES rows in place. */
#if RB_LANES == 2
RB_EXCHANGE(exchange1, (0, 2), (1, 3))

static inline void transpose(real *r)
{
    exchange1(r, r + 1);
}
#elif RB_LANES == 4
RB_EXCHANGE(exchange1, (0, 4, 2, 6), (1, 5, 3, 7))
RB_EXCHANGE(exchange2, (0, 1, 4, 5), (2, 3, 6, 7))

static inline void transpose(real *r)
{
    exchange1(r, r + 1);
    exchange1(r + 2, r + 3);
    exchange2(r, r + 2);
    exchange2(r + 1, r + 3);
}
#else
RB_EXCHANGE(exchange1, (0, 8, 2, 10, 4, 12, 6, 14), (1, 9, 3, 11, 5, 13, 7, 15))
RB_EXCHANGE(exchange2, (0, 1, 8, 9, 4, 5, 12, 13), (2, 3, 10, 11, 6, 7, 14, 15))
RB_EXCHANGE(exchange4, (0, 1, 2, 3, 8, 9, 10, 11), (4, 5, 6, 7, 12, 13, 14, 15))

static inline void transpose(real *r)
{
    exchange1(r, r + 1);
    exchange1(r + 2, r + 3);
    exchange1(r + 4, r + 5);
    exchange1(r + 6, r + 7);
    exchange2(r, r + 2);
    exchange2(r + 1, r + 3);
    exchange2(r + 4, r + 6);
    exchange2(r + 5, r + 7);
    exchange4(r, r + 4);
    exchange4(r + 1, r + 5);
    exchange4(r + 2, r + 6);
    exchange4(r + 3, r + 7);
}
#endif

/* Return the first column of the square that contains column j. The last square overlaps the one
   before it, so that it does not read beyond the rows. */
static inline int square_at(int j, int size)
{
    return size < RB_LANES || j + RB_LANES <= size ? j : size - RB_LANES;
}

/* Read `count` rows of `size` numbers at `first` into lanes; unused lanes repeat the last row. The
   function works in squares. A square of short rows includes numbers of the next row, but the
   function never reads beyond the last row. */
static inline void read_rows(const double *first, int size, int count, real *in)
{
    const int here = size < RB_LANES ? size : RB_LANES;
    for (int j = 0; j < size; j += RB_LANES) {
        real square[RB_LANES];
        for (int k = 0; k < RB_LANES; k++) {
            const long at = (long)(k < count ? k : count - 1) * size + square_at(j, size);
            double row[RB_LANES] = {0.0};
            if (size >= RB_LANES || at + RB_LANES <= (long)count * size)
                square[k] = *(const anywhere *)(first + at);
            else {
                memcpy(row, first + at, (size_t)here * sizeof *row);
                square[k] = *(const anywhere *)row;
            }
        }
        transpose(square);
        for (int i = 0; i < here; i++)
            in[square_at(j, size) + i] = square[i];
    }
}

/* Write lanes back to rows. Values beyond the end of a short row are overwritten by the next
   row. */
static inline void write_rows(double *first, int size, int count, const real *out)
{
    const int here = size < RB_LANES ? size : RB_LANES;
    for (int j = 0; j < size; j += RB_LANES) {
        real square[RB_LANES];
        for (int i = 0; i < RB_LANES; i++) {
            const int at = square_at(j, size) + i;
            square[i] = out[at < size ? at : size - 1];
        }
        transpose(square);
        for (int k = 0; k < count; k++) {
            const long at = (long)k * size + square_at(j, size);
            if (size >= RB_LANES || at + RB_LANES <= (long)count * size)
                *(anywhere *)(first + at) = square[k];
            else
                memcpy(first + at, square + k, (size_t)here * sizeof *first);
        }
    }
}

#endif
