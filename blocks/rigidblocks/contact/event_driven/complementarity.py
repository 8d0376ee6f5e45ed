"""Exact solvers for the complementarity problems of contacts (RBDA 11.5).

    w = M lam + d,  w >= 0,  lam >= 0,  w^T lam = 0                                  (RBDA Eq 11.42)

M (n, n) is symmetric and positive semidefinite. In the acceleration problem, w is the separation
acceleration and lam the contact force. In the velocity problem, w is the separation velocity and
lam the impulse. Dependent contacts make M singular. The problem then has no solution or many
solutions. The solutions differ only in lam. The joint forces T lam and w are unique.

`complementarity` solves contacts without friction by principal pivoting. `shared_forces` selects
one of several solutions lam by the stiffness of the supports. `frictional_complementarity` solves
contacts with a friction pyramid by Lemke's pivoting (Cottle and Dantzig 1968).
"""

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from rigidblocks.spatial.spatial import Array

# A contact is dependent if its pivot of M, scaled to a unit diagonal, is below this value. The
# pivot is the square of an angle in the metric of H^-1, so 1e-10 corresponds to 1e-5 rad
DEPENDENT = 1e-10
ZERO_TOLERANCE = 1e-11  # tolerance of w >= 0, relative to the largest |d|; found by trial
_ROUNDING = 1e-14  # rounding error of a sum, relative to its terms; found by trial


class Complementarity(NamedTuple):
    """Solution lam (n,) and w = M lam + d (n,) of a complementarity problem.

    `active` (n,) is a mask of independent contacts that together transmit the whole force. The mask
    includes all contacts with lam > 0. Contacts with w = lam = 0 extend the mask to a maximal
    independent set (RBDA 11.5). `feasible` is False if no solution exists; lam and w are then the
    last iterates. `unique` is True if lam is the only solution, and None if the solver does not
    determine the uniqueness.
    """

    lam: Array
    w: Array
    active: Array
    feasible: bool
    unique: bool | None

    @property
    def redundant(self) -> Array:
        """Mask (n,) of the closed contacts that are linearly dependent on the active contacts."""
        closed = np.abs(self.w) <= ZERO_TOLERANCE * max(1.0, float(np.abs(self.w).max(initial=0.0)))
        return closed & ~self.active


class QuadraticProgramme(NamedTuple):
    """Quadratic programme: minimize 1/2 x^T P x + c^T x, subject to A x + b >= 0.

    The unknown is x (n,). The coefficients are P (n, n), c (n,), A (m, n) and b (m,).
    """

    P: Array
    c: Array
    A: Array
    b: Array


def force_programme(M: ArrayLike, d: ArrayLike) -> QuadraticProgramme:
    """Return the quadratic programme for the forces lam of a frictionless contact problem.

        minimize 1/2 lam^T M lam + d^T lam subject to lam >= 0                   (RBDA Eq 11.43)

    M (n, n) and d (n,) are as in `complementarity`.
    """
    M, d = check_complementarity_problem(M, d)
    return QuadraticProgramme(M, d, np.eye(len(d)), np.zeros(len(d)))


def acceleration_programme(H: Array, free: Array, T: Array, bias: Array) -> QuadraticProgramme:
    """Return the quadratic programme for qdd from Gauss's principle of least constraint.

        minimize 1/2 qdd^T H qdd - free^T H qdd subject to T^T qdd + bias >= 0       (RBDA Eq 11.44)

    The solution is the admissible acceleration nearest to `free` in the metric H.

    Args:
        H: Joint-space inertia (n, n).
        free: Acceleration (n,) if no contact forces act, H^-1 (tau - C).
        T: Joint forces (n, n_c) of unit normal forces at the n_c contacts.
        bias: Separation acceleration (dT/dt)^T qd (n_c,) at qdd = 0.
    """
    return QuadraticProgramme(H, -(H @ free), T.T, bias)


def complementarity(M: ArrayLike, d: ArrayLike) -> Complementarity:
    """Return the exact solution of a frictionless contact problem by principal pivoting.

    The problem is w = M lam + d, w >= 0, lam >= 0, w^T lam = 0. M and d must not be traced. Each
    iteration increases the force of the contact with the most negative w until this w is zero. It
    releases contacts whose force reaches zero during the increase. The objective of RBDA Eq 11.43
    decreases in every iteration, so the search ends. Values below `ZERO_TOLERANCE` count as zero.
    `DEPENDENT` is the tolerance for dependent contacts. The function sets w of a dependent contact
    to zero, which changes w by up to about 1e-5 |d|.

    Args:
        M: Symmetric positive semidefinite matrix (n, n), T^T H^-1 T.
        d: Value of w (n,) for zero contact forces.

    Raises:
        ValueError: The shapes are wrong, a value is not finite, or M is not symmetric or has a
            negative diagonal element.
    """
    M, d = check_complementarity_problem(M, d)
    scale, size = unit_scale(M), float(np.abs(d).max(initial=0.0))
    A = M * np.outer(scale, scale)
    b = d * scale
    lam, basis, dependent, feasible = _pivot(A, b)
    w = (A @ lam + b) / scale
    lam = scale * lam
    w[basis + dependent] = 0.0
    w[np.abs(w) <= ZERO_TOLERANCE * size] = 0.0
    w = np.maximum(w, 0.0) if feasible else w
    active = _complete_basis(A, basis, w <= 0) if feasible else _mask(basis, len(d))
    return Complementarity(lam, w, active, feasible, feasible and _is_unique(A, lam > 0, w <= 0))


def check_complementarity_problem(M: ArrayLike, d: ArrayLike) -> tuple[Array, Array]:
    """Return M (n, n) and d (n,) of a contact problem w = M lam + d as checked float arrays.

    Raises:
        ValueError: A shape is wrong, a value is not finite, or M is not symmetric or has a negative
            diagonal element.
    """
    M, d = np.asarray(M, dtype=float), np.asarray(d, dtype=float)
    _check_numbers(M, d)
    if np.abs(M - M.T).max(initial=0.0) > 1e-9 * np.abs(M).max(initial=0.0):
        raise ValueError("the matrix M = T^T H^-1 T of a complementarity problem must be symmetric")
    if (M.diagonal() < 0).any():
        i = int(np.argmin(M.diagonal()))
        raise ValueError(
            f"M of a complementarity problem must be positive semidefinite; M[{i}, {i}] is "
            f"{M[i, i]}"
        )
    return M, d


def _check_numbers(M: Array, d: Array) -> None:
    """Raise ValueError if M or d has a wrong shape or a non-finite value."""
    if M.ndim != 2 or d.ndim != 1 or M.shape != (len(d), len(d)):
        raise ValueError(
            f"a complementarity problem needs M (n, n) and d (n,), not shapes {M.shape} and "
            f"{d.shape}"
        )
    if not (np.all(np.isfinite(M)) and np.all(np.isfinite(d))):
        raise ValueError("M and d of a complementarity problem must be finite")


def unit_scale(M: Array) -> Array:
    """Return the factors s (n,) that scale the symmetric matrix M (n, n) to a unit diagonal.

        s_i = 1 / sqrt(M_ii)

    Element (i, j) of the scaled matrix is s_i M_ij s_j. If M_ii is zero, s_i is one.
    """
    diagonal = M.diagonal()
    movable = diagonal > 1e-26 * diagonal.max(initial=0.0)
    return np.asarray(1.0 / np.sqrt(np.where(movable, diagonal, 1.0)))


def _pivot(A: Array, b: Array) -> tuple[Array, list[int], list[int], bool]:
    """Solve w = A lam + b, w >= 0, lam >= 0, w^T lam = 0 by pivoting.

    A (n, n) is symmetric and positive semidefinite, and b is (n,).

    Returns:
        The contact forces lam (n,), the indices of the contacts with w = 0 that carry the forces,
        the indices of the contacts that depend on them, and True if a solution exists. The force of
        a dependent contact is zero.
    """
    lam, basis, dependent = np.zeros(len(b)), list[int](), list[int]()
    size = float(np.abs(b).max(initial=0.0))
    for _ in range(20 * len(b) + 20):
        w = A @ lam + b
        w[basis + dependent] = 0.0
        j = int(np.argmin(w)) if len(b) else 0
        if not len(b) or w[j] >= -ZERO_TOLERANCE * size - _ROUNDING * lam.sum():
            # no contact approaches: remove the rounding error, lam_B -= A_BB^-1 w_B
            lam[basis] -= np.linalg.solve(A[np.ix_(basis, basis)], (A @ lam + b)[basis])
            return np.maximum(lam, 0.0), basis, dependent, True
        ray = _raise_force(A, lam, basis, j, w[j])
        if ray is None:
            dependent = []
        elif w[j] >= -_ray_rounding(A, b, ray):
            dependent.append(j)
        else:
            return lam, basis, dependent, False
    raise ArithmeticError(f"pivoting of {len(b)} contacts did not converge: M is nearly singular")


def _ray_rounding(A: Array, b: Array, ray: Array) -> float:
    """Return a bound of the rounding error of b . ray, for a null vector `ray` of A.

    The factor 10 was found by trial.
    """
    size = float(np.abs(b).max(initial=0.0))
    of_sum = _ROUNDING * len(b) * (np.abs(b) @ ray)
    return float(of_sum + 10.0 * np.sqrt(abs(ray @ A @ ray)) * size)


def _raise_force(A: Array, lam: Array, basis: list[int], j: int, w: float) -> Array | None:
    """Increase the force of contact j until its w is zero; release contacts whose force is zero.

    The function changes the forces lam (n,) and the contact indices `basis`, and returns None. `w`
    is the initial value of w_j = (A lam + b)_j. The scaled Delassus matrix is A (n, n). If no force
    makes w_j zero, the result is a force direction r >= 0 (n,) with A r = 0 (a ray).
    """
    while True:
        # Per unit of lam_j, lam_B changes by -x = -A_BB^-1 A_Bj and w_j by the Schur complement
        # s = A_jj - A_jB x. If s is within its rounding error, contact j depends on the basis
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
    """Return the index of the force that first reaches zero, and the step s at which it does.

    The forces are lam - s x (m,) for the step s >= 0. If no force reaches zero, s is infinite.
    """
    falling = x > 1e-12  # smaller rates are rounding; found by trial
    room = np.where(falling, lam / np.where(falling, x, 1.0), np.inf)
    k = int(np.argmin(room)) if len(room) else -1
    return k, float(room[k]) if len(room) else np.inf


def _complete_basis(A: Array, basis: Sequence[int], closed: Array) -> Array:
    """Extend `basis` to a maximal independent set of the closed contacts; return its mask (n,).

    A (n, n) is the scaled Delassus matrix. Contact j is independent if its Schur complement exceeds
    `DEPENDENT` (RBDA 11.5).
    """
    chosen = list(basis)
    for j in np.flatnonzero(closed & ~_mask(chosen, len(A))):
        x = np.linalg.solve(A[np.ix_(chosen, chosen)], A[chosen, j])
        if A[j, j] - A[j, chosen] @ x > DEPENDENT:
            chosen.append(int(j))
    return _mask(chosen, len(A))


def _mask(members: Sequence[int], n: int) -> Array:
    """Return a mask (n,) that is True at the indices `members`."""
    mask = np.zeros(n, dtype=bool)
    mask[list(members)] = True
    return mask


def _is_unique(A: Array, loaded: Array, closed: Array) -> bool:
    """Return True if only one vector of contact forces lam >= 0 (n,) solves the problem.

    A (n, n) is the scaled Delassus matrix. S are the indices of the contacts with a force (mask
    `loaded`). D are the indices of the closed contacts without a force (mask `closed`). By Gordan's
    theorem, lam is unique if two conditions hold:

        A_SS is regular,    (A_DD - A_DS A_SS^-1 A_SD) f > 0 for some forces f >= 0
    """
    S, D = np.flatnonzero(loaded), np.flatnonzero(closed & ~loaded)
    A_SS = A[np.ix_(S, S)]
    if len(S) and np.linalg.eigvalsh(A_SS)[0] <= DEPENDENT:
        return False
    schur: Any = A[np.ix_(D, D)] - A[np.ix_(D, S)] @ np.linalg.solve(A_SS, A[np.ix_(S, D)])
    schur = np.where(np.abs(schur) > DEPENDENT, schur, 0.0)
    return _pivot(schur, -np.ones(len(D)))[3]


_LEAST = 1e-11  # smaller pivots of a scaled problem are rounding errors; found by trial


def lemke(N: Array, q: Array, start: Array) -> Array | None:
    """Solve a linear complementarity problem by Lemke's pivoting; return the final basis.

        0 <= z,  w = N z + q >= 0,  z^T w = 0

    The initial basis is `start`. A covering variable in the negative rows makes this basis a
    solution of an extended problem. The pivoting ends when the covering variable leaves the basis.
    During the pivoting, at most one variable of each pair w_i, z_i is basic. An initial basis near
    the solution, such as the solution for fewer contacts, reduces the number of pivots.

    Args:
        N: Matrix (n, n).
        q: Vector (n,).
        start: Mask (n,) of the elements of z that are basic at the start.

    Returns:
        Mask (n,) of the elements of z that are basic in a solution, or None if the pivoting ends on
        a ray.
    """
    n = len(q)
    if (rows := _tableau_rows(N, q, start)) is None:
        return None
    if (rows[:, -1] >= -_LEAST).all():
        return start
    table = _Table(rows, start)
    # the covering variable enters in the most negative row
    row, column = int(rows[:, -1].argmin()), n
    for _ in range(50 * n):
        left = table.exchange(row, column)
        if left == 2 * n:
            return np.isin(np.arange(n, 2 * n), table.basic)
        # the complement of the leaving variable enters the basis
        column = int(table.place[(left + n) % (2 * n)])
        if (first := table.first_at_zero(column)) is None:
            return None
        row = first
    return None


class _Table:
    """Tableau of Lemke's method: basic variables as affine functions of nonbasic variables.

    `rows` (n, n + 2) contains the coefficients of the nonbasic variables, then the constants.
    Variable i is w_i, variable i + n is z_i, and variable 2n is the covering variable. `basic`
    contains the variable of each row, and `others` the variable of each column. `place` contains
    the row or column of each variable.
    """

    def __init__(self, rows: Array, basis: Array):
        n = len(rows)
        self.rows = rows
        self.basic = np.arange(n) + n * basis
        self.others = np.append(np.arange(n) + n * ~basis, 2 * n)
        self.place = np.empty(2 * n + 1, dtype=int)
        self.place[self.basic], self.place[self.others] = np.arange(n), np.arange(n + 1)
        self._change = np.empty_like(rows)

    def first_at_zero(self, column: int) -> int | None:
        """Return the row whose variable first reaches zero if the variable of `column` increases.

        The result is None if no variable reaches zero (a ray).
        """
        rate = self.rows[:, column]
        room = np.where(rate < -_LEAST, self.rows[:, -1] / np.minimum(rate, -_LEAST), -np.inf)
        row = int(room.argmax())
        return None if room[row] == -np.inf else row

    def exchange(self, row: int, column: int) -> int:
        """Exchange a basic and a nonbasic variable; return the variable that leaves the basis.

        The variable of `column` enters the basis in place of the variable of `row`.
        """
        pivot = self.rows[row, column]
        entering = self.rows[row] / -pivot
        entering[column] = 1.0 / pivot
        rate = self.rows[:, column].copy()
        rate[row] = self.rows[:, column] = 0.0
        np.multiply(rate[:, None], entering, out=self._change)
        self.rows += self._change
        self.rows[row] = entering
        entered, left = int(self.others[column]), int(self.basic[row])
        self.basic[row], self.others[column] = entered, left
        self.place[entered], self.place[left] = row, column
        return left


def _tableau_rows(N: Array, q: Array, basis: Array) -> Array | None:
    """Return the tableau rows (n, n + 2) of w = N z + q for a basis, or None if it is singular.

    `basis` is the mask (n,) of the basic elements of z. Row i and column i belong to w_i and z_i.
    The last two columns belong to the covering variable and to the constant 1.
    """
    S, R = np.flatnonzero(basis), np.flatnonzero(~basis)
    table = np.hstack([N, np.zeros((len(q), 1)), q[:, None]])
    if len(S):
        try:
            inverse = np.linalg.inv(N[np.ix_(S, S)])
        except np.linalg.LinAlgError:
            return None
        # z_S = N_SS^-1 (w_S - N_SR z_R - q_S)
        table[S] = -inverse @ table[S]
        table[np.ix_(S, S)] = inverse
        down = table[np.ix_(R, S)]
        table[np.ix_(R, S)] = 0.0
        table[R] += down @ table[S]
    table[:, -2] = table[:, -1] < (-_LEAST if len(S) else np.inf)
    return table


# tolerances of residuals, and the perturbation, in the scaled problem; all found by trial
_EXACT = 1e-10  # residuals below this value are rounding errors
_LOST = 1e-4  # results with a residual above this value are not solutions
# largest perturbation of q; it breaks ties, so that the pivoting does not cycle
_PERTURBATION = 1e-10


def frictional_complementarity(
    M: ArrayLike, d: ArrayLike, mu: ArrayLike, c: ArrayLike = 0.0
) -> Complementarity:
    """Return the exact solution of a contact problem with friction pyramids.

        w_z >= 0,  lam_z >= 0,  w_z lam_z = 0,  |lam_x|, |lam_y| <= mu lam_z + c

    The arguments must not be traced. A solution exists if d is T^T qd, the velocities before an
    impact. The solution may not be unique, so `unique` is None if a contact has friction. If the
    pivoting ends on a ray or fails because of rounding errors, `feasible` is False and the forces
    are the solution without friction.

    Args:
        M: Matrix (n + 2k, n + 2k) of n contacts, the first k with friction.
        d: Value of w (n + 2k,) for zero contact forces.
        mu: Coefficients of friction (k,).
        c: Adhesive component of the friction limit, a scalar or (k,).

    Raises:
        ValueError: The shapes are wrong, a value is not finite, or mu or c is negative.
    """
    M, d = check_complementarity_problem(M, d)
    mu, c = checked_friction(len(d), mu, c)
    n = len(d) - 2 * len(mu)
    if not len(mu):
        return complementarity(M, d)
    lam = forces = _solve_pyramids(M, d, mu, c)
    if forces is None:
        smooth = complementarity(M[:n, :n], d[:n]).lam
        forces = np.concatenate([smooth, np.zeros(len(d) - n)])
    return Complementarity(forces, M @ forces + d, forces != 0.0, lam is not None, None)


def _solve_pyramids(M: Array, d: Array, mu: Array, c: Array) -> Array | None:
    """Solve the problem with friction pyramids; return lam (n + 2k,), or None on failure.

    The problem is w = M lam + d with the friction limits mu lam_z + c
    (`frictional_complementarity`). The initial active set contains the contacts with a force in the
    solution without friction. The function adds contacts with negative separation velocity until
    all separation velocities are nonnegative.
    """
    problem, k, n = _unit_problem(M, d, mu, c), len(mu), len(d) - 2 * len(mu)
    basis = _frictionless_basis(problem)
    adhering = np.concatenate([c > 0, np.zeros(n - k, dtype=bool)])
    tried = basis[:n] | adhering
    for attempt in range(2 * n + 2):
        lam, basis = _solve_for_active_set(problem, np.flatnonzero(tried), basis)
        approach = np.where(tried, 0.0, -np.inf if lam is None else (M @ lam + d)[:n])
        more = approach < -ZERO_TOLERANCE * np.abs(d).max()
        if not more.any():
            break
        if lam is not None:
            # add at most three contacts at once, because most of the added contacts open again
            more &= approach <= np.sort(approach)[min(2, n - 1)]
            if attempt < n:  # later attempts release no contact, so that the search ends
                tried = (lam[:n] > 0) | adhering
        tried = tried | more
    return lam


def checked_friction(size: int, mu: ArrayLike, c: ArrayLike) -> tuple[Array, Array]:
    """Return the friction coefficients mu (k,) and adhesion c (k,) as checked float arrays.

    Raises:
        ValueError: The number of coefficients is too large for a problem with `size` unknowns, or a
            coefficient is negative or not finite.
    """
    mu = np.asarray(mu, dtype=float)
    if mu.ndim != 1 or 3 * len(mu) > size:
        raise ValueError(
            f"mu has the shape {mu.shape}; a complementarity problem of {size} unknowns needs "
            f"one coefficient for each contact with friction, at most {size // 3}"
        )
    c = np.asarray(np.broadcast_to(np.asarray(c, dtype=float), mu.shape))
    for name, value in (("mu", mu), ("c", c)):
        if not np.all(np.isfinite(value)) or (value < 0).any():
            raise ValueError(
                f"{name} of a contact must be finite and not negative, not {value.tolist()}"
            )
    return mu, c


class _UnitProblem(NamedTuple):
    """Contact problem w = A lam + b, scaled so that |b| and the diagonal of A are at most one.

    A (n + 2k, n + 2k) is the scaled Delassus matrix, and b (n + 2k,) is w for lam = 0. `mu` and `c`
    (k,) are the scaled coefficients of the friction limit mu lam_z + c. Multiply each element of
    lam by the element of `unit` (n + 2k,) to obtain the solution of the original problem.
    """

    A: Array
    b: Array
    mu: Array
    c: Array
    unit: Array


def _unit_problem(M: Array, d: Array, mu: Array, c: Array) -> _UnitProblem:
    """Scale the contact problem w = M lam + d and its friction limits mu lam_z + c."""
    k, n = len(mu), len(d) - 2 * len(mu)
    scale = unit_scale(M)
    scale[n:] = np.repeat(
        scale[n:].reshape(k, 2).min(axis=1), 2
    )  # one scale for both tangents of a contact
    size = float(np.abs(d * scale).max(initial=0.0)) or 1.0
    limit = 1.0 / scale[n::2]
    # A = S M S, b = S d / size, lam = size S lam'; friction limits in units of the tangents
    return _UnitProblem(
        M * np.outer(scale, scale),
        d * scale / size,
        mu * scale[:k] * limit,
        c / size * limit,
        size * scale,
    )


def _frictionless_basis(problem: _UnitProblem) -> Array:
    """Return the mask (n + 5k,) of the basic unknowns in the solution without friction.

    The mask refers to the unknowns z of `_standard_form`. If no solution exists, all elements are
    False.
    """
    k, n = len(problem.mu), len(problem.b) - 2 * len(problem.mu)
    basis = np.zeros(n + 5 * k, dtype=bool)
    if (loaded := lemke(problem.A[:n, :n], _break_ties(problem.b[:n]), basis[:n])) is not None:
        basis[:n] = loaded
    return basis


def _solve_for_active_set(
    problem: _UnitProblem, normal: Array, basis: Array
) -> tuple[Array | None, Array]:
    """Solve a contact problem in which only the contacts `normal` transmit forces.

    The problem has n contacts, the first k with friction. `normal` contains the indices of the
    contacts that transmit forces. `basis` (n + 5k,) is the initial basis, a mask of the
    unknowns z of all contacts (`_standard_form`). The function returns the forces lam (n + 2k,) of
    the original problem and the final basis. lam is None if the pivoting fails.
    """
    k, n = len(problem.mu), len(problem.b) - 2 * len(problem.mu)
    rubbing = normal[normal < k]
    tangents = n + 2 * rubbing[:, None] + np.arange(2)
    edges = n + 4 * rubbing[:, None] + np.arange(4)
    part = np.concatenate([normal, tangents.ravel()])
    unknowns = np.concatenate([normal, edges.ravel(), n + 4 * k + rubbing])
    A, b = problem.A[np.ix_(part, part)], problem.b[part]
    N, q, G = _standard_form(A, b, problem.mu[rubbing], problem.c[rubbing])
    z, found = _solve(N, q, G, _break_ties(q, unknowns), basis[unknowns])
    ended, lam = np.zeros_like(basis), np.zeros_like(problem.b)
    if z is None:
        return None, ended
    ended[unknowns], lam[part] = found, G @ z[: G.shape[1]]
    return problem.unit * lam, ended


def _solve(
    N: Array, q: Array, G: Array, q_perturbed: Array, start: Array
) -> tuple[Array | None, Array]:
    """Solve 0 <= z, w = N z + q >= 0, z^T w = 0; return z and its basis.

    The function pivots with `q_perturbed` (`_break_ties`) instead of q (m,), up to three times.
    The first attempt starts from the basis `start`, the second from an empty basis. The third also
    adds a small compliance to the contact forces G z, which makes dependent contacts independent.
    If all attempts fail, z is None.
    """
    best, z, found, none = _LOST, None, start, np.zeros_like(start)
    forces = G.shape[1]
    for basis, softness in ((start, 0.0), (none, 0.0), (none, DEPENDENT)):
        softened = N.copy()
        softened[:forces, :forces] += softness * G.T @ G
        if (ended := lemke(softened, q_perturbed, basis)) is not None:
            one = _basic_solution(N, q, np.flatnonzero(ended))
            if (misfit := _residual(N, q, one)) < best:
                best, z, found = misfit, one, ended
        if best <= _EXACT:
            break
    return z, found


def _break_ties(q: Array, indices: Array | None = None) -> Array:
    """Perturb each element of q by a different small amount, which prevents cycling.

        q_i' = q_i + _PERTURBATION (1 + (i phi mod 1))

    phi is the golden ratio minus 1, so no two perturbations are equal. `indices` contains the index
    i of each element, by default 0 to len(q) - 1.
    """
    return q + _PERTURBATION * (
        1.0 + (np.arange(len(q)) if indices is None else indices) * 0.6180339887498949 % 1.0
    )


def _standard_form(A: Array, b: Array, mu: Array, c: Array) -> tuple[Array, Array, Array]:
    """Convert a friction problem to a standard complementarity problem; return N, q and G.

    The friction problem is w = A lam + b with the friction limits mu lam_z + c (k,) of the first k
    of n contacts (`_UnitProblem`). The standard problem is

        z >= 0,  N z + q >= 0,  z^T (N z + q) = 0,  lam = G z

    z (n + 5k,) contains n normal forces, then four edge forces of each contact with friction, then
    a sliding speed of each contact with friction. The edge forces act along the edges of the
    pyramid, at 45 degrees to x and y. Their sum is at most sqrt(2) (mu lam_z + c), which limits
    lam_x and lam_y to mu lam_z + c. N is copositive, so the pivoting finds a solution if it exists
    (Stewart and Trinkle 1996).
    """
    k, n = len(mu), len(b) - 2 * len(mu)
    G, E = _edges(n, k)
    N = np.zeros((n + 5 * k, n + 5 * k))
    N[: n + 4 * k, : n + 4 * k] = G.T @ A @ G
    N[n : n + 4 * k, n + 4 * k :] = E
    N[n + 4 * k :, : n + 4 * k] = np.hstack([np.sqrt(2) * np.eye(k, n) * mu[:, None], -E.T])
    return N, np.concatenate([G.T @ b, np.sqrt(2) * c]), G


@cache
def _edges(n: int, k: int) -> tuple[Array, Array]:
    """Return the matrix G of the contact forces, and the matrix E of the edge force sums.

    G (n + 2k, n + 4k) maps the n normal forces and the 4k edge forces to lam. E^T (k, 4k) maps the
    edge forces to their sum at each of the k contacts with friction.
    """
    edges = np.array([[1.0, -1.0, 1.0, -1.0], [1.0, -1.0, -1.0, 1.0]]) / np.sqrt(2)
    G = np.block(
        [[np.eye(n), np.zeros((n, 4 * k))], [np.zeros((2 * k, n)), np.kron(np.eye(k), edges)]]
    )
    return G, np.kron(np.eye(k), np.ones((4, 1)))


def _basic_solution(N: Array, q: Array, basis: Array) -> Array:
    """Return the basic solution z (n,) of w = N z + q: w = 0 on the basis, z = 0 elsewhere."""
    z = np.zeros(len(q))
    try:
        z[basis] = np.linalg.solve(N[np.ix_(basis, basis)], -q[basis])
    except np.linalg.LinAlgError:
        return np.full(len(q), np.inf)
    return np.maximum(z, 0.0)


def _residual(N: Array, q: Array, z: Array) -> float:
    """Return the residual max |min(z, w)| of a complementarity problem with w = N z + q."""
    return (
        float(np.abs(np.minimum(z, N @ z + q)).max(initial=0.0))
        if np.all(np.isfinite(z))
        else np.inf
    )


def pyramid_forces(M: Array, d: Array, mu: ArrayLike = (), c: ArrayLike = 0.0) -> Array:
    """Return the contact forces lam (n + 2k,) of a contact problem with friction pyramids.

    The arguments are as in `frictional_complementarity`, which computes lam. `contact_step` and
    `impact` accept this function as a solver. If no solution exists, lam is the frictionless
    solution.
    """
    return frictional_complementarity(M, d, mu, c).lam


_FREE = 1e-10  # bound of zero eigenvalues of M, relative to the largest; found by trial


def shared_forces(M: ArrayLike, lam: ArrayLike, stiffness: ArrayLike = 1.0) -> Array:
    """Distribute the contact forces lam0 over elastic supports, with the least elastic energy.

        minimize sum lam_i^2 / K_i subject to M lam = M lam0, lam >= 0

    The load distribution among dependent contacts of rigid bodies is not unique. The compliance of
    the supports determines this distribution (RBDA 11.5). Equal stiffness gives the least-squares
    forces. A support cannot pull, so all forces are nonnegative. The function solves the
    complementarity problem lam = P z + lam0 - P K^-1 lam0, with multipliers z of the conditions lam
    >= 0. Here P = N (N^T K^-1 N)^-1 N^T, and N is a basis of the null space of M.

    Args:
        M: Matrix T^T H^-1 T (n, n).
        lam: Contact forces lam0 (n,) [N].
        stiffness: Stiffness K of the supports, a scalar or (n,) [N/m].

    Raises:
        ValueError: A stiffness is not positive, or a force is negative.
    """
    M, lam = np.asarray(M, dtype=float), np.asarray(lam, dtype=float)
    K = np.broadcast_to(np.asarray(stiffness, dtype=float), lam.shape)
    if not np.all(K > 0) or not np.all(np.isfinite(K)):
        raise ValueError(f"the stiffness of supports must be positive, not {K.tolist()}")
    if np.any(lam < 0):
        raise ValueError(f"contact forces must not be negative, but are {lam.tolist()}")
    values, vectors = np.linalg.eigh(M)
    N = vectors[:, values <= _FREE * max(values.max(initial=0.0), 0.0)]
    if not N.shape[1]:
        return lam
    # P = N (N^T K^-1 N)^-1 N^T
    P = N @ np.linalg.solve(N.T / K @ N, N.T)
    rest = lam - P @ (lam / K)
    shared: Array = np.maximum(0.0, P @ complementarity(P, rest).lam + rest)
    return shared
