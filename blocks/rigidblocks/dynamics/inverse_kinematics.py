"""Inverse kinematics: the configuration in which frames of a robot are where they should be.

Damped least squares with the exact Jacobian (Wampler 1986; Nakamura and Hanafusa 1986), with the
damping of Levenberg and Marquardt in numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from rigidblocks.algebra.linear import positive_solution
from rigidblocks.algebra.scalar import maximum
from rigidblocks.algebra.spatial import Array, Transform, cross, identity
from rigidblocks.dynamics.jacobian import body_jacobian
from rigidblocks.dynamics.kinematics import body_poses
from rigidblocks.dynamics.sweeps import body_number
from rigidblocks.model.configuration import checked, integrate, neutral
from rigidblocks.model.model import Model

LEAST_COSINE = 1e-3  # of half an angle: an error of a half turn keeps a finite size


@dataclass(frozen=True, eq=False)
class Target:
    """Where a frame of a body should be: `goal` takes base coordinates to those of the frame there,
    `placement` the body's coordinates to the frame's. Without `rotation` its orientation is free.
    """

    body: str | int
    goal: Transform
    placement: Transform = field(default_factory=identity)
    rotation: bool = True


class IKSolution(NamedTuple):
    """A configuration q (nq,); the size of what is missing there, of all targets together [rad, m];
    the number of steps; and whether that is below the tolerance.
    """

    q: Array
    error: float
    steps: int
    reached: bool


def pose_error(X: Transform, goal: Transform) -> Array:
    """What a frame at X lacks to be at the goal, (6,) [rad; m] in base coordinates, both transforms
    from base coordinates; floats or traced.

        e = [2 sin(t/2) axis; r_goal - r]

    The angular part grows with the angle t up to a half turn, where any axis would do.
    """
    R = goal.E.T @ X.E  # takes directions that are the frame's to the goal's, in base coordinates
    sine = np.array([R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]]) / 2
    cosine = np.sqrt(maximum(1.0 + R[0, 0] + R[1, 1] + R[2, 2], LEAST_COSINE**2)) / 2
    return np.concatenate([sine / cosine, goal.r - X.r])


def frame_jacobian(model: Model, q: Array, body: str | int, placement: Transform) -> Array:
    """J (6, nv): [w; velocity of the origin] of a frame of a body are J qd, in base coordinates."""
    X = placement @ body_poses(model, q)[body_number(model, body)]
    J = placement @ body_jacobian(model, q, body)
    return np.concatenate([X.E.T @ J[:3], X.E.T @ J[3:]])


def damped_step(J: Array, e: Array, damping: Any) -> Array:
    """dq = J^T (J J^T + damping^2 1)^-1 e, the smallest of the steps that trade what is left of e
    for their size; finite in singular configurations too.
    """
    step: Array = J.T @ positive_solution(J @ J.T + damping * damping * np.eye(len(J)), e)
    return step


def inverse_kinematics(
    model: Model,
    targets: Target | Sequence[Target],
    q0: ArrayLike | None = None,
    *,
    lower: ArrayLike = -np.inf,
    upper: ArrayLike = np.inf,
    tolerance: float = 1e-10,
    steps: int = 300,
) -> IKSolution:
    """The configuration near `q0` in which all targets are reached, or what is nearest to them
    where they cannot be; the neutral configuration unless q0 is given.

    `lower` and `upper` (nv,) [rad or m] limit the positions of joints of one freedom, as in
    `RobotDescription.freedoms`. It is a local method: from another q0 another branch, or a better
    end, may be found. Raises ValueError for a body that there is not and for limits upside down.
    """
    tasks = [targets] if isinstance(targets, Target) else list(targets)
    bodies = [_number(model, task.body) for task in tasks]
    low, high = _limits(model, lower, upper)
    start = neutral(model) if q0 is None else np.asarray(q0, dtype=float)
    q = np.clip(checked(model, start), low, high)
    e, damping, done = _errors(model, tasks, bodies, q), 1e-3, 0
    while done < steps and np.linalg.norm(e) > tolerance and damping < 1e6:
        done += 1
        J = np.concatenate([_rows(model, t, b, q) for t, b in zip(tasks, bodies, strict=True)])
        free = _free(model, q, J.T @ e, low, high)
        dq = free * _least_squares_step(J * free, e, damping)
        moved = np.clip(integrate(model, q, dq), low, high)
        left = _errors(model, tasks, bodies, moved)
        if np.linalg.norm(left) < np.linalg.norm(e):
            q, e, damping = moved, left, max(damping / 5, 1e-12)
        else:
            damping *= 4
    error = float(np.linalg.norm(e))
    return IKSolution(q, error, done, error <= tolerance)


def _least_squares_step(J: Array, e: Array, damping: float) -> Array:
    """`damped_step` without squares of J."""
    n = J.shape[1]
    rows, right = np.vstack([J, damping * np.eye(n)]), np.concatenate([e, np.zeros(n)])
    step: Array = np.linalg.lstsq(rows, right)[0]
    return step


def _number(model: Model, body: str | int) -> int:
    if body in model.body_names:
        return model.body_names.index(str(body))
    if isinstance(body, int) and 0 <= body < model.nb:
        return body
    raise ValueError(
        f"model '{model.name}' has no body {body!r}; it has {', '.join(model.body_names)}"
    )


def _limits(model: Model, lower: ArrayLike, upper: ArrayLike) -> tuple[Array, Array]:
    """The limits of the position variables (nq,), infinite at joints of several freedoms."""
    low, high = np.full(model.nq, -np.inf), np.full(model.nq, np.inf)
    given = [np.broadcast_to(np.asarray(limit, dtype=float), model.nv) for limit in (lower, upper)]
    if bad := np.flatnonzero(~(given[0] <= given[1])).tolist():
        raise ValueError(
            f"the limits of freedom {bad[0]} are upside down: {given[0][bad[0]]} to "
            f"{given[1][bad[0]]}"
        )
    for joint, at, k in zip(model.joint, model.q_slices, model.v_slices, strict=True):
        if joint.nq == joint.nv == 1:
            low[at], high[at] = given[0][k], given[1][k]
    return low, high


def _free(model: Model, q: Array, descent: Array, low: Array, high: Array) -> Array:
    """1 for each velocity that may change, 0 at a limit that it would go beyond."""
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
    J = frame_jacobian(model, q, body, task.placement)
    return J if task.rotation else J[3:]


def velocity_product(v: Array) -> Array:
    """What a classical acceleration has beyond the spatial one in the same coordinates: [0; w x
    v_O] (RBDA Eq 2.49).
    """
    return np.concatenate([np.zeros(3), cross(v[:3], v[3:])])
