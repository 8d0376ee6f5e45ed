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
    if (all->type == RB_BINARY && all->texts)
        return all->function.fmi3_move_binary(part->instance, all->references, (size_t)all->n,
                                              all->texts->sizes, values, (size_t)all->n_values);
    return part->kind == RB_FMI3
               ? all->function.fmi3_move(part->instance, all->references, (size_t)all->n, values,
                                         (size_t)all->n_values)
               : all->function.fmi2_move(part->instance, all->references, (size_t)all->n, values);
}

/* Convert the value of an FMU variable to the value of its port, or the reverse. A negated alias of
   FMI 1.0 has the opposite value in the FMU. */
static inline double rb_of_alias(const Variables *all, int64_t k, double value)
{
    if (!all->negated || !all->negated[k])
        return value;
    return all->type == RB_CHAR_BOOLEAN ? 1.0 - value : -value;
}

/* Set variables of an FMU. Returns the status of the call. If a value does not fit its type,
   returns RB_DOES_NOT_FIT and does not call the FMU. */
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
        if (!status && !(rb_fits_type(all->type, value) && rb_is_exact(all->buffer, all->type, k)))
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
    return !status || !loop->check_status((int)part->number, call, status, t, dt);
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

/* ---- clocks of FMI 3.0 ----

   fmu_import/fmu_clocks.py makes the same calls. */

enum { RB_INTERVAL_CHANGED = 2 }; /* fmi3IntervalChanged */

/* Return the tolerance [s] within which two times near t count as equal, in steps of size dt. */
static inline double rb_time_tolerance(double t, double dt)
{
    return 1e-9 * dt + 4.0 * DBL_EPSILON * fabs(t);
}

/* Return the time [s] of the next tick of a clock, without accumulated rounding errors. */
static inline double rb_tick_time(const ClockTicks *clock)
{
    return clock->count == 0.0 ? clock->first : clock->first + clock->count * clock->interval;
}

static inline int rb_is_due(const ClockTicks *clock, double t, double close)
{
    const double scale = isfinite(clock->interval) ? clock->interval : 0.0;
    return rb_tick_time(clock) <= t + fmax(rb_time_tolerance(t, fmax(scale, 1e-3)), close);
}

static inline void rb_find_next_tick(const Clocks *clocks)
{
    double next = INFINITY;
    for (int64_t k = 0; k < clocks->n; k++)
        next = fmin(next, rb_tick_time(clocks->ticks + k));
    clocks->next_tick->next = next;
}

/* Return the time of the next tick of a part [s], or infinity. */
static inline double rb_next_tick(const Part *part)
{
    return part->clocks ? part->clocks->next_tick->next : INFINITY;
}

/* Return 1 if a triggered input clock ticks at the beginning of the current step. */
static inline int rb_has_trigger(const Clocks *clocks)
{
    if (!clocks || clocks->activate.fmi3_activate || clocks->next_tick->awaits_triggers == 0.0)
        return 0;
    for (int64_t k = 0; k < clocks->n_triggers; k++)
        for (int64_t i = 0; i < clocks->triggers[k].n_values; i++)
            if (clocks->triggers[k].values[clocks->triggers[k].places[i]] != 0.0)
                return 1;
    return 0;
}

/* Reset the ticks of the output clocks and of the triggered input clocks for a new step. */
static inline void rb_begin_clock_step(const Clocks *clocks)
{
    if (!clocks)
        return;
    clocks->next_tick->awaits_triggers = 1.0;
    for (int64_t k = 0; k < clocks->n_outputs; k++)
        for (int64_t i = 0; i < clocks->outputs[k].n_values; i++)
            clocks->outputs[k].values[clocks->outputs[k].places[i]] = 0.0;
}

/* Stop all clocks, because the FMU has rejected event mode. */
static inline void rb_stop_clocks(const Clocks *clocks)
{
    if (!clocks)
        return;
    for (int64_t k = 0; k < clocks->n; k++)
        clocks->ticks[k] = (ClockTicks){INFINITY, INFINITY, 0.0};
    *clocks->next_tick = (NextTick){INFINITY, 0.0};
}

/* Send the triggered input clocks to the FMU. */
static inline int rb_set_triggers(const Loop *loop, const Part *part, double t, double dt)
{
    for (int64_t k = 0; k < part->clocks->n_triggers; k++) {
        const Variables *group = part->clocks->triggers + k;
        _Bool *ticks = group->buffer;
        for (int64_t i = 0; i < group->n_values; i++)
            ticks[i] = group->values[group->places[i]] != 0.0;
        if (!rb_is_accepted(loop, part, RB_SET_CLOCKS,
                            group->function.fmi3_set_clocks(part->instance, group->references,
                                                            (size_t)group->n, ticks),
                            t, dt))
            return 0;
    }
    return 1;
}

/* Activate the clocks that are due at the time `now`, or run their model partitions. */
static inline int rb_activate_due(const Loop *loop, const Part *part, double now, double t,
                                  double dt)
{
    const Clocks *clocks = part->clocks;
    const double close = rb_time_tolerance(t, dt);
    size_t n = 0;
    for (int64_t k = 0; k < clocks->n; k++) {
        clocks->due[k] = rb_is_due(clocks->ticks + k, now, close);
        if (clocks->due[k])
            clocks->due_references[n++] = clocks->references[k];
    }
    if (n == 0)
        return 1;
    if (!clocks->activate.fmi3_activate &&
        !rb_is_accepted(loop, part, RB_SET_CLOCKS,
                        clocks->set_clocks.fmi3_set_clocks(part->instance, clocks->due_references,
                                                           n, clocks->active),
                        t, dt))
        return 0;
    for (size_t i = 0; clocks->activate.fmi3_activate && i < n; i++)
        if (!rb_is_accepted(
                loop, part, RB_ACTIVATE_PARTITION,
                clocks->activate.fmi3_activate(part->instance, clocks->due_references[i], now), t,
                dt))
            return 0;
    for (int64_t k = 0; k < clocks->n; k++) {
        if (clocks->due[k])
            clocks->ticks[k].count += 1.0;
        if (clocks->due[k] && clocks->kinds[k] == RB_COUNTDOWN)
            clocks->ticks[k] = (ClockTicks){INFINITY, INFINITY, 0.0};
    }
    return 1;
}

/* Activate the clocks that are due or triggered at the time `now`. */
static inline int rb_tick_clocks(const Loop *loop, const Part *part, double now, double t,
                                 double dt)
{
    if (!part->clocks)
        return 1;
    if (rb_has_trigger(part->clocks) && !rb_set_triggers(loop, part, t, dt))
        return 0;
    part->clocks->next_tick->awaits_triggers = 0.0;
    return rb_activate_due(loop, part, now, t, dt);
}

/* Get the output clocks that tick in the current event. Their values stay 1 until the next step. */
static inline int rb_get_output_clocks(const Loop *loop, const Part *part, double t, double dt)
{
    for (int64_t k = 0; part->clocks && k < part->clocks->n_outputs; k++) {
        const Variables *group = part->clocks->outputs + k;
        _Bool *ticks = group->buffer;
        if (!rb_is_accepted(loop, part, RB_GET_CLOCKS,
                            group->function.fmi3_get_clocks(part->instance, group->references,
                                                            (size_t)group->n, ticks),
                            t, dt))
            return 0;
        for (int64_t i = 0; i < group->n_values; i++)
            if (ticks[i])
                group->values[group->places[i]] = 1.0;
    }
    return 1;
}

/* Get the new intervals of the clocks after an event at the time `now`. */
static inline int rb_update_intervals(const Loop *loop, const Part *part, double now, double t,
                                      double dt)
{
    const Clocks *clocks = part->clocks;
    if (!clocks)
        return 1;
    for (int64_t k = 0; k < clocks->n; k++) {
        const int64_t kind = clocks->kinds[k];
        if (kind != RB_COUNTDOWN && !(kind == RB_CHANGING_INTERVAL && clocks->due[k]))
            continue;
        double interval = 0.0;
        int qualifier = 0;
        if (!rb_is_accepted(loop, part, RB_GET_INTERVAL,
                            clocks->get_intervals.fmi3_get_intervals(
                                part->instance, clocks->references + k, 1, &interval, &qualifier),
                            t, dt))
            return 0;
        if (qualifier != RB_INTERVAL_CHANGED)
            continue;
        if (!(kind == RB_COUNTDOWN ? interval >= 0.0 : interval > 0.0)) { /* also NaN */
            clocks->ticks[k].interval = interval;
            return rb_is_accepted(loop, part, RB_GET_INTERVAL + RB_CALLS * (int)k, RB_BAD_INTERVAL,
                                  t, dt);
        }
        clocks->ticks[k] =
            (ClockTicks){now + interval, kind == RB_COUNTDOWN ? INFINITY : interval, 0.0};
    }
    rb_find_next_tick(clocks);
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
    return part->step.fmi2_step(part->instance, t, dt, !*part->may_roll_back);
}

/* Step an FMU of FMI 3.0 without event mode, which must not return early. */
static inline int rb_step_fmi3(const Part *part, double t, double dt)
{
    _Bool event = 0, terminate = 0, early = 0;
    double last = t;
    const int status = part->step.fmi3_step(part->instance, t, dt, !*part->may_roll_back, &event,
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
    const int status = part->step.fmi3_step(part->instance, t, dt, !*part->may_roll_back, event,
                                            &terminate, &early, &last);
    *reached = early ? fmin(fmax(last, t), t + dt) : t + dt;
    return status ? status : terminate ? RB_TERMINATES : 0;
}

/* Number of the events of a step, and of the events at one time. */
typedef struct {
    double time; /* [s] time of the first of these events */
    int64_t at_time, in_step;
} EventCount;

/* Count an event at the time t. Returns a status other than 0 for too many events. */
static inline int rb_count_event(EventCount *count, double t, double close)
{
    if (count->at_time == 0 || t > count->time + close) {
        count->time = t;
        count->at_time = 0;
    }
    count->at_time++;
    count->in_step++;
    return count->at_time > RB_EVENTS        ? RB_MANY_EVENTS
           : count->in_step > RB_STEP_EVENTS ? RB_DENSE_EVENTS
                                             : 0;
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

/* Return 1 if a discrete input has changed since the last event, or if a clock is triggered. */
static inline int rb_has_news(const Part *part)
{
    const Events *events = part->events;
    const double *last = events->last;
    if (rb_has_trigger(part->clocks))
        return 1;
    for (int64_t k = 0; k < events->n_set; k++)
        for (int64_t i = 0; i < events->set[k].n_values; i++)
            if (events->set[k].values[events->set[k].places[i]] != *last++)
                return 1;
    return 0;
}

/* Handle an event at the time `now` in the step from t. An FMU that has rejected event mode only
   receives its discrete inputs. */
static inline int rb_handle_event(const Loop *loop, const Part *part, EventResult *result,
                                  double now, double t, double dt)
{
    const Events *events = part->events;
    if (!*events->refused && events->enter_event_mode.enter_mode) {
        const int status = events->enter_event_mode.enter_mode(part->instance);
        if (!rb_is_accepted(loop, part, RB_ENTER_EVENT_MODE, status, t, dt))
            return 0;
    }
    if (!*events->refused && !rb_tick_clocks(loop, part, now, t, dt))
        return 0;
    if (!rb_move_all(loop, part, events->set, events->n_set, RB_SET_DISCRETE, t, dt))
        return 0;
    rb_store_discrete(events);
    if (*events->refused) {
        rb_stop_clocks(part->clocks);
        return 1;
    }
    *events->entered = 1;
    /* an update may activate output clocks */
    if (!rb_get_output_clocks(loop, part, t, dt) || !rb_iterate_event(loop, part, result, t, dt) ||
        !rb_get_output_clocks(loop, part, t, dt) || !rb_update_intervals(loop, part, now, t, dt))
        return 0;
    return !events->enter_step_mode.enter_mode ||
           rb_is_accepted(loop, part, RB_ENTER_STEP_MODE,
                          events->enter_step_mode.enter_mode(part->instance), t, dt);
}

/* Step an FMU with event mode from t to t + dt, and handle its events. */
static inline int rb_step_through_events(const Loop *loop, const Part *part, double t, double dt)
{
    const double end = t + dt, close = rb_time_tolerance(t, dt);
    double now = t;
    EventResult result;
    EventCount count = {t, 0, 0};
    rb_begin_clock_step(part->clocks);
    if (rb_has_news(part) && !rb_handle_event(loop, part, &result, now, t, dt))
        return 0;
    int excess = 0;
    for (; !excess; excess = rb_count_event(&count, now, close)) {
        const double next = rb_next_tick(part), target = end - next <= close ? end : next;
        _Bool event = 0;
        if (now == end && next > now + close)
            return 1;
        if (target > now + close) {
            double reached;
            const int is_whole = now == t && target == end;
            const int status =
                rb_step_until_event(part, now, is_whole ? dt : target - now, &reached, &event);
            if (!rb_is_accepted(loop, part, RB_STEP, status, t, dt))
                return 0;
            now = target - reached <= close ? target : reached;
        }
        if ((event || rb_next_tick(part) <= now + close) &&
            !rb_handle_event(loop, part, &result, now, t, dt))
            return 0;
    }
    return rb_is_accepted(loop, part, RB_STEP, excess, t, dt);
}

/* Run the partitions of the active triggered input clocks at the time t. */
static inline int rb_run_triggered(const Loop *loop, const Part *part, double t, double dt)
{
    const Clocks *clocks = part->clocks;
    for (int64_t k = 0; k < clocks->n_triggers; k++)
        for (int64_t i = 0; i < clocks->triggers[k].n_values; i++) {
            const Variables *group = clocks->triggers + k;
            if (group->values[group->places[i]] == 0.0)
                continue;
            const int status =
                clocks->activate.fmi3_activate(part->instance, group->references[i], t);
            if (!rb_is_accepted(loop, part, RB_ACTIVATE_PARTITION, status, t, dt) ||
                !rb_get_output_clocks(loop, part, t, dt))
                return 0;
        }
    return 1;
}

/* Step an FMU for scheduled execution: run the partitions whose clocks tick until t + dt. */
static inline int rb_step_partitions(const Loop *loop, const Part *part, double t, double dt)
{
    const double end = t + dt, close = rb_time_tolerance(t, dt);
    double now = t;
    EventCount count = {t, 0, 0};
    rb_begin_clock_step(part->clocks);
    if (!rb_run_triggered(loop, part, t, dt))
        return 0;
    while (rb_next_tick(part) <= end + close) {
        now = fmin(fmax(rb_next_tick(part), now), end);
        const int excess = rb_count_event(&count, now, close);
        if (excess)
            return rb_is_accepted(loop, part, RB_ACTIVATE_PARTITION, excess, t, dt);
        if (!rb_activate_due(loop, part, now, t, dt) || !rb_get_output_clocks(loop, part, t, dt) ||
            !rb_update_intervals(loop, part, now, t, dt))
            return 0;
    }
    return 1;
}

static inline int rb_fmu_step(const Loop *loop, const Part *part, double t, double dt)
{
    *part->clock = t;
    if (!rb_move_all(loop, part, part->set, part->n_set, RB_SET, t, dt))
        return 0;
    if (part->clocks && part->clocks->activate.fmi3_activate) {
        if (!rb_step_partitions(loop, part, t, dt))
            return 0;
    } else if (part->events) {
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
