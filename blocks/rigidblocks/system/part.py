"""The parts of a system: blocks and FMU files with what the system has been told of them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from rigidblocks.block.adaptive import DEFAULT_METHOD, Method, longest_step
from rigidblocks.block.block import Block, Port, finite
from rigidblocks.block.memory import Memory
from rigidblocks.block.python_block import PythonBlock
from rigidblocks.block.record import near
from rigidblocks.block.signal_types import carried
from rigidblocks.kernels.evaluator import TracedEvaluator
from rigidblocks.kernels.feedthrough import ElementPair, feedthrough
from rigidblocks.kernels.feedthrough import element_feedthrough as element_feedthrough_of
from rigidblocks.system.fmu import Fmu, FmuError
from rigidblocks.system.remote import SCHEME, remote_file
from rigidblocks.system.selection import Selection, selected, split, whole


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

    `start` has start values by port name; `method` and `h` are how a block is integrated, the
    default where they are None (an FMU brings its own); `feedthrough` has the pairs (input, output)
    where the output reads the input at once. An `isolated` FMU runs in a process of its own, each
    call within `time_limit` [s].
    """

    name: str
    component: Component
    feedthrough: frozenset[tuple[str, str]]
    start: Mapping[str, Any] = field(default_factory=dict)
    method: Method | None = None
    h: float | None = None
    isolated: bool = False
    time_limit: float = 60.0

    @property
    def stepping(self) -> tuple[Method, float]:
        """The method of a block and its longest inner step."""
        method = DEFAULT_METHOD if self.method is None else self.method
        return method, longest_step(method, self.h)

    def input(self, name: str) -> Port:
        """The input port of that name; KeyError lists those that there are."""
        return _port(self, "input", self.component.inputs, name)

    def output(self, name: str) -> Port:
        """The output port of that name; KeyError lists those that there are."""
        return _port(self, "output", self.component.outputs, name)

    @property
    def ports(self) -> tuple[str, ...]:
        """The names of all ports, each once: inputs, outputs, states and parameters."""
        of = self.component
        groups = (getattr(of, kind) for kind in ("inputs", "outputs", "states", "parameters"))
        sampled = getattr(of, "sampled", ())
        return tuple(dict.fromkeys(p.name for ports in (*groups, sampled) for p in ports))

    def selected_input(self, name: str) -> Selection:
        """The input port of that name, or of `q[1]` the element of q; KeyError lists the ports that
        there are.
        """
        return _selection(self, "input", self.component.inputs, name)

    def selected_output(self, name: str) -> Selection:
        """The same of the outputs."""
        return _selection(self, "output", self.component.outputs, name)


def element_feedthrough(part: Part) -> frozenset[ElementPair]:
    """The feedthrough of a part from element to element, as far as it is known."""
    component = part.component
    if isinstance(component, Fmu):
        return component.element_feedthrough
    if isinstance(component, Block) and not isinstance(component, PythonBlock):
        return element_feedthrough_of(TracedEvaluator(Memory(component)))
    return frozenset(
        ((u, i), (y, j))
        for u, y in part.feedthrough
        for i in range(part.input(u).size)
        for j in range(part.output(y).size)
    )


def component_of(
    given: Block | str | Path, kind: str | None = None, key_file: str | Path | None = None
) -> tuple[Component, frozenset[tuple[str, str]]]:
    """A block, or the FMU at a path or an address taken as a `kind` of FMU, and its feedthrough.

    Raises TypeError for what is neither, FmuError for an FMU file that cannot be used, and
    ValueError for a kind that there is not.
    """
    if isinstance(given, PythonBlock):
        return given, frozenset((u.name, y.name) for u in given.inputs for y in given.outputs)
    if isinstance(given, Block):
        if kind is not None:
            raise ValueError(f"a block is no {kind} FMU; leave kind out")
        return given, feedthrough(TracedEvaluator(Memory(given)))
    if not isinstance(given, str | Path):
        raise TypeError(f"a part is a block or the path of an FMU file, not {_no_part(given)}")
    is_remote = isinstance(given, str) and given.startswith(SCHEME)
    if key_file is not None and not is_remote:
        raise ValueError(f"a key is for the server of a remote FMU, {SCHEME}..., not for '{given}'")
    if not is_remote and Path(given).suffix in _ROBOTS:
        raise FmuError(f"'{given}' is no FMU; {_PLANT.format(f'load_model({str(given)!r})')}")
    fmu = Fmu(remote_file(str(given), key_file) if is_remote else Path(given), kind)
    return fmu, fmu.feedthrough


_ROBOTS = {".urdf", ".xacro", ".sdf"}
_PLANT = "the plant of a robot is described_plant({}), of rigidblocks.library.described"
_BLOCKS = {
    "Model": "its plant is a block: RobotPlant(model)",
    "PlanarModel": "its plant is a block: RobotPlant(model)",
    "RobotDescription": _PLANT.format("robot"),
    "System": "ContinuousSystem(system) is a block of it",
}  # of what is near to one


def _no_part(given: Any) -> str:
    """What was given in the place of a part, and what of it would be one."""
    if isinstance(given, type):
        return f"the class {given.__name__}; a block of it is {given.__name__}(...)"
    name = type(given).__name__
    return f"a {name}" + (f"; {_BLOCKS[name]}" if name in _BLOCKS else "")


def _selection(part: Part, kind: str, ports: tuple[Port, ...], name: str) -> Selection:
    """A port, or elements of one; an FMU may have a port whose own name is `q[7]`."""
    port, index = split(name)
    if index is None or any(one.name == name for one in ports):
        return whole(_port(part, kind, ports, name))
    return selected(_port(part, kind, ports, port), index, f"{part.name}.{name}")


def _port(part: Part, kind: str, ports: tuple[Port, ...], name: str) -> Port:
    for port in ports:
        if port.name == name:
            return port
    why = part.component.no_port(name) if isinstance(part.component, Fmu) else None
    names = [port.name for port in ports]
    known = f"{name_list(names)}{near(name, names)}"
    both = ("input", part.component.inputs), ("output", part.component.outputs)
    is_one = [f", which is an {what}" for what, there in both if name in {p.name for p in there}]
    said = f"'{part.name}' has no {kind} '{name}'{''.join(is_one)}; it has: {known}"
    raise KeyError(why or said)


def start_values(name: str, component: Any, start: Mapping[str, Any]) -> dict[str, Any]:
    """The start values as finite arrays of their ports' shapes, within their bounds.

    Raises KeyError for one without a port, ValueError for one that does not fit its port, and
    TypeError for what is no mapping.
    """
    if not isinstance(start, Mapping):
        raise TypeError(
            f"the start values of '{name}' are given by name, as {{'q': 1.0}}, not {start!r}"
        )
    if not start:
        return {}
    settable = (*component.inputs, *component.parameters, *component.states)
    ports = {port.name: port for port in settable}
    if unknown := set(start) - set(ports):
        raise KeyError(
            f"'{name}' has nothing to start with a value called {name_list(unknown)}; it has: "
            f"{name_list(ports)}{near(min(unknown), ports)}"
        )
    values = {}
    for key, value in start.items():
        where = f"the start value of {name}.{key}"
        if ports[key].type != "Real":
            value = carried(value, ports[key].type, ports[key].shape, where)
        port, given = ports[key], finite(value, ports[key].shape, where)
        if not np.all((port.lowest <= given) & (given <= port.max)):
            replace(port, name=f"{name}.{key}", rate=None, start=given)  # which raises
        values[key] = given
    return values


def name_list(names: Iterable[str]) -> str:
    """The names in order, for messages."""
    return ", ".join(sorted(names)) or "none"
