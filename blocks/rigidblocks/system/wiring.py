"""What is wired to what in a system, at one moment, and the orders that follow from it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from rigidblocks.block.adaptive import Method
from rigidblocks.block.block import Block, Port
from rigidblocks.block.quantities import Conversion
from rigidblocks.block.record import near
from rigidblocks.explained import explained
from rigidblocks.system.part import Part, element_feedthrough, name_list, start_values
from rigidblocks.system.selection import converted, element_port, split

Reads = dict[tuple[Any, ...], set[tuple[Any, ...]]]  # (part, kind, port), or an element of a port
PartPort = tuple[str, str]


class Connection(NamedTuple):
    """From the elements `start` of an output (part, port) to the elements `to` of an input (part,
    port), places in C order; `names` are both as they were given.
    """

    source: PartPort
    target: PartPort
    start: tuple[int, ...]
    to: tuple[int, ...]
    names: tuple[str, str]
    conversion: Conversion | None = None


class Wire(NamedTuple):
    """`length` elements from the place `start` of an output (part, port) on, to the place `to` of
    an input (part, port) on.
    """

    source: PartPort
    target: PartPort
    start: int
    to: int
    length: int


@dataclass(frozen=True, eq=False)
class Wiring:
    """The parts of a system and their connections as they are when it is made; what follows from
    them is found once for all who share it.

    No element of an input is in two of the `connections`. The ports of `merged` parts have the
    names of parts in theirs.
    """

    parts: Mapping[str, Part]
    connections: tuple[Connection, ...] = ()
    merged: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", MappingProxyType(dict(self.parts)))

    def __reduce__(self) -> tuple[type["Wiring"], tuple[Any, ...]]:
        return Wiring, (
            dict(self.parts),
            self.connections,
            self.merged,
        )  # a proxy cannot be pickled

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """All outputs of the parts, each named `part.port`."""
        return tuple(
            replace(port, name=self.whole_name(name, port.name))
            for name, part in self.parts.items()
            for port in part.component.outputs
        )

    def whole_name(self, part: str, port: str) -> str:
        """The name `part.port` of a port."""
        return port if part in self.merged else f"{part}.{port}"

    def located(self, name: str) -> tuple[str, str]:
        """The part, and its port with what is in brackets behind it, of a name such as `pd.kp[1]`;
        of what is no such name that before and behind the first dot.
        """
        owner = self._owners.get(split(name)[0])
        part, _, port = name.partition(".")
        return (part, port) if owner is None else (owner, name)

    @cached_property
    def _owners(self) -> dict[str, str]:
        """The merged parts by the names of their ports."""
        return {port: name for name in self.merged for port in self.parts[name].ports}

    @cached_property
    def wires(self) -> tuple[Wire, ...]:
        """The connections as runs of elements that lie side by side on both ends."""
        return tuple(wire for connection in self.connections for wire in _runs(connection))

    def wires_to(self, part: str) -> Iterator[Wire]:
        """The wires to the inputs of a part."""
        return (wire for wire in self.wires if wire.target[0] == part)

    def conversion(self, wire: Wire) -> Conversion | None:
        """How the values on a wire are converted to the units of the input; None where they stay
        as they are, as between blocks they always do.
        """
        (a, y), (b, u), start, to, n = wire
        for one in self.connections:
            if one.conversion is not None and one.target == wire.target and to in one.to:
                k = one.to.index(to)
                return _unless_same(one.conversion, slice(k, k + n))
        output, target = self.parts[a].output(y), self.parts[b].input(u)
        return converted(output, range(start, start + n), target, range(to, to + n))

    def stepped_by(self, method: Method, h: float | None) -> "Wiring":
        """The same with a method, and a longest inner step, for the blocks that have none of their
        own.
        """
        parts = {
            name: part
            if part.method is not None or not isinstance(part.component, Block)
            else replace(part, method=method, h=h if part.h is None else part.h)
            for name, part in self.parts.items()
        }
        return Wiring(parts, self.connections, self.merged)

    def started(self, start: Mapping[str, Any]) -> "Wiring":
        """The same with other start values, by `part.port`.

        Raises KeyError for a name that there is not, ValueError for values that do not fit their
        ports, and TypeError for what is no mapping.
        """
        if not isinstance(start, Mapping):
            raise TypeError(f"start values are given by name, as {{'pd.kp': 60.0}}, not {start!r}")
        given: dict[str, dict[str, Any]] = {name: {} for name in self.parts}
        for name, value in start.items():
            part, port = self.located(str(name))
            if part in given and not port:
                raise KeyError(f"'{name}' is a part and no port of one; write '{name}.' and a port")
            if part not in given:
                raise KeyError(
                    f"no part '{part}' for the start value of '{name}'; write part.port with one "
                    f"of the parts: {name_list(given)}{near(part, given)}"
                )
            given[part][port] = value
        parts = {
            name: replace(
                part,
                start={**part.start, **start_values(name, part.component, given[name])},
            )
            if given[name]
            else part
            for name, part in self.parts.items()
        }
        other = Wiring(parts, self.connections, self.merged)
        same = ("outputs", "wires", "evaluation_order", "stepping_order")
        vars(other).update({name: known for name, known in vars(self).items() if name in same})
        return other

    @cached_property
    def open_inputs(self) -> tuple[tuple[str, Port], ...]:
        """The inputs that nothing is connected to, with the names of their parts, parts in order of
        their names. Of one that is connected in part, each open element is a port `tau[2]`.

        Raises ValueError for one without a start value.
        """
        return tuple(self._open_inputs())

    def _open_inputs(self) -> Iterator[tuple[str, Port]]:
        for name, part in sorted(self.parts.items()):
            for port in part.component.inputs:
                start = part.start.get(port.name, port.start)
                taken = {
                    k for one in self.connections if one.target == (name, port.name) for k in one.to
                }
                left = [k for k in range(port.size) if k not in taken]
                if left and start is None:
                    which = [port.element_names[k] for k in left] if taken else [port.name]
                    inputs = ", ".join(f"{name}.{one}" for one in which)
                    are = "inputs {} are open: connect them or give them start values"
                    text = (
                        are
                        if len(which) > 1
                        else ("input {} is open: connect it or give it a start value")
                    )
                    raise ValueError(f"the {text.format(inputs)}")
                if not taken:
                    yield name, port
                else:
                    yield from ((name, element_port(port, k, start)) for k in left)

    @cached_property
    def evaluation_order(self) -> tuple[str, ...]:
        """The parts in an order in which all outputs can be computed from the states; a part may
        come more than once.

        Raises ValueError for an algebraic loop, naming it port by port, and for a system without
        parts.
        """
        if not self.parts:
            raise ValueError("the system has no parts: add blocks or FMU files")
        try:
            order = _parts_in_order(self._reads())
        except CycleError:  # of ports: there need be none of their elements
            try:
                order = _parts_in_order(self.element_reads())
            except CycleError as error:
                loop = dict.fromkeys(f"{name}.{port}" for name, _, port, _ in error.args[1])
                refused = ValueError(
                    "algebraic loop, each reads the one before at the same instant: "
                    f"{' -> '.join((*loop, next(iter(loop))))}"
                )
                raise explained(refused, "algebraic loops") from None
        order += sorted(name for name in self.parts if name not in order)  # sinks have no outputs
        return tuple(name for k, name in enumerate(order) if k == 0 or order[k - 1] != name)

    @cached_property
    def has_loops(self) -> bool:
        """Whether outputs read each other at once in circles."""
        try:
            _parts_in_order(self.element_reads())
        except CycleError:
            return True
        return False

    def _reads(self) -> Reads:
        """What each port reads at the same instant: an input its source, an output inputs."""
        reads: Reads = {}
        for (a, y), (b, u), *_ in self.connections:
            reads.setdefault((b, "input", u), set()).add((a, "output", y))
        for name, part in sorted(self.parts.items()):
            for port in part.component.outputs:
                inputs = {(name, "input", u) for u, y in part.feedthrough if y == port.name}
                reads[name, "output", port.name] = inputs
        return reads

    def element_reads(self) -> Reads:
        """What each element of a port reads at the same instant, as (part, "input" or "output",
        port, place): of an input its source, of an output inputs.
        """
        reads: Reads = {}
        for (a, y), (b, u), start, to, *_ in self.connections:
            for i, j in zip(start, to, strict=True):
                reads.setdefault((b, "input", u, j), set()).add((a, "output", y, i))
        for name, part in sorted(self.parts.items()):
            for port in part.component.outputs:
                for k in range(port.size):
                    reads[name, "output", port.name, k] = set()
            for (u, i), (y, j) in element_feedthrough(part):
                reads[name, "output", y, j].add((name, "input", u, i))
        return reads

    @cached_property
    def stepping_order(self) -> tuple[str, ...]:
        """The parts in the order of a Gauss-Seidel step: each behind those whose new outputs its
        outputs read at once.

        Where parts wait for each other, though no loop of ports is algebraic, the one goes first
        that waits for the fewest through outputs that are connected; who waits for them and they do
        not for him goes behind them. Of others, a part that does nothing but sample, such as a
        delay, goes behind those that it samples. Raises ValueError for an algebraic loop.
        """
        _ = self.evaluation_order  # raises for an algebraic loop
        waits, waits_hard = self._waits(connected=False), self._waits(connected=True)
        samples = self._samples()
        order: list[str] = []
        while left := set(self.parts) - set(order):
            ready = {
                name: (
                    bool(waits[name] & left),
                    len(waits_hard[name] & left),
                    len(samples[name] & left),
                )
                for name in left
            }
            by_readiness = sorted(left, key=lambda name: (ready[name], name))
            order.append(next(name for name in by_readiness if _is_waited_for(name, waits, left)))
        return tuple(order)

    def _samples(self) -> dict[str, set[str]]:
        """The parts that each part which does nothing but sample reads."""
        found: dict[str, set[str]] = {name: set() for name in self.parts}
        for (a, _), (b, _), *_ in self.connections:
            component = self.parts[b].component
            if a == b or not isinstance(component, Block) or component.states:
                continue
            if component.sample_time is not None:
                found[b].add(a)
        return found

    def _waits(self, connected: bool) -> dict[str, set[str]]:
        """The parts whose outputs each part's outputs read at once; with `connected` the connected
        outputs alone.
        """
        read = {one.source for one in self.connections}
        waits: dict[str, set[str]] = {name: set() for name in self.parts}
        for (a, _), (b, u), *_ in self.connections:
            outputs = [y for source, y in self.parts[b].feedthrough if source == u]
            if a != b and any(not connected or (b, y) in read for y in outputs):
                waits[b].add(a)
        return waits


def _parts_in_order(reads: Reads) -> list[str]:
    """The parts in an order in which their outputs can be computed; raises CycleError."""
    ports = TopologicalSorter(reads).static_order()
    return [name for name, kind, *_ in ports if kind == "output"]


def _is_waited_for(name: str, waits: Mapping[str, set[str]], left: set[str]) -> bool:
    """Whether all those of the parts left that a part waits for, also through others, wait for
    it.
    """
    return all(name in _awaited(one, waits, left) for one in _awaited(name, waits, left))


def _awaited(name: str, waits: Mapping[str, set[str]], left: set[str]) -> set[str]:
    """The parts left that a part waits for, also through others."""
    found, more = set[str](), [name]
    while more:
        new = (waits[more.pop()] & left) - found
        found |= new
        more += new
    return found


def _runs(connection: Connection) -> Iterator[Wire]:
    source, target, start, to, *_ = connection
    begin = 0
    for k in range(1, len(to) + 1):
        ends = k == len(to) or (start[k], to[k]) != (start[k - 1] + 1, to[k - 1] + 1)
        if ends:
            yield Wire(source, target, start[begin], to[begin], k - begin)
            begin = k


def _unless_same(given: Conversion, part: slice) -> Conversion | None:
    """A part of a conversion; None where it leaves the values as they are."""
    factor, offset = given.factor[part], given.offset[part]
    return Conversion(factor, offset) if np.any(factor != 1.0) or np.any(offset) else None
