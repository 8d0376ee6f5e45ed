"""Spatial (6-D) vector algebra in Pluecker coordinates, angular part first (RBDA chapter 2,
appendix A).

A motion vector is [w; v] (rad/s, m/s), a force vector [n; f] (N m, N): arrays of shape (6,).
Pinocchio and most libraries put the linear part first. Transforms and inertias are kept compact, as
in RBDA Table A.3, because that is what keeps the operation count down; `matrix()` gives the 6x6
form. Rotations follow the book's convention: `rotz(q)` takes A to B coordinates where frame B is A
turned by +q about z.

Everything works on floats and on traced scalars.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rigidblocks.algebra.frozen import read_only
from rigidblocks.algebra.symmetric import check_symmetric, symmetric

if TYPE_CHECKING:
    Array = NDArray[Any]
else:  # what `help` shows: the alias would fill lines
    Array = np.ndarray

CYCLIC = ((0, 1, 2), (1, 2, 0), (2, 0, 1))  # each axis with the two that follow


def blocks(A: Array, B: Array, C: Array, D: Array) -> Array:
    """The matrix (6, 6) [[A, B], [C, D]] of four matrices (3, 3); what numpy.block does takes ten
    times as long.
    """
    return np.concatenate([np.concatenate([A, B], axis=1), np.concatenate([C, D], axis=1)])


STRAIGHT = read_only(np.eye(3))  # the rotation of what is not turned


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
    x, y, z = np.asarray(a).tolist()
    return np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])


def _components(a: Array) -> Any:
    """The elements of a 3-vector as a list, whose numbers are several times as fast as those of an
    array; the rows of a matrix.
    """
    return a.tolist() if a.ndim == 1 else a


def cross(a: Array, b: Array) -> Array:
    """The product a x b of two 3-vectors; one may be a 3xk matrix of columns."""
    (x, y, z), (u, v, w) = _components(a), _components(b)
    return np.array([y * w - z * v, z * u - x * w, x * v - y * u])


def crm(v: Array) -> Array:
    """The 6x6 matrix v x with (v x) m the derivative of a motion vector m moving with velocity v
    (RBDA Eq 2.31).
    """
    w, vO = skew(v[:3]), skew(v[3:])
    return np.block([[w, np.zeros((3, 3))], [vO, w]])


def crf(v: Array) -> Array:
    """The 6x6 matrix v x* = -(v x)^T, the same for a force vector (RBDA Eq 2.32)."""
    return -crm(v).T


def cross_motion(v: Array, m: Array) -> Array:
    """The product v x m = [w x m; w x mO + vO x m] of two motion vectors (RBDA Eq 2.33)."""
    return np.concatenate([cross(v[:3], m[:3]), cross(v[:3], m[3:]) + cross(v[3:], m[:3])])


def cross_force(v: Array, f: Array) -> Array:
    """The product v x* f = [w x n + vO x f; w x f] of a motion and a force vector (RBDA Eq
    2.34).
    """
    return np.concatenate([cross(v[:3], f[:3]) + cross(v[3:], f[3:]), cross(v[:3], f[3:])])


def coriolis(v: Array, vJ: Array) -> Array:
    """What a joint that moves with vJ adds to the acceleration of a body that moves with v, in the
    body's coordinates.

        [w x wJ; w x vJ + (w - wJ) x vJ]

    It is v x vJ + [0; (w - wJ) x vJ]: the accelerations are those of `Transform.carry`.
    """
    w, wJ, v_lin = v[:3], vJ[:3], vJ[3:]
    return np.concatenate([cross(w, wJ), cross(w, v_lin) + cross(w - wJ, v_lin)])


def spin(w: Array, wd: Array) -> Array:
    """The matrix W = w x w x + wd x (3, 3): the point r of a body accelerates by W r against its
    origin.
    """
    x, y, z = w.tolist()
    xx, yy, zz, xy, yz, zx = x * x, y * y, z * z, x * y, y * z, z * x
    a, b, c = wd.tolist()
    return np.array(
        [[-(yy + zz), xy - c, zx + b], [xy + c, -(zz + xx), yz - a], [zx - b, yz + a, -(xx + yy)]]
    )


def _second_moments(I: list[list[Any]]) -> list[Any]:
    """The integrals of x^2, y^2 and z^2 over the mass of a body with rotational inertia I; rounding
    dust is made zero.
    """
    half = (I[0][0] + I[1][1] + I[2][2]) / 2
    J = [half - I[k][k] for k in range(3)]
    return [0.0 if isinstance(j, float) and abs(j) <= 1e-14 * abs(half) else j for j in J]


def _moment(I: list[list[Any]], w: list[Any], W: list[list[Any]]) -> list[Any]:
    """I wd + w x I w, with J = (tr I / 2) 1 - I that of the skew part of W J, W of `spin`."""
    J = _second_moments(I)
    return [
        J[j] * W[k][j]
        - J[k] * W[j][k]
        + I[i][k] * W[j][i]
        - I[i][j] * W[k][i]
        + I[j][k] * (w[j] * w[j] - w[k] * w[k])
        for i, j, k in CYCLIC
    ]


@dataclass(frozen=True, eq=False)  # eq=False: arrays have no single truth value
class Transform:
    """The motion transform X from A to B coordinates, kept as plx(E, r) (RBDA Eq 2.24, Table A.3).

        X = [[E, 0], [-E rx, E]]      X* = X^-T = [[E, -E rx], [0, E]]

    E (3, 3) rotates A to B coordinates; r (3,) is the position of B's origin in A coordinates [m].
    """

    E: Array
    r: Array

    def __matmul__(self, other: "Transform | Array") -> Any:
        """X Y for a transform Y; X m for a motion vector m (6,) or a matrix of motion columns (6,
        k).
        """
        if isinstance(other, Transform):
            return Transform(self.E @ other.E, other.r + other.E.T @ self.r)
        w, v = other[:3], other[3:]
        return np.concatenate([self.E @ w, self.E @ (v - cross(self.r, w))])

    def carry(self, v: Array, a: Array) -> Array:
        """[E wd; E (a + W r)] with W = w x w x + wd x: the acceleration a = [wd; a] of a body that
        moves with v, taken from A to B coordinates.

        The linear parts are the accelerations of the points of the body at the origins, which is
        what an accelerometer there feels, and not the linear parts of spatial accelerations: those
        are less by w x v (RBDA Eq 2.49).
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

    @property
    def factors(self) -> "tuple[Transform, ...]":
        """The transforms that X is kept as the product of, of which the last is applied first."""
        return (self,)

    def turn_back(self, A: Array) -> Array:
        """E^T A E of a matrix (3, 3)."""
        return self.E.T @ A @ self.E

    def turn_symmetric_back(self, A: Array) -> Array:
        """E^T A E of a symmetric matrix (3, 3), of which the lower triangle is read."""
        return symmetric(self.E.T @ A @ self.E)

    def shift(self, R: Array, H: Array, Y: Array) -> Array:
        """The symmetric matrix R H^T - Y R, with R = r x and Y = H + R M (RBDA Table A.4)."""
        return symmetric(R @ H.T - Y @ R)

    def matrix(self) -> Array:
        """The 6x6 matrix of X."""
        return blocks(self.E, np.zeros((3, 3)), -self.E @ skew(self.r), self.E)


@dataclass(frozen=True, eq=False)
class _Transpose:
    X: Transform

    def __matmul__(self, f: Array) -> Array:
        """X^T f = [E^T n + r x E^T f; E^T f]."""
        for X in self.X.factors:
            n, f3 = X.E.T @ f[:3], X.E.T @ f[3:]
            f = np.concatenate([n + cross(X.r, f3), f3])
        return f


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

        I = [[I, hx], [-hx, m 1]]

    m [kg] is the mass, h = m c (3,) the first moment [kg m], I (3, 3) the rotational inertia about
    the frame's *origin* [kg m^2]. Use `mcI` to make one from the centre of mass and the inertia
    about it.
    """

    m: Any
    h: Array
    I: Array

    def __matmul__(self, v: Array) -> Array:
        """I v = [I w + h x v; m v - h x w], the momentum of velocity v (6,), or of columns (6,
        k).
        """
        w, v3 = v[:3], v[3:]
        return np.concatenate([self.I @ w + cross(self.h, v3), self.m * v3 - cross(self.h, w)])

    def __add__(self, other: "RigidInertia") -> "RigidInertia":
        """The inertia of two bodies joined rigidly, in the same frame."""
        return RigidInertia(self.m + other.m, self.h + other.h, self.I + other.I)

    def to_parent(self, X: Transform) -> "RigidInertia":
        """X^T I X: the inertia taken from B back to A coordinates (RBDA Table A.4)."""
        return reduce(RigidInertia._before, X.factors, self)

    def _before(self, X: Transform) -> "RigidInertia":
        h, r = X.E.T @ self.h, X.r
        y = h + 0.5 * self.m * r
        a, b, c = 2.0 * r * y  # the shift is (2 r . y) 1 - r y^T - y r^T
        xy, yz, zx = (r[i] * y[j] + r[j] * y[i] for i, j, _ in CYCLIC)
        shift = np.array([[b + c, -xy, -zx], [-xy, c + a, -yz], [-zx, -yz, a + b]])
        return RigidInertia(self.m, h + self.m * r, X.turn_symmetric_back(self.I) + shift)

    def force(self, v: Array, a: Array) -> Array:
        """[I wd + w x I w + h x a; m a + W h], the force on a body with velocity v and acceleration
        a, W of `spin`.

        It is I a + v x* I v of the spatial acceleration; here the linear part of a is as in
        `Transform.carry`, which needs no linear velocity.
        """
        h, a_lin, W = self.h, a[3:], spin(v[:3], a[:3])
        n = _moment(self.I.tolist(), v[:3].tolist(), W.tolist())
        return np.concatenate([np.array(n) + cross(h, a_lin), self.m * a_lin + W @ h])

    def matrix(self) -> Array:
        """The 6x6 matrix of the inertia."""
        return blocks(self.I, skew(self.h), -skew(self.h), self.m * np.eye(3))

    def inverse(self) -> Array:
        """Phi = I^-1 (6, 6) (RBDA Eq 2.74); only of numbers, and of a body with a rotational
        inertia about its centre of mass.

            Phi = [[J, J (cx)^T], [cx J, 1/m + cx J (cx)^T]],  J = I_C^-1
        """
        cx = skew(self.h / self.m)
        J = np.linalg.inv(self.I - self.m * cx @ cx.T)
        return np.block([[J, J @ cx.T], [cx @ J, np.eye(3) / self.m + cx @ J @ cx.T]])

    def articulated(self) -> "ArticulatedInertia":
        """The same inertia as the starting value of an articulated-body inertia."""
        return ArticulatedInertia(self.m * np.eye(3), skew(self.h), self.I)


def mcI(m: Any, c: ArrayLike, I_C: ArrayLike) -> RigidInertia:
    """The inertia of a body of mass `m` [kg] with its centre of mass at `c` (3,) [m] and the
    rotational inertia `I_C` (3, 3) [kg m^2] about the centre of mass (RBDA Eq 2.63).

    Raises ValueError for an I_C that is not symmetric; `Model` refuses what else is not physical.
    """
    c, I_C = np.asarray(c), np.asarray(I_C)
    check_symmetric(I_C, f"the rotational inertia I_C of a body of {m} kg")
    (xx, _, _), (xy, yy, _), (xz, yz, zz) = I_C.tolist()
    return symmetric_inertia(m, c.tolist(), (xx, xy, xz, yy, yz, zz))


def symmetric_inertia(m: Any, c: Sequence[Any], moments: Sequence[Any]) -> RigidInertia:
    """The inertia of `mcI` from the entries xx, xy, xz, yy, yz, zz of I_C; read-only."""
    h, I = first_and_second_moments(m, c, moments)
    return RigidInertia(m, read_only(h), read_only([I[:3], I[3:6], I[6:]]))


def first_and_second_moments(
    m: Any, c: Sequence[Any], moments: Sequence[Any]
) -> tuple[list[Any], list[Any]]:
    """The elements of h and I of `symmetric_inertia`."""
    x, y, z = c
    a, d, f, b, e, g = moments
    xx, yy, zz = x * x, y * y, z * z
    d, e, f = d - m * (x * y), e - m * (y * z), f - m * (z * x)
    a, b, g = a - m * -(yy + zz), b - m * -(zz + xx), g - m * -(xx + yy)
    return [m * x, m * y, m * z], [a, d, f, d, b, e, f, e, g]


@dataclass(frozen=True, eq=False)
class ArticulatedInertia:
    """An articulated-body inertia, abi(M, H, I): symmetric, with 21 parameters (RBDA 7.1, Table
    A.3).

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
        return ArticulatedInertia(self.M + other.M, self.H + other.H, self.I + other.I)

    def __sub__(self, other: "ArticulatedInertia") -> "ArticulatedInertia":
        return ArticulatedInertia(self.M - other.M, self.H - other.H, self.I - other.I)

    def to_parent(self, X: Transform) -> "ArticulatedInertia":
        """X^T I^A X: the inertia taken from B back to A coordinates (RBDA Table A.4)."""
        return reduce(ArticulatedInertia._before, X.factors, self)

    def _before(self, X: Transform) -> "ArticulatedInertia":
        R, M, H = skew(X.r), X.turn_symmetric_back(self.M), X.turn_back(self.H)
        Y = H + R @ M
        return ArticulatedInertia(M, Y, X.turn_symmetric_back(self.I) + X.shift(R, H, Y))

    def matrix(self) -> Array:
        """The 6x6 matrix of the inertia."""
        return blocks(self.I, self.H, self.H.T, self.M)


def outer(U: Array, W: Array) -> ArticulatedInertia:
    """The symmetric product U W^T of two matrices (6, k) that makes one."""
    product = U @ W.T
    M, H, I = product[3:, 3:], product[:3, 3:], product[:3, :3]
    return ArticulatedInertia(symmetric(M), H, symmetric(I))
