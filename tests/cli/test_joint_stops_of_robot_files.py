"""FMU of an arm for a test bench: stops at its limits, a wrench input and the pose of its tool."""

import numpy as np
import pytest
from fmpy import read_model_description, simulate_fmu
from numpy.testing import assert_allclose

from rigidblocks.cli import main
from rigidblocks.dynamics.force_laws import Stop
from rigidblocks.library.plant_from_file import described_elements
from rigidblocks.robot.robot_description import JointProperties, RobotDescription
from rigidblocks.robot.robots import planar_n

SLIDE = """<robot name="slide">
<link name="rail"/>
<link name="cart"><inertial><mass value="2"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0"
iyz="0"/></inertial></link>
<joint name="x" type="prismatic"><parent link="rail"/><child link="cart"/><axis xyz="1 0 0"/>
<limit lower="-0.5" upper="0.25" effort="10" velocity="1"/></joint>
<link name="tool"/>
<joint name="mount" type="fixed"><parent link="cart"/><child link="tool"/>
<origin xyz="0.1 0 0" rpy="0 0 1.5707963267948966"/></joint>
</robot>"""


def test_stops_option_of_the_fmu_command_adds_stops_at_finite_joint_limits():
    model = planar_n(3)
    limits = JointProperties.from_values(
        3, lower=[-1.0, -np.inf, -np.inf], upper=[2.0, np.inf, 3.0]
    )
    elements = described_elements(RobotDescription(model, limits), stops=(1e4, 50.0))
    ends = [element.law for element in elements]
    assert all(isinstance(law, Stop) for law in ends)
    assert [(law.lower, law.upper, law.K, law.D) for law in ends] == [
        (-1.0, 2.0, 1e4, 50.0),
        (-np.inf, 3.0, 1e4, 50.0),
    ]


@pytest.mark.slow
def test_tool_force_compresses_a_joint_stop_by_force_divided_by_stiffness(tmp_path):
    """20 N along the tool's -y axis, the rail's x axis, compress the stop by F / K."""
    urdf, fmu, K = tmp_path / "slide.urdf", tmp_path / "slide.fmu", 2e3
    urdf.write_text(SLIDE)
    asked = ["--forces", "tool", "--frames", "tool", "--stops", f"{K},200"]
    assert main(["fmu", str(urdf), "-o", str(fmu), *asked]) == 0
    run = simulate_fmu(
        str(fmu),
        stop_time=3.0,
        output_interval=1e-3,
        start_values={"forces.wrench_tool[5]": -20.0},
        output=["robot.q[1]", "frames.p_tool[1]"],
    )
    t, q = run["time"], run["robot.q[1]"]
    assert_allclose(q[t <= 0.2], 20.0 / 2.0 * t[t <= 0.2] ** 2 / 2.0, atol=1e-6)
    assert_allclose(q[-1], 0.25 + 20.0 / K, atol=1e-5)
    assert_allclose(run["frames.p_tool[1]"], q + 0.1, atol=1e-12)
    variables = read_model_description(fmu).modelVariables
    shown = {one.name.partition(".")[0] for one in variables if one.causality == "output"}
    assert shown == {"robot", "frames"}  # the wrenches of all bodies are internal


def test_invalid_stops_and_frames_of_a_robot_are_rejected(tmp_path, capsys):
    urdf = tmp_path / "slide.urdf"
    urdf.write_text(SLIDE)
    for text in ("1e4", "stiff,50", "-1,0", "1e4,nan"):
        assert main(["fmu", str(urdf), f"--stops={text}"]) == 2
        assert "--stops needs a stiffness and a damping, such as 1e4,50" in capsys.readouterr().err
    assert main(["fmu", str(urdf), "--forces", "tol"]) == 2
    error = capsys.readouterr().err
    assert "unknown frame 'tol'; did you mean 'tool'?; frames on moving bodies: " in error
    assert "tool" in error.partition("bodies: ")[2].split(", ")[-1]
