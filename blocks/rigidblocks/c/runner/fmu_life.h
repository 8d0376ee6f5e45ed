/* How an FMU begins and ends in a runner: its library, its instance, its initialization. */

#ifndef RB_FMU_LIFE_H
#define RB_FMU_LIFE_H

#include "fmu.h"

/* The path of a file of the FMU, whose folder is beside the program, in `path`; -1 where it is too
   long. */
static inline int fmu_path(const FmuPlan *plan, const char *file, char path[FMU_PATH])
{
    const ssize_t n = readlink("/proc/self/exe", path, FMU_PATH - 1);
    if (n < 0)
        return -1;
    path[n] = 0;
    char *end = strrchr(path, '/');
    const size_t room = end ? FMU_PATH - (size_t)(end + 1 - path) : 0;
    const int written = end ? snprintf(end + 1, room, "%s/%s", plan->folder, file) : -1;
    return written < 0 || (size_t)written >= room ? -1 : 0;
}

/* A path as a URI; -1 where that is too long. */
static inline int as_uri(const char *path, char uri[FMU_PATH])
{
    size_t n = (size_t)snprintf(uri, FMU_PATH, "file://");
    for (; *path && n + 4 < FMU_PATH; path++) {
        const unsigned char c = (unsigned char)*path;
        if (isalnum(c) || strchr("/-._~", c))
            uri[n++] = *path;
        else
            n += (size_t)snprintf(uri + n, FMU_PATH - n, "%%%02X", c);
    }
    uri[n] = 0;
    return *path ? -1 : 0;
}

static inline int find_functions(Fmu *fmu)
{
    const FmuPlan *plan = fmu->plan;
    int missing = 0;
    fmu->step = found(fmu, "DoStep", "", &missing);
    for (int k = 0; k < plan->n_inputs; k++)
        fmu->set[k] = found(fmu, "Set", plan->inputs[k].type, &missing);
    for (int k = 0; k < plan->n_outputs; k++)
        fmu->get[k] = found(fmu, "Get", plan->outputs[k].type, &missing);
    if (plan->has_events) {
        fmu->update = found(fmu, "UpdateDiscreteStates", "", &missing);
        fmu->to_event = found(fmu, "EnterEventMode", "", &missing);
        fmu->to_step = found(fmu, "EnterStepMode", "", &missing);
    }
    return missing ? -1 : 0;
}

static inline void *instantiated(Fmu *fmu, const char *resources)
{
    const FmuPlan *plan = fmu->plan;
    int missing = 0;
    if (plan->version == 2) {
        char uri[FMU_PATH];
        const Call call = found(fmu, "Instantiate", "", &missing);
        fmu->callbacks = (Callbacks2){log2_of, calloc, free, NULL, fmu};
        return missing || as_uri(resources, uri) != 0
                   ? NULL
                   : call.instantiate2(plan->name, 1, plan->token, uri, &fmu->callbacks, 0, 1);
    }
    const Call call = found(fmu, "InstantiateCoSimulation", "", &missing);
    const bool events = plan->has_events;
    return missing ? NULL
                   : call.instantiate3(plan->name, plan->token, resources, false, true, events,
                                       events, NULL, 0, fmu, log3_of, NULL);
}

/* Loads the library and makes an instance; -1, with a message, where that fails. */
static inline int load_fmu(Fmu *fmu, const FmuPlan *plan)
{
    char library[FMU_PATH], resources[FMU_PATH];
    fmu->plan = plan;
    if (fmu_path(plan, plan->library, library) != 0 ||
        fmu_path(plan, plan->version == 2 ? "resources" : "resources/", resources) != 0) {
        (void)fprintf(stderr, "'%s': the path of its folder is too long\n", plan->name);
        return -1;
    }
    fmu->library = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (!fmu->library) {
        (void)fprintf(stderr, "'%s' does not load: %s\n", plan->name, dlerror());
        return -1;
    }
    if (find_functions(fmu) != 0)
        return -1;
    fmu->instance = instantiated(fmu, resources);
    if (!fmu->instance)
        (void)fprintf(stderr, "'%s' cannot be instantiated\n", plan->name);
    return fmu->instance ? 0 : -1;
}

static inline int set_constant(Fmu *fmu, const Constant *one)
{
    int missing = 0, status;
    const Call call = found(fmu, "Set", one->type, &missing);
    if (missing)
        return -1;
    if (one->sizes)
        status = call.binary3(fmu->instance, one->references, (size_t)one->n_references, one->sizes,
                              one->values, (size_t)one->n);
    else
        status = moved(fmu, call, one->references, one->n_references, one->values, one->n);
    return judged(fmu, "Set", one->type, status);
}

/* Start values and the beginning of the initialization at t. */
static inline int enter_fmu(Fmu *fmu, double t)
{
    const FmuPlan *plan = fmu->plan;
    int missing = 0;
    fmu->t = t;
    if (plan->version == 2) {
        const Call call = found(fmu, "SetupExperiment", "", &missing);
        if (missing ||
            judged(fmu, "SetupExperiment", "", call.set_up2(fmu->instance, 0, 0.0, t, 0, 0.0)) != 0)
            return -1;
    }
    for (int k = 0; k < plan->n_start; k++)
        if (set_constant(fmu, plan->start + k) != 0)
            return -1;
    if (plan->version == 2)
        return plain_call(fmu, "EnterInitializationMode");
    const Call call = found(fmu, "EnterInitializationMode", "", &missing);
    return missing ? -1
                   : judged(fmu, "EnterInitializationMode", "",
                            call.enter3(fmu->instance, false, 0.0, t, false, 0.0));
}

/* The outputs at the start from the inputs; may be repeated. */
static inline int initialize_fmu(Fmu *fmu, double *m)
{
    for (int k = 0; k < fmu->plan->n_inputs; k++)
        if (fmu->plan->inputs[k].is_parameter) /* they have their start values */
            keep_values(&fmu->plan->inputs[k], m);
    if (set_inputs_of(fmu, ALL_INPUTS, m) != 0)
        return -1;
    return get_outputs_of(fmu, m);
}

/* The end of the initialization. */
static inline int begin_fmu(Fmu *fmu, double *m)
{
    if (plain_call(fmu, "ExitInitializationMode") != 0)
        return -1;
    fmu->runs = 1;
    if (fmu->plan->has_events && handle_event(fmu, m) != 0)
        return -1;
    return get_outputs_of(fmu, m);
}

static inline void end_fmu(Fmu *fmu)
{
    if (fmu->instance && !fmu->is_lost) {
        int missing = 0;
        if (fmu->runs)
            (void)plain_call(fmu, "Terminate");
        const Call call = found(fmu, "FreeInstance", "", &missing);
        if (!missing && !fmu->is_lost)
            call.release(fmu->instance);
    }
    if (fmu->library && !fmu->is_lost)
        (void)dlclose(fmu->library);
    fmu->instance = fmu->library = NULL;
}

#endif
