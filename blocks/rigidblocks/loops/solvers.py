"""The ways to solve the equation of motion of a system with loops, under one interface (RBDA 8.5,
Spencer 2004 chapter 3).

    H qdd = f + K^T lam,   K qdd = k        with f = tau - C

Each is a function (H, f, K, k, parent, blocks) that returns qdd (nv,) and lam (nc,). `parent` is
the expanded parent array of the tree (`expanded_parent`) and `blocks` are the places of each loop's
constraints; without them nothing is known of zeros. `elimination` is what `closed_loop_dynamics`
uses. All agree where the constraints are independent, and in qdd and K^T lam where some depend on
others and k agrees with that. They work on floats and on traced scalars.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from rigidblocks.algebra.linear import positive_solution, symmetric_solution
from rigidblocks.algebra.pivoting import reduction
from rigidblocks.algebra.spatial import Array
from rigidblocks.algebra.svd import svd
from rigidblocks.dynamics import ltl, mpy_li, mpy_lit
from rigidblocks.loops.closure import ClosureMotion
from rigidblocks.loops.elimination import eliminated, solved

Parents = Sequence[int]
Blocks = Sequence[slice]


class ConstrainedMotion(NamedTuple):
    """The accelerations qdd (nv,) and the constraint forces lam (nc,)."""

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
    """Loop by loop, by orthogonal directions in coordinates in which the inertia is 1
    (`eliminated`): the default.

    Its cost follows the structure of the loops, and rank is judged by the constraints themselves
    and not by their squares.
    """
    parent = _chain(len(H)) if parent is None else parent
    L = ltl(H, parent)
    factors = eliminated(mpy_lit(L, parent, K.T), blocks or (slice(0, len(K)),))
    w, lam = solved(factors, k, mpy_lit(L, parent, f))
    return ConstrainedMotion(mpy_li(L, parent, w), lam)


def kkt(
    H: Array,
    f: Array,
    K: Array,
    k: Array,
    parent: Parents | None = None,
    blocks: Blocks | None = None,
) -> ConstrainedMotion:
    """The symmetric indefinite system of RBDA Eq 8.36 (method 1), by L D L^T without exchanges.

        [H, K^T; K, 0] [qdd; -lam] = [f; k]

    The rows of dependent constraints are pruned, by complete pivoting in K (8.8): their lam is 0.
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
    """The constraint forces first: A lam = b with A = K H^-1 K^T and b = k - K H^-1 f (method 2,
    RBDA Eq 8.37 to 8.41).

        H = L^T L,   Y = L^-T K^T,   z = L^-T f,   A = Y^T Y,   b = k - Y^T z

    lam = A^+ b is the smallest solution where A is singular; A^+ comes from the singular values of
    Y, whose squares are those of A.
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
    """In independent variables y, by complete pivoting (method 3, RBDA Eq 8.42 to 8.46, 8.8).

        qdd = G ydd + g,   G^T H G ydd = G^T (f - H g)

    Dependent constraints have the lam 0. `independent` are the variables to keep as y (`null_space`
    checks a choice).
    """
    del parent, blocks
    K_x = reduction(K, k, independent)
    G, g = K_x.G, K_x.g
    used = np.diag(
        (1.0 - K_x.free) * (np.trace(H) / len(H))
    )  # in the place of the empty columns of G
    ydd = positive_solution(G.T @ H @ G + used, G.T @ (f - H @ g))
    qdd = G @ ydd + g
    return ConstrainedMotion(qdd, K_x.M @ (H @ qdd - f))


def loop_function(
    H: Array, f: Array, K: Array, k: Array, closure: ClosureMotion
) -> ConstrainedMotion:
    """In the independent variables y of a loop-closure function q = gamma(y) (RBDA 8.11), as
    `loop_closure` gives it.

    K is used for lam alone, the smallest there is; k is that of `closure`, which has no errors to
    stabilize.
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
    """In orthonormal directions that the constraints leave free, from the singular values of K
    (thesis Eq 3.5).

        qdd = V2 (V2^T H V2)^-1 V2^T (f - H K^+ k) + K^+ k

    Singular values below a relative tolerance count as 0, and their share of k is left out. With
    `damping`, relative to the largest, 1/s becomes s / (s^2 + damping^2), which softens the
    constraints near singular configurations (3.3). lam is the smallest.
    """
    del parent, blocks
    factors = svd(K)
    V1 = factors.row_space()
    x = factors.pseudo_inverse(damping=damping) @ k
    fixed = V1 @ V1.T
    P = np.eye(len(H)) - fixed  # V2 V2^T, of a size that does not depend on the rank
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
    """The solver of that name; raises ValueError for one that there is not."""
    if method not in SOLVERS:
        raise ValueError(f"there is no solver '{method}' for loops; there are {', '.join(SOLVERS)}")
    return SOLVERS[method]


def _chain(n: int) -> tuple[int, ...]:
    """The parents in a tree of n variables without branches, whose inertia matrix is full."""
    return tuple(range(-1, n - 1))
