/* Step function for FMPy's FMU template. The first members of the template's structure are the
   variables [time | u | y | x]. */
#include <stdlib.h>

#include "kernel.c"

static int template_step(void *model, double t, double dt)
{
    double *v = model, *u = v + 1, *y = u + RB_NU, *x = y + OUTPUTS, m[RB_SIZE];
    store(m, RB_START, RB_SIZE);
    m[RB_T] = v[0] = t;
    store(m + RB_X, x, RB_NX);
    store(m + RB_U, u, RB_NU);
    const int status = rb_block_step(m, t, dt);
    store(x, m + RB_X, RB_NX);
    store(y, m + RB_Y, RB_NY);
    return status;
}
