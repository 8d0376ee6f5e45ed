/* Joints that close loops: their constraints K qd = 0 are taken out of H^-1, so that contacts and
   stops see what the closed loops let move, and positions are brought back to where the loops are
   closed.

   In the coordinates L qd, in which the inertia is 1, the constraints are brought to orthonormal
   directions (Gram and Schmidt, with pivoting; dependent ones are dropped); H^-1 becomes L^-1 (1 -
   Q Q^T) L^-T. The generated text has RB_CLOSURES and their tables: RB_LOOP_BODY (of F_p and of
   F_s, RB_BODIES for what is at rest), RB_LOOP_FRAME (9 + 3 each of both, about the centres of
   mass), RB_LOOP_TURN (whether it turns: 0 no, 1 about RB_LOOP_AXIS, 3 each, in both frames, 2 all
   ways); RB_LOOP_ROWS and theirs: RB_LOOP_ROW (what of the error they take, an angle and a way in
   F_p, 3 + 3 each), RB_ROW_LOOP; RB_POSITIONS, the length of q. */

#ifndef RB_LOOPS_H
#define RB_LOOPS_H

#include "trees.h"

/* Where a frame of a loop joint is. */
static inline void loop_frame(const struct scene *s, int loop, int side, double *r, double *o)
{
    const struct body *body = &s->body[RB_LOOP_BODY[loop][side]];
    product(body->r, RB_LOOP_FRAME[2 * loop + side], r);
    turn(body->r, RB_LOOP_FRAME[2 * loop + side] + 9, o);
    along(body->x, 1.0, o, o);
}

/* The angle of the two frames of a loop joint against each other, as far as it must not turn, in
   base coordinates. */
static inline void loop_angle(int loop, const double *rp, const double *rs, double *out)
{
    memset(out, 0, 3 * sizeof *out);
    if (RB_LOOP_TURN[loop] == 1) {
        double up[3], us[3];
        turn(rp, RB_LOOP_AXIS[loop], up);
        turn(rs, RB_LOOP_AXIS[loop], us);
        cross(up, us, out);
    } else if (RB_LOOP_TURN[loop] == 0) {
        for (int i = 0; i < 3; i++) {
            const double up[3] = {rp[i], rp[3 + i], rp[6 + i]},
                         us[3] = {rs[i], rs[3 + i], rs[6 + i]};
            double part[3];
            cross(up, us, part);
            along(out, 0.5, part, out);
        }
    }
}

/* By how much the loops are open, row by row [rad or m]. */
static inline void loop_errors(const struct scene *s, double *out)
{
    for (int k = 0; k < RB_LOOP_ROWS; k++) {
        const int loop = RB_ROW_LOOP[k];
        double rp[9], rs[9], op[3], os[3], angle[3];
        loop_frame(s, loop, 0, rp, op);
        loop_frame(s, loop, 1, rs, os);
        loop_angle(loop, rp, rs, angle);
        turn_back(rp, angle, angle);
        difference(os, op, os);
        turn_back(rp, os, os);
        out[k] = dot(RB_LOOP_ROW[k], angle) + dot(RB_LOOP_ROW[k] + 3, os);
    }
}

/* A row of K for one of its two bodies: by how much a unit of each freedom opens it. */
static inline void loop_row(const struct scene *s, int k, int side, double *x)
{
    const int loop = RB_ROW_LOOP[k];
    double rp[9], rs[9], op[3], os[3], a[3], b[3];
    loop_frame(s, loop, 0, rp, op);
    loop_frame(s, loop, 1, rs, os);
    turn(rp, RB_LOOP_ROW[k], a);
    turn(rp, RB_LOOP_ROW[k] + 3, b);
    memset(x, 0, RB_DOFS * sizeof *x);
    for (int d = RB_LEAF[RB_LOOP_BODY[loop][side]]; d >= 0; d = RB_DOF_PARENT[d]) {
        double arm[3], v[3];
        difference(os, s->link[RB_DOF_LINK[d]].o, arm);
        cross(s->column[d], arm, v);
        along(v, 1.0, s->column[d] + 3, v);
        x[d] = (side ? 1.0 : -1.0) * (dot(a, s->column[d]) + dot(b, v));
    }
}

static inline double product_of(const double *a, const double *b)
{
    double sum = 0.0;
    for (int d = 0; d < RB_DOFS; d++)
        sum += a[d] * b[d];
    return sum;
}

/* Takes the directions that are found out of one. Adds the parts to `parts`. */
static inline void take_out(const struct loops *all, double *x, double *parts)
{
    for (int turns = 0; turns < 2; turns++) { /* twice is enough for rounding */
        for (int i = 0; i < all->count; i++) {
            const double part = product_of(all->way[i], x);
            parts[i] += part;
            for (int d = 0; d < RB_DOFS; d++)
                x[d] -= part * all->way[i][d];
        }
    }
}

/* The directions of all loops, with the links and the factor as they are. */
static inline void find_loops(struct scene *s)
{
    /* of what the two bodies move: what is left of a row that says nothing new is rounding */
    static const double least = 1e-6;
    double row[RB_LOOP_ROWS + 1][RB_DOFS + 1], other[RB_DOFS + 1], size[RB_LOOP_ROWS + 1];
    struct loops *all = &s->loops;
    all->count = 0;
    for (int k = 0; k < RB_LOOP_ROWS; k++) {
        loop_row(s, k, 0, row[k]);
        loop_row(s, k, 1, other);
        solve_upwards(&s->inertia, RB_LEAF[RB_LOOP_BODY[RB_ROW_LOOP[k]][0]], row[k]);
        solve_upwards(&s->inertia, RB_LEAF[RB_LOOP_BODY[RB_ROW_LOOP[k]][1]], other);
        size[k] = sqrt(product_of(row[k], row[k]) + product_of(other, other));
        for (int d = 0; d < RB_DOFS; d++)
            row[k][d] += other[d];
        all->taken[k] = !(size[k] > 0.0);
        memset(all->part[k], 0, sizeof all->part[k]);
    }
    for (;;) {
        double most = least;
        int best = -1;
        for (int k = 0; k < RB_LOOP_ROWS; k++) {
            if (all->taken[k])
                continue;
            const double left = sqrt(product_of(row[k], row[k])) / size[k];
            if (left > most) {
                most = left;
                best = k;
            }
        }
        if (best < 0)
            return;
        const int n = all->count;
        const double length = sqrt(product_of(row[best], row[best]));
        all->taken[best] = 1;
        all->row[n] = best;
        all->part[best][n] = length;
        for (int d = 0; d < RB_DOFS; d++)
            all->way[n][d] = row[best][d] / length;
        all->count++;
        for (int k = 0; k < RB_LOOP_ROWS; k++)
            if (!all->taken[k])
                take_out(all, row[k], all->part[k]);
    }
}

/* What the loops leave of L^-T x, for the freedoms of a tree. */
static inline void keep_loops(const struct scene *s, int first, int count, double *x)
{
    for (int i = 0; RB_CLOSURES > 0 && i < s->loops.count; i++) {
        const double *way = s->loops.way[i];
        double part = 0.0;
        for (int d = first; d < first + count; d++)
            part += way[d] * x[d];
        for (int d = first; d < first + count; d++)
            x[d] -= part * way[d];
    }
}

/* What the loops leave of a row L^-T J^T of a freedom and those before it, for all freedoms of its
   tree; its elements are `step` apart. */
static inline void hold_row(const struct scene *s, int leaf, const double *y, int step, double *w)
{
    const int first = RB_DOF_FIRST[leaf], count = RB_DOF_COUNT[leaf];
    double x[RB_DOFS + 1] = {0.0};
    for (int at = 0; at <= RB_DOF_DEPTH[leaf]; at++)
        x[RB_PATH[RB_DOF_ROW[leaf] + at]] = y[step * at];
    keep_loops(s, first, count, x);
    for (int k = 0; k < count; k++)
        w[step * k] = x[first + k];
}

/* The least velocities, by the inertia, that open the loops at these rates. */
static inline void opening_velocity(const struct scene *s, const double *rates, double *x)
{
    const struct loops *all = &s->loops;
    double c[RB_LOOP_ROWS + 1];
    memset(x, 0, RB_DOFS * sizeof *x);
    for (int i = 0; i < all->count; i++) {
        const double *part = all->part[all->row[i]];
        c[i] = rates[all->row[i]];
        for (int j = 0; j < i; j++)
            c[i] -= part[j] * c[j];
        c[i] /= part[i];
        for (int d = 0; d < RB_DOFS; d++)
            x[d] += c[i] * all->way[i][d];
    }
    solve_downwards(&s->inertia, 0, RB_DOFS, x);
}

/* Velocities, the nearest ones that keep the loops closed where the links are. */
static inline void hold_loops(const struct scene *s, double *qd)
{
    double rates[RB_LOOP_ROWS + 1] = {0.0}, x[RB_DOFS + 1];
    for (int k = 0; k < RB_LOOP_ROWS; k++) {
        for (int side = 0; side < 2; side++) {
            loop_row(s, k, side, x);
            rates[k] += product_of(x, qd);
        }
    }
    opening_velocity(s, rates, x);
    for (int d = 0; d < RB_DOFS; d++)
        qd[d] -= x[d];
}

/* By how much the loops are open after a step h with velocities from the positions q, beyond
   `held`. Returns the most. */
static inline double coming_errors(struct scene *s, const double *q, double h, const double *qd,
                                   const double *held, double *out)
{
    double moved[RB_POSITIONS + 1], most = 0.0;
    memcpy(moved, q, RB_POSITIONS * sizeof *moved);
    for (int i = 0; i < RB_LINKS; i++) {
        const int at = RB_Q_AT[RB_LINK_BODY[i]];
        move_joint(i, q + at, qd + RB_LINK_DOF[i], h, moved + at);
    }
    place_links(s, moved);
    loop_errors(s, out);
    place_links(s, q);
    for (int i = 0; i < RB_LOOP_ROWS; i++) {
        out[i] -= held[i];
        most = more_of(most, fabs(out[i]));
    }
    return most;
}

/* Changes velocities so that the loops are as open as `held` after a step h with them from the
   positions q. What brings that no nearer, as where linkages are stretched, is left. Returns by how
   much the worst of them was open before the last change. */
static inline double close_loops(struct scene *s, const double *q, double h, int times,
                                 const double *held, double *qd)
{
    /* [rad or m], from where the last change is surely one for the better */
    static const double near = 1e-6;
    double rates[RB_LOOP_ROWS + 1], x[RB_DOFS + 1] = {0.0}, most = INFINITY;
    for (int k = 0; k <= times && (k < times || most > near); k++) {
        const double now = coming_errors(s, q, h, qd, held, rates);
        if (!(now < most)) {
            for (int d = 0; d < RB_DOFS; d++)
                qd[d] += x[d];
            break;
        }
        most = now;
        if (k == times)
            break;
        for (int i = 0; i < RB_LOOP_ROWS; i++)
            rates[i] /= h;
        opening_velocity(s, rates, x);
        for (int d = 0; d < RB_DOFS; d++)
            qd[d] -= x[d];
    }
    return most;
}

#endif
