"""Floating-base dynamics without singular base orientations (RBDA 9.3 to 9.5).

A floating base has six degrees of freedom, which the first joints of the model provide. The
floating base is body 5 of a model from `floating_base`, or body 0 on a `SixDoF` joint. The dynamics
functions of this module ignore these joints. The state of the base is separate, as in FDf and IDf
of spatial_v1. X is the transform from fixed-base to floating-base coordinates. The velocity v (6,)
and the acceleration a (6,) are in coordinates of the *fixed* base.

q, qd, qdd and tau contain only the joints after the floating base. f_ext has a row for every body
of the model. Rows of bodies before the floating base have no effect. Gravity is in fixed-base
coordinates.

`floating_base`, `floating_base_kinematics` and `floating_base_coordinates` represent the base as a
chain of six joints, for functions that support only fixed bases (floatbase and fbKin of
spatial_v1).
"""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from rigidblocks.dynamics.forward import (
    aba_inward_pass,
    aba_outward_pass,
    accelerations,
    composite_inertias,
    expanded_parent,
    force_step,
    inertia_of_joints,
)
from rigidblocks.dynamics.inverse import net_forces
from rigidblocks.dynamics.joint_kinematics import (
    Base,
    floating_base_body,
    joint_kinematics,
    minus_gravity,
    support,
)
from rigidblocks.dynamics.kinematics import classical_acceleration, spatial_acceleration
from rigidblocks.robot.joints import Prismatic, Revolute
from rigidblocks.robot.model import Model
from rigidblocks.spatial.branch_sparsity import solve_ltdl
from rigidblocks.spatial.linear_algebra import positive_solution
from rigidblocks.spatial.spatial import (
    Array,
    RigidInertia,
    Transform,
    cross,
    rotx,
    roty,
    rotz,
    rx,
    xlt,
)


class FloatingMotion(NamedTuple):
    """Base acceleration a (6,) in fixed-base coordinates, and joint accelerations qdd."""

    a: Array
    qdd: Array


class FloatingForces(NamedTuple):
    """Base acceleration a (6,) in fixed-base coordinates, and joint forces tau."""

    a: Array
    tau: Array


class FloatingInertia(NamedTuple):
    """Inertia matrix [[I0c, F], [F^T, H]] of base and joints in floating-base coordinates.

    I0c is (6, 6), F (6, n) and H (n, n) for n joint variables after the base.
    """

    I0c: Array
    F: Array
    H: Array


class FloatingJointSpace(NamedTuple):
    """Inertia matrix H (n, n) and bias force C (n,) of the joints, with the base eliminated."""

    H: Array
    C: Array


class FloatingBias(NamedTuple):
    """Bias forces: p0c (6,) of the base in floating-base coordinates, and C (n,) of the joints."""

    p0c: Array
    C: Array


def floating_body(model: Model) -> int:
    """Return the index of the floating base, the body that the first six degrees of freedom move.

    The bodies before the floating base must be a massless unbranched chain. All other bodies must
    be its descendants.

    Raises:
        ValueError: The model has no floating base.
    """
    body = floating_base_body(model)
    if body is None:
        raise ValueError(
            f"model '{model.name}' has no floating base. Its first joints must give one body six "
            "degrees of freedom, the bodies between these joints must be massless, and all other "
            "bodies must descend from that body. "
            "floating_base(model) returns a model with a floating base"
        )
    return body


def aba_floating(
    model: Model,
    X: Transform,
    v: Array,
    q: Array,
    qd: Array,
    tau: Array,
    f_ext: Array | None = None,
    gravity: Array | None = None,
) -> FloatingMotion:
    """Return the accelerations of base and joints from the joint forces (FDf of spatial_v1).

    This is the floating-base articulated-body algorithm (RBDA Table 9.4). It solves
    I0A a0 + p0A = 0 for a0, the acceleration of the base minus gravity. I0A and p0A are the
    articulated-body inertia and the bias force of the base.

    Args:
        model: Model with a floating base.
        X: Transform from fixed-base to floating-base coordinates.
        v: Velocity (6,) of the base in fixed-base coordinates.
        q: Joint positions, excluding the base [rad or m].
        qd: Joint velocities, excluding the base.
        tau: Joint forces, excluding the base [N m or N].
        f_ext: External wrenches (nb, 6) on the bodies in fixed-base coordinates.
        gravity: Gravity (3,) [m/s^2] in fixed-base coordinates; by default model.gravity.

    Returns:
        The acceleration (6,) of the base in fixed-base coordinates, and the joint accelerations.

    Raises:
        ValueError: The model has no floating base, or a vector has the wrong length.
    """
    base, (q, qd, tau) = _base(model, X, v), _pad_joint_vectors(model, q=q, qd=qd, tau=tau)
    bodies = aba_outward_pass(model, base, q, qd, f_ext)
    articulated = aba_inward_pass(model, bodies, force_step(model, tau))
    a0 = _bias_acceleration(
        articulated.bodies.IA[base.body].matrix(), articulated.bodies.pA[base.body]
    )
    qdd, _ = accelerations(model, articulated, a0)
    a = _base_acceleration(model, base, a0, gravity)
    return FloatingMotion(a, np.concatenate([np.zeros(0), *qdd]))


def rnea_floating(
    model: Model,
    X: Transform,
    v: Array,
    q: Array,
    qd: Array,
    qdd: Array,
    f_ext: Array | None = None,
    gravity: Array | None = None,
) -> FloatingForces:
    """Return the base acceleration and the joint forces from the joint accelerations.

    This is IDf of spatial_v1 (RBDA Table 9.6). The outward pass uses accelerations relative to the
    base. The composite inertia I0c and bias force p0c of the whole model then give the acceleration
    a0 of the base:

        I0c a0 + p0c = 0,    tau_i = S_i^T (I_i^c a0 + p_i^c)

    I_i^c and p_i^c belong to the subtree of body i, and S_i is the motion subspace of joint i.

    Args:
        model: Model with a floating base.
        X: Transform from fixed-base to floating-base coordinates.
        v: Velocity (6,) of the base in fixed-base coordinates.
        q: Joint positions, excluding the base [rad or m].
        qd: Joint velocities, excluding the base.
        qdd: Joint accelerations, excluding the base.
        f_ext: External wrenches (nb, 6) on the bodies in fixed-base coordinates.
        gravity: Gravity (3,) [m/s^2] in fixed-base coordinates; by default model.gravity.

    Returns:
        The acceleration (6,) of the base in fixed-base coordinates, and the joint forces.

    Raises:
        ValueError: As in `aba_floating`.
    """
    base, (q, qd, qdd) = _base(model, X, v), _pad_joint_vectors(model, q=q, qd=qd, qdd=qdd)
    b = base.body
    Xup, S, pc = net_forces(model, base, model.algebra.zero(), q, qd, qdd, f_ext)
    Ic = composite_inertias(model, Xup, base=b)

    # inward: the forces on the subtrees with zero acceleration of the base
    for i in reversed(range(b + 1, model.nb)):
        pc[model.parent[i]] = pc[model.parent[i]] + Xup[i].T @ pc[i]

    # outward: the base acceleration without gravity, in the coordinates of each body
    a0 = {b: _bias_acceleration(Ic[b].matrix(), pc[b])}
    tau = [np.zeros(0)]
    for i in range(b + 1, model.nb):
        a0[i] = Xup[i] @ a0[model.parent[i]]
        tau.append(S[i].T @ (Ic[i] @ a0[i] + pc[i]))
    return FloatingForces(_base_acceleration(model, base, a0[b], gravity), np.concatenate(tau))


def bias_force_floating(
    model: Model,
    X: Transform,
    v: Array,
    q: Array,
    qd: Array,
    f_ext: Array | None = None,
    gravity: Array | None = None,
) -> FloatingBias:
    """Return the bias forces p0c of the floating base and C of the joints.

    The equation of motion is `[[I0c, F], [F^T, H]] [a0; qdd] + [p0c; C] = [0; tau]` (RBDA Eq 9.13,
    Table 9.5). Here a0 is the acceleration of the base in *floating-base* coordinates. I0c, F and H
    are the blocks of `crba_floating`. The arguments are as in `aba_floating`.

    Raises:
        ValueError: As in `aba_floating`.
    """
    base, (q, qd) = _base(model, X, v), _pad_joint_vectors(model, q=q, qd=qd)
    b, still = base.body, np.zeros(model.nv)
    a = classical_acceleration(X @ minus_gravity(model, gravity), base.v)
    Xup, S, f = net_forces(model, base, a, q, qd, still, f_ext)
    C = [np.zeros(0)]
    for i in reversed(range(b + 1, model.nb)):
        C.insert(0, S[i].T @ f[i])
        f[model.parent[i]] = f[model.parent[i]] + Xup[i].T @ f[i]
    return FloatingBias(f[b], np.concatenate(C))


def crba_floating(model: Model, q: Array) -> FloatingInertia:
    """Return the blocks I0c, F and H of the inertia matrix of the floating base and the joints.

    The equation of motion is `[[I0c, F], [F^T, H]] [a0; qdd] + [p0c; C] = [0; tau]` (RBDA Eq 9.13,
    Table 9.5). `bias_force_floating` defines a0, p0c and C. q contains the positions of the joints
    after the base. Each column of F is the force on the base for a unit acceleration of one joint
    variable.

    Raises:
        ValueError: As in `aba_floating`.
    """
    b, (q,) = floating_body(model), _pad_joint_vectors(model, q=q)
    joints = {i: model.v_slices[i] for i in range(b + 1, model.nb)}
    H = inertia_of_joints(model, q, {b: slice(0, 6), **joints}, base=b)
    return FloatingInertia(H[:6, :6], H[:6, 6:], H[6:, 6:])


def forward_dynamics_crba_floating(
    model: Model,
    X: Transform,
    v: Array,
    q: Array,
    qd: Array,
    tau: Array,
    f_ext: Array | None = None,
    gravity: Array | None = None,
    rotor_inertia: Array | None = None,
    G: Array | None = None,
    g: Array | None = None,
) -> FloatingMotion:
    """Return the accelerations of base and joints, computed from the inertia matrix.

    The arguments and the result are as in `aba_floating`. The function solves the equation of
    motion of `bias_force_floating` (RBDA Eq 9.13). `rotor_inertia` (n,) is added to the diagonal of
    H (RBDA Eq 9.28). Without G, the function skips the branch-induced zeros of the matrix and
    treats the base as a chain of six variables.

    G is the gear matrix in qdd = G ydd + g, with the accelerations ydd of the independent
    variables. If G is given, the function projects the equation onto these variables (RBDA Eq
    9.26). g (n,) is the bias of nonlinear gears, by default zero.
    """
    I0c, F, H = crba_floating(model, q)
    if rotor_inertia is not None:
        H = H + np.diag(rotor_inertia)
    p0c, C = bias_force_floating(model, X, v, q, qd, f_ext, gravity)
    whole, u = np.block([[I0c, F], [F.T, H]]), np.concatenate([-p0c, tau - C])
    if G is None:
        solution = solve_ltdl(whole, expanded_parent(model), u)
    else:
        all_G = np.block([[np.eye(6), np.zeros((6, G.shape[1]))], [np.zeros((len(G), 6)), G]])
        if g is not None:
            u = u - whole[:, 6:] @ g
        solution = all_G @ positive_solution(all_G.T @ whole @ all_G, all_G.T @ u)
        if g is not None:
            solution = solution + np.concatenate([np.zeros(6), g])
    return FloatingMotion(X.inverse() @ solution[:6], solution[6:])


def joint_space_floating(
    model: Model,
    X: Transform,
    v: Array,
    q: Array,
    qd: Array,
    f_ext: Array | None = None,
    gravity: Array | None = None,
) -> FloatingJointSpace:
    """Eliminate the base: return H^fl and C^fl of H^fl qdd + C^fl = tau (RBDA Eq 9.14 to 9.16).

        H^fl = H - F^T I0c^-1 F,  C^fl = C - F^T I0c^-1 p0c

    H^fl is symmetric positive definite and dense: it does not have the branch-induced zeros. The
    arguments are as in `aba_floating`; `crba_floating` and `bias_force_floating` define the other
    symbols.
    """
    I0c, F, H = crba_floating(model, q)
    p0c, C = bias_force_floating(model, X, v, q, qd, f_ext, gravity)
    return FloatingJointSpace(
        H + F.T @ _bias_acceleration(I0c, F), C + F.T @ _bias_acceleration(I0c, p0c)
    )


def body_jacobian_floating(model: Model, q: Array, body: str | int) -> Array:
    """Return the Jacobian J^f (6, n) of a body if the total momentum is zero (RBDA Ex 9.4).

        J^f = J - X I0c^-1 F, with X from base to body coordinates

    J is the Jacobian of the body relative to the base. I0c and F are blocks of `crba_floating`. The
    velocity of the body in body coordinates is J^f qd. If internal impulses change the joint
    velocities by delta qd, they change the velocity of the body by J^f delta qd.

    Args:
        model: Model with a floating base.
        q: Joint positions, excluding the base [rad or m].
        body: Name or index of the body.
    """
    b, (padded,) = floating_body(model), _pad_joint_vectors(model, q=q)
    I0c, F, _ = crba_floating(model, q)
    J: list[Array] = [np.zeros((6, joint.nv)) for joint in model.joint]
    X = model.algebra.identity()
    for i in (i for i in reversed(support(model, body)) if i > b):
        Xup, S, _, _ = joint_kinematics(model, i, padded, np.zeros(model.nv))
        J[i] = X @ S
        X = X @ Xup
    jacobian: Array = np.hstack([np.zeros((6, 0)), *J[b + 1 :]]) + X @ _bias_acceleration(I0c, F)
    return jacobian


def _base(model: Model, X: Transform, v: Array) -> Base:
    return Base(floating_body(model), X, X @ v)


def _base_acceleration(model: Model, base: Base, a0: Array, gravity: Array | None) -> Array:
    """Return the spatial acceleration of the floating base, in fixed-base coordinates.

        a = X^-1 (a0 - [0; w x v]) + a_g

    a0 is the acceleration of the base minus the acceleration of gravity a_g, in floating-base
    coordinates. The linear component of a0 is the acceleration of the base origin
    (`Transform.carry`). [w; v] is the velocity of the base in floating-base coordinates. X is the
    transform from fixed-base to floating-base coordinates.
    """
    a: Array = base.X.inverse() @ spatial_acceleration(a0, base.v) - minus_gravity(model, gravity)
    return a


def _bias_acceleration(I: Array, p: Array) -> Array:
    """Return the acceleration -I^-1 p of a free body with inertia I and bias force p."""
    return positive_solution(I, -p)


def _pad_joint_vectors(model: Model, **vectors: Array) -> list[Array]:
    """Return the joint vectors with leading zeros for the variables of the floating base."""
    padded = []
    for name, vector in vectors.items():
        total, base = (
            (model.nq, model.q_slices[floating_body(model)].stop) if name == "q" else (model.nv, 6)
        )
        if len(vector) != total - base:
            raise ValueError(
                f"{name} has {len(vector)} elements, but the joints outboard of the floating "
                f"base of model '{model.name}' have {total - base} variables; pass the variables "
                "of the base as X and v"
            )
        padded.append(np.concatenate([np.zeros(base), np.asarray(vector)]))
    return padded


_AXES = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
_NAMES = ("base_x", "base_y", "base_z", "base_rx", "base_ry", "base_rz")


class BaseMotion(NamedTuple):
    """Motion of a floating base.

    X is the transform from fixed-base to floating-base coordinates. v (6,) and a (6,) are the
    velocity and the acceleration of the floating base in *fixed-base* coordinates.
    """

    X: Transform
    v: Array
    a: Array


class BaseCoordinates(NamedTuple):
    """Coordinates (6,) of the joint chain of a floating base, and their derivatives [m, rad, s].

    The order is: translation along x, y, z, then rotation about x, y, z.
    """

    q: Array
    qd: Array
    qdd: Array


def floating_base(model: Model) -> Model:
    """Return the model with a floating base: a chain of 6 joints and 5 massless bodies.

    The chain replaces joint 0. Its joints are translations along x, y and z, then rotations about
    x, y and z. Each axis is an axis of the preceding body frame. Body 5 is the floating base. Body
    i and joint i of the original model become body i+5 and joint i+5.

    The chain is singular if q[4] is +-pi/2, and the fixed-base functions fail at this angle. The
    floating-base functions ignore the chain and have no singularity.

    Raises:
        ValueError: The model has several bodies attached to its base.
    """
    if (roots := model.parent.count(-1)) > 1:
        raise ValueError(
            f"model '{model.name}' has {roots} bodies attached to its base; a floating base needs "
            "exactly one"
        )
    joints = tuple(Prismatic(axis) for axis in _AXES) + tuple(Revolute(axis) for axis in _AXES)
    nothing = RigidInertia(0.0, np.zeros(3), np.zeros((3, 3)))
    return replace(
        model,
        name=f"{model.name}_floating",
        parent=(*range(-1, 5), *(p + 5 for p in model.parent[1:])),
        joint=(*joints, *model.joint[1:]),
        Xtree=(xlt(np.zeros(3)),) * 6 + model.Xtree[1:],
        inertia=(nothing,) * 5 + model.inertia,
        body_names=(*_NAMES[:5], *model.body_names),
        joint_names=(*_NAMES, *model.joint_names[1:]),
        massless=(*_NAMES[:5], *model.massless),
        appearance=((),) * 5 + tuple(model.appearance) if model.appearance else (),
        contact=((),) * 5 + tuple(model.contact) if model.contact else (),
    )


def floating_base_kinematics(q: Array, qd: Array, qdd: Array) -> BaseMotion:
    """Convert the motion q, qd, qdd (6,) of the six-joint chain to the motion of the base.

    X = rotz(c) roty(b) rotx(a) xlt(x, y, z) for q = (x, y, z, a, b, c) (fbKin of spatial_v1).
    """
    r, (a, b, c), p = q[:3], q[3:], qd[:3]
    X = rotz(c) @ roty(b) @ rotx(a) @ xlt(r)
    w, dw = _angular_motion(a, b, qd[3:], qdd[3:])
    v = np.concatenate([w, p - cross(w, r)])
    return BaseMotion(X, v, np.concatenate([dw, qdd[:3] - cross(dw, r) - cross(w, p)]))


def _angular_motion(a: Any, b: Any, d_angles: Array, dd_angles: Array) -> tuple[Array, Array]:
    """Return the angular velocity and acceleration (3,) of a floating base in fixed-base axes.

    a and b are the angles about x and y. `d_angles` and `dd_angles` (3,) are the first and second
    derivatives of the angles about x, y and z.
    """
    E, cb, sb = rx(a), np.cos(b), np.sin(b)
    (da, db, dc), (dda, ddb, ddc) = d_angles, dd_angles

    # u: angular velocity in the frame rotated by a about x, du: derivative of its components
    u = np.array([da + sb * dc, db, cb * dc])
    du = np.array([dda + cb * db * dc + sb * ddc, ddb, cb * ddc - sb * db * dc])
    return E.T @ u, E.T @ (du + cross(np.array([da, 0.0, 0.0]), u))


def floating_base_coordinates(X: Transform, v: Array, a: Array) -> BaseCoordinates:
    """Convert the motion of the base to the motion q, qd, qdd (6,) of the six-joint chain.

    The function is the inverse of `floating_base_kinematics`. q[4] is between -pi/2 and pi/2. q[3]
    and q[5] are between -pi and pi.

    Raises:
        ValueError: q[4] is +-pi/2, where the chain is singular (checked for floats only).
    """
    E, r = X.E, X.r
    cb, sb = np.sqrt(E[0, 0] * E[0, 0] + E[1, 0] * E[1, 0]), E[2, 0]
    _check_regular(cb)
    angles = [np.arctan2(-E[2, 1], E[2, 2]), np.arctan2(sb, cb), np.arctan2(-E[1, 0], E[0, 0])]
    rates, second = _angle_rates(rx(angles[0]), cb, sb, v[:3], a[:3])
    p = v[3:] + cross(v[:3], r)
    pdd = a[3:] + cross(a[:3], r) + cross(v[:3], p)
    return BaseCoordinates(
        np.array([*r, *angles]), np.array([*p, *rates]), np.array([*pdd, *second])
    )


def _angle_rates(Ex: Array, cb: Any, sb: Any, w: Array, dw: Array) -> tuple[list[Any], list[Any]]:
    """Return the first and second derivatives of the base angles (a, b, c) about x, y and z.

    `w` and `dw` (3,) are the angular velocity and acceleration of the base. `Ex` is the rotation
    about x, and `cb` and `sb` are the cosine and the sine of b.
    """
    u = Ex @ w
    db, dc = u[1], u[2] / cb
    da = u[0] - sb * dc
    du = Ex @ dw - cross(np.array([da, 0.0, 0.0]), u)
    ddb, ddc = du[1], (du[2] + sb * db * dc) / cb
    dda = du[0] - cb * db * dc - sb * ddc
    return [da, db, dc], [dda, ddb, ddc]


def _check_regular(cb: Any) -> None:
    if isinstance(cb, float) and cb < 1e-9:
        raise ValueError(
            "the pitch angle of the floating base is 90 degrees, where its chain of six joints "
            "is singular"
        )
