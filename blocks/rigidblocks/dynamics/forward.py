"""Forward dynamics: from forces to motion (RBDA chapter 7)."""

from typing import Any

import numpy as np

from rigidblocks.dynamics.kinematics import base_transforms, check_lengths, minus_gravity, per_body
from rigidblocks.scalar import is_number
from rigidblocks.spatial import Array
from rigidblocks.tree import Tree


def aba(model: Tree, q: Array, qd: Array, tau: Array, f_ext: Array | None = None, gravity: Array | None = None) -> Array:
    """The joint accelerations qdd (nv,) that the joint forces tau cause: qdd = H(q)^-1 (tau - C(q, qd)).

    The articulated-body algorithm (RBDA Table 7.1). Not finite where an articulated inertia is singular along its joint.
    """
    check_lengths(model, f_ext, q=q, qd=qd, tau=tau)
    nb = model.nb
    Xup, S, v, c, IA, pA, UDinv, qdd0, a, qdd = per_body(model, 10)
    v[-1], a[-1] = model.algebra.zero(), minus_gravity(model, gravity)

    # outward: velocities, and the bodies on their own
    for i, p in enumerate(model.parent):
        qi, qdi = q[model.q_slices[i]], qd[model.v_slices[i]]
        Xup[i], S[i], v[i], c[i], IA[i], pA[i] = body_alone(model, i, qi, qdi, v[p])
    if f_ext is not None:
        X0 = base_transforms(model, Xup)
        pA = [pA[i] - X0[i].force(f_ext[i]) for i in range(nb)]

    # inward: articulated-body inertias and bias forces
    for i in reversed(range(nb)):
        p, tau_i = model.parent[i], tau[model.v_slices[i]]
        UDinv[i], qdd0[i], Ia, pa = behind_joint(model, i, tau_i, Xup[i], S[i], c[i], IA[i], pA[i])
        if p >= 0:
            IA[p], pA[p] = IA[p] + Ia, pA[p] + pa

    # outward: accelerations
    for i, p in enumerate(model.parent):
        qdd[i], a[i] = acceleration(model, i, Xup[i], S[i], c[i], UDinv[i], qdd0[i], a[p])
    return np.concatenate(qdd[:-1])


def body_alone(model: Tree, i: int, q: Array, qd: Array, v_p: Array) -> tuple[Any, ...]:
    """The first pass at body i: Xup, S, v, c = v x vJ, IA = I and pA = v x* I v, from the velocity of its parent.

    Accelerations here and in the other passes are those of `Transform.carry`.
    """
    XJ, S, vJ, cJ = model.joint[i].jcalc(q, qd)
    Xup = XJ @ model.Xtree[i]
    v = Xup @ v_p + vJ
    c = Xup.carry(v_p, model.algebra.zero()) + cJ + model.algebra.coriolis(v, vJ)
    return Xup, S, v, c, model.inertia[i].articulated(), model.inertia[i].force(v, model.algebra.zero())


def behind_joint(
    model: Tree, i: int, tau: Array, Xup: Any, S: Array, c: Array, IA: Any, pA: Array
) -> tuple[Array, Array, Any, Array]:
    """The second pass at body i: U D^-1, D^-1 u, and the articulated inertia and bias force that its parent feels."""
    del i
    U = IA @ S
    Dinv = small_inverse(S.T @ U)
    UDinv, u = divided(U, Dinv, S), tau - S.T @ pA
    Ia = IA - model.algebra.outer(UDinv, U)
    pa = pA + Ia @ c + UDinv @ u
    return UDinv, Dinv @ u, Ia.to_parent(Xup), Xup.T @ pa


def acceleration(
    model: Tree, i: int, Xup: Any, S: Array, c: Array, UDinv: Array, qdd0: Array, a_p: Array
) -> tuple[Array, Array]:
    """The third pass at body i: qdd = D^-1 (u - U^T a') and a = a' + S qdd, where a' = Xup a_p + c."""
    del model, i
    a = Xup @ a_p + c
    qdd = qdd0 - UDinv.T @ a
    return qdd, a + S @ qdd


def divided(U: Array, Dinv: Array, S: Array) -> Array:
    """U D^-1 of U = I^A S and D = S^T U, exact where a column of S is one of the six unit vectors: S^T U D^-1 = 1.

    It makes the rows and columns of I^a that are zero vanish from the trace (RBDA A.4).
    """
    UDinv = U @ Dinv
    for k, column in enumerate(S.T):
        where = [row for row, s in enumerate(column) if not is_number(s, 0.0)]
        if len(where) == 1 and is_number(S[where[0], k], 1.0):
            UDinv[where[0]] = np.eye(S.shape[1])[k]
    return UDinv


def small_inverse(D: Array) -> Array:
    """The inverse of a symmetric positive definite matrix as small as a joint's freedoms, by elimination."""
    if len(D) == 0:
        return D
    if len(D) < 2:
        return 1.0 / D
    B = small_inverse(D[:-1, :-1])
    w = B @ D[:-1, -1]
    s = 1.0 / (D[-1, -1] - D[-1, :-1] @ w)
    return np.block([[B + np.outer(w, w) * s, -w[:, None] * s], [-w[None, :] * s, np.array([[s]])]])
