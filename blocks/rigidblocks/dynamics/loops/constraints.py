"""The constraints of loop joints on the joint variables of the tree: K qdd = k, and how far they
are violated (RBDA 8.2).
"""

from typing import Any, NamedTuple

import numpy as np

from rigidblocks.algebra.factored import factored
from rigidblocks.algebra.linear import small_inverse
from rigidblocks.algebra.spatial import Array
from rigidblocks.dynamics import check_lengths
from rigidblocks.dynamics.sweeps import joint_kinematics
from rigidblocks.loops.strings import string_row
from rigidblocks.model.tree import Tree


class LoopConstraints(NamedTuple):
    """K qdd = k, with K (nc, nv) and k (nc,), of configurations with the position error delta (nc,)
    (rad, m).

    The velocity error is K qd, of constraints that depend on time K qd + `drift`. Rows are in the
    order of the loop joints, the strings behind them.
    """

    K: Array
    k: Array
    delta: Array


class TreeMotion(NamedTuple):
    """Xup and S of each body, its velocity v and its velocity-product acceleration a^vp, all in its
    own coordinates.
    """

    Xup: list[Any]
    S: list[Array]
    v: list[Array]
    a: list[Array]


def loop_constraints(model: Tree, q: Array, qd: Array) -> LoopConstraints:
    """The constraints that the loop joints of the model impose on the accelerations of its tree
    (RBDA Table 8.4).

        K_l = T^T (J_s - J_p),   k_l = -T^T (a_s^vp - a_p^vp - c - v_s x v_J),   delta_l = T^T d

    with v_J = v_s - v_p and T in the successor frame of loop joint l. Nothing here is relative to
    the base: far from it there is no loss of accuracy. k has no stabilization (`baumgarte`).
    """
    check_lengths(model, q=q, qd=qd)
    dtype = object if object in (np.asarray(q).dtype, np.asarray(qd).dtype) else float
    return constraints_of(model, _tree_motion(model, q, qd), dtype)


def constraints_of(model: Any, motion: TreeMotion, dtype: type = float) -> LoopConstraints:
    """The same of a tree that moves so; with accelerations in the place of velocity products, -k is
    K qdd - k.
    """
    K, k, delta = (
        np.zeros((model.nc, model.nv), dtype),
        np.zeros(model.nc, dtype),
        np.zeros(model.nc, dtype),
    )
    joints = len(model.loops)
    for l, rows in enumerate(model.constraint_slices[:joints]):
        _constrain(model, l, motion, K[rows], k[rows], delta[rows])
    for string, rows in zip(model.strings, model.constraint_slices[joints:], strict=True):
        K[rows], k[rows], delta[rows], _ = string_row(model, string, motion)
    return LoopConstraints(K, k, delta)


def position_constraints(model: Tree, q: Array) -> LoopConstraints:
    """The same at rest: K and the position error delta, with k = 0."""
    return loop_constraints(model, q, np.zeros(model.nv))


def drift(model: Tree, q: Array) -> Array:
    """The velocity errors (nc,) of the constraints at qd = 0 [rad/s, m/s]: what closes them against
    a given motion is K qd = -drift. Zero unless they depend on time (RBDA Eq 3.33).
    """
    errors: Array = np.zeros(model.nc)
    if not model.rheonomic:
        return errors
    motion = _tree_motion(model, q, np.zeros(model.nv))
    rows: list[Array] = []
    for l, loop in enumerate(model.loops):
        X, _, _, vJ = _relative_motion(model, l, motion)
        rows.append(loop.joint.constraint(X, vJ).T.T @ (vJ - loop.joint.bias_velocity(X)))
    rows += [np.array([string_row(model, string, motion).rate]) for string in model.strings]
    errors = np.concatenate(rows)
    return errors


def baumgarte(
    constraints: LoopConstraints, qd: Array, T_stab: float, drift: Any = 0.0
) -> LoopConstraints:
    """The constraints with k + k_stab, k_stab = -2 alpha (K qd + drift) - beta^2 delta and alpha =
    beta = 1/T_stab (RBDA Eq 8.22).

    Errors then decay as those of a critically damped spring with the time constant T_stab [s]: 0.1
    s is reasonable for a large robot, and several steps of the integrator the least (RBDA 8.3).
    """
    if not T_stab > 0:
        raise ValueError(
            f"the time constant T_stab of a stabilization must be positive, not {T_stab} s"
        )
    K, k, delta = constraints
    rate = 1.0 / T_stab
    return LoopConstraints(K, k - 2.0 * rate * (K @ qd + drift) - rate * rate * delta, delta)


def loop_joint_motion(model: Tree, q: Array, qd: Array) -> tuple[list[Array], list[Array]]:
    """The configuration (nq,) and the velocity variables (nv,) of each loop joint, which follow
    from those of the tree.
    """
    check_lengths(model, q=q, qd=qd)
    motion, positions, velocities = _tree_motion(model, q, qd), [], []
    for l, loop in enumerate(model.loops):
        X, _, _, vJ = _relative_motion(model, l, motion)
        positions.append(loop.joint.nearest(X))
        velocities.append(loop.joint.velocity(positions[-1], vJ))
    return positions, velocities


def active_forces(model: Tree, q: Array, loop_tau: Array) -> Array:
    """tau^a (nv,): the joint forces of the tree that are worth the forces `loop_tau` of the loop
    joints, of springs, dampers or motors, one after the other (RBDA Eq 8.33).

    A loop joint's active force is T_a tau with T_a^T S = 1.
    """
    sizes = [loop.joint.nv for loop in model.loops]
    if len(loop_tau) != sum(sizes):
        raise ValueError(
            f"loop_tau needs {sum(sizes)} elements, not {len(loop_tau)}; the loop joints have "
            f"{sizes} freedoms"
        )
    motion, tau, k = _tree_motion(model, q, np.zeros(model.nv)), np.zeros(model.nv), 0
    for l, (loop, size) in enumerate(zip(model.loops, sizes, strict=True)):
        X, Xp, _, _ = _relative_motion(model, l, motion)
        S = loop.joint.jcalc(loop.joint.nearest(X), np.zeros(size)).S
        Ta = S @ small_inverse(S.T @ S) if size else S
        tau = tau + _against(model, l, motion, Xp, Ta) @ loop_tau[k : k + size]
        k += size
    return tau


def _tree_motion(model: Tree, q: Array, qd: Array) -> TreeMotion:
    """Outward: the motion of every body that is on a loop or carries one; the last entry is the
    base.
    """
    algebra, still = model.algebra, model.algebra.zero()
    Xup, S, v, a = ([None] * model.nb + [still] for _ in range(4))
    for i, p in enumerate(model.parent):
        Xup[i], S[i], vJ, cJ = joint_kinematics(model, i, q, qd)
        v[i] = Xup[i] @ v[p] + vJ
        a[i] = Xup[i] @ a[p] + cJ + algebra.cross_motion(v[i], vJ)
    return TreeMotion(Xup, S, v, a)


def _constrain(model: Tree, l: int, motion: TreeMotion, K: Array, k: Array, delta: Array) -> None:
    """Fills the rows of loop joint l."""
    loop = model.loops[l]
    X, Xp, v_s, vJ = _relative_motion(model, l, motion)
    T, delta[:], c = loop.joint.constraint(X, vJ)
    a_J = loop.Xs @ motion.a[loop.successor] - Xp @ motion.a[loop.predecessor]
    k[:] = -(T.T @ (a_J - c - model.algebra.cross_motion(v_s, vJ)))
    K[:] = _against(model, l, motion, Xp, T).T


def _relative_motion(model: Tree, l: int, motion: TreeMotion) -> tuple[Any, Any, Array, Array]:
    """Of loop joint l: X from F_p to F_s, X X_P, and in F_s coordinates the velocity of F_s and its
    part against F_p.
    """
    loop, Xup, v = model.loops[l], motion.Xup, motion.v
    root = nearest_common_ancestor(model, loop.predecessor, loop.successor)
    to_s = loop.Xs @ _from(model, root, loop.successor, Xup)
    to_p = loop.Xp @ _from(model, root, loop.predecessor, Xup)
    X = factored(to_s, to_p.inverse())
    Xp, v_s = X @ loop.Xp, loop.Xs @ v[loop.successor]
    return X, Xp, v_s, v_s - Xp @ v[loop.predecessor]


def _against(model: Tree, l: int, motion: TreeMotion, Xp: Any, F: Array) -> Array:
    """J_L^T F (nv, k): the joint forces that are worth the forces F (6, k) between the frames of
    loop joint l, given in F_s coordinates, on the successor and in reaction on the predecessor
    (RBDA Eq 8.20, 8.30).
    """
    loop, (Xup, S, _, _) = model.loops[l], motion
    root = nearest_common_ancestor(model, loop.predecessor, loop.successor)
    tau: list[Any] = [np.zeros((joint.nv, F.shape[1])) for joint in model.joint]
    for i, f in ((loop.successor, loop.Xs.T @ F), (loop.predecessor, -(Xp.T @ F))):
        while i != root:
            tau[i] = S[i].T @ f
            f, i = Xup[i].T @ f, model.parent[i]
    return np.concatenate(tau)


def _from(model: Tree, root: int, i: int, Xup: list[Any]) -> Any:
    """The transform from the coordinates of body `root` to those of body i, which hangs on it."""
    X = model.algebra.identity()
    while i != root:
        X, i = X @ Xup[i], model.parent[i]
    return X


def nearest_common_ancestor(model: Tree, i: int, j: int) -> int:
    """The highest-numbered body that bodies i and j both hang on, or are; -1 is the base (RBDA
    8.2).
    """
    while i != j:
        i, j = (model.parent[i], j) if i > j else (i, model.parent[j])
    return i
