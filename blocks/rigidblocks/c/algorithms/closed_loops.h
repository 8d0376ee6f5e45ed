/* Forward dynamics of a tree whose loops are closed, and their derivatives (kernels/columns.py).

   In coordinates in which the inertia is 1, w = L qdd with H = L^T L, the constraints are Q R of Y
   = L^-T K^T by Gram and Schmidt, where what is left of a row that depends on those before it is
   dropped. So with P = 1 - Q Q^T

       w = P L^-T f + Q g,  R^T g = k,  R lam = g - Q^T L^-T f
       d qdd = -L^-1 (P L^-T B + Q R^-T E) at these qdd and lam,
       B = d(ID - K^T lam), E = d(K qdd - k)

   The generated text before this has NC constraints between TIPS bodies in all: of each tip its
   BODY, the LAST variable on the path to it, the one at which the paths to all ends of its
   constraints STOP to be the same, and its ROW, the first of ROWS. loop_rows, of the X0, v and a of
   all tips, gives -K of six directions in which a tip moves for each of its rows, then k and the
   position errors; loop_changes, of these and lam, the changes of k - K qdd for each of its rows
   (CHANGES of them: the place, twice the angular velocity, the acceleration, the linear velocity),
   then the forces on the tips, and for each BLOCK of two tips -P: the force on the first changes by
   P xi, beyond that it turns with it, where the second moves by xi. */

#ifndef RB_CLOSED_LOOPS_H
#define RB_CLOSED_LOOPS_H

#ifdef RB_IN_PLANE
#error "constraints are in space"
#endif

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

enum { RB_TIP_STATE = 24, RB_CHANGES = 18 };

/* Rows Q, U = L^-1 Q, the columns T of what becomes of E, and R with its reciprocal diagonal, 0 of
   what is dropped. */
struct loops {
    real Q[RB_NC][RB_N], U[RB_NC][RB_N], T[RB_NC][2 * RB_N], R[RB_NC][RB_NC], inverse[RB_NC],
        g[RB_NC], left[RB_NC],
        /* state: of the tips, then lam */
        values[RB_VALUES], state[RB_TIPS * RB_TIP_STATE + RB_NC], turned[6][RB_N];
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

/* Q and R of the rows Y, below `tolerance` of the largest of which what is left of one is dropped.
   Each is made orthogonal twice, which is enough (Parlett 1998, 6.9). */
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

/* y -= sum of c[k stride] rows[k], count rows of N, for the variables on the path to a tip that not
   all ends have. */
static inline void along_path(int tip, real *y, const real *c, int stride, const real *rows,
                              int count)
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

/* The constraints of the tips: Q, R and g. Where loops are open, what depends on others when they
   are closed is independent by as much, of which nothing may be made. */
static inline void constrain(const struct columns *w, const struct factors *f, struct loops *l)
{
    const real *row = l->values;
    real error = number(0.0);
    loop_rows(l->state, l->values);
    memset(l->Q, 0, sizeof l->Q);
    for (int tip = 0; tip < RB_TIPS; tip++)
        for (int c = RB_TIP_ROW[tip]; c < RB_TIP_ROW[tip] + RB_TIP_ROWS[tip]; c++, row += 6)
            along_path(tip, l->Q[c], row, 1, w->S[0], 6);
    const real *k = row, *delta = k + RB_NC;
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
static inline void closed_accelerations(const real *cells, int stride, const real *columns,
                                        const real *tau, real *work, real *qdd)
{
    struct factors *f = (void *)work;
    struct loops *l = loops_behind(work);
    tree_factors(columns, f);
    for (int i = 0; i < RB_N; i++)
        qdd[i] = tau[i] - columns[i];
    get_states(cells, stride, l);
    constrain((const void *)(columns + RB_N), f, l);
    to_unit_inertia(f, qdd);
    for (int c = 0; c < RB_NC; c++)
        l->left[c] = l->g[c] - product(l->Q[c], qdd);
    for (int c = 0; c < RB_NC; c++)
        add(qdd, l->left[c], l->Q[c]);
    from_unit_inertia(f, qdd);
    real *lam = l->state + RB_TIPS * RB_TIP_STATE;
    for (int c = RB_NC - 1; c >= 0; c--) {
        lam[c] = l->left[c];
        for (int d = c + 1; d < RB_NC; d++)
            lam[c] -= l->R[c][d] * lam[d];
        lam[c] *= l->inverse[c];
    }
}

/* Adds to the accelerations what the forces that they take, the first of the columns, lack of tau
   and the constraint forces. */
static inline void refine_closed(const real *columns, const real *tau, const struct factors *f,
                                 const struct loops *l, real *qdd)
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

/* Where the changes of the tips' rows, the forces on them and the blocks are. */
static inline const real *forces_of(const struct loops *l)
{
    const real *forces = l->values;
    for (int tip = 0; tip < RB_TIPS; tip++)
        forces += RB_TIP_ROWS[tip] * RB_CHANGES;
    return forces;
}

/* The forces of the constraints on the bodies that accelerate so, taken off those that accelerate
   them. */
static inline void pull_bodies(real *cells, int stride, int at, real *work)
{
    struct loops *l = loops_behind(work);
    get_states(cells, stride, l);
    loop_changes(l->state, l->values);
    const real *force = forces_of(l);
    for (int tip = 0; tip < RB_TIPS; tip++)
        for (int k = 0; k < 6; k++)
            cells[RB_TIP_BODY[tip] * stride + at + k] -= *force++;
}

/* T = E, a change of K qdd - k by each variable. */
static inline void change_rows(const real *columns, struct loops *l)
{
    const struct columns *w = (const void *)(columns + RB_N);
    const real *linear = columns + (46 + RB_OWN) * RB_N, *row = l->values;
    memset(l->T, 0, sizeof l->T);
    for (int tip = 0; tip < RB_TIPS; tip++)
        for (int c = RB_TIP_ROW[tip]; c < RB_TIP_ROW[tip] + RB_TIP_ROWS[tip];
             c++, row += RB_CHANGES) {
            along_path(tip, l->T[c], row, 1, w->S[0], 6);
            along_path(tip, l->T[c], row + 6, 1, w->X[0][0], 9);
            along_path(tip, l->T[c], row + 15, 1, linear, 3);
            along_path(tip, l->T[c] + RB_N, row + 6, 1, w->X[1][0], 9);
            along_path(tip, l->T[c] + RB_N, row + 15, 1, w->S[3], 3);
        }
}

/* Takes off B what forces change by that do not turn with the bodies they are on. */
static inline void turn_forces(const real *columns, struct factors *f, struct loops *l)
{
    const struct columns *w = (const void *)(columns + RB_N);
    const real *P = forces_of(l) + 6 * RB_TIPS;
    for (int block = 0; block < RB_BLOCKS; block++, P += 36) {
        const int one = RB_BLOCK[2 * block], other = RB_BLOCK[2 * block + 1];
        memset(l->turned, 0, sizeof l->turned);
        for (int k = 0; k < 6; k++)
            along_path(other, l->turned[k], P + 6 * k, 1, w->S[0], 6);
        for (int i = RB_TIP_LAST[one]; i >= 0; i = RB_BEFORE[i])
            along_path(other, f->B[i] + RB_N, &w->S[0][i], RB_N, l->turned[0], 6);
    }
}

/* T = R^-T E, of which U^T B is taken off. */
static inline void change_loops(const real *columns, struct factors *f, struct loops *l)
{
    change_rows(columns, l);
    turn_forces(columns, f, l);
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

/* The derivatives of the accelerations by q, qd and tau behind the accelerations, which are
   refined. */
static inline void closed_derivatives(const real *columns, const real *tau, real *work, real *out)
{
    struct factors *f = (void *)work;
    struct loops *l = loops_behind(work);
    refine_closed(columns, tau, f, l, out);
    changes_to_solve(columns, f);
    change_loops(columns, f, l);
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
