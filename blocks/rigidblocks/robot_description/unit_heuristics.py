"""Numbers of a URDF that look as if they were in another unit than its m, rad and kg."""

from collections.abc import Iterator
from math import pi

import numpy as np

from rigidblocks.formats.document import Element

LONG = 20.0  # [m] between two joints or of one part: no robot of links is as large
TURNS = 4 * pi  # [rad] a limit beyond two turns is that of a winch, or is in degrees
ANGLE = 2 * pi + 1e-3  # [rad] more than an angle of roll, pitch and yaw needs
HEAVY = 5e3  # [kg] of one link


def doubted_units(root: Element) -> Iterator[tuple[Element, str]]:
    """The elements of a <robot> whose numbers look like millimetres, degrees or grams, and why."""
    for origin in root.iter("origin"):
        yield from _doubted_origin(origin)
    for joint in root.iterchildren("joint"):
        yield from _doubted_limit(joint)
    for solid in root.iter("box", "cylinder", "sphere"):
        sizes = _values(solid, "size", "radius", "length")
        if max(sizes, default=0.0) > LONG:
            yield solid, f"a <{solid.tag}> is {max(sizes):g} m large; it looks like millimetres"
    for link in root.iterchildren("link"):
        yield from _doubted_inertia(link)


def _values(element: Element, *names: str) -> list[float]:
    """The sizes of the finite numbers in the attributes."""
    values = []
    for token in " ".join(element.get(name) or "" for name in names).split():
        try:
            values.append(abs(float(token)))
        except ValueError:
            continue
    return [value for value in values if np.isfinite(value)]


def _doubted_origin(origin: Element) -> Iterator[tuple[Element, str]]:
    parent = origin.getparent()
    where = f"the origin of {parent.tag} '{parent.get('name') or parent.getparent().get('name')}'"
    far, turn = (max(_values(origin, name), default=0.0) for name in ("xyz", "rpy"))
    if far > LONG:
        yield origin, f"{where} is {far:g} m away; it looks like millimetres"
    if turn > ANGLE:
        yield origin, f"{where} is turned by {turn:g} rad; it looks like degrees"


def _doubted_limit(joint: Element) -> Iterator[tuple[Element, str]]:
    limit = joint.find("limit")
    if limit is None:
        return
    most = max(_values(limit, "lower", "upper"), default=0.0)
    name = joint.get("name")
    if joint.get("type") == "revolute" and most > TURNS:
        text = f"a limit of joint '{name}' is {most:g} rad, {most / 2 / pi:.3g} turns"
        yield limit, f"{text}; it looks like degrees"
    if joint.get("type") == "prismatic" and most > LONG:
        yield limit, f"a limit of joint '{name}' is {most:g} m; it looks like millimetres"


def _doubted_inertia(link: Element) -> Iterator[tuple[Element, str]]:
    mass, inertia = link.find("inertial/mass"), link.find("inertial/inertia")
    m = max(_values(mass, "value"), default=0.0) if mass is not None else 0.0
    name = link.get("name")
    if m > HEAVY:
        yield mass, f"link '{name}' has {m:g} kg; it looks like grams"
    moments = [] if inertia is None else _values(inertia, "ixx", "iyy", "izz")
    if m and moments and np.sqrt(max(moments) / m) > LONG / 2:
        radius = np.sqrt(max(moments) / m)
        text = f"the moments of link '{name}' are those of {m:g} kg {radius:.3g} m away"
        yield inertia, f"{text}; they look like kg mm^2"
