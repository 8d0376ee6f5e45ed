/* The FMI 3.0 interface of a block, for co-simulation and model exchange, the same for all blocks.

   What it shares with FMI 2.0 is in instance.h, which says how the parts fit together. */

#include "adjoint.h"
#include "depends.h"
#include "fmi3_settings.c"
#include "fmi3_unused.c" /* one file to compile */
#include "instance.h"
#include "intermediate.h"
#include "run.h"
#include "saved.h"
#include "values.h"

/* ---- instances ---- */

const char *fmi3GetVersion(void)
{
    return fmi3Version;
}

/* There are no resources and no window, and errors are always logged. */
fmi3Instance fmi3InstantiateCoSimulation(fmi3String name, fmi3String token, fmi3String resources,
                                         fmi3Boolean visible, fmi3Boolean logging_on,
                                         fmi3Boolean event_mode, fmi3Boolean early_return,
                                         const fmi3ValueReference intermediate[],
                                         size_t n_intermediate, fmi3InstanceEnvironment environment,
                                         fmi3LogMessageCallback log,
                                         fmi3IntermediateUpdateCallback update_callback)
{
    const Host host = {environment, log, update_callback, early_return};
    (void)resources, (void)visible, (void)logging_on;
    Instance *fmu =
        create(&host, name, token, event_mode ? RB_CO_SIMULATION | RB_EVENT : RB_CO_SIMULATION);
    if (fmu && !keep_required(fmu, intermediate, n_intermediate)) {
        discard(fmu);
        return NULL;
    }
    return fmu;
}

fmi3Instance fmi3InstantiateModelExchange(fmi3String name, fmi3String token, fmi3String resources,
                                          fmi3Boolean visible, fmi3Boolean logging_on,
                                          fmi3InstanceEnvironment environment,
                                          fmi3LogMessageCallback log)
{
    const Host host = {environment, log, NULL, 0};
    (void)resources, (void)visible, (void)logging_on;
    return create(&host, name, token, RB_MODEL_EXCHANGE);
}

fmi3Instance fmi3InstantiateScheduledExecution(
    fmi3String name, fmi3String token, fmi3String resources, fmi3Boolean visible,
    fmi3Boolean logging_on, fmi3InstanceEnvironment environment, fmi3LogMessageCallback log,
    fmi3ClockUpdateCallback clock_update, fmi3LockPreemptionCallback lock,
    fmi3UnlockPreemptionCallback unlock)
{
    const Host host = {environment, log, NULL, 0};
    (void)resources, (void)visible, (void)logging_on, (void)clock_update, (void)lock, (void)unlock;
    return create(&host, name, token, 0);
}

void fmi3FreeInstance(fmi3Instance c)
{
    discard(instance_of(c));
}

fmi3Status fmi3SetDebugLogging(fmi3Instance c, fmi3Boolean logging_on, size_t n,
                               const fmi3String categories[])
{
    (void)logging_on;
    return check_categories(instance_of(c), "fmi3SetDebugLogging", n, categories);
}

/* ---- the course of a run ---- */

/* The tolerance is that of a solver in model exchange; the steps of co-simulation are fixed. */
fmi3Status fmi3EnterInitializationMode(fmi3Instance c, fmi3Boolean tolerance_defined,
                                       fmi3Float64 tolerance, fmi3Float64 start_time,
                                       fmi3Boolean stop_time_defined, fmi3Float64 stop_time)
{
    if (!allowed(instance_of(c), "fmi3EnterInitializationMode", RB_INSTANTIATED) ||
        set_up(instance_of(c), start_time, stop_time_defined, stop_time, tolerance_defined,
               tolerance))
        return fmi3Error;
    return enter(instance_of(c), "fmi3EnterInitializationMode", RB_INSTANTIATED, RB_INITIALIZATION);
}

fmi3Status fmi3ExitInitializationMode(fmi3Instance c)
{
    return start_run(instance_of(c), "fmi3ExitInitializationMode");
}

fmi3Status fmi3Terminate(fmi3Instance c)
{
    return terminate(instance_of(c), "fmi3Terminate");
}

fmi3Status fmi3Reset(fmi3Instance c)
{
    return reset(instance_of(c), "fmi3Reset");
}

/* ---- values ---- */

fmi3Status fmi3GetFloat64(fmi3Instance c, const fmi3ValueReference vr[], size_t n,
                          fmi3Float64 values[], size_t n_values)
{
    return RB_LOCKED(instance_of(c),
                     get(instance_of(c), "fmi3GetFloat64", vr, n, values, n_values));
}

fmi3Status fmi3SetFloat64(fmi3Instance c, const fmi3ValueReference vr[], size_t n,
                          const fmi3Float64 values[], size_t n_values)
{
    return RB_LOCKED(instance_of(c),
                     set(instance_of(c), "fmi3SetFloat64", vr, n, values, n_values));
}

fmi3Status fmi3GetDirectionalDerivative(fmi3Instance c, const fmi3ValueReference unknowns[],
                                        size_t n_unknowns, const fmi3ValueReference knowns[],
                                        size_t n_knowns, const fmi3Float64 seed[], size_t n_seed,
                                        fmi3Float64 sensitivity[], size_t n_sensitivity)
{
    return RB_LOCKED(instance_of(c), directional(instance_of(c), "fmi3GetDirectionalDerivative",
                                                 unknowns, n_unknowns, knowns, n_knowns, seed,
                                                 n_seed, sensitivity, n_sensitivity));
}

fmi3Status fmi3GetAdjointDerivative(fmi3Instance c, const fmi3ValueReference unknowns[],
                                    size_t n_unknowns, const fmi3ValueReference knowns[],
                                    size_t n_knowns, const fmi3Float64 seed[], size_t n_seed,
                                    fmi3Float64 sensitivity[], size_t n_sensitivity)
{
    if (!given(instance_of(c), "fmi3GetAdjointDerivative", seed, n_seed) ||
        !given(instance_of(c), "fmi3GetAdjointDerivative", sensitivity, n_sensitivity))
        return fmi3Error;
    return RB_LOCKED(instance_of(c),
                     adjoint(instance_of(c), "fmi3GetAdjointDerivative", unknowns, n_unknowns,
                             knowns, n_knowns, seed, n_seed, sensitivity, n_sensitivity));
}

fmi3Status fmi3GetNumberOfVariableDependencies(fmi3Instance c, fmi3ValueReference vr, size_t *n)
{
    return count_dependencies(instance_of(c), "fmi3GetNumberOfVariableDependencies", vr, n);
}

fmi3Status fmi3GetVariableDependencies(fmi3Instance c, fmi3ValueReference dependent,
                                       size_t elements[], fmi3ValueReference independents[],
                                       size_t independent_elements[], fmi3DependencyKind kinds[],
                                       size_t n)
{
    return get_dependencies(instance_of(c), "fmi3GetVariableDependencies", dependent, elements,
                            independents, independent_elements, kinds, n);
}

/* ---- saved states ---- */

fmi3Status fmi3GetFMUState(fmi3Instance c, fmi3FMUState *saved)
{
    return RB_LOCKED(instance_of(c), get_state(instance_of(c), "fmi3GetFMUState", saved));
}

fmi3Status fmi3SetFMUState(fmi3Instance c, fmi3FMUState saved)
{
    return RB_LOCKED(instance_of(c), set_state(instance_of(c), "fmi3SetFMUState", saved));
}

fmi3Status fmi3FreeFMUState(fmi3Instance c, fmi3FMUState *saved)
{
    return free_state(instance_of(c), "fmi3FreeFMUState", saved);
}

fmi3Status fmi3SerializedFMUStateSize(fmi3Instance c, fmi3FMUState saved, size_t *size)
{
    (void)saved;
    return serialized_size(instance_of(c), "fmi3SerializedFMUStateSize", size);
}

fmi3Status fmi3SerializeFMUState(fmi3Instance c, fmi3FMUState saved, fmi3Byte bytes[], size_t size)
{
    return serialize(instance_of(c), "fmi3SerializeFMUState", saved, bytes, size);
}

fmi3Status fmi3DeserializeFMUState(fmi3Instance c, const fmi3Byte bytes[], size_t size,
                                   fmi3FMUState *saved)
{
    return deserialize(instance_of(c), "fmi3DeserializeFMUState", bytes, size, saved);
}

/* ---- co-simulation ---- */

/* A block never asks for the end of the simulation. */
fmi3Status fmi3DoStep(fmi3Instance c, fmi3Float64 t, fmi3Float64 dt,
                      fmi3Boolean no_state_set_before, fmi3Boolean *event_handling_needed,
                      fmi3Boolean *terminate, fmi3Boolean *early_return,
                      fmi3Float64 *last_successful_time)
{
    const Instance *fmu = instance_of(c);
    (void)no_state_set_before;
    if (!given(fmu, "fmi3DoStep", event_handling_needed, 1) ||
        !given(fmu, "fmi3DoStep", terminate, 1) || !given(fmu, "fmi3DoStep", early_return, 1) ||
        !given(fmu, "fmi3DoStep", last_successful_time, 1))
        return fmi3Error;
    int event = 0, early = 0;
    const Status status = RB_LOCKED(
        fmu, RB_SAMPLED(fmu, is_shared(fmu)
                                 ? shared_step(instance_of(c), "fmi3DoStep", t, dt, &event, &early)
                                 : do_step(instance_of(c), "fmi3DoStep", t, dt)));
    if (status == fmi3Error)
        return status;
    *event_handling_needed = event != 0;
    *terminate = fmi3False;
    *early_return = early != 0;
    *last_successful_time = fmu->now.m[RB_T];
    return status;
}

fmi3Status fmi3EnterStepMode(fmi3Instance c)
{
    return RB_LOCKED(instance_of(c), enter_step_mode(instance_of(c), "fmi3EnterStepMode"));
}

/* ---- events and model exchange ---- */

fmi3Status fmi3EnterEventMode(fmi3Instance c)
{
    return enter(instance_of(c), "fmi3EnterEventMode", RB_CONTINUOUS | RB_STEPPING, RB_EVENT);
}

fmi3Status fmi3UpdateDiscreteStates(fmi3Instance c, fmi3Boolean *update_needed,
                                    fmi3Boolean *terminate, fmi3Boolean *nominals_changed,
                                    fmi3Boolean *values_changed,
                                    fmi3Boolean *next_event_time_defined,
                                    fmi3Float64 *next_event_time)
{
    const Instance *fmu = instance_of(c);
    int moved = 0;
    if (!given(fmu, "fmi3UpdateDiscreteStates", update_needed, 1) ||
        !given(fmu, "fmi3UpdateDiscreteStates", terminate, 1) ||
        !given(fmu, "fmi3UpdateDiscreteStates", nominals_changed, 1) ||
        !given(fmu, "fmi3UpdateDiscreteStates", values_changed, 1) ||
        !given(fmu, "fmi3UpdateDiscreteStates", next_event_time_defined, 1) ||
        !given(fmu, "fmi3UpdateDiscreteStates", next_event_time, 1))
        return fmi3Error;
    const Status status =
        RB_LOCKED(instance_of(c), handle_event(instance_of(c), "fmi3UpdateDiscreteStates", &moved));
    if (status != fmi3OK)
        return status;
    *update_needed = *terminate = *nominals_changed = fmi3False;
    *values_changed = moved != 0;
    *next_event_time_defined = RB_SAMPLE_TIME > 0.0;
    *next_event_time = fmu->now.next_sample * RB_SAMPLE_TIME;
    return fmi3OK;
}

fmi3Status fmi3EnterContinuousTimeMode(fmi3Instance c)
{
    return enter(instance_of(c), "fmi3EnterContinuousTimeMode", RB_EVENT, RB_CONTINUOUS);
}

/* States that have drifted from the place that they belong to are moved back there in an event, and
   laws that end become others. */
fmi3Status fmi3CompletedIntegratorStep(fmi3Instance c, fmi3Boolean no_state_set_before,
                                       fmi3Boolean *enter_event_mode, fmi3Boolean *terminate)
{
    (void)no_state_set_before;
    if (!allowed(instance_of(c), "fmi3CompletedIntegratorStep", RB_CONTINUOUS) ||
        !given(instance_of(c), "fmi3CompletedIntegratorStep", enter_event_mode, 1) ||
        !given(instance_of(c), "fmi3CompletedIntegratorStep", terminate, 1))
        return fmi3Error;
    *enter_event_mode = wants_event(instance_of(c));
    *terminate = fmi3False;
    return fmi3OK;
}

fmi3Status fmi3SetTime(fmi3Instance c, fmi3Float64 time)
{
    return set_time(instance_of(c), "fmi3SetTime", time);
}

fmi3Status fmi3SetContinuousStates(fmi3Instance c, const fmi3Float64 x[], size_t n)
{
    return set_states(instance_of(c), "fmi3SetContinuousStates", x, n);
}

fmi3Status fmi3GetContinuousStates(fmi3Instance c, fmi3Float64 x[], size_t n)
{
    return get_states(instance_of(c), "fmi3GetContinuousStates", x, n);
}

fmi3Status fmi3GetContinuousStateDerivatives(fmi3Instance c, fmi3Float64 rates[], size_t n)
{
    return get_rates(instance_of(c), "fmi3GetContinuousStateDerivatives", rates, n);
}

fmi3Status fmi3GetNominalsOfContinuousStates(fmi3Instance c, fmi3Float64 nominals[], size_t n)
{
    return get_nominals(instance_of(c), "fmi3GetNominalsOfContinuousStates", nominals, n);
}

fmi3Status fmi3GetNumberOfContinuousStates(fmi3Instance c, size_t *n)
{
    if (!exchanges(instance_of(c), "fmi3GetNumberOfContinuousStates", RB_MODEL_EXCHANGE) ||
        !given(instance_of(c), "fmi3GetNumberOfContinuousStates", n, 1))
        return fmi3Error;
    *n = RB_NX;
    return fmi3OK;
}

fmi3Status fmi3GetNumberOfEventIndicators(fmi3Instance c, size_t *n)
{
    if (!exchanges(instance_of(c), "fmi3GetNumberOfEventIndicators", RB_MODEL_EXCHANGE) ||
        !given(instance_of(c), "fmi3GetNumberOfEventIndicators", n, 1))
        return fmi3Error;
    *n = RB_INDICATORS;
    return fmi3OK;
}

fmi3Status fmi3GetEventIndicators(fmi3Instance c, fmi3Float64 indicators[], size_t n)
{
    return get_indicators(instance_of(c), "fmi3GetEventIndicators", indicators, n);
}
