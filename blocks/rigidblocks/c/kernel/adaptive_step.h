/* Adaptive integration over a communication step by inner steps of variable size: step size
   control, switching functions and rejection. block/adaptive_step.py does the same arithmetic in
   the same order. */

#ifndef RB_ADAPTIVE_STEP_H
#define RB_ADAPTIVE_STEP_H

#include <float.h>
#include <math.h>

#include "collocation.h"
#include "integrators.h"
#include "model_interface.h"

/* ---- sign changes of switching functions ---- */

#ifdef RB_MARGINS

#define RB_MAX_BISECTIONS 40 /* number of bisections for a zero: 2^-40 of a step */
#define RB_EVENT_MARGIN \
    1e-4 /* relative distance at which a step ends before a sign change; found by trial */
#define RB_MAX_DIP_TRIALS \
    6 /* trials that shorten a step because a function may dip below zero; found by trial */

/* Values of the switching functions, and their time derivatives times the step size. */
typedef struct {
    double value[RB_MARGINS], change[RB_MARGINS];
} SwitchingValues;

/* Approach to a sign change within a communication step. A step that contains a sign change is
   accepted only if the state derivatives change by at most the tolerance over it. Otherwise it is
   shortened to end just before the sign change. */
typedef struct {
    double resumed;  /* step size before it was shortened [s]; 0 if it was not */
    double expected; /* step size to the sign change [s]; 0 if it is not known */
    int dips;
    int crosses;
} EventApproach;

/* Reset the approach at the start of an inner step. */
static inline void reset_approach(EventApproach *way)
{
    way->expected = 0.0;
    way->dips = way->crosses = 0;
}

static inline double hermite(double s, double g0, double d0, double g1, double d1)
{
    const double a = d0 + d1 - 2.0 * (g1 - g0), b = 3.0 * (g1 - g0) - 2.0 * d0 - d1;
    return g0 + s * (d0 + s * (b + s * a));
}

/* Return the zero of a Hermite cubic that is positive at 0 and not positive at 1, by bisection. */
static inline double bisect_hermite(double g0, double d0, double g1, double d1)
{
    double low = 0.0, high = 1.0;
    for (int i = 0; i < RB_MAX_BISECTIONS; i++) {
        const double middle = 0.5 * (low + high);
        if (hermite(middle, g0, d0, g1, d1) > 0.0)
            low = middle;
        else
            high = middle;
    }
    return high;
}

/* Return the fraction of the step at which a function that is positive at both ends may dip below
   zero, or 1. The fraction is the intersection of the tangents at both ends. A convex function lies
   above the tangents, for example the distance to a convex body along a straight path. */
static inline double possible_dip(double g0, double d0, double g1, double d1)
{
    if (!(d0 < 0.0 && 0.0 < d1))
        return 1.0;
    const double s = (g1 - d1 - g0) / (d0 - d1);
    return 0.0 < s && s < 1.0 && g0 + s * d0 < 0.0 ? s : 1.0;
}

/* Return the fraction of the step until the first sign change or possible dip below zero. The
   result is 1 without sign change and dip. `known` becomes 1 if a sign is different at the end. */
static inline double first_sign_change(const SwitchingValues *start, const SwitchingValues *end,
                                       int *known)
{
    double part = 1.0;
    *known = 0;
    for (int i = 0; i < RB_MARGINS; i++) {
        const double sign = start->value[i] > 0.0 ? 1.0 : -1.0;
        const double g0 = sign * start->value[i], d0 = sign * start->change[i];
        const double g1 = sign * end->value[i], d1 = sign * end->change[i];
        if ((start->value[i] > 0.0) != (end->value[i] > 0.0)) {
            const double one = bisect_hermite(g0, d0, g1, d1);
            if (!*known || one < part)
                part = one;
            *known = 1;
        } else if (!*known) {
            const double one = possible_dip(g0, d0, g1, d1);
            if (one < part)
                part = one;
        }
    }
    return part;
}

/* Return a step size to try instead of h, or 0 if the step may be accepted. `error` is the change
   of the state derivatives over the step, relative to the tolerance. */
static inline double step_size_to_event(EventApproach *way, double h, const SwitchingValues *start,
                                        const SwitchingValues *end, double error)
{
    const double part = first_sign_change(start, end, &way->crosses);
    if (way->crosses) {
        way->expected = part * h;
        return error <= 1.0 ? 0.0 : way->expected * (1.0 - RB_EVENT_MARGIN);
    }
    if (part == 1.0 || way->dips == RB_MAX_DIP_TRIALS)
        return 0.0;
    way->dips++;
    return part * h;
}

/* Return the next step size after a step of size h. `length` is the step size that the error
   control proposes. */
static inline double step_size_after_event(EventApproach *way, double h, double length)
{
    if (way->crosses && way->resumed > 0.0) {
        length = way->resumed > length ? way->resumed : length;
        way->resumed = 0.0;
    } else if (way->expected > h && 2.0 * (way->expected - h) < length)
        length = 2.0 * (way->expected - h);
    return length;
}

#endif

/* ---- step size control ---- */

#if RB_ADAPTIVE

/* Return the power of the error norm for the step size control: error^0.125 for the explicit pair
   (order 5), error^0.1875 for Rosenbrock (order 4), error^0.15625 for collocation (order 6). The
   function uses only square roots, so that all platforms compute the same bits. */
static inline double error_power(double error, double kind)
{
    const double q = sqrt(sqrt(error));
#if RB_COLLOCATION
    if (kind == 2.0)
        return sqrt(q) * sqrt(sqrt(sqrt(q)));
#endif
    return kind == 1.0 ? sqrt(q) * sqrt(sqrt(q)) : sqrt(q);
}

/* Store the next step size, from a proportional-integral controller. With r the power that
   `error_power` returns,

     factor = clamp(0.9 r(error)^-1 r(error_before)^(1/2), 0.2, 5);  at most 1 after a rejection

   Errors count as at least 1e-8, and before the first step as 1e-4.

   If a step was shortened to end with the communication step, the next step is not shortened. */
static inline void store_next_step_size(double *s, double h, double error, int shortened,
                                        double kind)
{
    const double now = max_of(error, 1e-8), last = s[RB_LAST_ERROR] > 0.0 ? s[RB_LAST_ERROR] : 1e-4;
    double factor = 0.9 / error_power(now, kind) * sqrt(error_power(last, kind));
    factor = factor < 0.2 ? 0.2 : factor > 5.0 ? 5.0 : factor;
    if (shortened && factor > 1.0)
        factor = 1.0;
    s[RB_LAST_ERROR] = round_to_nine_bits(now);
    if (h >= s[RB_NEXT_STEP] || factor < 1.0 || h * factor > s[RB_NEXT_STEP])
        /* the end of the communication step may have shortened this step */
        s[RB_NEXT_STEP] = round_to_nine_bits(h * factor);
}

/* Return the first step size to try, at most `left`. If two steps remain, they get equal sizes. A
   difference of 1e-9 is a rounding error of the times. */
static inline double first_step_size(const double *s, double left)
{
    const double h = s[RB_NEXT_STEP] < RB_INNER_STEP ? s[RB_NEXT_STEP] : RB_INNER_STEP;
    return h >= left * (1.0 - 1e-9) ? left : h > 0.5 * left ? 0.5 * left : h;
}

/* Return the size of the first step of a run. The size is the remaining time `left`. If collocation
   is the only method, the size is smaller if a state would change by a large amount. */
static inline double initial_step_size(const TrialStep *trial, double left)
{
#if RB_COLLOCATION && !RB_EXPLICIT
    const double fastest = error_norm(trial->f, trial->x, trial->x), part = RB_START_PART / RB_RTOL;
    return fastest <= DBL_MAX && part < fastest * left ? round_to_nine_bits(part / fastest) : left;
#else
    (void)trial;
    return left;
#endif
}

/* Return the smallest step size that the floating-point time resolves: 16 epsilon max(|t|,
   |t_end|). */
static inline double smallest_step_size(double t, double end)
{
    return 16.0 * DBL_EPSILON * max_of(fabs(t), fabs(end));
}

/* Return 1 if a step with this error is accepted: if error <= 1, or if the error is finite and no
   shorter step is possible. */
static inline int is_acceptable(double error, int is_shortest)
{
    return error <= 1.0 || (is_shortest && error <= DBL_MAX);
}

/* Return the step size after a rejected step: h clamp(0.9 error^-0.25, 0.2, 0.5), or 0.2 h if the
   error is not finite. */
static inline double rejected_step_size(double h, double error)
{
    const double factor = error <= DBL_MAX ? 0.9 / sqrt(sqrt(error)) : 0.2;
    return round_to_nine_bits(h * (factor < 0.2 ? 0.2 : factor > 0.5 ? 0.5 : factor));
}

#endif

/* ---- inner step ---- */

#if RB_ADAPTIVE

/* Progress of the inner steps from `start` to `end`. The elapsed time is stored, because
   differences of times have rounding errors. */
typedef struct {
    double start, length, end;
    double done;             /* elapsed [s] */
    double rates[RB_NX + 1]; /* state derivatives at the states in the memory, if known */
    int known;
    int tried;
#if RB_COLLOCATION
    Stages stages;
#endif
#ifdef RB_MARGINS
    EventApproach approach;
#endif
} StepProgress;

/* Start a communication step. After a failed screen, `rates` holds the state derivatives at its
   start; otherwise it is NULL. */
static inline void start_progress(StepProgress *progress, double start, double length, double end,
                                  const double *rates)
{
    progress->start = start;
    progress->length = length;
    progress->end = end;
    progress->done = 0.0;
    progress->known = progress->tried = rates != NULL;
    if (rates)
        store(progress->rates, rates, RB_NX);
#if RB_COLLOCATION
    start_stages(&progress->stages);
#endif
#ifdef RB_MARGINS
    progress->approach.resumed = 0.0;
#endif
}

/* Try a step of the active method. Returns its error norm. */
static inline double attempt_step(double *m, TrialStep *trial, StepProgress *progress,
                                  const InputPolynomials *course)
{
    (void)progress;
#if RB_COLLOCATION
    if (m[RB_S + RB_ACTIVE_METHOD] == 2.0) {
        const double error = try_stages(m, trial, &progress->stages, course);
        m[RB_S + RB_WINDOW_COST] += RB_EXPLICIT ? progress->stages.spent : 0.0;
        return error;
    }
#endif
#if RB_LINEARLY_IMPLICIT
    if (m[RB_S + RB_ACTIVE_METHOD] == 1.0) {
#if RB_EXPLICIT && RB_COLLOCATION
        m[RB_S + RB_WINDOW_COST] += RB_PRICE_OF_ROSENBROCK;
#endif
        return try_rosenbrock_step(m, trial, course);
    }
#endif
#if RB_EXPLICIT
    return try_explicit_step(m, trial, course);
#else
    return INFINITY;
#endif
}

/* Finish a communication step that has used up its inner steps. It takes one step of a method
   without error control: linearly implicit Euler, or RK4. */
RB_NOT_INLINED
static void finish_within_budget(double *m, TrialStep *trial, double left, double end,
                                 const InputPolynomials *course)
{
    trial->h = left;
    trial->end = end;
    m[RB_S + RB_EXHAUSTED_STEPS] += 1.0;
#if RB_IMPLICIT
    RB_WORKSPACE(RB_LARGE, state_row, w, RB_NX + 1);
    RB_WORKSPACE(RB_LARGE, double, k, RB_NX + 1);
    RB_WORKSPACE(RB_LARGE, int, pivot, RB_NX + 1);
    store(m + RB_X, trial->x, RB_NX);
    m[RB_T] = trial->t;
    evaluate_inputs(course, m, end);
    derivative(m, k);
    jacobian_at(m, trial->h, k, trial->slopes);
    implicit_matrix(w, trial->h, trial->slopes);
    factorize(w, pivot);
    for (int i = 0; i < RB_NX; i++)
        k[i] += trial->h * trial->slopes[RB_NX * RB_NX + i];
    solve(w, pivot, k);
    for (int i = 0; i < RB_NX; i++)
        trial->y[i] = trial->x[i] + trial->h * k[i];
    const double move = project_end_state(m, trial, course);
#else
    const double move = try_rk4_step(m, trial, course) ? 0.0 : project_end_state(m, trial, course);
#endif
    int finite = move <= DBL_MAX;
    for (int i = 0; i < RB_NX; i++)
        finite = finite && isfinite(trial->y[i]);
    if (!finite)
        store(m + RB_X, trial->x, RB_NX); /* keep the last finite states */
}

#ifdef RB_MARGINS
/* Compute the switching functions at the states x, and their time derivatives times the step size.
   The derivative is a difference quotient over 1/64 of the step (found by trial), towards its
   inside: `way` is 1 at the start of the step and -1 at its end. */
static inline void switching_values_near(double *m, double t, const double *x, double h,
                                         const double *rates, double way,
                                         const InputPolynomials *course, SwitchingValues *at)
{
    const double near = way * (1.0 / 64.0);
    RB_WORKSPACE(RB_LARGE, double, there, RB_MARGINS);
    m[RB_T] = t;
    evaluate_inputs(course, m, t);
    store(m + RB_X, x, RB_NX);
    margins(m, at->value);
    for (int i = 0; i < RB_NX; i++)
        m[RB_X + i] = x[i] + near * (h * rates[i]);
    margins(m, there);
    for (int i = 0; i < RB_MARGINS; i++)
        at->change[i] = (there[i] - at->value[i]) / near;
}

/* Return a shorter step size if a switching function changes its sign in the trial step, else 0.
   Afterwards the state derivatives at the end are known. */
static inline double step_size_to_sign_change(double *m, TrialStep *trial, EventApproach *approach,
                                              const InputPolynomials *course)
{
    RB_WORKSPACE(RB_LARGE, SwitchingValues, before, 1);
    RB_WORKSPACE(RB_LARGE, SwitchingValues, after, 1);
    RB_WORKSPACE(RB_LARGE, double, change_of_rates, RB_NX + 1);
    if (!trial->next_known)
        evaluate_rates(m, trial->end, trial->y, course, trial->next);
    trial->next_known = 1;
    for (int i = 0; i < RB_NX; i++)
        change_of_rates[i] = trial->h * (trial->next[i] - trial->f[i]);
    switching_values_near(m, trial->t, trial->x, trial->h, trial->f, 1.0, course, before);
    switching_values_near(m, trial->end, trial->y, trial->h, trial->next, -1.0, course, after);
    store(m + RB_X, trial->y, RB_NX);
    return step_size_to_event(approach, trial->h, before, after,
                              error_norm(change_of_rates, trial->x, trial->y));
}

/* Elements of the control state that votes change. */
enum { RB_VOTE_COUNT = 6 };
static const int RB_VOTE_PLACES[RB_VOTE_COUNT] = {
    RB_ACTIVE_METHOD,      RB_VOTES, RB_EIGENVALUE, RB_STIFF_DETECTIONS, RB_EXPLICIT_STEP_SIZE,
    RB_PREFERRED_IMPLICIT,
};

static inline void save_votes(double *signs, const double *s)
{
    for (int i = 0; i < RB_VOTE_COUNT; i++)
        signs[i] = s[RB_VOTE_PLACES[i]];
}

static inline void restore_votes(double *s, const double *signs)
{
    for (int i = 0; i < RB_VOTE_COUNT; i++)
        s[RB_VOTE_PLACES[i]] = signs[i];
}
#endif

/* An inner step with its trials. */
typedef struct {
    double *m;
    StepProgress *progress;
    const InputPolynomials *course;
    TrialStep trial; /* the last trial */
    double left;     /* remaining time of the communication step [s] */
    double shortest; /* smallest step size that the floating-point time resolves [s] */
    double kind;     /* active method */
    int shortened;
#if RB_EXPLICIT && RB_COLLOCATION
    double spent; /* RB_WINDOW_COST before this step */
#endif
#ifdef RB_MARGINS
    double signs[RB_VOTE_COUNT]; /* votes before the trial */
    double before; /* step size that ends before a sign change in the last trial [s], else 0 */
#endif
} InnerStep;

/* Return the time at the end of the trial step. */
static inline double trial_end_time(const InnerStep *inner)
{
    const StepProgress *progress = inner->progress;
    const double h = inner->trial.h;
    return h == inner->left ? progress->end : progress->start + (progress->done + h);
}

/* Return the elapsed time after the trial step [s]. */
static inline double elapsed_after_trial(const InnerStep *inner)
{
    const StepProgress *progress = inner->progress;
    const double h = inner->trial.h;
    return h == inner->left ? progress->length : progress->done + h;
}

/* Set the start of a trial. The state derivatives may be known from the last step. */
static inline void start_trial(double *m, double t, StepProgress *progress,
                               const InputPolynomials *course, TrialStep *trial)
{
    trial->t = t;
    store(trial->x, m + RB_X, RB_NX);
    if (!progress->known)
        evaluate_rates(m, t, trial->x, course, progress->rates);
    store(trial->f, progress->rates, RB_NX);
    trial->next_known = 0;
#if RB_IMPLICIT
    trial->slopes_known = 0;
#endif
}

/* Start an inner step: the data that all trials share, and the first step size. */
static inline void start_inner_step(InnerStep *inner, double *m, StepProgress *progress,
                                    const InputPolynomials *course)
{
    double *s = m + RB_S;
    const double t = progress->start + progress->done;
    inner->m = m;
    inner->progress = progress;
    inner->course = course;
    inner->left = progress->length - progress->done;
    inner->shortest = smallest_step_size(t, progress->end);
    inner->shortened = 0;
#if !RB_EXPLICIT
    s[RB_ACTIVE_METHOD] = RB_COLLOCATION ? 2.0 : 1.0;
#endif
    inner->kind = s[RB_ACTIVE_METHOD];
    start_trial(m, t, progress, course, &inner->trial);
    if (s[RB_NEXT_STEP] == 0.0)
        s[RB_NEXT_STEP] = initial_step_size(&inner->trial, inner->left);
    inner->trial.h = first_step_size(s, inner->left);
#if RB_EXPLICIT && RB_COLLOCATION
    inner->spent = s[RB_WINDOW_COST];
    if (inner->kind == 1.0)
        s[RB_WINDOW_COST] += RB_PRICE_OF_SLOPES;
#endif
#ifdef RB_MARGINS
    reset_approach(&progress->approach);
    save_votes(inner->signs, s);
#endif
}

/* Return 1 if the communication step may have more trials. A step stops if RB_TEST_TRIES trials
   have covered less than 1 % of it, because it would not finish within the bound. */
static inline int has_tries_left(const StepProgress *progress)
{
    const int bound = RB_MAX_INNER_STEPS > 0 && RB_MAX_INNER_STEPS < RB_MOST_TRIES
                          ? RB_MAX_INNER_STEPS
                          : RB_MOST_TRIES;
    if (progress->tried == RB_TEST_TRIES && progress->done < 0.01 * progress->length)
        return 0; /* the step would not finish within the bound */
    return progress->tried < bound;
}

/* Do one trial step and return its error norm. If a switching function changes its sign in it, the
   votes are restored: the state derivatives jump there, which would look like stiffness. */
static inline double try_step(InnerStep *inner)
{
    StepProgress *progress = inner->progress;
    progress->tried++;
    inner->trial.end = trial_end_time(inner);
    const double error = attempt_step(inner->m, &inner->trial, progress, inner->course);
#ifdef RB_MARGINS
    inner->before = error <= 1.0 ? step_size_to_sign_change(inner->m, &inner->trial,
                                                            &progress->approach, inner->course)
                                 : 0.0;
    if (inner->before > 0.0 || (error <= 1.0 && progress->approach.crosses))
        restore_votes(inner->m + RB_S, inner->signs);
#endif
    return error;
}

/* Return 1 if the next trial must end before a sign change, and shorten it. */
static inline int shorten_before_event(InnerStep *inner)
{
#ifdef RB_MARGINS
    double *s = inner->m + RB_S, *resumed = &inner->progress->approach.resumed;
    if (!(inner->before > 0.0 && inner->trial.h > 2.0 * inner->shortest))
        return 0;
    if (*resumed == 0.0)
        *resumed = s[RB_NEXT_STEP];
    inner->trial.h = s[RB_NEXT_STEP] = max_of(inner->before, 2.0 * inner->shortest);
    return 1;
#else
    (void)inner;
    return 0;
#endif
}

#if RB_EXPLICIT && RB_IMPLICIT
/* Vote after an accepted implicit step with the Jacobian `slopes`. The vote for the explicit pair
   uses a bound on the eigenvalues; the vote for the other implicit method uses the cost. The bound
   is the row-sum norm with states scaled by their tolerances:

     max_i sum_j |J_ij| tol_j / tol_i */
RB_NOT_INLINED
static void assess_implicit_step(double *s, const TrialStep *trial, const double *slopes,
                                 double dearness)
{
    double bound = 0.0;
    for (int i = 0; i < RB_NX; i++) {
        double sum = 0.0;
        for (int j = 0; j < RB_NX; j++)
            sum += fabs(slopes[i * RB_NX + j]) * (RB_ATOL[j] + RB_RTOL * fabs(trial->x[j]));
        bound = max_of(bound, sum / (RB_ATOL[i] + RB_RTOL * fabs(trial->x[i])));
    }
    vote_for_explicit(s, trial->h, bound, dearness);
#if RB_LINEARLY_IMPLICIT && RB_COLLOCATION
    if (s[RB_ACTIVE_METHOD] != 0.0)
        select_cheaper_implicit_method(s, trial->h);
#endif
}

/* Vote after an accepted implicit step, with the Jacobian and cost of the method of that step. */
static inline void assess_active_method(const InnerStep *inner)
{
    double *s = inner->m + RB_S;
#if RB_LINEARLY_IMPLICIT
    if (inner->kind == 1.0 && inner->trial.slopes_known)
        assess_implicit_step(s, &inner->trial, inner->trial.slopes, RB_DEARNESS);
#endif
#if RB_COLLOCATION
    const Stages *stages = &inner->progress->stages;
    if (inner->kind == 2.0 && stages->have_slopes)
        assess_implicit_step(s, &inner->trial, stages->slopes,
                             (s[RB_WINDOW_COST] - inner->spent) / (RB_STAGES - 1));
#endif
}
#endif

/* Store the stages and the next step size after an accepted step. */
static inline void store_accepted_step(InnerStep *inner, double error)
{
    StepProgress *progress = inner->progress;
    double *s = inner->m + RB_S;
    const double h = inner->trial.h;
    store_next_step_size(s, h, error, inner->shortened, inner->kind);
#if RB_COLLOCATION
    if (inner->kind == 2.0)
        s[RB_NEXT_STEP] = keep_stages(&progress->stages, h, s[RB_NEXT_STEP]);
    else
        start_stages(&progress->stages);
#endif
#if RB_COLLOCATION && defined(RB_MARGINS)
    if (progress->approach.crosses) /* the derivatives jump at a sign change: new stages */
        start_stages(&progress->stages);
#endif
#ifdef RB_MARGINS
    s[RB_NEXT_STEP] = step_size_after_event(&progress->approach, h, s[RB_NEXT_STEP]);
#endif
    progress->known = inner->trial.next_known;
}

/* Accept a step with an error above the tolerance, because no shorter step is possible. */
static inline void accept_above_tolerance(InnerStep *inner)
{
    double *s = inner->m + RB_S;
    s[RB_ACCEPTED_ABOVE_TOLERANCE] += 1.0;
    s[RB_NEXT_STEP] = max_of(s[RB_NEXT_STEP], 2.0 * inner->trial.h);
    project_end_state(inner->m, &inner->trial, inner->course);
#if RB_COLLOCATION
    start_stages(&inner->progress->stages);
#endif
    inner->progress->known = 0;
}

/* Accept the trial step. Returns the time at its end. */
static inline double accept_step(InnerStep *inner, double error)
{
    StepProgress *progress = inner->progress;
    if (error <= 1.0) {
#if RB_EXPLICIT && RB_IMPLICIT
        assess_active_method(inner);
#endif
        store_accepted_step(inner, error);
    } else
        accept_above_tolerance(inner);
    if (progress->known)
        store(progress->rates, inner->trial.next, RB_NX);
    progress->done = elapsed_after_trial(inner);
    return inner->trial.end;
}

/* End a communication step if no step size is accepted. If the number of inner steps is bounded,
   finish it without error control; otherwise mark the states as not finite. */
static inline double give_up_step(InnerStep *inner)
{
    StepProgress *progress = inner->progress;
    if (RB_MAX_INNER_STEPS > 0)
        finish_within_budget(inner->m, &inner->trial, inner->left, progress->end, inner->course);
    else
        inner->m[RB_X] = NAN;
    progress->done = progress->length;
    return progress->end;
}

#endif

/* ---- loop over the trials ----

   A trial step is accepted if its error norm is at most 1; otherwise it is repeated with a smaller
   step size. The control state is in the memory from RB_S on. Decisions use only + - * / sqrt, fabs
   and comparisons, so that they are the same for all compilers. */

#if RB_ADAPTIVE

/* Result of the RK4 screen of a communication step. */
typedef enum {
    RB_SCREEN_NOT_TRIED,
    RB_SCREEN_FAILED,
    RB_SCREEN_TAKEN,
} ScreenResult;

/* Try the whole communication step by one RK4 step (the screen), if the step size allows it. It
   fails if a switching function changes its sign. After a failure, `rates` holds the state
   derivatives at the start. */
static inline ScreenResult screen_communication_step(double *m, double start, double length,
                                                     double end, const InputPolynomials *course,
                                                     double *rates)
{
#if RB_EXPLICIT
    RB_WORKSPACE(RB_LARGE, TrialStep, trial, 1);
    double *s = m + RB_S;
    if (s[RB_ACTIVE_METHOD] != 0.0)
        return RB_SCREEN_NOT_TRIED;
    if (s[RB_NEXT_STEP] == 0.0)
        s[RB_NEXT_STEP] = length;
    if (first_step_size(s, length) != length)
        return RB_SCREEN_NOT_TRIED;
    if (s[RB_SCREEN_PAUSE_LEFT] > 0.0) {
        s[RB_SCREEN_PAUSE_LEFT] -= 1.0;
        return RB_SCREEN_NOT_TRIED;
    }
    trial->t = start;
    trial->h = length;
    trial->end = end;
    store(trial->x, m + RB_X, RB_NX);
    evaluate_rates(m, start, trial->x, course, trial->f);
    int is_taken = try_rk4_step(m, trial, course);
#ifdef RB_MARGINS
    EventApproach approach = {0.0, 0.0, 0, 0};
    is_taken = is_taken && !(step_size_to_sign_change(m, trial, &approach, course) > 0.0);
#endif
    if (is_taken)
        return RB_SCREEN_TAKEN;
    s[RB_SCREEN_PAUSE_LEFT] = RB_SCREEN_PAUSE; /* the explicit pair tries the same step */
    store(m + RB_X, trial->x, RB_NX);
    store(rates, trial->f, RB_NX);
    return RB_SCREEN_FAILED;
#else
    (void)m, (void)start, (void)length, (void)end, (void)course, (void)rates;
    return RB_SCREEN_NOT_TRIED;
#endif
}

/* Do one inner step by trials. Returns the time at its end. The states are not finite if no step
   was possible. */
static inline double take_inner_step(double *m, StepProgress *progress,
                                     const InputPolynomials *course)
{
    RB_WORKSPACE(RB_LARGE, InnerStep, inner, 1);
    start_inner_step(inner, m, progress, course);
    while (has_tries_left(progress)) {
        const double error = try_step(inner);
        if (shorten_before_event(inner))
            continue;
        const double shorter = rejected_step_size(inner->trial.h, error);
        if (is_acceptable(error, shorter < inner->shortest))
            return accept_step(inner, error);
        if (shorter < inner->shortest)
            break;
        inner->shortened = 1;
        inner->trial.h = m[RB_S + RB_NEXT_STEP] = shorter;
    }
    return give_up_step(inner);
}

#endif

#endif
