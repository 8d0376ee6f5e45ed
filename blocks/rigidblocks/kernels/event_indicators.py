"""Graphs of a block for model exchange: event indicators, state derivatives, outputs, tangents.

The sign of the margin of a piecewise function selects its active branch. The margin is an event
indicator: a sign change of the margin is an event, after which the other branch is active. Between
two events, the active branch does not change.

Tangents are directional derivatives. The generated C header `tangent.h` contains the exact tangents
of the state derivatives and outputs, and optionally the second derivatives of the outputs.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import casadi as ca
import numpy as np

from rigidblocks.block.block import state_outputs
from rigidblocks.block.evaluators import Evaluator, NumpyEvaluator
from rigidblocks.block.external_functions import StagedBlock
from rigidblocks.kernels.model_header import memory_names, named_elements
from rigidblocks.kernels.traced_evaluator import TracedEvaluator
from rigidblocks.spatial.spatial import Array
from rigidblocks.tracing.c_notation import c_comment
from rigidblocks.tracing.ccode import c_function, c_functions
from rigidblocks.tracing.trace import (
    Choice,
    Graph,
    call_choosing_function,
    choices_of_trace,
    substitute_choices,
    trace,
)


@dataclass(frozen=True, eq=False)
class Events:
    """Event indicators of a block, and graphs of its functions with held branches.

    Normally, the sign of a margin selects the branch of a piecewise function. In a graph with held
    branches, an additional input selects the branch: the side, which is 1 or -1. The inputs of the
    graphs are the memory vector and one side per indicator.

    The first indicators are the margins of the piecewise functions (`spatial.scalar.piecewise`) in
    the state derivatives and outputs. The other indicators are the values of
    `Block.switching_functions` that are not constant and differ from these margins.

    Attributes:
        evaluator: Evaluator of the block functions.
        flow: Graph from the memory vector to state derivatives, outputs and switching functions.
            If None, the class traces these functions of `evaluator`.
    """

    evaluator: Evaluator
    flow: Graph | None = None

    @cached_property
    def differentiable(self) -> "Events":
        """Variant of the events for the computation of derivatives (`Graph.differentiable`)."""
        flow = self._flow.differentiable
        return self if flow is self._flow else replace(self, flow=flow)

    @cached_property
    def count(self) -> int:
        """Number of event indicators.

        A `StagedBlock` has one event indicator per switching function.
        """
        if self.staged:
            return self.evaluator.switching_count
        return int(self._held[2].numel())

    @property
    def staged(self) -> bool:
        """True if the block is a `StagedBlock`.

        In the C function of a `StagedBlock`, the margins always select the branches. No input can
        hold a branch between events.
        """
        return isinstance(self.evaluator.memory.block, StagedBlock)

    @cached_property
    def graphs(self) -> tuple[Graph, ...]:
        """Graphs with held branches: state derivatives, outputs, and switching functions."""
        names = ("held_rates", "held_outputs", "indicators")
        return tuple(map(self._graph, names, self._held))

    @cached_property
    def reads(self) -> Array:
        """Boolean matrix: element [i, j] is True if indicator i depends on memory element j."""
        if not self.count:
            return np.zeros((0, self.evaluator.memory.size), dtype=bool)
        if self.staged:
            return self._margins_read
        return self.graphs[2].depends[:, : self.evaluator.memory.size]

    @property
    def _margins_read(self) -> Array:
        """Boolean matrix: element [i, j] is True if margin i depends on memory element j.

        The outputs of the C function of a `StagedBlock` count as dependent on all its inputs.
        """
        memory = self.evaluator.memory
        assert isinstance(memory.block, StagedBlock)
        known = NumpyEvaluator(replace(memory, block=memory.block.structure()))
        margins = trace(
            "margins", lambda m: {"out": known.switching_functions(m)}, {"memory": (memory.size,)}
        )
        return margins.depends

    def _graph(self, name: str, elements: ca.SX) -> Graph:
        inputs = {"memory": (self.evaluator.memory.size,), "sides": (self.count,)}
        function = ca.Function(name, [self._graph_inputs], [ca.cse(elements)])
        return Graph(name, inputs, {"out": (elements.numel(),)}, function)

    @cached_property
    def _m(self) -> ca.SX:
        return ca.SX.sym("m", self.evaluator.memory.size)

    @property
    def _graph_inputs(self) -> ca.SX:
        return ca.vertcat(self._m, *self._sides[: self.count])

    @cached_property
    def _sides(self) -> list[ca.SX]:
        """Symbols of the sides, one per piecewise function and per switching function.

        Event indicators may be fewer; the graphs then use only the first `count` symbols.
        """
        return [
            ca.SX.sym("side") for _ in range(len(self._choices) + self._flow.outputs["margins"][0])
        ]

    @cached_property
    def _flow(self) -> Graph:
        """Graph from the memory vector to state derivatives, outputs and switching functions."""
        e = self.evaluator
        if self.flow is not None:
            return self.flow

        def flow(m: Array) -> dict[str, Array]:
            margins = e.switching_functions(m) if e.switching_count else np.zeros(0)
            return {"rates": e.derivative(m), "outputs": e.output(m), "margins": margins}

        return trace("flow", flow, {"memory": (e.memory.size,)})

    @cached_property
    def _traced(self) -> tuple[ca.SX, list[Choice]]:
        """Result expressions of the graph `_flow`, and their distinct piecewise functions."""
        flow = self._flow
        if flow.choosing is None:
            return flow.function(self._m), []
        with choices_of_trace() as choices:
            elements = call_choosing_function(flow.choosing, self._m)
        return _merge_equal_choices(elements, choices)

    @property
    def _choices(self) -> list[Choice]:
        return self._traced[1]

    @cached_property
    def _held(self) -> tuple[ca.SX, ca.SX, ca.SX]:
        """Expressions of state derivatives, outputs and event indicators, with held branches."""
        elements, choices = self._traced
        n_rates, n_outputs = (self._flow.outputs[name][0] for name in ("rates", "outputs"))
        end = n_rates + n_outputs
        flow, declared = elements[:end, 0], elements[end:, 0]  # a column also for a single element
        choices = list(_choices_read_by(flow, choices))
        laws = [
            ca.if_else(side > 0, choice.above, choice.below)
            for side, choice in zip(self._sides, choices, strict=False)
        ]
        margins = ca.vertcat(ca.SX(0, 1), *(choice.margin for choice in choices))
        held = substitute_choices(choices, laws, ca.vertcat(flow, margins)) if choices else flow
        whole = [choice.whole for choice in choices]
        others = _distinct_margins(
            substitute_choices(choices, whole, ca.vertcat(margins, declared)), len(choices)
        )
        return held[:n_rates, 0], held[n_rates:end, 0], ca.vertcat(held[end:, 0], *others)


def events_header(events: Events) -> str:
    """Return the C header events.h of a block.

    The header contains the number of event indicators, a C function for the indicators, and C
    functions for the state derivatives and outputs with held branches.
    """
    memory = events.evaluator.memory
    elements = memory_names(memory)
    read = (*elements, *(f"side of indicator {k + 1}" for k in range(events.count)))
    written = (
        [f"der({name})" for name in elements[memory.x]],
        elements[memory.y],
        [f"indicator {k + 1}" for k in range(events.count)],
    )
    names = [named_elements("in", read) | named_elements("out", out) for out in written]
    functions = ""
    if events.count and events.staged:
        functions = _staged_functions(events)
    elif events.count:
        functions = c_functions(events.graphs, names, inline=True)
    return "\n".join(
        [
            f"/* Events of {c_comment(memory.name)}: the laws between two of them, and their "
            "indicators. */\n",
            "#ifndef RB_EVENTS_H\n#define RB_EVENTS_H\n\n#include <math.h>\n",
            f"#define RB_INDICATORS {events.count}\n",
            functions,
            "#endif\n",
        ]
    )


# C functions for a block with a C stage, whose branches cannot be held
_STAGED = """
static inline void held_rates(const double *in, double *out)
{
    derivative(in, out);
}

static inline void held_outputs(const double *in, double *out)
{
    output(in, out);
}

static inline void indicators(const double *in, double *out)
{
    RB_WORKSPACE(RB_LARGE, double, whole, RB_SIZE + STAGE_SIZE);
    insert_stage_results(in, whole);
    indicators_after(whole, out);
}
"""


def _staged_functions(events: Events) -> str:
    """Return the C functions of the event indicators of a `StagedBlock`.

    The event indicators are the switching functions of the block.
    """
    evaluator = events.evaluator
    block = evaluator.memory.block
    assert isinstance(evaluator, TracedEvaluator)
    assert isinstance(block, StagedBlock)
    after = evaluator.graph_after_stage("switching_functions", "indicators_after")
    text = c_functions([after], [named_elements("in", memory_names(evaluator.memory))], inline=True)
    return (
        '#include "model_interface.h"\n'
        + text
        + _STAGED.replace("STAGE_SIZE", str(block.stage_size))
    )


def _merge_equal_choices(elements: ca.SX, choices: Sequence[Choice]) -> tuple[ca.SX, list[Choice]]:
    """Merge equal piecewise functions; return the changed `elements` and the distinct functions."""
    width = len(Choice._fields) - 1
    while True:
        laws = [expression for choice in choices for expression in choice[1:]]
        flat = ca.cse(ca.vertcat(elements, *laws))
        n, known, twins = elements.numel(), dict[tuple[int, ...], ca.SX](), dict[int, ca.SX]()
        for k in range(len(choices)):
            places = range(n + width * k, n + width * (k + 1))
            key = tuple(flat[place].element_hash() for place in places)
            first = known.setdefault(key, choices[k].symbol)
            if first is not choices[k].symbol:
                twins[k] = first
        left = [k for k in range(len(choices)) if k not in twins]
        if twins:
            old = ca.vertcat(*(choices[k].symbol for k in twins))
            flat = ca.substitute(flat, old, ca.vertcat(*twins.values()))
        choices = [
            Choice(choices[k].symbol, *(flat[n + width * k + j] for j in range(width)))
            for k in left
        ]
        elements = flat[:n, 0]
        if not twins:
            return elements, list(choices)


def _choices_read_by(elements: ca.SX, choices: Sequence[Choice]) -> Iterator[Choice]:
    """Yield the piecewise functions on which the expressions `elements` depend.

    The dependence may be indirect, through other piecewise functions.
    """
    read = {one.element_hash() for one in ca.symvar(elements)}
    needed = []
    for choice in reversed(choices):
        if choice.symbol.element_hash() in read:
            read |= {one.element_hash() for one in ca.symvar(ca.vertcat(*choice[1:]))}
            needed.append(choice)
    yield from reversed(needed)


def _distinct_margins(margins: ca.SX, n: int) -> Iterator[ca.SX]:
    """Yield the margins after the first n margins, without constants and duplicates.

    A margin that equals one of the first n margins is also a duplicate.
    """
    flat = ca.cse(margins)
    known = {flat[k].element_hash() for k in range(n)}
    for k in range(n, flat.numel()):
        if flat[k].element_hash() not in known and not flat[k].is_constant():
            known.add(flat[k].element_hash())
            yield flat[k]


# with at most this number of operations, second derivatives add less than 4 % of code
FEW_OPERATIONS = 100
HIGHEST = 2  # highest order of output derivatives

# optimization for size halves the compile time; co-simulation steps do not call this code
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


# central differences, for blocks with a C stage, which is not traced
_QUOTIENTS = """
static inline void tangent(const double *in, double *out)
{
    const double *change = in + RB_SIZE;
    double most = 0.0, size = 1.0;
    RB_WORKSPACE(RB_LARGE, double, m, RB_SIZE);
    RB_WORKSPACE(RB_LARGE, double, high, RB_NX + RB_NY + 1);
    RB_WORKSPACE(RB_LARGE, double, low, RB_NX + RB_NY + 1);
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


@dataclass(frozen=True, eq=False)
class Tangents:
    """Directional derivatives of the state derivatives and outputs of a block.

    The derivatives are with respect to the memory vector, with unchanged active branches of
    piecewise functions.
    """

    events: Events

    @property
    def staged(self) -> bool:
        """True for a `StagedBlock`, whose derivatives are central differences."""
        return isinstance(self.events.evaluator.memory.block, StagedBlock)

    @cached_property
    def first(self) -> Graph:
        """Graph of the directional derivative J v of the state derivatives and outputs.

        J is the Jacobian with respect to the memory vector. The inputs are the memory vector, the
        direction v, and one side per event indicator. Outputs that equal states are not included.
        """
        return self._graph("tangent", ("rates", "outputs"), 1)

    @cached_property
    def second(self) -> Graph:
        """Graph of D2g(v, v), the second derivative of the outputs g along v.

        The inputs are the inputs of `first`. Outputs that equal states are not included.
        """
        return self._graph("curvature", ("outputs",), 2)

    def output_order(self, wanted: int | None, has_input_rates: bool) -> int:
        """Return the highest order of output time derivatives that an FMU provides.

        Args:
            wanted: Requested order, or None for the default. The default is 0 if no output changes
                between samples, 2 if the first derivatives have at most `FEW_OPERATIONS`
                operations, and otherwise 1. It is at most 1 for a `StagedBlock`.
            has_input_rates: True if the inputs may have time derivatives.

        Raises:
            ValueError: The block does not have derivatives of the requested order.
        """
        if wanted is not None and wanted not in range(HIGHEST + 1):
            raise ValueError(f"output_derivatives must be from 0 to {HIGHEST}, not {wanted!r}")
        possible = HIGHEST if self._changes(has_input_rates) else 0
        possible = min(possible, 1) if self.staged else possible
        if wanted is None:
            return possible if possible < HIGHEST or self._is_small else 1
        if wanted > possible:
            reason = (
                "its first derivatives are central differences"
                if possible
                else "no output changes between samples"
            )
            raise ValueError(
                f"{self.events.evaluator.memory.name} has output derivatives up to order "
                f"{possible}, not {wanted}: {reason}"
            )
        return wanted

    @property
    def _is_small(self) -> bool:
        memory = self.events.evaluator.memory
        return memory.y.start == memory.y.stop or self.first.operation_count <= FEW_OPERATIONS

    def _changes(self, has_input_rates: bool) -> bool:
        """Return True if an output can change between samples.

        Such an output depends on the time, on a continuous state or, if `has_input_rates` is True,
        on an input.
        """
        memory = self.events.evaluator.memory
        if any(memory.where[name].start in _range(memory.x) for name in self._state_outputs):
            return True
        if self.staged or memory.y.start == memory.y.stop:
            return self.staged
        reads = self.first.depends[-self.first.outputs["outputs"][0] :, memory.size :]
        moving = [0, *_range(memory.x), *(_range(memory.u) if has_input_rates else ())]
        return bool(reads[:, moving].any())

    @property
    def _state_outputs(self) -> tuple[str, ...]:
        return tuple(state_outputs(self.events.evaluator.memory.block))

    def _graph(self, name: str, functions: tuple[str, ...], order: int) -> Graph:
        size = self.events.evaluator.memory.size
        known = dict(zip(("rates", "outputs"), self.events.differentiable.graphs, strict=False))
        m, v, sides = (
            ca.SX.sym(symbol, n)
            for symbol, n in (("m", size), ("v", size), ("s", self.events.count))
        )
        held = ca.vertcat(m, sides)
        values = ca.vertcat(*(known[one].function(held) for one in functions))
        for _ in range(order):
            values = ca.jtimes(values, m, v)
        function = ca.Function(name, [ca.vertcat(m, v, sides)], [ca.cse(ca.densify(values))])
        inputs = {"memory": (size,), "change": (size,), "sides": (self.events.count,)}
        return Graph(name, inputs, {one: known[one].outputs["out"] for one in functions}, function)


def _range(place: slice) -> range:
    return range(place.start, place.stop)


def tangent_header(tangents: Tangents, order: int) -> str:
    """Return the C header tangent.h, which computes the directional derivatives of a block.

    `order` is the highest order of the output derivatives. The code of a `StagedBlock` uses central
    differences.
    """
    events = tangents.events
    memory = events.evaluator.memory
    name = c_comment(memory.name)
    provided = f"\n#define RB_OUTPUT_ORDER {order} /* highest order of output derivatives */\n"
    if tangents.staged:
        head = f"/* Derivatives of {name}, by central differences. */\n"
        return head + _SMALL.format(functions=provided + _QUOTIENTS)
    graphs = [tangents.first, *[tangents.second] * (order > 1)]
    counts = ", ".join(str(graph.operation_count) for graph in graphs)
    head = f"/* Derivatives of {name}, traced to C. Operations: {counts}. */\n"
    elements = memory_names(memory)
    changes = [f"change of {name}" for name in elements]
    rates = [f"change of der({name})" for name in elements[memory.x]]
    curved = [f"second change of {name}" for name in elements[memory.y]]
    sides = [f"side of indicator {k + 1}" for k in range(events.count)]
    read = named_elements("in", (*elements, *changes, *sides))
    written = ((*rates, *changes[memory.y]), curved)
    functions = provided + "".join(
        c_function(graph, inline=True, names=read | named_elements("out", out))
        for graph, out in zip(graphs, written, strict=False)
    )
    return head + _SMALL.format(functions=functions)
