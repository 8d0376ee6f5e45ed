"""Joints in the x-y plane, which use planar vectors (RBDA 2.16)."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rigidblocks.robot.joints.base import Joint, JointConstraint, JointMotion, Reversed
from rigidblocks.robot.joints.holonomic import Prismatic, Revolute
from rigidblocks.robot.joints.rheonomic_nonholonomic import Rheonomic
from rigidblocks.spatial.planar import xlt, xpln
from rigidblocks.spatial.rigid_motion import planar_displacement
from rigidblocks.spatial.spatial import Array


@dataclass(frozen=True)
class PlanarRevolute(Joint):
    """Revolute joint in the plane with the angle q [rad] (code 1 of jcalcp in spatial_v1)."""

    nq = nv = 1
    q_units, qd_units, tau_units = ("rad",), ("rad/s",), ("N.m",)

    def nearest(self, X: Any) -> Array:
        return np.array([np.arctan2(X.E[0, 1], X.E[0, 0])])

    def constraint(self, X: Any, vJ: Array) -> JointConstraint:
        del vJ
        return JointConstraint(np.eye(3)[:, 1:], X.E @ X.r, np.zeros(3))

    def jcalc(self, q: Array, qd: Array) -> JointMotion:
        return _motion(xpln(q[0], np.zeros(2)), 0, qd)


@dataclass(frozen=True)
class PlanarPrismatic(Joint):
    """Prismatic joint along x or y of the predecessor frame (`axis`), with q in m.

    These joints have the codes 2 and 3 of jcalcp in spatial_v1.

    Raises:
        ValueError: `axis` is neither "x" nor "y".
    """

    axis: str = "x"
    nq = nv = 1
    q_units, qd_units, tau_units = ("m",), ("m/s",), ("N",)

    def __post_init__(self) -> None:
        if self.axis not in ("x", "y"):
            raise ValueError(
                f"a planar prismatic joint slides along 'x' or 'y', not along {self.axis!r}"
            )

    def nearest(self, X: Any) -> Array:
        along: Array = X.r[:1] if self.axis == "x" else X.r[1:]
        return along

    def constraint(self, X: Any, vJ: Array) -> JointConstraint:
        del vJ
        T = np.eye(3)[:, [0, 2] if self.axis == "x" else [0, 1]]
        d = planar_displacement(X @ self.closest(X).inverse())
        return JointConstraint(T, T.T @ d, np.zeros(3))

    def jcalc(self, q: Array, qd: Array) -> JointMotion:
        along_x = self.axis == "x"
        return _motion(xlt([q[0], 0.0] if along_x else [0.0, q[0]]), 1 if along_x else 2, qd)


def _motion(XJ: Any, row: int, qd: Array) -> JointMotion:
    """Return the motion of a joint whose subspace S (3, 1) has a 1 in `row` and zeros elsewhere.

    XJ is the transform across the joint.
    """
    S = np.eye(3)[:, [row]]
    return JointMotion(XJ, S, S @ qd, np.zeros(3))


def planar_joint_from_code(code: int) -> Joint:
    """Return the joint of a spatial_v1 `jcode`: 1 revolute, 2 prismatic along x, 3 along y.

    Raises:
        ValueError: The code is not 1, 2 or 3.
    """
    joints = {1: PlanarRevolute(), 2: PlanarPrismatic("x"), 3: PlanarPrismatic("y")}
    if code not in joints:
        raise ValueError(
            "the code of a planar joint must be 1 (revolute), 2 (prismatic along x) or 3 "
            f"(prismatic along y), not {code}"
        )
    return joints[code]


def spatial_joint(joint: Joint) -> Joint:
    """Return the spatial joint with the same motion as a planar joint, in the plane z = 0.

    Both joints have the same variables.

    Raises:
        ValueError: The joint is not a planar joint of this module.
    """
    match joint:
        case PlanarRevolute():
            return Revolute()
        case PlanarPrismatic(axis):
            return Prismatic((1.0, 0.0, 0.0) if axis == "x" else (0.0, 1.0, 0.0))
        case Reversed():
            return replace(joint, joint=spatial_joint(joint.joint))
        case Rheonomic():
            one, drive = spatial_joint(joint.joint), spatial_joint(joint.drive)
            return replace(joint, joint=one, drive=drive)
    raise ValueError(
        f"no spatial joint exists for {joint}; supported types: PlanarRevolute, PlanarPrismatic, "
        "and Reversed and Rheonomic joints of these"
    )
