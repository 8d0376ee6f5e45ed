"""A quadruped on compliant ground, as one plant that computes the contact forces."""

import numpy as np

from rigidblocks.contact import ContactPlant
from rigidblocks.fmi.slave import BlockSlave
from rigidblocks.library import FloatingBasePlant
from rigidblocks.robot.robots import quadruped


class Quadruped(BlockSlave):
    """Robot slightly above the ground with bent legs.

    The inputs are joint forces, the outputs the motion and the forces on the feet.
    """

    def __init__(self, **kwargs):
        robot = FloatingBasePlant(
            quadruped(), position0=(0.0, 0.0, 0.33), q0=np.tile([0.0, 0.7, -1.4], 4)
        )
        super().__init__(ContactPlant(robot, K=5e3, D=60.0, mu=0.8), **kwargs)
