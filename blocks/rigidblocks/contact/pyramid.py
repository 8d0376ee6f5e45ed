"""Contacts with dry friction within a pyramid, solved exactly by Lemke's pivoting (RBDA 11.5;
Cottle and Dantzig 1968).

The unknowns are the n normal forces lam_z and, behind them, two tangential forces (x, y) for each
of the first len(mu) contacts; w = M lam + d are velocities (or accelerations) in the same order.

    w_z >= 0,  lam_z >= 0,  w_z lam_z = 0                                          each contact
    |lam_t| <= mu lam_z + c,  lam_t = -+(mu lam_z + c) where w_t is above or below zero,
    t = x, y, each with friction

c is friction that is there without the normal force.
"""

from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from rigidblocks.algebra.spatial import Array
from rigidblocks.contact.complementarity import (
    DEPENDENT,
    WITHIN,
    Complementarity,
    checked_problem,
    complementarity,
    unit_scale,
)
from rigidblocks.contact.lemke import lemke

_EXACT = 1e-10  # a misfit that rounding alone may leave
_LOST = 1e-4  # a misfit, in units of a scaled problem, with which what was found is no solution
# the largest of the small numbers that keep ties from making the pivoting go round in circles
_APART = 1e-10


def frictional_complementarity(
    M: ArrayLike, d: ArrayLike, mu: ArrayLike, c: ArrayLike = 0.0
) -> Complementarity:
    """The exact solution for contacts with the friction pyramid, in numbers.

    M (n + 2k, n + 2k), d (n + 2k,) for n contacts of which the first k have the coefficients of
    friction mu (k,); c (k,) or one number. Where d is T^T qd, the velocities before an impact,
    there is always a solution. It need not be the only one, so `unique` is None with friction.
    Where the pivoting ends on a ray, or in rounding, `feasible` is False and the forces are those
    without friction. Raises ValueError for wrong shapes, what is not finite, and a negative mu or
    c.
    """
    M, d = checked_problem(M, d)
    mu, c = checked_friction(len(d), mu, c)
    n = len(d) - 2 * len(mu)
    if not len(mu):
        return complementarity(M, d)
    lam = forces = _forces(M, d, mu, c)
    if forces is None:
        smooth = complementarity(M[:n, :n], d[:n]).lam
        forces = np.concatenate([smooth, np.zeros(len(d) - n)])
    return Complementarity(forces, M @ forces + d, forces != 0.0, lam is not None, None)


def _forces(M: Array, d: Array, mu: Array, c: Array) -> Array | None:
    """lam (n + 2k,), or None where the pivoting finds none.

    Contacts are left out as long as they stay open without a force: at first those that need none
    without friction.
    """
    problem, k, n = _unit_problem(M, d, mu, c), len(mu), len(d) - 2 * len(mu)
    basis = _smooth_basis(problem)
    adhering = np.concatenate([c > 0, np.zeros(n - k, dtype=bool)])
    tried = basis[:n] | adhering
    for attempt in range(2 * n + 2):
        lam, basis = _among(problem, np.flatnonzero(tried), basis)
        approach = np.where(tried, 0.0, -np.inf if lam is None else (M @ lam + d)[:n])
        more = approach < -WITHIN * np.abs(d).max()
        if not more.any():
            break
        if lam is not None:
            # few at once: most open again
            more &= approach <= np.sort(approach)[min(2, n - 1)]
            if attempt < n:  # at last none is let go, so that it ends
                tried = (lam[:n] > 0) | adhering
        tried = tried | more
    return lam


def checked_friction(size: int, mu: ArrayLike, c: ArrayLike) -> tuple[Array, Array]:
    """mu (k,) and c (k,) as arrays of floats; raises ValueError where they do not fit a problem of
    `size` unknowns.
    """
    mu = np.asarray(mu, dtype=float)
    if mu.ndim != 1 or 3 * len(mu) > size:
        raise ValueError(
            f"a problem of {size} unknowns has room for {size // 3} contacts with friction; mu was "
            f"{mu}"
        )
    c = np.asarray(np.broadcast_to(np.asarray(c, dtype=float), mu.shape))
    for name, value in (("mu", mu), ("c", c)):
        if not np.all(np.isfinite(value)) or (value < 0).any():
            raise ValueError(
                f"{name} of a contact must be finite and not negative, not {value.tolist()}"
            )
    return mu, c


class _UnitProblem(NamedTuple):
    """A problem of k contacts with friction among n, with a diagonal of one and velocities b of at
    most one.

    lam is `unit` times what it is here, (n + 2k,), and `limit` (k,) is how much of a tangent's
    force is one of the normal's.
    """

    A: Array
    b: Array
    mu: Array
    c: Array
    unit: Array
    limit: Array


def _unit_problem(M: Array, d: Array, mu: Array, c: Array) -> _UnitProblem:
    """The problem in units of its own."""
    k, n = len(mu), len(d) - 2 * len(mu)
    scale = unit_scale(M)
    scale[n:] = np.repeat(
        scale[n:].reshape(k, 2).min(axis=1), 2
    )  # one for the tangents of a contact
    size = float(np.abs(d * scale).max(initial=0.0)) or 1.0
    limit = 1.0 / scale[n::2]
    return _UnitProblem(
        M * np.outer(scale, scale),
        d * scale / size,
        mu * scale[:k] * limit,
        c / size * limit,
        size * scale,
        limit,
    )


def _smooth_basis(problem: _UnitProblem) -> Array:
    """The elements of z that are not zero without friction; none where the pivoting fails."""
    k, n = len(problem.mu), len(problem.b) - 2 * len(problem.mu)
    basis = np.zeros(n + 5 * k, dtype=bool)
    if (loaded := lemke(problem.A[:n, :n], _apart(problem.b[:n]), basis[:n])) is not None:
        basis[:n] = loaded
    return basis


def _among(problem: _UnitProblem, normal: Array, basis: Array) -> tuple[Array | None, Array]:
    """lam where only the contacts `normal` have forces, None where the pivoting finds none, and the
    basis it ends with.

    `basis` (n + 5k,) marks the elements of z, of all contacts, with which the pivoting starts.
    """
    k, n = len(problem.mu), len(problem.b) - 2 * len(problem.mu)
    rubbing = normal[normal < k]
    tangents = n + 2 * rubbing[:, None] + np.arange(2)
    edges = n + 4 * rubbing[:, None] + np.arange(4)
    part = np.concatenate([normal, tangents.ravel()])
    places = np.concatenate([normal, edges.ravel(), n + 4 * k + rubbing])
    A, b = problem.A[np.ix_(part, part)], problem.b[part]
    N, q, G = _standard(A, b, problem.mu[rubbing], problem.c[rubbing])
    z, found = _solve(N, q, G, _apart(q, places), basis[places])
    ended, lam = np.zeros_like(basis), np.zeros_like(problem.b)
    if z is None:
        return None, ended
    ended[places], lam[part] = found, G @ z[: G.shape[1]]
    return problem.unit * lam, ended


def _solve(N: Array, q: Array, G: Array, apart: Array, start: Array) -> tuple[Array | None, Array]:
    """z and its basis, or None where the pivoting finds none, neither from the basis `start` nor
    from none.
    """
    best, z, found, none = _LOST, None, start, np.zeros_like(start)
    forces = G.shape[1]
    for basis, softness in ((start, 0.0), (none, 0.0), (none, DEPENDENT)):
        softened = (
            N.copy()
        )  # contacts that nearly depend on others do so no longer at the last attempt
        softened[:forces, :forces] += softness * G.T @ G
        if (ended := lemke(softened, apart, basis)) is not None:
            one = _basic(N, q, np.flatnonzero(ended))
            if (misfit := _misfit(N, q, one)) < best:
                best, z, found = misfit, one, ended
        if best <= _EXACT:
            break
    return z, found


def _apart(q: Array, places: Array | None = None) -> Array:
    """q without ties; the element at a place among all contacts is always moved by the same."""
    return q + _APART * (
        1.0 + (np.arange(len(q)) if places is None else places) * 0.6180339887498949 % 1.0
    )


def _standard(A: Array, b: Array, mu: Array, c: Array) -> tuple[Array, Array, Array]:
    """N and q of 0 <= z, N z + q >= 0, one of them 0, and G with lam = G z of its first elements.

    z = (lam_z, four forces, a sliding speed) of all contacts. N is copositive, so the pivoting ends
    with a solution where there is one (Stewart and Trinkle 1996). The four forces push along the
    edges of the pyramid, which are half a right angle from x and y, and together are limited by
    sqrt(2) (mu lam_z + c), which is what limits x and y.
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
    """G, and E that sums up the four forces of each contact."""
    edges = np.array([[1.0, -1.0, 1.0, -1.0], [1.0, -1.0, -1.0, 1.0]]) / np.sqrt(2)
    G = np.block(
        [[np.eye(n), np.zeros((n, 4 * k))], [np.zeros((2 * k, n)), np.kron(np.eye(k), edges)]]
    )
    return G, np.kron(np.eye(k), np.ones((4, 1)))


def _basic(N: Array, q: Array, basis: Array) -> Array:
    """The z that is zero but for the elements of a basis, for which N z + q is."""
    z = np.zeros(len(q))
    try:
        z[basis] = np.linalg.solve(N[np.ix_(basis, basis)], -q[basis])
    except np.linalg.LinAlgError:
        return np.full(len(q), np.inf)
    return np.maximum(z, 0.0)


def _misfit(N: Array, q: Array, z: Array) -> float:
    """How far z is from a solution."""
    return (
        float(np.abs(np.minimum(z, N @ z + q)).max(initial=0.0))
        if np.all(np.isfinite(z))
        else np.inf
    )


def pyramid_forces(M: Array, d: Array, mu: ArrayLike = (), c: ArrayLike = 0.0) -> Array:
    """The exact lam alone, as a solver for `contact_step` and `impact`; where there is none, that
    without friction.
    """
    return frictional_complementarity(M, d, mu, c).lam
