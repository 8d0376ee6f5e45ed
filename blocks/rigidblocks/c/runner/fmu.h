/* An FMU of others in a runner: its library by dlopen, and the calls of FMI 2.0 and 3.0 in the
   order of `simulate`.

   Nothing is allocated here after the start; what an FMU does in its step is its own. */

#ifndef RB_FMU_H
#define RB_FMU_H

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE /* for Linux's own calls; NOLINT(bugprone-reserved-identifier) */
#endif

#include <ctype.h>
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fmu_values.h"

enum { FMU_WARNING = 1, FMU_FATAL = 4, FMU_EVENTS = 1000, FMU_MESSAGES = 10, FMU_PATH = 4096 };

/* Start values of variables of one type, in the form of the FMU. */
typedef struct {
    const char *type;
    int n_references, n;
    const uint32_t *references;
    void *values;
    const size_t *sizes; /* of binary values */
} Constant;

/* What an FMU is, known when the program is made. */
typedef struct {
    const char *name; /* of the part */
    int version, has_events;
    const char *folder, *library, *token; /* the folder beside the program, the library in it */
    int n_start, n_inputs, n_outputs;
    const Constant *start;
    const Group *inputs, *outputs;
} FmuPlan;

/* What FMI 2.0 wants of its host. */
typedef struct {
    void (*logger)(void *environment, const char *instance, int status, const char *category,
                   const char *message, ...);
    void *(*allocate)(size_t n, size_t size);
    void (*release)(void *memory);
    void (*finished)(void *environment, int status);
    void *environment;
} Callbacks2;

typedef void Log3(void *environment, int status, const char *category, const char *message);

/* A function of an FMU, by what it is called with after the instance. */
typedef union {
    void *found;
    int (*plain)(void *fmu);
    void (*release)(void *fmu);
    int (*move2)(void *fmu, const uint32_t *references, size_t n, void *values);
    int (*move3)(void *fmu, const uint32_t *references, size_t n, void *values, size_t n_values);
    int (*step2)(void *fmu, double t, double dt, int no_state_set_before);
    int (*step3)(void *fmu, double t, double dt, bool no_state_set_before, bool *event,
                 bool *terminate, bool *early, double *last);
    int (*binary3)(void *fmu, const uint32_t *references, size_t n, const size_t *sizes,
                   void *values, size_t n_values);
    int (*set_up2)(void *fmu, int tolerance_defined, double tolerance, double t, int stop_defined,
                   double t_stop);
    int (*enter3)(void *fmu, bool tolerance_defined, double tolerance, double t, bool stop_defined,
                  double t_stop);
    int (*update3)(void *fmu, bool *again, bool *terminate, bool *nominals, bool *values,
                   bool *timed, double *next);
    void *(*instantiate2)(const char *name, int kind, const char *token, const char *resources,
                          const Callbacks2 *callbacks, int visible, int logging);
    void *(*instantiate3)(const char *name, const char *token, const char *resources, bool visible,
                          bool logging, bool events, bool early, const uint32_t *intermediate,
                          size_t n, void *environment, Log3 *log, void *updated);
} Call;

enum { FMU_GROUPS = 32 }; /* types of inputs and outputs, each twice where some wait for events */

typedef struct {
    const FmuPlan *plan;
    void *library, *instance;
    Callbacks2 callbacks;
    int messages, runs, is_lost;
    double t;
    Call step, update, to_event, to_step, set[FMU_GROUPS], get[FMU_GROUPS];
} Fmu;

static inline void fmu_says(Fmu *fmu, const char *text)
{
    if (fmu->messages++ < FMU_MESSAGES)
        (void)fprintf(stderr, "'%s': %s\n", fmu->plan->name, text);
}

/* Warnings and worse of FMI 2.0, whose messages have the form of printf. */
static inline void log2_of(void *environment, const char *instance, int status,
                           const char *category, const char *message, ...)
{
    char text[512];
    va_list values;
    (void)instance;
    (void)category;
    if (status < FMU_WARNING || !message)
        return;
    va_start(values, message);
    (void)vsnprintf(text, sizeof text, message, values);
    va_end(values);
    fmu_says(environment, text);
}

static inline void log3_of(void *environment, int status, const char *category, const char *message)
{
    (void)category;
    if (status >= FMU_WARNING && message)
        fmu_says(environment, message);
}

/* 0 for a status to go on with; -1, with a message, for what is worse than a warning. */
static inline int judged(Fmu *fmu, const char *function, const char *type, int status)
{
    static const char *const names[] = {"ok", "warning", "discard", "error", "fatal", "pending"};
    if (status <= FMU_WARNING && status >= 0)
        return 0;
    fmu->is_lost = status == FMU_FATAL;
    fmu->runs = 0;
    (void)fprintf(stderr, "'%s': fmi%d%s%s gave status %s at t = %g s\n", fmu->plan->name,
                  fmu->plan->version, function, type,
                  status > 0 && status < 6 ? names[status] : "that FMI has not", fmu->t);
    return -1;
}

static inline int fmu_refuses(Fmu *fmu, const char *why)
{
    (void)fprintf(stderr, "'%s': %s at t = %g s\n", fmu->plan->name, why, fmu->t);
    return -1;
}

/* A function of the library; `missing` counts those that there are not. */
static inline Call found(const Fmu *fmu, const char *name, const char *type, int *missing)
{
    char whole[64];
    Call call;
    (void)snprintf(whole, sizeof whole, "fmi%d%s%s", fmu->plan->version, name, type);
    call.found = dlsym(fmu->library, whole);
    if (!call.found) {
        (void)fprintf(stderr, "'%s': its library has no function %s\n", fmu->plan->name, whole);
        ++*missing;
    }
    return call;
}

static inline int plain_call(Fmu *fmu, const char *name)
{
    int missing = 0;
    const Call call = found(fmu, name, "", &missing);
    return missing ? -1 : judged(fmu, name, "", call.plain(fmu->instance));
}

static inline int moved(Fmu *fmu, Call call, const uint32_t *references, int n, void *values,
                        int n_values)
{
    return fmu->plan->version == 2
               ? call.move2(fmu->instance, references, (size_t)n, values)
               : call.move3(fmu->instance, references, (size_t)n, values, (size_t)n_values);
}

static inline int set_group(Fmu *fmu, int number, const double *m)
{
    const Group *group = fmu->plan->inputs + number;
    for (int k = 0; k < group->n; k++) {
        const double value = m[group->places[k]];
        if (!fits(group->kind, value)) {
            (void)fprintf(stderr, "'%s': an input of type %s cannot be %.17g at t = %g s\n",
                          fmu->plan->name, group->type, value, fmu->t);
            return -1;
        }
        write_value(group->values, group->kind, k, value);
    }
    const int status = moved(fmu, fmu->set[number], group->references, group->n_references,
                             group->values, group->n);
    return judged(fmu, "Set", group->type, status);
}

enum { ALL_INPUTS, HELD_INPUTS, WAITING_INPUTS };

/* Sets all inputs, or those that wait for events, or those that do not, and the parameters among
   them that have changed. */
static inline int set_inputs_of(Fmu *fmu, int which, const double *m)
{
    for (int k = 0; k < fmu->plan->n_inputs; k++) {
        const Group *group = fmu->plan->inputs + k;
        if ((which != ALL_INPUTS && group->waits != (which == WAITING_INPUTS)) ||
            (group->is_parameter && !has_news(group, m)))
            continue;
        if (set_group(fmu, k, m) != 0)
            return -1;
        if (group->waits || group->is_parameter)
            keep_values(group, m);
    }
    return 0;
}

static inline int get_outputs_of(Fmu *fmu, double *m)
{
    for (int number = 0; number < fmu->plan->n_outputs; number++) {
        const Group *group = fmu->plan->outputs + number;
        const int status = moved(fmu, fmu->get[number], group->references, group->n_references,
                                 group->values, group->n);
        if (judged(fmu, "Get", group->type, status) != 0)
            return -1;
        for (int k = 0; k < group->n; k++)
            m[group->places[k]] = read_value(group->values, group->kind, k);
    }
    return 0;
}

/* Updates the discrete states in event mode until that changes nothing more. */
static inline int iterate_event(Fmu *fmu)
{
    for (int k = 0; k < FMU_EVENTS; k++) {
        bool again = false, ends = false, nominals = false, values = false, timed = false;
        double next = 0.0;
        const int status =
            fmu->update.update3(fmu->instance, &again, &ends, &nominals, &values, &timed, &next);
        if (judged(fmu, "UpdateDiscreteStates", "", status) != 0)
            return -1;
        if (ends)
            return fmu_refuses(fmu, "it asks to end the simulation");
        if (!again)
            return 0;
    }
    return fmu_refuses(fmu, "its event takes too many iterations");
}

/* What is due in event mode, and back to steps. */
static inline int handle_event(Fmu *fmu, const double *m)
{
    if (set_inputs_of(fmu, WAITING_INPUTS, m) != 0)
        return -1;
    return iterate_event(fmu) != 0
               ? -1
               : judged(fmu, "EnterStepMode", "", fmu->to_step.plain(fmu->instance));
}

static inline int go_through_event(Fmu *fmu, const double *m)
{
    const int status = fmu->to_event.plain(fmu->instance);
    return judged(fmu, "EnterEventMode", "", status) != 0 ? -1 : handle_event(fmu, m);
}

/* The step of FMI 3.0 from t, as far as the FMU goes: to `reached`, where an event may wait. */
static inline int step_some(Fmu *fmu, double t, double dt, double *reached, bool *event)
{
    bool ends = false, early = false;
    double last = t;
    *event = false;
    const int status = fmu->step.step3(fmu->instance, t, dt, true, event, &ends, &early, &last);
    if (judged(fmu, "DoStep", "", status) != 0)
        return -1;
    if (ends)
        return fmu_refuses(fmu, "it asks to end the simulation");
    if (early && !fmu->plan->has_events)
        return fmu_refuses(fmu, "fmi3DoStep returned early, which it is not allowed to");
    *reached = early ? fmin(fmax(last, t), t + dt) : t + dt;
    return 0;
}

static inline int step_through_events(Fmu *fmu, double t, double dt, const double *m)
{
    const double end = t + dt;
    double at = t;
    int news = 0;
    for (int k = 0; k < fmu->plan->n_inputs; k++)
        news |= fmu->plan->inputs[k].waits && has_news(&fmu->plan->inputs[k], m);
    if (set_inputs_of(fmu, HELD_INPUTS, m) != 0 || (news && go_through_event(fmu, m) != 0))
        return -1;
    for (int k = 0; k < FMU_EVENTS; k++) {
        double reached;
        bool event;
        if (step_some(fmu, at, at == t ? dt : end - at, &reached, &event) != 0)
            return -1;
        at = end - reached <= 1e-9 * dt ? end : reached;
        if (event && go_through_event(fmu, m) != 0)
            return -1;
        if (at == end)
            return 0;
    }
    return fmu_refuses(fmu, "it has too many events in a step");
}

/* The step from t to t + dt with its inputs in the memory, where its outputs come to. */
static inline int fmu_step(Fmu *fmu, double t, double dt, double *m)
{
    double reached;
    bool event;
    int status;
    fmu->t = t;
    if (fmu->plan->has_events)
        status = step_through_events(fmu, t, dt, m);
    else if (set_inputs_of(fmu, ALL_INPUTS, m) != 0)
        status = -1;
    else if (fmu->plan->version == 2)
        status = judged(fmu, "DoStep", "", fmu->step.step2(fmu->instance, t, dt, 1));
    else
        status = step_some(fmu, t, dt, &reached, &event);
    return status != 0 ? -1 : get_outputs_of(fmu, m);
}

#endif
