"""Inverse dynamics: from motion to forces (RBDA chapter 5)."""

from typing import Any

import numpy as np

from rigidblocks.dynamics.kinematics import base_transforms, joint_kinematics, minus_gravity, per_body
from rigidblocks.model import Model
from rigidblocks.spatial import Array


def rnea(model: Model, q: Array, qd: Array, qdd: Array, f_ext: Array | None = None, gravity: Array | None = None) -> Array:
    """The joint forces tau (nv,) that give the accelerations qdd: tau = H(q) qdd + C(q, qd).

    The recursive Newton-Euler algorithm (RBDA Table 5.1).
    """
    nb, I, algebra = model.nb, model.inertia, model.algebra
    Xup, S, v, a, f = per_body(model, 5)
    v[-1], a[-1] = model.algebra.zero(), minus_gravity(model, gravity)

    # outward: velocities, accelerations, and the net force that moves each body
    for i, p in enumerate(model.parent):
        Xup[i], S[i], vJ, cJ = joint_kinematics(model, i, q, qd)
        v[i] = Xup[i] @ v[p] + vJ
        a[i] = Xup[i] @ a[p] + S[i] @ qdd[model.v_slices[i]] + cJ + algebra.cross_motion(v[i], vJ)
        f[i] = I[i] @ a[i] + algebra.cross_force(v[i], I[i] @ v[i])
    if f_ext is not None:
        X0 = base_transforms(model, Xup)
        f = [f[i] - X0[i].force(f_ext[i]) for i in range(nb)]

    # inward: each joint transmits the force of its whole subtree
    tau: list[Any] = [None] * nb
    for i in reversed(range(nb)):
        tau[i], p = S[i].T @ f[i], model.parent[i]
        if p >= 0:
            f[p] = f[p] + Xup[i].T @ f[i]
    return np.concatenate(tau)


def bias_force(model: Model, q: Array, qd: Array, f_ext: Array | None = None, gravity: Array | None = None) -> Array:
    """The joint-space bias force C (nv,): the forces that give no acceleration, C = rnea(q, qd, 0) (RBDA Eq 6.2)."""
    return rnea(model, q, qd, np.zeros(model.nv), f_ext, gravity)
