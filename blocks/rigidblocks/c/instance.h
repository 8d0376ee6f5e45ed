/* An instance of an FMU, its modes and its messages, the same for FMI 2.0 and FMI 3.0.

   The interface that includes this defines first
     Status, OK, DISCARD, FAILURE          what its functions return
     Host, and host_log, host_allocate (zeroed) and host_free     what the host of an instance gave
     TOKEN                                 what its FMI calls the guid

     INPUT_DERIVATIVES                     whether a host may give derivatives of inputs, 1 or 0

   model.h   the block traced to C, and the layout of its memory                    generated
   tangent.h the derivatives of its rates and outputs                               generated
   pool.h    memory for instances without allocation, if that is wanted
   step.h    the start and the step of a run on that memory
   fmu.h     the guid, and the name of each variable and when it may be set         generated

   A value reference is an index into the memory and, behind it, the rates of the continuous states; in FMI 3.0 that of the
   first element. A call that is refused says why in the log and changes nothing. The memory is finite at all times: what
   is not finite is refused when it is set, and a step that makes such a value is undone. Everything lives in the instance;
   memory is allocated for instances and saved states only. */

#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "fmu.h"
#include "model.h"
#include "step.h"
#include "tangent.h"

enum { COUNT = SIZE + NX }; /* all that can be read: the memory and the rates */
enum { SLOPES = INPUT_DERIVATIVES * COURSE_ORDER * NU };

#include "pool.h"

/* The modes of an instance, and sets of them. */
enum { INSTANTIATED = 1, INITIALIZATION = 2, STEPPING = 4, FAILED = 8, TERMINATED = 16, EVENT = 32, CONTINUOUS = 64 };
enum { INTERMEDIATE = 128 }; /* within a step, while the host is shown where it is */
enum {
    BEFORE_THE_RUN = INSTANTIATED | INITIALIZATION,
    CO_SIMULATION = BEFORE_THE_RUN | STEPPING | FAILED | TERMINATED,
    MODEL_EXCHANGE = BEFORE_THE_RUN | EVENT | CONTINUOUS | TERMINATED,
    ANY = CO_SIMULATION | MODEL_EXCHANGE
};

/* The modes in which a variable may be set, by its entry in SETTABLE of fmu.h. */
static const int SETTABLE_IN[] = {
    [NEVER] = 0,
    [START_VALUE] = BEFORE_THE_RUN,
    [TUNABLE] = BEFORE_THE_RUN | STEPPING | EVENT,
    [ALWAYS] = BEFORE_THE_RUN | STEPPING | EVENT | CONTINUOUS | INTERMEDIATE,
};

typedef uint32_t Reference;

/* All that a run remembers: before its start, the memory holds the start values. */
typedef struct {
    double m[SIZE];
    double slope[SLOPES + 1]; /* derivatives of the inputs at the beginning of the next step: the first, the second... */
    double stop_time;
    double next_sample; /* where samples are events, the next one is at this multiple of the sample time */
    int slopes_given;
    int mode;
} State;

/* A copy of a state, in the list of those that its instance has saved. */
typedef struct Saved {
    struct Saved *next;
    State state;
} Saved;

typedef struct {
    State now;
    int modes; /* those that it can be in: CO_SIMULATION, also with EVENT, or MODEL_EXCHANGE */
    Host host;
    Saved *saved;
    int inputs_wanted;             /* in an intermediate update, whether inputs can be set */
    unsigned char required[COUNT]; /* the variables that the host uses in intermediate updates */
    char name[];
} Instance;

static const char *mode_name(int mode)
{
    switch (mode) {
    case INSTANTIATED: return "before initialization";
    case INITIALIZATION: return "in initialization mode";
    case STEPPING: return "during a run";
    case FAILED: return "after a step that failed";
    case EVENT: return "in event mode";
    case INTERMEDIATE: return "in an intermediate update";
    case CONTINUOUS: return "in continuous-time mode";
    default: return "after termination";
    }
}

/* ---- messages ---- */

static void log_text(const Host *host, const char *instance, Status status, const char *text)
{
    host_log(host, instance, status, status == DISCARD ? "logStatusDiscard" : "logStatusError", text);
}

/* Logs a message and returns the status. Hosts take the finished text for a format: it must not look like one. */
static Status report(const Instance *fmu, Status status, const char *format, ...)
{
    char text[512];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    for (char *c = text; *c; c++)
        if (*c == '%')
            *c = '_';
    log_text(&fmu->host, fmu->name, status, text);
    return status;
}

/* Whether the function may be called in the mode that the instance is in. */
static int allowed(const Instance *fmu, const char *function, int modes)
{
    if (fmu && !(fmu->now.mode & modes))
        report(fmu, FAILURE, "%s is not allowed %s", function, mode_name(fmu->now.mode));
    return fmu && (fmu->now.mode & modes);
}

/* Whether the host gave the address of `n` values, which may be nowhere when there are none. */
static int given(const Instance *fmu, const char *function, const void *address, size_t n)
{
    if (fmu && n && !address)
        report(fmu, FAILURE, "%s: an argument is NULL", function);
    return !n || address;
}

static Status not_provided(const Instance *fmu, const char *function)
{
    return fmu ? report(fmu, FAILURE, "%s is not provided by this FMU", function) : FAILURE;
}

/* Whether there is a variable of each of the value references. */
static int known(const Instance *fmu, const char *function, const Reference vr[], size_t n)
{
    if (!given(fmu, function, vr, n))
        return 0;
    for (size_t i = 0; i < n; i++)
        if (vr[i] >= COUNT || LENGTH[vr[i]] == 0) {
            report(fmu, FAILURE, "%s: there is no variable %lu; the last is %d", function, (unsigned long)vr[i], LAST_VARIABLE);
            return 0;
        }
    return 1;
}

/* Whether there are as many values as the variables, which are known, have elements. */
static int fits(const Instance *fmu, const char *function, const Reference vr[], size_t n, size_t n_values)
{
    size_t elements = 0;
    for (size_t i = 0; i < n; i++)
        elements += LENGTH[vr[i]];
    if (elements != n_values)
        report(fmu, FAILURE, "%s: the %lu variables from %s on have %lu elements, not %lu", function, (unsigned long)n,
               n ? NAMES[vr[0]] : "none", (unsigned long)elements, (unsigned long)n_values);
    return elements == n_values;
}

static int first_not_finite(const double *values, int n)
{
    int i = 0;
    while (i < n - 1 && isfinite(values[i]))
        i++;
    return i;
}

/* ---- the life of an instance ---- */

static void *allocate(const Host *host, size_t size)
{
#if defined(FIXED_INSTANCES)
    (void)host;
    return pool_allocate(size);
#else
    return host_allocate(host, size);
#endif
}

static void release(const Host *host, void *memory)
{
#if defined(FIXED_INSTANCES)
    (void)host;
    pool_free(memory);
#else
    host_free(host, memory);
#endif
}

static void forget_slopes(Instance *fmu)
{
    if (fmu->now.slopes_given)
        memset(fmu->now.slope, 0, sizeof fmu->now.slope);
    fmu->now.slopes_given = 0;
}

static void restart(Instance *fmu)
{
    store(fmu->now.m, START, SIZE);
    forget_slopes(fmu);
    fmu->now.stop_time = INFINITY;
    fmu->now.next_sample = 0.0;
    fmu->now.mode = INSTANTIATED;
}

/* A new instance that can be in `modes`; without any it is refused. */
static Instance *create(const Host *host, const char *name, const char *token, int modes)
{
    const char *refusal = NULL;
    Instance *fmu = NULL;
    if (!name || !name[0])
        refusal = "an instance needs a name";
    else if (!modes)
        refusal = "this FMU is for co-simulation and for model exchange, and nothing else";
    else if (!token || strcmp(token, GUID) != 0)
        refusal = "the " TOKEN " is not the one of this FMU, " GUID;
    else if (!(fmu = allocate(host, sizeof(Instance) + strlen(name) + 1)))
        refusal = "there is no memory for an instance";
    if (!fmu) {
        log_text(host, name ? name : "", FAILURE, refusal);
        return NULL;
    }
    fmu->modes = modes;
    fmu->host = *host;
    strcpy(fmu->name, name);
    restart(fmu);
    return fmu;
}

/* Frees the instance and the states that it still has saved. */
static void discard(Instance *fmu)
{
    if (fmu && fmu->now.mode == INTERMEDIATE)
        report(fmu, FAILURE, "an instance cannot be freed in an intermediate update");
    else if (fmu) {
        const Host host = fmu->host;
        for (Saved *next, *saved = fmu->saved; saved; saved = next) {
            next = saved->next;
            release(&host, saved);
        }
        release(&host, fmu);
    }
}

/* Errors and discarded steps are all that is logged, and they always are: there is nothing to switch. */
static Status check_categories(const Instance *fmu, const char *function, size_t n, const char *const categories[])
{
    if (!allowed(fmu, function, ANY) || !given(fmu, function, categories, n))
        return FAILURE;
    for (size_t i = 0; i < n; i++) {
        size_t k = 0;
        if (!given(fmu, function, categories[i], 1))
            return FAILURE;
        while (LOG_CATEGORIES[k] && strcmp(LOG_CATEGORIES[k], categories[i]) != 0)
            k++;
        if (!LOG_CATEGORIES[k])
            return report(fmu, FAILURE, "there is no log category '%s'", categories[i]);
    }
    return OK;
}
