/* Steps of a system with imported FMUs: loading, life cycle and values of the FMUs, and the loop of
   loop_tables.h over a table, with one memory. */

#define _GNU_SOURCE /* for Linux-specific calls; NOLINT(bugprone-reserved-identifier) */

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
#include "loop_tables.h"

/* ---- values: doubles in the memory of the system, and numbers of the FMU's types ---- */

/* Variables of one type that one call sets or gets. An array has one value reference. */
typedef struct {
    const char *type; /* type in function names, for example Real or Float64 */
    int kind;
    int waits;        /* 1: inputs that are set at the next event, if the program handles events */
    int is_parameter; /* 1: set only if a value changes */
    int n_references, n;
    const uint32_t *references;
    const int *places; /* positions of the values in the memory */
    void *values;      /* buffer with values of the FMU's type */
    double *last;      /* values that were set last, for parameters and waiting inputs */
} Group;

/* Return 1 if a value of the group differs from the value that was set last. */
static int has_news(const Group *group, const double *m)
{
    for (int k = 0; k < group->n; k++)
        if (m[group->places[k]] != group->last[k])
            return 1;
    return 0;
}

static void keep_values(const Group *group, const double *m)
{
    for (int k = 0; k < group->n; k++)
        group->last[k] = m[group->places[k]];
}

/* ---- FMI 2.0 and 3.0 calls of an imported FMU, in the order that `simulate` uses; dlopen loads
   the library ----

   The program does not allocate memory after the start; the FMU may allocate in its steps. */

/* status values of FMI 2.0 and 3.0 */
enum { FMU_WARNING = 1, FMU_FATAL = 4 };

enum {
    FMU_EVENTS = RB_EVENTS, /* as in the loop of `simulate` */
    FMU_MESSAGES = 10,      /* printed messages of an FMU; the others are only counted */
    FMU_PATH = 4096         /* bytes of a path, PATH_MAX of Linux */
};

/* Start values of variables of one type, in the FMU's type. */
typedef struct {
    const char *type;
    int n_references, n;
    const uint32_t *references;
    void *values;
    const size_t *sizes; /* sizes of binary values */
} Constant;

/* Description of an FMU, fixed when the program is built. */
typedef struct {
    const char *name; /* name of the part */
    int version, has_events;
    double tolerance;                     /* relative tolerance; 0: undefined */
    const char *folder, *library, *token; /* folder next to the program; library in this folder */
    int n_start, n_inputs, n_outputs;
    const Constant *start;
    const Group *inputs, *outputs;
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

/* largest number of groups of inputs or of outputs: one for each type, two if some inputs wait for
   events */
enum { FMU_GROUPS = 32 };

typedef struct {
    const FmuPlan *plan;
    void *library, *instance;
    Callbacks2 callbacks;
    int messages, runs, is_lost;
    double t;
    Call step, update, to_event, to_step, set[FMU_GROUPS], get[FMU_GROUPS];
} Fmu;

static void fmu_says(Fmu *fmu, const char *text)
{
    if (fmu->messages++ < FMU_MESSAGES)
        (void)fprintf(stderr, "'%s': %s\n", fmu->plan->name, text);
}

/* Log warnings and errors of FMI 2.0, whose messages are printf formats. */
static void log_fmi2(void *environment, const char *instance, int status, const char *category,
                     const char *message, ...)
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

static void log_fmi3(void *environment, int status, const char *category, const char *message)
{
    (void)category;
    if (status >= FMU_WARNING && message)
        fmu_says(environment, message);
}

/* Return 0 for OK and warnings. Otherwise print a message and return -1. */
static int check_status(Fmu *fmu, const char *function, const char *type, int status)
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

static int fmu_refuses(Fmu *fmu, const char *why)
{
    (void)fprintf(stderr, "'%s': %s at t = %g s\n", fmu->plan->name, why, fmu->t);
    return -1;
}

/* Load a function of the library; `missing` counts the functions that do not exist. */
static Call load_symbol(const Fmu *fmu, const char *name, const char *type, int *missing)
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

static int plain_call(Fmu *fmu, const char *name)
{
    int missing = 0;
    const Call call = load_symbol(fmu, name, "", &missing);
    return missing ? -1 : check_status(fmu, name, "", call.plain(fmu->instance));
}

static int transfer_values(Fmu *fmu, Call call, const uint32_t *references, int n, void *values,
                           int n_values)
{
    return fmu->plan->version == 2
               ? call.move2(fmu->instance, references, (size_t)n, values)
               : call.move3(fmu->instance, references, (size_t)n, values, (size_t)n_values);
}

static int set_group(Fmu *fmu, int number, const double *m)
{
    const Group *group = fmu->plan->inputs + number;
    for (int k = 0; k < group->n; k++) {
        const double value = m[group->places[k]];
        if (!rb_fits_type(group->kind, value)) {
            (void)fprintf(stderr, "'%s': an input of type %s cannot be %.17g at t = %g s\n",
                          fmu->plan->name, group->type, value, fmu->t);
            return -1;
        }
        rb_write_value(group->values, group->kind, k, value);
    }
    const int status = transfer_values(fmu, fmu->set[number], group->references,
                                       group->n_references, group->values, group->n);
    return check_status(fmu, "Set", group->type, status);
}

enum { ALL_INPUTS, HELD_INPUTS, WAITING_INPUTS };

/* Set all inputs, only the inputs that wait for events, or only the other inputs. Parameters are
   set only if they changed. */
static int set_fmu_inputs(Fmu *fmu, int which, const double *m)
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

static int get_group(Fmu *fmu, int number, double *m)
{
    const Group *group = fmu->plan->outputs + number;
    const int status = transfer_values(fmu, fmu->get[number], group->references,
                                       group->n_references, group->values, group->n);
    if (check_status(fmu, "Get", group->type, status) != 0)
        return -1;
    for (int k = 0; k < group->n; k++)
        m[group->places[k]] = rb_read_value(group->values, group->kind, k);
    return 0;
}

static int get_fmu_outputs(Fmu *fmu, double *m)
{
    for (int number = 0; number < fmu->plan->n_outputs; number++)
        if (get_group(fmu, number, m) != 0)
            return -1;
    return 0;
}

/* Get the outputs whose positions are marked in `some`. If each variable has one value, only the
   marked variables are read. */
static int get_selected_outputs(Fmu *fmu, double *m, const unsigned char *some)
{
    for (int number = 0; number < fmu->plan->n_outputs; number++) {
        const Group *group = fmu->plan->outputs + number;
        int count = 0;
        for (int k = 0; k < group->n; k++)
            count += some[group->places[k]];
        if (count == group->n || (count && group->n != group->n_references)) {
            if (get_group(fmu, number, m) != 0)
                return -1;
            continue;
        }
        for (int k = 0; count && k < group->n; k++) {
            if (!some[group->places[k]])
                continue;
            const int status =
                transfer_values(fmu, fmu->get[number], group->references + k, 1, group->values, 1);
            if (check_status(fmu, "Get", group->type, status) != 0)
                return -1;
            m[group->places[k]] = rb_read_value(group->values, group->kind, 0);
        }
    }
    return 0;
}

/* Iterate the discrete states in event mode until no further update is needed. */
static int iterate_event(Fmu *fmu)
{
    for (int k = 0; k < FMU_EVENTS; k++) {
        bool again = false, ends = false, nominals = false, values = false, timed = false;
        double next = 0.0;
        const int status =
            fmu->update.update3(fmu->instance, &again, &ends, &nominals, &values, &timed, &next);
        if (check_status(fmu, "UpdateDiscreteStates", "", status) != 0)
            return -1;
        if (ends)
            return fmu_refuses(fmu, "it requests the end of the simulation");
        if (!again)
            return 0;
    }
    return fmu_refuses(fmu, "its event iteration did not converge");
}

/* Handle an event and return to step mode. */
static int handle_event(Fmu *fmu, const double *m)
{
    if (set_fmu_inputs(fmu, WAITING_INPUTS, m) != 0)
        return -1;
    return iterate_event(fmu) != 0
               ? -1
               : check_status(fmu, "EnterStepMode", "", fmu->to_step.plain(fmu->instance));
}

static int go_through_event(Fmu *fmu, const double *m)
{
    const int status = fmu->to_event.plain(fmu->instance);
    return check_status(fmu, "EnterEventMode", "", status) != 0 ? -1 : handle_event(fmu, m);
}

/* Do an FMI 3.0 step from t. The FMU may return early, at `reached`, where an event may be
   pending. */
static int step_some(Fmu *fmu, double t, double dt, double *reached, bool *event)
{
    bool ends = false, early = false;
    double last = t;
    *event = false;
    const int status = fmu->step.step3(fmu->instance, t, dt, true, event, &ends, &early, &last);
    if (check_status(fmu, "DoStep", "", status) != 0)
        return -1;
    if (ends)
        return fmu_refuses(fmu, "it requests the end of the simulation");
    if (early && !fmu->plan->has_events)
        return fmu_refuses(fmu, "fmi3DoStep returned early although early return is not allowed");
    *reached = early ? fmin(fmax(last, t), t + dt) : t + dt;
    return 0;
}

static int step_through_events(Fmu *fmu, double t, double dt, const double *m)
{
    const double end = t + dt;
    double at = t;
    int news = 0;
    for (int k = 0; k < fmu->plan->n_inputs; k++)
        news |= fmu->plan->inputs[k].waits && has_news(&fmu->plan->inputs[k], m);
    if (set_fmu_inputs(fmu, HELD_INPUTS, m) != 0 || (news && go_through_event(fmu, m) != 0))
        return -1;
    for (int k = 0; k < FMU_EVENTS; k++) {
        double reached;
        bool event;
        if (step_some(fmu, at, at == t ? dt : end - at, &reached, &event) != 0)
            return -1;
        at = end - reached <= 1e-9 * dt ? end : reached; /* the rest is a rounding error */
        if (event && go_through_event(fmu, m) != 0)
            return -1;
        if (at == end)
            return 0;
    }
    return fmu_refuses(fmu, "it has too many events in a step");
}

/* Do a step from t to t + dt: take the inputs from the memory and store the outputs in it. */
static int fmu_step(Fmu *fmu, double t, double dt, double *m)
{
    double reached;
    bool event;
    int status;
    fmu->t = t;
    if (fmu->plan->has_events)
        status = step_through_events(fmu, t, dt, m);
    else if (set_fmu_inputs(fmu, ALL_INPUTS, m) != 0)
        status = -1;
    else if (fmu->plan->version == 2)
        status = check_status(fmu, "DoStep", "", fmu->step.step2(fmu->instance, t, dt, 1));
    else
        status = step_some(fmu, t, dt, &reached, &event);
    return status != 0 ? -1 : get_fmu_outputs(fmu, m);
}

/* ---- life cycle: library, instance, initialization ---- */

/* Write the path of a file in the FMU folder, which is next to the program, to `path`. Returns -1
   if it is too long. */
static int fmu_path(const FmuPlan *plan, const char *file, char path[FMU_PATH])
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
static int as_uri(const char *path, char uri[FMU_PATH])
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

static int find_functions(Fmu *fmu)
{
    const FmuPlan *plan = fmu->plan;
    int missing = 0;
    fmu->step = load_symbol(fmu, "DoStep", "", &missing);
    for (int k = 0; k < plan->n_inputs; k++)
        fmu->set[k] = load_symbol(fmu, "Set", plan->inputs[k].type, &missing);
    for (int k = 0; k < plan->n_outputs; k++)
        fmu->get[k] = load_symbol(fmu, "Get", plan->outputs[k].type, &missing);
    if (plan->has_events) {
        fmu->update = load_symbol(fmu, "UpdateDiscreteStates", "", &missing);
        fmu->to_event = load_symbol(fmu, "EnterEventMode", "", &missing);
        fmu->to_step = load_symbol(fmu, "EnterStepMode", "", &missing);
    }
    return missing ? -1 : 0;
}

static void *instantiate_fmu(Fmu *fmu, const char *resources)
{
    const FmuPlan *plan = fmu->plan;
    int missing = 0;
    if (plan->version == 2) {
        char uri[FMU_PATH];
        const Call call = load_symbol(fmu, "Instantiate", "", &missing);
        fmu->callbacks = (Callbacks2){log_fmi2, calloc, free, NULL, fmu};
        return missing || as_uri(resources, uri) != 0
                   ? NULL
                   : call.instantiate2(plan->name, 1, plan->token, uri, &fmu->callbacks, 0, 1);
    }
    const Call call = load_symbol(fmu, "InstantiateCoSimulation", "", &missing);
    const bool events = plan->has_events;
    return missing ? NULL
                   : call.instantiate3(plan->name, plan->token, resources, false, true, events,
                                       events, NULL, 0, fmu, log_fmi3, NULL);
}

/* Load the library and create an instance. Prints a message and returns -1 on failure. */
static int load_fmu(Fmu *fmu, const FmuPlan *plan)
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
    fmu->instance = instantiate_fmu(fmu, resources);
    if (!fmu->instance)
        (void)fprintf(stderr, "'%s' cannot be instantiated\n", plan->name);
    return fmu->instance ? 0 : -1;
}

static int set_constant(Fmu *fmu, const Constant *one)
{
    int missing = 0, status;
    const Call call = load_symbol(fmu, "Set", one->type, &missing);
    if (missing)
        return -1;
    if (one->sizes)
        status = call.binary3(fmu->instance, one->references, (size_t)one->n_references, one->sizes,
                              one->values, (size_t)one->n);
    else
        status =
            transfer_values(fmu, call, one->references, one->n_references, one->values, one->n);
    return check_status(fmu, "Set", one->type, status);
}

/* Set the start values and enter initialization mode at t. */
static int enter_fmu(Fmu *fmu, double t)
{
    const FmuPlan *plan = fmu->plan;
    int missing = 0;
    fmu->t = t;
    if (plan->version == 2) {
        const Call call = load_symbol(fmu, "SetupExperiment", "", &missing);
        if (missing || check_status(fmu, "SetupExperiment", "",
                                    call.set_up2(fmu->instance, plan->tolerance > 0.0,
                                                 plan->tolerance, t, 0, 0.0)) != 0)
            return -1;
    }
    for (int k = 0; k < plan->n_start; k++)
        if (set_constant(fmu, plan->start + k) != 0)
            return -1;
    if (plan->version == 2)
        return plain_call(fmu, "EnterInitializationMode");
    const Call call = load_symbol(fmu, "EnterInitializationMode", "", &missing);
    return missing ? -1
                   : check_status(fmu, "EnterInitializationMode", "",
                                  call.enter3(fmu->instance, plan->tolerance > 0.0, plan->tolerance,
                                              t, false, 0.0));
}

/* Compute the outputs at the start: all of them, or those whose positions are marked in `some`. The
   call can be repeated. */
static int initialize_fmu(Fmu *fmu, double *m, const unsigned char *some)
{
    for (int k = 0; k < fmu->plan->n_inputs; k++)
        if (fmu->plan->inputs[k].is_parameter) /* parameters keep their start values */
            keep_values(&fmu->plan->inputs[k], m);
    if (set_fmu_inputs(fmu, ALL_INPUTS, m) != 0)
        return -1;
    return some ? get_selected_outputs(fmu, m, some) : get_fmu_outputs(fmu, m);
}

/* Exit initialization mode. */
static int begin_fmu(Fmu *fmu, double *m)
{
    if (plain_call(fmu, "ExitInitializationMode") != 0)
        return -1;
    fmu->runs = 1;
    if (fmu->plan->has_events && handle_event(fmu, m) != 0)
        return -1;
    return get_fmu_outputs(fmu, m);
}

static void end_fmu(Fmu *fmu)
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

/* ---- table of the parts, and the loop over them ---- */

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

#include "parts.h"

static Fmu fmus[RUNNER_FMUS + 1];

/* Do the step of the FMU with this part number. Returns a nonzero value on failure. */
static int host(int part, double t, double dt)
{
    return fmu_step(&fmus[FMU_OF[part]], t, dt, memory);
}

static Loop loop = {.parts = PARTS,
                    .n_parts = RUNNER_PARTS,
                    .simultaneous = RUNNER_SIMULTANEOUS,
                    .checked = CHECKED,
                    .n_checked = RUNNER_CHECKED,
                    .host = host};

double *rb_runner_memory(void)
{
    return memory;
}

enum { START_PASSES = 20 }; /* largest number of iterations of an algebraic loop */

static unsigned char known[sizeof memory / sizeof *memory];  /* outputs that are known so far */
static unsigned char wanted[sizeof memory / sizeof *memory]; /* outputs to compute */
static unsigned char current[RUNNER_PARTS + 1]; /* 1 if the outputs belong to current inputs */
static double before[sizeof memory / sizeof *memory], start_time;

/* Read the inputs of a part whose sources are known. Returns 1 if all sources are known. */
static int read_known(const Part *part)
{
    int all = 1;
    for (int64_t w = 0; w < part->n_wires; w++) {
        const Copy *wire = part->wires + w;
        for (int64_t i = 0; i < wire->n; i++) {
            if (!known[wire->from - memory + i]) {
                all = 0;
                continue;
            }
            wire->to[i] = wire->from[i];
            for (int64_t k = 0; k < part->n_scales; k++)
                if (part->scales[k].value == wire->to + i)
                    wire->to[i] = part->scales[k].factor * wire->to[i] + part->scales[k].offset;
        }
    }
    return all;
}

/* Compute the outputs of a part at the start: all of them, or those marked in `some`. */
static int evaluate(int number, const unsigned char *some)
{
    if (STARTS[number])
        return STARTS[number](PARTS[number].instance, start_time) ? RUNNER_NOT_FINITE : RUNNER_OK;
    return initialize_fmu(&fmus[FMU_OF[number]], memory, some) ? RUNNER_FAILED : RUNNER_OK;
}

/* Read the inputs of a part. If they have changed, compute its outputs. */
static int refresh(int number, int *changed)
{
    const int first = FIRST[number];
    const size_t size = sizeof *memory * (size_t)(FIRST[number + 1] - first);
    memcpy(before, memory + first, size);
    rb_master_read(PARTS + number);
    if (current[number] && memcmp(before, memory + first, size) == 0)
        return RUNNER_OK;
    *changed = current[number] = 1;
    return evaluate(number, NULL);
}

/* Evaluate a part with the inputs that are known. Some of its outputs become known. */
static int evaluate_known(const Evaluation *evaluation)
{
    const int all = read_known(PARTS + evaluation->part);
    memset(wanted, 0, sizeof wanted);
    for (int k = 0; k < evaluation->n; k++)
        wanted[evaluation->places[k]] = 1;
    const int status = evaluate(evaluation->part, wanted);
    for (int k = 0; k < evaluation->n; k++)
        known[evaluation->places[k]] = 1;
    /* the evaluation of a block may fail while some inputs are not known */
    return all || !STARTS[evaluation->part] ? status : RUNNER_OK;
}

/* Evaluate the parts of a group until no input changes. */
static int settle(const StartGroup *group)
{
    for (int pass = 0; pass < START_PASSES; pass++) {
        int changed = 0;
        for (int k = 0; k < group->n_parts; k++) {
            const int status = refresh(group->parts[k], &changed);
            if (status)
                return status;
        }
        if (!changed)
            return RUNNER_OK;
    }
    (void)fprintf(stderr, "the initialization did not converge in %d iterations: %s still change\n",
                  START_PASSES, group->signals);
    return RUNNER_FAILED;
}

/* Compute the outputs at the start. Each part is evaluated when its inputs are known; algebraic
   loops are iterated until no input changes. */
int rb_runner_outputs(double t)
{
    start_time = t;
    memset(current, 0, sizeof current);
    for (int g = 0; g < RUNNER_GROUPS; g++) {
        const StartGroup *group = GROUPS + g;
        int status = RUNNER_OK;
        for (int k = 0; k < group->n_evaluations && status == RUNNER_OK; k++)
            status = evaluate_known(group->evaluations + k);
        if (status == RUNNER_OK)
            status = settle(group);
        if (status)
            return status;
    }
    return RUNNER_OK;
}

int rb_runner_start(double t)
{
    memcpy(memory, RUNNER_START, sizeof memory);
    for (int k = 0; k < RUNNER_FMUS; k++)
        if (load_fmu(&fmus[k], &FMUS[k]) != 0 || enter_fmu(&fmus[k], t) != 0)
            return RUNNER_FAILED;
    return rb_runner_outputs(t);
}

/* Exit the initialization mode of each FMU, in the order of the evaluations. If an exit changes
   outputs, the connected parts read their inputs again. */
int rb_runner_begin(void)
{
    for (int g = 0; g < RUNNER_GROUPS; g++)
        for (int k = 0; k < GROUPS[g].n_parts; k++) {
            const int number = GROUPS[g].parts[k];
            int changed = 0;
            const int status = refresh(number, &changed);
            if (status)
                return status;
            if (!STARTS[number] && begin_fmu(&fmus[FMU_OF[number]], memory) != 0)
                return RUNNER_FAILED;
        }
    return RUNNER_OK;
}

int rb_runner_step(double t)
{
    const int ending = rb_master_step(&loop, t, RUNNER_DT);
    if (ending == RB_LOOP_FAILED && PARTS[loop.part].kind == RB_HOSTED)
        return RUNNER_FAILED;
    return ending == RB_LOOP_DONE ? RUNNER_OK : RUNNER_NOT_FINITE;
}

void rb_runner_end(void)
{
    for (int k = 0; k < RUNNER_FMUS; k++)
        end_fmu(&fmus[k]);
}
