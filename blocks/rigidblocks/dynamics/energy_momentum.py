"""Energy, momentum and centre of mass of the whole model.

Momentum and centre of mass are in base coordinates (RBDA 2.12, Example 9.3).
"""

from typing import Any

import numpy as np

from rigidblocks.dynamics.forward import composite_inertias
from rigidblocks.dynamics.joint_kinematics import (
    base_transforms,
    body_lists,
    body_transform,
    check_lengths,
    joint_kinematics,
    transforms_and_subspaces,
)
from rigidblocks.dynamics.kinematics import body_poses
from rigidblocks.robot.model import Model
from rigidblocks.robot.tree import Tree
from rigidblocks.spatial.spatial import Array, cross


def kinetic_energy(model: Tree, q: Array, qd: Array) -> Any:
    """Return the kinetic energy of all bodies [J] (RBDA Eq 2.67).

        T = sum of v_i . I_i v_i / 2

    Args:
        model: The model; v_i and I_i are the velocity and the inertia of body i.
        q: Joint positions (nq,) [rad or m].
        qd: Joint velocities (nv,).
    """
    check_lengths(model, q=q, qd=qd)
    v = [model.algebra.zero()] * (model.nb + 1)
    T: Any = 0.0
    for i, p in enumerate(model.parent):
        X, _, vJ, _ = joint_kinematics(model, i, q, qd)
        v[i] = X @ v[p] + vJ
        T = T + v[i] @ (model.inertia[i] @ v[i]) / 2
    return T


def potential_energy(model: Tree, q: Array, gravity: Array | None = None) -> Any:
    """Return the potential energy of all bodies in uniform gravity [J], zero at the base origin.

        V = -sum of m_i g . c_i

    Args:
        model: The model; m_i and c_i are the mass and the centre of mass of body i.
        q: Joint positions (nq,) [rad or m].
        gravity: Gravity g (3,) [m/s^2] in base coordinates; by default model.gravity.
    """
    check_lengths(model, q=q)
    g = model.gravity if gravity is None else gravity
    Xup = [joint_kinematics(model, i, q, np.zeros(model.nv))[0] for i in range(model.nb)]
    V: Any = 0.0
    for X, body in zip(base_transforms(model, Xup), model.inertia, strict=True):
        V = V - g @ (body.m * X.r + X.E.T @ body.h)
    return V


def energy(model: Tree, q: Array, qd: Array, gravity: Array | None = None) -> Any:
    """Return the mechanical energy [J]: kinetic plus potential energy.

    Args:
        model: The model.
        q: Joint positions (nq,) [rad or m].
        qd: Joint velocities (nv,).
        gravity: Gravity (3,) [m/s^2] in base coordinates; by default model.gravity.
    """
    return kinetic_energy(model, q, qd) + potential_energy(model, q, gravity)


def body_energy(
    model: Tree, i: int, q: Array, qd: Array, v_p: Array, X0_p: Any, gravity: Array
) -> tuple[Any, Array, Any]:
    """Return the velocity v, pose X0 and energy [J] of body i (a step of an outward pass).

        E = v . I v / 2 - g . (m r + R h)

    I is the inertia of the body, m the mass, c the centre of mass and h = m c the first moment, in
    body coordinates. r is the position of the body origin in base coordinates, and R rotates body
    coordinates to base coordinates. `v_p` and `X0_p` are the velocity and the pose of the parent.
    `gravity` is g (3,) [m/s^2] in base coordinates.
    """
    XJ, _, vJ, _ = model.joint[i].jcalc(q, qd)
    X = body_transform(model, i, XJ, q)
    v, X0, body = X @ v_p + vJ, X @ X0_p, model.inertia[i]
    return v, X0, v @ (body @ v) / 2 - gravity @ (body.m * X0.r + X0.E.T @ body.h)


def total_mass(model: Model) -> Any:
    """Return the total mass of all bodies [kg]."""
    return sum(body.m for body in model.inertia)


def momentum(model: Model, q: Array, qd: Array) -> Array:
    """Return the momentum (6,) of all bodies in base coordinates, the sum of I_i v_i.

    The components are the angular momentum about the base origin [N m s] and the linear momentum
    [N s].

    Args:
        model: The model; v_i and I_i are the velocity and the inertia of body i.
        q: Joint positions (nq,) [rad or m].
        qd: Joint velocities (nv,).
    """
    check_lengths(model, q=q, qd=qd)
    Xup, v, h = body_lists(model, 3)
    v[-1] = h[-1] = model.algebra.zero()

    # outward: velocities, and the momentum of each body
    for i, p in enumerate(model.parent):
        Xup[i], _, vJ, _ = joint_kinematics(model, i, q, qd)
        v[i] = Xup[i] @ v[p] + vJ
        h[i] = model.inertia[i] @ v[i]

    # inward: the momentum of each subtree
    for i in reversed(range(model.nb)):
        h[model.parent[i]] = h[model.parent[i]] + Xup[i].T @ h[i]
    total: Array = h[-1]
    return total


def momentum_matrix(model: Model, q: Array) -> Array:
    """Return the momentum matrix A (6, nv), which maps qd to `momentum` (RBDA Eq 9.12).

    Each column is the momentum of the model if one joint variable has unit velocity and all others
    have zero velocity.
    """
    Xup, S = transforms_and_subspaces(model, q)
    Ic = composite_inertias(model, Xup)
    bodies = zip(body_poses(model, q), Ic, S, strict=False)
    return np.hstack([X.T @ (I @ S_i) for X, I, S_i in bodies])


def centre_of_mass(model: Model, q: Array) -> Array:
    """Return the centre of mass (3,) of all bodies [m], in base coordinates."""
    moments = [
        X.r * body.m + X.E.T @ body.h
        for X, body in zip(body_poses(model, q), model.inertia, strict=True)
    ]
    centre: Array = sum(moments) / total_mass(model)
    return centre


def centre_of_mass_velocity(model: Model, q: Array, qd: Array) -> Array:
    """Return the velocity (3,) of the centre of mass [m/s], in base coordinates."""
    velocity: Array = momentum(model, q, qd)[3:] / total_mass(model)
    return velocity


def centre_of_mass_jacobian(model: Model, q: Array) -> Array:
    """Return the Jacobian J (3, nv) of the centre of mass; the velocity of the centre is J qd."""
    jacobian: Array = momentum_matrix(model, q)[3:] / total_mass(model)
    return jacobian


def centroidal_momentum(model: Model, q: Array, qd: Array) -> Array:
    """Return the momentum (6,) about the centre of mass, along the base axes (RBDA Eq 2.60).

    The components are the angular and the linear momentum [N m s, N s].
    """
    return _shift_moment(centre_of_mass(model, q), momentum(model, q, qd))


def centroidal_momentum_matrix(model: Model, q: Array) -> Array:
    """Return the centroidal momentum matrix A_G (6, nv): `centroidal_momentum` = A_G qd."""
    return _shift_moment(centre_of_mass(model, q), momentum_matrix(model, q))


def _shift_moment(c: Array, h: Array) -> Array:
    """Return the momentum h, (6,) or (6, k), about the point c instead of the base origin."""
    return np.concatenate([h[:3] - cross(c, h[3:]), h[3:]])
