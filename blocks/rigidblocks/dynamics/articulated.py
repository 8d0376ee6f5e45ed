"""Articulated bodies: what a body feels like that others hang on, assembled across joints (RBDA
7.1, 7.2, 7.4, 7.5).

All arguments of an assembly are in one coordinate system. A joint leads from the handle of the
first articulated body to that of the second: S (6, n) is its motion subspace, T (6, 6-n) a basis of
the constraint forces with T^T S = 0, T_a (6, n) one of the active forces with T_a^T S = 1; c (6,)
is the velocity-product acceleration dS/dt qd, and tau (n,) its force.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from rigidblocks.algebra.linear import block_diagonal, positive_solution
from rigidblocks.algebra.spatial import Array
from rigidblocks.dynamics.forward import across_joint
from rigidblocks.dynamics.sweeps import joint_kinematics
from rigidblocks.model.tree import Tree


class Handle(NamedTuple):
    """f = I a + p: the articulated-body inertia I (6, 6) of a handle and its bias force p (6,)
    (RBDA Eq 7.2).
    """

    I: Array
    p: Array


class InverseHandle(NamedTuple):
    """a = Phi f + b: the inverse inertia Phi (6h, 6h) of h handles and their bias acceleration b
    (6h,) (RBDA Eq 7.4).
    """

    Phi: Array
    b: Array


class TwoHandles(NamedTuple):
    """a1 = Phi1 f1 + Phi12 f2 + b1, a2 = Phi12^T f1 + Phi2 f2 + b2: an articulated body with two
    handles (RBDA Eq 7.57).
    """

    Phi1: Array
    Phi12: Array
    Phi2: Array
    b1: Array
    b2: Array


class HandleJoint(NamedTuple):
    """A joint from handle number `near` to handle number `far`, with T and c as above."""

    near: int
    far: int
    T: Array
    c: Array


def articulated_inertias(model: Tree, q: Array) -> list[Any]:
    """The articulated-body inertia of every body as the handle of its subtree, in its coordinates
    (RBDA Eq 7.21, 7.23).
    """
    IA = [body.articulated() for body in model.inertia]
    for i in reversed(range(model.nb)):
        Xup, S, _, _ = joint_kinematics(model, i, q, np.zeros(model.nv))
        if (p := model.parent[i]) >= 0:
            _, _, Ia = across_joint(model, IA[i], S)
            IA[p] = IA[p] + Ia.to_parent(Xup)
    return IA


def assembled(one: Handle, two: Handle, S: Array, c: Array, tau: Array) -> Handle:
    """The first handle after the second is joined to it (RBDA Eq 7.19, 7.20; the standard formulae
    of Table 7.2).

        I^A = I1 + I2 - I2 S (S^T I2 S)^-1 S^T I2

    Both handles must be free to move in all ways.
    """
    U = two.I @ S
    z = tau - S.T @ (two.p + two.I @ c)
    I = one.I + two.I - U @ positive_solution(S.T @ U, U.T)
    p = one.p + two.p + two.I @ c + U @ positive_solution(S.T @ U, z)
    return Handle(I, p)


def assembled_inverse(
    one: InverseHandle, two: InverseHandle, T: Array, Ta: Array, c: Array, tau: Array
) -> InverseHandle:
    """The first handle after the second is joined to it, by inverse inertias (RBDA Table 7.2,
    variant 1).

        Phi^A = Phi1 - Phi1 T (T^T (Phi1 + Phi2) T)^-1 T^T Phi1

    The joint must not repeat a constraint that is there already: one handle that is free in all
    ways is enough.
    """
    Phi = one.Phi + two.Phi
    Y, PhiT = T.T @ Phi @ T, one.Phi @ T
    z = T.T @ (c + one.b - two.b - Phi @ (Ta @ tau))
    return InverseHandle(
        one.Phi - PhiT @ positive_solution(Y, PhiT.T),
        one.b - one.Phi @ (Ta @ tau) - PhiT @ positive_solution(Y, z),
    )


def assembled_by_constraint(
    one: Handle, two: Handle, T: Array, Ta: Array, c: Array, tau: Array
) -> Handle:
    """The first handle after the second is joined to it, by the joint's constraint (RBDA Table 7.2,
    variant 2).

        I^A = I1 + T (T^T I2^-1 T)^-1 T^T

    Both handles must be free to move in all ways.
    """
    Y = T.T @ positive_solution(two.I, T)
    z = T.T @ (c - positive_solution(two.I, Ta @ tau - two.p))
    return Handle(
        one.I + T @ positive_solution(Y, T.T), one.p + Ta @ tau + T @ positive_solution(Y, z)
    )


def assembled_two_handles(one: TwoHandles, two: TwoHandles, T: Array, c: Array) -> TwoHandles:
    """Handle 1 of the first and handle 2 of the second body, after a joint from handle 2 of the
    first to handle 1 of the second (RBDA Eq 7.63).

    An active force of the joint must be in the bias accelerations already. One of the joined
    handles must be free to move in all ways.
    """
    Y, beta = T.T @ (one.Phi2 + two.Phi1) @ T, c - two.b1 + one.b2
    near, far = T.T @ one.Phi12.T, T.T @ two.Phi12
    near_Y, far_Y = positive_solution(Y, near), positive_solution(Y, far)
    return TwoHandles(
        one.Phi1 - near.T @ near_Y,
        near.T @ far_Y,
        two.Phi2 - far.T @ far_Y,
        one.b1 - near_Y.T @ (T.T @ beta),
        two.b2 + far_Y.T @ (T.T @ beta),
    )


def assembled_handles(
    bodies: Sequence[InverseHandle], joints: Sequence[HandleJoint], keep: Sequence[int]
) -> InverseHandle:
    """The handles `keep` of what articulated bodies with any number of handles become when joints
    connect them, all at once; so they may close loops (the end of RBDA 7.5).

        lam = Y^-1 (c - P^T b),  Y = P^T Phi P,  Phi' = Phi - Phi P Y^-1 P^T Phi,
        b' = b + Phi P lam

    Handles have their numbers body after body, and P has a column T at the far and -T at the near
    handle of each joint. An active force of a joint must be in the bias accelerations already.
    Raises ValueError without a joint or a handle to keep, for a handle that is not there, and where
    the joints' constraints are not independent.
    """
    if not joints or not keep:
        raise ValueError("handles are assembled by at least one joint, and at least one is kept")
    Phi, b = block_diagonal([body.Phi for body in bodies]), np.hstack([body.b for body in bodies])
    n = len(joints[0].c)
    _check_handles(joints, keep, len(b) // n)
    P = np.hstack([_connection(joint, len(b)) for joint in joints])
    PhiP, c = Phi @ P, np.hstack([joint.T.T @ joint.c for joint in joints])
    Y = P.T @ PhiP
    kept = np.hstack([np.arange(n * k, n * k + n) for k in keep])
    return InverseHandle(
        (Phi - PhiP @ positive_solution(Y, PhiP.T))[np.ix_(kept, kept)],
        (b + PhiP @ positive_solution(Y, c - P.T @ b))[kept],
    )


def _connection(joint: HandleJoint, size: int) -> Array:
    """What a joint's constraint forces do to all handles (size, 6 - n)."""
    n, columns = joint.T.shape
    P = np.zeros((size, columns))
    P[n * joint.far : n * joint.far + n] = joint.T
    P[n * joint.near : n * joint.near + n] = -joint.T
    return P


def _check_handles(joints: Sequence[HandleJoint], keep: Sequence[int], count: int) -> None:
    for k, joint in enumerate(joints):
        if joint.near == joint.far:
            raise ValueError(f"joint {k} connects handle {joint.near} with itself")
    for handle in (*keep, *(k for joint in joints for k in (joint.near, joint.far))):
        if not 0 <= handle < count:
            raise ValueError(f"there is no handle {handle}; the bodies have 0 to {count - 1}")
