/* Imported FMUs of a program: loading, life cycle, values, events and clocks. `parts.h` contains
   their tables, and fmu_step.h their steps. */

#ifndef RB_IMPORTED_FMUS_H
#define RB_IMPORTED_FMUS_H

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE /* for readlink; NOLINT(bugprone-reserved-identifier) */
#endif

#include <ctype.h>
#include <dlfcn.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bare_metal_step.h"
#include "fmu_step.h"
#include "loop_tables.h"

/* ---- FMI 2.0 and 3.0 calls of an imported FMU, in the order that `simulate` uses; dlopen loads
   the library ----

   The program does not allocate memory after the start; the FMU may allocate in its steps. */

/* status values of FMI 2.0 and 3.0 */
enum { FMU_WARNING = 1, FMU_FATAL = 4 };

enum {
    FMU_MESSAGES = 10, /* printed messages of an FMU; the others are only counted */
    FMU_PATH = 4096    /* bytes of a path, PATH_MAX of Linux */
};

/* Start values of variables of one type, in the FMU's type. */
typedef struct {
    const char *type;
    int n_references, n;
    const uint32_t *references;
    void *values;
    const size_t *sizes; /* sizes of binary values */
} Constant;

/* Groups of variables, and the types in the names of the FMI functions, for example Float64. */
typedef struct {
    Variables *groups;
    const char *const *types;
    int n;
} VariableTable;

/* Interval of a clock. */
typedef struct {
    const char *name;
    double interval, shift; /* [s]; NAN: the FMU defines the interval */
    int is_set;             /* 1: the program sends the interval to the FMU */
} ClockStart;

/* Description of an FMU; only the functions of its variables are found when the program starts. */
typedef struct {
    const char *name; /* name of the part */
    int part;         /* number of the part */
    int version, is_scheduled;
    double tolerance;                     /* relative tolerance; 0: undefined */
    const char *folder, *library, *token; /* folder next to the program; library in this folder */
    int n_sizes;
    const Constant *sizes; /* structural parameters that determine the sizes of arrays */
    int n_start;
    const Constant *start;
    /* inputs that may change without an event, inputs that wait for events, tunable parameters */
    VariableTable held, discrete, parameters, outputs;
    double *last_parameters; /* parameter values that were set last */
    Events *events;          /* NULL: the program does not handle events of the FMU */
    Clocks *clocks;          /* NULL: no clocks */
    const ClockStart *clock_starts;
} FmuPlan;

/* Callbacks of FMI 2.0. */
typedef struct {
    void (*logger)(void *environment, const char *instance, int status, const char *category,
                   const char *message, ...);
    void *(*allocate)(size_t n, size_t size);
    void (*release)(void *memory);
    void (*finished)(void *environment, int status);
    void *environment;
} Callbacks2;

typedef void Log3(void *environment, int status, const char *category, const char *message);

/* A function pointer of an FMU, with one member for each argument list. */
typedef union {
    void *found;
    int (*plain)(void *fmu);
    void (*release)(void *fmu);
    int (*move2)(void *fmu, const uint32_t *references, size_t n, void *values);
    int (*move3)(void *fmu, const uint32_t *references, size_t n, void *values, size_t n_values);
    int (*binary3)(void *fmu, const uint32_t *references, size_t n, const size_t *sizes,
                   void *values, size_t n_values);
    int (*set_up2)(void *fmu, int tolerance_defined, double tolerance, double t, int stop_defined,
                   double t_stop);
    int (*enter3)(void *fmu, bool tolerance_defined, double tolerance, double t, bool stop_defined,
                  double t_stop);
    int (*set_intervals3)(void *fmu, const uint32_t *references, size_t n, const double *intervals);
    void *(*instantiate2)(const char *name, int kind, const char *token, const char *resources,
                          const Callbacks2 *callbacks, int visible, int logging);
    void *(*instantiate3)(const char *name, const char *token, const char *resources, bool visible,
                          bool logging, bool events, bool early, const uint32_t *intermediate,
                          size_t n, void *environment, Log3 *log, void *updated);
    void *(*schedule3)(const char *name, const char *token, const char *resources, bool visible,
                       bool logging, void *environment, Log3 *log, void (*update)(void *),
                       void (*lock)(void), void (*unlock)(void));
} Call;

typedef struct {
    const FmuPlan *plan;
    void *library, *instance;
    Callbacks2 callbacks;
    int messages, runs, is_lost;
    int64_t entered, refused; /* 1 after the first event, and after a rejection of event mode */
    double t;
} Fmu;

/* A part to evaluate at the start, and the positions of the outputs that become known. */
typedef struct {
    int part, n;
    const int *places;
} Evaluation;

/* Parts of an algebraic loop, their evaluations, and the signals between them. */
typedef struct {
    int n_parts, n_evaluations;
    const int *parts;
    const Evaluation *evaluations;
    const char *signals;
} StartGroup;

static const int32_t MAY_ROLL_BACK = 0; /* the program does not repeat steps */

#include "parts.h"

static Fmu fmus[RUNNER_FMUS + 1];
static inline int check_part_call(int part, int call, int status, double t, double dt);

static Loop fmu_loop = {.parts = PARTS,
                        .n_parts = RUNNER_PARTS,
                        .simultaneous = RUNNER_SIMULTANEOUS,
                        .checked = CHECKED,
                        .n_checked = RUNNER_CHECKED,
                        .check_status = check_part_call};

static inline void fmu_says(Fmu *fmu, const char *text)
{
    if (fmu->messages++ < FMU_MESSAGES)
        (void)fprintf(stderr, "'%s': %s\n", fmu->plan->name, text);
}

/* Log warnings and errors of FMI 2.0, whose messages are printf formats. */
static inline void log_fmi2(void *environment, const char *instance, int status,
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

static inline void log_fmi3(void *environment, int status, const char *category,
                            const char *message)
{
    (void)category;
    if (status >= FMU_WARNING && message)
        fmu_says(environment, message);
}

/* Return 0 for OK and warnings. Otherwise print a message and return -1. */
static inline int check_fmu_call(Fmu *fmu, const char *function, const char *type, int status)
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

/* Load a function of the library; `missing` counts the functions that do not exist. */
static inline Call load_symbol(const Fmu *fmu, const char *name, const char *type, int *missing)
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
    const Call call = load_symbol(fmu, name, "", &missing);
    return missing ? -1 : check_fmu_call(fmu, name, "", call.plain(fmu->instance));
}

static inline Part *part_of(const Fmu *fmu)
{
    return PARTS + fmu->plan->part;
}

/* Report a value that a type or a double cannot represent. */
static inline int report_misfit(const Fmu *fmu, const Variables *group, const char *type,
                                int is_output)
{
    for (int64_t k = 0; k < group->n_values; k++) {
        const double value = is_output ? rb_read_value(group->buffer, group->type, k)
                                       : group->values[group->places[k]];
        if (rb_fits_type(group->type, value) &&
            !(is_output && !rb_is_exact(group->buffer, group->type, k)))
            continue;
        (void)fprintf(stderr, "'%s': an %s of type %s cannot be %.17g at t = %g s\n",
                      fmu->plan->name, is_output ? "output" : "input", type, value, fmu->t);
        break;
    }
    return -1;
}

/* Return 0 if the program accepts the status of a call that sets or gets a group of variables. */
static inline int judge_group(Fmu *fmu, const char *function, const VariableTable *table,
                              int64_t number, int status)
{
    const char *type = table->types[number];
    if (status == RB_DOES_NOT_FIT)
        return report_misfit(fmu, table->groups + number, type, table == &fmu->plan->outputs);
    return check_fmu_call(fmu, function, type, status);
}

static inline int set_variables(Fmu *fmu, const VariableTable *table)
{
    for (int k = 0; k < table->n; k++)
        if (judge_group(fmu, "Set", table, k, rb_set_variables(part_of(fmu), table->groups + k)))
            return -1;
    return 0;
}

static inline int get_outputs(Fmu *fmu)
{
    const VariableTable *table = &fmu->plan->outputs;
    for (int k = 0; k < table->n; k++)
        if (judge_group(fmu, "Get", table, k, rb_get_variables(part_of(fmu), table->groups + k)))
            return -1;
    return 0;
}

/* Get the outputs whose positions are marked in `some`. If each variable has one value, only the
   marked variables are read. */
static inline int get_selected_outputs(Fmu *fmu, const unsigned char *some)
{
    const VariableTable *table = &fmu->plan->outputs;
    for (int number = 0; number < table->n; number++) {
        const Variables *group = table->groups + number;
        int64_t count = 0;
        for (int64_t k = 0; k < group->n_values; k++)
            count += some[group->places[k]];
        const int is_whole = count == group->n_values || (count && group->n_values != group->n);
        for (int64_t k = 0; count && k < (is_whole ? 1 : group->n); k++) {
            Variables one = *group;
            if (!is_whole) {
                if (!some[group->places[k]])
                    continue;
                one.references += k;
                one.places += k;
                one.n = one.n_values = 1;
            }
            if (judge_group(fmu, "Get", table, number, rb_get_variables(part_of(fmu), &one)))
                return -1;
        }
    }
    return 0;
}

/* Return the name of the FMI function of a call, without prefix. */
static inline const char *function_name(int call)
{
    switch (call) {
    case RB_ENTER_EVENT_MODE: return "EnterEventMode";
    case RB_UPDATE: return "UpdateDiscreteStates";
    case RB_ENTER_STEP_MODE: return "EnterStepMode";
    case RB_SET_CLOCKS: return "SetClock";
    case RB_GET_CLOCKS: return "GetClock";
    case RB_GET_INTERVAL: return "GetIntervalDecimal";
    case RB_ACTIVATE_PARTITION: return "ActivateModelPartition";
    default: return "DoStep";
    }
}

static inline int reject_interval(Fmu *fmu, int64_t clock, double interval)
{
    (void)fprintf(stderr, "'%s': its clock %s has the interval %g s; the interval must be %s\n",
                  fmu->plan->name, fmu->plan->clock_starts[clock].name, interval,
                  fmu->plan->clocks->kinds[clock] == RB_COUNTDOWN ? "at least 0" : "positive");
    return -1;
}

/* Continue without event mode. */
static inline int go_without_events(Fmu *fmu)
{
    fmu->refused = 1;
    fmu_says(fmu, "it rejects event mode; it runs without event mode");
    return 0;
}

/* Return 0 if the program accepts the status of a call; otherwise print a message. As in
   `simulate`, the FMU may reject event mode at its first event. */
static inline int check_part_call(int part, int call, int status, double t, double dt)
{
    Fmu *fmu = &fmus[FMU_OF[part]];
    const int number = call / RB_CALLS, which = call % RB_CALLS;
    (void)t;
    (void)dt;
    if (which == RB_SET)
        return judge_group(fmu, "Set", &fmu->plan->held, number, status);
    if (which == RB_SET_DISCRETE)
        return judge_group(fmu, "Set", &fmu->plan->discrete, number, status);
    if (which == RB_GET)
        return judge_group(fmu, "Get", &fmu->plan->outputs, number, status);
    switch (status) {
    case RB_TERMINATES: return fmu_refuses(fmu, "it requests the end of the simulation");
    case RB_EARLY_RETURN:
        return fmu_refuses(fmu, "fmi3DoStep returned early although early return is not allowed");
    case RB_MANY_UPDATES: return fmu_refuses(fmu, "its event iteration did not converge");
    case RB_MANY_EVENTS: return fmu_refuses(fmu, "it has too many events at the same time");
    case RB_DENSE_EVENTS: return fmu_refuses(fmu, "it has too many events in a step");
    case RB_BAD_INTERVAL:
        return reject_interval(fmu, number, fmu->plan->clocks->ticks[number].interval);
    default: break;
    }
    if (which == RB_ENTER_EVENT_MODE && status != FMU_FATAL && !fmu->entered)
        return go_without_events(fmu);
    return check_fmu_call(fmu, function_name(which), "", status);
}

/* ---- events and clocks ---- */

/* Handle an event of an FMU that is already in event mode. */
static inline int handle_event(Fmu *fmu)
{
    Part part = *part_of(fmu);
    Events events = *fmu->plan->events;
    EventResult result;
    events.enter_event_mode.enter_mode = NULL;
    part.events = &events;
    return rb_handle_event(&fmu_loop, &part, &result, fmu->t, fmu->t, RUNNER_DT) ? 0 : -1;
}

/* Determine the interval and the first tick of each clock. */
static inline int start_clocks(Fmu *fmu)
{
    const Clocks *clocks = fmu->plan->clocks;
    for (int64_t k = 0; clocks && k < clocks->n; k++) {
        const ClockStart *start = fmu->plan->clock_starts + k;
        const int counts_down = clocks->kinds[k] == RB_COUNTDOWN;
        double interval = start->interval;
        if (isnan(interval)) {
            int qualifier = 0;
            const int status = clocks->get_intervals.fmi3_get_intervals(
                fmu->instance, clocks->references + k, 1, &interval, &qualifier);
            if (check_fmu_call(fmu, "GetIntervalDecimal", "", status) != 0)
                return -1;
            interval = qualifier ? interval : INFINITY;
        }
        if (!(counts_down ? interval >= 0.0 : interval > 0.0)) /* also NaN */
            return reject_interval(fmu, k, interval);
        clocks->ticks[k] = counts_down ? (ClockTicks){fmu->t + interval, INFINITY, 0.0}
                                       : (ClockTicks){fmu->t + start->shift, interval, 0.0};
    }
    if (clocks)
        rb_find_next_tick(clocks);
    return 0;
}

/* Run the partitions whose clocks tick at the start. */
static inline int run_first_partitions(Fmu *fmu)
{
    const Part *part = part_of(fmu);
    if (!part->clocks)
        return 0;
    return rb_activate_due(&fmu_loop, part, fmu->t, fmu->t, RUNNER_DT) &&
                   rb_get_output_clocks(&fmu_loop, part, fmu->t, RUNNER_DT) &&
                   rb_update_intervals(&fmu_loop, part, fmu->t, fmu->t, RUNNER_DT)
               ? 0
               : -1;
}

/* Store the values of a group of parameters. Returns 1 if one of them has changed. */
static inline int store_parameters(const Variables *group, double *last)
{
    int has_changed = 0;
    for (int64_t k = 0; k < group->n_values; k++) {
        const double value = group->values[group->places[k]];
        has_changed |= value != last[k];
        last[k] = value;
    }
    return has_changed;
}

/* Set the parameters that have changed. If the program handles the events of the FMU, the change is
   an event. */
static inline int set_changed_parameters(Fmu *fmu, double t)
{
    const VariableTable *table = &fmu->plan->parameters;
    Part *part = part_of(fmu);
    double *last = fmu->plan->last_parameters;
    int is_event = 0;
    for (int k = 0; k < table->n; last += table->groups[k++].n_values) {
        if (!store_parameters(table->groups + k, last))
            continue;
        fmu->t = t;
        if (part->events && !is_event && !fmu->refused) {
            const int status = part->events->enter_event_mode.enter_mode(fmu->instance);
            if (status &&
                check_part_call(fmu->plan->part, RB_ENTER_EVENT_MODE, status, t, RUNNER_DT) != 0)
                return -1;
            is_event = !fmu->refused;
        }
        if (judge_group(fmu, "Set", table, k, rb_set_variables(part, table->groups + k)) != 0)
            return -1;
    }
    return is_event ? handle_event(fmu) : 0;
}

/* ---- life cycle: library, instance, initialization ---- */

/* Write the path of a file in the FMU folder, which is next to the program, to `path`. Returns -1
   if it is too long. */
static inline int fmu_path(const FmuPlan *plan, const char *file, char path[FMU_PATH])
{
    const ssize_t n = readlink("/proc/self/exe", path, FMU_PATH - 1);
    if (n < 0)
        return -1;
    path[n] = 0;
    char *end = strrchr(path, '/');
    const size_t room = end ? FMU_PATH - (size_t)(end + 1 - path) : 0;
    const int written = end ? snprintf(end + 1, room, "%s/%s", plan->folder, file) : -1;
    return written < 0 || (size_t)written >= room ? -1 : 0;
}

/* Write a path as a URI. Returns -1 if it is too long. */
static inline int as_uri(const char *path, char uri[FMU_PATH])
{
    size_t n = (size_t)snprintf(uri, FMU_PATH, "file://");
    for (; *path && n + 4 < FMU_PATH; path++) {
        const unsigned char c = (unsigned char)*path;
        if (isalnum(c) || strchr("/-._~", c))
            uri[n++] = *path;
        else
            n += (size_t)snprintf(uri + n, FMU_PATH - n, "%%%02X", c);
    }
    uri[n] = 0;
    return *path ? -1 : 0;
}

static inline void load_group_functions(const Fmu *fmu, const char *name,
                                        const VariableTable *table, int *missing)
{
    for (int k = 0; k < table->n; k++)
        table->groups[k].function.enter_mode =
            load_symbol(fmu, name, table->types[k], missing).plain;
}

static inline void load_clock_functions(const Fmu *fmu, Clocks *clocks, int *missing)
{
    clocks->get_intervals.enter_mode = load_symbol(fmu, "GetIntervalDecimal", "", missing).plain;
    if (fmu->plan->is_scheduled)
        clocks->activate.enter_mode = load_symbol(fmu, "ActivateModelPartition", "", missing).plain;
    else
        clocks->set_clocks.enter_mode = load_symbol(fmu, "SetClock", "", missing).plain;
    /* the tables are constant only for the loop */
    for (int64_t k = 0; k < clocks->n_triggers; k++)
        ((Variables *)clocks->triggers)[k].function.enter_mode =
            load_symbol(fmu, "SetClock", "", missing).plain;
    for (int64_t k = 0; k < clocks->n_outputs; k++)
        ((Variables *)clocks->outputs)[k].function.enter_mode =
            load_symbol(fmu, "GetClock", "", missing).plain;
}

static inline int find_functions(Fmu *fmu)
{
    const FmuPlan *plan = fmu->plan;
    int missing = 0;
    if (!plan->is_scheduled)
        part_of(fmu)->step.enter_mode = load_symbol(fmu, "DoStep", "", &missing).plain;
    load_group_functions(fmu, "Set", &plan->held, &missing);
    load_group_functions(fmu, "Set", &plan->discrete, &missing);
    load_group_functions(fmu, "Set", &plan->parameters, &missing);
    load_group_functions(fmu, "Get", &plan->outputs, &missing);
    if (plan->clocks)
        load_clock_functions(fmu, plan->clocks, &missing);
    if (plan->events) {
        plan->events->update.enter_mode =
            load_symbol(fmu, "UpdateDiscreteStates", "", &missing).plain;
        plan->events->enter_event_mode =
            (Function){.enter_mode = load_symbol(fmu, "EnterEventMode", "", &missing).plain};
        plan->events->enter_step_mode =
            (Function){.enter_mode = load_symbol(fmu, "EnterStepMode", "", &missing).plain};
        plan->events->entered = &fmu->entered;
        plan->events->refused = &fmu->refused;
    }
    return missing ? -1 : 0;
}

/* Do nothing: the program does not interrupt model partitions, so it needs no locks. */
static inline void ignore_update(void *environment)
{
    (void)environment;
}

static inline void ignore_lock(void)
{
}

static inline void *instantiate_fmi3(Fmu *fmu, const char *resources, bool has_events)
{
    const FmuPlan *plan = fmu->plan;
    int missing = 0;
    const Call call = load_symbol(
        fmu, plan->is_scheduled ? "InstantiateScheduledExecution" : "InstantiateCoSimulation", "",
        &missing);
    if (missing)
        return NULL;
    if (plan->is_scheduled)
        return call.schedule3(plan->name, plan->token, resources, false, true, fmu, log_fmi3,
                              ignore_update, ignore_lock, ignore_lock);
    return call.instantiate3(plan->name, plan->token, resources, false, true, has_events,
                             has_events, NULL, 0, fmu, log_fmi3, NULL);
}

static inline void *instantiate_fmu(Fmu *fmu, const char *resources)
{
    const FmuPlan *plan = fmu->plan;
    if (plan->version == 2) {
        int missing = 0;
        char uri[FMU_PATH];
        const Call call = load_symbol(fmu, "Instantiate", "", &missing);
        fmu->callbacks = (Callbacks2){log_fmi2, calloc, free, NULL, fmu};
        return missing || as_uri(resources, uri) != 0
                   ? NULL
                   : call.instantiate2(plan->name, 1, plan->token, uri, &fmu->callbacks, 0, 1);
    }
    void *instance = instantiate_fmi3(fmu, resources, plan->events != NULL);
    if (instance || !plan->events)
        return instance;
    (void)go_without_events(fmu);
    return instantiate_fmi3(fmu, resources, false);
}

/* Load the library and create an instance. Prints a message and returns -1 on failure. */
static inline int load_fmu(Fmu *fmu, const FmuPlan *plan)
{
    char library[FMU_PATH], resources[FMU_PATH];
    fmu->plan = plan;
    if (fmu_path(plan, plan->library, library) != 0 ||
        fmu_path(plan, plan->version == 2 ? "resources" : "resources/", resources) != 0) {
        (void)fprintf(stderr, "'%s': the path of its folder is too long\n", plan->name);
        return -1;
    }
    fmu->library = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (!fmu->library) {
        (void)fprintf(stderr, "'%s' does not load: %s\n", plan->name, dlerror());
        return -1;
    }
    if (find_functions(fmu) != 0)
        return -1;
    fmu->instance = part_of(fmu)->instance = instantiate_fmu(fmu, resources);
    part_of(fmu)->clock = &fmu->t;
    if (!fmu->instance)
        (void)fprintf(stderr, "'%s' cannot be instantiated\n", plan->name);
    return fmu->instance ? 0 : -1;
}

static inline int set_constant(Fmu *fmu, const Constant *one)
{
    int missing = 0, status;
    const Call call = load_symbol(fmu, "Set", one->type, &missing);
    if (missing)
        return -1;
    if (one->sizes)
        status = call.binary3(fmu->instance, one->references, (size_t)one->n_references, one->sizes,
                              one->values, (size_t)one->n);
    else if (fmu->plan->version == 2)
        status = call.move2(fmu->instance, one->references, (size_t)one->n_references, one->values);
    else
        status = call.move3(fmu->instance, one->references, (size_t)one->n_references, one->values,
                            (size_t)one->n);
    return check_fmu_call(fmu, "Set", one->type, status);
}

/* Send the clock intervals that the program defines to the FMU, in initialization mode. */
static inline int set_intervals(Fmu *fmu)
{
    const FmuPlan *plan = fmu->plan;
    for (int64_t k = 0; plan->clocks && k < plan->clocks->n; k++) {
        int missing = 0;
        if (!plan->clock_starts[k].is_set)
            continue;
        const Call call = load_symbol(fmu, "SetIntervalDecimal", "", &missing);
        if (missing ||
            check_fmu_call(fmu, "SetIntervalDecimal", "",
                           call.set_intervals3(fmu->instance, plan->clocks->references + k, 1,
                                               &plan->clock_starts[k].interval)) != 0)
            return -1;
    }
    return 0;
}

/* Set the sizes of arrays that differ from the declared sizes. */
static inline int set_array_sizes(Fmu *fmu)
{
    if (fmu->plan->n_sizes == 0)
        return 0;
    if (plain_call(fmu, "EnterConfigurationMode") != 0)
        return -1;
    for (int k = 0; k < fmu->plan->n_sizes; k++)
        if (set_constant(fmu, fmu->plan->sizes + k) != 0)
            return -1;
    return plain_call(fmu, "ExitConfigurationMode");
}

/* Set the array sizes and the start values, and enter initialization mode at t. */
static inline int enter_fmu(Fmu *fmu, double t)
{
    const FmuPlan *plan = fmu->plan;
    int missing = 0;
    fmu->t = t;
    if (plan->version == 2) {
        const Call call = load_symbol(fmu, "SetupExperiment", "", &missing);
        if (missing || check_fmu_call(fmu, "SetupExperiment", "",
                                      call.set_up2(fmu->instance, plan->tolerance > 0.0,
                                                   plan->tolerance, t, 0, 0.0)) != 0)
            return -1;
    }
    if (set_array_sizes(fmu) != 0)
        return -1;
    for (int k = 0; k < plan->n_start; k++)
        if (set_constant(fmu, plan->start + k) != 0)
            return -1;
    if (plan->version == 2)
        return plain_call(fmu, "EnterInitializationMode");
    const Call call = load_symbol(fmu, "EnterInitializationMode", "", &missing);
    if (missing || check_fmu_call(fmu, "EnterInitializationMode", "",
                                  call.enter3(fmu->instance, plan->tolerance > 0.0, plan->tolerance,
                                              t, false, 0.0)) != 0)
        return -1;
    return set_intervals(fmu);
}

/* Compute the outputs at the start: all of them, or those whose positions are marked in `some`. The
   call can be repeated. Parameters keep their start values. */
static inline int initialize_fmu(Fmu *fmu, const unsigned char *some)
{
    const FmuPlan *plan = fmu->plan;
    double *last = plan->last_parameters;
    for (int k = 0; k < plan->parameters.n; last += plan->parameters.groups[k++].n_values)
        (void)store_parameters(plan->parameters.groups + k, last);
    if (set_variables(fmu, &plan->held) != 0 || set_variables(fmu, &plan->discrete) != 0)
        return -1;
    if (plan->events)
        rb_store_discrete(plan->events);
    return some ? get_selected_outputs(fmu, some) : get_outputs(fmu);
}

/* Exit initialization mode. */
static inline int begin_fmu(Fmu *fmu)
{
    const FmuPlan *plan = fmu->plan;
    if (plain_call(fmu, "ExitInitializationMode") != 0)
        return -1;
    fmu->runs = 1;
    if (plan->is_scheduled && (start_clocks(fmu) != 0 || run_first_partitions(fmu) != 0))
        return -1;
    if (plan->events && !fmu->refused) {
        if (start_clocks(fmu) != 0 || handle_event(fmu) != 0)
            return -1;
        fmu->entered = 0; /* the FMU may reject event mode at the first event of the run */
    } else if (plan->events)
        rb_stop_clocks(part_of(fmu)->clocks);
    return get_outputs(fmu);
}

static inline void end_fmu(Fmu *fmu)
{
    if (fmu->instance && !fmu->is_lost) {
        int missing = 0;
        if (fmu->runs)
            (void)plain_call(fmu, "Terminate");
        const Call call = load_symbol(fmu, "FreeInstance", "", &missing);
        if (!missing && !fmu->is_lost)
            call.release(fmu->instance);
    }
    if (fmu->library && !fmu->is_lost)
        (void)dlclose(fmu->library);
    fmu->instance = fmu->library = NULL;
}

#endif
