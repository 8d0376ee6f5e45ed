"""Rigid contact of multibody systems at points, and unilateral joint limits by the same equations (RBDA 11.1 to 11.4).

    H qdd + C = tau + T lam,  w = T^T qdd + dT/dt^T qd = M lam + d,  M = T^T H^-1 T

Column i of T is the contact normal in joint space. A contact is between two bodies of the model, or of a body with the base;
it is given where the bodies are now, in base coordinates. All may be traced but which bodies touch.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

import numpy as np

from rigidblocks.contact.complementarity import complementarity
from rigidblocks.contact.passive import passive_impulse, workless_impulse
from rigidblocks.contact.sweeps import contact_residual, projected_sweeps
from rigidblocks.dynamics.inertia import crba
from rigidblocks.dynamics.inverse import bias_force
from rigidblocks.dynamics.jacobian import body_jacobian
from rigidblocks.dynamics.joint_space import expanded_parent
from rigidblocks.dynamics.kinematics import check_lengths
from rigidblocks.dynamics.motion import body_accelerations, body_poses, body_velocities
from rigidblocks.dynamics.sparse import ltl, mpy_li, mpy_lit
from rigidblocks.model import Model
from rigidblocks.scalar import less, maximum, minimum, select
from rigidblocks.spatial import Array, cross

Solver = Callable[..., Array]  # lam from M, d, mu, and `start=` where that is given, in the order of `ContactUnknowns`


@dataclass(frozen=True, eq=False)  # eq=False: arrays have no single truth value
class PointContact:
    """Body `successor` against body `predecessor` (-1, the base, unless given) at one point (RBDA 11.3).

    `point` (3,) [m] and the unit `normal` (3,), from the predecessor to the successor, are in base coordinates, and so are
    their rates: the velocity of the point at which the surfaces touch and the derivative of the normal. Unless given they
    are those of a point of the successor on a plane of the predecessor. `gap` [m] is the distance of the surfaces, negative
    where they penetrate; `mu` the coefficient of friction, none where it is the number 0.

    Raises ValueError for wrong shapes, for a number that is not finite, for a normal of another length than 1, for a
    negative mu, and for a body against itself.
    """

    successor: int
    point: Array
    normal: Array
    predecessor: int = -1
    mu: Any = 0.0
    gap: Any = 0.0
    point_rate: Array | None = None
    normal_rate: Array | None = None

    def __post_init__(self) -> None:
        where = f"a contact of body {self.successor} with body {self.predecessor}"
        for name in ("point", "normal", "point_rate", "normal_rate"):
            if (value := getattr(self, name)) is not None:
                value = np.asarray(value)
                object.__setattr__(self, name, value)
                if value.shape != (3,):
                    raise ValueError(f"the {name} of {where} needs shape (3,), not {value.shape}")
                if value.dtype != object and not np.all(np.isfinite(value)):
                    raise ValueError(f"the {name} of {where} must be finite, not {value.tolist()}")
        if self.normal.dtype != object and abs(self.normal @ self.normal - 1.0) > 1e-6:
            raise ValueError(f"the normal of {where} must have length 1; it was {self.normal.tolist()}")
        if isinstance(self.mu, float | int) and not 0 <= self.mu < np.inf:
            raise ValueError(f"mu of {where} must be finite and not negative, not {self.mu}")
        if self.successor == self.predecessor:
            raise ValueError(f"{where} is one of a body with itself")

    @property
    def has_friction(self) -> bool:
        """Whether there are friction forces to be found."""
        return not (isinstance(self.mu, float | int) and self.mu == 0)


@dataclass(frozen=True)
class JointLimit:
    """A joint that cannot go below `limit`, or above it where `upper`: a contact with t = +-e_j (RBDA 11.4).

    The joint has one variable; the gap [rad or m] is its distance to the limit.
    """

    joint: int
    limit: Any
    upper: bool = False
    has_friction = False

    @property
    def sign(self) -> float:
        """The direction in which the limit pushes the joint."""
        return -1.0 if self.upper else 1.0


class ContactState(Enum):
    """What an inequality constraint gap >= 0 is in (RBDA Fig 11.4): apart, in collision, separating, or in contact."""

    APART = "1"
    IMPACT = "2a"
    SEPARATING = "2b"
    CONTACT = "3"


def contact_state(gap: float, rate: float, gap_tolerance: float = 0.0, rate_tolerance: float = 0.0) -> ContactState:
    """The state of a contact from its gap [m] and the rate of it [m/s], where the tolerances count as zero (RBDA 11.4)."""
    if gap > gap_tolerance:
        return ContactState.APART
    if abs(rate) <= rate_tolerance:
        return ContactState.CONTACT
    return ContactState.IMPACT if rate < 0 else ContactState.SEPARATING


class ContactUnknowns(NamedTuple):
    """The order of the unknowns: normals of the contacts with friction, of the others, then (x, y) of those with friction.

    `order` (n,) says which of the given contacts each normal is of; `mu` (k,) are the coefficients of the first k.
    """

    order: tuple[int, ...]
    mu: Array

    def by_contact(self, lam: Array) -> Array:
        """Normal and friction forces (n, 3) in the order in which the contacts were given, as (z, x, y)."""
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


def contact_unknowns(contacts: Sequence[PointContact | JointLimit]) -> ContactUnknowns:
    """The order in which the unknowns of the contacts stand."""
    order = sorted(range(len(contacts)), key=lambda i: not contacts[i].has_friction)
    return ContactUnknowns(
        tuple(order), np.array([c.mu for c in contacts if isinstance(c, PointContact) and c.has_friction])
    )


def contact_directions(normal: Array) -> Array:
    """The columns z, x, y (3, 3) of a contact: the unit normal and two unit tangents, without a branch.

    (Duff et al. 2017, "Building an orthonormal basis, revisited".)
    """
    x, y, z = normal
    sign = select(less(z, 0.0), -1.0, 1.0)
    a = -1.0 / (sign + z)
    b = x * y * a
    return np.array([[x, 1.0 + sign * x * x * a, b], [y, sign * b, sign + y * y * a], [z, -sign * x, -y]])


def contact_matrix(model: Model, q: Array, contacts: Sequence[PointContact | JointLimit], friction: bool = True) -> Array:
    """T (nv, n), or (nv, n + 2k) with friction: what a unit of each contact force is in joint space (RBDA Eq 11.25, 11.31).

    The columns are in the order of `contact_unknowns`, or that of the contacts without friction. T^T qd are the separation
    velocities, and behind them the sliding velocities. Raises ValueError for a body or joint that the model has not.
    """
    check_lengths(model, q=q)
    _check_contacts(model, contacts)
    bodies = {body for c in contacts if isinstance(c, PointContact) for body in (c.successor, c.predecessor) if body >= 0}
    poses, J = body_poses(model, q), {body: body_jacobian(model, q, body) for body in bodies}
    order = contact_unknowns(contacts).order if friction else range(len(contacts))
    normals, tangents = list[Array](), list[Array]()
    for c in (contacts[i] for i in order):
        if isinstance(c, JointLimit):
            normals.append(c.sign * np.eye(model.nv)[:, model.v_slices[c.joint]])
            continue
        D = contact_directions(c.normal) if friction and c.has_friction else c.normal[:, None]
        N = np.concatenate([cross(c.point, D), D])
        t = sum(s * (J[b].T @ poses[b].force(N)) for b, s in ((c.successor, 1.0), (c.predecessor, -1.0)) if b >= 0)
        normals.append(t[:, :1])
        tangents.append(t[:, 1:])
    return np.hstack([np.zeros((model.nv, 0)), *normals, *tangents])


def contact_bias(model: Model, q: Array, qd: Array, contacts: Sequence[PointContact | JointLimit]) -> Array:
    """dT/dt^T qd (n,) [m/s^2]: the separation accelerations at qdd = 0, n . a^vp + dn/dt . v (RBDA Eq 11.30)."""
    _check_contacts(model, contacts)
    zero = np.zeros(6)
    X = [pose.inverse() for pose in body_poses(model, q)]
    v = [*(x @ m for x, m in zip(X, body_velocities(model, q, qd), strict=True)), zero]
    a = [*(x @ m for x, m in zip(X, body_accelerations(model, q, qd, np.zeros(model.nv)), strict=True)), zero]
    bias = []
    for c in contacts:
        if isinstance(c, JointLimit):
            bias.append(0.0)
            continue
        s, p = c.successor, c.predecessor
        cdot = v[s][3:] + cross(v[s][:3], c.point) if c.point_rate is None else c.point_rate
        ndot = cross(v[p][:3], c.normal) if c.normal_rate is None else c.normal_rate
        n6 = np.concatenate([cross(c.point, c.normal), c.normal])
        n6_rate = np.concatenate([cross(cdot, c.normal) + cross(c.point, ndot), ndot])
        bias.append(n6 @ (a[s] - a[p]) + n6_rate @ (v[s] - v[p]))
    return np.array(bias)


class ContactEquation(NamedTuple):
    """w = M lam + d of contacts without friction (RBDA Eq 11.34 to 11.36), and the motion without them.

    T (nv, n), M (n, n), d (n,), `bias` = dT/dt^T qd (n,), `free` = H^-1 (tau - C) (nv,), and H^-1 T (nv, n).
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
    contacts: Sequence[PointContact | JointLimit],
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
    """The motion under rigid contact: qdd (nv,), the normal forces lam (n,) and the separation accelerations (n,).

    `active`, `redundant`, `feasible` and `unique` are those of `Complementarity`. qdd and zeta_dot are unique even where
    lam is not; they mean nothing where `feasible` is False.
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
    contacts: Sequence[PointContact | JointLimit],
    f_ext: Array | None = None,
    gravity: Array | None = None,
) -> ContactMotion:
    """Forward dynamics with contacts without friction, in numbers: exactly, by pivoting (RBDA 11.3, 11.5).

    The contacts are those in `ContactState.CONTACT`: gap and separation velocity are zero. Raises ValueError for a contact
    with friction, whose forces are found from velocities: `contact_step`.
    """
    if any(contact.has_friction for contact in contacts):
        raise ValueError("rigid_contact is without friction; friction is solved with velocities: contact_step, impact")
    equation = contact_equation(model, q, qd, tau, contacts, f_ext, gravity)
    solution = complementarity(equation.M, equation.d)
    qdd = equation.free + equation.HinvT @ solution.lam
    return ContactMotion(qdd, solution.lam, solution.w, solution.active, solution.redundant, *solution[3:])


class ContactStep(NamedTuple):
    """A step with contact: the velocities qd (nv,) at its end, the impulses (n, 3) [N s] and what they leave undone.

    The impulses are (z, x, y) of each contact; for a joint limit z is a joint impulse and x = y = 0. `residual` [m/s] is
    that of `contact_residual`.
    """

    qd: Array
    impulse: Array
    residual: Any


def contact_step(
    model: Model,
    q: Array,
    qd: Array,
    tau: Array,
    contacts: Sequence[PointContact | JointLimit],
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
    """The velocities after a step of h [s] with impulses for the contacts; runs on floats and when traced.

        qd+ = qd + h H^-1 (tau - C) + H^-1 T lam,   w = T^T qd+,   w_z >= u,  lam_z >= 0,  friction by lam_z

    u lets a contact close that is apart, -gap/h; makes one that penetrates part with `correction` of its depth a step, but
    no `fastest` [m/s]; and lets one that closes within the step rebound with `e` of its velocity. Contacts may be given
    that do not touch. The position after the step is q (+) h qd+. `solve` gives lam of (M, d, mu); `cone` says which
    friction it has, for the residual. Whatever it gives, the impulses do no work but for the correction: where they would,
    with restitution or where sweeps have not converged, all are shortened to what adds no kinetic energy, and without
    restitution to what does no work at qd+, so that with a constant H and gravity no step adds energy.

    Sweeps come further that begin with the impulses (n, 3) of the same contacts in the step before: where `start` is given,
    `solve` gets it by that name, as lam.
    """
    check_lengths(model, f_ext, q=q, qd=qd, tau=tau)
    rows, T = contact_unknowns(contacts), contact_matrix(model, q, contacts)
    M, HinvT, free = through_inertia(model, q, T, tau - bias_force(model, q, qd, f_ext, gravity))
    n, before, moved = len(contacts), T.T @ qd, qd + h * free
    d = T.T @ moved
    gap = np.array([contact_gap(model, q, contacts[i]) for i in rows.order])
    parting = np.asarray(maximum(minimum(-correction * gap / h, fastest), 0.0))
    u = _least_velocity(gap, before[:n], d[:n], h, e, parting)
    rest = np.zeros(len(d) - n)
    given = {} if start is None else {"start": rows.by_unknown(start)}
    lam = solve(M, d - np.concatenate([u, rest]), rows.mu, **given)
    lam = workless_impulse(M, d - np.concatenate([maximum(u, 0.0), rest]), lam)
    lam = passive_impulse(M, d - np.concatenate([parting, rest]), np.zeros(len(d)), lam)
    d = d - np.concatenate([u, rest])
    residual = contact_residual(M, d, lam, rows.mu, cone=cone)
    return ContactStep(moved + HinvT @ lam, rows.by_contact(lam), residual)


def contact_gap(model: Model, q: Array, contact: PointContact | JointLimit) -> Any:
    """The distance of a contact's surfaces, or of a joint to its limit."""
    if isinstance(contact, PointContact):
        return contact.gap
    return contact.sign * (q[model.q_slices[contact.joint]][0] - contact.limit)


def _least_velocity(gap: Array, before: Array, free: Array, h: Any, e: Any, parting: Array) -> Array:
    """The separation velocities (n,) that the contacts are to have at least at the end of a step."""
    rebound = maximum(-e * before, 0.0)
    apart = select(less(gap + h * free, 0.0), select(less(0.0, rebound), rebound, -gap / h), -gap / h)
    return np.asarray(select(less(0.0, gap), apart, maximum(rebound, parting)))


def through_inertia(model: Model, q: Array, T: Array, tau: Array) -> tuple[Array, Array, Array]:
    """T^T H^-1 T, H^-1 T and H^-1 tau, without the branch-induced zeros (RBDA 6.5)."""
    parent = expanded_parent(model)
    L = ltl(crba(model, q), parent)
    Y, z = mpy_lit(L, parent, T), mpy_lit(L, parent, tau)
    return Y.T @ Y, mpy_li(L, parent, Y), mpy_li(L, parent, z)


def _check_contacts(model: Model, contacts: Sequence[PointContact | JointLimit]) -> None:
    for i, contact in enumerate(contacts):
        if isinstance(contact, JointLimit):
            if not 0 <= contact.joint < model.nb:
                raise ValueError(f"contact {i} limits joint {contact.joint}; model '{model.name}' has 0 .. {model.nb - 1}")
            if (nv := model.joint[contact.joint].nv) != 1:
                name = model.joint_names[contact.joint]
                raise ValueError(f"contact {i} limits {name} of model '{model.name}', which has {nv} freedoms; it needs 1")
        elif bad := [b for b in (contact.successor, contact.predecessor) if not -1 <= b < model.nb]:
            raise ValueError(
                f"contact {i} is of body {bad[0]}; model '{model.name}' has the bodies 0 .. {model.nb - 1} and the base, -1"
            )
