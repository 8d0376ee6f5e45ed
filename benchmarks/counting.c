/* What callgrind counts, from one call to the other: counted.py. Without valgrind both do
   nothing. */
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
