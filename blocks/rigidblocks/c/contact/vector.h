/* Vectors of three doubles, rotation matrices stored by rows, and pairs of doubles. */

#ifndef RB_VECTOR_H
#define RB_VECTOR_H

#include <float.h>
#include <math.h>
#include <string.h>

/* ---- vectors of three doubles, and rotation matrices of nine doubles by rows ----

   The functions use only sums, products, quotients and square roots, so that every machine computes
   the same bits. Loops are unrolled by hand, because compilers do not unroll such short loops by
   default. */

static inline double rb_dot(const double *a, const double *b)
{
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

static inline double rb_norm(const double *a)
{
    return sqrt(rb_dot(a, a));
}

static inline void rb_cross(const double *a, const double *b, double *out)
{
    const double x = a[1] * b[2] - a[2] * b[1], y = a[2] * b[0] - a[0] * b[2],
                 z = a[0] * b[1] - a[1] * b[0];
    out[0] = x;
    out[1] = y;
    out[2] = z;
}

static inline void rb_subtract(const double *a, const double *b, double *out)
{
    out[0] = a[0] - b[0];
    out[1] = a[1] - b[1];
    out[2] = a[2] - b[2];
}

/* out = a + s b */
static inline void rb_axpy(const double *a, double s, const double *b, double *out)
{
    out[0] = a[0] + s * b[0];
    out[1] = a[1] + s * b[1];
    out[2] = a[2] + s * b[2];
}

static inline void rb_scale(double s, const double *a, double *out)
{
    out[0] = s * a[0];
    out[1] = s * a[1];
    out[2] = s * a[2];
}

/* Return the larger of two numbers, or b if one is NaN. Unlike fmax, this needs no function
   call. */
static inline double rb_max(double a, double b)
{
    return a > b ? a : b;
}

/* Normalize a vector; the zero vector becomes the z axis. Returns the length before. The division
   by the largest component prevents overflow and underflow of the squares. */
static inline double rb_normalize(double *a)
{
    const double most = fmax(fabs(a[0]), fmax(fabs(a[1]), fabs(a[2])));
    if (!(most > 0.0)) {
        a[0] = a[1] = 0.0;
        a[2] = 1.0;
        return 0.0;
    }
    rb_scale(1.0 / most, a, a);
    const double length = rb_norm(a);
    rb_scale(1.0 / length, a, a);
    return most * length;
}

/* out = R a */
static inline void rb_rotate(const double *r, const double *a, double *out)
{
    const double x = rb_dot(r, a), y = rb_dot(r + 3, a), z = rb_dot(r + 6, a);
    out[0] = x;
    out[1] = y;
    out[2] = z;
}

/* out = R^T a */
static inline void rb_rotate_back(const double *r, const double *a, double *out)
{
    const double x = r[0] * a[0] + r[3] * a[1] + r[6] * a[2];
    const double y = r[1] * a[0] + r[4] * a[1] + r[7] * a[2];
    const double z = r[2] * a[0] + r[5] * a[1] + r[8] * a[2];
    out[0] = x;
    out[1] = y;
    out[2] = z;
}

/* out = A B */
static inline void rb_multiply3(const double *a, const double *b, double *out)
{
    double c[9];
    for (int i = 0; i < 9; i += 3) {
        c[i] = a[i] * b[0] + a[i + 1] * b[3] + a[i + 2] * b[6];
        c[i + 1] = a[i] * b[1] + a[i + 1] * b[4] + a[i + 2] * b[7];
        c[i + 2] = a[i] * b[2] + a[i + 1] * b[5] + a[i + 2] * b[8];
    }
    memcpy(out, c, sizeof c);
}

/* Pose of a frame: rotation matrix by rows, and position. */
struct rb_pose {
    double r[9], p[3];
};

/* Return the pose that twelve numbers of a table contain. */
static inline const struct rb_pose *rb_pose_of(const double *numbers)
{
    return (const struct rb_pose *)numbers;
}

/* Compute two unit vectors that form a right-handed frame with the unit vector n: u = n x e, v = n
   x u. The axis e belongs to the smallest component of n, so that n x e is far from zero. */
static inline void rb_tangent_basis(const double *n, double *u, double *v)
{
    const double x = fabs(n[0]), y = fabs(n[1]), z = fabs(n[2]);
    const double e[3] = {x <= y && x <= z, y < x && y <= z, z < x && z < y};
    rb_cross(n, e, u);
    rb_normalize(u);
    rb_cross(n, u, v);
}

/* Return a number from 0 to 4 that increases with the angle of (x, y), without trigonometry:

     1 - x / (|x| + |y|) for y >= 0,   3 + x / (|x| + |y|) for y < 0 */
static inline double rb_pseudo_angle(double x, double y)
{
    const double whole = fabs(x) + fabs(y) + DBL_MIN;
    return y >= 0.0 ? 1.0 - x / whole : 3.0 + x / whole;
}

static inline double rb_clamp(double x, double low, double high)
{
    return x < low ? low : (x > high ? high : x);
}

/* ---- pairs of doubles ----

   Each component has the same result as the scalar operation, so all compilers and processors
   compute the same bits. */

#if defined(__GNUC__)
typedef double rb_pair __attribute__((vector_size(16)));
#else
typedef struct {
    double x, y;
} rb_pair;
#endif

static inline rb_pair rb_pair_make(double x, double y)
{
    const rb_pair a = {x, y};
    return a;
}

static inline rb_pair rb_pair_both(double x)
{
    return rb_pair_make(x, x);
}

#if defined(__GNUC__)
static inline double rb_pair_first(rb_pair a)
{
    return a[0];
}

static inline double rb_pair_second(rb_pair a)
{
    return a[1];
}

static inline rb_pair rb_pair_add(rb_pair a, rb_pair b)
{
    return a + b;
}

static inline rb_pair rb_pair_subtract(rb_pair a, rb_pair b)
{
    return a - b;
}

static inline rb_pair rb_pair_multiply(rb_pair a, rb_pair b)
{
    return a * b;
}
#else
static inline double rb_pair_first(rb_pair a)
{
    return a.x;
}

static inline double rb_pair_second(rb_pair a)
{
    return a.y;
}

static inline rb_pair rb_pair_add(rb_pair a, rb_pair b)
{
    return rb_pair_make(a.x + b.x, a.y + b.y);
}

static inline rb_pair rb_pair_subtract(rb_pair a, rb_pair b)
{
    return rb_pair_make(a.x - b.x, a.y - b.y);
}

static inline rb_pair rb_pair_multiply(rb_pair a, rb_pair b)
{
    return rb_pair_make(a.x * b.x, a.y * b.y);
}
#endif

/* y += s x for n numbers. */
static inline void rb_axpy_n(int n, double s, const double *x, double *y)
{
    int i = 0;
    for (; i + 1 < n; i += 2) {
        const rb_pair sum =
            rb_pair_add(rb_pair_make(y[i], y[i + 1]),
                        rb_pair_multiply(rb_pair_both(s), rb_pair_make(x[i], x[i + 1])));
        y[i] = rb_pair_first(sum);
        y[i + 1] = rb_pair_second(sum);
    }
    if (i < n)
        y[i] += s * x[i];
}

#endif
