"""The generated C header `tangent.h` of a block: the exact derivatives of its rates and outputs, along a direction."""

import casadi as ca

from rigidblocks.ccode import c_function
from rigidblocks.flat import FlatBlock
from rigidblocks.trace import Graph, trace


def tangent_header(flat: FlatBlock, adjoint: bool) -> str:
    """The text of tangent.h: the function `tangent`, and `cotangent` if adjoint derivatives are wanted."""
    graphs = (tangent(flat), cotangent(flat)) if adjoint else (tangent(flat),)
    counts = ", ".join(f"{graph.name} {graph.operation_count}" for graph in graphs)
    return "\n".join([f"/* Derivatives of {flat.name}, traced to C. Operations: {counts}. */", *map(c_function, graphs)])


def tangent(flat: FlatBlock) -> Graph:
    """The graph of J v, from the memory and a change v of it to the changes of the rates and of the computed outputs."""
    flow, m = _flow(flat), ca.SX.sym("m", flat.size)
    v = ca.SX.sym("v", flat.size)
    change = ca.jtimes(flow.function(m), m, v)
    return _graph("tangent", m, v, change, {"memory": (flat.size,), "change": (flat.size,)}, dict(flow.outputs))


def cotangent(flat: FlatBlock) -> Graph:
    """The graph of w' J, from the memory and weights w of the rates and of the computed outputs to the memory's gradient."""
    flow, m = _flow(flat), ca.SX.sym("m", flat.size)
    w = ca.SX.sym("w", flow.function.size1_out(0))
    gradient = ca.jtimes(flow.function(m), m, w, True)
    return _graph("cotangent", m, w, gradient, {"memory": (flat.size,), **flow.outputs}, {"gradient": (flat.size,)})


def _flow(flat: FlatBlock) -> Graph:
    return trace("flow", lambda m: {"rates": flat.derivative(m), "outputs": flat.output(m)}, {"memory": (flat.size,)})


def _graph(
    name: str, m: ca.SX, seed: ca.SX, result: ca.SX, inputs: dict[str, tuple[int, ...]], outputs: dict[str, tuple[int, ...]]
) -> Graph:
    function = ca.Function(name, [ca.vertcat(m, seed)], [ca.cse(ca.densify(result))])
    return Graph(name, inputs, outputs, function)
