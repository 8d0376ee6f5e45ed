/* Articulated bodies: the links of trees of joints, and H of their freedoms as a sparse factor
   (RBDA 6.5).

   Everything is in base axes, about points of the bodies themselves, so that it is as exact far
   from the origin as near it. The generated text has RB_LINKS and their tables, parents first:
   RB_LINK_BODY, RB_LINK_PARENT (a link, RB_LINKS for the base), RB_LINK_JOINT, RB_LINK_FRAME (9 + 3
   each: of the joint on the parent), RB_LINK_TURNED (whether its rotation is one), RB_LINK_DOF and RB_LINK_DOFS (the first of its freedoms, and
   how many); RB_DOFS and theirs: RB_DOF_LINK, RB_DOF_QD (where it is in qd), RB_DOF_COLUMN (6 each,
   of S), RB_DOF_PARENT (the freedom before it, -1 for none), RB_DOF_DEPTH (how many are before it),
   RB_DOF_ROW (where its row of H starts: itself and those before it, whose numbers are in RB_PATH),
   RB_DOF_FIRST and RB_DOF_COUNT (the freedoms of its tree), RB_DOF_Q (where it is in q),
   RB_DOF_ARMATURE, RB_DOF_DAMPING, RB_DOF_STIFFNESS and RB_DOF_REST; RB_ROWS, the length of all
   rows; RB_DEPTH and RB_SPAN, the most before one and in a tree, and 1; RB_LEAF, the last freedom
   that moves each body, -1 for free bodies. */

#ifndef RB_TREES_H
#define RB_TREES_H

#include "scene.h"
#include "two.h"

enum { RB_FIXED_JOINT, RB_AXIAL_JOINT, RB_BALL_JOINT, RB_FREE_JOINT, RB_FLAT_JOINT };

/* The rotation about a unit axis. */
static inline void rotation_about(const double *axis, double angle, double *r)
{
    const double c = cos(angle), s = sin(angle), x = axis[0], y = axis[1], z = axis[2],
                 rest = 1.0 - c;
    const double all[9] = {c + rest * x * x,     rest * x * y - s * z, rest * x * z + s * y,
                           rest * x * y + s * z, c + rest * y * y,     rest * y * z - s * x,
                           rest * x * z - s * y, rest * y * z + s * x, c + rest * z * z};
    memcpy(r, all, sizeof all);
}

static inline void unit_rotation(const double *q, double *r)
{
    const double length = sqrt(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3]);
    const double unit[4] = {q[0] / length, q[1] / length, q[2] / length, q[3] / length};
    rotation_of(unit, r);
}

/* Where a joint has its second frame in its first one. */
static inline void joint_pose(int i, const double *q, double *r, double *p)
{
    static const double identity[9] = {1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0},
                        z[3] = {0.0, 0.0, 1.0};
    const double *column = RB_DOF_COLUMN[RB_LINK_DOF[i]];
    memcpy(r, identity, sizeof identity);
    p[0] = p[1] = p[2] = 0.0;
    switch (RB_LINK_JOINT[i]) {
    case RB_AXIAL_JOINT:
        if (dot(column, column) > 0.0)
            rotation_about(column, q[0], r);
        times(q[0], column + 3, p);
        break;
    case RB_BALL_JOINT: unit_rotation(q, r); break;
    case RB_FREE_JOINT:
        unit_rotation(q, r);
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

/* The links and the columns of their freedoms as q says. */
static inline void place_links(struct scene *s, const double *q)
{
    for (int i = 0; i < RB_LINKS; i++) {
        const struct link *parent = &s->link[RB_LINK_PARENT[i]];
        const struct body *before = &s->body[RB_LINK_BODY[RB_LINK_PARENT[i]]];
        struct link *link = &s->link[i];
        struct body *body = &s->body[RB_LINK_BODY[i]];
        double frame[9], turned[9], way[3];
        memcpy(frame, before->r, sizeof frame);
        if (RB_LINK_TURNED[i])
            product(before->r, RB_LINK_FRAME[i], frame);
        turn(before->r, RB_LINK_FRAME[i] + 9, link->arm);
        joint_pose(i, q + RB_Q_AT[RB_LINK_BODY[i]], turned, way);
        product(frame, turned, body->r);
        turn(frame, way, way);
        along(link->arm, 1.0, way, link->arm);
        along(parent->o, 1.0, link->arm, link->o);
        turn(body->r, RB_CENTRE[RB_LINK_BODY[i]], link->centre);
        along(link->o, 1.0, link->centre, body->x);
        for (int d = RB_LINK_DOF[i]; d < RB_LINK_DOF[i] + RB_LINK_DOFS[i]; d++) {
            turn(body->r, RB_DOF_COLUMN[d], s->column[d]);
            turn(body->r, RB_DOF_COLUMN[d] + 3, s->column[d] + 3);
        }
    }
}

/* What the joint of a link adds to its velocity: angular, and of its origin. */
static inline void joint_velocity(const struct scene *s, int i, const double *qd, double *w,
                                  double *v)
{
    const int first = RB_LINK_DOF[i], count = RB_LINK_DOFS[i];
    if (count == 0) {
        memset(w, 0, 3 * sizeof *w);
        memset(v, 0, 3 * sizeof *v);
        return;
    }
    times(qd[first], s->column[first], w);
    times(qd[first], s->column[first] + 3, v);
    for (int d = first + 1; d < first + count; d++) {
        along(w, qd[d], s->column[d], w);
        along(v, qd[d], s->column[d] + 3, v);
    }
}

/* The velocities of the links. */
static inline void move_links(struct scene *s, const double *qd)
{
    for (int i = 0; i < RB_LINKS; i++) {
        const struct link *parent = &s->link[RB_LINK_PARENT[i]];
        const struct body *before = &s->body[RB_LINK_BODY[RB_LINK_PARENT[i]]];
        struct link *link = &s->link[i];
        struct body *body = &s->body[RB_LINK_BODY[i]];
        double w[3], v[3], u[3];
        joint_velocity(s, i, qd, w, v);
        along(before->w, 1.0, w, body->w);
        cross(before->w, link->arm, u);
        along(parent->v, 1.0, u, link->v);
        along(link->v, 1.0, v, link->v);
        cross(body->w, link->centre, u);
        along(link->v, 1.0, u, body->v);
    }
}

/* The accelerations of a link at qdd = 0: angular, and of its origin. */
static inline void accelerate(struct scene *s, int i, const double *qd)
{
    const struct link *parent = &s->link[RB_LINK_PARENT[i]];
    const struct body *before = &s->body[RB_LINK_BODY[RB_LINK_PARENT[i]]],
                      *body = &s->body[RB_LINK_BODY[i]];
    struct link *link = &s->link[i];
    double w[3], v[3], rate[3], u[3];
    joint_velocity(s, i, qd, w, v);
    cross(before->w, w, u);
    along(parent->turning, 1.0, u, link->turning);
    cross(parent->turning, link->arm, u);
    along(parent->speeding, 1.0, u, link->speeding);
    difference(link->v, parent->v, rate);
    cross(before->w, rate, u);
    along(link->speeding, 1.0, u, link->speeding);
    cross(body->w, v, u);
    along(link->speeding, 1.0, u, link->speeding);
}

/* The force on a link and its moment about the link's origin that its motion at qdd = 0 needs
   beyond gravity and `wrench`, which is [n; f] in base coordinates. */
static inline void need(struct scene *s, int i, const double *gravity, const double *wrench)
{
    const int k = RB_LINK_BODY[i];
    const struct body *body = &s->body[k];
    struct link *link = &s->link[i];
    double u[3], v[3];
    cross(link->turning, link->centre, u);
    along(link->speeding, 1.0, u, v);
    cross(body->w, link->centre, u);
    cross(body->w, u, u);
    along(v, 1.0, u, v);
    difference(v, gravity, v);
    times(RB_MASS[k], v, link->f);
    cross(link->centre, link->f, link->n);
    turn(link->own, link->turning, u);
    along(link->n, 1.0, u, link->n);
    turn(link->own, body->w, u);
    cross(body->w, u, u);
    along(link->n, 1.0, u, link->n);
    difference(link->f, wrench + 3, link->f);
    cross(link->o, wrench + 3, u);
    difference(wrench, u, u);
    difference(link->n, u, link->n);
}

/* The forces of the freedoms that give the links what they need. */
static inline void gather_forces(struct scene *s, double *out)
{
    for (int i = RB_LINKS - 1; i >= 0; i--) {
        const struct link *link = &s->link[i];
        struct link *parent = &s->link[RB_LINK_PARENT[i]];
        double u[3];
        for (int d = RB_LINK_DOF[i]; d < RB_LINK_DOF[i] + RB_LINK_DOFS[i]; d++)
            out[d] = dot(s->column[d], link->n) + dot(s->column[d] + 3, link->f);
        cross(link->arm, link->f, u);
        along(parent->n, 1.0, u, parent->n);
        along(parent->n, 1.0, link->n, parent->n);
        along(parent->f, 1.0, link->f, parent->f);
    }
}

/* C: the forces of the freedoms at qdd = 0, with the links moving as `move_links` left them (RBDA
   Table 5.1). */
static inline void bias_forces(struct scene *s, const double *qd, const double *gravity,
                               const double *wrenches, double *out)
{
    for (int i = 0; i < RB_LINKS; i++) {
        accelerate(s, i, qd);
        need(s, i, gravity, wrenches + 6 * RB_LINK_BODY[i]);
    }
    gather_forces(s, out);
}

/* What wrenches on the links, [n; f] in base coordinates, are for the freedoms: J^T f. */
static inline void wrench_forces(struct scene *s, const double *wrenches, double *out)
{
    for (int i = 0; i < RB_LINKS; i++) {
        const double *wrench = wrenches + 6 * RB_LINK_BODY[i];
        struct link *link = &s->link[i];
        memcpy(link->f, wrench + 3, sizeof link->f);
        cross(link->o, link->f, link->n);
        difference(wrench, link->n, link->n);
    }
    gather_forces(s, out);
}

/* A link with all that hangs on it, as one rigid body, joined to its parent. */
static inline void join(struct link *parent, const struct link *link)
{
    const double mass = parent->mass + link->mass;
    double way[3];
    if (!(link->mass > 0.0))
        return;
    difference(link->middle, parent->middle, way);
    const double reduced = parent->mass * link->mass / mass, squared = dot(way, way);
    for (int i = 0; i < 3; i++) {
        double *row = parent->inertia + 3 * i;
        along(row, 1.0, link->inertia + 3 * i, row);
        along(row, -reduced * way[i], way, row);
        row[i] += reduced * squared;
    }
    along(parent->middle, link->mass / mass, way, parent->middle);
    parent->mass = mass;
}

/* A row of H: what a freedom's unit acceleration needs of itself and of those before it. */
static inline void inertia_row(struct scene *s, int d)
{
    const struct link *link = &s->link[RB_DOF_LINK[d]];
    double arm[3], f[3], n[3], u[3] = {0.0}, *row = s->inertia.row + RB_DOF_ROW[d];
    difference(link->middle, link->o, arm);
    cross(s->column[d], arm, f);
    along(f, 1.0, s->column[d] + 3, f);
    times(link->mass, f, f);
    turn(link->inertia, s->column[d], n);
    const int *path = RB_PATH + RB_DOF_ROW[d];
    for (int k = 0, at = -1; k <= RB_DOF_DEPTH[d]; k++) {
        if (RB_DOF_LINK[path[k]] != at) { /* the moment about its origin */
            at = RB_DOF_LINK[path[k]];
            difference(link->middle, s->link[at].o, arm);
            cross(arm, f, u);
            along(u, 1.0, n, u);
        }
        row[k] = dot(s->column[path[k]], u) + dot(s->column[path[k]] + 3, f);
    }
}

/* H with the inertia of rotors, and with what dampers and springs add over a step h, by composite
   bodies (RBDA Table 6.2). */
static inline void joint_inertia(struct scene *s, double h)
{
    for (int i = 0; i < RB_LINKS; i++) {
        const int k = RB_LINK_BODY[i];
        struct link *link = &s->link[i];
        link->mass = RB_MASS[k];
        memcpy(link->middle, s->body[k].x, sizeof link->middle);
        turned_matrix(s->body[k].r, RB_INERTIA[k], link->own);
        memcpy(link->inertia, link->own, sizeof link->inertia);
    }
    for (int i = RB_LINKS - 1; i >= 0; i--) {
        for (int d = RB_LINK_DOF[i]; d < RB_LINK_DOF[i] + RB_LINK_DOFS[i]; d++) {
            inertia_row(s, d);
            s->inertia.row[RB_DOF_ROW[d]] +=
                RB_DOF_ARMATURE[d] + h * (RB_DOF_DAMPING[d] + h * RB_DOF_STIFFNESS[d]);
        }
        if (RB_LINK_PARENT[i] < RB_LINKS)
            join(&s->link[RB_LINK_PARENT[i]], &s->link[i]);
    }
}

/* L^T L in the place of the matrix (RBDA Table 6.3). */
static inline void factorize_branches(struct factor *l)
{
    for (int k = RB_DOFS - 1; k >= 0; k--) {
        const int *path = RB_PATH + RB_DOF_ROW[k], depth = RB_DOF_DEPTH[k];
        double *row = l->row + RB_DOF_ROW[k];
        row[0] = sqrt(row[0]);
        l->inverse[k] = 1.0 / row[0];
        for (int i = 1; i <= depth; i++)
            row[i] *= l->inverse[k];
        for (int i = 1; i <= depth; i++)
            add_times(depth + 1 - i, -row[i], row + i, l->row + RB_DOF_ROW[path[i]]);
    }
}

/* What one freedom takes from x on the way to L^-T x. */
static inline void solve_one_upwards(const struct factor *l, int k, double *x)
{
    const int *path = RB_PATH + RB_DOF_ROW[k], depth = RB_DOF_DEPTH[k];
    const double *row = l->row + RB_DOF_ROW[k], part = x[k] * l->inverse[k];
    x[k] = part;
    for (int i = 1; i <= depth; i++)
        x[path[i]] -= row[i] * part;
}

/* L^-T x for x that is zero but at a freedom and those before it. */
static inline void solve_upwards(const struct factor *l, int leaf, double *x)
{
    for (int k = leaf; k >= 0; k = RB_DOF_PARENT[k])
        solve_one_upwards(l, k, x);
}

/* L^-1 x for the freedoms of a tree. */
static inline void solve_downwards(const struct factor *l, int first, int count, double *x)
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

/* L^-T x for all freedoms. */
static inline void solve_all_upwards(const struct factor *l, double *x)
{
    for (int k = RB_DOFS - 1; k >= 0; k--)
        solve_one_upwards(l, k, x);
}

/* L qd. */
static inline void weigh_velocities(const struct scene *s, const double *qd, double *out)
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

/* Velocities of trees that are z in the coordinates of unit inertia: L^-1 z. */
static inline void free_velocities(const struct scene *s, const double *z, double *qd)
{
    memcpy(qd, z, RB_DOFS * sizeof *qd);
    solve_downwards(&s->inertia, 0, RB_DOFS, qd);
}

/* A frame that turns and moves with velocities in its own coordinates, which are as in the middle
   of the step. */
static inline void move_frame(const double *q, const double *qd, double h, int moves, double *out)
{
    double r[9], angle[3], middle[4], way[3];
    unit_rotation(q, r);
    turn(r, qd, angle);
    times(h, angle, angle);
    turned_by(q, angle, out);
    if (!moves)
        return;
    times(0.5, angle, angle);
    turned_by(q, angle, middle);
    rotation_of(middle, r);
    turn(r, qd + 3, way);
    along(q + 4, h, way, out + 4);
}

/* The position variables of a joint after a step with the velocities qd over h. */
static inline void move_joint(int i, const double *q, const double *qd, double h, double *out)
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

#endif
