"""Smooth command from rest to rest for the planar two-link robot."""

from rigidblocks.fmi.slave import BlockSlave
from rigidblocks.library import QuinticProfile


class Planar2Quintic(BlockSlave):
    """Motion to (1, 1.5) rad in one second, with a polynomial of degree five."""

    def __init__(self, **kwargs):
        super().__init__(QuinticProfile(y0=(0.0, 0.0), y1=(1.0, 1.5), duration=1.0), **kwargs)
