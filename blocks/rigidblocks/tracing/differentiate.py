"""Exact derivatives of expression graphs."""

from collections.abc import Iterable, Mapping
from math import prod

import casadi as ca
import numpy as np

from rigidblocks.tracing.trace import Graph, Shapes


def jacobian(graph: Graph, outputs: str | Iterable[str], inputs: str | Iterable[str]) -> Graph:
    """The graph of the derivatives of some outputs by some inputs, at the same inputs as `graph`.

    Its output `dy_dx`, for each pair of an output y and an input x, has the shape of y followed by
    that of x; its entries have the unit of y per unit of x. They are exact. What cannot depend is
    an exact zero that costs nothing: where those are is `graph.depends`. At a `select` the
    derivative is that of the branch taken.

    Raises KeyError for an output or input that there is not.
    """
    rows, columns = (
        _places(graph, "output", graph.outputs, outputs),
        _places(graph, "input", graph.inputs, inputs),
    )
    x = ca.SX.sym("x", graph.function.size1_in(0))
    matrix = ca.jacobian(graph.function(x), x)
    blocks = {
        f"d{y}_d{u}": (matrix[r, c], graph.outputs[y] + graph.inputs[u])
        for y, r in rows
        for u, c in columns
    }
    flat = ca.vertcat(*(ca.vec(ca.densify(block).T) for block, _ in blocks.values()))
    shapes = {name: shape for name, (_, shape) in blocks.items()}
    function = ca.Function(f"{graph.name}_jacobian", [x], [ca.cse(flat)])
    return Graph(function.name(), graph.inputs, shapes, function)


def directional(graph: Graph, n: int) -> Graph:
    """The graph of the changes of all outputs along n changes of all inputs, J V: from the flat
    inputs and `change` (size, n) to `change` (outputs, n).

    It is exact, as `jacobian` is, and made by one sweep along all directions (forward mode).
    """
    size = graph.function.size1_in(0)
    x, V = ca.SX.sym("x", size), ca.SX.sym("V", n, size)
    changes = ca.densify(ca.jtimes(graph.function(x), x, V.T))
    function = ca.Function(
        f"{graph.name}_directional", [ca.vertcat(x, ca.vec(V))], [ca.cse(ca.vec(changes.T))]
    )
    shapes = {**graph.inputs, "change": (size, n)}
    return Graph(function.name(), shapes, {"change": (changes.size1(), n)}, function)


def _places(
    graph: Graph, kind: str, shapes: Shapes, names: str | Iterable[str]
) -> list[tuple[str, slice]]:
    """The chosen names with their places in the flat vector."""
    chosen = (names,) if isinstance(names, str) else tuple(names)
    if unknown := [name for name in chosen if name not in shapes]:
        raise KeyError(
            f"{graph.name} has no {kind} {', '.join(unknown)}; it has: {', '.join(shapes)}"
        )
    places = _slices(shapes)
    return [(name, places[name]) for name in chosen]


def _slices(shapes: Shapes) -> Mapping[str, slice]:
    ends = np.cumsum([0, *(prod(shape) for shape in shapes.values())]).tolist()
    return {name: slice(a, b) for name, a, b in zip(shapes, ends, ends[1:], strict=False)}
