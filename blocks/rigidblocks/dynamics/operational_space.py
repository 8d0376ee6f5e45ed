"""Articulated bodies, operational-space dynamics and bodies with constrained motion.

- A handle is a body of a mechanism on which forces act (RBDA 7.1, 7.2, 7.4, 7.5). The `assemble`
  functions join articulated bodies across a joint. The joint connects the handle of the first
  body to the handle of the second.
- `handle_equation` and `operational_inertia` project the equation of motion of a model onto
  handles or onto a task (RBDA 7.2.1).
- `constrained_body`, `constrained_motion` and `body_joint_space` describe a body whose joint
  constrains some of its degrees of freedom (RBDA 3.3, 3.6). The body without its joint is a
  `Handle`.

All arguments of a function are in one coordinate system. S (6, n) is the motion subspace of the
joint, of full column rank: v = S qd. T (6, 6-n) is a basis of the constraint forces with
T^T S = 0. T_a (6, n) is a basis of the active forces with T_a^T S = 1. c or `bias` (6,) is the
velocity-product acceleration dS/dt qd, and tau (n,) is the joint force.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from rigidblocks.dynamics.forward import crba, expanded_parent, project_inertia
from rigidblocks.dynamics.inverse import bias_force
from rigidblocks.dynamics.joint_kinematics import joint_kinematics
from rigidblocks.dynamics.kinematics import body_jacobian, body_jacobian_rate
from rigidblocks.robot.model import Model
from rigidblocks.robot.tree import Tree
from rigidblocks.spatial.branch_sparsity import ltl, mpy_lit, solve_ltdl
from rigidblocks.spatial.linear_algebra import block_diagonal, linear_solver, positive_solution
from rigidblocks.spatial.spatial import Array


class Handle(NamedTuple):
    """Articulated body with one handle: f = I a + p (RBDA Eq 7.2).

    f (6,) is the force on the handle, and a (6,) is its acceleration. I (6, 6) is the
    articulated-body inertia, and p (6,) is the bias force.
    """

    I: Array
    p: Array


class InverseHandle(NamedTuple):
    """Articulated body with h handles in inverse form: a = Phi f + b (RBDA Eq 7.4).

    f (6h,) contains the forces on the handles, and a (6h,) the accelerations of the handles. Phi
    (6h, 6h) is the inverse inertia, and b (6h,) is the bias acceleration.
    """

    Phi: Array
    b: Array


class TwoHandles(NamedTuple):
    """Articulated body with two handles in inverse form (RBDA Eq 7.57).

        a1 = Phi1 f1 + Phi12 f2 + b1,   a2 = Phi12^T f1 + Phi2 f2 + b2

    f1 and f2 (6,) are the forces on the handles. a1 and a2 (6,) are the handle accelerations.
    """

    Phi1: Array
    Phi12: Array
    Phi2: Array
    b1: Array
    b2: Array


class HandleJoint(NamedTuple):
    """Joint from the handle with the index `near` to the handle with the index `far`.

    The joint has n degrees of freedom. T (6, 6 - n) is a basis of its constraint forces, and c (6,)
    its bias acceleration.
    """

    near: int
    far: int
    T: Array
    c: Array


def articulated_inertias(model: Tree, q: Array) -> list[Any]:
    """Return the articulated-body inertia of every body as the handle of its subtree.

    The inertias are in body coordinates (RBDA Eq 7.21, 7.23).
    """
    IA = [body.articulated_inertia() for body in model.inertia]
    for i in reversed(range(model.nb)):
        Xup, S, _, _ = joint_kinematics(model, i, q, np.zeros(model.nv))
        if (p := model.parent[i]) >= 0:
            _, _, Ia = project_inertia(model, IA[i], S)
            IA[p] = IA[p] + Ia.transform_to_parent(Xup)
    return IA


def assemble_handle(first: Handle, second: Handle, S: Array, c: Array, tau: Array) -> Handle:
    """Connect two articulated bodies by a joint; return one body (RBDA Eq 7.19, 7.20).

    The joint connects the handles of both bodies. The result retains the handle of the first body.
    The articulated-body inertia of the result follows from RBDA Table 7.2:

        I^A = I1 + I2 - I2 S (S^T I2 S)^-1 S^T I2

    Both handles must be free to move in all directions.

    Args:
        first: Articulated body whose handle the result retains.
        second: Articulated body that the joint connects to this handle.
        S: Motion subspace of the joint (6, n).
        c: Bias acceleration of the joint (6,).
        tau: Joint forces (n,).
    """
    U = second.I @ S
    z = tau - S.T @ (second.p + second.I @ c)
    I = first.I + second.I - U @ positive_solution(S.T @ U, U.T)
    p = first.p + second.p + second.I @ c + U @ positive_solution(S.T @ U, z)
    return Handle(I, p)


def assemble_inverse(
    first: InverseHandle, second: InverseHandle, T: Array, Ta: Array, c: Array, tau: Array
) -> InverseHandle:
    """Connect two articulated bodies by a joint, using inverse inertias; return one body.

    The joint connects the handles of both bodies. The result retains the handle of the first body.
    The inverse inertia of the result follows from variant 1 of RBDA Table 7.2:

        Phi^A = Phi1 - Phi1 T (T^T (Phi1 + Phi2) T)^-1 T^T Phi1

    The joint constraints must be independent of the existing constraints. At least one of the two
    handles must be free to move in all directions.

    Args:
        first: Articulated body whose handle the result retains.
        second: Articulated body that the joint connects to this handle.
        T: Basis of the constraint forces (6, 6 - n).
        Ta: Basis of the active forces (6, n).
        c: Bias acceleration of the joint (6,).
        tau: Joint forces (n,).
    """
    Phi = first.Phi + second.Phi
    Y, PhiT = T.T @ Phi @ T, first.Phi @ T
    z = T.T @ (c + first.b - second.b - Phi @ (Ta @ tau))
    return InverseHandle(
        first.Phi - PhiT @ positive_solution(Y, PhiT.T),
        first.b - first.Phi @ (Ta @ tau) - PhiT @ positive_solution(Y, z),
    )


def assemble_by_constraint(
    first: Handle, second: Handle, T: Array, Ta: Array, c: Array, tau: Array
) -> Handle:
    """Connect two articulated bodies by a joint, using its constraint; return one body.

    The result is the handle of the first body. The arguments are as in `assemble_inverse`. The
    articulated-body inertia follows from variant 2 of RBDA Table 7.2:

        I^A = I1 + T (T^T I2^-1 T)^-1 T^T

    Both handles must be free to move in all directions.
    """
    Y = T.T @ positive_solution(second.I, T)
    z = T.T @ (c - positive_solution(second.I, Ta @ tau - second.p))
    return Handle(
        first.I + T @ positive_solution(Y, T.T), first.p + Ta @ tau + T @ positive_solution(Y, z)
    )


def assemble_two_handles(first: TwoHandles, second: TwoHandles, T: Array, c: Array) -> TwoHandles:
    """Connect two articulated bodies by a joint; return one body with two handles (RBDA Eq 7.63).

    The joint connects handle 2 of the first body to handle 1 of the second body. The result retains
    handle 1 of the first body and handle 2 of the second body. The bias accelerations must include
    the effect of the active force of the joint. At least one of the two connected handles must be
    free to move in all directions.

    Args:
        first: First articulated body.
        second: Second articulated body.
        T: Basis of the constraint forces (6, 6 - n).
        c: Bias acceleration of the joint (6,).
    """
    Y, beta = T.T @ (first.Phi2 + second.Phi1) @ T, c - second.b1 + first.b2
    near, far = T.T @ first.Phi12.T, T.T @ second.Phi12
    near_Y, far_Y = positive_solution(Y, near), positive_solution(Y, far)
    return TwoHandles(
        first.Phi1 - near.T @ near_Y,
        near.T @ far_Y,
        second.Phi2 - far.T @ far_Y,
        first.b1 - near_Y.T @ (T.T @ beta),
        second.b2 + far_Y.T @ (T.T @ beta),
    )


def assemble_handles(
    bodies: Sequence[InverseHandle], joints: Sequence[HandleJoint], keep: Sequence[int]
) -> InverseHandle:
    """Connect articulated bodies by joints; return the handles `keep` (end of RBDA 7.5).

    The bodies may have any number of handles. The function connects all joints simultaneously, so
    the joints may close loops. Handles are numbered body after body. Phi is block-diagonal with the
    inverse inertias of the bodies, and b contains their bias accelerations, which must include the
    effect of the active forces of the joints. For each joint, P contains the block T in the rows of
    the far handle and -T in the rows of the near handle.

        lam = Y^-1 (c - P^T b),  Y = P^T Phi P,  Phi' = Phi - Phi P Y^-1 P^T Phi,
        b' = b + Phi P lam

    Args:
        bodies: Articulated bodies in inverse form.
        joints: Joints between handles.
        keep: Indices of the handles of the result.

    Raises:
        ValueError: `joints` or `keep` is empty, a handle does not exist, or the constraints of the
            joints are dependent.
    """
    for argument, values in (("joints", joints), ("keep", keep)):
        if not values:
            raise ValueError(f"`{argument}` of assemble_handles is empty; it needs one or more")
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
    """Return the matrix (size, 6 - n) that maps the multipliers of a joint to the handle forces.

    `size` is the number of force components of all handles, and n the number of degrees of freedom
    of the joint.
    """
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
            raise ValueError(
                f"unknown handle {handle}; the bodies have the handles 0 to {count - 1}"
            )


def inverse_inertia(model: Tree, q: Array, J: Array) -> Array:
    """Return the inverse inertia Phi = J H^-1 J^T (k, k) of a task v = J qd (RBDA Eq 7.9).

    Phi is the acceleration of the task per unit force on it. It is symmetric positive semidefinite
    and has the rank of J (k, nv). With H = L^T L, Phi = Y^T Y for Y = L^-T J^T.

    Args:
        model: Tree of bodies.
        q: Joint positions (nq,) [rad or m].
        J: Jacobian (k, nv) of the task.
    """
    parent = expanded_parent(model)
    Y = mpy_lit(ltl(crba(model, q), parent), parent, J.T)
    Phi: Array = Y.T @ Y
    return Phi


def operational_inertia(model: Model, q: Array, J: Array) -> Array:
    """Return the inertia (J H^-1 J^T)^-1 (k, k) of a task v = J qd (RBDA Eq 7.12).

    Args:
        model: Tree of bodies.
        q: Joint positions (nq,) [rad or m].
        J: Jacobian (k, nv) of the task.

    Raises:
        ValueError: J is numeric and does not have full row rank. `inverse_inertia` also supports
            such a J.
    """
    if J.dtype != object and np.linalg.matrix_rank(J) < len(J):
        raise ValueError(
            f"the task has {len(J)} components but only {np.linalg.matrix_rank(J)} independent "
            "degrees of freedom, so its inertia does not exist; use inverse_inertia"
        )
    return positive_solution(inverse_inertia(model, q, J), np.eye(len(J)))


def handle_equation(
    model: Model,
    q: Array,
    qd: Array,
    tau: Array,
    bodies: Sequence[int],
    f_ext: Array | None = None,
    gravity: Array | None = None,
) -> InverseHandle:
    """Return the equation of motion a = Phi f + b of bodies as handles (RBDA Eq 7.8 to 7.10).

        Phi = J H^-1 J^T,  b = dJ/dt qd + J H^-1 (tau - C)

    a and f (6h,) are the stacked accelerations and additional forces of the h handles. J (6h, nv)
    contains their Jacobians, H is the inertia matrix, and C the bias force. Each handle uses the
    coordinates of its body. tau (nv,) and f_ext (nb, 6) contain all forces except f.

    Args:
        model: Tree of bodies.
        q: Joint positions (nq,) [rad or m].
        qd: Joint velocities (nv,).
        tau: Joint forces (nv,) [N m or N].
        bodies: Indices of the bodies that become handles.
        f_ext: External wrenches (nb, 6) on the bodies in base coordinates [N m, N].
        gravity: Gravity (3,) [m/s^2] in base coordinates; by default model.gravity.
    """
    J = np.vstack([body_jacobian(model, q, body) for body in bodies])
    a_vp = np.concatenate([body_jacobian_rate(model, q, qd, body) @ qd for body in bodies])
    C = bias_force(model, q, qd, f_ext, gravity)
    free = solve_ltdl(crba(model, q), expanded_parent(model), tau - C)
    return InverseHandle(inverse_inertia(model, q, J), a_vp + J @ free)


class SplitForce(NamedTuple):
    """Force (6,) on a body, split into an accelerating component and the joint reaction force.

    The force is `move` + `hold`. `move` accelerates the body, and `hold` is the reaction force of
    the joint.
    """

    move: Array
    hold: Array


class ConstrainedMotion(NamedTuple):
    """Acceleration a (6,) of a body, and multipliers lam (6 - n,) of the constraint force T lam."""

    a: Array
    lam: Array


class BodyJointSpace(NamedTuple):
    """Inertia H (n, n) and bias force C (n,) of a body in joint coordinates: H qdd + C = S^T f.

    f (6,) is the force on the body, and S (6, n) the motion subspace of its joint.
    """

    H: Array
    C: Array


def split_along(parts: tuple[Array, ...], v: Array) -> tuple[Array, ...]:
    """Split v into components in the column spaces of several matrices (RBDA Eq 3.25 to 3.27).

    Args:
        parts: Matrices (n, n_i), whose columns together are a basis.
        v: Vector (n,).

    Raises:
        ValueError: The columns of all `parts` together are not a basis.
    """
    basis = np.hstack(parts)
    if basis.shape != (len(v), len(v)) or np.linalg.matrix_rank(basis) < len(v):
        raise ValueError(
            f"the subspaces are not a basis of the {len(v)}-dimensional space of v: they have "
            f"{basis.shape[1]} columns of rank {np.linalg.matrix_rank(basis)}; they must be "
            "independent and span the space"
        )
    ends = np.cumsum([part.shape[1] for part in parts])[:-1]
    sizes = np.split(linear_solver(basis)(v), ends)
    return tuple(part @ size for part, size in zip(parts, sizes, strict=True))


def split_force(I: Array, S: Array, f: Array) -> SplitForce:
    """Split a force f (6,) into an accelerating component and the joint reaction force.

        move = I S (S^T I S)^-1 S^T f,  hold = f - move

    This is RBDA Eq 3.28. S^T hold = 0, and at rest the acceleration is I^-1 move. I (6, 6) is the
    inertia of the body. The result depends only on the column space of S, not on its basis.

    Args:
        I: Inertia of the body (6, 6).
        S: Motion subspace (6, n).
        f: Force on the body (6,).
    """
    IS = I @ S
    move = IS @ positive_solution(S.T @ IS, S.T @ f)
    return SplitForce(move, f - move)


def constrained_body(body: Handle, S: Array, bias: Array) -> InverseHandle:
    """Return the equation a = Phi f + b of a constrained body (RBDA Eq 3.53 to 3.55, method 1).

        Phi = S (S^T I S)^-1 S^T,  b = dS/dt qd - Phi (I dS/dt qd + p)

    I and p are the inertia and the bias force of `body`. Phi is symmetric and positive
    semidefinite. It has the rank n and the column space of S.

    Args:
        body: Body without its joint, as a handle.
        S: Motion subspace (6, n).
        bias: Bias acceleration dS/dt qd (6,).
    """
    Phi = S @ positive_solution(S.T @ body.I @ S, S.T)
    return InverseHandle(Phi, bias - Phi @ (body.I @ bias + body.p))


def constrained_motion(body: Handle, T: Array, bias: Array, f: Array) -> ConstrainedMotion:
    """Return the acceleration and constraint force of a body under a force f (6,) (RBDA Eq 3.60).

    The function solves the equation of method 2 of RBDA 3.6:

        [I, T; T^T, 0] [a; -lam] = [f - p; T^T bias]

    In the second row, T^T bias = T^T dS/dt qd equals -dT^T/dt v, because T^T S is constantly 0.

    Args:
        body: Body without its joint, as a handle.
        T: Basis of the constraint forces (6, 6 - n).
        bias: Bias acceleration dS/dt qd (6,).
        f: Force on the body (6,).
    """
    n = len(f)
    W = np.block([[body.I, T], [T.T, np.zeros((T.shape[1], T.shape[1]))]])
    x = linear_solver(W)(np.concatenate([f - body.p, T.T @ bias]))
    return ConstrainedMotion(x[:n], -x[n:])


def body_joint_space(body: Handle, S: Array, bias: Array) -> BodyJointSpace:
    """Return the equation of motion of a body in joint coordinates (RBDA Eq 3.61, 3.64).

        H = S^T I S,  C = S^T (I dS/dt qd + p)

    The equation contains f only as S^T f, so it does not determine the constraint force.

    Args:
        body: Body without its joint, as a handle.
        S: Motion subspace (6, n).
        bias: Bias acceleration dS/dt qd (6,).
    """
    return BodyJointSpace(S.T @ body.I @ S, S.T @ (body.I @ bias + body.p))
