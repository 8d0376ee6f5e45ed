"""The planar two-link robot with prescribed motion of the first joint."""

from rigidblocks.fmi.slave import BlockSlave
from rigidblocks.library import HybridPlant
from rigidblocks.robot.robots import planar2


class Planar2Hybrid(BlockSlave):
    """Robot whose first joint follows a reference; the second joint has a force as input."""

    def __init__(self, **kwargs):
        super().__init__(
            HybridPlant(planar2(), prescribed=("joint1",), kp=10000.0, kd=140.0), **kwargs
        )
