"""Models compared with the values of their SDF files.

The tolerance of transforms is the rounding error of products of values of about 1. The loops of
Cassie are closed in the configuration of the file up to rounding errors.
"""

import re

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from published import published
from rigidblocks.block.adaptive_methods import memory_for, method_of
from rigidblocks.block.block import Record
from rigidblocks.common.format_error import FormatError
from rigidblocks.dynamics import rnea
from rigidblocks.dynamics.kinematics import body_poses
from rigidblocks.dynamics.loops.constraints import loop_constraints
from rigidblocks.kernels.compiled_stepper import compiled_stepper
from rigidblocks.library.plant_from_file import described_plant
from rigidblocks.robot.configuration import neutral
from rigidblocks.robot.joints import Helical, Prismatic, Revolute, Spherical, Universal
from rigidblocks.robot_description.load import load_model
from rigidblocks.spatial.spatial import rx, ry, rz
from urdf_text import line_of

ATOL = 1e-15
CASSIES = published(".sdf")

INERTIAL = """<inertial><pose>0.1 0 0 0 0 0</pose><mass>2</mass>
<inertia><ixx>0.01</ixx><iyy>0.02</iyy><izz>0.03</izz></inertia></inertial>"""


def link(name, pose="0 0 0 0 0 0", inside=""):
    return f"<link name='{name}'><pose>{pose}</pose>{INERTIAL}{inside}</link>\n"


def joint(name, kind, parent, child, inside=""):
    inside = inside or "<axis><xyz>0 0 1</xyz></axis>"
    return (
        f"<joint name='{name}' type='{kind}'><parent>{parent}</parent><child>{child}</child>"
        f"{inside}</joint>\n"
    )


def sdf(*parts, version="1.7"):
    return f"<sdf version='{version}'>\n<model name='robot'>\n{''.join(parts)}</model></sdf>"


@pytest.fixture
def read(tmp_path):
    def read_text(text, **options):
        path = tmp_path / "robot.sdf"
        path.write_text(text)
        return load_model(path, **options)

    return read_text


TWO = (link("a", "0 0 1 0 0 0"), link("b", "1 0 1 0 0 1.5707963267948966"))


def test_sdf_link_poses_are_relative_to_the_model_and_joint_poses_to_the_child_link(read):
    pose = "<pose>0 0.5 0 0 0 0</pose><axis><xyz>0 1 0</xyz></axis>"
    robot = read(sdf(*TWO, joint("j", "revolute", "a", "b", pose)))
    (X,), (R,) = robot.model.Xtree, robot.model.joint
    assert Revolute((0.0, 1.0, 0.0)) == R
    assert_allclose(X.E, rz(np.pi / 2), atol=ATOL)
    assert_allclose(X.r, [0.5, 0.0, 1.0], atol=ATOL)  # link a is fixed at its pose in the file
    assert_allclose(robot.model.inertia[0].h, [0.2, -1.0, 0.0], atol=ATOL)
    assert_allclose(robot.frames["b"].placement.r, [0.0, -0.5, 0.0], atol=ATOL)


@pytest.mark.parametrize(
    ("version", "axis"),
    [
        ("1.4", "<xyz>1 0 0</xyz>"),
        ("1.6", "<xyz>1 0 0</xyz><use_parent_model_frame>1</use_parent_model_frame>"),
        ("1.6", "<xyz>0 -1 0</xyz>"),
        ("1.7", "<xyz>0 -1 0</xyz>"),
        ("1.7", "<xyz expressed_in='__model__'>1 0 0</xyz>"),
        ("1.12", "<xyz expressed_in='a'>1 0 0</xyz>"),
    ],
)
def test_sdf_joint_axis_is_in_the_frame_of_the_version_or_attribute(read, version, axis):
    text = sdf(*TWO, joint("j", "revolute", "a", "b", f"<axis>{axis}</axis>"), version=version)
    assert_allclose(read(text).model.joint[0].axis, [0.0, -1.0, 0.0], atol=ATOL)


def test_sdf_poses_are_relative_to_their_reference_frame(read):
    relative = TWO[1].replace("<pose>", "<pose relative_to='f'>")
    frame = "<frame name='f' attached_to='a'><pose degrees='true'>0 0 1 0 0 90</pose></frame>"
    quaternion = "<pose rotation_format='quat_xyzw'>0 0 0 0 0 2 0</pose>"
    turned = f"<frame name='g' attached_to='b'>{quaternion}</frame>"
    robot = read(
        sdf(TWO[0], relative, frame, turned, joint("j", "revolute", "a", "b"), version="1.9")
    )
    assert_allclose(robot.model.Xtree[0].r, [0.0, 1.0, 3.0], atol=ATOL)
    assert_allclose(robot.frames["f"].placement.r, [0.0, 0.0, 2.0], atol=ATOL)
    assert robot.frames["f"].body == -1
    assert robot.frames["g"].body == 0
    assert_allclose(robot.frames["g"].placement.E, np.diag([-1.0, -1.0, 1.0]), atol=ATOL)


@pytest.mark.parametrize(
    ("kind", "inside", "expected"),
    [
        ("prismatic", "", Prismatic()),
        ("ball", "", Spherical()),
        ("screw", "<axis/><screw_thread_pitch>0.5</screw_thread_pitch>", Helical(0.25 / np.pi)),
        ("screw", "<axis/><thread_pitch>-4</thread_pitch>", Helical(0.25)),
        ("screw", "<axis/>", Helical(0.5 / np.pi)),  # 1 m per turn
        (
            "universal",
            "<axis><xyz>1 0 0</xyz></axis><axis2><xyz>0 1 0</xyz></axis2>",
            Universal(),
        ),
    ],
)
def test_joints_of_all_sdf_types_are_read(read, kind, inside, expected):
    assert read(sdf(*TWO, joint("j", kind, "a", "b", inside))).model.joint == (expected,)


@pytest.mark.parametrize("pitch", ["", "<thread_pitch>-4</thread_pitch>"])
def test_default_pitch_of_an_sdf_screw_joint_is_reported(read, pitch):
    text = sdf(*TWO, joint("j", "screw", "a", "b", f"<axis/>{pitch}"))
    default = f"line {line_of(text, '<joint')}: screw joint 'j' has no <screw_thread_pitch>"
    reported = any(warning.startswith(default) for warning in read(text).warnings)
    assert reported == (not pitch)


DUPLICATES = {
    "frame": "<frame name='a'/>",
    "joint": joint("b", "revolute", "a", "b"),
}


@pytest.mark.parametrize("kind", DUPLICATES)
def test_sdf_joint_or_frame_with_the_name_of_a_link_is_rejected(read, kind):
    text = sdf(*TWO, joint("j", "revolute", "a", "b"), DUPLICATES[kind])
    with pytest.raises(FormatError, match=f"of a <{kind}> is not unique: the <link> in line"):
        read(text)


def test_sdf_joint_before_version_1_7_can_have_the_name_of_a_link(read):
    inside = "<pose>0 0.5 0 0 0 0.3</pose><axis><xyz>0 1 0</xyz></axis>"
    sensor = "<sensor name='s' type='imu'/>"
    links = (link("a"), link("b", "1 0 1 0 0 1", sensor))
    same, other = (
        read(sdf(*links, joint(name, "revolute", "a", "b", inside), version="1.6"))
        for name in ("b", "j")
    )
    for one, two in zip(same.model.Xtree, other.model.Xtree, strict=True):
        assert_array_equal(one.matrix(), two.matrix())
    assert_array_equal(same.model.inertia[0].h, other.model.inertia[0].h)
    assert [s.name for s in same.sensors] == [s.name for s in other.sensors] != []


def test_sdf_joint_between_a_link_and_itself_is_rejected(read):
    with pytest.raises(FormatError, match="joint 'j' connects link 'b' to itself"):
        read(sdf(*TWO, joint("k", "revolute", "a", "b"), joint("j", "revolute", "b", "b")))


def test_sdf_inertia_that_overflows_is_rejected(read):
    text = sdf(*TWO, joint("j", "revolute", "a", "b")).replace("<mass>2", "<mass>1e300")
    with pytest.raises(FormatError, match="largest value is 1e"):
        read(text)


def test_repeated_sdf_elements_are_reported_with_their_line_numbers(read):
    text = sdf(link("a"), link("b", inside=INERTIAL), joint("j", "revolute", "a", "b"))
    warnings = [w for w in read(text).warnings if "is repeated" in w]
    assert len(warnings) == 1
    assert "<inertial> of <link> 'b' is repeated and not read: the first one in line" in warnings[0]


def test_links_on_a_fixed_sdf_joint_become_one_body(read):
    three = sdf(
        *TWO,
        joint("j", "revolute", "a", "b"),
        "<link name='c'/>",
        joint("k", "fixed", "b", "c", " "),
    )
    robot = read(three)
    assert robot.model.nb == 1
    assert robot.frames["c"].body == 0


def test_sdf_joint_properties_are_read_per_degree_of_freedom(read):
    axis = """<axis><limit><lower>-1</lower><upper>1e16</upper><effort>7</effort></limit>
    <dynamics><damping>2</damping><friction>3</friction><spring_stiffness>4</spring_stiffness>
    <spring_reference>5</spring_reference></dynamics></axis>"""
    freedoms = read(sdf(*TWO, joint("j", "revolute", "a", "b", axis))).joint_properties
    given = {"lower": -1, "upper": np.inf, "effort": 7, "velocity": np.inf, "damping": 2}
    for name, value in (given | {"friction": 3, "stiffness": 4, "rest": 5}).items():
        assert_array_equal(getattr(freedoms, name), [value])


@pytest.mark.parametrize("word", ["inf", "+INF", " Infinity "])
def test_infinite_sdf_joint_limits_are_read_as_unlimited(read, word):
    limit = "<axis><limit><lower>-{0}</lower><upper>{0}</upper><effort>{0}</effort></limit></axis>"
    text = limit.format(word.strip().lstrip("+")).replace("<upper>inf", "<upper>" + word)
    freedoms = read(sdf(*TWO, joint("j", "revolute", "a", "b", text))).joint_properties
    for name, value in {"lower": -np.inf, "upper": np.inf, "effort": np.inf}.items():
        assert_array_equal(getattr(freedoms, name), [value])


@pytest.mark.parametrize(
    ("attributes", "parent", "parents"),
    [
        ("", "__model__", (-1, 0)),
        ("", "f", (-1, 0)),
        ("", "g", (-1, 0)),
        ("canonical_link='b'", "__model__", (-1, 1)),
        ("canonical_link='b'", "f", (-1, 1)),
    ],
)
def test_sdf_model_frame_is_attached_to_its_canonical_link(read, attributes, parent, parents):
    links = link("a"), link("b", "1 0 0 0 0 0"), link("c", "2 0 0 0 0 0.5")
    frames = "<frame name='f'/><frame name='g' attached_to='f'/>"
    joints = [joint("i", "revolute", "world", "a"), joint("j", "revolute", "a", "b")]
    text = sdf(*links, frames, *joints, joint("k", "revolute", parent, "c"), version="1.8")
    same = text.replace(f"<parent>{parent}<", f"<parent>{'b' if attributes else 'a'}<")
    models = [read(one.replace("<model ", f"<model {attributes} ")).model for one in (text, same)]
    assert models[0].parent == (-1, 0, parents[1])
    for one, other in zip(models[0].Xtree, models[1].Xtree, strict=True):
        assert_array_equal(one.r, other.r)
        assert_array_equal(one.E, other.E)


POSE = "0.3 -0.2 1 0.4 -0.9 2"


def posed(text, pose=f"<pose>{POSE}</pose>", attributes=""):
    return text.replace("<model ", f"<model {attributes} ").replace("'robot'>", f"'robot'>{pose}")


@pytest.mark.parametrize("version", ["1.4", "1.6", "1.9"])
def test_sdf_gravity_is_rotated_by_the_inverse_of_the_model_pose(read, version, rng):
    """A rotated model in gravity g equals the original model in rotated gravity."""
    axis = "<axis><xyz>1 2 3</xyz><use_parent_model_frame>1</use_parent_model_frame></axis>"
    axis = axis if version == "1.6" else "<axis><xyz>1 2 3</xyz></axis>"
    parts = joint("i", "revolute", "world", "a", axis), joint("j", "revolute", "a", "b", axis)
    text = sdf(*TWO, *parts, version=version)
    straight, turned = read(text).model, read(posed(text)).model
    *r, roll, pitch, yaw = map(float, POSE.split())
    E = rx(roll) @ ry(pitch) @ rz(yaw)
    q, qd, qdd = rng.normal(size=(3, 2))
    expected = rnea(straight, q, qd, qdd, gravity=E @ straight.gravity)
    assert_allclose(rnea(turned, q, qd, qdd), expected, rtol=1e-12)
    for X, Y in zip(body_poses(straight, q), body_poses(turned, q), strict=True):
        assert_allclose(Y.r, r + E.T @ X.r, atol=1e-14)


def test_sdf_model_pose_is_the_pose_of_its_placement_frame(read):
    frame = "<frame name='f' attached_to='a'><pose>0 0 0 0 1 0</pose></frame>"
    text = sdf(*TWO, frame, joint("j", "revolute", "world", "a"), joint("k", "ball", "a", "b"))
    robot = read(posed(text.replace("1.7", "1.8"), attributes="placement_frame='f'"))
    model = robot.model
    X = robot.frames["f"].placement @ body_poses(model, neutral(model))[robot.frames["f"].body]
    *r, roll, pitch, yaw = map(float, POSE.split())
    assert_allclose(X.r, r, atol=1e-14)
    assert_allclose(X.E, rx(roll) @ ry(pitch) @ rz(yaw), atol=1e-14)


def test_sdf_model_pose_is_relative_to_the_named_world_frame(read):
    text = posed(
        sdf(*TWO, joint("j", "revolute", "world", "a"), joint("k", "ball", "a", "b")),
        "<pose relative_to='table'>1 0 0 0 0 0</pose>",
    )
    frame = "<world name='w'><frame name='table'><pose>0 0 2 0 0 1.5707963267948966</pose></frame>"
    text = text.replace("<model", f"{frame}<model").replace("</sdf>", "</world></sdf>")
    assert_allclose(read(text).model.Xtree[0].r, [0.0, 1.0, 3.0], atol=ATOL)
    with pytest.raises(FormatError, match="relative to 'tabel', which does not exist"):
        read(text.replace("relative_to='table'", "relative_to='tabel'"))


def test_initial_pose_of_a_floating_sdf_robot_is_the_model_pose(read):
    text = posed(sdf(*TWO, joint("j", "revolute", "a", "b")))
    robot = read(text, floating=True)
    *r, roll, pitch, yaw = map(float, POSE.split())
    E = rx(roll) @ ry(pitch) @ rz(yaw)
    X = body_poses(robot.model, robot.q0)[0]
    assert_allclose(X.r, r + E.T @ [0, 0, 1], atol=1e-14)
    assert_allclose(X.E, E, atol=1e-14)
    plant = described_plant(robot)
    assert_allclose(plant.position0, X.r, atol=1e-14)


def test_sdf_mimic_joint_follows_its_leader_with_multiplier_reference_and_offset(read):
    """q = multiplier (q_leader - reference) + offset (SDF 1.11)."""
    mimic = "<mimic joint='i'><multiplier>-2</multiplier>{}</mimic>".format(
        "<offset>0.5</offset><reference>0.25</reference>"
    )
    text = sdf(
        *TWO,
        link("c"),
        joint("i", "prismatic", "a", "b"),
        joint("j", "prismatic", "a", "c", f"<axis><xyz>0 0 1</xyz>{mimic}</axis>"),
        version="1.11",
    )
    robot = read(text)
    assert [tuple(c) for c in robot.couplings] == [(1, 0, -2.0, 1.0, ())]
    with pytest.raises(
        FormatError, match="'j' follows 'i'; both need one degree of freedom, without an axis2"
    ):
        read(text.replace("joint='i'", "joint='i' axis='axis2'"))
    lost = read(text.replace("joint='i'", "joint='ii'"))
    assert "follows 'ii', which is not a movable joint; did you mean 'i'?" in lost.warnings[0]


SPRING = "<axis><dynamics><spring_stiffness>7</spring_stiffness></dynamics></axis>"


@pytest.mark.parametrize("sprung", ["ab", "bc", "ac"])
def test_sdf_loop_is_cut_at_a_joint_without_a_spring_if_possible(read, sprung):
    square = [link(n, f"{x} {y} 0 0 0 0") for n, x, y in (("a", 0, 0), ("b", 1, 0), ("c", 1, 1))]
    joints = [
        joint(name, "revolute", *name, SPRING if name == sprung else "<axis/>")
        for name in ("ab", "bc", "ac")
    ]
    robot = read(sdf(*square, *joints, joint("world", "fixed", "world", "a")))
    model = robot.model
    assert len(model.loops) == 1
    assert robot.joint_properties.stiffness[model.joint_names.index(sprung)] == 7
    assert not robot.warnings


def parallelogram(*, last=("wc", "world", "c"), inside="{}"):
    """Return a parallelogram of rods of 1 m in which each joint has a spring and a damper."""
    loads = [
        f"<axis><xyz>0 0 1</xyz><dynamics><spring_stiffness>{k}</spring_stiffness>"
        f"<spring_reference>{r}</spring_reference><damping>{d}</damping></dynamics>"
        f"<limit><lower>{-2.0 - r}</lower></limit></axis>"
        for k, r, d in LAWS
    ]
    return (
        link("a"),
        link("b", "0 1 0 0 0 0"),
        link("c", "1 0 0 0 0 0"),
        joint("wa", "revolute", "world", "a", loads[0]),
        joint("ab", "revolute", "a", "b", loads[1]),
        joint("bc", "revolute", "b", "c", f"<pose>0 1 0 0 0 0</pose>{loads[2]}"),
        joint(last[0], "revolute", *last[1:], inside.format(loads[3])),
    )


LAWS = ((3, 0.4, 0.1), (40, -0.2, 0.2), (7, 0.3, 0.5), (9, 0.7, 0.3))  # stiffness, rest, damping


@pytest.mark.parametrize(
    ("last", "inside", "sign"),
    [
        (("wc", "world", "c"), "{}", 1.0),
        (("cw", "c", "world"), "<pose relative_to='c'/>{}", -1.0),
    ],
)
def test_sdf_springs_and_dampers_at_all_joints_of_a_loop_affect_its_motion(
    read, last, inside, sign
):
    """A parallelogram with crank angle x has the joint angles x, -x, x and sign x.

    Its inertia is constant, so (2 I + m l^2) xdd = -sum(K (s - rest) ds/dx + D (ds/dx)^2 xd).
    """
    robot = read(sdf(*parallelogram(last=last, inside=inside)))
    model, f = robot.model, robot.joint_properties
    assert not robot.warnings
    assert [f.stiffness[model.joint_names.index(n)] for n in ("wa", "ab", "bc", last[0])] == [
        k for k, _, _ in LAWS
    ]
    assert_array_equal(sorted(f.lower), sorted(-2.0 - r for _, r, _ in LAWS))
    names = ("wa", "ab", "bc", last[0])
    slope = dict(zip(names, (1.0, -1.0, 1.0, sign), strict=True))
    signs = np.array([slope[name] for name in model.joint_names])
    plant = described_plant(robot, joint_friction=True)
    p = Record({port.name: port.start for port in plant.parameters})
    for x, xd in ((0.0, 0.0), (0.6, 2.0), (-1.1, -3.0)):
        state = Record({"q": signs * x, "qd": signs * xd})
        qdd = plant.derivative(0.0, state, Record({"tau": np.zeros(model.nv)}), p)["qd"]
        force = sum(
            s * (k * (s * x - rest) + d * s * xd)
            for (k, rest, d), s in zip(LAWS, slope.values(), strict=True)
        )
        assert_allclose(qdd, signs * -force / (2 * 0.05 + 2.0), rtol=1e-9)


def test_sdf_mimic_joint_that_closes_a_loop_remains_coupled_to_its_leader(read):
    parts = [*parallelogram()]
    mimic = "<mimic joint='wa'><multiplier>-1</multiplier></mimic>"
    for k, name in ((4, "ab"), (6, "wc")):
        ratio = mimic if name == "ab" else mimic.replace("-1", "1")
        parts[k] = parts[k].replace("</dynamics>", f"</dynamics>{ratio}")
    robot = read(sdf(*parts, version="1.11"))
    names = robot.model.joint_names
    assert {(names[c.joint], names[c.source], c.ratio) for c in robot.couplings} == {
        ("ab", "wa", -1.0),
        ("wc", "wa", 1.0),
    }
    assert not robot.warnings


def test_sdf_loop_joint_with_a_spring_at_a_massless_link_is_rejected(read):
    parts = [*parallelogram()]
    for k in (0, 1, 2):
        parts[k] = parts[k].replace("<mass>2</mass>", "<mass>0</mass>")
        parts[k] = parts[k].replace("<pose>0.1 0 0 0 0 0</pose>", "")
    with pytest.raises(FormatError, match="'bc' closes a loop, and its child 'c' has no mass"):
        read(sdf(*parts))


@pytest.mark.slow
def test_energy_of_an_sdf_loop_with_a_damped_loop_joint_decreases(read):
    robot = read(sdf(*parallelogram()))
    method = method_of("adaptive")
    memory = memory_for(described_plant(robot, joint_friction=True), method)
    stepper, m = compiled_stepper(memory, method), memory.start()
    rows = np.zeros((300, memory.size))
    stepper.initialize(m, 0.0)
    assert stepper.run(m, 0.0, 1e-2, rows) == len(rows)
    assert np.all(np.diff(rows[:, memory.where["energy"]].ravel()) < 0)
    assert rows[:, memory.where["loop_error"]].max() < 1e-10


def test_sdf_joint_that_closes_a_loop_becomes_a_loop_joint(read):
    square = [link(n, f"{x} {y} 0 0 0 0") for n, x, y in (("a", 0, 0), ("b", 1, 0), ("c", 1, 1))]
    robot = read(
        sdf(
            *square,
            joint("ab", "revolute", "a", "b"),
            joint("bc", "revolute", "b", "c"),
            joint("ac", "revolute", "a", "c", "<pose>-1 0 0 0 0 0</pose><axis/>"),
            joint("world", "fixed", "world", "a"),
        )
    )
    assert robot.model.joint_names == ("ab", "ac")  # the tree of minimum depth
    assert robot.model.loop_names == ("bc",)
    q = neutral(robot.model)
    assert_allclose(loop_constraints(robot.model, q, np.zeros(2)).delta, 0.0, atol=ATOL)


def test_sdf_gearbox_couples_the_joints_of_its_reference_body(read):
    gear = joint(
        "gear",
        "gearbox",
        "a",
        "b",
        """<gearbox_reference_body>base</gearbox_reference_body><gearbox_ratio>0.5</gearbox_ratio>
        <axis><xyz>0 0 1</xyz></axis><axis2><xyz>0 0 -1</xyz></axis2>""",
    )
    robot = read(
        sdf(
            link("base"),
            link("a"),
            link("b"),
            joint("motor", "revolute", "base", "a"),
            joint("load", "revolute", "base", "b"),
            gear,
        )
    )
    assert [tuple(c) for c in robot.couplings] == [(1, 0, 0.5, 0.0, ())]


def test_gravity_of_an_sdf_model_is_the_gravity_of_its_world(read):
    text = sdf(*TWO, joint("j", "revolute", "a", "b")).replace(
        "<model", "<world name='w'><gravity>1 2 3</gravity><model"
    )
    robot = read(text.replace("</model>", "</model></world>"))
    assert_array_equal(robot.model.gravity, [1.0, 2.0, 3.0])


@pytest.mark.parametrize(
    ("version", "inside", "gravity"),
    [
        ("1.4", "<physics><gravity>0 0 -1.62</gravity></physics>", -1.62),
        ("1.5", "<physics/><physics><gravity>0 0 -1.62</gravity></physics>", -1.62),
        (
            "1.5",
            "<physics><gravity>0 0 1</gravity></physics>"
            "<physics default='1'><gravity>0 0 -1.62</gravity></physics>",
            -1.62,
        ),
        ("1.6", "<gravity>0 0 -1.62</gravity>", -1.62),
        ("1.9", "", -9.8),
        ("1.4", "<physics/>", -9.8),
    ],
)
def test_sdf_gravity_is_read_from_the_element_that_the_sdf_version_defines(
    read, version, inside, gravity
):
    """A world without a gravity element has the SDF default of -9.8 m/s^2."""
    text = sdf(*TWO, joint("j", "revolute", "a", "b"), version=version)
    text = text.replace("<model", f"<world name='w'>{inside}<model")
    robot = read(text.replace("</model>", "</model></world>"))
    assert_array_equal(robot.model.gravity, [0.0, 0.0, gravity])


@pytest.mark.parametrize(("flag", "weight"), [("false", 0.0), ("0", 0.0), ("true", 1.0)])
def test_sdf_link_with_disabled_gravity_has_no_weight(read, flag, weight):
    """Link c is fixed to b, and only b has no gravity, so that half of the weight remains."""
    turn = "<axis><xyz>0 1 0</xyz></axis>"
    text = sdf(
        link("a"),
        link("b", inside=f"<gravity>{flag}</gravity>"),
        link("c"),
        joint("j", "revolute", "a", "b", turn),
        joint("k", "fixed", "b", "c"),
    )
    robot = read(text)
    assert not robot.warnings
    plant = described_plant(robot)
    x, u = Record({"q": np.zeros(1), "qd": np.zeros(1)}), Record({"tau": np.zeros(1)})
    p = Record({port.name: port.start for port in plant.parameters})
    inertia = 2 * (0.02 + 2.0 * 0.1**2)
    qdd = plant.derivative(0.0, x, u, p)["qd"]
    assert_allclose(qdd, 9.81 * 0.2 * (1 + weight) / inertia, rtol=1e-12)


BALL = "<collision name='c'><geometry><sphere><radius>0.1</radius></sphere></geometry></collision>"
YES, NO = "<self_collide>true</self_collide>", "<self_collide> 0 </self_collide>"


@pytest.mark.parametrize(
    ("model", "links", "apart"),
    [
        ("", ("", "", ""), [(-1, 0), (-1, 1), (0, 1)]),
        (YES, ("", "", ""), []),
        ("", ("", "", YES), [(-1, 0)]),
        (YES, (NO, NO, ""), [(-1, 0)]),
        (NO, (YES, "", NO), [(0, 1)]),
    ],
)
def test_links_of_an_sdf_model_collide_if_one_of_them_has_self_collide(read, model, links, apart):
    three = (
        link(n, f"{k} 0 0 0 0 0", BALL + own)
        for k, (n, own) in enumerate(zip("abc", links, strict=False))
    )
    joints = joint("i", "revolute", "a", "b"), joint("j", "revolute", "b", "c")
    assert list(read(sdf(*three, *joints, model)).collision_exclusions) == apart


BROKEN = {
    "another version": (
        sdf(version="2.0"),
        "<sdf",
        "unsupported SDF version 2.0; expected 1.4 to 1.12",
    ),
    "two models": (
        sdf(*TWO).replace("</sdf>", "\n<model name='b'/></sdf>"),
        "<model name='b'",
        "the file must have exactly one <model>, without <include>, but has 2",
    ),
    "a joint of no link": (
        sdf(*TWO, joint("j", "revolute", "a", "bb")),
        "<joint",
        "'bb' is neither a link nor a frame",
    ),
    "a pose relative to itself": (
        sdf(
            TWO[0],
            TWO[1].replace("<pose>", "<pose relative_to='b'>"),
            joint("j", "fixed", "a", "b"),
        ),
        "<link name='b'",
        "the pose of 'b' is relative to itself",
    ),
    "a pose of five": (
        sdf(TWO[0], link("b", "0 0 0 0 0"), joint("j", "revolute", "a", "b")),
        "<link name='b'",
        "a <pose> must be 6 finite numbers, not '0 0 0 0 0'",
    ),
    "no axis": (
        sdf(*TWO, joint("j", "revolute", "a", "b", "<pose/>")),
        "<joint",
        "joint 'j' needs an <axis>",
    ),
    "a zero axis": (
        sdf(*TWO, joint("j", "revolute", "a", "b", "<axis><xyz>0 0 0</xyz></axis>")),
        "<joint",
        "the axis of joint 'j' is zero",
    ),
    "a gearbox without its joints": (
        sdf(
            *TWO,
            joint("j", "revolute", "a", "b"),
            joint(
                "g",
                "gearbox",
                "a",
                "b",
                "<gearbox_reference_body>c</gearbox_reference_body><axis/><axis2/>",
            ),
        ),
        "<joint name='g'",
        "gearbox 'g' needs a revolute joint between 'c' and 'a'",
    ),
    "self_collide neither true nor false": (
        sdf(*TWO, joint("j", "revolute", "a", "b"), "<self_collide>yes</self_collide>"),
        "<self_collide",
        "<self_collide> must be true or false, not 'yes'",
    ),
    "two links on nothing": (sdf(*TWO), "<link name='b'", "link 'b' has no parent joint"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_invalid_sdf_is_rejected_with_its_line_number(read, kind):
    text, part, said = BROKEN[kind]
    with pytest.raises(FormatError, match=re.escape(said)) as refusal:
        read(text)
    assert f"robot.sdf:{line_of(text, part)}: " in str(refusal.value)


def mutated(text, rng):
    pieces = re.findall(r"<[^>]*>|[^<\s]+|\s+", text)
    junk = ["", "<link name='x'/>", "nan", "-1", "1e400", "<pose/>", "<axis/>", "world"]
    for _ in range(rng.integers(1, 5)):
        k, other = rng.integers(len(pieces), size=2)
        pieces[k] = str(rng.choice([pieces[other], str(rng.choice(junk))]))
    return "".join(pieces)


@pytest.mark.parametrize("seed", [0, *(pytest.param(s, marks=pytest.mark.slow) for s in (1, 2))])
def test_mutated_sdf_file_is_read_or_rejected_with_a_one_line_error(tmp_path, seed):
    whole = sdf(*TWO, link("c"), joint("j", "revolute", "a", "b"), joint("k", "ball", "b", "c"))
    path, rng, refused = tmp_path / "robot.sdf", np.random.default_rng(seed), []
    for _ in range(100):
        path.write_text(mutated(whole, rng))
        try:
            load_model(path)
        except FormatError as refusal:
            refused.append(str(refusal))
    assert 0 < len(refused) < 100
    assert all(said.startswith(str(path)) and "\n" not in said for said in refused)


@pytest.mark.interop
@pytest.mark.skipif(
    not CASSIES, reason="example-robot-data is not installed (`pip install example-robot-data`)"
)
@pytest.mark.parametrize("name", CASSIES)
def test_loops_of_cassie_are_closed_in_the_configuration_of_its_file(name):
    robot = load_model(CASSIES[name])
    model = robot.model
    assert len(model.loops) >= 4
    assert_allclose(
        loop_constraints(model, neutral(model), np.zeros(model.nv)).delta, 0.0, atol=1e-10
    )
    gearboxes = CASSIES[name].read_text().count('type="gearbox"')
    assert len(robot.couplings) == gearboxes


@pytest.mark.slow
@pytest.mark.interop
@pytest.mark.skipif(
    not CASSIES, reason="example-robot-data is not installed (`pip install example-robot-data`)"
)
def test_free_motion_of_cassie_conserves_energy_and_keeps_its_loops_closed():
    """The energy error is below 1e-6 J and the loop error below 1e-10 (m, rad) for 1 s.

    Axes that differ by 4e-6 rad because of the digits of the file are made parallel.
    """
    path = next(path for name, path in CASSIES.items() if name.endswith("cassie_v2.sdf"))
    method = method_of("adaptive")
    memory = memory_for(described_plant(load_model(path)), method)
    stepper, m, rows = (
        compiled_stepper(memory, method),
        memory.start(),
        np.zeros((1000, memory.size)),
    )
    stepper.initialize(m, 0.0)
    energy = m[memory.where["energy"]].copy()
    assert stepper.run(m, 0.0, 1e-3, rows) == len(rows)
    assert_allclose(rows[:, memory.where["energy"]] - energy, 0.0, atol=1e-6)
    assert rows[:, memory.where["loop_error"]].max() < 1e-10
    assert np.ptp(rows[:, memory.where["q"]], axis=0).max() > 1.0
