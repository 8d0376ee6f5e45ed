/* Access to the variables of an instance (reading, setting, derivatives), and its saved states: copies
   of the state of a run, and their serialization. */

#ifndef RB_VARIABLE_ACCESS_H
#define RB_VARIABLE_ACCESS_H

#include <stdint.h>

#include "instance.h"
#include "tangent.h"

/* ---- event indicators, and the sides of the switching functions between two events of model
   exchange ----

   Each event indicator belongs to a switching function. The side of a switching function is 1 if it
   is positive and else -1. The side is held until the next event, so that the host's solver gets
   smooth derivatives. The event indicator is the switching function plus RB_SHIFT times the side.
   It is therefore never zero after an event. It changes its sign only when the switching function
   is beyond zero by RB_SHIFT. */

#define RB_SHIFT 1e-12 /* for switching functions of magnitude 1 */

#if RB_INDICATORS > 0

enum { RB_BOTH = RB_SIZE + RB_INDICATORS };

/* Copy the memory and then the sides into one vector. */
static inline void copy_memory_and_sides(double in[RB_BOTH], const double *m, const double *side)
{
    store(in, m, RB_SIZE);
    store(in + RB_SIZE, side, RB_INDICATORS);
}

/* Compute the RB_NX state derivatives. Their long code is compiled once for all callers. */
RB_NOT_INLINED static void rates_on(const double *m, const double *side, double *rates)
{
    RB_WORKSPACE(RB_LARGE, double, in, RB_BOTH);
    copy_memory_and_sides(in, m, side);
    held_rates(in, rates);
}

/* Compute the RB_NY outputs. */
static inline void outputs_on(const double *m, const double *side, double *y)
{
    RB_WORKSPACE(RB_LARGE, double, in, RB_BOTH);
    copy_memory_and_sides(in, m, side);
    held_outputs(in, y);
}

/* Compute the switching functions plus `shift` times their sides. */
static inline void indicators_on(const double *m, const double *side, double shift, double *z)
{
    RB_WORKSPACE(RB_LARGE, double, in, RB_BOTH);
    copy_memory_and_sides(in, m, side);
    indicators(in, z);
    for (int i = 0; i < RB_INDICATORS; i++)
        z[i] += shift * side[i];
}

/* Update all sides from the switching functions. Returns 1 if any side has changed. A switching
   function may depend on the sides of earlier ones, so each round makes at least one more side
   final. */
static inline int change_sides(const double *m, double *side, double shift)
{
    int any = 0, changed = 1;
    for (int round = 0; changed && round <= RB_INDICATORS; round++) {
        RB_WORKSPACE(RB_LARGE, double, z, RB_INDICATORS);
        changed = 0;
        indicators_on(m, side, shift, z);
        for (int i = 0; i < RB_INDICATORS; i++) {
            const double now = z[i] > 0.0 ? 1.0 : -1.0;
            changed |= (now > 0.0) != (side[i] > 0.0);
            side[i] = now;
        }
        any |= changed;
    }
    return any;
}

#else

RB_NOT_INLINED static void rates_on(const double *m, const double *side, double *rates)
{
    (void)side;
    derivative(m, rates);
}

static inline void outputs_on(const double *m, const double *side, double *y)
{
    (void)side;
    output(m, y);
}

static inline void indicators_on(const double *m, const double *side, double shift, double *z)
{
    (void)m, (void)side, (void)shift, (void)z;
}

static inline int change_sides(const double *m, double *side, double shift)
{
    (void)m, (void)side, (void)shift;
    return 0;
}

#endif

/* Compute all sides at the start of a run, or for another state. */
static inline void find_sides(const double *m, double *side)
{
    for (int i = 0; i < RB_SIDES; i++)
        side[i] = -1.0;
    change_sides(m, side, 0.0);
}

/* ---- values ---- */

/* Return 1 if the sides of the switching functions are held, between two events of model
   exchange. */
static inline int holds_sides(const Instance *fmu)
{
    return fmu->modes == RB_MODEL_EXCHANGE && !(fmu->now.mode & RB_BEFORE_THE_RUN);
}

/* Compute the initial states and outputs from the start values in m. */
static inline int initialize_from_start_values(double *m)
{
#if defined(RB_DEPENDENT_STARTS)
    set_dependent_start_values(m);
#endif
    return initialize(m, m[RB_T]);
}

/* Compute the readable values: the memory with up-to-date outputs. If `rates` is 1, also compute
   the state derivatives and event indicators. In initialization mode, compute the values with which
   the run would start. While the clock ticks, compute the values after the sample. */
static inline void compute(const Instance *fmu, int rates, double *values)
{
    RB_WORKSPACE(RB_LARGE, double, side, RB_SIDES);
    store(values, fmu->now.m, RB_SIZE);
    if (fmu->now.mode == RB_INITIALIZATION)
        initialize_from_start_values(values);
    if (fmu->now.mode == RB_EVENT && takes_clocked_sample(fmu)) {
        project_states(values, values[RB_T]);
        sample(values);
    }
    store(side, fmu->now.side, RB_SIDES);
    if (!holds_sides(fmu) && RB_INDICATORS > 0)
        find_sides(values, side);
    if (fmu->modes == RB_MODEL_EXCHANGE && fmu->now.mode != RB_INITIALIZATION)
        outputs_on(values, side, values + RB_Y);
    else if (fmu->now.mode == RB_EVENT)
        output(values, values + RB_Y);
    if (!rates)
        return;
    rates_on(values, side, values + RB_SIZE);
    indicators_on(values, side, RB_SHIFT, values + RB_SIZE + RB_NX);
}

static inline Status not_finite(const Instance *fmu, int variable)
{
    if (fmu->now.mode == RB_INITIALIZATION)
        return report(fmu, RB_FAILURE, "%s is not finite at the start, t = %g s",
                      RB_NAMES[variable], fmu->now.m[RB_T]);
    return report(fmu, RB_DISCARD, "%s is not finite at t = %g s", RB_NAMES[variable],
                  fmu->now.m[RB_T]);
}

/* In an intermediate update, return 1 if the host declared that it uses these variables. In all
   other modes, return 1. */
static inline int is_required(const Instance *fmu, const char *function, const Reference vr[],
                              size_t n)
{
    for (size_t i = 0; i < n && fmu->now.mode == RB_INTERMEDIATE; i++)
        if (!fmu->required[vr[i]]) {
            report(fmu, RB_FAILURE,
                   "%s: %s is not one of the variables required in intermediate updates", function,
                   RB_NAMES[vr[i]]);
            return 0;
        }
    return 1;
}

static inline Status get_values(const Instance *fmu, const char *function, const Reference vr[],
                                size_t n, double values[], size_t n_values)
{
    RB_WORKSPACE(RB_LARGE, double, computed, RB_COUNT);
    int rates = 0;
    if (!is_allowed(fmu, function,
                    (RB_ANY & ~(RB_INSTANTIATED | RB_CONFIGURATION)) | RB_INTERMEDIATE) ||
        !are_known(fmu, function, vr, n) || !has_fitting_count(fmu, function, vr, n, n_values) ||
        !is_given(fmu, function, values, n_values) || !is_required(fmu, function, vr, n))
        return RB_FAILURE;
    for (size_t i = 0; i < n; i++)
        rates |= vr[i] >= RB_SIZE;
    const int kept = !rates && fmu->modes != RB_MODEL_EXCHANGE &&
                     !(fmu->now.mode & (RB_INITIALIZATION | RB_EVENT));
    const double *from = kept ? fmu->now.m : computed;
    if (!kept)
        compute(fmu, rates, computed);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < length_of(fmu, vr[i]); k++)
            if (!isfinite(from[element_of(fmu, vr[i], k)]))
                return not_finite(fmu, (int)element_of(fmu, vr[i], k));
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < length_of(fmu, vr[i]); k++)
            *values++ = from[element_of(fmu, vr[i], k)];
    return RB_OK;
}

/* Return the modes in which a variable may be set, from RB_SETTABLE of fmu.h. */
static inline int settable_modes(int kind)
{
    switch (kind) {
    case RB_START_VALUE: return RB_BEFORE_THE_RUN;
    case RB_TUNABLE: return RB_BEFORE_THE_RUN | RB_STEPPING | RB_EVENT | RB_ACTIVATION;
    case RB_ALWAYS:
        return RB_BEFORE_THE_RUN | RB_STEPPING | RB_EVENT | RB_CONTINUOUS | RB_INTERMEDIATE |
               RB_ACTIVATION;
    default: return 0;
    }
}

/* Return 1 if a parameter or start value is within its bounds. Inputs during a run are not checked,
   because rounding errors of their sources may exceed the bounds. A lower bound of DBL_MIN means
   "positive". */
static inline int is_in_bounds(const Instance *fmu, Reference k, double value)
{
    const int above = value >= RB_MIN[k], below = value <= RB_MAX[k];
    if (RB_SETTABLE[k] == RB_ALWAYS && !(fmu->now.mode & RB_BEFORE_THE_RUN))
        return 1;
    if (!above && RB_MIN[k] == DBL_MIN)
        report(fmu, RB_FAILURE, "%s must be positive, not %g", RB_NAMES[k], value);
    else if (!above)
        report(fmu, RB_FAILURE, "%s must be at least %g, not %g", RB_NAMES[k], RB_MIN[k], value);
    else if (!below)
        report(fmu, RB_FAILURE, "%s must be at most %g, not %g", RB_NAMES[k], RB_MAX[k], value);
    return above && below;
}

static inline int is_settable(const Instance *fmu, Reference k, double value)
{
    if (RB_SETTABLE[k] == RB_NEVER)
        report(fmu, RB_FAILURE, "%s is computed and cannot be set", RB_NAMES[k]);
    else if (!(settable_modes(RB_SETTABLE[k]) & fmu->now.mode))
        report(fmu, RB_FAILURE, "%s %s, which cannot be set %s", RB_NAMES[k],
               RB_SETTABLE[k] == RB_TUNABLE ? "is a parameter" : "has a start value",
               mode_name(fmu->now.mode));
    else if (!isfinite(value))
        report(fmu, RB_FAILURE, "%s must be finite, not %g", RB_NAMES[k], value);
    else
        return is_in_bounds(fmu, k, value);
    return 0;
}

static inline Status set_values(Instance *fmu, const char *function, const Reference vr[], size_t n,
                                const double values[], size_t n_values)
{
    const double *value = values;
    if (!is_allowed(fmu, function, settable_modes(RB_ALWAYS)) || !are_known(fmu, function, vr, n) ||
        !has_fitting_count(fmu, function, vr, n, n_values) ||
        !is_given(fmu, function, values, n_values) || !is_required(fmu, function, vr, n))
        return RB_FAILURE;
    if (fmu->now.mode == RB_INTERMEDIATE && !fmu->inputs_wanted)
        return report(fmu, RB_FAILURE, "%s: inputs cannot be set at the end of a step", function);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < length_of(fmu, vr[i]); k++)
            if (!is_settable(fmu, element_of(fmu, vr[i], k), *value++))
                return RB_FAILURE;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < length_of(fmu, vr[i]); k++)
            fmu->now.m[element_of(fmu, vr[i], k)] = *values++;
    return RB_OK;
}

/* ---- exact derivatives of state derivatives and outputs (generated tangent.h) ---- */

static inline int is_change_within(Reference k, int start, int n)
{
    return k >= (Reference)start && k < (Reference)(start + n);
}

/* Return 1 if derivatives of `unknowns` with respect to `knowns` exist. Samples are not
   differentiated, because the sampled states are constant between samples. */
static inline int is_differentiable(const Instance *fmu, const char *function,
                                    const Reference unknowns[], size_t n_unknowns,
                                    const Reference knowns[], size_t n_knowns)
{
    if (!is_allowed(fmu, function,
                    RB_INITIALIZATION | RB_STEPPING | RB_EVENT | RB_CONTINUOUS | RB_ACTIVATION) ||
        !are_known(fmu, function, unknowns, n_unknowns) ||
        !are_known(fmu, function, knowns, n_knowns))
        return 0;
    if (fmu->now.mode == RB_INITIALIZATION && (RB_NZ > 0 || RB_PROJECTS)) {
        report(
            fmu, RB_FAILURE,
            "%s is not available in initialization mode for states that are computed at the start",
            function);
        return 0;
    }
    for (size_t i = 0; i < n_unknowns; i++)
        if (!is_change_within(unknowns[i], RB_X, RB_NX + RB_NZ) &&
            !is_change_within(unknowns[i], RB_Y, RB_NY) &&
            !is_change_within(unknowns[i], RB_SIZE, RB_NX)) {
            report(fmu, RB_FAILURE, "%s: %s is neither an output nor a state derivative", function,
                   RB_NAMES[unknowns[i]]);
            return 0;
        }
    for (size_t i = 0; i < n_knowns; i++)
        if (!is_change_within(knowns[i], RB_X, RB_NX) &&
            !is_change_within(knowns[i], RB_U, RB_NU + RB_NP)) {
            report(fmu, RB_FAILURE, "%s: %s is not an input, continuous state or parameter",
                   function, RB_NAMES[knowns[i]]);
            return 0;
        }
    return 1;
}

enum { RB_SEEDED = 2 * RB_SIZE + RB_INDICATORS };

/* Compute `tangent`, whose code is long, in one place for all callers. */
RB_NOT_INLINED static void differentiate(const double in[RB_SEEDED], double *out)
{
    tangent(in, out);
}

/* Set the linearization point: memory, zero seed, and the current sides of the switching
   functions. */
static inline void set_linearization_point(const Instance *fmu, double in[RB_SEEDED])
{
    RB_WORKSPACE(RB_LARGE, double, side, RB_SIDES);
    store(side, fmu->now.side, RB_SIDES);
    if (!holds_sides(fmu))
        find_sides(fmu->now.m, side);
    store(in, fmu->now.m, RB_SIZE);
    memset(in + RB_SIZE, 0, RB_SIZE * sizeof(double));
    for (int i = 0; i < RB_INDICATORS; i++)
        in[2 * RB_SIZE + i] = side[i];
}

/* Compute the directional derivative of the unknowns for a seed of the knowns. */
static inline Status directional_derivative(const Instance *fmu, const char *function,
                                            const Reference unknowns[], size_t n_unknowns,
                                            const Reference knowns[], size_t n_knowns,
                                            const double seed[], size_t n_seed,
                                            double sensitivity[], size_t n_sensitivity)
{
    RB_WORKSPACE(RB_LARGE, double, in, RB_SEEDED);
    /* derivatives of the memory, then of the state derivatives */
    RB_WORKSPACE(RB_LARGE, double, d, RB_COUNT + 1);
    RB_WORKSPACE(RB_LARGE, double, out, RB_NX + RB_NY + 1);
    memset(d, 0, (RB_COUNT + 1) * sizeof *d);
    if (!fmu || !is_differentiable(fmu, function, unknowns, n_unknowns, knowns, n_knowns) ||
        !has_fitting_count(fmu, function, knowns, n_knowns, n_seed) ||
        !has_fitting_count(fmu, function, unknowns, n_unknowns, n_sensitivity) ||
        !is_given(fmu, function, seed, n_seed) ||
        !is_given(fmu, function, sensitivity, n_sensitivity))
        return RB_FAILURE;
    set_linearization_point(fmu, in);
    for (size_t i = 0; i < n_knowns; i++)
        for (int k = 0; k < RB_LENGTH[knowns[i]]; k++)
            in[RB_SIZE + knowns[i] + (Reference)k] += *seed++;
    differentiate(in, out);
    store(d, in + RB_SIZE, RB_SIZE);
    store(d + RB_SIZE, out, RB_NX);
    store(d + RB_Y, out + RB_NX, RB_NY);
    for (size_t i = 0; i < n_unknowns; i++)
        for (Reference k = unknowns[i]; k < unknowns[i] + RB_LENGTH[unknowns[i]]; k++)
            if (!isfinite(d[k]))
                return report(fmu, RB_DISCARD, "%s: the derivative of %s is not finite", function,
                              RB_NAMES[k]);
    for (size_t i = 0; i < n_unknowns; sensitivity += RB_LENGTH[unknowns[i++]])
        store(sensitivity, d + unknowns[i], RB_LENGTH[unknowns[i]]);
    return RB_OK;
}

/* ---- time derivatives of the outputs at the current time, for co-simulation ----

   Along the solution the memory m changes at the rate v = (1, f, 0, u') for m = (t, x, z, u).
   Sampled states and parameters are constant between samples. The derivatives of the states x and
   of the computed outputs y = g(m) are

       x' = f,  x'' = Df v,  y' = Dg v,  y'' = D2g(v, v) + Dg (0, x'', 0, u'')

   `tangent` computes the products with Df and Dg, `curvature` computes D2g(v, v). */

#if RB_OUTPUT_ORDER > 0

enum { RB_MOVING = RB_NX + RB_NY + 1 }; /* array length, never 0 */

/* Write the direction of `tangent` after the memory in `in`: t for the time, x for the states, and
   the input derivatives of this order for the inputs. */
static inline void set_direction(const Instance *fmu, double in[RB_SEEDED], double t,
                                 const double *x, int order)
{
    double *v = in + RB_SIZE;
    v[RB_T] = t;
    for (int i = 0; i < RB_NX; i++)
        v[RB_X + i] = x[i];
    for (int i = 0; i < RB_NU && RB_SLOPES > 0; i++)
        v[RB_U + i] = fmu->now.slope[(order - 1) * RB_NU + i];
}

/* Compute the first and second derivatives of the states and of the computed outputs. */
static inline void follow_outputs(const Instance *fmu, double first[RB_MOVING],
                                  double second[RB_MOVING])
{
    RB_WORKSPACE(RB_LARGE, double, in, RB_SEEDED);
    RB_WORKSPACE(RB_LARGE, double, out, RB_MOVING);
    set_linearization_point(fmu, in);
    rates_on(in, in + 2 * RB_SIZE, first);
    set_direction(fmu, in, 1.0, first, 1);
    differentiate(in, out);
    for (int i = 0; i < RB_NY; i++)
        first[RB_NX + i] = out[RB_NX + i];
    for (int i = 0; i < RB_NX; i++)
        second[i] = out[i];
#if RB_OUTPUT_ORDER > 1
    curvature(in, second + RB_NX);
    set_direction(fmu, in, 0.0, second, 2);
    differentiate(in, out);
    for (int i = 0; i < RB_NY; i++)
        second[RB_NX + i] += out[RB_NX + i];
#endif
}

/* Return 1 if all variables are outputs with derivatives of these orders. */
static inline int have_derivatives(const Instance *fmu, const char *function, const Reference vr[],
                                   size_t n, const Order order[])
{
    for (size_t i = 0; i < n; i++) {
        if (!RB_IS_OUTPUT[vr[i]]) {
            report(fmu, RB_FAILURE, "%s: %s is not an output", function, RB_NAMES[vr[i]]);
            return 0;
        }
        if (order[i] < 1 || order[i] > RB_OUTPUT_ORDER) {
            report(fmu, RB_FAILURE,
                   "%s: the order of a derivative of %s must be at least 1 and at most %d, not %d",
                   function, RB_NAMES[vr[i]], RB_OUTPUT_ORDER, (int)order[i]);
            return 0;
        }
    }
    return 1;
}

/* Return the derivative of element k of the memory; sampled states do not change. */
static inline double derivative_of(const double moving[RB_MOVING], Reference k)
{
    if (is_change_within(k, RB_X, RB_NX))
        return moving[(int)k - RB_X];
    return is_change_within(k, RB_Y, RB_NY) ? moving[(int)k - RB_Y + RB_NX] : 0.0;
}

/* Return the index after the last element of the variable that begins at `start`. */
static inline Reference end_of_variable(Reference start)
{
    return start < RB_COUNT ? start + (Reference)RB_LENGTH[start] : start;
}

static inline Status output_derivatives(const Instance *fmu, const char *function,
                                        const Reference vr[], size_t n, const Order order[],
                                        double values[], size_t n_values)
{
    RB_WORKSPACE(RB_LARGE, double, first, RB_MOVING);
    RB_WORKSPACE(RB_LARGE, double, second, RB_MOVING);
    if (fmu && fmu->modes == RB_MODEL_EXCHANGE)
        return report(fmu, RB_FAILURE, "%s is not allowed in model exchange", function);
    if (!fmu ||
        !is_allowed(fmu, function,
                    RB_STEPPING | RB_FAILED | RB_TERMINATED | RB_EVENT | RB_INTERMEDIATE) ||
        !are_known(fmu, function, vr, n) || !is_given(fmu, function, order, n) ||
        !has_fitting_count(fmu, function, vr, n, n_values) ||
        !is_given(fmu, function, values, n_values) || !is_required(fmu, function, vr, n) ||
        !have_derivatives(fmu, function, vr, n, order))
        return RB_FAILURE;
    follow_outputs(fmu, first, second);
    for (size_t i = 0; i < n; i++)
        for (Reference k = vr[i]; k < end_of_variable(vr[i]); k++) {
            *values = derivative_of(order[i] == 1 ? first : second, k);
            if (!isfinite(*values++))
                return report(fmu, RB_DISCARD, "%s: the derivative of %s is not finite", function,
                              RB_NAMES[k]);
        }
    return RB_OK;
}

#else

static inline Status output_derivatives(const Instance *fmu, const char *function,
                                        const Reference vr[], size_t n, const Order order[],
                                        double values[], size_t n_values)
{
    (void)vr, (void)n, (void)order, (void)values, (void)n_values;
    return not_provided(fmu, function);
}

#endif

/* ---- XCP variables: the host sets whether and where XCP listens; not compiled without XCP ---- */

#if defined(RB_XCP)

/* Return 1 if all references are the only variable of this type, and if the mode allows the
   call. */
static inline int are_setting(const Instance *fmu, const char *function, const Reference vr[],
                              size_t n, const void *values, int setting, int modes)
{
    if (!is_allowed(fmu, function, modes) || !is_given(fmu, function, vr, n) ||
        !is_given(fmu, function, values, n))
        return 0;
    for (size_t i = 0; i < n; i++)
        if (vr[i] != (Reference)(RB_COUNT + setting)) {
            report(fmu, RB_FAILURE, "%s: the variable %lu is unknown or of another type", function,
                   (unsigned long)vr[i]);
            return 0;
        }
    return 1;
}

static inline int are_read(const Instance *fmu, const char *function, const Reference vr[],
                           size_t n, const void *values, int setting)
{
    return are_setting(fmu, function, vr, n, values, setting, RB_ANY);
}

static inline int are_set(const Instance *fmu, const char *function, const Reference vr[], size_t n,
                          const void *values, int setting)
{
    return are_setting(fmu, function, vr, n, values, setting, RB_BEFORE_THE_RUN);
}

static inline Status set_port(const Instance *fmu, const char *function, long port)
{
    if (port < -1 || port > 65535)
        return report(fmu, RB_FAILURE, "%s: %ld is not a port number or -1 (no port)", function,
                      port);
    fmu->service->wanted.port = (int)port;
    return RB_OK;
}

static inline Status set_address(const Instance *fmu, const char *function, const char *address)
{
    struct in_addr number;
    if (!address || strlen(address) > RB_LONGEST_ADDRESS ||
        inet_pton(AF_INET, address, &number) != 1)
        return report(fmu, RB_FAILURE, "%s: '%.40s' is not an IP address such as 127.0.0.1",
                      function, address ? address : "");
    memcpy(fmu->service->wanted.address, address, strlen(address) + 1);
    return RB_OK;
}

#endif

/* ---- saved states ---- */

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
static inline void grow_hash_table(Instance *fmu)
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
        grow_hash_table(fmu);
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
#if defined(RB_RESIZABLE)
    damaged |= state.size < 1 || state.size > RB_RESIZABLE;
#endif
#if defined(RB_CLOCKED)
    damaged |= isnan(state.sampled_at) || (state.ticks != 0 && state.ticks != 1);
#endif
    if (damaged || !all_finite(state.m) || isnan(state.stop_time) || isnan(state.next_sample) ||
        !is_mode(fmu, state.mode))
        return report(fmu, RB_FAILURE, "the serialized state is damaged");
    return save(fmu, function, &state, saved);
}

#endif
