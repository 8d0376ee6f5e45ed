"""A quadruped on soft ground, with the contact inside its own step."""

import numpy as np

from rigidblocks.fmi.slave import BlockSlave
from rigidblocks.library import ContactPlant, FloatingBasePlant
from rigidblocks.robots import quadruped


class Quadruped(BlockSlave):
    """The robot is a little above the ground with its legs bent: joint forces in, motion and the
    forces on the feet out.
    """

    def __init__(self, **kwargs):
        robot = FloatingBasePlant(
            quadruped(), position0=(0.0, 0.0, 0.33), q0=np.tile([0.0, 0.7, -1.4], 4)
        )
        super().__init__(ContactPlant(robot, K=5e3, D=60.0, mu=0.8), **kwargs)
