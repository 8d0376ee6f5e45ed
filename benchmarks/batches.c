/* Straight-line C code, called in a loop over the rows of an array of arguments. */
#include <math.h>

#include "function.h"

__attribute__((visibility("default"))) void loop(const double *in, int width_in, double *out,
                                                 int width_out, long n);

void loop(const double *in, int width_in, double *out, int width_out, long n)
{
    for (long k = 0; k < n; k++)
        function(in + k * width_in, out + k * width_out);
}
