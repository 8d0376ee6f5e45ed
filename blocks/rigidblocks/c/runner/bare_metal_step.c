/* Steps of a system without an operating system, to be called by a timer. */

#define STATIC_WORKSPACES /* there is only one thread and one memory */

#include "bare_metal_step.h"

#include "block_step.h"

static double memory[RB_SIZE];

double *rb_runner_memory(void)
{
    return memory;
}

int rb_runner_start(double t)
{
    store(memory, RB_START, RB_SIZE);
    return initialize(memory, t);
}

int rb_runner_outputs(double t)
{
    return initialize(memory, t);
}

int rb_runner_begin(void)
{
    return RUNNER_OK;
}

int rb_runner_step(double t)
{
    return step(memory, t, RUNNER_DT, NULL);
}

void rb_runner_end(void)
{
}
