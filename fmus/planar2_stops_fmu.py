"""Stops at the ends of the joints of the planar two-link robot."""

from rigidblocks.fmi.slave import BlockSlave
from rigidblocks.library import JointLimits
from rigidblocks.robot.robots import planar2


class Planar2Stops(BlockSlave):
    """Stops at +-90 degrees for the first joint; the second joint bends to only one side."""

    def __init__(self, **kwargs):
        super().__init__(
            JointLimits(planar2(), (-1.57, 0.0), (1.57, 2.6), K=500.0, D=5.0), **kwargs
        )
