/* Time step of a plant with rigid contact. */

#ifndef RB_TIME_STEP_H
#define RB_TIME_STEP_H

#include "contact_detection.h"
#include "islands.h"
#include "restitution.h"
#include "sensors.h"

/* ---- motion of trees: velocities without contact, with the velocity-dependent forces of the
   middle of the step; then the positions and velocities after the step ---- */

/* Return the damper and spring force of a degree of freedom at the end of the step, -k (q - q_rest
   + h qd) - d qd, for a constant velocity. */
static inline double element_force(const struct rb_step_inputs *in, int d, double qd)
{
    const double stretch =
        RB_DOF_STIFFNESS[d] > 0.0 ? in->state[RB_AT_Q + RB_DOF_Q[d]] - RB_DOF_REST[d] : 0.0;
    return -RB_DOF_STIFFNESS[d] * (stretch + RB_SCENE_STEP * qd) - RB_DOF_DAMPING[d] * qd;
}

static inline double sum_of_rates(const double *qd)
{
    double sum = 0.0;
    for (int d = 0; d < RB_DOFS; d++)
        sum += fabs(qd[d]);
    return sum;
}

/* Return the largest angular velocity of the links [rad/s]. */
static inline double fastest_turn(const struct rb_scene *s)
{
    double most = 0.0;
    for (int i = 0; i < RB_LINKS; i++)
        most = rb_max(most, rb_norm(s->body[RB_LINK_BODY[i]].w));
    return most;
}

/* Add the contact and stop forces F of the last step to f = L^-T tau, unless they would do positive
   work during `kick` [s]: F . (z + kick (f + F / 2)) > 0 in unit-inertia coordinates. The forces of
   contacts that hold a tree never do positive work (Kelvin). After large rotations or an impact,
   the contacts have changed, so their old forces are no prediction. */
static inline void predict_contacts(const struct rb_step_inputs *in, struct rb_scene *s,
                                    double kick, double *forces)
{
    double work = 0.0;
    RB_WORKSPACE(RB_LARGE_SCENE, double, contact, RB_DOFS + 1);
    RB_WORKSPACE(RB_LARGE_SCENE, double, weighed, RB_DOFS + 1);
    memset(contact, 0, (RB_DOFS + 1) * sizeof *contact);
    rb_wrench_forces(s, in->state + RB_AT_F_CONTACT, contact);
    for (int k = 0; k < RB_STOPS; k++)
        contact[RB_STOP_DOF[k]] += in->state[RB_AT_STOP_IMPULSE + k] / RB_SCENE_STEP;
    rb_solve_all_upwards(&s->inertia, contact);
    rb_weigh_velocities(s, s->qd, weighed);
    for (int d = 0; d < RB_DOFS; d++)
        work += contact[d] * (weighed[d] + kick * (forces[d] + 0.5 * contact[d]));
    for (int d = 0; d < RB_DOFS && work <= 0.0; d++)
        forces[d] += contact[d];
}

/* Compute L^-T tau without contact, with the velocity-dependent forces at qd. Afterwards the links
   have the velocities for qd. */
static inline void tree_forces(const struct rb_step_inputs *in, struct rb_scene *s,
                               const double *qd, double *force)
{
    rb_bias_forces(s, qd, in->gravity, in->f_ext, force);
    for (int d = 0; d < RB_DOFS; d++)
        force[d] = in->tau[RB_DOF_QD[d]] - force[d] +
                   element_force(in, d, in->state[RB_AT_QD + RB_DOF_QD[d]]);
    rb_solve_all_upwards(&s->inertia, force);
}

/* Set the tree velocities after the applied forces to s->qd, projected onto the motions that the
   closed loops allow. */
static inline void end_kick(const struct rb_step_inputs *in, struct rb_scene *s)
{
    RB_WORKSPACE(RB_LARGE_SCENE, double, open, RB_LOOP_ROWS + 1);
    if (RB_CLOSURES == 0)
        return;
    rb_loop_errors(s, open);
    rb_close_loops(s, in->state + RB_AT_Q, RB_SCENE_STEP, 2, open, s->qd);
    rb_move_links(s, s->qd);
    rb_weigh_velocities(s, s->qd, s->z);
}

/* [rad^2/s^4 or m^2/s^4] bound of the product of a joint velocity and its error, divided by the
   squared step size. Below it, the velocity-dependent forces are accurate to the order of the step.
   Found by trial. */
static const double RB_NEGLIGIBLE_PRODUCT = 100.0;

/* [rad] largest rotation of a link in a step for which the contact forces of the last step are a
   prediction. Found by trial. */
static const double RB_LARGE_TURN = 0.1;

/* Return 1 if the trees are so slow that the velocity-dependent forces are constant over the step
   as long as no impulse changes the velocities. */
static inline int are_slow(const double *qd)
{
    double fastest = 0.0;
    for (int d = 0; d < RB_DOFS; d++)
        fastest = rb_max(fastest, fabs(qd[d]));
    return fastest * fastest < RB_NEGLIGIBLE_PRODUCT * RB_SCENE_STEP * RB_SCENE_STEP;
}

/* Compute the velocities of trees without contact. The velocity-dependent forces are evaluated at
   the mean of the old and the new velocities. Unless all trees are slow, the contact forces of the
   last step serve to predict this mean. */
static inline void start_trees(const struct rb_step_inputs *in, struct rb_scene *s)
{
    const int moving = in->state[RB_AT_STEPS] > 0.0;
    RB_WORKSPACE(RB_LARGE_SCENE, double, force, RB_DOFS + 1);
    RB_WORKSPACE(RB_LARGE_SCENE, double, middle, RB_DOFS + 1);
    memset(force, 0, (RB_DOFS + 1) * sizeof *force);
    memset(&s->link[RB_LINKS], 0, sizeof *s->link);
    memset(s->push_z, 0, sizeof s->push_z);
    memset(s->qd, 0, sizeof s->qd);
    for (int d = 0; d < RB_DOFS; d++)
        s->qd[d] = in->state[RB_AT_QD + RB_DOF_QD[d]];
    memcpy(middle, s->qd, sizeof s->qd);
    rb_place_links(s, in->state + RB_AT_Q);
    rb_move_links(s, s->qd);
    rb_joint_inertia(s, RB_SCENE_STEP);
    rb_factorize_branches(&s->inertia);
    rb_weigh_velocities(s, s->qd, s->before_z);
    if (RB_CLOSURES > 0)
        rb_find_loops(s);
    for (int i = 0; i < RB_LINKS; i++) {
        struct rb_body *body = &s->body[RB_LINK_BODY[i]];
        memcpy(body->before_v, body->v, sizeof body->v);
        memcpy(body->before_w, body->w, sizeof body->w);
    }
    for (int last = !moving || are_slow(s->qd); last < 2; last++) {
        const double kick = last && moving ? RB_SCENE_STEP : 0.5 * RB_SCENE_STEP;
        tree_forces(in, s, middle, force);
        if (!last && (RB_STOPS > 0 || in->state[RB_AT_CONTACTS] > 0.0))
            predict_contacts(in, s, kick, force);
        rb_keep_loops(s, 0, RB_DOFS, force);
        for (int d = 0; d < RB_DOFS; d++)
            s->z[d] = s->before_z[d] + kick * force[d];
        rb_solve_downwards(&s->inertia, 0, RB_DOFS, force);
        memcpy(s->middle, middle, sizeof s->middle);
        for (int d = 0; d < RB_DOFS; d++)
            middle[d] = s->qd[d] + kick * force[d];
        if (RB_CLOSURES > 0 && !last)
            rb_hold_loops(s, middle);
        const double before = last ? 0.0 : fastest_turn(s);
        rb_move_links(s, middle);
        if (last || RB_SCENE_STEP * sum_of_rates(middle) < RB_LARGE_TURN ||
            RB_SCENE_STEP * fastest_turn(s) < fmax(RB_LARGE_TURN, 2.0 * RB_SCENE_STEP * before))
            continue;
        /* if the rotation more than doubles, the old contact forces predict nothing */
        memcpy(middle, s->qd, sizeof s->qd);
        rb_move_links(s, middle);
    }
    memcpy(s->qd, middle, sizeof s->qd);
    end_kick(in, s);
}

/* Return 1 if the velocities in the middle of the step differ from the prediction because of
   impulses. The difference must change the velocity-dependent forces by more than the order of the
   step, and the rotation in one step must stay below RB_LARGE_TURN. If the difference is large
   enough, the function sets the link velocities for `after`. */
static inline int needs_restart(struct rb_scene *s, const double *before, const double *after)
{
    double difference = 0.0, fastest = 0.0;
    for (int d = 0; d < RB_DOFS; d++) {
        const double middle = 0.5 * (before[d] + after[d]);
        difference = rb_max(difference, fabs(middle - s->middle[d]));
        fastest = rb_max(fastest, rb_max(fabs(before[d]), fabs(after[d])));
        s->middle[d] = middle;
    }
    if (fastest * difference < RB_NEGLIGIBLE_PRODUCT * RB_SCENE_STEP * RB_SCENE_STEP)
        return 0;
    rb_move_links(s, after);
    return RB_SCENE_STEP * fastest_turn(s) < RB_LARGE_TURN;
}

/* Repeat the applied forces of the step for trees whose motion differed from the prediction, and
   keep the impulses. The velocity-dependent forces are the mean of the forces at the old and at the
   new velocities (s->qd). The change of L qd is added to the velocities and to `freely`, and stored
   in `change`. Returns 1 if there are such trees. */
static inline int repeat_kick(const struct rb_step_inputs *in, struct rb_scene *s,
                              struct rb_velocities *freely, double *change)
{
    RB_WORKSPACE(RB_LARGE_SCENE, double, before, RB_DOFS + 1);
    RB_WORKSPACE(RB_LARGE_SCENE, double, after, RB_DOFS + 1);
    RB_WORKSPACE(RB_LARGE_SCENE, double, force, RB_DOFS + 1);
    RB_WORKSPACE(RB_LARGE_SCENE, double, last, RB_DOFS + 1);
    RB_WORKSPACE(RB_LARGE_SCENE, double, now, RB_DOFS + 1);
    for (int d = 0; d < RB_DOFS; d++)
        before[d] = in->state[RB_AT_QD + RB_DOF_QD[d]];
    memcpy(after, s->qd, sizeof s->qd);
    if (in->state[RB_AT_STEPS] == 0.0 || !needs_restart(s, before, after))
        return 0;
    tree_forces(in, s, after, last);
    rb_move_links(s, before);
    tree_forces(in, s, before, force);
    for (int d = 0; d < RB_DOFS; d++)
        force[d] = 0.5 * (force[d] + last[d]);
    rb_keep_loops(s, 0, RB_DOFS, force);
    memcpy(now, s->z, sizeof s->z);
    for (int d = 0; d < RB_DOFS; d++)
        s->z[d] = s->before_z[d] + RB_SCENE_STEP * force[d];
    if (RB_CLOSURES > 0) {
        rb_free_velocities(s, s->z, s->qd);
        rb_move_links(s, s->qd);
    }
    end_kick(in, s);
    for (int d = 0; d < RB_DOFS; d++) {
        change[d] = s->z[d] - freely->z[d];
        freely->z[d] = s->z[d];
        s->z[d] = now[d] + change[d];
    }
    return 1;
}

/* Compute the velocities `moved` of the trees over the step. They include the largest part of the
   penetration correction with which the loops stay closed. */
static inline void tree_motion(const struct rb_step_inputs *in, struct rb_scene *s, double *moved,
                               double *out)
{
    double most = 0.0;
    RB_WORKSPACE(RB_LARGE_SCENE, double, push, RB_DOFS + 1);
    for (int d = 0; d < RB_DOFS; d++)
        most = rb_max(most, fabs(s->push_z[d]));
    memset(push, 0, (RB_DOFS + 1) * sizeof *push);
    if (most > 0.0)
        rb_free_velocities(s, s->push_z, push);
    /* [rad or m] largest loop error before the last correction; found by trial. The part of the
       penetration correction is halved up to six times, then dropped. */
    static const double closed = 1e-3, held[RB_LOOP_ROWS + 1] = {0.0};
    for (int tries = 0; tries < 8; tries++) {
        const double part = tries < 7 ? 1.0 / (1 << tries) : 0.0;
        for (int d = 0; d < RB_DOFS; d++)
            moved[d] = s->qd[d] + part * push[d];
        if (RB_CLOSURES == 0)
            return;
        out[RB_AT_LOOP_ERROR] =
            rb_close_loops(s, in->state + RB_AT_Q, RB_SCENE_STEP, 3, held, moved);
        if (out[RB_AT_LOOP_ERROR] < closed)
            return;
    }
}

/* Scale all joint velocities down until no link turns by more than `widest` radians in a step. A
   step does not resolve faster rotation, and the velocity-dependent forces would grow without
   bound. Such rotation can occur at light links of a stretched linkage, or after the release of a
   spring. */
static inline void slow_trees(struct rb_scene *s)
{
    static const double widest = 10.0; /* [rad] in a step; found by trial */
    if (RB_SCENE_STEP * sum_of_rates(s->qd) < widest)
        return;
    rb_move_links(s, s->qd);
    const double fastest = fastest_turn(s);
    for (int d = 0; d < RB_DOFS && RB_SCENE_STEP * fastest > widest; d++)
        s->qd[d] *= widest / (RB_SCENE_STEP * fastest);
}

/* Integrate the positions of the trees over the step with the velocities qd. */
static inline void move_trees(const struct rb_step_inputs *in, const double *qd, double *out)
{
    for (int i = 0; i < RB_LINKS; i++) {
        const int at = RB_AT_Q + RB_Q_AT[RB_LINK_BODY[i]];
        rb_move_joint(i, in->state + at, qd + RB_LINK_DOF[i], RB_SCENE_STEP, out + at);
    }
}

/* Compute the linear momentum of each link with its subtree, at q and qd. */
static inline void linear_momenta(struct rb_scene *s, const double *q, const double *qd,
                                  double (*p)[3])
{
    memset(p, 0, (RB_LINKS + 1) * sizeof *p);
    rb_place_links(s, q);
    rb_move_links(s, qd);
    for (int i = RB_LINKS - 1; i >= 0; i--) {
        const int k = RB_LINK_BODY[i];
        rb_axpy(p[i], RB_MASS[k], s->body[k].v, p[i]);
        rb_axpy(p[RB_LINK_PARENT[i]], 1.0, p[i], p[RB_LINK_PARENT[i]]);
    }
}

/* Keep the momentum of trees in the penetration correction: the floating base gets the momentum
   that the correction would remove. */
static inline void push_trees(const struct rb_step_inputs *in, struct rb_scene *s,
                              const double *moved, double *out)
{
    double lost[3];
    RB_WORKSPACE(RB_LARGE_SCENE, rb_three_numbers, p, RB_LINKS + 1);
    RB_WORKSPACE(RB_LARGE_SCENE, rb_three_numbers, now, RB_LINKS + 1);
    if (memcmp(moved, s->qd, RB_DOFS * sizeof *moved) == 0)
        return;
    linear_momenta(s, out + RB_AT_Q, s->qd, p);
    move_trees(in, moved, out);
    linear_momenta(s, out + RB_AT_Q, s->qd, now);
    for (int i = 0; i < RB_LINKS; i++) {
        double *qd = out + RB_AT_QD + RB_QD_AT[RB_LINK_BODY[i]] + 3;
        if (RB_LINK_JOINT[i] != RB_FREE_JOINT || RB_LINK_PARENT[i] < RB_LINKS)
            continue;
        rb_subtract(p[i], now[i], lost);
        rb_rotate_back(s->body[RB_LINK_BODY[i]].r, lost, lost);
        rb_axpy(qd, 1.0 / s->link[i].mass, lost, qd);
    }
}

/* ---- restart of the step: if impulses make bodies fast, or if the correction moves them far,
   they may meet other bodies ---- */

/* Widen the bounds of bodies that became faster, or that the correction moves farther, than
   assumed. Returns the number of shapes whose correction exceeds the margin; `wider`
   receives the number of all widened shapes. */
static inline int widen_bounds(struct rb_scene *s, const struct rb_contact_list *all, int *wider)
{
    int moved = 0;
    RB_WORKSPACE(RB_LARGE_SCENE, unsigned char, touched, RB_BODIES + 1);
    rb_mark_touched(all, touched);
    *wider = 0;
    for (int k = 0; k < RB_SHAPES; k++) {
        const int number = RB_SHAPE_BODY[k];
        if (number == RB_BODIES || (RB_FREE[number] && !touched[number]))
            continue;
        const struct rb_body *body = &s->body[number];
        struct rb_bounds *bounds = &s->bounds[k];
        const double push =
            RB_SCENE_STEP * (rb_norm(body->push_v) + rb_norm(body->push_w) * RB_SHAPE_REACH[k]);
        const double way = RB_SCENE_STEP * rb_shape_speed(s, k) + push, more = way - bounds->margin;
        if (!(more > 0.0))
            continue;
        moved += push > bounds->margin;
        rb_widen_bounds(bounds, more);
        bounds->way = bounds->margin;
        ++*wider;
    }
    return moved;
}

/* Return 1 if bodies may meet others that are not in the list of pairs, because impulses made them
   faster or the correction moves them. The list is then computed again. */
static inline int detect_more(struct rb_scene *s, const struct rb_contact_list *all)
{
    RB_WORKSPACE(RB_LARGE_SCENE, struct rb_shape_pair, found, RB_PAIRS);
    const int pairs = s->pairs, left_out = s->left_out;
    int wider;
    const int moved = widen_bounds(s, all, &wider);
    if (wider == 0)
        return 0;
    memcpy(found, s->pair, (size_t)pairs * sizeof *found);
    s->left_out = 0;
    rb_find_pairs(s);
    if (s->pairs > pairs || moved > 0)
        return 1;
    memcpy(s->pair, found, (size_t)pairs * sizeof *found);
    s->left_out = left_out;
    return 0;
}

/* Reset the velocities to the velocities without contact, and the correction to zero. */
static inline void restart_step(struct rb_scene *s, const struct rb_velocities *freely)
{
    rb_restore_velocities(s, freely);
    rb_free_velocities(s, s->z, s->qd);
    memset(s->push_z, 0, sizeof s->push_z);
    for (int k = 0; k < RB_BODIES; k++) {
        memset(s->body[k].push_v, 0, sizeof s->body[k].push_v);
        memset(s->body[k].push_w, 0, sizeof s->body[k].push_w);
    }
}

/* ---- time step of free bodies and of trees with rigid contact ----

   The method is leapfrog: momenta belong to the middle of the previous step. The forces and the
   contact impulses at the present positions change the momenta, which then move the bodies over
   the step. A free body conserves its energy and its angular momentum. */

/* Largest numbers of rounds of contact detection and solution, of trials of a step, and of sweeps
   of the penetration correction. Found by trial. */
enum { RB_ROUNDS = 4, RB_TRIES = 3, RB_CORRECTION_SWEEPS = 50 };

/* Apply the force of the 6-DoF joint of a free body, [n; f] at its origin in body coordinates. */
static inline void drive_body(const double *tau, int k, double kick, struct rb_body *body,
                              double *momentum)
{
    double n[3], f[3];
    rb_cross(RB_CENTRE[k], tau + 3, n);
    rb_subtract(tau, n, n);
    rb_rotate(body->r, n, n);
    rb_rotate(body->r, tau + 3, f);
    rb_axpy(momentum, kick, n, momentum);
    rb_axpy(body->v, kick * body->inverse_mass, f, body->v);
}

/* Prepare a body, whose fields are zero, for the step: compute its velocities without contact. */
static inline void start_body(const struct rb_step_inputs *in, int k, struct rb_scene *s)
{
    struct rb_body *body = &s->body[k];
    const double *q = in->state + RB_AT_Q + RB_Q_AT[k], *qd = in->state + RB_AT_QD + RB_QD_AT[k];
    const double *f = in->f_ext + 6 * k;
    const double kick = in->state[RB_AT_STEPS] > 0.0 ? RB_SCENE_STEP : 0.5 * RB_SCENE_STEP;
    double unit[4], now[9], momentum[3], moment[3];
    const double length = sqrt(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3]);
    for (int i = 0; i < 4; i++)
        unit[i] = q[i] / length;
    rb_rotation_of_quaternion(unit, body->r);
    rb_rotate(body->r, RB_CENTRE[k], body->x);
    rb_axpy(q + 4, 1.0, body->x, body->x);
    rb_rotate(body->r, qd, body->w);
    rb_cross(qd, RB_CENTRE[k], body->v);
    rb_axpy(body->v, 1.0, qd + 3, body->v);
    rb_rotate(body->r, body->v, body->v);
    memcpy(body->before_v, body->v, sizeof body->v);
    memcpy(body->before_w, body->w, sizeof body->w);

    rb_rotate_matrix(body->r, RB_INERTIA[k], now);
    rb_rotate(now, body->w, momentum);
    rb_cross(body->x, f + 3, moment);
    rb_subtract(f, moment, moment);
    rb_axpy(momentum, kick, moment, momentum);
    body->inverse_mass = 1.0 / RB_MASS[k];
    rb_axpy(body->v, kick * body->inverse_mass, f + 3, body->v);
    if (in->tau)
        drive_body(in->tau + RB_QD_AT[k], k, kick, body, momentum);
    rb_axpy(body->v, kick, in->gravity, body->v);
    rb_rotate_matrix(body->r, RB_INVERSE_INERTIA[k], body->inverse_inertia);
    rb_rotate(body->inverse_inertia, momentum, body->w);
    if (!RB_ISOTROPIC[k]) {
        rb_solve_mean_angular_velocity(s, k, body->start_mean_w);
        memcpy(body->start_w, body->w, sizeof body->w);
        rb_subtract(body->start_mean_w, body->w, body->rate);
    }
}

/* Return the required correction velocity of a contact. An open contact may close only by the gap
   that remains after the step. */
static inline double needs_correction(const struct rb_scene *s, const struct rb_contact *c)
{
    double w[3];
    if (c->gap <= 0.0)
        return c->correction_velocity;
    rb_contact_velocity(s, c, w);
    return -fmax(0.0, c->gap / RB_SCENE_STEP + w[0] + c->bias[0]);
}

/* Separate overlapping shapes: sweep until the last sweep changes the velocities by less than
   1e-4 of the required velocity. Contacts with a gap that the correction cannot close are left
   out. */
static inline void correct_penetration(struct rb_scene *s, struct rb_contact_list *all)
{
    /* a gap that would need this multiple of the largest correction is out of reach */
    static const double much = 10.0;
    double asked = 0.0, changed = INFINITY;
    int count = 0;
    RB_WORKSPACE(RB_LARGE_SCENE, int, near, RB_CONTACTS);
    for (int k = 0; k < all->reached_stops; k++)
        asked = rb_max(asked, fabs(all->stop[k].correction_velocity));
    for (int k = 0; k < all->count; k++)
        asked = rb_max(asked, all->contact[k].correction_velocity);
    for (int k = 0; k < all->count && asked > 0.0; k++) {
        struct rb_contact *c = &all->contact[k];
        c->correction_velocity = needs_correction(s, c);
        if (c->correction_velocity > -much * asked)
            near[count++] = k;
    }
    for (int sweep = 0; sweep < RB_CORRECTION_SWEEPS && asked > 0.0 && changed > 1e-4 * asked;
         sweep++) {
        changed = 0.0;
        for (int k = 0; k < all->reached_stops; k++)
            changed = rb_max(changed, rb_correct_stop(s, &all->stop[k]));
        for (int k = 0; k < count; k++)
            changed = rb_max(changed, rb_correct_penetration(s, &all->contact[near[k]]));
    }
}

/* Update a body after the step. The penetration correction rotates the velocities with the body,
   so it does not change the kinetic energy. */
static inline void end_body(const struct rb_step_inputs *in, int k, const struct rb_scene *s,
                            double *out)
{
    const struct rb_body *body = &s->body[k];
    double *q = out + RB_AT_Q + RB_Q_AT[k], *qd = out + RB_AT_QD + RB_QD_AT[k];
    double angle[3], x[3], r[9], arm[3], turned[4];
    rb_mean_angular_velocity(s, k, angle);
    rb_scale(RB_SCENE_STEP, angle, angle);
    rb_rotate_quaternion(in->state + RB_AT_Q + RB_Q_AT[k], angle, turned);
    rb_rotation_of_quaternion(turned, r);
    rb_angular_momentum(s, k, arm);
    rb_rotate_back(r, arm, arm);
    rb_rotate(RB_INVERSE_INERTIA[k], arm, qd);
    memcpy(q, turned, sizeof turned);
    if (rb_dot(body->push_w, body->push_w) > 0.0) {
        rb_scale(RB_SCENE_STEP, body->push_w, angle);
        rb_rotate_quaternion(turned, angle, q);
        rb_rotation_of_quaternion(q, r);
    }
    rb_axpy(body->x, RB_SCENE_STEP, body->v, x);
    rb_axpy(x, RB_SCENE_STEP, body->push_v, x);
    rb_rotate(r, RB_CENTRE[k], arm);
    rb_subtract(x, arm, q + 4);
    rb_rotate_back(r, body->v, qd + 3);
    rb_cross(qd, RB_CENTRE[k], arm);
    rb_subtract(qd + 3, arm, qd + 3);
}

/* Update the trees and the impulses of their stops after the step. */
static inline void end_trees(const struct rb_step_inputs *in, struct rb_scene *s,
                             const struct rb_contact_list *all, double *out)
{
    RB_WORKSPACE(RB_LARGE_SCENE, double, moved, RB_DOFS + 1);
    slow_trees(s);
    for (int d = 0; d < RB_DOFS; d++)
        out[RB_AT_QD + RB_DOF_QD[d]] = s->qd[d];
    tree_motion(in, s, moved, out);
    move_trees(in, s->qd, out);
    push_trees(in, s, moved, out);
    for (int k = 0; k < RB_STOPS; k++)
        out[RB_AT_STOP_IMPULSE + k] = 0.0;
    for (int k = 0; k < all->reached_stops; k++)
        out[RB_AT_STOP_IMPULSE + all->stop[k].number] = all->stop[k].impulse;
}

/* Update the mean contact point of a body; RB_AT_IN_CONTACT holds the sum of the weights so far. */
static inline void add_pressure(double *out, int k, double weight, const double *point)
{
    double *whole = out + RB_AT_IN_CONTACT + k, *centre = out + RB_AT_CENTRE_OF_PRESSURE + 3 * k,
           way[3];
    if (!(weight > 0.0))
        return;
    *whole += weight;
    rb_subtract(point, centre, way);
    rb_axpy(centre, weight / *whole, way, centre);
}

/* Store the contact impulses for the next step, and the mean contact and impact forces over this
   step. */
static inline void end_contacts(const struct rb_step_inputs *in, const struct rb_scene *s,
                                struct rb_contact_list *all, double *out)
{
    double depth = 0.0;
    memset(out + RB_AT_KEY, 0, RB_CONTACTS * sizeof *out);
    memset(out + RB_AT_IMPULSE, 0, RB_CONTACT_ROWS * RB_CONTACTS * sizeof *out);
    if (in->mu_static)
        memset(out + RB_AT_STICKS, 0, RB_CONTACTS * sizeof *out);
    memset(out + RB_AT_F_CONTACT, 0, 6 * RB_BODIES * sizeof *out);
    memset(out + RB_AT_IN_CONTACT, 0, RB_BODIES * sizeof *out);
    memset(out + RB_AT_CENTRE_OF_PRESSURE, 0, 3 * RB_BODIES * sizeof *out);
    rb_start_sensors(out);
    for (int k = 0; k < all->count; k++) {
        struct rb_contact *c = &all->contact[k];
        double p[6] = {0.0}, force[3], moment[3], point[3];
        for (int i = 0; i < RB_CONTACT_ROWS; i++)
            rb_axpy(p + i / 3 * 3, c->impulse[i], c->frame[i % 3], p + i / 3 * 3);
        out[RB_AT_KEY + k] = c->key;
        memcpy(out + RB_AT_IMPULSE + RB_CONTACT_ROWS * k, p, RB_CONTACT_ROWS * sizeof *p);
        if (in->mu_static)
            out[RB_AT_STICKS + k] = rb_is_sticking(c);
        for (int i = 0; i < RB_CONTACT_ROWS; i++) {
            rb_axpy(p + i / 3 * 3, c->impact_impulse[i], c->frame[i % 3], p + i / 3 * 3);
            c->impulse[i] += c->impact_impulse[i];
        }
        rb_scale(1.0 / RB_SCENE_STEP, p, force);
        rb_axpy(s->body[c->a].x, 1.0, c->arm_a, point);
        rb_cross(point, force, moment);
        rb_axpy(moment, 1.0 / RB_SCENE_STEP, p + 3, moment);
        rb_sense_contact(s, c, moment, force, point, out);
        for (int side = 0; side < 2; side++) {
            double *f = out + RB_AT_F_CONTACT + 6 * (side ? c->b : c->a);
            const double sign = side ? -1.0 : 1.0;
            if ((side ? c->b : c->a) == RB_BODIES)
                continue;
            rb_axpy(f, sign, moment, f);
            rb_axpy(f + 3, sign, force, f + 3);
            add_pressure(out, side ? c->b : c->a, c->impulse[0], point);
        }
        depth = rb_max(-c->gap, depth); /* a gap of 0 leaves the depth 0, not -0 */
    }
    for (int k = 0; k < RB_BODIES; k++)
        out[RB_AT_IN_CONTACT + k] = out[RB_AT_IN_CONTACT + k] > 0.0;
    out[RB_AT_CONTACTS] = all->count;
    out[RB_AT_LEFT_OUT] = s->left_out;
    for (int k = 0; k < s->pairs; k++)
        /* a contact that touches now and is deeper at the end counts once */
        out[RB_AT_LEFT_OUT] += fmax(s->pair[k].left_out[0], s->pair[k].left_out[1]);
    out[RB_AT_RESIDUAL] = all->residual;
    out[RB_AT_SWEEPS_MADE] = all->sweeps + all->strike_sweeps;
    out[RB_AT_DEPTH] = depth;
}

/* Start without contacts, stops and stored moment rows. */
static inline void start_solution(struct rb_contact_list *all)
{
    all->count = 0;
    all->reached_stops = 0;
    all->turns[0].body = all->turns[1].body = -1;
}

/* Return the total number of sweeps that may be done by the end of a round. An eighth of
   RB_SCENE_SWEEPS is reserved for each later round. */
static inline int sweep_bound(int round)
{
    return RB_SCENE_SWEEPS - (RB_ROUNDS - 1 - round) * (RB_SCENE_SWEEPS / 8);
}

/* Add the contacts of the pairs, and the stops that may become active, at the start of the step. */
static inline void find_contacts(const struct rb_step_inputs *in, struct rb_scene *s,
                                 struct rb_contact_list *all)
{
    start_solution(all);
    for (int k = 0; k < s->pairs; k++)
        rb_detect_pair(in, s, &s->pair[k], all);
    rb_reach_stops(in, s, 0.5, all);
}

/* Add the contacts and stops that the bodies reach with their present velocities and that were not
   found before. Returns 1 if there are any. */
static inline int find_more(const struct rb_step_inputs *in, struct rb_scene *s,
                            struct rb_contact_list *all)
{
    const int stops = rb_reach_stops(in, s, 1.0, all);
    return rb_detect_more(in, s, all) || stops;
}

/* Compute impulses in rounds, beginning with `round`, until no new contact is found. Then compute
   the velocities of trees. */
static inline void detect_all(const struct rb_step_inputs *in, struct rb_scene *s,
                              struct rb_contact_list *all, const struct rb_accuracy *wanted,
                              int round)
{
    do {
        rb_list_all(all);
        rb_find_impulses(s, all, wanted, sweep_bound(round));
        rb_free_velocities(s, s->z, s->qd);
    } while (++round < RB_ROUNDS && find_more(in, s, all));
}

/* Compute the velocities after the step: add the impulses of impacts and contacts to the velocities
   after the applied forces. */
static inline void find_velocities(const struct rb_step_inputs *in, struct rb_scene *s,
                                   struct rb_contact_list *all, struct rb_velocities *freely,
                                   const struct rb_accuracy *wanted)
{
    RB_WORKSPACE(RB_LARGE_SCENE, struct rb_velocities, start, 1);
    RB_WORKSPACE(RB_LARGE_SCENE, struct rb_islands, found, 1);
    RB_WORKSPACE(RB_LARGE_SCENE, double, change, RB_DOFS + 1);
    const int struck = rb_resolve_impacts(s, all, freely, wanted) > 0;
    if (struck)
        rb_save_velocities(s, start);
    rb_start_impulses(s, all, in->state[RB_AT_SWEEPS_MADE]);
    detect_all(in, s, all, wanted, 0);
    if (RB_DOFS > 0 && repeat_kick(in, s, freely, change)) {
        for (int d = 0; d < RB_DOFS && struck; d++)
            start->z[d] += change[d];
        detect_all(in, s, all, wanted, RB_ROUNDS - 2);
    }
    const double part = rb_limit_energy(s, all, freely, struck ? start : freely, found);
    if (part < 1.0)
        rb_free_velocities(s, s->z, s->qd);
    /* without convergence, changes of opposed impulses may far exceed the velocity errors */
    if (part < 1.0 || all->sweeps > RB_CYCLE_CHECK_SWEEPS)
        all->residual = rb_min(all->residual, rb_largest_error(s, all));
}

/* Compute the sampled states after a step. If impulses make bodies so fast, or the correction
   moves them so far, that they may meet others, the step restarts with wider bounds. */
static inline void step_scene(const struct rb_step_inputs *in, double *out)
{
    RB_WORKSPACE(RB_LARGE_SCENE, struct rb_scene, s, 1);
    RB_WORKSPACE(RB_LARGE_SCENE, struct rb_contact_list, all, 1);
    RB_WORKSPACE(RB_LARGE_SCENE, struct rb_velocities, freely, 1);
    const struct rb_accuracy usual = {RB_SCENE_STEP * rb_norm(in->gravity), RB_SCENE_TOLERANCE,
                                      RB_MOVING_TOLERANCE};
    s->left_out = 0;
    s->first = in->state[RB_AT_STEPS] == 0.0;
    s->loops.count = 0;
    memset(s->body, 0, sizeof s->body);
    s->body[RB_BODIES].r[0] = s->body[RB_BODIES].r[4] = s->body[RB_BODIES].r[8] = 1.0;
    if (RB_LINKS > 0)
        start_trees(in, s);
    for (int k = 0; k < RB_BODIES; k++) {
        if (RB_FREE[k])
            start_body(in, k, s);
        s->body[k].slow = rb_norm(s->body[k].before_v);
        s->body[k].fast = rb_norm(s->body[k].v);
    }
    rb_find_near_pairs(s, RB_SCENE_STEP);
    rb_save_velocities(s, freely);
    all->strike_sweeps = 0;
    for (int tries = 1; tries <= RB_TRIES; tries++) {
        find_contacts(in, s, all);
        find_velocities(in, s, all, freely, &usual);
        correct_penetration(s, all);
        if (tries == RB_TRIES || !detect_more(s, all))
            break;
        restart_step(s, freely);
        all->strike_sweeps += all->sweeps;
    }
    for (int k = 0; k < RB_BODIES; k++)
        if (RB_FREE[k])
            end_body(in, k, s, out);
    end_trees(in, s, all, out);
    end_contacts(in, s, all, out);
    out[RB_AT_STEPS] = in->state[RB_AT_STEPS] + 1.0;
    if (RB_NEARS > 0)
        rb_measure_distances(s, out + RB_AT_Q, out);
}

/* Compute the distances of the sensors at the start of a run. */
static inline void contact_start(const double *state, RB_ARGUMENTS, double *out)
{
    RB_WORKSPACE(RB_LARGE_SCENE, struct rb_scene, s, 1);
    RB_GATHER
    const struct rb_step_inputs given = {.state = state, RB_GIVEN};
    if (RB_NEARS > 0)
        rb_measure_distances(s, given.state + RB_AT_Q, out);
}

/* Do a time step with the arguments that the generated tables define. */
static inline void contact_step(const double *state, RB_ARGUMENTS, double *out)
{
    RB_GATHER
    const struct rb_step_inputs given = {.state = state, RB_GIVEN};
    step_scene(&given, out);
}

#endif
