"""Where the bodies are and how they move: poses, velocities and accelerations of bodies and of
points on them.

Nothing here is offset by gravity: the accelerations are those that a camera would see, not those of
Table 5.1. The acceleration of a body is a spatial vector, which is *not* the acceleration of the
body's origin (RBDA 2.11): a body that turns uniformly has none, though its points have.
`classical_acceleration` and the point functions give what is usually meant. A point is given by its
position (3,) [m] in the coordinates of its body, which is given by name or number.
"""

from typing import Any

import numpy as np

from rigidblocks.algebra.spatial import Array, cross
from rigidblocks.dynamics.sweeps import (
    base_transforms,
    check_lengths,
    joint_kinematics,
    support,
)
from rigidblocks.model.model import Model
from rigidblocks.model.tree import Tree


def body_poses(model: Tree, q: Array) -> list[Any]:
    """The transforms from base to body coordinates: E turns to the body's axes, r is where its
    origin is (RBDA Ex 4.3).
    """
    check_lengths(model, q=q)
    return base_transforms(
        model, [joint_kinematics(model, i, q, np.zeros(model.nv))[0] for i in range(model.nb)]
    )


def body_velocities(model: Tree, q: Array, qd: Array) -> Array:
    """The spatial velocities [w; v] of all bodies (nb, 6), each in its own coordinates (RBDA Eq
    5.14).
    """
    check_lengths(model, q=q, qd=qd)
    v = [model.algebra.zero()] * (model.nb + 1)
    for i, p in enumerate(model.parent):
        Xup, _, vJ, _ = joint_kinematics(model, i, q, qd)
        v[i] = Xup @ v[p] + vJ
    return np.array(v[:-1])


def body_accelerations(model: Tree, q: Array, qd: Array, qdd: Array) -> Array:
    """The spatial accelerations of all bodies (nb, 6), each in its own coordinates (RBDA Eq 5.15
    with a_0 = 0).
    """
    check_lengths(model, q=q, qd=qd, qdd=qdd)
    v, a = ([model.algebra.zero()] * (model.nb + 1) for _ in range(2))
    for i, p in enumerate(model.parent):
        Xup, S, vJ, cJ = joint_kinematics(model, i, q, qd)
        v[i] = Xup @ v[p] + vJ
        a[i] = Xup @ a[p] + S @ qdd[model.v_slices[i]] + cJ + model.algebra.cross_motion(v[i], vJ)
    return np.array(a[:-1])


def classical_acceleration(a: Array, v: Array) -> Array:
    """[dw/dt; acceleration of the origin] from the spatial acceleration a and velocity v, a + [0; w
    x v] (RBDA Eq 2.50).
    """
    return np.concatenate([a[:3], a[3:] + cross(v[:3], v[3:])])


def spatial_acceleration(a: Array, v: Array) -> Array:
    """The spatial acceleration from [dw/dt; the origin's] a and the velocity v, a - [0; w x v]
    (RBDA Eq 2.48).
    """
    return np.concatenate([a[:3], a[3:] - cross(v[:3], v[3:])])


def point_position(model: Model, q: Array, body: str | int, point: Array) -> Array:
    """The position (3,) [m] of a body's point in base coordinates, r + E^T p."""
    X = _moving(model, body, q, np.zeros(model.nv), np.zeros(model.nv))[0]
    position: Array = X.r + X.E.T @ np.asarray(point)
    return position


def point_velocity(model: Model, q: Array, qd: Array, body: str | int, point: Array) -> Array:
    """The velocity (3,) [m/s] of a body's point in base coordinates, E^T (v + w x p) (RBDA Eq
    2.1).
    """
    X, v, _ = _moving(model, body, q, qd, np.zeros(model.nv))
    velocity: Array = X.E.T @ (v[3:] + cross(v[:3], np.asarray(point)))
    return velocity


def point_acceleration(
    model: Model, q: Array, qd: Array, qdd: Array, body: str | int, point: Array
) -> Array:
    """The acceleration (3,) [m/s^2] of a body's point in base coordinates: the second derivative of
    its position.
    """
    X, v, a = _moving(model, body, q, qd, qdd)
    acceleration: Array = X.E.T @ _of_point(v, a, np.asarray(point))
    return acceleration


def specific_force(
    model: Model,
    q: Array,
    qd: Array,
    qdd: Array,
    body: str | int,
    point: Array,
    gravity: Array | None = None,
) -> Array:
    """What an accelerometer at a body's point reads (3,) [m/s^2], in body coordinates: its
    acceleration less gravity.

    At rest it reads +g upwards, in free fall nothing.
    """
    X, v, a = _moving(model, body, q, qd, qdd)
    g = np.asarray(model.gravity if gravity is None else gravity)
    reading: Array = _of_point(v, a, np.asarray(point)) - X.E @ g
    return reading


def _moving(
    model: Tree, body: str | int, q: Array, qd: Array, qdd: Array
) -> tuple[Any, Array, Array]:
    """The pose of one body, its velocity and its spatial acceleration, the two in its
    coordinates.
    """
    check_lengths(model, q=q, qd=qd, qdd=qdd)
    X, v, a = model.algebra.identity(), model.algebra.zero(), model.algebra.zero()
    for i in support(model, body):
        Xup, S, vJ, cJ = joint_kinematics(model, i, q, qd)
        X, v = Xup @ X, Xup @ v + vJ
        a = Xup @ a + S @ qdd[model.v_slices[i]] + cJ + model.algebra.cross_motion(v, vJ)
    return X, v, a


def _of_point(v: Array, a: Array, p: Array) -> Array:
    """The acceleration of the body's point p, in body coordinates."""
    w, origin = v[:3], classical_acceleration(a, v)
    acceleration: Array = origin[3:] + cross(origin[:3], p) + cross(w, cross(w, p))
    return acceleration
