/* Forward dynamics of a tree with closed loops, and its derivatives
   (kernels/derivative_columns.py).

   In unit-inertia coordinates w = L qdd with H = L^T L, the constraint rows are Y = L^-T K^T = Q R
   by Gram-Schmidt; dependent rows are dropped. With P = 1 - Q Q^T

       w = P L^-T f + Q g,  R^T g = k,  R lam = g - Q^T L^-T f
       d qdd = -L^-1 (P L^-T B + Q R^-T E) at these qdd and lam,
       B = d(ID - K^T lam), E = d(K qdd - k)

   The generated text before this file defines NC constraints between TIPS bodies (tips). Each tip
   has a BODY, the LAST variable on the path to this body, and ROWS constraint rows that begin at
   ROW. At the variable STOP the paths to all ends of its constraints join.

   From X0, v and a of all tips, loop_rows computes -K for the six directions of each tip and row.
   It also computes k and the position errors. loop_changes computes three results from the same
   values and lam. First, the changes of k - K qdd for each row (CHANGES: position, twice the
   angular velocity, acceleration, linear velocity). Second, the forces on the tips. Third, the
   matrices -P for each BLOCK of two tips. If the second tip moves by xi, the force on the first tip
   changes by P xi and also rotates with its body. */

#ifndef RB_CLOSED_LOOPS_H
#define RB_CLOSED_LOOPS_H

#ifdef RB_IN_PLANE
#error "constraints are in space"
#endif

#if !defined(RB_TREE_MATRICES_H)
#include "tree_matrices.h"
#endif

#if !defined(RB_LOOPS_H) /* if the generated rows are in another file */
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

enum {
    RB_TIP_STATE = 24, /* number of values of a tip: X0 (12), v (6), a (6) */
    RB_CHANGES = 18    /* changes of a row: position, angular velocity, acceleration, velocity */
};

/* Rows Q, U = L^-1 Q, the columns T that result from E, and R with its reciprocal diagonal (0 for
   dropped rows). */
struct loops {
    real Q[RB_NC][RB_N], U[RB_NC][RB_N], T[RB_NC][2 * RB_N], R[RB_NC][RB_NC], inverse[RB_NC],
        g[RB_NC], left[RB_NC],
        /* state of the tips, followed by lam */
        values[RB_VALUES], state[RB_TIPS * RB_TIP_STATE + RB_NC], turned[6][RB_N];
};

typedef char loops_have_room[sizeof(struct loops) == RB_LOOP_ROOM * sizeof(real) ? 1 : -1];

static inline struct loops *loop_workspace(real *work)
{
    return (void *)(work + 5 * RB_N * RB_N);
}

/* Compute L^-T x (transform_to_unit_inertia) and L^-1 x (transform_from_unit_inertia) in place. */
static inline void transform_to_unit_inertia(const struct factors *f, real *x)
{
    for (int i = RB_N - 1; i >= 0; i--) {
        x[i] *= f->inverse[i];
        for (int k = RB_BEFORE[i]; k >= 0; k = RB_BEFORE[k])
            x[k] -= f->L[i][k] * x[i];
    }
}

static inline void transform_from_unit_inertia(const struct factors *f, real *x)
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

/* Compute Q and R of the rows Y. A row is dropped if its remainder is smaller than `tolerance`
   times the largest row. Each row is orthogonalized twice, which is sufficient
   (Parlett 1998, 6.9). */
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

/* y -= sum_k c[k stride] rows[k], for `count` rows of N elements. Only elements of variables
   between STOP and the tip change. */
static inline void subtract_along_path(int tip, real *y, const real *c, int stride,
                                       const real *rows, int count)
{
    const int stop = RB_TIP_STOP[tip];
    for (int k = RB_TIP_LAST[tip]; k > stop; k = RB_BEFORE[RB_RUN[k]]) {
        const int first = RB_RUN[k] > stop ? RB_RUN[k] : stop + 1;
        subtract(y + first, c, stride, rows + first, RB_N, count, k + 1 - first);
    }
}

static inline void get_states(const real *cells, int stride, struct loops *l)
{
    for (int tip = 0; tip < RB_TIPS; tip++)
        memcpy(l->state + tip * RB_TIP_STATE, cells + RB_TIP_BODY[tip] * stride,
               RB_TIP_STATE * sizeof *cells);
}

/* Compute the constraints of the tips: Q, R and g. Position errors can make dependent rows
   independent; the tolerance excludes these rows. */
static inline void constrain(const struct columns *w, const struct factors *f, struct loops *l)
{
    const real *row = l->values;
    real error = number(0.0);
    loop_rows(l->state, l->values);
    memset(l->Q, 0, sizeof l->Q);
    for (int tip = 0; tip < RB_TIPS; tip++)
        for (int c = RB_TIP_ROW[tip]; c < RB_TIP_ROW[tip] + RB_TIP_ROWS[tip]; c++, row += 6)
            subtract_along_path(tip, l->Q[c], row, 1, w->S[0], 6);
    const real *k = row, *delta = k + RB_NC;
    for (int c = 0; c < RB_NC; c++) {
        transform_to_unit_inertia(f, l->Q[c]);
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

/* Compute qdd from the joint forces tau and the constraints. The first column is the bias
   force C. */
static inline void closed_accelerations(const real *cells, int stride, const real *columns,
                                        const real *tau, real *work, real *qdd)
{
    struct factors *f = (void *)work;
    struct loops *l = loop_workspace(work);
    tree_factors(columns, f);
    for (int i = 0; i < RB_N; i++)
        qdd[i] = tau[i] - columns[i];
    get_states(cells, stride, l);
    constrain((const void *)(columns + RB_N), f, l);
    transform_to_unit_inertia(f, qdd);
    for (int c = 0; c < RB_NC; c++)
        l->left[c] = l->g[c] - product(l->Q[c], qdd);
    for (int c = 0; c < RB_NC; c++)
        add(qdd, l->left[c], l->Q[c]);
    transform_from_unit_inertia(f, qdd);
    real *lam = l->state + RB_TIPS * RB_TIP_STATE;
    for (int c = RB_NC - 1; c >= 0; c--) {
        lam[c] = l->left[c];
        for (int d = c + 1; d < RB_NC; d++)
            lam[c] -= l->R[c][d] * lam[d];
        lam[c] *= l->inverse[c];
    }
}

/* Refine the accelerations by the residual of the joint forces, which is tau minus the first
   column. The first column contains the required joint forces minus the constraint forces. */
static inline void refine_closed(const real *columns, const real *tau, const struct factors *f,
                                 const struct loops *l, real *qdd)
{
    real rest[RB_N];
    for (int i = 0; i < RB_N; i++)
        rest[i] = tau[i] - columns[i];
    transform_to_unit_inertia(f, rest);
    for (int c = 0; c < RB_NC; c++)
        add(rest, -product(l->Q[c], rest), l->Q[c]);
    transform_from_unit_inertia(f, rest);
    for (int i = 0; i < RB_N; i++)
        qdd[i] += rest[i];
}

/* Return the address of the forces on the tips, which follow the changes of the rows in
   `values`. */
static inline const real *tip_force_places(const struct loops *l)
{
    const real *forces = l->values;
    for (int tip = 0; tip < RB_TIPS; tip++)
        forces += RB_TIP_ROWS[tip] * RB_CHANGES;
    return forces;
}

/* Subtract the constraint forces from the forces that accelerate the bodies. */
static inline void pull_bodies(real *cells, int stride, int at, real *work)
{
    struct loops *l = loop_workspace(work);
    get_states(cells, stride, l);
    loop_changes(l->state, l->values);
    const real *force = tip_force_places(l);
    for (int tip = 0; tip < RB_TIPS; tip++)
        for (int k = 0; k < 6; k++)
            cells[RB_TIP_BODY[tip] * stride + at + k] -= *force++;
}

/* T = E: the derivatives of K qdd - k with respect to each variable. */
static inline void change_rows(const real *columns, struct loops *l)
{
    const struct columns *w = (const void *)(columns + RB_N);
    const real *linear = columns + (46 + RB_OWN) * RB_N, *row = l->values;
    memset(l->T, 0, sizeof l->T);
    for (int tip = 0; tip < RB_TIPS; tip++)
        for (int c = RB_TIP_ROW[tip]; c < RB_TIP_ROW[tip] + RB_TIP_ROWS[tip];
             c++, row += RB_CHANGES) {
            subtract_along_path(tip, l->T[c], row, 1, w->S[0], 6);
            subtract_along_path(tip, l->T[c], row + 6, 1, w->X[0][0], 9);
            subtract_along_path(tip, l->T[c], row + 15, 1, linear, 3);
            subtract_along_path(tip, l->T[c] + RB_N, row + 6, 1, w->X[1][0], 9);
            subtract_along_path(tip, l->T[c] + RB_N, row + 15, 1, w->S[3], 3);
        }
}

/* Subtract from B the changes of constraint forces that do not rotate with their bodies. */
static inline void turn_forces(const real *columns, struct factors *f, struct loops *l)
{
    const struct columns *w = (const void *)(columns + RB_N);
    const real *P = tip_force_places(l) + 6 * RB_TIPS;
    for (int block = 0; block < RB_BLOCKS; block++, P += 36) {
        const int one = RB_BLOCK[2 * block], other = RB_BLOCK[2 * block + 1];
        memset(l->turned, 0, sizeof l->turned);
        for (int k = 0; k < 6; k++)
            subtract_along_path(other, l->turned[k], P + 6 * k, 1, w->S[0], 6);
        for (int i = RB_TIP_LAST[one]; i >= 0; i = RB_BEFORE[i])
            subtract_along_path(other, f->B[i] + RB_N, &w->S[0][i], RB_N, l->turned[0], 6);
    }
}

/* T = R^-T E - U^T B. */
static inline void change_loops(const real *columns, struct factors *f, struct loops *l)
{
    change_rows(columns, l);
    turn_forces(columns, f, l);
    for (int c = 0; c < RB_NC; c++) {
        subtract(l->T[c], l->R[0] + c, RB_NC, l->T[0], 2 * RB_N, c, 2 * RB_N);
        for (int j = 0; j < 2 * RB_N; j++)
            l->T[c][j] *= l->inverse[c];
        memcpy(l->U[c], l->Q[c], sizeof l->U[c]);
        transform_from_unit_inertia(f, l->U[c]);
    }
    for (int c = 0; c < RB_NC; c++)
        subtract(l->T[c], l->U[c], 1, f->B[0] + RB_N, 3 * RB_N, RB_N, 2 * RB_N);
}

/* Write the refined accelerations, then their derivatives with respect to q, qd and tau. */
static inline void closed_derivatives(const real *columns, const real *tau, real *work, real *out)
{
    struct factors *f = (void *)work;
    struct loops *l = loop_workspace(work);
    refine_closed(columns, tau, f, l, out);
    changes_to_solve(columns, f);
    change_loops(columns, f, l);
    solve(columns, f);
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
