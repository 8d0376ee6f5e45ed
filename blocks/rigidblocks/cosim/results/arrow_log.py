"""A run's record on disk while the run is under way: a log in the format of Arrow IPC streams.

The stream has a schema, record batches one after another, and a mark at its end. Nothing in it
points to what comes later, so that of a run that is killed every batch that was written can be
read.
"""

import contextlib
import errno
import io
import json
import mmap
import os
import shutil
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.block.block import Port
from rigidblocks.block.signal_types import TEXTUAL, learn_table, table_of, texts_in

_END = b"\xff\xff\xff\xff\x00\x00\x00\x00"  # of an Arrow IPC stream
_FILE = b"ARROW1"  # how an Arrow IPC file begins, which is no stream
_WINDOW = 64  # batches of a log that are read before their pages are let go
FOR_ARROW = "needs pyarrow: pip install 'rigidblocks[data]'"


class LoggedValues:
    """The values (n, columns) of a table whose first column is time: read where they are indexed.

    `values[rows, columns]` is an array; of a log on disk only the columns that are asked for are
    read. `numpy.asarray(values)` is all of them.
    """

    ndim = 2

    def __init__(self, table: Any):
        self.table = table
        self.shape = (table.num_rows, table.num_columns - 1)

    def __len__(self) -> int:
        return int(self.shape[0])

    def __getitem__(self, key: Any) -> Array:
        rows, columns = key if isinstance(key, tuple) else (key, slice(None))
        places = np.arange(self.shape[1])[columns]
        if places.ndim == 0:
            one: Array = self.table.column(int(places) + 1).to_numpy()[rows]
            return one
        picked = np.empty((len(self), len(places)))
        for k, place in enumerate(places.tolist()):
            picked[:, k] = self.table.column(place + 1).to_numpy()
        some: Array = picked[rows]
        return some

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if copy is False:
            raise ValueError("the values are in a log and cannot be had without a copy")
        return self[:].astype(dtype or float, copy=False)


class LogWriter:
    """Writes the chunks of a run to a log, each whole or not at all.

    The file is there from the first chunk on. One of that name that was there before is not
    overwritten but replaced, for a result may be reading it.
    """

    def __init__(self, path: Path, ports: Iterable[Port], meta: Mapping[str, str]):
        import pyarrow

        self._path, self._size = path, 0
        self._file: int | None = None
        self._ports = tuple(ports)
        self._schema = schema(self._ports, meta)
        self._text = io.BytesIO()
        self._stream = pyarrow.ipc.new_stream(pyarrow.PythonFile(self._text, "w"), self._schema)
        none = np.empty((0, len(self._schema) - 1))
        self._head = self._message(
            none[:, 0], none, {}
        )  # Arrow writes a schema with the first rows

    def write(self, time: Array, rows: Array, events: Sequence[tuple[float, str]] = ()) -> None:
        """Appends the rows (n, columns) at the times (n,) [s], and the events (t, kind) since the
        last ones.

        Raises OSError when they cannot be written, with the log as it was before.
        """
        told = {"events": json.dumps(events)} if events else {}
        if any(port.type in TEXTUAL for port in self._ports):  # whose texts each chunk has
            told["texts"] = json.dumps(table_of(texts_in(rows, self._ports)))
        message = self._message(time, rows, told)
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
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
            self._file = os.open(self._path, flags, 0o666)
        if not self._size:
            self._append(self._head)

    def _message(self, time: Array, rows: Array, told: dict[str, str]) -> bytes:
        """The next piece of the stream."""
        self._stream.write_batch(_batch(self._schema, time, rows), custom_metadata=told or None)
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
        """Ends the log and returns the times and values in it, with those rows behind them that
        could not be written.
        """
        import pyarrow

        written, times = list[Any](), [time]
        with contextlib.suppress(OSError):  # a log without an end is one that is whole up to there
            self._open()
            self._append(_END)
        if self._file is not None:
            os.close(self._file)
        if self._file is not None and self._size:
            stream = _Stream(self._path)
            written, times = stream.batches, [stream.time(), time]
        if len(time):
            written.append(_batch(self._schema, time, rows))
        table = pyarrow.Table.from_batches(written, self._schema)
        return np.concatenate(times) if len(time) else times[0], LoggedValues(table)


def schema(ports: Iterable[Port], meta: Mapping[str, str]) -> Any:
    """The schema of a table with the column `time` and one for each element, with its unit."""
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


def _batch(form: Any, time: Array, rows: Array) -> Any:
    import pyarrow

    columns = [pyarrow.array(np.ascontiguousarray(column)) for column in (time, *rows.T)]
    return pyarrow.record_batch(columns, schema=form)


def read_log(path: Path) -> tuple[Array, Any]:
    """The times in a log or another file of Arrow's, and its table, mapped into memory, with all
    events in its metadata.

    Warns of a log that ends early, as that of a run that was killed, and has its whole chunks.
    Raises ValueError for another file.
    """
    import pyarrow

    stream = _Stream(path)
    if not stream.has_end:
        rows = sum(batch.num_rows for batch in stream.batches)
        warnings.warn(
            f"the log '{path}' has no end: its run was killed or is under way; it has "
            f"{len(stream.batches)} whole chunks of {rows} rows",
            RuntimeWarning,
            stacklevel=5,
        )
    table = pyarrow.Table.from_batches(stream.batches, stream.schema)
    if stream.events:
        said = {**(stream.schema.metadata or {}), b"events": json.dumps(stream.events).encode()}
        table = table.replace_schema_metadata(said)
    return stream.time(), table


class _Stream:
    """What is whole in a log, mapped into memory: what was read is let go, so that the pages of a
    long log do not add up.
    """

    def __init__(self, path: Path):
        import pyarrow

        self.batches, self.events = list[Any](), list[Any]()
        try:
            self._map = _mapped(path)
            self.has_end = self._map[-len(_END) :] == _END
            is_file = self._map[: len(_FILE)] == _FILE
            form = pyarrow.ipc.open_file if is_file else pyarrow.ipc.open_stream
            stream = form(pyarrow.BufferReader(pyarrow.py_buffer(self._map)))
        except pyarrow.ArrowInvalid as error:
            raise ValueError(f"'{path}' is not a log: {error}") from None
        self.schema, self.has_end = stream.schema, self.has_end or is_file
        if is_file:
            self.batches = [stream.get_batch(k) for k in range(stream.num_record_batches)]
            return
        try:
            while True:
                batch, said = stream.read_next_batch_with_custom_metadata()
                self.batches += [batch] if batch.num_rows else []
                told = {} if said is None else said
                self.events += json.loads(told["events"]) if "events" in told else []
                learn_table(json.loads(told["texts"]) if "texts" in told else ())
                self._let_go(len(self.batches))
        except StopIteration:
            pass
        except (pyarrow.ArrowInvalid, OSError):  # the last chunk was being written
            self.has_end = False

    def time(self) -> Array:
        """The times of all rows (n,) [s]."""
        ends = np.cumsum([0, *(batch.num_rows for batch in self.batches)])
        time = np.empty(ends[-1])
        for k, batch in enumerate(self.batches):
            time[ends[k] : ends[k + 1]] = batch.column(0).to_numpy()
            self._let_go(k)
        return time

    def _let_go(self, k: int) -> None:
        """Lets go of the pages when the batch number k is the last of a window."""
        if k % _WINDOW == 0 and isinstance(self._map, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
            self._map.madvise(mmap.MADV_DONTNEED)


def _mapped(path: Path) -> mmap.mmap | bytes:
    """The bytes of a file."""
    with open(path, "rb") as file:
        if os.fstat(file.fileno()).st_size == 0:  # which cannot be mapped
            return b""
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def check_room(folder: Path, size: float) -> None:
    """Raises OSError where the disk of a folder has no room for so many bytes."""
    free = shutil.disk_usage(folder).free
    if size > free:
        raise OSError(
            errno.ENOSPC,
            f"the record needs about {size / 1e6:,.0f} MB and '{folder}' has room for "
            f"{free / 1e6:,.0f} MB: take `record` or `every` to record less",
        )
