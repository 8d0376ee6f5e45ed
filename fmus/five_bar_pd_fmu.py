"""PD controller of the five-bar mechanism, which has motors only on its two base joints."""

from rigidblocks.fmi.slave import BlockSlave
from rigidblocks.library import PDController


class FiveBarPD(BlockSlave):
    """PD controller with zero gains on the knees, which have no motor."""

    def __init__(self, **kwargs):
        super().__init__(PDController(kp=(2000, 0, 2000, 0), kd=(200, 0, 200, 0)), **kwargs)
