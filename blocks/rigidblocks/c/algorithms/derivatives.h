/* From the columns that dynamics derivatives are made of to the derivatives themselves, by dense loops.

   The generated text before this has N velocity variables; LAST[i], one past the last variable of the joint of variable i;
   END[i], one past the last variable that it supports; and PATH[i][j], 1 where the joint of j is on the path to that of i,
   itself included. All matrices are N x N in C order; the columns of S, R, X and G are their second index. */

#ifndef RB_DERIVATIVES_H
#define RB_DERIVATIVES_H

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

static inline double root(double x)
{
    return sqrt(x);
}
#endif

/* The columns, each row of them contiguous: motion subspaces, their covectors, what a variable changes at the bodies that
   it supports (for q, then for qd), the force that this takes, and what S changes on its own. */
struct columns {
    real value[RB_N], S[6][RB_N], R[9][RB_N], X[9][2 * RB_N], G[6][2 * RB_N], own[RB_N][RB_N];
};

/* y -= sum of c[k stride] rows[k], of `length` elements each; the rows are `width` apart. */
static inline void subtract(real *restrict y, const real *c, int stride, const real *restrict rows, int width,
                            int count, int length)
{
    int k = 0;
    for (; k + 3 < count; k += 4, c += 4 * stride, rows += 4 * width) {
        const real c0 = c[0], c1 = c[stride], c2 = c[2 * stride], c3 = c[3 * stride];
        const real *restrict r1 = rows + width, *restrict r2 = r1 + width, *restrict r3 = r2 + width;
        for (int j = 0; j < length; j++)
            y[j] -= c0 * rows[j] + c1 * r1[j] + c2 * r2[j] + c3 * r3[j];
    }
    for (; k < count; k++, c += stride, rows += width)
        for (int j = 0; j < length; j++)
            y[j] -= c[0] * rows[j];
}

/* Minus the derivative of the joint forces by q (part 0) or qd (part 1): the row of variable i. */
static inline void minus_force_row(const struct columns *w, int i, int part, real *row)
{
    for (int j = 0; j < RB_N; j++)
        row[j] = number(0.0);
    subtract(row, &w->R[0][i], RB_N, &w->X[0][part * RB_N], 2 * RB_N, 9, RB_LAST[i]);
    subtract(row + RB_LAST[i], &w->S[0][i], RB_N, &w->G[0][part * RB_N + RB_LAST[i]], 2 * RB_N, 6, RB_N - RB_LAST[i]);
    for (int j = 0; j < RB_LAST[i]; j++)
        row[j] = RB_PATH[i][j] * row[j];
    for (int j = RB_LAST[i]; j < RB_N; j++)
        row[j] = RB_PATH[j][i] * row[j];
    if (part == 0)
        for (int j = 0; j < RB_N; j++)
            row[j] -= w->own[i][j];
}

/* The lower triangle of minus the joint-space inertia matrix: the row of variable i. */
static inline void minus_inertia_row(const struct columns *w, int i, real *row)
{
    for (int j = 0; j <= i; j++)
        row[j] = number(0.0);
    subtract(row, &w->R[3][i], RB_N, w->S[0], RB_N, 6, i + 1);
    for (int j = 0; j <= i; j++)
        row[j] = RB_PATH[i][j] * row[j];
}

#ifdef RB_INVERSE_DYNAMICS

static inline void finish(real *work, real *out)
{
    const struct columns *w = (const void *)work;
    real *value = out, *dq = out + RB_N, *dqd = dq + RB_N * RB_N, *H = dqd + RB_N * RB_N;
    memcpy(value, w->value, sizeof w->value);
    for (int i = 0; i < RB_N; i++) {
        minus_force_row(w, i, 0, dq + i * RB_N);
        minus_force_row(w, i, 1, dqd + i * RB_N);
        minus_inertia_row(w, i, H + i * RB_N);
        for (int j = 0; j < RB_N; j++) {
            dq[i * RB_N + j] = -dq[i * RB_N + j];
            dqd[i * RB_N + j] = -dqd[i * RB_N + j];
        }
        for (int j = 0; j <= i; j++)
            H[j * RB_N + i] = H[i * RB_N + j] = -H[i * RB_N + j];
    }
}

#else

/* H = L^T L in place, H given with the other sign, and the reciprocal diagonal of L (RBDA Table 6.3). */
static inline void factorize(real (*L)[RB_N], real *inverse)
{
    for (int i = RB_N - 1; i >= 0; i--) {
        for (int j = 0; j <= i; j++)
            L[i][j] = -L[i][j];
        subtract(L[i], L[0] + (i + 1) * RB_N + i, RB_N, L[0] + (i + 1) * RB_N, RB_N, RB_END[i] - i - 1, i + 1);
        inverse[i] = number(1.0) / root(L[i][i]);
        for (int j = 0; j < i; j++)
            L[i][j] *= inverse[i];
    }
}

/* H^-1 B in place, the first N columns of B being the identity, of whose image the upper triangle is computed. */
static inline void solve(const real (*L)[RB_N], const real *inverse, real (*B)[3 * RB_N])
{
    for (int i = RB_N - 1; i >= 0; i--) {
        subtract(B[i] + i, L[0] + (i + 1) * RB_N + i, RB_N, B[0] + (i + 1) * 3 * RB_N + i, 3 * RB_N, RB_END[i] - i - 1,
                 3 * RB_N - i);
        for (int j = i; j < 3 * RB_N; j++)
            B[i][j] *= inverse[i];
    }
    for (int i = 0; i < RB_N; i++) {
        subtract(B[i] + i, L[i], 1, B[0] + i, 3 * RB_N, i, 3 * RB_N - i);
        for (int j = i; j < 3 * RB_N; j++)
            B[i][j] *= inverse[i];
    }
}

static inline void finish(real *work, real *out)
{
    const struct columns *w = (const void *)work;
    real *value = out, *dq = out + RB_N, *dqd = dq + RB_N * RB_N, *dtau = dqd + RB_N * RB_N;
    real(*L)[RB_N] = (void *)(work + sizeof *w / sizeof *work), (*B)[3 * RB_N] = (void *)L[RB_N], *inverse = B[RB_N];
    memcpy(value, w->value, sizeof w->value);
    for (int i = 0; i < RB_N; i++) {
        for (int j = 0; j < RB_N; j++)
            B[i][j] = number(i == j);
        minus_force_row(w, i, 0, B[i] + RB_N);
        minus_force_row(w, i, 1, B[i] + 2 * RB_N);
        minus_inertia_row(w, i, L[i]);
    }
    factorize(L, inverse);
    solve((const real(*)[RB_N])L, inverse, B);
    for (int i = 0; i < RB_N; i++) {
        memcpy(dq + i * RB_N, B[i] + RB_N, RB_N * sizeof(real));
        memcpy(dqd + i * RB_N, B[i] + 2 * RB_N, RB_N * sizeof(real));
        for (int j = i; j < RB_N; j++)
            dtau[i * RB_N + j] = dtau[j * RB_N + i] = B[i][j];
    }
}

#endif

#endif
