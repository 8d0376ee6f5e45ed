"""The pin of the five-bar mechanism, as a stiff spring."""

from rigidblocks.fmi.slave import BlockSlave
from rigidblocks.library import CompliantLoopClosure
from rigidblocks.robot.robots import five_bar


class FiveBarSprings(BlockSlave):
    """Spring with equal stiffness and damping in both directions."""

    def __init__(self, **kwargs):
        super().__init__(CompliantLoopClosure(five_bar().model, 1e5, 500.0), **kwargs)
