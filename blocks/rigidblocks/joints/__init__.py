"""Joint models (RBDA 4.4, 4.5): what a joint lets its two bodies do, as functions of its variables.

A joint is its own record: the type with its parameters. `jcalc` is the one point through which the
algorithms see it.

Where the book's planar and 6-DoF joints contradict themselves (Table 4.1 and Example 4.5), the
joint transform decides: their position variables have the translation in F_p coordinates, their
velocity variables the velocity in F_s coordinates, S is constant, and `rate` is what belongs to it.
"""

from rigidblocks.joint.axial import (
    Cylindrical,
    Helical,
    Prismatic,
    RackAndPinion,
    Revolute,
    joint_from_pitch,
)
from rigidblocks.joint.free import Fixed, Planar, SixDoF
from rigidblocks.joint.interface import Joint, JointConstraint, JointMotion
from rigidblocks.joint.loop import LoopJoint
from rigidblocks.joint.planar import PlanarPrismatic, PlanarRevolute, planar_joint_from_code
from rigidblocks.joint.reversed import Reversed
from rigidblocks.joint.rheonomic import Rheonomic
from rigidblocks.joint.rolling import Blade, RollingBall, RollingDisc
from rigidblocks.joint.spherical import EulerSpherical, Spherical, Universal
from rigidblocks.joint.string import StringConstraint

__all__ = [
    "Blade",
    "Cylindrical",
    "EulerSpherical",
    "Fixed",
    "Helical",
    "Joint",
    "JointConstraint",
    "JointMotion",
    "LoopJoint",
    "Planar",
    "PlanarPrismatic",
    "PlanarRevolute",
    "Prismatic",
    "RackAndPinion",
    "Reversed",
    "Revolute",
    "Rheonomic",
    "RollingBall",
    "RollingDisc",
    "SixDoF",
    "Spherical",
    "StringConstraint",
    "Universal",
    "joint_from_pitch",
    "planar_joint_from_code",
]
