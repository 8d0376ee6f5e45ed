"""Electric motors and torque sources, their current loops and their thermal models."""

import abc
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from rigidblocks.dynamics.force_laws import ROTATION, Number, Numbers
from rigidblocks.spatial.scalar import clip_with_events, is_traced, less, maximum, minimum, select

ROTOR = "rotor "  # prefix of the kinds of quantities at the rotor
_ELECTRICAL = {
    "voltage": "V",
    "current": "A",
    "resistance": "V/A",
    "inductance": "V.s/A",
    "flux": "V.s",
    "torque constant": "N.m/A",
    "temperature": "K",
    "thermal resistance": "K/W",
    "heat capacity": "J/K",
    "temperature coefficient": "1/K",
    "current loop gain": "V/A",
    "current loop integral gain": "V/A.s",
    "time": "s",
    "pressure": "N/m2",
    "flow": "m3/s",
    "area": "m2",
    "distance": "m",
    "volume": "m3",
    "leakage": "m5/N.s",
    "linear force": "N",
    "number": "1",
}
UNITS = {f"{ROTOR}{kind}": unit for kind, unit in ROTATION.items()} | _ELECTRICAL


class Signal(NamedTuple):
    """State, command or output of a drive: name, quantity kind, description and start value.

    `nominal` is the order of magnitude. `rate` is the name of the state that is the derivative of
    this state, if such a state exists.
    """

    name: str
    kind: str
    doc: str
    start: float = 0.0
    nominal: float = 1.0
    rate: str | None = None


class Response(NamedTuple):
    """Torque [N m] of a motor; derivatives of its states and values of its outputs, by name."""

    torque: Any
    rates: dict[str, Any]
    outputs: dict[str, Any]


class RotorMotion(NamedTuple):
    """Angle [rad] and speed [rad/s] of a rotor."""

    angle: Any
    speed: Any


@dataclass(frozen=True)
class Thermal(Numbers):
    """Thermal model of a winding with one heat capacity.

        capacity dT/dt = P - (T - ambient) / resistance
        R(T) = R (1 + coefficient (T - reference))

    P [W] is the copper loss. R is the resistance of the motor, and R(T) the resistance of the
    winding at its temperature T [K]. `resistance` is in K/W and `capacity` in J/K. The temperature
    starts at `ambient`. `coefficient` [1/K] is 0.00393 for copper, and 0 by default.

    Raises:
        ValueError: The resistance R(ambient) is not positive.
    """

    resistance: Any
    capacity: Any
    ambient: Any = 293.15
    coefficient: Any = 0.0
    reference: Any = 293.15
    quantities: ClassVar = {
        "resistance": Number("thermal resistance", "thermal resistance to ambient", positive=True),
        "capacity": Number("heat capacity", "heat capacity of the winding", positive=True),
        "ambient": Number("temperature", "ambient temperature", positive=True),
        "coefficient": Number(
            "temperature coefficient", "temperature coefficient of the resistance", 0.0
        ),
        "reference": Number("temperature", "temperature of the rated resistance", positive=True),
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        factor = 1.0 + self.coefficient * (self.ambient - self.reference)
        if not is_traced(factor) and not factor > 0.0:
            raise ValueError(
                f"the resistance of a Thermal must be positive at ambient = {self.ambient} K and "
                f"reference = {self.reference} K, but its factor is {factor:.3g}; give both "
                "temperatures in kelvin"
            )


@dataclass(frozen=True)
class CurrentLoop(Numbers):
    """Proportional-integral controller of the current of a motor, with back-calculation.

        v_ref = kp (i_ref - i) + z + k w,    v = v_ref limited to the motor voltage
        dz/dt = ki (i_ref - i) + ki / kp (v - v_ref)

    i_ref [A] is the command, i [A] the current and z [V] the integral. The loop limits i_ref to
    [-current_max, current_max]. It compensates the back EMF k w, with the torque constant k and the
    rotor speed w [rad/s]. The second term of dz/dt prevents windup. For a motor with the resistance
    R and the inductance L, the gains kp = a L and ki = a R give the bandwidth a [rad/s]
    (`bandwidth_gains`). Motors without inductance do not need a loop.
    """

    kp: Any
    ki: Any
    current_max: Any = None
    quantities: ClassVar = {
        "kp": Number("current loop gain", "proportional gain of the current", positive=True),
        "ki": Number("current loop integral gain", "integral gain of the current", 0.0),
        "current_max": Number("current", "limit of the reference current", positive=True),
    }

    def limit(self, current: Any) -> Any:
        """Return the reference current within its limits [A]."""
        if self.current_max is None:
            return current
        return clip_with_events(current, -self.current_max, self.current_max)

    def integral_rate(self, error: Any, excess: Any) -> Any:
        """Return dz/dt [V/s] from the current error [A] and the voltage v - v_ref [V]."""
        return self.ki * error + self.ki / self.kp * excess


def bandwidth_gains(motor: "DCMotor | SynchronousMotor", bandwidth: float) -> CurrentLoop:
    """Return the current loop whose zero cancels the electrical pole of a motor.

        kp = bandwidth L,    ki = bandwidth R

    L of a synchronous motor is the inductance of the quadrature axis.

    Args:
        motor: Motor with a resistance and an inductance.
        bandwidth: Bandwidth of the closed loop [rad/s].

    Raises:
        TypeError: The motor has no inductance.
        ValueError: The bandwidth is not positive.
    """
    if not isinstance(motor, DCMotor | SynchronousMotor):
        raise TypeError(
            f"bandwidth_gains needs a DCMotor or a SynchronousMotor, not a {type(motor).__name__}"
        )
    if not bandwidth > 0.0:
        raise ValueError(f"the bandwidth of a current loop must be positive, not {bandwidth} rad/s")
    L = motor.L if isinstance(motor, DCMotor) else motor.L_q
    return CurrentLoop(bandwidth * L, bandwidth * motor.R)


class Motor(Numbers, abc.ABC):
    """Base class of motors; a motor converts commands to a torque at its rotor."""

    inertia: Any
    supports_current_loop: ClassVar[bool] = False
    is_linear: ClassVar[bool] = False  # True: the motor has a force [N] and no gearbox

    @abc.abstractmethod
    def commands(self, loop: CurrentLoop | None) -> tuple[Signal, ...]:
        """Return the command signals that the motor has without a servo."""

    @abc.abstractmethod
    def states(self, loop: CurrentLoop | None) -> tuple[Signal, ...]:
        """Return the states of the motor."""

    @property
    def outputs(self) -> tuple[Signal, ...]:
        """Output signals of the motor in addition to its states and its torque."""
        return ()

    @abc.abstractmethod
    def respond(
        self,
        loop: CurrentLoop | None,
        command: Mapping[str, Any],
        torque: Any,
        rotor: RotorMotion,
        x: Mapping[str, Any],
    ) -> Response:
        """Return the motor torque and the derivatives of the motor states.

        Args:
            loop: Current loop, or None.
            command: Values of the commands, by name.
            torque: Result of `limit_torque` for a servo [N m], or None without a servo.
            rotor: Motion of the rotor.
            x: Values of the states, by name.
        """

    def limit_torque(self, loop: CurrentLoop | None, torque: Any, rotor: RotorMotion) -> Any:
        """Return the reference torque of a servo within the limits of the motor [N m]."""
        del loop, rotor
        return torque

    @property
    def servo_fault(self) -> str | None:
        """Reason why a servo cannot command the torque of this motor, or None."""
        return None

    def poles(self, loop: CurrentLoop | None) -> tuple[complex, ...]:
        """Return the electrical eigenvalues [1/s] of the motor for a rotor at rest."""
        del loop
        return ()

    def max_stiffness_and_damping(self, angle: float) -> tuple[float, float]:
        """Return the largest stiffness and damping of the motor torque at a rotor angle [rad]."""
        del angle
        return 0.0, 0.0


@dataclass(frozen=True)
class Rotor(Motor):
    """Rotor without a torque: the armature of a joint, or a motor that is switched off.

    `inertia` [kg m^2] is the inertia about the axis of the rotor. A drive with a `Rotor` as its
    motor has no command.
    """

    inertia: Any = None
    quantities: ClassVar = {"inertia": Number("rotor inertia", "rotor inertia", 0.0)}

    def commands(self, loop: CurrentLoop | None) -> tuple[Signal, ...]:
        del loop
        return ()

    def states(self, loop: CurrentLoop | None) -> tuple[Signal, ...]:
        del loop
        return ()

    def respond(
        self,
        loop: CurrentLoop | None,
        command: Mapping[str, Any],
        torque: Any,
        rotor: RotorMotion,
        x: Mapping[str, Any],
    ) -> Response:
        del loop, command, torque, rotor, x
        return Response(0.0, {}, {})

    @property
    def servo_fault(self) -> str | None:
        return "a rotor has no torque"


@dataclass(frozen=True)
class TorqueMotor(Motor):
    """Torque source with a limit, a torque-speed envelope and a lag.

        d(torque)/dt = (command within its limits - torque) / time_constant

    The command [N m] is limited to [-torque_max, torque_max]. Above `corner_speed`, the limit in
    the direction of the motion decreases linearly, to zero at `no_load_speed` [rad/s]:

        limit = torque_max (no_load_speed - |w|) / (no_load_speed - corner_speed)

    w [rad/s] is the rotor speed. Without `time_constant` [s], the torque follows the command
    without a lag.

    Raises:
        ValueError: The speeds are given without `torque_max`, or are not both given, or
            `no_load_speed` is not above `corner_speed`.
    """

    inertia: Any = None
    torque_max: Any = None
    time_constant: Any = None
    corner_speed: Any = None
    no_load_speed: Any = None
    quantities: ClassVar = {
        "inertia": Number("rotor inertia", "rotor inertia", 0.0),
        "torque_max": Number("rotor force", "largest torque", positive=True),
        "time_constant": Number("time", "time constant of the torque", positive=True),
        "corner_speed": Number("rotor speed", "speed above which the torque decreases", 0.0),
        "no_load_speed": Number("rotor speed", "speed without torque", positive=True),
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        given = [self.corner_speed is not None, self.no_load_speed is not None]
        if any(given) and not (all(given) and self.torque_max is not None):
            raise ValueError(
                "the torque-speed envelope of a TorqueMotor needs torque_max, corner_speed and "
                f"no_load_speed, not {self.torque_max}, {self.corner_speed} and "
                f"{self.no_load_speed}"
            )
        if all(given) and not self.corner_speed < self.no_load_speed:
            raise ValueError(
                "no_load_speed of a TorqueMotor must be above corner_speed, not "
                f"{self.no_load_speed} and {self.corner_speed} rad/s"
            )

    def commands(self, loop: CurrentLoop | None) -> tuple[Signal, ...]:
        del loop
        nominal = 1.0 if self.torque_max is None else float(self.torque_max)
        return (Signal("command", "rotor force", "torque command", nominal=nominal),)

    def states(self, loop: CurrentLoop | None) -> tuple[Signal, ...]:
        del loop
        if self.time_constant is None:
            return ()
        nominal = 1.0 if self.torque_max is None else float(self.torque_max)
        return (Signal("lagged_torque", "rotor force", "motor torque", nominal=nominal),)

    def respond(
        self,
        loop: CurrentLoop | None,
        command: Mapping[str, Any],
        torque: Any,
        rotor: RotorMotion,
        x: Mapping[str, Any],
    ) -> Response:
        del loop
        if torque is None:
            torque = self._limit(command["command"], rotor.speed)
        if self.time_constant is None:
            return Response(torque, {}, {})
        lagged = x["lagged_torque"]
        return Response(lagged, {"lagged_torque": (torque - lagged) / self.time_constant}, {})

    def limit_torque(self, loop: CurrentLoop | None, torque: Any, rotor: RotorMotion) -> Any:
        del loop
        return self._limit(torque, rotor.speed)

    def _limit(self, torque: Any, speed: Any) -> Any:
        if self.torque_max is None:
            return torque
        if self.no_load_speed is None:
            return clip_with_events(torque, -self.torque_max, self.torque_max)
        slope = self.torque_max / (self.no_load_speed - self.corner_speed)
        upper = minimum(self.torque_max, maximum(0.0, slope * (self.no_load_speed - speed)))
        lower = minimum(self.torque_max, maximum(0.0, slope * (self.no_load_speed + speed)))
        return clip_with_events(torque, -lower, upper)

    def poles(self, loop: CurrentLoop | None) -> tuple[complex, ...]:
        del loop
        return () if self.time_constant is None else (-1.0 / self.time_constant,)


@dataclass(frozen=True)
class DCMotor(Motor):
    """Permanent-magnet DC motor.

        L di/dt = v - R i - k w,    torque = k i

    i [A] is the current, v [V] the voltage and w [rad/s] the rotor speed. R [V/A] and L [V s/A] are
    the resistance and the inductance of the winding. `k` is the torque constant [N m/A] and also
    the constant of the back EMF [V s/rad]. The voltage v is limited to [-voltage_max, voltage_max].
    The command is the current [A] with a `CurrentLoop`, else the voltage [V]. The voltage limit and
    the back EMF determine the torque-speed envelope.
    """

    R: Any
    L: Any
    k: Any
    inertia: Any = None
    voltage_max: Any = None
    thermal: Thermal | None = None
    supports_current_loop: ClassVar[bool] = True
    quantities: ClassVar = {
        "R": Number("resistance", "resistance of the winding", positive=True),
        "L": Number("inductance", "inductance of the winding", positive=True),
        "k": Number("torque constant", "torque constant", positive=True),
        "inertia": Number("rotor inertia", "rotor inertia", 0.0),
        "voltage_max": Number("voltage", "largest voltage", positive=True),
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_thermal(self)

    def commands(self, loop: CurrentLoop | None) -> tuple[Signal, ...]:
        if loop is None:
            return (Signal("command", "voltage", "voltage"),)
        return (Signal("command", "current", "reference current"),)

    def states(self, loop: CurrentLoop | None) -> tuple[Signal, ...]:
        amperes, volts = _electrical_nominals(self.R, self.voltage_max, loop)
        found = [Signal("current", "current", "motor current", nominal=amperes)]
        if loop is not None:
            text = "integral of the current loop"
            found.append(Signal("voltage_integral", "voltage", text, nominal=volts))
        return (*found, *_temperature(self.thermal))

    @property
    def outputs(self) -> tuple[Signal, ...]:
        return (Signal("voltage", "voltage", "voltage"),)

    def respond(
        self,
        loop: CurrentLoop | None,
        command: Mapping[str, Any],
        torque: Any,
        rotor: RotorMotion,
        x: Mapping[str, Any],
    ) -> Response:
        i, emf = x["current"], self.k * rotor.speed
        R, rates = _resistance(self.R, self.thermal, x), dict[str, Any]()
        if loop is None:
            v = self._limit(command["command"])
        else:
            wanted = loop.limit(command["command"]) if torque is None else torque / self.k
            error = wanted - i
            v_ref = loop.kp * error + x["voltage_integral"] + emf
            v = self._limit(v_ref)
            rates["voltage_integral"] = loop.integral_rate(error, v - v_ref)
        rates["current"] = (v - R * i - emf) / self.L
        rates |= _temperature_rate(self.thermal, R * i * i, x)
        return Response(self.k * i, rates, {"voltage": v})

    def limit_torque(self, loop: CurrentLoop | None, torque: Any, rotor: RotorMotion) -> Any:
        del rotor
        return _torque_within_current(loop, torque, self.k)

    def _limit(self, voltage: Any) -> Any:
        if self.voltage_max is None:
            return voltage
        return clip_with_events(voltage, -self.voltage_max, self.voltage_max)

    def poles(self, loop: CurrentLoop | None) -> tuple[complex, ...]:
        return _electrical_poles(self.R, self.L, loop)


@dataclass(frozen=True)
class SynchronousMotor(Motor):
    """Permanent-magnet synchronous motor in the dq frame of its rotor.

        L_d di_d/dt = v_d - R i_d + w_e L_q i_q
        L_q di_q/dt = v_q - R i_q - w_e (L_d i_d + flux),    w_e = pole_pairs w
        torque = 3/2 pole_pairs (flux i_q + (L_d - L_q) i_d i_q)

    The dq transformation is amplitude-invariant: a dq vector has the length of the phase amplitude.
    `flux` [V s] is the flux linkage of the magnets, and w [rad/s] the rotor speed. The magnitude of
    the voltage vector is limited to `voltage_max`.

    With a `CurrentLoop`, the command is the current i_q [A], and the reference of i_d is
    `current_d` (negative for field weakening). The loop compensates the back EMF and the coupling
    of the axes. A servo converts its torque to the reference of i_q at i_d = `current_d`. Without a
    loop, the commands are v_d and v_q.
    """

    R: Any
    L_d: Any
    L_q: Any
    flux: Any
    pole_pairs: Any
    inertia: Any = None
    voltage_max: Any = None
    current_d: Any = 0.0
    thermal: Thermal | None = None
    supports_current_loop: ClassVar[bool] = True
    quantities: ClassVar = {
        "R": Number("resistance", "resistance of a phase", positive=True),
        "L_d": Number("inductance", "inductance of the direct axis", positive=True),
        "L_q": Number("inductance", "inductance of the quadrature axis", positive=True),
        "flux": Number("flux", "flux linkage of the magnets", positive=True),
        "pole_pairs": Number("number", "number of pole pairs", positive=True),
        "inertia": Number("rotor inertia", "rotor inertia", 0.0),
        "voltage_max": Number("voltage", "largest length of the voltage vector", positive=True),
        "current_d": Number("current", "reference of the direct current"),
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_thermal(self)

    def commands(self, loop: CurrentLoop | None) -> tuple[Signal, ...]:
        if loop is not None:
            return (Signal("command", "current", "reference of the quadrature current"),)
        return (
            Signal("voltage_d", "voltage", "voltage command of the direct axis"),
            Signal("voltage_q", "voltage", "voltage command of the quadrature axis"),
        )

    def states(self, loop: CurrentLoop | None) -> tuple[Signal, ...]:
        amperes, volts = _electrical_nominals(self.R, self.voltage_max, loop)
        found = [
            Signal("current_d", "current", "direct current", nominal=amperes),
            Signal("current_q", "current", "quadrature current", nominal=amperes),
        ]
        if loop is not None:
            text = "integral of the current loop of the"
            found += [
                Signal("voltage_integral_d", "voltage", f"{text} direct axis", nominal=volts),
                Signal("voltage_integral_q", "voltage", f"{text} quadrature axis", nominal=volts),
            ]
        return (*found, *_temperature(self.thermal))

    @property
    def outputs(self) -> tuple[Signal, ...]:
        return (
            Signal("applied_voltage_d", "voltage", "voltage of the direct axis"),
            Signal("applied_voltage_q", "voltage", "voltage of the quadrature axis"),
        )

    def respond(
        self,
        loop: CurrentLoop | None,
        command: Mapping[str, Any],
        torque: Any,
        rotor: RotorMotion,
        x: Mapping[str, Any],
    ) -> Response:
        i_d, i_q = x["current_d"], x["current_q"]
        w_e = self.pole_pairs * rotor.speed
        e_d, e_q = -w_e * self.L_q * i_q, w_e * (self.L_d * i_d + self.flux)
        R, rates = _resistance(self.R, self.thermal, x), dict[str, Any]()
        if loop is None:
            v_d, v_q = self._limit(command["voltage_d"], command["voltage_q"])
        else:
            if torque is None:
                reference = loop.limit(command["command"])
            else:
                reference = torque / self._torque_per_ampere
            error_d, error_q = self.current_d - i_d, reference - i_q
            ref_d = loop.kp * error_d + x["voltage_integral_d"] + e_d
            ref_q = loop.kp * error_q + x["voltage_integral_q"] + e_q
            v_d, v_q = self._limit(ref_d, ref_q)
            rates["voltage_integral_d"] = loop.integral_rate(error_d, v_d - ref_d)
            rates["voltage_integral_q"] = loop.integral_rate(error_q, v_q - ref_q)
        rates["current_d"] = (v_d - R * i_d - e_d) / self.L_d
        rates["current_q"] = (v_q - R * i_q - e_q) / self.L_q
        rates |= _temperature_rate(self.thermal, 1.5 * R * (i_d * i_d + i_q * i_q), x)
        made = 1.5 * self.pole_pairs * (self.flux + (self.L_d - self.L_q) * i_d) * i_q
        return Response(made, rates, {"applied_voltage_d": v_d, "applied_voltage_q": v_q})

    @property
    def _torque_per_ampere(self) -> Any:
        """Torque per ampere of i_q at the reference of i_d [N m/A]."""
        return 1.5 * self.pole_pairs * (self.flux + (self.L_d - self.L_q) * self.current_d)

    @property
    def servo_fault(self) -> str | None:
        if self._torque_per_ampere != 0.0:
            return None
        return f"flux + (L_d - L_q) current_d is zero, with current_d = {self.current_d} A"

    def limit_torque(self, loop: CurrentLoop | None, torque: Any, rotor: RotorMotion) -> Any:
        del rotor
        return _torque_within_current(loop, torque, self._torque_per_ampere)

    def _limit(self, v_d: Any, v_q: Any) -> tuple[Any, Any]:
        """Limit the magnitude of the voltage vector to `voltage_max`."""
        if self.voltage_max is None:
            return v_d, v_q
        # the root of zero has an infinite derivative
        square = maximum((v_d * v_d + v_q * v_q) / (self.voltage_max * self.voltage_max), 1.0)
        scale = 1.0 / np.sqrt(square)
        return scale * v_d, scale * v_q

    def poles(self, loop: CurrentLoop | None) -> tuple[complex, ...]:
        return (
            *_electrical_poles(self.R, self.L_d, loop),
            *_electrical_poles(self.R, self.L_q, loop),
        )


@dataclass(frozen=True)
class AffineMotor(Motor):
    """Torque source that is affine in its command, the rotor angle and the rotor speed, as in MJCF.

        torque = (gain . r) a + bias . r limited to `torque_limits`,    r = (1, angle, speed)

    The activation a is the command u within `command_limits`, or a state:

        da/dt = (u - a) / time_constant         filter
        da/dt = u                               integrator, with integrates=True

        da/dt = u - angle - offset              integral of a PID controller, with ki

    With `ki`, the torque depends on the command and on the activation:

        torque = (gain . r) u + ki a + bias . r

    With `velocity_gain`, the motor has the input `velocity`, a velocity setpoint. The torque then
    has the additional term `velocity_gain` times `velocity`. With `has_feedforward`, the motor has
    the input `feedforward`, a torque that is added. `activation_limits` bound the state.

    The fields `gain` and `bias` are the constant terms of the vectors gain and bias. The fields
    `gain_position` and `bias_position` multiply the angle, `gain_velocity` and `bias_velocity` the
    speed. A field that is None adds no term to the torque and is not a parameter. The gains have no
    unit, because a robot file does not define the unit of the command. A servo requires the law
    torque = a, with a gain of 1, no other terms and no integrator.

    Raises:
        TypeError: A limit is not a pair of numbers.
        ValueError: The activation has a time constant and integrates, or a lower limit is above
            the upper limit.
    """

    gain: Any = 1.0
    gain_position: Any = None
    gain_velocity: Any = None
    bias: Any = None
    bias_position: Any = None
    bias_velocity: Any = None
    time_constant: Any = None
    integrates: bool = False
    inertia: Any = None
    ki: Any = None
    offset: Any = None
    velocity_gain: Any = None
    has_feedforward: bool = False
    command_limits: tuple[float, float] = (-np.inf, np.inf)
    activation_limits: tuple[float, float] = (-np.inf, np.inf)
    torque_limits: tuple[float, float] = (-np.inf, np.inf)
    quantities: ClassVar = {
        "gain": Number("number", "gain of the command"),
        "gain_position": Number("number", "gain of the command times the rotor angle"),
        "gain_velocity": Number("number", "gain of the command times the rotor speed"),
        "bias": Number("number", "constant torque"),
        "bias_position": Number("number", "torque per rotor angle"),
        "bias_velocity": Number("number", "torque per rotor speed"),
        "time_constant": Number("time", "time constant of the activation", positive=True),
        "inertia": Number("rotor inertia", "rotor inertia", 0.0),
        "ki": Number("number", "torque per integral of the position error"),
        "offset": Number("number", "position setpoint at the rotor angle zero"),
        "velocity_gain": Number("number", "torque per velocity setpoint"),
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.integrates and self.time_constant is not None:
            raise ValueError(
                "an AffineMotor supports either integrates=True or a time_constant, not both"
            )
        if self.ki is not None and (self.integrates or self.time_constant is not None):
            raise ValueError(
                "an AffineMotor with ki supports neither integrates=True nor a time_constant"
            )
        for name in ("command_limits", "activation_limits", "torque_limits"):
            limits = getattr(self, name)
            if np.shape(limits) != (2,) or np.asarray(limits).dtype.kind not in "fiu":
                raise TypeError(f"{name} of an AffineMotor must be (lower, upper), not {limits!r}")
            lower, upper = limits
            if not lower <= upper:
                raise ValueError(
                    f"the lower value of {name} of an AffineMotor must be at most the upper value, "
                    f"not {lower} and {upper}"
                )

    def commands(self, loop: CurrentLoop | None) -> tuple[Signal, ...]:
        del loop
        found = [Signal("command", "number", "command")]
        if self.velocity_gain is not None:
            found.append(Signal("velocity", "number", "velocity setpoint"))
        if self.has_feedforward:
            found.append(Signal("feedforward", "number", "feedforward torque"))
        return tuple(found)

    def states(self, loop: CurrentLoop | None) -> tuple[Signal, ...]:
        del loop
        if not self.integrates and self.time_constant is None and self.ki is None:
            return ()
        start = float(np.clip(0.0, *self.activation_limits))
        return (Signal("activation", "number", "activation", start),)

    def respond(
        self,
        loop: CurrentLoop | None,
        command: Mapping[str, Any],
        torque: Any,
        rotor: RotorMotion,
        x: Mapping[str, Any],
    ) -> Response:
        del loop
        u = command["command"] if torque is None else torque
        a, rates = clip_with_events(u, *self.command_limits), dict[str, Any]()
        gain = _affine(self.gain, self.gain_position, self.gain_velocity, rotor)
        bias = _affine(self.bias, self.bias_position, self.bias_velocity, rotor)
        if self.ki is not None:
            error = a - rotor.angle if self.offset is None else a - rotor.angle - self.offset
            integral = x["activation"]
            rates["activation"] = self._limit_rate(error, integral)
            bias = bias + self.ki * clip_with_events(integral, *self.activation_limits)
        elif self.states(None):
            rates["activation"] = self._activation_rate(a, x["activation"])
            a = clip_with_events(x["activation"], *self.activation_limits)
        if self.velocity_gain is not None:
            bias = bias + self.velocity_gain * command["velocity"]
        if self.has_feedforward:
            bias = bias + command["feedforward"]
        return Response(clip_with_events(gain * a + bias, *self.torque_limits), rates, {})

    @property
    def servo_fault(self) -> str | None:
        terms = (
            *("gain_position", "gain_velocity", "bias", "bias_position", "bias_velocity"),
            *("ki", "velocity_gain", "has_feedforward"),
        )
        if self.gain == 1.0 and not any(getattr(self, term) for term in terms):
            return "the motor integrates its command" if self.integrates else None
        return "its torque must equal its command, with a gain of 1 and no other terms"

    def limit_torque(self, loop: CurrentLoop | None, torque: Any, rotor: RotorMotion) -> Any:
        del loop, rotor
        limits = [self.command_limits, self.torque_limits]
        if self.states(None):
            limits.append(self.activation_limits)
        for lower, upper in limits:
            if np.isfinite([lower, upper]).any():
                torque = clip_with_events(torque, lower, upper)
        return torque

    def max_stiffness_and_damping(self, angle: float) -> tuple[float, float]:
        del angle
        K, D = self.bias_position, self.bias_velocity
        return max(-K, 0.0) if K is not None else 0.0, max(-D, 0.0) if D is not None else 0.0

    def _activation_rate(self, u: Any, a: Any) -> Any:
        """Return the activation rate da/dt [1/s], limited so that a stays within its limits."""
        return self._limit_rate(u if self.integrates else (u - a) / self.time_constant, a)

    def _limit_rate(self, rate: Any, a: Any) -> Any:
        """Return `rate`, or zero if the activation a is at a limit and `rate` points outward."""
        lower, upper = self.activation_limits
        if np.isfinite(upper):
            rate = select(less(a, upper), rate, minimum(rate, 0.0))
        if np.isfinite(lower):
            rate = select(less(lower, a), rate, maximum(rate, 0.0))
        return rate

    def poles(self, loop: CurrentLoop | None) -> tuple[complex, ...]:
        del loop
        return () if self.time_constant is None else (-1.0 / self.time_constant,)


def _affine(constant: Any, position: Any, velocity: Any, rotor: RotorMotion) -> Any:
    """Return constant + position * angle + velocity * speed, without terms that are None."""
    value = 0.0 if constant is None else constant
    if position is not None:
        value = value + position * rotor.angle
    return value if velocity is None else value + velocity * rotor.speed


def _electrical_nominals(R: Any, voltage_max: Any, loop: CurrentLoop | None) -> tuple[float, float]:
    """Return the nominal current [A] and the nominal voltage [V] of a motor.

    The nominal voltage is the voltage limit. The nominal current is the smaller of the current
    limit and the stall current at the voltage limit, with the resistance R [ohm]. Both values are
    at least 1, because smaller values would tighten the tolerances of adaptive steps.
    """
    volts = 1.0 if voltage_max is None else float(voltage_max)
    limits = [] if voltage_max is None else [volts / float(R)]
    if loop is not None and loop.current_max is not None:
        limits.append(float(loop.current_max))
    return max(min(limits, default=1.0), 1.0), max(volts, 1.0)


def _check_thermal(motor: DCMotor | SynchronousMotor) -> None:
    """Raise TypeError if the thermal model of a motor is neither a `Thermal` nor None."""
    if not (motor.thermal is None or isinstance(motor.thermal, Thermal)):
        raise TypeError(
            f"thermal of a {type(motor).__name__} must be a Thermal or None, not {motor.thermal!r}"
        )


def _torque_within_current(loop: CurrentLoop | None, torque: Any, per_ampere: Any) -> Any:
    """Limit a torque [N m] to the current limit times the torque per ampere (`per_ampere`)."""
    if loop is None or loop.current_max is None:
        return torque
    return per_ampere * loop.limit(torque / per_ampere)


def _temperature(thermal: Thermal | None) -> tuple[Signal, ...]:
    if thermal is None:
        return ()
    text = "winding temperature"
    return (Signal("temperature", "temperature", text, float(thermal.ambient), 100.0),)


def _resistance(R: Any, thermal: Thermal | None, x: Mapping[str, Any]) -> Any:
    if thermal is None:
        return R
    return R * (1.0 + thermal.coefficient * (x["temperature"] - thermal.reference))


def _temperature_rate(thermal: Thermal | None, loss: Any, x: Mapping[str, Any]) -> dict[str, Any]:
    if thermal is None:
        return {}
    out = (x["temperature"] - thermal.ambient) / thermal.resistance
    return {"temperature": (loss - out) / thermal.capacity}


def _electrical_poles(R: float, L: float, loop: CurrentLoop | None) -> tuple[complex, ...]:
    if loop is None:
        return (-R / L,)
    return tuple(np.roots([L, R + loop.kp, loop.ki]).tolist())
