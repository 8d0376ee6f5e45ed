"""Contact shapes and friction in MJCF and SDF files."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from rigidblocks.common.format_error import FormatError
from rigidblocks.contact.rigid_contact_plant import RigidContactPlant
from rigidblocks.cosim.graph.system import System
from rigidblocks.cosim.simulate import simulate
from rigidblocks.robot.material import Material
from rigidblocks.robot.shapes import Box, Capsule, ConvexHull, Ellipsoid, Plane
from rigidblocks.robot_description.load import load_model
from rigidblocks.spatial.rigid_motion import quaternion_rotation

GEOMS = """<mujoco><asset>
<mesh name="wedge" vertex="0 0 0  1 0 0  0 1 0  0 0 1  0.2 0.2 0.2"/>
<mesh name="ball" builtin="sphere" params="4" scale="0.1 0.2 0.3"/></asset><worldbody>
<body><freejoint/>
<geom type="capsule" size="0.1 0.3" pos="1 2 3" quat="1 2 3 4" condim="6" friction="0.7 0.02 0.01"/>
<geom type="ellipsoid" size="0.1 0.2 0.3" condim="4" friction="0.7 0.02 0.01"/>
<geom type="mesh" mesh="wedge" pos="0 0 5" quat="4 3 2 1"/>
<geom type="mesh" mesh="ball" contype="0" conaffinity="0"/>
<geom type="mesh" mesh="ball"/>
</body></worldbody></mujoco>"""
SDF = """<sdf version="1.9"><model name="block"><link name="a"><inertial><mass>2</mass></inertial>
<collision name="c"><pose>0 0 1 0 0 0</pose><geometry>{}</geometry>{}</collision></link></model>
</sdf>"""
SURFACE = """<surface><friction><ode><mu>0.4</mu><mu2>0.6</mu2></ode><torsional><coefficient>0.5
</coefficient><patch_radius>0.02</patch_radius></torsional></friction>
<bounce><restitution_coefficient>0.3</restitution_coefficient></bounce>
<contact><ode><kp>1e5</kp><kd>10</kd></ode></contact></surface>"""


@pytest.fixture
def read(tmp_path):
    def read_text(text, **options):
        path = tmp_path / "robot"
        path.write_text(text)
        return load_model(path, **options)

    return read_text


def in_order(points):
    return points[np.lexsort(points.T.round(6))]


@pytest.mark.interop
def test_mjcf_geoms_become_contact_shapes_with_friction(read):
    mujoco = pytest.importorskip("mujoco")
    robot = read(GEOMS)
    (capsule, ellipsoid, wedge, ball), there = (
        robot.model.contact[0],
        mujoco.MjModel.from_xml_string(GEOMS),
    )
    assert isinstance(capsule, Capsule)
    assert (capsule.radius, capsule.height) == (0.1, 0.6)
    u = quaternion_rotation(np.array([1.0, 2.0, 3.0, 4.0]) / np.sqrt(30.0)).T[:, 2]
    assert_allclose(capsule.points, [[1, 2, 3] - 0.3 * u, [1, 2, 3] + 0.3 * u], atol=1e-12)
    assert capsule.material == Material(mu=0.7, torsional=0.02, rolling=0.01)
    assert isinstance(ellipsoid, Ellipsoid)
    assert_array_equal(ellipsoid.semi_axes, [0.1, 0.2, 0.3])
    assert ellipsoid.material == Material(mu=0.7, torsional=0.02)
    assert isinstance(wedge, ConvexHull)
    assert wedge.material == Material(mu=1.0)
    corners = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
    E = quaternion_rotation(np.array([4.0, 3.0, 2.0, 1.0]) / np.sqrt(30.0))
    # MuJoCo stores vertices in single precision
    assert_allclose(in_order(wedge.points), in_order([0, 0, 5] + corners @ E), atol=1e-6)
    assert there.mesh_vertnum[1] > len(ball.points) > 100


@pytest.mark.interop
def test_hull_of_an_mjcf_ellipsoid_deviates_by_less_than_three_percent(read, rng):
    pytest.importorskip("mujoco")
    ball = read(GEOMS).model.contact[0][3]
    u = rng.normal(size=(100, 3))
    u /= np.linalg.norm(u, axis=1)[:, None]
    farthest = (u @ ball.points.T).max(axis=1)
    whole = np.linalg.norm(u * [0.1, 0.2, 0.3], axis=1)  # support function of the ellipsoid
    assert np.all(farthest < whole + 1e-6)
    assert np.all(farthest > 0.97 * whole)


@pytest.mark.interop
def test_frictionless_mjcf_geoms_have_zero_friction_coefficient(read):
    pytest.importorskip("mujoco")
    bodies = "<body><freejoint/><geom size='1' condim='1'/></body>"
    smooth, rough = (
        read(f"<mujoco><worldbody>{floor}{bodies}</worldbody></mujoco>").model.contact[0][0]
        for floor in ("", "<geom type='plane' size='1 1 1'/>")
    )
    assert (smooth.material.mu, rough.material.mu) == (0.0, 1.0)


def test_sdf_surface_element_is_read_as_a_contact_material(read):
    box = "<box><size>1 2 3</size></box>"
    shape = read(SDF.format(box, SURFACE), floating=True).model.contact[0][0]
    assert isinstance(shape, Box)
    assert_allclose(shape.points.mean(axis=0), [0.0, 0.0, 1.0], atol=1e-15)
    torsional = 3 * np.pi / 16 * 0.5 * 0.02
    assert shape.material == Material("", 0.4, None, 0.3, torsional, 0.0, 1e5, 10.0)
    assert read(SDF.format(box, ""), floating=True).model.contact[0][0].material is None
    wrong = SURFACE.replace("0.3<", "1.3<")
    with pytest.raises(FormatError, match="robot:4: e of material '' must be finite, at least 0"):
        read(SDF.format(box, "\n\n" + wrong), floating=True)


def test_sdf_ellipsoid_is_read_as_an_ellipsoid(read):
    text = SDF.format("<ellipsoid><radii>1 2 3</radii></ellipsoid>", "")
    shape = read(text, floating=True).model.contact[0][0]
    assert isinstance(shape, Ellipsoid)
    assert_array_equal(shape.semi_axes, [1, 2, 3])


@pytest.mark.slow
@pytest.mark.parametrize("factor", [0.9, 1.1])
def test_block_with_friction_from_mjcf_slides_if_the_slope_exceeds_the_friction_angle(factor, read):
    """tan(slope) = factor mu: the block sticks for factor < 1.

    For factor > 1 the sliding distance is g (sin - mu cos) t^2 / 2.
    """
    surface = "<surface><friction><ode><mu>0.4</mu><mu2>0.4</mu2></ode></friction></surface>"
    text = SDF.format("<box><size>0.2 0.2 0.2</size></box>", surface)
    model = read(text.replace("0 0 1 0 0 0", "0 0 0 0 0 0"), floating=True).model
    slope, g, mu = np.arctan(0.4 * factor), 9.81, 0.4
    model = model.with_gravity([g * np.sin(slope), 0.0, -g * np.cos(slope)])
    ground = (Plane(material=Material(mu=mu)),)
    q0 = [1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.1]
    plant = RigidContactPlant(model, ground, q0=q0)
    system = System()
    system.add("block", plant)
    slid = simulate(system, 0.5, dt=1e-3)["block.q"][-1][4]
    expected = max(0.0, g * (np.sin(slope) - mu * np.cos(slope))) * 0.5**2 / 2
    assert_allclose(slid, expected, atol=2e-3)
