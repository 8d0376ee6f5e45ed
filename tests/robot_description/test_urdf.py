"""Models compared with the values of their URDF files.

Copied values are equal. The tolerance of rotated transforms and inertias is the rounding error of
a few products of values of about 1.
"""

import re

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from rigidblocks.block.block import Record
from rigidblocks.common.format_error import FormatError
from rigidblocks.dynamics.kinematics import body_poses
from rigidblocks.library.plant_from_file import described_plant
from rigidblocks.robot.joints import Planar, Prismatic, Revolute, SixDoF
from rigidblocks.robot.shapes import Box, Capsule, Sphere
from rigidblocks.robot_description.load import load_model
from rigidblocks.spatial.spatial import mcI, rx, ry, rz
from urdf_text import ARM, line_of

ATOL = 1e-15


@pytest.fixture
def read(tmp_path):
    def read_text(text, **options):
        path = tmp_path / "robot.urdf"
        path.write_text(text, encoding="utf-8")
        return load_model(path, **options)

    return read_text


def test_urdf_joints_names_and_parents_are_read(read):
    model = read(ARM).model
    assert model.name == "arm"
    assert model.joint_names == ("shoulder", "elbow")
    assert model.body_names == ("upper", "lower")
    assert model.parent == (-1, 0)
    assert model.joint == (Revolute((0.0, 1.0, 0.0)), Prismatic((1.0, 1.0, 0.0)))
    assert_array_equal(model.gravity, (0.0, 0.0, -9.81))


def test_urdf_rotation_by_90_degrees_is_exact(read):
    X = read(ARM).model.Xtree[0]
    assert_array_equal(X.E, [[0.0, 0.0, -1.0], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0]])
    assert_array_equal(X.r, [0.0, 0.0, 1.0])


def test_urdf_inertia_is_rotated_to_the_link_frame(read):
    E = rx(0.1) @ ry(0.2) @ rz(0.3)
    I = np.array([[0.02, 0.001, 0.0], [0.001, 0.03, 0.0], [0.0, 0.0, 0.04]])
    expected = mcI(2.0, [0.1, 0.0, 0.2], E.T @ I @ E)
    assert_allclose(read(ARM).model.inertia[0].matrix(), expected.matrix(), atol=ATOL)


def test_link_on_a_fixed_joint_is_merged_and_becomes_a_frame(read):
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


def test_urdf_joint_properties_are_read_per_degree_of_freedom(read):
    freedoms = read(ARM).joint_properties
    assert_array_equal(freedoms.lower, [-1.0, 0.0])
    assert_array_equal(freedoms.upper, [2.0, 1.0])
    assert_array_equal(freedoms.effort, [10.0, 20.0])
    assert_array_equal(freedoms.velocity, [3.0, 1.0])
    assert_array_equal(freedoms.damping, [0.5, 0.0])
    assert_array_equal(freedoms.friction, [0.25, 0.0])
    assert_array_equal(freedoms.armature, [0.0, 0.0])


def test_springs_and_gravity_flags_of_gazebo_extensions_in_urdf_are_read(read):
    extension = """<gazebo reference="{}"><springStiffness>7</springStiffness>
        <springReference value="0.25"/></gazebo><gazebo reference="upper"><{}</gazebo>"""
    for switch in ("turnGravityOff>true</turnGravityOff>", "gravity>0</gravity>"):
        text = extension.format("shoulder", switch)
        robot = read(ARM.replace("</robot>", f"{text}</robot>"))
        assert not robot.warnings
        assert_array_equal(robot.joint_properties.stiffness, [7.0, 0.0])
        assert_array_equal(robot.joint_properties.rest, [0.25, 0.0])
        (mass,) = robot.weightless
        assert mass[:3] == ("upper", 0, 2.0)
        assert_allclose(mass.centre, [0.1, 0.0, 0.2], atol=ATOL)
    text = extension.format("base", "turnGravityOff>false</turnGravityOff>")
    robot = read(ARM.replace("</robot>", f"{text}</robot>"))
    assert not robot.weightless
    assert "<springStiffness> is ignored: its reference is not a joint" in robot.warnings[0]
    for old, new in (("true", "maybe"), (">7<", ">-7<")):
        text = extension.format("shoulder", "turnGravityOff>true</turnGravityOff>")
        with pytest.raises(FormatError, match=r"must be true or false|must not be negative"):
            read(ARM.replace("</robot>", f"{text.replace(old, new)}</robot>"))


def test_rotor_inertias_of_drake_actuators_in_urdf_are_reflected_to_the_joints(read):
    text = """<transmission name="t" xmlns:drake="http://drake.mit.edu"><joint name="elbow"/>
        <actuator name="m"><drake:rotor_inertia value="1e-4"/>{}</actuator></transmission>"""
    for gear, ratio in (("<drake:gear_ratio value='50'/>", 50.0), ("", 1.0)):
        robot = read(ARM.replace("</robot>", f"{text.format(gear)}</robot>"))
        assert not robot.warnings
        assert_allclose(robot.joint_properties.armature, [0.0, 1e-4 * ratio**2])
    undeclared = text.format("").replace(' xmlns:drake="http://drake.mit.edu"', "")
    robot = read(ARM.replace("</robot>", f"{undeclared}</robot>"))
    assert_allclose(robot.joint_properties.armature, [0.0, 1e-4])
    rotor, transmission = read(
        ARM.replace("</robot>", f"{text.format('').replace('elbow', 'elbo')}</robot>")
    ).warnings
    assert "the rotor is ignored: its joint does not exist" in rotor
    assert "the transmission is ignored: joint 'elbo' is missing" in transmission
    with pytest.raises(FormatError, match="it must not be negative"):
        read(ARM.replace("</robot>", f"{text.format('').replace('1e-4', '-1')}</robot>"))


INERTIAL = """<inertial><origin xyz="{} 0 0"/><mass value="2"/><inertia ixx="0.03" iyy="0.03"
    izz="0.03" ixy="0" ixz="0" iyz="0"/></inertial>"""
FOUR_BAR = f"""<robot name="r" xmlns:drake="http://drake.mit.edu"><link name="base"/>
    <link name="a">{INERTIAL.format(0.1)}</link><link name="b">{INERTIAL.format(0.1)}</link>
    <link name="c">{INERTIAL.format(0.1)}</link>
    <joint name="ja" type="continuous"><parent link="base"/><child link="a"/><axis xyz="0 0 1"/>
    </joint><joint name="jb" type="continuous"><parent link="a"/><child link="b"/>
    <origin xyz="0 1 0"/><axis xyz="0 0 1"/></joint><joint name="jc" type="continuous">
    <parent link="base"/><child link="c"/><origin xyz="1 0 0"/><axis xyz="0 0 1"/></joint>
    {{}}</robot>"""
CLOSING = {
    "gazebo": """<gazebo><joint name="jd" type="revolute"><parent>b</parent><child>c</child>
        <pose>0 1 0 0 0 0</pose><axis><xyz>0 0 1</xyz></axis></joint></gazebo>""",
    "drake": """<drake:ball_constraint><drake:ball_constraint_body_A name="b"/>
        <drake:ball_constraint_p_AP value="1 0 0"/><drake:ball_constraint_body_B name="c"/>
        <drake:ball_constraint_p_BQ value="0 1 0"/></drake:ball_constraint>""",
}


@pytest.mark.parametrize("kind", CLOSING)
def test_loops_and_springs_of_urdf_extensions_take_effect_in_a_parallelogram(read, kind):
    """The crank angle x of a parallelogram has the inertia 2 I + m l^2.

    A spring from the end of the crank to a fixed point at the distance 1 m has the length
    s = sqrt(2 - 2 sin(x)) and the force -K (s - rest) - D sd.
    """
    K, D, rest = 30.0, 2.0, 0.5
    spring = f"""<drake:linear_spring_damper>
        <drake:linear_spring_damper_body_A name="a"/>
        <drake:linear_spring_damper_p_AP value="0 1 0"/>
        <drake:linear_spring_damper_body_B name="world"/>
        <drake:linear_spring_damper_p_BQ value="-1 0 0"/>
        <drake:linear_spring_damper_stiffness value="{K}"/>
        <drake:linear_spring_damper_damping value="{D}"/>
        <drake:linear_spring_damper_free_length value="{rest}"/></drake:linear_spring_damper>"""
    robot = read(FOUR_BAR.format(CLOSING[kind] + spring))
    assert not [said for said in robot.warnings if "not read" in said]
    assert len(robot.model.loops) == 1
    plant = described_plant(robot, joint_friction=True)
    p = Record({port.name: port.start for port in plant.parameters})
    for x, xd in ((0.0, 0.0), (0.4, -2.0), (-0.7, 3.0)):
        signs = np.array([{"ja": 1, "jb": -1, "jc": 1}[n] for n in robot.model.joint_names])
        state = Record({"q": signs * x, "qd": signs * xd})
        u = Record({"tau": np.zeros(3)})
        s = np.sqrt(2.0 - 2.0 * np.sin(x))
        slope = -np.cos(x) / s
        force = -(K * (s - rest) + D * slope * xd) * slope
        qdd = plant.derivative(0.0, state, u, p)["qd"]
        assert_allclose(qdd, signs * force / (2 * 0.05 + 2.0), rtol=1e-9)


# stiffness [N m/rad], rest [rad] and damping [N m s/rad] of a loop joint
LAW = (20.0, 0.3, 1.5)
DYNAMICS = """<dynamics><spring_stiffness>{}</spring_stiffness>
    <spring_reference>{}</spring_reference><damping>{}</damping></dynamics>""".format(*LAW)
RATIOS = {"ja": 1, "jb": -1, "jc": 1, "jd": 1}  # joint velocities per crank velocity


def crank_acceleration(robot, x, xd, ratios=RATIOS, **inputs):
    """Return the acceleration of the crank of a parallelogram [rad/s^2], from each joint."""
    plant = described_plant(robot, actuators=bool(robot.actuators), joint_friction=True)
    p = Record({port.name: port.start for port in plant.parameters})
    signs = np.array([ratios[name] for name in robot.model.joint_names])
    u = Record({port.name: inputs.get(port.name, port.start) for port in plant.inputs})
    qdd = plant.derivative(0.0, Record({"q": signs * x, "qd": signs * xd}), u, p)["qd"]
    return qdd / signs


@pytest.mark.parametrize(("x", "xd"), [(0.0, 0.0), (0.4, -2.0), (-0.7, 3.0)])
def test_spring_of_a_loop_joint_in_a_gazebo_extension_accelerates_a_parallelogram(read, x, xd):
    """The coupler does not turn, so the angle of its joint with a crank is the crank angle x."""
    K, rest, D = LAW
    robot = read(FOUR_BAR.format(CLOSING["gazebo"].replace("</xyz>", f"</xyz>{DYNAMICS}")))
    found = crank_acceleration(robot, x, xd)
    assert_allclose(found, -(K * (x - rest) + D * xd) / (2 * 0.05 + 2.0), rtol=1e-9)


@pytest.mark.parametrize(("parent", "child"), [("world", "c"), ("base", "c"), ("c", "world")])
def test_loop_joint_with_a_spring_can_connect_a_link_to_the_world(read, parent, child):
    K, rest, D = LAW
    x, xd = 0.4, -2.0
    place, ratio = ("0 -1 0 0 0 0", 1) if child == "c" else ("1 0 0 0 0 0", -1)
    text = FOUR_BAR.format(
        f"""<gazebo><joint name="jc" type="revolute"><parent>{parent}</parent><child>{child}</child>
        <pose>{place}</pose><axis><xyz>0 0 1</xyz>{DYNAMICS}</axis></joint></gazebo>"""
    )
    above, _, below = text.partition(f'<link name="c">{INERTIAL.format(0.1)}</link>')
    crank = f'<link name="c">{INERTIAL.format(0.1).replace("0.1 0 0", "0.1 -1 0")}</link>'
    joint = '<joint name="jd" type="continuous"><parent link="b"/>'
    below = below.replace('<joint name="jc" type="continuous">\n    <parent link="base"/>', joint)
    robot = read(above + crank + below)
    found = crank_acceleration(robot, x, xd, {**RATIOS, "jc": ratio})
    force = -(K * (x - ratio * rest) + D * xd)
    assert_allclose(found, force / (2 * 0.05 + 2.0), rtol=1e-9)


def test_transmission_at_a_loop_joint_of_a_gazebo_extension_drives_the_mechanism(read):
    transmission = """<transmission name="t"><type>SimpleTransmission</type><joint name="jd"/>
        <actuator name="m"><mechanicalReduction>3</mechanicalReduction></actuator></transmission>"""
    robot = read(FOUR_BAR.format(CLOSING["gazebo"] + transmission))
    found = crank_acceleration(robot, 0.4, -2.0, m_command=0.7)
    assert_allclose(found, 3 * 0.7 / (2 * 0.05 + 2.0), rtol=1e-9)


@pytest.mark.parametrize(
    "extension",
    [
        CLOSING["gazebo"],
        CLOSING["drake"],
        """<gazebo reference="a"><sensor name="s" type="imu"><pose>0 0 0 0 0 0</pose></sensor>
        </gazebo>""",
    ],
)
def test_cycle_of_urdf_joints_is_reported_also_if_an_extension_uses_its_links(read, extension):
    above, below = FOUR_BAR.format(extension).split('<parent link="base"/><child link="a"/>')
    with pytest.raises(FormatError, match="the joints 'ja', 'jb' form a cycle"):
        read(f'{above}<parent link="b"/><child link="a"/>{below}')


def test_incomplete_loops_and_springs_of_urdf_extensions_are_rejected(read):
    ball = CLOSING["drake"]
    for text, said in (
        (ball.replace('name="c"', 'name="d"'), "child 'd' of joint 'b_d_ball' is not a link"),
        (ball.replace("p_BQ", "p_BB"), "<ball_constraint> needs a <drake:ball_constraint_p_BQ>"),
        (CLOSING["gazebo"].replace("<child>c", "<child>d"), "'d' is neither a link nor a frame"),
        (CLOSING["gazebo"].replace("<child>c</child>", ""), "<joint> needs a <child>"),
    ):
        with pytest.raises(FormatError, match=re.escape(said)):
            read(FOUR_BAR.format(text))


def test_urdf_collision_shapes_are_assigned_to_the_bodies_of_their_links(read):
    model = read(ARM).model
    assert model.appearance[0] == model.contact[0] == ()
    (box,), (sphere,) = model.appearance[1], model.contact[1]
    assert isinstance(box, Box)
    assert_array_equal(box.sides, [0.1, 0.2, 0.3])
    assert isinstance(sphere, Sphere)
    assert_array_equal(sphere.centre, [0.0, 0.0, 0.1])


def test_urdf_capsule_is_read_as_a_capsule(read):
    solid = "<collision><geometry><capsule radius='0.1' length='0.4'/></geometry></collision>"
    robot = read(ARM.replace('<link name="tool">', f'<link name="tool">{solid}'))
    (capsule,) = [shape for shape in robot.model.contact[1] if isinstance(shape, Capsule)]
    assert (capsule.radius, capsule.height) == (0.1, 0.4)


def test_merging_of_links_does_not_change_the_poses_of_their_shapes(read):
    ball = "<visual><geometry><sphere radius='1'/></geometry></visual>"
    robot = read(
        ARM.replace('<link name="tool">', f'<link name="tool">{ball}').replace(
            '<link name="base"/>', f'<link name="base">{ball}</link>'
        )
    )
    assert_allclose(robot.model.appearance[1][1].centre, [0.0, 0.0, 0.25], atol=ATOL)
    assert len(robot.base_appearance) == 1


def test_floating_option_adds_a_six_dof_joint_between_base_and_root_link(read):
    inertial = "<inertial><mass value='3'/><inertia ixx='1' iyy='1' izz='1'/></inertial>"
    text = ARM.replace('<link name="base"/>', f'<link name="base">{inertial}</link>')
    fixed, robot = read(text).model, read(text, floating=True)
    assert robot.model.joint == (SixDoF(), *fixed.joint)
    assert robot.model.joint_names == ("root_joint", *fixed.joint_names)
    assert robot.model.body_names == ("base", *fixed.body_names)
    assert robot.model.inertia[0].m == 3.0
    assert robot.joint_properties.lower.shape == (8,)


@pytest.mark.parametrize("normal", ["0 0 1", "1 0 0", "0 0 -1", "1 2 3"])
def test_urdf_planar_joint_moves_in_the_plane_normal_to_its_axis(read, normal):
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


def test_urdf_floating_joint_is_read_as_a_six_dof_joint(read):
    model = read(ARM.replace('type="prismatic"', 'type="floating"')).model
    assert model.joint[1] == SixDoF()


def test_chained_urdf_mimic_joints_are_coupled_to_the_last_joint_of_the_chain(read):
    link = ARM[ARM.index('<link name="tool"') : ARM.index('<joint name="shoulder"')]
    more = "".join(
        link.replace('"tool"', f'"finger{k}"')
        + f"""<joint name="f{k}" type="revolute"><parent link="tool"/><child link="finger{k}"/>
        <mimic joint="{source}" multiplier="{ratio}" offset="{offset}"/></joint>"""
        for k, source, ratio, offset in ((1, "f2", 2, 0.5), (2, "elbow", -3, 0.25))
    )
    robot = read(ARM.replace("</robot>", f"{more}</robot>"))
    assert [tuple(c) for c in robot.couplings] == [(2, 1, -6.0, 1.0, ()), (3, 1, -3.0, 0.25, ())]


def test_urdf_mimic_element_of_an_unknown_joint_is_ignored_with_a_warning(read):
    text = ARM.replace('<axis xyz="1 1 0"/>', '<axis xyz="1 1 0"/>\n<mimic joint="sholder"/>')
    robot = read(text)
    assert robot.couplings == ()
    assert robot.warnings == (
        f"line {line_of(text, '<mimic')}: joint 'elbow' follows 'sholder', which is not a "
        "movable joint; did you mean 'shoulder'?; its mimic constraint is ignored",
    )


UNPHYSICAL = ARM.replace('izz="0.04"', 'izz="0.4"')


def test_unphysical_urdf_inertia_is_used_with_a_warning(read):
    robot = read(UNPHYSICAL)
    assert robot.model.unphysical == ("upper",)
    assert "line 4: the inertia of link 'upper' is not physical" in robot.warnings[0]
    assert np.trace(robot.model.inertia[0].I) > 0.4
    with pytest.raises(FormatError, match=r"urdf:4: the inertia of link 'upper' is not physical"):
        read(UNPHYSICAL, inertia="strict")


def test_urdf_link_with_moments_but_no_mass_is_used_with_a_warning(read):
    robot = read(ARM.replace('<mass value="2"/>', '<mass value="0"/>'))
    assert robot.model.unphysical == ("upper",)
    assert "it has no mass and the moments" in robot.warnings[0]
    assert robot.model.inertia[0].m == 0.0


def test_urdf_joint_that_moves_no_inertia_gives_a_warning(read):
    robot = read(
        """<robot name="point"><link name="base"/><link name="end"><inertial>
        <mass value="1"/><inertia ixx="0"/></inertial></link>
        <joint name="hinge" type="continuous"><parent link="base"/><child link="end"/></joint>
        </robot>"""
    )
    assert robot.warnings == ("line 3: joint 'hinge' can move without moving any inertia",)


def test_reversed_urdf_joint_limits_give_a_warning(read):
    text = ARM.replace('lower="-1" upper="2"', 'lower="2" upper="-1"')
    assert "the limits of joint 'shoulder' are reversed" in read(text).warnings[0]


def test_urdf_robot_without_a_name_has_the_name_of_its_file(read):
    robot = read(ARM.replace(' name="arm"', ""))
    assert robot.model.name == "robot"
    assert robot.warnings == ("line 2: <robot> has no name; the file name robot is used",)


def test_urdf_names_with_non_latin_characters_are_read(read):
    robot = read(ARM.replace("tool", "工具").replace("shoulder", "épaule"))
    assert "工具" in robot.frames
    assert robot.model.joint_names[0] == "épaule"


def test_xacro_file_is_expanded_to_urdf(tmp_path):
    pytest.importorskip("xacro", reason="xacro is not installed")
    path = tmp_path / "robot.urdf.xacro"
    path.write_text(
        ARM.replace("<robot ", '<robot xmlns:xacro="http://ros.org/wiki/xacro" ')
        .replace('<link name="base"/>', '<xacro:property name="m" value="2"/><link name="base"/>')
        .replace('<mass value="2"/>', '<mass value="${m + 1}"/>')
    )
    assert load_model(path).model.inertia[0].m == 3.0


def test_xacro_without_the_xacro_package_is_rejected(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "xacro", None)
    path = tmp_path / "robot.xacro"
    path.write_text(ARM)
    with pytest.raises(FormatError, match="a xacro file needs the package xacro"):
        load_model(path)


def test_unknown_value_of_the_inertia_option_is_rejected(read):
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
def test_invalid_xml_declaration_of_a_urdf_file_is_ignored(start, tmp_path):
    lines = start.count("\n")
    path = tmp_path / "robot.urdf"
    path.write_text(f"{start}<robot name='r'>\n<link name='a'/><link name='b'/></robot>")
    with pytest.raises(FormatError, match=f"robot.urdf:{lines + 2}: link 'b' has no parent joint"):
        load_model(path)


def test_urdf_robot_starts_at_the_initial_values_of_ros2_control(tmp_path):
    state = "<state_interface name='{}'><param name='initial_value'>{}</param></state_interface>"
    links = "".join(
        f"<link name='{name}'><inertial><mass value='1'/><inertia ixx='1' iyy='1' izz='1' ixy='0' "
        "ixz='0' iyz='0'/></inertial></link>"
        for name in ("base", "a", "b", "c")
    )
    joints = "".join(
        f"<joint name='{name}' type='continuous'><parent link='{parent}'/><child link='{child}'/>"
        f"{mimic}</joint>"
        for name, parent, child, mimic in (
            ("j", "base", "a", ""),
            ("k", "a", "b", "<mimic joint='j' multiplier='2' offset='0.5'/>"),
            ("l", "b", "c", ""),
        )
    )
    control = (
        f"<ros2_control name='r' type='system'><joint name='j'>{state.format('position', 0.25)}"
    )
    path = tmp_path / "robot.urdf"
    path.write_text(f"<robot name='r'>{links}{joints}{control}</joint></ros2_control></robot>")
    robot = load_model(path)
    assert robot.q0.tolist() == [0.25, 1.0, 0.0]  # the mimic joint follows: 2 * 0.25 + 0.5
    assert robot.warnings == ()
    path.write_text(path.read_text().replace("0.25", "a quarter"))
    with pytest.raises(FormatError, match="initial_value"):
        load_model(path)


def test_initial_joint_position_of_gazebo_is_reported(tmp_path):
    extension = "<gazebo reference='a'><initial_joint_position>{}</initial_joint_position></gazebo>"
    path = tmp_path / "robot.urdf"
    link = (
        "<link name='a'><inertial><mass value='1'/><inertia ixx='1' iyy='1' izz='1' ixy='0' "
        "ixz='0' iyz='0'/></inertial></link>"
    )
    for value, count in (("0", 0), ("-1.0", 1)):
        path.write_text(f"<robot name='r'>{link}{extension.format(value)}</robot>")
        warnings = load_model(path, floating=True).warnings
        assert sum("the joint starts at 0" in text for text in warnings) == count
