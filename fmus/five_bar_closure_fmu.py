"""Constraint forces of the pin that closes the five-bar mechanism."""

from rigidblocks.fmi.slave import BlockSlave
from rigidblocks.library import LoopClosure
from rigidblocks.robot.robots import five_bar


class FiveBarClosure(BlockSlave):
    """Loop closure for steps of 1 ms; position errors decay with a time constant of 10 ms."""

    def __init__(self, **kwargs):
        super().__init__(LoopClosure(five_bar().model, 0.01), **kwargs)
