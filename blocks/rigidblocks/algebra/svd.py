"""Singular values by rotations that make columns normal to each other (one-sided Jacobi), in a
fixed number of sweeps.

No decision needs a branch: it works on floats and on traced scalars. Small singular values are as
accurate as large ones where columns differ in size only.
"""

from functools import reduce
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from rigidblocks.algebra.scalar import less, maximum, select
from rigidblocks.algebra.spatial import Array

TOLERANCE = (
    1e-9  # of the largest singular value: those of dependent rows are rounding errors, far below
)


class SVD(NamedTuple):
    """A = U diag(s) V^T with p = min(m, n) singular values s (p,), the largest first, U (m, p) and
    V (n, p).

    Where a singular value is 0 so is its column of the longer of U and V.
    """

    U: Array
    s: Array
    V: Array

    @property
    def condition(self) -> Any:
        """sigma_1 / sigma_p (thesis 3.1), not more than 1e300."""
        some = less(self.s[0] * 1e-300, self.s[-1])
        return select(some, self.s[0] / select(some, self.s[-1], 1.0), 1e300)

    def effective_condition(self, tolerance: float = TOLERANCE) -> Any:
        """sigma_1 / sigma_r, r the rank: the same without what is dependent anyway; 1 for the rank
        0.
        """
        inverses = self.inverses(tolerance)
        largest = reduce(maximum, inverses, 0.0)
        return select(less(0.0, largest), self.s[0] * largest, 1.0)

    def rank(self, tolerance: float = TOLERANCE) -> Any:
        """The number of singular values above the tolerance times the largest."""
        return sum(select(less(self.s[0] * tolerance, s), 1.0, 0.0) for s in self.s)

    def inverses(self, tolerance: float = TOLERANCE, damping: float = 0.0) -> Array:
        """1/s (p,), 0 for those of the rank that lack; with damping s / (s^2 + (damping s_1)^2)
        (thesis 3.1, 3.3).
        """
        keep = less(self.s[0] * tolerance, self.s)
        shift = (damping * self.s[0]) * (damping * self.s[0])
        inverses: Array = select(keep, self.s / select(keep, self.s * self.s + shift, 1.0), 0.0)
        return inverses

    def pseudo_inverse(self, tolerance: float = TOLERANCE, damping: float = 0.0) -> Array:
        """A^+ (n, m), damped where asked for."""
        inverse: Array = (self.V * self.inverses(tolerance, damping)) @ self.U.T
        return inverse

    def row_space(self, tolerance: float = TOLERANCE) -> Array:
        """The columns V1 (n, p) of V that span the rows of A, zero where the singular value is."""
        V1: Array = self.V * select(less(self.s[0] * tolerance, self.s), 1.0, 0.0)
        return V1


def svd(A: Array, sweeps: int | None = None) -> SVD:
    """The singular values and vectors of A (m, n).

    A sweep turns every two of the p columns. Unless given their number is one or two more than p up
    to 12 needs for rounding accuracy, also where columns nearly depend on each other.
    """
    A = np.asarray(A)
    if A.shape[1] > A.shape[0]:
        V, s, U = svd(A.T, sweeps)
        return SVD(U, s, V)
    m, p = A.shape
    stack = _normal_columns(A, min(p, 5) + p // 3 if sweeps is None else sweeps)
    s = np.array([np.sqrt(column @ column) for column in stack[:m].T])
    some = less(0.0, s)
    return SVD(stack[:m] * (select(some, 1.0, 0.0) / select(some, s, 1.0)), s, stack[m:])


def _normal_columns(A: Array, sweeps: int) -> Array:
    """[A V; V] (m + p, p) with columns of A V that are normal to each other."""
    m, p = A.shape
    columns = [np.concatenate([A[:, j], np.eye(p)[j]]) for j in range(p)]
    for _ in range(sweeps):
        for i, j in combinations(range(p), 2):
            columns[i], columns[j] = _rotate(columns[i], columns[j], m)
    return np.array(columns).T.reshape(m + p, p)


def _rotate(x: Array, y: Array, m: int) -> tuple[Array, Array]:
    """Two columns turned so that their first m elements are normal to each other, the longer one
    first.

    The turn by the smaller angle keeps the longer column the longer; where that is y, a quarter
    turn is added.
    """
    a, b, c = x[:m] @ x[:m], y[:m] @ y[:m], x[:m] @ y[:m]
    size = abs(a - b)
    h = size + np.sqrt(size * size + 4.0 * (c * c))
    some, swap = less(0.0, h), less(a, b)
    t = select(some, 2.0 * c / select(some, h, 1.0), 0.0)  # towards the longer one
    cosine = 1.0 / np.sqrt(1.0 + t * t)
    sine = cosine * t
    cosine, sine = select(swap, sine, cosine), select(swap, cosine, sine)
    return cosine * x + sine * y, cosine * y - sine * x
