/* The contacts of each island of bodies that touch each other. */

#ifndef RB_GROUPS_H
#define RB_GROUPS_H

#include "islands.h"
#include "mobility.h"

/* The island of a contact: one of its bodies is not at rest. */
static inline int island_at(struct islands *all, const struct touch *c)
{
    const int a = head_of(c->a);
    return island_of(all, a >= 0 ? a : head_of(c->b));
}

/* The islands by the contacts that are listed. */
static inline void find_islands(const struct solution *all, struct islands *found)
{
    start_islands(found);
    for (int k = 0; k < all->list; k++)
        join_islands(found, all->touch[all->listed[k]].a, all->touch[all->listed[k]].b);
}

/* The contacts that are listed, island after island: first, together, those that trees are in. */
struct groups {
    int listed[RB_CONTACTS], start[RB_BODIES + 3], count;
};

static inline void group_contacts(const struct solution *all, struct groups *out)
{
    struct islands found;
    int number[RB_BODIES + 1], of[RB_CONTACTS] = {0}, end[RB_BODIES + 2];
    find_islands(all, &found);
    memset(number, -1, sizeof number);
    memset(out->start, 0, sizeof out->start);
    out->count = 1;
    for (int k = 0; k < all->list; k++) {
        const struct touch *c = &all->touch[all->listed[k]];
        of[k] = island_at(&found, c);
        if (RB_LEAF[c->a] >= 0 || RB_LEAF[c->b] >= 0)
            number[of[k]] = 0;
    }
    for (int k = 0; k < all->list; k++) {
        if (number[of[k]] < 0)
            number[of[k]] = out->count++;
        of[k] = number[of[k]];
        out->start[of[k] + 1]++;
    }
    for (int i = 0; i < out->count; i++) {
        end[i] = out->start[i];
        out->start[i + 1] += out->start[i];
    }
    for (int k = 0; k < all->list; k++)
        out->listed[end[of[k]]++] = all->listed[k];
}

/* The contacts of a group, and the stops that may be reached with those of trees. */
static inline void list_group(const struct groups *found, int i, struct solution *all)
{
    all->list = found->start[i + 1] - found->start[i];
    all->stops = i == 0 ? all->reached : 0;
    memcpy(all->listed, found->listed + found->start[i], (size_t)all->list * sizeof(int));
}

#endif
