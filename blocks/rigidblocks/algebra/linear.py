"""Dense linear equations: the one home of what is solved without regard for structure.

Everything is for small matrices. What "works traced" takes traced scalars and never branches on a
value; elements that are zero whatever the values cost nothing there.

    function                   solves, or finds                          traced  rank
    small_inverse              A^-1, A symmetric positive definite       yes     full, not checked
    positive_solution          A x = b, the same                         yes     full, or ValueError
    symmetric_solution         A x = b, A symmetric, no minor 0          yes     full, or not finite
    linear_solver              W x = b for any b, partial pivoting       yes     full, or not finite
    orthonormal                Q = M V, by Gram-Schmidt                  yes     zeros below a limit
    completion                  what completes Q, by Gram-Schmidt         yes     zeros below 1e-28
    complement                 what is normal to all columns             no      full
    pivoting.reduction         K x = k, complete pivoting                yes     0 or 1 for each row
    pivoting.null_space        all x with K x = k                        given   by a tolerance
    svd.svd                    A = U S V^T, by Jacobi                    yes     by a tolerance
    sparse.solve_ltdl          H x = b with the zeros of a tree          yes     full, or ValueError

"given": where the choice of the independent variables is. A ValueError is for numbers alone: what
is traced becomes not finite instead.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rigidblocks.algebra.scalar import is_number, less, select
from rigidblocks.algebra.sparse import solve_ltdl
from rigidblocks.algebra.spatial import Array

Solver = Callable[[Array], Array]


def small_inverse(D: Array) -> Array:
    """The inverse of a symmetric positive definite matrix as small as a joint's freedoms, by
    elimination.
    """
    if len(D) == 0:
        return D
    if len(D) < 2:
        return 1.0 / D
    B = small_inverse(D[:-1, :-1])
    w = B @ D[:-1, -1]
    s = 1.0 / (D[-1, -1] - D[-1, :-1] @ w)
    return np.block([[B + np.outer(w, w) * s, -w[:, None] * s], [-w[None, :] * s, np.array([[s]])]])


def positive_solution(A: Array, b: Array) -> Array:
    """The x with A x = b, column by column, of a symmetric positive definite A, by L^T D L.

    Only the lower triangle of A is read. Raises ValueError where a pivot, if it is a number, is not
    positive.
    """
    return solve_ltdl(A, tuple(range(-1, len(A) - 1)), b)


def symmetric_solution(A: Array, b: Array) -> Array:
    """The x with A x = b of a symmetric A whose leading minors are not zero."""
    A, x, n = np.array(A), np.array(b), len(A)
    for i in range(n):
        factor = A[i + 1 :, i] / A[i, i]
        A[i + 1 :, i + 1 :] = A[i + 1 :, i + 1 :] - np.outer(factor, A[i, i + 1 :])
        x[i + 1 :] = x[i + 1 :] - factor * x[i]
    for i in reversed(range(n)):
        x[i] = (x[i] - A[i, i + 1 :] @ x[i + 1 :]) / A[i, i]
    return x


def linear_solver(W: Array) -> Solver:
    """The function that returns W^-1 b, by elimination with the largest pivot of each column; W may
    be traced.

    A singular W gives values that are not finite.
    """
    return _traced_solver(W) if W.dtype == object else _solver(W)


def _solver(W: Array) -> Solver:
    U, rows = _elimination(W)

    def solve(b: Array) -> Array:
        x: Array = b[rows]
        for j in range(len(x)):
            x[j + 1 :] -= U[j + 1 :, j] * x[j]
        for j in reversed(range(len(x))):
            x[j] /= U[j, j]
            x[:j] -= U[:j, j] * x[j]
        return x

    return solve


def _elimination(W: Array) -> tuple[Array, Array]:
    """U, with the factors of the elimination below its diagonal, and the rows in the order of the
    pivots.
    """
    U, rows = W.copy(), np.arange(len(W))
    for j in range(len(W)):
        pivot = j + int(np.argmax(np.abs(U[j:, j])))
        U[[j, pivot]], rows[[j, pivot]] = U[[pivot, j]], rows[[pivot, j]]
        U[j + 1 :, j] /= U[j, j]
        U[j + 1 :, j + 1 :] -= U[j + 1 :, j, None] * U[j, j + 1 :]
    return U, rows


def _traced_solver(W: Array) -> Solver:
    """The same for traced W: rows are exchanged with `select`, and structural zeros cost
    nothing.
    """
    U, exchanges = _traced_elimination(W)

    def solve(b: Array) -> Array:
        x = b.astype(object)
        for j in range(len(x)):
            for i, larger in exchanges[j]:
                x[j], x[i] = select(larger, x[i], x[j]), select(larger, x[j], x[i])
            for i, _ in exchanges[j]:
                x[i] = x[i] - U[i, j] * x[j]
        for j in reversed(range(len(x))):
            x[j] = x[j] / U[j, j]
            x[:j] = x[:j] - U[:j, j] * x[j]
        return x

    return solve


def _traced_elimination(W: Array) -> tuple[Array, list[list[tuple[int, Any]]]]:
    """U, with the factors of the elimination below its diagonal, and for each column the rows that
    its pivot may come from and whether it does.
    """
    U, n, exchanges = W.copy(), len(W), []
    for j in range(n):
        below = [i for i in range(j + 1, n) if not is_number(U[i, j], 0.0)]
        exchanges.append([(i, _exchange(U, j, i)) for i in below])
        for i in below:
            U[i, j] = U[i, j] / U[j, j]
            U[i, j + 1 :] = U[i, j + 1 :] - U[i, j] * U[j, j + 1 :]
    return U, exchanges


def _exchange(U: Array, j: int, i: int) -> Any:
    """Exchanges rows j and i from column j on where the pivot in row i is larger; returns whether
    it is.
    """
    larger = less(np.abs(U[j, j]), np.abs(U[i, j]))
    for c in range(j, len(U)):
        if not (is_number(U[j, c], 0.0) and is_number(U[i, c], 0.0)):
            U[j, c], U[i, c] = select(larger, U[i, c], U[j, c]), select(larger, U[j, c], U[i, c])
    return larger


_AS_LARGE = 1.0 + 1e-9  # squares of columns of which one is not larger but for rounding


def orthonormal(M: Array, limit: Any) -> tuple[Array, Array, tuple[Any, ...]]:
    """Q = M V with orthonormal columns, made from M's, the largest remainder first; and the
    remainders' sizes.

    Where the square of a remainder is below `limit`, its column and size are zero, and all behind
    it.
    """
    n, m = M.shape
    columns = [np.concatenate([M[:, j], np.eye(m)[j]]) for j in range(m)]
    done: list[Array] = []
    sizes: list[Any] = []
    keep: Any = None
    while columns:
        largest, square, others = _largest_column(columns, n)
        above = less(limit, square)
        keep = above if keep is None else keep & above
        size = np.sqrt(select(keep, square, 1.0))
        done.append(without(largest * (select(keep, 1.0, 0.0) / size), done, n))
        sizes.append(select(keep, size, 0.0))
        columns = [without(column, done[-1:], n) for column in others]
    stacked = np.array(done).T
    return stacked[:n], stacked[n:], tuple(sizes)


def _largest_column(columns: list[Array], n: int) -> tuple[Array, Any, list[Array]]:
    """The column with the largest square of its first n elements, this square, and the others; of
    those that rounding alone tells apart the first.
    """
    best, others = columns[0], []
    square = best[:n] @ best[:n]
    for column in columns[1:]:
        other = column[:n] @ column[:n]
        if is_number(other, 0.0):
            others.append(column)
            continue
        larger = less(_AS_LARGE * square, other)
        others.append(select(larger, best, column))
        best, square = select(larger, column, best), select(larger, other, square)
    return best, square, others


def completion(Q: Array, vectors: list[Array]) -> tuple[Array, Array]:
    """Orthonormal columns P (n, k) that span, with Q's, the k vectors too, and R = P^T [vectors]
    (k, k), an upper triangle; column and row are zero where the others span a vector already.
    """
    n, m, k = *Q.shape, len(vectors)
    done, R = list(Q.T), np.zeros((k, k), dtype=object if Q.dtype == object else float)
    for j, vector in enumerate(vectors):
        p, parts = _separated(vector, done)
        p, again = _separated(p, done)  # what rounding has left
        square = p @ p
        some = less(1e-28, square)
        inverse = select(some, 1.0, 0.0) / np.sqrt(select(some, square, 1.0))
        done.append(p * inverse)
        R[:j, j], R[j, j] = parts[m:] + again[m:], square * inverse
    return np.array(done[m:]).reshape(k, n).T, R


def without(vector: Array, units: Sequence[Array], n: int | None = None) -> Array:
    """The vector less its parts along orthonormal ones, judged by the first n elements (modified
    Gram-Schmidt).
    """
    return _separated(vector, units, n)[0]


def _separated(vector: Array, units: Sequence[Array], n: int | None = None) -> tuple[Array, Array]:
    """`without`, and the parts that were taken off."""
    parts = []
    for unit in units:
        parts.append(unit[:n] @ vector[:n])
        if not is_number(parts[-1], 0.0):
            vector = vector - unit * parts[-1]
    return vector, np.array(parts)


def block_diagonal(blocks: Sequence[Array], dtype: type = float) -> Array:
    """The matrix with these blocks, of any shapes, along its diagonal and zeros elsewhere."""
    matrix = np.zeros(
        (sum(block.shape[0] for block in blocks), sum(block.shape[1] for block in blocks)),
        dtype=dtype,
    )
    row = column = 0
    for block in blocks:
        matrix[row : row + block.shape[0], column : column + block.shape[1]] = block
        row, column = row + block.shape[0], column + block.shape[1]
    return matrix


def complement(S: Array) -> Array:
    """A basis (n, n - k), of unit columns with many zeros, of the vectors normal to the columns of
    the numbers S (n, k).
    """
    n = len(S)
    rows: list[Array] = []
    pivots: list[int] = []
    for row in np.array(S, dtype=float).T:
        for other, pivot in zip(rows, pivots, strict=True):
            row = row - row[pivot] * other
        pivots.append(int(np.argmax(np.abs(row))))
        row = row / row[pivots[-1]]
        rows = [other - other[pivots[-1]] * row for other in rows] + [row]
    T = np.eye(n)[:, [k for k in range(n) if k not in pivots]]
    for row, pivot in zip(rows, pivots, strict=True):
        T[pivot] = -(row @ T)
    unit: Array = T / np.sqrt(np.sum(T * T, axis=0))
    return unit
