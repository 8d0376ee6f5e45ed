"""Conversion of a system to one sampled block, whose update is a communication step."""

from collections.abc import Iterator
from copy import copy
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from rigidblocks.block.adaptive_methods import Adaptive, chooses_steps, longest_step
from rigidblocks.block.block import Block, Port, Record, Values
from rigidblocks.block.evaluators import Evaluator, NumpyEvaluator
from rigidblocks.block.external_functions import BlockInC, WrittenBlock
from rigidblocks.block.integrators import RK4
from rigidblocks.block.memory_layout import Memory, assign
from rigidblocks.block.nested_blocks import Composite, Copy, InnerBlock, copies, total
from rigidblocks.block.stepper import advance, fits_sample_time, initialize, put_outputs
from rigidblocks.cosim.graph.block_merging import (
    eliminate_algebraic_loops,
    merge_synchronous_blocks,
)
from rigidblocks.cosim.graph.combined_memory import (
    Memories,
    PortsOfParts,
    WiredPart,
    WiredParts,
    values_of,
)
from rigidblocks.cosim.graph.system import System, wiring_and_exposure
from rigidblocks.cosim.graph.wiring import Wiring, check_start
from rigidblocks.kernels.traced_evaluator import TracedEvaluator
from rigidblocks.spatial.spatial import Array

GAUSS_SEIDEL = "gauss-seidel"
JACOBI = "jacobi"
ORDERS = (GAUSS_SEIDEL, JACOBI)


class FusedSystem(PortsOfParts, Composite):
    """Sampled block that represents a system; its update is a communication step of `dt` [s].

    All states and outputs of the parts are sampled states of the block, with the names `part.port`.
    The block also contains the unconnected inputs and the parameters of the parts. `System.expose`
    selects and renames these ports. The evaluation order `order` is "gauss-seidel" or "jacobi". The
    results equal the results of `simulate` with the same `dt` and `order`. Continuous blocks in an
    algebraic loop form one part, which solves the loop (`ContinuousSystem`). The block copies the
    system, so later changes of the system do not affect the block.

    Raises ValueError if a part is an FMU or has its own communication step, or if an unconnected
    input has no start value. Also raises ValueError if an algebraic loop goes through a sampled
    part or exists at initialization.
    """

    def __init__(self, system: System | Wiring, dt: float, order: str = GAUSS_SEIDEL):
        if order not in ORDERS:
            raise ValueError(f"order must be one of {', '.join(ORDERS)}, not '{order}'")
        self.sample_time = dt
        self._jacobi = order == JACOBI
        wiring, exposure = wiring_and_exposure(system)
        for name, part in wiring.parts.items():
            if part.dt not in (None, dt):
                raise ValueError(
                    f"'{name}' has its own communication step, dt={part.dt:g}, which a FusedSystem "
                    f"with the step {dt:g} s does not support; leave out dt, or use the form "
                    "compiled or numpy"
                )
        self._parts = WiredParts(
            merge_synchronous_blocks(eliminate_algebraic_loops(wiring)), exposure
        )
        check_start(
            self._parts.wiring, ", or use the form compiled or numpy, which solves the loop"
        )

    @cached_property
    def sampled(self) -> tuple[Port, ...]:
        """States and computed outputs of the parts."""
        return tuple(port for part in self._parts.by_name.values() for port in _stored_ports(part))

    @cached_property
    def computed(self) -> frozenset[str]:
        """Names of the sampled states that store computed outputs and need no start values."""
        return frozenset(
            port.name for part in self._parts.by_name.values() for port in part.outputs
        )

    def initial(self, t: Any, x: Record, u: Record, p: Record) -> Values:
        start = self._parts.memories(t, x, u, p)
        memories = dict(start)
        for name in self._parts.wiring.initialization_order:
            part, m = self._parts.by_name[name], self._parts.read_inputs(name, memories)
            states = slice(part.memory.x.start, part.memory.z.stop)
            evaluator = self._initial_evaluator(part)
            memories[name] = initialize(evaluator, assign(m, states, start[name][states]), t)
        return self._remember(memories)

    def _initial_evaluator(self, part: WiredPart) -> Evaluator:
        """Return the evaluator for the initial outputs and initial sampled states of a part."""
        return part.evaluator

    def update(self, t: Any, x: Record, u: Record, p: Record) -> Values:
        memories = self._parts.memories(t, x, u, p)
        before = dict(memories)
        for name in self._parts.wiring.stepping_order:
            part, m = (
                self._parts.by_name[name],
                self._parts.read_inputs(name, before if self._jacobi else memories),
            )
            memories[name] = self._advance_part(part, m, t)
        return self._remember(memories)

    @property
    def simultaneous(self) -> bool:
        return self._jacobi

    def inner_blocks(self, memory: Memory) -> tuple[InnerBlock, ...]:
        parts = self._parts
        if not any(map(self._has_own_step, parts.by_name.values())):
            return ()
        order = parts.wiring.stepping_order
        return tuple(self._inner_block(parts.by_name[name], memory, order) for name in order)

    def has_own_step(self, name: str) -> bool:
        """Return True if the tracer cannot trace the steps of the part `name`."""
        return self._has_own_step(self._parts.by_name[name])

    def starting_order(self, memory: Memory) -> tuple[int, ...]:
        if not any(_has_own_start(one.memory) for one in self.inner_blocks(memory)):
            return ()
        wiring = self._parts.wiring
        return tuple(map(wiring.stepping_order.index, wiring.initialization_order))

    def _inner_block(self, part: WiredPart, outer: Memory, order: tuple[str, ...]) -> InnerBlock:
        where, own = outer.where, part.memory.where
        constants = part.memory.start()
        for name, value in part.start.items():
            constants[own[name]] = np.ravel(value)
        known = [(place, name) for name, place in self._parts.places[part.name].items()]
        remembered = [
            (slice(where[p.name].start - outer.z.start, where[p.name].stop - outer.z.start), p.name)
            for p in _stored_ports(part)
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
        """Yield the copy operations from outputs of other parts to the inputs of a part.

        Each item contains the index of the source part in `order`, and the copy operation.
        """
        own = part.memory.where
        for (a, y), (_, u), k, to, length in self._parts.wiring.wires_to(part.name):
            source = self._parts.by_name[a].memory.where[y]
            yield order.index(a), Copy(own[u].start + to, source.start + k, length)

    def traced_copy(self) -> Block:
        parts = self._parts
        return self._copy_with_parts(WiredParts(parts.wiring, parts.exposure, TracedEvaluator))

    def fixed_step_copy(self) -> Block:
        parts = self._parts
        return self._copy_with_parts(
            WiredParts(_replace_adaptive_methods(parts.wiring), parts.exposure)
        )

    def _copy_with_parts(self, parts: WiredParts) -> "FusedSystem":
        """Return a copy of this block with other parts."""
        made = copy(self)
        made._parts = parts
        made.__dict__.pop("sampled", None)  # remove the cached value, which has the old parts
        return made

    def structure(self) -> Block:
        return _Structure(self._parts, self.sample_time or 0.0, self._jacobi)

    def _advance_part(self, part: WiredPart, m: Array, t: Any) -> Array:
        """Return the memory vector of a part after its communication step up to the time t [s]."""
        dt = self.sample_time
        assert dt is not None
        return advance(part.evaluator, m, t - dt, dt, part.method, part.h)

    def _has_own_step(self, part: WiredPart) -> bool:
        """Return True if the tracer cannot trace the step of a part.

        Separate C functions then execute the step. This applies to:

        - a part with an adaptive method,
        - a part whose update is written in C,
        - a part whose sample time is neither a multiple nor a divisor of dt,
        - a part that is a system and contains such a part.
        """
        block, dt = part.memory.block, self.sample_time
        assert dt is not None
        if isinstance(block, BlockInC) or chooses_steps(part.method, block):
            return True
        if isinstance(block, Composite) and block.inner_blocks(part.memory):
            return True
        return not fits_sample_time(block.sample_time, dt)

    def _remember(self, memories: Memories) -> Values:
        values: dict[str, Any] = {}
        for name, part in self._parts.by_name.items():
            values |= values_of(part, _stored_ports(part), memories[name])
        return values


class _Structure(FusedSystem):
    """Traceable replacement for a fused system, used only to determine variable dependencies.

    The tracer cannot trace the steps of some parts (`_has_own_step`). In the replacement, each
    state of such a part depends on the whole memory vector of the part.
    """

    def __init__(self, parts: WiredParts, dt: float, jacobi: bool):
        super().__init__(parts.wiring, dt, JACOBI if jacobi else GAUSS_SEIDEL)
        self._parts = parts

    def _initial_evaluator(self, part: WiredPart) -> Evaluator:
        return _structure_of(part)

    def _advance_part(self, part: WiredPart, m: Array, t: Any) -> Array:
        if not self._has_own_step(part):
            return super()._advance_part(part, m, t)
        for place in (part.memory.x, part.memory.s):
            m = assign(m, place, m[place] + total(m))
        if part.memory.block.sample_time is not None:
            m = assign(m, part.memory.z, _structure_of(part).update(m))
        return put_outputs(part.evaluator, assign(m, 0, t))


def _has_own_start(memory: Memory) -> bool:
    """Return True if separate C code computes the start values of a block."""
    block = memory.block
    if isinstance(block, Composite):
        return bool(block.starting_order(memory))
    return isinstance(block, WrittenBlock) and block.start_function is not None


def _structure_of(part: WiredPart) -> Evaluator:
    """Return a traceable evaluator with the same variable dependencies as the block of a part."""
    block = part.memory.block
    if not isinstance(block, Composite | BlockInC):
        return part.evaluator
    return NumpyEvaluator(replace(part.memory, block=block.structure()))


def _replace_adaptive_methods(wiring: Wiring) -> Wiring:
    """Return a wiring with RK4 and steps of at most 1 ms in place of adaptive methods."""
    parts = {}
    for name, part in wiring.parts.items():
        method, h = part.stepping
        if isinstance(method, Adaptive):
            part = replace(part, method=RK4, h=min(h, longest_step(RK4)))
        if isinstance(part.component, Composite):
            part = replace(part, component=part.component.fixed_step_copy())
        parts[name] = part
    return Wiring(parts, wiring.connections, wiring.merged)


def _stored_ports(part: WiredPart) -> tuple[Port, ...]:
    """Return the states and outputs of a part that the system stores between steps."""
    block = part.memory.block
    return (
        *part.rename_ports((*block.states, *block.sampled, *part.memory.steps)),
        *(replace(port, start=port.clip(0.0)) for port in part.outputs),
    )
