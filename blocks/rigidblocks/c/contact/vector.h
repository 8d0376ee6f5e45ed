/* Vectors of three doubles and rotations of nine, by rows. Sums, products, quotients and square
   roots alone, so that every machine computes the same. Written out: compilers leave such short
   loops as they are unless told to make much code of all. */

#ifndef RB_VECTOR_H
#define RB_VECTOR_H

#include <float.h>
#include <math.h>
#include <string.h>

static inline double dot(const double *a, const double *b)
{
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

static inline double norm(const double *a)
{
    return sqrt(dot(a, a));
}

static inline void cross(const double *a, const double *b, double *out)
{
    const double x = a[1] * b[2] - a[2] * b[1], y = a[2] * b[0] - a[0] * b[2],
                 z = a[0] * b[1] - a[1] * b[0];
    out[0] = x;
    out[1] = y;
    out[2] = z;
}

static inline void difference(const double *a, const double *b, double *out)
{
    out[0] = a[0] - b[0];
    out[1] = a[1] - b[1];
    out[2] = a[2] - b[2];
}

/* a + s b */
static inline void along(const double *a, double s, const double *b, double *out)
{
    out[0] = a[0] + s * b[0];
    out[1] = a[1] + s * b[1];
    out[2] = a[2] + s * b[2];
}

static inline void times(double s, const double *a, double *out)
{
    out[0] = s * a[0];
    out[1] = s * a[1];
    out[2] = s * a[2];
}

/* The larger of two numbers, without a call. */
static inline double more_of(double a, double b)
{
    return a > b ? a : b;
}

/* To length 1; a vector that has none becomes z. Returns the length. */
static inline double normalize(double *a)
{
    const double most = fmax(fabs(a[0]), fmax(fabs(a[1]), fabs(a[2])));
    if (!(most > 0.0)) {
        a[0] = a[1] = 0.0;
        a[2] = 1.0;
        return 0.0;
    }
    times(1.0 / most, a, a);
    const double length = norm(a);
    times(1.0 / length, a, a);
    return most * length;
}

/* R a */
static inline void turn(const double *r, const double *a, double *out)
{
    const double x = dot(r, a), y = dot(r + 3, a), z = dot(r + 6, a);
    out[0] = x;
    out[1] = y;
    out[2] = z;
}

/* R^T a */
static inline void turn_back(const double *r, const double *a, double *out)
{
    const double x = r[0] * a[0] + r[3] * a[1] + r[6] * a[2];
    const double y = r[1] * a[0] + r[4] * a[1] + r[7] * a[2];
    const double z = r[2] * a[0] + r[5] * a[1] + r[8] * a[2];
    out[0] = x;
    out[1] = y;
    out[2] = z;
}

/* A B */
static inline void product(const double *a, const double *b, double *out)
{
    double c[9];
    for (int i = 0; i < 9; i += 3) {
        c[i] = a[i] * b[0] + a[i + 1] * b[3] + a[i + 2] * b[6];
        c[i + 1] = a[i] * b[1] + a[i + 1] * b[4] + a[i + 2] * b[7];
        c[i + 2] = a[i] * b[2] + a[i + 1] * b[5] + a[i + 2] * b[8];
    }
    memcpy(out, c, sizeof c);
}

/* Two unit vectors across a unit vector, the three of them right-handed. */
static inline void across(const double *n, double *u, double *v)
{
    const double x = fabs(n[0]), y = fabs(n[1]), z = fabs(n[2]);
    const double e[3] = {x <= y && x <= z, y < x && y <= z, z < x && z < y};
    cross(n, e, u);
    normalize(u);
    cross(n, u, v);
}

/* What grows with the angle of (x, y), from 0 to 4, without trigonometry. */
static inline double turn_about(double x, double y)
{
    const double whole = fabs(x) + fabs(y) + DBL_MIN;
    return y >= 0.0 ? 1.0 - x / whole : 3.0 + x / whole;
}

static inline double limited(double x, double low, double high)
{
    return x < low ? low : (x > high ? high : x);
}

#endif
