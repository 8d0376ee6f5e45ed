/* Stages of an inner step of an FMU for model exchange: explicit, linearly implicit or collocation.

   The number of states is known only at run time, so the methods are tables. c/kernel has the same
   methods for blocks. Times are relative to the start of the communication step, which reduces
   rounding errors of large times. */

#ifndef RB_EXCHANGE_STAGES_H
#define RB_EXCHANGE_STAGES_H

#include <float.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include "fmu_step.h"
#include "loop_tables.h"

/* A communication step of one FMU. */
typedef struct {
    const Loop *loop;
    const Part *part;
    const Exchange *model;
    double t, dt, close; /* start [s], size [s], and tolerance of event times [s] */
    int looks_ahead;     /* 1 if inner steps may end after the communication step */
} ExchangeStep;

/* Result of an evaluation. An FMU may discard states, for example outside the domain of its
   equations. The integrator then tries a shorter step. */
typedef enum { RB_EVALUATION_FAILED = 0, RB_EVALUATED = 1, RB_DISCARDED = 2 } Evaluation;

enum { RB_FMI_DISCARD = 2 }; /* fmi2Discard, fmi3Discard */

static inline int rb_exchange_accepts(const ExchangeStep *step, int call, int status)
{
    return rb_is_accepted(step->loop, step->part, call, status, step->t, step->dt);
}

static inline Evaluation rb_evaluation(const ExchangeStep *step, int call, int status)
{
    if (status == RB_FMI_DISCARD)
        return RB_DISCARDED;
    return rb_exchange_accepts(step, call, status) ? RB_EVALUATED : RB_EVALUATION_FAILED;
}

/* Set the inputs to the values of their polynomials at the time s. */
static inline int rb_set_polynomial_inputs(const ExchangeStep *step, double s)
{
    const Exchange *model = step->model;
    const Part *part = step->part;
    const int64_t n = model->n_inputs;
    if (model->control[RB_FOLLOWS] == 0.0)
        return 1;
    for (int64_t k = 0; k < n; k++) {
        double value = 0.0;
        for (int64_t j = model->n_coefficients; j > 0; j--)
            value = value * s + model->polynomials[(j - 1) * n + k];
        model->inputs[k] = value;
    }
    return rb_move_all(step->loop, part, part->set, part->n_set, RB_SET, step->t, step->dt);
}

static inline Evaluation rb_try_state(const ExchangeStep *step, double s, const double *x)
{
    const Exchange *model = step->model;
    /* the sum may exceed the stop time by a rounding error, and an FMU may then reject the time */
    const double t = fmin(step->t + s, model->control[RB_STOP_TIME]);
    *step->part->clock = t;
    const Evaluation found =
        rb_evaluation(step, RB_SET_TIME, model->set_time.set_time(step->part->instance, t));
    if (found == RB_EVALUATED && !rb_set_polynomial_inputs(step, s))
        return RB_EVALUATION_FAILED;
    if (found != RB_EVALUATED || model->n_states == 0)
        return found;
    for (int64_t i = 0; i < model->n_states; i++)
        model->inner_states[i] = x[i]; /* the FMI function does not accept a const pointer */
    return rb_evaluation(step, RB_SET_STATES,
                         model->set_states.move_states(step->part->instance, model->inner_states,
                                                       (size_t)model->n_states));
}

/* Set the time and the states of the FMU. */
static inline int rb_set_exchange_state(const ExchangeStep *step, double s, const double *x)
{
    const Evaluation found = rb_try_state(step, s, x);
    return found == RB_DISCARDED ? rb_exchange_accepts(step, RB_SET_STATES, RB_FMI_DISCARD)
                                 : found == RB_EVALUATED;
}

/* Return 1 + the index of the first value that is not finite, or 0. */
static inline int64_t rb_find_not_finite(const double *values, int64_t n)
{
    for (int64_t k = 0; k < n; k++)
        if (!isfinite(values[k]))
            return k + 1;
    return 0;
}

/* Report value k of a call, which is not a valid number. Returns 0, because the run fails. */
static inline int rb_report_bad_value(const ExchangeStep *step, int call, int64_t k, double value)
{
    step->model->control[RB_BAD_NUMBER] = value;
    return rb_exchange_accepts(step, call + RB_CALLS * (int)k, RB_BAD_VALUE) && 0;
}

/* Evaluate the derivatives of the states x at the time s. States with a derivative that is not finite
   count as discarded. */
static inline Evaluation rb_try_rates(const ExchangeStep *step, double s, const double *x,
                                      double *rates)
{
    const Exchange *model = step->model;
    double *control = model->control;
    control[RB_BAD_RATE] = 0.0;
    Evaluation found = rb_try_state(step, s, x);
    if (found == RB_EVALUATED)
        found = rb_evaluation(
            step, RB_GET_RATES,
            model->get_rates.move_states(step->part->instance, rates, (size_t)model->n_states));
    const int64_t bad = found == RB_EVALUATED ? rb_find_not_finite(rates, model->n_states) : 0;
    if (!bad)
        return found;
    control[RB_BAD_RATE] = (double)bad;
    control[RB_BAD_NUMBER] = rates[bad - 1];
    return RB_DISCARDED;
}

/* Report why the last evaluation of the derivatives was discarded. Returns 0, because the run
   fails. */
static inline int rb_report_discarded(const ExchangeStep *step)
{
    const double *control = step->model->control;
    const int64_t bad = (int64_t)control[RB_BAD_RATE];
    if (bad)
        return rb_report_bad_value(step, RB_GET_RATES, bad - 1, control[RB_BAD_NUMBER]);
    return rb_exchange_accepts(step, RB_GET_RATES, RB_FMI_DISCARD) && 0;
}

/* x = start + h sum_j weights_j k_j over the first `count` stages */
static inline void rb_combine_stages(const Exchange *model, double h, const double *weights,
                                     int64_t count, double *x)
{
    const int64_t n = model->n_states;
    for (int64_t p = 0; p < n; p++) {
        double sum = 0.0;
        for (int64_t j = 0; j < count; j++)
            sum += weights[j] * model->rates[j * n + p];
        x[p] = model->start_states[p] + h * sum;
    }
}

/* ---- error norm ---- */

/* Return the tolerance of state p: atol_p + rtol |x_p|. */
static inline double rb_tolerance(const Exchange *model, int64_t p, double x)
{
    const double atol = isnan(model->atol) ? model->rtol * model->nominals[p] : model->atol;
    return atol + model->rtol * fabs(x);
}

/* Return max_p |e_p| / (atol_p + rtol max(|x_p|, |y_p|)), or infinity if an element is not
   finite. */
static inline double rb_error_norm(const Exchange *model, const double *e, const double *x,
                                   const double *y)
{
    double largest = 0.0;
    for (int64_t p = 0; p < model->n_states; p++) {
        const double scaled =
            fabs(e[p]) / rb_tolerance(model, p, fabs(x[p]) > fabs(y[p]) ? x[p] : y[p]);
        if (!isfinite(scaled) || !isfinite(y[p]))
            return INFINITY;
        largest = fmax(largest, scaled);
    }
    return largest;
}

/* Return the error estimate of a step, relative to the tolerance. */
static inline double rb_step_error(const Exchange *model, const Tableau *method, double h)
{
    const int64_t n = model->n_states;
    double *e = model->stage_states;
    for (int64_t p = 0; p < n; p++) {
        double sum = 0.0;
        for (int64_t i = 0; i < method->stages; i++)
            sum += method->error[i] * model->rates[i * n + p];
        e[p] = h * sum;
    }
    return rb_error_norm(model, e, model->start_states, model->end_states);
}

/* ---- explicit step ---- */

/* Evaluate the stages of an explicit step of size h from s, and the states at its end. `near_states`
   receives the states of the last stage but one. The first derivatives are known. */
static inline Evaluation rb_explicit_stages(const ExchangeStep *step, const Tableau *method,
                                            double s, double h)
{
    const Exchange *model = step->model;
    const int64_t n = model->n_states;
    for (int64_t p = 0; p < n; p++)
        model->rates[p] = model->first_rates[p];
    for (int64_t i = 1; i < method->stages; i++) {
        double *x = i == method->stages - 2 ? model->near_states : model->stage_states;
        rb_combine_stages(model, h, method->a + i * method->stages, i, x);
        const Evaluation found = rb_try_rates(step, s + method->c[i] * h, x, model->rates + i * n);
        if (found != RB_EVALUATED)
            return found;
    }
    rb_combine_stages(model, h, method->b, method->stages, model->end_states);
    return RB_EVALUATED;
}

/* ---- linearly implicit step ---- */

/* Compute the columns of the Jacobian of one colour by a directional derivative. The FMU is at the
   start of the step. */
static inline Evaluation rb_directional_column(const ExchangeStep *step, int64_t colour,
                                               double *column)
{
    const Exchange *model = step->model;
    const size_t n = (size_t)model->n_states, references = (size_t)model->n_references;
    double *seed = model->stage_states;
    for (int64_t j = 0; j < model->n_states; j++)
        seed[j] = model->colours[j] == colour ? 1.0 : 0.0;
    const int status =
        step->part->kind == RB_FMI2
            ? model->directional.fmi2_directional(step->part->instance, model->rate_references,
                                                  references, model->state_references, references,
                                                  seed, column)
            : model->directional.fmi3_directional(step->part->instance, model->rate_references,
                                                  references, model->state_references, references,
                                                  seed, n, column, n);
    return rb_evaluation(step, RB_GET_DIRECTIONAL, status);
}

/* Compute the columns of the Jacobian of one colour by a forward difference from the states x with
   the derivatives f. Each state moves by 2^-26 of its size (about the square root of the rounding
   error), in the direction of its derivative. `near_states` receives the state changes. */
static inline Evaluation rb_difference_column(const ExchangeStep *step, double s, const double *x,
                                              const double *f, int64_t colour, double *column)
{
    const Exchange *model = step->model;
    for (int64_t j = 0; j < model->n_states; j++) {
        const double size = fmax(fabs(x[j]), model->nominals[j]), move = 0x1p-26 * size;
        const int moves = model->colours[j] == colour;
        model->stage_states[j] = !moves ? x[j] : f[j] < 0.0 ? x[j] - move : x[j] + move;
        model->near_states[j] = moves ? model->stage_states[j] - x[j] : 1.0;
    }
    const Evaluation found = rb_try_rates(step, s, model->stage_states, column);
    for (int64_t i = 0; i < model->n_states; i++)
        column[i] -= f[i];
    return found;
}

/* Compute the Jacobian by rows at the states x, where the derivatives are f. If the FMU provides
   directional derivatives, it must be at these states. */
static inline Evaluation rb_evaluate_jacobian(const ExchangeStep *step, double s, const double *x,
                                              const double *f)
{
    const Exchange *model = step->model;
    const int64_t n = model->n_states;
    double *column = model->moved_rates, *jacobian = model->jacobian;
    int has_directional = model->directional.fmi2_directional != NULL;
    Evaluation found = RB_EVALUATED;
    for (int64_t colour = 0; colour < model->n_colours && found == RB_EVALUATED; colour++) {
        if (has_directional) {
            found = rb_directional_column(step, colour, column);
            if (found == RB_DISCARDED || (found == RB_EVALUATED && rb_find_not_finite(column, n)))
                has_directional = 0; /* the FMU does not provide this one */
        }
        const int is_exact = has_directional;
        if (!has_directional)
            found = rb_difference_column(step, s, x, f, colour, column);
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < n; j++)
                if (model->colours[j] == colour)
                    jacobian[i * n + j] = !model->pattern[i * n + j] ? 0.0
                                          : is_exact ? column[i]
                                                     : column[i] / model->near_states[j];
    }
    return found;
}

/* Compute the Jacobian at the start of the step, and df/dt after it. The time moves by 2^-20 h, but
   at least by 2^-50 |t|, four times the spacing of floating-point numbers at t. */
static inline Evaluation rb_evaluate_slopes(const ExchangeStep *step, double s, double h)
{
    const Exchange *model = step->model;
    const int64_t n = model->n_states;
    double *by_time = model->jacobian + n * n;
    Evaluation found = RB_EVALUATED;
    if (model->directional.fmi2_directional)
        found = rb_try_rates(step, s, model->start_states, by_time);
    if (found == RB_EVALUATED)
        found = rb_evaluate_jacobian(step, s, model->start_states, model->first_rates);
    const double later = s + fmax(0x1p-20 * h, 0x1p-50 * fmax(fabs(step->t), fabs(step->t + s)));
    const double elapsed = (step->t + later) - (step->t + s);
    if (found == RB_EVALUATED)
        found = rb_try_rates(step, later, model->start_states, by_time);
    for (int64_t i = 0; i < n && found == RB_EVALUATED; i++)
        by_time[i] = (by_time[i] - model->first_rates[i]) / elapsed;
    return found;
}

/* Compute w = 1 - length J. */
static inline void rb_implicit_matrix(const Exchange *model, double length, double *w)
{
    const int64_t n = model->n_states;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++)
            w[i * n + j] = (i == j ? 1.0 : 0.0) - length * model->jacobian[i * n + j];
}

/* Factorize w (n, n) in place by Gaussian elimination with partial pivoting. */
static inline void rb_factorize(int64_t n, double *w, double *pivots)
{
    for (int64_t j = 0; j < n; j++) {
        int64_t pivot = j;
        for (int64_t i = j + 1; i < n; i++)
            if (fabs(w[i * n + j]) > fabs(w[pivot * n + j]))
                pivot = i;
        pivots[j] = (double)pivot;
        for (int64_t k = j; k < n && pivot != j; k++) {
            const double exchanged = w[j * n + k];
            w[j * n + k] = w[pivot * n + k];
            w[pivot * n + k] = exchanged;
        }
        for (int64_t i = j + 1; i < n; i++)
            if (w[i * n + j] != 0.0) {
                w[i * n + j] /= w[j * n + j];
                for (int64_t k = j + 1; k < n; k++)
                    w[i * n + k] -= w[i * n + j] * w[j * n + k];
            }
    }
}

/* Solve w x = b with the factors of w. The solution overwrites b. */
static inline void rb_solve(int64_t n, const double *w, const double *pivots, double *b)
{
    for (int64_t j = 0; j < n; j++) {
        const int64_t pivot = (int64_t)pivots[j];
        const double exchanged = b[pivot];
        b[pivot] = b[j];
        b[j] = exchanged;
        for (int64_t i = j + 1; i < n; i++)
            b[i] -= w[i * n + j] * exchanged;
    }
    for (int64_t j = n - 1; j >= 0; j--) {
        b[j] /= w[j * n + j];
        for (int64_t i = 0; i < j; i++)
            b[i] -= w[i * n + j] * b[j];
    }
}

/* Compute the stages of a linearly implicit step of size h from s, and the states at its end. The
   Jacobian and the first derivatives are known. */
static inline Evaluation rb_implicit_stages(const ExchangeStep *step, const Tableau *method,
                                            double s, double h)
{
    const Exchange *model = step->model;
    const int64_t n = model->n_states, stages = method->stages;
    rb_implicit_matrix(model, method->gamma * h, model->factors);
    rb_factorize(n, model->factors, model->pivots);
    for (int64_t i = 0; i < stages; i++) {
        double *k = model->rates + i * n;
        for (int64_t p = 0; p < n; p++)
            k[p] = model->first_rates[p];
        if (i > 0) {
            rb_combine_stages(model, h, method->a + i * stages, i, model->stage_states);
            const Evaluation found =
                rb_try_rates(step, s + method->c[i] * h, model->stage_states, k);
            if (found != RB_EVALUATED)
                return found;
        }
        for (int64_t p = 0; p < n; p++) {
            double sum = k[p] + method->time[i] * h * model->jacobian[n * n + p];
            for (int64_t j = 0; j < i; j++)
                sum += method->coupling[i * stages + j] * model->rates[j * n + p];
            k[p] = method->gamma * sum;
        }
        rb_solve(n, model->factors, model->pivots, k);
    }
    rb_combine_stages(model, h, method->b, stages, model->end_states);
    return RB_EVALUATED;
}

/* ---- collocation step (Radau IIA) ----

   The stages x + z_i solve z_i = h sum_j a_ij f(t + c_j h, x + z_j) by Newton's method, with a
   Jacobian from a point inside the step or from an earlier step. In the coordinates T z, its
   equations are one real and two complex systems of n unknowns (Hairer and Wanner II, IV.8; 1999).
   The matrix T is `to_eigenbasis`.
   c/kernel/collocation.h does the same for blocks, and has the derivation. The stages z are in
   `rates`. */

enum { RB_NODES = 5, RB_PAIRS = 2 };

/* Discard the data of earlier steps. */
static inline void rb_forget_stages(double *control)
{
    control[RB_SLOPES] = control[RB_FACTORED] = control[RB_LAST_LENGTH] = 0.0;
    control[RB_REST] = 1.0;
}

/* Factorize the complex matrix re + i im in place; the diagonal becomes the inverse pivots. */
static inline void rb_factorize_pair(int64_t n, double *re, double *im, double *pivots)
{
    for (int64_t j = 0; j < n; j++) {
        int64_t pivot = j;
        for (int64_t i = j + 1; i < n; i++)
            if (fabs(re[i * n + j]) + fabs(im[i * n + j]) >
                fabs(re[pivot * n + j]) + fabs(im[pivot * n + j]))
                pivot = i;
        pivots[j] = (double)pivot;
        for (int64_t k = j; k < n && pivot != j; k++) {
            const double a = re[j * n + k], b = im[j * n + k];
            re[j * n + k] = re[pivot * n + k];
            im[j * n + k] = im[pivot * n + k];
            re[pivot * n + k] = a;
            im[pivot * n + k] = b;
        }
        const double size = re[j * n + j] * re[j * n + j] + im[j * n + j] * im[j * n + j],
                     a = re[j * n + j] / size, b = -im[j * n + j] / size;
        for (int64_t i = j + 1; i < n; i++) {
            const double p = re[i * n + j] * a - im[i * n + j] * b,
                         q = re[i * n + j] * b + im[i * n + j] * a;
            re[i * n + j] = p;
            im[i * n + j] = q;
            for (int64_t k = j + 1; k < n; k++) {
                re[i * n + k] -= p * re[j * n + k] - q * im[j * n + k];
                im[i * n + k] -= p * im[j * n + k] + q * re[j * n + k];
            }
        }
        re[j * n + j] = a;
        im[j * n + j] = b;
    }
}

/* Solve (re + i im) (x + i y) = a + i b in place of a and b. */
static inline void rb_solve_pair(int64_t n, const double *re, const double *im,
                                 const double *pivots, double *a, double *b)
{
    for (int64_t j = 0; j < n; j++) {
        const int64_t pivot = (int64_t)pivots[j];
        const double p = a[pivot], q = b[pivot];
        a[pivot] = a[j];
        b[pivot] = b[j];
        a[j] = p;
        b[j] = q;
        for (int64_t i = j + 1; i < n; i++) {
            a[i] -= re[i * n + j] * p - im[i * n + j] * q;
            b[i] -= re[i * n + j] * q + im[i * n + j] * p;
        }
    }
    for (int64_t j = n - 1; j >= 0; j--) {
        const double p = a[j] * re[j * n + j] - b[j] * im[j * n + j],
                     q = a[j] * im[j * n + j] + b[j] * re[j * n + j];
        a[j] = p;
        b[j] = q;
        for (int64_t i = 0; i < j; i++) {
            a[i] -= re[i * n + j] * p - im[i * n + j] * q;
            b[i] -= re[i * n + j] * q + im[i * n + j] * p;
        }
    }
}

/* Factorize 1 - h root J for each root. */
static inline void rb_factorize_stages(const Exchange *model, double h)
{
    const int64_t n = model->n_states;
    const double *roots = model->collocation->roots;
    if (model->control[RB_FACTORED] == h)
        return;
    model->control[RB_FACTORED] = h;
    rb_implicit_matrix(model, h * roots[0], model->factors);
    rb_factorize(n, model->factors, model->pivots);
    for (int64_t p = 0; p < RB_PAIRS; p++) {
        double *re = model->factors + (1 + 2 * p) * n * n, *im = re + n * n;
        rb_implicit_matrix(model, h * roots[1 + 2 * p], re);
        for (int64_t i = 0; i < n * n; i++)
            im[i] = -(h * roots[2 + 2 * p]) * model->jacobian[i];
        rb_factorize_pair(n, re, im, model->pivots + (1 + p) * n);
    }
}

/* Evaluate a collocation polynomial with the stages `nodes` at the fraction `place` of its step
   (Lagrange's formula). The result is relative to the start of the step. */
static inline void rb_collocation_polynomial(const Exchange *model, const double *nodes,
                                             double place, double *z)
{
    const int64_t n = model->n_states;
    double at[RB_NODES + 1] = {0.0};
    for (int i = 0; i < RB_NODES; i++)
        at[1 + i] = model->collocation->c[i];
    for (int64_t p = 0; p < n; p++)
        z[p] = 0.0;
    for (int j = 1; j <= RB_NODES; j++) {
        double weight = 1.0;
        for (int k = 0; k <= RB_NODES; k++)
            if (k != j)
                weight *= (place - at[k]) / (at[j] - at[k]);
        for (int64_t p = 0; p < n; p++)
            z[p] += weight * nodes[(j - 1) * n + p];
    }
}

/* Predict the stage at the fraction `place` of a new step of size h from the last step. */
static inline void rb_extrapolate_stages(const Exchange *model, double place, double h, double *z)
{
    const int64_t n = model->n_states;
    const double last = model->control[RB_LAST_LENGTH];
    if (last > 0.0)
        rb_collocation_polynomial(model, model->last_stages, 1.0 + place * h / last, z);
    for (int64_t p = 0; p < n; p++)
        z[p] = last > 0.0 ? z[p] - model->last_stages[(RB_NODES - 1) * n + p] : 0.0;
}

/* Do one Newton iteration: compute the changes dz of the stages from their derivatives.

     r_i = h sum_j a_ij f_j - z_i,   b = T r
     (1 - h root_k J) w_k = b_k,     dz = T^-1 w */
static inline void rb_newton_step(const Exchange *model, double h)
{
    const Collocation *method = model->collocation;
    const int64_t n = model->n_states;
    const double *rates = model->newton, *z = model->rates;
    double *b = model->newton + RB_NODES * n, *dz = b + RB_NODES * n;
    for (int64_t p = 0; p < n; p++) {
        double missing[RB_NODES];
        for (int i = 0; i < RB_NODES; i++) {
            double sum = 0.0;
            for (int j = 0; j < RB_NODES; j++)
                sum += method->a[i * RB_NODES + j] * rates[j * n + p];
            missing[i] = h * sum - z[i * n + p];
        }
        for (int i = 0; i < RB_NODES; i++) {
            b[i * n + p] = 0.0;
            for (int j = 0; j < RB_NODES; j++)
                b[i * n + p] += method->to_eigenbasis[i * RB_NODES + j] * missing[j];
        }
    }
    rb_solve(n, model->factors, model->pivots, b);
    for (int64_t k = 0; k < RB_PAIRS; k++) {
        const double *re = model->factors + (1 + 2 * k) * n * n;
        rb_solve_pair(n, re, re + n * n, model->pivots + (1 + k) * n, b + (1 + 2 * k) * n,
                      b + (2 + 2 * k) * n);
    }
    for (int i = 0; i < RB_NODES; i++)
        for (int64_t p = 0; p < n; p++) {
            dz[i * n + p] = 0.0;
            for (int j = 0; j < RB_NODES; j++)
                dz[i * n + p] += method->from_eigenbasis[i * RB_NODES + j] * b[j * n + p];
        }
}

/* Evaluate the derivatives at all stages. */
static inline Evaluation rb_evaluate_stages(const ExchangeStep *step, double s, double h)
{
    const Exchange *model = step->model;
    const int64_t n = model->n_states;
    Evaluation found = RB_EVALUATED;
    model->control[RB_STEP_COST] += RB_NODES;
    for (int i = 0; i < RB_NODES && found == RB_EVALUATED; i++) {
        for (int64_t p = 0; p < n; p++)
            model->stage_states[p] = model->start_states[p] + model->rates[i * n + p];
        found = rb_try_rates(step, s + model->collocation->c[i] * h, model->stage_states,
                             model->newton + i * n);
    }
    return found;
}

/* Solve for the stages by Newton's method; `converges` becomes 1 on success. The criteria are those
   of c/kernel/collocation.h. */
static inline Evaluation rb_solve_stages(const ExchangeStep *step, double s, double h,
                                         int *converges)
{
    const Exchange *model = step->model;
    const Collocation *method = model->collocation;
    const int64_t n = model->n_states;
    const double *dz = model->newton + 2 * RB_NODES * n, *x = model->start_states;
    double *control = model->control, before = 0.0;
    *converges = 0;
    control[RB_REST] = sqrt(control[RB_REST]) * sqrt(sqrt(control[RB_REST]));
    control[RB_CONTRACTION] = 0.0;
    for (int tries = 1; tries <= RB_NEWTON_ITERATIONS; tries++) {
        double distance = 0.0;
        const Evaluation found = rb_evaluate_stages(step, s, h);
        if (found != RB_EVALUATED)
            return found;
        rb_newton_step(model, h);
        for (int i = 0; i < RB_NODES; i++) {
            distance = fmax(distance, rb_error_norm(model, dz + i * n, x, x));
            for (int64_t p = 0; p < n; p++)
                model->rates[i * n + p] += dz[i * n + p];
        }
        if (!isfinite(distance))
            return RB_EVALUATED;
        if (tries > 1) {
            const double rate = distance / before;
            if (tries == 2)
                control[RB_CONTRACTION] = rate;
            const int is_slow = rate >= 0.99;
            control[RB_REST] = is_slow ? 1.0 : fmax(rate / (1.0 - rate), 1e-16);
            double left = control[RB_REST] * distance;
            for (int k = tries; k < RB_NEWTON_ITERATIONS; k++)
                left *= rate;
            if (is_slow || left > method->newton_tolerance) {
                *converges = control[RB_SLOPES] == 2.0 &&
                             control[RB_REST] * distance <= method->loose_tolerance;
                return RB_EVALUATED;
            }
        }
        if (control[RB_REST] * distance <= method->newton_tolerance) {
            *converges = 1;
            return RB_EVALUATED;
        }
        before = distance;
    }
    return RB_EVALUATED;
}

/* Compute the Jacobian inside the step, on the extrapolated collocation polynomial. */
static inline Evaluation rb_renew_slopes(const ExchangeStep *step, double s, double h)
{
    const Exchange *model = step->model;
    double *control = model->control, *x = model->end_states, *f = model->newton;
    const double place = control[RB_LAST_LENGTH] > 0.0 ? model->collocation->jacobian_place : 0.0;
    rb_extrapolate_stages(model, place, h, x);
    for (int64_t p = 0; p < model->n_states; p++)
        x[p] += model->start_states[p];
    Evaluation found = rb_try_rates(step, s + place * h, x, f);
    if (found == RB_EVALUATED)
        found = rb_evaluate_jacobian(step, s + place * h, x, f);
    control[RB_SLOPES] = 2.0;
    control[RB_FACTORED] = 0.0;
    control[RB_STEP_COST] += (double)model->n_colours + 1.0;
    return found;
}

/* Try a collocation step of size h from s. The error norm is 16 if Newton's method fails. */
static inline Evaluation rb_collocation_stages(const ExchangeStep *step, double s, double h,
                                               double *error)
{
    const Exchange *model = step->model;
    const Collocation *method = model->collocation;
    const int64_t n = model->n_states;
    double *control = model->control;
    *error = 16.0;
    control[RB_STEP_COST] = 0.0;
    if (h > method->reach * control[RB_LAST_LENGTH]) {
        control[RB_LAST_LENGTH] = 0.0;
        control[RB_REST] = 1.0;
    }
    for (int converges = 0; !converges;) {
        Evaluation found = control[RB_SLOPES] == 0.0 ? rb_renew_slopes(step, s, h) : RB_EVALUATED;
        const int is_fresh = control[RB_SLOPES] == 2.0;
        if (found == RB_EVALUATED) {
            rb_factorize_stages(model, h);
            for (int i = 0; i < RB_NODES; i++)
                rb_extrapolate_stages(model, method->c[i], h, model->rates + i * n);
            found = rb_solve_stages(step, s, h, &converges);
        }
        if (found != RB_EVALUATED || !converges)
            control[RB_SLOPES] = 0.0;
        if (found != RB_EVALUATED || (!converges && is_fresh))
            return found;
    }
    double *e = model->stage_states;
    for (int64_t p = 0; p < n; p++) {
        double sum = 0.0;
        for (int i = 0; i < RB_NODES; i++)
            sum += method->error[i] * model->rates[i * n + p];
        e[p] = h * method->roots[0] * model->first_rates[p] + sum;
        model->end_states[p] = model->start_states[p] + model->rates[(RB_NODES - 1) * n + p];
    }
    rb_solve(n, model->factors, model->pivots, e);
    *error = rb_error_norm(model, e, model->start_states, model->end_states);
    if (*error > 1.0 && control[RB_SLOPES] == 1.0)
        control[RB_SLOPES] = 0.0;
    return RB_EVALUATED;
}

/* Store the stages of an accepted step of size h, and adjust the next step size: see keep_stages in
   c/kernel/collocation.h. */
static inline void rb_store_stages(const Exchange *model, double h)
{
    double *control = model->control, next = control[RB_NEXT_STEP];
    for (int64_t p = 0; p < RB_NODES * model->n_states; p++)
        model->last_stages[p] = model->rates[p];
    control[RB_LAST_LENGTH] = h;
    const int keeps = control[RB_SLOPES] != 0.0 && !(control[RB_CONTRACTION] > 1e-3);
    control[RB_SLOPES] = keeps ? 1.0 : 0.0;
    if (control[RB_CONTRACTION] * next > model->collocation->max_contraction * h)
        next = model->collocation->max_contraction * h / control[RB_CONTRACTION];
    control[RB_NEXT_STEP] = keeps && next >= h && next < 1.2 * h ? h : next;
}

#endif
