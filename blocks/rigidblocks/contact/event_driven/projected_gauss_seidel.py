"""Contacts with dry friction solved by a fixed number of projected Gauss-Seidel sweeps; runs on
floats and when traced.

Between the sweeps the forces go on the way they went, by the factors of conjugate gradients
(Silcowitz, Niebe and Erleben 2010, "A nonsmooth nonlinear conjugate gradient method for interactive
contact force problems"). Fewer sweeps do with that. Where friction goes from stick to slip some
lose what was gained; the forces after the one that changed least are taken.

The unknowns are those of `pyramid`: n normal forces, then two tangential forces (x, y) for each of
the first len(mu) contacts. Friction is within the pyramid, |lam_x| and |lam_y| <= mu lam_z + c, or
within Coulomb's cone, |lam_t| <= mu lam_z + c; forces on the limit are opposite to the sliding
velocity w_t.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from rigidblocks.algebra.scalar import less, maximum, minimum, select
from rigidblocks.algebra.spatial import Array

_TINY = 1e-200  # keeps a division from being by zero where its result is not used


def projected_sweeps(
    M: Array,
    d: Array,
    mu: Any = (),
    c: Any = 0.0,
    sweeps: int = 30,
    cone: bool = True,
    start: Array | None = None,
) -> Array:
    """lam (n + 2k,) after that of `sweeps` sweeps that changed it least; they begin with `start`
    (zero unless given).

    M (n + 2k, n + 2k), d (n + 2k,), mu (k,), c (k,) or one number. `contact_residual` says how far
    it has come; values are not checked. A sweep goes from the first contact to the last; each is
    solved for its normal force, then for its friction with that, all others as they are.
    """
    contacts = _blocks(M, mu, c, cone)
    lam = np.zeros(len(d), dtype=np.result_type(float, M, d, np.asarray(mu), np.asarray(c)))
    lam[:] = 0.0 if start is None else start
    w = d + M @ lam
    best, way, w_way = lam, 0.0 * lam, 0.0 * lam
    last = least = 0.0
    for k in range(sweeps):
        after, w_after = _sweep(M, contacts, lam, w, cone)
        step, w_step = after - lam, w_after - w
        size = step @ step
        # NaN is not below the least, nor is the least below NaN
        best = after if k == 0 else select(less(least, size), best, after)
        least = size if k == 0 else minimum(size, least)
        # on along the way of all sweeps so far
        factor = 0.0 if k == 0 else goes_on(size, last)
        lam, w, last = after + factor * way, w_after + factor * w_way, size
        way, w_way = factor * way + step, factor * w_way + w_step
    return best


class _Block(NamedTuple):
    """A contact by itself: its `rows`, its block A of M, its rates, and its friction mu and c."""

    rows: list[int]
    A: Array
    rates: Array
    mu: Any
    c: Any


def _blocks(M: Array, mu: Any, c: Any, cone: bool) -> list[_Block]:
    """All contacts of a problem with k = len(mu) of them with friction."""
    k, extra, blocks = len(mu), np.broadcast_to(np.asarray(c), (len(mu),)), list[_Block]()
    for i in range(len(M) - 2 * k):
        rows = contact_rows(i, len(M), k)
        A = M[np.ix_(rows, rows)]
        limit = (mu[i], extra[i]) if i < k else (0.0, 0.0)
        blocks.append(_Block(rows, A, contact_rates(A, cone), *limit))
    return blocks


def _sweep(
    M: Array, contacts: Sequence[_Block], lam: Array, w: Array, cone: bool
) -> tuple[Array, Array]:
    """lam and w after each contact was solved for its own forces, one behind the other."""
    lam = lam.copy()
    for rows, A, rates, mu, c in contacts:
        after = contact_forces(A, rates, w[rows], lam[rows], mu, c, cone)
        w = w + M[:, rows] @ (after - lam[rows])
        lam[rows] = after
    return lam, w


def goes_on(size: Any, last: Any) -> Any:
    """How much of the way before a sweep is gone again after it, of squared steps: none where they
    have grown.
    """
    return select(less(size, last), size / maximum(last, _TINY), 0.0)


def contact_rows(i: int, size: int, k: int) -> list[int]:
    """Where contact i has its forces (z, x, y) among `size` unknowns, k contacts of which have
    friction.
    """
    n = size - 2 * k
    return [i, n + 2 * i, n + 2 * i + 1] if i < k else [i]


def contact_rates(A: Array, cone: bool = True) -> Array:
    """How far a force goes for a unit of velocity, for z, x and y of a contact with the block A (3,
    3) or (1, 1) of M.

    For x and y on the cone it is the inverse of the largest eigenvalue of their block, with which a
    step never goes too far.
    """
    diagonal = np.array([A[i, i] for i in range(len(A))])
    if cone and len(A) == 3:
        mean, half = (A[1, 1] + A[2, 2]) / 2, (A[1, 1] - A[2, 2]) / 2
        diagonal[1:] = mean + np.sqrt(half * half + A[1, 2] * A[1, 2])
    return np.asarray(select(less(diagonal, _TINY), 0.0, 1.0 / maximum(diagonal, _TINY)))


def contact_forces(
    A: Array, rates: Array, w: Array, lam: Array, mu: Any = 0.0, c: Any = 0.0, cone: bool = True
) -> Array:
    """The forces (z, x, y) of a contact, or (z,) without friction, in the place of `lam`, all other
    contacts as they are.

    A (3, 3) is its block of M, w (3,) its velocities with the forces lam (3,).
    """
    z = maximum(lam[0] - rates[0] * w[0], 0.0)
    if len(lam) == 1:
        return np.array([z])
    limit = mu * z + c
    x, y = lam[1:] - rates[1:] * (w[1:] + A[1:, 0] * (z - lam[0]))
    if cone:
        short = shortening(x, y, limit)
        return np.array([z, short * x, short * y])
    x = _within(x, limit)
    y = _within(y - rates[2] * A[2, 1] * (x - lam[1]), limit)
    return np.array([z, x, y])


def _within(x: Any, limit: Any) -> Any:
    """x limited to [-limit, limit]; NaN where one of them is, traced too."""
    # NaN stands last where it may be x, and is not above -1 where it is the limit
    return select(less(-1.0, limit), minimum(limit, maximum(-limit, x)), limit)


def shortening(x: Any, y: Any, limit: Any) -> Any:
    """The factor that makes a vector (x, y) no longer than `limit`."""
    length = np.sqrt(x * x + y * y)
    return select(less(length, limit), 1.0, limit / maximum(length, _TINY))


def contact_residual(
    M: Array, d: Array, lam: Array, mu: Any = (), c: Any = 0.0, cone: bool = True
) -> Any:
    """How far lam is from a solution: the largest of the velocities (or accelerations) by which a
    contact's laws fail.

    It is |min(w_z, M_zz lam_z)| for normals; for friction it is how far a step against the sliding
    velocity would still move the force within its limit, in units of w. Zero at a solution, and
    only there.
    """
    w, worst = d + M @ lam, 0.0
    for rows, A, rates, mu_i, c_i in _blocks(M, mu, c, cone):
        worst = maximum(worst, contact_error(A, rates, w[rows], lam[rows], mu_i, c_i, cone))
    return worst


def contact_error(
    A: Array, rates: Array, w: Array, lam: Array, mu: Any = 0.0, c: Any = 0.0, cone: bool = True
) -> Any:
    """The part of one contact in `contact_residual`."""
    error = abs(minimum(w[0], A[0, 0] * lam[0]))
    if len(lam) == 1:
        return error
    limit = mu * lam[0] + c
    x, y = lam[1:] - rates[1:] * w[1:]
    inside = shortening(x, y, limit) if cone else 1.0
    for t, before, rate in zip((x, y), lam[1:], rates[1:], strict=True):
        moved = (inside * t if cone else _within(t, limit)) - before
        error = maximum(error, abs(moved) / maximum(rate, _TINY))
    return error
