"""A system as one block: the whole co-simulation step, its wiring and its masters' order included, as a pure function."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from types import SimpleNamespace
from typing import Any

import numpy as np

from rigidblocks.block import Block, Port, Values, computed_outputs
from rigidblocks.flat import FlatBlock
from rigidblocks.integrate import Integrator
from rigidblocks.spatial import Array
from rigidblocks.system import System

GAUSS_SEIDEL = "gauss-seidel"
JACOBI = "jacobi"
ORDERS = (GAUSS_SEIDEL, JACOBI)


@dataclass(frozen=True, eq=False)
class _FusedPart:
    """A part as it was when the system was fused."""

    name: str
    flat: FlatBlock
    start: dict[str, Any]
    method: Integrator
    h: float

    def renamed(self, ports: Iterable[Port]) -> tuple[Port, ...]:
        """The ports under the names that they have in the system, with the part's start values."""
        return tuple(
            replace(port, name=f"{self.name}.{port.name}", start=self.start.get(port.name, port.start), rate=None)
            for port in ports
        )

    @cached_property
    def remembered(self) -> tuple[Port, ...]:
        """What the system remembers of the part from step to step: its states and its outputs."""
        outputs = tuple(replace(port, start=0.0) for port in computed_outputs(self.flat.block))
        return self.renamed((*self.flat.block.states, *self.flat.block.sampled, *outputs))


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
        self._sources = dict(system.sources)
        self._evaluation_order, self._stepping_order = system.evaluation_order(), system.stepping_order()
        self._open = [(name, port.name) for name, port in system.open_inputs()]
        self._parts: dict[str, _FusedPart] = {}
        for name, part in sorted(system.parts.items()):
            if not isinstance(part.component, Block):
                raise ValueError(f"cannot fuse the system: '{name}' is an FMU file, and only blocks can be traced")
            self._parts[name] = _FusedPart(name, FlatBlock(part.component), dict(part.start), part.method, part.h)

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """The open inputs of the parts."""
        ports = (self._parts[a].renamed(p for p in self._parts[a].flat.block.inputs if p.name == u) for a, u in self._open)
        return tuple(port for group in ports for port in group)

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """The outputs of the parts."""
        return tuple(port for part in self._parts.values() for port in part.renamed(part.flat.block.outputs))

    @cached_property
    def sampled(self) -> tuple[Port, ...]:
        """The states and computed outputs of the parts."""
        return tuple(port for part in self._parts.values() for port in part.remembered)

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """The parameters of the parts."""
        return tuple(port for part in self._parts.values() for port in part.renamed(part.flat.block.parameters))

    def initial(self, t: Any, x: SimpleNamespace, u: SimpleNamespace, p: SimpleNamespace) -> Values:
        memories = self._memories(x, u, p)
        for name in self._evaluation_order:
            part, m = self._parts[name], self._with_inputs(name, memories)
            m[part.flat.x.start : part.flat.z.stop] = self._memory(part, x, u, p)[part.flat.x.start : part.flat.z.stop]
            memories[name] = part.flat.initialized(m, t)
        return self._remember(memories)

    def update(self, t: Any, x: SimpleNamespace, u: SimpleNamespace, p: SimpleNamespace) -> Values:
        assert self.sample_time is not None
        memories = self._memories(x, u, p)
        before = dict(memories)
        for name in self._stepping_order:
            part, m = self._parts[name], self._with_inputs(name, before if self._jacobi else memories)
            memories[name] = part.flat.advanced(m, t - self.sample_time, self.sample_time, part.method, part.h)
        return self._remember(memories)

    def _memories(self, x: SimpleNamespace, u: SimpleNamespace, p: SimpleNamespace) -> dict[str, Array]:
        return {name: self._memory(part, x, u, p) for name, part in self._parts.items()}

    def _memory(self, part: _FusedPart, x: SimpleNamespace, u: SimpleNamespace, p: SimpleNamespace) -> Array:
        """The flat memory of a part from the records of the system; its connected inputs are left at their start."""
        known = {**vars(x), **vars(u), **vars(p)}
        m = part.flat.start().astype(object)
        for name, where in part.flat.where.items():
            if (value := known.get(f"{part.name}.{name}")) is not None:
                m[where] = np.ravel(value)
        return m if any(np.asarray(value).dtype == object for value in known.values()) else m.astype(float)

    def _with_inputs(self, name: str, memories: dict[str, Array]) -> Array:
        """A copy of a part's memory with its connected inputs read from their sources."""
        m = memories[name].copy()
        for (b, u), (a, y) in self._sources.items():
            if b == name:
                m[self._parts[b].flat.where[u]] = memories[a][self._parts[a].flat.where[y]]
        return m

    def _remember(self, memories: dict[str, Array]) -> Values:
        values = {}
        for name, part in self._parts.items():
            for port in part.remembered:
                flat = memories[name][part.flat.where[port.name.removeprefix(f"{name}.")]]
                values[port.name] = flat.reshape(port.shape) if port.shape else flat[0]
        return values
