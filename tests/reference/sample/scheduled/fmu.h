#ifndef RB_FMU_H
#define RB_FMU_H

#include <math.h>

#define RB_GUID "{sample}"
#define RB_SCHEDULED 1 /* 1 for scheduled execution */
#define RB_CLOCK 14u /* the clock of its model partition */
#define RB_SUSPICION ""
static const char *const RB_LOG_CATEGORIES[] = {"logStatusWarning", "logStatusDiscard", "logStatusError", "logStatusFatal", "logAll", 0};
static const char *const RB_NAMES[] = {
    "time",
    "d[1]",
    "d[2]",
    "w",
    "tau",
    "w_ref",
    "I",
    "b",
    "P",
    "der(d[1])",
    "der(d[2])",
    "der(w)",
    "event_indicators[1]",
    "event_indicators[2]"};
/* number of elements of a variable by value reference; 0 for an unknown reference */
static const unsigned short RB_LENGTH[] = {1, 2, 0, 1, 1, 1, 1, 1, 1, 2, 0, 1, 2, 0};
enum { RB_LAST_VARIABLE = 12 };
/* modes in which a variable may be set */
enum { RB_NEVER, RB_START_VALUE, RB_TUNABLE, RB_ALWAYS };
static const unsigned char RB_SETTABLE[] = {RB_NEVER, RB_START_VALUE, RB_START_VALUE, RB_START_VALUE, RB_NEVER, RB_ALWAYS, RB_TUNABLE, RB_TUNABLE, RB_NEVER, RB_NEVER, RB_NEVER, RB_NEVER, RB_NEVER, RB_NEVER};
/* 1 for outputs, 0 for other variables */
static const unsigned char RB_IS_OUTPUT[] = {0, 1, 1, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0};
/* solver tolerance if the host does not set a tolerance */
static const double RB_TOLERANCE = 1e-08;
/* bounds of parameters and start values */
static const double RB_MIN[] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY};
static const double RB_MAX[] = {INFINITY, INFINITY, INFINITY, INFINITY, INFINITY, INFINITY, INFINITY, INFINITY, INFINITY, INFINITY, INFINITY, INFINITY, INFINITY, INFINITY};
/* memory indices of run diagnostics, with one unused element in each table */
enum { RB_LOOPS = 0, RB_STEPPED = 0 };
static const double RB_CLOSE = 100.0; /* to a singular configuration */
static const int RB_AT_CONDITION[] = {0};
static const int RB_AT_RANK[] = {0};
static const int RB_AT_CUT_SHORT[] = {0};
static const int RB_AT_ABOVE_TOLERANCE[] = {0};
static const int RB_AT_STIFFNESS[] = {0};
static const int RB_AT_EXPLICIT_LENGTH[] = {0};
/* nominal values of the continuous states, and one unused element */
static const double RB_NOMINAL[] = {1.0, 1.0, 1.0, 1.0};

#endif
