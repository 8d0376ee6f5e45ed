"""Jacobians of bodies and of points on them, and their rates of change (RBDA 4.1.4, Examples 2.3
and 2.5). Bodies are given by name or number.
"""

from typing import Any

import numpy as np

from rigidblocks.algebra.spatial import Array, cross
from rigidblocks.dynamics.sweeps import check_lengths, joint_kinematics, support
from rigidblocks.joint.subspace import subspace_rate
from rigidblocks.model.model import Model
from rigidblocks.model.tree import Tree


def body_jacobian(model: Tree, q: Array, body: str | int) -> Array:
    """J (6, nv) in body coordinates: the spatial velocity of the body is J qd (RBDA Eq 4.5,
    4.6).
    """
    check_lengths(model, q=q)
    J: list[Any] = [np.zeros((len(model.algebra.zero()), joint.nv)) for joint in model.joint]
    X = model.algebra.identity()
    for i in reversed(support(model, body)):
        Xup, S, _, _ = joint_kinematics(model, i, q, np.zeros(model.nv))
        J[i] = X @ S
        X = X @ Xup
    return np.hstack(J)


def body_jacobian_rate(model: Tree, q: Array, qd: Array, body: str | int) -> Array:
    """dJ/dt (6, nv) in body coordinates: the spatial acceleration of the body is J qdd + dJ/dt qd
    (RBDA Eq 2.57).

    Its columns are the derivatives of vectors that move, S' + v x S, with S' the rate of the
    components of S; not the rates of the elements of J, from which they differ by v x J because the
    body's coordinates move too.
    """
    check_lengths(model, q=q, qd=qd)
    J: list[Any] = [np.zeros((len(model.algebra.zero()), joint.nv)) for joint in model.joint]
    path, v = support(model, body), {-1: model.algebra.zero()}
    kinematics = {i: joint_kinematics(model, i, q, qd) for i in path}

    # outward: velocities
    for i in path:
        Xup, _, vJ, _ = kinematics[i]
        v[i] = Xup @ v[model.parent[i]] + vJ

    # inward: the columns of each joint, in the coordinates of the body
    X = model.algebra.identity()
    for i in reversed(path):
        Xup, S, _, _ = kinematics[i]
        Sdot = subspace_rate(model.joint[i], q[model.q_slices[i]], qd[model.v_slices[i]])
        J[i] = X @ (Sdot + _each_cross(model, v[i], S))
        X = X @ Xup
    return np.hstack(J)


def _each_cross(model: Tree, v: Array, S: Array) -> Array:
    """The products v x s of a velocity with the columns of S."""
    products = np.array([model.algebra.cross_motion(v, s) for s in S.T])
    return products.reshape(S.shape[::-1]).T


def point_jacobian(model: Model, q: Array, body: str | int, point: Array) -> Array:
    """J (3, nv) in base coordinates: the velocity of a body's point `point` (3,) [m, body
    coordinates] is J qd.
    """
    E, J = _rotation(model, q, body), body_jacobian(model, q, body)
    jacobian: Array = E.T @ (J[3:] - cross(np.asarray(point), J[:3]))
    return jacobian


def point_jacobian_rate(model: Model, q: Array, qd: Array, body: str | int, point: Array) -> Array:
    """dJ/dt (3, nv) in base coordinates: the acceleration of a body's point is J qdd + dJ/dt qd."""
    E, p = _rotation(model, q, body), np.asarray(point)
    J, Jdot = body_jacobian(model, q, body), body_jacobian_rate(model, q, qd, body)
    v = J @ qd
    v_P = v[3:] + cross(v[:3], p)
    rate: Array = E.T @ (Jdot[3:] - cross(p, Jdot[:3]) - cross(v_P, J[:3]))
    return rate


def _rotation(model: Model, q: Array, body: str | int) -> Array:
    """E (3, 3) from base to body coordinates."""
    X = model.algebra.identity()
    for i in support(model, body):
        X = joint_kinematics(model, i, q, np.zeros(model.nv))[0] @ X
    E: Array = X.E
    return E
