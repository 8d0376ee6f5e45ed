"""Joint models, which define the joint motion as a function of joint variables (RBDA 4.4, 4.5).

The class of a joint object is the joint type, and the object contains the joint parameters. The
method `jcalc` returns the joint motion.

RBDA defines the planar and 6-DoF joints inconsistently (Table 4.1 and Example 4.5). This package
follows the joint transform of RBDA. F_p and F_s are the predecessor and successor frames of a
joint. The position variables contain the translation in F_p coordinates, and the velocity variables
contain the velocity in F_s coordinates. The motion subspace S is therefore constant, and `rate`
converts the velocity variables to derivatives of the position variables.
"""

from rigidblocks.robot.joints.base import Joint, JointConstraint, JointMotion, LoopJoint, Reversed
from rigidblocks.robot.joints.holonomic import (
    Cylindrical,
    EulerSpherical,
    Fixed,
    Helical,
    Planar,
    Prismatic,
    RackAndPinion,
    Revolute,
    SixDoF,
    Spherical,
    Universal,
    joint_from_pitch,
)
from rigidblocks.robot.joints.planar import PlanarPrismatic, PlanarRevolute, planar_joint_from_code
from rigidblocks.robot.joints.rheonomic_nonholonomic import (
    Blade,
    Rheonomic,
    RollingBall,
    RollingDisc,
    StringConstraint,
)

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
