/* The functions of FMI 2.0 that get and set where XCP listens; part of fmi2.c, which includes
   it. */

#include "settings.h"

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
