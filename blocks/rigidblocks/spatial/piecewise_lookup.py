"""Search in grids and entries of tables, both piecewise constant, for traced arguments too.

In generated C a table is constant data. A search takes as many iterations as the table length has
binary digits.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from rigidblocks.spatial.scalar import excess, is_traced, less, minimum, piecewise, select
from rigidblocks.spatial.spatial import Array

ROUNDING = 16.0 * float(np.finfo(float).eps)  # relative error of a time after several roundings

Number = Any


def count_at_most(grid: Array, x: Number) -> Number:
    """Return the number of points of an increasing grid that are at most x; 0 for NaN.

    The function works element by element.
    """
    if is_traced(x):
        return np.frompyfunc(lambda one: _count_one_at_most(grid, one), 1, 1)(x)
    count = np.searchsorted(grid, x, side="right")
    return np.where(np.isnan(x), 0.0, count)[()]


def entry(values: Array, index: Number) -> Number:
    """Return the entry of a table (n,) at an index from 0 to n - 1, element by element.

    An index outside the table gives the entry at the nearer end of the table.
    """
    if is_traced(index):
        return np.frompyfunc(lambda one: _entry_one(values, one), 1, 1)(index)
    return values[np.clip(index, 0, len(values) - 1).astype(int)]


def held_place(index: Number, grid: Array, x: Number) -> Number:
    """Hold `index` in model exchange until x reaches the next or the previous grid point.

    `index` is the number of points of a grid (n,) that are at most x. Between two events, the index
    also stays the same slightly beyond a grid point (see `piecewise`). Each binary digit of the
    Gray code of the index has its own event indicator, because only one digit changes at each grid
    point. In a run that starts at the first grid point, x has already reached this point.
    """
    if not (is_traced(index) and len(grid)):
        return index
    margins = [
        _to_next(count_at_most(part, x), x, *_ends(part, count_at_most(part, x)))
        for part in (grid[2**b - 1 :: 2 ** (b + 1)] for b in range(len(grid).bit_length()))
    ]
    digits = [piecewise(margin, 0.0, 1.0) for margin in margins[1:]]
    return piecewise(margins[0], _gray([0.0, *digits]), _gray([1.0, *digits]), index)


def held_count(count: Number, x: Number, low: Number, high: Number) -> Number:
    """Hold the index `count` of the interval [low, high) that contains x, as `held_place` does.

    The number of successive intervals is not limited. The interval that starts at the start time
    of a run must have an odd `count`.
    """
    if not is_traced(count):
        return count
    other = select(less(excess(x, low), excess(high, x)), count - 1.0, count + 1.0)
    even = _is_even(count)
    laws = select(even, count, other), select(even, other, count)
    return piecewise(_to_next(count, x, low, high), *laws, count)


def _ends(grid: Array, index: Number) -> tuple[Number, Number]:
    """Return the ends of the grid interval for `index`, the number of grid points up to x."""
    padded = np.concatenate([[-1e300], grid, [1e300]])
    return entry(padded, index), entry(padded, index + 1.0)


def _is_even(count: Number) -> Number:
    return less(count - 2.0 * np.floor(count / 2.0), 0.5)


def _to_next(count: Number, x: Number, low: Number, high: Number) -> Number:
    """Return the distance of x from the nearer interval end; it is negative if `count` is odd."""
    inside = minimum(excess(x, low), excess(high, x))
    return select(_is_even(count), inside, -inside)


def _gray(digits: Sequence[Number]) -> Number:
    """Return the number that the Gray code `digits` represents; the lowest digit is first."""
    number, digit = 0.0, 0.0
    for k, changed in reversed([*enumerate(digits)]):
        digit = digit + changed - 2.0 * digit * changed
        number = number + digit * 2.0**k
    return number


def after_event(t: Number) -> Number:
    """Return a time [s] slightly after t: an event at t is then past, also if t is rounded."""
    return t + (4e-12 * (1.0 + minimum(np.abs(t), 1e3)) + 4.0 * ROUNDING * np.abs(t))


def rounded_up(t: Number) -> Number:
    """Return a time [s] just after t: an event at t is then reached despite rounding of t.

    It is later than t by 1e-9 of t (at most 1 us) plus the rounding error of t.
    """
    return t + (minimum(1e-9 * np.abs(t), 1e-6) + ROUNDING * np.abs(t))


def _count_one_at_most(grid: Array, x: Any) -> Any:
    return (
        x.count_at_most(grid)
        if hasattr(x, "count_at_most")
        else float(count_at_most(grid, float(x)))
    )


def _entry_one(values: Array, index: Any) -> Any:
    return index.entry(values) if hasattr(index, "entry") else float(entry(values, float(index)))
