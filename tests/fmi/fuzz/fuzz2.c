/* Random calls of an FMI 2.0 FMU:  fuzz2 CALLS SEED.  The fuzzer is in fuzz.h. */

#include "fmi2.c"

typedef fmi2Boolean Boolean;
#define FMI(name) fmi2##name
#define GET(c, vr, n, values, elements) ((void)(elements), CALL(fmi2GetReal, c, vr, n, values))
#define SET(c, vr, n, values, elements) ((void)(elements), CALL(fmi2SetReal, c, vr, n, values))
#define SAVE fmi2GetFMUstate
#define RESTORE fmi2SetFMUstate
#define FREE_STATE fmi2FreeFMUstate
#define STATE_SIZE fmi2SerializedFMUstateSize
#define SERIALIZE fmi2SerializeFMUstate
#define DESERIALIZE fmi2DeSerializeFMUstate
#define RATES fmi2GetDerivatives

#include "fuzz.h"

static void log_message(fmi2ComponentEnvironment environment, fmi2String instance, fmi2Status status, fmi2String category,
                        fmi2String message, ...)
{
    (void)environment, (void)instance;
    check_message(status, category, message);
}

static const fmi2CallbackFunctions CALLBACKS = {log_message, host_memory, free, NULL, NULL};
static const fmi2CallbackFunctions QUIET = {NULL, host_memory, free, NULL, NULL};
static const fmi2CallbackFunctions INCOMPLETE = {log_message, NULL, free, NULL, NULL};

static void *make(int i)
{
    const fmi2CallbackFunctions *chosen = percent(10) ? &QUIET : wild && percent(10) ? &INCOMPLETE : &CALLBACKS;
    const fmi2Type type = wild && percent(10) ? (fmi2Type)2 : percent(50) ? fmi2CoSimulation : fmi2ModelExchange;
    const char *name = maybe(wild && percent(10) ? "" : "%s fuzz %n"), *guid = maybe(wild && percent(10) ? "{}" : RB_GUID);
    (void)i;
    return fmi2Instantiate(name, type, guid, maybe(""), maybe((void *)chosen), fmi2False, fmi2False);
}

static int is_quiet(const Instance *fmu)
{
    return !fmu->host.logger;
}

static Status call_for_directional_derivatives(void *c)
{
    Reference vr[MOST], knowns[MOST];
    double values[MOST], seed[MOST];
    size_t elements;
    const size_t n = references(RB_Y, RB_NY + RB_NX, vr, &elements), n_knowns = references(RB_U, RB_NU + RB_NP, knowns, &elements);
    numbers(MOST, seed);
    return CALL(fmi2GetDirectionalDerivative, c, maybe(vr), n, maybe(knowns), n_knowns, maybe(seed), maybe(values));
}

static Status call_for_derivatives(void *c)
{
    Reference vr[MOST];
    double values[MOST];
    fmi2Integer order[MOST];
    size_t elements;
    if (percent(50))
        return call_for_directional_derivatives(c);
    const int inputs = percent(70);
    const size_t n = inputs ? references(RB_U, RB_NU, vr, &elements) : references(RB_Y, RB_NY, vr, &elements);
    numbers(MOST, values);
    for (size_t k = 0; k < MOST; k++)
        order[k] = wild && percent(30) ? (fmi2Integer[]){0, -1, 99, INT_MIN}[below(4)] : 1 + (fmi2Integer)below(2);
    if (inputs)
        return CALL(fmi2SetRealInputDerivatives, c, maybe(vr), n, maybe(order), maybe(values));
    return CALL(fmi2GetRealOutputDerivatives, c, maybe(vr), n, maybe(order), maybe(values));
}

static Status call_for_nothing(void *c)
{
    const Reference vr[MOST] = {0, 1};
    const fmi2StatusKind kind = (fmi2StatusKind)below(wild ? 6 : 4);
    double real;
    int integer;
    fmi2Status status;
    const char *text;
    switch (below(12)) {
    case 0: return CALL(fmi2CancelStep, c);
    case 1: return CALL(fmi2GetInteger, c, maybe((void *)vr), below(2), maybe(&integer));
    case 2: return CALL(fmi2GetBoolean, c, maybe((void *)vr), below(2), maybe(&integer));
    case 3: return CALL(fmi2GetString, c, maybe((void *)vr), below(2), maybe(&text));
    case 4: return CALL(fmi2SetInteger, c, maybe((void *)vr), below(2), NULL);
    case 5: return CALL(fmi2SetBoolean, c, maybe((void *)vr), below(2), NULL);
    case 6: return CALL(fmi2SetString, c, maybe((void *)vr), below(2), NULL);
    case 7: return CALL(fmi2GetStatus, c, kind, maybe(&status));
    case 8: return CALL(fmi2GetRealStatus, c, kind, maybe(&real));
    case 9: return CALL(fmi2GetIntegerStatus, c, kind, maybe(&integer));
    case 10: return CALL(fmi2GetBooleanStatus, c, kind, maybe(&integer));
    default: return CALL(fmi2GetStringStatus, c, kind, maybe(&text));
    }
}

static Status call_to_initialize(void *c)
{
    if (percent(50))
        return CALL(fmi2EnterInitializationMode, c);
    return CALL(fmi2SetupExperiment, c, fmi2False, number(), start_time(), percent(30), start_time() + 1.0);
}

static Status call_to_step(void *c, double t)
{
    const double dt = step_size();
    return CALL(fmi2DoStep, c, wild && percent(30) ? start_time() : t, dt, fmi2True);
}

static Status call_for_events(void *c)
{
    fmi2EventInfo info;
    if (percent(50))
        return CALL(fmi2EnterEventMode, c);
    return CALL(fmi2NewDiscreteStates, c, maybe(&info));
}

static void report_more(void)
{
}
