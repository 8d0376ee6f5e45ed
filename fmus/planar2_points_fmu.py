"""Positions of the elbow and the tip of the planar two-link robot, for contact."""

from dataclasses import replace

from rigidblocks.contact import PointKinematics, PointSet, Sphere
from rigidblocks.fmi.slave import BlockSlave
from rigidblocks.robot.robots import planar2


class Planar2Points(BlockSlave):
    """Contact points of a ball of 5 cm at the elbow, and of the tip."""

    def __init__(self, **kwargs):
        model = replace(
            planar2(), contact=((Sphere(0.05, (1.0, 0.0, 0.0)),), (PointSet([[1.0, 0.0, 0.0]]),))
        )
        super().__init__(PointKinematics(model), **kwargs)
