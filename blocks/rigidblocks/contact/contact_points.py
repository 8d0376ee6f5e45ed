"""Contact points of a model: bodies, positions, motion and effective mass."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from rigidblocks.dynamics.kinematics import body_poses, body_velocities, point_jacobian
from rigidblocks.dynamics.operational_space import inverse_inertia
from rigidblocks.robot.model import Model
from rigidblocks.robot.shapes import (
    Box,
    Capsule,
    ConvexHull,
    Cylinder,
    Ellipsoid,
    Shape,
    Sphere,
    Surface,
    unit_normal,
)
from rigidblocks.spatial.spatial import Array, cross


@dataclass(frozen=True, eq=False)  # eq=False: arrays have no single truth value
class BodyPoints:
    """Contact points of a model, in the order of the bodies and of the shapes of each body.

    `body` (n,) contains the body indices. `position` (n, 3) [m] is in body coordinates. `reach`
    (n,) [m] is the radius of a sphere about each point. It is zero for all shapes except spheres.
    """

    body: tuple[int, ...]
    position: Array
    reach: Array


def body_points(model: Model) -> BodyPoints:
    """Return the contact points of the shapes in `model.contact`.

    Raises:
        ValueError: The model has no shapes.
    """
    shapes = [(i, shape) for i, some in enumerate(model.contact) for shape in some]
    if not shapes:
        raise ValueError(
            f"model '{model.name}' has no contact shapes; list the shapes of each body in its "
            "field `contact`"
        )
    return BodyPoints(
        tuple(i for i, shape in shapes for _ in shape.points),
        np.concatenate([shape.points for _, shape in shapes]),
        np.concatenate([np.full(len(shape.points), shape.reach) for _, shape in shapes]),
    )


def check_corners(model: Model, bodies: Iterable[int], surface: Surface) -> None:
    """Check that the surface cannot penetrate a shape between the contact points of the shape.

    Compliant contact checks only the points of a shape. A shape with edges and faces can therefore
    penetrate a smaller box or sphere without any point in contact.

    Args:
        model: The model.
        bodies: Indices of the bodies with contact points.
        surface: The surface that the bodies touch.

    Raises:
        ValueError: A shape is longer than the diameter of a spherical surface, or not shorter than
            the second longest side of a box surface.
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
                    "compliant contact checks only the contact points of the "
                    f"{type(shape).__name__} on body '{name}'; these are up to {length:g} m apart "
                    f"and can miss a {type(surface).__name__} with a width of {width:g} m; use "
                    "RigidContactPlant or a PointSet"
                )


def _length(shape: Shape) -> float:
    """Return the largest dimension of a shape with edges and faces, zero for points and spheres."""
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
            others = (one for one in shape.primitives() if one is not shape)
            return max(map(_length, others), default=0.0)


def point_motion(
    model: Model, q: Array, qd: Array, points: BodyPoints
) -> tuple[Array, Array, Array]:
    """Return the positions p, velocities v and angular velocities w, each (n, 3), of the points.

    The units are m, m/s and rad/s. w is the angular velocity of the body of each point. All values
    are in base coordinates.

    Args:
        model: Model with the points.
        q: Configuration (nq,).
        qd: Velocity (nv,).
        points: Contact points, as from `body_points`.
    """
    X0, v = body_poses(model, q), body_velocities(model, q, qd)
    rows = []
    for i, r in zip(points.body, points.position, strict=True):
        E, w = X0[i].E, v[i][:3]
        rows.append((X0[i].r + E.T @ r, E.T @ (v[i][3:] + cross(w, r)), E.T @ w))
    p, v_p, w_p = (np.array(column) for column in zip(*rows, strict=True))
    return p, v_p, w_p


def effective_mass(model: Model, q: Array, body: int, point: ArrayLike, normal: ArrayLike) -> float:
    """Return the effective mass 1 / (n^T J H^-1 J^T n) [kg] of a contact at a point of a body.

    J is the Jacobian of the point, H the joint-space inertia matrix, and n the unit vector along
    `normal`.

    Args:
        model: Model with the body.
        q: Configuration (nq,).
        body: Index of the body.
        point: Contact point (3,) [m] in body coordinates.
        normal: Contact normal (3,) in base coordinates, of any length.
    """
    n = unit_normal(normal)
    J = n @ point_jacobian(model, q, body, np.asarray(point))
    mobility = float(inverse_inertia(model, q, J[None, :])[0, 0])
    return 1 / mobility if mobility > 0 else float("inf")
