"""Saved and loaded robots are equal bit by bit, so the tests need no tolerance."""

import copy
import json
import random
from dataclasses import fields, replace

import numpy as np
import pytest
from jsonschema import Draft202012Validator

from loop_models import LOOP_MODELS, loop_model
from planar_models import random_planar_tree
from random_models import joints_of_all_types, random_inertia, random_transform, random_tree
from rigidblocks.common.arrays import LazyTuple
from rigidblocks.common.format_error import FormatError
from rigidblocks.robot.configuration import random_configuration
from rigidblocks.robot.joints import Joint, Revolute, StringConstraint
from rigidblocks.robot.material import Material
from rigidblocks.robot.robot_description import (
    Actuator,
    Coupling,
    JointProperties,
    Keyframe,
    Place,
    PointSpring,
    RobotDescription,
)
from rigidblocks.robot.robots import planar2, quadruped
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
    Sphere,
)
from rigidblocks.robot_description.json_file import SCHEMA, document, save_model
from rigidblocks.robot_description.load import load_model
from urdf_text import ARM

VALIDATOR = Draft202012Validator(json.loads(SCHEMA.read_text()))


def bits(value):
    """Return all comparable data of a value, with numbers as bytes."""
    match value:
        case None | str() | bool() | type():
            return value
        case dict():
            return {key: bits(v) for key, v in value.items()}
        case tuple() | list() | LazyTuple():
            return [bits(v) for v in value]
        case int() | float() | np.ndarray() | np.number():
            return np.asarray(value, dtype=float).tobytes(), np.shape(value)
    return type(value), {f.name: bits(getattr(value, f.name)) for f in fields(value)}


def shapes(rng):
    a, b, c, d = rng.uniform(0.1, 1.0, 4).tolist()
    return (
        Box((a, b, c), random_transform(rng)),
        Cylinder(a, b, 5, random_transform(rng)),
        PointSet(rng.normal(size=(4, 3))),
        Capsule(0.1, 0.4, random_transform(rng), material=Material("rubber", 0.9, e=0.1)),
        Ellipsoid((0.1, 0.2, 0.3), random_transform(rng)),
        ConvexHull(rng.normal(size=(5, 3))),
        Polyline(rng.normal(size=(4, 3))),
        Polyhedron(rng.normal(size=(5, 3)), [[0, 1, 2, 3], [0, 4, 1]]),
        Sphere(d, rng.normal(size=3)),
    )


def of_all_joints(rng):
    joints = tuple(joint for joint in joints_of_all_types(rng).values())
    model = random_tree(rng, tuple(range(-1, len(joints) - 1)), joints)
    nothing = ((),) * (model.nb - 1)
    return replace(model, appearance=(shapes(rng), *nothing), contact=(*nothing, shapes(rng)))


def described(rng):
    model = of_all_joints(rng)
    single = [i for i, joint in enumerate(model.joint) if joint.nv == 1]
    values = {f.name: rng.uniform(0.0, 1.0, model.nv) for f in fields(JointProperties)}
    values["lower"] = np.where(values["lower"] < 0.5, -np.inf, -values["lower"])
    return RobotDescription(
        model,
        JointProperties(**values),
        {"tool 工具": Place(3, random_transform(rng)), "base": Place(-1, random_transform(rng))},
        (Coupling(single[0], single[1], 1 / 3, -0.1),),
        shapes(rng),
        (*shapes(rng), Plane(rng.normal(size=3), rng.normal(size=3), material=Material(mu=0.3))),
        ("line 1: something",),
        (
            Actuator("motor", single[0], 1 / 3, (0.1, 0.2, 0.3), (1.0, 2.0, -1 / 7)),
            Actuator("servo 1", single[1], control=(-0.1, np.inf), force=(-np.inf, 1 / 3)),
            Actuator("differential", single[0], others=((single[1], -1 / 3),), motor="torque"),
        ),
        (
            PointSpring("spring", 2, (0.1, 0.2, 1 / 3), -1, (0.0, -0.0, 1e-300), 1 / 7, 0.3, 0.1),
            PointSpring("2. Feder", 0, (1.0, 2.0, 3.0), 1, (0.1, 0.2, 0.3), 5e-324),
        ),
        ((-1, 2), (0, 3)),
        random_configuration(model, rng),
        rng.normal(size=model.nv),
        {"home 1": Keyframe(random_configuration(model, rng), rng.normal(size=model.nv))},
    )


def with_cables(model):
    """Return the model with a cable over a pulley and a closed cable around discs."""
    n, last = len(model.gravity), model.nb - 1
    points = tuple((k - 1, np.arange(n) / 3 + k) for k in range(3))
    strings = (
        StringConstraint(points, 1 / 3, name="cord 1"),
        StringConstraint((*points, (last, np.ones(n) / 7)), 0.7, closed=True, radius=0.1),
    )
    return replace(model, strings=strings)


def made(name, rng):
    match name:
        case "planar2":
            return planar2()
        case "quadruped":
            return quadruped()
        case "all joints":
            return of_all_joints(rng)
        case "described":
            return described(rng)
        case "planar tree":
            return random_planar_tree(rng, (-1, 0, 0, 1))
        case "strings":
            return with_cables(planar2())
        case "planar strings":
            return with_cables(random_planar_tree(rng, (-1, 0, 0, 1)))
    return loop_model(name)[0]


ROBOTS = (
    "planar2",
    "quadruped",
    "all joints",
    "described",
    "planar tree",
    "strings",
    "planar strings",
    *LOOP_MODELS,
)


@pytest.mark.parametrize("name", ROBOTS)
def test_robot_loaded_from_its_saved_json_file_is_bitwise_equal(name, rng, tmp_path):
    robot, path = made(name, rng), tmp_path / "robot.json"
    save_model(robot, path)
    back = load_model(path)
    again = back if isinstance(robot, RobotDescription) else back.model
    assert bits(again) == bits(robot)
    VALIDATOR.validate(json.loads(path.read_text()))


def test_urdf_with_an_unphysical_inertia_is_bit_identical_after_save_and_load(tmp_path):
    urdf, path = tmp_path / "arm.urdf", tmp_path / "arm.json"
    urdf.write_text(ARM.replace('izz="0.04"', 'izz="0.4"'))
    save_model(robot := load_model(urdf), path)
    assert bits(load_model(path)) == bits(robot)
    with pytest.raises(FormatError, match="the inertia of upper is not physical"):
        load_model(path, inertia="strict")


def test_normalization_of_unit_joint_axes_does_not_change_any_bit(rng):
    for axis in rng.normal(size=(1000, 3)):
        joint = Revolute(tuple(axis))
        assert Revolute(joint.axis).axis == joint.axis
        plane = Plane(axis)
        assert np.array_equal(Plane(plane.normal).normal, plane.normal)


def test_json_schema_lists_exactly_the_supported_joint_types():
    VALIDATOR.check_schema(VALIDATOR.schema)
    types = VALIDATOR.schema["$defs"]["joint"]["properties"]["type"]["enum"]
    rng = np.random.default_rng(0)
    used = {type(joint).__name__ for joint in joints_of_all_types(rng).values()}
    others = {"Blade", "PlanarRevolute", "PlanarPrismatic", "RollingBall", "RollingDisc"}
    assert used | others == set(types)


class Homemade(Revolute):
    """User-defined joint type."""


def test_saving_a_user_defined_joint_is_rejected(rng, tmp_path):
    model = random_tree(rng, (-1,), (Homemade(),))
    assert isinstance(model.joint[0], Joint)
    with pytest.raises(TypeError, match="a Homemade cannot be saved; it must be one of Blade, Cyl"):
        save_model(model, tmp_path / "robot.json")
    assert not any(tmp_path.iterdir())


def test_saving_a_cable_with_time_dependent_length_is_rejected(tmp_path):
    points = ((-1, np.zeros(3)), (1, np.ones(3)))
    winch = StringConstraint(points, lambda t: 1.0 + t, name="winch")
    with pytest.raises(TypeError, match="length of string 'winch' is a function of time"):
        save_model(replace(planar2(), strings=(winch,)), tmp_path / "robot.json")
    assert not any(tmp_path.iterdir())


def spring(**changes):
    """Return the JSON object of a spring of planar2."""
    one = {"name": "s", "body": 0, "point": [0, 0, 1], "other": -1, "other_point": [0, 0, 0]}
    return one | {"stiffness": 1, "damping": 0, "rest": 0} | changes


def string(**changes):
    """Return the JSON object of a cable of planar2."""
    ends = [{"body": body, "point": [0, 0, body]} for body in (-1, 1)]
    return {"name": "cord", "points": ends, "length": 1, "radius": 0} | changes


def changed(change):
    """Return the changed JSON document of planar2."""
    text = document(RobotDescription(planar2(), JointProperties.from_values(2)))
    change(text)
    return json.dumps(text)


PLACE = {"E": np.eye(3).tolist(), "r": [0, 0, 0]}
FRAMES = [{"body": body, "placement": PLACE} for body in (-1, 1)]
PATH = {"kind": "path", "frames": FRAMES, "numbers": [1]}
ACTUATOR = {
    "name": "a",
    "gear": 1,
    "gain": [1, 0, 0],
    "bias": [0, 0, 0],
    "line": PATH,
    "control": [None, None],
    "force": [None, None],
}
BROKEN = {
    "no JSON": ("{\n1", r"robot\.json:2: invalid JSON: expecting property name"),
    "not a number": ('{"format": NaN}', "invalid JSON in robot file: NaN is not a number"),
    "too deep": ('{"a":' * 100000, "invalid JSON"),
    "something else": ("{}", "the document needs the key 'format'"),
    "another format": ('{"format": "x"}', "format must be 'rigidblocks robot', not 'x'"),
    "a later version": (changed(lambda d: d.update(version=2)), "version must be 1, not 2"),
    "an unknown key": (
        changed(lambda d: d.update(more=1)),
        "the document has unknown keys: more",
    ),
    "no bodies": (
        changed(lambda d: d["model"].update(bodies=[])),
        "model is not valid: .* no bodies",
    ),
    "an unknown joint": (
        changed(lambda d: d["model"]["bodies"][1]["joint"].update(type="Screw")),
        r"model\.bodies\[1\]\.joint has the type 'Screw'; it must be one of Blade, Cyl",
    ),
    "a text for a mass": (
        changed(lambda d: d["model"]["bodies"][1]["inertia"].update(m="1")),
        r"model\.bodies\[1\]\.inertia\.m must be a number",
    ),
    "an infinite mass": (
        changed(lambda d: d["model"]["bodies"][1]["inertia"].update(m=10**400)),
        r"model\.bodies\[1\]\.inertia\.m must be a finite number",
    ),
    "a short vector": (
        changed(lambda d: d["model"]["bodies"][0]["Xtree"].update(r=[0, 0])),
        r"model\.bodies\[0\]\.Xtree\.r must have 3 items, not 2",
    ),
    "a wrong parent": (
        changed(lambda d: d["model"]["bodies"][0].update(parent=1)),
        "model is not valid: body 0 of model 'planar2' has the parent 1",
    ),
    "a short list of freedoms": (
        changed(lambda d: d["freedoms"].update(damping=[1])),
        r"freedoms\.damping must have 2 items, not 1",
    ),
    "a coupling of no joint": (
        changed(lambda d: d["couplings"].append({"joint": 5, "source": 0})),
        r"couplings\[0\].joint is 5, which is not a joint",
    ),
    "a spring of no body": (
        changed(lambda d: d["springs"].append(spring(other=7))),
        r"springs\[0\]\.other must be a body index from -1 \(the base\) to 1, not 7",
    ),
    "a spring of one body": (
        changed(lambda d: d["springs"].append(spring(other=0))),
        r"springs\[0\] must connect a body to another body or to the base",
    ),
    "a spring of a negative stiffness": (
        changed(lambda d: d["springs"].append(spring(stiffness=-1))),
        r"springs\[0\]\.stiffness must not be negative",
    ),
    "bodies apart that are one": (
        changed(lambda d: d["collision_exclusions"].append([1, 1])),
        r"collision_exclusions\[0\] must be the indices of two bodies, not \[1, 1\]",
    ),
    "a string of one point": (
        changed(lambda d: d["model"]["strings"].append(string(points=string()["points"][:1]))),
        "model is not valid: string cord of model 'planar2' has 1 points; it needs at least 2",
    ),
    "a string of no body": (
        changed(
            lambda d: d["model"]["strings"].append(
                string(points=[{"body": 2, "point": [0, 0, 0]}] * 2)
            )
        ),
        "model is not valid: string cord of model 'planar2' has a point on unknown body 2",
    ),
    "a string of no length": (
        changed(lambda d: d["model"]["strings"].append(string(length=0))),
        "the length of string cord of model 'planar2' must be positive and finite, not 0",
    ),
    "a string with a text for a point": (
        changed(lambda d: d["model"]["strings"].append(string(points="AB"))),
        r"model\.strings\[0\]\.points must be a list",
    ),
    "a tendon with joints and a line": (
        changed(lambda d: d["tendons"].append({"name": "t", "joints": [0], "line": PATH})),
        r"tendons\[0\]\.joints must be empty, because the tendon has a line",
    ),
    "an actuator with a joint and a line": (
        changed(lambda d: d["actuators"].append(ACTUATOR | {"joint": 0})),
        r"actuators\[0\]\.joint must be -1, because the actuator has a line",
    ),
    "an actuator with other joints and a line": (
        changed(lambda d: d["actuators"].append(ACTUATOR | {"others": [{}]})),
        r"actuators\[0\]\.others must be \[\], because the actuator has a line",
    ),
    "a frame of no body": (
        changed(lambda d: d["frames"].update(a={"body": 7, "placement": {}})),
        r"frames\.a\.body must be a body index from -1 \(the base\) to 1, not 7",
    ),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_error_for_an_invalid_json_robot_file_states_the_location(kind, tmp_path):
    text, said = BROKEN[kind]
    path = tmp_path / "robot.json"
    path.write_text(text)
    with pytest.raises(FormatError, match=said) as refusal:
        load_model(path)
    assert str(refusal.value).startswith(str(path))
    assert "\n" not in str(refusal.value)


def places(value, path=()):
    """Yield the paths to all members of a document."""
    yield path
    children = list(enumerate(value)) if isinstance(value, list) else []
    for key, child in value.items() if isinstance(value, dict) else children:
        yield from places(child, (*path, key))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_mutated_json_robot_file_is_read_or_rejected_with_a_one_line_error(seed, tmp_path):
    whole = document(described(np.random.default_rng(0)))
    draw, path = random.Random(seed), tmp_path / "robot.json"
    junk = [None, True, -1, 0, 10**400, 1e300, "x", [], [[1]], {}, {"type": "Box"}, {"E": []}]
    where = [place for place in places(whole) if place]
    for _ in range(100):
        changed = copy.deepcopy(whole)
        *way, last = draw.choice(where)
        inner = changed
        for key in way:
            inner = inner[key]
        if draw.random() < 0.3:
            del inner[last]
        else:
            inner[last] = draw.choice(junk)
        path.write_text(json.dumps(changed))
        assert read_or_refused_in_one_line(path)


def read_or_refused_in_one_line(path):
    """Return True if the file is read, or rejected with a one-line error that contains its path."""
    try:
        load_model(path)
    except FormatError as refusal:
        return str(refusal).startswith(str(path)) and "\n" not in str(refusal)
    return True


def test_floating_option_for_a_json_file_is_rejected(tmp_path, rng):
    path = tmp_path / "robot.json"
    save_model(random_tree(rng, (-1,), (Revolute(),)), path)
    with pytest.raises(ValueError, match="defines whether its base floats"):
        load_model(path, floating=True)
    assert random_inertia(rng).m > 0
