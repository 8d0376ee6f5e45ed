/* Direct solver for islands of free bodies in which the sweeps converge slowly, for example heavy
   bodies on light ones. It uses the Newton step of contact_solver.h.

   In unit-inertia coordinates, with the rows Y of the contacts that are closed, the compliance E
   and the velocity errors r

     (1 + Y^T E^-1 Y) dy = Y^T E^-1 r,   dp = E^-1 (r - Y dy)

   The matrix has a 6 x 6 block for each body and for each pair of bodies in contact. The Cholesky
   factorization works within the envelope of the matrix, in reverse Cuthill-McKee order (Cuthill
   and McKee 1969). */

#ifndef RB_ISLAND_CHOLESKY_H
#define RB_ISLAND_CHOLESKY_H

#include "free_body_solver.h"

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
                            : squared < (1.0 - 1e-9) * limit * limit; /* sticks, not by rounding */
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

/* Solve an island by Newton's method until the objective no longer decreases. The objective may
   increase at most `most` - 1 times in a row, because contacts open or begin to slide. Returns 0 if
   the method was not tried. */
static inline int rb_solve_island_directly(struct rb_free_solver *all, int sweeps, int most)
{
    const int blocks = RB_BLOCKS, bodies = RB_BODIES;
    RB_WORKSPACE(RB_LARGE_SCENE, struct rb_envelope, e, 1);
    RB_WORKSPACE(RB_LARGE_SCENE, struct held, best, 1);
    if (blocks < bodies || !make_envelope(all, sweeps, e))
        return 0;
    double height = free_objective(all);
    save_contact_states(all, best);
    for (int hold = 0, higher = 0; hold < RB_MAX_NEWTON_SOLVES && higher < most; hold++) {
        const double next = newton_solve(all, e) ? free_objective(all) : INFINITY;
        higher = next < height ? 0 : higher + 1;
        if (higher > 0)
            continue;
        height = next;
        save_contact_states(all, best);
    }
    restore_contact_states(all, best);
    restart_directions(all);
    return 1;
}

#endif
