/* Reading and setting the variables of an instance, and their derivatives by each other. */

#ifndef RB_VALUES_H
#define RB_VALUES_H

#include "instance.h"
#include "tangent.h"

/* Whether the sides of laws are held, which they are from one event of model exchange to the
   next. */
static inline int holds_sides(const Instance *fmu)
{
    return fmu->modes == RB_MODEL_EXCHANGE && !(fmu->now.mode & RB_BEFORE_THE_RUN);
}

/* What can be read now: the memory, the outputs in it computed where they are not kept, and the
   rates and indicators if they are asked for. In initialization mode, what the run would start
   with. */
static inline void compute(const Instance *fmu, int rates, double *values)
{
    double side[RB_SIDES];
    store(values, fmu->now.m, RB_SIZE);
    if (fmu->now.mode == RB_INITIALIZATION)
        initialize(values, values[RB_T]);
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

/* Whether the host has said that it uses the variables in intermediate updates, if it is in one. */
static inline int required(const Instance *fmu, const char *function, const Reference vr[],
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

static inline Status get(const Instance *fmu, const char *function, const Reference vr[], size_t n,
                         double values[], size_t n_values)
{
    double computed[RB_COUNT];
    int rates = 0;
    if (!allowed(fmu, function, (RB_ANY & ~RB_INSTANTIATED) | RB_INTERMEDIATE) ||
        !known(fmu, function, vr, n) || !fits(fmu, function, vr, n, n_values) ||
        !given(fmu, function, values, n_values) || !required(fmu, function, vr, n))
        return RB_FAILURE;
    for (size_t i = 0; i < n; i++)
        rates |= vr[i] >= RB_SIZE;
    const int kept = !rates && fmu->modes != RB_MODEL_EXCHANGE &&
                     !(fmu->now.mode & (RB_INITIALIZATION | RB_EVENT));
    const double *from = kept ? fmu->now.m : computed;
    if (!kept)
        compute(fmu, rates, computed);
    for (size_t i = 0; i < n; i++)
        for (Reference k = vr[i]; k < vr[i] + RB_LENGTH[vr[i]]; k++)
            if (!isfinite(from[k]))
                return not_finite(fmu, (int)k);
    for (size_t i = 0; i < n; values += RB_LENGTH[vr[i++]])
        store(values, from + vr[i], RB_LENGTH[vr[i]]);
    return RB_OK;
}

/* The modes in which a variable may be set, by its entry in RB_SETTABLE of fmu.h. */
static inline int settable_in(int kind)
{
    switch (kind) {
    case RB_START_VALUE: return RB_BEFORE_THE_RUN;
    case RB_TUNABLE: return RB_BEFORE_THE_RUN | RB_STEPPING | RB_EVENT;
    case RB_ALWAYS:
        return RB_BEFORE_THE_RUN | RB_STEPPING | RB_EVENT | RB_CONTINUOUS | RB_INTERMEDIATE;
    default: return 0;
    }
}

/* Whether a parameter or start value keeps its bounds. Inputs of a run are not asked: what drives
   them may be beyond theirs by rounding. What must be positive has the smallest normal number as
   its bound. */
static inline int bounded(const Instance *fmu, Reference k, double value)
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

static inline int settable(const Instance *fmu, Reference k, double value)
{
    if (RB_SETTABLE[k] == RB_NEVER)
        report(fmu, RB_FAILURE, "%s is computed and cannot be set", RB_NAMES[k]);
    else if (!(settable_in(RB_SETTABLE[k]) & fmu->now.mode))
        report(fmu, RB_FAILURE, "%s %s, which cannot be set %s", RB_NAMES[k],
               RB_SETTABLE[k] == RB_TUNABLE ? "is a parameter" : "has a start value",
               mode_name(fmu->now.mode));
    else if (!isfinite(value))
        report(fmu, RB_FAILURE, "%s must be finite, not %g", RB_NAMES[k], value);
    else
        return bounded(fmu, k, value);
    return 0;
}

static inline Status set(Instance *fmu, const char *function, const Reference vr[], size_t n,
                         const double values[], size_t n_values)
{
    const double *value = values;
    if (!allowed(fmu, function, settable_in(RB_ALWAYS)) || !known(fmu, function, vr, n) ||
        !fits(fmu, function, vr, n, n_values) || !given(fmu, function, values, n_values) ||
        !required(fmu, function, vr, n))
        return RB_FAILURE;
    if (fmu->now.mode == RB_INTERMEDIATE && !fmu->inputs_wanted)
        return report(fmu, RB_FAILURE, "%s: at the end of a step no inputs are wanted", function);
    for (size_t i = 0; i < n; i++)
        for (Reference k = vr[i]; k < vr[i] + RB_LENGTH[vr[i]]; k++)
            if (!settable(fmu, k, *value++))
                return RB_FAILURE;
    for (size_t i = 0; i < n; values += RB_LENGTH[vr[i++]])
        store(fmu->now.m + vr[i], values, RB_LENGTH[vr[i]]);
    return RB_OK;
}

/* ---- derivatives, exact: those of the rates and the computed outputs are traced, tangent.h
   ---- */

static inline int within(Reference k, int start, int n)
{
    return k >= (Reference)start && k < (Reference)(start + n);
}

/* Whether there are derivatives of `unknowns` by `knowns`, and as many values as they have
   elements. Samples are not differentiated: between them, sampled states are constants. */
static inline int differentiable(const Instance *fmu, const char *function,
                                 const Reference unknowns[], size_t n_unknowns,
                                 const Reference knowns[], size_t n_knowns)
{
    if (!allowed(fmu, function, RB_INITIALIZATION | RB_STEPPING | RB_EVENT | RB_CONTINUOUS) ||
        !known(fmu, function, unknowns, n_unknowns) || !known(fmu, function, knowns, n_knowns))
        return 0;
    if (fmu->now.mode == RB_INITIALIZATION && (RB_NZ > 0 || RB_PROJECTS)) {
        report(
            fmu, RB_FAILURE,
            "%s is not provided in initialization mode for states that are computed at the start",
            function);
        return 0;
    }
    for (size_t i = 0; i < n_unknowns; i++)
        if (!within(unknowns[i], RB_X, RB_NX + RB_NZ) && !within(unknowns[i], RB_Y, RB_NY) &&
            !within(unknowns[i], RB_SIZE, RB_NX)) {
            report(fmu, RB_FAILURE, "%s: %s is neither an output nor a rate", function,
                   RB_NAMES[unknowns[i]]);
            return 0;
        }
    for (size_t i = 0; i < n_knowns; i++)
        if (!within(knowns[i], RB_X, RB_NX) && !within(knowns[i], RB_U, RB_NU + RB_NP)) {
            report(fmu, RB_FAILURE, "%s: %s is no input, continuous state or parameter", function,
                   RB_NAMES[knowns[i]]);
            return 0;
        }
    return 1;
}

enum { RB_SEEDED = 2 * RB_SIZE + RB_INDICATORS };

/* What derivatives are taken at: the memory, no change of it, and the sides of laws that hold
   now. */
static inline void put_unseeded(const Instance *fmu, double in[RB_SEEDED])
{
    double side[RB_SIDES];
    store(side, fmu->now.side, RB_SIDES);
    if (!holds_sides(fmu))
        find_sides(fmu->now.m, side);
    store(in, fmu->now.m, RB_SIZE);
    memset(in + RB_SIZE, 0, RB_SIZE * sizeof(double));
    for (int i = 0; i < RB_INDICATORS; i++)
        in[2 * RB_SIZE + i] = side[i];
}

/* The change of unknowns that a change of knowns, the seed, makes. */
static inline Status directional(const Instance *fmu, const char *function,
                                 const Reference unknowns[], size_t n_unknowns,
                                 const Reference knowns[], size_t n_knowns, const double seed[],
                                 size_t n_seed, double sensitivity[], size_t n_sensitivity)
{
    double in[RB_SEEDED], d[RB_COUNT + 1] = {0}; /* d = changes of [memory | rates] */
    double out[RB_NX + RB_NY + 1];
    if (!fmu || !differentiable(fmu, function, unknowns, n_unknowns, knowns, n_knowns) ||
        !fits(fmu, function, knowns, n_knowns, n_seed) ||
        !fits(fmu, function, unknowns, n_unknowns, n_sensitivity) ||
        !given(fmu, function, seed, n_seed) || !given(fmu, function, sensitivity, n_sensitivity))
        return RB_FAILURE;
    put_unseeded(fmu, in);
    for (size_t i = 0; i < n_knowns; i++)
        for (int k = 0; k < RB_LENGTH[knowns[i]]; k++)
            in[RB_SIZE + knowns[i] + (Reference)k] += *seed++;
    tangent(in, out);
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

#endif
