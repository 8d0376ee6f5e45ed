"""A step command for the planar robot of two links."""

from rigidblocks.fmi.slave import BlockSlave
from rigidblocks.library import Step


class Planar2Step(BlockSlave):
    """Half a radian on the first joint, one on the second, after a second."""

    def __init__(self, **kwargs):
        super().__init__(Step(time=1.0, after=(0.5, 1.0)), **kwargs)
