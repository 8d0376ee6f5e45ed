"""What a run leaves: a row of its outputs at communication points and events, in memory or in a log
on disk.
"""

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

from rigidblocks.algebra.spatial import Array
from rigidblocks.block.block import Port
from rigidblocks.block.record import offer
from rigidblocks.simulation.files import check_target, described
from rigidblocks.simulation.grid import Grid
from rigidblocks.simulation.log import LoggedValues, LogWriter
from rigidblocks.simulation.result import Result
from rigidblocks.system.wiring import Wiring

_CHUNK = 1 << 20  # bytes of the rows that are written at once
_LONGEST = 1.0  # s that a row waits to be written

Hold = Callable[[], contextlib.AbstractContextManager[None]]


class Fall(NamedTuple):
    """An output element, `kind`, has fallen through zero at time t [s]."""

    t: float
    kind: str


@dataclass(frozen=True)
class Wanted:
    """What of a run is to be kept: the outputs that `record` names by patterns such as `robot.*`,
    each `every`-th communication point, in the file `save` or in memory.
    """

    record: Sequence[str] = ("*",)
    every: int = 1
    save: Path | None = None

    @property
    def log(self) -> Path | None:
        """The log that the run is written to while it goes on; None without pyarrow."""
        if self.save is None or find_spec("pyarrow") is None:
            return None
        arrow = self.save.suffix == ".arrow"
        return self.save if arrow else self.save.with_name(f"{self.save.name}.arrow")

    def check(self, wiring: Wiring, grid: Grid) -> None:
        """Raises KeyError for a pattern that names nothing, and what cannot be saved (`files`)."""
        columns = 1 + sum(port.size for port in chosen(wiring.outputs, self.record))
        if self.save is not None:
            logged = self.log not in (None, self.save)
            check_target(self.save, columns * self.rows(grid), logged)

    def rows(self, grid: Grid) -> int:
        """The number of rows of a run without events."""
        return grid.n // self.every + 1


class Rows(abc.ABC):
    """Where the chunks of a record go."""

    @abc.abstractmethod
    def write(self, time: Array, rows: Array, events: Sequence[Fall]) -> None:
        """Appends the rows (n, columns) at the times (n,) [s], and the events since the last ones,
        all or nothing.
        """

    @abc.abstractmethod
    def room(self) -> tuple[Array, Array] | None:
        """The places of the next times and rows, for who writes them there and tells `took` how
        many; None where they are to be given to `write`.
        """

    @abc.abstractmethod
    def took(self, rows: int) -> None:
        """So many have been written to `room`."""

    @abc.abstractmethod
    def finish(self, time: Array, rows: Array) -> tuple[Array, Array | LoggedValues]:
        """The times and rows that were written, and then those given, which could not be."""


class RowsInMemory(Rows):
    """Rows in one array that grows without being copied."""

    def __init__(self, columns: int, expected: int):
        try:
            self._time, self._rows = np.empty(expected), np.empty((expected, columns))
        except MemoryError:
            raise MemoryError(
                f"there is no memory for a record of {expected:,} rows of {columns} numbers: "
                "record less by `record` or `every`, or to a file by `save`"
            ) from None
        self._n = 0

    def write(self, time: Array, rows: Array, events: Sequence[Fall]) -> None:
        del events  # which the recording has
        new = slice(self._n, self._n + len(time))
        if new.stop > len(self._time):
            more = new.stop + new.stop // 8
            # no one else has these arrays, so that they may move
            self._rows.resize((more, self._rows.shape[1]), refcheck=False)
            self._time.resize(more, refcheck=False)
        self._time[new], self._rows[new] = time, rows
        self._n = new.stop

    def room(self) -> tuple[Array, Array] | None:
        free = slice(self._n, None)
        return None if self._n == len(self._time) else (self._time[free], self._rows[free])

    def took(self, rows: int) -> None:
        self._n += rows

    def finish(self, time: Array, rows: Array) -> tuple[Array, Array]:
        with contextlib.suppress(MemoryError):  # for which there was no room before
            self.write(time, rows, ())
        return self._time[: self._n], self._rows[: self._n]


class LoggedRows(Rows):
    """Rows in a log on disk."""

    def __init__(self, writer: LogWriter):
        self._writer = writer

    def write(self, time: Array, rows: Array, events: Sequence[Fall]) -> None:
        self._writer.write(time, rows, events)

    def room(self) -> tuple[Array, Array] | None:
        return None

    def took(self, rows: int) -> None:
        """Has no room."""

    def finish(self, time: Array, rows: Array) -> tuple[Array, LoggedValues]:
        return self._writer.finish(time, rows)


class Recording:
    """The record of a run under way, which is at its step `k` and time `t` [s].

    It has what is `wanted`, and all events. With a log the rows go there chunk by chunk, a chunk
    as soon as it is full or a second old, and only the last one is in memory. `meta` says how they
    come about; `hold` keeps interrupts away while a chunk is written.
    """

    def __init__(
        self,
        wiring: Wiring,
        grid: Grid,
        meta: dict[str, str],
        wanted: Wanted,
        hold: Hold = contextlib.nullcontext,
    ):
        self.grid, self.meta, self.k, self.t = grid, meta, -1, grid.t_start
        self.events = list[Fall]()
        self._told = 0  # the events that are written
        self._has_fallen = False  # since the last row
        self.ports = wiring.outputs
        self.chosen = chosen(self.ports, wanted.record)
        self.every, self._hold = wanted.every, hold
        names = {port.name for port in self.chosen}
        kept = [port.name in names for port in self.ports]
        self._columns = np.flatnonzero(np.repeat(kept, [port.size for port in self.ports]))
        n, expected = len(self._columns), wanted.rows(grid)
        size = max(16, min(_CHUNK // (8 * (n + 1)), expected))
        self._chunk_time, self._chunk, self._filled = np.empty(size), np.empty((size, n)), 0
        self._due = monotonic() + _LONGEST
        self._rows: Rows = (
            RowsInMemory(n, expected)
            if wanted.log is None
            else LoggedRows(LogWriter(wanted.log, self.chosen, described(self.chosen, meta)))
        )

    @property
    def element_names(self) -> list[str]:
        """The name of each column of a row, `part.port` with its index."""
        return [name for port in self.ports for name in port.element_names]

    def add(self, row: Array) -> None:
        """Records the row of all outputs at the next communication point.

        Raises ArithmeticError, naming the variables, when it is not finite, and OSError when it
        cannot be written.
        """
        t = self.grid.t_start + (self.k + 1) * self.grid.dt
        check_finite(self.ports, row)
        self.t = t
        self.k += 1
        if self.k % self.every == 0 or self._has_fallen:
            self._append(t, row)

    def insert(self, t: float, row: Array) -> None:
        """Records the row of all outputs at a time between the communication points, as `add`."""
        check_finite(self.ports, row)
        self.t = t
        self._append(t, row)

    def fell(self, t: float, columns: Array) -> None:
        """Records that the outputs in these columns have fallen through zero."""
        self.events += [Fall(t, self.element_names[column]) for column in columns]
        self._has_fallen = True

    def room(self) -> tuple[Array, Array]:
        """The places of the times (n,) and rows (n, columns) of what is recorded next, one at
        least, for who writes them there; then comes `took`.
        """
        if self._filled == len(self._chunk) or monotonic() > self._due or self._rows.room():
            self._flush()
        direct = self._rows.room()
        self._is_direct = direct is not None
        if direct is not None:
            return direct
        free = slice(self._filled, None)
        return self._chunk_time[free], self._chunk[free]

    def took(self, steps: int, rows: int) -> None:
        """Records that so many steps were taken, and so many rows written to `room`: those of each
        `every`-th communication point.
        """
        self.k += steps
        self.t = self.grid.t_start + self.k * self.grid.dt
        if self._is_direct:  # the last thing, for an interrupt may come before
            self._rows.took(rows)
        else:
            self._filled += rows

    def finish(self) -> tuple[Result, Exception | None]:
        """What has been recorded so far, and why some of it is in memory alone."""
        failure = None
        try:
            self._flush()
        except (OSError, MemoryError) as error:
            failure = error
        rest = slice(0, self._filled)
        time, values = self._rows.finish(self._chunk_time[rest], self._chunk[rest])
        return Result(time, self.chosen, values, self.meta, tuple(self.events)), failure

    def _append(self, t: float | Array, rows: Array) -> None:
        """A row, or no more rows than a chunk has."""
        n = np.size(t)
        if self._filled + n > len(self._chunk) or monotonic() > self._due:
            self._flush()
        new = slice(self._filled, self._filled + n)
        self._chunk_time[new], self._chunk[new] = t, rows[..., self._columns]
        self._filled = new.stop  # last, for an interrupt may come before
        self._has_fallen = False

    def _flush(self) -> None:
        with self._hold():
            if self._filled:
                chunk, events = slice(0, self._filled), self.events[self._told :]
                self._rows.write(self._chunk_time[chunk], self._chunk[chunk], events)
                self._told += len(events)
            self._filled, self._due = 0, monotonic() + _LONGEST


def check_finite(ports: Sequence[Port], row: Array) -> None:
    """Raises ArithmeticError, naming the variables, when a row of ports is not finite."""
    if not np.isfinite(row).all():
        names = (name for port in ports for name in port.element_names)
        bad = [name for name, value in zip(names, row, strict=True) if not np.isfinite(value)]
        raise ArithmeticError(f"not finite: {', '.join(bad[:8])}")


def chosen(ports: Iterable[Port], record: Sequence[str]) -> tuple[Port, ...]:
    """The ports that any of the patterns names; raises KeyError for one that names none."""
    ports = tuple(ports)
    if "*" in record:
        return ports
    found: set[str] = set()
    for pattern in record:
        some = {p.name for p in ports if p.name == pattern or fnmatchcase(p.name, pattern)}
        if not some:
            names = [port.name for port in ports]
            raise KeyError(f"no signal to record matches '{pattern}'; {offer(pattern, names)}")
        found |= some
    return tuple(port for port in ports if port.name in found)
