"""`check` reports all problems of a robot file with their line numbers."""

import json

import pytest

from broken_urdf import BROKEN
from rigidblocks.cli import main
from rigidblocks.robot_description.urdf_lint import problems
from urdf_text import ARM, line_of

# replaced text, new text, message
MISTAKES = {
    "limits reversed": ('lower="-1" upper="2"', 'lower="2" upper="-1"', "reversed"),
    "no rigid body's": ('izz="0.04"', 'izz="0.4"', "inertia of link 'upper' is not physical"),
    "millimetres": (
        'xyz="0 0 0.5"',
        'xyz="0 0 500"',
        "500 m away; this looks like a value in millimetres",
    ),
    "degrees": ('rpy="0.5 0 0"', 'rpy="30 0 0"', "30 rad; this looks like a value in degrees"),
    "disconnected": ('<parent link="lower"/>', '<parent link="lowr"/>', "did you mean 'lower'?"),
    "negative mass": ('<mass value="0.5"/>', '<mass value="-1"/>', "must not be negative"),
    "name": ('<link name="base"/>', '<link name="bäse"/>', "must have only letters"),
    "size": ('size="0.1 0.2 0.3"', 'size="100 200 300"', "a size of 300 m"),
    "effort": ('effort="20"', 'effort="0"', "the effort of joint 'elbow' is 0"),
    "grams": ('<mass value="2"/>', '<mass value="20000"/>', "this looks like a value in grams"),
    "kg mm^2": ('ixx="0.01"', 'ixx="10000"', "look like values in kg mm^2"),
    "in degrees": ('lower="-1"', 'lower="-170"', "27.1 turns; this looks like a value in degrees"),
}
AT = {"no rigid body's": '<link name="upper"', "disconnected": '<joint name="flange"'}


def with_mistakes(*names):
    text = ARM
    for old, new, _ in (MISTAKES[name] for name in names):
        assert text.count(old) == 1
        text = text.replace(old, new)
    return text


@pytest.fixture
def file(tmp_path):
    return tmp_path / "arm.urdf"


def test_check_command_reports_no_problems_for_a_valid_robot(file, capsys):
    file.write_text(ARM)
    assert problems(file) == ()
    assert main(["check", str(file)]) == 0
    assert "no problems found" in capsys.readouterr().out


@pytest.mark.parametrize("name", MISTAKES)
def test_check_command_reports_each_problem_with_its_line_number(name, file):
    text = with_mistakes(name)
    file.write_text(text)
    line = line_of(text, AT.get(name, MISTAKES[name][1]))
    assert [p.line for p in problems(file) if MISTAKES[name][2] in p.text] == [line]


def test_check_command_reports_all_five_problems_of_one_file(file, capsys):
    names = list(MISTAKES)[:5]
    file.write_text(with_mistakes(*names))
    assert main(["check", str(file), "--json"]) == 1
    reported = json.loads(capsys.readouterr().out)["problems"]
    assert len(reported) == 5
    for name in names:
        assert any(MISTAKES[name][2] in problem["text"] for problem in reported)


def test_check_command_reports_a_moving_link_without_mass(file):
    file.write_text(ARM.replace('<mass value="1"/>', '<mass value="0"/>').replace("0.5", "0"))
    assert any("'lower' moves on joint 'elbow' and has no mass" in p.text for p in problems(file))


def test_check_command_reports_a_singular_inertia_matrix_at_the_initial_configuration(file, capsys):
    """At q = 0 the last joint rotates a point mass about its own position."""
    link = """<link name="{0}"><inertial><origin xyz="0 0 {2}"/><mass value="1"/>
      <inertia ixx="{1}" ixy="0" ixz="0" iyy="{1}" iyz="0" izz="{1}"/></inertial></link>"""
    joint = """<joint name="{0}" type="continuous"><parent link="{1}"/><child link="{2}"/>
      <origin xyz="0 0 1"/><axis xyz="{3}"/></joint>"""
    parts = [
        '<link name="base"/><link name="a"/><link name="b"/>',
        link.format("c", 0, 1),
        joint.format("yaw", "base", "a", "0 0 1"),
        joint.format("pitch", "a", "b", "0 1 0"),
        joint.format("roll", "b", "c", "1 0 0"),
    ]
    file.write_text(f'<robot name="neck">{"".join(parts)}</robot>')
    assert main(["check", str(file)]) == 1
    assert "H is singular" in capsys.readouterr().out


@pytest.mark.parametrize("kind", BROKEN)
def test_check_command_reports_each_invalid_file_without_a_traceback(kind, file, capsys):
    file.write_text(BROKEN[kind][0])
    assert main(["check", str(file)]) in (1, 2)
    out, error = capsys.readouterr()
    assert str(file) in out + error
    assert "Traceback" not in error
