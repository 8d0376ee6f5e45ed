"""Inertial measurement unit on the second link of the planar two-link robot."""

from rigidblocks.fmi.slave import BlockSlave
from rigidblocks.library import IMU, Frame
from rigidblocks.robot.robots import planar2
from rigidblocks.spatial.spatial import xlt


class Planar2IMU(BlockSlave):
    """Sensor at the centre of the second link, with axes parallel to the link frame."""

    def __init__(self, **kwargs):
        sensor = Frame("imu", "body2", xlt([0.5, 0.0, 0.0]))
        super().__init__(IMU(planar2(), sensor), **kwargs)
