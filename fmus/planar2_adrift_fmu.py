"""Two links of the planar robot adrift: the first is the floating base, the second hangs on it by a
joint.
"""

from rigidblocks.fmi.slave import BlockSlave
from rigidblocks.joint import Revolute, SixDoF
from rigidblocks.library import FloatingBasePlant
from rigidblocks.model.model import Model
from rigidblocks.robots import planar2


class Planar2Adrift(BlockSlave):
    """Free of gravity, tumbling."""

    def __init__(self, **kwargs):
        robot = planar2()
        joints = (SixDoF(), Revolute())
        model = Model(
            "adrift", robot.parent, joints, robot.Xtree, robot.inertia, gravity=(0.0, 0.0, 0.0)
        )
        super().__init__(
            FloatingBasePlant(model, velocity0=(0.1, 0.2, 1.0, 0.0, 0.0, 0.0), qd0=0.5), **kwargs
        )
