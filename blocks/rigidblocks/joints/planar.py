"""Joints in the x-y plane, in planar vectors (RBDA 2.16)."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rigidblocks.algebra.displacement import planar_displacement
from rigidblocks.algebra.planar import xlt, xpln
from rigidblocks.algebra.spatial import Array
from rigidblocks.joint.axial import Prismatic, Revolute
from rigidblocks.joint.interface import Joint, JointConstraint, JointMotion
from rigidblocks.joint.reversed import Reversed
from rigidblocks.joint.rheonomic import Rheonomic


@dataclass(frozen=True)
class PlanarRevolute(Joint):
    """One rotation in the plane; q in rad (jcalcp code 1)."""

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
    """One translation along `axis`, "x" or "y" of the predecessor frame; q in m (jcalcp codes 2 and
    3).
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
    """What `jcalc` returns for a joint that moves along one coordinate: S (3, 1) is a column of the
    unit matrix.
    """
    S = np.eye(3)[:, [row]]
    return JointMotion(XJ, S, S @ qd, np.zeros(3))


def planar_joint_from_code(code: int) -> Joint:
    """The joint of a spatial_v1 `jcode`: 1 revolute, 2 prismatic along x, 3 prismatic along y."""
    joints = {1: PlanarRevolute(), 2: PlanarPrismatic("x"), 3: PlanarPrismatic("y")}
    if code not in joints:
        raise ValueError(
            "a planar joint has the code 1 (revolute), 2 (prismatic along x) or 3 (along y), not "
            f"{code}"
        )
    return joints[code]


def spatial_joint(joint: Joint) -> Joint:
    """The joint that moves bodies in the plane z = 0 of space as a planar one does, by the same
    variables.

    Raises ValueError for a joint of another kind than those here.
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
        f"no joint in space is known for {joint}; there are those for PlanarRevolute, "
        "PlanarPrismatic, and Reversed and Rheonomic of them"
    )
