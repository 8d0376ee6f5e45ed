"""Rheonomic and nonholonomic constraints: prescribed motion, cables, rolling, and a skate.

Rheonomic constraints depend on time. They are joints on a frame with prescribed motion, and cables
whose length is a function of time.

Nonholonomic joints constrain the velocity: rolling without slipping, and a skate without sideways
motion. Nonholonomic joints have fewer velocity variables than position variables. The motion
subspace S of a rolling joint depends on the position. A rolling joint may be a tree joint or a loop
joint. The contact is an equality constraint, so the body neither lifts off nor slips under any
force.

Source: RBDA 3.4, 3.5.
"""

import abc
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from rigidblocks.robot.joints.base import DerivedJoint, Joint, JointConstraint, JointMotion
from rigidblocks.robot.joints.holonomic import SixDoF
from rigidblocks.spatial import planar, spatial
from rigidblocks.spatial.planar import Transform as PlanarTransform
from rigidblocks.spatial.planar import rz
from rigidblocks.spatial.rigid_motion import normalized_quaternion, quaternion_rotation
from rigidblocks.spatial.scalar import Dual, less, select
from rigidblocks.spatial.spatial import Array, Transform, cross, multiply_transforms, skew


class GivenMotion(NamedTuple):
    """Value, first derivative `rate` and second derivative `second` of a function of time."""

    value: Any
    rate: Any
    second: Any


def given_motion(function: Callable[[Any], Any], t: Any) -> GivenMotion:
    """Return the value (k,) of a function of time at t, and its first two time derivatives.

    The derivatives are exact. t [s] may be a traced scalar.
    """
    exact = [
        _value_and_derivatives(value)
        for value in np.atleast_1d(function(Dual(Dual(t, 1.0), Dual(1.0, 0.0))))
    ]
    return GivenMotion(*(np.array([one[k] for one in exact]) for k in range(3)))


def _value_and_derivatives(value: Any) -> tuple[Any, Any, Any]:
    if not isinstance(value, Dual):
        return value, 0.0, 0.0
    first, slope = value.value, value.slope
    second = slope.slope if isinstance(slope, Dual) else 0.0
    return (first.value, first.slope, second) if isinstance(first, Dual) else (first, 0.0, second)


class _Drive(NamedTuple):
    """Prescribed motion of a frame relative to the predecessor frame F_p.

    X is the transform from F_p to the frame, sigma the velocity of the frame, and `rate` the
    apparent derivative of sigma. sigma and `rate` are in coordinates of the frame.
    """

    X: Any
    sigma: Array
    rate: Array


@dataclass(frozen=True)
class Rheonomic(DerivedJoint):
    """Joint relative to a frame with prescribed motion (rheonomic constraint).

        v_J = S qd + sigma(q, t)                              (RBDA Eq 3.32, 3.41)
        c_J = apparent derivative of v_J at qdd = 0

    `drive` connects F_p to the frame with prescribed motion, and `joint` connects this frame to
    F_s. sigma (6,) is the velocity of this frame in F_s coordinates. `motion`(t) returns the
    position variables (nq,) of `drive`. If `joint` is `Fixed`, the complete motion is prescribed,
    otherwise only some components of the motion. For example, a cylindrical joint with prescribed
    rotation is a `Prismatic` joint on a `Revolute` drive.

    `motion` may use arithmetic, NumPy functions and `select`; its derivatives are exact. The joint
    has the variables and forces of `joint`. The drive does work, so energy is not conserved.

    The motion of a model with rheonomic joints is defined only at a given time. Algorithms require
    the model at that time, `model.evaluate_at(t)`.

    Raises:
        ValueError: A method needs the time, but `t` is None.
    """

    drive: Joint
    motion: Callable[[Any], Any]
    t: Any = None

    def evaluate_at(self, t: Any) -> Joint:
        return replace(self, t=t)

    def jcalc(self, q: Array, qd: Array) -> JointMotion:
        drive = self._drive()
        XJ, S, vJ, cJ = self.joint.jcalc(q, qd)
        sigma = XJ @ drive.sigma
        bias = cJ + XJ @ drive.rate - _cross(vJ, sigma)
        return JointMotion(multiply_transforms(XJ, drive.X), S, vJ + sigma, bias)

    def bias_velocity(self, X: Any) -> Array:
        drive = self._drive()
        sigma: Array = X @ drive.X.inverse() @ drive.sigma
        return sigma

    def constraint(self, X: Any, vJ: Array) -> JointConstraint:
        drive = self._drive()
        beyond = X @ drive.X.inverse()
        sigma = beyond @ drive.sigma
        T, delta, c = self.joint.constraint(beyond, vJ - sigma)
        return JointConstraint(T, delta, c + beyond @ drive.rate - _cross(vJ - sigma, sigma))

    def nearest(self, X: Any) -> Array:
        return self.joint.nearest(X @ self._drive().X.inverse())

    def closest(self, X: Any) -> Any:
        drive = self._drive()
        return self.joint.closest(X @ drive.X.inverse()) @ drive.X

    def velocity(self, q: Array, vJ: Array) -> Array:
        XJ = self.joint.jcalc(q, np.zeros(self.nv)).XJ
        return self.joint.velocity(q, vJ - XJ @ self._drive().sigma)

    def constraint_forces(self, q: Array) -> Array:
        return self.joint.constraint_forces(q)

    def _drive(self) -> _Drive:
        if self.t is None:
            raise ValueError("a rheonomic joint depends on time; use model.evaluate_at(t)")
        if len(here := np.atleast_1d(self.motion(self.t))) != self.drive.nq:
            raise ValueError(
                "the motion of a rheonomic joint must have one value per position variable of its "
                f"drive {self.drive}: expected {self.drive.nq}, not {len(here)}"
            )
        there = given_motion(
            lambda t: self.drive.difference(here, np.atleast_1d(self.motion(t))), self.t
        )
        X, S, sigma, bias = self.drive.jcalc(here, there.rate)
        return _Drive(X, sigma, S @ there.second + bias)


def _cross(first: Array, second: Array) -> Array:
    algebra = planar if len(first) == 3 else spatial
    product: Array = algebra.cross_motion(first, second)
    return product


@dataclass(frozen=True, eq=False)  # eq=False: comparing arrays returns an array
class StringConstraint:
    """Taut massless cable through points of bodies.

        |p_2 - p_1| + |p_3 - p_2| + ... = length

    Each point consists of a body index (-1 for the fixed base) and a position in body coordinates:
    (3,) [m], or (2,) [m] in the plane. The cable slides without friction through all points except
    the ends, as over small pulleys. If `closed` is True, the cable also connects the last point to
    the first point.

    A closed cable may run around discs of equal `radius` [m]. The discs are centred at the points
    and lie inside the cable. The left side of the equation then has the additional term 2 pi radius
    (RBDA 3.4: l_1 + l_2 + l_3 + 2 pi r = p). `length` [m] is a number, or a function of time for a
    winch, as in `Rheonomic`.

    The constraint is an equality, so the cable can also push. The multiplier is the negative
    tension [N]; a positive multiplier means that a real cable would be slack. Adjacent points must
    not coincide, because the direction between them is then not finite.
    """

    points: tuple[tuple[int, Any], ...]
    length: float | Callable[[Any], Any]
    closed: bool = False
    radius: float = 0.0
    name: str = ""
    t: Any = None

    @property
    def rheonomic(self) -> bool:
        """True if the length is a function of time."""
        return callable(self.length)

    def evaluate_at(self, t: Any) -> "StringConstraint":
        """Return the constraint, evaluated at the time t [s]."""
        return replace(self, t=t) if self.rheonomic else self

    def given_length(self) -> GivenMotion:
        """Return the length of the cable [m] and the first and second time derivatives.

        Raises:
            ValueError: The length depends on time, but `t` is None.
        """
        if not callable(self.length):
            return GivenMotion(self.length, 0.0, 0.0)
        if self.t is None:
            raise ValueError(
                f"string '{self.name}' has a time-dependent length; use model.evaluate_at(t)"
            )
        return GivenMotion(*(value[0] for value in given_motion(self.length, self.t)))

    def segments(self) -> tuple[tuple[tuple[int, Array], tuple[int, Array]], ...]:
        """Return the end points of each straight segment of the cable."""
        ends = (*self.points[1:], self.points[0]) if self.closed else self.points[1:]
        return tuple(zip(self.points, ends, strict=False))


_FREE = SixDoF()


@dataclass(frozen=True)
class _Rolling(Joint):
    """Joint of a body that rolls on a plane; the contact point c(q) of the body has zero velocity.

    q = (unit quaternion, position of F_s in F_p [m]), as for SixDoF. qd is the angular velocity
    w (3,) of F_s in F_s coordinates. The velocity of the origin of F_s is c x w:

        S = [1; cx],  c_J = [0; dc/dt x w]

    1 is the identity (3, 3), and cx is the matrix of the cross product with c. In F_p coordinates,
    the plane is z = -radius, so the body touches it in the neutral configuration. The constraint
    forces act at the contact point and are in F_s coordinates.
    """

    radius: float
    nq, nv = 7, 3
    q_units = ("1",) * 4 + ("m",) * 3
    qd_units, tau_units = ("rad/s",) * 3, ("N.m",) * 3

    def __post_init__(self) -> None:
        if not (self.radius > 0 and np.isfinite(self.radius)):
            raise ValueError(
                f"the radius of a rolling body must be positive and finite, not {self.radius} m"
            )

    @abc.abstractmethod
    def contact(self, n: Array, w: Array) -> tuple[Array, Array]:
        """Return the contact point c (3,) [m] and its derivative, in F_s coordinates.

        n is the unit normal of the plane, w the angular velocity of F_s [rad/s]; both are in F_s
        coordinates.
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
        return self.normalize(_FREE.integrate(q, self.jcalc(q, dq).vJ))

    def difference(self, q0: Array, q1: Array) -> Array:
        """Return only the rotation (3,) from q0 to q1, because the position depends on the path."""
        return _FREE.difference(q0, q1)[:3]

    def neutral(self) -> Array:
        return _FREE.neutral()

    def random(self, rng: np.random.Generator) -> Array:
        return self.normalize(_FREE.random(rng))

    def normalize(self, q: Array) -> Array:
        """Return the configuration with a unit quaternion and in contact with the plane."""
        p = normalized_quaternion(q[:4])
        n = quaternion_rotation(p)[:, 2]
        c, _ = self.contact(n, np.zeros(3))
        return np.concatenate([p, q[4:6], np.array([-(n @ c) - self.radius])])

    def nearest(self, X: Transform) -> Array:
        return self.normalize(_FREE.nearest(X))

    def velocity(self, q: Array, vJ: Array) -> Array:
        del q
        return vJ[:3]

    def constraint_forces(self, q: Array) -> Array:
        c, _ = self.contact(quaternion_rotation(q[:4])[:, 2], np.zeros(3))
        return np.vstack([skew(c), np.eye(3)])


@dataclass(frozen=True)
class RollingBall(_Rolling):
    """Ball of `radius` [m] that rolls on a plane; the centre of the ball is the origin of F_s.

    The ball can rotate about all axes, including the plane normal.
    """

    def contact(self, n: Array, w: Array) -> tuple[Array, Array]:
        return -self.radius * n, self.radius * cross(w, n)


@dataclass(frozen=True)
class RollingDisc(_Rolling):
    """Thin disc of `radius` [m] whose rim rolls on a plane.

    The axis of the disc is the y axis of F_s. A disc that lies flat has no contact point; the
    results are then not finite.
    """

    def contact(self, n: Array, w: Array) -> tuple[Array, Array]:
        dn = -cross(w, n)
        flat, rate = n * _RADIAL, dn * _RADIAL
        length = np.sqrt(flat @ flat)
        down = flat / length
        return -self.radius * down, -self.radius / length * (rate - down * (down @ rate))


_RADIAL = np.array([1.0, 0.0, 1.0])  # selects the components in the plane of the disc


@dataclass(frozen=True)
class Blade(Joint):
    """Planar skate or wheel, with motion along the x axis of F_s and rotation about z.

    The body does not move sideways. q = (angle [rad], position of F_s in F_p [m]). qd = (angular
    velocity [rad/s], speed along x [m/s]). The joint uses planar vectors.
    """

    nq, nv = 3, 2
    q_units, qd_units, tau_units = ("rad", "m", "m"), ("rad/s", "m/s"), ("N.m", "N")

    def jcalc(self, q: Array, qd: Array) -> JointMotion:
        S = np.eye(3)[:, :2]
        return JointMotion(PlanarTransform(rz(q[0]), q[1:]), S, S @ qd, np.zeros(3))  # type: ignore[arg-type]

    def rate(self, q: Array, qd: Array) -> Array:
        return np.array([qd[0], np.cos(q[0]) * qd[1], np.sin(q[0]) * qd[1]])

    def integrate(self, q: Array, dq: Array) -> Array:
        """Return the configuration after unit time at the velocity dq, on a circular arc from q."""
        half = 0.5 * dq[0]
        chord = dq[1] * _chord(half)
        arc: Array = q + np.array([dq[0], chord * np.cos(q[0] + half), chord * np.sin(q[0] + half)])
        return arc

    def difference(self, q0: Array, q1: Array) -> Array:
        """Return the rotation [rad] and the distance [m] of the circular arc from q0 to q1.

        The arc length follows from the displacement along the mean direction. The method ignores
        the sideways displacement.
        """
        turn = np.arctan2(np.sin(q1[0] - q0[0]), np.cos(q1[0] - q0[0]))
        mean = q0[0] + 0.5 * turn
        along = np.cos(mean) * (q1[1] - q0[1]) + np.sin(mean) * (q1[2] - q0[2])
        return np.array([turn, along / _chord(0.5 * turn)])

    def constraint(self, X: Any, vJ: Array) -> JointConstraint:
        """Return the constraint on the sideways velocity; the position error is always zero."""
        del X, vJ
        return JointConstraint(np.eye(3)[:, 2:], np.zeros(1), np.zeros(3))

    def nearest(self, X: Any) -> Array:
        return np.array([np.arctan2(X.E[0, 1], X.E[0, 0]), X.r[0], X.r[1]])


def _chord(half: Any) -> Any:
    """Return the ratio of chord to arc, sin(half) / half; `half` is half the arc angle [rad]."""
    small = less(half * half, 1e-8)
    return select(small, 1.0 - half * half / 6.0, np.sin(half) / select(small, 1.0, half))
