"""Encoders of the planar two-link robot."""

from rigidblocks.fmi.slave import BlockSlave
from rigidblocks.library import Encoder


class Planar2Encoder(BlockSlave):
    """Encoders with 4096 increments per turn and a sample time of one millisecond."""

    def __init__(self, **kwargs):
        step = 2 * 3.141592653589793 / 4096
        super().__init__(Encoder(resolution=(step, step), sample_time=1e-3), **kwargs)
