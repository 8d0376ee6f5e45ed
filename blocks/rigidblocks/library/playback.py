"""Playback of recorded signals."""

import csv
import os
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from rigidblocks.algebra.scalar import select
from rigidblocks.algebra.spatial import Array
from rigidblocks.block.block import Block, Port, Values
from rigidblocks.library.sources import rate_unit

MOST_NUMBERS = (
    2_000  # of times, values and slopes together; a C compiler takes some seconds for these
)


@dataclass(frozen=True, eq=False)
class Playback(Block):
    """Columns of a CSV file over time, linear between the rows; before the first and after the last
    row they rest.

    `file` is a path or an open text file with a line of column names first. `columns` are the names
    to play, `time` the name of the column of times [s], which must increase; `unit` is one unit for
    all or one for each. The outputs are the value y (n,) and its slope (n,), which at a row is the
    one that follows.

    The file is read once, here; the table is a constant, not a parameter. A compiled block finds
    the row by a binary search written as selections, whose code grows with the table: one of more
    than `MOST_NUMBERS` numbers, values and slopes counted, is refused.
    """

    file: str | Path | TextIO
    columns: tuple[str, ...]
    unit: str | tuple[str, ...] = "rad"
    time: str = "time"
    table: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if isinstance(self.columns, str) or not self.columns:
            raise ValueError(
                f"a playback needs a tuple of at least one column name, not {self.columns!r}"
            )
        object.__setattr__(self, "table", _read(self.file, (self.time, *self.columns)))
        size = len(self.table) * (1 + 2 * len(self.columns))
        if size > MOST_NUMBERS:
            raise ValueError(
                f"{len(self.table)} rows of {len(self.columns)} columns are too many for a "
                "playback: with times and slopes "
                f"{size} numbers, and {MOST_NUMBERS} can be compiled; take fewer rows"
            )

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """y (n,) and slope (n,)."""
        n, units = (
            len(self.columns),
            (self.unit,) if isinstance(self.unit, str) else tuple(self.unit),
        )
        units = units * n if len(units) == 1 else units
        return (
            Port("y", (n,), units, f"recorded {', '.join(self.columns)}"),
            Port("slope", (n,), tuple(map(rate_unit, units)), "rate of change"),
        )

    @cached_property
    def _segments(self) -> Array:
        """Time, values and slopes from each row on, in the order of time: one row ahead of all,
        then as many as make a power of two.
        """
        t, y = self.table[:, 0], self.table[:, 1:]
        slopes = np.vstack([np.diff(y, axis=0) / np.diff(t)[:, None], np.zeros((1, y.shape[1]))])
        rows = np.column_stack([t, y, slopes])
        before = np.concatenate([rows[0, : 1 + y.shape[1]], np.zeros(y.shape[1])])
        missing = (1 << len(rows).bit_length()) - len(rows) - 1
        after = np.tile(np.concatenate([[np.inf], rows[-1, 1:]]), (missing, 1))
        return np.vstack([before, rows, after])

    def output(self, t: Any) -> Values:
        n, rows = len(self.columns), self._segments
        while len(rows) > 1:
            earlier, later = np.split(rows, 2)
            reached = (
                t + 1e-9 * np.abs(t) >= later[0, 0]
            )  # a row that rounding has put just ahead has been reached
            rows = select(reached, later, earlier)
        begin, y, slope = rows[0, 0], rows[0, 1 : 1 + n], rows[0, 1 + n :]
        return {"y": y + slope * (t - begin), "slope": slope}


def _read(file: str | Path | TextIO, names: tuple[str, ...]) -> Array:
    """The columns of those names as a table (k, n), its first column increasing."""
    if isinstance(file, str | os.PathLike):
        with open(file, newline="") as opened:
            return _table(str(file), csv.reader(opened), names)
    return _table(str(getattr(file, "name", "the file")), csv.reader(file), names)


def _table(where: str, lines: Any, names: tuple[str, ...]) -> Array:
    header = [name.strip() for name in next(lines, [])]
    if missing := [name for name in names if name not in header]:
        raise ValueError(
            f"{where} has no column {', '.join(missing)}; it has: {', '.join(header) or 'none'}"
        )
    places = [header.index(name) for name in names]
    rows = []
    for number, line in enumerate(filter(None, lines), 2):
        try:
            rows.append([float(line[k]) for k in places])
        except (ValueError, IndexError):
            raise ValueError(
                f"row {number} of {where} is not a number in each of {', '.join(names)}: {line}"
            ) from None
    table = np.array(rows).reshape(-1, len(names))
    if not np.all(np.isfinite(table)):
        raise ValueError(f"{where} must be finite in {', '.join(names)}")
    if len(table) < 2 or np.any(np.diff(table[:, 0]) <= 0):
        raise ValueError(f"{where} needs at least two rows with increasing {names[0]}")
    table.setflags(write=False)
    return table
