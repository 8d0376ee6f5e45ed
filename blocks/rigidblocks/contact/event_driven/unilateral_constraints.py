"""Inequality constraints of rigid contact: point contacts and joint limits (RBDA 11.1, 11.4).

Each constraint requires a gap >= 0 between two bodies of the model, or between a body and the base.
The quantities of a constraint are evaluated at the current configuration, in base coordinates. All
quantities except the body indices may be traced.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rigidblocks.contact.contact_points import body_points, point_motion
from rigidblocks.robot.model import Model
from rigidblocks.robot.shapes import Plane, Sphere
from rigidblocks.spatial.scalar import less, select
from rigidblocks.spatial.spatial import Array


@dataclass(frozen=True, eq=False)  # eq=False: arrays have no single truth value
class PointContact:
    """Contact of body `successor` with body `predecessor` at one point (RBDA 11.3).

    The point, the normal and their derivatives are in base coordinates. The default predecessor is
    the base, -1.

    Args:
        successor: Index of the first body.
        point: Contact point (3,) [m].
        normal: Unit normal (3,) from the predecessor to the successor.
        predecessor: Index of the second body.
        mu: Coefficient of friction; the float 0 means no friction.
        gap: Distance between the surfaces [m], negative if they penetrate.
        point_rate: Velocity (3,) of the geometric contact point. The default is the velocity of a
            point fixed to the successor.
        normal_rate: Derivative (3,) of the normal. The default is the derivative for a plane fixed
            to the predecessor.

    Raises:
        ValueError: A shape is wrong, a value is not finite, or mu is negative. The length of the
            normal is not 1, or a body is in contact with itself.
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
                object.__setattr__(self, name, _vector(value, f"the {name} of {where}"))
        if self.normal.dtype != object and abs(self.normal @ self.normal - 1.0) > 1e-6:
            raise ValueError(
                f"the normal of {where} must have length 1, not {self.normal.tolist()}"
            )
        if isinstance(self.mu, float | int) and not 0 <= self.mu < np.inf:
            raise ValueError(f"mu of {where} must be finite and not negative, not {self.mu}")
        if self.successor == self.predecessor:
            raise ValueError(f"{where} needs two different bodies, not one body twice")

    @property
    def has_friction(self) -> bool:
        """True if mu is a traced value or not zero."""
        return not (isinstance(self.mu, float | int) and self.mu == 0)


def _vector(value: ArrayLike, label: str) -> Array:
    """Return `value` as an array; raise ValueError if its shape is not (3,) or it is not finite.

    `label` is the name of the value in the error message.
    """
    vector = np.asarray(value)
    if vector.shape != (3,):
        raise ValueError(f"{label} needs shape (3,), not {vector.shape}")
    if vector.dtype != object and not np.all(np.isfinite(vector)):
        raise ValueError(f"{label} must be finite, not {vector.tolist()}")
    return vector


@dataclass(frozen=True)
class JointLimit:
    """Position limit of a joint as an inequality constraint gap >= 0 (RBDA 11.4).

    The limit is the upper limit if `upper` is True, else the lower limit.

    The joint has one degree of freedom. The gap [rad or m] is the distance of its position variable
    to the limit. A unit contact force has the joint force `sign` e_j (nv,), where e_j is the unit
    vector of the velocity variable of the joint.
    """

    joint: int
    limit: Any
    upper: bool = False
    has_friction = False

    @property
    def sign(self) -> float:
        """Sign of the limit force on the joint: 1 for a lower limit, -1 for an upper limit."""
        return -1.0 if self.upper else 1.0


class ContactState(Enum):
    """State of an inequality constraint gap >= 0 (RBDA Fig 11.4)."""

    APART = "1"
    IMPACT = "2a"
    SEPARATING = "2b"
    CONTACT = "3"


def contact_state(
    gap: float, rate: float, gap_tolerance: float = 0.0, rate_tolerance: float = 0.0
) -> ContactState:
    """Classify a contact by its gap and the time derivative of the gap (RBDA 11.4).

    Args:
        gap: Gap [m].
        rate: Time derivative of the gap [m/s].
        gap_tolerance: Largest gap [m] that counts as zero.
        rate_tolerance: Largest magnitude of `rate` [m/s] that counts as zero.
    """
    if gap > gap_tolerance:
        return ContactState.APART
    if abs(rate) <= rate_tolerance:
        return ContactState.CONTACT
    return ContactState.IMPACT if rate < 0 else ContactState.SEPARATING


AnyContact = PointContact | JointLimit


def contact_gap(model: Model, q: Array, contact: AnyContact) -> Any:
    """Return the gap of a contact [m], or the distance of a joint to its limit [rad or m]."""
    if isinstance(contact, PointContact):
        return contact.gap
    return contact.sign * (q[model.q_slices[contact.joint]][0] - contact.limit)


def contact_directions(normal: Array) -> Array:
    """Return the unit normal z and two unit tangents x, y of a contact, as columns (3, 3).

    The formula has no branch (Duff et al. 2017, "Building an orthonormal basis, revisited").
    """
    x, y, z = normal
    sign = select(less(z, 0.0), -1.0, 1.0)
    a = -1.0 / (sign + z)
    b = x * y * a
    return np.array(
        [[x, 1.0 + sign * x * x * a, b], [y, sign * b, sign + y * y * a], [z, -sign * x, -y]]
    )


def check_contacts(model: Model, contacts: Sequence[AnyContact]) -> None:
    """Check that the model has the bodies and joints of the contacts.

    Raises:
        ValueError: A body or joint is not in the model, or a joint with a limit has several
            degrees of freedom.
    """
    for i, contact in enumerate(contacts):
        if isinstance(contact, JointLimit):
            if not 0 <= contact.joint < model.nb:
                raise ValueError(
                    f"contact {i} is a limit of the unknown joint {contact.joint}; "
                    f"model '{model.name}' has joints 0 .. {model.nb - 1}"
                )
            if (nv := model.joint[contact.joint].nv) != 1:
                name = model.joint_names[contact.joint]
                raise ValueError(
                    f"contact {i} is a limit of joint {name}, which has {nv} degrees of freedom; a "
                    f"limit needs a joint with exactly one (model '{model.name}')"
                )
        elif bad := [b for b in (contact.successor, contact.predecessor) if not -1 <= b < model.nb]:
            raise ValueError(
                f"contact {i} has unknown body {bad[0]}; model '{model.name}' has bodies 0 .. "
                f"{model.nb - 1} and the base, -1"
            )


def plane_contacts(
    model: Model, q: Array, qd: Array, ground: Plane | None = None, mu: Any = 0.0
) -> list[PointContact]:
    """Return the contacts between a fixed plane and all contact points and spheres of a model.

    The contact point of a sphere moves with the velocity of the sphere centre (RBDA 11.6).

    Args:
        model: The model.
        q: Configuration (nq,); may be traced.
        qd: Velocity (nv,); may be traced.
        ground: The plane; default: z = 0.
        mu: Coefficient of friction.

    Returns:
        The contacts, in the order of `body_points`.
    """
    ground = Plane() if ground is None else ground
    points, n = body_points(model), np.asarray(ground.normal)
    p, v, _ = point_motion(model, q, qd, points)
    gaps = [
        n @ p_i - n @ np.asarray(ground.point) - reach
        for p_i, reach in zip(p, points.reach, strict=True)
    ]
    return [
        PointContact(
            body, p_i - reach * n, n, mu=mu, gap=gap,
            point_rate=v_i if reach else None, normal_rate=np.zeros(3),
        )
        for body, p_i, v_i, gap, reach in zip(points.body, p, v, gaps, points.reach, strict=True)
    ]  # fmt: skip


def sphere_contacts(
    model: Model, q: Array, qd: Array, pairs: Sequence[tuple[int, int]], mu: Any = 0.0
) -> list[PointContact]:
    """Return one contact for each pair of spheres, and for each pair of a sphere and a point.

    Args:
        model: The model.
        q: Configuration (nq,); may be traced.
        qd: Velocity (nv,); may be traced.
        pairs: Pairs of contact point indices in `body_points`. The normal points from the first
            point to the second point.
        mu: Coefficient of friction.

    Raises:
        ValueError: Neither point of a pair has a sphere, so the pair has no normal.
    """
    points = body_points(model)
    p, v, _ = point_motion(model, q, qd, points)
    found = []
    for a, b in pairs:
        r_a, r_b = points.reach[a], points.reach[b]
        if not r_a + r_b > 0:
            raise ValueError(
                f"contact points {a} and {b} of model '{model.name}' have no radius; one of them "
                "must be the centre of a sphere"
            )
        gap, n = Sphere(float(r_a + r_b)).gap(p[b] - p[a])
        rate = v[b] - v[a]
        n_rate = (rate - (n @ rate) * n) / (gap + r_a + r_b)
        found.append(
            PointContact(
                points.body[b],
                p[a] + r_a * n,
                n,
                points.body[a],
                mu,
                gap,
                v[a] + r_a * n_rate,
                n_rate,
            )
        )
    return found
