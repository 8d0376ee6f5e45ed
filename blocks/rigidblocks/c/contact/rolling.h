/* How a contact moves over a body within a step: of second order in the step, where an arm of the
   start is of first. */

#ifndef RB_ROLLING_H
#define RB_ROLLING_H

#include "impulses.h"

/* A shape after its body has moved by `way` and turned by the vector `angle` about its centre of
   mass, base coordinates. */
static inline void moved_shape(const struct scene *s, int k, const double *way, const double *angle,
                               struct placed *out)
{
    static const double upright[4] = {1.0, 0.0, 0.0, 0.0};
    const struct body *body = &s->body[RB_SHAPE_BODY[k]];
    double q[4], turned[9], arm[3];
    turned_by(upright, angle, q);
    rotation_of(q, turned);
    out->shape = s->shape[k].shape;
    product(turned, s->shape[k].r, out->r);
    difference(s->shape[k].p, body->x, arm);
    turn(turned, arm, out->p);
    along(out->p, 1.0, body->x, out->p);
    along(out->p, 1.0, way, out->p);
}

/* The point of a core that touches a half-space below it, in its frame, after the shape has turned:
   a corner is the same one, a rim and an ellipsoid touch with another. `local` has that before; of
   a cap that lies flat all are kept. */
static inline void next_lowest(const double *shape, const double *down, int one, double *local)
{
    const double rim = sqrt(down[0] * down[0] + down[1] * down[1]);
    if (kind_of(shape) == RB_ELLIPSOID)
        local_support(shape, down, local);
    if (kind_of(shape) == RB_CYLINDER && (one || fabs(down[2]) <= 0.7) && rim > 1e-9) {
        local[0] = shape[1] * (down[0] / rim);
        local[1] = shape[1] * (down[1] / rim);
    }
}

/* The velocity of the body at a contact with a plane, as seen where it touches in the middle of the
   step, against that at its start (base coordinates): the arm comes round with the body, and rolls
   on. `one`: the shape touches there alone. */
static inline void rolling_shift(const struct scene *s, int k, const struct touch *c, int one,
                                 double *out)
{
    const struct body *body = &s->body[c->a];
    const struct placed *now = &s->shape[k];
    struct placed then;
    double way[3], angle[3], down[3], local[3], core[3];
    times(0.5 * RB_SCENE_STEP, body->before_v, way);
    times(0.5 * RB_SCENE_STEP, body->before_w, angle);
    moved_shape(s, k, way, angle, &then);
    along(body->x, 1.0, c->arm_a, core);
    along(core, 0.5 * c->gap + radius_of(now->shape), c->frame[0], core);
    difference(core, now->p, local);
    turn_back(now->r, local, local);
    times(-1.0, c->frame[0], down);
    turn_back(then.r, down, down);
    next_lowest(now->shape, down, one, local);
    turn(then.r, local, local);
    along(local, 1.0, then.p, local);
    difference(local, core, local);
    along(local, -1.0, way, local);
    cross(body->before_w, local, out);
}

#endif
