"""Detection of values in a robot file that are probably not in m, rad and kg."""

from collections.abc import Iterable, Iterator
from math import pi

import numpy as np

from rigidblocks.common.xml_reader import Element
from rigidblocks.robot.joints import Prismatic, Revolute
from rigidblocks.robot_description.parsed_links import Connection, Link

LONG = 20.0  # [m] larger than usual distances between joints and sizes of robot parts
TURNS = 4 * pi  # [rad] a limit above two turns belongs to a winch or is in degrees
ANGLE = 2 * pi + 1e-3  # [rad] largest plausible roll, pitch or yaw
HEAVY = 5e3  # [kg] heavier links are suspicious


def suspicious_units(root: Element) -> Iterator[tuple[Element, str]]:
    """Yield pairs (element, reason) for values that are probably in mm, degrees or g."""
    for origin in root.iter("origin"):
        yield from _suspicious_origin(origin)
    for joint in root.iterchildren("joint"):
        yield from _suspicious_limit(joint)
    for solid in root.iter("box", "cylinder", "sphere"):
        sizes = _values(solid, "size", "radius", "length")
        if max(sizes, default=0.0) > LONG:
            yield (
                solid,
                f"a <{solid.tag}> has a size of {max(sizes):g} m; "
                "this looks like a value in millimetres",
            )
    for link in root.iterchildren("link"):
        yield from _suspicious_inertia(link)


def suspicious_numbers(
    links: Iterable[Link], connections: Iterable[Connection]
) -> Iterator[tuple[int, str]]:
    """Yield pairs (line, reason) for links and joints whose values are probably not in SI units."""
    for link in links:
        m, I = link.inertia.m, link.inertia.I
        c = link.inertia.h / m if m else np.zeros(3)
        moments = np.diag(I) - m * (c @ c - c * c)  # about the centre of mass
        for why in (
            _suspicious_mass(link.name, m),
            _suspicious_moments(link.name, m, moments.max()),
        ):
            if why:
                yield link.line, why
    for one in connections:
        far = np.abs(one.Xp.r).max()
        if far > LONG:
            yield (
                one.line,
                f"joint '{one.name}' is {far:g} m away from its parent; "
                "this looks like a value in millimetres",
            )
        limits = np.abs(np.ravel([one.joint_properties.get(k, 0.0) for k in ("lower", "upper")]))
        most = limits[np.isfinite(limits)].max(initial=0.0)
        if isinstance(one.joint, Revolute | Prismatic) and (
            why := _suspicious_position(one.name, isinstance(one.joint, Revolute), most)
        ):
            yield one.line, why


def _suspicious_mass(link: str, m: float) -> str:
    return f"link '{link}' has {m:g} kg; this looks like a value in grams" if m > HEAVY else ""


def _suspicious_moments(link: str, m: float, largest: float) -> str:
    radius = np.sqrt(max(largest, 0.0) / m) if m else 0.0
    if radius <= LONG / 2:
        return ""
    text = f"link '{link}' of {m:g} kg has a radius of gyration of {radius:.3g} m"
    return f"{text}; the moments of inertia look like values in kg mm^2"


def _suspicious_position(joint: str, turns: bool, most: float) -> str:
    if turns and most > TURNS:
        text = f"a limit of joint '{joint}' is {most:g} rad, {most / 2 / pi:.3g} turns"
        return f"{text}; this looks like a value in degrees"
    if not turns and most > LONG:
        return f"a limit of joint '{joint}' is {most:g} m; this looks like a value in millimetres"
    return ""


def _values(element: Element, *names: str) -> list[float]:
    """Return the absolute values of all finite numbers in the attributes `names` of an element."""
    values = []
    for token in " ".join(element.get(name) or "" for name in names).split():
        try:
            values.append(abs(float(token)))
        except ValueError:
            continue
    return [value for value in values if np.isfinite(value)]


def _suspicious_origin(origin: Element) -> Iterator[tuple[Element, str]]:
    parent = origin.getparent()
    where = f"the origin of {parent.tag} '{parent.get('name') or parent.getparent().get('name')}'"
    far, turn = (max(_values(origin, name), default=0.0) for name in ("xyz", "rpy"))
    if far > LONG:
        yield origin, f"{where} is {far:g} m away; this looks like a value in millimetres"
    if turn > ANGLE:
        yield origin, f"{where} is rotated by {turn:g} rad; this looks like a value in degrees"


def _suspicious_limit(joint: Element) -> Iterator[tuple[Element, str]]:
    limit = joint.find("limit")
    if limit is None:
        return
    most = max(_values(limit, "lower", "upper"), default=0.0)
    name, kind = joint.get("name"), joint.get("type")
    if kind in ("revolute", "prismatic") and (
        why := _suspicious_position(name, kind == "revolute", most)
    ):
        yield limit, why


def _suspicious_inertia(link: Element) -> Iterator[tuple[Element, str]]:
    mass, inertia = link.find("inertial/mass"), link.find("inertial/inertia")
    m = max(_values(mass, "value"), default=0.0) if mass is not None else 0.0
    name = link.get("name")
    if why := _suspicious_mass(name, m):
        yield mass, why
    moments = [] if inertia is None else _values(inertia, "ixx", "iyy", "izz")
    if why := _suspicious_moments(name, m, max(moments, default=0.0)):
        yield inertia, why
