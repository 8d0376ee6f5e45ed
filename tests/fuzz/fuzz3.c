/* Random calls of an FMI 3.0 FMU:  fuzz3 CALLS SEED.  What must hold after them is in fuzz.h. */

#include "fmi3.c"

#include "fuzz.h"

static long updates, asked; /* intermediate updates, and how often an early return was asked for */

static void log_message(fmi3InstanceEnvironment environment, fmi3Status status, fmi3String category, fmi3String message)
{
    (void)environment;
    check_message(status, category, message);
}

/* What the host does in an intermediate update: it reads and sets, which is refused for most variables, and what it must
   not do. A call that is refused changes nothing. */
static void take_part(fmi3InstanceEnvironment environment, fmi3Float64 time, fmi3Boolean inputs_wanted,
                      fmi3Boolean outputs_kept, fmi3Boolean finished, fmi3Boolean may_return, fmi3Boolean *early,
                      fmi3Float64 *early_time)
{
    fmi3Instance c = instances[*(int *)environment];
    const Instance *fmu = c;
    Reference vr[MOST];
    double values[MOST * COUNT];
    fmi3Boolean flags[3];
    size_t elements;
    fmi3Status status;
    const int inputs = percent(80);
    const size_t n = references(inputs ? U : 0, inputs ? NU : COUNT, vr, &elements);
    const State before = fmu->now;
    const long said = messages;
    updates++;
    if (!all_finite(fmu->now.m) || fmu->now.m[T] != time || !outputs_kept || !finished)
        fail("an intermediate update that is not of a finished step");
    for (size_t k = 0; k < MOST * COUNT; k++)
        values[k] = number();
    switch (below(8)) {
    case 0: status = fmi3DoStep(c, time, step_size(), fmi3True, flags, flags + 1, flags + 2, values); break;
    case 1: status = fmi3SetFMUState(c, states[0]); break;
    case 2: status = fmi3Reset(c); break;
    case 3: status = percent(50) ? fmi3Terminate(c) : (fmi3FreeInstance(c), fmi3Error); break;
    case 4: status = fmi3EnterEventMode(c); break;
    case 5: status = fmi3GetFloat64(c, vr, n, values, elements); break;
    default: status = fmi3SetFloat64(c, vr, n, values, elements);
    }
    if (status == fmi3OK && !inputs_wanted && memcmp(&before, &fmu->now, sizeof before) != 0)
        fail("inputs were set that were not wanted");
    if (status != fmi3OK && memcmp(&before, &fmu->now, sizeof before) != 0)
        fail("it was refused in an intermediate update, and has changed the instance");
    if (status != fmi3OK && fmu->host.log && said == messages)
        fail("it was refused in an intermediate update without a message");
    if (percent(20)) {
        *early = fmi3True;
        *early_time = wild ? number() : time + step_size() * 0.3;
        asked += may_return;
    }
}

/* An instance for co-simulation with any of what FMI 3.0 has for it. */
static fmi3Instance co_simulation(int i, const char *name, const char *token, fmi3LogMessageCallback log)
{
    static int numbers[INSTANCES] = {0, 1};
    Reference vr[MOST];
    size_t elements;
    const int keep = wild;
    wild = percent(5);
    const size_t n = references(U, NU, vr, &elements);
    const Reference *chosen = maybe(vr);
    wild = keep;
    return fmi3InstantiateCoSimulation(name, token, maybe(""), fmi3False, fmi3False, percent(50), percent(70), chosen, n,
                                       &numbers[i], log, percent(60) ? take_part : NULL);
}

static void instantiate(int i)
{
    const fmi3LogMessageCallback log = percent(10) ? NULL : log_message;
    const char *name = maybe(wild && percent(10) ? "" : "%s fuzz %n"), *token = maybe(wild && percent(10) ? "{}" : GUID);
    switch (below(wild ? 6 : 5)) {
    case 0:
    case 1:
    case 2:
        instances[i] = co_simulation(i, name, token, log);
        break;
    case 5:
        if (fmi3InstantiateScheduledExecution(name, token, "", fmi3False, fmi3False, NULL, log, NULL, NULL, NULL))
            fail("an instance for scheduled execution, which there is not");
        break;
    default: instances[i] = fmi3InstantiateModelExchange(name, token, maybe(""), fmi3False, fmi3False, NULL, log);
    }
    if (instances[i] && fmi3GetFMUState(instances[i], &observed[i]) != fmi3OK)
        fail("the state of a new instance cannot be saved");
}

static void observe(int i, Observation *seen)
{
    Reference all[COUNT];
    size_t n = 0, n_memory = 0;
    for (Reference k = 0; k < COUNT; k++)
        if (LENGTH[k]) {
            all[n++] = k;
            n_memory += k < SIZE;
        }
    memset(seen, 0, sizeof *seen);
    seen->variables = fmi3GetFloat64(instances[i], all, n, seen->values, COUNT);
    seen->memory = fmi3GetFloat64(instances[i], all, n_memory, seen->m, SIZE);
    if (fmi3GetFMUState(instances[i], &observed[i]) != fmi3OK ||
        fmi3SerializeFMUState(instances[i], observed[i], (fmi3Byte *)seen->bytes, SERIALIZED_SIZE) != fmi3OK)
        fail("the state cannot be saved");
}

#define CALL(function, ...) (called = #function, function(__VA_ARGS__))

static Status call_setter(fmi3Instance c)
{
    const int segments[][2] = {{U, NU}, {P, NP}, {X, NX + NZ}, {Y, NY}}, pick = (int)below(wild ? 4 : 2);
    Reference vr[MOST];
    double values[MOST * COUNT];
    size_t elements;
    const size_t n = references(segments[pick][0], segments[pick][1], vr, &elements);
    for (size_t k = 0; k < MOST * COUNT; k++)
        values[k] = number();
    return CALL(fmi3SetFloat64, c, maybe(vr), n, maybe(values), elements);
}

static Status call_for_dependencies(fmi3Instance c)
{
    const Reference vr = reference(Y, NY + NX);
    size_t n = 0, elements[COUNT * COUNT], of[COUNT * COUNT];
    Reference from[COUNT * COUNT];
    fmi3DependencyKind kinds[COUNT * COUNT];
    if (percent(50))
        return CALL(fmi3GetNumberOfVariableDependencies, c, vr, maybe(&n));
    if (!wild)
        fmi3GetNumberOfVariableDependencies(c, vr, &n);
    return CALL(fmi3GetVariableDependencies, c, vr, maybe(elements), maybe(from), maybe(of), maybe(kinds), n);
}

static Status call_getter(fmi3Instance c)
{
    Reference vr[MOST], knowns[MOST];
    double values[MOST * COUNT], seed[MOST * COUNT];
    size_t elements, n_seed;
    size_t n = references(0, COUNT, vr, &elements);
    if (percent(40))
        return CALL(fmi3GetFloat64, c, maybe(vr), n, maybe(values), elements);
    n = references(Y, NY + NX, vr, &elements);
    const size_t n_knowns = references(U, NU + NP, knowns, &n_seed);
    for (size_t k = 0; k < MOST * COUNT; k++)
        seed[k] = number();
    switch (below(3)) {
    case 0:
        return CALL(fmi3GetDirectionalDerivative, c, maybe(vr), n, maybe(knowns), n_knowns, maybe(seed), n_seed,
                    maybe(values), elements);
    case 1:
        return CALL(fmi3GetAdjointDerivative, c, maybe(vr), n, maybe(knowns), n_knowns, maybe(seed), elements, maybe(values),
                    n_seed);
    default: return call_for_dependencies(c);
    }
}

static Status call_for_states(fmi3Instance c)
{
    char bytes[SERIALIZED_SIZE + 1];
    size_t size = wild && percent(30) ? below(SERIALIZED_SIZE + 2) : SERIALIZED_SIZE;
    void **slot = &states[below(STATES)], *copy = *slot;
    switch (below(6)) {
    case 0:
        if (percent(50))
            *slot = NULL; /* what it was stays with its instance */
        return CALL(fmi3GetFMUState, c, maybe(slot));
    case 1: return CALL(fmi3SetFMUState, c, state());
    case 2: return CALL(fmi3FreeFMUState, c, wild ? maybe(&copy) : slot); /* a copy leaves a freed state behind */
    case 3: return CALL(fmi3SerializedFMUStateSize, c, state(), maybe(&size));
    case 4: return CALL(fmi3SerializeFMUState, c, state(), maybe(percent(50) ? kept : bytes), size);
    default:
        memcpy(bytes, kept, sizeof bytes);
        if (wild)
            damage(bytes, SERIALIZED_SIZE);
        if (percent(50))
            *slot = NULL;
        return CALL(fmi3DeserializeFMUState, c, maybe(bytes), size, maybe(slot));
    }
}

static Status call_for_nothing(fmi3Instance c)
{
    const Reference vr[MOST] = {0, 1};
    const char *categories[] = {"logAll", wild ? maybe("no category") : "logStatusError"};
    void *none = maybe((void *)vr);
    switch (below(14)) {
    case 0: return CALL(fmi3SetDebugLogging, c, fmi3True, below(3), maybe(categories));
    case 1: return CALL(fmi3GetInt32, c, none, below(2), NULL, below(2));
    case 2: return CALL(fmi3SetBoolean, c, none, below(2), NULL, below(2));
    case 3: return CALL(fmi3GetString, c, none, below(2), NULL, below(2));
    case 4: return CALL(fmi3SetBinary, c, none, below(2), NULL, NULL, below(2));
    case 5: return CALL(fmi3GetClock, c, none, below(2), NULL);
    case 6: return CALL(fmi3EnterConfigurationMode, c);
    case 7: return CALL(fmi3ExitConfigurationMode, c);
    case 8: return CALL(fmi3GetIntervalDecimal, c, none, below(2), NULL, NULL);
    case 9: return CALL(fmi3SetShiftFraction, c, none, below(2), NULL, NULL);
    case 10: return CALL(fmi3ActivateModelPartition, c, below(9), number());
    case 11: return CALL(fmi3GetOutputDerivatives, c, none, below(2), NULL, NULL, below(2));
    case 12: return CALL(fmi3EvaluateDiscreteStates, c);
    default: return CALL(fmi3GetFloat32, c, none, below(2), NULL, below(2));
    }
}

static Status call_for_the_course(fmi3Instance c)
{
    const double start = start_time();
    switch (below(20)) {
    case 0: return CALL(fmi3Terminate, c);
    case 1: return CALL(fmi3Reset, c);
    case 2: case 3: case 4: case 5: case 6: case 7:
        return CALL(fmi3EnterInitializationMode, c, percent(50), number(), start, percent(30), start_time() + 1.0);
    case 8: case 9: case 10: case 11: case 12: case 13: return CALL(fmi3EnterStepMode, c);
    default: return CALL(fmi3ExitInitializationMode, c);
    }
}

static Status call_of_co_simulation(fmi3Instance c, double t)
{
    const double dt = step_size();
    fmi3Boolean event, terminate, early;
    double last;
    return CALL(fmi3DoStep, c, wild && percent(30) ? start_time() : t, dt, fmi3True, maybe(&event), maybe(&terminate),
                maybe(&early), maybe(&last));
}

static Status call_of_events(fmi3Instance c)
{
    fmi3Boolean flags[5];
    double next;
    if (percent(50))
        return CALL(fmi3EnterEventMode, c);
    return CALL(fmi3UpdateDiscreteStates, c, maybe(flags), maybe(flags + 1), maybe(flags + 2), maybe(flags + 3),
                maybe(flags + 4), maybe(&next));
}

static Status call_of_model_exchange(fmi3Instance c, double t)
{
    double x[NX + 1];
    const size_t n = wild && percent(30) ? below(NX + 2) : NX;
    fmi3Boolean event, terminate;
    size_t size;
    for (int k = 0; k <= NX; k++)
        x[k] = number();
    switch (below(12)) {
    case 0: return CALL(fmi3GetNumberOfContinuousStates, c, maybe(&size));
    case 1: return CALL(fmi3GetNumberOfEventIndicators, c, maybe(&size));
    case 2: case 3: return CALL(fmi3EnterContinuousTimeMode, c);
    case 4: return CALL(fmi3CompletedIntegratorStep, c, fmi3True, maybe(&event), maybe(&terminate));
    case 5: return CALL(fmi3SetTime, c, wild && percent(50) ? start_time() : t + step_size());
    case 6: return CALL(fmi3SetContinuousStates, c, maybe(x), n);
    case 7: return CALL(fmi3GetContinuousStates, c, maybe(x), n);
    case 8: return CALL(fmi3GetContinuousStateDerivatives, c, maybe(x), n);
    case 9: return CALL(fmi3GetNominalsOfContinuousStates, c, maybe(x), n);
    case 10: return CALL(fmi3GetEventIndicators, c, NULL, wild ? below(2) : 0);
    default: return call_of_events(c);
    }
}

static void free_instance(int i)
{
    called = "fmi3FreeInstance";
    fmi3FreeInstance(wild ? NULL : instances[i]);
    if (!wild)
        instances[i] = observed[i] = NULL;
}

static Status call(int i)
{
    Instance *fmu = instances[i], *c = wild && percent(5) ? NULL : fmu;
    const int own = fmu->modes == MODEL_EXCHANGE ? percent(10) : percent(90);
    const double t = fmu->now.m[T];
    Status status = fmi3OK;
    called = "nothing";
    quiet = !fmu->host.log || !c;
    switch (below(20)) {
    case 0: case 1: case 2: status = call_setter(c); break;
    case 3: case 4: status = call_getter(c); break;
    case 5: case 6: status = call_for_states(c); break;
    case 7: status = call_for_nothing(c); break;
    case 8: case 9: case 10: case 11: case 12: status = call_for_the_course(c); break;
    case 13: if (percent(2)) free_instance(i); break;
    case 14: status = call_of_events(c); break;
    default: status = own ? call_of_co_simulation(c, t) : call_of_model_exchange(c, t);
    }
    return status;
}

static void report_more(void)
{
    printf("update %ld 0\nearly %ld 0\n", updates, asked);
}
