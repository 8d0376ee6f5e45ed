"""Inverse dynamics: from motion to forces (RBDA chapter 5)."""

from typing import Any

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.dynamics.sweeps import (
    Base,
    check_lengths,
    fixed_base,
    less_external_forces,
    minus_gravity,
    per_body,
    to_body,
)
from rigidblocks.model.tree import Tree


def rnea(
    model: Tree,
    q: Array,
    qd: Array,
    qdd: Array,
    f_ext: Array | None = None,
    gravity: Array | None = None,
) -> Array:
    """The joint forces tau (nv,) that give the accelerations qdd: tau = H(q) qdd + C(q, qd).

    The recursive Newton-Euler algorithm (RBDA Table 5.1).
    """
    check_lengths(model, f_ext, q=q, qd=qd, qdd=qdd)
    Xup, S, f = net_forces(
        model, fixed_base(model), minus_gravity(model, gravity), q, qd, qdd, f_ext
    )

    # inward: each joint transmits the force of its whole subtree
    tau: list[Any] = [None] * model.nb
    for i in reversed(range(model.nb)):
        p = model.parent[i]
        tau[i], fa = transmitted(model, i, Xup[i], S[i], f[i])
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
    """The first pass, outward from a base that accelerates with `a_base`: Xup, S, and the force
    that moves each body less the external one.
    """
    b, (Xup, S, v, a, f) = base.body, per_body(model, 5)
    v[b], a[b] = base.v, a_base
    if b >= 0:
        f[b] = model.inertia[b].force(base.v, a_base)
    for i in range(b + 1, model.nb):
        p, vs = model.parent[i], model.v_slices[i]
        Xup[i], S[i], v[i], a[i], f[i] = net_force(
            model, i, q[model.q_slices[i]], qd[vs], qdd[vs], v[p], a[p]
        )
    return Xup, S, less_external_forces(model, base, Xup, f, f_ext)


def net_force(
    model: Tree, i: int, q: Array, qd: Array, qdd: Array, v_p: Array, a_p: Array
) -> tuple[Any, ...]:
    """The first pass at body i: Xup, S, v, a and f = I a + v x* I v, from the motion of its parent.

    The accelerations are those of `Transform.carry`, so a = Xup a_p + S qdd + cJ + v x vJ is in
    their terms.
    """
    XJ, S, vJ, cJ = model.joint[i].jcalc(q, qd)
    Xup = to_body(model, i, XJ, q)
    v = Xup @ v_p + vJ
    a = Xup.carry(v_p, a_p) + S @ qdd + cJ + model.algebra.coriolis(v, vJ)
    return Xup, S, v, a, model.inertia[i].force(v, a)


def transmitted(model: Tree, i: int, Xup: Any, S: Array, f: Array) -> tuple[Array, Array]:
    """The second pass at body i: tau = S^T f, and the force f that its parent feels."""
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
    """The wrench [n; f] that each joint transmits from its parent to its body, (nb, 6) in the
    body's coordinates, and the one that the base gives the robot, (6,) in base coordinates (f_i of
    RBDA Table 5.1).

    The joint force is the part along the joint's freedoms, tau = S^T f; the rest is what the joint
    itself has to bear.
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
    """The joint-space bias force C (nv,): the forces that give no acceleration, C = rnea(q, qd, 0)
    (RBDA Eq 6.2).
    """
    return rnea(model, q, qd, np.zeros(model.nv), f_ext, gravity)
