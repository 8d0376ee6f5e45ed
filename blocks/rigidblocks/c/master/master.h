/* The parts of a co-simulation in one table, and what a loop over them is asked for. All is laid
   out by who calls (simulation/table.py): members have 8 bytes each, so that there is nothing to
   align.

   A part is a compiled block on a memory that the caller owns, an FMU in this process, or anything
   else, which its host steps. Its inputs and outputs are vectors of doubles, and a wire copies
   between them. */

#ifndef RB_MASTER_H
#define RB_MASTER_H

#include <stddef.h>
#include <stdint.h>

/* Whose functions a part has. */
enum { RB_BLOCK = 0, RB_FMI2 = 1, RB_FMI3 = 2, RB_HOSTED = 3 };

/* What is called on a part, for who judges what it returns. */
enum { RB_SET = 0, RB_STEP = 1, RB_GET = 2 };

/* The status of a step of FMI 3.0 that ended early or in an event: no FMU gives it. */
enum { RB_UNUSUAL = 100 };

/* How a loop ends. */
enum {
    /* all steps are taken, or there is no room for a row, or its time is over */
    RB_LOOP_DONE = 0,
    RB_LOOP_FAILED = 1,    /* `part` has failed in the step after `k` */
    RB_LOOP_NOT_FINITE = 2 /* so has an output, though no part says so */
};

/* n doubles from one place to another. */
typedef struct {
    const double *from;
    double *to;
    int64_t n;
} Copy;

/* A value that becomes factor value + offset. */
typedef struct {
    double *value;
    double factor, offset;
} Scale;

/* The functions of a part. Of a block there is `block_step` alone, of a part that is hosted
   none. */
typedef union {
    int (*block_step)(double *memory, double t, double dt);
    int (*fmi2_set)(void *fmu, const uint32_t *references, size_t n, const double *values);
    int (*fmi2_step)(void *fmu, double t, double dt, int no_state_set_before);
    int (*fmi2_get)(void *fmu, const uint32_t *references, size_t n, double *values);
    int (*fmi3_set)(void *fmu, const uint32_t *references, size_t n, const double *values,
                    size_t n_values);
    int (*fmi3_get)(void *fmu, const uint32_t *references, size_t n, double *values,
                    size_t n_values);
    int (*fmi3_step)(void *fmu, double t, double dt, _Bool no_state_set_before, _Bool *event,
                     _Bool *terminate, _Bool *early, double *last);
} Function;

/* The variables of an FMU that are set or got, and their values. */
typedef struct {
    Function function;
    const uint32_t *references;
    int64_t n;
    double *values;
    int64_t n_values;
} Variables;

typedef struct {
    int64_t kind;
    int64_t number; /* by which the host knows it */
    void *instance; /* of an FMU, or the memory of a block */
    Function step;
    Variables set, get;
    const Copy *wires; /* to its inputs */
    int64_t n_wires;
    const Scale *scales; /* from the units of the wires' sources to those of the inputs */
    int64_t n_scales;
    double *clock;              /* where the FMU's host reads the time of its step */
    const int32_t *may_go_back; /* whether the host may go back to the start of the step */
} Part;

typedef struct {
    const Part *parts; /* in the order of their steps */
    int64_t n_parts;
    int64_t simultaneous; /* all wires copy before the first step */
    const Copy *checked;  /* outputs that no step checks for being finite */
    int64_t n_checked;
    const Copy *kept; /* outputs that make a row */
    int64_t n_kept;
    /* of a status that is not 0; 0 to go on */
    int (*judge)(int part, int call, int status, double t, double dt);
    /* steps a part that is hosted; 0 to go on */
    int (*host)(int part, double t, double dt);
    /* what is asked for */
    double t_start, dt;
    int64_t k, end; /* the steps taken so far, and those to be taken */
    int64_t every;  /* a row at each such step */
    double *time, *rows;
    int64_t room, filled; /* rows */
    double patience;      /* s */
    /* what came of it */
    int64_t part, status;
} Loop;

#if defined(_WIN32)
#define RB_EXPORT __declspec(dllexport)
#else
#define RB_EXPORT __attribute__((visibility("default")))
#endif

/* Takes steps up to the end that is asked for, while there is room for their rows and time. */
RB_EXPORT int master_run(Loop *loop);

/* One step, of which no row is kept. */
RB_EXPORT int master_step(Loop *loop, double t, double dt);

/* The wires to a part, with their units converted. */
RB_EXPORT void master_read(const Part *part);

#endif
