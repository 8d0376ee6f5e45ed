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

/* Inputs that follow polynomials in a step: u(t) = sum_k c[k] (t - t0)^k. In a step without a course they are held. */
enum { COURSE_ORDER = 3 };
typedef struct {
    double t0;
    double c[COURSE_ORDER + 1][NU + 1];
} Course;

/* Sets the inputs to their values at t. */
static void follow(const Course *course, double *m, double t)
{
    for (int i = 0; course && i < NU; i++) {
        double u = 0.0;
        for (int k = COURSE_ORDER; k >= 0; k--)
            u = u * (t - course->t0) + course->c[k][i];
        m[U + i] = u;
    }
}

#if defined(LINEARLY_IMPLICIT) /* then model.h has the step of its integrator, which holds the inputs: in their middle */
static void integrate_inputs(double *m, double t, double h, const Course *course)
{
    follow(course, m, t + 0.5 * h);
    integrate(m, t, h);
}
#else
/* One step of the integrator of model.h: x + h sum b_i k_i with k_i = derivative(t + c_i h, x_i). */
static void integrate_inputs(double *m, double t, double h, const Course *course)
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
            follow(course, m, m[T]);
            derivative(m, k[s]);
        }
    }
}
#endif

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
    return shorter > 1e9 || fabs(shorter - floor(shorter + 0.5)) > 1e-6 ? 0 : (int)floor(shorter + 0.5);
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

/* The number of equal inner steps, none longer than INNER_STEP, that make a span of time. */
static int inner_steps(double span)
{
    const double ratio = ceil(span / INNER_STEP - 1e-9);
    return ratio > 1.0 ? (int)ratio : 1;
}

/* One inner step from t to `end`, the states put back then; without continuous states there is only the time. */
static void inner_step(double *m, double t, double h, double end, const Course *course)
{
    if (NX > 0) {
        integrate_inputs(m, t, h, course);
        follow(course, m, end);
        put_back(m, end);
    }
}

/* The sampled states at the time that the memory is at. */
static void sample(double *m)
{
    double z[NZ + 1];
    update(m, z);
    store(m + Z, z, NZ);
}

/* From t to t + dt, the inputs on their course: inner steps of at most INNER_STEP, samples where they fall, then the
   outputs. */
static int step(double *m, double t, double dt, const Course *course)
{
    if (!(dt > 0.0 && dt < 1e9 * INNER_STEP))
        return STEP_DOES_NOT_FIT;
    const int spans = sample_spans(dt);
    if (spans == 0)
        return STEP_DOES_NOT_FIT;
    const double span = dt / spans;
    const int n = inner_steps(span);
    for (int k = 0; k < spans; k++) {
        for (int j = 0; j < n && NX > 0; j++)
            inner_step(m, t + k * span + j * (span / n), span / n, t + k * span + (j + 1) * (span / n), course);
        m[T] = t + (k + 1) * span;
        follow(course, m, m[T]);
        if (SAMPLE_TIME > 0.0 && is_sample(m[T], span))
            sample(m);
    }
    output(m, m + Y);
    return all_finite(m) ? STEP_OK : STEP_NOT_FINITE;
}
