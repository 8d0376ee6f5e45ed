/* What FMI 2.0 is to the files that it shares with FMI 3.0: its status, its value references and
   its host. */

#ifndef RB_HOST_H
#define RB_HOST_H

#include "fmi2_prefix.h"

#define RB_OK fmi2OK
#define RB_WARNING fmi2Warning
#define RB_DISCARD fmi2Discard
#define RB_FAILURE fmi2Error
#define RB_TOKEN "guid"        /* what FMI calls the name of an FMU that no other FMU has */
#define RB_INPUT_DERIVATIVES 1 /* whether a host may give derivatives of inputs */

typedef fmi2Status Status;
typedef fmi2ValueReference Reference;

/* What the host of an instance gave. */
typedef fmi2CallbackFunctions Host;

static inline void host_log(const Host *host, const char *instance, Status status,
                            const char *category, const char *text)
{
    if (host->logger)
        host->logger(host->componentEnvironment, instance, status, category, text);
}

/* Memory of zeros, NULL when there is none. */
static inline void *host_allocate(const Host *host, size_t size)
{
    return host->allocateMemory(1, size);
}

static inline void host_free(const Host *host, void *memory)
{
    host->freeMemory(memory);
}

#endif
