/* Saved states: copies of all that a run remembers, and bytes of them. */

/* Where the list of the saved states of an instance points to this one; the end of the list when it is none of them. */
static Saved **place_of(Instance *fmu, const void *saved)
{
    Saved **place = &fmu->saved;
    while (*place && *place != saved)
        place = &(*place)->next;
    return place;
}

static int is_saved(Instance *fmu, const char *function, const void *saved)
{
    if (!saved)
        report(fmu, FAILURE, "%s: there is no state", function);
    else if (!*place_of(fmu, saved))
        report(fmu, FAILURE, "%s: this is no state that the instance has saved", function);
    else
        return 1;
    return 0;
}

/* Copies a state to *saved, which is allocated unless there is one to use again. */
static Status save(Instance *fmu, const char *function, const State *state, void **saved)
{
    if (*saved && !is_saved(fmu, function, *saved))
        return FAILURE;
    Saved *copy = *saved ? *saved : allocate(&fmu->host, sizeof(Saved));
    if (!copy)
        return report(fmu, FAILURE, "there is no memory for a state");
    memcpy(&copy->state, state, sizeof(State));
    if (!*saved) {
        copy->next = fmu->saved;
        *saved = fmu->saved = copy;
    }
    return OK;
}

static Status get_state(Instance *fmu, const char *function, void **saved)
{
    if (!allowed(fmu, function, ANY) || !given(fmu, function, saved, 1))
        return FAILURE;
    return save(fmu, function, &fmu->now, saved);
}

static Status set_state(Instance *fmu, const char *function, const void *saved)
{
    if (!allowed(fmu, function, ANY) || !is_saved(fmu, function, saved))
        return FAILURE;
    memcpy(&fmu->now, &((const Saved *)saved)->state, sizeof(State));
    return OK;
}

static Status free_state(Instance *fmu, const char *function, void **saved)
{
    if (!allowed(fmu, function, ANY))
        return FAILURE;
    if (!saved || !*saved)
        return OK;
    if (!is_saved(fmu, function, *saved))
        return FAILURE;
    Saved **place = place_of(fmu, *saved);
    *place = (*place)->next;
    release(&fmu->host, *saved);
    *saved = NULL;
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
    if (!allowed(fmu, function, ANY) || !given(fmu, function, size, 1))
        return FAILURE;
    *size = SERIALIZED_SIZE;
    return OK;
}

static Status serialize(Instance *fmu, const char *function, const void *saved, void *bytes, size_t size)
{
    if (!allowed(fmu, function, ANY) || !is_saved(fmu, function, saved) || !given(fmu, function, bytes, 1))
        return FAILURE;
    if (size < SERIALIZED_SIZE)
        return report(fmu, FAILURE, "a serialized state needs %d bytes, not %lu", SERIALIZED_SIZE, (unsigned long)size);
    memcpy(bytes, GUID, sizeof GUID);
    memcpy((char *)bytes + sizeof GUID, &((const Saved *)saved)->state, sizeof(State));
    return OK;
}

static Status deserialize(Instance *fmu, const char *function, const void *bytes, size_t size, void **saved)
{
    State state;
    if (!allowed(fmu, function, ANY) || !given(fmu, function, bytes, 1) || !given(fmu, function, saved, 1))
        return FAILURE;
    if (size != SERIALIZED_SIZE || memcmp(bytes, GUID, sizeof GUID) != 0)
        return report(fmu, FAILURE, "these %lu bytes are not a serialized state of this FMU", (unsigned long)size);
    memcpy(&state, (const char *)bytes + sizeof GUID, sizeof(State));
    int damaged = 0;
    for (int i = 0; i < SLOPES; i++)
        damaged |= !isfinite(state.slope[i]);
    if (damaged || !all_finite(state.m) || isnan(state.stop_time) || isnan(state.next_sample) || !is_mode(fmu, state.mode))
        return report(fmu, FAILURE, "the serialized state is damaged");
    return save(fmu, function, &state, saved);
}
