/* Steps of the integrators: steps of a fixed size, and trial steps of the adaptive methods with
   error estimate, stiffness detection and choice of the method. collocation.h has the steps of the
   collocation method. block/integrators.py and block/adaptive_step.py do the same arithmetic in the
   same order. */

#ifndef RB_INTEGRATORS_H
#define RB_INTEGRATORS_H

#include <float.h>
#include <math.h>
#include <string.h>

#include "model_interface.h"
#include "workspace.h"

/* ---- inputs that are polynomials of time within a step ---- */

/* A vector with one number for each continuous state. */
typedef double state_row[RB_NX + 1];

static inline void store(double *m, const double *values, int n)
{
    memcpy(m, values, (size_t)n * sizeof(double));
}

/* Input polynomials u(t) = sum_k c[k] (t - t0)^k. A NULL pointer means that inputs are held. The
   order is the highest one that importers of FMI 2.0 may set. */
enum { RB_COURSE_ORDER = 3 };
typedef struct {
    double t0;
    double c[RB_COURSE_ORDER + 1][RB_NU + 1];
} InputPolynomials;

/* Set the inputs to their values at t (Horner's scheme). */
static inline void evaluate_inputs(const InputPolynomials *course, double *m, double t)
{
    for (int i = 0; course && i < RB_NU; i++) {
        double u = 0.0;
        for (int k = RB_COURSE_ORDER; k >= 0; k--)
            u = u * (t - course->t0) + course->c[k][i];
        m[RB_U + i] = u;
    }
}

/* ---- stages of a linearly implicit (Rosenbrock) method ----

     (1 - gamma h J) k_i = gamma (f(t + c_i h, x + h sum_j a_ij k_j) + sum_j coupling_ij k_j
                                  + time_i h df/dt)

   rate_slopes = [J by rows | df/dt] at the start of the step. */

#if RB_IMPLICIT

/* Factorize w in place by Gaussian elimination with partial pivoting. `pivot` receives the pivot
   rows. */
RB_NOT_INLINED
static void factorize(double w[RB_NX + 1][RB_NX + 1], int *pivot)
{
    for (int j = 0; j < RB_NX; j++) {
        pivot[j] = j;
        for (int i = j + 1; i < RB_NX; i++)
            if (fabs(w[i][j]) > fabs(w[pivot[j]][j]))
                pivot[j] = i;
        for (int c = j; c < RB_NX && pivot[j] != j; c++) {
            const double exchanged = w[j][c];
            w[j][c] = w[pivot[j]][c];
            w[pivot[j]][c] = exchanged;
        }
        for (int i = j + 1; i < RB_NX; i++)
            if (w[i][j] != 0.0) {
                w[i][j] /= w[j][j];
                for (int c = j + 1; c < RB_NX; c++)
                    w[i][c] -= w[i][j] * w[j][c];
            }
    }
}

/* Solve w x = b. The solution overwrites b. */
RB_NOT_INLINED
static void solve(double w[RB_NX + 1][RB_NX + 1], const int *pivot, double *b)
{
    for (int j = 0; j < RB_NX; j++) {
        const double exchanged = b[pivot[j]];
        b[pivot[j]] = b[j];
        b[j] = exchanged;
        for (int i = j + 1; i < RB_NX; i++)
            b[i] -= w[i][j] * exchanged;
    }
    for (int j = RB_NX - 1; j >= 0; j--) {
        b[j] /= w[j][j];
        for (int i = 0; i < j; i++)
            b[i] -= w[i][j] * b[j];
    }
}

/* Compute w = 1 - length J. */
RB_NOT_INLINED
static void implicit_matrix(double w[RB_NX + 1][RB_NX + 1], double length, const double *slopes)
{
    for (int i = 0; i < RB_NX; i++)
        for (int j = 0; j < RB_NX; j++)
            w[i][j] = (i == j) - length * slopes[i * RB_NX + j];
}

#if RB_LINEARLY_IMPLICIT

static inline double weighted_sum(const double *weights, double k[RB_IMPLICIT_STAGES][RB_NX + 1],
                                  int n, int i)
{
    double sum = 0.0;
    for (int r = 0; r < n; r++)
        sum += weights[r] * k[r][i];
    return sum;
}

/* Compute the stages k of a step from x at t; f is the derivative at x. */
RB_NOT_INLINED
static void implicit_stages(double *m, double t, double h, const double *x, const double *f,
                            const double *slopes, double k[RB_IMPLICIT_STAGES][RB_NX + 1])
{
    RB_WORKSPACE(RB_LARGE, state_row, w, RB_NX + 1);
    RB_WORKSPACE(RB_LARGE, int, pivot, RB_NX + 1);
    implicit_matrix(w, RB_GAMMA * h, slopes);
    factorize(w, pivot);
    for (int s = 0; s < RB_IMPLICIT_STAGES; s++) {
        for (int i = 0; i < RB_NX; i++) {
            m[RB_X + i] = x[i] + h * weighted_sum(RB_IMPLICIT_A[s], k, s, i);
            k[s][i] = f[i];
        }
        m[RB_T] = t + RB_IMPLICIT_C[s] * h;
        if (s > 0)
            derivative(m, k[s]);
        for (int i = 0; i < RB_NX; i++)
            k[s][i] = RB_GAMMA * (k[s][i] + weighted_sum(RB_COUPLING[s], k, s, i) +
                                  RB_TIME[s] * h * slopes[RB_NX * RB_NX + i]);
        solve(w, pivot, k[s]);
    }
}

#if RB_EXACT_SLOPES
/* Do one step from t: x + h sum_i b_i k_i. */
static inline void integrate(double *m, double t, double h)
{
    RB_WORKSPACE(RB_LARGE, double, x, RB_NX + 1);
    RB_WORKSPACE(RB_LARGE, double, f, RB_NX + 1);
    RB_WORKSPACE(RB_LARGE, state_row, k, RB_IMPLICIT_STAGES);
    RB_WORKSPACE(RB_LARGE, double, slopes, RB_NX *RB_NX + RB_NX + 1);
    m[RB_T] = t;
    store(x, m + RB_X, RB_NX);
    rate_slopes(m, slopes);
    derivative(m, f);
    implicit_stages(m, t, h, x, f, slopes, k);
    for (int i = 0; i < RB_NX; i++)
        m[RB_X + i] =
            x[i] + h * weighted_sum(RB_IMPLICIT_A[RB_IMPLICIT_STAGES], k, RB_IMPLICIT_STAGES, i);
}
#endif

#endif

#endif

/* ---- steps of a fixed size ---- */

#if RB_ADAPTIVE
#elif RB_LINEARLY_IMPLICIT /* inputs are held at the middle of each inner step */
static inline void integrate_inputs(double *m, double t, double h, const InputPolynomials *course)
{
    evaluate_inputs(course, m, t + 0.5 * h);
    integrate(m, t, h);
}
#else
/* Do one step of the integrator: x + h sum_i b_i k_i with k_i = derivative(t + c_i h, x_i). */
static inline void integrate_inputs(double *m, double t, double h, const InputPolynomials *course)
{
    RB_WORKSPACE(RB_LARGE, double, x, RB_NX + 1);
    RB_WORKSPACE(RB_LARGE, state_row, k, RB_STAGES);
    store(x, m + RB_X, RB_NX);
    for (int s = 0; s <= RB_STAGES; s++) {
        for (int i = 0; i < RB_NX; i++) {
            const double *weight = RB_POSITION[i] ? RB_A_POSITION[s] : RB_A[s];
            double sum = 0.0;
            for (int r = 0; r < s; r++)
                sum += weight[r] * k[r][i];
            m[RB_X + i] = x[i] + h * sum;
        }
        if (s < RB_STAGES) {
            m[RB_T] = t + RB_C[s] * h;
            evaluate_inputs(course, m, m[RB_T]);
            derivative(m, k[s]);
        }
    }
}
#endif

/* ---- stiffness detection and Jacobian ---- */

#if RB_ADAPTIVE

/* State of the step size control, from RB_S on in the memory of the block. */
enum {
    RB_NEXT_STEP = 0,         /* step size of the next inner step [s]; 0 before the first */
    RB_LAST_ERROR = 1,        /* error norm of the last accepted step; 0 before the first */
    RB_SCREEN_PAUSE_LEFT = 2, /* communication steps until the next RK4 screen */
    RB_ACTIVE_METHOD = 3,     /* active method: 0 explicit pair, 1 Rosenbrock, 2 collocation */
    RB_VOTES = 4,             /* votes for the other kind of method */
    RB_EIGENVALUE = 5,        /* [1/s] estimate of the largest eigenvalue, at the last vote */
    RB_EXHAUSTED_STEPS = 6,   /* communication steps that ran out of inner steps */
    RB_ACCEPTED_ABOVE_TOLERANCE =
        7, /* shortest possible steps, accepted although the error exceeds the tolerance */
    RB_STIFF_DETECTIONS = 8, /* number of stiffness detections */
    /* [s] step size of the explicit pair when the implicit method took over */
    RB_EXPLICIT_STEP_SIZE = 9,
    RB_PATIENCE = 10, /* additional factor of the required number of votes */
    /* implicit method to use when stiff: 1 or 2, 0 if not yet known */
    RB_PREFERRED_IMPLICIT = 11,
    RB_WINDOW_COST = 12, /* cost of the implicit steps in the window, in derivative evaluations */
    RB_WINDOW_TIME = 13, /* [s] simulated time of the steps in the window */
    RB_OTHER_COST_RATE = 14,      /* [1/s] cost per simulated time of the other implicit method */
    RB_WINDOWS_SINCE_SWITCH = 15, /* windows since the change of implicit method; 0 on trial */
    RB_WINDOWS_BEFORE_RETRY = 16  /* windows until the other implicit method is tried again */
};

/* Round x to nine significant bits. All stored error values are rounded. An error estimate is a
   small difference of large numbers, so its last digits differ between the implementations of a
   block (NumPy, C, lanes). */
static inline double round_to_nine_bits(double x)
{
    const double c = x * (0x1p44 + 1.0);
    return c - (c - x);
}

#if RB_EXPLICIT

/* Vote for an implicit method if stability, not accuracy, limits an explicit step of size h:

     h |f(t_end, y) - f(t_end, y')| > RB_STABLE |y - y'|

   `fast` and `distance` are the two norms relative to the tolerances (Hairer and Wanner II, IV.2).
   After RB_ENOUGH_SIGNS (1 + patience) votes, an implicit method takes over. A step without a sign
   of stiffness removes half a vote. */
static inline void vote_for_implicit(double *s, double h, double distance, double fast)
{
    /* a distance below 1e-5 tolerances consists of rounding errors */
    if (h * fast > RB_STABLE * distance && distance > 1e-5) {
        s[RB_EIGENVALUE] = round_to_nine_bits(fast / distance);
        s[RB_VOTES] += 1.0;
    } else if (s[RB_VOTES] > 0.0)
        s[RB_VOTES] -= 0.5;
    if (s[RB_VOTES] >= RB_ENOUGH_SIGNS * (1.0 + s[RB_PATIENCE])) {
        s[RB_STIFF_DETECTIONS] += 1.0;
        s[RB_VOTES] = 0.0;
#if RB_IMPLICIT
        if (s[RB_PREFERRED_IMPLICIT] == 0.0)
            s[RB_PREFERRED_IMPLICIT] = RB_COLLOCATION ? 2.0 : 1.0;
        s[RB_EXPLICIT_STEP_SIZE] = h;
        s[RB_ACTIVE_METHOD] = s[RB_PREFERRED_IMPLICIT];
#endif
    }
}

#if RB_IMPLICIT

/* Vote for the explicit pair after an implicit step of size h that costs as much as `dearness`
   explicit steps. One of two conditions is sufficient for a vote. First, explicit steps would be
   stable: bound h < 2 dearness, where `bound` is an upper bound of the largest eigenvalue. Second,
   earlier explicit steps of the same cost covered more time: h < dearness times the explicit step
   size. RB_ENOUGH_SIGNS votes in a row change the method. */
static inline void vote_for_explicit(double *s, double h, double bound, double dearness)
{
    const int calm = bound * h < 2.0 * dearness;
    s[RB_VOTES] = calm || h < dearness * s[RB_EXPLICIT_STEP_SIZE] ? s[RB_VOTES] + 1.0 : 0.0;
    if (s[RB_VOTES] >= RB_ENOUGH_SIGNS) {
        s[RB_VOTES] = s[RB_ACTIVE_METHOD] = 0.0;
        if (!calm) {
            const double more = 2.0 * s[RB_PATIENCE] + 1.0;
            s[RB_PATIENCE] = more < RB_MOST_PATIENCE ? more : RB_MOST_PATIENCE;
        }
    }
}

#endif

#endif

#if RB_IMPLICIT && RB_EXACT_SLOPES

/* Compute [J by rows | df/dt] from the exact derivatives. */
RB_NOT_INLINED
static void jacobian_at(double *m, double h, const double *f, double *slopes)
{
    (void)h;
    (void)f;
    rate_slopes(m, slopes);
}

#elif RB_IMPLICIT

/* Compute J by rows by forward differences. Each state moves by 2^-26 of its size (about the square
   root of the rounding error), in the direction of its derivative. */
RB_NOT_INLINED
static void state_jacobian_at(double *m, const double *f, double *slopes)
{
    RB_WORKSPACE(RB_LARGE, double, rates, RB_NX + 1);
    for (int j = 0; j < RB_NX; j++) {
        const double x = m[RB_X + j], size = fabs(x);
        const double move = 0x1p-26 * (size > RB_USUAL[j] ? size : RB_USUAL[j]);
        const double moved = f[j] < 0.0 ? x - move : x + move;
        m[RB_X + j] = moved;
        derivative(m, rates);
        for (int i = 0; i < RB_NX; i++)
            slopes[i * RB_NX + j] = (rates[i] - f[i]) / (moved - x);
        m[RB_X + j] = x;
    }
}

/* Compute [J by rows | df/dt] by forward differences. The time moves by 2^-20 h, but at least by
   2^-50 |t|, four times the spacing of floating-point numbers at t. */
RB_NOT_INLINED
static void jacobian_at(double *m, double h, const double *f, double *slopes)
{
    const double t = m[RB_T], soon = 0x1p-20 * h, rounding = 0x1p-50 * fabs(t);
    RB_WORKSPACE(RB_LARGE, double, rates, RB_NX + 1);
    state_jacobian_at(m, f, slopes);
    const double later = t + (soon > rounding ? soon : rounding);
    m[RB_T] = later;
    derivative(m, rates);
    for (int i = 0; i < RB_NX; i++)
        slopes[RB_NX * RB_NX + i] = (rates[i] - f[i]) / (later - t);
    m[RB_T] = t;
}

#endif

#endif

/* ---- choice of the implicit method by cost per simulated time ---- */

#if RB_ADAPTIVE && RB_EXPLICIT && RB_LINEARLY_IMPLICIT && RB_COLLOCATION

/* Add an accepted implicit step of size h to the window; its cost is already counted. When a window
   of RB_WINDOW evaluations is full, compare its cost per simulated time with that of the other
   implicit method. If a method on trial costs more, the trial ends at once, and the next trial
   comes after twice as many windows. */
static inline void select_cheaper_implicit_method(double *s, double h)
{
    s[RB_WINDOW_TIME] += h;
    if (s[RB_WINDOW_COST] < RB_WINDOW)
        return;
    const double rate = round_to_nine_bits(s[RB_WINDOW_COST] / s[RB_WINDOW_TIME]);
    const int is_tried = s[RB_WINDOWS_SINCE_SWITCH] == 0.0 && s[RB_OTHER_COST_RATE] > 0.0,
              failed = is_tried && rate > s[RB_OTHER_COST_RATE];
    const double trust =
        s[RB_WINDOWS_BEFORE_RETRY] > RB_FIRST_TRUST ? s[RB_WINDOWS_BEFORE_RETRY] : RB_FIRST_TRUST;
    s[RB_WINDOW_COST] = s[RB_WINDOW_TIME] = 0.0;
    s[RB_WINDOWS_SINCE_SWITCH] += 1.0;
    if (is_tried)
        s[RB_WINDOWS_BEFORE_RETRY] = !failed                       ? RB_FIRST_TRUST
                                     : 2.0 * trust < RB_MOST_TRUST ? 2.0 * trust
                                                                   : RB_MOST_TRUST;
    if (failed || s[RB_WINDOWS_SINCE_SWITCH] > (s[RB_WINDOWS_BEFORE_RETRY] > RB_FIRST_TRUST
                                                    ? s[RB_WINDOWS_BEFORE_RETRY]
                                                    : RB_FIRST_TRUST)) {
        s[RB_OTHER_COST_RATE] = rate;
        s[RB_WINDOWS_SINCE_SWITCH] = failed;
        s[RB_ACTIVE_METHOD] = s[RB_PREFERRED_IMPLICIT] = 3.0 - s[RB_ACTIVE_METHOD];
    }
}

#endif

/* ---- trial step ---- */

#if RB_ADAPTIVE

/* One trial step from the states x at t, with the derivatives f, to the states y at t + h. */
typedef struct {
    double t, h, end;
    double x[RB_NX + 1], f[RB_NX + 1], y[RB_NX + 1], next[RB_NX + 1]; /* next: derivatives at y */
    int next_known;
#if RB_IMPLICIT
    double slopes[RB_NX * RB_NX + RB_NX + 1];
    int slopes_known;
#endif
} TrialStep;

/* Return the error norm max_i |e_i| / (atol_i + rtol max(|x_i|, |y_i|)). It is infinite if e or y
   is not finite. */
static inline double error_norm(const double *e, const double *x, const double *y)
{
    double largest = 0.0;
    for (int i = 0; i < RB_NX; i++) {
        const double a = fabs(x[i]), b = fabs(y[i]);
        const double one = fabs(e[i]) / (RB_ATOL[i] + RB_RTOL * (a > b ? a : b));
        if (!(one <= DBL_MAX && b <= DBL_MAX))
            return INFINITY;
        if (one > largest)
            largest = one;
    }
    return largest;
}

/* Return 1 if the error norm is at most 1. For a tolerance d, e / d <= 1 holds exactly if e <= d,
   so the function avoids the division. */
static inline int is_within_tolerance(const double *e, const double *x, const double *y)
{
    int all = 1;
    for (int i = 0; i < RB_NX; i++) {
        const double a = fabs(x[i]), b = fabs(y[i]);
        all &= (fabs(e[i]) <= RB_ATOL[i] + RB_RTOL * (a > b ? a : b)) & (b <= DBL_MAX);
    }
    return all;
}

/* e = h sum_r weights_r k_r */
static inline void combine_stages(double h, const double *weights, double k[][RB_NX + 1], int n,
                                  double *e)
{
    for (int i = 0; i < RB_NX; i++) {
        double sum = 0.0;
        for (int r = 0; r < n; r++)
            sum += weights[r] * k[r][i];
        e[i] = h * sum;
    }
}

/* Compute the state derivatives at time t and states x, with the inputs at that time. */
static inline void evaluate_rates(double *m, double t, const double *x,
                                  const InputPolynomials *course, double *rates)
{
    store(m + RB_X, x, RB_NX);
    m[RB_T] = t;
    evaluate_inputs(course, m, t);
    derivative(m, rates);
}

/* Copy the states y at the end of the step into the memory, and project them onto their
   constraints. Returns the norm of the correction relative to the tolerance. */
static inline double project_end_state(double *m, TrialStep *trial, const InputPolynomials *course)
{
    store(m + RB_X, trial->y, RB_NX);
    m[RB_T] = trial->end;
    evaluate_inputs(course, m, trial->end);
#if RB_PROJECTS
    RB_WORKSPACE(RB_LARGE, double, back, RB_NX + 1);
    RB_WORKSPACE(RB_LARGE, double, move, RB_NX + 1);
    project(m, back);
    for (int i = 0; i < RB_NX; i++) {
        move[i] = back[i] - trial->y[i];
        trial->y[i] = back[i];
    }
    store(m + RB_X, back, RB_NX);
    return error_norm(move, trial->x, trial->y);
#else
    return 0.0;
#endif
}

static inline double max_of(double a, double b)
{
    return a > b ? a : b;
}

#endif

/* ---- methods: each computes trial->y and returns its error norm ---- */

#if RB_ADAPTIVE

#if RB_EXPLICIT

/* Try an RK4 step. It is accepted if it differs from a second-order result by at most the
   tolerance. This screen costs no extra evaluation, but it does not detect third-order errors. The
   sums are written out for speed.

     e = h (k_1 - k_2 - k_3 + k_4) / 6 */
static inline int try_rk4_step(double *m, TrialStep *trial, const InputPolynomials *course)
{
    static const double times[4] = {0.0, 0.5, 0.5, 1.0};
    const double h = trial->h, sixth = 1.0 / 6, third = 1.0 / 3;
    RB_WORKSPACE(RB_LARGE, state_row, k, 4);
    RB_WORKSPACE(RB_LARGE, double, e, RB_NX + 1);
    store(k[0], trial->f, RB_NX);
    for (int s = 1; s < 4; s++) {
        for (int i = 0; i < RB_NX; i++)
            trial->y[i] = trial->x[i] + h * (times[s] * k[s - 1][i]);
        evaluate_rates(m, trial->t + times[s] * h, trial->y, course, k[s]);
    }
    for (int i = 0; i < RB_NX; i++) {
        const double first = sixth * k[0][i], last = sixth * k[3][i];
        trial->y[i] = trial->x[i] + h * (first + third * k[1][i] + third * k[2][i] + last);
        e[i] = h * (first - sixth * k[1][i] - sixth * k[2][i] + last);
    }
    trial->next_known = 0;
    return is_within_tolerance(e, trial->x, trial->y) && project_end_state(m, trial, course) <= 1.0;
}

/* Vote on stiffness from two states at the end of a step and their derivatives. */
static inline void detect_stiffness(double *s, double h, const double *x, const double *y,
                                    const double *before, const double *rates,
                                    const double *rates_before)
{
    RB_WORKSPACE(RB_LARGE, double, apart, RB_NX + 1);
    RB_WORKSPACE(RB_LARGE, double, change_of_rates, RB_NX + 1);
    for (int i = 0; i < RB_NX; i++) {
        apart[i] = y[i] - before[i];
        change_of_rates[i] = rates[i] - rates_before[i];
    }
    const double distance = error_norm(apart, x, y), fast = error_norm(change_of_rates, x, y);
    vote_for_implicit(s, h, distance, fast);
}

/* Try a step of the explicit embedded pair, whose last stage is at the end of the step. Returns
   its error norm. */
static inline double try_explicit_step(double *m, TrialStep *trial, const InputPolynomials *course)
{
    RB_WORKSPACE(RB_LARGE, state_row, k, RB_STAGES);
    RB_WORKSPACE(RB_LARGE, double, e, RB_NX + 1);
    RB_WORKSPACE(RB_LARGE, double, before, RB_NX + 1);
    trial->next_known = 0;
    store(k[0], trial->f, RB_NX);
    for (int s = 1; s < RB_STAGES; s++) {
        combine_stages(trial->h, RB_A[s], k, s, e);
        if (s == RB_STAGES - 1)
            store(before, trial->y, RB_NX);
        for (int i = 0; i < RB_NX; i++)
            trial->y[i] = trial->x[i] + e[i];
        if (s < RB_STAGES - 1)
            evaluate_rates(m, trial->t + RB_C[s] * trial->h, trial->y, course, k[s]);
    }
    const double move = project_end_state(m, trial, course);
    if (!(move <= 1.0))
        return move;
    derivative(m, k[RB_STAGES - 1]);
    combine_stages(trial->h, RB_ERROR, k, RB_STAGES, e);
    store(trial->next, k[RB_STAGES - 1], RB_NX);
    trial->next_known = 1;
    const double error = max_of(move, error_norm(e, trial->x, trial->y));
    if (error <= 1.0)
        detect_stiffness(m + RB_S, trial->h, trial->x, trial->y, before, k[RB_STAGES - 1],
                         k[RB_STAGES - 2]);
    return error;
}

#endif

#if RB_LINEARLY_IMPLICIT

/* Try a step of the Rosenbrock pair, whose last stage is the error estimate. Polynomial inputs have
   their value at the middle of the step. Returns its error norm. */
RB_NOT_INLINED
static double try_rosenbrock_step(double *m, TrialStep *trial, const InputPolynomials *course)
{
    RB_WORKSPACE(RB_LARGE, state_row, k, RB_IMPLICIT_STAGES);
    RB_WORKSPACE(RB_LARGE, double, e, RB_NX + 1);
    store(m + RB_X, trial->x, RB_NX);
    m[RB_T] = trial->t;
    evaluate_inputs(course, m, trial->t + 0.5 * trial->h);
    if (course)
        derivative(m, trial->f);
    if (course || !trial->slopes_known)
        jacobian_at(m, trial->h, trial->f, trial->slopes);
    trial->slopes_known = 1;
    implicit_stages(m, trial->t, trial->h, trial->x, trial->f, trial->slopes, k);
    for (int i = 0; i < RB_NX; i++) {
        trial->y[i] = trial->x[i] + trial->h * weighted_sum(RB_IMPLICIT_A[RB_IMPLICIT_STAGES], k,
                                                            RB_IMPLICIT_STAGES, i);
        e[i] = trial->h * k[RB_IMPLICIT_STAGES - 1][i];
    }
    const double error = error_norm(e, trial->x, trial->y);
    trial->next_known = 0;
    return error <= 1.0 ? max_of(error, project_end_state(m, trial, course)) : error;
}

#endif

#endif

#endif
