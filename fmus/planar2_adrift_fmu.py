"""The planar two-link robot without a fixed base; its first link is the floating base."""

from rigidblocks.fmi.slave import BlockSlave
from rigidblocks.library import FloatingBasePlant
from rigidblocks.robot.joints import Revolute, SixDoF
from rigidblocks.robot.model import Model
from rigidblocks.robot.robots import planar2


class Planar2Adrift(BlockSlave):
    """Tumbling robot without gravity."""

    def __init__(self, **kwargs):
        robot = planar2()
        joints = (SixDoF(), Revolute())
        model = Model(
            "adrift", robot.parent, joints, robot.Xtree, robot.inertia, gravity=(0.0, 0.0, 0.0)
        )
        super().__init__(
            FloatingBasePlant(model, velocity0=(0.1, 0.2, 1.0, 0.0, 0.0, 0.0), qd0=0.5), **kwargs
        )
