"""Joints that let a body move in a plane, freely, or not at all (RBDA Table 4.1, Example 4.5)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rigidblocks.algebra.rotation import (
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
from rigidblocks.algebra.spatial import Array, Transform, identity, rz
from rigidblocks.joint.axial import Z, angle_about
from rigidblocks.joint.interface import Joint, JointMotion


@dataclass(frozen=True)
class Planar(Joint):
    """Motion in the xy plane: q = (angle about z, x, y) of F_s in F_p coordinates, in (rad, m, m).

    qd = (angular velocity, linear velocity x, y) in F_s coordinates, so that S is constant and
    (RBDA 4.4)

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
        d = travel(_about_z(dq[0]), np.array([dq[1], dq[2], 0.0]))
        moved: Array = q + np.concatenate([dq[:1], rz(q[0])[:2, :2].T @ d[:2]])
        return moved

    def difference(self, q0: Array, q1: Array) -> Array:
        angle = q1[0] - q0[0]
        angle = angle - 2 * np.pi * np.floor(angle / (2 * np.pi) + 0.5)
        d = rz(q0[0]) @ np.array([q1[1] - q0[1], q1[2] - q0[2], 0.0])
        return np.array([angle, *travel_velocity(_about_z(angle), d)[:2]])


def _about_z(angle: float) -> Array:
    return np.array([0.0, 0.0, angle])


@dataclass(frozen=True)
class SixDoF(Joint):
    """Free motion: q = (unit quaternion, scalar first; position of F_s in F_p coordinates [m])
    (RBDA 4.4, 4.5).

    qd = (angular velocity, linear velocity of F_s) in F_s coordinates, so that S is the identity
    and

        dq/dt = (Eq 4.13, E^T v)
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

    def normalized(self, q: Array) -> Array:
        return np.concatenate([normalized_quaternion(q[:4]), q[4:]])


@dataclass(frozen=True)
class Fixed(Joint):
    """No freedom: the two frames stay together."""

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
