/* Inner steps of an FMU for model exchange: error control, stiffness detection and dense output.

   The stiffness detection is the one of block/adaptive_methods.py. */

#ifndef RB_EXCHANGE_INTEGRATOR_H
#define RB_EXCHANGE_INTEGRATOR_H

#include <float.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include "exchange_stages.h"
#include "fmu_step.h"
#include "master.h"

/* ---- stiffness detection ---- */

/* Vote for implicit steps if stability, not accuracy, limits an explicit step:

     h |f(y) - f(y')| > stable |y - y'|

   for the states y and y' of the last two stages (Hairer and Wanner II, IV.2). */
static inline void rb_vote_for_implicit(const Exchange *model, const Tableau *method, double h)
{
    const int64_t n = model->n_states, last = (method->stages - 1) * n;
    double *control = model->control, *change = model->moved_rates, *way = model->stage_states;
    for (int64_t p = 0; p < n; p++) {
        way[p] = model->end_states[p] - model->near_states[p];
        change[p] = model->rates[last + p] - model->rates[last - n + p];
    }
    const double distance = rb_error_norm(model, way, model->start_states, model->end_states),
                 fast = rb_error_norm(model, change, model->start_states, model->end_states);
    /* a distance below 1e-5 tolerances consists of rounding errors */
    if (h * fast > model->stable * distance && distance > 1e-5) {
        control[RB_EIGENVALUE] = fast / distance;
        control[RB_VOTES] += 1.0;
    } else if (control[RB_VOTES] > 0.0)
        control[RB_VOTES] -= 0.5;
    if (control[RB_VOTES] >= model->enough_votes * (1.0 + control[RB_PATIENCE])) {
        control[RB_DETECTIONS] += 1.0;
        control[RB_VOTES] = 0.0;
        if (model->implicit_method || model->collocation) {
            control[RB_EXPLICIT_STEP] = h;
            control[RB_IS_IMPLICIT] = 1.0;
        }
    }
}

/* Vote for the explicit method after an implicit step of size h that cost as much as `dearness`
   explicit steps: explicit steps of the same cost would be stable, or have covered more time
   before. The bound of the eigenvalues is the row-sum norm with states scaled by their tolerances.
 */
static inline void rb_vote_for_explicit(const Exchange *model, double h, double dearness)
{
    const int64_t n = model->n_states;
    double *control = model->control, bound = 0.0;
    for (int64_t i = 0; i < n; i++) {
        double sum = 0.0;
        for (int64_t j = 0; j < n; j++)
            sum +=
                fabs(model->jacobian[i * n + j]) * rb_tolerance(model, j, model->start_states[j]);
        bound = fmax(bound, sum / rb_tolerance(model, i, model->start_states[i]));
    }
    const int is_stable = bound * h < 2.0 * dearness;
    const int votes = is_stable || h < dearness * control[RB_EXPLICIT_STEP];
    control[RB_VOTES] = votes ? control[RB_VOTES] + 1.0 : 0.0;
    if (control[RB_VOTES] >= model->enough_votes) {
        control[RB_VOTES] = control[RB_IS_IMPLICIT] = 0.0;
        if (!is_stable)
            control[RB_PATIENCE] = fmin(2.0 * control[RB_PATIENCE] + 1.0, model->most_patience);
    }
}

/* ---- inner step ---- */

/* Return the kind of the next step. Collocation uses the data of earlier steps, so it does not pay
   for steps that end at each communication point. */
static inline double rb_active_kind(const ExchangeStep *step)
{
    const Exchange *model = step->model;
    if (model->explicit_method && model->control[RB_IS_IMPLICIT] == 0.0)
        return RB_EXPLICIT_STEPS;
    return model->collocation && (step->looks_ahead || !model->implicit_method)
               ? RB_COLLOCATION_STEPS
               : RB_ROSENBROCK_STEPS;
}

/* Return the table of an explicit or linearly implicit method. */
static inline const Tableau *rb_tableau(const Exchange *model, double kind)
{
    return kind == RB_EXPLICIT_STEPS ? model->explicit_method : model->implicit_method;
}

/* Return 1 if the method controls the step size. */
static inline int rb_has_error_control(const Exchange *model)
{
    const Tableau *method =
        model->explicit_method ? model->explicit_method : model->implicit_method;
    return !method || method->error != NULL;
}

/* Return the exponent p of step size control: the error of a step is proportional to h^p. */
static inline double rb_error_order(const Exchange *model, double kind)
{
    return kind == RB_COLLOCATION_STEPS ? 6.0 : rb_tableau(model, kind)->order;
}

/* Try a step of size h from s; the error norm is infinite for a discarded step. Returns 0 if the
   run fails. */
static inline int rb_try_step(const ExchangeStep *step, double kind, double s, double h,
                              double *error)
{
    const Exchange *model = step->model;
    Evaluation found;
    if (kind == RB_COLLOCATION_STEPS) {
        found = rb_collocation_stages(step, s, h, error);
    } else {
        const Tableau *method = rb_tableau(model, kind);
        found = kind == RB_ROSENBROCK_STEPS ? rb_implicit_stages(step, method, s, h)
                                            : rb_explicit_stages(step, method, s, h);
        if (found == RB_DISCARDED && !method->error)
            return rb_exchange_accepts(step, RB_GET_RATES, RB_FMI_DISCARD) && 0;
        if (found == RB_EVALUATED)
            *error = method->error ? rb_step_error(model, method, h) : 0.0;
    }
    if (found == RB_DISCARDED)
        *error = INFINITY;
    return found != RB_EVALUATION_FAILED;
}

/* Evaluate the data that all trials of a step share: the first derivatives, and the Jacobian of a
   linearly implicit method. */
static inline int rb_prepare_step(const ExchangeStep *step, double kind, double s, double h)
{
    const Exchange *model = step->model;
    Evaluation found = RB_EVALUATED;
    if (model->control[RB_RATES_KNOWN] == 0.0)
        found = rb_try_rates(step, s, model->start_states, model->first_rates);
    if (found == RB_EVALUATED && kind == RB_ROSENBROCK_STEPS)
        found = rb_evaluate_slopes(step, s, h);
    model->control[RB_RATES_KNOWN] = found == RB_EVALUATED;
    return found == RB_DISCARDED ? rb_exchange_accepts(step, RB_GET_RATES, RB_FMI_DISCARD) && 0
                                 : found == RB_EVALUATED;
}

/* Return the first step size to try after an event (Hairer and Wanner I, II.4): the smaller of
   steps in which the states change by 1 % of their size, times 100, and in which the error of the
   method is about 1 % of the tolerance. The first derivatives are known. Returns 0 if the run
   fails. */
static inline double rb_initial_step_size(const ExchangeStep *step, double kind, double s,
                                          double left)
{
    const Exchange *model = step->model;
    const double *x = model->start_states, *f = model->first_rates;
    const double start = fmin(left, step->dt);
    double fastest = 0.0;
    for (int64_t p = 0; p < model->n_states; p++)
        fastest = fmax(fastest, fabs(f[p]) / fmax(fabs(x[p]), model->nominals[p]));
    const double h = fastest * start > 0.01 ? 0.01 / fastest : start;
    for (int64_t p = 0; p < model->n_states; p++)
        model->stage_states[p] = x[p] + h * f[p];
    const Evaluation found = rb_try_rates(step, s + h, model->stage_states, model->moved_rates);
    if (found != RB_EVALUATED)
        return found == RB_DISCARDED ? 0.01 * h : 0.0;
    for (int64_t p = 0; p < model->n_states; p++)
        model->moved_rates[p] = (model->moved_rates[p] - f[p]) / h;
    const double slope = rb_error_norm(model, f, x, x),
                 curvature = rb_error_norm(model, model->moved_rates, x, x),
                 largest = fmax(slope, curvature);
    if (!isfinite(largest))
        return 0.01 * h;
    const double by_error =
        largest > 0.0 ? pow(0.01 / largest, 1.0 / rb_error_order(model, kind)) : left;
    return fmin(fmin(100.0 * h, by_error), left);
}

/* Take an inner step with error control from `start_states` at s towards `end`. */
static inline int rb_adaptive_exchange_step(const ExchangeStep *step, double kind, double s,
                                            double end)
{
    const Exchange *model = step->model;
    double *control = model->control;
    const double left = end - s;
    /* a step below 16 roundings of the time does not advance the states reliably */
    const double shortest =
        16.0 * DBL_EPSILON *
        fmax(fabs(step->t + s), isfinite(end) ? fabs(step->t + end) : fabs(step->t + step->dt));
    if (control[RB_NEXT_STEP] == 0.0) {
        if (!rb_prepare_step(step, kind, s, fmin(left, step->dt)))
            return 0;
        control[RB_NEXT_STEP] = rb_initial_step_size(step, kind, s, fmin(left, model->longest));
        if (control[RB_NEXT_STEP] == 0.0)
            return 0;
    } else if (!rb_prepare_step(step, kind, s, fmin(left, control[RB_NEXT_STEP])))
        return 0;
    double h = fmin(fmin(control[RB_NEXT_STEP], model->longest), left);
    int is_shortened = 0;
    for (;;) {
        double error;
        h = h > (1.0 - 1e-9) * left ? left : h; /* no tiny last step */
        if (!rb_try_step(step, kind, s, h, &error))
            return 0;
        const double factor = 0.9 * pow(fmax(error, 1e-10), -1.0 / rb_error_order(model, kind));
        if (error <= 1.0) {
            const double longer = h * fmin(fmax(factor, 0.2), is_shortened ? 1.0 : 5.0);
            control[RB_NEXT_STEP] =
                h == left && factor > 1.0 ? fmax(control[RB_NEXT_STEP], longer) : longer;
            control[RB_STEP_SIZE] = h;
            control[RB_STEP_END] = h == left ? end : s + h;
            return 1;
        }
        h *= fmin(fmax(factor, 0.2), 0.5);
        is_shortened = 1;
        if (h < shortest) {
            *step->part->clock = step->t + s;
            return rb_exchange_accepts(step, RB_STEP, RB_SHORT_STEP) && 0;
        }
    }
}

/* Vote on the method after a step of size h, and store the data for the next step: the derivatives
   at the end of an explicit step, and the stages of a collocation step. */
static inline void rb_assess_step(const Exchange *model, double kind, double h)
{
    const int64_t n = model->n_states;
    double *control = model->control;
    control[RB_RATES_KNOWN] = 0.0;
    if (!rb_has_error_control(model))
        return;
    if (kind == RB_COLLOCATION_STEPS)
        rb_store_stages(model, h);
    else
        rb_forget_stages(control);
    if (kind == RB_EXPLICIT_STEPS) {
        const Tableau *method = model->explicit_method;
        rb_vote_for_implicit(model, method, h);
        for (int64_t p = 0; p < n; p++)
            model->first_rates[p] = model->rates[(method->stages - 1) * n + p];
        control[RB_RATES_KNOWN] = 1.0;
    } else if (model->explicit_method) {
        const double stages = (double)model->explicit_method->stages - 1.0;
        rb_vote_for_explicit(model, h,
                             kind == RB_COLLOCATION_STEPS ? control[RB_STEP_COST] / stages
                                                          : model->dearness);
    }
}

/* Take an inner step from s towards `end`. */
static inline int rb_take_inner_step(const ExchangeStep *step, double s, double end)
{
    const Exchange *model = step->model;
    double *control = model->control;
    control[RB_HAS_STEP] = 1.0;
    control[RB_STEP_HAS_EVENT] = 0.0;
    control[RB_STEP_START] = s;
    control[RB_STEP_END] = end;
    control[RB_STEP_SIZE] = end - s;
    if (model->n_states == 0)
        return 1;
    const double kind = control[RB_STEP_KIND] = rb_active_kind(step);
    for (int64_t p = 0; p < model->n_states; p++)
        model->start_states[p] = model->states[p];
    if (rb_has_error_control(model)) {
        if (!rb_adaptive_exchange_step(step, kind, s, end))
            return 0;
    } else {
        double error;
        const double n = fmax(1.0, ceil((end - s) / model->longest - 1e-9)), h = (end - s) / n;
        control[RB_STEP_SIZE] = h;
        control[RB_STEP_END] = n == 1.0 ? end : s + h;
        if (!rb_prepare_step(step, kind, s, h) || !rb_try_step(step, kind, s, h, &error))
            return 0;
    }
    rb_assess_step(model, kind, control[RB_STEP_SIZE]);
    return 1;
}

/* Compute the states at the time s inside the current inner step. */
static inline void rb_interpolate(const Exchange *model, double s, double *x)
{
    const double *control = model->control;
    const int64_t n = model->n_states;
    if (n == 0)
        return;
    const double h = control[RB_STEP_SIZE], delta = (s - control[RB_STEP_START]) / h;
    if (control[RB_STEP_KIND] == RB_COLLOCATION_STEPS) {
        rb_collocation_polynomial(model, model->rates, delta, x);
        for (int64_t p = 0; p < n; p++)
            x[p] += model->start_states[p];
        return;
    }
    const Tableau *method = rb_tableau(model, control[RB_STEP_KIND]);
    for (int64_t p = 0; p < n; p++)
        x[p] = 0.0;
    for (int64_t i = 0; i < method->stages; i++) {
        double weight = 0.0;
        for (int64_t j = method->degree; j > 0; j--)
            weight = delta * (weight + method->dense[i * method->degree + j - 1]);
        for (int64_t p = 0; p < n; p++)
            x[p] += weight * model->rates[i * n + p];
    }
    for (int64_t p = 0; p < n; p++)
        x[p] = model->start_states[p] + h * x[p];
}

#endif
