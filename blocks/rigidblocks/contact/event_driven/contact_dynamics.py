"""The equation of rigid contact of multibody systems, and its motion without friction (RBDA 11.1 to
11.4).

    H qdd + C = tau + T lam,  w = T^T qdd + (dT/dt)^T qd = M lam + d,  M = T^T H^-1 T

Column i of T is the contact normal in joint space.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from rigidblocks.algebra.sparse import ltl, mpy_li, mpy_lit
from rigidblocks.algebra.spatial import Array, cross
from rigidblocks.contact.complementarity import complementarity
from rigidblocks.contact.shared import shared_forces
from rigidblocks.contact.unilateral import (
    AnyContact,
    JointLimit,
    PointContact,
    check_contacts,
    contact_directions,
)
from rigidblocks.dynamics.inverse import bias_force
from rigidblocks.dynamics.jacobian import body_jacobian
from rigidblocks.dynamics.joint_space import crba, expanded_parent
from rigidblocks.dynamics.kinematics import body_accelerations, body_poses, body_velocities
from rigidblocks.dynamics.sweeps import check_lengths
from rigidblocks.model.model import Model


class ContactUnknowns(NamedTuple):
    """The order of the unknowns: normals of the contacts with friction, of the others, then (x, y)
    of those with friction.

    `order` (n,) says which of the given contacts each normal is of; `mu` (k,) are the coefficients
    of the first k.
    """

    order: tuple[int, ...]
    mu: Array

    def by_contact(self, lam: Array) -> Array:
        """Normal and friction forces (n, 3) in the order in which the contacts were given, as (z,
        x, y).
        """
        n, k = len(self.order), len(self.mu)
        forces = np.zeros((n, 3), dtype=lam.dtype)
        for row, i in enumerate(self.order):
            forces[i, 0] = lam[row]
            forces[i, 1:] = lam[n + 2 * row : n + 2 * row + 2] if row < k else 0.0
        return forces

    def by_unknown(self, forces: Array) -> Array:
        """lam (n + 2k,) of forces (n, 3) in the order in which the contacts were given."""
        rows = np.asarray(forces)[list(self.order)]
        return np.concatenate([rows[:, 0], rows[: len(self.mu), 1:].ravel()])


def contact_unknowns(contacts: Sequence[AnyContact]) -> ContactUnknowns:
    """The order in which the unknowns of the contacts stand."""
    order = sorted(range(len(contacts)), key=lambda i: not contacts[i].has_friction)
    return ContactUnknowns(
        tuple(order),
        np.array([c.mu for c in contacts if isinstance(c, PointContact) and c.has_friction]),
    )


def contact_matrix(
    model: Model, q: Array, contacts: Sequence[AnyContact], friction: bool = True
) -> Array:
    """T (nv, n), or (nv, n + 2k) with friction: what a unit of each contact force is in joint space
    (RBDA Eq 11.25, 11.31).

    The columns are in the order of `contact_unknowns`, or that of the contacts without friction.
    T^T qd are the separation velocities, and behind them the sliding velocities. Raises ValueError
    for a body or joint that the model has not.
    """
    check_lengths(model, q=q)
    check_contacts(model, contacts)
    order = contact_unknowns(contacts).order if friction else range(len(contacts))
    poses, J = body_poses(model, q), _jacobians(model, q, contacts)
    columns = list[Array]()
    for c in (contacts[i] for i in order):
        if isinstance(c, JointLimit):
            columns.append(c.sign * np.eye(model.nv)[:, model.v_slices[c.joint]])
        else:
            D = contact_directions(c.normal) if friction and c.has_friction else c.normal[:, None]
            columns.append(_joint_forces(c, D, poses, J))
    normals, tangents = [t[:, :1] for t in columns], [t[:, 1:] for t in columns]
    return np.hstack([np.zeros((model.nv, 0)), *normals, *tangents])


def _jacobians(model: Model, q: Array, contacts: Sequence[AnyContact]) -> dict[int, Array]:
    """Those of all bodies at contact, by their numbers."""
    points = [c for c in contacts if isinstance(c, PointContact)]
    bodies = {body for c in points for body in (c.successor, c.predecessor) if body >= 0}
    return {body: body_jacobian(model, q, body) for body in bodies}


def _joint_forces(
    contact: PointContact, D: Array, poses: Sequence[Any], J: Mapping[int, Array]
) -> Array:
    """What unit forces along the columns of D (3, k) are in joint space (nv, k)."""
    N = np.concatenate([cross(contact.point, D), D])
    sides = ((contact.successor, 1.0), (contact.predecessor, -1.0))
    return np.asarray(sum(s * (J[b].T @ poses[b].force(N)) for b, s in sides if b >= 0))


def contact_bias(model: Model, q: Array, qd: Array, contacts: Sequence[AnyContact]) -> Array:
    """dT/dt^T qd (n,) [m/s^2]: the separation accelerations at qdd = 0, n . a^vp + dn/dt . v (RBDA
    Eq 11.30).
    """
    check_contacts(model, contacts)
    X = [pose.inverse() for pose in body_poses(model, q)]

    def in_base(motions: Iterable[Array]) -> list[Array]:
        # the base itself, -1, is last
        return [*(x @ m for x, m in zip(X, motions, strict=True)), np.zeros(6)]

    v = in_base(body_velocities(model, q, qd))
    a = in_base(body_accelerations(model, q, qd, np.zeros(model.nv)))
    return np.array(
        [0.0 if isinstance(c, JointLimit) else _separation_bias(c, v, a) for c in contacts]
    )


def _separation_bias(c: PointContact, v: Sequence[Array], a: Sequence[Array]) -> Any:
    """The separation acceleration at qdd = 0, of the velocities and accelerations of all bodies."""
    s, p = c.successor, c.predecessor
    cdot = v[s][3:] + cross(v[s][:3], c.point) if c.point_rate is None else c.point_rate
    ndot = cross(v[p][:3], c.normal) if c.normal_rate is None else c.normal_rate
    n6 = np.concatenate([cross(c.point, c.normal), c.normal])
    n6_rate = np.concatenate([cross(cdot, c.normal) + cross(c.point, ndot), ndot])
    return n6 @ (a[s] - a[p]) + n6_rate @ (v[s] - v[p])


class ContactEquation(NamedTuple):
    """w = M lam + d of contacts without friction (RBDA Eq 11.34 to 11.36), and the motion without
    them.

    T (nv, n), M (n, n), d (n,), `bias` = dT/dt^T qd (n,), `free` = H^-1 (tau - C) (nv,), and H^-1 T
    (nv, n).
    """

    T: Array
    M: Array
    d: Array
    bias: Array
    free: Array
    HinvT: Array


def contact_equation(
    model: Model,
    q: Array,
    qd: Array,
    tau: Array,
    contacts: Sequence[AnyContact],
    f_ext: Array | None = None,
    gravity: Array | None = None,
) -> ContactEquation:
    """The equation of the contacts' accelerations, without friction (RBDA 11.3).

    By H = L^T L, of which M = Y^T Y with Y = L^-T T leaves out the branch-induced zeros.
    """
    check_lengths(model, f_ext, q=q, qd=qd, tau=tau)
    T = contact_matrix(model, q, contacts, friction=False)
    bias = contact_bias(model, q, qd, contacts)
    M, HinvT, free = through_inertia(model, q, T, tau - bias_force(model, q, qd, f_ext, gravity))
    return ContactEquation(T, M, T.T @ free + bias, bias, free, HinvT)


class ContactMotion(NamedTuple):
    """The motion under rigid contact: qdd (nv,), the normal forces lam (n,) and the separation
    accelerations (n,).

    `active`, `redundant`, `feasible` and `unique` are those of `Complementarity`. qdd and zeta_dot
    are unique even where lam is not; they mean nothing where `feasible` is False.
    """

    qdd: Array
    lam: Array
    zeta_dot: Array
    active: Array
    redundant: Array
    feasible: bool
    unique: bool | None


def rigid_contact(
    model: Model,
    q: Array,
    qd: Array,
    tau: Array,
    contacts: Sequence[AnyContact],
    f_ext: Array | None = None,
    gravity: Array | None = None,
    stiffness: ArrayLike | None = None,
) -> ContactMotion:
    """Forward dynamics with contacts without friction, in numbers: exactly, by pivoting (RBDA 11.3,
    11.5).

    Where more contacts carry than there have to, their forces are some of those that give the
    motion, which is the same for all; with `stiffness` [N/m], a number or (n,), they are the ones
    of supports that yield so much (`shared_forces`). The contacts are those in
    `ContactState.CONTACT`: gap and separation velocity are zero. Raises ValueError for a contact
    with friction, whose forces are found from velocities: `contact_step`.
    """
    if any(contact.has_friction for contact in contacts):
        raise ValueError(
            "rigid_contact is without friction; friction is solved with velocities: contact_step, "
            "impact"
        )
    equation = contact_equation(model, q, qd, tau, contacts, f_ext, gravity)
    solution = complementarity(equation.M, equation.d)
    if stiffness is not None:
        lam = shared_forces(equation.M, solution.lam, stiffness)
        solution = solution._replace(lam=lam)
    qdd = equation.free + equation.HinvT @ solution.lam
    return ContactMotion(
        qdd, solution.lam, solution.w, solution.active, solution.redundant, *solution[3:]
    )


def through_inertia(model: Model, q: Array, T: Array, tau: Array) -> tuple[Array, Array, Array]:
    """T^T H^-1 T, H^-1 T and H^-1 tau, without the branch-induced zeros (RBDA 6.5)."""
    parent = expanded_parent(model)
    L = ltl(crba(model, q), parent)
    Y, z = mpy_lit(L, parent, T), mpy_lit(L, parent, tau)
    return Y.T @ Y, mpy_li(L, parent, Y), mpy_li(L, parent, z)
