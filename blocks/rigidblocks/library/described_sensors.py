"""Plant with additional outputs for the sensors of a robot file."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import count
from math import gcd, lcm
from typing import Any, NamedTuple

import numpy as np

from rigidblocks.block.block import Port, Record, StartRelation, Values, call
from rigidblocks.dynamics.body_lines import line_of
from rigidblocks.dynamics.force_elements import Length, Motion
from rigidblocks.dynamics.kinematics import (
    body_accelerations,
    body_poses,
    body_velocities,
    classical_acceleration,
)
from rigidblocks.library.plant_ports import Elements
from rigidblocks.library.plants import Plant
from rigidblocks.library.sensors import check_seed, normal_quantile, uniform_noise
from rigidblocks.robot.ray_casting import NO_HIT, RayFan, cast_rays, group_by_body
from rigidblocks.robot.robot_description import Place, Sensor
from rigidblocks.robot.tree import Tree
from rigidblocks.spatial.rigid_motion import quaternion_from_rotation
from rigidblocks.spatial.scalar import clip, less, minimum, select
from rigidblocks.spatial.spatial import Array, Transform, cross, cross_force, identity


class Quantity(NamedTuple):
    """Quantity that a sensor measures.

    Attributes:
        shape: Shape of the value.
        unit: Unit of the value; "" if the unit depends on the joint.
        doc: Description.
        degree: Order of the highest time derivative of q on which the value depends, 0 to 2.
    """

    shape: tuple[int, ...]
    unit: str
    doc: str
    degree: int


QUANTITIES = {
    "accelerometer": Quantity((3,), "m/s2", "acceleration minus gravity, sensor coordinates", 2),
    "velocimeter": Quantity((3,), "m/s", "velocity, sensor coordinates", 1),
    "gyro": Quantity((3,), "rad/s", "angular velocity, sensor coordinates", 1),
    "magnetic_field": Quantity((3,), "V.s/m2", "magnetic field, sensor coordinates", 0),
    "position": Quantity((3,), "m", "position", 0),
    "quaternion": Quantity((4,), "1", "orientation, scalar first and not negative", 0),
    "x_axis": Quantity((3,), "1", "x axis", 0),
    "y_axis": Quantity((3,), "1", "y axis", 0),
    "z_axis": Quantity((3,), "1", "z axis", 0),
    "velocity": Quantity((3,), "m/s", "velocity of the origin", 1),
    "angular_velocity": Quantity((3,), "rad/s", "angular velocity", 1),
    "acceleration_without_gravity": Quantity(
        (3,), "m/s2", "acceleration minus gravity, base coordinates", 2
    ),
    "angular_acceleration": Quantity((3,), "rad/s2", "angular acceleration, base coordinates", 2),
    "range": Quantity((), "m", "distance along the z axis to the nearest shape, -1 if none", 0),
    "ranges": Quantity((), "m", "distances along the rays, within the limits of the lidar", 0),
    "force": Quantity((3,), "N", "force on the outboard bodies, sensor coordinates", 2),
    "torque": Quantity((3,), "N.m", "moment on the outboard bodies, sensor coordinates", 2),
    "centre_of_mass": Quantity((3,), "m", "centre of mass, base coordinates", 0),
    "mean_velocity": Quantity((3,), "m/s", "velocity of the centre of mass", 1),
    "angular_momentum": Quantity(
        (3,), "N.m.s", "angular momentum about the centre of mass, base coordinates", 1
    ),
    "joint_position": Quantity((), "", "position", 0),
    "joint_velocity": Quantity((), "", "velocity", 1),
    "line_length": Quantity((), "", "length", 0),
    "line_velocity": Quantity((), "", "time derivative of the length", 1),
    "joint_force": Quantity((), "", "force of the actuators", 2),
    "ball_quaternion": Quantity((4,), "1", "orientation of the joint, scalar first", 0),
    "ball_velocity": Quantity((3,), "rad/s", "angular velocity of the joint", 1),
    "time": Quantity((), "s", "time", 0),
    "potential_energy": Quantity((), "J", "potential energy in gravity", 0),
    "kinetic_energy": Quantity((), "J", "kinetic energy, with the rotors", 1),
    "altitude": Quantity((), "m", "height above the initial height", 0),
    "vertical_velocity": Quantity((), "m/s", "vertical velocity", 1),
}

_ALONG_Z = np.array([[0.0, 0.0, 1.0]])
_FORCE_UNITS = {"m": "N", "rad": "N.m", "1": "1"}
_BIASES = 2**24  # first random stream of the constant biases, above the streams of the noise
_WALKS = 2**25  # first random stream of the bias walks


@dataclass(frozen=True, eq=False)
class SensedPlant(Plant):
    """Plant of a robot with additional outputs for the sensors in the robot's file.

    Each sensor has an output with the name of the sensor. In this name, underscores replace
    characters that are not allowed in identifiers. If the plant has a port with the name 'com', the
    output of a sensor 'com' is `sensor_com`. If two sensors have the name 'imu', the outputs are
    `imu` and `imu_2`. `renamed_sensors` lists these changes.

    The output of a continuous sensor is a function of the states and inputs. A sampled sensor holds
    its output between its samples and has the errors that its `Sampling` defines. If the file
    defines noise, the sensor has the parameters `<name>_deviation` and `<name>_bias`. The random
    values depend only on the seed, the sensor and the sample index (`uniform_noise`). They are
    therefore equal in all forms of execution (NumPy, traced and compiled).

    A force sensor measures the force from the inboard body on the outboard bodies. The sum of this
    force, gravity and the external wrenches `f_ext` accelerates the outboard bodies. The sensor
    value includes the forces of springs between bodies, drag and gravity compensation.

    Args:
        plant: Plant of the robot.
        sensors: Sensors, with body and joint indices of `plant.model`.
        seed: Seed of the random values, an integer from 0 to 2^52 - 1.
        armature: Reflected rotor inertias (nv,) for the kinetic energy [kg m^2 or kg].

    Raises:
        ValueError: The seed is invalid. A force sensor belongs to a robot with loops. The periods
            of two sampled sensors have no common divisor of at least 1 us.
    """

    plant: Plant
    sensors: tuple[Sensor, ...]
    seed: int = 0
    armature: Any = 0.0

    def __post_init__(self) -> None:
        check_seed(self.seed)
        object.__setattr__(self, "sensors", tuple(self.sensors))
        for sensor in self.sensors:
            if sensor.quantity in ("force", "torque") and self.model.has_constraints:
                raise ValueError(
                    f"sensor '{sensor.name}' measures forces, which needs a robot without loops; "
                    f"model '{self.model.name}' has loops"
                )
        _ = self.sample_time

    # ---- the plant ----

    @property
    def model(self) -> Tree:  # type: ignore[override]
        """Model of the plant."""
        return self.plant.model

    @property
    def q0(self) -> Any:
        """Initial configuration of the plant."""
        return getattr(self.plant, "q0")  # noqa: B009 - a base class without this field

    @property
    def configuration_model(self) -> Tree:
        return self.plant.configuration_model

    def configuration(self, x: Record) -> tuple[Array, Array]:
        return self.plant.configuration(x)

    @property
    def force_elements(self) -> Elements:
        return self.plant.force_elements

    def add_wrench_input(self) -> "SensedPlant":
        return replace(self, plant=self.plant.add_wrench_input())

    @property
    def inputs(self) -> tuple[Port, ...]:
        """Input ports of the plant."""
        return self.plant.inputs

    @property
    def states(self) -> tuple[Port, ...]:
        """State ports of the plant."""
        return self.plant.states

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """Output ports of the plant, and an output port for each sensor."""
        return (*self.plant.outputs, *self._ports)

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """Parameter ports of the plant; for each sensor with noise, also its deviation and bias."""
        more = []
        for k, (sensor, port) in enumerate(zip(self.sensors, self._ports, strict=True)):
            if not _has_noise(sensor):
                continue
            deviation = _values(sensor.sampling.deviation, port)
            bias = self._start_bias(k)
            text = f"of {port.name}"
            name = port.name
            more += [
                Port(f"{name}_deviation", port.shape, port.unit, f"noise {text}", deviation, min=0),
                Port(f"{name}_bias", port.shape, port.unit, f"constant error {text}", bias),
            ]
        return (*self.plant.parameters, *more)

    @property
    def start_relations(self) -> tuple[StartRelation, ...]:
        return self.plant.start_relations

    def derivative(self, t: Any, x: Record, u: Record, p: Record) -> Values:
        return call(self.plant, "derivative", t, x, u, p)

    def project(self, t: Any, x: Record, u: Record, p: Record) -> Values:
        return call(self.plant, "project", t, x, u, p)

    def modes(self, x: Record, p: Record) -> Array:
        return self.plant.modes(x, p)

    @property
    def conditions(self) -> tuple[tuple[str, str], ...]:
        return self.plant.conditions

    def remarks(self, t: Array, y: Record) -> Any:
        return self.plant.remarks(t, y)

    # ---- ports of the sensors ----

    @cached_property
    def _ports(self) -> tuple[Port, ...]:
        own = self.plant
        of_plant = {port.name for port in (*own.inputs, *own.outputs, *own.states, *own.parameters)}
        of_plant.add(_TICK)
        taken = {*of_plant}
        found = []
        for sensor in self.sensors:
            name = _identifier(sensor.name)
            if of_plant & _names(name):
                name = f"sensor_{name}"
            candidates = (f"{name}_{k}" if k > 1 else name for k in count(1))
            name = next(each for each in candidates if not taken & _names(each))
            taken |= _names(name)
            of = QUANTITIES[sensor.quantity]
            start = 0.0 if self._is_sampled(sensor) else None
            text = f"{of.doc}{' relative to its reference frame' if sensor.reference else ''}"
            shape = of.shape if sensor.directions is None else (len(sensor.directions),)
            found.append(Port(name, shape, of.unit or _unit(sensor), f"sensor: {text}", start))
        return tuple(found)

    @property
    def renamed_sensors(self) -> tuple[str, ...]:
        """Warnings about sensor outputs whose names differ from the names in the file.

        If the line number of the sensor in the robot file is known, the warning begins with it.
        """
        found = []
        for sensor, port in zip(self.sensors, self._ports, strict=True):
            name = _identifier(sensor.name)
            if port.name == name:
                continue
            owner = "the plant" if port.name.startswith(f"sensor_{name}") else "another sensor"
            where = f"line {sensor.line}: " if sensor.line else ""
            text = f"the output of sensor '{sensor.name}' is {port.name}: {owner} has this name"
            found.append(f"{where}{text}")
        return tuple(found)

    @staticmethod
    def _is_sampled(sensor: Sensor) -> bool:
        return sensor.sampling.period > 0.0

    @cached_property
    def _sampled_sensors(self) -> tuple[tuple[int, Sensor, Port], ...]:
        each = zip(self.sensors, self._ports, strict=True)
        return tuple(
            (k, sensor, p) for k, (sensor, p) in enumerate(each) if self._is_sampled(sensor)
        )

    @cached_property
    def sample_time(self) -> float | None:  # type: ignore[override]
        """Greatest common divisor of the periods of the sampled sensors [s], or None."""
        periods = sorted({s.sampling.period for s in self.sensors if self._is_sampled(s)})
        if not periods:
            return None
        exact = [Fraction(period) for period in periods]
        if len(periods) > 1:
            exact = [period.limit_denominator(_MOST_PER_SECOND) for period in exact]
        common = Fraction(gcd(*(p.numerator for p in exact)), lcm(*(p.denominator for p in exact)))
        wrong = any(abs(float(p) - q) > 1e-9 * q for p, q in zip(exact, periods, strict=True))
        if wrong or common * _MOST_PER_SECOND < 1 - 1e-9:
            raise ValueError(
                f"the periods {periods} s of the sensors of model '{self.model.name}' need a "
                f"common divisor of at least {1 / _MOST_PER_SECOND:g} s"
            )
        return float(common)

    @cached_property
    def _periods(self) -> tuple[int, ...]:
        """Sampling period of each sensor as a multiple of `sample_time`; 0 if it is continuous."""
        return tuple(
            round(sensor.sampling.period / self.sample_time) if self.sample_time else 0
            for sensor in self.sensors
        )

    @cached_property
    def sampled(self) -> tuple[Port, ...]:
        """Sampled state ports for outputs, delayed samples, bias walks and the sample index."""
        found = []
        for _, sensor, port in self._sampled_sensors:
            found.append(port)
            if sensor.sampling.delay:
                shape = (sensor.sampling.delay, *port.shape)
                text = "delayed samples, oldest first"
                found.append(Port(f"{port.name}_way", shape, port.unit, text, 0.0))
            if any(sensor.sampling.walk):
                found.append(
                    Port(f"{port.name}_walk", port.shape, port.unit, "random walk of the bias", 0.0)
                )
        tick = Port(_TICK, (), "1", "index of the next sample of the sensors", 0.0)
        return (*found, tick) if found else ()

    @cached_property
    def _streams(self) -> tuple[int, ...]:
        """Index of the first random stream of each sensor (`uniform_noise`).

        Each element of the sensor output has its own stream. The last entry is the total number of
        streams.
        """
        sizes = [port.size for port in self._ports]
        return tuple(int(n) for n in np.concatenate([[0], np.cumsum(sizes)]))

    def _start_bias(self, k: int) -> Array:
        """Return the constant bias of sensor k: its mean plus a random value."""
        sensor, port = self.sensors[k], self._ports[k]
        size = _values(sensor.sampling.bias, port)
        random = self._normal(k, 0.0, _BIASES)
        return np.asarray(_values(sensor.sampling.mean, port) + size * random)

    def _normal(self, k: int, tick: Any, stream_offset: int = 0) -> Any:
        """Return standard normal random values with the shape of the output of sensor k.

        `tick` is the sample index. `stream_offset` is added to the indices of the random streams.
        """
        port, stream = self._ports[k], stream_offset + self._streams[k]
        words = [uniform_noise(self.seed, tick, stream + i) for i in range(port.size)]
        values = np.array([normal_quantile(word) for word in words]).reshape(port.shape)
        return values if port.shape else values[()]

    # ---- values ----

    def initial(self, t: Any, x: Record, u: Record, p: Record) -> Values:
        """Return the sampled states after the first sample.

        All delayed samples are equal to the first sample.
        """
        if not self._sampled_sensors:
            return {}
        measured = self._measure(t, x, u, p, only_sampled=True)
        values: dict[str, Any] = {_TICK: x.sensor_tick + 1.0}
        for k, sensor, port in self._sampled_sensors:
            walk = 0.0 * getattr(x, f"{port.name}_walk") if any(sensor.sampling.walk) else 0.0
            sample = self._add_sensor_errors(k, measured[port.name], 0.0, walk, p)
            values[port.name] = sample
            if sensor.sampling.delay:
                values[f"{port.name}_way"] = np.array([sample] * sensor.sampling.delay)
            if any(sensor.sampling.walk):
                values[f"{port.name}_walk"] = walk
        return values

    def update(self, t: Any, x: Record, u: Record, p: Record) -> Values:
        if not self._sampled_sensors:
            return {}
        measured = self._measure(t, x, u, p, only_sampled=True)
        values: dict[str, Any] = {_TICK: x.sensor_tick + 1.0}
        for k, sensor, port in self._sampled_sensors:
            n, name = self._periods[k], port.name
            index = np.floor(x.sensor_tick * (1.0 / n) + 0.5 / n) if n > 1 else x.sensor_tick
            due = abs(x.sensor_tick - n * index) < 0.5
            changed: dict[str, Any] = {}
            walk: Any = 0.0
            if any(sensor.sampling.walk):
                walk = self._next_walk(k, getattr(x, f"{name}_walk"), index)
                changed[f"{name}_walk"] = walk
            sample = self._add_sensor_errors(k, measured[name], index, walk, p)
            if sensor.sampling.delay:
                way = getattr(x, f"{name}_way")
                changed[f"{name}_way"] = np.array([*way[1:], sample])
                sample = way[0]
            changed[name] = sample
            values |= {
                key: select(due, value, getattr(x, key)) if n > 1 else value
                for key, value in changed.items()
            }
        return values

    def _next_walk(self, k: int, walk: Any, index: Any) -> Any:
        sensor, port = self.sensors[k].sampling, self._ports[k]
        T, s = _values(sensor.walk_time, port), _values(sensor.walk, port)
        kept = np.exp(-sensor.period / np.where(T > 0, T, np.inf))
        step = s * np.sqrt(np.where(T > 0, T * (1.0 - kept * kept) / 2.0, 0.0))
        return kept * walk + step * self._normal(k, index, _WALKS)

    def _add_sensor_errors(self, k: int, value: Any, index: Any, walk: Any, p: Record) -> Any:
        """Return a sample of sensor k with noise, bias, quantization and saturation.

        Args:
            k: Index of the sensor.
            value: Value of the measured quantity without sensor errors.
            index: Index of the sample.
            walk: Value of the random walk of the bias.
            p: Parameters.
        """
        sensor, port = self.sensors[k], self._ports[k]
        exact = value
        if _has_noise(sensor):
            noise = getattr(p, f"{port.name}_deviation") * self._normal(k, index)
            value = value + getattr(p, f"{port.name}_bias") + walk + noise
        step = _values(sensor.sampling.resolution, port)
        if np.any(step):
            safe = np.where(step > 0, step, 1.0)
            rounded = safe * np.floor(value / safe + 0.5)
            value = rounded if np.all(step > 0) else np.where(step > 0, rounded, value)
        if sensor.directions is not None:  # as in Gazebo, rays without a hit have no noise
            value = select(less(exact, sensor.limits[1]), value, exact)
        return _saturate(value, sensor)

    def output(self, t: Any, x: Record, u: Record, p: Record) -> Values:
        values = dict(call(self.plant, "output", t, x, u, p))
        return values | self._measure(t, x, u, p, only_sampled=False, known=values)

    def _measure(
        self,
        t: Any,
        x: Record,
        u: Record,
        p: Record,
        only_sampled: bool,
        known: Values | None = None,
    ) -> dict[str, Any]:
        """Return the values of the sampled sensors or of the continuous sensors, by port name.

        If `only_sampled` is True, the values are from the sampled sensors, without sensor errors.
        Otherwise they are from the continuous sensors, limited to the cutoffs of the sensors.
        `known` contains the plant outputs, or is None if the caller has not computed them.
        """
        chosen = [
            (sensor, port)
            for sensor, port in zip(self.sensors, self._ports, strict=True)
            if self._is_sampled(sensor) == only_sampled
        ]
        if not chosen:
            return {}
        motion = self._motion(t, x, u, p, max(_degree(sensor) for sensor, _ in chosen), known)
        values = {port.name: motion.value(sensor) for sensor, port in chosen}
        if only_sampled:
            return values
        return {port.name: _saturate(values[port.name], sensor) for sensor, port in chosen}

    def _motion(
        self, t: Any, x: Record, u: Record, p: Record, degree: int, known: Values | None
    ) -> "_Motion":
        q, qd = self.plant.configuration(x)
        q, qd = self.plant.force_elements.project_to_gears(q, qd, p)
        model = self.plant.configuration_model
        qdd: Any = np.zeros(model.nv)
        if degree == 2:
            given = call(self.plant, "output", t, x, u, p) if known is None else known
            parts = [given[name] for name in ("acceleration", "qdd") if name in given]
            qdd = np.concatenate(parts)
        tau = getattr(u, "tau", np.zeros(0)) if "tau" in vars(u) else np.zeros(0)
        of_drives = self.plant.force_elements.drive_forces(q, qd, x, p, u)
        if of_drives is not None and len(tau):
            tau = tau + of_drives[-len(tau) :]
        f_ext = u.f_ext if "f_ext" in vars(u) else None
        first = self.model.nb - model.nb
        heights = self._start_heights
        return _Motion(
            model, first, t, q, qd, qdd, tau, f_ext, p.gravity, self.armature, heights, degree
        )

    @cached_property
    def _start_heights(self) -> dict[str, float]:
        """Height of each altimeter in the initial configuration [m], by sensor name."""
        altimeters = [sensor for sensor in self.sensors if sensor.quantity == "altitude"]
        if not altimeters:
            return {}
        x = Record({port.name: np.asarray(port.start, float) for port in self.plant.states})
        model = self.plant.configuration_model
        poses = body_poses(model, self.plant.configuration(x)[0])
        first = self.model.nb - model.nb
        places = {sensor.name: (sensor.body - first, sensor.placement) for sensor in altimeters}
        return {
            name: float((X @ poses[b] if b >= 0 else X).r[2]) for name, (b, X) in places.items()
        }


_MOST_PER_SECOND = 1_000_000  # largest number of sample times per second
_TICK = "sensor_tick"
_MORE = ("deviation", "bias", "way", "walk")


def _names(output: str) -> set[str]:
    """Return the port names of a sensor: its output, its parameters and its states."""
    return {output, *(f"{output}_{word}" for word in _MORE)}


def _identifier(name: str) -> str:
    plain = "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in name)
    return plain if plain[:1].isalpha() else f"sensor_{plain}"


def _unit(sensor: Sensor) -> str:
    """Return the unit of a sensor that measures a joint position, velocity or force."""
    if sensor.quantity == "joint_force":
        return _FORCE_UNITS[sensor.unit]
    is_position = sensor.quantity in ("joint_position", "line_length")
    return sensor.unit if is_position else _RATES[sensor.unit]


_RATES = {"m": "m/s", "rad": "rad/s", "1": "1/s"}


def _degree(sensor: Sensor) -> int:
    return QUANTITIES[sensor.quantity].degree


def _has_noise(sensor: Sensor) -> bool:
    s = sensor.sampling
    return any(map(any, (s.deviation, s.mean, s.bias, s.walk)))


def _values(numbers: tuple[float, ...], port: Port) -> Array:
    """Return `numbers` in the shape of a port; return zeros if `numbers` is empty."""
    return np.array(numbers if len(numbers) else (0.0,) * port.size, dtype=float).reshape(
        port.shape
    )


def _saturate(value: Any, sensor: Sensor) -> Any:
    """Limit a sensor value to the cutoff of the sensor.

    The range limits of a lidar also apply. The value of a range sensor is -1 if its ray hits no
    shape. As in MuJoCo, the cutoff limits this value too.
    """
    low, high = max(sensor.limits[0], -sensor.cutoff), min(sensor.limits[1], sensor.cutoff)
    return clip(value, low, high) if np.isfinite(high) else value


@dataclass(frozen=True, eq=False)
class _Motion:
    """Motion of a robot at one instant, with methods that compute the sensor values.

    Attributes:
        model: Model with the joint variables q, qd and qdd.
        body_offset: Body index that the sensors use for body 0 of `model`.
        t: Time [s].
        q: Joint positions (nq,).
        qd: Joint velocities (nv,).
        qdd: Joint accelerations (nv,).
        tau: Sum of the input forces and the drive forces, for the last elements of qd.
        f_ext: External wrenches on the bodies (nb, 6), or None.
        gravity: Acceleration of gravity (3,) [m/s^2].
        armature: Rotor inertias (nv,).
        heights: Initial height of each altimeter [m], by sensor name.
        degree: Order of the highest known time derivative of q, 0 to 2.
    """

    model: Any
    body_offset: int
    t: Any
    q: Array
    qd: Array
    qdd: Array
    tau: Array
    f_ext: Array | None
    gravity: Array
    armature: Any
    heights: dict[str, float]
    degree: int

    @cached_property
    def _poses(self) -> list[Any]:
        return [*body_poses(self.model, self.q), identity()]  # the index -1 is the base

    @cached_property
    def _velocities(self) -> list[Any]:
        if self.degree == 0:
            return [np.zeros(6)] * (self.model.nb + 1)
        return [*body_velocities(self.model, self.q, self.qd), np.zeros(6)]

    @cached_property
    def _accelerations(self) -> list[Any]:
        return [*body_accelerations(self.model, self.q, self.qd, self.qdd), np.zeros(6)]

    def value(self, sensor: Sensor) -> Any:
        """Return the value of a sensor without sensor errors."""
        of: Any = getattr(self, f"_{sensor.quantity}")
        return of(sensor)

    def _index(self, body: int) -> int:
        return max(body - self.body_offset, -1)

    def _frame(self, place: Place) -> tuple[Any, Any]:
        """Return the pose of a frame, and its velocity (6,) in frame coordinates."""
        b = self._index(place.body)
        return place.placement @ self._poses[b], place.placement @ self._velocities[b]

    def _sensor_frame(self, sensor: Sensor) -> tuple[Any, Any]:
        return self._frame(Place(sensor.body, sensor.placement))

    def _reference(self, sensor: Sensor) -> tuple[Any, Any]:
        return (
            (identity(), np.zeros(6)) if sensor.reference is None else self._frame(sensor.reference)
        )

    def _classical(self, sensor: Sensor) -> tuple[Any, Any]:
        """Return the pose of a sensor, and its classical acceleration (6,).

        The acceleration is in sensor coordinates.
        """
        X, v = self._sensor_frame(sensor)
        a = sensor.placement @ self._accelerations[self._index(sensor.body)]
        return X, classical_acceleration(a, v)

    def _accelerometer(self, sensor: Sensor) -> Any:
        X, a = self._classical(sensor)
        return a[3:] - X.E @ self.gravity

    def _acceleration_without_gravity(self, sensor: Sensor) -> Any:
        X, a = self._classical(sensor)
        return X.E.T @ a[3:] - self.gravity

    def _angular_acceleration(self, sensor: Sensor) -> Any:
        X, a = self._classical(sensor)
        return X.E.T @ a[:3]

    def _velocimeter(self, sensor: Sensor) -> Any:
        return self._sensor_frame(sensor)[1][3:]

    def _gyro(self, sensor: Sensor) -> Any:
        return self._sensor_frame(sensor)[1][:3]

    def _magnetic_field(self, sensor: Sensor) -> Any:
        return self._sensor_frame(sensor)[0].E @ np.array(sensor.vector)

    def _position(self, sensor: Sensor) -> Any:
        X, Y = self._sensor_frame(sensor)[0], self._reference(sensor)[0]
        return Y.E @ (X.r - Y.r)

    def _quaternion(self, sensor: Sensor) -> Any:
        q = quaternion_from_rotation(
            self._sensor_frame(sensor)[0].E @ self._reference(sensor)[0].E.T
        )
        return select(q[0] < 0.0, -q, q)

    def _axis(self, sensor: Sensor, k: int) -> Any:
        return self._reference(sensor)[0].E @ self._sensor_frame(sensor)[0].E[k]

    def _x_axis(self, sensor: Sensor) -> Any:
        return self._axis(sensor, 0)

    def _y_axis(self, sensor: Sensor) -> Any:
        return self._axis(sensor, 1)

    def _z_axis(self, sensor: Sensor) -> Any:
        return self._axis(sensor, 2)

    def _velocity(self, sensor: Sensor) -> Any:
        (X, v), (Y, u) = self._sensor_frame(sensor), self._reference(sensor)
        w = Y.E.T @ u[:3]
        moving = Y.E.T @ u[3:] + cross(w, X.r - Y.r)
        return Y.E @ (X.E.T @ v[3:] - moving)

    def _angular_velocity(self, sensor: Sensor) -> Any:
        (X, v), (Y, u) = self._sensor_frame(sensor), self._reference(sensor)
        return Y.E @ (X.E.T @ v[:3]) - u[:3]

    def _range(self, sensor: Sensor) -> Any:
        X = self._sensor_frame(sensor)[0]
        best: Any = NO_HIT
        for body, scene in group_by_body(sensor.obstacles).items():
            Y = self._poses[self._index(body)]
            fan = RayFan(scene, _ALONG_Z)
            best = minimum(best, cast_rays(fan, Y.E @ (X.r - Y.r), Y.E @ X.E.T)[0])
        return select(best < NO_HIT, best, -1.0)

    def _ranges(self, sensor: Sensor) -> Any:
        X, directions = self._sensor_frame(sensor)[0], np.asarray(sensor.directions)
        best: Any = np.full(len(directions), NO_HIT)
        for body, scene in group_by_body(sensor.obstacles).items():
            Y = self._poses[self._index(body)]
            fan = RayFan(scene, directions, sensor.limits[0])
            best = minimum(best, cast_rays(fan, Y.E @ (X.r - Y.r), Y.E @ X.E.T))
        return minimum(best, np.full(len(directions), sensor.limits[1]))

    def _line(self, sensor: Sensor) -> Length:
        """Return the length along the path of a sensor, without the sensor coefficient."""
        assert sensor.path is not None
        frames = [(self._index(body), X) for body, X in sensor.path.frames]
        line = line_of(sensor.path.kind, frames, sensor.path.numbers)
        motion = Motion(self.q, self.qd, self._poses, self._velocities)
        return line.length(self.model, motion)

    def _line_length(self, sensor: Sensor) -> Any:
        return sensor.coefficients[0] * self._line(sensor).s

    def _line_velocity(self, sensor: Sensor) -> Any:
        return sensor.coefficients[0] * self._line(sensor).sd

    def _altitude(self, sensor: Sensor) -> Any:
        return self._sensor_frame(sensor)[0].r[2] - self.heights[sensor.name]

    def _vertical_velocity(self, sensor: Sensor) -> Any:
        X, v = self._sensor_frame(sensor)
        return (X.E.T @ v[3:])[2]

    def _wrench(self, sensor: Sensor) -> tuple[Any, Any]:
        """Return the moment (3,) and the force (3,) that a force sensor measures.

        Both vectors act on the outboard bodies, and exclude the external wrenches on these bodies.
        They are in coordinates of the reference frame if the sensor has one, and otherwise in
        coordinates of the sensor frame. The sensor coefficient -1 reverses both vectors.
        """
        f: Any = np.zeros(6)
        for body, inertia in sensor.parts:
            b = self._index(body)
            X, v = self._poses[b], self._velocities[b]
            a = self._accelerations[b] - np.concatenate([np.zeros(3), X.E @ self.gravity])
            f = f + X.T @ (inertia @ a + cross_force(v, inertia @ v))
            if self.f_ext is not None and body >= 0:
                f = f - self.f_ext[body]
        X = self._sensor_frame(sensor)[0]
        found = X.force(f)
        if sensor.reference is not None:
            turn = self._reference(sensor)[0].E @ X.E.T
            found = np.concatenate([turn @ found[:3], turn @ found[3:]])
        sign = sensor.coefficients[0] if sensor.coefficients else 1.0
        return sign * found[:3], sign * found[3:]

    def _force(self, sensor: Sensor) -> Any:
        return self._wrench(sensor)[1]

    def _torque(self, sensor: Sensor) -> Any:
        return self._wrench(sensor)[0]

    def _centre_of_mass(self, sensor: Sensor) -> Any:
        moment = sum(m * X.r + X.E.T @ h for X, m, h in self._masses(sensor))
        return moment / sum(inertia.m for _, inertia in sensor.parts)

    def _masses(self, sensor: Sensor) -> Iterator[tuple[Transform, float, Array]]:
        for body, inertia in sensor.parts:
            yield self._poses[self._index(body)], inertia.m, inertia.h

    def _momentum(self, sensor: Sensor) -> Any:
        h: Any = np.zeros(6)
        for body, inertia in sensor.parts:
            b = self._index(body)
            h = h + self._poses[b].T @ (inertia @ self._velocities[b])
        return h

    def _mean_velocity(self, sensor: Sensor) -> Any:
        return self._momentum(sensor)[3:] / sum(inertia.m for _, inertia in sensor.parts)

    def _angular_momentum(self, sensor: Sensor) -> Any:
        h = self._momentum(sensor)
        return h[:3] - cross(self._centre_of_mass(sensor), h[3:])

    def _time(self, sensor: Sensor) -> Any:
        del sensor
        return self.t

    def _potential_energy(self, sensor: Sensor) -> Any:
        moment = sum(m * X.r + X.E.T @ h for X, m, h in self._masses(sensor))
        return -(self.gravity @ moment)

    def _kinetic_energy(self, sensor: Sensor) -> Any:
        T: Any = self.armature @ (self.qd * self.qd) / 2 if np.ndim(self.armature) else 0.0
        for body, inertia in sensor.parts:
            v = self._velocities[self._index(body)]
            T = T + v @ (inertia @ v) / 2
        return T

    def _slices(self, sensor: Sensor, slices: Any) -> list[slice]:
        return [slices[self._index(joint)] for joint in sensor.joints]

    def _joint_position(self, sensor: Sensor) -> Any:
        each = zip(sensor.coefficients, self._slices(sensor, self.model.q_slices), strict=True)
        return sum(c * self.q[k.start] for c, k in each) + sensor.offset

    def _joint_velocity(self, sensor: Sensor) -> Any:
        each = zip(sensor.coefficients, self._slices(sensor, self.model.v_slices), strict=True)
        return sum(c * self.qd[k.start] for c, k in each)

    def _joint_force(self, sensor: Sensor) -> Any:
        (k,) = self._slices(sensor, self.model.v_slices)
        return sensor.coefficients[0] * self.tau[k.start - (self.model.nv - len(self.tau))]

    def _ball_quaternion(self, sensor: Sensor) -> Any:
        (k,) = self._slices(sensor, self.model.q_slices)
        return self.q[k]

    def _ball_velocity(self, sensor: Sensor) -> Any:
        (k,) = self._slices(sensor, self.model.v_slices)
        return self.qd[k]
