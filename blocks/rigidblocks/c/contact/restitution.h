/* Restitution, and the limit of the kinetic energy after impacts. */

#ifndef RB_RESTITUTION_H
#define RB_RESTITUTION_H

#include "contact_detection.h"

/* ---- limit of the energy ----

   Impulses of contacts and stops must not increase the energy. They could increase it in three
   cases: friction jams and the sweeps do not converge; restitution with friction reverses a sliding
   velocity; the normal of a rolling contact turns within a step. The solver then scales all
   impulses of an island by one factor, so that they do no positive work. Scaled impulses stay in
   their friction cones.

   Over a step the impulses change the mechanical energy, evaluated at the middle of the step, by

     p . (u- + u+) / 2,

   where u- is the velocity before the forces of the step. A ball that falls back therefore reaches
   the ground with the velocity of its rebound. */

/* Saved velocities of bodies and trees. */
struct rb_velocities {
    double v[RB_BODIES + 1][3], w[RB_BODIES + 1][3], z[RB_DOFS + 1];
};

static inline void rb_save_velocities(const struct rb_scene *s, struct rb_velocities *now)
{
    memcpy(now->z, s->z, sizeof now->z);
    for (int k = 0; k <= RB_BODIES; k++) {
        memcpy(now->v[k], s->body[k].v, sizeof now->v[k]);
        memcpy(now->w[k], s->body[k].w, sizeof now->w[k]);
    }
}

/* Interpolate between the saved and the current velocities of a body; `part` = 1 is current. */
static inline void interpolate_body(struct rb_body *body, const struct rb_velocities *before, int k,
                                    double part)
{
    for (int i = 0; i < 3; i++) {
        body->v[i] = before->v[k][i] + part * (body->v[i] - before->v[k][i]);
        body->w[i] = before->w[k][i] + part * (body->w[i] - before->w[k][i]);
    }
}

/* Restore all velocities. */
static inline void rb_restore_velocities(struct rb_scene *s, const struct rb_velocities *before)
{
    memcpy(s->z, before->z, sizeof s->z);
    for (int k = 0; k < RB_BODIES; k++)
        interpolate_body(&s->body[k], before, k, 0.0);
}

/* Mark the bodies of the listed contacts. No other free body receives an impulse. */
static inline void rb_mark_touched(const struct rb_contact_list *all, unsigned char *touched)
{
    memset(touched, 0, RB_BODIES + 1);
    for (int k = 0; k < all->listed_count; k++)
        touched[all->contact[all->listed[k]].a] = touched[all->contact[all->listed[k]].b] = 1;
}

/* Add the contribution of a free body to the work of the impulses since `start`:

     linear = m dv . (v_start + (v_before - v_free) / 2)
              + dw . I (w_start + (w_before - w_free) / 2)
     quadratic = m |dv|^2 + dw . I dw,   dv = v - v_start,  dw = w - w_start */
static inline void add_work(const struct rb_scene *s, int k, const struct rb_velocities *freely,
                            const struct rb_velocities *start, struct rb_impulse_work *work)
{
    const struct rb_body *body = &s->body[k];
    double change[3], mean[3], moment[3];
    rb_subtract(body->v, start->v[k], change);
    rb_subtract(body->before_v, freely->v[k], mean);
    rb_axpy(start->v[k], 0.5, mean, mean);
    work->linear += RB_MASS[k] * rb_dot(change, mean);
    work->quadratic += RB_MASS[k] * rb_dot(change, change);
    rb_subtract(body->w, start->w[k], change);
    rb_subtract(body->before_w, freely->w[k], mean);
    rb_axpy(start->w[k], 0.5, mean, mean);
    rb_rotate_back(body->r, change, change);
    rb_rotate_back(body->r, mean, mean);
    rb_rotate(RB_INERTIA[k], change, moment);
    work->linear += rb_dot(moment, mean);
    work->quadratic += rb_dot(moment, change);
}

/* Compute the work coefficients of each island. */
static inline void add_all_work(const struct rb_scene *s, const struct rb_contact_list *all,
                                const struct rb_velocities *freely,
                                const struct rb_velocities *start, struct rb_islands *found)
{
    RB_WORKSPACE(RB_LARGE_SCENE, unsigned char, touched, RB_BODIES + 1);
    rb_mark_touched(all, touched);
    memset(found->work, 0, sizeof found->work);
    for (int k = 0; k < RB_BODIES; k++)
        if (RB_FREE[k] && touched[k])
            add_work(s, k, freely, start, &found->work[rb_find_island(found, k)]);
    for (int d = 0; d < RB_DOFS; d++) {
        struct rb_impulse_work *work =
            &found->work[rb_find_island(found, rb_tree_head(RB_LINK_BODY[RB_DOF_LINK[d]]))];
        const double change = s->z[d] - start->z[d];
        work->linear += change * (start->z[d] + 0.5 * (s->before_z[d] - freely->z[d]));
        work->quadratic += change * change;
    }
}

/* Scale the impulses and the velocity changes that they caused by the factor of their island. */
static inline void scale_impulses(struct rb_scene *s, struct rb_contact_list *all,
                                  const struct rb_velocities *start, struct rb_islands *found)
{
    for (int k = 0; k < all->listed_count; k++) {
        struct rb_contact *c = &all->contact[all->listed[k]];
        for (int i = 0; i < RB_CONTACT_ROWS; i++)
            c->impulse[i] *= found->part[rb_contact_island(found, c)];
    }
    for (int k = 0; k < all->stop_count; k++)
        all->stop[k].impulse *= found->part[rb_find_island(
            found, rb_tree_head(RB_LINK_BODY[RB_DOF_LINK[all->stop[k].dof]]))];
    for (int d = 0; d < RB_DOFS; d++)
        s->z[d] = start->z[d] +
                  found->part[rb_find_island(found, rb_tree_head(RB_LINK_BODY[RB_DOF_LINK[d]]))] *
                      (s->z[d] - start->z[d]);
    for (int k = 0; k < RB_BODIES; k++)
        if (rb_tree_head(k) >= 0 && found->part[rb_find_island(found, rb_tree_head(k))] < 1.0)
            interpolate_body(&s->body[k], start, k,
                             found->part[rb_find_island(found, rb_tree_head(k))]);
}

/* Scale the listed impulses so that they do no positive work. `start` holds the velocities before
   these impulses, `freely` the velocities after the forces of the step.

     factor = clamp(-2 linear / quadratic, 0, 1)   if linear + quadratic / 2 > 1e-12 quadratic

   Returns the smallest factor. */
static inline double rb_limit_energy(struct rb_scene *s, struct rb_contact_list *all,
                                     const struct rb_velocities *freely,
                                     const struct rb_velocities *start, struct rb_islands *found)
{
    /* relative to the exchanged energy: smaller work is a rounding error */
    static const double none = 1e-12;
    double least = 1.0;
    if (all->listed_count + all->stop_count == 0)
        return 1.0;
    rb_find_islands(all, found);
    add_all_work(s, all, freely, start, found);
    for (int k = 0; k < RB_BODIES; k++) {
        const struct rb_impulse_work *work = &found->work[k];
        found->part[k] = 1.0;
        if (work->linear + 0.5 * work->quadratic > none * work->quadratic)
            found->part[k] = rb_clamp(-2.0 * work->linear / work->quadratic, 0.0, 1.0);
        least = fmin(least, found->part[k]);
    }
    if (least < 1.0)
        scale_impulses(s, all, start, found);
    return least;
}

/* ---- impacts with restitution ----

   A step resolves impacts in rounds. If an impact drives a body against a third one, the next round
   resolves that impact, as in Newton's cradle. Each impact with e = 1 and without friction
   conserves the energy. */

/* Largest number of impact rounds in a step, and of reductions of one rebound. Found by trial. */
enum { RB_MAX_IMPACT_ROUNDS = 64, RB_MAX_REBOUND_REDUCTIONS = 3 };

/* relative to the contact tolerance; an error of an impact changes the energy for good */
static const double RB_IMPACT_TOLERANCE_FACTOR = 1e-3;

/* List the contacts that close within the step and whose approach velocity exceeds the accuracy of
   the impulses. Newton's law requires the rebound velocity -e u_n. Poisson's law first requires a
   normal velocity of zero. Resting contacts have no approach velocity before the forces of the
   step, so they are not listed. */
static inline void list_impacts(const struct rb_scene *s, struct rb_contact_list *all,
                                const struct rb_accuracy *wanted)
{
    all->listed_count = all->stop_count = all->sweeps = 0;
    for (int k = 0; k < all->count; k++) {
        struct rb_contact *c = &all->contact[k];
        double w[3];
        if (!(c->e > 0.0))
            continue;
        rb_contact_velocity(s, c, w);
        for (int i = 0; i < 3; i++)
            c->velocity_before[i] = w[i] + c->velocity_lead[i];
        const double fastest = rb_max(s->body[c->a].fast, s->body[c->b].fast),
                     least = wanted->part * rb_max(wanted->speed, fastest);
        if (!(c->e * c->velocity_before[0] < -least) ||
            !(c->gap + RB_SCENE_STEP * (w[0] + c->bias[0]) < 0.0))
            continue;
        c->velocity_min =
            rb_max(c->resting_velocity, RB_POISSON ? 0.0 : -c->e * c->velocity_before[0]);
        memset(c->impulse, 0, sizeof c->impulse);
        all->listed[all->listed_count++] = k;
    }
}

/* Return the work of the impulse of a contact in one round: p . (u_before + u) / 2. */
static inline double impact_work(const struct rb_scene *s, const struct rb_contact *c)
{
    double w[3], work = 0.0;
    rb_contact_velocity(s, c, w);
    for (int i = 0; i < 3; i++)
        work += 0.5 * c->impulse[i] * (c->velocity_before[i] + w[i]);
    return work;
}

/* Reduce the rebound velocity of contacts that gain energy. With Newton's law, friction that
   reverses the sliding velocity can cause a gain (Kane and Levinson 1985). Returns 1 if a rebound
   was reduced. */
static inline int reduce_rebound(const struct rb_scene *s, struct rb_contact_list *all)
{
    int found = 0;
    for (int k = 0; k < all->listed_count; k++) {
        struct rb_contact *c = &all->contact[all->listed[k]];
        double w[3];
        const double work = impact_work(s, c);
        if (!(c->velocity_min > c->resting_velocity) || !(c->impulse[0] > 0.0))
            continue;
        rb_contact_velocity(s, c, w);
        /* less work is a rounding error */
        if (!(work > 1e-9 * c->impulse[0] * fabs(c->velocity_before[0])))
            continue;
        c->velocity_min =
            fmax(c->resting_velocity, fmin(c->velocity_min, w[0]) - 2.0 * work / c->impulse[0]);
        found = 1;
    }
    return found;
}

/* Compute the impulses of the listed impacts. */
static inline void solve_impacts(struct rb_scene *s, struct rb_contact_list *all,
                                 const struct rb_accuracy *wanted)
{
    const struct rb_accuracy precise = {wanted->speed, RB_IMPACT_TOLERANCE_FACTOR * wanted->part,
                                        0.0};
    all->sweeps = 0;
    rb_find_impulses(s, all, &precise, RB_SCENE_SWEEPS / 8);
    all->strike_sweeps += all->sweeps;
}

/* Apply Newton's law of restitution: u_n+ = -e u_n-. */
static inline void newton_impact(struct rb_scene *s, struct rb_contact_list *all,
                                 const struct rb_accuracy *wanted)
{
    for (int less = 0; less <= RB_MAX_REBOUND_REDUCTIONS; less++) {
        solve_impacts(s, all, wanted);
        if (!reduce_rebound(s, all))
            break;
    }
}

/* Apply Poisson's law of restitution. The compression phase ends when no contact approaches. In
   the expansion phase each contact receives e times its compression impulse, minus the part that
   balances the forces of the step. It receives more if the contact would not separate otherwise.
   Each phase limits friction separately. */
static inline void poisson_impact(struct rb_scene *s, struct rb_contact_list *all,
                                  const struct rb_accuracy *wanted)
{
    solve_impacts(s, all, wanted);
    for (int k = 0; k < all->listed_count; k++) {
        struct rb_contact *c = &all->contact[all->listed[k]];
        const double taken = rb_max(c->impulse[0] - c->velocity_lead[0] * c->inverse_normal, 0.0);
        const double again[RB_CONTACT_ROWS] = {c->impulse_min =
                                                   c->e * (c->impulse[0] > 0.0 ? taken : 0.0)};
        for (int i = 0; i < RB_CONTACT_ROWS; i++)
            c->compression_impulse[RB_POISSON ? i : 0] = c->impulse[i];
        memcpy(c->impulse, again, sizeof again);
        rb_apply_impulse(s, c, again);
    }
    solve_impacts(s, all, wanted);
    for (int k = 0; k < all->listed_count; k++) {
        struct rb_contact *c = &all->contact[all->listed[k]];
        for (int i = 0; i < RB_CONTACT_ROWS; i++)
            c->impulse[i] += c->compression_impulse[RB_POISSON ? i : 0];
        c->impulse_min = 0.0;
    }
}

/* Set e = 0 for contacts of islands whose impulses were scaled by a factor below 0.999. A larger
   factor can result from rounding errors. */
static inline void stop_rebound(struct rb_contact_list *all, struct rb_islands *found)
{
    static const double unscaled = 0.999;
    for (int k = 0; k < all->count; k++) {
        struct rb_contact *c = &all->contact[k];
        const int a = rb_tree_head(c->a), b = rb_tree_head(c->b);
        if ((a >= 0 && found->part[rb_find_island(found, a)] < unscaled) ||
            (b >= 0 && found->part[rb_find_island(found, b)] < unscaled))
            c->e = 0.0;
    }
}

/* Resolve all impacts of a step in rounds. Impact impulses are stored separately, so the contact
   impulses start from zero. If the impulses of a round were scaled, the contacts of that island do
   not rebound any more. This happens, for example, if friction jams a body in a corner. Returns the
   number of rounds. */
static inline int rb_resolve_impacts(struct rb_scene *s, struct rb_contact_list *all,
                                     const struct rb_velocities *freely,
                                     const struct rb_accuracy *wanted)
{
    int round = 0;
    RB_WORKSPACE(RB_LARGE_SCENE, struct rb_velocities, start, 1);
    RB_WORKSPACE(RB_LARGE_SCENE, struct rb_islands, found, 1);
    for (; round < RB_MAX_IMPACT_ROUNDS; round++) {
        list_impacts(s, all, wanted);
        if (all->listed_count == 0)
            break;
        rb_save_velocities(s, start);
        if (RB_POISSON)
            poisson_impact(s, all, wanted);
        else
            newton_impact(s, all, wanted);
        const double left = rb_limit_energy(s, all, freely, start, found);
        for (int k = 0; k < all->listed_count; k++) {
            struct rb_contact *c = &all->contact[all->listed[k]];
            for (int i = 0; i < RB_CONTACT_ROWS; i++)
                c->impact_impulse[i] += c->impulse[i];
            memset(c->impulse, 0, sizeof c->impulse);
            c->velocity_min = c->resting_velocity;
        }
        if (left < 1.0)
            stop_rebound(all, found);
    }
    return round;
}

#endif
