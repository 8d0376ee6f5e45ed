"""Pose and velocity of the tip of the planar two-link robot."""

from rigidblocks.fmi.slave import BlockSlave
from rigidblocks.library import Frame, FrameKinematics
from rigidblocks.robot.robots import planar2
from rigidblocks.spatial.spatial import xlt


class Planar2Tool(BlockSlave):
    """Frame at the end of the second link."""

    def __init__(self, **kwargs):
        tool = Frame("tool", "body2", xlt([1.0, 0.0, 0.0]))
        super().__init__(FrameKinematics(planar2(), (tool,)), **kwargs)
