/* Forces of soft contact between shapes, from positions and velocities.

   Two polytopes, or one and a half-space or ground of triangles, press on each other as pressure.h
   and terrain.h say; others at the points that `meet` finds, each with a spring and a damper along
   the normal. Friction is of the whole of a pair: a patch without mass on a spring and a damper,
   which the body sticks to as far as the cone allows, with a moment about the normal up to a limit
   of its own. The stiffness of a patch is a constant, so that it takes energy and gives none.

   The generated text before this has RB_SOFT_BODIES and their RB_SOFT_MASS; RB_SHAPES and theirs:
   RB_SHAPE_TABLE with the rows of shape.h, RB_SHAPE_AT (where each row starts), RB_SHAPE_BODY
   (RB_SOFT_BODIES for what is at rest), RB_SHAPE_POSE (9 + 3 each, in coordinates of the body),
   RB_SHAPE_POLY (where its row of pressure.h starts in RB_POLY_TABLE, -1 for none) and
   RB_SHAPE_MATERIAL (0 for none of its own); RB_SOFT_PAIRS and RB_SOFT_PAIR, two shapes each, what
   is at rest last; RB_MATERIALS, RB_SAYS_K and RB_SAYS_D (whether a material has a stiffness and a
   damping); RB_NAMED_PAIRS and RB_NAMED_PAIR, as a RB_MATERIALS times the smaller number and the
   other, whose materials are behind the others; RB_FRICTION, RB_OWN_PATCH and RB_OWN_DAMPER
   (whether there is friction, and K_t and D_t are given), RB_DEPTH_REF (0 for linear springs) and
   RB_DISSIPATION.

   It gets, one after the other, of each body its rotation to base coordinates, the place of its
   origin, its angular velocity and the velocity of the origin; with friction of each pair how far
   the patch is displaced (3, in coordinates of the second body) and turned; K, D, and with friction
   mu, of each material; and K_t and D_t where they are given. It writes the wrenches on the bodies
   about the origin; with friction the rates of the patches; by how much each pair pushes; of each
   body whether it is pushed, its centre of pressure, its depth, the largest pressure on it, and the
   normal forces; how many points and polygons found no room; and RB_FELT_ALL numbers of the sensors
   (felt.h, nearest.h). */

#ifndef RB_SOFT_H
#define RB_SOFT_H

#include "felt.h"
#include "nearest.h"
#include "terrain.h"

#if !defined(RB_TABLES_H) /* unless they are before this in one text */
#include "tables.h"
#endif

enum { RB_MOTION = 18, RB_PATCH = 4 };
/* The mean distance from the centre of a disc by the root of its mean square. */
#define RB_OF_DISC 0.9428090415820634

/* What the function gets, by parts, and the bodies and shapes where they are. */
struct soft {
    const double *patch, *K, *D, *mu, *K_t, *D_t;
    struct moving body[RB_SOFT_BODIES + 1];
    struct placed shape[RB_SHAPES];
    double low[RB_SHAPES][3], high[RB_SHAPES][3];
};

/* What it writes, by parts. */
struct written {
    double *wrench, *rate, *margin, *there, *centre, *depth, *pressure, *normal, *left_out, *felt;
};

/* Stiffness and damping of a pair, and its friction. */
struct resistance {
    double K, D, mu;
};

static inline void read_motion(const double *in, struct soft *s)
{
    memset(&s->body[RB_SOFT_BODIES], 0, sizeof s->body[RB_SOFT_BODIES]);
    s->body[RB_SOFT_BODIES].r[0] = s->body[RB_SOFT_BODIES].r[4] = s->body[RB_SOFT_BODIES].r[8] =
        1.0;
    for (int k = 0; k < RB_SOFT_BODIES; k++, in += RB_MOTION) {
        memcpy(s->body[k].r, in, sizeof s->body[k].r);
        memcpy(s->body[k].p, in + 9, sizeof s->body[k].p);
        memcpy(s->body[k].w, in + 12, sizeof s->body[k].w);
        memcpy(s->body[k].v, in + 15, sizeof s->body[k].v);
    }
    s->patch = in;
    s->K = in + (RB_FRICTION ? RB_PATCH * RB_SOFT_PAIRS : 0);
    s->D = s->K + RB_MATERIALS + RB_NAMED_PAIRS;
    s->mu = s->D + RB_MATERIALS + RB_NAMED_PAIRS;
    s->K_t = s->mu + (RB_FRICTION ? RB_MATERIALS + RB_NAMED_PAIRS : 0);
    s->D_t = s->K_t + RB_OWN_PATCH;
}

/* Shapes where the bodies are, and their bounds along the axes. */
static inline void place_all(struct soft *s)
{
    for (int k = 0; k < RB_SHAPES; k++) {
        const struct moving *body = &s->body[RB_SHAPE_BODY[k]];
        struct placed *shape = &s->shape[k];
        shape->shape = RB_SHAPE_TABLE + RB_SHAPE_AT[k];
        product(body->r, RB_SHAPE_POSE[k], shape->r);
        turn(body->r, RB_SHAPE_POSE[k] + 9, shape->p);
        along(body->p, 1.0, shape->p, shape->p);
        for (int i = 0; i < 3; i++) {
            double axis[3] = {i == 0, i == 1, i == 2}, top[3];
            s->low[k][i] = -INFINITY;
            s->high[k][i] = INFINITY;
            if (kind_of(shape->shape) == RB_HALF_SPACE || kind_of(shape->shape) == RB_FIELD)
                continue;
            support(shape, axis, top);
            s->high[k][i] = top[i] + radius_of(shape->shape);
            times(-1.0, axis, axis);
            support(shape, axis, top);
            s->low[k][i] = top[i] - radius_of(shape->shape);
        }
    }
}

/* How far the bounds of two shapes are apart, zero where they meet. */
static inline double bounds_apart(const struct soft *s, int a, int b)
{
    double squares = 0.0;
    for (int i = 0; i < 3; i++) {
        const double gap =
            fmax(0.0, fmax(s->low[a][i] - s->high[b][i], s->low[b][i] - s->high[a][i]));
        squares += gap * gap;
    }
    return sqrt(squares);
}

/* Where a pair of materials is that is named as one, -1 where it is not. */
static inline int named_as_one(int a, int b)
{
    const double key = (double)(a < b ? a : b) * RB_MATERIALS + (a < b ? b : a);
    for (int k = 0; k < RB_NAMED_PAIRS; k++)
        if (!(RB_NAMED_PAIR[k] < key) && !(RB_NAMED_PAIR[k] > key))
            return RB_MATERIALS + k;
    return -1;
}

/* Of two materials springs in series, what their dampers lose together, and the geometric mean of
   friction. The numbers of the block are those of a pair of which none has a stiffness of its
   own. */
static inline void resistance_of(const struct soft *s, int a, int b, struct resistance *out)
{
    const int pair = RB_NAMED_PAIRS > 0 ? named_as_one(a, b) : -1;
    if (pair >= 0) {
        out->K = s->K[pair];
        out->D = s->D[pair];
        out->mu = RB_FRICTION ? s->mu[pair] : 0.0;
        return;
    }
    out->mu = RB_FRICTION ? sqrt(s->mu[a] * s->mu[b]) : 0.0;
    if (RB_SAYS_K[a] && RB_SAYS_K[b]) {
        const double whole = s->K[a] + s->K[b], part_a = s->K[b] / whole, part_b = s->K[a] / whole;
        out->K = s->K[a] * part_a;
        out->D = (RB_SAYS_D[a] ? s->D[a] * part_a * part_a : 0.0) +
                 (RB_SAYS_D[b] ? s->D[b] * part_b * part_b : 0.0);
    } else {
        const int one = RB_SAYS_K[a] ? a : (RB_SAYS_K[b] ? b : 0);
        out->K = s->K[one];
        out->D = s->D[one];
    }
}

/* A length of the smaller shape of a pair; of points that of nothing. */
static inline double smaller_size(const struct soft *s, int a, int b)
{
    return fmin(s->shape[a].shape[RB_SHAPE_SIZE], s->shape[b].shape[RB_SHAPE_SIZE]);
}

/* The area to which the stiffness of a pair of polytopes belongs. */
static inline double face_area(int a, int b)
{
    const double own = RB_POLY_TABLE[RB_SHAPE_POLY[a] + RB_POLY_AREA];
    return RB_SHAPE_POLY[b] < 0 ? own : fmin(own, RB_POLY_TABLE[RB_SHAPE_POLY[b] + RB_POLY_AREA]);
}

/* Springs and dampers at the points where two shapes touch. */
static inline void press_points(const struct soft *s, int a, int b, const struct law *law,
                                struct pressed *all)
{
    const struct moving *one = &s->body[RB_SHAPE_BODY[a]], *other = &s->body[RB_SHAPE_BODY[b]];
    struct patches found;
    meet(&s->shape[a], &s->shape[b], 0.0, 0.0, &found);
    all->left_out += found.left_out;
    for (int i = 0; i < found.count; i++) {
        const struct manifold *m = &found.one[i];
        for (int k = 0; k < m->count; k++) {
            const double depth = -m->gap[k];
            double v[3];
            if (!(depth > 0.0))
                continue;
            const double g = RB_DEPTH_REF > 0.0 ? sqrt(depth / RB_DEPTH_REF) : 1.0;
            relative_velocity(one, other, m->point[k], v);
            const double rate = -dot(m->n, v), damped = depth + law->c / law->k * rate;
            const double factor = fmax(0.0, 1.0 + law->dissipation * rate);
            all->depth = fmax(all->depth, depth);
            all->holds = fmax(all->holds, fmin(depth, damped));
            times(g * factor * law->k * fmax(0.0, damped), m->n, v);
            press(all, m->point[k], v);
        }
    }
}

/* How far two shapes are apart that do not push each other. */
static inline double gap_between(const struct soft *s, int a, int b)
{
    const double far = bounds_apart(s, a, b), size = smaller_size(s, a, b);
    struct proximity c = {{0.0, 0.0, 1.0}, 0.0, {0.0, 0.0, 0.0}, {0.0, 0.0, 0.0}};
    if (is_ground(&s->shape[b])) {
        const double margin = fmax(size, s->high[a][0] - s->low[a][0]);
        struct patches found;
        double least = margin;
        meet(&s->shape[a], &s->shape[b], margin, margin, &found);
        for (int i = 0; i < found.count; i++)
            least = fmin(least, least_gap(&found.one[i]));
        return fmax(least, 0.0);
    }
    if (far > size)
        return far;
    proximity(&s->shape[a], &s->shape[b], &c);
    return fmax(c.gap, 0.0);
}

/* The wrench f on a body about the origin. */
static inline void add_wrench(const struct written *out, int body, double sign,
                              const double *moment, const double *force)
{
    if (body == RB_SOFT_BODIES)
        return;
    along(out->wrench + 6 * body, sign, moment, out->wrench + 6 * body);
    along(out->wrench + 6 * body + 3, sign, force, out->wrench + 6 * body + 3);
}

/* The friction of a pair: a force at the centre of pressure and a moment about the normal, beside
   what presses, and the rates of the patch. */
static inline void rub(const struct soft *s, int pair, const struct resistance *law,
                       struct pressed *all, double *rate)
{
    const int a = RB_SOFT_PAIR[pair][0], b = RB_SOFT_PAIR[pair][1];
    const struct moving *one = &s->body[RB_SHAPE_BODY[a]], *other = &s->body[RB_SHAPE_BODY[b]];
    const double *patch = s->patch + RB_PATCH * pair, K = RB_OWN_PATCH ? *s->K_t : law->K;
    const double D =
        RB_OWN_DAMPER
            ? *s->D_t
            : sqrt(K * fmin(RB_SOFT_MASS[RB_SHAPE_BODY[a]], RB_SOFT_MASS[RB_SHAPE_BODY[b]]));
    const double size = smaller_size(s, a, b),
                 lever = size > 0.0 && size < 1e299 ? 0.25 * size * size : 1.0;
    double f[3] = {0.0, 0.0, 0.0}, m = 0.0;
    if (all->normal > 0.0) {
        const double *n = all->n;
        double x[3], v[3], w[3], moment[3];
        relative_velocity(one, other, all->centre, v);
        difference(one->w, other->w, w);
        turn(other->r, patch, x);
        along(x, -dot(x, n), n, x);
        along(v, -dot(v, n), n, v);
        times(-K, x, f);
        along(f, -D, v, f);
        const double most = law->mu * all->normal,
                     spread = all->pressure > 0.0 ? RB_OF_DISC * all->spread : all->spread;
        const double wanted = norm(f);
        if (wanted > most)
            times(most / wanted, f, f);
        m = limited(-lever * (K * patch[3] + D * dot(w, n)), -most * spread, most * spread);
        cross(all->centre, f, moment);
        along(moment, m, n, moment);
        along(all->moment, 1.0, moment, all->moment);
        along(all->force, 1.0, f, all->force);
        turn_back(other->r, f, f);
    }
    for (int i = 0; i < 3; i++)
        rate[i] = -(K * patch[i] + f[i]) / D;
    rate[3] = -(K * patch[3] + m / lever) / D;
}

/* What the sensors feel of a pair. */
static inline void sense(const struct soft *s, int a, int b, const struct pressed *all, double *out)
{
    for (int k = 0; k < RB_SENSORS; k++) {
        const int side = RB_SENSOR_SIDE[k][a];
        double slip[3];
        if (side * RB_SENSOR_SIDE[k][b] >= 0)
            continue;
        feel_wrench(out + RB_SENSOR_AT[k], side, all->moment, all->force);
        if (!(all->normal > 0.0))
            continue;
        relative_velocity(&s->body[RB_SHAPE_BODY[a]], &s->body[RB_SHAPE_BODY[b]], all->centre,
                          slip);
        along(slip, -dot(slip, all->n), all->n, slip);
        feel_normal(out + RB_SENSOR_AT[k], side, all->normal, slip, all->centre);
    }
}

/* What a body has of a pair that pushes it. */
static inline void feel(const struct pressed *all, int body, const struct written *out)
{
    if (body == RB_SOFT_BODIES || !(all->normal > 0.0))
        return;
    out->there[body] = 1.0;
    along(out->centre + 3 * body, all->normal, all->centre, out->centre + 3 * body);
    out->normal[body] += all->normal;
    out->depth[body] = fmax(out->depth[body], all->depth);
    out->pressure[body] = fmax(out->pressure[body], all->pressure);
}

/* What presses on the first of a pair of shapes whose bounds meet. */
static inline void press_pair(const struct soft *s, int a, int b, const struct resistance *own,
                              struct pressed *all)
{
    const struct placed *one = &s->shape[a], *other = &s->shape[b];
    const struct moving *body = &s->body[RB_SHAPE_BODY[a]], *second = &s->body[RB_SHAPE_BODY[b]];
    const int flat = kind_of(other->shape) == RB_HALF_SPACE, ground = is_ground(other);
    if (RB_SHAPE_POLY[a] < 0 || !(flat || ground || RB_SHAPE_POLY[b] >= 0)) {
        const struct law law = {own->K, own->D, RB_DISSIPATION};
        press_points(s, a, b, &law, all);
        return;
    }
    const double area = face_area(a, b), *poly = RB_POLY_TABLE + RB_SHAPE_POLY[a];
    const struct law law = {own->K / area, own->D / area, RB_DISSIPATION};
    if (ground)
        press_on_ground(one, poly, other, &law, body, second, all);
    else
        press_polytopes(one, poly, other, flat ? NULL : RB_POLY_TABLE + RB_SHAPE_POLY[b], &law,
                        body, second, all);
    all->holds = all->depth;
}

/* A pair of shapes. */
static inline void touch_softly(const struct soft *s, int pair, const struct written *out)
{
    const int a = RB_SOFT_PAIR[pair][0], b = RB_SOFT_PAIR[pair][1];
    struct pressed all;
    struct resistance own;
    resistance_of(s, RB_SHAPE_MATERIAL[a], RB_SHAPE_MATERIAL[b], &own);
    memset(&all, 0, sizeof all);
    memcpy(all.origin, s->shape[a].p, sizeof all.origin);
    all.holds = -INFINITY;
    if (!(bounds_apart(s, a, b) > 0.0))
        press_pair(s, a, b, &own, &all);
    find_centre(&all);
    if (RB_FRICTION)
        rub(s, pair, &own, &all, out->rate + RB_PATCH * pair);
    add_wrench(out, RB_SHAPE_BODY[a], 1.0, all.moment, all.force);
    add_wrench(out, RB_SHAPE_BODY[b], -1.0, all.moment, all.force);
    out->margin[pair] = all.depth > 0.0 ? all.holds : -gap_between(s, a, b);
    *out->left_out += all.left_out;
    sense(s, a, b, &all, out->felt);
    feel(&all, RB_SHAPE_BODY[a], out);
    feel(&all, RB_SHAPE_BODY[b], out);
}

static inline void soft_contact(const double *in, double *out)
{
    struct soft s;
    struct written parts;
    parts.wrench = out;
    parts.rate = parts.wrench + 6 * RB_SOFT_BODIES;
    parts.margin = parts.rate + (RB_FRICTION ? RB_PATCH * RB_SOFT_PAIRS : 0);
    parts.there = parts.margin + RB_SOFT_PAIRS;
    parts.centre = parts.there + RB_SOFT_BODIES;
    parts.depth = parts.centre + 3 * RB_SOFT_BODIES;
    parts.pressure = parts.depth + RB_SOFT_BODIES;
    parts.normal = parts.pressure + RB_SOFT_BODIES;
    parts.left_out = parts.normal + RB_SOFT_BODIES;
    parts.felt = parts.left_out + 1;
    for (double *one = out; one < parts.felt + RB_FELT_ALL; one++)
        *one = 0.0;
    read_motion(in, &s);
    place_all(&s);
    for (int k = 0; k < RB_SOFT_PAIRS; k++)
        touch_softly(&s, k, &parts);
    for (int k = 0; k < RB_NEARS; k++)
        nearest_of(s.shape, k, parts.felt + RB_NEAR_AT[k]);
    for (int k = 0; k < RB_SOFT_BODIES; k++)
        if (parts.normal[k] > 0.0)
            times(1.0 / parts.normal[k], parts.centre + 3 * k, parts.centre + 3 * k);
}

#endif
