/* Laws of saved states, with access to the FMU's own functions:  saved STATES

   The program saves STATES states, then frees them from the oldest one on. The lists of the hash table stay short for any
   number of states, so the search time does not grow. Then the program changes every bit of a serialized state; its
   checksum must detect each change. The program prints the length of the longest list and the number of accepted
   damaged states. */

#include <stdio.h>
#include <stdlib.h>

#include "fmi2.c"

static void log_message(fmi2ComponentEnvironment environment, fmi2String instance, fmi2Status status, fmi2String category,
                        fmi2String message, ...)
{
    (void)environment, (void)instance, (void)status, (void)category, (void)message;
}

static size_t longest_list(const SavedStates *states)
{
    size_t longest = 0;
    for (size_t i = 0; i < states->n_lists; i++) {
        size_t n = 0;
        for (const Saved *saved = states->lists[i]; saved; saved = saved->next)
            n++;
        longest = n > longest ? n : longest;
    }
    return longest;
}

/* Return the number of accepted states with one damaged bit. */
static int accepted_damage(fmi2Component c, fmi2FMUstate saved)
{
    static char bytes[RB_SERIALIZED_SIZE];
    int accepted = 0;
    fmi2FMUstate copy = NULL;
    if (fmi2SerializeFMUstate(c, saved, bytes, sizeof bytes) != fmi2OK ||
        fmi2DeSerializeFMUstate(c, bytes, sizeof bytes, &copy) != fmi2OK)
        abort();
    for (size_t bit = 0; bit < 8 * sizeof bytes; bit++) {
        bytes[bit / 8] = (char)(bytes[bit / 8] ^ 1 << bit % 8);
        accepted += fmi2DeSerializeFMUstate(c, bytes, sizeof bytes, &copy) == fmi2OK;
        bytes[bit / 8] = (char)(bytes[bit / 8] ^ 1 << bit % 8);
    }
    return accepted;
}

int main(int argc, char *argv[])
{
    const fmi2CallbackFunctions callbacks = {log_message, calloc, free, NULL, NULL};
    const size_t n = argc > 1 ? (size_t)atol(argv[1]) : 1;
    fmi2Component c = fmi2Instantiate("saved", fmi2CoSimulation, RB_GUID, NULL, &callbacks, fmi2False, fmi2False);
    fmi2FMUstate *saved = (fmi2FMUstate *)calloc(n, sizeof *saved);
    if (!c || !saved)
        return 1;
    for (size_t i = 0; i < n; i++)
        if (fmi2GetFMUstate(c, &saved[i]) != fmi2OK)
            return 1;
    const size_t longest = longest_list(&instance_of(c)->saved);
    const int accepted = accepted_damage(c, saved[0]);
    for (size_t i = 0; i < n; i++)
        if (fmi2FreeFMUstate(c, &saved[i]) != fmi2OK || saved[i])
            return 1;
    printf("%lu %d\n", (unsigned long)longest, accepted);
    fmi2FreeInstance(c);
    free(saved);
    return 0;
}
