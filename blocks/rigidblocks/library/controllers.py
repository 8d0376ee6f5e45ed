"""Controller blocks, which compute joint forces or other commands from measured signals."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from rigidblocks.block.block import Block, Port, Record, Values
from rigidblocks.dynamics import rnea
from rigidblocks.dynamics.loops import actuated_columns, actuator_forces
from rigidblocks.library.common_ports import gravity_port, joint_ports, joint_units
from rigidblocks.library.nonlinear_signals import check_band, clamp, limit_ports
from rigidblocks.library.signals import Shape, Unit, broadcast_start, signal_shape
from rigidblocks.robot.model import Model
from rigidblocks.robot.tree import check_model
from rigidblocks.spatial.scalar import clip_with_events, select
from rigidblocks.spatial.spatial import Array

_ANGLE = ("rad", "rad/s", "N.m")
_LENGTH = ("m", "m/s", "N")


@dataclass(frozen=True, eq=False)
class PDController(Block):
    """Proportional-derivative controller of n joints, with an optional force limit.

        tau = kp e + kd de/dt,  e = q_ref - q,  limited to [-tau_max, tau_max]

    If `sample_time` is None, de/dt is qd_ref - qd. If `sample_time` [s] is given, the controller
    computes tau at its sample instants and holds tau between them. A sampled controller has no
    velocity inputs: de/dt is the backward difference of e, and zero at the first sample.

    The gains `kp` and `kd` have the shape (n,). `prismatic` (n,) is True for prismatic joints,
    which have linear units. All other joints have angular units; by default, no joint is prismatic.

    Raises:
        ValueError: `kp` and `kd` are not vectors of equal length.
    """

    kp: Any
    kd: Any
    tau_max: Any = None
    sample_time: float | None = None
    prismatic: tuple[bool, ...] = ()

    def __post_init__(self) -> None:
        if np.shape(self.kp) != np.shape(self.kd) or np.ndim(self.kp) != 1 or len(self.kp) == 0:
            raise ValueError(
                "a PD controller needs kp and kd of shape (n,), not kp of shape "
                f"{np.shape(self.kp)} "
                f"and kd of shape {np.shape(self.kd)}"
            )

    @property
    def n(self) -> int:
        """Number of controlled joints."""
        return len(self.kp)

    @property
    def _units(self) -> tuple[tuple[str, ...], ...]:
        slides = self.prismatic or (False,) * self.n
        return tuple(zip(*(_LENGTH if slide else _ANGLE for slide in slides), strict=True))

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """Input ports q_ref and q (n,); without a sample time, also qd_ref and qd (n,)."""
        position, velocity, _ = self._units
        positions = (
            Port("q_ref", (self.n,), position, "reference position"),
            Port("q", (self.n,), position, "measured position"),
        )
        velocities = (
            Port("qd_ref", (self.n,), velocity, "reference velocity", 0.0),
            Port("qd", (self.n,), velocity, "measured velocity"),
        )
        return positions if self.sample_time else (*positions, *velocities)

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """Output port for the joint forces tau (n,)."""
        return (
            Port(
                "tau", (self.n,), self._units[2], "joint forces", 0.0 if self.sample_time else None
            ),
        )

    @cached_property
    def sampled(self) -> tuple[Port, ...]:
        """Sampled state ports for tau, the error at the previous sample, and `primed`.

        `primed` is 0 before the first sample and 1 afterwards. A controller without a sample time
        has no sampled states.
        """
        if self.sample_time is None:
            return ()
        return (
            *self.outputs,
            Port("e_last", (self.n,), self._units[0], "error at the last sample", 0.0),
            Port("primed", (), "1", "1 after the first sample, else 0", 0.0),
        )

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """Parameter ports for the gains kp and kd (n,), and for the force limit tau_max (n,)."""
        position, velocity, force = self._units
        gains = (
            Port("kp", (self.n,), _gain_units(force, position), "position gain", self.kp, min=0.0),
            Port("kd", (self.n,), _gain_units(force, velocity), "velocity gain", self.kd, min=0.0),
        )
        if self.tau_max is None:
            return gains
        limit = Port(
            "tau_max", (self.n,), force, "force limit", self.tau_max, min=0.0, positive=True
        )
        return (*gains, limit)

    def update(self, x: Record, u: Record, p: Record) -> Values:
        if self.sample_time is None:
            return {}
        e = u.q_ref - u.q
        de = select(x.primed, (e - x.e_last) / self.sample_time, 0.0)
        return {"tau": self._limit(p.kp * e + p.kd * de, p), "e_last": e, "primed": 1.0}

    def output(self, u: Record, p: Record) -> Values:
        if self.sample_time is not None:
            return {}
        return {"tau": self._limit(p.kp * (u.q_ref - u.q) + p.kd * (u.qd_ref - u.qd), p)}

    def _limit(self, tau: Any, p: Record) -> Any:
        return tau if self.tau_max is None else clip_with_events(tau, -p.tau_max, p.tau_max)


def _gain_units(units: tuple[str, ...], denominators: tuple[str, ...]) -> tuple[str, ...]:
    """Return the units of gains, such as N.m.s/rad for the gain of an angular velocity.

    `units` contains the units of the controller outputs, `denominators` the units of the errors.
    """
    gains = {"rad": "{}/rad", "m": "{}/m", "rad/s": "{}.s/rad", "m/s": "{}.s/m"}
    return tuple(gains[d].format(unit) for unit, d in zip(units, denominators, strict=True))


@dataclass(frozen=True, eq=False)
class PID(Block):
    """PID controller in parallel form, for a scalar signal or for each element of an array.

        v = kp (b ref - meas) + I + D,   y = v limited to [lower, upper]
        dI/dt = ki (ref - meas) + (y - v) / Tt,   D = kd s / (Tf s + 1) (c ref - meas)

    v is the control signal before the limits, I is the integral part, D is the derivative part, and
    s is the Laplace variable. `b` and `c` are the set-point weights of the proportional part and of
    the derivative part. `Tf` [s] is the time constant of the derivative filter, which is required
    if kd is not zero. A limit of None is inactive. Back-calculation prevents windup: at a limit,
    the term (y - v) / Tt moves v towards the limit. `Tt` [s] is kp / ki by default.

    If `sample_time` h [s] is given, the controller computes y at its sample instants and holds y
    between them (Astrom and Wittenmark, Computer-Controlled Systems, 8.5):

        D[k] = (Tf D[k-1] + kd (e[k] - e[k-1])) / (Tf + h),   e = c ref - meas
        I[k+1] = I[k] + h (ki (ref - meas) + (y - v) / Tt)

    Each gain is a scalar or has the shape of the signal.

    Raises:
        ValueError: A continuous derivative term has no filter (`Tf`), a lower limit is above its
            upper limit, or `Tt` is missing and `kp` is not positive.
    """

    kp: Any
    ki: Any = 0.0
    kd: Any = 0.0
    Tf: float | None = None
    lower: Any = None
    upper: Any = None
    Tt: Any = None
    b: float = 1.0
    c: float = 1.0
    shape: Shape | None = None
    sample_time: float | None = None
    unit: Unit = ""
    unit_in: Unit = ""

    def __post_init__(self) -> None:
        check_band("a PID controller", self._shape, self.lower, self.upper)
        if self._differentiates and not (self.Tf or 0) > 0 and not self.sample_time:
            raise ValueError(
                f"a PID controller with kd = {self.kd} needs a derivative filter with Tf > 0, not "
                f"{self.Tf} s"
            )
        if self._winds_up and self.Tt is None and not np.all(np.asarray(self.kp) > 0):
            raise ValueError(
                f"a PID controller with limits and kp = {self.kp} needs the anti-windup time "
                "constant Tt"
            )

    @property
    def _shape(self) -> tuple[int, ...]:
        return signal_shape("a PID controller", self.shape, kp=self.kp, ki=self.ki, kd=self.kd)

    @property
    def _integrates(self) -> bool:
        return bool(np.any(np.asarray(self.ki)))

    @property
    def _differentiates(self) -> bool:
        return bool(np.any(np.asarray(self.kd)))

    @property
    def _winds_up(self) -> bool:
        return self._integrates and not (self.lower is None and self.upper is None)

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """Input ports for the reference `ref` and the measurement `meas`."""
        return (
            Port("ref", self._shape, self.unit_in, "reference"),
            Port("meas", self._shape, self.unit_in, "measured signal"),
        )

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """Output port for the control signal y."""
        start = 0.0 if self.sample_time else None
        return (Port("y", self._shape, self.unit, "control signal", start),)

    @property
    def _memories(self) -> tuple[Port, ...]:
        integral = Port("I", self._shape, self.unit, "integral part", 0.0)
        return (integral,) if self._integrates else ()

    @cached_property
    def states(self) -> tuple[Port, ...]:
        """State ports for the integral part I and the state x of the derivative filter.

        A controller with a sample time has no continuous states.
        """
        x = Port("x", self._shape, self.unit_in, "filtered c ref - meas", 0.0)
        lag = (x,) if self._differentiates else ()
        return () if self.sample_time else (*self._memories, *lag)

    @cached_property
    def sampled(self) -> tuple[Port, ...]:
        """Sampled state ports for y, the integral part I, the derivative part D and the last error.

        A controller without a sample time has no sampled states.
        """
        lag = (
            Port("D", self._shape, self.unit, "derivative part", 0.0),
            Port("e_last", self._shape, self.unit_in, "c ref - meas at the last sample", 0.0),
        )
        parts = (*self._memories, *(lag if self._differentiates else ()))
        return (*self.outputs, *parts) if self.sample_time else ()

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """Parameter ports for the gains, time constants and limits that the controller uses."""
        shape, ports = self._shape, [Port("kp", self._shape, "", "proportional gain", self.kp)]
        if self._integrates:
            ports.append(Port("ki", shape, "", "integral gain, per s", self.ki))
        if self._differentiates:
            ports.append(Port("kd", shape, "", "derivative gain, times s", self.kd))
            ports.append(
                Port(
                    "Tf", (), "s", "time constant of the derivative filter", self.Tf or 0.0, min=0.0
                )
            )
        if self._winds_up:
            Tt = broadcast_start(self._anti_windup_time, shape)
            ports.append(Port("Tt", shape, "s", "time constant of anti-windup", Tt, positive=True))
        return (*ports, *limit_ports(shape, self.unit, self.lower, self.upper))

    @property
    def _anti_windup_time(self) -> Any:
        """Time constant Tt [s] of anti-windup.

        The default is kp / ki. For elements with ki = 0, the default is 1 s.
        """
        if self.Tt is not None:
            return self.Tt
        kp, ki = np.broadcast_arrays(np.asarray(self.kp, float), np.asarray(self.ki, float))
        return np.divide(kp, ki, out=np.ones_like(kp), where=ki != 0)

    def _clamp_output(self, v: Any, p: Record) -> Any:
        return clamp(v, self.lower is not None, self.upper is not None, p)

    def _integral_rate(self, u: Record, p: Record, y: Any, v: Any) -> Any:
        rate = p.ki * (u.ref - u.meas)
        return rate + (y - v) / p.Tt if self._winds_up else rate

    def _v(self, x: Record, u: Record, p: Record, D: Any) -> Any:
        v = p.kp * (self.b * u.ref - u.meas)
        v = v + x.I if self._integrates else v
        return v + D if self._differentiates else v

    def derivative(self, x: Record, u: Record, p: Record) -> Values:
        if self.sample_time:
            return {}
        rate = (self.c * u.ref - u.meas - x.x) / p.Tf if self._differentiates else 0.0
        v = self._v(x, u, p, p.kd * rate if self._differentiates else 0.0)
        values = {"x": rate} if self._differentiates else {}
        if self._integrates:
            values["I"] = self._integral_rate(u, p, self._clamp_output(v, p), v)
        return values

    def output(self, x: Record, u: Record, p: Record) -> Values:
        if self.sample_time:
            return {}
        D = p.kd * ((self.c * u.ref - u.meas - x.x) / p.Tf) if self._differentiates else 0.0
        return {"y": self._clamp_output(self._v(x, u, p, D), p)}

    def initial(self, x: Record, u: Record, p: Record) -> Values:
        """Return the sampled states after the first sample; the derivative part is zero."""
        e = self.c * u.ref - u.meas
        return self._sample(x, u, p, 0.0 * e, e) if self.sample_time else {}

    def update(self, x: Record, u: Record, p: Record) -> Values:
        if not self.sample_time:
            return {}
        e = self.c * u.ref - u.meas
        D: Any = 0.0
        if self._differentiates:
            D = (p.Tf * x.D + p.kd * (e - x.e_last)) / (p.Tf + self.sample_time)
        return self._sample(x, u, p, D, e)

    def _sample(self, x: Record, u: Record, p: Record, D: Any, e: Any) -> Values:
        v = self._v(x, u, p, D)
        values = {"y": (y := self._clamp_output(v, p))}
        if self._integrates:
            assert self.sample_time is not None
            values["I"] = x.I + self.sample_time * self._integral_rate(u, p, y, v)
        return values | ({"D": D, "e_last": e} if self._differentiates else {})


class ModelBasedController(Block):
    """Base class of controllers that compute joint forces from the model of a robot.

    If the model has loops, `actuated` contains the names or indices of the actuated joints, by
    default all joints.
    """

    model: Model
    actuated: tuple[str | int, ...] | None

    def __post_init__(self) -> None:
        check_model(self.model)
        _check_actuated(self.model, self.actuated)

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """Output ports for the joint forces tau (nv,), and for `missed` if the model has loops."""
        return _force_ports(self.model)

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """Port of the parameter gravity (3,) [m/s^2]."""
        return (gravity_port(self.model),)


@dataclass(frozen=True, eq=False)
class InverseDynamicsController(ModelBasedController):
    """Computed-torque controller, which cancels the dynamics of a robot.

        tau = rnea(q, qd, qdd_ref + kp e + kd (qd_ref - qd)),  e = q_ref - q
        d2e/dt2 + kd de/dt + kp e = 0        if the model is exact

    At a joint with several degrees of freedom, e is the constant joint velocity that moves the
    joint from q to q_ref in unit time. `kp` [1/s^2] and `kd` [1/s] are scalars or have the shape
    (nv,). The parameter `gravity` defaults to the gravity of the model.

    If the model has loops, only the joints in `actuated` (by default all joints) have actuators.
    Their forces tau have the same effect as the result of rnea for the spanning tree
    (`loops.actuator_forces`). If the actuators can produce the accelerations, the error obeys

        G^T H (d2e/dt2 + kd de/dt + kp e) = 0

    H is the joint-space inertia matrix. G maps independent velocities yd to the joint velocities
    that satisfy the loop constraints, qd = G yd.

    Raises:
        ValueError: A joint in `actuated` is unknown, or `actuated` is given for a model without
            loops, in which all joints are actuated.
    """

    model: Model
    kp: Any
    kd: Any
    actuated: tuple[str | int, ...] | None = None

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """Input ports for the reference motion and for the measured motion q and qd.

        The reference motion consists of q_ref, qd_ref and qdd_ref.
        """
        q, qd, _, _ = joint_units(self.model.joint)
        return (
            *_reference_ports(self.model),
            Port("q", (self.model.nq,), q, "measured position"),
            Port("qd", (self.model.nv,), qd, "measured velocity"),
        )

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """Parameter ports for the gains kp [1/s^2] and kd [1/s] (nv,), and for gravity (3,)."""
        return (
            Port("kp", (self.model.nv,), "1/s2", "position gain", self.kp, min=0.0),
            Port("kd", (self.model.nv,), "1/s", "velocity gain", self.kd, min=0.0),
            gravity_port(self.model),
        )

    def output(self, u: Record, p: Record) -> Values:
        e = _position_error(self.model, u.q, u.q_ref)
        qdd = u.qdd_ref + p.kp * e + p.kd * (u.qd_ref - u.qd)
        tau = rnea(self.model, u.q, u.qd, qdd, gravity=p.gravity)
        return _actuator_outputs(self.model, u.q, tau, self.actuated)


@dataclass(frozen=True, eq=False)
class FeedForward(ModelBasedController):
    """Feedforward controller, which computes the joint forces of a planned motion.

        tau = rnea(q_ref, qd_ref, qdd_ref)

    Add the forces of a feedback controller to tau. If the model has loops, only the joints in
    `actuated` (by default all joints) have actuators. Their forces u, which the output tau
    contains, produce the planned motion (RBDA 8.12):

        G_u^T u = G^T tau_ID

    tau_ID is the result of rnea for the spanning tree. G maps independent velocities yd to the
    joint velocities, qd = G yd. G_u contains the rows of G for the actuated joints.

    If the actuation is redundant, the forces have the smallest sum of squares. The output `missed`
    is the acceleration that the actuators cannot produce, because the mechanism is underactuated or
    the planned motion violates the loop constraints. The parameter `gravity` defaults to the
    gravity of the model.

    Raises:
        ValueError: A joint in `actuated` is unknown, or `actuated` is given for a model without
            loops.
    """

    model: Model
    actuated: tuple[str | int, ...] | None = None

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """Input ports for the planned motion q_ref (nq,), qd_ref (nv,) and qdd_ref (nv,)."""
        return _reference_ports(self.model)

    def output(self, u: Record, p: Record) -> Values:
        tau = rnea(self.model, u.q_ref, u.qd_ref, u.qdd_ref, gravity=p.gravity)
        return _actuator_outputs(self.model, u.q_ref, tau, self.actuated)


@dataclass(frozen=True, eq=False)
class GravityCompensation(ModelBasedController):
    """Gravity compensation, which computes the joint forces that hold a robot at rest.

        tau = rnea(q, 0, 0)

    The parameter `gravity` defaults to the gravity of the model. If the model has loops, only the
    joints in `actuated` (by default all joints) have actuators. Their forces tau have the same
    effect as the result of rnea for the spanning tree (`loops.actuator_forces`). If the mechanism
    is underactuated, the output `missed` [rad/s^2 or m/s^2] is the acceleration that the actuators
    cannot produce.

    Raises:
        ValueError: A joint in `actuated` is unknown, or `actuated` is given for a model without
            loops.
    """

    model: Model
    actuated: tuple[str | int, ...] | None = None

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """Input port for the joint positions q (nq,)."""
        return joint_ports(self.model, q="measured positions")

    def output(self, u: Record, p: Record) -> Values:
        still = np.zeros(self.model.nv)
        tau = rnea(self.model, u.q, still, still, gravity=p.gravity)
        return _actuator_outputs(self.model, u.q, tau, self.actuated)


def _reference_ports(model: Model) -> tuple[Port, ...]:
    q, qd, qdd, _ = joint_units(model.joint)
    return (
        Port("q_ref", (model.nq,), q, "reference position"),
        Port("qd_ref", (model.nv,), qd, "reference velocity", 0.0),
        Port("qdd_ref", (model.nv,), qdd, "reference acceleration", 0.0),
    )


def _check_actuated(model: Model, actuated: tuple[str | int, ...] | None) -> None:
    if actuated is not None and not model.has_constraints:
        raise ValueError(
            f"model '{model.name}' has no loops, so all of its joints are actuated; `actuated` "
            f"must be None, not {', '.join(map(str, actuated))}"
        )
    actuated_columns(model, actuated)


def _force_ports(model: Model) -> tuple[Port, ...]:
    """Return the output port tau of a controller, and the port `missed` if the model has loops."""
    tau = joint_ports(model, tau="joint forces")
    if not model.has_constraints:
        return tau
    units, text = joint_units(model.joint).qdd, "accelerations that the actuators cannot produce"
    return (*tau, Port("missed", (model.nv,), units, text))


def _actuator_outputs(
    model: Model, q: Array, tau: Array, actuated: tuple[str | int, ...] | None
) -> dict[str, Any]:
    """Return the outputs `tau` and `missed` for joint forces tau of the spanning tree.

    Args:
        model: Model of the robot.
        q: Joint positions (nq,).
        tau: Joint forces that the spanning tree requires (nv,).
        actuated: Names or indices of the actuated joints; None: all joints.

    Returns:
        Output values by port name. `tau` (nv,) contains the forces of the actuated joints. If the
        model has loops, `missed` (nv,) contains the accelerations that these forces cannot produce.
    """
    if not model.has_constraints:
        return {"tau": tau}
    forces = actuator_forces(model, q, tau, actuated)
    return {"tau": forces.tau, "missed": forces.missed}


def _position_error(model: Model, q: Array, q_ref: Array) -> Array:
    """Return the position error (nv,) of all joints.

    The error of a joint is the constant velocity that moves it from q to q_ref in unit time.
    """
    places = zip(model.joint, model.q_slices, strict=True)
    return np.concatenate([joint.difference(q[k], q_ref[k]) for joint, k in places])
