"""URDF, the Unified Robot Description Format of ROS, version 1.0."""

from collections.abc import Iterator, Sequence
from math import inf, isnan, nan
from pathlib import Path

import numpy as np
from lxml import etree

from rigidblocks.algebra.spatial import Array, RigidInertia, Transform
from rigidblocks.formats.document import (
    HERE,
    SAME,
    Children,
    Element,
    Origin,
    first_of_each,
    number,
    numbers,
    origins,
    placements,
    refused,
    required,
    table,
)
from rigidblocks.formats.inertias import inertias
from rigidblocks.formats.listed import NOTHING, Assembly, Connection, Following, Link
from rigidblocks.formats.urdf_shapes import has_sound_shapes, shapes_of
from rigidblocks.joint import Fixed, Joint, Planar, Prismatic, Revolute, SixDoF
from rigidblocks.joint.axial import X, Y, Z


def read_urdf(root: Element, path: Path, *, floating: bool, strict: bool) -> Assembly:
    """What the <robot> element of a URDF lists."""
    warnings: list[str] = []
    name = (root.get("name") or "").strip()
    if not name:
        name = path.stem
        warnings.append(f"line {root.sourceline}: <robot> has no name; it gets the file's, {name}")
    sound = has_sound_shapes(root)
    inertials, joints = _INERTIALS(root), _JOINTS(root)
    insides = [first_of_each(part) for part in (*inertials, *joints)]
    places, n = _origins(insides), len(inertials)
    return Assembly(
        path,
        name,
        _links(_LINKS(root), inertials, insides[:n], places[:n], sound),
        _connections(joints, insides[n:], places[n:], warnings),
        list(_followings(joints, insides[n:])),
        floating=floating,
        strict=strict,
        warnings=warnings,
        sound_shapes=sound,
    )


_LINKS, _JOINTS, _INERTIALS = map(etree.XPath, ("link", "joint", "link/inertial[1]"))


def read_link(element: Element) -> Link:
    """The link of a <link>; raises FormatError, with the line, for what is wrong in it."""
    inertials = list(element.iterchildren("inertial"))[:1]
    insides = [first_of_each(inertial) for inertial in inertials]
    return _links([element], inertials, insides, _origins(insides), later=False)[0]


def _links(
    elements: Sequence[Element],
    inertials: Sequence[Element],
    insides: Sequence[Children],
    places: Sequence[Origin],
    later: bool,
) -> list[Link]:
    """The links of <link> elements with the first <inertial> of each that has one, what is in it,
    and where it is. All that is of one kind is read at once: of a small part, what is done around
    it takes longer than it.
    """
    names = _each(elements, "name")
    if len(inertials) == len(elements):
        bodies = _inertias(inertials, insides, places, names)
    else:
        name_of = dict(zip(elements, names, strict=True))
        owners = [inertial.getparent() for inertial in inertials]
        some = _inertias(inertials, insides, places, [name_of[owner] for owner in owners])
        of = dict(zip(owners, some, strict=True))
        bodies = [of.get(element, NOTHING) for element in elements]
    return [
        Link(
            name,
            element.sourceline,
            body,
            shapes_of(element, "visual", later),
            shapes_of(element, "collision", later),
        )
        for element, name, body in zip(elements, names, bodies, strict=True)
    ]


def _each(elements: Sequence[Element], attribute: str) -> list[str]:
    """The attribute of each element; raises FormatError where it is missing or blank."""
    found = [element.get(attribute, "").strip() for element in elements]
    return found if all(found) else [required(element, attribute) for element in elements]


def _inertias(
    elements: Sequence[Element],
    insides: Sequence[Children],
    places: Sequence[Origin],
    names: Sequence[str],
) -> list[RigidInertia]:
    masses = _needed(elements, insides, "mass")
    moments = _needed(elements, insides, "inertia")
    return inertias(
        (mass, name, m, place, rows)
        for mass, name, (m,), place, rows in zip(
            masses,
            names,
            table(masses, ("value",)),
            places,
            table(moments, ("ixx", "ixy", "ixz", "iyy", "iyz", "izz"), 0.0),
            strict=True,
        )
    )


def _needed(
    elements: Sequence[Element], insides: Sequence[Children], name: str
) -> Sequence[Element]:
    """The child `name` of each element; raises FormatError where it is missing."""
    found = [inside.get(name) for inside in insides]
    if None in found:
        element = elements[found.index(None)]
        raise refused(element, f"<{element.tag}> needs a <{name}>")
    return found


def _origins(insides: Sequence[Children]) -> list[Origin]:
    """The <origin> of each, HERE where there is none."""
    given = [inside["origin"] for inside in insides if "origin" in inside]
    found = origins(given)
    if len(given) == len(insides):
        return found
    known = iter(found)
    return [next(known) if "origin" in inside else HERE for inside in insides]


# ---- joints ----


def read_connection(element: Element, warnings: list[str]) -> Connection:
    """The joint of a <joint>, with warnings to those that there are; raises FormatError."""
    insides = [first_of_each(element)]
    return _connections([element], insides, _origins(insides), warnings)[0]


def _connections(
    elements: Sequence[Element],
    insides: Sequence[Children],
    places: Sequence[Origin],
    warnings: list[str],
) -> list[Connection]:
    names, kinds = _each(elements, "name"), _each(elements, "type")
    parents = _each(_needed(elements, insides, "parent"), "link")
    children = _each(_needed(elements, insides, "child"), "link")
    moved = list(map(_joint, elements, insides, names, kinds))
    said = _freedoms(elements, insides, names, kinds, moved, warnings)
    return [
        Connection(
            name,
            element.sourceline,
            parent,
            child,
            joint,
            origin if turn is SAME else turn @ origin,
            turn,
            values,
        )
        for element, name, parent, child, (turn, joint), origin, values in zip(
            elements, names, parents, children, moved, placements(places), said, strict=True
        )
    ]


def _joint(element: Element, inside: Children, name: str, kind: str) -> tuple[Transform, Joint]:
    """The joint, and the transform from the coordinates of the links to those of its two frames,
    SAME but where these are turned.
    """
    match kind:
        case "revolute" | "continuous":
            return SAME, _REVOLUTE.get(axis := _axis(inside, name)) or Revolute(axis)
        case "prismatic":
            return SAME, Prismatic(_axis(inside, name))
        case "fixed":
            return SAME, Fixed()
        case "floating":
            return SAME, SixDoF()
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
    elements: Sequence[Element],
    insides: Sequence[Children],
    names: Sequence[str],
    kinds: Sequence[str],
    moved: Sequence[tuple[Transform, Joint]],
    warnings: list[str],
) -> list[dict[str, float]]:
    """What is said of the freedoms of each joint, with warnings to those that there are."""
    limits = [inside["limit"] for inside in insides if "limit" in inside]
    bounds = iter(table(limits, ("lower", "upper", "velocity", "effort"), nan))
    found = []
    for element, inside, name, kind in zip(elements, insides, names, kinds, strict=True):
        limit = inside.get("limit")
        values = {} if limit is None else _limited(limit, name, kind, next(bounds), warnings)
        if kind in _LIMITED and "lower" not in values:
            warnings.append(f"line {element.sourceline}: joint '{name}' has no limits")
        found.append(values)
    resisting = [
        (inside["dynamics"], name, values)
        for inside, name, (_, joint), values in zip(insides, names, moved, found, strict=True)
        if joint.nv == 1 and "dynamics" in inside
    ]
    forces = table([element for element, _, _ in resisting], _RESISTANCE, 0.0)
    for (element, name, values), row in zip(resisting, forces, strict=True):
        _check_not_negative(element, name, row)
        values["damping"], values["friction"] = row
    return found


_LIMITED = ("revolute", "prismatic")  # kinds of joints that need limits
_RESISTANCE = ("damping", "friction")


def _limited(
    limit: Element, name: str, kind: str, bounds: Sequence[float], warnings: list[str]
) -> dict[str, float]:
    """What the `bounds` of a <limit> say, each nan where it is missing."""
    lower, upper, velocity, effort = bounds
    values = {
        "velocity": inf if isnan(velocity) else velocity,
        "effort": inf if isnan(effort) else effort,
    }
    if kind in _LIMITED and not (isnan(lower) and isnan(upper)):
        values["lower"] = lower = 0.0 if isnan(lower) else lower
        values["upper"] = upper = 0.0 if isnan(upper) else upper
        if lower > upper:
            warnings.append(
                f"line {limit.sourceline}: the limits of joint '{name}' are upside down: lower "
                f"{lower:g}, upper {upper:g}"
            )
    return values


def _check_not_negative(element: Element, joint: str, forces: Sequence[float]) -> None:
    for key, value in zip(_RESISTANCE, forces, strict=True):
        if value < 0:
            raise refused(element, f"{key} of joint '{joint}' is {value}; it must not be negative")


def _followings(elements: Sequence[Element], insides: Sequence[Children]) -> Iterator[Following]:
    for element, inside in zip(elements, insides, strict=True):
        if (mimic := inside.get("mimic")) is not None:
            yield Following(
                mimic.sourceline,
                required(element, "name"),
                required(mimic, "joint"),
                number(mimic, "multiplier", 1.0),
                number(mimic, "offset", 0.0),
            )
