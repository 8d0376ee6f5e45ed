"""The maximal-coordinate equations of motion (RBDA Eq 3.74), in base coordinates and with 6x6 matrices.

An independent oracle: it has no recursion over articulated or composite inertias, and takes poses from the matrix
exponential of the joints' motion subspaces. Only the subspace S of each joint, its Xtree and the inertias come from the
model.
"""

from typing import NamedTuple

import numpy as np
from scipy.linalg import block_diag, expm, null_space

from rigidblocks.model import Model
from rigidblocks.spatial import Array, crf, crm


class Solution(NamedTuple):
    qdd: Array
    a: Array  # (nb, 6), base coordinates
    constraint_power: float


def subspaces(model: Model) -> list[Array]:
    """S of each joint, in its body's coordinates; constant for revolute, prismatic and helical joints."""
    return [joint.jcalc(np.zeros(joint.nq), np.zeros(joint.nv)).S for joint in model.joint]


def poses(model: Model, q: Array) -> list[Array]:
    """The 6x6 transforms from base to body coordinates."""
    X: list[Array] = []
    for i, (p, S) in enumerate(zip(model.parent, subspaces(model), strict=True)):
        XJ = expm(-crm(S @ q[model.q_slices[i]]))
        X.append(XJ @ model.Xtree[i].matrix() @ (X[p] if p >= 0 else np.eye(6)))
    return X


def jacobians(model: Model, q: Array) -> list[Array]:
    """J_i (6, nv) with v_i = J_i qd, the velocity of body i in base coordinates (RBDA Eq 2.18)."""
    J: list[Array] = []
    for i, (p, S, X) in enumerate(zip(model.parent, subspaces(model), poses(model, q), strict=True)):
        J.append(J[p].copy() if p >= 0 else np.zeros((6, model.nv)))
        J[i][:, model.v_slices[i]] = np.linalg.inv(X) @ S
    return J


def forward_dynamics(model: Model, q: Array, qd: Array, tau: Array, f_ext: Array | None = None) -> Solution:
    """The solution of [[I, P T], [T^T P^T, 0]] [a; -lambda] = [P T_a tau - p; -Tdot^T P^T v] (RBDA Eq 3.74)."""
    nb, X = model.nb, poses(model, q)
    v = [J @ qd for J in jacobians(model, q)]
    inertia = [x.T @ body.matrix() @ x for x, body in zip(X, model.inertia, strict=True)]
    gravity = np.concatenate([np.zeros(3), model.gravity])
    f_ext = np.zeros((nb, 6)) if f_ext is None else f_ext
    p = np.concatenate([crf(v[i]) @ inertia[i] @ v[i] - inertia[i] @ gravity - f_ext[i] for i in range(nb)])

    # the joints' force subspaces move with their successor bodies
    S = [np.linalg.inv(x) @ s for x, s in zip(X, subspaces(model), strict=True)]
    T = [x.T @ null_space(s.T) for x, s in zip(X, subspaces(model), strict=True)]
    Ta = [x.T @ s @ np.linalg.inv(s.T @ s) for x, s in zip(X, subspaces(model), strict=True)]
    Tdot = [crf(v_i) @ t for v_i, t in zip(v, T, strict=True)]

    P, T_all, V = _incidence(model), block_diag(*T), np.concatenate(v)
    PT = P @ T_all
    K = np.block([[block_diag(*inertia), PT], [PT.T, np.zeros((PT.shape[1],) * 2)]])
    right = np.concatenate([P @ block_diag(*Ta) @ tau - p, -block_diag(*Tdot).T @ P.T @ V])
    solution = np.linalg.solve(K, right)
    a, force = solution[: 6 * nb], -solution[6 * nb :]

    aJ, vJ = (P.T @ a).reshape(nb, 6), (P.T @ V).reshape(nb, 6)
    Sdot_qd = [crm(v[i]) @ S[i] @ qd[model.v_slices[i]] for i in range(nb)]
    qdd = np.concatenate([Ta[i].T @ (aJ[i] - Sdot_qd[i]) for i in range(nb)])
    return Solution(qdd, a.reshape(nb, 6), float((T_all @ force) @ vJ.ravel()))


def _incidence(model: Model) -> Array:
    """P with +1 at the successor and -1 at the predecessor of each joint (RBDA Eq 3.67)."""
    P = np.eye(model.nb)
    for i, p in enumerate(model.parent):
        if p >= 0:
            P[p, i] = -1.0
    return np.kron(P, np.eye(6))
