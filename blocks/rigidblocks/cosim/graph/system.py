"""Systems of named blocks and FMUs with connections between their ports, and system diagrams."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from importlib import import_module
from math import inf
from numbers import Real
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from rigidblocks.block.adaptive_methods import (
    ADAPTIVE,
    DEFAULT_METHOD,
    Method,
    longest_step,
    method_of,
)
from rigidblocks.block.block import Block, Port
from rigidblocks.block.units import Conversion, quantity_of, unit_text
from rigidblocks.common.display_hooks import Diagram, Picture, picture
from rigidblocks.common.escaping import mermaid_text
from rigidblocks.common.name_hints import (
    AttributeHints,
    close_match_hint,
    explain_calls,
    suggestion,
)
from rigidblocks.common.optional_imports import install_command
from rigidblocks.cosim.graph.combined_memory import EVERYTHING, Exposure
from rigidblocks.cosim.graph.fmu_file import MODEL_EXCHANGE
from rigidblocks.cosim.graph.fmu_part import Fmu
from rigidblocks.cosim.graph.part import (
    Part,
    Selection,
    combine_start_values,
    component_of,
    configure_fmu,
    conversion_between,
    name_list,
    start_values,
)
from rigidblocks.cosim.graph.remote_fmu import RemoteFile
from rigidblocks.cosim.graph.wiring import Connection, Wiring
from rigidblocks.kernels.traced_evaluator import ImpureBlockError
from rigidblocks.library.signals import Constant
from rigidblocks.tracing.trace import TraceError

_TIME_LIMIT = 60.0  # [s], default time limit of a call of an isolated or remote FMU


class System(AttributeHints):
    """Named blocks and FMU files with connections between their ports.

        system.add("robot", RobotPlant(planar2()))
        system.add("pd", "pd.fmu")
        system.connect("robot.q", "pd.q")
        system.connect("robot.qd[1]", "scope.u[2]")

    Each input element accepts one connection. An unconnected input element keeps its start value.
    The order of the `add` calls does not affect the results.
    """

    CALLS: ClassVar = {
        "simulate run sim": "simulate(system, t_stop, dt)",
        "step": "prepare(system, dt).step()",
        "add_block add_part add_component add_fmu append": "system.add(name, block)",
        "add_robot add_urdf load": "system.add(name, described_plant(load_model('robot.urdf')))",
        "add_connection link wire": "system.connect('plant.q', 'controller.q')",
        "blocks components nodes": "system.parts",
        "linearize": "linearize(system)",
        "export export_fmu to_fmu": "export_fmu(system)",
        "save to_ssp": "save_system(system, 'system.ssp')",
        "plot diagram": "system.draw() for the diagram or system.show() for the robots",
        "sweep": "sweep(system, design, t_stop=..., dt=...)",
        "reset compile prepare": "run = prepare(system, dt); run.reset() restores the start values",
        "remove delete": "a new System without the part; parts cannot be removed",
        "get get_block": "system.parts['part'].component",
        "set set_parameter set_input": "run = prepare(system, dt); run['part.port'] = value",
        "inputs outputs": "system.parts['part'].component.inputs or .outputs",
    }

    def __init__(self) -> None:
        self.parts: dict[str, Part] = {}
        self.connections: list[Connection] = []
        # index of connections by target; preceded by the indexed list and its length at that time
        self._indexed: tuple[list[Connection], int, dict[tuple[str, str], list[Connection]]]
        self._indexed = [], 0, {}
        self.exposure = Exposure()

    @explain_calls()
    def add(
        self,
        name: str,
        component: Block | str | Path,
        *,
        start: Mapping[str, Any] | None = None,
        method: Method | str | None = None,
        h: float | None = None,
        dt: float | None = None,
        rtol: float | None = None,
        atol: float | None = None,
        max_inner_steps: int | None = None,
        isolated: bool | str = False,
        time_limit: float | None = None,
        kind: str | None = None,
        key_file: str | Path | None = None,
        like: str | None = None,
    ) -> None:
        """Add a block, or an FMU by the path of its file, under a name.

        The options of the integration method are `method`, `h`, `rtol`, `atol` and
        `max_inner_steps`. They apply to blocks and to FMUs for model exchange, because rigidblocks
        integrates their equations. An FMU for co-simulation has its own integrator and accepts only
        the option `rtol`.

        An isolated FMU runs in its own process. If the FMU crashes, exits or exceeds the time
        limit, the run ends with an error message and the calling process continues. If
        several instances of an FMU are not isolated, rigidblocks tests whether the FMU has global
        variables. If the tests find none, the instances share its library. `isolated="library"`
        skips the tests and loads a copy of the library.

        Args:
            name: Name of the part, without dots.
            component: Block, path of an FMU file, or address of an FMU on a server
                (`rigidblocks serve`), such as "tcp://host:5555/robot.fmu".
            start: Start values of inputs, states and parameters by port name. Values of the
                structural parameters of an FMU set the sizes of its arrays. The value of an input
                clock with a fixed or tunable interval is this interval [s].
            method: Integration method, by name or as an object. FMUs for model exchange support all
                methods except "semi-implicit euler"; their default is an adaptive method.
            h: Longest inner step [s].
            dt: Communication step of this part [s], a multiple of the run's communication step,
                which is the default. The part steps once at the end of each interval of this
                length. Until then, its outputs are held, and it does not read its inputs.
            rtol: Relative tolerance of an adaptive method. For an FMU for co-simulation, this
                option replaces the tolerance of the default experiment.
            atol: Absolute tolerance of an adaptive method.
            max_inner_steps: Maximum number of inner steps of an adaptive method.
            isolated: True or "process" to run the FMU in its own process; "library" to load a copy
                of its library for this part only.
            time_limit: Time limit of each call of an isolated or remote FMU [s], by default 60.
            kind: FMU interface type, "co-simulation" or "model exchange". The default is
                co-simulation if the FMU file supports both types.
            key_file: File with the key of the server. The default is the file in the environment
                variable RIGIDBLOCKS_KEY_FILE.
            like: Port `part.port` of a part that the system already contains, or elements of this
                port, such as "arm.q". The signals of the added block take the units and the shape
                of the port. This option is for blocks with the parameter `unit`, such as sources.

        Raises:
            ValueError: The name is already used or has a dot. The part does not support an option.
                A start value has a wrong shape, is not finite or is outside the bounds of its port.
            FmuError: The FMU file cannot be used.
            TypeError: `component` is neither a block nor a file, or an argument has a wrong type.
            KeyError: The method is unknown, or a start value is given for an unknown port.
            ImpureBlockError: The functions of the block are not pure.
            TraceError: The functions of the block branch on the values of their arguments.
        """
        if not isinstance(name, str):
            raise TypeError(
                f"the name of a part must be a string, as in add('robot', ...), not {name!r}"
            )
        if name in self.parts or not name or "." in name:
            raise ValueError(
                f"cannot add '{name}': a part name must be new, not empty and without dots; used "
                f"names: {name_list(self.parts)}"
            )
        _check_types(name, h=h, dt=dt, time_limit=time_limit, rtol=rtol, atol=atol)
        if like is not None:
            component = self._component_like(name, component, like)
        try:
            used, pairs = component_of(component, kind, key_file)
        except (TraceError, ImpureBlockError) as error:
            raise type(error)(f"cannot add '{name}': {error}") from error
        if dt is not None and not 0 < dt < inf:
            raise ValueError(f"dt of '{name}' must be finite and positive, not {dt} s")
        if isolated not in (False, True, "process", "library"):
            raise ValueError(
                f"`isolated` of '{name}' must be False, True, 'process' or 'library', not "
                f"{isolated!r}"
            )
        own_library, own_process = isolated == "library", isolated in (True, "process")
        if isolated and not isinstance(used, Fmu):
            raise ValueError(f"'{name}' is a block; only an FMU can be isolated")
        is_remote = isinstance(used, Fmu) and isinstance(used.path, RemoteFile)
        if isolated and is_remote:
            raise ValueError(
                f"'{name}' is a remote FMU, which runs in a process of its server; leave out "
                "`isolated`"
            )
        if time_limit is not None and not (own_process or is_remote):
            raise ValueError(
                "time_limit is only for FMUs that are isolated or run by a server, not for "
                f"'{name}'; leave it out"
            )
        if time_limit is not None and not time_limit > 0:
            raise ValueError(f"the time limit of '{name}' must be positive, not {time_limit} s")
        if isinstance(used, Fmu):
            used = configure_fmu(name, used, start)
            pairs = used.feedthrough
        values = start_values(name, used, {} if start is None else start)
        values = combine_start_values(used, {}, values)
        limit = _TIME_LIMIT if time_limit is None else time_limit
        part = Part(
            name,
            used,
            pairs,
            values,
            isolated=own_process,
            has_own_library=own_library,
            time_limit=limit,
            dt=None if dt is None else float(dt),
        )
        if isinstance(used, Fmu) and used.kind != MODEL_EXCHANGE:
            unused = {"method": method, "h": h, "atol": atol, "max_inner_steps": max_inner_steps}
            _check_own_integrator_options(name, used, rtol, unused)
            self.parts[name] = replace(part, rtol=None if rtol is None else float(rtol))
            return
        is_given = (method, rtol, atol, max_inner_steps) != (None,) * 4
        chosen = (
            method_of(method or DEFAULT_METHOD, rtol, atol, max_inner_steps) if is_given else None
        )
        longest_step(chosen or DEFAULT_METHOD, h)  # raises ValueError if h is not positive
        self.parts[name] = replace(part, method=chosen, h=h)

    def _component_like(self, name: str, component: Any, like: str) -> Block:
        """Return a block whose signals have the units and the shape of the port `like`."""
        if not isinstance(like, str):
            raise TypeError(f"`like` of '{name}' must be a port name such as 'arm.q', not {like!r}")
        owner, text = self._locate(like)
        part = self.parts[owner]
        port_name = text.partition("[")[0]
        inputs, outputs = (
            [port.name for port in ports]
            for ports in (part.component.inputs, part.component.outputs)
        )
        if port_name not in (*inputs, *outputs):
            known = (*outputs, *inputs)
            raise KeyError(
                f"'{owner}' has no input or output '{port_name}'; {suggestion(port_name, known)}"
            )
        is_input = port_name in inputs
        chosen = part.selected_input(text) if is_input else part.selected_output(text)
        names: set[str] = set()
        if isinstance(component, Block) and is_dataclass(component):
            names = {one.name for one in fields(component)}
        if "unit" not in names:
            kind = type(component).__name__ if isinstance(component, Block) else "an FMU"
            raise ValueError(
                f"`like` of '{name}' requires a block with the parameter unit, such as a Sine; "
                f"'{name}' is {kind}"
            )
        block: Any = component
        if chosen.shape:
            changes: dict[str, Any] = {"unit": tuple(chosen.units)}
        else:
            changes = {"unit": chosen.units[0]}
        if isinstance(block, Constant) and not np.shape(block.value):
            changes["value"] = np.full(chosen.shape, block.value)
        if "shape" in names:
            changes["shape"] = chosen.shape
        try:
            changed: Block = replace(block, **changes)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"'{name}' cannot have the signals of {_port_text(like, chosen)}: {error}"
            ) from error
        ports = (*changed.outputs, *changed.inputs)
        if all(port.shape != chosen.shape for port in ports):
            raise ValueError(
                f"'{name}' cannot have the signals of {_port_text(like, chosen)}: the port "
                f"'{ports[0].name}' of {type(changed).__name__} has the shape {ports[0].shape}, "
                f"not {chosen.shape}"
            )
        return changed

    @explain_calls()
    def connect(self, source: str, target: str, *, conversion: Conversion | None = None) -> None:
        """Connect an output `part.port` to an input `part.port` of the same shape and dimension.

        If the units differ, the values are converted. The source and the target may be elements of
        a port: `q[1]` is the first element, `q[1:3]` the first three elements, and `f_ext[2,:]` the
        second row. Indices start at 1, as in element names, and a slice includes both ends.

        The shapes of ports with a single element may differ: a vector with one element can be
        connected to a scalar. Different elements of an input may be connected to different outputs.

        Args:
            source: Output, or elements of an output.
            target: Input, or elements of an input.
            conversion: Conversion of each element to factor * value + offset. If `value` is in the
                lookup table of the conversion, its table entry replaces it first. The units are
                not checked. At least one of the parts must be an FMU; between blocks, use a `Gain`.

        Raises:
            KeyError: A part or port is unknown; the message lists the known names.
            ValueError: An element does not exist. The shapes or the physical dimensions of source
                and target differ. A string port is connected to a numeric port. An element of the
                input is already connected. A conversion is given for a connection between blocks.
            TypeError: `source` or `target` is not a string.
        """
        for given in (source, target):
            if not isinstance(given, str):
                raise TypeError(f"connect needs port names, such as 'robot.q', not {given!r}")
        (a, y), (b, u) = self._locate(source), self._locate(target)
        read, written = self.parts[a].selected_output(y), self.parts[b].selected_input(u)
        new = Connection(
            (a, read.port.name),
            (b, written.port.name),
            read.places,
            written.places,
            (source, target),
            conversion,
        )
        self._check_free(new, written)
        one_number = len(read.places) == len(written.places) == 1
        text = f"cannot connect {_port_text(source, read)} to {_port_text(target, written)}"
        if not (read.shape == written.shape or one_number):
            raise ValueError(text)
        if conversion is not None:
            if isinstance(self.parts[a].component, Block) and isinstance(
                self.parts[b].component, Block
            ):
                raise ValueError(
                    f"{text}: unit conversion is supported only for FMUs; insert a Gain block"
                )
            self.connections.append(new)
            return
        try:
            conversion_between(read.port, read.places, written.port, written.places)
        except ValueError as error:
            raise ValueError(f"{text}: {error}") from None
        self.connections.append(new)

    def insert(self, name: str, block: Block, source: str, target: str, **options: Any) -> None:
        """Insert a block with the input u and the output y into a connection.

            system.insert("encoder", Fault(1e-3, 2, "rad", deviation=1e-4), "robot.q", "pd.q")

        After the call, the block reads `source`, and `target` reads the block. If the method raises
        an exception, the system stays unchanged. The method also raises the exceptions of `add` and
        `connect`.

        Args:
            name: Name of the new part.
            block: Block to insert.
            source: Output of the existing connection.
            target: Input of the existing connection.
            **options: Options of `add`.

        Raises:
            KeyError: The connection does not exist.
        """
        old = next((one for one in self.connections if one.names == (source, target)), None)
        if old is None:
            known = ", ".join(f"{a} -> {b}" for a, b in (one.names for one in self.connections))
            raise KeyError(f"no connection {source} -> {target}; the connections are: {known}")
        before = list(self.connections)
        self.add(name, block, **options)
        try:
            self.connections.remove(old)
            self._indexed = [], 0, {}
            self.connect(source, f"{name}.u")
            self.connect(f"{name}.y", target, conversion=old.conversion)
        except BaseException:
            self.connections[:] = before
            self._indexed = [], 0, {}
            del self.parts[name]
            raise

    def _connections_to(self, target: tuple[str, str]) -> list[Connection]:
        """Return the connections to the port `target`.

        The connections are indexed by target. Each call adds new connections to this index.
        """
        indexed, n, index = self._indexed
        if indexed is not self.connections or n > len(indexed):
            n, index = 0, {}
        for one in self.connections[n:]:
            index.setdefault(one.target, []).append(one)
        self._indexed = self.connections, len(self.connections), index
        return index.get(target, [])

    def _check_free(self, new: Connection, written: Selection) -> None:
        """Raise ValueError if a target element of the connection `new` is already connected.

        `written` contains the target elements of `new`.
        """
        for old in self._connections_to(new.target):
            if not (both := set(old.to) & set(new.to)):
                continue
            source, target = new.names
            adder = "WrenchSum" if "f_ext" in target else "Sum"
            whole = old.names[1] == target
            taken = target if whole else f"{new.target[0]}.{written.port.element_names[min(both)]}"
            raise ValueError(
                f"cannot connect {source} to {target}: {taken} is already connected to "
                f"{old.names[0]}; to add several sources, use a block such as {adder}"
            )

    @explain_calls()
    def expose(
        self,
        port: str | None = None,
        *,
        as_: str | None = None,
        hide: str | Iterable[str] | None = None,
    ) -> None:
        """Expose a port when the system becomes one block or FMU, and hide the other ports.

            system.expose("sum.y", as_="torque")

        A hidden output stays internal. A hidden input or parameter keeps its start value. A port
        that is exposed by name is visible even if a pattern in `hide` matches the port. If no call
        specifies `hide`, all other ports are hidden. Otherwise, only ports that match a pattern are
        hidden; `hide=()` hides no port. An exposed input without a start value starts at 0. Runs in
        Python ignore the names and patterns.

        Args:
            port: Output, unconnected input, state or parameter `part.port`.
            as_: Name of the exposed port. The default is the name of the port in its part.
            hide: Name patterns of the ports to hide, such as "robot.*".

        Raises:
            KeyError: The part or port is unknown.
            ValueError: The name is already used, or neither a port nor a pattern is given.
        """
        patterns = None if hide is None else (hide,) if isinstance(hide, str) else tuple(hide)
        names = dict(self.exposure.names)
        if port is not None:
            part, name = self._locate(port)
            known = self.parts[part].ports
            if name not in known:
                raise KeyError(
                    f"'{part}' has no port '{name}'; it has: {name_list(known)}"
                    f"{close_match_hint(name, known)}"
                )
            alias = port if as_ is None else as_
            others = {value for key, value in names.items() if key != port}
            taken = {f"{a}.{b}" for a in self.parts for b in self.parts[a].ports} - {port}
            if not alias or alias in others | taken:
                raise ValueError(
                    f"cannot expose {port} as '{alias}': another port of the system has this name"
                )
            names[port] = alias
            self._start_at_zero(part, name)
        elif as_ is not None or not patterns:
            raise ValueError(
                "expose needs a port such as 'sum.y' with a new name, patterns to hide, or both"
            )
        hidden = self.exposure.hidden
        if patterns is not None:
            hidden = (*(hidden or ()), *patterns)
        self.exposure = Exposure(names, hidden)

    def _start_at_zero(self, part: str, name: str) -> None:
        """Set the start value of an exposed input to 0 if it has none."""
        owner = self.parts[part]
        inputs = {port.name: port for port in owner.component.inputs}
        port = inputs.get(name)
        if port is None or port.start is not None or name in owner.start or port.type != "Real":
            return
        if not port.is_bounded or bool(np.all((port.lowest <= 0.0) & (port.max >= 0.0))):
            self.parts[part] = replace(owner, start={**owner.start, name: np.zeros(port.shape)})

    def draw(self, kind: str = "mermaid") -> Any:
        """Draw the diagram of the system.

        The diagram shows the parts in stepping order, with their ports, units and direct
        feedthrough. A solid line is a connection to an input with direct feedthrough. All other
        lines are dashed.

        Args:
            kind: Diagram type: "mermaid" for a string that notebooks, GitHub and GitLab draw, or
                "graphviz" for a `graphviz.Digraph`.

        Raises:
            ValueError: The diagram type is unknown, or the system has an algebraic loop.
            ImportError: The type is "graphviz" and the package graphviz is not installed.
        """
        kinds = {"mermaid": mermaid, "graphviz": graphviz}
        if kind not in kinds:
            raise ValueError(f"kind must be {' or '.join(kinds)}, not {kind!r}")
        return kinds[kind](diagram_content(self.wiring()))

    def __repr__(self) -> str:
        n = len(self.connections)
        return f"<System: {summary(self.parts.values()) or 'no parts'}; {n} connections>"

    def show(self, path: str | Path | None = None) -> Picture:
        """Return a page with the robots in their initial configuration and a slider per joint."""
        return picture(self, None, path)

    def _repr_markdown_(self) -> str | None:
        """Return the Mermaid diagram for notebooks, or None if it cannot be drawn."""
        try:
            return str(self.draw()._repr_markdown_())
        except ValueError:
            return None

    def wiring(self) -> Wiring:
        """Return the current wiring; later changes of the system do not affect the wiring."""
        wiring = Wiring(self.parts, tuple(self.connections))
        _check_open_units(wiring)
        return wiring

    def _locate(self, name: str) -> tuple[str, str]:
        part, dot, port = name.partition(".")
        if not dot and part in self.parts:
            ports = (*self.parts[part].component.outputs, *self.parts[part].component.inputs)
            known = name_list(f"{part}.{one.name}" for one in ports)
            raise KeyError(f"'{name}' needs a port name; write one of: {known}")
        if not dot or part not in self.parts:
            raise KeyError(
                f"unknown part '{part}' in '{name}'; write part.port with one of the parts: "
                f"{name_list(self.parts)}{close_match_hint(part, self.parts)}"
            )
        return part, port


def _check_types(name: str, **numbers: Any) -> None:
    for what, value in numbers.items():
        if value is not None and (isinstance(value, bool) or not isinstance(value, Real)):
            raise TypeError(f"{what} of '{name}' must be a number, not {value!r}")


def _check_own_integrator_options(
    name: str, fmu: Fmu, rtol: float | None, options: Mapping[str, Any]
) -> None:
    """Raise ValueError for options that an FMU does not support because it has an integrator."""
    unused = [f"{option}={value!r}" for option, value in options.items() if value is not None]
    if unused:
        mend = " or add it with kind='model exchange'" if fmu.description.modelExchange else ""
        raise ValueError(
            f"'{name}' is a {fmu.kind} FMU with its own integrator: it supports rtol, but not "
            f"{', '.join(unused)}; leave out these options{mend}"
        )
    method_of(ADAPTIVE, rtol)


def _port_text(name: str, selection: Selection) -> str:
    """Return the name, shape and units of a port for messages, such as `arm.q (2, rad)`."""
    items = [*map(str, selection.shape), unit_text(selection.units)]
    return f"{name} ({', '.join(filter(None, items)) or 'scalar'})"


def wiring_and_exposure(system: System | Wiring) -> tuple[Wiring, Exposure]:
    """Return the wiring and the exposed ports of a system; a `Wiring` exposes all ports."""
    if isinstance(system, Wiring):
        return system, EVERYTHING
    return system.wiring(), system.exposure


def _check_open_units(wiring: Wiring) -> None:
    """Check that each block with an unspecified unit is connected only to ports of one unit.

    The parameter `unit` of a block such as `Sum` is the unit of all its signals. If `unit` is
    empty, the connected ports determine the unit: a `Sum` does not add N.m and rad. Blocks with
    unspecified units that are connected to each other must have the same unit.

    Raises:
        ValueError: A block with an unspecified unit is connected to ports of different units.
    """
    open_ports = {name: _open_ports(part.component) for name, part in wiring.parts.items()}
    groups = {name: name for name in wiring.parts if open_ports[name]}

    def root(name: str) -> str:
        while groups[name] != name:
            name = groups[name]
        return name

    known: dict[str, tuple[str, str]] = {}  # unit, and the port that defines it
    ends = []
    for one in wiring.connections if groups else ():
        (a, y), (b, u) = one.source, one.target
        output, target = wiring.parts[a].output(y), wiring.parts[b].input(u)
        is_open = [p in open_ports[n] for n, p in (one.source, one.target)]
        if all(is_open):
            groups[root(a)] = root(b)
        elif any(is_open) and one.conversion is None:
            port, places = (output, one.start) if is_open[1] else (target, one.to)
            units = {port.units[k] for k in places} - {""}
            if len(units) == 1 and not port.meanings:
                ends.append(
                    (b if is_open[1] else a, units.pop(), one.names[0 if is_open[1] else 1])
                )
    for name, unit, port_name in ends:
        first, other = known.setdefault(root(name), (unit, port_name))
        if quantity_of(first) != quantity_of(unit):
            raise ValueError(
                f"'{name}' has one unit for all its signals, but {other} has the unit {first} and "
                f"{port_name} has the unit {unit}; set its unit, for example unit='{first}'"
            )


def _open_ports(component: Any) -> frozenset[str]:
    """Return the names of the ports whose unit is unknown because the parameter `unit` is empty.

    The result is empty if the parameter is not empty, or if these ports differ in shape.
    """
    if getattr(component, "unit", None) != "" or not is_dataclass(component):
        return frozenset()
    block: Any = component
    try:
        given = replace(block, unit="K")  # an arbitrary unit
    except (TypeError, ValueError):
        return frozenset()
    ports = (*given.inputs, *given.outputs)
    open_ports = [port for port in ports if port.unit == "K"]
    same_shape = len({port.shape for port in open_ports}) == 1
    return frozenset(port.name for port in open_ports) if same_shape else frozenset()


@dataclass(frozen=True)
class DiagramContent:
    """Content of a diagram: the text lines of each part, and the connections between the parts.

    A connection is a tuple (from, to, text, has_feedthrough). `has_feedthrough` is true if an
    output of the target part depends directly on the connected input.
    """

    parts: dict[str, tuple[str, ...]]
    connections: tuple[tuple[str, str, str, bool], ...]


def diagram_content(wiring: Wiring) -> DiagramContent:
    """Return the content of a diagram, with the parts in stepping order."""
    order = wiring.stepping_order
    parts = {name: tuple(_lines(wiring, k, wiring.parts[name])) for k, name in enumerate(order, 1)}
    return DiagramContent(parts, tuple(_connection(wiring, one) for one in wiring.connections))


def mermaid(content: DiagramContent) -> Diagram:
    """Return the diagram as Mermaid text, which GitHub, GitLab and notebooks draw."""
    ids, lines = _ids(content), ["flowchart LR"]
    for name, texts in content.parts.items():
        lines.append(f'    {ids[name]}["{"<br>".join(map(mermaid_text, texts))}"]')
    for a, b, text, has_feedthrough in content.connections:
        arrow = "-->" if has_feedthrough else "-.->"
        lines.append(f'    {ids[a]} {arrow}|"{mermaid_text(text)}"| {ids[b]}')
    return Diagram("\n".join(lines))


def graphviz(content: DiagramContent) -> Any:
    """Return the diagram as a `graphviz.Digraph`; raise ImportError if graphviz is missing."""
    try:
        package = import_module("graphviz")
    except ImportError as error:
        raise ImportError(
            f"kind='graphviz' needs the package graphviz ({install_command('graphviz')}); "
            "draw('mermaid') needs no package"
        ) from error
    graph, ids = package.Digraph(graph_attr={"rankdir": "LR"}), _ids(content)
    for name, texts in content.parts.items():
        graph.node(ids[name], package.escape("\n".join(texts)), shape="box")
    for a, b, text, has_feedthrough in content.connections:
        style = "solid" if has_feedthrough else "dashed"
        graph.edge(ids[a], ids[b], package.escape(text), style=style)
    return graph


def _ids(content: DiagramContent) -> dict[str, str]:
    """Return an identifier for each part that is valid in both diagram languages."""
    return {name: f"part{k}" for k, name in enumerate(content.parts)}


def port_text(port: Port) -> str:
    """Return the name, shape and units of a port, such as `q (2) rad`."""
    shape = f" ({', '.join(map(str, port.shape))})" if port.shape else ""
    units = unit_text(unit for unit in port.units if unit not in ("", "1"))
    return f"{port.name}{shape} {units}".rstrip()


def _lines(wiring: Wiring, k: int, part: Part) -> Iterator[str]:
    component = part.component
    kind = component.path.name if isinstance(component, Fmu) else type(component).__name__
    yield f"{k}. {part.name}: {kind}"
    sample_time = getattr(component, "sample_time", None)
    if sample_time is not None:
        yield f"every {sample_time:g} s"
    taken = {one.target for one in wiring.connections}
    for title, ports in (
        ("open", [p for p in component.inputs if (part.name, p.name) not in taken]),
        ("in", [p for p in component.inputs if (part.name, p.name) in taken]),
        ("out", component.outputs),
    ):
        if ports:
            yield f"{title}: {', '.join(map(port_text, ports))}"
    pairs = sorted(wiring.feedthrough[part.name])
    for output in dict.fromkeys(y for _, y in pairs):
        inputs = [u for u, y in pairs if y == output]
        yield f"at once: {', '.join(inputs)} -> {output}"


def _connection(wiring: Wiring, connection: Connection) -> tuple[str, str, str, bool]:
    (a, _), (b, u) = connection.source, connection.target
    y, to = (name.partition(".")[2] for name in connection.names)
    has_feedthrough = any(source == u for source, _ in wiring.feedthrough[b])
    return a, b, y if y == to else f"{y} to {to}", has_feedthrough


def summary(parts: Iterable[Part]) -> str:
    """Return the parts in one line of text, such as `pd (PDController), robot (RobotPlant)`."""
    return ", ".join(
        f"{p.name} ({'FMU' if isinstance(p.component, Fmu) else type(p.component).__name__})"
        for p in parts
    )
