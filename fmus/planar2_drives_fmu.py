"""Planar two-link robot with motors and gears."""

from rigidblocks import Friction, RobotPlant, planar2
from rigidblocks.dynamics.drives import Drive, Gearbox
from rigidblocks.dynamics.motors import TorqueMotor
from rigidblocks.fmi.slave import BlockSlave


class Planar2Drives(BlockSlave):
    """Drives with a gear ratio of 50, a time constant of 5 ms and friction at both joints."""

    def __init__(self, **kwargs):
        motor = TorqueMotor(inertia=1e-4, torque_max=4.0, time_constant=5e-3)
        drives = tuple(
            Drive(name, k, motor, Gearbox(50.0), friction=Friction(1.0, 0.5))
            for k, name in enumerate(("shoulder", "elbow"))
        )
        super().__init__(RobotPlant(planar2(), elements=drives), **kwargs)
