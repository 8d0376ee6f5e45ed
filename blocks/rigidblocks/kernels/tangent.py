"""The generated C header `tangent.h` of a block: the exact derivatives of its rates and outputs,
along a direction.
"""

import casadi as ca

from rigidblocks.block.staged import StagedBlock
from rigidblocks.kernels.events import Events
from rigidblocks.kernels.kernel import memory_names, named_elements
from rigidblocks.tracing.ccode import c_function
from rigidblocks.tracing.trace import Graph

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


# quotients, where a part of the block is no trace
_QUOTIENTS = """
static inline void tangent(const double *in, double *out)
{
    const double *change = in + RB_SIZE;
    double m[RB_SIZE], high[RB_NX + RB_NY + 1], low[RB_NX + RB_NY + 1], most = 0.0, size = 1.0;
    for (int k = 0; k < RB_SIZE; k++) {
        most = fmax(most, fabs(change[k]));
        size = fmax(size, fabs(in[k]));
    }
    const double step = most > 0.0 ? 6e-6 * size / most : 1.0;
    for (int k = 0; k < RB_SIZE; k++)
        m[k] = in[k] + step * change[k];
    derivative(m, high);
    output(m, high + RB_NX);
    for (int k = 0; k < RB_SIZE; k++)
        m[k] = in[k] - step * change[k];
    derivative(m, low);
    output(m, low + RB_NX);
    for (int k = 0; k < RB_NX + RB_NY; k++)
        out[k] = (high[k] - low[k]) / (2.0 * step);
}
"""


def tangent_header(events: Events) -> str:
    """The text of tangent.h: the function `tangent`, of a block with a stage in C by quotients."""
    if isinstance(events.evaluator.memory.block, StagedBlock):
        head = f"/* Derivatives of {events.evaluator.memory.name}, by central differences. */\n"
        return head + _SMALL.format(functions=_QUOTIENTS)
    graph, memory = tangent(events), events.evaluator.memory
    count, elements = graph.operation_count, memory_names(memory)
    head = f"/* Derivatives of {memory.name}, traced to C. Operations: {count}. */\n"
    changes = [f"change of {name}" for name in elements]
    rates = [f"change of der({name})" for name in elements[memory.x]]
    sides = [f"side of indicator {k + 1}" for k in range(events.count)]
    names = named_elements("in", (*elements, *changes, *sides))
    names |= named_elements("out", (*rates, *changes[memory.y]))
    return head + _SMALL.format(functions=c_function(graph, inline=True, names=names))


def tangent(events: Events) -> Graph:
    """The graph of J v, from the memory, a change v of it and the sides of laws to the changes of
    the rates and of the computed outputs, with the laws on these sides.
    """
    size, (rates, outputs, _) = events.evaluator.memory.size, events.graphs
    m, v, sides = (
        ca.SX.sym(name, n) for name, n in (("m", size), ("v", size), ("s", events.count))
    )
    held = ca.vertcat(m, sides)
    change = ca.densify(ca.jtimes(ca.vertcat(rates.function(held), outputs.function(held)), m, v))
    function = ca.Function("tangent", [ca.vertcat(m, v, sides)], [ca.cse(change)])
    return Graph(
        "tangent",
        {"memory": (size,), "change": (size,), "sides": (events.count,)},
        {"rates": rates.outputs["out"], "outputs": outputs.outputs["out"]},
        function,
    )
