"""The points with which a model touches: which body has them, where they are, how they move."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from rigidblocks.algebra.spatial import Array, cross
from rigidblocks.dynamics.jacobian import point_jacobian
from rigidblocks.dynamics.kinematics import body_poses, body_velocities
from rigidblocks.dynamics.operational import inverse_inertia
from rigidblocks.model.convex import Capsule, ConvexHull, Ellipsoid
from rigidblocks.model.hull import unit_normal
from rigidblocks.model.model import Model
from rigidblocks.model.shapes import Box, Cylinder, Shape, Sphere, Surface


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


def check_corners(model: Model, bodies: Iterable[int], surface: Surface) -> None:
    """Raises ValueError for a shape of these bodies that soft contact may let pass through a
    surface, because it knows of its points alone: one with edges and faces that is not smaller
    than a box, or longer than a ball, which it is against.
    """
    is_box = isinstance(surface, Box)
    if isinstance(surface, Box):
        width = float(np.sort(surface.sides)[1])
    elif isinstance(surface, Sphere):
        width = 2 * float(surface.radius)
    else:
        return
    for name, shapes in ((model.body_names[i], model.contact[i]) for i in bodies):
        for shape in shapes:
            length = _length(shape)
            if length > width or (is_box and length == width):
                raise ValueError(
                    f"soft contact knows of a {type(shape).__name__} its points alone: that of "
                    f"body '{name}', {length:g} m long, could pass through a "
                    f"{type(surface).__name__} {width:g} m wide, whose edges and faces touch it "
                    "between them; use RigidContactPlant, or list as PointSet the points that are "
                    "to touch"
                )


def _length(shape: Shape) -> float:
    """The largest length of a shape with edges and faces, zero for points and balls."""
    match shape:
        case Box():
            return float(np.max(shape.sides))
        case Cylinder():
            return float(max(2 * shape.radius, shape.height))
        case Capsule():
            return float(shape.height + 2 * shape.radius)
        case ConvexHull() | Ellipsoid():
            return float(np.ptp(shape.points, axis=0).max())
        case _:
            return 0.0


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
