/* The functions that FMI 2.0 wants in every FMU and that a block has no use for; part of fmi2.c,
   which includes it. */

#include "instance.h"

static inline fmi2Status no_status(const Instance *fmu, const char *function, fmi2StatusKind kind)
{
    if (!allowed(fmu, function, RB_STEPPING | RB_FAILED | RB_TERMINATED))
        return fmi2Error;
    return report(fmu, fmi2Discard, "%s: there is no status of kind %d", function, (int)kind);
}

#if !defined(RB_XCP) /* which has the only variables of these types */

static inline fmi2Status no_variables(const Instance *fmu, const char *function, size_t n)
{
    if (!allowed(fmu, function, RB_ANY))
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

/* A step is done when fmi2DoStep returns: none is ever pending. */
fmi2Status fmi2CancelStep(fmi2Component c)
{
    return not_provided(instance_of(c), "fmi2CancelStep");
}

fmi2Status fmi2GetRealOutputDerivatives(fmi2Component c, const fmi2ValueReference vr[], size_t n,
                                        const fmi2Integer order[], fmi2Real value[])
{
    (void)vr, (void)n, (void)order, (void)value;
    return not_provided(instance_of(c), "fmi2GetRealOutputDerivatives");
}
