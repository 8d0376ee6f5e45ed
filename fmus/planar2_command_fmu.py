"""Command of the planar two-link robot: out, hold, back, hold, with a period of four seconds."""

from rigidblocks.fmi.slave import BlockSlave
from rigidblocks.library import RepeatingSequence


class Planar2Command(BlockSlave):
    """Reference position and reference velocity of each joint."""

    def __init__(self, **kwargs):
        positions = ((0, 0), (1, 1.5), (1, 1.5), (0, 0), (0, 0))
        super().__init__(RepeatingSequence(t=(0, 1, 2, 3, 4), y=positions), **kwargs)
