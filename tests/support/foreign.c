/* An FMI 2.0 co-simulation FMU as others write them: it insists on the order of calls, writes the name of each into
   TRACE, and does in a step what STEP says and at the end what END says. Real variables are r[value reference], those
   of types Integer and Boolean n[value reference]. */

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fmi2Functions.h"

enum { INSTANTIATED = 1, INITIALIZING = 2, RUNNING = 4, TERMINATED = 8, FAILED = 16, LOST = 32 };

typedef struct {
    fmi2CallbackFunctions callbacks;
    fmi2ComponentEnvironment environment;
    char name[64];
    int mode, set_up, steps;
    double t, dt, r[16];
    int n[16];
} Instance;

static void trace(const char *function)
{
    FILE *file = fopen(TRACE, "a");
    fprintf(file, "%s\n", function);
    fclose(file);
}

static void say(Instance *i, fmi2Status status, const char *text)
{
    i->callbacks.logger(i->callbacks.componentEnvironment, i->name, status, "log", text);
}

static fmi2Status called(Instance *i, const char *function, int modes)
{
    trace(function);
    if (i->mode & modes)
        return fmi2OK;
    if (i->mode == LOST) /* nothing may be called after fmi2Fatal */
        trace("called after fmi2Fatal");
    say(i, fmi2Error, "Illegal call sequence.");
    i->mode = i->mode == LOST ? LOST : FAILED;
    return fmi2Error;
}

static fmi2Status result(Instance *i, int status)
{
    i->mode = status == fmi2Fatal ? LOST : status == fmi2Error ? FAILED : i->mode;
    return (fmi2Status)status;
}

const char *fmi2GetTypesPlatform(void) { return fmi2TypesPlatform; }
const char *fmi2GetVersion(void) { return fmi2Version; }
fmi2Status fmi2SetDebugLogging(fmi2Component c, fmi2Boolean on, size_t n, const fmi2String categories[])
{
    (void)c, (void)on, (void)n, (void)categories;
    return fmi2OK;
}
fmi2Component fmi2Instantiate(fmi2String name, fmi2Type type, fmi2String guid, fmi2String location,
                              const fmi2CallbackFunctions *callbacks, fmi2Boolean visible, fmi2Boolean logging)
{
    (void)type, (void)guid, (void)location, (void)visible, (void)logging;
    Instance *i = calloc(1, sizeof(Instance));
    i->callbacks = *callbacks;
    snprintf(i->name, sizeof i->name, "%s", name);
    i->mode = INSTANTIATED;
    START
    trace("instantiate");
    return i;
}
void fmi2FreeInstance(fmi2Component c)
{
    Instance *i = c;
    called(i, "free", ~LOST);
    free(i);
}
fmi2Status fmi2SetupExperiment(fmi2Component c, fmi2Boolean toleranceDefined, fmi2Real tolerance, fmi2Real startTime,
                               fmi2Boolean stopTimeDefined, fmi2Real stopTime)
{
    (void)toleranceDefined, (void)tolerance, (void)stopTimeDefined, (void)stopTime;
    Instance *i = c;
    i->t = startTime;
    i->set_up = 1;
    return called(i, "setup", INSTANTIATED);
}
fmi2Status fmi2EnterInitializationMode(fmi2Component c)
{
    Instance *i = c;
    const fmi2Status status = called(i, "enter", i->set_up ? INSTANTIATED : 0);
    if (status == fmi2OK)
        i->mode = INITIALIZING;
    return status;
}
fmi2Status fmi2ExitInitializationMode(fmi2Component c)
{
    Instance *i = c;
    const fmi2Status status = called(i, "exit", INITIALIZING);
    if (status == fmi2OK)
        i->mode = RUNNING;
    return status;
}
fmi2Status fmi2Terminate(fmi2Component c)
{
    Instance *i = c;
    fmi2Status status = called(i, "terminate", RUNNING);
    if (status == fmi2OK)
        i->mode = TERMINATED;
    END
    return result(i, status);
}
fmi2Status fmi2Reset(fmi2Component c)
{
    Instance *i = c;
    i->mode = INSTANTIATED;
    return fmi2OK;
}
fmi2Status fmi2DoStep(fmi2Component c, fmi2Real t, fmi2Real dt, fmi2Boolean noSetFMUStatePriorToCurrentPoint)
{
    (void)noSetFMUStatePriorToCurrentPoint;
    Instance *i = c;
    int status = called(i, "step", RUNNING);
    i->t = t, i->dt = dt, i->steps++;
    STEP
    return result(i, status);
}
fmi2Status fmi2CancelStep(fmi2Component c) { return called(c, "cancel", 0); }
#define MOVED(type, place)                                                                                             \
    fmi2Status fmi2Get##type(fmi2Component c, const fmi2ValueReference vr[], size_t n, fmi2##type value[])             \
    {                                                                                                                  \
        Instance *i = c;                                                                                               \
        for (size_t k = 0; k < n; k++)                                                                                 \
            value[k] = i->place[vr[k]];                                                                                \
        return i->mode & (INITIALIZING | RUNNING | TERMINATED) ? fmi2OK : called(i, "get", INITIALIZING | RUNNING);    \
    }                                                                                                                  \
    fmi2Status fmi2Set##type(fmi2Component c, const fmi2ValueReference vr[], size_t n, const fmi2##type value[])       \
    {                                                                                                                  \
        Instance *i = c;                                                                                               \
        for (size_t k = 0; k < n; k++)                                                                                 \
            i->place[vr[k]] = value[k];                                                                                \
        return i->mode & (INSTANTIATED | INITIALIZING | RUNNING) ? fmi2OK : called(i, "set", INITIALIZING | RUNNING);  \
    }
MOVED(Real, r)
MOVED(Integer, n)
MOVED(Boolean, n)
#define UNUSED(function, ...) \
    fmi2Status function(fmi2Component c, __VA_ARGS__) { return called(c, #function, 0); }
UNUSED(fmi2GetString, const fmi2ValueReference vr[], size_t n, fmi2String value[])
UNUSED(fmi2SetString, const fmi2ValueReference vr[], size_t n, const fmi2String value[])
UNUSED(fmi2DeSerializeFMUstate, const fmi2Byte s[], size_t n, fmi2FMUstate *state)
UNUSED(fmi2SerializedFMUstateSize, fmi2FMUstate state, size_t *n)
UNUSED(fmi2SerializeFMUstate, fmi2FMUstate state, fmi2Byte s[], size_t n)
UNUSED(fmi2GetDirectionalDerivative, const fmi2ValueReference a[], size_t na, const fmi2ValueReference b[], size_t nb,
       const fmi2Real d[], fmi2Real e[])
UNUSED(fmi2SetRealInputDerivatives, const fmi2ValueReference vr[], size_t n, const fmi2Integer o[], const fmi2Real v[])
UNUSED(fmi2GetRealOutputDerivatives, const fmi2ValueReference vr[], size_t n, const fmi2Integer o[], fmi2Real v[])
UNUSED(fmi2GetStatus, const fmi2StatusKind s, fmi2Status *v)
UNUSED(fmi2GetRealStatus, const fmi2StatusKind s, fmi2Real *v)
UNUSED(fmi2GetIntegerStatus, const fmi2StatusKind s, fmi2Integer *v)
UNUSED(fmi2GetBooleanStatus, const fmi2StatusKind s, fmi2Boolean *v)
UNUSED(fmi2GetStringStatus, const fmi2StatusKind s, fmi2String *v)
fmi2Status fmi2GetFMUstate(fmi2Component c, fmi2FMUstate *state)
{
    *state = *state ? *state : malloc(sizeof(Instance));
    memcpy(*state, c, sizeof(Instance));
    return fmi2OK;
}
fmi2Status fmi2SetFMUstate(fmi2Component c, fmi2FMUstate state)
{
    memcpy(c, state, sizeof(Instance));
    return fmi2OK;
}
fmi2Status fmi2FreeFMUstate(fmi2Component c, fmi2FMUstate *state)
{
    (void)c;
    free(*state);
    *state = NULL;
    return fmi2OK;
}
