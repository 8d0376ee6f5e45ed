"""Symmetric 3x3 matrices."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[Any]

LOWER = np.array([[0, 3, 6], [3, 4, 7], [6, 7, 8]])  # the places of the lower triangle, row by row


def symmetric(lower: Matrix) -> Matrix:
    """The symmetric 3x3 matrix with the lower triangle of `lower`."""
    return lower.take(LOWER)


def check_symmetric(I: Matrix, what: str) -> None:
    """Raises ValueError, with the entries that differ, where a matrix (3, 3) of numbers is not
    symmetric but for rounding, 1e-9 of its largest entry.
    """
    if I.dtype == object or I.shape != (3, 3):
        return
    (_, b, c), (d, _, f), (g, h, _) = I.tolist()
    if b == d and c == g and f == h:
        return
    apart = np.abs(I - I.T)
    if np.max(apart) > 1e-9 * np.max(np.abs(I)):
        i, j = sorted(map(int, np.unravel_index(np.argmax(apart), I.shape)))
        raise ValueError(
            f"{what} must be symmetric: its entries [{i}, {j}] = {I[i, j]:.9g} and [{j}, {i}] = "
            f"{I[j, i]:.9g} kg m^2 must be equal"
        )
