"""Whether every joint of a tree moves some inertia, without which no force has one acceleration."""

from collections.abc import Sequence
from math import hypot, sqrt
from typing import Any

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.joint import Prismatic, Revolute


def check_resistance(
    tree: Any, given: Sequence[bool] | None = None, rotor_inertia: Array | None = None
) -> None:
    """Raises ValueError for a joint that can move without moving any inertia, wherever the tree is:
    two revolute joints about one axis with a massless body between, a point mass on an axis.

    There D of RBDA Table 7.1 is singular, and forward dynamics have no answer; inverse dynamics
    have. It does not matter in joints whose acceleration is `given`, nor where there is rotor
    inertia (nv,).
    """
    if given is None and rotor_inertia is None:
        name = tree.idle_joint
    else:
        name = find_idle_joint(tree, given, rotor_inertia)
    if name is not None:
        raise ValueError(
            f"{name} of model '{tree.name}' can move without moving any inertia: behind it is none "
            "about or along its axis that other joints do not take over; give a body between them "
            "or behind it inertia, or leave the joint out"
        )


def find_idle_joint(
    tree: Any, given: Sequence[bool] | None = None, rotor_inertia: Array | None = None
) -> str | None:
    """The name of a joint for which D is singular in a general configuration, and so in all."""
    if _all_move_their_own_body(tree):
        return None
    rng = np.random.default_rng(0)
    behind, rigid = ([body.matrix() for body in tree.inertia] for _ in range(2))
    for i in reversed(range(tree.nb)):
        joint = tree.joint[i].at(0.0)
        XJ, S, *_ = joint.jcalc(joint.random(rng), np.zeros(joint.nv))
        X, U = (XJ @ tree.Xtree[i]).matrix(), behind[i] @ S
        IA = behind[i]
        if joint.nv and not (given is not None and given[i]):
            rotor = np.zeros(joint.nv) if rotor_inertia is None else rotor_inertia[tree.v_slices[i]]
            D = S.T @ U + np.diag(rotor)
            if not _is_regular(D, np.diag(S.T @ rigid[i] @ S) + rotor, S, rigid[i]):
                return str(tree.joint_names[i])
            IA = IA - U @ np.linalg.solve(D, U.T)
        if (p := tree.parent[i]) >= 0:
            behind[p] = behind[p] + X.T @ IA @ X
            rigid[p] = rigid[p] + X.T @ rigid[i] @ X
    return None


def _all_move_their_own_body(tree: Any) -> bool:
    """Whether each joint turns or slides a body that alone resists it enough, next to all that can
    be behind the joint, for D to be regular; what is to be known quickly of most robots.

    D is at least S^T I S of the joint's own body, and the masses behind it, m in all, have at most
    the second moment s about its origin: that of a body further out grows by its distance d at most
    to (sqrt(s) + d sqrt(m))^2. All of it holds of published inertias, too, that no rigid body has,
    if none takes energy to move.
    """
    if not all(type(joint) in (Revolute, Prismatic) for joint in tree.joint):
        return False
    bodies = zip(tree.body_names, tree.inertia, strict=True)
    if tree.unphysical and not all(_resists(I) for n, I in bodies if n in tree.unphysical):
        return False
    mass, moment = [0.0] * tree.nb, [0.0] * tree.nb
    for i in reversed(range(tree.nb)):
        joint, body = tree.joint[i], tree.inertia[i]
        (x, y, z), ((a, _, _), (d, b, _), (f, e, c)) = joint.axis, body.I.tolist()
        turning = a * x * x + b * y * y + c * z * z + 2.0 * (d * x * y + e * y * z + f * z * x)
        mass[i] += body.m
        moment[i] += (a + b + c) / 2.0
        own = turning if isinstance(joint, Revolute) else body.m
        if not own > _ENOUGH * max(mass[i], moment[i]):
            return False
        if (p := tree.parent[i]) >= 0:
            far = hypot(*tree.Xtree[i].r.tolist()) + isinstance(joint, Prismatic)  # within 1 m
            mass[p] += mass[i]
            moment[p] += (sqrt(moment[i]) + far * sqrt(mass[i])) ** 2
    return True


def _resists(body: Any) -> bool:
    """Whether no motion of a body has a negative kinetic energy."""
    return bool(np.linalg.eigvalsh(body.matrix())[0] >= -1e-12 * np.trace(body.I))


_ENOUGH = 1e-9  # times the largest inertia; `_is_regular` asks for far less


def _is_regular(D: Array, size: Array, S: Array, rigid: Array) -> bool:
    """Whether D is regular next to its `size` where the bodies behind the joint are one."""
    if np.any(size <= 1e-14 * np.abs(rigid).max() * (S * S).sum(axis=0)):
        return False
    smallest = np.linalg.eigvalsh(D / np.sqrt(np.outer(size, size)))[0]
    return bool(smallest > 1e-12)
