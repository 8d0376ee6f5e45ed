"""Systems: named blocks and FMUs, and the connections between their ports."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any, Protocol

from rigidblocks.block import Block, Port, finite
from rigidblocks.feedthrough import feedthrough
from rigidblocks.flat import FlatBlock
from rigidblocks.integrate import RK4, Integrator


class Component(Protocol):
    """What a system is made of: a block, or an FMU file."""

    @property
    def inputs(self) -> tuple[Port, ...]:
        """The input ports."""
        ...

    @property
    def outputs(self) -> tuple[Port, ...]:
        """The output ports."""
        ...


@dataclass(frozen=True, eq=False)
class Part:
    """A component of a system with what the system has been told of it.

    `start` has start values by port name; `method` and `h` are how a block is integrated (an FMU brings its own);
    `feedthrough` has the pairs (input, output) where the output reads the input at once.
    """

    name: str
    component: Component
    feedthrough: frozenset[tuple[str, str]]
    start: Mapping[str, Any] = field(default_factory=dict)
    method: Integrator = RK4
    h: float = 1e-3

    def input(self, name: str) -> Port:
        """The input port of that name; KeyError lists those that there are."""
        return _port(self, "input", self.component.inputs, name)

    def output(self, name: str) -> Port:
        """The output port of that name; KeyError lists those that there are."""
        return _port(self, "output", self.component.outputs, name)


class System:
    """Named blocks and FMU files, wired port to port.

        system.add("robot", RobotPlant(planar2()))
        system.add("pd", "pd.fmu")
        system.connect("robot.q", "pd.q")

    An input takes one connection; one that has none keeps its start value. The order of `add` does not matter.
    """

    def __init__(self) -> None:
        self.parts: dict[str, Part] = {}
        self.sources: dict[tuple[str, str], tuple[str, str]] = {}  # what each connected input (part, port) reads

    def add(
        self,
        name: str,
        component: Block | str | Path,
        *,
        start: Mapping[str, Any] | None = None,
        method: Integrator = RK4,
        h: float = 1e-3,
    ) -> None:
        """Adds a block, or an FMU by the path of its file, under a name.

        `start` replaces start values of inputs, states and parameters, by port name. `method` and `h` [s], the longest
        inner step, are for blocks. Raises ValueError for a name that is taken or has a dot, FmuError for an FMU file that
        cannot be used, TypeError for what is neither block nor file, and KeyError and ValueError for start values without
        a port, of another shape or not finite.
        """
        if name in self.parts or not name or "." in name:
            raise ValueError(f"cannot add '{name}': a name must be new and without dots; taken are: {_list(self.parts)}")
        used, pairs = _component(component)
        self.parts[name] = Part(name, used, pairs, _checked_start(name, used, start or {}), method, h)

    def connect(self, source: str, target: str) -> None:
        """Connects an output `part.port` to an input `part.port` of the same shape and units.

        Raises KeyError for a part or port that there is not, listing those there are, and ValueError for different
        shapes or units and for an input that is connected already.
        """
        (a, y), (b, u) = self._locate(source), self._locate(target)
        output, target_port = self.parts[a].output(y), self.parts[b].input(u)
        if (b, u) in self.sources:
            taken = ".".join(self.sources[b, u])
            raise ValueError(f"cannot connect {source} to {target}: {target} is connected to {taken} already")
        different_units = any(v != w for v, w in zip(output.units, target_port.units, strict=False) if v and w)
        if output.shape != target_port.shape or different_units:
            raise ValueError(f"cannot connect {_typed(source, output)} to {_typed(target, target_port)}")
        self.sources[b, u] = (a, y)

    def open_inputs(self) -> Iterator[tuple[str, Port]]:
        """The inputs that nothing is connected to, with the names of their parts, parts in order of their names.

        Raises ValueError for one without a start value.
        """
        for name in sorted(self.parts):
            for port in self.parts[name].component.inputs:
                if (name, port.name) not in self.sources:
                    if port.start is None and port.name not in self.parts[name].start:
                        raise ValueError(f"the input {name}.{port.name} is open: connect it or give it a start value")
                    yield name, port

    def evaluation_order(self) -> list[str]:
        """The parts in an order in which all outputs can be computed from the states; a part may come more than once.

        Raises ValueError for an algebraic loop, naming it port by port, and for a system without parts.
        """
        if not self.parts:
            raise ValueError("the system has no parts: add blocks or FMU files")
        reads: dict[tuple[str, str, str], set[tuple[str, str, str]]] = {}
        for (b, u), (a, y) in self.sources.items():
            reads[b, "input", u] = {(a, "output", y)}
        for name, part in sorted(self.parts.items()):
            for port in part.component.outputs:
                reads[name, "output", port.name] = {(name, "input", u) for u, y in part.feedthrough if y == port.name}
        try:
            order = [name for name, kind, _ in TopologicalSorter(reads).static_order() if kind == "output"]
        except CycleError as error:
            loop = " -> ".join(f"{name}.{port}" for name, _, port in error.args[1])
            raise ValueError(f"algebraic loop, each reads the one before at the same instant: {loop}") from None
        return [name for k, name in enumerate(order) if k == 0 or order[k - 1] != name]

    def stepping_order(self) -> list[str]:
        """The parts in the order of a Gauss-Seidel step: each behind those whose new outputs its outputs read at once.

        Where parts wait for each other, though no loop of ports is algebraic, the one goes first that waits for the
        fewest through outputs that are connected. Raises ValueError for an algebraic loop.
        """
        self.evaluation_order()
        connected = set(self.sources.values())
        waits: dict[str, set[str]] = {name: set() for name in self.parts}
        waits_hard: dict[str, set[str]] = {name: set() for name in self.parts}
        for (b, u), (a, _) in self.sources.items():
            outputs = [y for source, y in self.parts[b].feedthrough if source == u]
            if outputs and a != b:
                waits[b].add(a)
                if any((b, y) in connected for y in outputs):
                    waits_hard[b].add(a)
        order: list[str] = []
        while remaining := sorted(set(self.parts) - set(order)):
            left = set(remaining)
            order.append(min(remaining, key=lambda name: (bool(waits[name] & left), len(waits_hard[name] & left))))
        return order

    def _locate(self, name: str) -> tuple[str, str]:
        part, dot, port = name.partition(".")
        if not dot or part not in self.parts:
            raise KeyError(f"no part '{part}' for '{name}'; write part.port with one of the parts: {_list(self.parts)}")
        return part, port


def _component(given: Block | str | Path) -> tuple[Component, frozenset[tuple[str, str]]]:
    """The component and its feedthrough."""
    if isinstance(given, Block):
        return given, feedthrough(FlatBlock(given))
    if not isinstance(given, str | Path):
        raise TypeError(f"a part is a block or the path of an FMU file, not a {type(given).__name__}")
    from rigidblocks.fmi.file import Fmu  # imported here: packaging stands above wiring

    fmu = Fmu(Path(given))
    return fmu, fmu.feedthrough


def _port(part: Part, kind: str, ports: tuple[Port, ...], name: str) -> Port:
    for port in ports:
        if port.name == name:
            return port
    raise KeyError(f"'{part.name}' has no {kind} '{name}'; it has: {_list(port.name for port in ports)}")


def _checked_start(name: str, component: Any, start: Mapping[str, Any]) -> dict[str, Any]:
    """The start values as finite arrays of their ports' shapes."""
    settable = (*component.inputs, *component.parameters, *component.states)
    ports = {port.name: port for port in settable}
    if unknown := set(start) - set(ports):
        raise KeyError(f"'{name}' has nothing to start with a value called {_list(unknown)}; it has: {_list(ports)}")
    return {key: finite(value, ports[key].shape, f"the start value of {name}.{key}") for key, value in start.items()}


def _typed(name: str, port: Port) -> str:
    """A port with its shape and units, for messages: `arm.q (2, rad)`."""
    units = list(dict.fromkeys(port.units))
    return f"{name} ({', '.join([*map(str, port.shape), '/'.join(units)])})".replace("(, ", "(")


def _list(names: Any) -> str:
    return ", ".join(sorted(names)) or "none"
