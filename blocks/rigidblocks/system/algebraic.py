"""Algebraic loops among blocks: outputs that read each other at once, solved where they are
computed, in NumPy and in a trace alike.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from graphlib import TopologicalSorter
from typing import Any, NamedTuple, TypeVar

import numpy as np

from rigidblocks.algebra.linear import linear_solver
from rigidblocks.algebra.scalar import is_traced, less, select
from rigidblocks.algebra.spatial import Array
from rigidblocks.block.step import put_outputs
from rigidblocks.explained import explained
from rigidblocks.system.memories import Memories, WiredPart
from rigidblocks.system.wiring import Wiring
from rigidblocks.tracing.differentiate import jacobian
from rigidblocks.tracing.trace import Graph, trace

Node = tuple[Any, ...]  # (part, "input" or "output", port, element)
T = TypeVar("T")

_MOST = 25  # steps of Newton's method where the equations are not linear
_LINEAR = 2  # and where they are: one, and one for what rounding has left
_ENOUGH = 1e-9  # of 1 and the value: how far off a solution may be; it is far closer in general


class Tie(NamedTuple):
    """An element of a part's memory, `to`, which reads one of another part's."""

    part: str
    to: int
    source: str
    start: int


@dataclass(frozen=True, eq=False)
class AlgebraicLoop:
    """Parts whose outputs read each other at once. `torn` inputs are guessed, with which the parts
    are evaluated one behind the other, each with its `ties` to those before it; what the torn ones
    then read is to be the guess.

    Newton's method with the exact Jacobian solves it, in a fixed number of steps, so that all forms
    take the same: two where the equations are linear, else 25, each shortened where it makes the
    residual no smaller.
    """

    parts: Mapping[str, WiredPart]
    names: tuple[str, ...]
    ties: tuple[Tie, ...]
    torn: tuple[Tie, ...]

    def solved(self, memories: Memories) -> Memories:
        """The memories with the inputs and outputs of the parts as they agree.

        Raises ArithmeticError, of numbers, where no solution is found; what is traced is not finite
        then.
        """
        rest = np.concatenate([memories[name] for name in self.names])
        w = np.array([memories[one.part][one.to] for one in self.torn])
        given = self._places(memories)
        w = self._solution(w, rest)
        return memories | self._evaluated(w, {name: rest[at] for name, at in given.items()})

    def _solution(self, w: Array, rest: Array) -> Array:
        r, J = self._residual(w, rest)
        share: Any = 1.0
        for _ in range(_LINEAR if self._is_linear else _MOST):
            new = w + share * linear_solver(J)(-r)
            r_new, J_new = self._residual(new, rest)
            if self._is_linear:
                w, r, J = new, r_new, J_new
                continue
            is_less = less(r_new @ r_new, r @ r)
            w, r, J = (select(is_less, a, b) for a, b in ((new, w), (r_new, r), (J_new, J)))
            share = select(is_less, 1.0, share / 4.0)
        return self._checked(w, r)

    def _checked(self, w: Array, r: Array) -> Array:
        """The solution where it is one."""
        is_close = less(np.abs(r), _ENOUGH * (1.0 + np.abs(w)))
        if any(not hasattr(one, "select") and not one for one in is_close):  # of numbers
            refused = ArithmeticError(
                f"the algebraic loop of {' and '.join(map(repr, self.names))} has no solution near "
                "its start, or no unique one"
            )
            raise explained(refused, "algebraic loops")
        if is_traced(is_close):
            w = np.array(
                [
                    x / select(one, 1.0, 0.0) if hasattr(one, "select") else x
                    for x, one in zip(w, is_close, strict=True)
                ]
            )
        return w

    def _residual(self, w: Array, rest: Array) -> tuple[Array, Array]:
        """What the torn inputs read less their guess, (n,), and its slopes, (n, n)."""
        n, both = len(w), np.concatenate([w, rest])
        return self._graph(both), self._slopes(both).reshape(n, n)

    @cached_property
    def _is_linear(self) -> bool:
        return not self._slopes.depends[:, : len(self.torn)].any()

    @cached_property
    def _slopes(self) -> Graph:
        return jacobian(self._graph, "off", "w")

    @cached_property
    def _graph(self) -> Graph:
        memories = {name: self.parts[name].memory.start() for name in self.names}
        given = self._places(memories)

        def off(w: Array, rest: Array) -> dict[str, Array]:
            found = self._evaluated(w, {name: rest[at] for name, at in given.items()})
            return {"off": np.array([found[one.source][one.start] for one in self.torn]) - w}

        size = sum(len(m) for m in memories.values())
        return trace("loop", off, {"w": (len(self.torn),), "rest": (size,)})

    def _places(self, memories: Memories) -> dict[str, slice]:
        ends = np.cumsum([len(memories[name]) for name in self.names]).tolist()
        begins = [0, *ends]
        return {n: slice(a, b) for n, a, b in zip(self.names, begins, ends, strict=False)}

    def _evaluated(self, w: Array, memories: Memories) -> Memories:
        """The memories of the parts with the torn inputs at w."""
        for name in self.names:
            m = memories[name].astype(np.result_type(memories[name], w))
            for k, one in enumerate(self.torn):
                if one.part == name:
                    m[one.to] = w[k]
            for one in self.ties:
                if one.part == name:
                    m[one.to] = memories[one.source][one.start]
            memories[name] = put_outputs(self.parts[name].evaluator, m)
        return memories


def loops(wiring: Wiring) -> tuple[frozenset[Node], ...]:
    """The elements of ports that read each other in circles, circle by circle."""
    return tuple(
        dict.fromkeys(c for c in circles_of(wiring.element_reads()).values() if len(c) > 1)
    )


def evaluation(wiring: Wiring, parts: Mapping[str, WiredPart]) -> tuple["str | AlgebraicLoop", ...]:
    """What is to be computed one behind the other for all outputs: parts, and loops of them."""
    reads = wiring.element_reads()
    circles = circles_of(reads)
    graph: dict[frozenset[Node], set[frozenset[Node]]] = {}
    for node, circle in circles.items():
        graph.setdefault(circle, set()).update(circles[one] for one in reads.get(node, ()))
    steps: list[str | AlgebraicLoop] = []
    for circle in TopologicalSorter({c: some - {c} for c, some in graph.items()}).static_order():
        if len(circle) > 1:
            steps.append(_loop(wiring, parts, circle))
        elif (node := next(iter(circle)))[1] == "output" and steps[-1:] != [node[0]]:
            steps.append(str(node[0]))
    sinks = sorted(name for name in wiring.parts if name not in steps)
    return (*steps, *(name for name in sinks if not wiring.parts[name].component.outputs))


def _loop(wiring: Wiring, parts: Mapping[str, WiredPart], circle: frozenset[Node]) -> AlgebraicLoop:
    names = tuple(sorted({str(node[0]) for node in circle}))
    ties: list[Tie] = []
    torn: list[Tie] = []
    for tie, node in _ties(wiring, parts, names):
        if node in circle:
            before = names.index(tie.source) < names.index(tie.part)
            (ties if before else torn).append(tie)
    return AlgebraicLoop(parts, names, tuple(ties), tuple(torn))


def _ties(
    wiring: Wiring, parts: Mapping[str, WiredPart], names: Iterable[str]
) -> Iterator[tuple[Tie, Node]]:
    """The ties to parts, each with the element of an input that it is of."""
    for name in names:
        for (a, y), (_, u), start, to, length in wiring.wires_to(name):
            source, target = parts[a].memory.where[y].start, parts[name].memory.where[u].start
            for k in range(length):
                tie = Tie(name, target + to + k, a, source + start + k)
                yield tie, (name, "input", u, to + k)


def circles_of(reads: Mapping[T, set[T]]) -> dict[T, frozenset[T]]:
    """For each node those that it reads and that read it, also through others, and itself."""
    order: Callable[[set[T]], list[T]] = sorted  # type: ignore[assignment]
    nodes = dict.fromkeys(one for node, some in reads.items() for one in (node, *order(some)))
    reached = {node: _reached(node, reads) for node in nodes}
    return {
        node: frozenset({node} | {one for one in some if node in reached[one]})
        for node, some in reached.items()
    }


def _reached(node: T, reads: Mapping[T, set[T]]) -> set[T]:
    found, more = set[T](), [node]
    while more:
        new = reads.get(more.pop(), set()) - found
        found |= new
        more += new
    return found
