"""Forward and hybrid dynamics: the inertia matrix H and accelerations (RBDA 6, 7, 9.1, 9.2).

`crba` computes the joint-space inertia matrix H (RBDA chapter 6). `inertia_times` multiplies a
vector by H, and `forward_dynamics_crba` solves the equation of motion with H.

The articulated-body algorithm makes three passes over the bodies (RBDA Table 7.1). Each pass calls
a step function for every body. Hybrid dynamics, rotors and floating bases use the same passes with
other step functions. The generated C code of large models calls the step functions in loops, so
code size does not depend on the number of bodies.

In hybrid dynamics, either the force or the acceleration of each joint is given.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np

from rigidblocks.dynamics.inverse import bias_force, rnea, transmitted_force
from rigidblocks.dynamics.joint_kinematics import (
    Base,
    body_lists,
    body_transform,
    check_lengths,
    fixed_base,
    minus_gravity,
    subtract_external_forces,
    supporting_joints,
    transforms_and_subspaces,
)
from rigidblocks.robot.tree import Tree, check_moved_inertia
from rigidblocks.spatial.branch_sparsity import expand_lambda, solve_ltdl
from rigidblocks.spatial.linear_algebra import small_inverse
from rigidblocks.spatial.scalar import is_number
from rigidblocks.spatial.spatial import Array

Solver = Callable[[Array, tuple[int, ...], Array], Array]


def expanded_parent(model: Tree) -> tuple[int, ...]:
    """Return the parent array of the velocity variables (RBDA Table 6.4).

    This array defines the branch-induced zeros of the inertia matrix H.
    """
    return expand_lambda(model.parent, [joint.nv for joint in model.joint])


def crba(model: Tree, q: Array, rotor_inertia: Array | None = None) -> Array:
    """Return the joint-space inertia matrix H (nv, nv), symmetric positive definite.

    This is the composite-rigid-body algorithm (RBDA Table 6.2).

    Args:
        model: Tree of bodies.
        q: Joint positions (nq,) [rad or m].
        rotor_inertia: Inertia (nv,) of the motor rotors at the joints [kg m^2 or kg], added to the
            diagonal of H (RBDA Eq 9.28).
    """
    check_lengths(model, q=q)
    H = inertia_of_joints(model, q, dict(enumerate(model.v_slices)))
    return H if rotor_inertia is None else H + np.diag(np.asarray(rotor_inertia))


def inertia_of_joints(model: Tree, q: Array, slices: Mapping[int, slice], base: int = -1) -> Array:
    """Return the joint-space inertia matrix of selected joints (RBDA Tables 6.2 and 9.1).

    `slices` maps each selected joint to the slice of its variables in the matrix. If `base` is the
    index of a floating body, the motion subspace of its joint consists of the six unit vectors
    (RBDA Eq 9.13).
    """
    Xup, S = transforms_and_subspaces(model, q, base)
    if base >= 0:
        S[base] = np.eye(6)
    is_moved = supporting_joints(model.parent, [i in slices for i in range(model.nb)])
    Ic = composite_inertias(model, Xup, is_moved, base)
    n = max((place.stop for place in slices.values()), default=0)
    H = np.zeros((n, n), dtype=np.result_type(float, np.asarray(q)))

    # each column of H follows from the force that accelerates the subtree of its joint
    for i, place in slices.items():
        for j, F in _force_on_supports(model, Xup, Ic[i] @ S[i], i, is_moved):
            if j in slices:
                H[slices[j], place] = S[j].T @ F
                H[place, slices[j]] = H[slices[j], place].T
    return H


def composite_inertias(
    model: Tree, Xup: list[Any], is_moved: Sequence[bool] | None = None, base: int = -1
) -> list[Any]:
    """Return the composite inertia I^c_i of the subtree of each body.

    `Xup` are the transforms from the parents. An inward pass adds the composite inertia of each
    body with an index above `base` to the parent of the body. If `is_moved` is given, only parents
    p with `is_moved[p]` = True receive the inertia of their children.
    """
    Ic = list(model.inertia)
    for i in reversed(range(base + 1, model.nb)):
        if (p := model.parent[i]) >= 0 and (is_moved is None or is_moved[p]):
            Ic[p] = Ic[p] + Ic[i].transform_to_parent(Xup[i])
    return Ic


def _force_on_supports(
    model: Tree, Xup: list[Any], F: Array, i: int, is_moved: Sequence[bool]
) -> Iterator[tuple[int, Array]]:
    """Yield the forces F on body i, first in its coordinates, then in its ancestors'.

    Each item is a pair: the index of the body whose coordinates are used, and the forces. The path
    ends before the first ancestor p with `is_moved[p]` = False.
    """
    yield i, F
    while (p := model.parent[i]) >= 0 and is_moved[p]:
        F, i = Xup[i].T @ F, p
        yield i, F


def forward_dynamics_crba(
    model: Tree,
    q: Array,
    qd: Array,
    tau: Array,
    f_ext: Array | None = None,
    gravity: Array | None = None,
    solve: Solver = solve_ltdl,
) -> Array:
    """Return the joint accelerations qdd (nv,) from H(q) qdd = tau - C(q, qd, f_ext) (RBDA 6.1).

    The composite-rigid-body algorithm computes H, and the recursive Newton-Euler algorithm computes
    C. The solver skips the branch-induced zeros of H.

    Args:
        model: Tree of bodies.
        q: Joint positions (nq,) [rad or m].
        qd: Joint velocities (nv,).
        tau: Joint forces (nv,) [N m or N].
        f_ext: External wrenches (nb, 6) on the bodies in base coordinates [N m, N].
        gravity: Gravity (3,) [m/s^2] in base coordinates; by default model.gravity.
        solve: Solver of H qdd = tau - C: `solve_ltdl` or `solve_ltl`.

    Raises:
        ValueError: H is numeric and not positive definite.
    """
    check_lengths(model, f_ext, q=q, qd=qd, tau=tau)
    C = bias_force(model, q, qd, f_ext, gravity)
    return solve(crba(model, q), expanded_parent(model), tau - C)


def inertia_times(model: Tree, q: Array, qdd: Array) -> Array:
    """Return the product H(q) qdd (nv,): joint forces at rest without gravity (RBDA Table 6.1).

    Args:
        model: Tree of bodies.
        q: Joint positions (nq,) [rad or m].
        qdd: Joint accelerations (nv,).
    """
    check_lengths(model, q=q, qdd=qdd)
    Xup, S = transforms_and_subspaces(model, q)
    a, f, tau = body_lists(model, 3)
    a[-1] = model.algebra.zero()

    # outward: accelerations, and the net force of each body
    for i, p in enumerate(model.parent):
        a[i] = Xup[i] @ a[p] + S[i] @ qdd[model.v_slices[i]]
        f[i] = model.inertia[i] @ a[i]

    # inward: each joint transmits the force of its subtree
    for i in reversed(range(model.nb)):
        tau[i], fa = transmitted_force(model, i, Xup[i], S[i], f[i])
        if (p := model.parent[i]) >= 0:
            f[p] = f[p] + fa
    return np.concatenate(tau[:-1])


def aba(
    model: Tree,
    q: Array,
    qd: Array,
    tau: Array,
    f_ext: Array | None = None,
    gravity: Array | None = None,
) -> Array:
    """Return the joint accelerations qdd (nv,): qdd = H(q)^-1 (tau - C(q, qd)).

    The articulated-body algorithm (RBDA Table 7.1) ignores loop joints; use
    `rigidblocks.dynamics.loops` for closed loops.

    Args:
        model: Tree of bodies.
        q: Joint positions (nq,) [rad or m].
        qd: Joint velocities (nv,).
        tau: Joint forces (nv,) [N m or N].
        f_ext: External wrenches (nb, 6) on the bodies in base coordinates [N m, N].
        gravity: Gravity (3,) [m/s^2] in base coordinates; by default model.gravity.

    Raises:
        ValueError: A joint can move without moving any inertia.
    """
    check_moved_inertia(model)
    check_lengths(model, f_ext, q=q, qd=qd, tau=tau)
    bodies = aba_outward_pass(model, fixed_base(model), q, qd, f_ext)
    articulated = aba_inward_pass(model, bodies, force_step(model, tau))
    return np.concatenate(accelerations(model, articulated, minus_gravity(model, gravity)).qdd)


class Bodies(NamedTuple):
    """Results of the first outward pass, as lists indexed by body (RBDA Table 7.1).

    `outward_step` defines the fields Xup to pA, which are in body coordinates. `base` is the index
    of the body at which the outward pass starts.
    """

    base: int
    Xup: list[Any]
    S: list[Array]
    v: list[Array]
    c: list[Array]
    IA: list[Any]
    pA: list[Array]


class Articulated(NamedTuple):
    """Results of the inward pass, which determine the joint accelerations.

        qdd = qdd0 - UDinv^T a'

    `UDinv` contains U D^-1 and `qdd0` contains D^-1 u of each joint; `articulated_step` defines U,
    D and u. a' is the acceleration that the moved body has for qdd = 0. The fields IA and pA of
    `bodies` are the articulated-body inertias and bias forces.
    """

    bodies: Bodies
    UDinv: list[Array]
    qdd0: list[Array]


class Accelerations(NamedTuple):
    """Accelerations qdd of the joints and a of the bodies, as lists of vectors."""

    qdd: list[Array]
    a: list[Array]


ArticulatedStep = Callable[..., tuple[Array, Array, Any, Array]]


# passes


def aba_outward_pass(
    model: Tree, base: Base, q: Array, qd: Array, f_ext: Array | None = None
) -> Bodies:
    """Run the first (outward) pass; return velocities, inertias and bias terms of the bodies.

    The pass starts at the body `base`. The external wrenches f_ext are part of the bias forces.
    """
    b, (Xup, S, v, c, IA, pA) = base.body, body_lists(model, 6)
    v[b] = base.v
    if b >= 0:
        IA[b], pA[b] = rigid_body_terms(model, b, base.v)
    for i in range(b + 1, model.nb):
        qi, qdi = q[model.q_slices[i]], qd[model.v_slices[i]]
        Xup[i], S[i], v[i], c[i], IA[i], pA[i] = outward_step(model, i, qi, qdi, v[model.parent[i]])
    return Bodies(b, Xup, S, v, c, IA, subtract_external_forces(model, base, Xup, pA, f_ext))


def aba_inward_pass(model: Tree, bodies: Bodies, step: ArticulatedStep) -> Articulated:
    """Run the second (inward) pass, which eliminates the joints from the last to the first.

    `step(i, Xup, S, c, IA, pA)` is the step function of joint i, for example `articulated_step`.
    """
    base, Xup, S, _, c = bodies[:5]
    IA, pA = list(bodies.IA), list(bodies.pA)
    UDinv, qdd0 = body_lists(model, 2)
    for i in reversed(range(base + 1, model.nb)):
        UDinv[i], qdd0[i], Ia, pa = step(i, Xup[i], S[i], c[i], IA[i], pA[i])
        if (p := model.parent[i]) >= 0:
            IA[p], pA[p] = IA[p] + Ia, pA[p] + pa
    return Articulated(bodies._replace(IA=IA, pA=pA), UDinv, qdd0)


def accelerations(model: Tree, articulated: Articulated, a_base: Array) -> Accelerations:
    """Run the third (outward) pass; return the joint and body accelerations.

    `articulated` contains the results of the inward pass. `a_base` is the acceleration of the base.
    """
    (base, Xup, S, _, c, _, _), UDinv, qdd0 = articulated
    a, qdd = body_lists(model, 2)
    a[base] = a_base
    for i in range(base + 1, model.nb):
        a_p = a[model.parent[i]]
        qdd[i], a[i] = acceleration(model, i, Xup[i], S[i], c[i], UDinv[i], qdd0[i], a_p)
    return Accelerations(qdd[base + 1 : model.nb], a)


# steps of the passes


def outward_step(model: Tree, i: int, q: Array, qd: Array, v_p: Array) -> tuple[Any, ...]:
    """Return Xup, S, v, c, IA and pA of body i, in the first pass of `aba`.

    Xup is the transform from the parent, S the motion subspace of the joint, and v the velocity. In
    spatial vectors, c = v x vJ + cJ is the bias acceleration, IA = I the inertia, and pA = v x* I v
    the bias force. `v_p` is the velocity of the parent. In the result, the linear component of c is
    the acceleration of the body origin, as in `Transform.carry`.
    """
    XJ, S, vJ, cJ = model.joint[i].jcalc(q, qd)
    Xup = body_transform(model, i, XJ, q)
    v = Xup @ v_p + vJ
    c = Xup.carry(v_p, model.algebra.zero()) + cJ + model.algebra.coriolis(v, vJ)
    return Xup, S, v, c, *rigid_body_terms(model, i, v)


def rigid_body_terms(model: Tree, i: int, v: Array) -> tuple[Any, Array]:
    """Return the rigid-body inertia IA = I and the bias force pA = v x* I v of body i."""
    return model.inertia[i].articulated_inertia(), model.inertia[i].force(v, model.algebra.zero())


def articulated_step(
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
    """Eliminate joint i, which has the force tau, in the second pass of `aba`.

    U = I^A S, D = S^T U and u = tau - S^T p^A. Xup, S, c, IA and pA are the quantities of
    `outward_step`. `rotor` is the rotor inertia that acts only at the joint (RBDA Eq 9.28).

    Returns:
        U D^-1, D^-1 u, and the articulated inertia and bias force that act on the parent.
    """
    del i
    UDinv, Dinv, Ia = project_inertia(model, IA, S, rotor)
    u = tau - S.T @ pA
    pa = pA + Ia @ c + UDinv @ u
    return UDinv, Dinv @ u, Ia.transform_to_parent(Xup), Xup.T @ pa


def articulated_step_prescribed(
    model: Tree, i: int, qdd: Array, Xup: Any, S: Array, c: Array, IA: Any, pA: Array
) -> tuple[Array, Array, Any, Array]:
    """Eliminate a joint with the known acceleration qdd in the second pass (RBDA Table 9.3).

    The joint transmits the whole articulated inertia to the parent. The other arguments and the
    results are as in `articulated_step`. U D^-1 is 0, and qdd replaces D^-1 u.
    """
    del model, i
    pa = pA + IA @ (c + S @ qdd)
    return np.zeros(S.shape), qdd, IA.transform_to_parent(Xup), Xup.T @ pa


def acceleration(
    model: Tree, i: int, Xup: Any, S: Array, c: Array, UDinv: Array, qdd0: Array, a_p: Array
) -> tuple[Array, Array]:
    """Return the joint acceleration qdd and the body acceleration a, in the third pass of `aba`.

    qdd = D^-1 (u - U^T a') and a = a' + S qdd. a' = Xup a_p + c is the acceleration of the body for
    qdd = 0, and a_p is the acceleration of the parent. `UDinv` = U D^-1 and `qdd0` = D^-1 u are
    results of `articulated_step`.
    """
    del model, i
    a = Xup @ a_p + c
    qdd = qdd0 - UDinv.T @ a
    return qdd, a + S @ qdd


def force_step(model: Tree, tau: Array) -> ArticulatedStep:
    """Return the step function of the second (inward) pass for joints with the forces tau (nv,)."""
    return lambda i, *body: articulated_step(model, i, tau[model.v_slices[i]], *body)


def project_inertia(
    model: Tree, IA: Any, S: Array, rotor: Array | None = None
) -> tuple[Array, Array, Any]:
    """Project an articulated inertia across a joint; return U D^-1, D^-1 and I^a.

    I^a = I^A - U D^-1 U^T with U = I^A S and D = S^T U. The inertia of `rotor` is added to the
    diagonal of D.
    """
    U = IA @ S
    D = S.T @ U
    Dinv = small_inverse(D if rotor is None else D + np.diag(rotor))
    UDinv = solve_joint_block(U, Dinv, S) if rotor is None else U @ Dinv
    return UDinv, Dinv, IA - model.algebra.outer(UDinv, U)


def solve_joint_block(U: Array, Dinv: Array, S: Array) -> Array:
    """Return U D^-1 with U = I^A S and D = S^T U, without rounding errors in the known rows.

    If column k of S is the unit vector of row j, row j of the result is row k of the identity
    matrix, because S^T U D^-1 = 1. Exact values in these rows give exact zeros in the result I^a of
    `project_inertia`. The tracer omits these zeros (RBDA A.4).
    """
    UDinv = U @ Dinv
    for k, column in enumerate(S.T):
        where = [row for row, s in enumerate(column.tolist()) if not is_number(s, 0.0)]
        if len(where) == 1 and is_number(S[where[0], k], 1.0):
            UDinv[where[0]] = np.eye(S.shape[1])[k]
    return UDinv


Mask = Sequence[Any] | Array


class JointDynamics(NamedTuple):
    """Accelerations qdd (nv,) and forces tau (nv,) of the equation of motion."""

    qdd: Array
    tau: Array


def hybrid_dynamics(
    model: Tree,
    fd: Mask,
    q: Array,
    qd: Array,
    qdd: Array,
    tau: Array,
    f_ext: Array | None = None,
    gravity: Array | None = None,
    rotor_inertia: Array | None = None,
) -> JointDynamics:
    """Solve the equation of motion with either the acceleration or the force of each joint given.

    This is the articulated-body algorithm for hybrid dynamics (RBDA Table 9.3). The result contains
    both the given and the computed elements. The algorithm ignores the elements of the arguments
    qdd and tau that are unknown.

    Args:
        model: Tree of bodies.
        fd: One boolean per joint, true for a forward-dynamics joint. At a forward-dynamics joint
            tau is given and qdd unknown; at other joints qdd is given and tau unknown.
        q: Joint positions (nq,) [rad or m].
        qd: Joint velocities (nv,).
        qdd: Joint accelerations (nv,).
        tau: Joint forces (nv,) [N m or N].
        f_ext: External wrenches (nb, 6) on the bodies in base coordinates [N m, N].
        gravity: Gravity (3,) [m/s^2] in base coordinates; by default model.gravity.
        rotor_inertia: Rotor inertia (nv,) at each variable (RBDA Eq 9.28).

    Raises:
        ValueError: The mask does not have one boolean per joint, or a forward-dynamics joint moves
            no inertia.
    """
    fd = checked_mask(model, fd)
    check_lengths(model, f_ext, q=q, qd=qd, qdd=qdd, tau=tau)
    given = JointDynamics(qdd, tau)
    bodies = aba_outward_pass(model, fixed_base(model), q, qd, f_ext)
    articulated = aba_inward_pass(
        model, bodies, force_or_acceleration_step(model, fd, given, rotor_inertia)
    )
    found, a = accelerations(model, articulated, minus_gravity(model, gravity))

    # joint forces of the prescribed joints
    I_rot = np.zeros(model.nv) if rotor_inertia is None else np.asarray(rotor_inertia)
    _, _, S, _, _, IA, pA = articulated.bodies
    tau_out = [
        tau[vi] if known else S[i].T @ (IA[i] @ a[i] + pA[i]) + I_rot[vi] * found[i]
        for i, (known, vi) in enumerate(_joints(model, fd))
    ]
    return JointDynamics(np.concatenate(found), np.concatenate(tau_out))


def force_or_acceleration_step(
    model: Tree, fd: Mask, prescribed: JointDynamics, rotor_inertia: Array | None
) -> ArticulatedStep:
    """Return the step function of the second (inward) pass of hybrid dynamics.

    `prescribed` contains the forces of the forward-dynamics joints (`fd` is True) and the
    accelerations of all other joints.
    """

    def step(i: int, Xup: Any, S: Array, c: Array, IA: Any, pA: Array) -> Any:
        vi = model.v_slices[i]
        if not fd[i]:
            return articulated_step_prescribed(model, i, prescribed.qdd[vi], Xup, S, c, IA, pA)
        rotor = None if rotor_inertia is None else np.asarray(rotor_inertia)[vi]
        _check_inertia(model, i, IA, S, rotor)
        return articulated_step(model, i, prescribed.tau[vi], Xup, S, c, IA, pA, rotor)

    return step


def hybrid_dynamics_crba(
    model: Tree,
    fd: Mask,
    q: Array,
    qd: Array,
    qdd: Array,
    tau: Array,
    f_ext: Array | None = None,
    gravity: Array | None = None,
) -> JointDynamics:
    """Return the result of `hybrid_dynamics`, computed with the inertia matrix and `rnea`.

        C' = ID(q, qd, [0; qdd2]), H11 qdd1 = tau1 - C1', tau = C' + H [qdd1; 0]  (RBDA Eq 9.2, 9.3)

    The indices 1 and 2 denote the variables with unknown and with given acceleration. ID is `rnea`.

    Raises:
        ValueError: The mask does not have one boolean per joint, or H11 is numeric and not positive
            definite.
    """
    fd = checked_mask(model, fd)
    check_lengths(model, f_ext, q=q, qd=qd, qdd=qdd, tau=tau)
    forward = np.repeat(fd, [joint.nv for joint in model.joint])
    given = np.where(forward, 0.0, qdd)
    C = rnea(model, q, qd, given, f_ext, gravity)

    # the unknown accelerations, with zeros at the given accelerations
    qdd1 = solve_ltdl(crba_of(model, q, fd), _expanded_parent(model, fd), (tau - C)[forward])
    found = np.full(model.nv, 0.0, dtype=qdd1.dtype)
    found[forward] = qdd1
    tau_out = np.where(forward, tau, C + inertia_times(model, q, found))
    return JointDynamics(given + found, tau_out)


def _expanded_parent(model: Tree, fd: Mask) -> tuple[int, ...]:
    """Return the parent array of the variables of the forward-dynamics joints (`fd`).

    This array determines the branch-induced zeros of H11.
    """
    freedoms = [joint.nv for joint, known in zip(model.joint, fd, strict=True) if known]
    return expand_lambda(reduced_parent(model.parent, fd)[0], freedoms)


def crba_of(model: Tree, q: Array, fd: Mask) -> Array:
    """Return the joint-space inertia H11 of the forward-dynamics joints (RBDA Table 9.1).

    `fd` is True for these joints. The rows and columns of H11 are in the order of their variables.
    """
    fd = checked_mask(model, fd)
    first = _variable_slices(model, fd)
    return inertia_of_joints(model, q, {i: first[i] for i, known in enumerate(fd) if known})


def reduced_parent(parent: Sequence[int], fd: Mask) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the parent array of the tree with only forward-dynamics joints (RBDA Fig 9.1).

    The function merges the two bodies of each joint with `fd` = False. If each joint has one degree
    of freedom, the parent array defines the branch-induced zeros of H11. Otherwise, apply
    `expand_lambda` to it.

    Returns:
        The parent array, and for every body its index in the merged tree, -1 for the base.
    """
    reduced: list[int] = []
    number = [-1] * (len(parent) + 1)  # the last entry is the base
    for i, (p, known) in enumerate(zip(parent, fd, strict=True)):
        number[i] = number[p]
        if known:
            reduced.append(number[p])
            number[i] = len(reduced) - 1
    return tuple(reduced), tuple(number[:-1])


def checked_mask(model: Tree, fd: Mask) -> tuple[bool, ...]:
    """Return the mask of the forward-dynamics joints as a tuple.

    Raises:
        ValueError: The mask is invalid.
    """
    mask = np.asarray(fd)
    if mask.shape != (model.nb,) or mask.dtype == object or not np.all((mask == 0) | (mask == 1)):
        raise ValueError(
            f"the mask fd needs one boolean for each of the {model.nb} joints of model "
            f"'{model.name}', not {fd!r}"
        )
    return tuple(bool(known) for known in mask)


def _joints(model: Tree, fd: Mask) -> list[tuple[bool, slice]]:
    return list(zip(fd, model.v_slices, strict=True))


def _variable_slices(model: Tree, fd: Mask) -> list[slice]:
    """Return the slice of each joint in the inertia matrix H11 of the forward-dynamics joints.

    Joints with `fd` = False have empty slices.
    """
    sizes = [joint.nv if known else 0 for joint, known in zip(model.joint, fd, strict=True)]
    return [slice(a, b) for a, b in pairwise(accumulate(sizes, initial=0))]


def _check_inertia(model: Tree, i: int, IA: Any, S: Array, rotor: Array | None) -> None:
    """Raise ValueError if the forward-dynamics joint i moves no inertia; skip traced values.

    IA is the articulated-body inertia of body i, and S the motion subspace of the joint.
    """
    D = S.T @ (IA @ S) + np.diag(np.zeros(S.shape[1]) if rotor is None else rotor)
    if D.dtype != object and np.all(np.isfinite(D)) and not np.all(np.linalg.eigvalsh(D) > 0):
        raise ValueError(
            f"joint {i} ({model.joint_names[i]}) of model '{model.name}' cannot be a "
            "forward-dynamics joint: the bodies that it moves "
            f"have no inertia along it, D = {D.tolist()}; prescribe its acceleration instead"
        )
