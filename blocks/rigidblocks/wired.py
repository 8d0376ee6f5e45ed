"""The wiring of a system as data, for the blocks that a whole system is made into."""

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

Memories = dict[str, Array]


@dataclass(frozen=True, eq=False)
class WiredPart:
    """A part as it was when the system was made a block."""

    name: str
    flat: FlatBlock
    start: dict[str, Any]
    method: Integrator
    h: float

    def renamed(self, ports: Iterable[Port]) -> tuple[Port, ...]:
        """The ports under the names that they have in the system, with the part's start values."""
        return tuple(
            replace(
                port,
                name=f"{self.name}.{port.name}",
                start=self.start.get(port.name, port.start),
                rate=port.rate and f"{self.name}.{port.rate}",
            )
            for port in ports
        )

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """The computed outputs under the names that they have in the system."""
        return self.renamed(computed_outputs(self.flat.block))


class WiredParts:
    """The parts of a system, each with a flat memory of its own, and what feeds what.

    The system is copied: later changes of it have no effect. Raises ValueError for an FMU among the parts, and for an
    open input without a start value.
    """

    def __init__(self, system: System):
        self.sources = dict(system.sources)
        self.open = [(name, port.name) for name, port in system.open_inputs()]
        self.by_name: dict[str, WiredPart] = {}
        for name, part in sorted(system.parts.items()):
            if not isinstance(part.component, Block):
                raise ValueError(f"cannot make the system a block: '{name}' is an FMU file, and only blocks can be traced")
            self.by_name[name] = WiredPart(name, FlatBlock(part.component), dict(part.start), part.method, part.h)

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """The open inputs of the parts."""
        blocks = {name: part.flat.block for name, part in self.by_name.items()}
        groups = (self.by_name[a].renamed(port for port in blocks[a].inputs if port.name == u) for a, u in self.open)
        return tuple(port for group in groups for port in group)

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """The outputs of the parts."""
        return tuple(port for part in self.by_name.values() for port in part.renamed(part.flat.block.outputs))

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """The parameters of the parts."""
        return tuple(port for part in self.by_name.values() for port in part.renamed(part.flat.block.parameters))

    def memories(self, t: Any, x: SimpleNamespace, u: SimpleNamespace, p: SimpleNamespace) -> Memories:
        """The flat memory of each part from the time and the records of the system; connected inputs are not yet read."""
        known = {**vars(x), **vars(u), **vars(p)}
        dtype = object if any(np.asarray(value).dtype == object for value in (t, *known.values())) else float
        return {name: _memory(part, t, known, dtype) for name, part in self.by_name.items()}

    def with_inputs(self, name: str, memories: Memories) -> Array:
        """A copy of a part's memory with its connected inputs read from their sources."""
        m = memories[name].copy()
        for (b, u), (a, y) in self.sources.items():
            if b == name:
                m[self.by_name[b].flat.where[u]] = memories[a][self.by_name[a].flat.where[y]]
        return m


def values_of(part: WiredPart, ports: Iterable[Port], m: Array) -> Values:
    """The values in a part's memory of some of its ports, which have the names of the system."""
    flats = {port: m[part.flat.where[port.name.removeprefix(f"{part.name}.")]] for port in ports}
    return {port.name: flat.reshape(port.shape) if port.shape else flat[0] for port, flat in flats.items()}


def _memory(part: WiredPart, t: Any, known: Values, dtype: type) -> Array:
    m: Array = part.flat.start().astype(dtype)
    m[0] = t
    for name, where in part.flat.where.items():
        if (value := known.get(f"{part.name}.{name}")) is not None:
            m[where] = np.ravel(value)
    return m
