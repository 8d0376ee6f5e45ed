#ifndef RB_XCP_PLAN_H
#define RB_XCP_PLAN_H

#include "xcp_udp.h"

static const Tunable TUNABLES[] = {
    {6, -1.7976931348623157e+308, 1.7976931348623157e+308}, /* I */
    {7, -1.7976931348623157e+308, 1.7976931348623157e+308}, /* b */
    {0, 0.0, 0.0}};
static const XcpPlan RB_XCP_PLAN = {"turntable", "step", 0, 0, 9, 2, TUNABLES};
static const ServiceAddress RB_XCP_DEFAULT = {1, 5555, "127.0.0.1"};

#endif
