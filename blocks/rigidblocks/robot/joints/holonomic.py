"""Holonomic joints: revolute, prismatic, helical, spherical, planar, free and fixed.

Source: RBDA Table 4.1, Examples 4.5 and 4.6.
"""

from dataclasses import dataclass, replace
from functools import cache
from math import hypot, isfinite
from typing import Any, ClassVar

import numpy as np

from rigidblocks.common.arrays import read_only
from rigidblocks.robot.joints.base import Joint, JointMotion
from rigidblocks.spatial.rigid_motion import (
    IDENTITY,
    normalized_quaternion,
    quaternion_from_rotation,
    quaternion_from_vector,
    quaternion_product,
    quaternion_rate,
    quaternion_rotation,
    travel,
    travel_velocity,
    vector_from_quaternion,
)
from rigidblocks.spatial.spatial import (
    Array,
    Transform,
    cross,
    identity,
    multiply_transforms,
    rotx,
    roty,
    rotz,
    rz,
    skew,
    xlt,
)

Axis = tuple[float, float, float]
X: Axis = (1.0, 0.0, 0.0)
Y: Axis = (0.0, 1.0, 0.0)
Z: Axis = (0.0, 0.0, 1.0)


def unit_axis(axis: Any, joint: str) -> Axis:
    """Return the unit vector along `axis`; a unit vector is returned unchanged.

    Raises:
        ValueError: The axis is zero or does not have 3 finite components. The message contains the
            joint type.
    """
    try:
        x, y, z = map(float, axis)
    except (TypeError, ValueError):
        x = y = z = 0.0
    if not (x or y or z) or not all(map(isfinite, (x, y, z))):
        raise ValueError(
            f"the axis of a {joint} joint must be a finite nonzero vector with 3 components, not "
            f"{axis}"
        )
    if abs(hypot(x, y, z) - 1.0) > _ROUNDING:
        vector = np.array([x, y, z]) / max(abs(x), abs(y), abs(z))
        x, y, z = (vector / np.sqrt(vector @ vector)).tolist()
    return x, y, z


_ROUNDING = 1e-15  # relative rounding error of the length of a unit vector


def turn(axis: Axis, theta: Any) -> Transform:
    """Return the transform to a frame rotated by `theta` [rad] about the unit vector `axis`.

        E = cos(theta) 1 + (1 - cos(theta)) u u^T - sin(theta) u x

    u is the unit vector.
    """
    for k, rotation in enumerate((rotx, roty, rotz)):
        if abs(axis[k]) == 1.0:
            return rotation(theta if axis[k] > 0 else -theta)
    u, c, s = np.array(axis), np.cos(theta), np.sin(theta)
    return Transform(c * np.eye(3) + (1.0 - c) * np.outer(u, u) - s * skew(u), np.zeros(3))


def general_rotation_to_z(axis: Axis) -> Array:
    """Return the rotation (3, 3) to coordinates with `axis` as z, or the identity.

    The result is the identity for a coordinate axis, because a joint about x or y is as fast as a
    joint about z.
    """
    return np.eye(3) if 1.0 in map(abs, axis) else rotation_to_z(axis)


def rotation_to_z(axis: Axis) -> Array:
    """Return a rotation (3, 3) to coordinates whose z axis is the unit `axis`.

    For a coordinate axis the result is a product of rotations by 90 degrees.
    """
    z = np.round(axis) if 1.0 in map(abs, axis) else np.array(axis)
    x = np.cross(z, np.eye(3)[np.argmin(np.abs(z))])
    x = x / np.sqrt(x @ x)
    return np.array([x, np.cross(z, x), z])


def angle_about(axis: Axis, E: Array) -> Any:
    """Return the angle theta [rad] of the rotation about `axis` that is nearest to E (3, 3).

    The rotation matrix for the unit vector u along the axis is

        E = cos(theta) 1 + (1 - cos(theta)) u u^T - sin(theta) u x
    """
    u = np.array(axis)
    sine = u @ np.array([E[1, 2] - E[2, 1], E[2, 0] - E[0, 2], E[0, 1] - E[1, 0]])
    return np.arctan2(sine, E[0, 0] + E[1, 1] + E[2, 2] - u @ E @ u)


def slide(axis: Axis, distance: Any) -> Transform:
    """Return the transform to a frame that is translated by `distance` [m] along `axis`."""
    return xlt(np.array(axis) * distance)


@cache
def turn_column(axis: Axis) -> Array:
    """Return the read-only motion subspace (6, 1) of a rotation about `axis`."""
    return read_only(screw_column(axis, 0.0))


@cache
def slide_column(axis: Axis) -> Array:
    """Return the read-only motion subspace (6, 1) of a translation along `axis`."""
    return read_only(np.array([[0.0, 0.0, 0.0, *axis]]).T)


def screw_column(axis: Axis, pitch: float) -> Array:
    """Return the motion subspace (6, 1) of a rotation about `axis` with `pitch` [m/rad]."""
    return np.array([[*axis, *(pitch * np.array(axis))]]).T


@dataclass(frozen=True)
class Revolute(Joint):
    """Revolute joint about `axis`, by default z, with the angle q [rad] (RBDA Table 4.1)."""

    axis: Axis = Z
    nq = nv = 1
    q_units, qd_units, tau_units = ("rad",), ("rad/s",), ("N.m",)

    def __post_init__(self) -> None:
        object.__setattr__(self, "axis", unit_axis(self.axis, "revolute"))

    def align_frames(self) -> tuple[Joint, Array]:
        return _align_axis_with_z(self), general_rotation_to_z(self.axis)

    def nearest(self, X: Transform) -> Array:
        return np.array([angle_about(self.axis, X.E)])

    def jcalc(self, q: Array, qd: Array) -> JointMotion:
        S = turn_column(self.axis)
        return JointMotion(turn(self.axis, q[0]), S, S @ qd, np.zeros(6))


@dataclass(frozen=True)
class Prismatic(Joint):
    """Prismatic joint along `axis`, by default z, with the displacement q [m] (RBDA Table 4.1)."""

    axis: Axis = Z
    nq = nv = 1
    q_units, qd_units, tau_units = ("m",), ("m/s",), ("N",)

    def __post_init__(self) -> None:
        object.__setattr__(self, "axis", unit_axis(self.axis, "prismatic"))

    def align_frames(self) -> tuple[Joint, Array]:
        return _align_axis_with_z(self), general_rotation_to_z(self.axis)

    def nearest(self, X: Transform) -> Array:
        return np.array([np.array(self.axis) @ X.r])

    def jcalc(self, q: Array, qd: Array) -> JointMotion:
        S = slide_column(self.axis)
        return JointMotion(slide(self.axis, q[0]), S, S @ qd, np.zeros(6))


@dataclass(frozen=True)
class Helical(Joint):
    """Helical joint about `axis` with `pitch` [m/rad] and the angle q [rad] (RBDA Table 4.1).

    The pitch is positive for a right-handed screw.

    Raises:
        ValueError: The pitch is not finite, or the axis is zero.
    """

    pitch: float
    axis: Axis = Z
    nq = nv = 1
    q_units, qd_units, tau_units = ("rad",), ("rad/s",), ("N.m",)

    def __post_init__(self) -> None:
        if not np.isfinite(self.pitch):
            raise ValueError(
                f"a helical joint needs a finite pitch in m/rad, not {self.pitch}; use Prismatic "
                "for an infinite pitch"
            )
        object.__setattr__(self, "axis", unit_axis(self.axis, "helical"))

    def align_frames(self) -> tuple[Joint, Array]:
        return _align_axis_with_z(self), general_rotation_to_z(self.axis)

    def nearest(self, X: Transform) -> Array:
        """Return the rotation angle of X [rad] that is nearest to displacement / pitch.

        The rotation of X determines the angle up to multiples of 2 pi. The displacement of X along
        the axis determines the multiple. If the pitch is 0, the angle is between -pi and pi.
        """
        theta = angle_about(self.axis, X.E)
        if self.pitch == 0.0:
            return np.array([theta])
        turns = np.floor((np.array(self.axis) @ X.r / self.pitch - theta) / (2 * np.pi) + 0.5)
        return np.array([theta + 2 * np.pi * turns])

    def jcalc(self, q: Array, qd: Array) -> JointMotion:
        S = screw_column(self.axis, self.pitch)
        XJ = multiply_transforms(turn(self.axis, q[0]), slide(self.axis, self.pitch * q[0]))
        return JointMotion(XJ, S, S @ qd, np.zeros(6))


@dataclass(frozen=True)
class Cylindrical(Joint):
    """Cylindrical joint with rotation about and translation along `axis` (RBDA Table 4.1).

    The default axis is z. q contains the angle [rad] and the displacement [m].
    """

    axis: Axis = Z
    nq = nv = 2
    q_units, qd_units, tau_units = ("rad", "m"), ("rad/s", "m/s"), ("N.m", "N")

    def __post_init__(self) -> None:
        object.__setattr__(self, "axis", unit_axis(self.axis, "cylindrical"))

    def align_frames(self) -> tuple[Joint, Array]:
        return _align_axis_with_z(self), general_rotation_to_z(self.axis)

    def nearest(self, X: Transform) -> Array:
        return np.array([angle_about(self.axis, X.E), np.array(self.axis) @ X.r])

    def jcalc(self, q: Array, qd: Array) -> JointMotion:
        S = np.hstack([turn_column(self.axis), slide_column(self.axis)])
        return JointMotion(
            multiply_transforms(turn(self.axis, q[0]), slide(self.axis, q[1])),
            S,
            S @ qd,
            np.zeros(6),
        )


@dataclass(frozen=True)
class RackAndPinion(Joint):
    """Rack-and-pinion joint with the rotation angle q [rad] of the pinion (RBDA Example 4.6).

    The pinion of `radius` [m] rotates about z of F_s and rolls along a rack on x of F_p. The joint
    is not symmetric: if the rack is the successor, use `Reversed`.

    Raises:
        ValueError: The radius is not finite.
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
        """Return the rotation angle of X [rad] that is nearest to displacement / radius.

        The rotation of X determines the angle up to multiples of 2 pi. The displacement of X along
        the rack determines the multiple. If the radius is 0, the angle is between -pi and pi.
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
        return JointMotion(
            multiply_transforms(rotz(q[0]), xlt([r * q[0], 0.0, 0.0])), S, S @ qd, cJ
        )


def _align_axis_with_z(joint: Revolute | Prismatic | Helical | Cylindrical) -> Joint:
    """Replace a general joint axis by z; return a joint about a coordinate axis unchanged."""
    return joint if 1.0 in map(abs, joint.axis) else replace(joint, axis=Z)


def joint_from_pitch(pitch: Any) -> Joint:
    """Return the joint of a spatial_v1 `pitch` code.

    The joint is revolute for a pitch of 0, prismatic for an infinite pitch, and otherwise helical.
    """
    if pitch == 0:
        return Revolute()
    return Prismatic() if np.isinf(pitch) else Helical(float(pitch))


NEAR_POLE = 1e-3  # cosine of the pitch angle below which accelerations lose half of their digits


@dataclass(frozen=True)
class Universal(Joint):
    """Universal joint with rotation about `first`, then about the rotated axis `second`.

    q is in (rad, rad). The default axes are x and y.

    Raises:
        ValueError: An axis is zero, or the axes are parallel.
    """

    first: Axis = X
    second: Axis = Y
    nq = nv = 2
    q_units, qd_units, tau_units = ("rad",) * 2, ("rad/s",) * 2, ("N.m",) * 2

    def __post_init__(self) -> None:
        for name in ("first", "second"):
            object.__setattr__(self, name, unit_axis(getattr(self, name), "universal"))
        if np.linalg.norm(np.cross(self.first, self.second)) < 1e-6:
            raise ValueError(
                f"the axes {self.first} and {self.second} of a universal joint are parallel; they "
                "must have different directions"
            )

    def nearest(self, X: Transform) -> Array:
        """Return the joint angles (2,) [rad] whose transform is nearest to X.

        The direction of the first axis in F_s coordinates determines the second angle.
        """
        first, second = np.array(self.first), np.array(self.second)
        seen = X.E @ first  # the first axis in F_s coordinates: rotated about the second axis
        q1 = np.arctan2(-(cross(second, first) @ seen), cross(second, first) @ cross(second, seen))
        return np.array([angle_about(self.first, turn(self.second, q1).E.T @ X.E), q1])

    def velocity(self, q: Array, vJ: Array) -> Array:
        first, second = turn(self.second, q[1]).E @ np.array(self.first), np.array(self.second)
        cosine, a, b = float(np.dot(self.first, self.second)), first @ vJ[:3], second @ vJ[:3]
        return np.array([a - cosine * b, b - cosine * a]) / (1.0 - cosine * cosine)

    def constraint_forces(self, q: Array) -> Array:
        """Return T (6, 4): the moment about the common normal of the axes, and three forces."""
        n = cross(turn(self.second, q[1]).E @ np.array(self.first), np.array(self.second))
        n = n / float(np.linalg.norm(np.cross(self.first, self.second)))
        return np.concatenate([np.concatenate([n, np.zeros(3)])[:, None], np.eye(6)[:, 3:]], axis=1)

    def jcalc(self, q: Array, qd: Array) -> JointMotion:
        XJ = multiply_transforms(turn(self.second, q[1]), turn(self.first, q[0]))
        second = np.array(self.second)
        axis = turn(self.second, q[1]).E @ np.array(self.first)  # the first axis in F_s coordinates
        S = np.vstack([np.array([axis, second]).T, np.zeros((3, 2))])
        bias = cross(axis, second) * (qd[0] * qd[1])
        return JointMotion(XJ, S, S @ qd, np.concatenate([bias, np.zeros(3)]))


@dataclass(frozen=True)
class Spherical(Joint):
    """Spherical joint with a unit quaternion q (RBDA 4.5).

    qd is the angular velocity in F_s coordinates. The quaternion contains the Euler parameters of
    RBDA, scalar first; without rotation it is (1, 0, 0, 0).
    """

    nq, nv = 4, 3
    q_units, qd_units, tau_units = ("1",) * 4, ("rad/s",) * 3, ("N.m",) * 3

    def nearest(self, X: Transform) -> Array:
        return quaternion_from_rotation(X.E)

    def closest(self, X: Transform) -> Transform:
        return Transform(X.E, np.zeros(3))

    def jcalc(self, q: Array, qd: Array) -> JointMotion:
        vJ = np.concatenate([qd, np.zeros(3)])
        return JointMotion(
            Transform(quaternion_rotation(q), np.zeros(3)), np.eye(6)[:, :3], vJ, np.zeros(6)
        )

    def rate(self, q: Array, qd: Array) -> Array:
        return quaternion_rate(q, qd)

    def integrate(self, q: Array, dq: Array) -> Array:
        return quaternion_product(q, quaternion_from_vector(dq))

    def difference(self, q0: Array, q1: Array) -> Array:
        return vector_from_quaternion(
            quaternion_product(q0 * np.array([1.0, -1.0, -1.0, -1.0]), q1)
        )

    def neutral(self) -> Array:
        return np.array(IDENTITY)

    def random(self, rng: np.random.Generator) -> Array:
        return normalized_quaternion(rng.normal(size=4))

    def normalize(self, q: Array) -> Array:
        return normalized_quaternion(q)


@dataclass(frozen=True)
class EulerSpherical(Joint):
    """Spherical joint with yaw, pitch and roll angles about z, y and x (RBDA Eq 4.7 to 4.9).

    q is in rad. The joint is singular at a pitch of 90 degrees; results at or near this pitch are
    inaccurate.
    """

    nq = nv = 3
    q_units, qd_units, tau_units = ("rad",) * 3, ("rad/s",) * 3, ("N.m",) * 3

    def singular(self, q: Array) -> str:
        if abs(np.cos(q[1])) > NEAR_POLE:  # false for NaN
            return ""
        pitch = "" if np.isnan(q[1]) else f" at a pitch of {np.degrees(q[1]):.6g} degrees"
        return (
            f"has Euler angles{pitch}, and is singular at a pitch of 90 degrees: use a Spherical "
            "joint, or angles in a rotated frame"
        )

    def nearest(self, X: Transform) -> Array:
        E = X.E
        return np.array(
            [
                np.arctan2(E[0, 1], E[0, 0]),
                np.arctan2(-E[0, 2], np.sqrt(E[0, 0] * E[0, 0] + E[0, 1] * E[0, 1])),
                np.arctan2(E[1, 2], E[2, 2]),
            ]
        )

    def closest(self, X: Transform) -> Transform:
        return Transform(X.E, np.zeros(3))

    def velocity(self, q: Array, vJ: Array) -> Array:
        c2, s2 = np.cos(q[1]), np.sin(q[1])
        c3, s3 = np.cos(q[2]), np.sin(q[2])
        qd1 = (s3 * vJ[1] + c3 * vJ[2]) / c2
        return np.array([qd1, c3 * vJ[1] - s3 * vJ[2], vJ[0] + s2 * qd1])

    def constraint_forces(self, q: Array) -> Array:
        del q
        return np.eye(6)[:, 3:]

    def jcalc(self, q: Array, qd: Array) -> JointMotion:
        (_, c2, c3), (_, s2, s3) = np.cos(q), np.sin(q)
        qd1, qd2, qd3 = qd
        XJ = turn(X, q[2]) @ turn(Y, q[1]) @ turn(Z, q[0])
        S = np.vstack(
            [np.array([[-s2, 0.0, 1.0], [c2 * s3, c3, 0.0], [c2 * c3, -s3, 0.0]]), np.zeros((3, 3))]
        )
        cJ = [
            -c2 * qd1 * qd2,
            -s2 * s3 * qd1 * qd2 + c2 * c3 * qd1 * qd3 - s3 * qd2 * qd3,
            -s2 * c3 * qd1 * qd2 - c2 * s3 * qd1 * qd3 - c3 * qd2 * qd3,
        ]
        return JointMotion(XJ, S, S @ qd, np.array([*cJ, 0.0, 0.0, 0.0]))

    def random(self, rng: np.random.Generator) -> Array:
        return rng.uniform(-1, 1, 3) * [np.pi, 1.2, np.pi]  # away from the singularity


@dataclass(frozen=True)
class Planar(Joint):
    """Planar joint, which allows motion in the xy plane.

    q = (angle about z, x, y) of F_s in F_p coordinates, in (rad, m, m).
    qd = (angular velocity, linear velocity x, y) in F_s coordinates. S is therefore constant. With
    c and s, the cosine and sine of the angle, the derivative of q is (RBDA 4.4)

        dq/dt = [[1, 0, 0], [0, c, -s], [0, s, c]] qd
    """

    nq = nv = 3
    q_units, qd_units, tau_units = ("rad", "m", "m"), ("rad/s", "m/s", "m/s"), ("N.m", "N", "N")

    def nearest(self, X: Transform) -> Array:
        return np.array([angle_about(Z, X.E), X.r[0], X.r[1]])

    def jcalc(self, q: Array, qd: Array) -> JointMotion:
        S = np.eye(6)[:, 2:5]
        return JointMotion(Transform(rz(q[0]), np.array([q[1], q[2], 0.0])), S, S @ qd, np.zeros(6))

    def rate(self, q: Array, qd: Array) -> Array:
        return np.concatenate([qd[:1], rz(q[0])[:2, :2].T @ qd[1:]])

    def integrate(self, q: Array, dq: Array) -> Array:
        d = travel(_rotation_vector(dq[0]), np.array([dq[1], dq[2], 0.0]))
        moved: Array = q + np.concatenate([dq[:1], rz(q[0])[:2, :2].T @ d[:2]])
        return moved

    def difference(self, q0: Array, q1: Array) -> Array:
        angle = q1[0] - q0[0]
        angle = angle - 2 * np.pi * np.floor(angle / (2 * np.pi) + 0.5)
        d = rz(q0[0]) @ np.array([q1[1] - q0[1], q1[2] - q0[2], 0.0])
        return np.array([angle, *travel_velocity(_rotation_vector(angle), d)[:2]])


def _rotation_vector(angle: float) -> Array:
    return np.array([0.0, 0.0, angle])


@dataclass(frozen=True)
class SixDoF(Joint):
    """Free joint with six degrees of freedom (RBDA 4.4, 4.5).

    q = (unit quaternion, scalar first; position of F_s in F_p coordinates [m]).
    qd = (angular velocity w, linear velocity v of F_s) in F_s coordinates. S is the identity. The
    quaternion has the scalar part p_0 and the vector part p_v, and E is the rotation from F_p to
    F_s coordinates. The derivative of q is (RBDA Eq 4.13)

        dq/dt = (-p_v . w / 2, (p_0 w + p_v x w) / 2, E^T v)
    """

    nq, nv = 7, 6
    q_units = ("1",) * 4 + ("m",) * 3
    qd_units, tau_units = ("rad/s",) * 3 + ("m/s",) * 3, ("N.m",) * 3 + ("N",) * 3

    def nearest(self, X: Transform) -> Array:
        return np.concatenate([quaternion_from_rotation(X.E), X.r])

    def closest(self, X: Transform) -> Transform:
        return X

    def jcalc(self, q: Array, qd: Array) -> JointMotion:
        return JointMotion(
            Transform(quaternion_rotation(q[:4]), q[4:]), np.eye(6), np.asarray(qd), np.zeros(6)
        )

    def rate(self, q: Array, qd: Array) -> Array:
        return np.concatenate(
            [quaternion_rate(q[:4], qd[:3]), quaternion_rotation(q[:4]).T @ qd[3:]]
        )

    def integrate(self, q: Array, dq: Array) -> Array:
        phi = dq[:3]
        r = q[4:] + quaternion_rotation(q[:4]).T @ travel(phi, dq[3:])
        return np.concatenate([quaternion_product(q[:4], quaternion_from_vector(phi)), r])

    def difference(self, q0: Array, q1: Array) -> Array:
        phi = vector_from_quaternion(
            quaternion_product(q0[:4] * np.array([1.0, -1.0, -1.0, -1.0]), q1[:4])
        )
        return np.concatenate(
            [phi, travel_velocity(phi, quaternion_rotation(q0[:4]) @ (q1[4:] - q0[4:]))]
        )

    def neutral(self) -> Array:
        return np.array([*IDENTITY, 0.0, 0.0, 0.0])

    def random(self, rng: np.random.Generator) -> Array:
        return np.concatenate([normalized_quaternion(rng.normal(size=4)), rng.uniform(-1, 1, 3)])

    def normalize(self, q: Array) -> Array:
        return np.concatenate([normalized_quaternion(q[:4]), q[4:]])


@dataclass(frozen=True)
class Fixed(Joint):
    """Fixed joint without degrees of freedom, whose two frames coincide."""

    nq = nv = 0
    q_units: ClassVar[tuple[str, ...]] = ()
    qd_units: ClassVar[tuple[str, ...]] = ()
    tau_units: ClassVar[tuple[str, ...]] = ()

    def nearest(self, X: Transform) -> Array:
        del X
        return np.zeros(0)

    def jcalc(self, q: Array, qd: Array) -> JointMotion:
        del q, qd
        return JointMotion(identity(), np.zeros((6, 0)), np.zeros(6), np.zeros(6))
