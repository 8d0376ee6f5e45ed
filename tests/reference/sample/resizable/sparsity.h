#ifndef RB_SPARSITY_H
#define RB_SPARSITY_H

/* dependencies of the elements of unknowns: sorted pairs, and one unused pair at the end */
enum { RB_IN_THE_RUN_ROWS = 0 };
static const unsigned short RB_IN_THE_RUN[][2] = {{0, 0}};
enum { RB_AT_START_ROWS = 0 };
static const unsigned short RB_AT_START[][2] = {{0, 0}};
/* which variables may be used in intermediate updates */
static const unsigned char RB_INTERMEDIATE_UPDATE[] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};

#endif
