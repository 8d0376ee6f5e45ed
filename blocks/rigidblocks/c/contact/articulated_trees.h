/* Articulated trees of a scene and their loop joints. */

#ifndef RB_ARTICULATED_TREES_H
#define RB_ARTICULATED_TREES_H

#include "broad_phase.h"

/* ---- trees: links, and the mass matrix H as a sparse factor (RBDA 6.5) ----

   All quantities are in base axes and refer to points of the bodies. Accuracy therefore does not
   depend on the distance from the origin. model_interface.h lists the generated tables. */

enum { RB_FIXED_JOINT, RB_AXIAL_JOINT, RB_BALL_JOINT, RB_FREE_JOINT, RB_FLAT_JOINT };

/* Compute the rotation matrix about a unit axis: R = c 1 + s axis x + (1 - c) axis axis^T
   (Rodrigues). */
static inline void rotation_about(const double *axis, double angle, double *r)
{
    const double c = cos(angle), s = sin(angle), x = axis[0], y = axis[1], z = axis[2],
                 rest = 1.0 - c;
    const double all[9] = {c + rest * x * x,     rest * x * y - s * z, rest * x * z + s * y,
                           rest * x * y + s * z, c + rest * y * y,     rest * y * z - s * x,
                           rest * x * z - s * y, rest * y * z + s * x, c + rest * z * z};
    memcpy(r, all, sizeof all);
}

static inline void rb_unit_rotation(const double *q, double *r)
{
    const double length = sqrt(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3]);
    const double unit[4] = {q[0] / length, q[1] / length, q[2] / length, q[3] / length};
    rb_rotation_of_quaternion(unit, r);
}

/* Compute the pose of the second joint frame in the first joint frame. */
static inline void joint_pose(int i, const double *q, double *r, double *p)
{
    static const double identity[9] = {1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0},
                        z[3] = {0.0, 0.0, 1.0};
    const double *column = RB_DOF_COLUMN[RB_LINK_DOF[i]];
    memcpy(r, identity, sizeof identity);
    p[0] = p[1] = p[2] = 0.0;
    switch (RB_LINK_JOINT[i]) {
    case RB_AXIAL_JOINT:
        if (rb_dot(column, column) > 0.0)
            rotation_about(column, q[0], r);
        rb_scale(q[0], column + 3, p);
        break;
    case RB_BALL_JOINT: rb_unit_rotation(q, r); break;
    case RB_FREE_JOINT:
        rb_unit_rotation(q, r);
        memcpy(p, q + 4, 3 * sizeof *p);
        break;
    case RB_FLAT_JOINT:
        rotation_about(z, q[0], r);
        p[0] = q[1];
        p[1] = q[2];
        break;
    default: break;
    }
}

/* Compute the poses of the links, and the columns of S for their degrees of freedom, at q. */
static inline void rb_place_links(struct rb_scene *s, const double *q)
{
    for (int i = 0; i < RB_LINKS; i++) {
        const struct rb_link *parent = &s->link[RB_LINK_PARENT[i]];
        const struct rb_body *before = &s->body[RB_LINK_BODY[RB_LINK_PARENT[i]]];
        struct rb_link *link = &s->link[i];
        struct rb_body *body = &s->body[RB_LINK_BODY[i]];
        double frame[9], turned[9], way[3];
        memcpy(frame, before->r, sizeof frame);
        if (RB_LINK_TURNED[i])
            rb_multiply3(before->r, rb_pose_of(RB_LINK_FRAME[i])->r, frame);
        rb_rotate(before->r, rb_pose_of(RB_LINK_FRAME[i])->p, link->arm);
        joint_pose(i, q + RB_Q_AT[RB_LINK_BODY[i]], turned, way);
        rb_multiply3(frame, turned, body->r);
        rb_rotate(frame, way, way);
        rb_axpy(link->arm, 1.0, way, link->arm);
        rb_axpy(parent->o, 1.0, link->arm, link->o);
        rb_rotate(body->r, RB_CENTRE[RB_LINK_BODY[i]], link->centre);
        rb_axpy(link->o, 1.0, link->centre, body->x);
        for (int d = RB_LINK_DOF[i]; d < RB_LINK_DOF[i] + RB_LINK_DOFS[i]; d++) {
            rb_rotate(body->r, RB_DOF_COLUMN[d], s->column[d]);
            rb_rotate(body->r, RB_DOF_COLUMN[d] + 3, s->column[d] + 3);
        }
    }
}

/* Compute the angular velocity, and the linear velocity at the origin, that the joint of a link
   adds. */
static inline void joint_velocity(const struct rb_scene *s, int i, const double *qd, double *w,
                                  double *v)
{
    const int first = RB_LINK_DOF[i], count = RB_LINK_DOFS[i];
    if (count == 0) {
        memset(w, 0, 3 * sizeof *w);
        memset(v, 0, 3 * sizeof *v);
        return;
    }
    rb_scale(qd[first], s->column[first], w);
    rb_scale(qd[first], s->column[first] + 3, v);
    for (int d = first + 1; d < first + count; d++) {
        rb_axpy(w, qd[d], s->column[d], w);
        rb_axpy(v, qd[d], s->column[d] + 3, v);
    }
}

/* Compute the velocities of the links. */
static inline void rb_move_links(struct rb_scene *s, const double *qd)
{
    for (int i = 0; i < RB_LINKS; i++) {
        const struct rb_link *parent = &s->link[RB_LINK_PARENT[i]];
        const struct rb_body *before = &s->body[RB_LINK_BODY[RB_LINK_PARENT[i]]];
        struct rb_link *link = &s->link[i];
        struct rb_body *body = &s->body[RB_LINK_BODY[i]];
        double w[3], v[3], u[3];
        joint_velocity(s, i, qd, w, v);
        rb_axpy(before->w, 1.0, w, body->w);
        rb_cross(before->w, link->arm, u);
        rb_axpy(parent->v, 1.0, u, link->v);
        rb_axpy(link->v, 1.0, v, link->v);
        rb_cross(body->w, link->centre, u);
        rb_axpy(link->v, 1.0, u, body->v);
    }
}

/* Compute the angular acceleration of a link and the linear acceleration of its origin at
   qdd = 0. With the joint velocity (w_J, v_J), the arm r and the velocities w_p, v_p of the parent

     dw = dw_p + w_p x w_J
     dv = dv_p + dw_p x r + w_p x (v - v_p) + w x v_J */
static inline void link_acceleration(struct rb_scene *s, int i, const double *qd)
{
    const struct rb_link *parent = &s->link[RB_LINK_PARENT[i]];
    const struct rb_body *before = &s->body[RB_LINK_BODY[RB_LINK_PARENT[i]]],
                         *body = &s->body[RB_LINK_BODY[i]];
    struct rb_link *link = &s->link[i];
    double w[3], v[3], rate[3], u[3];
    joint_velocity(s, i, qd, w, v);
    rb_cross(before->w, w, u);
    rb_axpy(parent->turning, 1.0, u, link->turning);
    rb_cross(parent->turning, link->arm, u);
    rb_axpy(parent->speeding, 1.0, u, link->speeding);
    rb_subtract(link->v, parent->v, rate);
    rb_cross(before->w, rate, u);
    rb_axpy(link->speeding, 1.0, u, link->speeding);
    rb_cross(body->w, v, u);
    rb_axpy(link->speeding, 1.0, u, link->speeding);
}

/* Compute the force on a link, and its moment about the link origin, for its motion at qdd = 0.
   Gravity and `wrench` ([n; f] in base coordinates) are subtracted. With the arm c of the centre of
   mass and the inertia I about it

     f = m (dv + dw x c + w x (w x c) - g) - f_ext
     n = c x m (..) + I dw + w x I w - (n_ext - o x f_ext) */
static inline void link_force(struct rb_scene *s, int i, const double *gravity,
                              const double *wrench)
{
    const int k = RB_LINK_BODY[i];
    const struct rb_body *body = &s->body[k];
    struct rb_link *link = &s->link[i];
    double u[3], v[3];
    rb_cross(link->turning, link->centre, u);
    rb_axpy(link->speeding, 1.0, u, v);
    rb_cross(body->w, link->centre, u);
    rb_cross(body->w, u, u);
    rb_axpy(v, 1.0, u, v);
    rb_subtract(v, gravity, v);
    rb_scale(RB_MASS[k], v, link->f);
    rb_cross(link->centre, link->f, link->n);
    rb_rotate(link->own, link->turning, u);
    rb_axpy(link->n, 1.0, u, link->n);
    rb_rotate(link->own, body->w, u);
    rb_cross(body->w, u, u);
    rb_axpy(link->n, 1.0, u, link->n);
    rb_subtract(link->f, wrench + 3, link->f);
    rb_cross(link->o, wrench + 3, u);
    rb_subtract(wrench, u, u);
    rb_subtract(link->n, u, link->n);
}

/* Compute the joint forces that provide the required forces and moments of the links. */
static inline void gather_forces(struct rb_scene *s, double *out)
{
    for (int i = RB_LINKS - 1; i >= 0; i--) {
        const struct rb_link *link = &s->link[i];
        struct rb_link *parent = &s->link[RB_LINK_PARENT[i]];
        double u[3];
        for (int d = RB_LINK_DOF[i]; d < RB_LINK_DOF[i] + RB_LINK_DOFS[i]; d++)
            out[d] = rb_dot(s->column[d], link->n) + rb_dot(s->column[d] + 3, link->f);
        rb_cross(link->arm, link->f, u);
        rb_axpy(parent->n, 1.0, u, parent->n);
        rb_axpy(parent->n, 1.0, link->n, parent->n);
        rb_axpy(parent->f, 1.0, link->f, parent->f);
    }
}

/* Compute the bias forces C: the joint forces at qdd = 0 (RBDA Table 5.1). The links must have the
   velocities that `rb_move_links` sets. */
static inline void rb_bias_forces(struct rb_scene *s, const double *qd, const double *gravity,
                                  const double *wrenches, double *out)
{
    for (int i = 0; i < RB_LINKS; i++) {
        link_acceleration(s, i, qd);
        link_force(s, i, gravity, wrenches + 6 * RB_LINK_BODY[i]);
    }
    gather_forces(s, out);
}

/* Compute the joint forces J^T f of wrenches [n; f] on the links (base coordinates). */
static inline void rb_wrench_forces(struct rb_scene *s, const double *wrenches, double *out)
{
    for (int i = 0; i < RB_LINKS; i++) {
        const double *wrench = wrenches + 6 * RB_LINK_BODY[i];
        struct rb_link *link = &s->link[i];
        memcpy(link->f, wrench + 3, sizeof link->f);
        rb_cross(link->o, link->f, link->n);
        rb_subtract(wrench, link->n, link->n);
    }
    gather_forces(s, out);
}

/* Add the composite inertia of a link's subtree to the composite inertia of its parent (Steiner).
   With the vector d between both centres of mass

     m = m_p + m_l,   c = c_p + m_l / m d,   I = I_p + I_l + m_p m_l / m (|d|^2 1 - d d^T) */
static inline void add_composite_inertia(struct rb_link *parent, const struct rb_link *link)
{
    const double mass = parent->mass + link->mass;
    double way[3];
    if (!(link->mass > 0.0))
        return;
    rb_subtract(link->middle, parent->middle, way);
    const double reduced = parent->mass * link->mass / mass, squared = rb_dot(way, way);
    for (int i = 0; i < 3; i++) {
        double *row = parent->inertia + 3 * i;
        rb_axpy(row, 1.0, link->inertia + 3 * i, row);
        rb_axpy(row, -reduced * way[i], way, row);
        row[i] += reduced * squared;
    }
    rb_axpy(parent->middle, link->mass / mass, way, parent->middle);
    parent->mass = mass;
}

/* Compute a row of H: one degree of freedom and its ancestors. The column S_d = [w; v] moves the
   subtree with mass m, centre of mass c and inertia I, which requires

     f = m (v + w x (c - o_d)),   n = I w about c,   H_kd = S_k . [n + (c - o_k) x f; f] */
static inline void inertia_row(struct rb_scene *s, int d)
{
    const struct rb_link *link = &s->link[RB_DOF_LINK[d]];
    double arm[3], f[3], n[3], u[3] = {0.0}, *row = s->inertia.row + RB_DOF_ROW[d];
    rb_subtract(link->middle, link->o, arm);
    rb_cross(s->column[d], arm, f);
    rb_axpy(f, 1.0, s->column[d] + 3, f);
    rb_scale(link->mass, f, f);
    rb_rotate(link->inertia, s->column[d], n);
    const int *path = RB_PATH + RB_DOF_ROW[d];
    for (int k = 0, at = -1; k <= RB_DOF_DEPTH[d]; k++) {
        if (RB_DOF_LINK[path[k]] != at) { /* moment about the origin of the next link */
            at = RB_DOF_LINK[path[k]];
            rb_subtract(link->middle, s->link[at].o, arm);
            rb_cross(arm, f, u);
            rb_axpy(u, 1.0, n, u);
        }
        row[k] = rb_dot(s->column[path[k]], u) + rb_dot(s->column[path[k]] + 3, f);
    }
}

/* Compute H by the composite rigid body algorithm (RBDA Table 6.2). H includes the armature and the
   terms of dampers and springs for a step h. */
static inline void rb_joint_inertia(struct rb_scene *s, double h)
{
    for (int i = 0; i < RB_LINKS; i++) {
        const int k = RB_LINK_BODY[i];
        struct rb_link *link = &s->link[i];
        link->mass = RB_MASS[k];
        memcpy(link->middle, s->body[k].x, sizeof link->middle);
        rb_rotate_matrix(s->body[k].r, RB_INERTIA[k], link->own);
        memcpy(link->inertia, link->own, sizeof link->inertia);
    }
    for (int i = RB_LINKS - 1; i >= 0; i--) {
        for (int d = RB_LINK_DOF[i]; d < RB_LINK_DOF[i] + RB_LINK_DOFS[i]; d++) {
            inertia_row(s, d);
            s->inertia.row[RB_DOF_ROW[d]] +=
                RB_DOF_ARMATURE[d] + h * (RB_DOF_DAMPING[d] + h * RB_DOF_STIFFNESS[d]);
        }
        if (RB_LINK_PARENT[i] < RB_LINKS)
            add_composite_inertia(&s->link[RB_LINK_PARENT[i]], &s->link[i]);
    }
}

/* Factorize H = L^T L in place (RBDA Table 6.3). */
static inline void rb_factorize_branches(struct rb_factor *l)
{
    for (int k = RB_DOFS - 1; k >= 0; k--) {
        const int *path = RB_PATH + RB_DOF_ROW[k], depth = RB_DOF_DEPTH[k];
        double *row = l->row + RB_DOF_ROW[k];
        row[0] = sqrt(row[0]);
        l->inverse[k] = 1.0 / row[0];
        for (int i = 1; i <= depth; i++)
            row[i] *= l->inverse[k];
        for (int i = 1; i <= depth; i++)
            rb_axpy_n(depth + 1 - i, -row[i], row + i, l->row + RB_DOF_ROW[path[i]]);
    }
}

/* Do one elimination step of L^-T x: x_k /= L_kk, then x_i -= L_ki x_k for its ancestors i. */
static inline void solve_one_upwards(const struct rb_factor *l, int k, double *x)
{
    const int *path = RB_PATH + RB_DOF_ROW[k], depth = RB_DOF_DEPTH[k];
    const double *row = l->row + RB_DOF_ROW[k], part = x[k] * l->inverse[k];
    x[k] = part;
    for (int i = 1; i <= depth; i++)
        x[path[i]] -= row[i] * part;
}

/* Compute L^-T x for a vector x that is zero outside one path. */
static inline void rb_solve_upwards(const struct rb_factor *l, int leaf, double *x)
{
    for (int k = leaf; k >= 0; k = RB_DOF_PARENT[k])
        solve_one_upwards(l, k, x);
}

/* Compute L^-1 x for the degrees of freedom of a tree. */
static inline void rb_solve_downwards(const struct rb_factor *l, int first, int count, double *x)
{
    for (int k = first; k < first + count; k++) {
        const int *path = RB_PATH + RB_DOF_ROW[k], depth = RB_DOF_DEPTH[k];
        const double *row = l->row + RB_DOF_ROW[k];
        double sum = x[k];
        for (int i = 1; i <= depth; i++)
            sum -= row[i] * x[path[i]];
        x[k] = sum * l->inverse[k];
    }
}

/* Compute L^-T x for all degrees of freedom. */
static inline void rb_solve_all_upwards(const struct rb_factor *l, double *x)
{
    for (int k = RB_DOFS - 1; k >= 0; k--)
        solve_one_upwards(l, k, x);
}

/* Compute the unit-inertia coordinates z = L qd of the velocities of trees. */
static inline void rb_weigh_velocities(const struct rb_scene *s, const double *qd, double *out)
{
    for (int k = 0; k < RB_DOFS; k++) {
        const int *path = RB_PATH + RB_DOF_ROW[k], depth = RB_DOF_DEPTH[k];
        const double *row = s->inertia.row + RB_DOF_ROW[k];
        double sum = 0.0;
        for (int i = 0; i <= depth; i++)
            sum += row[i] * qd[path[i]];
        out[k] = sum;
    }
}

/* Compute the velocities qd = L^-1 z of trees from unit-inertia coordinates. */
static inline void rb_free_velocities(const struct rb_scene *s, const double *z, double *qd)
{
    memcpy(qd, z, RB_DOFS * sizeof *qd);
    rb_solve_downwards(&s->inertia, 0, RB_DOFS, qd);
}

/* Move a frame with velocities in frame coordinates. The linear velocity is rotated once, with the
   orientation at the middle of the step. */
static inline void move_frame(const double *q, const double *qd, double h, int moves, double *out)
{
    double r[9], angle[3], middle[4], way[3];
    rb_unit_rotation(q, r);
    rb_rotate(r, qd, angle);
    rb_scale(h, angle, angle);
    rb_rotate_quaternion(q, angle, out);
    if (!moves)
        return;
    rb_scale(0.5, angle, angle);
    rb_rotate_quaternion(q, angle, middle);
    rb_rotation_of_quaternion(middle, r);
    rb_rotate(r, qd + 3, way);
    rb_axpy(q + 4, h, way, out + 4);
}

/* Compute the position variables of a joint after a step h with the velocities qd. */
static inline void rb_move_joint(int i, const double *q, const double *qd, double h, double *out)
{
    switch (RB_LINK_JOINT[i]) {
    case RB_AXIAL_JOINT: out[0] = q[0] + h * qd[0]; break;
    case RB_BALL_JOINT:
    case RB_FREE_JOINT: move_frame(q, qd, h, RB_LINK_JOINT[i] == RB_FREE_JOINT, out); break;
    case RB_FLAT_JOINT: {
        const double middle = q[0] + 0.5 * h * qd[0], c = cos(middle), s = sin(middle);
        out[0] = q[0] + h * qd[0];
        out[1] = q[1] + h * (c * qd[1] - s * qd[2]);
        out[2] = q[2] + h * (s * qd[1] + c * qd[2]);
        break;
    }
    default: break;
    }
}

/* ---- loop joints: project the constraints K qd = 0 out of H^-1 and correct the positions ----

   In unit-inertia coordinates L qd, Gram-Schmidt with pivoting makes the constraint rows
   orthonormal and drops dependent ones:

     H^-1 becomes L^-1 (1 - Q Q^T) L^-T

   Contacts and stops then use the mobility of the closed loops. model_interface.h lists the
   generated tables. */

/* Compute the pose of one of the two frames of a loop joint. */
static inline void loop_frame(const struct rb_scene *s, int loop, int side, double *r, double *o)
{
    const struct rb_body *body = &s->body[RB_LOOP_BODY[loop][side]];
    const struct rb_pose *pose = rb_pose_of(RB_LOOP_FRAME[2 * loop + side]);
    rb_multiply3(body->r, pose->r, r);
    rb_rotate(body->r, pose->p, o);
    rb_axpy(body->x, 1.0, o, o);
}

/* Compute the rotation error between the frames of a loop joint about its locked axes (base
   coordinates). It is the axis of the error times its sine:

     one free axis    u_p x u_s,   the axis in both frames
     no free axis     1/2 sum_i e_p,i x e_s,i,   the columns of both rotation matrices */
static inline void loop_angle(int loop, const double *rp, const double *rs, double *out)
{
    memset(out, 0, 3 * sizeof *out);
    if (RB_LOOP_TURN[loop] == 1) {
        double up[3], us[3];
        rb_rotate(rp, RB_LOOP_AXIS[loop], up);
        rb_rotate(rs, RB_LOOP_AXIS[loop], us);
        rb_cross(up, us, out);
    } else if (RB_LOOP_TURN[loop] == 0) {
        for (int i = 0; i < 3; i++) {
            const double up[3] = {rp[i], rp[3 + i], rp[6 + i]},
                         us[3] = {rs[i], rs[3 + i], rs[6 + i]};
            double part[3];
            rb_cross(up, us, part);
            rb_axpy(out, 0.5, part, out);
        }
    }
}

/* Compute the loop closure error of each constraint row [rad or m]. */
static inline void rb_loop_errors(const struct rb_scene *s, double *out)
{
    for (int k = 0; k < RB_LOOP_ROWS; k++) {
        const int loop = RB_ROW_LOOP[k];
        double rp[9], rs[9], op[3], os[3], angle[3];
        loop_frame(s, loop, 0, rp, op);
        loop_frame(s, loop, 1, rs, os);
        loop_angle(loop, rp, rs, angle);
        rb_rotate_back(rp, angle, angle);
        rb_subtract(os, op, os);
        rb_rotate_back(rp, os, os);
        out[k] = rb_dot(RB_LOOP_ROW[k], angle) + rb_dot(RB_LOOP_ROW[k] + 3, os);
    }
}

/* Compute the contribution of one of the two bodies to a row of K. With the directions a (angle)
   and b (displacement) of the row, and the origin o_s of the second frame

     K_d = +- (a . w_d + b . (v_d + w_d x (o_s - o_d)))   for the column S_d = [w_d; v_d] */
static inline void loop_row(const struct rb_scene *s, int k, int side, double *x)
{
    const int loop = RB_ROW_LOOP[k];
    double rp[9], rs[9], op[3], os[3], a[3], b[3];
    loop_frame(s, loop, 0, rp, op);
    loop_frame(s, loop, 1, rs, os);
    rb_rotate(rp, RB_LOOP_ROW[k], a);
    rb_rotate(rp, RB_LOOP_ROW[k] + 3, b);
    memset(x, 0, RB_DOFS * sizeof *x);
    for (int d = RB_LEAF[RB_LOOP_BODY[loop][side]]; d >= 0; d = RB_DOF_PARENT[d]) {
        double arm[3], v[3];
        rb_subtract(os, s->link[RB_DOF_LINK[d]].o, arm);
        rb_cross(s->column[d], arm, v);
        rb_axpy(v, 1.0, s->column[d] + 3, v);
        x[d] = (side ? 1.0 : -1.0) * (rb_dot(a, s->column[d]) + rb_dot(b, v));
    }
}

static inline double dot_rows(const double *a, const double *b)
{
    double sum = 0.0;
    for (int d = 0; d < RB_DOFS; d++)
        sum += a[d] * b[d];
    return sum;
}

/* Orthogonalize a row against the directions found so far. Adds the coefficients to `parts`. */
static inline void orthogonalize_row(const struct rb_loop_rows *all, double *x, double *parts)
{
    for (int turns = 0; turns < 2; turns++) { /* the second pass removes rounding errors */
        for (int i = 0; i < all->count; i++) {
            const double part = dot_rows(all->way[i], x);
            parts[i] += part;
            for (int d = 0; d < RB_DOFS; d++)
                x[d] -= part * all->way[i][d];
        }
    }
}

typedef double dof_row[RB_DOFS + 1];

/* Compute the constraint directions of all loops for the present link poses and factor L. */
static inline void rb_find_loops(struct rb_scene *s)
{
    /* relative to the motion of both bodies; a smaller remainder is a rounding error */
    static const double least = 1e-6;
    RB_WORKSPACE(RB_LARGE_SCENE, dof_row, row, RB_LOOP_ROWS + 1);
    RB_WORKSPACE(RB_LARGE_SCENE, double, other, RB_DOFS + 1);
    RB_WORKSPACE(RB_LARGE_SCENE, double, size, RB_LOOP_ROWS + 1);
    struct rb_loop_rows *all = &s->loops;
    all->count = 0;
    for (int k = 0; k < RB_LOOP_ROWS; k++) {
        loop_row(s, k, 0, row[k]);
        loop_row(s, k, 1, other);
        rb_solve_upwards(&s->inertia, RB_LEAF[RB_LOOP_BODY[RB_ROW_LOOP[k]][0]], row[k]);
        rb_solve_upwards(&s->inertia, RB_LEAF[RB_LOOP_BODY[RB_ROW_LOOP[k]][1]], other);
        size[k] = sqrt(dot_rows(row[k], row[k]) + dot_rows(other, other));
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
            const double left = sqrt(dot_rows(row[k], row[k])) / size[k];
            if (left > most) {
                most = left;
                best = k;
            }
        }
        if (best < 0)
            return;
        const int n = all->count;
        const double length = sqrt(dot_rows(row[best], row[best]));
        all->taken[best] = 1;
        all->row[n] = best;
        all->part[best][n] = length;
        for (int d = 0; d < RB_DOFS; d++)
            all->way[n][d] = row[best][d] / length;
        all->count++;
        for (int k = 0; k < RB_LOOP_ROWS; k++)
            if (!all->taken[k])
                orthogonalize_row(all, row[k], all->part[k]);
    }
}

/* Project a vector L^-T x onto the motions that the closed loops of a tree allow. */
static inline void rb_keep_loops(const struct rb_scene *s, int first, int count, double *x)
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

/* Project a row L^-T J^T of one path onto the motions that the closed loops allow. The result has
   an element for each degree of freedom of the tree. `step` is the stride of the elements of `y`
   and `w`. */
static inline void rb_hold_row(const struct rb_scene *s, int leaf, const double *y, int step,
                               double *w)
{
    const int first = RB_DOF_FIRST[leaf], count = RB_DOF_COUNT[leaf];
    RB_WORKSPACE(RB_LARGE_SCENE, double, x, RB_DOFS + 1);
    memset(x, 0, (RB_DOFS + 1) * sizeof *x);
    for (int at = 0; at <= RB_DOF_DEPTH[leaf]; at++)
        x[RB_PATH[RB_DOF_ROW[leaf] + at]] = y[step * at];
    rb_keep_loops(s, first, count, x);
    for (int k = 0; k < count; k++)
        w[step * k] = x[first + k];
}

/* Compute the velocities with the smallest kinetic energy for which the loop closure errors have
   the derivatives `rates`. With the factors K L^-1 = R^T Q^T of the selected rows

     R^T c = rates (forward substitution),   qd = L^-1 Q c */
static inline void opening_velocity(const struct rb_scene *s, const double *rates, double *x)
{
    const struct rb_loop_rows *all = &s->loops;
    RB_WORKSPACE(RB_LARGE_SCENE, double, c, RB_LOOP_ROWS + 1);
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
    rb_solve_downwards(&s->inertia, 0, RB_DOFS, x);
}

/* Project velocities onto the motions that keep the loops closed. */
static inline void rb_hold_loops(const struct rb_scene *s, double *qd)
{
    RB_WORKSPACE(RB_LARGE_SCENE, double, rates, RB_LOOP_ROWS + 1);
    RB_WORKSPACE(RB_LARGE_SCENE, double, x, RB_DOFS + 1);
    memset(rates, 0, (RB_LOOP_ROWS + 1) * sizeof *rates);
    for (int k = 0; k < RB_LOOP_ROWS; k++) {
        for (int side = 0; side < 2; side++) {
            loop_row(s, k, side, x);
            rates[k] += dot_rows(x, qd);
        }
    }
    opening_velocity(s, rates, x);
    for (int d = 0; d < RB_DOFS; d++)
        qd[d] -= x[d];
}

/* Compute the loop closure errors after a step h with the velocities `qd` from the positions `q`,
   minus `held`. Returns the largest magnitude. */
static inline double coming_errors(struct rb_scene *s, const double *q, double h, const double *qd,
                                   const double *held, double *out)
{
    double most = 0.0;
    RB_WORKSPACE(RB_LARGE_SCENE, double, moved, RB_POSITIONS + 1);
    memcpy(moved, q, RB_POSITIONS * sizeof *moved);
    for (int i = 0; i < RB_LINKS; i++) {
        const int at = RB_Q_AT[RB_LINK_BODY[i]];
        rb_move_joint(i, q + at, qd + RB_LINK_DOF[i], h, moved + at);
    }
    rb_place_links(s, moved);
    rb_loop_errors(s, out);
    rb_place_links(s, q);
    for (int i = 0; i < RB_LOOP_ROWS; i++) {
        out[i] -= held[i];
        most = rb_max(most, fabs(out[i]));
    }
    return most;
}

/* Correct velocities so that the loop closure errors after a step h from `q` equal `held`. A
   correction that does not reduce the error, for example of a stretched linkage, is undone. Returns
   the largest error before the last correction. */
static inline double rb_close_loops(struct rb_scene *s, const double *q, double h, int times,
                                    const double *held, double *qd)
{
    /* [rad or m] the last correction always reduces a smaller error and is not checked */
    static const double near = 1e-6;
    double most = INFINITY;
    RB_WORKSPACE(RB_LARGE_SCENE, double, rates, RB_LOOP_ROWS + 1);
    RB_WORKSPACE(RB_LARGE_SCENE, double, x, RB_DOFS + 1);
    memset(x, 0, (RB_DOFS + 1) * sizeof *x);
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
