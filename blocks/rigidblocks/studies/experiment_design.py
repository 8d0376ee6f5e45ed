"""What is varied from run to run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rigidblocks.algebra.spatial import Array
from rigidblocks.extras import module_of

Range = tuple[ArrayLike, ArrayLike]  # the smallest and the largest values
_MOST = 10**8  # runs, which nobody waits for


@dataclass(frozen=True, eq=False)
class Design:
    """Values of what is varied, for each run: start values of inputs, states and parameters by
    `part.port`, or `part.port[1]` for one element, each of one of the `shapes`. The `table` (n,
    numbers) has those of a run in each row, in C order of their elements.
    """

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    table: Array

    def __post_init__(self) -> None:
        if not self.names or not len(self.table):
            raise ValueError("a design needs something to vary, and values for it")
        columns = self.columns()
        if twice := [name for k, name in enumerate(columns) if name in columns[:k]]:
            raise ValueError(f"a design varies each number once, and {twice[0]} twice")
        if not np.all(np.isfinite(self.table)):
            row, column = np.argwhere(~np.isfinite(self.table))[0]
            raise ValueError(
                f"{columns[column]} must be finite in each run, not "
                f"{self.table[row, column]} as in run {row}"
            )

    def __len__(self) -> int:
        return len(self.table)

    def columns(self) -> tuple[str, ...]:
        """The name of each varied number: `pd.kp[1]`, `pd.kp[2]` of one that is an array."""
        return tuple(
            f"{name}[{','.join(str(k + 1) for k in index)}]" if shape else name
            for name, shape in zip(self.names, self.shapes, strict=True)
            for index in np.ndindex(*shape)
        )

    def values(self, numbers: Array) -> list[tuple[str, Array]]:
        """The names, each with its value in a row of the table."""
        ends = np.cumsum([prod(shape) for shape in self.shapes])[:-1]
        parts = zip(self.names, self.shapes, np.split(numbers, ends), strict=True)
        return [(name, part.reshape(shape)) for name, shape, part in parts]


def grid(values: Mapping[str, Iterable[ArrayLike]]) -> Design:
    """Every combination of these values; the last name varies fastest.

    Raises ValueError for values of one name that have different shapes, and where there are none.
    """
    lists = {name: [np.asarray(one, float) for one in given] for name, given in values.items()}
    for name, given in lists.items():
        if len({one.shape for one in given}) > 1:
            raise ValueError(f"the values of {name} must be of one shape")
        if not given:
            raise ValueError(f"there are no values of {name} to vary it over")
    counts = [len(given) for given in lists.values()]
    if prod(counts) > _MOST:
        raise ValueError(f"a grid of {prod(counts):,} runs; at most {_MOST:,} are taken")
    places = np.indices(counts).reshape(len(counts), -1) if counts else np.zeros((0, 0), int)
    tables = [np.stack([one.ravel() for one in given]) for given in lists.values()]
    chosen = [table[place] for table, place in zip(tables, places, strict=True)]
    shapes = tuple(given[0].shape for given in lists.values())
    return Design(tuple(lists), shapes, np.hstack(chosen) if chosen else np.zeros((0, 0)))


def latin_hypercube(ranges: Mapping[str, Range], n: int, seed: int = 0) -> Design:
    """n runs, each of whose numbers is alone in its n-th of its range (McKay and others 1979)."""
    rng, shape = np.random.default_rng(seed), (_count(n), _size(ranges))
    places = rng.permuted(np.tile(np.arange(n)[:, None], (1, shape[1])), axis=0)
    return _within(ranges, (places + rng.random(shape)) / n)


def sobol(ranges: Mapping[str, Range], n: int, seed: int = 0) -> Design:
    """n runs spread evenly over the ranges (Sobol 1967, scrambled); best with n a power of 2.

    Needs SciPy.
    """
    count, size = _count(n), _size(ranges)
    qmc = module_of("sparse", "scipy.stats.qmc", "this design")
    if not size:  # which the design refuses
        return _within(ranges, np.zeros((0, 0)))
    return _within(ranges, qmc.Sobol(size, rng=seed).random(count))


def uniform(ranges: Mapping[str, Range], n: int, seed: int = 0) -> Design:
    """n runs with independent random numbers, for Monte Carlo."""
    rng = np.random.default_rng(seed)
    return _within(ranges, rng.random((_count(n), _size(ranges))))


def _count(n: int) -> int:
    if isinstance(n, bool) or not isinstance(n, int) or not 1 <= n <= _MOST:
        raise ValueError(f"a design needs a number of runs, from 1 to {_MOST:,}, not {n!r}")
    return n


def _bounds(name: str, given: Any) -> tuple[Array, Array]:
    try:
        low, high = np.broadcast_arrays(*(np.asarray(one, float) for one in given))
    except (TypeError, ValueError):
        raise ValueError(f"{name} needs a range (smallest, largest), not {given!r}") from None
    if not np.all(low <= high):
        raise ValueError(f"the range of {name} needs its smallest values first, not {given!r}")
    return low, high


def _size(ranges: Mapping[str, Range]) -> int:
    return sum(_bounds(name, given)[0].size for name, given in ranges.items())


def _within(ranges: Mapping[str, Range], shares: Array) -> Design:
    """The design whose numbers lie at these shares of their ranges, (n, numbers)."""
    bounds = [_bounds(name, given) for name, given in ranges.items()]
    low = np.concatenate([np.zeros(0), *(low.ravel() for low, _ in bounds)])
    high = np.concatenate([np.zeros(0), *(high.ravel() for _, high in bounds)])
    shapes = tuple(low.shape for low, _ in bounds)
    return Design(tuple(ranges), shapes, low + shares * (high - low))
