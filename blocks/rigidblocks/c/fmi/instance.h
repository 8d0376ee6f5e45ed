/* An instance of an FMU, its modes and its messages, the same for FMI 2.0 and FMI 3.0.

   host.h    what a version of FMI is to the files that both share block.h   what the C of a block
   provides: model.h                                generated step.h    the start and the step of a
   run on its memory events.h  its laws between two events of model exchange
   generated sides.h   which of these hold tangent.h the derivatives of its rates and outputs
   generated fmu.h     the guid, the name of each variable, when it may be set, its bounds
   generated state.h   an instance and what it remembers pool.h    memory for instances without
   allocation, if that is wanted

   A value reference is an index into the memory and, behind it, the rates of the continuous states
   and the event indicators; in FMI 3.0 that of the first element. A call that is refused says why
   in the log and changes nothing. The memory is finite at all times: what is not finite is refused
   when it is set, and a step that makes such a value is undone. Everything lives in the instance;
   memory is allocated for instances and saved states only. */

#ifndef RB_INSTANCE_H
#define RB_INSTANCE_H

#include <stdarg.h>
#if !defined(PLAIN_MESSAGES)
#include <stdio.h>
#endif

#include "fmu.h"
#include "pool.h"

/* ---- messages ---- */

static inline void log_text(const Host *host, const char *instance, Status status, const char *text)
{
    const char *category = status == RB_WARNING ? "logStatusWarning" : "logStatusError";
    host_log(host, instance, status, status == RB_DISCARD ? "logStatusDiscard" : category, text);
}

#if defined(PLAIN_MESSAGES)

/* The text of a format with its strings, and "..." in the place of its numbers: their digits take
   much code. */
static inline void fill(char *text, size_t size, const char *format, va_list values)
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

static inline void fill(char *text, size_t size, const char *format, va_list values)
{
    (void)vsnprintf(text, size, format, values);
}

#endif

/* Logs a message and returns the status. Hosts take the finished text for a format: it must not
   look like one. */
static inline Status report(const Instance *fmu, Status status, const char *format, ...)
{
    char text[512];
    va_list values;
    va_start(values, format);
    fill(text, sizeof text, format, values);
    va_end(values);
    for (char *c = text; *c; c++)
        if (*c == '%')
            *c = '_';
    log_text(&fmu->host, fmu->name, status, text);
    return status;
}

/* Whether the function may be called in the mode that the instance is in. */
static inline int allowed(const Instance *fmu, const char *function, int modes)
{
    if (fmu && !(fmu->now.mode & modes))
        report(fmu, RB_FAILURE, "%s is not allowed %s", function, mode_name(fmu->now.mode));
    return fmu && (fmu->now.mode & modes);
}

/* Whether the host gave the address of `n` values, which may be nowhere when there are none. */
static inline int given(const Instance *fmu, const char *function, const void *address, size_t n)
{
    if (fmu && n && !address)
        report(fmu, RB_FAILURE, "%s: an argument is NULL", function);
    return !n || address;
}

static inline Status not_provided(const Instance *fmu, const char *function)
{
    return fmu ? report(fmu, RB_FAILURE, "%s is not provided by this FMU", function) : RB_FAILURE;
}

/* Whether there is a variable of each of the value references. */
static inline int known(const Instance *fmu, const char *function, const Reference vr[], size_t n)
{
    if (!given(fmu, function, vr, n))
        return 0;
    for (size_t i = 0; i < n; i++)
        if (vr[i] >= RB_COUNT || RB_LENGTH[vr[i]] == 0) {
            report(fmu, RB_FAILURE, "%s: there is no variable %lu; the last is %d", function,
                   (unsigned long)vr[i], RB_LAST_VARIABLE);
            return 0;
        }
    return 1;
}

/* Whether there are as many values as the variables, which are known, have elements. */
static inline int fits(const Instance *fmu, const char *function, const Reference vr[], size_t n,
                       size_t n_values)
{
    size_t elements = 0;
    for (size_t i = 0; i < n; i++)
        elements += RB_LENGTH[vr[i]];
    if (elements != n_values)
        report(fmu, RB_FAILURE, "%s: the %lu variables from %s on have %lu elements, not %lu",
               function, (unsigned long)n, n ? RB_NAMES[vr[0]] : "none", (unsigned long)elements,
               (unsigned long)n_values);
    return elements == n_values;
}

/* ---- XCP, where it was built with that (xcp_service.h) ---- */

#if defined(RB_XCP)

/* Lets the service be as the host wants it; what hinders it is said, and stops nothing. */
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

/* ---- the life of an instance ---- */

static inline void forget_slopes(Instance *fmu)
{
    if (fmu->now.slopes_given)
        memset(fmu->now.slope, 0, sizeof fmu->now.slope);
    fmu->now.slopes_given = 0;
}

/* How far states may drift from where they belong, relative to their size, before a host's solver
   of this tolerance is asked for an event. An event starts the solver anew, which costs more than
   it mends until the errors of many steps have added up. */
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
    for (int i = 0; i < RB_SIDES; i++)
        fmu->now.side[i] = -1.0;
    fmu->now.mode = RB_INSTANTIATED;
}

/* A new instance that can be in `modes`; without any it is refused. */
static inline Instance *create(const Host *host, const char *name, const char *token, int modes)
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
    else if (!modes)
        refusal = "this FMU is for co-simulation and for model exchange, and nothing else";
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

/* Frees the instance and the states that it still has saved. */
static inline void discard(Instance *fmu)
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

/* Errors, discarded steps and warnings are all that is logged, and they always are: there is
   nothing to switch. */
static inline Status check_categories(const Instance *fmu, const char *function, size_t n,
                                      const char *const categories[])
{
    if (!allowed(fmu, function, RB_ANY) || !given(fmu, function, categories, n))
        return RB_FAILURE;
    for (size_t i = 0; i < n; i++) {
        size_t k = 0;
        if (!given(fmu, function, categories[i], 1))
            return RB_FAILURE;
        while (RB_LOG_CATEGORIES[k] && strcmp(RB_LOG_CATEGORIES[k], categories[i]) != 0)
            k++;
        if (!RB_LOG_CATEGORIES[k])
            return report(fmu, RB_FAILURE, "there is no log category '%s'", categories[i]);
    }
    return RB_OK;
}

#endif
