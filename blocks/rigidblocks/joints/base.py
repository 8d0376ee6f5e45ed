"""What every joint offers."""

import abc
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from rigidblocks.algebra.displacement import displacement
from rigidblocks.algebra.linear import complement
from rigidblocks.algebra.spatial import Array, Transform


class JointConstraint(NamedTuple):
    """What a joint asks of its frames when it closes a loop, in the coordinates of its successor
    frame (RBDA 8.2, 8.3).

    T (6, nc) spans the constraint forces; delta (nc,) = T^T d is how far the frames are from where
    the joint could bring them, d the displacement (rad, m) from the nearest such place; c (6,) is
    the bias cJ of the joint's own motion.
    """

    T: Array
    delta: Array
    c: Array


class JointMotion(NamedTuple):
    """What `jcalc` returns, all in the coordinates of the joint's successor frame."""

    XJ: Transform
    S: Array
    vJ: Array
    cJ: Array


@dataclass(frozen=True)
class Joint(abc.ABC):
    """A joint from a predecessor frame F_p to a successor frame F_s; the two coincide in the
    neutral configuration.

    The position variables q need not be coordinates: with a quaternion there are more of them than
    velocity variables qd, and qd is not their rate (RBDA 3.1). What is here in terms of q and qd is
    that of a joint whose rate of q is qd.
    """

    @property
    @abc.abstractmethod
    def q_units(self) -> tuple[str, ...]:
        """The units of the position variables."""

    @property
    @abc.abstractmethod
    def qd_units(self) -> tuple[str, ...]:
        """The units of the velocity variables."""

    @property
    @abc.abstractmethod
    def tau_units(self) -> tuple[str, ...]:
        """The units of the joint forces, which times the velocity variables are power."""

    @property
    @abc.abstractmethod
    def nq(self) -> int:
        """The number of position variables."""

    @property
    @abc.abstractmethod
    def nv(self) -> int:
        """The number of velocity variables: the freedoms of the joint."""

    @abc.abstractmethod
    def jcalc(self, q: Array, qd: Array) -> JointMotion:
        """The joint transform XJ, the motion subspace S (6, nv), the velocity vJ = S qd (6,) and
        the bias cJ (6,), which is the apparent derivative of S times qd; q (nq,), qd (nv,) (RBDA
        4.4).
        """

    def at(self, t: Any) -> "Joint":
        """The joint at the time t [s]; the same unless it depends on time (`Rheonomic`)."""
        del t
        return self

    def bias_velocity(self, X: Transform) -> Array:
        """sigma (6,): the velocity that the joint has at qd = 0 where X is its transform, in F_s
        coordinates; zero unless it depends on time (RBDA Eq 3.32).
        """
        del X
        return np.zeros(len(self.jcalc(self.neutral(), np.zeros(self.nv)).vJ))

    def rate(self, q: Array, qd: Array) -> Array:
        """The rate of change of the position variables, dq/dt (nq,) (RBDA Eq 3.7)."""
        del q
        return qd

    def integrate(self, q: Array, dq: Array) -> Array:
        """The configuration (nq,) after unit time with the constant velocity dq (nv,), from q."""
        return q + dq

    def difference(self, q0: Array, q1: Array) -> Array:
        """The constant velocity (nv,) that leads from q0 to q1 in unit time, over the smaller angle
        where there are two.
        """
        return q1 - q0

    def neutral(self) -> Array:
        """The configuration (nq,) in which F_s and F_p coincide."""
        return np.zeros(self.nq)

    def random(self, rng: np.random.Generator) -> Array:
        """A random configuration (nq,): angles within half a turn, distances within 1 m, rotations
        of all directions.
        """
        limit = np.array([np.pi if unit == "rad" else 1.0 for unit in self.q_units])
        return rng.uniform(-limit, limit)

    def nearest(self, X: Transform) -> Array:
        """The configuration (nq,) whose joint transform comes nearest to X, from F_p to F_s; X's
        own where X is possible.

        Angles are within half a turn.
        """
        raise NotImplementedError(
            f"a joint of type {type(self).__name__} cannot close a loop: it has no `nearest`"
        )

    def closest(self, X: Transform) -> Transform:
        """The joint transform that comes nearest to X."""
        return self.jcalc(self.nearest(X), np.zeros(self.nv)).XJ

    def velocity(self, q: Array, vJ: Array) -> Array:
        """The velocity variables qd (nv,) of frames that move with vJ = S qd (6,); the nearest ones
        of other frames.

        What is here is that of a joint with a constant S.
        """
        del q
        return np.linalg.pinv(self.jcalc(self.neutral(), np.zeros(self.nv)).S) @ vJ

    def constraint_forces(self, q: Array) -> Array:
        """T (6, 6 - nv): a basis of the forces that do no work in the joint, T^T S = 0, in F_s
        coordinates (RBDA 3.4).

        What is here is that of a joint with a constant S.
        """
        del q
        return complement(self.jcalc(self.neutral(), np.zeros(self.nv)).S)

    def constraint(self, X: Transform, vJ: Array) -> JointConstraint:
        """What is asked of two frames that are related by X, F_s moving with vJ (6,) against F_p
        (RBDA Eq 8.24, 8.25).
        """
        q = self.nearest(X)
        T = self.constraint_forces(q)
        d = displacement(X @ self.closest(X).inverse())
        return JointConstraint(T, T.T @ d, self.jcalc(q, self.velocity(q, vJ)).cJ)

    def aligned(self) -> tuple["Joint", Array]:
        """The cheapest joint of the same motion in turned frames, and the rotation (3, 3) of both
        frames to them.

        A joint about one general axis is one about z; any other is itself in its own frames.
        """
        return self, np.eye(3)

    def singular(self, q: Array) -> str:
        """How the coordinates q (nq,) are singular, or so near to it that numbers fail, for a
        message; empty where they are not. Numbers alone.
        """
        del q
        return ""

    def normalized(self, q: Array) -> Array:
        """The configuration (nq,) with its quaternion made a unit one; the same where there is
        none.
        """
        return q


@dataclass(frozen=True)
class DerivedJoint(Joint):
    """A joint made of another one, whose variables and units it has."""

    joint: Joint

    @property
    def nq(self) -> int:
        return self.joint.nq

    @property
    def nv(self) -> int:
        return self.joint.nv

    @property
    def q_units(self) -> tuple[str, ...]:
        return self.joint.q_units

    @property
    def qd_units(self) -> tuple[str, ...]:
        return self.joint.qd_units

    @property
    def tau_units(self) -> tuple[str, ...]:
        return self.joint.tau_units

    def rate(self, q: Array, qd: Array) -> Array:
        return self.joint.rate(q, qd)

    def integrate(self, q: Array, dq: Array) -> Array:
        return self.joint.integrate(q, dq)

    def difference(self, q0: Array, q1: Array) -> Array:
        return self.joint.difference(q0, q1)

    def neutral(self) -> Array:
        return self.joint.neutral()

    def random(self, rng: np.random.Generator) -> Array:
        return self.joint.random(rng)

    def singular(self, q: Array) -> str:
        return self.joint.singular(q)

    def normalized(self, q: Array) -> Array:
        return self.joint.normalized(q)
