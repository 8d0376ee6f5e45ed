/* What the C of a block provides, which is generated from its traced functions: the interface of
   model.h.

   The memory of a block is a vector of RB_SIZE doubles; model.h has a table of it:

       [t | continuous states | sampled states | inputs | tunable parameters | computed outputs]

   Everything is known when it is compiled:

       RB_T, RB_X, RB_Z, RB_U, RB_P, RB_Y    where each part starts
       RB_NX, RB_NZ, RB_NU, RB_NP, RB_NY     how many elements it has
       RB_START[RB_SIZE]                     the memory before a run
       RB_SAMPLE_TIME                        [s] of the sampled states, 0 when there is none
       RB_INNER_STEP                         [s] the longest step of the integrator
       RB_PROJECTS                           1 when the states are moved back to where they belong
       RB_MARGINS                            the number of margins, where the method asks for them
       RB_STAGES, RB_A, RB_C                 the integrator: its stages, its tableau, b as last row
       RB_IMPLICIT                           1 where a method needs a Jacobian
       RB_COLLOCATION                        1 for the method of collocation.h, with its tables
       RB_LINEARLY_IMPLICIT                  1 for an integrator with RB_GAMMA, RB_COUPLING, RB_TIME
                                             of implicit.h; else RB_A_POSITION is the tableau
                                             of the states that RB_POSITION marks

   The functions read the memory and write a vector of their own. They are declared here once more,
   so that a compiler tells where a model.h does not keep to this. */

#ifndef RB_BLOCK_H
#define RB_BLOCK_H

#include "model.h"

/* Before a function that is not to be copied into those that call it: what is long and has loops is
   compiled once. */
#if defined(__GNUC__)
#define RB_NOT_INLINED __attribute__((noinline, unused))
#else
#define RB_NOT_INLINED
#endif

/* The rates of the continuous states, RB_NX. */
static inline void derivative(const double *in, double *out);

/* The sampled states after the start, RB_NZ. */
static inline void initial(const double *in, double *out);

/* The sampled states after a sample, RB_NZ. */
static inline void update(const double *in, double *out);

/* The computed outputs, RB_NY. */
static inline void output(const double *in, double *out);

#if RB_PROJECTS
/* The continuous states moved back to where they belong, RB_NX. */
static inline void project(const double *in, double *out);
#endif

#ifdef RB_MARGINS
/* The numbers by whose signs one law or another holds, RB_MARGINS. */
static inline void margins(const double *in, double *out);
#endif

#if RB_EXACT_SLOPES
/* The derivatives of the rates by the continuous states, by rows, then by the time: RB_NX * RB_NX +
   RB_NX. */
static inline void rate_slopes(const double *in, double *out);
#endif

#endif
