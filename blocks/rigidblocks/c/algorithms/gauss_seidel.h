/* Projected Gauss-Seidel: a fixed number of sweeps over contacts, with conjugate directions.

   The generated text before this file defines

     N                            unknowns: COUNT normals, then two tangents of each of the first
                                  FRICTION contacts
     SWEEPS                       number of sweeps
     forces3, rates3, error3      functions of one contact with friction
     forces1, rates1, error1      functions of one contact without friction

   Inputs of these functions: the contact's block of M (by rows), rates, w and lam in the order
   z, x, y, then mu and c. */

#ifndef RB_GAUSS_SEIDEL_H
#define RB_GAUSS_SEIDEL_H

#include <math.h>
#include <string.h>

#if !defined(RB_CONTACTS_H) /* if the generated functions are in another file */
#include "contacts.h"
#endif

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3") /* vectorizes the loops; clang does so anyway */
#endif

enum {
    RB_A3 = 0,
    RB_RATES3 = 9,
    RB_W3 = 12,
    RB_LAM3 = 15,
    RB_MU3 = 18,
    RB_C3 = 19,
    RB_A1 = 0,
    RB_RATES1 = 1,
    RB_W1 = 2,
    RB_LAM1 = 3
};

/* Compute the indices of the unknowns of contact i. Returns their number. */
static inline int contact_unknowns(int i, int at[3])
{
    at[0] = i;
    at[1] = RB_COUNT + 2 * i;
    at[2] = at[1] + 1;
    return i < RB_FRICTION ? 3 : 1;
}

/* w += M change, where `change` holds the n unknowns of one contact. */
static inline void add(double *restrict w, const double *restrict M, int n, const int at[3],
                       const double *change)
{
    const double *restrict z = M + RB_N * at[0];
    if (n == 1) {
        for (int j = 0; j < RB_N; j++)
            w[j] += change[0] * z[j];
        return;
    }
    const double *restrict x = M + RB_N * at[1], *restrict y = M + RB_N * at[2];
    for (int j = 0; j < RB_N; j++)
        w[j] += change[0] * z[j] + change[1] * x[j] + change[2] * y[j];
}

/* Compute the constants of all contacts: blocks of M, rates and limits. */
static inline void prepare(const double *M, const double *mu, const double *c,
                           double known[RB_COUNT][20])
{
    for (int i = 0, at[3]; i < RB_COUNT; i++) {
        const int n = contact_unknowns(i, at);
        for (int j = 0; j < n; j++)
            for (int k = 0; k < n; k++)
                known[i][n * j + k] = M[RB_N * at[j] + at[k]];
        if (n == 3) {
            rates3(known[i], known[i] + RB_RATES3);
            known[i][RB_MU3] = mu[i];
            known[i][RB_C3] = c[i];
        } else
            rates1(known[i], known[i] + RB_RATES1);
    }
}

/* Copy w and lam of contact i into the inputs of its functions. */
static inline void select_contact_case(double known[20], int n, const int at[3], const double *w,
                                       const double *lam)
{
    for (int j = 0; j < n; j++) {
        known[(n == 3 ? RB_W3 : RB_W1) + j] = w[at[j]];
        known[(n == 3 ? RB_LAM3 : RB_LAM1) + j] = lam[at[j]];
    }
}

/* Do one sweep: solve one contact after the other. */
static inline void sweep(const double *M, double known[RB_COUNT][20], double *lam, double *w)
{
    double after[3], change[3];
    for (int i = 0, at[3]; i < RB_COUNT; i++) {
        const int n = contact_unknowns(i, at);
        select_contact_case(known[i], n, at, w, lam);
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
        if (changed) /* skip the product for open contacts */
            add(w, M, n, at, change);
    }
}

/* Extrapolate x (lam and w): x = x_before + step + factor way, then way = factor way + step. */
static inline void extrapolate_sweep(double *restrict x, double *restrict way,
                                     const double *restrict before, double factor)
{
    for (int j = 0; j < 2 * RB_N; j++) {
        const double step = x[j] - before[j], more = factor * way[j];
        x[j] += more;
        way[j] = more + step;
    }
}

/* Return the squared norm of the change of lam. */
static inline double squared_step(const double *lam, const double *before)
{
    double sum = 0.0;
    for (int j = 0; j < RB_N; j++)
        sum += (lam[j] - before[j]) * (lam[j] - before[j]);
    return sum;
}

/* Do all sweeps. `best` receives the forces of the sweep with the smallest change, followed by the
   corresponding w. `x` holds the current forces and w, followed by workspace. */
static inline void run_sweeps(const double *M, double known[RB_COUNT][20], double *x, double *best)
{
    double *lam = x, *w = lam + RB_N, *way = w + RB_N, *before = way + 2 * RB_N,
           size[2] = {0.0, 0.0}, least = 0.0, factor;
    memcpy(best, x, 2 * RB_N * sizeof *x);
    memset(way, 0, 2 * RB_N * sizeof *way);
    for (int k = 0; k < RB_SWEEPS; k++) {
        memcpy(before, x, 2 * RB_N * sizeof *x);
        sweep(M, known, lam, w);
        size[0] = squared_step(lam, before);
        if (k == 0 || !(least < size[0])) { /* also true if a size is NaN */
            least = size[0];
            memcpy(best, x, 2 * RB_N * sizeof *x);
        }
        goes_on(size, &factor);
        extrapolate_sweep(x, way, before, k ? factor : 0.0);
        size[1] = size[0];
    }
}

static inline void sweeps(const double *in, double *cells, double *out)
{
    const double *M = in, *d = M + RB_N * RB_N, *mu = d + RB_N, *c = mu + RB_FRICTION,
                 *start = c + RB_FRICTION;
    double *x = cells, *lam = out, *w = out + RB_N, *residual = w + RB_N, change[3], error;
    double (*known)[20] = (double (*)[20])(cells + 6 * RB_N);
    prepare(M, mu, c, known);
    memcpy(x, start, RB_N * sizeof *x);
    memcpy(x + RB_N, d, RB_N * sizeof *x);
    for (int i = 0, at[3]; i < RB_COUNT; i++) {
        const int n = contact_unknowns(i, at);
        for (int j = 0; j < n; j++)
            change[j] = start[at[j]];
        add(x + RB_N, M, n, at, change);
    }
    run_sweeps(M, known, x, out);
    *residual = 0.0;
    for (int i = 0, at[3]; i < RB_COUNT; i++) {
        const int n = contact_unknowns(i, at);
        select_contact_case(known[i], n, at, w, lam);
        if (n == 3)
            error3(known[i], &error);
        else
            error1(known[i], &error);
        if (error > *residual || isnan(error))
            *residual = error;
    }
}

#endif
