"""Andrews' squeezing mechanism (Test Set for IVP Solvers, Mazzia and Magherini).

It has seven bodies, three loops, and a spring from body K3 to the ground. There is no gravity, so
only the distance of a centre of mass matters.

The angles have the names of the test set: beta, Theta of K1, K2; gamma of K3; delta, Phi of K5, K4;
epsilon, Omega of K7, K6.
"""

import numpy as np

from rigidblocks.dynamics.force_elements import Between, ForceElement
from rigidblocks.dynamics.force_laws import Spring
from rigidblocks.robot.joints import LoopJoint
from rigidblocks.robot.model import PlanarModel
from rigidblocks.robot.robots import PIN
from rigidblocks.spatial import planar

D, DA, E, EA, RR, RA = 0.028, 0.0115, 0.02, 0.01421, 0.007, 0.00092
SS, SA, SB, SC, SD = 0.035, 0.01874, 0.01043, 0.018, 0.02
TA, TB, U, UA, UB, ZF, ZT, FA = 0.02308, 0.00916, 0.04, 0.01228, 0.00449, 0.02, 0.04, 0.01421
A, B, C = (-0.06934, -0.00227), (-0.03635, 0.03273), (0.014, 0.072)
TORQUE = 0.033  # [N m] at beta
MODEL = PlanarModel(
    "squeezer",
    (-1, 0, -1, -1, 3, -1, 5),
    (PIN,) * 7,
    tuple(map(planar.xlt, ((0.0, 0.0), (RR, 0.0), B, A, (ZT, 0.0), A, (0.0, -U)))),
    (
        planar.mcI(0.04325, [RA, 0.0], 2.194e-6),
        planar.mcI(0.00365, [-DA, 0.0], 4.410e-7),
        planar.mcI(0.02373, [SA, SB], 5.255e-6),
        planar.mcI(0.07050, [TA, TB], 1.169e-5),
        planar.mcI(0.00706, [0.0, EA - E], 5.667e-7),
        planar.mcI(0.05498, [UA, UB], 1.912e-5),
        planar.mcI(0.00706, [ZF - FA, 0.0], 5.667e-7),
    ),
    np.zeros(2),
    ("K1", "K2", "K3", "K5", "K4", "K7", "K6"),
    ("beta", "Theta", "gamma", "delta", "Phi", "epsilon", "Omega"),
    loops=tuple(
        LoopJoint(PIN, 1, body, planar.xlt([-D, 0.0]), planar.xlt(tip), name)
        for body, tip, name in (
            (2, [0.0, -SS], "g12"),
            (4, [0.0, -E], "g34"),
            (6, [ZF, 0.0], "g56"),
        )
    ),
)
SPRING = ForceElement("spring", Between("K3", (SD, -SC), None, C), Spring(4530.0, rest=0.07785))
START = {
    "beta": -0.0617138900142764,
    "Theta": 0.0,
    "gamma": 0.455279819163070,
    "Phi": 0.222668390165886,
    "delta": 0.487364979543843,
    "Omega": -0.222668390165886,
    "epsilon": 1.23054744454982,
}
END = {  # solution at t = 0.03 s
    "beta": 15.81077119629904,
    "Theta": -15.75637105984298,
    "gamma": 0.04082224013073101,
    "Phi": -0.5347301163226948,
    "delta": 0.5244099658805304,
    "Omega": 0.5347301163226948,
    "epsilon": 1.048080741042263,
}


def angles(values):
    """Return the angles in the order of the joints."""
    return np.array([values[name] for name in MODEL.joint_names])
