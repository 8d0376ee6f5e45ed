"""Assembly: configurations that close the loops, from a rough guess, and velocities that keep them
closed (RBDA 8.0).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rigidblocks.algebra.spatial import Array
from rigidblocks.explained import explained
from rigidblocks.loops.choice import velocity_columns
from rigidblocks.loops.constraints import drift, position_constraints
from rigidblocks.loops.cut import cut, cut_state, facing_frames, facing_jacobians
from rigidblocks.loops.forward import project_velocity
from rigidblocks.model.configuration import checked, integrate, normalized
from rigidblocks.model.tree import Tree

LONGEST_STEP = 0.5  # rad or m: a longer one could lead to another branch


class AssemblyError(ValueError):
    """Loops that do not close. `q` (nq,) is the best configuration found, `errors` what is left
    open there, by loop joint: an angle [rad] and a distance [m] (`closure_errors`).
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
    """A configuration (nq,) near `guess` that closes all loops; where there are several branches,
    the guess's.

    `fixed` names joints, or gives their numbers, that keep the position of the guess. The squares
    of what the loops leave open are made smallest by a damped Newton method with exact derivatives
    (Levenberg-Marquardt; Yamashita and Fukushima 2001 for the damping, which lets it end
    quadratically where constraints depend on each other too).

    Raises AssemblyError where the loops do not close to `tolerance` [rad, m], and ValueError for a
    joint that there is not and a guess that is no configuration.
    """
    guess = checked(model, guess)
    if not model.constrained:
        return guess
    tree = cut(model)
    fixed_columns = velocity_columns(model, fixed, "held fixed")
    free = np.setdiff1d(np.arange(tree.nv), fixed_columns)
    q = cut_state(model, guess, np.zeros(model.nv))[0]
    q = normalized(model, _least_open(model, tree, q, free, iterations)[: model.nq])
    errors = closure_errors(model, q)
    if max((max(error) for error in errors.values()), default=0.0) > tolerance:
        refused = AssemblyError(_still_open(model, errors, fixed_columns), q, errors)
        raise explained(refused, "loops that do not close")
    return q


def closure_errors(model: Tree, q: Array) -> dict[str, tuple[float, float]]:
    """How far each loop joint is from closed, by name: the angle [rad] and the distance [m] between
    the frame F_s and the nearest one that the joint could bring it to.

    Unlike delta (`loop_constraints`) they are exact for large errors: half a turn is pi, not 0.
    """
    tree = cut(model)
    frames = facing_frames(model, tree, cut_state(model, q, np.zeros(model.nv))[0])
    errors = {}
    for name, (X, Y) in zip(model.loop_names, frames, strict=True):
        half = np.minimum(np.linalg.norm(X.E - Y.E) / np.sqrt(8.0), 1.0)  # rounding
        errors[name] = (2.0 * float(np.arcsin(half)), float(np.linalg.norm(X.r - Y.r)))
    return errors


def consistent_velocity(
    model: Tree, q: Array, qd: ArrayLike, strict: bool = False, tolerance: float = 1e-9
) -> Array:
    """The velocities (nv,) nearest to qd, as the inertia measures distance, that keep the loops
    closed: K(q) qd = 0.

    Where qd would open a loop faster than `tolerance` [rad/s, m/s] it is changed with a warning, or
    with `strict` refused: ValueError, with the velocity error of each loop joint.
    """
    qd = np.asarray(qd, dtype=float)
    if not model.constrained:
        return qd
    error = position_constraints(model, q).K @ qd + drift(model, q)
    if np.max(np.abs(error), initial=0.0) <= tolerance:
        return project_velocity(model, q, qd)
    rates = {name: float(np.max(np.abs(error[rows]), initial=0.0)) for name, rows in _rows(model)}
    message = (
        f"the velocities given for model '{model.name}' do not keep its loops closed: "
        + ", ".join(
            f"{name} opens at {rate:.3g}" for name, rate in rates.items() if rate > tolerance
        )
    )
    if strict:
        raise ValueError(
            f"{message} (rad/s, m/s); consistent_velocity without strict=True gives the nearest "
            "that do"
        )
    warnings.warn(f"{message} (rad/s, m/s); they were changed to the nearest that do", stacklevel=2)
    return project_velocity(model, q, qd)


def _rows(model: Tree) -> Iterable[tuple[str, slice]]:
    return zip(model.loop_names, model.constraint_slices, strict=True)


def _least_open(model: Tree, tree: Tree, q: Array, free: Array, iterations: int) -> Array:
    """The configuration of the cut tree, moved in the `free` variables, where the misfits are
    smallest.
    """
    misfit, damping = _misfit(model, tree, q), 1e-3
    for _ in range(iterations):
        cost, step = misfit @ misfit, np.zeros(tree.nv)
        step[free] = _damped_step(_misfit_rates(model, tree, q)[:, free], misfit, damping * cost)
        there = integrate(tree, q, step)
        misfit_there = _misfit(model, tree, there)
        if misfit_there @ misfit_there < cost:
            q, misfit, damping = there, misfit_there, damping / 5.0
        elif damping < 1e12 and np.max(np.abs(step)) > 1e-15:
            damping *= 10.0
        else:
            break
    return q


def _damped_step(J: Array, misfit: Array, square: Any) -> Array:
    """The step with the smallest |misfit + J step|^2 + square |step|^2, not longer than
    `LONGEST_STEP`.
    """
    n = J.shape[1]
    damped = np.vstack([J, np.sqrt(square) * np.eye(n)])
    step: Array = -np.linalg.lstsq(damped, np.append(misfit, np.zeros(n)), rcond=1e-12)[0]
    step *= min(1.0, LONGEST_STEP / max(np.max(np.abs(step), initial=0.0), 1e-300))
    return step


def _misfit(model: Tree, tree: Tree, q: Array) -> Array:
    """What each loop leaves open: the differences of the elements of E and of r of its two
    frames.
    """
    return np.concatenate(
        [np.concatenate([(X.E - Y.E).ravel(), X.r - Y.r]) for X, Y in facing_frames(model, tree, q)]
    )


def _misfit_rates(model: Tree, tree: Tree, q: Array) -> Array:
    """The derivatives of the same by the velocity variables of the cut tree."""
    frames, jacobians = facing_frames(model, tree, q), facing_jacobians(model, tree, q)
    return np.vstack(
        [
            _element_rates(X, J) - _element_rates(Y, H)
            for (X, Y), (J, H) in zip(frames, jacobians, strict=True)
        ]
    )


def _element_rates(X: Any, J: Array) -> Array:
    """The rates of the elements of E and of r of a frame that moves with the columns of J: dE = -w
    x E, dr = E^T v.
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


def _still_open(
    model: Tree, errors: dict[str, tuple[float, float]], fixed_columns: list[int]
) -> str:
    places = ", ".join(
        f"{name} by {distance:.3g} m and {angle:.3g} rad"
        for name, (angle, distance) in errors.items()
    )
    advice = (
        "give another guess, bent towards the branch wanted if this one is straight or symmetric"
    )
    if fixed_columns:
        advice += f", or hold fewer joints fixed than the {len(fixed_columns)} freedoms now"
    return (
        f"the loops of model '{model.name}' do not close from this guess; the best found "
        f"leaves open {places}; {advice}"
    )
