"""Inverse dynamics of systems with loops: the forces of the actuated joints from the motion (RBDA
8.12).
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from rigidblocks.algebra.scalar import is_traced, less, select
from rigidblocks.algebra.spatial import Array
from rigidblocks.dynamics import check_lengths, crba, expanded_parent, ltl, mpy_li, mpy_lit, rnea
from rigidblocks.loops.choice import velocity_columns
from rigidblocks.loops.constraints import LoopConstraints, active_forces, drift, loop_constraints
from rigidblocks.loops.elimination import TOLERANCE, Elimination, eliminated, solved
from rigidblocks.model.tree import Tree

# what a motion may miss the loops by: rad, m; /s and /s^2 relative to the largest velocity,
# acceleration
CONSISTENT = 1e-6


class LoopForces(NamedTuple):
    """The joint forces tau (nv,), zero at joints without actuators, and how they are determined.

    `missed` (nv,) is what the accelerations with these forces lack [rad/s^2, m/s^2]: zero unless
    the system is underactuated. `rank` is the number of freedoms that the actuators move,
    `mobility` the number that there are: fewer actuators than `mobility` are too few, more than
    `rank` share their load.
    """

    tau: Array
    missed: Array
    rank: Any
    mobility: Any


def closed_loop_inverse_dynamics(
    model: Tree,
    q: Array,
    qd: Array,
    qdd: Array,
    actuated: Iterable[str | int] | None = None,
    f_ext: Array | None = None,
    gravity: Array | None = None,
    loop_tau: Array | None = None,
    least_squares: bool = False,
) -> LoopForces:
    """The forces of the `actuated` joints, given by name or number, all unless given, that cause
    the accelerations qdd.

        G_u^T u = G^T tau_ID,   tau_ID = H qdd + C - tau^a                      (RBDA Eq 8.62, 8.63)

    Of redundant actuators the forces with the smallest sum of squares [N m, N] are returned. The
    rows of G^T are those of the orthogonal elimination of `closed_loop_dynamics`, so that the two
    agree at singular configurations too.

    Raises ValueError for a motion that opens the loops, for a joint that there is not, and where
    the actuators are too few for the motion: then with `least_squares` those that come nearest, as
    the inertia measures it, are returned. On traced scalars neither is asked: `missed` tells.
    """
    check_lengths(model, f_ext, q=q, qd=qd, qdd=qdd)
    if not model.constrained:
        raise ValueError(
            f"model '{model.name}' has no loops; its inverse dynamics are those of a tree (rnea)"
        )
    constraints = loop_constraints(model, q, qd)
    traced = is_traced(q, qd, qdd)
    if not traced:
        _check_motion(model, constraints, q, np.asarray(qd), np.asarray(qdd))
    tau_ID = rnea(model, q, qd, qdd, f_ext, gravity)
    if loop_tau is not None:
        tau_ID = tau_ID - active_forces(model, q, loop_tau)
    columns = actuated_columns(model, actuated)
    forces = _distribution(model, q, constraints.K, tau_ID, columns, least_squares)
    if not traced and not least_squares:
        _check_actuators(model, forces, qdd)
    return forces


def actuator_forces(
    model: Tree, q: Array, tau: Array, actuated: Iterable[str | int] | None = None
) -> LoopForces:
    """The forces of the `actuated` joints, all unless given, that move a system with loops as the
    forces tau (nv,) of all joints would: G_u^T u = G^T tau (RBDA Eq 8.63).

    Of redundant actuators those with the smallest sum of squares. With the tau that would cause
    accelerations that the loops do not allow, the system gets the nearest ones that they do, as
    the inertia measures it. `missed` tells what too few actuators cannot do; nothing is checked.
    """
    check_lengths(model, None, q=q, tau=tau)
    K = loop_constraints(model, q, np.zeros(model.nv)).K
    return _distribution(model, q, K, tau, actuated_columns(model, actuated), least_squares=False)


def actuated_columns(model: Tree, actuated: Iterable[str | int] | None) -> list[int]:
    """The places in tau of the `actuated` joints, given by name or number, all unless given.

    Raises ValueError for a joint that there is not, and for none.
    """
    if actuated is None:
        return list(range(model.nv))
    columns = velocity_columns(model, actuated, "actuated")
    if not columns:
        raise ValueError(
            f"no joint of model '{model.name}' is actuated; name at least one of "
            f"{', '.join(model.joint_names)}"
        )
    return columns


def _distribution(
    model: Tree, q: Array, K: Array, tau_ID: Array, columns: list[int], least_squares: bool
) -> LoopForces:
    """The forces at `columns` that do what tau_ID does, all of them in coordinates in which the
    inertia is 1.
    """
    parent, still = expanded_parent(model), np.zeros(model.nc)
    L = ltl(crba(model, q), parent)
    loops = eliminated(mpy_lit(L, parent, K.T), model.constraint_slices)
    units = np.eye(model.nv)[columns]

    # what the loops leave of the forces wanted and of a unit force of each actuator
    wanted = solved(loops, still, mpy_lit(L, parent, tau_ID))[0]
    effects = np.array([_effect(loops, still, mpy_lit(L, parent, unit)) for unit in units])
    u, rank = _combination(effects, wanted, least_squares)
    tau = np.zeros(model.nv, dtype=u.dtype)
    tau[columns] = u
    return LoopForces(tau, mpy_li(L, parent, wanted - u @ effects), rank, model.nv - loops.rank)


def _combination(effects: Array, wanted: Array, least_squares: bool) -> tuple[Array, Any]:
    """The smallest u with u effects = wanted, or what comes nearest; and the rank of the
    effects.
    """
    actuators = eliminated(effects, [slice(0, len(wanted))])
    if least_squares:
        return np.linalg.lstsq(effects.T, wanted, rcond=TOLERANCE)[0], actuators.rank
    return solved(actuators, wanted, np.zeros(len(effects)))[0], actuators.rank


def _effect(loops: Elimination, still: Array, force: Array) -> Array:
    """What the loops leave of a force, exactly zero where that is rounding error."""
    left = solved(loops, still, force)[0]
    effect: Array = left * select(
        less(TOLERANCE * TOLERANCE * (force @ force), left @ left), 1.0, 0.0
    )
    return effect


def _check_motion(
    model: Tree, constraints: LoopConstraints, q: Array, qd: Array, qdd: Array
) -> None:
    """Raises ValueError for positions, velocities or accelerations that miss the constraints by
    more than `CONSISTENT`.
    """
    K, k, delta = constraints
    errors = {
        "positions": (delta, 1.0),
        "velocities": (K @ qd + drift(model, q), _largest(qd)),
        "accelerations": (K @ qdd - k, _largest(qdd, k)),
    }
    for what, (error, size) in errors.items():
        if _largest(error) > (allowed := CONSISTENT * max(1.0, size)):
            worst = int(np.argmax(np.abs(error)))
            places = zip(model.loop_names, model.constraint_slices, strict=True)
            loop = next(name for name, rows in places if worst < rows.stop)
            raise ValueError(
                f"the {what} do not keep the loops of model '{model.name}' closed: {loop} misses "
                "by "
                f"{abs(error[worst]):.3g}, and at most {allowed:.1g} is allowed"
            )


def _largest(*vectors: Array) -> float:
    return max(float(np.max(np.abs(vector), initial=0.0)) for vector in vectors)


def _check_actuators(model: Tree, forces: LoopForces, qdd: Array) -> None:
    """Raises ValueError where the accelerations are missed."""
    if (missed := _largest(forces.missed)) > CONSISTENT * max(1.0, _largest(np.asarray(qdd))):
        raise ValueError(
            f"the actuators of model '{model.name}' move {forces.rank:.0f} of its "
            f"{forces.mobility:.0f} freedoms and "
            f"cannot give this motion: an acceleration would be missed by {missed:.3g}; actuate "
            "more joints, or use "
            f"least_squares=True"
        )
