"""Nonholonomic joints: contacts that roll or glide without slipping (RBDA 3.4).

They have fewer velocity than position variables, and their S changes with the position. What holds
for all joints holds for them: a body rolls as a body of the tree, or a joint closes a loop by it.
Contact is an equality here: nothing lifts off, and nothing slips, whatever the force.
"""

import abc
from dataclasses import dataclass
from typing import Any

import numpy as np

from rigidblocks.algebra.planar import Transform as PlanarTransform
from rigidblocks.algebra.planar import rz
from rigidblocks.algebra.rotation import normalized_quaternion, quaternion_rotation
from rigidblocks.algebra.scalar import less, select
from rigidblocks.algebra.spatial import Array, Transform, cross, skew
from rigidblocks.joint.free import SixDoF
from rigidblocks.joint.interface import Joint, JointConstraint, JointMotion

_FREE = SixDoF()


@dataclass(frozen=True)
class _Rolling(Joint):
    """A body whose point of contact c(q) with a plane has no velocity.

    q = (unit quaternion, position of F_s in F_p [m]), as of SixDoF; qd is the angular velocity (3,)
    of F_s in its own coordinates, and its origin moves with c x w:

        S = [1; cx],  c_J = [0; dc/dt x w]

    The plane is z = -radius of F_p, so that it touches in the neutral configuration. The constraint
    forces are those at the point of contact, in F_s coordinates.
    """

    radius: float
    nq, nv = 7, 3
    q_units = ("1",) * 4 + ("m",) * 3
    qd_units, tau_units = ("rad/s",) * 3, ("N.m",) * 3

    def __post_init__(self) -> None:
        if not (self.radius > 0 and np.isfinite(self.radius)):
            raise ValueError(f"the radius of what rolls must be positive, not {self.radius} m")

    @abc.abstractmethod
    def contact(self, n: Array, w: Array) -> tuple[Array, Array]:
        """The point of contact c (3,) [m] and its rate, in F_s coordinates, for the plane's unit
        normal n there and the angular velocity w of F_s [rad/s].
        """

    def jcalc(self, q: Array, qd: Array) -> JointMotion:
        E = quaternion_rotation(q[:4])
        c, rate = self.contact(E[:, 2], qd)
        S = np.vstack([np.eye(3), skew(c)])
        bias = np.concatenate([np.zeros(3), cross(rate, qd)])
        return JointMotion(Transform(E, q[4:]), S, S @ qd, bias)

    def rate(self, q: Array, qd: Array) -> Array:
        return _FREE.rate(q, self.jcalc(q, qd).vJ)

    def integrate(self, q: Array, dq: Array) -> Array:
        return self.normalized(_FREE.integrate(q, self.jcalc(q, dq).vJ))

    def difference(self, q0: Array, q1: Array) -> Array:
        """The rotation alone: where it leads to depends on the way."""
        return _FREE.difference(q0, q1)[:3]

    def neutral(self) -> Array:
        return _FREE.neutral()

    def random(self, rng: np.random.Generator) -> Array:
        return self.normalized(_FREE.random(rng))

    def normalized(self, q: Array) -> Array:
        """The configuration with a unit quaternion, and in touch with the plane."""
        p = normalized_quaternion(q[:4])
        n = quaternion_rotation(p)[:, 2]
        c, _ = self.contact(n, np.zeros(3))
        return np.concatenate([p, q[4:6], np.array([-(n @ c) - self.radius])])

    def nearest(self, X: Transform) -> Array:
        return self.normalized(_FREE.nearest(X))

    def velocity(self, q: Array, vJ: Array) -> Array:
        del q
        return vJ[:3]

    def constraint_forces(self, q: Array) -> Array:
        c, _ = self.contact(quaternion_rotation(q[:4])[:, 2], np.zeros(3))
        return np.vstack([skew(c), np.eye(3)])


@dataclass(frozen=True)
class RollingBall(_Rolling):
    """A ball of `radius` [m] about the origin of F_s that rolls on a plane: it may turn in all
    ways, also on the spot.
    """

    def contact(self, n: Array, w: Array) -> tuple[Array, Array]:
        return -self.radius * n, self.radius * cross(w, n)


@dataclass(frozen=True)
class RollingDisc(_Rolling):
    """A thin disc of `radius` [m] about the y axis of F_s whose rim rolls on a plane.

    A disc that lies flat has no point of contact: nothing is finite there.
    """

    def contact(self, n: Array, w: Array) -> tuple[Array, Array]:
        dn = -cross(w, n)
        flat, rate = n * _RADIAL, dn * _RADIAL
        length = np.sqrt(flat @ flat)
        down = flat / length
        return -self.radius * down, -self.radius / length * (rate - down * (down @ rate))


_RADIAL = np.array([1.0, 0.0, 1.0])  # of the disc's plane


@dataclass(frozen=True)
class Blade(Joint):
    """A skate or a wheel in the plane, which goes along the x axis of F_s and turns, but does not
    move sideways.

    q = (angle [rad], position of F_s in F_p [m]); qd = (turning [rad/s], speed along x [m/s]). In
    planar vectors.
    """

    nq, nv = 3, 2
    q_units, qd_units, tau_units = ("rad", "m", "m"), ("rad/s", "m/s"), ("N.m", "N")

    def jcalc(self, q: Array, qd: Array) -> JointMotion:
        S = np.eye(3)[:, :2]
        return JointMotion(PlanarTransform(rz(q[0]), q[1:]), S, S @ qd, np.zeros(3))  # type: ignore[arg-type]

    def rate(self, q: Array, qd: Array) -> Array:
        return np.array([qd[0], np.cos(q[0]) * qd[1], np.sin(q[0]) * qd[1]])

    def integrate(self, q: Array, dq: Array) -> Array:
        """Along the arc."""
        half = 0.5 * dq[0]
        chord = dq[1] * _chord(half)
        arc: Array = q + np.array([dq[0], chord * np.cos(q[0] + half), chord * np.sin(q[0] + half)])
        return arc

    def difference(self, q0: Array, q1: Array) -> Array:
        """The turn, and the way along the mean direction: a way to the side is left out."""
        turn = np.arctan2(np.sin(q1[0] - q0[0]), np.cos(q1[0] - q0[0]))
        mean = q0[0] + 0.5 * turn
        along = np.cos(mean) * (q1[1] - q0[1]) + np.sin(mean) * (q1[2] - q0[2])
        return np.array([turn, along / _chord(0.5 * turn)])

    def constraint(self, X: Any, vJ: Array) -> JointConstraint:
        """No way to the side; it can be anywhere."""
        del X, vJ
        return JointConstraint(np.eye(3)[:, 2:], np.zeros(1), np.zeros(3))

    def nearest(self, X: Any) -> Array:
        return np.array([np.arctan2(X.E[0, 1], X.E[0, 0]), X.r[0], X.r[1]])


def _chord(half: Any) -> Any:
    """The chord of an arc over the arc, sin(half) / half of half its angle."""
    small = less(half * half, 1e-8)
    return select(small, 1.0 - half * half / 6.0, np.sin(half) / select(small, 1.0, half))
