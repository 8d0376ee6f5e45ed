"""Floating-base dynamics: the state of the base is its own, so that it has no singular orientation
(RBDA 9.3 to 9.5).

A floating base is a body that six freedoms of the model's first joints carry: body 5 of a model
from `floating_base`, or body 0 on a `SixDoF` joint. The functions here do not look at those joints.
Instead they take, as FDf and IDf of spatial_v1 do, the transform X from the coordinates of the
fixed base to those of the floating one, and its velocity v (6,) and acceleration a (6,) in
coordinates of the *fixed* base. q, qd, qdd and tau are then those of the other joints alone; f_ext
keeps a row for every body of the model (what is above the floating base is not moved by it), and
gravity is in coordinates of the fixed base, as everywhere.
"""

from typing import NamedTuple

import numpy as np

from rigidblocks.algebra.linear import positive_solution
from rigidblocks.algebra.sparse import solve_ltdl
from rigidblocks.algebra.spatial import Array, Transform
from rigidblocks.dynamics.forward import accelerations, articulated, bodies_alone, force_given
from rigidblocks.dynamics.inverse import net_forces
from rigidblocks.dynamics.joint_space import (
    composite_inertias,
    expanded_parent,
    inertia_of_joints,
)
from rigidblocks.dynamics.kinematics import classical_acceleration, spatial_acceleration
from rigidblocks.dynamics.sweeps import (
    Base,
    behind_six_freedoms,
    joint_kinematics,
    minus_gravity,
    support,
)
from rigidblocks.model.model import Model


class FloatingMotion(NamedTuple):
    """The acceleration a (6,) of the base in fixed-base coordinates, and those of the joints,
    qdd.
    """

    a: Array
    qdd: Array


class FloatingForces(NamedTuple):
    """The acceleration a (6,) of the base in fixed-base coordinates, and the forces of the joints,
    tau.
    """

    a: Array
    tau: Array


class FloatingInertia(NamedTuple):
    """The inertia [[I0c, F], [F^T, H]] of base and joints: I0c (6, 6), F (6, n), H (n, n), in
    floating-base coordinates.
    """

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

    Raises ValueError where there is none: the bodies before it must be an unbranched chain without
    mass, and all others must hang on it.
    """
    body = behind_six_freedoms(model)
    if body is None:
        raise ValueError(
            f"model '{model.name}' has no floating base: its first joints must carry one body by "
            "six freedoms, the bodies "
            "between without mass, and all other bodies must hang on that one; "
            "floating_base(model) makes such a model"
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
    """The accelerations of the base and of the joints that the joint forces cause (FDf of
    spatial_v1).

    The floating-base articulated-body algorithm (RBDA Table 9.4): I0A a0 + p0A = 0. Raises
    ValueError for a model that has no floating base, and for vectors of another length than its
    joints have variables.
    """
    base, (q, qd, tau) = _base(model, X, v), _joints(model, q=q, qd=qd, tau=tau)
    bodies = bodies_alone(model, base, q, qd, f_ext)
    joined = articulated(model, bodies, force_given(model, tau))
    a0 = _without_force(joined.bodies.IA[base.body].matrix(), joined.bodies.pA[base.body])
    qdd, _ = accelerations(model, joined, a0)
    a = _with_gravity(model, base, a0, gravity)
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
    """The acceleration of the base and the joint forces that belong to the joint accelerations (IDf
    of spatial_v1).

    With the relative accelerations first, and the composite inertia of the whole to find that of
    the base (RBDA Table 9.6): I0c a0 + p0c = 0, tau_i = S_i^T (I_i^c a0 + p_i^c). Raises ValueError
    as `aba_floating` does.
    """
    base, (q, qd, qdd) = _base(model, X, v), _joints(model, q=q, qd=qd, qdd=qdd)
    b = base.body
    Xup, S, pc = net_forces(model, base, model.algebra.zero(), q, qd, qdd, f_ext)
    Ic = composite_inertias(model, Xup, base=b)

    # inward: the forces on the subtrees as if the base had no acceleration
    for i in reversed(range(b + 1, model.nb)):
        pc[model.parent[i]] = pc[model.parent[i]] + Xup[i].T @ pc[i]

    # outward: the acceleration of the base in the coordinates of each body, as without gravity
    a0 = {b: _without_force(Ic[b].matrix(), pc[b])}
    tau = [np.zeros(0)]
    for i in range(b + 1, model.nb):
        a0[i] = Xup[i] @ a0[model.parent[i]]
        tau.append(S[i].T @ (Ic[i] @ a0[i] + pc[i]))
    return FloatingForces(_with_gravity(model, base, a0[b], gravity), np.concatenate(tau))


def bias_force_floating(
    model: Model,
    X: Transform,
    v: Array,
    q: Array,
    qd: Array,
    f_ext: Array | None = None,
    gravity: Array | None = None,
) -> FloatingBias:
    """p0c and C of `[[I0c, F], [F^T, H]] [a0; qdd] + [p0c; C] = [0; tau]` (RBDA Eq 9.13, Table
    9.5).

    a0 is the acceleration of the base in *floating-base* coordinates there. Raises ValueError as
    `aba_floating` does.
    """
    base, (q, qd) = _base(model, X, v), _joints(model, q=q, qd=qd)
    b, still = base.body, np.zeros(model.nv)
    a = classical_acceleration(X @ minus_gravity(model, gravity), base.v)
    Xup, S, f = net_forces(model, base, a, q, qd, still, f_ext)
    C = [np.zeros(0)]
    for i in reversed(range(b + 1, model.nb)):
        C.insert(0, S[i].T @ f[i])
        f[model.parent[i]] = f[model.parent[i]] + Xup[i].T @ f[i]
    return FloatingBias(f[b], np.concatenate(C))


def crba_floating(model: Model, q: Array) -> FloatingInertia:
    """I0c, F and H of `[[I0c, F], [F^T, H]] [a0; qdd] + [p0c; C] = [0; tau]` (RBDA Eq 9.13,
    Table 9.5).

    Column by column, F has the forces on the base that go with unit accelerations of the joints.
    Raises ValueError as `aba_floating` does.
    """
    b, (q,) = floating_body(model), _joints(model, q=q)
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
) -> FloatingMotion:
    """The same as `aba_floating`, as the solution of
    `[[I0c, F], [F^T, H]] [a0; qdd] = [0; tau] - [p0c; C]` (RBDA Eq 9.13).

    The matrix has the branch-induced zeros of a model with the base on a chain of six joints.
    `rotor_inertia` (n,) is added to the diagonal of H (RBDA Eq 9.28). With gears, qdd = G ydd, the
    equation is projected on the independent variables (RBDA Eq 9.26).
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
        solution = all_G @ positive_solution(all_G.T @ whole @ all_G, all_G.T @ u)
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


def body_jacobian_floating(model: Model, q: Array, body: str | int) -> Array:
    """J^f (6, n) in body coordinates: the velocity of a body is J^f qd where the whole has no
    momentum (RBDA Example 9.4).

        J^f = J - X I0c^-1 F, with X from base to body coordinates

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


def _base(model: Model, X: Transform, v: Array) -> Base:
    return Base(floating_body(model), X, X @ v)


def _with_gravity(model: Model, base: Base, a0: Array, gravity: Array | None) -> Array:
    """The spatial acceleration of the base in fixed-base coordinates, from that of its points as
    without gravity.
    """
    a: Array = base.X.inverse() @ spatial_acceleration(a0, base.v) - minus_gravity(model, gravity)
    return a


def _without_force(I: Array, p: Array) -> Array:
    """The acceleration of a body on which nothing acts but its bias force: the solution of I a + p
    = 0, column by column.
    """
    return positive_solution(I, -p)


def _joints(model: Model, **given: Array) -> list[Array]:
    """The joint vectors with places for the variables of the floating base, which are not looked
    at.
    """
    padded = []
    for name, vector in given.items():
        total, base = (
            (model.nq, model.q_slices[floating_body(model)].stop) if name == "q" else (model.nv, 6)
        )
        if len(vector) != total - base:
            raise ValueError(
                f"{name} has {len(vector)} elements, but the joints of model '{model.name}' behind "
                "its floating base have "
                f"{total - base} variables; those of the base itself are in X and v"
            )
        padded.append(np.concatenate([np.zeros(base), np.asarray(vector)]))
    return padded
