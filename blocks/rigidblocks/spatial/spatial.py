"""Spatial (6-D) vector algebra in Pluecker coordinates, angular part first.

A motion vector (6,) is [w; v] [rad/s, m/s], and a force vector (6,) is [n; f] [N m, N]. Pinocchio
and most libraries put the linear part first. Transforms and inertias are stored in compact form, as
in RBDA Table A.3, because this form needs fewer operations. The method `matrix` returns the 6x6
matrix. Rotations follow the convention of RBDA. For example, `rotz(q)` transforms A to B
coordinates, where frame B is frame A rotated by +q about z.

The functions accept floats and traced scalars. The functions for screws and homogeneous matrices
accept only floats. They convert to and from the conventions of other libraries (RBDA 2.5, 2.8).

Source: RBDA chapter 2, appendix A.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from math import isfinite
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rigidblocks.common.arrays import Array as Array
from rigidblocks.common.arrays import read_only
from rigidblocks.spatial.scalar import is_number, is_traced

CYCLIC = ((0, 1, 2), (1, 2, 0), (2, 0, 1))  # each axis with the two following axes


def blocks(A: Array, B: Array, C: Array, D: Array) -> Array:
    """Return the matrix [[A, B], [C, D]] (6, 6) of four matrices (3, 3).

    The function is ten times as fast as numpy.block.
    """
    return np.concatenate([np.concatenate([A, B], axis=1), np.concatenate([C, D], axis=1)])


STRAIGHT = read_only(np.eye(3))  # identity rotation


def rx(theta: Any) -> Array:
    """Return the 3x3 coordinate rotation about x (RBDA Table 2.2)."""
    c, s = np.cos(theta), np.sin(theta)
    return np.array([[1.0, 0.0, 0.0], [0.0, c, s], [0.0, -s, c]])


def ry(theta: Any) -> Array:
    """Return the 3x3 coordinate rotation about y (RBDA Table 2.2)."""
    c, s = np.cos(theta), np.sin(theta)
    return np.array([[c, 0.0, -s], [0.0, 1.0, 0.0], [s, 0.0, c]])


def rz(theta: Any) -> Array:
    """Return the 3x3 coordinate rotation about z (RBDA Table 2.2)."""
    c, s = np.cos(theta), np.sin(theta)
    return np.array([[c, s, 0.0], [-s, c, 0.0], [0.0, 0.0, 1.0]])


def skew(a: ArrayLike) -> Array:
    """Return the skew-symmetric matrix S (3, 3) of a, with S b = a x b (RBDA Eq 2.23)."""
    x, y, z = np.asarray(a).tolist()
    return np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])


def _components(a: Array) -> Any:
    """Convert a vector (3,) to a list, for faster access; return a matrix unchanged."""
    return a.tolist() if a.ndim == 1 else a


def cross(a: Array, b: Array) -> Array:
    """Return the cross product a x b; a and b are vectors (3,), or one is a matrix (3, k)."""
    (x, y, z), (u, v, w) = _components(a), _components(b)
    return np.array([y * w - z * v, z * u - x * w, x * v - y * u])


def crm(v: Array) -> Array:
    """Return the 6x6 matrix v x of a velocity v (RBDA Eq 2.31).

    (v x) m is the derivative of a motion vector m that is fixed in a body with velocity v.
    """
    w, vO = skew(v[:3]), skew(v[3:])
    return np.block([[w, np.zeros((3, 3))], [vO, w]])


def crf(v: Array) -> Array:
    """Return the 6x6 matrix v x* = -(v x)^T, which applies to force vectors (RBDA Eq 2.32)."""
    return -crm(v).T


def cross_motion(v: Array, m: Array) -> Array:
    """Return the cross product v x m of two motion vectors (RBDA Eq 2.33).

    With v = [w; vO] and m = [u; mO], v x m = [w x u; w x mO + vO x u].
    """
    return np.concatenate([cross(v[:3], m[:3]), cross(v[:3], m[3:]) + cross(v[3:], m[:3])])


def cross_force(v: Array, f: Array) -> Array:
    """Return the cross product v x* f of a motion vector and a force vector (RBDA Eq 2.34).

    With v = [w; vO] and f = [n; g], v x* f = [w x n + vO x g; w x g].
    """
    return np.concatenate([cross(v[:3], f[:3]) + cross(v[3:], f[3:]), cross(v[:3], f[3:])])


def coriolis(v: Array, vJ: Array) -> Array:
    """Return the contribution of the joint velocity vJ to the acceleration of the body.

        [w x wJ; w x u + (w - wJ) x u]

    v is the velocity of the body, and w its angular part. vJ = [wJ; u] is the joint velocity. All
    vectors are in body coordinates. The result is v x vJ + [0; (w - wJ) x u]. The second term is
    necessary because the linear part of an acceleration belongs to a body point, as in
    `Transform.carry`.
    """
    w, wJ, v_lin = v[:3], vJ[:3], vJ[3:]
    return np.concatenate([cross(w, wJ), cross(w, v_lin) + cross(w - wJ, v_lin)])


def spin(w: Array, wd: Array) -> Array:
    """Return the matrix W = w x w x + wd x (3, 3) for w (3,) [rad/s] and wd (3,) [rad/s^2].

    W r is the acceleration of the body point r relative to the body origin.
    """
    x, y, z = w.tolist()
    xx, yy, zz, xy, yz, zx = x * x, y * y, z * z, x * y, y * z, z * x
    a, b, c = wd.tolist()
    return np.array(
        [[-(yy + zz), xy - c, zx + b], [xy + c, -(zz + xx), yz - a], [zx - b, yz + a, -(xx + yy)]]
    )


def _second_moments(I: list[list[Any]]) -> list[Any]:
    """Return the integrals of x^2 dm, y^2 dm and z^2 dm, computed from the rotational inertia I.

    An integral within rounding error of zero becomes exactly zero.
    """
    half = (I[0][0] + I[1][1] + I[2][2]) / 2
    J = [half - I[k][k] for k in range(3)]
    return [0.0 if isinstance(j, float) and abs(j) <= 1e-14 * abs(half) else j for j in J]


def _moment(I: list[list[Any]], w: list[Any], W: list[list[Any]]) -> list[Any]:
    """Return the moment I wd + w x I w (3,), computed from W = `spin(w, wd)`."""
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
    """Motion transform X from A to B coordinates, stored as plx(E, r) (RBDA Eq 2.24, Table A.3).

        X = [[E, 0], [-E rx, E]]      X* = X^-T = [[E, -E rx], [0, E]]

    E (3, 3) rotates A to B coordinates; r (3,) is the position of B's origin in A coordinates [m].
    """

    E: Array
    r: Array

    def __matmul__(self, other: "Transform | Array") -> Any:
        """Return X Y for a transform Y, or X m for motion vectors m (6,) or (6, k)."""
        if isinstance(other, Transform):
            return Transform(self.E @ other.E, other.r + other.E.T @ self.r)
        w, v = other[:3], other[3:]
        return np.concatenate([self.E @ w, self.E @ (v - cross(self.r, w))])

    def carry(self, v: Array, a: Array) -> Array:
        """Return the acceleration of a body in B coordinates, [E wd; E (a + W r)].

        v = [w; vO] is the velocity and [wd; a] the acceleration of the body in A coordinates. W is
        w x w x + wd x. The linear parts of both accelerations are the accelerations of the body
        points at the origins of A and B. In RBDA, the linear part is a - w x vO instead of a
        (Eq 2.49).
        """
        return np.concatenate([self.E @ a[:3], self.E @ (a[3:] + spin(v[:3], a[:3]) @ self.r)])

    def force(self, f: Array) -> Array:
        """Return X* f, the force vector f (6,) or (6, k) transformed from A to B coordinates."""
        n, f3 = f[:3], f[3:]
        return np.concatenate([self.E @ (n - cross(self.r, f3)), self.E @ f3])

    @property
    def T(self) -> "_Transpose":
        """X^T, which transforms a force vector from B to A coordinates: `X.T @ f`."""
        return _Transpose(self)

    def inverse(self) -> "Transform":
        """Return X^-1 = plx(E^T, -E r), the transform from B to A coordinates."""
        return Transform(self.E.T, -(self.E @ self.r))

    @property
    def factors(self) -> "tuple[Transform, ...]":
        """Transforms whose product is X; the last transform is applied first."""
        return (self,)

    def turn_back(self, A: Array) -> Array:
        """Return E^T A E, the matrix A (3, 3) rotated by the inverse of E."""
        return self.E.T @ A @ self.E

    def turn_symmetric_back(self, A: Array) -> Array:
        """Return E^T A E, the symmetric matrix A (3, 3) rotated by the inverse of E.

        The upper triangle of the result is a copy of the lower triangle.
        """
        return symmetric(self.E.T @ A @ self.E)

    def shift(self, R: Array, H: Array, Y: Array) -> Array:
        """Return R H^T - Y R, the change of the block I of an `ArticulatedInertia` by a shift r.

        H and M are the other blocks of the inertia before the shift. R = r x, and Y = H + R M is
        the block H after the shift (RBDA A.4). All matrices are (3, 3).
        """
        return symmetric(R @ H.T - Y @ R)

    def matrix(self) -> Array:
        """Return the 6x6 matrix of X."""
        return blocks(self.E, np.zeros((3, 3)), -self.E @ skew(self.r), self.E)


@dataclass(frozen=True, eq=False)
class _Transpose:
    X: Transform

    def __matmul__(self, f: Array) -> Array:
        """Transform a force vector from B to A coordinates.

        With the couple n and the force g, X^T [n; g] = [E^T n + r x E^T g; E^T g].
        """
        for X in self.X.factors:
            n, f3 = X.E.T @ f[:3], X.E.T @ f[3:]
            f = np.concatenate([n + cross(X.r, f3), f3])
        return f


def rotx(theta: Any) -> Transform:
    """Return the transform to a frame rotated by `theta` [rad] about the x axis (Xrotx)."""
    return Transform(rx(theta), np.zeros(3))


def roty(theta: Any) -> Transform:
    """Return the transform to a frame rotated by `theta` [rad] about the y axis (Xroty)."""
    return Transform(ry(theta), np.zeros(3))


def rotz(theta: Any) -> Transform:
    """Return the transform to a frame rotated by `theta` [rad] about the z axis (Xrotz)."""
    return Transform(rz(theta), np.zeros(3))


def xlt(r: ArrayLike) -> Transform:
    """Return the transform to a parallel frame with its origin at `r` [m] (Xtrans)."""
    return Transform(np.eye(3), np.asarray(r))


def identity() -> Transform:
    """Return the identity transform."""
    return xlt(np.zeros(3))


def zero() -> Array:
    """Return the zero motion vector."""
    return np.zeros(6)


def uniform_field(g: Array) -> Array:
    """Return the motion vector [0; g] (6,) of a uniform acceleration field g (3,) [m/s^2]."""
    return np.concatenate([np.zeros(3), g])


@dataclass(frozen=True, eq=False)
class RigidInertia:
    """Inertia of a rigid body, rbi(m, h, I) (RBDA Eq 2.63, Table A.3).

        matrix = [[I, hx], [-hx, m 1]]

    m [kg] is the mass and h = m c (3,) the first moment [kg m]. I (3, 3) is the rotational inertia
    about the *origin* of the frame [kg m^2]. `mcI` creates an inertia from the centre of mass and
    the rotational inertia about the centre of mass.
    """

    m: Any
    h: Array
    I: Array

    def __matmul__(self, v: Array) -> Array:
        """Return the momentum [I w + h x vO; m vO - h x w] for v = [w; vO], (6,) or (6, k)."""
        w, v3 = v[:3], v[3:]
        return np.concatenate([self.I @ w + cross(self.h, v3), self.m * v3 - cross(self.h, w)])

    def __add__(self, other: "RigidInertia") -> "RigidInertia":
        """Return the inertia of two rigidly connected bodies in their common frame."""
        return RigidInertia(self.m + other.m, self.h + other.h, self.I + other.I)

    def transform_to_parent(self, X: Transform) -> "RigidInertia":
        """Return X^T I X, the inertia transformed from B to A coordinates (RBDA Table A.4)."""
        return reduce(RigidInertia._transform_by_factor, X.factors, self)

    def _transform_by_factor(self, X: Transform) -> "RigidInertia":
        h, r = X.E.T @ self.h, X.r
        y = h + 0.5 * self.m * r
        a, b, c = 2.0 * r * y  # the shift is (2 r . y) 1 - r y^T - y r^T
        xy, yz, zx = (r[i] * y[j] + r[j] * y[i] for i, j, _ in CYCLIC)
        shift = np.array([[b + c, -xy, -zx], [-xy, c + a, -yz], [-zx, -yz, a + b]])
        return RigidInertia(self.m, h + self.m * r, X.turn_symmetric_back(self.I) + shift)

    def force(self, v: Array, a: Array) -> Array:
        """Return the force on a body with the velocity v and the acceleration [wd; a].

            [I wd + w x I w + h x a; m a + W h]

        W is `spin(w, wd)` for the angular part w of v. The linear part a is the acceleration of the
        body point at the origin, as in `Transform.carry`. The force therefore does not depend on
        the linear velocity. RBDA computes the same force from its spatial acceleration A:
        f = I A + v x* I v.
        """
        h, a_lin, W = self.h, a[3:], spin(v[:3], a[:3])
        n = _moment(self.I.tolist(), v[:3].tolist(), W.tolist())
        return np.concatenate([np.array(n) + cross(h, a_lin), self.m * a_lin + W @ h])

    def matrix(self) -> Array:
        """Return the 6x6 matrix of the inertia."""
        return blocks(self.I, skew(self.h), -skew(self.h), self.m * np.eye(3))

    def inverse(self) -> Array:
        """Return the inverse inertia Phi = I^-1 (6, 6) (RBDA Eq 2.74).

            Phi = [[J, J (cx)^T], [cx J, 1/m + cx J (cx)^T]],  J = I_C^-1

        c is the centre of mass. I_C is the rotational inertia about c and must be nonsingular. The
        elements must be floats.
        """
        cx = skew(self.h / self.m)
        J = np.linalg.inv(self.I - self.m * cx @ cx.T)
        return np.block([[J, J @ cx.T], [cx @ J, np.eye(3) / self.m + cx @ J @ cx.T]])

    def articulated_inertia(self) -> "ArticulatedInertia":
        """Return the inertia as an articulated-body inertia."""
        return ArticulatedInertia(self.m * np.eye(3), skew(self.h), self.I)


def mcI(m: Any, c: ArrayLike, I_C: ArrayLike) -> RigidInertia:
    """Return the inertia of a body about the origin of its frame (RBDA Eq 2.63).

    The function checks only the symmetry of I_C; `Model` rejects other unphysical values.

    Args:
        m: The mass [kg].
        c: The centre of mass (3,) [m].
        I_C: The rotational inertia (3, 3) about the centre of mass [kg m^2].

    Raises:
        ValueError: I_C is not symmetric.
    """
    c, I_C = np.asarray(c), np.asarray(I_C)
    check_symmetric(I_C, f"the rotational inertia I_C of a body of {m} kg")
    (xx, _, _), (xy, yy, _), (xz, yz, zz) = I_C.tolist()
    return symmetric_inertia(m, c.tolist(), (xx, xy, xz, yy, yz, zz))


def symmetric_inertia(m: Any, c: Sequence[Any], moments: Sequence[Any]) -> RigidInertia:
    """Return the inertia of a body about the origin of its frame, with read-only arrays.

    `m` and `c` are as in `mcI`. `moments` contains the elements xx, xy, xz, yy, yz, zz of I_C
    [kg m^2].
    """
    h, I = first_and_second_moments(m, c, moments)
    return RigidInertia(m, read_only(h), read_only([I[:3], I[3:6], I[6:]]))


def first_and_second_moments(
    m: Any, c: Sequence[Any], moments: Sequence[Any]
) -> tuple[list[Any], list[Any]]:
    """Return the elements of the first moment h (3,) and the inertia I (3, 3) as flat lists.

    The arguments are as in `symmetric_inertia`.
    """
    x, y, z = c
    a, d, f, b, e, g = moments
    xx, yy, zz = x * x, y * y, z * z
    d, e, f = d - m * (x * y), e - m * (y * z), f - m * (z * x)
    a, b, g = a - m * -(yy + zz), b - m * -(zz + xx), g - m * -(xx + yy)
    return [m * x, m * y, m * z], [a, d, f, d, b, e, f, e, g]


@dataclass(frozen=True, eq=False)
class ArticulatedInertia:
    """Articulated-body inertia abi(M, H, I): symmetric, 21 parameters (RBDA 7.1, Table A.3).

        I^A = [[I, H], [H^T, M]]

    All blocks are (3, 3); I and M are symmetric.
    """

    M: Array
    H: Array
    I: Array

    def __matmul__(self, a: Array) -> Array:
        """Return I^A a for an acceleration a (6,), or for k accelerations (6, k).

        With a = [wd; b], the result is [I wd + H b; M b + H^T wd].
        """
        wd, b = a[:3], a[3:]
        return np.concatenate([self.I @ wd + self.H @ b, self.M @ b + self.H.T @ wd])

    def __add__(self, other: "ArticulatedInertia") -> "ArticulatedInertia":
        """Return the articulated-body inertia of two bodies with rigidly connected handles."""
        return ArticulatedInertia(self.M + other.M, self.H + other.H, self.I + other.I)

    def __sub__(self, other: "ArticulatedInertia") -> "ArticulatedInertia":
        return ArticulatedInertia(self.M - other.M, self.H - other.H, self.I - other.I)

    def transform_to_parent(self, X: Transform) -> "ArticulatedInertia":
        """Return X^T I^A X, the inertia transformed from B to A coordinates (RBDA Table A.4)."""
        return reduce(ArticulatedInertia._transform_by_factor, X.factors, self)

    def _transform_by_factor(self, X: Transform) -> "ArticulatedInertia":
        R, M, H = skew(X.r), X.turn_symmetric_back(self.M), X.turn_back(self.H)
        Y = H + R @ M
        return ArticulatedInertia(M, Y, X.turn_symmetric_back(self.I) + X.shift(R, H, Y))

    def matrix(self) -> Array:
        """Return the 6x6 matrix of the inertia."""
        return blocks(self.I, self.H, self.H.T, self.M)


def outer(U: Array, W: Array) -> ArticulatedInertia:
    """Return U W^T as an articulated-body inertia; U and W are (6, k), and U W^T is symmetric."""
    product = U @ W.T
    M, H, I = product[3:, 3:], product[:3, 3:], product[:3, :3]
    return ArticulatedInertia(symmetric(M), H, symmetric(I))


Matrix = NDArray[Any]

LOWER = np.array([[0, 3, 6], [3, 4, 7], [6, 7, 8]])  # indices of the lower triangle, row by row


def symmetric(lower: Matrix) -> Matrix:
    """Return the symmetric 3x3 matrix with the lower triangle of `lower`."""
    return lower.take(LOWER)


def check_symmetric(I: Matrix, subject: str) -> None:
    """Raise ValueError if the matrix I (3, 3) of floats is not symmetric.

    The tolerance is 1e-9 of the largest entry. The message contains `subject`, the name of the
    matrix, and the two entries with the largest difference.
    """
    if I.dtype == object or I.shape != (3, 3):
        return
    (_, b, c), (d, _, f), (g, h, _) = I.tolist()
    if b == d and c == g and f == h:
        return
    asymmetry = np.abs(I - I.T)
    if np.max(asymmetry) > 1e-9 * np.max(np.abs(I)):
        i, j = sorted(map(int, np.unravel_index(np.argmax(asymmetry), I.shape)))
        raise ValueError(
            f"{subject} must be symmetric: its entries [{i}, {j}] = {I[i, j]:.9g} and [{j}, {i}] = "
            f"{I[j, i]:.9g} kg m^2 must be equal"
        )


def multiply_transforms(X: Any, Y: Any) -> Any:
    """Return the product X Y of two transforms.

    If the transforms are spatial and X is traced, the result is a `Factors`, which stores X and Y.
    Otherwise the result is one transform.
    """
    if not isinstance(X, Transform):
        return X @ Y
    if isinstance(X, Factors):
        return X @ Y
    return Factors(X, Y) if is_traced(X.E, X.r) else Factor.from_transform(X @ Y)


class Factor(Transform):
    """Factor of a product of transforms, with a fast transformation of matrices.

    The factor is a transform from A to B coordinates, as in `Transform`. If E rotates about a
    coordinate axis, `turn_back` and `turn_symmetric_back` use the formulas of RBDA A.5. These
    formulas omit multiplications by the zeros and the one in E.
    """

    @classmethod
    def from_transform(cls, X: Transform) -> "Factor":
        """Return a `Factor` with E and r of the transform X."""
        return cls(X.E, X.r)

    def __matmul__(self, other: Transform | Array) -> Any:
        product = super().__matmul__(other)
        return Factor.from_transform(product) if isinstance(other, Transform) else product

    def turn_back(self, A: Array) -> Array:
        if (axis := _axis(self.E)) is None:
            return super().turn_back(A)
        i, j, k = axis
        c, s = self.E[i, i], self.E[i, j]
        ss, cs = s * s, c * s
        difference, total = A[j, j] - A[i, i], A[i, j] + A[j, i]
        alpha, beta = ss * difference - cs * total, cs * difference + ss * total
        B = A.astype(np.result_type(A, self.E))
        B[i, i], B[j, j] = A[i, i] + alpha, A[j, j] - alpha
        B[i, j], B[j, i] = A[i, j] - beta, A[j, i] - beta
        B[i, k], B[j, k] = c * A[i, k] - s * A[j, k], s * A[i, k] + c * A[j, k]
        B[k, i], B[k, j] = c * A[k, i] - s * A[k, j], s * A[k, i] + c * A[k, j]
        return B

    def turn_symmetric_back(self, A: Array) -> Array:
        if (axis := _axis(self.E)) is None:
            return super().turn_symmetric_back(A)
        i, j, k = axis
        c, s = self.E[i, i], self.E[i, j]
        ss, cs = s * s, c * s
        difference = A[j, j] - A[i, i]
        alpha = ss * difference - (cs + cs) * A[i, j]
        B = A.astype(np.result_type(A, self.E))
        B[i, i], B[j, j] = A[i, i] + alpha, A[j, j] - alpha
        B[i, j] = B[j, i] = (1.0 - (ss + ss)) * A[i, j] - cs * difference
        B[i, k] = B[k, i] = c * A[i, k] - s * A[j, k]
        B[j, k] = B[k, j] = s * A[i, k] + c * A[j, k]
        return B

    def shift(self, R: Array, H: Array, Y: Array) -> Array:
        P = np.empty((3, 3), np.result_type(R, H, Y))
        for i, j, k in CYCLIC:
            P[i, i] = R[i, j] * (H[i, j] + Y[i, j]) + R[i, k] * (H[i, k] + Y[i, k])
            a, b = max(i, j), min(i, j)
            near = R[a, b] * (H[b, b] - Y[a, a])
            P[i, j] = P[j, i] = near + R[a, k] * H[b, k] + R[b, k] * Y[a, k]
        return P


class Factors(Factor):
    """Product of transforms in a trace, stored as factors (RBDA A.4, A.5).

    The last factor is applied first. Each factor contains zeros and ones. To apply the factors one
    after the other therefore takes fewer operations than to apply the product.
    """

    def __init__(self, *factors: Transform):
        object.__setattr__(self, "_factors", tuple(map(Factor.from_transform, factors)))

    @property
    def factors(self) -> tuple[Transform, ...]:
        factors: tuple[Transform, ...] = self._factors  # type: ignore[attr-defined]
        return factors

    @cached_property
    def _product(self) -> Transform:
        return reduce(lambda X, Y: X @ Y, self.factors)

    @property
    def E(self) -> Array:
        """Rotation E (3, 3) from A to B coordinates, computed from all factors."""
        return self._product.E

    @property
    def r(self) -> Array:
        """Position r (3,) [m] of B's origin in A coordinates, computed from all factors."""
        return self._product.r

    def __matmul__(self, other: Transform | Array) -> Any:
        if isinstance(other, Transform):
            constant = len(other.factors) == 1 and not is_traced(other.E, other.r)
            return Factors(*self.factors, other) if constant else self._product @ other
        return reduce(lambda m, X: X @ m, reversed(self.factors), other)

    def carry(self, v: Array, a: Array) -> Array:
        for X in reversed(self.factors):
            v, a = X @ v, X.carry(v, a)
        return a

    def force(self, f: Array) -> Array:
        return reduce(lambda f, X: X.force(f), reversed(self.factors), f)


def _axis(E: Array) -> tuple[int, int, int] | None:
    """Return (i, j, k) if E is a rotation about the coordinate axis k, and None otherwise.

    i and j are the indices of the two other axes. The function identifies the axis by the constant
    zeros and the constant one in E.
    """
    for i, j, k in CYCLIC:
        off_axis = (E[i, k], E[j, k], E[k, i], E[k, j])
        if is_number(E[k, k], 1.0) and all(is_number(element, 0.0) for element in off_axis):
            return i, j, k
    return None


def check_frame(X: Any, subject: str) -> None:
    """Raise ValueError if a transform is not finite or its E is not a rotation.

    The transform X is spatial or planar, and its elements are floats. `subject` is the name of the
    transform in the error message.
    """
    if len(X.E) == 3 and is_frame(X.E.tolist(), X.r.tolist()):
        return  # `is_frame` takes a tenth of the time of the following checks
    if not (np.all(np.isfinite(X.E)) and np.all(np.isfinite(X.r))):
        raise ValueError(f"{subject} is not finite: E = {X.E.tolist()}, r = {X.r.tolist()}")
    if np.abs(X.E @ X.E.T - np.eye(len(X.E))).max() > 1e-9 or np.linalg.det(X.E) < 0:
        raise ValueError(
            f"{subject} has E = {X.E.tolist()}, which is not a rotation; E E^T must be 1 and det E "
            "must be 1"
        )


def is_frame(E: list[list[float]], r: list[float]) -> bool:
    """Return True if E (3, 3) is a proper rotation (det E = 1) and r is finite.

    The tolerance is half of the tolerance in `check_frame`.
    """
    (a, b, c), (d, e, f), (g, h, i) = E
    errors = (
        abs(a * a + b * b + c * c - 1.0),
        abs(d * d + e * e + f * f - 1.0),
        abs(g * g + h * h + i * i - 1.0),
        abs(a * d + b * e + c * f),
        abs(a * g + b * h + c * i),
        abs(d * g + e * h + f * i),
    )
    volume = a * (e * i - f * h) + b * (f * g - d * i) + c * (d * h - e * g)
    return max(errors) < 5e-10 and volume > 0.5 and all(map(isfinite, r))


class Screw(NamedTuple):
    """Screw of a motion vector or force vector: axis, pitch and magnitude.

    `direction` (3,) has unit length. `point` (3,) [m] is the point of the axis nearest to the
    origin. `pitch` [m/rad] is the translation along the axis per rotation angle, or the couple
    about the axis per force. `size` is the magnitude of the angular velocity or of the force.

    A free vector (a translation or a couple) has no axis. Its pitch is infinite, its point is the
    origin, and its size is the magnitude of the vector.
    """

    direction: Array
    point: Array
    pitch: float
    size: float


def motion_screw(v: Array) -> Screw:
    """Return the screw of a motion vector [w; v_O] (RBDA Eq 2.10).

    The screw is a rotation about an axis and a translation along the axis, with the pitch
    w . v_O / w . w [m/rad].

    Raises:
        ValueError: v is the zero vector, which has no direction.
    """
    return _screw(v[:3], v[3:])


def force_screw(f: Array) -> Screw:
    """Return the screw of a force vector [n_O; f], a wrench (RBDA Eq 2.10).

    The screw is a force along an axis and a couple about the axis, with the pitch
    f . n_O / f . f [m].

    Raises:
        ValueError: f is the zero vector.
    """
    return _screw(f[3:], f[:3])


def motion_from_screw(screw: Screw) -> Array:
    """Return the motion vector [w; v_O] (6,) of a screw."""
    return np.concatenate(_vectors(screw))


def force_from_screw(screw: Screw) -> Array:
    """Return the force vector [n_O; f] (6,) of a screw."""
    return np.concatenate(_vectors(screw)[::-1])


def homogeneous(X: Transform) -> Array:
    """Return the matrix T (4, 4) from A to B coordinates of homogeneous points (RBDA Eq 2.28).

        T = [[E, -E r], [0, 1]]

    The inverse of T, `homogeneous(X.inverse())`, is the pose of B in A, which other libraries use.
    """
    T = np.eye(4)
    T[:3, :3], T[:3, 3] = X.E, -(X.E @ X.r)
    return T


def from_homogeneous(T: Array) -> Transform:
    """Return the transform X of a homogeneous matrix T (4, 4), the inverse of `homogeneous`.

    Raises:
        ValueError: T is not the matrix of a rigid motion.
    """
    T = np.asarray(T, dtype=float)
    if T.shape != (4, 4) or np.any(T[3] != [0, 0, 0, 1]):
        raise ValueError(f"a homogeneous matrix must be (4, 4) with the last row 0 0 0 1, not {T}")
    E = T[:3, :3]
    if np.abs(E @ E.T - np.eye(3)).max() > 1e-9 or np.linalg.det(E) < 0:
        raise ValueError(f"the upper left 3x3 block must be a rotation, not {E.tolist()}")
    return Transform(E, -(E.T @ T[:3, 3]))


def _screw(s: Array, s_O: Array) -> Screw:
    size = float(np.linalg.norm(s))
    if size == 0.0:
        free = float(np.linalg.norm(s_O))
        if free == 0.0:
            raise ValueError(
                "the screw of a zero vector is undefined, because the vector has neither axis "
                "nor direction"
            )
        return Screw(s_O / free, np.zeros(3), np.inf, free)
    e = s / size
    # the point P satisfies OP x s = s_O - h s, and OP is normal to s
    return Screw(e, np.cross(e, s_O) / size, float(e @ s_O) / size, size)


def _vectors(screw: Screw) -> tuple[Array, Array]:
    """Return the vector s (3,) along the axis of a screw, and the moment s_O (3,) at the origin."""
    s = screw.direction * screw.size
    if np.isinf(screw.pitch):
        return np.zeros(3), s
    return s, np.cross(screw.point, s) + screw.pitch * s
