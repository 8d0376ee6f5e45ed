"""URDF, the Unified Robot Description Format of ROS, version 1.0."""

from collections.abc import Sequence
from functools import partial
from math import inf, isfinite, isnan, nan
from pathlib import Path

import numpy as np
from lxml import etree

from rigidblocks.algebra.spatial import Array, RigidInertia, Transform, symmetric_inertia
from rigidblocks.formats.document import (
    STRAIGHT,
    Children,
    Element,
    attributes,
    first_of_each,
    number,
    numbers,
    place,
    placement,
    refused,
    required,
)
from rigidblocks.formats.listed import NOTHING, SAME, Assembly, Connection, Following, Link
from rigidblocks.joint import Fixed, Joint, Planar, Prismatic, Revolute, SixDoF
from rigidblocks.joint.axial import X, Y, Z
from rigidblocks.model.convex import Capsule
from rigidblocks.model.later import Later
from rigidblocks.model.shapes import Box, Cylinder, Shape, Sphere

ZERO = (0.0, 0.0, 0.0)


def read_urdf(root: Element, path: Path, *, floating: bool, strict: bool) -> Assembly:
    """What the <robot> element of a URDF lists."""
    warnings: list[str] = []
    name = (root.get("name") or "").strip()
    if not name:
        name = path.stem
        warnings.append(f"line {root.sourceline}: <robot> has no name; it gets the file's, {name}")
    links, connections, followings = list[Link](), list[Connection](), list[Following]()
    sound = _has_sound_shapes(root)
    for element in root:
        if element.tag == "link":
            links.append(read_link(element, later=sound))
        elif element.tag == "joint":
            inside = first_of_each(element)
            connections.append(_connection(element, inside, warnings))
            if "mimic" in inside:
                followings.append(_following(element, inside["mimic"]))
    return Assembly(
        path,
        name,
        links,
        connections,
        followings,
        floating=floating,
        strict=strict,
        warnings=warnings,
        sound_shapes=sound,
    )


def read_link(element: Element, later: bool = False) -> Link:
    """The link of a <link>, with shapes that are made when they are first looked at if `later`;
    raises FormatError, with the line, for what is wrong in it.
    """
    name = required(element, "name")
    inertial, seen, touching = None, list[Element](), list[Element]()
    for part in element:
        tag = part.tag
        if tag == "visual":
            seen.append(part)
        elif tag == "collision":
            touching.append(part)
        elif tag == "inertial" and inertial is None:
            inertial = part
    body = NOTHING if inertial is None else _inertia(inertial, name)
    return Link(name, element.sourceline, body, _drawn(seen, later), _drawn(touching, later))


def _drawn(elements: Sequence[Element], later: bool) -> Sequence[Shape]:
    if not elements:
        return ()
    return Later(partial(_shapes, elements)) if later else _shapes(elements)


def _inertia(element: Element, link: str) -> RigidInertia:
    inside = first_of_each(element)
    mass, moments = _needed(element, inside, "mass"), _needed(element, inside, "inertia")
    m = number(mass, "value")
    return inertia(mass, link, m, _origin(inside), attributes(moments, _MOMENTS, 0.0))


_MOMENTS = ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")


def inertia(
    element: Element, link: str, m: float, X: Transform, moments: Sequence[float]
) -> RigidInertia:
    """The inertia of a link with the mass `m` [kg] from the `moments` xx, xy, xz, yy, yz, zz [kg
    m^2] about its centre of mass, in a frame there to which X takes the link's coordinates.

    Raises FormatError, at the element, for a negative mass or moment. Products of inertia that do
    not fit the moments are published with robots; they are judged with the whole.
    """
    xx, xy, xz, yy, yz, zz = moments
    if m < 0:
        raise refused(element, f"the mass of link '{link}' is {m} kg; it must not be negative")
    if min(xx, yy, zz) < -1e-12 * m:
        text = f"{[xx, yy, zz]} kg m^2; none may be negative"
        raise refused(element, f"the moments of inertia of link '{link}' are {text}")
    if X.E is not STRAIGHT:
        I_C = X.E.T @ np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]) @ X.E
        (xx, xy, xz), (_, yy, yz), (_, _, zz) = ((I_C + I_C.T) / 2).tolist()
    return symmetric_inertia(m, X.r.tolist(), (xx, xy, xz, yy, yz, zz))


def _needed(element: Element, inside: Children, name: str) -> Element:
    if name not in inside:
        raise refused(element, f"<{element.tag}> needs a <{name}>")
    return inside[name]


def _origin(inside: Children) -> Transform:
    origin = inside.get("origin")
    if origin is None:
        return SAME
    r, rpy = place(origin)
    return placement(r, rpy) if any(r) or any(rpy) else SAME


# ---- joints ----


def read_connection(element: Element, warnings: list[str]) -> Connection:
    """The joint of a <joint>, with warnings to those that there are; raises FormatError."""
    return _connection(element, first_of_each(element), warnings)


def _connection(element: Element, inside: Children, warnings: list[str]) -> Connection:
    name, kind = required(element, "name"), required(element, "type")
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
            return None, _REVOLUTE.get(axis := _axis(inside, name)) or Revolute(axis)
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


_REVOLUTE = {axis: Revolute(axis) for x in (X, Y, Z) for axis in (x, (-x[0], -x[1], -x[2]))}


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
    ends = kind in ("revolute", "prismatic")
    if limit is not None:
        lower, upper, velocity, effort = attributes(limit, _LIMITS, nan)
        values["velocity"] = inf if isnan(velocity) else velocity
        values["effort"] = inf if isnan(effort) else effort
        if ends and not (isnan(lower) and isnan(upper)):
            values["lower"] = 0.0 if isnan(lower) else lower
            values["upper"] = 0.0 if isnan(upper) else upper
            _compare(values["lower"], values["upper"], limit, name, warnings)
            ends = False
    if ends:
        warnings.append(f"line {element.sourceline}: joint '{name}' has no limits")
    if dynamics is not None and joint.nv == 1:
        values |= _resistance(dynamics, name)
    return values


_LIMITS = ("lower", "upper", "velocity", "effort")


def _compare(lower: float, upper: float, limit: Element, name: str, warnings: list[str]) -> None:
    if lower > upper:
        warnings.append(
            f"line {limit.sourceline}: the limits of joint '{name}' are upside down: lower "
            f"{lower:g}, upper {upper:g}"
        )


def _resistance(element: Element, joint: str) -> dict[str, float]:
    damping, friction = attributes(element, ("damping", "friction"), 0.0)
    values = {"damping": damping, "friction": friction}
    for key, value in values.items():
        if value < 0:
            raise refused(element, f"{key} of joint '{joint}' is {value}; it must not be negative")
    return values


def _following(element: Element, mimic: Element) -> Following:
    return Following(
        mimic.sourceline,
        required(element, "name"),
        required(mimic, "joint"),
        number(mimic, "multiplier", 1.0),
        number(mimic, "offset", 0.0),
    )


# ---- shapes ----


def _has_sound_shapes(root: Element) -> bool:
    """Whether nothing is wrong with any shape of a robot, as a quick look tells."""
    meshes, lengths, sides = set[str](), list[str](), list[str]()
    for solid in _SOLIDS(root):
        match solid.tag:
            case "mesh":
                meshes.add(solid.get("filename", ""))
            case "box":
                sides.append(solid.get("size", ""))
            case "sphere":
                lengths.append(solid.get("radius", ""))
            case "cylinder" | "capsule":
                lengths += (solid.get("radius", ""), solid.get("length", ""))
    try:
        sizes = _values(sides, 3) + _values(lengths, 1)
        _values(_ORIGINS(root), 3)
    except ValueError:
        return False
    sound = all(name.strip() and ".." not in name for name in meshes)
    return sound and min(sizes, default=0.0) >= 0.0


def _values(texts: Sequence[str], count: int) -> list[float]:
    """The numbers in texts of `count` each; raises ValueError where anything can be said of one."""
    if not texts:
        return []
    tokens = [text.split() for text in set(texts)]
    if any(len(some) != count for some in tokens):
        raise ValueError
    values = [float(token) for some in tokens for token in some]
    text = "".join(texts)
    far = max(max(values, default=0.0), -min(values, default=0.0))
    if not (text.isascii() and "_" not in text and isfinite(sum(values)) and far < _FAR):
        raise ValueError
    return values


_SOLIDS = etree.XPath("link/*/geometry/*")
_ORIGINS = etree.XPath("link/*[self::visual or self::collision]/origin/@*", smart_strings=False)
_FAR = 1e100  # further than any shape is


def _shapes(elements: Sequence[Element]) -> tuple[Shape, ...]:
    """The shapes of <visual> or <collision> elements in the coordinates of their link; none for a
    mesh, whose file is not opened.
    """
    return tuple(shape for element in elements for shape in _shapes_of(element))


def _shapes_of(element: Element) -> list[Shape]:
    inside = first_of_each(element)
    geometry, origin = inside.get("geometry"), inside.get("origin")
    given = (ZERO, ZERO) if origin is None else place(origin)
    found = []
    for solid in () if geometry is None else geometry:
        if solid.tag == "mesh":
            _check_inside(solid)
        elif (shape := _shape(solid, *given)) is not None:
            found.append(shape)
    return found


def _shape(element: Element, r: Sequence[float], rpy: Sequence[float]) -> Shape | None:
    if element.tag not in ("box", "cylinder", "capsule", "sphere"):
        return None
    X = placement(r, rpy)
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
