/* Types and functions of the FMI version: status, value references and functions of the host.

   RB_FMI is 2 or 3; fmi2.c and fmi3.c define it. All other files use the names below for both
   versions. */

#ifndef RB_HOST_H
#define RB_HOST_H

#if RB_FMI == 2

/* ---- FMI 2.0 ---- */

#include "fmi2Functions.h"

/* If a program links several FMUs, -DFMI2_FUNCTION_PREFIX=arm_ changes the names to
   arm_fmi2Instantiate and so on, as in the standard's fmi2Functions.h. FMPy's copy of that file
   never adds the prefix. */

#if defined(FMI2_FUNCTION_PREFIX)
#undef fmi2FullName
#define fmi2Join(a, b) a##b
#define fmi2JoinExpanded(a, b) fmi2Join(a, b)
#define fmi2FullName(name) fmi2JoinExpanded(FMI2_FUNCTION_PREFIX, name)
#endif

#define RB_OK fmi2OK
#define RB_WARNING fmi2Warning
#define RB_DISCARD fmi2Discard
#define RB_FAILURE fmi2Error
#define RB_TOKEN "guid"        /* FMI's term for the unique name of an FMU */
#define RB_INPUT_DERIVATIVES 1 /* hosts may give input derivatives */

typedef fmi2Status Status;
typedef fmi2ValueReference Reference;
typedef fmi2Integer Order; /* order of a derivative */

/* Functions of the host. */
typedef fmi2CallbackFunctions Host;

static inline void host_log(const Host *host, const char *instance, Status status,
                            const char *category, const char *text)
{
    if (host->logger)
        host->logger(host->componentEnvironment, instance, status, category, text);
}

/* Allocate zeroed memory; NULL if this fails. */
static inline void *host_allocate(const Host *host, size_t size)
{
    return host->allocateMemory(1, size);
}

static inline void host_free(const Host *host, void *memory)
{
    host->freeMemory(memory);
}

#else

/* ---- FMI 3.0 ---- */

#include <stdlib.h>

/* the standard's header declares two function types without prototypes */
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
#define RB_TOKEN "instantiation token" /* FMI's term for the unique name of an FMU */
#define RB_INPUT_DERIVATIVES 0         /* hosts cannot set input derivatives */

typedef fmi3Status Status;
typedef fmi3ValueReference Reference;
typedef fmi3Int32 Order; /* order of a derivative */

/* Functions of the host. */
typedef struct {
    fmi3InstanceEnvironment environment;
    fmi3LogMessageCallback log;
    fmi3IntermediateUpdateCallback update; /* NULL if the host uses no intermediate updates */
    int early_return;                      /* 1 if a step may return early */
} Host;

static inline void host_log(const Host *host, const char *instance, Status status,
                            const char *category, const char *text)
{
    (void)instance;
    if (host->log)
        host->log(host->environment, status, category, text);
}

/* Allocate zeroed memory; NULL if this fails. */
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

#endif
