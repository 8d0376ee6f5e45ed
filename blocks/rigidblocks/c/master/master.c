/* Co-simulation loop: for each part, copy the wires, set the inputs, do the step and get the
   outputs. Then check and record the outputs.

   CoSimulation of cosim/masters/masters.py does the same arithmetic in the same order. */

#define _POSIX_C_SOURCE 200809L /* for clock_gettime; NOLINT(bugprone-reserved-identifier) */

#include <float.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "fmu_step.h"
#include "loop_tables.h"
#include "model_exchange.h"

/* Return the time [s] of a monotonic clock that is fast to read. */
static double clock_seconds(void)
{
#if defined(_WIN32)
    return (double)clock() / CLOCKS_PER_SEC; /* wall-clock time on Windows */
#else
    struct timespec time;
#if defined(CLOCK_MONOTONIC_COARSE)
    clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
#else
    clock_gettime(CLOCK_MONOTONIC, &time);
#endif
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
#endif
}

static void copy_values(const Copy *copies, int64_t n)
{
    for (int64_t k = 0; k < n; k++)
        for (int64_t i = 0; i < copies[k].n; i++)
            copies[k].to[i] = copies[k].from[i];
}

static double convert(const Scale *scale, double value)
{
    for (int64_t k = 0; k < scale->n_table; k++)
        if (scale->table[k][0] == value) {
            value = scale->table[k][1];
            break;
        }
    return scale->factor * value + scale->offset;
}

/* Copy the wires of a part, and convert its inputs. */
RB_EXPORT void rb_master_read(const Part *part)
{
    copy_values(part->wires, part->n_wires);
    for (int64_t k = 0; k < part->n_scales; k++)
        *part->scales[k].value = convert(&part->scales[k], *part->scales[k].value);
}

static int part_step(Loop *loop, const Part *part, double t, double dt)
{
    if (part->kind == RB_BLOCK) {
        loop->status = part->step.block_step(part->instance, t, dt);
        return loop->status == 0;
    }
    if (part->kind == RB_HOSTED)
        return !loop->host((int)part->number, t, dt);
    return part->exchange ? rb_exchange_step(loop, part, t, dt) : rb_fmu_step(loop, part, t, dt);
}

static int all_finite(const Copy *copies, int64_t n)
{
    for (int64_t k = 0; k < n; k++)
        for (int64_t i = 0; i < copies[k].n; i++)
            if (!isfinite(copies[k].from[i]))
                return 0;
    return 1;
}

/* Return 1 if a part steps in the communication step from t. For a slow part, replace t and dt by
   the start and the length of its own communication step, which ends with the step from t. */
static int is_due(const Part *part, double *t, double *dt)
{
    if (part->every <= 1)
        return 1;
    const int64_t number = (int64_t)floor((*t - part->t_start) / part->dt + 0.5) + 1;
    if (number % part->every)
        return 0;
    const int64_t begin = number / part->every - 1;
    *t = part->t_start + (double)begin * part->length;
    *dt = part->length;
    return 1;
}

static int step_all_parts(Loop *loop, double t, double dt)
{
    for (int64_t k = 0; loop->simultaneous && k < loop->n_parts; k++) {
        double begin = t, length = dt;
        if (is_due(loop->parts + k, &begin, &length))
            rb_master_read(loop->parts + k);
    }
    for (int64_t k = 0; k < loop->n_parts; k++) {
        const Part *part = loop->parts + k;
        double begin = t, length = dt;
        if (!is_due(part, &begin, &length))
            continue;
        if (!loop->simultaneous)
            rb_master_read(part);
        if (!part_step(loop, part, begin, length)) {
            loop->part = part->number;
            return RB_LOOP_FAILED;
        }
    }
    return all_finite(loop->checked, loop->n_checked) ? RB_LOOP_DONE : RB_LOOP_NOT_FINITE;
}

/* Record the outputs at step k. */
static void store_row(Loop *loop)
{
    double *row = loop->rows;
    for (int64_t k = 0; k < loop->n_kept; k++)
        for (int64_t i = 0; i < loop->kept[k].n; i++)
            *row++ = loop->kept[k].from[i];
    loop->rows = row;
    *loop->time++ = loop->t_start + (double)loop->k * loop->dt;
    loop->filled++;
}

/* Do steps until `end`, until the rows are full, or until the time `patience` has elapsed. */
RB_EXPORT int rb_master_run(Loop *loop)
{
    const double begin = clock_seconds();
    while (loop->k < loop->end) {
        const int keeps = (loop->k + 1) % loop->every == 0;
        if (keeps && loop->filled == loop->room)
            return RB_LOOP_DONE;
        const int ending =
            step_all_parts(loop, loop->t_start + (double)loop->k * loop->dt, loop->dt);
        if (ending != RB_LOOP_DONE)
            return ending;
        loop->k++;
        if (keeps)
            store_row(loop);
        if (clock_seconds() - begin > loop->patience)
            return RB_LOOP_DONE;
    }
    return RB_LOOP_DONE;
}

/* Do one step without recording. */
RB_EXPORT int rb_master_step(Loop *loop, double t, double dt)
{
    return step_all_parts(loop, t, dt);
}
