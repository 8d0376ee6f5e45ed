/* The axis along which two boxes are farthest apart, or overlap least: fifteen candidates, faces
   before edges (Gottschalk, Lin and Manocha 1996). */

#ifndef RB_BOXES_H
#define RB_BOXES_H

#include "proximity.h"

static inline double half_width(const struct placed *a, const double *n)
{
    double local[3];
    turn_back(a->r, n, local);
    return a->shape[1] * fabs(local[0]) + a->shape[2] * fabs(local[1]) +
           a->shape[3] * fabs(local[2]);
}

/* Takes the axis if the boxes are farther apart along it, by more than `bias`. Returns whether it
   did. */
static inline int try_axis(const struct placed *a, const struct placed *b, const double *axis,
                           double bias, struct proximity *c)
{
    double apart[3];
    difference(a->p, b->p, apart);
    const double s = dot(apart, axis), gap = fabs(s) - half_width(a, axis) - half_width(b, axis);
    if (!(gap > c->gap + bias))
        return 0;
    c->gap = gap;
    times(s < 0.0 ? -1.0 : 1.0, axis, c->n);
    return 1;
}

/* The edge of a box along its axis i that is farthest along d: its middle and half of it. */
static inline void edge_of(const struct placed *a, int i, const double *d, double *middle,
                           double *half)
{
    double local[3];
    turn_back(a->r, d, local);
    local_support(a->shape, local, local);
    local[i] = 0.0;
    turn(a->r, local, middle);
    along(middle, 1.0, a->p, middle);
    axis_of(a, i, half);
    times(a->shape[1 + i], half, half);
}

/* The normal and the gap along it; points only where two edges cross. Returns whether they do. */
static inline int of_boxes(const struct placed *a, const struct placed *b, struct proximity *c)
{
    const double bias = 1e-6 * fmin(a->shape[RB_SHAPE_SIZE], b->shape[RB_SHAPE_SIZE]);
    double axis[3], u[3], v[3], p[3], q[3];
    int edges = -1;
    c->gap = -INFINITY;
    for (int k = 0; k < 6; k++) {
        axis_of(k < 3 ? a : b, k % 3, axis);
        try_axis(a, b, axis, k == 0 ? 0.0 : bias, c);
    }
    for (int k = 0; k < 9; k++) {
        axis_of(a, k / 3, u);
        axis_of(b, k % 3, v);
        cross(u, v, axis);
        if (dot(axis, axis) < 1e-6)
            continue;
        normalize(axis);
        if (try_axis(a, b, axis, bias, c))
            edges = k;
    }
    if (edges < 0)
        return 0;
    times(-1.0, c->n, axis);
    edge_of(a, edges / 3, axis, p, u);
    edge_of(b, edges % 3, c->n, q, v);
    closest_of_segments(p, u, q, v, c->on_a, c->on_b);
    return 1;
}

#endif
