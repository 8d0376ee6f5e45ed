/* Memory for instances and saved states without any allocation: a fixed number of slots, which are the program's own.

   In a build with -DFIXED_INSTANCES=n there are n slots for instances and saved states together, and what the host gave to
   allocate with is not called. Each slot has room for a name of some 200 characters. The slots are shared by all instances
   of the FMU in a program, without a lock: instances are made and freed, and states saved, by one thread at a time. */

#include <stddef.h>
#include <string.h>

#if defined(FIXED_INSTANCES)

typedef union {
    double m[SIZE + SLOPES + COUNT / 8 + 51]; /* what grows with the block, and 384 bytes for the rest and a name */
    void *aligned;
} Slot;

static Slot slots[FIXED_INSTANCES];
static unsigned char taken[FIXED_INSTANCES];

/* A slot of zeros; NULL when none is free or the size does not fit. */
static void *pool_allocate(size_t size)
{
    for (size_t i = 0; i < FIXED_INSTANCES && size <= sizeof(Slot); i++)
        if (!taken[i]) {
            taken[i] = 1;
            return memset(&slots[i], 0, sizeof(Slot));
        }
    return NULL;
}

static void pool_free(const void *slot)
{
    for (size_t i = 0; i < FIXED_INSTANCES; i++)
        if (slot == &slots[i])
            taken[i] = 0;
}

#endif
