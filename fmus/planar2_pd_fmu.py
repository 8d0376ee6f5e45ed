"""PD controller of the planar two-link robot, with a velocity reference."""

from rigidblocks.fmi.slave import BlockSlave
from rigidblocks.library import PDController


class Planar2PD(BlockSlave):
    """PD controller with equal gains for both joints."""

    def __init__(self, **kwargs):
        super().__init__(PDController(kp=(1000, 1000), kd=(15, 15)), **kwargs)
