"""File formats of results: Arrow, CSV, Parquet and MDF4."""

import contextlib
import csv
import glob
import json
import os
import pickle
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from math import prod
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from rigidblocks.block.block import Port
from rigidblocks.block.port import TEXTUAL, register_table, table_of, texts_in
from rigidblocks.block.units import quantity_of
from rigidblocks.common.escaping import csv_line
from rigidblocks.common.optional_imports import missing_package
from rigidblocks.common.regular_files import check_regular_file, irregular_kind
from rigidblocks.cosim.graph.fmu_file import absolute_path
from rigidblocks.cosim.results.arrow_log import (
    CHECKS,
    LoggedValues,
    check_room,
    description_checks,
    read_log,
    result_metadata,
    schema,
    write_chunk,
)
from rigidblocks.spatial.spatial import Array

try:
    import fcntl
except ImportError:  # Windows: a reservation is valid only within this process
    fcntl = None  # type: ignore[assignment]

_SLAB = 1 << 16  # samples per formatting or writing task
_ELEMENT = re.compile(r"(?P<port>.+)\[(?P<index>\d+(?:,\d+)*)\]")
_ATTACHED = "rigidblocks.json"  # name of the MDF4 attachment with the metadata of the run


class Event(Protocol):
    """Event of a run with its time and type."""

    @property
    def t(self) -> float:
        """Time [s]."""

    @property
    def kind(self) -> str:
        """Type of the event, such as the name of the output that crosses zero."""


class SavedEvent(NamedTuple):
    """Event from a result file, with its time [s] and its type."""

    t: float
    kind: str


class Content(NamedTuple):
    """Content of a result file. The fields have the same meaning as in `Result`."""

    time: Array
    ports: tuple[Port, ...]
    values: Array | LoggedValues
    meta: dict[str, str]
    events: tuple[Event, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """Name of each column of `values`."""
        return tuple(name for port in self.ports for name in port.element_names)

    @property
    def units(self) -> tuple[str, ...]:
        """Unit of each column of `values`."""
        return tuple(unit for port in self.ports for unit in port.units)


@dataclass(frozen=True)
class Format:
    """File format of results, with its write and read functions.

    `package` is the optional package that the format needs, or None. `size` is the approximate file
    size per value [bytes].
    """

    write: Callable[[Content, Path], None]
    read: Callable[[Path], Content]
    package: str | None
    size: float = 8.0


def format_of(path: Path) -> Format:
    """Return the format for the file extension of a path.

    Raises ValueError for an unknown extension, and ImportError if a required package is missing.
    """
    if path.suffix not in FORMATS:
        raise ValueError(f"the name of '{path}' must end in one of {', '.join(FORMATS)}")
    form = FORMATS[path.suffix]
    if form.package and find_spec(form.package) is None:
        raise missing_package(form.package, f"'{path}'")
    return form


def check_target(path: Path, value_count: int, logged: bool) -> None:
    """Check before a run that a result file can be written.

    `value_count` is the number of values in the file. `logged` is True if the run also writes a
    separate log, which needs 8 bytes per value.

    Raises:
        ValueError: The file extension is unknown.
        ImportError: The package for the format is not installed.
        OSError: The folder does not exist or is not writable, or the disk has too little space.
    """
    size = format_of(path).size + (8.0 if logged else 0.0)
    check_kind(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=path.parent).close()
    except OSError as error:
        why = f"cannot create a file in the folder '{path.parent}'"
        raise type(error)(f"cannot save '{path}': {why}: {error.strerror}") from None
    check_room(path.parent, size * value_count)


def real_target(path: Path) -> Path:
    """Return the absolute path of a file, with all symbolic links resolved."""
    path = absolute_path(path)
    return Path(os.path.realpath(path)) if path.is_symlink() else path


def check_kind(path: Path) -> None:
    """Raise OSError if the path exists and is not a regular file, for example if it is a folder."""
    try:
        mode = os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):  # `check_target` reports a missing folder
        return
    except OSError as error:  # such as a loop of symbolic links
        raise type(error)(f"cannot save '{path}': {error.strerror}") from None
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(f"cannot save '{path}': it is a folder")
    if kind := irregular_kind(mode):
        raise OSError(f"cannot save '{path}': it is {kind}, not a file")


_reserved: set[Path] = set()  # files that this process writes
_reserving = threading.Lock()


@contextlib.contextmanager
def reserve(*paths: Path) -> Iterator[None]:
    """Reserve files for this run, so that other threads and processes cannot write to them.

    Raises:
        OSError: Another run writes to one of the files.
    """
    with contextlib.ExitStack() as reserved:
        for path in dict.fromkeys(map(real_target, paths)):
            reserved.enter_context(_reserve_file(path))
        yield


@contextlib.contextmanager
def _reserve_file(path: Path) -> Iterator[None]:
    """Reserve one file for this run within a context.

    A set of paths excludes other threads, and a lock file excludes other processes.
    """
    if path.exists() and not path.is_file():  # a device may have several writers
        yield
        return
    busy_error = OSError(f"cannot save '{path}': another run is writing to it")
    with _reserving:
        if path in _reserved:
            raise busy_error
        _reserved.add(path)
    try:
        lock = path.with_name(f".{path.name}.lock")
        handle = _open_lock(lock, busy_error)
        try:
            yield
        finally:
            if handle is not None:
                with contextlib.suppress(OSError):
                    lock.unlink()  # before unlocking; another process then creates a new lock file
                os.close(handle)
    finally:
        with _reserving:
            _reserved.discard(path)


def _open_lock(lock: Path, busy_error: OSError) -> int | None:
    """Lock a lock file, and return its file descriptor.

    Return None if the platform or the file system does not support locks. Raise `busy_error` if
    another process has locked the file.
    """
    if fcntl is None:
        return None
    while True:
        handle = os.open(lock, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(handle), os.stat(lock)):
                return handle
            os.close(handle)  # another process has removed this lock file; open a new one
        except FileNotFoundError:
            os.close(handle)
        except BlockingIOError:
            os.close(handle)
            raise busy_error from None
        except OSError:
            os.close(handle)
            with contextlib.suppress(OSError):
                lock.unlink()
            return None


def save(result: Content, path: Path) -> None:
    """Write a result to a file atomically.

    Raises:
        OSError: The file cannot be written, or a run is writing to it.
    """
    format_of(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    check_kind(path)
    with reserve(path):
        write(result, path)


def write(result: Content, path: Path) -> None:
    """Write a result atomically to a file that the caller has reserved."""
    target = real_target(path)
    with temporary_folder(target) as folder:
        part = Path(folder, target.name)
        format_of(path).write(result, part)
        for name in sorted(os.listdir(folder), key=len, reverse=True):  # moves the result file last
            os.replace(Path(folder, name), target.with_name(name))


def temporary_folder(target: Path) -> tempfile.TemporaryDirectory[str]:
    """Return a context manager that creates a temporary folder next to the reserved file `target`.

    The function removes temporary folders that killed processes left for the same file.
    """
    prefix = f".{target.name}.part."
    for folder in target.parent.glob(f"{glob.escape(prefix)}*"):
        if re.fullmatch(r"\w{8}", folder.name.removeprefix(prefix)) and folder.is_dir():
            shutil.rmtree(folder, ignore_errors=True)
    return tempfile.TemporaryDirectory(prefix=prefix, dir=target.parent)


def load(path: Path) -> Content:
    """Return the content of a result file; raise ValueError for an unknown or damaged file."""
    path = absolute_path(path)
    read = format_of(path).read
    if path.is_dir():
        raise IsADirectoryError(f"'{path}' is a folder; expected a result file")
    check_regular_file(path)
    try:
        return read(path)
    except (MemoryError, Warning):
        raise
    except Exception as error:  # each package raises different exceptions for a damaged file
        if getattr(error, "errno", None) or str(error).startswith(f"'{path}'"):
            raise
        raise ValueError(f"'{path}' is not a result: {error}") from error


# ---- description of a run: metadata, ports and events ----


def _description(result: Content) -> dict[str, str]:
    """Return the metadata, ports and events of a result as a mapping of names to JSON strings."""
    description = result_metadata(result.ports, result.meta)
    del description[CHECKS]  # this checksum does not cover the events and the values
    if result.events:
        description["events"] = json.dumps([[event.t, event.kind] for event in result.events])
    if any(port.type in TEXTUAL for port in result.ports):
        description["texts"] = json.dumps(
            table_of(texts_in(np.asarray(result.values), result.ports))
        )
    columns = dict(zip(result.columns, result.units, strict=True))
    return description | {
        CHECKS: description_checks(description, columns, result.time, result.values)
    }


def _content(
    path: Path,
    time: Array,
    values: Array | LoggedValues,
    columns: Mapping[str, str],
    description: Mapping[str, str],
) -> Content:
    """Return the content of a result file from its times, values and description.

    `columns` maps element names to units. `description` contains the metadata, ports and events
    (`_description`).

    If a checksum does not match, the function warns: the file is damaged, or another program has
    changed it.
    """
    meta = dict(description)
    known = meta.pop(CHECKS, None)
    # a log contains only one checksum, which covers the description; its chunks have their own
    is_whole = known is not None and " " in known
    if known not in (
        None,
        description_checks(meta, columns, *((time, values) if is_whole else ())),
    ):
        what = "values or names" if is_whole else "names or description"
        warnings.warn(
            f"the {what} in '{path}' differ from the saved ones: the file is damaged, or another "
            "program has changed it",
            RuntimeWarning,
            stacklevel=5,
        )
    register_table(json.loads(meta.pop("texts", "[]")))
    events = tuple(SavedEvent(*event) for event in json.loads(meta.pop("events", "[]")))
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
    """Return the port for a signal of a result file.

    `unit` is one unit for all elements, or a list with the unit of each element. A unit without a
    known physical quantity is allowed, because FMUs may define such units.
    """
    units = unit if isinstance(unit, str) else tuple(unit)
    meanings = {one: quantity_of(one) for one in ([unit] if isinstance(unit, str) else unit)}
    return Port(name, tuple(shape), units, doc, type=type, meanings=meanings)


def _ports(columns: Mapping[str, str]) -> tuple[Port, ...]:
    """Return the ports for named columns; for example, q[1], q[2], ... form the port q."""
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


def _table(result: Content, description: Mapping[str, str]) -> Any:
    """Return the values of a result as an Arrow table with the given description as metadata."""
    import pyarrow

    form = schema(result.ports, description)
    if isinstance(result.values, LoggedValues):
        return result.values.table.cast(form)
    columns = [np.ascontiguousarray(column) for column in (result.time, *result.values.T)]
    return pyarrow.table([pyarrow.array(column) for column in columns], schema=form)


def _content_from_arrow(
    path: Path, time: Array, values: LoggedValues, arrow_schema: Any, events: Sequence[Any] = ()
) -> Content:
    """Convert the times, values, schema and events of an Arrow file to a `Content`."""
    fields = {field.name: field.metadata or {} for field in arrow_schema}
    units = {name: metadata.get(b"unit", b"").decode() for name, metadata in fields.items()}
    units.pop(arrow_schema[0].name)
    description = {k.decode(): v.decode() for k, v in (arrow_schema.metadata or {}).items()}
    content = _content(path, time, values, units, description)
    return content._replace(events=(*content.events, *(SavedEvent(*event) for event in events)))


def _write_arrow(result: Content, path: Path) -> None:
    import pyarrow

    description = _description(result)
    description[CHECKS] = description[CHECKS].split()[
        -1
    ]  # each chunk has the checksums of its values
    table = _table(result, description)
    with pyarrow.ipc.new_stream(str(path), table.schema) as stream:
        for batch in table.to_batches(max_chunksize=_SLAB):
            write_chunk(stream, batch, {})


def _read_arrow(path: Path) -> Content:
    return _content_from_arrow(path, *read_log(path))


def _write_parquet(result: Content, path: Path) -> None:
    import pyarrow.parquet

    table = _table(result, _description(result))
    pyarrow.parquet.write_table(table, path, use_dictionary=False, write_page_checksum=True)


def _read_parquet(path: Path) -> Content:
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(path, page_checksum_verification=True)
    return _content_from_arrow(path, table.column(0).to_numpy(), LoggedValues(table), table.schema)


# ---- CSV, with its metadata in a second file (W3C, Metadata Vocabulary for Tabular Data) ----


def _metadata_path(path: Path) -> Path:
    return path.with_name(f"{path.name}-metadata.json")


def _write_csv(result: Content, path: Path) -> None:
    names = ["time", *result.columns]
    with open(path, "wb") as file:
        file.write(_csv_line(names))
        if find_spec("pyarrow") is None:
            # %.17g reproduces every double to the last bit
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
        "url": path.name,
        "tableSchema": {"columns": columns},
        "notes": [_description(result)],
    }
    _metadata_path(path).write_text(json.dumps(about, indent=1))


def _csv_line(names: list[str]) -> bytes:
    """Return the header line of a CSV file; names with commas are quoted."""
    return csv_line(names).encode()


def _write_rows(result: Content, file: Any) -> None:
    """Write one line per sample in time order; several threads format the lines.

    Each value is the shortest decimal string that parses to the same double.
    """
    import pyarrow
    import pyarrow.csv

    table = _table(result, {})
    options = pyarrow.csv.WriteOptions(include_header=False, quoting_style="none")

    def text(start: int) -> Any:
        sink = pyarrow.BufferOutputStream()
        pyarrow.csv.write_csv(table.slice(start, _SLAB), sink, options)
        return sink.getvalue()

    threads = os.cpu_count() or 1
    starts = range(0, table.num_rows, _SLAB)
    with ThreadPoolExecutor(threads) as pool:
        for k in range(0, len(starts), threads):  # each thread formats one slab at a time
            for lines in pool.map(text, starts[k : k + threads]):
                file.write(lines)


def _read_csv(path: Path) -> Content:
    with open(path, newline="") as file:
        names = next(csv.reader(file), None)
        if not names:
            raise ValueError("the file has no header line with column names")
        with warnings.catch_warnings():  # a run that ended before its first sample has no lines
            warnings.filterwarnings("ignore", "loadtxt: input contained no data")
            rows = np.loadtxt(file, delimiter=",", ndmin=2)
    if not rows.size:
        rows = rows.reshape(0, len(names))
    if rows.shape[1] != len(names):
        raise ValueError(
            f"its rows have {rows.shape[1]} numbers, but its header has {len(names)} names"
        )
    units, description = dict.fromkeys(names[1:], ""), {}
    metadata_files = [
        file for file in map(_metadata_path, (path, real_target(path))) if file.exists()
    ]
    if metadata_files:
        about = json.loads(metadata_files[0].read_text())
        units_by_title = {
            c["titles"]: c["schema:unitText"] for c in about["tableSchema"]["columns"][1:]
        }
        if list(units_by_title) == names[1:]:  # otherwise the metadata are from another result
            units, description = units_by_title, about["notes"][0]
    return _content(path, rows[:, 0], rows[:, 1:], units, description)


# ---- MDF4 ----


def _write_mdf(result: Content, path: Path) -> None:
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


# the reader writes the content to the original stdout; asammdf prints to stderr
_MDF_READER = """
import os, pickle, sys
answer = os.fdopen(os.dup(1), "wb")
os.dup2(2, 1)
from rigidblocks.cosim.results.result_files import mdf_content
pickle.dump(mdf_content(sys.argv[1]), answer)
"""


def _read_mdf(path: Path) -> Content:
    """Read an MDF4 file in another process, because asammdf can crash on a damaged file."""
    path.open("rb").close()  # raises OSError with the name of the file
    command = [sys.executable, "-P", "-c", _MDF_READER, str(path)]
    # this package is first, because a Python FMU may have put a copy of this package first in
    # sys.path
    package = str(Path(__file__).parents[3])
    modules = os.pathsep.join([package, *(one for one in sys.path if one)])
    environment = {**os.environ, "PYTHONPATH": modules}
    done = subprocess.run(command, capture_output=True, env=environment, check=False)
    if done.returncode < 0:
        raise ValueError(f"it is damaged: signal {-done.returncode} ended the reader process")
    if done.returncode:
        lines = done.stderr.decode(errors="replace").split("\n")
        raise ValueError(next((line for line in reversed(lines) if line.strip()), "no reason"))
    return _content(path, *pickle.loads(done.stdout))


def mdf_content(path: str) -> tuple[Array, Array, dict[str, str], dict[str, str]]:
    """Read an MDF4 file; return the times, the values, the units by name and the description."""
    from asammdf import MDF

    with MDF(path) as mdf:
        signals = [mdf.get(group=0, index=k) for k in range(1, len(mdf.groups[0].channels))]
        time = np.array(mdf.get_master(0))
        attached = [mdf.extract_attachment(index=k)[:2] for k in range(len(mdf.attachments))]
    description: dict[str, str] = {}
    for data, name in attached:
        if Path(name).name == _ATTACHED:
            description = json.loads(data)
    values = np.reshape([signal.samples for signal in signals], (len(signals), len(time))).T
    return time, values, {signal.name: signal.unit for signal in signals}, description


FORMATS = {
    ".arrow": Format(_write_arrow, _read_arrow, "pyarrow"),
    ".csv": Format(_write_csv, _read_csv, None, 19.0),
    ".mf4": Format(_write_mdf, _read_mdf, "asammdf"),
    ".parquet": Format(_write_parquet, _read_parquet, "pyarrow"),
}
