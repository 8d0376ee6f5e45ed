/* Inner steps that know their error, of RB_LANES runs at once: what c/kernel/control.h does with
   explicit steps, lane by lane, by the same arithmetic in the same order. Each lane has its own
   step length and what it remembers; one that is at the end waits for the others.

   To a lane that anything rare happens to, a change of law, stiffness, a bound on steps, this span
   of time is done again alone, by control.h itself. Which are done so depends on the lane alone, so
   that its bits are the same beside any others.

   The generated functions.h has those of the block in lanes: lane_derivative, lane_project,
   lane_margins, as in block.h. */

#ifndef RB_FLOW_H
#define RB_FLOW_H

#include <float.h>

#include "lanes.h"
#include "step.h"

#include "functions.h"

#if RB_ADAPTIVE

/* Does lane by lane, by control.h, what begins at x with what is remembered in s; the states are
   not finite where it fails. */
static inline void flow_alone(real *m, bits which, const real *x, const real *s, double t,
                              double span, double end)
{
    double one[RB_SIZE];
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

/* How far the lanes have got on the way from `start` to `end`, each in an inner step of its own. */
typedef struct {
    double start, length, end;
    /* lanes on the way, those that leave it, those whose step is tried again */
    bits going, alone, shortened;
    real done, left, h, tried;
    real x[RB_NX + 1], f[RB_NX + 1];    /* where the inner step starts, and the rates there */
    real y[RB_NX + 1], next[RB_NX + 1]; /* where it ends */
} Flow;

static inline void set(real *to, const real *values, int n)
{
    for (int i = 0; i < n; i++)
        to[i] = values[i];
}

static inline real larger_of(real a, real b)
{
    return choice((bits)(a > b), a, b);
}

static inline real coarse_lanes(real x)
{
    const real c = x * lanes(0x1p44 + 1.0);
    return c - (c - x);
}

/* The largest element of e in tolerances at the states x and y; infinite where one of e or y is not
   finite. */
static inline real lane_tolerances(const real *e, const real *x, const real *y)
{
    real largest = lanes(0.0);
    bits finite = all_bits(-1);
    for (int i = 0; i < RB_NX; i++) {
        const real b = magnitude(y[i]), size = larger_of(magnitude(x[i]), b);
        const real one = magnitude(e[i]) / (lanes(RB_ATOL[i]) + lanes(RB_RTOL) * size);
        finite &= (bits)(one <= lanes(DBL_MAX)) & (bits)(b <= lanes(DBL_MAX));
        largest = larger_of(one, largest);
    }
    return choice(finite, largest, lanes(INFINITY));
}

static inline void lane_rates(real *m, real t, const real *x, real *rates)
{
    set(m + RB_X, x, RB_NX);
    m[RB_T] = t;
    lane_derivative(m, rates);
}

/* The memory at the end of the steps, with their states moved back to where they belong; how far,
   in tolerances. */
static inline real lane_arrive(real *m, Flow *way, real end)
{
    set(m + RB_X, way->y, RB_NX);
    m[RB_T] = end;
#if RB_PROJECTS
    real back[RB_NX + 1], move[RB_NX + 1];
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

/* ---- the methods, as in control.h: each makes way->y and tells its error ---- */

static inline real lane_screen(real *m, Flow *way)
{
    static const double times[4] = {0.0, 0.5, 0.5, 1.0};
    const real h = way->h, t = lanes(way->start), sixth = lanes(1.0 / 6), third = lanes(1.0 / 3);
    real k[4][RB_NX + 1], e[RB_NX + 1];
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
                  larger_of(error, lane_arrive(m, way, lanes(way->end))), error);
}

/* Counts, in the lanes of the mask, the signs that stability limits the step: count_sign of
   stiffness.h. */
static inline void count_signs(Flow *way, real *s, bits mask, const real *before, const real *rates,
                               const real *rates_before)
{
    real apart[RB_NX + 1], change_of_rates[RB_NX + 1];
    for (int i = 0; i < RB_NX; i++) {
        apart[i] = way->y[i] - before[i];
        change_of_rates[i] = rates[i] - rates_before[i];
    }
    const real distance = lane_tolerances(apart, way->x, way->y),
               fast = lane_tolerances(change_of_rates, way->x, way->y);
    const bits is_fast = (bits)(way->h * fast > lanes(RB_STABLE) * distance),
               tells = (bits)(distance > lanes(1e-5));
    const bits speaks = mask & is_fast & tells,
               calm = mask & ~speaks & (bits)(s[RB_SIGNS] > lanes(0.0));
    s[RB_EIGENVALUE] = choice(speaks, coarse_lanes(fast / distance), s[RB_EIGENVALUE]);
    s[RB_SIGNS] = choice(speaks, s[RB_SIGNS] + lanes(1.0),
                         choice(calm, s[RB_SIGNS] - lanes(0.5), s[RB_SIGNS]));
    const bits is_stiff =
        mask & (bits)(s[RB_SIGNS] >= lanes(RB_ENOUGH_SIGNS) * (lanes(1.0) + s[RB_PATIENCE]));
    s[RB_STIFFNESS] += masked(is_stiff, lanes(1.0));
    s[RB_SIGNS] = choice(is_stiff, lanes(0.0), s[RB_SIGNS]);
#if RB_IMPLICIT
    way->alone |= is_stiff; /* whose next steps are implicit */
#endif
}

static inline real lane_pair(real *m, Flow *way, real t, real end)
{
    real k[RB_STAGES][RB_NX + 1], e[RB_NX + 1], before[RB_NX + 1];
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
    const real move = lane_arrive(m, way, end);
    lane_derivative(m, way->next);
    set(k[RB_STAGES - 1], way->next, RB_NX);
    for (int i = 0; i < RB_NX; i++) {
        real sum = lanes(0.0);
        for (int r = 0; r < RB_STAGES; r++)
            sum += lanes(RB_ERROR[r]) * k[r][i];
        e[i] = way->h * sum;
    }
    const real size = larger_of(move, lane_tolerances(e, way->x, way->y));
    const real error = choice((bits)(move <= lanes(1.0)), size, move);
    count_signs(way, m + RB_S, way->going & (bits)(error <= lanes(1.0)), before, way->next,
                k[RB_STAGES - 2]);
    return error;
}

#ifdef RB_MARGINS
/* The margins where the states x at t change by h times their rates, from what is near them on the
   way into the step. */
static inline void lane_margins_near(real *m, const Flow *way, real t, const real *x,
                                     const real *rates, double part, real *value,
                                     real *change_of_margins)
{
    const real near = lanes(part * (1.0 / 64.0));
    real there[RB_MARGINS];
    m[RB_T] = t;
    set(m + RB_X, x, RB_NX);
    lane_margins(m, value);
    for (int i = 0; i < RB_NX; i++)
        m[RB_X + i] = x[i] + near * (way->h * rates[i]);
    lane_margins(m, there);
    for (int i = 0; i < RB_MARGINS; i++)
        change_of_margins[i] = (there[i] - value[i]) / near;
}

/* The lanes in which a margin changes its sign in the step, or may come to zero and back:
   first_change of margins.h. */
static inline bits changing(real *m, const Flow *way, real t, real end)
{
    real g0[RB_MARGINS], d0[RB_MARGINS], g1[RB_MARGINS], d1[RB_MARGINS];
    const real zero = lanes(0.0), one = lanes(1.0);
    bits any_of_them = all_bits(0);
    lane_margins_near(m, way, t, way->x, way->f, 1.0, g0, d0);
    lane_margins_near(m, way, end, way->y, way->next, -1.0, g1, d1);
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

/* ---- the control of the length ---- */

/* Begins an inner step in the lanes of the mask. */
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

/* What a step that is taken leaves in the lanes of the mask. */
static inline void remember_lanes(const Flow *way, real *s, bits mask, real error)
{
    const real now = larger_of(error, lanes(1e-8)), one = lanes(1.0);
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
    s[RB_LAST_ERROR] = choice(mask, coarse_lanes(now), s[RB_LAST_ERROR]);
    s[RB_NEXT_STEP] = choice(mask & goes, coarse_lanes(length), s[RB_NEXT_STEP]);
}

/* Shortens the steps of the lanes of the mask; they go alone where time has no shorter ones. */
static inline void shorten(Flow *way, real *s, bits mask, real error, real t)
{
    const real some = lanes(0.9) / square_root(square_root(error)), low = lanes(0.2),
               high = lanes(0.5);
    const real factor = choice((bits)(error <= lanes(DBL_MAX)), some, low);
    const real bounded =
        choice((bits)(factor < low), low, choice((bits)(factor > high), high, factor));
    const real shorter = coarse_lanes(way->h * bounded);
    const real shortest =
        lanes(16.0 * DBL_EPSILON) * larger_of(magnitude(t), magnitude(lanes(way->end)));
    way->alone |= mask & (bits)(shorter < shortest);
    way->shortened |= mask;
    way->h = choice(mask, shorter, way->h);
    s[RB_NEXT_STEP] = choice(mask, shorter, s[RB_NEXT_STEP]);
}

/* The steps of the mask are taken: their lanes are at y. */
static inline void take(Flow *way, bits mask)
{
    const bits whole = (bits)(way->h == way->left);
    way->done = choice(mask, choice(whole, lanes(way->length), way->done + way->h), way->done);
    for (int i = 0; i < RB_NX; i++) {
        way->x[i] = choice(mask, way->y[i], way->x[i]);
        way->f[i] = choice(mask, way->next[i], way->f[i]);
    }
}

/* One step of RK4 over the whole span, in the lanes whose steps are as long: those that it
   satisfies are at the end. */
static inline void go_by_screen(real *m, Flow *way)
{
    real *s = m + RB_S;
    bits screens = way->going & (bits)(way->h == way->left);
    const bits pauses = screens & (bits)(s[RB_PAUSE] > lanes(0.0));
    s[RB_PAUSE] -= masked(pauses, lanes(1.0));
    screens &= ~pauses;
    if (!any(screens))
        return;
    const real error = lane_screen(m, way);
    bits good = screens & (bits)(error <= lanes(1.0));
#ifdef RB_MARGINS
    lane_rates(m, lanes(way->end), way->y, way->next);
    const bits leaving = good & changing(m, way, lanes(way->start), lanes(way->end));
    way->alone |= leaving;
    way->going &= ~leaving;
    good &= ~leaving;
    screens &= ~leaving;
#else
    set(way->next, way->f, RB_NX);
#endif
    take(way, good);
    way->going &= ~good;
    way->tried += masked(screens, lanes(1.0));
    s[RB_PAUSE] = choice(screens & ~good, lanes(RB_SCREEN_PAUSE), s[RB_PAUSE]);
}

/* The lanes whose inner steps are used up, or lead nowhere. */
static inline bits at_bound(const Flow *way)
{
    const bits crawl =
        (bits)(way->tried >= lanes(RB_TEST_TRIES)) & (bits)(way->done < lanes(0.01 * way->length));
    const bits bound =
        (bits)(way->tried >= lanes(RB_MAX_INNER_STEPS > 0 ? RB_MAX_INNER_STEPS : RB_MOST_TRIES));
    return way->going & (crawl | bound);
}

/* A step of the pair in all lanes that are on the way. */
static inline void go_by_pair(real *m, Flow *way)
{
    const real t = lanes(way->start) + way->done, later = lanes(way->start) + (way->done + way->h);
    const real end = choice((bits)(way->h == way->left), lanes(way->end), later);
    way->tried += masked(way->going, lanes(1.0));
    const real error = lane_pair(m, way, t, end);
    bits good = way->going & (bits)(error <= lanes(1.0));
    const bits bad = way->going & ~good;
#ifdef RB_MARGINS
    way->alone |= good & changing(m, way, t, end);
#endif
    way->going &= ~way->alone;
    good &= way->going;
    remember_lanes(way, m + RB_S, good, error);
    take(way, good);
    if (any(bad))
        shorten(way, m + RB_S, bad, error, t);
    way->going &= ~way->alone & ~(good & (bits)(way->done >= lanes(way->length)));
    begin_inner_step(way, m + RB_S, good & way->going);
}

/* From t to `end`. Lanes whose states are not finite stay as they are. */
static inline void lane_flow(real *m, double t, double span, double end)
{
    real x[RB_NX], s[RB_NS], sum = lanes(0.0);
    Flow way;
    way.start = t;
    way.length = span;
    way.end = end;
    way.shortened = all_bits(0);
    set(x, m + RB_X, RB_NX);
    set(s, m + RB_S, RB_NS);
    for (int i = 0; i < RB_NX; i++)
        sum += x[i] * lanes(0.0);
    way.going = ~is_nan(sum);
    way.done = way.tried = way.h = lanes(0.0);
#if RB_IMPLICIT
    way.alone = way.going & (bits)(s[RB_IS_STIFF] != lanes(0.0));
    way.going &= ~way.alone;
#else
    way.alone = all_bits(0);
#endif
    set(way.x, x, RB_NX);
    if (any(way.going)) {
        lane_rates(m, lanes(t), way.x, way.f);
        begin_inner_step(&way, m + RB_S, way.going);
        go_by_screen(m, &way);
    }
    while (any(way.going)) {
        way.alone |= at_bound(&way);
        way.going &= ~way.alone;
        if (any(way.going))
            go_by_pair(m, &way);
    }
    set(m + RB_X, way.x, RB_NX);
    if (any(way.alone))
        flow_alone(m, way.alone, x, s, t, span, end);
}

#else

static inline void lane_flow(real *m, double t, double span, double end)
{
    real x[RB_NX], s[RB_NS], sum = lanes(0.0);
    for (int i = 0; i < RB_NX; i++) {
        x[i] = m[RB_X + i];
        sum += x[i] * lanes(0.0);
    }
    for (int i = 0; i < RB_NS; i++)
        s[i] = m[RB_S + i];
    flow_alone(m, ~is_nan(sum), x, s, t, span, end);
}

#endif

#endif

#endif
