#ifndef RB_FUNCTION_H
#define RB_FUNCTION_H

#include "lanes.h"

static void waves(const real *in, real *out)
{
    (void)in;
    (void)out;
    real v1, v6; sine_and_cosine(in[0], &v1, &v6);
    out[0] = v1;
    real v4, v8; sine_and_cosine(in[1], &v4, &v8);
    out[1] = v4;
    out[2] = v6;
    out[3] = v8;
}

static void evaluate(const real *in, real *out, real *work)
{
    (void)work;
    waves(in, out);
}

enum { RB_IN = 2, RB_OUT = 4 };
#define RB_READ(count) \
    read_rows(inputs[0] + row * 2, 2, count, in + 0);
#define RB_WRITE(count) \
    write_rows(outputs[0] + row * 2, 2, count, out + 0); \
    write_rows(outputs[1] + row * 2, 2, count, out + 2);

#endif
