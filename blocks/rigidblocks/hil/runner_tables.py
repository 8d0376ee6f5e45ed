"""C tables of a runner: memory layout and parts (`parts.h`), and links (`links.h`)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from rigidblocks.block.adaptive_methods import memory_for
from rigidblocks.block.block import Block
from rigidblocks.block.memory_layout import Memory
from rigidblocks.block.port import Port
from rigidblocks.common.arrays import Array
from rigidblocks.cosim.graph.fmu_part import Fmu
from rigidblocks.cosim.graph.part import Part, places
from rigidblocks.cosim.graph.system import System
from rigidblocks.cosim.masters.run_plan import Plan, make_plan
from rigidblocks.hil.can_link import EXTENDED, CanLink, Message, Signal
from rigidblocks.hil.fmu_tables import (
    DOUBLE,
    check_fmu,
    fmu_text,
    library_of,
    numeric_ports,
    part_members,
    tunable_ports,
)
from rigidblocks.hil.links import Link
from rigidblocks.kernels.model_header import KERNEL, model_header, prefix_symbols
from rigidblocks.kernels.traced_evaluator import TracedEvaluator
from rigidblocks.tracing.c_notation import c_comment, c_string
from rigidblocks.tracing.ccode import c_number, c_text


@dataclass(frozen=True, eq=False)
class Layout:
    """Memory layout of a system, with the ports that other programs can access.

    Attributes:
        size: Number of values in the memory.
        where: Memory slice of each port, by name `part.port`.
        outputs: Outputs of the parts.
        inputs: Unconnected inputs.
        parameters: Parameters that may change during a run.
    """

    size: int
    where: Mapping[str, slice]
    outputs: tuple[Port, ...]
    inputs: tuple[Port, ...]
    parameters: tuple[Port, ...]


def layout_of(memory: Memory) -> Layout:
    """Convert the `Memory` of a fused system to a `Layout`."""
    block = memory.block
    ports = block.outputs, block.inputs, tuple(memory.parameters)
    return Layout(memory.size, memory.where, *ports)


@dataclass(frozen=True, eq=False)
class SequentialParts:
    """Parts of a runner with FMUs: the parts step in sequence and share one memory vector.

    The memory vector contains the memory vector of each block, and the port values of each FMU.

    Raises ValueError for an FMU that a runner does not support, and the exceptions of `simulate`
    for the system.
    """

    system: System
    dt: float
    order: str

    def __post_init__(self) -> None:
        for part in self.fmus:
            check_fmu(part)

    @cached_property
    def plan(self) -> Plan:
        """Plan of a run with the same stepping order as in `simulate`."""
        return make_plan(self.system, self.dt, options={"order": self.order})

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """Parts in the order in which they step."""
        return tuple(self.plan.wiring.parts[name] for name in self.plan.stepping_order)

    @cached_property
    def fmus(self) -> tuple[Part, ...]:
        """FMUs in the order in which they were added."""
        return tuple(p for p in self.system.parts.values() if isinstance(p.component, Fmu))

    @cached_property
    def memories(self) -> dict[str, Memory]:
        """Memory layouts of the blocks, by part name."""
        return {
            part.name: memory_for(part.component, part.stepping[0])
            for part in self.parts
            if isinstance(part.component, Block)
        }

    @cached_property
    def first(self) -> dict[str, int]:
        """First memory index of each part, by part name.

        The additional key "" has the memory size as its value.
        """
        ends = np.cumsum([0, *map(self._size, self.parts)]).tolist()
        return dict(zip([*(part.name for part in self.parts), ""], ends, strict=True))

    @cached_property
    def layout(self) -> Layout:
        """Layout of the memory that all parts share."""
        wiring, where = self.plan.wiring, {}
        for part in self.parts:
            first = self.first[part.name]
            for name, place in self._port_slices(part).items():
                there = slice(first + place.start, first + place.stop)
                where[wiring.whole_name(part.name, name)] = there
        outputs = tuple(port for port in wiring.outputs if port.name in where)
        inputs = []
        for name, port in wiring.open_inputs:
            if port.type not in DOUBLE:  # other types do not accept arbitrary numbers
                continue
            if port.name not in self._port_slices(wiring.parts[name]):  # an unconnected element
                whole, k = _element(wiring.parts[name], port.name)
                place = where[wiring.whole_name(name, whole)].start + k
                where[wiring.whole_name(name, port.name)] = slice(place, place + 1)
            inputs.append(replace(port, name=wiring.whole_name(name, port.name)))
        return Layout(self.first[""], where, outputs, tuple(inputs), self._parameters())

    def _parameters(self) -> tuple[Port, ...]:
        """Return the ports `part.port` of the parameters that may change during a run."""
        tuned: dict[str, Sequence[Port]] = {
            **{name: memory.parameters for name, memory in self.memories.items()},
            **{part.name: tunable_ports(part.component) for part in self.fmus},  # type: ignore[arg-type]
        }
        return tuple(
            replace(port, name=self.plan.wiring.whole_name(name, port.name))
            for name in tuned
            for port in tuned[name]
        )

    def text(self, folder: str, platform: str | None) -> str:
        """Return the text of parts.h.

        `folder` is the name of the folder with the unpacked FMUs, next to the program. `platform`
        is the target platform, or None for this machine.
        """
        numbers = {part.name: k for k, part in enumerate(self.fmus)}
        numbers_of_parts = {part.name: k for k, part in enumerate(self.parts)}
        lines = [
            "#ifndef RB_PARTS_H\n#define RB_PARTS_H\n",
            "#define STATIC_WORKSPACES",
            f"enum {{ RUNNER_PARTS = {len(self.parts)}, RUNNER_FMUS = {len(self.fmus)},",
            f"       RUNNER_SIMULTANEOUS = {int(self.plan.is_simultaneous)} }};",
            f"static double memory[{self.first['']} + 1];",
            doubles("RUNNER_START", self._start().tolist()),
        ]
        plans = []
        for k, part in enumerate(self.fmus):
            library = library_of(part.component, platform)  # type: ignore[arg-type]
            own = self.layout.where
            *tables, plan = fmu_text(
                k, numbers_of_parts[part.name], part, own, f"{folder}/{k}", library
            )
            lines += tables
            plans.append(plan)
        lines.append(table("FmuPlan FMUS", plans))
        for k, part in enumerate(self.parts):
            if part.name in self.memories:
                lines.append(self._block_text(k, part))
        lines += self._tables(numbers)
        return "\n".join([*lines, "\n#endif\n"])

    def _tables(self, numbers: dict[str, int]) -> Iterator[str]:
        """Yield the C tables of the connections, the parts and the initialization.

        `numbers` maps FMU parts to their indices among the FMUs of the runner.
        """
        rows, starts = [], []
        for k, part in enumerate(self.parts):
            wires, scales = self._wires(part)
            yield table(f"Copy WIRES_{k}", wires)
            yield table(f"Scale SCALES_{k}", scales)
            is_block = part.name in self.memories
            starts.append(f"start_{k}" if is_block else "0")
            members = (
                f".kind = RB_BLOCK, .instance = memory + {self.first[part.name]}, "
                f".step.block_step = step_{k}"
                if is_block
                else part_members(numbers[part.name], part)
            )
            rows.append(
                f"{{.number = {k}, {members}, .wires = WIRES_{k}, .n_wires = {len(wires)}, "
                f".scales = SCALES_{k}, .n_scales = {len(scales)}{self._slow_text(part)}}}"
            )
        names = [part.name for part in self.parts]
        checked = list(self._checked_outputs())
        yield table("Part PARTS", rows).replace("static const", "static", 1)  # FMUs are set later
        yield (
            f"static int (*const STARTS[])(double *m, double t) = {{{', '.join([*starts, '0'])}}};"
        )
        yield integers("FIRST", list(self.first.values()))
        yield from self._start_tables(names)
        yield integers("FMU_OF", [numbers.get(name, -1) for name in names])
        yield table("Copy CHECKED", checked)
        yield f"enum {{ RUNNER_CHECKED = {len(checked)} }};"

    def _slow_text(self, part: Part) -> str:
        """Return the C initializers of a part with its own communication step, else ""."""
        every = self.plan.slow_parts.get(part.name)
        if every is None:
            return ""
        dt = self.plan.dt
        return (
            f", .every = {every}, .t_start = {c_number(self.plan.t_start)}, .dt = {c_number(dt)}, "
            f".length = {c_number(every * dt)}"
        )

    def _start_tables(self, names: list[str]) -> Iterator[str]:
        """Yield the C tables of the groups of parts that are initialized together.

        A group contains a single part, or parts in a loop of connections. The tables list the parts
        of each group and the order in which their outputs are evaluated.
        """
        wiring, where, rows = self.plan.wiring, self.layout.where, []
        for g, group in enumerate(wiring.initialization):
            evaluations = []
            for k, (part, outputs) in enumerate(group.evaluations):
                ports = ((wiring.whole_name(part, y), i) for y, i in sorted(outputs))
                places = [where[name].start + i for name, i in ports if name in where]
                yield integers(f"PLACES_{g}_{k}", places)
                evaluations.append(f"{{{names.index(part)}, {len(places)}, PLACES_{g}_{k}}}")
            yield table(f"Evaluation EVALUATIONS_{g}", evaluations)
            yield integers(f"GROUP_{g}", [names.index(name) for name in group.parts])
            read = {
                one.names[0]
                for one in wiring.connections
                if {one.source[0], one.target[0]} <= {*group.parts}
            }
            signals = c_string(", ".join(sorted(read)))
            sizes = f"{len(group.parts)}, {len(evaluations)}"
            rows.append(f"{{{sizes}, GROUP_{g}, EVALUATIONS_{g}, {signals}}}")
        yield table("StartGroup GROUPS", rows)
        yield f"enum {{ RUNNER_GROUPS = {len(rows)} }};"

    def _checked_outputs(self) -> Iterator[str]:
        """Yield the C table rows with the memory addresses and sizes of all FMU outputs.

        The program rejects non-finite values of these outputs.
        """
        for part in self.fmus:
            for port in numeric_ports(part.component.outputs):
                place = self.layout.where[f"{part.name}.{port.name}"]
                yield f"{{memory + {place.start}, memory + {place.start}, {port.size}}}"

    def _wires(self, part: Part) -> tuple[list[str], list[str]]:
        """Return the rows of the C tables that copy and scale the input values of a part."""
        wiring, where = self.plan.wiring, self.layout.where
        copies, scales = [], []
        for wire in wiring.wires_to(part.name):
            (a, y), (b, u), start, to, n = wire
            source, target = f"{a}.{y}", f"{b}.{u}"
            for name in (source, target):
                if name not in where:
                    raise ValueError(
                        f"{name} is not numeric; a runner supports only numeric signals"
                    )
            first = where[target].start + to
            copies.append(f"{{memory + {where[source].start + start}, memory + {first}, {n}}}")
            if (conversion := wiring.conversion(wire)) is not None:
                if conversion.table:
                    raise ValueError(
                        f"the connection from {source} to {target} maps values with a "
                        "lookup table; a runner supports only linear conversions"
                    )
                pairs = zip(*map(np.atleast_1d, conversion[:2]), strict=True)
                scales += [
                    f"{{memory + {first + k}, {c_number(factor)}, {c_number(offset)}}}"
                    for k, (factor, offset) in enumerate(pairs)
                ]
        return copies, scales

    def _block_text(self, number: int, part: Part) -> str:
        """Return the C code of a block; the part index `number` makes function names unique."""
        memory, (method, h) = self.memories[part.name], part.stepping
        text = model_header(TracedEvaluator(memory), method, h)
        text += "".join(c_text(f"kernel/{name}") for name in KERNEL)
        first, states = self.first[part.name], (memory.x.start, memory.z.stop)
        head = f"static int start_{number}(double *m, double t)"
        step = f"static int step_{number}(double *m, double t, double dt)"
        own = f"b{number}_"
        return (
            f"{prefix_symbols(text, number)}\n{head}\n{{\n"
            f"    {own}store(m + {states[0]}, RUNNER_START + {first + states[0]}, "
            f"{states[1] - states[0]});\n"
            f"    return {own}initialize(m, t);\n}}\n{step}\n{{\n"
            f"    const int refusal = {own}step_refusal(t, INFINITY, t, dt);\n"
            f"    return refusal ? refusal : {own}step(m, t, dt, NULL);\n}}"
        )

    def _start(self) -> Array:
        """Return the memory vector (n,) with the start values, before the initialization."""
        start = np.zeros(self.first[""])
        for part in self.parts:
            first = self.first[part.name]
            if part.name in self.memories:
                own = self.memories[part.name].start()
                start[first : first + len(own)] = own
                given = dict(part.start)
            else:
                given = {
                    port.name: _start_values_of(part, port) for port in _numeric_ports_of(part)
                }
            for name, place in self._port_slices(part).items():
                if name in given:
                    start[first + place.start : first + place.stop] = np.ravel(given[name])
        return start

    def _size(self, part: Part) -> int:
        if part.name in self.memories:
            return self.memories[part.name].size
        return sum(port.size for port in _numeric_ports_of(part))

    def _port_slices(self, part: Part) -> dict[str, slice]:
        """Map the port names of a part to slices relative to the first memory index of the part."""
        if part.name in self.memories:
            return dict(self.memories[part.name].where)
        return places(_numeric_ports_of(part))


def _numeric_ports_of(part: Part) -> tuple[Port, ...]:
    """Return the numeric inputs, outputs and tunable parameters of an FMU part."""
    fmu = part.component
    assert isinstance(fmu, Fmu)
    return numeric_ports((*fmu.inputs, *fmu.outputs, *tunable_ports(fmu)))


def _start_values_of(part: Part, port: Port) -> Array:
    value = part.start.get(port.name, 0.0 if port.start is None else port.start)
    return np.broadcast_to(np.ravel(value), (port.size,))


def _element(part: Part, name: str) -> tuple[str, int]:
    """Return the input port that has the element `name`, and the index of the element."""
    for port in part.component.inputs:
        if name in port.element_names:
            return port.name, port.element_names.index(name)
    raise KeyError(name)


class Linked(NamedTuple):
    """Link of a system, with the memory indices of its values.

    All memory indices refer to the system without its links.

    Attributes:
        name: Name of the link in the system.
        link: Link block.
        sent: Memory index of each sent value; -1 for an unconnected input of the link.
        open: Constants that the link sends for unconnected inputs.
        targets: Pairs (memory index, index of a received value); the link stores the received value
            at the memory index.
    """

    name: str
    link: Link
    sent: tuple[int, ...]
    open: tuple[float, ...]
    targets: tuple[tuple[int, int], ...]


def link_with_indices(name: str, link: Link, system: System, memory: Layout) -> Linked:
    """Return a link with the memory indices of its values.

    `memory` is the memory layout of the system without its links.

    Raises:
        ValueError: An input of the link is not connected and has no start value, or a value needs
            a unit conversion.
    """
    _check_units(name, system)
    sent: dict[int, int] = {}
    targets: list[tuple[int, int]] = []
    for one in system.connections:
        (a, y), (b, u) = one.source, one.target
        if b == name:
            first, start = _offset(link.inputs, u), memory.where[f"{a}.{y}"].start
            sent |= {first + to: start + k for k, to in zip(one.start, one.to, strict=True)}
        if a == name:
            first = _offset(link.outputs, y)
            for k, to in zip(one.start, one.to, strict=True):
                port = system.parts[b].input(u)
                targets.append((_input_place(memory, b, port, to), first + k))
    left = _constants(name, link, system, sent)
    places = tuple(sent.get(k, -1) for k in range(len(left)))
    return Linked(name, link, places, left, tuple(targets))


def _check_units(name: str, system: System) -> None:
    wiring = system.wiring()
    for wire in wiring.wires:
        (a, y), (b, u) = wire.source, wire.target
        if name in (a, b) and wiring.conversion(wire) is not None:
            raise ValueError(
                f"{a}.{y} and {b}.{u} have different units; a link does not convert units"
            )


def _constants(name: str, link: Link, system: System, sent: Mapping[int, int]) -> tuple[float, ...]:
    """Return a constant for each input element of a link: its start value, or 0.

    The link sends this constant only for an unconnected element. `sent` maps the indices of the
    connected elements to memory indices.
    """
    values: list[float] = []
    for port in link.inputs:
        start = system.parts[name].start.get(port.name, port.start)
        open_ones = [k for k in range(port.size) if len(values) + k not in sent]
        if open_ones and start is None:
            missing = port.element_names[open_ones[0]]
            raise ValueError(
                f"input {name}.{missing} is not connected; a link needs all of its inputs"
            )
        given = np.broadcast_to(np.ravel(0.0 if start is None else start), (port.size,))
        values += given.tolist()
    return tuple(values)


def _offset(ports: Iterable[Port], name: str) -> int:
    """Return the start index of port `name` in the concatenated values of `ports`."""
    names = [port.name for port in ports]
    return sum(port.size for port in list(ports)[: names.index(name)])


def _input_place(memory: Layout, part: str, port: Port, k: int) -> int:
    """Return the memory index of element k of an input."""
    whole = memory.where.get(f"{part}.{port.name}")
    if whole is not None:
        return int(whole.start) + k
    return int(memory.where[f"{part}.{port.element_names[k]}"].start)


def links_header(linked: list[Linked]) -> str:
    """Return the text of links.h: the links and the memory indices of their values."""
    lines, plans = ["#ifndef RB_LINKS_H\n#define RB_LINKS_H\n"], []
    for k, (name, link, sent, left, targets) in enumerate(linked):
        lines += [
            integers(f"SENT_{k}", sent),
            integers(f"TARGETS_{k}", (place for place, _ in targets)),
            integers(f"VALUES_{k}", (value for _, value in targets)),
            doubles(f"SAFE_{k}", link.safe.tolist()),
            doubles(f"OPEN_{k}", left),
        ]
        is_can = isinstance(link, CanLink)
        if isinstance(link, CanLink):
            lines += can_tables(k, link.sent, link.received)
        kind, *ends = link.ends
        texts = c_string(name), kind, *map(c_string, ends)
        numbers = (
            f"{_nanoseconds(link.timeout)}, {_nanoseconds(link.start_timeout)}, "
            f"{int(link.lock_step)}, LOST_{link.lost.upper()}, {len(sent)}, "
            f"{link.safe.size}, {len(targets)}"
        )
        tables = ", ".join(f"{one}_{k}" for one in ("SENT", "TARGETS", "VALUES", "SAFE", "OPEN"))
        plans.append(f"{{{', '.join(texts)}, {numbers}, {tables}, {f'&CAN_{k}' if is_can else 0}}}")
    rows = ",\n    ".join([*plans, "{0}"])
    lines += [
        f"enum {{ RUNNER_LINKS = {len(linked)} }};",
        f"static const LinkPlan RUNNER_LINK_PLANS[] = {{\n    {rows}}};",
        "\n#endif\n",
    ]
    return "\n".join(lines)


def can_tables(k: int, sent: tuple[Message, ...], received: tuple[Message, ...]) -> Iterator[str]:
    """Yield the C tables of the messages and signals of a CAN link."""
    for way, messages in (("SENT", sent), ("RECEIVED", received)):
        signals = [signal for one in messages for signal in one.signals]
        extra = [one for m in messages for one in (m.counter, m.checksum) if one]
        places = {id(one): len(signals) + n for n, one in enumerate(extra)}
        signal_table, rows, first = f"CAN_{way}_SIGNALS_{k}", [], 0
        for one in messages:
            checks = (
                f"{signal_table} + {places[id(s)]}" if s else "0"
                for s in (one.counter, one.checksum)
            )
            rows.append(_message_row(one, first, *checks))
            first += len(one.signals)
        yield table(f"FrameSignal {signal_table}", map(_signal_row, (*signals, *extra)))
        yield table(f"FrameMessage CAN_{way}_{k}", rows)
    counts = f"{len(sent)}, {len(received)}"
    tables = ", ".join(f"CAN_{one}_{k}" for one in _TABLES)
    yield f"static const CanPlan CAN_{k} = {{{counts}, {tables}}};"


_TABLES = ("SENT", "RECEIVED", "SENT_SIGNALS", "RECEIVED_SIGNALS")


def _message_row(message: Message, first: int, counter: str, checksum: str) -> str:
    number = f"0x{message.id | EXTENDED * message.is_extended:x}u"
    sizes = (
        f"{int(message.is_fd)}, {int(message.has_fast_bits)}, {message.size}, {message.wire_size}"
    )
    times = f"{c_number(message.period)}, {_nanoseconds(message.timeout)}"
    return (
        f"{{{c_string(message.name)}, {number}, {sizes}, {times}, {first}, {len(message.signals)}, "
        f"{counter}, {checksum}}}"
    )


def _signal_row(signal: Signal) -> str:
    kinds = (
        signal.start,
        signal.length,
        int(signal.is_big),
        int(signal.is_signed),
        int(signal.is_float),
    )
    numbers = signal.scale, signal.offset, signal.low, signal.high, signal.factor, signal.shift
    fields = ", ".join((*map(str, kinds), *map(c_number, numbers)))
    return f"{{{fields}}} /* {c_comment(signal.name)} */"


def _nanoseconds(seconds: float) -> int:
    return round(1e9 * seconds)


def table(declaration: str, rows: Iterable[str]) -> str:
    """Return a C array of structs with a final dummy element, because C has no empty arrays."""
    text = ",\n    ".join((*rows, "{0}"))
    return f"static const {declaration}[] = {{\n    {text}}};"


def doubles(name: str, values: Iterable[float]) -> str:
    """Return a C array of doubles with a final unused 0, because C has no empty arrays."""
    return f"static const double {name}[] = {{{', '.join(map(c_number, (*values, 0.0)))}}};"


def integers(name: str, values: Iterable[int]) -> str:
    """Return a C array of ints with a final unused 0, because C has no empty arrays."""
    return f"static const int {name}[] = {{{', '.join(map(str, (*values, 0)))}}};"
