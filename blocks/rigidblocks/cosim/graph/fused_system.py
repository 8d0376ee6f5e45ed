"""A system as one block: the whole co-simulation step, its wiring and its masters' order included,
as a pure function.
"""

from collections.abc import Iterator
from copy import copy
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.block.adaptive import Adaptive, chooses_steps, longest_step
from rigidblocks.block.block import Block, Port, Record, Values
from rigidblocks.block.composite import Composite, Copy, InnerBlock, copies, total
from rigidblocks.block.evaluate import Evaluator, NumpyEvaluator
from rigidblocks.block.integrators import RK4
from rigidblocks.block.memory import Memory, put
from rigidblocks.block.step import advance, initialize, put_outputs
from rigidblocks.block.written import BlockInC, WrittenBlock
from rigidblocks.kernels.evaluator import TracedEvaluator
from rigidblocks.system.memories import Memories, PortsOfParts, WiredPart, WiredParts, values_of
from rigidblocks.system.merged import closed, synchronous
from rigidblocks.system.system import System, wired
from rigidblocks.system.wiring import Wiring

GAUSS_SEIDEL = "gauss-seidel"
JACOBI = "jacobi"
ORDERS = (GAUSS_SEIDEL, JACOBI)


class FusedSystem(PortsOfParts, Composite):
    """A system that takes its co-simulation steps of `dt` as one sampled block.

    All states and outputs of the parts are sampled states called `part.port`; the open inputs and
    the parameters of the parts are those of the system. What of these is shown, and under what
    name, is as `System.expose` says. The numbers are those of `simulate` with
    the same `dt` and `order`. Continuous blocks in an algebraic loop are one part, which solves it
    (`ContinuousSystem`). The system is copied: later changes of it have no effect.

    Raises ValueError for an FMU among the parts, an algebraic loop through one that samples, or an
    open input without a start value.
    """

    def __init__(self, system: System | Wiring, dt: float, order: str = GAUSS_SEIDEL):
        if order not in ORDERS:
            raise ValueError(f"order must be one of {', '.join(ORDERS)}, not '{order}'")
        self.sample_time = dt
        self._jacobi = order == JACOBI
        wiring, exposure = wired(system)
        self._parts = WiredParts(synchronous(closed(wiring)), exposure)

    @cached_property
    def sampled(self) -> tuple[Port, ...]:
        """The states and computed outputs of the parts."""
        return tuple(port for part in self._parts.by_name.values() for port in _remembered(part))

    @cached_property
    def computed(self) -> frozenset[str]:
        """Those of the sampled states that are outputs which the parts compute: no run starts with
        them.
        """
        return frozenset(
            port.name for part in self._parts.by_name.values() for port in part.outputs
        )

    def initial(self, t: Any, x: Record, u: Record, p: Record) -> Values:
        start = self._parts.memories(t, x, u, p)
        memories = dict(start)
        for name in self._parts.wiring.evaluation_order:
            part, m = self._parts.by_name[name], self._parts.with_inputs(name, memories)
            states = slice(part.memory.x.start, part.memory.z.stop)
            evaluator = self._starting(part)
            memories[name] = initialize(evaluator, put(m, states, start[name][states]), t)
        return self._remember(memories)

    def _starting(self, part: WiredPart) -> Evaluator:
        """The functions with which a part starts."""
        return part.evaluator

    def update(self, t: Any, x: Record, u: Record, p: Record) -> Values:
        memories = self._parts.memories(t, x, u, p)
        before = dict(memories)
        for name in self._parts.wiring.stepping_order:
            part, m = (
                self._parts.by_name[name],
                self._parts.with_inputs(name, before if self._jacobi else memories),
            )
            memories[name] = self._advanced(part, m, t)
        return self._remember(memories)

    @property
    def simultaneous(self) -> bool:
        return self._jacobi

    def inner_blocks(self, memory: Memory) -> tuple[InnerBlock, ...]:
        parts = self._parts
        if not any(map(_has_own_step, parts.by_name.values())):
            return ()
        order = parts.wiring.stepping_order
        return tuple(self._inner_block(parts.by_name[name], memory, order) for name in order)

    def starting_order(self, memory: Memory) -> tuple[int, ...]:
        if not any(_has_own_start(one.memory) for one in self.inner_blocks(memory)):
            return ()
        wiring = self._parts.wiring
        return tuple(map(wiring.stepping_order.index, wiring.evaluation_order))

    def _inner_block(self, part: WiredPart, outer: Memory, order: tuple[str, ...]) -> InnerBlock:
        where, own = outer.where, part.memory.where
        constants = part.memory.start()
        for name, value in part.start.items():
            constants[own[name]] = np.ravel(value)
        known = [(place, name) for name, place in self._parts.places[part.name].items()]
        remembered = [
            (slice(where[p.name].start - outer.z.start, where[p.name].stop - outer.z.start), p.name)
            for p in _remembered(part)
        ]
        return InnerBlock(
            part.name,
            part.memory,
            part.method,
            part.h,
            constants,
            copies((to, where[name]) for to, name in known if name in where),
            tuple(self._wires_to(part, order)),
            copies((to, own[part.own_names[name]]) for to, name in remembered),
        )

    def _wires_to(self, part: WiredPart, order: tuple[str, ...]) -> Iterator[tuple[int, Copy]]:
        """What a part reads of others, by their numbers in the order."""
        own = part.memory.where
        for (a, y), (_, u), k, to, length in self._parts.wiring.wires_to(part.name):
            source = self._parts.by_name[a].memory.where[y]
            yield order.index(a), Copy(own[u].start + to, source.start + k, length)

    def by_graphs(self) -> Block:
        parts = self._parts
        return self._of(WiredParts(parts.wiring, parts.exposure, TracedEvaluator))

    def by_fixed_steps(self) -> Block:
        parts = self._parts
        return self._of(WiredParts(_with_fixed_steps(parts.wiring), parts.exposure))

    def _of(self, parts: WiredParts) -> "FusedSystem":
        """The same step of these parts."""
        made = copy(self)
        made._parts = parts
        made.__dict__.pop("sampled", None)  # which follows from the parts
        return made

    def structure(self) -> Block:
        return _Structure(self._parts, self.sample_time or 0.0, self._jacobi)

    def _advanced(self, part: WiredPart, m: Array, t: Any) -> Array:
        """The memory of a part after its step to the time t."""
        dt = self.sample_time
        assert dt is not None
        return advance(part.evaluator, m, t - dt, dt, part.method, part.h)

    def _remember(self, memories: Memories) -> Values:
        values: dict[str, Any] = {}
        for name, part in self._parts.by_name.items():
            values |= values_of(part, _remembered(part), memories[name])
        return values


class _Structure(FusedSystem):
    """The dependencies of a system in which the length of adaptive steps depends on all that a part
    knows.
    """

    def __init__(self, parts: WiredParts, dt: float, jacobi: bool):
        super().__init__(parts.wiring, dt, JACOBI if jacobi else GAUSS_SEIDEL)
        self._parts = parts

    def _starting(self, part: WiredPart) -> Evaluator:
        return _structure_of(part)

    def _advanced(self, part: WiredPart, m: Array, t: Any) -> Array:
        if not _has_own_step(part):
            return super()._advanced(part, m, t)
        for place in (part.memory.x, part.memory.s):
            m = put(m, place, m[place] + total(m))
        if part.memory.block.sample_time is not None:
            m = put(m, part.memory.z, _structure_of(part).update(m))
        return put_outputs(part.evaluator, put(m, 0, t))


def _has_own_step(part: WiredPart) -> bool:
    """Whether the step of a part is C of its own, for it chooses inner steps, its sample is written
    in C, or that is so of one of a system that is a part.
    """
    block = part.memory.block
    if isinstance(block, Composite):
        return bool(block.inner_blocks(part.memory))
    return isinstance(block, BlockInC) or chooses_steps(part.method, block)


def _has_own_start(memory: Memory) -> bool:
    """Whether what a block starts with is computed by C of its own."""
    block = memory.block
    if isinstance(block, Composite):
        return bool(block.starting_order(memory))
    return isinstance(block, WrittenBlock) and block.start_function is not None


def _structure_of(part: WiredPart) -> Evaluator:
    """The functions of a part that can be traced, for what depends on what."""
    block = part.memory.block
    if not isinstance(block, Composite | BlockInC):
        return part.evaluator
    return NumpyEvaluator(replace(part.memory, block=block.structure()))


def _with_fixed_steps(wiring: Wiring) -> Wiring:
    """The same with steps of RK4 of at most 1 ms for the parts that choose theirs."""
    parts = {}
    for name, part in wiring.parts.items():
        method, h = part.stepping
        if isinstance(method, Adaptive):
            part = replace(part, method=RK4, h=min(h, longest_step(RK4)))
        if isinstance(part.component, Composite):
            part = replace(part, component=part.component.by_fixed_steps())
        parts[name] = part
    return Wiring(parts, wiring.connections, wiring.merged)


def _remembered(part: WiredPart) -> tuple[Port, ...]:
    """What the system remembers of a part from step to step: its states and its outputs."""
    block = part.memory.block
    return (
        *part.renamed((*block.states, *block.sampled, *part.memory.steps)),
        *(replace(port, start=port.within(0.0)) for port in part.outputs),
    )
