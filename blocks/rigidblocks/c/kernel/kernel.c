/* Entry points of a compiled block. A build option selects one group of functions:

     (none)                  shared library: steps on a memory that the caller owns
     RB_INPUT_POLYNOMIALS    shared library: only the step with polynomial inputs. Few callers need
                             it, and a library with both groups takes about 30 % longer to compile.
     RB_WEB_PAGE             WebAssembly module of a web page: one memory, and steps of one size */

#if defined(RB_WEB_PAGE)
#define STATIC_WORKSPACES /* there is only one thread and one memory */
#endif

#include <stddef.h>

#include "block_step.h"

#if defined(_WIN32)
#define RB_EXPORT __declspec(dllexport)
#else
#define RB_EXPORT __attribute__((visibility("default")))
#endif

#if defined(RB_WEB_PAGE)

#if defined(__wasm__)
#define RB_PAGE_EXPORT(name) __attribute__((export_name(#name))) name
#else
#define RB_PAGE_EXPORT(name) name
#endif

static double page[RB_SIZE];

double *RB_PAGE_EXPORT(rb_page_memory)(void);
int RB_PAGE_EXPORT(rb_page_size)(void);
void RB_PAGE_EXPORT(rb_page_reset)(void);
int RB_PAGE_EXPORT(rb_page_initialize)(void);
int RB_PAGE_EXPORT(rb_page_step)(double k, double dt);

double *rb_page_memory(void)
{
    return page;
}

int rb_page_size(void)
{
    return RB_SIZE;
}

void rb_page_reset(void)
{
    store(page, RB_START, RB_SIZE);
}

int rb_page_initialize(void)
{
    return initialize(page, 0.0);
}

/* Do step k (from 0) of a run that starts at time 0. */
int rb_page_step(double k, double dt)
{
    const double t = k * dt;
    const int refusal = step_refusal(t, INFINITY, t, dt);
    return refusal == RB_STEP_OK ? step(page, t, dt, NULL) : refusal;
}

#elif defined(RB_INPUT_POLYNOMIALS)

RB_EXPORT int rb_block_follow(double *m, double t, double dt, const double *course);

/* Do a step from any time. The input polynomials have the coefficients c[k][i], row by row, with k
   = 0 .. RB_COURSE_ORDER. */
RB_EXPORT int rb_block_follow(double *m, double t, double dt, const double *course)
{
    RB_WORKSPACE(RB_LARGE, InputPolynomials, inputs, 1);
    const int refusal = step_refusal(t, INFINITY, t, dt);
    if (refusal != RB_STEP_OK)
        return refusal;
    inputs->t0 = t;
    for (int k = 0; k <= RB_COURSE_ORDER; k++)
        store(inputs->c[k], course + (size_t)k * RB_NU, RB_NU);
    return step(m, t, dt, inputs);
}

#else

RB_EXPORT int rb_block_initialize(double *m, double t);
/* A step that a caller requests: its start and size [s], the end of the run [s], and the memory. */
typedef struct {
    double t, dt, end;
    double memory[RB_SIZE];
} StepRequest;

RB_EXPORT int rb_block_refusal(const StepRequest *request);
RB_EXPORT int rb_block_step(double *m, double t, double dt);
RB_EXPORT int rb_block_part(double *m, double t, double end, int samples);
RB_EXPORT int rb_block_sample_step(double *m, double t, double dt);
RB_EXPORT int rb_block_run(double *m, double t, double dt, int first, int n, double *rows,
                           int *done);
RB_EXPORT int rb_block_try_step(StepRequest *request);

RB_EXPORT int rb_block_initialize(double *m, double t)
{
    return initialize(m, t);
}

/* Return RB_STEP_OK, or the reason to reject the requested step. */
RB_EXPORT int rb_block_refusal(const StepRequest *request)
{
    return step_refusal(request->memory[RB_T], request->end, request->t, request->dt);
}

/* Do a step from any time. */
RB_EXPORT int rb_block_step(double *m, double t, double dt)
{
    const int refusal = step_refusal(t, INFINITY, t, dt);
    return refusal == RB_STEP_OK ? step(m, t, dt, NULL) : refusal;
}

/* Do a part of a step from t to `end` without samples. If `samples` is 1, do one sample at the
   end. */
RB_EXPORT int rb_block_part(double *m, double t, double end, int samples)
{
    const int refusal = step_refusal(t, INFINITY, t, end - t);
    if (refusal != RB_STEP_OK)
        return refusal;
    flow(m, t, end - t, end, NULL);
    if (samples)
        sample(m);
    output(m, m + RB_Y);
    return all_finite(m) ? RB_STEP_OK : RB_STEP_FAILED;
}

/* Do a step from any time with one sample at its end: the step of a fused system. */
RB_EXPORT int rb_block_sample_step(double *m, double t, double dt)
{
    return rb_block_part(m, t, t + dt, 1);
}

/* Do n steps of a run that started at t, beginning at t + first dt. After each step the memory is
   recorded as a row of RB_SIZE numbers. The run stops at the first step that fails. */
RB_EXPORT int rb_block_run(double *m, double t, double dt, int first, int n, double *rows,
                           int *done)
{
    for (*done = 0; *done < n; (*done)++) {
        const int status = rb_block_step(m, t + (first + *done) * dt, dt);
        if (status != RB_STEP_OK)
            return status;
        store(rows + (size_t)*done * RB_SIZE, m, RB_SIZE);
    }
    return RB_STEP_OK;
}

/* Do the requested step. A failed step leaves the memory unchanged. */
RB_EXPORT int rb_block_try_step(StepRequest *request)
{
    double *m = request->memory;
    RB_WORKSPACE(RB_LARGE, double, before, RB_SIZE);
    const int refusal = rb_block_refusal(request);
    if (refusal != RB_STEP_OK)
        return refusal;
    store(before, m, RB_SIZE);
    const int status = step(m, request->t, request->dt, NULL);
    if (status != RB_STEP_OK)
        store(m, before, RB_SIZE);
    return status;
}

#endif
