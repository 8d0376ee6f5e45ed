"""Each element and attribute that the table of a format marks as read changes the robot.

The files of `schema_files` contain every read name. A variant of a file lacks one element or
attribute, or has another value. The robot of at least one variant differs, or the reader rejects
the value with a message that quotes it.
"""

import numpy as np
import pytest
from lxml import etree

from rigidblocks.common.format_error import FormatError
from rigidblocks.dynamics import crba, rnea
from rigidblocks.robot.configuration import random_configuration
from rigidblocks.robot_description.load import load_model
from rigidblocks.robot_description.schema_coverage import SDF, URDF, IgnoredElement
from robots_of_peers import pinocchio_state
from schema_files import FORCE, SDF_FILES, URDF_FILES
from schema_walk import content, read_names, read_places, variants, with_part

FORMATS = {"robot": (URDF, URDF_FILES), "sdf": (SDF, SDF_FILES)}
VALUES = {  # values of words and references; the default is `schema_walk.changed`
    ("parent", "@link"): ("c", "unknown"),
    ("joint", "@type"): ("prismatic", "fixed"),
    ("SDF joint", "@type"): ("revolute", "ball"),
    ("sensor", "@type"): ("gps",),
    ("SDF sensor", "@type"): ("gps",),
    ("noise", "@type"): ("none",),
    ("SDF noise", "@type"): ("none",),
    ("noise", "type"): ("none",),
    ("SDF noise", "type"): ("none",),
    ("mimic", "@axis"): ("axis2",),
    ("SDF mimic", "@axis"): ("axis2",),
}


def robot_of(path, text):
    """Return the content of the robot in an XML text, or the error message as a string."""
    path.write_text(text)
    try:
        return content(load_model(path))
    except FormatError as error:
        return str(error).removeprefix(str(path))


def has_effect(path, base, place):
    """Return True if a variant of the element or attribute changes the robot or is rejected."""
    key, name, element = place
    is_container = not name.startswith("@") and not (element.text or "").strip()
    root = element.getroottree().getroot()
    for change, text in variants(root, name, element, VALUES.get((key, name), ())):
        robot = robot_of(path, text)
        if not isinstance(robot, str):
            if robot != base:
                return True
        elif is_container or (change != "removed" and change in robot):
            return True
        elif name == "@name" and change != "removed" and f"'{element.get('name')}'" in robot:
            return True  # other elements refer to the old name
    return False


@pytest.mark.slow
@pytest.mark.parametrize("root", FORMATS)
def test_each_read_name_of_the_schema_changes_the_robot(root, tmp_path):
    table, files = FORMATS[root]
    path, effects = tmp_path / "robot.xml", {}
    for name, text in files.items():
        base = robot_of(path, text)
        assert not isinstance(base, str), (name, base)
        for place in read_places(etree.fromstring(text), table, root):
            if not effects.get(place[:2]):
                effects[place[:2]] = has_effect(path, base, place)
    assert not sorted(read_names(table, root) - effects.keys())
    assert not sorted(name for name, effective in effects.items() if not effective)
    assert len(effects) > 140


@pytest.mark.slow
@pytest.mark.parametrize("root", FORMATS)
def test_ignored_names_change_neither_the_robot_nor_the_warnings(root, tmp_path):
    table, files = FORMATS[root]
    path, seen = tmp_path / "robot.xml", set()
    for text in files.values():
        base = robot_of(path, text)
        warnings = load_model(path).warnings
        for key, name, element in read_places(etree.fromstring(text), table, root):
            inside = "" if name.startswith("@") else table[key][name].inside or name
            for ignored, rule in table.get(inside, {}).items():
                if not isinstance(rule, IgnoredElement) or (inside, ignored) in seen:
                    continue
                if ignored[1:] in element.attrib or element.xpath(f"boolean({ignored})"):
                    continue
                seen.add((inside, ignored))
                path.write_text(with_part(element, ignored, "7"))
                robot = load_model(path)
                assert content(robot) == base, (inside, ignored)
                assert len(robot.warnings) == len(warnings), (inside, ignored, robot.warnings)
    assert len(seen) > 40


OF_LINKS_AND_JOINTS = {"link", "inertial", "origin", "mass", "inertia", "joint", "axis", "child"}


@pytest.mark.slow
@pytest.mark.interop
@pytest.mark.parametrize("name", ["arm", "ball constraint"])
def test_inverse_dynamics_of_each_urdf_variant_matches_pinocchio(name, tmp_path, rng):
    """Pinocchio ignores the loop joint, so that the comparison uses the spanning tree."""
    pin = pytest.importorskip("pinocchio", reason="Pinocchio is not installed (`pip install pin`)")
    path, count = tmp_path / "robot.urdf", 0
    root = etree.fromstring(URDF_FILES[name])
    for key, part, element in read_places(root, URDF, "robot"):
        if key not in OF_LINKS_AND_JOINTS:
            continue
        for change, text in variants(root, part, element, VALUES.get((key, part), ())):
            if key in ("inertia", "axis") and change == "removed":
                continue  # urdfdom requires these attributes; this reader has default values
            if isinstance(robot_of(path, text), str):
                continue
            try:
                there = pin.buildModelFromUrdf(str(path))
            except ValueError:  # urdfdom requires more elements than this reader
                continue
            model = load_model(path).model
            model = model.spanning_tree if model.loops else model
            q, (qd, qdd) = random_configuration(model, rng), rng.normal(size=(2, model.nv))
            q_there, order = pinocchio_state(model, there, q)
            motion = np.zeros((2, there.nv))
            motion[:, order] = qd, qdd
            theirs = pin.rnea(there, there.createData(), q_there, *motion)[order]
            largest = max(np.abs(theirs).max(), np.abs(crba(model, q) * qdd).max())
            assert np.abs(rnea(model, q, qd, qdd) - theirs).max() < 1e-9 * largest, (key, part)
            count += 1
    assert count > 60


@pytest.mark.parametrize("text", ["a_x", "zz"])
def test_spring_with_an_unknown_link_is_rejected(text, tmp_path):
    broken = URDF_FILES["spring"].replace('_A name="a"', f'_A name="{text}"')
    assert f"the spring ends at '{text}', which is no link" in robot_of(tmp_path / "r", broken)


def test_cycle_of_sdf_joints_without_a_joint_to_the_world_is_rejected(tmp_path):
    text = SDF_FILES["without a world"].replace("<parent>world", "<parent>c")
    said = "the joints 'i', 'j', 'k' form a cycle that is not connected to the base"
    assert said in robot_of(tmp_path / "robot.sdf", text)


@pytest.mark.parametrize(
    ("attribute", "said"),
    [
        ('rotation_format="quat"', "must be euler_rpy or quat_xyzw, not 'quat'"),
        ('degrees="yes"', "the attribute degrees must be true or false, not 'yes'"),
    ],
)
def test_unknown_attribute_values_of_an_sdf_pose_are_rejected(attribute, said, tmp_path):
    text = SDF_FILES["screws"].replace('degrees="true"', attribute)
    assert said in robot_of(tmp_path / "robot.sdf", text)


def test_boolean_sdf_attributes_can_be_1_or_uppercase_true(tmp_path):
    path, text = tmp_path / "robot.sdf", SDF_FILES["screws"]
    robot = robot_of(path, text)
    assert not isinstance(robot, str)
    for word in ("1", "TRUE"):
        assert robot_of(path, text.replace('degrees="true"', f'degrees="{word}"')) == robot


def test_loop_joint_of_a_gazebo_extension_keeps_its_spring_and_limits(tmp_path):
    path = tmp_path / "robot.urdf"
    path.write_text(URDF_FILES["revolute loop"])
    robot = load_model(path)
    dof = robot.model.v_slices[robot.model.joint_names.index("g")].start
    values = robot.joint_properties
    found = [getattr(values, name)[dof] for name in ("stiffness", "rest", "damping", "friction")]
    assert found == [2.0, 0.3, 0.5, 0.1]
    assert (values.lower[dof], values.upper[dof], values.effort[dof]) == (-0.5, 0.7, 9.0)


def test_mimic_joint_of_a_gazebo_extension_follows_its_leader(tmp_path):
    path = tmp_path / "robot.urdf"
    path.write_text(URDF_FILES["mimic loop"])
    robot = load_model(path)
    (coupling,) = robot.couplings
    names = robot.model.joint_names
    assert (names[coupling.joint], names[coupling.source]) == ("g", "i")
    assert coupling.ratio == 2.0
    assert coupling.offset == pytest.approx(0.3 - 2 * 0.2, rel=1e-15)


def test_loop_with_an_unphysical_inertia_is_read_with_a_warning(tmp_path):
    path = tmp_path / "robot.urdf"
    path.write_text(URDF_FILES["ball constraint"].replace('ixx="0.3"', 'ixx="9"'))
    assert any("not physical" in one for one in load_model(path).warnings)


def test_sensor_in_a_joint_of_a_gazebo_extension_is_reported(tmp_path):
    path = tmp_path / "robot.urdf"
    path.write_text(
        URDF_FILES["revolute loop"].replace("</joint></gazebo>", f"{FORCE}</joint></gazebo>")
    )
    assert any("<sensor> of <joint> 'g' is not read" in one for one in load_model(path).warnings)
