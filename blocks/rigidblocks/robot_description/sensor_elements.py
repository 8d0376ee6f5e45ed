"""Sensors from MJCF files (from the arrays of the compiled model) and from SDF files.

The sensors in SDF files are inertial, force-torque, altitude and magnetic sensors, and lidars.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from rigidblocks.common.xml_reader import Element, floats, format_error
from rigidblocks.robot.ray_casting import Obstacle
from rigidblocks.robot.robot_description import LineDescription, Sampling, Sensor, unused_name
from rigidblocks.robot_description.mjcf_tendons import (
    AT_SITE,
    actuator_line,
    is_path,
    tendon_path,
)
from rigidblocks.robot_description.parsed_links import WORLD, ParsedSensor
from rigidblocks.spatial.rigid_motion import quaternion_rotation
from rigidblocks.spatial.spatial import Array, Transform, identity

# ---- MJCF ----

# measured quantities of the sensor types that are attached to a frame
_AT_FRAME = {
    "accelerometer": "accelerometer", "velocimeter": "velocimeter", "gyro": "gyro",
    "magnetometer": "magnetic_field", "framepos": "position", "framequat": "quaternion",
    "framexaxis": "x_axis", "frameyaxis": "y_axis", "framezaxis": "z_axis",
    "framelinvel": "velocity", "frameangvel": "angular_velocity",
    "framelinacc": "acceleration_without_gravity", "frameangacc": "angular_acceleration",
}  # fmt: skip
_OUTBOARD = {
    "force": "force", "torque": "torque", "subtreecom": "centre_of_mass",
    "subtreelinvel": "mean_velocity", "subtreeangmom": "angular_momentum",
}  # fmt: skip
_AT_JOINT = {
    "jointpos": "joint_position", "jointvel": "joint_velocity", "ballquat": "ball_quaternion",
    "ballangvel": "ball_velocity", "jointactfrc": "joint_force",
}  # fmt: skip
_AT_TENDON = {"tendonpos": "joint_position", "tendonvel": "joint_velocity"}
_AT_ACTUATOR = {
    "actuatorpos": "joint_position", "actuatorvel": "joint_velocity", "actuatorfrc": "joint_force",
}  # fmt: skip
_OF_MODEL = {"clock": "time", "e_potential": "potential_energy", "e_kinetic": "kinetic_energy"}
_RANGE = {"rangefinder": "range"}
MJCF_SENSORS = {
    **_RANGE,
    **_AT_FRAME,
    **_OUTBOARD,
    **_AT_JOINT,
    **_AT_TENDON,
    **_AT_ACTUATOR,
    **_OF_MODEL,
}
_TAGS = {"jointactfrc": "jointactuatorfrc", "tendonactfrc": "tendonactuatorfrc",
         "geomdist": "distance", "geomnormal": "normal", "geomfromto": "fromto"}  # fmt: skip
FREE, BALL, SLIDE = 0, 1, 2  # mjtJoint
_AT_JOINT_WRAP = 1  # mjtWrap
_MASS, _BODY, _GEOM, _SITE, _CAMERA = 1, 2, 5, 6, 7  # mjtObj; _MASS: the frame of the inertia
_REAL, _POSITIVE = 0, 1  # mjtDataType


class Names(NamedTuple):
    """Names of the links, joints and sensors of a compiled model.

    The link name of the world body is WORLD.
    """

    links: Sequence[str]
    joints: Sequence[str]
    sensors: Sequence[str]


class _UnsupportedSensorError(Exception):
    """Error that contains the reason why a sensor of the file is not supported."""


# prefixes of the arrays with the addresses of object names, by mjtObj
_OBJECTS = {1: "body", 2: "body", 3: "jnt", 5: "geom", 6: "site", 7: "cam", 18: "tendon",
            19: "actuator"}  # fmt: skip


def sensor_names(m: Any) -> list[str]:
    """Return the names of the sensors.

    The name of an unnamed sensor consists of its type and the name of its object.
    """
    names: list[str] = [_text(m.names, at) for at in m.name_sensoradr[: m.nsensor]]
    taken = {*names}
    for k, name in enumerate(names):
        if not name:
            array = _OBJECTS.get(int(m.sensor_objtype[k]))
            of = _text(m.names, getattr(m, f"name_{array}adr")[m.sensor_objid[k]]) if array else ""
            kind = _TAGS.get(m.sensor_kind[k], m.sensor_kind[k])
            names[k] = unused_name(f"{kind}_{of}" if of else kind, taken)
            taken.add(names[k])
    return names


def _text(names: bytes, start: int) -> str:
    return names[start : names.index(b"\0", start)].decode(errors="replace")


def read_sensors(m: Any, names: Names, root: Element) -> tuple[list[ParsedSensor], list[str]]:
    """Return the sensors of the supported types, and warnings about other sensors.

    `schema_coverage` reports the unsupported types in `root`. This function warns about sensors in
    included files and about unsupported settings.
    """
    found, warnings = list[ParsedSensor](), list[str]()
    listed = {str(one.tag) for one in root.iterfind("sensor/*")}
    lines = {one.get("name"): one.sourceline for one in root.iterfind("sensor/*")}
    for k, (kind, name) in enumerate(zip(m.sensor_kind, names.sensors, strict=True)):
        if kind not in MJCF_SENSORS:
            if _TAGS.get(kind, kind) not in listed:
                warnings.append(f"sensor '{name}' of type {kind} is not read")
            continue
        try:
            parsed = _mjcf_sensor(m, names, k, kind, name)
            sensor = replace(parsed.sensor, line=lines.get(name) or 0)
            found.append(parsed._replace(sensor=sensor))
        except _UnsupportedSensorError as why:
            where = f"line {lines[name]}: " if name in lines else ""
            warnings.append(f"{where}sensor '{name}' is not read: {why}")
    return found, warnings


def _mjcf_sensor(m: Any, names: Names, k: int, kind: str, name: str) -> ParsedSensor:
    limited = m.sensor_cutoff[k] > 0 and m.sensor_datatype[k] in (_REAL, _POSITIVE)
    sensor = Sensor(
        name,
        MJCF_SENSORS[kind],
        cutoff=float(m.sensor_cutoff[k]) if limited else np.inf,
        sampling=_mjcf_sampling(m, k),
    )
    number, of = int(m.sensor_objid[k]), vars(sensor)
    if kind in _RANGE:
        if m.sensor_objtype[k] != _SITE or m.sensor_dim[k] != 1:
            raise _UnsupportedSensorError(
                "a rangefinder can measure only the distance from a site; cameras and other "
                "output data are not supported"
            )
        link, X = _frame(m, names, _SITE, number)
        obstacles = list(_obstacles(m, names, int(m.site_bodyid[number])))
        return ParsedSensor(Sensor(**of | {"placement": X}), link, obstacles=obstacles)
    if kind in _AT_FRAME:
        link, X = _frame(m, names, int(m.sensor_objtype[k]), number)
        vector = m.opt.magnetic.tolist() if kind == "magnetometer" else (0.0, 0.0, 0.0)
        reference = None
        if m.sensor_refid[k] >= 0:
            reference = _frame(m, names, int(m.sensor_reftype[k]), int(m.sensor_refid[k]))
        sensor = Sensor(**of | {"placement": X, "vector": tuple(vector)})
        return ParsedSensor(sensor, link, reference=reference)
    if kind in _OUTBOARD:
        at_site = kind in ("force", "torque")
        link, X = _frame(m, names, _SITE if at_site else _BODY, number)
        body = int(m.site_bodyid[number]) if at_site else number
        outboard = [names.links[b] for b in _subtree(m, body) if b]
        if not at_site and not sum(m.body_mass[b] for b in _subtree(m, body)):
            raise _UnsupportedSensorError("its bodies have no mass")
        return ParsedSensor(Sensor(**of | {"placement": X}), link, outboard=outboard)
    if kind in _OF_MODEL:
        springs = np.any(m.jnt_stiffness) or np.any(m.tendon_stiffness)
        if kind == "e_potential" and springs:
            raise _UnsupportedSensorError("the potential energy of springs is not supported")
        return ParsedSensor(sensor, outboard=names.links[1:])
    links, line = _sensor_line(m, names, kind, number)
    if line is not None:
        scale = 1.0
        if kind in _AT_ACTUATOR and m.actuator_trntype[number] != AT_SITE:
            scale = float(m.actuator_gear[number, 0])
        is_rotation = line.kind == "site" and not any(line.numbers[3:])
        quantity = "line_length" if kind.endswith("pos") else "line_velocity"
        of |= {"quantity": quantity, "path": line, "unit": "rad" if is_rotation else "m"}
        sensor = Sensor(**of | {"coefficients": (scale,)})
        return ParsedSensor(sensor, path_links=links)
    joints, coefficients, offset, unit = _joint_sum(m, kind, number)
    more = {"coefficients": coefficients, "offset": offset, "unit": unit}
    return ParsedSensor(Sensor(**of | more), joints=[names.joints[j] for j in joints])


def _sensor_line(
    m: Any, names: Names, kind: str, number: int
) -> tuple[list[str], LineDescription | None]:
    """Return the line on which a tendon or actuator sensor measures, and the links of its frames.

    The line is None if the sensor value is a function of joint values.
    """
    if kind in _AT_TENDON and is_path(m, number):
        return tendon_path(m, number, names.links)
    if kind in ("actuatorpos", "actuatorvel"):
        return actuator_line(m, number, names.links)
    if kind == "jointactfrc" and any(actuator_line(m, k, names.links)[1] for k in range(m.nu)):
        raise _UnsupportedSensorError("the forces of actuators at sites and paths are not included")
    return [], None


_KINDS = {
    0: "plane", 1: "height_field", 2: "sphere", 3: "capsule", 4: "ellipsoid", 5: "cylinder",
    6: "box", 7: "mesh",
}  # mjtGeom  # fmt: skip
MOST_TRIANGLES = 100_000  # per range sensor; the size of the generated code is proportional to it
_SIZES = {"plane": 2, "sphere": 1, "capsule": 2, "cylinder": 2}  # 3 for the other shapes


def _obstacles(m: Any, names: Names, body: int) -> Iterator[tuple[str, Obstacle]]:
    """Yield pairs (link, obstacle) of the visible geoms that are not on the body `body`."""
    room = MOST_TRIANGLES
    for g, number in enumerate(m.geom_type.tolist()):
        material = int(m.geom_matid[g])
        is_clear = not m.geom_rgba[g, 3] and (material < 0 or not m.mat_rgba[material, 3])
        if m.geom_bodyid[g] == body or is_clear:
            continue
        if number not in _KINDS:
            raise _UnsupportedSensorError("rangefinders do not detect signed distance functions")
        kind, data, more = _KINDS[number], int(m.geom_dataid[g]), dict[str, Any]()
        size = m.geom_size[g, : _SIZES.get(kind, 3)].tolist()
        if kind == "mesh":
            size, more = (), _triangles(m, data)
        elif kind == "height_field":
            size, more = m.hfield_size[data].tolist(), _heights(m, data)
        room -= len(more.get("triangles", ())) + 2 * np.size(more.get("heights", ()))
        if room < 0:
            text = (
                "the meshes and height fields that its ray can hit have more than "
                f"{MOST_TRIANGLES} triangles"
            )
            raise _UnsupportedSensorError(text)
        link, X = _frame(m, names, _GEOM, g)
        yield link, Obstacle(kind, tuple(size), -1, X, **more)


def _triangles(m: Any, mesh: int) -> dict[str, Array]:
    """Return the vertices (n, 3) [m] and the triangles (m, 3) of a mesh."""
    first, count = int(m.mesh_faceadr[mesh]), int(m.mesh_facenum[mesh])
    start, size = int(m.mesh_vertadr[mesh]), int(m.mesh_vertnum[mesh])
    vertices = np.asarray(m.mesh_vert[start : start + size], float)
    return {"vertices": vertices, "triangles": np.array(m.mesh_face[first : first + count], int)}


def _heights(m: Any, field: int) -> dict[str, Array]:
    """Return the heights (rows, columns) of a height field, from 0 to 1."""
    rows, columns = int(m.hfield_nrow[field]), int(m.hfield_ncol[field])
    first = int(m.hfield_adr[field])
    values = np.array(m.hfield_data[first : first + rows * columns], np.float32)
    return {"heights": values.reshape(rows, columns)}


def _subtree(m: Any, body: int) -> Iterator[int]:
    """Yield a body and all bodies outboard of it; a parent has a lower index than its children."""
    inside = {body}
    for b in range(body, m.nbody):
        if b in inside or int(m.body_parentid[b]) in inside:
            inside.add(b)
            yield b


def _joint_sum(m: Any, kind: str, number: int) -> tuple[list[int], tuple[float, ...], float, str]:
    """Return joints, coefficients, constant term and unit of a linear sensor value.

    The value is a linear function of joint values. `kind` is the sensor type, and `number` the
    index of the joint, tendon or actuator. Joint positions in MuJoCo include the attribute ref, but
    joint positions of the model do not. The constant term compensates for this difference.
    """
    if kind in _AT_JOINT:
        joints, weights = [number], np.ones(1)
    elif kind in _AT_TENDON:
        wraps = slice(m.tendon_adr[number], m.tendon_adr[number] + m.tendon_num[number])
        if np.any(m.wrap_type[wraps] != _AT_JOINT_WRAP):
            raise _UnsupportedSensorError(
                "length sensors do not support spatial tendons that wrap around geoms"
            )
        joints, weights = m.wrap_objid[wraps].tolist(), m.wrap_prm[wraps]
    else:
        joints, weights = _actuated_joint(m, kind, number)
    if "ball" not in kind and any(m.jnt_type[j] < SLIDE for j in joints):
        raise _UnsupportedSensorError("its joint has several degrees of freedom")
    slides = {bool(m.jnt_type[j] == SLIDE) for j in joints}
    unit = "1" if len(slides) > 1 else ("m" if slides == {True} else "rad")
    offset = 0.0
    if kind.endswith("pos"):
        offset = float(weights @ m.qpos0[m.jnt_qposadr[joints]])
    return joints, tuple(np.asarray(weights, float).tolist()), offset, unit


def _actuated_joint(m: Any, kind: str, number: int) -> tuple[list[int], Array]:
    """Return the joint of actuator `number`, and the ratio of sensor value to joint value.

    `kind` is the sensor type.
    """
    if m.actuator_trntype[number] not in (0, 1):
        raise _UnsupportedSensorError("its actuator does not act on a joint")
    joint, gear = int(m.actuator_trnid[number, 0]), float(m.actuator_gear[number, 0])
    if kind != "actuatorfrc":
        return [joint], np.array([gear])
    same = (m.actuator_trnid[: m.nu, 0] == joint) & (m.actuator_trntype[: m.nu] <= 1)
    others = np.any(m.actuator_trntype[: m.nu] > 1)  # via a tendon or site
    if same.sum() != 1 or others or not gear:
        raise _UnsupportedSensorError("other actuators may act on the same joint")
    return [joint], np.array([1.0 / gear])


def _frame(m: Any, names: Names, kind: int, number: int) -> tuple[str, Transform]:
    """Return the link that carries a frame, and the transform from link to frame coordinates.

    `kind` and `number` are the type and the index of the MuJoCo object that defines the frame.
    """
    match kind:
        case _ if kind == _MASS:
            return _link_placement(names, number, m.body_ipos[number], m.body_iquat[number])
        case _ if kind == _BODY:
            return names.links[number] or WORLD, identity()
        case _ if kind == _GEOM:
            body = m.geom_bodyid[number]
            return _link_placement(names, body, m.geom_pos[number], m.geom_quat[number])
        case _ if kind == _SITE:
            body = m.site_bodyid[number]
            return _link_placement(names, body, m.site_pos[number], m.site_quat[number])
        case _ if kind == _CAMERA and m.cam_mode[number] == 0:  # camera fixed to its body
            body = m.cam_bodyid[number]
            return _link_placement(names, body, m.cam_pos[number], m.cam_quat[number])
    raise _UnsupportedSensorError("its camera is not fixed to a body")


def _link_placement(names: Names, body: int, r: Array, q: Array) -> tuple[str, Transform]:
    E = quaternion_rotation(q / np.linalg.norm(q))
    return names.links[int(body)] or WORLD, Transform(E, np.array(r))


def _mjcf_sampling(m: Any, k: int) -> Sampling:
    """Return the sampling of sensor k.

    The interval and the delay apply only to a sensor with a history buffer. A sensor that has noise
    or a delay but no interval has one sample per time step of the simulation. The delay must be a
    multiple of the time between two samples.
    """
    noise, period, delay = float(m.sensor_noise[k]), 0.0, 0.0
    if hasattr(m, "sensor_history") and m.sensor_history[k, 0] > 0:
        period, phase = m.sensor_interval[k].tolist()
        delay = float(m.sensor_delay[k])
        if phase:
            raise _UnsupportedSensorError("its samples are not at multiples of its interval")
        if delay and m.sensor_history[k, 1]:
            raise _UnsupportedSensorError("interpolation between samples is not supported")
    if not (period or delay or noise):
        return Sampling()
    period = period or float(m.opt.timestep)
    late = round(delay / period)
    if abs(late * period - delay) > 1e-9 * period:
        raise _UnsupportedSensorError(
            f"its delay of {delay} s is not a multiple of its sample time, {period} s"
        )
    return Sampling(period, late, deviation=(noise,) * int(m.sensor_dim[k]) if noise else ())


# ---- SDF ----

LIDARS = ("ray", "lidar", "gpu_ray", "gpu_lidar")
SDF_SENSORS = ("imu", "force_torque", "altimeter", "magnetometer", *LIDARS)
MOST_RAYS = 10_000  # per lidar; the number of output elements
PICTURES = (
    "camera", "depth", "depth_camera", "rgbd", "rgbd_camera", "multicamera", "thermal",
    "thermal_camera", "segmentation", "segmentation_camera", "boundingbox", "boundingbox_camera",
    "wideanglecamera", "wide_angle_camera", "logical_camera",
)  # fmt: skip
MAGNETIC_FIELD = (5.5645e-6, 22.8758e-6, -42.3884e-6)  # T, the default of the specification
LARGEST_STEP = 1e-3  # s, the default of <max_step_size>
_AXES = ("x", "y", "z")
_NOISE = (
    "mean", "stddev", "bias_mean", "bias_stddev", "dynamic_bias_stddev",
    "dynamic_bias_correlation_time", "precision",
)  # fmt: skip


class SensorPlace(NamedTuple):
    """Link, joint and placement of a sensor in a file.

    Attributes:
        link: The link that carries the sensor. For a sensor of a joint, the child of the joint.
        placement: The transform from link to sensor coordinates.
        joint: The joint of the sensor, or "".
        origin: The transform from link to joint coordinates.
        parent: The parent link of the joint.
    """

    link: str
    placement: Transform
    joint: str = ""
    origin: Transform | None = None
    parent: str = ""


def sensor_outputs(
    element: Element,
    place: SensorPlace,
    field: tuple[float, ...],
    step: float,
    unread: list[str],
) -> Iterator[ParsedSensor]:
    """Yield the outputs of a <sensor> element.

    Args:
        element: The element; its type is one of `SDF_SENSORS`.
        place: The link, joint and placement of the sensor.
        field: The magnetic field of the world (3,) [T].
        step: The sample time [s] of a sensor that has noise and no <update_rate>.
        unread: The function appends warnings about unsupported lidars to this list.
    """
    name, kind = (element.get("name") or "sensor").strip(), element.get("type")
    of = element.find(kind)
    rate = _number(element, "update_rate", 0.0)
    if rate < 0:
        raise format_error(element, f"the <update_rate> is {rate} Hz; it must not be negative")

    def output(
        suffix: str,
        quantity: str = "ranges",
        noises: Sequence[str] = (),
        transform: Transform = place.placement,
    ) -> Sensor:
        sampling = _sdf_sampling(of, noises, 1.0 / rate if rate else 0.0, step)
        vector = field if kind == "magnetometer" else (0.0, 0.0, 0.0)
        return Sensor(
            f"{name}{suffix}",
            quantity,
            placement=transform,
            vector=vector,
            sampling=sampling,
            line=element.sourceline or 0,
        )

    def noise_paths(path: str) -> list[str]:
        return [f"{path}{axis}/noise" for axis in _AXES]

    match kind:
        case "imu":
            yield ParsedSensor(
                output("_gyro", "gyro", noise_paths("angular_velocity/")), place.link
            )
            noises = noise_paths("linear_acceleration/")
            yield ParsedSensor(output("_accelerometer", "accelerometer", noises), place.link)
        case "altimeter":
            for quantity, path in (
                ("altitude", "vertical_position"),
                ("vertical_velocity", "vertical_velocity"),
            ):
                yield ParsedSensor(output(f"_{path}", quantity, [f"{path}/noise"]), place.link)
        case _ if kind in LIDARS:
            try:
                sensor = _lidar(element, output(""), 1.0 / rate if rate else step)
                yield ParsedSensor(sensor, place.link)
            except _UnsupportedSensorError as why:
                unread.append(f"line {element.sourceline}: sensor '{name}' is not read: {why}")
        case "magnetometer":
            yield ParsedSensor(output("", "magnetic_field", noise_paths("")), place.link)
        case _:
            yield from _force_torque(element, place, output, noise_paths)


def _force_torque(
    element: Element,
    place: SensorPlace,
    output: Callable[..., Sensor],
    noise_paths: Callable[[str], list[str]],
) -> Iterator[ParsedSensor]:
    """Yield the two outputs of a force-torque sensor in a joint: force and torque.

    The torque is about the origin of the joint. <frame> defines the axes of both vectors.
    """
    if place.origin is None:
        raise format_error(element, "a force_torque sensor must be in a <joint>")
    E, r = place.placement.E, place.origin.r
    frame = _word(element, "frame", ("child", "parent", "sensor"))
    axes = np.eye(3) if frame == "child" else E
    reference = (place.parent, _NO_TURN) if frame == "parent" else None
    direction = _word(element, "measure_direction", ("child_to_parent", "parent_to_child"))
    sign = 1.0 if direction == "parent_to_child" else -1.0
    for quantity in ("force", "torque"):
        one = output(f"_{quantity}", quantity, noise_paths(f"{quantity}/"), Transform(axes, r))
        signed = Sensor(**vars(one) | {"coefficients": (sign,)})
        yield ParsedSensor(signed, place.link, reference=reference, joint=place.joint)


_NO_TURN = Transform(np.eye(3), np.zeros(3))


def _lidar(element: Element, sensor: Sensor, period: float) -> Sensor:
    """Return a lidar with the rays, the limits and the noise of its <lidar> or <ray> element.

    A horizontal angle is about the z axis of the sensor, and a vertical angle is upward from the
    x-y plane. The rays with the smallest vertical angle come first. `period` [s] is the sample time
    of a lidar with noise or quantization.
    """
    of = element.find("lidar") if element.find("ray") is None else element.find("ray")
    if of is None or of.find("scan/horizontal") is None or of.find("range/max") is None:
        text = "a lidar needs <lidar> or <ray> with <scan><horizontal> and <range><max>"
        raise _UnsupportedSensorError(text)
    least, most = _lidar_number(of, "range/min", 0.0), _lidar_number(of, "range/max", 0.0)
    if not 0.0 <= least < most:
        text = f"the <range> is from {least} m to {most} m; 0 <= min < max is needed"
        raise _UnsupportedSensorError(text)
    yaw, pitch = _scan_angles(of, "horizontal"), _scan_angles(of, "vertical")
    count = len(yaw) * len(pitch)
    if count > MOST_RAYS:
        raise _UnsupportedSensorError(
            f"the lidar has {count} rays; at most {MOST_RAYS} are supported"
        )
    p, y = (one.ravel() for one in np.meshgrid(pitch, yaw, indexing="ij"))
    directions = np.column_stack([np.cos(p) * np.cos(y), np.cos(p) * np.sin(y), np.sin(p)])
    resolution, noise = _lidar_number(of, "range/resolution", 0.0), _noise(of.find("noise"))
    if resolution < 0.0:
        raise _UnsupportedSensorError(
            f"the <resolution> is {resolution} m; it must not be negative"
        )
    sampling = sensor.sampling
    if resolution or any(noise):
        values = dict(zip(_NOISE, noise, strict=True))
        sampling = Sampling(
            period,
            mean=(values["mean"] + values["bias_mean"],) * count if any(noise) else (),
            deviation=(values["stddev"],) * count if any(noise) else (),
            bias=(values["bias_stddev"],) * count if any(noise) else (),
            resolution=(max(resolution, values["precision"]),) * count,
        )
    return replace(sensor, directions=directions, limits=(least, most), sampling=sampling)


def _scan_angles(element: Element, name: str) -> Array:
    """Return the angles (n,) of <horizontal> or <vertical> [rad]; 0 for one ray, as in Gazebo."""
    scan = element.find(f"scan/{name}")
    if scan is None:
        return np.zeros(1)
    samples, factor = _lidar_number(scan, "samples", 1.0), _lidar_number(scan, "resolution", 1.0)
    low, high = _lidar_number(scan, "min_angle", 0.0), _lidar_number(scan, "max_angle", 0.0)
    if not 1.0 <= samples <= MOST_RAYS or not 0.0 < factor <= MOST_RAYS or high < low:
        text = (
            f"<{name}> has {samples} samples times {factor} from {low} to {high} rad; at least one "
            "sample, a positive <resolution> and <min_angle> not above <max_angle> are needed"
        )
        raise _UnsupportedSensorError(text)
    count = max(1, min(round(samples * factor), MOST_RAYS + 1))
    return np.linspace(low, high, count) if count > 1 else np.zeros(1)


def _lidar_number(element: Element, path: str, default: float) -> float:
    text = (element.findtext(path) or "").strip()
    try:
        value = float(text) if text else default
    except ValueError:
        value = np.nan
    if not np.isfinite(value):
        reason = f"<{path.rpartition('/')[2]}> must be a finite number, not '{text[:40]}'"
        raise _UnsupportedSensorError(reason)
    return value


def _word(element: Element, name: str, allowed: tuple[str, ...]) -> str:
    """Return the text of the child `name` of <force_torque>, by default the first allowed text."""
    found = element.find(f"force_torque/{name}")
    text = allowed[0] if found is None else (found.text or "").strip()
    if text not in allowed:
        words = ", ".join(allowed)
        raise format_error(element, f"<{name}> must be one of {words}, not '{text[:40]}'")
    return text


def _number(element: Element, path: str, default: float) -> float:
    found = element.find(path)
    if found is None:
        return default
    return floats(found, (found.text or "").strip(), 1, f"<{found.tag}>")[0]


def _sdf_sampling(
    element: Element | None, noises: Sequence[str], period: float, step: float
) -> Sampling:
    """Return the sampling of a sensor output.

    `noises` contains the path of the <noise> of each output component, relative to `element`.
    `period` [s] is the time between two samples. If it is zero, a sensor with noise is sampled
    every `step` [s].
    """
    each = [_noise(None if element is None else element.find(path)) for path in noises]
    columns = dict(zip(_NOISE, zip(*each, strict=True), strict=True)) if each else {}
    if not any(map(any, columns.values())):
        return Sampling(period)
    mean = tuple(np.add(columns["mean"], columns["bias_mean"]).tolist())
    has_walk = [bool(T) for T in columns["dynamic_bias_correlation_time"]]
    walk = np.multiply(columns["dynamic_bias_stddev"], has_walk)
    return Sampling(
        period or step,
        mean=mean,
        deviation=columns["stddev"],
        bias=columns["bias_stddev"],
        walk=tuple(walk.tolist()),
        walk_time=columns["dynamic_bias_correlation_time"],
        resolution=columns["precision"],
    )


def _noise_type(element: Element) -> str:
    """Return the type of a <noise> element, from its attribute or its child <type>."""
    return (element.get("type") or element.findtext("type") or "none").strip()


def _noise(element: Element | None) -> tuple[float, ...]:
    """Return the parameters of a <noise> element in the order of `_NOISE`; zeros without noise."""
    kind = "none" if element is None else _noise_type(element)
    if element is None or kind == "none":
        return (0.0,) * len(_NOISE)
    if kind not in ("gaussian", "gaussian_quantized"):
        text = f"the noise type '{kind[:40]}' must be none, gaussian or gaussian_quantized"
        raise format_error(element, text)
    values = {name: _number(element, name, 0.0) for name in _NOISE}
    if kind == "gaussian":
        values["precision"] = 0.0
    for name, value in values.items():
        if value < 0 and name not in ("mean", "bias_mean"):
            raise format_error(element, f"<{name}> is {value}; it must not be negative")
    return tuple(values.values())
