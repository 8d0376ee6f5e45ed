"""Forward dynamics of systems with loops, and configurations and velocities that keep the loops
closed (RBDA 8.5).
"""

from typing import Any, NamedTuple

import numpy as np

from rigidblocks.algebra.scalar import less, maximum, select
from rigidblocks.algebra.spatial import Array
from rigidblocks.dynamics import bias_force, check_lengths, expanded_parent
from rigidblocks.dynamics.transmissions import Transmissions
from rigidblocks.loops.constraints import (
    active_forces,
    baumgarte,
    loop_constraints,
    position_constraints,
)
from rigidblocks.loops.elimination import TOLERANCE
from rigidblocks.loops.geared import Equations, Geared, equations
from rigidblocks.loops.solvers import solver
from rigidblocks.model.configuration import displaced
from rigidblocks.model.tree import Tree


class LoopMotion(NamedTuple):
    """The accelerations qdd (nv,) of the tree's joints, the constraint forces lam (nc,) of the loop
    joints [N m, N], the number of constraints that are independent, and an estimate of their
    condition (`Elimination`).

        H qdd + C = tau + tau^a + K^T lam,   K qdd = k

    Where constraints depend on others the lam of the ones left out is 0; what K^T lam is does not
    depend on the choice.
    """

    qdd: Array
    lam: Array
    rank: Any
    condition: Any


def closed_loop_dynamics(
    model: Tree,
    q: Array,
    qd: Array,
    tau: Array,
    f_ext: Array | None = None,
    gravity: Array | None = None,
    T_stab: float | None = None,
    loop_tau: Array | None = None,
    tree: Tree | None = None,
    method: str = "elimination",
    transmissions: Transmissions | None = None,
    tolerance: float = TOLERANCE,
) -> LoopMotion:
    """The accelerations of a system with loops from the joint forces tau (nv,) (RBDA Eq 8.36,
    method 2 with orthogonal elimination in the place of A), or by another of the `SOLVERS`.

    Passes singular configurations: constraints that depend on others, always or there, are left out
    by the relative `tolerance` (`eliminated`). With `T_stab` [s] errors are stabilized
    (`baumgarte`); without, keep them away by projection. `loop_tau` has the forces of active loop
    joints (`active_forces`). `tree` may be a model with the same equation of motion that is cheaper
    to compute (`equivalent`). `transmissions` are rotors and gears: H has the inertia of the rotors
    on its diagonal, and each gear is a constraint behind those of the loops, with its force at the
    end of lam. Raises ValueError for a model without loops.
    """
    check_lengths(model, f_ext, q=q, qd=qd, tau=tau)
    geared = Geared(model, transmissions, tolerance)
    constraints = geared.constraints(loop_constraints(model, q, qd), q)
    if T_stab is not None:
        constraints = baumgarte(constraints, qd, T_stab, geared.drift(q))
    if loop_tau is not None:
        tau = tau + active_forces(model, q, loop_tau)
    tree = model if tree is None else tree
    f = tau - bias_force(tree, q, qd, f_ext, gravity)
    these = equations(tree, q, constraints, geared)
    if method == "elimination":
        qdd, lam = these.solved(f, constraints.k, geared.doubt(constraints, qd))
    else:
        K, k, _ = constraints
        qdd, lam = solver(method)(these.H, f, K, k, expanded_parent(tree), geared.blocks)
    return LoopMotion(qdd, lam, these.rank, these.factors.condition)


def project(
    model: Tree,
    q: Array,
    qd: Array,
    tree: Tree | None = None,
    transmissions: Transmissions | None = None,
    tolerance: float = TOLERANCE,
) -> tuple[Array, Array]:
    """q and qd moved onto the constraints: the nearest ones, as the inertia measures distance
    (Spencer 2004, 3.1.3).

    A Newton step in q with the K of where it started, a second one with the same K, and then the
    velocities. From an error of 1e-4 that leaves less than 1e-11. `transmissions` and `tolerance`
    are those of `closed_loop_dynamics`.
    """
    geared = Geared(model, transmissions, tolerance)
    q, before = _closed(model, q, tree, geared)
    constraints = geared.constraints(loop_constraints(model, q, qd), q)
    error = geared.velocity_error(constraints, q, qd)
    these = before.with_constraints(constraints)
    return q, qd - these.nearest(error, geared.doubt(constraints, qd))


def project_position(model: Tree, q: Array, tree: Tree | None = None) -> Array:
    """q moved onto the constraints, as in `project`."""
    return _closed(model, q, tree, Geared(model))[0]


def project_velocity(model: Tree, q: Array, qd: Array, tree: Tree | None = None) -> Array:
    """qd moved onto K(q) qd = 0: the nearest velocities, as the inertia measures distance."""
    constraints, geared = loop_constraints(model, q, qd), Geared(model)
    these = equations(model if tree is None else tree, q, constraints, geared)
    error = geared.velocity_error(constraints, q, qd)
    moved: Array = qd - these.nearest(error, geared.doubt(constraints, qd))
    return moved


def project_energy(qd: Array, kinetic: Any, wanted: Any) -> Array:
    """qd scaled to the kinetic energy `wanted` [J] from `kinetic`: the nearest velocities that have
    it.

    It is the projection onto conserved energy of Spencer 2004, 3.1.3, with positions left alone.
    Velocities that keep the loops closed still do. Nothing is changed where there is no kinetic
    energy to scale.
    """
    moving = less(1e-12, kinetic)
    factor = np.sqrt(maximum(wanted, 0.0) / select(moving, kinetic, 1.0))
    scaled: Array = qd * select(moving, factor, 1.0)
    return scaled


def _closed(model: Tree, q: Array, tree: Tree | None, geared: Geared) -> tuple[Array, Equations]:
    """The configuration on the constraints, and the equations before."""
    constraints = geared.constraints(position_constraints(model, q), q)
    these = equations(model if tree is None else tree, q, constraints, geared)
    rounding, delta = geared.rounding, constraints.delta
    for step in range(2):
        if step:
            delta = geared.constraints(position_constraints(model, q), q).delta
        error = delta - select(less(np.abs(delta), rounding), delta, 0.0)
        q = displaced(model, q, -these.nearest(error))
    return q, these
