/* A function of many arguments, RB_LANES of them at once.

   The generated function.h has the function `evaluate`; RB_IN and RB_OUT, how many numbers it reads and writes;
   RB_INPUTS and RB_OUTPUTS, how many arrays these are; RB_INPUT_SIZES and RB_OUTPUT_SIZES, how many numbers of each. */

#include "function.h"
#include "rows.h"

RB_EXPORT void batch(const double *const *inputs, double *const *outputs, long first, long last, real *work);

/* The rows from `first` on and before `last`; `work` has room for RB_IN + RB_OUT numbers and those of `evaluate`. */
RB_EXPORT void batch(const double *const *inputs, double *const *outputs, long first, long last, real *work)
{
    real *in = work, *out = in + RB_IN;
    for (long row = first; row < last; row += RB_LANES) {
        const int count = last - row < RB_LANES ? (int)(last - row) : RB_LANES;
        for (int i = 0, at = 0; i < RB_INPUTS; at += RB_INPUT_SIZES[i++])
            read_rows(inputs[i] + row * RB_INPUT_SIZES[i], RB_INPUT_SIZES[i], count, in + at);
        evaluate(in, out, out + RB_OUT);
        for (int i = 0, at = 0; i < RB_OUTPUTS; at += RB_OUTPUT_SIZES[i++])
            if (count == RB_LANES) /* known, so that it is unrolled */
                write_rows(outputs[i] + row * RB_OUTPUT_SIZES[i], RB_OUTPUT_SIZES[i], RB_LANES, out + at);
            else
                write_rows(outputs[i] + row * RB_OUTPUT_SIZES[i], RB_OUTPUT_SIZES[i], count, out + at);
    }
}
