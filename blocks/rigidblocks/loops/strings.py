"""The constraints of strings, which concern any number of bodies (RBDA 3.4)."""

from typing import Any, NamedTuple

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.dynamics.sweeps import base_transforms
from rigidblocks.joint import StringConstraint
from rigidblocks.model.tree import Tree


class StringRow(NamedTuple):
    """K (nv,), k and delta of a string, of `LoopConstraints`, and `rate`, its velocity error: how
    fast it gets too long [m/s].
    """

    K: Array
    k: Any
    delta: Any
    rate: Any


class _Point(NamedTuple):
    """A point of a string: X from the coordinates of its body to a frame there with the axes of the
    base, its place p [m], velocity v and velocity-product acceleration a.
    """

    body: int
    X: Any
    p: Array
    v: Array
    a: Array


def string_row(model: Tree, string: StringConstraint, motion: Any) -> StringRow:
    """The constraint of a string in the `motion` of a tree (`constraints.TreeMotion`).

    delta = sum |d| + 2 pi radius - length,   K qd = sum e . dv,   e = d/|d|
    k = length'' - sum (e . da + (dv . dv - (e . dv)^2)/|d|)
    """
    X0 = [*base_transforms(model, motion.Xup[: model.nb]), model.algebra.identity()]
    linear = slice(1, 3) if len(model.gravity) == 2 else slice(3, 6)
    length, length_rate, second = string.given_length()
    delta, rate, k = 2.0 * np.pi * string.radius - length, -length_rate, second
    forces = [np.zeros(len(model.algebra.zero()))] * (model.nb + 1)
    for ends in string.segments():
        one, other = (_point(model, motion, X0, body, np.asarray(at)) for body, at in ends)
        d, dv = other.p - one.p, (other.v - one.v)[linear]
        distance = np.sqrt(d @ d)
        e = d / distance
        delta, rate = delta + distance, rate + e @ dv
        k = k - e @ (other.a - one.a)[linear] - (dv @ dv - (e @ dv) * (e @ dv)) / distance
        pull = np.concatenate([np.zeros(linear.start), e])
        forces[other.body] = forces[other.body] + other.X.T @ pull
        forces[one.body] = forces[one.body] - one.X.T @ pull
    return StringRow(_joint_forces(model, motion, forces), k, delta, rate)


def string_places(model: Tree, string: StringConstraint) -> set[int]:
    """The joints that move a point of the string."""
    joints: set[int] = set()
    for body, _ in string.points:
        while body >= 0:
            joints.add(body)
            body = model.parent[body]
    return joints


def _point(model: Tree, motion: Any, X0: list[Any], body: int, at: Array) -> _Point:
    """A point on a body, with its classical acceleration."""
    there = X0[body].inverse()  # from the body to the base
    X = type(there)(there.E, at)
    v, a = X @ motion.v[body], X @ motion.a[body]
    w, turning = (v[:1], v[1:]) if len(v) == 3 else (v[:3], v[3:])
    if len(w) == 1:
        a = a + np.array([0.0, -w[0] * turning[1], w[0] * turning[0]])
    else:
        a = a + np.concatenate([np.zeros(3), model.algebra.cross(w, turning)])
    return _Point(body, X, X0[body].r + X0[body].E.T @ at, v, a)


def _joint_forces(model: Tree, motion: Any, forces: list[Array]) -> Array:
    """The joint forces (nv,) that are worth these forces on the bodies, in their coordinates."""
    tau: list[Any] = [None] * model.nb
    for i in reversed(range(model.nb)):
        tau[i] = motion.S[i].T @ forces[i]
        if (p := model.parent[i]) >= 0:
            forces[p] = forces[p] + motion.Xup[i].T @ forces[i]
    return np.concatenate(tau)
