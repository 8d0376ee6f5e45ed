#ifndef RB_LINKS_H
#define RB_LINKS_H

static const int SENT_0[] = {1, 2, 0};
static const int TARGETS_0[] = {6, 0};
static const int VALUES_0[] = {0, 0};
static const double SAFE_0[] = {0.0, 0.0};
static const double OPEN_0[] = {0.0, 0.0, 0.0};
enum { RUNNER_LINKS = 1 };
static const LinkPlan RUNNER_LINK_PLANS[] = {
    {"link", LINK_UDP, "127.0.0.1:5005", "127.0.0.1:0", 10000000, 60000000000, 0, LOST_SAFE, 2, 1, 1, SENT_0, TARGETS_0, VALUES_0, SAFE_0, OPEN_0, 0},
    {0}};

#endif
