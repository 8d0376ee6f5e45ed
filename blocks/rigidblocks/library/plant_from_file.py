"""Construction of plants and actuators from robot files."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rigidblocks.block.block import finite
from rigidblocks.common.name_hints import explain_calls
from rigidblocks.dynamics.body_lines import line_of
from rigidblocks.dynamics.drives import Drive, Follower, Gearbox
from rigidblocks.dynamics.force_elements import (
    AgainstGravity,
    AlongFrame,
    AlongJoint,
    AlongVelocity,
    Between,
    ForceElement,
    JointSum,
    Line,
)
from rigidblocks.dynamics.force_laws import (
    ConstantForce,
    Drag,
    Friction,
    Law,
    Spring,
    Stop,
)
from rigidblocks.dynamics.forward import crba
from rigidblocks.dynamics.joint_kinematics import floating_base_body
from rigidblocks.dynamics.kinematics import body_poses, body_velocities
from rigidblocks.dynamics.motors import AffineMotor, DCMotor, Motor, Rotor, TorqueMotor
from rigidblocks.library.closed_loops import ClosedLoopPlant
from rigidblocks.library.controllers import PDController
from rigidblocks.library.described_sensors import SensedPlant
from rigidblocks.library.plant_ports import TunableInertia
from rigidblocks.library.plants import FloatingBasePlant, Plant, RobotPlant
from rigidblocks.robot.configuration import neutral
from rigidblocks.robot.joints import Prismatic, SixDoF, Spherical
from rigidblocks.robot.model import STANDARD_GRAVITY, Model, PlanarModel
from rigidblocks.robot.robot_description import (
    Actuator,
    JointProperties,
    LineDescription,
    RobotDescription,
    Tendon,
    unused_name,
)
from rigidblocks.spatial.rigid_motion import quaternion_from_vector
from rigidblocks.spatial.spatial import Array

DIGITS = 1e-6  # relative accuracy of values in files, and therefore of loop constraints


@explain_calls()
def described_plant(
    robot: RobotDescription,
    joint_friction: bool = False,
    inertias: TunableInertia | None = None,
    stops: tuple[float, float] | None = None,
    sensors: bool = False,
    seed: int = 0,
    actuators: bool = False,
    *,
    q0: ArrayLike | None = None,
    qd0: ArrayLike | None = None,
) -> Plant:
    """Return the plant of a robot described by a file.

    The plant contains the elements that `described_elements` returns. The plant is a
    ClosedLoopPlant if the robot has loops, a FloatingBasePlant if its base floats, and otherwise a
    RobotPlant. If `inertias` is given, the plant of a robot with a floating base is a RobotPlant,
    in which the floating base is a joint.

    Args:
        robot: Description of the robot.
        joint_friction: True to include springs, damping, dry friction, tendons and fluid drag.
        inertias: Selection of the inertial parameters that are tunable in the plant.
        stops: Stiffness [N.m/rad or N/m] and damping [N.m.s/rad or N.s/m] of stops at the joint
            limits. None: no stops.
        sensors: True for a `SensedPlant`, whose outputs include the sensors of the file.
        seed: Seed of the sensor noise.
        actuators: True to include the actuators in the file as drives (`described_drives`). Their
            commands are inputs.
        q0: Initial configuration (nq,) [rad or m]; by default the configuration in the file, or
            the neutral configuration.
        qd0: Initial velocities (nv,) [rad/s or m/s]; by default the velocities in the file, or
            zero.

    Raises:
        ValueError: A joint can move without moving any inertia. `sensors` is True, and the robot
            has no sensors. `actuators` is True, and the robot has no supported actuators. Tunable
            inertias are used with force, mass or momentum sensors.
        TypeError: `robot` is not a robot description, for example a path.
    """
    if not isinstance(robot, RobotDescription):
        raise TypeError(
            f"described_plant needs a robot description, not {type(robot).__name__}; write "
            "described_plant(load_model('arm.urdf'))"
        )
    if q0 is not None or qd0 is not None:
        robot = _set_start(robot, q0, qd0)
    if sensors:
        if not robot.sensors:
            raise ValueError(f"robot '{robot.model.name}' has no supported sensors in its file")
        if inertias is not None and any(one.parts for one in robot.sensors):
            raise ValueError(
                "force, mass and momentum sensors do not support tunable inertias; leave out "
                "`inertias` or `sensors`"
            )
        plant = described_plant(robot, joint_friction, inertias, stops, actuators=actuators)
        return SensedPlant(plant, robot.sensors, seed, robot.joint_properties.armature)
    model: Any = robot.model  # RobotPlant also supports planar models
    elements: tuple[Any, ...] = described_elements(robot, joint_friction, stops)
    if actuators:
        elements = make_names_unique((*elements, *described_drives(robot)))
    given: dict[str, Any] = {"elements": elements}
    base = floating_base_body(model) if isinstance(model, Model) else None
    if (
        base is not None
        and inertias is None
        and not (model.has_constraints or _acts_on_base(robot, base, joint_friction))
    ):
        given["nominal"] = described_scales(robot, base + 1)
        return FloatingBasePlant(model, **_floating_start(robot, base), **given)
    given["nominal"] = described_scales(robot)
    given |= {"q0": robot.q0, "qd0": 0.0 if robot.qd0 is None else robot.qd0}
    if model.has_constraints:
        return ClosedLoopPlant(model, inertias=inertias, tolerance=DIGITS, **given)
    return RobotPlant(model, inertias=inertias, **given)


def sensor_warnings(robot: RobotDescription) -> Iterator[str]:
    """Yield warnings about renamed sensor outputs, or one warning if no sensor is supported."""
    if not robot.sensors:
        return
    try:
        plant = described_plant(robot, sensors=True)
    except ValueError as error:
        yield f"the sensors cannot be outputs: {error}"
        return
    if isinstance(plant, SensedPlant):
        yield from plant.renamed_sensors


def _set_start(
    robot: RobotDescription, q0: ArrayLike | None, qd0: ArrayLike | None
) -> RobotDescription:
    """Return a robot description with the initial configuration q0 and the initial velocities qd0.

    If an argument is None, the value in the description does not change. Raises ValueError for a
    wrong shape.
    """
    model, name = robot.model, f"'{robot.model.name}'"
    q = robot.q0 if q0 is None else finite(q0, (model.nq,), f"q0 of {name}")
    qd = robot.qd0 if qd0 is None else finite(qd0, (model.nv,), f"qd0 of {name}")
    return replace(robot, q0=q, qd0=qd)


def _acts_on_base(robot: RobotDescription, base: int, joint_friction: bool) -> bool:
    """Return True if elements act on the joint of the floating base `base`.

    Elements are rotors, and if `joint_friction` is True, also springs, dampers and friction.
    """
    f, n = robot.joint_properties, robot.model.v_slices[base].stop
    forces = (f.stiffness, f.damping, f.friction, f.backward) if joint_friction else ()
    return any(bool(np.any(values[:n])) for values in (f.armature, *forces))


def _floating_start(robot: RobotDescription, base: int) -> dict[str, Any]:
    """Return the start values of a FloatingBasePlant as keyword arguments of its constructor.

    `base` is the index of the floating base body.
    """
    model: Any = robot.model
    q0 = neutral(model) if robot.q0 is None else robot.q0
    qd0 = np.zeros(model.nv) if robot.qd0 is None else robot.qd0
    pose = SixDoF().nearest(body_poses(model, q0)[base])
    start = {
        "quaternion0": pose[:4],
        "position0": pose[4:],
        "velocity0": body_velocities(model, q0, qd0)[base],
        "qd0": qd0[6:],
    }
    return start if robot.q0 is None else start | {"q0": q0[model.q_slices[base].stop :]}


LEAST, MOST = 1e-3, 1e5  # joint limits outside this range do not define nominal values


def described_scales(robot: RobotDescription, first: int = 0) -> dict[str, Array]:
    """Return the nominal values of the joint variables q, qd and tau from a robot file.

    The nominal values are the effort limits and the speed limits in the file. For prismatic joints,
    the nominal position is the position limit with the larger magnitude. A nominal value is 1 if
    the limit is missing, zero or implausibly large. Nominal positions and speeds are at most 10,
    because the tolerances of adaptive steps depend on them.

    Args:
        robot: Description of the robot.
        first: Index of the first joint to include.

    Returns:
        Nominal values by variable name, each in the units of the variable.
    """
    model, f = robot.model, robot.joint_properties
    far = np.maximum(np.abs(f.lower), np.abs(f.upper))
    q = [
        np.minimum(_scale(far[v]), 10.0) if isinstance(joint, Prismatic) else np.ones(joint.nq)
        for joint, v in zip(model.joint, model.v_slices, strict=True)
    ]
    start = sum(joint.nv for joint in model.joint[:first])
    qd, tau = np.minimum(_scale(f.velocity), 10.0), _scale(f.effort)
    return {
        "q": np.concatenate([np.zeros(0), *q[first:]]),
        "qd": qd[start:],
        "tau": tau[start:],
    }


def _scale(limit: Array) -> Array:
    return np.where((limit >= LEAST) & (limit <= MOST), limit, 1.0)


def described_drives(robot: RobotDescription) -> tuple[Drive, ...]:
    """Return the actuators in a robot file as drives, which are elements of a plant.

    The name of a drive is the name of the actuator. Underscores replace characters that are not
    allowed in identifiers. The effort limits in the file limit the total force of the drives at
    each joint. A drive that acts on one joint has the effort limit of this joint. A drive that acts
    on several joints or along a line between bodies has no effort limit. If only such drives move a
    joint, the result contains an additional drive, which has the effort limit of the joint and no
    motor.

    Raises:
        ValueError: The file has no supported actuators.
    """
    if not robot.actuators:
        raise ValueError(f"robot '{robot.model.name}' has no supported actuators in its file")
    drives, taken = list[Drive](), set[str]()
    joints, summed, limited = robot.model.joint_names, dict[int, None](), set[int]()
    for one in robot.actuators:
        name = unused_name(_identifier(one.name, "actuator"), taken)
        taken.add(name)
        motor, gearbox = _described_motor(one), Gearbox(one.gear)
        if one.line is not None:
            drives.append(Drive(name, _body_line(one.line), motor, gearbox))
            summed |= dict.fromkeys(_moving_joints(robot.model, one.line))
            continue
        joint, limit = joints[one.joint], _effort_limit(robot, one.joint)
        if one.others:
            indices, weights = zip((one.joint, 1.0), *one.others, strict=True)
            along = JointSum(tuple(joints[k] for k in indices), weights)
            drives.append(Drive(name, along, motor, gearbox))
            summed |= dict.fromkeys(indices)
        else:
            drives.append(Drive(name, joint, motor, gearbox, effort=limit))
            limited.add(one.joint)
    for k in summed:
        limit = _effort_limit(robot, k)
        if limit is not None and k not in limited:
            name = unused_name(f"{_identifier(joints[k], 'joint')}_effort", taken)
            taken.add(name)
            drives.append(Drive(name, joints[k], effort=limit))
    return tuple(drives)


def _body_line(line: LineDescription) -> Line:
    """Convert a line of a robot description to the `Line` of a force element or drive."""
    return line_of(line.kind, line.frames, line.numbers)


def _moving_joints(model: Model | PlanarModel, line: LineDescription) -> list[int]:
    """Return the joints with one degree of freedom that move a frame of a line between bodies."""
    found = set[int]()
    for frame in line.frames:
        i = frame.body
        while i >= 0:
            found.add(i)
            i = model.parent[i]
    return [i for i in sorted(found) if model.joint[i].nv == 1]


def _effort_limit(robot: RobotDescription, joint: int) -> float | None:
    """Return the limit of the force of a joint [N m or N], or None without a limit."""
    effort = float(robot.joint_properties.effort[robot.model.v_slices[joint]][0])
    return effort if np.isfinite(effort) else None


def _described_motor(actuator: Actuator) -> Motor:
    """Return the motor of an actuator."""
    if actuator.motor == "torque":
        return TorqueMotor()
    if actuator.winding is None:
        return _affine_motor(actuator)
    most = actuator.control[1]
    return DCMotor(*actuator.winding, voltage_max=most if np.isfinite(most) else None)


def _affine_motor(actuator: Actuator) -> AffineMotor:
    """Return the affine motor of an actuator.

    A coefficient of zero does not become a parameter, except for the constant gain.
    """
    gain, bias = (
        dict(zip(_TERMS, values, strict=True)) for values in (actuator.gain, actuator.bias)
    )
    terms = {f"gain{name}": value for name, value in gain.items() if value or not name}
    terms |= {f"bias{name}": value for name, value in bias.items() if value}
    if actuator.pid is not None:
        ki, offset, velocity_gain = actuator.pid
        terms |= {"ki": ki} if ki else {}
        terms |= {"offset": offset} if ki and offset else {}
        terms |= {"velocity_gain": velocity_gain} if velocity_gain else {}
    return AffineMotor(
        **terms,
        has_feedforward=actuator.feedforward,
        time_constant=actuator.time_constant if actuator.dynamics == "filter" else None,
        integrates=actuator.dynamics == "integrator",
        command_limits=actuator.control,
        activation_limits=actuator.activation,
        torque_limits=actuator.force,
    )


_TERMS = (
    "",
    "_position",
    "_velocity",
)  # suffixes of the parameters that multiply 1, angle and speed


BANDWIDTH = 10.0  # bandwidth of the joint control loops [rad/s]; found by trial


def described_controller(robot: RobotDescription) -> PDController:
    """Return a critically damped PD controller: kp = w^2 diag H and kd = 2 w diag H.

    H is the inertia matrix in the initial configuration, and w the bandwidth of 10 rad/s.

    Raises:
        ValueError: The base is floating, or a joint has several degrees of freedom.
    """
    model = robot.model
    if model.nq != model.nv or any(joint.nv != 1 for joint in model.joint):
        raise ValueError(
            f"a PD controller for '{model.name}' needs a fixed base, and only joints with one "
            "degree of freedom"
        )
    q0 = neutral(model) if robot.q0 is None else robot.q0
    inertia = np.diag(crba(model, q0)) + robot.joint_properties.armature
    slides = tuple(isinstance(joint, Prismatic) for joint in model.joint)
    return PDController(BANDWIDTH**2 * inertia, 2 * BANDWIDTH * inertia, prismatic=slides)


def described_elements(
    robot: RobotDescription, joint_friction: bool = False, stops: tuple[float, float] | None = None
) -> tuple[ForceElement | Drive, ...]:
    """Return the drives and force elements in a robot file, as elements of a plant.

    The elements always include the rotors and gears, as drives without a command, and the gravity
    compensation of bodies. Springs and stops are stiff relative to the small inertias of fingers
    and wrists. Such plants may need an implicit method.

    The name of an element is the name of its joint, body or tendon with a suffix such as _rotor,
    _spring or _drag_1. Underscores replace characters that are not allowed in identifiers.

    Args:
        robot: Description of the robot.
        joint_friction: True to include springs, damping, dry friction, tendons and fluid drag.
        stops: Stiffness [N.m/rad or N/m] and damping [N.m.s/rad or N.s/m] of stops at the limits of
            joints and tendons. Robot files do not contain these values. None: no stops.
    """
    names, f = _element_names(robot), robot.joint_properties
    starts = [v.start for v in robot.model.v_slices]
    elements: list[ForceElement | Drive] = []
    for joint, variable, k in _degrees_of_freedom(robot):
        line, name = _line(robot, joint, variable), names[k]
        if f.armature[k]:
            elements.append(Drive(f"{name}_rotor", line, Rotor(float(f.armature[k]))))
        rest = 0.0 if isinstance(line, AlongVelocity) else float(f.rest[k])
        laws = [*(_friction_laws(f, k, rest) if joint_friction else ())]
        laws += [*(_stop_laws(f, k, stops) if stops else ())]
        elements += [ForceElement(f"{name}_{kind}", line, law) for kind, law in laws]
    if joint_friction:
        elements += [*described_springs(robot), *_drag_elements(robot)]
    elements += [*_tendon_elements(robot, joint_friction, stops), *_weight_elements(robot)]
    elements += [
        Drive(
            f"{names[starts[c.joint]]}_gear",
            c.source,
            follower=Follower(c.joint, c.ratio, c.offset, c.curve),
        )
        for c in robot.couplings
    ]
    return make_names_unique(elements)


def make_names_unique(elements: Iterable[Any]) -> tuple[Any, ...]:
    """Return the elements with unique names; a number distinguishes equal names."""
    found, taken = [], set[str]()
    for element in elements:
        found.append(replace(element, name=unused_name(element.name, taken)))
        taken.add(found[-1].name)
    return tuple(found)


def _weight_elements(robot: RobotDescription) -> Iterator[ForceElement]:
    """Yield the force elements for gravity compensation.

    Each element compensates the weight of one mass in `robot.weightless`.
    """
    gravity = robot.model.gravity
    g = float(np.linalg.norm(gravity if np.any(gravity) else STANDARD_GRAVITY))
    for one in robot.weightless:
        line = AgainstGravity(robot.model.body_names[one.body], one.centre, g)
        name = f"{_identifier(one.name, 'body')}_weight"
        yield ForceElement(name, line, ConstantForce(one.mass * g))


def _drag_elements(robot: RobotDescription) -> Iterator[ForceElement]:
    """Yield the force elements for the fluid drag along each axis of each body."""
    for one in robot.drags:
        body, name = robot.model.body_names[one.body], _identifier(one.name, "body")
        for k, law in enumerate(zip(one.linear, one.quadratic, strict=True)):
            if any(law):
                line = AlongFrame(body, k, one.placement)
                yield ForceElement(
                    f"{name}_drag_{k + 1}", line, Drag(*(value or None for value in law))
                )


def _tendon_elements(
    robot: RobotDescription, joint_friction: bool, stops: tuple[float, float] | None
) -> Iterator[ForceElement]:
    """Yield the force elements of the tendons.

    If `joint_friction` is True, the elements include springs, dampers and dry friction. `stops` is
    the stiffness and the damping of stops at the limits of the tendons; None for no stops.
    """
    for one in robot.tendons:
        if one.line is not None:
            line: Line = _body_line(one.line)
        else:
            names = tuple(robot.model.joint_names[j] for j in one.joints)
            line = JointSum(names, tuple(one.coefficients))
        laws = [*(_tendon_laws(one) if joint_friction else ())]
        if stops and one.limits[0] < one.limits[1] and np.isfinite(one.limits).any():
            laws.append(("stop", Stop(*stops, *one.limits)))
        name = _identifier(one.name, "tendon")
        yield from (ForceElement(f"{name}_{kind}", line, law) for kind, law in laws)


def _tendon_laws(tendon: Tendon) -> Iterator[tuple[str, Law]]:
    """Yield the name suffix and the force law of each force of a tendon.

    If the rest lengths of the tendon spring differ, the spring exerts no force at lengths between
    them. The law of such a spring is a `Stop` without damping.
    """
    slack = tendon.stiffness and tendon.rest[0] < tendon.rest[1]
    if slack:
        yield "slack_spring", Stop(tendon.stiffness, 0.0, *tendon.rest)
    if tendon.damping or (tendon.stiffness and not slack):
        yield "spring", Spring(0.0 if slack else tendon.stiffness, tendon.damping, tendon.rest[0])
    if tendon.friction:
        yield "friction", Friction(tendon.friction)


def _line(robot: RobotDescription, joint: int, variable: int) -> AlongJoint:
    """Return the line on which the spring and the friction of one degree of freedom act.

    `joint` is the index of the joint, and `variable` is the index of the degree of freedom in the
    joint.
    """
    model: Any = robot.model
    kind, of = model.joint[joint], model.v_slices[joint]
    if not isinstance(kind, Spherical | SixDoF):
        return AlongJoint(joint, variable)
    rest = robot.joint_properties.rest[of]
    q = np.concatenate([quaternion_from_vector(rest[:3]), rest[3:]])
    return AlongVelocity(joint, variable, tuple(map(float, q)))


def _friction_laws(
    properties: JointProperties, k: int, rest: float
) -> Iterator[tuple[str, Spring | Friction]]:
    """Yield the name suffix and the law of the spring and the dry friction of a degree of freedom.

    `properties` contains the properties of all joints, `k` is the index of the degree of freedom in
    qd, and `rest` [rad or m] is the rest position of the spring.
    """
    f = properties
    if f.stiffness[k] or f.damping[k]:
        yield "spring", Spring(float(f.stiffness[k]), float(f.damping[k]), rest)
    if f.friction[k] or f.backward[k]:
        backward = float(f.backward[k]) if f.backward[k] != f.friction[k] else None
        yield "friction", Friction(float(f.friction[k]), backward=backward)


def _stop_laws(
    properties: JointProperties, k: int, stops: tuple[float, float]
) -> Iterator[tuple[str, Stop]]:
    """Yield the name suffix and the force law of the stop of a degree of freedom, if it has limits.

    `properties` contains the properties of all joints, and `k` is the index of the degree of
    freedom in qd. `stops` contains the stiffness and the damping.
    """
    lower, upper = properties.lower[k], properties.upper[k]
    if lower < upper and np.isfinite([lower, upper]).any():
        yield "stop", Stop(*stops, float(lower), float(upper))


def described_springs(robot: RobotDescription) -> list[ForceElement]:
    """Return the point-to-point springs between bodies that a robot file defines."""
    names, found = robot.model.body_names, list[ForceElement]()
    for one in robot.springs:
        other = names[one.other] if one.other >= 0 else None
        line = Between(names[one.body], one.point, other, one.other_point)
        law = Spring(one.stiffness, one.damping, one.rest)
        found.append(ForceElement(_identifier(one.name, "spring"), line, law))
    return found


def _identifier(name: str, kind: str) -> str:
    """Return a name as an identifier; underscores replace invalid characters.

    If the name does not begin with a letter, the identifier begins with `kind` and an underscore.
    """
    plain = re.sub(r"[^A-Za-z0-9_]", "_", name)
    return plain if plain[:1].isalpha() else f"{kind}_{plain}"


def _degrees_of_freedom(robot: RobotDescription) -> Iterator[tuple[int, int, int]]:
    """Yield tuples (joint index, index in the joint, index in qd) of the velocity variables."""
    for i, places in enumerate(robot.model.v_slices):
        for variable, k in enumerate(range(places.start, places.stop)):
            yield i, variable, k


def _element_names(robot: RobotDescription) -> list[str]:
    """Return a unique identifier for each velocity variable in qd, from the names of the joints."""
    names: list[str] = []
    for i, variable, _ in _degrees_of_freedom(robot):
        plain = _identifier(robot.model.joint_names[i], "joint")
        name = plain if robot.model.joint[i].nv == 1 else f"{plain}_{variable + 1}"
        names.append(name if name not in names else f"{name}_{len(names)}")
    return names


def has_joint_friction(robot: RobotDescription) -> bool:
    """Return True if a file defines springs, damping, dry friction or fluid drag."""
    f = robot.joint_properties
    parts = (f.stiffness, f.damping, f.friction, f.backward)
    tendons = any(next(_tendon_laws(one), None) for one in robot.tendons)
    return (
        bool(robot.springs or robot.drags) or tendons or any(bool(np.any(part)) for part in parts)
    )
