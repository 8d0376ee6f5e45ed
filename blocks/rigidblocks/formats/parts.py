"""Joints, shapes, transforms and inertias as JSON, and back."""

from collections.abc import Mapping
from dataclasses import asdict, fields
from types import ModuleType
from typing import Any

import numpy as np

from rigidblocks import joint as joints
from rigidblocks.algebra.spatial import Transform
from rigidblocks.formats.node import Node
from rigidblocks.joint import Joint
from rigidblocks.model.convex import Capsule, ConvexHull, Ellipsoid
from rigidblocks.model.figures import Polyhedron, Polyline
from rigidblocks.model.material import Material
from rigidblocks.model.shapes import Box, Cylinder, Plane, PointSet, Shape, Sphere

_PUBLIC = [getattr(joints, name) for name in joints.__all__]
JOINTS = {c.__name__: c for c in _PUBLIC if isinstance(c, type) and issubclass(c, Joint)}
del JOINTS["Joint"]
SHAPES = {
    cls.__name__: cls
    for cls in (
        Box,
        Capsule,
        ConvexHull,
        Cylinder,
        Ellipsoid,
        PointSet,
        Polyhedron,
        Polyline,
        Sphere,
    )
}
AT_REST = SHAPES | {"Plane": Plane}  # what the base touches with


def part_to_json(part: Joint | Shape | Plane, types: Mapping[str, type]) -> dict[str, Any]:
    """A joint or a shape, with its type and its fields; raises TypeError for one of a type that is
    not among `types`.
    """
    name = type(part).__name__
    if types.get(name) is not type(part):
        raise TypeError(f"a {name} cannot be saved; it must be one of {', '.join(types)}")
    values = {f.name: getattr(part, f.name) for f in fields(part)}
    return {"type": name} | {k: to_json(v) for k, v in values.items() if v is not None}


def to_json(value: Any) -> Any:
    """A field of a part: a joint, a material, a transform, a text or numbers."""
    if isinstance(value, Joint):
        return part_to_json(value, JOINTS)
    if isinstance(value, Material):
        return {k: v for k, v in asdict(value).items() if v is not None}
    if isinstance(value, str):
        return value
    if hasattr(value, "E"):
        return {"E": to_json(value.E), "r": to_json(value.r)}
    array = np.asarray(value)
    if array.dtype == object:
        raise TypeError(f"{value!r} is no number and cannot be saved")
    if array.dtype != int:
        array = array.astype(float)
    return array.tolist()


def joint_from_json(node: Node) -> Joint:
    """The joint; raises FormatError for what is none."""
    return _part(node, JOINTS)  # type: ignore[no-any-return]


def shape_from_json(node: Node) -> Shape:
    """The shape; raises FormatError for what is none."""
    return _part(node, SHAPES)  # type: ignore[no-any-return]


def at_rest_from_json(node: Node) -> Shape | Plane:
    """The shape or plane at rest; raises FormatError for what is none."""
    return _part(node, AT_REST)  # type: ignore[no-any-return]


def _part(node: Node, types: Mapping[str, Any]) -> Any:
    name = node["type"].text()
    if name not in types:
        raise node.refused(f"has the type '{name}'; it must be one of {', '.join(types)}")
    known = [f.name for f in fields(types[name])]
    node.keys({"type", *known})
    values = {key: _field(key, member) for key in known if (member := node.get(key)) is not None}
    try:
        return types[name](**values)
    except (TypeError, ValueError) as error:
        raise node.refused(f"is no {name}: {error}") from None


def _field(name: str, node: Node) -> Any:
    if name == "joint":
        return joint_from_json(node)
    if name == "placement":
        return transform(node)
    if name == "material":
        return material(node)
    if isinstance(node.value, str):
        return node.value
    if isinstance(node.value, list):
        nested = bool(node.value) and isinstance(node.value[0], list)
        return node.array(-1, 3) if nested else tuple(node.array(-1).tolist())
    return node.integer() if isinstance(node.value, int) else node.number()


def material(node: Node) -> Material:
    """The material; raises FormatError for what is none."""
    known = [f.name for f in fields(Material)]
    node.keys(set(known))
    found = {key: member for key in known if (member := node.get(key)) is not None}
    values: dict[str, Any] = {
        key: member.text() if key == "name" else member.number() for key, member in found.items()
    }
    try:
        return Material(**values)
    except ValueError as error:
        raise node.refused(f"is no material: {error}") from None


def transform(node: Node, algebra: ModuleType | None = None) -> Any:
    """The transform, spatial unless `algebra` is planar."""
    node.keys({"E", "r"})
    n = 3 if algebra is None else _dimensions(algebra)
    cls = Transform if algebra is None else algebra.Transform
    return cls(node["E"].array(n, n), node["r"].array(n))


def inertia(node: Node, algebra: ModuleType) -> Any:
    """The inertia of a rigid body in an algebra."""
    node.keys({"m", "h", "I"})
    n = _dimensions(algebra)
    I = node["I"].array(3, 3) if n == 3 else node["I"].number()
    return algebra.RigidInertia(node["m"].number(), node["h"].array(n), I)


def _dimensions(algebra: ModuleType) -> int:
    return 3 if len(algebra.zero()) == 6 else 2
