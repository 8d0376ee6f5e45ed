#ifndef RB_SYSTEM_H
#define RB_SYSTEM_H

#define RUNNER_NAME "turntable"
#define RUNNER_DT 0.002 /* s */
enum { RUNNER_N_SIGNALS = 4 };
/* the signals, and where each is in the memory */
static const char *const RUNNER_SIGNALS[] = {
    "table.d[1]",
    "table.d[2]",
    "table.tau",
    "table.P"};
static const int RUNNER_PLACES[] = {1, 2, 4, 5, 0};

#endif
