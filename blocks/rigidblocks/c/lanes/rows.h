/* Rows of numbers to lanes and back: what is contiguous outside is one lane inside. */

#ifndef RB_ROWS_H
#define RB_ROWS_H

#include <string.h>

#include "lanes.h"

#if defined(_WIN32)
#define RB_EXPORT __declspec(dllexport)
#else
#define RB_EXPORT __attribute__((visibility("default")))
#endif

typedef double anywhere __attribute__((vector_size(8 * RB_LANES), aligned(8), may_alias));

#if defined(__clang__) || __GNUC__ >= 12
#define RB_MIX(x, y, ...) __builtin_shufflevector(x, y, __VA_ARGS__)
#else
#define RB_MIX(x, y, ...) __builtin_shuffle(x, y, (bits){__VA_ARGS__})
#endif

/* Of two rows of a matrix, the squares of `1`, `2` or `4` numbers that are off the diagonal change
   places. */
#define RB_EXCHANGE(name, first, second)      \
    static inline void name(real *a, real *b) \
    {                                         \
        const real x = *a, y = *b;            \
        *a = RB_MIX(x, y, RB_UNPACK first);   \
        *b = RB_MIX(x, y, RB_UNPACK second);  \
    }
#define RB_UNPACK(...) __VA_ARGS__

/* The transpose of RB_LANES rows, in place. */
#if RB_LANES == 2
RB_EXCHANGE(exchange1, (0, 2), (1, 3))

static inline void transpose(real *r)
{
    exchange1(r, r + 1);
}
#elif RB_LANES == 4
RB_EXCHANGE(exchange1, (0, 4, 2, 6), (1, 5, 3, 7))
RB_EXCHANGE(exchange2, (0, 1, 4, 5), (2, 3, 6, 7))

static inline void transpose(real *r)
{
    exchange1(r, r + 1);
    exchange1(r + 2, r + 3);
    exchange2(r, r + 2);
    exchange2(r + 1, r + 3);
}
#else
RB_EXCHANGE(exchange1, (0, 8, 2, 10, 4, 12, 6, 14), (1, 9, 3, 11, 5, 13, 7, 15))
RB_EXCHANGE(exchange2, (0, 1, 8, 9, 4, 5, 12, 13), (2, 3, 10, 11, 6, 7, 14, 15))
RB_EXCHANGE(exchange4, (0, 1, 2, 3, 8, 9, 10, 11), (4, 5, 6, 7, 12, 13, 14, 15))

static inline void transpose(real *r)
{
    exchange1(r, r + 1);
    exchange1(r + 2, r + 3);
    exchange1(r + 4, r + 5);
    exchange1(r + 6, r + 7);
    exchange2(r, r + 2);
    exchange2(r + 1, r + 3);
    exchange2(r + 4, r + 6);
    exchange2(r + 5, r + 7);
    exchange4(r, r + 4);
    exchange4(r + 1, r + 5);
    exchange4(r + 2, r + 6);
    exchange4(r + 3, r + 7);
}
#endif

/* Where the square of columns from j on begins: the last one has columns of the one before it
   again, so as not to go beyond the rows. */
static inline int square_at(int j, int size)
{
    return size < RB_LANES || j + RB_LANES <= size ? j : size - RB_LANES;
}

/* `count` rows of `size` numbers each, at `first`; lanes beyond them get the last one again. A
   square of numbers at a time; that of rows which are shorter has those of the next row in it, but
   never any beyond the last row. */
static inline void read_rows(const double *first, int size, int count, real *in)
{
    const int here = size < RB_LANES ? size : RB_LANES;
    for (int j = 0; j < size; j += RB_LANES) {
        real square[RB_LANES];
        for (int k = 0; k < RB_LANES; k++) {
            const long at = (long)(k < count ? k : count - 1) * size + square_at(j, size);
            double row[RB_LANES] = {0.0};
            if (size >= RB_LANES || at + RB_LANES <= (long)count * size)
                square[k] = *(const anywhere *)(first + at);
            else {
                memcpy(row, first + at, (size_t)here * sizeof *row);
                square[k] = *(const anywhere *)row;
            }
        }
        transpose(square);
        for (int i = 0; i < here; i++)
            in[square_at(j, size) + i] = square[i];
    }
}

/* The same back. What is written beyond the end of a short row is written over by the next one. */
static inline void write_rows(double *first, int size, int count, const real *out)
{
    const int here = size < RB_LANES ? size : RB_LANES;
    for (int j = 0; j < size; j += RB_LANES) {
        real square[RB_LANES];
        for (int i = 0; i < RB_LANES; i++) {
            const int at = square_at(j, size) + i;
            square[i] = out[at < size ? at : size - 1];
        }
        transpose(square);
        for (int k = 0; k < count; k++) {
            const long at = (long)k * size + square_at(j, size);
            if (size >= RB_LANES || at + RB_LANES <= (long)count * size)
                *(anywhere *)(first + at) = square[k];
            else
                memcpy(first + at, square + k, (size_t)here * sizeof *first);
        }
    }
}

#endif
