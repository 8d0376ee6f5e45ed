"""What every joint offers."""

import abc
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rigidblocks.spatial import Array, Transform


class JointMotion(NamedTuple):
    """What `jcalc` returns, all in the coordinates of the joint's successor frame."""

    XJ: Transform
    S: Array
    vJ: Array
    cJ: Array


@dataclass(frozen=True)
class Joint(abc.ABC):
    """A joint from a predecessor frame F_p to a successor frame F_s; the two coincide in the neutral configuration.

    The position variables q need not be coordinates: with a quaternion there are more of them than velocity variables qd,
    and qd is not their rate (RBDA 3.1). What is here in terms of q and qd is that of a joint whose rate of q is qd.
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
        """The joint transform XJ, the motion subspace S (6, nv), the velocity vJ = S qd (6,) and the bias cJ (6,), which
        is the apparent derivative of S times qd; q (nq,), qd (nv,) (RBDA 4.4).
        """

    def rate(self, q: Array, qd: Array) -> Array:
        """The rate of change of the position variables, dq/dt (nq,) (RBDA Eq 3.7)."""
        del q
        return qd

    def integrate(self, q: Array, dq: Array) -> Array:
        """The configuration (nq,) after unit time with the constant velocity dq (nv,), from q."""
        return q + dq

    def difference(self, q0: Array, q1: Array) -> Array:
        """The constant velocity (nv,) that leads from q0 to q1 in unit time, over the smaller angle where there are two."""
        return q1 - q0

    def neutral(self) -> Array:
        """The configuration (nq,) in which F_s and F_p coincide."""
        return np.zeros(self.nq)

    def random(self, rng: np.random.Generator) -> Array:
        """A random configuration (nq,): angles within half a turn, distances within 1 m, rotations of all directions."""
        limit = np.array([np.pi if unit == "rad" else 1.0 for unit in self.q_units])
        return rng.uniform(-limit, limit)

    def aligned(self) -> tuple["Joint", Array]:
        """The cheapest joint of the same motion in turned frames, and the rotation (3, 3) of both frames to them.

        A joint about one general axis is one about z; any other is itself in its own frames.
        """
        return self, np.eye(3)

    def normalized(self, q: Array) -> Array:
        """The configuration (nq,) with its quaternion made a unit one; the same where there is none."""
        return q
