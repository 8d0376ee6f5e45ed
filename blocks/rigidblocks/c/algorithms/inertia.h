/* From the columns of a tree to matrices over its velocity variables, by loops along the paths of
   the tree.

   The generated text before this has N velocity variables; of each, FIRST and LAST, the first
   variable of its joint and one past the last one; BEFORE, the variable before it on the path from
   the base, or -1; RUN, the first of the variables before it that are numbered one after the other
   along its path; and END, one past the last variable that it supports. Matrices are N x N in C
   order; columns are kept in rows of N. */

#ifndef RB_INERTIA_H
#define RB_INERTIA_H

#include <math.h>
#include <string.h>

#if !defined(RB_STRUCTURE_H) /* unless it is before this in one text */
#include "structure.h"
#endif

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3") /* the loops become vector operations; clang makes them so anyway */
#endif

/* On numbers, or on numbers in lanes (c/lanes). */
#ifdef RB_LANES
#define number lanes
#else
typedef double real;
static inline double number(double x)
{
    return x;
}

static inline double square_root(double x)
{
    return sqrt(x);
}
#endif

/* y = the sum of c[k N] times row k of six, for elements `first` to `last`. */
static inline void six_rows(real *restrict y, const real *restrict c, const real *restrict rows,
                            int first, int last)
{
    const real c0 = c[0], c1 = c[RB_N], c2 = c[2 * RB_N], c3 = c[3 * RB_N], c4 = c[4 * RB_N],
               c5 = c[5 * RB_N];
    const real *restrict r1 = rows + RB_N, *restrict r2 = r1 + RB_N, *restrict r3 = r2 + RB_N,
                         *restrict r4 = r3 + RB_N, *restrict r5 = r4 + RB_N;
    for (int j = first; j < last; j++)
        y[j] =
            ((c0 * rows[j] + c1 * r1[j]) + (c2 * r2[j] + c3 * r3[j])) + (c4 * r4[j] + c5 * r5[j]);
}

/* y = the sum of c[k N] times row k of three, for elements `first` to `last`. */
static inline void three_rows(real *restrict y, const real *restrict c, const real *restrict rows,
                              int first, int last)
{
    const real c0 = c[0], c1 = c[RB_N], c2 = c[2 * RB_N];
    for (int j = first; j < last; j++)
        y[j] = c0 * rows[j] + (c1 * rows[RB_N + j] + c2 * rows[2 * RB_N + j]);
}

/* Spatial vectors have SPACE elements, of which TURNS are angular, and so have planar ones. */
#ifdef RB_IN_PLANE
enum { RB_TURNS = 1, RB_SPACE = 3 };
#define space_rows three_rows
#else
enum { RB_TURNS = 3, RB_SPACE = 6 };
#define space_rows six_rows
#endif

/* The row of variable i of the lower triangle of the joint-space inertia matrix: S^T F, F = I^c S
   of variable i. */
static inline void inertia_row(const real *S, const real *F, int i, real *row)
{
    memset(row, 0, (size_t)(i + 1) * sizeof *row);
    for (int k = i; k >= 0; k = RB_BEFORE[RB_RUN[k]])
        space_rows(row, F + i, S, RB_RUN[k], k + 1);
}

/* The joint-space inertia matrix of the columns S and F. */
static inline void inertia_matrix(const real *columns, real *H)
{
    for (int i = 0; i < RB_N; i++) {
        inertia_row(columns, columns + RB_SPACE * RB_N, i, H + i * RB_N);
        for (int j = 0; j < i; j++)
            H[j * RB_N + i] = H[i * RB_N + j];
    }
}

#endif
