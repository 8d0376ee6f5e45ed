"""The five-bar mechanism as one plant, which closes the loop by constraints."""

from rigidblocks.fmi.slave import BlockSlave
from rigidblocks.library import ClosedLoopPlant
from rigidblocks.robot.robots import five_bar


class FiveBarRobot(BlockSlave):
    """Dynamics of the mechanism, with joint forces as inputs and joint motion as outputs."""

    def __init__(self, **kwargs):
        super().__init__(ClosedLoopPlant(*five_bar()), **kwargs)
