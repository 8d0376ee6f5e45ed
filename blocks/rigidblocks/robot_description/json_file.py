"""Our own format: a robot as JSON, to the last bit. `robot.schema.json` beside this file describes
it.
"""

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from rigidblocks.algebra import planar, spatial
from rigidblocks.formats.description import (
    Actuator,
    Coupling,
    Freedoms,
    Place,
    PointSpring,
    RobotDescription,
)
from rigidblocks.formats.node import Node
from rigidblocks.formats.parts import (
    AT_REST,
    JOINTS,
    SHAPES,
    at_rest_from_json,
    inertia,
    joint_from_json,
    part_to_json,
    shape_from_json,
    to_json,
    transform,
)
from rigidblocks.formats.refusal import FormatError, wrong
from rigidblocks.joint import LoopJoint, StringConstraint
from rigidblocks.model.model import Model
from rigidblocks.model.planar import PlanarModel

FORMAT, VERSION = "rigidblocks robot", 1
SCHEMA = Path(__file__).with_name("robot.schema.json")


def save_model(robot: Model | PlanarModel | RobotDescription, path: str | Path) -> None:
    """Writes a robot, or a model alone, to a JSON file that `load_model` reads to the last bit.

    Raises TypeError for joints and shapes of types that the library does not have, and for numbers
    that are traced.
    """
    if not isinstance(robot, RobotDescription):
        robot = RobotDescription(robot, Freedoms.of(robot.nv))
    text = json.dumps(document(robot), indent=1, ensure_ascii=False, allow_nan=False)
    Path(path).write_text(text + "\n", encoding="utf-8")


# ---- writing ----


def document(robot: RobotDescription) -> dict[str, Any]:
    """The JSON document of a robot."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "model": _model_to_json(robot.model),
        "freedoms": {
            f.name: [_finite(value) for value in getattr(robot.freedoms, f.name).tolist()]
            for f in fields(robot.freedoms)
        },
        "couplings": [coupling._asdict() for coupling in robot.couplings],
        "frames": {
            name: {"body": place.body, "placement": to_json(place.placement)}
            for name, place in robot.frames.items()
        },
        "base_appearance": [part_to_json(shape, SHAPES) for shape in robot.base_appearance],
        "base_contact": [part_to_json(shape, AT_REST) for shape in robot.base_contact],
        "warnings": list(robot.warnings),
        "actuators": [_actuator_to_json(actuator) for actuator in robot.actuators],
        "springs": [_spring_to_json(spring) for spring in robot.springs],
        "apart": [list(pair) for pair in robot.apart],
    }


def _actuator_to_json(actuator: Actuator) -> dict[str, Any]:
    limits = {key: [*map(_finite, getattr(actuator, key))] for key in ("control", "force")}
    return {**actuator._asdict(), **limits}


def _spring_to_json(spring: PointSpring) -> dict[str, Any]:
    return {key: to_json(value) for key, value in spring._asdict().items()}


def _finite(value: float) -> float | None:
    """A limit: null where there is none."""
    return value if np.isfinite(value) else None


def _model_to_json(model: Model | PlanarModel) -> dict[str, Any]:
    shown = isinstance(model, Model)
    return {
        "dimensions": 3 if shown else 2,
        "name": model.name,
        "gravity": to_json(model.gravity),
        "bodies": [_body_to_json(model, i) for i in range(model.nb)],
        "loops": [
            {
                "name": loop.name,
                "joint": part_to_json(loop.joint, JOINTS),
                "predecessor": loop.predecessor,
                "successor": loop.successor,
                "Xp": to_json(loop.Xp),
                "Xs": to_json(loop.Xs),
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
        "points": [{"body": body, "point": to_json(point)} for body, point in string.points],
        "length": to_json(string.length),
        "closed": string.closed,
        "radius": to_json(string.radius),
    }


def _body_to_json(model: Model | PlanarModel, i: int) -> dict[str, Any]:
    body = model.inertia[i]
    entry: dict[str, Any] = {
        "name": model.body_names[i],
        "parent": model.parent[i],
        "joint_name": model.joint_names[i],
        "joint": part_to_json(model.joint[i], JOINTS),
        "Xtree": to_json(model.Xtree[i]),
        "inertia": {"m": to_json(body.m), "h": to_json(body.h), "I": to_json(body.I)},
        "massless": model.body_names[i] in model.massless,
    }
    if isinstance(model, PlanarModel):
        return entry
    entry["unphysical"] = model.body_names[i] in model.unphysical
    for name in ("appearance", "contact"):
        if shapes := getattr(model, name):
            entry[name] = [part_to_json(shape, SHAPES) for shape in shapes[i]]
    return entry


# ---- reading ----


def read_json(data: bytes, path: Path) -> RobotDescription:
    """The robot of a JSON document; raises FormatError, with the line or the place in it, for what
    is none.
    """
    try:
        return _robot(Node(path, json.loads(data, parse_constant=_refuse_constant)))
    except json.JSONDecodeError as error:
        raise wrong(path, error.lineno, f"this is no JSON: {error.msg.lower()}") from None
    except FormatError:
        raise
    except (ValueError, RecursionError) as error:
        raise wrong(path, None, f"this is no JSON of a robot: {error}") from None


def _robot(node: Node) -> RobotDescription:
    if node["format"].text() != FORMAT:
        raise node["format"].refused(f"must be '{FORMAT}', not '{node['format'].value}'")
    if node["version"].integer() != VERSION:
        raise node["version"].refused(f"must be {VERSION}, not {node['version'].value}")
    node.keys({"format", "version", *(f.name for f in fields(RobotDescription))})
    model = _model(node["model"])
    return RobotDescription(
        model,
        _freedoms(node.get("freedoms"), model.nv),
        _frames(node.get("frames"), model.nb),
        tuple(_coupling(item, model) for item in node.items("couplings")),
        tuple(map(shape_from_json, node.items("base_appearance"))),
        tuple(map(at_rest_from_json, node.items("base_contact"))),
        tuple(item.text() for item in node.items("warnings")),
        tuple(_actuator(item, model) for item in node.items("actuators")),
        tuple(_spring(item, model) for item in node.items("springs")),
        tuple(_pair(item, model.nb) for item in node.items("apart")),
    )


def _refuse_constant(token: str) -> float:
    raise ValueError(f"{token} is no number")


def _model(node: Node) -> Model | PlanarModel:
    node.keys({"dimensions", "name", "gravity", "bodies", "loops", "strings"})
    dimensions, bodies = node["dimensions"].integer(), node.items("bodies")
    if dimensions not in (2, 3):
        raise node["dimensions"].refused(f"must be 2 or 3, not {dimensions}")
    algebra = spatial if dimensions == 3 else planar
    for body in bodies:
        body.keys(_BODY | _SPATIAL if dimensions == 3 else _BODY)
    parts = {
        "name": node["name"].text(),
        "gravity": node["gravity"].array(dimensions),
        "loops": tuple(_loop(loop, algebra) for loop in node.items("loops")),
        "strings": tuple(_string(string, dimensions) for string in node.items("strings")),
        **_body_parts(bodies, algebra),
    }
    try:
        return Model(**parts) if dimensions == 3 else PlanarModel(**parts)
    except (TypeError, ValueError) as error:
        raise node.refused(f"is none: {error}") from None


def _body_parts(bodies: list[Node], algebra: Any) -> dict[str, Any]:
    """The fields of a model that have an entry for each body, those that say something."""
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
        if marked := tuple(n for n, body in zip(names, bodies, strict=True) if _is(body, mark)):
            parts[mark] = marked
    for kind in ("appearance", "contact"):
        if any(body.get(kind) for body in bodies):
            parts[kind] = tuple(tuple(map(shape_from_json, b.items(kind))) for b in bodies)
    return parts


_BODY = {"name", "parent", "joint_name", "joint", "Xtree", "inertia", "massless"}
_SPATIAL = {"unphysical", "appearance", "contact"}


def _is(owner: Node, mark: str) -> bool:
    node = owner.get(mark)
    if node is not None and not isinstance(node.value, bool):
        raise node.refused("must be true or false")
    return node is not None and bool(node.value)


def _loop(node: Node, algebra: Any) -> LoopJoint:
    node.keys({"name", "joint", "predecessor", "successor", "Xp", "Xs"})
    return LoopJoint(
        joint_from_json(node["joint"]),
        node["predecessor"].integer(),
        node["successor"].integer(),
        transform(node["Xp"], algebra),
        transform(node["Xs"], algebra),
        node["name"].text(),
    )


def _string(node: Node, dimensions: int) -> StringConstraint:
    node.keys({"name", "points", "length", "closed", "radius"})
    points = []
    for item in node["points"]:
        item.keys({"body", "point"})
        points.append((item["body"].integer(), item["point"].array(dimensions)))
    length, radius = (node[key].number() for key in ("length", "radius"))
    return StringConstraint(tuple(points), length, _is(node, "closed"), radius, node["name"].text())


def _freedoms(node: Node | None, nv: int) -> Freedoms:
    if node is None:
        return Freedoms.of(nv)
    names = [f.name for f in fields(Freedoms)]
    node.keys(set(names))
    values: dict[str, Any] = {}
    for name, member in node.members():
        none = getattr(Freedoms.of(1), name)[0]
        values[name] = [none if item.value is None else item.number() for item in member]
        if len(values[name]) != nv:
            raise member.refused(f"must have {nv} items, not {len(values[name])}")
    return Freedoms.of(nv, **values)


def _frames(node: Node | None, nb: int) -> dict[str, Place]:
    frames = {}
    for name, member in node.members() if node is not None else ():
        member.keys({"body", "placement"})
        frames[name] = Place(_body(member["body"], nb), transform(member["placement"]))
    return frames


def _body(node: Node, nb: int) -> int:
    """The number of a body, -1 of the base."""
    body = node.integer()
    if not -1 <= body < nb:
        raise node.refused(f"must be one of -1 (the base) .. {nb - 1}, not {body}")
    return body


def _spring(node: Node, model: Model | PlanarModel) -> PointSpring:
    node.keys(set(PointSpring._fields))
    body, other = (_body(node[key], model.nb) for key in ("body", "other"))
    if body < 0 or body == other:
        raise node.refused("needs two bodies, of which the second may be the base")
    n = len(model.gravity)
    point, other_point = (tuple(node[k].array(n).tolist()) for k in ("point", "other_point"))
    law = [node[key].number() for key in ("stiffness", "damping", "rest")]
    for key, value in zip(("stiffness", "damping"), law, strict=False):
        if value < 0.0:
            raise node[key].refused(f"must not be negative, as {value}")
    return PointSpring(node["name"].text(), body, point, other, other_point, *law)


def _pair(node: Node, nb: int) -> tuple[int, int]:
    """The numbers of two bodies."""
    numbers = [_body(item, nb) for item in node]
    if len(set(numbers)) != 2 or len(numbers) != 2:
        raise node.refused(f"must be the numbers of two bodies, not {numbers}")
    return numbers[0], numbers[1]


def _coupling(node: Node, model: Model | PlanarModel) -> Coupling:
    node.keys(set(Coupling._fields))
    joint, source = (_single(node[key], model) for key in ("joint", "source"))
    return Coupling(joint, source, node["ratio"].number(), node["offset"].number())


def _actuator(node: Node, model: Model | PlanarModel) -> Actuator:
    node.keys(set(Actuator._fields))
    values = {key: tuple(node[key].array(3).tolist()) for key in ("gain", "bias")}
    for key, none in (("control", np.inf), ("force", np.inf)):
        lower, upper = (item.value if item.value is None else item.number() for item in node[key])
        values[key] = (-none if lower is None else lower, none if upper is None else upper)
    joint = _single(node["joint"], model)
    return Actuator(node["name"].text(), joint, node["gear"].number(), **values)


def _single(node: Node, model: Model | PlanarModel) -> int:
    """The number of a joint of one freedom."""
    number = node.integer()
    if not 0 <= number < model.nb or model.joint[number].nv != 1:
        raise node.refused(f"is {number}, which is no joint of one freedom")
    return number
