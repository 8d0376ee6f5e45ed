/* Kernel of a block that counts the evaluations of the derivative, and this derivative with the
   interfaces of other solvers. */
#include "model_interface.h"

static long evaluations;

static inline void counted(const double *in, double *out)
{
    evaluations++;
    derivative(in, out);
}

#if RB_EXACT_SLOPES
static inline void counted_slopes(const double *in, double *out)
{
    evaluations += RB_NX; /* an exact Jacobian costs about as much as RB_NX derivatives */
    rate_slopes(in, out);
}
#define rate_slopes counted_slopes
#endif
#define derivative counted

#include "kernel.c"

/* Serial vector of SUNDIALS. */
typedef struct {
    long long length;
    int own;
    double *data;
} Content;
typedef struct {
    Content *content;
} Vector;

static double memory[RB_SIZE];

RB_EXPORT long counts(void);
RB_EXPORT void take(const double *m);
RB_EXPORT int rates(double t, const double *x, double *to);
RB_EXPORT int cvode_rates(double t, const Vector *x, Vector *to, void *user);
RB_EXPORT void tolerate(double rtol, const double *atol, double close);

/* Return the number of evaluations since the last call. */
RB_EXPORT long counts(void)
{
    const long n = evaluations;
    evaluations = 0;
    return n;
}

/* Store a block's memory; the derivative uses its inputs and parameters. */
RB_EXPORT void take(const double *m)
{
    store(memory, m, RB_SIZE);
}

RB_EXPORT int rates(double t, const double *x, double *to)
{
    memory[RB_T] = t;
    store(memory + RB_X, x, RB_NX);
    derivative(memory, to);
    return 0;
}

RB_EXPORT int cvode_rates(double t, const Vector *x, Vector *to, void *user)
{
    (void)user;
    return rates(t, x->content->data, to->content->data);
}

/* Set the tolerance of the steps; in this build, model.h defines it as variables. */
RB_EXPORT void tolerate(double rtol, const double *atol, double close)
{
#if RB_ADAPTIVE
    RB_RTOL = rtol;
    store(RB_ATOL, atol, RB_NX);
#endif
#if RB_ADAPTIVE && RB_COLLOCATION
    RB_NEWTON_CLOSE = close;
#endif
    (void)rtol, (void)atol, (void)close;
}
