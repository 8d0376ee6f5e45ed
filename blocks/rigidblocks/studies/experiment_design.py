"""Designs of experiments: tables of the parameter values of each run of a sweep."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rigidblocks.common.arrays import Array
from rigidblocks.common.name_hints import explain_calls
from rigidblocks.common.optional_imports import module_of
from rigidblocks.common.regular_files import check_regular_file

Range = tuple[ArrayLike, ArrayLike]  # smallest and largest values
_MOST = 10**8  # maximum number of runs of a design


@dataclass(frozen=True, eq=False)
class Design:
    """Table of the parameter values for each run.

    `names` are the names `part.port` or `part.port[1]` of the varied parameters, inputs and states.
    For inputs and states, the start values vary. `shapes` contains the shape of each named value.
    Each row of `table` (n, elements) contains the values of one run, with the elements in C order.

    Raises:
        ValueError: The design has no parameters, varies a parameter twice, or has a value that is
            not finite.
    """

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    table: Array

    def __post_init__(self) -> None:
        if not self.names or not len(self.table):
            raise ValueError("a design needs one or more parameters with their values")
        columns = self.columns()
        if twice := [name for k, name in enumerate(columns) if name in columns[:k]]:
            raise ValueError(f"a design can vary each parameter only once; {twice[0]} occurs twice")
        if not np.all(np.isfinite(self.table)):
            row, column = np.argwhere(~np.isfinite(self.table))[0]
            raise ValueError(
                f"{columns[column]} must be finite in each run, but is "
                f"{self.table[row, column]} in run {row}"
            )

    def __len__(self) -> int:
        return len(self.table)

    def columns(self) -> tuple[str, ...]:
        """Return the column names of the table: one name per element, such as `pd.kp[1]`."""
        return tuple(
            f"{name}[{','.join(str(k + 1) for k in index)}]" if shape else name
            for name, shape in zip(self.names, self.shapes, strict=True)
            for index in np.ndindex(*shape)
        )

    def values(self, numbers: Array) -> list[tuple[str, Array]]:
        """Split a table row `numbers` into pairs (name, value) of the varied parameters."""
        ends = np.cumsum([prod(shape) for shape in self.shapes])[:-1]
        parts = zip(self.names, self.shapes, np.split(numbers, ends), strict=True)
        return [(name, part.reshape(shape)) for name, shape, part in parts]


def table_design(source: Mapping[str, ArrayLike] | str | Path | Any) -> Design:
    """Return the design whose runs are the rows of a table.

        table_design("params.csv")
        table_design({"pd.kp[1]": [20.0, 40.0], "pd.kd[1]": [2.0, 3.0]})    two runs

    Args:
        source: Path of a .csv file with a header, `pandas.DataFrame`, or columns by name. The names
            are `part.port` or `part.port[1]`, as in `Design`. A column of a mapping has shape (n,),
            or (n, *shape) for a whole port. All columns have n rows. Lines of a file that begin
            with # are comments.

    Raises:
        ValueError: The table is empty, a value is not a finite number, a name occurs twice, or the
            columns have different lengths.
        FileNotFoundError: The file does not exist.
        TypeError: The source is not a table.
    """
    columns: dict[str, Any]
    if isinstance(source, str | Path):
        columns = _read_columns(Path(source))
    elif isinstance(source, Mapping):
        columns = {str(name): values for name, values in source.items()}
    elif hasattr(source, "columns"):  # a data frame
        names = [str(name) for name in source.columns]
        if twice := [name for k, name in enumerate(names) if name in names[:k]]:
            raise ValueError(f"the column {twice[0]} of the design occurs twice")
        columns = {str(name): source[name].to_numpy() for name in source.columns}
    else:
        raise TypeError(
            "a design is a table: the path of a .csv file, a DataFrame, a dict of columns such as "
            f"{{'pd.kp[1]': [20.0, 40.0]}}, or the result of `grid`; not {source!r:.60}"
        )
    arrays = {name: _numbers(name, values) for name, values in columns.items()}
    counts = {name: len(values) for name, values in arrays.items()}
    if len(set(counts.values())) > 1:
        said = ", ".join(f"{name} has {count}" for name, count in counts.items())
        raise ValueError(
            f"the columns of a design must have equal lengths, but {said}; for all combinations of "
            "the values, use grid"
        )
    n = next(iter(counts.values()), 0)
    table = [values.reshape(n, -1) for values in arrays.values()] if n else []
    shapes = tuple(values.shape[1:] for values in arrays.values())
    return Design(tuple(arrays), shapes, np.hstack(table) if table else np.zeros((0, 0)))


def _numbers(name: str, values: Any) -> Array:
    """Convert the values of the column `name` to a numeric array (n, ...)."""
    try:
        found = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(f"{name} of the design needs numbers, not {values!r:.60}") from None
    if found.ndim == 0:
        raise ValueError(f"{name} of the design needs one value per run: {name}=[{values!r}]")
    return found


def _read_columns(path: Path) -> dict[str, list[float]]:
    """Return the columns of a .csv file by name."""
    if path.suffix.lower() != ".csv":
        raise ValueError(f"the design '{path}' must be a .csv file")
    check_regular_file(path)
    with open(path, newline="", encoding="utf-8-sig") as file:  # spreadsheets write a BOM
        rows = [
            (number, [cell.strip() for cell in row])
            for number, row in enumerate(csv.reader(file), 1)
            if any(map(str.strip, row)) and not row[0].startswith("#")
        ]
    if len(rows) < 2:
        raise ValueError(f"the design '{path}' needs a header and one or more rows")
    (_, header), *body = rows
    if twice := [name for k, name in enumerate(header) if name in header[:k]]:
        raise ValueError(f"the column '{twice[0]}' of the design '{path}' occurs twice")
    for number, row in body:
        try:
            if len(row) != len(header):
                raise ValueError
            _ = [float(cell) for cell in row]
        except ValueError:
            raise ValueError(
                f"line {number} of the design '{path}' needs a number in each of the columns "
                f"{', '.join(header)}, but is {row}"
            ) from None
    return {name: [float(row[k]) for _, row in body] for k, name in enumerate(header)}


@explain_calls()
def grid(values: Mapping[str, Iterable[ArrayLike]]) -> Design:
    """Return a full factorial design: one run for each combination of the values.

    Args:
        values: Values by the name of a parameter, input or state, as in `Design`. The values of the
            last name vary fastest.

    Raises:
        ValueError: The values of one name have different shapes, or a name has no values.
        TypeError: `values` is not a mapping, or the values of a name are not a list.
    """
    if not isinstance(values, Mapping):
        raise TypeError(
            f"grid needs values by name, such as {{'pd.kp[1]': [20.0, 40.0]}}, not {values!r}"
        )
    for name, some in values.items():
        if not isinstance(some, Iterable):
            raise TypeError(f"grid needs a list of values for '{name}', such as [{some!r}]")
    lists = {name: [np.asarray(one, float) for one in given] for name, given in values.items()}
    for name, given in lists.items():
        if len({one.shape for one in given}) > 1:
            raise ValueError(
                f"the values of '{name}' have different shapes; all must have the same shape"
            )
        if not given:
            raise ValueError(f"{name} needs one or more values")
    counts = [len(given) for given in lists.values()]
    if prod(counts) > _MOST:
        raise ValueError(f"the grid has {prod(counts):,} runs; at most {_MOST:,} are allowed")
    places = np.indices(counts).reshape(len(counts), -1) if counts else np.zeros((0, 0), int)
    tables = [np.stack([one.ravel() for one in given]) for given in lists.values()]
    columns = [table[place] for table, place in zip(tables, places, strict=True)]
    shapes = tuple(given[0].shape for given in lists.values())
    return Design(tuple(lists), shapes, np.hstack(columns) if columns else np.zeros((0, 0)))


def latin_hypercube(ranges: Mapping[str, Range], n: int, seed: int = 0) -> Design:
    """Return a Latin hypercube design of n runs (McKay and others 1979).

    The design divides each range into n equal intervals. Each interval contains the value of
    exactly one run.

    Args:
        ranges: Pairs (smallest, largest value) by name, as in `Design`.
        n: Number of runs.
        seed: Seed of the random values.
    """
    rng, shape = np.random.default_rng(seed), (_count(n), _size(ranges))
    places = rng.permuted(np.tile(np.arange(n)[:, None], (1, shape[1])), axis=0)
    return _scale_to_ranges(ranges, (places + rng.random(shape)) / n)


def sobol(ranges: Mapping[str, Range], n: int, seed: int = 0) -> Design:
    """Return a scrambled Sobol design of n runs (Sobol 1967).

    Args:
        ranges: Pairs (smallest, largest value) by name, as in `Design`.
        n: Number of runs, which should be a power of 2.
        seed: Seed of the scrambling.

    Raises:
        ImportError: SciPy is not installed.
    """
    count, size = _count(n), _size(ranges)
    qmc = module_of("scipy.stats.qmc", "this design")
    if not size:  # SciPy does not support designs without columns
        return _scale_to_ranges(ranges, np.zeros((0, 0)))
    return _scale_to_ranges(ranges, qmc.Sobol(size, rng=seed).random(count))


def uniform(ranges: Mapping[str, Range], n: int, seed: int = 0) -> Design:
    """Return a Monte Carlo design: n runs with independent, uniformly distributed values.

    Args:
        ranges: Pairs (smallest, largest value) by name, as in `Design`.
        n: Number of runs.
        seed: Seed of the random values.
    """
    rng = np.random.default_rng(seed)
    return _scale_to_ranges(ranges, rng.random((_count(n), _size(ranges))))


def _count(n: int) -> int:
    if isinstance(n, bool) or not isinstance(n, int) or not 1 <= n <= _MOST:
        raise ValueError(f"the number of runs must be from 1 to {_MOST:,}, not {n!r}")
    return n


def _bounds(name: str, bounds: Any) -> tuple[Array, Array]:
    try:
        low, high = np.broadcast_arrays(*(np.asarray(one, float) for one in bounds))
    except (TypeError, ValueError):
        raise ValueError(f"{name} needs a range (smallest, largest), not {bounds!r}") from None
    if not np.all(low <= high):
        raise ValueError(
            f"the smallest value of the range of {name} must be at most its largest value, but the "
            f"range is {bounds!r}"
        )
    return low, high


def _size(ranges: Mapping[str, Range]) -> int:
    return sum(_bounds(name, given)[0].size for name, given in ranges.items())


def _scale_to_ranges(ranges: Mapping[str, Range], s: Array) -> Design:
    """Return the design with the fractions s (n, elements), from 0 to 1, of each range.

        value = low + s (high - low)

    The columns of s are the elements of all names, in the order of the names.
    """
    bounds = [_bounds(name, given) for name, given in ranges.items()]
    low = np.concatenate([np.zeros(0), *(low.ravel() for low, _ in bounds)])
    high = np.concatenate([np.zeros(0), *(high.ravel() for _, high in bounds)])
    shapes = tuple(low.shape for low, _ in bounds)
    return Design(tuple(ranges), shapes, low + s * (high - low))
