/* The functions of FMI 3.0 that get and set where XCP listens; part of fmi3.c, which includes
   it. */

#include "settings.h"

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
