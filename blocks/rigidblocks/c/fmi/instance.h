/* An instance of an FMU: state, modes, memory and messages, for FMI 2.0 and FMI 3.0.

     block_step.h  start and step of a block on its memory
     events.h      generated: switching functions, and the block with held sides
     tangent.h     generated: derivatives of the state derivatives and outputs
     fmu.h         generated: guid; names, causalities and bounds of the variables

   A value reference is an index. It counts the elements of the memory, then the derivatives of the
   continuous states, then the event indicators. In FMI 3.0 it is the index of the first element of
   an array.

   A rejected call logs the reason and changes nothing. The memory is finite at all times: a value
   that is not finite cannot be set, and a step with such a result is undone. All data is in the
   instance; only instances and saved states allocate memory. */

#ifndef RB_INSTANCE_H
#define RB_INSTANCE_H

#include <stdarg.h>
#if !defined(PLAIN_MESSAGES)
#include <stdio.h>
#endif

#include "fmu.h"
#include "events.h"
#include "block_step.h"
#if defined(RB_XCP)
#include RB_XCP /* the generated XCP configuration */
#endif

/* ---- types and functions of the FMI version: status, value references, functions of the host ----

   RB_FMI is 2 or 3; fmi2.c and fmi3.c define it. The code after this section uses the names below
   for both versions. */

#if RB_FMI == 2

#include "fmi2Functions.h"

/* If a program links several FMUs, -DFMI2_FUNCTION_PREFIX=arm_ changes the names to
   arm_fmi2Instantiate and so on, as in the standard's fmi2Functions.h. FMPy's copy of that file
   never adds the prefix. */

#if defined(FMI2_FUNCTION_PREFIX)
#undef fmi2FullName
#define fmi2Join(a, b) a##b
#define fmi2JoinExpanded(a, b) fmi2Join(a, b)
#define fmi2FullName(name) fmi2JoinExpanded(FMI2_FUNCTION_PREFIX, name)
#endif

#define RB_OK fmi2OK
#define RB_WARNING fmi2Warning
#define RB_DISCARD fmi2Discard
#define RB_FAILURE fmi2Error
#define RB_TOKEN "guid"        /* FMI's term for the unique name of an FMU */
#define RB_INPUT_DERIVATIVES 1 /* hosts may give input derivatives */

typedef fmi2Status Status;
typedef fmi2ValueReference Reference;
typedef fmi2Integer Order; /* order of a derivative */

/* Functions of the host. */
typedef fmi2CallbackFunctions Host;

static inline void host_log(const Host *host, const char *instance, Status status,
                            const char *category, const char *text)
{
    if (host->logger)
        host->logger(host->componentEnvironment, instance, status, category, text);
}

/* Allocate zeroed memory; NULL if this fails. */
static inline void *host_allocate(const Host *host, size_t size)
{
    return host->allocateMemory(1, size);
}

static inline void host_free(const Host *host, void *memory)
{
    host->freeMemory(memory);
}

#else /* FMI 3.0 */

#include <stdlib.h>

/* the standard's header declares two function types without prototypes */
#if defined(__GNUC__)
#pragma GCC diagnostic push
#if !defined(__cplusplus)
#pragma GCC diagnostic ignored "-Wstrict-prototypes"
#endif
#endif
#include "fmi3Functions.h"
#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

#define RB_OK fmi3OK
#define RB_WARNING fmi3Warning
#define RB_DISCARD fmi3Discard
#define RB_FAILURE fmi3Error
#define RB_TOKEN "instantiation token" /* FMI's term for the unique name of an FMU */
#define RB_INPUT_DERIVATIVES 0         /* hosts cannot set input derivatives */

typedef fmi3Status Status;
typedef fmi3ValueReference Reference;
typedef fmi3Int32 Order; /* order of a derivative */

/* Functions of the host. */
typedef struct {
    fmi3InstanceEnvironment environment;
    fmi3LogMessageCallback log;
    fmi3IntermediateUpdateCallback update; /* NULL if the host uses no intermediate updates */
    int early_return;                      /* 1 if a step may return early */
} Host;

static inline void host_log(const Host *host, const char *instance, Status status,
                            const char *category, const char *text)
{
    (void)instance;
    if (host->log)
        host->log(host->environment, status, category, text);
}

/* Allocate zeroed memory; NULL if this fails. */
static inline void *host_allocate(const Host *host, size_t size)
{
    (void)host;
    return calloc(1, size);
}

static inline void host_free(const Host *host, void *memory)
{
    (void)host;
    free(memory);
}

#endif

/* ---- state of an instance: all data is in the instance; only instances and saved states
   allocate ---- */

/* number of readable values: memory, state derivatives, event indicators */
enum { RB_COUNT = RB_SIZE + RB_NX + RB_INDICATORS };
enum { RB_SIDES = RB_INDICATORS + 1 }; /* array length, never 0 */
enum { RB_SLOPES = RB_INPUT_DERIVATIVES * RB_COURSE_ORDER * RB_NU };

/* Modes of an instance, and sets of modes. */
enum {
    RB_INSTANTIATED = 1,
    RB_INITIALIZATION = 2,
    RB_STEPPING = 4,
    RB_FAILED = 8,
    RB_TERMINATED = 16,
    RB_EVENT = 32,
    RB_CONTINUOUS = 64,
    RB_INTERMEDIATE = 128,  /* intermediate update within a step */
    RB_ACTIVATION = 256,    /* scheduled execution: the host runs the model partition */
    RB_CONFIGURATION = 512, /* the host sets the size of the arrays */
    RB_BEFORE_THE_RUN = RB_INSTANTIATED | RB_INITIALIZATION,
#if defined(RB_RESIZABLE)
    RB_CO_SIMULATION = RB_BEFORE_THE_RUN | RB_CONFIGURATION | RB_STEPPING | RB_FAILED |
        RB_TERMINATED,
#else
    RB_CO_SIMULATION = RB_BEFORE_THE_RUN | RB_STEPPING | RB_FAILED | RB_TERMINATED,
#endif
    RB_MODEL_EXCHANGE = RB_BEFORE_THE_RUN | RB_EVENT | RB_CONTINUOUS | RB_TERMINATED,
    RB_SCHEDULED_EXECUTION = RB_BEFORE_THE_RUN | RB_ACTIVATION | RB_FAILED | RB_TERMINATED,
    RB_ANY = RB_CO_SIMULATION | RB_MODEL_EXCHANGE | RB_ACTIVATION
};

/* Input derivatives: none, for the next step, or at the end of the last step. The derivatives of
   the last step count only for output derivatives; the inputs are held in the next step. */
enum { RB_NO_SLOPES, RB_NEXT_SLOPES, RB_PAST_SLOPES };

/* Condition numbers of a loop in the run so far, and the largest logged value. */
typedef struct {
    double least;      /* smallest condition number; 0 before the first */
    double rank;       /* largest rank */
    double largest, t; /* largest condition number above its limit, and its time */
    double reported;   /* largest condition number in the log so far */
} Passage;

/* State of a run. Before the start the memory holds the start values. */
typedef struct {
    double m[RB_SIZE];
    /* first, second, ... derivatives of the inputs at the current time */
    double slope[RB_SLOPES + 1];
    double stop_time;
    /* allowed drift of states from their constraints in model exchange, relative to their size */
    double drift;
    /* multiple of the sample time of the next sample, if samples are events */
    double next_sample;
    double side[RB_SIDES]; /* sides of the switching functions, in model exchange */
    Passage passages[RB_LOOPS + 1];
#if defined(RB_CLOCKED)
    double sampled_at; /* start time until the first tick of the clock, then infinite */
    int ticks;         /* 1 if the clock ticks in the current event */
#endif
#if defined(RB_RESIZABLE)
    unsigned size; /* last dimension of the resizable arrays, 1 to RB_RESIZABLE */
#endif
    int slopes; /* RB_NO_SLOPES, RB_NEXT_SLOPES or RB_PAST_SLOPES */
    int mode;
} State;

/* A saved state; an element of one of the hash lists of the instance. */
typedef struct Saved {
    struct Saved *next;
    State state;
} Saved;

enum { RB_FEWEST_LISTS = 8 }; /* lists of the smallest hash table; a power of 2 */

/* Hash table of the saved states by their address. The number of lists is a power of 2 and grows
   with the number of states. */
typedef struct {
    Saved *first[RB_FEWEST_LISTS]; /* lists of the smallest table */
    Saved **lists;
    size_t n_lists, n;
} SavedStates;

typedef struct {
    State now;
    /* possible modes: RB_CO_SIMULATION (optionally with RB_EVENT), RB_MODEL_EXCHANGE, or
       RB_SCHEDULED_EXECUTION */
    int modes;
    Host host;
    SavedStates saved;
    int inputs_wanted;                /* 1 if inputs can be set in an intermediate update */
    unsigned char required[RB_COUNT]; /* variables that the host uses in intermediate updates */
    char *name;                       /* stored after the instance */
#if defined(RB_BINARY)
    unsigned char encoded[RB_COUNT * sizeof(double)]; /* binary values for the host */
#endif
#if defined(RB_XCP)
    /* `service` points to `own_service`, so that a const instance can use it too */
    Service *service, own_service;
#endif
} Instance;

/* Return the instance of a host's handle. */
static inline Instance *instance_of(void *component)
{
    return (Instance *)component;
}

/* ---- clocked FMUs: the host ticks the clock of the samples in event mode. Without event mode, the
   FMU takes the samples itself. The initialization takes the sample of the start time, so a tick at
   the start time does not take another one. ---- */

#if defined(RB_CLOCKED)

static inline int is_clocked(const Instance *fmu)
{
    return (fmu->modes & RB_EVENT) != 0;
}

static inline int clock_ticks(const Instance *fmu)
{
    return fmu->now.ticks;
}

/* Return 1 if the current event takes a sample because the clock ticks. */
static inline int takes_clocked_sample(const Instance *fmu)
{
    return fmu->now.ticks && fmu->now.m[RB_T] != fmu->now.sampled_at;
}

static inline void expect_ticks_from(Instance *fmu, double start)
{
    fmu->now.sampled_at = start;
    fmu->now.ticks = 0;
}

static inline void end_tick(Instance *fmu)
{
    if (fmu->now.ticks)
        expect_ticks_from(fmu, INFINITY);
}

#else

static inline int is_clocked(const Instance *fmu)
{
    (void)fmu;
    return 0;
}

static inline int clock_ticks(const Instance *fmu)
{
    (void)fmu;
    return 0;
}

static inline int takes_clocked_sample(const Instance *fmu)
{
    (void)fmu;
    return 0;
}

static inline void expect_ticks_from(Instance *fmu, double start)
{
    (void)fmu, (void)start;
}

static inline void end_tick(Instance *fmu)
{
    (void)fmu;
}

#endif

/* RB_LOCKED: a call with exclusive access to the memory. RB_SAMPLED: such a call that does a
   step. */
#if defined(RB_XCP)

static inline void lock_memory(const Instance *fmu)
{
    if (fmu)
        (void)pthread_mutex_lock(&fmu->service->lock);
}

static inline Status unlock_memory(const Instance *fmu, Status status)
{
    if (fmu)
        (void)pthread_mutex_unlock(&fmu->service->lock);
    return status;
}

/* After a step, send the signals that an XCP master requested. */
static inline Status send_sample(const Instance *fmu, Status status)
{
    if (fmu && status == RB_OK && fmu->service->is_on)
        send_signals(&fmu->service->server, fmu->now.m[RB_T]);
    return status;
}

#define RB_LOCKED(fmu, call) (lock_memory(fmu), unlock_memory(fmu, call))
#define RB_SAMPLED(fmu, call) send_sample(fmu, call)

#else

#define RB_LOCKED(fmu, call) (call)
#define RB_SAMPLED(fmu, call) (call)

#endif

static inline const char *mode_name(int mode)
{
    switch (mode) {
    case RB_INSTANTIATED: return "before initialization";
    case RB_INITIALIZATION: return "in initialization mode";
    case RB_STEPPING: return "during a run";
    case RB_FAILED: return "after a failed step";
    case RB_EVENT: return "in event mode";
    case RB_INTERMEDIATE: return "in an intermediate update";
    case RB_CONTINUOUS: return "in continuous-time mode";
    case RB_ACTIVATION: return "in clock activation mode";
    case RB_CONFIGURATION: return "in configuration mode";
    default: return "after termination";
    }
}

/* ---- static slots for instances and saved states ----

   A build with -DFIXED_INSTANCES=n has n slots, which instances and saved states share. It never
   calls the host's allocator. Each slot has room for a name of 200 characters. All instances of the
   FMU in a program share the slots without a lock. Only one thread at a time may therefore create,
   save and free. */

#if defined(FIXED_INSTANCES)

#define RB_LONGEST_NAME 200 /* bytes of the name of an instance in a static slot */
#define RB_TEXT_OF(number) RB_DIGITS(number)
#define RB_DIGITS(number) #number
#define RB_NO_MEMORY(what)                                                                  \
    "all " RB_TEXT_OF(FIXED_INSTANCES) " slots for instances and saved states are in use; " \
                                       "no slot for " what

typedef union {
    Instance instance;
    Saved saved;
    char room[sizeof(Instance) + RB_LONGEST_NAME + 1];
} Slot;

static Slot slots[FIXED_INSTANCES];
static unsigned char taken[FIXED_INSTANCES];

/* Return a zeroed slot; NULL if none is free or the size is too large. */
static inline void *allocate(const Host *host, size_t size)
{
    (void)host;
    for (size_t i = 0; i < FIXED_INSTANCES && size <= sizeof(Slot); i++)
        if (!taken[i]) {
            taken[i] = 1;
            return memset(&slots[i], 0, sizeof(Slot));
        }
    return NULL;
}

static inline void release(const Host *host, const void *slot)
{
    (void)host;
    for (size_t i = 0; i < FIXED_INSTANCES; i++)
        if (slot == &slots[i])
            taken[i] = 0;
}

#else

#define RB_NO_MEMORY(what) "not enough memory for " what

static inline void *allocate(const Host *host, size_t size)
{
    return host_allocate(host, size);
}

static inline void release(const Host *host, void *memory)
{
    host_free(host, memory);
}

#endif

/* ---- messages ---- */

static inline void log_text(const Host *host, const char *instance, Status status, const char *text)
{
    const char *category = status == RB_WARNING ? "logStatusWarning" : "logStatusError";
    host_log(host, instance, status, status == RB_DISCARD ? "logStatusDiscard" : category, text);
}

#if defined(PLAIN_MESSAGES)

/* Format a message with its strings. Numbers become "...", because the formatting of digits needs
   much code. */
static inline void format_text(char *text, size_t size, const char *format, va_list values)
{
    size_t n = 0;
    while (*format && n + 1 < size) {
        const char *part = "...";
        if (*format != '%') {
            text[n++] = *format++;
            continue;
        }
        format += strcspn(format, "sgdu");
        switch (*format++) {
        case 's': part = va_arg(values, const char *); break;
        case 'g': (void)va_arg(values, double); break;
        case 'u': (void)va_arg(values, unsigned long); break;
        default: (void)va_arg(values, int);
        }
        while (*part && n + 1 < size)
            text[n++] = *part++;
    }
    text[n] = 0;
}

#else

static inline void format_text(char *text, size_t size, const char *format, va_list values)
{
    (void)vsnprintf(text, size, format, values);
}

#endif

/* Log a message and return the status. Hosts use the text as a printf format, so it must not
   contain a '%'. */
static inline Status report(const Instance *fmu, Status status, const char *format, ...)
{
    char text[512];
    va_list values;
    va_start(values, format);
    format_text(text, sizeof text, format, values);
    va_end(values);
    for (char *c = text; *c; c++)
        if (*c == '%')
            *c = '_';
    log_text(&fmu->host, fmu->name, status, text);
    return status;
}

/* Return 1 if the function may be called in the current mode. */
static inline int is_allowed(const Instance *fmu, const char *function, int modes)
{
    if (fmu && !(fmu->now.mode & modes))
        report(fmu, RB_FAILURE, "%s is not allowed %s", function, mode_name(fmu->now.mode));
    return fmu && (fmu->now.mode & modes);
}

/* Return 1 if the host passed an address for `n` values. NULL is allowed for n = 0. */
static inline int is_given(const Instance *fmu, const char *function, const void *address, size_t n)
{
    if (fmu && n && !address)
        report(fmu, RB_FAILURE, "%s: an argument is NULL", function);
    return !n || address;
}

static inline Status not_provided(const Instance *fmu, const char *function)
{
    return fmu ? report(fmu, RB_FAILURE, "%s is not provided by this FMU", function) : RB_FAILURE;
}

/* Return 1 if all value references are valid. */
static inline int are_known(const Instance *fmu, const char *function, const Reference vr[],
                            size_t n)
{
    if (!is_given(fmu, function, vr, n))
        return 0;
    for (size_t i = 0; i < n; i++)
        if (vr[i] >= RB_COUNT || RB_LENGTH[vr[i]] == 0) {
            report(fmu, RB_FAILURE, "%s: unknown variable %lu; the last is %d", function,
                   (unsigned long)vr[i], RB_LAST_VARIABLE);
            return 0;
        }
    return 1;
}

/* ---- resizable arrays: the host sees the first `size` elements of their last dimension. The
   elements are independent of each other, and the FMU computes all RB_RESIZABLE elements. ---- */

#if defined(RB_RESIZABLE)

/* Return the number of elements of a variable. */
static inline size_t length_of(const Instance *fmu, Reference variable)
{
    return RB_IS_RESIZABLE[variable] ? RB_LENGTH[variable] / RB_RESIZABLE * fmu->now.size
                                     : RB_LENGTH[variable];
}

/* Return the memory index of element k of a variable. */
static inline Reference element_of(const Instance *fmu, Reference variable, size_t k)
{
    const size_t size = fmu->now.size;
    return variable +
           (Reference)(RB_IS_RESIZABLE[variable] ? k / size * RB_RESIZABLE + k % size : k);
}

#else

static inline size_t length_of(const Instance *fmu, Reference variable)
{
    (void)fmu;
    return RB_LENGTH[variable];
}

static inline Reference element_of(const Instance *fmu, Reference variable, size_t k)
{
    (void)fmu;
    return variable + (Reference)k;
}

#endif

/* Return 1 if the number of values equals the number of elements of the variables. */
static inline int has_fitting_count(const Instance *fmu, const char *function, const Reference vr[],
                                    size_t n, size_t n_values)
{
    size_t elements = 0;
    for (size_t i = 0; i < n; i++)
        elements += length_of(fmu, vr[i]);
    if (elements != n_values)
        report(fmu, RB_FAILURE, "%s: the %lu variables from %s on have %lu elements, not %lu",
               function, (unsigned long)n, n ? RB_NAMES[vr[0]] : "none", (unsigned long)elements,
               (unsigned long)n_values);
    return elements == n_values;
}

/* ---- XCP service, if the FMU is built with it (xcp_udp.h) ---- */

#if defined(RB_XCP)

/* Apply the host's settings of the XCP service. An error is logged, but the run continues. */
static inline void apply_settings(Instance *fmu)
{
    if (fmu->modes & RB_CONTINUOUS)
        return; /* model exchange has no steps */
    const char *why = apply_service(fmu->service, &RB_XCP_PLAN, fmu->now.m);
    if (why)
        report(fmu, RB_WARNING, "XCP cannot listen at %s:%d: %s", fmu->service->wanted.address,
               fmu->service->wanted.port, why);
}

static inline void make_settings(Instance *fmu)
{
    fmu->service = &fmu->own_service;
    make_service(fmu->service, &RB_XCP_DEFAULT);
}

static inline void end_service(Instance *fmu)
{
    stop_service(fmu->service);
}

static inline void reset_settings(Instance *fmu)
{
    stop_service(fmu->service);
    fmu->service->wanted = RB_XCP_DEFAULT;
}

static inline void free_service(Instance *fmu)
{
    stop_service(fmu->service);
    (void)pthread_mutex_destroy(&fmu->service->lock);
}

#else

static inline void apply_settings(Instance *fmu)
{
    (void)fmu;
}
static inline void make_settings(Instance *fmu)
{
    (void)fmu;
}
static inline void end_service(Instance *fmu)
{
    (void)fmu;
}
static inline void reset_settings(Instance *fmu)
{
    (void)fmu;
}
static inline void free_service(Instance *fmu)
{
    (void)fmu;
}

#endif

static inline int first_not_finite(const double *values, int n)
{
    int i = 0;
    while (i < n - 1 && isfinite(values[i]))
        i++;
    return i;
}

/* ---- life cycle of an instance ---- */

static inline void forget_slopes(Instance *fmu)
{
    if (fmu->now.slopes != RB_NO_SLOPES)
        memset(fmu->now.slope, 0, sizeof fmu->now.slope);
    fmu->now.slopes = RB_NO_SLOPES;
}

/* Return the allowed drift of states from their constraints, relative to their size, for a host's
   solver with this tolerance. If the drift is larger, the FMU requests an event. An event restarts
   the solver. The correction is worth that cost only after the errors of many steps have
   accumulated. */
static inline double allowed_drift(double tolerance)
{
    return fmin(100.0 * tolerance, 1e-3);
}

static inline void restart(Instance *fmu)
{
    store(fmu->now.m, RB_START, RB_SIZE);
    forget_slopes(fmu);
    memset(fmu->now.passages, 0, sizeof fmu->now.passages);
    fmu->now.stop_time = INFINITY;
    fmu->now.drift = allowed_drift(RB_TOLERANCE);
    fmu->now.next_sample = 0.0;
    expect_ticks_from(fmu, INFINITY);
#if defined(RB_RESIZABLE)
    fmu->now.size = RB_RESIZABLE;
#endif
    for (int i = 0; i < RB_SIDES; i++)
        fmu->now.side[i] = -1.0;
    fmu->now.mode = RB_INSTANTIATED;
}

/* Return 1 if the FMU has the interface type with these modes. An FMU for scheduled execution has
   no other interface type. An FMU with binary variables or resizable arrays has no model exchange.
   An FMU with binary variables that belong to no clock has no event mode. */
static inline int has_interface(int modes)
{
#if defined(RB_BINARY) && !defined(RB_CLOCKED)
    if (!RB_SCHEDULED)
        return modes == RB_CO_SIMULATION;
#endif
#if defined(RB_BINARY) || defined(RB_RESIZABLE)
    if (modes == RB_MODEL_EXCHANGE)
        return 0;
#endif
    return modes && (modes == RB_SCHEDULED_EXECUTION) == RB_SCHEDULED;
}

#if defined(RB_BINARY) && !defined(RB_CLOCKED)
#define RB_OTHER_INTERFACES "this FMU supports only co-simulation without event mode"
#elif defined(RB_BINARY) || defined(RB_RESIZABLE)
#define RB_OTHER_INTERFACES "this FMU supports only co-simulation"
#else
#define RB_OTHER_INTERFACES "this FMU supports only co-simulation and model exchange"
#endif

/* Create an instance with these modes. The call is rejected if the FMU does not have them. */
static inline Instance *create_instance(const Host *host, const char *name, const char *token,
                                        int modes)
{
    const char *refusal = NULL;
    Instance *fmu = NULL;
    if (!name || !name[0])
        refusal = "an instance needs a name";
#if defined(FIXED_INSTANCES)
    else if (strlen(name) > RB_LONGEST_NAME)
        refusal =
            "a slot has no room for a name of more than " RB_TEXT_OF(RB_LONGEST_NAME) " characters";
#endif
    else if (!has_interface(modes))
        refusal = RB_SCHEDULED ? "this FMU supports only scheduled execution" : RB_OTHER_INTERFACES;
    else if (!token || strcmp(token, RB_GUID) != 0)
        refusal = "the " RB_TOKEN " is not the one of this FMU, " RB_GUID;
    else if (!(fmu = (Instance *)allocate(host, sizeof(Instance) + strlen(name) + 1)))
        refusal = RB_NO_MEMORY("an instance");
    if (!fmu) {
        log_text(host, name ? name : "", RB_FAILURE, refusal);
        return NULL;
    }
    fmu->modes = modes;
    fmu->host = *host;
    fmu->saved.lists = fmu->saved.first;
    fmu->saved.n_lists = RB_FEWEST_LISTS;
    fmu->name = strcpy((char *)(fmu + 1), name);
    make_settings(fmu);
    restart(fmu);
    return fmu;
}

/* Free the instance and its saved states. */
static inline void free_instance(Instance *fmu)
{
    if (fmu && fmu->now.mode == RB_INTERMEDIATE)
        report(fmu, RB_FAILURE, "an instance cannot be freed in an intermediate update");
    else if (fmu) {
        const Host host = fmu->host;
        free_service(fmu);
        for (size_t i = 0; i < fmu->saved.n_lists; i++)
            for (Saved *next, *saved = fmu->saved.lists[i]; saved; saved = next) {
                next = saved->next;
                release(&host, saved);
            }
        if (fmu->saved.lists != fmu->saved.first)
            release(&host, fmu->saved.lists);
        release(&host, fmu);
    }
}

/* Errors, discarded steps and warnings are always logged, so the call has no effect. */
static inline Status check_categories(const Instance *fmu, const char *function, size_t n,
                                      const char *const categories[])
{
    if (!is_allowed(fmu, function, RB_ANY) || !is_given(fmu, function, categories, n))
        return RB_FAILURE;
    for (size_t i = 0; i < n; i++) {
        size_t k = 0;
        if (!is_given(fmu, function, categories[i], 1))
            return RB_FAILURE;
        while (RB_LOG_CATEGORIES[k] && strcmp(RB_LOG_CATEGORIES[k], categories[i]) != 0)
            k++;
        if (!RB_LOG_CATEGORIES[k])
            return report(fmu, RB_FAILURE, "unknown log category '%s'", categories[i]);
    }
    return RB_OK;
}

#endif
