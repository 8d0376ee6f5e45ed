"""Kinematic loops closed from outside the robot: by constraint forces that a block of its own
computes, or by springs.
"""

from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any

import numpy as np

from rigidblocks.algebra.factored import factored
from rigidblocks.algebra.scalar import less, maximum, minimum, select
from rigidblocks.algebra.spatial import Array
from rigidblocks.block.block import Block, Port, Record, Values
from rigidblocks.dynamics import (
    bias_force,
    body_poses,
    body_velocities,
    crba,
    energy,
    expanded_parent,
    ltl,
    mpy_li,
    mpy_lit,
)
from rigidblocks.dynamics.operational import inverse_inertia
from rigidblocks.joint import LoopJoint
from rigidblocks.library.compliance import stable_spring_hold
from rigidblocks.library.ports import (
    acceleration_port,
    closure_force_port,
    constraint_units,
    energy_port,
    force_port,
    gravity_port,
    joint_ports,
    motion_states,
    start_configuration,
    wrench_port,
)
from rigidblocks.loops import loop_constraints, position_constraints
from rigidblocks.model.configuration import rate, unit_quaternions
from rigidblocks.model.resistance import check_resistance
from rigidblocks.model.tree import Tree


@dataclass(frozen=True, eq=False)
class CutLoopPlant(Block):
    """The forward dynamics of a robot with its loop joints cut: constraint forces in, out what they
    depend on.

        H qdd + C = tau + K^T lam,  A = K H^-1 K^T,  b = k - K H^-1 (tau - C)  (RBDA Eq 8.38, 8.39)

    The loops stay closed if A lam = b, which is for `LoopClosure` to see to. A (nc, nc) and b (nc,)
    have nothing of lam in them: wired to each other, the two blocks are no algebraic loop. `delta`
    (nc,) is how far the loops are open and `rate` (nc,) = K qd how fast they open. lam is held over
    a step, but K is that of every moment, so that constraint forces do no work on motion that keeps
    the loops closed.

    `q0` and `qd0` are the start, as those of `RobotPlant`; the parameter `gravity` is the model's
    unless it is changed. Raises ValueError for a model without loops.
    """

    model: Tree
    q0: Any = None
    qd0: Any = 0.0

    def __post_init__(self) -> None:
        _check_loops(self.model)
        check_resistance(self.model)
        object.__setattr__(self, "q0", start_configuration(self.model, self.q0))

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """tau (nv,) and lam (nc,)."""
        return (
            force_port(self.model.joint),
            closure_force_port(self.model, 0.0),
        )

    @cached_property
    def states(self) -> tuple[Port, ...]:
        """q (nq,) and qd (nv,)."""
        return motion_states(self.model.joint, self.q0, self.qd0)

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """q, qd, qdd (nv,), the energy, and A, b, delta and rate."""
        return (
            *self.states,
            acceleration_port(self.model.joint),
            energy_port(),
            *_closure_ports(self.model),
        )

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """gravity (3,)."""
        return (gravity_port(self.model),)

    def derivative(self, x: Record, u: Record, p: Record) -> Values:
        return {"q": rate(self.model, x.q, x.qd), "qd": self._motion(x, u, p)["qdd"]}

    def project(self, x: Record) -> Values:
        return {"q": unit_quaternions(self.model, x.q)} if self.model.nq > self.model.nv else {}

    def output(self, x: Record, u: Record, p: Record) -> Values:
        return {**self._motion(x, u, p), "energy": energy(self.model, x.q, x.qd, p.gravity)}

    def _motion(self, x: Record, u: Record, p: Record) -> dict[str, Any]:
        model = self.model
        K, k, delta = loop_constraints(model, x.q, x.qd)
        parent = expanded_parent(model)
        L = ltl(crba(model, x.q), parent)
        Y = mpy_lit(L, parent, K.T)
        z = mpy_lit(L, parent, u.tau - bias_force(model, x.q, x.qd, gravity=p.gravity))
        qdd = mpy_li(L, parent, z + Y @ u.lam)
        return {"qdd": qdd, "A": Y.T @ Y, "b": k - Y.T @ z, "delta": delta, "rate": K @ x.qd}


@dataclass(frozen=True, eq=False)
class LoopClosure(Block):
    """The constraint forces that keep the loops of a robot closed, from what its `CutLoopPlant`
    says of them.

        A lam = b - (2/T_stab) rate - (1/T_stab^2) delta        (RBDA Eq 8.37, 8.22)

    Forces that are held over a step leave an error, which the time constant `T_stab` [s] pulls
    back. It must be longer than the step; 5 to 20 steps are reasonable. `lam` (nc,) solves the
    equation by conjugate directions, the largest first; constraints that depend on others are left
    out, with lam = 0. `rank` is the number of those kept, and `loop_error` the largest element of
    delta. Raises ValueError for a model without loops.
    """

    model: Tree
    T_stab: float

    def __post_init__(self) -> None:
        _check_loops(self.model)

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """A (nc, nc), b, delta and rate (nc,)."""
        return _closure_ports(self.model)

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """lam (nc,), rank and loop_error."""
        return (
            closure_force_port(self.model),
            Port("rank", (), "1", "number of independent constraints"),
            Port("loop_error", (), "1", "largest position error of the constraints, in rad or m"),
        )

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """T_stab."""
        return (
            Port(
                "T_stab",
                (),
                "s",
                "time constant of the stabilization",
                self.T_stab,
                min=0.0,
                positive=True,
            ),
        )

    def longest_hold(self, u: Record, p: Record) -> float:
        """T_stab: the error of what is held obeys the law of a critically damped spring."""
        del u
        return float(p.T_stab)

    def output(self, u: Record, p: Record) -> Values:
        error = reduce(maximum, np.abs(u.delta))
        # as in the plant with loops, nothing is made of what is as small as the loops are open;
        # sizes are squared here
        tolerance = maximum(1e-12, minimum(1e4 * error * error, 1e-6))
        directions, rank = _conjugate_directions(u.A, tolerance)
        wanted = u.b - (2.0 / p.T_stab) * u.rate - (1.0 / (p.T_stab * p.T_stab)) * u.delta
        lam = directions @ (directions.T @ wanted)
        lam = lam + directions @ (directions.T @ (wanted - u.A @ lam))
        return {"lam": lam, "rank": rank, "loop_error": error}


@dataclass(frozen=True, eq=False)
class CompliantLoopClosure(Block):
    """Springs and dampers in the place of the loop joints of a robot: wrenches from its motion.

        lam = -stiffness delta - damping K qd

    in each direction that a loop joint constrains. `stiffness` [N/m, N m/rad] and `damping` [N s/m,
    N m s/rad] are numbers or (nc,). `f_ext` is for the plant of the tree,
    RobotPlant(model.spanning_tree, external_wrenches=True); `lam` (nc,) and `delta` (nc,) are the
    forces and how far the loops are open. A load of F opens a loop by F/stiffness.

    With w^2 = stiffness A, A of `CutLoopPlant`, and z = damping A/(2 w), forces held over a step dt
    are stable below w dt = min(4 z, 1/z), and never without damping. Raises ValueError for a model
    without loops.
    """

    model: Tree
    stiffness: Any
    damping: Any

    def __post_init__(self) -> None:
        _check_loops(self.model)

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """q (nq,) and qd (nv,)."""
        return joint_ports(self.model, q="joint positions", qd="joint velocities")

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """f_ext (nb, 6), lam and delta (nc,)."""
        wrenches, forces = wrench_port(self.model), constraint_units(self.model)
        return (
            Port("f_ext", wrenches.shape, wrenches.unit, wrenches.doc),
            Port("lam", (self.model.nc,), forces, "forces of the loops' springs"),
            Port("delta", (self.model.nc,), _lengths(self.model), "how far the loops are open"),
        )

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """stiffness and damping (nc,)."""
        springs = tuple(
            "N/m" if unit == "N" else "N.m/rad" for unit in constraint_units(self.model)
        )
        dampers = tuple(
            "N.s/m" if unit == "N" else "N.m.s/rad" for unit in constraint_units(self.model)
        )
        shape = (self.model.nc,)
        return (
            Port(
                "stiffness",
                shape,
                springs,
                "stiffness of the loops' springs",
                self.stiffness,
                min=0.0,
            ),
            Port("damping", shape, dampers, "of the dampers beside them", self.damping, min=0.0),
        )

    def longest_hold(self, u: Record, p: Record) -> float:
        model, q = self.model, np.asarray(u.q, dtype=float)
        A = inverse_inertia(model, q, position_constraints(model, q).K)
        return stable_spring_hold(A, np.asarray(p.stiffness), np.asarray(p.damping))

    def output(self, u: Record, p: Record) -> Values:
        model, base = self.model, self.model.algebra
        X0 = [*body_poses(model, u.q), base.identity()]
        v = [*body_velocities(model, u.q, u.qd), base.zero()]
        f_ext: list[Any] = [base.zero()] * (model.nb + 1)
        lam, deltas = [], []
        for loop, rows in zip(model.loops, model.constraint_slices, strict=True):
            T, delta, vJ, X_s = _opening(loop, X0, v)
            lam.append(-p.stiffness[rows] * delta - p.damping[rows] * (T.T @ vJ))
            deltas.append(delta)
            f = X_s.T @ (T @ lam[-1])
            f_ext[loop.successor] = f_ext[loop.successor] + f
            f_ext[loop.predecessor] = f_ext[loop.predecessor] - f
        return {
            "f_ext": np.array(f_ext[:-1]),
            "lam": np.concatenate(lam),
            "delta": np.concatenate(deltas),
        }


def _opening(loop: LoopJoint, X0: list[Any], v: list[Any]) -> tuple[Array, Array, Array, Any]:
    """How a loop is open: the constraint forces T and the error delta of its joint, the velocity
    across it, and the transform from base to its successor frame.
    """
    X_s, X_p = loop.Xs @ X0[loop.successor], loop.Xp @ X0[loop.predecessor]
    X = factored(X_s, X_p.inverse())
    vJ = loop.Xs @ v[loop.successor] - X @ (loop.Xp @ v[loop.predecessor])
    T, delta, _ = loop.joint.constraint(X, vJ)
    return T, delta, vJ, X_s


def _conjugate_directions(A: Array, tolerance: Any) -> tuple[Array, Any]:
    """D (n, n) with D^T A D = 1 but for columns of zeros, and how many others it has: the
    directions of largest d^T A d first, until those left are smaller than the tolerance, of the
    first one.
    """
    n = len(A)
    limit = tolerance * reduce(maximum, np.diagonal(A))
    columns = [np.concatenate([np.eye(n)[j], A[:, j]]) for j in range(n)]  # d and A d
    done: list[Array] = []
    rank: Any = 0.0
    while columns:
        largest, columns = _largest(columns, n)
        for unit in done:  # again, for what rounding has left
            largest = largest - unit * (unit[n:] @ largest[:n])
        square = largest[:n] @ largest[n:]
        keep = less(limit, square)
        unit = largest * select(keep, 1.0 / np.sqrt(select(keep, square, 1.0)), 0.0)
        rank = rank + select(keep, 1.0, 0.0)
        columns = [column - unit * (unit[n:] @ column[:n]) for column in columns]
        done.append(unit)
    return np.array([unit[:n] for unit in done]).T, rank


def _largest(columns: list[Array], n: int) -> tuple[Array, list[Array]]:
    """The column with the largest d^T A d, and the others."""
    best, others = columns[0], []
    square = best[:n] @ best[n:]
    for column in columns[1:]:
        other = column[:n] @ column[n:]
        larger = less(square, other)
        others.append(select(larger, best, column))
        best, square = select(larger, column, best), select(larger, other, square)
    return best, others


def _closure_ports(model: Tree) -> tuple[Port, ...]:
    """What a plant with cut loops says, and the closure of the loops is told."""
    nc, lengths = model.nc, _lengths(model)
    return (
        Port("A", (nc, nc), "1", "K H^-1 K^T, the inverse inertia of the loops, SI units"),
        Port(
            "b",
            (nc,),
            tuple(f"{unit}/s2" for unit in lengths),
            "constraint accelerations that are missing",
        ),
        Port("delta", (nc,), lengths, "how far the loops are open"),
        Port("rate", (nc,), tuple(f"{unit}/s" for unit in lengths), "how fast the loops open"),
    )


def _lengths(model: Tree) -> tuple[str, ...]:
    """m for the constraints of a force, rad for those of a moment."""
    return tuple("m" if unit == "N" else "rad" for unit in constraint_units(model))


def _check_loops(model: Tree) -> None:
    if not model.loops:
        raise ValueError(f"model '{model.name}' has no loop joints to close")
    model.check_no_strings("the closure of loops by a block of its own")
