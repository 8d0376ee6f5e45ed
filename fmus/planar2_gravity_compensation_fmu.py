"""Gravity compensation of the planar two-link robot in a vertical plane."""

from rigidblocks.fmi.slave import BlockSlave
from rigidblocks.library import GravityCompensation
from rigidblocks.robot.robots import planar2


class Planar2GravityCompensation(BlockSlave):
    """Joint forces that hold the robot at rest."""

    def __init__(self, **kwargs):
        model = planar2().with_gravity((0.0, -9.81, 0.0))
        super().__init__(GravityCompensation(model), **kwargs)
