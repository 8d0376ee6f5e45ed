/* What the impulses of contacts and stops change of the velocities of free bodies and of trees. */

#ifndef RB_MOBILITY_H
#define RB_MOBILITY_H

#include "loops.h"

/* What a contact is for the freedoms of a tree: its velocity along the frame by those that move the body, from the last
   to the first, and what unit impulses change of all of them; where there is torsional or rolling friction (RB_PARTS is 6, not
   3), the angular velocity and unit moments behind. */
struct rows {
    double j[RB_PARTS][RB_DEPTH], w[RB_PARTS][RB_SPAN];
};

/* What a contact is for a free body: the angular velocity enters its velocity along the frame by `spin`, and unit impulses change it
   by `whirl`. */
struct arms {
    double spin[3][3], whirl[3][3];
};

/* A freedom that is kept between two velocities by an impulse of at most `most`: a stop, or dry friction. What is beyond its stop
   is moved back at `push`. */
struct stop {
    int dof;
    double low, high, most, impulse, mass, step, way, push, pushed, w[RB_SPAN];
};

/* A contact, what sweeps read first: its bodies; the normal towards a and two tangents; what unit impulses change, what a unit of
   velocity takes along the normal and at least across it, and the most that is changed across it; the least velocity along the
   normal, and how much faster a point is over the step than at its start; friction, `mu` being that of what sticks where it
   stuck; impulses, and the moments of torsion and rolling; the arms from the centres of mass. Then restitution, and `open`, what
   is changed with open loops. */
struct touch {
    int a, b;
    double frame[3][3], mass[9], inertia, rate, across_it, least, shift[3], mu;
    double impulse[RB_PARTS], step[RB_PARTS], way[RB_PARTS];
    struct arms arms[2];
    double arm_a[3], arm_b[3], push, e, torsional, rolling, lever, key, gap;
    double lead[3], before[3], resting; /* velocities before the step against those now, those before a strike, and the least
                                           one of what does not bounce */
    double open, twist, roll, pushed, struck[RB_PARTS];
    int shape_a, shape_b, sticks;
    struct rows rows[2];
};

/* All contacts and stops, and the numbers of those contacts that are solved for, with so many of the stops. */
struct solution {
    struct touch touch[RB_CONTACTS];
    struct stop stop[RB_STOPS + 1];
    int listed[RB_CONTACTS], list, stops, count, sweeps, strike_sweeps;
    double residual;
};

/* What a free body is for a contact, and what unit impulses change of its velocities there (3 x 3, added). */
static inline void add_mobility(const struct body *body, const double *arm, struct arms *out, struct touch *c)
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

/* The rows of a contact for the tree of a body: J, and H^-1 J^T. */
static inline void make_rows(const struct scene *s, struct touch *c, int side)
{
    const int k = side ? c->b : c->a, leaf = RB_LEAF[k], first = RB_DOF_FIRST[leaf], count = RB_DOF_COUNT[leaf];
    double point[3], x[RB_DOFS + 1];
    along(s->body[k].x, 1.0, side ? c->arm_b : c->arm_a, point);
    for (int d = leaf, at = 0; d >= 0; d = RB_DOF_PARENT[d], at++) {
        double arm[3], v[3];
        difference(point, s->link[RB_DOF_LINK[d]].o, arm);
        cross(s->column[d], arm, v);
        along(v, 1.0, s->column[d] + 3, v);
        for (int i = 0; i < 3; i++)
            c->rows[side].j[i][at] = dot(c->frame[i], v);
        for (int i = 3; i < RB_PARTS; i++)
            c->rows[side].j[i][at] = dot(c->frame[i - 3], s->column[d]);
    }
    for (int i = 0; i < RB_PARTS; i++) {
        memset(x + first, 0, (size_t)count * sizeof *x);
        for (int d = leaf, at = 0; d >= 0; d = RB_DOF_PARENT[d], at++)
            x[d] = c->rows[side].j[i][at];
        solve_upwards(s, leaf, x);
        for (int d = 0; RB_CLOSURES > 0 && i == 0 && d < count; d++)
            c->open += x[first + d] * x[first + d];
        keep_loops(s, first, count, x);
        solve_downwards(s, first, count, x);
        memcpy(c->rows[side].w[i], x + first, (size_t)count * sizeof *x);
    }
}

/* What unit impulses on one side change of the velocities of a link on the same or the other one. */
static inline void add_tree_mobility(struct touch *c, int of, int by)
{
    const int leaf = RB_LEAF[of ? c->b : c->a], first = RB_DOF_FIRST[leaf];
    for (int d = leaf, at = 0; d >= 0; d = RB_DOF_PARENT[d], at++)
        for (int i = 0; i < 3; i++)
            for (int j = 0; j < 3; j++)
                c->mass[3 * i + j] += (of == by ? 1.0 : -1.0) * c->rows[of].j[i][at] * c->rows[by].w[j][d - first];
}

/* What unit moments change of the angular velocity of one side by those on another (3 x 3, added). */
static inline void add_turning(const struct scene *s, const struct touch *c, int of, int by, double *mass)
{
    const int k = of ? c->b : c->a, leaf = RB_LEAF[k];
    double u[3];
    for (int j = 0; leaf < 0 && j < 3; j++) {
        turn(s->body[k].turning, c->frame[j], u);
        for (int i = 0; i < 3; i++)
            mass[3 * i + j] += dot(c->frame[i], u);
    }
    for (int d = leaf, at = 0; d >= 0; d = RB_DOF_PARENT[d], at++)
        for (int i = 3; i < RB_PARTS; i++)
            for (int j = 3; j < RB_PARTS; j++)
                mass[3 * (i - 3) + j - 3] += (of == by ? 1.0 : -1.0) * c->rows[of].j[i][at] *
                                             c->rows[by].w[j][d - RB_DOF_FIRST[leaf]];
}

/* How much a moment changes of the spin about the normal, and at most of the rolling. */
static inline void prepare_turning(const struct scene *s, struct touch *c)
{
    const int a = RB_LEAF[c->a], b = RB_LEAF[c->b];
    double mass[9] = {0.0};
    add_turning(s, c, 0, 0, mass);
    add_turning(s, c, 1, 1, mass);
    c->lever = fmax(c->a < RB_BODIES ? norm(c->arm_a) : 0.0, c->b < RB_BODIES ? norm(c->arm_b) : 0.0);
    if (a >= 0 && b >= 0 && RB_DOF_FIRST[a] == RB_DOF_FIRST[b]) {
        add_turning(s, c, 0, 1, mass);
        add_turning(s, c, 1, 0, mass);
    }
    const double mean = 0.5 * (mass[4] + mass[8]), half = 0.5 * (mass[4] - mass[8]);
    const double most = mean + sqrt(half * half + mass[5] * mass[5]);
    c->twist = mass[0] > 1e-12 * most ? 1.0 / mass[0] : 0.0;
    c->roll = most > 1e-12 * mass[0] ? 1.0 / most : 0.0;
}

/* What is particular to a contact. Returns 0 for one whose impulse could move nothing. */
static inline int prepare(const struct scene *s, struct touch *c)
{
    const int a = RB_LEAF[c->a], b = RB_LEAF[c->b];
    memset(c->mass, 0, sizeof c->mass);
    for (int side = 0; side < 2; side++) {
        if ((side ? b : a) < 0) {
            add_mobility(&s->body[side ? c->b : c->a], side ? c->arm_b : c->arm_a, &c->arms[side], c);
        } else {
            make_rows(s, c, side);
            add_tree_mobility(c, side, side);
        }
    }
    if (a >= 0 && b >= 0 && RB_DOF_FIRST[a] == RB_DOF_FIRST[b]) { /* a tree that touches itself */
        add_tree_mobility(c, 0, 1);
        add_tree_mobility(c, 1, 0);
    }
    const double mean = 0.5 * (c->mass[4] + c->mass[8]), half = 0.5 * (c->mass[4] - c->mass[8]);
    const double most = mean + sqrt(half * half + c->mass[5] * c->mass[5]); /* the largest eigenvalue of the tangents */
    c->inertia = c->mass[0] > 0.0 ? 1.0 / c->mass[0] : 0.0;
    c->rate = most > 1e-12 * c->mass[0] ? 1.0 / most : 0.0;
    c->across_it = c->rate > 0.0 ? most : 0.0;
    return c->mass[0] > 1e-12 * most && c->mass[0] > 1e-9 * c->open;
}

#endif
