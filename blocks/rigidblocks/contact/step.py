"""A step of time with contact: impulses that bring velocities to what contacts allow at its end."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from rigidblocks.algebra.scalar import less, maximum, minimum, select
from rigidblocks.algebra.spatial import Array
from rigidblocks.contact.passive import passive_impulse, workless_impulse
from rigidblocks.contact.rigid import contact_matrix, contact_unknowns, through_inertia
from rigidblocks.contact.sweeps import contact_residual, projected_sweeps
from rigidblocks.contact.unilateral import AnyContact, contact_gap
from rigidblocks.dynamics.inverse import bias_force
from rigidblocks.dynamics.sweeps import check_lengths
from rigidblocks.model.model import Model

Solver = Callable[
    ..., Array
]  # lam from M, d, mu, and `start=` where that is given, in the order of `ContactUnknowns`


class ContactStep(NamedTuple):
    """A step with contact: the velocities qd (nv,) at its end, the impulses (n, 3) [N s] and what
    they leave undone.

    The impulses are (z, x, y) of each contact; for a joint limit z is a joint impulse and x = y =
    0. `residual` [m/s] is that of `contact_residual`.
    """

    qd: Array
    impulse: Array
    residual: Any


def contact_step(
    model: Model,
    q: Array,
    qd: Array,
    tau: Array,
    contacts: Sequence[AnyContact],
    h: Any,
    e: Any = 0.0,
    correction: Any = 0.2,
    fastest: Any = 1.0,
    solve: Solver = projected_sweeps,
    cone: bool = True,
    start: Array | None = None,
    f_ext: Array | None = None,
    gravity: Array | None = None,
) -> ContactStep:
    """The velocities after a step of h [s] with impulses for the contacts; runs on floats and when
    traced.

        qd+ = qd + h H^-1 (tau - C) + H^-1 T lam,   w = T^T qd+,
        w_z >= u,  lam_z >= 0,  friction by lam_z

    u lets a contact close that is apart, -gap/h; makes one that penetrates part with `correction`
    of its depth a step, but no `fastest` [m/s]; and lets one that closes within the step rebound
    with `e` of its velocity. Contacts may be given that do not touch. The position after the step
    is q (+) h qd+. `solve` gives lam of (M, d, mu); `cone` says which friction it has, for the
    residual. Whatever it gives, the impulses do no work but for the correction: where they would,
    with restitution or where sweeps have not converged, all are shortened to what adds no kinetic
    energy, and without restitution to what does no work at qd+, so that with a constant H and
    gravity no step adds energy.

    Sweeps come further that begin with the impulses (n, 3) of the same contacts in the step before:
    where `start` is given, `solve` gets it by that name, as lam.
    """
    check_lengths(model, f_ext, q=q, qd=qd, tau=tau)
    rows, T = contact_unknowns(contacts), contact_matrix(model, q, contacts)
    M, HinvT, free = through_inertia(model, q, T, tau - bias_force(model, q, qd, f_ext, gravity))
    n, before, moved = len(contacts), T.T @ qd, qd + h * free
    d = T.T @ moved
    gap = np.array([contact_gap(model, q, contacts[i]) for i in rows.order])
    parting = np.asarray(maximum(minimum(-correction * gap / h, fastest), 0.0))
    u = _least_velocity(gap, before[:n], d[:n], h, e, parting)
    given = {} if start is None else {"start": rows.by_unknown(start)}
    demanded = _relative(d, u)
    lam = _no_more_work(M, d, u, parting, solve(M, demanded, rows.mu, **given))
    residual = contact_residual(M, demanded, lam, rows.mu, cone=cone)
    return ContactStep(moved + HinvT @ lam, rows.by_contact(lam), residual)


def _no_more_work(M: Array, d: Array, u: Array, parting: Array, lam: Array) -> Array:
    """As much of lam as does no work beyond that of parting contacts that penetrate."""
    lam = workless_impulse(M, _relative(d, maximum(u, 0.0)), lam)
    return passive_impulse(M, _relative(d, parting), np.zeros(len(d)), lam)


def _relative(w: Array, normal: Array) -> Array:
    """The velocities w (n + 2k,) relative to those of the normals (n,) that are demanded."""
    return np.asarray(w - np.concatenate([normal, np.zeros(len(w) - len(normal))]))


def _least_velocity(
    gap: Array, before: Array, free: Array, h: Any, e: Any, parting: Array
) -> Array:
    """The separation velocities (n,) that the contacts are to have at least at the end of a
    step.
    """
    rebound = maximum(-e * before, 0.0)
    apart = select(
        less(gap + h * free, 0.0), select(less(0.0, rebound), rebound, -gap / h), -gap / h
    )
    return np.asarray(select(less(0.0, gap), apart, maximum(rebound, parting)))
