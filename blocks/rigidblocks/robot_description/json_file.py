"""rigidblocks JSON format, which stores numbers without rounding (`robot.schema.json`)."""

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from rigidblocks.common.arrays import read_only
from rigidblocks.common.format_error import FormatError, file_error
from rigidblocks.robot import joints as joints
from rigidblocks.robot.configuration import check_quaternions
from rigidblocks.robot.joints import Joint, LoopJoint, StringConstraint
from rigidblocks.robot.material import Material
from rigidblocks.robot.model import Model, PlanarModel
from rigidblocks.robot.robot_description import (
    Actuator,
    BodyDrag,
    Coupling,
    JointProperties,
    Keyframe,
    LineDescription,
    Place,
    PointSpring,
    RobotDescription,
    Tendon,
    Weightless,
)
from rigidblocks.robot.shapes import (
    Box,
    Capsule,
    ConvexHull,
    Cylinder,
    Ellipsoid,
    Plane,
    PointSet,
    Polyhedron,
    Polyline,
    Shape,
    Sphere,
)
from rigidblocks.spatial import planar, spatial
from rigidblocks.spatial.spatial import Array, Transform


@dataclass(frozen=True)
class Node:
    """Value in a JSON document; `place` is the position in the document, `path` the file."""

    path: Path
    value: Any
    place: str = ""

    def error(self, text: str) -> FormatError:
        """Return an error whose message contains the position of this value and `text`."""
        return file_error(self.path, None, f"{self.place or 'the document'} {text}")

    def get(self, key: str) -> "Node | None":
        """Return the member with this key, or None if the object has no such member."""
        if not isinstance(self.value, dict):
            raise self.error("must be a JSON object")
        place = f"{self.place}.{key}" if self.place else key
        return Node(self.path, self.value[key], place) if key in self.value else None

    def __getitem__(self, key: str) -> "Node":
        member = self.get(key)
        if member is None:
            raise self.error(f"needs the key '{key}'")
        return member

    def check_keys(self, known: set[str]) -> None:
        """Raise FormatError if the object has a key that is not in `known`."""
        if not isinstance(self.value, dict):
            raise self.error("must be a JSON object")
        if more := sorted(self.value.keys() - known):
            raise self.error(f"has unknown keys: {', '.join(more)}")

    def members(self) -> Iterator[tuple[str, "Node"]]:
        """Yield the key and the value of each member of the object."""
        self.check_keys(set(self.value) if isinstance(self.value, dict) else set())
        return ((key, self[key]) for key in self.value)

    def items(self, key: str) -> list["Node"]:
        """Return the items of the list with this key, or an empty list if the key is missing."""
        member = self.get(key)
        return [] if member is None else list(member)

    def __iter__(self) -> Iterator["Node"]:
        if not isinstance(self.value, list):
            raise self.error("must be a list")
        items = enumerate(self.value)
        return iter([Node(self.path, item, f"{self.place}[{k}]") for k, item in items])

    def text(self) -> str:
        """Return the value, which must be a string."""
        if not isinstance(self.value, str):
            raise self.error("must be a string")
        return self.value

    def integer(self) -> int:
        """Return the value, which must be an integer."""
        if not isinstance(self.value, int) or isinstance(self.value, bool):
            raise self.error("must be an integer")
        if abs(self.value) > 2**53:
            raise self.error("must be an integer between -2^53 and 2^53")
        return self.value

    def number(self) -> float:
        """Return the value, which must be a finite number."""
        if isinstance(self.value, bool) or not isinstance(self.value, int | float):
            raise self.error("must be a number")
        try:
            number = float(self.value)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            raise self.error("must be a finite number")
        return number

    def array(self, *shape: int) -> Array:
        """Return the value as an array; -1 in `shape` allows any length of this dimension."""
        if not shape:
            return np.array(self.number())
        rows = [item.array(*shape[1:]) for item in self]
        if len(rows) != shape[0] and shape[0] >= 0:
            raise self.error(f"must have {shape[0]} items, not {len(rows)}")
        return np.array(rows).reshape(len(rows), *shape[1:])


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
AT_REST = SHAPES | {"Plane": Plane}  # collision shapes of the base


def shapes_to_json(shapes: Iterable[Shape | Plane], types: Mapping[str, type]) -> list[Any]:
    """Return the JSON objects of shapes.

    A shape whose type is not in `types` is written as its `primitives`.
    """
    return [part_json(one, types) for shape in shapes for one in _stored_shapes(shape, types)]


def _stored_shapes(shape: Shape | Plane, types: Mapping[str, type]) -> Iterator[Shape | Plane]:
    """Yield the shape if its type is among `types`, else its primitives of these types."""
    if isinstance(shape, Plane) or type(shape) in types.values():
        yield shape
        return
    for primitive in shape.primitives():
        if primitive is shape:
            yield shape
        else:
            yield from _stored_shapes(primitive, types)


def part_json(part: Joint | Shape | Plane, types: Mapping[str, type]) -> dict[str, Any]:
    """Return the JSON object of a joint or a shape: the type and the fields.

    Raises:
        TypeError: The type is not among `types`.
    """
    name = type(part).__name__
    if types.get(name) is not type(part):
        raise TypeError(f"a {name} cannot be saved; it must be one of {', '.join(types)}")
    values = {f.name: getattr(part, f.name) for f in fields(part)}
    return {"type": name} | {k: json_value(v) for k, v in values.items() if v is not None}


def json_value(value: Any) -> Any:
    """Convert a field value to JSON: a joint, material, transform, text, number or array."""
    if isinstance(value, Joint):
        return part_json(value, JOINTS)
    if isinstance(value, Material):
        return {k: v for k, v in asdict(value).items() if v is not None}
    if isinstance(value, str):
        return value
    if isinstance(value, LineDescription):
        frames = [
            {"body": frame.body, "placement": json_value(frame.placement)} for frame in value.frames
        ]
        return {"kind": value.kind, "frames": frames, "numbers": list(value.numbers)}
    if hasattr(value, "E"):
        return {"E": json_value(value.E), "r": json_value(value.r)}
    array = np.asarray(value)
    if array.dtype == object:
        raise TypeError(f"{value!r} is not a number and cannot be saved")
    if array.dtype != int:
        array = array.astype(float)
    return array.tolist()


def joint_from_json(node: Node) -> Joint:
    """Return the joint that a node defines; raise FormatError for an invalid node."""
    return _part(node, JOINTS)  # type: ignore[no-any-return]


def shape_from_json(node: Node) -> Shape:
    """Return the shape that a node defines; raise FormatError for an invalid node."""
    return _part(node, SHAPES)  # type: ignore[no-any-return]


def base_shape_from_json(node: Node) -> Shape | Plane:
    """Return the static shape or plane that a node defines; raise FormatError if invalid."""
    return _part(node, AT_REST)  # type: ignore[no-any-return]


def _part(node: Node, types: Mapping[str, Any]) -> Any:
    name = node["type"].text()
    if name not in types:
        raise node.error(f"has the type '{name}'; it must be one of {', '.join(types)}")
    known = [f.name for f in fields(types[name])]
    node.check_keys({"type", *known})
    values = {key: _field(key, member) for key in known if (member := node.get(key)) is not None}
    try:
        return types[name](**values)
    except (TypeError, ValueError) as error:
        raise node.error(f"is not a valid {name}: {error}") from None


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
    """Return the material that a node defines; raise FormatError for an invalid node."""
    known = [f.name for f in fields(Material)]
    node.check_keys(set(known))
    found = {key: member for key in known if (member := node.get(key)) is not None}
    values: dict[str, Any] = {
        key: member.text() if key == "name" else member.number() for key, member in found.items()
    }
    try:
        return Material(**values)
    except ValueError as error:
        raise node.error(f"is not a valid material: {error}") from None


def transform(node: Node, algebra: ModuleType | None = None) -> Any:
    """Return the transform that a node defines.

    `algebra` is the module of the planar or spatial vector algebra, by default spatial.
    """
    node.check_keys({"E", "r"})
    n = 3 if algebra is None else _dimensions(algebra)
    cls = Transform if algebra is None else algebra.Transform
    return cls(node["E"].array(n, n), node["r"].array(n))


def inertia(node: Node, algebra: ModuleType) -> Any:
    """Return the rigid-body inertia that a node defines.

    `algebra` is the module of the planar or spatial vector algebra.
    """
    node.check_keys({"m", "h", "I"})
    n = _dimensions(algebra)
    I = node["I"].array(3, 3) if n == 3 else node["I"].number()
    return algebra.RigidInertia(node["m"].number(), node["h"].array(n), I)


def _dimensions(algebra: ModuleType) -> int:
    return 3 if len(algebra.zero()) == 6 else 2


FORMAT, VERSION = "rigidblocks robot", 1
SCHEMA = Path(__file__).with_name("robot.schema.json")


def save_model(robot: Model | PlanarModel | RobotDescription, path: str | Path) -> None:
    """Write a robot or a model to a JSON file, which `load_model` reads without rounding errors.

    Args:
        robot: The model, or the robot with frames, limits and couplings.
        path: The path of the JSON file.

    Raises:
        TypeError: The package does not define the type of a joint or shape, or a value is traced.
    """
    if not isinstance(robot, RobotDescription):
        robot = RobotDescription(robot, JointProperties.from_values(robot.nv))
    text = json.dumps(document(robot), indent=1, ensure_ascii=False, allow_nan=False)
    Path(path).write_text(text + "\n", encoding="utf-8")


# ---- writing ----


def document(robot: RobotDescription) -> dict[str, Any]:
    """Return the JSON document of a robot."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "model": _model_to_json(robot.model),
        "freedoms": {
            f.name: [_finite(value) for value in getattr(robot.joint_properties, f.name).tolist()]
            for f in fields(robot.joint_properties)
        },
        "couplings": [_coupling_to_json(coupling) for coupling in robot.couplings],
        "frames": {
            name: {"body": place.body, "placement": json_value(place.placement)}
            for name, place in robot.frames.items()
        },
        "base_appearance": shapes_to_json(robot.base_appearance, SHAPES),
        "base_contact": shapes_to_json(robot.base_contact, AT_REST),
        "warnings": [*robot.warnings, *_omissions(robot)],
        "actuators": [_actuator_to_json(actuator) for actuator in robot.actuators],
        "springs": [_spring_to_json(spring) for spring in robot.springs],
        "collision_exclusions": [list(pair) for pair in robot.collision_exclusions],
        **{
            name: json_value(value)
            for name, value in (("q0", robot.q0), ("qd0", robot.qd0))
            if value is not None
        },
        "keyframes": {
            name: {"q": json_value(state.q), "qd": json_value(state.qd)}
            for name, state in robot.keyframes.items()
        },
        "weightless": [_spring_to_json(one) for one in robot.weightless],
        "tendons": [_tendon_to_json(one) for one in robot.tendons],
        "drags": [_spring_to_json(one) for one in robot.drags],
    }


def _omissions(robot: RobotDescription) -> list[str]:
    """Return a warning if the robot has sensors, because JSON files do not contain sensors."""
    if not robot.sensors:
        return []
    return [f"its {len(robot.sensors)} sensors are not stored in a JSON file"]


def _tendon_to_json(tendon: Tendon) -> dict[str, Any]:
    given = {k: v for k, v in tendon._asdict().items() if k != "limits" and v is not None}
    values = {key: json_value(value) for key, value in given.items()}
    return values | {"limits": [*map(_finite, tendon.limits)]}


def _coupling_to_json(coupling: Coupling) -> dict[str, Any]:
    values = {key: json_value(value) for key, value in coupling._asdict().items()}
    return values if coupling.curve else {k: v for k, v in values.items() if k != "curve"}


def _actuator_to_json(actuator: Actuator) -> dict[str, Any]:
    every, default = actuator._asdict(), Actuator("", 0)._asdict()
    for key in _ACTUATOR_OPTIONS:
        if every[key] == default[key]:
            del every[key]
    if actuator.line is not None:
        every["line"] = json_value(actuator.line)
    limits = (key for key in ("control", "force", "activation") if key in every)
    return {**every, **{key: [*map(_finite, every[key])] for key in limits}}


def _spring_to_json(spring: PointSpring | Weightless | BodyDrag) -> dict[str, Any]:
    return {key: json_value(value) for key, value in spring._asdict().items()}


def _finite(value: float) -> float | None:
    """Return a finite limit unchanged, and None (null in JSON) for an infinite limit."""
    return value if np.isfinite(value) else None


def _model_to_json(model: Model | PlanarModel) -> dict[str, Any]:
    shown = isinstance(model, Model)
    return {
        "dimensions": 3 if shown else 2,
        "name": model.name,
        "gravity": json_value(model.gravity),
        "bodies": [_body_to_json(model, i) for i in range(model.nb)],
        "loops": [
            {
                "name": loop.name,
                "joint": part_json(loop.joint, JOINTS),
                "predecessor": loop.predecessor,
                "successor": loop.successor,
                "Xp": json_value(loop.Xp),
                "Xs": json_value(loop.Xs),
            }
            for loop in model.loops
        ],
        "strings": [_string_to_json(string) for string in model.strings],
    }


def _string_to_json(string: StringConstraint) -> dict[str, Any]:
    if string.rheonomic:
        text = f"the length of string '{string.name}' is a function of time, which cannot be saved"
        raise TypeError(text)
    return {
        "name": string.name,
        "points": [{"body": body, "point": json_value(point)} for body, point in string.points],
        "length": json_value(string.length),
        "closed": string.closed,
        "radius": json_value(string.radius),
    }


def _body_to_json(model: Model | PlanarModel, i: int) -> dict[str, Any]:
    body = model.inertia[i]
    entry: dict[str, Any] = {
        "name": model.body_names[i],
        "parent": model.parent[i],
        "joint_name": model.joint_names[i],
        "joint": part_json(model.joint[i], JOINTS),
        "Xtree": json_value(model.Xtree[i]),
        "inertia": {"m": json_value(body.m), "h": json_value(body.h), "I": json_value(body.I)},
        "massless": model.body_names[i] in model.massless,
    }
    if isinstance(model, PlanarModel):
        return entry
    entry["unphysical"] = model.body_names[i] in model.unphysical
    for name in ("appearance", "contact"):
        if shapes := getattr(model, name):
            entry[name] = shapes_to_json(shapes[i], SHAPES)
    return entry


# ---- reading ----


def read_json(data: bytes, path: Path) -> RobotDescription:
    """Return the robot of a JSON document.

    Raises:
        FormatError: The document does not define a robot. The message contains the line of a
            syntax error, or the position of the invalid value in the document.
    """
    try:
        return _robot(Node(path, json.loads(data, parse_constant=_refuse_constant)))
    except json.JSONDecodeError as error:
        raise file_error(path, error.lineno, f"invalid JSON: {error.msg.lower()}") from None
    except FormatError:
        raise
    except (ValueError, RecursionError) as error:
        raise file_error(path, None, f"invalid JSON in robot file: {error}") from None


def _robot(node: Node) -> RobotDescription:
    if node["format"].text() != FORMAT:
        raise node["format"].error(f"must be '{FORMAT}', not '{node['format'].value}'")
    if node["version"].integer() != VERSION:
        raise node["version"].error(f"must be {VERSION}, not {node['version'].value}")
    names = {f.name for f in fields(RobotDescription)} - {"joint_properties", "sensors"}
    node.check_keys({"format", "version", "freedoms", *names})
    model, q0, qd0 = _model(node["model"]), node.get("q0"), node.get("qd0")
    return RobotDescription(
        model,
        _joint_properties(node.get("freedoms"), model.nv),
        _frames(node.get("frames"), model.nb),
        tuple(_coupling(item, model) for item in node.items("couplings")),
        tuple(map(shape_from_json, node.items("base_appearance"))),
        tuple(map(base_shape_from_json, node.items("base_contact"))),
        tuple(item.text() for item in node.items("warnings")),
        tuple(_actuator(item, model) for item in node.items("actuators")),
        tuple(_spring(item, model) for item in node.items("springs")),
        tuple(_pair(item, model.nb) for item in node.items("collision_exclusions")),
        None if q0 is None else _configuration(q0, model),
        None if qd0 is None else read_only(qd0.array(model.nv)),
        _keyframes(node.get("keyframes"), model),
        tuple(_weightless(item, model) for item in node.items("weightless")),
        tuple(_tendon(item, model) for item in node.items("tendons")),
        tuple(_drag(item, model) for item in node.items("drags")),
    )


def _configuration(node: Node, model: Model | PlanarModel) -> Array:
    q = read_only(node.array(model.nq))
    check_quaternions(model, q)
    return q


def _keyframes(node: Node | None, model: Model | PlanarModel) -> dict[str, Keyframe]:
    found = {}
    for name, member in node.members() if node is not None else ():
        member.check_keys(set(Keyframe._fields))
        q, qd = _configuration(member["q"], model), read_only(member["qd"].array(model.nv))
        found[name] = Keyframe(q, qd)
    return found


def _refuse_constant(token: str) -> float:
    raise ValueError(f"{token} is not a number")


def _model(node: Node) -> Model | PlanarModel:
    node.check_keys({"dimensions", "name", "gravity", "bodies", "loops", "strings"})
    dimensions, bodies = node["dimensions"].integer(), node.items("bodies")
    if dimensions not in (2, 3):
        raise node["dimensions"].error(f"must be 2 or 3, not {dimensions}")
    algebra = spatial if dimensions == 3 else planar
    for body in bodies:
        body.check_keys(_BODY | _SPATIAL if dimensions == 3 else _BODY)
    parts = {
        "name": node["name"].text(),
        "gravity": node["gravity"].array(dimensions),
        "loops": tuple(_loop(loop, algebra) for loop in node.items("loops")),
        "strings": tuple(_string(string, dimensions) for string in node.items("strings")),
        **_body_fields(bodies, algebra),
    }
    try:
        return Model(**parts) if dimensions == 3 else PlanarModel(**parts)
    except (TypeError, ValueError) as error:
        raise node.error(f"is not valid: {error}") from None


def _body_fields(bodies: list[Node], algebra: Any) -> dict[str, Any]:
    """Return the model fields that have one entry per body, by field name.

    Optional fields that no body uses are omitted.
    """
    names = [body["name"].text() for body in bodies]
    parts: dict[str, Any] = {
        "parent": tuple(body["parent"].integer() for body in bodies),
        "joint": tuple(joint_from_json(body["joint"]) for body in bodies),
        "Xtree": tuple(transform(body["Xtree"], algebra) for body in bodies),
        "inertia": tuple(inertia(body["inertia"], algebra) for body in bodies),
        "body_names": tuple(names),
        "joint_names": tuple(body["joint_name"].text() for body in bodies),
    }
    for mark in ("massless", "unphysical"):
        if marked := tuple(n for n, body in zip(names, bodies, strict=True) if _flag(body, mark)):
            parts[mark] = marked
    for kind in ("appearance", "contact"):
        if any(body.get(kind) for body in bodies):
            parts[kind] = tuple(tuple(map(shape_from_json, b.items(kind))) for b in bodies)
    return parts


_BODY = {"name", "parent", "joint_name", "joint", "Xtree", "inertia", "massless"}
_SPATIAL = {"unphysical", "appearance", "contact"}


def _flag(owner: Node, mark: str) -> bool:
    node = owner.get(mark)
    if node is not None and not isinstance(node.value, bool):
        raise node.error("must be true or false")
    return node is not None and bool(node.value)


def _loop(node: Node, algebra: Any) -> LoopJoint:
    node.check_keys({"name", "joint", "predecessor", "successor", "Xp", "Xs"})
    return LoopJoint(
        joint_from_json(node["joint"]),
        node["predecessor"].integer(),
        node["successor"].integer(),
        transform(node["Xp"], algebra),
        transform(node["Xs"], algebra),
        node["name"].text(),
    )


def _string(node: Node, dimensions: int) -> StringConstraint:
    node.check_keys({"name", "points", "length", "closed", "radius"})
    points = []
    for item in node["points"]:
        item.check_keys({"body", "point"})
        points.append((item["body"].integer(), item["point"].array(dimensions)))
    length, radius = (node[key].number() for key in ("length", "radius"))
    return StringConstraint(
        tuple(points), length, _flag(node, "closed"), radius, node["name"].text()
    )


def _joint_properties(node: Node | None, nv: int) -> JointProperties:
    if node is None:
        return JointProperties.from_values(nv)
    names = [f.name for f in fields(JointProperties)]
    node.check_keys(set(names))
    values: dict[str, Any] = {}
    for name, member in node.members():
        none = getattr(JointProperties.from_values(1), name)[0]
        values[name] = [none if item.value is None else item.number() for item in member]
        if len(values[name]) != nv:
            raise member.error(f"must have {nv} items, not {len(values[name])}")
    return JointProperties.from_values(nv, **values)


def _frames(node: Node | None, nb: int) -> dict[str, Place]:
    frames = {}
    for name, member in node.members() if node is not None else ():
        member.check_keys({"body", "placement"})
        frames[name] = Place(_body(member["body"], nb), transform(member["placement"]))
    return frames


def _body(node: Node, nb: int) -> int:
    """Return the body index in a node, -1 for the base; the index must be below `nb`."""
    body = node.integer()
    if not -1 <= body < nb:
        raise node.error(f"must be a body index from -1 (the base) to {nb - 1}, not {body}")
    return body


def _spring(node: Node, model: Model | PlanarModel) -> PointSpring:
    node.check_keys(set(PointSpring._fields))
    body, other = (_body(node[key], model.nb) for key in ("body", "other"))
    if body < 0 or body == other:
        raise node.error(
            "must connect a body to another body or to the base: expected body >= 0 and another "
            f"index as `other`, not {body} and {other}"
        )
    n = len(model.gravity)
    point, other_point = (tuple(node[k].array(n).tolist()) for k in ("point", "other_point"))
    law = [node[key].number() for key in ("stiffness", "damping", "rest")]
    for key, value in zip(("stiffness", "damping"), law, strict=False):
        if value < 0.0:
            raise node[key].error(f"must not be negative, but is {value}")
    return PointSpring(node["name"].text(), body, point, other, other_point, *law)


def _moving_body(node: Node, nb: int) -> int:
    body = _body(node, nb)
    if body < 0:
        raise node.error("must be a body, not the base")
    return body


def _weightless(node: Node, model: Model | PlanarModel) -> Weightless:
    node.check_keys(set(Weightless._fields))
    centre = tuple(node["centre"].array(len(model.gravity)).tolist())
    body = _moving_body(node["body"], model.nb)
    return Weightless(node["name"].text(), body, node["mass"].number(), centre)


def _tendon(node: Node, model: Model | PlanarModel) -> Tendon:
    node.check_keys(set(Tendon._fields))
    joints = tuple(_single_dof_joint(item, model) for item in node["joints"])
    given = node.get("line")
    line = None if given is None else _body_line(given, model.nb)
    if not joints and line is None:
        raise node["joints"].error("must list one or more joints")
    if joints and line is not None:
        raise node["joints"].error("must be empty, because the tendon has a line")
    lower, upper = (item.value if item.value is None else item.number() for item in node["limits"])
    return Tendon(
        node["name"].text(),
        joints,
        tuple(node["coefficients"].array(len(joints)).tolist()),
        _not_negative(node["stiffness"]),
        _not_negative(node["damping"]),
        _two(node["rest"]),
        _not_negative(node["friction"]),
        (-np.inf if lower is None else lower, np.inf if upper is None else upper),
        line,
    )


_LINES = {"path": "two or more frames and a weight for each segment",
          "site": "one or two frames and a wrench of 6 numbers",
          "crank": "two frames and the length of the rod"}  # fmt: skip


def _body_line(node: Node, nb: int) -> LineDescription:
    """Return the line of a tendon or actuator that a node defines."""
    node.check_keys(set(LineDescription._fields))
    kind = node["kind"].text()
    if kind not in _LINES:
        raise node["kind"].error(f"is '{kind}'; it must be {', '.join(_LINES)}")
    frames = []
    for item in node["frames"]:
        item.check_keys({"body", "placement"})
        frames.append(Place(_body(item["body"], nb), transform(item["placement"])))
    numbers = tuple(item.number() for item in node["numbers"])
    sizes = len(frames), len(numbers)
    allowed = {"path": sizes[0] >= 2 and sizes[1] == sizes[0] - 1,
               "site": sizes in ((1, 6), (2, 6)), "crank": sizes == (2, 1)}  # fmt: skip
    if not allowed[kind]:
        text = f"has {sizes[0]} frames and {sizes[1]} numbers; a {kind} needs {_LINES[kind]}"
        raise node.error(text)
    return LineDescription(kind, tuple(frames), numbers)


def _two(node: Node) -> tuple[float, float]:
    first, second = node.array(2).tolist()
    return first, second


def _not_negative(node: Node) -> float:
    value = node.number()
    if value < 0.0:
        raise node.error(f"must not be negative, but is {value}")
    return value


def _drag(node: Node, model: Model | PlanarModel) -> BodyDrag:
    node.check_keys(set(BodyDrag._fields))
    if isinstance(model, PlanarModel):
        raise node.error(f"needs a spatial model; model '{model.name}' is planar")
    laws = (tuple(map(_not_negative, node[key])) for key in ("linear", "quadratic"))
    linear, quadratic = laws
    if len(linear) != 6 or len(quadratic) != 6:
        raise node.error(
            f"needs 6 linear and 6 quadratic coefficients, not {len(linear)} and {len(quadratic)}"
        )
    body, placement = _moving_body(node["body"], model.nb), transform(node["placement"])
    return BodyDrag(node["name"].text(), body, placement, linear, quadratic)


def _pair(node: Node, nb: int) -> tuple[int, int]:
    """Return the two body indices in a node; reject equal indices."""
    numbers = [_body(item, nb) for item in node]
    if len(set(numbers)) != 2 or len(numbers) != 2:
        raise node.error(f"must be the indices of two bodies, not {numbers}")
    return numbers[0], numbers[1]


def _coupling(node: Node, model: Model | PlanarModel) -> Coupling:
    node.check_keys(set(Coupling._fields))
    joint, source = (_single_dof_joint(node[key], model) for key in ("joint", "source"))
    curve = tuple(item.number() for item in node.items("curve"))
    return Coupling(joint, source, node["ratio"].number(), node["offset"].number(), curve)


# optional keys of an actuator
_ACTUATOR_OPTIONS = (
    *("dynamics", "time_constant", "activation", "others", "motor", "winding", "pid"),
    *("feedforward", "line"),
)


def _actuator(node: Node, model: Model | PlanarModel) -> Actuator:
    node.check_keys(set(Actuator._fields))
    values: dict[str, Any] = {key: tuple(node[key].array(3).tolist()) for key in ("gain", "bias")}
    for key in ("control", "force", "activation"):
        limits = node.get(key) if key == "activation" else node[key]
        if limits is not None:
            lower, upper = (item.value if item.value is None else item.number() for item in limits)
            values[key] = (-np.inf if lower is None else lower, np.inf if upper is None else upper)
    number = node.get("time_constant")
    if number is not None:
        values["time_constant"] = number.number()
        if values["time_constant"] < 0.0:
            raise number.error(f"is {values['time_constant']} s; it must not be negative")
    dynamics = node.get("dynamics")
    if dynamics is not None:
        values["dynamics"] = dynamics.text()
        if values["dynamics"] not in ("none", "filter", "integrator"):
            text = f"is '{values['dynamics']}'; it must be none, filter or integrator"
            raise dynamics.error(text)
    motor = node.get("motor")
    if motor is not None:
        values["motor"] = motor.text()
        if values["motor"] not in ("affine", "torque", "dc"):
            raise motor.error(f"is '{values['motor']}'; it must be affine, torque or dc")
    for key in ("winding", "pid"):
        if (given := node.get(key)) is not None:
            values[key] = tuple(given.array(3).tolist())
    if (given := node.get("feedforward")) is not None:
        values["feedforward"] = given.value is True
    if (given := node.get("line")) is not None:
        line = _body_line(given, model.nb)
        for key, default in (("joint", -1), ("others", [])):
            if (other := node.get(key)) is not None and other.value != default:
                raise other.error(f"must be {default}, because the actuator has a line")
        return Actuator(node["name"].text(), -1, node["gear"].number(), **values, line=line)
    joint = _single_dof_joint(node["joint"], model)
    values["others"] = tuple(_other_joint(item, model, joint) for item in node.items("others"))
    return Actuator(node["name"].text(), joint, node["gear"].number(), **values)


def _other_joint(node: Node, model: Model | PlanarModel, joint: int) -> tuple[int, float]:
    """Return the index and the weight of an additional joint of an actuator.

    `joint` is the index of the first joint of the actuator. The node must define another joint.
    """
    index, weight = node
    other = _single_dof_joint(index, model)
    if other == joint:
        raise index.error(f"is {other}, which is also the first joint of the actuator")
    return other, weight.number()


def _single_dof_joint(node: Node, model: Model | PlanarModel) -> int:
    """Return the joint index in a node; the joint must have one degree of freedom."""
    number = node.integer()
    if not 0 <= number < model.nb or model.joint[number].nv != 1:
        raise node.error(f"is {number}, which is not a joint with one degree of freedom")
    return number
