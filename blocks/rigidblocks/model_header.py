"""The generated C header `model.h` of a block: its traced functions and the layout of its memory."""

from collections.abc import Iterable
from importlib.resources import files

import numpy as np

from rigidblocks.ccode import c_function, c_number
from rigidblocks.differentiation import jacobian
from rigidblocks.flat import FlatBlock
from rigidblocks.integrate import Integrator
from rigidblocks.trace import Graph, trace

FUNCTIONS = ("derivative", "initial", "update", "output")
PROJECTION = "project"  # a fifth, for the blocks that have one


def model_header(flat: FlatBlock, method: Integrator, h: float) -> str:
    """The text of model.h for a block stepped by `method` with inner steps of at most `h` [s], which must be positive."""
    if not (np.isfinite(h) and h > 0):
        raise ValueError(f"the inner step h must be positive, not {h} s")
    names = (*FUNCTIONS, PROJECTION) if flat.projects else FUNCTIONS
    graphs = [trace(name, lambda m, name=name: {"out": getattr(flat, name)(m)}, {"memory": (flat.size,)}) for name in names]
    slopes = [] if method.implicit is None else [rate_slopes(flat)]
    counts = ", ".join(f"{graph.name} {graph.operation_count}" for graph in graphs + slopes)
    return "\n".join(
        [
            f"/* {flat.name}, traced to C. Operations: {counts}. */",
            "#include <math.h>\n",
            _layout(flat, method),
            f"#define PROJECTS {int(flat.projects)}",
            f"static const double SAMPLE_TIME = {c_number(flat.block.sample_time or 0.0)};",
            f"static const double INNER_STEP = {c_number(h)};",
            _array("START", flat.start()),
            *_tableau(flat, method),
            *map(c_function, graphs),
            *(c_function(graph) + _text("implicit.h") for graph in slopes),
        ]
    )


def rate_slopes(flat: FlatBlock) -> Graph:
    """The graph from the memory to the derivatives of the rates, by the n continuous states (n, n) and by the time (n,)."""
    n = flat.x.stop - flat.x.start
    parts = {"t": (), "x": (n,), "rest": (flat.size - flat.x.stop,)}
    rates = trace("rates", lambda t, x, rest: {"rates": flat.derivative(np.concatenate([[t], x, rest]))}, parts)
    slopes = jacobian(rates, "rates", ("x", "t"))
    return Graph("rate_slopes", {"memory": (flat.size,)}, slopes.outputs, slopes.function)


def _text(name: str) -> str:
    return files("rigidblocks").joinpath(f"c/{name}").read_text()


def _layout(flat: FlatBlock, method: Integrator) -> str:
    places = {"X": flat.x, "Z": flat.z, "U": flat.u, "P": flat.p, "Y": flat.y}
    entries = [f"{name} = {s.start}, N{name} = {s.stop - s.start}" for name, s in places.items()]
    return f"enum {{ T = 0, {', '.join(entries)}, SIZE = {flat.size}, STAGES = {method.stages} }};"


def _tableau(flat: FlatBlock, method: Integrator) -> Iterable[str]:
    """The tableaux with b as their last row, and which states are positions."""
    a_position, b_position = method.position_tableau
    yield _matrix("A", (*method.a, method.b))
    if method.implicit is not None:
        yield "#define LINEARLY_IMPLICIT 1"
        yield f"static const double GAMMA = {c_number(method.implicit.gamma)};"
        yield _matrix("COUPLING", (*method.implicit.coupling, (0.0,) * method.stages))
        yield _array("TIME", method.implicit.time)
        yield _array("C", method.c)
        return
    yield _matrix("A_POSITION", (*a_position, b_position))
    yield _array("C", method.c)
    flags = ", ".join(str(int(flag)) for flag in (*flat.position, False))
    yield f"static const unsigned char POSITION[NX + 1] = {{{flags}}};"


def _matrix(name: str, rows: tuple[tuple[float, ...], ...]) -> str:
    width = len(rows[-1])
    text = ", ".join("{" + _numbers((*row, *[0.0] * (width - len(row)))) + "}" for row in rows)
    return f"static const double {name}[STAGES + 1][STAGES] = {{{text}}};"


def _array(name: str, values: Iterable[float]) -> str:
    return f"static const double {name}[] = {{{_numbers(values)}}};"


def _numbers(values: Iterable[float]) -> str:
    return ", ".join(c_number(value) for value in np.asarray(list(values), dtype=float))
