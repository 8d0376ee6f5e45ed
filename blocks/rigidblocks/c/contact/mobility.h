/* What the impulses of contacts and stops change of the velocities of free bodies and of trees. */

#ifndef RB_MOBILITY_H
#define RB_MOBILITY_H

#include "loops.h"

enum { RB_HELD = RB_CLOSURES > 0 ? RB_SPAN : 1 };

/* What a contact is for the freedoms of a tree, in coordinates of unit inertia: L^-T J^T, its
   velocity along the frame by those that move the body, from the last to the first, which is also
   what unit impulses change of them. Where loops hold they change all, by w. Where there is
   torsional or rolling friction (RB_PARTS is 6, not 3), the angular velocity and unit moments are
   behind. */
struct rows {
    double y[RB_DEPTH][RB_PARTS], w[RB_HELD][RB_PARTS];
};

/* What a contact is for a free body: the angular velocity enters its velocity along the frame by
   `spin`, and unit impulses change it by `whirl`. */
struct arms {
    double spin[3][3], whirl[3][3];
};

/* A freedom that is kept between two velocities by an impulse of at most `most`: a stop, or dry
   friction, by its number. What is beyond its stop is moved back at `push`. y and w are as those of
   a contact. */
struct stop {
    int number, dof;
    double low, high, most, impulse, mass, step, way, change, push, pushed, y[RB_DEPTH], w[RB_HELD];
};

/* A contact, what sweeps read first: its bodies; the normal towards a and two tangents; what unit
   impulses change, what a unit of velocity takes along the normal and at least across it, and the
   most that is changed across it; the least velocity along the normal, and how much faster a point
   is over the step than at its start; friction, `mu` being that of what sticks where it stuck;
   impulses, and the moments of torsion and rolling, what the last sweep changed of them and those
   before, the least along the normal, and what is solved for directly; the arms from the centres of mass. Then restitution, and
   `open`, what is changed with open loops. */
struct touch {
    int a, b;
    double frame[3][3], mass[9], inertia, rate, across_it, least, shift[3], mu;
    double impulse[RB_PARTS], step[RB_PARTS], way[RB_PARTS], floor, change[3];
    struct arms arms[2];
    double arm_a[3], arm_b[3], push, e, torsional, rolling, lever, key, gap;
    /* velocities before the step against those now, those before a strike, and the least one of
       what does not bounce */
    double lead[3], before[3], resting;
    double open, twist, roll, pushed, struck[RB_PARTS], compressed[RB_POISSON ? RB_PARTS : 1];
    int shape_a, shape_b, sticks;
    struct rows rows[2];
};

/* The angular velocity of the body that contacts were made of last, along their frame: L^-T J^T. */
struct turns {
    double frame[3][3], y[RB_DEPTH][3];
    int body;
};

/* All contacts, and those stops that may be reached, and the numbers of those contacts that are
   solved for, with so many of the stops. */
struct solution {
    struct touch touch[RB_CONTACTS];
    struct stop stop[RB_STOPS + 1];
    struct turns turns[2]; /* of a, of b */
    int listed[RB_CONTACTS], list, stops, count, reached, sweeps, strike_sweeps;
    double residual;
};

/* What a free body is for a contact, and what unit impulses change of its velocities there (3 x 3,
   added). */
static inline void add_mobility(const struct body *body, const double *arm, struct arms *out,
                                struct touch *c)
{
    for (int i = 0; i < 3; i++) {
        cross(arm, c->frame[i], out->spin[i]);
        turn(body->turning, out->spin[i], out->whirl[i]);
        c->mass[4 * i] += body->lightness;
    }
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++)
            c->mass[3 * i + j] += dot(out->spin[i], out->whirl[j]);
}

/* A vector along the frame of a contact. */
static inline void project(const struct touch *c, const double *v, double *out)
{
    out[0] = dot(c->frame[0], v);
    out[1] = dot(c->frame[1], v);
    out[2] = dot(c->frame[2], v);
}

/* L^-T of three columns at once, by the freedoms that move a body, from the last to the first. */
static inline void solve_three(const struct scene *s, int leaf, int stride, double *y)
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

/* The rows of a contact for the tree of a body by themselves. */
static inline void make_own_rows(const struct scene *s, struct touch *c, int side)
{
    const int k = side ? c->b : c->a, leaf = RB_LEAF[k], *path = RB_PATH + RB_DOF_ROW[leaf];
    double (*y)[RB_PARTS] = c->rows[side].y, point[3];
    along(s->body[k].x, 1.0, side ? c->arm_b : c->arm_a, point);
    for (int at = 0; at <= RB_DOF_DEPTH[leaf]; at++) {
        const double *column = s->column[path[at]];
        double arm[3], v[3];
        difference(point, s->link[RB_DOF_LINK[path[at]]].o, arm);
        cross(column, arm, v);
        along(v, 1.0, column + 3, v);
        project(c, v, y[at]);
        if (RB_PARTS > 3)
            project(c, column, y[at] + RB_PARTS - 3);
    }
    for (int i = 0; i < RB_PARTS; i += 3)
        solve_three(s, leaf, RB_PARTS, y[0] + i);
}

/* Whether the angular velocity of a body along the frame of a contact is known from another one. */
static inline int is_known(const struct touch *c, int body, const struct turns *known)
{
    return known->body == body && memcmp(known->frame, c->frame, sizeof c->frame) == 0;
}

/* The rows from those of the contact before, where it is at another point of the same body and has
   the same frame: they differ by those of the angular velocity. */
static inline void make_next_rows(const struct scene *s, struct touch *c, int side,
                                  struct turns *known)
{
    const struct touch *last = c - 1;
    const int k = side ? c->b : c->a, leaf = RB_LEAF[k], *path = RB_PATH + RB_DOF_ROW[leaf];
    double (*y)[RB_PARTS] = c->rows[side].y, way[3], u[3];
    if (!is_known(c, k, known)) {
        known->body = k;
        memcpy(known->frame, c->frame, sizeof c->frame);
        for (int at = 0; at <= RB_DOF_DEPTH[leaf]; at++)
            project(c, s->column[path[at]], known->y[at]);
        solve_three(s, leaf, 3, known->y[0]);
    }
    if (side)
        difference(c->arm_b, last->arm_b, u);
    else
        difference(c->arm_a, last->arm_a, u);
    project(c, u, way);
    for (int at = 0; at <= RB_DOF_DEPTH[leaf]; at++) {
        cross(known->y[at], way, u);
        along(last->rows[side].y[at], 1.0, u, y[at]);
        if (RB_PARTS > 3)
            memcpy(y[at] + RB_PARTS - 3, known->y[at], sizeof known->y[at]);
    }
}

/* The rows of a contact for the tree of a body: L^-T J^T, and what loops leave of it. */
static inline void make_rows(const struct scene *s, struct solution *all, struct touch *c, int side)
{
    const int k = side ? c->b : c->a;
    if (all->count > 0 && (side ? c[-1].b : c[-1].a) == k &&
        memcmp(c[-1].frame, c->frame, sizeof c->frame) == 0)
        make_next_rows(s, c, side, &all->turns[side]);
    else
        make_own_rows(s, c, side);
    for (int at = 0; RB_CLOSURES > 0 && at <= RB_DOF_DEPTH[RB_LEAF[k]]; at++)
        c->open += c->rows[side].y[at][0] * c->rows[side].y[at][0];
    for (int i = 0; RB_CLOSURES > 0 && i < RB_PARTS; i++)
        hold_row(s, RB_LEAF[k], &c->rows[side].y[0][i], RB_PARTS, &c->rows[side].w[0][i]);
}

/* What unit impulses on one side change of the velocities of a link on the same or the other one of
   the same tree; `from` 3 on, what unit moments do of the angular ones (3 x 3, added). */
static inline void add_tree_mobility(const struct touch *c, int of, int by, int from, double *mass)
{
    const int a = RB_LEAF[of ? c->b : c->a], b = RB_LEAF[by ? c->b : c->a];
    const int *here = RB_PATH + RB_DOF_ROW[a], *there = RB_PATH + RB_DOF_ROW[b];
    double sum[9] = {0.0};
    /* from the root, as far as they go together */
    for (int i = RB_DOF_DEPTH[a], k = RB_DOF_DEPTH[b]; i >= 0; i--, k--) {
        if (RB_CLOSURES == 0 && (k < 0 || here[i] != there[k]))
            break;
        const double *y = c->rows[of].y[i] + from;
        const double *w =
            RB_CLOSURES > 0 ? c->rows[by].w[here[i] - RB_DOF_FIRST[a]] : c->rows[by].y[k];
        along(sum, y[0], w + from, sum);
        along(sum + 3, y[1], w + from, sum + 3);
        along(sum + 6, y[2], w + from, sum + 6);
    }
    for (int i = 0; i < 9; i++)
        mass[i] += of == by ? sum[i] : -sum[i];
}

/* What unit moments change of the angular velocity of a free body (3 x 3, added). */
static inline void add_turning(const struct scene *s, const struct touch *c, int k, double *mass)
{
    double u[3];
    for (int j = 0; j < 3; j++) {
        turn(s->body[k].turning, c->frame[j], u);
        for (int i = 0; i < 3; i++)
            mass[3 * i + j] += dot(c->frame[i], u);
    }
}

/* How much a moment changes of the spin about the normal, and at most of the rolling. */
static inline void prepare_turning(const struct scene *s, struct touch *c)
{
    const int a = RB_LEAF[c->a], b = RB_LEAF[c->b];
    double mass[9] = {0.0};
    for (int side = 0; side < 2; side++) {
        if ((side ? b : a) < 0)
            add_turning(s, c, side ? c->b : c->a, mass);
        else
            add_tree_mobility(c, side, side, RB_PARTS - 3, mass);
    }
    c->lever =
        fmax(c->a < RB_BODIES ? norm(c->arm_a) : 0.0, c->b < RB_BODIES ? norm(c->arm_b) : 0.0);
    if (a >= 0 && b >= 0 && RB_DOF_FIRST[a] == RB_DOF_FIRST[b]) {
        add_tree_mobility(c, 0, 1, RB_PARTS - 3, mass);
        add_tree_mobility(c, 1, 0, RB_PARTS - 3, mass);
    }
    const double mean = 0.5 * (mass[4] + mass[8]), half = 0.5 * (mass[4] - mass[8]);
    const double most = mean + sqrt(half * half + mass[5] * mass[5]);
    c->twist = mass[0] > 1e-12 * most ? 1.0 / mass[0] : 0.0;
    c->roll = most > 1e-12 * mass[0] ? 1.0 / most : 0.0;
}

/* What is particular to a contact. Returns 0 for one whose impulse could move nothing. */
static inline int prepare(const struct scene *s, struct solution *all, struct touch *c)
{
    const int a = RB_LEAF[c->a], b = RB_LEAF[c->b];
    memset(c->mass, 0, sizeof c->mass);
    for (int side = 0; side < 2; side++) {
        if ((side ? b : a) < 0) {
            add_mobility(&s->body[side ? c->b : c->a], side ? c->arm_b : c->arm_a, &c->arms[side],
                         c);
        } else {
            make_rows(s, all, c, side);
            add_tree_mobility(c, side, side, 0, c->mass);
        }
    }
    if (a >= 0 && b >= 0 && RB_DOF_FIRST[a] == RB_DOF_FIRST[b]) { /* a tree that touches itself */
        add_tree_mobility(c, 0, 1, 0, c->mass);
        add_tree_mobility(c, 1, 0, 0, c->mass);
    }
    const double mean = 0.5 * (c->mass[4] + c->mass[8]), half = 0.5 * (c->mass[4] - c->mass[8]);
    /* the largest eigenvalue of the tangents */
    const double most = mean + sqrt(half * half + c->mass[5] * c->mass[5]);
    c->inertia = c->mass[0] > 0.0 ? 1.0 / c->mass[0] : 0.0;
    c->rate = most > 1e-12 * c->mass[0] ? 1.0 / most : 0.0;
    c->across_it = c->rate > 0.0 ? most : 0.0;
    return c->mass[0] > 1e-12 * most && c->mass[0] > 1e-9 * c->open;
}

#endif
