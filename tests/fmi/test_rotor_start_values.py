"""Start angles and speeds of rotors in FMUs, computed from the start values of the joints."""

from dataclasses import replace

import fmpy
import numpy as np
import pytest
from numpy.testing import assert_allclose

from rigidblocks import RobotPlant, System, World, export_fmu, planar2
from rigidblocks.block.memory_layout import Memory
from rigidblocks.block.stepper import NumpyStepper
from rigidblocks.contact import Sphere
from rigidblocks.cosim.graph.block_merging import ContinuousSystem
from rigidblocks.cosim.graph.fused_system import FusedSystem
from rigidblocks.dynamics.drives import Drive, Elasticity, Follower, Gearbox
from rigidblocks.dynamics.motors import TorqueMotor

RATIO, K = 50.0, 1e3
DRIVE = Drive("a", "joint1", TorqueMotor(2e-5), Gearbox(RATIO), elasticity=Elasticity(K))
ARM = RobotPlant(planar2(), q0=[0.1, 0.2], qd0=[0.3, 0.0], elements=(DRIVE,))
OUTPUTS = ("a_angle", "a_rotor_speed", "a_deflection", "a_force")
SCRIPT = """
from rigidblocks import RobotPlant, planar2
from rigidblocks.dynamics.drives import Drive, Elasticity, Gearbox
from rigidblocks.dynamics.motors import TorqueMotor
from rigidblocks.fmi.slave import BlockSlave


class Arm(BlockSlave):
    def __init__(self, **kwargs):
        drive = Drive("a", "joint1", TorqueMotor(2e-5), Gearbox(50.0), elasticity=Elasticity(1e3))
        arm = RobotPlant(planar2(), q0=[0.1, 0.2], qd0=[0.3, 0.0], elements=(drive,))
        super().__init__(arm, **kwargs)
"""


def first_row(path, start, prefix="", fmi_type="CoSimulation"):
    """Return the outputs of an FMU at the start time, simulated by FMPy with start values."""
    description = fmpy.read_model_description(path, validate=True)
    own = {}
    for name, value in start.items():
        elements = [f"{prefix}{name}"]
        if np.ndim(value) and description.fmiVersion.startswith("2"):
            elements = [f"{prefix}{name}[{k + 1}]" for k in range(len(value))]
            own |= dict(zip(elements, value, strict=True))
        else:
            own[elements[0]] = value
    rows = fmpy.simulate_fmu(
        path,
        start_values=own,
        stop_time=1e-3,
        output_interval=1e-3,
        output=[f"{prefix}{name}" for name in OUTPUTS],
        fmi_type=fmi_type,
    )
    return {name: float(rows[f"{prefix}{name}"][0]) for name in OUTPUTS}


def check_start(path, prefix="", fmi_type="CoSimulation"):
    """Check the rotor for start values of q and qd, of the ratio, and of the rotor itself."""
    moved = {"q": [0.7, 0.1], "qd": [0.2, 0.0]}
    row = first_row(path, moved, prefix, fmi_type)
    assert_allclose([row["a_angle"], row["a_rotor_speed"]], [35.0, 10.0], rtol=1e-14)
    assert_allclose([row["a_deflection"], row["a_force"]], 0.0, atol=1e-11)
    row = first_row(path, moved | {"a_gearbox_ratio": 20.0}, prefix, fmi_type)
    assert_allclose([row["a_angle"], row["a_rotor_speed"]], [14.0, 4.0], rtol=1e-14)
    row = first_row(path, moved | {"a_angle": 36.0}, prefix, fmi_type)
    assert_allclose([row["a_angle"], row["a_rotor_speed"]], [36.0, 10.0], rtol=1e-14)
    assert_allclose(row["a_force"], K * (36.0 / RATIO - 0.7), rtol=1e-12)
    row = first_row(path, {}, prefix, fmi_type)
    assert_allclose([row["a_angle"], row["a_rotor_speed"]], [5.0, 15.0], rtol=1e-14)


@pytest.mark.slow
@pytest.mark.parametrize("fmi", [2, 3])
def test_start_position_of_a_joint_sets_the_rotor_start_angle_in_a_native_fmu(fmi, tmp_path):
    path = export_fmu(ARM, tmp_path / "arm.fmu", fmi=fmi)
    for kind in ("CoSimulation", "ModelExchange"):
        check_start(path, "", kind)


@pytest.mark.slow
def test_start_position_of_a_joint_sets_the_rotor_start_angle_in_a_python_fmu(tmp_path):
    script = tmp_path / "arm.py"
    script.write_text(SCRIPT)
    check_start(export_fmu(script, tmp_path / "arm.fmu", "python"))


@pytest.mark.slow
@pytest.mark.parametrize("combine", [ContinuousSystem, lambda system: FusedSystem(system, 1e-3)])
def test_start_position_of_a_joint_sets_the_rotor_start_angle_in_a_system_fmu(combine, tmp_path):
    system = System()
    system.add("robot", ARM, start={"a_command": 0.0})
    check_start(export_fmu(combine(system), tmp_path / "arm.fmu"), "robot.")


def test_rotor_start_angle_that_the_user_sets_does_not_depend_on_the_joint_position():
    system = System()
    system.add("robot", ARM, start={"a_command": 0.0, "a_angle": 7.0})
    memory = Memory(ContinuousSystem(system))
    m = memory.start()
    m[memory.where["robot.q"]] = [0.7, 0.1]
    memory.set_dependent_start_values(m)
    assert m[memory.where["robot.a_angle"]] == 7.0


def test_start_position_of_a_joint_sets_the_rotor_start_angle_at_a_constant_gear_ratio():
    memory = Memory(ARM, tunable=())
    m = memory.start()
    m[memory.where["q"]], m[memory.where["qd"]] = [0.7, 0.1], [0.2, 0.0]
    memory.set_dependent_start_values(m)
    assert_allclose(m[memory.where["a_angle"]], 35.0, rtol=1e-14)
    assert_allclose(m[memory.where["a_rotor_speed"]], 10.0, rtol=1e-14)


def test_start_position_of_a_joint_sets_the_rotor_start_angle_in_a_world():
    scene = World("two arms")
    for name in ("first", "second"):
        scene.add_robot(name, replace(planar2(), contact=((), (Sphere(0.1),))))
    assert "second.joint1" in scene.model().joint_names
    world = scene.soft_plant(1e4, elements=(replace(DRIVE, joint="second.joint1"),))
    found = world.dependent_start_values(
        {"second_q": [[0.7, 0.0], [-0.2, 0.0]], "second_qd": [0.1, 0.0]}
    )
    assert_allclose(found["a_angle"], [35.0, -10.0], rtol=1e-14)
    assert_allclose(found["a_rotor_speed"], 5.0, rtol=1e-14)
    memory = Memory(world)
    m = memory.start()
    m[memory.where["second_q"]] = [0.7, 0.0]
    memory.set_dependent_start_values(m)
    assert_allclose(m[memory.where["a_angle"]], 35.0, rtol=1e-14)


def test_start_position_of_the_driving_joint_sets_the_rotor_start_angle_of_a_driven_joint():
    # q2 = -1.5 q1 + 0.2; the host sets only q1
    gear = Drive("gear", "joint1", follower=Follower("joint2", -1.5, 0.2))
    drive = replace(DRIVE, joint="joint2")
    memory = Memory(RobotPlant(planar2(), elements=(gear, drive)))
    m = memory.start()
    assert_allclose(m[memory.where["a_angle"]], RATIO * 0.2, rtol=1e-14)
    m[memory.where["q"].start], m[memory.where["qd"].start] = 0.4, 0.6
    memory.set_dependent_start_values(m)
    NumpyStepper(memory).initialize(m, 0.0)
    assert_allclose(m[memory.where["q"]], [0.4, -0.4], rtol=1e-14)
    assert_allclose(m[memory.where["a_angle"]], RATIO * -0.4, rtol=1e-14)
    assert_allclose(m[memory.where["a_rotor_speed"]], RATIO * -0.9, rtol=1e-14)
    assert_allclose(m[memory.where["a_force"]], 0.0, atol=1e-11)
