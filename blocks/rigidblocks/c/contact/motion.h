/* How trees move over a step: their velocities as they would be without contact, with forces of
   velocity that are those of the motion in the middle of the step, and their positions and
   velocities after it. */

#ifndef RB_MOTION_H
#define RB_MOTION_H

#include "passive.h"

/* The force of the damper and the spring of a freedom at the end of a step that would not change
   its velocity. */
static inline double element_force(const struct given *in, int d, double qd)
{
    const double stretch =
        RB_DOF_STIFFNESS[d] > 0.0 ? in->state[RB_AT_Q + RB_DOF_Q[d]] - RB_DOF_REST[d] : 0.0;
    return -RB_DOF_STIFFNESS[d] * (stretch + RB_SCENE_STEP * qd) - RB_DOF_DAMPING[d] * qd;
}

/* No link turns faster. */
static inline double sum_of_rates(const double *qd)
{
    double sum = 0.0;
    for (int d = 0; d < RB_DOFS; d++)
        sum += fabs(qd[d]);
    return sum;
}

/* The largest angular velocity of a link. */
static inline double fastest_turn(const struct scene *s)
{
    double most = 0.0;
    for (int i = 0; i < RB_LINKS; i++)
        most = more_of(most, norm(s->body[RB_LINK_BODY[i]].w));
    return most;
}

/* Adds to L^-T times the forces of trees what the contacts and stops of the step before are,
   unless these would bring energy over `kick`: what holds a tree never does (Kelvin), and where
   parts turned since then, or a blow was among them, the contacts are not the same any more. */
static inline void expect_contacts(const struct given *in, struct scene *s, double kick,
                                   double *forces)
{
    double contact[RB_DOFS + 1] = {0.0}, weighed[RB_DOFS + 1], work = 0.0;
    wrench_forces(s, in->state + RB_AT_F_CONTACT, contact);
    for (int k = 0; k < RB_STOPS; k++)
        contact[RB_STOP_DOF[k]] += in->state[RB_AT_STOP_IMPULSE + k] / RB_SCENE_STEP;
    solve_all_upwards(&s->inertia, contact);
    weigh_velocities(s, s->qd, weighed);
    for (int d = 0; d < RB_DOFS; d++)
        work += contact[d] * (weighed[d] + kick * (forces[d] + 0.5 * contact[d]));
    for (int d = 0; d < RB_DOFS && work <= 0.0; d++)
        forces[d] += contact[d];
}

/* L^-T times the forces of trees without contact, those of velocity at qd, with which the links
   move. */
static inline void tree_forces(const struct given *in, struct scene *s, const double *qd,
                               double *force)
{
    bias_forces(s, qd, in->gravity, in->f_ext, force);
    for (int d = 0; d < RB_DOFS; d++)
        force[d] = in->tau[RB_DOF_QD[d]] - force[d] +
                   element_force(in, d, in->state[RB_AT_QD + RB_DOF_QD[d]]);
    solve_all_upwards(&s->inertia, force);
}

/* Trees have the velocities s->qd after their forces, with loops that close. */
static inline void end_kick(const struct given *in, struct scene *s)
{
    double open[RB_LOOP_ROWS + 1];
    if (RB_CLOSURES == 0)
        return;
    loop_errors(s, open);
    close_loops(s, in->state + RB_AT_Q, RB_SCENE_STEP, 2, open, s->qd);
    move_links(s, s->qd);
    weigh_velocities(s, s->qd, s->z);
}

/* [rad^2/s^4 or m^2/s^4]: forces of velocity that are wrong by as much, over the inertia and by the
   step squared, are within the order of the step. */
static const double RB_UNFELT = 100.0;

/* Whether trees are so slow that forces of velocity are the same all over the step, unless impulses
   change that. */
static inline int are_slow(const double *qd)
{
    double fastest = 0.0;
    for (int d = 0; d < RB_DOFS; d++)
        fastest = more_of(fastest, fabs(qd[d]));
    return fastest * fastest < RB_UNFELT * RB_SCENE_STEP * RB_SCENE_STEP;
}

/* The velocities of trees as they would be without contact. Forces that go with velocities are
   those in the middle between the old and the new ones, which are estimated with the contacts of
   the step before, unless all is slow. */
static inline void start_trees(const struct given *in, struct scene *s)
{
    const int moving = in->state[RB_AT_STEPS] > 0.0;
    double force[RB_DOFS + 1] = {0.0}, middle[RB_DOFS + 1];
    memset(&s->link[RB_LINKS], 0, sizeof *s->link);
    memset(s->push_z, 0, sizeof s->push_z);
    memset(s->qd, 0, sizeof s->qd);
    for (int d = 0; d < RB_DOFS; d++)
        s->qd[d] = in->state[RB_AT_QD + RB_DOF_QD[d]];
    memcpy(middle, s->qd, sizeof middle);
    place_links(s, in->state + RB_AT_Q);
    move_links(s, s->qd);
    joint_inertia(s, RB_SCENE_STEP);
    factorize_branches(&s->inertia);
    weigh_velocities(s, s->qd, s->before_z);
    if (RB_CLOSURES > 0)
        find_loops(s);
    for (int i = 0; i < RB_LINKS; i++) {
        struct body *body = &s->body[RB_LINK_BODY[i]];
        memcpy(body->before_v, body->v, sizeof body->v);
        memcpy(body->before_w, body->w, sizeof body->w);
    }
    for (int last = !moving || are_slow(s->qd); last < 2; last++) {
        const double kick = last && moving ? RB_SCENE_STEP : 0.5 * RB_SCENE_STEP;
        tree_forces(in, s, middle, force);
        if (!last && (RB_STOPS > 0 || in->state[RB_AT_CONTACTS] > 0.0))
            expect_contacts(in, s, kick, force);
        keep_loops(s, 0, RB_DOFS, force);
        for (int d = 0; d < RB_DOFS; d++)
            s->z[d] = s->before_z[d] + kick * force[d];
        solve_downwards(&s->inertia, 0, RB_DOFS, force);
        memcpy(s->middle, middle, sizeof middle);
        for (int d = 0; d < RB_DOFS; d++)
            middle[d] = s->qd[d] + kick * force[d];
        if (RB_CLOSURES > 0 && !last)
            hold_loops(s, middle);
        const double before = last ? 0.0 : fastest_turn(s);
        move_links(s, middle);
        if (last || RB_SCENE_STEP * sum_of_rates(middle) < 0.1 ||
            RB_SCENE_STEP * fastest_turn(s) < fmax(0.1, 2.0 * RB_SCENE_STEP * before))
            continue;
        /* what contacts did is no guess for what they will do */
        memcpy(middle, s->qd, sizeof middle);
        move_links(s, middle);
    }
    memcpy(s->qd, middle, sizeof middle);
    end_kick(in, s);
}

/* Whether impulses made trees move otherwise in the middle of the step than was expected, so much
   that forces of velocity, which grow with speed times that, change more than the order of the step
   knows, and so little that a step shows what follows. The links then move as they do after it. */
static inline int is_surprised(struct scene *s, const double *before, const double *after)
{
    static const double much = 0.1; /* [rad] in a step */
    double surprise = 0.0, fastest = 0.0;
    for (int d = 0; d < RB_DOFS; d++) {
        const double middle = 0.5 * (before[d] + after[d]);
        surprise = more_of(surprise, fabs(middle - s->middle[d]));
        fastest = more_of(fastest, more_of(fabs(before[d]), fabs(after[d])));
        s->middle[d] = middle;
    }
    if (fastest * surprise < RB_UNFELT * RB_SCENE_STEP * RB_SCENE_STEP)
        return 0;
    move_links(s, after);
    return RB_SCENE_STEP * fastest_turn(s) < much;
}

/* Where impulses made trees move otherwise than was expected, they get the forces of the step anew,
   and keep the impulses: the forces of the velocities before it over its first half, of those after
   it, s->qd, over its second. What that changes of the velocities L qd is added to those now and to
   `freely`, and left in `change`. Returns whether there are such. */
static inline int kick_again(const struct given *in, struct scene *s, struct stage *freely,
                             double *change)
{
    double before[RB_DOFS + 1], after[RB_DOFS + 1], force[RB_DOFS + 1], last[RB_DOFS + 1],
        now[RB_DOFS + 1];
    for (int d = 0; d < RB_DOFS; d++)
        before[d] = in->state[RB_AT_QD + RB_DOF_QD[d]];
    memcpy(after, s->qd, sizeof after);
    if (in->state[RB_AT_STEPS] == 0.0 || !is_surprised(s, before, after))
        return 0;
    tree_forces(in, s, after, last);
    move_links(s, before);
    tree_forces(in, s, before, force);
    for (int d = 0; d < RB_DOFS; d++)
        force[d] = 0.5 * (force[d] + last[d]);
    keep_loops(s, 0, RB_DOFS, force);
    memcpy(now, s->z, sizeof now);
    for (int d = 0; d < RB_DOFS; d++)
        s->z[d] = s->before_z[d] + RB_SCENE_STEP * force[d];
    if (RB_CLOSURES > 0) {
        free_velocities(s, s->z, s->qd);
        move_links(s, s->qd);
    }
    end_kick(in, s);
    for (int d = 0; d < RB_DOFS; d++) {
        change[d] = s->z[d] - freely->z[d];
        freely->z[d] = s->z[d];
        s->z[d] = now[d] + change[d];
    }
    return 1;
}

/* The velocities with which the trees move over the step: with as much of what moves them apart as
   lets their loops close. */
static inline void tree_motion(const struct given *in, struct scene *s, double *moved, double *out)
{
    double push[RB_DOFS + 1], most = 0.0;
    for (int d = 0; d < RB_DOFS; d++)
        most = more_of(most, fabs(s->push_z[d]));
    memset(push, 0, sizeof push);
    if (most > 0.0)
        free_velocities(s, s->push_z, push);
    /* [rad or m] before the last of the changes */
    static const double closed = 1e-3, held[RB_LOOP_ROWS + 1] = {0.0};
    for (int tries = 0; tries < 8; tries++) {
        const double part = tries < 7 ? 1.0 / (1 << tries) : 0.0;
        for (int d = 0; d < RB_DOFS; d++)
            moved[d] = s->qd[d] + part * push[d];
        if (RB_CLOSURES == 0)
            return;
        out[RB_AT_LOOP_ERROR] = close_loops(s, in->state + RB_AT_Q, RB_SCENE_STEP, 3, held, moved);
        if (out[RB_AT_LOOP_ERROR] < closed)
            return;
    }
}

/* A step shows nothing of what turns by many radians in it, as light links may where a linkage is
   stretched or a spring let go, and its forces of velocity would grow without end: all freedoms are
   slowed down until no link turns faster. */
static inline void slow_trees(struct scene *s)
{
    static const double widest = 10.0; /* [rad] in a step */
    if (RB_SCENE_STEP * sum_of_rates(s->qd) < widest)
        return;
    move_links(s, s->qd);
    const double fastest = fastest_turn(s);
    for (int d = 0; d < RB_DOFS && RB_SCENE_STEP * fastest > widest; d++)
        s->qd[d] *= widest / (RB_SCENE_STEP * fastest);
}

/* The positions of trees that move with qd over the step. */
static inline void move_trees(const struct given *in, const double *qd, double *out)
{
    for (int i = 0; i < RB_LINKS; i++) {
        const int at = RB_AT_Q + RB_Q_AT[RB_LINK_BODY[i]];
        move_joint(i, in->state + at, qd + RB_LINK_DOF[i], RB_SCENE_STEP, out + at);
    }
}

/* The linear momentum of each link with all that hangs on it, at q, of qd. */
static inline void linear_momenta(struct scene *s, const double *q, const double *qd,
                                  double (*p)[3])
{
    memset(p, 0, (RB_LINKS + 1) * sizeof *p);
    place_links(s, q);
    move_links(s, qd);
    for (int i = RB_LINKS - 1; i >= 0; i--) {
        const int k = RB_LINK_BODY[i];
        along(p[i], RB_MASS[k], s->body[k].v, p[i]);
        along(p[RB_LINK_PARENT[i]], 1.0, p[i], p[RB_LINK_PARENT[i]]);
    }
}

/* What moves trees apart, from positions that qd alone comes to, leaves their momentum as it is:
   the base of one that floats takes what its centre of mass lost of its velocity. */
static inline void push_trees(const struct given *in, struct scene *s, const double *moved,
                              double *out)
{
    double p[RB_LINKS + 1][3], now[RB_LINKS + 1][3], lost[3];
    if (memcmp(moved, s->qd, RB_DOFS * sizeof *moved) == 0)
        return;
    linear_momenta(s, out + RB_AT_Q, s->qd, p);
    move_trees(in, moved, out);
    linear_momenta(s, out + RB_AT_Q, s->qd, now);
    for (int i = 0; i < RB_LINKS; i++) {
        double *qd = out + RB_AT_QD + RB_QD_AT[RB_LINK_BODY[i]] + 3;
        if (RB_LINK_JOINT[i] != RB_FREE_JOINT || RB_LINK_PARENT[i] < RB_LINKS)
            continue;
        difference(p[i], now[i], lost);
        turn_back(s->body[RB_LINK_BODY[i]].r, lost, lost);
        along(qd, 1.0 / s->link[i].mass, lost, qd);
    }
}

#endif
