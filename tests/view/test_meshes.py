"""Mesh files: search, placement on bodies, and simplification that preserves the shape."""

import struct

import numpy as np
import pytest
from test_pages import data

from published import published
from rigidblocks import load_model, show
from rigidblocks.common.format_error import FormatError
from rigidblocks.dynamics.kinematics import body_poses
from rigidblocks.view.visual_geometry import meshes, simplify_mesh

# a mesh on a link that is fixed to a moving link; link and mesh have their own poses
TURNED = """<robot name="one">
  <material name="red"><color rgba="1 0 0 1"/></material>
  <link name="base"/>
  <link name="arm"><inertial><mass value="1"/>
    <inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial></link>
  <link name="tip"><visual><origin xyz="0 0 0.5" rpy="0 0 1.5707963267948966"/>
    <geometry><mesh filename="{name}" scale="2 2 2"/></geometry>
    <material name="red"/></visual></link>
  <joint name="hinge" type="continuous"><parent link="base"/><child link="arm"/>
    <axis xyz="0 0 1"/><origin xyz="1 0 0"/></joint>
  <joint name="weld" type="fixed"><parent link="arm"/><child link="tip"/>
    <origin xyz="0 3 0"/></joint>
</robot>"""
COLLADA = """<?xml version="1.0"?>
<COLLADA xmlns="http://www.collada.org/2005/11/COLLADASchema" version="1.4.1">
  <library_materials><material id="red"><instance_effect url="#none"/></material>
  </library_materials>
  <library_geometries><geometry id="g"><mesh>
    <source id="p"><float_array id="a" count="18">{}</float_array><technique_common>
      <accessor source="#a" count="6" stride="3"><param name="X" type="float"/>
      <param name="Y" type="float"/><param name="Z" type="float"/></accessor>
    </technique_common></source>
    <vertices id="v"><input semantic="POSITION" source="#p"/></vertices>
    <triangles material="red" count="2"><input semantic="VERTEX" source="#v" offset="0"/>
      <p>0 1 2 3 4 5</p></triangles></mesh></geometry></library_geometries>
  <library_visual_scenes><visual_scene id="s"><node><instance_geometry url="#g"><bind_material>
    <technique_common><instance_material symbol="red" target="#red"/></technique_common>
    </bind_material></instance_geometry></node></visual_scene></library_visual_scenes>
  <scene><instance_visual_scene url="#s"/></scene>
</COLLADA>"""
CORNERS = np.array([[[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 0, 0], [0, 1, 0], [0, 0, 1]]], float)


def sphere(n):
    """Return about 2 n^2 triangles of a sphere with radius 1."""
    a, b = np.meshgrid(np.linspace(0, np.pi, n + 1), np.linspace(0, 2 * np.pi, n + 1))
    p = np.stack([np.sin(a) * np.cos(b), np.sin(a) * np.sin(b), np.cos(a)], axis=-1)
    one = np.stack([p[:-1, :-1], p[:-1, 1:], p[1:, :-1]], axis=2)
    other = np.stack([p[:-1, 1:], p[1:, 1:], p[1:, :-1]], axis=2)
    return np.concatenate([one.reshape(-1, 3, 3), other.reshape(-1, 3, 3)])


def volume(triangles):
    return abs(np.sum(np.linalg.det(triangles)) / 6)


def stl(triangles):
    """Return a binary STL file."""
    rows = [struct.pack("<12fH", 0, 0, 0, *np.ravel(one), 0) for one in triangles]
    return bytes(80) + struct.pack("<I", len(rows)) + b"".join(rows)


@pytest.mark.parametrize("limit", [400, 2000, 8000])
def test_simplified_sphere_mesh_has_the_volume_and_radius_of_the_sphere(limit):
    """Chords of a sphere with n triangles reduce the volume in proportion to 1/n."""
    fine = sphere(120)
    made = simplify_mesh(fine, limit)
    assert limit / 8 < len(made) <= limit
    assert volume(made) == pytest.approx(4 / 3 * np.pi, rel=40 / len(made))
    assert np.abs(np.linalg.norm(made, axis=-1) - 1).max() < 40 / len(made)
    assert np.array_equal(simplify_mesh(made, limit), made)


def test_simplification_supports_flat_tiny_and_degenerate_meshes():
    rng = np.random.default_rng(1)
    flat = rng.random((5000, 3, 3)) * [1, 1, 0]
    assert len(simplify_mesh(flat, 500)) <= 500
    assert np.isfinite(simplify_mesh(flat * 1e-9 + 1e3, 500)).all()
    assert len(simplify_mesh(np.zeros((5000, 3, 3)), 500)) == 0


@pytest.mark.interop
def test_drawn_mesh_has_the_pose_of_its_link(tmp_path):
    (tmp_path / "a.stl").write_bytes(stl(CORNERS))
    path = tmp_path / "one.urdf"
    path.write_text(TURNED.format(name="a.stl"))
    robot = load_model(path)
    (solid,) = meshes(robot, path).solids
    assert solid.colour == (1.0, 0.14, 0.14)
    q = np.array([np.pi / 2])
    X = body_poses(robot.model, q)[solid.body]
    local = solid.points.reshape(-1, 3) @ solid.placement.E + solid.placement.r
    seen = local @ X.E + X.r
    # scaled by 2, rotated by 90 degrees twice, and shifted by (1 - 3, 0, 0.5)
    expected = 2 * CORNERS.reshape(-1, 3) * [-1, -1, 1] + [1 - 3, 0, 0.5]
    np.testing.assert_allclose(seen, expected, atol=1e-6)
    assert '"kind":"mesh"' in show(path).html


@pytest.mark.interop
def test_missing_or_invalid_mesh_files_give_a_warning(tmp_path):
    path = tmp_path / "one.urdf"
    (tmp_path / "empty.stl").write_bytes(stl([]))
    (tmp_path / "text.stl").write_text("nothing of the kind")
    for name in ("none.stl", "empty.stl", "text.stl"):
        path.write_text(TURNED.format(name=name))
        with pytest.warns(UserWarning, match=f"1 of 1 meshes cannot be read, such as {name}"):
            page = show(path)
        assert '"kind":"mesh"' not in page.html


TWO = TURNED.replace(
    """<mass value="1"/>
    <inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial>""",
    """<mass value="1"/><inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial>
    <visual><geometry><mesh filename="a.stl"/></geometry></visual>""",
).replace('name="weld" type="fixed"', 'name="weld" type="continuous"')


@pytest.mark.interop
def test_body_with_a_missing_mesh_is_drawn_with_primitive_shapes(tmp_path):
    """The tip has no mass, so it is shown but cannot be simulated."""
    (tmp_path / "a.stl").write_bytes(stl(CORNERS))
    path = tmp_path / "one.urdf"
    path.write_text(TWO.format(name="none.stl"))
    with pytest.raises(FormatError, match="joint weld of model 'one' moves no mass"):
        load_model(path)
    with (
        pytest.warns(UserWarning, match="shown but not simulated"),
        pytest.warns(UserWarning, match="1 of 2 meshes"),
    ):
        (robot,) = data(show(path))["robots"]
    links = [(one["kind"], one["body"]) for one in robot["solids"] if one["layer"] == "links"]
    assert links == [("sphere", 1), ("mesh", 0)]
    seen = [one["body"] for one in robot["solids"] if one["layer"] == "inertias"]
    assert seen == [0]


@pytest.mark.interop
def test_collada_mesh_with_a_missing_material_effect_is_read(tmp_path):
    """The effect that defines its colour is missing."""
    text = COLLADA.format(" ".join(f"{x:g}" for x in CORNERS.ravel()))
    (tmp_path / "a.dae").write_text(text)
    path = tmp_path / "one.urdf"
    path.write_text(TURNED.format(name="a.dae"))
    (solid,) = meshes(load_model(path), path).solids
    np.testing.assert_allclose(solid.points, 2 * CORNERS.reshape(2, 9))


@pytest.mark.parametrize("inside", ["", '<link name="x"/>'])
def test_show_function_rejects_a_robot_file_without_links_and_accepts_a_single_body(
    inside, tmp_path
):
    path = tmp_path / "one.urdf"
    path.write_text(f'<robot name="one">{inside}</robot>')
    if inside:  # a single floating body
        with pytest.warns(UserWarning, match="no movable joint; for a floating base"):
            assert data(show(path))["robots"][0]["bodies"] == ["x"]
    else:
        with pytest.raises(FormatError, match="robot 'one' has no link"):
            show(path)


@pytest.mark.interop
@pytest.mark.parametrize("name", ["ur5_robot", "panda"])
def test_page_of_a_published_arm_with_meshes_is_smaller_than_15_megabytes(name):
    path = next(path for path in published(".urdf").values() if path.stem == name)
    html = show(path).html
    assert html.count('"kind":"mesh"') >= 6
    assert 5e5 < len(html) < 15e6
