/* Vectors with one number for each lane: arithmetic, transposition from and to rows, sine and
   cosine. */

#ifndef RB_LANES_H
#define RB_LANES_H

#include <math.h>
#include <stdint.h>
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

/* ---- sine and cosine ----

   Sine and cosine in lanes, computed only by additions, products and comparisons. The error is at
   most 1 ulp. The bits are the same for every number of lanes, compiler and C library.

   The argument reduction subtracts a multiple n of pi/2, so that y is in [-pi/4, pi/4], as the sum
   of two numbers. For moderate angles pi/2 has three parts, and n times the first two is exact
   (Cody and Waite). For large angles only some digits of 2/pi are used (Payne and Hanek 1983). The
   sine and cosine of y are minimax polynomials (Remez). */

#define RB_LARGE_ANGLE 102943.0 /* for smaller angles n < 2^16 */

/* Fractional digits of 2/pi in base 2^32. */
static const uint32_t RB_TWO_OVER_PI[] = {
    0xa2f9836e, 0x4e441529, 0xfc2757d1, 0xf534ddc0, 0xdb629599, 0x3c439041, 0xfe5163ab,
    0xdebbc561, 0xb7246e3a, 0x424dd2e0, 0x06492eea, 0x09d1921c, 0xfe1deb1c, 0xb129a73e,
    0xe88235f5, 0x2ebb4484, 0xe99c7026, 0xb45f7e41, 0x3991d639, 0x835339f4, 0x9c845f8b,
    0xbdf9283b, 0x1ff897ff, 0xde05980f, 0xef2f118b, 0x5a0a6d1f, 0x6d367ecf, 0x27cb09b7,
    0x4f463f66, 0x9e5fea2d, 0x7527bac7, 0xebe5f17b, 0x3d0739f7, 0x8a5292ea, 0x6bfb5fb1,
    0x1f8d5d08, 0x56033046, 0xfc7b6bab, 0xf0cfbc20, 0x9af4361d, 0xa9e39161, 0x5ee61b08};

enum { RB_DIGITS = 7, RB_PRODUCT = RB_DIGITS + 2 };

/* Multiply the mantissa of x by the digits of 2/pi; leading digits that add only whole turns are
   left out. The lowest digit of the product is first. Returns the number of fractional bits of the
   product. */
static inline int turns(double x, uint32_t product[RB_PRODUCT])
{
    uint64_t mantissa;
    memcpy(&mantissa, &x, sizeof mantissa);
    const int exponent = (int)(mantissa >> 52 & 0x7ff) - 1075,
              first = exponent < 34 ? 0 : (exponent - 2) / 32;
    mantissa = (mantissa & 0xfffffffffffffULL) | 0x10000000000000ULL;
    const uint32_t factor[2] = {(uint32_t)mantissa, (uint32_t)(mantissa >> 32)};
    memset(product, 0, RB_PRODUCT * sizeof *product);
    for (int i = 0; i < RB_DIGITS; i++) {
        uint64_t carry = 0;
        for (int j = 0; j < 2; j++) {
            carry +=
                (uint64_t)RB_TWO_OVER_PI[first + RB_DIGITS - 1 - i] * factor[j] + product[i + j];
            product[i + j] = (uint32_t)carry;
            carry >>= 32;
        }
        product[i + 2] = (uint32_t)carry;
    }
    return 32 * (first + RB_DIGITS) - exponent;
}

static inline int bit(const uint32_t *product, int k)
{
    return (int)(product[k / 32] >> k % 32 & 1);
}

/* Compute the fractional part of a product as hi + lo. If `is_nearer` is 1, compute the distance to
   the next integer instead. */
static inline void fraction(const uint32_t *product, int after, int is_nearer, double *hi,
                            double *lo)
{
    const int top = after / 32;
    uint32_t digits[RB_PRODUCT];
    uint64_t carry = (uint64_t)is_nearer;
    for (int i = 0; i <= top; i++) {
        carry += is_nearer ? ~product[i] : product[i];
        digits[i] = (uint32_t)carry;
        carry >>= 32;
    }
    digits[top] &= (1U << after % 32) - 1U;
    *hi = *lo = 0.0;
    for (int i = top; i >= 0; i--) {
        const double digit = ldexp((double)digits[i], 32 * i - after), sum = *hi + digit;
        *lo += digit - (sum - *hi);
        *hi = sum;
    }
}

/* Compute y0 + y1 = (hi + lo) pi/2 in double-double arithmetic (Dekker 1971). */
static inline void reduce_to_radians(double hi, double lo, double *y0, double *y1)
{
    const double half_pi = 0x1.921fb54442d18p+0, rest = 0x1.1a62633145c07p-54,
                 splitter = 134217729.0;
    const double a = splitter * hi, a1 = a - (a - hi), a2 = hi - a1;
    const double b = splitter * half_pi, b1 = b - (b - half_pi), b2 = half_pi - b1;
    const double product = hi * half_pi;
    const double error = ((a1 * b1 - product) + a1 * b2 + a2 * b1) + a2 * b2;
    const double small = error + (hi * rest + lo * half_pi);
    *y0 = product + small;
    *y1 = (product - *y0) + small;
}

/* Reduce the lanes with a large or non-finite angle to y0 + y1. n receives the multiple of pi/2
   modulo 4. */
#if defined(__GNUC__)
__attribute__((noinline, cold))
#endif
static void reduce_large(const real *x, real *y0, real *y1, bits *n)
{
    for (int k = 0; k < RB_LANES; k++) {
        const double one = (*x)[k], size = fabs(one);
        uint32_t product[RB_PRODUCT];
        double hi, lo, first, second;
        if (size <= RB_LARGE_ANGLE)
            continue;
        if (!isfinite(one)) {
            (*y0)[k] = (*y1)[k] = one - one;
            continue;
        }
        const int after = turns(size, product), is_nearer = bit(product, after - 1);
        const int quarter = 2 * bit(product, after + 1) + bit(product, after) + is_nearer;
        fraction(product, after, is_nearer, &hi, &lo);
        reduce_to_radians(hi, lo, &first, &second);
        const int turned = is_nearer != (one < 0.0);
        (*y0)[k] = turned ? -first : first;
        (*y1)[k] = turned ? -second : second;
        (*n)[k] = one < 0.0 ? -quarter : quarter;
    }
}

/* Reduce x to y0 + y1, where x = y0 + y1 + n pi/2; only the two lowest bits of n are valid. */
static inline void reduce(real x, real *y0, real *y1, bits *n)
{
    const real shift = lanes(0x1.8p52);
    const real shifted = x * lanes(0x1.45f306dc9c883p-1) + shift, multiple = shifted - shift;
    const real a = x - multiple * lanes(0x1.921fb5444p+0),
               part = multiple * lanes(0x1.68c234c4cp-39), b = a - part;
    const real rest = multiple * lanes(0x1.98a2e03707345p-77) - ((a - b) - part);
    *y0 = b - rest;
    *y1 = (b - *y0) - rest;
    *n = (bits)shifted;
    const bits large = ~(bits)(magnitude(x) <= lanes(RB_LARGE_ANGLE));
    if (any(large)) { /* copies, so that the other variables can stay in registers */
        real angle = x, first = *y0, second = *y1;
        bits quarters = *n;
        reduce_large(&angle, &first, &second, &quarters);
        *y0 = first;
        *y1 = second;
        *n = quarters;
    }
}

static inline void sine_and_cosine(real x, real *sine, real *cosine)
{
    real y, y1;
    bits n;
    reduce(x, &y, &y1, &n);
    const real z = y * y, zz = z * z, half = lanes(0.5) * z;
    const real s = (lanes(0.008333333333322425) + z * lanes(-0.0001984126982981689)) +
                   zz * ((lanes(2.7557313695203547e-06) + z * lanes(-2.5050758649361573e-08)) +
                         zz * lanes(1.58968276853781e-10));
    const real c = (lanes(0.0416666666666666) + z * lanes(-0.0013888888888874138)) +
                   zz * ((lanes(2.480158728949173e-05) + z * lanes(-2.7557314355212555e-07)) +
                         zz * (lanes(2.0875723680331648e-09) + z * lanes(-1.1359669648916148e-11)));
    const real cube = z * y, one = lanes(1.0), w = one - half;
    const real sin_y =
        y - ((z * (lanes(0.5) * y1 - cube * s) - y1) - cube * lanes(-0.16666666666666632));
    const real cos_y = w + (((one - w) - half) + (zz * c - y * y1));
    /* for odd n, sine and cosine exchange places; the sign of the sine changes for n = 2, 3, that
       of the cosine for n = 1, 2 (modulo 4) */
    const bits exchanged = -(n & all_bits(1)) & ((bits)sin_y ^ (bits)cos_y),
               top = all_bits((long long)(1ULL << 63));
    *sine = (real)((bits)sin_y ^ exchanged ^ (n << 62 & top));
    *cosine = (real)((bits)cos_y ^ exchanged ^ ((n + all_bits(1)) << 62 & top));
}

static inline real sine_of(real x)
{
    real sine, cosine;
    sine_and_cosine(x, &sine, &cosine);
    return sine;
}

static inline real cosine_of(real x)
{
    real sine, cosine;
    sine_and_cosine(x, &sine, &cosine);
    return cosine;
}

#endif
