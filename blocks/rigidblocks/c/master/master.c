/* The loop of a co-simulation: copy the wires, set, step and get, check and keep the outputs.

   The same arithmetic, in the same order, as CoSimulation of simulation/masters.py. */

#define _POSIX_C_SOURCE 200809L /* for clock_gettime; NOLINT(bugprone-reserved-identifier) */

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "master.h"

/* s on a clock that costs little to read */
static double now(void)
{
#if defined(_WIN32)
    return (double)clock() / CLOCKS_PER_SEC; /* which is that of the wall there */
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

static void copy(const Copy *copies, int64_t n)
{
    for (int64_t k = 0; k < n; k++)
        for (int64_t i = 0; i < copies[k].n; i++)
            copies[k].to[i] = copies[k].from[i];
}

/* The wires to a part, with their units converted. */
RB_EXPORT void master_read(const Part *part)
{
    copy(part->wires, part->n_wires);
    for (int64_t k = 0; k < part->n_scales; k++)
        *part->scales[k].value =
            part->scales[k].factor * *part->scales[k].value + part->scales[k].offset;
}

static int set2(const Part *part)
{
    return part->set.n ? part->set.function.fmi2_set(part->instance, part->set.references,
                                                     (size_t)part->set.n, part->set.values)
                       : 0;
}

static int step2(const Part *part, double t, double dt)
{
    return part->step.fmi2_step(part->instance, t, dt, !*part->may_go_back);
}

static int get2(const Part *part)
{
    return part->get.n ? part->get.function.fmi2_get(part->instance, part->get.references,
                                                     (size_t)part->get.n, part->get.values)
                       : 0;
}

static int set3(const Part *part)
{
    return part->set.n ? part->set.function.fmi3_set(part->instance, part->set.references,
                                                     (size_t)part->set.n, part->set.values,
                                                     (size_t)part->set.n_values)
                       : 0;
}

static int get3(const Part *part)
{
    return part->get.n ? part->get.function.fmi3_get(part->instance, part->get.references,
                                                     (size_t)part->get.n, part->get.values,
                                                     (size_t)part->get.n_values)
                       : 0;
}

/* Steps that FMI 3.0 lets an FMU end early, or in an event, are the host's to go on from: they have
   a status of their own. */
static int step3(const Part *part, double t, double dt)
{
    _Bool event = 0, terminate = 0, early = 0;
    double last = t;
    const int status = part->step.fmi3_step(part->instance, t, dt, !*part->may_go_back, &event,
                                            &terminate, &early, &last);
    return status ? status : event || terminate || early ? RB_UNUSUAL : 0;
}

/* What a call on a part returned is judged by the host, where it says something. */
static int accepted(const Loop *loop, const Part *part, int call, int status, double t, double dt)
{
    return !status || !loop->judge((int)part->number, call, status, t, dt);
}

static int fmu_step(const Loop *loop, const Part *part, double t, double dt)
{
    const int is3 = part->kind == RB_FMI3;
    *part->clock = t;
    return accepted(loop, part, RB_SET, is3 ? set3(part) : set2(part), t, dt) &&
           accepted(loop, part, RB_STEP, is3 ? step3(part, t, dt) : step2(part, t, dt), t, dt) &&
           accepted(loop, part, RB_GET, is3 ? get3(part) : get2(part), t, dt);
}

static int part_step(Loop *loop, const Part *part, double t, double dt)
{
    if (part->kind == RB_BLOCK) {
        loop->status = part->step.block_step(part->instance, t, dt);
        return loop->status == 0;
    }
    if (part->kind == RB_HOSTED)
        return !loop->host((int)part->number, t, dt);
    return fmu_step(loop, part, t, dt);
}

static int all_finite(const Copy *copies, int64_t n)
{
    for (int64_t k = 0; k < n; k++)
        for (int64_t i = 0; i < copies[k].n; i++)
            if (!isfinite(copies[k].from[i]))
                return 0;
    return 1;
}

static int step(Loop *loop, double t, double dt)
{
    if (loop->simultaneous)
        for (int64_t k = 0; k < loop->n_parts; k++)
            master_read(loop->parts + k);
    for (int64_t k = 0; k < loop->n_parts; k++) {
        const Part *part = loop->parts + k;
        if (!loop->simultaneous)
            master_read(part);
        if (!part_step(loop, part, t, dt)) {
            loop->part = part->number;
            return RB_LOOP_FAILED;
        }
    }
    return all_finite(loop->checked, loop->n_checked) ? RB_LOOP_DONE : RB_LOOP_NOT_FINITE;
}

/* The outputs at step k as a row. */
static void keep(Loop *loop)
{
    double *row = loop->rows;
    for (int64_t k = 0; k < loop->n_kept; k++)
        for (int64_t i = 0; i < loop->kept[k].n; i++)
            *row++ = loop->kept[k].from[i];
    loop->rows = row;
    *loop->time++ = loop->t_start + (double)loop->k * loop->dt;
    loop->filled++;
}

/* Takes steps up to the end that is asked for, while there is room for their rows and time. */
RB_EXPORT int master_run(Loop *loop)
{
    const double begin = now();
    while (loop->k < loop->end) {
        const int keeps = (loop->k + 1) % loop->every == 0;
        if (keeps && loop->filled == loop->room)
            return RB_LOOP_DONE;
        const int ending = step(loop, loop->t_start + (double)loop->k * loop->dt, loop->dt);
        if (ending != RB_LOOP_DONE)
            return ending;
        loop->k++;
        if (keeps)
            keep(loop);
        if (now() - begin > loop->patience)
            return RB_LOOP_DONE;
    }
    return RB_LOOP_DONE;
}

/* One step, of which no row is kept. */
RB_EXPORT int master_step(Loop *loop, double t, double dt)
{
    return step(loop, t, dt);
}
