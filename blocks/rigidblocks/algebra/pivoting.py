"""The solutions of K x = k by Gaussian elimination with complete pivoting, x = G y + g (RBDA 8.5
method 3, 8.8).

The y are some of the x, the independent ones. Which they are, and how many, depends on the values
of K; for traced scalars the form of the result must not. So the elimination keeps all rows and
columns in their places and says with numbers that are 0 or 1 which are used (`reduction`);
`null_space` picks the columns that are.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from rigidblocks.algebra.scalar import less, select
from rigidblocks.algebra.spatial import Array

TOLERANCE = 1e-9  # of the largest element of K: what is left of dependent rows is far below


class NullSpace(NamedTuple):
    """G (n, n - r) and g (n,) with K (G y + g) = k for every y, and which variables y is: K G = 0,
    K g = k.
    """

    G: Array
    g: Array
    independent: tuple[int, ...]


class Reduction(NamedTuple):
    """K x = k (m, n) brought to the form of reduced rows, with everything in its place.

    G (n, n) has zero columns for the variables that are not `free`, g (n,) is zero for those that
    are: x = G x + g. `free` (n,) and `kept` (m,) are 1 for independent variables and for
    constraints that none of the other kept ones imply, else 0. M (m, n) takes what is a combination
    of K's rows to its coefficients: K^T M r = r, zero for constraints not kept. `rest` (m, n) is
    what remained of the constraints that were not kept, in terms of the free variables.
    """

    G: Array
    g: Array
    free: Array
    kept: Array
    M: Array
    rest: Array


def reduction(
    K: Array, k: Array, independent: Sequence[int] = (), tolerance: float = TOLERANCE
) -> Reduction:
    """The elimination of the variables of K x = k one after the other, the largest pivot first
    (RBDA Eq 8.48 to 8.51).

    The `independent` variables are not eliminated. It stops, in numbers 0 and 1, where no pivot is
    larger than the tolerance times the first one: what remains of K depends on the rest.
    """
    m, n = K.shape
    A: Array = np.hstack([K, np.asarray(k)[:, None], np.eye(m)])
    column_used, row_used = np.array([float(j in independent) for j in range(n)]), np.zeros(m)
    place, limit = np.zeros((n, m)), None
    for _ in range(min(m, n - len(independent))):
        i, j, size = _largest(A[:, :n], row_used, column_used)
        limit = size * tolerance if limit is None else limit
        some = less(limit, size)
        row, column = _chosen(m, i, some), _chosen(n, j, some)
        A = _eliminate(A, row, column, some)
        row_used, column_used = row_used + row, column_used + column
        place = place + np.outer(column, row)
    return _reduction(A, place, row_used)


def _eliminate(A: Array, row: Array, column: Array, some: Any) -> Array:
    """A with the chosen variable gone from all rows but the chosen one."""
    n = len(column)
    pivots = row @ A
    pivots = pivots / _select(some, pivots[:n] @ column, 1.0)
    return A - np.outer(A[:, :n] @ column - row, pivots)


def _reduction(A: Array, place: Array, kept: Array) -> Reduction:
    """What [K | k | 1] has become, with `place` (n, m) 1 where a row has the solution for a
    variable.
    """
    n, m = place.shape
    free = 1.0 - place @ np.ones(m)
    G = np.diag(free) - (place @ A[:, :n]) * free
    rest = A[:, :n] * (1.0 - kept)[:, None]
    return Reduction(G, place @ A[:, n], free, kept, A[:, n + 1 :].T @ place.T, rest)


def _largest(A: Array, row_used: Array, column_used: Array) -> tuple[Any, Any, Any]:
    """The row, the column and the size of the largest element that is neither in a used row nor in
    a used column.
    """
    sizes = np.abs(A) * (1.0 - column_used) * (1.0 - row_used)[:, None]
    if sizes.dtype != object:
        i, j = np.unravel_index(np.argmax(sizes), A.shape)
        return float(i), float(j), sizes[i, j]
    row, column, size = 0.0, 0.0, sizes[0, 0]
    for i, j in np.ndindex(A.shape):
        larger = less(size, sizes[i, j])
        row, column, size = (
            _select(larger, i, row),
            _select(larger, j, column),
            _select(larger, sizes[i, j], size),
        )
    return row, column, size


def _chosen(n: int, k: Any, some: Any) -> Array:
    """The unit vector (n,) number k, or zero where there is not `some`."""
    return np.array(
        [_select(some, _select(less(abs(k - i), 0.5), 1.0, 0.0), 0.0) for i in range(n)]
    )


def _select(condition: Any, a: Any, b: Any) -> Any:
    """`select` of scalars that keeps numbers numbers, so that zeros vanish from a trace."""
    return select(condition, a, b) if hasattr(condition, "select") else (a if condition else b)


def null_space(
    K: Array,
    k: Array,
    independent: Sequence[int] | None = None,
    names: Sequence[str] | None = None,
    tolerance: float = TOLERANCE,
) -> NullSpace:
    """G and g of K x = k (nc, n), in numbers, for variables x that the elimination chooses to be
    independent, or the given.

    Raises ValueError where the given ones do not determine the others, or depend on each other, and
    then says by `names` which do. In trace the choice must be given, and is taken to be right.
    """
    n = K.shape[1]
    choice = tuple(independent or ())
    result = reduction(K, k, choice, tolerance)
    if result.free.dtype == object:
        if independent is None:
            raise ValueError(
                "a traced null space needs `independent`: which variables it chose, traced values "
                "cannot tell"
            )
        return NullSpace(result.G[:, list(choice)], result.g, choice)
    free = [j for j in range(n) if result.free[j] == 1.0]
    if independent is not None:
        _check_choice(K, result, choice, free, names or [f"x[{j}]" for j in range(n)], tolerance)
        free = list(choice)
    return NullSpace(result.G[:, free], result.g, tuple(free))


def _check_choice(
    K: Array,
    result: Reduction,
    choice: tuple[int, ...],
    free: list[int],
    names: Sequence[str],
    tolerance: float,
) -> None:
    """Raises ValueError where chosen variables are tied to each other, and where others stay free
    beside them.
    """
    given = f"independent variables {', '.join(names[j] for j in choice)}"
    tied = [j for j in choice if np.any(np.abs(result.rest[:, j]) > tolerance * np.abs(K).max())]
    if tied:
        raise ValueError(
            f"the {given} are not independent: the constraints tie "
            f"{' and '.join(names[j] for j in tied)} to "
            f"{'each other' if len(tied) > 1 else 'a fixed value'}; of them "
            f"{len(free) - _rank(result.rest, K, tolerance)} "
            "may stay"
        )
    if left := [names[j] for j in free if j not in choice]:
        raise ValueError(
            f"the {given} do not determine {' and '.join(left)}; of {len(names)} variables "
            f"{len(free)} are independent"
        )


def _rank(rest: Array, K: Array, tolerance: float) -> int:
    return int(np.linalg.matrix_rank(rest, tol=tolerance * np.abs(K).max()))
