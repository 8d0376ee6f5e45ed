"""C text that is not traced as a whole: of a function, or of how one goes on."""

from dataclasses import dataclass

from rigidblocks.tracing.trace import Shapes


@dataclass(frozen=True, eq=False)
class WrittenFunction:
    """A function in C text, `static void name(const double *in, double *cells, double *out)`, not
    traced as a whole.

    `cells` has room for `work` doubles. `inputs` and `outputs` are as in `Graph`.
    """

    name: str
    inputs: Shapes
    outputs: Shapes
    text: str
    work: int


@dataclass(frozen=True)
class Finish:
    """C that goes on where a graph ends: the text of `static void finish(double *work, double
    *out)`.

    `work` has the outputs of the graph, and behind them room for `scratch` more numbers; `out` has
    the `outputs`.
    """

    text: str
    outputs: Shapes
    scratch: int
