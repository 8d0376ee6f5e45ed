"""Spatial (6-D) vector algebra in Pluecker coordinates, angular part first (RBDA chapter 2, appendix A).

A motion vector is [w; v] (rad/s, m/s), a force vector [n; f] (N m, N): arrays of shape (6,). Pinocchio and most
libraries put the linear part first. Transforms and inertias are kept compact, as in RBDA Table A.3, because that is what
keeps the operation count down; `matrix()` gives the 6x6 form. Rotations follow the book's convention: `rotz(q)` takes A
to B coordinates where frame B is A turned by +q about z.

Everything works on floats and on traced scalars.
"""

from dataclasses import dataclass
from functools import cached_property, reduce
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rigidblocks.congruence import CYCLIC, is_traced, symmetric, turned, turned_symmetric

Array = NDArray[Any]


def rx(theta: Any) -> Array:
    """The 3x3 coordinate rotation about x (RBDA Table 2.2)."""
    c, s = np.cos(theta), np.sin(theta)
    return np.array([[1.0, 0.0, 0.0], [0.0, c, s], [0.0, -s, c]])


def ry(theta: Any) -> Array:
    """The 3x3 coordinate rotation about y (RBDA Table 2.2)."""
    c, s = np.cos(theta), np.sin(theta)
    return np.array([[c, 0.0, -s], [0.0, 1.0, 0.0], [s, 0.0, c]])


def rz(theta: Any) -> Array:
    """The 3x3 coordinate rotation about z (RBDA Table 2.2)."""
    c, s = np.cos(theta), np.sin(theta)
    return np.array([[c, s, 0.0], [-s, c, 0.0], [0.0, 0.0, 1.0]])


def skew(a: ArrayLike) -> Array:
    """The 3x3 matrix a x with (a x) b = a x b (RBDA Eq 2.23)."""
    x, y, z = np.asarray(a)
    return np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])


def cross(a: Array, b: Array) -> Array:
    """The product a x b of two 3-vectors; `b` may be a 3xk matrix of columns."""
    return np.array([a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]])


def crm(v: Array) -> Array:
    """The 6x6 matrix v x with (v x) m the derivative of a motion vector m moving with velocity v (RBDA Eq 2.31)."""
    w, vO = skew(v[:3]), skew(v[3:])
    return np.block([[w, np.zeros((3, 3))], [vO, w]])


def crf(v: Array) -> Array:
    """The 6x6 matrix v x* = -(v x)^T, the same for a force vector (RBDA Eq 2.32)."""
    return -crm(v).T


def cross_motion(v: Array, m: Array) -> Array:
    """The product v x m = [w x m; w x mO + vO x m] of two motion vectors (RBDA Eq 2.33)."""
    return np.concatenate([cross(v[:3], m[:3]), cross(v[:3], m[3:]) + cross(v[3:], m[:3])])


def cross_force(v: Array, f: Array) -> Array:
    """The product v x* f = [w x n + vO x f; w x f] of a motion and a force vector (RBDA Eq 2.34)."""
    return np.concatenate([cross(v[:3], f[:3]) + cross(v[3:], f[3:]), cross(v[:3], f[3:])])


def coriolis(v: Array, vJ: Array) -> Array:
    """What a joint that moves with vJ adds to the acceleration of a body that moves with v, in the body's coordinates.

        [w x wJ; w x vJ + (w - wJ) x vJ]

    It is v x vJ + [0; (w - wJ) x vJ]: the accelerations are those of `Transform.carry`.
    """
    w, wJ, v_lin = v[:3], vJ[:3], vJ[3:]
    return np.concatenate([cross(w, wJ), cross(w, v_lin) + cross(w - wJ, v_lin)])


def spin(w: Array, wd: Array) -> Array:
    """The matrix W = w x w x + wd x (3, 3): the point r of a body accelerates by W r against its origin."""
    x, y, z = w
    xx, yy, zz, xy, yz, zx = x * x, y * y, z * z, x * y, y * z, z * x
    a, b, c = wd
    return np.array([[-(yy + zz), xy - c, zx + b], [xy + c, -(zz + xx), yz - a], [zx - b, yz + a, -(xx + yy)]])


def _second_moments(I: Array) -> list[Any]:
    """The integrals of x^2, y^2 and z^2 over the mass of a body with rotational inertia I; rounding dust is made zero."""
    half = (I[0, 0] + I[1, 1] + I[2, 2]) / 2
    J = [half - I[k, k] for k in range(3)]
    return [0.0 if isinstance(j, Real) and abs(j) <= 1e-14 * abs(half) else j for j in J]


def _shift(R: Array, H: Array, Y: Array) -> Array:
    """The symmetric matrix R H^T - Y R, with R = r x and Y = H + R M, of RBDA Table A.4."""
    if not is_traced(R, H, Y):
        return symmetric(R @ H.T - Y @ R)
    P = np.empty((3, 3), dtype=object)
    for i, j, k in CYCLIC:
        P[i, i] = R[i, j] * (H[i, j] + Y[i, j]) + R[i, k] * (H[i, k] + Y[i, k])
        a, b = max(i, j), min(i, j)
        P[i, j] = P[j, i] = R[a, b] * (H[b, b] - Y[a, a]) + R[a, k] * H[b, k] + R[b, k] * Y[a, k]
    return P


@dataclass(frozen=True, eq=False)  # eq=False: arrays have no single truth value
class Transform:
    """The motion transform X from A to B coordinates, kept as plx(E, r) (RBDA Eq 2.24, Table A.3).

        X = [[E, 0], [-E rx, E]]      X* = X^-T = [[E, -E rx], [0, E]]

    E (3, 3) rotates A to B coordinates; r (3,) is the position of B's origin in A coordinates [m].
    """

    E: Array
    r: Array

    def __matmul__(self, other: "Transform | Array") -> Any:
        """X Y for a transform Y; X m for a motion vector m (6,) or a matrix of motion columns (6, k)."""
        if isinstance(other, Transform):
            if is_traced(self.E, self.r) and type(self) is type(other) is Transform:
                return Factors(self, other)
            return _multiplied(self, other)
        w, v = other[:3], other[3:]
        return np.concatenate([self.E @ w, self.E @ (v - cross(self.r, w))])

    def carry(self, v: Array, a: Array) -> Array:
        """[E wd; E (a + W r)] with W = w x w x + wd x: the acceleration a = [wd; a] of a body that moves with v, taken
        from A to B coordinates.

        The linear parts are the accelerations of the points of the body at the origins, which is what an accelerometer
        there feels, and not the linear parts of spatial accelerations: those are less by w x v (RBDA Eq 2.49).
        """
        return np.concatenate([self.E @ a[:3], self.E @ (a[3:] + spin(v[:3], a[:3]) @ self.r)])

    def force(self, f: Array) -> Array:
        """X* f: the force vector f (6,) or (6, k) taken from A to B coordinates."""
        n, f3 = f[:3], f[3:]
        return np.concatenate([self.E @ (n - cross(self.r, f3)), self.E @ f3])

    @property
    def T(self) -> "_Transpose":
        """X^T, which takes a force vector back from B to A coordinates: `X.T @ f`."""
        return _Transpose(self)

    def inverse(self) -> "Transform":
        """X^-1 = plx(E^T, -E r), from B to A coordinates."""
        return Transform(self.E.T, -(self.E @ self.r))

    def matrix(self) -> Array:
        """The 6x6 matrix of X."""
        return np.block([[self.E, np.zeros((3, 3))], [-self.E @ skew(self.r), self.E]])


class Factors(Transform):
    """A traced product of transforms, which is cheaper to apply one factor after the other (RBDA A.4)."""

    factors: tuple[Transform, ...]  # the last is applied first

    def __init__(self, *factors: Transform):
        object.__setattr__(self, "factors", factors)

    @cached_property
    def _product(self) -> Transform:
        return reduce(_multiplied, self.factors)

    @property
    def E(self) -> Array:
        """The rotation of the product."""
        return self._product.E

    @property
    def r(self) -> Array:
        """The origin of the product."""
        return self._product.r

    def __matmul__(self, other: "Transform | Array") -> Any:
        if isinstance(other, Transform):
            constant = not isinstance(other, Factors) and not is_traced(other.E, other.r)
            return Factors(*self.factors, other) if constant else _multiplied(self, other)
        return reduce(lambda m, X: X @ m, reversed(self.factors), other)

    def carry(self, v: Array, a: Array) -> Array:
        for X in reversed(self.factors):
            v, a = X @ v, X.carry(v, a)
        return a

    def force(self, f: Array) -> Array:
        return reduce(lambda f, X: X.force(f), reversed(self.factors), f)


def _multiplied(X: Transform, Y: Transform) -> Transform:
    return Transform(X.E @ Y.E, Y.r + Y.E.T @ X.r)


@dataclass(frozen=True, eq=False)
class _Transpose:
    X: Transform

    def __matmul__(self, f: Array) -> Array:
        """X^T f = [E^T n + r x E^T f; E^T f]."""
        if isinstance(self.X, Factors):
            return reduce(lambda f, X: X.T @ f, self.X.factors, f)
        n, f3 = self.X.E.T @ f[:3], self.X.E.T @ f[3:]
        return np.concatenate([n + cross(self.X.r, f3), f3])


def rotx(theta: Any) -> Transform:
    """The transform to a frame turned by `theta` [rad] about the common x axis (Xrotx)."""
    return Transform(rx(theta), np.zeros(3))


def roty(theta: Any) -> Transform:
    """The transform to a frame turned by `theta` [rad] about the common y axis (Xroty)."""
    return Transform(ry(theta), np.zeros(3))


def rotz(theta: Any) -> Transform:
    """The transform to a frame turned by `theta` [rad] about the common z axis (Xrotz)."""
    return Transform(rz(theta), np.zeros(3))


def xlt(r: ArrayLike) -> Transform:
    """The transform to a parallel frame with its origin at `r` [m] (Xtrans)."""
    return Transform(np.eye(3), np.asarray(r))


def identity() -> Transform:
    """The transform of a frame to itself."""
    return xlt(np.zeros(3))


def zero() -> Array:
    """The zero motion vector."""
    return np.zeros(6)


def uniform(g: Array) -> Array:
    """The acceleration of a field that is `g` (3,) [m/s^2] everywhere, as a motion vector."""
    return np.concatenate([np.zeros(3), g])


@dataclass(frozen=True, eq=False)
class RigidInertia:
    """The inertia of a rigid body, rbi(m, h, I) (RBDA Eq 2.63, Table A.3).

        I = [[I, h x], [-(h x), m 1]]

    m [kg] is the mass, h = m c (3,) the first moment [kg m], I (3, 3) the rotational inertia about the frame's *origin*
    [kg m^2]. Use `mcI` to make one from the centre of mass and the inertia about it.
    """

    m: Any
    h: Array
    I: Array

    def __matmul__(self, v: Array) -> Array:
        """I v = [I w + h x v; m v - h x w], the momentum of velocity v (6,), or of columns (6, k)."""
        w, v3 = v[:3], v[3:]
        return np.concatenate([self.I @ w + cross(self.h, v3), self.m * v3 - cross(self.h, w)])

    def __add__(self, other: "RigidInertia") -> "RigidInertia":
        """The inertia of two bodies joined rigidly, in the same frame."""
        return RigidInertia(self.m + other.m, self.h + other.h, symmetric(self.I + other.I))

    def to_parent(self, X: Transform) -> "RigidInertia":
        """X^T I X: the inertia taken from B back to A coordinates (RBDA Table A.4)."""
        if isinstance(X, Factors):
            return reduce(RigidInertia.to_parent, X.factors, self)
        h, r = X.E.T @ self.h, X.r
        y = h + 0.5 * self.m * r
        a, b, c = 2.0 * r * y  # the shift is (2 r . y) 1 - r y^T - y r^T
        xy, yz, zx = (r[i] * y[j] + r[j] * y[i] for i, j, _ in CYCLIC)
        shift = np.array([[b + c, -xy, -zx], [-xy, c + a, -yz], [-zx, -yz, a + b]])
        return RigidInertia(self.m, h + self.m * r, turned_symmetric(X.E, self.I) + shift)

    def force(self, v: Array, a: Array) -> Array:
        """[I wd + w x I w + h x a; m a + W h], the force on a body with velocity v and acceleration a, W of `spin`.

        It is I a + v x* I v of the spatial acceleration; here the linear part of a is as in `Transform.carry`, which
        needs no linear velocity. With J = (tr I / 2) 1 - I the moment is that of the skew part of W J.
        """
        w, wd, a_lin = v[:3], a[:3], a[3:]
        W, I, h = spin(w, wd), self.I, self.h
        J = _second_moments(I)
        n = [
            J[j] * W[k, j] - J[k] * W[j, k] + I[i, k] * W[j, i] - I[i, j] * W[k, i] + I[j, k] * (w[j] * w[j] - w[k] * w[k])
            for i, j, k in CYCLIC
        ]
        return np.concatenate([np.array(n) + cross(h, a_lin), self.m * a_lin + W @ h])

    def matrix(self) -> Array:
        """The 6x6 matrix of the inertia."""
        return np.block([[self.I, skew(self.h)], [-skew(self.h), self.m * np.eye(3)]])

    def articulated(self) -> "ArticulatedInertia":
        """The same inertia as the starting value of an articulated-body inertia."""
        return ArticulatedInertia(self.m * np.eye(3), skew(self.h), self.I)


def mcI(m: Any, c: ArrayLike, I_C: ArrayLike) -> RigidInertia:
    """The inertia of a body of mass `m` [kg] with its centre of mass at `c` (3,) [m] and the rotational inertia `I_C`
    (3, 3) [kg m^2] about the centre of mass (RBDA Eq 2.63). Not checked here: `Model` refuses what is not physical.
    """
    c = np.asarray(c)
    C = skew(c)
    return RigidInertia(m, m * c, symmetric(np.asarray(I_C) - m * (C @ C)))


@dataclass(frozen=True, eq=False)
class ArticulatedInertia:
    """An articulated-body inertia, abi(M, H, I): symmetric, with 21 parameters (RBDA 7.1, Table A.3).

    I^A = [[I, H], [H^T, M]]
    """

    M: Array
    H: Array
    I: Array

    def __matmul__(self, v: Array) -> Array:
        """I^A v = [I w + H v; M v + H^T w] of an acceleration (6,) or of columns (6, k)."""
        w, v3 = v[:3], v[3:]
        return np.concatenate([self.I @ w + self.H @ v3, self.M @ v3 + self.H.T @ w])

    def __add__(self, other: "ArticulatedInertia") -> "ArticulatedInertia":
        """Two handles made one (RBDA 7.1)."""
        return ArticulatedInertia(symmetric(self.M + other.M), self.H + other.H, symmetric(self.I + other.I))

    def __sub__(self, other: "ArticulatedInertia") -> "ArticulatedInertia":
        return ArticulatedInertia(symmetric(self.M - other.M), self.H - other.H, symmetric(self.I - other.I))

    def to_parent(self, X: Transform) -> "ArticulatedInertia":
        """X^T I^A X: the inertia taken from B back to A coordinates (RBDA Table A.4)."""
        if isinstance(X, Factors):
            return reduce(ArticulatedInertia.to_parent, X.factors, self)
        R, M, H = skew(X.r), turned_symmetric(X.E, self.M), turned(X.E, self.H)
        Y = H + R @ M
        return ArticulatedInertia(M, Y, turned_symmetric(X.E, self.I) + _shift(R, H, Y))

    def matrix(self) -> Array:
        """The 6x6 matrix of the inertia."""
        return np.block([[self.I, self.H], [self.H.T, self.M]])


def outer(U: Array, W: Array) -> ArticulatedInertia:
    """The symmetric product U W^T of two matrices (6, k) that makes one."""
    n, f = U[:3] @ W[:3].T, U[3:] @ W[3:].T
    return ArticulatedInertia(symmetric(f), U[:3] @ W[3:].T, symmetric(n))
