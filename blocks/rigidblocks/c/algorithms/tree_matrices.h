/* From the columns that dynamics derivatives are made of to the derivatives themselves
   (kernels/columns.py). */

#ifndef RB_DERIVATIVES_H
#define RB_DERIVATIVES_H

#if !defined(RB_INERTIA_H)
#include "inertia.h"
#endif

enum { RB_CHANGE = RB_TURNS + RB_SPACE };

/* Motion subspaces, their covectors, what a variable changes at the bodies that it supports (for q,
   then for qd), the force that this takes, and what a change of S on its own does, a row for each
   variable of the joint. */
struct columns {
    real S[RB_SPACE][RB_N], R[RB_CHANGE][RB_N], X[2][RB_CHANGE][RB_N], G[2][RB_SPACE][RB_N],
        own[RB_OWN > 0 ? RB_OWN : 1][RB_N];
};

/* y = the sum of c[k N] times row k of nine, for elements `first` to `last`. */
static inline void nine_rows(real *restrict y, const real *restrict c, const real *restrict rows,
                             int first, int last)
{
    const real c6 = c[6 * RB_N], c7 = c[7 * RB_N], c8 = c[8 * RB_N];
    const real *restrict r6 = rows + 6 * RB_N, *restrict r7 = r6 + RB_N, *restrict r8 = r7 + RB_N;
    six_rows(y, c, rows, first, last);
    for (int j = first; j < last; j++)
        y[j] += c6 * r6[j] + (c7 * r7[j] + c8 * r8[j]);
}

/* The same of four. */
static inline void four_rows(real *restrict y, const real *restrict c, const real *restrict rows,
                             int first, int last)
{
    const real c0 = c[0], c1 = c[RB_N], c2 = c[2 * RB_N], c3 = c[3 * RB_N];
    const real *restrict r1 = rows + RB_N, *restrict r2 = r1 + RB_N, *restrict r3 = r2 + RB_N;
    for (int j = first; j < last; j++)
        y[j] = (c0 * rows[j] + c1 * r1[j]) + (c2 * r2[j] + c3 * r3[j]);
}

#ifdef RB_IN_PLANE
#define covector_rows four_rows
#else
#define covector_rows nine_rows
#endif

/* The derivative of the joint forces by q (part 0) or qd (part 1), a matrix that is zero before,
   its rows `width` apart: along the path of variable i its row, and its column above its joint. */
static inline void force_derivative(const struct columns *w, int i, int part, real *matrix,
                                    int width)
{
    real column[RB_N];
    for (int k = RB_LAST[i] - 1; k >= 0; k = RB_BEFORE[RB_RUN[k]])
        covector_rows(matrix + i * width, &w->R[0][i], w->X[part][0], RB_RUN[k], k + 1);
    for (int k = RB_BEFORE[RB_FIRST[i]]; k >= 0; k = RB_BEFORE[RB_RUN[k]]) {
        space_rows(column, &w->G[part][0][i], w->S[0], RB_RUN[k], k + 1);
        for (int j = RB_RUN[k]; j <= k; j++)
            matrix[j * width + i] = column[j];
    }
    if (part == 0 && RB_OWN > 0)
        for (int j = RB_FIRST[i]; j < RB_LAST[i]; j++)
            matrix[i * width + j] += w->own[i - RB_FIRST[i]][j];
}

/* The derivatives of the joint forces by q, qd and qdd. */
static inline void force_derivatives(const real *columns, real *out)
{
    const struct columns *w = (const void *)columns;
    memset(out, 0, 2 * RB_N * RB_N * sizeof *out);
    for (int part = 0; part < 2; part++)
        for (int i = 0; i < RB_N; i++)
            force_derivative(w, i, part, out + part * RB_N * RB_N, RB_N);
    real *H = out + 2 * RB_N * RB_N;
    for (int i = 0; i < RB_N; i++) {
        inertia_row(w->S[0], w->R[RB_TURNS], i, H + i * RB_N);
        for (int j = 0; j < i; j++)
            H[j * RB_N + i] = H[i * RB_N + j];
    }
}

/* H = L^T L, the reciprocal diagonal of L, and the derivatives that H^-1 is applied to. */
struct factors {
    real L[RB_N][RB_N], B[RB_N][3 * RB_N], inverse[RB_N];
};

/* y -= sum of c[k stride] rows[k], of `length` elements each; the rows are `width` apart. */
static inline void subtract(real *restrict y, const real *c, int stride, const real *restrict rows,
                            int width, int count, int length)
{
    int k = 0;
    for (; k + 3 < count; k += 4, c += 4 * stride, rows += 4 * width) {
        const real c0 = c[0], c1 = c[stride], c2 = c[2 * stride], c3 = c[3 * stride];
        const real *restrict r1 = rows + width, *restrict r2 = r1 + width,
                             *restrict r3 = r2 + width;
        for (int j = 0; j < length; j++)
            y[j] -= (c0 * rows[j] + c1 * r1[j]) + (c2 * r2[j] + c3 * r3[j]);
    }
    for (; k < count; k++, c += stride, rows += width)
        for (int j = 0; j < length; j++)
            y[j] -= c[0] * rows[j];
}

/* H = L^T L in place, and the reciprocal diagonal of L (RBDA Table 6.3). */
static inline void factorize(real (*L)[RB_N], real *inverse)
{
    for (int i = RB_N - 1; i >= 0; i--) {
        subtract(L[i], L[0] + (i + 1) * RB_N + i, RB_N, L[0] + (i + 1) * RB_N, RB_N,
                 RB_END[i] - i - 1, i + 1);
        inverse[i] = number(1.0) / square_root(L[i][i]);
        for (int j = 0; j < i; j++)
            L[i][j] *= inverse[i];
    }
}

/* H^-1 x in place (RBDA Table 6.5). */
static inline void solve_one(const struct factors *f, real *x)
{
    for (int i = RB_N - 1; i >= 0; i--) {
        x[i] *= f->inverse[i];
        for (int k = RB_BEFORE[i]; k >= 0; k = RB_BEFORE[k])
            x[k] -= f->L[i][k] * x[i];
    }
    for (int i = 0; i < RB_N; i++) {
        for (int k = RB_BEFORE[i]; k >= 0; k = RB_BEFORE[k])
            x[i] -= f->L[i][k] * x[k];
        x[i] *= f->inverse[i];
    }
}

/* H = L^T L of the columns. */
static inline void tree_factors(const real *columns, struct factors *f)
{
    const struct columns *w = (const void *)(columns + RB_N);
    for (int i = 0; i < RB_N; i++)
        inertia_row(w->S[0], w->R[RB_TURNS], i, f->L[i]);
    factorize(f->L, f->inverse);
}

/* qdd = H^-1 (tau - C), C being the first of the columns. */
static inline void accelerations(const real *columns, const real *tau, real *work, real *qdd)
{
    struct factors *f = (void *)work;
    tree_factors(columns, f);
    for (int i = 0; i < RB_N; i++)
        qdd[i] = tau[i] - columns[i];
    solve_one(f, qdd);
}

/* H^-1 B in place, the first N columns of B being the identity, of whose image the upper triangle
   is computed. */
static inline void solve(struct factors *f)
{
    for (int i = RB_N - 1; i >= 0; i--) {
        subtract(f->B[i] + i, &f->L[0][0] + (i + 1) * RB_N + i, RB_N,
                 &f->B[0][0] + (i + 1) * 3 * RB_N + i, 3 * RB_N, RB_END[i] - i - 1, 3 * RB_N - i);
        for (int j = i; j < 3 * RB_N; j++)
            f->B[i][j] *= f->inverse[i];
    }
    for (int i = 0; i < RB_N; i++) {
        for (int k = RB_BEFORE[i]; k >= 0; k = RB_BEFORE[RB_RUN[k]])
            subtract(f->B[i] + i, f->L[i] + RB_RUN[k], 1, f->B[RB_RUN[k]] + i, 3 * RB_N,
                     k + 1 - RB_RUN[k], 3 * RB_N - i);
        for (int j = i; j < 3 * RB_N; j++)
            f->B[i][j] *= f->inverse[i];
    }
}

/* B = [-1, the derivatives of the joint forces by q and by qd]. */
static inline void changes_to_solve(const real *columns, struct factors *f)
{
    const struct columns *w = (const void *)(columns + RB_N);
    memset(f->B, 0, sizeof f->B);
    for (int i = 0; i < RB_N; i++) {
        f->B[i][i] = number(-1.0);
        force_derivative(w, i, 0, f->B[0] + RB_N, 3 * RB_N);
        force_derivative(w, i, 1, f->B[0] + 2 * RB_N, 3 * RB_N);
    }
}

/* The derivatives -B by q, qd and tau behind the accelerations. */
static inline void write_derivatives(const struct factors *f, real *out)
{
    real *dq = out + RB_N, *dqd = dq + RB_N * RB_N, *dtau = dqd + RB_N * RB_N;
    for (int i = 0; i < RB_N; i++) {
        for (int j = 0; j < RB_N; j++) {
            dq[i * RB_N + j] = -f->B[i][RB_N + j];
            dqd[i * RB_N + j] = -f->B[i][2 * RB_N + j];
        }
        for (int j = i; j < RB_N; j++)
            dtau[i * RB_N + j] = dtau[j * RB_N + i] = -f->B[i][j];
    }
}

/* The derivatives of the accelerations by q, qd and tau behind the accelerations, which are
   refined: the first of the columns are the forces that they take. */
static inline void motion_derivatives(const real *columns, const real *tau, real *work, real *out)
{
    struct factors *f = (void *)work;
    real rest[RB_N];
    for (int i = 0; i < RB_N; i++)
        rest[i] = tau[i] - columns[i];
    solve_one(f, rest);
    for (int i = 0; i < RB_N; i++)
        out[i] += rest[i];
    changes_to_solve(columns, f);
    solve(f);
    write_derivatives(f, out);
}

#endif
