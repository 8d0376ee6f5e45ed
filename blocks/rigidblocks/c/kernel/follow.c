/* The step of a block whose inputs follow polynomials, as a shared library beside that of its
   kernel. */

#include "step.h"

#if defined(_WIN32)
#define RB_EXPORT __declspec(dllexport)
#else
#define RB_EXPORT __attribute__((visibility("default")))
#endif

RB_EXPORT int block_follow(double *m, double t, double dt, const double *course);

/* A step from any time with the inputs on the course c[k][i] of k = 0 .. RB_COURSE_ORDER, one row
   after the other. */
RB_EXPORT int block_follow(double *m, double t, double dt, const double *course)
{
    Course inputs;
    const int refusal = step_refusal(t, INFINITY, t, dt, 0);
    if (refusal != RB_STEP_OK)
        return refusal;
    inputs.t0 = t;
    for (int k = 0; k <= RB_COURSE_ORDER; k++)
        store(inputs.c[k], course + (size_t)k * RB_NU, RB_NU);
    return step(m, t, dt, &inputs);
}
