"""Connections between parts; evaluation order and stepping order of parts."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from heapq import heappop, heappush
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from rigidblocks.block.block import Port
from rigidblocks.block.port import TEXTUAL, decode_value
from rigidblocks.block.units import Conversion
from rigidblocks.common.doc_links import add_doc_link
from rigidblocks.common.name_hints import close_match_hint
from rigidblocks.cosim.graph.directed_graphs import (
    components_by_node,
    contains_cycle,
    has_cycle,
    reachable,
    strong_components,
)
from rigidblocks.cosim.graph.fmu_part import Fmu
from rigidblocks.cosim.graph.part import (
    Dependencies,
    Part,
    Selection,
    check_configuration,
    combine_start_values,
    conversion_between,
    element_dependencies,
    element_port,
    name_list,
    port_elements,
    port_pairs,
    select_all,
    select_elements,
    split_name,
    start_dependencies,
    start_port_dependencies,
    start_values,
)
from rigidblocks.kernels.traced_evaluator import DependencyGroup

Node = tuple[Any, ...]  # (part, "input" or "output", port[, element])
Reads = dict[Node, set[Node]]
_TOPOLOGY = (  # cached properties that do not depend on the start values
    "outputs",
    "wires",
    "evaluation_order",
    "stepping_order",
    "feedthrough",
    "_ignored_dependencies",
    "initialization",
)
_WHOLE = -1  # element index of a node that is a whole port
PartPort = tuple[str, str]


class Connection(NamedTuple):
    """Connection from elements of an output to elements of an input.

    Attributes:
        source: Pair (part, port) of the output.
        target: Pair (part, port) of the input.
        start: Indices of the output elements, in C order.
        to: Indices of the input elements, in C order.
        names: Names of the source and the target, as passed to `connect`.
        conversion: Conversion that the caller of `connect` specified, or None.
    """

    source: PartPort
    target: PartPort
    start: tuple[int, ...]
    to: tuple[int, ...]
    names: tuple[str, str]
    conversion: Conversion | None = None


class Wire(NamedTuple):
    """Connection from adjacent output elements to the same number of adjacent input elements.

    Attributes:
        source: Pair (part, port) of the output.
        target: Pair (part, port) of the input.
        start: Index of the first output element.
        to: Index of the first input element.
        length: Number of elements.
    """

    source: PartPort
    target: PartPort
    start: int
    to: int
    length: int


class Evaluation(NamedTuple):
    """Evaluation of one part during initialization.

    `outputs` contains the output elements (port, index) whose values are final after this
    evaluation.
    """

    part: str
    outputs: frozenset[tuple[str, int]]


class StartGroup(NamedTuple):
    """Parts that are initialized together: a strongly connected component of the connection graph.

    Attributes:
        parts: Parts of one cycle of connections, or a single part.
        evaluations: Evaluations of these parts, in order.
        is_cycle: True if connections between these parts form a cycle, or if a single part is
            connected to itself.
        is_loop: True if outputs of these parts form an algebraic loop at initialization.
    """

    parts: tuple[str, ...]
    evaluations: tuple[Evaluation, ...]
    is_cycle: bool
    is_loop: bool


@dataclass(frozen=True, eq=False)
class Wiring:
    """Immutable copy of the parts and connections of a system.

    Derived properties are computed on first use and cached.

    Each input element is the target of at most one of the `connections`. `merged` contains the
    names of parts that combine several original parts. A port of a merged part has the name
    `part.port` of the port in the original part.
    """

    parts: Mapping[str, Part]
    connections: tuple[Connection, ...] = ()
    merged: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", MappingProxyType(dict(self.parts)))

    def __reduce__(self) -> tuple[type["Wiring"], tuple[Any, ...]]:
        # a mapping proxy cannot be pickled
        return Wiring, (dict(self.parts), self.connections, self.merged)

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """Outputs of all parts, each with the name `part.port`."""
        return tuple(
            port.rename(self.whole_name(name, port.name))
            for name, part in self.parts.items()
            for port in part.component.outputs
        )

    def whole_name(self, part: str, port: str) -> str:
        """Return the name `part.port` of a port; ports of merged parts already have this form."""
        return port if part in self.merged else f"{part}.{port}"

    def locate_port(self, name: str) -> tuple[str, str]:
        """Split a name such as `pd.kp[1]` into the part "pd" and the port "kp[1]".

        For a merged part, the port is the whole name. A name with an unknown part is split at the
        first dot.
        """
        owner = self._owners.get(split_name(name)[0])
        part, _, port = name.partition(".")
        return (part, port) if owner is None else (owner, name)

    @cached_property
    def _owners(self) -> dict[str, str]:
        """Mapping of ports `part.port` to the names of the merged parts that contain them."""
        return {port: name for name in self.merged for port in self.parts[name].ports}

    @cached_property
    def wires(self) -> tuple[Wire, ...]:
        """Wires of all connections; each wire connects adjacent elements of two ports."""
        return tuple(wire for connection in self.connections for wire in _runs(connection))

    def wires_to(self, part: str) -> Sequence[Wire]:
        """Return the wires to the inputs of a part."""
        return self._wires_by_part.get(part, ())

    @cached_property
    def _wires_by_part(self) -> Mapping[str, Sequence[Wire]]:
        wires: dict[str, list[Wire]] = {}
        for wire in self.wires:
            wires.setdefault(wire.target[0], []).append(wire)
        return wires

    def conversion(self, wire: Wire) -> Conversion | None:
        """Return the unit conversion of a wire, or None if the values do not change.

        A connection between two blocks needs no unit conversion, because all ports of blocks have
        coherent SI units.
        """
        (a, y), (b, u), start, to, n = wire
        if (b, u, to) in self._conversions:
            given, k = self._conversions[b, u, to]
            return _slice_conversion(given, slice(k, k + n))
        output, target = self.parts[a].output(y), self.parts[b].input(u)
        return conversion_between(output, range(start, start + n), target, range(to, to + n))

    @cached_property
    def _conversions(self) -> Mapping[tuple[str, str, int], tuple[Conversion, int]]:
        """Mapping of input elements (part, port, index) to conversions defined by the user.

        Each value is a pair: the conversion of a connection, and the index of the element in the
        connection.
        """
        return {
            (*one.target, to): (one.conversion, k)
            for one in self.connections
            if one.conversion is not None
            for k, to in enumerate(one.to)
        }

    def replace_start_values(self, start: Mapping[str, Any]) -> "Wiring":
        """Return a copy of the wiring with other start values.

        Args:
            start: Start values by `part.port`.

        Raises:
            KeyError: A name is unknown.
            ValueError: A value does not fit its port.
            TypeError: `start` is not a mapping.
        """
        if not isinstance(start, Mapping):
            raise TypeError(
                f"start values must be a mapping by name, such as {{'pd.kp': 60.0}}, not {start!r}"
            )
        given: dict[str, dict[str, Any]] = {name: {} for name in self.parts}
        for name, value in start.items():
            part, port = self.locate_port(str(name))
            if part in given and not port:
                raise KeyError(
                    f"the start value '{name}' needs a port name; write '{name}.' followed by a "
                    "port"
                )
            if part not in given:
                raise KeyError(
                    f"unknown part '{part}' in the start value '{name}'; write part.port with one "
                    f"of the parts: {name_list(given)}{close_match_hint(part, given)}"
                )
            given[part][port] = value
        parts = dict(self.parts)
        for name, values in given.items():
            if values:
                old = parts[name]
                values = start_values(name, old.component, values)
                check_configuration(name, old.component, values)
                parts[name] = replace(
                    old, start=combine_start_values(old.component, old.start, values)
                )
        other = Wiring(parts, self.connections, self.merged)
        vars(other).update({name: known for name, known in vars(self).items() if name in _TOPOLOGY})
        return other

    def start_by_port(self, given: Iterable[tuple[str, Any]]) -> dict[str, Any]:
        """Convert start values of ports and of port elements to start values by `part.port`.

        The value of an element such as `pd.kp[1]` replaces this element in the start value of its
        port; the other elements are unchanged. An unknown name stays in the result, and
        `replace_start_values` then raises an error that lists the known names.
        """
        start: dict[str, Any] = {}
        for name, value in given:
            part, rest = self.locate_port(name)
            port_name, index = split_name(rest)
            ports = self.parts[part].start_ports if part in self.parts else {}
            if index is None or port_name not in ports:
                start[name] = value
                continue
            port, key = ports[port_name], self.whole_name(part, port_name)
            carrier = np.zeros(port.shape) if port.start is None else np.asarray(port.start, float)
            is_text = port.type in TEXTUAL
            before = decode_value(carrier, port.type) if is_text else carrier
            values = np.array(start.get(key, before), dtype=object if is_text else float)
            if values.ndim == 0:  # one value for all elements
                values = np.full(port.shape, values, dtype=values.dtype)
            values.reshape(-1)[list(select_elements(port, index, name).places)] = np.ravel(value)
            start[key] = values
        return start

    def locate_elements(self, name: str) -> tuple[str, Selection]:
        """Return the part and the port elements for a name such as `pd.kp` or `pd.kp[1]`.

        Raises:
            KeyError: The part or port is unknown, or has no start value.
            ValueError: The elements do not exist.
        """
        part, rest = self.locate_port(name)
        port_name, index = split_name(rest)
        ports = self.parts[part].start_ports if part in self.parts else {}
        if port_name not in ports:
            self.replace_start_values({name: 0.0})  # raises an error that lists the known names
            raise KeyError(f"'{name}' has no start value")
        port = ports[port_name]
        return part, select_all(port) if index is None else select_elements(port, index, name)

    @cached_property
    def open_inputs(self) -> tuple[tuple[str, Port], ...]:
        """Unconnected inputs as pairs (part, port), ordered by part name.

        In a partly connected input, each unconnected element is a separate port, such as `tau[2]`.

        Raises:
            ValueError: An unconnected input has no start value.
        """
        return tuple(self._open_inputs())

    def _open_inputs(self) -> Iterator[tuple[str, Port]]:
        connected: dict[tuple[str, str], set[int]] = {}
        for one in self.connections:
            connected.setdefault(one.target, set()).update(one.to)
        for name, part in sorted(self.parts.items()):
            for port in part.component.inputs:
                start = part.start.get(port.name, port.start)
                taken = connected.get((name, port.name), set())
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
        """Order of part evaluations that computes all outputs from the states.

        A part may occur repeatedly.

        Raises:
            ValueError: The ports form an algebraic loop (the message lists its ports), or the
                system has no parts.
        """
        if not self.parts:
            raise ValueError("the system has no parts: add blocks or FMU files")
        try:
            order = _parts_in_order(self._reads())
        except CycleError:  # a cycle of whole ports may contain no cycle of port elements
            try:
                order = _parts_in_order(self.element_reads())
            except CycleError as error:
                nodes = [node for node in error.args[1] if node[1] != "group"]
                loop = dict.fromkeys(f"{name}.{port}" for name, _, port, _ in nodes)
                refused = ValueError(
                    "algebraic loop; each port reads the previous one at the same instant: "
                    f"{' -> '.join((*loop, next(iter(loop))))}"
                )
                raise add_doc_link(refused, "algebraic loops") from None
        order += sorted(name for name in self.parts if name not in order)  # parts without outputs
        again = self.self_connected
        return tuple(
            name for k, name in enumerate(order) if k == 0 or order[k - 1] != name or name in again
        )

    @property
    def self_connected(self) -> frozenset[str]:
        """Parts with a self-loop: an output is connected to an input of the same part.

        Such a part is evaluated up to twice in succession.
        """
        return frozenset(a for (a, _), (b, _), *_ in self.connections if a == b)

    @cached_property
    def has_loops(self) -> bool:
        """True if the system has an algebraic loop."""
        for reads in (
            self._reads,
            self.element_reads,
        ):  # no port loop implies no element loop
            try:
                _parts_in_order(reads())
            except CycleError:
                continue
            return False
        return True

    def _reads(self) -> Reads:
        """Return the graph of direct feedthrough, which maps each port to the ports that it reads.

        An input reads its source, and an output reads inputs of its part.
        """
        reads: Reads = {}
        for (a, y), (b, u), *_ in self.connections:
            reads.setdefault((b, "input", u), set()).add((a, "output", y))
        for name, part in sorted(self.parts.items()):
            for port in part.component.outputs:
                reads[name, "output", port.name] = set()
            for u, y in part.feedthrough:
                reads[name, "output", y].add((name, "input", u))
        return reads

    def element_reads(self) -> Reads:
        """Return the graph of direct feedthrough between port elements.

        A node is a port element or a group of inputs. The key of a port element is (part, "input"
        or "output", port, index). The key of a group is (part, "group", type, index), where the
        type is "known" for declared dependencies. An input reads its source. An output reads inputs
        or groups of inputs. Undeclared dependencies that form a cycle are omitted.
        """
        return self._graph(self._element_dependencies, self._ignored_dependencies)

    @cached_property
    def algebraic_loops(self) -> tuple[frozenset[Node], ...]:
        """Port elements of each algebraic loop of the system."""
        if not self.has_loops:
            return ()
        circles = components_by_node(self.element_reads()).values()
        return tuple(dict.fromkeys(circle for circle in circles if len(circle) > 1))

    @cached_property
    def _element_dependencies(self) -> Mapping[str, Dependencies]:
        return {name: element_dependencies(part) for name, part in self.parts.items()}

    def _graph(
        self,
        dependencies: Mapping[str, Dependencies],
        ignored: Mapping[str, DependencyGroup],
        by_element: bool = True,
    ) -> Reads:
        """Return the dependency graph of port elements, or of whole ports if `by_element` is false.

        `ignored` maps part names to undeclared dependencies, which the graph omits.
        """
        reads: Reads = {}
        for name, part in sorted(self.parts.items()):
            for port in part.component.outputs:
                for k in range(port.size) if by_element else (_WHOLE,):
                    reads[name, "output", port.name, k] = set()
        for (a, y), (b, u), start, to, *_ in self.connections:
            for i, j in zip(start, to, strict=True) if by_element else ((_WHOLE, _WHOLE),):
                reads.setdefault((b, "input", u, j), set()).add((a, "output", y, i))
        for name, part in sorted(self.parts.items()):
            known, undeclared = dependencies[name]
            for k, group in enumerate(known):
                _add_group(reads, name, group, ("known", k))
            if undeclared:
                inputs = part.component.inputs
                every = port_elements(inputs) if by_element else {(u.name, _WHOLE) for u in inputs}
                without, some = ignored.get(name, DependencyGroup(frozenset(), frozenset()))
                rest = DependencyGroup(frozenset(every - without), some)
                whole = DependencyGroup(frozenset(every), undeclared - some)
                _add_group(reads, name, rest, ("rest", 0))
                _add_group(reads, name, whole, ("every", 0))
        return reads

    def _undeclared_cycles(
        self, dependencies: Mapping[str, Dependencies]
    ) -> dict[str, DependencyGroup]:
        """Return, for each part, the undeclared dependencies that form cycles.

        If the dependencies of an output are undeclared, the output may depend on every input of its
        part. All such outputs of a part that are in cycles are therefore in one strongly connected
        component.
        """
        found: dict[str, DependencyGroup] = {}
        for circle in strong_components(self._graph(dependencies, {})):
            ends: dict[str, tuple[set[Any], set[Any]]] = {}
            for name, kind, port, k in circle if len(circle) > 1 else ():
                if kind != "group":
                    inputs, outputs = ends.setdefault(name, (set(), set()))
                    (inputs if kind == "input" else outputs).add((port, k))
            for name, (inputs, outputs) in ends.items():
                if some := dependencies[name].undeclared & outputs:
                    found[name] = DependencyGroup(frozenset(inputs), some)
        return found

    @cached_property
    def _ignored_dependencies(self) -> Mapping[str, DependencyGroup]:
        """Undeclared dependencies of each FMU that the stepping order ignores."""
        fmus = (one.component for one in self.parts.values() if isinstance(one.component, Fmu))
        if not any(fmu.undeclared for fmu in fmus) or not has_cycle(self._reads()):
            return {}
        return self._undeclared_cycles(self._element_dependencies)

    @cached_property
    def feedthrough(self) -> Mapping[str, frozenset[tuple[str, str]]]:
        """Feedthrough pairs (input, output) of each part, which determine the stepping order.

        Undeclared dependencies that form a cycle are omitted.
        """
        found = {name: part.feedthrough for name, part in self.parts.items()}
        for name, (inputs, outputs) in self._ignored_dependencies.items():
            known, undeclared = self._element_dependencies[name]
            every = port_elements(self.parts[name].component.inputs)
            groups = (
                *known,
                DependencyGroup(every - inputs, outputs),
                DependencyGroup(every, undeclared - outputs),
            )
            found[name] = frozenset(port_pairs(groups))
        return found

    @property
    def undeclared_parts(self) -> tuple[str, ...]:
        """Names of FMUs with undeclared dependencies that the stepping order ignores.

        The names are in stepping order.
        """
        names = self._ignored_dependencies
        return tuple(name for name in self.stepping_order if name in names) if names else ()

    @cached_property
    def initialization(self) -> tuple[StartGroup, ...]:
        """Strongly connected components of the connection graph, in initialization order.

        Each component follows the components that it reads. The evaluations of the components
        determine all outputs at initialization. The dependencies of the outputs on the inputs
        determine the order of the evaluations. An FMU declares these dependencies for its
        initial unknowns and outputs. For a block, they follow from the traced expressions.
        Undeclared dependencies affect the order only outside loops.
        """
        reads, components = self._start_components()
        loops = {node[0] for c in components if contains_cycle(c, reads) for node in c}
        sources: dict[str, set[str]] = {name: set() for name in sorted(self.parts)}
        for (a, _), (b, _), *_ in self.connections:
            sources[b].add(a)
        groups = strong_components(sources)
        number = {name: k for k, group in enumerate(groups) for name in group}
        evaluations: list[list[Evaluation]] = [[] for _ in groups]
        for one in _evaluations(components, reads):
            evaluations[number[one.part]].append(self._expand_elements(one))
        found = []
        for group, own in zip(groups, evaluations, strict=True):
            parts = tuple(dict.fromkeys([*(one.part for one in own), *sorted(group)]))
            circle = len(group) > 1 or bool(sources[parts[0]] & group)
            found.append(StartGroup(parts, tuple(own), circle, bool(loops & group)))
        return tuple(found)

    @cached_property
    def initialization_order(self) -> tuple[str, ...]:
        """Parts in the order of their evaluations at initialization.

        A part may occur repeatedly. A part with sampled states occurs again after the parts that it
        reads, even if its outputs do not depend on these parts at initialization.
        """
        sources: dict[str, set[str]] = {name: set() for name in self.parts}
        for (a, _), (b, _), *_ in self.connections:
            if getattr(self.parts[b].component, "sampled", ()):
                sources[b].add(a)
        order: list[str] = []
        last: dict[str, int] = {}  # index of the last evaluation of each part
        for group in self.initialization:
            order += [one.part for one in group.evaluations]
            last |= {name: k for k, name in enumerate(order)}
            order += [
                name
                for name in group.parts
                if name not in last or any(last.get(a, -1) > last[name] for a in sources[name])
            ]
        return tuple(order)

    @property
    def start_loop(self) -> tuple[str, ...]:
        """Outputs `part.port` in an algebraic loop at initialization; empty if no loop exists."""
        reads, components = self._start_components()
        loop = next((sorted(one) for one in components if contains_cycle(one, reads)), [])
        names = (self.whole_name(part, y) for part, kind, y, _ in loop if kind == "output")
        return tuple(dict.fromkeys(names))

    def _start_components(self) -> tuple[Reads, list[frozenset[tuple[Any, ...]]]]:
        """Return the dependency graph at initialization, and its strongly connected components.

        Each component follows the components that it reads. The nodes are ports; if ports form a
        cycle, the nodes are port elements.
        """
        reads = self._graph(self._start_port_dependencies(), {}, by_element=False)
        components = strong_components(reads)
        if any(contains_cycle(c, reads) for c in components):
            elements = {name: start_dependencies(part) for name, part in self.parts.items()}
            reads = self._graph(elements, self._undeclared_cycles(elements))
            components = strong_components(reads)
        return reads, components

    def _start_port_dependencies(self) -> dict[str, Dependencies]:
        """Return the dependencies between the ports of each part at initialization."""
        found = {}
        for name, part in self.parts.items():
            pairs, undeclared = start_port_dependencies(part)
            groups = (
                DependencyGroup(frozenset({(u, _WHOLE)}), frozenset({(y, _WHOLE)}))
                for u, y in sorted(pairs)
            )
            found[name] = Dependencies(tuple(groups), frozenset((y, _WHOLE) for y in undeclared))
        return found

    def _expand_elements(self, evaluation: Evaluation) -> Evaluation:
        """Replace each whole port in an evaluation by its elements."""
        part = self.parts[evaluation.part]
        return Evaluation(
            evaluation.part,
            frozenset(
                (y, i)
                for y, k in evaluation.outputs
                for i in (range(part.output(y).size) if k == _WHOLE else (k,))
            ),
        )

    @cached_property
    def stepping_order(self) -> tuple[str, ...]:
        """Parts in the order of a Gauss-Seidel step.

        A part steps after the parts that it reads by direct feedthrough. Undeclared dependencies of
        FMUs count as direct feedthrough only if they form no cycle. If parts form a cycle of direct
        feedthrough without an algebraic loop of ports, all other parts that they read step first.

        If several parts can step next, the following keys are compared in order. The part with the
        smallest key steps first. The keys count only source parts that have not stepped yet.

        - 0 if the part reads no source by direct feedthrough, otherwise 1.
        - Number of sources that the part reads by direct feedthrough to its connected outputs.
        - Number of sources of a sampled part without continuous states; 0 for all other parts.
        - Number of sources that the part reads through undeclared dependencies that form a cycle.
        - Name of the part, in alphabetical order.

        Raises:
            ValueError: Known dependencies form an algebraic loop.
        """
        _ = self.evaluation_order  # raises ValueError for an algebraic loop
        waits = self._feedthrough_sources(connected=False)
        connected = self._feedthrough_sources(connected=True)
        sources = waits, connected, self._sources_of_samplers(), self._undeclared_sources()
        # number of sources of each kind that are not in the order yet
        counts = {name: [len(one[name]) for one in sources] for name in self.parts}
        readers: dict[str, list[tuple[int, str]]] = {name: [] for name in self.parts}
        for k, one in enumerate(sources):
            for b, some in one.items():
                for a in some:
                    readers[a].append((k, b))

        def readiness(name: str) -> tuple[Any, ...]:
            return bool(counts[name][0]), *counts[name][1:], name

        order: list[str] = []
        left = set(self.parts)
        queue = sorted(map(readiness, left))
        while left:
            later = []  # parts that must wait for a remaining part outside their cycle
            while True:
                entry = heappop(queue)
                name = entry[-1]
                if name not in left or entry != readiness(name):
                    continue  # the queue entry is obsolete
                if _is_in_closed_cycle(name, waits, left):
                    break
                later.append(entry)
            order.append(name)
            left.remove(name)
            changed = set[str]()
            for k, b in readers[name]:
                counts[b][k] -= 1
                changed.add(b)
            for again in (*later, *map(readiness, changed & left)):
                heappush(queue, again)
        return tuple(order)

    def _sources_of_samplers(self) -> dict[str, set[str]]:
        """Map each sampled part without continuous states to the parts that it reads.

        All other parts map to an empty set.
        """
        found: dict[str, set[str]] = {name: set() for name in self.parts}
        for (a, _), (b, _), *_ in self.connections:
            if a != b and self.parts[b].only_samples:
                found[b].add(a)
        return found

    def _undeclared_sources(self) -> dict[str, set[str]]:
        """Map each part to its sources in undeclared dependencies that form cycles.

        The stepping order ignores these dependencies (`_ignored_dependencies`).
        """
        read = {
            (name, u) for name, group in self._ignored_dependencies.items() for u, _ in group.inputs
        }
        found: dict[str, set[str]] = {name: set() for name in self.parts}
        for (a, _), (b, u), *_ in self.connections:
            if a != b and (b, u) in read:
                found[b].add(a)
        return found

    def _feedthrough_sources(self, connected: bool) -> dict[str, set[str]]:
        """Return the parts on which each part depends by direct feedthrough.

        If `connected` is true, only the connected outputs of each part count.
        """
        read = {one.source for one in self.connections}
        waits: dict[str, set[str]] = {name: set() for name in self.parts}
        for (a, _), (b, u), *_ in self.connections:
            outputs = [y for source, y in self.feedthrough[b] if source == u]
            if a != b and any(not connected or (b, y) in read for y in outputs):
                waits[b].add(a)
        return waits


def _add_group(reads: Reads, name: str, group: DependencyGroup, number: tuple[str, int]) -> None:
    """Add the dependencies of a group of outputs of part `name` on a group of inputs.

    If an extra node for the group of inputs reduces the number of edges, the node is added. Its key
    ends with `number`, which contains the type and the index of the group.
    """
    inputs = {(name, "input", u, i) for u, i in group.inputs}
    outputs = [(name, "output", y, j) for y, j in group.outputs]
    if len(inputs) * len(outputs) > len(inputs) + len(outputs):
        node = (name, "group", *number)
        reads[node] = inputs
        inputs = {node}
    for output in outputs:
        reads[output] |= inputs


def _evaluations(
    components: Sequence[frozenset[tuple[Any, ...]]], reads: Reads
) -> Iterator[Evaluation]:
    """Yield part evaluations in an order that computes all outputs of the graph.

    The output nodes are (part, "output", port, index). Each evaluation contains all outputs of the
    part that depend only on outputs of earlier evaluations.
    """
    number = {node: k for k, component in enumerate(components) for node in component}
    sources = [
        {number[one] for node in component for one in reads.get(node, ())} - {k}
        for k, component in enumerate(components)
    ]
    readers: list[list[int]] = [[] for _ in components]
    for k, some in enumerate(sources):
        for one in some:
            readers[one].append(k)
    outputs = [[node for node in one if node[1] == "output"] for one in components]
    missing = [len(some) for some in sources]  # number of undetermined sources
    ready: dict[str, set[int]] = {}  # output components of each part that can be evaluated now
    known = [False] * len(components)

    def mark(found: list[int]) -> None:
        """Mark the components `found` as known, and find the components to evaluate next."""
        while found:
            k = found.pop()
            known[k] = True
            for one in readers[k]:
                missing[one] -= 1
                if not missing[one]:
                    mark_ready(one, found)

    def mark_ready(k: int, found: list[int]) -> None:
        if not outputs[k]:
            found.append(k)
        elif len(components[k]) == 1:
            ready.setdefault(outputs[k][0][0], set()).add(k)

    first = [k for k, count in enumerate(missing) if not count]
    found: list[int] = []
    for k in first:
        mark_ready(k, found)
    mark(found)
    for k, component in enumerate(components):
        if known[k]:
            continue
        taken = sorted(ready.pop(outputs[k][0][0])) if len(component) == 1 else [k]
        nodes = [node for one in taken for node in outputs[one]]
        for part in sorted({node[0] for node in outputs[k]}):
            yield Evaluation(part, frozenset((y, i) for a, _, y, i in nodes if a == part))
        mark(taken)


def _parts_in_order(reads: Reads) -> list[str]:
    """Return the parts in topological order of the graph `reads`; raise CycleError for a cycle."""
    ports = TopologicalSorter(reads).static_order()
    return [name for name, kind, *_ in ports if kind == "output"]


def _is_in_closed_cycle(name: str, waits: Mapping[str, set[str]], left: set[str]) -> bool:
    """Return True if a part depends only on remaining parts that also depend on it.

    The result is also True if the part depends on no remaining part. `waits` maps each part to the
    parts on which it depends directly. `left` contains the remaining parts.
    """
    return all(name in reachable(one, waits, left) for one in reachable(name, waits, left))


def _runs(connection: Connection) -> Iterator[Wire]:
    source, target, start, to, *_ = connection
    begin = 0
    for k in range(1, len(to) + 1):
        ends = k == len(to) or (start[k], to[k]) != (start[k - 1] + 1, to[k - 1] + 1)
        if ends:
            yield Wire(source, target, start[begin], to[begin], k - begin)
            begin = k


def _slice_conversion(conversion: Conversion, elements: slice) -> Conversion | None:
    """Return the conversion of the elements in a slice, or None if it changes no values."""
    factor, offset, table = (
        conversion.factor[elements],
        conversion.offset[elements],
        conversion.table,
    )
    changes = table or np.any(factor != 1.0) or np.any(offset)
    return Conversion(factor, offset, table) if changes else None


def check_start(wiring: Wiring, remedy: str) -> None:
    """Check that no algebraic loop exists at initialization.

    Raises:
        ValueError: A loop exists; the message names its outputs and ends with `remedy`.
    """
    if loop := wiring.start_loop:
        refused = ValueError(
            f"algebraic loop at the start through {', '.join(loop)}: change `initial` of one "
            f"of the blocks such that it does not read the block's inputs{remedy}"
        )
        raise add_doc_link(refused, "algebraic loops")
