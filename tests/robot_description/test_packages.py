"""Files that a robot's file names: by a path, and in packages, which no path leaves."""

import os

import pytest

from rigidblocks.formats.packages import found_file


@pytest.fixture
def arm(tmp_path, monkeypatch):
    """The folder of a package `arm` with a robot and a mesh."""
    for variable in ("ROS_PACKAGE_PATH", "AMENT_PREFIX_PATH"):
        monkeypatch.delenv(variable, raising=False)
    for folder in ("arm/meshes", "arm/urdf", "elsewhere"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "arm/meshes/a.stl").write_bytes(b"mesh")
    (tmp_path / "secret.stl").write_bytes(b"none of its business")
    return tmp_path / "arm"


@pytest.mark.parametrize(
    "name",
    [
        *("package://arm/meshes/a.stl", "package://arm//meshes/a.stl", "model://arm/meshes/a.stl"),
        *("package://arm/urdf/../meshes/a.stl", "../meshes/a.stl", "{}/meshes/a.stl"),
        "file://{}/meshes/a.stl",
    ],
)
def test_a_file_is_found_beside_its_robot_or_in_its_package(name, arm):
    name, robot = name.format(arm), arm / "urdf/arm.urdf"
    assert found_file(name, robot).resolve() == arm / "meshes/a.stl"
    assert found_file(name.replace("a.stl", "b.stl"), robot) is None
    assert found_file(name.replace("/a.stl", ""), robot) is None  # a folder is no mesh


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("ROS_PACKAGE_PATH", "/none:{}"),
        ("ROS_PACKAGE_PATH", "{}/arm::/none"),
        ("AMENT_PREFIX_PATH", "{}"),
    ],
)
def test_a_package_is_where_the_environment_of_ros_says(variable, text, arm, monkeypatch):
    robot = arm.parent / "elsewhere/x/other.urdf"
    root = arm.parent
    (root / "deep").mkdir()
    target = root / "deep/share" if variable.startswith("AMENT") else root / "deep"
    target.mkdir(exist_ok=True)
    arm.rename(target / "arm")
    assert found_file("package://arm/meshes/a.stl", robot) is None
    monkeypatch.setenv(variable, text.format(root / "deep").replace(":", os.pathsep))
    assert found_file("package://arm/meshes/a.stl", robot) == target / "arm/meshes/a.stl"


def test_a_package_is_in_or_is_a_folder_of_the_search_path(arm):
    robot = arm.parent / "elsewhere/other.urdf"
    arm = arm.rename(arm.parent / "elsewhere/arm").parent / "arm"
    far = arm.parent.parent.parent / "x/other.urdf"
    name = "package://arm/meshes/a.stl"
    assert found_file(name, robot) == found_file(name, far, [arm])
    assert found_file(name, far, ["/none", str(arm.parent)]) == arm / "meshes/a.stl"
    assert found_file(name, far) is None


@pytest.mark.parametrize(
    "name",
    [
        *("package://arm/../secret.stl", "package://arm/meshes/../../secret.stl"),
        *("package://arm/{}/secret.stl", "model://arm//{}/secret.stl", "package:///secret.stl"),
        *("package://../secret.stl", "package://./secret.stl"),
    ],
)
def test_no_path_leaves_its_package(name, arm):
    name = name.format(arm.parent)
    assert found_file(name, arm / "urdf/arm.urdf", [arm, arm.parent]) is None


def test_three_slashes_are_two(arm):
    found = found_file("package:///arm/meshes/a.stl", arm / "urdf/arm.urdf")
    assert found == found_file("package://arm/meshes/a.stl", arm / "urdf/arm.urdf") is not None
