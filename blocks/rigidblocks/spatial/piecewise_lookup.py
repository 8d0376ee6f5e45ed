"""Tables looked up by a number that may be traced: a search and an entry, both piecewise constant.

In C a table is data, and a search takes as many steps as its length has binary digits.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from rigidblocks.algebra.scalar import excess, is_traced, less, minimum, piecewise, select
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


def held_place(index: Number, grid: Array, x: Number) -> Number:
    """`index`, how many of the numbers of a grid (n,) are at most x, in model exchange held until x
    comes to the next or the last of them, and a little beyond (`piecewise`).

    Each binary digit of Gray's code of it is an event: a step over any of them changes one. What
    begins a run at the first number has reached it.
    """
    if not (is_traced(index) and len(grid)):
        return index
    margins = [
        _to_next(reached(part, x), x, *_ends(part, reached(part, x)))
        for part in (grid[2**b - 1 :: 2 ** (b + 1)] for b in range(len(grid).bit_length()))
    ]
    digits = [piecewise(margin, 0.0, 1.0) for margin in margins[1:]]
    return piecewise(margins[0], _gray([0.0, *digits]), _gray([1.0, *digits]), index)


def held_count(count: Number, x: Number, low: Number, high: Number) -> Number:
    """The number of the interval [low, high) that x is in, one after the other without end, held in
    the same way. What begins a run at `low` has an odd one.
    """
    if not is_traced(count):
        return count
    other = select(less(excess(x, low), excess(high, x)), count - 1.0, count + 1.0)
    even = _is_even(count)
    laws = select(even, count, other), select(even, other, count)
    return piecewise(_to_next(count, x, low, high), *laws, count)


def _ends(grid: Array, index: Number) -> tuple[Number, Number]:
    """Where the interval begins and ends in which so many of the numbers of a grid are reached."""
    padded = np.concatenate([[-1e300], grid, [1e300]])
    return entry(padded, index), entry(padded, index + 1.0)


def _is_even(count: Number) -> Number:
    return less(count - 2.0 * np.floor(count / 2.0), 0.5)


def _to_next(count: Number, x: Number, low: Number, high: Number) -> Number:
    """How far x is inside an interval, as a margin: the negative in those of an odd number."""
    inside = minimum(excess(x, low), excess(high, x))
    return select(_is_even(count), inside, -inside)


def _gray(digits: Sequence[Number]) -> Number:
    """The number whose Gray code has these digits, the lowest first."""
    number, digit = 0.0, 0.0
    for k, changed in reversed([*enumerate(digits)]):
        digit = digit + changed - 2.0 * digit * changed
        number = number + digit * 2.0**k
    return number


def shortly_after(t: Number) -> Number:
    """A time at which an event that rounding has put just ahead of t has been."""
    return t + 4e-12 * (1.0 + np.abs(t))


def _reached_one(grid: Array, x: Any) -> Any:
    return x.reached(grid) if hasattr(x, "reached") else float(reached(grid, float(x)))


def _entry_one(values: Array, index: Any) -> Any:
    return index.entry(values) if hasattr(index, "entry") else float(entry(values, float(index)))
