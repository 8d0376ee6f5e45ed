"""The commanded angles of the five-bar mechanism's base joints, and back."""

from rigidblocks.fmi.slave import BlockSlave
from rigidblocks.library import RepeatingSequence
from rigidblocks.mechanisms import five_bar

START = five_bar().q0


class FiveBarCommand(BlockSlave):
    """Both lower links turn to the right and back; what the knees are to do follows from them and
    is not commanded.
    """

    def __init__(self, **kwargs):
        there = START - [0.6, 0.0, 0.5, 0.0]
        super().__init__(
            RepeatingSequence(t=[0, 1, 2, 3, 4], y=[START, there, there, START, START]), **kwargs
        )
