"""Sampled PD controller of the planar two-link robot, with a backward difference of the error."""

from rigidblocks.fmi.slave import BlockSlave
from rigidblocks.library import PDController


class Planar2SampledPD(BlockSlave):
    """PD controller with equal gains for both joints and a sample time of one millisecond."""

    def __init__(self, **kwargs):
        super().__init__(PDController(kp=(1000, 1000), kd=(15, 15), sample_time=1e-3), **kwargs)
