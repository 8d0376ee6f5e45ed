/* From the columns that dynamics derivatives are made of to the derivatives themselves, by dense loops.

   The generated text before this has N velocity variables; LAST[i], one past the last variable of the joint of variable i;
   END[i], one past the last variable that it supports; and PATH[i][j], 1 where the joint of j is on the path to that of i,
   itself included. All matrices are N x N in C order; the columns of S, R, X and G are their second index. */

#include <math.h>
#include <string.h>

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3") /* the loops become vector operations; clang makes them so anyway */
#endif

/* The columns, each row of them contiguous: motion subspaces, their covectors, what a variable changes at the bodies that
   it supports (for q, then for qd), the force that this takes, and what S changes on its own. */
struct columns {
    double value[N], S[6][N], R[9][N], X[9][2 * N], G[6][2 * N], own[N][N];
};

/* y -= sum of c[k stride] rows[k], of `length` elements each; the rows are `width` apart. */
static void subtract(double *restrict y, const double *c, int stride, const double *restrict rows, int width, int count,
                     int length)
{
    int k = 0;
    for (; k + 3 < count; k += 4, c += 4 * stride, rows += 4 * width) {
        const double c0 = c[0], c1 = c[stride], c2 = c[2 * stride], c3 = c[3 * stride];
        const double *restrict r1 = rows + width, *restrict r2 = r1 + width, *restrict r3 = r2 + width;
        for (int j = 0; j < length; j++)
            y[j] -= c0 * rows[j] + c1 * r1[j] + c2 * r2[j] + c3 * r3[j];
    }
    for (; k < count; k++, c += stride, rows += width)
        for (int j = 0; j < length; j++)
            y[j] -= c[0] * rows[j];
}

/* Minus the derivative of the joint forces by q (part 0) or qd (part 1): the row of variable i. */
static void minus_force_row(const struct columns *w, int i, int part, double *row)
{
    for (int j = 0; j < N; j++)
        row[j] = 0.0;
    subtract(row, &w->R[0][i], N, &w->X[0][part * N], 2 * N, 9, LAST[i]);
    subtract(row + LAST[i], &w->S[0][i], N, &w->G[0][part * N + LAST[i]], 2 * N, 6, N - LAST[i]);
    for (int j = 0; j < LAST[i]; j++)
        row[j] = PATH[i][j] * row[j];
    for (int j = LAST[i]; j < N; j++)
        row[j] = PATH[j][i] * row[j];
    if (part == 0)
        for (int j = 0; j < N; j++)
            row[j] -= w->own[i][j];
}

/* The lower triangle of minus the joint-space inertia matrix: the row of variable i. */
static void minus_inertia_row(const struct columns *w, int i, double *row)
{
    for (int j = 0; j <= i; j++)
        row[j] = 0.0;
    subtract(row, &w->R[3][i], N, w->S[0], N, 6, i + 1);
    for (int j = 0; j <= i; j++)
        row[j] = PATH[i][j] * row[j];
}

#ifdef INVERSE_DYNAMICS

static void finish(double *work, double *out)
{
    const struct columns *w = (const void *)work;
    double *value = out, *dq = out + N, *dqd = dq + N * N, *H = dqd + N * N;
    memcpy(value, w->value, sizeof w->value);
    for (int i = 0; i < N; i++) {
        minus_force_row(w, i, 0, dq + i * N);
        minus_force_row(w, i, 1, dqd + i * N);
        minus_inertia_row(w, i, H + i * N);
        for (int j = 0; j < N; j++) {
            dq[i * N + j] = -dq[i * N + j];
            dqd[i * N + j] = -dqd[i * N + j];
        }
        for (int j = 0; j <= i; j++)
            H[j * N + i] = H[i * N + j] = -H[i * N + j];
    }
}

#else

/* H = L^T L in place, H given with the other sign, and the reciprocal diagonal of L (RBDA Table 6.3). */
static void factorize(double (*L)[N], double *inverse)
{
    for (int i = N - 1; i >= 0; i--) {
        for (int j = 0; j <= i; j++)
            L[i][j] = -L[i][j];
        subtract(L[i], L[0] + (i + 1) * N + i, N, L[0] + (i + 1) * N, N, END[i] - i - 1, i + 1);
        inverse[i] = 1.0 / sqrt(L[i][i]);
        for (int j = 0; j < i; j++)
            L[i][j] *= inverse[i];
    }
}

/* H^-1 B in place, the first N columns of B being the identity, of whose image the upper triangle is computed. */
static void solve(const double (*L)[N], const double *inverse, double (*B)[3 * N])
{
    for (int i = N - 1; i >= 0; i--) {
        subtract(B[i] + i, L[0] + (i + 1) * N + i, N, B[0] + (i + 1) * 3 * N + i, 3 * N, END[i] - i - 1, 3 * N - i);
        for (int j = i; j < 3 * N; j++)
            B[i][j] *= inverse[i];
    }
    for (int i = 0; i < N; i++) {
        subtract(B[i] + i, L[i], 1, B[0] + i, 3 * N, i, 3 * N - i);
        for (int j = i; j < 3 * N; j++)
            B[i][j] *= inverse[i];
    }
}

static void finish(double *work, double *out)
{
    const struct columns *w = (const void *)work;
    double *value = out, *dq = out + N, *dqd = dq + N * N, *dtau = dqd + N * N;
    double(*L)[N] = (void *)(work + sizeof *w / sizeof *work), (*B)[3 * N] = (void *)L[N], *inverse = B[N];
    memcpy(value, w->value, sizeof w->value);
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < N; j++)
            B[i][j] = i == j;
        minus_force_row(w, i, 0, B[i] + N);
        minus_force_row(w, i, 1, B[i] + 2 * N);
        minus_inertia_row(w, i, L[i]);
    }
    factorize(L, inverse);
    solve((const double(*)[N])L, inverse, B);
    for (int i = 0; i < N; i++) {
        memcpy(dq + i * N, B[i] + N, N * sizeof(double));
        memcpy(dqd + i * N, B[i] + 2 * N, N * sizeof(double));
        for (int j = i; j < N; j++)
            dtau[i * N + j] = dtau[j * N + i] = B[i][j];
    }
}

#endif
