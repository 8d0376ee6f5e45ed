/* Numbers in lanes: `real` is RB_LANES doubles, on which the operations of C work lane by lane.

   No operation mixes lanes, and each is rounded as IEEE 754 says, so a lane has the same bits
   whatever the number of lanes. */

#ifndef RB_LANES_H
#define RB_LANES_H

#include <math.h>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

typedef double real __attribute__((vector_size(8 * RB_LANES)));
typedef long long bits __attribute__((vector_size(8 * RB_LANES)));

/* One number in all lanes. */
static inline real lanes(double x)
{
    return x - (real){0.0}; /* keeps the sign of zero */
}

static inline bits all_bits(long long x)
{
    return x - (bits){0};
}

/* What a comparison says, as 1.0 or 0.0. */
static inline real truth(bits mask)
{
    return (real)(mask & (bits)lanes(1.0));
}

/* a where the mask has ones, else b. */
static inline real choice(bits mask, real a, real b)
{
    return (real)((mask & (bits)a) | (~mask & (bits)b));
}

/* a where the mask has ones, else 0. */
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

/* A function of the C library, lane by lane. */
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

/* The smaller and the larger of two, NaN where one of them is. */
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

#endif
