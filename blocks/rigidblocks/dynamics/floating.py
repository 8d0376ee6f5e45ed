"""Floating-base dynamics: the state of the base is its own, so that it has no singular orientation (RBDA 9.3 to 9.5).

A floating base is a body that six freedoms of the model's first joints carry: body 5 of a model from `floating_base`, or
body 0 on a `SixDoF` joint. The functions here do not look at those joints. Instead they take, as FDf and IDf of spatial_v1
do, the transform X from the coordinates of the fixed base to those of the floating one, and its velocity v (6,) and
acceleration a (6,) in coordinates of the *fixed* base. q, qd, qdd and tau are then those of the other joints alone; f_ext
keeps a row for every body of the model (what is above the floating base is not moved by it), and gravity is in
coordinates of the fixed base, as everywhere.
"""

from typing import Any, NamedTuple

import numpy as np

from rigidblocks.dynamics.forward import small_inverse
from rigidblocks.dynamics.joint_space import expanded_parent
from rigidblocks.dynamics.kinematics import behind_six_freedoms, joint_kinematics, minus_gravity, per_body, support
from rigidblocks.dynamics.sparse import solve_ltdl
from rigidblocks.model import Model
from rigidblocks.spatial import Array, Transform


class FloatingMotion(NamedTuple):
    """The acceleration a (6,) of the base in fixed-base coordinates, and those of the joints, qdd."""

    a: Array
    qdd: Array


class FloatingForces(NamedTuple):
    """The acceleration a (6,) of the base in fixed-base coordinates, and the forces of the joints, tau."""

    a: Array
    tau: Array


class FloatingInertia(NamedTuple):
    """The inertia [[I0c, F], [F^T, H]] of base and joints: I0c (6, 6), F (6, n), H (n, n), in floating-base coordinates."""

    I0c: Array
    F: Array
    H: Array


class FloatingJointSpace(NamedTuple):
    """The equation of motion of the joints alone: H (n, n) and C (n,)."""

    H: Array
    C: Array


class FloatingBias(NamedTuple):
    """The bias [p0c; C] of base and joints: p0c (6,) in floating-base coordinates, C (n,)."""

    p0c: Array
    C: Array


def floating_body(model: Model) -> int:
    """The body that is the floating base: the one behind the first six freedoms.

    Raises ValueError where there is none: the bodies before it must be an unbranched chain without mass, and all others
    must hang on it.
    """
    body = behind_six_freedoms(model)
    if body is None:
        raise ValueError(
            f"model '{model.name}' has no floating base: its first joints must carry one body by six freedoms, the bodies "
            f"between without mass, and all other bodies must hang on that one; floating_base(model) makes such a model"
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
    """The accelerations of the base and of the joints that the joint forces cause (FDf of spatial_v1).

    The floating-base articulated-body algorithm (RBDA Table 9.4): I0A a0 + p0A = 0. Raises ValueError for a model that has
    no floating base, and for vectors of another length than its joints have variables.
    """
    algebra, b, (q, qd, tau) = model.algebra, floating_body(model), _joints(model, q=q, qd=qd, tau=tau)
    Xup, S, vel, c, IA, pA, U, Dinv, u, a = per_body(model, 10)
    vel[b], X0 = X @ v, {b: X}

    # outward: velocities, and the bias forces of the bodies on their own
    for i in range(b, model.nb):
        if i > b:
            p = model.parent[i]
            Xup[i], S[i], vJ, cJ = joint_kinematics(model, i, q, qd)
            X0[i], vel[i] = Xup[i] @ X0[p], Xup[i] @ vel[p] + vJ
            c[i] = cJ + algebra.cross_motion(vel[i], vJ)
        IA[i] = model.inertia[i].articulated()
        pA[i] = algebra.cross_force(vel[i], model.inertia[i] @ vel[i])
        if f_ext is not None:
            pA[i] = pA[i] - X0[i].force(f_ext[i])

    # inward: articulated-body inertias and bias forces, down to the base
    for i in reversed(range(b + 1, model.nb)):
        p = model.parent[i]
        U[i] = IA[i] @ S[i]
        Dinv[i] = small_inverse(S[i].T @ U[i])
        u[i] = tau[model.v_slices[i]] - S[i].T @ pA[i]
        UDinv = U[i] @ Dinv[i]
        Ia = IA[i] - algebra.outer(UDinv, U[i])
        IA[p] = IA[p] + Ia.to_parent(Xup[i])
        pA[p] = pA[p] + Xup[i].T @ (pA[i] + Ia @ c[i] + UDinv @ u[i])

    # outward: accelerations as without gravity, which is the same for all bodies
    a[b] = _without_force(IA[b].matrix(), pA[b])
    qdd = [np.zeros(0)]
    for i in range(b + 1, model.nb):
        a_free = Xup[i] @ a[model.parent[i]] + c[i]
        qdd.append(Dinv[i] @ (u[i] - U[i].T @ a_free))
        a[i] = a_free + S[i] @ qdd[-1]
    return FloatingMotion(X.inverse() @ a[b] - minus_gravity(model, gravity), np.concatenate(qdd))


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
    """The acceleration of the base and the joint forces that belong to the joint accelerations (IDf of spatial_v1).

    With the relative accelerations first, and the composite inertia of the whole to find that of the base (RBDA Table 9.6):
    I0c a0 + p0c = 0, tau_i = S_i^T (I_i^c a0 + p_i^c). Raises ValueError as `aba_floating` does.
    """
    b, (q, qd, qdd) = floating_body(model), _joints(model, q=q, qd=qd, qdd=qdd)
    Xup, S, Ic, pc = _composite(model, b, X, v, q, qd, qdd, f_ext)

    # inward: composite inertias and the forces on the subtrees as if the base had no acceleration
    for i in reversed(range(b + 1, model.nb)):
        p = model.parent[i]
        Ic[p] = Ic[p] + Ic[i].to_parent(Xup[i])
        pc[p] = pc[p] + Xup[i].T @ pc[i]

    # outward: the acceleration of the base in the coordinates of each body, as without gravity
    a0 = {b: _without_force(Ic[b].matrix(), pc[b])}
    tau = [np.zeros(0)]
    for i in range(b + 1, model.nb):
        a0[i] = Xup[i] @ a0[model.parent[i]]
        tau.append(S[i].T @ (Ic[i] @ a0[i] + pc[i]))
    return FloatingForces(X.inverse() @ a0[b] - minus_gravity(model, gravity), np.concatenate(tau))


def bias_force_floating(
    model: Model,
    X: Transform,
    v: Array,
    q: Array,
    qd: Array,
    f_ext: Array | None = None,
    gravity: Array | None = None,
) -> FloatingBias:
    """p0c and C of [[I0c, F], [F^T, H]] [a0; qdd] + [p0c; C] = [0; tau] (RBDA Eq 9.13, Table 9.5).

    a0 is the acceleration of the base in *floating-base* coordinates there. Raises ValueError as `aba_floating` does.
    """
    b, still = floating_body(model), np.zeros(model.nv)
    q, qd = _joints(model, q=q, qd=qd)
    a = X @ minus_gravity(model, gravity)
    Xup, S, _, f = _composite(model, b, X, v, q, qd, still, f_ext, a)
    C = [np.zeros(0)]
    for i in reversed(range(b + 1, model.nb)):
        C.insert(0, S[i].T @ f[i])
        f[model.parent[i]] = f[model.parent[i]] + Xup[i].T @ f[i]
    return FloatingBias(f[b], np.concatenate(C))


def crba_floating(model: Model, q: Array) -> FloatingInertia:
    """I0c, F and H of [[I0c, F], [F^T, H]] [a0; qdd] + [p0c; C] = [0; tau] (RBDA Eq 9.13, Table 9.5).

    Column by column, F has the forces on the base that go with unit accelerations of the joints. Raises ValueError as
    `aba_floating` does.
    """
    b, (q,) = floating_body(model), _joints(model, q=q)
    n = model.nv - 6
    where = [slice(vi.start - 6, vi.stop - 6) for vi in model.v_slices]
    Xup, S = per_body(model, 2)
    for i in range(b + 1, model.nb):
        Xup[i], S[i], _, _ = joint_kinematics(model, i, q, np.zeros(model.nv))
    Ic, F, H = list(model.inertia), np.zeros((6, n), dtype=q.dtype), np.zeros((n, n), dtype=q.dtype)

    # inward: composite inertias, and each column of F and H from the force that moves the subtree
    for i in reversed(range(b + 1, model.nb)):
        j, p = i, model.parent[i]
        Ic[p] = Ic[p] + Ic[i].to_parent(Xup[i])
        Fi = Ic[i] @ S[i]
        H[where[i], where[i]] = S[i].T @ Fi
        while (p := model.parent[j]) > b:
            Fi, j = Xup[j].T @ Fi, p
            H[where[i], where[j]] = Fi.T @ S[j]
            H[where[j], where[i]] = S[j].T @ Fi
        F[:, where[i]] = Xup[j].T @ Fi
    return FloatingInertia(Ic[b].matrix(), F, H)


def forward_dynamics_crba_floating(
    model: Model,
    X: Transform,
    v: Array,
    q: Array,
    qd: Array,
    tau: Array,
    f_ext: Array | None = None,
    gravity: Array | None = None,
) -> FloatingMotion:
    """The same as `aba_floating`, as the solution of [[I0c, F], [F^T, H]] [a0; qdd] = [0; tau] - [p0c; C] (RBDA Eq 9.13).

    The matrix has the branch-induced zeros of a model with the base on a chain of six joints.
    """
    I0c, F, H = crba_floating(model, q)
    p0c, C = bias_force_floating(model, X, v, q, qd, f_ext, gravity)
    solution = solve_ltdl(np.block([[I0c, F], [F.T, H]]), expanded_parent(model), np.concatenate([-p0c, tau - C]))
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
    """H^fl and C^fl of H^fl qdd + C^fl = tau, which has the base eliminated (RBDA Eq 9.14 to 9.16).

        H^fl = H - F^T I0c^-1 F,  C^fl = C - F^T I0c^-1 p0c

    H^fl is symmetric positive definite, and dense: the branch-induced zeros are lost.
    """
    I0c, F, H = crba_floating(model, q)
    p0c, C = bias_force_floating(model, X, v, q, qd, f_ext, gravity)
    return FloatingJointSpace(H + F.T @ _without_force(I0c, F), C + F.T @ _without_force(I0c, p0c))


def body_jacobian_floating(model: Model, q: Array, body: int) -> Array:
    """J^f (6, n) in body coordinates: the velocity of a body is J^f qd where the whole has no momentum (RBDA Example 9.4).

        J^f = J - X I0c^-1 F, with X from floating-base to body coordinates

    It also relates what internal impulses change: delta v = J^f delta qd.
    """
    b, (padded,) = floating_body(model), _joints(model, q=q)
    I0c, F, _ = crba_floating(model, q)
    J: list[Array] = [np.zeros((6, joint.nv)) for joint in model.joint]
    X = model.algebra.identity()
    for i in (i for i in reversed(support(model, body)) if i > b):
        Xup, S, _, _ = joint_kinematics(model, i, padded, np.zeros(model.nv))
        J[i] = X @ S
        X = X @ Xup
    jacobian: Array = np.hstack([np.zeros((6, 0)), *J[b + 1 :]]) + X @ _without_force(I0c, F)
    return jacobian


def _composite(
    model: Model,
    b: int,
    X: Transform,
    v: Array,
    q: Array,
    qd: Array,
    qdd: Array,
    f_ext: Array | None,
    a_base: Array | None = None,
) -> tuple[list[Any], ...]:
    """Outward: transforms, S, inertias, and the force each body takes; the base accelerates with `a_base` or not."""
    algebra = model.algebra
    Xup, S, vel, a, Ic, f = per_body(model, 6)
    vel[b], X0 = X @ v, {b: X}
    a[b] = algebra.zero() if a_base is None else a_base
    for i in range(b, model.nb):
        if i > b:
            p = model.parent[i]
            Xup[i], S[i], vJ, cJ = joint_kinematics(model, i, q, qd)
            X0[i], vel[i] = Xup[i] @ X0[p], Xup[i] @ vel[p] + vJ
            a[i] = Xup[i] @ a[p] + cJ + algebra.cross_motion(vel[i], vJ) + S[i] @ qdd[model.v_slices[i]]
        Ic[i] = model.inertia[i]
        f[i] = Ic[i] @ a[i] + algebra.cross_force(vel[i], Ic[i] @ vel[i])
        if f_ext is not None:
            f[i] = f[i] - X0[i].force(f_ext[i])
    return Xup, S, Ic, f


def _without_force(I: Array, p: Array) -> Array:
    """The acceleration of a body on which nothing acts but its bias force: the solution of I a + p = 0, column by column."""
    return solve_ltdl(I, tuple(range(-1, len(I) - 1)), -p)


def _joints(model: Model, **given: Array) -> list[Array]:
    """The joint vectors with places for the variables of the floating base, which are not looked at."""
    padded = []
    for name, vector in given.items():
        total, base = (model.nq, model.q_slices[floating_body(model)].stop) if name == "q" else (model.nv, 6)
        if len(vector) != total - base:
            raise ValueError(
                f"{name} has {len(vector)} elements, but the joints of model '{model.name}' behind its floating base have "
                f"{total - base} variables; those of the base itself are in X and v"
            )
        padded.append(np.concatenate([np.zeros(base), np.asarray(vector)]))
    return padded
