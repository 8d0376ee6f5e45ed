/* Solver of the contact impulses: projected Gauss-Seidel sweeps with conjugate directions, a warm
   start and Newton steps. */

#ifndef RB_CONTACT_SOLVER_H
#define RB_CONTACT_SOLVER_H

#include "delassus.h"

/* ---- Gauss-Seidel sweeps: solve one contact after the other, with all other impulses fixed ----

   RB_CYCLE_CHECK_SWEEPS: number of sweeps after which the tolerance is relaxed. If a step needed
   that many sweeps, the next step checks its warm start. RB_STALLING_SWEEPS: number of sweeps
   between two checks for stalling. Both were found by trial. */

enum { RB_CYCLE_CHECK_SWEEPS = 32, RB_STALLING_SWEEPS = 4 };

/* Return 1 if the contact sticks: |p_t| < mu p_n. The factor 1 - 1e-9 excludes impulses on the
   boundary of the cone that are inside only by rounding errors. */
static inline int rb_is_sticking(const struct rb_contact *c)
{
    const double limit = c->mu * c->impulse[0];
    return sqrt(c->impulse[1] * c->impulse[1] + c->impulse[2] * c->impulse[2]) <
           (1.0 - 1e-9) * limit;
}

/* Update the moments of one contact, with all other impulses fixed:

     m_spin' = clamp(m_spin - w_n / A_nn, -torsional p_n, torsional p_n)
     m_roll' = project onto |m_roll| <= rolling p_n of m_roll - w_t / lambda_max(A_tt)

   Returns the residual: the change of the angular velocity times the lever arm [m/s]. */
static inline double solve_moments(struct rb_scene *s, struct rb_contact *c)
{
    double w[3], next[RB_CONTACT_ROWS], change[RB_CONTACT_ROWS] = {0.0};
    const double most = c->torsional * c->impulse[0], limit = c->rolling * c->impulse[0];
    rb_relative_spin(s, c, w);
    memcpy(next, c->impulse, sizeof next);
    for (int i = 3; i < RB_CONTACT_ROWS; i++)
        next[i] -= (i == 3 ? c->inverse_spin : c->inverse_roll) * w[i - 3];
    next[RB_CONTACT_ROWS - 3] = rb_clamp(next[RB_CONTACT_ROWS - 3], -most, most);
    const double length = sqrt(next[RB_CONTACT_ROWS - 2] * next[RB_CONTACT_ROWS - 2] +
                               next[RB_CONTACT_ROWS - 1] * next[RB_CONTACT_ROWS - 1]);
    for (int i = 4; i < RB_CONTACT_ROWS && length > limit; i++)
        next[i] *= limit / length;
    double turned = 0.0;
    for (int i = 3; i < RB_CONTACT_ROWS; i++) {
        const double rate = i == 3 ? c->inverse_spin : c->inverse_roll;
        change[i] = next[i] - c->impulse[i];
        turned = rate > 0.0 ? fmax(turned, fabs(change[i]) / rate) : turned;
    }
    if (!(turned > 0.0))
        return 0.0;
    memcpy(c->step + 3, change + 3, (RB_CONTACT_ROWS - 3) * sizeof *change);
    memcpy(c->impulse, next, sizeof next);
    rb_apply_impulse(s, c, change);
    return turned * c->lever_arm;
}

/* Compute the friction impulse of one contact for the next normal impulse next[0]:

     p_t' = project onto |p_t| <= mu p_n' of t,
     t = p_t - (u_t + bias + W_tn (p_n' - p_n)) / lambda_max(W_tt)

   The factor 1 / lambda_max(W_tt) does not overshoot for any orientation of the tangents. Returns
   1 if the contact slips: |t| > mu p_n'. */
static inline int next_friction(const struct rb_contact *c, const double *w, double *next,
                                double *t)
{
    const double change = next[0] - c->impulse[0];
    t[0] = c->impulse[1] - c->inverse_tangent * (w[1] + c->bias[1] + c->delassus[3] * change);
    t[1] = c->impulse[2] - c->inverse_tangent * (w[2] + c->bias[2] + c->delassus[6] * change);
    const double limit = c->mu * next[0], squared = t[0] * t[0] + t[1] * t[1];
    const int slips = squared > limit * limit;
    const double part = slips ? limit / sqrt(squared) : 1.0;
    next[1] = part * t[0];
    next[2] = part * t[1];
    return slips;
}

/* Include the friction of a slip in the normal impulse of one contact.

   Friction that slips is proportional to the normal impulse, p_t = mu p_n d. If it raises the normal
   velocity (W_nt d > 0), a normal impulse that ignores it overshoots, and the sweeps cycle. The
   normal impulse of a slip in the direction d = t / |t| is

     p_n' = max(impulse_min, (W_nn p_n + W_nt p_t - (u_n - velocity_min)) / (W_nn + mu W_nt d))

   The next impulse is this solution if the contact slips with it. A contact that sticks in the
   solution keeps its impulse, because (W_nt d)^2 <= W_nn lambda_max(W_tt). */
static inline void include_slip(const struct rb_contact *c, const double *w, const double *t,
                                double *next)
{
    const double raised = c->delassus[1] * t[0] + c->delassus[2] * t[1], *p = c->impulse;
    if (!(c->mu * raised > 0.0))
        return;
    const double mass = c->delassus[0] + c->mu * raised / sqrt(t[0] * t[0] + t[1] * t[1]),
                 pushed = c->delassus[0] * p[0] + c->delassus[1] * p[1] + c->delassus[2] * p[2];
    double slip[3] = {rb_max((pushed - (w[0] - c->velocity_min)) / mass, c->impulse_min)}, s[2];
    if (next_friction(c, w, slip, s))
        memcpy(next, slip, sizeof slip);
}

/* Update the impulse of one contact, with all other impulses fixed:

     p_n' = max(impulse_min, p_n - (u_n - velocity_min) / W_nn)

   `next_friction` computes the friction impulse, and `include_slip` corrects both. Returns the
   residual [m/s]: the largest change of a component of the contact velocity. */
static inline double solve_contact(struct rb_scene *s, struct rb_contact *c)
{
    double w[3], next[3], t[2], change[RB_CONTACT_ROWS] = {0.0};
    rb_contact_velocity(s, c, w);
    next[0] = c->impulse[0] - (w[0] - c->velocity_min) * c->inverse_normal;
    next[0] = rb_max(next[0], c->impulse_min);
    next_friction(c, w, next, t);
    include_slip(c, w, t, next);
    for (int i = 0; i < 3; i++)
        change[i] = next[i] - c->impulse[i];
    memcpy(c->step, change, sizeof change);
    if (change[0] == 0.0 && change[1] == 0.0 && change[2] == 0.0)
        return 0.0;
    memcpy(c->impulse, next, sizeof next);
    rb_apply_impulse(s, c, change);
    return rb_max(fabs(change[0]) * c->delassus[0],
                  rb_max(fabs(change[1]), fabs(change[2])) * c->tangent_max);
}

static inline void push_stop(const struct rb_stop *stop, double change, double *z)
{
    const int d = stop->dof, *path = RB_PATH + RB_DOF_ROW[d];
    for (int at = 0; RB_CLOSURES == 0 && at <= RB_DOF_DEPTH[d]; at++)
        z[path[at]] += change * stop->y[at];
    for (int k = 0; RB_CLOSURES > 0 && k < RB_DOF_COUNT[d]; k++)
        z[RB_DOF_FIRST[d] + k] += change * stop->w[k];
}

/* Return the joint velocity at a stop: y . z. */
static inline double stop_velocity(const struct rb_stop *stop, const double *z)
{
    const int *path = RB_PATH + RB_DOF_ROW[stop->dof];
    double sum = 0.0;
    for (int at = 0; at <= RB_DOF_DEPTH[stop->dof]; at++)
        sum += stop->y[at] * z[path[at]];
    return sum;
}

/* Update the impulse of a stop or of dry joint friction, with all other impulses fixed:

     qd_free = qd - W p
     p' = clamp((clamp(qd_free, low, high) - qd_free) / W, -impulse_max, impulse_max)

   Returns the residual: the change of the joint velocity. */
static inline double solve_stop(struct rb_scene *s, struct rb_stop *stop)
{
    stop->step = 0.0;
    if (!(stop->delassus > 0.0))
        return 0.0;
    const double free = stop_velocity(stop, s->z) - stop->delassus * stop->impulse;
    const double wanted = (rb_clamp(free, stop->low, stop->high) - free) / stop->delassus;
    const double change = rb_clamp(wanted, -stop->impulse_max, stop->impulse_max) - stop->impulse;
    stop->step = change;
    if (change == 0.0)
        return 0.0;
    stop->impulse += change;
    push_stop(stop, change, s->z);
    return fabs(change) * stop->delassus;
}

/* Do one sweep over the stops and the listed contacts. Returns the largest residual. */
static inline double sweep_once(struct rb_scene *s, struct rb_contact_list *all)
{
    double most = 0.0;
    for (int k = 0; k < all->stop_count; k++)
        most = rb_max(most, solve_stop(s, &all->stop[k]));
    for (int k = 0; k < all->listed_count; k++) {
        struct rb_contact *c = &all->contact[all->listed[k]];
        most = rb_max(most, solve_contact(s, c));
        if (RB_CONTACT_ROWS > 3 && (c->torsional > 0.0 || c->rolling > 0.0))
            most = rb_max(most, solve_moments(s, c));
    }
    return most;
}

/* Return the normal velocity of one body that the penetration correction causes [m/s]. */
static inline double correction_velocity(const struct rb_scene *s, const struct rb_contact *c,
                                         int side)
{
    const int k = side ? c->b : c->a;
    double sum = 0.0;
    if (RB_LEAF[k] < 0) {
        return rb_dot(c->frame[0], s->body[k].push_v) +
               rb_dot(c->arms[side].spin[0], s->body[k].push_w);
    }
    const int *path = RB_PATH + RB_DOF_ROW[RB_LEAF[k]];
    for (int at = 0; at <= RB_DOF_DEPTH[RB_LEAF[k]]; at++)
        sum += c->rows[side].y[at][0] * s->push_z[path[at]];
    return sum;
}

/* Apply a normal impulse of the penetration correction to the tree of a body. */
static inline void correct_tree(const struct rb_contact *c, int side, double change, double *z)
{
    const int leaf = RB_LEAF[side ? c->b : c->a], *path = RB_PATH + RB_DOF_ROW[leaf];
    const double signed_change = side ? -change : change;
    for (int at = 0; RB_CLOSURES == 0 && at <= RB_DOF_DEPTH[leaf]; at++)
        z[path[at]] += signed_change * c->rows[side].y[at][0];
    for (int k = 0; RB_CLOSURES > 0 && k < RB_DOF_COUNT[leaf]; k++)
        z[RB_DOF_FIRST[leaf] + k] += signed_change * c->rows[side].w[k][0];
}

/* Smallest ratio of the normal to the tangential mobility in the penetration correction. If
   W_nn < 1e-2 lambda_max(W_tt), for example if a joint axis is parallel to the normal, a full
   correction would turn the joint far. The solver then removes only part of the overlap. The
   tangential displacement is at most ten times the overlap (sqrt(1 / 1e-2)). */
static const double RB_MIN_NORMAL_SHARE = 1e-2;

/* Update the correction impulse of one contact. The correction separates overlapping bodies and
   leaves their velocities unchanged:

     s' = max(0, (W_nn s - (u - u_correction)) / max(W_nn, 1e-2 lambda_max(W_tt)))

   Returns the change of the correction velocity [m/s]. */
static inline double rb_correct_penetration(struct rb_scene *s, struct rb_contact *c)
{
    const double speed =
        correction_velocity(s, c, 0) - (c->b < RB_BODIES ? correction_velocity(s, c, 1) : 0.0);
    const double mass = fmax(c->delassus[0], RB_MIN_NORMAL_SHARE * c->tangent_max);
    const double next = fmax(
        0.0, (c->delassus[0] * c->correction_impulse - (speed - c->correction_velocity)) / mass);
    const double change[RB_CONTACT_ROWS] = {next - c->correction_impulse};
    if (change[0] == 0.0)
        return 0.0;
    c->correction_impulse = next;
    for (int side = 0; side < 2; side++) {
        struct rb_body *body = &s->body[side ? c->b : c->a];
        if (RB_LEAF[side ? c->b : c->a] >= 0)
            correct_tree(c, side, change[0], s->push_z);
        else if (body->inverse_mass > 0.0)
            push_body(c, side, change, body->inverse_mass, body->push_v, body->push_w);
    }
    return fabs(change[0]) * c->delassus[0];
}

/* Update the correction impulse of a joint beyond its stop. Returns the change of the correction
   velocity. */
static inline double rb_correct_stop(struct rb_scene *s, struct rb_stop *stop)
{
    const double sign = stop->correction_velocity < 0.0 ? -1.0 : 1.0,
                 missing = stop->correction_velocity - stop_velocity(stop, s->push_z);
    if (!(stop->delassus > 0.0) || !(fabs(stop->correction_velocity) > 0.0))
        return 0.0;
    const double next = sign *
                        rb_max(0.0, sign * (stop->correction_impulse + missing / stop->delassus)),
                 change = next - stop->correction_impulse;
    stop->correction_impulse = next;
    push_stop(stop, change, s->push_z);
    return fabs(change) * stop->delassus;
}

/* ---- warm start ---- */

/* Return half the work of the listed impulses at the current velocities, measured relative to the
   required velocities:

     1/2 sum p_n (u_n - velocity_min) + p_t . (u_t + bias) */
static inline double half_impulse_work(const struct rb_scene *s, const struct rb_contact_list *all)
{
    double work = 0.0, w[3];
    for (int k = 0; k < all->listed_count; k++) {
        const struct rb_contact *c = &all->contact[all->listed[k]];
        rb_contact_velocity(s, c, w);
        work += c->impulse[0] * (0.5 * w[0] - 0.5 * c->velocity_min);
        for (int i = 1; i < 3; i++)
            work += 0.5 * c->impulse[i] * (w[i] + c->bias[i]);
    }
    for (int k = 0; k < all->stop_count; k++) {
        const struct rb_stop *stop = &all->stop[k];
        work += 0.5 * stop->impulse *
                (stop_velocity(stop, s->z) - (stop->impulse > 0.0 ? stop->low : stop->high));
    }
    return work;
}

/* Apply the listed impulses and the stop impulses, times `sign`. */
static inline void rb_apply_listed(struct rb_scene *s, const struct rb_contact_list *all,
                                   double sign)
{
    for (int k = 0; k < all->listed_count; k++) {
        const struct rb_contact *c = &all->contact[all->listed[k]];
        double change[RB_CONTACT_ROWS];
        for (int i = 0; i < RB_CONTACT_ROWS; i++)
            change[i] = sign * c->impulse[i];
        rb_apply_impulse(s, c, change);
    }
    for (int k = 0; k < all->stop_count; k++)
        push_stop(&all->stop[k], sign * all->stop[k].impulse, s->z);
}

static inline void rb_list_all(struct rb_contact_list *all)
{
    all->listed_count = all->count;
    all->stop_count = all->reached_stops;
    for (int k = 0; k < all->count; k++)
        all->listed[k] = k;
}

/* Return the objective that the sweeps minimize; it is 0 for zero impulses:

     f(p) = 1/2 p^T W p + p^T (u_0 - u_min)

   The velocities must include the listed impulses when the function is called; they include them
   again when it returns. */
static inline double objective(struct rb_scene *s, const struct rb_contact_list *all)
{
    const double with = half_impulse_work(s, all);
    rb_apply_listed(s, all, -1.0);
    const double without = half_impulse_work(s, all);
    rb_apply_listed(s, all, 1.0);
    return with + without;
}

/* Return 1 if the warm start lowers the objective, at once or after RB_STALLING_SWEEPS sweeps.
   The objective gives a large weight to the errors of heavy bodies on light ones. The first sweeps
   remove the errors of light bodies. */
static inline int rb_is_warm_start_useful(struct rb_scene *s, struct rb_contact_list *all)
{
    if (objective(s, all) <= 0.0)
        return 1;
    for (int k = 0; k < RB_STALLING_SWEEPS; k++)
        sweep_once(s, all);
    return objective(s, all) <= 0.0;
}

static inline void rb_discard_impulses(struct rb_scene *s, struct rb_contact_list *all)
{
    rb_apply_listed(s, all, -1.0);
    for (int k = 0; k < all->listed_count; k++)
        memset(all->contact[all->listed[k]].impulse, 0, sizeof all->contact[k].impulse);
    for (int k = 0; k < all->stop_count; k++)
        all->stop[k].impulse = 0.0;
}

/* ---- Newton step: solve all contacts between trees and static geometry at once ----

   The equations include the contacts that are closed and the stops that are active after a sweep.
   In unit-inertia coordinates

     Y dz + E dp = r,  dz = Y^T dp   =>   (1 + Y^T E^-1 Y) dz = Y^T E^-1 r

   The matrix has the branch-induced sparsity of the trees. The compliance E distributes the load
   among redundant supports. Each further solve starts from the impulses of the last one, so the
   error after n solves is of the order E^n (proximal point method, Rockafellar 1976).

   The Newton steps before the second sweep are skipped if a contact connects two moving bodies. In
   later Newton steps, these contacts keep their impulses. A Newton step ends where the first contact
   opens or begins to slip, and the next sweep changes the mode of this contact. */

static const double RB_COMPLIANCE = 1e-5; /* relative to W; found by trial */
/* RB_PROXIMAL_SOLVES: number of solves with one factorization; the error is of the order E^3.
   RB_NEWTON_SWEEPS: number of sweeps between two Newton steps. Found by trial. */
enum { RB_PROXIMAL_SOLVES = 3, RB_NEWTON_SWEEPS = 8 };
/* RB_NEWTON_FRACTION: smallest fraction of a Newton step that is applied. RB_NEWTON_REDUCTION:
   another Newton step follows only if the residual is below this fraction of its value at the last
   one. Found by trial. */
static const double RB_NEWTON_FRACTION = 0.01, RB_NEWTON_REDUCTION = 0.5;

/* Return 1 if the contact is closed and connects a tree with static geometry. */
static inline int supports_tree(const struct rb_contact *c)
{
    return c->impulse[0] > 0.0 && RB_LEAF[c->a] >= 0 && c->b == RB_BODIES;
}

/* Return 1 if the stop is active: its impulse is not zero and below its bound. */
static inline int holds_stop(const struct rb_stop *stop)
{
    return stop->delassus > 0.0 && fabs(stop->impulse) > 0.0 &&
           fabs(stop->impulse) < stop->impulse_max;
}

/* Return 1 if the moment is below the limit of torsional friction (i = 3) or of rolling friction
   (i > 3). The factor 1 - 1e-9 is as in `rb_is_sticking`. */
static inline int is_moment_sticking(const struct rb_contact *c, int i)
{
    const double *m = c->impulse + RB_CONTACT_ROWS - 3;
    const double limit = (i == 3 ? c->torsional : c->rolling) * c->impulse[0];
    return (i == 3 ? fabs(m[0]) : sqrt(m[1] * m[1] + m[2] * m[2])) < (1.0 - 1e-9) * limit;
}

/* Return 1 if the impulse component i may change freely: the normal impulse of a closed contact,
   or friction that sticks. */
static inline int is_sticking_component(const struct rb_contact *c, int i)
{
    return i == 0 || (i < 3 ? rb_is_sticking(c) : is_moment_sticking(c, i));
}

/* Return 1 / (RB_COMPLIANCE W_ii). Return 0 for friction that slips and for directions in which an
   impulse moves nothing. */
static inline double contact_stiffness(const struct rb_contact *c, int i)
{
    if (!is_sticking_component(c, i))
        return 0.0;
    if (i >= 3)
        return (i == 3 ? c->inverse_spin : c->inverse_roll) / RB_COMPLIANCE;
    return c->delassus[4 * i] > 0.0 ? 1.0 / (RB_COMPLIANCE * c->delassus[4 * i]) : 0.0;
}

/* Add a contact to the matrix (Y^T E^-1 Y) and to the right-hand side (Y^T E^-1 r). `change`
   receives the velocity error r. */
static inline void add_contact_equations(const struct rb_scene *s, struct rb_contact *c,
                                         struct rb_factor *l, double *pull)
{
    const int leaf = RB_LEAF[c->a], *path = RB_PATH + RB_DOF_ROW[leaf], depth = RB_DOF_DEPTH[leaf];
    const double (*y)[RB_CONTACT_ROWS] = (const double (*)[RB_CONTACT_ROWS])c->rows[0].y,
                 *missing = c->change;
    double w[3], stiff[RB_CONTACT_ROWS];
    for (int i = 0; i < RB_CONTACT_ROWS; i++)
        stiff[i] = contact_stiffness(c, i);
    rb_contact_velocity(s, c, w);
    c->change[0] = c->velocity_min - w[0];
    c->change[1] = -c->bias[1] - w[1];
    c->change[2] = -c->bias[2] - w[2];
    if (RB_CONTACT_ROWS > 3) {
        rb_relative_spin(s, c, w);
        rb_scale(-1.0, w, c->change + RB_CONTACT_ROWS - 3);
    }
    for (int at = 0; at <= depth; at++) {
        double *row = l->row + RB_DOF_ROW[path[at]] - at;
        const double x = stiff[0] * y[at][0], u = stiff[1] * y[at][1], v = stiff[2] * y[at][2];
        pull[path[at]] += x * missing[0] + u * missing[1] + v * missing[2];
        for (int before = at; before <= depth; before++)
            row[before] += x * y[before][0] + u * y[before][1] + v * y[before][2];
        for (int i = 3; i < RB_CONTACT_ROWS; i++) {
            const double part = stiff[i] * y[at][i];
            pull[path[at]] += part * missing[i];
            for (int before = at; before <= depth; before++)
                row[before] += part * y[before][i];
        }
    }
}

/* Add a stop to the matrix and to the right-hand side. */
static inline void add_stop_equations(const struct rb_scene *s, struct rb_stop *stop,
                                      struct rb_factor *l, double *pull)
{
    const int *path = RB_PATH + RB_DOF_ROW[stop->dof], depth = RB_DOF_DEPTH[stop->dof];
    const double stiff = 1.0 / (RB_COMPLIANCE * stop->delassus);
    stop->change = (stop->impulse > 0.0 ? stop->low : stop->high) - stop_velocity(stop, s->z);
    for (int at = 0; at <= depth; at++) {
        const double part = stiff * stop->y[at];
        double *row = l->row + RB_DOF_ROW[path[at]] - at;
        pull[path[at]] += part * stop->change;
        for (int before = at; before <= depth; before++)
            row[before] += part * stop->y[before];
    }
}

/* Return the largest t in [0, 1] with |p + t dp| <= limit + t growth in the plane, if |p| <= limit:
   the root of a t^2 + 2 b t + c = 0 with c <= 0. */
static inline double fraction_in_cone(const double *p, const double *dp, double limit,
                                      double growth)
{
    const double a = dp[0] * dp[0] + dp[1] * dp[1] - growth * growth,
                 b = p[0] * dp[0] + p[1] * dp[1] - limit * growth,
                 c = rb_min(p[0] * p[0] + p[1] * p[1] - limit * limit, 0.0);
    if (a + 2.0 * b + c <= 0.0)
        return 1.0;
    /* the polynomial is positive at t = 1, so a root is in [0, 1]; both formulas avoid
       cancellation */
    const double root = sqrt(rb_max(b * b - a * c, 0.0));
    return rb_clamp(b > 0.0 ? -c / (b + root) : (root - b) / a, 0.0, 1.0);
}

/* Compute the impulse change of a contact from the sum of all solutions. Friction that slips stays
   proportional to the normal impulse. Returns the fraction of the change for which the contact
   stays closed, and friction that sticks stays below its limit. */
static inline double contact_impulse_change(struct rb_contact *c, const double *sum)
{
    const int leaf = RB_LEAF[c->a], *path = RB_PATH + RB_DOF_ROW[leaf];
    const double (*y)[RB_CONTACT_ROWS] = (const double (*)[RB_CONTACT_ROWS])c->rows[0].y;
    double *change = c->change, fraction = 1.0;
    for (int i = 0; i < RB_CONTACT_ROWS; i++)
        change[i] *= RB_PROXIMAL_SOLVES;
    for (int at = 0; at <= RB_DOF_DEPTH[leaf]; at++)
        for (int i = 0; i < RB_CONTACT_ROWS; i++)
            change[i] -= sum[path[at]] * y[at][i];
    change[0] *= contact_stiffness(c, 0);
    for (int i = 1; i < RB_CONTACT_ROWS; i++)
        change[i] = is_sticking_component(c, i) ? change[i] * contact_stiffness(c, i)
                                                : c->impulse[i] * change[0] / c->impulse[0];
    if (c->impulse[0] + change[0] <= 0.0)
        fraction = -c->impulse[0] / change[0];
    for (int i = 1; i < RB_CONTACT_ROWS; i += i == 3 ? 1 : 2) {
        const int pair = i != 3;
        const double limit = i == 1 ? c->mu : (i == 3 ? c->torsional : c->rolling),
                     p[2] = {c->impulse[i], pair ? c->impulse[i + pair] : 0.0},
                     dp[2] = {change[i], pair ? change[i + pair] : 0.0};
        if (is_sticking_component(c, i))
            fraction =
                rb_min(fraction, fraction_in_cone(p, dp, limit * c->impulse[0], limit * change[0]));
    }
    return fraction;
}

/* Compute the impulse change of a stop. Returns the fraction of the change for which the stop stays
   active and within its bound. */
static inline double stop_impulse_change(struct rb_stop *stop, const double *sum)
{
    stop->change = (RB_PROXIMAL_SOLVES * stop->change - stop_velocity(stop, sum)) /
                   (RB_COMPLIANCE * stop->delassus);
    const double next = stop->impulse + stop->change;
    const int has_range = stop->low < stop->high;
    if (has_range && !(next * stop->impulse > 0.0))
        return -stop->impulse / stop->change;
    if (fabs(next) > stop->impulse_max)
        return (rb_copy_sign(stop->impulse_max, next) - stop->impulse) / stop->change;
    return 1.0;
}

/* Compute all impulse changes. Returns the fraction of the changes for which no contact or stop
   changes its mode. */
static inline double impulse_changes(struct rb_contact_list *all, const double *sum)
{
    double fraction = 1.0;
    for (int k = 0; k < all->listed_count; k++) {
        struct rb_contact *c = &all->contact[all->listed[k]];
        if (supports_tree(c))
            fraction = rb_min(fraction, contact_impulse_change(c, sum));
    }
    for (int k = 0; k < all->stop_count; k++)
        if (holds_stop(&all->stop[k]))
            fraction = rb_min(fraction, stop_impulse_change(&all->stop[k], sum));
    return fraction;
}

/* Return 1 if the contact is closed and connects a link of a tree with another moving body. */
static inline int connects_moving_bodies(const struct rb_contact *c)
{
    return c->impulse[0] > 0.0 && c->b < RB_BODIES && (RB_LEAF[c->a] >= 0 || RB_LEAF[c->b] >= 0);
}

/* Assemble the matrix and the right-hand side. Returns 0 if a contact is in the expansion phase
   (Poisson), or if no contact is closed. Unless `hold` is 1, the function also returns 0 if a
   closed contact connects two moving bodies. */
static inline int add_all_equations(const struct rb_scene *s, struct rb_contact_list *all, int hold,
                                    struct rb_factor *l, double *pull)
{
    int count = 0;
    memset(l, 0, sizeof *l);
    for (int d = 0; d < RB_DOFS; d++)
        l->row[RB_DOF_ROW[d]] = 1.0;
    for (int k = 0; k < all->listed_count; k++) {
        struct rb_contact *c = &all->contact[all->listed[k]];
        if (c->impulse_min > 0.0 || (!hold && connects_moving_bodies(c)))
            return 0;
        if (!supports_tree(c))
            continue;
        add_contact_equations(s, c, l, pull);
        count++;
    }
    for (int k = 0; k < all->stop_count; k++)
        if (holds_stop(&all->stop[k]))
            add_stop_equations(s, &all->stop[k], l, pull);
    return count;
}

/* Apply a fraction of all impulse changes. */
static inline void apply_changes(struct rb_scene *s, struct rb_contact_list *all, double fraction)
{
    for (int k = 0; k < all->listed_count; k++) {
        struct rb_contact *c = &all->contact[all->listed[k]];
        if (!supports_tree(c))
            continue;
        for (int i = 0; i < RB_CONTACT_ROWS; i++) {
            c->change[i] *= fraction;
            c->impulse[i] += c->change[i];
        }
        rb_apply_impulse(s, c, c->change);
    }
    for (int k = 0; k < all->stop_count; k++) {
        struct rb_stop *stop = &all->stop[k];
        if (!holds_stop(stop))
            continue;
        stop->change *= fraction;
        stop->impulse += stop->change;
        push_stop(stop, stop->change, s->z);
    }
}

/* Do one Newton step, up to the first contact or stop that changes its mode. Returns the applied
   fraction of the step. Returns 0 and changes nothing if the fraction is below `least`, if the trees
   have closed loops, or if `hold` is 0 and a closed contact connects two moving bodies. */
static inline double newton_step(struct rb_scene *s, struct rb_contact_list *all, int hold,
                                 double least)
{
    RB_WORKSPACE(RB_LARGE_SCENE, struct rb_factor, l, 1);
    RB_WORKSPACE(RB_LARGE_SCENE, double, dz, RB_DOFS + 1);
    RB_WORKSPACE(RB_LARGE_SCENE, double, sum, RB_DOFS + 1);
    memset(dz, 0, (RB_DOFS + 1) * sizeof *dz);
    memset(sum, 0, (RB_DOFS + 1) * sizeof *sum);
    if (RB_DOFS == 0 || RB_CLOSURES > 0 || !add_all_equations(s, all, hold, l, dz))
        return 0.0;
    rb_factorize_branches(l);
    for (int solve = 0; solve < RB_PROXIMAL_SOLVES; solve++) {
        rb_solve_all_upwards(l, dz); /* the residual is E dp, so dz is the next right-hand side */
        rb_solve_downwards(l, 0, RB_DOFS, dz);
        for (int d = 0; d < RB_DOFS; d++)
            sum[d] += (RB_PROXIMAL_SOLVES - solve) * dz[d];
    }
    const double fraction = impulse_changes(all, sum);
    if (fraction < least)
        return 0.0;
    apply_changes(s, all, fraction);
    return fraction;
}

/* ---- sweeps with conjugate directions (Silcowitz-Hansen, Niebe and Erleben 2010) ---- */

/* Return the sum of the squared impulse changes of the last sweep. */
static inline double squared_step(const struct rb_contact_list *all)
{
    double squared = 0.0;
    for (int k = 0; k < all->listed_count; k++) {
        const double *step = all->contact[all->listed[k]].step;
        for (int i = 0; i < RB_CONTACT_ROWS; i++)
            squared += step[i] * step[i];
    }
    for (int k = 0; k < all->stop_count; k++)
        squared += all->stop[k].step * all->stop[k].step;
    return squared;
}

/* Velocities after the last sweep, and their conjugate directions. */
struct rb_sweep_motion {
    double last[RB_BODIES][6], way[RB_BODIES][6], last_z[RB_DOFS + 1], way_z[RB_DOFS + 1];
};

static inline void start_motion(const struct rb_scene *s, struct rb_sweep_motion *m)
{
    memset(m, 0, sizeof *m);
    memcpy(m->last_z, s->z, sizeof m->last_z);
    for (int k = 0; k < RB_BODIES; k++) {
        memcpy(m->last[k], s->body[k].v, 3 * sizeof(double));
        memcpy(m->last[k] + 3, s->body[k].w, 3 * sizeof(double));
    }
}

/* Extrapolate one velocity: d' = beta d + (v - last), v += beta d (the parameter `kept` is
   beta). */
static inline void extrapolate_velocity(double kept, double *last, double *way, double *now)
{
    const double change = kept * *way;
    *way = change + *now - *last;
    *now += change;
    *last = *now;
}

/* Return the Fletcher-Reeves factor beta = |step|^2 / |step before|^2, or 0 (restart) if it
   exceeds 1. */
static inline double rb_conjugate_factor(double squared, double before)
{
    const double part = before > 0.0 ? squared / before : 2.0;
    return part <= 1.0 ? part : 0.0;
}

/* Extrapolate impulses and velocities along the conjugate directions. Velocities are linear in
   the impulses, so both use the same beta. */
static inline void extrapolate_sweep(struct rb_scene *s, struct rb_contact_list *all,
                                     struct rb_sweep_motion *m, double *before)
{
    const double squared = squared_step(all), kept = rb_conjugate_factor(squared, *before);
    /* no free bodies to extrapolate if all bodies are links of trees */
    const int links = RB_LINKS, bodies = links < RB_BODIES ? RB_BODIES : 0;
    for (int k = 0; k < all->listed_count; k++) {
        struct rb_contact *c = &all->contact[all->listed[k]];
        for (int i = 0; i < RB_CONTACT_ROWS; i++) {
            const double change = kept * c->direction[i];
            c->direction[i] = change + c->step[i];
            c->impulse[i] += change;
        }
    }
    for (int k = 0; k < all->stop_count; k++) {
        struct rb_stop *stop = &all->stop[k];
        const double change = kept * stop->direction;
        stop->direction = change + stop->step;
        stop->impulse += change;
    }
    for (int k = 0; k < bodies; k++) {
        for (int i = 0; RB_LEAF[k] < 0 && i < 3; i++) {
            extrapolate_velocity(kept, &m->last[k][i], &m->way[k][i], &s->body[k].v[i]);
            extrapolate_velocity(kept, &m->last[k][3 + i], &m->way[k][3 + i], &s->body[k].w[i]);
        }
    }
    for (int d = 0; d < RB_DOFS; d++)
        extrapolate_velocity(kept, &m->last_z[d], &m->way_z[d], &s->z[d]);
    *before = squared;
}

/* Return the tolerance of the residual after `sweeps` sweeps [m/s]: first `tolerance`, after
   RB_CYCLE_CHECK_SWEEPS sweeps the larger of `tolerance` and `later`. */
static inline double rb_sweep_tolerance(int sweeps, double tolerance, double later)
{
    return sweeps < RB_CYCLE_CHECK_SWEEPS ? tolerance : rb_max(later, tolerance);
}

/* Restart all conjugate directions. */
static inline void reset_directions(const struct rb_scene *s, struct rb_contact_list *all,
                                    struct rb_sweep_motion *m)
{
    start_motion(s, m);
    for (int k = 0; k < all->listed_count; k++)
        memset(all->contact[all->listed[k]].direction, 0, sizeof all->contact[k].direction);
    for (int k = 0; k < all->stop_count; k++)
        all->stop[k].direction = 0.0;
}

/* Sweep until the residual is within the tolerance, or until this time step has done `most`
   sweeps. After RB_CYCLE_CHECK_SWEEPS sweeps the tolerance is `later`.

   If RB_STALLING_SWEEPS sweeps have not halved the residual, the larger tolerance applies at once.
   The reason is that sticking trees may need unbounded impulses, for example two feet that would
   have to turn against each other.

   A Newton step precedes the first sweep of a time step. If it fails, another one follows the first
   sweep. If a step ends at a mode change, the next sweep changes the mode, and a Newton step follows
   it. Otherwise the next one follows after RB_NEWTON_SWEEPS sweeps, because contacts may have opened
   or begun to slip. */
static inline void rb_solve_impulses(struct rb_scene *s, struct rb_contact_list *all,
                                     double tolerance, double later, int most)
{
    RB_WORKSPACE(RB_LARGE_SCENE, struct rb_sweep_motion, m, 1);
    double before = 0.0, last = INFINITY, solved = INFINITY;
    int own = 0, patience = 0, next = 1;
    if (all->sweeps == 0 && newton_step(s, all, 0, 1.0) > 0.0)
        next = RB_NEWTON_SWEEPS - 1;
    reset_directions(s, all, m);
    while (all->sweeps < most && all->listed_count + all->stop_count > 0) {
        all->residual = sweep_once(s, all);
        if (++own % RB_STALLING_SWEEPS == 0) {
            patience = all->residual > 0.5 * last ? RB_CYCLE_CHECK_SWEEPS : 0;
            last = all->residual;
        }
        if (++all->sweeps == most ||
            all->residual <= rb_sweep_tolerance(all->sweeps - 1 + patience, tolerance, later))
            break;
        if (own >= next) {
            next = own + RB_NEWTON_SWEEPS;
            if (all->residual < RB_NEWTON_REDUCTION * solved) {
                const double fraction = newton_step(s, all, own > 1, RB_NEWTON_FRACTION);
                solved = own > RB_NEWTON_SWEEPS ? all->residual : INFINITY;
                if (fraction > 0.0) {
                    next = fraction < 1.0 ? own + 1 : next;
                    reset_directions(s, all, m);
                    before = 0.0;
                    continue;
                }
            }
        }
        extrapolate_sweep(s, all, m, &before);
    }
}

/* Return the velocity error of a contact for its present impulse, with p_n fixed for the tangents:

     max(|p_n' - p_n| W_nn, |p_t' - p_t| lambda_max(W_tt)),
     p_n' = max(impulse_min, p_n - (u_n - velocity_min) / W_nn),
     p_t' = project onto |p_t| <= mu p_n of p_t - (u_t + bias) / lambda_max(W_tt)

   For impulses inside the friction cone it is at most the velocity relative to its target. */
static inline double contact_error(const struct rb_scene *s, const struct rb_contact *c)
{
    double w[3], next[2];
    rb_contact_velocity(s, c, w);
    const double normal = rb_max(c->impulse[0] - (w[0] - c->velocity_min) * c->inverse_normal,
                                 c->impulse_min),
                 limit = c->mu * c->impulse[0];
    for (int i = 0; i < 2; i++)
        next[i] = c->impulse[1 + i] - c->inverse_tangent * (w[1 + i] + c->bias[1 + i]);
    const double length = sqrt(next[0] * next[0] + next[1] * next[1]),
                 part = length > limit ? limit / length : 1.0;
    return rb_max(
        fabs(normal - c->impulse[0]) * c->delassus[0],
        rb_max(fabs(part * next[0] - c->impulse[1]), fabs(part * next[1] - c->impulse[2])) *
            c->tangent_max);
}

/* Return the largest velocity error of the listed contacts and of the stops [m/s or rad/s]. */
static inline double rb_largest_error(const struct rb_scene *s, const struct rb_contact_list *all)
{
    double most = 0.0;
    for (int k = 0; k < all->stop_count; k++) {
        const struct rb_stop *stop = &all->stop[k];
        const double free = stop_velocity(stop, s->z) - stop->delassus * stop->impulse,
                     asked = rb_clamp(free, stop->low, stop->high) - free,
                     bound = stop->delassus * stop->impulse_max;
        most = rb_max(most, fabs(rb_clamp(asked, -bound, bound) - stop->delassus * stop->impulse));
    }
    for (int k = 0; k < all->listed_count; k++)
        most = rb_max(most, contact_error(s, &all->contact[all->listed[k]]));
    return most;
}

#endif
