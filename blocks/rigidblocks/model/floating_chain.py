"""A floating base as a chain of six joints, for functions that know fixed bases only (floatbase and
fbKin of spatial_v1).
"""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from rigidblocks.algebra.spatial import (
    Array,
    RigidInertia,
    Transform,
    cross,
    rotx,
    roty,
    rotz,
    rx,
    xlt,
)
from rigidblocks.joint import Prismatic, Revolute
from rigidblocks.model.model import Model

_AXES = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
_NAMES = ("base_x", "base_y", "base_z", "base_rx", "base_ry", "base_rz")


class BaseMotion(NamedTuple):
    """X from fixed-base to floating-base coordinates; v (6,) and a (6,) of the floating base in
    *fixed-base* coordinates.
    """

    X: Transform
    v: Array
    a: Array


class BaseCoordinates(NamedTuple):
    """Positions, velocities and accelerations (6,) of the chain x, y, z, about x, about y, about z
    [m, rad].
    """

    q: Array
    qd: Array
    qdd: Array


def floating_base(model: Model) -> Model:
    """The model with its first body afloat: joint 0 becomes a chain of 6 joints and 5 bodies
    without mass.

    The joints are translations along x, y and z and rotations about x, y and z, each in what the
    ones before it have made of the base frame; body 5 is the floating base, body i of the model is
    body i+5, and joints 6 and on are the model's own. Where joint 4 is at +-pi/2 the chain is
    singular: the fixed-base functions fail there, the floating-base functions, which do not look at
    the chain, do not. Raises ValueError for a model with several bodies on its base.
    """
    if (roots := model.parent.count(-1)) > 1:
        raise ValueError(
            f"model '{model.name}' has {roots} bodies on its base; only one can become the "
            "floating base"
        )
    joints = tuple(Prismatic(axis) for axis in _AXES) + tuple(Revolute(axis) for axis in _AXES)
    nothing = RigidInertia(0.0, np.zeros(3), np.zeros((3, 3)))
    return replace(
        model,
        name=f"{model.name}_floating",
        parent=(*range(-1, 5), *(p + 5 for p in model.parent[1:])),
        joint=(*joints, *model.joint[1:]),
        Xtree=(xlt(np.zeros(3)),) * 6 + model.Xtree[1:],
        inertia=(nothing,) * 5 + model.inertia,
        body_names=(*_NAMES[:5], *model.body_names),
        joint_names=(*_NAMES, *model.joint_names[1:]),
        massless=(*_NAMES[:5], *model.massless),
        appearance=((),) * 5 + tuple(model.appearance) if model.appearance else (),
        contact=((),) * 5 + tuple(model.contact) if model.contact else (),
    )


def floating_base_kinematics(q: Array, qd: Array, qdd: Array) -> BaseMotion:
    """The motion of the floating base from the variables (6,) of its chain (fbKin of spatial_v1).

    X = rotz(c) roty(b) rotx(a) xlt(x, y, z) for q = (x, y, z, a, b, c).
    """
    r, (a, b, c), p = q[:3], q[3:], qd[:3]
    X = rotz(c) @ roty(b) @ rotx(a) @ xlt(r)
    w, dw = _angular_motion(a, b, qd[3:], qdd[3:])
    v = np.concatenate([w, p - cross(w, r)])
    return BaseMotion(X, v, np.concatenate([dw, qdd[:3] - cross(dw, r) - cross(w, p)]))


def _angular_motion(a: Any, b: Any, rates: Array, second: Array) -> tuple[Array, Array]:
    """The angular velocity and acceleration from the rates of the angles about x, y and z, at the
    angles a about x and b about y.
    """
    E, cb, sb = rx(a), np.cos(b), np.sin(b)
    (da, db, dc), (dda, ddb, ddc) = rates, second

    # u is the angular velocity in the frame turned by a about x, du the rate of its components
    u = np.array([da + sb * dc, db, cb * dc])
    du = np.array([dda + cb * db * dc + sb * ddc, ddb, cb * ddc - sb * db * dc])
    return E.T @ u, E.T @ (du + cross(np.array([da, 0.0, 0.0]), u))


def floating_base_coordinates(X: Transform, v: Array, a: Array) -> BaseCoordinates:
    """The variables (6,) of the chain from the motion of the floating base: the inverse of
    `floating_base_kinematics`.

    q[4] is within -pi/2 and pi/2, q[3] and q[5] are within -pi and pi. Raises ValueError where q[4]
    is +-pi/2, in numbers: there the chain is singular.
    """
    E, r = X.E, X.r
    cb, sb = np.sqrt(E[0, 0] * E[0, 0] + E[1, 0] * E[1, 0]), E[2, 0]
    _check_regular(cb)
    angles = [np.arctan2(-E[2, 1], E[2, 2]), np.arctan2(sb, cb), np.arctan2(-E[1, 0], E[0, 0])]
    rates, second = _angle_rates(rx(angles[0]), cb, sb, v[:3], a[:3])
    p = v[3:] + cross(v[:3], r)
    pdd = a[3:] + cross(a[:3], r) + cross(v[:3], p)
    return BaseCoordinates(
        np.array([*r, *angles]), np.array([*p, *rates]), np.array([*pdd, *second])
    )


def _angle_rates(Ex: Array, cb: Any, sb: Any, w: Array, dw: Array) -> tuple[list[Any], list[Any]]:
    """The first and second rates of the angles: the relations of `_angular_motion` solved for
    them.
    """
    u = Ex @ w
    db, dc = u[1], u[2] / cb
    da = u[0] - sb * dc
    du = Ex @ dw - cross(np.array([da, 0.0, 0.0]), u)
    ddb, ddc = du[1], (du[2] + sb * db * dc) / cb
    dda = du[0] - cb * db * dc - sb * ddc
    return [da, db, dc], [dda, ddb, ddc]


def _check_regular(cb: Any) -> None:
    if isinstance(cb, float) and cb < 1e-9:
        raise ValueError(
            "the floating base is pitched by a quarter turn, where its chain of six joints is "
            "singular"
        )
