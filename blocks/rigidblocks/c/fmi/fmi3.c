/* Functions of FMI 3.0 of a block, for co-simulation and model exchange. */

#define RB_FMI 3

#include "fmi3_variables.h"
#include "instance.h"
#include "simulation_run.h"
#include "sparsity.h"
#include "variable_access.h"

/* ---- adjoint derivatives: gradient of a weighted sum of unknowns with respect to the knowns; the
   seed holds the weights ----

   One directional derivative for each element of the knowns gives the exact gradient without
   further generated code. */

/* Return the derivative of the weighted sum with respect to element k of the memory. `in` holds the
   memory, zeros, and the sides. Unknowns with weight 0 are left out, even if their derivative is
   not finite. */
static inline double partial(double in[RB_SEEDED], const double weight[RB_COUNT], Reference k)
{
    /* if element k is itself an unknown, its derivative is 1 */
    double sum = weight[k];
    RB_WORKSPACE(RB_LARGE, double, out, RB_NX + RB_NY + 1);
    in[RB_SIZE + k] = 1.0;
    differentiate(in, out);
    in[RB_SIZE + k] = 0.0;
    for (int i = 0; i < RB_NX; i++)
        if (weight[RB_SIZE + i] != 0.0)
            sum += weight[RB_SIZE + i] * out[i];
    for (int i = 0; i < RB_NY; i++)
        if (weight[RB_Y + i] != 0.0)
            sum += weight[RB_Y + i] * out[RB_NX + i];
    return sum;
}

static inline Status adjoint(const Instance *fmu, const char *function, const Reference unknowns[],
                             size_t n_unknowns, const Reference knowns[], size_t n_knowns,
                             const double seed[], size_t n_seed, double sensitivity[],
                             size_t n_sensitivity)
{
    RB_WORKSPACE(RB_LARGE, double, weight, RB_COUNT);
    RB_WORKSPACE(RB_LARGE, double, in, RB_SEEDED);
    RB_WORKSPACE(RB_LARGE, double, gradient, RB_SIZE);
    memset(weight, 0, RB_COUNT * sizeof *weight);
    if (!fmu || !is_differentiable(fmu, function, unknowns, n_unknowns, knowns, n_knowns) ||
        !has_fitting_count(fmu, function, unknowns, n_unknowns, n_seed) ||
        !has_fitting_count(fmu, function, knowns, n_knowns, n_sensitivity) ||
        !is_given(fmu, function, seed, n_seed) ||
        !is_given(fmu, function, sensitivity, n_sensitivity))
        return RB_FAILURE;
    for (size_t i = 0; i < n_unknowns; i++)
        for (int k = 0; k < RB_LENGTH[unknowns[i]]; k++)
            weight[unknowns[i] + (Reference)k] += *seed++;
    set_linearization_point(fmu, in);
    for (size_t i = 0; i < n_knowns; i++)
        for (Reference k = knowns[i]; k < knowns[i] + RB_LENGTH[knowns[i]]; k++)
            if (!isfinite(gradient[k] = partial(in, weight, k)))
                return report(fmu, RB_DISCARD, "%s: the derivative by %s is not finite", function,
                              RB_NAMES[k]);
    for (size_t i = 0; i < n_knowns; sensitivity += RB_LENGTH[knowns[i++]])
        store(sensitivity, gradient + knowns[i], RB_LENGTH[knowns[i]]);
    return RB_OK;
}

/* ---- dependencies of single elements of outputs and state derivatives; the model description has
   the dependencies of whole variables ----

   Each row of the tables in sparsity.h is {dependent, independent}. Both are element indices in the
   memory, followed by the state derivatives. */

/* Return the value reference of an element for the host; `element` receives its index from 1. */
static inline Reference owner(int k, size_t *element)
{
    int first = k;
    while (RB_LENGTH[first] == 0)
        first--;
    *element = (size_t)(k - first) + 1;
    return (Reference)first;
}

/* Return the number of dependencies of a variable in the current mode; `rows` receives the address
   of the first one. */
static inline size_t dependencies(const Instance *fmu, Reference dependent,
                                  const unsigned short (**rows)[2])
{
    size_t n = 0;
    *rows = fmu->now.mode == RB_INITIALIZATION ? RB_AT_START : RB_IN_THE_RUN;
    const size_t count =
        fmu->now.mode == RB_INITIALIZATION ? (size_t)RB_AT_START_ROWS : (size_t)RB_IN_THE_RUN_ROWS;
    const size_t end = dependent + RB_LENGTH[dependent];
    size_t k = 0;
    while (k < count && (**rows)[0] < dependent)
        k++, (*rows)++;
    for (; k + n < count && (*rows)[n][0] < end;)
        n++;
    return n;
}

static inline Status count_dependencies(const Instance *fmu, const char *function,
                                        Reference dependent, size_t *n)
{
    const unsigned short (*rows)[2];
    if (!is_allowed(fmu, function, RB_ANY) || !are_known(fmu, function, &dependent, 1) ||
        !is_given(fmu, function, n, 1))
        return RB_FAILURE;
    *n = dependencies(fmu, dependent, &rows);
    return RB_OK;
}

static inline Status get_dependencies(const Instance *fmu, const char *function,
                                      Reference dependent, size_t elements[],
                                      Reference independents[], size_t independent_elements[],
                                      fmi3DependencyKind kinds[], size_t n)
{
    const unsigned short (*rows)[2];
    if (!is_allowed(fmu, function, RB_ANY) || !are_known(fmu, function, &dependent, 1))
        return RB_FAILURE;
    const size_t count = dependencies(fmu, dependent, &rows);
    if (n != count)
        return report(fmu, RB_FAILURE, "%s: %s has %lu dependencies, not %lu", function,
                      RB_NAMES[dependent], (unsigned long)count, (unsigned long)n);
    if (!is_given(fmu, function, elements, n) || !is_given(fmu, function, independents, n) ||
        !is_given(fmu, function, independent_elements, n) || !is_given(fmu, function, kinds, n))
        return RB_FAILURE;
    for (size_t i = 0; i < n; i++) {
        owner(rows[i][0], &elements[i]);
        independents[i] = owner(rows[i][1], &independent_elements[i]);
        kinds[i] = fmi3Dependent;
    }
    return RB_OK;
}

/* ---- event iterations: not supported ---- */

fmi3Status fmi3EvaluateDiscreteStates(fmi3Instance c)
{
    return not_provided(instance_of(c), "fmi3EvaluateDiscreteStates");
}

/* ---- interface of the block; instance.h has the parts shared with FMI 2.0 ---- */

/* ---- instances ---- */

const char *fmi3GetVersion(void)
{
    return fmi3Version;
}

/* The block has no resources and no user interface, and always logs errors. */
fmi3Instance fmi3InstantiateCoSimulation(fmi3String name, fmi3String token, fmi3String resources,
                                         fmi3Boolean visible, fmi3Boolean logging_on,
                                         fmi3Boolean event_mode, fmi3Boolean early_return,
                                         const fmi3ValueReference intermediate[],
                                         size_t n_intermediate, fmi3InstanceEnvironment environment,
                                         fmi3LogMessageCallback log,
                                         fmi3IntermediateUpdateCallback update_callback)
{
    const Host host = {environment, log, update_callback, early_return};
    (void)resources, (void)visible, (void)logging_on;
    Instance *fmu = create_instance(&host, name, token,
                                    event_mode ? RB_CO_SIMULATION | RB_EVENT : RB_CO_SIMULATION);
    if (fmu && !keep_required(fmu, intermediate, n_intermediate)) {
        free_instance(fmu);
        return NULL;
    }
    return fmu;
}

fmi3Instance fmi3InstantiateModelExchange(fmi3String name, fmi3String token, fmi3String resources,
                                          fmi3Boolean visible, fmi3Boolean logging_on,
                                          fmi3InstanceEnvironment environment,
                                          fmi3LogMessageCallback log)
{
    const Host host = {environment, log, NULL, 0};
    (void)resources, (void)visible, (void)logging_on;
    return create_instance(&host, name, token, RB_MODEL_EXCHANGE);
}

fmi3Instance fmi3InstantiateScheduledExecution(
    fmi3String name, fmi3String token, fmi3String resources, fmi3Boolean visible,
    fmi3Boolean logging_on, fmi3InstanceEnvironment environment, fmi3LogMessageCallback log,
    fmi3ClockUpdateCallback clock_update, fmi3LockPreemptionCallback lock,
    fmi3UnlockPreemptionCallback unlock)
{
    /* the only clock is periodic, and the host does not interrupt the only partition */
    const Host host = {environment, log, NULL, 0};
    (void)resources, (void)visible, (void)logging_on, (void)clock_update, (void)lock, (void)unlock;
    return create_instance(&host, name, token, RB_SCHEDULED_EXECUTION);
}

void fmi3FreeInstance(fmi3Instance c)
{
    free_instance(instance_of(c));
}

fmi3Status fmi3SetDebugLogging(fmi3Instance c, fmi3Boolean logging_on, size_t n,
                               const fmi3String categories[])
{
    (void)logging_on;
    return check_categories(instance_of(c), "fmi3SetDebugLogging", n, categories);
}

/* ---- run ---- */

/* Only model exchange uses the tolerance, for the solver; co-simulation steps do not use it. */
fmi3Status fmi3EnterInitializationMode(fmi3Instance c, fmi3Boolean tolerance_defined,
                                       fmi3Float64 tolerance, fmi3Float64 start_time,
                                       fmi3Boolean stop_time_defined, fmi3Float64 stop_time)
{
    if (!is_allowed(instance_of(c), "fmi3EnterInitializationMode", RB_INSTANTIATED) ||
        set_up_run(instance_of(c), start_time, stop_time_defined, stop_time, tolerance_defined,
                   tolerance))
        return fmi3Error;
    return enter_mode(instance_of(c), "fmi3EnterInitializationMode", RB_INSTANTIATED,
                      RB_INITIALIZATION);
}

fmi3Status fmi3ExitInitializationMode(fmi3Instance c)
{
    return start_run(instance_of(c), "fmi3ExitInitializationMode");
}

fmi3Status fmi3Terminate(fmi3Instance c)
{
    return terminate(instance_of(c), "fmi3Terminate");
}

fmi3Status fmi3Reset(fmi3Instance c)
{
    return reset(instance_of(c), "fmi3Reset");
}

/* ---- values ---- */

fmi3Status fmi3GetFloat64(fmi3Instance c, const fmi3ValueReference vr[], size_t n,
                          fmi3Float64 values[], size_t n_values)
{
    if (!are_of_type(instance_of(c), "fmi3GetFloat64", vr, n, 0))
        return fmi3Error;
    return RB_LOCKED(instance_of(c),
                     get_values(instance_of(c), "fmi3GetFloat64", vr, n, values, n_values));
}

fmi3Status fmi3SetFloat64(fmi3Instance c, const fmi3ValueReference vr[], size_t n,
                          const fmi3Float64 values[], size_t n_values)
{
    if (!are_of_type(instance_of(c), "fmi3SetFloat64", vr, n, 0))
        return fmi3Error;
    return RB_LOCKED(instance_of(c),
                     set_values(instance_of(c), "fmi3SetFloat64", vr, n, values, n_values));
}

fmi3Status fmi3GetDirectionalDerivative(fmi3Instance c, const fmi3ValueReference unknowns[],
                                        size_t n_unknowns, const fmi3ValueReference knowns[],
                                        size_t n_knowns, const fmi3Float64 seed[], size_t n_seed,
                                        fmi3Float64 sensitivity[], size_t n_sensitivity)
{
    if (!has_constant_sizes(instance_of(c), "fmi3GetDirectionalDerivative"))
        return fmi3Error;
    if (!are_of_type(instance_of(c), "fmi3GetDirectionalDerivative", unknowns, n_unknowns, 0) ||
        !are_of_type(instance_of(c), "fmi3GetDirectionalDerivative", knowns, n_knowns, 0))
        return fmi3Error;
    return RB_LOCKED(instance_of(c),
                     directional_derivative(instance_of(c), "fmi3GetDirectionalDerivative",
                                            unknowns, n_unknowns, knowns, n_knowns, seed, n_seed,
                                            sensitivity, n_sensitivity));
}

fmi3Status fmi3GetAdjointDerivative(fmi3Instance c, const fmi3ValueReference unknowns[],
                                    size_t n_unknowns, const fmi3ValueReference knowns[],
                                    size_t n_knowns, const fmi3Float64 seed[], size_t n_seed,
                                    fmi3Float64 sensitivity[], size_t n_sensitivity)
{
    if (!has_constant_sizes(instance_of(c), "fmi3GetAdjointDerivative"))
        return fmi3Error;
    if (!are_of_type(instance_of(c), "fmi3GetAdjointDerivative", unknowns, n_unknowns, 0) ||
        !are_of_type(instance_of(c), "fmi3GetAdjointDerivative", knowns, n_knowns, 0) ||
        !is_given(instance_of(c), "fmi3GetAdjointDerivative", seed, n_seed) ||
        !is_given(instance_of(c), "fmi3GetAdjointDerivative", sensitivity, n_sensitivity))
        return fmi3Error;
    return RB_LOCKED(instance_of(c),
                     adjoint(instance_of(c), "fmi3GetAdjointDerivative", unknowns, n_unknowns,
                             knowns, n_knowns, seed, n_seed, sensitivity, n_sensitivity));
}

fmi3Status fmi3GetNumberOfVariableDependencies(fmi3Instance c, fmi3ValueReference vr, size_t *n)
{
    if (!has_constant_sizes(instance_of(c), "fmi3GetNumberOfVariableDependencies"))
        return fmi3Error;
    return count_dependencies(instance_of(c), "fmi3GetNumberOfVariableDependencies", vr, n);
}

fmi3Status fmi3GetVariableDependencies(fmi3Instance c, fmi3ValueReference dependent,
                                       size_t elements[], fmi3ValueReference independents[],
                                       size_t independent_elements[], fmi3DependencyKind kinds[],
                                       size_t n)
{
    if (!has_constant_sizes(instance_of(c), "fmi3GetVariableDependencies"))
        return fmi3Error;
    return get_dependencies(instance_of(c), "fmi3GetVariableDependencies", dependent, elements,
                            independents, independent_elements, kinds, n);
}

/* ---- saved states ---- */

fmi3Status fmi3GetFMUState(fmi3Instance c, fmi3FMUState *saved)
{
    return RB_LOCKED(instance_of(c), get_state(instance_of(c), "fmi3GetFMUState", saved));
}

fmi3Status fmi3SetFMUState(fmi3Instance c, fmi3FMUState saved)
{
    return RB_LOCKED(instance_of(c), set_state(instance_of(c), "fmi3SetFMUState", saved));
}

fmi3Status fmi3FreeFMUState(fmi3Instance c, fmi3FMUState *saved)
{
    return free_state(instance_of(c), "fmi3FreeFMUState", saved);
}

fmi3Status fmi3SerializedFMUStateSize(fmi3Instance c, fmi3FMUState saved, size_t *size)
{
    (void)saved;
    return serialized_size(instance_of(c), "fmi3SerializedFMUStateSize", size);
}

fmi3Status fmi3SerializeFMUState(fmi3Instance c, fmi3FMUState saved, fmi3Byte bytes[], size_t size)
{
    return serialize(instance_of(c), "fmi3SerializeFMUState", saved, bytes, size);
}

fmi3Status fmi3DeserializeFMUState(fmi3Instance c, const fmi3Byte bytes[], size_t size,
                                   fmi3FMUState *saved)
{
    return deserialize(instance_of(c), "fmi3DeserializeFMUState", bytes, size, saved);
}

/* ---- co-simulation ---- */

/* A block never requests termination. */
fmi3Status fmi3DoStep(fmi3Instance c, fmi3Float64 t, fmi3Float64 dt,
                      fmi3Boolean no_state_set_before, fmi3Boolean *event_handling_needed,
                      fmi3Boolean *terminate, fmi3Boolean *early_return,
                      fmi3Float64 *last_successful_time)
{
    const Instance *fmu = instance_of(c);
    (void)no_state_set_before;
    if (!is_given(fmu, "fmi3DoStep", event_handling_needed, 1) ||
        !is_given(fmu, "fmi3DoStep", terminate, 1) ||
        !is_given(fmu, "fmi3DoStep", early_return, 1) ||
        !is_given(fmu, "fmi3DoStep", last_successful_time, 1))
        return fmi3Error;
    int event = 0, early = 0;
    const Status status = RB_LOCKED(
        fmu, RB_SAMPLED(fmu, is_shared(fmu)
                                 ? shared_step(instance_of(c), "fmi3DoStep", t, dt, &event, &early)
                                 : do_step(instance_of(c), "fmi3DoStep", t, dt)));
    if (status == fmi3Error)
        return status;
    *event_handling_needed = event != 0;
    *terminate = fmi3False;
    *early_return = early != 0;
    *last_successful_time = fmu->now.m[RB_T];
    return status;
}

fmi3Status fmi3GetOutputDerivatives(fmi3Instance c, const fmi3ValueReference vr[], size_t n,
                                    const fmi3Int32 orders[], fmi3Float64 values[], size_t n_values)
{
    return RB_LOCKED(instance_of(c), output_derivatives(instance_of(c), "fmi3GetOutputDerivatives",
                                                        vr, n, orders, values, n_values));
}

fmi3Status fmi3EnterStepMode(fmi3Instance c)
{
    return RB_LOCKED(instance_of(c), enter_step_mode(instance_of(c), "fmi3EnterStepMode"));
}

/* ---- scheduled execution ---- */

/* Run the model partition of the clock at the time t: a step from the time of the FMU to t with the
   current inputs. At the start time the initialization has done the work. */
static inline Status activate_partition(Instance *fmu, const char *function, Reference clock,
                                        double t)
{
    if (!is_allowed(fmu, function, RB_ACTIVATION))
        return RB_FAILURE;
    if (clock != RB_CLOCK)
        return report(fmu, RB_FAILURE, "%s: %lu is not the clock %d", function,
                      (unsigned long)clock, (int)RB_CLOCK);
    const double now = fmu->now.m[RB_T];
    if (t == now || !is_step_accepted(fmu, now, t - now))
        return t == now ? RB_OK : RB_FAILURE;
    fmu->now.mode = RB_STEPPING;
    const Status status = do_step(fmu, function, now, t - now);
    if (fmu->now.mode == RB_STEPPING)
        fmu->now.mode = RB_ACTIVATION;
    return status;
}

fmi3Status fmi3ActivateModelPartition(fmi3Instance c, fmi3ValueReference clock, fmi3Float64 time)
{
    return RB_LOCKED(
        instance_of(c),
        RB_SAMPLED(instance_of(c),
                   activate_partition(instance_of(c), "fmi3ActivateModelPartition", clock, time)));
}

/* ---- events and model exchange ---- */

fmi3Status fmi3EnterEventMode(fmi3Instance c)
{
    return enter_mode(instance_of(c), "fmi3EnterEventMode", RB_CONTINUOUS | RB_STEPPING, RB_EVENT);
}

fmi3Status fmi3UpdateDiscreteStates(fmi3Instance c, fmi3Boolean *update_needed,
                                    fmi3Boolean *terminate, fmi3Boolean *nominals_changed,
                                    fmi3Boolean *values_changed,
                                    fmi3Boolean *next_event_time_defined,
                                    fmi3Float64 *next_event_time)
{
    const Instance *fmu = instance_of(c);
    int moved = 0;
    if (!is_given(fmu, "fmi3UpdateDiscreteStates", update_needed, 1) ||
        !is_given(fmu, "fmi3UpdateDiscreteStates", terminate, 1) ||
        !is_given(fmu, "fmi3UpdateDiscreteStates", nominals_changed, 1) ||
        !is_given(fmu, "fmi3UpdateDiscreteStates", values_changed, 1) ||
        !is_given(fmu, "fmi3UpdateDiscreteStates", next_event_time_defined, 1) ||
        !is_given(fmu, "fmi3UpdateDiscreteStates", next_event_time, 1))
        return fmi3Error;
    const Status status =
        RB_LOCKED(instance_of(c), handle_event(instance_of(c), "fmi3UpdateDiscreteStates", &moved));
    if (status != fmi3OK)
        return status;
    *update_needed = *terminate = *nominals_changed = fmi3False;
    *values_changed = moved != 0;
    *next_event_time_defined = !is_clocked(fmu) && RB_SAMPLE_TIME > 0.0;
    *next_event_time = fmu->now.next_sample * RB_SAMPLE_TIME;
    return fmi3OK;
}

fmi3Status fmi3EnterContinuousTimeMode(fmi3Instance c)
{
    const Instance *fmu = instance_of(c);
    if (fmu && fmu->now.mode == RB_EVENT && !is_tick_handled(fmu, "fmi3EnterContinuousTimeMode"))
        return fmi3Error;
    return enter_mode(instance_of(c), "fmi3EnterContinuousTimeMode", RB_EVENT, RB_CONTINUOUS);
}

/* Request an event if the states need a projection or a switching function has changed its sign. */
fmi3Status fmi3CompletedIntegratorStep(fmi3Instance c, fmi3Boolean no_state_set_before,
                                       fmi3Boolean *enter_event_mode, fmi3Boolean *terminate)
{
    (void)no_state_set_before;
    if (!is_allowed(instance_of(c), "fmi3CompletedIntegratorStep", RB_CONTINUOUS) ||
        !is_given(instance_of(c), "fmi3CompletedIntegratorStep", enter_event_mode, 1) ||
        !is_given(instance_of(c), "fmi3CompletedIntegratorStep", terminate, 1))
        return fmi3Error;
    *enter_event_mode = wants_event(instance_of(c));
    *terminate = fmi3False;
    return fmi3OK;
}

fmi3Status fmi3SetTime(fmi3Instance c, fmi3Float64 time)
{
    return set_time(instance_of(c), "fmi3SetTime", time);
}

fmi3Status fmi3SetContinuousStates(fmi3Instance c, const fmi3Float64 x[], size_t n)
{
    return set_states(instance_of(c), "fmi3SetContinuousStates", x, n);
}

fmi3Status fmi3GetContinuousStates(fmi3Instance c, fmi3Float64 x[], size_t n)
{
    return get_states(instance_of(c), "fmi3GetContinuousStates", x, n);
}

fmi3Status fmi3GetContinuousStateDerivatives(fmi3Instance c, fmi3Float64 rates[], size_t n)
{
    return get_rates(instance_of(c), "fmi3GetContinuousStateDerivatives", rates, n);
}

fmi3Status fmi3GetNominalsOfContinuousStates(fmi3Instance c, fmi3Float64 nominals[], size_t n)
{
    return get_nominals(instance_of(c), "fmi3GetNominalsOfContinuousStates", nominals, n);
}

fmi3Status fmi3GetNumberOfContinuousStates(fmi3Instance c, size_t *n)
{
    if (!is_model_exchange_call(instance_of(c), "fmi3GetNumberOfContinuousStates",
                                RB_MODEL_EXCHANGE) ||
        !is_given(instance_of(c), "fmi3GetNumberOfContinuousStates", n, 1))
        return fmi3Error;
    *n = RB_NX;
    return fmi3OK;
}

fmi3Status fmi3GetNumberOfEventIndicators(fmi3Instance c, size_t *n)
{
    if (!is_model_exchange_call(instance_of(c), "fmi3GetNumberOfEventIndicators",
                                RB_MODEL_EXCHANGE) ||
        !is_given(instance_of(c), "fmi3GetNumberOfEventIndicators", n, 1))
        return fmi3Error;
    *n = RB_INDICATORS;
    return fmi3OK;
}

fmi3Status fmi3GetEventIndicators(fmi3Instance c, fmi3Float64 indicators[], size_t n)
{
    return get_indicators(instance_of(c), "fmi3GetEventIndicators", indicators, n);
}
