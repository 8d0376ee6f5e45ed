"""Recording of outputs at communication points and events, in memory or in a log file."""

import abc
import contextlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib.util import find_spec
from pathlib import Path
from time import monotonic
from typing import NamedTuple

import numpy as np

from rigidblocks.block.block import Port
from rigidblocks.common.name_hints import suggestion
from rigidblocks.cosim.graph.wiring import Wiring
from rigidblocks.cosim.results.arrow_log import LoggedValues, LogWriter
from rigidblocks.cosim.results.result import Result
from rigidblocks.cosim.results.result_files import (
    check_target,
    real_target,
    reserve,
)
from rigidblocks.cosim.run_options import Grid
from rigidblocks.spatial.spatial import Array

_CHUNK = 1 << 20  # maximum size of a chunk of samples [bytes]
_LONGEST = 1.0  # maximum time between two writes of samples [s]

Hold = Callable[[], contextlib.AbstractContextManager[None]]


class ZeroCrossing(NamedTuple):
    """Zero crossing of an output element.

    `t` is the time [s], and `kind` is the name of the output element.
    """

    t: float
    kind: str


@dataclass(frozen=True)
class RecordOptions:
    """Selection of the recorded outputs and communication points, and the result file.

    `record` contains patterns of output names such as `robot.*`. If `every` is n, the run records
    every n-th communication point. `save` is the path of the result file. If it is None, the
    samples are only in memory.
    """

    record: Sequence[str] = ("*",)
    every: int = 1
    save: Path | None = None

    def __post_init__(self) -> None:
        if self.save is not None:
            object.__setattr__(self, "save", real_target(self.save))

    def reserve(self) -> contextlib.AbstractContextManager[None]:
        """Reserve the result files of the run; raise OSError if another run writes to them."""
        return reserve(*filter(None, (self.save, self.log)))

    @property
    def log(self) -> Path | None:
        """Path of the log file of the run; None if `save` is not set or pyarrow is missing."""
        if self.save is None or find_spec("pyarrow") is None:
            return None
        arrow = self.save.suffix == ".arrow"
        return self.save if arrow else self.save.with_name(f"{self.save.name}.arrow")

    def check(self, wiring: Wiring, grid: Grid) -> None:
        """Check before a run that the result can be recorded and saved.

        Raises KeyError for a pattern in `record` without a match. Raises ValueError, ImportError or
        OSError if the result file cannot be written (`check_target`).
        """
        columns = 1 + sum(port.size for port in select_ports(wiring.outputs, self.record))
        if self.save is not None:
            logged = self.log not in (None, self.save)
            check_target(self.save, columns * self.rows(grid), logged)

    def rows(self, grid: Grid) -> int:
        """Return the number of samples that a run without events records."""
        return grid.n // self.spacing(grid) + 1

    def spacing(self, grid: Grid) -> int:
        """Return the number of steps between two recorded communication points.

        The result is `every`, but at most n + 1 in a run of n steps. The compiled loop stores it as
        a C integer.
        """
        return min(int(self.every), grid.n + 1)


class Rows(abc.ABC):
    """Interface for storing samples in memory or in a file.

    A row contains all recorded outputs at one time.
    """

    @abc.abstractmethod
    def write(self, time: Array, rows: Array, events: Sequence[ZeroCrossing]) -> None:
        """Append the samples `rows` (n, columns) at the times `time` (n,) [s], and new events.

        `events` contains the events since the last call. If a call fails, the storage is unchanged.
        """

    @abc.abstractmethod
    def next_buffer(self) -> tuple[Array, Array] | None:
        """Return writable arrays for the next samples, or None if the caller must use `write`.

        Fill the arrays, then call `commit` with the number of samples.
        """

    @abc.abstractmethod
    def commit(self, rows: int) -> None:
        """Add the first `rows` samples in the arrays of `next_buffer` to the recorded samples."""

    @abc.abstractmethod
    def finish(self, time: Array, rows: Array) -> tuple[Array, Array | LoggedValues]:
        """Append the samples `rows`, and return the times and values of all samples."""


class RowsInMemory(Rows):
    """Samples in one array in memory; the array grows in place."""

    def __init__(self, columns: int, expected: int):
        try:
            self._time, self._rows = np.empty(expected), np.empty((expected, columns))
        except MemoryError:
            raise MemoryError(
                f"not enough memory to record {expected:,} samples of {columns} numbers; "
                "use `record` or `every` to record less, or `save` to record to a file"
            ) from None
        self._n = 0

    def write(self, time: Array, rows: Array, events: Sequence[ZeroCrossing]) -> None:
        del events  # the class Recording stores the events
        new = slice(self._n, self._n + len(time))
        if new.stop > len(self._time):
            more = new.stop + new.stop // 8
            # the arrays have no other references, so `resize` may move them in memory
            self._rows.resize((more, self._rows.shape[1]), refcheck=False)
            self._time.resize(more, refcheck=False)
        self._time[new], self._rows[new] = time, rows
        self._n = new.stop

    def next_buffer(self) -> tuple[Array, Array] | None:
        free = slice(self._n, None)
        return None if self._n == len(self._time) else (self._time[free], self._rows[free])

    def commit(self, rows: int) -> None:
        self._n += rows

    def finish(self, time: Array, rows: Array) -> tuple[Array, Array]:
        with contextlib.suppress(MemoryError):  # an earlier write of these rows may have failed
            self.write(time, rows, ())
        return self._time[: self._n], self._rows[: self._n]


class LoggedRows(Rows):
    """Samples in a log file on disk."""

    def __init__(self, writer: LogWriter):
        self._writer = writer

    def write(self, time: Array, rows: Array, events: Sequence[ZeroCrossing]) -> None:
        self._writer.write(time, rows, events)

    def next_buffer(self) -> tuple[Array, Array] | None:
        return None

    def commit(self, rows: int) -> None:
        """Do nothing, because a log has no buffer."""

    def finish(self, time: Array, rows: Array) -> tuple[Array, LoggedValues]:
        return self._writer.finish(time, rows)


class Recording:
    """Recording of a run in progress.

    The run has reached the time `t` [s] and the communication point with the index `k`. The
    recording contains the outputs that `record_options` selects, and all events. If the run has a
    log file, the recording writes a chunk of samples as soon as it is full or one second old. In
    this case, only the last chunk is in memory.

    `meta` contains the metadata of the run. The context manager `hold()` delays interrupts while a
    chunk is written.
    """

    def __init__(
        self,
        wiring: Wiring,
        grid: Grid,
        meta: dict[str, str],
        record_options: RecordOptions,
        hold: Hold = contextlib.nullcontext,
    ):
        self.grid, self.meta, self.k, self.t = grid, meta, -1, grid.t_start
        self.events = list[ZeroCrossing]()
        self._written_events = 0  # number of written events
        self._has_event = False  # True if an event has occurred since the last row
        self.ports = wiring.outputs
        self.chosen = select_ports(self.ports, record_options.record)
        self.every, self._hold = record_options.spacing(grid), hold
        names = {port.name for port in self.chosen}
        kept = [port.name in names for port in self.ports]
        self._columns = np.flatnonzero(np.repeat(kept, [port.size for port in self.ports]))
        n, expected = len(self._columns), record_options.rows(grid)
        size = max(16, min(_CHUNK // (8 * (n + 1)), expected))
        self._chunk_time, self._chunk, self._filled = np.empty(size), np.empty((size, n)), 0
        self._due = monotonic() + _LONGEST
        self._rows: Rows = (
            RowsInMemory(n, expected)
            if record_options.log is None
            else LoggedRows(LogWriter(record_options.log, self.chosen, meta))
        )

    @property
    def element_names(self) -> list[str]:
        """Names of all output elements, such as `part.port[1]`, in the order of their columns."""
        return [name for port in self.ports for name in port.element_names]

    def add(self, row: Array) -> None:
        """Record the values `row` of all outputs at the next communication point.

        Raises ArithmeticError with the names of the variables if values are not finite. Raises
        OSError if the values cannot be written.
        """
        t = self.grid.t_start + (self.k + 1) * self.grid.dt
        check_finite(self.ports, row)
        self.t = t
        self.k += 1
        if self.k % self.every == 0 or self._has_event:
            self._append(t, row)

    def insert(self, t: float, row: Array) -> None:
        """Record the output values `row` at a time t [s] between communication points."""
        check_finite(self.ports, row)
        self.t = t
        self._append(t, row)

    def add_crossings(self, t: float, columns: Array) -> None:
        """Record an event at t [s] for each output element that fell below zero.

        `columns` contains the indices of these elements in `element_names`.
        """
        self.events += [ZeroCrossing(t, self.element_names[column]) for column in columns]
        self._has_event = True

    def next_buffer(self) -> tuple[Array, Array]:
        """Return writable arrays for the next times (n,) and rows (n, columns), with n >= 1.

        Fill the arrays, then call `commit`.
        """
        if self._filled == len(self._chunk) or monotonic() > self._due or self._rows.next_buffer():
            self._flush()
        direct = self._rows.next_buffer()
        self._is_direct = direct is not None
        if direct is not None:
            return direct
        free = slice(self._filled, None)
        return self._chunk_time[free], self._chunk[free]

    def commit(self, steps: int, rows: int) -> None:
        """Record the samples that the caller has written to the arrays of `next_buffer`.

        Args:
            steps: Number of communication steps since the last call.
            rows: Number of written samples.
        """
        self.k += steps
        self.t = self.grid.t_start + self.k * self.grid.dt
        # last statement: an interrupt before it leaves the recorded samples valid
        if self._is_direct:
            self._rows.commit(rows)
        else:
            self._filled += rows

    def finish(self) -> tuple[Result, Exception | None]:
        """Return the result, and the exception of a failed write or None.

        Samples that could not be written are in memory and part of the result.
        """
        failure = None
        try:
            self._flush()
        except (OSError, MemoryError) as error:
            failure = error
        rest = slice(0, self._filled)
        time, values = self._rows.finish(self._chunk_time[rest], self._chunk[rest])
        return Result(time, self.chosen, values, self.meta, tuple(self.events)), failure

    def _append(self, t: float | Array, rows: Array) -> None:
        """Append one sample at the time t [s], or several samples at the times t (n,).

        The samples must fit into one chunk.
        """
        n = np.size(t)
        if self._filled + n > len(self._chunk) or monotonic() > self._due:
            self._flush()
        new = slice(self._filled, self._filled + n)
        self._chunk_time[new], self._chunk[new] = t, rows[..., self._columns]
        self._filled = new.stop  # after the copy: an interrupt leaves the recorded samples valid
        self._has_event = False

    def _flush(self) -> None:
        with self._hold():
            if self._filled:
                chunk, events = slice(0, self._filled), self.events[self._written_events :]
                self._rows.write(self._chunk_time[chunk], self._chunk[chunk], events)
                self._written_events += len(events)
            self._filled, self._due = 0, monotonic() + _LONGEST


def check_finite(ports: Sequence[Port], row: Array) -> None:
    """Raise ArithmeticError with the names of the outputs whose values in `row` are not finite."""
    if not np.isfinite(row).all():
        names = (name for port in ports for name in port.element_names)
        bad = [name for name, value in zip(names, row, strict=True) if not np.isfinite(value)]
        raise ArithmeticError(f"outputs are not finite: {', '.join(bad[:8])}")


def select_ports(ports: Iterable[Port], record: Sequence[str]) -> tuple[Port, ...]:
    """Return the ports that match any pattern; raise KeyError for a pattern without a match."""
    ports = tuple(ports)
    if "*" in record:
        return ports
    found: set[str] = set()
    for pattern in record:
        some = {p.name for p in ports if p.name == pattern or fnmatchcase(p.name, pattern)}
        if not some:
            names = [port.name for port in ports]
            raise KeyError(f"no signal to record matches '{pattern}'; {suggestion(pattern, names)}")
        found |= some
    return tuple(port for port in ports if port.name in found)
