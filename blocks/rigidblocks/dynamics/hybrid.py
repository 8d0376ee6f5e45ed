"""Hybrid dynamics: at each joint either the force is given or the acceleration (RBDA 9.1, 9.2)."""

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np

from rigidblocks.algebra.sparse import expand_lambda, solve_ltdl
from rigidblocks.algebra.spatial import Array
from rigidblocks.dynamics.forward import (
    Behind,
    accelerations,
    articulated,
    behind_driven_joint,
    behind_joint,
    bodies_alone,
)
from rigidblocks.dynamics.inverse import rnea
from rigidblocks.dynamics.joint_space import inertia_of_joints, inertia_times
from rigidblocks.dynamics.sweeps import check_lengths, fixed_base, minus_gravity
from rigidblocks.model.tree import Tree

Mask = Sequence[Any] | Array


class JointDynamics(NamedTuple):
    """Both sides of the equation of motion: the accelerations qdd (nv,) and the forces tau
    (nv,).
    """

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
    """All accelerations and all forces, from the forces of some joints and the accelerations of the
    others.

    `fd[i]` is true for a forward-dynamics joint: its part of tau is given, and of qdd found; at the
    others qdd is given, and tau found. What is given is copied to the result; the parts of qdd and
    tau that are not given are not read. `rotor_inertia` (nv,) is added to the inertia of each
    variable on its own (RBDA Eq 9.28). The articulated-body algorithm for hybrid dynamics (RBDA
    Table 9.3).

    Raises ValueError for a mask that is not one boolean a joint, and for a forward-dynamics joint
    that moves no inertia.
    """
    fd = checked_mask(model, fd)
    check_lengths(model, f_ext, q=q, qd=qd, qdd=qdd, tau=tau)
    given = JointDynamics(qdd, tau)
    alone = bodies_alone(model, fixed_base(model), q, qd, f_ext)
    joined = articulated(model, alone, force_or_acceleration_given(model, fd, given, rotor_inertia))
    found, a = accelerations(model, joined, minus_gravity(model, gravity))

    # the forces that were not given
    I_rot = np.zeros(model.nv) if rotor_inertia is None else np.asarray(rotor_inertia)
    _, _, S, _, _, IA, pA = joined.bodies
    tau_out = [
        tau[vi] if known else S[i].T @ (IA[i] @ a[i] + pA[i]) + I_rot[vi] * found[i]
        for i, (known, vi) in enumerate(_joints(model, fd))
    ]
    return JointDynamics(np.concatenate(found), np.concatenate(tau_out))


def force_or_acceleration_given(
    model: Tree, fd: Mask, given: JointDynamics, rotor_inertia: Array | None
) -> Behind:
    """The second pass at a joint of `fd`, of which the force is given, or at one of the others, of
    which the acceleration is.
    """

    def behind(i: int, Xup: Any, S: Array, c: Array, IA: Any, pA: Array) -> Any:
        vi = model.v_slices[i]
        if not fd[i]:
            return behind_driven_joint(model, i, given.qdd[vi], Xup, S, c, IA, pA)
        rotor = None if rotor_inertia is None else np.asarray(rotor_inertia)[vi]
        _check_inertia(model, i, IA, S, rotor)
        return behind_joint(model, i, given.tau[vi], Xup, S, c, IA, pA, rotor)

    return behind


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
    """The same as `hybrid_dynamics`, by the part of the joint-space inertia that belongs to the
    unknown accelerations.

        C' = ID(q, qd, [0; qdd2]), H11 qdd1 = tau1 - C1', tau = C' + H [qdd1; 0]  (RBDA Eq 9.2, 9.3)

    Raises ValueError for a mask that is not one boolean a joint, and where H11 is not positive
    definite in numbers.
    """
    fd = checked_mask(model, fd)
    check_lengths(model, f_ext, q=q, qd=qd, qdd=qdd, tau=tau)
    forward = np.repeat(fd, [joint.nv for joint in model.joint])
    given = np.where(forward, 0.0, qdd)
    C = rnea(model, q, qd, given, f_ext, gravity)

    # the unknown accelerations, with zeros in the places of the others
    qdd1 = solve_ltdl(crba_of(model, q, fd), _expanded_parent(model, fd), (tau - C)[forward])
    found = np.full(model.nv, 0.0, dtype=qdd1.dtype)
    found[forward] = qdd1
    tau_out = np.where(forward, tau, C + inertia_times(model, q, found))
    return JointDynamics(given + found, tau_out)


def _expanded_parent(model: Tree, fd: Mask) -> tuple[int, ...]:
    """The parent array of the variables of H11, which says where it has its zeros."""
    freedoms = [joint.nv for joint, known in zip(model.joint, fd, strict=True) if known]
    return expand_lambda(reduced_parent(model.parent, fd)[0], freedoms)


def crba_of(model: Tree, q: Array, fd: Mask) -> Array:
    """The joint-space inertia H11 of the joints in `fd` alone, their variables in order (RBDA Table
    9.1).
    """
    fd = checked_mask(model, fd)
    first = _first_variables(model, fd)
    return inertia_of_joints(model, q, {i: first[i] for i, known in enumerate(fd) if known})


def reduced_parent(parent: Sequence[int], fd: Mask) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The parent array that is left when the bodies on both sides of a joint not in `fd` are
    merged, and for every body its number in the merged tree, -1 for the base (RBDA Fig 9.1).

    It says where H11 has its branch-induced zeros; joints with several freedoms still have to be
    expanded.
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
        raise ValueError(
            f"fd needs one boolean for each of the {model.nb} joints of model '{model.name}', not "
            f"{fd!r}"
        )
    return tuple(bool(known) for known in mask)


def _joints(model: Tree, fd: Mask) -> list[tuple[bool, slice]]:
    return list(zip(fd, model.v_slices, strict=True))


def _first_variables(model: Tree, fd: Mask) -> list[slice]:
    """Where the joints of fd have their variables in H11; the other joints get nothing of it."""
    sizes = [joint.nv if known else 0 for joint, known in zip(model.joint, fd, strict=True)]
    return [slice(a, b) for a, b in pairwise(accumulate(sizes, initial=0))]


def _check_inertia(model: Tree, i: int, IA: Any, S: Array, rotor: Array | None) -> None:
    """Raises ValueError where a forward-dynamics joint moves no inertia, in numbers."""
    D = S.T @ (IA @ S) + np.diag(np.zeros(S.shape[1]) if rotor is None else rotor)
    if D.dtype != object and np.all(np.isfinite(D)) and not np.all(np.linalg.eigvalsh(D) > 0):
        raise ValueError(
            f"joint {i} ({model.joint_names[i]}) of model '{model.name}' cannot be a "
            "forward-dynamics joint: what it moves "
            f"has no inertia along it, D = {D.tolist()}; give its acceleration instead"
        )
