/* The steps of a system with FMUs of others among its parts: the loop of master.h over a table, on
   one memory. */

#include "core.h"
#include "fmu_life.h"
#include "master.h"

#include "parts.h"

static Fmu fmus[RUNNER_FMUS + 1];

/* Steps an FMU, the part of that number; not 0 where that fails. */
static int host(int part, double t, double dt)
{
    return fmu_step(&fmus[FMU_OF[part]], t, dt, memory);
}

static Loop loop = {.parts = PARTS,
                    .n_parts = RUNNER_PARTS,
                    .simultaneous = RUNNER_SIMULTANEOUS,
                    .checked = CHECKED,
                    .n_checked = RUNNER_CHECKED,
                    .host = host};

double *runner_memory(void)
{
    return memory;
}

/* The outputs at the start, each part when those that it reads have theirs, and again where it has
   got more of them. */
int runner_outputs(double t)
{
    for (int k = 0; k < RUNNER_EVALUATIONS; k++) {
        const int number = EVALUATION[k];
        const Part *part = PARTS + number;
        master_read(part);
        const int status = STARTS[number] ? STARTS[number](part->instance, t)
                                          : initialize_fmu(&fmus[FMU_OF[number]], memory);
        if (status)
            return STARTS[number] ? RUNNER_NOT_FINITE : RUNNER_FAILED;
    }
    return RUNNER_OK;
}

int runner_start(double t)
{
    memcpy(memory, RUNNER_START, sizeof memory);
    for (int k = 0; k < RUNNER_FMUS; k++)
        if (load_fmu(&fmus[k], &FMUS[k]) != 0 || enter_fmu(&fmus[k], t) != 0)
            return RUNNER_FAILED;
    return runner_outputs(t);
}

int runner_begin(void)
{
    for (int k = 0; k < RUNNER_FMUS; k++)
        if (begin_fmu(&fmus[k], memory) != 0)
            return RUNNER_FAILED;
    return RUNNER_OK;
}

int runner_step(double t)
{
    const int ending = master_step(&loop, t, RUNNER_DT);
    if (ending == RB_LOOP_FAILED && PARTS[loop.part].kind == RB_HOSTED)
        return RUNNER_FAILED;
    return ending == RB_LOOP_DONE ? RUNNER_OK : RUNNER_NOT_FINITE;
}

void runner_end(void)
{
    for (int k = 0; k < RUNNER_FMUS; k++)
        end_fmu(&fmus[k]);
}
