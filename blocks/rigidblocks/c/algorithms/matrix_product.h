/* Products with constant matrices.

   A matrix (rows, columns) is stored in blocks of RB_BLOCK_ROWS rows. A block contains its columns
   one after the other, and zeros fill the last block. All variants add the products of a row in the
   order of the columns, without fused multiply-add, so they return the same bits. */

#ifndef RB_MATRIX_PRODUCT_H
#define RB_MATRIX_PRODUCT_H

#include <string.h>

#define RB_BLOCK_ROWS 16

#define RB_PRODUCT_ARGUMENTS(type) const type *W, int rows, int columns, const double *x, double *y

/* Rows of the block that begins with row i. */
static inline size_t rows_of_block(int rows, int i)
{
    return rows - i < RB_BLOCK_ROWS ? (size_t)(rows - i) : RB_BLOCK_ROWS;
}

#if defined(__GNUC__)

/* The sums of a block are vectors in registers; gcc does not keep the elements of arrays there. */
#define RB_TWICE_4(each) each(0) each(1) each(2) each(3)
#define RB_TWICE_8(each) RB_TWICE_4(each) each(4) each(5) each(6) each(7)
#define RB_ZERO(k) wide s##k = {0.0};
#define RB_ADD(k) s##k += __builtin_convertvector(w[k], wide) * (x[j] - (wide){0.0});
#define RB_STORE(k) ((wide *)sums)[k] = s##k;

/* y = W x with vectors of `lanes` numbers; RB_BLOCK_ROWS = lanes * number of sums. */
#define RB_VECTOR_PRODUCT(type, lanes, sums_of_block)                                           \
    typedef double wide __attribute__((vector_size(8 * (lanes)), aligned(8), may_alias));       \
    typedef type stored                                                                         \
        __attribute__((vector_size(sizeof(type) * (lanes)), aligned(sizeof(type)), may_alias)); \
    for (int i = 0; i < rows; i += RB_BLOCK_ROWS) {                                             \
        sums_of_block(RB_ZERO) for (int j = 0; j < columns; j++, W += RB_BLOCK_ROWS)            \
        {                                                                                       \
            const stored *const w = (const stored *)W;                                          \
            sums_of_block(RB_ADD)                                                               \
        }                                                                                       \
        double sums[RB_BLOCK_ROWS] = {0.0};                                                     \
        sums_of_block(RB_STORE) memcpy(y + i, sums, rows_of_block(rows, i) * sizeof *y);        \
    }
#define RB_PRODUCT(type) RB_VECTOR_PRODUCT(type, 2, RB_TWICE_8)

#else

#define RB_PRODUCT(type)                                         \
    for (int i = 0; i < rows; i += RB_BLOCK_ROWS) {              \
        double sums[RB_BLOCK_ROWS] = {0.0};                      \
        for (int j = 0; j < columns; j++, W += RB_BLOCK_ROWS)    \
            for (int k = 0; k < RB_BLOCK_ROWS; k++)              \
                sums[k] += (double)W[k] * x[j];                  \
        memcpy(y + i, sums, rows_of_block(rows, i) * sizeof *y); \
    }

#endif

/* The compilers for Windows do not all have __builtin_cpu_supports. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(_WIN32)

#define RB_FOR_AVX __attribute__((target("avx2"))) /* without FMA */

static inline void matrix_product_avx(RB_PRODUCT_ARGUMENTS(double)) RB_FOR_AVX;
static inline void matrix_product_avx(RB_PRODUCT_ARGUMENTS(double))
{
    RB_VECTOR_PRODUCT(double, 4, RB_TWICE_4)
}

static inline void matrix_product_float_avx(RB_PRODUCT_ARGUMENTS(float)) RB_FOR_AVX;
static inline void matrix_product_float_avx(RB_PRODUCT_ARGUMENTS(float)){
    RB_VECTOR_PRODUCT(float, 4, RB_TWICE_4)}

#define RB_WITH_AVX(function)             \
    if (__builtin_cpu_supports("avx2")) { \
        function(W, rows, columns, x, y); \
        return;                           \
    }
#else
#define RB_WITH_AVX(function)
#endif

/* y = W x */
static inline void matrix_product(RB_PRODUCT_ARGUMENTS(double))
{
    RB_WITH_AVX(matrix_product_avx)
    RB_PRODUCT(double)
}

/* y = W x for a matrix of floats */
static inline void matrix_product_float(RB_PRODUCT_ARGUMENTS(float)){
    RB_WITH_AVX(matrix_product_float_avx) RB_PRODUCT(float)}

/* y = W^T x, with x (rows) and y (columns) */
#define RB_TRANSPOSED_PRODUCT                                   \
    memset(y, 0, (size_t)columns * sizeof *y);                  \
    for (int i = 0; i < rows; i += RB_BLOCK_ROWS)               \
        for (int j = 0; j < columns; j++, W += RB_BLOCK_ROWS)   \
            for (size_t k = 0; k < rows_of_block(rows, i); k++) \
                y[j] += (double)W[k] * x[i + (int)k];

static inline void transposed_product(RB_PRODUCT_ARGUMENTS(double))
{
    RB_TRANSPOSED_PRODUCT
}

static inline void transposed_product_float(RB_PRODUCT_ARGUMENTS(float))
{
    RB_TRANSPOSED_PRODUCT
}

#endif
