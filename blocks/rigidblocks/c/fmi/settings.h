/* The variables by which a host says whether and where XCP listens; nothing without it. */

#ifndef RB_SETTINGS_H
#define RB_SETTINGS_H

#include "instance.h"

#if defined(RB_XCP)

/* Whether these are n times the one variable of a type, and may be called now. */
static inline int are_setting(const Instance *fmu, const char *function, const Reference vr[],
                              size_t n, const void *values, int setting, int modes)
{
    if (!allowed(fmu, function, modes) || !given(fmu, function, vr, n) ||
        !given(fmu, function, values, n))
        return 0;
    for (size_t i = 0; i < n; i++)
        if (vr[i] != (Reference)(RB_COUNT + setting)) {
            report(fmu, RB_FAILURE, "%s: the variable %lu is of another type, or there is none",
                   function, (unsigned long)vr[i]);
            return 0;
        }
    return 1;
}

static inline int are_read(const Instance *fmu, const char *function, const Reference vr[],
                           size_t n, const void *values, int setting)
{
    return are_setting(fmu, function, vr, n, values, setting, RB_ANY);
}

static inline int are_set(const Instance *fmu, const char *function, const Reference vr[], size_t n,
                          const void *values, int setting)
{
    return are_setting(fmu, function, vr, n, values, setting, RB_BEFORE_THE_RUN);
}

static inline Status set_port(const Instance *fmu, const char *function, long port)
{
    if (port < -1 || port > 65535)
        return report(fmu, RB_FAILURE, "%s: %ld is no port, nor -1 for none", function, port);
    fmu->service->wanted.port = (int)port;
    return RB_OK;
}

static inline Status set_address(const Instance *fmu, const char *function, const char *address)
{
    struct in_addr number;
    if (!address || strlen(address) > RB_LONGEST_ADDRESS ||
        inet_pton(AF_INET, address, &number) != 1)
        return report(fmu, RB_FAILURE, "%s: '%.40s' is no address such as 127.0.0.1", function,
                      address ? address : "");
    memcpy(fmu->service->wanted.address, address, strlen(address) + 1);
    return RB_OK;
}

#endif

#endif
