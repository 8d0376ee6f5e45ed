"""Joint models (RBDA 4.4, Table 4.1): what a joint lets its two bodies do, as functions of its variables.

A joint is its own record: the type with its parameters. `jcalc` is the one point through which the algorithms see it.
"""

import abc
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from rigidblocks.spatial import Array, Transform, rotz, rz, xlt


class JointMotion(NamedTuple):
    """What `jcalc` returns, all in the coordinates of the joint's successor frame."""

    XJ: Transform
    S: Array
    vJ: Array
    cJ: Array


@dataclass(frozen=True)
class Joint(abc.ABC):
    """A joint from a predecessor frame to a successor frame; the two coincide at q = 0.

    `nq` position variables with units `q_units`, `nv` velocity variables with units `qd_units`, and forces with units
    `tau_units`; the rate of q is qd where `nq == nv`.
    """

    nq: ClassVar[int]
    nv: ClassVar[int]
    q_units: ClassVar[tuple[str, ...]]
    qd_units: ClassVar[tuple[str, ...]]
    tau_units: ClassVar[tuple[str, ...]]

    @abc.abstractmethod
    def jcalc(self, q: Array, qd: Array) -> JointMotion:
        """The joint transform XJ, the motion subspace S (6, nv), the velocity vJ = S qd (6,) and the bias cJ (6,), which
        is the apparent derivative of S times qd; q (nq,), qd (nv,) (RBDA 4.4).
        """


_UNIT_S = {name: np.eye(6)[:, [k]] for k, name in enumerate(("rx", "ry", "rz", "px", "py", "pz"))}


@dataclass(frozen=True)
class Revolute(Joint):
    """One rotation about z; q in rad (RBDA Table 4.1)."""

    nq = nv = 1
    q_units, qd_units, tau_units = ("rad",), ("rad/s",), ("N.m",)

    def jcalc(self, q: Array, qd: Array) -> JointMotion:
        S = _UNIT_S["rz"]
        return JointMotion(rotz(q[0]), S, S @ qd, np.zeros(6))


@dataclass(frozen=True)
class Prismatic(Joint):
    """One translation along z; q in m (RBDA Table 4.1)."""

    nq = nv = 1
    q_units, qd_units, tau_units = ("m",), ("m/s",), ("N",)

    def jcalc(self, q: Array, qd: Array) -> JointMotion:
        S = _UNIT_S["pz"]
        return JointMotion(xlt([0.0, 0.0, q[0]]), S, S @ qd, np.zeros(6))


@dataclass(frozen=True)
class Helical(Joint):
    """A screw about z with `pitch` [m/rad], positive for a right-handed screw; q in rad (RBDA Table 4.1)."""

    pitch: float
    nq = nv = 1
    q_units, qd_units, tau_units = ("rad",), ("rad/s",), ("N.m",)

    def __post_init__(self) -> None:
        if not np.isfinite(self.pitch):
            raise ValueError(f"a helical joint needs a finite pitch in m/rad, not {self.pitch}; use Prismatic for infinity")

    def jcalc(self, q: Array, qd: Array) -> JointMotion:
        S = np.array([[0.0, 0.0, 1.0, 0.0, 0.0, self.pitch]]).T
        XJ = Transform(rz(q[0]), np.array([0.0, 0.0, self.pitch * q[0]]))
        return JointMotion(XJ, S, S @ qd, np.zeros(6))


def joint_from_pitch(pitch: Any) -> Joint:
    """The joint of a spatial_v1 `pitch` code: 0 revolute, infinity prismatic, any other helical."""
    if pitch == 0:
        return Revolute()
    return Prismatic() if np.isinf(pitch) else Helical(float(pitch))
