"""Bricard's linkage of six revolute joints at right angles, as in the IFToMM benchmark problem A04:
five bars of 1 m and 1 kg and the ground, which start as the edges of a cube.
"""

import numpy as np

from rigidblocks.algebra.spatial import identity, mcI, xlt
from rigidblocks.joint import LoopJoint, Revolute
from rigidblocks.mechanisms import Mechanism
from rigidblocks.model.model import Model

# along the sides of a hexagon of edges, the last one the ground
EDGES = np.vstack([np.eye(3), -np.eye(3)])


def bricard(gravity=(0.0, -9.81, 0.0)):
    """The linkage at rest; each joint's axis is across both of its edges. One of the loop's five
    constraints depends on the others.
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
