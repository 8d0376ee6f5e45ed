/* Second derivatives of joint forces and of accelerations from their columns
   (kernels/derivative_columns.py).

   The three variables of a second derivative are on one path, and d is the variable farthest from
   the base. The joint force belongs to d or to a variable nearer to the base. In the second case,
   it changes because d changes the force on the subtree of d. */

#ifndef RB_SECOND_DERIVATIVES_H
#define RB_SECOND_DERIVATIVES_H

#ifdef RB_IN_PLANE
#error "second derivatives are in space"
#endif

#if !defined(RB_TREE_MATRICES_H)
#include "tree_matrices.h"
#endif

/* Columns, one for each velocity variable:
     S, R, X, G   columns of the first derivatives (struct columns)
     V            linear component of dv for q
     Z            Z / 2
     M, N         effect of the variable on the force of its subtree, for q and for qd */
struct second_columns {
    real S[6][RB_N], R[9][RB_N], X[2][9][RB_N], G[2][6][RB_N], V[3][RB_N], Z[3][3][RB_N],
        M[6][9][RB_N], N[6][3][RB_N];
};

/* Second derivatives [i][j][k] of the joint force i: with respect to q (j) and q, qd or qdd (k),
   and with respect to qd and qd. */
struct tensors {
    real qq[RB_N][RB_N][RB_N], qv[RB_N][RB_N][RB_N], qa[RB_N][RB_N][RB_N], vv[RB_N][RB_N][RB_N];
};

/* y += cross products of the columns of x with one vector, for the elements `first` to
   `last` - 1. */
static inline void add_cross(real (*restrict y)[RB_N], const real (*restrict x)[RB_N],
                             const real *restrict c, int first, int last)
{
    const real c0 = c[0], c1 = c[RB_N], c2 = c[2 * RB_N];
    for (int k = first; k < last; k++) {
        y[0][k] += x[1][k] * c2 - x[2][k] * c1;
        y[1][k] += x[2][k] * c0 - x[0][k] * c2;
        y[2][k] += x[0][k] * c1 - x[1][k] * c0;
    }
}

/* y += S x* c: the cross products of the motions S with one force c, for the variables `first` to
   `last` - 1. */
static inline void add_turned(real (*y)[RB_N], const real (*S)[RB_N], const real *c, int first,
                              int last)
{
    add_cross(y, S, c, first, last);
    add_cross(y, S + 3, c + 3 * RB_N, first, last);
    add_cross(y + 3, S, c + 3 * RB_N, first, last);
}

/* Compute the derivatives of the covector R of variable d with respect to each variable on its
   path. The derivatives with respect to qd have only the first three elements. */
static inline void covector_changes(const struct second_columns *w, int d, real (*by_q)[RB_N],
                                    real (*by_qd)[RB_N])
{
    memset(by_q, 0, 9 * sizeof *by_q);
    for (int k = RB_LAST[d] - 1; k >= 0; k = RB_BEFORE[RB_RUN[k]]) {
        const int first = RB_RUN[k], last = k + 1;
        for (int row = 0; row < 3; row++) {
            three_rows(by_q[row], &w->Z[row][0][d], w->X[0][0], first, last);
            three_rows(by_qd[row], &w->Z[row][0][d], w->X[1][0], first, last);
        }
        add_cross(by_q, w->V, &w->R[6][d], first, last);
        add_cross(by_qd, w->S + 3, &w->R[6][d], first, last);
        add_cross(by_q, w->S, &w->R[0][d], first, last);
        add_turned(by_q + 3, w->S, &w->R[3][d], first, last);
    }
}

/* Store second derivatives of the force of variable i. The first derivative is with respect to the
   velocity of variable d, the second to the positions and velocities of the variables `first` to
   `last` - 1. For two velocities of one joint, the result is the mean over both orders of
   differentiation. */
static inline void put_speeds(struct tensors *t, int i, int d, const real *positions,
                              const real *speeds, int first, int last)
{
    for (int k = first; k < last; k++) {
        t->qv[i][k][d] = positions[k];
        if (k < RB_FIRST[d]) {
            t->vv[i][d][k] = t->vv[i][k][d] = speeds[k];
        } else {
            t->vv[i][d][k] += number(0.5) * speeds[k];
            t->vv[i][k][d] += number(0.5) * speeds[k];
        }
    }
}

/* Compute the second derivatives of the force of variable d with respect to the variables on its
   path. Variable j belongs to the joint of k or to a joint farther from the base. */
static inline void second_of_own_force(const struct second_columns *w, int d, struct tensors *t)
{
    real by_q[9][RB_N], by_qd[3][RB_N], mixed[RB_N], fast[RB_N];
    covector_changes(w, d, by_q, by_qd);
    for (int j = RB_LAST[d] - 1; j >= 0; j = RB_BEFORE[j]) {
        for (int k = RB_LAST[j] - 1; k >= 0; k = RB_BEFORE[RB_RUN[k]]) {
            nine_rows(t->qq[d][j], &by_q[0][j], w->X[0][0], RB_RUN[k], k + 1);
            three_rows(mixed, &by_qd[0][j], w->X[0][0], RB_RUN[k], k + 1);
            three_rows(fast, &by_qd[0][j], w->X[1][0], RB_RUN[k], k + 1);
            put_speeds(t, d, j, mixed, fast, RB_RUN[k], k + 1);
        }
        for (int k = RB_BEFORE[RB_FIRST[j]]; k >= 0; k = RB_BEFORE[RB_RUN[k]]) {
            nine_rows(t->qv[d][j], &by_q[0][j], w->X[1][0], RB_RUN[k], k + 1);
            six_rows(t->qa[d][j], &by_q[3][j], w->S[0], RB_RUN[k], k + 1);
        }
        for (int k = RB_BEFORE[RB_FIRST[j]]; k >= 0; k = RB_BEFORE[k]) {
            t->qq[d][k][j] = t->qq[d][j][k];
            t->qa[k][j][d] = t->qa[d][j][k];
        }
    }
}

/* Second derivatives of the forces on the subtree of variable d. The first derivative is with
   respect to q or qd of d. The second is with respect to q, qd or qdd of a variable k on the path
   of d. */
struct changed_forces {
    real qq[6][RB_N], qv[6][RB_N], qa[6][RB_N], vq[6][RB_N], vv[6][RB_N];
};

static inline void change_forces(const struct second_columns *w, int d, struct changed_forces *f)
{
    for (int k = RB_LAST[d] - 1; k >= 0; k = RB_BEFORE[RB_RUN[k]])
        for (int row = 0; row < 6; row++) {
            const real *M = &w->M[row][0][d], *N = &w->N[row][0][d];
            nine_rows(f->qq[row], M, w->X[0][0], RB_RUN[k], k + 1);
            nine_rows(f->qv[row], M, w->X[1][0], RB_RUN[k], k + 1);
            six_rows(f->qa[row], M + 3 * RB_N, w->S[0], RB_RUN[k], k + 1);
            three_rows(f->vq[row], N, w->X[0][0], RB_RUN[k], k + 1);
            three_rows(f->vv[row], N, w->X[1][0], RB_RUN[k], k + 1);
        }
}

/* Add the rotation of the forces of d by the variables of a joint. The rotation affects the forces
   at variables between the base and this joint. */
static inline void turn_forces(const struct second_columns *w, int d, int joint,
                               struct changed_forces *f)
{
    add_turned(f->qq, w->S, &w->G[0][0][d], RB_FIRST[joint], RB_LAST[joint]);
    add_turned(f->vq, w->S, &w->G[1][0][d], RB_FIRST[joint], RB_LAST[joint]);
}

/* Compute the second derivatives of the force of variable i with respect to d and the variables on
   the path of d. Variable i is also on this path. */
static inline void second_of_force(const struct second_columns *w, const struct changed_forces *f,
                                   int d, int i, struct tensors *t)
{
    const real *S = &w->S[0][i];
    real mixed[RB_N], fast[RB_N];
    for (int k = RB_LAST[d] - 1; k >= 0; k = RB_BEFORE[RB_RUN[k]]) {
        six_rows(t->qq[i][d], S, f->qq[0], RB_RUN[k], k + 1);
        six_rows(mixed, S, f->vq[0], RB_RUN[k], k + 1);
        six_rows(fast, S, f->vv[0], RB_RUN[k], k + 1);
        put_speeds(t, i, d, mixed, fast, RB_RUN[k], k + 1);
    }
    for (int k = RB_BEFORE[RB_FIRST[d]]; k >= 0; k = RB_BEFORE[RB_RUN[k]]) {
        six_rows(t->qv[i][d], S, f->qv[0], RB_RUN[k], k + 1);
        six_rows(t->qa[i][d], S, f->qa[0], RB_RUN[k], k + 1);
    }
    for (int k = RB_BEFORE[RB_FIRST[d]]; k >= 0; k = RB_BEFORE[k])
        t->qq[i][k][d] = t->qq[i][d][k];
}

/* Compute the second derivatives of the joint forces; the tensors are zero at first. */
static inline void second_derivatives(const struct second_columns *w, struct tensors *t)
{
    for (int d = 0; d < RB_N; d++) {
        struct changed_forces f;
        second_of_own_force(w, d, t);
        change_forces(w, d, &f);
        turn_forces(w, d, d, &f);
        for (int i = RB_BEFORE[RB_FIRST[d]]; i >= 0; i = RB_BEFORE[i]) {
            second_of_force(w, &f, d, i, t);
            if (i == RB_FIRST[i])
                turn_forces(w, d, i, &f);
        }
    }
}

/* Write the derivatives of the joint forces with respect to q, qd and qdd, then the second
   derivatives. */
static inline void second_force_derivatives(const real *columns, real *out)
{
    struct tensors *t = (void *)(out + 3 * RB_N * RB_N);
    force_derivatives(columns, out);
    memset(t, 0, sizeof *t);
    second_derivatives((const void *)columns, t);
}

/* Add the contribution of the changes of the accelerations (`motion`) to the changes of force i, in
   tensors with negative sign. Variables i and j are on one path, and d is the variable farther from
   the base. The function converts derivatives with respect to q and qdd to derivatives with respect
   to q and tau. */
static inline void add_accelerations(struct tensors *t, const real *motion, int i, int j, int d)
{
    const real *dq = motion, *dqd = dq + RB_N * RB_N, *dtau = dqd + RB_N * RB_N;
    real change[RB_N], by_q[RB_N];
    for (int k = 0; k < RB_N; k++)
        change[k] = -t->qa[i][j][k];
    memset(t->qa[i][j], 0, sizeof change);
    memset(by_q, 0, sizeof by_q);
    for (int k = d, last = RB_END[d]; k >= 0; k = RB_BEFORE[RB_RUN[k]], last = k + 1) {
        const int first = RB_RUN[k], count = last - first;
        subtract(by_q, change + first, 1, dq + first * RB_N, RB_N, count, RB_N);
        subtract(t->qv[i][j], change + first, 1, dqd + first * RB_N, RB_N, count, RB_N);
        subtract(t->qa[i][j], change + first, 1, dtau + first * RB_N, RB_N, count, RB_N);
    }
    for (int k = 0; k < RB_N; k++) {
        t->qq[i][j][k] += by_q[k];
        t->qq[i][k][j] += by_q[k];
    }
}

/* Compute H^-1 x in place for RB_N right-hand sides; the rows of x are N^2 apart. */
static inline void solve_rows(const struct factors *f, real *x)
{
    const int width = RB_N * RB_N;
    for (int i = RB_N - 1; i >= 0; i--) {
        subtract(x + i * width, &f->L[0][0] + (i + 1) * RB_N + i, RB_N, x + (i + 1) * width, width,
                 RB_END[i] - i - 1, RB_N);
        for (int k = 0; k < RB_N; k++)
            x[i * width + k] *= f->inverse[i];
    }
    for (int i = 0; i < RB_N; i++) {
        for (int k = RB_BEFORE[i]; k >= 0; k = RB_BEFORE[RB_RUN[k]])
            subtract(x + i * width, f->L[i] + RB_RUN[k], 1, x + RB_RUN[k] * width, width,
                     k + 1 - RB_RUN[k], RB_N);
        for (int k = 0; k < RB_N; k++)
            x[i * width + k] *= f->inverse[i];
    }
}

/* Write the refined accelerations, their derivatives with respect to q, qd and tau, and the second
   derivatives. */
static inline void second_motion_derivatives(const real *columns, const real *tau, real *work,
                                             real *out)
{
    struct tensors *t = (void *)(out + RB_N + 3 * RB_N * RB_N);
    real *all = t->qq[0][0];
    motion_derivatives(columns, tau, work, out);
    memset(t, 0, sizeof *t);
    second_derivatives((const void *)(columns + RB_N), t);
    for (size_t k = 0; k < 4 * (size_t)RB_N * RB_N * RB_N; k++)
        all[k] = -all[k];
    for (int d = 0; d < RB_N; d++)
        for (int k = d; k >= 0; k = RB_BEFORE[k]) {
            add_accelerations(t, out + RB_N, d, k, d);
            if (k < d)
                add_accelerations(t, out + RB_N, k, d, d);
        }
    for (int part = 0; part < 4; part++)
        for (int j = 0; j < RB_N; j++)
            solve_rows((const void *)work, all + (part * RB_N * RB_N + j) * RB_N);
}

#endif
