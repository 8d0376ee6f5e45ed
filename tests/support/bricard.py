"""Bricard's linkage of six revolute joints at right angles, the IFToMM benchmark problem A04.

Its five bars of 1 m and 1 kg and the ground start as the edges of a cube.
"""

import numpy as np

from rigidblocks.robot.joints import LoopJoint, Revolute
from rigidblocks.robot.model import Model
from rigidblocks.robot.robots import Mechanism
from rigidblocks.spatial.spatial import identity, mcI, xlt

# directions along the edges of a hexagon; the last one is the ground
EDGES = np.vstack([np.eye(3), -np.eye(3)])


def bricard(gravity=(0.0, -9.81, 0.0)):
    """Return the linkage at rest; each joint's axis is perpendicular to both of its edges.

    One of the loop's five constraints is redundant.
    """
    axes = np.abs(np.cross(np.roll(EDGES, 1, axis=0), EDGES))
    bars = [mcI(1.0, e / 2, (np.eye(3) - np.outer(e, e)) / 12) for e in EDGES[:5]]
    model = Model(
        "bricard",
        (-1, 0, 1, 2, 3),
        tuple(Revolute(axis) for axis in axes[:5]),
        (identity(), *map(xlt, EDGES[:4])),
        tuple(bars),
        np.array(gravity),
        loops=(LoopJoint(Revolute(axes[5]), 4, -1, xlt(EDGES[4]), xlt(-EDGES[5]), "closure"),),
    )
    return Mechanism(model, np.zeros(5), np.zeros(5))
