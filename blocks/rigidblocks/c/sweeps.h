
/* Projected Gauss-Seidel sweeps over contacts: a fixed number, with conjugate gradients between them.

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

/* Solves one contact after the other. */
static void sweep(const double *M, double known[COUNT][20], double *lam, double *w)
{
    double after[3], change[3];
    for (int i = 0, at[3]; i < COUNT; i++) {
        const int n = places(i, at);
        look(known[i], n, at, w, lam);
        if (n == 3)
            forces3(known[i], after);
        else
            forces1(known[i], after);
        int changed = 0;
        for (int j = 0; j < n; j++) {
            change[j] = after[j] - lam[at[j]];
            lam[at[j]] = after[j];
            changed |= change[j] != 0.0;
        }
        if (changed) /* what stays open costs little */
            add(w, M, n, at, change);
    }
}

/* x += factor way, where x, lam and w, is before + the last step; way = factor way + step. */
static void go_on(double *restrict x, double *restrict way, const double *restrict before, double factor)
{
    for (int j = 0; j < 2 * N; j++) {
        const double step = x[j] - before[j], more = factor * way[j];
        x[j] += more;
        way[j] = more + step;
    }
}

/* The squared change of lam since `before`. */
static double squared_step(const double *lam, const double *before)
{
    double sum = 0.0;
    for (int j = 0; j < N; j++)
        sum += (lam[j] - before[j]) * (lam[j] - before[j]);
    return sum;
}

/* Leaves the forces that a sweep changed least in `best`, with their w behind them; `x` has those of now, then room. */
static void run_sweeps(const double *M, double known[COUNT][20], double *x, double *best)
{
    double *lam = x, *w = lam + N, *way = w + N, *before = way + 2 * N, size[2] = {0.0, 0.0}, least = 0.0, factor;
    memcpy(best, x, 2 * N * sizeof *x);
    memset(way, 0, 2 * N * sizeof *way);
    for (int k = 0; k < SWEEPS; k++) {
        memcpy(before, x, 2 * N * sizeof *x);
        sweep(M, known, lam, w);
        size[0] = squared_step(lam, before);
        if (k == 0 || size[0] < least) {
            least = size[0];
            memcpy(best, x, 2 * N * sizeof *x);
        }
        goes_on(size, &factor);
        go_on(x, way, before, k ? factor : 0.0);
        size[1] = size[0];
    }
}

static void sweeps(const double *in, double *cells, double *out)
{
    const double *M = in, *d = M + N * N, *mu = d + N, *c = mu + FRICTION, *start = c + FRICTION;
    double *x = cells, *lam = out, *w = out + N, *residual = w + N, change[3], error;
    double(*known)[20] = (double(*)[20])(cells + 6 * N);
    prepare(M, mu, c, known);
    memcpy(x, start, N * sizeof *x);
    memcpy(x + N, d, N * sizeof *x);
    for (int i = 0, at[3]; i < COUNT; i++) {
        const int n = places(i, at);
        for (int j = 0; j < n; j++)
            change[j] = start[at[j]];
        add(x + N, M, n, at, change);
    }
    run_sweeps(M, known, x, out);
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
