"""An inertial measurement unit on the second link of the planar robot of two links."""

from rigidblocks.algebra.spatial import xlt
from rigidblocks.fmi.slave import BlockSlave
from rigidblocks.library import IMU, Frame
from rigidblocks.robots import planar2


class Planar2IMU(BlockSlave):
    """In the middle of the link, its axes along the body's."""

    def __init__(self, **kwargs):
        sensor = Frame("imu", "body2", xlt([0.5, 0.0, 0.0]))
        super().__init__(IMU(planar2(), sensor), **kwargs)
