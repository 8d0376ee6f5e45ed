"""The points with which a model touches: which body has them, where they are, how they move."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from rigidblocks.algebra.spatial import Array, cross
from rigidblocks.dynamics.jacobian import point_jacobian
from rigidblocks.dynamics.kinematics import body_poses, body_velocities
from rigidblocks.dynamics.operational import inverse_inertia
from rigidblocks.model.hull import unit_normal
from rigidblocks.model.model import Model


@dataclass(frozen=True, eq=False)  # eq=False: arrays have no single truth value
class BodyPoints:
    """The contact points of a model, in the order of its bodies and of their shapes.

    `body` (n,) has the numbers of the bodies; `position` (n, 3) [m] is in body coordinates; `reach`
    (n,) [m] is the radius of the sphere about each point, zero but for a sphere.
    """

    body: tuple[int, ...]
    position: Array
    reach: Array


def body_points(model: Model) -> BodyPoints:
    """The contact points of the shapes in `model.contact`; raises ValueError where there are
    none.
    """
    shapes = [(i, shape) for i, some in enumerate(model.contact) for shape in some]
    if not shapes:
        raise ValueError(
            f"model '{model.name}' has no shapes to touch with: list them in its field `contact`, "
            "body by body"
        )
    return BodyPoints(
        tuple(i for i, shape in shapes for _ in shape.points),
        np.concatenate([shape.points for _, shape in shapes]),
        np.concatenate([np.full(len(shape.points), shape.reach) for _, shape in shapes]),
    )


def point_motion(
    model: Model, q: Array, qd: Array, points: BodyPoints
) -> tuple[Array, Array, Array]:
    """The positions p (n, 3) [m] and velocities v (n, 3) [m/s] of the points and the angular
    velocities w (n, 3) [rad/s] of their bodies, in base coordinates.
    """
    X0, v = body_poses(model, q), body_velocities(model, q, qd)
    rows = []
    for i, r in zip(points.body, points.position, strict=True):
        E, w = X0[i].E, v[i][:3]
        rows.append((X0[i].r + E.T @ r, E.T @ (v[i][3:] + cross(w, r)), E.T @ w))
    p, v_p, w_p = (np.array(column) for column in zip(*rows, strict=True))
    return p, v_p, w_p


def effective_mass(model: Model, q: Array, body: int, point: ArrayLike, normal: ArrayLike) -> float:
    """The mass 1 / (n J H^-1 J^T n) [kg] that a contact feels at a body's point along the normal,
    in base coordinates.

    `point` (3,) [m] is in body coordinates. Infinite where the point cannot move along the normal.
    """
    n = unit_normal(normal)
    J = n @ point_jacobian(model, q, body, np.asarray(point))
    mobility = float(inverse_inertia(model, q, J[None, :])[0, 0])
    return 1 / mobility if mobility > 0 else float("inf")
