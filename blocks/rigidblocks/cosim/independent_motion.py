"""Simulation of closed-loop models in independent coordinates (Spencer 2004, chapter 2)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from rigidblocks.block.integrators import RK4, Integrator, integrate
from rigidblocks.cosim.results.result import Result
from rigidblocks.cosim.run_options import communication_points
from rigidblocks.dynamics.loops.independent_coordinates import (
    LinearCoordinates,
    coordinate_condition,
    dependent_positions,
    independent_motion,
    partitioned_coordinates,
    reduced_dynamics,
)
from rigidblocks.library.common_ports import motion_states
from rigidblocks.robot.configuration import configuration_array
from rigidblocks.robot.configuration import integrate as moved_by
from rigidblocks.robot.tree import Tree
from rigidblocks.spatial.spatial import Array

# New coordinates are selected if the condition number exceeds its best value by this factor. Larger
# factors reduce the accuracy: at a factor of 10, the error of RK4 is 1000 times larger.
MAX_CONDITION_RATIO = 2.0

Forces = Callable[[float, Array, Array], Array]  # joint forces tau(t, q, qd)


class CoordinateChange(NamedTuple):
    """Event of a result: the run has selected new independent coordinates at the time t [s]."""

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
    """Simulate the motion from q, qd under the joint forces tau(t, q, qd) until t_stop [s].

    An explicit method with fixed steps integrates the independent coordinates y and their
    velocities dy/dt. The function selects new coordinates in two cases: their condition number
    (`coordinate_condition`) exceeds twice the value of the last selection by `choose`, or q is too
    far from their origin (`LinearCoordinates.is_far`).

    Args:
        model: Model with closed loops.
        q: Initial positions (nq,).
        qd: Initial velocities (nv,).
        tau: Function tau(t, q, qd) that returns the joint forces (nv,).
        t_stop: End time [s].
        dt: Step size, and time between two samples of the result [s].
        coordinates: Initial independent coordinates; by default, `choose` selects them.
        choose: Function choose(model, q) that selects independent coordinates, by default by
            complete pivoting.
        method: Explicit integration method.

    Returns:
        Signals q and qd. `events` contains the times at which new coordinates were selected.

    Raises:
        ValueError: The duration is not a multiple of dt, the method is implicit, or the mobility
            changes. The position iteration does not converge because the steps are too long.
    """
    grid = communication_points(0.0, t_stop, dt)
    if method.implicit is not None:
        raise ValueError(
            f"motion in independent coordinates needs an explicit method, not '{method.name}'"
        )
    q, qd = configuration_array(model, q), np.asarray(qd, dtype=float)
    good = choose(model, q)
    coordinates, best = coordinates or good, _condition(good, q)
    rows, changes = [(q, qd)], list[CoordinateChange]()
    for t in grid.times[:-1].tolist():
        if coordinates.is_far(q) or _condition(coordinates, q) > MAX_CONDITION_RATIO * best:
            coordinates = choose(model, q)
            best = _condition(coordinates, q)
            changes.append(CoordinateChange(t))
        motion = _Motion.create(coordinates, q, qd, tau)
        x = motion.state_of(q, qd)
        q, qd = motion.positions_and_velocities(
            integrate(method, motion.derivative, t, x, dt, motion.is_position)
        )
        rows.append((q, qd))
    ports = motion_states(model.joint, *rows[0])
    signals = zip(ports, map(np.array, zip(*rows, strict=True)), strict=True)
    meta = {"dt": repr(dt), "method": method.name}
    return Result.from_signals(grid.times, signals, meta, tuple(changes))


def _condition(coordinates: LinearCoordinates, q: Array) -> float:
    """Return the condition number of the independent coordinates at q (`coordinate_condition`).

    The condition number is large near a singular configuration.
    """
    return coordinate_condition(coordinates.model, coordinates, q, coordinates.coordinates_at(q))


@dataclass(frozen=True, eq=False)  # eq=False, because == compares arrays element by element
class _Motion:
    """Equations of motion in independent coordinates y, with the state x = (y, yd).

    The equations are valid near the configuration q0 (nq,) with y = y0 (p,). The Jacobian
    G (nv, p) at q0 maps the velocities yd to the joint velocities: qd = G yd.
    """

    coordinates: LinearCoordinates
    q0: Array
    y0: Array
    G: Array
    tau: Forces

    @classmethod
    def create(cls, coordinates: LinearCoordinates, q: Array, qd: Array, tau: Forces) -> _Motion:
        """Create the equations of motion in `coordinates` with the reference configuration q."""
        y = coordinates.coordinates_at(q)
        G = independent_motion(coordinates.model, coordinates, q, qd, y).G
        return cls(coordinates, q, y, G, tau)

    @property
    def is_position(self) -> Array:
        """Boolean mask that is True for the positions y in the state x = (y, yd)."""
        p = len(self.y0)
        return np.arange(2 * p) < p

    def state_of(self, q: Array, qd: Array) -> Array:
        """Return the state x = (y, yd) of the positions q (nq,) and velocities qd (nv,)."""
        y = self.coordinates.coordinates_at(q)
        return np.concatenate([y, self.coordinates.D1(q, y) @ qd])

    def positions_and_velocities(self, x: Array) -> tuple[Array, Array]:
        """Return the positions q and velocities qd for the state x = (y, yd).

        y are the independent coordinates and yd their velocities. Newton's method computes q. Its
        initial guess is in the tangent space at the reference positions q0.
        """
        model, (y, yd) = self.coordinates.model, np.split(x, 2)
        guess = moved_by(model, self.q0, self.G @ (y - self.y0))
        q = dependent_positions(model, self.coordinates, y, guess)
        tangent = independent_motion(model, self.coordinates, q, np.zeros(model.nv), y)
        return q, tangent.G @ yd

    def derivative(self, t: float, x: Array) -> Array:
        """Return the state derivative dx/dt = (yd, ydd)."""
        model, (y, yd) = self.coordinates.model, np.split(x, 2)
        q, qd = self.positions_and_velocities(x)
        tangent = independent_motion(model, self.coordinates, q, qd, y)
        ydd, _ = reduced_dynamics(model, q, qd, self.tau(t, q, qd), tangent)
        return np.concatenate([yd, ydd])
