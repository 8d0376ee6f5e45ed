"""Forward dynamics: from forces to motion (RBDA chapter 7)."""

from typing import Any

import numpy as np

from rigidblocks.dynamics.kinematics import base_transforms, joint_kinematics, minus_gravity, per_body
from rigidblocks.model import Model
from rigidblocks.spatial import Array


def aba(model: Model, q: Array, qd: Array, tau: Array, f_ext: Array | None = None, gravity: Array | None = None) -> Array:
    """The joint accelerations qdd (nv,) that the joint forces tau cause: qdd = H(q)^-1 (tau - C(q, qd)).

    The articulated-body algorithm (RBDA Table 7.1). Not finite where an articulated inertia is singular along its joint.
    """
    nb, I, algebra = model.nb, model.inertia, model.algebra
    Xup, S, v, c, IA, pA, U, Dinv, u, a = per_body(model, 10)
    v[-1], a[-1] = model.algebra.zero(), minus_gravity(model, gravity)

    # outward: velocities, and the bias forces of the bodies on their own
    for i, p in enumerate(model.parent):
        Xup[i], S[i], vJ, cJ = joint_kinematics(model, i, q, qd)
        v[i] = Xup[i] @ v[p] + vJ
        c[i] = cJ + algebra.cross_motion(v[i], vJ)
        IA[i] = I[i].articulated()
        pA[i] = algebra.cross_force(v[i], I[i] @ v[i])
    if f_ext is not None:
        X0 = base_transforms(model, Xup)
        pA = [pA[i] - X0[i].force(f_ext[i]) for i in range(nb)]

    # inward: articulated-body inertias and bias forces
    for i in reversed(range(nb)):
        p = model.parent[i]
        U[i] = IA[i] @ S[i]
        Dinv[i] = small_inverse(S[i].T @ U[i])
        u[i] = tau[model.v_slices[i]] - S[i].T @ pA[i]
        if p >= 0:
            UDinv = U[i] @ Dinv[i]
            Ia = IA[i] - algebra.outer(UDinv, U[i])
            pa = pA[i] + Ia @ c[i] + UDinv @ u[i]
            IA[p] = IA[p] + Ia.to_parent(Xup[i])
            pA[p] = pA[p] + Xup[i].T @ pa

    # outward: accelerations
    qdd: list[Any] = [None] * nb
    for i, p in enumerate(model.parent):
        a_free = Xup[i] @ a[p] + c[i]
        qdd[i] = Dinv[i] @ (u[i] - U[i].T @ a_free)
        a[i] = a_free + S[i] @ qdd[i]
    return np.concatenate(qdd)


def small_inverse(D: Array) -> Array:
    """The inverse of a symmetric positive definite matrix as small as a joint's freedoms, by elimination."""
    if len(D) == 1:
        return 1.0 / D
    B = small_inverse(D[:-1, :-1])
    w = B @ D[:-1, -1]
    s = 1.0 / (D[-1, -1] - D[-1, :-1] @ w)
    return np.block([[B + np.outer(w, w) * s, -w[:, None] * s], [-w[None, :] * s, np.array([[s]])]])
