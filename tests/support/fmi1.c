/* An FMI 1.0 FMU, for co-simulation if SLAVE is 1, otherwise for model exchange. It rejects calls in the wrong order.
   Variables are r[value reference] for Real, n for Integer and Enumeration, b for Boolean, s for String. MODEL defines
   the functions below it, the numbers NX of states and NZ of event indicators, and the value references X of states. */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fmi1Functions.h"

#define JOIN(a, b) a##_fmi##b
#define JOINED(a, b) JOIN(a, b)
#define NAME(function) JOINED(IDENTIFIER, function)
enum { INSTANTIATED = 1, INITIALIZED = 2, TERMINATED = 4, N = 16 };

typedef struct {
    fmi1CallbackFunctions callbacks;
    char name[64], location[512], mime[64];
    int mode, n[N], initialized, updates;
    double t, r[N], tolerance, stop; /* stop is -1 if the importer defines none */
    char b[N], s[N][64];
    fmi1EventInfo event;
} Model;

static void start(Model *m);
static void initialize(Model *m);
static void rates(Model *m, double *dx);
static void indicators(Model *m, double *z);
static void update(Model *m); /* at an event; sets m->event */
static int step_event(Model *m);
static int step(Model *m, double dt); /* of a slave; returns a status */

MODEL

static fmi1Status called(Model *m, const char *function, int modes)
{
    if (m->mode & modes)
        return fmi1OK;
    m->callbacks.logger(m, m->name, fmi1Error, "log", "%s is illegal in mode %d", function,
                        m->mode);
    return fmi1Error;
}
static void evaluate(Model *m)
{
    double dx[NX + 1];
    if (m->mode == INITIALIZED)
        rates(m, dx);
}
#define CALLED(function, modes)      \
    Model *m = c;                    \
    if (called(m, #function, modes)) \
    return fmi1Error

#pragma GCC visibility push(default)
const char *NAME(GetVersion)(void)
{
    return "1.0";
}
fmi1Status NAME(SetDebugLogging)(fmi1Component c, fmi1Boolean on)
{
    (void)c, (void)on;
    return fmi1OK;
}

#define ACCESS(TYPE, READ, WRITE)                                                            \
    fmi1Status NAME(Get##TYPE)(fmi1Component c, const fmi1ValueReference vr[], size_t count, \
                               fmi1##TYPE value[])                                           \
    {                                                                                        \
        CALLED(Get##TYPE, INITIALIZED | TERMINATED | READS_EARLY * INSTANTIATED);            \
        evaluate(m);                                                                         \
        for (size_t k = 0; k < count; k++)                                                   \
            READ;                                                                            \
        return fmi1OK;                                                                       \
    }                                                                                        \
    fmi1Status NAME(Set##TYPE)(fmi1Component c, const fmi1ValueReference vr[], size_t count, \
                               const fmi1##TYPE value[])                                     \
    {                                                                                        \
        CALLED(Set##TYPE, INSTANTIATED | INITIALIZED);                                       \
        for (size_t k = 0; k < count; k++)                                                   \
            WRITE;                                                                           \
        return fmi1OK;                                                                       \
    }
ACCESS(Real, value[k] = m->r[vr[k]], m->r[vr[k]] = value[k])
ACCESS(Integer, value[k] = m->n[vr[k]], m->n[vr[k]] = value[k])
ACCESS(Boolean, value[k] = m->b[vr[k]], m->b[vr[k]] = value[k])
ACCESS(String, value[k] = m->s[vr[k]], snprintf(m->s[vr[k]], 64, "%s", value[k]))

static Model *instantiated(fmi1String name, fmi1String guid, fmi1CallbackFunctions callbacks)
{
    if (strcmp(guid, "{1}") != 0) {
        callbacks.logger(NULL, name, fmi1Error, "log", "the guid is %s", guid);
        return NULL;
    }
    Model *m = callbacks.allocateMemory(1, sizeof *m);
    m->callbacks = callbacks, m->mode = INSTANTIATED;
    snprintf(m->name, sizeof m->name, "%s", name);
    callbacks.logger(m, name, fmi1OK, "log", "%s has the guid %s", name, guid);
    start(m);
    return m;
}

static void enter(Model *m)
{
    m->mode = INITIALIZED, m->initialized++;
    initialize(m);
}

#if SLAVE
const char *NAME(GetTypesPlatform)(void)
{
    return "standard32";
}
fmi1Component NAME(InstantiateSlave)(fmi1String name, fmi1String guid, fmi1String location,
                                     fmi1String mime, fmi1Real timeout, fmi1Boolean visible,
                                     fmi1Boolean interactive, fmi1CallbackFunctions callbacks,
                                     fmi1Boolean log)
{
    (void)log;
    Model *m = instantiated(name, guid, callbacks);
    (void)timeout, (void)visible, (void)interactive;
    if (m == NULL)
        return NULL;
    snprintf(m->location, sizeof m->location, "%s", location);
    snprintf(m->mime, sizeof m->mime, "%s", mime);
    return m;
}
fmi1Status NAME(InitializeSlave)(fmi1Component c, fmi1Real t, fmi1Boolean stops, fmi1Real stop)
{
    CALLED(InitializeSlave, INSTANTIATED);
    m->stop = stops ? stop : -1.0;
    m->t = t;
    enter(m);
    return fmi1OK;
}
fmi1Status NAME(DoStep)(fmi1Component c, fmi1Real t, fmi1Real dt, fmi1Boolean new)
{
    CALLED(DoStep, INITIALIZED);
    if (!new || fabs(t - m->t) > 1e-9)
        return fmi1Error;
    const int status = step(m, dt);
    m->t = t + dt;
    return (fmi1Status)status;
}
fmi1Status NAME(SetRealInputDerivatives)(fmi1Component c, const fmi1ValueReference vr[], size_t n,
                                         const fmi1Integer order[], const fmi1Real value[])
{
    CALLED(SetRealInputDerivatives, INITIALIZED);
    for (size_t k = 0; k < n; k++)
        m->r[(int)vr[k] + 8 * order[k]] = value[k];
    return fmi1OK;
}
fmi1Status NAME(TerminateSlave)(fmi1Component c)
{
    CALLED(TerminateSlave, INITIALIZED);
    m->mode = TERMINATED;
    return fmi1OK;
}
void NAME(FreeSlaveInstance)(fmi1Component c)
{
    ((Model *)c)->callbacks.freeMemory(c);
}
fmi1Status NAME(ResetSlave)(fmi1Component c)
{
    CALLED(ResetSlave, INSTANTIATED | INITIALIZED | TERMINATED);
    if (!RESETS)
        return fmi1Error;
    memset(m->r, 0, sizeof m->r), memset(m->n, 0, sizeof m->n), memset(m->b, 0, sizeof m->b);
    memset(m->s, 0, sizeof m->s);
    m->mode = INSTANTIATED, m->initialized = 0;
    start(m);
    return fmi1OK;
}
fmi1Status NAME(GetRealOutputDerivatives)(fmi1Component c, const fmi1ValueReference vr[], size_t n,
                                          const fmi1Integer order[], fmi1Real value[])
{
    (void)c, (void)vr, (void)n, (void)order, (void)value;
    return fmi1Error;
}
fmi1Status NAME(CancelStep)(fmi1Component c)
{
    return c ? fmi1Error : fmi1Fatal;
}
#define STATUS(TYPE, KIND)                                                              \
    fmi1Status NAME(Get##TYPE)(fmi1Component c, const fmi1StatusKind kind, KIND *value) \
    {                                                                                   \
        (void)c, (void)kind, (void)value;                                               \
        return fmi1Discard;                                                             \
    }
STATUS(Status, fmi1Status)
STATUS(RealStatus, fmi1Real)
STATUS(IntegerStatus, fmi1Integer)
STATUS(BooleanStatus, fmi1Boolean)
STATUS(StringStatus, fmi1String)
#else
const char *NAME(GetModelTypesPlatform)(void)
{
    return "standard32";
}
fmi1Component NAME(InstantiateModel)(fmi1String name, fmi1String guid,
                                     fmi1CallbackFunctions callbacks, fmi1Boolean log)
{
    (void)log;
    return instantiated(name, guid, callbacks);
}
void NAME(FreeModelInstance)(fmi1Component c)
{
    ((Model *)c)->callbacks.freeMemory(c);
}
fmi1Status NAME(SetTime)(fmi1Component c, fmi1Real t)
{
    CALLED(SetTime, INSTANTIATED | INITIALIZED);
    m->t = t;
    return fmi1OK;
}
static void event(Model *m, fmi1EventInfo *info)
{
    m->event = (fmi1EventInfo){.iterationConverged = 1};
    update(m);
    m->updates++;
    *info = m->event;
}
fmi1Status NAME(Initialize)(fmi1Component c, fmi1Boolean controlled, fmi1Real tolerance,
                            fmi1EventInfo *info)
{
    CALLED(Initialize, INSTANTIATED);
    m->tolerance = controlled ? tolerance : -1.0;
    enter(m);
    event(m, info);
    return fmi1OK;
}
fmi1Status NAME(EventUpdate)(fmi1Component c, fmi1Boolean intermediate, fmi1EventInfo *info)
{
    CALLED(EventUpdate, INITIALIZED);
    (void)intermediate;
    event(m, info);
    return fmi1OK;
}
fmi1Status NAME(CompletedIntegratorStep)(fmi1Component c, fmi1Boolean *calls)
{
    CALLED(CompletedIntegratorStep, INITIALIZED);
    *calls = (fmi1Boolean)step_event(m);
    return fmi1OK;
}
fmi1Status NAME(SetContinuousStates)(fmi1Component c, const fmi1Real x[], size_t n)
{
    CALLED(SetContinuousStates, INITIALIZED);
    for (size_t k = 0; k < n; k++)
        m->r[X[k]] = x[k];
    return n == NX ? fmi1OK : fmi1Error;
}
fmi1Status NAME(GetContinuousStates)(fmi1Component c, fmi1Real x[], size_t n)
{
    CALLED(GetContinuousStates, INITIALIZED);
    for (size_t k = 0; k < n; k++)
        x[k] = m->r[X[k]];
    return n == NX ? fmi1OK : fmi1Error;
}
fmi1Status NAME(GetNominalContinuousStates)(fmi1Component c, fmi1Real x[], size_t n)
{
    CALLED(GetNominalContinuousStates, INITIALIZED);
    for (size_t k = 0; k < n; k++)
        x[k] = 1.0;
    return n == NX ? fmi1OK : fmi1Error;
}
fmi1Status NAME(GetStateValueReferences)(fmi1Component c, fmi1ValueReference x[], size_t n)
{
    CALLED(GetStateValueReferences, INITIALIZED);
    for (size_t k = 0; k < n; k++)
        x[k] = X[k];
    return n == NX ? fmi1OK : fmi1Error;
}
fmi1Status NAME(GetDerivatives)(fmi1Component c, fmi1Real dx[], size_t n)
{
    CALLED(GetDerivatives, INITIALIZED);
    rates(m, dx);
    return n == NX ? fmi1OK : fmi1Error;
}
fmi1Status NAME(GetEventIndicators)(fmi1Component c, fmi1Real z[], size_t n)
{
    CALLED(GetEventIndicators, INITIALIZED);
    indicators(m, z);
    return n == NZ ? fmi1OK : fmi1Error;
}
fmi1Status NAME(Terminate)(fmi1Component c)
{
    CALLED(Terminate, INITIALIZED);
    m->mode = TERMINATED;
    return fmi1OK;
}
#endif
