"""Finite rotations and motions: quaternions, rotation vectors, and what belongs to them.

A quaternion p (4,) is the book's Euler parameters: scalar first, of unit length, for the
orientation of F_s in F_p (RBDA Eq 4.10, 4.11). A rotation vector phi (3,) [rad] is an angular
velocity in F_s coordinates held for unit time. Everything works on floats and on traced scalars.
"""

from typing import Any

import numpy as np

from rigidblocks.algebra.scalar import less, select
from rigidblocks.algebra.spatial import Array, cross

IDENTITY = (1.0, 0.0, 0.0, 0.0)
_SMALL = 1e-8  # of theta^2: below it two terms of the power series are exact to rounding


def quaternion_rotation(p: Array) -> Array:
    """The rotation E (3, 3) from F_p to F_s coordinates, the same for p and -p (RBDA Eq 4.12)."""
    p0, p1, p2, p3 = p
    d0, d1, d2, d3 = p0 + p0, p1 + p1, p2 + p2, p3 + p3
    return np.array(
        [
            [d0 * p0 + d1 * p1 - 1.0, d1 * p2 + d0 * p3, d1 * p3 - d0 * p2],
            [d1 * p2 - d0 * p3, d0 * p0 + d2 * p2 - 1.0, d2 * p3 + d0 * p1],
            [d1 * p3 + d0 * p2, d2 * p3 - d0 * p1, d0 * p0 + d3 * p3 - 1.0],
        ]
    )


def quaternion_rate(p: Array, w: Array) -> Array:
    """The rate of p (4,) with the angular velocity w (3,) [rad/s] in F_s coordinates (RBDA Eq
    4.13).
    """
    p0, p1, p2, p3 = p
    Q = np.array([[-p1, -p2, -p3], [p0, -p3, p2], [p3, p0, -p1], [-p2, p1, p0]])
    rate: Array = Q @ (0.5 * w)
    return rate


def quaternion_product(p: Array, r: Array) -> Array:
    """The orientation (4,) of a frame that has orientation r in a frame with orientation p."""
    v = p[0] * r[1:] + r[0] * p[1:] + cross(p[1:], r[1:])
    return np.concatenate([np.array([p[0] * r[0] - p[1:] @ r[1:]]), v])


def normalized_quaternion(p: Array) -> Array:
    """The unit quaternion (4,) in the direction of p."""
    unit: Array = p / np.sqrt(p @ p)
    return unit


def quaternion_from_vector(phi: Array) -> Array:
    """The quaternion (4,) of a rotation vector: (cos(theta/2), sin(theta/2) phi/theta) (RBDA Eq
    4.10).
    """
    theta2, safe2 = _squares(phi)
    half = np.sqrt(safe2) / 2.0
    small = less(theta2, _SMALL)
    scalar = select(small, 1.0 - theta2 / 8.0, np.cos(half))
    factor = select(small, 0.5 - theta2 / 48.0, np.sin(half) / (half + half))
    return np.array([scalar, *(factor * phi)])


def vector_from_quaternion(p: Array) -> Array:
    """The rotation vector (3,) of a unit quaternion, of length pi at most."""
    p = select(less(p[0], 0.0), -p, p)
    sine2, safe2 = _squares(p[1:])
    sine = np.sqrt(safe2)
    factor = select(less(sine2, _SMALL), 2.0 + sine2 / 3.0, 2.0 * np.arctan2(sine, p[0]) / sine)
    phi: Array = factor * p[1:]
    return phi


def quaternion_from_rotation(E: Array) -> Array:
    """The unit quaternion (4,) of a rotation E (3, 3), the inverse of `quaternion_rotation`.

    Of the four squares 4 p_i^2 that the diagonal gives, the largest is the one to divide by.
    """
    products = _products(E)
    best, square = products[0], products[0, 0]
    for row, other in zip(products[1:], np.diag(products)[1:], strict=True):
        larger = less(square, other)
        best, square = select(larger, row, best), select(larger, other, square)
    unit: Array = best / (2.0 * np.sqrt(square))
    return unit


def _products(E: Array) -> Array:
    """4 p p^T (4, 4) of the unit quaternion p of a rotation."""
    (x, xy, xz), (yx, y, yz), (zx, zy, z) = E
    a, b, c = yz - zy, zx - xz, xy - yx
    d, e, f = xy + yx, yz + zy, zx + xz
    return np.array(
        [
            [1.0 + x + y + z, a, b, c],
            [a, 1.0 + x - y - z, d, f],
            [b, d, 1.0 - x + y - z, e],
            [c, f, e, 1.0 - x - y + z],
        ]
    )


def travel(phi: Array, v: Array) -> Array:
    """Where a point (3,) [m] comes to in unit time with the velocity v in a frame that turns by phi
    meanwhile.

    v + (1 - cos theta)/theta^2 phi x v + (theta - sin theta)/theta^3 phi x phi x v
    """
    theta2, safe2 = _squares(phi)
    theta = np.sqrt(safe2)
    small, half_sine = less(theta2, _SMALL), np.sin(theta / 2.0)
    b = select(small, 0.5 - theta2 / 24.0, 2.0 * half_sine * half_sine / safe2)
    c = select(small, 1 / 6 - theta2 / 120.0, (theta - np.sin(theta)) / (theta * safe2))
    turning = cross(phi, v)
    d: Array = v + b * turning + c * cross(phi, turning)
    return d


def travel_velocity(phi: Array, d: Array) -> Array:
    """The velocity v (3,) with `travel(phi, v)` equal to d; there is none for a full turn.

    d - phi x d / 2 + (1 - theta/2 cot(theta/2))/theta^2 phi x phi x d
    """
    theta2, safe2 = _squares(phi)
    half = np.sqrt(safe2) / 2.0
    c = select(
        less(theta2, _SMALL),
        1 / 12 + theta2 / 720.0,
        (1.0 - half * np.cos(half) / np.sin(half)) / safe2,
    )
    turning = cross(phi, d)
    v: Array = d - turning / 2.0 + c * cross(phi, turning)
    return v


def _squares(a: Array) -> tuple[Any, Any]:
    """The square of a's length, and the same or 1 where it is too small to divide by."""
    square = a @ a
    return square, select(less(square, _SMALL), 1.0, square)
