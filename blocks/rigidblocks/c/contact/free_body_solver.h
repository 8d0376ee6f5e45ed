/* Contact solver for islands of free rigid bodies: projected Gauss-Seidel sweeps.

     u = u_0 + W p,   W = J M^-1 J^T (Delassus matrix; never formed)

   The solver stores the rows of J M^-1/2 and the body velocities in unit-inertia coordinates y:

     v = v_0 + m^-1/2 y[0..2],   w = w_0 + L y[3..5],   L L^T = I^-1 (base coordinates)

   Each row serves both to compute a contact velocity and to apply an impulse. The rows are stored
   as pairs of doubles. Contacts of articulated trees use contact_solver.h. */

#ifndef RB_FREE_BODY_SOLVER_H
#define RB_FREE_BODY_SOLVER_H

#include "contact_solver.h"

/* One contact. Arrays are in the contact frame: normal from b to a, tangent 1, tangent 2. If the
   contact has torsional or rolling friction, the three moments about the same axes follow.

     a, b               body indices; b = RB_BODIES is static geometry
     row_a, row_b       rows of J M^-1/2 of the two bodies; the rows of b have a negative sign
     impulse            p [N s], moments [N m s]
     step, direction    change of p in the last sweep, conjugate direction
     inverse_normal     1 / W_nn [kg]
     inverse_tangent    1 / lambda_max(W_tt) [kg]; 0 if the tangents cannot move
     delassus           W_nn, W_t1n, W_t2n [1/kg]
     tangent_max        lambda_max(W_tt) [1/kg]
     impulse_min        lower bound of p_n [N s]; positive only for Poisson restitution
     velocity_min       required normal velocity minus that at the start of the sweeps [m/s]
     bias               tangential velocity at the start of the sweeps, to be removed [m/s]
     friction_bound     relaxed bound of |p_t| [N s]
     spin_velocity      relative angular velocity at the start of the sweeps [rad/s]
     inverse_spin, inverse_roll   inverse angular Delassus terms [kg m^2]
     torsional, rolling largest moment per normal force [m]
     lever_arm          largest contact arm [m]; converts rad/s to m/s in the residual */
struct rb_free_contact {
    int a, b;
    rb_pair row_a[RB_CONTACT_ROWS][3], row_b[RB_CONTACT_ROWS][3];
    double impulse[RB_CONTACT_ROWS], step[RB_CONTACT_ROWS], direction[RB_CONTACT_ROWS];
    double inverse_normal, inverse_tangent, delassus[3], tangent_max, impulse_min, velocity_min,
        bias[2], mu, friction_bound;
    double spin_velocity[3], inverse_spin, inverse_roll, torsional, rolling, lever_arm;
};

/* Velocity change of one body since the start, in unit-inertia coordinates: the current value, the
   value after the last extrapolation, and the conjugate direction. */
struct rb_free_body {
    rb_pair y[3], y_before[3], direction[3];
};

/* Largest number of contacts in one island. The struct is on the stack (8 MB by default), so it
   has room for half of the contacts of models with more than 2048. Larger islands use
   contact_solver.h. */
enum { RB_FREE_CONTACTS = RB_CONTACTS <= 2048 ? RB_CONTACTS : RB_CONTACTS / 2 };

/* Solver state of one island. In one sweep, a friction bound makes the fraction `relaxation`
   (theta, in (0, 1]) of its full change. */
struct rb_free_solver {
    struct rb_free_contact contact[RB_FREE_CONTACTS];
    struct rb_free_body body[RB_BODIES + 1];
    double inverse_root[RB_BODIES][7]; /* m^-1/2, then L by rows, with L L^T = I^-1 */
    int active_body[RB_BODIES], body_count, contact_count;
    double relaxation;
};

/* Return a / b, or 0 if b is not positive. */
static inline double quotient_or_zero(double a, double b)
{
    return b > 0.0 ? a / b : 0.0;
}

/* Factorize the inverse inertia of a body: out = m^-1/2, then L with L L^T = I^-1 by rows.

     L00 = sqrt(a00)   L10 = a10 / L00   L11 = sqrt(a11 - L10^2)
     L20 = a20 / L00   L21 = (a21 - L20 L10) / L11   L22 = sqrt(a22 - L20^2 - L21^2) */
static inline void factorize_inverse_inertia(const struct rb_body *body, double *out)
{
    const double *m = body->inverse_inertia;
    out[0] = sqrt(body->inverse_mass);
    out[1] = sqrt(m[0]);
    out[2] = quotient_or_zero(m[3], out[1]);
    out[4] = quotient_or_zero(m[6], out[1]);
    out[3] = sqrt(rb_max(m[4] - out[2] * out[2], 0.0));
    out[5] = quotient_or_zero(m[7] - out[4] * out[2], out[3]);
    out[6] = sqrt(rb_max(m[8] - out[4] * out[4] - out[5] * out[5], 0.0));
}

/* Compute one row of J M^-1/2 for the direction n and the moment axis `spin`:

     row = sign [m^-1/2 n; L^T spin] */
static inline void make_row(const double *root, double sign, const double *n, const double *spin,
                            rb_pair *out)
{
    const double part = sign * root[0];
    out[0] = rb_pair_make(part * n[0], part * n[1]);
    out[1] = rb_pair_make(part * n[2],
                          sign * (root[1] * spin[0] + root[2] * spin[1] + root[4] * spin[2]));
    out[2] =
        rb_pair_make(sign * (root[3] * spin[1] + root[5] * spin[2]), sign * (root[6] * spin[2]));
}

static inline void make_contact_rows(const struct rb_free_solver *all, const struct rb_contact *c,
                                     int side, rb_pair (*out)[3])
{
    static const double none[3] = {0.0, 0.0, 0.0};
    const int k = side ? c->b : c->a;
    const double sign = side ? -1.0 : 1.0;
    memset(out, 0, RB_CONTACT_ROWS * sizeof *out);
    if (k == RB_BODIES)
        return;
    for (int i = 0; i < 3; i++)
        make_row(all->inverse_root[k], sign, c->frame[i], c->arms[side].spin[i], out[i]);
    for (int i = 3; i < RB_CONTACT_ROWS; i++)
        make_row(all->inverse_root[k], sign, none, c->frame[i - 3], out[i]);
}

/* Add a body to the island at its current velocity (y = 0). */
static inline void add_body(const struct rb_scene *s, struct rb_free_solver *all,
                            unsigned char *known, int k)
{
    if (k == RB_BODIES || known[k])
        return;
    known[k] = 1;
    factorize_inverse_inertia(&s->body[k], all->inverse_root[k]);
    memset(&all->body[k], 0, sizeof all->body[k]);
    all->active_body[all->body_count++] = k;
}

/* Prepare one contact. The initial velocities move to the right-hand side, so y starts at 0. */
static inline void add_contact(const struct rb_scene *s, const struct rb_free_solver *all,
                               const struct rb_contact *c, struct rb_free_contact *out)
{
    double w[3];
    memset(out, 0, sizeof *out);
    out->a = c->a;
    out->b = c->b;
    make_contact_rows(all, c, 0, out->row_a);
    make_contact_rows(all, c, 1, out->row_b);
    memcpy(out->impulse, c->impulse, sizeof out->impulse);
    rb_contact_velocity(s, c, w);
    out->inverse_normal = c->inverse_normal;
    out->inverse_tangent = c->inverse_tangent;
    out->tangent_max = c->tangent_max;
    out->mu = c->mu;
    out->impulse_min = c->impulse_min;
    out->velocity_min = c->velocity_min - w[0];
    for (int i = 0; i < 2; i++)
        out->bias[i] = c->bias[1 + i] + w[1 + i];
    for (int i = 0; i < 3; i++)
        out->delassus[i] = c->delassus[3 * i];
    if (RB_CONTACT_ROWS > 3) {
        rb_relative_spin(s, c, out->spin_velocity);
        out->inverse_spin = c->inverse_spin;
        out->inverse_roll = c->inverse_roll;
        out->torsional = c->torsional;
        out->rolling = c->rolling;
        out->lever_arm = c->lever_arm;
    }
}

static inline void rb_free_solver_start(const struct rb_scene *s,
                                        const struct rb_contact_list *from,
                                        struct rb_free_solver *all)
{
    RB_WORKSPACE(RB_LARGE_SCENE, unsigned char, known, RB_BODIES + 1);
    all->body_count = 0;
    all->contact_count = from->listed_count;
    memset(&all->body[RB_BODIES], 0, sizeof all->body[RB_BODIES]);
    for (int k = 0; k < all->contact_count; k++)
        known[from->contact[from->listed[k]].a] = known[from->contact[from->listed[k]].b] = 0;
    for (int k = 0; k < all->contact_count; k++) {
        const struct rb_contact *c = &from->contact[from->listed[k]];
        add_body(s, all, known, c->a);
        add_body(s, all, known, c->b);
        add_contact(s, all, c, &all->contact[k]);
    }
}

/* Return the change of the contact velocity along one row: row_a . x + row_b . y. */
static inline double rb_row_velocity(const rb_pair *a, const rb_pair *b, const rb_pair *x,
                                     const rb_pair *y)
{
    rb_pair sum = rb_pair_multiply(a[0], x[0]);
    sum = rb_pair_add(sum, rb_pair_multiply(a[1], x[1]));
    sum = rb_pair_add(sum, rb_pair_multiply(a[2], x[2]));
    sum = rb_pair_add(sum, rb_pair_multiply(b[0], y[0]));
    sum = rb_pair_add(sum, rb_pair_multiply(b[1], y[1]));
    sum = rb_pair_add(sum, rb_pair_multiply(b[2], y[2]));
    return rb_pair_first(sum) + rb_pair_second(sum);
}

/* Apply three impulse changes to one body: y += row^T (p, q, r). */
static inline void apply_rows(const rb_pair (*row)[3], rb_pair p, rb_pair q, rb_pair r, rb_pair *y)
{
    for (int i = 0; i < 3; i++) {
        const rb_pair change =
            rb_pair_add(rb_pair_add(rb_pair_multiply(row[0][i], p), rb_pair_multiply(row[1][i], q)),
                        rb_pair_multiply(row[2][i], r));
        y[i] = rb_pair_add(y[i], change);
    }
}

/* Apply the impulse changes step[from .. from + 2] to both bodies. */
static inline void rb_free_solver_apply(struct rb_free_solver *all, const struct rb_free_contact *c,
                                        int from)
{
    const rb_pair p = rb_pair_both(c->step[from]), q = rb_pair_both(c->step[from + 1]),
                  r = rb_pair_both(c->step[from + 2]);
    apply_rows(c->row_a + from, p, q, r, all->body[c->a].y);
    if (c->b < RB_BODIES)
        apply_rows(c->row_b + from, p, q, r, all->body[c->b].y);
}

/* Extrapolate the impulses of a contact along its conjugate direction:

     d' = beta d + step,   p += beta d   (the parameter `kept` is beta) */
static inline void extrapolate_contact(struct rb_free_contact *c, double kept)
{
    for (int i = 0; i < RB_CONTACT_ROWS; i++) {
        const double change = kept * c->direction[i];
        c->direction[i] = change + c->step[i];
        c->impulse[i] += change;
    }
}

/* Return 1 if all force impulses of the contact are zero. */
static inline int has_no_impulse(const struct rb_free_contact *c)
{
    return c->impulse[0] == 0.0 && c->impulse[1] == 0.0 && c->impulse[2] == 0.0;
}

/* RB_CYCLE_MIN_RESIDUAL: residuals below this multiple of the tolerance do not count as cycling.
   RB_MIN_RELAXATION: smallest relaxation. Both were found by trial. */
static const double RB_CYCLE_MIN_RESIDUAL = 100.0, RB_MIN_RELAXATION = 0.125;

/* Halve the relaxation of the friction bounds if the sweeps cycle.

   For large mu, a friction impulse can change u_n as much as the normal impulse does. The sweeps
   then minimize no function and can cycle. With fixed friction bounds they minimize a convex
   function, so bounds that change slowly restore convergence. The function halves the relaxation
   each time RB_CYCLE_CHECK_SWEEPS sweeps have not halved a residual that is well above the
   tolerance `enough` [m/s]. */
static inline void rb_free_solver_relax(int sweeps, double enough, double residual, double *last,
                                        double *following)
{
    if (sweeps % RB_CYCLE_CHECK_SWEEPS > 0)
        return;
    if (residual > 0.5 * *last && residual > RB_CYCLE_MIN_RESIDUAL * enough)
        *following = fmax(RB_MIN_RELAXATION, 0.5 * *following);
    *last = residual;
}

/* Update the force rows of one contact, with all other impulses fixed:

     p_n' = max(impulse_min, p_n - (u_n - velocity_min) / W_nn)
     bound' = (1 - theta) bound + theta mu p_n'                theta: relaxation
     p_t' = project onto |p_t| <= bound' of p_t - (u_t + W_tn (p_n' - p_n)) / lambda_max(W_tt)

   Returns the residual [m/s], the largest of the values

     W_nn |p_n' - p_n|,   lambda_max(W_tt) |p_t' - p_t|_inf,
     lambda_max(W_tt) |mu p_n' - bound'| */
static inline double solve_force_rows(struct rb_free_solver *all, struct rb_free_contact *c,
                                      double following)
{
    const rb_pair *x = all->body[c->a].y, *y = all->body[c->b].y;
    double next[3];
    const double u = rb_row_velocity(c->row_a[0], c->row_b[0], x, y);
    next[0] = rb_max(c->impulse[0] - (u - c->velocity_min) * c->inverse_normal, c->impulse_min);
    if (!(next[0] > 0.0) && has_no_impulse(c)) {
        memset(c->step, 0, sizeof c->step);
        c->friction_bound *= 1.0 - following;
        return c->friction_bound * c->tangent_max;
    }
    const double v = rb_row_velocity(c->row_a[1], c->row_b[1], x, y),
                 w = rb_row_velocity(c->row_a[2], c->row_b[2], x, y);
    c->step[0] = next[0] - c->impulse[0];
    next[1] = c->impulse[1] - c->inverse_tangent * (v + c->bias[0] + c->delassus[1] * c->step[0]);
    next[2] = c->impulse[2] - c->inverse_tangent * (w + c->bias[1] + c->delassus[2] * c->step[0]);
    c->friction_bound = (1.0 - following) * c->friction_bound + following * (c->mu * next[0]);
    const double squared = next[1] * next[1] + next[2] * next[2];
    if (squared > c->friction_bound * c->friction_bound) {
        const double part = c->friction_bound / sqrt(squared);
        next[1] *= part;
        next[2] *= part;
    }
    for (int i = 0; i < 3; i++) {
        c->step[i] = next[i] - c->impulse[i];
        c->impulse[i] = next[i];
    }
    rb_free_solver_apply(all, c, 0);
    const double out = fabs(c->mu * next[0] - c->friction_bound);
    return rb_max(fabs(c->step[0]) * c->delassus[0],
                  rb_max(out, rb_max(fabs(c->step[1]), fabs(c->step[2]))) * c->tangent_max);
}

/* Update the moment rows of one contact. Torsional friction: |p_spin| <= torsional p_n. Rolling
   friction: |p_roll| <= rolling p_n. Returns the residual [m/s]. */
static inline double solve_moment_rows(struct rb_free_solver *all, struct rb_free_contact *c)
{
    const rb_pair *x = all->body[c->a].y, *y = all->body[c->b].y;
    double next[3], turned = 0.0;
    const double rate[3] = {c->inverse_spin, c->inverse_roll, c->inverse_roll};
    const double most = c->torsional * c->impulse[0], limit = c->rolling * c->impulse[0];
    for (int i = 0; i < 3; i++)
        next[i] = c->impulse[RB_CONTACT_ROWS - 3 + i] -
                  rate[i] * (c->spin_velocity[i] +
                             rb_row_velocity(c->row_a[RB_CONTACT_ROWS - 3 + i],
                                             c->row_b[RB_CONTACT_ROWS - 3 + i], x, y));
    next[0] = rb_clamp(next[0], -most, most);
    const double length = sqrt(next[1] * next[1] + next[2] * next[2]);
    for (int i = 1; i < 3 && length > limit; i++)
        next[i] *= limit / length;
    for (int i = 0; i < 3; i++) {
        double *step = &c->step[RB_CONTACT_ROWS - 3 + i];
        *step = next[i] - c->impulse[RB_CONTACT_ROWS - 3 + i];
        turned = rate[i] > 0.0 ? rb_max(turned, fabs(*step) / rate[i]) : turned;
        c->impulse[RB_CONTACT_ROWS - 3 + i] = next[i];
    }
    rb_free_solver_apply(all, c, RB_CONTACT_ROWS - 3);
    return turned * c->lever_arm;
}

/* Do one Gauss-Seidel sweep after an extrapolation by the factor `kept` (beta).

   Returns the residual [m/s]; `squared` receives the sum of the squared impulse changes. */
static inline double rb_free_solver_sweep(struct rb_free_solver *all, double kept, double *squared)
{
    double most = 0.0, sum = 0.0;
    for (int k = 0; k < all->contact_count; k++) {
        struct rb_free_contact *c = &all->contact[k];
        extrapolate_contact(c, kept);
        most = rb_max(most, solve_force_rows(all, c, all->relaxation));
        if (RB_CONTACT_ROWS > 3 && (c->torsional > 0.0 || c->rolling > 0.0))
            most = rb_max(most, solve_moment_rows(all, c));
        for (int i = 0; i < RB_CONTACT_ROWS; i++)
            sum += c->step[i] * c->step[i];
    }
    *squared = sum;
    return most;
}

/* Return the velocity error of the force rows of one contact for its present impulse [m/s], as
   `contact_error` in contact_solver.h. */
static inline double force_rows_error(const struct rb_free_solver *all,
                                      const struct rb_free_contact *c)
{
    const rb_pair *x = all->body[c->a].y, *y = all->body[c->b].y;
    const double *p = c->impulse, limit = c->mu * p[0],
                 u = rb_row_velocity(c->row_a[0], c->row_b[0], x, y) - c->velocity_min;
    double next[2];
    for (int i = 0; i < 2; i++)
        next[i] =
            p[1 + i] - c->inverse_tangent *
                           (rb_row_velocity(c->row_a[1 + i], c->row_b[1 + i], x, y) + c->bias[i]);
    const double length = sqrt(next[0] * next[0] + next[1] * next[1]),
                 part = length > limit ? limit / length : 1.0;
    return rb_max(
        fabs(rb_max(p[0] - u * c->inverse_normal, c->impulse_min) - p[0]) * c->delassus[0],
        rb_max(fabs(part * next[0] - p[1]), fabs(part * next[1] - p[2])) * c->tangent_max);
}

/* Return the largest velocity error of the force rows of the island [m/s]. */
static inline double rb_free_solver_error(const struct rb_free_solver *all)
{
    double most = 0.0;
    for (int k = 0; k < all->contact_count; k++)
        most = rb_max(most, force_rows_error(all, &all->contact[k]));
    return most;
}

/* Extrapolate the body velocities along their conjugate directions:

     d' = beta d + (y - y_before),   y += beta d,   y_before = y */
static inline void rb_free_solver_extrapolate(struct rb_free_solver *all, double kept)
{
    for (int k = 0; k < all->body_count; k++) {
        struct rb_free_body *one = &all->body[all->active_body[k]];
        for (int i = 0; i < 3; i++) {
            const rb_pair change = rb_pair_multiply(rb_pair_both(kept), one->direction[i]);
            one->direction[i] = rb_pair_add(change, rb_pair_subtract(one->y[i], one->y_before[i]));
            one->y_before[i] = one->y[i] = rb_pair_add(one->y[i], change);
        }
    }
}

static inline void rb_unpack_pairs(const rb_pair *x, double *out)
{
    for (int i = 0; i < 3; i++) {
        out[2 * i] = rb_pair_first(x[i]);
        out[2 * i + 1] = rb_pair_second(x[i]);
    }
}

/* Write the impulses to the contacts and the velocities to the bodies. */
static inline void rb_free_solver_finish(struct rb_scene *s, const struct rb_free_solver *all,
                                         struct rb_contact_list *to)
{
    for (int k = 0; k < all->contact_count; k++)
        memcpy(to->contact[to->listed[k]].impulse, all->contact[k].impulse,
               sizeof all->contact[k].impulse);
    for (int k = 0; k < all->body_count; k++) {
        struct rb_body *body = &s->body[all->active_body[k]];
        const double *root = all->inverse_root[all->active_body[k]];
        double y[6];
        rb_unpack_pairs(all->body[all->active_body[k]].y, y);
        rb_axpy(body->v, root[0], y, body->v);
        body->w[0] += root[1] * y[3];
        body->w[1] += root[2] * y[3] + root[3] * y[4];
        body->w[2] += root[4] * y[3] + root[5] * y[4] + root[6] * y[5];
    }
}

#endif
