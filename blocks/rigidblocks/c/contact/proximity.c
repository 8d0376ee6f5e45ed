/* Proximity and contact points of shapes as a shared library, for those who call from Python. */

#include "manifold.h"

#if defined(_WIN32)
#define RB_EXPORT __declspec(dllexport)
#else
#define RB_EXPORT __attribute__((visibility("default")))
#endif

RB_EXPORT void shapes_proximity(const double *shape_a, const double *shape_b, const double *poses,
                                int count, double *out);
RB_EXPORT int shapes_collide(const double *shape_a, const double *shape_b, const double *poses,
                             double margin, double *out);

static void place(struct placed *a, const double *shape, const double *pose)
{
    a->shape = shape;
    memcpy(a->r, pose, sizeof a->r);
    memcpy(a->p, pose + 9, sizeof a->p);
}

/* For each of `count` pairs of poses (two of 9 + 3 numbers): gap, normal, point of A, point of
   B. */
RB_EXPORT void shapes_proximity(const double *shape_a, const double *shape_b, const double *poses,
                                int count, double *out)
{
    for (int k = 0; k < count; k++, poses += 24, out += 10) {
        struct placed a, b;
        struct proximity c = {.gap = 0.0};
        place(&a, shape_a, poses);
        place(&b, shape_b, poses + 12);
        proximity(&a, &b, &c);
        out[0] = c.gap;
        memcpy(out + 1, c.n, sizeof c.n);
        memcpy(out + 4, c.on_a, sizeof c.on_a);
        memcpy(out + 7, c.on_b, sizeof c.on_b);
    }
}

/* The normal, then a point and a gap for each contact; returns how many there are. */
RB_EXPORT int shapes_collide(const double *shape_a, const double *shape_b, const double *poses,
                             double margin, double *out)
{
    struct placed a, b;
    struct manifold m = {.count = 0};
    place(&a, shape_a, poses);
    place(&b, shape_b, poses + 12);
    collide(&a, &b, margin, margin, &m);
    memcpy(out, m.n, sizeof m.n);
    for (int k = 0; k < m.count; k++) {
        memcpy(out + 3 + 4 * k, m.point[k], sizeof m.point[k]);
        out[6 + 4 * k] = m.gap[k];
    }
    return m.count;
}
