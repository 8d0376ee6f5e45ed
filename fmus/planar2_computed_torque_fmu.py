"""Computed-torque controller of the planar two-link robot."""

from rigidblocks.fmi.slave import BlockSlave
from rigidblocks.library import InverseDynamicsController
from rigidblocks.robot.robots import planar2


class Planar2ComputedTorque(BlockSlave):
    """Critically damped controller with a time constant of 0.1 s."""

    def __init__(self, **kwargs):
        super().__init__(InverseDynamicsController(planar2(), kp=100.0, kd=20.0), **kwargs)
