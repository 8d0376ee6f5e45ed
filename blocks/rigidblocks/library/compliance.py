"""What the blocks of soft contact share: the numbers of its law as parameters, and the state and forces of its points."""

from types import SimpleNamespace
from typing import Any

import numpy as np

from rigidblocks.block import Port
from rigidblocks.contact.geometry import Contact
from rigidblocks.contact.soft import ContactForce, SoftLaw, stable_step
from rigidblocks.dynamics.operational import inverse_inertia
from rigidblocks.model import Model
from rigidblocks.scalar import less, select
from rigidblocks.spatial import Array


def law_ports(K: float, D: float, mu: float, K_t: Any, D_t: Any) -> tuple[Port, ...]:
    """The parameters K, D, mu, K_t and D_t."""
    return (
        Port("K", (), "N/m", "stiffness along the normal", K, min=0.0),
        Port("D", (), "N.s/m", "damping along the normal", D, min=0.0),
        Port("mu", (), "1", "coefficient of friction", mu, min=0.0),
        Port("K_t", (), "N/m", "stiffness in the tangent plane", K_t, min=0.0),
        Port("D_t", (), "N.s/m", "damping in the tangent plane", D_t, min=0.0),
    )


def law_of(p: SimpleNamespace, depth_ref: float | None) -> SoftLaw:
    """The law of the parameters."""
    return SoftLaw(p.K, p.D, p.mu, p.K_t, p.D_t, depth_ref)


def patch_port(n: int) -> Port:
    """The displacements x (n, 3) of the surface."""
    return Port("x", (n, 3), "m", "how far the surface under each point is displaced in its tangent plane", 0.0)


def whole_force(force: ContactForce, touching: Contact) -> Array:
    """The forces (n, 3): along the normals and of friction."""
    f: Array = np.asarray(force.normal)[:, None] * touching.normal + force.friction
    return f


def pushes(force: ContactForce) -> Any:
    """1 (n,) where there is a force, else 0."""
    return select(less(0.0, force.normal), 1.0, 0.0)


def stable_hold(model: Model, q: Array, J: Array, p: SimpleNamespace, *, lead: bool = False) -> float:
    """The longest step [s] over which the forces at points with the Jacobian J (3n, nv) may be held at q.

    `stable_step` of the law of p along the normal and, with friction, in the tangent plane, with 1 / m_eff the largest
    eigenvalue of J H^-1 J^T.
    """
    m_eff = 1 / float(np.linalg.eigvalsh(inverse_inertia(model, q, J))[-1])
    normal = stable_step(p.K, p.D, m_eff, lead=lead)
    return min(normal, stable_step(p.K_t, p.D_t, m_eff, lead=True)) if p.mu else normal


def check_positive(what: str, **values: float | None) -> None:
    """Raises ValueError for a number that is given and not positive."""
    for name, value in values.items():
        if value is not None and not (np.isfinite(value) and value > 0):
            raise ValueError(f"{name} of a {what} must be positive, not {value}")


def check_not_negative(what: str, **values: float | None) -> None:
    """Raises ValueError for a number that is given and negative."""
    for name, value in values.items():
        if value is not None and not (np.isfinite(value) and value >= 0):
            raise ValueError(f"{name} of a {what} must not be negative, not {value}")
