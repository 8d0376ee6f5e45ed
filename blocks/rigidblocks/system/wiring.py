"""What is wired to what in a system, at one moment, and the orders that follow from it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from types import MappingProxyType
from typing import Any

from rigidblocks.block.adaptive import Method
from rigidblocks.block.block import Port
from rigidblocks.system.part import Part

Reads = dict[tuple[str, str, str], set[tuple[str, str, str]]]


@dataclass(frozen=True, eq=False)
class Wiring:
    """The parts of a system and their connections as they are when it is made; what follows from
    them is found once for all who share it.

    `sources` has the output (part, port) that each connected input (part, port) reads.
    """

    parts: Mapping[str, Part]
    sources: Mapping[tuple[str, str], tuple[str, str]]

    def __post_init__(self) -> None:
        for name in ("parts", "sources"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))

    def __reduce__(self) -> tuple[type["Wiring"], tuple[Any, ...]]:
        return Wiring, (dict(self.parts), dict(self.sources))  # a proxy cannot be pickled

    def stepped_by(self, method: Method, h: float | None) -> "Wiring":
        """The same with a method, and a longest inner step, for the parts that have none of their
        own.
        """
        parts = {
            name: part
            if part.method is not None
            else replace(part, method=method, h=h if part.h is None else part.h)
            for name, part in self.parts.items()
        }
        return Wiring(parts, self.sources)

    @cached_property
    def open_inputs(self) -> tuple[tuple[str, Port], ...]:
        """The inputs that nothing is connected to, with the names of their parts, parts in order of
        their names.

        Raises ValueError for one without a start value.
        """
        return tuple(self._open_inputs())

    def _open_inputs(self) -> Iterator[tuple[str, Port]]:
        for name, part in sorted(self.parts.items()):
            for port in part.component.inputs:
                if (name, port.name) in self.sources:
                    continue
                if port.start is None and port.name not in part.start:
                    raise ValueError(
                        f"the input {name}.{port.name} is open: connect it or give it a start value"
                    )
                yield name, port

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
            ports = tuple(TopologicalSorter(self._reads()).static_order())
        except CycleError as error:
            loop = " -> ".join(f"{name}.{port}" for name, _, port in error.args[1])
            raise ValueError(
                f"algebraic loop, each reads the one before at the same instant: {loop}"
            ) from None
        order = [name for name, kind, _ in ports if kind == "output"]
        order += sorted(name for name in self.parts if name not in order)  # sinks have no outputs
        return tuple(name for k, name in enumerate(order) if k == 0 or order[k - 1] != name)

    def _reads(self) -> Reads:
        """What each port reads at the same instant: an input its source, an output inputs."""
        reads: Reads = {}
        for (b, u), (a, y) in self.sources.items():
            reads[b, "input", u] = {(a, "output", y)}
        for name, part in sorted(self.parts.items()):
            for port in part.component.outputs:
                inputs = {(name, "input", u) for u, y in part.feedthrough if y == port.name}
                reads[name, "output", port.name] = inputs
        return reads

    @cached_property
    def stepping_order(self) -> tuple[str, ...]:
        """The parts in the order of a Gauss-Seidel step: each behind those whose new outputs its
        outputs read at once.

        Where parts wait for each other, though no loop of ports is algebraic, the one goes first
        that waits for the fewest through outputs that are connected. Raises ValueError for an
        algebraic loop.
        """
        _ = self.evaluation_order  # raises for an algebraic loop
        waits, waits_hard = self._waits(connected=False), self._waits(connected=True)
        order: list[str] = []
        while left := set(self.parts) - set(order):
            ready = {
                name: (bool(waits[name] & left), len(waits_hard[name] & left)) for name in left
            }
            order.append(min(sorted(left), key=ready.__getitem__))
        return tuple(order)

    def _waits(self, connected: bool) -> dict[str, set[str]]:
        """The parts whose outputs each part's outputs read at once; with `connected` the connected
        outputs alone.
        """
        read = set(self.sources.values())
        waits: dict[str, set[str]] = {name: set() for name in self.parts}
        for (b, u), (a, _) in self.sources.items():
            outputs = [y for source, y in self.parts[b].feedthrough if source == u]
            if a != b and any(not connected or (b, y) in read for y in outputs):
                waits[b].add(a)
        return waits
