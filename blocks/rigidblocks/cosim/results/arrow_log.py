"""Log of a run: a file in the Arrow IPC stream format that is written during the run.

The stream consists of a schema, consecutive record batches and an end-of-stream marker. It has no
references to later positions, so all record batches of a killed run can be read.
"""

import contextlib
import errno
import io
import json
import mmap
import os
import shutil
import warnings
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rigidblocks.block.block import Port
from rigidblocks.block.port import TEXTUAL, register_table, table_of, texts_in
from rigidblocks.spatial.spatial import Array

_END = b"\xff\xff\xff\xff\x00\x00\x00\x00"  # end-of-stream marker of Arrow IPC
_FILE = b"ARROW1"  # first bytes of an Arrow IPC file, which is not a stream
_WINDOW = 64  # number of batches that are read before their mapped pages are released
CHECKS = "crc32"  # metadata key of the checksums of a chunk or file


def checksums(columns: Iterable[Array], texts: Mapping[str, str]) -> list[str]:
    """Return one checksum for each array in `columns`, followed by one checksum of all `texts`."""
    text = json.dumps(dict(sorted(texts.items()))).encode()
    content = (np.ascontiguousarray(column, dtype=float).data for column in columns)
    return [*(f"{zlib.crc32(one):08x}" for one in content), f"{zlib.crc32(text):08x}"]


def description_checks(
    description: Mapping[str, str],
    columns: Mapping[str, str],
    time: Array | None = None,
    values: "Array | LoggedValues | None" = None,
) -> str:
    """Return the checksums of a result as text, separated by spaces.

    The first checksum is for the array `time`, and one follows for each column of `values`. The
    last checksum is for the description and the columns. Without arrays, it is the only one.
    """
    texts = {**description, "columns": json.dumps(list(columns.items()))}
    if time is None or values is None:
        return checksums((), texts)[-1]
    numbers = (values[:, k] for k in range(values.shape[1]))
    return " ".join(checksums((time, *numbers), texts))


def result_metadata(ports: tuple[Port, ...], meta: Mapping[str, str]) -> dict[str, str]:
    """Return metadata strings by name: `meta`, the ports as JSON, and a checksum of both."""
    fields = ("name", "shape", "unit", "doc")
    port_fields = [
        {f: getattr(p, f) for f in fields} | ({} if p.type == "Real" else {"type": p.type})
        for p in ports
    ]
    strings = {**meta, "ports": json.dumps(port_fields)}
    columns = {name: u for p in ports for name, u in zip(p.element_names, p.units, strict=True)}
    return strings | {CHECKS: description_checks(strings, columns)}


class LoggedValues:
    """Values (n, columns) of a log, read from disk on access.

    `values[rows, columns]` reads only the given columns from a log on disk and returns an array.
    `numpy.asarray(values)` reads all columns. The first access to a column verifies its checksums.
    `checks` contains the checksums of each chunk, or None for a chunk without checksums.

    Raises ValueError for a damaged column.
    """

    ndim = 2

    def __init__(self, table: Any, checks: Sequence[Sequence[str] | None] = (), name: str = ""):
        self._table, self._checks, self._name = table, checks, name
        self._checked = set[int]()
        self.shape = (table.num_rows, table.num_columns - 1)

    def __len__(self) -> int:
        return int(self.shape[0])

    def __getitem__(self, key: Any) -> Array:
        rows, columns = key if isinstance(key, tuple) else (key, slice(None))
        places = np.arange(self.shape[1])[columns]
        if places.ndim == 0:
            one: Array = self.column(int(places) + 1)[rows]
            return one
        if not isinstance(rows, slice):
            every: Array = self[:, columns][rows]
            return every
        picked = np.empty((len(range(len(self))[rows]), len(places)))
        for k, place in enumerate(places.tolist()):
            picked[:, k] = self.column(place + 1)[rows]
        return picked

    @property
    def table(self) -> Any:
        """Complete Arrow table of the file; the first access to a column verifies the checksums."""
        for k in range(self._table.num_columns):
            self.column(k)
        return self._table

    def column(self, k: int) -> Array:
        """Return column k of the table as an array (n,); column 0 is time."""
        column = self._table.column(k)
        if k not in self._checked:
            for number, (chunk, known) in enumerate(zip(column.chunks, self._checks, strict=False)):
                if known is not None and checksums([chunk.to_numpy()], {})[0] != known[k]:
                    name = self._table.schema[k].name
                    raise ValueError(
                        f"'{self._name}' is damaged: column {name} of chunk {number} differs from "
                        "its checksum"
                    )
            self._checked.add(k)
        values: Array = column.to_numpy()
        return values

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if copy is False:
            raise ValueError(
                "a log file cannot be read into an array with copy=False; use copy=None or True"
            )
        return self[:].astype(dtype or float, copy=False)


class LogWriter:
    """Writer of recorded samples to a log file.

    The writer appends the samples in chunks. If a write fails, the log does not change. The writer
    creates the file for the first chunk. An existing file with the same name is replaced, not
    overwritten, because a result may still read the old file. The schema of the log contains the
    metadata `meta` of the run and the ports.
    """

    def __init__(self, path: Path, ports: Iterable[Port], meta: Mapping[str, str]):
        import pyarrow

        self._path, self._size = path, 0
        self._file: int | None = None
        self._ports = tuple(ports)
        self._schema = schema(self._ports, result_metadata(self._ports, meta))
        self._text = io.BytesIO()
        self._stream = pyarrow.ipc.new_stream(pyarrow.PythonFile(self._text, "w"), self._schema)
        none = np.empty((0, len(self._schema) - 1))
        self._head = self._message(
            none[:, 0], none, {}
        )  # Arrow writes the schema together with the first samples

    def write(self, time: Array, rows: Array, events: Sequence[tuple[float, str]] = ()) -> None:
        """Append the samples `rows` (n, columns) at the times `time` (n,) [s], and new events.

        `events` contains the events (t, type) since the last call. Raises OSError if the write
        fails; the log is then unchanged.
        """
        metadata = {"events": json.dumps(events)} if events else {}
        if any(port.type in TEXTUAL for port in self._ports):  # store the strings of these samples
            metadata["texts"] = json.dumps(table_of(texts_in(rows, self._ports)))
        message = self._message(time, rows, metadata)
        try:
            self._open()
            self._append(message)
        except OSError as error:
            raise OSError(
                error.errno, f"cannot record to '{self._path}': {error.strerror}"
            ) from None

    def _open(self) -> None:
        if self._file is None:
            self._path.unlink(missing_ok=True)
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
            self._file = os.open(self._path, flags, 0o666)
        if not self._size:
            self._append(self._head)

    def _message(self, time: Array, rows: Array, metadata: dict[str, str]) -> bytes:
        """Return the bytes of the next message in the stream.

        The message contains the samples `rows` at the times `time` [s], and `metadata`.
        """
        write_chunk(self._stream, _batch(self._schema, time, rows), metadata)
        message = self._text.getvalue()
        self._text.seek(0)
        self._text.truncate()
        return message

    def _append(self, message: bytes) -> None:
        assert self._file is not None
        left = memoryview(message)
        try:
            while len(left):
                left = left[os.write(self._file, left) :]
        except BaseException:
            os.ftruncate(self._file, self._size)
            os.lseek(self._file, self._size, os.SEEK_SET)
            raise
        self._size += len(message)

    def finish(self, time: Array, rows: Array) -> tuple[Array, LoggedValues]:
        """End the log; return the times (n,) [s] and values (n, columns) of all samples.

        `time` and `rows` are the last samples, which are not in the file. Only the returned arrays
        contain them.
        """
        import pyarrow

        written, checks, times = list[Any](), list[list[str] | None](), [time]
        with contextlib.suppress(OSError):  # a log is readable without its end-of-stream marker
            self._open()
            self._append(_END)
        if self._file is not None:
            try:
                if self._size:  # read this file even if another file now has the same path
                    stream = _Stream(self._path, _map_file(self._file))
                    written, checks = stream.batches, stream.checks
                    times = [stream.time(), time]
            finally:
                os.close(self._file)
        if len(time):
            written.append(_batch(self._schema, time, rows))
        table = pyarrow.Table.from_batches(written, self._schema)
        values = LoggedValues(table, checks, str(self._path))
        return np.concatenate(times) if len(time) else times[0], values


def schema(ports: Iterable[Port], meta: Mapping[str, str]) -> Any:
    """Return the Arrow schema of a log: column `time`, then a column for each port element."""
    import pyarrow

    pairs = [("time", "s")]
    for port in ports:
        pairs += zip(port.element_names, port.units, strict=True)
    return pyarrow.schema(
        [
            pyarrow.field(n, pyarrow.float64(), nullable=False, metadata={"unit": u})
            for n, u in pairs
        ],
        metadata=dict(meta),
    )


def write_chunk(stream: Any, batch: Any, metadata: Mapping[str, str]) -> None:
    """Write a record batch and its metadata to an Arrow stream.

    The written metadata also contain a checksum of each column and a checksum of `metadata`.
    """
    checks = checksums((column.to_numpy() for column in batch.columns), metadata)
    stream.write_batch(batch, custom_metadata={**metadata, CHECKS: " ".join(checks)})


def _batch(form: Any, time: Array, rows: Array) -> Any:
    import pyarrow

    columns = [pyarrow.array(np.ascontiguousarray(column)) for column in (time, *rows.T)]
    return pyarrow.record_batch(columns, schema=form)


def read_log(path: Path) -> tuple[Array, LoggedValues, Any, list[Any]]:
    """Read an Arrow file, such as a log; return its times, values, schema and events.

    The values are memory-mapped. A log without an end-of-stream marker, such as the log of a killed
    run, causes a warning. The result then contains the complete chunks of the log.

    Raises ValueError for a file of another format and for a damaged file.
    """
    import pyarrow

    with open(path, "rb") as file:
        stream = _Stream(path, _map_file(file.fileno()))
    if not stream.has_end:
        rows = sum(batch.num_rows for batch in stream.batches)
        warnings.warn(
            f"the log '{path}' is incomplete: its run was killed or is still running; it has "
            f"{len(stream.batches)} complete chunks of {rows} samples",
            RuntimeWarning,
            stacklevel=5,
        )
    time = stream.time()
    table = pyarrow.Table.from_batches(stream.batches, stream.schema)
    return time, LoggedValues(table, stream.checks, str(path)), stream.schema, stream.events


class _Stream:
    """Reader of a memory-mapped log file; it ignores an incomplete last chunk.

    The reader releases memory pages after reading, so memory use does not grow with the length of
    the log.
    """

    def __init__(self, path: Path, content: mmap.mmap | bytes):
        import pyarrow

        self._path = path
        self.batches, self.events = list[Any](), list[Any]()
        self.checks = list[list[str] | None]()
        self._map = content
        try:
            self.has_end = self._map[-len(_END) :] == _END
            is_file = self._map[: len(_FILE)] == _FILE
            form = pyarrow.ipc.open_file if is_file else pyarrow.ipc.open_stream
            reader = pyarrow.BufferReader(pyarrow.py_buffer(self._map))
            stream = form(reader)
        except pyarrow.ArrowInvalid as error:
            raise ValueError(f"'{path}' is not a log: {error}") from None
        self.schema, self.has_end = stream.schema, self.has_end or is_file
        if is_file:
            self.batches = [stream.get_batch(k) for k in range(stream.num_record_batches)]
            self.checks = [None] * len(self.batches)
            return
        try:
            while True:
                self._add(*stream.read_next_batch_with_custom_metadata())
        except StopIteration:
            if self.has_end and reader.tell() < len(self._map):
                raise self._damage() from None
        except (pyarrow.ArrowInvalid, OSError):
            if self.has_end:
                raise self._damage() from None
            # without an end-of-stream marker, the last chunk is incomplete and is ignored

    def _add(self, batch: Any, metadata: Any) -> None:
        """Append a record batch of the log, and the events and strings in its metadata."""
        texts = {key.decode(): value.decode() for key, value in (metadata or {}).items()}
        known = texts.pop(CHECKS, "").split() or None
        if known and (len(known) < batch.num_columns or checksums((), texts)[-1] != known[-1]):
            raise self._damage()
        if batch.num_rows:
            if self.checks and (self.checks[-1] is None) != (known is None):
                raise self._damage()
            self.batches.append(batch)
            self.checks.append(known)
        self.events += json.loads(texts.get("events", "[]"))
        register_table(json.loads(texts.get("texts", "[]")))
        self._release_pages(len(self.batches))

    def _damage(self) -> ValueError:
        return ValueError(f"'{self._path}' is damaged in its chunk {len(self.batches)}")

    def time(self) -> Array:
        """Return the times of all samples (n,) [s]."""
        ends = np.cumsum([0, *(batch.num_rows for batch in self.batches)])
        time = np.empty(ends[-1])
        for k, (batch, known) in enumerate(zip(self.batches, self.checks, strict=True)):
            time[ends[k] : ends[k + 1]] = column = batch.column(0).to_numpy()
            if known and checksums([column], {})[0] != known[0]:
                raise ValueError(
                    f"'{self._path}' is damaged: column time of chunk {k} differs from its checksum"
                )
            self._release_pages(k)
        return time

    def _release_pages(self, k: int) -> None:
        """Release the memory pages of the file once per `_WINDOW` batches; k is the batch index."""
        if k % _WINDOW == 0 and isinstance(self._map, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
            self._map.madvise(mmap.MADV_DONTNEED)


def _map_file(file: int) -> mmap.mmap | bytes:
    """Return the memory-mapped content of an open file."""
    if os.fstat(file).st_size == 0:  # an empty file cannot be mapped
        return b""
    return mmap.mmap(file, 0, access=mmap.ACCESS_READ)


def check_room(folder: Path, size: float) -> None:
    """Raise OSError if the disk that contains a folder has less free space than `size` bytes."""
    free = shutil.disk_usage(folder).free
    if size > free:
        raise OSError(
            errno.ENOSPC,
            f"the recorded samples need about {size / 1e6:,.0f} MB, but '{folder}' has only "
            f"{free / 1e6:,.0f} MB free; use `record` or `every` to record less",
        )
