/* The step of a linearly implicit integrator, in the place of the explicit one of step.h: the
   arithmetic of implicit.py.

   (1 - gamma h J) k_i = gamma (derivative(t + c_i h, x + h sum a_ij k_j) + sum coupling_ij k_j +
   time_i h df/dt)

   with rate_slopes = [J by rows | df/dt] at the start of the step. */

#ifndef RB_IMPLICIT_H
#define RB_IMPLICIT_H

#include <math.h>

#include "course.h"

#if RB_IMPLICIT

/* The factors of w in its place, by elimination with the largest pivot of each column; its row is
   kept in `pivot`. */
RB_NOT_INLINED
static void factorize(double w[RB_NX + 1][RB_NX + 1], int *pivot)
{
    for (int j = 0; j < RB_NX; j++) {
        pivot[j] = j;
        for (int i = j + 1; i < RB_NX; i++)
            if (fabs(w[i][j]) > fabs(w[pivot[j]][j]))
                pivot[j] = i;
        for (int c = j; c < RB_NX && pivot[j] != j; c++) {
            const double exchanged = w[j][c];
            w[j][c] = w[pivot[j]][c];
            w[pivot[j]][c] = exchanged;
        }
        for (int i = j + 1; i < RB_NX; i++)
            if (w[i][j] != 0.0) {
                w[i][j] /= w[j][j];
                for (int c = j + 1; c < RB_NX; c++)
                    w[i][c] -= w[i][j] * w[j][c];
            }
    }
}

/* w^-1 b in the place of b. */
RB_NOT_INLINED
static void solve(double w[RB_NX + 1][RB_NX + 1], const int *pivot, double *b)
{
    for (int j = 0; j < RB_NX; j++) {
        const double exchanged = b[pivot[j]];
        b[pivot[j]] = b[j];
        b[j] = exchanged;
        for (int i = j + 1; i < RB_NX; i++)
            b[i] -= w[i][j] * exchanged;
    }
    for (int j = RB_NX - 1; j >= 0; j--) {
        b[j] /= w[j][j];
        for (int i = 0; i < j; i++)
            b[i] -= w[i][j] * b[j];
    }
}

/* 1 - length J */
RB_NOT_INLINED
static void implicit_matrix(double w[RB_NX + 1][RB_NX + 1], double length, const double *slopes)
{
    for (int i = 0; i < RB_NX; i++)
        for (int j = 0; j < RB_NX; j++)
            w[i][j] = (i == j) - length * slopes[i * RB_NX + j];
}

#if RB_LINEARLY_IMPLICIT

static inline double weighted(const double *weights, double k[RB_IMPLICIT_STAGES][RB_NX + 1], int n,
                              int i)
{
    double sum = 0.0;
    for (int r = 0; r < n; r++)
        sum += weights[r] * k[r][i];
    return sum;
}

/* The stages k of a step from x at t, with the rates f there. */
RB_NOT_INLINED
static void implicit_stages(double *m, double t, double h, const double *x, const double *f,
                            const double *slopes, double k[RB_IMPLICIT_STAGES][RB_NX + 1])
{
    double w[RB_NX + 1][RB_NX + 1];
    int pivot[RB_NX + 1];
    implicit_matrix(w, RB_GAMMA * h, slopes);
    factorize(w, pivot);
    for (int s = 0; s < RB_IMPLICIT_STAGES; s++) {
        for (int i = 0; i < RB_NX; i++) {
            m[RB_X + i] = x[i] + h * weighted(RB_IMPLICIT_A[s], k, s, i);
            k[s][i] = f[i];
        }
        m[RB_T] = t + RB_IMPLICIT_C[s] * h;
        if (s > 0)
            derivative(m, k[s]);
        for (int i = 0; i < RB_NX; i++)
            k[s][i] = RB_GAMMA * (k[s][i] + weighted(RB_COUPLING[s], k, s, i) +
                                  RB_TIME[s] * h * slopes[RB_NX * RB_NX + i]);
        solve(w, pivot, k[s]);
    }
}

#if RB_EXACT_SLOPES
/* One step from t: x + h sum b_i k_i. */
static inline void integrate(double *m, double t, double h)
{
    double x[RB_NX + 1], f[RB_NX + 1], k[RB_IMPLICIT_STAGES][RB_NX + 1],
        slopes[RB_NX * RB_NX + RB_NX + 1];
    m[RB_T] = t;
    store(x, m + RB_X, RB_NX);
    rate_slopes(m, slopes);
    derivative(m, f);
    implicit_stages(m, t, h, x, f, slopes, k);
    for (int i = 0; i < RB_NX; i++)
        m[RB_X + i] =
            x[i] + h * weighted(RB_IMPLICIT_A[RB_IMPLICIT_STAGES], k, RB_IMPLICIT_STAGES, i);
}
#endif

#endif

#endif

#endif
