/* The FMI 2.0 co-simulation interface of a block, the same for all blocks.

   model.h   the block traced to C, and the layout of its memory                    generated
   step.h    the start and the step of a run on that memory
   fmu.h     the guid, and the name of each variable and when it may be set         generated

   A value reference is an index into the memory. A call that is refused says why in the log and changes nothing. The
   memory is finite at all times: what is not finite is refused when it is set, and a step that makes such a value is undone.
   Everything lives in the instance; memory is allocated for instances and saved states only. */

#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "fmi2Functions.h"
#include "fmu.h"
#include "model.h"
#include "step.h"

/* The modes of an instance, and sets of them. */
enum { INSTANTIATED = 1, INITIALIZATION = 2, STEPPING = 4, FAILED = 8, TERMINATED = 16 };
enum { BEFORE_THE_RUN = INSTANTIATED | INITIALIZATION, ANY = BEFORE_THE_RUN | STEPPING | FAILED | TERMINATED };

/* The modes in which a variable may be set, by its entry in SETTABLE of fmu.h. */
static const int SETTABLE_IN[] = {[NEVER] = 0, [START_VALUE] = BEFORE_THE_RUN, [ALWAYS] = BEFORE_THE_RUN | STEPPING};

/* All that a run remembers: before its start, the memory holds the start values. */
typedef struct {
    double m[SIZE];
    double stop_time;
    int mode;
} State;

typedef struct {
    State now;
    fmi2CallbackFunctions callbacks;
    char name[];
} Instance;

/* ---- messages ---- */

static const char *mode_name(int mode)
{
    switch (mode) {
    case INSTANTIATED: return "before initialization";
    case INITIALIZATION: return "in initialization mode";
    case STEPPING: return "during a run";
    case FAILED: return "after a step that failed";
    default: return "after termination";
    }
}

static void log_text(const fmi2CallbackFunctions *callbacks, const char *instance, fmi2Status status, const char *text)
{
    const char *category = status == fmi2Discard ? "logStatusDiscard" : "logStatusError";
    if (callbacks->logger)
        callbacks->logger(callbacks->componentEnvironment, instance, status, category, text);
}

/* Logs a message and returns the status. Hosts take the finished text for a format: it must not look like one. */
static fmi2Status report(const Instance *fmu, fmi2Status status, const char *format, ...)
{
    char text[512];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    for (char *c = text; *c; c++)
        if (*c == '%')
            *c = '_';
    log_text(&fmu->callbacks, fmu->name, status, text);
    return status;
}

/* Whether the function may be called in the mode that the instance is in. */
static int allowed(const Instance *fmu, const char *function, int modes)
{
    if (fmu && !(fmu->now.mode & modes))
        report(fmu, fmi2Error, "%s is not allowed %s", function, mode_name(fmu->now.mode));
    return fmu && (fmu->now.mode & modes);
}

/* Whether there is a variable of each of the value references. */
static int known(const Instance *fmu, const char *function, const fmi2ValueReference vr[], size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (vr[i] >= SIZE) {
            report(fmu, fmi2Error, "%s: there is no variable %u; the last is %d", function, vr[i], SIZE - 1);
            return 0;
        }
    return 1;
}

static const char *first_not_finite(const double *m)
{
    int i = 0;
    while (i < SIZE - 1 && isfinite(m[i]))
        i++;
    return NAMES[i];
}

/* ---- instances ---- */

static void restart(Instance *fmu)
{
    store(fmu->now.m, START, SIZE);
    fmu->now.stop_time = INFINITY;
    fmu->now.mode = INSTANTIATED;
}

const char *fmi2GetTypesPlatform(void)
{
    return fmi2TypesPlatform;
}

const char *fmi2GetVersion(void)
{
    return fmi2Version;
}

fmi2Component fmi2Instantiate(fmi2String name, fmi2Type type, fmi2String guid, fmi2String resources,
                              const fmi2CallbackFunctions *callbacks, fmi2Boolean visible, fmi2Boolean logging_on)
{
    const char *refusal = NULL;
    Instance *fmu = NULL;
    (void)resources, (void)visible, (void)logging_on; /* no resources, no window, and errors are always logged */
    if (!callbacks || !callbacks->allocateMemory || !callbacks->freeMemory)
        return NULL;
    if (!name || !name[0])
        refusal = "an instance needs a name";
    else if (type != fmi2CoSimulation)
        refusal = "this FMU is for co-simulation, not for model exchange";
    else if (!guid || strcmp(guid, GUID) != 0)
        refusal = "the guid is not the one of this FMU, " GUID;
    else if (!(fmu = callbacks->allocateMemory(1, sizeof(Instance) + strlen(name) + 1)))
        refusal = "there is no memory for an instance";
    if (!fmu) {
        log_text(callbacks, name ? name : "", fmi2Error, refusal);
        return NULL;
    }
    fmu->callbacks = *callbacks;
    strcpy(fmu->name, name);
    restart(fmu);
    return fmu;
}

void fmi2FreeInstance(fmi2Component c)
{
    Instance *fmu = c;
    if (fmu)
        fmu->callbacks.freeMemory(fmu);
}

/* Errors and discarded steps are all that is logged, and they always are: there is nothing to switch. */
fmi2Status fmi2SetDebugLogging(fmi2Component c, fmi2Boolean logging_on, size_t n, const fmi2String categories[])
{
    const Instance *fmu = c;
    (void)logging_on;
    if (!allowed(fmu, "fmi2SetDebugLogging", ANY))
        return fmi2Error;
    for (size_t i = 0; i < n; i++) {
        size_t k = 0;
        while (LOG_CATEGORIES[k] && strcmp(LOG_CATEGORIES[k], categories[i]) != 0)
            k++;
        if (!LOG_CATEGORIES[k])
            return report(fmu, fmi2Error, "there is no log category '%s'", categories[i]);
    }
    return fmi2OK;
}

/* ---- the course of a run ---- */

/* The steps are fixed: there is no tolerance to keep. */
fmi2Status fmi2SetupExperiment(fmi2Component c, fmi2Boolean tolerance_defined, fmi2Real tolerance, fmi2Real start_time,
                               fmi2Boolean stop_time_defined, fmi2Real stop_time)
{
    Instance *fmu = c;
    (void)tolerance_defined, (void)tolerance;
    if (!allowed(fmu, "fmi2SetupExperiment", INSTANTIATED))
        return fmi2Error;
    if (!isfinite(start_time))
        return report(fmu, fmi2Error, "the start time must be finite, not %g s", start_time);
    if (stop_time_defined && !(stop_time >= start_time))
        return report(fmu, fmi2Error, "the stop time %g s is before the start time %g s", stop_time, start_time);
    fmu->now.m[T] = start_time;
    fmu->now.stop_time = stop_time_defined ? stop_time : INFINITY;
    return fmi2OK;
}

fmi2Status fmi2EnterInitializationMode(fmi2Component c)
{
    Instance *fmu = c;
    if (!allowed(fmu, "fmi2EnterInitializationMode", INSTANTIATED))
        return fmi2Error;
    fmu->now.mode = INITIALIZATION;
    return fmi2OK;
}

fmi2Status fmi2ExitInitializationMode(fmi2Component c)
{
    Instance *fmu = c;
    double m[SIZE];
    if (!allowed(fmu, "fmi2ExitInitializationMode", INITIALIZATION))
        return fmi2Error;
    store(m, fmu->now.m, SIZE);
    if (initialize(m, m[T]) != STEP_OK)
        return report(fmu, fmi2Error, "%s is not finite at the start, t = %g s", first_not_finite(m), m[T]);
    store(fmu->now.m, m, SIZE);
    fmu->now.mode = STEPPING;
    return fmi2OK;
}

fmi2Status fmi2Terminate(fmi2Component c)
{
    Instance *fmu = c;
    if (!allowed(fmu, "fmi2Terminate", STEPPING | FAILED))
        return fmi2Error;
    fmu->now.mode = TERMINATED;
    return fmi2OK;
}

fmi2Status fmi2Reset(fmi2Component c)
{
    Instance *fmu = c;
    if (!allowed(fmu, "fmi2Reset", ANY))
        return fmi2Error;
    restart(fmu);
    return fmi2OK;
}

static int step_allowed(const Instance *fmu, double t, double dt)
{
    const double now = fmu->now.m[T], stop = fmu->now.stop_time;
    const double rounding = 1e-6 * dt + 4.0 * DBL_EPSILON * fabs(now); /* hosts count time in their own ways */
    if (!(dt > 0.0) || !isfinite(dt))
        report(fmu, fmi2Error, "the step must be positive, not %g s", dt);
    else if (!(fabs(t - now) <= rounding))
        report(fmu, fmi2Error, "the communication point %.15g s is not the time %.15g s of the FMU", t, now);
    else if (dt / INNER_STEP > INT_MAX)
        report(fmu, fmi2Error, "the step of %g s has too many inner steps of %g s", dt, INNER_STEP);
    else if (t + dt > stop + rounding)
        report(fmu, fmi2Error, "the step to %.15g s is beyond the stop time %.15g s", t + dt, stop);
    else
        return 1;
    return 0;
}

fmi2Status fmi2DoStep(fmi2Component c, fmi2Real t, fmi2Real dt, fmi2Boolean no_state_set_before)
{
    Instance *fmu = c;
    double before[SIZE];
    const char *culprit;
    (void)no_state_set_before;
    if (!allowed(fmu, "fmi2DoStep", STEPPING) || !step_allowed(fmu, t, dt))
        return fmi2Error;
    store(before, fmu->now.m, SIZE);
    switch (step(fmu->now.m, t, dt)) {
    case STEP_OK:
        return fmi2OK;
    case STEP_DOES_NOT_FIT:
        return report(fmu, fmi2Error, "the step %g s does not fit the sample time %g s: one must be a multiple of the other",
                      dt, SAMPLE_TIME);
    default:
        culprit = first_not_finite(fmu->now.m);
        store(fmu->now.m, before, SIZE);
        fmu->now.mode = FAILED;
        return report(fmu, fmi2Discard, "%s is not finite at t = %g s: the step of %g s is undone", culprit, t + dt, dt);
    }
}

/* ---- status ---- */

static fmi2Status no_status(const Instance *fmu, const char *function, fmi2StatusKind kind)
{
    if (!allowed(fmu, function, STEPPING | FAILED | TERMINATED))
        return fmi2Error;
    return report(fmu, fmi2Discard, "%s: there is no status of kind %d", function, (int)kind);
}

fmi2Status fmi2GetRealStatus(fmi2Component c, const fmi2StatusKind kind, fmi2Real *value)
{
    const Instance *fmu = c;
    if (kind != fmi2LastSuccessfulTime)
        return no_status(fmu, "fmi2GetRealStatus", kind);
    if (!allowed(fmu, "fmi2GetRealStatus", STEPPING | FAILED | TERMINATED))
        return fmi2Error;
    *value = fmu->now.m[T];
    return fmi2OK;
}

/* A block never asks for the end of the simulation. */
fmi2Status fmi2GetBooleanStatus(fmi2Component c, const fmi2StatusKind kind, fmi2Boolean *value)
{
    const Instance *fmu = c;
    if (kind != fmi2Terminated)
        return no_status(fmu, "fmi2GetBooleanStatus", kind);
    if (!allowed(fmu, "fmi2GetBooleanStatus", STEPPING | FAILED | TERMINATED))
        return fmi2Error;
    *value = fmi2False;
    return fmi2OK;
}

/* ---- values ---- */

/* In initialization mode, the values that the run would start with. */
fmi2Status fmi2GetReal(fmi2Component c, const fmi2ValueReference vr[], size_t n, fmi2Real value[])
{
    const Instance *fmu = c;
    double started[SIZE];
    if (!allowed(fmu, "fmi2GetReal", INITIALIZATION | STEPPING | FAILED | TERMINATED) || !known(fmu, "fmi2GetReal", vr, n))
        return fmi2Error;
    const int starting = fmu->now.mode == INITIALIZATION;
    const double *m = starting ? started : fmu->now.m;
    if (starting) {
        store(started, fmu->now.m, SIZE);
        initialize(started, started[T]);
    }
    for (size_t i = 0; i < n; i++)
        if (!isfinite(m[vr[i]]))
            return report(fmu, fmi2Error, "%s is not finite at the start, t = %g s", NAMES[vr[i]], m[T]);
    for (size_t i = 0; i < n; i++)
        value[i] = m[vr[i]];
    return fmi2OK;
}

static int settable(const Instance *fmu, fmi2ValueReference vr, double value)
{
    if (SETTABLE[vr] == NEVER)
        report(fmu, fmi2Error, "%s is computed and cannot be set", NAMES[vr]);
    else if (!(SETTABLE_IN[SETTABLE[vr]] & fmu->now.mode))
        report(fmu, fmi2Error, "%s has a start value, which cannot be set %s", NAMES[vr], mode_name(fmu->now.mode));
    else if (!isfinite(value))
        report(fmu, fmi2Error, "%s must be finite, not %g", NAMES[vr], value);
    else
        return 1;
    return 0;
}

fmi2Status fmi2SetReal(fmi2Component c, const fmi2ValueReference vr[], size_t n, const fmi2Real value[])
{
    Instance *fmu = c;
    if (!allowed(fmu, "fmi2SetReal", BEFORE_THE_RUN | STEPPING) || !known(fmu, "fmi2SetReal", vr, n))
        return fmi2Error;
    for (size_t i = 0; i < n; i++)
        if (!settable(fmu, vr[i], value[i]))
            return fmi2Error;
    for (size_t i = 0; i < n; i++)
        fmu->now.m[vr[i]] = value[i];
    return fmi2OK;
}

#include "fmi2_saved.h"
#include "fmi2_unused.h"
