"""What the blocks of soft contact share: the numbers of its law as parameters, and the state and
forces of its points.
"""

from typing import Any

import numpy as np

from rigidblocks.algebra.scalar import less, select
from rigidblocks.algebra.spatial import Array
from rigidblocks.block.block import Port, Record
from rigidblocks.contact.soft import ContactForce, SoftLaw, stable_step
from rigidblocks.dynamics.operational import inverse_inertia
from rigidblocks.model.model import Model
from rigidblocks.model.shapes import Contact


def law_ports(
    K: float, D: float, mu: float, K_t: Any, D_t: Any, *, damped: bool
) -> tuple[Port, ...]:
    """The parameters K, D, mu, K_t and D_t; `damped` says that D_t must be positive."""
    return (
        Port("K", (), "N/m", "stiffness along the normal", K, min=0.0, positive=True),
        Port("D", (), "N.s/m", "damping along the normal", D, min=0.0),
        Port("mu", (), "1", "coefficient of friction", mu, min=0.0),
        Port("K_t", (), "N/m", "stiffness in the tangent plane", K_t, min=0.0, positive=True),
        Port("D_t", (), "N.s/m", "damping in the tangent plane", D_t, min=0.0, positive=damped),
    )


def law_of(p: Record, depth_ref: float | None) -> SoftLaw:
    """The law of the parameters."""
    return SoftLaw(p.K, p.D, p.mu, p.K_t, p.D_t, depth_ref)


def patch_port(n: int) -> Port:
    """The displacements x (n, 3) of the surface."""
    return Port(
        "x",
        (n, 3),
        "m",
        "how far the surface under each point is displaced in its tangent plane",
        0.0,
    )


def whole_force(force: ContactForce, touching: Contact) -> Array:
    """The forces (n, 3): along the normals and of friction."""
    f: Array = np.asarray(force.normal)[:, None] * touching.normal + force.friction
    return f


def pushes(force: ContactForce) -> Any:
    """1 (n,) where there is a force, else 0."""
    return select(less(0.0, force.normal), 1.0, 0.0)


def stable_hold(model: Model, q: Array, J: Array, law: SoftLaw, *, lead: bool = False) -> float:
    """The longest step [s] over which the forces at points with the Jacobian J (3n, nv) may be held
    at q.

    `stable_step` of the law along the normal and, with friction, in the tangent plane, with 1
    / m_eff the largest eigenvalue of J H^-1 J^T.
    """
    m_eff = 1 / float(np.linalg.eigvalsh(inverse_inertia(model, q, J))[-1])
    normal = stable_step(law.K, law.D, m_eff, lead=lead)
    return min(normal, stable_step(law.K_t, law.D_t, m_eff, lead=True)) if law.mu else normal


def check_depth(depth_ref: float | None) -> None:
    """Raises ValueError for a depth of reference that is given and not positive."""
    if depth_ref is not None and not (np.isfinite(depth_ref) and depth_ref > 0):
        raise ValueError(f"depth_ref [m] must be positive, not {depth_ref}")
