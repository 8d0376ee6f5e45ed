"""Parsed contents of a robot file: links, joints and frames, before assembly into a model."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.polynomial import Polynomial

from rigidblocks.common.arrays import floats_of_shape, read_only
from rigidblocks.common.xml_reader import Element, Origin, format_error
from rigidblocks.robot.joints import Joint
from rigidblocks.robot.model import STANDARD_GRAVITY
from rigidblocks.robot.ray_casting import Obstacle
from rigidblocks.robot.robot_description import (
    Actuator,
    BodyDrag,
    Sensor,
    Tendon,
    Weightless,
)
from rigidblocks.robot.shapes import Plane, Shape
from rigidblocks.spatial.rigid_motion import SAME, rotation
from rigidblocks.spatial.spatial import (
    STRAIGHT,
    Array,
    RigidInertia,
    Transform,
    first_and_second_moments,
    symmetric_inertia,
)

Moments = Sequence[float]


def inertia(element: Element, link: str, m: float, X: Transform, moments: Moments) -> RigidInertia:
    """Return the inertia of a link in link coordinates.

    Some published robots have products of inertia that are inconsistent with the moments of
    inertia. This function does not check the consistency; `model_from_links` does.

    Args:
        element: The element, for error messages.
        link: The name of the link, for error messages.
        m: The mass [kg].
        X: The transform from link coordinates to a frame at the centre of mass.
        moments: The moments and products of inertia xx, xy, xz, yy, yz, zz [kg m^2] about the
            centre of mass, in this frame.

    Raises:
        FormatError: The mass or a moment of inertia is negative.
    """
    return symmetric_inertia(m, X.r.tolist(), _rotate_moments(element, link, m, X.E, moments))


def inertias(
    inertials: Iterable[tuple[Element, str, float, Origin, Moments]],
) -> list[RigidInertia]:
    """Return the inertias of several links as in `inertia`, computed with array operations."""
    masses, h, I = list[float](), list[float](), list[float]()
    for element, link, m, (c, rpy), moments in inertials:
        E = rotation(rpy) if any(rpy) else STRAIGHT
        first, second = first_and_second_moments(
            m, c, _rotate_moments(element, link, m, E, moments)
        )
        masses.append(m)
        h += first
        I += second
    n = len(masses)
    return list(
        map(RigidInertia, masses, floats_of_shape((n, 3), h), floats_of_shape((n, 3, 3), I))
    )


LARGEST = 1e200  # [kg, kg m^2] larger inertias can overflow in the joint-space inertia matrix


def _rotate_moments(element: Element, link: str, m: float, E: Array, moments: Moments) -> Moments:
    """Return the moments of inertia in link axes; reject a negative mass or moment of inertia.

    E is the rotation from link axes to the axes of `moments`.
    """
    xx, xy, xz, yy, yz, zz = moments
    if m < 0:
        raise format_error(element, f"the mass of link '{link}' is {m} kg; it must not be negative")
    if min(xx, yy, zz) < -1e-12 * m:
        text = f"{[xx, yy, zz]} kg m^2; none may be negative"
        raise format_error(element, f"the moments of inertia of link '{link}' are {text}")
    if xx + yy + zz > LARGEST or m > LARGEST:
        text = f"{m} kg and {[xx, yy, zz]} kg m^2; the largest value is {LARGEST}"
        raise format_error(element, f"the mass and moments of inertia of link '{link}' are {text}")
    if E is STRAIGHT:
        return moments
    I_C = E.T @ np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]) @ E
    (xx, xy, xz), (_, yy, yz), (_, _, zz) = ((I_C + I_C.T) / 2).tolist()
    return xx, xy, xz, yy, yz, zz


NOTHING = RigidInertia(0.0, read_only(np.zeros(3)), read_only(np.zeros((3, 3))))
WORLD = ""  # the name of the fixed base, which is not a link


class Link(NamedTuple):
    """Link of a file: its inertia and its shapes in link coordinates."""

    name: str
    line: int
    inertia: RigidInertia = NOTHING
    appearance: Sequence[Shape] = ()
    contact: Sequence[Shape] = ()


def weightless(link: Link, share: float = 1.0) -> Weightless:
    """Return the weightless mass of a link, in link coordinates: `share` times the link mass."""
    m, h = link.inertia.m, link.inertia.h
    x, y, z = (h / m if m else h).tolist()
    return Weightless(link.name, -1, share * m, (x, y, z))


class Connection(NamedTuple):
    """Joint of a file, from link `parent` to link `child`.

    `Xp` is the transform from parent link coordinates to the joint frame F_p. `Xs` is the transform
    from child link coordinates to the joint frame F_s. `joint_properties` are as in
    `JointProperties.from_values`.
    """

    name: str
    line: int
    parent: str
    child: str
    joint: Joint
    Xp: Transform
    Xs: Transform = SAME
    joint_properties: Mapping[str, Any] = MappingProxyType({})
    closes: bool = False  # True: always a loop joint, never a tree joint


@dataclass(frozen=True, eq=False)  # eq=False: comparing arrays returns an array
class ParsedSpring:
    """Spring between two links of a file.

    `ends` contains the name of a link and a point (3,) [m] in link coordinates for each end.
    """

    name: str
    ends: tuple[tuple[str, Array], tuple[str, Array]]
    stiffness: float
    damping: float
    rest: float


@dataclass(frozen=True)
class ParsedMimicJoint:
    """Joint that follows another joint: q = ratio q_source + offset.

    The position also contains the sum of curve[k] q_source^(k + 2).
    """

    line: int
    joint: str
    source: str
    ratio: float
    offset: float
    curve: tuple[float, ...] = ()

    @property
    def polynomial(self) -> Polynomial:
        """Position of the joint as a polynomial of the position of the source."""
        return Polynomial([self.offset, self.ratio, *self.curve])


class ParsedSensor(NamedTuple):
    """Sensor in a file, with the names of its links and joints.

    Attributes:
        sensor: The sensor; its placement is relative to `link`.
        link: The link that carries the sensor, by default the base.
        joints: The joints of the sensor.
        reference: The link and the placement of the reference frame, or None.
        outboard: The links whose inertias the sensor needs in its field `parts`.
        joint: The name of a joint, or "". The links outboard of this joint replace `outboard`.
        obstacles: The obstacles with their links; each placement is relative to the link.
        path_links: The link of each frame on the line that a length sensor measures.
    """

    sensor: Sensor
    link: str = WORLD
    joints: Sequence[str] = ()
    reference: tuple[str, Transform] | None = None
    outboard: Sequence[str] = ()
    joint: str = ""
    obstacles: Sequence[tuple[str, Obstacle]] = ()
    path_links: Sequence[str] = ()


JointValues = Mapping[str, Array]  # positions or velocities by joint name


class Assembly(NamedTuple):
    """Links, joints and other elements of a file in file order, and options for the model.

    Attributes:
        loops: True if a link may be the child of several joints.
        floating: True to connect the first link to the base by a joint with six degrees of freedom.
        strict: True to reject physically impossible inertias.
        collision_exclusions: The collision exclusions as pairs of links.
        start: The initial positions of joints that do not start in the neutral position.
        keyframes: Positions and velocities by keyframe name.
        weightless: Masses on which gravity does not act, by link name, in link coordinates.
        tendons: Tendons with the names of their joints, or of the links of their line.
        drags: Fluid drag by link name; the placement is relative to the link.
        sensors: Sensors of the supported types.
        report: Function that yields additional warnings.
    """

    path: Path
    name: str
    links: Sequence[Link]
    connections: Sequence[Connection]
    mimic_joints: Sequence[ParsedMimicJoint] = ()
    frames: Sequence[tuple[str, str, Transform]] = ()  # name, link, placement on the link
    gravity: Sequence[float] = STANDARD_GRAVITY
    loops: bool = False
    floating: bool = False
    strict: bool = False
    warnings: Sequence[str] = ()
    report: Callable[[], Iterable[str]] = tuple
    actuators: Sequence[tuple[Sequence[str], Actuator]] = ()  # names of the joints or links
    springs: Sequence[ParsedSpring] = ()
    collision_exclusions: Sequence[tuple[str, str]] = ()
    planes: Sequence[tuple[str, Plane]] = ()  # static planes, in the coordinates of their link
    sound_shapes: bool = False  # True: all shapes are valid, so creation at first use cannot fail
    origin: Transform | None = None  # placement of the base link on the base; None: identity
    start: JointValues = MappingProxyType({})
    keyframes: Mapping[str, tuple[JointValues, JointValues]] = MappingProxyType({})
    weightless: Sequence[tuple[str, Weightless]] = ()
    tendons: Sequence[tuple[Sequence[str], Tendon]] = ()
    drags: Sequence[tuple[str, BodyDrag]] = ()
    sensors: Sequence[ParsedSensor] = ()
