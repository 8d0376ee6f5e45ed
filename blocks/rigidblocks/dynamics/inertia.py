"""The joint-space inertia matrix (RBDA chapter 6)."""

import numpy as np

from rigidblocks.dynamics.kinematics import check_lengths, joint_kinematics
from rigidblocks.spatial import Array
from rigidblocks.tree import Tree


def crba(model: Tree, q: Array) -> Array:
    """The joint-space inertia matrix H (nv, nv), symmetric positive definite.

    The composite-rigid-body algorithm (RBDA Table 6.2).
    """
    check_lengths(model, q=q)
    nb = model.nb
    still, H = np.zeros(model.nv), np.zeros((model.nv, model.nv), dtype=np.asarray(q).dtype)
    Xup, S, _, _ = zip(*(joint_kinematics(model, i, q, still) for i in range(nb)), strict=True)
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
