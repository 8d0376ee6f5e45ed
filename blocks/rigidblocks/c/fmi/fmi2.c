/* FMI 2.0 functions of a block, for co-simulation and model exchange. */

#define RB_FMI 2

#include "instance.h"
#include "simulation_run.h"
#include "variable_access.h"

/* ---- input derivatives: in the next step, each input is the polynomial that they define ---- */

static inline Status set_slopes(Instance *fmu, const char *function, const Reference vr[], size_t n,
                                const int order[], const double values[])
{
    if (!is_allowed(fmu, function, RB_BEFORE_THE_RUN | RB_STEPPING) ||
        !are_known(fmu, function, vr, n) || !is_given(fmu, function, order, n) ||
        !is_given(fmu, function, values, n))
        return RB_FAILURE;
    if (fmu->modes == RB_MODEL_EXCHANGE)
        return report(fmu, RB_FAILURE, "%s is not allowed in model exchange", function);
    for (size_t i = 0; i < n; i++) {
        if (!is_change_within(vr[i], RB_U, RB_NU))
            return report(fmu, RB_FAILURE, "%s: %s is not an input", function, RB_NAMES[vr[i]]);
        if (order[i] < 1 || order[i] > RB_COURSE_ORDER)
            return report(fmu, RB_FAILURE,
                          "%s: the order of a derivative of %s must be from 1 to %d, not %d",
                          function, RB_NAMES[vr[i]], RB_COURSE_ORDER, order[i]);
        if (!isfinite(values[i]))
            return report(fmu, RB_FAILURE, "%s: a derivative of %s must be finite, not %g",
                          function, RB_NAMES[vr[i]], values[i]);
    }
    if (n > 0 && fmu->now.slopes == RB_PAST_SLOPES)
        forget_slopes(fmu);
    for (size_t i = 0; i < n; i++)
        fmu->now.slope[(order[i] - 1) * RB_NU + (int)vr[i] - RB_U] = values[i];
    if (n > 0)
        fmu->now.slopes = RB_NEXT_SLOPES;
    return RB_OK;
}

/* ---- variables of XCP ---- */

#if defined(RB_XCP)

fmi2Status fmi2GetInteger(fmi2Component c, const fmi2ValueReference vr[], size_t n,
                          fmi2Integer values[])
{
    const Instance *fmu = instance_of(c);
    if (!are_read(fmu, "fmi2GetInteger", vr, n, values, RB_XCP_PORT))
        return fmi2Error;
    for (size_t i = 0; i < n; i++)
        values[i] = fmu->service->wanted.port;
    return fmi2OK;
}

fmi2Status fmi2SetInteger(fmi2Component c, const fmi2ValueReference vr[], size_t n,
                          const fmi2Integer values[])
{
    const Instance *fmu = instance_of(c);
    fmi2Status status = fmi2OK;
    if (!are_set(fmu, "fmi2SetInteger", vr, n, values, RB_XCP_PORT))
        return fmi2Error;
    for (size_t i = 0; i < n && status == fmi2OK; i++)
        status = set_port(fmu, "fmi2SetInteger", values[i]);
    return status;
}

fmi2Status fmi2GetBoolean(fmi2Component c, const fmi2ValueReference vr[], size_t n,
                          fmi2Boolean values[])
{
    const Instance *fmu = instance_of(c);
    if (!are_read(fmu, "fmi2GetBoolean", vr, n, values, RB_XCP_ENABLED))
        return fmi2Error;
    for (size_t i = 0; i < n; i++)
        values[i] = fmu->service->wanted.enabled != 0;
    return fmi2OK;
}

fmi2Status fmi2SetBoolean(fmi2Component c, const fmi2ValueReference vr[], size_t n,
                          const fmi2Boolean values[])
{
    const Instance *fmu = instance_of(c);
    if (!are_set(fmu, "fmi2SetBoolean", vr, n, values, RB_XCP_ENABLED))
        return fmi2Error;
    for (size_t i = 0; i < n; i++)
        fmu->service->wanted.enabled = values[i] != 0;
    return fmi2OK;
}

fmi2Status fmi2GetString(fmi2Component c, const fmi2ValueReference vr[], size_t n,
                         fmi2String values[])
{
    const Instance *fmu = instance_of(c);
    if (!are_read(fmu, "fmi2GetString", vr, n, values, RB_XCP_ADDRESS))
        return fmi2Error;
    for (size_t i = 0; i < n; i++)
        values[i] = fmu->service->wanted.address;
    return fmi2OK;
}

fmi2Status fmi2SetString(fmi2Component c, const fmi2ValueReference vr[], size_t n,
                         const fmi2String values[])
{
    const Instance *fmu = instance_of(c);
    fmi2Status status = fmi2OK;
    if (!are_set(fmu, "fmi2SetString", vr, n, values, RB_XCP_ADDRESS))
        return fmi2Error;
    for (size_t i = 0; i < n && status == fmi2OK; i++)
        status = set_address(fmu, "fmi2SetString", values[i]);
    return status;
}

#endif

/* ---- FMI 2.0 functions that a block does not use ---- */

static inline fmi2Status no_status(const Instance *fmu, const char *function, fmi2StatusKind kind)
{
    if (!is_allowed(fmu, function, RB_STEPPING | RB_FAILED | RB_TERMINATED))
        return fmi2Error;
    return report(fmu, fmi2Discard, "%s: unknown status kind %d", function, (int)kind);
}

#if !defined(RB_XCP) /* only XCP has variables of these types */

static inline fmi2Status no_variables(const Instance *fmu, const char *function, size_t n)
{
    if (!is_allowed(fmu, function, RB_ANY))
        return fmi2Error;
    return n == 0
               ? fmi2OK
               : report(fmu, fmi2Error, "%s: all variables of this FMU are of type Real", function);
}

fmi2Status fmi2GetInteger(fmi2Component c, const fmi2ValueReference vr[], size_t n,
                          fmi2Integer value[])
{
    (void)vr, (void)value;
    return no_variables(instance_of(c), "fmi2GetInteger", n);
}

fmi2Status fmi2GetBoolean(fmi2Component c, const fmi2ValueReference vr[], size_t n,
                          fmi2Boolean value[])
{
    (void)vr, (void)value;
    return no_variables(instance_of(c), "fmi2GetBoolean", n);
}

fmi2Status fmi2GetString(fmi2Component c, const fmi2ValueReference vr[], size_t n,
                         fmi2String value[])
{
    (void)vr, (void)value;
    return no_variables(instance_of(c), "fmi2GetString", n);
}

fmi2Status fmi2SetInteger(fmi2Component c, const fmi2ValueReference vr[], size_t n,
                          const fmi2Integer value[])
{
    (void)vr, (void)value;
    return no_variables(instance_of(c), "fmi2SetInteger", n);
}

fmi2Status fmi2SetBoolean(fmi2Component c, const fmi2ValueReference vr[], size_t n,
                          const fmi2Boolean value[])
{
    (void)vr, (void)value;
    return no_variables(instance_of(c), "fmi2SetBoolean", n);
}

fmi2Status fmi2SetString(fmi2Component c, const fmi2ValueReference vr[], size_t n,
                         const fmi2String value[])
{
    (void)vr, (void)value;
    return no_variables(instance_of(c), "fmi2SetString", n);
}

#endif

fmi2Status fmi2GetStatus(fmi2Component c, const fmi2StatusKind kind, fmi2Status *value)
{
    (void)value;
    return no_status(instance_of(c), "fmi2GetStatus", kind);
}

fmi2Status fmi2GetIntegerStatus(fmi2Component c, const fmi2StatusKind kind, fmi2Integer *value)
{
    (void)value;
    return no_status(instance_of(c), "fmi2GetIntegerStatus", kind);
}

fmi2Status fmi2GetStringStatus(fmi2Component c, const fmi2StatusKind kind, fmi2String *value)
{
    (void)value;
    return no_status(instance_of(c), "fmi2GetStringStatus", kind);
}

/* fmi2DoStep always completes; no step is ever pending. */
fmi2Status fmi2CancelStep(fmi2Component c)
{
    return not_provided(instance_of(c), "fmi2CancelStep");
}

/* ---- interface of the block; instance.h has the parts shared with FMI 3.0 ---- */

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
    /* the block has no resources and no user interface, and always logs errors */
    (void)resources, (void)visible, (void)logging_on;
    if (!callbacks || !callbacks->allocateMemory || !callbacks->freeMemory)
        return NULL;
    const int modes = type == fmi2CoSimulation    ? RB_CO_SIMULATION
                      : type == fmi2ModelExchange ? RB_MODEL_EXCHANGE
                                                  : 0;
    return create_instance(callbacks, name, guid, modes);
}

void fmi2FreeInstance(fmi2Component c)
{
    free_instance(instance_of(c));
}

fmi2Status fmi2SetDebugLogging(fmi2Component c, fmi2Boolean logging_on, size_t n,
                               const fmi2String categories[])
{
    (void)logging_on;
    return check_categories(instance_of(c), "fmi2SetDebugLogging", n, categories);
}

/* ---- run ---- */

/* Only model exchange uses the tolerance, for the solver; co-simulation steps do not use it. */
fmi2Status fmi2SetupExperiment(fmi2Component c, fmi2Boolean tolerance_defined, fmi2Real tolerance,
                               fmi2Real start_time, fmi2Boolean stop_time_defined,
                               fmi2Real stop_time)
{
    if (!is_allowed(instance_of(c), "fmi2SetupExperiment", RB_INSTANTIATED))
        return fmi2Error;
    return set_up_run(instance_of(c), start_time, stop_time_defined, stop_time, tolerance_defined,
                      tolerance);
}

fmi2Status fmi2EnterInitializationMode(fmi2Component c)
{
    return enter_mode(instance_of(c), "fmi2EnterInitializationMode", RB_INSTANTIATED,
                      RB_INITIALIZATION);
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
    return RB_LOCKED(instance_of(c), get_values(instance_of(c), "fmi2GetReal", vr, n, value, n));
}

fmi2Status fmi2SetReal(fmi2Component c, const fmi2ValueReference vr[], size_t n,
                       const fmi2Real value[])
{
    return RB_LOCKED(instance_of(c), set_values(instance_of(c), "fmi2SetReal", vr, n, value, n));
}

fmi2Status fmi2GetDirectionalDerivative(fmi2Component c, const fmi2ValueReference unknowns[],
                                        size_t n_unknowns, const fmi2ValueReference knowns[],
                                        size_t n_knowns, const fmi2Real d_knowns[],
                                        fmi2Real d_unknowns[])
{
    return RB_LOCKED(instance_of(c),
                     directional_derivative(instance_of(c), "fmi2GetDirectionalDerivative",
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

fmi2Status fmi2GetRealOutputDerivatives(fmi2Component c, const fmi2ValueReference vr[], size_t n,
                                        const fmi2Integer order[], fmi2Real value[])
{
    return RB_LOCKED(
        instance_of(c),
        output_derivatives(instance_of(c), "fmi2GetRealOutputDerivatives", vr, n, order, value, n));
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
    if (!is_allowed(fmu, "fmi2GetRealStatus", RB_STEPPING | RB_FAILED | RB_TERMINATED) ||
        !is_given(fmu, "fmi2GetRealStatus", value, 1))
        return fmi2Error;
    *value = fmu->now.m[RB_T];
    return fmi2OK;
}

/* A block never requests termination. */
fmi2Status fmi2GetBooleanStatus(fmi2Component c, const fmi2StatusKind kind, fmi2Boolean *value)
{
    const Instance *fmu = instance_of(c);
    if (kind != fmi2Terminated)
        return no_status(fmu, "fmi2GetBooleanStatus", kind);
    if (!is_allowed(fmu, "fmi2GetBooleanStatus", RB_STEPPING | RB_FAILED | RB_TERMINATED) ||
        !is_given(fmu, "fmi2GetBooleanStatus", value, 1))
        return fmi2Error;
    *value = fmi2False;
    return fmi2OK;
}

/* ---- model exchange ---- */

fmi2Status fmi2EnterEventMode(fmi2Component c)
{
    return enter_mode(instance_of(c), "fmi2EnterEventMode", RB_CONTINUOUS, RB_EVENT);
}

fmi2Status fmi2NewDiscreteStates(fmi2Component c, fmi2EventInfo *info)
{
    const Instance *fmu = instance_of(c);
    int moved = 0;
    if (!is_given(fmu, "fmi2NewDiscreteStates", info, 1))
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
    return enter_mode(instance_of(c), "fmi2EnterContinuousTimeMode", RB_EVENT, RB_CONTINUOUS);
}

/* Request an event if the states need a projection or a switching function has changed its sign. */
fmi2Status fmi2CompletedIntegratorStep(fmi2Component c, fmi2Boolean no_state_set_before,
                                       fmi2Boolean *enter_event_mode, fmi2Boolean *terminate)
{
    (void)no_state_set_before;
    if (!is_allowed(instance_of(c), "fmi2CompletedIntegratorStep", RB_CONTINUOUS) ||
        !is_given(instance_of(c), "fmi2CompletedIntegratorStep", enter_event_mode, 1) ||
        !is_given(instance_of(c), "fmi2CompletedIntegratorStep", terminate, 1))
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
