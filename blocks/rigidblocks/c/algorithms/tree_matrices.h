/* Joint-space inertia matrix of a tree, its factors, accelerations, and derivatives of joint forces
   and accelerations. Loops along the paths of the tree compute these matrices from the columns of
   the velocity variables (kernels/derivative_columns.py).

   The generated text before this file defines N velocity variables, and for each variable:

     FIRST, LAST   first variable of its joint, and one past the last one
     BEFORE        previous variable on the path from the base, or -1
     RUN           first of the consecutively numbered variables before it on its path
     END           one past the last variable of its subtree

   RB_DEEP is defined if the accelerations of a deep tree are differentiated.

   Matrices are N x N in C order; columns are stored in rows of N. */

#ifndef RB_TREE_MATRICES_H
#define RB_TREE_MATRICES_H

#include <math.h>
#include <string.h>

#if !defined(RB_STRUCTURE_H) /* if the generated structure is in another file */
#include "structure.h"
#endif

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3") /* vectorizes the loops; clang does so anyway */
#endif

/* Numbers are scalars, or vectors of lanes (c/lanes). */
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

/* y = sum_k c[k N] row_k for six rows and the elements `first` to `last` - 1. */
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

/* y = sum_k c[k N] row_k for three rows and the elements `first` to `last` - 1. */
static inline void three_rows(real *restrict y, const real *restrict c, const real *restrict rows,
                              int first, int last)
{
    const real c0 = c[0], c1 = c[RB_N], c2 = c[2 * RB_N];
    for (int j = first; j < last; j++)
        y[j] = c0 * rows[j] + (c1 * rows[RB_N + j] + c2 * rows[2 * RB_N + j]);
}

/* Spatial or planar vectors have SPACE elements; TURNS of them are angular. */
#ifdef RB_IN_PLANE
enum { RB_TURNS = 1, RB_SPACE = 3 };
#define space_rows three_rows
#else
enum { RB_TURNS = 3, RB_SPACE = 6 };
#define space_rows six_rows
#endif

/* Compute row i of the lower triangle of the joint-space inertia matrix: S^T F, with F = I^c S for
   variable i. */
static inline void inertia_row(const real *S, const real *F, int i, real *row)
{
    memset(row, 0, (size_t)(i + 1) * sizeof *row);
    for (int k = i; k >= 0; k = RB_BEFORE[RB_RUN[k]])
        space_rows(row, F + i, S, RB_RUN[k], k + 1);
}

/* Compute the joint-space inertia matrix from the columns S and F. */
static inline void inertia_matrix(const real *columns, real *H)
{
    for (int i = 0; i < RB_N; i++) {
        inertia_row(columns, columns + RB_SPACE * RB_N, i, H + i * RB_N);
        for (int j = 0; j < i; j++)
            H[j * RB_N + i] = H[i * RB_N + j];
    }
}

/* ---- derivatives of joint forces, and the factors of H ---- */

enum { RB_CHANGE = RB_TURNS + RB_SPACE };

/* Columns, one for each velocity variable:
     S     motion subspace
     R     covector of S
     X     change of motion of the bodies that the variable moves: for q, then for qd
     G     force of this change
     own   effect of the change of S, if S depends on the joint position */
struct columns {
    real S[RB_SPACE][RB_N], R[RB_CHANGE][RB_N], X[2][RB_CHANGE][RB_N], G[2][RB_SPACE][RB_N],
        own[RB_OWN > 0 ? RB_OWN : 1][RB_N];
};

/* y = sum_k c[k N] row_k for nine rows and the elements `first` to `last` - 1. */
static inline void nine_rows(real *restrict y, const real *restrict c, const real *restrict rows,
                             int first, int last)
{
    const real c6 = c[6 * RB_N], c7 = c[7 * RB_N], c8 = c[8 * RB_N];
    const real *restrict r6 = rows + 6 * RB_N, *restrict r7 = r6 + RB_N, *restrict r8 = r7 + RB_N;
    six_rows(y, c, rows, first, last);
    for (int j = first; j < last; j++)
        y[j] += c6 * r6[j] + (c7 * r7[j] + c8 * r8[j]);
}

/* y = sum_k c[k N] row_k for four rows. */
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

/* Compute a row of the derivative of the joint forces with respect to q (part 0) or qd (part 1).
   The row has elements only along the path of variable i. */
static inline void force_derivative_row(const struct columns *w, int i, int part, real *row)
{
    for (int k = RB_LAST[i] - 1; k >= 0; k = RB_BEFORE[RB_RUN[k]])
        covector_rows(row, &w->R[0][i], w->X[part][0], RB_RUN[k], k + 1);
    if (part == 0 && RB_OWN > 0)
        for (int j = RB_FIRST[i]; j < RB_LAST[i]; j++)
            row[j] += w->own[i - RB_FIRST[i]][j];
}

/* Compute the derivative of the joint forces with respect to q (part 0) or qd (part 1). `matrix` is
   zero at first and has rows `width` apart. The function sets row i along the path of variable i,
   and column i above the joint of variable i. */
static inline void force_derivative(const struct columns *w, int i, int part, real *matrix,
                                    int width)
{
    real column[RB_N];
    force_derivative_row(w, i, part, matrix + i * width);
    for (int k = RB_BEFORE[RB_FIRST[i]]; k >= 0; k = RB_BEFORE[RB_RUN[k]]) {
        space_rows(column, &w->G[part][0][i], w->S[0], RB_RUN[k], k + 1);
        for (int j = RB_RUN[k]; j <= k; j++)
            matrix[j * width + i] = column[j];
    }
}

/* Compute the derivatives of the joint forces with respect to q, qd and qdd. */
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

#ifdef RB_DEEP

/* For deep trees, H^-1 is applied by the passes of the articulated-body algorithm. The computing
   time is then proportional to the number of variables, not to its product with the depth. */

enum { RB_BLOCK = 24 /* number of right-hand sides in a pass */ };

/* Articulated-body factors in base coordinates. For variable k, V = U D^-1 with U = IA S and
   D = S^T U, and `inverse` contains D^-1. The lost inertia E = I^c - IA is the difference of the
   composite and the articulated inertia. `motion` contains the bias forces, then the accelerations
   of RB_BLOCK solutions. H^-1 is applied to the matrices B. */
struct factors {
    real V[RB_N][RB_SPACE], E[RB_N][RB_SPACE][RB_SPACE], motion[RB_N][RB_SPACE][RB_BLOCK],
        B[RB_N][3 * RB_N], inverse[RB_N];
};

/* The workspace has five matrices (`scratch` of daba in kernels/derivative_columns.py). */
typedef char factors_fit[sizeof(struct factors) <= 5 * RB_N * RB_N * sizeof(real) ? 1 : -1];

#else

/* Factor L of H = L^T L, its reciprocal diagonal, and the matrices B to which H^-1 is applied. */
struct factors {
    real L[RB_N][RB_N], B[RB_N][3 * RB_N], inverse[RB_N];
};

#endif

/* y -= sum_k c[k stride] rows[k], of `length` elements each; the rows are `width` apart. */
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

#ifdef RB_DEEP

/* Compute the articulated-body factors. S and F = I^c S are columns.

     U_k = F_k - E_k S_k,   E_p = sum of E_k + V_k U_k^T over the variables k after p */
static inline void tree_factors(const real *columns, struct factors *f)
{
    const struct columns *w = (const void *)(columns + RB_N);
    memset(f->E, 0, sizeof f->E);
    for (int k = RB_N - 1; k >= 0; k--) {
        real(*const E)[RB_SPACE] = f->E[k];
        real U[RB_SPACE], D = number(0.0);
        for (int r = 0; r < RB_SPACE; r++) {
            U[r] = w->R[RB_TURNS + r][k];
            for (int c = 0; c < RB_SPACE; c++)
                U[r] -= E[r][c] * w->S[c][k];
            D += w->S[r][k] * U[r];
        }
        f->inverse[k] = number(1.0) / D;
        for (int r = 0; r < RB_SPACE; r++)
            f->V[k][r] = U[r] * f->inverse[k];
        if (RB_BEFORE[k] < 0)
            continue;
        for (int r = 0; r < RB_SPACE; r++)
            for (int c = 0; c < RB_SPACE; c++)
                f->E[RB_BEFORE[k]][r][c] += E[r][c] + f->V[k][r] * U[c];
    }
}

/* Compute H^-1 x in place for `count` <= RB_BLOCK columns of x, whose rows are `width` apart. The
   elements after the first `end` of each column are zero, and their results are not computed. */
static inline void solve_block(const struct columns *w, struct factors *f, real *x, int width,
                               int count, int end)
{
    memset(f->motion, 0, (size_t)end * sizeof *f->motion);
    for (int k = end - 1; k >= 0; k--) {
        real *const restrict u = x + k * width;
        real(*const restrict force)[RB_BLOCK] = f->motion[k];
        for (int r = 0; r < RB_SPACE; r++)
            for (int j = 0; j < count; j++)
                u[j] -= w->S[r][k] * force[r][j];
        for (int r = 0; RB_BEFORE[k] >= 0 && r < RB_SPACE; r++) {
            const real v = f->V[k][r];
            for (int j = 0; j < count; j++)
                f->motion[RB_BEFORE[k]][r][j] += force[r][j] + v * u[j];
        }
        for (int j = 0; j < count; j++)
            u[j] *= f->inverse[k];
    }
    for (int k = 0; k < end; k++) {
        real *const restrict u = x + k * width;
        for (int r = 0; RB_BEFORE[k] >= 0 && r < RB_SPACE; r++) {
            const real *const restrict parent = f->motion[RB_BEFORE[k]][r];
            const real v = f->V[k][r];
            for (int j = 0; j < count; j++)
                u[j] -= v * parent[j];
        }
        for (int r = 0; r < RB_SPACE; r++) {
            real *const restrict a = f->motion[k][r];
            const real s = w->S[r][k];
            if (RB_BEFORE[k] < 0)
                memset(a, 0, (size_t)count * sizeof *a);
            else
                memcpy(a, f->motion[RB_BEFORE[k]][r], (size_t)count * sizeof *a);
            for (int j = 0; j < count; j++)
                a[j] += s * u[j];
        }
    }
}

/* Compute H^-1 x in place. */
static inline void solve_one(const real *columns, struct factors *f, real *x)
{
    solve_block((const void *)(columns + RB_N), f, x, 1, 1, RB_N);
}

static inline int smaller(int a, int b)
{
    return a < b ? a : b;
}

/* Compute H^-1 B in place. The first N columns of B are the identity. Only the upper triangle of
   their result is computed. */
static inline void solve(const real *columns, struct factors *f)
{
    const struct columns *w = (const void *)(columns + RB_N);
    for (int first = 0; first < 3 * RB_N; first += RB_BLOCK) {
        const int last = smaller(first + RB_BLOCK, 3 * RB_N);
        solve_block(w, f, f->B[0] + first, 3 * RB_N, last - first, smaller(last, RB_N));
    }
}

#else

/* Factorize H = L^T L in place, and compute the reciprocal diagonal of L (RBDA Table 6.3). */
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

/* Compute H^-1 x in place (RBDA Table 6.5). */
static inline void solve_one(const real *columns, struct factors *f, real *x)
{
    (void)columns;
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

/* Compute H from the columns and factorize it: H = L^T L. */
static inline void tree_factors(const real *columns, struct factors *f)
{
    const struct columns *w = (const void *)(columns + RB_N);
    for (int i = 0; i < RB_N; i++)
        inertia_row(w->S[0], w->R[RB_TURNS], i, f->L[i]);
    factorize(f->L, f->inverse);
}

static inline int smaller(int a, int b)
{
    return a < b ? a : b;
}

/* Compute H^-1 B in place. The first N columns of B are the identity. Only the upper triangle of
   their result is computed. */
static inline void solve(const real *columns, struct factors *f)
{
    (void)columns;
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

#endif

/* Compute qdd = H^-1 (tau - C); C is the first column. */
static inline void accelerations(const real *columns, const real *tau, real *work, real *qdd)
{
    struct factors *f = (void *)work;
    tree_factors(columns, f);
    for (int i = 0; i < RB_N; i++)
        qdd[i] = tau[i] - columns[i];
    solve_one(columns, f, qdd);
}

#ifdef RB_DEEP

enum { RB_TILE = 16 }; /* in tiles, a transposition reads and writes whole cache lines */

/* B = [-1, derivatives of the joint forces with respect to q and qd]. The N x N matrix `work` stores
   the columns of a derivative above the diagonal as rows. */
static inline void changes_to_solve(const real *columns, struct factors *f, real *work)
{
    const struct columns *w = (const void *)(columns + RB_N);
    memset(f->B, 0, sizeof f->B);
    for (int i = 0; i < RB_N; i++)
        f->B[i][i] = number(-1.0);
    for (int part = 0; part < 2; part++) {
        real *const matrix = f->B[0] + (1 + part) * RB_N;
        memset(work, 0, RB_N * RB_N * sizeof *work);
        for (int i = 0; i < RB_N; i++) {
            force_derivative_row(w, i, part, matrix + i * 3 * RB_N);
            for (int k = RB_BEFORE[RB_FIRST[i]]; k >= 0; k = RB_BEFORE[RB_RUN[k]])
                space_rows(work + i * RB_N, &w->G[part][0][i], w->S[0], RB_RUN[k], k + 1);
        }
        for (int tile = 0; tile < RB_N; tile += RB_TILE)
            for (int j = 0; j < RB_N; j++)
                for (int i = tile; i < tile + RB_TILE && i < RB_N; i++)
                    if (j < RB_FIRST[i])
                        matrix[j * 3 * RB_N + i] = work[i * RB_N + j];
    }
}

/* Write the derivatives -B with respect to q, qd and tau after the accelerations. */
static inline void write_derivatives(const struct factors *f, real *out)
{
    real *dq = out + RB_N, *dqd = dq + RB_N * RB_N, *dtau = dqd + RB_N * RB_N;
    for (int i = 0; i < RB_N; i++)
        for (int j = 0; j < RB_N; j++) {
            dq[i * RB_N + j] = -f->B[i][RB_N + j];
            dqd[i * RB_N + j] = -f->B[i][2 * RB_N + j];
        }
    for (int tile = 0; tile < RB_N; tile += RB_TILE)
        for (int i = 0; i < RB_N; i++)
            for (int j = tile; j < tile + RB_TILE && j < RB_N; j++)
                dtau[i * RB_N + j] = -(i < j ? f->B[i][j] : f->B[j][i]);
}

#else

/* B = [-1, derivatives of the joint forces with respect to q and qd]. */
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

/* Write the derivatives -B with respect to q, qd and tau after the accelerations. */
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

#endif

/* Refine the accelerations by the force that they require, which is the first column. Then write
   their derivatives with respect to q, qd and tau. */
static inline void motion_derivatives(const real *columns, const real *tau, real *work, real *out)
{
    struct factors *f = (void *)work;
    real rest[RB_N];
    for (int i = 0; i < RB_N; i++)
        rest[i] = tau[i] - columns[i];
    solve_one(columns, f, rest);
    for (int i = 0; i < RB_N; i++)
        out[i] += rest[i];
#ifdef RB_DEEP
    changes_to_solve(columns, f, out + RB_N + 2 * RB_N * RB_N); /* the derivative by tau is last */
#else
    changes_to_solve(columns, f);
#endif
    solve(columns, f);
    write_derivatives(f, out);
}

#endif
