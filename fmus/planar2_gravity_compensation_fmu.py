"""The gravity compensation of the planar robot of two links, hung up in a vertical plane."""

from rigidblocks.fmi.slave import BlockSlave
from rigidblocks.library import GravityCompensation
from rigidblocks.robots import planar2


class Planar2GravityCompensation(BlockSlave):
    """The joint forces that hold it still."""

    def __init__(self, **kwargs):
        model = planar2().with_gravity((0.0, -9.81, 0.0))
        super().__init__(GravityCompensation(model), **kwargs)
