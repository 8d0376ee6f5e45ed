"""Kinetic and potential energy."""

from typing import Any

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.dynamics.sweeps import base_transforms, check_lengths, joint_kinematics
from rigidblocks.model.tree import Tree


def kinetic_energy(model: Tree, q: Array, qd: Array) -> Any:
    """The kinetic energy T = sum of v_i . I_i v_i / 2 over the bodies [J] (RBDA Eq 2.67)."""
    check_lengths(model, q=q, qd=qd)
    v = [model.algebra.zero()] * (model.nb + 1)
    T: Any = 0.0
    for i, p in enumerate(model.parent):
        X, _, vJ, _ = joint_kinematics(model, i, q, qd)
        v[i] = X @ v[p] + vJ
        T = T + v[i] @ (model.inertia[i] @ v[i]) / 2
    return T


def potential_energy(model: Tree, q: Array, gravity: Array | None = None) -> Any:
    """The potential energy V = -sum of m_i g . c_i in the uniform gravity field, zero at the base
    origin [J].
    """
    check_lengths(model, q=q)
    g = model.gravity if gravity is None else gravity
    Xup = [joint_kinematics(model, i, q, np.zeros(model.nv))[0] for i in range(model.nb)]
    V: Any = 0.0
    for X, body in zip(base_transforms(model, Xup), model.inertia, strict=True):
        V = V - g @ (body.m * X.r + X.E.T @ body.h)
    return V


def energy(model: Tree, q: Array, qd: Array, gravity: Array | None = None) -> Any:
    """The mechanical energy T + V [J]."""
    return kinetic_energy(model, q, qd) + potential_energy(model, q, gravity)
