/* A block as a shared library: its step on a memory that the caller owns. */

#include <float.h>

#include "model.h"
#include "step.h"

#if defined(_WIN32)
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif

EXPORT int block_initialize(double *m, double t);
EXPORT int block_step(double *m, double t, double dt);
EXPORT int block_run(double *m, double t, double dt, int n, double *rows, int *done);
EXPORT int block_try_step(double *request);

EXPORT int block_initialize(double *m, double t)
{
    return initialize(m, t);
}

EXPORT int block_step(double *m, double t, double dt)
{
    return step(m, t, dt, NULL);
}

/* n steps from t, the memory after each kept as a row of SIZE; stops at the first that fails. */
EXPORT int block_run(double *m, double t, double dt, int n, double *rows, int *done)
{
    for (*done = 0; *done < n; (*done)++) {
        const int status = step(m, t + *done * dt, dt, NULL);
        if (status != STEP_OK)
            return status;
        store(rows + (size_t)*done * SIZE, m, SIZE);
    }
    return STEP_OK;
}

/* The step that `request` = [t, dt, end of the run | memory] asks for. Unless it succeeds the memory stays as it was. A
   memory that is not at t, a step beyond the end and one of more than 1e9 inner steps do not fit. */
EXPORT int block_try_step(double *request)
{
    const double t = request[0], dt = request[1], end = request[2];
    double before[SIZE], *m = request + 3;
    const double rounding = 1e-6 * dt + 4.0 * DBL_EPSILON * fabs(m[T]);
    if (!(fabs(t - m[T]) <= rounding && t + dt <= end + rounding && dt > 0.0 && dt < 1e9 * INNER_STEP))
        return STEP_DOES_NOT_FIT;
    store(before, m, SIZE);
    const int status = step(m, t, dt, NULL);
    if (status != STEP_OK)
        store(m, before, SIZE);
    return status;
}
