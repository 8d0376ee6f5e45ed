"""The planar robot of two links with its first joint prescribed."""

from rigidblocks.fmi.slave import BlockSlave
from rigidblocks.library import HybridPlant
from rigidblocks.robots import planar2


class Planar2Hybrid(BlockSlave):
    """The first joint follows its reference, the second is moved by a force."""

    def __init__(self, **kwargs):
        super().__init__(
            HybridPlant(planar2(), prescribed=("joint1",), kp=10000.0, kd=140.0), **kwargs
        )
