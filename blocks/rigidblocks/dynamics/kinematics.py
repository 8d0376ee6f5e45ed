"""Kinematics: motion of bodies and of points on them, Jacobians, and inverse kinematics.

The accelerations are relative to the fixed base, without a gravity offset. The accelerations of
RBDA Table 5.1 have the offset -a_g.

The acceleration of a body is a spatial vector, *not* the acceleration of the body's origin (RBDA
2.11). For a uniform rotation this vector is zero, although the points of the body accelerate.
`classical_acceleration` and the point functions return classical accelerations.

Bodies are given by name or index. A point is given by its position (3,) [m] in the coordinates of
its body.

`inverse_kinematics` returns the configuration that moves frames of a robot to their targets. The
method is damped least squares with the exact Jacobian (Wampler 1986; Nakamura and Hanafusa 1986).
`inverse_kinematics` adapts the damping as in the Levenberg-Marquardt method.

Source: RBDA 4.1.4, Examples 2.3 and 2.5 (Jacobians).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike

from rigidblocks.common.name_hints import HintedType, explain_calls, suggestion
from rigidblocks.dynamics.joint_kinematics import (
    base_transforms,
    body_number,
    check_lengths,
    joint_kinematics,
    support,
)
from rigidblocks.robot.configuration import (
    configuration_array,
    integrate,
    neutral,
    random_configuration,
)
from rigidblocks.robot.joints.base import subspace_rate
from rigidblocks.robot.model import Model
from rigidblocks.robot.tree import Tree
from rigidblocks.spatial.linear_algebra import positive_solution
from rigidblocks.spatial.scalar import maximum
from rigidblocks.spatial.spatial import Array, Transform, cross, identity


def body_poses(model: Tree, q: Array) -> list[Any]:
    """Return the transforms from base to body coordinates (RBDA Ex 4.3).

    In each transform, E rotates base coordinates to body coordinates. r is the position of the body
    origin in base coordinates.
    """
    check_lengths(model, q=q)
    return base_transforms(
        model, [joint_kinematics(model, i, q, np.zeros(model.nv))[0] for i in range(model.nb)]
    )


def body_velocities(model: Tree, q: Array, qd: Array) -> Array:
    """Return the spatial velocities [w; v] (nb, 6) in body coordinates (RBDA Eq 5.14)."""
    check_lengths(model, q=q, qd=qd)
    v = [model.algebra.zero()] * (model.nb + 1)
    for i, p in enumerate(model.parent):
        Xup, _, vJ, _ = joint_kinematics(model, i, q, qd)
        v[i] = Xup @ v[p] + vJ
    return np.array(v[:-1])


def body_accelerations(model: Tree, q: Array, qd: Array, qdd: Array) -> Array:
    """Return the spatial accelerations (nb, 6) in body coordinates (RBDA Eq 5.15 with a_0 = 0)."""
    check_lengths(model, q=q, qd=qd, qdd=qdd)
    v, a = ([model.algebra.zero()] * (model.nb + 1) for _ in range(2))
    for i, p in enumerate(model.parent):
        Xup, S, vJ, cJ = joint_kinematics(model, i, q, qd)
        v[i] = Xup @ v[p] + vJ
        a[i] = Xup @ a[p] + S @ qdd[model.v_slices[i]] + cJ + model.algebra.cross_motion(v[i], vJ)
    return np.array(a[:-1])


def classical_acceleration(a: Array, v: Array) -> Array:
    """Return the classical acceleration a + [0; w x v] (RBDA Eq 2.50).

    The result is [dw/dt; acceleration of the origin]. a and v are the spatial acceleration and
    velocity.
    """
    return np.concatenate([a[:3], a[3:] + cross(v[:3], v[3:])])


def spatial_acceleration(a: Array, v: Array) -> Array:
    """Return the spatial acceleration a - [0; w x v] (RBDA Eq 2.48).

    a is the classical acceleration [dw/dt; acceleration of the origin] and v the spatial velocity.
    """
    return np.concatenate([a[:3], a[3:] - cross(v[:3], v[3:])])


def point_position(model: Model, q: Array, body: str | int, point: Array) -> Array:
    """Return the position r + E^T p (3,) [m] of a point of a body in base coordinates.

    r is the position of the body origin and E the rotation from base to body coordinates. p is
    the `point`.

    Args:
        model: Tree of bodies.
        q: Joint positions (nq,) [rad or m].
        body: Name or index of the body.
        point: Position (3,) [m] of the point in body coordinates.
    """
    X = _body_motion(model, body, q, np.zeros(model.nv), np.zeros(model.nv))[0]
    position: Array = X.r + X.E.T @ np.asarray(point)
    return position


def point_velocity(model: Model, q: Array, qd: Array, body: str | int, point: Array) -> Array:
    """Return the velocity (3,) [m/s] of a point of a body, E^T (v + w x p) (RBDA Eq 2.1).

    The result is in base coordinates. [w; v] is the spatial velocity of the body in body
    coordinates, E the rotation from base to body coordinates, and p the `point`.

    Args:
        model: Tree of bodies.
        q: Joint positions (nq,) [rad or m].
        qd: Joint velocities (nv,).
        body: Name or index of the body.
        point: Position (3,) [m] of the point in body coordinates.
    """
    X, v, _ = _body_motion(model, body, q, qd, np.zeros(model.nv))
    velocity: Array = X.E.T @ (v[3:] + cross(v[:3], np.asarray(point)))
    return velocity


def point_acceleration(
    model: Model, q: Array, qd: Array, qdd: Array, body: str | int, point: Array
) -> Array:
    """Return the acceleration (3,) [m/s^2] of a point of a body in base coordinates.

    The result is the second time derivative of the position.

    Args:
        model: Tree of bodies.
        q: Joint positions (nq,) [rad or m].
        qd: Joint velocities (nv,).
        qdd: Joint accelerations (nv,).
        body: Name or index of the body.
        point: Position (3,) [m] of the point in body coordinates.
    """
    X, v, a = _body_motion(model, body, q, qd, qdd)
    acceleration: Array = X.E.T @ _point_acceleration(v, a, np.asarray(point))
    return acceleration


def specific_force(
    model: Model,
    q: Array,
    qd: Array,
    qdd: Array,
    body: str | int,
    point: Array,
    gravity: Array | None = None,
) -> Array:
    """Return the reading (3,) [m/s^2] of an accelerometer at a point, in body coordinates.

    The reading is the acceleration of the point minus gravity. At rest, it points upwards with the
    magnitude of gravity. In free fall, it is zero.

    Args:
        model: Tree of bodies.
        q: Joint positions (nq,) [rad or m].
        qd: Joint velocities (nv,).
        qdd: Joint accelerations (nv,).
        body: Name or index of the body.
        point: Position (3,) [m] of the point in body coordinates.
        gravity: Gravity (3,) [m/s^2] in base coordinates; by default model.gravity.
    """
    X, v, a = _body_motion(model, body, q, qd, qdd)
    g = np.asarray(model.gravity if gravity is None else gravity)
    reading: Array = _point_acceleration(v, a, np.asarray(point)) - X.E @ g
    return reading


def _body_motion(
    model: Tree, body: str | int, q: Array, qd: Array, qdd: Array
) -> tuple[Any, Array, Array]:
    """Return the pose of a body, and its spatial velocity and acceleration (body coordinates)."""
    check_lengths(model, q=q, qd=qd, qdd=qdd)
    X, v, a = model.algebra.identity(), model.algebra.zero(), model.algebra.zero()
    for i in support(model, body):
        Xup, S, vJ, cJ = joint_kinematics(model, i, q, qd)
        X, v = Xup @ X, Xup @ v + vJ
        a = Xup @ a + S @ qdd[model.v_slices[i]] + cJ + model.algebra.cross_motion(v, vJ)
    return X, v, a


def _point_acceleration(v: Array, a: Array, p: Array) -> Array:
    """Return the acceleration (3,) of the point p of a body.

    v and a are the spatial velocity and acceleration of the body. All vectors are in body
    coordinates.
    """
    w, origin = v[:3], classical_acceleration(a, v)
    acceleration: Array = origin[3:] + cross(origin[:3], p) + cross(w, cross(w, p))
    return acceleration


def body_jacobian(model: Tree, q: Array, body: str | int) -> Array:
    """Return the Jacobian J (6, nv) of a body in body coordinates (RBDA Eq 4.5, 4.6).

    The spatial velocity of the body is J qd.

    Args:
        model: Tree of bodies.
        q: Joint positions (nq,) [rad or m].
        body: Name or index of the body.
    """
    check_lengths(model, q=q)
    J: list[Any] = [np.zeros((len(model.algebra.zero()), joint.nv)) for joint in model.joint]
    X = model.algebra.identity()
    for i in reversed(support(model, body)):
        Xup, S, _, _ = joint_kinematics(model, i, q, np.zeros(model.nv))
        J[i] = X @ S
        X = X @ Xup
    return np.hstack(J)


def body_jacobian_rate(model: Tree, q: Array, qd: Array, body: str | int) -> Array:
    """Return the time derivative dJ/dt (6, nv) of a body Jacobian (RBDA Eq 2.57).

    dJ/dt is in body coordinates. The spatial acceleration of the body is J qdd + dJ/dt qd. With
    the spatial velocity v of the body and the derivatives J' of the elements of J, dJ/dt is
    J' + v x J. The term v x J is the effect of the moving body coordinates.

    Args:
        model: Tree of bodies.
        q: Joint positions (nq,) [rad or m].
        qd: Joint velocities (nv,).
        body: Name or index of the body.
    """
    check_lengths(model, q=q, qd=qd)
    J: list[Any] = [np.zeros((len(model.algebra.zero()), joint.nv)) for joint in model.joint]
    path, v = support(model, body), {-1: model.algebra.zero()}
    kinematics = {i: joint_kinematics(model, i, q, qd) for i in path}

    # outward: velocities
    for i in path:
        Xup, _, vJ, _ = kinematics[i]
        v[i] = Xup @ v[model.parent[i]] + vJ

    # inward: the columns of each joint in body coordinates
    X = model.algebra.identity()
    for i in reversed(path):
        Xup, S, _, _ = kinematics[i]
        Sdot = subspace_rate(model.joint[i], q[model.q_slices[i]], qd[model.v_slices[i]])
        J[i] = X @ (Sdot + _cross_with_columns(model, v[i], S))
        X = X @ Xup
    return np.hstack(J)


def _cross_with_columns(model: Tree, v: Array, S: Array) -> Array:
    """Return v x s for each column s of S."""
    products = np.array([model.algebra.cross_motion(v, s) for s in S.T])
    return products.reshape(S.shape[::-1]).T


def point_jacobian(model: Model, q: Array, body: str | int, point: Array) -> Array:
    """Return the Jacobian J (3, nv) of a point of a body, in base coordinates.

    The velocity of the point [m/s] is J qd.

    Args:
        model: Tree of bodies.
        q: Joint positions (nq,) [rad or m].
        body: Name or index of the body.
        point: Position (3,) [m] of the point in body coordinates.
    """
    E, J = _rotation(model, q, body), body_jacobian(model, q, body)
    jacobian: Array = E.T @ (J[3:] - cross(np.asarray(point), J[:3]))
    return jacobian


def point_jacobian_rate(model: Model, q: Array, qd: Array, body: str | int, point: Array) -> Array:
    """Return the time derivative dJ/dt (3, nv) of a point Jacobian, in base coordinates.

    The acceleration of the point is J qdd + dJ/dt qd.

    Args:
        model: Tree of bodies.
        q: Joint positions (nq,) [rad or m].
        qd: Joint velocities (nv,).
        body: Name or index of the body.
        point: Position (3,) [m] of the point in body coordinates.
    """
    E, p = _rotation(model, q, body), np.asarray(point)
    J, Jdot = body_jacobian(model, q, body), body_jacobian_rate(model, q, qd, body)
    v = J @ qd
    v_P = v[3:] + cross(v[:3], p)
    rate: Array = E.T @ (Jdot[3:] - cross(p, Jdot[:3]) - cross(v_P, J[:3]))
    return rate


def _rotation(model: Model, q: Array, body: str | int) -> Array:
    """Return the rotation matrix E (3, 3) from base coordinates to body coordinates."""
    X = model.algebra.identity()
    for i in support(model, body):
        X = joint_kinematics(model, i, q, np.zeros(model.nv))[0] @ X
    E: Array = X.E
    return E


LEAST_COSINE = 1e-3  # lower bound of cos(t/2) for the error angle t; bounds the error near t = pi


@dataclass(frozen=True, eq=False)
class Target(metaclass=HintedType):
    """Target pose of a frame of a body.

    `body` is the name of a frame in the robot file, or the name or index of a body. `goal` is the
    transform from base coordinates to the target pose. `placement` is the transform from `body` to
    the frame that shall reach the target pose. If `rotation` is False, the orientation is free.
    """

    body: str | int
    goal: Transform
    placement: Transform = field(default_factory=identity)
    rotation: bool = True


class IKSolution(NamedTuple):
    """Result of the inverse kinematics.

    `q` (nq,) is the configuration, `error` the norm of the remaining error of all targets [rad, m],
    and `steps` the number of iterations. `reached` is True if the error is within the tolerance.
    `at_limit` has the names of the joints that are at their lower or upper limit.
    """

    q: Array
    error: float
    steps: int
    reached: bool
    at_limit: tuple[str, ...] = ()


def pose_error(X: Transform, goal: Transform) -> Array:
    """Return the error (6,) [rad; m] from a frame at X to its goal, in base coordinates.

        e = [2 sin(t/2) axis; r_goal - r]

    t [rad] and `axis` are the angle and the axis of the rotation from the frame to the goal. r and
    r_goal are the positions of the two frames. Both transforms are from base coordinates and may
    be traced. The angular error increases with t up to a half turn, at which the axis is not
    unique.
    """
    R = goal.E.T @ X.E  # rotation from frame axes to goal axes (base coordinates)
    sine = np.array([R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]]) / 2
    cosine = np.sqrt(maximum(1.0 + R[0, 0] + R[1, 1] + R[2, 2], LEAST_COSINE**2)) / 2
    return np.concatenate([sine / cosine, goal.r - X.r])


class Frames(Protocol):
    """Interface of a robot with named frames, such as `RobotDescription`."""

    @property
    def model(self) -> Any:
        """Model of the robot."""

    @property
    def frames(self) -> Mapping[str, Any]:
        """Frames of the robot, by name.

        A frame has the body index `body` (-1 for the base) and the transform `placement`.
        """

    @property
    def joint_properties(self) -> Any:
        """Joint properties with the position limits `lower` and `upper` (nv,)."""

    @property
    def q0(self) -> Array | None:
        """Initial configuration (nq,), or None for the neutral configuration."""


class _Frame(NamedTuple):
    """Frame of a model: its body (index, -1 for the base) and its placement on the body."""

    model: Model
    body: int
    placement: Transform


@explain_calls()
def forward_kinematics(robot: Model | Frames, q: ArrayLike) -> dict[str, Transform]:
    """Return the poses of all frames of an imported robot, or of all bodies of a model.

        X = placement X_body

    X_body is the pose of the body, and `placement` the transform from body to frame coordinates.

    Args:
        robot: Model, or description of a robot from a file (`load_model`).
        q: Configuration (nq,) [rad or m].

    Returns:
        The transforms from base to frame coordinates by name. `X.r` is the position (3,) [m] of the
        frame in base coordinates, and the columns of `X.E.T` are its axes.

    Raises:
        ValueError: The configuration has a wrong length, is not finite or has a zero quaternion, or
            the model is planar.
    """
    model = _spatial_model(robot)
    poses = [*body_poses(model, configuration_array(model, q)), identity()]
    if isinstance(robot, Model):
        return dict(zip(model.body_names, poses, strict=False))
    return {name: one.placement @ poses[one.body] for name, one in robot.frames.items()}


def frame_pose(robot: Model | Frames, q: ArrayLike, frame: str | int) -> Transform:
    """Return the pose of a frame, the transform from base to frame coordinates.

    Args:
        robot: Model, or description of a robot from a file (`load_model`).
        q: Configuration (nq,) [rad or m].
        frame: Name of a frame of the file, or name or index of a body.

    Raises:
        ValueError: The frame does not exist, the configuration is invalid or the model is planar.
    """
    model, body, placement = _find_frame(robot, frame)
    q = configuration_array(model, q)
    pose: Transform = placement if body < 0 else placement @ body_poses(model, q)[body]
    return pose


@explain_calls()
def frame_jacobian(
    robot: Model | Frames, q: ArrayLike, frame: str | int, placement: Transform | None = None
) -> Array:
    """Return the Jacobian J (6, nv) of a frame, in base axes.

    J qd = [w; v] contains the angular velocity w of the frame and the velocity v of its origin. For
    a frame that is fixed to the base, J is zero.

    Args:
        robot: Model, or description of a robot from a file (`load_model`).
        q: Configuration (nq,) [rad or m].
        frame: Name of a frame of the file, or name or index of a body.
        placement: Transform from `frame` to an offset frame, which is fixed to `frame`. If given,
            the result is the Jacobian of the offset frame.

    Raises:
        ValueError: The frame does not exist, the configuration is invalid or the model is planar.
    """
    model, body, place = _find_frame(robot, frame)
    q = configuration_array(model, q)
    if body < 0:
        return np.zeros((6, model.nv))
    return base_jacobian(model, q, body, place if placement is None else placement @ place)


def base_jacobian(model: Model, q: Array, body: int, placement: Transform) -> Array:
    """Return the Jacobian (6, nv) of a frame on a body, in base axes, without checking q.

    Blocks call this function instead of `frame_jacobian`, which raises an error if q contains NaN.
    The stepper of a block reports NaN itself.
    """
    X = placement @ body_poses(model, q)[body]
    J = placement @ body_jacobian(model, q, body)
    return np.concatenate([X.E.T @ J[:3], X.E.T @ J[3:]])


def _spatial_model(robot: Model | Frames) -> Model:
    model = robot if isinstance(robot, Tree) else getattr(robot, "model", None)
    if isinstance(model, Model):
        return model
    if isinstance(model, Tree):
        raise ValueError(
            f"'{model.name}' is planar, not spatial; convert it with model.spatial_model()"
        )
    raise TypeError(f"the robot must be a model or the result of load_model, not {robot!r:.60}")


def _find_frame(robot: Model | Frames, name: str | int) -> _Frame:
    """Return a frame of the robot file by name, or a body by name or index."""
    model = _spatial_model(robot)
    frames: Mapping[str, Any] = {} if isinstance(robot, Model) else robot.frames
    if isinstance(name, str) and name in frames:
        return _Frame(model, frames[name].body, frames[name].placement)
    if isinstance(name, str) and name not in model.body_names:
        known = dict.fromkeys((*frames, *model.body_names))
        raise ValueError(f"'{model.name}' has no frame '{name}'; {suggestion(name, known)}")
    return _Frame(model, body_number(model, name), identity())


def damped_step(J: Array, e: Array, damping: Any) -> Array:
    """Return the damped least-squares step dq = J^T (J J^T + damping^2 1)^-1 e.

    The step minimizes |e - J dq|^2 + damping^2 |dq|^2. It is finite in singular configurations.
    """
    step: Array = J.T @ positive_solution(J @ J.T + damping * damping * np.eye(len(J)), e)
    return step


@explain_calls()
def inverse_kinematics(
    robot: Model | Frames,
    targets: Target | Sequence[Target],
    q0: ArrayLike | None = None,
    *,
    lower: ArrayLike | None = None,
    upper: ArrayLike | None = None,
    tolerance: float = 1e-10,
    steps: int = 300,
    restarts: int | None = None,
    seed: int = 0,
) -> IKSolution:
    """Return the configuration near `q0` that reaches all targets, or comes closest to them.

        found = inverse_kinematics(load_model("arm.urdf"), Target("tool0", pose))

    The method is local: with another q0, the result may be on another branch or have a smaller
    error. If a start does not reach the targets, the method restarts from a random configuration
    within the limits. The limits apply to joints with one degree of freedom. The method does not
    use loop joints and mimic joints.

    Args:
        robot: Model, or description of a robot from a file (`load_model`).
        targets: One target or several targets.
        q0: Initial configuration (nq,). Default: the initial configuration of the file, or the
            neutral configuration.
        lower: Lower limits (nv,) of the joint positions [rad or m]. Default: the limits of the
            file; a model has no limits.
        upper: Upper limits (nv,) of the joint positions [rad or m].
        tolerance: Largest error norm [rad, m] at which the targets count as reached.
        steps: Maximum number of iterations of each start.
        restarts: Maximum number of random restarts. Default: 20, or 0 if q0 is given.
        seed: Seed of the random restarts.

    Returns:
        The configuration and its error, the number of iterations of all starts, a flag that is True
        if the configuration reaches the targets, and the joints that are at a limit.

    Raises:
        ValueError: A frame does not exist or does not move, or a lower limit is above its upper
            limit.
    """
    model = _spatial_model(robot)
    tasks = [targets] if isinstance(targets, Target) else list(targets)
    if not tasks:
        raise ValueError("inverse_kinematics needs one or more targets, but the list is empty")
    for task in tasks:
        if not isinstance(task, Target):
            raise TypeError(
                "the targets of inverse_kinematics must be of the type Target, such as "
                f"Target('tool', xlt([0.4, 0.0, 0.3])), not {task!r}"
            )
    tasks = [_task_of_body(robot, task) for task in tasks]
    for task in tasks:
        if not isinstance(task.goal, Transform):
            raise TypeError(
                f"the goal of a target must be a Transform, not {task.goal!r}; for a position "
                "without orientation write Target(frame, xlt(position), rotation=False)"
            )
    limits = () if isinstance(robot, Model) else (robot.joint_properties,)
    given = [
        bound if bound is not None else getattr(limits[0], name) if limits else none
        for name, bound, none in (("lower", lower, -np.inf), ("upper", upper, np.inf))
    ]
    low, high = _limits(model, *given)
    start = q0 if q0 is not None or isinstance(robot, Model) else robot.q0
    q = configuration_array(model, neutral(model) if start is None else start)
    found = _descend(model, tasks, np.clip(q, low, high), low, high, tolerance, steps)
    count, rng = found.steps, np.random.default_rng(seed)
    for _ in range((20 if q0 is None else 0) if restarts is None else restarts):
        if found.reached:
            break
        q = _random_within(model, low, high, rng)
        other = _descend(model, tasks, q, low, high, tolerance, steps)
        count += other.steps
        found = min(found, other, key=lambda one: one.error)
    names = zip(model.joint_names, model.q_slices, strict=True)
    at_limit = tuple(
        name for name, k in names if np.any((found.q[k] <= low[k]) | (found.q[k] >= high[k]))
    )
    return found._replace(steps=count, at_limit=at_limit)


def _task_of_body(robot: Model | Frames, task: Target) -> Target:
    """Return an equivalent target whose `body` is a body index.

    The placement of the result is relative to this body.
    """
    model, body, placement = _find_frame(robot, task.body)
    if body < 0:
        raise ValueError(
            f"frame '{task.body}' of '{model.name}' is fixed to the base, so it cannot reach a "
            "target; choose a frame of a moving link"
        )
    return replace(task, body=body, placement=task.placement @ placement)


def _descend(
    model: Model,
    tasks: Sequence[Target],
    q: Array,
    low: Array,
    high: Array,
    tolerance: float,
    steps: int,
) -> IKSolution:
    """Reduce the target errors by damped least squares, starting at the configuration q.

    `low` and `high` (nq,) are the position limits. The iteration ends when the error norm is at
    most `tolerance`, or after `steps` iterations.
    """
    bodies = [int(task.body) for task in tasks]
    e, damping, done = _errors(model, tasks, bodies, q), 1e-3, 0
    while done < steps and np.linalg.norm(e) > tolerance and damping < 1e6:
        done += 1
        J = np.concatenate([_rows(model, t, b, q) for t, b in zip(tasks, bodies, strict=True)])
        free = _movable_variables(model, q, J.T @ e, low, high)
        dq = free * _least_squares_step(J * free, e, damping)
        moved = np.clip(integrate(model, q, dq), low, high)
        left = _errors(model, tasks, bodies, moved)
        if np.linalg.norm(left) < np.linalg.norm(e):
            q, e, damping = moved, left, max(damping / 5, 1e-12)
        else:
            damping *= 4
    error = float(np.linalg.norm(e))
    return IKSolution(q, error, done, error <= tolerance)


def _random_within(model: Model, low: Array, high: Array, rng: np.random.Generator) -> Array:
    """Return a random configuration within the limits `low` and `high` (nq,).

    Positions with two finite limits have a uniform distribution between these limits. Other
    positions come from `random_configuration` and are clipped to the limits.
    """
    q = random_configuration(model, rng)
    limited = np.isfinite(low) & np.isfinite(high)
    q[limited] = rng.uniform(low[limited], high[limited])
    return np.clip(q, low, high)


def _least_squares_step(J: Array, e: Array, damping: float) -> Array:
    """Return the damped step dq that minimizes |e - J dq|^2 + damping^2 |dq|^2.

    The function does not compute J J^T, whose condition number is the square of that of J.
    """
    n = J.shape[1]
    rows, right = np.vstack([J, damping * np.eye(n)]), np.concatenate([e, np.zeros(n)])
    step: Array = np.linalg.lstsq(rows, right)[0]
    return step


def _limits(model: Model, lower: ArrayLike, upper: ArrayLike) -> tuple[Array, Array]:
    """Return the position limits (nq,) from the limits `lower` and `upper` (nv,) of the variables.

    Limits apply only to joints with one degree of freedom. All other limits are infinite.
    """
    low, high = np.full(model.nq, -np.inf), np.full(model.nq, np.inf)
    limits = [np.broadcast_to(np.asarray(limit, dtype=float), model.nv) for limit in (lower, upper)]
    if bad := np.flatnonzero(~(limits[0] <= limits[1])).tolist():
        raise ValueError(
            f"the lower limit of variable {bad[0]} is above the upper limit: "
            f"{limits[0][bad[0]]} > {limits[1][bad[0]]}"
        )
    for joint, at, k in zip(model.joint, model.q_slices, model.v_slices, strict=True):
        if joint.nq == joint.nv == 1:
            low[at], high[at] = limits[0][k], limits[1][k]
    return low, high


def _movable_variables(model: Model, q: Array, descent: Array, low: Array, high: Array) -> Array:
    """Return 1 for each velocity variable (nv,) that may change, and 0 for the others.

    `descent` (nv,) is the direction that reduces the target errors. A variable must not change if
    its joint is at a limit, `low` or `high` (nq,), and `descent` points beyond this limit.
    """
    free = np.ones(model.nv)
    for joint, at, k in zip(model.joint, model.q_slices, model.v_slices, strict=True):
        if joint.nq == joint.nv == 1:
            outward = (q[at] <= low[at]) & (descent[k] < 0) | (q[at] >= high[at]) & (descent[k] > 0)
            free[k] = np.where(outward, 0.0, 1.0)
    return free


def _errors(model: Model, tasks: Sequence[Target], bodies: Sequence[int], q: Array) -> Array:
    poses = body_poses(model, q)
    errors = [
        pose_error(task.placement @ poses[body], task.goal)[0 if task.rotation else 3 :]
        for task, body in zip(tasks, bodies, strict=True)
    ]
    return np.concatenate(errors)


def _rows(model: Model, task: Target, body: int, q: Array) -> Array:
    J = base_jacobian(model, q, body, task.placement)
    return J if task.rotation else J[3:]


def velocity_product(v: Array) -> Array:
    """Return [0; w x v_O]: the classical acceleration minus the spatial one (RBDA Eq 2.49).

    v = [w; v_O] (6,) is the spatial velocity. The result is in the coordinates of v.
    """
    return np.concatenate([np.zeros(3), cross(v[:3], v[3:])])
