"""Blocks that compute joint forces of actuators and of compliant stops at joint limits."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from rigidblocks.block.block import Block, Port, Record, Values
from rigidblocks.dynamics import coulomb_friction, viscous_friction
from rigidblocks.dynamics.force_laws import stable_step, stop_push
from rigidblocks.dynamics.operational_space import inverse_inertia
from rigidblocks.library.common_ports import joint_ports, joint_units
from rigidblocks.library.sources import signal_count
from rigidblocks.robot.tree import Tree
from rigidblocks.spatial.scalar import clip_with_events, less, select
from rigidblocks.spatial.spatial import Array

# units of the gear ratio, joint velocity, joint force and viscous friction: first for revolute
# joints, then for prismatic joints
_TURNS = ("1", "rad/s", "N.m", "N.m.s/rad")
_SLIDES = ("rad/m", "m/s", "N", "N.s/m")


@dataclass(frozen=True, eq=False)
class JointActuator(Block):
    """Geared motors of a robot's joints, with torque lag, torque limit and joint friction.

        d(tau_motor)/dt = (tau_ref limited to [-tau_max, tau_max] - tau_motor) / time_constant
        tau = ratio tau_motor - viscous qd - coulomb tanh(qd / coulomb_speed)

    `ratio` is the motor speed divided by the joint speed. If `prismatic` marks the joint as
    prismatic, the unit of `ratio` is rad/m. `time_constant` [s] is the time constant of the motor
    torque, and `tau_max` [N m] is the limit of the commanded motor torque. `viscous` and `coulomb`
    are joint friction, not motor friction. The Coulomb friction is a smooth function of the speed
    and reaches 76 % of `coulomb` at `coulomb_speed`. Each value is a scalar or has the shape (n,)
    for n joints.

    The block does not contain the rotor inertia, which belongs to the equation of motion of the
    plant. To include the rotor inertia, add ratio^2 times the rotor inertia to the diagonal of the
    joint-space inertia matrix H (RBDA Eq 9.28). The inner step must resolve the time constant: an
    RK4 step must be shorter than 2.7 `time_constant`.

    Raises:
        ValueError: A gear ratio is zero.
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
            raise ValueError(f"the ratio of a joint actuator must not be zero, but is {self.ratio}")

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
        """Input ports for the motor torque commands tau_ref (n,) and joint velocities qd (n,)."""
        return (
            Port("tau_ref", (self._n,), "N.m", "commanded torques of the motors", 0.0),
            Port("qd", (self._n,), self._units[1], "joint velocities", 0.0),
        )

    @cached_property
    def states(self) -> tuple[Port, ...]:
        """State port for the motor torques tau_motor (n,)."""
        return (Port("tau_motor", (self._n,), "N.m", "torques of the motors", 0.0),)

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """Output ports for the joint forces tau (n,) and motor torques tau_motor (n,)."""
        return (Port("tau", (self._n,), self._units[2], "joint forces"), *self.states)

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """Parameter ports for all fields of the block except `prismatic`, each (n,)."""
        shape, (ratio, velocity, force, viscous) = (self._n,), self._units
        above: Any = {"min": 0.0, "positive": True}
        return (
            Port("ratio", shape, ratio, "motor speed divided by joint speed", self.ratio),
            Port(
                "tau_max", shape, "N.m", "limit of the motor torque command", self.tau_max, **above
            ),
            Port(
                "time_constant",
                shape,
                "s",
                "time constant of the motor torque",
                self.time_constant,
                **above,
            ),
            Port("viscous", shape, viscous, "viscous friction at the joint", self.viscous, min=0.0),
            Port("coulomb", shape, force, "Coulomb friction at the joint", self.coulomb, min=0.0),
            Port(
                "coulomb_speed",
                shape,
                velocity,
                "joint speed at which friction reaches 76 % of the Coulomb friction",
                self.coulomb_speed,
                positive=True,
            ),
        )

    def derivative(self, x: Record, u: Record, p: Record) -> Values:
        return {
            "tau_motor": (clip_with_events(u.tau_ref, -p.tau_max, p.tau_max) - x.tau_motor)
            / p.time_constant
        }

    def output(self, x: Record, u: Record, p: Record) -> Values:
        friction = viscous_friction(u.qd, p.viscous)
        friction = friction + coulomb_friction(u.qd, p.coulomb, p.coulomb_speed)
        return {"tau": p.ratio * x.tau_motor + friction}


@dataclass(frozen=True, eq=False)
class JointLimits(Block):
    """Compliant stops at joint limits, which are unilateral springs and dampers (RBDA 11.4, 11.8).

        tau = max(0, K (lower - q) - D qd)         if q < lower
        tau = -max(0, K (q - upper) + D qd)        if q > upper

    A stop never pulls. `lower` and `upper` (nv,) [rad or m] are infinite for joints without a stop.
    The stiffness K [N m/rad or N/m] and the damping D [N m s/rad or N s/m] are scalars or have the
    shape (nv,).

    In a co-simulation, the master holds the force of a stop over a communication step. The longest
    stable step is `stable_step` for K, D and the effective inertia at the joint.

    Raises:
        ValueError: A joint has more positions than velocities, or an upper limit is not above the
            lower limit.
    """

    model: Tree
    lower: Any
    upper: Any
    K: Any
    D: Any

    def __post_init__(self) -> None:
        model = self.model
        if bad := [
            name
            for name, joint in zip(model.joint_names, model.joint, strict=True)
            if joint.nq > joint.nv
        ]:
            raise ValueError(
                "joint limits do not support joints with more positions than velocities: "
                f"{', '.join(bad)}"
            )
        for name in ("lower", "upper"):
            limit = np.array(
                np.broadcast_to(np.asarray(getattr(self, name), dtype=float), (model.nv,))
            )
            if np.any(np.isnan(limit)):
                raise ValueError(
                    f"the {name} limits of model '{model.name}' must not be NaN, but are "
                    f"{limit.tolist()}"
                )
            object.__setattr__(self, name, limit)
        if np.any(self.lower >= self.upper):
            k = int(np.argmax(self.lower >= self.upper))
            raise ValueError(
                f"the upper limit {self.upper[k]} of q[{k}] must be above the lower limit "
                f"{self.lower[k]}"
            )

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """Input ports for the joint positions q (nv,) and joint velocities qd (nv,)."""
        return joint_ports(self.model, q="joint positions", qd="joint velocities")

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """Ports of the outputs tau (nv,) and at_limit (nv,).

        at_limit is -1 while a lower stop pushes, 1 while an upper stop pushes, and otherwise 0.
        """
        return (
            *joint_ports(self.model, tau="forces of the stops"),
            Port(
                "at_limit",
                (self.model.nv,),
                "1",
                "-1 at a lower, 1 at an upper stop",
                min=-1.0,
                max=1.0,
            ),
        )

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """Parameter ports for the stiffness K (nv,) and the damping D (nv,) of the stops."""
        linear = [unit == "N" for unit in joint_units(self.model.joint).tau]
        stiffness = tuple("N/m" if one else "N.m/rad" for one in linear)
        damping = tuple("N.s/m" if one else "N.m.s/rad" for one in linear)
        shape = (self.model.nv,)
        return (
            Port("K", shape, stiffness, "stiffness of the stops", self.K, min=0.0),
            Port("D", shape, damping, "damping of the stops", self.D, min=0.0),
        )

    def longest_hold(self, u: Record, p: Record) -> float:
        """Return the longest communication step [s] for which all held stop forces are stable.

        The function neglects the coupling of the joints. The step is infinite without stops.
        """
        limited = np.isfinite(self.lower) | np.isfinite(self.upper)
        A = inverse_inertia(self.model, np.asarray(u.q, dtype=float), np.eye(self.model.nv))
        each = zip(np.diag(A)[limited], p.K[limited], p.D[limited], strict=True)
        return min((stable_step(K, D, 1.0 / a) for a, K, D in each if K > 0), default=np.inf)

    def output(self, u: Record, p: Record) -> Values:
        up = _stop_forces(self.lower, u.q, u.qd, p, 1.0)
        down = _stop_forces(self.upper, u.q, u.qd, p, -1.0)
        pushing = select(less(0.0, down), 1.0, 0.0) - select(less(0.0, up), 1.0, 0.0)
        return {"tau": up - down, "at_limit": pushing}


def _stop_forces(limits: Array, q: Array, qd: Array, p: Record, sign: float) -> Array:
    """Return the magnitude of the stop force at each joint (nv,); it is 0 without a stop.

    Args:
        limits: Lower or upper limits (nv,).
        q: Joint positions (nv,).
        qd: Joint velocities (nv,).
        p: Parameters K and D.
        sign: Sign of the force: 1 at lower limits, -1 at upper limits.
    """
    every = zip(limits, q, qd, p.K, p.D, strict=True)
    return np.array(
        [
            stop_push(sign * (limit - s), sign * sd, K, D) if np.isfinite(limit) else 0.0
            for limit, s, sd, K, D in every
        ]
    )
