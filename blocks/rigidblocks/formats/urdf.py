"""URDF, the Unified Robot Description Format of ROS, version 1.0."""

from collections.abc import Iterator, Sequence
from math import inf
from pathlib import Path

import numpy as np

from rigidblocks.algebra.spatial import Array, RigidInertia, Transform, mcI
from rigidblocks.formats.document import (
    STRAIGHT,
    Children,
    Element,
    children,
    first_of_each,
    number,
    numbers,
    placement,
    refused,
    required,
)
from rigidblocks.formats.links import NOTHING, SAME, Assembly, Connection, Following, Link
from rigidblocks.joint import Fixed, Joint, Planar, Prismatic, Revolute, SixDoF
from rigidblocks.model.convex import Capsule
from rigidblocks.model.shapes import Box, Cylinder, Shape, Sphere

ZERO = (0.0, 0.0, 0.0)


def read_urdf(root: Element, path: Path, *, floating: bool, strict: bool) -> Assembly:
    """What the <robot> element of a URDF lists."""
    warnings: list[str] = []
    name = (root.get("name") or "").strip()
    if not name:
        name = path.stem
        warnings.append(f"line {root.sourceline}: <robot> has no name; it gets the file's, {name}")
    joints = list(children(root, "joint"))
    return Assembly(
        path,
        name,
        [read_link(element) for element in children(root, "link")],
        [read_connection(element, warnings) for element in joints],
        [_following(element) for element in joints if element.find("mimic") is not None],
        floating=floating,
        strict=strict,
        warnings=warnings,
    )


def read_link(element: Element) -> Link:
    """The link of a <link>; raises FormatError, with the line, for what is wrong in it."""
    name = required(element, "name")
    inertial, appearance, contact = None, list[Shape](), list[Shape]()
    for part in element.iterchildren("inertial", "visual", "collision"):
        match part.tag:
            case "visual":
                appearance += _shapes(part)
            case "collision":
                contact += _shapes(part)
            case _ if inertial is None:
                inertial = part
    inertia = NOTHING if inertial is None else _inertia(inertial, name)
    return Link(name, element.sourceline, inertia, tuple(appearance), tuple(contact))


def _inertia(element: Element, link: str) -> RigidInertia:
    inside = first_of_each(element)
    X = _origin(inside)
    mass, moments = (_needed(element, inside, name) for name in ("mass", "inertia"))
    m = number(mass, "value")
    xx, xy, xz, yy, yz, zz = [number(moments, name, 0.0) for name in _MOMENTS]
    return inertia(mass, link, m, X, np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]))


_MOMENTS = ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")


def inertia(element: Element, link: str, m: float, X: Transform, I_C: Array) -> RigidInertia:
    """The inertia of a link with the mass `m` [kg] from the moments `I_C` (3, 3) [kg m^2] about its
    centre of mass, in a frame there to which X takes the link's coordinates.

    Raises FormatError, at the element, for a negative mass or moment. Products of inertia that do
    not fit the moments are published with robots; they are judged with the whole.
    """
    if m < 0:
        raise refused(element, f"the mass of link '{link}' is {m} kg; it must not be negative")
    if min(moments := I_C.diagonal().tolist()) < -1e-12 * m:
        text = f"the moments of inertia of link '{link}' are {moments} kg m^2; none may be negative"
        raise refused(element, text)
    if X.E is not STRAIGHT:
        I_C = X.E.T @ I_C @ X.E
        I_C = (I_C + I_C.T) / 2
    return mcI(m, X.r, I_C)


def _needed(element: Element, inside: Children, name: str) -> Element:
    if name not in inside:
        raise refused(element, f"<{element.tag}> needs a <{name}>")
    return inside[name]


def _origin(inside: Children) -> Transform:
    given = _given_origin(inside)
    return placement(*given) if given else SAME


def _given_origin(inside: Children) -> tuple[Sequence[float], Sequence[float]] | None:
    """Position [m] and roll, pitch and yaw [rad] of the <origin>."""
    if (origin := inside.get("origin")) is None:
        return None
    return numbers(origin, "xyz", 3, ZERO), numbers(origin, "rpy", 3, ZERO)


# ---- joints ----


def read_connection(element: Element, warnings: list[str]) -> Connection:
    """The joint of a <joint>, with warnings to those that there are; raises FormatError."""
    name, kind = required(element, "name"), required(element, "type")
    inside = first_of_each(element)
    turn, joint = _joint(element, inside, name, kind)
    origin = _origin(inside)
    return Connection(
        name,
        element.sourceline,
        required(_needed(element, inside, "parent"), "link"),
        required(_needed(element, inside, "child"), "link"),
        joint,
        origin if turn is None else turn @ origin,
        SAME if turn is None else turn,
        _freedoms(element, inside, name, kind, joint, warnings),
    )


def _joint(
    element: Element, inside: Children, name: str, kind: str
) -> tuple[Transform | None, Joint]:
    """The joint, and the transform from the coordinates of the links to those of its two frames
    where these are turned.
    """
    match kind:
        case "revolute" | "continuous":
            return None, Revolute(_axis(inside, name))
        case "prismatic":
            return None, Prismatic(_axis(inside, name))
        case "fixed":
            return None, Fixed()
        case "floating":
            return None, SixDoF()
        case "planar":
            return Transform(_normal_to_z(np.array(_axis(inside, name))), np.zeros(3)), Planar()
    known = "revolute, continuous, prismatic, fixed, floating, planar"
    raise refused(element, f"joint '{name}' has the type '{kind}'; it must be one of {known}")


def _axis(inside: Children, name: str) -> tuple[float, float, float]:
    if (axis := inside.get("axis")) is None:
        return (1.0, 0.0, 0.0)
    x, y, z = numbers(axis, "xyz", 3, (1.0, 0.0, 0.0))
    if not (x or y or z):
        raise refused(axis, f"the axis of joint '{name}' is zero; it must have a direction")
    return x, y, z


def _normal_to_z(normal: Array) -> Array:
    """A rotation (3, 3) to coordinates in which `normal` is z."""
    z = normal / np.linalg.norm(normal)
    if z[2] == 1.0:
        return np.eye(3)
    x = np.cross(np.eye(3)[np.argmin(np.abs(z))], z)
    x = x / np.linalg.norm(x)
    return np.array([x, np.cross(z, x), z])


def _freedoms(
    element: Element, inside: Children, name: str, kind: str, joint: Joint, warnings: list[str]
) -> dict[str, float]:
    values: dict[str, float] = {}
    limit, dynamics = inside.get("limit"), inside.get("dynamics")
    if limit is not None:
        values = {k: number(limit, k, inf) for k in ("velocity", "effort")}
    if limit is not None and kind in ("revolute", "prismatic") and _has_bounds(limit):
        values |= {k: number(limit, k, 0.0) for k in ("lower", "upper")}
        if values["lower"] > values["upper"]:
            warnings.append(
                f"line {limit.sourceline}: the limits of joint '{name}' are upside down: lower "
                f"{values['lower']:g}, upper {values['upper']:g}"
            )
    elif kind in ("revolute", "prismatic"):
        warnings.append(f"line {element.sourceline}: joint '{name}' has no limits")
    if dynamics is not None and joint.nv == 1:
        values |= {k: _resistance(dynamics, k, name) for k in ("damping", "friction")}
    return values


def _has_bounds(limit: Element) -> bool:
    return not {"lower", "upper"}.isdisjoint(limit.keys())


def _resistance(element: Element, key: str, joint: str) -> float:
    value = number(element, key, 0.0)
    if value < 0:
        raise refused(element, f"{key} of joint '{joint}' is {value}; it must not be negative")
    return value


def _following(element: Element) -> Following:
    mimic = element.find("mimic")
    return Following(
        mimic.sourceline,
        required(element, "name"),
        required(mimic, "joint"),
        number(mimic, "multiplier", 1.0),
        number(mimic, "offset", 0.0),
    )


# ---- shapes ----


def _shapes(element: Element) -> Iterator[Shape]:
    """The shapes of a <visual> or <collision> in the coordinates of its link; none for a mesh,
    whose file is not opened.
    """
    inside = first_of_each(element)
    origin = _given_origin(inside)
    for solid in inside["geometry"].iterchildren("*") if "geometry" in inside else ():
        if solid.tag == "mesh":
            _check_inside(solid)
        elif (shape := _shape(solid, placement(*origin) if origin else SAME)) is not None:
            yield shape


def _shape(element: Element, X: Transform) -> Shape | None:
    match element.tag:
        case "box":
            sides = numbers(element, "size", 3)
            return Box(sides, X) if _positive(element, sides) else None
        case "cylinder":
            size = [number(element, "radius"), number(element, "length")]
            if _positive(element, size):
                return Cylinder(size[0], size[1], placement=X)
        case "capsule":  # an extension that readers of ROS know
            size = [number(element, "radius"), number(element, "length")]
            return Capsule(size[0], size[1], X) if _positive(element, size) else None
        case "sphere":
            radius = number(element, "radius")
            return Sphere(radius, X.r) if _positive(element, [radius]) else None
    return None


def _positive(element: Element, sizes: Sequence[float]) -> bool:
    """Whether the sizes are positive: a shape without extent is none, a negative one refused."""
    if min(sizes) < 0:
        raise refused(element, f"a <{element.tag}> has the negative size {min(sizes)} m")
    return min(sizes) > 0


def _check_inside(mesh: Element) -> None:
    """Refuses a mesh in a path that leaves the package it names."""
    if ".." not in (name := required(mesh, "filename")):
        return
    scheme, _, path = name.partition("://")
    if scheme in ("package", "model"):
        depth = 0
        for part in path.split("/")[1:]:
            depth += _DEEPER.get(part, 1)
            if depth < 0:
                raise refused(mesh, f"the mesh '{name}' is outside of the package that it names")


_DEEPER = {"..": -1, ".": 0, "": 0}  # of the parts of a path
