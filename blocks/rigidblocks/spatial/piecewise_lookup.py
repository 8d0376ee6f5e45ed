"""Grid search and table lookup for floats and traced scalars.

The results are piecewise constant functions. In generated C code, a table is constant data, and a
search takes as many iterations as the table length has binary digits.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from rigidblocks.spatial.scalar import excess, is_traced, less, minimum, piecewise, select
from rigidblocks.spatial.spatial import Array

ROUNDING = 16.0 * float(np.finfo(float).eps)  # relative rounding error of a computed time

Number = Any


def count_at_most(grid: Array, x: Number) -> Number:
    """Return the number of grid points at or below x, for each element of x.

    The grid points must increase. The result for NaN is 0.
    """
    if is_traced(x):
        return np.frompyfunc(lambda one: _count_one_at_most(grid, one), 1, 1)(x)
    count = np.searchsorted(grid, x, side="right")
    return np.where(np.isnan(x), 0.0, count)[()]


def entry(values: Array, index: Number) -> Number:
    """Return the entry of a table (n,) at an index from 0 to n - 1, element by element.

    For an index outside the table, the result is the first or the last entry.
    """
    if is_traced(index):
        return np.frompyfunc(lambda one: _entry_one(values, one), 1, 1)(index)
    return values[np.clip(index, 0, len(values) - 1).astype(int)]


def index_with_events(index: Number, grid: Array, x: Number) -> Number:
    """Return `index`; in model exchange, the result changes only at events.

    `index` is the number of points of a grid (n,) that are at most x. Between two events, the
    result does not change, even if x is slightly beyond a grid point (`piecewise`). Each binary
    digit of the Gray code of the index has an event indicator. In a Gray code, only one digit
    changes at each grid point. If x equals the first grid point at the start of a run, the initial
    result counts this point.
    """
    if not (is_traced(index) and len(grid)):
        return index
    margins = [
        _signed_margin(count_at_most(part, x), x, *_ends(part, count_at_most(part, x)))
        for part in (grid[2**b - 1 :: 2 ** (b + 1)] for b in range(len(grid).bit_length()))
    ]
    digits = [piecewise(margin, 0.0, 1.0) for margin in margins[1:]]
    return piecewise(margins[0], _gray([0.0, *digits]), _gray([1.0, *digits]), index)


def count_with_events(count: Number, x: Number, low: Number, high: Number) -> Number:
    """Return `count`; in model exchange, the result changes only at events.

    `count` is the index of the interval [low, high) that contains x. The number of intervals is
    unlimited. The event indicator is the margin between x and the nearer end of the interval,
    positive if `count` is even and negative if it is odd. A margin of zero counts as negative.
    Therefore, a run may start at the lower end of an interval only if its index is odd.
    """
    if not is_traced(count):
        return count
    other = select(less(excess(x, low), excess(high, x)), count - 1.0, count + 1.0)
    even = _is_even(count)
    laws = select(even, count, other), select(even, other, count)
    return piecewise(_signed_margin(count, x, low, high), *laws, count)


def _ends(grid: Array, index: Number) -> tuple[Number, Number]:
    """Return the ends `grid[index - 1]` and `grid[index]` of an interval between grid points.

    The interval before the first grid point begins at -1e300, and the last interval ends at 1e300.
    """
    padded = np.concatenate([[-1e300], grid, [1e300]])
    return entry(padded, index), entry(padded, index + 1.0)


def _is_even(count: Number) -> Number:
    return less(count - 2.0 * np.floor(count / 2.0), 0.5)


def _signed_margin(count: Number, x: Number, low: Number, high: Number) -> Number:
    """Return the margin (`excess`) between x and the nearer end of the interval [low, high).

    The function negates the margin if `count` is odd.
    """
    inside = minimum(excess(x, low), excess(high, x))
    return select(_is_even(count), inside, -inside)


def _gray(digits: Sequence[Number]) -> Number:
    """Convert a Gray code to a number; `digits` starts with the lowest digit."""
    number, digit = 0.0, 0.0
    for k, changed in reversed([*enumerate(digits)]):
        digit = digit + changed - 2.0 * digit * changed
        number = number + digit * 2.0**k
    return number


def time_past_event(t: Number) -> Number:
    """Return the time [s] from which an event at the time t [s] counts as past.

        t + 4e-12 (1 + min(|t|, 1e3)) + 4 ROUNDING |t|

    The difference from t exceeds the rounding error of t.
    """
    return t + (4e-12 * (1.0 + minimum(np.abs(t), 1e3)) + 4.0 * ROUNDING * np.abs(t))


def rounded_up(t: Number) -> Number:
    """Return the latest time [s] that counts as equal to the time t [s].

        t + min(1e-9 |t|, 1e-6) + ROUNDING |t|

    The difference from t exceeds the rounding error of t.
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
