/* Compiled with FIXED_INSTANCES=2: prints the messages for a state and an instance without a free slot, and a message
   with numbers. */

#include <stdio.h>

#include "fmi2.c"

static void log_message(fmi2ComponentEnvironment environment, fmi2String instance, fmi2Status status, fmi2String category,
                        fmi2String message, ...)
{
    (void)environment, (void)instance, (void)status, (void)category;
    puts(message);
}

static void *refuse(size_t n, size_t size)
{
    (void)n, (void)size;
    return NULL;
}

static void free_nothing(void *memory)
{
    (void)memory;
}

int main(void)
{
    const fmi2CallbackFunctions callbacks = {log_message, refuse, free_nothing, NULL, NULL};
    const fmi2ValueReference w_ref = RB_U;
    const fmi2Integer order = 7;
    const fmi2Real rate = 1.0;
    fmi2FMUstate saved = NULL, none = NULL;
    fmi2Component c = fmi2Instantiate("one", fmi2CoSimulation, RB_GUID, NULL, &callbacks, fmi2False, fmi2False);
    const int made = c && fmi2GetFMUstate(c, &saved) == fmi2OK;
    fmi2GetFMUstate(c, &none);
    fmi2Instantiate("two", fmi2CoSimulation, RB_GUID, NULL, &callbacks, fmi2False, fmi2False);
    fmi2SetRealInputDerivatives(c, &w_ref, 1, &order, &rate);
    return !made;
}
