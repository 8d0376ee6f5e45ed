/* Impulses of free bodies all at once, where sweeps take long, as those of heavy bodies on light
   ones do: Newton's method of direct.h for bodies that touch each other. The matrix 1 + Y^T E^-1 Y
   has a block of six by six for each body and each two that touch. It is factored by Cholesky
   within its envelope, in the reverse order of Cuthill and McKee (1969). */

#ifndef RB_TOGETHER_H
#define RB_TOGETHER_H

#include "free.h"

/* room for blocks, none where there is not for the rows of all contacts; solutions with a compliance,
   each from where the one before has come; how often contacts are let go or begin to slide */
enum {
    RB_BLOCKS = RB_LIGHTS + 0 < RB_CONTACTS + 0 ? 1
    : RB_BODIES < 64                            ? RB_BODIES * (RB_BODIES + 1) / 2
                                                : 2048,
    RB_PROXIMAL = 3,
    RB_HOLDS = 16,
    RB_HIGHER = 4
};

static const double RB_STIFF = 1e7; /* of what a unit of velocity takes: 1 / E */

/* The lower half of the matrix by rows of blocks: body k is at `place[k]`; row i begins with column
   `first[i]`, and its column j is block[at[i] + j]. */
struct envelope {
    double block[RB_BLOCKS][36];
    int order[RB_BODIES], place[RB_BODIES + 1], first[RB_BODIES], at[RB_BODIES];
};

/* The bodies that touch each: those of body k are near[start[k]] to near[start[k + 1]]. */
struct neighbours {
    int near[2 * RB_LIGHTS], start[RB_BODIES + 2];
};

static inline void find_neighbours(const struct flights *all, struct neighbours *out)
{
    int end[RB_BODIES + 1];
    memset(out->start, 0, sizeof out->start);
    for (int k = 0; k < all->count; k++) {
        const struct light *c = &all->light[k];
        out->start[c->a + 1] += c->b < RB_BODIES;
        out->start[c->b + 1] += c->b < RB_BODIES;
    }
    for (int k = 0; k < RB_BODIES; k++)
        out->start[k + 1] += out->start[k];
    memcpy(end, out->start, sizeof end);
    for (int k = 0; k < all->count; k++) {
        const struct light *c = &all->light[k];
        if (c->b == RB_BODIES)
            continue;
        out->near[end[c->a]++] = c->b;
        out->near[end[c->b]++] = c->a;
    }
}

/* The body of fewest neighbours of those that are not in the order; -1 where all are. */
static inline int outermost(const struct flights *all, const struct neighbours *n,
                            const unsigned char *known)
{
    int best = -1, fewest = 0;
    for (int i = 0; i < all->bodies; i++) {
        const int k = all->touched[i], count = n->start[k + 1] - n->start[k];
        if (!known[k] && (best < 0 || count < fewest)) {
            best = k;
            fewest = count;
        }
    }
    return best;
}

/* From the outermost body of each heap to its neighbours, and backwards. */
static inline void order_bodies(const struct flights *all, struct envelope *e)
{
    struct neighbours n;
    unsigned char known[RB_BODIES + 1] = {0};
    int queue[RB_BODIES + 1], count = 0;
    find_neighbours(all, &n);
    for (int next = 0; next < all->bodies; next++) {
        if (next == count) {
            queue[count] = outermost(all, &n, known);
            known[queue[count++]] = 1;
        }
        for (int at = n.start[queue[next]]; at < n.start[queue[next] + 1]; at++) {
            const int k = n.near[at];
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

/* The envelope. Returns 0 where there is no room for it, or a factor would take longer than so many
   sweeps. */
static inline int make_envelope(const struct flights *all, int sweeps, struct envelope *e)
{
    int size = 0;
    double work = 0.0;
    order_bodies(all, e);
    for (int i = 0; i < all->bodies; i++)
        e->first[i] = i;
    for (int k = 0; k < all->count; k++) {
        const struct light *c = &all->light[k];
        if (c->b == RB_BODIES)
            continue;
        const int i = e->place[c->a], j = e->place[c->b], low = i < j ? i : j, high = i < j ? j : i;
        e->first[high] = low < e->first[high] ? low : e->first[high];
    }
    for (int i = 0; i < all->bodies; i++) {
        const int width = i - e->first[i] + 1;
        e->at[i] = size - e->first[i];
        size += width;
        work += (double)width * width;
        if (size > RB_BLOCKS || work > (double)sweeps * all->count)
            return 0;
    }
    return all->bodies > 0;
}

/* Adds s x y^T to a block. */
static inline void add_outer(double s, const double *x, const double *y, double *block)
{
    for (int i = 0; i < 6; i++)
        add_times(6, s * x[i], y, block + 6 * i);
}

/* B - X Y^T */
static inline void take_product(const double *x, const double *y, double *b)
{
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < 6; j++)
            for (int k = 0; k < 6; k++)
                b[6 * i + j] -= x[6 * i + k] * y[6 * j + k];
}

/* B L^-T */
static inline void divide_right(const double *l, double *b)
{
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < 6; j++) {
            for (int k = 0; k < j; k++)
                b[6 * i + j] -= b[6 * i + k] * l[6 * j + k];
            b[6 * i + j] /= l[7 * j];
        }
}

/* The factor L of a block L L^T in its place. Returns 0 where there is none. */
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

static inline int factor_envelope(struct envelope *e, int count)
{
    for (int i = 0; i < count; i++) {
        double (*row)[36] = e->block + e->at[i];
        for (int j = e->first[i]; j <= i; j++) {
            double (*other)[36] = e->block + e->at[j];
            for (int k = e->first[i] > e->first[j] ? e->first[i] : e->first[j]; k < j; k++)
                take_product(row[k], other[k], row[j]);
            if (j < i)
                divide_right(other[j], row[j]);
        }
        if (!factor_block(row[i]))
            return 0;
    }
    return 1;
}

/* x - A y, or with A transposed. */
static inline void take_times(const double *a, const double *y, int transposed, double *x)
{
    for (int i = 0; i < 6; i++)
        for (int k = 0; k < 6; k++)
            x[i] -= a[transposed ? 6 * k + i : 6 * i + k] * y[k];
}

static inline void divide_lower(const double *l, double *x)
{
    for (int i = 0; i < 6; i++) {
        for (int k = 0; k < i; k++)
            x[i] -= l[6 * i + k] * x[k];
        x[i] /= l[7 * i];
    }
}

static inline void divide_upper(const double *l, double *x)
{
    for (int i = 5; i >= 0; i--) {
        for (int k = i + 1; k < 6; k++)
            x[i] -= l[6 * k + i] * x[k];
        x[i] /= l[7 * i];
    }
}

/* The solution in the place of the other side. */
static inline void solve_envelope(const struct envelope *e, int count, double (*x)[6])
{
    for (int i = 0; i < count; i++) {
        for (int j = e->first[i]; j < i; j++)
            take_times(e->block[e->at[i] + j], x[j], 0, x[i]);
        divide_lower(e->block[e->at[i] + i], x[i]);
    }
    for (int i = count - 1; i >= 0; i--) {
        divide_upper(e->block[e->at[i] + i], x[i]);
        for (int j = e->first[i]; j < i; j++)
            take_times(e->block[e->at[i] + j], x[i], 1, x[j]);
    }
}

/* The stiffness of a part of a contact: none where it opens, and none across it where it slides;
   `step` has what is missing. */
static inline double stiffness_at(const struct light *c, const double *a, const double *b, int i)
{
    const double limit = c->mu * c->impulse[0],
                 squared = c->impulse[1] * c->impulse[1] + c->impulse[2] * c->impulse[2];
    double moved = 0.0;
    for (int k = 0; k < 6; k++)
        moved += a[k] * a[k] + b[k] * b[k];
    const int held = i == 0 ? c->impulse[0] > c->floor || c->step[0] > 0.0
                            : squared < (1.0 - 1e-9) * limit * limit;
    return held && moved > 0.0 ? RB_STIFF / moved : 0.0;
}

/* Row i of a contact, of both bodies, as numbers. */
static inline void row_at(const struct light *c, int i, double *a, double *b)
{
    parts_of(c->of_a[i], a);
    parts_of(c->of_b[i], b);
}

/* What is missing at a contact, as `step`. */
static inline void miss(const struct flights *all, struct light *c)
{
    const two *x = all->body[c->a].y, *y = all->body[c->b].y;
    c->step[0] = c->least - row_speed(c->of_a[0], c->of_b[0], x, y);
    for (int i = 1; i < 3; i++)
        c->step[i] = -c->shift[i - 1] - row_speed(c->of_a[i], c->of_b[i], x, y);
}

/* Adds what a contact does to the matrix and to the other side. */
static inline void hold_light(const struct light *c, struct envelope *e, double (*pull)[6])
{
    const int i = e->place[c->a], j = c->b < RB_BODIES ? e->place[c->b] : -1;
    for (int part = 0; part < 3; part++) {
        double a[6], b[6];
        row_at(c, part, a, b);
        const double stiff = stiffness_at(c, a, b, part);
        if (!(stiff > 0.0))
            continue;
        add_outer(stiff, a, a, e->block[e->at[i] + i]);
        add_times(6, stiff * c->step[part], a, pull[i]);
        if (j < 0)
            continue;
        add_outer(stiff, b, b, e->block[e->at[j] + j]);
        add_times(6, stiff * c->step[part], b, pull[j]);
        add_outer(stiff, i > j ? a : b, i > j ? b : a,
                  e->block[i > j ? e->at[i] + j : e->at[j] + i]);
    }
}

/* The changes of the impulses of a contact for the sum of what velocities leave each time. */
static inline void change_of(const struct light *c, const struct envelope *e,
                             const double (*sum)[6], double *change)
{
    static const double none[6] = {0.0, 0.0, 0.0, 0.0, 0.0, 0.0};
    const double *x = sum[e->place[c->a]], *y = c->b < RB_BODIES ? sum[e->place[c->b]] : none;
    for (int i = 0; i < 3; i++) {
        double a[6], b[6], left = RB_PROXIMAL * c->step[i];
        row_at(c, i, a, b);
        const double stiff = stiffness_at(c, a, b, i);
        for (int k = 0; k < 6; k++)
            left -= a[k] * x[k] + b[k] * y[k];
        change[i] = stiff * left;
    }
}

/* A contact with its changes, within what its normal impulse allows. */
static inline void change_light(struct flights *all, struct light *c, const double *change)
{
    double next[3];
    for (int i = 0; i < 3; i++)
        next[i] = c->impulse[i] + change[i];
    next[0] = more_of(next[0], c->floor);
    c->limit = c->mu * next[0];
    const double length = sqrt(next[1] * next[1] + next[2] * next[2]);
    for (int i = 0; i < 3; i++) {
        next[i] *= i > 0 && length > c->limit ? c->limit / length : 1.0;
        c->step[i] = next[i] - c->impulse[i];
        c->impulse[i] = next[i];
    }
    push_flights(all, c, 0);
}

/* The function that sweeps lower, but for a constant. */
static inline double height_of(const struct flights *all)
{
    double sum = 0.0;
    for (int k = 0; k < all->bodies; k++) {
        double y[6];
        parts_of(all->body[all->touched[k]].y, y);
        for (int i = 0; i < 6; i++)
            sum += 0.5 * y[i] * y[i];
    }
    for (int k = 0; k < all->count; k++) {
        const struct light *c = &all->light[k];
        sum += c->impulse[1] * c->shift[0] + c->impulse[2] * c->shift[1] - c->impulse[0] * c->least;
    }
    return sum;
}

/* All ways end here, with the velocities and impulses of now. */
static inline void end_ways(struct flights *all)
{
    for (int k = 0; k < all->bodies; k++) {
        struct flight *one = &all->body[all->touched[k]];
        memcpy(one->last, one->y, sizeof one->y);
        memset(one->way, 0, sizeof one->way);
    }
    for (int k = 0; k < all->count; k++)
        memset(all->light[k].way, 0, sizeof all->light[k].way);
}

/* One solution with the contacts that press, and slide, as they do now. Returns 0 where there is
   none. */
static inline int hold_bodies(struct flights *all, struct envelope *e)
{
    double x[RB_BODIES][6], sum[RB_BODIES][6], change[RB_LIGHTS][3];
    const int n = all->bodies;
    memset(x, 0, (size_t)n * sizeof *x);
    memset(sum, 0, (size_t)n * sizeof *sum);
    for (int i = 0; i < n; i++) {
        memset(e->block[e->at[i] + e->first[i]], 0,
               (size_t)(i - e->first[i] + 1) * sizeof *e->block);
        for (int k = 0; k < 6; k++)
            e->block[e->at[i] + i][7 * k] = 1.0;
    }
    for (int k = 0; k < all->count; k++) {
        miss(all, &all->light[k]);
        hold_light(&all->light[k], e, x);
    }
    if (!factor_envelope(e, n))
        return 0;
    for (int time = 0; time < RB_PROXIMAL; time++) {
        solve_envelope(e, n, x); /* what is missing then is E dp: this is the other side */
        for (int i = 0; i < n; i++)
            add_times(6, RB_PROXIMAL - time, x[i], sum[i]);
    }
    for (int k = 0; k < all->count; k++)
        change_of(&all->light[k], e, (const double (*)[6])sum, change[k]);
    for (int k = 0; k < all->count; k++)
        change_light(all, &all->light[k], change[k]);
    return 1;
}

/* Impulses, and the velocities that they make. */
struct held {
    double impulse[RB_LIGHTS][3];
    two y[RB_BODIES][3];
};

static inline void note_held(const struct flights *all, struct held *out)
{
    for (int k = 0; k < all->count; k++)
        memcpy(out->impulse[k], all->light[k].impulse, sizeof out->impulse[k]);
    for (int k = 0; k < all->bodies; k++)
        memcpy(out->y[k], all->body[all->touched[k]].y, sizeof out->y[k]);
}

static inline void hold_again(struct flights *all, const struct held *from)
{
    for (int k = 0; k < all->count; k++)
        memcpy(all->light[k].impulse, from->impulse[k], sizeof from->impulse[k]);
    for (int k = 0; k < all->bodies; k++)
        memcpy(all->body[all->touched[k]].y, from->y[k], sizeof from->y[k]);
}

/* All at once, until that lowers what sweeps lower no more: where contacts let go or begin to slide
   it may be higher before it is lower, `most` times but one. Returns 0 where it was not tried. */
static inline int solve_together(struct flights *all, int sweeps, int most)
{
    const int blocks = RB_BLOCKS, bodies = RB_BODIES;
    struct envelope e;
    struct held best;
    if (blocks < bodies || !make_envelope(all, sweeps, &e))
        return 0;
    double height = height_of(all);
    note_held(all, &best);
    for (int hold = 0, higher = 0; hold < RB_HOLDS && higher < most; hold++) {
        const double next = hold_bodies(all, &e) ? height_of(all) : INFINITY;
        higher = next < height ? 0 : higher + 1;
        if (higher > 0)
            continue;
        height = next;
        note_held(all, &best);
    }
    hold_again(all, &best);
    end_ways(all);
    return 1;
}

#endif
