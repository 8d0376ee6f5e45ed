/* Program with two linked source-code FMUs, as on a test bench: the planar robot and its PD controller in one loop.

       linked ROBOT_GUID PD_GUID DT STEPS

   Each FMU is compiled with its own FMI2_FUNCTION_PREFIX, robot_ and pd_, and with FIXED_INSTANCES. The value references
   come from references.h, which the test writes. The program prints q[1] q[2], the number of allocations from the first
   fmi2Instantiate to the last fmi2FreeInstance, the number of later allocations (one, on purpose), and whether an
   instance beyond the last slot is rejected. */

#include <stdio.h>
#include <stdlib.h>

#include "fmi2FunctionTypes.h"
#include "references.h"

#define DECLARE(fmu)                                                                                                        \
    fmi2InstantiateTYPE fmu##_fmi2Instantiate;                                                                              \
    fmi2SetupExperimentTYPE fmu##_fmi2SetupExperiment;                                                                      \
    fmi2EnterInitializationModeTYPE fmu##_fmi2EnterInitializationMode;                                                      \
    fmi2ExitInitializationModeTYPE fmu##_fmi2ExitInitializationMode;                                                        \
    fmi2SetRealTYPE fmu##_fmi2SetReal;                                                                                      \
    fmi2GetRealTYPE fmu##_fmi2GetReal;                                                                                      \
    fmi2DoStepTYPE fmu##_fmi2DoStep;                                                                                        \
    fmi2GetFMUstateTYPE fmu##_fmi2GetFMUstate;                                                                              \
    fmi2FreeFMUstateTYPE fmu##_fmi2FreeFMUstate;                                                                            \
    fmi2TerminateTYPE fmu##_fmi2Terminate;                                                                                  \
    fmi2FreeInstanceTYPE fmu##_fmi2FreeInstance

DECLARE(robot);
DECLARE(pd);

static long allocations;

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);

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

static void *refuse(size_t n, size_t size)
{
    (void)n, (void)size;
    abort();
}

static void refuse_to_free(void *memory)
{
    (void)memory;
    abort();
}

static void ignore(fmi2ComponentEnvironment environment, fmi2String instance, fmi2Status status, fmi2String category,
                   fmi2String message, ...)
{
    (void)environment, (void)instance, (void)status, (void)category, (void)message;
}

static const fmi2CallbackFunctions CALLBACKS = {ignore, refuse, refuse_to_free, NULL, NULL};

static void check(int good)
{
    if (!good)
        abort();
}

#define START(fmu, instance, guid)                                                                                          \
    fmi2Component instance = fmu##_fmi2Instantiate(#instance, fmi2CoSimulation, guid, "", &CALLBACKS, fmi2False, fmi2False); \
    check(instance != NULL);                                                                                                \
    check(fmu##_fmi2SetupExperiment(instance, fmi2False, 0.0, 0.0, fmi2False, 0.0) == fmi2OK);                              \
    check(fmu##_fmi2EnterInitializationMode(instance) == fmi2OK)

int main(int count, char **arguments)
{
    const char *const guid = count == 5 ? arguments[1] : "", *const pd_guid = count == 5 ? arguments[2] : "";
    const double dt = count == 5 ? atof(arguments[3]) : 1.0;
    const int steps = count == 5 ? atoi(arguments[4]) : 0;
    const double reference[] = {0.5, -0.5};
    double state[4], tau[2];
    fmi2FMUstate saved = NULL;
    allocations = 0;
    START(robot, arm, guid);
    START(pd, controller, pd_guid);
    check(pd_fmi2SetReal(controller, PD_Q_REF, 2, reference) == fmi2OK);
    check(robot_fmi2ExitInitializationMode(arm) == fmi2OK && pd_fmi2ExitInitializationMode(controller) == fmi2OK);
    check(robot_fmi2GetFMUstate(arm, &saved) == fmi2OK);
    const int refused = !robot_fmi2Instantiate("third", fmi2CoSimulation, guid, "", &CALLBACKS, fmi2False, fmi2False);
    check(robot_fmi2FreeFMUstate(arm, &saved) == fmi2OK);
    for (int k = 0; k < steps; k++) {
        check(robot_fmi2GetReal(arm, ROBOT_Q_QD, 4, state) == fmi2OK);
        check(pd_fmi2SetReal(controller, PD_Q_QD, 4, state) == fmi2OK);
        check(pd_fmi2DoStep(controller, k * dt, dt, fmi2True) == fmi2OK);
        check(pd_fmi2GetReal(controller, PD_TAU, 2, tau) == fmi2OK);
        check(robot_fmi2SetReal(arm, ROBOT_TAU, 2, tau) == fmi2OK);
        check(robot_fmi2DoStep(arm, k * dt, dt, fmi2True) == fmi2OK);
    }
    check(robot_fmi2GetReal(arm, ROBOT_Q_QD, 4, state) == fmi2OK);
    check(robot_fmi2Terminate(arm) == fmi2OK && pd_fmi2Terminate(controller) == fmi2OK);
    robot_fmi2FreeInstance(arm);
    pd_fmi2FreeInstance(controller);
    const long made = allocations;
    void *volatile counted = malloc(1); /* shows that allocations are counted */
    printf("%.17g %.17g %ld %ld %d\n", state[0], state[1], made, allocations - made, refused);
    free(counted);
    return 0;
}
