"""The parts of a system as blocks with a memory each, for the blocks that a whole system is made
into.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.block.adaptive import Method, memory_for
from rigidblocks.block.block import Block, Port, Record, Values, computed_outputs
from rigidblocks.block.evaluate import Evaluator
from rigidblocks.block.memory import Memory
from rigidblocks.block.python_block import PythonBlock
from rigidblocks.kernels.evaluator import numpy_evaluator
from rigidblocks.system.exposure import EVERYTHING, Exposure
from rigidblocks.system.selection import split
from rigidblocks.system.wiring import Wiring

Memories = dict[str, Array]


@dataclass(frozen=True, eq=False)
class WiredPart:
    """A part as it was when the system was made a block."""

    name: str
    memory: Memory
    start: dict[str, Any]
    method: Method
    h: float
    exposure: Exposure = EVERYTHING
    evaluate: Callable[[Memory], Evaluator] = numpy_evaluator
    is_merged: bool = False  # its ports are called as those of the parts that it is made of

    @cached_property
    def evaluator(self) -> Evaluator:
        """The functions of the block."""
        return self.evaluate(self.memory)

    def renamed(self, ports: Iterable[Port]) -> tuple[Port, ...]:
        """The ports under the names that they have in the system, with the part's start values."""
        return tuple(
            replace(
                port,
                name=self.shown_as(port.name),
                start=self.start.get(port.name, port.start),
                rate=port.rate and self.shown_as(port.rate),
            )
            for port in ports
        )

    def shown_as(self, port: str) -> str:
        """The name of a port in the system."""
        return self.exposure.name(self._whole_name(port))

    def shown(self, ports: Iterable[Port]) -> tuple[Port, ...]:
        """Those of some of its ports that are shown, under the names that they have there."""
        shown = (port for port in ports if self.exposure.shows(self._whole_name(port.name)))
        return self.renamed(shown)

    def _whole_name(self, port: str) -> str:
        return port if self.is_merged else f"{self.name}.{port}"

    @cached_property
    def own_names(self) -> dict[str, str]:
        """The names that the ports have in the part by those in the system."""
        return {self.shown_as(port): port for port in self.memory.where}

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """The computed outputs under the names that they have in the system."""
        return self.renamed(computed_outputs(self.memory.block))


class WiredParts:
    """The parts of a system, each with a flat memory of its own, and what feeds what.

    Raises ValueError for an FMU among the parts, for an open input without a start value, and,
    unless they may have `loops`, for an algebraic one.
    """

    def __init__(
        self,
        wiring: Wiring,
        exposure: Exposure = EVERYTHING,
        evaluate: Callable[[Memory], Evaluator] = numpy_evaluator,
        loops: bool = False,
    ):
        self.wiring, self.exposure = wiring, exposure
        self.has_loops = loops and wiring.has_loops
        if not self.has_loops:
            _ = wiring.evaluation_order  # raises for an algebraic loop
        self.by_name: dict[str, WiredPart] = {}
        for name, part in sorted(wiring.parts.items()):
            if not isinstance(part.component, Block):
                raise ValueError(
                    f"cannot make the system a block: '{name}' is an FMU file, and only blocks can "
                    "be traced"
                )
            if isinstance(part.component, PythonBlock):
                raise ValueError(
                    f"cannot make the system a block: '{name}': {part.component.refusal()}"
                )
            method, h = part.stepping
            memory = memory_for(part.component, method)
            start = dict(part.start)
            how = method, h, exposure, evaluate, name in wiring.merged
            self.by_name[name] = WiredPart(name, memory, start, *how)

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """The open inputs of the parts that are shown."""
        groups = (self.by_name[a].shown([port]) for a, port in self.wiring.open_inputs)
        return tuple(port for group in groups for port in group)

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """The outputs of the parts that are shown."""
        return tuple(
            port for part in self.by_name.values() for port in part.shown(part.memory.block.outputs)
        )

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """The parameters of the parts that are shown."""
        return tuple(
            port
            for part in self.by_name.values()
            for port in part.shown(part.memory.block.parameters)
        )

    @cached_property
    def conditions(self) -> tuple[tuple[str, str], ...]:
        """The conditions and ranks of the parts (`Block.conditions`)."""
        return tuple(
            (part.shown_as(condition), part.shown_as(rank))
            for part in self.by_name.values()
            for condition, rank in part.memory.block.conditions
        )

    def memories(self, t: Any, x: Record, u: Record, p: Record) -> Memories:
        """The flat memory of each part from the time and the records of the system; connected
        inputs are not yet read.
        """
        known = {**vars(x), **vars(u), **vars(p)}
        dtype = (
            object
            if any(np.asarray(value).dtype == object for value in (t, *known.values()))
            else float
        )
        return {
            name: _memory(part, self.places[name], t, known, dtype)
            for name, part in self.by_name.items()
        }

    @cached_property
    def places(self) -> dict[str, dict[str, slice]]:
        """Where in each part's memory is what the system knows by a name: its ports, and the
        elements of an input that is open in part.
        """
        return {name: self._places(name) for name in self.by_name}

    def _places(self, name: str) -> dict[str, slice]:
        owner = self.by_name[name]
        where = owner.memory.where
        places = {owner.shown_as(port): place for port, place in where.items()}
        for part, port in self.wiring.open_inputs:
            if part == name and port.name not in where:
                array, _ = split(port.name)
                of = self.wiring.parts[name].input(array)
                k = where[array].start + of.element_names.index(port.name)
                places[owner.shown_as(port.name)] = slice(k, k + 1)
        return places

    def with_inputs(self, name: str, memories: Memories) -> Array:
        """A copy of a part's memory with its connected inputs read from their sources."""
        m = memories[name].copy()
        where = self.by_name[name].memory.where
        for (a, y), (_, u), start, to, length in self.wiring.wires_to(name):
            source, target = self.by_name[a].memory.where[y].start + start, where[u].start + to
            m[target : target + length] = memories[a][source : source + length]
        return m


class PortsOfParts:
    """What a block that is made of `_parts` shows of them."""

    _parts: WiredParts

    @property
    def parts(self) -> Mapping[str, WiredPart]:
        """The parts by name."""
        return self._parts.by_name

    @property
    def inputs(self) -> tuple[Port, ...]:
        """The open inputs of the parts."""
        return self._parts.inputs

    @property
    def outputs(self) -> tuple[Port, ...]:
        """The outputs of the parts."""
        return self._parts.outputs

    @property
    def parameters(self) -> tuple[Port, ...]:
        """The parameters of the parts."""
        return self._parts.parameters

    @property
    def conditions(self) -> tuple[tuple[str, str], ...]:
        """The conditions of the parts."""
        return self._parts.conditions


def values_of(part: WiredPart, ports: Iterable[Port], m: Array) -> Values:
    """The values in a part's memory of some of its ports, which have the names of the system."""
    own = part.own_names
    flats = {port: m[part.memory.where[own[port.name]]] for port in ports}
    return {
        port.name: flat.reshape(port.shape) if port.shape else flat[0]
        for port, flat in flats.items()
    }


def _memory(part: WiredPart, places: dict[str, slice], t: Any, known: Values, dtype: type) -> Array:
    m: Array = part.memory.start().astype(dtype)
    m[0] = t
    for own, value in part.start.items():  # of what is hidden, which is not known to the system
        m[part.memory.where[own]] = np.ravel(value)
    for name, where in places.items():
        if (value := known.get(name)) is not None:
            m[where] = np.ravel(value)
    return m
