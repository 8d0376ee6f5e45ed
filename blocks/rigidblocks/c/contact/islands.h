/* Contact islands, the bodies that contacts connect: their contacts, their solvers, and the broad
   phase margins that depend on them. */

#ifndef RB_ISLANDS_H
#define RB_ISLANDS_H

#include "contact_solver.h"
#include "island_cholesky.h"

/* ---- islands by union-find ---- */

/* Return the representative body of a tree. A free body represents itself; static geometry gives
   -1. */
static inline int rb_tree_head(int k)
{
    if (RB_LEAF[k] >= 0)
        return RB_LINK_BODY[RB_DOF_LINK[RB_DOF_FIRST[RB_LEAF[k]]]];
    return k < RB_BODIES && RB_FREE[k] ? k : -1;
}

/* Coefficients of the work t linear + t^2 / 2 quadratic that the fraction t of the impulses does
   [J]. */
struct rb_impulse_work {
    double linear, quadratic;
};

/* Union-find over bodies: the parent of each body, the work of each island, and the factor by
   which its impulses are scaled. */
struct rb_islands {
    int next[RB_BODIES + 1];
    struct rb_impulse_work work[RB_BODIES + 1];
    double part[RB_BODIES + 1];
};

/* Return the representative of the island of body k. Path halving keeps the paths short. */
static inline int rb_find_island(struct rb_islands *all, int k)
{
    while (all->next[k] != k)
        k = all->next[k] = all->next[all->next[k]];
    return k;
}

/* Start with one island for each body. */
static inline void start_islands(struct rb_islands *all)
{
    for (int k = 0; k <= RB_BODIES; k++)
        all->next[k] = k;
}

/* Join the islands of two bodies that are not static. */
static inline void join_islands(struct rb_islands *all, int a, int b)
{
    const int one = rb_tree_head(a), other = rb_tree_head(b);
    if (one >= 0 && other >= 0)
        all->next[rb_find_island(all, one)] = rb_find_island(all, other);
}

/* ---- contacts of each island ---- */

/* Return the island of a contact; at least one of its bodies is not static. */
static inline int rb_contact_island(struct rb_islands *all, const struct rb_contact *c)
{
    const int a = rb_tree_head(c->a);
    return rb_find_island(all, a >= 0 ? a : rb_tree_head(c->b));
}

/* Compute the islands of the listed contacts. */
static inline void rb_find_islands(const struct rb_contact_list *all, struct rb_islands *found)
{
    start_islands(found);
    for (int k = 0; k < all->listed_count; k++)
        join_islands(found, all->contact[all->listed[k]].a, all->contact[all->listed[k]].b);
}

/* The listed contacts ordered by islands; the first group holds all contacts of trees. */
struct rb_contact_groups {
    int listed[RB_CONTACTS], start[RB_BODIES + 3], count;
};

static inline void rb_group_contacts(const struct rb_contact_list *all,
                                     struct rb_contact_groups *out)
{
    RB_WORKSPACE(RB_LARGE_SCENE, struct rb_islands, found, 1);
    RB_WORKSPACE(RB_LARGE_SCENE, int, group_of, RB_BODIES + 1);
    RB_WORKSPACE(RB_LARGE_SCENE, int, of, RB_CONTACTS);
    RB_WORKSPACE(RB_LARGE_SCENE, int, end, RB_BODIES + 2);
    rb_find_islands(all, found);
    memset(of, 0, RB_CONTACTS * sizeof *of);
    memset(group_of, -1, (RB_BODIES + 1) * sizeof *group_of);
    memset(out->start, 0, sizeof out->start);
    out->count = 1;
    for (int k = 0; k < all->listed_count; k++) {
        const struct rb_contact *c = &all->contact[all->listed[k]];
        of[k] = rb_contact_island(found, c);
        if (RB_LEAF[c->a] >= 0 || RB_LEAF[c->b] >= 0)
            group_of[of[k]] = 0;
    }
    for (int k = 0; k < all->listed_count; k++) {
        if (group_of[of[k]] < 0)
            group_of[of[k]] = out->count++;
        of[k] = group_of[of[k]];
        out->start[of[k] + 1]++;
    }
    for (int i = 0; i < out->count; i++) {
        end[i] = out->start[i];
        out->start[i + 1] += out->start[i];
    }
    for (int k = 0; k < all->listed_count; k++)
        out->listed[end[of[k]]++] = all->listed[k];
}

/* List the contacts of one group. For the group of trees, also list the stops. */
static inline void rb_list_group(const struct rb_contact_groups *found, int i,
                                 struct rb_contact_list *all)
{
    all->listed_count = found->start[i + 1] - found->start[i];
    all->stop_count = i == 0 ? all->reached_stops : 0;
    memcpy(all->listed, found->listed + found->start[i], (size_t)all->listed_count * sizeof(int));
}

/* ---- warm start of each island ---- */

/* Apply the impulses of the last step (warm start). If the last step used many `sweeps`, its
   impulses may result from contradictory constraints. Each island then discards a warm start that
   does not lower its objective. */
static inline void rb_start_impulses(struct rb_scene *s, struct rb_contact_list *all, double sweeps)
{
    RB_WORKSPACE(RB_LARGE_SCENE, struct rb_contact_groups, found, 1);
    rb_list_all(all);
    all->sweeps = 0;
    all->residual = 0.0;
    rb_apply_listed(s, all, 1.0);
    if (sweeps < RB_CYCLE_CHECK_SWEEPS)
        return;
    rb_group_contacts(all, found);
    for (int i = 0; i < found->count; i++) {
        rb_list_group(found, i, all);
        if (all->listed_count + all->stop_count > 0 && !rb_is_warm_start_useful(s, all))
            rb_discard_impulses(s, all);
    }
    rb_list_all(all);
}

/* ---- selection of the solver of each island ---- */

/* After this number of sweeps, the solver considers a direct solve of an island of free bodies.
   Then the number is multiplied by the factor. Found by trial. */
enum { RB_DIRECT_AFTER_SWEEPS = 8, RB_DIRECT_RETRY_FACTOR = 3 };

/* Return 1 if twice the number of sweeps would not be sufficient for convergence. The estimate
   repeats the reduction of the residual in the second half of the sweeps twice:

     residual (residual / halfway)^2 > tolerance

   Moving islands have a larger tolerance (`later`), so they do more sweeps before a direct
   solve. */
static inline int converges_slowly(int sweeps, double residual, double halfway, double tolerance,
                                   double later)
{
    const double part = residual / halfway;
    return (sweeps > RB_DIRECT_AFTER_SWEEPS || !(later > tolerance)) &&
           residual * part * part > rb_sweep_tolerance(2 * sweeps, tolerance, later);
}

/* Accuracy of the impulses: the smallest speed that the tolerance refers to [m/s]; the tolerance
   relative to the largest speed; after many sweeps, the tolerance relative to the speeds before the
   step. */
struct rb_accuracy {
    double speed, part, later;
};

/* Compute the largest speed of an island before the step, and the largest speed after the applied
   forces of the step. All links of a tree count. */
static inline void island_speeds(const struct rb_scene *s, const struct rb_contact_list *all,
                                 int trees, double *before, double *fastest)
{
    RB_WORKSPACE(RB_LARGE_SCENE, unsigned char, known, RB_BODIES + 1);
    memset(known, 0, (RB_BODIES + 1) * sizeof *known);
    *before = *fastest = 0.0;
    for (int k = 0; k < 2 * all->listed_count; k++) {
        const struct rb_contact *c = &all->contact[all->listed[k / 2]];
        const int number = k % 2 ? c->b : c->a;
        *before = rb_max(*before, s->body[number].slow);
        *fastest = rb_max(*fastest, s->body[number].fast);
        if (trees && RB_LEAF[number] >= 0)
            known[rb_tree_head(number)] = 1;
    }
    for (int k = 0; k < all->stop_count; k++)
        known[rb_tree_head(RB_LINK_BODY[RB_DOF_LINK[all->stop[k].dof]])] = 1;
    for (int k = 0; k < RB_BODIES && trees; k++) {
        if (RB_LEAF[k] < 0 || !known[rb_tree_head(k)])
            continue;
        *before = rb_max(*before, s->body[k].slow);
        *fastest = rb_max(*fastest, s->body[k].fast);
    }
}

/* Solve an island of free bodies: sweeps, and a direct solve if they converge slowly. */
static inline void solve_free_island(struct rb_scene *s, struct rb_contact_list *all,
                                     double tolerance, double later, int most)
{
    RB_WORKSPACE(RB_LARGE_SCENE, struct rb_free_solver, free, 1);
    double before = 0.0, squared, kept = 0.0, circling = INFINITY, halfway = INFINITY;
    int own = 0, next = RB_DIRECT_AFTER_SWEEPS;
    free->relaxation = 1.0;
    rb_free_solver_start(s, all, free);
    while (all->sweeps < most) {
        all->residual = rb_free_solver_sweep(free, kept, &squared);
        if (++all->sweeps == most ||
            all->residual <= rb_sweep_tolerance(all->sweeps - 1, tolerance, later))
            break;
        rb_free_solver_relax(++own, rb_max(later, tolerance), all->residual, &circling,
                             &free->relaxation);
        if (own == next / 2)
            halfway = all->residual;
        if (own == next) {
            next *= RB_DIRECT_RETRY_FACTOR;
            if (converges_slowly(own, all->residual, halfway, tolerance, later) &&
                rb_solve_island_directly(free, own, later > tolerance ? 1 : RB_MAX_INCREASES)) {
                before = kept = 0.0;
                continue;
            }
        }
        kept = rb_conjugate_factor(squared, before);
        rb_free_solver_extrapolate(free, kept);
        before = squared;
    }
    rb_free_solver_finish(s, free, all);
}

/* Solve one island. Islands with trees or with too many contacts use rb_solve_impulses. */
static inline void solve_island(struct rb_scene *s, struct rb_contact_list *all, int trees,
                                const struct rb_accuracy *wanted, int most)
{
    double before, fastest;
    island_speeds(s, all, trees, &before, &fastest);
    const double tolerance = wanted->part * rb_max(wanted->speed, fastest),
                 later = wanted->later * before;
    all->residual = 0.0;
    if (trees || all->listed_count > RB_FREE_CONTACTS)
        rb_solve_impulses(s, all, tolerance, later, most);
    else
        solve_free_island(s, all, tolerance, later, most);
}

/* Compute the impulses of the listed contacts, separately for each island. The tolerance and the
   number of sweeps of an island do not depend on bodies in other islands. `sweeps` becomes the
   largest number of sweeps of an island. */
static inline void rb_find_impulses(struct rb_scene *s, struct rb_contact_list *all,
                                    const struct rb_accuracy *wanted, int most)
{
    RB_WORKSPACE(RB_LARGE_SCENE, struct rb_contact_groups, found, 1);
    const int list = all->listed_count, stops = all->stop_count, begun = all->sweeps;
    int made = begun;
    double residual = 0.0;
    rb_group_contacts(all, found);
    for (int i = 0; i < found->count; i++) {
        rb_list_group(found, i, all);
        all->stop_count = i == 0 ? stops : 0; /* impacts treat no stops */
        all->sweeps = begun;
        if (all->listed_count + all->stop_count == 0)
            continue;
        solve_island(s, all, i == 0, wanted, most);
        made = all->sweeps > made ? all->sweeps : made;
        residual = rb_max(residual, all->residual);
    }
    memcpy(all->listed, found->listed, (size_t)list * sizeof(int));
    all->listed_count = list;
    all->stop_count = stops;
    all->sweeps = made;
    all->residual = residual;
}

/* ---- margins of the broad phase: find shapes that may touch within a step, including shapes of a
   body that a fast body hits ---- */

enum { RB_MAX_MARGIN_ROUNDS = 4 }; /* rounds in which a body that was hit may hit others */

/* Widen the bounds of shapes to half the displacement of the fastest body in their island. Returns
   1 if any bounds became wider. */
static inline int widen_by_island_speed(struct rb_scene *s)
{
    int wider = 0;
    RB_WORKSPACE(RB_LARGE_SCENE, struct rb_islands, found, 1);
    RB_WORKSPACE(RB_LARGE_SCENE, double, way, RB_BODIES + 1);
    memset(way, 0, (RB_BODIES + 1) * sizeof *way);
    start_islands(found);
    for (int k = 0; k < s->pairs; k++)
        join_islands(found, RB_SHAPE_BODY[s->pair[k].a], RB_SHAPE_BODY[s->pair[k].b]);
    for (int k = 0; k < RB_SHAPES; k++) {
        const int head = rb_tree_head(RB_SHAPE_BODY[k]);
        if (head >= 0) {
            double *most = &way[rb_find_island(found, head)];
            *most = rb_max(*most, s->bounds[k].way);
        }
    }
    for (int k = 0; k < RB_SHAPES; k++) {
        const int head = rb_tree_head(RB_SHAPE_BODY[k]);
        if (head < 0)
            continue;
        const double more =
            rb_bounds_margin(k, 0.5 * way[rb_find_island(found, head)]) - s->bounds[k].margin;
        if (!(more > 0.0))
            continue;
        rb_widen_bounds(&s->bounds[k], more);
        wider = 1;
    }
    return wider;
}

/* Find the pairs of shapes that may touch within a step of h [s]. Shapes that no fast body can
   reach keep the margin for their own displacement. */
static inline void rb_find_near_pairs(struct rb_scene *s, double h)
{
    const int far = rb_place_shapes(s, h);
    rb_find_pairs(s);
    for (int time = 0; time < RB_MAX_MARGIN_ROUNDS && far && widen_by_island_speed(s); time++) {
        s->left_out = 0;
        rb_find_pairs(s);
    }
}

#endif
