"""Recursive derivatives of inverse dynamics and of body Jacobians (Spencer 2004, 4.3 and 4.4.1).

Where a joint's S is constant in the coordinates of its body, a change of its position variables by
d moves what comes from its parent by -S d x: the derivative of a transform is a cross product,
(Spencer 2004, Eq A.1, A.2)

    d(X m) = -S d x (X m) + X dm        d(X^T f) = X^T (S d x* f) + X^T df

and a recursion is differentiated line by line. So q may be any configuration, and the derivatives
by it are those by the velocity variables that move it. All joints do but those whose axes move in
the body (universal ones, Euler angles, racks): `rigidblocks.kernels.derivatives` has the
derivatives of any function, for them too, but for floats here no tracer is needed.
"""

from typing import Any, NamedTuple

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.dynamics.sweeps import check_lengths, joint_kinematics, minus_gravity, per_body
from rigidblocks.joint.subspace import subspace_rate
from rigidblocks.model.tree import Tree


class InverseDerivatives(NamedTuple):
    """tau (nv,) of inverse dynamics and its derivatives dtau/dq and dtau/dqd (nv, nv)."""

    tau: Array
    dq: Array
    dqd: Array


class JacobianDerivatives(NamedTuple):
    """The Jacobians of all bodies in body coordinates and their derivatives, which are those of
    their elements.

    J, Jdot and Jddot (nb, 6, nv); dJ (nb, 6, nv, nv), where dJ[..., j] is by variable j.
    """

    J: Array
    dJ: Array
    Jdot: Array
    Jddot: Array


def rnea_derivatives(
    model: Tree, q: Array, qd: Array, qdd: Array, gravity: Array | None = None
) -> InverseDerivatives:
    """The joint forces of `rnea` and their derivatives by q and by qd, by the recursions of Spencer
    2004, 4.3.

    Columns belong to the velocity variables. Raises ValueError for a joint whose S is not constant.
    """
    check_lengths(model, q=q, qd=qd, qdd=qdd)
    check_constant_subspaces(model)
    Xup, S, f, df = _net_forces(model, q, qd, qdd, minus_gravity(model, gravity))
    tau, dtau = per_body(model, 2)

    # inward: each joint transmits the force of its subtree, and a change of it turns that force
    for i in reversed(range(model.nb)):
        p = model.parent[i]
        tau[i], dtau[i] = S[i].T @ f[i], S[i].T @ df[i]
        if p >= 0:
            turned = _each_cross(model, S[i], f[i])
            f[p], df[p] = (
                f[p] + Xup[i].T @ f[i],
                df[p] + Xup[i].T @ (df[i] + _own(model, i, turned, 0.0 * turned)),
            )
    dq, dqd = np.hsplit(np.concatenate(dtau[:-1]), 2)
    return InverseDerivatives(np.concatenate(tau[:-1]), dq, dqd)


class _Motion(NamedTuple):
    """The velocity and the acceleration of a body, and their changes by q and by qd, (6, 2 nv)."""

    v: Array
    a: Array
    dv: Array
    da: Array


def _net_forces(
    model: Tree, q: Array, qd: Array, qdd: Array, a_base: Array
) -> tuple[list[Any], ...]:
    """Outward: Xup, S, the force that moves each body and its changes by q and by qd."""
    Xup, S, f, df, motion = per_body(model, 5)
    v0, d0 = model.algebra.zero(), np.zeros((len(a_base), 2 * model.nv))
    motion[-1] = _Motion(v0, a_base, d0, d0)
    for i, p in enumerate(model.parent):
        Xup[i], S[i], vJ, _ = joint_kinematics(model, i, q, qd)
        motion[i] = _motion(model, i, motion[p], Xup[i], S[i], vJ, qdd[model.v_slices[i]])
        f[i], df[i] = _net_force(model, i, motion[i])
    return Xup, S, f, df


def _motion(
    model: Tree, i: int, parent: _Motion, Xup: Any, S: Array, vJ: Array, qdd: Array
) -> _Motion:
    """The motion of body i from that of its parent: v = X v_p + vJ, a = X a_p + S qdd + v x vJ."""
    crm = model.algebra.crm
    carried_v, carried_a = Xup @ parent.v, Xup @ parent.a
    v = carried_v + vJ
    a = carried_a + S @ qdd + crm(v) @ vJ
    dv = Xup @ parent.dv + _own(model, i, crm(carried_v) @ S, S)
    da = Xup @ parent.da + _own(model, i, crm(carried_a) @ S, crm(v) @ S) - crm(vJ) @ dv
    return _Motion(v, a, dv, da)


def _net_force(model: Tree, i: int, body: _Motion) -> tuple[Array, Array]:
    """f = I a + v x* I v of body i, and its changes."""
    I, turning = model.inertia[i], model.algebra.crf(body.v)
    momentum = I @ body.v
    f = I @ body.a + turning @ momentum
    df = I @ body.da + turning @ (I @ body.dv) + _each_cross(model, body.dv, momentum)
    return f, df


def jacobian_derivatives(model: Tree, q: Array, qd: Array, qdd: Array) -> JacobianDerivatives:
    """The Jacobians of all bodies and their derivatives by each variable and by time (Spencer 2004,
    4.4.1).

        J_i     = X J_p + S                       (X the transform from the parent p to body i)
        dJ_i    = X dJ_p - S_j x X J_p            for a variable j of joint i; X dJ_p for the others
        Jdot_i  = X Jdot_p - vJ x X J_p,   vJ = S qd
        Jddot_i = X Jddot_p - 2 vJ x X Jdot_p + vJ x vJ x X J_p - S qdd x X J_p

    The last corrects the text, which has qdd for qd and the third derivative of q for qdd in two of
    its terms. These are the derivatives of the elements: `body_jacobian_rate` has those of the
    vectors. Raises ValueError for a joint whose S is not constant.
    """
    check_lengths(model, q=q, qd=qd, qdd=qdd)
    check_constant_subspaces(model)
    n, size = model.nv, len(model.algebra.zero())
    still = np.zeros((size, n))
    bodies = [JacobianDerivatives(still, np.zeros((n, size, n)), still, still)] * (model.nb + 1)

    # outward, with dJ[j] by variable j
    for i, p in enumerate(model.parent):
        bodies[i] = _jacobian_of_child(model, i, bodies[p], q, qd, qdd)
    J, dJ, Jdot, Jddot = (np.array(part) for part in zip(*bodies[:-1], strict=True))
    return JacobianDerivatives(J, np.moveaxis(dJ, 1, -1), Jdot, Jddot)


def _jacobian_of_child(
    model: Tree, i: int, parent: JacobianDerivatives, q: Array, qd: Array, qdd: Array
) -> JacobianDerivatives:
    """The Jacobian of body i and its derivatives from those of its parent."""
    crm, vs = model.algebra.crm, model.v_slices[i]
    X, S, vJ, _ = joint_kinematics(model, i, q, qd)
    W, Wd, carried, rate = crm(vJ), crm(S @ qdd[vs]), X @ parent.J, X @ parent.Jdot
    dJ = np.array([X @ change for change in parent.dJ])
    for j, s in zip(range(vs.start, vs.stop), S.T, strict=True):
        dJ[j] -= crm(s) @ carried
    Jddot = X @ parent.Jddot - 2.0 * (W @ rate) + W @ (W @ carried) - Wd @ carried
    return JacobianDerivatives(_placed(carried, vs, S), dJ, rate - W @ carried, Jddot)


def check_constant_subspaces(model: Tree) -> None:
    """Raises ValueError, naming the joint, where S changes with the joint's position."""
    for name, joint in zip(model.joint_names, model.joint, strict=True):
        q = joint.neutral() + 0.5
        if any(np.any(subspace_rate(joint, q, unit)) for unit in np.eye(joint.nv)):
            raise ValueError(
                f"{name} of model '{model.name}' is {joint}, whose S changes with its position; "
                "recursive derivatives are "
                "for joints with a constant S, and rigidblocks.kernels.derivatives has those of "
                "all"
            )


def _own(model: Tree, i: int, by_q: Array, by_qd: Array) -> Array:
    """The columns of joint i among those of all variables q and then qd, with zeros elsewhere."""
    return np.concatenate(
        [
            _placed(np.zeros((len(part), model.nv)), model.v_slices[i], part)
            for part in (by_q, by_qd)
        ],
        1,
    )


def _placed(matrix: Array, columns: slice, part: Array) -> Array:
    """The matrix with `part` added at these columns."""
    placed = matrix.astype(object) if object in (matrix.dtype, part.dtype) else matrix.copy()
    placed[:, columns] = placed[:, columns] + part
    return placed


def _each_cross(model: Tree, motions: Array, f: Array) -> Array:
    """The products m x* f of motion columns m (6, k) with one force f (6,)."""
    return (
        np.array([model.algebra.cross_force(m, f) for m in motions.T])
        .reshape(motions.shape[::-1])
        .T
    )
