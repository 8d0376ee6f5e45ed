/* The step of a collocation method: what block/collocation.py does, by the same arithmetic in the
   same order.

   The stages x + z_i are where z_i = h sum a_ij f(t + c_j h, x + z_j), found by Newton's method
   with the Jacobian of a place in the step, or in one before as long as that converges. In the
   coordinates RB_THERE z its linear equations are one real system and two complex ones of n
   unknowns each (Hairer and Wanner II, IV.8; 1999). */

#ifndef RB_COLLOCATION_H
#define RB_COLLOCATION_H

#include <float.h>
#include <math.h>

#include "course.h"
#include "implicit.h"
#include "stiffness.h"
#include "trial.h"

#if RB_ADAPTIVE && RB_COLLOCATION

enum { RB_NODES = 5, RB_PAIRS = 2 };

/* What is known on the way through a communication step, from one inner step to the next. */
typedef struct {
    double slopes[RB_NX * RB_NX + RB_NX + 1];
    int have_slopes; /* 2 of this inner step, 1 of one before, 0 none that do */
    double real[RB_NX + 1][RB_NX + 1], re[RB_PAIRS][RB_NX + 1][RB_NX + 1],
        im[RB_PAIRS][RB_NX + 1][RB_NX + 1];
    int pivot[1 + RB_PAIRS][RB_NX + 1];
    double factored; /* the length that the factors are for, 0 without */
    double z[RB_NODES][RB_NX + 1], last[RB_NODES][RB_NX + 1];
    double last_length; /* 0 without */
    /* of Newton's method: what is left after a step of it in steps of it, and its contraction */
    double rest, rate;
    double contraction; /* of its first two steps, which rounding hardly touches */
    int tries;
    double spent; /* of the last step that was tried */
} Stages;

static inline void start_stages(Stages *stages)
{
    stages->have_slopes = 0;
    stages->factored = stages->last_length = 0.0;
    stages->rest = 1.0;
    stages->rate = stages->contraction = stages->spent = 0.0;
}

/* The factors of re + i im in their place, as `factorize` has them. */
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
        re[j][j] = a; /* the inverse of the pivot */
        im[j][j] = b;
    }
}

/* (re + i im)^-1 (a + i b) in the place of a and b. */
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

/* The factors of 1 - h root J for each root. */
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

/* Where the polynomial of the step before comes to in the part `place` of a step of length h, from
   its start. */
RB_NOT_INLINED
static void go_on(const Stages *stages, double place, double h, double *z)
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

/* Newton's step of all stages: dz from the rates there. */
RB_NOT_INLINED
static void newton_step(Stages *stages, double h, double rates[RB_NODES][RB_NX + 1],
                        double dz[RB_NODES][RB_NX + 1])
{
    double b[RB_NODES][RB_NX + 1];
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

/* Whether Newton's method converges, or will within its tries, told by its contraction. */
RB_NOT_INLINED
static int found_stages(double *m, Trial *trial, Stages *stages, const Course *course)
{
    double rates[RB_NODES][RB_NX + 1], dz[RB_NODES][RB_NX + 1], before = 0.0;
    stages->rest = sqrt(stages->rest) * sqrt(sqrt(stages->rest));
    stages->rate = stages->contraction = 0.0;
    for (stages->tries = 1; stages->tries <= RB_MOST_NEWTON; stages->tries++) {
        double distance = 0.0;
        stages->spent += RB_PRICE_OF_NEWTON;
        for (int s = 0; s < RB_NODES; s++) {
            for (int i = 0; i < RB_NX; i++)
                trial->y[i] = trial->x[i] + stages->z[s][i];
            rates_at(m, trial->t + RB_NODE_TIMES[s] * trial->h, trial->y, course, rates[s]);
        }
        newton_step(stages, trial->h, rates, dz);
        for (int s = 0; s < RB_NODES; s++) {
            distance = larger(distance, in_tolerances(dz[s], trial->x, trial->x));
            for (int i = 0; i < RB_NX; i++)
                stages->z[s][i] += dz[s][i];
        }
        if (!(distance <= DBL_MAX))
            return 0;
        if (stages->tries > 1) {
            stages->rate = distance / before;
            if (stages->tries == 2)
                stages->contraction = stages->rate;
            const int slow = stages->rate >= 0.99;
            stages->rest = slow ? 1.0 : larger(stages->rate / (1.0 - stages->rate), 1e-16);
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

/* The Jacobian in the part RB_SLOPES_AT of the step, where the polynomial of the step before comes
   to: most stages are nearer to it than to the start, and Newton's method contracts the faster. */
RB_NOT_INLINED
static void renew_slopes(double *m, const Trial *trial, Stages *stages, const Course *course)
{
    const double place = stages->last_length > 0.0 ? RB_SLOPES_AT : 0.0;
    double x[RB_NX + 1];
    go_on(stages, place, trial->h, x);
    for (int i = 0; i < RB_NX; i++)
        m[RB_X + i] = x[i] + trial->x[i];
    m[RB_T] = trial->t + place * trial->h;
    follow(course, m, m[RB_T]);
#if RB_EXACT_SLOPES
    slopes_at(m, trial->h, trial->f, stages->slopes);
#else
    derivative(m, x);
    state_slopes_at(m, x, stages->slopes);
#endif
    stages->spent += RB_PRICE_OF_SLOPES;
    stages->have_slopes = 2;
    stages->factored = 0.0;
}

/* The difference to a method of order 5, what decays fast taken out of it, in tolerances. It is
   taken out once: twice would hide what swings fast, as on a stiff contact, which the stages only
   damp. */
RB_NOT_INLINED
static double error_of_stages(const Trial *trial, Stages *stages, double *e)
{
    for (int i = 0; i < RB_NX; i++) {
        double sum = 0.0;
        for (int s = 0; s < RB_NODES; s++)
            sum += RB_NODE_ERROR[s] * stages->z[s][i];
        e[i] = trial->h * RB_ROOTS[0] * trial->f[i] + sum;
    }
    solve(stages->real, stages->pivot[0], e);
    return in_tolerances(e, trial->x, trial->y);
}

/* A step of the collocation method: trial->y and its error. One of 16, which halves the step, where
   there are no stages. */
RB_NOT_INLINED
static double try_stages(double *m, Trial *trial, Stages *stages, const Course *course)
{
    double e[RB_NX + 1];
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
            go_on(stages, RB_NODE_TIMES[i], trial->h, stages->z[i]);
        found = found_stages(m, trial, stages, course);
        const int fresh = stages->have_slopes == 2;
        if (!found)
            stages->have_slopes = 0;
        if (!found && fresh)
            return 16.0;
    }
    for (int i = 0; i < RB_NX; i++)
        trial->y[i] = trial->x[i] + stages->z[RB_NODES - 1][i];
    const double error = error_of_stages(trial, stages, e);
    if (error > 1.0 && stages->have_slopes == 1)
        stages->have_slopes = 0;
    return error <= 1.0 ? larger(error, arrive(m, trial, course)) : error;
}

/* Keeps what a step that is taken leaves; returns the length of the next one, given that by its
   error. */
RB_NOT_INLINED
static double keep_stages(Stages *stages, double h, double next)
{
    for (int s = 0; s < RB_NODES; s++)
        store(stages->last[s], stages->z[s], RB_NX);
    stages->last_length = h;
    stages->have_slopes = stages->have_slopes != 0 && !(stages->contraction > 1e-3);
    if (stages->contraction * next > RB_CONTRACTION * h)
        next = coarse(RB_CONTRACTION * h / stages->contraction);
    return stages->have_slopes && next >= h && next < 1.2 * h ? h : next;
}

#endif

#endif
