/* Random calls of an FMI 3.0 FMU:  fuzz3 CALLS SEED.  The fuzzer is in fuzz.h. */

#include "fmi3.c"

typedef fmi3Boolean Boolean;
#define FMI(name) fmi3##name
#define GET(c, vr, n, values, elements) CALL(fmi3GetFloat64, c, vr, n, values, elements)
#define SET(c, vr, n, values, elements) CALL(fmi3SetFloat64, c, vr, n, values, elements)
#define SAVE fmi3GetFMUState
#define RESTORE fmi3SetFMUState
#define FREE_STATE fmi3FreeFMUState
#define STATE_SIZE fmi3SerializedFMUStateSize
#define SERIALIZE fmi3SerializeFMUState
#define DESERIALIZE fmi3DeserializeFMUState
#define RATES fmi3GetContinuousStateDerivatives

#include "fuzz.h"

static long updates, asked; /* intermediate updates, and requests for an early return */

static void log_message(fmi3InstanceEnvironment environment, fmi3Status status, fmi3String category, fmi3String message)
{
    (void)environment;
    check_message(status, category, message);
}

/* Request random output derivatives, and check that the query changes no state. */
static fmi3Status get_output_derivatives(fmi3Instance c, const State *before)
{
    Reference vr[MOST];
    fmi3Int32 order[MOST];
    double values[MOST * RB_COUNT];
    size_t elements;
    const size_t n = references(RB_Y, RB_NY, vr, &elements);
    for (size_t k = 0; k < MOST; k++)
        order[k] = wild && percent(30) ? (fmi3Int32[]){0, -1, 99, INT_MIN}[below(4)] : 1 + (fmi3Int32)below(2);
    const fmi3Status status = fmi3GetOutputDerivatives(c, maybe(vr), n, maybe(order), maybe(values), elements);
    if (memcmp(before, &((const Instance *)c)->now, sizeof *before) != 0)
        fail("a query of output derivatives has changed the instance");
    return status;
}

/* Actions of the importer in an intermediate update: it gets and sets variables, most of which are rejected, gets
   derivatives, and makes forbidden calls. A rejected call changes no state. Only inputs can be set. */
static void take_part(fmi3InstanceEnvironment environment, fmi3Float64 time, fmi3Boolean inputs_wanted,
                      fmi3Boolean outputs_kept, fmi3Boolean finished, fmi3Boolean may_return, fmi3Boolean *early,
                      fmi3Float64 *early_time)
{
    fmi3Instance c = instances[*(int *)environment];
    const Instance *fmu = c;
    Reference vr[MOST];
    double values[MOST * RB_COUNT];
    fmi3Boolean flags[3];
    size_t elements;
    fmi3Status status;
    const int inputs = percent(80);
    const size_t n = references(inputs ? RB_U : 0, inputs ? RB_NU : RB_COUNT, vr, &elements);
    const State before = fmu->now;
    const long said = messages;
    updates++;
    if (!all_finite(fmu->now.m) || fmu->now.m[RB_T] != time || !outputs_kept || !finished)
        fail("an intermediate update that is not of a finished step");
    for (size_t k = 0; k < MOST * RB_COUNT; k++)
        values[k] = number();
    switch (below(11)) {
    case 0: status = fmi3DoStep(c, time, step_size(), fmi3True, flags, flags + 1, flags + 2, values); break;
    case 1: status = fmi3SetFMUState(c, states[0]); break;
    case 2: status = fmi3Reset(c); break;
    case 3: status = percent(50) ? fmi3Terminate(c) : (fmi3FreeInstance(c), fmi3Error); break;
    case 4: status = fmi3EnterEventMode(c); break;
    case 5: status = fmi3GetFloat64(c, vr, n, values, elements); break;
    case 6: status = fmi3ActivateModelPartition(c, RB_CLOCK, time); break;
    case 7: status = get_output_derivatives(c, &before); break;
    case 8: status = fmi3GetDirectionalDerivative(c, vr, n, vr, n, values, elements, values, elements); break;
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

/* Instance for co-simulation with random optional features of FMI 3.0. */
static fmi3Instance co_simulation(int i, const char *name, const char *token, fmi3LogMessageCallback log)
{
    static int numbers[INSTANCES] = {0, 1};
    Reference vr[MOST];
    size_t elements;
    const int keep = wild;
    wild = percent(5);
    const size_t n = references(RB_U, RB_NU, vr, &elements);
    const Reference *chosen = maybe(vr);
    wild = keep;
    return fmi3InstantiateCoSimulation(name, token, maybe(""), fmi3False, fmi3False, percent(50), percent(70), chosen, n,
                                       &numbers[i], log, percent(60) ? take_part : NULL);
}

/* Instance of an interface type that the FMU does not have. */
static fmi3Instance unavailable(const char *name, const char *token, fmi3LogMessageCallback log)
{
#if RB_SCHEDULED
    return percent(50) ? fmi3InstantiateModelExchange(name, token, "", fmi3False, fmi3False, NULL, log)
                       : fmi3InstantiateCoSimulation(name, token, "", fmi3False, fmi3False, fmi3False, fmi3False, NULL, 0,
                                                     NULL, log, NULL);
#else
    return fmi3InstantiateScheduledExecution(name, token, "", fmi3False, fmi3False, NULL, log, NULL, NULL, NULL);
#endif
}

static void *make(int i)
{
    const fmi3LogMessageCallback log = percent(10) ? NULL : log_message;
    const char *name = maybe(wild && percent(10) ? "" : "%s fuzz %n"), *token = maybe(wild && percent(10) ? "{}" : RB_GUID);
#if RB_SCHEDULED
    (void)i;
    if (wild && percent(15)) {
        if (unavailable(name, token, log))
            fail("an instance of an interface type that the FMU does not have");
        return NULL;
    }
    return fmi3InstantiateScheduledExecution(name, token, maybe(""), fmi3False, fmi3False, NULL, log, NULL, NULL, NULL);
#else
#if defined(RB_RESIZABLE)
    if (wild && percent(15)) {
        if (fmi3InstantiateModelExchange(name, token, "", fmi3False, fmi3False, NULL, log))
            fail("an instance for model exchange, which the FMU does not have");
        return NULL;
    }
    return co_simulation(i, name, token, log);
#endif
    switch (below(wild ? 6 : 5)) {
    case 0:
    case 1:
    case 2: return co_simulation(i, name, token, log);
    case 5:
        if (unavailable(name, token, log))
            fail("an instance of an interface type that the FMU does not have");
        return NULL;
    default: return fmi3InstantiateModelExchange(name, token, maybe(""), fmi3False, fmi3False, NULL, log);
    }
#endif
}

static int is_quiet(const Instance *fmu)
{
    return !fmu->host.log;
}

static Status call_for_dependencies(void *c)
{
    const Reference vr = reference(RB_Y, RB_NY + RB_NX);
    size_t n = 0, elements[RB_COUNT * RB_COUNT], of[RB_COUNT * RB_COUNT];
    Reference from[RB_COUNT * RB_COUNT];
    fmi3DependencyKind kinds[RB_COUNT * RB_COUNT];
    if (percent(50))
        return CALL(fmi3GetNumberOfVariableDependencies, c, vr, maybe(&n));
    if (!wild)
        fmi3GetNumberOfVariableDependencies(c, vr, &n);
    return CALL(fmi3GetVariableDependencies, c, vr, maybe(elements), maybe(from), maybe(of), maybe(kinds), n);
}

static Status call_for_output_derivatives(void *c)
{
    Reference vr[MOST];
    double values[MOST * RB_COUNT];
    fmi3Int32 order[MOST];
    size_t elements;
    const size_t n = references(RB_Y, RB_NY, vr, &elements);
    for (size_t k = 0; k < MOST; k++)
        order[k] = wild && percent(30) ? (fmi3Int32[]){0, -1, 99, INT_MIN}[below(4)] : 1 + (fmi3Int32)below(2);
    return CALL(fmi3GetOutputDerivatives, c, maybe(vr), n, maybe(order), maybe(values), elements);
}

static Status call_for_derivatives(void *c)
{
    Reference vr[MOST], knowns[MOST];
    double values[MOST * RB_COUNT], seed[MOST * RB_COUNT];
    size_t elements, n_seed, size;
    const size_t n = references(RB_Y, RB_NY + RB_NX, vr, &elements), n_knowns = references(RB_U, RB_NU + RB_NP, knowns, &n_seed);
    numbers(MOST * RB_COUNT, seed);
    switch (below(6)) {
    case 5: return call_for_output_derivatives(c);
    case 0:
        return CALL(fmi3GetDirectionalDerivative, c, maybe(vr), n, maybe(knowns), n_knowns, maybe(seed), n_seed,
                    maybe(values), elements);
    case 1:
        return CALL(fmi3GetAdjointDerivative, c, maybe(vr), n, maybe(knowns), n_knowns, maybe(seed), elements, maybe(values),
                    n_seed);
    case 2: return CALL(fmi3GetNumberOfContinuousStates, c, maybe(&size));
    case 3: return CALL(fmi3GetNumberOfEventIndicators, c, maybe(&size));
    default: return call_for_dependencies(c);
    }
}

#if defined(RB_RESIZABLE)
static Status call_for_size(void *c)
{
    const Reference vr = wild && percent(20) ? below(RB_COUNT + 3) : RB_ARRAY_SIZE;
    fmi3UInt64 size = wild && percent(30) ? (fmi3UInt64[]){0, RB_RESIZABLE + 1, UINT64_MAX}[below(3)] : 1 + below(RB_RESIZABLE);
    const size_t n = wild && percent(10) ? below(3) : 1;
    switch (below(5)) {
    case 0: return CALL(fmi3EnterConfigurationMode, c);
    case 1: return CALL(fmi3ExitConfigurationMode, c);
    case 2: return CALL(fmi3GetUInt64, c, maybe((void *)&vr), 1, maybe(&size), n);
    default: return CALL(fmi3SetUInt64, c, maybe((void *)&vr), 1, maybe(&size), n);
    }
}
#endif

static Status call_for_nothing(void *c)
{
#if defined(RB_RESIZABLE)
    if (percent(70))
        return call_for_size(c);
#endif
    const Reference vr[MOST] = {percent(50) ? 0 : RB_CLOCK, 1};
    void *none = maybe((void *)vr);
    switch (below(16)) {
    case 0: return CALL(fmi3EvaluateDiscreteStates, c);
    case 1: return CALL(fmi3GetInt32, c, none, below(2), NULL, below(2));
    case 2: return CALL(fmi3SetBoolean, c, none, below(2), NULL, below(2));
    case 3: return CALL(fmi3GetString, c, none, below(2), NULL, below(2));
    case 4: return CALL(fmi3SetBinary, c, none, below(2), NULL, NULL, below(2));
    case 5: return CALL(fmi3GetClock, c, none, below(2), NULL);
    case 6: return CALL(fmi3EnterConfigurationMode, c);
    case 7: return CALL(fmi3ExitConfigurationMode, c);
    case 8: return CALL(fmi3GetIntervalDecimal, c, none, below(2), NULL, NULL);
    case 9: return CALL(fmi3SetShiftFraction, c, none, below(2), NULL, NULL);
    case 10: return CALL(fmi3ActivateModelPartition, c, percent(50) ? RB_CLOCK : below(9), number());
    case 11: return CALL(fmi3GetIntervalFraction, c, none, below(2), NULL, NULL, NULL);
    case 12: return CALL(fmi3SetIntervalDecimal, c, none, below(2), NULL);
    case 13: return CALL(fmi3SetClock, c, none, below(2), NULL);
    case 14: return CALL(fmi3GetShiftDecimal, c, none, below(2), NULL);
    default: return CALL(fmi3GetFloat32, c, none, below(2), NULL, below(2));
    }
}

static Status call_to_initialize(void *c)
{
    const double start = start_time();
    return CALL(fmi3EnterInitializationMode, c, percent(50), number(), start, percent(30), start_time() + 1.0);
}

static Status call_to_step(void *c, double t)
{
    const double dt = step_size();
    fmi3Boolean event, terminate, early;
    double last;
    if (RB_SCHEDULED && percent(95))
        return CALL(fmi3ActivateModelPartition, c, wild && percent(20) ? below(RB_COUNT + 3) : RB_CLOCK,
                    wild && percent(30) ? start_time() : percent(10) ? t : t + dt);
    return CALL(fmi3DoStep, c, wild && percent(30) ? start_time() : t, dt, fmi3True, maybe(&event), maybe(&terminate),
                maybe(&early), maybe(&last));
}

#if defined(RB_CLOCKED)
enum { CLOCK_CALLS = 3 };
#else
enum { CLOCK_CALLS = 0 };
#endif

static Status call_for_events(void *c)
{
    fmi3Boolean flags[5];
    double next;
    const Reference clock = wild && percent(20) ? below(RB_COUNT + 3) : RB_CLOCK;
    const fmi3Clock ticks = percent(80);
    fmi3Clock ticking;
    switch (below(CLOCK_CALLS + 3)) {
    case 0: return CALL(fmi3EnterEventMode, c);
    case 1: return CALL(fmi3EnterStepMode, c);
    case 3:
    case 4: return CALL(fmi3SetClock, c, maybe((void *)&clock), 1, maybe((void *)&ticks));
    case 5: return CALL(fmi3GetClock, c, maybe((void *)&clock), 1, maybe(&ticking));
    default:
        return CALL(fmi3UpdateDiscreteStates, c, maybe(flags), maybe(flags + 1), maybe(flags + 2), maybe(flags + 3),
                    maybe(flags + 4), maybe(&next));
    }
}

static void report_more(void)
{
    printf("update %ld 0\nearly %ld 0\n", updates, asked);
}
