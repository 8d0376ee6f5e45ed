"""Projected Gauss-Seidel sweeps for contacts with dry friction, for floats and traced scalars.

The unknowns are n normal forces, then two tangential forces (x, y) for each of the first len(mu)
contacts. The friction limit is the pyramid, |lam_x|, |lam_y| <= mu lam_z + c, or Coulomb's cone,
|lam_t| <= mu lam_z + c. Friction forces on the limit oppose the sliding velocity w_t.

Source: Silcowitz, Niebe and Erleben 2010, "A nonsmooth nonlinear conjugate gradient method for
interactive contact force problems".
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from rigidblocks.spatial.scalar import less, maximum, minimum, select
from rigidblocks.spatial.spatial import Array

_TINY = 1e-200  # avoids a division by zero whose result is not used


def projected_sweeps(
    M: Array,
    d: Array,
    mu: Any = (),
    c: Any = 0.0,
    sweeps: int = 30,
    cone: bool = True,
    start: Array | None = None,
) -> Array:
    """Return the contact forces after a fixed number of projected Gauss-Seidel sweeps.

        lam_i' = P(lam_i - w_i / M_ii),  w = M lam + d,  P the projection on the friction cone

    A sweep solves one contact after another: first its normal force, then the friction force for
    this normal force. Between sweeps, the function extrapolates the forces with the factors of
    conjugate gradients (`conjugate_factor`), which improves the convergence. Near transitions from
    stick to slip, an extrapolation can increase the error. The result is therefore the iterate with
    the smallest change in its sweep. The function does not check its arguments; `contact_residual`
    measures the error.

    Args:
        M: Matrix T^T H^-1 T (n + 2k, n + 2k).
        d: Velocities (n + 2k,) for zero contact forces.
        mu: Friction coefficients of the first k contacts (k,).
        c: Adhesive component of the friction limit, a scalar or (k,).
        sweeps: Number of sweeps.
        cone: True for Coulomb's cone, False for the pyramid.
        start: Initial forces (n + 2k,), by default zero.

    Returns:
        The forces lam (n + 2k,) after the sweep with the smallest change.
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
        # comparisons with NaN are false, so the order of the arguments determines the result
        best = after if k == 0 else select(less(least, size), best, after)
        least = size if k == 0 else minimum(size, least)
        # extrapolate along the direction p of all sweeps: p' = beta p + step
        factor = 0.0 if k == 0 else conjugate_factor(size, last)
        lam, w, last = after + factor * way, w_after + factor * w_way, size
        way, w_way = factor * way + step, factor * w_way + w_step
    return best


class _Block(NamedTuple):
    """Data of one contact: its block A of the matrix M, and its friction limit.

    `rows` are the indices of the unknowns of the contact, `rates` the relaxation factors, mu the
    coefficient of friction and c the adhesion.
    """

    rows: list[int]
    A: Array
    rates: Array
    mu: Any
    c: Any


def _blocks(M: Array, mu: Any, c: Any, cone: bool) -> list[_Block]:
    """Return one `_Block` per contact; the first k = len(mu) contacts have friction.

    M, mu, c and cone are as in `projected_sweeps`.
    """
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
    """Make one sweep over all contacts; return the forces lam and velocities w = M lam + d."""
    lam = lam.copy()
    for rows, A, rates, mu, c in contacts:
        after = contact_forces(A, rates, w[rows], lam[rows], mu, c, cone)
        w = w + M[:, rows] @ (after - lam[rows])
        lam[rows] = after
    return lam, w


def conjugate_factor(size: Any, last: Any) -> Any:
    """Return the extrapolation factor beta = `size` / `last` of the conjugate gradient method.

    The result is 0 if beta >= 1.

    Args:
        size: Squared norm of the current step.
        last: Squared norm of the previous step.
    """
    return select(less(size, last), size / maximum(last, _TINY), 0.0)


def contact_rows(i: int, size: int, k: int) -> list[int]:
    """Return the indices of the forces (z, x, y) of contact i in the vector of `size` unknowns.

    The first k contacts have friction. A contact without friction has only the force z.
    """
    n = size - 2 * k
    return [i, n + 2 * i, n + 2 * i + 1] if i < k else [i]


def contact_rates(A: Array, cone: bool = True) -> Array:
    """Return the relaxation factors of the forces (z, x, y) of a contact, in force per velocity.

    The factor is 1 / A_ii. With Coulomb's cone, the factor of x and y is the inverse of the largest
    eigenvalue of their block, so that a step never overshoots. This eigenvalue is
    (A_xx + A_yy) / 2 + sqrt((A_xx - A_yy)^2 / 4 + A_xy^2).

    Args:
        A: Block (3, 3) or (1, 1) of M.
        cone: True for Coulomb's cone.
    """
    diagonal = np.array([A[i, i] for i in range(len(A))])
    if cone and len(A) == 3:
        mean, half = (A[1, 1] + A[2, 2]) / 2, (A[1, 1] - A[2, 2]) / 2
        diagonal[1:] = mean + np.sqrt(half * half + A[1, 2] * A[1, 2])
    return np.asarray(select(less(diagonal, _TINY), 0.0, 1.0 / maximum(diagonal, _TINY)))


def contact_forces(
    A: Array, rates: Array, w: Array, lam: Array, mu: Any = 0.0, c: Any = 0.0, cone: bool = True
) -> Array:
    """Return the new forces (z, x, y) of a contact, or (z,) if the contact has no friction.

    The forces of all other contacts are fixed. t = (x, y) is the friction force, and P the
    projection on the friction limit |t'| <= mu z' + c. A_tz is the column of A for z in the rows of
    x and y.

        z' = max(0, z - r_z w_z),  t' = P(t - r_t (w_t + A_tz (z' - z))),  |t'| <= mu z' + c

    Args:
        A: Block (3, 3) of M.
        rates: Relaxation factors r (3,).
        w: Velocities with the current forces (3,).
        lam: Current forces (3,).
        mu: Coefficient of friction.
        c: Adhesive component of the friction limit.
        cone: True for Coulomb's cone, False for the pyramid.
    """
    z = maximum(lam[0] - rates[0] * w[0], 0.0)
    if len(lam) == 1:
        return np.array([z])
    limit = mu * z + c
    x, y = lam[1:] - rates[1:] * (w[1:] + A[1:, 0] * (z - lam[0]))
    if cone:
        short = shortening_factor(x, y, limit)
        return np.array([z, short * x, short * y])
    x = _clamp(x, limit)
    y = _clamp(y - rates[2] * A[2, 1] * (x - lam[1]), limit)
    return np.array([z, x, y])


def _clamp(x: Any, limit: Any) -> Any:
    """Return x limited to [-limit, limit], or NaN if x or the limit is NaN.

    The arguments may be traced.
    """
    # minimum and maximum return x, their last argument, if x is NaN; for a NaN limit the comparison
    # is false, and select returns the limit
    return select(less(-1.0, limit), minimum(limit, maximum(-limit, x)), limit)


def shortening_factor(x: Any, y: Any, limit: Any) -> Any:
    """Return the scale factor min(1, limit / |(x, y)|) that limits the length of (x, y)."""
    length = np.sqrt(x * x + y * y)
    return select(less(length, limit), 1.0, limit / maximum(length, _TINY))


def contact_residual(
    M: Array, d: Array, lam: Array, mu: Any = (), c: Any = 0.0, cone: bool = True
) -> Any:
    """Return the residual of a contact problem, the largest error of a contact in its contact law.

        |min(w_z, M_zz lam_z)| for normals,  |P(lam_t - r_t w_t) - lam_t| / r_t for friction

    The residual has the unit of d (velocity or acceleration).

    w = M lam + d, P is the projection on the friction limit, and r_t are the relaxation factors
    (`contact_rates`). The residual is zero only at a solution.

    Args:
        M: Matrix T^T H^-1 T (n + 2k, n + 2k).
        d: Velocities (n + 2k,) for zero contact forces.
        lam: Contact forces (n + 2k,).
        mu: Friction coefficients of the first k contacts (k,).
        c: Adhesive component of the friction limit, a scalar or (k,).
        cone: True for Coulomb's cone, False for the pyramid.
    """
    w, worst = d + M @ lam, 0.0
    for rows, A, rates, mu_i, c_i in _blocks(M, mu, c, cone):
        worst = maximum(worst, contact_error(A, rates, w[rows], lam[rows], mu_i, c_i, cone))
    return worst


def contact_error(
    A: Array, rates: Array, w: Array, lam: Array, mu: Any = 0.0, c: Any = 0.0, cone: bool = True
) -> Any:
    """Return the residual of one contact (`contact_residual`), in the unit of the velocity w.

    The arguments are as in `contact_forces`.
    """
    error = abs(minimum(w[0], A[0, 0] * lam[0]))
    if len(lam) == 1:
        return error
    limit = mu * lam[0] + c
    x, y = lam[1:] - rates[1:] * w[1:]
    inside = shortening_factor(x, y, limit) if cone else 1.0
    for t, before, rate in zip((x, y), lam[1:], rates[1:], strict=True):
        moved = (inside * t if cone else _clamp(t, limit)) - before
        error = maximum(error, abs(moved) / maximum(rate, _TINY))
    return error
