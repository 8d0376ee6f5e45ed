"""The PD controller of the planar robot of two links, with a velocity reference."""

from rigidblocks.fmi.slave import BlockSlave
from rigidblocks.library import PDController


class Planar2PD(BlockSlave):
    """The same gains on both joints."""

    def __init__(self, **kwargs):
        super().__init__(PDController(kp=(1000, 1000), kd=(15, 15)), **kwargs)
