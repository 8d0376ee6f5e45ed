"""The planar two-link robot with external forces on its links."""

from rigidblocks.fmi.slave import BlockSlave
from rigidblocks.library import RobotPlant
from rigidblocks.robot.robots import planar2


class Planar2Pushed(BlockSlave):
    """Dynamics of the robot; the inputs are joint forces and a wrench on each link."""

    def __init__(self, **kwargs):
        super().__init__(RobotPlant(planar2(), external_wrenches=True), **kwargs)
