/* FMI 3.0 functions for variables of other types than Float64: variables of XCP, binary variables,
   clocks, and structural parameters for the sizes of arrays. fmi3.c includes this header. */

#ifndef RB_FMI3_VARIABLES_H
#define RB_FMI3_VARIABLES_H

#include "instance.h"
#include "simulation_run.h"
#include "variable_access.h"

/* ---- variables of XCP ---- */

#if defined(RB_XCP)

fmi3Status fmi3GetInt32(fmi3Instance c, const fmi3ValueReference vr[], size_t n, fmi3Int32 values[],
                        size_t n_values)
{
    const Instance *fmu = instance_of(c);
    (void)n_values;
    if (!are_read(fmu, "fmi3GetInt32", vr, n, values, RB_XCP_PORT))
        return fmi3Error;
    for (size_t i = 0; i < n; i++)
        values[i] = fmu->service->wanted.port;
    return fmi3OK;
}

fmi3Status fmi3SetInt32(fmi3Instance c, const fmi3ValueReference vr[], size_t n,
                        const fmi3Int32 values[], size_t n_values)
{
    const Instance *fmu = instance_of(c);
    (void)n_values;
    fmi3Status status = fmi3OK;
    if (!are_set(fmu, "fmi3SetInt32", vr, n, values, RB_XCP_PORT))
        return fmi3Error;
    for (size_t i = 0; i < n && status == fmi3OK; i++)
        status = set_port(fmu, "fmi3SetInt32", values[i]);
    return status;
}

fmi3Status fmi3GetBoolean(fmi3Instance c, const fmi3ValueReference vr[], size_t n,
                          fmi3Boolean values[], size_t n_values)
{
    const Instance *fmu = instance_of(c);
    (void)n_values;
    if (!are_read(fmu, "fmi3GetBoolean", vr, n, values, RB_XCP_ENABLED))
        return fmi3Error;
    for (size_t i = 0; i < n; i++)
        values[i] = fmu->service->wanted.enabled != 0;
    return fmi3OK;
}

fmi3Status fmi3SetBoolean(fmi3Instance c, const fmi3ValueReference vr[], size_t n,
                          const fmi3Boolean values[], size_t n_values)
{
    const Instance *fmu = instance_of(c);
    (void)n_values;
    if (!are_set(fmu, "fmi3SetBoolean", vr, n, values, RB_XCP_ENABLED))
        return fmi3Error;
    for (size_t i = 0; i < n; i++)
        fmu->service->wanted.enabled = values[i] != 0;
    return fmi3OK;
}

fmi3Status fmi3GetString(fmi3Instance c, const fmi3ValueReference vr[], size_t n,
                         fmi3String values[], size_t n_values)
{
    const Instance *fmu = instance_of(c);
    (void)n_values;
    if (!are_read(fmu, "fmi3GetString", vr, n, values, RB_XCP_ADDRESS))
        return fmi3Error;
    for (size_t i = 0; i < n; i++)
        values[i] = fmu->service->wanted.address;
    return fmi3OK;
}

fmi3Status fmi3SetString(fmi3Instance c, const fmi3ValueReference vr[], size_t n,
                         const fmi3String values[], size_t n_values)
{
    const Instance *fmu = instance_of(c);
    (void)n_values;
    fmi3Status status = fmi3OK;
    if (!are_set(fmu, "fmi3SetString", vr, n, values, RB_XCP_ADDRESS))
        return fmi3Error;
    for (size_t i = 0; i < n && status == fmi3OK; i++)
        status = set_address(fmu, "fmi3SetString", values[i]);
    return status;
}

#endif

/* ---- FMI 3.0 functions that a block does not use ---- */

static inline fmi3Status no_variables(const Instance *fmu, const char *function, size_t n)
{
    if (!is_allowed(fmu, function, RB_ANY))
        return fmi3Error;
    return n == 0 ? fmi3OK
                  : report(fmu, fmi3Error, "%s: all variables of this FMU are of type Float64",
                           function);
}

/* Return 1 if all arrays have constant sizes. Derivatives and dependencies require this. */
static inline int has_constant_sizes(const Instance *fmu, const char *function)
{
#if defined(RB_RESIZABLE)
    return not_provided(fmu, function) == fmi3OK;
#else
    (void)fmu, (void)function;
    return 1;
#endif
}

/* Functions for the variable types that the block does not use. */
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
#if !defined(RB_RESIZABLE) /* only the size of the arrays is of this type */
RB_NO_VARIABLES(UInt64)
#endif
#if !defined(RB_XCP) /* only XCP has variables of these types */
RB_NO_VARIABLES(Int32)
RB_NO_VARIABLES(Boolean)
RB_NO_VARIABLES(String)
#endif

/* ---- binary variables: the elements of a port as little-endian doubles ---- */

#if defined(RB_BINARY)

enum { RB_DOUBLE = 8 }; /* bytes of a double */

static inline void encode(double value, unsigned char bytes[RB_DOUBLE])
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    for (int i = 0; i < RB_DOUBLE; i++)
        bytes[i] = (unsigned char)(bits >> 8 * i);
}

static inline double decode(const fmi3Byte bytes[RB_DOUBLE])
{
    uint64_t bits = 0;
    double value;
    for (int i = 0; i < RB_DOUBLE; i++)
        bits |= (uint64_t)bytes[i] << 8 * i;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Return 1 if the variables are known, and all are binary or none is. */
static inline int are_of_type(const Instance *fmu, const char *function,
                              const fmi3ValueReference vr[], size_t n, int is_binary)
{
    if (!is_allowed(fmu, function, RB_ANY | RB_INTERMEDIATE) || !are_known(fmu, function, vr, n))
        return 0;
    for (size_t i = 0; i < n; i++)
        if (RB_IS_BINARY[vr[i]] != is_binary) {
            report(fmu, RB_FAILURE, "%s: %s is %s variable", function, RB_NAMES[vr[i]],
                   is_binary ? "not a binary" : "a binary");
            return 0;
        }
    return 1;
}

static inline Status get_binary(Instance *fmu, const char *function, const fmi3ValueReference vr[],
                                size_t n, size_t sizes[], fmi3Binary values[], size_t n_values)
{
    RB_WORKSPACE(RB_LARGE, double, numbers, RB_COUNT);
    if (!fmu || !are_of_type(fmu, function, vr, n, 1) || !is_given(fmu, function, sizes, n) ||
        !is_given(fmu, function, values, n))
        return RB_FAILURE;
    if (n_values != n)
        return report(fmu, RB_FAILURE, "%s: %lu values are needed, not %lu", function,
                      (unsigned long)n, (unsigned long)n_values);
    for (size_t i = 0; i < n; i++) {
        unsigned char *bytes = fmu->encoded + RB_DOUBLE * vr[i];
        const size_t length = length_of(fmu, vr[i]);
        const Status status = get_values(fmu, function, &vr[i], 1, numbers, length);
        if (status != RB_OK)
            return status;
        for (size_t k = 0; k < length; k++)
            encode(numbers[k], bytes + RB_DOUBLE * k);
        sizes[i] = RB_DOUBLE * length;
        values[i] = bytes;
    }
    return RB_OK;
}

/* Return 1 if a value has the size of its variable, or is empty, and all its elements are
   settable. */
static inline int is_settable_binary(const Instance *fmu, const char *function, Reference variable,
                                     size_t size, const fmi3Byte *value)
{
    const size_t length = length_of(fmu, variable);
    if (size == 0)
        return 1;
    if (size != RB_DOUBLE * length) {
        report(fmu, RB_FAILURE, "%s: %s has %lu bytes, not %lu", function, RB_NAMES[variable],
               (unsigned long)(RB_DOUBLE * length), (unsigned long)size);
        return 0;
    }
    if (!is_given(fmu, function, value, size))
        return 0;
    for (size_t k = 0; k < length; k++)
        if (!is_settable(fmu, element_of(fmu, variable, k), decode(value + RB_DOUBLE * k)))
            return 0;
    return 1;
}

/* An empty value means that no message has arrived; the variable keeps its value. */
static inline Status set_binary(Instance *fmu, const char *function, const fmi3ValueReference vr[],
                                size_t n, const size_t sizes[], const fmi3Binary values[],
                                size_t n_values)
{
    if (!is_allowed(fmu, function, settable_modes(RB_ALWAYS)) ||
        !are_of_type(fmu, function, vr, n, 1) || !is_required(fmu, function, vr, n) ||
        !is_given(fmu, function, sizes, n) || !is_given(fmu, function, values, n))
        return RB_FAILURE;
    if (n_values != n)
        return report(fmu, RB_FAILURE, "%s: %lu values are needed, not %lu", function,
                      (unsigned long)n, (unsigned long)n_values);
    for (size_t i = 0; i < n; i++)
        if (!is_settable_binary(fmu, function, vr[i], sizes[i], values[i]))
            return RB_FAILURE;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < sizes[i] / RB_DOUBLE; k++)
            fmu->now.m[element_of(fmu, vr[i], k)] = decode(values[i] + RB_DOUBLE * k);
    return RB_OK;
}

fmi3Status fmi3GetBinary(fmi3Instance c, const fmi3ValueReference vr[], size_t n, size_t sizes[],
                         fmi3Binary values[], size_t n_values)
{
    Instance *fmu = instance_of(c);
    return RB_LOCKED(fmu, get_binary(fmu, "fmi3GetBinary", vr, n, sizes, values, n_values));
}

fmi3Status fmi3SetBinary(fmi3Instance c, const fmi3ValueReference vr[], size_t n,
                         const size_t sizes[], const fmi3Binary values[], size_t n_values)
{
    Instance *fmu = instance_of(c);
    return RB_LOCKED(fmu, set_binary(fmu, "fmi3SetBinary", vr, n, sizes, values, n_values));
}

#else

static inline int are_of_type(const Instance *fmu, const char *function,
                              const fmi3ValueReference vr[], size_t n, int is_binary)
{
    (void)fmu, (void)function, (void)vr, (void)n, (void)is_binary;
    return 1;
}

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

#endif

/* ---- the clock of the samples ---- */

#if defined(RB_CLOCKED)

/* Return 1 if all references are the clock, and the mode allows the call. */
static inline int are_clocks(const Instance *fmu, const char *function,
                             const fmi3ValueReference vr[], size_t n, const fmi3Clock values[],
                             int modes)
{
    if (!is_allowed(fmu, function, modes) || !is_given(fmu, function, vr, n) ||
        !is_given(fmu, function, values, n))
        return 0;
    for (size_t i = 0; i < n; i++)
        if (vr[i] != RB_CLOCK) {
            report(fmu, RB_FAILURE, "%s: %lu is not the clock %d", function, (unsigned long)vr[i],
                   (int)RB_CLOCK);
            return 0;
        }
    return 1;
}

fmi3Status fmi3GetClock(fmi3Instance c, const fmi3ValueReference vr[], size_t n, fmi3Clock values[])
{
    const Instance *fmu = instance_of(c);
    if (!are_clocks(fmu, "fmi3GetClock", vr, n, values, RB_ANY))
        return fmi3Error;
    for (size_t i = 0; i < n; i++)
        values[i] = clock_ticks(fmu) != 0;
    return fmi3OK;
}

fmi3Status fmi3SetClock(fmi3Instance c, const fmi3ValueReference vr[], size_t n,
                        const fmi3Clock values[])
{
    Instance *fmu = instance_of(c);
    if (!are_clocks(fmu, "fmi3SetClock", vr, n, values, RB_EVENT))
        return fmi3Error;
    for (size_t i = 0; i < n; i++)
        fmu->now.ticks = values[i] != 0;
    return fmi3OK;
}

#else

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

#endif

/* ---- configuration mode: the host sets the size of the resizable arrays ---- */

#if defined(RB_RESIZABLE)

/* Return 1 if all references are the size of the arrays, and the mode allows the call. */
static inline int are_sizes(const Instance *fmu, const char *function,
                            const fmi3ValueReference vr[], size_t n, const fmi3UInt64 values[],
                            size_t n_values, int modes)
{
    if (!is_allowed(fmu, function, modes) || !is_given(fmu, function, vr, n) ||
        !is_given(fmu, function, values, n))
        return 0;
    if (n != n_values) {
        report(fmu, RB_FAILURE, "%s: %lu values are needed, not %lu", function, (unsigned long)n,
               (unsigned long)n_values);
        return 0;
    }
    for (size_t i = 0; i < n; i++)
        if (vr[i] != RB_ARRAY_SIZE) {
            report(fmu, RB_FAILURE, "%s: %lu is not the structural parameter %d", function,
                   (unsigned long)vr[i], (int)RB_ARRAY_SIZE);
            return 0;
        }
    return 1;
}

fmi3Status fmi3GetUInt64(fmi3Instance c, const fmi3ValueReference vr[], size_t n,
                         fmi3UInt64 values[], size_t n_values)
{
    const Instance *fmu = instance_of(c);
    if (!are_sizes(fmu, "fmi3GetUInt64", vr, n, values, n_values, RB_ANY))
        return fmi3Error;
    for (size_t i = 0; i < n; i++)
        values[i] = fmu->now.size;
    return fmi3OK;
}

fmi3Status fmi3SetUInt64(fmi3Instance c, const fmi3ValueReference vr[], size_t n,
                         const fmi3UInt64 values[], size_t n_values)
{
    Instance *fmu = instance_of(c);
    if (!are_sizes(fmu, "fmi3SetUInt64", vr, n, values, n_values, RB_CONFIGURATION))
        return fmi3Error;
    for (size_t i = 0; i < n; i++)
        if (values[i] < 1 || values[i] > RB_RESIZABLE)
            return report(fmu, fmi3Error,
                          "the size of the arrays must be at least 1 and at most %d, not %g",
                          (int)RB_RESIZABLE, (double)values[i]);
    for (size_t i = 0; i < n; i++)
        fmu->now.size = (unsigned)values[i];
    return fmi3OK;
}

fmi3Status fmi3EnterConfigurationMode(fmi3Instance c)
{
    Instance *fmu = instance_of(c);
    if (!is_allowed(fmu, "fmi3EnterConfigurationMode", RB_INSTANTIATED))
        return fmi3Error;
    fmu->now.mode = RB_CONFIGURATION;
    return fmi3OK;
}

fmi3Status fmi3ExitConfigurationMode(fmi3Instance c)
{
    Instance *fmu = instance_of(c);
    if (!is_allowed(fmu, "fmi3ExitConfigurationMode", RB_CONFIGURATION))
        return fmi3Error;
    fmu->now.mode = RB_INSTANTIATED;
    return fmi3OK;
}

#else

fmi3Status fmi3EnterConfigurationMode(fmi3Instance c)
{
    return not_provided(instance_of(c), "fmi3EnterConfigurationMode");
}

fmi3Status fmi3ExitConfigurationMode(fmi3Instance c)
{
    return not_provided(instance_of(c), "fmi3ExitConfigurationMode");
}

#endif

/* ---- intervals of clocks: constant, in the model description ---- */

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

#endif
