/* A block as a shared library: its step on a memory that the caller owns. */

#include "step.h"

#if defined(_WIN32)
#define RB_EXPORT __declspec(dllexport)
#else
#define RB_EXPORT __attribute__((visibility("default")))
#endif

RB_EXPORT int block_initialize(double *m, double t);
RB_EXPORT int block_refusal(const double *request);
RB_EXPORT int block_step(double *m, double t, double dt);
RB_EXPORT int block_part(double *m, double t, double end, int samples);
RB_EXPORT int block_run(double *m, double t, double dt, int first, int n, double *rows, int *done);
RB_EXPORT int block_try_step(double *request);

RB_EXPORT int block_initialize(double *m, double t)
{
    return initialize(m, t);
}

/* RB_STEP_OK, or why the step that `request` = [t, dt, end of the run | memory] asks for is
   refused. */
RB_EXPORT int block_refusal(const double *request)
{
    return step_refusal(request[3 + RB_T], request[2], request[0], request[1], 0);
}

/* A step from any time. */
RB_EXPORT int block_step(double *m, double t, double dt)
{
    const int refusal = step_refusal(t, INFINITY, t, dt, 0);
    return refusal == RB_STEP_OK ? step(m, t, dt, NULL) : refusal;
}

/* A part of a step, from t to `end`, in which nothing is sampled but, where it `samples`, at the
   end. */
RB_EXPORT int block_part(double *m, double t, double end, int samples)
{
    const int refusal = step_refusal(t, INFINITY, t, end - t, 1);
    if (refusal != RB_STEP_OK)
        return refusal;
    flow(m, t, end - t, end, NULL);
    if (samples)
        sample(m);
    output(m, m + RB_Y);
    return all_finite(m) ? RB_STEP_OK : RB_STEP_FAILED;
}

/* n steps of a run that started at t, the `first` of them from t + first dt; the memory after each
   is kept as a row of RB_SIZE. Stops at the first that is not taken. */
RB_EXPORT int block_run(double *m, double t, double dt, int first, int n, double *rows, int *done)
{
    for (*done = 0; *done < n; (*done)++) {
        const int status = block_step(m, t + (first + *done) * dt, dt);
        if (status != RB_STEP_OK)
            return status;
        store(rows + (size_t)*done * RB_SIZE, m, RB_SIZE);
    }
    return RB_STEP_OK;
}

/* The step that `request` asks for, as in block_refusal. Unless it is taken the memory stays as it
   was. */
RB_EXPORT int block_try_step(double *request)
{
    double before[RB_SIZE], *m = request + 3;
    const int refusal = block_refusal(request);
    if (refusal != RB_STEP_OK)
        return refusal;
    store(before, m, RB_SIZE);
    const int status = step(m, request[0], request[1], NULL);
    if (status != RB_STEP_OK)
        store(m, before, RB_SIZE);
    return status;
}
