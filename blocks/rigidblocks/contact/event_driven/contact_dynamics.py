"""Contact equation of multibody systems, and dynamics without friction (RBDA 11.1 to 11.4).

    H qdd + C = tau + T lam,  w = T^T qdd + (dT/dt)^T qd = M lam + d,  M = T^T H^-1 T

lam contains the contact forces, and w the separation accelerations. Column i of T is the joint
force of a unit normal force at contact i.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from rigidblocks.contact.event_driven.complementarity import complementarity, shared_forces
from rigidblocks.contact.event_driven.unilateral_constraints import (
    AnyContact,
    JointLimit,
    PointContact,
    check_contacts,
    contact_directions,
)
from rigidblocks.dynamics.forward import crba, expanded_parent
from rigidblocks.dynamics.inverse import bias_force
from rigidblocks.dynamics.joint_kinematics import check_lengths
from rigidblocks.dynamics.kinematics import (
    body_accelerations,
    body_jacobian,
    body_poses,
    body_velocities,
)
from rigidblocks.robot.model import Model
from rigidblocks.spatial.branch_sparsity import ltl, mpy_li, mpy_lit
from rigidblocks.spatial.spatial import Array, cross


class ContactUnknowns(NamedTuple):
    """Order of the unknown contact forces in the vector lam (n + 2k,) of a contact problem.

    lam contains the normal forces of the contacts with friction, then the remaining normal forces.
    The tangential forces (x, y) of the contacts with friction come last. `order` (n,) contains the
    contact index of each normal force. `mu` (k,) contains the friction coefficients of the k
    contacts with friction.
    """

    order: tuple[int, ...]
    mu: Array

    def contact_components(self, lam: Array) -> Array:
        """Return the forces (n, 3) = (z, x, y) of the contacts from the unknowns lam (n + 2k,)."""
        n, k = len(self.order), len(self.mu)
        forces = np.zeros((n, 3), dtype=lam.dtype)
        for row, i in enumerate(self.order):
            forces[i, 0] = lam[row]
            forces[i, 1:] = lam[n + 2 * row : n + 2 * row + 2] if row < k else 0.0
        return forces

    def solver_unknowns(self, forces: Array) -> Array:
        """Return the unknowns lam (n + 2k,) from the forces (n, 3) = (z, x, y) of the contacts."""
        rows = np.asarray(forces)[list(self.order)]
        return np.concatenate([rows[:, 0], rows[: len(self.mu), 1:].ravel()])


def contact_unknowns(contacts: Sequence[AnyContact]) -> ContactUnknowns:
    """Return the order of the unknowns of n contacts: contacts with friction come first."""
    order = sorted(range(len(contacts)), key=lambda i: not contacts[i].has_friction)
    return ContactUnknowns(
        tuple(order),
        np.array([c.mu for c in contacts if isinstance(c, PointContact) and c.has_friction]),
    )


def contact_matrix(
    model: Model, q: Array, contacts: Sequence[AnyContact], friction: bool = True
) -> Array:
    """Return the matrix T that maps contact forces to joint forces (RBDA Eq 11.25, 11.31).

    T^T qd are the separation velocities, followed by the sliding velocities.

    Args:
        model: The model.
        q: Configuration (nq,).
        contacts: The contacts.
        friction: True to include the tangents, with columns in the order of `contact_unknowns`.
            False for the normals only, in the order of the contacts.

    Returns:
        T (nv, n + 2k) if `friction` is True, else T (nv, n).

    Raises:
        ValueError: A contact has a body or joint that is not in the model.
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
    """Return the Jacobian (6, nv) of each body in contact, by body index."""
    points = [c for c in contacts if isinstance(c, PointContact)]
    bodies = {body for c in points for body in (c.successor, c.predecessor) if body >= 0}
    return {body: body_jacobian(model, q, body) for body in bodies}


def _joint_forces(
    contact: PointContact, D: Array, poses: Sequence[Any], J: Mapping[int, Array]
) -> Array:
    """Return the joint forces (nv, k) of unit contact forces along the columns of D (3, k).

    `poses` and J are the poses and the Jacobians (6, nv) of the bodies.
    """
    N = np.concatenate([cross(contact.point, D), D])
    sides = ((contact.successor, 1.0), (contact.predecessor, -1.0))
    return np.asarray(sum(s * (J[b].T @ poses[b].force(N)) for b, s in sides if b >= 0))


def contact_bias(model: Model, q: Array, qd: Array, contacts: Sequence[AnyContact]) -> Array:
    """Return the separation accelerations (n_c,) [m/s^2] at qdd = 0 (RBDA Eq 11.30).

        n . a^vp + dn/dt . v

    These are the elements of (dT/dt)^T qd; column i of T is the joint force of a unit normal force
    at contact i. n (6,) is the unit normal force of a contact. v and a^vp (6,) are the relative
    velocity and the relative velocity-product acceleration of its two bodies.

    Args:
        model: The model.
        q: Configuration (nq,).
        qd: Velocity (nv,).
        contacts: The n_c contacts.
    """
    check_contacts(model, contacts)
    X = [pose.inverse() for pose in body_poses(model, q)]

    def base_frame_motions(motions: Iterable[Array]) -> list[Array]:
        # index -1, the base, is the last element
        return [*(x @ m for x, m in zip(X, motions, strict=True)), np.zeros(6)]

    v = base_frame_motions(body_velocities(model, q, qd))
    a = base_frame_motions(body_accelerations(model, q, qd, np.zeros(model.nv)))
    return np.array(
        [0.0 if isinstance(c, JointLimit) else _separation_bias(c, v, a) for c in contacts]
    )


def _separation_bias(c: PointContact, v: Sequence[Array], a: Sequence[Array]) -> Any:
    """Return the separation acceleration [m/s^2] of a contact c at qdd = 0.

    v and a are the velocities and the velocity-product accelerations of all bodies, in base
    coordinates.
    """
    s, p = c.successor, c.predecessor
    # n6 = [c x n; n] is the unit force, so the bias is n6 . (a_s - a_p) + dn6/dt . (v_s - v_p)
    cdot = v[s][3:] + cross(v[s][:3], c.point) if c.point_rate is None else c.point_rate
    ndot = cross(v[p][:3], c.normal) if c.normal_rate is None else c.normal_rate
    n6 = np.concatenate([cross(c.point, c.normal), c.normal])
    n6_rate = np.concatenate([cross(cdot, c.normal) + cross(c.point, ndot), ndot])
    return n6 @ (a[s] - a[p]) + n6_rate @ (v[s] - v[p])


class ContactEquation(NamedTuple):
    """Equation w = M lam + d of frictionless contacts, and the motion without contact forces.

    T (nv, n) contains the joint forces of unit contact forces. M (n, n) is the Delassus matrix. d
    (n,) is the separation acceleration w if lam = 0. `bias` (n,) = (dT/dt)^T qd is w if qdd = 0.
    `free` (nv,) = H^-1 (tau - C) is qdd if lam = 0, and HinvT (nv, n) is H^-1 T (RBDA Eq 11.34 to
    11.36).
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
    """Return the contact equation w = M lam + d of frictionless contacts (RBDA 11.3).

    w are the separation accelerations, and lam the contact forces. The function factorizes
    H = L^T L without the branch-induced zeros, and computes M = Y^T Y with Y = L^-T T.

    Args:
        model: The model.
        q: Configuration (nq,).
        qd: Velocity (nv,).
        tau: Joint forces (nv,).
        contacts: The n contacts.
        f_ext: External wrenches (nb, 6) in base coordinates.
        gravity: Gravity (3,) [m/s^2]; default: gravity of the model.
    """
    check_lengths(model, f_ext, q=q, qd=qd, tau=tau)
    T = contact_matrix(model, q, contacts, friction=False)
    bias = contact_bias(model, q, qd, contacts)
    M, HinvT, free = delassus_factors(model, q, T, tau - bias_force(model, q, qd, f_ext, gravity))
    return ContactEquation(T, M, T.T @ free + bias, bias, free, HinvT)


class ContactMotion(NamedTuple):
    """Joint accelerations, normal forces and separation accelerations with rigid contact.

    qdd (nv,) are the joint accelerations, lam (n,) the normal forces and zeta_dot (n,) the
    separation accelerations. `active`, `redundant`, `feasible` and `unique` are as in
    `Complementarity`. qdd and zeta_dot are unique even if the normal forces lam are not. If
    `feasible` is False, qdd, lam and zeta_dot are undefined.
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
    """Solve for accelerations and normal forces at frictionless contacts (RBDA 11.3, 11.5).

    Pivoting gives the exact solution. All contacts must have the state `ContactState.CONTACT`, in
    which the gap and the separation velocity are zero.

    Args:
        model: The model.
        q: Configuration (nq,).
        qd: Velocity (nv,).
        tau: Joint forces (nv,).
        contacts: The contacts, without friction.
        f_ext: External wrenches (nb, 6) in base coordinates.
        gravity: Gravity (3,) [m/s^2]; default: gravity of the model.
        stiffness: Stiffness of the supports, a scalar or (n,) [N/m]. The stiffness determines the
            forces of dependent contacts (`shared_forces`). If `stiffness` is None, these forces are
            an arbitrary solution.

    Raises:
        ValueError: A contact has friction. `contact_step` solves friction at velocity level.
    """
    if any(contact.has_friction for contact in contacts):
        raise ValueError(
            "rigid_contact does not support friction; use contact_step or impact, which solve "
            "for velocities"
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


def delassus_factors(model: Model, q: Array, T: Array, tau: Array) -> tuple[Array, Array, Array]:
    """Return the Delassus matrix T^T H^-1 T (n, n), H^-1 T (nv, n) and H^-1 tau (nv,).

    The factorization of H skips its branch-induced zeros (RBDA 6.5).
    """
    parent = expanded_parent(model)
    # H = L^T L, Y = L^-T T: T^T H^-1 T = Y^T Y and H^-1 T = L^-1 Y
    L = ltl(crba(model, q), parent)
    Y, z = mpy_lit(L, parent, T), mpy_lit(L, parent, tau)
    return Y.T @ Y, mpy_li(L, parent, Y), mpy_li(L, parent, z)
