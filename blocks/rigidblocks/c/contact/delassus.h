/* Delassus matrix W = J M^-1 J^T of single contacts and stops, the rows from which it is computed,
   and the velocities and impulses at contacts. */

#ifndef RB_DELASSUS_H
#define RB_DELASSUS_H

#include "articulated_trees.h"

/* Number of degrees of freedom that an impulse changes: all of a tree with loop joints. Without
   loop joints, the path is sufficient and the array is unused. */
enum { RB_HELD = RB_CLOSURES > 0 ? RB_SPAN : 1 };

/* Rows of a contact for one tree, in unit-inertia coordinates: y = L^-T J^T for the degrees of
   freedom on the path from the body to the base. The contact velocity is Y z, and unit impulses
   change z by Y^T. If the tree has loop joints, impulses change all its degrees of freedom, by w.
   If there is torsional or rolling friction (RB_CONTACT_ROWS is 6), the moment rows follow. */
struct rb_contact_rows {
    double y[RB_DEPTH][RB_CONTACT_ROWS], w[RB_HELD][RB_CONTACT_ROWS];
};

/* Arms of a contact on a free body: spin = r x n maps the angular velocity to the contact velocity.
   whirl = I^-1 (r x n) maps the impulse to the change of angular velocity. */
struct rb_contact_arms {
    double spin[3][3], whirl[3][3];
};

/* A joint stop or dry joint friction: an impulse of at most `impulse_max` keeps the joint
   velocity between `low` and `high`. A joint beyond its stop returns with
   `correction_velocity`. y and w are defined as in rb_contact_rows. */
struct rb_stop {
    int number, dof;
    double low, high, impulse_max, impulse, delassus, step, direction, change, correction_velocity,
        correction_impulse, y[RB_DEPTH], w[RB_HELD];
};

/* One contact. Arrays are in the contact frame: normal towards a, tangent 1, tangent 2, then the
   moments.

     a, b                 body indices; b = RB_BODIES is static geometry
     delassus             W_ij = J_i M^-1 J_j^T [1/kg], 3 x 3
     inverse_normal       1 / W_nn [kg]
     inverse_tangent      1 / lambda_max(W_tt) [kg]; tangent_max = lambda_max(W_tt) [1/kg]
     velocity_min         required normal velocity [m/s]
     bias                 mean velocity of the contact point over the step minus its initial
                          velocity [m/s]
     mu                   friction coefficient; the static coefficient if the contact was sticking
     impulse              p [N s], moments [N m s]
     step, direction      change in the last sweep, conjugate direction
     impulse_min          lower bound of p_n [N s], for Poisson restitution
     change               impulse change of a Newton step
     arms, arm_a, arm_b   from the centres of mass to the contact point [m]
     e                    restitution coefficient
     open_mobility        W_nn if all closed loops are cut */
struct rb_contact {
    int a, b;
    double frame[3][3], delassus[9], inverse_normal, inverse_tangent, tangent_max, velocity_min,
        bias[3], mu;
    double impulse[RB_CONTACT_ROWS], step[RB_CONTACT_ROWS], direction[RB_CONTACT_ROWS], impulse_min,
        change[RB_CONTACT_ROWS];
    struct rb_contact_arms arms[2];
    double arm_a[3], arm_b[3], correction_velocity, e, torsional, rolling, lever_arm, key, gap;
    /* velocity_lead: velocity before the step minus the current velocity. velocity_before: velocity
       before an impact. resting_velocity: required normal velocity without restitution. */
    double velocity_lead[3], velocity_before[3], resting_velocity;
    double open_mobility, inverse_spin, inverse_roll, correction_impulse,
        impact_impulse[RB_CONTACT_ROWS], compression_impulse[RB_POISSON ? RB_CONTACT_ROWS : 1];
    int shape_a, shape_b, sticks;
    struct rb_contact_rows rows[2];
};

/* Moment rows L^-T J_w^T for the body of the last contact. The next contact uses them again if it
   has the same body and frame. */
struct rb_angular_rows {
    double frame[3][3], y[RB_DEPTH][3];
    int body;
};

/* All contacts and the stops that may become active. The solver treats the contacts in `listed`
   and the first `stop_count` stops. */
struct rb_contact_list {
    struct rb_contact contact[RB_CONTACTS];
    struct rb_stop stop[RB_STOPS + 1];
    struct rb_angular_rows turns[2]; /* rows of a and of b */
    int listed[RB_CONTACTS], listed_count, stop_count, count, reached_stops, sweeps, strike_sweeps;
    double residual;
};

/* Compute the arms of a contact on a free body and add its part to the Delassus matrix:

     W_ij += delta_ij / m + (r x n_i) . I^-1 (r x n_j) */
static inline void add_body_delassus(const struct rb_body *body, const double *arm,
                                     struct rb_contact_arms *out, struct rb_contact *c)
{
    for (int i = 0; i < 3; i++) {
        rb_cross(arm, c->frame[i], out->spin[i]);
        rb_rotate(body->inverse_inertia, out->spin[i], out->whirl[i]);
        c->delassus[4 * i] += body->inverse_mass;
    }
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++)
            c->delassus[3 * i + j] += rb_dot(out->spin[i], out->whirl[j]);
}

/* Transform a vector to the contact frame. */
static inline void rb_to_contact_frame(const struct rb_contact *c, const double *v, double *out)
{
    out[0] = rb_dot(c->frame[0], v);
    out[1] = rb_dot(c->frame[1], v);
    out[2] = rb_dot(c->frame[2], v);
}

/* Solve with L^-T for three columns at once, along the path from the last degree of freedom of a
   leaf to the first. */
static inline void solve_three_columns(const struct rb_scene *s, int leaf, int stride, double *y)
{
    const int *path = RB_PATH + RB_DOF_ROW[leaf], depth = RB_DOF_DEPTH[leaf];
    for (int at = 0; at <= depth; at++) {
        const double *row = s->inertia.row + RB_DOF_ROW[path[at]] - at,
                     inverse = s->inertia.inverse[path[at]];
        double *own = y + stride * at;
        const double x = inverse * own[0], u = inverse * own[1], v = inverse * own[2];
        own[0] = x;
        own[1] = u;
        own[2] = v;
        for (int before = at + 1; before <= depth; before++) {
            const double part = row[before];
            double *out = y + stride * before;
            out[0] -= part * x;
            out[1] -= part * u;
            out[2] -= part * v;
        }
    }
}

/* Compute the rows L^-T J^T of a contact for the tree of a body. */
static inline void make_own_rows(const struct rb_scene *s, struct rb_contact *c, int side)
{
    const int k = side ? c->b : c->a, leaf = RB_LEAF[k], *path = RB_PATH + RB_DOF_ROW[leaf];
    double (*y)[RB_CONTACT_ROWS] = c->rows[side].y, point[3];
    rb_axpy(s->body[k].x, 1.0, side ? c->arm_b : c->arm_a, point);
    for (int at = 0; at <= RB_DOF_DEPTH[leaf]; at++) {
        const double *column = s->column[path[at]];
        double arm[3], v[3];
        rb_subtract(point, s->link[RB_DOF_LINK[path[at]]].o, arm);
        rb_cross(column, arm, v);
        rb_axpy(v, 1.0, column + 3, v);
        rb_to_contact_frame(c, v, y[at]);
        if (RB_CONTACT_ROWS > 3)
            rb_to_contact_frame(c, column, y[at] + RB_CONTACT_ROWS - 3);
    }
    for (int i = 0; i < RB_CONTACT_ROWS; i += 3)
        solve_three_columns(s, leaf, RB_CONTACT_ROWS, y[0] + i);
}

/* Return 1 if the stored moment rows are for this body and frame. */
static inline int is_same_frame(const struct rb_contact *c, int body,
                                const struct rb_angular_rows *known)
{
    return known->body == body && memcmp(known->frame, c->frame, sizeof c->frame) == 0;
}

/* Compute the rows from the rows of the last contact, which is at another point of the same body
   and has the same frame. The rows differ by J_w x (r - r_before). */
static inline void make_next_rows(const struct rb_scene *s, struct rb_contact *c, int side,
                                  struct rb_angular_rows *known)
{
    const struct rb_contact *last = c - 1;
    const int k = side ? c->b : c->a, leaf = RB_LEAF[k], *path = RB_PATH + RB_DOF_ROW[leaf];
    double (*y)[RB_CONTACT_ROWS] = c->rows[side].y, way[3], u[3];
    if (!is_same_frame(c, k, known)) {
        known->body = k;
        memcpy(known->frame, c->frame, sizeof c->frame);
        for (int at = 0; at <= RB_DOF_DEPTH[leaf]; at++)
            rb_to_contact_frame(c, s->column[path[at]], known->y[at]);
        solve_three_columns(s, leaf, 3, known->y[0]);
    }
    if (side)
        rb_subtract(c->arm_b, last->arm_b, u);
    else
        rb_subtract(c->arm_a, last->arm_a, u);
    rb_to_contact_frame(c, u, way);
    for (int at = 0; at <= RB_DOF_DEPTH[leaf]; at++) {
        rb_cross(known->y[at], way, u);
        rb_axpy(last->rows[side].y[at], 1.0, u, y[at]);
        if (RB_CONTACT_ROWS > 3)
            memcpy(y[at] + RB_CONTACT_ROWS - 3, known->y[at], sizeof known->y[at]);
    }
}

/* Compute the rows L^-T J^T of a contact for the tree of a body, and their projection onto
   closed loops. */
static inline void make_rows(const struct rb_scene *s, struct rb_contact_list *all,
                             struct rb_contact *c, int side)
{
    const int k = side ? c->b : c->a;
    if (all->count > 0 && (side ? c[-1].b : c[-1].a) == k &&
        memcmp(c[-1].frame, c->frame, sizeof c->frame) == 0)
        make_next_rows(s, c, side, &all->turns[side]);
    else
        make_own_rows(s, c, side);
    for (int at = 0; RB_CLOSURES > 0 && at <= RB_DOF_DEPTH[RB_LEAF[k]]; at++)
        c->open_mobility += c->rows[side].y[at][0] * c->rows[side].y[at][0];
    for (int i = 0; RB_CLOSURES > 0 && i < RB_CONTACT_ROWS; i++)
        rb_hold_row(s, RB_LEAF[k], &c->rows[side].y[0][i], RB_CONTACT_ROWS, &c->rows[side].w[0][i]);
}

/* Add the contribution Y_of Y_by^T of a tree to the Delassus matrix (3 x 3). `from` = 3 selects
   the moment rows. */
static inline void add_tree_delassus(const struct rb_contact *c, int of, int by, int from,
                                     double *mass)
{
    const int a = RB_LEAF[of ? c->b : c->a], b = RB_LEAF[by ? c->b : c->a];
    const int *here = RB_PATH + RB_DOF_ROW[a], *there = RB_PATH + RB_DOF_ROW[b];
    double sum[9] = {0.0};
    /* from the root along the common path */
    for (int i = RB_DOF_DEPTH[a], k = RB_DOF_DEPTH[b]; i >= 0; i--, k--) {
        if (RB_CLOSURES == 0 && (k < 0 || here[i] != there[k]))
            break;
        const double *y = c->rows[of].y[i] + from;
        const double *w =
            RB_CLOSURES > 0 ? c->rows[by].w[here[i] - RB_DOF_FIRST[a]] : c->rows[by].y[k];
        rb_axpy(sum, y[0], w + from, sum);
        rb_axpy(sum + 3, y[1], w + from, sum + 3);
        rb_axpy(sum + 6, y[2], w + from, sum + 6);
    }
    for (int i = 0; i < 9; i++)
        mass[i] += of == by ? sum[i] : -sum[i];
}

/* Add the contribution n_i . I^-1 n_j of a free body to the angular Delassus matrix (3 x 3). */
static inline void add_spin_delassus(const struct rb_scene *s, const struct rb_contact *c, int k,
                                     double *mass)
{
    double u[3];
    for (int j = 0; j < 3; j++) {
        rb_rotate(s->body[k].inverse_inertia, c->frame[j], u);
        for (int i = 0; i < 3; i++)
            mass[3 * i + j] += rb_dot(c->frame[i], u);
    }
}

/* Compute the inverse angular Delassus terms for torsional and rolling friction. The factors 1e-12
   exclude directions that move only because of rounding errors. */
static inline void rb_prepare_moments(const struct rb_scene *s, struct rb_contact *c)
{
    const int a = RB_LEAF[c->a], b = RB_LEAF[c->b];
    double mass[9] = {0.0};
    for (int side = 0; side < 2; side++) {
        if ((side ? b : a) < 0)
            add_spin_delassus(s, c, side ? c->b : c->a, mass);
        else
            add_tree_delassus(c, side, side, RB_CONTACT_ROWS - 3, mass);
    }
    c->lever_arm = fmax(c->a < RB_BODIES ? rb_norm(c->arm_a) : 0.0,
                        c->b < RB_BODIES ? rb_norm(c->arm_b) : 0.0);
    if (a >= 0 && b >= 0 && RB_DOF_FIRST[a] == RB_DOF_FIRST[b]) {
        add_tree_delassus(c, 0, 1, RB_CONTACT_ROWS - 3, mass);
        add_tree_delassus(c, 1, 0, RB_CONTACT_ROWS - 3, mass);
    }
    const double mean = 0.5 * (mass[4] + mass[8]), half = 0.5 * (mass[4] - mass[8]);
    const double most = mean + sqrt(half * half + mass[5] * mass[5]);
    c->inverse_spin = mass[0] > 1e-12 * most ? 1.0 / mass[0] : 0.0;
    c->inverse_roll = most > 1e-12 * mass[0] ? 1.0 / most : 0.0;
}

/* Prepare a contact: rows, Delassus matrix and inverse terms. Returns 0 if an impulse moves
   nothing, up to rounding errors (1e-12). Also returns 0 if the closed loops prevent the motion, up
   to rounding errors (1e-9). */
static inline int rb_prepare_contact(const struct rb_scene *s, struct rb_contact_list *all,
                                     struct rb_contact *c)
{
    const int a = RB_LEAF[c->a], b = RB_LEAF[c->b];
    memset(c->delassus, 0, sizeof c->delassus);
    for (int side = 0; side < 2; side++) {
        if ((side ? b : a) < 0) {
            add_body_delassus(&s->body[side ? c->b : c->a], side ? c->arm_b : c->arm_a,
                              &c->arms[side], c);
        } else {
            make_rows(s, all, c, side);
            add_tree_delassus(c, side, side, 0, c->delassus);
        }
    }
    if (a >= 0 && b >= 0 && RB_DOF_FIRST[a] == RB_DOF_FIRST[b]) { /* links of one tree */
        add_tree_delassus(c, 0, 1, 0, c->delassus);
        add_tree_delassus(c, 1, 0, 0, c->delassus);
    }
    const double mean = 0.5 * (c->delassus[4] + c->delassus[8]),
                 half = 0.5 * (c->delassus[4] - c->delassus[8]);
    /* lambda_max of the tangential block: mean + sqrt(half^2 + W_12^2) */
    const double most = mean + sqrt(half * half + c->delassus[5] * c->delassus[5]);
    c->inverse_normal = c->delassus[0] > 0.0 ? 1.0 / c->delassus[0] : 0.0;
    c->inverse_tangent = most > 1e-12 * c->delassus[0] ? 1.0 / most : 0.0;
    c->tangent_max = c->inverse_tangent > 0.0 ? most : 0.0;
    return c->delassus[0] > 1e-12 * most && c->delassus[0] > 1e-9 * c->open_mobility;
}

/* ---- contact velocities, and effects of contact impulses ---- */

/* Compute the velocity of one body at a contact, in the contact frame [m/s]: J_a v for free
   bodies, Y z for links of a tree. */
static inline void contact_point_velocity(const struct rb_scene *s, const struct rb_contact *c,
                                          int side, double *out)
{
    const int k = side ? c->b : c->a;
    if (RB_LEAF[k] < 0) {
        const struct rb_body *body = &s->body[k];
        const double (*spin)[3] = c->arms[side].spin;
        out[0] = rb_dot(c->frame[0], body->v) + rb_dot(spin[0], body->w);
        out[1] = rb_dot(c->frame[1], body->v) + rb_dot(spin[1], body->w);
        out[2] = rb_dot(c->frame[2], body->v) + rb_dot(spin[2], body->w);
        return;
    }
    const int leaf = RB_LEAF[k], *path = RB_PATH + RB_DOF_ROW[leaf];
    const double (*row)[RB_CONTACT_ROWS] = c->rows[side].y;
    double x = 0.0, y = 0.0, z = 0.0;
    for (int at = 0; at <= RB_DOF_DEPTH[leaf]; at++) {
        const double v = s->z[path[at]];
        x += row[at][0] * v;
        y += row[at][1] * v;
        z += row[at][2] * v;
    }
    out[0] = x;
    out[1] = y;
    out[2] = z;
}

/* Compute the velocity of body A relative to body B at a contact, in the contact frame [m/s]. */
static inline void rb_contact_velocity(const struct rb_scene *s, const struct rb_contact *c,
                                       double *out)
{
    double v[3];
    contact_point_velocity(s, c, 0, out);
    if (c->b == RB_BODIES)
        return;
    contact_point_velocity(s, c, 1, v);
    rb_subtract(out, v, out);
}

/* Apply an impulse in the contact frame to the tree of a body: z += Y^T p. */
static inline void push_tree(const struct rb_contact *c, int side, const double *change, double *z)
{
    const int leaf = RB_LEAF[side ? c->b : c->a], *path = RB_PATH + RB_DOF_ROW[leaf];
    const int count = RB_CLOSURES > 0 ? RB_DOF_COUNT[leaf] : RB_DOF_DEPTH[leaf] + 1;
    const double (*row)[RB_CONTACT_ROWS] = RB_CLOSURES > 0 ? c->rows[side].w : c->rows[side].y;
    const double sign = side ? -1.0 : 1.0, x = sign * change[0], y = sign * change[1],
                 v = sign * change[2];
    for (int k = 0; k < count; k++) {
        double sum = row[k][0] * x + row[k][1] * y + row[k][2] * v;
        for (int i = 3; i < RB_CONTACT_ROWS; i++)
            sum += row[k][i] * sign * change[i];
        z[RB_CLOSURES > 0 ? RB_DOF_FIRST[leaf] + k : path[k]] += sum;
    }
}

/* Apply the moments of a contact to a free body: w += I^-1 m. */
static inline void twist_body(struct rb_body *body, const struct rb_contact *c, double sign,
                              const double *change)
{
    double moment[3] = {0.0, 0.0, 0.0};
    for (int i = 3; i < RB_CONTACT_ROWS; i++)
        rb_axpy(moment, change[i], c->frame[i - 3], moment);
    rb_rotate(body->inverse_inertia, moment, moment);
    rb_axpy(body->w, sign, moment, body->w);
}

/* Apply an impulse in the contact frame to a free body: v += p / m, w += I^-1 (r x p). */
static inline void push_body(const struct rb_contact *c, int side, const double *change,
                             double lightness, double *v, double *w)
{
    const struct rb_contact_arms *arms = &c->arms[side];
    const double sign = side ? -1.0 : 1.0, x = sign * change[0], y = sign * change[1],
                 z = sign * change[2];
    for (int i = 0; i < 3; i++) {
        v[i] += lightness * (c->frame[0][i] * x + c->frame[1][i] * y + c->frame[2][i] * z);
        w[i] += arms->whirl[0][i] * x + arms->whirl[1][i] * y + arms->whirl[2][i] * z;
    }
}

/* Apply an impulse in the contact frame to both bodies. */
static inline void rb_apply_impulse(struct rb_scene *s, const struct rb_contact *c,
                                    const double *change)
{
    for (int side = 0; side < 2; side++) {
        const int k = side ? c->b : c->a;
        struct rb_body *body = &s->body[k];
        if (RB_LEAF[k] >= 0) {
            push_tree(c, side, change, s->z);
        } else if (body->inverse_mass > 0.0) {
            push_body(c, side, change, body->inverse_mass, body->v, body->w);
            if (RB_CONTACT_ROWS > 3)
                twist_body(body, c, side ? -1.0 : 1.0, change);
        }
    }
}

/* Compute the angular velocity of body A relative to body B, in the contact frame [rad/s]. */
static inline void rb_relative_spin(const struct rb_scene *s, const struct rb_contact *c,
                                    double *out)
{
    memset(out, 0, 3 * sizeof *out);
    for (int side = 0; side < 2; side++) {
        const int k = side ? c->b : c->a;
        const double sign = side ? -1.0 : 1.0;
        for (int i = 0; RB_LEAF[k] < 0 && i < 3; i++)
            out[i] += sign * rb_dot(c->frame[i], s->body[k].w);
        for (int d = RB_LEAF[k], at = 0; d >= 0; d = RB_DOF_PARENT[d], at++)
            for (int i = 3; i < RB_CONTACT_ROWS; i++)
                out[i - 3] += sign * c->rows[side].y[at][i] * s->z[d];
    }
}

#endif
