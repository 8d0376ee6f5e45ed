"""Runs of systems with loops in independent coordinates (Spencer 2004, chapter 2)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from rigidblocks.algebra.spatial import Array
from rigidblocks.block.integrators import RK4, Integrator, integrate
from rigidblocks.library.ports import motion_states
from rigidblocks.loops.coordinates import (
    LinearCoordinates,
    coordinate_condition,
    dependent_positions,
    independent_motion,
    partitioned_coordinates,
    reduced_dynamics,
)
from rigidblocks.model.configuration import checked
from rigidblocks.model.configuration import integrate as moved_by
from rigidblocks.model.tree import Tree
from rigidblocks.simulation.grid import communication_points
from rigidblocks.simulation.result import Result

# coordinates are changed when their condition is that many times the best: at 10 RK4 errs 1000
# times as much
WORSE = 2.0

Forces = Callable[[float, Array, Array], Array]  # tau(t, q, qd)


class CoordinateChange(NamedTuple):
    """Other coordinates were chosen at time t [s]."""

    t: float
    kind: str = "change"


def move_independently(
    model: Tree,
    q: ArrayLike,
    qd: ArrayLike,
    tau: Forces,
    t_stop: float,
    dt: float,
    coordinates: LinearCoordinates | None = None,
    choose: Callable[[Tree, Array], LinearCoordinates] = partitioned_coordinates,
    method: Integrator = RK4,
) -> Result:
    """The motion from q, qd under the forces tau(t, q, qd) until t_stop [s], the signals q and qd,
    by steps of dt [s] of an explicit `method` in (y, dy/dt).

    It starts in the `coordinates` given. When their condition is `WORSE` times that of the best,
    others are chosen, by complete pivoting unless `choose` says otherwise; the `events` of the
    result say when. Raises ValueError where dt does not divide the run, where the mobility changes,
    and where an iteration does not converge because the steps are too large.
    """
    grid = communication_points(0.0, t_stop, dt)
    if method.implicit is not None:
        raise ValueError(
            f"motion in independent coordinates needs an explicit method, not '{method.name}'"
        )
    q, qd = checked(model, q), np.asarray(qd, dtype=float)
    good = choose(model, q)
    coordinates, best = coordinates or good, _condition(good, q)
    rows, changes = [(q, qd)], list[CoordinateChange]()
    for t in grid.times[:-1].tolist():
        if coordinates.is_far(q) or _condition(coordinates, q) > WORSE * best:
            coordinates = choose(model, q)
            best = _condition(coordinates, q)
            changes.append(CoordinateChange(t))
        motion = _Motion.at(coordinates, q, qd, tau)
        x = motion.coordinates_of(q, qd)
        q, qd = motion.state(integrate(method, motion.derivative, t, x, dt, motion.is_position))
        rows.append((q, qd))
    ports = motion_states(model.joint, *rows[0])
    signals = zip(ports, map(np.array, zip(*rows, strict=True)), strict=True)
    meta = {"dt": repr(dt), "method": method.name}
    return Result.of_signals(grid.times, signals, meta, tuple(changes))


def _condition(coordinates: LinearCoordinates, q: Array) -> float:
    """How far from singular coordinates are at q."""
    return coordinate_condition(coordinates.model, coordinates, q, coordinates.of(q))


@dataclass(frozen=True, eq=False)  # eq=False: arrays have no single truth value
class _Motion:
    """The motion in x = (y, yd) of some `coordinates`, near q0 and y0 with the tangent G."""

    coordinates: LinearCoordinates
    q0: Array
    y0: Array
    G: Array
    tau: Forces

    @classmethod
    def at(cls, coordinates: LinearCoordinates, q: Array, qd: Array, tau: Forces) -> _Motion:
        """That near q."""
        y = coordinates.of(q)
        G = independent_motion(coordinates.model, coordinates, q, qd, y).G
        return cls(coordinates, q, y, G, tau)

    @property
    def is_position(self) -> Array:
        """Which elements of x are of y."""
        p = len(self.y0)
        return np.arange(2 * p) < p

    def coordinates_of(self, q: Array, qd: Array) -> Array:
        """x of q and qd."""
        y = self.coordinates.of(q)
        return np.concatenate([y, self.coordinates.D1(q, y) @ qd])

    def state(self, x: Array) -> tuple[Array, Array]:
        """q and qd of x; iterations for q begin on the tangent."""
        model, (y, yd) = self.coordinates.model, np.split(x, 2)
        guess = moved_by(model, self.q0, self.G @ (y - self.y0))
        q = dependent_positions(model, self.coordinates, y, guess)
        tangent = independent_motion(model, self.coordinates, q, np.zeros(model.nv), y)
        return q, tangent.G @ yd

    def derivative(self, t: float, x: Array) -> Array:
        """dx/dt."""
        model, (y, yd) = self.coordinates.model, np.split(x, 2)
        q, qd = self.state(x)
        tangent = independent_motion(model, self.coordinates, q, qd, y)
        ydd, _ = reduced_dynamics(model, q, qd, self.tau(t, q, qd), tangent)
        return np.concatenate([yd, ydd])
