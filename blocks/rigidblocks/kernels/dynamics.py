"""The compiled algorithms of a model, in the form of C that suits its size."""

from collections.abc import Callable
from typing import Literal, overload

from rigidblocks.algebra.spatial import Array
from rigidblocks.dynamics import aba, crba, rnea
from rigidblocks.dynamics.equivalence import equivalent
from rigidblocks.kernels.body_sweeps import body_sweeps
from rigidblocks.model.model import Model
from rigidblocks.model.resistance import check_resistance
from rigidblocks.model.tree import Tree
from rigidblocks.tracing.batch import CompiledBatch
from rigidblocks.tracing.function import CompiledFunction, compiled_form
from rigidblocks.tracing.notation import IN_LANES, SCALAR
from rigidblocks.tracing.trace import Graph, trace

# up to here straight-line C is faster, by a third at 5 bodies and a tenth at 20; beyond, it takes
# seconds to compile
MOST_BODIES_IN_A_LINE = 20
MOST_BODIES_IN_LANES = 14  # the same of a batch, whose operations are longer

_FUNCTIONS: dict[str, Callable[..., Array]] = {"rnea": rnea, "crba": crba, "aba": aba}
_INPUTS = {"rnea": ("q", "qd", "qdd"), "crba": ("q",), "aba": ("q", "qd", "tau")}
_OUTPUT = {"rnea": "tau", "crba": "H", "aba": "qdd"}


def straight_line(model: Tree, algorithm: str) -> Graph:
    """The trace of `algorithm` for a model, or for the model `equivalent` to it where it has
    spatial vectors.
    """
    traced = equivalent(model) if isinstance(model, Model) else model
    shapes = {name: (model.nq if name == "q" else model.nv,) for name in _INPUTS[algorithm]}
    return trace(
        algorithm, lambda *a: {_OUTPUT[algorithm]: _FUNCTIONS[algorithm](traced, *a)}, shapes
    )


@overload
def compiled_dynamics(model: Tree, algorithm: str) -> CompiledFunction: ...


@overload
def compiled_dynamics(
    model: Tree, algorithm: str, *, batch: Literal[True], lanes: int | None = None
) -> CompiledBatch: ...


@overload
def compiled_dynamics(
    model: Tree, algorithm: str, *, batch: bool, lanes: int | None = None
) -> CompiledFunction | CompiledBatch: ...


def compiled_dynamics(
    model: Tree, algorithm: str, *, batch: bool = False, lanes: int | None = None
) -> CompiledFunction | CompiledBatch:
    """`algorithm` of a model, compiled: "rnea" (q, qd, qdd -> tau), "crba" (q -> H) or "aba" (q,
    qd, tau -> qdd).

    It computes with the `equivalent` model, straight through for a small one; those of more than
    `MOST_BODIES_IN_A_LINE` bodies (of a batch `MOST_BODIES_IN_LANES`) are loops over the bodies, of
    which any number compile in a second. A `batch` is of arrays (n, nq), (n, nv), ... in `lanes`
    and threads (`CompiledBatch`). Raises ValueError for another algorithm, and CompilerError
    without a C compiler.
    """
    if algorithm not in _FUNCTIONS:
        raise ValueError(
            f"there is no compiled algorithm '{algorithm}'; there are: {', '.join(_FUNCTIONS)}"
        )
    if algorithm == "aba":
        check_resistance(model)
    most = MOST_BODIES_IN_LANES if batch else MOST_BODIES_IN_A_LINE
    if model.nb > most and isinstance(model, Model):
        notation = IN_LANES if batch else SCALAR
        return compiled_form(body_sweeps(equivalent(model), algorithm, notation), batch, lanes)
    return compiled_form(straight_line(model, algorithm), batch, lanes)
