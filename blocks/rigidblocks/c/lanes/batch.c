/* A function of many arguments, RB_LANES of them at once.

   The generated function.h has the function `evaluate`; RB_IN and RB_OUT, how many numbers it reads
   and writes; and RB_READ(row) and RB_WRITE(row), which call read and write for each array of its
   inputs and outputs: the number of the array, the length of its rows, and where they are among all
   inputs or outputs. */

#include "rows.h"

#include "function.h"

RB_EXPORT void batch(const double *const *inputs, double *const *outputs, long first, long last,
                     real *work);

/* The rows from `first` on and before `last`; `work` has room for RB_IN + RB_OUT numbers and those
   of `evaluate`. */
RB_EXPORT void batch(const double *const *inputs, double *const *outputs, long first, long last,
                     real *work)
{
    real *in = work, *out = in + RB_IN;
    long row = first;
    for (; row + RB_LANES <= last; row += RB_LANES) {
        RB_READ(RB_LANES)
        evaluate(in, out, out + RB_OUT);
        RB_WRITE(RB_LANES)
    }
    if (row < last) {
        const int count = (int)(last - row);
        RB_READ(count)
        evaluate(in, out, out + RB_OUT);
        RB_WRITE(count)
    }
}
