/* What FMI 3.0 is to the files that it shares with FMI 2.0: its status, its value references and
   its host. */

#ifndef RB_HOST_H
#define RB_HOST_H

#include <stdlib.h>

/* the header of the standard has two types of functions without prototypes */
#if defined(__GNUC__)
#pragma GCC diagnostic push
#if !defined(__cplusplus)
#pragma GCC diagnostic ignored "-Wstrict-prototypes"
#endif
#endif
#include "fmi3Functions.h"
#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

#define RB_OK fmi3OK
#define RB_WARNING fmi3Warning
#define RB_DISCARD fmi3Discard
#define RB_FAILURE fmi3Error
#define RB_TOKEN "instantiation token" /* what FMI calls the name of an FMU that no other FMU has */
#define RB_INPUT_DERIVATIVES 0         /* whether a host may give derivatives of inputs */

typedef fmi3Status Status;
typedef fmi3ValueReference Reference;

/* What the host of an instance gave. */
typedef struct {
    fmi3InstanceEnvironment environment;
    fmi3LogMessageCallback log;
    fmi3IntermediateUpdateCallback update; /* NULL when the host takes no part in steps */
    int early_return;                      /* whether a step may end before its end */
} Host;

static inline void host_log(const Host *host, const char *instance, Status status,
                            const char *category, const char *text)
{
    (void)instance;
    if (host->log)
        host->log(host->environment, status, category, text);
}

/* Memory of zeros, NULL when there is none. */
static inline void *host_allocate(const Host *host, size_t size)
{
    (void)host;
    return calloc(1, size);
}

static inline void host_free(const Host *host, void *memory)
{
    (void)host;
    free(memory);
}

#endif
