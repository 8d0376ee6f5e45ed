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


def stable_spring_hold(A: Array, K: Array, D: Array) -> float:
    """The longest step [s] over which the forces f = -K x - D dx/dt of springs and dampers may be
    held, where d^2 x/dt^2 = A f; 0 where no step is short enough, infinite without forces.

    For K and D (n,) and A (n, n), symmetric and positive semidefinite: the step up to which no
    eigenvalue of

        x' = x + w - a/2 x - b/2 w,    w' = w - a x - b w,    a = h^2 A K,  b = h A D,  w = h dx/dt

    is larger than 1, to a percent. With one spring it is `stable_step`.
    """
    acting = np.flatnonzero((K > 0) | (D > 0))
    sizes, directions = np.linalg.eigh(A[np.ix_(acting, acting)])
    kept = sizes > 1e-12 * np.max(sizes, initial=0.0)
    if not kept.any():
        return float("inf")
    U = directions[:, kept] * np.sqrt(sizes[kept])  # of A = U U^T, without what cannot move
    stiffness, damping = (U.T @ (one[acting, None] * U) for one in (K, D))
    return _longest_stable(stiffness, damping)


def _longest_stable(stiffness: Array, damping: Array) -> float:
    """The same of springs on masses of 1 kg, by trying ever closer steps."""
    w2, d = (float(np.linalg.eigvalsh(one)[-1]) for one in (stiffness, damping))
    longest = 2.0 * min(1.0 / np.sqrt(w2) if w2 > 0 else np.inf, 1.0 / d if d > 0 else np.inf)
    stable, unstable = 0.0, longest
    for points in (122, 13):  # a tenth apart, then a percent
        steps = np.geomspace(max(stable, 1e-5 * longest), unstable, points)
        grow = np.flatnonzero(_factors(steps, stiffness, damping) > 1.0 + 1e-11)
        if not len(grow):
            return float(longest)
        if grow[0] == 0:
            return stable
        stable, unstable = steps[grow[0] - 1], steps[grow[0]]
    return float(stable)


def _factors(h: Array, K: Array, D: Array) -> Array:
    """The largest factors (n,) of the modes of held springs in steps h (n,)."""
    a, b, one = h[:, None, None] ** 2 * K, h[:, None, None] * D, np.eye(len(K))
    step = np.block([[one - a / 2, one - b / 2], [-a, one - b]])
    factors: Array = np.abs(np.linalg.eigvals(step)).max(axis=-1)
    return factors


def check_depth(depth_ref: float | None) -> None:
    """Raises ValueError for a depth of reference that is given and not positive."""
    if depth_ref is not None and not (np.isfinite(depth_ref) and depth_ref > 0):
        raise ValueError(f"depth_ref [m] must be positive, not {depth_ref}")
