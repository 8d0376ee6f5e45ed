"""Ground of robots and worlds of several robots: drawing, contact forces and mouse pulls."""

import itertools

import numpy as np
import pytest
from test_pages import data, numbers

from rigidblocks import (
    ContactPlant,
    FloatingBasePlant,
    Result,
    RobotPlant,
    System,
    World,
    animate,
    planar2,
    show,
    sphere_inertia,
)
from rigidblocks.block.memory_layout import Memory
from rigidblocks.contact import GroundContact, RigidContactPlant, SoftContactPlant
from rigidblocks.cosim.graph.fused_system import FusedSystem
from rigidblocks.robot.robots import gripper, quadruped
from rigidblocks.robot.shapes import Box, HeightField, Plane, Sphere
from rigidblocks.view.drawn_robot import forces_on
from rigidblocks.view.robot_page import drawn_robots
from rigidblocks.view.simulation_page import _mouse_springs, add_wrench_inputs


def robot_on(ground):
    robot = FloatingBasePlant(quadruped(), position0=(0, 0, 0.5))
    return ContactPlant(robot, K=1e4, D=50, mu=0.5, ground=ground)


def resting_robot(page):
    """Return the solids of the base that are visible at the start."""
    solids = (one for robot in page["robots"] for one in robot["solids"])
    return [one for one in solids if one["body"] < 0 and one["layer"] == "links"]


def test_level_plane_is_drawn_as_the_floor_and_a_vertical_plane_as_a_wall():
    page = data(show(robot_on(Plane(point=(1.0, 2.0, 0.25)))))
    assert page["ground"] == 0.25
    assert resting_robot(page) == []
    page = data(show(robot_on(Plane(normal=(1.0, 0.0, 0.0), point=(-0.5, 0.0, 0.0)))))
    assert "ground" not in page
    (wall,) = resting_robot(page)
    np.testing.assert_allclose(numbers(wall["points"]).reshape(-1, 3)[:, 0], -0.5, atol=1e-7)


def test_drawn_triangles_of_a_height_field_lie_on_its_surface(rng):
    field = HeightField(rng.uniform(-0.1, 0.1, (20, 30)), (0.2, 0.1), (-2.0, -1.0))
    (ground,) = resting_robot(data(show(robot_on(field))))
    corners = numbers(ground["points"]).reshape(-1, 3)
    gaps, _ = field.gap(corners)
    np.testing.assert_allclose(gaps, 0.0, atol=1e-6)
    assert len(corners) == 19 * 29 * 6


def test_fixed_ground_shapes_of_a_world_are_drawn():
    plant = RigidContactPlant(gripper(), (Plane(), Box.from_corners((0, 0, 0), (1, 2, 3))))
    page = data(show(plant))
    (box,) = [one for one in resting_robot(page) if one["kind"] == "box"]
    assert (box["kind"], box["size"], page["ground"]) == ("box", [1, 2, 3], 0.0)


def test_soft_contact_plant_is_drawn_with_its_ground_and_contact_forces():
    plant = SoftContactPlant(RobotPlant(gripper()), K=1e4, ground=(Plane(point=(0, 0, -1.0)),))
    page = data(show(plant))
    assert page["ground"] == -1.0
    system = System()
    system.add("gripper", plant)
    ((robot, ports),) = drawn_robots(system, None)
    assert ports == ("gripper.q",)
    assert [part.ports for part in robot.forces] == [
        ("gripper.f_contact",),
        ("gripper.centre_of_pressure",),
    ]


def test_ground_of_a_separate_ground_contact_block_is_drawn():
    system = System()
    system.add("robot", FloatingBasePlant(quadruped()))
    system.add("ground", GroundContact(quadruped(), K=1e4, D=50, mu=0.5, ground=Sphere(2.0)))
    (ball,) = resting_robot(data(show(system)))
    assert (ball["kind"], ball["size"]) == ("sphere", [2.0])


def yard():
    world = World("yard")
    world.add_robot("hand", gripper(), at=(1, 0, 1))
    world.add_body("ball", sphere_inertia(0.1, mass=1), [Sphere(0.1)], at=(0, 0, 2))
    world.add_body("other", sphere_inertia(0.1, mass=2), [Sphere(0.1)], at=(0, 1, 2))
    world.add_ground(Plane())
    system = System()
    system.add("yard", world.plant())
    return system


def test_drawn_forces_of_a_world_equal_the_forces_on_its_robots_and_bodies(rng):
    system = yard()
    ((robot, ports),) = drawn_robots(system, None)
    assert ports == ["yard.hand_q", "yard.ball_q", "yard.other_q"]
    outputs = system.wiring().outputs
    n = 4
    signals = [(port, rng.normal(size=(n, *port.shape))) for port in outputs]
    result = Result.from_signals(np.arange(n) / n, signals, {})
    forces = forces_on(result, robot).reshape(n, -1, 6)
    assert forces.shape[1] == robot.model.nb
    np.testing.assert_array_equal(forces[:, :-2, :3], result["yard.hand_f_contact"][..., 3:])
    np.testing.assert_array_equal(forces[:, -2, :3], result["yard.ball_f_contact"][:, 3:])
    np.testing.assert_array_equal(forces[:, -1, 3:], result["yard.other_centre_of_pressure"])
    page = data(animate(result, system))
    assert page["robots"][0]["pressed"] == robot.model.nb


@pytest.mark.slow
def test_page_allows_mouse_pulls_on_each_robot_with_unconnected_wrench_inputs():
    """Robots in rigid contact can be pulled; a robot with connected wrench inputs cannot."""
    system = yard()
    system.add("arm", RobotPlant(planar2()))
    system.add("dog", robot_on(Plane()))
    system = add_wrench_inputs(system)
    memory = Memory(FusedSystem(system, 1e-2))
    pulls = list(_mouse_springs(system, memory))
    assert len(pulls) == len(list(drawn_robots(system, None)))
    first, second, third = pulls
    assert first["place"] == memory.where["yard.hand_f_ext"].start
    places = [memory.where[f"yard.{name}_f_ext"] for name in ("hand", "ball", "other")]
    assert all(a.stop == b.start for a, b in itertools.pairwise(places))
    assert first["stiffness"] > 0
    assert second["place"] == memory.where["arm.f_ext"].start
    assert third is None
