"""The pose and velocity of the tip of the planar robot of two links."""

from rigidblocks.algebra.spatial import xlt
from rigidblocks.fmi.slave import BlockSlave
from rigidblocks.library import Frame, FrameKinematics
from rigidblocks.robots import planar2


class Planar2Tool(BlockSlave):
    """The frame at the end of the second link."""

    def __init__(self, **kwargs):
        tool = Frame("tool", "body2", xlt([1.0, 0.0, 0.0]))
        super().__init__(FrameKinematics(planar2(), (tool,)), **kwargs)
