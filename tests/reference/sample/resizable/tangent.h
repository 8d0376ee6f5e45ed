/* Derivatives of Delay, traced to C. Operations: 0. */

#ifndef RB_TANGENT_H
#define RB_TANGENT_H

#include <math.h>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((minsize)), apply_to = function)
#elif defined(__GNUC__)
#pragma GCC push_options
#pragma GCC optimize("Os")
#endif

#define RB_OUTPUT_ORDER 0 /* highest order of output derivatives */
static inline void tangent(const double *in, double *out)
{
    (void)in;
    (void)out;
}

#if defined(__clang__)
#pragma clang attribute pop
#elif defined(__GNUC__)
#pragma GCC pop_options
#endif

#endif
