/* Step of a block in lanes: RB_LANES runs at once, from the time t that all lanes share over
   RB_STEP [s].

   The generated functions.h defines the block in lanes: lane_derivative, lane_project,
   lane_margins, lane_update and lane_output, which correspond to the functions in
   model_interface.h. It also defines RB_SPANS, the number of equal parts of the step; samples are
   only at the ends of these parts.

   Each lane uses the explicit methods of c/kernel/adaptive_step.h with the same arithmetic in the
   same order. Each lane has its own step size and control state; finished lanes wait for the
   others.

   In rare cases (a sign change, stiffness, the bound on the number of steps), adaptive_step.h
   integrates a lane again by itself. The decision uses only data of this lane, so its bits do not
   depend on other lanes. */

#ifndef RB_LANE_STEP_H
#define RB_LANE_STEP_H

#include <float.h>
#include <math.h>

#include "block_step.h"
#include "functions.h"
#include "lanes.h"

/* ---- adaptive integration ---- */

#if RB_ADAPTIVE

/* Integrate the marked lanes one by one, from the states x and the control state s. If a lane
   fails, its states are not finite. */
static inline void integrate_lanes_separately(real *m, bits which, const real *x, const real *s,
                                              double t, double span, double end)
{
    RB_WORKSPACE(RB_LARGE_LANES, double, one, RB_SIZE);
    for (int k = 0; k < RB_LANES; k++) {
        if (!which[k])
            continue;
        for (int i = 0; i < RB_SIZE; i++)
            one[i] = m[i][k];
        for (int i = 0; i < RB_NX; i++)
            one[RB_X + i] = x[i][k];
        for (int i = 0; i < RB_NS; i++)
            one[RB_S + i] = s[i][k];
        go_through(one, t, span, end, NULL);
        for (int i = 0; i < RB_NX; i++)
            m[RB_X + i][k] = one[RB_X + i];
        for (int i = 0; i < RB_NS; i++)
            m[RB_S + i][k] = one[RB_S + i];
    }
}

#if RB_EXPLICIT

typedef real real_row[RB_NX + 1];

/* Progress of the lanes from `start` to `end`. Each lane is in its own inner step. */
typedef struct {
    double start, length, end;
    /* active lanes, lanes that are integrated one by one, lanes that repeat their step */
    bits going, separate, shortened;
    real done, left, h, tried;
    real x[RB_NX + 1], f[RB_NX + 1]; /* states at the start of the inner step, and derivatives */
    real y[RB_NX + 1], next[RB_NX + 1];
} Flow;

static inline void set(real *to, const real *values, int n)
{
    for (int i = 0; i < n; i++)
        to[i] = values[i];
}

static inline real max_lanes(real a, real b)
{
    return choice((bits)(a > b), a, b);
}

static inline real round_lanes(real x)
{
    const real c = x * lanes(0x1p44 + 1.0);
    return c - (c - x);
}

/* Return the error norm max_i |e_i| / (atol_i + rtol max(|x_i|, |y_i|)). It is infinite if e or y
   is not finite. */
static inline real lane_tolerances(const real *e, const real *x, const real *y)
{
    real largest = lanes(0.0);
    bits finite = all_bits(-1);
    for (int i = 0; i < RB_NX; i++) {
        const real b = magnitude(y[i]), size = max_lanes(magnitude(x[i]), b);
        const real one = magnitude(e[i]) / (lanes(RB_ATOL[i]) + lanes(RB_RTOL) * size);
        finite &= (bits)(one <= lanes(DBL_MAX)) & (bits)(b <= lanes(DBL_MAX));
        largest = max_lanes(one, largest);
    }
    return choice(finite, largest, lanes(INFINITY));
}

static inline void lane_rates(real *m, real t, const real *x, real *rates)
{
    set(m + RB_X, x, RB_NX);
    m[RB_T] = t;
    lane_derivative(m, rates);
}

/* Copy the states at the end of the steps into the memory and project them. Returns the norm of the
   correction relative to the tolerance. */
static inline real project_lanes(real *m, Flow *way, real end)
{
    set(m + RB_X, way->y, RB_NX);
    m[RB_T] = end;
#if RB_PROJECTS
    RB_WORKSPACE(RB_LARGE_LANES, real, back, RB_NX + 1);
    RB_WORKSPACE(RB_LARGE_LANES, real, move, RB_NX + 1);
    lane_project(m, back);
    for (int i = 0; i < RB_NX; i++)
        move[i] = back[i] - way->y[i];
    set(way->y, back, RB_NX);
    set(m + RB_X, back, RB_NX);
    return lane_tolerances(move, way->x, way->y);
#else
    return lanes(0.0);
#endif
}

/* ---- methods, as in integrators.h: each computes way->y and returns its error norm ---- */

static inline real lane_screen(real *m, Flow *way)
{
    static const double times[4] = {0.0, 0.5, 0.5, 1.0};
    const real h = way->h, t = lanes(way->start), sixth = lanes(1.0 / 6), third = lanes(1.0 / 3);
    RB_WORKSPACE(RB_LARGE_LANES, real_row, k, 4);
    RB_WORKSPACE(RB_LARGE_LANES, real, e, RB_NX + 1);
    set(k[0], way->f, RB_NX);
    for (int s = 1; s < 4; s++) {
        for (int i = 0; i < RB_NX; i++)
            way->y[i] = way->x[i] + h * (lanes(times[s]) * k[s - 1][i]);
        lane_rates(m, t + lanes(times[s]) * h, way->y, k[s]);
    }
    for (int i = 0; i < RB_NX; i++) {
        const real first = sixth * k[0][i], last = sixth * k[3][i];
        way->y[i] = way->x[i] + h * (first + third * k[1][i] + third * k[2][i] + last);
        e[i] = h * (first - sixth * k[1][i] - sixth * k[2][i] + last);
    }
    const real error = lane_tolerances(e, way->x, way->y);
    return choice((bits)(error <= lanes(1.0)),
                  max_lanes(error, project_lanes(m, way, lanes(way->end))), error);
}

/* Vote for an implicit method in the masked lanes, like vote_for_implicit of integrators.h. */
static inline void count_signs(Flow *way, real *s, bits mask, const real *before, const real *rates,
                               const real *rates_before)
{
    RB_WORKSPACE(RB_LARGE_LANES, real, difference, RB_NX + 1);
    RB_WORKSPACE(RB_LARGE_LANES, real, change_of_rates, RB_NX + 1);
    for (int i = 0; i < RB_NX; i++) {
        difference[i] = way->y[i] - before[i];
        change_of_rates[i] = rates[i] - rates_before[i];
    }
    const real distance = lane_tolerances(difference, way->x, way->y),
               fast = lane_tolerances(change_of_rates, way->x, way->y);
    const bits is_fast = (bits)(way->h * fast > lanes(RB_STABLE) * distance),
               is_measurable = (bits)(distance > lanes(1e-5));
    const bits votes = mask & is_fast & is_measurable,
               calm = mask & ~votes & (bits)(s[RB_VOTES] > lanes(0.0));
    s[RB_EIGENVALUE] = choice(votes, round_lanes(fast / distance), s[RB_EIGENVALUE]);
    s[RB_VOTES] = choice(votes, s[RB_VOTES] + lanes(1.0),
                         choice(calm, s[RB_VOTES] - lanes(0.5), s[RB_VOTES]));
    const bits is_stiff =
        mask & (bits)(s[RB_VOTES] >= lanes(RB_ENOUGH_SIGNS) * (lanes(1.0) + s[RB_PATIENCE]));
    s[RB_STIFF_DETECTIONS] += masked(is_stiff, lanes(1.0));
    s[RB_VOTES] = choice(is_stiff, lanes(0.0), s[RB_VOTES]);
#if RB_IMPLICIT
    way->separate |= is_stiff; /* the next steps of these lanes are implicit */
#endif
}

static inline real lane_pair(real *m, Flow *way, real t, real end)
{
    RB_WORKSPACE(RB_LARGE_LANES, real_row, k, RB_STAGES);
    RB_WORKSPACE(RB_LARGE_LANES, real, e, RB_NX + 1);
    RB_WORKSPACE(RB_LARGE_LANES, real, before, RB_NX + 1);
    set(k[0], way->f, RB_NX);
    for (int s = 1; s < RB_STAGES; s++) {
        if (s == RB_STAGES - 1)
            set(before, way->y, RB_NX);
        for (int i = 0; i < RB_NX; i++) {
            real sum = lanes(0.0);
            for (int r = 0; r < s; r++)
                sum += lanes(RB_A[s][r]) * k[r][i];
            way->y[i] = way->x[i] + way->h * sum;
        }
        if (s < RB_STAGES - 1)
            lane_rates(m, t + lanes(RB_C[s]) * way->h, way->y, k[s]);
    }
    const real move = project_lanes(m, way, end);
    lane_derivative(m, way->next);
    set(k[RB_STAGES - 1], way->next, RB_NX);
    for (int i = 0; i < RB_NX; i++) {
        real sum = lanes(0.0);
        for (int r = 0; r < RB_STAGES; r++)
            sum += lanes(RB_ERROR[r]) * k[r][i];
        e[i] = way->h * sum;
    }
    const real size = max_lanes(move, lane_tolerances(e, way->x, way->y));
    const real error = choice((bits)(move <= lanes(1.0)), size, move);
    count_signs(way, m + RB_S, way->going & (bits)(error <= lanes(1.0)), before, way->next,
                k[RB_STAGES - 2]);
    return error;
}

#ifdef RB_MARGINS
/* Compute the switching functions and their time derivatives times the step size. The derivative is
   a difference quotient towards the inside of the step. */
static inline void lane_switching_values(real *m, const Flow *way, real t, const real *x,
                                         const real *rates, double part, real *value,
                                         real *change_of_margins)
{
    const real near = lanes(part * (1.0 / 64.0));
    RB_WORKSPACE(RB_LARGE_LANES, real, there, RB_MARGINS);
    m[RB_T] = t;
    set(m + RB_X, x, RB_NX);
    lane_margins(m, value);
    for (int i = 0; i < RB_NX; i++)
        m[RB_X + i] = x[i] + near * (way->h * rates[i]);
    lane_margins(m, there);
    for (int i = 0; i < RB_MARGINS; i++)
        change_of_margins[i] = (there[i] - value[i]) / near;
}

/* Return the lanes with a sign change or a possible dip below zero in the step, like
   first_sign_change of adaptive_step.h. */
static inline bits lanes_with_sign_change(real *m, const Flow *way, real t, real end)
{
    RB_WORKSPACE(RB_LARGE_LANES, real, g0, RB_MARGINS);
    RB_WORKSPACE(RB_LARGE_LANES, real, d0, RB_MARGINS);
    RB_WORKSPACE(RB_LARGE_LANES, real, g1, RB_MARGINS);
    RB_WORKSPACE(RB_LARGE_LANES, real, d1, RB_MARGINS);
    const real zero = lanes(0.0), one = lanes(1.0);
    bits any_of_them = all_bits(0);
    lane_switching_values(m, way, t, way->x, way->f, 1.0, g0, d0);
    lane_switching_values(m, way, end, way->y, way->next, -1.0, g1, d1);
    for (int i = 0; i < RB_MARGINS; i++) {
        const real sign_of_it = choice((bits)(g0[i] > zero), one, -one);
        const real a = sign_of_it * g0[i], da = sign_of_it * d0[i], b = sign_of_it * g1[i],
                   db = sign_of_it * d1[i];
        const real s = (b - db - a) / (da - db);
        any_of_them |= (bits)(g0[i] > zero) ^ (bits)(g1[i] > zero);
        any_of_them |= (bits)(da < zero) & (bits)(zero < db) & (bits)(zero < s) & (bits)(s < one) &
                       (bits)(a + s * da < zero);
    }
    return any_of_them;
}
#endif

/* ---- step size control ---- */

/* Start an inner step in the masked lanes. */
static inline void begin_inner_step(Flow *way, real *s, bits mask)
{
    const real longest = lanes(RB_INNER_STEP), half = lanes(0.5);
    way->left = lanes(way->length) - way->done;
    s[RB_NEXT_STEP] =
        choice(mask & (bits)(s[RB_NEXT_STEP] == lanes(0.0)), way->left, s[RB_NEXT_STEP]);
    const real h = choice((bits)(s[RB_NEXT_STEP] < longest), s[RB_NEXT_STEP], longest),
               middle = half * way->left;
    const real shorter = choice((bits)(h > middle), middle, h);
    const real first = choice((bits)(h >= way->left * lanes(1.0 - 1e-9)), way->left, shorter);
    way->h = choice(mask, first, way->h);
    way->shortened &= ~mask;
}

/* Store the next step size of the masked lanes. */
static inline void remember_lanes(const Flow *way, real *s, bits mask, real error)
{
    const real now = max_lanes(error, lanes(1e-8)), one = lanes(1.0);
    const real last = choice((bits)(s[RB_LAST_ERROR] > lanes(0.0)), s[RB_LAST_ERROR], lanes(1e-4));
    const real of_now = square_root(square_root(square_root(now))),
               of_last = square_root(square_root(square_root(last)));
    real factor = lanes(0.9) / of_now * square_root(of_last);
    factor = choice((bits)(factor < lanes(0.2)), lanes(0.2),
                    choice((bits)(factor > lanes(5.0)), lanes(5.0), factor));
    factor = choice(way->shortened & (bits)(factor > one), one, factor);
    const real length = way->h * factor;
    const bits goes =
        (bits)(way->h >= s[RB_NEXT_STEP]) | (bits)(factor < one) | (bits)(length > s[RB_NEXT_STEP]);
    s[RB_LAST_ERROR] = choice(mask, round_lanes(now), s[RB_LAST_ERROR]);
    s[RB_NEXT_STEP] = choice(mask & goes, round_lanes(length), s[RB_NEXT_STEP]);
}

/* Shorten the steps of the masked lanes. Lanes that allow no shorter step are integrated one by
   one. */
static inline void shorten_lanes(Flow *way, real *s, bits mask, real error, real t)
{
    const real some = lanes(0.9) / square_root(square_root(error)), low = lanes(0.2),
               high = lanes(0.5);
    const real factor = choice((bits)(error <= lanes(DBL_MAX)), some, low);
    const real bounded =
        choice((bits)(factor < low), low, choice((bits)(factor > high), high, factor));
    const real shorter = round_lanes(way->h * bounded);
    const real shortest =
        lanes(16.0 * DBL_EPSILON) * max_lanes(magnitude(t), magnitude(lanes(way->end)));
    way->separate |= mask & (bits)(shorter < shortest);
    way->shortened |= mask;
    way->h = choice(mask, shorter, way->h);
    s[RB_NEXT_STEP] = choice(mask, shorter, s[RB_NEXT_STEP]);
}

/* Accept the steps of the masked lanes: y becomes their state. */
static inline void accept_lanes(Flow *way, bits mask)
{
    const bits whole = (bits)(way->h == way->left);
    way->done = choice(mask, choice(whole, lanes(way->length), way->done + way->h), way->done);
    for (int i = 0; i < RB_NX; i++) {
        way->x[i] = choice(mask, way->y[i], way->x[i]);
        way->f[i] = choice(mask, way->next[i], way->f[i]);
    }
}

/* Try one RK4 step over the whole span in the lanes whose step size covers it. Lanes whose error is
   within the tolerance are done. */
static inline void screen_lanes(real *m, Flow *way)
{
    real *s = m + RB_S;
    bits screens = way->going & (bits)(way->h == way->left);
    const bits pauses = screens & (bits)(s[RB_SCREEN_PAUSE_LEFT] > lanes(0.0));
    s[RB_SCREEN_PAUSE_LEFT] -= masked(pauses, lanes(1.0));
    screens &= ~pauses;
    if (!any(screens))
        return;
    const real error = lane_screen(m, way);
    bits good = screens & (bits)(error <= lanes(1.0));
#ifdef RB_MARGINS
    lane_rates(m, lanes(way->end), way->y, way->next);
    const bits leaving = good & lanes_with_sign_change(m, way, lanes(way->start), lanes(way->end));
    way->separate |= leaving;
    way->going &= ~leaving;
    good &= ~leaving;
    screens &= ~leaving;
#else
    set(way->next, way->f, RB_NX);
#endif
    accept_lanes(way, good);
    way->going &= ~good;
    way->tried += masked(screens, lanes(1.0));
    s[RB_SCREEN_PAUSE_LEFT] =
        choice(screens & ~good, lanes(RB_SCREEN_PAUSE), s[RB_SCREEN_PAUSE_LEFT]);
}

/* Return the lanes that have used up their inner steps or make no progress. */
static inline bits lanes_out_of_tries(const Flow *way)
{
    const bits crawl =
        (bits)(way->tried >= lanes(RB_TEST_TRIES)) & (bits)(way->done < lanes(0.01 * way->length));
    const bits bound =
        (bits)(way->tried >= lanes(RB_MAX_INNER_STEPS > 0 ? RB_MAX_INNER_STEPS : RB_MOST_TRIES));
    return way->going & (crawl | bound);
}

/* Do a step of the explicit pair in all active lanes. */
static inline void step_lanes_explicit(real *m, Flow *way)
{
    const real t = lanes(way->start) + way->done, later = lanes(way->start) + (way->done + way->h);
    const real end = choice((bits)(way->h == way->left), lanes(way->end), later);
    way->tried += masked(way->going, lanes(1.0));
    const real error = lane_pair(m, way, t, end);
    bits good = way->going & (bits)(error <= lanes(1.0));
    const bits bad = way->going & ~good;
#ifdef RB_MARGINS
    way->separate |= good & lanes_with_sign_change(m, way, t, end);
#endif
    way->going &= ~way->separate;
    good &= way->going;
    remember_lanes(way, m + RB_S, good, error);
    accept_lanes(way, good);
    if (any(bad))
        shorten_lanes(way, m + RB_S, bad, error, t);
    way->going &= ~way->separate & ~(good & (bits)(way->done >= lanes(way->length)));
    begin_inner_step(way, m + RB_S, good & way->going);
}

/* Integrate from t to `end`. Lanes whose states are not finite stay unchanged. */
static inline void integrate_lanes(real *m, double t, double span, double end)
{
    real sum = lanes(0.0);
    RB_WORKSPACE(RB_LARGE_LANES, real, x, RB_NX);
    RB_WORKSPACE(RB_LARGE_LANES, real, s, RB_NS);
    RB_WORKSPACE(RB_LARGE_LANES, Flow, way, 1);
    way->start = t;
    way->length = span;
    way->end = end;
    way->shortened = all_bits(0);
    set(x, m + RB_X, RB_NX);
    set(s, m + RB_S, RB_NS);
    for (int i = 0; i < RB_NX; i++)
        sum += x[i] * lanes(0.0);
    way->going = ~is_nan(sum);
    way->done = way->tried = way->h = lanes(0.0);
#if RB_IMPLICIT
    way->separate = way->going & (bits)(s[RB_ACTIVE_METHOD] != lanes(0.0));
    way->going &= ~way->separate;
#else
    way->separate = all_bits(0);
#endif
    set(way->x, x, RB_NX);
    if (any(way->going)) {
        lane_rates(m, lanes(t), way->x, way->f);
        begin_inner_step(way, m + RB_S, way->going);
        screen_lanes(m, way);
    }
    while (any(way->going)) {
        way->separate |= lanes_out_of_tries(way);
        way->going &= ~way->separate;
        if (any(way->going))
            step_lanes_explicit(m, way);
    }
    set(m + RB_X, way->x, RB_NX);
    if (any(way->separate))
        integrate_lanes_separately(m, way->separate, x, s, t, span, end);
}

#else

static inline void integrate_lanes(real *m, double t, double span, double end)
{
    real sum = lanes(0.0);
    RB_WORKSPACE(RB_LARGE_LANES, real, x, RB_NX);
    RB_WORKSPACE(RB_LARGE_LANES, real, s, RB_NS);
    for (int i = 0; i < RB_NX; i++) {
        x[i] = m[RB_X + i];
        sum += x[i] * lanes(0.0);
    }
    for (int i = 0; i < RB_NS; i++)
        s[i] = m[RB_S + i];
    integrate_lanes_separately(m, ~is_nan(sum), x, s, t, span, end);
}

#endif

#endif

/* ---- step ---- */

/* Return 1 if a step ends at a sample. Times differ from sample instants by rounding errors, which
   are below 1e-6 of the sample time. */
static inline int ends_at_sample(double t, double span)
{
    const double samples = t / RB_SAMPLE_TIME;
    return span > RB_SAMPLE_TIME * (1.0 - 1e-6) || fabs(samples - floor(samples + 0.5)) < 1e-6;
}

/* Compute the memory after the step. */
static inline void advance(const real *in, real *out)
{
    const double t = in[0][0], span = RB_STEP / RB_SPANS;
    RB_WORKSPACE(RB_LARGE_LANES, real, z, RB_NZ + 1);
    RB_WORKSPACE(RB_LARGE_LANES, real, y, RB_NY + 1);
    for (int i = 0; i < RB_SIZE; i++)
        out[i] = in[i];
    for (int k = 0; k < RB_SPANS; k++) {
        const double end = t + (k + 1) * span;
#if RB_ADAPTIVE
        integrate_lanes(out, t + k * span, span, end);
#endif
        out[0] = lanes(end);
        if (RB_SAMPLE_TIME > 0.0 && ends_at_sample(end, span)) {
            lane_update(out, z);
            for (int i = 0; i < RB_NZ; i++)
                out[RB_Z + i] = z[i];
        }
    }
    lane_output(out, y);
    for (int i = 0; i < RB_NY; i++)
        out[RB_Y + i] = y[i];
}

#endif
