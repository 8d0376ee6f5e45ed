"""Step command for the planar two-link robot."""

from rigidblocks.fmi.slave import BlockSlave
from rigidblocks.library import Step


class Planar2Step(BlockSlave):
    """Steps to 0.5 rad on the first joint and 1 rad on the second, after one second."""

    def __init__(self, **kwargs):
        super().__init__(Step(time=1.0, after=(0.5, 1.0)), **kwargs)
