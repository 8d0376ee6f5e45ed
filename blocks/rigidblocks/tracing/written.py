"""C text of a function that is not traced as a whole."""

from dataclasses import dataclass

from rigidblocks.tracing.trace import Shapes


@dataclass(frozen=True, eq=False)
class WrittenFunction:
    """A function in C text, `static void name(const double *in, double *cells, double *out)`, not
    traced as a whole.

    `cells` has room for `work` doubles. `inputs` and `outputs` are as in `Graph`. Most of the time
    of a `wide` one goes into loops over rows, which take what vectors the processor has. What is
    traced of it takes `operation_count` operations, sines and cosines not counted.
    """

    name: str
    inputs: Shapes
    outputs: Shapes
    text: str
    work: int
    wide: bool = False
    operation_count: int = 0
