"""A smooth command from rest to rest for the planar robot of two links."""

from rigidblocks.fmi.slave import BlockSlave
from rigidblocks.library import QuinticProfile


class Planar2Quintic(BlockSlave):
    """To (1, 1.5) rad in a second."""

    def __init__(self, **kwargs):
        super().__init__(QuinticProfile(y0=(0.0, 0.0), y1=(1.0, 1.5), duration=1.0), **kwargs)
