/* The names of the FMI 2.0 functions in a program that several FMUs are linked into:
   -DFMI2_FUNCTION_PREFIX=arm_ makes them arm_fmi2Instantiate and so on, as in the standard's own
   fmi2Functions.h; its copy in FMPy never adds the prefix. */

#ifndef RB_FMI2_PREFIX_H
#define RB_FMI2_PREFIX_H

#include "fmi2Functions.h"

#if defined(FMI2_FUNCTION_PREFIX)
#undef fmi2FullName
#define fmi2Join(a, b) a##b
#define fmi2JoinExpanded(a, b) fmi2Join(a, b)
#define fmi2FullName(name) fmi2JoinExpanded(FMI2_FUNCTION_PREFIX, name)
#endif

#endif
