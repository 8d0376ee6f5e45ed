/* What the log is told of a run that goes on: near what singular configurations loops came, and
   what went short in steps. */

#ifndef RB_WATCH_H
#define RB_WATCH_H

#include "instance.h"

/* Of a condition that was above its limit: its largest value, told when that is over. */
static inline void tell_largest(Instance *fmu, int loop)
{
    Passage *passage = &fmu->now.passages[loop];
    if (isinf(passage->largest))
        report(fmu, RB_WARNING, "%s fell at t = %g s: a singular configuration",
               RB_NAMES[RB_AT_RANK[loop]], passage->t);
    else
        report(fmu, RB_WARNING, "%s was %.3g at t = %g s: near a singular configuration",
               RB_NAMES[RB_AT_CONDITION[loop]], passage->largest, passage->t);
    passage->told = passage->largest;
}

/* Looks at the condition of loops at the end of a step. It is told of when it falls back below
   RB_CLOSE times its least, and is twice what was told before, so that there are few messages. */
static inline void watch_loop(Instance *fmu, int loop)
{
    Passage *passage = &fmu->now.passages[loop];
    const double condition = fmu->now.m[RB_AT_CONDITION[loop]], rank = fmu->now.m[RB_AT_RANK[loop]];
    if (passage->least == 0.0 || condition < passage->least)
        passage->least = condition;
    if (rank > passage->rank)
        passage->rank = rank;
    const double now = rank < passage->rank ? INFINITY : condition;
    if (now > RB_CLOSE * passage->least) {
        if (now > passage->largest) {
            passage->largest = now;
            passage->t = fmu->now.m[RB_T];
        }
    } else if (passage->largest > 2.0 * passage->told)
        tell_largest(fmu, loop);
}

/* Looks at a step that was taken. */
static inline void watch(Instance *fmu, const double *before)
{
    for (int i = 0; i < RB_LOOPS; i++)
        watch_loop(fmu, i);
    for (int i = 0; i < RB_STEPPED; i++)
        if (fmu->now.m[RB_AT_CUT_SHORT[i]] > 0.0 && before[RB_AT_CUT_SHORT[i]] == 0.0)
            report(fmu, RB_WARNING,
                   "the inner steps are used up at t = %g s: the rest is one step without a known "
                   "error, here and where %s "
                   "grows",
                   fmu->now.m[RB_T], RB_NAMES[RB_AT_CUT_SHORT[i]]);
}

/* What there is to be said at the end of a run. */
static inline void tell_of_run(Instance *fmu)
{
    const double *m = fmu->now.m;
    for (int i = 0; i < RB_LOOPS; i++)
        if (fmu->now.passages[i].largest > fmu->now.passages[i].told)
            tell_largest(fmu, i);
    for (int i = 0; i < RB_STEPPED; i++) {
        if (m[RB_AT_CUT_SHORT[i]] > 0.0)
            report(fmu, RB_WARNING,
                   "%s is %g: communication steps whose inner steps were used up; raise "
                   "max_inner_steps",
                   RB_NAMES[RB_AT_CUT_SHORT[i]], m[RB_AT_CUT_SHORT[i]]);
        if (m[RB_AT_SPITE[i]] > 0.0)
            report(fmu, RB_WARNING,
                   "%s is %g: inner steps with an error above the tolerance, for time has no "
                   "shorter ones",
                   RB_NAMES[RB_AT_SPITE[i]], m[RB_AT_SPITE[i]]);
        if (m[RB_AT_STIFFNESS[i]] > 0.0 && m[RB_AT_RIVAL[i]] == 0.0)
            report(fmu, RB_WARNING,
                   "%s is %g: stability limits the inner steps; a stiff method takes longer ones",
                   RB_NAMES[RB_AT_STIFFNESS[i]], m[RB_AT_STIFFNESS[i]]);
    }
}

#endif
