"""A system as one block: the whole co-simulation step, its wiring and its masters' order included, as a pure function."""

from dataclasses import replace
from functools import cached_property
from types import SimpleNamespace
from typing import Any

from rigidblocks.block import Block, Port, Values
from rigidblocks.system import System
from rigidblocks.wired import Memories, WiredPart, WiredParts, values_of

GAUSS_SEIDEL = "gauss-seidel"
JACOBI = "jacobi"
ORDERS = (GAUSS_SEIDEL, JACOBI)


class FusedSystem(Block):
    """A system that takes its co-simulation steps of `dt` as one sampled block.

    All states and outputs of the parts are sampled states called `part.port`; the open inputs and the parameters of the
    parts are those of the system. The numbers are those of `simulate` with the same `dt` and `order`. The system is
    copied: later changes of it have no effect.

    Raises ValueError for an FMU among the parts, an algebraic loop, or an open input without a start value.
    """

    def __init__(self, system: System, dt: float, order: str = GAUSS_SEIDEL):
        if order not in ORDERS:
            raise ValueError(f"order must be one of {', '.join(ORDERS)}, not '{order}'")
        self.sample_time = dt
        self._jacobi = order == JACOBI
        self._evaluation_order, self._stepping_order = system.evaluation_order(), system.stepping_order()
        self._parts = WiredParts(system)

    @property
    def inputs(self) -> tuple[Port, ...]:
        """The open inputs of the parts."""
        return self._parts.inputs

    @property
    def outputs(self) -> tuple[Port, ...]:
        """The outputs of the parts."""
        return self._parts.outputs

    @cached_property
    def sampled(self) -> tuple[Port, ...]:
        """The states and computed outputs of the parts."""
        return tuple(port for part in self._parts.by_name.values() for port in _remembered(part))

    @property
    def parameters(self) -> tuple[Port, ...]:
        """The parameters of the parts."""
        return self._parts.parameters

    def initial(self, t: Any, x: SimpleNamespace, u: SimpleNamespace, p: SimpleNamespace) -> Values:
        start = self._parts.memories(t, x, u, p)
        memories = dict(start)
        for name in self._evaluation_order:
            flat, m = self._parts.by_name[name].flat, self._parts.with_inputs(name, memories)
            m[flat.x.start : flat.z.stop] = start[name][flat.x.start : flat.z.stop]
            memories[name] = flat.initialized(m, t)
        return self._remember(memories)

    def update(self, t: Any, x: SimpleNamespace, u: SimpleNamespace, p: SimpleNamespace) -> Values:
        assert self.sample_time is not None
        memories = self._parts.memories(t, x, u, p)
        before = dict(memories)
        for name in self._stepping_order:
            part, m = self._parts.by_name[name], self._parts.with_inputs(name, before if self._jacobi else memories)
            memories[name] = part.flat.advanced(m, t - self.sample_time, self.sample_time, part.method, part.h)
        return self._remember(memories)

    def _remember(self, memories: Memories) -> Values:
        values: dict[str, Any] = {}
        for name, part in self._parts.by_name.items():
            values |= values_of(part, _remembered(part), memories[name])
        return values


def _remembered(part: WiredPart) -> tuple[Port, ...]:
    """What the system remembers of a part from step to step: its states and its outputs."""
    block = part.flat.block
    return (
        *part.renamed((*block.states, *block.sampled)),
        *(replace(port, start=port.within(0.0)) for port in part.outputs),
    )
