/* Particle filter: sequential importance resampling with systematic resampling.

   The generated particles.h defines

     RB_PARTICLES                 number of particles
     RB_PARTICLE                  numbers of a particle: states, parameters, past values of outputs
     RB_ESTIMATES                 numbers of an estimate: states and parameters
     RB_MEASURED                  number of measured elements
     RB_ESTIMATE, RB_COVARIANCE, RB_INNOVATION, RB_EFFECTIVE, RB_SAMPLE, RB_LAST, RB_WEIGHTS, RB_ROWS
                                  index of the estimate, of its covariance, of the innovations, of
                                  the effective sample size, of the index of the sample, of the
                                  inputs of the last sample, of the weights and of the particles in
                                  the state of the filter
     RB_FILTER                    numbers of the state of the filter
     RB_CONTROLS                  number of inputs of the plant
     RB_PLANT_CONSTANTS           number of parameters of the plant and of process noise
     RB_GATE, RB_RESAMPLE_BELOW   gate [standard deviations], threshold of the effective sample size
     RB_LARGE_SCENE               1 if the workspaces do not fit on the stack
     particle_start, particle_move, particle_outputs, particle_mean, resampling_point
                                  functions of RB_IN arguments */

#ifndef RB_PARTICLE_FILTER_H
#define RB_PARTICLE_FILTER_H

#include <math.h>
#include <string.h>

#if !defined(RB_PARTICLES_H) /* if the generated functions are in another file */
#include "particles.h"
#endif

#include "../kernel/workspace.h"

#define RB_LARGEST_MEASUREMENT 1e300 /* larger values and NaN are missing */

/* Arguments of the generated functions. */
enum {
    RB_IN_TIME = 0,
    RB_IN_DRAW = 1, /* number of the random vector */
    RB_IN_X = 2,    /* particle */
    RB_IN_CONTROLS = RB_IN_X + RB_PARTICLE,
    RB_IN_LAST = RB_IN_CONTROLS + RB_CONTROLS + 1, /* inputs of the last sample */
    RB_IN_CONSTANTS = RB_IN_LAST + RB_CONTROLS + 1,
    RB_IN = RB_IN_CONSTANTS + RB_PLANT_CONSTANTS + 1
};

/* Measured elements and standard deviations of their noise. */
struct measurement {
    const double *y, *noise;
};

/* Divide the weights exp(logarithm) by their sum. If all of them are 0, the weights do not change. */
static inline void normalize_weights(const double *logarithm, double *weight)
{
    double largest = -INFINITY, sum = 0.0;
    for (int i = 0; i < RB_PARTICLES; i++)
        if (logarithm[i] > largest)
            largest = logarithm[i];
    if (!(largest > -INFINITY))
        return;
    for (int i = 0; i < RB_PARTICLES; i++) {
        weight[i] = logarithm[i] > -INFINITY ? exp(logarithm[i] - largest) : 0.0;
        sum += weight[i];
    }
    for (int i = 0; i < RB_PARTICLES; i++)
        weight[i] /= sum;
}

static inline int is_finite_particle(const double *row)
{
    for (int j = 0; j < RB_PARTICLE; j++)
        if (!isfinite(row[j]))
            return 0;
    return 1;
}

/* Replace the particles that are not finite by copies of a finite particle, with weight 0. If no
   finite particle has a weight, nothing changes. */
static inline void drop_diverged_particles(double *rows, double *weight)
{
    RB_WORKSPACE(RB_LARGE_SCENE, double, logarithm, RB_PARTICLES);
    int finite = -1, diverged = 0;
    for (int i = 0; i < RB_PARTICLES; i++) {
        const int is_finite = is_finite_particle(rows + i * RB_PARTICLE);
        logarithm[i] = is_finite && weight[i] > 0.0 ? log(weight[i]) : -INFINITY;
        diverged += !is_finite;
        if (logarithm[i] > -INFINITY)
            finite = i;
    }
    if (diverged == 0 || finite < 0)
        return;
    normalize_weights(logarithm, weight);
    for (int i = 0; i < RB_PARTICLES; i++) {
        double *const row = rows + i * RB_PARTICLE;
        if (!is_finite_particle(row))
            memcpy(row, rows + finite * RB_PARTICLE, RB_PARTICLE * sizeof *row);
    }
}

/* Return the mean of one predicted element, whose values are `stride` apart, and its variance. The
   moments do not include values that are not finite. */
static inline double weighted_mean(const double *weight, const double *h, int stride,
                                   double *variance)
{
    double mean = 0.0, sum = 0.0;
    *variance = 0.0;
    for (int i = 0; i < RB_PARTICLES; i++)
        if (weight[i] > 0.0 && isfinite(h[i * stride])) {
            mean += weight[i] * h[i * stride];
            sum += weight[i];
        }
    mean /= sum;
    for (int i = 0; i < RB_PARTICLES; i++)
        if (weight[i] > 0.0 && isfinite(h[i * stride]))
            *variance += weight[i] * (h[i * stride] - mean) * (h[i * stride] - mean);
    *variance /= sum;
    return mean;
}

/* Multiply the weights by the likelihood of the measured elements, one after the other:
   w_i <- w_i exp(-(y - h_i)^2 / (2 sigma^2)). h has a row of RB_MEASURED outputs for each particle.
   If h_i is not finite, w_i becomes 0. */
static inline void weigh_particles(struct measurement measured, const double *h, double *weight,
                                   double *innovation)
{
    RB_WORKSPACE(RB_LARGE_SCENE, double, logarithm, RB_PARTICLES);
    for (int j = 0; j < RB_MEASURED; j++) {
        const double y = measured.y[j], sigma = measured.noise[j];
        double variance;
        const double mean = weighted_mean(weight, h + j, RB_MEASURED, &variance);
        innovation[j] = 0.0;
        if (!(fabs(y) <= RB_LARGEST_MEASUREMENT))
            continue;
        innovation[j] = (y - mean) / sqrt(variance + sigma * sigma);
        if (fabs(innovation[j]) > RB_GATE)
            continue;
        for (int i = 0; i < RB_PARTICLES; i++) {
            const double e = (y - h[i * RB_MEASURED + j]) / sigma;
            logarithm[i] =
                weight[i] > 0.0 && isfinite(e) ? log(weight[i]) - 0.5 * e * e : -INFINITY;
        }
        normalize_weights(logarithm, weight);
    }
}

/* Compute the estimate, which satisfies the constraints of the plant, and its covariance. */
static inline void estimate_states(double *in, const double *rows, const double *weight,
                                   double *out)
{
    double *const P = out + RB_COVARIANCE, *const mean = out + RB_ESTIMATE,
                  *const sum = in + RB_IN_X;
    memset(sum, 0, RB_PARTICLE * sizeof *sum);
    memset(P, 0, (size_t)(RB_ESTIMATES * RB_ESTIMATES) * sizeof *P);
    for (int i = 0; i < RB_PARTICLES; i++)
        for (int j = 0; j < RB_PARTICLE && weight[i] > 0.0; j++)
            sum[j] += weight[i] * rows[i * RB_PARTICLE + j];
    particle_mean(in, mean);
    for (int i = 0; i < RB_PARTICLES; i++) {
        const double *const x = rows + i * RB_PARTICLE;
        for (int j = 0; j < RB_ESTIMATES && weight[i] > 0.0; j++)
            for (int k = 0; k <= j; k++)
                P[j * RB_ESTIMATES + k] += weight[i] * (x[j] - mean[j]) * (x[k] - mean[k]);
    }
    for (int j = 0; j < RB_ESTIMATES; j++)
        for (int k = 0; k < j; k++)
            P[k * RB_ESTIMATES + j] = P[j * RB_ESTIMATES + k];
}

/* Replace the particles by RB_PARTICLES particles of equal weight (systematic resampling): particle
   i is copied once for each n with  sum of w_0 ... w_i-1 <= (point + n) / RB_PARTICLES < sum of
   w_0 ... w_i. */
static inline void resample(double point, const double *rows, double *weight, double *out)
{
    int i = 0;
    double sum = weight[0];
    for (int n = 0; n < RB_PARTICLES; n++) {
        while (i < RB_PARTICLES - 1 && sum <= (point + n) / RB_PARTICLES)
            sum += weight[++i];
        memcpy(out + n * RB_PARTICLE, rows + i * RB_PARTICLE, RB_PARTICLE * sizeof *out);
    }
    for (int n = 0; n < RB_PARTICLES; n++)
        weight[n] = 1.0 / RB_PARTICLES;
}

/* Move all particles, or draw their start values if `first` is 1, and compute their outputs h. */
static inline void move_particles(const double *state, int first, double *in, double *rows,
                                  double *h)
{
    const double sample = first ? 0.0 : state[RB_SAMPLE] + 1.0;
    double *const x = in + RB_IN_X;
    memset(x, 0, RB_PARTICLE * sizeof *x);
    for (int i = 0; i < RB_PARTICLES; i++) {
        double *const row = rows + i * RB_PARTICLE;
        in[RB_IN_DRAW] = sample * RB_PARTICLES + i;
        if (first) {
            memcpy(x, state + RB_ESTIMATE, RB_ESTIMATES * sizeof *x);
            particle_start(in, row);
        } else {
            memcpy(x, state + RB_ROWS + i * RB_PARTICLE, RB_PARTICLE * sizeof *x);
            particle_move(in, row);
        }
        memcpy(x, row, RB_PARTICLE * sizeof *x);
        particle_outputs(in, h + i * RB_MEASURED);
    }
}

/* Compute a sample: move the particles, weigh them, estimate the states, and resample. `first` is 1
   for the first sample, whose particles are random start values. `in` contains the time, the inputs
   and the constants. The workspaces `rows` and `h` have a row for each particle. */
static inline void filter_particles(const double *state, int first, double *in,
                                    struct measurement measured, double *rows, double *h,
                                    double *out)
{
    double *const weight = out + RB_WEIGHTS;
    double squares = 0.0, point = 0.0;
    memcpy(out, state, RB_FILTER * sizeof *out);
    memcpy(in + RB_IN_LAST, first ? in + RB_IN_CONTROLS : state + RB_LAST,
           RB_CONTROLS * sizeof *in);
    move_particles(state, first, in, rows, h);
    for (int i = 0; i < RB_PARTICLES && first; i++)
        weight[i] = 1.0 / RB_PARTICLES;
    drop_diverged_particles(rows, weight);
    weigh_particles(measured, h, weight, out + RB_INNOVATION);
    estimate_states(in, rows, weight, out);
    for (int i = 0; i < RB_PARTICLES; i++)
        squares += weight[i] * weight[i];
    out[RB_EFFECTIVE] = 1.0 / squares;
    out[RB_SAMPLE] = first ? 0.0 : state[RB_SAMPLE] + 1.0;
    memcpy(out + RB_LAST, in + RB_IN_CONTROLS, RB_CONTROLS * sizeof *out);
    if (out[RB_EFFECTIVE] < RB_RESAMPLE_BELOW * RB_PARTICLES) {
        in[RB_IN_DRAW] = out[RB_SAMPLE];
        resampling_point(in, &point);
        resample(point, rows, weight, out + RB_ROWS);
    } else {
        memcpy(out + RB_ROWS, rows, RB_PARTICLES * RB_PARTICLE * sizeof *out);
    }
}

#endif
