"""Rotations by quaternions, rotation vectors and angles, and the Lie group of rigid motions.

A quaternion p (4,) contains the Euler parameters of the orientation of a rotated frame F_s in a
reference frame F_p (RBDA Eq 4.10, 4.11). It has unit length, and the scalar part is first. A
rotation vector phi (3,) [rad] has the direction of the rotation axis, and its length is the
rotation angle.

The functions of the group are exp, log, Ad, ad, dexp and dlog. The transform X from A to B
coordinates represents the motion from frame A to frame B. The logarithm u (6,) [rad, m] of X is the
constant velocity of this motion, multiplied by unit time. Its angular part is first; many
publications put the linear part first. Publications that use the pose G of B in A write G = exp(u),
and their Ad_G is X^-1.

The functions `displacement`, `planar_displacement` and `rough_planar_displacement` (RBDA A.1, A.2)
approximate u = log(X). They are exact for a pure translation, and their error decreases with the
angle between A and B. They are not valid for large angles: for a half turn, for example, the
angular part of the result is zero, because E is symmetric.

All functions accept floats and traced scalars, except the functions of roll, pitch and yaw, which
accept only floats.

Source: RBDA 2.17, 4.5, A.1; Spencer 2004, A.1.
"""

from collections.abc import Sequence
from math import atan2, copysign, cos, factorial, sin
from typing import Any

import numpy as np

from rigidblocks.common.arrays import floats_of_shape, read_only
from rigidblocks.spatial import planar, spatial
from rigidblocks.spatial.linear_algebra import linear_solver
from rigidblocks.spatial.scalar import less, select
from rigidblocks.spatial.spatial import STRAIGHT, Array, Transform, crm, cross, skew

IDENTITY = (1.0, 0.0, 0.0, 0.0)
_SMALL = 1e-8  # limit of theta^2 below which two series terms give rounding accuracy


def quaternion_rotation(p: Array) -> Array:
    """Return the rotation E (3, 3) from F_p to F_s coordinates (RBDA Eq 4.12).

    The quaternions p and -p both represent the orientation of F_s in F_p.
    """
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
    """Return the time derivative (4,) of the quaternion p (4,) (RBDA Eq 4.13).

    w (3,) is the angular velocity [rad/s] of the rotated frame F_s, in F_s coordinates.
    """
    p0, p1, p2, p3 = p
    Q = np.array([[-p1, -p2, -p3], [p0, -p3, p2], [p3, p0, -p1], [-p2, p1, p0]])
    rate: Array = Q @ (0.5 * w)
    return rate


def quaternion_product(p: Array, r: Array) -> Array:
    """Return the quaternion product p r (4,).

    For the orientation p of B in A and the orientation r of C in B, p r is the orientation of
    C in A.
    """
    v = p[0] * r[1:] + r[0] * p[1:] + cross(p[1:], r[1:])
    return np.concatenate([np.array([p[0] * r[0] - p[1:] @ r[1:]]), v])


def normalized_quaternion(p: Array) -> Array:
    """Return the unit quaternion (4,) in the direction of p."""
    unit: Array = p / np.sqrt(p @ p)
    return unit


def quaternion_from_vector(phi: Array) -> Array:
    """Return the quaternion (4,) of a rotation vector phi (RBDA Eq 4.10).

        (cos(theta/2), sin(theta/2) phi/theta)

    theta is the rotation angle, the length of phi.
    """
    theta2, safe2 = _squares(phi)
    half = np.sqrt(safe2) / 2.0
    small = less(theta2, _SMALL)
    scalar = select(small, 1.0 - theta2 / 8.0, np.cos(half))
    factor = select(small, 0.5 - theta2 / 48.0, np.sin(half) / (half + half))
    return np.array([scalar, *(factor * phi)])


def vector_from_quaternion(p: Array) -> Array:
    """Return the rotation vector (3,) [rad] of a unit quaternion, with a length of at most pi."""
    p = select(less(p[0], 0.0), -p, p)
    sine2, safe2 = _squares(p[1:])
    sine = np.sqrt(safe2)
    factor = select(less(sine2, _SMALL), 2.0 + sine2 / 3.0, 2.0 * np.arctan2(sine, p[0]) / sine)
    phi: Array = factor * p[1:]
    return phi


def quaternion_from_rotation(E: Array) -> Array:
    """Return the unit quaternion (4,) of a rotation E (3, 3).

    The function is the inverse of `quaternion_rotation`. It computes the matrix 4 p p^T from E. The
    result is the row with the largest diagonal element 4 p_i^2, divided by 4 |p_i|.
    """
    products = _products(E)
    best, square = products[0], products[0, 0]
    for row, other in zip(products[1:], np.diag(products)[1:], strict=True):
        larger = less(square, other)
        best, square = select(larger, row, best), select(larger, other, square)
    unit: Array = best / (2.0 * np.sqrt(square))
    return unit


def _products(E: Array) -> Array:
    """Return the matrix 4 p p^T (4, 4), where p is the unit quaternion of the rotation E."""
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
    """Return the displacement d (3,) [m] of the origin of a moving frame in unit time.

    The frame rotates by phi (3,) [rad] in unit time. The velocity v (3,) of its origin is constant
    in coordinates of the moving frame. d is in coordinates of the initial frame. theta is the
    rotation angle, the length of phi.

        d = v + (1 - cos theta)/theta^2 phi x v + (theta - sin theta)/theta^3 phi x phi x v
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
    """Return the velocity v (3,) with d = `travel(phi, v)`, undefined for a full turn.

        v = d - phi x d / 2 + (1 - theta/2 cot(theta/2))/theta^2 phi x phi x d

    theta is the rotation angle, the length of phi.
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
    """Return |a|^2, and a nonzero divisor: |a|^2, or 1 if |a|^2 is below `_SMALL`."""
    square = a @ a
    return square, select(less(square, _SMALL), 1.0, square)


_TERMS = 24  # terms of the power series for angles whose square is below _SMALL_SQUARE
_SMALL_SQUARE = 10.0


def exp(u: Array) -> Transform:
    """Return the transform to a frame that moves with the constant velocity u (6,) for unit time.

        matrix(exp(u)) = e^(-u x)

    u has equal coordinates in both frames: exp(u) u = u.
    """
    return Transform(quaternion_rotation(quaternion_from_vector(u[:3])), travel(u[:3], u[3:]))


def log(X: Transform) -> Array:
    """Return the logarithm u (6,) of a rigid motion X = exp(u), with an angle of at most pi.

    u is the constant velocity of the motion in unit time. `displacement` (XtoV of RBDA)
    approximates u.
    """
    phi = vector_from_quaternion(quaternion_from_rotation(X.E))
    return np.concatenate([phi, travel_velocity(phi, X.r)])


def Ad(X: Transform) -> Array:
    """Return the matrix X^-1 (6, 6) that transforms motion vectors from B to A coordinates."""
    return X.inverse().matrix()


def ad(u: Array) -> Array:
    """Return the matrix (6, 6) of the operator u x, equal to d Ad(exp(s u)) / ds at s = 0."""
    return crm(u)


def dexp(u: Array) -> Array:
    """Return the Jacobian J (6, 6) of exp.

        J = 1 - ad(u) / 2! + ad(u)^2 / 3! - ...

    The velocity of a frame at exp(u(t)) is v = J du/dt in the coordinates of this frame. Four
    powers of ad are sufficient, because ad (ad^2 + theta^2)^2 = 0. theta is the rotation angle of
    u.
    """
    A, t = ad(u), u[:3] @ u[:3]
    A2 = A @ A
    small = less(t, _SMALL_SQUARE)  # the closed forms would lose accuracy for small t
    a, b, c, d = (
        select(small, _series(select(small, t, 0.0), first, low), closed)
        for (first, low), closed in zip(
            ((2, 1), (3, 1), (2, 0), (3, 0)), _closed_form(select(small, 1.0, t)), strict=True
        )
    )
    J: Array = np.eye(6) - a * A + b * A2 - c * (A2 @ A) + d * (A2 @ A2)
    return J


def dlog(u: Array) -> Array:
    """Return the Jacobian J (6, 6) of log, the inverse of `dexp`.

        du/dt = J v

    v is the velocity of a frame at exp(u), in the coordinates of this frame.
    For a full turn the inverse does not exist, and the result is not finite.
    """
    solve = linear_solver(dexp(u))
    return np.array([solve(column) for column in np.eye(6)]).T


def _closed_form(t: Any) -> tuple[Any, Any, Any, Any]:
    """Return the coefficients of ad, ad^2, ad^3, ad^4 in `dexp`, for t = theta^2 > 0."""
    theta = np.sqrt(t)
    c, s = np.cos(theta), np.sin(theta)
    return (
        (4.0 - theta * s - 4.0 * c) / (2.0 * t),
        (4.0 * theta - 5.0 * s + theta * c) / (2.0 * t * theta),
        (2.0 - theta * s - 2.0 * c) / (2.0 * t * t),
        (2.0 * theta - 3.0 * s + theta * c) / (2.0 * t * t * theta),
    )


def _series(t: Any, first: int, low: int) -> Any:
    """Return a coefficient of `dexp` as a power series in the squared angle t.

        sum over m of (1 - m) (-t)^m / (2m + first)!
        sum over m of m (-t)^(m-1) / (2m + first)!

    The first series (`low` = 1) is the coefficient of ad or ad^2, the second series (`low` = 0) the
    coefficient of ad^3 or ad^4. `first` is 2 for ad and ad^3, and 3 for ad^2 and ad^4. Both series
    follow from ad^5 = -2 t ad^3 - t^2 ad.
    """
    total: Any = 0.0
    for m in reversed(range(_TERMS)):
        factor = 1 - m if low else m + 1
        total = factor / factorial(2 * m + first + 2 * (1 - low)) - t * total
    return total


def displacement(X: spatial.Transform) -> Array:
    """Return the displacement v (6,) from A to B (RBDA Table A.2; XtoV).

        v = [a(E); a(L)] / 2,   a(E) = [E23 - E32; E31 - E13; E12 - E21],   L = -E rx

    v is an invariant of X, that is v = X v = X^-1 v. With the rotation angle theta of X, the
    angular part of v is the angular part of u = log(X) times sin(theta) / theta.
    """
    return np.concatenate([_axial(X.E), _axial(-X.E @ skew(X.r))]) / 2


def _axial(A: Array) -> Array:
    """Return the vector a (3,) whose skew-symmetric matrix is A^T - A."""
    return np.array([A[1, 2] - A[2, 1], A[2, 0] - A[0, 2], A[0, 1] - A[1, 0]])


def planar_displacement(X: planar.Transform) -> Array:
    """Return the planar displacement v (3,) from A to B (RBDA Table A.1; XtoVp).

        v = [X23; (X31 + X22 X31 + X23 X21) / 2; (-X21 - X22 X21 + X23 X31) / 2]

    Xij are the elements of the matrix of X, counted from 1. v is an invariant of X, that is v = X v
    = X^-1 v. For angles up to 90 degrees, log(X) = v asin(X23) / X23. For larger angles, the
    principal value of the arc sine differs from the angle.
    """
    c, s = X.E[0]
    x21, x31 = X.E @ planar.perp(X.r)[:, 0]
    return np.array([s, (x31 + c * x31 + s * x21) / 2, (-x21 - c * x21 + s * x31) / 2])


def rough_planar_displacement(X: planar.Transform) -> Array:
    """Return the planar displacement [X23; X31; -X21] (3,) from A to B.

    Xij are the elements of the matrix of X, counted from 1. The function takes fewer operations
    than `planar_displacement`, but the result is not an invariant of X.

    Source: RBDA Table A.1.
    """
    x21, x31 = X.E @ planar.perp(X.r)[:, 0]
    return np.array([X.E[0, 1], x31, -x21])


def placement(r: Sequence[float], rpy: Sequence[float]) -> Transform:
    """Return the transform from a parent frame to the frame at `r` [m] with the orientation `rpy`.

    `rpy` are roll, pitch and yaw [rad] about the fixed axes of the parent frame.
    """
    return Transform(rotation(rpy) if any(rpy) else STRAIGHT, read_only(r))


def placements(origins: Sequence[tuple[Sequence[float], Sequence[float]]]) -> list[Transform]:
    """Return the transforms from the parent frame to the frames at `origins`, pairs (r, rpy)."""
    if not origins:
        return []
    E = {rpy: rotation(rpy) if any(rpy) else STRAIGHT for _, rpy in origins}
    r = floats_of_shape((len(origins), 3), [x for position, _ in origins for x in position])
    return [
        Transform(E[rpy], r) if E[rpy] is not STRAIGHT or any(position) else SAME
        for (position, rpy), r in zip(origins, r, strict=True)
    ]


def rotation(rpy: Sequence[float]) -> Array:
    """Return the rotation matrix E (3, 3) from parent to rotated coordinates, as a read-only array.

    E = rx(roll) ry(pitch) rz(yaw). `rpy` are roll, pitch and yaw [rad] about the fixed axes of the
    parent frame. The matrices of quarter turns contain exact zeros, because zeros simplify the
    expression graph of a model.
    """
    roll, pitch, yaw = rpy
    cr, sr, cp, sp, cy, sy = cos(roll), sin(roll), cos(pitch), sin(pitch), cos(yaw), sin(yaw)
    E = [cp * cy, cp * sy, -sp]
    E += [sr * sp * cy - cr * sy, sr * sp * sy + cr * cy, sr * cp]
    E += [cr * sp * cy + sr * sy, cr * sp * sy - sr * cy, cr * cp]
    return floats_of_shape((3, 3), [x if _DUST < abs(x) < _ONE else _snap_to_unit(x) for x in E])


def roll_pitch_yaw(E: Array) -> tuple[float, float, float]:
    """Return roll, pitch and yaw [rad] of a rotation matrix E (3, 3) as returned by `rotation`.

    At a pitch of +-90 degrees, the roll and yaw axes coincide, and the solution is not unique. To
    be accurate at any pitch, the function first computes yaw, and then roll and pitch from the
    matrix E rz(yaw)^T.
    """
    yaw = atan2(E[0, 1], E[0, 0])
    c, s = cos(yaw), sin(yaw)
    x, y = E @ [c, s, 0.0], E @ [-s, c, 0.0]  # the columns of rx(roll) ry(pitch)
    return atan2(-y[2], y[1]), atan2(-E[0, 2], x[0]), yaw


SAME = Transform(STRAIGHT, read_only(np.zeros(3)))  # compared by identity, so it can be skipped


def _snap_to_unit(x: float) -> float:
    """Return 0, 1 or -1 if x is within rounding error of this value, and x otherwise."""
    if abs(x) < _DUST:
        return 0.0
    return copysign(1.0, x) if abs(abs(x) - 1.0) < _DUST else x


_DUST = 4e-16
_ONE = 1.0 - _DUST
