/* Saved states: copies of all that a run remembers, and bytes of them. */

/* Copies a state to *saved, which is allocated unless there is one to use again. */
static Status save(const Instance *fmu, const State *state, void **saved)
{
    if (!*saved)
        *saved = allocate(&fmu->host, sizeof(State));
    if (!*saved)
        return report(fmu, FAILURE, "there is no memory for a state");
    memcpy(*saved, state, sizeof(State));
    return OK;
}

static Status get_state(const Instance *fmu, const char *function, void **saved)
{
    return allowed(fmu, function, ANY) ? save(fmu, &fmu->now, saved) : FAILURE;
}

static Status set_state(Instance *fmu, const char *function, const void *saved)
{
    if (!allowed(fmu, function, ANY))
        return FAILURE;
    if (!saved)
        return report(fmu, FAILURE, "there is no state to set");
    memcpy(&fmu->now, saved, sizeof(State));
    return OK;
}

static Status free_state(const Instance *fmu, const char *function, void **saved)
{
    if (!allowed(fmu, function, ANY))
        return FAILURE;
    if (saved && *saved) {
        release(&fmu->host, *saved);
        *saved = NULL;
    }
    return OK;
}

/* Whether it is one of the modes of the instance. */
static int is_mode(const Instance *fmu, int mode)
{
    return mode > 0 && mode <= ANY && (mode & (mode - 1)) == 0 && (mode & fmu->modes);
}

/* A serialized state is the guid and the state as it is in memory. */
enum { SERIALIZED_SIZE = sizeof GUID + sizeof(State) };

static Status serialized_size(const Instance *fmu, const char *function, size_t *size)
{
    if (!allowed(fmu, function, ANY))
        return FAILURE;
    *size = SERIALIZED_SIZE;
    return OK;
}

static Status serialize(const Instance *fmu, const char *function, const void *saved, void *bytes, size_t size)
{
    if (!allowed(fmu, function, ANY))
        return FAILURE;
    if (!saved || size < SERIALIZED_SIZE)
        return report(fmu, FAILURE, "a serialized state needs a state and %d bytes, not %lu", SERIALIZED_SIZE,
                      (unsigned long)size);
    memcpy(bytes, GUID, sizeof GUID);
    memcpy((char *)bytes + sizeof GUID, saved, sizeof(State));
    return OK;
}

static Status deserialize(const Instance *fmu, const char *function, const void *bytes, size_t size, void **saved)
{
    State state;
    if (!allowed(fmu, function, ANY))
        return FAILURE;
    if (size != SERIALIZED_SIZE || memcmp(bytes, GUID, sizeof GUID) != 0)
        return report(fmu, FAILURE, "these %lu bytes are not a serialized state of this FMU", (unsigned long)size);
    memcpy(&state, (const char *)bytes + sizeof GUID, sizeof(State));
    if (!all_finite(state.m) || isnan(state.stop_time) || !isfinite(state.next_sample) || !is_mode(fmu, state.mode))
        return report(fmu, FAILURE, "the serialized state is damaged");
    return save(fmu, &state, saved);
}
