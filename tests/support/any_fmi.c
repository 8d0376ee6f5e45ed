/* A model as an FMU of FMI 2.0 and 3.0, for model exchange and co-simulation: FMI is 2 or 3, and the model is what MODEL
   says. A variable is v[value reference], or text[value reference]; SIZE has the lengths of arrays, X the value
   references of the continuous states, and the model has the functions `start`, `rates`, `indicators` and `update`, and
   `refuses` for values that it cannot give. In co-simulation it takes Euler steps of at most H and handles its own events, unless the importer does. */

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if FMI == 2
#include "fmi2FunctionTypes.h"
#define NAME(function) fmi2##function
typedef fmi2ValueReference Reference;
typedef const char *Text;
#else
#include "fmi3FunctionTypes.h"
#define NAME(function) fmi3##function
typedef fmi3ValueReference Reference;
typedef const char *Text;
#endif
#define EXPORT __attribute__((visibility("default")))
enum { OK = 0, ERROR = 3, REFERENCES = 40 };

typedef struct {
    long double v[REFERENCES][ELEMENTS]; /* holds what a double and each integer of 64 bits hold */
    char text[REFERENCES][64], folder[512]; /* of the resources */
    size_t length[REFERENCES];
    double t, next, tolerance; /* -1 if the importer defines none */
    double completed; /* time of the last completed integrator step */
    double stop; /* INFINITY if the importer defines none */
    bool clock[REFERENCES], early, hosted, ends, changed, rescaled, configures, initialized;
    bool steps; /* 1 in continuous-time mode, and in the step mode that follows event mode */
    int updates;
} Model;

MODEL

enum { NX = sizeof(X) / sizeof(X[0]) - 1, NZ = INDICATORS };

static void get_x(const Model *m, double *x)
{
    for (int k = 0, j = 0; k < NX; k++)
        for (int i = 0; i < size(m, X[k]); i++)
            x[j++] = (double)m->v[X[k]][i];
}
static void put_x(Model *m, const double *x)
{
    for (int k = 0, j = 0; k < NX; k++)
        for (int i = 0; i < size(m, X[k]); i++)
            m->v[X[k]][i] = x[j++];
}
static bool is_after_stop(const Model *m, double t) { return STRICT_END && t > m->stop; }
static bool is_early_parameter(const Model *m, Reference r) { return STRICT_PARAMETERS && m->steps && is_parameter(r); }
static int states(const Model *m)
{
    int n = 0;
    for (int k = 0; k < NX; k++)
        n += size(m, X[k]);
    return n;
}
static void event(Model *m)
{
    m->next = INFINITY;
    update(m);
    m->updates++;
}
static bool crossed(Model *m, const double *before)
{
    double z[NZ + 1], dx[ELEMENTS];
    rates(m, dx);
    indicators(m, z);
    for (int k = 0; k < NZ; k++)
        if ((before[k] > 0) != (z[k] > 0))
            return true;
    return false;
}
/* to t + dt, or where the importer handles events to the first of them */
static bool co_simulate(Model *m, double t, double dt)
{
    const int n = (int)ceil(dt / H - 1e-9);
    for (int k = 0; k < n; k++) {
        double x[ELEMENTS], dx[ELEMENTS], z[NZ + 1];
        rates(m, dx);
        indicators(m, z);
        get_x(m, x);
        for (int i = 0; i < states(m); i++)
            x[i] += dt / n * dx[i];
        put_x(m, x);
        m->t = t + (k + 1) * (dt / n);
        if (crossed(m, z) || m->next <= m->t + 1e-9) {
            if (m->hosted)
                return true;
            event(m);
        }
        if (m->ends)
            return false;
    }
    m->t = t + dt;
    return false;
}
static void *made(const char *folder)
{
    Model *m = calloc(1, sizeof(Model));
    snprintf(m->folder, sizeof m->folder, "%s", folder + (strncmp(folder, "file://", 7) ? 0 : 7));
    m->next = m->stop = INFINITY, m->completed = -INFINITY;
    start(m);
    return m;
}
static int copied(void *c, void **state)
{
    *state = *state ? *state : malloc(sizeof(Model));
    memcpy(*state, c, sizeof(Model));
    return OK;
}

#if FMI == 2
#define COUNTED
#define MOVED(type, kind)                                                                                              \
    EXPORT int fmi2Get##type(Model *m, const Reference *r, size_t n, kind *value)                                      \
    {                                                                                                                  \
        double dx[ELEMENTS];                                                                                           \
        rates(m, dx);                                                                                                  \
        for (size_t k = 0; k < n; k++) {                                                                               \
            if (refuses(m, r[k]))                                                                                      \
                return ERROR;                                                                                          \
            value[k] = (kind)m->v[r[k]][0];                                                                            \
        }                                                                                                              \
        return OK;                                                                                                     \
    }                                                                                                                  \
    EXPORT int fmi2Set##type(Model *m, const Reference *r, size_t n, const kind *value)                                \
    {                                                                                                                  \
        for (size_t k = 0; k < n; k++) {                                                                               \
            if (is_early_parameter(m, r[k]))                                                                           \
                return ERROR;                                                                                          \
            m->v[r[k]][0] = value[k];                                                                                  \
        }                                                                                                              \
        return OK;                                                                                                     \
    }
MOVED(Real, double)
MOVED(Integer, int)
MOVED(Boolean, int)
#else
#define COUNTED , size_t values
#define MOVED(type, kind)                                                                                              \
    EXPORT int fmi3Get##type(Model *m, const Reference *r, size_t n, kind *value, size_t values)                       \
    {                                                                                                                  \
        double dx[ELEMENTS];                                                                                           \
        size_t j = 0;                                                                                                  \
        rates(m, dx);                                                                                                  \
        for (size_t k = 0; k < n; k++) {                                                                               \
            if (refuses(m, r[k]))                                                                                      \
                return ERROR;                                                                                          \
            for (int i = 0; i < size(m, r[k]); i++)                                                                       \
                value[j++] = (kind)m->v[r[k]][i];                                                                      \
        }                                                                                                              \
        return j == values ? OK : ERROR;                                                                               \
    }                                                                                                                  \
    EXPORT int fmi3Set##type(Model *m, const Reference *r, size_t n, const kind *value, size_t values)                 \
    {                                                                                                                  \
        size_t j = 0;                                                                                                  \
        for (size_t k = 0; k < n; k++) {                                                                               \
            if (is_early_parameter(m, r[k]) || (is_structural(r[k]) && !m->configures))                              \
                return ERROR;                                                                                          \
            for (int i = 0; i < size(m, r[k]); i++)                                                                    \
                m->v[r[k]][i] = value[j++];                                                                            \
        }                                                                                                              \
        return j == values ? OK : ERROR;                                                                               \
    }
MOVED(Float64, double)
MOVED(Float32, float)
MOVED(Int8, int8_t)
MOVED(UInt8, uint8_t)
MOVED(Int16, int16_t)
MOVED(UInt16, uint16_t)
MOVED(Int32, int32_t)
MOVED(UInt32, uint32_t)
MOVED(Int64, int64_t)
MOVED(UInt64, uint64_t)
MOVED(Boolean, bool)
EXPORT int fmi3GetBinary(Model *m, const Reference *r, size_t n, size_t *sizes, const uint8_t **value, size_t values)
{
    double dx[ELEMENTS];
    rates(m, dx);
    for (size_t k = 0; k < n; k++)
        sizes[k] = m->length[r[k]], value[k] = (const uint8_t *)m->text[r[k]];
    return n == values ? OK : ERROR;
}
EXPORT int fmi3SetBinary(Model *m, const Reference *r, size_t n, const size_t *sizes, const uint8_t **value, size_t values)
{
    for (size_t k = 0; k < n; k++)
        memcpy(m->text[r[k]], value[k], m->length[r[k]] = sizes[k]);
    return n == values ? OK : ERROR;
}
EXPORT int fmi3GetClock(Model *m, const Reference *r, size_t n, bool *value)
{
    for (size_t k = 0; k < n; k++)
        value[k] = m->clock[r[k]], m->clock[r[k]] = false;
    return OK;
}
EXPORT int fmi3SetClock(Model *m, const Reference *r, size_t n, const bool *value)
{
    for (size_t k = 0; k < n; k++)
        m->clock[r[k]] = value[k];
    return OK;
}
EXPORT int fmi3SetIntervalDecimal(Model *m, const Reference *r, size_t n, const double *value)
{
    for (size_t k = 0; k < n; k++)
        m->v[r[k]][0] = value[k];
    return OK;
}
EXPORT int fmi3GetIntervalDecimal(Model *m, const Reference *r, size_t n, double *value, int *qualifier)
{
    for (size_t k = 0; k < n; k++)
        qualifier[k] = interval(m, r[k], &value[k]);
    return OK;
}
#endif
EXPORT int NAME(GetString)(Model *m, const Reference *r, size_t n, Text *value COUNTED)
{
    double dx[ELEMENTS];
    rates(m, dx);
    for (size_t k = 0; k < n; k++)
        value[k] = m->text[r[k]];
    return OK;
}
EXPORT int NAME(SetString)(Model *m, const Reference *r, size_t n, const Text *value COUNTED)
{
    for (size_t k = 0; k < n; k++)
        snprintf(m->text[r[k]], sizeof m->text[0], "%s", value[k]);
    return OK;
}
EXPORT int NAME(SetTime)(Model *m, double t) 
{
    m->t = t;
    return is_after_stop(m, t) || (MONOTONIC && t < m->completed) ? ERROR : OK;
}
EXPORT int NAME(SetContinuousStates)(Model *m, const double *x, size_t n) { put_x(m, x); return (int)n == states(m) ? OK : ERROR; }
EXPORT int NAME(GetContinuousStates)(Model *m, double *x, size_t n) { get_x(m, x); return (int)n == states(m) ? OK : ERROR; }
EXPORT int NAME(GetNominalsOfContinuousStates)(Model *m, double *x, size_t n)
{
    for (size_t k = 0; k < n; k++)
        x[k] = nominal(m);
    return OK;
}
EXPORT int NAME(GetEventIndicators)(Model *m, double *z, size_t n) { (void)n; indicators(m, z); return OK; }
EXPORT int NAME(EnterEventMode)(Model *m)
{
    m->updates = 0, m->steps = false;
    if (m->hosted && REFUSES_ENTRY) {
        m->hosted = false; /* handles its events itself */
        event(m);
        return ERROR;
    }
    return OK;
}
EXPORT int NAME(EnterContinuousTimeMode)(Model *m) { m->steps = true; return OK; }
EXPORT int NAME(Terminate)(Model *m) { (void)m; return OK; }
EXPORT int NAME(Reset)(Model *m) { m->initialized = m->steps = false; m->completed = -INFINITY; start(m); return OK; }
EXPORT void NAME(FreeInstance)(Model *m) { free(m); }

#if FMI == 2
EXPORT void *fmi2Instantiate(fmi2String name, fmi2Type type, fmi2String guid, fmi2String location,
                             const fmi2CallbackFunctions *callbacks, fmi2Boolean visible, fmi2Boolean logging)
{
    (void)name, (void)type, (void)guid, (void)callbacks, (void)visible, (void)logging;
    return made(location);
}
EXPORT const char *fmi2GetVersion(void) { return "2.0"; }
EXPORT const char *fmi2GetTypesPlatform(void) { return "default"; }
EXPORT int fmi2SetupExperiment(Model *m, int a, double b, double t, int c, double d)
{
    m->t = t, m->tolerance = a ? b : -1.0, m->stop = c ? d : INFINITY;
    return OK;
}
EXPORT int fmi2EnterInitializationMode(Model *m) { (void)m; return OK; }
EXPORT int fmi2ExitInitializationMode(Model *m) { event(m); return OK; }
EXPORT int fmi2NewDiscreteStates(Model *m, fmi2EventInfo *info)
{
    m->changed = m->rescaled = false;
    event(m);
    *info = (fmi2EventInfo){m->updates < UPDATES, m->ends, m->rescaled, m->changed, is_timed(m), m->next};
    return OK;
}
EXPORT int fmi2CompletedIntegratorStep(Model *m, int prior, int *enter, int *ends)
{
    (void)prior;
    m->completed = m->t, *enter = 0, *ends = m->ends;
    return OK;
}
EXPORT int fmi2GetDerivatives(Model *m, double *dx, size_t n) { (void)n; rates(m, dx); return discards(m) ? 2 : OK; }
EXPORT int fmi2DoStep(Model *m, double t, double dt, int prior)
{
    (void)prior;
    if (is_after_stop(m, t + dt))
        return ERROR;
    co_simulate(m, t, dt);
    return m->ends ? 2 : OK;
}
EXPORT int fmi2GetFMUstate(void *m, void **state) { return copied(m, state); }
EXPORT int fmi2SetFMUstate(void *m, void *state) { memcpy(m, state, sizeof(Model)); return OK; }
EXPORT int fmi2FreeFMUstate(void *m, void **state) { (void)m; free(*state); *state = NULL; return OK; }
EXPORT int fmi2GetBooleanStatus(Model *m, int kind, int *value) { (void)kind; *value = m->ends; return OK; }
EXPORT int fmi2GetRealStatus(Model *m, int kind, double *value) { (void)kind; *value = m->t; return OK; }
#else
EXPORT void *fmi3InstantiateModelExchange(const char *name, const char *token, const char *path)
{
    (void)name, (void)token;
    return made(path);
}
EXPORT void *fmi3InstantiateCoSimulation(const char *name, const char *token, const char *path, bool visible, bool logging,
                                         bool hosted, bool early)
{
    (void)name, (void)token, (void)visible, (void)logging;
    if (hosted && REFUSES_MADE)
        return NULL;
    Model *m = made(path);
    m->hosted = hosted, m->early = early;
    return m;
}
EXPORT void *fmi3InstantiateScheduledExecution(const char *name, const char *token, const char *path)
{
    (void)name, (void)token;
    Model *m = made(path);
    m->hosted = true; /* the importer runs the partitions, also at the start */
    return m;
}
EXPORT int fmi3ActivateModelPartition(Model *m, Reference clock, double t)
{
    m->t = t, m->clock[clock] = true;
    event(m);
    return OK;
}
EXPORT const char *fmi3GetVersion(void) { return "3.0"; }
EXPORT int fmi3EnterConfigurationMode(Model *m) { m->configures = true; return m->initialized ? ERROR : OK; }
EXPORT int fmi3ExitConfigurationMode(Model *m) { m->configures = false; return OK; }
EXPORT int fmi3EnterInitializationMode(Model *m, bool a, double b, double t, bool c, double d)
{
    m->t = t, m->tolerance = a ? b : -1.0, m->stop = c ? d : INFINITY, m->initialized = true;
    return OK;
}
EXPORT int fmi3ExitInitializationMode(Model *m) { if (!m->hosted) event(m); return OK; }
EXPORT int fmi3EnterStepMode(Model *m) { m->steps = true; return OK; }
EXPORT int fmi3UpdateDiscreteStates(Model *m, bool *again, bool *ends, bool *nominals, bool *values, bool *timed, double *next)
{
    m->changed = m->rescaled = false;
    event(m);
    *again = m->updates < UPDATES, *ends = m->ends, *nominals = m->rescaled, *values = m->changed;
    *timed = is_timed(m), *next = m->next;
    return OK;
}
EXPORT int fmi3CompletedIntegratorStep(Model *m, bool prior, bool *enter, bool *ends)
{
    (void)prior;
    m->completed = m->t, *enter = false, *ends = m->ends;
    return OK;
}
EXPORT int fmi3GetContinuousStateDerivatives(Model *m, double *dx, size_t n) { (void)n; rates(m, dx); return discards(m) ? 2 : OK; }
EXPORT int fmi3GetNumberOfContinuousStates(Model *m, size_t *n) { (void)m; *n = (size_t)states(m); return OK; }
EXPORT int fmi3GetNumberOfEventIndicators(Model *m, size_t *n) { (void)m; *n = NZ; return OK; }
EXPORT int fmi3DoStep(Model *m, double t, double dt, bool prior, bool *event, bool *ends, bool *early, double *last)
{
    (void)prior;
    if (is_after_stop(m, t + dt))
        return ERROR;
    *event = co_simulate(m, t, dt);
    *ends = m->ends, *last = m->t, *early = *event && m->t < t + dt - 1e-12;
    return OK;
}
EXPORT int fmi3GetFMUState(void *m, void **state) { return copied(m, state); }
EXPORT int fmi3SetFMUState(void *m, void *state) { memcpy(m, state, sizeof(Model)); return OK; }
EXPORT int fmi3FreeFMUState(void *m, void **state) { (void)m; free(*state); *state = NULL; return OK; }
#endif
/* what no test calls, and hosts look for all the same */
#define MISSING(function) EXPORT int NAME(function)(void) { return ERROR; }
MISSING(SetDebugLogging)
#if FMI == 2
#define LENGTH(n)
#else
#define LENGTH(n) , size_t n
#endif
/* only of all derivatives with respect to all states */
EXPORT int NAME(GetDirectionalDerivative)(Model *m, const Reference *unknown, size_t n, const Reference *known, size_t k,
                                          const double *seed LENGTH(seeds), double *found LENGTH(values))
{
    (void)unknown;
    if (n != NX || k != NX || known[0] != X[0])
        return ERROR;
    m->v[REFERENCES - 1][0]++;
    tangent(m, seed, found);
    return OK;
}
#if FMI == 2
MISSING(CancelStep) MISSING(DeSerializeFMUstate) MISSING(GetIntegerStatus) MISSING(GetRealOutputDerivatives)
MISSING(GetStatus) MISSING(GetStringStatus) MISSING(SerializeFMUstate) MISSING(SerializedFMUstateSize)
MISSING(SetRealInputDerivatives)
#else
MISSING(DeserializeFMUState) MISSING(EvaluateDiscreteStates) MISSING(GetAdjointDerivative)
MISSING(GetIntervalFraction) MISSING(GetNumberOfVariableDependencies) MISSING(GetOutputDerivatives)
MISSING(GetShiftDecimal) MISSING(GetShiftFraction) MISSING(GetVariableDependencies)
MISSING(SerializeFMUState) MISSING(SerializedFMUStateSize)
MISSING(SetIntervalFraction) MISSING(SetShiftDecimal) MISSING(SetShiftFraction)
#endif
