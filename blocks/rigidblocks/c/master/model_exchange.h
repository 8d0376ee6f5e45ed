/* Steps of an FMU for model exchange: inner steps with error control, stiffness detection and dense
   output, and the location of events.

   An inner step may end after the communication step if the inputs are constant. The outputs at the
   communication points inside come from dense output. The FMU completes such a step only when the
   loop reaches its end, so the FMU is never set to a time before its last completed step. If an
   input changes, the step ends at the communication point. No inner step ends after the run.

   The stiffness detection is the one of block/adaptive_methods.py. */

#ifndef RB_MODEL_EXCHANGE_H
#define RB_MODEL_EXCHANGE_H

#include <float.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include "exchange_stages.h"
#include "fmu_step.h"
#include "loop_tables.h"

enum { RB_HALVINGS = 53 }; /* bisections of a step, down to adjacent floating-point times */

/* Longest inner step, in communication steps. Longer steps save nothing. */
#define RB_LOOK_AHEAD 1e4

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
   explicit steps. The condition is that explicit steps of the same cost would be stable, or that
   earlier ones covered more time. The bound of the eigenvalues is the row-sum norm with states
   scaled by their tolerances.
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
            return rb_report_discarded(step);
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
    return found == RB_DISCARDED ? rb_report_discarded(step) : found == RB_EVALUATED;
}

/* Return the first step size to try after an event (Hairer and Wanner I, II.4). It is the smaller
   of two estimates. The first is 100 times the step in which the states change by 1 % of their
   size. The second is the step whose error is about 1 % of the tolerance. The first derivatives are
   known. Returns 0 if the run fails. */
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
            return control[RB_BAD_RATE] != 0.0
                       ? rb_report_discarded(step)
                       : rb_exchange_accepts(step, RB_STEP, RB_SHORT_STEP) && 0;
        }
    }
}

/* Vote on the method after a step of size h, and store data for the next step. The data are the
   derivatives at the end of an explicit step, or the stages of a collocation step. */
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

/* ---- calls of the FMU ---- */

/* Get values of the FMU: states, nominal values or event indicators. */
static inline int rb_get_exchange_values(const ExchangeStep *step, int call, Function function,
                                         double *values, int64_t n)
{
    return n == 0 || rb_exchange_accepts(
                         step, call, function.move_states(step->part->instance, values, (size_t)n));
}

static inline int rb_get_indicators(const ExchangeStep *step, double *values)
{
    const int64_t n = step->model->n_indicators;
    if (!rb_get_exchange_values(step, RB_GET_INDICATORS, step->model->get_indicators, values, n))
        return 0;
    for (int64_t k = 0; k < n; k++)
        if (isnan(values[k])) /* an infinite indicator has a sign */
            return rb_report_bad_value(step, RB_GET_INDICATORS, k, values[k]);
    return 1;
}

/* Return 1 if an indicator has become positive or has ceased to be positive. */
static inline int rb_has_sign_change(const Exchange *model)
{
    for (int64_t k = 0; k < model->n_indicators; k++)
        if ((model->indicators[k] > 0.0) != (model->new_indicators[k] > 0.0))
            return 1;
    return 0;
}

/* Replace the indicators by the new ones. */
static inline void rb_store_indicators(const Exchange *model)
{
    for (int64_t k = 0; k < model->n_indicators; k++)
        model->indicators[k] = model->new_indicators[k];
}

/* Set the FMU to the time s inside the current inner step, where the states are x. */
static inline int rb_set_inside_step(const ExchangeStep *step, double s, double *x)
{
    rb_interpolate(step->model, s, x);
    return rb_set_exchange_state(step, s, x);
}

/* Find the first sign change of an indicator between the times `low` and `high` in the current inner
   step by bisection, and end the step there. */
static inline int rb_locate_sign_change(const ExchangeStep *step, double low, double high)
{
    const Exchange *model = step->model;
    double *control = model->control, *x = model->stage_states;
    const double close = 4.0 * DBL_EPSILON * fmax(fabs(step->t + high), control[RB_STEP_SIZE]);
    const double end = high;
    for (int k = 0; k < RB_HALVINGS && high - low > close; k++) {
        const double middle = 0.5 * (low + high);
        if (!rb_set_inside_step(step, middle, x) || !rb_get_indicators(step, model->new_indicators))
            return 0;
        if (rb_has_sign_change(model))
            high = middle;
        else
            low = middle;
    }
    if (high < end || end < control[RB_STEP_END])
        rb_interpolate(model, high, model->end_states);
    control[RB_STEP_END] = high;
    control[RB_STEP_HAS_EVENT] = 1.0;
    control[RB_RATES_KNOWN] = 0.0;
    return rb_set_exchange_state(step, high, model->end_states);
}

/* ---- events ---- */

/* Handle an event at the time s, and return to continuous-time mode. */
static inline int rb_exchange_event(const ExchangeStep *step, double s)
{
    const Exchange *model = step->model;
    EventResult result = {0, 0, INFINITY};
    *step->part->clock = step->t + s;
    if (!rb_handle_event(step->loop, step->part, &result, step->t + s, step->t, step->dt))
        return 0;
    if (isnan(result.next))
        return rb_report_bad_value(step, RB_UPDATE, 0, result.next);
    model->control[RB_NEXT_EVENT] = result.next;
    model->control[RB_NEXT_STEP] = model->control[RB_RATES_KNOWN] = 0.0;
    rb_forget_stages(model->control);
    if (result.nominals_changed) {
        if (!rb_get_exchange_values(step, RB_GET_NOMINALS, model->get_nominals, model->nominals,
                                    model->n_states))
            return 0;
        for (int64_t p = 0; p < model->n_states; p++)
            model->nominals[p] = model->nominals[p] > 0.0 ? model->nominals[p] : 1.0;
    }
    if (result.states_changed) {
        if (!rb_get_exchange_values(step, RB_GET_STATES, model->get_states, model->states,
                                    model->n_states))
            return 0;
        const int64_t bad = rb_find_not_finite(model->states, model->n_states);
        if (bad)
            return rb_report_bad_value(step, RB_GET_STATES, bad - 1, model->states[bad - 1]);
    }
    return rb_get_indicators(step, model->indicators);
}

/* Report a completed inner step; `event` becomes 1 if the FMU requests event mode. */
static inline int rb_complete_inner_step(const ExchangeStep *step, int *event)
{
    const Function completed = step->model->completed_step;
    const int no_return = !*step->part->may_roll_back;
    int status, terminate = 0;
    *event = 0;
    if (!completed.enter_mode)
        return 1;
    if (step->part->kind == RB_FMI1) {
        char requests = 0;
        status = completed.fmi1_completed_step(step->part->instance, &requests);
        *event = requests != 0;
    } else if (step->part->kind == RB_FMI2) {
        status = completed.fmi2_completed_step(step->part->instance, no_return, event, &terminate);
    } else {
        _Bool requests = 0, ends = 0;
        status =
            completed.fmi3_completed_step(step->part->instance, no_return != 0, &requests, &ends);
        *event = requests;
        terminate = ends;
    }
    return rb_exchange_accepts(step, RB_COMPLETED_STEP,
                               status      ? status
                               : terminate ? RB_TERMINATES
                                           : 0);
}

/* Return the time of the next time event or clock tick, or dt if it differs from dt only by
   rounding. */
static inline double rb_next_time_event(const ExchangeStep *step)
{
    const double due =
        fmin(step->model->control[RB_NEXT_EVENT], rb_next_tick(step->part)) - step->t;
    return fabs(due - step->dt) <= step->close ? step->dt : due;
}

/* ---- communication step ---- */

/* Return 1 if an input that needs no event has changed since the last step, and store the inputs. */
static inline int rb_store_held_inputs(const Part *part, double *held)
{
    int has_changed = 0;
    for (int64_t k = 0; k < part->n_set; k++)
        for (int64_t i = 0; i < part->set[k].n_values; i++) {
            const double value = part->set[k].values[part->set[k].places[i]];
            has_changed |= value != *held;
            *held++ = value;
        }
    return has_changed;
}

/* Take a step from s towards `end`, and end it at the first sign change of an indicator. The
   indicators at its end are in `new_indicators`. */
static inline int rb_take_step_to_sign_change(const ExchangeStep *step, double s, double end)
{
    const Exchange *model = step->model;
    if (!rb_take_inner_step(step, s, end))
        return 0;
    const double reached = model->control[RB_STEP_END];
    return rb_set_exchange_state(step, reached, model->end_states) &&
           rb_get_indicators(step, model->new_indicators) &&
           (!rb_has_sign_change(model) || rb_locate_sign_change(step, s, reached));
}

/* Set the FMU to the communication point, which is inside the current inner step. If an indicator
   has changed its sign since the time s, the step ends at that time. */
static inline int rb_set_communication_point(const ExchangeStep *step, double s)
{
    const Exchange *model = step->model;
    if (!rb_set_inside_step(step, step->dt, model->stage_states) ||
        !rb_get_indicators(step, model->new_indicators))
        return 0;
    if (rb_has_sign_change(model))
        return rb_locate_sign_change(step, s, step->dt);
    for (int64_t p = 0; p < model->n_states; p++)
        model->states[p] = model->stage_states[p];
    rb_store_indicators(model);
    return 1;
}

/* Set the FMU to the end of the current inner step. `is_there` is 1 if it is there already. */
static inline int rb_reach_step_end(const ExchangeStep *step, int is_there)
{
    const Exchange *model = step->model;
    const double *control = model->control;
    if (!is_there && (!rb_set_exchange_state(step, control[RB_STEP_END], model->end_states) ||
                      !rb_get_indicators(step, model->new_indicators)))
        return 0;
    for (int64_t p = 0; p < model->n_states; p++)
        model->states[p] = model->end_states[p];
    return 1;
}

/* Integrate from *s to the next event or to dt, and handle the event. */
static inline int rb_integrate_to_event(const ExchangeStep *step, double *s)
{
    const Exchange *model = step->model;
    double *control = model->control;
    const double due = fmax(*s, rb_next_time_event(step)), target = fmin(step->dt, due);
    const double last = fmin(due, fmax(step->dt, control[RB_STOP_TIME] - step->t));
    while (*s < target) {
        const int is_new = control[RB_HAS_STEP] == 0.0;
        const double end = step->looks_ahead ? fmin(last, *s + RB_LOOK_AHEAD * step->dt) : target;
        if (is_new && !rb_take_step_to_sign_change(step, *s, end))
            return 0;
        int is_there = is_new;
        if (fabs(control[RB_STEP_END] - target) <= step->close)
            control[RB_STEP_END] = target; /* the rest would be a rounding error */
        if (control[RB_STEP_END] > step->dt) {
            if (!rb_set_communication_point(step, *s))
                return 0;
            if (control[RB_STEP_HAS_EVENT] == 0.0 || control[RB_STEP_END] > step->dt) {
                *s = step->dt;
                return 1;
            }
            is_there = 1;
        }
        if (!rb_reach_step_end(step, is_there))
            return 0;
        *s = control[RB_STEP_END];
        control[RB_HAS_STEP] = 0.0;
        int requests_event;
        if (!rb_complete_inner_step(step, &requests_event))
            return 0;
        if (requests_event || control[RB_STEP_HAS_EVENT] != 0.0)
            return rb_exchange_event(step, *s);
        rb_store_indicators(model);
    }
    return rb_next_time_event(step) > target || rb_exchange_event(step, *s);
}

/* Start a communication step: set the inputs. If an input has changed, end the current inner step
   at the communication point, and do not look ahead. */
static inline int rb_start_exchange_step(ExchangeStep *step)
{
    const Exchange *model = step->model;
    const Part *part = step->part;
    double *control = model->control;
    const int has_news = rb_has_news(part),
              has_changed = rb_store_held_inputs(part, model->held) || control[RB_FOLLOWS] != 0.0;
    const int is_same =
                  !has_changed && !has_news && fabs(step->t - control[RB_POINT]) <= step->close,
              has_step = control[RB_HAS_STEP] != 0.0;
    int has_event = 0;
    step->looks_ahead = !has_changed && model->n_states > 0 && rb_has_error_control(model);
    if (!is_same) {
        if (has_step && !rb_complete_inner_step(step, &has_event))
            return 0;
        control[RB_HAS_STEP] = control[RB_RATES_KNOWN] = 0.0;
        rb_forget_stages(control);
    }
    if (!rb_move_all(step->loop, part, part->set, part->n_set, RB_SET, step->t, step->dt))
        return 0;
    if (is_same && has_step)
        return 1;
    if (!rb_get_indicators(step, model->new_indicators))
        return 0;
    if (has_event || has_news || rb_has_sign_change(model))
        return rb_exchange_event(step, 0.0);
    rb_store_indicators(model);
    return 1;
}

/* Step an FMU for model exchange from t to t + dt. */
static inline int rb_exchange_step(const Loop *loop, const Part *part, double t, double dt)
{
    ExchangeStep step = {loop, part, part->exchange, t, dt, rb_time_tolerance(t, dt), 0};
    double *control = step.model->control, s = 0.0;
    *part->clock = t;
    rb_begin_clock_step(part->clocks);
    if (!rb_start_exchange_step(&step))
        return 0;
    EventCount count = {0.0, 0, 0};
    for (int excess = 0;; excess = rb_count_event(&count, s, step.close)) {
        if (excess)
            return rb_is_accepted(loop, part, RB_STEP, excess, t, dt) && 0;
        if (!rb_integrate_to_event(&step, &s))
            return 0;
        if (s >= dt && rb_next_time_event(&step) > dt + step.close)
            break;
    }
    control[RB_STEP_START] -= dt;
    control[RB_STEP_END] -= dt;
    /* after polynomial inputs, the stored inputs and derivatives do not belong to the end */
    control[RB_POINT] = control[RB_FOLLOWS] != 0.0 ? NAN : t + dt;
    return rb_move_all(loop, part, part->get, part->n_get, RB_GET, t, dt);
}

#endif
