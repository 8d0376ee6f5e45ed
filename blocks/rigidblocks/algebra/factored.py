"""Spatial transforms as a trace has them: in factors, with the formulas of the fewest operations
(RBDA A.4, A.5).

In numbers a product of transforms is one transform, and E^T A E two products of matrices. In a
trace each factor is cheaper on its own, since it has zeros and ones, and a rotation about an axis
needs a few operations alone. The classes have the methods of `spatial.Transform`; what multiplies
transforms with `factored` has them where they pay.
"""

from functools import cached_property, reduce
from typing import Any

import numpy as np

from rigidblocks.algebra.scalar import is_number, is_traced
from rigidblocks.algebra.spatial import CYCLIC, Array, Transform


def factored(X: Any, Y: Any) -> Any:
    """X Y of spatial transforms of which X may be traced: then in factors; of planar ones the
    product.
    """
    if not isinstance(X, Transform):
        return X @ Y
    if isinstance(X, Factors):
        return X @ Y
    return Factors(X, Y) if is_traced(X.E, X.r) else Factor.of(X @ Y)


class Factor(Transform):
    """A transform that takes matrices back by the formulas of RBDA A.5 where it turns about an
    axis.
    """

    @classmethod
    def of(cls, X: Transform) -> "Factor":
        """The same transform."""
        return cls(X.E, X.r)

    def __matmul__(self, other: Transform | Array) -> Any:
        product = super().__matmul__(other)
        return Factor.of(product) if isinstance(other, Transform) else product

    def turn_back(self, A: Array) -> Array:
        if (axis := _axis(self.E)) is None:
            return super().turn_back(A)
        i, j, k = axis
        c, s = self.E[i, i], self.E[i, j]
        ss, cs = s * s, c * s
        difference, total = A[j, j] - A[i, i], A[i, j] + A[j, i]
        alpha, beta = ss * difference - cs * total, cs * difference + ss * total
        B = A.astype(np.result_type(A, self.E))
        B[i, i], B[j, j] = A[i, i] + alpha, A[j, j] - alpha
        B[i, j], B[j, i] = A[i, j] - beta, A[j, i] - beta
        B[i, k], B[j, k] = c * A[i, k] - s * A[j, k], s * A[i, k] + c * A[j, k]
        B[k, i], B[k, j] = c * A[k, i] - s * A[k, j], s * A[k, i] + c * A[k, j]
        return B

    def turn_symmetric_back(self, A: Array) -> Array:
        if (axis := _axis(self.E)) is None:
            return super().turn_symmetric_back(A)
        i, j, k = axis
        c, s = self.E[i, i], self.E[i, j]
        ss, cs = s * s, c * s
        difference = A[j, j] - A[i, i]
        alpha = ss * difference - (cs + cs) * A[i, j]
        B = A.astype(np.result_type(A, self.E))
        B[i, i], B[j, j] = A[i, i] + alpha, A[j, j] - alpha
        B[i, j] = B[j, i] = (1.0 - (ss + ss)) * A[i, j] - cs * difference
        B[i, k] = B[k, i] = c * A[i, k] - s * A[j, k]
        B[j, k] = B[k, j] = s * A[i, k] + c * A[j, k]
        return B

    def shift(self, R: Array, H: Array, Y: Array) -> Array:
        P = np.empty((3, 3), np.result_type(R, H, Y))
        for i, j, k in CYCLIC:
            P[i, i] = R[i, j] * (H[i, j] + Y[i, j]) + R[i, k] * (H[i, k] + Y[i, k])
            a, b = max(i, j), min(i, j)
            near = R[a, b] * (H[b, b] - Y[a, a])
            P[i, j] = P[j, i] = near + R[a, k] * H[b, k] + R[b, k] * Y[a, k]
        return P


class Factors(Factor):
    """A product of transforms, applied one factor after the other."""

    def __init__(self, *factors: Transform):
        object.__setattr__(self, "_factors", tuple(map(Factor.of, factors)))

    @property
    def factors(self) -> tuple[Transform, ...]:
        factors: tuple[Transform, ...] = self._factors  # type: ignore[attr-defined]
        return factors

    @cached_property
    def _product(self) -> Transform:
        return reduce(lambda X, Y: X @ Y, self.factors)

    @property
    def E(self) -> Array:
        """The rotation of the product."""
        return self._product.E

    @property
    def r(self) -> Array:
        """The origin of the product."""
        return self._product.r

    def __matmul__(self, other: Transform | Array) -> Any:
        if isinstance(other, Transform):
            constant = len(other.factors) == 1 and not is_traced(other.E, other.r)
            return Factors(*self.factors, other) if constant else self._product @ other
        return reduce(lambda m, X: X @ m, reversed(self.factors), other)

    def carry(self, v: Array, a: Array) -> Array:
        for X in reversed(self.factors):
            v, a = X @ v, X.carry(v, a)
        return a

    def force(self, f: Array) -> Array:
        return reduce(lambda f, X: X.force(f), reversed(self.factors), f)


def _axis(E: Array) -> tuple[int, int, int] | None:
    """The cyclic indices i, j, k of a rotation about axis k, known by its zeros and its one; None
    for any other.
    """
    for i, j, k in CYCLIC:
        off_axis = (E[i, k], E[j, k], E[k, i], E[k, j])
        if is_number(E[k, k], 1.0) and all(is_number(element, 0.0) for element in off_axis):
            return i, j, k
    return None
