"""The planar two-link robot."""

from rigidblocks.fmi.slave import BlockSlave
from rigidblocks.library import RobotPlant
from rigidblocks.robot.robots import planar2


class Planar2Robot(BlockSlave):
    """Dynamics of the robot, with joint forces as inputs and joint motion as outputs."""

    def __init__(self, **kwargs):
        super().__init__(RobotPlant(planar2()), **kwargs)
