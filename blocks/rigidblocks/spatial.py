"""Spatial (6-D) vector algebra in Pluecker coordinates, angular part first (RBDA chapter 2, appendix A).

A motion vector is [w; v] (rad/s, m/s), a force vector [n; f] (N m, N): arrays of shape (6,). Pinocchio and most
libraries put the linear part first. Transforms and inertias are kept compact, as in RBDA Table A.3, because that is what
keeps the operation count down; `matrix()` gives the 6x6 form. Rotations follow the book's convention: `rotz(q)` takes A
to B coordinates where frame B is A turned by +q about z.

Everything works on floats and on traced scalars.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

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


def _symmetric(lower: Array) -> Array:
    """The symmetric 3x3 matrix with the lower triangle of `lower`."""
    a = lower
    return np.array([[a[0, 0], a[1, 0], a[2, 0]], [a[1, 0], a[1, 1], a[2, 1]], [a[2, 0], a[2, 1], a[2, 2]]])


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
            return Transform(self.E @ other.E, other.r + other.E.T @ self.r)
        w, v = other[:3], other[3:]
        return np.concatenate([self.E @ w, self.E @ (v - cross(self.r, w))])

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


@dataclass(frozen=True, eq=False)
class _Transpose:
    X: Transform

    def __matmul__(self, f: Array) -> Array:
        """X^T f = [E^T n + r x E^T f; E^T f]."""
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
        return RigidInertia(self.m + other.m, self.h + other.h, _symmetric(self.I + other.I))

    def to_parent(self, X: Transform) -> "RigidInertia":
        """X^T I X: the inertia taken from B back to A coordinates (RBDA Table A.4)."""
        h, r = X.E.T @ self.h, X.r
        H = h + self.m * r
        shift = skew(r) @ skew(h) + skew(H) @ skew(r)
        return RigidInertia(self.m, H, _symmetric(X.E.T @ self.I @ X.E - shift))

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
    return RigidInertia(m, m * c, _symmetric(np.asarray(I_C) - m * (C @ C)))


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
        return ArticulatedInertia(_symmetric(self.M + other.M), self.H + other.H, _symmetric(self.I + other.I))

    def __sub__(self, other: "ArticulatedInertia") -> "ArticulatedInertia":
        return ArticulatedInertia(_symmetric(self.M - other.M), self.H - other.H, _symmetric(self.I - other.I))

    def to_parent(self, X: Transform) -> "ArticulatedInertia":
        """X^T I^A X: the inertia taken from B back to A coordinates (RBDA Table A.4)."""
        R = skew(X.r)
        M = _symmetric(X.E.T @ self.M @ X.E)
        H = X.E.T @ self.H @ X.E
        RM = R @ M
        return ArticulatedInertia(M, H + RM, _symmetric(X.E.T @ self.I @ X.E + R @ H.T - (H + RM) @ R))

    def matrix(self) -> Array:
        """The 6x6 matrix of the inertia."""
        return np.block([[self.I, self.H], [self.H.T, self.M]])


def outer(U: Array, W: Array) -> ArticulatedInertia:
    """The symmetric product U W^T of two matrices (6, k) that makes one."""
    n, f = U[:3] @ W[:3].T, U[3:] @ W[3:].T
    return ArticulatedInertia(_symmetric(f), U[:3] @ W[3:].T, _symmetric(n))
