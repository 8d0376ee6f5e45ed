"""The planar robot of two links with forces of its surroundings on its links."""

from rigidblocks.fmi.slave import BlockSlave
from rigidblocks.library import RobotPlant
from rigidblocks.robots import planar2


class Planar2Pushed(BlockSlave):
    """The dynamics of the robot: joint forces and a wrench on each link in, joint motion out."""

    def __init__(self, **kwargs):
        super().__init__(RobotPlant(planar2(), external_wrenches=True), **kwargs)
