"""The congruence E^T A E of 3x3 matrices, in the few operations that rotations about an axis need (RBDA A.5)."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rigidblocks.scalar import is_number

Matrix = NDArray[Any]


def symmetric(lower: Matrix) -> Matrix:
    """The symmetric 3x3 matrix with the lower triangle of `lower`."""
    a = lower
    return np.array([[a[0, 0], a[1, 0], a[2, 0]], [a[1, 0], a[1, 1], a[2, 1]], [a[2, 0], a[2, 1], a[2, 2]]])


CYCLIC = ((0, 1, 2), (1, 2, 0), (2, 0, 1))  # each axis with the two that follow


def is_traced(*arrays: NDArray[Any]) -> bool:
    """Whether one of the arrays may have traced elements."""
    return any(array.dtype == object for array in arrays)


def _axis(E: Matrix) -> tuple[int, int, int] | None:
    """The cyclic indices i, j, k of a rotation about axis k, known by its zeros and its one; None for any other."""
    for i, j, k in CYCLIC:
        if is_number(E[k, k], 1.0) and all(is_number(element, 0.0) for element in (E[i, k], E[j, k], E[k, i], E[k, j])):
            return i, j, k
    return None


def turned(E: Matrix, A: Matrix) -> Matrix:
    """E^T A E, for a traced rotation about an axis by the formulas of RBDA A.5."""
    if not is_traced(E, A) or (axis := _axis(E)) is None:
        return E.T @ A @ E
    i, j, k = axis
    c, s = E[i, i], E[i, j]
    ss, cs = s * s, c * s
    difference, total = A[j, j] - A[i, i], A[i, j] + A[j, i]
    alpha, beta = ss * difference - cs * total, cs * difference + ss * total
    B = A.astype(object)
    B[i, i], B[j, j], B[i, j], B[j, i] = A[i, i] + alpha, A[j, j] - alpha, A[i, j] - beta, A[j, i] - beta
    B[i, k], B[j, k] = c * A[i, k] - s * A[j, k], s * A[i, k] + c * A[j, k]
    B[k, i], B[k, j] = c * A[k, i] - s * A[k, j], s * A[k, i] + c * A[k, j]
    return B


def turned_symmetric(E: Matrix, A: Matrix) -> Matrix:
    """E^T A E of a symmetric A, for a traced rotation about an axis by the formulas of RBDA A.5."""
    if not is_traced(E, A) or (axis := _axis(E)) is None:
        return symmetric(E.T @ A @ E)
    i, j, k = axis
    c, s = E[i, i], E[i, j]
    ss, cs = s * s, c * s
    difference = A[j, j] - A[i, i]
    alpha = ss * difference - (cs + cs) * A[i, j]
    B = A.astype(object)
    B[i, i], B[j, j] = A[i, i] + alpha, A[j, j] - alpha
    B[i, j] = B[j, i] = (1.0 - (ss + ss)) * A[i, j] - cs * difference
    B[i, k] = B[k, i] = c * A[i, k] - s * A[j, k]
    B[j, k] = B[k, j] = s * A[i, k] + c * A[j, k]
    return B
