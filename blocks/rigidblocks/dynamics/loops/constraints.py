"""Constraints that loop joints and cables impose on the tree (RBDA 8.2, 3.4, 8.11).

`loop_constraints` returns K and k of the constraints K qdd = k, and their position errors. A cable
(`StringConstraint`) has a given length and passes through points of any number of bodies (RBDA
3.4).

`loop_closure` evaluates a loop-closure function q = gamma(y) of independent variables y (RBDA
8.11). A user writes gamma in closed form, with NumPy and `rigidblocks.select`. Dual numbers give
the exact derivatives of gamma. With such a function, loops cannot open and need no stabilization.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from rigidblocks.dynamics import check_lengths
from rigidblocks.dynamics.joint_kinematics import base_transforms, joint_kinematics
from rigidblocks.robot.configuration import difference
from rigidblocks.robot.joints import StringConstraint
from rigidblocks.robot.tree import Tree
from rigidblocks.spatial.linear_algebra import small_inverse
from rigidblocks.spatial.scalar import Dual
from rigidblocks.spatial.spatial import Array, multiply_transforms


class StringRow(NamedTuple):
    """Constraint K qdd = k of a cable, one row of `LoopConstraints`.

    Attributes:
        K: Constraint row (nv,).
        k: Right-hand side.
        delta: Position error [m], the length of the path minus the length of the cable.
        rate: Velocity error [m/s], the time derivative of the position error.
    """

    K: Array
    k: Any
    delta: Any
    rate: Any


class _Point(NamedTuple):
    """Attachment point of a cable on a body.

    The point has a frame parallel to the base frame. X is the transform from body coordinates to
    this frame. p [m] is the position of the point in base coordinates. v and a are the velocity and
    the classical acceleration of the point, as motion vectors in coordinates of this frame.
    """

    body: int
    X: Any
    p: Array
    v: Array
    a: Array


def string_row(model: Tree, string: StringConstraint, motion: Any) -> StringRow:
    """Return the length constraint of a cable for a motion of the tree (`TreeMotion`).

        delta = sum |d| + 2 pi radius - length,   K qd = sum e . dv,   e = d/|d|
        k = a - sum (e . da + (dv . dv - (e . dv)^2)/|d|)

    The sums are over the segments. d is the vector from the first to the second end of a segment.
    dv and da are the first and second time derivatives of d at qdd = 0. `radius` and `length` are
    fields of `string`, and a is the second time derivative of `length`.
    """
    X0 = [*base_transforms(model, motion.Xup[: model.nb]), model.algebra.identity()]
    linear = slice(1, 3) if len(model.gravity) == 2 else slice(3, 6)
    length, length_rate, second = string.given_length()
    delta, rate, k = 2.0 * np.pi * string.radius - length, -length_rate, second
    forces = [np.zeros(len(model.algebra.zero()))] * (model.nb + 1)
    for ends in string.segments():
        one, other = (_point(model, motion, X0, body, np.asarray(at)) for body, at in ends)
        d, dv = other.p - one.p, (other.v - one.v)[linear]
        distance = np.sqrt(d @ d)
        e = d / distance
        delta, rate = delta + distance, rate + e @ dv
        k = k - e @ (other.a - one.a)[linear] - (dv @ dv - (e @ dv) * (e @ dv)) / distance
        pull = np.concatenate([np.zeros(linear.start), e])
        forces[other.body] = forces[other.body] + other.X.T @ pull
        forces[one.body] = forces[one.body] - one.X.T @ pull
    return StringRow(_joint_forces(model, motion, forces), k, delta, rate)


def string_joints(model: Tree, string: StringConstraint) -> set[int]:
    """Return the indices of all joints that move an attachment point of a cable."""
    joints: set[int] = set()
    for body, _ in string.points:
        while body >= 0:
            joints.add(body)
            body = model.parent[body]
    return joints


def _point(model: Tree, motion: Any, X0: list[Any], body: int, position: Array) -> _Point:
    """Return the point of a body with its position, velocity and classical acceleration.

    X0 contains the transforms from base to body coordinates. `position` is in body coordinates.
    """
    there = X0[body].inverse()  # from the body to the base
    X = type(there)(there.E, position)
    v, a = X @ motion.v[body], X @ motion.a[body]
    w, turning = (v[:1], v[1:]) if len(v) == 3 else (v[:3], v[3:])
    if len(w) == 1:
        a = a + np.array([0.0, -w[0] * turning[1], w[0] * turning[0]])
    else:
        a = a + np.concatenate([np.zeros(3), model.algebra.cross(w, turning)])
    return _Point(body, X, X0[body].r + X0[body].E.T @ position, v, a)


def _joint_forces(model: Tree, motion: Any, forces: list[Array]) -> Array:
    """Return the joint forces (nv,) equivalent to `forces` on the bodies in body coordinates."""
    tau: list[Any] = [None] * model.nb
    for i in reversed(range(model.nb)):
        tau[i] = motion.S[i].T @ forces[i]
        if (p := model.parent[i]) >= 0:
            forces[p] = forces[p] + motion.Xup[i].T @ forces[i]
    return np.concatenate(tau)


class LoopConstraints(NamedTuple):
    """Constraints K qdd = k and position errors of a configuration.

    The velocity error is K qd, or K qd + `drift` for constraints that depend on time. The rows of
    the loop joints come first, followed by one row per cable.

    Attributes:
        K: Constraint matrix (nc, nv).
        k: Right-hand side (nc,).
        delta: Position error (nc,) [rad, m].
    """

    K: Array
    k: Array
    delta: Array


class TreeMotion(NamedTuple):
    """Motion of all bodies, in body coordinates.

    Xup are the transforms from the parents to the bodies, and S the motion subspaces. v are the
    velocities, and a the velocity-product accelerations. The lists are indexed by body.
    """

    Xup: list[Any]
    S: list[Array]
    v: list[Array]
    a: list[Array]


def loop_constraints(model: Tree, q: Array, qd: Array) -> LoopConstraints:
    """Return the constraints of the loop joints on the accelerations of the tree (RBDA Table 8.4).

        K_l = T^T (J_s - J_p),   k_l = -T^T (a_s^vp - a_p^vp - c - v_s x v_J),   delta_l = T^T d

    For loop joint l, the indices s and p denote the successor and predecessor bodies, with
    Jacobians J, velocities v and velocity-product accelerations a^vp. T spans the constraint forces
    in the successor frame, c is the joint bias acceleration, d the displacement across the joint,
    and v_J = v_s - v_p. No quantity is relative to the base, so the accuracy does not decrease with
    the distance from the base. k contains no stabilization (`baumgarte`).

    Args:
        model: Model with loops.
        q: Configuration (nq,).
        qd: Velocities (nv,).
    """
    check_lengths(model, q=q, qd=qd)
    dtype = object if object in (np.asarray(q).dtype, np.asarray(qd).dtype) else float
    return tree_constraints(model, _tree_motion(model, q, qd), dtype)


def tree_constraints(model: Any, motion: TreeMotion, dtype: type = float) -> LoopConstraints:
    """Return the constraints of loop joints and cables for a motion of the tree.

    `motion` may contain the accelerations of the bodies instead of the velocity-product
    accelerations. -k of the result is then the acceleration error K qdd - k of the constraints.
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
    """Return K, k and the position errors delta of the constraints at q for qd = 0."""
    return loop_constraints(model, q, np.zeros(model.nv))


def drift(model: Tree, q: Array) -> Array:
    """Return the velocity errors (nc,) [rad/s, m/s] of time-dependent constraints at qd = 0.

    In a prescribed motion, velocities with K qd = -drift satisfy the constraints. The errors are
    zero unless the constraints depend on time (RBDA Eq 3.33).
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
    """Add the Baumgarte stabilization k_stab to k (RBDA Eq 8.22).

        k_stab = -2 alpha (K qd + drift) - beta^2 delta,    alpha = beta = 1/T_stab

    K, k and delta are the fields of `constraints`. The position errors delta decay like a
    critically damped spring with the time constant T_stab.

    Args:
        constraints: Constraints of the loops.
        qd: Velocities (nv,).
        T_stab: Time constant [s]. 0.1 s is reasonable for a large robot. The smallest reasonable
            value is several steps of the integrator (RBDA 8.3).
        drift: Velocity errors at qd = 0, the result of the function `drift`.

    Raises:
        ValueError: T_stab is not positive.
    """
    if not T_stab > 0:
        raise ValueError(
            f"the time constant T_stab of a stabilization must be positive, not {T_stab} s"
        )
    K, k, delta = constraints
    rate = 1.0 / T_stab
    return LoopConstraints(K, k - 2.0 * rate * (K @ qd + drift) - rate * rate * delta, delta)


def loop_joint_motion(model: Tree, q: Array, qd: Array) -> tuple[list[Array], list[Array]]:
    """Return the position and velocity variables of each loop joint.

    The variables follow from the variables q (nq,) and qd (nv,) of the tree joints.
    """
    check_lengths(model, q=q, qd=qd)
    motion, positions, velocities = _tree_motion(model, q, qd), [], []
    for l, loop in enumerate(model.loops):
        X, _, _, vJ = _relative_motion(model, l, motion)
        positions.append(loop.joint.nearest(X))
        velocities.append(loop.joint.velocity(positions[-1], vJ))
    return positions, velocities


def active_forces(model: Tree, q: Array, loop_tau: Array) -> Array:
    """Return the tree joint forces tau^a (nv,) that are equivalent to forces in loop joints.

    The active force of a loop joint with the forces tau is T_a tau (RBDA Eq 8.33). T_a is a basis
    of the active forces with T_a^T S = 1 for the motion subspace S of the joint.

    Args:
        model: Model with loops.
        q: Configuration (nq,).
        loop_tau: Forces of springs, dampers or motors in the loop joints, in the order of joints.

    Raises:
        ValueError: `loop_tau` has the wrong length.
    """
    sizes = [loop.joint.nv for loop in model.loops]
    if len(loop_tau) != sum(sizes):
        raise ValueError(
            f"loop_tau needs {sum(sizes)} elements, not {len(loop_tau)}; the loop joints have "
            f"{sizes} degrees of freedom"
        )
    motion, tau, k = _tree_motion(model, q, np.zeros(model.nv)), np.zeros(model.nv), 0
    for l, (loop, size) in enumerate(zip(model.loops, sizes, strict=True)):
        X, Xp, _, _ = _relative_motion(model, l, motion)
        S = loop.joint.jcalc(loop.joint.nearest(X), np.zeros(size)).S
        Ta = S @ small_inverse(S.T @ S) if size else S
        tau = tau + _joint_forces_of_loop(model, l, motion, Xp, Ta) @ loop_tau[k : k + size]
        k += size
    return tau


def _tree_motion(model: Tree, q: Array, qd: Array) -> TreeMotion:
    """Compute the motion of all bodies in an outward pass; the last entries belong to the base."""
    algebra, still = model.algebra, model.algebra.zero()
    Xup, S, v, a = ([None] * model.nb + [still] for _ in range(4))
    for i, p in enumerate(model.parent):
        Xup[i], S[i], vJ, cJ = joint_kinematics(model, i, q, qd)
        v[i] = Xup[i] @ v[p] + vJ
        a[i] = Xup[i] @ a[p] + cJ + algebra.cross_motion(v[i], vJ)
    return TreeMotion(Xup, S, v, a)


def _constrain(model: Tree, l: int, motion: TreeMotion, K: Array, k: Array, delta: Array) -> None:
    """Compute the constraints of loop joint l; store its rows in K, k and delta."""
    loop = model.loops[l]
    X, Xp, v_s, vJ = _relative_motion(model, l, motion)
    T, delta[:], c = loop.joint.constraint(X, vJ)
    a_J = loop.Xs @ motion.a[loop.successor] - Xp @ motion.a[loop.predecessor]
    k[:] = -(T.T @ (a_J - c - model.algebra.cross_motion(v_s, vJ)))
    K[:] = _joint_forces_of_loop(model, l, motion, Xp, T).T


def _relative_motion(model: Tree, l: int, motion: TreeMotion) -> tuple[Any, Any, Array, Array]:
    """Return the relative pose and velocity of the frames F_p and F_s of loop joint l.

    Returns:
        The transform X from F_p to F_s coordinates, the transform X X_P from predecessor body
        coordinates to F_s coordinates, the velocity of F_s, and the velocity of F_s relative to
        F_p. Both velocities are in F_s coordinates.
    """
    loop, Xup, v = model.loops[l], motion.Xup, motion.v
    root = nearest_common_ancestor(model, loop.predecessor, loop.successor)
    to_s = loop.Xs @ _transform_to_descendant(model, root, loop.successor, Xup)
    to_p = loop.Xp @ _transform_to_descendant(model, root, loop.predecessor, Xup)
    X = multiply_transforms(to_s, to_p.inverse())
    Xp, v_s = X @ loop.Xp, loop.Xs @ v[loop.successor]
    return X, Xp, v_s, v_s - Xp @ v[loop.predecessor]


def _joint_forces_of_loop(model: Tree, l: int, motion: TreeMotion, Xp: Any, F: Array) -> Array:
    """Return the tree joint forces (nv, k) equivalent to the forces F (6, k) of loop joint l.

    The result is J_L^T F (RBDA Eq 8.20, 8.30), where J_L is the Jacobian of the relative motion. F
    is in F_s coordinates and acts on the successor; the reaction -F acts on the predecessor. `Xp`
    is the transform from predecessor body coordinates to F_s.
    """
    loop, (Xup, S, _, _) = model.loops[l], motion
    root = nearest_common_ancestor(model, loop.predecessor, loop.successor)
    tau: list[Any] = [np.zeros((joint.nv, F.shape[1])) for joint in model.joint]
    for i, f in ((loop.successor, loop.Xs.T @ F), (loop.predecessor, -(Xp.T @ F))):
        while i != root:
            tau[i] = S[i].T @ f
            f, i = Xup[i].T @ f, model.parent[i]
    return np.concatenate(tau)


def _transform_to_descendant(model: Tree, root: int, i: int, Xup: list[Any]) -> Any:
    """Return the transform from coordinates of body `root` to coordinates of its descendant i."""
    X = model.algebra.identity()
    while i != root:
        X, i = X @ Xup[i], model.parent[i]
    return X


def nearest_common_ancestor(model: Tree, i: int, j: int) -> int:
    """Return the nearest common ancestor of bodies i and j; -1 is the base (RBDA 8.2).

    The result is the body with the highest index that supports both bodies. This body may be i or j
    itself.
    """
    while i != j:
        i, j = (model.parent[i], j) if i > j else (i, model.parent[j])
    return i


Gamma = Callable[[Array], Array]


class ClosureMotion(NamedTuple):
    """Motion of a loop-closure function: q = gamma(y), qd = G yd, qdd = G ydd + g (RBDA 8.11).

    Attributes:
        q: Configuration (nq,).
        qd: Velocities (nv,).
        G: Matrix (nv, p) from yd to qd, for p independent variables y.
        g: Accelerations (nv,) at ydd = 0.
    """

    q: Array
    qd: Array
    G: Array
    g: Array


def loop_closure(model: Tree, gamma: Gamma, y: Array, yd: Array) -> ClosureMotion:
    """Evaluate a loop-closure function and its exact derivatives at y and yd.

    The model may have any joint types, and y and yd are floats or traced scalars. The results refer
    to the velocity variables qd, which need not be the derivatives of q. The function
    differentiates phi (nv,), the displacement from q = gamma(y) to gamma at a nearby y. At phi = 0,
    qd = dphi/dt and qdd = d^2 phi/dt^2.

    Args:
        model: Model with loops.
        gamma: Loop-closure function.
        y: Independent variables.
        yd: Derivatives of y.

    Raises:
        ValueError: gamma does not return nq position variables, or yd does not match y.
    """
    y, yd = np.asarray(y), np.asarray(yd)
    q = np.asarray(gamma(y))
    _check_shapes(model, q, y, yd)

    def phi(step: list[Any]) -> Array:
        return difference(model, q, np.array(gamma(object_array(step))))

    units = [[Dual(a, e) for a, e in zip(y, unit, strict=True)] for unit in np.eye(len(y))]
    Gt = np.array([list(map(_slope, phi(unit))) for unit in units]).reshape(len(y), model.nv)
    twice = phi([Dual(Dual(a, b), Dual(b, 0.0)) for a, b in zip(y, yd, strict=True)])
    return ClosureMotion(q, Gt.T @ yd, Gt.T, np.array([_slope(_slope(one)) for one in twice]))


def _check_shapes(model: Tree, q: Array, y: Array, yd: Array) -> None:
    """Raise ValueError if q is not (nq,), or if y and yd have different shapes."""
    if q.shape != (model.nq,):
        raise ValueError(
            f"a loop-closure function of model '{model.name}' must return q ({model.nq},), not "
            f"shape {q.shape}"
        )
    if yd.shape != y.shape:
        raise ValueError(f"yd must have the length of y: y has {len(y)} elements, yd has {len(yd)}")


def object_array(values: list[Any]) -> Array:
    """Return a list of objects, such as dual numbers, as an object array."""
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def _slope(value: Any) -> Any:
    return value.slope if isinstance(value, Dual) else 0.0
