"""Forward dynamics of systems with loops, and configurations and velocities that keep the loops
closed (RBDA 8.5).
"""

from dataclasses import dataclass
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from rigidblocks.algebra.scalar import less, maximum, minimum, select
from rigidblocks.algebra.spatial import Array
from rigidblocks.dynamics import (
    bias_force,
    check_lengths,
    crba,
    expanded_parent,
    ltl,
    mpy_li,
    mpy_lit,
)
from rigidblocks.dynamics.transmissions import Transmissions, gear_constraints
from rigidblocks.loops.constraints import (
    LoopConstraints,
    active_forces,
    baumgarte,
    drift,
    loop_constraints,
    nearest_common_ancestor,
    position_constraints,
)
from rigidblocks.loops.elimination import TOLERANCE, Doubt, Elimination, eliminated, solved
from rigidblocks.loops.solvers import solver
from rigidblocks.loops.strings import string_places
from rigidblocks.model.configuration import displaced
from rigidblocks.model.tree import Tree

EPS = np.finfo(float).eps
ROUNDING = 8  # units in the last place of the length of a loop: the rounding of its error
DOUBT = 4096  # of them: rounding adds up over chains of loops; for straight on, or a turn


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


class Metric(NamedTuple):
    """The inertia H = L^T L of a configuration and the constraints in coordinates in which it is
    1.
    """

    L: Array
    parent: tuple[int, ...]
    constraints: Elimination


@dataclass(frozen=True)
class _Geared:
    """A model with loops and what rotors and gears add to its inertia and its constraints."""

    model: Tree
    given: Transmissions | None = None
    tolerance: float = TOLERANCE

    @property
    def count(self) -> int:
        """The number of gears."""
        return len(self.given.driven) if self.given else 0

    @property
    def blocks(self) -> tuple[slice, ...]:
        """The constraints of each loop, and of each gear."""
        nc = self.model.nc
        gears = (slice(k, k + 1) for k in range(nc, nc + self.count))
        return (*self.model.constraint_slices, *gears)

    def constraints(self, loops: LoopConstraints, q: Array) -> LoopConstraints:
        """The constraints of the loops with those of the gears behind them."""
        if not (self.given and self.given.driven):
            return loops
        K, delta = gear_constraints(self.model, self.given.driven, q)
        return LoopConstraints(
            np.vstack([loops.K, K]),
            np.concatenate([loops.k, np.zeros(len(K))]),
            np.concatenate([loops.delta, delta]),
        )

    @property
    def rounding(self) -> Array:
        """What rounding alone may make of the errors of the loops and the gears."""
        return np.concatenate([_rounding(self.model), np.zeros(self.count)])

    def velocity_error(self, constraints: LoopConstraints, q: Array, qd: Array) -> Array:
        """How fast the loops open [rad/s, m/s]."""
        error: Array = constraints.K @ qd
        return error + self.drift(q) if self.model.rheonomic else error

    def drift(self, q: Array) -> Array:
        """The velocity errors of the constraints at rest, which depend on time."""
        return np.concatenate([drift(self.model, q), np.zeros(self.count)])

    def doubt(self, constraints: LoopConstraints, qd: Array) -> Doubt:
        """What rounding may make of k and of the velocities, by the speeds in each loop."""
        K, k, _ = constraints
        k_rounding, rounding = np.zeros((2, len(K)), dtype=object)
        for rows, unit in zip(
            self.blocks, self.rounding[[rows.start for rows in self.blocks]], strict=True
        ):
            if unit > 0.0:
                length = unit / (ROUNDING * EPS)
                speeds = (K[rows] * qd).ravel()
                square = speeds @ speeds
                k_rounding[rows.start] = DOUBT * EPS / length * square
                rounding[rows.start] = DOUBT * EPS * np.sqrt(square)
        return Doubt(k, k_rounding, rounding)

    def smallest(self, delta: Array) -> Any:
        """Below what size, against the largest, a constraint counts as dependent on others.

        Where loops are open by delta, in the stages of an integrator, constraints that depend on
        others when they are closed are independent by as much (Bennett's linkage is rigid then).
        Nothing may be made of that.
        """
        error = reduce(maximum, np.abs(delta), 0.0)
        return maximum(self.tolerance, minimum(100.0 * error, 1e-3))

    def inertia(self, tree: Tree, q: Array) -> Array:
        """H with the inertia of the rotors on its diagonal."""
        H = crba(tree, q)
        return H + np.diag(self.given.rotor_inertia) if self.given else H


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
    geared = _Geared(model, transmissions, tolerance)
    constraints = geared.constraints(loop_constraints(model, q, qd), q)
    if T_stab is not None:
        constraints = baumgarte(constraints, qd, T_stab, geared.drift(q))
    if loop_tau is not None:
        tau = tau + active_forces(model, q, loop_tau)
    tree = model if tree is None else tree
    f = tau - bias_force(tree, q, qd, f_ext, gravity)
    L, parent, factors = _metric(tree, q, constraints, geared)
    if method == "elimination":
        doubt = geared.doubt(constraints, qd)
        w, lam = solved(factors, constraints.k, mpy_lit(L, parent, f), doubt)
        qdd = mpy_li(L, parent, w)
    else:
        K, k, _ = constraints
        qdd, lam = solver(method)(geared.inertia(tree, q), f, K, k, parent, geared.blocks)
    return LoopMotion(qdd, lam, factors.rank, factors.condition)


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
    geared = _Geared(model, transmissions, tolerance)
    q, L, parent = _closed(model, q, tree, geared)
    constraints = geared.constraints(loop_constraints(model, q, qd), q)
    K, _, delta = constraints
    factors = eliminated(mpy_lit(L, parent, K.T), geared.blocks, geared.smallest(delta))
    error = geared.velocity_error(constraints, q, qd)
    return q, qd - _nearest(L, parent, factors, error, geared.doubt(constraints, qd))


def project_position(model: Tree, q: Array, tree: Tree | None = None) -> Array:
    """q moved onto the constraints, as in `project`."""
    return _closed(model, q, tree, _Geared(model))[0]


def project_velocity(model: Tree, q: Array, qd: Array, tree: Tree | None = None) -> Array:
    """qd moved onto K(q) qd = 0: the nearest velocities, as the inertia measures distance."""
    constraints, geared = loop_constraints(model, q, qd), _Geared(model)
    L, parent, factors = _metric(model if tree is None else tree, q, constraints, geared)
    doubt = geared.doubt(constraints, qd)
    error = geared.velocity_error(constraints, q, qd)
    moved: Array = qd - _nearest(L, parent, factors, error, doubt)
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


def _closed(
    model: Tree, q: Array, tree: Tree | None, geared: "_Geared"
) -> tuple[Array, Array, tuple[int, ...]]:
    """The configuration on the constraints, and the factor of the inertia before."""
    constraints = geared.constraints(position_constraints(model, q), q)
    L, parent, factors = _metric(model if tree is None else tree, q, constraints, geared)
    rounding = geared.rounding
    for _ in range(2):
        delta = geared.constraints(position_constraints(model, q), q).delta
        error = delta - select(less(np.abs(delta), rounding), delta, 0.0)
        q = displaced(model, q, -_nearest(L, parent, factors, error))
    return q, L, parent


def _rounding(model: Tree) -> Array:
    """What rounding alone may make of the position errors (nc,) of closed loops [rad, m].

    An error is the difference of two frames, each a product of transforms, and rounds as the sum of
    their lengths does. It is no error to be removed: near a singular pose, where the smallest
    singular value of the constraints is a small part s of the largest, its removal moves q by it
    over s, and qd by it over s^2.
    """
    lengths = np.zeros(model.nc)
    for loop, rows in zip(model.loops, model.constraint_slices, strict=False):
        root = nearest_common_ancestor(model, loop.predecessor, loop.successor)
        frames = [loop.Xp, loop.Xs]
        for i in (loop.predecessor, loop.successor):
            while i != root:
                frames.append(model.Xtree[i])
                i = model.parent[i]
        lengths[rows] = sum(float(np.max(np.abs(X.r))) for X in frames)
    for string, row in zip(
        model.strings, range(model.nc - len(model.strings), model.nc), strict=True
    ):
        frames = [model.Xtree[i] for i in string_places(model, string)]
        points = sum(float(np.max(np.abs(point))) for _, point in string.points)
        lengths[row] = points + sum(float(np.max(np.abs(X.r))) for X in frames)
    return ROUNDING * EPS * np.maximum(lengths, 1.0)


def _metric(tree: Tree, q: Array, constraints: LoopConstraints, geared: "_Geared") -> Metric:
    K, _, delta = constraints
    if not len(K):
        raise ValueError(f"model '{tree.name}' has no loops; its dynamics are those of a tree")
    parent = expanded_parent(tree)
    L = ltl(geared.inertia(tree, q), parent)
    smallest = geared.smallest(delta)
    return Metric(L, parent, eliminated(mpy_lit(L, parent, K.T), geared.blocks, smallest))


def _nearest(
    L: Array,
    parent: tuple[int, ...],
    factors: Elimination,
    error: Array,
    doubt: Doubt | None = None,
) -> Array:
    """The smallest change (nv,) x with K x = error."""
    w, _ = solved(factors, error, np.zeros(len(L)), doubt)
    return mpy_li(L, parent, w)
