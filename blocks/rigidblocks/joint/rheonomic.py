"""Constraints that depend on time: joints one of whose frames is moved (RBDA 3.4, 3.5)."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from rigidblocks.algebra import planar, spatial
from rigidblocks.algebra.dual import Dual
from rigidblocks.algebra.factored import factored
from rigidblocks.algebra.spatial import Array
from rigidblocks.joint.interface import DerivedJoint, Joint, JointConstraint, JointMotion


class GivenMotion(NamedTuple):
    """The value of a function of time and its first and second rate."""

    value: Any
    rate: Any
    second: Any


def given_motion(function: Callable[[Any], Any], t: Any) -> GivenMotion:
    """A function of time (k,) at t, with its exact rates; t may be traced."""
    exact = [_twice(value) for value in np.atleast_1d(function(Dual(Dual(t, 1.0), Dual(1.0, 0.0))))]
    return GivenMotion(*(np.array([one[k] for one in exact]) for k in range(3)))


def _twice(value: Any) -> tuple[Any, Any, Any]:
    if not isinstance(value, Dual):
        return value, 0.0, 0.0
    first, slope = value.value, value.slope
    second = slope.slope if isinstance(slope, Dual) else 0.0
    return (first.value, first.slope, second) if isinstance(first, Dual) else (first, 0.0, second)


class _Drive(NamedTuple):
    """The transform to the moved frame, its velocity sigma and the apparent derivative of that, in
    its own coordinates.
    """

    X: Any
    sigma: Array
    rate: Array


@dataclass(frozen=True)
class Rheonomic(DerivedJoint):
    """`joint` from a frame that is moved: from F_p by `drive`, a joint whose positions (nq,) are
    `motion`(t).

        v_J = S qd + sigma(q, t),   c_J = its apparent derivative at qdd = 0    (RBDA Eq 3.32, 3.41)

    With a `Fixed` joint all of the motion is given, with others a part of it: a cylindrical joint
    that is turned in a given way is a `Prismatic` one on a `Revolute` drive. `motion` is made of
    arithmetic and NumPy's functions (and `select`); its rates are found from it, exactly. The
    variables and the forces are those of `joint`. What the drive does is work: energy is not kept.

    A model with such joints has a motion at a time alone: `model.at(t)` is the model of that
    instant, for every algorithm. ValueError where none was given.
    """

    drive: Joint
    motion: Callable[[Any], Any]
    t: Any = None

    def at(self, t: Any) -> Joint:
        return replace(self, t=t)

    def jcalc(self, q: Array, qd: Array) -> JointMotion:
        drive = self._drive()
        XJ, S, vJ, cJ = self.joint.jcalc(q, qd)
        sigma = XJ @ drive.sigma
        bias = cJ + XJ @ drive.rate - _cross(vJ, sigma)
        return JointMotion(factored(XJ, drive.X), S, vJ + sigma, bias)

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
            raise ValueError(
                "a rheonomic joint has a motion at a given time alone: take the model at a time, "
                "model.at(t)"
            )
        if len(here := np.atleast_1d(self.motion(self.t))) != self.drive.nq:
            raise ValueError(
                f"the motion of a rheonomic joint has {len(here)} values; its drive {self.drive} "
                f"has {self.drive.nq} position variables"
            )
        there = given_motion(
            lambda t: self.drive.difference(here, np.atleast_1d(self.motion(t))), self.t
        )
        X, S, sigma, bias = self.drive.jcalc(here, there.rate)
        return _Drive(X, sigma, S @ there.second + bias)


def _cross(one: Array, other: Array) -> Array:
    algebra = planar if len(one) == 3 else spatial
    product: Array = algebra.cross_motion(one, other)
    return product
