"""Functions that NumPy lacks for numbers that may be traced.

The algorithms run on floats and on traced scalars (object arrays) alike. What would be a
data-dependent `if` is written with `select`, which has a value in both worlds; arithmetic,
`np.sin`, `np.sqrt` and the like need nothing from here.
"""

from math import isinf
from numbers import Real
from typing import Any

import numpy as np

Number = Any  # a float, a traced scalar, or an array of either


def _select_one(condition: Any, a: Any, b: Any) -> Any:
    return condition.select(a, b) if hasattr(condition, "select") else (a if condition else b)


_select_each = np.frompyfunc(_select_one, 3, 1)


def select(condition: Number, a: Number, b: Number) -> Number:
    """`a` where the condition holds, else `b`, element by element; both are evaluated.

    The stand-in for `if` in every function that is traced. Shapes broadcast.
    """
    if is_traced(condition, a, b):
        return _select_each(condition, a, b)
    return np.where(condition, a, b)


def piecewise(margin: Number, above: Number, below: Number, whole: Number = None) -> Number:
    """A law that becomes another one where a margin changes its sign, element by element: `above`
    where the margin is positive, else `below`.

    In model exchange the margin is an event indicator, and from one event to the next one side of
    the law holds, also a little beyond its end: both sides are to have values and derivatives
    there. Everywhere else it is `select(less(0, margin), above, below)`, or `whole`, which is the
    same in other words. Margins are best of the order of 1.
    """
    if whole is None:
        whole = select(less(0.0, margin), above, below)
    if not is_traced(margin):
        return whole
    return _choice_each(margin, above, below, whole)


def _choice_one(margin: Any, above: Any, below: Any, whole: Any) -> Any:
    return margin.choice(above, below, whole) if hasattr(margin, "choice") else whole


_choice_each = np.frompyfunc(_choice_one, 4, 1)


def is_number(value: Any, number: float) -> bool:
    """Whether a value is this number whatever it is computed from; a traced value never is.

    What depends on it may not depend on the values of untraced ones: they may be this number by
    chance.
    """
    # float first, since it is found much faster than Real
    return isinstance(value, (float, Real)) and value == number


def less(a: Number, b: Number) -> Number:
    """Whether a < b, element by element; `<` itself works on numbers, traced or not, but not on
    traced arrays.
    """
    return np.less(a, b, dtype=object) if is_traced(a, b) else np.less(a, b)


def minimum(a: Number, b: Number) -> Number:
    """The smaller of `a` and `b`, element by element; NaN where one of them is."""
    return _minimum_each(a, b) if is_traced(a, b) else np.minimum(a, b)


def maximum(a: Number, b: Number) -> Number:
    """The larger of `a` and `b`, element by element; NaN where one of them is."""
    return _maximum_each(a, b) if is_traced(a, b) else np.maximum(a, b)


# a comparison with NaN is false, so what may be NaN stands where that leads; where both may be, it
# takes an operation of its own


def _minimum_one(a: Any, b: Any) -> Any:
    if hasattr(a, "minimum") and hasattr(b, "minimum"):
        return a.minimum(b)
    return _select_one(b < a, b, a) if isinstance(b, Real) else _select_one(a < b, a, b)


def _maximum_one(a: Any, b: Any) -> Any:
    if hasattr(a, "maximum") and hasattr(b, "maximum"):
        return a.maximum(b)
    return _select_one(a < b, b, a) if isinstance(b, Real) else _select_one(b < a, a, b)


_minimum_each = np.frompyfunc(_minimum_one, 2, 1)
_maximum_each = np.frompyfunc(_maximum_one, 2, 1)


def clip(value: Number, low: Number, high: Number) -> Number:
    """`value` limited to [low, high], element by element."""
    return minimum(maximum(value, low), high)


def within(value: Number, low: Number, high: Number) -> Number:
    """`clip`, whose limits are events of model exchange (`piecewise`) where they are finite."""
    return at_most(at_least(value, low), high)


def at_least(value: Number, low: Number) -> Number:
    """`maximum`, as an event."""
    limited = maximum(value, low)
    return piecewise(excess(value, low), value, low, limited) if is_traced(limited) else limited


def at_most(value: Number, high: Number) -> Number:
    """`minimum`, as an event."""
    limited = minimum(value, high)
    return piecewise(excess(high, value), value, high, limited) if is_traced(limited) else limited


def excess(a: Number, b: Number) -> Number:
    """A margin that is positive where a > b, between -1 and 1: (a - b) / (1 + |a| + |b|), and 1 for
    limits that are infinite numbers.
    """
    margin = _excess_each(a, b)
    return margin if is_traced(a, b) else np.asarray(margin, dtype=float)


def _excess_one(a: Any, b: Any) -> Any:
    if any(isinstance(one, Real) and isinf(one) for one in (a, b)):
        return 1.0
    return (a - b) / (1.0 + np.abs(a) + np.abs(b))


_excess_each = np.frompyfunc(_excess_one, 2, 1)


def is_traced(*values: Number) -> bool:
    """Whether one of the numbers or arrays may have traced elements."""
    return any(np.asarray(value).dtype == object for value in values)
