"""A test bench of an arm, which consists only of library blocks.

The bench has a PD controller with gravity compensation, and drives with a lag and friction. It also
has stops at the joint limits and a force at the tool. The arm moves between poses while a force of
20 N along the tool's axis pushes it for half a second.

A block `JointWrenches` computes the bearing loads of the joints. The script writes
build/arm_bench/result.png.
"""

from pathlib import Path

import numpy as np

from rigidblocks import (
    Friction,
    PDController,
    RepeatingSequence,
    RobotPlant,
    System,
    planar2,
    simulate,
)
from rigidblocks.dynamics.drives import Drive, Gearbox
from rigidblocks.dynamics.motors import TorqueMotor
from rigidblocks.library import (
    Frame,
    FrameKinematics,
    FrameWrenches,
    Gain,
    GravityCompensation,
    JointLimits,
    JointWrenches,
    Mux,
    Step,
    Sum,
)
from rigidblocks.spatial.spatial import xlt

BUILD = Path("build/arm_bench")
T_STOP, DT = 4.0, 1e-3
RATIO = (100.0, 80.0)
MOTOR = TorqueMotor(torque_max=2.0, time_constant=2e-3)
MODEL = planar2().with_gravity((0.0, -9.81, 0.0))
TOOL = Frame("tool", "body2", xlt([1.0, 0.0, 0.0]))


WIRES = (
    ("command.y", "pd.q_ref"),
    ("command.slope", "pd.qd_ref"),
    ("robot.q", "pd.q"),
    ("robot.qd", "pd.qd"),
    ("robot.q", "gravity.q"),
    ("pd.tau", "wanted.u1"),
    ("gravity.tau", "wanted.u2"),
    ("wanted.y", "gear.u"),
    ("gear.y[1]", "robot.shoulder_command"),
    ("gear.y[2]", "robot.elbow_command"),
    ("robot.q", "stops.q"),
    ("robot.qd", "stops.qd"),
    ("stops.tau", "robot.tau"),
    ("push.y", "pushed.u1"),
    ("release.y", "pushed.u2"),
    ("pushed.y", "tool.wrench_tool[4]"),
    ("robot.q", "tool.q"),
    ("tool.f_ext", "robot.f_ext"),
    ("robot.q", "frames.q"),
    ("robot.qd", "frames.qd"),
    ("robot.qdd", "frames.qdd"),
    ("robot.q", "bearings.q"),
    ("robot.qd", "bearings.qd"),
    ("robot.qdd", "bearings.qdd"),
    ("tool.f_ext", "bearings.f_ext"),
    ("robot.q[1]", "scope.u1"),
    ("stops.at_limit[2]", "scope.u2"),
    ("bearings.f_base[4:6]", "scope.u3"),
)


def bench():
    """Return the system of all parts and connections."""
    system = System()
    add_controlled_arm(system)
    add_tool_force(system)
    add_sensors(system)
    for source, target in WIRES:
        system.connect(source, target)
    return system


def add_controlled_arm(system):
    """Add the arm with its drives, its command, its controller and its stops."""
    drives = tuple(
        Drive(name, k, MOTOR, Gearbox(RATIO[k]), friction=Friction(0.2, 0.5))
        for k, name in enumerate(("shoulder", "elbow"))
    )
    start = (-np.pi / 2, 0.0)
    system.add("robot", RobotPlant(MODEL, q0=start, external_wrenches=True, elements=drives))
    poses = ((-np.pi / 2, 0.0), (0.5, -0.5), (0.5, -0.5), (-np.pi / 2, 0.0))
    system.add("command", RepeatingSequence((0.0, 1.0, 2.0, 4.0), poses))
    system.add("pd", PDController(kp=(400.0, 100.0), kd=(40.0, 10.0)))
    system.add("gravity", GravityCompensation(MODEL))
    system.add("wanted", Sum("++", 2, "N.m"))
    system.add("gear", Gain(tuple(1 / r for r in RATIO), unit="N.m", unit_in="N.m"))
    system.add("stops", JointLimits(MODEL, (-np.pi, -0.4), (np.pi, 2.0), 5e3, 40.0))


def add_tool_force(system):
    """Add a force of 20 N that pushes the tool for half a second."""
    system.add("push", Step(2.5, 0.0, 20.0, unit="N"))
    system.add("release", Step(3.0, 0.0, -20.0, unit="N"))
    system.add("pushed", Sum("++", 1, "N"))
    system.add("tool", FrameWrenches(MODEL, (TOOL,)))


def add_sensors(system):
    """Add the motion of the tool, the bearing loads, and three signals for display."""
    system.add("frames", FrameKinematics(MODEL, (TOOL,), accelerations=True))
    system.add("bearings", JointWrenches(MODEL))
    system.add("scope", Mux((1, 1, 3)))


def main():
    result = simulate(bench(), T_STOP, DT, progress=False)
    q, reached = result["robot.q"], result["scope.y"]
    lowest = q[:, 1].min()
    print(f"the second joint is asked for -0.5 rad; its stop at -0.4 rad holds it at {lowest:.3f}")
    print(f"the stop pushes for {np.sum(reached[:, 1] != 0) * DT:.2f} s")
    weight = sum(float(I.m) for I in MODEL.inertia) * 9.81
    print(f"hanging at rest the base bears {reached[0, 3]:.2f} N; the arm weighs {weight:.2f} N")
    BUILD.mkdir(parents=True, exist_ok=True)
    result.plot("robot.q", "command.y", "scope.y", path=BUILD / "result.png")


if __name__ == "__main__":
    main()
