/* A block as a shared library: its step on a memory that the caller owns. */

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

EXPORT int block_initialize(double *m, double t)
{
    return initialize(m, t);
}

EXPORT int block_step(double *m, double t, double dt)
{
    return step(m, t, dt);
}

/* n steps from t, the memory after each kept as a row of SIZE; stops at the first that fails. */
EXPORT int block_run(double *m, double t, double dt, int n, double *rows, int *done)
{
    for (*done = 0; *done < n; (*done)++) {
        const int status = step(m, t + *done * dt, dt);
        if (status != STEP_OK)
            return status;
        store(rows + (size_t)*done * SIZE, m, SIZE);
    }
    return STEP_OK;
}
