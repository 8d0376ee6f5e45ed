/* What sensors between two sides, some shapes and others, feel of the contacts of a step
   (felt.h). */

#ifndef RB_SENSE_H
#define RB_SENSE_H

#include "felt.h"
#include "near.h"
#include "touch.h"

static inline void start_sensors(double *out)
{
    for (int k = 0; k < RB_SENSORS; k++)
        memset(out + RB_SENSOR_AT[k], 0, RB_FELT * sizeof *out);
}

/* The velocity of A against B along the tangents of a contact over the step. */
static inline void sliding(const struct scene *s, const struct touch *c, double *out)
{
    double w[3];
    slip(s, c, w);
    times(w[1] + c->shift[1], c->frame[1], out);
    along(out, w[2] + c->shift[2], c->frame[2], out);
}

/* A contact, with the force on A, its moment about the origin and its point, for all sensors that
   are between its bodies. */
static inline void sense_contact(const struct scene *s, const struct touch *c, const double *moment,
                                 const double *force, const double *point, double *out)
{
    double u[3];
    for (int k = 0; k < RB_SENSORS; k++) {
        const int a = RB_SENSOR_SIDE[k][c->shape_a], b = RB_SENSOR_SIDE[k][c->shape_b];
        if (a * b >= 0)
            continue;
        feel_wrench(out + RB_SENSOR_AT[k], a, moment, force);
        if (!(c->impulse[0] > 0.0))
            continue;
        sliding(s, c, u);
        feel_normal(out + RB_SENSOR_AT[k], a, c->impulse[0] / RB_SCENE_STEP, u, point);
    }
}

#endif
