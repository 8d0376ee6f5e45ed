/* Rows of numbers to lanes and back: what is contiguous outside is one lane inside. */

#ifndef RB_ROWS_H
#define RB_ROWS_H

#include "lanes.h"

#if defined(_WIN32)
#define RB_EXPORT __declspec(dllexport)
#else
#define RB_EXPORT __attribute__((visibility("default")))
#endif

/* The j-th number of each row. */
static inline real across(const double *const rows[RB_LANES], int j)
{
#if RB_LANES == 2
    return (real){rows[0][j], rows[1][j]};
#elif RB_LANES == 4
    return (real){rows[0][j], rows[1][j], rows[2][j], rows[3][j]};
#else
    return (real){rows[0][j], rows[1][j], rows[2][j], rows[3][j], rows[4][j], rows[5][j], rows[6][j], rows[7][j]};
#endif
}

/* `count` rows of `size` numbers each; lanes beyond them get the last one again. */
static inline void read_rows(const double *first, int size, int count, real *in)
{
    const double *rows[RB_LANES];
    for (int k = 0; k < RB_LANES; k++)
        rows[k] = first + (long)(k < count ? k : count - 1) * size;
    for (int j = 0; j < size; j++)
        in[j] = across(rows, j);
}

static inline void write_rows(double *first, int size, int count, const real *out)
{
    for (int j = 0; j < size; j++)
        for (int k = 0; k < count; k++)
            first[(long)k * size + j] = out[j][k];
}

#endif
