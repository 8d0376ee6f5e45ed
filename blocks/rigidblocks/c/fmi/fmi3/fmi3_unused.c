/* The functions that FMI 3.0 wants in every FMU and that a block has no use for; part of fmi3.c,
   which includes it. */

#include "instance.h"

static inline fmi3Status no_variables(const Instance *fmu, const char *function, size_t n)
{
    if (!allowed(fmu, function, RB_ANY))
        return fmi3Error;
    return n == 0 ? fmi3OK
                  : report(fmu, fmi3Error, "%s: all variables of this FMU are of type Float64",
                           function);
}

/* The functions that get and set variables of a type that no variable has. */
#define RB_NO_VARIABLES(type)                                                         \
    fmi3Status fmi3Get##type(fmi3Instance c, const fmi3ValueReference vr[], size_t n, \
                             fmi3##type values[], size_t n_values)                    \
    {                                                                                 \
        (void)vr, (void)values, (void)n_values;                                       \
        return no_variables(instance_of(c), "fmi3Get" #type, n);                      \
    }                                                                                 \
    fmi3Status fmi3Set##type(fmi3Instance c, const fmi3ValueReference vr[], size_t n, \
                             const fmi3##type values[], size_t n_values)              \
    {                                                                                 \
        (void)vr, (void)values, (void)n_values;                                       \
        return no_variables(instance_of(c), "fmi3Set" #type, n);                      \
    }

RB_NO_VARIABLES(Float32)
RB_NO_VARIABLES(Int8)
RB_NO_VARIABLES(UInt8)
RB_NO_VARIABLES(Int16)
RB_NO_VARIABLES(UInt16)
RB_NO_VARIABLES(UInt32)
RB_NO_VARIABLES(Int64)
RB_NO_VARIABLES(UInt64)
#if !defined(RB_XCP) /* which has the only variables of these types */
RB_NO_VARIABLES(Int32)
RB_NO_VARIABLES(Boolean)
RB_NO_VARIABLES(String)
#endif

fmi3Status fmi3GetBinary(fmi3Instance c, const fmi3ValueReference vr[], size_t n, size_t sizes[],
                         fmi3Binary values[], size_t n_values)
{
    (void)vr, (void)sizes, (void)values, (void)n_values;
    return no_variables(instance_of(c), "fmi3GetBinary", n);
}

fmi3Status fmi3SetBinary(fmi3Instance c, const fmi3ValueReference vr[], size_t n,
                         const size_t sizes[], const fmi3Binary values[], size_t n_values)
{
    (void)vr, (void)sizes, (void)values, (void)n_values;
    return no_variables(instance_of(c), "fmi3SetBinary", n);
}

fmi3Status fmi3GetClock(fmi3Instance c, const fmi3ValueReference vr[], size_t n, fmi3Clock values[])
{
    (void)vr, (void)values;
    return no_variables(instance_of(c), "fmi3GetClock", n);
}

fmi3Status fmi3SetClock(fmi3Instance c, const fmi3ValueReference vr[], size_t n,
                        const fmi3Clock values[])
{
    (void)vr, (void)values;
    return no_variables(instance_of(c), "fmi3SetClock", n);
}

/* ---- nothing is configured ---- */

fmi3Status fmi3EnterConfigurationMode(fmi3Instance c)
{
    return not_provided(instance_of(c), "fmi3EnterConfigurationMode");
}

fmi3Status fmi3ExitConfigurationMode(fmi3Instance c)
{
    return not_provided(instance_of(c), "fmi3ExitConfigurationMode");
}

/* ---- there are no clocks ---- */

fmi3Status fmi3GetIntervalDecimal(fmi3Instance c, const fmi3ValueReference vr[], size_t n,
                                  fmi3Float64 intervals[], fmi3IntervalQualifier qualifiers[])
{
    (void)vr, (void)n, (void)intervals, (void)qualifiers;
    return not_provided(instance_of(c), "fmi3GetIntervalDecimal");
}

fmi3Status fmi3GetIntervalFraction(fmi3Instance c, const fmi3ValueReference vr[], size_t n,
                                   fmi3UInt64 counters[], fmi3UInt64 resolutions[],
                                   fmi3IntervalQualifier qualifiers[])
{
    (void)vr, (void)n, (void)counters, (void)resolutions, (void)qualifiers;
    return not_provided(instance_of(c), "fmi3GetIntervalFraction");
}

fmi3Status fmi3GetShiftDecimal(fmi3Instance c, const fmi3ValueReference vr[], size_t n,
                               fmi3Float64 shifts[])
{
    (void)vr, (void)n, (void)shifts;
    return not_provided(instance_of(c), "fmi3GetShiftDecimal");
}

fmi3Status fmi3GetShiftFraction(fmi3Instance c, const fmi3ValueReference vr[], size_t n,
                                fmi3UInt64 counters[], fmi3UInt64 resolutions[])
{
    (void)vr, (void)n, (void)counters, (void)resolutions;
    return not_provided(instance_of(c), "fmi3GetShiftFraction");
}

fmi3Status fmi3SetIntervalDecimal(fmi3Instance c, const fmi3ValueReference vr[], size_t n,
                                  const fmi3Float64 intervals[])
{
    (void)vr, (void)n, (void)intervals;
    return not_provided(instance_of(c), "fmi3SetIntervalDecimal");
}

fmi3Status fmi3SetIntervalFraction(fmi3Instance c, const fmi3ValueReference vr[], size_t n,
                                   const fmi3UInt64 counters[], const fmi3UInt64 resolutions[])
{
    (void)vr, (void)n, (void)counters, (void)resolutions;
    return not_provided(instance_of(c), "fmi3SetIntervalFraction");
}

fmi3Status fmi3SetShiftDecimal(fmi3Instance c, const fmi3ValueReference vr[], size_t n,
                               const fmi3Float64 shifts[])
{
    (void)vr, (void)n, (void)shifts;
    return not_provided(instance_of(c), "fmi3SetShiftDecimal");
}

fmi3Status fmi3SetShiftFraction(fmi3Instance c, const fmi3ValueReference vr[], size_t n,
                                const fmi3UInt64 counters[], const fmi3UInt64 resolutions[])
{
    (void)vr, (void)n, (void)counters, (void)resolutions;
    return not_provided(instance_of(c), "fmi3SetShiftFraction");
}

fmi3Status fmi3ActivateModelPartition(fmi3Instance c, fmi3ValueReference clock, fmi3Float64 time)
{
    (void)clock, (void)time;
    return not_provided(instance_of(c), "fmi3ActivateModelPartition");
}

/* ---- no iterations in event mode, and no derivatives of outputs by time ---- */

fmi3Status fmi3EvaluateDiscreteStates(fmi3Instance c)
{
    return not_provided(instance_of(c), "fmi3EvaluateDiscreteStates");
}

fmi3Status fmi3GetOutputDerivatives(fmi3Instance c, const fmi3ValueReference vr[], size_t n,
                                    const fmi3Int32 orders[], fmi3Float64 values[], size_t n_values)
{
    (void)vr, (void)n, (void)orders, (void)values, (void)n_values;
    return not_provided(instance_of(c), "fmi3GetOutputDerivatives");
}
