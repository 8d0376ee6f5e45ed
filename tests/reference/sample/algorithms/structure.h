#ifndef RB_STRUCTURE_H
#define RB_STRUCTURE_H

enum { RB_N = 3 };

static const int RB_LAST[RB_N] = {1, 2, 3};
static const int RB_END[RB_N] = {3, 3, 3};
static const double RB_PATH[RB_N][RB_N] = {
    {1, 0, 0},
    {1, 1, 0},
    {1, 1, 1}};

#endif
