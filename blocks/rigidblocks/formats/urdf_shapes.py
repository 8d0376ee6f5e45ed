"""The shapes of a URDF's links."""

from collections.abc import Sequence
from math import isfinite

from lxml import etree

from rigidblocks.formats.document import (
    Element,
    first_of_each,
    number,
    numbers,
    place,
    placement,
    refused,
    required,
)
from rigidblocks.model.convex import Capsule
from rigidblocks.model.later import Later
from rigidblocks.model.shapes import Box, Cylinder, Shape, Sphere

ZERO = (0.0, 0.0, 0.0)


def shapes_of(link: Element, kind: str, later: bool) -> Sequence[Shape]:
    """The shapes of the elements `kind` of a <link>, <visual> or <collision>, in its coordinates;
    made when they are first looked at if `later`. Of a mesh there are none: no file is opened.
    """
    return Later(_shapes, link, kind) if later else _shapes(link, kind)


def has_sound_shapes(root: Element) -> bool:
    """Whether nothing is wrong with any shape of a robot, as a quick look tells."""
    meshes: set[str] = set()
    lengths: list[str] = []
    sides: list[str] = []
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
        _values(_SEEN(root) + _TOUCHING(root), 3)
    except ValueError:
        return False
    sound = all(map(str.strip, meshes)) and ".." not in "\n".join(meshes)
    return sound and min(sizes, default=0.0) >= 0.0


def _values(texts: Sequence[str], count: int) -> list[float]:
    """The numbers in texts of `count` each; raises ValueError where anything can be said of one."""
    if not (different := set(texts) - _NOWHERE):
        return []
    tokens = [text.split() for text in different]
    if any(len(some) != count for some in tokens):
        raise ValueError
    values = [float(token) for some in tokens for token in some]
    text = "".join(different)
    far = max(map(abs, values))
    if not (text.isascii() and "_" not in text and isfinite(sum(values)) and far < _FAR):
        raise ValueError
    return values


_NOWHERE = {"0 0 0"}
_SOLIDS = etree.XPath("link/*/geometry/*")
_SEEN = etree.XPath("link/visual/origin/@*", smart_strings=False)
_TOUCHING = etree.XPath("link/collision/origin/@*", smart_strings=False)
_FAR = 1e100  # further than any shape is


def _shapes(link: Element, kind: str) -> tuple[Shape, ...]:
    return tuple(shape for part in link.iterchildren(kind) for shape in _shapes_of(part))


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
