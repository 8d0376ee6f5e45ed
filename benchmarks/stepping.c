/* C loops that step models: n steps of dt from t. If `ns` is not NULL, it receives the time of each
   step [ns], including the time to read the clock. Each loop returns the number of steps taken and
   ends if a step fails. */
#define _POSIX_C_SOURCE 199309L
#include <stdbool.h>
#include <stddef.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))

enum { LIMIT = 64, OK = 0 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

#define STEPS(call)                             \
    for (int k = 0; k < n; k++) {               \
        const double before = ns ? now() : 0.0; \
        if ((call) != OK)                       \
            return k;                           \
        if (ns)                                 \
            ns[k] = now() - before;             \
    }                                           \
    return n

typedef int (*Kernel)(double *, double, double);
typedef int (*DoStep2)(void *, double, double, int);
typedef int (*DoStep3)(void *, double, double, bool, bool *, bool *, bool *, double *);

EXPORT int nothing(void *step, void *m, double t, double dt, int n, double *ns);
EXPORT int integers(void *rounds, void *m, double t, double dt, int n, double *ns);
EXPORT int kernel(void *step, void *m, double t, double dt, int n, double *ns);
EXPORT int fmi2(void *step, void *instance, double t, double dt, int n, double *ns);
EXPORT int fmi3(void *step, void *instance, double t, double dt, int n, double *ns);
EXPORT int exchange(void *functions, void *instance, double t, double dt, int n, double *ns);

/* Empty steps, which measure the time to read the clock. */
EXPORT int nothing(void *step, void *m, double t, double dt, int n, double *ns)
{
    (void)step, (void)m, (void)t, (void)dt;
    STEPS(OK);
}

static int multiplied(int rounds)
{
    volatile unsigned x = 1;
    for (int i = 0; i < rounds; i++)
        x = 3 * x + 1;
    return OK;
}

/* The same integer operations in each step; variations of the time are due to the machine. */
EXPORT int integers(void *rounds, void *m, double t, double dt, int n, double *ns)
{
    (void)m, (void)t, (void)dt;
    STEPS(multiplied(*(int *)rounds));
}

EXPORT int kernel(void *step, void *m, double t, double dt, int n, double *ns)
{
    const Kernel f = *(Kernel *)step;
    STEPS(f(m, t + k * dt, dt));
}

EXPORT int fmi2(void *step, void *instance, double t, double dt, int n, double *ns)
{
    const DoStep2 f = *(DoStep2 *)step;
    STEPS(f(instance, t + k * dt, dt, 1));
}

EXPORT int fmi3(void *step, void *instance, double t, double dt, int n, double *ns)
{
    const DoStep3 f = *(DoStep3 *)step;
    bool event, terminate, early;
    double last;
    STEPS(f(instance, t + k * dt, dt, true, &event, &terminate, &early, &last));
}

/* FMU for model exchange of FMI 3.0, with the number of its states. */
typedef struct {
    int (*set_time)(void *, double);
    int (*set_states)(void *, const double *, size_t);
    int (*get_states)(void *, double *, size_t);
    int (*get_rates)(void *, double *, size_t);
    size_t nx;
} Exchange;

static int rates(const Exchange *f, void *instance, double t, const double *x, double *k)
{
    return f->set_time(instance, t) | f->set_states(instance, x, f->nx) |
           f->get_rates(instance, k, f->nx);
}

/* RK4 step that the host computes. */
static int rk4(const Exchange *f, void *instance, double t, double h)
{
    static const double C[] = {0.0, 0.5, 0.5, 1.0}, B[] = {1.0 / 6, 1.0 / 3, 1.0 / 3, 1.0 / 6};
    double x[LIMIT], stage[LIMIT], sum[LIMIT] = {0}, k[LIMIT] = {0};
    int status = f->get_states(instance, x, f->nx);
    for (int s = 0; s < 4; s++) {
        for (size_t i = 0; i < f->nx; i++)
            stage[i] = x[i] + C[s] * h * k[i];
        status |= rates(f, instance, t + C[s] * h, stage, k);
        for (size_t i = 0; i < f->nx; i++)
            sum[i] += B[s] * k[i];
    }
    for (size_t i = 0; i < f->nx; i++)
        x[i] += h * sum[i];
    return status | f->set_time(instance, t + h) | f->set_states(instance, x, f->nx);
}

EXPORT int exchange(void *functions, void *instance, double t, double dt, int n, double *ns)
{
    STEPS(rk4(functions, instance, t + k * dt, dt));
}
