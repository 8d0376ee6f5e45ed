"""Stiff mechanisms: the flyball governor of IFToMM benchmark A05, and a stiffly controlled arm."""

import numpy as np

from rigidblocks import (
    ForceElement,
    Model,
    PDController,
    Prismatic,
    Revolute,
    RobotPlant,
    Sine,
    Spring,
    System,
)
from rigidblocks.cosim.graph.block_merging import ContinuousSystem
from rigidblocks.dynamics.force_elements import Between
from rigidblocks.robot.robots import dh_chain
from rigidblocks.spatial.spatial import mcI, roty, rotz, xlt

DENSITY = 3000.0
FLIP = np.array([-1.0, -1.0, 1.0])
LENGTHS, MASSES = (0.34, 0.1, 0.4, 0.1, 0.4, 0.1, 0.15), (4.0, 4.0, 3.0, 2.7, 1.7, 1.6, 0.4)
HEIGHTS = {0.5: 0.7432494248, 1.0: 0.5014209224, 2.0: 0.5059092943, 5.0: 0.5355631037}


def _box(sides, centre):
    """Return the inertia of a box of the benchmark's density."""
    x, y, z = np.square(sides)
    m = DENSITY * float(np.prod(sides))
    return mcI(m, centre, m / 12 * np.diag([y + z, x + z, x + y]))


def _spring(rod, side):
    """Return the spring between the centre of a rod and the side of the slider."""
    ends = Between(rod, (0.5, 0.0, 0.0), "slider", (side, 0.0, 0.0))
    return ForceElement(f"{rod}_spring", ends, Spring(K=8e5, D=4e4, rest=0.5))


def flyball_governor():
    """Return the governor at its start.

    q = (shaft angle, slider height, angles of the two rods from their start).
    """
    ball = mcI(5.0, (1.0, 0.0, 0.0), np.zeros((3, 3)))
    rod = _box((1.0, 0.01, 0.01), (0.5, 0.0, 0.0)) + ball
    hinge, low = np.array([0.05, 0.0, 1.0]), roty(np.radians(30.0))
    model = Model(
        "flyball_governor",
        (-1, 0, 0, 0),
        (Revolute(), Prismatic(), Revolute((0.0, 1.0, 0.0)), Revolute((0.0, 1.0, 0.0))),
        (xlt([0.0] * 3), xlt([0.0] * 3), low @ xlt(hinge), low @ rotz(np.pi) @ xlt(hinge * FLIP)),
        (_box((0.01, 0.01, 1.0), (0.0, 0.0, 0.5)), _box((0.1,) * 3, (0.0,) * 3), rod, rod),
        body_names=("shaft", "slider", "right", "left"),
        joint_names=("turn", "slide", "right_hinge", "left_hinge"),
    )
    springs = _spring("right", 0.05), _spring("left", -0.05)
    start, speed = np.array([0.0, 0.5, 0.0, 0.0]), np.array([2.0 * np.pi, 0.0, 0.0, 0.0])
    return RobotPlant(model, start, speed, elements=springs)


def arm_of_seven_joints():
    """Return the model of an arm with seven joints."""
    rows = [(0.0, side * np.pi / 2, d, 0.0) for side, d in zip((1, -1) * 4, LENGTHS, strict=False)]
    inertia = [
        mcI(m, (0.0, 0.0, d / 2), m * (d * d / 12 + 0.003) * np.eye(3))
        for m, d in zip(MASSES, LENGTHS, strict=True)
    ]
    return dh_chain(rows, inertia, name="arm")


def stiff_arm(kp=2e4, kd=4e2):
    """Return an arm of seven joints with a continuous controller.

    The command of each joint is a motion of 0.5 rad at 0.5 Hz.
    """
    system = System()
    system.add("arm", RobotPlant(arm_of_seven_joints()))
    system.add("pd", PDController(kp=[kp] * 7, kd=[kd] * 7))
    system.add("command", Sine(amplitude=[0.5] * 7, frequency=[0.5] * 7, phase=np.arange(7.0)))
    for source, target in (
        ("command.y", "pd.q_ref"),
        ("command.slope", "pd.qd_ref"),
        ("arm.q", "pd.q"),
        ("arm.qd", "pd.qd"),
        ("pd.tau", "arm.tau"),
    ):
        system.connect(source, target)
    return ContinuousSystem(system)
