"""What a TraceError advises after the line that it names."""

ADVICE = (
    "of a traced value, which has none: write a data-dependent `if` with "
    "rigidblocks.select(condition, a, b), a < b of arrays with rigidblocks.less, and min, max and "
    "clip with rigidblocks.minimum, maximum and clip"
)
