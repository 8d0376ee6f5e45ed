/* Steps of an FMU for model exchange: the loop integrates its states and locates its events.

   An inner step may end after the communication step if the inputs are constant. The outputs at the
   communication points inside come from dense output. The FMU completes such a step only when the
   loop reaches its end, so the FMU is never set to a time before its last completed step. If an
   input changes, the step ends at the communication point. */

#ifndef RB_MODEL_EXCHANGE_H
#define RB_MODEL_EXCHANGE_H

#include <float.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include "exchange_integrator.h"
#include "fmu_step.h"
#include "master.h"

enum { RB_HALVINGS = 53 }; /* bisections of a step, down to adjacent floating-point times */

/* Longest inner step, in communication steps. Longer steps save nothing. */
#define RB_LOOK_AHEAD 1e4

/* Get values of the FMU: states, nominal values or event indicators. */
static inline int rb_get_exchange_values(const ExchangeStep *step, int call, Function function,
                                         double *values, int64_t n)
{
    return n == 0 || rb_exchange_accepts(
                         step, call, function.move_states(step->part->instance, values, (size_t)n));
}

static inline int rb_get_indicators(const ExchangeStep *step, double *values)
{
    return rb_get_exchange_values(step, RB_GET_INDICATORS, step->model->get_indicators, values,
                                  step->model->n_indicators);
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
    if (!rb_handle_event(step->loop, step->part, &result, step->t, step->dt))
        return 0;
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
    if (result.states_changed && !rb_get_exchange_values(step, RB_GET_STATES, model->get_states,
                                                         model->states, model->n_states))
        return 0;
    return rb_get_indicators(step, model->indicators);
}

/* Report a completed inner step; `event` becomes 1 if the FMU requests event mode. */
static inline int rb_complete_inner_step(const ExchangeStep *step, int *event)
{
    const Function completed = step->model->completed_step;
    const int no_return = !*step->part->may_go_back;
    int status, terminate;
    *event = 0;
    if (!completed.enter_mode)
        return 1;
    if (step->part->kind == RB_FMI2) {
        terminate = 0;
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

/* Return the time of the next time event, or dt if it differs from dt only by rounding. */
static inline double rb_next_time_event(const ExchangeStep *step)
{
    const double due = step->model->control[RB_NEXT_EVENT] - step->t;
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
    while (*s < target) {
        const int is_new = control[RB_HAS_STEP] == 0.0;
        const double end = step->looks_ahead ? fmin(due, *s + RB_LOOK_AHEAD * step->dt) : target;
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
    const int has_news = rb_has_news(part->events),
              has_changed = rb_store_held_inputs(part, model->held);
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
    ExchangeStep step = {loop, part, part->exchange, t, dt, 1e-9 * dt + 4.0 * DBL_EPSILON * fabs(t),
                         0};
    double *control = step.model->control, s = 0.0;
    *part->clock = t;
    if (!rb_start_exchange_step(&step))
        return 0;
    for (int k = 0;; k++) {
        if (k == RB_EVENTS)
            return rb_is_accepted(loop, part, RB_STEP, RB_MANY_EVENTS, t, dt) && 0;
        if (!rb_integrate_to_event(&step, &s))
            return 0;
        if (s >= dt && rb_next_time_event(&step) > dt + step.close)
            break;
    }
    control[RB_STEP_START] -= dt;
    control[RB_STEP_END] -= dt;
    control[RB_POINT] = t + dt;
    return rb_move_all(loop, part, part->get, part->n_get, RB_GET, t, dt);
}

#endif
