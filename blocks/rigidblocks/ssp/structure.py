"""What a system structure description says, without its hierarchy."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from rigidblocks.block.quantities import Quantity
from rigidblocks.system.system import System


class Node(NamedTuple):
    """A connector of an element; its path is that of the systems around it, "" for the outermost:
    `inner/pd`.
    """

    path: str
    connector: str

    def __str__(self) -> str:
        return f"{self.path}.{self.connector}" if self.path else self.connector


class Connector(NamedTuple):
    """The kind of a connector, and its unit where it names one."""

    kind: str
    unit: str | None = None


class Value(NamedTuple):
    """The value of a parameter, with its type and, where it names one, its unit; `meaning` is that
    of the unit where the set of parameters defines it.
    """

    value: Any
    type: str = "Real"
    unit: str | None = None
    meaning: Quantity | None = None


class Scale(NamedTuple):
    """`factor` value + `offset`, of a value in the unit of where it goes to; with `raw` units are
    left alone.
    """

    factor: float = 1.0
    offset: float = 0.0
    raw: bool = False


class Hop(NamedTuple):
    """A step on the way of a value through the connectors of systems: to a connector, scaled."""

    to: Node
    scale: Scale


class Component(NamedTuple):
    """An FMU: its file in the archive, and as what it is taken."""

    source: str
    kind: str | None


class Link(NamedTuple):
    """From an output of a component to an input of another, where the last of its hops ends."""

    source: Node
    hops: tuple[Hop, ...]

    @property
    def target(self) -> Node:
        """Where it ends."""
        return self.hops[-1].to


class Bound(NamedTuple):
    """A value that a variable of a component starts with, and the way that it takes there from a
    connector of a system.
    """

    value: Value
    hops: tuple[Hop, ...] = ()


@dataclass(frozen=True)
class Structure:
    """The components of a system by their path, the connections between them, and the values that
    their variables start with.
    """

    name: str
    components: Mapping[str, Component]
    connectors: Mapping[Node, Connector]
    links: tuple[Link, ...]
    values: Mapping[Node, Bound]
    units: Mapping[str, Quantity]
    experiment: Mapping[str, Any] = field(default_factory=dict)


class Loaded(NamedTuple):
    """A system, and the arguments of `simulate` that its file gives: `simulate(system, **run)`."""

    system: System
    run: Mapping[str, Any]
