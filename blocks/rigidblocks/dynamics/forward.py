"""Forward dynamics: from forces to motion (RBDA chapter 7).

The articulated-body algorithm is three passes over the bodies (RBDA Table 7.1), each of one step a
body. The passes serve hybrid dynamics, rotors and floating bases too, which differ in what they
take to be behind a joint; the steps serve the C text that does not grow with the model.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from rigidblocks.algebra.linear import small_inverse
from rigidblocks.algebra.scalar import is_number
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
from rigidblocks.model.resistance import check_resistance
from rigidblocks.model.tree import Tree


def aba(
    model: Tree,
    q: Array,
    qd: Array,
    tau: Array,
    f_ext: Array | None = None,
    gravity: Array | None = None,
) -> Array:
    """The joint accelerations qdd (nv,) that the joint forces tau cause: qdd = H(q)^-1 (tau - C(q,
    qd)).

    The articulated-body algorithm (RBDA Table 7.1), of the tree: loop joints of the model are left
    open (`rigidblocks.loops` closes them). Raises ValueError for a joint that can move without
    moving any inertia.
    """
    check_resistance(model)
    check_lengths(model, f_ext, q=q, qd=qd, tau=tau)
    alone = bodies_alone(model, fixed_base(model), q, qd, f_ext)
    joined = articulated(model, alone, force_given(model, tau))
    return np.concatenate(accelerations(model, joined, minus_gravity(model, gravity)).qdd)


class Bodies(NamedTuple):
    """Bodies on their own: lists by body, with everything in the body's coordinates (RBDA Table
    7.1).

    `base` is the number of the body that they hang on. c, as all accelerations in the passes, is
    one of `Transform.carry`.
    """

    base: int
    Xup: list[Any]
    S: list[Array]
    v: list[Array]
    c: list[Array]
    IA: list[Any]
    pA: list[Array]


class Articulated(NamedTuple):
    """Bodies as the handles of their subtrees, with their articulated inertias and bias forces.

    A joint moves with qdd = qdd0 - UDinv^T a', where a' is what its body's acceleration would be
    without it.
    """

    bodies: Bodies
    UDinv: list[Array]
    qdd0: list[Array]


class Accelerations(NamedTuple):
    """Those of the joints, in order, and those of the bodies, by body."""

    qdd: list[Array]
    a: list[Array]


Behind = Callable[..., tuple[Array, Array, Any, Array]]


# the passes


def bodies_alone(
    model: Tree, base: Base, q: Array, qd: Array, f_ext: Array | None = None
) -> Bodies:
    """The first pass, outward from the base: velocities, and the bodies on their own."""
    b, (Xup, S, v, c, IA, pA) = base.body, per_body(model, 6)
    v[b] = base.v
    if b >= 0:
        IA[b], pA[b] = alone(model, b, base.v)
    for i in range(b + 1, model.nb):
        qi, qdi = q[model.q_slices[i]], qd[model.v_slices[i]]
        Xup[i], S[i], v[i], c[i], IA[i], pA[i] = body_alone(model, i, qi, qdi, v[model.parent[i]])
    return Bodies(b, Xup, S, v, c, IA, less_external_forces(model, base, Xup, pA, f_ext))


def articulated(model: Tree, bodies: Bodies, behind: Behind) -> Articulated:
    """The second pass, inward: articulated-body inertias and bias forces.

    `behind(i, Xup, S, c, IA, pA)` is a step like `behind_joint` for joint i.
    """
    base, Xup, S, _, c = bodies[:5]
    IA, pA = list(bodies.IA), list(bodies.pA)
    UDinv, qdd0 = per_body(model, 2)
    for i in reversed(range(base + 1, model.nb)):
        UDinv[i], qdd0[i], Ia, pa = behind(i, Xup[i], S[i], c[i], IA[i], pA[i])
        if (p := model.parent[i]) >= 0:
            IA[p], pA[p] = IA[p] + Ia, pA[p] + pa
    return Articulated(bodies._replace(IA=IA, pA=pA), UDinv, qdd0)


def accelerations(model: Tree, joined: Articulated, a_base: Array) -> Accelerations:
    """The third pass, outward: accelerations, from that of the base."""
    (base, Xup, S, _, c, _, _), UDinv, qdd0 = joined
    a, qdd = per_body(model, 2)
    a[base] = a_base
    for i in range(base + 1, model.nb):
        a_p = a[model.parent[i]]
        qdd[i], a[i] = acceleration(model, i, Xup[i], S[i], c[i], UDinv[i], qdd0[i], a_p)
    return Accelerations(qdd[base + 1 : model.nb], a)


# their steps


def body_alone(model: Tree, i: int, q: Array, qd: Array, v_p: Array) -> tuple[Any, ...]:
    """The first pass at body i: Xup, S, v, c = v x vJ, IA = I and pA = v x* I v, from the velocity
    of its parent.
    """
    XJ, S, vJ, cJ = model.joint[i].jcalc(q, qd)
    Xup = to_body(model, i, XJ, q)
    v = Xup @ v_p + vJ
    c = Xup.carry(v_p, model.algebra.zero()) + cJ + model.algebra.coriolis(v, vJ)
    return Xup, S, v, c, *alone(model, i, v)


def alone(model: Tree, i: int, v: Array) -> tuple[Any, Array]:
    """IA = I and pA = v x* I v of body i, as if nothing hung on it."""
    return model.inertia[i].articulated(), model.inertia[i].force(v, model.algebra.zero())


def behind_joint(
    model: Tree,
    i: int,
    tau: Array,
    Xup: Any,
    S: Array,
    c: Array,
    IA: Any,
    pA: Array,
    rotor: Array | None = None,
) -> tuple[Array, Array, Any, Array]:
    """The second pass at body i: U D^-1, D^-1 u, and the articulated inertia and bias force that
    its parent feels.

    `rotor` (nv,) is the inertia of rotors that is felt at the joint alone (RBDA Eq 9.28).
    """
    del i
    UDinv, Dinv, Ia = across_joint(model, IA, S, rotor)
    u = tau - S.T @ pA
    pa = pA + Ia @ c + UDinv @ u
    return UDinv, Dinv @ u, Ia.to_parent(Xup), Xup.T @ pa


def behind_driven_joint(
    model: Tree, i: int, qdd: Array, Xup: Any, S: Array, c: Array, IA: Any, pA: Array
) -> tuple[Array, Array, Any, Array]:
    """The same at a joint of known acceleration qdd, which transmits all inertia: U D^-1 stands for
    0, D^-1 u for qdd (RBDA Table 9.3).
    """
    del model, i
    pa = pA + IA @ (c + S @ qdd)
    return np.zeros(S.shape), qdd, IA.to_parent(Xup), Xup.T @ pa


def acceleration(
    model: Tree, i: int, Xup: Any, S: Array, c: Array, UDinv: Array, qdd0: Array, a_p: Array
) -> tuple[Array, Array]:
    """The third pass at body i: qdd = D^-1 (u - U^T a') and a = a' + S qdd, where a' = Xup a_p +
    c.
    """
    del model, i
    a = Xup @ a_p + c
    qdd = qdd0 - UDinv.T @ a
    return qdd, a + S @ qdd


def force_given(model: Tree, tau: Array) -> Behind:
    """The second pass at a joint of which the force is given."""
    return lambda i, *body: behind_joint(model, i, tau[model.v_slices[i]], *body)


def across_joint(
    model: Tree, IA: Any, S: Array, rotor: Array | None = None
) -> tuple[Array, Array, Any]:
    """U D^-1 and D^-1 of U = I^A S and D = S^T U, and the articulated inertia I^a = I^A - U D^-1
    U^T that is felt across a joint.

    D has the inertia of `rotor` on its diagonal besides.
    """
    U = IA @ S
    D = S.T @ U
    Dinv = small_inverse(D if rotor is None else D + np.diag(rotor))
    UDinv = divided(U, Dinv, S) if rotor is None else U @ Dinv
    return UDinv, Dinv, IA - model.algebra.outer(UDinv, U)


def divided(U: Array, Dinv: Array, S: Array) -> Array:
    """U D^-1 of U = I^A S and D = S^T U, exact where a column of S is one of the six unit vectors:
    S^T U D^-1 = 1.

    It makes the rows and columns of I^a that are zero vanish from the trace (RBDA A.4).
    """
    UDinv = U @ Dinv
    for k, column in enumerate(S.T):
        where = [row for row, s in enumerate(column.tolist()) if not is_number(s, 0.0)]
        if len(where) == 1 and is_number(S[where[0], k], 1.0):
            UDinv[where[0]] = np.eye(S.shape[1])[k]
    return UDinv
