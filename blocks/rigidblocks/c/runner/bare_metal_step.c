/* The steps of a system without an operating system: what a timer calls. */

#include "core.h"

#include "step.h"

static double memory[RB_SIZE];

double *runner_memory(void)
{
    return memory;
}

int runner_start(double t)
{
    store(memory, RB_START, RB_SIZE);
    return initialize(memory, t);
}

int runner_outputs(double t)
{
    return initialize(memory, t);
}

int runner_begin(void)
{
    return RUNNER_OK;
}

int runner_step(double t)
{
    return step(memory, t, RUNNER_DT, NULL);
}

void runner_end(void)
{
}
