"""Joint interface, reversed joints, loop joints, and time derivatives of motion subspaces.

A reversed joint has the opposite polarity (RBDA 4.4, Table 4.2). A loop joint closes a kinematic
loop (RBDA 8.1, 4.1.3). `jcalc` returns only the product dS/dt qd. `subspace_rate` computes the
exact dS/dt of a joint with dual numbers (RBDA 3.5): dS/dt is the coefficient of e in S(q + e
dq/dt), with e^2 = 0.
"""

import abc
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from rigidblocks.spatial.linear_algebra import complement
from rigidblocks.spatial.rigid_motion import displacement
from rigidblocks.spatial.scalar import Dual
from rigidblocks.spatial.spatial import Array, Transform


class JointConstraint(NamedTuple):
    """Loop-closure constraint of a joint, in coordinates of its successor frame (RBDA 8.2, 8.3).

    T (6, nc) spans the constraint forces. delta (nc,) = T^T d is the position error, where d is
    the displacement (rad, m) from the nearest pose that the joint allows. c (6,) is the bias
    acceleration cJ of the joint.
    """

    T: Array
    delta: Array
    c: Array


class JointMotion(NamedTuple):
    """Joint transform XJ, motion subspace S, velocity vJ and bias acceleration cJ of a joint.

    S, vJ and cJ are in coordinates of the successor frame.
    """

    XJ: Transform
    S: Array
    vJ: Array
    cJ: Array


@dataclass(frozen=True)
class Joint(abc.ABC):
    """Joint from a predecessor frame F_p to a successor frame F_s.

    The two frames coincide in the neutral configuration.

    The position variables q need not be generalized coordinates. A joint with a quaternion has more
    position variables than velocity variables qd, and qd is not the derivative of q (RBDA 3.1). The
    default implementations of the methods apply to a joint with dq/dt = qd.
    """

    @property
    @abc.abstractmethod
    def q_units(self) -> tuple[str, ...]:
        """Units of the position variables."""

    @property
    @abc.abstractmethod
    def qd_units(self) -> tuple[str, ...]:
        """Units of the velocity variables."""

    @property
    @abc.abstractmethod
    def tau_units(self) -> tuple[str, ...]:
        """Units of the joint forces; the product of joint force and velocity variable is power."""

    @property
    @abc.abstractmethod
    def nq(self) -> int:
        """Number of position variables."""

    @property
    @abc.abstractmethod
    def nv(self) -> int:
        """Number of velocity variables: the degrees of freedom of the joint."""

    @abc.abstractmethod
    def jcalc(self, q: Array, qd: Array) -> JointMotion:
        """Return the joint transform, motion subspace, velocity and bias acceleration (RBDA 4.4).

        The velocity is vJ = S qd. The bias acceleration is cJ = (apparent derivative of S) qd.

        Args:
            q: Position variables (nq,).
            qd: Velocity variables (nv,).

        Returns:
            The joint transform XJ, the motion subspace S (6, nv), vJ (6,) and cJ (6,).
        """

    def evaluate_at(self, t: Any) -> "Joint":
        """Return the joint at time t [s].

        The result differs from the joint itself only for a time-dependent joint (`Rheonomic`).
        """
        del t
        return self

    def bias_velocity(self, X: Transform) -> Array:
        """Return sigma (6,), the joint velocity at qd = 0, in F_s coordinates (RBDA Eq 3.32).

        X is the joint transform. sigma is zero unless the joint depends on time.
        """
        del X
        return np.zeros(len(self.jcalc(self.neutral(), np.zeros(self.nv)).vJ))

    def rate(self, q: Array, qd: Array) -> Array:
        """Return the derivative of the position variables, dq/dt (nq,) (RBDA Eq 3.7)."""
        del q
        return qd

    def integrate(self, q: Array, dq: Array) -> Array:
        """Return the configuration (nq,) after unit time at the constant velocity dq from q.

        dq (nv,) contains velocity variables.
        """
        return q + dq

    def difference(self, q0: Array, q1: Array) -> Array:
        """Return the constant velocity (nv,) that moves the joint from q0 to q1 in unit time.

        If two rotations lead to the same orientation, the result has the smaller rotation angle.
        """
        return q1 - q0

    def neutral(self) -> Array:
        """Return the neutral configuration (nq,), in which both frames of the joint coincide."""
        return np.zeros(self.nq)

    def random(self, rng: np.random.Generator) -> Array:
        """Return a random configuration (nq,).

        Angles are between -pi and pi, distances between -1 m and 1 m. Quaternions represent random
        orientations.
        """
        limit = np.array([np.pi if unit == "rad" else 1.0 for unit in self.q_units])
        return rng.uniform(-limit, limit)

    def nearest(self, X: Transform) -> Array:
        """Return the configuration (nq,) whose joint transform is nearest to X (from F_p to F_s).

        If the joint can reach X, the result is exact. Angles are between -pi and pi.

        Raises:
            NotImplementedError: The joint cannot close a loop.
        """
        raise NotImplementedError(
            f"a joint of type {type(self).__name__} cannot close a loop: it has no method `nearest`"
        )

    def closest(self, X: Transform) -> Transform:
        """Return the joint transform (from F_p to F_s) that is nearest to the transform X."""
        return self.jcalc(self.nearest(X), np.zeros(self.nv)).XJ

    def velocity(self, q: Array, vJ: Array) -> Array:
        """Return the velocity variables qd (nv,) for a joint velocity vJ = S qd (6,).

        If no qd gives vJ exactly, the result is the least-squares solution. The default
        implementation requires a constant S.
        """
        del q
        return np.linalg.pinv(self.jcalc(self.neutral(), np.zeros(self.nv)).S) @ vJ

    def constraint_forces(self, q: Array) -> Array:
        """Return a basis T (6, 6 - nv) of the constraint forces, in F_s coordinates (RBDA 3.4).

        These forces do no work in the joint: T^T S = 0. The default implementation requires a
        constant S.
        """
        del q
        return complement(self.jcalc(self.neutral(), np.zeros(self.nv)).S)

    def constraint(self, X: Transform, vJ: Array) -> JointConstraint:
        """Return the loop-closure constraint on the frames F_p and F_s (RBDA Eq 8.24, 8.25).

        X is the transform from F_p to F_s. F_s moves with vJ (6,) relative to F_p.
        """
        q = self.nearest(X)
        T = self.constraint_forces(q)
        d = displacement(X @ self.closest(X).inverse())
        return JointConstraint(T, T.T @ d, self.jcalc(q, self.velocity(q, vJ)).cJ)

    def align_frames(self) -> tuple["Joint", Array]:
        """Return an equivalent joint that is cheaper to compute, and a rotation matrix (3, 3).

        A joint with a general axis becomes a joint with axis z. The matrix rotates the coordinates
        of F_p and F_s to coordinates of the corresponding frames of the new joint. All other joints
        are returned unchanged, with the identity.
        """
        return self, np.eye(3)

    def singular(self, q: Array) -> str:
        """Return an explanation if the joint is singular at q (nq,), else an empty string.

        A configuration close to a singularity counts as singular if rounding errors dominate the
        results. q contains floats, not traced scalars.
        """
        del q
        return ""

    def normalize(self, q: Array) -> Array:
        """Return the configuration (nq,) with a normalized quaternion, if q contains one."""
        return q


@dataclass(frozen=True)
class DerivedJoint(Joint):
    """Base class of joints with the variables and units of another joint (`joint`)."""

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

    def normalize(self, q: Array) -> Array:
        return self.joint.normalize(q)


@dataclass(frozen=True)
class Reversed(DerivedJoint):
    """Joint with its predecessor frame on the child and its successor frame on the parent.

    A reversed joint has the variables and units of the original `joint` (RBDA Table 4.2).
    """

    def jcalc(self, q: Array, qd: Array) -> JointMotion:
        XJ, S, vJ, cJ = self.joint.jcalc(q, qd)
        back = XJ.inverse()
        return JointMotion(back, -(back @ S), -(back @ vJ), -(back @ cJ))

    def evaluate_at(self, t: Any) -> Joint:
        joint = self.joint.evaluate_at(t)
        return self if joint is self.joint else Reversed(joint)

    def bias_velocity(self, X: Transform) -> Array:
        sigma: Array = -(X @ self.joint.bias_velocity(X.inverse()))
        return sigma

    def nearest(self, X: Transform) -> Array:
        return self.joint.nearest(X.inverse())

    def closest(self, X: Transform) -> Transform:
        return self.joint.closest(X.inverse()).inverse()

    def velocity(self, q: Array, vJ: Array) -> Array:
        XJ = self.joint.jcalc(q, np.zeros(self.nv)).XJ
        return self.joint.velocity(q, -(XJ @ vJ))

    def constraint_forces(self, q: Array) -> Array:
        XJ = self.joint.jcalc(q, np.zeros(self.nv)).XJ
        return XJ.T @ self.joint.constraint_forces(q)

    def align_frames(self) -> tuple[Joint, Array]:
        joint, E = self.joint.align_frames()
        return Reversed(joint), E


@dataclass(frozen=True, eq=False)  # eq=False: comparing arrays returns an array
class LoopJoint:
    """Joint of any type that closes a loop between two bodies of a tree.

    The joint connects body `predecessor` to body `successor`; -1 is the fixed base. `Xp` is the
    transform from predecessor body coordinates to the joint frame F_p. `Xs` is the transform from
    successor body coordinates to F_s. They are X_P and X_S of RBDA Table 8.4. Both transforms are
    planar in a planar model and otherwise spatial.
    """

    joint: Joint
    predecessor: int
    successor: int
    Xp: Any
    Xs: Any
    name: str = ""


def subspace_rate(joint: Joint, q: Array, qd: Array) -> Array:
    """Return the time derivative dS/dt (6, nv) of the elements of a motion subspace.

    The elements of q (nq,) and qd (nv,) may be floats or traced scalars.
    """
    moving = np.empty(joint.nq, dtype=object)
    moving[:] = [Dual(value, slope) for value, slope in zip(q, joint.rate(q, qd), strict=True)]
    S = joint.jcalc(moving, np.zeros(joint.nv)).S
    slopes = [element.slope if isinstance(element, Dual) else 0.0 for element in S.ravel()]
    return np.array(slopes).reshape(S.shape)
