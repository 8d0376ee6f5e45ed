"""Joints along and about one axis (RBDA Table 4.1, Example 4.6)."""

from dataclasses import dataclass, replace
from functools import cache
from math import hypot, isfinite
from typing import Any

import numpy as np

from rigidblocks.algebra.factored import factored
from rigidblocks.algebra.frozen import read_only
from rigidblocks.algebra.spatial import Array, Transform, rotx, roty, rotz, skew, xlt
from rigidblocks.joint.interface import Joint, JointMotion

Axis = tuple[float, float, float]
X: Axis = (1.0, 0.0, 0.0)
Y: Axis = (0.0, 1.0, 0.0)
Z: Axis = (0.0, 0.0, 1.0)


def unit_axis(axis: Any, joint: str) -> Axis:
    """The unit vector along `axis`, which a unit vector is itself; raises ValueError, naming the
    type of joint, for one that has no direction.
    """
    try:
        x, y, z = map(float, axis)
    except (TypeError, ValueError):
        x = y = z = 0.0
    if not (x or y or z) or not all(map(isfinite, (x, y, z))):
        raise ValueError(
            f"the axis of a {joint} joint needs 3 finite components, not all zero; it was {axis}"
        )
    if abs(hypot(x, y, z) - 1.0) > _ROUNDING:
        vector = np.array([x, y, z]) / max(abs(x), abs(y), abs(z))
        x, y, z = (vector / np.sqrt(vector @ vector)).tolist()
    return x, y, z


_ROUNDING = 1e-15  # of the length of a unit vector


def turn(axis: Axis, theta: Any) -> Transform:
    """The transform to a frame turned by `theta` [rad] about the common unit `axis`.

    E = cos(theta) 1 + (1 - cos(theta)) u u^T - sin(theta) u x
    """
    for k, rotation in enumerate((rotx, roty, rotz)):
        if abs(axis[k]) == 1.0:
            return rotation(theta if axis[k] > 0 else -theta)
    u, c, s = np.array(axis), np.cos(theta), np.sin(theta)
    return Transform(c * np.eye(3) + (1.0 - c) * np.outer(u, u) - s * skew(u), np.zeros(3))


def to_z(axis: Axis) -> Array:
    """A rotation (3, 3) to coordinates in which the unit `axis` is z; none for a coordinate axis,
    which costs no more.
    """
    return np.eye(3) if 1.0 in map(abs, axis) else onto_z(axis)


def onto_z(axis: Axis) -> Array:
    """A rotation (3, 3) to coordinates in which the unit `axis` is z, of which a coordinate axis
    is turned to it by quarter turns.
    """
    z = np.round(axis) if 1.0 in map(abs, axis) else np.array(axis)
    x = np.cross(z, np.eye(3)[np.argmin(np.abs(z))])
    x = x / np.sqrt(x @ x)
    return np.array([x, np.cross(z, x), z])


def angle_about(axis: Axis, E: Array) -> Any:
    """The angle [rad] about the unit `axis` of the rotation that comes nearest to E (3, 3).

    Of E = cos(theta) 1 + (1 - cos(theta)) u u^T - sin(theta) u x the parts that belong to u alone.
    """
    u = np.array(axis)
    sine = u @ np.array([E[1, 2] - E[2, 1], E[2, 0] - E[0, 2], E[0, 1] - E[1, 0]])
    return np.arctan2(sine, E[0, 0] + E[1, 1] + E[2, 2] - u @ E @ u)


def slide(axis: Axis, distance: Any) -> Transform:
    """The transform to a parallel frame `distance` [m] along `axis`."""
    return xlt(np.array(axis) * distance)


@cache
def turn_column(axis: Axis) -> Array:
    """The motion subspace (6, 1) of a rotation about `axis`, read-only."""
    return read_only(screw_column(axis, 0.0))


@cache
def slide_column(axis: Axis) -> Array:
    """The motion subspace (6, 1) of a translation along `axis`, read-only."""
    return read_only(np.array([[0.0, 0.0, 0.0, *axis]]).T)


def screw_column(axis: Axis, pitch: float) -> Array:
    """The motion subspace (6, 1) of a rotation about `axis` with `pitch` [m/rad]."""
    return np.array([[*axis, *(pitch * np.array(axis))]]).T


@dataclass(frozen=True)
class Revolute(Joint):
    """One rotation about `axis`, z unless given; q in rad (RBDA Table 4.1)."""

    axis: Axis = Z
    nq = nv = 1
    q_units, qd_units, tau_units = ("rad",), ("rad/s",), ("N.m",)

    def __post_init__(self) -> None:
        object.__setattr__(self, "axis", unit_axis(self.axis, "revolute"))

    def aligned(self) -> tuple[Joint, Array]:
        return _about_z(self), to_z(self.axis)

    def nearest(self, X: Transform) -> Array:
        return np.array([angle_about(self.axis, X.E)])

    def jcalc(self, q: Array, qd: Array) -> JointMotion:
        S = turn_column(self.axis)
        return JointMotion(turn(self.axis, q[0]), S, S @ qd, np.zeros(6))


@dataclass(frozen=True)
class Prismatic(Joint):
    """One translation along `axis`, z unless given; q in m (RBDA Table 4.1)."""

    axis: Axis = Z
    nq = nv = 1
    q_units, qd_units, tau_units = ("m",), ("m/s",), ("N",)

    def __post_init__(self) -> None:
        object.__setattr__(self, "axis", unit_axis(self.axis, "prismatic"))

    def aligned(self) -> tuple[Joint, Array]:
        return _about_z(self), to_z(self.axis)

    def nearest(self, X: Transform) -> Array:
        return np.array([np.array(self.axis) @ X.r])

    def jcalc(self, q: Array, qd: Array) -> JointMotion:
        S = slide_column(self.axis)
        return JointMotion(slide(self.axis, q[0]), S, S @ qd, np.zeros(6))


@dataclass(frozen=True)
class Helical(Joint):
    """A screw about `axis` with `pitch` [m/rad], positive for a right-handed screw; q in rad (RBDA
    Table 4.1).
    """

    pitch: float
    axis: Axis = Z
    nq = nv = 1
    q_units, qd_units, tau_units = ("rad",), ("rad/s",), ("N.m",)

    def __post_init__(self) -> None:
        if not np.isfinite(self.pitch):
            raise ValueError(
                f"a helical joint needs a finite pitch in m/rad, not {self.pitch}; use Prismatic "
                "for infinity"
            )
        object.__setattr__(self, "axis", unit_axis(self.axis, "helical"))

    def aligned(self) -> tuple[Joint, Array]:
        return _about_z(self), to_z(self.axis)

    def nearest(self, X: Transform) -> Array:
        """The angle nearest to the one that belongs to the distance; that of the rotation alone
        where the pitch is 0.
        """
        theta = angle_about(self.axis, X.E)
        if self.pitch == 0.0:
            return np.array([theta])
        turns = np.floor((np.array(self.axis) @ X.r / self.pitch - theta) / (2 * np.pi) + 0.5)
        return np.array([theta + 2 * np.pi * turns])

    def jcalc(self, q: Array, qd: Array) -> JointMotion:
        S = screw_column(self.axis, self.pitch)
        XJ = factored(turn(self.axis, q[0]), slide(self.axis, self.pitch * q[0]))
        return JointMotion(XJ, S, S @ qd, np.zeros(6))


@dataclass(frozen=True)
class Cylindrical(Joint):
    """A rotation about and a translation along `axis`, z unless given; q in (rad, m) (RBDA Table
    4.1).
    """

    axis: Axis = Z
    nq = nv = 2
    q_units, qd_units, tau_units = ("rad", "m"), ("rad/s", "m/s"), ("N.m", "N")

    def __post_init__(self) -> None:
        object.__setattr__(self, "axis", unit_axis(self.axis, "cylindrical"))

    def aligned(self) -> tuple[Joint, Array]:
        return _about_z(self), to_z(self.axis)

    def nearest(self, X: Transform) -> Array:
        return np.array([angle_about(self.axis, X.E), np.array(self.axis) @ X.r])

    def jcalc(self, q: Array, qd: Array) -> JointMotion:
        S = np.hstack([turn_column(self.axis), slide_column(self.axis)])
        return JointMotion(
            factored(turn(self.axis, q[0]), slide(self.axis, q[1])), S, S @ qd, np.zeros(6)
        )


@dataclass(frozen=True)
class RackAndPinion(Joint):
    """A pinion of `radius` [m] about z of F_s that rolls along a rack on x of F_p; q in rad (RBDA
    Example 4.6).

    The joint is not symmetric: for the rack as the successor, reverse it.
    """

    radius: float
    nq = nv = 1
    q_units, qd_units, tau_units = ("rad",), ("rad/s",), ("N.m",)

    def __post_init__(self) -> None:
        if not np.isfinite(self.radius):
            raise ValueError(
                "the pinion of a rack and pinion joint needs a finite radius in m, not "
                f"{self.radius}"
            )

    def nearest(self, X: Transform) -> Array:
        """The angle nearest to the one that belongs to the distance; that of the rotation alone
        where the radius is 0.
        """
        theta = angle_about(Z, X.E)
        if self.radius == 0.0:
            return np.array([theta])
        turns = np.floor((X.r[0] / self.radius - theta) / (2 * np.pi) + 0.5)
        return np.array([theta + 2 * np.pi * turns])

    def velocity(self, q: Array, vJ: Array) -> Array:
        del q
        return vJ[2:3]

    def constraint_forces(self, q: Array) -> Array:
        r, c, s = self.radius, np.cos(q[0]), np.sin(q[0])
        normal = np.array([[0.0, 0.0, -r, c, -s, 0.0], [0.0, 0.0, 0.0, s, c, 0.0]])
        return np.concatenate([np.eye(6)[:, [0, 1, 5]], normal.T], axis=1)

    def jcalc(self, q: Array, qd: Array) -> JointMotion:
        r, c, s = self.radius, np.cos(q[0]), np.sin(q[0])
        S = np.array([[0.0, 0.0, 1.0, r * c, -r * s, 0.0]]).T
        cJ = np.array([0.0, 0.0, 0.0, -r * s, -r * c, 0.0]) * (qd[0] * qd[0])
        return JointMotion(factored(rotz(q[0]), xlt([r * q[0], 0.0, 0.0])), S, S @ qd, cJ)


def _about_z(joint: Revolute | Prismatic | Helical | Cylindrical) -> Joint:
    """The same joint with the axis z, unless its axis is a coordinate axis already."""
    return joint if 1.0 in map(abs, joint.axis) else replace(joint, axis=Z)


def joint_from_pitch(pitch: Any) -> Joint:
    """The joint of a spatial_v1 `pitch` code: 0 revolute, infinity prismatic, any other helical."""
    if pitch == 0:
        return Revolute()
    return Prismatic() if np.isinf(pitch) else Helical(float(pitch))
