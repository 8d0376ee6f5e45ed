"""The files that results are kept in: Arrow, CSV, Parquet and MDF4."""

import contextlib
import csv
import io
import json
import os
import re
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.block.block import Port
from rigidblocks.block.quantities import quantity_of
from rigidblocks.block.signal_types import TEXTUAL, learn_table, table_of, texts_in
from rigidblocks.simulation.log import (
    FOR_ARROW,
    LoggedValues,
    check_room,
    read_log,
    schema,
)

if TYPE_CHECKING:
    from rigidblocks.simulation.result import Result

_SLAB = 1 << 16  # rows that are formatted at once
_ELEMENT = re.compile(r"(?P<port>.+)\[(?P<index>\d+(?:,\d+)*)\]")
_ATTACHED = "rigidblocks.json"  # what an MDF4 file says of its run


class Event(NamedTuple):
    """What happened in a run that was read from a file: when [s], and what it was."""

    t: float
    kind: str


class Content(NamedTuple):
    """What a file has of a run, as in `Result`."""

    time: Array
    ports: tuple[Port, ...]
    values: Array | LoggedValues
    meta: dict[str, str]
    events: tuple[Event, ...]


@dataclass(frozen=True)
class Format:
    """How a kind of file is written and read, the packages that it needs with the word that tells
    how to get them, and the `size` of a number, about, in bytes.
    """

    write: Callable[["Result", Path], None]
    read: Callable[[Path], Content]
    needs: Mapping[str, str]
    size: float = 8.0


def format_of(path: Path) -> Format:
    """The format that the ending of a path names.

    Raises ValueError for another ending, and ImportError where a package that it needs is missing.
    """
    if path.suffix not in FORMATS:
        raise ValueError(f"the name of '{path}' must end in one of {', '.join(FORMATS)}")
    form = FORMATS[path.suffix]
    for package, word in form.needs.items():
        if find_spec(package) is None:
            raise ImportError(f"'{path}' {word}")
    return form


def check_target(path: Path, numbers: int, logged: bool) -> None:
    """Raises, before there is anything to save, what saving so many numbers would raise: ValueError
    for the ending, ImportError for a package, OSError for folder, permission and room.
    """
    size = format_of(path).size + (8.0 if logged else 0.0)
    if path.is_dir():
        raise IsADirectoryError(f"cannot save '{path}': it is a folder")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=path.parent).close()
    except OSError as error:
        why = f"no file can be made in the folder '{path.parent}'"
        raise type(error)(f"cannot save '{path}': {why}: {error.strerror}") from None
    check_room(path.parent, size * numbers)


def save(result: "Result", path: Path) -> None:
    """Writes a file whole or not at all."""
    write = format_of(path).write
    path.parent.mkdir(parents=True, exist_ok=True)
    with _part(path) as part:
        write(result, part)


def load(path: Path) -> Content:
    """What is in a file; raises ValueError for one that is not known or damaged."""
    read = format_of(path).read
    if path.is_dir():
        raise IsADirectoryError(f"'{path}' is a folder; a result is a file")
    try:
        return read(path)
    except (MemoryError, Warning):
        raise
    except Exception as error:  # each package has its own for what is damaged
        if getattr(error, "errno", None) or str(error).startswith(f"'{path}'"):
            raise
        raise ValueError(f"'{path}' is not a result: {error}") from error


@contextlib.contextmanager
def _part(path: Path) -> Iterator[Path]:
    """A file to write that becomes the one at path when it is whole, and else is removed."""
    part = path.with_name(f".part.{path.name}")
    try:
        yield part
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


# ---- what is said of a run, beside its numbers ----


def _description(result: "Result") -> dict[str, str]:
    """The metadata of a result with its ports and events, as text by name."""
    said = described(result.ports, result.meta)
    if result.events:
        said["events"] = json.dumps([[event.t, event.kind] for event in result.events])
    if any(port.type in TEXTUAL for port in result.ports):
        said["texts"] = json.dumps(table_of(texts_in(np.asarray(result.values), result.ports)))
    return said


def described(ports: tuple[Port, ...], meta: Mapping[str, str]) -> dict[str, str]:
    """Metadata with the ports, as text by name."""
    fields = ("name", "shape", "unit", "doc")
    told = [
        {f: getattr(p, f) for f in fields} | ({} if p.type == "Real" else {"type": p.type})
        for p in ports
    ]
    return {**meta, "ports": json.dumps(told)}


def _content(
    time: Array,
    values: Array | LoggedValues,
    columns: Mapping[str, str],
    said: Mapping[str, str],
) -> Content:
    """The content of a file with columns, each with its unit, and a description."""
    meta = dict(said)
    learn_table(json.loads(meta.pop("texts", "[]")))
    events = tuple(Event(*event) for event in json.loads(meta.pop("events", "[]")))
    ports = tuple(_port(**fields) for fields in json.loads(meta.pop("ports", "[]")))
    if [name for port in ports for name in port.element_names] != list(columns):
        ports = _ports(columns)
    return Content(time, ports, values, meta, events)


def _port(
    name: str,
    shape: Sequence[int],
    unit: str | Sequence[str],
    doc: str = "",
    type: str = "Real",  # noqa: A002 - the name in the file
) -> Port:
    """A port with units that only its FMU may know."""
    units = unit if isinstance(unit, str) else tuple(unit)
    meanings = {one: quantity_of(one) for one in ([unit] if isinstance(unit, str) else unit)}
    return Port(name, tuple(shape), units, doc, type=type, meanings=meanings)


def _ports(columns: Mapping[str, str]) -> tuple[Port, ...]:
    """The ports of columns by their names alone: q[1], q[2], ... side by side are one."""
    groups: list[tuple[str, list[str]]] = []
    for column in columns:
        match = _ELEMENT.fullmatch(column)
        name = match["port"] if match else column
        if match is None or not groups or groups[-1][0] != name:
            groups.append((name, []))
        groups[-1][1].append(column)
    return tuple(port for group in groups for port in _group(*group, columns))


def _group(name: str, elements: list[str], units: Mapping[str, str]) -> Iterator[Port]:
    last = _ELEMENT.fullmatch(elements[-1])
    shape = tuple(map(int, last["index"].split(","))) if last else ()
    if prod(shape) == len(elements):
        port = _port(name, shape, [units[element] for element in elements])
        if port.element_names == tuple(elements):
            yield port
            return
    for element in elements:
        yield _port(element, (), units[element])


# ---- Arrow and Parquet ----


def _table(result: "Result") -> Any:
    """The numbers of a result as an Arrow table, with what is said of it."""
    import pyarrow

    form = schema(result.ports, _description(result))
    if isinstance(result.values, LoggedValues):
        return result.values.table.cast(form)
    columns = [np.ascontiguousarray(column) for column in (result.time, *result.values.T)]
    return pyarrow.table([pyarrow.array(column) for column in columns], schema=form)


def _of_arrow(time: Array, table: Any) -> Content:
    units = {
        field.name: (field.metadata or {}).get(b"unit", b"").decode() for field in table.schema
    }
    units.pop(table.schema[0].name)
    said = {k.decode(): v.decode() for k, v in (table.schema.metadata or {}).items()}
    return _content(time, LoggedValues(table), units, said)


def _write_arrow(result: "Result", path: Path) -> None:
    import pyarrow

    table = _table(result)
    with pyarrow.ipc.new_stream(str(path), table.schema) as stream:
        stream.write_table(table, max_chunksize=_SLAB)


def _read_arrow(path: Path) -> Content:
    return _of_arrow(*read_log(path))


def _write_parquet(result: "Result", path: Path) -> None:
    import pyarrow.parquet

    pyarrow.parquet.write_table(_table(result), path, use_dictionary=False)


def _read_parquet(path: Path) -> Content:
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(path)
    return _of_arrow(table.column(0).to_numpy(), table)


# ---- CSV, with what it cannot say beside it (W3C, Metadata Vocabulary for Tabular Data) ----


def _beside(path: Path) -> Path:
    return path.with_name(f"{path.name.removeprefix('.part.')}-metadata.json")


def _write_csv(result: "Result", path: Path) -> None:
    names = ["time", *result.columns]
    with open(path, "wb") as file:
        file.write(_csv_line(names))
        if find_spec("pyarrow") is None:
            # %.17g gives every number back to the last bit
            values = np.asarray(result.values)
            np.savetxt(file, np.column_stack([result.time, values]), "%.17g", ",")
        else:
            _write_rows(result, file)
    columns = [
        {"titles": name, "datatype": "double", "schema:unitText": unit}
        for name, unit in zip(names, ("s", *result.units), strict=True)
    ]
    about = {
        "@context": "http://www.w3.org/ns/csvw",
        "url": path.name.removeprefix(".part."),
        "tableSchema": {"columns": columns},
        "notes": [_description(result)],
    }
    with _part(_beside(path)) as part:
        part.write_text(json.dumps(about, indent=1))


def _csv_line(names: list[str]) -> bytes:
    """A header; names with commas are quoted."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(names)
    return text.getvalue().encode()


def _write_rows(result: "Result", file: Any) -> None:
    """The rows in order, formatted by several threads; each number is the shortest text that is
    read as the same double.
    """
    import pyarrow
    import pyarrow.csv

    table = _table(result)
    options = pyarrow.csv.WriteOptions(include_header=False, quoting_style="none")

    def text(start: int) -> Any:
        sink = pyarrow.BufferOutputStream()
        pyarrow.csv.write_csv(table.slice(start, _SLAB), sink, options)
        return sink.getvalue()

    threads = os.cpu_count() or 1
    starts = range(0, table.num_rows, _SLAB)
    with ThreadPoolExecutor(threads) as pool:
        for k in range(0, len(starts), threads):  # no more at once than are being formatted
            for lines in pool.map(text, starts[k : k + threads]):
                file.write(lines)


def _read_csv(path: Path) -> Content:
    with open(path, newline="") as file:
        names = next(csv.reader(file), None)
        if not names:
            raise ValueError("it has no line of names")
        with warnings.catch_warnings():  # of a run that ended before its first row
            warnings.filterwarnings("ignore", "loadtxt: input contained no data")
            rows = np.loadtxt(file, delimiter=",", ndmin=2)
    if not rows.size:
        rows = rows.reshape(0, len(names))
    if rows.shape[1] != len(names):
        raise ValueError(f"its rows have {rows.shape[1]} numbers below {len(names)} names")
    units, said = dict.fromkeys(names[1:], ""), {}
    if _beside(path).exists():
        about = json.loads(_beside(path).read_text())
        told = {c["titles"]: c["schema:unitText"] for c in about["tableSchema"]["columns"][1:]}
        if list(told) == names[1:]:  # else it is of another file
            units, said = told, about["notes"][0]
    return _content(rows[:, 0], rows[:, 1:], units, said)


# ---- MDF4 ----


def _write_mdf(result: "Result", path: Path) -> None:
    from asammdf import MDF, Signal

    docs = [port.doc for port in result.ports for _ in port.element_names]
    with MDF(version="4.10") as mdf:
        for start in range(0, max(1, len(result.time)), _SLAB):
            rows = slice(start, start + _SLAB)
            time, values = result.time[rows], result.values[rows]
            if start:
                mdf.extend(0, [(time, None), *((column, None) for column in values.T)])
                continue
            about = zip(values.T, result.columns, result.units, docs, strict=True)
            mdf.append([Signal(v, time, u, n, comment=d) for v, n, u, d in about])
        mdf.attach(json.dumps(_description(result)).encode(), _ATTACHED, compression=False)
        mdf.save(path, overwrite=True)


def _read_mdf(path: Path) -> Content:
    from asammdf import MDF

    with MDF(path) as mdf:
        signals = [mdf.get(group=0, index=k) for k in range(1, len(mdf.groups[0].channels))]
        time = np.array(mdf.get_master(0))
        attached = [mdf.extract_attachment(index=k)[:2] for k in range(len(mdf.attachments))]
    said: dict[str, str] = {}
    for data, name in attached:
        if Path(name).name == _ATTACHED:
            said = json.loads(data)
    values = np.reshape([signal.samples for signal in signals], (len(signals), len(time))).T
    return _content(time, values, {signal.name: signal.unit for signal in signals}, said)


_ARROW = {"pyarrow": FOR_ARROW}
_MDF = {"asammdf": "needs asammdf: pip install 'rigidblocks[mdf]'"}
FORMATS = {
    ".arrow": Format(_write_arrow, _read_arrow, _ARROW),
    ".csv": Format(_write_csv, _read_csv, {}, 19.0),
    ".mf4": Format(_write_mdf, _read_mdf, _MDF),
    ".parquet": Format(_write_parquet, _read_parquet, _ARROW),
}
