"""The equation of motion of a system with loops whose joints drive others by gears.

What is driven follows from the variables y that nothing drives, so that loops and inertia are those
of y alone:

    x = G y + x0,   G^T H G y = G^T (f - H x0 + K^T lam),   K G y = k - K x0

x0 has what the driven variables are to be beyond what their gears make of y. The force of a gear is
what is left over in the equation of the variable that it drives.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np

from rigidblocks.algebra.scalar import is_number, is_traced, maximum, minimum
from rigidblocks.algebra.sparse import elimination_parent
from rigidblocks.algebra.spatial import Array
from rigidblocks.dynamics import crba, expanded_parent, ltl, mpy_li, mpy_lit
from rigidblocks.dynamics.transmissions import Drive, Transmissions, gear_constraints
from rigidblocks.loops.constraints import LoopConstraints, drift, nearest_common_ancestor
from rigidblocks.loops.elimination import TOLERANCE, Doubt, Elimination, eliminated, solved
from rigidblocks.loops.strings import string_places
from rigidblocks.model.tree import Tree

EPS = np.finfo(float).eps
ROUNDING = 8  # units in the last place of the length of a loop: the rounding of its error
DOUBT = 4096  # of them: rounding adds up over chains of loops; for straight on, or a turn


@dataclass(frozen=True)
class Geared:
    """A model with loops and what rotors and gears add to its inertia and its constraints."""

    model: Tree
    given: Transmissions | None = None
    tolerance: float = TOLERANCE

    @property
    def driven(self) -> Mapping[int, Drive]:
        """What drives each variable that is driven."""
        return self.given.driven if self.given else {}

    @property
    def count(self) -> int:
        """The number of gears."""
        return len(self.driven)

    @property
    def independent(self) -> list[int]:
        """The variables y that nothing drives."""
        return [k for k in range(self.model.nv) if k not in self.driven]

    def gathered(self, A: Array) -> Array:
        """A G of a matrix (n, nv) or a vector (nv,)."""
        if not self.driven:
            return A
        columns = list(A.T)
        for k, drive in self.driven.items():
            columns[drive.by] = columns[drive.by] + drive.ratio * columns[k]
        return np.array([columns[k] for k in self.independent]).T

    def spread(self, y: Array, more: Array) -> Array:
        """G y (nv,), and `more` at each gear of what it drives."""
        if not self.driven:
            return y
        x = np.zeros(self.model.nv, dtype=object)
        x[self.independent] = y
        for (k, drive), beyond in zip(self.driven.items(), more, strict=True):
            x[k] = drive.ratio * x[drive.by] + beyond
        return x if any(map(is_traced, x)) else x.astype(float)

    def parent(self, tree: Tree) -> tuple[int, ...]:
        """The parent array of the variables y, which says where the factor of their inertia has its
        zeros.
        """
        if not self.driven:
            return expanded_parent(tree)
        n = self.model.nv
        reads = np.eye(n, dtype=bool)  # whether an element of the inertia is not zero
        for k, p in enumerate(expanded_parent(tree)):
            if p >= 0:
                reads[k, :k] = reads[p, :k]
        reads |= reads.T
        for k, drive in self.driven.items():
            reads[drive.by] |= reads[k]
            reads[:, drive.by] |= reads[:, k]
        return elimination_parent(reads[np.ix_(self.independent, self.independent)])

    @property
    def blocks(self) -> tuple[slice, ...]:
        """The constraints of each loop, and of each gear."""
        nc = self.model.nc
        gears = (slice(k, k + 1) for k in range(nc, nc + self.count))
        return (*self.model.constraint_slices, *gears)

    def constraints(self, loops: LoopConstraints, q: Array) -> LoopConstraints:
        """The constraints of the loops with those of the gears behind them."""
        if not self.driven:
            return loops
        K, delta = gear_constraints(self.model, self.driven, q)
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


@dataclass(frozen=True, eq=False)
class Equations:
    """The inertia H (nv, nv) of a configuration and the constraints K (nc + gears, nv), with the
    factor L of the inertia of y, H_y = L^T L, and the constraints of loops in coordinates in which
    that is 1.
    """

    geared: Geared
    H: Array
    K: Array
    L: Array
    parent: tuple[int, ...]
    factors: Elimination

    @property
    def rank(self) -> Any:
        """The number of independent constraints."""
        return self.factors.rank + self.geared.count

    def with_constraints(self, constraints: LoopConstraints) -> "Equations":
        """The same inertia with other constraints."""
        factors = _eliminated(self.geared, self.L, self.parent, constraints)
        return replace(self, K=constraints.K, factors=factors)

    def solved(self, f: Array, k: Array, doubt: Doubt | None = None) -> tuple[Array, Array]:
        """The x (nv,) and lam (nc + gears,) with H x = f + K^T lam and K x = k."""
        nc, driven = self.geared.model.nc, self.geared.driven
        free, own = f, k
        if not all(is_number(value, 0.0) for value in k[nc:]):
            x0 = self.geared.spread(np.zeros(len(self.L)), k[nc:])
            free, own = f - self.H @ x0, k - self.K @ x0
            doubt = replace(doubt, k=own) if doubt is not None and doubt.k is k else doubt
        z = mpy_lit(self.L, self.parent, self.geared.gathered(free))
        w, lam = solved(self.factors, own, z, doubt)
        x = self.geared.spread(mpy_li(self.L, self.parent, w), k[nc:])
        of_gears = [self.H[i] @ x - f[i] - self.K[:nc, i] @ lam for i in driven]
        return x, np.concatenate([lam, of_gears])

    def nearest(self, error: Array, doubt: Doubt | None = None) -> Array:
        """The smallest change (nv,) x with K x = error."""
        return self.solved(np.zeros(len(self.H)), error, doubt)[0]


def equations(tree: Tree, q: Array, constraints: LoopConstraints, geared: Geared) -> Equations:
    """Those of a model, of which `tree` has the same equation of motion.

    Raises ValueError for a model without loops.
    """
    if not len(constraints.K):
        raise ValueError(f"model '{tree.name}' has no loops; its dynamics are those of a tree")
    H, parent = geared.inertia(tree, q), geared.parent(tree)
    L = ltl(geared.gathered(geared.gathered(H).T), parent)
    return Equations(geared, H, constraints.K, L, parent,
                     _eliminated(geared, L, parent, constraints))  # fmt: skip


def _eliminated(
    geared: Geared, L: Array, parent: tuple[int, ...], constraints: LoopConstraints
) -> Elimination:
    model = geared.model
    K = geared.gathered(constraints.K[: model.nc])
    Y = mpy_lit(L, parent, K.T)
    return eliminated(Y, model.constraint_slices, geared.smallest(constraints.delta))


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
