"""The laws of a block between two events, as graphs: a side of each is held, and event indicators
tell where it ends.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import casadi as ca
import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.block.evaluate import Evaluator, NumpyEvaluator
from rigidblocks.block.staged import StagedBlock
from rigidblocks.kernels.evaluator import TracedEvaluator
from rigidblocks.kernels.kernel import memory_names, named_elements
from rigidblocks.tracing.ccode import c_functions
from rigidblocks.tracing.choices import Choice, called, choices_of_trace, with_laws
from rigidblocks.tracing.trace import Graph, trace


@dataclass(frozen=True, eq=False)
class Events:
    """What model exchange knows of the events of a block.

    The indicators are the margins of the laws that its rates and outputs choose between
    (`algebra.scalar.piecewise`), and behind them those of `Block.margins` that are none of these.
    The graphs read [memory | sides], where a side is 1 or -1 for each indicator.
    """

    evaluator: Evaluator

    @cached_property
    def count(self) -> int:
        """The number of event indicators; of a block with a stage in C, whose laws are in it, that
        of its margins.
        """
        if self.staged:
            return self.evaluator.margin_count
        return int(self._held[2].numel())

    @property
    def staged(self) -> bool:
        """Whether a stage of the block is in C, so that nothing is held in it."""
        return isinstance(self.evaluator.memory.block, StagedBlock)

    @cached_property
    def graphs(self) -> tuple[Graph, ...]:
        """held_rates, held_outputs, and indicators: the margins."""
        names = ("held_rates", "held_outputs", "indicators")
        return tuple(map(self._graph, names, self._held))

    @cached_property
    def reads(self) -> Array:
        """Which indicator (rows) reads which element of the memory."""
        if not self.count:
            return np.zeros((0, self.evaluator.memory.size), dtype=bool)
        if self.staged:
            return self._margins_read
        return self.graphs[2].depends[:, : self.evaluator.memory.size]

    @property
    def _margins_read(self) -> Array:
        """Which margin reads which element of the memory, all of what the C writes reading all that
        it gets.
        """
        memory = self.evaluator.memory
        assert isinstance(memory.block, StagedBlock)
        known = NumpyEvaluator(replace(memory, block=memory.block.structure()))
        margins = trace("margins", lambda m: {"out": known.margins(m)}, {"memory": (memory.size,)})
        return margins.depends

    def _graph(self, name: str, elements: ca.SX) -> Graph:
        inputs = {"memory": (self.evaluator.memory.size,), "sides": (self.count,)}
        function = ca.Function(name, [self._in], [ca.cse(elements)])
        return Graph(name, inputs, {"out": (elements.numel(),)}, function)

    @cached_property
    def _m(self) -> ca.SX:
        return ca.SX.sym("m", self.evaluator.memory.size)

    @property
    def _in(self) -> ca.SX:
        return ca.vertcat(self._m, *self._sides[: self.count])

    @cached_property
    def _sides(self) -> list[ca.SX]:
        """More symbols than there are indicators."""
        return [
            ca.SX.sym("side") for _ in range(len(self._choices) + self._flow.outputs["margins"][0])
        ]

    @cached_property
    def _flow(self) -> Graph:
        """The rates, outputs and margins by the memory."""
        e = self.evaluator

        def flow(m: Array) -> dict[str, Array]:
            margins = e.margins(m) if e.margin_count else np.zeros(0)
            return {"rates": e.derivative(m), "outputs": e.output(m), "margins": margins}

        return trace("flow", flow, {"memory": (e.memory.size,)})

    @cached_property
    def _traced(self) -> tuple[ca.SX, list[Choice]]:
        """The elements of the flow, and the choices in them, each once."""
        flow = self._flow
        if flow.choosing is None:
            return flow.function(self._m), []
        with choices_of_trace() as choices:
            elements = called(flow.choosing, self._m)
        return _each_once(elements, choices)

    @property
    def _choices(self) -> list[Choice]:
        return self._traced[1]

    @cached_property
    def _held(self) -> tuple[ca.SX, ca.SX, ca.SX]:
        """Rates, outputs and margins with a side of each choice held."""
        elements, choices = self._traced
        n_rates, n_outputs = (self._flow.outputs[name][0] for name in ("rates", "outputs"))
        end = n_rates + n_outputs
        flow, declared = elements[:end, 0], elements[end:, 0]  # columns, of one element too
        choices = list(_needed(flow, choices))
        laws = [
            ca.if_else(side > 0, choice.above, choice.below)
            for side, choice in zip(self._sides, choices, strict=False)
        ]
        margins = ca.vertcat(ca.SX(0, 1), *(choice.margin for choice in choices))
        held = with_laws(choices, laws, ca.vertcat(flow, margins)) if choices else flow
        whole = [choice.whole for choice in choices]
        others = _others(with_laws(choices, whole, ca.vertcat(margins, declared)), len(choices))
        return held[:n_rates, 0], held[n_rates:end, 0], ca.vertcat(held[end:, 0], *others)


def events_header(events: Events) -> str:
    """The text of events.h: the numbers of event indicators, and the functions where there are
    any.
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
            f"/* Events of {memory.name}: the laws between two of them, and their indicators. */\n",
            "#ifndef RB_EVENTS_H\n#define RB_EVENTS_H\n\n#include <math.h>\n",
            f"#define RB_INDICATORS {events.count}\n",
            functions,
            "#endif\n",
        ]
    )


# of a block whose laws are in C, which go on beyond their ends
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
    double whole[RB_SIZE + STAGE_SIZE];
    with_stage(in, whole);
    indicators_after(whole, out);
}
"""


def _staged_functions(events: Events) -> str:
    """The functions of a block with a stage in C, whose indicators are its margins."""
    evaluator = events.evaluator
    block = evaluator.memory.block
    assert isinstance(evaluator, TracedEvaluator)
    assert isinstance(block, StagedBlock)
    after = evaluator.after_stage("margins", "indicators_after")
    text = c_functions([after], [named_elements("in", memory_names(evaluator.memory))], inline=True)
    return '#include "block.h"\n' + text + _STAGED.replace("STAGE_SIZE", str(block.stage_size))


def _each_once(elements: ca.SX, choices: Sequence[Choice]) -> tuple[ca.SX, list[Choice]]:
    """The same with one choice in the place of all that are the same choice."""
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


def _needed(elements: ca.SX, choices: Sequence[Choice]) -> Iterator[Choice]:
    """The choices that the elements read, directly or through others."""
    read = {one.element_hash() for one in ca.symvar(elements)}
    needed = []
    for choice in reversed(choices):
        if choice.symbol.element_hash() in read:
            read |= {one.element_hash() for one in ca.symvar(ca.vertcat(*choice[1:]))}
            needed.append(choice)
    yield from reversed(needed)


def _others(margins: ca.SX, n: int) -> Iterator[ca.SX]:
    """The margins behind the first n that are none of these, each once."""
    flat = ca.cse(margins)
    known = {flat[k].element_hash() for k in range(n)}
    for k in range(n, flat.numel()):
        if flat[k].element_hash() not in known and not flat[k].is_constant():
            known.add(flat[k].element_hash())
            yield flat[k]
