#ifndef RB_STRUCTURE_H
#define RB_STRUCTURE_H

enum { RB_N = 3, RB_OWN = 1 };
static const int RB_FIRST[RB_N] = {0, 1, 2};
static const int RB_LAST[RB_N] = {1, 2, 3};
static const int RB_BEFORE[RB_N] = {-1, 0, 1};
static const int RB_RUN[RB_N] = {0, 0, 0};
static const int RB_END[RB_N] = {3, 3, 3};

#endif
