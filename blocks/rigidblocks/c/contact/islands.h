/* Islands of bodies that touch each other, or may. */

#ifndef RB_ISLANDS_H
#define RB_ISLANDS_H

#include "trees.h"

/* The body by which all of a tree are known, a free one itself; -1 for what is at rest. */
static inline int head_of(int k)
{
    if (RB_LEAF[k] >= 0)
        return RB_LINK_BODY[RB_DOF_LINK[RB_DOF_FIRST[RB_LEAF[k]]]];
    return k < RB_BODIES && RB_FREE[k] ? k : -1;
}

/* Islands of bodies that touch each other: what leads from a body to another one of its island, at
   last to the one that has the work of all, and the part of the impulses that is left. */
struct islands {
    int next[RB_BODIES + 1];
    double work[RB_BODIES + 1][2], part[RB_BODIES + 1];
};

static inline int island_of(struct islands *all, int k)
{
    while (all->next[k] != k)
        k = all->next[k] = all->next[all->next[k]];
    return k;
}

/* Each body by itself, but for those of a tree. */
static inline void start_islands(struct islands *all)
{
    for (int k = 0; k <= RB_BODIES; k++)
        all->next[k] = k;
}

/* Two bodies in one island, if neither is at rest. */
static inline void join_islands(struct islands *all, int a, int b)
{
    const int one = head_of(a), other = head_of(b);
    if (one >= 0 && other >= 0)
        all->next[island_of(all, one)] = island_of(all, other);
}

#endif
