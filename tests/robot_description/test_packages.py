"""Mesh files of robot files: lookup by path and by package name."""

import os

import pytest

from rigidblocks.robot_description.load import find_file


@pytest.fixture
def arm(tmp_path, monkeypatch):
    """Return the folder of a package `arm` that contains a robot and a mesh."""
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
def test_mesh_of_a_robot_file_is_found_by_relative_path_or_package_name(name, arm):
    name, robot = name.format(arm), arm / "urdf/arm.urdf"
    assert find_file(name, robot).resolve() == arm / "meshes/a.stl"
    assert find_file(name.replace("a.stl", "b.stl"), robot) is None
    assert find_file(name.replace("/a.stl", ""), robot) is None  # a folder is not a mesh


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("ROS_PACKAGE_PATH", "/none:{}"),
        ("ROS_PACKAGE_PATH", "{}/arm::/none"),
        ("AMENT_PREFIX_PATH", "{}"),
    ],
)
def test_mesh_package_is_found_by_the_ros_environment_variables(variable, text, arm, monkeypatch):
    robot = arm.parent / "elsewhere/x/other.urdf"
    root = arm.parent
    (root / "deep").mkdir()
    target = root / "deep/share" if variable.startswith("AMENT") else root / "deep"
    target.mkdir(exist_ok=True)
    arm.rename(target / "arm")
    assert find_file("package://arm/meshes/a.stl", robot) is None
    monkeypatch.setenv(variable, text.format(root / "deep").replace(":", os.pathsep))
    assert find_file("package://arm/meshes/a.stl", robot) == target / "arm/meshes/a.stl"


def test_mesh_is_found_if_the_search_path_is_the_package_or_its_parent_folder(arm):
    robot = arm.parent / "elsewhere/other.urdf"
    arm = arm.rename(arm.parent / "elsewhere/arm").parent / "arm"
    far = arm.parent.parent.parent / "x/other.urdf"
    name = "package://arm/meshes/a.stl"
    assert find_file(name, robot) == find_file(name, far, [arm])
    assert find_file(name, far, ["/none", str(arm.parent)]) == arm / "meshes/a.stl"
    assert find_file(name, far) is None


@pytest.mark.parametrize(
    "name",
    [
        *("package://arm/../secret.stl", "package://arm/meshes/../../secret.stl"),
        *("package://arm/{}/secret.stl", "model://arm//{}/secret.stl", "package:///secret.stl"),
        *("package://../secret.stl", "package://./secret.stl"),
    ],
)
def test_mesh_paths_outside_the_package_are_not_found(name, arm):
    name = name.format(arm.parent)
    assert find_file(name, arm / "urdf/arm.urdf", [arm, arm.parent]) is None


def test_package_uris_with_two_and_with_three_slashes_find_the_same_mesh(arm):
    found = find_file("package:///arm/meshes/a.stl", arm / "urdf/arm.urdf")
    assert found == find_file("package://arm/meshes/a.stl", arm / "urdf/arm.urdf") is not None
