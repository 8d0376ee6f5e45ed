"""Joints with two or three rotations about one point (RBDA Table 4.1, 4.5)."""

from dataclasses import dataclass

import numpy as np

from rigidblocks.algebra.factored import factored
from rigidblocks.algebra.rotation import (
    IDENTITY,
    normalized_quaternion,
    quaternion_from_rotation,
    quaternion_from_vector,
    quaternion_product,
    quaternion_rate,
    quaternion_rotation,
    vector_from_quaternion,
)
from rigidblocks.algebra.spatial import Array, Transform, cross
from rigidblocks.joint.axial import Axis, X, Y, Z, angle_about, turn, unit_axis
from rigidblocks.joint.interface import Joint, JointMotion

NEAR_POLE = 1e-3  # cosine of the pitch: an acceleration there has lost half of its digits


@dataclass(frozen=True)
class Universal(Joint):
    """A rotation about `first`, then one about `second` as the first has turned it; q in (rad,
    rad).

    The axes are x and y unless given.
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
                f"the axes {self.first} and {self.second} of a universal joint are parallel; it "
                "needs two"
            )

    def nearest(self, X: Transform) -> Array:
        """The second angle turns the first axis to where E has it; the first is what is left."""
        first, second = np.array(self.first), np.array(self.second)
        seen = X.E @ first  # the first axis in F_s coordinates: turned about the second
        q1 = np.arctan2(-(cross(second, first) @ seen), cross(second, first) @ cross(second, seen))
        return np.array([angle_about(self.first, turn(self.second, q1).E.T @ X.E), q1])

    def velocity(self, q: Array, vJ: Array) -> Array:
        first, second = turn(self.second, q[1]).E @ np.array(self.first), np.array(self.second)
        cosine, a, b = float(np.dot(self.first, self.second)), first @ vJ[:3], second @ vJ[:3]
        return np.array([a - cosine * b, b - cosine * a]) / (1.0 - cosine * cosine)

    def constraint_forces(self, q: Array) -> Array:
        """No moment about the normal of the two axes, and no force."""
        n = cross(turn(self.second, q[1]).E @ np.array(self.first), np.array(self.second))
        n = n / float(np.linalg.norm(np.cross(self.first, self.second)))
        return np.concatenate([np.concatenate([n, np.zeros(3)])[:, None], np.eye(6)[:, 3:]], axis=1)

    def jcalc(self, q: Array, qd: Array) -> JointMotion:
        XJ = factored(turn(self.second, q[1]), turn(self.first, q[0]))
        second = np.array(self.second)
        axis = turn(self.second, q[1]).E @ np.array(self.first)  # the first axis in F_s coordinates
        S = np.vstack([np.array([axis, second]).T, np.zeros((3, 2))])
        bias = cross(axis, second) * (qd[0] * qd[1])
        return JointMotion(XJ, S, S @ qd, np.concatenate([bias, np.zeros(3)]))


@dataclass(frozen=True)
class Spherical(Joint):
    """All rotations about a point; q a unit quaternion, qd the angular velocity in F_s coordinates
    (RBDA 4.5).

    The quaternion is the book's Euler parameters: scalar first, (1, 0, 0, 0) for no rotation.
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

    def normalized(self, q: Array) -> Array:
        return normalized_quaternion(q)


@dataclass(frozen=True)
class EulerSpherical(Joint):
    """All rotations about a point by yaw, pitch and roll: about z, then y, then x; q in rad (RBDA
    Eq 4.7 to 4.9).

    Singular where the pitch is 90 degrees: no motion there, and none near it, is accurate.
    """

    nq = nv = 3
    q_units, qd_units, tau_units = ("rad",) * 3, ("rad/s",) * 3, ("N.m",) * 3

    def singular(self, q: Array) -> str:
        if abs(np.cos(q[1])) > NEAR_POLE:  # False where it is not a number
            return ""
        pitch = "" if np.isnan(q[1]) else f" at a pitch of {np.degrees(q[1]):.6g} degrees"
        return (
            f"has Euler angles{pitch}, and is singular at a pitch of 90 degrees: a Spherical joint "
            "has no such pose, nor have angles of a frame turned otherwise"
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
