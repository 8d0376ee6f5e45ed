"""Dense linear algebra: equations, orthonormal bases, null spaces and singular values.

All functions are for small matrices. Functions with "yes" in the column "traced" accept traced
scalars and do not branch on values. Structurally zero elements add no operations to a trace. The
column "rank" contains the supported ranks of the matrix, and the outcome for other ranks.

    function             result                                     traced  rank
    small_inverse        A^-1, A symmetric positive definite        yes     full, not checked
    positive_solution    x of A x = b, A symmetric pos. definite    yes     full, else ValueError
    symmetric_solution   x of A x = b, A symmetric, no minor 0      yes     full, else not finite
    linear_solver        x of W x = b, partial pivoting             yes     full, else not finite
    orthonormal          Q = M V, Gram-Schmidt                      yes     any; limit as argument
    completion           columns that complete Q, Gram-Schmidt      yes     any; limit 1e-28
    normal_to            basis normal to Q, Householder             yes     any, from the sizes of Q
    complement           basis normal to all columns                no      full
    reduction            reduced form of K x = k, complete pivoting yes     any, 0 or 1 per row
    null_space           all x with K x = k                         given   any, by a tolerance
    svd                  A = U S V^T, Jacobi rotations              yes     any, by a tolerance
    solve_ltdl           x of H x = b, H with the zeros of a tree   yes     full, else ValueError

"given": the function can be traced only if the caller specifies the independent variables.
`solve_ltdl` is in `branch_sparsity`. With traced arguments, a rank-deficient matrix does not raise
ValueError, and the results are not finite.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import combinations
from typing import Any, NamedTuple, Protocol

import numpy as np

from rigidblocks.spatial.branch_sparsity import solve_ltdl
from rigidblocks.spatial.scalar import is_number, is_traced_for_derivatives, less, maximum, select
from rigidblocks.spatial.spatial import Array

Solver = Callable[[Array], Array]


def small_inverse(D: Array) -> Array:
    """Return the inverse of a small symmetric positive definite matrix by elimination.

    The typical matrix size is the number of degrees of freedom of a joint, at most 6.
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
    """Return the solution x of A x = b by the factorization A = L^T D L.

    A is symmetric positive definite, and the function reads only its lower triangle. b may have
    several columns.

    Raises:
        ValueError: A pivot is not positive; traced pivots are not checked.
    """
    return solve_ltdl(A, tuple(range(-1, len(A) - 1)), b)


def symmetric_solution(A: Array, b: Array) -> Array:
    """Return the solution x of A x = b for a symmetric A with nonzero leading minors."""
    A, x, n = np.array(A), np.array(b), len(A)
    for i in range(n):
        factor = A[i + 1 :, i] / A[i, i]
        A[i + 1 :, i + 1 :] = A[i + 1 :, i + 1 :] - np.outer(factor, A[i, i + 1 :])
        x[i + 1 :] = x[i + 1 :] - factor * x[i]
    for i in reversed(range(n)):
        x[i] = (x[i] - A[i, i + 1 :] @ x[i + 1 :]) / A[i, i]
    return x


def linear_solver(W: Array) -> Solver:
    """Return a function that computes W^-1 b by elimination with partial pivoting.

    The pivot is the remaining element with the largest magnitude in each column. W may be traced.
    If W is singular, the results are not finite.
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
    """Return the LU factors of W in one matrix, and the row index of each pivot."""
    U, rows = W.copy(), np.arange(len(W))
    for j in range(len(W)):
        pivot = j + int(np.argmax(np.abs(U[j:, j])))
        U[[j, pivot]], rows[[j, pivot]] = U[[pivot, j]], rows[[pivot, j]]
        U[j + 1 :, j] /= U[j, j]
        U[j + 1 :, j + 1 :] -= U[j + 1 :, j, None] * U[j, j + 1 :]
    return U, rows


def _traced_solver(W: Array) -> Solver:
    """Return a function that computes W^-1 b for a traced W.

    The function exchanges rows by means of `select`, and skips structural zeros.
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
    """Return the LU factors of a traced W, and for each column the row exchanges.

    An exchange is a pair (row index, condition).
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
    """Exchange the rows j and i of U if element [i, j] is larger in magnitude than [j, j].

    The function does not change the columns before column j.

    Returns:
        The condition of the exchange, which may be traced.
    """
    larger = less(np.abs(U[j, j]), np.abs(U[i, j]))
    for c in range(j, len(U)):
        if not (is_number(U[j, c], 0.0) and is_number(U[i, c], 0.0)):
            U[j, c], U[i, c] = select(larger, U[i, c], U[j, c]), select(larger, U[j, c], U[i, c])
    return larger


_AS_LARGE = 1.0 + 1e-9  # largest ratio of squared column lengths that count as equal


def orthonormal(M: Array, limit: Any) -> tuple[Array, Array, tuple[Any, ...]]:
    """Orthonormalize the columns of M (n, m) by Gram-Schmidt with column pivoting.

    The remainder of a column of M is the component normal to the previous columns of Q. Each step
    normalizes the longest remainder. If the squared length of this remainder is not above `limit`,
    the new column of Q and all later columns are zero, with zero lengths in the result.

    Returns:
        Q = M V (n, m) with orthonormal columns, V (m, m), and the lengths of the remainders (m,).
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
        done.append(project_out(largest * (select(keep, 1.0, 0.0) / size), done, n))
        sizes.append(select(keep, size, 0.0))
        columns = [project_out(column, done[-1:], n) for column in others]
    stacked = np.array(done).T
    return stacked[:n], stacked[n:], tuple(sizes)


def _largest_column(columns: list[Array], n: int) -> tuple[Array, Any, list[Array]]:
    """Return the longest column, its squared length, and the other columns.

    The length of a column is the norm of its first n elements. If several columns have the same
    length within rounding error, the function returns the first of these columns.
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
    """Return columns P (n, k) that extend the orthonormal columns Q (n, m) to span `vectors`.

        R = P^T W

    W (n, k) has the columns `vectors`. The nonzero columns of P are orthonormal, and normal to Q.
    Column j of P and row j of R are zero if Q and the previous columns of P span vector j.

    Returns:
        P (n, k) and the upper triangular matrix R (k, k).
    """
    n, m, k = *Q.shape, len(vectors)
    done, R = list(Q.T), np.zeros((k, k), dtype=object if Q.dtype == object else float)
    for j, vector in enumerate(vectors):
        p, parts = _split_projection(vector, done)
        p, again = _split_projection(p, done)  # removes the rounding errors of the first projection
        square = p @ p
        some = less(1e-28, square)
        inverse = select(some, 1.0, 0.0) / np.sqrt(select(some, square, 1.0))
        done.append(p * inverse)
        R[:j, j], R[j, j] = parts[m:] + again[m:], square * inverse
    return np.array(done[m:]).reshape(k, n).T, R


def project_out(vector: Array, units: Sequence[Array], n: int | None = None) -> Array:
    """Return the component of `vector` normal to the orthonormal vectors `units`.

    The method is modified Gram-Schmidt. If n is given, the scalar products use only the first n
    elements.
    """
    return _split_projection(vector, units, n)[0]


def _split_projection(
    vector: Array, units: Sequence[Array], n: int | None = None
) -> tuple[Array, Array]:
    """Return the component of `vector` normal to the vectors `units`, and its other components.

    The other components are the scalar products of `vector` with the orthonormal `units`. The
    argument n is as in `project_out`.
    """
    parts = []
    for unit in units:
        parts.append(unit[:n] @ vector[:n])
        if not is_number(parts[-1], 0.0):
            vector = vector - unit * parts[-1]
    return vector, np.array(parts)


def block_diagonal(blocks: Sequence[Array], dtype: type = float) -> Array:
    """Return the block-diagonal matrix of rectangular blocks."""
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
    """Return a basis (n, n - k) of the vectors that are normal to all columns of S (n, k).

    S must not be traced. The columns of the basis have unit length and many zeros.
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


PIVOT_TOLERANCE = 1e-9  # relative to the largest element of K; rounding errors are far smaller


class NullSpace(NamedTuple):
    """General solution x = G y + g of K x = k with the independent variables y.

    K G = 0 and K g = k, so x is a solution for every y. G has the shape (n, n - r) and g the shape
    (n,), where r is the rank of K. `independent` contains the indices of y in x.
    """

    G: Array
    g: Array
    independent: tuple[int, ...]


class Reduction(NamedTuple):
    """Equations K x = k, with K (m, n), in reduced row form, without row or column exchanges.

        x = G x + g

    G (n, n) has nonzero columns only for the free (independent) variables. g (n,) is zero for the
    free variables. `free` (n,) is 1 for free variables and 0 for eliminated variables. `kept` (m,)
    is 1 for independent constraints and 0 for dependent constraints.

    For a linear combination r (n,) of the rows of K, M r (m,) contains the coefficients of r with
    respect to the independent rows: K^T M r = r. The rows of M (m, n) for dependent constraints are
    zero. `rest` (m, n) contains the rows of K for the dependent constraints, after the elimination.
    An element of `rest` that is not near zero means that a prescribed choice of free variables is
    not independent.
    """

    G: Array
    g: Array
    free: Array
    kept: Array
    M: Array
    rest: Array


def reduction(
    K: Array, k: Array, independent: Sequence[int] = (), tolerance: float = PIVOT_TOLERANCE
) -> Reduction:
    """Eliminate the variables of K x = k with complete pivoting (RBDA Eq 8.48 to 8.51).

    The elimination skips the `independent` variables. It ends when no pivot is larger than the
    tolerance times the first pivot. The remaining rows of K then depend on the pivot rows.

    The number of pivots depends on the values of K, but the shape of a traced result must not
    depend on values. The function therefore does not exchange rows and columns. It marks the pivot
    rows and columns by factors of 0 or 1, and steps without a pivot have no effect.
    """
    m, n = K.shape
    A: Array = np.hstack([K, np.asarray(k)[:, None], np.eye(m)])
    column_used, row_used = np.array([float(j in independent) for j in range(n)]), np.zeros(m)
    pivot_rows, limit = np.zeros((n, m)), None
    for _ in range(min(m, n - len(independent))):
        i, j, size = _largest(A[:, :n], row_used, column_used)
        limit = size * tolerance if limit is None else limit
        some = less(limit, size)
        row, column = _unit_vector(m, i, some), _unit_vector(n, j, some)
        A = _eliminate(A, row, column, some)
        row_used, column_used = row_used + row, column_used + column
        pivot_rows = pivot_rows + np.outer(column, row)
    return _reduction(A, pivot_rows, row_used)


def _eliminate(A: Array, row: Array, column: Array, has_pivot: Any) -> Array:
    """Return A after the elimination of one variable from all rows except the pivot row.

    `row` and `column` are unit vectors, which mark the pivot row and the pivot column. If
    `has_pivot` is false, both are zero and A does not change.
    """
    n = len(column)
    pivots = row @ A
    pivots = pivots / _select(has_pivot, pivots[:n] @ column, 1.0)
    return A - np.outer(A[:, :n] @ column - row, pivots)


def _reduction(A: Array, pivot_rows: Array, kept: Array) -> Reduction:
    """Return the reduced row form of K x = k.

    A is the matrix [K | k | identity] (m, n + 1 + m) after the elimination. Element [j, i] of
    `pivot_rows` (n, m) is 1 if row i is the pivot row of variable j, and otherwise 0. `kept` (m,)
    is 1 for pivot rows, and otherwise 0.
    """
    n, m = pivot_rows.shape
    free = 1.0 - pivot_rows @ np.ones(m)
    G = np.diag(free) - (pivot_rows @ A[:, :n]) * free
    rest = A[:, :n] * (1.0 - kept)[:, None]
    return Reduction(G, pivot_rows @ A[:, n], free, kept, A[:, n + 1 :].T @ pivot_rows.T, rest)


def _largest(A: Array, row_used: Array, column_used: Array) -> tuple[Any, Any, Any]:
    """Return row index, column index and magnitude of the largest element that can be a pivot.

    `row_used` is 1 for a row of A that cannot contain the pivot, and otherwise 0. `column_used` is
    the same for columns.
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


def _unit_vector(n: int, k: Any, exists: Any) -> Array:
    """Return the unit vector (n,) along axis k, or the zero vector if `exists` is false."""
    return np.array(
        [_select(exists, _select(less(abs(k - i), 0.5), 1.0, 0.0), 0.0) for i in range(n)]
    )


def _select(condition: Any, a: Any, b: Any) -> Any:
    """Return `a` if the condition is true, and otherwise `b`.

    If the condition is a constant, the function adds no operation to a trace.
    """
    return select(condition, a, b) if hasattr(condition, "select") else (a if condition else b)


def null_space(
    K: Array,
    k: Array,
    independent: Sequence[int] | None = None,
    names: Sequence[str] | None = None,
    tolerance: float = PIVOT_TOLERANCE,
) -> NullSpace:
    """Return the general solution x = G y + g of K x = k (RBDA 8.5 method 3, 8.8).

    The independent variables y are a subset of x.

    Args:
        K: The coefficients (nc, n).
        k: The right-hand side (nc,).
        independent: The indices of y in x, by default selected by complete pivoting. If K or k is
            traced, the indices are required and not checked.
        names: The names of the variables x in error messages.
        tolerance: The smallest pivot, relative to the first pivot.

    Raises:
        ValueError: The variables `independent` depend on each other, or do not determine the other
            variables. K or k is traced and `independent` is missing.
    """
    n = K.shape[1]
    choice = tuple(independent or ())
    result = reduction(K, k, choice, tolerance)
    if result.free.dtype == object:
        if independent is None:
            raise ValueError(
                "the null space of a traced matrix needs `independent`, because traced values "
                "cannot determine which variables are independent"
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
    """Raise ValueError unless the variables `choice` are independent and determine all others.

    `choice` contains indices of x in K x = k. `result` is the reduction of these equations, and
    `free` contains the indices of its free variables.
    """
    given = f"independent variables {', '.join(names[j] for j in choice)}"
    tied = [j for j in choice if np.any(np.abs(result.rest[:, j]) > tolerance * np.abs(K).max())]
    if tied:
        raise ValueError(
            f"the {given} are not independent: the constraints "
            f"{'couple' if len(tied) > 1 else 'fix'} {' and '.join(names[j] for j in tied)}; at "
            f"most {len(free) - _rank(result.rest, K, tolerance)} of them are independent"
        )
    if left := [names[j] for j in free if j not in choice]:
        raise ValueError(
            f"the {given} do not determine {' and '.join(left)}; of the {len(names)} variables, "
            f"{len(free)} are independent"
        )


def _rank(rest: Array, K: Array, tolerance: float) -> int:
    return int(np.linalg.matrix_rank(rest, tol=tolerance * np.abs(K).max()))


class Basis(Protocol):
    """Orthonormal basis of a subspace: the nonzero columns of P (n, k).

    P may also have zero columns, so that k does not depend on the values in a trace.
    """

    @property
    def size(self) -> int:
        """Number of columns k, including zero columns."""

    def parts(self, x: Array) -> Array:
        """Return the components P^T x (k,) of x (n,) along the columns."""

    def combine(self, y: Array) -> Array:
        """Return the linear combination P y (n,) of the columns for coefficients y (k,)."""


@dataclass(frozen=True, eq=False)
class Columns:
    """Basis with explicit columns P (n, k)."""

    P: Array

    @property
    def size(self) -> int:
        """Number of columns."""
        return int(self.P.shape[1])

    def parts(self, x: Array) -> Array:
        """Return the components P^T x (k,) of x (n,) along the columns."""
        y: Array = self.P.T @ x
        return y

    def combine(self, y: Array) -> Array:
        """Return the linear combination P y (n,) of the columns for coefficients y (k,)."""
        x: Array = self.P @ y
        return x


class Mirror(NamedTuple):
    """Householder reflection that changes only the elements `places` of a vector.

    It maps the vector y of these elements to y - factor (v^T y) v.
    """

    places: list[int]
    v: Array
    factor: Any

    def image(self, x: Array) -> Array:
        """Return the image of x (n,) under the reflection."""
        part = self.factor * (self.v @ x[self.places])
        if is_number(part, 0.0):
            return x
        image = np.array(x, dtype=np.result_type(x, self.v))
        image[self.places] = x[self.places] - self.v * part
        return image


@dataclass(frozen=True, eq=False)
class Reflected:
    """Basis that is the image of k coordinate axes under Householder reflections.

    Column j is the image of the unit vector (n,) along the axis `axes[j]` under the reflections
    `mirrors`, times `factors[j]` if j has a factor. The factor 0 sets a column to zero, and the
    factor 1 leaves it unchanged.
    """

    n: int
    axes: list[int]
    mirrors: tuple[Mirror, ...]
    factors: Mapping[int, Any]

    @property
    def size(self) -> int:
        """Number of columns."""
        return len(self.axes)

    def parts(self, x: Array) -> Array:
        """Return the components P^T x (k,) of x (n,) along the columns."""
        for mirror in self.mirrors:
            x = mirror.image(x)
        return self._apply_factors(x[self.axes])

    def combine(self, y: Array) -> Array:
        """Return the linear combination P y (n,) of the columns for coefficients y (k,)."""
        x = np.zeros(self.n, dtype=y.dtype)
        x[self.axes] = self._apply_factors(y)
        for mirror in reversed(self.mirrors):
            x = mirror.image(x)
        return x

    def _apply_factors(self, y: Array) -> Array:
        y = y.copy()
        for k, number in self.factors.items():
            y[k] = y[k] * number
        return y


def normal_to(Q: Array, sizes: Sequence[Any], spare: Sequence[int]) -> Reflected:
    """Return a basis P (n, k) of the vectors normal to the orthonormal columns of Q (n, m).

    `spare` contains s coordinate axes. Householder reflections map column j of Q to the axis
    `spare[j]`, for j < s. They map the columns of P to the k = n - s axes that are not in `spare`.
    This takes fewer operations than the Gram-Schmidt method (`completion`). If m > s, the
    reflections map each nonzero column j >= s of Q to an axis that is not in `spare`. The column of
    P for this axis is zero.

    Two reflections map each column j < s of Q. The first one changes only the components along the
    spare axes, and is not differentiable if these components are zero. If the trace will be
    differentiated, a single reflection of all components therefore replaces the two.

    Args:
        Q: The orthonormal columns (n, m). The last columns may be zero.
        sizes: A value for each column of Q: zero for a zero column, and positive otherwise.
        spare: The indices of the s coordinates that the caller does not use.

    Returns:
        The basis P (n, k).
    """
    axes = [k for k in range(len(Q)) if k not in spare]
    unused, factors, whole = list(axes), dict[int, Any](), is_traced_for_derivatives(Q)
    columns, mirrors = list(Q.T), list[Mirror]()
    for j, size in enumerate(sizes):
        some = select(less(0.0, size), 1.0, 0.0)
        if j < len(spare):
            pivot, others = spare[j], list(spare[j + 1 :])
            if not whole:
                mirrors.append(_gathering_reflection(columns[j], [pivot, *others]))
                columns[j:] = map(mirrors[-1].image, columns[j:])
                others = []
        elif unused:
            pivot, others = unused.pop(), []
            factors[axes.index(pivot)] = 1.0 - some
        else:
            break  # at most n independent directions exist; all later columns are zero
        mirrors.append(_aligning_reflection(columns[j], [*unused, *others, pivot], some))
        columns[j:] = map(mirrors[-1].image, columns[j:])
    return Reflected(len(Q), axes, tuple(mirrors), factors)


def _gathering_reflection(q: Array, places: list[int]) -> Mirror:
    """Return the reflection that zeroes the elements `places[1:]` of q and changes `places[0]`."""
    x = q[places]
    if len(places) == 1:
        return Mirror(places, np.zeros(1), 0.0)
    square = x @ x
    some = less(_NOTHING, square)
    length = np.sqrt(select(some, square, 1.0))
    v = np.array([x[0] + _sign(x[0]) * length, *x[1:]])
    return Mirror(places, v, select(some, 1.0, 0.0) / (length * (length + _sign(x[0]) * x[0])))


_NOTHING = 1e-40  # elements with a smaller sum of squares are not reflected


def _aligning_reflection(q: Array, places: list[int], exists: Any) -> Mirror:
    """Return the reflection that zeroes the elements `places[:-1]` of q and changes `places[-1]`.

    The elements `places` of q form a unit vector if `exists` is 1, and the zero vector if it is 0.
    """
    v = np.array(q[places])
    sign = _sign(v[-1])
    factor = 1.0 / (1.0 + sign * v[-1])  # abs(v[-1]) would have no derivative at 0
    v[-1] = v[-1] + sign * exists
    return Mirror(places, v, factor)


def _sign(x: Any) -> Any:
    return select(less(x, 0.0), -1.0, 1.0)


SINGULAR_VALUE_TOLERANCE = (
    1e-9  # relative to the largest singular value; rounding errors are far smaller
)


class SVD(NamedTuple):
    """Singular value decomposition A = U diag(s) V^T with p = min(m, n) singular values.

    s (p,) starts with the largest value. U is (m, p) and V (n, p). The column of a zero singular
    value is zero in U if m >= n, and in V otherwise.
    """

    U: Array
    s: Array
    V: Array

    @property
    def condition(self) -> Any:
        """Condition number s_1 / s_p (Spencer 2004, 3.1), at most 1e300."""
        some = less(self.s[0] * 1e-300, self.s[-1])
        return select(some, self.s[0] / select(some, self.s[-1], 1.0), 1e300)

    def effective_condition(self, tolerance: float = SINGULAR_VALUE_TOLERANCE) -> Any:
        """Return the condition number s_1 / s_r without the zero singular values; r is the rank.

        A singular value counts as zero if it is at most the tolerance times s_1. For rank 0, the
        result is 1.
        """
        inverses = self.inverses(tolerance)
        largest = reduce(maximum, inverses, 0.0)
        return select(less(0.0, largest), self.s[0] * largest, 1.0)

    def rank(self, tolerance: float = SINGULAR_VALUE_TOLERANCE) -> Any:
        """Return the rank: the number of singular values above the tolerance times s_1."""
        return sum(select(less(self.s[0] * tolerance, s), 1.0, 0.0) for s in self.s)

    def inverses(self, tolerance: float = SINGULAR_VALUE_TOLERANCE, damping: float = 0.0) -> Array:
        """Return the inverses (p,) of the singular values, damped if `damping` is positive.

            s / (s^2 + (damping s_1)^2)

        The inverse is 0 for singular values up to the tolerance times s_1. Source: Spencer 2004,
        3.1, 3.3.
        """
        keep = less(self.s[0] * tolerance, self.s)
        shift = (damping * self.s[0]) * (damping * self.s[0])
        inverses: Array = select(keep, self.s / select(keep, self.s * self.s + shift, 1.0), 0.0)
        return inverses

    def pseudo_inverse(
        self, tolerance: float = SINGULAR_VALUE_TOLERANCE, damping: float = 0.0
    ) -> Array:
        """Return the pseudo-inverse A^+ (n, m), damped if `damping` is positive."""
        inverse: Array = (self.V * self.inverses(tolerance, damping)) @ self.U.T
        return inverse

    def row_space(self, tolerance: float = SINGULAR_VALUE_TOLERANCE) -> Array:
        """Return V (n, p), but with zero columns for the singular values that count as zero.

        The nonzero columns are an orthonormal basis of the row space of A. A singular value counts
        as zero if it is at most the tolerance times the largest singular value.
        """
        V1: Array = self.V * select(less(self.s[0] * tolerance, self.s), 1.0, 0.0)
        return V1


def svd(A: Array, sweeps: int | None = None) -> SVD:
    """Compute the singular value decomposition of A (m, n) by one-sided Jacobi rotations.

    The rotations make the p = min(m, n) columns of A, or of A^T if n > m, orthogonal to each other.
    `sweeps` is the number of Jacobi sweeps; a sweep rotates every pair of columns. Up to p = 12,
    the default number gives rounding accuracy, even for nearly dependent columns, and includes one
    or two spare sweeps. If a scaling of the columns makes the matrix well conditioned, small and
    large singular values have equal relative accuracy.
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
    """Return [A V; V] (m + p, p); Jacobi sweeps determine V so that A V has orthogonal columns."""
    m, p = A.shape
    columns = [np.concatenate([A[:, j], np.eye(p)[j]]) for j in range(p)]
    for _ in range(sweeps):
        for i, j in combinations(range(p), 2):
            columns[i], columns[j] = _rotate(columns[i], columns[j], m)
    return np.array(columns).T.reshape(m + p, p)


def _rotate(x: Array, y: Array, m: int) -> tuple[Array, Array]:
    """Rotate two columns (m + p,) so that the vectors of their first m elements are orthogonal.

    Returns:
        The rotated columns, sorted by decreasing length of these vectors. If y is longer than x,
        the rotation includes a quarter turn.
    """
    a, b, c = x[:m] @ x[:m], y[:m] @ y[:m], x[:m] @ y[:m]
    size = abs(a - b)
    h = size + np.sqrt(size * size + 4.0 * (c * c))
    some, swap = less(0.0, h), less(a, b)
    t = select(some, 2.0 * c / select(some, h, 1.0), 0.0)  # tangent of the rotation angle
    cosine = 1.0 / np.sqrt(1.0 + t * t)
    sine = cosine * t
    cosine, sine = select(swap, sine, cosine), select(swap, cosine, sine)
    return cosine * x + sine * y, cosine * y - sine * x
