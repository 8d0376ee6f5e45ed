"""The five-bar mechanism with its loop cut: the constraint forces come from another block."""

from rigidblocks.fmi.slave import BlockSlave
from rigidblocks.library import CutLoopPlant
from rigidblocks.mechanisms import five_bar


class FiveBarCut(BlockSlave):
    """The dynamics of the two arms, and what the closure of the loop needs to know of them."""

    def __init__(self, **kwargs):
        super().__init__(CutLoopPlant(*five_bar()), **kwargs)
