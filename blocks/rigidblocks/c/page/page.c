/* A block in a web page, for WebAssembly: one memory, at its start values or after steps of one
   length. */

#include <stddef.h>

#include "step.h"

#if defined(__wasm__)
#define RB_EXPORT(name) __attribute__((export_name(#name))) name
#else
#define RB_EXPORT(name) name
#endif

static double page[RB_SIZE];

double *RB_EXPORT(page_memory)(void);
int RB_EXPORT(page_size)(void);
void RB_EXPORT(page_reset)(void);
int RB_EXPORT(page_initialize)(void);
int RB_EXPORT(page_step)(double k, double dt);

double *page_memory(void)
{
    return page;
}

int page_size(void)
{
    return RB_SIZE;
}

void page_reset(void)
{
    store(page, RB_START, RB_SIZE);
}

int page_initialize(void)
{
    return initialize(page, 0.0);
}

/* The step number k of a run, counted from 0, which starts at time 0. */
int page_step(double k, double dt)
{
    const double t = k * dt;
    const int refusal = step_refusal(t, INFINITY, t, dt, 0);
    return refusal == RB_STEP_OK ? step(page, t, dt, NULL) : refusal;
}
