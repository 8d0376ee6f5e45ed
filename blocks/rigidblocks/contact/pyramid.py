"""Contacts with dry friction within a pyramid, solved exactly by Lemke's pivoting (RBDA 11.5; Cottle and Dantzig 1968).

The unknowns are the n normal forces lam_z and, behind them, two tangential forces (x, y) for each of the first len(mu)
contacts; w = M lam + d are velocities (or accelerations) in the same order.

    w_z >= 0,  lam_z >= 0,  w_z lam_z = 0                                          each contact
    |lam_t| <= mu lam_z + c,  lam_t = -+(mu lam_z + c) where w_t is above or below zero      t = x, y, each with friction

c is friction that is there without the normal force.
"""

from functools import cache
from operator import itemgetter

import numpy as np
from numpy.typing import ArrayLike

from rigidblocks.contact.complementarity import (
    DEPENDENT,
    WITHIN,
    Complementarity,
    checked_problem,
    complementarity,
    unit_scale,
)
from rigidblocks.spatial import Array

_LEAST = 1e-11  # a pivot below it, in units of a scaled problem, is rounding
_EXACT = 1e-10  # a misfit that rounding alone may leave
_LOST = 1e-4  # a misfit, in units of a scaled problem, with which what was found is no solution
_APART = 1e-10  # the largest of the small numbers that keep ties from making the pivoting go round in circles


def frictional_complementarity(M: ArrayLike, d: ArrayLike, mu: ArrayLike, c: ArrayLike = 0.0) -> Complementarity:
    """The exact solution for contacts with the friction pyramid, in numbers.

    M (n + 2k, n + 2k), d (n + 2k,) for n contacts of which the first k have the coefficients of friction mu (k,); c (k,)
    or one number. Where d is T^T qd, the velocities before an impact, there is always a solution. It need not be the only
    one, so `unique` is None with friction. Where the pivoting ends on a ray, or in rounding, `feasible` is False and the
    forces are those without friction. Raises ValueError for wrong shapes, what is not finite, and a negative mu or c.
    """
    M, d = checked_problem(M, d)
    mu, c = checked_friction(len(d), mu, c)
    k, n = len(mu), len(d) - 2 * len(mu)
    frictionless = complementarity(M[:n, :n], d[:n])
    if not k:
        return frictionless

    # contacts are left out as long as they stay open without a force: most often those that need none without friction
    adhering = np.concatenate([c > 0, np.zeros(n - k, dtype=bool)])
    tried = (frictionless.lam > 0) | adhering
    for attempt in range(2 * n + 2):
        lam = _among(np.flatnonzero(tried), M, d, mu, c)
        approach = np.where(tried, 0.0, -np.inf if lam is None else (M @ lam + d)[:n])
        if not (more := approach < -WITHIN * np.abs(d).max()).any():
            break
        if lam is not None:
            more &= approach <= np.sort(approach)[min(2, n - 1)]
            tried = (lam[:n] > 0) | adhering if attempt < n else tried  # at last none is let go, so that it ends
        tried = tried | more
    found = np.concatenate([frictionless.lam, np.zeros(2 * k)]) if lam is None else lam
    return Complementarity(found, M @ found + d, found != 0.0, lam is not None, None)


def _among(normal: Array, M: Array, d: Array, mu: Array, c: Array) -> Array | None:
    """lam where only some contacts have forces, or None where the pivoting ends on a ray."""
    k, lam = len(mu), np.zeros(len(d))
    rubbing = normal[normal < k]
    part = np.concatenate([normal, (len(d) - 2 * k + 2 * rubbing[:, None] + np.arange(2)).ravel()])
    forces = _solved(M[np.ix_(part, part)], d[part], mu[rubbing], c[rubbing])
    if forces is None:
        return None
    lam[part] = forces
    return lam


def checked_friction(size: int, mu: ArrayLike, c: ArrayLike) -> tuple[Array, Array]:
    """mu (k,) and c (k,) as arrays of floats; raises ValueError where they do not fit a problem of `size` unknowns."""
    mu = np.asarray(mu, dtype=float)
    if mu.ndim != 1 or 3 * len(mu) > size:
        raise ValueError(f"a problem of {size} unknowns has room for {size // 3} contacts with friction; mu was {mu}")
    c = np.asarray(np.broadcast_to(np.asarray(c, dtype=float), mu.shape))
    for name, value in (("mu", mu), ("c", c)):
        if not np.all(np.isfinite(value)) or (value < 0).any():
            raise ValueError(f"{name} of a contact must be finite and not negative, not {value.tolist()}")
    return mu, c


def _solved(M: Array, d: Array, mu: Array, c: Array) -> Array | None:
    """lam, or None where the pivoting finds none."""
    k, n = len(mu), len(d) - 2 * len(mu)
    scale = unit_scale(M)
    scale[n:] = np.repeat(scale[n:].reshape(k, 2).min(axis=1), 2)  # one for the tangents of a contact
    size = float(np.abs(d * scale).max(initial=0.0)) or 1.0
    N, q, G = _standard(M * np.outer(scale, scale), d * scale / size, mu * scale[:k], c / size, scale)
    found = [(np.inf, np.zeros(len(q)))]
    for softness in (0.0, DEPENDENT):  # contacts that nearly depend on others do so no longer at the second attempt
        if min(found, key=itemgetter(0))[0] <= _EXACT:
            break
        softened = N.copy()
        softened[: n + 4 * k, : n + 4 * k] += softness * G.T @ G
        if (z := _lemke(softened, q)) is not None:
            found += [(_misfit(N, q, one), one) for one in (z, _basic(N, q, np.flatnonzero(z)))]
    misfit, z = min(found, key=itemgetter(0))
    return scale * size * (G @ z[: n + 4 * k]) if misfit < _LOST else None


def _standard(A: Array, b: Array, mu: Array, c: Array, scale: Array) -> tuple[Array, Array, Array]:
    """N and q of 0 <= z, N z + q >= 0, one of them 0, and G with lam = G z of its first elements.

    z = (lam_z, four forces, a sliding speed) of all contacts. N is copositive, so the pivoting ends with a solution where
    there is one (Stewart and Trinkle 1996). The four forces push along the edges of the pyramid, which are half a right
    angle from x and y, and together are limited by sqrt(2) (mu lam_z + c), which is what limits x and y.
    """
    k, n = len(mu), len(b) - 2 * len(mu)
    G, E = _edges(n, k)
    limit = np.sqrt(2) / scale[n::2]
    slope = np.eye(k, n) * (mu * limit)[:, None]
    N = np.block([[G.T @ A @ G, np.block([[np.zeros((n, k))], [E]])], [slope, -E.T, np.zeros((k, k))]])
    return N, np.concatenate([G.T @ b, c * limit]), G


@cache
def _edges(n: int, k: int) -> tuple[Array, Array]:
    """G, and E that sums up the four forces of each contact."""
    edges = np.array([[1.0, -1.0, 1.0, -1.0], [1.0, -1.0, -1.0, 1.0]]) / np.sqrt(2)
    G = np.block([[np.eye(n), np.zeros((n, 4 * k))], [np.zeros((2 * k, n)), np.kron(np.eye(k), edges)]])
    return G, np.kron(np.eye(k), np.ones((4, 1)))


def _lemke(N: Array, q: Array) -> Array | None:
    """z >= 0 with N z + q >= 0 and z^T (N z + q) = 0, for q a little apart; or None where the pivoting ends on a ray.

    The table expresses the basic variables by the others. Variable i is w_i, i + n is z_i, 2n the covering variable.
    """
    n = len(q)
    apart = q + _APART * (1.0 + np.arange(n) * 0.6180339887498949 % 1.0)
    if (apart >= 0).all():
        return np.zeros(n)
    table = np.hstack([N, np.ones((n, 1)), apart[:, None]])
    basic, others = np.arange(n), np.arange(n, 2 * n + 1)
    place = np.concatenate([np.arange(n), np.arange(n + 1)])  # the row or column of each variable
    row, column, change = int(np.argmin(apart)), n, np.empty_like(table)
    for _ in range(50 * n):
        _exchange(table, row, column, change)
        entered, left = others[column], basic[row]
        basic[row], others[column], place[entered], place[left] = entered, left, row, column
        if left == 2 * n:
            z, rows = np.zeros(n), np.flatnonzero(basic >= n)
            z[basic[rows] - n] = np.maximum(table[rows, -1], 0.0)
            return z
        column = place[(left + n) % (2 * n)]
        rate = table[:, column]
        room = np.where(rate < -_LEAST, table[:, -1] / np.minimum(rate, -_LEAST), -np.inf)
        row = int(np.argmax(room))
        if room[row] == -np.inf:
            return None
    return None


def _exchange(table: Array, row: int, column: int, change: Array) -> None:
    """Makes the variable of a column basic and that of a row not; `change` is room for as many numbers."""
    pivot = table[row, column]
    entering = table[row] / -pivot
    entering[column] = 1.0 / pivot
    rate = table[:, column].copy()
    rate[row] = table[:, column] = 0.0
    np.multiply(rate[:, None], entering, out=change)
    table += change
    table[row] = entering


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
    return float(np.abs(np.minimum(z, N @ z + q)).max(initial=0.0)) if np.all(np.isfinite(z)) else np.inf


def pyramid_forces(M: Array, d: Array, mu: ArrayLike = (), c: ArrayLike = 0.0) -> Array:
    """The exact lam alone, as a solver for `contact_step` and `impact`; where there is none, that without friction."""
    return frictional_complementarity(M, d, mu, c).lam
