"""Tables looked up by a number that may be traced: a search and an entry, both piecewise constant.

In C a table is data, and a search takes as many steps as its length has binary digits.
"""

from typing import Any

import numpy as np

from rigidblocks.algebra.scalar import is_traced
from rigidblocks.algebra.spatial import Array

Number = Any


def reached(grid: Array, x: Number) -> Number:
    """How many of the increasing numbers of a grid are at most x, element by element; 0 for NaN."""
    if is_traced(x):
        return np.frompyfunc(lambda one: _reached_one(grid, one), 1, 1)(x)
    count = np.searchsorted(grid, x, side="right")
    return np.where(np.isnan(x), 0.0, count)[()]


def entry(values: Array, index: Number) -> Number:
    """The entry of a table (n,) at an index from 0 on, element by element; beyond an end it is that
    of the end.
    """
    if is_traced(index):
        return np.frompyfunc(lambda one: _entry_one(values, one), 1, 1)(index)
    return values[np.clip(index, 0, len(values) - 1).astype(int)]


def _reached_one(grid: Array, x: Any) -> Any:
    return x.reached(grid) if hasattr(x, "reached") else float(reached(grid, float(x)))


def _entry_one(values: Array, index: Any) -> Any:
    return index.entry(values) if hasattr(index, "entry") else float(entry(values, float(index)))
