/* Contact islands, which are sets of bodies connected by contacts. The file contains the contacts
   and the solver of each island, and the broad phase margins, which depend on the islands.

   Direct solver for islands of free bodies in which the sweeps converge slowly, for example heavy
   bodies on light ones. It uses the Newton step of contact_solver.h.

   In unit-inertia coordinates, with the rows Y of the contacts that are closed, the compliance E
   and the velocity errors r

     (1 + Y^T E^-1 Y) dy = Y^T E^-1 r,   dp = E^-1 (r - Y dy)

   The matrix has a 6 x 6 block for each body and for each pair of bodies in contact. The Cholesky
   factorization works within the envelope of the matrix, in reverse Cuthill-McKee order (Cuthill
   and McKee 1969). */

#ifndef RB_ISLANDS_H
#define RB_ISLANDS_H

#include "free_body_solver.h"

/* ---- direct solver: constants and matrix ---- */

/* RB_BLOCKS: largest number of blocks, or 1 if the model is too large to store all its contacts.
   RB_PROXIMAL: number of solves with the compliance, each from the result of the previous one.
   RB_MAX_NEWTON_SOLVES: Newton solves in which contacts may open or begin to slide.
   RB_MAX_INCREASES: increases of the objective before the method stops. All except RB_BLOCKS were
   found by trial. */
enum {
    RB_BLOCKS = RB_FREE_CONTACTS + 0 < RB_CONTACTS + 0 ? 1
    : RB_BODIES < 64                                   ? RB_BODIES * (RB_BODIES + 1) / 2
                                                       : 2048,
    RB_PROXIMAL = 3,
    RB_MAX_NEWTON_SOLVES = 16,
    RB_MAX_INCREASES = 4
};

static const double RB_STIFF = 1e7; /* 1 / E relative to 1 / W_ii; found by trial */
/* Velocity error of converged Newton solves, relative to the tolerance of the sweeps; found by
   trial. */
static const double RB_NEWTON_ERROR = 1e-5;

/* Lower half of the matrix, stored by rows of blocks. Body k has row place[k]. Row i begins at
   column first[i]; its column j is block[at[i] + j]. */
struct rb_envelope {
    double block[RB_BLOCKS][36];
    int order[RB_BODIES], place[RB_BODIES + 1], first[RB_BODIES], at[RB_BODIES];
};

/* Adjacency of the bodies in contact: the neighbours of body k are near[start[k]] to
   near[start[k + 1] - 1]. */
struct rb_neighbours {
    int near[2 * RB_FREE_CONTACTS], start[RB_BODIES + 2];
};

static inline void find_neighbours(const struct rb_free_solver *all, struct rb_neighbours *out)
{
    RB_WORKSPACE(RB_LARGE_SCENE, int, end, RB_BODIES + 1);
    memset(out->start, 0, sizeof out->start);
    for (int k = 0; k < all->contact_count; k++) {
        const struct rb_free_contact *c = &all->contact[k];
        out->start[c->a + 1] += c->b < RB_BODIES;
        out->start[c->b + 1] += c->b < RB_BODIES;
    }
    for (int k = 0; k < RB_BODIES; k++)
        out->start[k + 1] += out->start[k];
    memcpy(end, out->start, (RB_BODIES + 1) * sizeof *end);
    for (int k = 0; k < all->contact_count; k++) {
        const struct rb_free_contact *c = &all->contact[k];
        if (c->b == RB_BODIES)
            continue;
        out->near[end[c->a]++] = c->b;
        out->near[end[c->b]++] = c->a;
    }
}

/* Return the body with the fewest neighbours that is not yet ordered; -1 if all are ordered. */
static inline int least_connected_body(const struct rb_free_solver *all,
                                       const struct rb_neighbours *n, const unsigned char *known)
{
    int best = -1, fewest = 0;
    for (int i = 0; i < all->body_count; i++) {
        const int k = all->active_body[i], count = n->start[k + 1] - n->start[k];
        if (!known[k] && (best < 0 || count < fewest)) {
            best = k;
            fewest = count;
        }
    }
    return best;
}

/* Order the bodies by breadth-first search from the least connected body of each component, then
   reverse the order (reverse Cuthill-McKee). */
static inline void order_bodies(const struct rb_free_solver *all, struct rb_envelope *e)
{
    int count = 0;
    RB_WORKSPACE(RB_LARGE_SCENE, struct rb_neighbours, n, 1);
    RB_WORKSPACE(RB_LARGE_SCENE, unsigned char, known, RB_BODIES + 1);
    RB_WORKSPACE(RB_LARGE_SCENE, int, queue, RB_BODIES + 1);
    memset(known, 0, (RB_BODIES + 1) * sizeof *known);
    find_neighbours(all, n);
    for (int next = 0; next < all->body_count; next++) {
        if (next == count) {
            queue[count] = least_connected_body(all, n, known);
            known[queue[count++]] = 1;
        }
        for (int at = n->start[queue[next]]; at < n->start[queue[next] + 1]; at++) {
            const int k = n->near[at];
            if (!known[k]) {
                known[k] = 1;
                queue[count++] = k;
            }
        }
    }
    for (int i = 0; i < count; i++) {
        e->order[i] = queue[count - 1 - i];
        e->place[e->order[i]] = i;
    }
}

/* Compute the envelope. Returns 0 if it has too many blocks, or if its factorization would cost
   more than `sweeps` sweeps. */
static inline int make_envelope(const struct rb_free_solver *all, int sweeps, struct rb_envelope *e)
{
    int size = 0;
    double work = 0.0;
    order_bodies(all, e);
    for (int i = 0; i < all->body_count; i++)
        e->first[i] = i;
    for (int k = 0; k < all->contact_count; k++) {
        const struct rb_free_contact *c = &all->contact[k];
        if (c->b == RB_BODIES)
            continue;
        const int i = e->place[c->a], j = e->place[c->b], low = i < j ? i : j, high = i < j ? j : i;
        e->first[high] = low < e->first[high] ? low : e->first[high];
    }
    for (int i = 0; i < all->body_count; i++) {
        const int width = i - e->first[i] + 1;
        e->at[i] = size - e->first[i];
        size += width;
        work += (double)width * width;
        if (size > RB_BLOCKS || work > (double)sweeps * all->contact_count)
            return 0;
    }
    return all->body_count > 0;
}

/* Add s x y^T to a block. */
static inline void add_outer(double s, const double *x, const double *y, double *block)
{
    for (int i = 0; i < 6; i++)
        rb_axpy_n(6, s * x[i], y, block + 6 * i);
}

/* Subtract a product of two blocks: B - X Y^T. */
static inline void subtract_product(const double *x, const double *y, double *b)
{
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < 6; j++)
            for (int k = 0; k < 6; k++)
                b[6 * i + j] -= x[6 * i + k] * y[6 * j + k];
}

/* Solve with a triangular block from the right: B L^-T. */
static inline void solve_right(const double *l, double *b)
{
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < 6; j++) {
            for (int k = 0; k < j; k++)
                b[6 * i + j] -= b[6 * i + k] * l[6 * j + k];
            b[6 * i + j] /= l[7 * j];
        }
}

/* Compute the Cholesky factor L of a block in place. Returns 0 if the block is not positive
   definite. */
static inline int factor_block(double *l)
{
    for (int i = 0; i < 6; i++)
        for (int j = 0; j <= i; j++) {
            double sum = l[6 * i + j];
            for (int k = 0; k < j; k++)
                sum -= l[6 * i + k] * l[6 * j + k];
            if (i == j && !(sum > 0.0))
                return 0;
            l[6 * i + j] = i == j ? sqrt(sum) : sum / l[7 * j];
        }
    return 1;
}

/* Factorize the matrix L L^T in place, within its envelope. Returns 0 if it is not positive
   definite.

     L_ij = (A_ij - sum_k L_ik L_jk^T) L_jj^-T,   L_ii L_ii^T = A_ii - sum_k L_ik L_ik^T */
static inline int factor_envelope(struct rb_envelope *e, int count)
{
    for (int i = 0; i < count; i++) {
        double (*row)[36] = e->block + e->at[i];
        for (int j = e->first[i]; j <= i; j++) {
            double (*other)[36] = e->block + e->at[j];
            for (int k = e->first[i] > e->first[j] ? e->first[i] : e->first[j]; k < j; k++)
                subtract_product(row[k], other[k], row[j]);
            if (j < i)
                solve_right(other[j], row[j]);
        }
        if (!factor_block(row[i]))
            return 0;
    }
    return 1;
}

/* Subtract the product of a block, or of its transpose, and a vector: x - A y. */
static inline void subtract_product_vector(const double *a, const double *y, int transposed,
                                           double *x)
{
    for (int i = 0; i < 6; i++)
        for (int k = 0; k < 6; k++)
            x[i] -= a[transposed ? 6 * k + i : 6 * i + k] * y[k];
}

static inline void solve_lower(const double *l, double *x)
{
    for (int i = 0; i < 6; i++) {
        for (int k = 0; k < i; k++)
            x[i] -= l[6 * i + k] * x[k];
        x[i] /= l[7 * i];
    }
}

static inline void solve_upper(const double *l, double *x)
{
    for (int i = 5; i >= 0; i--) {
        for (int k = i + 1; k < 6; k++)
            x[i] -= l[6 * k + i] * x[k];
        x[i] /= l[7 * i];
    }
}

/* Solve for the right-hand side in place. */
static inline void solve_envelope(const struct rb_envelope *e, int count, double (*x)[6])
{
    for (int i = 0; i < count; i++) {
        for (int j = e->first[i]; j < i; j++)
            subtract_product_vector(e->block[e->at[i] + j], x[j], 0, x[i]);
        solve_lower(e->block[e->at[i] + i], x[i]);
    }
    for (int i = count - 1; i >= 0; i--) {
        solve_upper(e->block[e->at[i] + i], x[i]);
        for (int j = e->first[i]; j < i; j++)
            subtract_product_vector(e->block[e->at[i] + j], x[i], 1, x[j]);
    }
}

/* Return the stiffness 1 / E of one row. It is 0 if the contact opens, and 0 for the tangents of a
   sliding contact. `step` holds the velocity error. */
static inline double row_stiffness(const struct rb_free_contact *c, const double *a,
                                   const double *b, int i)
{
    const double limit = c->mu * c->impulse[0],
                 squared = c->impulse[1] * c->impulse[1] + c->impulse[2] * c->impulse[2];
    double moved = 0.0;
    for (int k = 0; k < 6; k++)
        moved += a[k] * a[k] + b[k] * b[k];
    const int held = i == 0 ? c->impulse[0] > c->impulse_min || c->step[0] > 0.0
                            : squared < (1.0 - 1e-9) * limit * limit; /* sticks clearly */
    return held && moved > 0.0 ? RB_STIFF / moved : 0.0;
}

/* Unpack row i of both bodies from the pairs of doubles. */
static inline void unpack_row(const struct rb_free_contact *c, int i, double *a, double *b)
{
    rb_unpack_pairs(c->row_a[i], a);
    rb_unpack_pairs(c->row_b[i], b);
}

/* Store the velocity error of a contact in `step`. */
static inline void store_residual(const struct rb_free_solver *all, struct rb_free_contact *c)
{
    const rb_pair *x = all->body[c->a].y, *y = all->body[c->b].y;
    c->step[0] = c->velocity_min - rb_row_velocity(c->row_a[0], c->row_b[0], x, y);
    for (int i = 1; i < 3; i++)
        c->step[i] = -c->bias[i - 1] - rb_row_velocity(c->row_a[i], c->row_b[i], x, y);
}

/* Add a contact to the matrix and to the right-hand side. */
static inline void add_contact_equation(const struct rb_free_contact *c, struct rb_envelope *e,
                                        double (*pull)[6])
{
    const int i = e->place[c->a], j = c->b < RB_BODIES ? e->place[c->b] : -1;
    for (int part = 0; part < 3; part++) {
        double a[6], b[6];
        unpack_row(c, part, a, b);
        const double stiff = row_stiffness(c, a, b, part);
        if (!(stiff > 0.0))
            continue;
        add_outer(stiff, a, a, e->block[e->at[i] + i]);
        rb_axpy_n(6, stiff * c->step[part], a, pull[i]);
        if (j < 0)
            continue;
        add_outer(stiff, b, b, e->block[e->at[j] + j]);
        rb_axpy_n(6, stiff * c->step[part], b, pull[j]);
        add_outer(stiff, i > j ? a : b, i > j ? b : a,
                  e->block[i > j ? e->at[i] + j : e->at[j] + i]);
    }
}

/* Compute the impulse changes of a contact from the sum of all proximal solves. The m-th solve
   starts from the residual E dp of the previous one, so that with m = RB_PROXIMAL solves

     dp = E^-1 (m r - Y sum_k (m - k) dy_k),   k = 0 .. m - 1 */
static inline void free_impulse_change(const struct rb_free_contact *c, const struct rb_envelope *e,
                                       const double (*sum)[6], double *change)
{
    static const double none[6] = {0.0, 0.0, 0.0, 0.0, 0.0, 0.0};
    const double *x = sum[e->place[c->a]], *y = c->b < RB_BODIES ? sum[e->place[c->b]] : none;
    for (int i = 0; i < 3; i++) {
        double a[6], b[6], left = RB_PROXIMAL * c->step[i];
        unpack_row(c, i, a, b);
        const double stiff = row_stiffness(c, a, b, i);
        for (int k = 0; k < 6; k++)
            left -= a[k] * x[k] + b[k] * y[k];
        change[i] = stiff * left;
    }
}

/* Apply the impulse changes of a contact, projected onto its friction cone. */
static inline void change_contact(struct rb_free_solver *all, struct rb_free_contact *c,
                                  const double *change)
{
    double next[3];
    for (int i = 0; i < 3; i++)
        next[i] = c->impulse[i] + change[i];
    next[0] = rb_max(next[0], c->impulse_min);
    c->friction_bound = c->mu * next[0];
    const double length = sqrt(next[1] * next[1] + next[2] * next[2]);
    for (int i = 0; i < 3; i++) {
        next[i] *= i > 0 && length > c->friction_bound ? c->friction_bound / length : 1.0;
        c->step[i] = next[i] - c->impulse[i];
        c->impulse[i] = next[i];
    }
    rb_free_solver_apply(all, c, 0);
}

/* Return the objective that the sweeps minimize, up to a constant:

     f = 1/2 |y|^2 + p_t . bias - p_n velocity_min */
static inline double free_objective(const struct rb_free_solver *all)
{
    double sum = 0.0;
    for (int k = 0; k < all->body_count; k++) {
        double y[6];
        rb_unpack_pairs(all->body[all->active_body[k]].y, y);
        for (int i = 0; i < 6; i++)
            sum += 0.5 * y[i] * y[i];
    }
    for (int k = 0; k < all->contact_count; k++) {
        const struct rb_free_contact *c = &all->contact[k];
        sum += c->impulse[1] * c->bias[0] + c->impulse[2] * c->bias[1] -
               c->impulse[0] * c->velocity_min;
    }
    return sum;
}

/* Restart the conjugate directions from the current velocities and impulses. */
static inline void restart_directions(struct rb_free_solver *all)
{
    for (int k = 0; k < all->body_count; k++) {
        struct rb_free_body *one = &all->body[all->active_body[k]];
        memcpy(one->y_before, one->y, sizeof one->y);
        memset(one->direction, 0, sizeof one->direction);
    }
    for (int k = 0; k < all->contact_count; k++)
        memset(all->contact[k].direction, 0, sizeof all->contact[k].direction);
}

/* Do one Newton solve with the current modes of the contacts. Returns 0 if the matrix is not
   positive definite. */
static inline int newton_solve(struct rb_free_solver *all, struct rb_envelope *e)
{
    RB_WORKSPACE(RB_LARGE_SCENE, rb_six_numbers, x, RB_BODIES);
    RB_WORKSPACE(RB_LARGE_SCENE, rb_six_numbers, sum, RB_BODIES);
    RB_WORKSPACE(RB_LARGE_SCENE, rb_three_numbers, change, RB_FREE_CONTACTS);
    const int n = all->body_count;
    memset(x, 0, (size_t)n * sizeof *x);
    memset(sum, 0, (size_t)n * sizeof *sum);
    for (int i = 0; i < n; i++) {
        memset(e->block[e->at[i] + e->first[i]], 0,
               (size_t)(i - e->first[i] + 1) * sizeof *e->block);
        for (int k = 0; k < 6; k++)
            e->block[e->at[i] + i][7 * k] = 1.0;
    }
    for (int k = 0; k < all->contact_count; k++) {
        store_residual(all, &all->contact[k]);
        add_contact_equation(&all->contact[k], e, x);
    }
    if (!factor_envelope(e, n))
        return 0;
    for (int time = 0; time < RB_PROXIMAL; time++) {
        solve_envelope(e, n, x); /* the residual is then E dp: this is the next right-hand side */
        for (int i = 0; i < n; i++)
            rb_axpy_n(6, RB_PROXIMAL - time, x[i], sum[i]);
    }
    for (int k = 0; k < all->contact_count; k++)
        free_impulse_change(&all->contact[k], e, (const double (*)[6])sum, change[k]);
    for (int k = 0; k < all->contact_count; k++)
        change_contact(all, &all->contact[k], change[k]);
    return 1;
}

/* Saved impulses with the corresponding velocities. */
struct held {
    double impulse[RB_FREE_CONTACTS][3];
    rb_pair y[RB_BODIES][3];
};

static inline void save_contact_states(const struct rb_free_solver *all, struct held *out)
{
    for (int k = 0; k < all->contact_count; k++)
        memcpy(out->impulse[k], all->contact[k].impulse, sizeof out->impulse[k]);
    for (int k = 0; k < all->body_count; k++)
        memcpy(out->y[k], all->body[all->active_body[k]].y, sizeof out->y[k]);
}

static inline void restore_contact_states(struct rb_free_solver *all, const struct held *from)
{
    for (int k = 0; k < all->contact_count; k++)
        memcpy(all->contact[k].impulse, from->impulse[k], sizeof from->impulse[k]);
    for (int k = 0; k < all->body_count; k++)
        memcpy(all->body[all->active_body[k]].y, from->y[k], sizeof from->y[k]);
}

/* Solve an island by Newton's method until the velocity error is within RB_NEWTON_ERROR times the
   tolerance [m/s], or until the objective no longer decreases. The objective may increase at most
   `most` - 1 times in a row, because contacts open or begin to slide. Returns 0 if the method was
   not tried. */
static inline int rb_solve_island_directly(struct rb_free_solver *all, int sweeps, int most,
                                           double tolerance)
{
    const int blocks = RB_BLOCKS, bodies = RB_BODIES;
    RB_WORKSPACE(RB_LARGE_SCENE, struct rb_envelope, e, 1);
    RB_WORKSPACE(RB_LARGE_SCENE, struct held, best, 1);
    if (blocks < bodies || !make_envelope(all, sweeps, e))
        return 0;
    int solved = 0;
    double height = free_objective(all);
    save_contact_states(all, best);
    for (int hold = 0, higher = 0; hold < RB_MAX_NEWTON_SOLVES && higher < most && !solved;
         hold++) {
        const int done = newton_solve(all, e);
        const double next = done ? free_objective(all) : INFINITY;
        solved = done && rb_free_solver_error(all) <= RB_NEWTON_ERROR * tolerance;
        higher = next < height ? 0 : higher + 1;
        if (higher > 0)
            continue;
        height = next;
        save_contact_states(all, best);
    }
    if (!solved)
        restore_contact_states(all, best);
    restart_directions(all);
    return 1;
}

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
   assumes that each half of the additional sweeps reduces the residual by the factor of the second
   half so far:

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

/* Accuracy of the impulses:
     speed   smallest speed to which the tolerance is relative [m/s]
     part    tolerance relative to the largest speed
     later   tolerance after many sweeps, relative to the speeds before the step */
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
                rb_solve_island_directly(free, own, later > tolerance ? 1 : RB_MAX_INCREASES,
                                         tolerance)) {
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
        all->stop_count = i == 0 ? stops : 0; /* the stops belong to the group of trees */
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
