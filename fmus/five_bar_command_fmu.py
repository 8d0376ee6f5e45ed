"""Command that moves the base joints of the five-bar mechanism back and forth."""

from rigidblocks.fmi.slave import BlockSlave
from rigidblocks.library import RepeatingSequence
from rigidblocks.robot.robots import five_bar

START = five_bar().q0


class FiveBarCommand(BlockSlave):
    """Command that turns both lower links to the right and back.

    The angles of the knees follow from the base joints and are not commanded.
    """

    def __init__(self, **kwargs):
        there = START - [0.6, 0.0, 0.5, 0.0]
        super().__init__(
            RepeatingSequence(t=[0, 1, 2, 3, 4], y=[START, there, there, START, START]), **kwargs
        )
