/* The steps of a system: its memory is one vector of doubles, in which system.h says what is where. Each function returns 0,
   or another number where a value is not finite. Nothing is allocated and nothing is asked of an operating system. */

#ifndef RB_CORE_H
#define RB_CORE_H

#include "system.h"

/* The memory: set inputs and parameters in it before a step, read the signals after it. */
double *runner_memory(void);

/* Puts the memory to the start, at t [s]. */
int runner_start(double t);

/* The outputs at the start once more, after inputs have been set. */
int runner_outputs(double t);

/* The step from t to t + RUNNER_DT. */
int runner_step(double t);

#endif
