/* What the elements of outputs and rates are computed from, as the model description says it of
   whole variables.

   Each row of the tables in sparsity.h is {dependent, independent}: elements, by their index in the
   memory and the rates. */

#ifndef RB_DEPENDS_H
#define RB_DEPENDS_H

#include "instance.h"
#include "sparsity.h"

/* The element of a variable that the host knows it by: the value reference, and which of its
   elements, counted from 1. */
static inline Reference owner(int k, size_t *element)
{
    int first = k;
    while (RB_LENGTH[first] == 0)
        first--;
    *element = (size_t)(k - first) + 1;
    return (Reference)first;
}

/* The rows of the dependent variable that hold in the mode of the instance: how many, and in `rows`
   where they start. */
static inline size_t dependencies(const Instance *fmu, Reference dependent,
                                  const unsigned short (**rows)[2])
{
    size_t n = 0;
    *rows = fmu->now.mode == RB_INITIALIZATION ? RB_AT_START : RB_IN_THE_RUN;
    const size_t count =
        fmu->now.mode == RB_INITIALIZATION ? (size_t)RB_AT_START_ROWS : (size_t)RB_IN_THE_RUN_ROWS;
    const size_t end = dependent + RB_LENGTH[dependent];
    size_t k = 0;
    while (k < count && (**rows)[0] < dependent)
        k++, (*rows)++;
    for (; k + n < count && (*rows)[n][0] < end;)
        n++;
    return n;
}

static inline Status count_dependencies(const Instance *fmu, const char *function,
                                        Reference dependent, size_t *n)
{
    const unsigned short (*rows)[2];
    if (!allowed(fmu, function, RB_ANY) || !known(fmu, function, &dependent, 1) ||
        !given(fmu, function, n, 1))
        return RB_FAILURE;
    *n = dependencies(fmu, dependent, &rows);
    return RB_OK;
}

static inline Status get_dependencies(const Instance *fmu, const char *function,
                                      Reference dependent, size_t elements[],
                                      Reference independents[], size_t independent_elements[],
                                      fmi3DependencyKind kinds[], size_t n)
{
    const unsigned short (*rows)[2];
    if (!allowed(fmu, function, RB_ANY) || !known(fmu, function, &dependent, 1))
        return RB_FAILURE;
    const size_t count = dependencies(fmu, dependent, &rows);
    if (n != count)
        return report(fmu, RB_FAILURE, "%s: %s has %lu dependencies, not %lu", function,
                      RB_NAMES[dependent], (unsigned long)count, (unsigned long)n);
    if (!given(fmu, function, elements, n) || !given(fmu, function, independents, n) ||
        !given(fmu, function, independent_elements, n) || !given(fmu, function, kinds, n))
        return RB_FAILURE;
    for (size_t i = 0; i < n; i++) {
        owner(rows[i][0], &elements[i]);
        independents[i] = owner(rows[i][1], &independent_elements[i]);
        kinds[i] = fmi3Dependent;
    }
    return RB_OK;
}

#endif
