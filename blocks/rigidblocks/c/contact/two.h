/* Two numbers at once. Each is what it would be alone, so all compilers and processors compute the
   same. */

#ifndef RB_TWO_H
#define RB_TWO_H

#if defined(__GNUC__)
typedef double two __attribute__((vector_size(16)));
#else
typedef struct {
    double x, y;
} two;
#endif

static inline two pair_of(double x, double y)
{
    const two a = {x, y};
    return a;
}

static inline two both(double x)
{
    return pair_of(x, x);
}

#if defined(__GNUC__)
static inline double first_of(two a)
{
    return a[0];
}

static inline double second_of(two a)
{
    return a[1];
}

static inline two plus_two(two a, two b)
{
    return a + b;
}

static inline two minus_two(two a, two b)
{
    return a - b;
}

static inline two times_two(two a, two b)
{
    return a * b;
}
#else
static inline double first_of(two a)
{
    return a.x;
}

static inline double second_of(two a)
{
    return a.y;
}

static inline two plus_two(two a, two b)
{
    return pair_of(a.x + b.x, a.y + b.y);
}

static inline two minus_two(two a, two b)
{
    return pair_of(a.x - b.x, a.y - b.y);
}

static inline two times_two(two a, two b)
{
    return pair_of(a.x * b.x, a.y * b.y);
}
#endif

/* y + s x, of n numbers. */
static inline void add_times(int n, double s, const double *x, double *y)
{
    int i = 0;
    for (; i + 1 < n; i += 2) {
        const two sum =
            plus_two(pair_of(y[i], y[i + 1]), times_two(both(s), pair_of(x[i], x[i + 1])));
        y[i] = first_of(sum);
        y[i + 1] = second_of(sum);
    }
    if (i < n)
        y[i] += s * x[i];
}

#endif
