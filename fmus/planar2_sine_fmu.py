"""Sine command for the planar two-link robot."""

from rigidblocks.fmi.slave import BlockSlave
from rigidblocks.library import Sine


class Planar2Sine(BlockSlave):
    """Sine waves with a phase difference of a quarter period between the joints."""

    def __init__(self, **kwargs):
        super().__init__(
            Sine(amplitude=(0.5, 1.0), frequency=0.5, phase=(0.0, 1.5707963267948966)), **kwargs
        )
