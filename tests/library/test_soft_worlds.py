"""Worlds in soft contact and their sensors match mechanics."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from rigidblocks import System, World, box_inertia, simulate
from rigidblocks.contact import Plane
from rigidblocks.contact.contact_sensors import ContactSensor
from rigidblocks.fmi.native_fmu import native_fmu
from rigidblocks.robot.shapes import Box

G, SIDES = 9.81, (1.0, 0.5, 0.4)
LINKED = """<robot name="pair">
 <link name="base"/>
 <joint name="turn" type="revolute"><parent link="base"/><child link="arm"/>
  <axis xyz="0 1 0"/><limit lower="-3" upper="3" effort="10" velocity="1"/>
  <dynamics damping="0.2"/></joint>
 <link name="arm"><inertial><origin xyz="0.5 0 0"/><mass value="1"/>
  <inertia ixx="0.01" iyy="0.01" izz="0.01" ixy="0" ixz="0" iyz="0"/></inertial></link>
 <joint name="follow" type="revolute"><parent link="base"/><child link="other"/>
  <origin xyz="0 0.5 0"/><axis xyz="0 1 0"/><limit lower="-3" upper="3" effort="10" velocity="1"/>
  <mimic joint="turn" multiplier="-2"/></joint>
 <link name="other"><inertial><mass value="0.1"/>
  <inertia ixx="0.01" iyy="0.01" izz="0.01" ixy="0" ixz="0" iyz="0"/></inertial>
  <collision><geometry><sphere radius="0.05"/></geometry></collision></link>
</robot>"""
SENSORS = (
    ContactSensor("floor", ("low", "high")),
    ContactSensor("between", "high", "low"),
    ContactSensor("turned", "low", "high"),
    ContactSensor("above", "high", distance=True),
    ContactSensor("sole", "slider"),
)


def yard(tmp_path):
    """Return a world of stacked boxes, a sliding box, and a robot from a URDF file.

    A box of 1 kg lies on a box of 2 kg with a centre offset of 0.1 m in x and 0.05 m in y. The
    second joint of the robot is a mimic joint of the first.
    """
    (tmp_path / "pair.urdf").write_text(LINKED)
    world = World("yard")
    world.add_body("low", box_inertia(SIDES, mass=2.0), [Box(SIDES)], at=(0, 0, 0.2))
    world.add_body("high", box_inertia(SIDES, mass=1.0), [Box(SIDES)], at=(0.1, 0.05, 0.6))
    flat = (0.4, 0.4, 0.1)
    start = {"at": (0, 3, 0.05 - 2 * G / 1e5), "qd0": (0, 0, 0, 3, 2, 0)}
    world.add_body("slider", box_inertia(flat, mass=2.0), [Box(flat)], **start)
    world.add_robot("pair", tmp_path / "pair.urdf", at=(-3, 0, 2))
    world.add_ground(Plane())
    world.exclude_collision("slider", "pair")
    return world


def soft(tmp_path):
    return yard(tmp_path).soft_plant(1e5, D=2e3, mu=0.4, sensors=SENSORS)


def run(plant, t):
    system = System()
    system.add("world", plant)
    return simulate(system, t, dt=0.01, progress=False, form="compiled")


def test_port_names_of_a_world_with_compliant_contact_contain_its_robot_names(tmp_path):
    plant = soft(tmp_path)
    assert [port.name for port in plant.inputs] == [
        *("pair_tau", "low_f_ext", "high_f_ext", "slider_f_ext", "pair_f_ext")
    ]
    shapes = {port.name: port.shape for port in plant.outputs}
    assert shapes["low_q"] == (7,)
    assert shapes["pair_qdd"] == (2,)
    assert shapes["pair_f_contact"] == (2, 6)
    assert shapes["high_depth"] == ()
    assert shapes["above_on_other"] == (3,)
    rates = {port.name: port.rate for port in plant.states}
    assert rates["low_q"] == "low_qd"
    assert "pair_turn_spring_D" in {port.name for port in plant.parameters}
    with pytest.raises(ValueError, match="'fence' has no shapes; expected names of"):
        yard(tmp_path).soft_plant(1e5, sensors=[ContactSensor("sole", "fence")])


def test_rigid_contact_rejects_mimic_joints(tmp_path):
    with pytest.raises(ValueError, match=r"coupled joints .pair.follow .* use compliant contact"):
        yard(tmp_path).plant()


@pytest.mark.slow
def test_sensors_in_soft_contact_measure_weights_and_friction(tmp_path):
    y = run(soft(tmp_path), 2.0)

    def end(name):
        return np.squeeze(y[f"world.{name}"][-1])

    assert_allclose(end("floor_normal_force"), 3 * G, rtol=1e-6)
    assert_allclose(end("between_normal_force"), G, rtol=1e-6)
    low, high = end("low_q")[4:6], end("high_q")[4:6]
    assert_allclose(end("floor_centre_of_pressure")[:2], (2 * low + high) / 3, atol=1e-6)
    assert_allclose(end("between_centre_of_pressure")[:2], high, atol=3e-5)
    assert_allclose(y["world.turned_wrench"], -y["world.between_wrench"], atol=1e-9)
    f = y["world.low_f_contact"] + y["world.high_f_contact"]
    assert_allclose(y["world.floor_wrench"], f, atol=1e-9)
    middle = y["world.above_distance"]
    assert_allclose(np.ravel(middle), y["world.high_q"][:, 6] - 0.2, atol=2e-3)
    sliding = slice(20, 60)  # the friction patch has reached its largest deflection
    slip = y["world.sole_slip"][sliding]
    assert_allclose(slip[:, :2], y["world.slider_qd"][sliding, 3:5], atol=1e-4)
    against = -slip / np.linalg.norm(slip, axis=1)[:, None]
    N = np.reshape(y["world.sole_normal_force"][sliding], (-1, 1))
    assert_allclose(N, 2 * G, rtol=1e-3)
    assert_allclose(y["world.sole_wrench"][sliding, 3:5], 0.4 * N * against[:, :2], atol=1e-3)


@pytest.mark.slow
def test_mimic_joint_moves_by_its_ratio_times_the_motion_of_the_leading_joint(tmp_path):
    y = run(soft(tmp_path), 1.0)
    turn, follow = y["world.pair_q"].T
    assert np.ptp(turn) > 0.5
    assert_allclose(follow, -2 * turn, atol=1e-9)


@pytest.mark.slow
@pytest.mark.interop
@pytest.mark.parametrize("fmi", [2, 3])
def test_fmu_of_a_world_with_compliant_contact_matches_the_results_of_the_plant(tmp_path, fmi):
    import fmpy

    world = World("fall")
    world.add_body("low", box_inertia(SIDES, mass=2.0), [Box(SIDES)], at=(0, 0, 0.25))
    world.add_body("high", box_inertia(SIDES, mass=1.0), [Box(SIDES)], at=(0.1, 0.05, 0.75))
    world.add_ground(Plane())
    plant = world.soft_plant(1e5, D=300.0, mu=0.4, sensors=SENSORS[:4])
    file = native_fmu(plant, tmp_path / "fall.fmu", name="fall", fmi=fmi)
    options = {"fmi_type": "CoSimulation", "step_size": 0.01, "output_interval": 0.01}
    y = fmpy.simulate_fmu(str(file), stop_time=0.3, **options)
    system = System()
    system.add("world", plant)
    x = simulate(system, 0.3, dt=0.01, progress=False, form="compiled")
    assert x["world.between_in_contact"].any()
    q = y["high_q[7]"] if fmi == 2 else y["high_q"][:, 6]
    assert_allclose(q, x["world.high_q"][:, 6], atol=1e-12)
    for name in ("above_distance", "floor_normal_force", "left_out"):
        assert_allclose(y[name], np.ravel(x[f"world.{name}"]), rtol=1e-9, atol=1e-9)


def test_robot_in_a_world_starts_on_the_offset_of_its_mimic_joint(tmp_path):
    path = tmp_path / "pair.urdf"
    path.write_text(LINKED.replace('multiplier="-2"', 'multiplier="-2" offset="0.3"'))
    world = World("yard")
    world.add_ground(Plane())
    world.add_robot("pair", path)
    (q,) = (port.start for port in world.soft_plant(1e4).states if port.name == "pair_q")
    assert_allclose(q, [0.0, 0.3])
