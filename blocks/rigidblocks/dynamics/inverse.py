"""Inverse dynamics, which computes joint forces from accelerations (RBDA chapter 5)."""

from typing import Any

import numpy as np

from rigidblocks.dynamics.joint_kinematics import (
    Base,
    body_lists,
    body_transform,
    check_lengths,
    fixed_base,
    minus_gravity,
    subtract_external_forces,
)
from rigidblocks.robot.tree import Tree
from rigidblocks.spatial.spatial import Array


def rnea(
    model: Tree,
    q: Array,
    qd: Array,
    qdd: Array,
    f_ext: Array | None = None,
    gravity: Array | None = None,
) -> Array:
    """Return the joint forces tau (nv,) for the accelerations qdd: tau = H(q) qdd + C(q, qd).

    This is the recursive Newton-Euler algorithm (RBDA Table 5.1).

    Args:
        model: Tree of bodies.
        q: Joint positions (nq,) [rad or m].
        qd: Joint velocities (nv,).
        qdd: Joint accelerations (nv,).
        f_ext: External wrenches (nb, 6) on the bodies in base coordinates [N m, N].
        gravity: Gravity (3,) [m/s^2] in base coordinates; by default model.gravity.

    Returns:
        The joint forces (nv,) [N m or N].

    Raises:
        ValueError: A vector has the wrong length.
    """
    check_lengths(model, f_ext, q=q, qd=qd, qdd=qdd)
    Xup, S, f = net_forces(
        model, fixed_base(model), minus_gravity(model, gravity), q, qd, qdd, f_ext
    )

    # inward: each joint transmits the force of its subtree
    tau: list[Any] = [None] * model.nb
    for i in reversed(range(model.nb)):
        p = model.parent[i]
        tau[i], fa = transmitted_force(model, i, Xup[i], S[i], f[i])
        if p >= 0:
            f[p] = f[p] + fa
    return np.concatenate(tau)


def net_forces(
    model: Tree,
    base: Base,
    a_base: Array,
    q: Array,
    qd: Array,
    qdd: Array,
    f_ext: Array | None = None,
) -> tuple[list[Any], list[Any], list[Any]]:
    """Return Xup and S of each joint, and the difference f - f_ext for each body.

    f is the net force on a body (`net_force`), and f_ext the external wrench. The difference is in
    body coordinates. This is the outward pass of the recursive Newton-Euler algorithm. It starts at
    a base with the acceleration `a_base`.
    """
    b, (Xup, S, v, a, f) = base.body, body_lists(model, 5)
    v[b], a[b] = base.v, a_base
    if b >= 0:
        f[b] = model.inertia[b].force(base.v, a_base)
    for i in range(b + 1, model.nb):
        p, vs = model.parent[i], model.v_slices[i]
        Xup[i], S[i], v[i], a[i], f[i] = net_force(
            model, i, q[model.q_slices[i]], qd[vs], qdd[vs], v[p], a[p]
        )
    return Xup, S, subtract_external_forces(model, base, Xup, f, f_ext)


def net_force(
    model: Tree, i: int, q: Array, qd: Array, qdd: Array, v_p: Array, a_p: Array
) -> tuple[Any, ...]:
    """Return Xup, S, the velocity v, the acceleration a and the net force f of body i.

    This is the outward step of the recursive Newton-Euler algorithm at body i. In spatial vectors,
    a = Xup a_p + S qdd + cJ + v x vJ and f = I a + v x* I v. `v_p` and `a_p` are the velocity and
    the acceleration of the parent. The linear component of a and a_p is the acceleration of the
    body origin, as defined in `Transform.carry`.
    """
    XJ, S, vJ, cJ = model.joint[i].jcalc(q, qd)
    Xup = body_transform(model, i, XJ, q)
    v = Xup @ v_p + vJ
    a = Xup.carry(v_p, a_p) + S @ qdd + cJ + model.algebra.coriolis(v, vJ)
    return Xup, S, v, a, model.inertia[i].force(v, a)


def transmitted_force(model: Tree, i: int, Xup: Any, S: Array, f: Array) -> tuple[Array, Array]:
    """Return the joint force tau = S^T f of joint i, and f in coordinates of the parent."""
    del model, i
    return S.T @ f, Xup.T @ f


def joint_wrenches(
    model: Tree,
    q: Array,
    qd: Array,
    qdd: Array,
    f_ext: Array | None = None,
    gravity: Array | None = None,
) -> tuple[Array, Array]:
    """Return the wrench [n; f] that each joint transmits to its body (f_i of RBDA Table 5.1).

    The joint force is the component along the motion subspace, tau = S^T f. The joint structure
    supports the remaining components.

    Args:
        model: Tree of bodies.
        q: Joint positions (nq,) [rad or m].
        qd: Joint velocities (nv,).
        qdd: Joint accelerations (nv,).
        f_ext: External wrenches (nb, 6) on the bodies in base coordinates [N m, N].
        gravity: Gravity (3,) [m/s^2] in base coordinates; by default model.gravity.

    Returns:
        The wrenches (nb, 6) from parent to body in body coordinates, and the wrench (6,) of the
        base on the robot in base coordinates.
    """
    check_lengths(model, f_ext, q=q, qd=qd, qdd=qdd)
    Xup, _, f = net_forces(
        model, fixed_base(model), minus_gravity(model, gravity), q, qd, qdd, f_ext
    )
    base = model.algebra.zero()
    for i in reversed(range(model.nb)):
        p = model.parent[i]
        if p >= 0:
            f[p] = f[p] + Xup[i].T @ f[i]
        else:
            base = base + Xup[i].T @ f[i]
    return np.array(f[: model.nb]), base


def bias_force(
    model: Tree, q: Array, qd: Array, f_ext: Array | None = None, gravity: Array | None = None
) -> Array:
    """Return the joint-space bias force C (nv,) [N m or N], the result of `rnea` for qdd = 0.

    The joint forces tau = C result in zero joint acceleration (RBDA Eq 6.2).

    Args:
        model: Tree of bodies.
        q: Joint positions (nq,) [rad or m].
        qd: Joint velocities (nv,).
        f_ext: External wrenches (nb, 6) on the bodies in base coordinates [N m, N].
        gravity: Gravity (3,) [m/s^2] in base coordinates; by default model.gravity.
    """
    return rnea(model, q, qd, np.zeros(model.nv), f_ext, gravity)
