/* Importer in plain C, without Python, that runs a native FMU and prints its trajectory.

       host LIBRARY GUID DT STEPS FIRST_INPUT INPUTS VARIABLES

   Input i (value references from FIRST_INPUT) is sin(t + i) in the step from t. Each line has the values of all variables
   (value references from 0) after a step. A second instance then steps only for the time measurement. The last line has
   the time of a step [ns], the number of allocations while the first instance is set, stepped and read, and the number of
   all allocations. The program counts allocations only with glibc. */

#if defined(_WIN32)
#include <windows.h>
#else
#include <dlfcn.h>
#endif
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fmi2FunctionTypes.h"

enum { LIMIT = 256 };

typedef struct {
    fmi2InstantiateTYPE *instantiate;
    fmi2SetupExperimentTYPE *setup;
    fmi2EnterInitializationModeTYPE *enter;
    fmi2ExitInitializationModeTYPE *exit;
    fmi2SetRealTYPE *set;
    fmi2GetRealTYPE *get;
    fmi2DoStepTYPE *step;
    fmi2TerminateTYPE *terminate;
    fmi2FreeInstanceTYPE *free;
} Functions;

typedef struct {
    const char *guid;
    double dt;
    int steps, inputs, variables;
    fmi2ValueReference input[LIMIT], variable[LIMIT];
} Run;

/* These functions replace the allocation functions of the C library and count the calls. */
static long allocations;

#if defined(__GLIBC__) && !defined(UNCOUNTED)
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *old, size_t size);

void *malloc(size_t size)
{
    allocations++;
    return __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
    allocations++;
    return __libc_calloc(n, size);
}

void *realloc(void *old, size_t size)
{
    allocations++;
    return __libc_realloc(old, size);
}
#endif

static void check(int good, const char *what)
{
    if (!good) {
        fprintf(stderr, "host: %s failed\n", what);
        exit(1);
    }
}

static void print_message(fmi2ComponentEnvironment environment, fmi2String instance, fmi2Status status, fmi2String category,
                          fmi2String message, ...)
{
    (void)environment;
    fprintf(stderr, "%s: %s (%d): %s\n", instance, category, (int)status, message);
}

#if defined(_WIN32)
static void *open_library(const char *path)
{
    return LoadLibraryA(path);
}

static FARPROC symbol_of(void *library, const char *name)
{
    return GetProcAddress(library, name);
}
#else
static void *open_library(const char *path)
{
    return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

static void *symbol_of(void *library, const char *name)
{
    return dlsym(library, name);
}
#endif

static void load(void *library, const char *name, void *function)
{
    const void *symbol = (const void *)symbol_of(library, name);
    check(symbol != NULL, name);
    memcpy(function, &symbol, sizeof symbol);
}

static Functions functions_of(const char *path)
{
    Functions f;
    void *library = open_library(path);
    check(library != NULL, path);
    load(library, "fmi2Instantiate", &f.instantiate);
    load(library, "fmi2SetupExperiment", &f.setup);
    load(library, "fmi2EnterInitializationMode", &f.enter);
    load(library, "fmi2ExitInitializationMode", &f.exit);
    load(library, "fmi2SetReal", &f.set);
    load(library, "fmi2GetReal", &f.get);
    load(library, "fmi2DoStep", &f.step);
    load(library, "fmi2Terminate", &f.terminate);
    load(library, "fmi2FreeInstance", &f.free);
    return f;
}

static fmi2Component started(const Functions *f, const Run *run, const char *name)
{
    static const fmi2CallbackFunctions callbacks = {print_message, calloc, free, NULL, NULL};
    fmi2Component fmu = f->instantiate(name, fmi2CoSimulation, run->guid, "", &callbacks, fmi2False, fmi2False);
    check(fmu != NULL, "fmi2Instantiate");
    check(f->setup(fmu, fmi2False, 0.0, 0.0, fmi2False, 0.0) == fmi2OK, "fmi2SetupExperiment");
    check(f->enter(fmu) == fmi2OK, "fmi2EnterInitializationMode");
    check(f->exit(fmu) == fmi2OK, "fmi2ExitInitializationMode");
    return fmu;
}

static void finish(const Functions *f, fmi2Component fmu)
{
    check(f->terminate(fmu) == fmi2OK, "fmi2Terminate");
    f->free(fmu);
}

/* Number of allocations of the FMU during the steps. */
static long print_trajectory(const Functions *f, const Run *run)
{
    double u[LIMIT], values[LIMIT];
    long made = 0;
    fmi2Component fmu = started(f, run, "printed");
    for (int k = 0; k < run->steps; k++) {
        const double t = k * run->dt;
        const long before = allocations;
        for (int i = 0; i < run->inputs; i++)
            u[i] = sin(t + i);
        check(f->set(fmu, run->input, (size_t)run->inputs, u) == fmi2OK, "fmi2SetReal");
        check(f->step(fmu, t, run->dt, fmi2True) == fmi2OK, "fmi2DoStep");
        check(f->get(fmu, run->variable, (size_t)run->variables, values) == fmi2OK, "fmi2GetReal");
        made += allocations - before;
        for (int i = 0; i < run->variables; i++)
            printf("%.17g%c", values[i], i + 1 < run->variables ? ' ' : '\n');
    }
    finish(f, fmu);
    return made;
}

static double nanoseconds(void)
{
#if defined(_WIN32)
    return 1e9 * (double)clock() / CLOCKS_PER_SEC;
#else
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return 1e9 * (double)now.tv_sec + (double)now.tv_nsec;
#endif
}

/* Mean time of a step [ns]. */
static double step_time(const Functions *f, const Run *run)
{
    fmi2Component fmu = started(f, run, "timed");
    const double before = nanoseconds();
    for (int k = 0; k < run->steps; k++)
        check(f->step(fmu, k * run->dt, run->dt, fmi2True) == fmi2OK, "fmi2DoStep");
    const double after = nanoseconds();
    finish(f, fmu);
    return (after - before) / run->steps;
}

int main(int count, char **arguments)
{
    Run run;
    check(count == 8, "reading 7 arguments");
    const Functions f = functions_of(arguments[1]);
    run.guid = arguments[2];
    run.dt = atof(arguments[3]);
    run.steps = atoi(arguments[4]);
    run.inputs = atoi(arguments[6]);
    run.variables = atoi(arguments[7]);
    check(run.inputs <= LIMIT && run.variables <= LIMIT, "keeping to 256 variables");
    for (int i = 0; i < run.inputs; i++)
        run.input[i] = (fmi2ValueReference)(atoi(arguments[5]) + i);
    for (int i = 0; i < run.variables; i++)
        run.variable[i] = (fmi2ValueReference)i;
    const long made = print_trajectory(&f, &run);
    const double time = step_time(&f, &run);
    printf("%.1f %ld %ld\n", time, made, allocations);
    return 0;
}
