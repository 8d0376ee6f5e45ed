"""Command with limited velocity and acceleration for the planar two-link robot."""

from rigidblocks.fmi.slave import BlockSlave
from rigidblocks.library import TrapezoidalProfile


class Planar2Trapezoid(BlockSlave):
    """Motion to (1, 1.5) rad with at most 2 rad/s and 10 rad/s^2."""

    def __init__(self, **kwargs):
        super().__init__(
            TrapezoidalProfile(y0=(0.0, 0.0), y1=(1.0, 1.5), slope_max=2.0, curvature_max=10.0),
            **kwargs,
        )
