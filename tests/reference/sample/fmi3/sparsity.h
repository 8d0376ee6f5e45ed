#ifndef RB_SPARSITY_H
#define RB_SPARSITY_H

/* dependencies of the elements of unknowns: sorted pairs, and one unused pair at the end */
enum { RB_IN_THE_RUN_ROWS = 13 };
static const unsigned short RB_IN_THE_RUN[][2] = {{1, 1}, {2, 2}, {4, 3}, {4, 5}, {8, 3}, {8, 5}, {9, 2}, {9, 3}, {10, 1}, {10, 3}, {11, 3}, {12, 3}, {13, 3}, {0, 0}};
enum { RB_AT_START_ROWS = 12 };
static const unsigned short RB_AT_START[][2] = {{4, 3}, {4, 5}, {8, 3}, {8, 5}, {9, 2}, {9, 3}, {10, 1}, {10, 3}, {11, 3}, {11, 5}, {11, 6}, {11, 7}, {0, 0}};
/* which variables may be used in intermediate updates */
static const unsigned char RB_INTERMEDIATE_UPDATE[] = {0, 1, 1, 0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0};

#endif
