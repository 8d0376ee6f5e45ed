"""Maximal-coordinate equations of motion (RBDA Eq 3.74), in base coordinates with 6x6 matrices.

They are an independent reference without recursion over articulated or composite inertias. The
model provides only the joint models, which have their own tests, the tree transforms and the
inertias.
"""

from typing import NamedTuple

import numpy as np
from numpy.linalg import inv, solve
from scipy.linalg import block_diag, null_space

from rigidblocks.robot.joints import JointMotion
from rigidblocks.robot.model import Model
from rigidblocks.spatial.spatial import Array, crf, crm


class Solution(NamedTuple):
    qdd: Array
    a: Array  # (nb, 6), base coordinates
    constraint_power: float


def joint_motions(model: Model, q: Array, qd: Array) -> list[JointMotion]:
    """Return the motions of the joints, in the coordinates of their bodies."""
    return [
        joint.jcalc(q[model.q_slices[i]], qd[model.v_slices[i]])
        for i, joint in enumerate(model.joint)
    ]


def poses(model: Model, q: Array) -> list[Array]:
    """Return the 6x6 transforms from base to body coordinates."""
    X: list[Array] = []
    for i, (p, motion) in enumerate(
        zip(model.parent, joint_motions(model, q, np.zeros(model.nv)), strict=True)
    ):
        X.append(motion.XJ.matrix() @ model.Xtree[i].matrix() @ (X[p] if p >= 0 else np.eye(6)))
    return X


def jacobians(model: Model, q: Array) -> list[Array]:
    """Return J_i (6, nv) with v_i = J_i qd, the velocity in base coordinates (RBDA Eq 2.18)."""
    J: list[Array] = []
    motions = joint_motions(model, q, np.zeros(model.nv))
    for i, (p, motion, X) in enumerate(zip(model.parent, motions, poses(model, q), strict=True)):
        J.append(J[p].copy() if p >= 0 else np.zeros((6, model.nv)))
        J[i][:, model.v_slices[i]] = inv(X) @ motion.S
    return J


def forward_dynamics(
    model: Model, q: Array, qd: Array, tau: Array, f_ext: Array | None = None
) -> Solution:
    """Solve [[I, P T], [T^T P^T, 0]] [a; -lambda] = [P T_a tau - p; T^T Sdot qd] (RBDA Eq 3.74).

    The accelerations of the constraints, -Tdot^T v_J in the book, are T^T Sdot qd because T^T S = 0
    (Eq 3.41).
    """
    nb = model.nb
    v = [J @ qd for J in jacobians(model, q)]
    M, p = _inertias_and_bias(model, q, v, np.zeros((nb, 6)) if f_ext is None else f_ext)
    T, Ta, Sdot_qd = _joint_spaces(model, q, qd, v)

    P, T_all, V = _incidence(model), block_diag(*T), np.concatenate(v)
    PT = P @ T_all
    K = np.block([[M, PT], [PT.T, np.zeros((PT.shape[1],) * 2)]])
    right = np.concatenate([P @ block_diag(*Ta) @ tau - p, T_all.T @ np.concatenate(Sdot_qd)])
    solution = solve(K, right)
    a, force = solution[: 6 * nb], -solution[6 * nb :]

    aJ, vJ = (P.T @ a).reshape(nb, 6), (P.T @ V).reshape(nb, 6)
    qdd = np.concatenate([Ta[i].T @ (aJ[i] - Sdot_qd[i]) for i in range(nb)])
    return Solution(qdd, a.reshape(nb, 6), float((T_all @ force) @ vJ.ravel()))


def _inertias_and_bias(model: Model, q: Array, v: list[Array], f_ext: Array) -> tuple[Array, Array]:
    """Return diag(I_i) and p_i = v_i x* I_i v_i - I_i a_g - f_i, in base coordinates."""
    inertia = [
        X.T @ body.matrix() @ X for X, body in zip(poses(model, q), model.inertia, strict=True)
    ]
    gravity = np.concatenate([np.zeros(3), model.gravity])
    p = [crf(v_i) @ I @ v_i - I @ gravity - f for v_i, I, f in zip(v, inertia, f_ext, strict=True)]
    return block_diag(*inertia), np.concatenate(p)


def _joint_spaces(
    model: Model, q: Array, qd: Array, v: list[Array]
) -> tuple[list[Array], list[Array], list[Array]]:
    """Return T_i, T_ai and Sdot_i qd_i of the joints, which move with their successor bodies."""
    joints = list(zip(poses(model, q), joint_motions(model, q, qd), v, strict=True))
    T = [X.T @ null_space(m.S.T) for X, m, _ in joints]
    Ta = [X.T @ m.S @ inv(m.S.T @ m.S) for X, m, _ in joints]
    Sdot_qd = [inv(X) @ m.cJ + crm(v_i) @ inv(X) @ m.vJ for X, m, v_i in joints]
    return T, Ta, Sdot_qd


def _incidence(model: Model) -> Array:
    """Return P with +1 at the successor and -1 at the predecessor of each joint (RBDA Eq 3.67)."""
    P = np.eye(model.nb)
    for i, p in enumerate(model.parent):
        if p >= 0:
            P[p, i] = -1.0
    return np.kron(P, np.eye(6))
