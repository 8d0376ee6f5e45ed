"""The generated C header `tangent.h` of a block: the exact derivatives of its rates and outputs, along a direction."""

import casadi as ca

from rigidblocks.ccode import c_function
from rigidblocks.flat import FlatBlock
from rigidblocks.trace import Graph, trace

# compiled for size, which takes half the time: derivatives are in no step of a co-simulation
_SMALL = """\
#if defined(__clang__)
#pragma clang attribute push(__attribute__((minsize)), apply_to = function)
#elif defined(__GNUC__)
#pragma GCC push_options
#pragma GCC optimize("Os")
#endif
{functions}
#if defined(__clang__)
#pragma clang attribute pop
#elif defined(__GNUC__)
#pragma GCC pop_options
#endif
"""


def tangent_header(flat: FlatBlock) -> str:
    """The text of tangent.h: the function `tangent`."""
    graph = tangent(flat)
    head = f"/* Derivatives of {flat.name}, traced to C. Operations: {graph.operation_count}. */\n"
    return head + _SMALL.format(functions=c_function(graph))


def tangent(flat: FlatBlock) -> Graph:
    """The graph of J v, from the memory and a change v of it to the changes of the rates and of the computed outputs."""
    flow = trace("flow", lambda m: {"rates": flat.derivative(m), "outputs": flat.output(m)}, {"memory": (flat.size,)})
    m, v = ca.SX.sym("m", flat.size), ca.SX.sym("v", flat.size)
    change = ca.densify(ca.jtimes(flow.function(m), m, v))
    function = ca.Function("tangent", [ca.vertcat(m, v)], [ca.cse(change)])
    return Graph("tangent", {"memory": (flat.size,), "change": (flat.size,)}, dict(flow.outputs), function)
