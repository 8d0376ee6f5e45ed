/* Forward dynamics of a tree whose loops are closed, and their derivatives (kernels/columns.py).

   In coordinates in which the inertia is 1, w = L qdd with H = L^T L, the constraints are Q R of Y = L^-T K^T by Gram and
   Schmidt, where what is left of a row that depends on those before it is dropped. So with P = 1 - Q Q^T

       w = P L^-T f + Q g,  R^T g = k,  R lam = g - Q^T L^-T f
       d qdd = -L^-1 (P L^-T B + Q R^-T E),  B = d(ID - K^T lam), E = d(K qdd - k) at these qdd and lam

   The generated text before this has NC constraints; of K (NC x N), E (NC x 2 N, by q and then by qd) and F = d(K^T lam)/dq
   (N x N) the COUNT of elements that are not zero and where they are, AT; loop_rows, of (q, qd) these of K, then k and the
   position errors; loop_changes, of (q, qd, qdd, lam) those of E and F; and VALUES, the most that one of them gives. */

#ifndef RB_CLOSED_LOOPS_H
#define RB_CLOSED_LOOPS_H

#if !defined(RB_DERIVATIVES_H)
#include "derivatives.h"
#endif

#if !defined(RB_LOOPS_H) /* unless it is before this in one text */
#include "loops.h"
#endif

#ifdef RB_LANES
static inline real reciprocal_above(real x, real limit)
{
    return masked((bits)(x > limit), lanes(1.0) / x);
}
#else
static inline double reciprocal_above(double x, double limit)
{
    return x > limit ? 1.0 / x : 0.0;
}

static inline double magnitude(double x)
{
    return fabs(x);
}

static inline double maximum(double a, double b)
{
    return a > b ? a : b;
}

static inline double minimum(double a, double b)
{
    return a < b ? a : b;
}
#endif

/* Rows Q, U = L^-1 Q, the columns T of what becomes of E, and R with its reciprocal diagonal, 0 of what is dropped. */
struct loops {
    real Q[RB_NC][RB_N], U[RB_NC][RB_N], T[RB_NC][2 * RB_N], R[RB_NC][RB_NC], inverse[RB_NC], g[RB_NC], left[RB_NC],
         values[RB_VALUES], state[RB_NQ + 2 * RB_N + RB_NC]; /* state: q, qd, qdd, lam */
};

typedef char loops_have_room[sizeof(struct loops) == RB_LOOP_ROOM * sizeof(real) ? 1 : -1];

static inline struct loops *loops_behind(real *work)
{
    return (void *)(work + 5 * RB_N * RB_N);
}

/* L^-T x in place, and L^-1 x. */
static inline void to_unit_inertia(const struct factors *f, real *x)
{
    for (int i = RB_N - 1; i >= 0; i--) {
        x[i] *= f->inverse[i];
        for (int k = RB_BEFORE[i]; k >= 0; k = RB_BEFORE[k])
            x[k] -= f->L[i][k] * x[i];
    }
}

static inline void from_unit_inertia(const struct factors *f, real *x)
{
    for (int i = 0; i < RB_N; i++) {
        for (int k = RB_BEFORE[i]; k >= 0; k = RB_BEFORE[k])
            x[i] -= f->L[i][k] * x[k];
        x[i] *= f->inverse[i];
    }
}

static inline real product(const real *a, const real *b)
{
    real sum = number(0.0);
    for (int i = 0; i < RB_N; i++)
        sum += a[i] * b[i];
    return sum;
}

static inline void add(real *y, real c, const real *x)
{
    for (int i = 0; i < RB_N; i++)
        y[i] += c * x[i];
}

/* Q and R of the rows Y, below `tolerance` of the largest of which what is left of one is dropped. Each is made orthogonal
   twice, which is enough (Parlett 1998, 6.9). */
static inline void orthogonalize(struct loops *l, real tolerance)
{
    real largest = number(0.0);
    memset(l->R, 0, sizeof l->R);
    for (int c = 0; c < RB_NC; c++)
        largest = maximum(largest, square_root(product(l->Q[c], l->Q[c])));
    for (int c = 0; c < RB_NC; c++) {
        for (int again = 0; again < 2; again++)
            for (int b = 0; b < c; b++) {
                const real s = product(l->Q[b], l->Q[c]);
                l->R[b][c] += s;
                add(l->Q[c], -s, l->Q[b]);
            }
        l->R[c][c] = square_root(product(l->Q[c], l->Q[c]));
        l->inverse[c] = reciprocal_above(l->R[c][c], tolerance * largest);
        for (int i = 0; i < RB_N; i++)
            l->Q[c][i] *= l->inverse[c];
    }
}

/* The constraints at (q, qd), where `in` begins: Q, R and g. Where loops are open, what depends on others when they are
   closed is independent by as much, of which nothing may be made. */
static inline void constrain(const real *in, const struct factors *f, struct loops *l)
{
    loop_rows(in, l->values);
    const real *k = l->values + RB_K_COUNT, *delta = k + RB_NC;
    real error = number(0.0);
    memset(l->Q, 0, sizeof l->Q);
    for (int e = 0; e < RB_K_COUNT; e++)
        l->Q[RB_K_AT[e] / RB_N][RB_K_AT[e] % RB_N] = l->values[e];
    for (int c = 0; c < RB_NC; c++) {
        to_unit_inertia(f, l->Q[c]);
        error = maximum(magnitude(delta[c]), error);
    }
    orthogonalize(l, maximum(minimum(number(100.0) * error, number(1e-3)), number(1e-9)));
    for (int c = 0; c < RB_NC; c++) {
        l->g[c] = k[c];
        for (int b = 0; b < c; b++)
            l->g[c] -= l->R[b][c] * l->g[b];
        l->g[c] *= l->inverse[c];
    }
}

/* qdd of the joint forces tau and the constraints; the first of the columns are the forces C. */
static inline void closed_accelerations(const real *in, const real *columns, const real *tau, real *work, real *qdd)
{
    struct factors *f = (void *)work;
    struct loops *l = loops_behind(work);
    tree_factors(columns, f);
    for (int i = 0; i < RB_N; i++)
        qdd[i] = tau[i] - columns[i];
    constrain(in, f, l);
    to_unit_inertia(f, qdd);
    for (int c = 0; c < RB_NC; c++)
        l->left[c] = l->g[c] - product(l->Q[c], qdd);
    for (int c = 0; c < RB_NC; c++)
        add(qdd, l->left[c], l->Q[c]);
    from_unit_inertia(f, qdd);
    real *lam = l->state + RB_NQ + 2 * RB_N;
    for (int c = RB_NC - 1; c >= 0; c--) {
        lam[c] = l->left[c];
        for (int d = c + 1; d < RB_NC; d++)
            lam[c] -= l->R[c][d] * lam[d];
        lam[c] *= l->inverse[c];
    }
}

/* Adds to the accelerations what the forces that they take, the first of the columns, lack of tau and the constraint
   forces. */
static inline void refine_closed(const real *columns, const real *tau, const struct factors *f, const struct loops *l,
                                 real *qdd)
{
    real rest[RB_N];
    for (int i = 0; i < RB_N; i++)
        rest[i] = tau[i] - columns[i];
    to_unit_inertia(f, rest);
    for (int c = 0; c < RB_NC; c++)
        add(rest, -product(l->Q[c], rest), l->Q[c]);
    from_unit_inertia(f, rest);
    for (int i = 0; i < RB_N; i++)
        qdd[i] += rest[i];
}

/* T = R^-T E, of which U^T B is taken off, and F off B. */
static inline void change_loops(const real *in, const real *qdd, struct factors *f, struct loops *l)
{
    memcpy(l->state, in, (RB_NQ + RB_N) * sizeof *in);
    memcpy(l->state + RB_NQ + RB_N, qdd, RB_N * sizeof *qdd);
    loop_changes(l->state, l->values);
    memset(l->T, 0, sizeof l->T);
    for (int e = 0; e < RB_E_COUNT; e++)
        l->T[RB_E_AT[e] / (2 * RB_N)][RB_E_AT[e] % (2 * RB_N)] = l->values[e];
    for (int e = 0; e < RB_F_COUNT; e++)
        f->B[RB_F_AT[e] / RB_N][RB_N + RB_F_AT[e] % RB_N] -= l->values[RB_E_COUNT + e];
    for (int c = 0; c < RB_NC; c++) {
        subtract(l->T[c], l->R[0] + c, RB_NC, l->T[0], 2 * RB_N, c, 2 * RB_N);
        for (int j = 0; j < 2 * RB_N; j++)
            l->T[c][j] *= l->inverse[c];
        memcpy(l->U[c], l->Q[c], sizeof l->U[c]);
        from_unit_inertia(f, l->U[c]);
    }
    for (int c = 0; c < RB_NC; c++)
        subtract(l->T[c], l->U[c], 1, f->B[0] + RB_N, 3 * RB_N, RB_N, 2 * RB_N);
}

/* The derivatives of the accelerations by q, qd and tau behind the accelerations, which are refined. */
static inline void closed_derivatives(const real *in, const real *columns, const real *tau, real *work, real *out)
{
    struct factors *f = (void *)work;
    struct loops *l = loops_behind(work);
    refine_closed(columns, tau, f, l, out);
    changes_to_solve(columns, f);
    change_loops(in, out, f, l);
    solve(f);
    for (int c = 0; c < RB_NC; c++)
        for (int i = 0; i < RB_N; i++) {
            for (int j = i; j < RB_N; j++)
                f->B[i][j] += l->U[c][i] * l->U[c][j];
            for (int j = 0; j < 2 * RB_N; j++)
                f->B[i][RB_N + j] += l->U[c][i] * l->T[c][j];
        }
    write_derivatives(f, out);
}

#endif
