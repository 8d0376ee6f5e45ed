/* What a sensor between two sides feels: of each the numbers enumerated here, to which pairs that
   touch add theirs.

   The generated text has RB_SENSORS, RB_SENSOR_AT (where the numbers of each start) and
   RB_SENSOR_SIDE (of each and each shape: 1 for one side, -1 for the other, 0). */

#ifndef RB_FELT_H
#define RB_FELT_H

#include "vector.h"

enum {
    RB_FELT_WRENCH,
    RB_FELT_NORMAL = 6,
    RB_FELT_CONTACT,
    RB_FELT_SLIP,
    RB_FELT_CENTRE = 11,
    RB_FELT = 14
};

/* A force on A and its moment about the origin, of a sensor with A on this side. */
static inline void feel_wrench(double *felt, int side, const double *moment, const double *force)
{
    along(felt, side, moment, felt);
    along(felt + 3, side, force, felt + 3);
}

/* The size of its part along the normal, where it acts, and how A slips there. Slip and centre are
   means weighed by the normal forces. */
static inline void feel_normal(double *felt, int side, double normal, const double *slip,
                               const double *point)
{
    double way[3], u[3];
    felt[RB_FELT_NORMAL] += normal;
    felt[RB_FELT_CONTACT] = 1.0;
    const double part = normal / felt[RB_FELT_NORMAL];
    times(side, slip, u);
    difference(u, felt + RB_FELT_SLIP, way);
    along(felt + RB_FELT_SLIP, part, way, felt + RB_FELT_SLIP);
    difference(point, felt + RB_FELT_CENTRE, way);
    along(felt + RB_FELT_CENTRE, part, way, felt + RB_FELT_CENTRE);
}

#endif
