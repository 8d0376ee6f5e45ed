/* Random calls of an FMI 2.0 FMU:  fuzz2 CALLS SEED.  What must hold after them is in fuzz.h. */

#include "fmi2.c"

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

static void instantiate(int i)
{
    const fmi2CallbackFunctions *chosen = percent(10) ? &QUIET : wild && percent(10) ? &INCOMPLETE : &CALLBACKS;
    const fmi2Type type = wild && percent(10) ? (fmi2Type)2 : percent(50) ? fmi2CoSimulation : fmi2ModelExchange;
    failing_memory = wild && percent(10);
    const char *name = maybe(wild && percent(10) ? "" : "%s fuzz %n"), *guid = maybe(wild && percent(10) ? "{}" : GUID);
    instances[i] = fmi2Instantiate(name, type, guid, maybe(""), maybe((void *)chosen), fmi2False, fmi2False);
    failing_memory = 0;
    if (instances[i] && fmi2GetFMUstate(instances[i], &observed[i]) != fmi2OK)
        fail("the state of a new instance cannot be saved");
}

static void observe(int i, Observation *seen)
{
    Reference all[COUNT];
    for (Reference k = 0; k < COUNT; k++)
        all[k] = k;
    memset(seen, 0, sizeof *seen);
    seen->variables = fmi2GetReal(instances[i], all, COUNT, seen->values);
    seen->memory = fmi2GetReal(instances[i], all, SIZE, seen->m);
    if (fmi2GetFMUstate(instances[i], &observed[i]) != fmi2OK ||
        fmi2SerializeFMUstate(instances[i], observed[i], seen->bytes, SERIALIZED_SIZE) != fmi2OK)
        fail("the state cannot be saved");
}

#define CALL(function, ...) (called = #function, function(__VA_ARGS__))

static Status call_setter(fmi2Component c)
{
    const int segments[][2] = {{U, NU}, {P, NP}, {X, NX + NZ}, {Y, NY}}, pick = (int)below(wild ? 4 : 2);
    Reference vr[MOST];
    double values[MOST];
    size_t elements;
    const size_t n = references(segments[pick][0], segments[pick][1], vr, &elements);
    for (size_t k = 0; k < MOST; k++)
        values[k] = number();
    return CALL(fmi2SetReal, c, maybe(vr), n, maybe(values));
}

static Status call_getter(fmi2Component c)
{
    Reference vr[MOST], knowns[MOST];
    double values[MOST], seed[MOST];
    size_t elements;
    size_t n = references(0, COUNT, vr, &elements);
    if (percent(50))
        return CALL(fmi2GetReal, c, maybe(vr), n, maybe(values));
    n = references(Y, NY + NX, vr, &elements);
    const size_t n_knowns = references(U, NU + NP, knowns, &elements);
    for (size_t k = 0; k < MOST; k++)
        seed[k] = number();
    return CALL(fmi2GetDirectionalDerivative, c, maybe(vr), n, maybe(knowns), n_knowns, maybe(seed), maybe(values));
}

static Status call_derivatives(fmi2Component c)
{
    Reference vr[MOST];
    double values[MOST];
    fmi2Integer order[MOST];
    size_t elements;
    const size_t n = references(U, NU, vr, &elements);
    for (size_t k = 0; k < MOST; k++) {
        values[k] = number();
        order[k] = wild && percent(30) ? (fmi2Integer[]){0, -1, 99, INT_MIN}[below(4)] : 1 + (fmi2Integer)below(2);
    }
    if (percent(80))
        return CALL(fmi2SetRealInputDerivatives, c, maybe(vr), n, maybe(order), maybe(values));
    return CALL(fmi2GetRealOutputDerivatives, c, maybe(vr), n, maybe(order), maybe(values));
}

static Status call_for_states(fmi2Component c)
{
    char bytes[SERIALIZED_SIZE + 1];
    size_t size = wild && percent(30) ? below(SERIALIZED_SIZE + 2) : SERIALIZED_SIZE;
    void **slot = &states[below(STATES)], *copy = *slot;
    switch (below(6)) {
    case 0:
        if (percent(50))
            *slot = NULL; /* what it was stays with its instance */
        return CALL(fmi2GetFMUstate, c, maybe(slot));
    case 1: return CALL(fmi2SetFMUstate, c, state());
    case 2: return CALL(fmi2FreeFMUstate, c, wild ? maybe(&copy) : slot); /* a copy leaves a freed state behind */
    case 3: return CALL(fmi2SerializedFMUstateSize, c, state(), maybe(&size));
    case 4: return CALL(fmi2SerializeFMUstate, c, state(), maybe(percent(50) ? kept : bytes), size);
    default:
        memcpy(bytes, kept, sizeof bytes);
        if (wild)
            damage(bytes, SERIALIZED_SIZE);
        if (percent(50))
            *slot = NULL;
        return CALL(fmi2DeSerializeFMUstate, c, maybe(bytes), size, maybe(slot));
    }
}

static Status call_for_nothing(fmi2Component c)
{
    const Reference vr[MOST] = {0, 1};
    const char *categories[] = {"logAll", wild ? maybe("no category") : "logStatusError"};
    const fmi2StatusKind kind = (fmi2StatusKind)below(wild ? 6 : 4);
    double real;
    int integer;
    fmi2Status status;
    const char *text;
    switch (below(13)) {
    case 0: return CALL(fmi2SetDebugLogging, c, fmi2True, below(3), maybe(categories));
    case 1: return CALL(fmi2GetInteger, c, maybe((void *)vr), below(2), maybe(&integer));
    case 2: return CALL(fmi2GetBoolean, c, maybe((void *)vr), below(2), maybe(&integer));
    case 3: return CALL(fmi2GetString, c, maybe((void *)vr), below(2), maybe(&text));
    case 4: return CALL(fmi2SetInteger, c, maybe((void *)vr), below(2), NULL);
    case 5: return CALL(fmi2SetBoolean, c, maybe((void *)vr), below(2), NULL);
    case 6: return CALL(fmi2SetString, c, maybe((void *)vr), below(2), NULL);
    case 7: return CALL(fmi2CancelStep, c);
    case 8: return CALL(fmi2GetStatus, c, kind, maybe(&status));
    case 9: return CALL(fmi2GetRealStatus, c, kind, maybe(&real));
    case 10: return CALL(fmi2GetIntegerStatus, c, kind, maybe(&integer));
    case 11: return CALL(fmi2GetBooleanStatus, c, kind, maybe(&integer));
    default: return CALL(fmi2GetStringStatus, c, kind, maybe(&text));
    }
}

static Status call_for_the_course(fmi2Component c)
{
    switch (below(20)) {
    case 0: return CALL(fmi2Terminate, c);
    case 1: return CALL(fmi2Reset, c);
    case 2: case 3: case 4: case 5: case 6:
        return CALL(fmi2SetupExperiment, c, fmi2False, number(), start_time(), percent(30), start_time() + 1.0);
    case 7: case 8: case 9: case 10: case 11: case 12: return CALL(fmi2EnterInitializationMode, c);
    default: return CALL(fmi2ExitInitializationMode, c);
    }
}

static Status call_of_co_simulation(fmi2Component c, double t)
{
    const double dt = step_size();
    return CALL(fmi2DoStep, c, wild && percent(30) ? start_time() : t, dt, fmi2True);
}

static Status call_of_model_exchange(fmi2Component c, double t)
{
    double x[NX + 1];
    const size_t n = wild && percent(30) ? below(NX + 2) : NX;
    fmi2EventInfo info;
    fmi2Boolean event, terminate;
    for (int k = 0; k <= NX; k++)
        x[k] = number();
    switch (below(11)) {
    case 0: return CALL(fmi2EnterEventMode, c);
    case 1: return CALL(fmi2NewDiscreteStates, c, maybe(&info));
    case 2: return CALL(fmi2EnterContinuousTimeMode, c);
    case 3: return CALL(fmi2CompletedIntegratorStep, c, fmi2True, maybe(&event), maybe(&terminate));
    case 4: return CALL(fmi2SetTime, c, wild && percent(50) ? start_time() : t + step_size());
    case 5: return CALL(fmi2SetContinuousStates, c, maybe(x), n);
    case 6: return CALL(fmi2GetContinuousStates, c, maybe(x), n);
    case 7: return CALL(fmi2GetDerivatives, c, maybe(x), n);
    case 8: return CALL(fmi2GetNominalsOfContinuousStates, c, maybe(x), n);
    default: return CALL(fmi2GetEventIndicators, c, NULL, wild ? below(2) : 0);
    }
}

static void free_instance(int i)
{
    called = "fmi2FreeInstance";
    fmi2FreeInstance(wild ? NULL : instances[i]);
    if (!wild)
        instances[i] = observed[i] = NULL;
}

static Status call(int i)
{
    Instance *fmu = instances[i], *c = wild && percent(5) ? NULL : fmu;
    const int own = fmu->modes == MODEL_EXCHANGE ? percent(10) : percent(90);
    const double t = fmu->now.m[T];
    Status status = fmi2OK;
    called = "nothing";
    quiet = !fmu->host.logger || !c;
    switch (below(20)) {
    case 0: case 1: case 2: status = call_setter(c); break;
    case 3: case 4: status = call_getter(c); break;
    case 5: status = call_derivatives(c); break;
    case 6: case 7: status = call_for_states(c); break;
    case 8: status = call_for_nothing(c); break;
    case 9: case 10: case 11: case 12: case 13: status = call_for_the_course(c); break;
    case 14: if (percent(2)) free_instance(i); break;
    default: status = own ? call_of_co_simulation(c, t) : call_of_model_exchange(c, t);
    }
    return status;
}

static void report_more(void)
{
}
