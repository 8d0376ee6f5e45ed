/* How near shapes are to each other: of every sensor the least distance between those of one side
   and of the other.

   The generated text has RB_NEARS, how many sensors measure it, RB_NEAR_AT (where the numbers of
   each start: the distance and the two points), RB_NEAR_FIRST (3 each: where its shapes start,
   where those of the other side do, and where they end) and RB_NEAR_SHAPE, the shapes. */

#ifndef RB_NEAREST_H
#define RB_NEAREST_H

#include "patches.h"

#if !defined(RB_TABLES_H) /* unless they are before this in one text */
#include "tables.h"
#endif

/* The distance of a sensor's two sides, and the points that have it. */
static inline void nearest_of(const struct placed *shape, int k, double *out)
{
    const int *first = RB_NEAR_FIRST[k];
    double least = INFINITY;
    for (int i = first[0]; i < first[1]; i++) {
        for (int j = first[1]; j < first[2]; j++) {
            struct proximity c = {.gap = 0.0};
            proximity(&shape[RB_NEAR_SHAPE[i]], &shape[RB_NEAR_SHAPE[j]], &c);
            if (!(c.gap < least))
                continue;
            least = out[0] = c.gap;
            memcpy(out + 1, c.on_a, sizeof c.on_a);
            memcpy(out + 4, c.on_b, sizeof c.on_b);
        }
    }
}

#endif
