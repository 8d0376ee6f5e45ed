/* Steps of a system with imported FMUs: initialization, and the loop of loop_tables.h over a table,
   with one memory. */

#define _GNU_SOURCE /* for Linux-specific calls; NOLINT(bugprone-reserved-identifier) */

#include <stdio.h>
#include <string.h>

#include "bare_metal_step.h"
#include "imported_fmus.h"
#include "loop_tables.h"

double *rb_runner_memory(void)
{
    return memory;
}

enum { START_PASSES = 20 }; /* largest number of iterations of an algebraic loop */

static unsigned char known[sizeof memory / sizeof *memory];  /* outputs that are known so far */
static unsigned char wanted[sizeof memory / sizeof *memory]; /* outputs to compute */
static unsigned char current[RUNNER_PARTS + 1]; /* 1 if the outputs belong to current inputs */
static double before[sizeof memory / sizeof *memory], start_time;

/* Read the inputs of a part whose sources are known. Returns 1 if all sources are known. */
static int read_known(const Part *part)
{
    int all = 1;
    for (int64_t w = 0; w < part->n_wires; w++) {
        const Copy *wire = part->wires + w;
        for (int64_t i = 0; i < wire->n; i++) {
            if (!known[wire->from - memory + i]) {
                all = 0;
                continue;
            }
            wire->to[i] = wire->from[i];
            for (int64_t k = 0; k < part->n_scales; k++)
                if (part->scales[k].value == wire->to + i)
                    wire->to[i] = part->scales[k].factor * wire->to[i] + part->scales[k].offset;
        }
    }
    return all;
}

/* Compute the outputs of a part at the start: all of them, or those marked in `some`. */
static int evaluate(int number, const unsigned char *some)
{
    if (STARTS[number])
        return STARTS[number](PARTS[number].instance, start_time) ? RUNNER_NOT_FINITE : RUNNER_OK;
    return initialize_fmu(&fmus[FMU_OF[number]], some) ? RUNNER_FAILED : RUNNER_OK;
}

/* Read the inputs of a part. If they have changed, compute its outputs. */
static int refresh(int number, int *changed)
{
    const int first = FIRST[number];
    const size_t size = sizeof *memory * (size_t)(FIRST[number + 1] - first);
    memcpy(before, memory + first, size);
    rb_master_read(PARTS + number);
    if (current[number] && memcmp(before, memory + first, size) == 0)
        return RUNNER_OK;
    *changed = current[number] = 1;
    return evaluate(number, NULL);
}

/* Evaluate a part with the inputs that are known. Some of its outputs become known. */
static int evaluate_known(const Evaluation *evaluation)
{
    const int all = read_known(PARTS + evaluation->part);
    memset(wanted, 0, sizeof wanted);
    for (int k = 0; k < evaluation->n; k++)
        wanted[evaluation->places[k]] = 1;
    const int status = evaluate(evaluation->part, wanted);
    for (int k = 0; k < evaluation->n; k++)
        known[evaluation->places[k]] = 1;
    /* the evaluation of a block may fail while some inputs are not known */
    return all || !STARTS[evaluation->part] ? status : RUNNER_OK;
}

/* Evaluate the parts of a group until no input changes. */
static int settle(const StartGroup *group)
{
    for (int pass = 0; pass < START_PASSES; pass++) {
        int changed = 0;
        for (int k = 0; k < group->n_parts; k++) {
            const int status = refresh(group->parts[k], &changed);
            if (status)
                return status;
        }
        if (!changed)
            return RUNNER_OK;
    }
    (void)fprintf(stderr, "the initialization did not converge in %d iterations: %s still change\n",
                  START_PASSES, group->signals);
    return RUNNER_FAILED;
}

/* Compute the outputs at the start. Each part is evaluated when its inputs are known; algebraic
   loops are iterated until no input changes. */
int rb_runner_outputs(double t)
{
    start_time = t;
    memset(current, 0, sizeof current);
    for (int g = 0; g < RUNNER_GROUPS; g++) {
        const StartGroup *group = GROUPS + g;
        int status = RUNNER_OK;
        for (int k = 0; k < group->n_evaluations && status == RUNNER_OK; k++)
            status = evaluate_known(group->evaluations + k);
        if (status == RUNNER_OK)
            status = settle(group);
        if (status)
            return status;
    }
    return RUNNER_OK;
}

int rb_runner_start(double t)
{
    memcpy(memory, RUNNER_START, sizeof memory);
    for (int k = 0; k < RUNNER_FMUS; k++)
        if (load_fmu(&fmus[k], &FMUS[k]) != 0 || enter_fmu(&fmus[k], t) != 0)
            return RUNNER_FAILED;
    return rb_runner_outputs(t);
}

/* Exit the initialization mode of each FMU, in the order of the evaluations. If an exit changes
   outputs, the connected parts read their inputs again. */
int rb_runner_begin(void)
{
    for (int g = 0; g < RUNNER_GROUPS; g++)
        for (int k = 0; k < GROUPS[g].n_parts; k++) {
            const int number = GROUPS[g].parts[k];
            int changed = 0;
            const int status = refresh(number, &changed);
            if (status)
                return status;
            if (!STARTS[number] && begin_fmu(&fmus[FMU_OF[number]]) != 0)
                return RUNNER_FAILED;
        }
    return RUNNER_OK;
}

int rb_runner_step(double t)
{
    for (int k = 0; k < RUNNER_FMUS; k++)
        if (set_changed_parameters(&fmus[k], t) != 0)
            return RUNNER_FAILED;
    const int ending = rb_master_step(&fmu_loop, t, RUNNER_DT);
    if (ending == RB_LOOP_FAILED && PARTS[fmu_loop.part].kind != RB_BLOCK)
        return RUNNER_FAILED;
    return ending == RB_LOOP_DONE ? RUNNER_OK : RUNNER_NOT_FINITE;
}

void rb_runner_end(void)
{
    for (int k = 0; k < RUNNER_FMUS; k++)
        end_fmu(&fmus[k]);
}
