"""Description of a robot from a file: the model, and data such as limits and sensors."""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.polynomial import Polynomial

from rigidblocks.common.arrays import floats_of_shape, is_frozen, read_only
from rigidblocks.common.display_hooks import Picture, picture
from rigidblocks.common.escaping import html_text
from rigidblocks.common.name_hints import AttributeHints
from rigidblocks.robot.model import Model, PlanarModel
from rigidblocks.robot.ray_casting import Obstacle
from rigidblocks.robot.shapes import Plane, Shape
from rigidblocks.spatial.spatial import Array, RigidInertia, Transform, identity


def unused_name(name: str, taken: Container[str]) -> str:
    """Return `name` if it is unused, else the first unused name of `name`_2, `name`_3, ..."""
    numbers = (f"{name}_{k}" for k in count(2))
    return name if name not in taken else next(one for one in numbers if one not in taken)


class Place(NamedTuple):
    """Placement of a named frame on a body.

    `body` is the index of the body, -1 for the base. `placement` is the transform from body to
    frame coordinates.
    """

    body: int
    placement: Transform

    @property
    def X(self) -> Transform:
        """The transform from body to frame coordinates (`placement`)."""
        return self.placement


class LineDescription(NamedTuple):
    """Description of the line of a tendon or of an actuator between frames of bodies.

    The field `kind` defines the meaning of `frames` and `numbers`. "path" is a tendon through the
    origins of the frames; the numbers are the weights of its segments. "site" is a wrench at the
    first frame; the numbers are the wrench [n; f] (6,) at a line force of 1, and the second frame
    is the reference frame. "crank" is a slider-crank; the frames are the crank pin and the slider,
    and the number is the length of the rod [m]. See `dynamics.body_lines`.
    """

    kind: str
    frames: tuple[Place, ...]
    numbers: tuple[float, ...]


class Coupling(NamedTuple):
    """Coupling that prescribes the position of a mimic joint.

        q_joint = ratio q_source + offset + sum of curve[k] q_source^(k + 2)

    `joint` and `source` are joint indices. Both joints have one degree of freedom.
    """

    joint: int
    source: int
    ratio: float
    offset: float
    curve: tuple[float, ...] = ()

    @property
    def polynomial(self) -> Polynomial:
        """Position of the joint as a polynomial of the position of the source."""
        return Polynomial([self.offset, self.ratio, *self.curve])


class Actuator(NamedTuple):
    """Actuator of a joint with one degree of freedom; `joint` is the joint index.

        force = (gain . s) a + bias . s,  s = (1, gear q, gear qd)        tau = gear force

    q and qd are the joint position and velocity, tau is the joint force, and a is the activation.
    `gain` (3,) and `bias` (3,) are the coefficients of s.

    `others` contains the indices of other joints and their weights. If it is not empty, q is the
    joint position plus the weighted sum of the positions of the other joints. Each other joint
    receives the torque weight * tau. If `line` is given, `joint` is -1, and the length and the
    velocity of the line replace q and qd.

    The field `motor` is "affine", "torque" if the command is the torque of a motor [N m], as in
    URDF, or "dc" if it is the voltage of a DC motor. `winding` contains the resistance, the
    inductance and the torque constant of this motor.

    `pid` contains ki, the position offset and kv of a PID controller. The controller adds
    ki a + kv u_v to the force, with da/dt = u - gear q - offset. The inputs u and u_v are the
    setpoints of position and velocity. If `feedforward` is True, another input adds to the force.

    Without `pid`, the activation a is the control input u, or a state. If `dynamics` is "filter",
    da/dt = (u - a) / time_constant. If `dynamics` is "integrator", da/dt = u. `control` limits u,
    `activation` limits the state, and `force` limits the force, each as (lower, upper). See
    `dynamics.motors.AffineMotor`.
    """

    name: str
    joint: int
    gear: float = 1.0
    gain: tuple[float, float, float] = (1.0, 0.0, 0.0)
    bias: tuple[float, float, float] = (0.0, 0.0, 0.0)
    control: tuple[float, float] = (-np.inf, np.inf)
    force: tuple[float, float] = (-np.inf, np.inf)
    dynamics: str = "none"
    time_constant: float = 0.0
    activation: tuple[float, float] = (-np.inf, np.inf)
    others: tuple[tuple[int, float], ...] = ()
    motor: str = "affine"
    winding: tuple[float, float, float] | None = None
    pid: tuple[float, float, float] | None = None
    feedforward: bool = False
    line: LineDescription | None = None


class PointSpring(NamedTuple):
    """Spring with a parallel damper between two points.

        tension = stiffness (s - rest) + damping ds/dt

    s is the distance between the points, and `rest` is the rest length [m]. `point` (3,) [m] is on
    the body with the index `body`, and `other_point` on the body with the index `other`, -1 for the
    base. Each point is in the coordinates of its body.
    """

    name: str
    body: int
    point: tuple[float, ...]
    other: int
    other_point: tuple[float, ...]
    stiffness: float
    damping: float = 0.0
    rest: float = 0.0


class Weightless(NamedTuple):
    """Gravity compensation: gravity does not act on the part `mass` [kg] of the mass of a body.

    `body` is the body index. `centre` (3,) [m] is the centre of this mass in body coordinates. If
    `mass` is greater than the mass of the body, the resulting force on the body is opposite to
    gravity.
    """

    name: str
    body: int
    mass: float
    centre: tuple[float, ...]


class Tendon(NamedTuple):
    """Tendon whose length s is a weighted sum of joint positions, or the length of a path.

        s = sum of coefficients[k] q[joints[k]]

    This equation applies if `line` is None; `joints` are joint indices. Otherwise, s is the length
    of the path `line`, and the tendon has no joints. The tendon has a spring, a damper, dry
    friction and limits on s. The spring is slack between the two rest lengths `rest`. The limits
    (lower, upper) apply only in a plant with stops.
    """

    name: str
    joints: tuple[int, ...]
    coefficients: tuple[float, ...]
    stiffness: float = 0.0
    damping: float = 0.0
    rest: tuple[float, float] = (0.0, 0.0)
    friction: float = 0.0
    limits: tuple[float, float] = (-np.inf, np.inf)
    line: LineDescription | None = None


class BodyDrag(NamedTuple):
    """Drag on a body in a fluid at rest, along the axes of a frame.

        F_k = -(linear_k V_k + quadratic_k |V_k| V_k)

    V = [w; v] (6,) is the twist of the frame, and F = [n; f] (6,) the wrench, both in frame
    coordinates. `placement` is the transform from body to frame coordinates.
    """

    name: str
    body: int
    placement: Transform
    linear: tuple[float, ...]
    quadratic: tuple[float, ...]


@dataclass(frozen=True, eq=False)  # eq=False: comparing arrays returns an array
class Sampling:
    """Sampling and errors of a sensor.

    The fields from `mean` to `resolution` are tuples with one value per output element. An empty
    tuple means zero.

        y[k] = value[k - delay] + mean + b + w[k] + deviation n[k]
        w[k + 1] = exp(-period / T) w[k] + s n'[k],  s^2 = walk^2 T (1 - exp(-2 period / T)) / 2

    n and n' are standard normal values. b is a constant bias, drawn from a normal distribution with
    the standard deviation `bias`. w is a random walk of the bias, which starts at zero. T is its
    correlation time `walk_time`, and s is the standard deviation of its random increments.

    Attributes:
        period: The time between two samples [s]; 0 for a continuous sensor.
        delay: The latency of the output as a number of samples.
        mean: The mean error.
        deviation: The standard deviation of the noise.
        bias: The standard deviation of the constant bias.
        walk: The standard deviation of the random walk w of the bias, per root second.
        walk_time: The correlation time of the random walk [s]; 0 for no walk.
        resolution: The quantization step of the output; 0 for no quantization.
    """

    period: float = 0.0
    delay: int = 0
    mean: tuple[float, ...] = ()
    deviation: tuple[float, ...] = ()
    bias: tuple[float, ...] = ()
    walk: tuple[float, ...] = ()
    walk_time: tuple[float, ...] = ()
    resolution: tuple[float, ...] = ()


@dataclass(frozen=True, eq=False)  # eq=False: comparing arrays returns an array
class Sensor:
    """Sensor of a file, as an output of the plant (`library.described_sensors`).

    Attributes:
        name: The name.
        quantity: The measured quantity, a key of `library.described_sensors.QUANTITIES`.
        body: The index of the body, -1 for the base.
        placement: The transform from body to sensor coordinates.
        reference: The reference frame of the value, or None.
        joints: The joint indices, if the quantity depends on joint values.
        coefficients: The coefficients of the joints. For a force sensor, the sign of its output.
            The default is 1.
        offset: The constant term, if the quantity is a weighted sum of joint positions.
        unit: The unit, if the quantity is a weighted sum of joint values.
        parts: The body index and the inertia of each outboard body, in body coordinates. A force
            sensor measures the force that accelerates these bodies.
        obstacles: The shapes that the ray of a range sensor can hit.
        directions: The unit vectors (n, 3) along the rays of a lidar, in sensor coordinates.
        limits: The smallest and the largest range of a lidar [m].
        path: The `LineDescription` whose length the sensor measures, or None.
        vector: A constant vector (3,) in base coordinates, such as the magnetic field [V s/m^2].
        cutoff: The largest absolute value of the output; infinite by default.
        sampling: The sampling and the errors.
        line: The line number in the file, 0 if it is unknown.
    """

    name: str
    quantity: str
    body: int = -1
    placement: Transform = field(default_factory=identity)
    reference: Place | None = None
    joints: tuple[int, ...] = ()
    coefficients: tuple[float, ...] = ()
    offset: float = 0.0
    unit: str = "1"
    parts: tuple[tuple[int, RigidInertia], ...] = ()
    obstacles: tuple[Obstacle, ...] = ()
    directions: Array | None = None
    limits: tuple[float, float] = (-np.inf, np.inf)
    path: LineDescription | None = None
    vector: tuple[float, ...] = (0.0, 0.0, 0.0)
    cutoff: float = np.inf
    sampling: Sampling = field(default_factory=Sampling)
    line: int = 0


class Keyframe(NamedTuple):
    """Named state in a file: the configuration q (nq,) and the velocity qd (nv,)."""

    q: Array
    qd: Array


@dataclass(frozen=True, eq=False)  # eq=False: comparing arrays returns an array
class JointProperties:
    """Joint properties in a file: arrays (nv,), in the order of qd.

    Missing limits are infinite; missing forces, inertias and stiffnesses are zero.

    Attributes:
        lower: The lower position limit [rad or m].
        upper: The upper position limit [rad or m].
        velocity: The speed limit [rad/s or m/s].
        effort: The limit of the absolute joint force [N m or N].
        damping: The viscous damping coefficient [N m s/rad or N s/m].
        friction: The dry friction force [N m or N].
        backward: The dry friction force while the position decreases; by default `friction`.
        armature: The rotor inertia reflected to the joint [kg m^2 or kg].
        stiffness: The spring stiffness [N m/rad or N/m].
        rest: The rest position of the spring. For a Spherical or SixDoF joint it is a rotation
            vector and a position.
    """

    lower: Array
    upper: Array
    velocity: Array
    effort: Array
    damping: Array
    friction: Array
    armature: Array
    stiffness: Array
    rest: Array
    backward: Array

    def __post_init__(self) -> None:
        for name in _NONE:
            values = np.asarray(getattr(self, name), dtype=float)
            object.__setattr__(self, name, values if is_frozen(values) else read_only(values))

    @classmethod
    def from_values(cls, nv: int, **values: Any) -> "JointProperties":
        """Return the properties of `nv` degrees of freedom from scalars or arrays (nv,)."""
        return cls.concatenate([(nv, values)])

    @classmethod
    def concatenate(cls, parts: Iterable[tuple[int, Mapping[str, Any]]]) -> "JointProperties":
        """Return the concatenated properties of several joints.

        `parts` contains a pair for each joint: the number of velocity variables, and the properties
        of the joint by name.
        """
        rows: list[Sequence[float]] = []
        for nv, said in parts:
            values = list(_NONE.values())
            for name, value in said.items():
                values[_PLACE[name]] = value
            if "friction" in said and "backward" not in said:
                values[_PLACE["backward"]] = said["friction"]
            if nv == 1 and set(map(type, said.values())) <= {float}:
                rows.append(values)
            else:
                rows += np.array([np.full(nv, value) for value in values]).T.tolist()
        flat = [value for column in zip(*rows, strict=True) for value in column]
        columns = floats_of_shape((len(_NONE), len(rows)), flat)
        made = object.__new__(cls)  # skips `__post_init__`, because all shapes are correct
        vars(made).update(zip(_NONE, columns, strict=True))
        return made


_NONE = {"lower": -np.inf, "upper": np.inf, "velocity": np.inf, "effort": np.inf} | dict.fromkeys(
    ("damping", "friction", "armature", "stiffness", "rest", "backward"), 0.0
)
_PLACE = {name: k for k, name in enumerate(_NONE)}


@dataclass(frozen=True, eq=False)
class RobotDescription(AttributeHints):
    """Robot from a file.

    Attributes:
        model: The dynamic model; links that are fixed to each other are one body.
        joint_properties: The limits, springs, damping, friction and rotor inertias of the joints.
        frames: All links and frames of the file by name.
        couplings: The mimic joints, which follow other joints.
        base_appearance: The visual shapes of the links that are fixed to the base.
        base_contact: The collision shapes of the links that are fixed to the base, and static
            planes.
        warnings: One message for each ignored or incorrect element of the file, with its line.
        actuators: The actuators of the joints.
        springs: The springs between two points.
        collision_exclusions: Pairs of body indices, -1 for the base. Bodies that are connected by a
            joint need no exclusion.
        q0: The initial configuration (nq,), or None for the neutral configuration.
        qd0: The initial velocity (nv,), or None for zero velocity.
        keyframes: The named states of the file.
        weightless: The masses on which gravity does not act.
        tendons: The tendons, each of several joints or along a line between bodies.
        drags: Fluid drag on the bodies.
        sensors: The sensors of the file that can become plant outputs.
    """

    CALLS: ClassVar = {
        "nq nv nb joint joints body_names joint_names gravity q_slices v_slices idle_joint inertia "
        "parent loops algebra Xtree name": "robot.model, which is the Model",
        "links bodies": "robot.frames or robot.model.body_names",
        "lower upper limits q_min q_max": "robot.joint_properties.lower and .upper",
        "plant": "described_plant(robot)",
        "forward_kinematics fk": "frame_pose(robot, q, 'frame')",
        "jacobian frame_jacobian": "frame_jacobian(robot, q, 'frame')",
        "show_robot view plot": "robot.show()",
        "mass total_mass": "sum(I.m for I in robot.model.inertia)",
        "body link": "robot.frames['name']",
        "inverse_kinematics ik": "inverse_kinematics(robot, Target('frame', pose))",
    }

    model: Model | PlanarModel
    joint_properties: JointProperties
    frames: Mapping[str, Place] = field(default_factory=dict)
    couplings: tuple[Coupling, ...] = ()
    base_appearance: Sequence[Shape] = ()
    base_contact: Sequence[Shape | Plane] = ()
    warnings: Sequence[str] = ()
    actuators: tuple[Actuator, ...] = ()
    springs: tuple[PointSpring, ...] = ()
    collision_exclusions: tuple[tuple[int, int], ...] = ()
    q0: Array | None = None
    qd0: Array | None = None
    keyframes: Mapping[str, Keyframe] = field(default_factory=dict)
    weightless: tuple[Weightless, ...] = ()
    tendons: tuple[Tendon, ...] = ()
    drags: tuple[BodyDrag, ...] = ()
    sensors: tuple[Sensor, ...] = ()

    def select_keyframe(self, name: str) -> "RobotDescription":
        """Return the description with a keyframe as its initial state.

        Raises:
            ValueError: The file has no keyframe of this name.
        """
        if name not in self.keyframes:
            known = ", ".join(f"'{one}'" for one in self.keyframes) or "none"
            raise ValueError(
                f"'{self.model.name}' has no keyframe '{name}'; its keyframes are {known}"
            )
        return replace(self, q0=self.keyframes[name].q, qd0=self.keyframes[name].qd)

    def __repr__(self) -> str:
        lists = (self.frames, self.couplings, self.actuators, self.springs, self.warnings)
        kinds = ("frames", "couplings", "actuators", "springs", "warnings")
        more = (f"{len(some)} {kind}" for some, kind in zip(lists, kinds, strict=True) if some)
        return f"<RobotDescription: {', '.join([repr(self.model), *more])}>"

    def _repr_html_(self) -> str:
        """Return the bodies and the warnings as HTML for notebooks."""
        items = "".join(f"<li>{html_text(text)}</li>" for text in self.warnings)
        return f"{self.model._repr_html_()}<ul>{items}</ul>" if items else self.model._repr_html_()

    def show(self, q: Any = None, path: str | Path | None = None) -> Picture:
        """Return a web page that shows the robot at q (nq,), by default in its initial state.

        The page has a slider for each joint. `rigidblocks.show` has the same options.
        """
        return picture(self, q, path)
