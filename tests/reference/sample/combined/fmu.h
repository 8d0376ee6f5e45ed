#ifndef RB_FMU_H
#define RB_FMU_H

#include <math.h>

#define RB_GUID "{sample}"
#define RB_SCHEDULED 0 /* 1 for scheduled execution */
#define RB_CLOCK 51u /* the clock of its model partition */
#define RB_RESIZABLE 5 /* largest size of the arrays */
#define RB_ARRAY_SIZE 52u /* the structural parameter */
static const unsigned char RB_IS_RESIZABLE[] = {0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0};
#define RB_CLOCKED /* the clock takes the samples in event mode */
#define RB_BINARY /* some variables are binary: little-endian doubles */
static const unsigned char RB_IS_BINARY[] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
#define RB_SUSPICION ""
static const char *const RB_LOG_CATEGORIES[] = {"logStatusWarning", "logStatusDiscard", "logStatusError", "logStatusFatal", "logAll", 0};
static const char *const RB_NAMES[] = {
    "time",
    "y[1,1]",
    "y[1,2]",
    "y[1,3]",
    "y[1,4]",
    "y[1,5]",
    "y[2,1]",
    "y[2,2]",
    "y[2,3]",
    "y[2,4]",
    "y[2,5]",
    "buffer[1,1,1]",
    "buffer[1,1,2]",
    "buffer[1,1,3]",
    "buffer[1,1,4]",
    "buffer[1,1,5]",
    "buffer[1,2,1]",
    "buffer[1,2,2]",
    "buffer[1,2,3]",
    "buffer[1,2,4]",
    "buffer[1,2,5]",
    "buffer[2,1,1]",
    "buffer[2,1,2]",
    "buffer[2,1,3]",
    "buffer[2,1,4]",
    "buffer[2,1,5]",
    "buffer[2,2,1]",
    "buffer[2,2,2]",
    "buffer[2,2,3]",
    "buffer[2,2,4]",
    "buffer[2,2,5]",
    "buffer[3,1,1]",
    "buffer[3,1,2]",
    "buffer[3,1,3]",
    "buffer[3,1,4]",
    "buffer[3,1,5]",
    "buffer[3,2,1]",
    "buffer[3,2,2]",
    "buffer[3,2,3]",
    "buffer[3,2,4]",
    "buffer[3,2,5]",
    "u[1,1]",
    "u[1,2]",
    "u[1,3]",
    "u[1,4]",
    "u[1,5]",
    "u[2,1]",
    "u[2,2]",
    "u[2,3]",
    "u[2,4]",
    "u[2,5]"};
/* number of elements of a variable by value reference; 0 for an unknown reference */
static const unsigned short RB_LENGTH[] = {1, 10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 30, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0, 0, 0, 0, 0};
enum { RB_LAST_VARIABLE = 41 };
/* modes in which a variable may be set */
enum { RB_NEVER, RB_START_VALUE, RB_TUNABLE, RB_ALWAYS };
static const unsigned char RB_SETTABLE[] = {RB_NEVER, RB_NEVER, RB_NEVER, RB_NEVER, RB_NEVER, RB_NEVER, RB_NEVER, RB_NEVER, RB_NEVER, RB_NEVER, RB_NEVER, RB_NEVER, RB_NEVER, RB_NEVER, RB_NEVER, RB_NEVER, RB_NEVER, RB_NEVER, RB_NEVER, RB_NEVER, RB_NEVER, RB_NEVER, RB_NEVER, RB_NEVER, RB_NEVER, RB_NEVER, RB_NEVER, RB_NEVER, RB_NEVER, RB_NEVER, RB_NEVER, RB_NEVER, RB_NEVER, RB_NEVER, RB_NEVER, RB_NEVER, RB_NEVER, RB_NEVER, RB_NEVER, RB_NEVER, RB_NEVER, RB_ALWAYS, RB_ALWAYS, RB_ALWAYS, RB_ALWAYS, RB_ALWAYS, RB_ALWAYS, RB_ALWAYS, RB_ALWAYS, RB_ALWAYS, RB_ALWAYS};
/* 1 for outputs, 0 for other variables */
static const unsigned char RB_IS_OUTPUT[] = {0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
/* solver tolerance if the host does not set a tolerance */
static const double RB_TOLERANCE = 1e-08;
/* bounds of parameters and start values */
static const double RB_MIN[] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY};
static const double RB_MAX[] = {INFINITY, INFINITY, INFINITY, INFINITY, INFINITY, INFINITY, INFINITY, INFINITY, INFINITY, INFINITY, INFINITY, INFINITY, INFINITY, INFINITY, INFINITY, INFINITY, INFINITY, INFINITY, INFINITY, INFINITY, INFINITY, INFINITY, INFINITY, INFINITY, INFINITY, INFINITY, INFINITY, INFINITY, INFINITY, INFINITY, INFINITY, INFINITY, INFINITY, INFINITY, INFINITY, INFINITY, INFINITY, INFINITY, INFINITY, INFINITY, INFINITY, INFINITY, INFINITY, INFINITY, INFINITY, INFINITY, INFINITY, INFINITY, INFINITY, INFINITY, INFINITY};
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
static const double RB_NOMINAL[] = {1.0};

#endif
