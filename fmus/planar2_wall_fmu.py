"""Compliant wall in the path of the planar two-link robot."""

from dataclasses import replace

from rigidblocks.contact import GroundContact, Plane, PointSet, Sphere
from rigidblocks.fmi.slave import BlockSlave
from rigidblocks.robot.robots import planar2


class Planar2Wall(BlockSlave):
    """Wall at y = 1.2 m that pushes along -y; the robot touches it with its elbow and its tip."""

    def __init__(self, **kwargs):
        model = replace(
            planar2(), contact=((Sphere(0.05, (1.0, 0.0, 0.0)),), (PointSet([[1.0, 0.0, 0.0]]),))
        )
        wall = Plane((0.0, -1.0, 0.0), (0.0, 1.2, 0.0))
        super().__init__(GroundContact(model, 2e4, 100.0, 0.3, wall, sample_time=1e-3), **kwargs)
