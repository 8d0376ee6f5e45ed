/* Memory for instances and saved states without any allocation: a fixed number of slots, which are
   the program's own.

   In a build with -DFIXED_INSTANCES=n there are n slots for instances and saved states together,
   and what the host gave to allocate with is not called. Each slot has room for a name of 200
   characters. The slots are shared by all instances of the FMU in a program, without a lock:
   instances are made and freed, and states saved, by one thread at a time. */

#ifndef RB_POOL_H
#define RB_POOL_H

#include "state.h"

#if defined(FIXED_INSTANCES)

#define RB_LONGEST_NAME 200
#define RB_TEXT_OF(number) RB_DIGITS(number)
#define RB_DIGITS(number) #number
#define RB_NO_MEMORY(what)                                                                       \
    "all " RB_TEXT_OF(FIXED_INSTANCES) " slots for instances and saved states are taken: there " \
                                       "is none for " what

typedef union {
    Instance instance;
    Saved saved;
    char room[sizeof(Instance) + RB_LONGEST_NAME + 1];
} Slot;

static Slot slots[FIXED_INSTANCES];
static unsigned char taken[FIXED_INSTANCES];

/* A slot of zeros; NULL when none is free or the size does not fit. */
static inline void *allocate(const Host *host, size_t size)
{
    (void)host;
    for (size_t i = 0; i < FIXED_INSTANCES && size <= sizeof(Slot); i++)
        if (!taken[i]) {
            taken[i] = 1;
            return memset(&slots[i], 0, sizeof(Slot));
        }
    return NULL;
}

static inline void release(const Host *host, const void *slot)
{
    (void)host;
    for (size_t i = 0; i < FIXED_INSTANCES; i++)
        if (slot == &slots[i])
            taken[i] = 0;
}

#else

#define RB_NO_MEMORY(what) "there is no memory for " what

static inline void *allocate(const Host *host, size_t size)
{
    return host_allocate(host, size);
}

static inline void release(const Host *host, void *memory)
{
    host_free(host, memory);
}

#endif

#endif
