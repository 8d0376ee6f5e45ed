"""The planar robot of two links."""

from rigidblocks.fmi.slave import BlockSlave
from rigidblocks.library import RobotPlant
from rigidblocks.robots import planar2


class Planar2Robot(BlockSlave):
    """The dynamics of the robot: joint forces in, joint motion out."""

    def __init__(self, **kwargs):
        super().__init__(RobotPlant(planar2()), **kwargs)
