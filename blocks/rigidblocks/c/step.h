/* The step of a block: fixed-step integration and samples on the flat memory that the generated model.h lays out.

   memory = [t | X continuous states | Z sampled states | U inputs | P tunable parameters | Y computed outputs]

   The same arithmetic, in the same order, as FlatBlock.initialized and FlatBlock.advanced. */

#include <math.h>
#include <string.h>

enum { STEP_OK = 0, STEP_DOES_NOT_FIT = 1, STEP_NOT_FINITE = 2 };

static void store(double *m, const double *values, int n)
{
    memcpy(m, values, (size_t)n * sizeof(double));
}

static int all_finite(const double *m)
{
    for (int i = 0; i < SIZE; i++)
        if (!isfinite(m[i]))
            return 0;
    return 1;
}

/* One step of the integrator of model.h: x + h sum b_i k_i with k_i = derivative(t + c_i h, x_i). */
static void integrate(double *m, double t, double h)
{
    double x[NX + 1], k[STAGES][NX + 1];
    store(x, m + X, NX);
    for (int s = 0; s <= STAGES; s++) {
        for (int i = 0; i < NX; i++) {
            const double *weight = POSITION[i] ? A_POSITION[s] : A[s];
            double sum = 0.0;
            for (int r = 0; r < s; r++)
                sum += weight[r] * k[r][i];
            m[X + i] = x[i] + h * sum;
        }
        if (s < STAGES) {
            m[T] = t + C[s] * h;
            derivative(m, k[s]);
        }
    }
}

/* The states moved back to where they belong at t, in a block that has a projection. */
static void put_back(double *m, double t)
{
    m[T] = t;
#if PROJECTS
    double x[NX];
    project(m, x);
    store(m + X, x, NX);
#endif
}

/* The number of equal parts of dt such that a sample can only fall on the end of one; 0 when dt does not fit. */
static int sample_spans(double dt)
{
    const double longer = SAMPLE_TIME / dt, shorter = dt / SAMPLE_TIME;
    if (SAMPLE_TIME <= 0.0 || (fabs(longer - floor(longer + 0.5)) < 1e-6 && longer >= 0.5))
        return 1;
    return fabs(shorter - floor(shorter + 0.5)) > 1e-6 ? 0 : (int)floor(shorter + 0.5);
}

static int is_sample(double t, double span)
{
    const double samples = t / SAMPLE_TIME;
    return span > SAMPLE_TIME * (1.0 - 1e-6) || fabs(samples - floor(samples + 0.5)) < 1e-6;
}

/* The start of a run at t: sampled states and outputs computed from the inputs. */
static int initialize(double *m, double t)
{
    double z[NZ + 1];
    put_back(m, t);
    initial(m, z);
    store(m + Z, z, NZ);
    output(m, m + Y);
    return all_finite(m) ? STEP_OK : STEP_NOT_FINITE;
}

/* From t to t + dt, the inputs held: inner steps of at most INNER_STEP, samples where they fall, then the outputs. */
static int step(double *m, double t, double dt)
{
    double z[NZ + 1];
    if (!(dt > 0.0 && dt < 1e9 * INNER_STEP))
        return STEP_DOES_NOT_FIT;
    const int spans = sample_spans(dt);
    if (spans == 0)
        return STEP_DOES_NOT_FIT;
    const double span = dt / spans;
    const double ratio = ceil(span / INNER_STEP - 1e-9);
    const int n = ratio > 1.0 ? (int)ratio : 1;
    for (int k = 0; k < spans; k++) {
        for (int j = 0; j < n && NX > 0; j++) {
            integrate(m, t + k * span + j * (span / n), span / n);
            put_back(m, t + k * span + (j + 1) * (span / n));
        }
        m[T] = t + (k + 1) * span;
        if (SAMPLE_TIME > 0.0 && is_sample(m[T], span)) {
            update(m, z);
            store(m + Z, z, NZ);
        }
    }
    output(m, m + Y);
    return all_finite(m) ? STEP_OK : STEP_NOT_FINITE;
}
