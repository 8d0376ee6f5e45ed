"""The recursive algorithms of rigid-body dynamics (RBDA chapters 5 to 7), in body coordinates and in the book's letters.

Shapes and units, the same in all: q (nq,) [rad or m]; qd, qdd and tau (nv,) [per s, per s^2, N m or N]; f_ext (nb, 6),
the external wrench [n; f] on each body in *base* coordinates, its moment about the base origin [N m, N]; gravity (3,)
[m/s^2] in base coordinates, the model's own unless given. Gravity enters as the fictitious base acceleration -a_g.

Lists are indexed by body; their last entry, which is number -1, is the base. Everything works on floats and on traced
scalars, and lengths are not checked here.
"""

from typing import Any

import numpy as np

from rigidblocks.model import Model
from rigidblocks.spatial import Array, ArticulatedInertia, Transform, cross_force, cross_motion, xlt


def rnea(model: Model, q: Array, qd: Array, qdd: Array, f_ext: Array | None = None, gravity: Array | None = None) -> Array:
    """The joint forces tau (nv,) that give the accelerations qdd: tau = H(q) qdd + C(q, qd).

    The recursive Newton-Euler algorithm (RBDA Table 5.1).
    """
    nb, I = model.nb, model.inertia
    Xup, S, v, a, f = _lists(nb + 1, 5)
    v[-1], a[-1] = np.zeros(6), _minus_gravity(model, gravity)

    # outward: velocities, accelerations, and the net force that moves each body
    for i, p in enumerate(model.parent):
        Xup[i], S[i], vJ, cJ = _jcalc(model, i, q, qd)
        v[i] = Xup[i] @ v[p] + vJ
        a[i] = Xup[i] @ a[p] + S[i] @ qdd[model.v_slices[i]] + cJ + cross_motion(v[i], vJ)
        f[i] = I[i] @ a[i] + cross_force(v[i], I[i] @ v[i])
    if f_ext is not None:
        X0 = _base_transforms(model, Xup)
        f = [f[i] - X0[i].force(f_ext[i]) for i in range(nb)]

    # inward: each joint transmits the force of its whole subtree
    (tau,) = _lists(nb, 1)
    for i in reversed(range(nb)):
        tau[i], p = S[i].T @ f[i], model.parent[i]
        if p >= 0:
            f[p] = f[p] + Xup[i].T @ f[i]
    return np.concatenate(tau)


def bias_force(model: Model, q: Array, qd: Array, f_ext: Array | None = None, gravity: Array | None = None) -> Array:
    """The joint-space bias force C (nv,): the forces that give no acceleration, C = rnea(q, qd, 0) (RBDA Eq 6.2)."""
    return rnea(model, q, qd, np.zeros(model.nv), f_ext, gravity)


def crba(model: Model, q: Array) -> Array:
    """The joint-space inertia matrix H (nv, nv), symmetric positive definite.

    The composite-rigid-body algorithm (RBDA Table 6.2).
    """
    nb = model.nb
    still, H = np.zeros(model.nv), np.zeros((model.nv, model.nv), dtype=np.asarray(q).dtype)
    Xup, S, _, _ = zip(*(_jcalc(model, i, q, still) for i in range(nb)), strict=True)
    Ic = list(model.inertia)

    # inward: composite inertias, and each column of H from the force that moves the subtree
    for i in reversed(range(nb)):
        j, p = i, model.parent[i]
        if p >= 0:
            Ic[p] = Ic[p] + Ic[i].to_parent(Xup[i])
        F = Ic[i] @ S[i]
        H[model.v_slices[i], model.v_slices[i]] = S[i].T @ F
        while (p := model.parent[j]) >= 0:
            F, j = Xup[j].T @ F, p
            H[model.v_slices[i], model.v_slices[j]] = F.T @ S[j]
            H[model.v_slices[j], model.v_slices[i]] = S[j].T @ F
    return H


def aba(model: Model, q: Array, qd: Array, tau: Array, f_ext: Array | None = None, gravity: Array | None = None) -> Array:
    """The joint accelerations qdd (nv,) that the joint forces tau cause: qdd = H(q)^-1 (tau - C(q, qd)).

    The articulated-body algorithm (RBDA Table 7.1). Not finite where an articulated inertia is singular along its joint.
    """
    nb, I = model.nb, model.inertia
    Xup, S, v, c, IA, pA, U, Dinv, u, a = _lists(nb + 1, 10)
    v[-1], a[-1] = np.zeros(6), _minus_gravity(model, gravity)

    # outward: velocities, and the bias forces of the bodies on their own
    for i, p in enumerate(model.parent):
        Xup[i], S[i], vJ, cJ = _jcalc(model, i, q, qd)
        v[i] = Xup[i] @ v[p] + vJ
        c[i] = cJ + cross_motion(v[i], vJ)
        IA[i] = I[i].articulated()
        pA[i] = cross_force(v[i], I[i] @ v[i])
    if f_ext is not None:
        X0 = _base_transforms(model, Xup)
        pA = [pA[i] - X0[i].force(f_ext[i]) for i in range(nb)]

    # inward: articulated-body inertias and bias forces
    for i in reversed(range(nb)):
        p = model.parent[i]
        U[i] = IA[i] @ S[i]
        Dinv[i] = _inverse(S[i].T @ U[i])
        u[i] = tau[model.v_slices[i]] - S[i].T @ pA[i]
        if p >= 0:
            UDinv = U[i] @ Dinv[i]
            Ia = IA[i] - ArticulatedInertia.outer(UDinv, U[i])
            pa = pA[i] + Ia @ c[i] + UDinv @ u[i]
            IA[p] = IA[p] + Ia.to_parent(Xup[i])
            pA[p] = pA[p] + Xup[i].T @ pa

    # outward: accelerations
    (qdd,) = _lists(nb, 1)
    for i, p in enumerate(model.parent):
        a_free = Xup[i] @ a[p] + c[i]
        qdd[i] = Dinv[i] @ (u[i] - U[i].T @ a_free)
        a[i] = a_free + S[i] @ qdd[i]
    return np.concatenate(qdd)


def kinetic_energy(model: Model, q: Array, qd: Array) -> Any:
    """The kinetic energy T = sum of v_i . I_i v_i / 2 over the bodies [J] (RBDA Eq 2.67)."""
    v = [np.zeros(6)] * (model.nb + 1)
    T: Any = 0.0
    for i, p in enumerate(model.parent):
        X, _, vJ, _ = _jcalc(model, i, q, qd)
        v[i] = X @ v[p] + vJ
        T = T + v[i] @ (model.inertia[i] @ v[i]) / 2
    return T


def potential_energy(model: Model, q: Array, gravity: Array | None = None) -> Any:
    """The potential energy V = -sum of m_i g . c_i in the uniform gravity field, zero at the base origin [J]."""
    g = model.gravity if gravity is None else gravity
    Xup = [_jcalc(model, i, q, np.zeros(model.nv))[0] for i in range(model.nb)]
    V: Any = 0.0
    for X, body in zip(_base_transforms(model, Xup), model.inertia, strict=True):
        V = V - g @ (body.m * X.r + X.E.T @ body.h)
    return V


def energy(model: Model, q: Array, qd: Array, gravity: Array | None = None) -> Any:
    """The mechanical energy T + V [J]."""
    return kinetic_energy(model, q, qd) + potential_energy(model, q, gravity)


def _jcalc(model: Model, i: int, q: Array, qd: Array) -> tuple[Transform, Array, Array, Array]:
    """The transform from the parent to body i, and S, vJ and cJ of its joint (RBDA Table 5.1)."""
    XJ, S, vJ, cJ = model.joint[i].jcalc(q[model.q_slices[i]], qd[model.v_slices[i]])
    return XJ @ model.Xtree[i], S, vJ, cJ


def _base_transforms(model: Model, Xup: list[Any]) -> list[Transform]:
    """The transforms from base to body coordinates."""
    X0 = [xlt(np.zeros(3))] * (model.nb + 1)
    for i, p in enumerate(model.parent):
        X0[i] = Xup[i] @ X0[p]
    return X0[:-1]


def _lists(length: int, count: int) -> tuple[list[Any], ...]:
    """As many empty lists, with a place for each body."""
    return tuple([None] * length for _ in range(count))


def _minus_gravity(model: Model, gravity: Array | None) -> Array:
    return np.concatenate([np.zeros(3), -np.asarray(model.gravity if gravity is None else gravity)])


def _inverse(D: Array) -> Array:
    """The inverse of a symmetric positive definite matrix as small as a joint's freedoms, by elimination."""
    if len(D) == 1:
        return 1.0 / D
    B = _inverse(D[:-1, :-1])
    w = B @ D[:-1, -1]
    s = 1.0 / (D[-1, -1] - D[-1, :-1] @ w)
    return np.block([[B + np.outer(w, w) * s, -w[:, None] * s], [-w[None, :] * s, np.array([[s]])]])
