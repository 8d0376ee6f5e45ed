"""The rate at which the components of a joint's motion subspace change, exactly, by dual numbers (RBDA 3.5).

`jcalc` returns S and the product of its rate with qd; the Jacobian's rate needs the rate of S by itself. It is what remains
of S at q + e dq/dt to first order in e, with e^2 = 0.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from rigidblocks.joint import Joint
from rigidblocks.spatial import Array


def subspace_rate(joint: Joint, q: Array, qd: Array) -> Array:
    """dS/dt (6, nv), component by component, for the velocity variables qd; floats and traced scalars."""
    moving = np.empty(joint.nq, dtype=object)
    moving[:] = [Dual(value, slope) for value, slope in zip(q, joint.rate(q, qd), strict=True)]
    S = joint.jcalc(moving, np.zeros(joint.nv)).S
    slopes = [element.slope if isinstance(element, Dual) else 0.0 for element in S.ravel()]
    return np.array(slopes).reshape(S.shape)


def _elementwise(operation: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """The operation of two numbers, which leaves arrays to NumPy."""

    def of_numbers(one: Any, other: Any) -> Any:
        if isinstance(other, np.ndarray):
            return NotImplemented
        return operation(one, other if isinstance(other, Dual) else Dual(other, 0.0))

    return of_numbers


class Dual:
    """The number value + slope e with e^2 = 0, for the arithmetic and the functions of the joints."""

    __slots__ = ("slope", "value")

    def __init__(self, value: Any, slope: Any):
        self.value = value
        self.slope = slope

    def __neg__(self) -> "Dual":
        return Dual(-self.value, -self.slope)

    __add__ = __radd__ = _elementwise(lambda a, b: Dual(a.value + b.value, a.slope + b.slope))
    __sub__ = _elementwise(lambda a, b: Dual(a.value - b.value, a.slope - b.slope))
    __rsub__ = _elementwise(lambda a, b: b - a)
    __mul__ = __rmul__ = _elementwise(lambda a, b: Dual(a.value * b.value, a.slope * b.value + a.value * b.slope))
    __truediv__ = _elementwise(lambda a, b: Dual(a.value / b.value, (a.slope - a.value / b.value * b.slope) / b.value))
    __rtruediv__ = _elementwise(lambda a, b: b / a)

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
