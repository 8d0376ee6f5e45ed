/* What FMPy's template of an FMU leaves open: its step. Its variables are its first members, [time | u | y | x]. */
#include <stdlib.h>

#include "kernel.c"

static int template_step(void *model, double t, double dt)
{
    double *v = model, *u = v + 1, *y = u + NU, *x = y + OUTPUTS, m[SIZE];
    store(m, START, SIZE);
    m[T] = v[0] = t;
    store(m + X, x, NX);
    store(m + U, u, NU);
    const int status = block_step(m, t, dt);
    store(x, m + X, NX);
    store(y, m + Y, NY);
    return status;
}
