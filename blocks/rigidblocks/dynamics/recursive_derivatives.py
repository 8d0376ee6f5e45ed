"""Recursive derivatives of inverse dynamics and of body Jacobians (Spencer 2004, 4.3 and 4.4.1).

The motion subspace S of each joint must be constant in body coordinates. The derivative of a
transform X with respect to the joint position is then a cross product (Spencer 2004, Eq A.1, A.2).
For small changes dq of the joint position, dm of a motion vector m and df of a force vector f:

    d(X m) = -S dq x (X m) + X dm        d(X^T f) = X^T (S dq x* f) + X^T df

The module differentiates each equation of the recursions. Derivatives with respect to q are
derivatives with respect to the velocity variables, so q may contain quaternions.

The module does not support joints whose axes move in the body: universal joints, joints with Euler
angles, and rack and pinion joints. For these joints use `rigidblocks.kernels.compiled_dynamics`,
which differentiates any function. For floats, the functions of this module need no tracer.
"""

from typing import Any, NamedTuple

import numpy as np

from rigidblocks.dynamics.joint_kinematics import (
    body_lists,
    check_lengths,
    joint_kinematics,
    minus_gravity,
)
from rigidblocks.robot.joints.base import subspace_rate
from rigidblocks.robot.tree import Tree
from rigidblocks.spatial.spatial import Array


class InverseDerivatives(NamedTuple):
    """Joint forces tau (nv,), and their derivatives dq = dtau/dq and dqd = dtau/dqd (nv, nv)."""

    tau: Array
    dq: Array
    dqd: Array


class JacobianDerivatives(NamedTuple):
    """Jacobians of all bodies in body coordinates, and the derivatives of the matrix elements.

    J and its time derivatives Jdot and Jddot are (nb, 6, nv). dJ is (nb, 6, nv, nv). dJ[..., j] is
    the derivative with respect to variable j.
    """

    J: Array
    dJ: Array
    Jdot: Array
    Jddot: Array


def rnea_derivatives(
    model: Tree, q: Array, qd: Array, qdd: Array, gravity: Array | None = None
) -> InverseDerivatives:
    """Return the joint forces of `rnea` and their derivatives w.r.t. q and qd (Spencer 2004, 4.3).

    The columns correspond to the velocity variables.

    Args:
        model: Tree of bodies.
        q: Joint positions (nq,) [rad or m].
        qd: Joint velocities (nv,).
        qdd: Joint accelerations (nv,).
        gravity: Gravity (3,) [m/s^2] in base coordinates; by default model.gravity.

    Raises:
        ValueError: S of a joint is not constant.
    """
    check_lengths(model, q=q, qd=qd, qdd=qdd)
    check_constant_subspaces(model)
    Xup, S, f, df = _net_forces(model, q, qd, qdd, minus_gravity(model, gravity))
    tau, dtau = body_lists(model, 2)

    # inward: each joint transmits the force of its subtree, and a change of q rotates this force
    for i in reversed(range(model.nb)):
        p = model.parent[i]
        tau[i], dtau[i] = S[i].T @ f[i], S[i].T @ df[i]
        if p >= 0:
            turned = _cross_columns_with_force(model, S[i], f[i])
            f[p], df[p] = (
                f[p] + Xup[i].T @ f[i],
                df[p] + Xup[i].T @ (df[i] + _columns_of_joint(model, i, turned, 0.0 * turned)),
            )
    dq, dqd = np.hsplit(np.concatenate(dtau[:-1]), 2)
    return InverseDerivatives(np.concatenate(tau[:-1]), dq, dqd)


class _Motion(NamedTuple):
    """Velocity v and acceleration a of a body, and their derivatives dv and da (6, 2 nv).

    The first nv columns are derivatives with respect to q, the last nv columns with respect to qd.
    """

    v: Array
    a: Array
    dv: Array
    da: Array


def _net_forces(
    model: Tree, q: Array, qd: Array, qdd: Array, a_base: Array
) -> tuple[list[Any], ...]:
    """Return Xup, S, the net forces of all bodies and the derivatives of these forces.

    The outward pass starts at a base with the acceleration `a_base`.
    """
    Xup, S, f, df, motion = body_lists(model, 5)
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
    """Return the motion of body i and its derivatives from the motion of the parent.

    Xup is the transform from the parent to the body. vJ = S qd is the joint velocity, and qdd
    contains the accelerations of the joint.
    """
    crm = model.algebra.crm
    carried_v, carried_a = Xup @ parent.v, Xup @ parent.a
    v = carried_v + vJ
    a = carried_a + S @ qdd + crm(v) @ vJ
    dv = Xup @ parent.dv + _columns_of_joint(model, i, crm(carried_v) @ S, S)
    da = (
        Xup @ parent.da + _columns_of_joint(model, i, crm(carried_a) @ S, crm(v) @ S) - crm(vJ) @ dv
    )
    return _Motion(v, a, dv, da)


def _net_force(model: Tree, i: int, body: _Motion) -> tuple[Array, Array]:
    """Return the net force f = I a + v x* I v of body i, and its derivatives."""
    I, turning = model.inertia[i], model.algebra.crf(body.v)
    momentum = I @ body.v
    f = I @ body.a + turning @ momentum
    df = I @ body.da + turning @ (I @ body.dv) + _cross_columns_with_force(model, body.dv, momentum)
    return f, df


def jacobian_derivatives(model: Tree, q: Array, qd: Array, qdd: Array) -> JacobianDerivatives:
    """Return the body Jacobians and their derivatives w.r.t. q and t (Spencer 2004, 4.4.1).

        J_i     = X J_p + S                       (X the transform from the parent p to body i)
        dJ_i    = X dJ_p - S_j x X J_p            for a variable j of joint i; X dJ_p for the others
        Jdot_i  = X Jdot_p - vJ x X J_p,   vJ = S qd
        Jddot_i = X Jddot_p - 2 vJ x X Jdot_p + vJ x vJ x X J_p - S qdd x X J_p

    Spencer 2004 prints the last equation with two errors: qdd in place of qd, and the third
    derivative of q in place of qdd. The results are derivatives of the matrix elements, whereas
    `body_jacobian_rate` returns derivatives of the column vectors.

    Args:
        model: Tree of bodies.
        q: Joint positions (nq,) [rad or m].
        qd: Joint velocities (nv,).
        qdd: Joint accelerations (nv,).

    Raises:
        ValueError: S of a joint is not constant.
    """
    check_lengths(model, q=q, qd=qd, qdd=qdd)
    check_constant_subspaces(model)
    n, size = model.nv, len(model.algebra.zero())
    still = np.zeros((size, n))
    bodies = [JacobianDerivatives(still, np.zeros((n, size, n)), still, still)] * (model.nb + 1)

    # outward; dJ[j] is the derivative with respect to variable j
    for i, p in enumerate(model.parent):
        bodies[i] = _jacobian_of_child(model, i, bodies[p], q, qd, qdd)
    J, dJ, Jdot, Jddot = (np.array(part) for part in zip(*bodies[:-1], strict=True))
    return JacobianDerivatives(J, np.moveaxis(dJ, 1, -1), Jdot, Jddot)


def _jacobian_of_child(
    model: Tree, i: int, parent: JacobianDerivatives, q: Array, qd: Array, qdd: Array
) -> JacobianDerivatives:
    """Return the Jacobian of body i and its derivatives from the results of its parent."""
    crm, vs = model.algebra.crm, model.v_slices[i]
    X, S, vJ, _ = joint_kinematics(model, i, q, qd)
    W, Wd, carried, rate = crm(vJ), crm(S @ qdd[vs]), X @ parent.J, X @ parent.Jdot
    dJ = np.array([X @ change for change in parent.dJ])
    for j, s in zip(range(vs.start, vs.stop), S.T, strict=True):
        dJ[j] -= crm(s) @ carried
    Jddot = X @ parent.Jddot - 2.0 * (W @ rate) + W @ (W @ carried) - Wd @ carried
    return JacobianDerivatives(_add_columns(carried, vs, S), dJ, rate - W @ carried, Jddot)


def check_constant_subspaces(model: Tree) -> None:
    """Raise ValueError if a motion subspace S varies; the message contains the joint name."""
    for name, joint in zip(model.joint_names, model.joint, strict=True):
        q = joint.neutral() + 0.5
        if any(np.any(subspace_rate(joint, q, unit)) for unit in np.eye(joint.nv)):
            raise ValueError(
                f"{name} of model '{model.name}' is {joint}, whose S changes with its position; "
                "recursive derivatives need a constant S; use rigidblocks.kernels.compiled_dynamics"
            )


def _columns_of_joint(model: Tree, i: int, by_q: Array, by_qd: Array) -> Array:
    """Return a matrix of derivatives (k, 2 nv) that is zero except in the columns of joint i.

    The first nv columns are derivatives with respect to q (`by_q` for joint i), the last nv columns
    with respect to qd (`by_qd`).
    """
    return np.concatenate(
        [
            _add_columns(np.zeros((len(part), model.nv)), model.v_slices[i], part)
            for part in (by_q, by_qd)
        ],
        1,
    )


def _add_columns(matrix: Array, columns: slice, part: Array) -> Array:
    """Return a copy of a matrix, with `part` added to the columns `columns`."""
    placed = matrix.astype(object) if object in (matrix.dtype, part.dtype) else matrix.copy()
    placed[:, columns] = placed[:, columns] + part
    return placed


def _cross_columns_with_force(model: Tree, motions: Array, f: Array) -> Array:
    """Return the products m x* f of motion columns m (6, k) with one force f (6,)."""
    return (
        np.array([model.algebra.cross_force(m, f) for m in motions.T])
        .reshape(motions.shape[::-1])
        .T
    )
