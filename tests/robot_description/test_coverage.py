"""Each element and attribute of URDF and SDF is read, rejected or reported in a warning."""

import re
from pathlib import Path

import numpy as np
import pytest
from lxml import etree
from numpy.testing import assert_allclose

from rigidblocks.cli import main
from rigidblocks.common.format_error import FormatError
from rigidblocks.common.xml_reader import parse_xml
from rigidblocks.dynamics import rnea
from rigidblocks.robot_description.load import load_model
from rigidblocks.robot_description.schema_coverage import (
    MJCF,
    SDF,
    URDF,
    ReadElement,
    ReportedElement,
    unread_elements,
)
from rigidblocks.robot_description.urdf_lint import problems
from rigidblocks.spatial.rigid_motion import roll_pitch_yaw, rotation
from rigidblocks.spatial.spatial import rx

ARM = """<robot name="arm">
 <link name="base"/>
 <link name="a"><inertial><origin xyz="0.2 0 0"/><mass value="1"/>
  <inertia ixx="0.01" iyy="0.02" izz="0.02" ixy="0" ixz="0" iyz="0"/></inertial></link>
 <joint name="j" type="revolute"><origin xyz="0 0 1"/><parent link="base"/><child link="a"/>
  <axis xyz="0 1 0"/><limit lower="-3" upper="3" effort="1" velocity="1"/>
  <dynamics damping="1"/></joint>
</robot>"""
SDF_ARM = """<sdf version="1.11"><world name="w"><model name="arm">
 <link name="a"><pose>0.5 0 0 0 0 0</pose><inertial><mass>2</mass>
  <inertia><ixx>0.1</ixx><iyy>0.17</iyy><izz>0.17</izz></inertia></inertial>
  <collision name="c"><geometry><sphere><radius>0.1</radius></sphere></geometry></collision></link>
 <joint name="j" type="revolute"><pose>-0.5 0 0 0 0 0</pose><parent>world</parent>
  <child>a</child><axis><xyz>0 1 0</xyz></axis></joint>
</model></world></sdf>"""
FORMATS = {"robot": (ARM, URDF), "sdf": (SDF_ARM, SDF)}


def places(table, root):
    """Yield each name of a table with the path of its parent elements from the root."""
    waiting = [((root,), root)]
    while waiting:
        path, inside = waiting.pop()
        for name, rule in table.get(inside, {}).items():
            if (*path, name) == ("sdf", "model"):
                continue  # skip models in a world
            yield path, name, rule
            if isinstance(rule, ReadElement) and len(path) < 12 and name not in path:
                waiting.append(((*path, name), rule.inside or name))


def qualified(tag):
    """Return a tag such as drake:joint with its namespace, and the namespaces by prefix."""
    prefix, _, local = tag.rpartition(":")
    return (f"{{http://{prefix}}}{local}", {prefix: f"http://{prefix}"}) if prefix else (tag, {})


def with_part(text, path, name, value):
    """Add an element or attribute at the path to the text; create missing elements of the path."""
    root = etree.fromstring(text.encode())
    element = root
    for tag in path[1:]:
        full, names = qualified(tag)
        inner = element.find(full)
        element = inner if inner is not None else etree.SubElement(element, full, nsmap=names)
    if name.startswith("@"):
        element.set(name[1:], value)
    else:
        full, names = qualified(name)
        etree.SubElement(element, full, nsmap=names).text = value
    return etree.tostring(root).decode()


def outcome(tmp_path, text):
    """Return the warnings of a robot, or a list with the error."""
    path = tmp_path / "robot.xml"
    path.write_text(text)
    try:
        return list(load_model(path).warnings)
    except FormatError as refusal:
        return [str(refusal)]


@pytest.mark.parametrize("root", FORMATS)
def test_robot_file_with_only_supported_elements_gives_no_warning(root, tmp_path):
    assert outcome(tmp_path, FORMATS[root][0]) == []


def are_named(messages_found, *words):
    """Return True if one of the warnings contains all words and a line number."""
    return any(
        re.match(r"line \d+: ", one) and all(word in one for word in words)
        for one in messages_found
    )


@pytest.mark.parametrize("root", FORMATS)
def test_each_ignored_xml_element_is_reported_with_its_line_number(root, tmp_path):
    text, table = FORMATS[root]
    reported = [
        place
        for place in places(table, root)
        if isinstance(place[-1], ReportedElement) and place[0][:3] != ("robot", "gazebo", "joint")
    ]  # the SDF table contains the rules of the joints of Gazebo extensions
    assert len(reported) > 20
    for path, name, rule in reported:
        value = next(v for v in ("false", "true", "7") if not rule.harmless(v))
        messages_found = outcome(tmp_path, with_part(text, path, name, value))
        word = name.lstrip("@")
        assert are_named(messages_found, word, f"<{path[-1]}>", rule.effect), (
            path,
            name,
            messages_found,
        )


@pytest.mark.parametrize("root", FORMATS)
def test_ignored_elements_with_default_values_give_no_warning(root, tmp_path):
    text, table = FORMATS[root]
    for path, name, rule in places(table, root):
        values = ("0", "1", "false", "true", "SimpleTransmission")
        if isinstance(rule, ReportedElement) and any(map(rule.harmless, values)):
            value = next(v for v in values if rule.harmless(v))
            messages_found = outcome(tmp_path, with_part(text, path, name, value))
            assert not any(rule.effect in one for one in messages_found), (
                path,
                name,
                messages_found,
            )


@pytest.mark.parametrize("root", FORMATS)
def test_unknown_xml_elements_and_attributes_are_reported_at_each_level(root):
    text, table = FORMATS[root]
    around = {
        (*path, name)
        for path, name, rule in places(table, root)
        if isinstance(rule, ReadElement) and (rule.inside or name) in table
    }
    for path in {(root,), *around}:
        for name in ("strange", "@odd", "x:strange"):
            tree = parse_xml(with_part(text, path, name, "1").encode(), Path("robot.xml"))
            messages_found = list(unread_elements(tree, table))
            assert are_named(messages_found, name.lstrip("@"), "it is unknown"), (
                path,
                name,
                messages_found,
            )


def test_equal_ignored_elements_give_one_warning_with_all_line_numbers(tmp_path):
    parts = "".join(f'\n<gazebo reference="a"><mu{k}>1</mu{k}></gazebo>' for k in (1, 2, 1, 1))
    messages_found = outcome(tmp_path, ARM.replace("</robot>", f"{parts}</robot>"))
    assert messages_found == [
        "line 9: <mu1> of <gazebo> 'a' is not read: contact has the material of the plant "
        "(also in line 11, 12)",
        "line 10: <mu2> of <gazebo> 'a' is not read: contact has the material of the plant",
    ]


def test_check_command_reports_ignored_elements(tmp_path, capsys):
    path = tmp_path / "arm.sdf"
    path.write_text(SDF_ARM.replace("<pose>0.5", "<kinematic>true</kinematic><pose>0.5"))
    assert main(["check", str(path)]) == 1
    said = f"{path}:2: <kinematic> of <link> 'a' is not read: forces move the link"
    assert said in capsys.readouterr().out


def test_reference_page_lists_each_element_of_the_reader_tables(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "docs")
    from reference_pages import robot_file_elements

    rows = {}
    for part in robot_file_elements().split("## ")[1:]:
        name, _, text = part.partition("\n")
        rows[name] = {row.split(" | ")[0].strip("| "): row for row in text.splitlines()}
    for name, table in (("URDF", URDF), ("SDF", SDF), ("MJCF", MJCF)):
        for kind, rules in table.items():
            for key, rule in rules.items():
                assert f"`{key}`" in rows[name][kind]
                assert getattr(rule, "effect", "") in rows[name][kind]


# ---- versions and namespaces of URDF ----

QUATERNION = ARM.replace('"arm">', '"arm" version="1.1">').replace(
    'xyz="0 0 1"', 'xyz="0 0 1" quat_xyzw="2 0 0 2"'
)


def test_urdf_1_1_quaternions_rotate_joint_frames(tmp_path):
    path = tmp_path / "arm.urdf"
    path.write_text(QUATERNION)
    robot = load_model(path)
    assert not robot.warnings
    assert problems(path) == ()
    assert_allclose(robot.model.Xtree[0].E, rx(np.pi / 2), atol=1e-15)
    assert_allclose(rnea(robot.model, [0.0], [0.0], [0.0]), 0.0, atol=1e-14)


@pytest.mark.parametrize("version", ["", 'version="1.0"', 'version="one"'])
def test_urdf_1_0_quaternions_are_ignored_with_a_warning(tmp_path, version):
    messages_found = outcome(tmp_path, QUATERNION.replace('version="1.1"', version))
    assert messages_found == ['line 5: quat_xyzw is ignored: it needs <robot version="1.1">']


def test_urdf_version_above_1_1_gives_a_warning(tmp_path):
    messages_found = outcome(tmp_path, QUATERNION.replace("1.1", "2.3"))
    assert messages_found == ["line 1: URDF 2.3 is read as 1.1; newer elements are unknown"]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("2 0 0 2", "0 0 0 0", "the quaternion of an <origin> must not be zero"),
        ("2 0 0 2", "1 0 0", "must be 4 finite numbers"),
        ("quat_xyzw", 'rpy="0 0 0" quat_xyzw', "has both rpy and quat_xyzw"),
    ],
)
def test_invalid_quaternion_is_rejected_with_its_line_number(tmp_path, old, new, said):
    (messages_found,) = outcome(tmp_path, QUATERNION.replace(old, new))
    assert "robot.xml:5: " in messages_found
    assert said in messages_found


def test_roll_pitch_yaw_angles_reproduce_the_rotation_at_any_pitch_angle(rng):
    quarter = np.pi / 2 * rng.integers(-2, 3, size=(200, 3))
    small = 10.0 ** -rng.uniform(1, 17, size=(200, 1)) * rng.normal(size=(200, 3))
    for rpy in np.vstack([quarter, quarter + small, rng.uniform(-9, 9, size=(200, 3))]):
        E = rotation(rpy)
        assert_allclose(rotation(roll_pitch_yaw(E)), E, atol=2e-15)


def test_default_xml_namespace_of_a_robot_file_is_ignored_with_a_warning(tmp_path):
    space = 'xmlns="http://www.ros.org" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"'
    text = ARM.replace("<robot ", f'<robot {space} xsi:schemaLocation="a b" ')
    messages_found = outcome(tmp_path, text)
    assert messages_found == [
        "line 1: <robot> has the default namespace 'http://www.ros.org', which is ignored"
    ]
    messages_found = outcome(
        tmp_path, SDF_ARM.replace("<sdf ", '<sdf xmlns="http://sdformat.org" ')
    )
    assert "has the default namespace 'http://sdformat.org'" in messages_found[0]


def test_elements_with_undeclared_namespace_prefix_are_reported(tmp_path):
    messages_found = outcome(
        tmp_path, ARM.replace("<dynamics", "\n<drake:rotor value='1'/><dynamics")
    )
    assert messages_found == ["line 8: <drake:rotor> of <joint> 'j' is not read: it is unknown"]
    (messages_found,) = outcome(tmp_path, ARM.replace("<dynamics", "<drake:rotor><dynamics"))
    assert "is not well-formed XML" in messages_found


# ---- values in other units, in all formats ----

SUSPECT = {
    "degrees": (ARM, '"-3"', '"-170"', "27.1 turns; this looks like a value in degrees"),
    "millimetres": (ARM, '"0 0 1"', '"0 0 1000"', "1000 m away; this looks like"),
    "effort": (ARM, 'effort="1"', 'effort="-1"', "'j' is -1: the joint cannot move"),
    "grams": (ARM, '<mass value="1"/>', '<mass value="20000"/>', "looks like a value in grams"),
    "kg mm^2": (ARM, 'iyy="0.02" izz="0.02"', 'iyy="9e4" izz="9e4"', "look like values in"),
    "reversed": (ARM, 'lower="-3"', 'lower="4"', "reversed"),
    "degrees of SDF": (
        SDF_ARM, "</xyz>", "</xyz><limit><lower>-170</lower></limit>", "looks like a value in",
    ),
    "grams of SDF": (SDF_ARM, "<mass>2", "<mass>20000", "looks like a value in grams"),
    "kg mm^2 of SDF": (
        SDF_ARM, "<iyy>0.17</iyy><izz>0.17", "<iyy>9e4</iyy><izz>9e4", "look like values in",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SUSPECT)
def test_load_model_reports_values_that_seem_to_have_wrong_units(name, tmp_path):
    text, old, new, said = SUSPECT[name]
    assert text.count(old) == 1
    assert any(said in one for one in outcome(tmp_path, text.replace(old, new)))
