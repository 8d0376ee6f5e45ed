"""Recursive derivatives of inverse dynamics and of body Jacobians (Spencer 2004, 4.3 and 4.4.1).

Where a joint's S is constant in the coordinates of its body, a change of its position variables by d moves what comes from
its parent by -S d x: the derivative of a transform is a cross product, (Spencer 2004, Eq A.1, A.2)

    d(X m) = -S d x (X m) + X dm        d(X^T f) = X^T (S d x* f) + X^T df

and a recursion is differentiated line by line. So q may be any configuration, and the derivatives by it are those by the
velocity variables that move it. All joints do but those whose axes move in the body (universal ones, Euler angles, racks):
`rigidblocks.differentiation` has the derivatives of any function, for them too, but for floats here no tracer is needed.
"""

from typing import NamedTuple

import numpy as np

from rigidblocks.dynamics.kinematics import check_lengths, joint_kinematics, minus_gravity, per_body
from rigidblocks.dynamics.slope import subspace_rate
from rigidblocks.spatial import Array
from rigidblocks.tree import Tree


class InverseDerivatives(NamedTuple):
    """tau (nv,) of inverse dynamics and its derivatives dtau/dq and dtau/dqd (nv, nv)."""

    tau: Array
    dq: Array
    dqd: Array


class JacobianDerivatives(NamedTuple):
    """The Jacobians of all bodies in body coordinates and their derivatives, which are those of their elements.

    J, Jdot and Jddot (nb, 6, nv); dJ (nb, 6, nv, nv), where dJ[..., j] is by variable j.
    """

    J: Array
    dJ: Array
    Jdot: Array
    Jddot: Array


def rnea_derivatives(model: Tree, q: Array, qd: Array, qdd: Array, gravity: Array | None = None) -> InverseDerivatives:
    """The joint forces of `rnea` and their derivatives by q and by qd, by the recursions of Spencer 2004, 4.3.

    Columns belong to the velocity variables. Raises ValueError for a joint whose S is not constant.
    """
    check_lengths(model, q=q, qd=qd, qdd=qdd)
    check_constant_subspaces(model)
    crm, crf = model.algebra.crm, model.algebra.crf
    Xup, S, v, a, f, dv, da, df = per_body(model, 8)
    v[-1], a[-1] = model.algebra.zero(), minus_gravity(model, gravity)
    dv[-1] = da[-1] = np.zeros((len(v[-1]), 2 * model.nv))

    # outward: the motion of each body, the force that it takes, and what their changes by q and by qd are
    for i, p in enumerate(model.parent):
        Xup[i], S[i], vJ, _ = joint_kinematics(model, i, q, qd)
        I, from_parent = model.inertia[i], (Xup[i] @ v[p], Xup[i] @ a[p])
        v[i] = from_parent[0] + vJ
        a[i] = from_parent[1] + S[i] @ qdd[model.v_slices[i]] + crm(v[i]) @ vJ
        dv[i] = Xup[i] @ dv[p] + _own(model, i, crm(from_parent[0]) @ S[i], S[i])
        da[i] = Xup[i] @ da[p] + _own(model, i, crm(from_parent[1]) @ S[i], crm(v[i]) @ S[i]) - crm(vJ) @ dv[i]
        f[i] = I @ a[i] + crf(v[i]) @ (I @ v[i])
        df[i] = I @ da[i] + crf(v[i]) @ (I @ dv[i]) + _each_cross(model, dv[i], I @ v[i])

    # inward: each joint transmits the force of its subtree, and a change of it turns that force
    tau, dtau = per_body(model, 2)
    for i in reversed(range(model.nb)):
        p = model.parent[i]
        tau[i], dtau[i] = S[i].T @ f[i], S[i].T @ df[i]
        if p >= 0:
            turned = _each_cross(model, S[i], f[i])
            f[p], df[p] = f[p] + Xup[i].T @ f[i], df[p] + Xup[i].T @ (df[i] + _own(model, i, turned, 0.0 * turned))
    dq, dqd = np.hsplit(np.concatenate(dtau[:-1]), 2)
    return InverseDerivatives(np.concatenate(tau[:-1]), dq, dqd)


def jacobian_derivatives(model: Tree, q: Array, qd: Array, qdd: Array) -> JacobianDerivatives:
    """The Jacobians of all bodies and their derivatives by each variable and by time (Spencer 2004, 4.4.1).

        J_i     = X J_p + S                       (X the transform from the parent p to body i)
        dJ_i    = X dJ_p - S_j x X J_p            for a variable j of joint i; X dJ_p for the others
        Jdot_i  = X Jdot_p - vJ x X J_p,   vJ = S qd
        Jddot_i = X Jddot_p - 2 vJ x X Jdot_p + vJ x vJ x X J_p - S qdd x X J_p

    The last corrects the text, which has qdd for qd and the third derivative of q for qdd in two of its terms. These are
    the derivatives of the elements: `body_jacobian_rate` has those of the vectors. Raises ValueError for a joint whose S is
    not constant.
    """
    check_lengths(model, q=q, qd=qd, qdd=qdd)
    check_constant_subspaces(model)
    crm, n, size = model.algebra.crm, model.nv, len(model.algebra.zero())
    J, dJ, Jdot, Jddot = per_body(model, 4)
    J[-1] = Jdot[-1] = Jddot[-1] = np.zeros((size, n))
    dJ[-1] = np.zeros((n, size, n))
    for i, p in enumerate(model.parent):
        vs = model.v_slices[i]
        X, S, vJ, _ = joint_kinematics(model, i, q, qd)
        W, Wd, carried, rate = crm(vJ), crm(S @ qdd[vs]), X @ J[p], X @ Jdot[p]
        J[i] = _placed(carried, vs, S)
        dJ[i] = np.array([X @ change for change in dJ[p]])
        for j, s in zip(range(vs.start, vs.stop), S.T, strict=True):
            dJ[i][j] -= crm(s) @ carried
        Jdot[i] = rate - W @ carried
        Jddot[i] = X @ Jddot[p] - 2.0 * (W @ rate) + W @ (W @ carried) - Wd @ carried
    changes = np.moveaxis(np.array(dJ[:-1]), 1, -1)
    return JacobianDerivatives(np.array(J[:-1]), changes, np.array(Jdot[:-1]), np.array(Jddot[:-1]))


def check_constant_subspaces(model: Tree) -> None:
    """Raises ValueError, naming the joint, where S changes with the joint's position."""
    for name, joint in zip(model.joint_names, model.joint, strict=True):
        q = joint.neutral() + 0.5
        if any(np.any(subspace_rate(joint, q, unit)) for unit in np.eye(joint.nv)):
            raise ValueError(
                f"{name} of model '{model.name}' is {joint}, whose S changes with its position; recursive derivatives are "
                f"for joints with a constant S, and rigidblocks.differentiation has those of all"
            )


def _own(model: Tree, i: int, by_q: Array, by_qd: Array) -> Array:
    """The columns of joint i among those of all variables q and then qd, with zeros elsewhere."""
    return np.concatenate([_placed(np.zeros((len(part), model.nv)), model.v_slices[i], part) for part in (by_q, by_qd)], 1)


def _placed(matrix: Array, columns: slice, part: Array) -> Array:
    """The matrix with `part` added at these columns."""
    placed = matrix.astype(object) if object in (matrix.dtype, part.dtype) else matrix.copy()
    placed[:, columns] = placed[:, columns] + part
    return placed


def _each_cross(model: Tree, motions: Array, f: Array) -> Array:
    """The products m x* f of motion columns m (6, k) with one force f (6,)."""
    return np.array([model.algebra.cross_force(m, f) for m in motions.T]).reshape(motions.shape[::-1]).T
