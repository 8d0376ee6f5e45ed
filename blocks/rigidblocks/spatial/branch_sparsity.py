"""Branch-induced sparsity of the joint-space inertia H (RBDA 6.4, 6.5).

H (n, n) is symmetric positive definite, and H = L^T L with a lower triangular L (n, n). x is a
vector (n,) or a matrix (n, k). The array `parent` (n,) contains the parent of each *variable*, -1
for the base. `expand_lambda` computes this array from the parents of the bodies.

Row k of H or L has nonzeros below the diagonal only in columns parent[k], parent[parent[k]] and so
on. The factorizations and products skip the zeros. The zero pattern depends only on the tree, so no
function branches on values.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from rigidblocks.spatial.spatial import Array

Parents = Sequence[int]


def expand_lambda(parent: Parents, freedoms: Sequence[int]) -> tuple[int, ...]:
    """Return the expanded parent array, with one entry per variable (RBDA Table 6.4).

    A joint with several degrees of freedom becomes a chain of joints with one degree of freedom.
    `freedoms[i]` is the number of degrees of freedom of joint i. A joint without degrees of freedom
    adds no variable. The parent of the first variable of a joint is the nearest variable on the
    path to the base.

    Raises:
        ValueError: A parent index is not below the index of its child, or the lengths differ.
    """
    if len(parent) != len(freedoms):
        raise ValueError(
            "expand_lambda needs the number of degrees of freedom of each joint, not "
            f"{len(freedoms)} numbers for {len(parent)} joints"
        )
    _check(parent)
    expanded: list[int] = []
    last = [-1] * (len(parent) + 1)  # the last variable on the path from the base to body i
    for i, (p, n) in enumerate(zip(parent, freedoms, strict=True)):
        first = len(expanded)
        expanded += [last[p], *range(first, first + n - 1)][:n]
        last[i] = first + n - 1 if n else last[p]
    return tuple(expanded)


def elimination_parent(nonzero: Array) -> tuple[int, ...]:
    """Return the elimination tree of a symmetric matrix as a parent array (n,).

    `nonzero` (n, n) is a symmetric boolean matrix, true for nonzero elements. Row k of the factor L
    has nonzeros only in the columns parent[k], parent[parent[k]] and so on.
    """
    left, parent = np.tril(nonzero, -1), [-1] * len(nonzero)
    for k in reversed(range(len(nonzero))):
        before = np.flatnonzero(left[k])
        if len(before):
            parent[k] = int(before[-1])
            left[parent[k], before[:-1]] = True  # fill-in of the factorization
    return tuple(parent)


def factorization_counts(parent: Parents) -> tuple[int, int]:
    """Return the operation counts D1 and D2 of the factorization of H (RBDA Eq 6.26, 6.27).

    D1 is the number of divisions and also the number of nonzeros below the diagonal of H. D2 is the
    number of multiply-subtract operations.
    """
    above = [len(path) for path in _paths(parent)]
    return sum(above), sum(d * (d + 1) // 2 for d in above)


def ltl(H: Array, parent: Parents) -> Array:
    """Return the lower triangular factor L (n, n) of H = L^T L (RBDA Table 6.3).

    H is symmetric positive definite; only its lower triangle is read.

    Raises:
        ValueError: A pivot is not positive; traced pivots are not checked.
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
    """Return the factors L and D of H = L^T D L (RBDA Table 6.3).

    H is symmetric positive definite; only its lower triangle is read.

    Returns:
        The unit lower triangular L (n, n) and the diagonal matrix D (n, n).

    Raises:
        ValueError: A pivot is not positive; traced pivots are not checked.
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
    """Return the product H x, using only the lower triangle of H (RBDA Table 6.5).

    `parent` is the parent array of the variables.
    """
    above = _checked_paths(parent, H, x)
    y = [H[i, i] * x[i] for i in range(len(H))]
    for i in reversed(range(len(H))):
        for j in above[i]:
            y[i] = y[i] + H[i, j] * x[j]
            y[j] = y[j] + H[i, j] * x[i]
    return np.array(y).reshape(np.shape(x))


def mpy_l(L: Array, parent: Parents, x: Array) -> Array:
    """Return the product L x (RBDA Table 6.5); `parent` is the parent array of the variables."""
    above = _checked_paths(parent, L, x)
    y = [L[i, i] * x[i] for i in range(len(L))]
    for i in range(len(L)):
        for j in above[i]:
            y[i] = y[i] + L[i, j] * x[j]
    return np.array(y).reshape(np.shape(x))


def mpy_lt(L: Array, parent: Parents, x: Array) -> Array:
    """Return the product L^T x (RBDA Table 6.5); `parent` is the parent array of the variables."""
    above = _checked_paths(parent, L, x)
    y = [L[i, i] * x[i] for i in range(len(L))]
    for i in range(len(L)):
        for j in above[i]:
            y[j] = y[j] + L[i, j] * x[i]
    return np.array(y).reshape(np.shape(x))


def mpy_li(L: Array, parent: Parents, x: Array, unit: bool = False) -> Array:
    """Return the solution y = L^-1 x of L y = x (RBDA Table 6.5).

    If `unit` is true, all diagonal elements of L are 1, and the function omits the divisions.
    """
    above, y = _checked_paths(parent, L, x), list(x)
    for i in range(len(L)):
        for j in above[i]:
            y[i] = y[i] - L[i, j] * y[j]
        if not unit:
            y[i] = y[i] / L[i, i]
    return np.array(y).reshape(np.shape(x))


def mpy_lit(L: Array, parent: Parents, x: Array, unit: bool = False) -> Array:
    """Return the solution y = L^-T x of L^T y = x (RBDA Table 6.5).

    If `unit` is true, all diagonal elements of L are 1, and the function omits the divisions.
    """
    above, y = _checked_paths(parent, L, x), list(x)
    for i in reversed(range(len(L))):
        if not unit:
            y[i] = y[i] / L[i, i]
        for j in above[i]:
            y[j] = y[j] - L[i, j] * y[i]
    return np.array(y).reshape(np.shape(x))


def solve_ltl(H: Array, parent: Parents, b: Array) -> Array:
    """Return the solution x of H x = b by the factorization H = L^T L (RBDA 6.5).

    `parent` is the parent array of the variables. The function solves first with L^T and then with
    L. For a Cholesky factorization L L^T, the order would be reversed.
    """
    L = ltl(H, parent)
    return mpy_li(L, parent, mpy_lit(L, parent, b))


def solve_ltdl(H: Array, parent: Parents, b: Array) -> Array:
    """Return the solution x of H x = b by the factorization H = L^T D L (RBDA 6.5).

    `parent` is the parent array of the variables.
    """
    L, D = ltdl(H, parent)
    y = mpy_lit(L, parent, b, unit=True)
    z = np.array([row / d for row, d in zip(y, np.diag(D), strict=True)]).reshape(np.shape(y))
    return mpy_li(L, parent, z, unit=True)


def _lower(H: Array) -> Array:
    """Return a copy of H with zeros above the diagonal, as floats or traced scalars."""
    H = np.asarray(H)
    return np.tril(H if H.dtype == object else H.astype(float))


def _paths(parent: Parents) -> list[tuple[int, ...]]:
    """Return the path (parent[k], parent[parent[k]], ...) of each variable k, without the base."""
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
            f"the parent array has {len(parent)} entries, but the matrix has {n} rows; use "
            "expand_lambda(parent, freedoms) to get one entry per variable"
        )
    return _paths(parent)


def _check(parent: Parents) -> None:
    for i, p in enumerate(parent):
        if not -1 <= p < i:
            raise ValueError(
                f"entry {i} of the parent array is {p}; it must be one of -1 (the base) .. {i - 1}"
            )


def _check_pivot(pivot: Any, k: int) -> None:
    if isinstance(pivot, float) and pivot <= 0:  # NaN passes: an input was not finite
        raise ValueError(f"the matrix is not positive definite: pivot {k} is {pivot}")
