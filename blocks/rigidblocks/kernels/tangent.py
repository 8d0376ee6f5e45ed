"""The generated C header `tangent.h` of a block: the exact derivatives of its rates and outputs,
along a direction.
"""

import casadi as ca

from rigidblocks.block.evaluate import Evaluator
from rigidblocks.kernels.kernel import memory_names, named_elements
from rigidblocks.tracing.ccode import c_function
from rigidblocks.tracing.trace import Graph, trace

# compiled for size, which takes half the time: derivatives are in no step of a co-simulation
_SMALL = """
#ifndef RB_TANGENT_H
#define RB_TANGENT_H

#include <math.h>

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

#endif
"""


def tangent_header(evaluator: Evaluator) -> str:
    """The text of tangent.h: the function `tangent`."""
    graph, memory = tangent(evaluator), evaluator.memory
    count, elements = graph.operation_count, memory_names(memory)
    head = f"/* Derivatives of {memory.name}, traced to C. Operations: {count}. */\n"
    changes = [f"change of {name}" for name in elements]
    rates = [f"change of der({name})" for name in elements[memory.x]]
    names = named_elements("in", (*elements, *changes))
    names |= named_elements("out", (*rates, *changes[memory.y]))
    return head + _SMALL.format(functions=c_function(graph, inline=True, names=names))


def tangent(evaluator: Evaluator) -> Graph:
    """The graph of J v, from the memory and a change v of it to the changes of the rates and of the
    computed outputs.
    """
    size = evaluator.memory.size
    flow = trace(
        "flow",
        lambda m: {"rates": evaluator.derivative(m), "outputs": evaluator.output(m)},
        {"memory": (size,)},
    )
    m, v = ca.SX.sym("m", size), ca.SX.sym("v", size)
    change = ca.densify(ca.jtimes(flow.function(m), m, v))
    function = ca.Function("tangent", [ca.vertcat(m, v)], [ca.cse(change)])
    return Graph(
        "tangent",
        {"memory": (size,), "change": (size,)},
        dict(flow.outputs),
        function,
    )
