"""Impacts: velocities that change at once (RBDA 11.7).

An impulse iota changes the velocity of a body by I^-1 iota, that of a system by H^-1 u with u = T
lam (Eq 11.55, 11.57). No impact adds energy, whatever the laws say. With friction, or at several
contacts with different restitution, both Newton's and Poisson's law can demand that; the impulse is
then only taken as far from that of a plastic impact, which never adds energy, towards the one that
the law demands, as the energy stays what it was (`passive_impulse`). All impulses between the two
are within the friction limits, so the result is too.
"""

from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any, NamedTuple

import numpy as np

from rigidblocks.algebra.linear import positive_solution
from rigidblocks.algebra.scalar import less, maximum, minimum, select
from rigidblocks.algebra.spatial import Array, RigidInertia
from rigidblocks.contact.passive import TINY, impulse_energy, passive_impulse
from rigidblocks.contact.pyramid import pyramid_forces
from rigidblocks.contact.rigid import contact_matrix, contact_unknowns, through_inertia
from rigidblocks.contact.sweeps import projected_sweeps
from rigidblocks.contact.unilateral import AnyContact
from rigidblocks.dynamics.sweeps import check_lengths
from rigidblocks.model.model import Model

Solver = Callable[[Array, Array, Array, Any], Array]  # lam of M, d, mu and c
LAWS = ("newton", "poisson", "sequence")


class Collision(NamedTuple):
    """The velocity steps dv1 and dv2 (6,) of two bodies, and the impulse: a number [N s], or (x, y,
    z) with friction.
    """

    dv1: Array
    dv2: Array
    impulse: Any


def collision(
    I1: RigidInertia | None, I2: RigidInertia | None, v1: Array, v2: Array, n: Array, e: Any = 0.0
) -> Collision:
    """The collision of two bodies at a point without friction (RBDA Eq 11.60 to 11.65).

        lam = -(1 + e) n . (v2 - v1) / (n . (I1^-1 + I2^-1) n),
        dv1 = -I1^-1 n lam,  dv2 = I2^-1 n lam

    All is in one frame; n (6,) is a unit force from body 1 to body 2 through the point; a body
    whose inertia is None does not move. Bodies that separate are left as they are. Raises
    ValueError for an inertia that is not positive definite, a normal of another length than 1, and
    an e outside 0 .. 1.
    """
    _check_restitution(e)
    M, columns = _mobility(I1, I2, np.asarray(n)[:, None])
    zeta = n @ (v2 - v1)
    lam = maximum(-(1.0 + e) * zeta / M[0, 0], 0.0)
    return Collision(-columns[0][:, 0] * lam, columns[1][:, 0] * lam, lam)


def collision_with_friction(
    I1: RigidInertia | None,
    I2: RigidInertia | None,
    v1: Array,
    v2: Array,
    N: Array,
    e: Any = 0.0,
    mu: Any = np.inf,
) -> Collision:
    """The collision of two bodies at a point with friction (RBDA Eq 11.66 to 11.72).

    N (6, 3) has unit forces along x, y and the normal z. While the impulse that arrests all
    sliding,

        lam = -(N^T (I1^-1 + I2^-1) N)^-1 (1 + E) N^T (v2 - v1),  E = diag(0, 0, e)

    is within the friction cone and adds no energy, it is that. Otherwise it is the impulse of
    Newton's law with friction in `impact_impulse`; where mu is infinite, as it is unless given,
    that with the largest e that adds no energy. Errors are those of `collision`, and a negative mu.
    """
    _check_restitution(e)
    if isinstance(mu, float | int) and not mu >= 0:
        raise ValueError(f"mu of a collision must not be negative, it was {mu}")
    N = np.asarray(N)[:, [2, 0, 1]]
    M, columns = _mobility(I1, I2, N)
    w = N.T @ (v2 - v1)
    lam = _cone_impulse(M, w, e, mu)
    # nothing where they separate; NaN is neither below zero nor above -1
    none = select(less(-1.0, w[0]), np.zeros(3), lam)
    lam = select(less(w[0], 0.0), lam, none)
    return Collision(-(columns[0] @ lam), columns[1] @ lam, lam[[1, 2, 0]])


def _cone_impulse(M: Array, w: Array, e: Any, mu: Any) -> Array:
    """The impulse (z, x, y) of the collision at one point with the velocities w (3,)."""
    stick, arrest = (positive_solution(M, -w * np.array([1.0 + r, 1.0, 1.0])) for r in (e, 0.0))
    if isinstance(mu, float) and np.isinf(mu):
        return passive_impulse(M, w, arrest, stick)
    within = less(np.sqrt(stick[1] * stick[1] + stick[2] * stick[2]), mu * stick[0])
    solve = partial(projected_sweeps, sweeps=100)
    slide = impact_impulse(M, w, np.array([e]), np.array([mu]), solve=solve)
    return np.asarray(select(within & less(impulse_energy(M, w, stick), 0.0), stick, slide))


class Impact(NamedTuple):
    """The velocity step dqd (nv,) of a system, the impulses (n, 3) as (z, x, y) of each contact [N
    s], the separation velocities (n,) [m/s] before and after, and how much kinetic energy the
    system gained (never more than 0) [J].
    """

    dqd: Array
    impulse: Array
    before: Array
    after: Array
    energy: Any


def impact(
    model: Model,
    q: Array,
    qd: Array,
    contacts: Sequence[AnyContact],
    e: Any = 0.0,
    law: str = "newton",
    solve: Solver = pyramid_forces,
) -> Impact:
    """The impact of a system at all contacts at once: dqd = H^-1 T lam (RBDA Eq 11.57).

    All contacts are touching, whatever their gap says. e is a number, or has one for each contact
    (n,); `law` and `solve` are those of `impact_impulse`, of which `projected_sweeps` also runs
    when traced.

    Raises ValueError for an e outside 0 .. 1 or of another length, for an unknown law, and for
    friction in a sequence.
    """
    check_lengths(model, q=q, qd=qd)
    _check_restitution(e)
    if np.ndim(e) and np.shape(e) != (len(contacts),):
        raise ValueError(
            f"e needs one number, or one for each of {len(contacts)} contacts, not shape "
            f"{np.shape(e)}"
        )
    rows, T = contact_unknowns(contacts), contact_matrix(model, q, contacts)
    M, HinvT, _ = through_inertia(model, q, T, np.zeros(model.nv))
    n, w = len(contacts), T.T @ qd
    lam = impact_impulse(
        M, w, np.broadcast_to(np.asarray(e), (n,))[list(rows.order)], rows.mu, law, solve
    )
    after, dqd = w + M @ lam, HinvT @ lam
    before = rows.by_contact(w)[:, 0]
    return Impact(
        dqd, rows.by_contact(lam), before, rows.by_contact(after)[:, 0], lam @ (w + after) / 2
    )


def impact_impulse(
    M: Array, w: Array, e: Array, mu: Any = (), law: str = "newton", solve: Solver = pyramid_forces
) -> Array:
    """The impulses lam (n + 2k,) of an impact at contacts with the velocities w (n + 2k,) before,
    and M = T^T H^-1 T.

    The unknowns are n normals, then two tangents of each of the first len(mu) contacts; e (n,). The
    law is one of

    - newton: an approaching contact separates with at least -e w_z, and with more only where it has
      no impulse;
    - poisson: after a plastic impact, which is the compression, each contact takes e times its
      normal impulse again, and more only where it would not separate otherwise;
    - sequence: two-body collisions in turn, from the first contact to the last and again, until
      nothing approaches, as in Newton's cradle; what is left to approach after 2 n rounds goes into
      a plastic impact. Without friction only.

    The impulse never adds energy (`passive_impulse`). Where Newton's law has no solution the impact
    is plastic.
    """
    if law not in LAWS:
        raise ValueError(f"there is no impact law '{law}'; there are {', '.join(LAWS)}")
    if law == "sequence":
        if len(mu):
            raise ValueError(
                "impacts in a sequence are without friction; newton and poisson are laws with it"
            )
        return _in_sequence(M, w, e, solve)
    plastic = passive_impulse(M, w, np.zeros(len(w)), solve(M, w, mu, 0.0))
    demanded = (_by_newton if law == "newton" else _by_poisson)(M, w, e, mu, plastic, solve)
    return passive_impulse(M, w, plastic, demanded)


def _by_newton(M: Array, w: Array, e: Array, mu: Any, plastic: Array, solve: Solver) -> Array:
    """The impulse with which contacts separate with -e w_z."""
    n = len(e)
    rebound = np.concatenate([e * minimum(w[:n], 0.0), np.zeros(len(w) - n)])
    return _possible(M, w, solve(M, w + rebound, mu, 0.0), plastic, n)


def _by_poisson(M: Array, w: Array, e: Array, mu: Any, plastic: Array, solve: Solver) -> Array:
    """The plastic impulse, e of its normal part again, and what is then needed to separate."""
    again = np.concatenate([e * plastic[: len(e)], np.zeros(len(w) - len(e))])
    both = plastic + again
    return np.asarray(both + solve(M, w + M @ both, mu, np.asarray(mu) * again[: len(mu)]))


def _possible(M: Array, w: Array, lam: Array, plastic: Array, n: int) -> Array:
    """lam where it keeps the contacts apart, to a thousandth of the velocities; else the plastic
    impulse.
    """
    after, size = reduce(minimum, (w + M @ lam)[:n], 0.0), reduce(maximum, np.abs(w[:n]), 0.0)
    return np.asarray(select(less(after, -1e-3 * size), plastic, lam))


def _in_sequence(M: Array, w: Array, e: Array, solve: Solver) -> Array:
    """Collisions of one contact after the other (RBDA Eq 11.65)."""
    n, lam = len(w), 0.0 * w
    for i in [*range(n)] * (2 * n):
        step = maximum(-(1.0 + e[i]) * w[i] / maximum(M[i, i], TINY), 0.0)
        w, lam[i] = w + M[:, i] * step, lam[i] + step
    return np.asarray(lam + solve(M, w, np.zeros(0), 0.0))


def _mobility(
    I1: RigidInertia | None, I2: RigidInertia | None, N: Array
) -> tuple[Array, list[Array]]:
    """N^T (I1^-1 + I2^-1) N (k, k), and I^-1 N (6, k) of both bodies."""
    _check_unit_forces(N)
    if I1 is None and I2 is None:
        raise ValueError("a collision needs at least one body that moves; both have no inertia")
    columns = [_velocities(body, I, N) for body, I in ((1, I1), (2, I2))]
    M: Array = N.T @ (columns[0] + columns[1])
    return M, columns


def _velocities(body: int, inertia: RigidInertia | None, N: Array) -> Array:
    """I^-1 N (6, k), zero for a body that does not move."""
    if inertia is None:
        return np.zeros_like(N)
    I = inertia.matrix()
    if I.dtype != object and not np.linalg.eigvalsh(I)[0] > 0:
        raise ValueError(
            f"the inertia of body {body} of a collision is not positive definite: {I.tolist()}"
        )
    return positive_solution(I, N)


def _check_unit_forces(N: Array) -> None:
    if N.shape[0] != 6:
        raise ValueError(f"the unit forces of a collision need 6 rows, not shape {N.shape}")
    if N.dtype != object and (np.abs((N[3:] ** 2).sum(axis=0) - 1.0) > 1e-6).any():
        raise ValueError(
            f"the unit forces of a collision need linear parts of length 1, not {N[3:].T.tolist()}"
        )


def _check_restitution(e: Any) -> None:
    values = np.asarray(e)
    if values.dtype != object and not ((values >= 0) & (values <= 1)).all():
        raise ValueError(f"a coefficient of restitution is between 0 and 1, not {values.tolist()}")
