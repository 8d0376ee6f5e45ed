"""The PD controller of the five-bar mechanism, which has motors on its two base joints alone."""

from rigidblocks.fmi.slave import BlockSlave
from rigidblocks.library import PDController


class FiveBarPD(BlockSlave):
    """Gains of zero on the knees, which have no motor."""

    def __init__(self, **kwargs):
        super().__init__(PDController(kp=(2000, 0, 2000, 0), kd=(200, 0, 200, 0)), **kwargs)
