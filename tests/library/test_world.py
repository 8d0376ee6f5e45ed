"""Worlds combine robots, free bodies and a ground in one plant with named members."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from rigidblocks import System, World, export_fmu, simulate, sphere_inertia
from rigidblocks.block.memory_layout import Memory
from rigidblocks.contact import Plane, RigidContactPlant, Sphere
from rigidblocks.contact.contact_sensors import ContactSensor
from rigidblocks.kernels.compiled_stepper import compiled_stepper
from rigidblocks.robot.robots import gripper, planar2, quadruped
from rigidblocks.spatial.spatial import Transform, rotz, xlt

PUSHER = """<robot name="pusher">
 <link name="base"><collision><geometry><box size="0.2 0.2 0.2"/></geometry></collision></link>
 <joint name="slide" type="prismatic"><parent link="base"/><child link="rod"/>
  <axis xyz="1 0 0"/><limit lower="0" upper="1" effort="10" velocity="1"/></joint>
 <link name="rod"><inertial><mass value="1"/>
  <inertia ixx="0.01" iyy="0.01" izz="0.01" ixy="0" ixz="0" iyz="0"/></inertial>
  <collision><geometry><box size="0.6 0.05 0.05"/></geometry></collision></link>
</robot>"""


def yard(tmp_path):
    (tmp_path / "pusher.urdf").write_text(PUSHER)
    world = World("yard")
    world.add_robot("pusher", tmp_path / "pusher.urdf", at=xlt((-1.0, 2.0, 0.5)))
    world.add_robot("hand", gripper(), at=(1, 0, 1))
    world.add_body("ball", sphere_inertia(0.1, mass=1), [Sphere(0.1)], at=(0, 0, 2))
    world.add_ground(Plane())
    return world


def test_port_names_of_a_world_contain_the_names_of_its_robots_and_bodies(tmp_path):
    plant = yard(tmp_path).plant()
    assert [port.name for port in plant.inputs] == [
        *("pusher_tau", "hand_tau", "pusher_f_ext", "hand_f_ext", "ball_f_ext")
    ]
    shapes = {port.name: port.shape for port in plant.outputs}
    assert shapes["pusher_f_contact"] == (2, 6)  # the base link and the rod
    assert shapes["ball_q"] == (7,)
    assert shapes["ball_in_contact"] == ()
    assert shapes["ball_centre_of_pressure"] == (3,)
    assert "depth" in shapes
    assert_allclose(
        next(p for p in plant.outputs if p.name == "ball_q").start, [1, 0, 0, 0, 0, 0, 2]
    )


def test_body_and_joint_names_are_prefixed_with_the_robot_name(tmp_path):
    model = yard(tmp_path).model()
    assert model.body_names[:2] == ("pusher.base", "pusher.rod")
    assert model.joint_names[1] == "pusher.slide"
    assert model.body_names[-1] == "ball"
    assert model.parent[:2] == (-1, 0)


@pytest.mark.slow
def test_robots_of_a_world_without_contact_move_like_separate_plants(tmp_path):
    # without contact each member moves like a plant of its own
    single = RigidContactPlant(gripper(), ())
    world = yard(tmp_path)
    y = simulate(_system(world.plant()), 0.4, dt=1e-2)
    x = simulate(_system(single), 0.4, dt=1e-2)
    q = x["world.q"][-1].copy()
    here = y["world.hand_q"][-1]
    n = single.model.nq - 7
    assert_allclose(here[:n], q[:n], atol=1e-12)
    assert_allclose(here[n + 4 :], q[n + 4 :] + np.array([1, 0, 1]), atol=1e-12)
    assert y["world.ball_q"][-1, 6] == pytest.approx(2 - 9.81 / 2 * 0.16, abs=1e-9)
    assert np.abs(y["world.pusher_q"][-1]).max() < 1e-9


def _system(plant):
    system = System()
    system.add("world", plant)
    return system


@pytest.mark.slow
def test_input_of_a_world_acts_only_on_the_robot_or_body_in_its_name(tmp_path):
    plant = yard(tmp_path).plant()
    memory = Memory(plant)
    m = memory.start()
    step = compiled_stepper(memory)
    step.initialize(m, 0.0)
    m[memory.where["pusher_tau"]] = 3.0
    m[memory.where["ball_f_ext"]] = [0, 0, 0, 0.5, 0, 9.81]
    for k in range(200):
        step.step(m, k * 1e-3, 1e-3)
    assert m[memory.where["pusher_q"]] == pytest.approx(3 / 2 * 0.04, rel=1e-9)  # mass 1 kg
    assert_allclose(m[memory.where["ball_q"]][4:], [0.5 / 2 * 0.04, 0, 2], atol=1e-4)


@pytest.mark.slow
def test_floating_base_robot_starts_at_its_initial_pose_and_remains_standing():
    at = Transform(rotz(0.7).E, np.array([1.0, -2.0, 0.03]))
    legs = np.tile([0.0, 0.7, -1.4], 4)
    world = World("two dogs")
    for name, X in (("a", xlt((0, 0, 0))), ("b", at)):
        q0 = np.concatenate([[1, 0, 0, 0, 0, 0, 0.33], legs])
        world.add_robot(name, quadruped(), at=X, q0=q0)
    plant = world.plant()
    start = {port.name: port.start for port in plant.outputs}
    assert_allclose(start["b_q"][4:7], [1, -2, 0.36], atol=1e-12)
    assert_allclose(start["b_q"][:4], [np.cos(0.35), 0, 0, np.sin(0.35)], atol=1e-12)
    assert_allclose(start["a_q"][4:7], [0, 0, 0.33], atol=1e-12)


@pytest.mark.slow
@pytest.mark.interop
@pytest.mark.parametrize("fmi", [2, 3])
def test_fmu_of_a_world_matches_the_results_of_the_plant(tmp_path, fmi):
    import fmpy

    sensors = [ContactSensor("high", "ball", distance=True), ContactSensor("rod", "pusher", "ball")]
    plant = yard(tmp_path).plant(sensors=sensors)
    file = export_fmu(plant, tmp_path / "yard.fmu", fmi=fmi)
    y = fmpy.simulate_fmu(str(file), stop_time=0.9, output_interval=0.01, step_size=0.01)
    x = simulate(_system(plant), 0.9, dt=0.01)
    assert_allclose(
        y["ball_q[7]"] if fmi == 2 else y["ball_q"][:, 6], x["world.ball_q"][:, 6], atol=1e-12
    )
    for name in ("high_distance", "high_normal_force", "rod_in_contact"):
        assert_allclose(y[name], x[f"world.{name}"], atol=1e-12)
    assert y["high_distance"][0] == pytest.approx(1.9, abs=1e-15)
    assert y["high_distance"][-1] == pytest.approx(y["high_distance"].min(), abs=1e-12)


def test_equal_names_of_robots_or_bodies_in_a_world_are_rejected(tmp_path):
    world = yard(tmp_path)
    with pytest.raises(ValueError, match="two robots or bodies with the name 'ball'"):
        world.add_body("ball", sphere_inertia(0.1, mass=1), [Sphere(0.1)])
    with pytest.raises(ValueError, match="invalid name"):
        world.add_body("a ball", sphere_inertia(0.1, mass=1), [Sphere(0.1)])
    with pytest.raises(ValueError, match="invalid name"):
        world.add_body("ground", sphere_inertia(0.1, mass=1), [Sphere(0.1)])
    world.add_robot("hand_f", planar2())
    world.add_robot("hand_f_ext", planar2())
    world.add_robot("hand_q", planar2())
    names = [port.name for port in (*world.plant().inputs, *world.plant().sampled)]
    assert len(set(names)) == len(names)
    with pytest.raises(ValueError, match="no robots"):
        World("nothing").plant()
    world.exclude_collision("hand", "nobody")
    with pytest.raises(ValueError, match="unknown robot or body 'nobody'"):
        world.plant()
