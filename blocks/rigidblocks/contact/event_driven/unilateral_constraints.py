"""The inequality constraints of rigid contact: contacts at points and joint limits, each a gap >= 0
(RBDA 11.1, 11.4).

A contact is between two bodies of the model, or of a body with the base; it is given where the
bodies are now, in base coordinates. All may be traced but which bodies touch.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rigidblocks.algebra.scalar import less, select
from rigidblocks.algebra.spatial import Array
from rigidblocks.model.model import Model


@dataclass(frozen=True, eq=False)  # eq=False: arrays have no single truth value
class PointContact:
    """Body `successor` against body `predecessor` (-1, the base, unless given) at one point (RBDA
    11.3).

    `point` (3,) [m] and the unit `normal` (3,), from the predecessor to the successor, are in base
    coordinates, and so are their rates: the velocity of the point at which the surfaces touch and
    the derivative of the normal. Unless given they are those of a point of the successor on a plane
    of the predecessor. `gap` [m] is the distance of the surfaces, negative where they penetrate;
    `mu` the coefficient of friction, none where it is the number 0.

    Raises ValueError for wrong shapes, for a number that is not finite, for a normal of another
    length than 1, for a negative mu, and for a body against itself.
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
                f"the normal of {where} must have length 1; it was {self.normal.tolist()}"
            )
        if isinstance(self.mu, float | int) and not 0 <= self.mu < np.inf:
            raise ValueError(f"mu of {where} must be finite and not negative, not {self.mu}")
        if self.successor == self.predecessor:
            raise ValueError(f"{where} is one of a body with itself")

    @property
    def has_friction(self) -> bool:
        """Whether there are friction forces to be found."""
        return not (isinstance(self.mu, float | int) and self.mu == 0)


def _vector(value: ArrayLike, what: str) -> Array:
    """A vector (3,) as an array; raises ValueError for another shape and what is not finite."""
    vector = np.asarray(value)
    if vector.shape != (3,):
        raise ValueError(f"{what} needs shape (3,), not {vector.shape}")
    if vector.dtype != object and not np.all(np.isfinite(vector)):
        raise ValueError(f"{what} must be finite, not {vector.tolist()}")
    return vector


@dataclass(frozen=True)
class JointLimit:
    """A joint that cannot go below `limit`, or above it where `upper`: a contact with t = +-e_j
    (RBDA 11.4).

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
    """What an inequality constraint gap >= 0 is in (RBDA Fig 11.4): apart, in collision,
    separating, or in contact.
    """

    APART = "1"
    IMPACT = "2a"
    SEPARATING = "2b"
    CONTACT = "3"


def contact_state(
    gap: float, rate: float, gap_tolerance: float = 0.0, rate_tolerance: float = 0.0
) -> ContactState:
    """The state of a contact from its gap [m] and the rate of it [m/s], where the tolerances count
    as zero (RBDA 11.4).
    """
    if gap > gap_tolerance:
        return ContactState.APART
    if abs(rate) <= rate_tolerance:
        return ContactState.CONTACT
    return ContactState.IMPACT if rate < 0 else ContactState.SEPARATING


AnyContact = PointContact | JointLimit


def contact_gap(model: Model, q: Array, contact: AnyContact) -> Any:
    """The distance of a contact's surfaces, or of a joint to its limit."""
    if isinstance(contact, PointContact):
        return contact.gap
    return contact.sign * (q[model.q_slices[contact.joint]][0] - contact.limit)


def contact_directions(normal: Array) -> Array:
    """The columns z, x, y (3, 3) of a contact: the unit normal and two unit tangents, without a
    branch.

    (Duff et al. 2017, "Building an orthonormal basis, revisited".)
    """
    x, y, z = normal
    sign = select(less(z, 0.0), -1.0, 1.0)
    a = -1.0 / (sign + z)
    b = x * y * a
    return np.array(
        [[x, 1.0 + sign * x * x * a, b], [y, sign * b, sign + y * y * a], [z, -sign * x, -y]]
    )


def check_contacts(model: Model, contacts: Sequence[AnyContact]) -> None:
    """Raises ValueError for a contact of a body or joint that the model has not."""
    for i, contact in enumerate(contacts):
        if isinstance(contact, JointLimit):
            if not 0 <= contact.joint < model.nb:
                raise ValueError(
                    f"contact {i} limits joint {contact.joint}; model '{model.name}' has 0 .. "
                    f"{model.nb - 1}"
                )
            if (nv := model.joint[contact.joint].nv) != 1:
                name = model.joint_names[contact.joint]
                raise ValueError(
                    f"contact {i} limits {name} of model '{model.name}', which has {nv} freedoms; "
                    "it needs 1"
                )
        elif bad := [b for b in (contact.successor, contact.predecessor) if not -1 <= b < model.nb]:
            raise ValueError(
                f"contact {i} is of body {bad[0]}; model '{model.name}' has the bodies 0 .. "
                f"{model.nb - 1} and the base, -1"
            )
