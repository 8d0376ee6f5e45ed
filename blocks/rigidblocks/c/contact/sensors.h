/* Outputs of contact sensors and of distance sensors.

   Compliant contact uses only the first two parts. The third part needs the scene of
   articulated_trees.h, the fourth the contacts of contact_detection.h; the headers before this file
   select them. */

#ifndef RB_SENSORS_H
#define RB_SENSORS_H

#if !defined(RB_TABLES_H) /* else the generated tables precede this header */
#include "tables.h"
#endif

#include "terrain.h"

/* ---- contact sensors: outputs that sum over the contacts of each pair of shapes ---- */

/* Outputs of a contact sensor, in the order of `sensor_ports` (contact/contact_sensors.py).

     moment, force   of the second side on the first [N m, N], about the origin of the base
     normal          sum of the normal forces [N]
     in_contact      1 if the sides push each other, else 0
     slip            sliding velocity of the first side relative to the second [m/s]
     centre          centre of pressure [m] */
struct rb_sensor_output {
    double moment[3], force[3], normal, in_contact, slip[3], centre[3];
};

/* Return the outputs of contact sensor k in the vector of all outputs. */
static inline struct rb_sensor_output *rb_sensor_at(double *out, int k)
{
    return (struct rb_sensor_output *)(out + RB_SENSOR_AT[k]);
}

/* Add a force on A and its moment about the origin to a sensor. `side` is the side of A. */
static inline void rb_add_sensor_wrench(struct rb_sensor_output *felt, int side,
                                        const double *moment, const double *force)
{
    rb_axpy(felt->moment, side, moment, felt->moment);
    rb_axpy(felt->force, side, force, felt->force);
}

/* Add the normal force, the contact point and the sliding velocity of A to a sensor. Sliding
   velocity and centre of pressure are means weighted by the normal forces N_i:

     mean_n = mean_{n-1} + N_n / (N_1 + .. + N_n) (x_n - mean_{n-1}) */
static inline void rb_add_sensor_normal(struct rb_sensor_output *felt, int side, double normal,
                                        const double *slip, const double *point)
{
    double way[3], u[3];
    felt->normal += normal;
    felt->in_contact = 1.0;
    const double part = normal / felt->normal;
    rb_scale(side, slip, u);
    rb_subtract(u, felt->slip, way);
    rb_axpy(felt->slip, part, way, felt->slip);
    rb_subtract(point, felt->centre, way);
    rb_axpy(felt->centre, part, way, felt->centre);
}

/* ---- distance sensors: smallest distance between the shapes of two sides ---- */

/* Outputs of a distance sensor: distance [m], negative for overlap, and the closest points of both
   sides in base coordinates [m]. */
struct rb_distance_output {
    double distance, on_a[3], on_b[3];
};

/* Return the outputs of distance sensor k in the vector of all outputs. */
static inline struct rb_distance_output *rb_distance_at(double *out, int k)
{
    return (struct rb_distance_output *)(out + RB_NEAR_AT[k]);
}

/* Compute the distance between the two sides of a sensor, and the closest points. */
static inline void rb_measure_distance(const struct rb_placed_shape *shape, int k,
                                       struct rb_distance_output *out)
{
    const int *first = RB_NEAR_FIRST[k];
    double least = INFINITY;
    for (int i = first[0]; i < first[1]; i++) {
        for (int j = first[1]; j < first[2]; j++) {
            struct rb_proximity c = {.gap = 0.0};
            rb_proximity(&shape[RB_NEAR_SHAPE[i]], &shape[RB_NEAR_SHAPE[j]], &c);
            if (!(c.gap < least))
                continue;
            least = out->distance = c.gap;
            memcpy(out->on_a, c.on_a, sizeof c.on_a);
            memcpy(out->on_b, c.on_b, sizeof c.on_b);
        }
    }
}

#ifdef RB_ARTICULATED_TREES_H

/* ---- distances between the bodies of a scene at given joint positions ---- */

/* Place bodies and shapes at q. */
static inline void place_bodies_at(struct rb_scene *s, const double *q)
{
    memset(&s->link[RB_LINKS], 0, sizeof s->link[RB_LINKS]);
    memset(&s->body[RB_BODIES], 0, sizeof s->body[RB_BODIES]);
    s->body[RB_BODIES].r[0] = s->body[RB_BODIES].r[4] = s->body[RB_BODIES].r[8] = 1.0;
    for (int k = 0; k < RB_BODIES; k++) {
        if (!RB_FREE[k])
            continue;
        rb_unit_rotation(q + RB_Q_AT[k], s->body[k].r);
        rb_rotate(s->body[k].r, RB_CENTRE[k], s->body[k].x);
        rb_axpy(s->body[k].x, 1.0, q + RB_Q_AT[k] + 4, s->body[k].x);
    }
    rb_place_links(s, q);
    for (int k = 0; k < RB_SHAPES; k++) {
        const struct rb_body *body = &s->body[RB_SHAPE_BODY[k]];
        rb_place_shape(RB_SHAPE_TABLE + RB_SHAPE_AT[k], rb_pose_of(RB_SHAPE_POSE[k]), body->r,
                       body->x, &s->shape[k]);
    }
}

/* Compute the outputs of all distance sensors at q, and store them at their places in the
   states. */
static inline void rb_measure_distances(struct rb_scene *s, const double *q, double *out)
{
    place_bodies_at(s, q);
    for (int k = 0; k < RB_NEARS; k++)
        rb_measure_distance(s->shape, k, rb_distance_at(out, k));
}

/* Sample function of a block that only measures distances. */
static inline void proximity_step(const double *state, const double *q, double *out)
{
    RB_WORKSPACE(RB_LARGE_SCENE, struct rb_scene, s, 1);
    (void)state;
    rb_measure_distances(s, q, out);
}

#endif

#ifdef RB_CONTACT_DETECTION_H

/* ---- outputs of contact sensors from the contacts of a step ---- */

static inline void rb_start_sensors(double *out)
{
    for (int k = 0; k < RB_SENSORS; k++)
        memset(rb_sensor_at(out, k), 0, sizeof(struct rb_sensor_output));
}

/* Compute the mean sliding velocity of A relative to B over the step. */
static inline void slip_velocity(const struct rb_scene *s, const struct rb_contact *c, double *out)
{
    double w[3];
    rb_contact_velocity(s, c, w);
    rb_scale(w[1] + c->bias[1], c->frame[1], out);
    rb_axpy(out, w[2] + c->bias[2], c->frame[2], out);
}

/* Add a contact to all sensors between its two bodies: the force on A, its moment about the origin,
   and the contact point. */
static inline void rb_sense_contact(const struct rb_scene *s, const struct rb_contact *c,
                                    const double *moment, const double *force, const double *point,
                                    double *out)
{
    double u[3];
    for (int k = 0; k < RB_SENSORS; k++) {
        const int a = RB_SENSOR_SIDE[k][c->shape_a], b = RB_SENSOR_SIDE[k][c->shape_b];
        if (a * b >= 0)
            continue;
        rb_add_sensor_wrench(rb_sensor_at(out, k), a, moment, force);
        if (!(c->impulse[0] > 0.0))
            continue;
        slip_velocity(s, c, u);
        rb_add_sensor_normal(rb_sensor_at(out, k), a, c->impulse[0] / RB_SCENE_STEP, u, point);
    }
}

#endif

#endif
