/* Steps of a system. Its memory is one vector of doubles; system.h defines the positions in it.
   Each function returns RUNNER_OK or the kind of failure. Blocks do not allocate memory and do not
   call an operating system. */

#ifndef RB_BARE_METAL_STEP_H
#define RB_BARE_METAL_STEP_H

#include "system.h"

enum {
    RUNNER_OK = 0,
    RUNNER_NOT_FINITE = 1, /* a value is not finite */
    RUNNER_FAILED = 2      /* an FMU failed, with a message on the standard error */
};

/* Return the memory: set inputs and parameters in it before a step, read the signals after it. */
double *rb_runner_memory(void);

/* Set the memory to the start values, at t [s], and compute the outputs. */
int rb_runner_start(double t);

/* Compute the outputs at the start again, after inputs have been set. */
int rb_runner_outputs(double t);

/* End the initialization of FMUs before the first step; bare_metal_step.c has no FMUs. */
int rb_runner_begin(void);

/* Do the step from t to t + RUNNER_DT. */
int rb_runner_step(double t);

/* End the run of FMUs. */
void rb_runner_end(void);

#endif
