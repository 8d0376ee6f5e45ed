"""The group of rigid motions and its algebra: exp, log, Ad, ad and their derivatives (Spencer 2004,
A.1; RBDA 2.17).

The transform X from A to B coordinates stands for the motion that brings frame A to B; a motion
vector u (6,), angular before linear [rad, m], for the constant velocity that does so in unit time.
Literature that has the pose G of B in A writes exp(u) for G, and Ad_G for what is X^-1 here; many
authors put the linear part first.
"""

from math import factorial
from typing import Any

import numpy as np

from rigidblocks.algebra.linear import linear_solver
from rigidblocks.algebra.rotation import (
    quaternion_from_rotation,
    quaternion_from_vector,
    quaternion_rotation,
    travel,
    travel_velocity,
    vector_from_quaternion,
)
from rigidblocks.algebra.scalar import less, select
from rigidblocks.algebra.spatial import Array, Transform, crm

_TERMS = 24  # of power series in an angle whose square is below
_SMALL = 10.0


def exp(u: Array) -> Transform:
    """The transform to the frame that has moved with the velocity u for unit time.

    matrix(exp(u)) = e^(-u x); u is the same in both frames, exp(u) u = u.
    """
    return Transform(quaternion_rotation(quaternion_from_vector(u[:3])), travel(u[:3], u[3:]))


def log(X: Transform) -> Array:
    """The velocity u (6,) with exp(u) = X, that of the smaller angle: at most half a turn.

    What RBDA's XtoV approximates (`displacement`).
    """
    phi = vector_from_quaternion(quaternion_from_rotation(X.E))
    return np.concatenate([phi, travel_velocity(phi, X.r)])


def Ad(X: Transform) -> Array:
    """The matrix (6, 6) that takes motion vectors of the moved frame B to A coordinates: X^-1."""
    return X.inverse().matrix()


def ad(u: Array) -> Array:
    """The matrix (6, 6) of u x, the derivative of Ad(exp(s u)) by s at s = 0."""
    return crm(u)


def dexp(u: Array) -> Array:
    """The derivative J (6, 6) of exp: a frame at exp(u(t)) moves with v = J du/dt in its own
    coordinates.

        J = 1 - ad(u) / 2! + ad(u)^2 / 3! - ...

    Since ad (ad^2 + theta^2)^2 = 0 four powers are enough.
    """
    A, t = ad(u), u[:3] @ u[:3]
    A2 = A @ A
    small = less(t, _SMALL)  # else power series would lose what the closed forms keep
    a, b, c, d = (
        select(small, _series(select(small, t, 0.0), first, low), closed)
        for (first, low), closed in zip(
            ((2, 1), (3, 1), (2, 0), (3, 0)), _closed(select(small, 1.0, t)), strict=True
        )
    )
    J: Array = np.eye(6) - a * A + b * A2 - c * (A2 @ A) + d * (A2 @ A2)
    return J


def dlog(u: Array) -> Array:
    """The derivative (6, 6) of log, with which du/dt = J v: the inverse of `dexp`.

    At a full turn there is none: numbers that are not finite.
    """
    solve = linear_solver(dexp(u))
    return np.array([solve(column) for column in np.eye(6)]).T


def _closed(t: Any) -> tuple[Any, Any, Any, Any]:
    """What multiplies the four powers of ad in dexp, by the square t of the angle, which is not
    small.
    """
    theta = np.sqrt(t)
    c, s = np.cos(theta), np.sin(theta)
    return (
        (4.0 - theta * s - 4.0 * c) / (2.0 * t),
        (4.0 * theta - 5.0 * s + theta * c) / (2.0 * t * theta),
        (2.0 - theta * s - 2.0 * c) / (2.0 * t * t),
        (2.0 * theta - 3.0 * s + theta * c) / (2.0 * t * t * theta),
    )


def _series(t: Any, first: int, low: int) -> Any:
    """What multiplies a low or a high power of ad in dexp, by the square t of the angle.

    By ad^5 = -2 t ad^3 - t^2 ad, ad^(2m+1) = (1 - m) (-t)^m ad + m (-t)^(m-1) ad^3; the sum over
    all m of the first or the second part over (2m + first)!.
    """
    total: Any = 0.0
    for m in reversed(range(_TERMS)):
        factor = 1 - m if low else m + 1
        total = factor / factorial(2 * m + first + 2 * (1 - low)) - t * total
    return total
