#ifndef RB_XCP_PLAN_H
#define RB_XCP_PLAN_H

#define RUNNER_XCP ""
static const Tunable TUNABLES[] = {
    {7, -1.7976931348623157e+308, 1.7976931348623157e+308}, /* table.I */
    {8, -1.7976931348623157e+308, 1.7976931348623157e+308}, /* table.b */
    {0, 0.0, 0.0}};
static const XcpPlan RUNNER_XCP_PLAN = {"turntable", "step", 2, 6, 9, 2, TUNABLES};
enum { RUNNER_N_SETTABLE = 2 };
/* the values that a scenario can set */
static const Settable RUNNER_SETTABLE[] = {
    {"table.I", 7, -1.7976931348623157e+308, 1.7976931348623157e+308},
    {"table.b", 8, -1.7976931348623157e+308, 1.7976931348623157e+308},
    {0}};

#endif
