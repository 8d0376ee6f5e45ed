"""Mechanisms of Spencer 2004 and their coordinates."""

import numpy as np

from rigidblocks.robot.joints import LoopJoint, PlanarPrismatic, PlanarRevolute
from rigidblocks.robot.model import PlanarModel
from rigidblocks.spatial.planar import mcI, xlt


def parallelogram(L1=1.0, L2=0.6):
    """Return two chains of one and three links with common ends (Spencer 2004, 2.4.1)."""
    link = [mcI(1.0, [L / 2, 0.0], 0.1) for L in (L1, L2, L1, L2)]
    Xtree = (xlt([0.0, 0.0]), xlt([0.0, 0.0]), xlt([L2, 0.0]), xlt([L1, 0.0]))
    loop = LoopJoint(PlanarRevolute(), 0, 3, xlt([L1, 0.0]), xlt([L2, 0.0]))
    return PlanarModel(
        "parallelogram",
        (-1, -1, 1, 2),
        (PlanarRevolute(),) * 4,
        Xtree,
        link,
        np.zeros(2),
        loops=(loop,),
    )


def cartesian_pendulum(m=2.0, I=0.3):
    """Return a rod on slides along x and y, held at 1 m from its frame to the origin.

    q = (x, y, angle)
    """
    joints = (PlanarPrismatic("x"), PlanarPrismatic("y"), PlanarRevolute())
    nothing = mcI(0.0, [0.0, 0.0], 0.0)
    loop = LoopJoint(PlanarRevolute(), -1, 2, xlt([0.0, 0.0]), xlt([-1.0, 0.0]), "pivot")
    return PlanarModel(
        "pendulum",
        (-1, 0, 1),
        joints,
        (xlt([0.0, 0.0]),) * 3,
        (nothing, nothing, mcI(m, [0.0, 0.0], I)),
        np.array([0.0, -9.81]),
        massless=("body1", "body2"),
        loops=(loop,),
    )


class Arc:
    """Angle of a point on the first two joints, as a nonlinear coordinate of the pendulum."""

    def R(self, q, y):
        return np.array([np.arctan2(q[1], q[0]) - y[0] ** 3])

    def D1(self, q, y):
        del y
        return np.array([[-q[1], q[0], 0.0]]) / (q[0] ** 2 + q[1] ** 2)

    def D2(self, q, y):
        del q
        return np.array([[-3 * y[0] ** 2]])
