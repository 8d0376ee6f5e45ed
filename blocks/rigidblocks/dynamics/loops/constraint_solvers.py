"""Solvers for the equation of motion of a system with loops (RBDA 8.5, Spencer 2004 chapter 3).

    H qdd = f + K^T lam,   K qdd = k        with f = tau - C

H is the joint-space inertia matrix, C the bias force and tau the joint force. K qdd = k are the
loop constraints, and lam are their multipliers.

Each solver is a function (H, f, K, k, parent, blocks). It returns qdd (nv,) and lam (nc,). `parent`
is the expanded parent array of the tree (`expanded_parent`), and `blocks` are the constraint rows
of each loop. Without these arguments, a solver does not exploit zeros. `closed_loop_dynamics` uses
`elimination` by default.

All solvers return the same qdd and lam if the constraints are independent. If some constraints are
dependent and k is consistent, all solvers return the same qdd and K^T lam. The solvers contain no
data-dependent branches, so they support floats and traced scalars.

`eliminate_constraints` describes the orthogonal elimination.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from rigidblocks.dynamics import ltl, mpy_li, mpy_lit
from rigidblocks.dynamics.loops.constraints import ClosureMotion
from rigidblocks.spatial.linear_algebra import (
    Basis,
    Columns,
    completion,
    normal_to,
    orthonormal,
    positive_solution,
    project_out,
    reduction,
    svd,
    symmetric_solution,
)
from rigidblocks.spatial.scalar import (
    is_number,
    is_traced_for_derivatives,
    less,
    maximum,
    minimum,
    select,
)
from rigidblocks.spatial.spatial import Array

TOLERANCE = 1e-9  # relative to the largest column; above the rounding error of dependent columns


@dataclass(frozen=True, eq=False)
class Front:
    """Elimination step of one loop in `eliminate_constraints`.

    Y (n, nc) is the constraint matrix in n coordinates with unit inertia. It has one row per
    coordinate and one column per constraint. A loop uses a row of Y if one or more of its
    constraints are nonzero in this row.

    Each front has its own coordinates: the remaining coordinates of the fronts `sources`, then the
    coordinates of the rows `fresh`. The columns of M are the constraints of the loop in these
    coordinates.

    Attributes:
        block: Indices of the constraints of the loop.
        Y: Nonzero rows of the columns `block` of the constraint matrix, by row index.
        sources: Earlier fronts whose remaining coordinates are coordinates of this front.
        fresh: Rows of Y that occur in no earlier front.
        rows: Rows of Y that this loop or a later loop uses, in the coordinates of this front.
        Q: Orthonormal basis of the column space of M, Q = M V.
        V: Matrix of the linear combinations of constraints in Q = M V.
        sizes: Pivot norms: the norm of each constraint after orthogonalization, 0 if dropped.
        P: Basis of the remaining coordinates: the null space of the constraints of the front.
        kept: Rows of Y that later loops use, in coordinates of P.
        largest: Norm of the largest constraint before the elimination.
    """

    block: slice
    Y: dict[int, Array]
    sources: tuple[int, ...]
    fresh: tuple[int, ...]
    rows: dict[int, Array]
    Q: Array
    V: Array
    sizes: tuple[Any, ...]
    P: Basis
    kept: dict[int, Array]
    largest: Any

    def is_negligible(self, c: Array, amplitude: Array, order: int) -> Array:
        """Return a mask of the coordinates c along Q that are within their rounding error.

            |c| < amplitude (s_1/s)^order / s

        Q is the orthonormal basis of the column space of the constraints. `amplitude` (nc,)
        contains the rounding errors of the constraints. s is the pivot norm of the direction (an
        element of `sizes`), and s_1 is the norm of the largest constraint. `order` is 2 for
        accelerations and 1 for velocities (`RoundingBound`).
        """
        some = [less(0.0, size) for size in self.sizes]
        inverse = np.array(
            [1.0 / select(is_some, s, 1.0) for is_some, s in zip(some, self.sizes, strict=True)]
        )
        growth = self.largest * inverse
        bound = amplitude[self.block.start] * inverse
        for _ in range(order):
            bound = bound * growth
        smaller: Array = less(np.abs(c), bound)
        return smaller


@dataclass(frozen=True, eq=False)
class RoundingBound:
    """Right-hand side k of the constraints, and rounding errors of k and of K qd.

    K qd are the velocity errors of the constraints. All fields are (nc,). `k_rounding` and
    `velocity_rounding` are the rounding errors for the largest constraint, which has the norm s_1.
    Consider a linear combination of constraints with the norm s. Its error of k is larger by the
    factor (s_1/s)^2, and its velocity error by the factor s_1/s.

    Near a singular configuration, rounding of the positions rotates the direction of a constraint
    by the machine precision divided by s. The value of k determines whether the mechanism passes
    straight through the singular configuration or turns to another branch. If k is within its
    rounding error, k counts as 0: the mechanism passes straight through, with unchanged velocities.
    """

    k: Array
    k_rounding: Array
    velocity_rounding: Array


@dataclass(frozen=True, eq=False)
class Elimination:
    """Factorization of the constraint matrix Y (n, nc) into fronts, in elimination order."""

    shape: tuple[int, int]
    fronts: tuple[Front, ...]

    @property
    def rank(self) -> Any:
        """Number of independent constraints."""
        return sum(select(less(0.0, size), 1.0, 0.0) for size in self._sizes)

    @property
    def condition(self) -> Any:
        """Estimate of the condition number of the independent constraints.

        The estimate is the ratio of the largest to the smallest pivot norm of the independent
        constraints. It approximates sigma_1/sigma_r, the ratio of the extreme singular values.
        Without independent constraints, the estimate is 1.
        """
        largest = reduce(maximum, self._sizes, 0.0)
        smallest = reduce(
            minimum, [select(less(0.0, size), size, largest) for size in self._sizes], largest
        )
        some = less(0.0, smallest)
        return select(some, largest / select(some, smallest, 1.0), 1.0)

    @property
    def _sizes(self) -> list[Any]:
        return [size for front in self.fronts for size in front.sizes]


def eliminate_constraints(
    Y: Array, blocks: Sequence[slice], tolerance: float = TOLERANCE
) -> Elimination:
    """Factorize the constraint matrix Y by orthogonal elimination, loop by loop.

    The factorization H = L^T L of the inertia matrix defines coordinates w = L qdd with unit
    inertia. In these coordinates the constraints K qdd = k are Y^T w = k with Y = L^-T K^T. The
    elimination applies the null-space method of Spencer 2004, 3.1, to one loop after the other.
    Columns of Y may be linearly dependent.

    Each step eliminates the loop with the fewest coordinates, or the first of several such loops.
    The step transforms the constraints of the loop to orthonormal directions, beginning with the
    largest constraint. It drops a constraint whose norm after orthogonalization is below the
    tolerance (RBDA 8.8). Such a constraint depends on constraints of earlier loops or on larger
    constraints of the loop.

    Rows of Y that later loops use retain only their component in the null space of the constraints.
    The number of operations for a chain of loops is proportional to its length.

    Args:
        Y: Constraints (n, nc).
        blocks: Columns of each loop.
        tolerance: Pivot norm below which a constraint is dropped, relative to the largest column.

    Returns:
        Factors of Y for `solve_elimination`.
    """
    squares = [column @ column for column in Y.T]
    limit = tolerance * tolerance * reduce(maximum, squares)
    rows_of_loops = [_nonzero_rows(Y[:, block]) for block in blocks]
    fronts: list[Front] = []
    front_of_row: dict[int, int] = {}  # for each row: the front whose coordinates contain it
    for l, later in _elimination_order(rows_of_loops):
        largest = np.sqrt(reduce(maximum, squares[blocks[l]]))
        front = _front(blocks[l], rows_of_loops[l], later, fronts, front_of_row, limit, largest)
        front_of_row |= dict.fromkeys(front.kept, len(fronts))
        fronts.append(front)
    return Elimination(Y.shape, tuple(fronts))


def _elimination_order(
    rows_of_loops: Sequence[Mapping[int, Array]],
) -> Iterator[tuple[int, set[int]]]:
    """Yield the index of each loop in elimination order, and the rows of Y that later loops use.

    `rows_of_loops` contains the nonzero rows of Y for each loop, by row index.
    """
    waiting = [l for l, rows in enumerate(rows_of_loops) if rows]
    together: dict[int, set[int]] = {}  # for each row: the rows in the same front
    while waiting:
        reach = [
            set(rows_of_loops[l]).union(*(together.get(row, ()) for row in rows_of_loops[l]))
            for l in waiting
        ]
        sizes = [len(rows) for rows in reach]
        first = sizes.index(min(sizes))
        l, rows = waiting.pop(first), reach[first]
        later = {row for other in waiting for row in rows_of_loops[other]}
        together |= dict.fromkeys(rows & later, rows & later)
        yield l, later


def solve_elimination(
    factors: Elimination, k: Array, z: Array, rounding_bound: RoundingBound | None = None
) -> tuple[Array, Array]:
    """Return the solution w of Y^T w = k that is nearest to z, and the multipliers lambda.

    Args:
        factors: Factors of Y (n, nc).
        k: Right-hand side (nc,), which must be consistent if columns of Y are dependent.
        z: Vector (n,), L^-T f in the equation of motion.
        rounding_bound: Rounding errors of k. Coordinates of k within their rounding error count
            as 0.

    Returns:
        w (n,) and lambda (nc,) with w = z + Y lambda. Multipliers of dropped constraints are 0.
    """
    fixed, free = _outward_pass(factors, k, z, rounding_bound)
    w: Array = np.array(z, dtype=_dtype(*fixed, *free))
    places: list[Array] = []
    settled: dict[int, Array] = {}  # for each front: coordinates along P, from later loops

    # inward pass: the coordinates of each loop
    for l, front in reversed(list(enumerate(factors.fronts))):
        s = fixed[l] + project_out(free[l], list(front.Q.T))
        if l in settled:
            s = s + front.P.combine(settled[l])
        places.insert(0, s)
        left = free[l]
        for source in front.sources:
            size = factors.fronts[source].P.size
            settled[source], s, left = s[:size] - left[:size], s[size:], left[size:]
        w[list(front.fresh)] = s
    return w, _multipliers(factors, places, free)


def _outward_pass(
    factors: Elimination, k: Array, z: Array, rounding_bound: RoundingBound | None
) -> tuple[list[Array], list[Array]]:
    """Return the component of w that each front determines, and the components of z.

    w and z are the vectors of `solve_elimination`. Both results are in the coordinates of the
    fronts (`Front`).
    """
    z = np.asarray(z)
    offset: dict[int, Any] = {}  # for each row of Y: component that earlier loops determine
    k_offset: dict[int, Any] = {}
    fixed: list[Array] = []
    free: list[Array] = []
    for front in factors.fronts:
        c = _required_coordinates(front, k, offset)
        if rounding_bound is not None and not is_traced_for_derivatives(k):
            turning = (
                c
                if k is rounding_bound.k
                else _required_coordinates(front, rounding_bound.k, k_offset)
            )
            straight = front.is_negligible(turning, rounding_bound.k_rounding, 2)
            if k is not rounding_bound.k:
                turning = turning - select(straight, turning, 0.0)
                _add_determined_component(front, front.Q @ turning, k_offset)
                straight = select(
                    front.is_negligible(c, rounding_bound.velocity_rounding, 1), straight, False
                )
            c = c - select(straight, c, 0.0)
        fixed.append(front.Q @ c)
        left = [factors.fronts[source].P.parts(free[source]) for source in front.sources]
        free.append(np.concatenate([*left, z[list(front.fresh)]]))
        _add_determined_component(front, fixed[-1], offset)
    return fixed, free


def _required_coordinates(front: Front, k: Array, offset: dict[int, Any]) -> Array:
    """Return the coordinates of w along Q that the constraints of a front require.

    `offset` contains the contribution of earlier loops to each element of w.
    """
    rest = k[front.block] - sum(y * offset[row] for row, y in front.Y.items() if row in offset)
    c: Array = front.V.T @ rest
    return c


def _add_determined_component(front: Front, fixed: Array, offset: dict[int, Any]) -> None:
    """Add `fixed`, the component of w that a front determines, to the elements of w in `offset`."""
    for row, c in front.rows.items():
        offset[row] = offset.get(row, 0.0) + c @ fixed


def _multipliers(factors: Elimination, w: list[Array], z: list[Array]) -> Array:
    """Return the multipliers (nc,) of the constraints, computed from the last front to the first.

    w and z contain the vectors of `solve_elimination` in the coordinates of each front.
    """
    lam: Array = np.zeros(factors.shape[1], dtype=_dtype(*w))
    later: dict[int, Any] = {}
    for front, s, s0 in reversed(list(zip(factors.fronts, w, z, strict=True))):
        moved = (
            s
            - s0
            - sum(
                (c * later[row] for row, c in front.rows.items() if row in later),
                start=np.zeros(len(s)),
            )
        )
        lam[front.block] = front.V @ (front.Q.T @ moved)
        later |= {row: later.get(row, 0.0) + y @ lam[front.block] for row, y in front.Y.items()}
    return lam


def _front(
    block: slice,
    Y: dict[int, Array],
    later: set[int],
    fronts: list[Front],
    front_of_row: dict[int, int],
    limit: Any,
    largest: Any,
) -> Front:
    sources = tuple(sorted({front_of_row[row] for row in Y if row in front_of_row}))
    fresh = tuple(row for row in Y if row not in front_of_row)
    rows = _coordinates(sources, fresh, fronts, front_of_row)
    M = np.array([rows[row] for row in Y]).T @ np.array(list(Y.values()))
    Q, V, sizes = orthonormal(M, limit)
    later_rows = {row: c for row, c in rows.items() if row in later}
    P, kept = _remaining_basis(Q, sizes, later_rows)
    return Front(block, Y, sources, fresh, rows, Q, V, sizes, P, kept, largest)


def _remaining_basis(
    Q: Array, sizes: tuple[Any, ...], later_rows: dict[int, Array]
) -> tuple[Basis, dict[int, Array]]:
    """Return a basis of the null space of a front, and the rows `later_rows` in this basis.

    Q and `sizes` are fields of `Front`. `later_rows` contains the rows of Y that later loops use.
    The function selects the smaller of two bases: the whole null space in the coordinates of these
    rows (`normal_to`), or the null-space components of the rows (`completion`). Only `normal_to` is
    differentiable, so the function always uses it for derivatives.
    """
    spare = [k for k in range(len(Q)) if all(is_number(c[k], 0.0) for c in later_rows.values())]
    if len(Q) - len(spare) <= len(later_rows) or is_traced_for_derivatives(Q):
        basis = normal_to(Q, sizes, spare)
        return basis, {row: basis.parts(c) for row, c in later_rows.items()}
    P, R = completion(Q, list(later_rows.values()))
    return Columns(P), dict(zip(later_rows, R.T, strict=True))


def _coordinates(
    sources: tuple[int, ...],
    fresh: tuple[int, ...],
    fronts: list[Front],
    front_of_row: dict[int, int],
) -> dict[int, Array]:
    """Return the rows of Y for a new front, in the coordinates of this front.

    These rows are the `kept` rows of the fronts `sources`, and the `fresh` rows. `front_of_row`
    maps each row that an earlier front uses to the index of this front.
    """
    sizes = [fronts[source].P.size for source in sources]
    basis = np.eye(sum(sizes) + len(fresh))
    rows: dict[int, Array] = {}
    k = 0
    for source, size in zip(sources, sizes, strict=True):
        part = basis[:, k : k + size]
        rows |= {
            row: part @ c for row, c in fronts[source].kept.items() if front_of_row[row] == source
        }
        k += size
    return rows | dict(zip(fresh, basis[k:], strict=True))


def _dtype(*arrays: Array) -> type:
    return object if any(array.dtype == object for array in arrays) else float


def _nonzero_rows(Y: Array) -> dict[int, Array]:
    return {i: row for i, row in enumerate(Y) if not all(is_number(value, 0.0) for value in row)}


Parents = Sequence[int]
Blocks = Sequence[slice]


class ConstrainedMotion(NamedTuple):
    """Accelerations qdd (nv,) and constraint forces lam (nc,)."""

    qdd: Array
    lam: Array


Solver = Callable[..., ConstrainedMotion]


def elimination(
    H: Array,
    f: Array,
    K: Array,
    k: Array,
    parent: Parents | None = None,
    blocks: Blocks | None = None,
) -> ConstrainedMotion:
    """Solve the equation of motion by orthogonal elimination of each loop.

    This is the default solver. It works in coordinates with unit inertia and exploits the loop
    structure (`eliminate_constraints`). It determines the rank from L^-T K^T, without forming
    K H^-1 K^T. L is the factor of H = L^T L.

    Args:
        H: Joint-space inertia matrix (nv, nv).
        f: Joint forces minus bias forces (nv,), tau - C.
        K: Constraint matrix (nc, nv).
        k: Right-hand side (nc,) of the constraint equation K qdd = k.
        parent: Expanded parent array of the tree (`expanded_parent`). Without it, L is dense.
        blocks: Indices of the constraints of each loop. Without them, one block has all
            constraints.
    """
    parent = _chain(len(H)) if parent is None else parent
    L = ltl(H, parent)
    factors = eliminate_constraints(mpy_lit(L, parent, K.T), blocks or (slice(0, len(K)),))
    w, lam = solve_elimination(factors, k, mpy_lit(L, parent, f))
    return ConstrainedMotion(mpy_li(L, parent, w), lam)


def kkt(
    H: Array,
    f: Array,
    K: Array,
    k: Array,
    parent: Parents | None = None,
    blocks: Blocks | None = None,
) -> ConstrainedMotion:
    """Solve for qdd and lam together by an L D L^T factorization (method 1, RBDA Eq 8.36).

        [H, K^T; K, 0] [qdd; -lam] = [f; k]

    The factorization has no row exchanges. Complete pivoting of K removes dependent constraints
    (RBDA 8.8) and sets their lam to 0. The arguments are as in `elimination`. The function does not
    use `parent` and `blocks`.
    """
    del parent, blocks
    kept = reduction(K, k).kept
    N = K * kept[:, None]
    solution = symmetric_solution(
        np.block([[H, N.T], [N, np.diag(kept - 1.0)]]), np.concatenate([f, k * kept])
    )
    return ConstrainedMotion(solution[: len(H)], -solution[len(H) :])


def multipliers(
    H: Array,
    f: Array,
    K: Array,
    k: Array,
    parent: Parents | None = None,
    blocks: Blocks | None = None,
) -> ConstrainedMotion:
    """Solve for the constraint forces lam, then for qdd (method 2, RBDA Eq 8.37 to 8.41).

    The constraint forces satisfy A lam = b with A = K H^-1 K^T and b = k - K H^-1 f.

    If A is singular, lam = A^+ b is the minimum-norm solution. The function computes A^+ from the
    singular values of Y, whose squares are the singular values of A.

        H = L^T L,   Y = L^-T K^T,   z = L^-T f,   A = Y^T Y,   b = k - Y^T z

    The arguments are as in `elimination`. The function does not use `blocks`.
    """
    del blocks
    parent = _chain(len(H)) if parent is None else parent
    L = ltl(H, parent)
    Y, z = mpy_lit(L, parent, K.T), mpy_lit(L, parent, f)
    factors = svd(Y)
    inverse = factors.inverses()
    lam = factors.V @ (inverse * inverse * (factors.V.T @ (k - Y.T @ z)))
    return ConstrainedMotion(mpy_li(L, parent, z + Y @ lam), lam)


def null_space_method(
    H: Array,
    f: Array,
    K: Array,
    k: Array,
    parent: Parents | None = None,
    blocks: Blocks | None = None,
    independent: Sequence[int] = (),
) -> ConstrainedMotion:
    """Solve the equation of motion in independent variables y (method 3, RBDA Eq 8.42 to 8.46).

        qdd = G ydd + g,   G^T H G ydd = G^T (f - H g)

    qdd = G ydd + g is the general solution of K qdd = k. Complete pivoting of K selects the
    independent variables and sets lam of dependent constraints to 0 (RBDA 8.8). `independent`
    contains the indices of variables that must be independent. The function does not check whether
    the constraints permit this choice. The other arguments are as in `elimination`. The function
    does not use `parent` and `blocks`.
    """
    del parent, blocks
    K_x = reduction(K, k, independent)
    G, g = K_x.G, K_x.g
    used = np.diag((1.0 - K_x.free) * (np.trace(H) / len(H)))  # makes zero columns of G regular
    ydd = positive_solution(G.T @ H @ G + used, G.T @ (f - H @ g))
    qdd = G @ ydd + g
    return ConstrainedMotion(qdd, K_x.M @ (H @ qdd - f))


def loop_function(
    H: Array, f: Array, K: Array, k: Array, closure: ClosureMotion
) -> ConstrainedMotion:
    """Solve the equation of motion in independent coordinates y, with q = gamma(y) (RBDA 8.11).

        G^T H G ydd = G^T (f - H g),  qdd = G ydd + g,  K^T lam = H qdd - f

    `closure` is the result of `loop_closure` for q = gamma(y) and contains G and g. All these
    accelerations satisfy the loop constraints K qdd = k, so the function does not use k. The
    constraint forces lam are the minimum-norm solution.
    """
    del k
    G, g = closure.G, closure.g
    qdd = G @ positive_solution(G.T @ H @ G, G.T @ (f - H @ g)) + g
    return ConstrainedMotion(qdd, svd(K.T).pseudo_inverse() @ (H @ qdd - f))


def svd_null_space(
    H: Array,
    f: Array,
    K: Array,
    k: Array,
    parent: Parents | None = None,
    blocks: Blocks | None = None,
    damping: float = 0.0,
) -> ConstrainedMotion:
    """Solve the equation of motion in an orthonormal null-space basis of K (Spencer 2004, Eq 3.5).

        qdd = V2 (V2^T H V2)^-1 V2^T (f - H K^+ k) + K^+ k

    The singular value decomposition of K provides the basis (the columns of V2) and the
    pseudo-inverse K^+. Singular values s below a relative tolerance count as 0, and the
    corresponding component of k is dropped. With `damping`, relative to the largest singular value,
    s / (s^2 + damping^2) replaces 1/s. Damping softens the constraints near singular configurations
    (Spencer 2004, 3.3). The constraint forces lam are the minimum-norm solution.

    The other arguments are as in `elimination`. The function does not use `parent` and `blocks`.
    """
    del parent, blocks
    factors = svd(K)
    V1 = factors.row_space()
    x = factors.pseudo_inverse(damping=damping) @ k
    fixed = V1 @ V1.T
    P = np.eye(len(H)) - fixed  # V2 V2^T, whose size does not depend on the rank
    free = positive_solution(P @ H @ P + fixed * (np.trace(H) / len(H)), P @ (f - H @ x))
    qdd = P @ free + x
    return ConstrainedMotion(qdd, factors.pseudo_inverse().T @ (H @ qdd - f))


SOLVERS: Mapping[str, Solver] = MappingProxyType(
    {
        "elimination": elimination,
        "kkt": kkt,
        "multipliers": multipliers,
        "null_space": null_space_method,
        "svd": svd_null_space,
    }
)


def solver(method: str) -> Solver:
    """Return the solver with the name `method`; raise ValueError if the name is unknown."""
    if method not in SOLVERS:
        raise ValueError(
            f"unknown solver '{method}' for loops; expected one of {', '.join(SOLVERS)}"
        )
    return SOLVERS[method]


def _chain(n: int) -> tuple[int, ...]:
    """Return the parent array of a chain of n variables.

    The inertia matrix of a chain can have nonzero values in all elements.
    """
    return tuple(range(-1, n - 1))
