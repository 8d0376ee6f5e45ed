"""Hybrid dynamics: at each joint either the force is given or the acceleration (RBDA 9.1, 9.2)."""

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np

from rigidblocks.dynamics.forward import small_inverse
from rigidblocks.dynamics.inverse import rnea
from rigidblocks.dynamics.joint_space import inertia_times
from rigidblocks.dynamics.kinematics import base_transforms, check_lengths, joint_kinematics, minus_gravity, per_body
from rigidblocks.dynamics.sparse import expand_lambda, solve_ltdl
from rigidblocks.spatial import Array
from rigidblocks.tree import Tree

Mask = Sequence[Any] | Array


class JointDynamics(NamedTuple):
    """Both sides of the equation of motion: the accelerations qdd (nv,) and the forces tau (nv,)."""

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
    """All accelerations and all forces, from the forces of some joints and the accelerations of the others.

    `fd[i]` is true for a forward-dynamics joint: its part of tau is given, and of qdd found; at the others qdd is given,
    and tau found. What is given is copied to the result; the parts of qdd and tau that are not given are not read.
    `rotor_inertia` (nv,) is added to the inertia of each variable on its own (RBDA Eq 9.28). The articulated-body
    algorithm for hybrid dynamics (RBDA Table 9.3).

    Raises ValueError for a mask that is not one boolean a joint, and for a forward-dynamics joint that moves no inertia.
    """
    nb, I, algebra, fd = model.nb, model.inertia, model.algebra, checked_mask(model, fd)
    check_lengths(model, f_ext, q=q, qd=qd, qdd=qdd, tau=tau)
    Xup, S, v, c, IA, pA, U, Dinv, u, a = per_body(model, 10)
    v[-1], a[-1] = algebra.zero(), minus_gravity(model, gravity)
    I_rot = np.zeros(model.nv) if rotor_inertia is None else np.asarray(rotor_inertia)

    # outward: velocities, what is known of the accelerations, and the bias forces of the bodies on their own
    for i, p in enumerate(model.parent):
        Xup[i], S[i], vJ, cJ = joint_kinematics(model, i, q, qd)
        v[i] = Xup[i] @ v[p] + vJ
        c[i] = cJ + algebra.cross_motion(v[i], vJ)
        if not fd[i]:
            c[i] = c[i] + S[i] @ qdd[model.v_slices[i]]
        IA[i] = I[i].articulated()
        pA[i] = algebra.cross_force(v[i], I[i] @ v[i])
    if f_ext is not None:
        X0 = base_transforms(model, Xup)
        pA = [pA[i] - X0[i].force(f_ext[i]) for i in range(nb)]

    # inward: articulated-body inertias and bias forces; a joint of known acceleration transmits all inertia
    for i in reversed(range(nb)):
        p, vi = model.parent[i], model.v_slices[i]
        if fd[i]:
            U[i] = IA[i] @ S[i]
            Dinv[i] = small_inverse(_checked_pivot(model, i, S[i].T @ U[i] + np.diag(I_rot[vi])))
            u[i] = tau[vi] - S[i].T @ pA[i]
            UDinv = U[i] @ Dinv[i]
            Ia = IA[i] - algebra.outer(UDinv, U[i])
            pa = pA[i] + Ia @ c[i] + UDinv @ u[i]
        else:
            Ia, pa = IA[i], pA[i] + IA[i] @ c[i]
        if p >= 0:
            IA[p] = IA[p] + Ia.to_parent(Xup[i])
            pA[p] = pA[p] + Xup[i].T @ pa

    # outward: accelerations, and the forces that were not given
    qdd_out: list[Any] = [qdd[vi] for vi in model.v_slices]
    tau_out: list[Any] = [tau[vi] for vi in model.v_slices]
    for i, p in enumerate(model.parent):
        a[i] = Xup[i] @ a[p] + c[i]
        if fd[i]:
            qdd_out[i] = Dinv[i] @ (u[i] - U[i].T @ a[i])
            a[i] = a[i] + S[i] @ qdd_out[i]
        else:
            tau_out[i] = S[i].T @ (IA[i] @ a[i] + pA[i]) + I_rot[model.v_slices[i]] * qdd_out[i]
    return JointDynamics(np.concatenate(qdd_out), np.concatenate(tau_out))


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
    """The same as `hybrid_dynamics`, by the part of the joint-space inertia that belongs to the unknown accelerations.

        C' = ID(q, qd, [0; qdd2]),  H11 qdd1 = tau1 - C1',  tau = C' + H [qdd1; 0]        (RBDA Eq 9.2, 9.3)

    Raises ValueError for a mask that is not one boolean a joint, and where H11 is not positive definite in numbers.
    """
    fd = checked_mask(model, fd)
    check_lengths(model, f_ext, q=q, qd=qd, qdd=qdd, tau=tau)
    given = np.concatenate([np.zeros(vi.stop - vi.start) if known else qdd[vi] for known, vi in _joints(model, fd)])
    C = rnea(model, q, qd, given, f_ext, gravity)
    H11, parent = crba_of(model, q, fd), reduced_parent(model.parent, fd)[0]
    freedoms = [joint.nv for joint, known in zip(model.joint, fd, strict=True) if known]
    u = np.concatenate([np.zeros(0), *(tau[vi] - C[vi] for known, vi in _joints(model, fd) if known)])
    qdd1 = iter(solve_ltdl(H11, expand_lambda(parent, freedoms), u))
    found = np.array([next(qdd1) if known else 0.0 for known, vi in _joints(model, fd) for _ in range(vi.stop - vi.start)])
    return _copied(model, fd, given + found, C + inertia_times(model, q, found), tau)


def crba_of(model: Tree, q: Array, fd: Mask) -> Array:
    """The joint-space inertia H11 of the joints in `fd` alone, their variables in order (RBDA Table 9.1)."""
    fd = checked_mask(model, fd)
    moved, first = supported(model.parent, fd), _first_variables(model, fd)
    H = np.zeros((sum(joint.nv for joint, known in zip(model.joint, fd, strict=True) if known),) * 2, np.asarray(q).dtype)
    Xup, S, _, _ = zip(*(joint_kinematics(model, i, q, np.zeros(model.nv)) for i in range(model.nb)), strict=True)
    Ic = list(model.inertia)

    # inward: composite inertias of what the joints of fd move, and each column of H11
    for i in reversed(range(model.nb)):
        j, p = i, model.parent[i]
        if p >= 0 and moved[p]:
            Ic[p] = Ic[p] + Ic[i].to_parent(Xup[i])
        if not fd[i]:
            continue
        F = Ic[i] @ S[i]
        H[first[i], first[i]] = S[i].T @ F
        while (p := model.parent[j]) >= 0 and moved[p]:
            F, j = Xup[j].T @ F, p
            if fd[j]:
                H[first[i], first[j]] = F.T @ S[j]
                H[first[j], first[i]] = S[j].T @ F
    return H


def supported(parent: Sequence[int], fd: Mask) -> tuple[bool, ...]:
    """nu(fd): for every body whether a joint of `fd` supports it (RBDA Eq 9.5)."""
    nu = [bool(known) for known in fd]
    for i, p in enumerate(parent):
        nu[i] = nu[i] or (p >= 0 and nu[p])
    return tuple(nu)


def reduced_parent(parent: Sequence[int], fd: Mask) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The parent array that is left when the bodies on both sides of a joint not in `fd` are merged, and for every body
    its number in the merged tree, -1 for the base (RBDA Fig 9.1).

    It says where H11 has its branch-induced zeros; joints with several freedoms still have to be expanded.
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
    """The mask as one boolean a joint; raises ValueError if it is not."""
    mask = np.asarray(fd)
    if mask.shape != (model.nb,) or mask.dtype == object or not np.all((mask == 0) | (mask == 1)):
        raise ValueError(f"fd needs one boolean for each of the {model.nb} joints of model '{model.name}', not {fd!r}")
    return tuple(bool(known) for known in mask)


def _joints(model: Tree, fd: Mask) -> list[tuple[bool, slice]]:
    return list(zip(fd, model.v_slices, strict=True))


def _first_variables(model: Tree, fd: Mask) -> list[slice]:
    """Where the joints of fd have their variables in H11; the other joints get nothing of it."""
    sizes = [joint.nv if known else 0 for joint, known in zip(model.joint, fd, strict=True)]
    return [slice(a, b) for a, b in pairwise(accumulate(sizes, initial=0))]


def _copied(model: Tree, fd: Mask, qdd: Array, tau: Array, tau_given: Array) -> JointDynamics:
    """The result with the given forces as they were given."""
    parts = [tau_given[vi] if known else tau[vi] for known, vi in _joints(model, fd)]
    return JointDynamics(qdd, np.concatenate(parts))


def _checked_pivot(model: Tree, i: int, D: Array) -> Array:
    if D.dtype != object and np.all(np.isfinite(D)) and not np.all(np.linalg.eigvalsh(D) > 0):
        raise ValueError(
            f"joint {i} ({model.joint_names[i]}) of model '{model.name}' cannot be a forward-dynamics joint: what it moves "
            f"has no inertia along it, D = {D.tolist()}; give its acceleration instead"
        )
    return D
