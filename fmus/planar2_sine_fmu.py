"""A sine command for the planar robot of two links."""

from rigidblocks.fmi.slave import BlockSlave
from rigidblocks.library import Sine


class Planar2Sine(BlockSlave):
    """A quarter of a period between the joints."""

    def __init__(self, **kwargs):
        super().__init__(
            Sine(amplitude=(0.5, 1.0), frequency=0.5, phase=(0.0, 1.5707963267948966)), **kwargs
        )
