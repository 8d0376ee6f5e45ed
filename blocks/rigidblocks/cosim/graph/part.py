"""Parts of a system, and selections of port elements such as `q[1]`, `y[1:3]` and `f_ext[2,:]`."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from rigidblocks.block.adaptive_methods import (
    DEFAULT_METHOD,
    Adaptive,
    Method,
    longest_step,
)
from rigidblocks.block.block import Block, Port, state_outputs
from rigidblocks.block.external_functions import PythonBlock
from rigidblocks.block.memory_layout import Memory
from rigidblocks.block.port import REAL, TEXTUAL, decode_value
from rigidblocks.block.units import Conversion, conversion
from rigidblocks.common.name_hints import close_match_hint
from rigidblocks.cosim.graph.fmu_file import MODEL_EXCHANGE
from rigidblocks.cosim.graph.fmu_part import Fmu, FmuError, fmu_at
from rigidblocks.cosim.graph.remote_fmu import SCHEME, remote_file
from rigidblocks.kernels.traced_evaluator import (
    DependencyGroup,
    Element,
    ElementPair,
    TracedEvaluator,
    element_feedthrough,
    feedthrough,
    start_feedthrough,
)

_SELECTED = re.compile(r"(?P<port>.+?)\[(?P<index>[^\[\]]*)\]")
_ITEM = re.compile(r"\s*(?:(?P<one>\d+)|(?P<first>\d+)?\s*:\s*(?P<last>\d+)?)\s*")
_HOW = "indices start at 1, and a slice includes both ends: q[2], q[1:3], q[2:], q[:]"


@dataclass(frozen=True, eq=False)
class Selection:
    """Selected elements of a port: indices `places` in C order, and shape of the selection.

    An index removes its dimension, as in NumPy. A slice keeps its dimension, even if it has one
    element.
    """

    port: Port
    places: tuple[int, ...]
    shape: tuple[int, ...]

    @property
    def units(self) -> tuple[str, ...]:
        """Unit of each selected element."""
        return tuple(self.port.units[k] for k in self.places)


def places(ports: Iterable[Port]) -> dict[str, slice]:
    """Map each port name to the slice of its elements in the concatenation of all ports."""
    ports = tuple(ports)
    ends = np.cumsum([0, *(port.size for port in ports)]).tolist()
    return {port.name: slice(a, a + port.size) for port, a in zip(ports, ends, strict=False)}


def select_all(port: Port) -> Selection:
    """Return a selection of all elements of a port."""
    return Selection(port, tuple(range(port.size)), port.shape)


def split_name(name: str) -> tuple[str, str | None]:
    """Split a name into the port name and the index string in brackets (None if missing)."""
    match = _SELECTED.fullmatch(name)
    return (match["port"], match["index"]) if match else (name, None)


def select_elements(port: Port, index: str, label: str) -> Selection:
    """Select the elements of a port for an index string such as `2`, `1:3` or `2,:`.

    Indices start at 1 as in FMI, and a slice includes both ends.

    Raises:
        ValueError: The index is malformed, the number of indices differs from the dimensions of the
            port, or an element does not exist. The message begins with `label`.
    """
    items = index.split(",")
    if len(items) != len(port.shape):
        example = ",".join(":" for _ in port.shape)
        right = (
            f"write one index per dimension, such as {port.name}[{example}]"
            if example
            else "leave out the index"
        )
        raise ValueError(
            f"{label} has {len(items)} indices, but {port.name} has the shape {port.shape}: {right}"
        )
    taken = tuple(
        _parse_index(item, size, port, label) for item, size in zip(items, port.shape, strict=True)
    )
    places = np.arange(port.size).reshape(port.shape)[taken]
    return Selection(port, tuple(np.ravel(places).tolist()), places.shape)


def _parse_index(item: str, size: int, port: Port, label: str) -> Any:
    """Parse the index or slice `item` of a dimension with `size` elements; return it zero-based."""
    match = _ITEM.fullmatch(item)
    if match is None:
        raise ValueError(f"{label} has the invalid index '{item}'; {_HOW}")
    first = int(match["one"] or match["first"] or 1)
    last = int(match["one"] or match["last"] or size)
    if not 1 <= first <= last <= size:
        raise ValueError(
            f"{label} is out of range: {port.name} has the shape {port.shape}, and index "
            f"'{item.strip()}' must be from 1 to {size}; {_HOW}"
        )
    return first - 1 if match["one"] else slice(first - 1, last)


def conversion_between(
    output: Port, start: Sequence[int], target: Port, to: Sequence[int]
) -> Conversion | None:
    """Return the unit conversion for a connection from output elements to input elements.

    `start` contains the indices of the output elements, and `to` the indices of the input elements.

    Returns:
        The conversion, or None if the values do not change.

    Raises:
        ValueError: The units have different dimensions, or a string or binary port is connected to
            a port of another type.
    """
    if output.type != target.type and {output.type, target.type} & set(TEXTUAL):
        raise ValueError(f"{output.type} and {target.type} are different types")
    if output.units == target.units and not output.meanings and not target.meanings:
        return None
    units, targets = output.units, target.units
    meant, wanted = output.quantities, target.quantities
    return conversion(
        [units[k] for k in start],
        [targets[k] for k in to],
        [meant[k] for k in start],
        [wanted[k] for k in to],
    )


def element_port(port: Port, k: int, start: Any) -> Port:
    """Return the k-th element of a port (C order) as a separate port with a start value."""
    bounds = (np.ravel(value)[k] for value in (port.min, port.max, port.nominal))
    low, high, nominal = bounds
    return replace(
        port,
        name=port.element_names[k],
        shape=(),
        unit=port.units[k],
        start=None if start is None else float(np.ravel(start)[k]),
        min=low,
        max=high,
        nominal=nominal,
    )


class Component(Protocol):
    """Block or FMU file that can be a part of a system."""

    @property
    def inputs(self) -> tuple[Port, ...]:
        """Input ports."""
        ...

    @property
    def outputs(self) -> tuple[Port, ...]:
        """Output ports."""
        ...


@dataclass(frozen=True, eq=False)
class Part:
    """Part of a system: a block or an FMU file, with its name and options.

    Attributes:
        name: Name in the system.
        component: Block or FMU file.
        feedthrough: Pairs (input, output) with direct feedthrough.
        start: Start values by port name.
        method: Integration method of a block, or None for the default. An FMU for co-simulation has
            its own integrator.
        h: Longest inner step [s], or None for the default.
        isolated: True if the FMU runs in its own process.
        has_own_library: True if the instance of the FMU uses its own copy of the library.
        time_limit: Time limit of each call of an isolated or remote FMU [s].
        rtol: Relative tolerance of an FMU for co-simulation.
        dt: Communication step of the part [s], a multiple of the run's communication step; None to
            use the run's communication step.
    """

    name: str
    component: Component
    feedthrough: frozenset[tuple[str, str]]
    start: Mapping[str, Any] = field(default_factory=dict)
    method: Method | None = None
    h: float | None = None
    isolated: bool = False
    has_own_library: bool = False
    time_limit: float = 60.0
    rtol: float | None = None
    dt: float | None = None

    @property
    def stepping(self) -> tuple[Method, float]:
        """Integrator of a block, and its longest inner step [s]."""
        method = DEFAULT_METHOD if self.method is None else self.method
        return method, longest_step(method, self.h)

    @property
    def can_restore_state(self) -> bool:
        """True if the part supports a rollback to the beginning of a step."""
        component = self.component
        return not isinstance(component, Fmu) or bool(component.interface.canGetAndSetFMUstate)

    @property
    def only_samples(self) -> bool:
        """True if the part is sampled and has no continuous states."""
        component = self.component
        if isinstance(component, Fmu):
            return component.only_samples
        assert isinstance(component, Block)
        return component.sample_time is not None and not component.states

    @property
    def state_outputs(self) -> tuple[str, ...]:
        """Names of the outputs of a block that are states."""
        assert isinstance(self.component, Block)
        return state_outputs(self.component)

    def is_held(self, output: str) -> bool:
        """Return True if an output changes only at samples and events."""
        component = self.component
        if isinstance(component, Fmu):
            return self.output(output).type not in REAL or component.is_discrete(output)
        assert isinstance(component, Block)
        if component.sample_time is None and not component.sampled:
            return False
        if any(port.name == output for port in component.states):
            return False
        return not component.states or all(y != output for _, y in self.feedthrough)

    @property
    def tolerance(self) -> float | None:
        """Relative tolerance that the importer passes to an FMU, or None.

        For co-simulation, the result is `rtol` or the tolerance of the default experiment. For
        model exchange, the result is the tolerance of an adaptive integration method.
        """
        assert isinstance(self.component, Fmu)
        if self.component.kind == MODEL_EXCHANGE:
            method = DEFAULT_METHOD if self.method is None else self.method
            return method.rtol if isinstance(method, Adaptive) else None
        return self.component.tolerance if self.rtol is None else self.rtol

    def input(self, name: str) -> Port:
        """Return an input port by name; the KeyError for an unknown name lists the known ports."""
        return self._inputs.get(name) or _port(self, "input", self.component.inputs, name)

    def output(self, name: str) -> Port:
        """Return an output port by name; the KeyError for an unknown name lists the known ports."""
        return self._outputs.get(name) or _port(self, "output", self.component.outputs, name)

    @cached_property
    def _inputs(self) -> Mapping[str, Port]:
        return {port.name: port for port in self.component.inputs}

    @cached_property
    def _outputs(self) -> Mapping[str, Port]:
        return {port.name: port for port in self.component.outputs}

    @property
    def ports(self) -> tuple[str, ...]:
        """Names of all inputs, outputs, states and parameters, without duplicates."""
        of = self.component
        groups = (getattr(of, kind) for kind in ("inputs", "outputs", "states", "parameters"))
        sampled = getattr(of, "sampled", ())
        return tuple(dict.fromkeys(p.name for ports in (*groups, sampled) for p in ports))

    @cached_property
    def start_ports(self) -> Mapping[str, Port]:
        """Ports that accept start values, by name, each with its start value in the system."""
        of = self.component
        groups = (getattr(of, kind, ()) for kind in ("inputs", "states", "sampled", "parameters"))
        ports = (port for ports in groups for port in ports)
        return {
            port.name: replace(port, start=self.start[port.name])
            if self.start.get(port.name) is not None
            else port
            for port in ports
        }

    def selected_input(self, name: str) -> Selection:
        """Return an input port by name, or an element of a port for a name such as `q[1]`.

        Raises:
            KeyError: The port is unknown; the message lists the known ports.
        """
        return _selection(self, "input", self.component.inputs, name)

    def selected_output(self, name: str) -> Selection:
        """Return an output port by name, or an element of a port; see `selected_input`."""
        return _selection(self, "output", self.component.outputs, name)


class Dependencies(NamedTuple):
    """Dependencies of outputs on inputs.

    `known` contains the known dependencies as groups of output elements and the input elements on
    which they depend. `undeclared` contains the output elements that may depend on any input.
    """

    known: tuple[DependencyGroup, ...]
    undeclared: frozenset[Element] = frozenset()


def element_dependencies(part: Part) -> Dependencies:
    """Return the dependencies of output elements on input elements in a step."""
    component = part.component
    if isinstance(component, Fmu):
        return Dependencies(component.dependencies, component.undeclared)
    if isinstance(component, Block) and not isinstance(component, PythonBlock):
        return Dependencies(
            _group_by_output(element_feedthrough(TracedEvaluator(Memory(component))))
        )
    return Dependencies(_feedthrough_groups(part))


def start_dependencies(part: Part) -> Dependencies:
    """Return the dependencies of output elements on input elements at initialization."""
    component = part.component
    if isinstance(component, Fmu):
        return Dependencies(component.start_dependencies, component.start_undeclared)
    if isinstance(component, Block) and not isinstance(component, PythonBlock):
        return Dependencies(_group_by_output(start_feedthrough(TracedEvaluator(Memory(component)))))
    return element_dependencies(part)


def start_port_dependencies(part: Part) -> tuple[set[tuple[str, str]], set[str]]:
    """Return the dependencies of output ports on input ports of a part at initialization.

    Returns:
        The pairs (input, output), and the outputs with undeclared dependencies.
    """
    component = part.component
    if isinstance(component, Block) and type(component).initial is Block.initial:
        # a block without its own `initial` executes an ordinary sample at initialization
        return set(part.feedthrough), set()
    known, undeclared = start_dependencies(part)
    return port_pairs(known), {y for y, _ in undeclared}


def port_pairs(groups: Iterable[DependencyGroup]) -> set[tuple[str, str]]:
    """Return the pairs (input port, output port) that have dependent elements in `groups`."""
    return {
        (u, y)
        for inputs, outputs in groups
        for u in {u for u, _ in inputs}
        for y in {y for y, _ in outputs}
    }


def port_elements(ports: Iterable[Port]) -> frozenset[Element]:
    """Return all elements (port, index) of the ports."""
    return frozenset((port.name, k) for port in ports for k in range(port.size))


def _group_by_output(pairs: Iterable[ElementPair]) -> tuple[DependencyGroup, ...]:
    """Group pairs (input element, output element) by output element."""
    inputs: dict[Element, set[Element]] = {}
    for u, y in pairs:
        inputs.setdefault(y, set()).add(u)
    return tuple(DependencyGroup(frozenset(us), frozenset({y})) for y, us in inputs.items())


def _feedthrough_groups(part: Part) -> tuple[DependencyGroup, ...]:
    """Return a dependency group for each port pair (input, output) with direct feedthrough.

    Every element of the output depends on every element of the input.
    """
    return tuple(
        DependencyGroup(port_elements([part.input(u)]), port_elements([part.output(y)]))
        for u, y in sorted(part.feedthrough)
    )


def component_of(
    component: Block | str | Path, kind: str | None = None, key_file: str | Path | None = None
) -> tuple[Component, frozenset[tuple[str, str]]]:
    """Convert the argument `component` of `System.add` to a block or an FMU.

    Args:
        component: Block, path or address.
        kind: FMU interface type, "co-simulation" or "model exchange".
        key_file: File with the key of the server of a remote FMU.

    Returns:
        The block or FMU, and its pairs (input, output) with direct feedthrough.

    Raises:
        TypeError: `component` is neither a block nor a path.
        FmuError: The FMU file cannot be used.
        ValueError: The interface type is unknown, or an option does not apply.
    """
    if isinstance(component, Block | PythonBlock):
        if kind is not None:
            raise ValueError(f"kind={kind!r} is only for FMUs; leave it out for a block")
        if key_file is not None:
            raise ValueError("key_file is only for FMUs on a server; leave it out for a block")
    if isinstance(component, PythonBlock):
        return component, frozenset(
            (u.name, y.name) for u in component.inputs for y in component.outputs
        )
    if isinstance(component, Block):
        return component, feedthrough(TracedEvaluator(Memory(component)))
    if not isinstance(component, str | Path):
        raise TypeError(
            f"a part is a block or the path of an FMU file, not {_describe_non_part(component)}"
        )
    is_remote = isinstance(component, str) and component.startswith(SCHEME)
    if key_file is not None and not is_remote:
        raise ValueError(
            f"key_file is only for FMUs on a server ({SCHEME}...), not for '{component}'"
        )
    if not is_remote and Path(component).suffix in _ROBOTS:
        remedy = _PLANT.format(f"load_model({str(component)!r})")
        raise FmuError(f"'{component}' is a robot file, not an FMU; {remedy}")
    file = remote_file(str(component), key_file) if is_remote else None
    fmu = fmu_at(component, kind) if file is None else Fmu(file, kind)
    return fmu, fmu.feedthrough


_ROBOTS = {".urdf", ".xacro", ".sdf"}
_PLANT = "use described_plant({}) from rigidblocks.library.plant_from_file"
_BLOCKS = {
    "Model": "use its plant, the block RobotPlant(model)",
    "PlanarModel": "use its plant, the block RobotPlant(model)",
    "RobotDescription": _PLANT.format("robot"),
    "System": "use the block ContinuousSystem(system)",
}  # advice for an object that is not a part, by the name of its type


def _describe_non_part(value: Any) -> str:
    """Return the error text for an object that cannot be a part; name the block to use instead."""
    if isinstance(value, type):
        return f"the class {value.__name__}; create a block by {value.__name__}(...)"
    name = type(value).__name__
    return f"a {name}" + (f"; {_BLOCKS[name]}" if name in _BLOCKS else "")


def _selection(part: Part, kind: str, ports: tuple[Port, ...], name: str) -> Selection:
    """Select a port or its elements by name; `q[7]` may also be the name of an FMU port."""
    port, index = split_name(name)
    if index is None or any(one.name == name for one in ports):
        return select_all(_port(part, kind, ports, name))
    return select_elements(_port(part, kind, ports, port), index, f"{part.name}.{name}")


def _port(part: Part, kind: str, ports: tuple[Port, ...], name: str) -> Port:
    for port in ports:
        if port.name == name:
            return port
    why = part.component.missing_port_reason(name) if isinstance(part.component, Fmu) else None
    names = [port.name for port in ports]
    known = f"{name_list(names)}{close_match_hint(name, names)}"
    both = ("input", part.component.inputs), ("output", part.component.outputs)
    is_one = [f", which is an {what}" for what, there in both if name in {p.name for p in there}]
    said = f"'{part.name}' has no {kind} '{name}'{''.join(is_one)}; it has: {known}"
    raise KeyError(why or said)


def configure_fmu(name: str, fmu: Fmu, start: Any) -> Fmu:
    """Set array sizes and clock intervals of an FMU from start values; return the new FMU.

    Args:
        name: Name of the part.
        fmu: FMU without a configuration.
        start: Start values by port name.

    Raises:
        ValueError, TypeError: A structural parameter or an interval has an invalid value.
        FmuError: An array would be too large.
    """
    if not isinstance(start, Mapping):
        return fmu  # `start_values` raises the error
    given = {port.name: start[port.name] for port in fmu.configurable if port.name in start}
    return fmu.replace_configuration(start_values(name, fmu, given)) if given else fmu


def check_configuration(name: str, component: Any, start: Mapping[str, Any]) -> None:
    """Raise ValueError if start values of a run would change array sizes or clock intervals."""
    for port in getattr(component, "configurable", ()):
        if port.name in start and not np.array_equal(start[port.name], port.start):
            kind = (
                "a structural parameter"
                if port in component.structural
                else "the interval of a clock"
            )
            now = None if port.start is None else decode_value(port.start, port.type).tolist()
            raise ValueError(
                f"'{name}.{port.name}' is {kind} with the value {now}, which a run cannot "
                "change; set it in System.add(start=...)"
            )


def start_values(name: str, component: Any, start: Mapping[str, Any]) -> dict[str, Any]:
    """Check start values, and return them as arrays with the shapes of their ports.

    Raises:
        KeyError: A name is not a port.
        ValueError: A value has a wrong shape, is not finite or is out of bounds.
        TypeError: `start` is not a mapping.
    """
    if not isinstance(start, Mapping):
        raise TypeError(
            f"the start values of '{name}' must be a mapping by name, such as {{'q': 1.0}}, not "
            f"{start!r}"
        )
    if not start:
        return {}
    configurable = getattr(component, "configurable", ())
    settable = (*component.inputs, *component.parameters, *component.states, *configurable)
    ports = {port.name: port for port in settable}
    if unknown := set(start) - set(ports):
        raise KeyError(
            f"'{name}' has no start value {name_list(unknown)}; it has: "
            f"{name_list(ports)}{close_match_hint(min(unknown), ports)}"
        )
    values = {}
    for key, value in start.items():
        port = ports[key]
        given = port.encode(value, port.shape, f"the start value of {name}.{key}")
        if not np.all((port.lowest <= given) & (given <= port.max)):
            replace(port, name=f"{name}.{key}", rate=None, start=given)  # raises ValueError
        values[key] = given
    return values


def combine_start_values(
    component: Any, earlier: Mapping[str, Any], later: Mapping[str, Any]
) -> dict[str, Any]:
    """Merge the start values `earlier` and `later`; values in `later` take precedence.

    A block may compute some start values from its other start values. Such computed values in
    `earlier` are discarded and computed again from the merged values.
    """
    if not isinstance(component, Block):
        return {**earlier, **later}
    derived = component.dependent_start_values(earlier)
    own = {
        name: value
        for name, value in earlier.items()
        if name not in derived or not np.array_equal(value, derived[name])
    }
    union = {**own, **later}
    return {**component.dependent_start_values(union), **union}


def name_list(names: Iterable[str]) -> str:
    """Return the sorted names as text for messages."""
    return ", ".join(sorted(names)) or "none"
