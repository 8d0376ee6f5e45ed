"""Drives of joints: motor, current loop, servo, gearbox, elasticity, friction and follower.

The connection between the motor, the gearbox and the joint is either rigid or elastic:

- A rigid drive has no rotor states. Its rotor angle is ratio * s, where s is the position of the
  joint, and its rotor adds ratio^2 * inertia to the joint (RBDA Eq 9.28).
- An elastic drive has the rotor angle and the rotor speed as states. Its elasticity, with backlash
  or without, transmits a torque between the gearbox and the joint.

Quantities of the rotor are in rad, rad/s and N m. Quantities at the joint are in rad, rad/s and N m
for a revolute joint, and in m, m/s and N for a prismatic joint.
"""

import abc
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from rigidblocks.dynamics.force_elements import (
    AlongJoint,
    AlongVelocity,
    JointSum,
    Line,
    check_name,
    joint_line,
)
from rigidblocks.dynamics.force_laws import Law, Number, Numbers
from rigidblocks.dynamics.motors import (
    ROTOR,
    UNITS,
    CurrentLoop,
    Motor,
    Rotor,
    RotorMotion,
    Signal,
)
from rigidblocks.dynamics.transmissions import (
    GearPair,
    ReflectedRotor,
    Transmissions,
    transmissions,
)
from rigidblocks.robot.tree import Tree
from rigidblocks.spatial.scalar import (
    clip_with_events,
    is_traced,
    less,
    maximum,
    minimum,
    piecewise,
    select,
)

_NO_MOTOR = Rotor()
_LEAST_RATIO = 1e-30  # a negative ratio can be tuned up to -1e-30, but not to zero


class Servo(Numbers, abc.ABC):
    """Base class of servos; a servo computes the reference torque of a motor.

    A servo measures the rotor motion divided by the gear ratio, like a motor encoder. With
    `at_joint=True`, it measures the motion of the joint. The torque at the joint, before the
    division by the gear ratio, is limited to [-force_max, force_max]. If this limit, a motor limit
    or the effort limit of the drive reduces the torque, back-calculation reduces the integral term
    of the servo. This prevents windup.
    """

    kp: Any
    ki: Any
    force_max: Any
    at_joint: bool
    command: ClassVar[Signal]

    @abc.abstractmethod
    def error(self, command: Any, s: Any, sd: Any) -> Any:
        """Return the control error, in the unit of the command.

        s and sd are the measured position and velocity.
        """

    @abc.abstractmethod
    def damping(self, sd: Any) -> Any:
        """Return the force of the derivative term [N m or N], positive in the direction of sd."""

    @property
    def states(self) -> tuple[Signal, ...]:
        """State of the integral term, or no state if `ki` is None."""
        if self.ki is None:
            return ()
        return (Signal("servo_integral", "force", "integral term of the servo"),)

    def force(self, command: Any, s: Any, sd: Any, x: Mapping[str, Any]) -> tuple[Any, Any, Any]:
        """Return the limited force at the joint [N m or N], the excess, and the control error.

        The excess is the limited force minus the unlimited force. s and sd are the measured
        position and velocity. x contains the integral state.
        """
        error = self.error(command, s, sd)
        force = self.kp * error - self.damping(sd)
        if self.ki is not None:
            force = force + x["servo_integral"]
        limited = force
        if self.force_max is not None:
            limited = clip_with_events(force, -self.force_max, self.force_max)
        return limited, limited - force, error

    def rates(self, error: Any, excess: Any) -> dict[str, Any]:
        """Return the derivative of the integral state.

        `error` is the control error. `excess` is the limited force minus the unlimited force.
        """
        if self.ki is None:
            return {}
        return {"servo_integral": self.ki * error + self.ki / self.kp * excess}


@dataclass(frozen=True)
class PositionServo(Servo):
    """Position servo (PID) at the joint.

        force = kp (command - s) + ki integral of (command - s) - kd sd

    The command is the position of the joint [rad or m]. `kp`, `ki` and `kd` are gains at the joint.
    Without `ki`, the servo has no integral term.
    """

    kp: Any
    ki: Any = None
    kd: Any = 0.0
    force_max: Any = None
    at_joint: bool = False
    command: ClassVar = Signal("command", "length", "reference joint position")
    quantities: ClassVar = {
        "kp": Number("stiffness", "proportional gain", positive=True),
        "ki": Number("integral gain", "integral gain", 0.0),
        "kd": Number("damping", "derivative gain", 0.0),
        "force_max": Number("force", "largest reference force at the joint", positive=True),
    }

    def error(self, command: Any, s: Any, sd: Any) -> Any:
        del sd
        return command - s

    def damping(self, sd: Any) -> Any:
        return self.kd * sd


@dataclass(frozen=True)
class VelocityServo(Servo):
    """Velocity servo (PI) at the joint.

        force = kp (command - sd) + ki integral of (command - sd)

    The command is the velocity of the joint [rad/s or m/s]. `kp` and `ki` are gains at the joint.
    Without `ki`, the servo has no integral term.
    """

    kp: Any
    ki: Any = None
    force_max: Any = None
    at_joint: bool = False
    command: ClassVar = Signal("command", "speed", "reference joint velocity")
    quantities: ClassVar = {
        "kp": Number("damping", "proportional gain", positive=True),
        "ki": Number("stiffness", "integral gain", 0.0),
        "force_max": Number("force", "largest reference force at the joint", positive=True),
    }

    def error(self, command: Any, s: Any, sd: Any) -> Any:
        del s
        return command - sd

    def damping(self, sd: Any) -> Any:
        return 0.0 * sd


@dataclass(frozen=True)
class Gearbox(Numbers):
    """Gearbox with a ratio, an efficiency in each direction of power flow, and backlash.

    `ratio` is the rotor speed divided by the joint speed, in rad/m at a prismatic joint.

    If the power flows from the motor to the joint, the gearbox transmits the fraction `efficiency`
    of the torque. If it flows from the joint to the motor, the gearbox transmits the fraction
    `back_efficiency`, by default equal to `efficiency`. At the joint speed v, the loss is
    proportional to tanh(v / width) with the smoothing speed `width` [rad/s or m/s]. A rigid drive
    applies the efficiency to the motor torque, but not to the inertia torque of its rotor.

    `backlash` [rad or m] is the total play at the joint, which requires an elastic drive. If the
    ratio is tuned, its sign must not change. A tuned efficiency is at most 1.

    Raises:
        ValueError: The ratio is zero, or an efficiency is above 1.
    """

    ratio: Any = 1.0
    efficiency: Any = None
    back_efficiency: Any = None
    width: Any = 0.01
    backlash: Any = None
    quantities: ClassVar = {
        "ratio": Number("ratio", "ratio of rotor speed to joint speed"),
        "efficiency": Number("number", "efficiency from motor to joint", positive=True, max=1.0),
        "back_efficiency": Number(
            "number", "efficiency from joint to motor", positive=True, max=1.0
        ),
        "width": Number(
            "speed", "joint speed at which the loss reaches 76 % of its maximum", positive=True
        ),
        "backlash": Number("length", "total backlash at the joint", 0.0),
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.ratio, float | int) and self.ratio == 0:
            raise ValueError("the ratio of a Gearbox must not be zero")
        if self.efficiency is None and self.back_efficiency is not None:
            raise ValueError("back_efficiency of a Gearbox needs an efficiency")

    def numbers(self) -> dict[str, tuple[Any, Number]]:
        found = super().numbers()
        if self.efficiency is None:
            del found["width"]  # has no effect without an efficiency
        if is_traced(self.ratio):
            return found
        about = self.quantities["ratio"]
        if self.ratio > 0:  # a tuned ratio keeps its sign
            found["ratio"] = self.ratio, about._replace(positive=True)
        elif self.ratio < 0:
            found["ratio"] = self.ratio, about._replace(max=-_LEAST_RATIO)
        return found

    def joint_force(self, force: Any, speed: Any) -> Any:
        """Return the joint force that the motor force `force` produces, after the gearbox loss.

        `speed` is the joint speed. Both forces are at the joint, after the gear ratio.
        """
        if self.efficiency is None:
            return force
        loss = select(
            less(0.0, force * speed), 1.0 - self.efficiency, 1.0 / self._reverse_efficiency - 1.0
        )
        return force - np.abs(force) * np.tanh(speed / self.width) * loss

    def motor_force(self, force: Any, speed: Any) -> Any:
        """Return the motor force that produces the joint force `force` (inverse of `joint_force`).

        `speed` is the joint speed.
        """
        if self.efficiency is None:
            return force
        loss = select(
            less(0.0, force * speed), 1.0 / self.efficiency - 1.0, 1.0 - self._reverse_efficiency
        )
        return force + np.abs(force) * np.tanh(speed / self.width) * loss

    @property
    def _reverse_efficiency(self) -> Any:
        return self.efficiency if self.back_efficiency is None else self.back_efficiency


@dataclass(frozen=True)
class Elasticity(Numbers):
    """Elasticity between gearbox and joint: a series spring or a harmonic drive.

        deflection = theta / ratio + a sin(n theta + phase) - s
        force = K deflection + K3 deflection^3 + D d(deflection)/dt

    theta [rad] is the rotor angle, and s [rad or m] the joint position. The stiffness K, the cubic
    stiffness K3 and the damping D refer to the joint. a [rad or m], the field `error`, is the
    amplitude of the kinematic error of a harmonic drive. n, the field `order`, is the number of
    error periods per revolution of the rotor, 2 for the two lobes of a wave generator.

    With a backlash b, the force is zero while |deflection| < b / 2. For larger deflections, the
    tooth compression |deflection| - b / 2 replaces |deflection| in the force equation. The teeth
    never pull: a force that would pull them together is replaced by zero.
    """

    K: Any
    D: Any = 0.0
    K3: Any = None
    error: Any = None
    order: Any = 2.0
    phase: Any = 0.0
    quantities: ClassVar = {
        "K": Number("stiffness", "stiffness", positive=True),
        "D": Number("damping", "damping", 0.0),
        "K3": Number("cubic stiffness", "cubic stiffness", 0.0),
        "error": Number("length", "amplitude of the kinematic error"),
        "order": Number("number", "periods of the kinematic error per revolution", positive=True),
        "phase": Number("rotor length", "phase of the kinematic error"),
    }

    def numbers(self) -> dict[str, tuple[Any, Number]]:
        found = super().numbers()
        if self.error is None:
            del found["order"], found["phase"]  # have no effect without an error
        return found

    def kinematics(self, rotor: RotorMotion, ratio: Any) -> tuple[Any, Any]:
        """Return the output position of the gearbox, and its derivative w.r.t. the rotor angle.

        `ratio` is the gear ratio.
        """
        if self.error is None:
            return rotor.angle / ratio, 1.0 / ratio
        angle = self.order * rotor.angle + self.phase
        slope = 1.0 / ratio + self.error * self.order * np.cos(angle)
        return rotor.angle / ratio + self.error * np.sin(angle), slope

    def spring(self, deflection: Any) -> Any:
        """Return the spring force [N m or N] at a deflection."""
        force = self.K * deflection
        return force if self.K3 is None else force + self.K3 * deflection**3

    def force(self, deflection: Any, rate: Any, backlash: Any) -> Any:
        """Return the force on the joint [N m or N].

        `rate` is the time derivative of `deflection`. `backlash` is the total play at the joint, or
        None.
        """
        if backlash is None:
            return self.spring(deflection) + self.D * rate
        up, down = (
            self._push(sign * deflection - backlash / 2, sign * rate) for sign in (1.0, -1.0)
        )
        return up - down

    def _push(self, compression: Any, rate: Any) -> Any:
        push = self.spring(compression) + self.D * rate
        whole = select(less(0.0, compression), maximum(0.0, push), 0.0)
        return piecewise(self._margin(compression, rate), push, 0.0, whole)

    def _margin(self, compression: Any, rate: Any) -> Any:
        """Return a switching function [rad or m], positive while the teeth transmit a force.

        `compression` is the compression of the teeth, and `rate` its time derivative.
        """
        return minimum(compression, (self.spring(compression) + self.D * rate) / self.K)

    def margins(self, deflection: Any, rate: Any, backlash: Any) -> tuple[Any, ...]:
        """Return the switching functions of the two tooth flanks of a gearbox with backlash.

        The arguments are as in `force`.
        """
        if backlash is None:
            return ()
        return tuple(
            self._margin(sign * deflection - backlash / 2, sign * rate) for sign in (1.0, -1.0)
        )

    def energy(self, deflection: Any, backlash: Any) -> Any:
        """Return the potential energy [J]; `backlash` is as in `force`."""
        if backlash is not None:
            compression = maximum(np.abs(deflection) - backlash / 2, 0.0)
        else:
            compression = deflection
        square = compression * compression
        energy = self.K * square / 2
        return energy if self.K3 is None else energy + self.K3 * square * square / 4


@dataclass(frozen=True)
class Follower(Numbers):
    """Joint that a gear, a belt or a rack couples to the joint of a drive, such as a mimic joint.

        q_follower = ratio q + offset + sum of curve[k] q^(k + 2)

    q is the position of the driving joint. `curve` contains the constant coefficients of q^2, q^3
    and higher powers; by default, it is empty. The joints satisfy this constraint exactly. A plant
    without loops eliminates the follower position; a plant with loops adds the constraint to its
    loop constraints. Both joints may have motors, and a follower may drive other joints.

    Raises:
        ValueError: The ratio is zero, and no coefficient of a higher power is given. Or `curve` is
            not a sequence of finite numbers.
    """

    joint: str | int | AlongJoint
    ratio: Any = 1.0
    offset: Any = 0.0
    curve: tuple[float, ...] = ()
    quantities: ClassVar = {
        "ratio": Number("follower ratio", "ratio of the speed of the follower to the joint speed"),
        "offset": Number("follower length", "position of the follower at zero joint position"),
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        try:
            curve = np.array(self.curve, dtype=float)
        except (TypeError, ValueError):
            curve = np.array(np.nan)
        if curve.ndim != 1 or not np.all(np.isfinite(curve)):
            raise ValueError(
                "the curve of a Follower must be a sequence of finite numbers, the coefficients of "
                f"q^2, q^3 and so on, not {self.curve!r}"
            )
        object.__setattr__(self, "curve", tuple(curve.tolist()))
        if isinstance(self.ratio, float | int) and self.ratio == 0 and not any(self.curve):
            raise ValueError("the ratio of a Follower must not be zero")

    def units(self, model: Tree, driving_unit: str) -> dict[str, str]:
        """Return the units of `ratio` and `offset` by quantity kind (`Number.kind`).

        `driving_unit` is the position unit of the driving joint.
        """
        line = joint_line(self.joint)
        if isinstance(line, AlongVelocity):
            raise ValueError(
                "gears support only joints whose velocities are the derivatives of their positions"
            )
        own = line.units(model)["length"]
        ratio = "1" if own == driving_unit else f"{own}/{driving_unit}"
        return {"follower ratio": ratio, "follower length": own}


class DriveEffects(NamedTuple):
    """Force of a drive on its joint, and energy, state derivatives and outputs of the drive.

    `force` is the force on the joint [N m or N]. `energy` [J] is the sum of the energies of the
    elasticity, of the rotor of an elastic drive and of friction bristles. `rates` contains the
    derivatives of the states by name, and `outputs` the values of `Drive.outputs` by name.
    """

    force: Any
    energy: Any
    rates: dict[str, Any]
    outputs: dict[str, Any]


_FRICTIONS = {"friction": "friction", "motor_friction": "friction of the motor"}


@dataclass(frozen=True)
class Drive:
    """Drive of a joint: motor or rotor, current loop, servo, gearbox, elasticity and friction.

    A drive is an element of a plant. It adds its commands to the inputs of the plant, such as
    `knee_command`. Its states and measurements become outputs, such as `knee_current`, and its
    coefficients become parameters, such as `knee_motor_R`. The input `tau` of the plant adds to the
    forces of the drives.

    Attributes:
        name: Name of the drive, an identifier.
        joint: Name or index of a joint with one degree of freedom, `AlongJoint`, or `JointSum`. For
            a `JointSum`, such as a differential, s is the weighted sum of joint positions, and the
            force acts on each joint with the weight of the joint. A rigid drive with only a `Rotor`
            may also act on an `AlongVelocity`. A rigid drive without a rotor inertia may act along
            any `Line`, such as the `TendonPath` of a cable.
        motor: Motor, which receives the command if the drive has no servo. By default, a `Rotor`
            without inertia.
        gearbox: Ratio, efficiency and backlash of the gearbox.
        current_loop: Controller of the current of an electric motor, or None.
        servo: Position servo or velocity servo, or None.
        elasticity: Elasticity between gearbox and joint, or None for a rigid drive.
        friction: Friction law at the joint, or None.
        motor_friction: Friction law at the rotor [N m, rad/s], or None.
        effort: Limit of the sum of the forces of all drives at the joint [N m or N]. The smallest
            limit of these drives applies. None: no limit.
        follower: Joint that a gear, a belt or a rack couples to the joint of the drive, or None.

    Raises:
        ValueError: An elastic drive has no rotor inertia, or a rigid drive has backlash. A motor
            does not support a current loop or a servo, or a servo of an electric motor has no
            current loop.
    """

    name: str
    joint: str | int | Line
    motor: Motor = _NO_MOTOR
    gearbox: Gearbox = Gearbox()
    current_loop: CurrentLoop | None = None
    servo: Servo | None = None
    elasticity: Elasticity | None = None
    friction: Law | None = None
    motor_friction: Law | None = None
    effort: float | None = None
    follower: Follower | None = None

    def __post_init__(self) -> None:
        check_name(self.name)
        whose, motor = f"drive '{self.name}'", type(self.motor).__name__
        kinds = {
            "motor": Motor,
            "gearbox": Gearbox,
            "current_loop": CurrentLoop,
            "servo": Servo,
            "elasticity": Elasticity,
            "friction": Law,
            "motor_friction": Law,
            "follower": Follower,
        }
        for field, kind in kinds.items():
            value = getattr(self, field)
            optional = field not in ("motor", "gearbox")
            if not (isinstance(value, kind) or (optional and value is None)):
                raise TypeError(f"{field} of {whose} must be a {kind.__name__}, not {value!r}")
        if self.effort is not None and not self.effort >= 0.0:
            raise ValueError(f"the effort of {whose} must not be negative, not {self.effort}")
        inertia = self.motor.inertia
        if self.elasticity is not None and (inertia is None or not inertia > 0.0):
            raise ValueError(
                f"{whose} is elastic and needs a positive rotor inertia, not {inertia}"
            )
        line = type(self.line).__name__
        if not isinstance(self.line, AlongJoint) and (
            self.effort is not None or (self.elasticity is None and inertia is not None)
        ):
            raise ValueError(
                f"{whose} acts on a {line}, which supports neither an effort limit nor the rotor "
                "inertia of a rigid drive"
            )
        if not isinstance(self.line, AlongJoint) and self.follower is not None:
            raise ValueError(f"{whose} acts on a {line}, which does not support a follower")
        if not isinstance(self.line, AlongJoint | JointSum) and self.elasticity is not None:
            raise ValueError(f"{whose} acts on a {line}, which does not support an elasticity")
        if self.elasticity is None and self.gearbox.backlash is not None:
            raise ValueError(f"{whose} has backlash and needs an elasticity")
        if self.motor.is_linear and (
            self.gearbox != Gearbox()
            or any((self.servo, self.elasticity, self.motor_friction, self.current_loop))
        ):
            raise ValueError(
                f"{whose} has a {motor}, which does not support a gearbox, a servo, an "
                "elasticity, motor friction or a current loop"
            )
        electric = self.motor.supports_current_loop
        if self.current_loop is not None and not electric:
            raise ValueError(f"{whose} has a {motor}, which does not support a current loop")
        if self.servo is not None and electric and self.current_loop is None:
            raise ValueError(f"{whose} has a servo and a {motor}, which need a current_loop")
        fault = None if self.servo is None else self.motor.servo_fault
        if fault is not None:
            raise ValueError(f"the {motor} of {whose} does not support a servo: {fault}")

    @property
    def line(self) -> Line:
        """Joint position, sum of joint positions, or line between bodies that the drive moves."""
        return self.joint if isinstance(self.joint, Line) else joint_line(self.joint)

    @property
    def has_force(self) -> bool:
        """True if the drive has an elasticity, friction, or a motor other than a `Rotor`."""
        parts = (self.elasticity, self.friction, self.motor_friction)
        return not isinstance(self.motor, Rotor) or any(part is not None for part in parts)

    # ---- parameters ----

    def _components(self) -> dict[str, Numbers]:
        """Return the components of the drive, by the prefix of their parameter names."""
        every = {
            "motor": self.motor,
            "thermal": getattr(self.motor, "thermal", None),
            "current_loop": self.current_loop,
            "servo": self.servo,
            "gearbox": self.gearbox if self._has_rotor else None,
            "elasticity": self.elasticity,
            "friction": self.friction,
            "motor_friction": self.motor_friction,
            "follower": self.follower,
        }
        return {name: record for name, record in every.items() if record is not None}

    @property
    def _has_rotor(self) -> bool:
        """True if the drive has a rotary motor, a rotor inertia or friction at the rotor."""
        if isinstance(self.motor, Rotor):
            return self.motor.inertia is not None or self.motor_friction is not None
        return not self.motor.is_linear

    def numbers(self) -> dict[str, tuple[Any, Number]]:
        """Return the value and the description of each parameter, by a name such as `motor_R`."""
        found = {}
        for prefix, record in self._components().items():
            for name, (value, about) in record.numbers().items():
                kind = f"{ROTOR}{about.kind}" if prefix == "motor_friction" else about.kind
                text = f"{about.doc} ({prefix.replace('_', ' ')})"
                found[f"{prefix}_{name}"] = value, about._replace(kind=kind, doc=text)
        return found

    def units(self, model: Tree) -> dict[str, str]:
        """Return the units of the parameters and signals by quantity kind (`Number.kind`).

        Raises:
            ValueError: The joint does not exist, has no position variable, or is not suitable for
                the motor.
        """
        line = self.line
        if isinstance(line, AlongVelocity) and (self.has_force or self.follower is not None):
            raise ValueError("a drive needs a joint position; `AlongVelocity` has no position")
        units = line.units(model)
        if self.follower is not None:
            units = units | self.follower.units(model, units["length"])
        if self.motor.is_linear and units["length"] != "m":
            raise ValueError(f"a {type(self.motor).__name__} needs a prismatic joint")
        return units | UNITS

    def replace_parameters(self, **values: Any) -> Self:
        """Return an unchecked copy with the given parameter values (floats or traced values)."""
        changed: dict[str, Any] = {}
        for prefix, record in self._components().items():
            own = {
                name: values[f"{prefix}_{name}"]
                for name in record.numbers()
                if f"{prefix}_{name}" in values
            }
            changed[prefix] = record.replace_parameters(**own)
        if "thermal" in changed:
            changed["motor"] = changed["motor"].replace_parameters(thermal=changed.pop("thermal"))
        other = object.__new__(type(self))
        vars(other).update({**vars(self), **changed})
        return other

    @property
    def rotor(self) -> ReflectedRotor | None:
        """Rotor of a rigid drive; the plant adds its reflected inertia to the joint inertia."""
        if self.elasticity is not None or self.motor.inertia is None:
            return None
        assert isinstance(self.line, AlongJoint)
        return ReflectedRotor(self.line, self.motor.inertia, self.gearbox.ratio)

    @property
    def gear_pair(self) -> GearPair | None:
        """Constraint between the follower and the joint of the drive; None without a follower."""
        if self.follower is None:
            return None
        assert isinstance(self.line, AlongJoint)
        f = self.follower
        return GearPair(f.joint, self.line, f.ratio, f.offset, f.curve)

    # ---- signals ----

    @property
    def commands(self) -> tuple[Signal, ...]:
        """Command signals of the drive, which are inputs of the plant."""
        if self.servo is not None:
            return (self.servo.command,)
        return self.motor.commands(self.current_loop)

    def states(self, s: float = 0.0, sd: float = 0.0) -> tuple[Signal, ...]:
        """Return the states, with the start values for the joint position s and velocity sd."""
        found = [*self.motor.states(self.current_loop)]
        if self.servo is not None:
            found += self.servo.states
        if self.elasticity is not None:
            ratio = float(self.gearbox.ratio)
            scale = max(1.0, abs(ratio))
            found += [
                Signal("angle", "rotor length", "rotor angle", ratio * s, scale, "rotor_speed"),
                Signal("rotor_speed", "rotor speed", "rotor speed", ratio * sd, scale),
            ]
        for field, text in _FRICTIONS.items():
            law = getattr(self, field)
            if law is not None:
                prefix = ROTOR if field == "motor_friction" else ""
                found += [
                    Signal(f"{field}_{name}", f"{prefix}{about.kind}", f"{about.doc} ({text})")
                    for name, about in law.state_fields.items()
                ]
        return tuple(found)

    @property
    def outputs(self) -> tuple[Signal, ...]:
        """Output signals that the drive adds to the plant, except the states of the drive."""
        if not self.has_force:
            return ()
        found = [Signal("force", "force", "force on the joint")]
        if self.motor.is_linear:
            found.append(Signal("motor_force", "linear force", "force of the motor"))
        elif not isinstance(self.motor, Rotor):
            found.append(Signal("torque", "rotor force", "motor torque"))
        found += self.motor.outputs
        if self.elasticity is not None:
            found.append(Signal("deflection", "length", "deflection of the elasticity"))
        return tuple(found)

    # ---- equations ----

    def _bind_bristle_states(self, field: str, x: Mapping[str, Any]) -> Law | None:
        """Return a friction law with its bristle deflections set from the states x, or None.

        `field` is the name of the field with the law: `friction` or `motor_friction`.
        """
        law: Law | None = getattr(self, field)
        if law is None or not law.state_fields:
            return law
        return law.replace_parameters(**{name: x[f"{field}_{name}"] for name in law.state_fields})

    def effects(
        self, s: Any, sd: Any, command: Mapping[str, Any], x: Mapping[str, Any]
    ) -> DriveEffects:
        """Return the force on the joint, and energy, state derivatives and outputs of the drive.

        Args:
            s: Position of the joint [rad or m].
            sd: Velocity of the joint [rad/s or m/s].
            command: Values of the commands, by name.
            x: Values of the states, by name.
        """
        N, elasticity = self.gearbox.ratio, self.elasticity
        rotor = self._rotor_motion(s, sd, x)
        torque, excess, error = None, 0.0, 0.0
        if self.servo is not None:
            at_joint = elasticity is None or self.servo.at_joint
            measured = (s, sd) if at_joint else (rotor.angle / N, rotor.speed / N)
            wanted, excess, error = self.servo.force(command["command"], *measured, x)
            torque = self.motor.limit_torque(self.current_loop, wanted / N, rotor)
            excess = excess + N * (torque - wanted / N)
        motor = self.motor.respond(self.current_loop, command, torque, rotor, x)
        rates = dict(motor.rates)
        net, energy = motor.torque, 0.0
        law = self._bind_bristle_states("motor_friction", x)
        if law is not None:
            net = net + law.force(rotor.angle, rotor.speed)
            energy = energy + law.energy(rotor.angle)
            rates |= _prefix_names("motor_friction", law.rates(rotor.angle, rotor.speed))
        outputs = {
            "motor_force" if self.motor.is_linear else "torque": motor.torque,
            **motor.outputs,
        }
        if elasticity is None:
            force = self.gearbox.joint_force(N * net, sd)
        else:
            deflection, rate, slope = self._deflection(s, sd, rotor)
            force = elasticity.force(deflection, rate, self.gearbox.backlash)
            load = slope * self.gearbox.motor_force(force, slope * rotor.speed)
            rates |= {"angle": rotor.speed, "rotor_speed": (net - load) / self.motor.inertia}
            energy = energy + elasticity.energy(deflection, self.gearbox.backlash)
            energy = energy + self.motor.inertia * rotor.speed * rotor.speed / 2
            outputs["deflection"] = deflection
        law = self._bind_bristle_states("friction", x)
        if law is not None:
            force = force + law.force(s, sd)
            energy = energy + law.energy(s)
            rates |= _prefix_names("friction", law.rates(s, sd))
        if self.servo is not None:
            if self.effort is not None:
                excess = excess + (clip_with_events(force, -self.effort, self.effort) - force)
            rates |= self.servo.rates(error, excess)
        return DriveEffects(force, energy, rates, {"force": force, **outputs})

    def _rotor_motion(self, s: Any, sd: Any, x: Mapping[str, Any]) -> RotorMotion:
        if self.elasticity is None:
            return RotorMotion(self.gearbox.ratio * s, self.gearbox.ratio * sd)
        return RotorMotion(x["angle"], x["rotor_speed"])

    def _deflection(self, s: Any, sd: Any, rotor: RotorMotion) -> tuple[Any, Any, Any]:
        """Return the deflection, its time derivative, and its derivative w.r.t. the rotor angle.

        s is the joint position, and sd its velocity.
        """
        assert self.elasticity is not None
        out, slope = self.elasticity.kinematics(rotor, self.gearbox.ratio)
        return out - s, slope * rotor.speed - sd, slope

    def margins(self, s: Any, sd: Any, x: Mapping[str, Any]) -> tuple[Any, ...]:
        """Return the switching functions of the backlash and of the friction laws.

        The arguments are as in `effects`.
        """
        rotor, found = self._rotor_motion(s, sd, x), list[Any]()
        if self.elasticity is not None:
            deflection, rate, _ = self._deflection(s, sd, rotor)
            found += self.elasticity.margins(deflection, rate, self.gearbox.backlash)
        motions = {"friction": (s, sd), "motor_friction": rotor}
        for field, motion in motions.items():
            law = self._bind_bristle_states(field, x)
            if law is not None:
                found += law.margins(*motion)
        return tuple(found)

    def max_stiffness_and_damping(self, s: float) -> tuple[float, float]:
        """Return the largest stiffness and damping that act on the joint at the position s."""
        K, D = (0.0, 0.0) if self.friction is None else self.friction.max_stiffness_and_damping()
        if self.elasticity is not None:
            return K + self.elasticity.K, D + self.elasticity.D
        N2 = self.gearbox.ratio**2
        if isinstance(self.servo, PositionServo):
            K, D = K + self.servo.kp, D + self.servo.kd
        elif self.servo is not None:
            D = D + self.servo.kp
        if self.motor_friction is not None:
            k, d = self.motor_friction.max_stiffness_and_damping()
            K, D = K + N2 * k, D + N2 * d
        k, d = self.motor.max_stiffness_and_damping(self.gearbox.ratio * s)
        return K + N2 * k, D + N2 * d

    def own_poles(self) -> tuple[complex, ...]:
        """Return the eigenvalues [1/s] of the drive if its joint is locked.

        The result contains the electrical eigenvalues of the motor, the eigenvalues of an
        elastically coupled rotor, and the friction bristle decay rates.
        """
        found = [*self.motor.poles(self.current_loop)]
        if self.elasticity is not None:
            J, N2 = self.motor.inertia, self.gearbox.ratio**2
            K, D = self.elasticity.K / N2, self.elasticity.D / N2
            if self.motor_friction is not None:
                k, d = self.motor_friction.max_stiffness_and_damping()
                K, D = K + k, D + d
            if isinstance(self.servo, PositionServo):
                K, D = K + self.servo.kp / N2, D + self.servo.kd / N2
            elif self.servo is not None:
                D = D + self.servo.kp / N2
            found += np.roots([J, D, K]).tolist()
        for law in (self.friction, self.motor_friction):
            found += [-rate for rate in (() if law is None else law.decays())]
        return tuple(found)


def _prefix_names(prefix: str, values: Mapping[str, Any]) -> dict[str, Any]:
    return {f"{prefix}_{name}": value for name, value in values.items()}


def drive_transmissions(model: Tree, drives: Iterable[Drive]) -> Transmissions | None:
    """Return the rotors and gears of the drives, or None if no drive has a rotor or a follower.

    Raises:
        ValueError: Two drives have the same follower, or a joint drives itself.
    """
    every = tuple(drives)
    rotors = [drive.rotor for drive in every if drive.rotor is not None]
    pairs = [drive.gear_pair for drive in every if drive.gear_pair is not None]
    return transmissions(model, rotors, pairs) if rotors or pairs else None
