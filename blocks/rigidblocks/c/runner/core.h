/* The steps of a system: its memory is one vector of doubles, in which system.h says what is where.
   Each function returns RUNNER_OK or what went wrong. Of blocks nothing is allocated and nothing is
   asked of an operating system. */

#ifndef RB_CORE_H
#define RB_CORE_H

#include "system.h"

enum {
    RUNNER_OK = 0,
    RUNNER_NOT_FINITE = 1, /* a value */
    RUNNER_FAILED = 2      /* an FMU, which has been said on the standard error */
};

/* The memory: set inputs and parameters in it before a step, read the signals after it. */
double *runner_memory(void);

/* Puts the memory to the start, at t [s]. */
int runner_start(double t);

/* The outputs at the start once more, after inputs have been set. */
int runner_outputs(double t);

/* Ends the start, before the first step, of FMUs: there are none among the parts of core.c. */
int runner_begin(void);

/* The step from t to t + RUNNER_DT. */
int runner_step(double t);

/* Ends the run of FMUs. */
void runner_end(void);

#endif
