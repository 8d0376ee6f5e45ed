"""Motors and gears of the planar two-link robot."""

from rigidblocks.fmi.slave import BlockSlave
from rigidblocks.library import JointActuator


class Planar2Actuator(BlockSlave):
    """Equal actuators at both joints, with a gear ratio of 50, a lag of 5 ms and friction."""

    def __init__(self, **kwargs):
        motors = JointActuator(
            ratio=(50.0, 50.0), tau_max=4.0, time_constant=5e-3, viscous=0.5, coulomb=1.0
        )
        super().__init__(motors, **kwargs)
