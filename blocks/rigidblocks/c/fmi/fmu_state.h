/* Saved states: copies of the state of a run, and their serialization. */

#ifndef RB_FMU_STATE_H
#define RB_FMU_STATE_H

#include <stdint.h>

#include "instance.h"

/* Return the hash list for the address of a saved state. */
static inline Saved **hash_list(const SavedStates *states, const void *saved)
{
    const uintptr_t key = (uintptr_t)saved / sizeof(double);
    return &states->lists[(key ^ key >> 7 ^ key >> 17) & (states->n_lists - 1)];
}

/* Return the pointer in a list that points to this saved state. If the instance does not own the
   state, return the end of the list. The state itself is not read, because the address may be
   invalid. */
static inline Saved **saved_link(const SavedStates *states, const void *saved)
{
    Saved **place = hash_list(states, saved);
    while (*place && *place != saved)
        place = &(*place)->next;
    return place;
}

static inline void insert(SavedStates *states, Saved *saved)
{
    Saved **list = hash_list(states, saved);
    saved->next = *list;
    *list = saved;
}

/* Make the table four times as large when it has twice as many states as lists, if there is memory
   for it. */
static inline void spread(Instance *fmu)
{
#if defined(FIXED_INSTANCES)
    (void)fmu; /* there are only few states */
#else
    SavedStates *states = &fmu->saved, old = *states;
    if (states->n < 2 * states->n_lists)
        return;
    Saved **lists = (Saved **)allocate(&fmu->host, 4 * old.n_lists * sizeof(Saved *));
    if (!lists)
        return;
    states->lists = lists;
    states->n_lists = 4 * old.n_lists;
    for (size_t i = 0; i < old.n_lists; i++)
        for (Saved *next, *saved = old.lists[i]; saved; saved = next) {
            next = saved->next;
            insert(states, saved);
        }
    if (old.lists != states->first)
        release(&fmu->host, old.lists);
#endif
}

static inline int is_saved(Instance *fmu, const char *function, const void *saved)
{
    if (!saved)
        report(fmu, RB_FAILURE, "%s: the FMU state is null", function);
    else if (!*saved_link(&fmu->saved, saved))
        report(fmu, RB_FAILURE, "%s: the instance has not saved this state", function);
    else
        return 1;
    return 0;
}

/* Save a state to *saved. The function allocates memory unless *saved can be reused. */
static inline Status save(Instance *fmu, const char *function, const State *state, void **saved)
{
    if (*saved && !is_saved(fmu, function, *saved))
        return RB_FAILURE;
    Saved *copy = (Saved *)(*saved ? *saved : allocate(&fmu->host, sizeof(Saved)));
    if (!copy)
        return report(fmu, RB_FAILURE, RB_NO_MEMORY("a state"));
    memcpy(&copy->state, state, sizeof(State));
    if (!*saved) {
        fmu->saved.n++;
        spread(fmu);
        insert(&fmu->saved, copy);
        *saved = copy;
    }
    return RB_OK;
}

static inline Status get_state(Instance *fmu, const char *function, void **saved)
{
    if (!is_allowed(fmu, function, RB_ANY) || !is_given(fmu, function, saved, 1))
        return RB_FAILURE;
    return save(fmu, function, &fmu->now, saved);
}

static inline Status set_state(Instance *fmu, const char *function, const void *saved)
{
    if (!is_allowed(fmu, function, RB_ANY) || !is_saved(fmu, function, saved))
        return RB_FAILURE;
    memcpy(&fmu->now, &((const Saved *)saved)->state, sizeof(State));
    return RB_OK;
}

static inline Status free_state(Instance *fmu, const char *function, void **saved)
{
    if (!is_allowed(fmu, function, RB_ANY))
        return RB_FAILURE;
    if (!saved || !*saved)
        return RB_OK;
    if (!is_saved(fmu, function, *saved))
        return RB_FAILURE;
    Saved **place = saved_link(&fmu->saved, *saved);
    fmu->saved.n--;
    *place = (*place)->next;
    release(&fmu->host, *saved);
    *saved = NULL;
    return RB_OK;
}

/* Return 1 if the mode is valid for the instance. */
static inline int is_mode(const Instance *fmu, int mode)
{
    return mode > 0 && mode <= RB_ANY && (mode & (mode - 1)) == 0 && (mode & fmu->modes);
}

/* Serialized state: the guid, the state as in memory, and the checksum of both. */
enum { RB_CHECKED_SIZE = sizeof RB_GUID + sizeof(State), RB_SERIALIZED_SIZE = RB_CHECKED_SIZE + 4 };

/* Return the CRC-32 of IEEE 802.3, computed bit by bit. */
static inline uint32_t checksum(const void *bytes)
{
    const unsigned char *byte = (const unsigned char *)bytes;
    uint32_t crc = 0xFFFFFFFFu;
    for (size_t i = 0; i < RB_CHECKED_SIZE; i++) {
        crc ^= byte[i];
        for (int k = 0; k < 8; k++)
            crc = crc >> 1 ^ (crc & 1u ? 0xEDB88320u : 0u);
    }
    return ~crc;
}

/* Append the checksum of a serialized state. */
static inline void seal(void *bytes)
{
    const uint32_t crc = checksum(bytes);
    memcpy((char *)bytes + RB_CHECKED_SIZE, &crc, sizeof crc);
}

static inline int is_sealed(const void *bytes)
{
    const uint32_t crc = checksum(bytes);
    return memcmp((const char *)bytes + RB_CHECKED_SIZE, &crc, sizeof crc) == 0;
}

static inline Status serialized_size(const Instance *fmu, const char *function, size_t *size)
{
    if (!is_allowed(fmu, function, RB_ANY) || !is_given(fmu, function, size, 1))
        return RB_FAILURE;
    *size = RB_SERIALIZED_SIZE;
    return RB_OK;
}

static inline Status serialize(Instance *fmu, const char *function, const void *saved, void *bytes,
                               size_t size)
{
    if (!is_allowed(fmu, function, RB_ANY) || !is_saved(fmu, function, saved) ||
        !is_given(fmu, function, bytes, 1))
        return RB_FAILURE;
    if (size < RB_SERIALIZED_SIZE)
        return report(fmu, RB_FAILURE, "a serialized state needs %d bytes, not %lu",
                      RB_SERIALIZED_SIZE, (unsigned long)size);
    memcpy(bytes, RB_GUID, sizeof RB_GUID);
    memcpy((char *)bytes + sizeof RB_GUID, &((const Saved *)saved)->state, sizeof(State));
    seal(bytes);
    return RB_OK;
}

static inline Status deserialize(Instance *fmu, const char *function, const void *bytes,
                                 size_t size, void **saved)
{
    State state;
    if (!is_allowed(fmu, function, RB_ANY) || !is_given(fmu, function, bytes, 1) ||
        !is_given(fmu, function, saved, 1))
        return RB_FAILURE;
    if (size != RB_SERIALIZED_SIZE || memcmp(bytes, RB_GUID, sizeof RB_GUID) != 0)
        return report(fmu, RB_FAILURE, "these %lu bytes are not a serialized state of this FMU",
                      (unsigned long)size);
    memcpy(&state, (const char *)bytes + sizeof RB_GUID, sizeof(State));
    int damaged = !is_sealed(bytes);
    for (int i = 0; i < RB_SLOPES; i++)
        damaged |= !isfinite(state.slope[i]);
    for (int i = 0; i < RB_SIDES; i++)
        damaged |= fabs(state.side[i]) != 1.0;
    if (damaged || !all_finite(state.m) || isnan(state.stop_time) || isnan(state.next_sample) ||
        !is_mode(fmu, state.mode))
        return report(fmu, RB_FAILURE, "the serialized state is damaged");
    return save(fmu, function, &state, saved);
}

#endif
