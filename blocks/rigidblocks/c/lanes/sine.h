/* Sine and cosine in lanes, computed only by additions, products and comparisons. The error is at
   most 1 ulp. The bits are the same for every number of lanes, compiler and C library.

   The argument reduction subtracts a multiple n of pi/2, so that y is in [-pi/4, pi/4], as the sum
   of two numbers. For moderate angles pi/2 has three parts, and n times the first two is exact
   (Cody and Waite). For large angles only some digits of 2/pi are used (Payne and Hanek 1983). The
   sine and cosine of y are minimax polynomials (Remez). */

#ifndef RB_SINE_H
#define RB_SINE_H

#include <stdint.h>
#include <string.h>

#include "lanes.h"

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
