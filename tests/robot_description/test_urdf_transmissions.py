"""Transmissions in URDF files: kinematics of ros_control, virtual work, and rejected elements."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from library_runs import outputs
from rigidblocks.dynamics.motors import TorqueMotor
from rigidblocks.library.plant_from_file import described_drives, described_plant
from rigidblocks.robot_description.json_file import save_model
from rigidblocks.robot_description.load import load_model

ROBOT = """<?xml version="1.0"?>
<robot name="arm">
  <link name="base"/>
  <link name="upper"><inertial><origin xyz="0.3 0 0"/><mass value="2"/>
    <inertia ixx="0.1" iyy="0.2" izz="0.3" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <link name="lower"><inertial><origin xyz="0.2 0.1 0"/><mass value="1"/>
    <inertia ixx="0.1" iyy="0.2" izz="0.1" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <joint name="joint1" type="revolute"><parent link="base"/><child link="upper"/>
    <axis xyz="0 0 1"/><limit lower="-3" upper="3" effort="100" velocity="5"/></joint>
  <joint name="joint2" type="revolute"><parent link="upper"/><child link="lower"/>
    <origin xyz="0.6 0 0"/><axis xyz="0 1 0"/>
    <limit lower="-3" upper="3" effort="100" velocity="5"/></joint>
  {}
</robot>
"""
# reductions of the actuators and of the joints, of ros2_control's own tests
A1, A2, J1, J2 = 50.0, -50.0, 2.0, -2.0


def ros1(kind, order=(1, 2)):
    """Return a <transmission> of ros_control with two actuators and two joints."""
    actuators, joints = {1: A1, 2: A2}, {1: J1, 2: J2}
    return "\n".join(
        [
            f'<transmission name="t"><type>transmission_interface/{kind}</type>',
            *(
                f'<actuator name="m{k}"><role>actuator{k}</role>'
                f"<mechanicalReduction>{actuators[k]}</mechanicalReduction></actuator>"
                for k in order
            ),
            *(
                f'<joint name="joint{k}"><role>joint{k}</role><offset>0.5</offset>'
                f"<hardwareInterface>EffortJointInterface</hardwareInterface>"
                f"<mechanicalReduction>{joints[k]}</mechanicalReduction></joint>"
                for k in order
            ),
            "</transmission>",
        ]
    )


def ros2(kind):
    """Return the same transmission of ros2_control."""
    return f"""<ros2_control name="r" type="system"><transmission name="t">
      <plugin>transmission_interface/{kind}</plugin>
      <actuator name="m1" role="actuator1">
        <mechanical_reduction>{A1}</mechanical_reduction></actuator>
      <actuator name="m2" role="actuator2">
        <mechanical_reduction>{A2}</mechanical_reduction></actuator>
      <joint name="joint1" role="joint1"><mechanical_reduction>{J1}</mechanical_reduction></joint>
      <joint name="joint2" role="joint2"><mechanical_reduction>{J2}</mechanical_reduction></joint>
    </transmission></ros2_control>"""


def load(folder, text):
    path = folder / "arm.urdf"
    path.write_text(ROBOT.format(text))
    return load_model(path)


# motor speeds of ros_control at the joint velocities (v1, v2)
SPEEDS = {
    "DifferentialTransmission": np.array([[A1 * J1, A1 * J2], [A2 * J1, -A2 * J2]]),
    "FourBarLinkageTransmission": np.array([[A1 * J1, 0.0], [A2, A2 * J2]]),
}


@pytest.mark.parametrize("kind", SPEEDS)
@pytest.mark.parametrize("form", ["ros1", "reversed", "ros2"])
def test_joint_power_of_a_transmission_equals_its_motor_power(kind, form, tmp_path):
    # virtual work: sum(tau qd) = sum(torque speed) for all qd, so tau = A^T torque
    text = {"ros1": ros1(kind), "reversed": ros1(kind, (2, 1)), "ros2": ros2(kind)}[form]
    robot = load(tmp_path, text)
    assert not robot.warnings
    commands = {"m1": 0.03, "m2": -0.02}
    state = {"q": [0.3, -0.4], "qd": [0.5, 0.2]}
    driven = outputs(
        described_plant(robot, actuators=True),
        **state,
        **{f"{name}_command": value for name, value in commands.items()},
    )
    tau = SPEEDS[kind].T @ np.array(list(commands.values()))
    assert_allclose(
        driven["qdd"], outputs(described_plant(robot), **state, tau=tau)["qdd"], rtol=1e-12
    )


def test_joint_effort_limit_bounds_the_joint_force_of_a_differential(tmp_path):
    # without limits the joint torques are A^T torque = (200, 0); the file permits 100 at joint1
    robot = load(tmp_path, ros1("DifferentialTransmission"))
    driven = outputs(described_plant(robot, actuators=True), m1_command=1.0, m2_command=-1.0)
    bounded = outputs(described_plant(robot), tau=[100.0, 0.0])
    assert_allclose(driven["qdd"], bounded["qdd"], rtol=1e-12)


SIMPLE = (
    '<transmission name="t{0}">{1}<joint name="{2}">{3}</joint>'
    '<actuator name="m{0}">{4}</actuator></transmission>'
)
REDUCTION = "<mechanicalReduction>{}</mechanicalReduction>"


@pytest.mark.parametrize(
    ("text", "ratio"),
    [
        (SIMPLE.format(1, "", "joint2", "", REDUCTION.format(-80)), -80.0),
        (SIMPLE.format(1, REDUCTION.format(30), "joint2", "", ""), 30.0),
        (SIMPLE.format(1, "<type>SimpleTransmission</type>", "joint2", "", ""), 1.0),
        (SIMPLE.format(1, "", "joint2", REDUCTION.format(5), REDUCTION.format(7)), 7.0),
        (
            "<ros2_control><transmission name='t'><plugin>transmission_interface/SimpleTransmission"
            "</plugin><joint name='joint2'><mechanical_reduction>9</mechanical_reduction></joint>"
            "<actuator name='m1'/></transmission></ros2_control>",
            9.0,
        ),
    ],
)
def test_simple_transmission_becomes_a_torque_motor_with_its_gear_ratio(text, ratio, tmp_path):
    (drive,) = described_drives(load(tmp_path, text))
    assert drive.joint == "joint2"
    assert isinstance(drive.motor, TorqueMotor)
    assert drive.gearbox.ratio == ratio
    assert drive.effort == 100.0


def test_transmission_actuators_are_equal_after_a_round_trip_through_json(tmp_path):
    robot = load(tmp_path, ros1("DifferentialTransmission"))
    save_model(robot, tmp_path / "arm.json")
    assert load_model(tmp_path / "arm.json").actuators == robot.actuators


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (ros1("HarmonicTransmission"), "its type is 'HarmonicTransmission', not Simple"),
        (SIMPLE.format(1, "", "elbow", "", ""), "joint 'elbow' is missing, or has"),
        (
            SIMPLE.format(1, "", "joint1", "", "") + "\n" + SIMPLE.format(2, "", "joint1", "", ""),
            "the transmission in line 13 already drives joint 'joint1'",
        ),
        (
            SIMPLE.format(1, "", "joint1", "", "") + SIMPLE.format(1, "", "joint2", "", ""),
            "another transmission has the actuator 'm1'",
        ),
        (
            SIMPLE.format(1, "<type>DifferentialTransmission</type>", "joint1", "", ""),
            "it has 1 actuators and 1 joints; a DifferentialTransmission needs 2 of each",
        ),
        (
            ros1("FourBarLinkageTransmission").replace('name="joint2"', 'name="joint1"'),
            "its joints are equal",
        ),
    ],
)
def test_unsupported_transmission_is_reported_with_its_line_number(text, message, tmp_path):
    warnings = [one for one in load(tmp_path, text).warnings if message in one]
    assert len(warnings) == 1
    assert warnings[0].startswith(("line 13:", "line 14:"))


@pytest.mark.parametrize("value", ["0", "one", "inf", "1 2", "1_000", "\uff15", ""])
def test_transmission_with_an_invalid_reduction_is_reported_with_its_line_number(value, tmp_path):
    """The dynamics do not depend on the reduction, and published files contain a wrong one."""
    text = SIMPLE.format(1, "", "joint1", "", REDUCTION.format(value))
    robot = load(tmp_path, text)
    assert robot.actuators == ()
    said = f"<mechanicalReduction> must be a finite number other than 0, not '{value}'"
    assert any(one.startswith("line 13: ") and said in one for one in robot.warnings)


@pytest.mark.parametrize(
    ("motor", "joint1", "joint2"),
    [(1e200, 1e200, 1.0), (1e-10, 1e-300, 1e20), (1e-10, 1e-320, 1.0)],
)
def test_transmission_with_an_infinite_or_zero_gear_ratio_is_reported(
    motor, joint1, joint2, tmp_path
):
    text = ros1("DifferentialTransmission")
    for value, other in ((A1, motor), (J1, joint1), (J2, joint2)):
        text = text.replace(f">{value}<", f">{other}<")
    robot = load(tmp_path, text)
    assert robot.actuators == ()
    assert any("the gear ratios" in one and one.startswith("line 13: ") for one in robot.warnings)
