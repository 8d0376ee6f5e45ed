"""Assembly of loops, velocities that keep loops closed, and the cut tree.

In the cut tree, each loop joint is a tree joint that carries a virtual body (Spencer 2004, A.3.2).
The loops are closed if the frame of each virtual body coincides with F_s, the frame on the
successor. Therefore the constraints need only transforms and Jacobians of the tree, for all joint
types. The variables of the loop joints follow the variables of the tree joints.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rigidblocks.common.doc_links import add_doc_link
from rigidblocks.dynamics.joint_kinematics import (
    base_transforms,
    joint_kinematics,
    velocity_columns,
)
from rigidblocks.dynamics.kinematics import body_jacobian
from rigidblocks.dynamics.loops.constraints import drift, loop_joint_motion, position_constraints
from rigidblocks.dynamics.loops.loop_dynamics import project_velocity
from rigidblocks.robot.configuration import configuration_array, integrate, normalize_quaternions
from rigidblocks.robot.tree import Tree
from rigidblocks.spatial.spatial import Array


def cut_tree(model: Tree) -> Tree:
    """Return the cut tree, in which the loop joints follow the tree joints.

    Body nb + l is the virtual body of loop joint l. The inertias of virtual bodies do not affect
    the results. They are not zero, because a model must not contain a joint that moves no inertia.
    """
    model.check_no_strings("a tree with cut joints")
    n = len(model.loops)
    massive, name_of_massive = next(
        (body, name)
        for body, name in zip(model.inertia, model.body_names, strict=True)
        if name not in model.massless
    )
    ends = tuple(f"end of {name}" for name in model.loop_names)
    more = {
        "parent": (*model.parent, *(loop.predecessor for loop in model.loops)),
        "joint": (*model.joint, *(loop.joint for loop in model.loops)),
        "Xtree": (*model.Xtree, *(loop.Xp for loop in model.loops)),
        "inertia": (*model.inertia, *(massive,) * n),
        "body_names": (*model.body_names, *ends),
        "joint_names": (*model.joint_names, *model.loop_names),
    }
    if hasattr(model, "contact"):
        more |= {"contact": (), "appearance": ()}
    if name_of_massive in getattr(model, "unphysical", ()):
        more["unphysical"] = (*model.unphysical, *ends)
    tree: Tree = replace(model, loops=(), **more)  # type: ignore[type-var]  # the models are dataclasses
    return tree


def cut_state(model: Tree, q: Array, qd: Array) -> tuple[Array, Array]:
    """Return the configuration and velocities of the cut tree.

    The variables of the loop joints follow from q (nq,) and qd (nv,).
    """
    positions, velocities = loop_joint_motion(model, q, qd)
    return np.concatenate([q, *positions]), np.concatenate([qd, *velocities])


def loop_frames(model: Tree, tree: Tree, q: Array) -> list[tuple[Any, Any]]:
    """Return the transforms from base coordinates to the two frames of each loop joint.

    The frames are F_s and the frame of the virtual body. q is the configuration of the cut tree
    `tree`. If a loop is closed, its two frames coincide.
    """
    X0 = base_transforms(
        tree, [joint_kinematics(tree, i, q, np.zeros(tree.nv))[0] for i in range(tree.nb)]
    )
    X0.append(model.algebra.identity())
    return [(loop.Xs @ X0[loop.successor], X0[model.nb + l]) for l, loop in enumerate(model.loops)]


def loop_frame_jacobians(model: Tree, tree: Tree, q: Array) -> list[tuple[Array, Array]]:
    """Return the Jacobians (6, n) of the two frames of each loop joint (`loop_frames`).

    Each Jacobian is in the coordinates of its frame. Its n columns correspond to the velocity
    variables of the cut tree.
    """
    base = np.zeros((len(model.algebra.zero()), tree.nv))
    return [
        (
            loop.Xs @ (base if loop.successor < 0 else body_jacobian(tree, q, loop.successor)),
            body_jacobian(tree, q, model.nb + l),
        )
        for l, loop in enumerate(model.loops)
    ]


LONGEST_STEP = 0.5  # [rad or m] a longer step could lead to another branch


class AssemblyError(ValueError):
    """Error for loops that do not close.

    Attributes:
        q: Best configuration found (nq,).
        errors: Closure error of each loop joint: an angle [rad] and a distance [m]
            (`closure_errors`).
    """

    def __init__(self, message: str, q: Array, errors: dict[str, tuple[float, float]]):
        super().__init__(message)
        self.q = q
        self.errors = errors


def assemble(
    model: Tree,
    guess: ArrayLike,
    fixed: Iterable[str | int] = (),
    tolerance: float = 1e-10,
    iterations: int = 200,
) -> Array:
    """Return a configuration (nq,) near `guess` that closes all loops.

    If several assembly branches exist, the iteration converges to the branch of the guess. A damped
    Newton method with exact derivatives (Levenberg-Marquardt) minimizes the sum of squares of the
    closure errors. The damping follows Yamashita and Fukushima 2001. With this damping, the
    convergence is quadratic even if constraints are dependent.

    Args:
        model: Model with or without loops.
        guess: Initial configuration (nq,).
        fixed: Names or indices of joints whose positions do not change.
        tolerance: Largest closure error [rad, m].
        iterations: Maximum number of iterations.

    Raises:
        AssemblyError: The loops do not close to `tolerance`.
        ValueError: A joint is unknown, or the guess is not a configuration.
    """
    guess = configuration_array(model, guess)
    if not model.has_constraints:
        return guess
    tree = cut_tree(model)
    fixed_columns = velocity_columns(model, fixed, "fixed")
    free = np.setdiff1d(np.arange(tree.nv), fixed_columns)
    q = cut_state(model, guess, np.zeros(model.nv))[0]
    q = normalize_quaternions(model, _minimize_misfit(model, tree, q, free, iterations)[: model.nq])
    errors = closure_errors(model, q)
    if max((max(error) for error in errors.values()), default=0.0) > tolerance:
        refused = AssemblyError(_open_loops_text(model, errors, fixed_columns), q, errors)
        raise add_doc_link(refused, "loops that do not close")
    return q


def closure_errors(model: Tree, q: Array) -> dict[str, tuple[float, float]]:
    """Return the closure error of each loop joint by name: an angle [rad] and a distance [m].

    The error is the difference between the frame F_s and the nearest frame that the joint can
    reach. Unlike delta (`loop_constraints`), this error is exact for large displacements. For an
    error of half a turn, the angle is pi, but delta is 0.
    """
    tree = cut_tree(model)
    frames = loop_frames(model, tree, cut_state(model, q, np.zeros(model.nv))[0])
    errors = {}
    for name, (X, Y) in zip(model.loop_names, frames, strict=True):
        # rounding can cause a sine above 1
        half = np.minimum(np.linalg.norm(X.E - Y.E) / np.sqrt(8.0), 1.0)
        errors[name] = (2.0 * float(np.arcsin(half)), float(np.linalg.norm(X.r - Y.r)))
    return errors


def consistent_velocity(
    model: Tree, q: Array, qd: ArrayLike, strict: bool = False, tolerance: float = 1e-9
) -> Array:
    """Return the velocities (nv,) nearest to qd that keep the loops closed: K(q) qd = 0.

    K is the constraint matrix, and the distance is in the inertia metric. If the velocity error of
    qd exceeds `tolerance`, a warning reports the change.

    Args:
        model: Model with or without loops.
        q: Configuration (nq,).
        qd: Velocities (nv,).
        strict: True to raise an error instead of a warning.
        tolerance: Largest velocity error [rad/s, m/s].

    Raises:
        ValueError: `strict` is set and qd opens a loop. The message contains the velocity errors.
    """
    qd = np.asarray(qd, dtype=float)
    if not model.has_constraints:
        return qd
    error = position_constraints(model, q).K @ qd + drift(model, q)
    if np.max(np.abs(error), initial=0.0) <= tolerance:
        return project_velocity(model, q, qd)
    rates = {name: float(np.max(np.abs(error[rows]), initial=0.0)) for name, rows in _rows(model)}
    message = f"the velocities of model '{model.name}' open its loops: " + ", ".join(
        f"{name} opens at {rate:.3g}" for name, rate in rates.items() if rate > tolerance
    )
    if strict:
        raise ValueError(
            f"{message} (rad/s, m/s); use consistent_velocity without strict=True for the "
            "nearest consistent velocities"
        )
    warnings.warn(
        f"{message} (rad/s, m/s); changed to the nearest consistent velocities", stacklevel=2
    )
    return project_velocity(model, q, qd)


def _rows(model: Tree) -> Iterable[tuple[str, slice]]:
    return zip(model.loop_names, model.constraint_slices, strict=True)


def _minimize_misfit(model: Tree, tree: Tree, q: Array, free: Array, iterations: int) -> Array:
    """Return the configuration of the cut tree that minimizes the norm of `_misfit`.

    q is the initial configuration. The iteration changes only the variables whose indices in the
    velocities are in `free`.
    """
    misfit, damping = _misfit(model, tree, q), 1e-3
    for _ in range(iterations):
        cost, step = misfit @ misfit, np.zeros(tree.nv)
        step[free] = _damped_step(_misfit_jacobian(model, tree, q)[:, free], misfit, damping * cost)
        there = integrate(tree, q, step)
        misfit_there = _misfit(model, tree, there)
        if misfit_there @ misfit_there < cost:
            q, misfit, damping = there, misfit_there, damping / 5.0
        elif damping < 1e12 and np.max(np.abs(step)) > 1e-15:
            damping *= 10.0
        else:
            break
    return q


def _damped_step(J: Array, misfit: Array, squared_damping: Any) -> Array:
    """Return the damped least-squares step for the vector `misfit`, with limited length.

    The step minimizes |misfit + J step|^2 + squared_damping |step|^2. The function then scales the
    step so that no element exceeds `LONGEST_STEP`.
    """
    n = J.shape[1]
    damped = np.vstack([J, np.sqrt(squared_damping) * np.eye(n)])
    step: Array = -np.linalg.lstsq(damped, np.append(misfit, np.zeros(n)), rcond=1e-12)[0]
    step *= min(1.0, LONGEST_STEP / max(np.max(np.abs(step), initial=0.0), 1e-300))
    return step


def _misfit(model: Tree, tree: Tree, q: Array) -> Array:
    """Return the differences between the two frames of all loop joints as a vector.

    For each loop joint, the vector contains the difference of the rotation matrices E and the
    difference of the positions r of the two frames (`loop_frames`).
    """
    return np.concatenate(
        [np.concatenate([(X.E - Y.E).ravel(), X.r - Y.r]) for X, Y in loop_frames(model, tree, q)]
    )


def _misfit_jacobian(model: Tree, tree: Tree, q: Array) -> Array:
    """Return the Jacobian of `_misfit` with respect to the velocity variables of the cut tree."""
    frames, jacobians = loop_frames(model, tree, q), loop_frame_jacobians(model, tree, q)
    return np.vstack(
        [
            _frame_element_jacobian(X, J) - _frame_element_jacobian(Y, H)
            for (X, Y), (J, H) in zip(frames, jacobians, strict=True)
        ]
    )


def _frame_element_jacobian(X: Any, J: Array) -> Array:
    """Return the derivatives of E and r of a transform X with respect to the velocity variables.

    X = (E, r) is the transform from base coordinates to a frame. J is the Jacobian of this frame
    in frame coordinates. The rows are the derivatives of the elements of E, then of r.
    """
    n = len(X.r)
    turns = np.array([[[0, 1], [-1, 0]]] if n == 2 else _MINUS_SKEW)
    dE = np.einsum("kab,bc,kn->acn", turns, X.E, J[:-n]).reshape(n * n, -1)
    return np.vstack([dE, X.E.T @ J[-n:]])


_MINUS_SKEW = [
    [[0, 0, 0], [0, 0, 1], [0, -1, 0]],
    [[0, 0, -1], [0, 0, 0], [1, 0, 0]],
    [[0, 1, 0], [-1, 0, 0], [0, 0, 0]],
]


def _open_loops_text(
    model: Tree, errors: dict[str, tuple[float, float]], fixed_columns: list[int]
) -> str:
    places = ", ".join(
        f"{name} by {distance:.3g} m and {angle:.3g} rad"
        for name, (angle, distance) in errors.items()
    )
    advice = (
        "give another guess; if this one is straight or symmetric, bend it towards the desired "
        "branch"
    )
    if fixed_columns:
        advice += f", or fix fewer joints (now {len(fixed_columns)} degrees of freedom)"
    return (
        f"the loops of model '{model.name}' do not close from this guess; the best "
        f"configuration leaves open {places}; {advice}"
    )
