"""Branch-induced sparsity: factorization and products that skip the zeros of the joint-space
inertia (RBDA 6.4, 6.5).

Row k of H or L has nonzeros below the diagonal only in columns parent[k], parent[parent[k]] and so
on. `parent` has an entry for every *variable*, -1 for the base: `expand_lambda` makes it from the
parents of the bodies. Which elements are zero is known beforehand, so nothing branches on a value.
L is lower triangular; x is a vector (n,) or a matrix of columns (n, k).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from rigidblocks.algebra.spatial import Array

Parents = Sequence[int]


def expand_lambda(parent: Parents, freedoms: Sequence[int]) -> tuple[int, ...]:
    """The expanded parent array: a chain of single freedoms in the place of every joint (RBDA Table
    6.4).

    `freedoms[i]` is nv of joint i. A joint without freedoms leaves nothing: its children hang on
    what it hangs on. Raises ValueError for a parent that is not numbered below its child, and for
    lists of different lengths.
    """
    if len(parent) != len(freedoms):
        raise ValueError(
            f"expand_lambda needs a number of freedoms for each joint, not {len(freedoms)} for "
            f"{len(parent)}"
        )
    _check(parent)
    expanded: list[int] = []
    last = [-1] * (len(parent) + 1)  # the last variable on the way from the base to body i
    for i, (p, n) in enumerate(zip(parent, freedoms, strict=True)):
        first = len(expanded)
        expanded += [last[p], *range(first, first + n - 1)][:n]
        last[i] = first + n - 1 if n else last[p]
    return tuple(expanded)


def elimination_parent(reads: Array) -> tuple[int, ...]:
    """The parent array with room for all that the factor L of a matrix has which is not zero where
    `reads` (n, n) says, a symmetric matrix of booleans (the elimination tree).
    """
    left, parent = np.tril(reads, -1), [-1] * len(reads)
    for k in reversed(range(len(reads))):
        before = np.flatnonzero(left[k])
        if len(before):
            parent[k] = int(before[-1])
            left[parent[k], before[:-1]] = True  # where the factorization fills
    return tuple(parent)


def factorization_counts(parent: Parents) -> tuple[int, int]:
    """D1 and D2: how often the factorization divides, and how often it multiplies and subtracts
    (RBDA Eq 6.26, 6.27).

    D1 is also the number of nonzeros below the diagonal of H.
    """
    above = [len(path) for path in _paths(parent)]
    return sum(above), sum(d * (d + 1) // 2 for d in above)


def ltl(H: Array, parent: Parents) -> Array:
    """The lower triangular L (n, n) with H = L^T L (RBDA Table 6.3).

    H is symmetric positive definite; only its lower triangle is read. Raises ValueError where a
    pivot, if it is a number, is not positive.
    """
    L, above = _lower(H), _checked_paths(parent, H)
    for k in reversed(range(len(L))):
        _check_pivot(L[k, k], k)
        L[k, k] = np.sqrt(L[k, k])
        for i in above[k]:
            L[k, i] = L[k, i] / L[k, k]
        for i in above[k]:
            for j in (i, *above[i]):
                L[i, j] = L[i, j] - L[k, i] * L[k, j]
    return L


def ltdl(H: Array, parent: Parents) -> tuple[Array, Array]:
    """The unit lower triangular L (n, n) and the diagonal matrix D (n, n) with H = L^T D L (RBDA
    Table 6.3).

    H is symmetric positive definite; only its lower triangle is read. Raises ValueError where a
    pivot, if it is a number, is not positive.
    """
    L, above = _lower(H), _checked_paths(parent, H)
    for k in reversed(range(len(L))):
        _check_pivot(L[k, k], k)
        for i in above[k]:
            a = L[k, i] / L[k, k]
            for j in (i, *above[i]):
                L[i, j] = L[i, j] - a * L[k, j]
            L[k, i] = a
    D = np.diag(np.diag(L))
    np.fill_diagonal(L, 1.0)
    return L, D


def mpy_h(H: Array, parent: Parents, x: Array) -> Array:
    """The product H x; only the lower triangle of H is read (RBDA Table 6.5)."""
    above = _checked_paths(parent, H, x)
    y = [H[i, i] * x[i] for i in range(len(H))]
    for i in reversed(range(len(H))):
        for j in above[i]:
            y[i] = y[i] + H[i, j] * x[j]
            y[j] = y[j] + H[i, j] * x[i]
    return np.array(y).reshape(np.shape(x))


def mpy_l(L: Array, parent: Parents, x: Array) -> Array:
    """The product L x (RBDA Table 6.5)."""
    above = _checked_paths(parent, L, x)
    y = [L[i, i] * x[i] for i in range(len(L))]
    for i in range(len(L)):
        for j in above[i]:
            y[i] = y[i] + L[i, j] * x[j]
    return np.array(y).reshape(np.shape(x))


def mpy_lt(L: Array, parent: Parents, x: Array) -> Array:
    """The product L^T x (RBDA Table 6.5)."""
    above = _checked_paths(parent, L, x)
    y = [L[i, i] * x[i] for i in range(len(L))]
    for i in range(len(L)):
        for j in above[i]:
            y[j] = y[j] + L[i, j] * x[i]
    return np.array(y).reshape(np.shape(x))


def mpy_li(L: Array, parent: Parents, x: Array, unit: bool = False) -> Array:
    """The solution L^-1 x of L y = x; `unit` says that the diagonal of L is 1, to save its
    divisions (RBDA Table 6.5).
    """
    above, y = _checked_paths(parent, L, x), list(x)
    for i in range(len(L)):
        for j in above[i]:
            y[i] = y[i] - L[i, j] * y[j]
        if not unit:
            y[i] = y[i] / L[i, i]
    return np.array(y).reshape(np.shape(x))


def mpy_lit(L: Array, parent: Parents, x: Array, unit: bool = False) -> Array:
    """The solution L^-T x of L^T y = x; `unit` says that the diagonal of L is 1, to save its
    divisions (RBDA Table 6.5).
    """
    above, y = _checked_paths(parent, L, x), list(x)
    for i in reversed(range(len(L))):
        if not unit:
            y[i] = y[i] / L[i, i]
        for j in above[i]:
            y[j] = y[j] - L[i, j] * y[i]
    return np.array(y).reshape(np.shape(x))


def solve_ltl(H: Array, parent: Parents, b: Array) -> Array:
    """The solution x of H x = b by L^T L: first L^-T b, then L^-1 of it, the other way round than
    Cholesky's (RBDA 6.5).
    """
    L = ltl(H, parent)
    return mpy_li(L, parent, mpy_lit(L, parent, b))


def solve_ltdl(H: Array, parent: Parents, b: Array) -> Array:
    """The solution x of H x = b by L^T D L (RBDA 6.5)."""
    L, D = ltdl(H, parent)
    y = mpy_lit(L, parent, b, unit=True)
    z = np.array([row / d for row, d in zip(y, np.diag(D), strict=True)]).reshape(np.shape(y))
    return mpy_li(L, parent, z, unit=True)


def _lower(H: Array) -> Array:
    """A copy of the lower triangle, of floats if not of traced scalars."""
    H = np.asarray(H)
    return np.tril(H if H.dtype == object else H.astype(float))


def _paths(parent: Parents) -> list[tuple[int, ...]]:
    """For every k the tuple parent[k], parent[parent[k]], ... without the base."""
    _check(parent)
    paths: list[tuple[int, ...]] = []
    for p in parent:
        paths.append((p, *paths[p]) if p >= 0 else ())
    return paths


def _checked_paths(parent: Parents, matrix: Array, x: Array | None = None) -> list[tuple[int, ...]]:
    n = len(matrix)
    if np.shape(matrix) != (n, n):
        raise ValueError(
            f"a sparse factor or matrix must be square, not of shape {np.shape(matrix)}"
        )
    if x is not None and len(x) != n:
        raise ValueError(f"the vector has {len(x)} elements, but the matrix has {n} rows")
    if len(parent) != n:
        raise ValueError(
            f"the parent array has {len(parent)} entries, but the matrix has {n} rows; it needs "
            "one for every variable: "
            f"expand_lambda(parent, freedoms)"
        )
    return _paths(parent)


def _check(parent: Parents) -> None:
    for i, p in enumerate(parent):
        if not -1 <= p < i:
            raise ValueError(
                f"entry {i} of the parent array is {p}; it must be one of -1 (the base) .. {i - 1}"
            )


def _check_pivot(pivot: Any, k: int) -> None:
    if (
        isinstance(pivot, float) and pivot <= 0
    ):  # NaN passes: it says that what was given is not finite
        raise ValueError(f"the matrix is not positive definite: pivot {k} is {pivot}")
