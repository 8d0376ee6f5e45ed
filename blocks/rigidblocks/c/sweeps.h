
/* Projected Gauss-Seidel sweeps over contacts: a fixed number, forth and back in turn.

   The generated text before this has N unknowns: COUNT normals, then two tangents of each of the first FRICTION contacts;
   SWEEPS; and the functions of one contact with friction (forces3, rates3, error3) and without (forces1, rates1, error1).
   Their inputs are its block of M (by rows), rates, w and lam, in the order z, x, y, then mu and c. */

#include <string.h>

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3") /* the loops become vector operations; clang makes them so anyway */
#endif

enum { A3 = 0, RATES3 = 9, W3 = 12, LAM3 = 15, MU3 = 18, C3 = 19, A1 = 0, RATES1 = 1, W1 = 2, LAM1 = 3 };

/* Where contact i has its unknowns, and how many. */
static int places(int i, int at[3])
{
    at[0] = i;
    at[1] = COUNT + 2 * i;
    at[2] = at[1] + 1;
    return i < FRICTION ? 3 : 1;
}

/* w += M change, where the n unknowns of a contact change. */
static void add(double *restrict w, const double *restrict M, int n, const int at[3], const double *change)
{
    const double *restrict z = M + N * at[0];
    if (n == 1) {
        for (int j = 0; j < N; j++)
            w[j] += change[0] * z[j];
        return;
    }
    const double *restrict x = M + N * at[1], *restrict y = M + N * at[2];
    for (int j = 0; j < N; j++)
        w[j] += change[0] * z[j] + change[1] * x[j] + change[2] * y[j];
}

/* The constants of all contacts: their blocks of M, rates and limits. */
static void prepare(const double *M, const double *mu, const double *c, double known[COUNT][20])
{
    for (int i = 0, at[3]; i < COUNT; i++) {
        const int n = places(i, at);
        for (int j = 0; j < n; j++)
            for (int k = 0; k < n; k++)
                known[i][n * j + k] = M[N * at[j] + at[k]];
        if (n == 3) {
            rates3(known[i], known[i] + RATES3);
            known[i][MU3] = mu[i];
            known[i][C3] = c[i];
        } else
            rates1(known[i], known[i] + RATES1);
    }
}

/* Contact i with what is the case now. */
static void look(double known[20], int n, const int at[3], const double *w, const double *lam)
{
    for (int j = 0; j < n; j++) {
        known[(n == 3 ? W3 : W1) + j] = w[at[j]];
        known[(n == 3 ? LAM3 : LAM1) + j] = lam[at[j]];
    }
}

static void sweeps(const double *in, double *cells, double *out)
{
    const double *M = in, *d = M + N * N, *mu = d + N, *c = mu + FRICTION, *start = c + FRICTION;
    double *lam = out, *w = out + N, *residual = w + N, after[3], change[3], error;
    double(*known)[20] = (double(*)[20])cells;
    prepare(M, mu, c, known);
    memcpy(w, d, N * sizeof *w);
    memcpy(lam, start, N * sizeof *lam);
    for (int i = 0, at[3]; i < COUNT; i++) {
        const int n = places(i, at);
        for (int j = 0; j < n; j++)
            change[j] = lam[at[j]];
        add(w, M, n, at, change);
    }
    for (int sweep = 0; sweep < SWEEPS; sweep++)
        for (int k = 0, at[3]; k < COUNT; k++) {
            const int i = sweep % 2 ? COUNT - 1 - k : k, n = places(i, at);
            look(known[i], n, at, w, lam);
            if (n == 3)
                forces3(known[i], after);
            else
                forces1(known[i], after);
            for (int j = 0; j < n; j++) {
                change[j] = after[j] - lam[at[j]];
                lam[at[j]] = after[j];
            }
            add(w, M, n, at, change);
        }
    *residual = 0.0;
    for (int i = 0, at[3]; i < COUNT; i++) {
        const int n = places(i, at);
        look(known[i], n, at, w, lam);
        if (n == 3)
            error3(known[i], &error);
        else
            error1(known[i], &error);
        *residual = error > *residual ? error : *residual;
    }
}
