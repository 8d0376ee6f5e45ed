"""The five-bar mechanism with its loop closed inside."""

from rigidblocks.fmi.slave import BlockSlave
from rigidblocks.library import ClosedLoopPlant
from rigidblocks.robot.robots import five_bar


class FiveBarRobot(BlockSlave):
    """Dynamics of the mechanism: joint forces in, joint motion out."""

    def __init__(self, **kwargs):
        super().__init__(ClosedLoopPlant(*five_bar()), **kwargs)
