"""The complementarity problem of contacts without friction, solved exactly, and its quadratic
programmes (RBDA 11.5).

    w = M lam + d,  w >= 0,  lam >= 0,  w^T lam = 0                                  (RBDA Eq 11.42)

M (n, n) is symmetric and positive semidefinite. With accelerations w is the separation acceleration
and lam the contact force; with velocities w is the separation velocity and lam the impulse.
Contacts that depend on each other make M singular: there may then be no solution, or many, which
differ in lam alone; T lam and w are the same in all of them.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from rigidblocks.algebra.spatial import Array

# a pivot of M, scaled to a unit diagonal, below which a contact counts as dependent on others: 1e-5
# rad
DEPENDENT = 1e-10
WITHIN = 1e-11  # how far below zero w may be, in units of the largest |d|
_ROUNDING = 1e-14  # of a sum, in units of what is summed


class Complementarity(NamedTuple):
    """A solution lam (n,), w = M lam + d (n,) of a complementarity problem.

    `active` (n,) marks independent contacts that together carry all of the force: all with lam > 0
    are among them, and as many with w = lam = 0 as are independent of those (RBDA 11.5). `feasible`
    is False where there is no solution; lam and w are then where the search ended. `unique` says
    whether lam is the only solution, None where that was not decided.
    """

    lam: Array
    w: Array
    active: Array
    feasible: bool
    unique: bool | None

    @property
    def redundant(self) -> Array:
        """The contacts (n,) that stay closed but depend on the active ones."""
        closed = np.abs(self.w) <= WITHIN * max(1.0, float(np.abs(self.w).max(initial=0.0)))
        return closed & ~self.active


class QuadraticProgramme(NamedTuple):
    """Minimize 1/2 x^T P x + c^T x subject to A x + b >= 0."""

    P: Array
    c: Array
    A: Array
    b: Array


def force_programme(M: ArrayLike, d: ArrayLike) -> QuadraticProgramme:
    """The quadratic programme in lam that has the solutions of the complementarity problem (RBDA Eq
    11.43).
    """
    M, d = checked_problem(M, d)
    return QuadraticProgramme(M, d, np.eye(len(d)), np.zeros(len(d)))


def acceleration_programme(H: Array, free: Array, T: Array, bias: Array) -> QuadraticProgramme:
    """The quadratic programme in qdd: Gauss's principle of least constraint (RBDA Eq 11.44).

    Of all accelerations with T^T qdd + bias >= 0 it has the one next to `free` = H^-1 (tau - C) in
    the metric H (n, n); T is (n, n_c), bias = dT/dt^T qd (n_c,).
    """
    return QuadraticProgramme(H, -(H @ free), T.T, bias)


def complementarity(M: ArrayLike, d: ArrayLike) -> Complementarity:
    """The exact solution of w = M lam + d by principal pivoting, in numbers.

    One contact after the other, the one with the most negative w first, takes force until its w is
    zero; where a contact in the way loses its force, it is let go. The objective of RBDA Eq 11.43
    falls with every contact, so the search ends. Numbers below `WITHIN` count as zero. Contacts
    that depend on others to `DEPENDENT` count as dependent: what then cannot be told from zero,
    some 1e-5 of |d|, is zero in w. Raises ValueError for wrong shapes, for what is not finite, and
    for an M that is not symmetric or has a negative diagonal.
    """
    M, d = checked_problem(M, d)
    scale, size = unit_scale(M), float(np.abs(d).max(initial=0.0))
    A = M * np.outer(scale, scale)
    b = d * scale
    lam, basis, dependent, feasible = _pivot(A, b)
    w = (A @ lam + b) / scale
    lam = scale * lam
    w[basis + dependent] = 0.0
    w[np.abs(w) <= WITHIN * size] = 0.0
    w = np.maximum(w, 0.0) if feasible else w
    active = _complete_basis(A, basis, w <= 0) if feasible else _mask(basis, len(d))
    return Complementarity(lam, w, active, feasible, feasible and _only_one(A, lam > 0, w <= 0))


def checked_problem(M: ArrayLike, d: ArrayLike) -> tuple[Array, Array]:
    """M (n, n) and d (n,) as arrays of floats; raises ValueError for what is no complementarity
    problem of contacts.
    """
    M, d = np.asarray(M, dtype=float), np.asarray(d, dtype=float)
    _check_numbers(M, d)
    if np.abs(M - M.T).max(initial=0.0) > 1e-9 * np.abs(M).max(initial=0.0):
        raise ValueError("M of a complementarity problem must be symmetric: it is T^T H^-1 T")
    if (M.diagonal() < 0).any():
        i = int(np.argmin(M.diagonal()))
        raise ValueError(
            f"M of a complementarity problem must be positive semidefinite; M[{i}, {i}] is "
            f"{M[i, i]}"
        )
    return M, d


def _check_numbers(M: Array, d: Array) -> None:
    if M.ndim != 2 or d.ndim != 1 or M.shape != (len(d), len(d)):
        raise ValueError(
            f"a complementarity problem needs M (n, n) and d (n,), not shapes {M.shape} and "
            f"{d.shape}"
        )
    if not (np.all(np.isfinite(M)) and np.all(np.isfinite(d))):
        raise ValueError("a complementarity problem needs finite numbers in M and d")


def unit_scale(M: Array) -> Array:
    """The scale (n,) of the unknowns that makes the diagonal of M one; one where a contact cannot
    be moved.
    """
    diagonal = M.diagonal()
    movable = diagonal > 1e-26 * diagonal.max(initial=0.0)
    return np.asarray(1.0 / np.sqrt(np.where(movable, diagonal, 1.0)))


def _pivot(A: Array, b: Array) -> tuple[Array, list[int], list[int], bool]:
    """lam, the independent contacts that carry it, those that only rounding lets approach, and
    whether it is a solution.
    """
    lam, basis, dependent = np.zeros(len(b)), list[int](), list[int]()
    size = float(np.abs(b).max(initial=0.0))
    for _ in range(20 * len(b) + 20):
        w = A @ lam + b
        w[basis + dependent] = 0.0
        j = int(np.argmin(w)) if len(b) else 0
        if not len(b) or w[j] >= -WITHIN * size - _ROUNDING * lam.sum():
            # none approaches; what rounding has left is taken out
            lam[basis] -= np.linalg.solve(A[np.ix_(basis, basis)], (A @ lam + b)[basis])
            return np.maximum(lam, 0.0), basis, dependent, True
        ray = _raise_force(A, lam, basis, j, w[j])
        if ray is None:
            dependent = []
        elif w[j] >= -_ray_rounding(A, b, ray):
            dependent.append(j)
        else:
            return lam, basis, dependent, False
    raise ArithmeticError(
        f"the pivoting of {len(b)} contacts did not end; M is too close to singular for its "
        "accuracy"
    )


def _ray_rounding(A: Array, b: Array, ray: Array) -> float:
    """What rounding makes of the velocity that no forces along a ray change."""
    size = float(np.abs(b).max(initial=0.0))
    of_sum = _ROUNDING * len(b) * (np.abs(b) @ ray)
    return float(of_sum + 10.0 * np.sqrt(abs(ray @ A @ ray)) * size)


def _raise_force(A: Array, lam: Array, basis: list[int], j: int, w: float) -> Array | None:
    """Gives contact j the force that makes its w zero, and those in the way leave to go.

    Where no force does, the ray r >= 0 (n,) of forces with A r = 0 that shows it.
    """
    while True:
        # lam of the basis changes by -x for each unit of lam[j], w[j] by s
        x = np.linalg.solve(A[np.ix_(basis, basis)], A[basis, j])
        s = A[j, j] - A[j, basis] @ x
        whole = -w / s if s > max(DEPENDENT, _ROUNDING * (1.0 + np.abs(x).sum()) ** 2) else np.inf
        k, room = _first_at_zero(lam[basis], x)
        step = min(whole, room)
        if np.isinf(step):
            ray = np.eye(len(lam))[j]
            ray[basis] = -x
            return np.asarray(np.abs(ray))
        lam[basis] -= step * x
        lam[j] += step
        w += step * s
        if whole <= step:
            basis.append(j)
            return None
        lam[basis.pop(k)] = 0.0


def _first_at_zero(lam: Array, x: Array) -> tuple[int, float]:
    """Which of the forces lam is the first at zero where they change by -x, and after how much."""
    falling = x > 1e-12
    room = np.where(falling, lam / np.where(falling, x, 1.0), np.inf)
    k = int(np.argmin(room)) if len(room) else -1
    return k, float(room[k]) if len(room) else np.inf


def _complete_basis(A: Array, basis: Sequence[int], closed: Array) -> Array:
    """The basis with as many of the other closed contacts as are independent of it (RBDA 11.5), as
    a mask.
    """
    chosen = list(basis)
    for j in np.flatnonzero(closed & ~_mask(chosen, len(A))):
        x = np.linalg.solve(A[np.ix_(chosen, chosen)], A[chosen, j])
        if A[j, j] - A[j, chosen] @ x > DEPENDENT:
            chosen.append(int(j))
    return _mask(chosen, len(A))


def _mask(members: Sequence[int], n: int) -> Array:
    mask = np.zeros(n, dtype=bool)
    mask[list(members)] = True
    return mask


def _only_one(A: Array, loaded: Array, closed: Array) -> bool:
    """Whether no other lam has the same A lam.

    Another differs by a null vector of A among the closed contacts that is not negative where lam
    is zero. There is none where the loaded contacts are independent and the others, behind them,
    can all be pushed apart at once (Gordan).
    """
    S, D = np.flatnonzero(loaded), np.flatnonzero(closed & ~loaded)
    A_SS = A[np.ix_(S, S)]
    if len(S) and np.linalg.eigvalsh(A_SS)[0] <= DEPENDENT:
        return False
    behind: Any = A[np.ix_(D, D)] - A[np.ix_(D, S)] @ np.linalg.solve(A_SS, A[np.ix_(S, D)])
    behind = np.where(np.abs(behind) > DEPENDENT, behind, 0.0)
    return _pivot(behind, -np.ones(len(D)))[3]
