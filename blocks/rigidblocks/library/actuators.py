"""Actuators: from a motor's command to the force at its joint."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from rigidblocks.algebra.scalar import within
from rigidblocks.block.block import Block, Port, Record, Values
from rigidblocks.dynamics import coulomb_friction, viscous_friction
from rigidblocks.library.sources import signal_count

# ratio, joint velocity, joint force and viscous friction of a joint that turns and of one that
# slides
_TURNS = ("1", "rad/s", "N.m", "N.m.s/rad")
_SLIDES = ("rad/m", "m/s", "N", "N.s/m")


@dataclass(frozen=True, eq=False)
class JointActuator(Block):
    """A motor with a gear at each joint: a lag, a limit on the motor's torque, the gear, and
    friction at the joint.

        d(tau_motor)/dt = (tau_ref limited to [-tau_max, tau_max] - tau_motor) / time_constant
        tau = ratio tau_motor - viscous qd - coulomb tanh(qd / coulomb_speed)

    `ratio` is the motor's speed over the joint's (rad/m where `prismatic` marks a joint that
    slides), `time_constant` [s] the lag of the motor's torque, `tau_max` [N m] its limit. The
    friction acts at the joint; the Coulomb friction is smooth, 76 % of `coulomb` at
    `coulomb_speed`. All are numbers or (n,), the number of joints n from the longest.

    The rotor's inertia is not here: it moves with the joint, so it belongs to the plant's own
    equations, as ratio^2 times the rotor's inertia on the diagonal of H (RBDA Eq 9.28). The inner
    step must resolve the time constant: with RK4 it must be shorter than 2.7 times that.
    """

    ratio: Any
    tau_max: Any
    time_constant: Any
    viscous: Any = 0.0
    coulomb: Any = 0.0
    coulomb_speed: Any = 0.01
    prismatic: tuple[bool, ...] = ()

    def __post_init__(self) -> None:
        if np.any(np.asarray(self.ratio) == 0):
            raise ValueError(f"ratio of a joint actuator must not be zero, not {self.ratio}")

    @cached_property
    def _n(self) -> int:
        names = ("ratio", "tau_max", "time_constant", "viscous", "coulomb", "coulomb_speed")
        values = {name: getattr(self, name) for name in names}
        return len(self.prismatic) or signal_count("a joint actuator", **values)

    @cached_property
    def _units(self) -> tuple[tuple[str, ...], ...]:
        slides = self.prismatic or (False,) * self._n
        return tuple(zip(*(_SLIDES if slide else _TURNS for slide in slides), strict=True))

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """tau_ref (n,) and qd (n,)."""
        return (
            Port("tau_ref", (self._n,), "N.m", "commanded torques of the motors", 0.0),
            Port("qd", (self._n,), self._units[1], "joint velocities", 0.0),
        )

    @cached_property
    def states(self) -> tuple[Port, ...]:
        """tau_motor (n,)."""
        return (Port("tau_motor", (self._n,), "N.m", "torques of the motors", 0.0),)

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """tau (n,) and tau_motor (n,)."""
        return (Port("tau", (self._n,), self._units[2], "joint forces"), *self.states)

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """ratio, tau_max, time_constant, viscous, coulomb and coulomb_speed, each (n,)."""
        shape, (ratio, velocity, force, viscous) = (self._n,), self._units
        above: Any = {"min": 0.0, "positive": True}
        return (
            Port("ratio", shape, ratio, "speed of the motor over speed of the joint", self.ratio),
            Port(
                "tau_max", shape, "N.m", "limit on the torque of the motor", self.tau_max, **above
            ),
            Port(
                "time_constant",
                shape,
                "s",
                "lag of the torque of the motor",
                self.time_constant,
                **above,
            ),
            Port("viscous", shape, viscous, "viscous friction at the joint", self.viscous, min=0.0),
            Port("coulomb", shape, force, "Coulomb friction at the joint", self.coulomb, min=0.0),
            Port(
                "coulomb_speed",
                shape,
                velocity,
                "speed at which Coulomb friction is 76 % there",
                self.coulomb_speed,
                positive=True,
            ),
        )

    def derivative(self, x: Record, u: Record, p: Record) -> Values:
        return {
            "tau_motor": (within(u.tau_ref, -p.tau_max, p.tau_max) - x.tau_motor) / p.time_constant
        }

    def output(self, x: Record, u: Record, p: Record) -> Values:
        friction = viscous_friction(u.qd, p.viscous)
        friction = friction + coulomb_friction(u.qd, p.coulomb, p.coulomb_speed)
        return {"tau": p.ratio * x.tau_motor + friction}
