/* Step of a collocation method (Radau IIA). block/radau.py does the same arithmetic in the same
   order.

   The stages x + z_i solve

     z_i = h sum_j a_ij f(t + c_j h, x + z_j)

   by Newton's method. The Jacobian is from a point inside the step, or from an earlier step as long
   as the iterations converge. In the coordinates RB_THERE z, the linear equations of Newton's
   method are one real and two complex systems of n unknowns (Hairer and Wanner II, IV.8; 1999). */

#ifndef RB_COLLOCATION_H
#define RB_COLLOCATION_H

#include <float.h>
#include <math.h>

#include "integrators.h"

#if RB_ADAPTIVE && RB_COLLOCATION

enum { RB_NODES = 5, RB_PAIRS = 2 };

/* Stage data that are kept between the inner steps of a communication step. */
typedef struct {
    double slopes[RB_NX * RB_NX + RB_NX + 1];
    int have_slopes; /* Jacobian: 2 from this inner step, 1 from an earlier one, 0 unusable */
    double real[RB_NX + 1][RB_NX + 1], re[RB_PAIRS][RB_NX + 1][RB_NX + 1],
        im[RB_PAIRS][RB_NX + 1][RB_NX + 1];
    int pivot[1 + RB_PAIRS][RB_NX + 1];
    double factored; /* step size of the stored factors [s], 0 without factors */
    double z[RB_NODES][RB_NX + 1], last[RB_NODES][RB_NX + 1];
    double last_length; /* step size of the last step [s], 0 before the first step */
    /* Newton's method: remaining error relative to the last change, and contraction factor */
    double rest, rate;
    double contraction; /* contraction factor of the first two iterations */
    int tries;
    double spent; /* cost of the last trial */
} Stages;

static inline void start_stages(Stages *stages)
{
    stages->have_slopes = 0;
    stages->factored = stages->last_length = 0.0;
    stages->rest = 1.0;
    stages->rate = stages->contraction = stages->spent = 0.0;
}

/* Factorize the complex matrix re + i im in place, in the form that `factorize` uses. */
RB_NOT_INLINED
static void factorize_pair(double re[RB_NX + 1][RB_NX + 1], double im[RB_NX + 1][RB_NX + 1],
                           int *pivot)
{
    for (int j = 0; j < RB_NX; j++) {
        pivot[j] = j;
        for (int i = j + 1; i < RB_NX; i++)
            if (fabs(re[i][j]) + fabs(im[i][j]) > fabs(re[pivot[j]][j]) + fabs(im[pivot[j]][j]))
                pivot[j] = i;
        for (int c = j; c < RB_NX && pivot[j] != j; c++) {
            const double a = re[j][c], b = im[j][c];
            re[j][c] = re[pivot[j]][c];
            im[j][c] = im[pivot[j]][c];
            re[pivot[j]][c] = a;
            im[pivot[j]][c] = b;
        }
        const double size = re[j][j] * re[j][j] + im[j][j] * im[j][j], a = re[j][j] / size,
                     b = -im[j][j] / size;
        for (int i = j + 1; i < RB_NX; i++) {
            const double p = re[i][j] * a - im[i][j] * b, q = re[i][j] * b + im[i][j] * a;
            re[i][j] = p;
            im[i][j] = q;
            for (int c = j + 1; c < RB_NX; c++) {
                re[i][c] -= p * re[j][c] - q * im[j][c];
                im[i][c] -= p * im[j][c] + q * re[j][c];
            }
        }
        re[j][j] = a; /* inverse pivot */
        im[j][j] = b;
    }
}

/* Solve (re + i im) (x + i y) = a + i b in place of a and b. */
RB_NOT_INLINED
static void solve_pair(double re[RB_NX + 1][RB_NX + 1], double im[RB_NX + 1][RB_NX + 1],
                       const int *pivot, double *a, double *b)
{
    for (int j = 0; j < RB_NX; j++) {
        const double p = a[pivot[j]], q = b[pivot[j]];
        a[pivot[j]] = a[j];
        b[pivot[j]] = b[j];
        a[j] = p;
        b[j] = q;
        for (int i = j + 1; i < RB_NX; i++) {
            a[i] -= re[i][j] * p - im[i][j] * q;
            b[i] -= re[i][j] * q + im[i][j] * p;
        }
    }
    for (int j = RB_NX - 1; j >= 0; j--) {
        const double p = a[j] * re[j][j] - b[j] * im[j][j], q = a[j] * im[j][j] + b[j] * re[j][j];
        a[j] = p;
        b[j] = q;
        for (int i = 0; i < j; i++) {
            a[i] -= re[i][j] * p - im[i][j] * q;
            b[i] -= re[i][j] * q + im[i][j] * p;
        }
    }
}

/* Factorize 1 - h root J for each root. */
RB_NOT_INLINED
static void factorize_stages(Stages *stages, double h)
{
    if (stages->factored == h)
        return;
    stages->factored = h;
    stages->spent += RB_PRICE_OF_FACTORS;
    implicit_matrix(stages->real, h * RB_ROOTS[0], stages->slopes);
    factorize(stages->real, stages->pivot[0]);
    for (int p = 0; p < RB_PAIRS; p++) {
        implicit_matrix(stages->re[p], h * RB_ROOTS[1 + 2 * p], stages->slopes);
        for (int i = 0; i < RB_NX; i++)
            for (int j = 0; j < RB_NX; j++)
                stages->im[p][i][j] = -(h * RB_ROOTS[2 + 2 * p]) * stages->slopes[i * RB_NX + j];
        factorize_pair(stages->re[p], stages->im[p], stages->pivot[1 + p]);
    }
}

/* Evaluate the collocation polynomial of the last step at the fraction `place` of a new step of
   size h (Lagrange's formula). The result is relative to the start of the new step. */
RB_NOT_INLINED
static void extrapolate_stages(const Stages *stages, double place, double h, double *z)
{
    double at[RB_NODES + 1] = {0.0};
    for (int i = 0; i < RB_NODES; i++)
        at[1 + i] = RB_NODE_TIMES[i];
    for (int i = 0; i < RB_NX; i++)
        z[i] = stages->last_length > 0.0 ? -stages->last[RB_NODES - 1][i] : 0.0;
    for (int j = 1; j <= RB_NODES && stages->last_length > 0.0; j++) {
        const double where = 1.0 + place * h / stages->last_length;
        double weight = 1.0;
        for (int k = 0; k <= RB_NODES; k++)
            if (k != j)
                weight *= (where - at[k]) / (at[j] - at[k]);
        for (int i = 0; i < RB_NX; i++)
            z[i] += weight * stages->last[j - 1][i];
    }
}

/* Do one Newton iteration for all stages: compute the changes dz from the state derivatives f_j.

     r_i = h sum_j a_ij f_j - z_i,   b = RB_THERE r
     (1 - h root_k J) w_k = b_k,   dz = RB_BACK w */
RB_NOT_INLINED
static void newton_step(Stages *stages, double h, double rates[RB_NODES][RB_NX + 1],
                        double dz[RB_NODES][RB_NX + 1])
{
    RB_WORKSPACE(RB_LARGE, state_row, b, RB_NODES);
    for (int i = 0; i < RB_NX; i++) {
        double missing[RB_NODES];
        for (int s = 0; s < RB_NODES; s++) {
            double sum = 0.0;
            for (int j = 0; j < RB_NODES; j++)
                sum += RB_COLLOCATION_A[s][j] * rates[j][i];
            missing[s] = h * sum - stages->z[s][i];
        }
        for (int s = 0; s < RB_NODES; s++) {
            b[s][i] = 0.0;
            for (int j = 0; j < RB_NODES; j++)
                b[s][i] += RB_THERE[s][j] * missing[j];
        }
    }
    solve(stages->real, stages->pivot[0], b[0]);
    for (int p = 0; p < RB_PAIRS; p++)
        solve_pair(stages->re[p], stages->im[p], stages->pivot[1 + p], b[1 + 2 * p], b[2 + 2 * p]);
    for (int s = 0; s < RB_NODES; s++)
        for (int i = 0; i < RB_NX; i++) {
            dz[s][i] = 0.0;
            for (int j = 0; j < RB_NODES; j++)
                dz[s][i] += RB_BACK[s][j] * b[j][i];
        }
}

/* Return 1 if Newton's method converges. Stop early if its contraction is too slow for the
   remaining iterations. With the change d_k of iteration k

     theta = d_k / d_{k-1},   error <= eta d_k,   eta = theta / (1 - theta)

   It has converged if eta d_k <= RB_NEWTON_CLOSE. It cannot converge in the remaining iterations if
   eta d_k theta^remaining > RB_NEWTON_CLOSE, or if theta >= 0.99. The first iteration has no theta.
   It uses eta^(3/4) of the last step, because this power needs only square roots. Hairer and Wanner
   use eta^0.8. */
RB_NOT_INLINED
static int store_stages(double *m, TrialStep *trial, Stages *stages, const InputPolynomials *course)
{
    double before = 0.0;
    RB_WORKSPACE(RB_LARGE, state_row, rates, RB_NODES);
    RB_WORKSPACE(RB_LARGE, state_row, dz, RB_NODES);
    stages->rest = sqrt(stages->rest) * sqrt(sqrt(stages->rest));
    stages->rate = stages->contraction = 0.0;
    for (stages->tries = 1; stages->tries <= RB_MOST_NEWTON; stages->tries++) {
        double distance = 0.0;
        stages->spent += RB_PRICE_OF_NEWTON;
        for (int s = 0; s < RB_NODES; s++) {
            for (int i = 0; i < RB_NX; i++)
                trial->y[i] = trial->x[i] + stages->z[s][i];
            evaluate_rates(m, trial->t + RB_NODE_TIMES[s] * trial->h, trial->y, course, rates[s]);
        }
        newton_step(stages, trial->h, rates, dz);
        for (int s = 0; s < RB_NODES; s++) {
            distance = max_of(distance, error_norm(dz[s], trial->x, trial->x));
            for (int i = 0; i < RB_NX; i++)
                stages->z[s][i] += dz[s][i];
        }
        if (!(distance <= DBL_MAX))
            return 0;
        if (stages->tries > 1) {
            stages->rate = distance / before;
            if (stages->tries == 2)
                stages->contraction = stages->rate;
            /* at a rate near 1, Newton's method does not converge; 1e-16 keeps `rest` positive */
            const int slow = stages->rate >= 0.99;
            stages->rest = slow ? 1.0 : max_of(stages->rate / (1.0 - stages->rate), 1e-16);
            double left = stages->rest * distance;
            for (int k = stages->tries; k < RB_MOST_NEWTON; k++)
                left *= stages->rate;
            if (slow || left > RB_NEWTON_CLOSE)
                return stages->have_slopes == 2 && stages->rest * distance <= RB_LOOSE;
        }
        if (stages->rest * distance <= RB_NEWTON_CLOSE)
            return 1;
        before = distance;
    }
    return 0;
}

/* Compute the Jacobian at the fraction RB_SLOPES_AT of the step, on the extrapolated collocation
   polynomial. Most stages are closer to this point than to the start of the step, so Newton's
   method converges faster. */
RB_NOT_INLINED
static void renew_slopes(double *m, const TrialStep *trial, Stages *stages,
                         const InputPolynomials *course)
{
    const double place = stages->last_length > 0.0 ? RB_SLOPES_AT : 0.0;
    RB_WORKSPACE(RB_LARGE, double, x, RB_NX + 1);
    extrapolate_stages(stages, place, trial->h, x);
    for (int i = 0; i < RB_NX; i++)
        m[RB_X + i] = x[i] + trial->x[i];
    m[RB_T] = trial->t + place * trial->h;
    evaluate_inputs(course, m, m[RB_T]);
#if RB_EXACT_SLOPES
    jacobian_at(m, trial->h, trial->f, stages->slopes);
#else
    derivative(m, x);
    state_jacobian_at(m, x, stages->slopes);
#endif
    stages->spent += RB_PRICE_OF_SLOPES;
    stages->have_slopes = 2;
    stages->factored = 0.0;
}

/* Return the error norm: the difference from a method of order 5, filtered once by (1 - h
   RB_ROOTS[0] J)^-1. A second filtering would hide fast oscillations, for example of a stiff
   contact, that the stages only damp. */
RB_NOT_INLINED
static double stage_error(const TrialStep *trial, Stages *stages, double *e)
{
    for (int i = 0; i < RB_NX; i++) {
        double sum = 0.0;
        for (int s = 0; s < RB_NODES; s++)
            sum += RB_NODE_ERROR[s] * stages->z[s][i];
        e[i] = trial->h * RB_ROOTS[0] * trial->f[i] + sum;
    }
    solve(stages->real, stages->pivot[0], e);
    return error_norm(e, trial->x, trial->y);
}

/* Try a step of the collocation method. Returns its error norm. If Newton's method fails, returns
   16, for which rejected_step_size gives 0.45 h. */
RB_NOT_INLINED
static double try_stages(double *m, TrialStep *trial, Stages *stages,
                         const InputPolynomials *course)
{
    RB_WORKSPACE(RB_LARGE, double, e, RB_NX + 1);
    trial->next_known = 0;
    stages->spent = 0.0;
    if (trial->h > RB_REACH * stages->last_length) {
        stages->last_length = 0.0;
        stages->rest = 1.0;
    }
    for (int found = 0; !found;) {
        if (!stages->have_slopes)
            renew_slopes(m, trial, stages, course);
        factorize_stages(stages, trial->h);
        for (int i = 0; i < RB_NODES; i++)
            extrapolate_stages(stages, RB_NODE_TIMES[i], trial->h, stages->z[i]);
        found = store_stages(m, trial, stages, course);
        const int fresh = stages->have_slopes == 2;
        if (!found)
            stages->have_slopes = 0;
        if (!found && fresh)
            return 16.0;
    }
    for (int i = 0; i < RB_NX; i++)
        trial->y[i] = trial->x[i] + stages->z[RB_NODES - 1][i];
    const double error = stage_error(trial, stages, e);
    if (error > 1.0 && stages->have_slopes == 1)
        stages->have_slopes = 0;
    return error <= 1.0 ? max_of(error, project_end_state(m, trial, course)) : error;
}

/* Store the stages of an accepted step. Returns the next step size; `next` is the step size that
   the error control proposes. The Jacobian is kept if the contraction was at most 1e-3. The step
   size is kept if it would grow by less than 20 %, because new factors cost more. RADAU5
   (Hairer and Wanner) has the same bounds. The contraction is proportional to the step size, so the
   next step size is at most h RB_CONTRACTION / contraction. */
RB_NOT_INLINED
static double keep_stages(Stages *stages, double h, double next)
{
    for (int s = 0; s < RB_NODES; s++)
        store(stages->last[s], stages->z[s], RB_NX);
    stages->last_length = h;
    stages->have_slopes = stages->have_slopes != 0 && !(stages->contraction > 1e-3);
    if (stages->contraction * next > RB_CONTRACTION * h)
        next = round_to_nine_bits(RB_CONTRACTION * h / stages->contraction);
    return stages->have_slopes && next >= h && next < 1.2 * h ? h : next;
}

#endif

#endif
