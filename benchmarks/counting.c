/* Functions that begin and end the counting of callgrind (counted.py). Without valgrind they have
   no effect. */
#include <valgrind/callgrind.h>

__attribute__((visibility("default"))) void begin_counting(void)
{
    CALLGRIND_START_INSTRUMENTATION;
    CALLGRIND_ZERO_STATS;
}

__attribute__((visibility("default"))) void end_counting(const char *name)
{
    CALLGRIND_DUMP_STATS_AT(name);
    CALLGRIND_STOP_INSTRUMENTATION;
}
