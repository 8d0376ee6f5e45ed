"""The five-bar mechanism with its loop cut; another block provides the constraint forces."""

from rigidblocks.fmi.slave import BlockSlave
from rigidblocks.library import CutLoopPlant
from rigidblocks.robot.robots import five_bar


class FiveBarCut(BlockSlave):
    """Dynamics of the two arms, and the quantities that the loop closure needs."""

    def __init__(self, **kwargs):
        super().__init__(CutLoopPlant(*five_bar()), **kwargs)
