/* Shared library for Python: distances and contact points of shapes. */

#include "manifold.h"

#if defined(_WIN32)
#define RB_EXPORT __declspec(dllexport)
#else
#define RB_EXPORT __attribute__((visibility("default")))
#endif

/* Poses of two shapes. */
struct rb_poses {
    struct rb_pose a, b;
};

/* Signed distance, unit normal from B towards A, and closest points of A and B. */
struct rb_distance {
    double gap, n[3], on_a[3], on_b[3];
};

/* Common normal of up to RB_MANIFOLD contacts, and the point and gap of each. */
struct rb_contact_points {
    double n[3];
    struct {
        double point[3], gap;
    } at[RB_MANIFOLD];
};

RB_EXPORT void rb_shapes_proximity(const double *shape_a, const double *shape_b,
                                   const struct rb_poses *poses, int count,
                                   struct rb_distance *out);
RB_EXPORT int rb_shapes_collide(const double *shape_a, const double *shape_b,
                                const struct rb_poses *poses, double margin,
                                struct rb_contact_points *out);

static void place(struct rb_placed_shape *a, const double *shape, const struct rb_pose *pose)
{
    a->shape = shape;
    memcpy(a->r, pose->r, sizeof a->r);
    memcpy(a->p, pose->p, sizeof a->p);
}

/* Compute the distance for each of `count` pairs of poses. */
RB_EXPORT void rb_shapes_proximity(const double *shape_a, const double *shape_b,
                                   const struct rb_poses *poses, int count, struct rb_distance *out)
{
    for (int k = 0; k < count; k++) {
        struct rb_placed_shape a, b;
        struct rb_proximity c = {.gap = 0.0};
        place(&a, shape_a, &poses[k].a);
        place(&b, shape_b, &poses[k].b);
        rb_proximity(&a, &b, &c);
        out[k].gap = c.gap;
        memcpy(out[k].n, c.n, sizeof c.n);
        memcpy(out[k].on_a, c.on_a, sizeof c.on_a);
        memcpy(out[k].on_b, c.on_b, sizeof c.on_b);
    }
}

/* Compute the contacts of two shapes within `margin`. Returns their number. */
RB_EXPORT int rb_shapes_collide(const double *shape_a, const double *shape_b,
                                const struct rb_poses *poses, double margin,
                                struct rb_contact_points *out)
{
    struct rb_placed_shape a, b;
    struct rb_manifold m = {.count = 0};
    place(&a, shape_a, &poses->a);
    place(&b, shape_b, &poses->b);
    rb_collide(&a, &b, margin, margin, &m);
    memcpy(out->n, m.n, sizeof m.n);
    for (int k = 0; k < m.count; k++) {
        memcpy(out->at[k].point, m.point[k], sizeof m.point[k]);
        out->at[k].gap = m.gap[k];
    }
    return m.count;
}
