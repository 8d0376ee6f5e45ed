"""Advice in the message of a TraceError, after the line number."""

ADVICE = (
    "of a traced value, which is unknown: replace a data-dependent `if` by "
    "select(condition, a, b), a < b of arrays by less, and min, max and clip by minimum, maximum "
    "and clip, all of rigidblocks.spatial.scalar"
)
