"""Conversion of a system to one block: memory vectors and exposed ports of the parts."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any

import numpy as np

from rigidblocks.block.adaptive_methods import Method, memory_for
from rigidblocks.block.block import Block, Port, Record, StartRelation, Values, computed_outputs
from rigidblocks.block.evaluators import Evaluator
from rigidblocks.block.external_functions import PythonBlock
from rigidblocks.block.memory_layout import Memory
from rigidblocks.cosim.graph.part import combine_start_values, split_name
from rigidblocks.cosim.graph.wiring import Wiring
from rigidblocks.kernels.traced_evaluator import numpy_evaluator
from rigidblocks.spatial.spatial import Array


@dataclass(frozen=True)
class Exposure:
    """Selection of the ports that a combined block exposes, and their names.

    `names` maps ports `part.port` to their exposed names. A port in `names` is always exposed. Any
    other port is hidden if it matches a pattern in `hidden`. If `hidden` is None and `names` is not
    empty, all other ports are hidden.
    """

    names: Mapping[str, str] = field(default_factory=dict)
    hidden: tuple[str, ...] | None = None

    def name(self, port: str) -> str:
        """Return the exposed name of a port."""
        return self.names.get(port, port)

    def shows(self, port: str) -> bool:
        """Return True if a port is exposed."""
        if port in self.names:
            return True
        if self.hidden is None:
            return not self.names
        return not any(fnmatchcase(port, one) for one in self.hidden)

    def exposed_ports(self, part: str, ports: Iterable[Port]) -> tuple[Port, ...]:
        """Return the ports in `ports` that the system exposes."""
        return tuple(port for port in ports if self.shows(f"{part}.{port.name}"))


EVERYTHING = Exposure()


Memories = dict[str, Array]


@dataclass(frozen=True, eq=False)
class WiredPart:
    """Part of a system, used to convert the system to one block.

    Later changes of the system do not affect the object.

    Attributes:
        name: Name of the part.
        memory: Memory layout of the block.
        start: Start values by port name.
        method: Integration method.
        h: Longest inner step [s].
        exposure: Exposed ports and their names.
        evaluate: Function that creates the evaluator of the block functions for a memory layout.
        is_merged: True if the port names contain the names of the original parts.
    """

    name: str
    memory: Memory
    start: dict[str, Any]
    method: Method
    h: float
    exposure: Exposure = EVERYTHING
    evaluate: Callable[[Memory], Evaluator] = numpy_evaluator
    is_merged: bool = False  # True if the port names contain the names of original parts

    @cached_property
    def evaluator(self) -> Evaluator:
        """Evaluator of the block functions of the part."""
        return self.evaluate(self.memory)

    def rename_ports(self, ports: Iterable[Port]) -> tuple[Port, ...]:
        """Copy ports; the copies have the names in the system and the start values of the part."""
        return tuple(
            replace(
                port,
                name=self.name_in_system(port.name),
                start=self.start.get(port.name, port.start),
                rate=port.rate and self.name_in_system(port.rate),
            )
            for port in ports
        )

    def name_in_system(self, port: str) -> str:
        """Return the name of a port in the system."""
        return self.exposure.name(self._whole_name(port))

    def exposed_ports(self, ports: Iterable[Port]) -> tuple[Port, ...]:
        """Return the exposed ports with their names in the system."""
        shown = (port for port in ports if self.exposure.shows(self._whole_name(port.name)))
        return self.rename_ports(shown)

    def _whole_name(self, port: str) -> str:
        return port if self.is_merged else f"{self.name}.{port}"

    @property
    def start_relations(self) -> tuple[StartRelation, ...]:
        """Start relations of the block, with the names in the system.

        If the factor of a relation is a parameter that the system does not expose, the start value
        of the parameter replaces the name.
        """
        block, found = self.memory.block, list[StartRelation]()
        constants = {port.name: port.start for port in block.parameters} | self.start
        for state, factor, terms, offset in block.start_relations:
            scale = factor
            if isinstance(factor, str):
                is_shown = self.exposure.shows(self._whole_name(factor))
                scale = self.name_in_system(factor) if is_shown else float(constants[factor])
            named = tuple((self.name_in_system(name), k, weight) for name, k, weight in terms)
            found.append(StartRelation(self.name_in_system(state), scale, named, offset))
        return tuple(found)

    @cached_property
    def own_names(self) -> dict[str, str]:
        """Port names of the part, by port name in the system."""
        return {self.name_in_system(port): port for port in self.memory.where}

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """Computed outputs with their names in the system."""
        return self.rename_ports(computed_outputs(self.memory.block))


class WiredParts:
    """Parts of a system, each with its own memory vector, and the wiring between the parts.

    Raises:
        ValueError: A part is an FMU, an unconnected input has no start value, or an algebraic loop
            exists although the argument `loops` is False.
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
            _ = wiring.evaluation_order  # raises ValueError for an algebraic loop
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
        """Exposed unconnected inputs of the parts."""
        groups = (self.by_name[a].exposed_ports([port]) for a, port in self.wiring.open_inputs)
        return tuple(port for group in groups for port in group)

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """Exposed outputs of the parts."""
        return tuple(
            port
            for part in self.by_name.values()
            for port in part.exposed_ports(part.memory.block.outputs)
        )

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """Exposed parameters of the parts."""
        return tuple(
            port
            for part in self.by_name.values()
            for port in part.exposed_ports(part.memory.block.parameters)
        )

    @cached_property
    def conditions(self) -> tuple[tuple[str, str], ...]:
        """Names of the outputs with the condition number and rank of loop constraints, as pairs."""
        return tuple(
            (part.name_in_system(condition), part.name_in_system(rank))
            for part in self.by_name.values()
            for condition, rank in part.memory.block.conditions
        )

    def memories(self, t: Any, x: Record, u: Record, p: Record) -> Memories:
        """Return the memory vector of each part at the time t [s], from records of the system.

        The records contain the states x, the inputs u and the parameters p. The connected inputs of
        the parts are not set.
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
        """Slices of the ports in the memory vector of each part, as `places[part][port]`.

        The port names are the names in the system. If only some elements of an input are connected,
        each unconnected element also has its own slice and name.
        """
        return {name: self._places(name) for name in self.by_name}

    def _places(self, name: str) -> dict[str, slice]:
        owner = self.by_name[name]
        where = owner.memory.where
        places = {owner.name_in_system(port): place for port, place in where.items()}
        for part, port in self.wiring.open_inputs:
            if part == name and port.name not in where:
                array, _ = split_name(port.name)
                of = self.wiring.parts[name].input(array)
                k = where[array].start + of.element_names.index(port.name)
                places[owner.name_in_system(port.name)] = slice(k, k + 1)
        return places

    def read_inputs(self, name: str, memories: Memories) -> Array:
        """Return a copy of the memory vector of the part `name`, with updated connected inputs.

        The input values are copied from the outputs in `memories`.
        """
        m = memories[name].copy()
        where = self.by_name[name].memory.where
        for (a, y), (_, u), start, to, length in self.wiring.wires_to(name):
            source, target = self.by_name[a].memory.where[y].start + start, where[u].start + to
            m[target : target + length] = memories[a][source : source + length]
        return m


class PortsOfParts:
    """Mixin class for blocks that consist of several parts; it provides the exposed ports."""

    _parts: WiredParts

    def dependent_start_values(self, start: Mapping[str, Any]) -> dict[str, Any]:
        """Return the start values that the parts compute from `start`, by name in the system."""
        found = dict[str, Any]()
        for part in self._parts.by_name.values():
            own = {own: start[name] for name, own in part.own_names.items() if name in start}
            dependent = part.memory.block.dependent_start_values(own).keys() - own.keys()
            if dependent:
                union = combine_start_values(part.memory.block, part.start, own)
                found |= {part.name_in_system(name): union[name] for name in dependent}
        return found

    @property
    def start_relations(self) -> tuple[StartRelation, ...]:
        """Start relations of the parts, with the names in the system."""
        return tuple(
            relation for part in self._parts.by_name.values() for relation in part.start_relations
        )

    @property
    def parts(self) -> Mapping[str, WiredPart]:
        """Parts by name."""
        return self._parts.by_name

    @property
    def inputs(self) -> tuple[Port, ...]:
        """Exposed unconnected inputs of the parts."""
        return self._parts.inputs

    @property
    def outputs(self) -> tuple[Port, ...]:
        """Exposed outputs of the parts."""
        return self._parts.outputs

    @property
    def parameters(self) -> tuple[Port, ...]:
        """Exposed parameters of the parts."""
        return self._parts.parameters

    @property
    def conditions(self) -> tuple[tuple[str, str], ...]:
        """Names of the outputs with the condition number and rank of loop constraints, as pairs."""
        return self._parts.conditions


def values_of(part: WiredPart, ports: Iterable[Port], m: Array) -> Values:
    """Read ports from the memory vector of a part; return the values by port name in the system."""
    own = part.own_names
    flats = {port: m[part.memory.where[own[port.name]]] for port in ports}
    return {
        port.name: flat.reshape(port.shape) if port.shape else flat[0]
        for port, flat in flats.items()
    }


def _memory(part: WiredPart, places: dict[str, slice], t: Any, known: Values, dtype: type) -> Array:
    m: Array = part.memory.start().astype(dtype)
    m[0] = t
    for own, value in part.start.items():  # for hidden ports, which are not in the system's records
        m[part.memory.where[own]] = np.ravel(value)
    for name, where in places.items():
        if (value := known.get(name)) is not None:
            m[where] = np.ravel(value)
    return m
