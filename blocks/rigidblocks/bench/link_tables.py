"""The links of a program as tables of its C: `links.h`."""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import numpy as np

from rigidblocks.bench.can_link import EXTENDED, CanLink
from rigidblocks.bench.frame import Message, Signal
from rigidblocks.bench.layout import Layout
from rigidblocks.bench.link import Link
from rigidblocks.block.port import Port
from rigidblocks.system.system import System
from rigidblocks.tracing.ccode import c_number, c_string


class Linked(NamedTuple):
    """A link of a system: the places of what it sends in the memory of the rest, -1 for what is
    open and stays as in `open`, and the places to which the values that it receives go, with their
    numbers.
    """

    name: str
    link: Link
    sent: tuple[int, ...]
    open: tuple[float, ...]
    targets: tuple[tuple[int, int], ...]


def linked_of(name: str, link: Link, system: System, memory: Layout) -> Linked:
    """A link of a system; the rest of it has a memory.

    Raises ValueError for what is to be sent and neither connected nor has a start value, and where
    a value would have to be converted to another unit.
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
    left = _left_open(name, link, system, sent)
    places = tuple(sent.get(k, -1) for k in range(len(left)))
    return Linked(name, link, places, left, tuple(targets))


def _check_units(name: str, system: System) -> None:
    wiring = system.wiring()
    for wire in wiring.wires:
        (a, y), (b, u) = wire.source, wire.target
        if name in (a, b) and wiring.conversion(wire) is not None:
            raise ValueError(f"{a}.{y} and {b}.{u} have different units, and a link converts none")


def _left_open(name: str, link: Link, system: System, sent: Mapping[int, int]) -> tuple[float, ...]:
    """What is sent where nothing is connected: the start values, zero where they do not matter."""
    values: list[float] = []
    for port in link.inputs:
        start = system.parts[name].start.get(port.name, port.start)
        open_ones = [k for k in range(port.size) if len(values) + k not in sent]
        if open_ones and start is None:
            missing = port.element_names[open_ones[0]]
            raise ValueError(f"{name}.{missing} is open: a link sends what is connected")
        given = np.broadcast_to(np.ravel(0.0 if start is None else start), (port.size,))
        values += given.tolist()
    return tuple(values)


def _offset(ports: Iterable[Port], name: str) -> int:
    """Where the values of a port begin among those of all."""
    names = [port.name for port in ports]
    return sum(port.size for port in list(ports)[: names.index(name)])


def _input_place(memory: Layout, part: str, port: Port, k: int) -> int:
    """Where the k-th element of an input is in the memory: with the others, or alone."""
    whole = memory.where.get(f"{part}.{port.name}")
    if whole is not None:
        return int(whole.start) + k
    return int(memory.where[f"{part}.{port.element_names[k]}"].start)


def links_header(linked: list[Linked]) -> str:
    """links.h: the links, with the places of their values in the memory."""
    lines, plans = ["#ifndef RB_LINKS_H\n#define RB_LINKS_H\n"], []
    for k, (name, link, sent, left, targets) in enumerate(linked):
        lines += [
            integers(f"SENT_{k}", sent),
            integers(f"TARGETS_{k}", (place for place, _ in targets)),
            integers(f"VALUES_{k}", (value for _, value in targets)),
            _doubles(f"SAFE_{k}", link.safe.tolist()),
            _doubles(f"OPEN_{k}", left),
        ]
        is_can = isinstance(link, CanLink)
        if isinstance(link, CanLink):
            lines += can_tables(k, link.sent, link.received)
        kind, *ends = link.ends
        texts = c_string(name), kind, *map(c_string, ends)
        numbers = (
            f"{_nanoseconds(link.timeout)}, {int(link.lock_step)}, {len(sent)}, "
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
    """The messages of a link by CAN, and their signals."""
    for way, messages in (("SENT", sent), ("RECEIVED", received)):
        signals = [signal for one in messages for signal in one.signals]
        extra = [one for m in messages for one in (m.counter, m.checksum) if one]
        places = {id(one): len(signals) + n for n, one in enumerate(extra)}
        table, rows, first = f"CAN_{way}_SIGNALS_{k}", [], 0
        for one in messages:
            checks = (
                f"{table} + {places[id(s)]}" if s else "0" for s in (one.counter, one.checksum)
            )
            rows.append(_message_row(one, first, *checks))
            first += len(one.signals)
        yield _rows(f"FrameSignal {table}", map(_signal_row, (*signals, *extra)))
        yield _rows(f"FrameMessage CAN_{way}_{k}", rows)
    counts = f"{len(sent)}, {len(received)}"
    tables = ", ".join(f"CAN_{one}_{k}" for one in _TABLES)
    yield f"static const CanPlan CAN_{k} = {{{counts}, {tables}}};"


_TABLES = ("SENT", "RECEIVED", "SENT_SIGNALS", "RECEIVED_SIGNALS")


def _message_row(one: Message, first: int, counter: str, checksum: str) -> str:
    number = f"0x{one.id | EXTENDED * one.is_extended:x}u"
    sizes = f"{int(one.is_fd)}, {int(one.has_fast_bits)}, {one.size}, {one.wire_size}"
    times = f"{c_number(one.period)}, {_nanoseconds(one.timeout)}"
    return (
        f"{{{c_string(one.name)}, {number}, {sizes}, {times}, {first}, {len(one.signals)}, "
        f"{counter}, {checksum}}}"
    )


def _signal_row(one: Signal) -> str:
    kinds = one.start, one.length, int(one.is_big), int(one.is_signed), int(one.is_float)
    numbers = one.scale, one.offset, one.low, one.high, one.factor, one.shift
    return f"{{{', '.join((*map(str, kinds), *map(c_number, numbers)))}}} /* {one.name} */"


def _nanoseconds(seconds: float) -> int:
    return round(1e9 * seconds)


def _doubles(name: str, values: Iterable[float]) -> str:
    return f"static const double {name}[] = {{{', '.join(map(c_number, (*values, 0.0)))}}};"


def _rows(what: str, rows: Iterable[str]) -> str:
    text = ",\n    ".join((*rows, "{0}"))
    return f"static const {what}[] = {{\n    {text}}};"


def integers(name: str, values: Iterable[int]) -> str:
    """An array of C; it ends with a 0 that is not read, because there are none without elements."""
    return f"static const int {name}[] = {{{', '.join(map(str, (*values, 0)))}}};"
