/* The FMI 2.0 interface of a block, for co-simulation and model exchange, the same for all blocks.

   What it shares with FMI 3.0 is in instance.h, which says how the parts fit together. */

#include "fmi2_settings.c"
#include "fmi2_unused.c" /* one file to compile */
#include "instance.h"
#include "run.h"
#include "saved.h"
#include "slopes.h"
#include "values.h"

/* ---- instances ---- */

const char *fmi2GetTypesPlatform(void)
{
    return fmi2TypesPlatform;
}

const char *fmi2GetVersion(void)
{
    return fmi2Version;
}

fmi2Component fmi2Instantiate(fmi2String name, fmi2Type type, fmi2String guid, fmi2String resources,
                              const fmi2CallbackFunctions *callbacks, fmi2Boolean visible,
                              fmi2Boolean logging_on)
{
    /* no resources, no window, and errors are always logged */
    (void)resources, (void)visible, (void)logging_on;
    if (!callbacks || !callbacks->allocateMemory || !callbacks->freeMemory)
        return NULL;
    const int modes = type == fmi2CoSimulation    ? RB_CO_SIMULATION
                      : type == fmi2ModelExchange ? RB_MODEL_EXCHANGE
                                                  : 0;
    return create(callbacks, name, guid, modes);
}

void fmi2FreeInstance(fmi2Component c)
{
    discard(instance_of(c));
}

fmi2Status fmi2SetDebugLogging(fmi2Component c, fmi2Boolean logging_on, size_t n,
                               const fmi2String categories[])
{
    (void)logging_on;
    return check_categories(instance_of(c), "fmi2SetDebugLogging", n, categories);
}

/* ---- the course of a run ---- */

/* The tolerance is that of a solver in model exchange; the steps of co-simulation are fixed. */
fmi2Status fmi2SetupExperiment(fmi2Component c, fmi2Boolean tolerance_defined, fmi2Real tolerance,
                               fmi2Real start_time, fmi2Boolean stop_time_defined,
                               fmi2Real stop_time)
{
    if (!allowed(instance_of(c), "fmi2SetupExperiment", RB_INSTANTIATED))
        return fmi2Error;
    return set_up(instance_of(c), start_time, stop_time_defined, stop_time, tolerance_defined,
                  tolerance);
}

fmi2Status fmi2EnterInitializationMode(fmi2Component c)
{
    return enter(instance_of(c), "fmi2EnterInitializationMode", RB_INSTANTIATED, RB_INITIALIZATION);
}

fmi2Status fmi2ExitInitializationMode(fmi2Component c)
{
    return start_run(instance_of(c), "fmi2ExitInitializationMode");
}

fmi2Status fmi2Terminate(fmi2Component c)
{
    return terminate(instance_of(c), "fmi2Terminate");
}

fmi2Status fmi2Reset(fmi2Component c)
{
    return reset(instance_of(c), "fmi2Reset");
}

/* ---- values ---- */

fmi2Status fmi2GetReal(fmi2Component c, const fmi2ValueReference vr[], size_t n, fmi2Real value[])
{
    return RB_LOCKED(instance_of(c), get(instance_of(c), "fmi2GetReal", vr, n, value, n));
}

fmi2Status fmi2SetReal(fmi2Component c, const fmi2ValueReference vr[], size_t n,
                       const fmi2Real value[])
{
    return RB_LOCKED(instance_of(c), set(instance_of(c), "fmi2SetReal", vr, n, value, n));
}

fmi2Status fmi2GetDirectionalDerivative(fmi2Component c, const fmi2ValueReference unknowns[],
                                        size_t n_unknowns, const fmi2ValueReference knowns[],
                                        size_t n_knowns, const fmi2Real d_knowns[],
                                        fmi2Real d_unknowns[])
{
    return RB_LOCKED(instance_of(c), directional(instance_of(c), "fmi2GetDirectionalDerivative",
                                                 unknowns, n_unknowns, knowns, n_knowns, d_knowns,
                                                 n_knowns, d_unknowns, n_unknowns));
}

/* ---- saved states ---- */

fmi2Status fmi2GetFMUstate(fmi2Component c, fmi2FMUstate *saved)
{
    return RB_LOCKED(instance_of(c), get_state(instance_of(c), "fmi2GetFMUstate", saved));
}

fmi2Status fmi2SetFMUstate(fmi2Component c, fmi2FMUstate saved)
{
    return RB_LOCKED(instance_of(c), set_state(instance_of(c), "fmi2SetFMUstate", saved));
}

fmi2Status fmi2FreeFMUstate(fmi2Component c, fmi2FMUstate *saved)
{
    return free_state(instance_of(c), "fmi2FreeFMUstate", saved);
}

fmi2Status fmi2SerializedFMUstateSize(fmi2Component c, fmi2FMUstate saved, size_t *size)
{
    (void)saved;
    return serialized_size(instance_of(c), "fmi2SerializedFMUstateSize", size);
}

fmi2Status fmi2SerializeFMUstate(fmi2Component c, fmi2FMUstate saved, fmi2Byte bytes[], size_t size)
{
    return serialize(instance_of(c), "fmi2SerializeFMUstate", saved, bytes, size);
}

fmi2Status fmi2DeSerializeFMUstate(fmi2Component c, const fmi2Byte bytes[], size_t size,
                                   fmi2FMUstate *saved)
{
    return deserialize(instance_of(c), "fmi2DeSerializeFMUstate", bytes, size, saved);
}

/* ---- co-simulation ---- */

fmi2Status fmi2SetRealInputDerivatives(fmi2Component c, const fmi2ValueReference vr[], size_t n,
                                       const fmi2Integer order[], const fmi2Real value[])
{
    return RB_LOCKED(instance_of(c), set_slopes(instance_of(c), "fmi2SetRealInputDerivatives", vr,
                                                n, order, value));
}

fmi2Status fmi2DoStep(fmi2Component c, fmi2Real t, fmi2Real dt, fmi2Boolean no_state_set_before)
{
    (void)no_state_set_before;
    return RB_LOCKED(instance_of(c),
                     RB_SAMPLED(instance_of(c), do_step(instance_of(c), "fmi2DoStep", t, dt)));
}

fmi2Status fmi2GetRealStatus(fmi2Component c, const fmi2StatusKind kind, fmi2Real *value)
{
    const Instance *fmu = instance_of(c);
    if (kind != fmi2LastSuccessfulTime)
        return no_status(fmu, "fmi2GetRealStatus", kind);
    if (!allowed(fmu, "fmi2GetRealStatus", RB_STEPPING | RB_FAILED | RB_TERMINATED) ||
        !given(fmu, "fmi2GetRealStatus", value, 1))
        return fmi2Error;
    *value = fmu->now.m[RB_T];
    return fmi2OK;
}

/* A block never asks for the end of the simulation. */
fmi2Status fmi2GetBooleanStatus(fmi2Component c, const fmi2StatusKind kind, fmi2Boolean *value)
{
    const Instance *fmu = instance_of(c);
    if (kind != fmi2Terminated)
        return no_status(fmu, "fmi2GetBooleanStatus", kind);
    if (!allowed(fmu, "fmi2GetBooleanStatus", RB_STEPPING | RB_FAILED | RB_TERMINATED) ||
        !given(fmu, "fmi2GetBooleanStatus", value, 1))
        return fmi2Error;
    *value = fmi2False;
    return fmi2OK;
}

/* ---- model exchange ---- */

fmi2Status fmi2EnterEventMode(fmi2Component c)
{
    return enter(instance_of(c), "fmi2EnterEventMode", RB_CONTINUOUS, RB_EVENT);
}

fmi2Status fmi2NewDiscreteStates(fmi2Component c, fmi2EventInfo *info)
{
    const Instance *fmu = instance_of(c);
    int moved = 0;
    if (!given(fmu, "fmi2NewDiscreteStates", info, 1))
        return fmi2Error;
    const Status status =
        RB_LOCKED(instance_of(c), handle_event(instance_of(c), "fmi2NewDiscreteStates", &moved));
    if (status != fmi2OK)
        return status;
    memset(info, 0, sizeof *info);
    info->valuesOfContinuousStatesChanged = moved;
    info->nextEventTimeDefined = RB_SAMPLE_TIME > 0.0;
    info->nextEventTime = fmu->now.next_sample * RB_SAMPLE_TIME;
    return fmi2OK;
}

fmi2Status fmi2EnterContinuousTimeMode(fmi2Component c)
{
    return enter(instance_of(c), "fmi2EnterContinuousTimeMode", RB_EVENT, RB_CONTINUOUS);
}

/* States that have drifted from the place that they belong to are moved back there in an event, and
   laws that end become others. */
fmi2Status fmi2CompletedIntegratorStep(fmi2Component c, fmi2Boolean no_state_set_before,
                                       fmi2Boolean *enter_event_mode, fmi2Boolean *terminate)
{
    (void)no_state_set_before;
    if (!allowed(instance_of(c), "fmi2CompletedIntegratorStep", RB_CONTINUOUS) ||
        !given(instance_of(c), "fmi2CompletedIntegratorStep", enter_event_mode, 1) ||
        !given(instance_of(c), "fmi2CompletedIntegratorStep", terminate, 1))
        return fmi2Error;
    *enter_event_mode = wants_event(instance_of(c));
    *terminate = fmi2False;
    return fmi2OK;
}

fmi2Status fmi2SetTime(fmi2Component c, fmi2Real time)
{
    return set_time(instance_of(c), "fmi2SetTime", time);
}

fmi2Status fmi2SetContinuousStates(fmi2Component c, const fmi2Real x[], size_t n)
{
    return set_states(instance_of(c), "fmi2SetContinuousStates", x, n);
}

fmi2Status fmi2GetContinuousStates(fmi2Component c, fmi2Real x[], size_t n)
{
    return get_states(instance_of(c), "fmi2GetContinuousStates", x, n);
}

fmi2Status fmi2GetDerivatives(fmi2Component c, fmi2Real rates[], size_t n)
{
    return get_rates(instance_of(c), "fmi2GetDerivatives", rates, n);
}

fmi2Status fmi2GetNominalsOfContinuousStates(fmi2Component c, fmi2Real nominals[], size_t n)
{
    return get_nominals(instance_of(c), "fmi2GetNominalsOfContinuousStates", nominals, n);
}

fmi2Status fmi2GetEventIndicators(fmi2Component c, fmi2Real indicators[], size_t n)
{
    return get_indicators(instance_of(c), "fmi2GetEventIndicators", indicators, n);
}
