"""The planar two-link robot at a compliant wall, as one plant that computes the contact forces."""

from dataclasses import replace

from rigidblocks.contact import ContactPlant, Plane, PointSet, Sphere
from rigidblocks.fmi.slave import BlockSlave
from rigidblocks.library import RobotPlant
from rigidblocks.robot.robots import planar2


class Planar2Touching(BlockSlave):
    """Robot whose tip starts slightly inside the wall at y = 1.2 m, which pushes along -y."""

    def __init__(self, **kwargs):
        model = replace(
            planar2(), contact=((Sphere(0.05, (1.0, 0.0, 0.0)),), (PointSet([[1.0, 0.0, 0.0]]),))
        )
        wall = Plane((0.0, -1.0, 0.0), (0.0, 1.2, 0.0))
        super().__init__(
            ContactPlant(RobotPlant(model, q0=(0.4, 0.61)), 2e4, 100.0, 0.3, wall), **kwargs
        )
