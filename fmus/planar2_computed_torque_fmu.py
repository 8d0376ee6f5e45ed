"""The computed-torque controller of the planar robot of two links."""

from rigidblocks.fmi.slave import BlockSlave
from rigidblocks.library import InverseDynamicsController
from rigidblocks.robots import planar2


class Planar2ComputedTorque(BlockSlave):
    """Critically damped, with a time constant of 0.1 s."""

    def __init__(self, **kwargs):
        super().__init__(InverseDynamicsController(planar2(), kp=100.0, kd=20.0), **kwargs)
