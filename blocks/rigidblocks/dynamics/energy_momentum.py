"""Momentum and centre of mass of the whole model, in base coordinates (RBDA 2.12, Example 9.3)."""

from typing import Any

import numpy as np

from rigidblocks.algebra.spatial import Array, cross
from rigidblocks.dynamics.joint_space import composite_inertias
from rigidblocks.dynamics.kinematics import body_poses
from rigidblocks.dynamics.sweeps import (
    check_lengths,
    joint_kinematics,
    per_body,
    transforms_and_subspaces,
)
from rigidblocks.model.model import Model


def total_mass(model: Model) -> Any:
    """The mass of all bodies [kg]."""
    return sum(body.m for body in model.inertia)


def momentum(model: Model, q: Array, qd: Array) -> Array:
    """The momentum [angular, about the base origin; linear] (6,) of all bodies: sum of I_i v_i [N m
    s, N s].
    """
    check_lengths(model, q=q, qd=qd)
    Xup, v, h = per_body(model, 3)
    v[-1] = h[-1] = model.algebra.zero()

    # outward: velocities, and the momentum of each body
    for i, p in enumerate(model.parent):
        Xup[i], _, vJ, _ = joint_kinematics(model, i, q, qd)
        v[i] = Xup[i] @ v[p] + vJ
        h[i] = model.inertia[i] @ v[i]

    # inward: that of its subtree
    for i in reversed(range(model.nb)):
        h[model.parent[i]] = h[model.parent[i]] + Xup[i].T @ h[i]
    total: Array = h[-1]
    return total


def momentum_matrix(model: Model, q: Array) -> Array:
    """A (6, nv) with `momentum` = A qd: column by column the momentum of the subtree that a joint
    moves (RBDA Eq 9.12).
    """
    Xup, S = transforms_and_subspaces(model, q)
    Ic = composite_inertias(model, Xup)
    bodies = zip(body_poses(model, q), Ic, S, strict=False)
    return np.hstack([X.T @ (I @ S_i) for X, I, S_i in bodies])


def centre_of_mass(model: Model, q: Array) -> Array:
    """The centre of mass (3,) of all bodies [m]."""
    moments = [
        X.r * body.m + X.E.T @ body.h
        for X, body in zip(body_poses(model, q), model.inertia, strict=True)
    ]
    centre: Array = sum(moments) / total_mass(model)
    return centre


def centre_of_mass_velocity(model: Model, q: Array, qd: Array) -> Array:
    """The velocity (3,) of the centre of mass [m/s]."""
    velocity: Array = momentum(model, q, qd)[3:] / total_mass(model)
    return velocity


def centre_of_mass_jacobian(model: Model, q: Array) -> Array:
    """J (3, nv): the velocity of the centre of mass is J qd."""
    jacobian: Array = momentum_matrix(model, q)[3:] / total_mass(model)
    return jacobian


def centroidal_momentum(model: Model, q: Array, qd: Array) -> Array:
    """The momentum [angular, about the centre of mass; linear] (6,), along the base axes [N m s, N
    s] (RBDA Eq 2.60).
    """
    return _about(centre_of_mass(model, q), momentum(model, q, qd))


def centroidal_momentum_matrix(model: Model, q: Array) -> Array:
    """A_G (6, nv) with `centroidal_momentum` = A_G qd."""
    return _about(centre_of_mass(model, q), momentum_matrix(model, q))


def _about(c: Array, h: Array) -> Array:
    """Force vectors (6,) or (6, k) with their moments taken about the point c instead of the
    origin.
    """
    return np.concatenate([h[:3] - cross(c, h[3:]), h[3:]])
