"""Dual numbers a + b e with e^2 = 0: a function of them has its value and its exact derivative
(RBDA 3.5).
"""

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from rigidblocks.algebra.scalar import select


def _elementwise(operation: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """The operation of two numbers, which leaves arrays to NumPy."""

    def of_numbers(one: Any, other: Any) -> Any:
        if isinstance(other, np.ndarray):
            return NotImplemented
        return operation(one, other if isinstance(other, Dual) else Dual(other, 0.0))

    return of_numbers


def _comparison(name: str) -> Callable[[Any, Any], Any]:
    def of_numbers(one: Any, other: Any) -> Any:
        if isinstance(other, np.ndarray):
            return NotImplemented
        return Choice(
            getattr(operator, name)(one.value, other.value if isinstance(other, Dual) else other)
        )

    return of_numbers


class Choice:
    """Whether a dual number's value is below another's, for `select`: it chooses value and slope
    alike.
    """

    __slots__ = ("condition",)

    def __init__(self, condition: Any):
        self.condition = condition

    def __bool__(self) -> bool:
        return bool(self.condition)

    def select(self, a: Any, b: Any) -> "Dual":
        """`a` where it is, else `b`; what `rigidblocks.algebra.scalar.select` calls."""
        a, b = (x if isinstance(x, Dual) else Dual(x, 0.0) for x in (a, b))
        if not hasattr(self.condition, "select"):
            chosen: Dual = a if self.condition else b
            return chosen
        return Dual(
            select(self.condition, a.value, b.value), select(self.condition, a.slope, b.slope)
        )


class Dual:
    """The number value + slope e with e^2 = 0, for the arithmetic and the functions of joints and
    loop-closure functions.

    Value and slope may be dual numbers themselves, which gives second derivatives.
    """

    __slots__ = ("slope", "value")

    def __init__(self, value: Any, slope: Any):
        self.value = value
        self.slope = slope

    def __neg__(self) -> "Dual":
        return Dual(-self.value, -self.slope)

    __add__ = __radd__ = _elementwise(lambda a, b: Dual(a.value + b.value, a.slope + b.slope))
    __sub__ = _elementwise(lambda a, b: Dual(a.value - b.value, a.slope - b.slope))
    __rsub__ = _elementwise(lambda a, b: b - a)
    __mul__ = __rmul__ = _elementwise(
        lambda a, b: Dual(a.value * b.value, a.slope * b.value + a.value * b.slope)
    )
    __truediv__ = _elementwise(
        lambda a, b: Dual(a.value / b.value, (a.slope - a.value / b.value * b.slope) / b.value)
    )
    __rtruediv__ = _elementwise(lambda a, b: b / a)

    __lt__, __le__, __gt__, __ge__ = (_comparison(name) for name in ("lt", "le", "gt", "ge"))

    def __pow__(self, power: float) -> "Dual":
        return Dual(self.value**power, power * self.value ** (power - 1) * self.slope)

    def __abs__(self) -> "Dual":
        magnitude: Dual = (self < 0.0).select(-self, self)
        return magnitude

    def __floor__(self) -> "Dual":
        return Dual(np.floor(self.value), 0.0)

    def sin(self) -> "Dual":
        """What `np.sin` calls."""
        return Dual(np.sin(self.value), np.cos(self.value) * self.slope)

    def cos(self) -> "Dual":
        """What `np.cos` calls."""
        return Dual(np.cos(self.value), -(np.sin(self.value) * self.slope))

    def sqrt(self) -> "Dual":
        """What `np.sqrt` calls."""
        root = np.sqrt(self.value)
        return Dual(root, self.slope / (root + root))

    def tan(self) -> "Dual":
        """What `np.tan` calls."""
        value = np.tan(self.value)
        return Dual(value, (1.0 + value * value) * self.slope)

    def arcsin(self) -> "Dual":
        """What `np.arcsin` calls."""
        return Dual(np.arcsin(self.value), self.slope / np.sqrt(1.0 - self.value * self.value))

    def arccos(self) -> "Dual":
        """What `np.arccos` calls."""
        return Dual(np.arccos(self.value), -(self.slope / np.sqrt(1.0 - self.value * self.value)))

    def arctan(self) -> "Dual":
        """What `np.arctan` calls."""
        return Dual(np.arctan(self.value), self.slope / (1.0 + self.value * self.value))

    def arctan2(self, other: Any) -> "Dual":
        """What `np.arctan2` calls, of a dual number and any other."""
        x = other if isinstance(other, Dual) else Dual(other, 0.0)
        slope = (self.slope * x.value - self.value * x.slope) / (
            self.value * self.value + x.value * x.value
        )
        return Dual(np.arctan2(self.value, x.value), slope)

    def exp(self) -> "Dual":
        """What `np.exp` calls."""
        value = np.exp(self.value)
        return Dual(value, value * self.slope)

    def log(self) -> "Dual":
        """What `np.log` calls."""
        return Dual(np.log(self.value), self.slope / self.value)
