"""Overlays of a robot drawing: inertia ellipsoids, loops, forces and paths of the last bodies."""

from dataclasses import replace

import numpy as np
import pytest
from test_pages import data, numbers

from rigidblocks import (
    ContactPlant,
    FloatingBasePlant,
    Model,
    Prismatic,
    RobotPlant,
    SixDoF,
    System,
    animate,
    show,
    simulate,
)
from rigidblocks.contact import (
    GroundContact,
    PointKinematics,
    RigidContactPlant,
)
from rigidblocks.library import (
    Frame,
    FrameKinematics,
)
from rigidblocks.robot.robot_description import JointProperties, RobotDescription
from rigidblocks.robot.robots import (
    auto_tree,
    auto_tree_p,
    four_bar,
    planar2,
    quadruped,
    stewart_platform,
)
from rigidblocks.robot.shapes import (
    Box,
    Capsule,
    ConvexHull,
    Ellipsoid,
    Polyhedron,
    Polyline,
    Sphere,
)
from rigidblocks.spatial.spatial import identity, mcI, xlt
from rigidblocks.view.drawn_robot import overlays, rotational_inertia, semi_axes, tips
from rigidblocks.view.visual_geometry import centre_of_mass, shape_solids


@pytest.mark.parametrize("model", [auto_tree(4, 2, 0.3), quadruped(), planar2()])
def test_inertia_ellipsoid_has_the_inertia_of_its_body(model):
    for body, inertia in enumerate(model.inertia):
        I = rotational_inertia(inertia, centre_of_mass(model, body))
        (a, b, c), E = semi_axes(inertia.m, I)
        own = inertia.m / 5 * np.diag([b * b + c * c, a * a + c * c, a * a + b * b])
        np.testing.assert_allclose(E.T @ own @ E, I, atol=1e-12)
        np.testing.assert_allclose(E @ E.T, np.eye(3), atol=1e-12)
        assert np.linalg.det(E) == pytest.approx(1.0)


def test_robot_page_has_layers_for_axes_frames_masses_inertias_and_loops():
    layers = {one.layer for one in overlays(stewart_platform().model)}
    assert layers == {"joint axes", "frames", "centres of mass", "inertias", "loops"}
    assert "loops" not in {one.layer for one in overlays(quadruped())}


def test_loop_overlay_draws_a_line_between_the_bodies_of_the_loop_joint():
    (rod,) = [one for one in overlays(four_bar().model) if one.kind == "rod"]
    loop = four_bar().model.loops[0]
    assert (rod.body, rod.other) == (loop.predecessor, loop.successor)


def test_default_motion_paths_are_drawn_for_the_last_body_of_each_branch():
    ends = dict(tips(planar2()))
    assert list(ends) == [1]
    np.testing.assert_allclose(ends[1], [1.0, 0.0, 0.0], atol=0.11)
    assert [body for body, _ in tips(auto_tree_p(3, 2))] == [1, 2]
    assert len(dict(tips(quadruped()))) == 4


def test_drawn_solids_have_the_size_and_pose_of_the_convex_collision_shapes():
    corners = np.array([[x, y, z] for x in (0, 1) for y in (0, 2) for z in (0, 3)], float)
    shapes = (Capsule(0.1, 0.5), Ellipsoid([1.0, 2.0, 3.0]), ConvexHull(corners))
    capsule, ellipsoid, hull = shape_solids(shapes, 0, (1, 1, 1))
    assert (capsule.kind, capsule.size) == ("capsule", (0.1, 0.5))
    assert ellipsoid.size == (1.0, 2.0, 3.0)
    a, b, c = np.moveaxis(hull.points.reshape(-1, 3, 3), 1, 0)
    on_face = [np.ptp(np.stack([a, b, c])[:, k], axis=0) for k in range(len(a))]
    assert all((size == 0).any() for size in on_face)  # each triangle lies in a face
    areas = np.linalg.norm(np.cross(b - a, c - a), axis=1) / 2
    assert areas.sum() == pytest.approx(2 * 22.0)  # two triangulations of each face
    assert Box.from_corners(corners.min(0), corners.max(0)).points.shape == corners.shape


def standing_cubes():
    robot = FloatingBasePlant(quadruped(), position0=(0, 0, 0.35), q0=[0, 0.7, -1.4] * 4)
    system = System()
    system.add("robot", ContactPlant(robot, K=5e3, D=60, mu=0.8), start={"tau": [0.0] * 12})
    return system


@pytest.mark.slow
def test_drawn_contact_forces_equal_the_contact_forces_of_the_run():
    system = standing_cubes()
    result = simulate(system, 0.3, 1e-3, progress=False)
    page = data(animate(result, system))
    (forces,), (robot,) = page["run"]["forces"], page["robots"]
    time = numbers(page["run"]["time"], "<f8")
    rows = numbers(forces).reshape(len(time), -1, 3)
    assert rows.shape[1] == len(robot["touching"]) == result["robot.force"].shape[1]
    expected = [np.interp(time, result.time, column) for column in result["robot.force"][:, 0].T]
    np.testing.assert_allclose(rows[:, 0], np.transpose(expected), atol=1e-3)
    assert robot["weight"] == pytest.approx(9.81 * sum(one.m for one in quadruped().inertia))
    assert data(show(system))["robots"][0]["touching"] == robot["touching"]


V = np.array([[1, 1, 0], [-1, 1, 0], [-1, -1, 0], [1, -1, 0], [0, 0, 1.0]])  # pyramid corners


def test_spatial_v1_shapes_are_drawn_on_bodies_and_on_the_base():
    """The model has a pyramid with a line along its edges, and a box below it."""
    faces = [[3, 2, 1, 0], [0, 1, 4], [1, 2, 4], [2, 3, 4], [3, 0, 4]]
    look = (Polyhedron(V, faces), Polyline(V[[0, 1, 2, 3, 0, 4]]))
    model = replace(planar2(), appearance=(look, ()))
    base = (Box.from_corners([-2, -2, -1], [2, 2, 0]),)
    robot = RobotDescription(model, JointProperties.from_values(2), base_appearance=base)
    shown = data(show(robot))["robots"][0]["solids"]
    (mesh,) = [one for one in shown if one["kind"] == "mesh"]
    a, b, c = np.moveaxis(numbers(mesh["points"]).reshape(-1, 3, 3), 1, 0)
    volume = np.sum(np.cross(a, b) * c) / 6
    assert volume == pytest.approx(4 / 3)  # pyramid with outward faces
    rods = [one for one in shown if one["kind"] == "rod"]
    assert [rods[-1][end] for end in ("from", "to")] == [[1, 1, 0], [0, 0, 1]]
    assert ["box", -1, [4, 4, 1]] in [[one["kind"], one["body"], one["size"]] for one in shown]


@pytest.mark.parametrize("faces", [[[0, 1]], [[0, 1, 5]], [[0, 0, 1]], [[0, 1, -1]], []])
def test_invalid_polyhedron_faces_are_rejected(faces):
    with pytest.raises(ValueError, match="face"):
        Polyhedron(V, faces)


def test_drawn_polyline_with_one_point_is_rejected():
    with pytest.raises(ValueError, match="at least 2"):
        Polyline([[0, 0, 0]])


def bouncing_system():
    """Return a ball with a frame on a vertical slide, and a separate block of ground contact."""
    inertia = mcI(0.5, np.zeros(3), 5e-4 * np.eye(3))
    model = Model(
        "ball", (-1,), (Prismatic(),), (identity(),), (inertia,), contact=((Sphere(0.05),),)
    )
    system = System()
    system.add("ball", RobotPlant(model, q0=[0.06], external_wrenches=True), start={"tau": 0.0})
    system.add("points", PointKinematics(model))
    system.add("ground", GroundContact(model, 5e3, 8.0, sample_time=1e-3))
    system.add("top", FrameKinematics(model, (Frame("pole", 0, xlt([0, 0, 0.05])),)))
    for target in ("points", "top"):
        for port in ("q", "qd"):
            system.connect(f"ball.{port}", f"{target}.{port}")
    for port in ("p", "v", "w"):
        system.connect(f"points.{port}", f"ground.{port}")
    system.connect("ground.f_ext", "ball.f_ext")
    return system


@pytest.mark.slow
def test_forces_of_a_separate_ground_block_are_drawn_on_the_robot():
    system = bouncing_system()
    result = simulate(system, 0.1, 1e-3, form="numpy", progress=False)
    page = data(animate(result, system, paths=["pole"]))
    (forces,) = page["run"]["forces"]
    time = numbers(page["run"]["time"], "<f8")
    rows = numbers(forces).reshape(len(time), 3)
    assert rows[:, 2].max() > 5.0
    expected = [np.interp(time, result.time, column) for column in result["ground.force"][:, 0].T]
    np.testing.assert_allclose(rows, np.transpose(expected), rtol=1e-6)
    assert page["paths"] == ["pole"]
    frames = {name: place for name, *place in page["robots"][0]["frames"]}
    assert frames == {"body1": [0, 0, 0, 0], "pole": [0, 0, 0, 0.05]}
    with pytest.raises(KeyError, match=r"unknown frame 'pale'.*did you mean pole"):
        animate(result, system, paths=["pale"])


@pytest.mark.slow
def test_rigid_contact_forces_are_drawn_at_their_centres_of_pressure():
    """Two cubes are at rest, one on the other; each force acts at the centre of a face."""
    side = (Box([0.2, 0.2, 0.2]),)
    free = (SixDoF(), SixDoF())
    inertia = (mcI(1.0, np.zeros(3), 0.01 * np.eye(3)),) * 2
    model = Model("two", (-1, -1), free, (identity(),) * 2, inertia, contact=(side, side))
    system = System()
    q0 = [1, 0, 0, 0, 0, 0, 0.1, 1, 0, 0, 0, 0, 0, 0.3]
    system.add("cubes", RigidContactPlant(model, q0=q0))
    result = simulate(system, 0.1, 1e-3, progress=False)
    page = data(animate(result, system))
    (forces,), (robot,) = page["run"]["forces"], page["robots"]
    rows = numbers(forces).reshape(-1, 2, 6)
    np.testing.assert_allclose(rows[-1, 1, :3], [0, 0, 9.81], atol=1e-3)
    np.testing.assert_allclose(rows[-1, 0, :3], [0, 0, 9.81], atol=1e-3)  # 2 g up, g down
    np.testing.assert_allclose(rows[-1, 1, 3:], [0, 0, 0.2], atol=1e-3)
    assert (robot["pressed"], robot["touching"]) == (2, [])
    assert robot["weight"] == pytest.approx(9.81)
