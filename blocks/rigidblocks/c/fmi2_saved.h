/* The saved states of FMI 2.0: copies of all that a run remembers, and bytes of them. */

/* Copies a state to *saved, which is allocated unless there is one to use again. */
static fmi2Status save(const Instance *fmu, const State *state, fmi2FMUstate *saved)
{
    if (!*saved)
        *saved = fmu->callbacks.allocateMemory(1, sizeof(State));
    if (!*saved)
        return report(fmu, fmi2Error, "there is no memory for a state");
    memcpy(*saved, state, sizeof(State));
    return fmi2OK;
}

fmi2Status fmi2GetFMUstate(fmi2Component c, fmi2FMUstate *saved)
{
    const Instance *fmu = c;
    return allowed(fmu, "fmi2GetFMUstate", ANY) ? save(fmu, &fmu->now, saved) : fmi2Error;
}

fmi2Status fmi2SetFMUstate(fmi2Component c, fmi2FMUstate saved)
{
    Instance *fmu = c;
    if (!allowed(fmu, "fmi2SetFMUstate", ANY))
        return fmi2Error;
    if (!saved)
        return report(fmu, fmi2Error, "there is no state to set");
    memcpy(&fmu->now, saved, sizeof(State));
    return fmi2OK;
}

fmi2Status fmi2FreeFMUstate(fmi2Component c, fmi2FMUstate *saved)
{
    const Instance *fmu = c;
    if (!allowed(fmu, "fmi2FreeFMUstate", ANY))
        return fmi2Error;
    if (saved && *saved) {
        fmu->callbacks.freeMemory(*saved);
        *saved = NULL;
    }
    return fmi2OK;
}

/* Whether it is one of the modes: one bit of those of ANY. */
static int is_mode(int mode)
{
    return mode > 0 && mode <= ANY && (mode & (mode - 1)) == 0;
}

/* A serialized state is the guid and the state as it is in memory. */
enum { SERIALIZED_SIZE = sizeof GUID + sizeof(State) };

fmi2Status fmi2SerializedFMUstateSize(fmi2Component c, fmi2FMUstate saved, size_t *size)
{
    (void)saved;
    if (!allowed(c, "fmi2SerializedFMUstateSize", ANY))
        return fmi2Error;
    *size = SERIALIZED_SIZE;
    return fmi2OK;
}

fmi2Status fmi2SerializeFMUstate(fmi2Component c, fmi2FMUstate saved, fmi2Byte bytes[], size_t size)
{
    const Instance *fmu = c;
    if (!allowed(fmu, "fmi2SerializeFMUstate", ANY))
        return fmi2Error;
    if (!saved || size < SERIALIZED_SIZE)
        return report(fmu, fmi2Error, "a serialized state needs a state and %d bytes, not %zu", SERIALIZED_SIZE, size);
    memcpy(bytes, GUID, sizeof GUID);
    memcpy(bytes + sizeof GUID, saved, sizeof(State));
    return fmi2OK;
}

fmi2Status fmi2DeSerializeFMUstate(fmi2Component c, const fmi2Byte bytes[], size_t size, fmi2FMUstate *saved)
{
    const Instance *fmu = c;
    State state;
    if (!allowed(fmu, "fmi2DeSerializeFMUstate", ANY))
        return fmi2Error;
    if (size != SERIALIZED_SIZE || memcmp(bytes, GUID, sizeof GUID) != 0)
        return report(fmu, fmi2Error, "these %zu bytes are not a serialized state of this FMU", size);
    memcpy(&state, bytes + sizeof GUID, sizeof(State));
    if (!all_finite(state.m) || isnan(state.stop_time) || !is_mode(state.mode))
        return report(fmu, fmi2Error, "the serialized state is damaged");
    return save(fmu, &state, saved);
}
