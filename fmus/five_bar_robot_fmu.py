"""The five-bar mechanism, its loop closed inside."""

from rigidblocks.fmi.slave import BlockSlave
from rigidblocks.library import ClosedLoopPlant
from rigidblocks.mechanisms import five_bar


class FiveBarRobot(BlockSlave):
    """The dynamics of the mechanism: forces on its joints in, motion of its joints out."""

    def __init__(self, **kwargs):
        super().__init__(ClosedLoopPlant(*five_bar()), **kwargs)
