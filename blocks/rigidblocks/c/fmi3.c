/* The FMI 3.0 interface of a block, for co-simulation and model exchange, the same for all blocks.

   What it shares with FMI 2.0 is in instance.h, which says how the parts fit together. */

#include <stdlib.h>

/* the header of the standard has two types of functions without prototypes */
#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wstrict-prototypes"
#endif
#include "fmi3Functions.h"
#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

typedef fmi3Status Status;
#define OK fmi3OK
#define DISCARD fmi3Discard
#define FAILURE fmi3Error
#define TOKEN "instantiation token"
#define INPUT_DERIVATIVES 0

typedef struct {
    fmi3InstanceEnvironment environment;
    fmi3LogMessageCallback log;
    fmi3IntermediateUpdateCallback update; /* NULL when the host takes no part in steps */
    int early_return;                      /* whether a step may end before its end */
} Host;

static void host_log(const Host *host, const char *instance, Status status, const char *category, const char *text)
{
    (void)instance;
    if (host->log)
        host->log(host->environment, status, category, text);
}

#if !defined(FIXED_INSTANCES)
static void *host_allocate(const Host *host, size_t size)
{
    (void)host;
    return calloc(1, size);
}

static void host_free(const Host *host, void *memory)
{
    (void)host;
    free(memory);
}
#endif

#include "instance.h"
#include "sparsity.h"
#include "values.h"
#include "adjoint.h"
#include "run.h"
#include "saved.h"

#include "depends.h"
#include "intermediate.h"

/* ---- instances ---- */

const char *fmi3GetVersion(void)
{
    return fmi3Version;
}

/* There are no resources and no window, and errors are always logged. */
fmi3Instance fmi3InstantiateCoSimulation(fmi3String name, fmi3String token, fmi3String resources, fmi3Boolean visible,
                                         fmi3Boolean logging_on, fmi3Boolean event_mode, fmi3Boolean early_return,
                                         const fmi3ValueReference intermediate[], size_t n_intermediate,
                                         fmi3InstanceEnvironment environment, fmi3LogMessageCallback log,
                                         fmi3IntermediateUpdateCallback update_callback)
{
    const Host host = {environment, log, update_callback, early_return};
    (void)resources, (void)visible, (void)logging_on;
    Instance *fmu = create(&host, name, token, event_mode ? CO_SIMULATION | EVENT : CO_SIMULATION);
    if (fmu && !keep_required(fmu, intermediate, n_intermediate)) {
        discard(fmu);
        return NULL;
    }
    return fmu;
}

fmi3Instance fmi3InstantiateModelExchange(fmi3String name, fmi3String token, fmi3String resources, fmi3Boolean visible,
                                          fmi3Boolean logging_on, fmi3InstanceEnvironment environment,
                                          fmi3LogMessageCallback log)
{
    const Host host = {environment, log, NULL, 0};
    (void)resources, (void)visible, (void)logging_on;
    return create(&host, name, token, MODEL_EXCHANGE);
}

fmi3Instance fmi3InstantiateScheduledExecution(fmi3String name, fmi3String token, fmi3String resources, fmi3Boolean visible,
                                               fmi3Boolean logging_on, fmi3InstanceEnvironment environment,
                                               fmi3LogMessageCallback log, fmi3ClockUpdateCallback clock_update,
                                               fmi3LockPreemptionCallback lock, fmi3UnlockPreemptionCallback unlock)
{
    const Host host = {environment, log, NULL, 0};
    (void)resources, (void)visible, (void)logging_on, (void)clock_update, (void)lock, (void)unlock;
    return create(&host, name, token, 0);
}

void fmi3FreeInstance(fmi3Instance c)
{
    discard(c);
}

fmi3Status fmi3SetDebugLogging(fmi3Instance c, fmi3Boolean logging_on, size_t n, const fmi3String categories[])
{
    (void)logging_on;
    return check_categories(c, "fmi3SetDebugLogging", n, categories);
}

/* ---- the course of a run ---- */

/* The steps are fixed: there is no tolerance to keep. */
fmi3Status fmi3EnterInitializationMode(fmi3Instance c, fmi3Boolean tolerance_defined, fmi3Float64 tolerance,
                                       fmi3Float64 start_time, fmi3Boolean stop_time_defined, fmi3Float64 stop_time)
{
    (void)tolerance_defined, (void)tolerance;
    if (!allowed(c, "fmi3EnterInitializationMode", INSTANTIATED) || set_up(c, start_time, stop_time_defined, stop_time))
        return fmi3Error;
    return enter(c, "fmi3EnterInitializationMode", INSTANTIATED, INITIALIZATION);
}

fmi3Status fmi3ExitInitializationMode(fmi3Instance c)
{
    return start_run(c, "fmi3ExitInitializationMode");
}

fmi3Status fmi3Terminate(fmi3Instance c)
{
    return enter(c, "fmi3Terminate", STEPPING | FAILED | EVENT | CONTINUOUS, TERMINATED);
}

fmi3Status fmi3Reset(fmi3Instance c)
{
    return reset(c, "fmi3Reset");
}

/* ---- values ---- */

fmi3Status fmi3GetFloat64(fmi3Instance c, const fmi3ValueReference vr[], size_t n, fmi3Float64 values[], size_t n_values)
{
    return get(c, "fmi3GetFloat64", vr, n, values, n_values);
}

fmi3Status fmi3SetFloat64(fmi3Instance c, const fmi3ValueReference vr[], size_t n, const fmi3Float64 values[],
                          size_t n_values)
{
    return set(c, "fmi3SetFloat64", vr, n, values, n_values);
}

fmi3Status fmi3GetDirectionalDerivative(fmi3Instance c, const fmi3ValueReference unknowns[], size_t n_unknowns,
                                        const fmi3ValueReference knowns[], size_t n_knowns, const fmi3Float64 seed[],
                                        size_t n_seed, fmi3Float64 sensitivity[], size_t n_sensitivity)
{
    return directional(c, "fmi3GetDirectionalDerivative", unknowns, n_unknowns, knowns, n_knowns, seed, n_seed, sensitivity,
                       n_sensitivity);
}

fmi3Status fmi3GetAdjointDerivative(fmi3Instance c, const fmi3ValueReference unknowns[], size_t n_unknowns,
                                    const fmi3ValueReference knowns[], size_t n_knowns, const fmi3Float64 seed[],
                                    size_t n_seed, fmi3Float64 sensitivity[], size_t n_sensitivity)
{
    if (!given(c, "fmi3GetAdjointDerivative", seed, n_seed) ||
        !given(c, "fmi3GetAdjointDerivative", sensitivity, n_sensitivity))
        return fmi3Error;
    return adjoint(c, "fmi3GetAdjointDerivative", unknowns, n_unknowns, knowns, n_knowns, seed, n_seed, sensitivity,
                   n_sensitivity);
}

fmi3Status fmi3GetNumberOfVariableDependencies(fmi3Instance c, fmi3ValueReference vr, size_t *n)
{
    return count_dependencies(c, "fmi3GetNumberOfVariableDependencies", vr, n);
}

fmi3Status fmi3GetVariableDependencies(fmi3Instance c, fmi3ValueReference dependent, size_t elements[],
                                       fmi3ValueReference independents[], size_t independent_elements[],
                                       fmi3DependencyKind kinds[], size_t n)
{
    return get_dependencies(c, "fmi3GetVariableDependencies", dependent, elements, independents, independent_elements, kinds,
                            n);
}

/* ---- saved states ---- */

fmi3Status fmi3GetFMUState(fmi3Instance c, fmi3FMUState *saved)
{
    return get_state(c, "fmi3GetFMUState", saved);
}

fmi3Status fmi3SetFMUState(fmi3Instance c, fmi3FMUState saved)
{
    return set_state(c, "fmi3SetFMUState", saved);
}

fmi3Status fmi3FreeFMUState(fmi3Instance c, fmi3FMUState *saved)
{
    return free_state(c, "fmi3FreeFMUState", saved);
}

fmi3Status fmi3SerializedFMUStateSize(fmi3Instance c, fmi3FMUState saved, size_t *size)
{
    (void)saved;
    return serialized_size(c, "fmi3SerializedFMUStateSize", size);
}

fmi3Status fmi3SerializeFMUState(fmi3Instance c, fmi3FMUState saved, fmi3Byte bytes[], size_t size)
{
    return serialize(c, "fmi3SerializeFMUState", saved, bytes, size);
}

fmi3Status fmi3DeserializeFMUState(fmi3Instance c, const fmi3Byte bytes[], size_t size, fmi3FMUState *saved)
{
    return deserialize(c, "fmi3DeserializeFMUState", bytes, size, saved);
}

/* ---- co-simulation ---- */

/* A block never asks for the end of the simulation. */
fmi3Status fmi3DoStep(fmi3Instance c, fmi3Float64 t, fmi3Float64 dt, fmi3Boolean no_state_set_before,
                      fmi3Boolean *event_handling_needed, fmi3Boolean *terminate, fmi3Boolean *early_return,
                      fmi3Float64 *last_successful_time)
{
    const Instance *fmu = c;
    (void)no_state_set_before;
    if (!given(fmu, "fmi3DoStep", event_handling_needed, 1) || !given(fmu, "fmi3DoStep", terminate, 1) ||
        !given(fmu, "fmi3DoStep", early_return, 1) || !given(fmu, "fmi3DoStep", last_successful_time, 1))
        return fmi3Error;
    int event = 0, early = 0;
    const Status status = is_shared(fmu) ? shared_step(c, "fmi3DoStep", t, dt, &event, &early)
                                         : do_step(c, "fmi3DoStep", t, dt);
    if (status == fmi3Error)
        return status;
    *event_handling_needed = event != 0;
    *terminate = fmi3False;
    *early_return = early != 0;
    *last_successful_time = fmu->now.m[T];
    return status;
}

fmi3Status fmi3EnterStepMode(fmi3Instance c)
{
    return enter_step_mode(c, "fmi3EnterStepMode");
}

/* ---- events and model exchange ---- */

fmi3Status fmi3EnterEventMode(fmi3Instance c)
{
    return enter(c, "fmi3EnterEventMode", CONTINUOUS | STEPPING, EVENT);
}

fmi3Status fmi3UpdateDiscreteStates(fmi3Instance c, fmi3Boolean *update_needed, fmi3Boolean *terminate,
                                    fmi3Boolean *nominals_changed, fmi3Boolean *values_changed,
                                    fmi3Boolean *next_event_time_defined, fmi3Float64 *next_event_time)
{
    const Instance *fmu = c;
    int moved = 0;
    if (!given(fmu, "fmi3UpdateDiscreteStates", update_needed, 1) ||
        !given(fmu, "fmi3UpdateDiscreteStates", terminate, 1) ||
        !given(fmu, "fmi3UpdateDiscreteStates", nominals_changed, 1) ||
        !given(fmu, "fmi3UpdateDiscreteStates", values_changed, 1) ||
        !given(fmu, "fmi3UpdateDiscreteStates", next_event_time_defined, 1) ||
        !given(fmu, "fmi3UpdateDiscreteStates", next_event_time, 1))
        return fmi3Error;
    const Status status = handle_event(c, "fmi3UpdateDiscreteStates", &moved);
    if (status != fmi3OK)
        return status;
    *update_needed = *terminate = *nominals_changed = fmi3False;
    *values_changed = moved != 0;
    *next_event_time_defined = SAMPLE_TIME > 0.0;
    *next_event_time = fmu->now.next_sample * SAMPLE_TIME;
    return fmi3OK;
}

fmi3Status fmi3EnterContinuousTimeMode(fmi3Instance c)
{
    return enter(c, "fmi3EnterContinuousTimeMode", EVENT, CONTINUOUS);
}

/* States that have a place to be moved back to are moved there in an event, after every step of the integrator. */
fmi3Status fmi3CompletedIntegratorStep(fmi3Instance c, fmi3Boolean no_state_set_before, fmi3Boolean *enter_event_mode,
                                       fmi3Boolean *terminate)
{
    (void)no_state_set_before;
    if (!allowed(c, "fmi3CompletedIntegratorStep", CONTINUOUS) ||
        !given(c, "fmi3CompletedIntegratorStep", enter_event_mode, 1) ||
        !given(c, "fmi3CompletedIntegratorStep", terminate, 1))
        return fmi3Error;
    *enter_event_mode = PROJECTS;
    *terminate = fmi3False;
    return fmi3OK;
}

fmi3Status fmi3SetTime(fmi3Instance c, fmi3Float64 time)
{
    return set_time(c, "fmi3SetTime", time);
}

fmi3Status fmi3SetContinuousStates(fmi3Instance c, const fmi3Float64 x[], size_t n)
{
    return set_states(c, "fmi3SetContinuousStates", x, n);
}

fmi3Status fmi3GetContinuousStates(fmi3Instance c, fmi3Float64 x[], size_t n)
{
    return get_states(c, "fmi3GetContinuousStates", x, n);
}

fmi3Status fmi3GetContinuousStateDerivatives(fmi3Instance c, fmi3Float64 rates[], size_t n)
{
    return get_rates(c, "fmi3GetContinuousStateDerivatives", rates, n);
}

fmi3Status fmi3GetNominalsOfContinuousStates(fmi3Instance c, fmi3Float64 nominals[], size_t n)
{
    return get_nominals(c, "fmi3GetNominalsOfContinuousStates", nominals, n);
}

fmi3Status fmi3GetNumberOfContinuousStates(fmi3Instance c, size_t *n)
{
    if (!exchanges(c, "fmi3GetNumberOfContinuousStates", MODEL_EXCHANGE) ||
        !given(c, "fmi3GetNumberOfContinuousStates", n, 1))
        return fmi3Error;
    *n = NX;
    return fmi3OK;
}

fmi3Status fmi3GetNumberOfEventIndicators(fmi3Instance c, size_t *n)
{
    if (!exchanges(c, "fmi3GetNumberOfEventIndicators", MODEL_EXCHANGE) ||
        !given(c, "fmi3GetNumberOfEventIndicators", n, 1))
        return fmi3Error;
    *n = 0;
    return fmi3OK;
}

fmi3Status fmi3GetEventIndicators(fmi3Instance c, fmi3Float64 indicators[], size_t n)
{
    (void)indicators;
    if (!exchanges(c, "fmi3GetEventIndicators", EVENT | CONTINUOUS))
        return fmi3Error;
    return n == 0 ? fmi3OK : report(c, fmi3Error, "fmi3GetEventIndicators: there are no event indicators");
}

#include "fmi3_unused.h"
