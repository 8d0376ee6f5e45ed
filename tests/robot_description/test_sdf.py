"""What an SDF says is what the model has. Transforms that are products of a few others agree to the
rounding of numbers of size 1; the loops of Cassie are closed to that of her size in the
configuration of the file.
"""

import re

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from published import published
from rigidblocks.algebra.spatial import rz
from rigidblocks.block.adaptive import memory_for, method_of
from rigidblocks.formats.load import load_model
from rigidblocks.formats.refusal import FormatError
from rigidblocks.joint import Helical, Prismatic, Revolute, Spherical, Universal
from rigidblocks.kernels.stepper import compiled_stepper
from rigidblocks.library.described import described_plant
from rigidblocks.loops.constraints import loop_constraints
from rigidblocks.model.configuration import neutral
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


def test_poses_of_links_are_in_the_model_and_those_of_joints_in_their_child(read):
    pose = "<pose>0 0.5 0 0 0 0</pose><axis><xyz>0 1 0</xyz></axis>"
    robot = read(sdf(*TWO, joint("j", "revolute", "a", "b", pose)))
    (X,), (R,) = robot.model.Xtree, robot.model.joint
    assert Revolute((0.0, 1.0, 0.0)) == R
    assert_allclose(X.E, rz(np.pi / 2), atol=ATOL)
    assert_allclose(X.r, [0.5, 0.0, 1.0], atol=ATOL)  # a is fixed where the file has it
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
def test_an_axis_is_in_the_frame_that_the_version_and_the_file_say(read, version, axis):
    text = sdf(*TWO, joint("j", "revolute", "a", "b", f"<axis>{axis}</axis>"), version=version)
    assert_allclose(read(text).model.joint[0].axis, [0.0, -1.0, 0.0], atol=ATOL)


def test_poses_are_relative_to_what_they_say(read):
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
        (
            "universal",
            "<axis><xyz>1 0 0</xyz></axis><axis2><xyz>0 1 0</xyz></axis2>",
            Universal(),
        ),
    ],
)
def test_joints_of_all_types(read, kind, inside, expected):
    assert read(sdf(*TWO, joint("j", kind, "a", "b", inside))).model.joint == (expected,)


def test_a_fixed_joint_without_an_axis_makes_one_body(read):
    three = sdf(
        *TWO,
        joint("j", "revolute", "a", "b"),
        "<link name='c'/>",
        joint("k", "fixed", "b", "c", " "),
    )
    robot = read(three)
    assert robot.model.nb == 1
    assert robot.frames["c"].body == 0


def test_limits_springs_and_dampers_are_those_of_the_freedoms(read):
    axis = """<axis><limit><lower>-1</lower><upper>1e16</upper><effort>7</effort></limit>
    <dynamics><damping>2</damping><friction>3</friction><spring_stiffness>4</spring_stiffness>
    <spring_reference>5</spring_reference></dynamics></axis>"""
    freedoms = read(sdf(*TWO, joint("j", "revolute", "a", "b", axis))).freedoms
    given = {"lower": -1, "upper": np.inf, "effort": 7, "velocity": np.inf, "damping": 2}
    for name, value in (given | {"friction": 3, "stiffness": 4, "rest": 5}).items():
        assert_array_equal(getattr(freedoms, name), [value])


def test_a_joint_that_closes_a_loop_is_a_loop_joint(read):
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


def test_gearboxes_couple_the_joints_of_their_reference_body(read):
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
    assert [tuple(c) for c in robot.couplings] == [(1, 0, 0.5, 0.0)]


def test_gravity_is_that_of_the_world(read):
    text = sdf(*TWO, joint("j", "revolute", "a", "b")).replace(
        "<model", "<world name='w'><gravity>1 2 3</gravity><model"
    )
    robot = read(text.replace("</model>", "</model></world>"))
    assert_array_equal(robot.model.gravity, [1.0, 2.0, 3.0])


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
def test_links_touch_where_one_of_the_two_collides_with_its_model(read, model, links, apart):
    three = (
        link(n, f"{k} 0 0 0 0 0", BALL + own)
        for k, (n, own) in enumerate(zip("abc", links, strict=False))
    )
    joints = joint("i", "revolute", "a", "b"), joint("j", "revolute", "b", "c")
    assert list(read(sdf(*three, *joints, model)).apart) == apart


BROKEN = {
    "another version": (sdf(version="2.0"), "<sdf", "this is SDF 2.0; 1.4 to 1.12 are read"),
    "two models": (
        sdf(*TWO).replace("</sdf>", "\n<model name='b'/></sdf>"),
        "<model name='b'",
        "one <model> is read, without <include>; here are 2",
    ),
    "a joint of no link": (
        sdf(*TWO, joint("j", "revolute", "a", "bb")),
        "<joint",
        "'bb' is no link and no frame",
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
    "two links on nothing": (sdf(*TWO), "<link name='b'", "link 'b' hangs on no joint"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_sdf_is_refused_with_its_line(read, kind):
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
def test_mutated_sdfs_are_read_or_refused_in_one_line(tmp_path, seed):
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
    not CASSIES, reason="example-robot-data is not installed (`pip install rigidblocks[interop]`)"
)
@pytest.mark.parametrize("name", CASSIES)
def test_the_loops_of_cassie_are_closed(name):
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
    not CASSIES, reason="example-robot-data is not installed (`pip install rigidblocks[interop]`)"
)
def test_cassie_swings_freely_for_a_second():
    """Energy stays to 1e-6 J, and the loops closed to 1e-10 (m, rad): axes that the file's digits
    leave 4e-6 rad apart are parallel.
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
