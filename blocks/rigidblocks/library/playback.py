"""Playback of recorded signals."""

import csv
import os
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from rigidblocks.algebra.scalar import clip, select
from rigidblocks.algebra.spatial import Array
from rigidblocks.algebra.tables import entry, held_place, reached, shortly_after
from rigidblocks.block.block import Block, Port, Values
from rigidblocks.extras import module_of
from rigidblocks.library.sources import rate_unit


@dataclass(frozen=True, eq=False)
class Playback(Block):
    """Columns of a CSV, Parquet or MDF4 file over time, linear between the rows; before the first
    and after the last row they rest.

    `file` is a path, whose ending .parquet or .mf4 tells its format (they need pyarrow and
    asammdf), or an open text file with a line of column names first. `columns` are the names to
    play, `time` the name of the column of times [s], which must increase (of an MDF4 file its own
    times are taken); `unit` is one unit for all or one for each. The outputs are the value y (n,)
    and its slope (n,), which at a row is the one that follows.

    The file is read once, here; the table is a constant, not a parameter. In a compiled block it is
    data, and a search finds the row: a step takes the logarithm of its length.
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

    def output(self, t: Any) -> Values:
        times, last = self.table[:, 0], len(self.table) - 1
        # a row that rounding has put just ahead has been reached
        k = held_place(reached(times, t + 1e-9 * np.abs(t)), times, shortly_after(t))
        row = clip(k - 1.0, 0.0, last - 1.0)
        begin, end = entry(times, row), entry(times, row + 1.0)
        moves = select(k >= 1.0, select(k <= last, 1.0, 0.0), 0.0)
        y, slope = [], []
        for column in self.table[:, 1:].T:
            before, after = entry(column, row), entry(column, row + 1.0)
            slope.append(select(moves > 0.0, (after - before) / (end - begin), 0.0))
            rests = select(k >= 1.0, after, before)
            y.append(select(moves > 0.0, before + slope[-1] * (t - begin), rests))
        return {"y": np.array(y), "slope": np.array(slope)}


def _read(file: str | Path | TextIO, names: tuple[str, ...]) -> Array:
    """The columns of those names as a table (k, n), its first column increasing."""
    if isinstance(file, str | os.PathLike):
        read = {".parquet": _parquet, ".mf4": _mdf4}.get(Path(file).suffix.lower())
        if read is not None:
            return _checked(str(file), read(Path(file), names), names)
        with open(file, newline="") as opened:
            return _table(str(file), csv.reader(opened), names)
    return _table(str(getattr(file, "name", "the file")), csv.reader(file), names)


def _parquet(path: Path, names: tuple[str, ...]) -> Array:
    """The columns of a Parquet file; raises ImportError without pyarrow."""
    parquet = module_of("data", "pyarrow.parquet", f"'{path}'")
    there = parquet.read_schema(path).names
    _check_names(str(path), names, there)
    table = parquet.read_table(path, columns=list(names))
    return np.column_stack([table[name].to_numpy().astype(float) for name in names])


def _mdf4(path: Path, names: tuple[str, ...]) -> Array:
    """The channels of an MDF4 file at the times of the first; raises ImportError without
    asammdf.
    """
    with module_of("mdf", "asammdf", f"'{path}'").MDF(path) as file:
        _check_names(str(path), names[1:], list(file.channels_db))
        times = file.get(names[1]).timestamps
        columns = [file.get(name).interp(times).samples.astype(float) for name in names[1:]]
    return np.column_stack([times, *columns])


def _check_names(where: str, names: tuple[str, ...], there: list[str]) -> None:
    if missing := [name for name in names if name not in there]:
        raise ValueError(
            f"{where} has no column {', '.join(missing)}; it has: {', '.join(there) or 'none'}"
        )


def _table(where: str, lines: Any, names: tuple[str, ...]) -> Array:
    header = [name.strip() for name in next(lines, [])]
    _check_names(where, names, header)
    places = [header.index(name) for name in names]
    rows = []
    for number, line in enumerate(filter(None, lines), 2):
        try:
            rows.append([float(line[k]) for k in places])
        except (ValueError, IndexError):
            raise ValueError(
                f"row {number} of {where} is not a number in each of {', '.join(names)}: {line}"
            ) from None
    return _checked(where, np.array(rows).reshape(-1, len(names)), names)


def _checked(where: str, table: Array, names: tuple[str, ...]) -> Array:
    """The table, which must be finite with increasing times."""
    if not np.all(np.isfinite(table)):
        raise ValueError(f"{where} must be finite in {', '.join(names)}")
    if len(table) < 2 or np.any(np.diff(table[:, 0]) <= 0):
        raise ValueError(f"{where} needs at least two rows with increasing {names[0]}")
    table.setflags(write=False)
    return table
