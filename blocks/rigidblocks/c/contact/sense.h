/* What sensors between two sides, some shapes and others, feel of the contacts of a step.

   The generated text has RB_SENSORS, RB_SENSOR_AT (where the states of each start, as enumerated here) and RB_SENSOR_SIDE (of
   each and each shape: 1 for one side, -1 for the other, 0). */

#ifndef RB_SENSE_H
#define RB_SENSE_H

#include "near.h"
#include "touch.h"

enum { RB_FELT_WRENCH, RB_FELT_NORMAL = 6, RB_FELT_CONTACT, RB_FELT_SLIP, RB_FELT_CENTRE = 11, RB_FELT = 14 };

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

/* A contact, with the force on A, its moment about the origin and its point, for all sensors that are between its bodies. Slip
   and centre are means weighed by the normal forces. */
static inline void sense_contact(const struct scene *s, const struct touch *c, const double *moment, const double *force,
                                 const double *point, double *out)
{
    double way[3], u[3];
    for (int k = 0; k < RB_SENSORS; k++) {
        const int a = RB_SENSOR_SIDE[k][c->shape_a], b = RB_SENSOR_SIDE[k][c->shape_b];
        double *felt = out + RB_SENSOR_AT[k];
        if (a * b >= 0)
            continue;
        along(felt, a, moment, felt);
        along(felt + 3, a, force, felt + 3);
        if (!(c->impulse[0] > 0.0))
            continue;
        felt[RB_FELT_NORMAL] += c->impulse[0] / RB_SCENE_STEP;
        felt[RB_FELT_CONTACT] = 1.0;
        const double part = c->impulse[0] / RB_SCENE_STEP / felt[RB_FELT_NORMAL];
        sliding(s, c, u);
        times(a, u, u);
        difference(u, felt + RB_FELT_SLIP, way);
        along(felt + RB_FELT_SLIP, part, way, felt + RB_FELT_SLIP);
        difference(point, felt + RB_FELT_CENTRE, way);
        along(felt + RB_FELT_CENTRE, part, way, felt + RB_FELT_CENTRE);
    }
}

#endif
