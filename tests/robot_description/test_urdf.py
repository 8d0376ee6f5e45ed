"""What a URDF says is what the model has. Values that are copied are equal; transforms and inertias
that were turned agree to the rounding of a few products of numbers of size 1.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from rigidblocks.algebra.spatial import mcI, rx, ry, rz
from rigidblocks.dynamics.kinematics import body_poses
from rigidblocks.formats.load import load_model
from rigidblocks.formats.refusal import FormatError
from rigidblocks.joint import Planar, Prismatic, Revolute, SixDoF
from rigidblocks.model.convex import Capsule
from rigidblocks.model.shapes import Box, Sphere
from urdf_text import ARM, line_of

ATOL = 1e-15


@pytest.fixture
def read(tmp_path):
    def read_text(text, **options):
        path = tmp_path / "robot.urdf"
        path.write_text(text, encoding="utf-8")
        return load_model(path, **options)

    return read_text


def test_joints_and_names_are_those_of_the_file(read):
    model = read(ARM).model
    assert model.name == "arm"
    assert model.joint_names == ("shoulder", "elbow")
    assert model.body_names == ("upper", "lower")
    assert model.parent == (-1, 0)
    assert model.joint == (Revolute((0.0, 1.0, 0.0)), Prismatic((1.0, 1.0, 0.0)))
    assert_array_equal(model.gravity, (0.0, 0.0, -9.81))


def test_a_quarter_turn_leaves_no_dust(read):
    X = read(ARM).model.Xtree[0]
    assert_array_equal(X.E, [[0.0, 0.0, -1.0], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0]])
    assert_array_equal(X.r, [0.0, 0.0, 1.0])


def test_inertia_is_turned_to_the_link(read):
    E = rx(0.1) @ ry(0.2) @ rz(0.3)
    I = np.array([[0.02, 0.001, 0.0], [0.001, 0.03, 0.0], [0.0, 0.0, 0.04]])
    expected = mcI(2.0, [0.1, 0.0, 0.2], E.T @ I @ E)
    assert_allclose(read(ARM).model.inertia[0].matrix(), expected.matrix(), atol=ATOL)


def test_a_fixed_link_is_part_of_the_body_and_a_frame(read):
    robot = read(ARM)
    lower = mcI(1.0, [0.0, 0.1, 0.0], 0.01 * np.eye(3))
    tool = mcI(0.5, [0.0, 0.0, 0.25], 0.001 * np.eye(3))
    assert_allclose(robot.model.inertia[1].matrix(), (lower + tool).matrix(), atol=ATOL)
    body, X = robot.frames["tool"]
    assert body == 1
    assert_allclose(X.E, rx(0.5), atol=ATOL)
    assert_array_equal(X.r, [0.0, 0.0, 0.25])
    assert robot.frames["base"].body == -1
    assert robot.frames["upper"].body == 0


def test_limits_damping_and_friction_are_those_of_the_freedoms(read):
    freedoms = read(ARM).freedoms
    assert_array_equal(freedoms.lower, [-1.0, 0.0])
    assert_array_equal(freedoms.upper, [2.0, 1.0])
    assert_array_equal(freedoms.effort, [10.0, 20.0])
    assert_array_equal(freedoms.velocity, [3.0, 1.0])
    assert_array_equal(freedoms.damping, [0.5, 0.0])
    assert_array_equal(freedoms.friction, [0.25, 0.0])
    assert_array_equal(freedoms.armature, [0.0, 0.0])


def test_shapes_are_those_of_the_bodies(read):
    model = read(ARM).model
    assert model.appearance[0] == model.contact[0] == ()
    (box,), (sphere,) = model.appearance[1], model.contact[1]
    assert isinstance(box, Box)
    assert_array_equal(box.sides, [0.1, 0.2, 0.3])
    assert isinstance(sphere, Sphere)
    assert_array_equal(sphere.centre, [0.0, 0.0, 0.1])


def test_a_capsule_is_one(read):
    solid = "<collision><geometry><capsule radius='0.1' length='0.4'/></geometry></collision>"
    robot = read(ARM.replace('<link name="tool">', f'<link name="tool">{solid}'))
    (capsule,) = [shape for shape in robot.model.contact[1] if isinstance(shape, Capsule)]
    assert (capsule.radius, capsule.height) == (0.1, 0.4)


def test_a_shape_of_a_fixed_link_moves_to_its_body(read):
    ball = "<visual><geometry><sphere radius='1'/></geometry></visual>"
    robot = read(
        ARM.replace('<link name="tool">', f'<link name="tool">{ball}').replace(
            '<link name="base"/>', f'<link name="base">{ball}</link>'
        )
    )
    assert_allclose(robot.model.appearance[1][1].centre, [0.0, 0.0, 0.25], atol=ATOL)
    assert len(robot.base_appearance) == 1


def test_a_floating_base_is_a_joint_of_six_freedoms(read):
    inertial = "<inertial><mass value='3'/><inertia ixx='1' iyy='1' izz='1'/></inertial>"
    text = ARM.replace('<link name="base"/>', f'<link name="base">{inertial}</link>')
    fixed, robot = read(text).model, read(text, floating=True)
    assert robot.model.joint == (SixDoF(), *fixed.joint)
    assert robot.model.joint_names == ("root_joint", *fixed.joint_names)
    assert robot.model.body_names == ("base", *fixed.body_names)
    assert robot.model.inertia[0].m == 3.0
    assert robot.freedoms.lower.shape == (8,)


@pytest.mark.parametrize("normal", ["0 0 1", "1 0 0", "0 0 -1", "1 2 3"])
def test_a_planar_joint_moves_across_its_axis(read, normal):
    text = ARM.replace('type="prismatic"', 'type="planar"').replace("1 1 0", normal)
    robot = read(text)
    model = robot.model
    assert model.joint[1] == Planar()
    n = np.array(normal.split(), dtype=float)
    n /= np.linalg.norm(n)
    rest, moved = (body_poses(model, np.array([0.0, 0.0, *q]))[1] for q in ((0.0, 0.0), (0.3, 0.2)))
    upper = body_poses(model, np.zeros(4))[0]
    step = upper.E @ (moved.r - rest.r)
    assert np.linalg.norm(step) == pytest.approx(np.hypot(0.3, 0.2), rel=1e-14)
    assert n @ step == pytest.approx(0.0, abs=ATOL)


def test_a_joint_of_six_freedoms_within_the_tree(read):
    model = read(ARM.replace('type="prismatic"', 'type="floating"')).model
    assert model.joint[1] == SixDoF()


def test_mimic_joints_follow_the_end_of_their_chain(read):
    link = ARM[ARM.index('<link name="tool"') : ARM.index('<joint name="shoulder"')]
    more = "".join(
        link.replace('"tool"', f'"finger{k}"')
        + f"""<joint name="f{k}" type="revolute"><parent link="tool"/><child link="finger{k}"/>
        <mimic joint="{source}" multiplier="{ratio}" offset="{offset}"/></joint>"""
        for k, source, ratio, offset in ((1, "f2", 2, 0.5), (2, "elbow", -3, 0.25))
    )
    robot = read(ARM.replace("</robot>", f"{more}</robot>"))
    assert [tuple(c) for c in robot.couplings] == [(2, 1, -6.0, 1.0), (3, 1, -3.0, 0.25)]


def test_a_mimic_of_no_joint_is_left_free_with_a_warning(read):
    text = ARM.replace('<axis xyz="1 1 0"/>', '<axis xyz="1 1 0"/>\n<mimic joint="sholder"/>')
    robot = read(text)
    assert robot.couplings == ()
    assert robot.warnings == (
        f"line {line_of(text, '<mimic')}: joint 'elbow' follows 'sholder', which is no joint that "
        "moves; did you mean 'shoulder'?; it is left free",
    )


UNPHYSICAL = ARM.replace('izz="0.04"', 'izz="0.4"')


def test_an_inertia_as_published_is_used_and_named(read):
    robot = read(UNPHYSICAL)
    assert robot.model.unphysical == ("upper",)
    assert "line 4: the inertia of link 'upper' is not physical" in robot.warnings[0]
    assert np.trace(robot.model.inertia[0].I) > 0.4
    with pytest.raises(FormatError, match=r"urdf:4: the inertia of link 'upper' is not physical"):
        read(UNPHYSICAL, inertia="strict")


def test_a_link_with_moments_and_no_mass_is_used_and_named(read):
    robot = read(ARM.replace('<mass value="2"/>', '<mass value="0"/>'))
    assert robot.model.unphysical == ("upper",)
    assert "it has no mass and the moments" in robot.warnings[0]
    assert robot.model.inertia[0].m == 0.0


def test_a_joint_that_resists_no_force_is_told(read):
    robot = read(
        """<robot name="point"><link name="base"/><link name="end"><inertial>
        <mass value="1"/><inertia ixx="0"/></inertial></link>
        <joint name="hinge" type="continuous"><parent link="base"/><child link="end"/></joint>
        </robot>"""
    )
    assert robot.warnings == ("line 3: joint 'hinge' can move without moving any inertia",)


def test_limits_that_are_upside_down_are_told(read):
    text = ARM.replace('lower="-1" upper="2"', 'lower="2" upper="-1"')
    assert "the limits of joint 'shoulder' are upside down" in read(text).warnings[0]


def test_a_robot_without_a_name_gets_that_of_its_file(read):
    robot = read(ARM.replace(' name="arm"', ""))
    assert robot.model.name == "robot"
    assert robot.warnings == ("line 2: <robot> has no name; it gets the file's, robot",)


def test_names_may_be_in_any_script(read):
    robot = read(ARM.replace("tool", "工具").replace("shoulder", "épaule"))
    assert "工具" in robot.frames
    assert robot.model.joint_names[0] == "épaule"


def test_xacro_is_expanded(tmp_path):
    pytest.importorskip("xacro", reason="xacro is not installed")
    path = tmp_path / "robot.urdf.xacro"
    path.write_text(
        ARM.replace("<robot ", '<robot xmlns:xacro="http://ros.org/wiki/xacro" ')
        .replace('<link name="base"/>', '<xacro:property name="m" value="2"/><link name="base"/>')
        .replace('<mass value="2"/>', '<mass value="${m + 1}"/>')
    )
    assert load_model(path).model.inertia[0].m == 3.0


def test_xacro_without_its_package_is_refused_with_that_word(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "xacro", None)
    path = tmp_path / "robot.xacro"
    path.write_text(ARM)
    with pytest.raises(FormatError, match="this is xacro, which the package xacro turns into URDF"):
        load_model(path)


def test_an_option_that_is_none_is_refused(read):
    with pytest.raises(ValueError, match="inertia must be 'warn' or 'strict', not 'lax'"):
        read(ARM, inertia="lax")


@pytest.mark.parametrize(
    "start",
    [
        '<?xml version="0.0" ?>',
        "\n<?xml version='1.0'?>",
        "<!-- by hand -->\n<?xml\nversion='1.0'?>",
    ],
)
def test_a_declaration_that_xml_does_not_allow_is_passed_over(start, tmp_path):
    lines = start.count("\n")
    path = tmp_path / "robot.urdf"
    path.write_text(f"{start}<robot name='r'>\n<link name='a'/><link name='b'/></robot>")
    with pytest.raises(FormatError, match=f"robot.urdf:{lines + 2}: link 'b' hangs on no joint"):
        load_model(path)
