/* Steps of an FMU in the co-simulation loop: set its inputs, do the step and get its outputs.

   FmuInstance of cosim/fmu_import/fmu_instance.py makes the same calls. */

#ifndef RB_FMU_STEP_H
#define RB_FMU_STEP_H

#include <float.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "loop_tables.h"

static inline int rb_move_variables(const Part *part, const Variables *all)
{
    void *values = all->buffer ? all->buffer : (void *)all->values;
    if (all->n == 0)
        return 0;
    if (all->type == RB_BINARY)
        return all->function.fmi3_move_binary(part->instance, all->references, (size_t)all->n,
                                              all->texts->sizes, values, (size_t)all->n_values);
    return part->kind == RB_FMI3
               ? all->function.fmi3_move(part->instance, all->references, (size_t)all->n, values,
                                         (size_t)all->n_values)
               : all->function.fmi2_move(part->instance, all->references, (size_t)all->n, values);
}

/* Return the value of a port for the value of its variable, or the reverse: a negated alias of
   FMI 1.0 has the opposite value in the FMU. */
static inline double rb_of_alias(const Variables *all, int64_t k, double value)
{
    if (!all->negated || !all->negated[k])
        return value;
    return all->type == RB_CHAR_BOOLEAN ? 1.0 - value : -value;
}

/* Set variables of an FMU. Returns the status, or RB_DOES_NOT_FIT without a call. */
static inline int rb_set_variables(const Part *part, const Variables *all)
{
    for (int64_t k = 0; all->buffer && k < all->n_values; k++) {
        if (all->texts) {
            ((const void **)all->buffer)[k] = all->texts->known[k];
            all->texts->sizes[k] = all->texts->known_sizes[k];
            continue;
        }
        const double value = rb_of_alias(all, k, all->values[all->places[k]]);
        if (!rb_fits_type(all->type, value))
            return RB_DOES_NOT_FIT;
        rb_write_value(all->buffer, all->type, k, value);
    }
    return rb_move_variables(part, all);
}

/* Get variables of an FMU. Returns the status, or RB_DOES_NOT_FIT if doubles cannot represent an
   integer exactly. */
static inline int rb_get_variables(const Part *part, const Variables *all)
{
    int status = rb_move_variables(part, all);
    for (int64_t k = 0; all->buffer && !all->texts && k < all->n_values; k++) {
        const double value = rb_read_value(all->buffer, all->type, k);
        if (!status && !rb_fits_type(all->type, value))
            status = RB_DOES_NOT_FIT;
        all->values[all->places[k]] = rb_of_alias(all, k, value);
    }
    return status;
}

/* Return 1 if the host has not converted the current inputs to strings or binary values. */
static inline int rb_has_new_numbers(const Variables *all)
{
    for (int64_t k = 0; k < all->n_values; k++)
        if (all->values[all->places[k]] != all->texts->numbers[k])
            return 1;
    return 0;
}

/* Return 1 if the strings or binary values in the buffer differ from the texts that the host has converted. */
static inline int rb_has_new_texts(const Variables *all)
{
    const Texts *texts = all->texts;
    for (int64_t k = 0; k < all->n_values; k++) {
        const char *text = ((const char *const *)all->buffer)[k];
        const size_t size = !text ? 0 : all->type == RB_STRING ? strlen(text) : texts->sizes[k];
        if (size != texts->known_sizes[k] || (size && memcmp(text, texts->known[k], size) != 0))
            return 1;
        all->values[all->places[k]] = texts->numbers[k];
    }
    return 0;
}

/* Return 1 if the host accepts the status of the call. */
static inline int rb_is_accepted(const Loop *loop, const Part *part, int call, int status, double t,
                                 double dt)
{
    return !status || !loop->judge((int)part->number, call, status, t, dt);
}

/* Set or get n groups of variables. Returns 1 if the host accepts all statuses. */
static inline int rb_move_all(const Loop *loop, const Part *part, const Variables *all, int64_t n,
                              int call, double t, double dt)
{
    for (int64_t k = 0; k < n; k++) {
        const Variables *group = all + k;
        const int number = call + RB_CALLS * (int)k, gets = call == RB_GET;
        if (!gets && group->texts && rb_has_new_numbers(group) &&
            !rb_is_accepted(loop, part, number, RB_NEW_TEXTS, t, dt))
            return 0;
        const int status = gets ? rb_get_variables(part, group) : rb_set_variables(part, group);
        if (!rb_is_accepted(loop, part, number, status, t, dt))
            return 0;
        if (gets && group->texts && rb_has_new_texts(group) &&
            !rb_is_accepted(loop, part, number, RB_NEW_TEXTS, t, dt))
            return 0;
    }
    return 1;
}

/* ---- steps of FMUs: of FMI 1.0 and 2.0, of FMI 3.0 without and with event mode ---- */

/* FMI 1.0 cannot return to an earlier state, so each step is new. */
static inline int rb_step_fmi1(const Part *part, double t, double dt)
{
    return part->step.fmi1_step(part->instance, t, dt, 1);
}

static inline int rb_step_fmi2(const Part *part, double t, double dt)
{
    return part->step.fmi2_step(part->instance, t, dt, !*part->may_go_back);
}

/* Step an FMU of FMI 3.0 without event mode, which must not return early. */
static inline int rb_step_fmi3(const Part *part, double t, double dt)
{
    _Bool event = 0, terminate = 0, early = 0;
    double last = t;
    const int status = part->step.fmi3_step(part->instance, t, dt, !*part->may_go_back, &event,
                                            &terminate, &early, &last);
    return status ? status : terminate ? RB_TERMINATES : early ? RB_EARLY_RETURN : 0;
}

/* Step an FMU with event mode from t until t + dt or an earlier event. */
static inline int rb_step_until_event(const Part *part, double t, double dt, double *reached,
                                      _Bool *event)
{
    _Bool terminate = 0, early = 0;
    double last = t;
    *event = 0;
    const int status = part->step.fmi3_step(part->instance, t, dt, !*part->may_go_back, event,
                                            &terminate, &early, &last);
    *reached = early ? fmin(fmax(last, t), t + dt) : t + dt;
    return status ? status : terminate ? RB_TERMINATES : 0;
}

/* Result of an event: the states or their nominal values have changed, and the next time event. */
typedef struct {
    _Bool states_changed, nominals_changed;
    double next; /* [s] time of the next time event, or infinity */
} EventResult;

/* Update the discrete states once. `all` collects the results of all updates of an event. */
static inline int rb_update_states(const Part *part, _Bool *again, EventResult *all)
{
    _Bool terminate = 0, nominals_changed = 0, states_changed = 0, has_next = 0;
    double next = 0.0;
    int status;
    *again = 0;
    if (part->kind == RB_FMI1) {
        Fmi1EventInfo info = {0, 0, 0, 0, 0, 0.0};
        status = part->events->update.fmi1_update(part->instance, 0, &info);
        *again = info.converged == 0;
        terminate = info.terminate != 0;
        nominals_changed = info.references_changed != 0;
        states_changed = nominals_changed || info.states_changed != 0;
        has_next = info.has_next != 0;
        next = info.next;
    } else if (part->kind == RB_FMI2) {
        Fmi2EventInfo info = {0, 0, 0, 0, 0, 0.0};
        status = part->events->update.fmi2_update(part->instance, &info);
        *again = info.again != 0;
        terminate = info.terminate != 0;
        nominals_changed = info.nominals_changed != 0;
        states_changed = info.states_changed != 0;
        has_next = info.has_next != 0;
        next = info.next;
    } else {
        status =
            part->events->update.fmi3_update(part->instance, again, &terminate, &nominals_changed,
                                             &states_changed, &has_next, &next);
    }
    all->nominals_changed |= nominals_changed;
    all->states_changed |= states_changed;
    all->next = has_next ? next : INFINITY;
    return status ? status : terminate ? RB_TERMINATES : 0;
}

/* Update the discrete states until convergence. */
static inline int rb_iterate_event(const Loop *loop, const Part *part, EventResult *result,
                                   double t, double dt)
{
    _Bool again = 1;
    result->states_changed = result->nominals_changed = 0;
    for (int k = 0; k < RB_EVENTS && again; k++)
        if (!rb_is_accepted(loop, part, RB_UPDATE, rb_update_states(part, &again, result), t, dt))
            return 0;
    return rb_is_accepted(loop, part, RB_UPDATE, again ? RB_MANY_UPDATES : 0, t, dt);
}

/* Store the discrete inputs of an event. */
static inline void rb_store_discrete(const Events *events)
{
    double *last = events->last;
    for (int64_t k = 0; k < events->n_set; k++)
        for (int64_t i = 0; i < events->set[k].n_values; i++)
            *last++ = events->set[k].values[events->set[k].places[i]];
}

/* Return 1 if a discrete input has changed since the last event. */
static inline int rb_has_news(const Events *events)
{
    const double *last = events->last;
    for (int64_t k = 0; k < events->n_set; k++)
        for (int64_t i = 0; i < events->set[k].n_values; i++)
            if (events->set[k].values[events->set[k].places[i]] != *last++)
                return 1;
    return 0;
}

/* Handle an event at t. An FMU that has rejected event mode only receives its discrete inputs. */
static inline int rb_handle_event(const Loop *loop, const Part *part, EventResult *result, double t,
                                  double dt)
{
    const Events *events = part->events;
    if (!*events->refused && events->enter_event_mode.enter_mode) {
        const int status = events->enter_event_mode.enter_mode(part->instance);
        if (!rb_is_accepted(loop, part, RB_ENTER_EVENT_MODE, status, t, dt))
            return 0;
    }
    if (!rb_move_all(loop, part, events->set, events->n_set, RB_SET_DISCRETE, t, dt))
        return 0;
    rb_store_discrete(events);
    if (*events->refused)
        return 1;
    *events->entered = 1;
    if (!rb_iterate_event(loop, part, result, t, dt))
        return 0;
    return !events->enter_step_mode.enter_mode ||
           rb_is_accepted(loop, part, RB_ENTER_STEP_MODE,
                          events->enter_step_mode.enter_mode(part->instance), t, dt);
}

/* Step an FMU with event mode from t to t + dt, and handle its events. */
static inline int rb_step_through_events(const Loop *loop, const Part *part, double t, double dt)
{
    const double end = t + dt, close = 1e-9 * dt + 4.0 * DBL_EPSILON * fabs(t);
    double now = t;
    EventResult result;
    if (rb_has_news(part->events) && !rb_handle_event(loop, part, &result, t, dt))
        return 0;
    for (int k = 0; k < RB_EVENTS; k++) {
        double reached;
        _Bool event;
        const int status =
            rb_step_until_event(part, now, now == t ? dt : end - now, &reached, &event);
        if (!rb_is_accepted(loop, part, RB_STEP, status, t, dt))
            return 0;
        now = end - reached <= close ? end : reached;
        if (event && !rb_handle_event(loop, part, &result, now, dt))
            return 0;
        if (now == end)
            return 1;
    }
    return rb_is_accepted(loop, part, RB_STEP, RB_MANY_EVENTS, t, dt);
}

static inline int rb_fmu_step(const Loop *loop, const Part *part, double t, double dt)
{
    *part->clock = t;
    if (!rb_move_all(loop, part, part->set, part->n_set, RB_SET, t, dt))
        return 0;
    if (part->events) {
        if (!rb_step_through_events(loop, part, t, dt))
            return 0;
    } else {
        const int status = part->kind == RB_FMI3   ? rb_step_fmi3(part, t, dt)
                           : part->kind == RB_FMI2 ? rb_step_fmi2(part, t, dt)
                                                   : rb_step_fmi1(part, t, dt);
        if (!rb_is_accepted(loop, part, RB_STEP, status, t, dt))
            return 0;
    }
    return rb_move_all(loop, part, part->get, part->n_get, RB_GET, t, dt);
}

#endif
