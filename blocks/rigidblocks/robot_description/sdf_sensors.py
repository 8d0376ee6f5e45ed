"""Sensors of SDF files: inertial, force-torque, altitude and magnetic sensors."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from rigidblocks.robot_description.parsed_links import ParsedSensor
from rigidblocks.robot_description.robot_description import Sampling, Sensor
from rigidblocks.robot_description.xml_reader import Element, floats, format_error
from rigidblocks.spatial.spatial import Transform

READ = ("imu", "force_torque", "altimeter", "magnetometer")
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
    element: Element, place: SensorPlace, field: tuple[float, ...], step: float
) -> Iterator[ParsedSensor]:
    """Yield the outputs of a <sensor> element.

    Args:
        element: The element; its type is one of `READ`.
        place: The link, joint and placement of the sensor.
        field: The magnetic field of the world (3,) [T].
        step: The sample time [s] of a sensor that has noise and no <update_rate>.
    """
    name, kind = (element.get("name") or "sensor").strip(), element.get("type")
    of = element.find(kind)
    rate = _number(element, "update_rate", 0.0)
    if rate < 0:
        raise format_error(element, f"the <update_rate> is {rate} Hz; it must not be negative")

    def output(
        suffix: str, quantity: str, noises: list[str], transform: Transform = place.placement
    ) -> Sensor:
        sampling = _sampling(of, noises, 1.0 / rate if rate else 0.0, step)
        vector = field if kind == "magnetometer" else (0.0, 0.0, 0.0)
        return Sensor(
            f"{name}{suffix}", quantity, placement=transform, vector=vector, sampling=sampling
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


def _word(element: Element, name: str, allowed: tuple[str, ...]) -> str:
    """Return the child `name` of a force-torque sensor, by default the first allowed value."""
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


def _sampling(of: Element | None, noises: list[str], period: float, step: float) -> Sampling:
    """Return the sampling of a sensor output.

    `noises` contains, for each element of the output, the path of its <noise> in the element `of`.
    """
    each = [_noise(None if of is None else of.find(path)) for path in noises]
    columns = dict(zip(_NOISE, zip(*each, strict=True), strict=True))
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


def _noise(element: Element | None) -> tuple[float, ...]:
    """Return the parameters of a <noise> element in the order of `_NOISE`, zero without noise."""
    kind = "none" if element is None else (element.get("type") or "none").strip()
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
