"""The command of the planar robot of two links: out, hold, back, hold, every four seconds."""

from rigidblocks.fmi.slave import BlockSlave
from rigidblocks.library import RepeatingSequence


class Planar2Command(BlockSlave):
    """The reference position of each joint and its slope."""

    def __init__(self, **kwargs):
        positions = ((0, 0), (1, 1.5), (1, 1.5), (0, 0), (0, 0))
        super().__init__(RepeatingSequence(t=(0, 1, 2, 3, 4), y=positions), **kwargs)
