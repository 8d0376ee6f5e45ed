"""Planar (3-D) vector algebra, angular part first (RBDA 2.16, A.1).

Planar vectors describe motions in the x-y plane. They contain the elements 3, 4 and 5 of spatial
vectors, counted from 1. A motion vector (3,) is [w; vx; vy] [rad/s, m/s], and a force vector (3,)
is [n; fx; fy] [N m, N]. The functions have the names of the functions in `spatial`, so the
algorithms accept both modules. The formulas of `spatial` apply with P(r) w instead of -r x w, where
P(r) is `perp(r)`.

All functions accept floats and traced scalars.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rigidblocks.spatial.spatial import Array


def rz(theta: Any) -> Array:
    """Return the 2x2 coordinate rotation by `theta` [rad] in the plane."""
    return _rotation(np.cos(theta), np.sin(theta))


def perp(r: Array) -> Array:
    """Return the 2x1 matrix P(r) = [-ry; rx].

    P(r) w is the cross product (w z) x r, with the plane normal z. P(r)^T f is r x f.
    """
    return np.array([[-r[1]], [r[0]]])


def crm(v: Array) -> Array:
    """Return the 3x3 matrix v x of a velocity v (RBDA Eq 2.75; crmp).

    (v x) m is the derivative of a motion vector m that is fixed in a body with velocity v.
    """
    w, x, y = v
    return np.array([[0.0, 0.0, 0.0], [y, 0.0, -w], [-x, w, 0.0]])


def crf(v: Array) -> Array:
    """Return the 3x3 matrix v x* = -(v x)^T, which applies to force vectors (RBDA 2.16; crfp)."""
    return -crm(v).T


def cross_motion(v: Array, m: Array) -> Array:
    """Return the cross product v x m of two motion vectors (RBDA Eq 2.76).

    With v = [w; vO] and m = [u; mO], v x m = [0; P(mO) w - P(vO) u].
    """
    return np.concatenate([np.zeros(1), perp(m[1:]) @ v[:1] - perp(v[1:]) @ m[:1]])


def cross_force(v: Array, f: Array) -> Array:
    """Return the cross product v x* f of a motion vector and a force vector (RBDA 2.16).

    With v = [w; vO] and f = [n; g], v x* f = [P(vO)^T g; P(g) w].
    """
    return np.concatenate([perp(v[1:]).T @ f[1:], perp(f[1:]) @ v[:1]])


def coriolis(v: Array, vJ: Array) -> Array:
    """Return the contribution of the joint velocity vJ to the acceleration of the body.

        [0; P(u) (2 w - wJ)]

    v is the velocity of the body, and w its angular part. vJ = [wJ; u] is the joint velocity. All
    vectors are in body coordinates. The result is v x vJ + [0; P(u) (w - wJ)]. The second term is
    necessary because the linear part of an acceleration belongs to a body point, as in
    `Transform.carry`.
    """
    w, wJ = v[:1], vJ[:1]
    return np.concatenate([np.zeros(1), perp(vJ[1:]) @ (w + (w - wJ))])


def spin(w: Array, wd: Array) -> Array:
    """Return the matrix W (2, 2) with W r = P(r) wd - w^2 r, for w (1,) and wd (1,).

    W r is the acceleration of the body point at r relative to the body origin.
    """
    ww, a = w[0] * w[0], wd[0]
    return np.array([[-ww, -a], [a, -ww]])


def _symmetric(lower: Array) -> Array:
    """Return the symmetric 2x2 matrix with the lower triangle of `lower`."""
    return np.array([[lower[0, 0], lower[1, 0]], [lower[1, 0], lower[1, 1]]])


def _rotation(c: Any, s: Any) -> Array:
    return np.array([[c, s], [-s, c]])


def _turned_symmetric(E: Array, A: Array) -> Array:
    """Return E^T A E for a symmetric A, by the formulas of RBDA A.5."""
    c, s = E[0]
    ss, cs, difference = s * s, c * s, A[1, 1] - A[0, 0]
    alpha = ss * difference - (cs + cs) * A[1, 0]
    beta = (1.0 - (ss + ss)) * A[1, 0] - cs * difference
    return np.array([[A[0, 0] + alpha, beta], [beta, A[1, 1] - alpha]])


@dataclass(frozen=True, eq=False)  # eq=False: arrays have no single truth value
class Transform:
    """Motion transform X from A to B coordinates of the plane (RBDA Eq 2.77).

        X = [[1, 0], [E P(r), E]]      X* = X^-T = [[1, -P(r)^T], [0, E]]

    E (2, 2) rotates A to B coordinates; r (2,) is the position of B's origin in A coordinates [m].
    """

    E: Array
    r: Array

    def __matmul__(self, other: "Transform | Array") -> Any:
        """Return X Y for a transform Y, or X m for motion vectors m (3,) or (3, k)."""
        if isinstance(other, Transform):
            c, s = self.E[0] @ other.E
            return Transform(_rotation(c, s), other.r + other.E.T @ self.r)
        w, v = other[:1], other[1:]
        return np.concatenate([w, self.E @ (v + perp(self.r) @ w)])

    def carry(self, v: Array, a: Array) -> Array:
        """Return the acceleration of a body in B coordinates, [wd; E (a + W r)].

        v = [w; vO] is the velocity and [wd; a] the acceleration of the body in A coordinates. W is
        `spin(w, wd)`. The linear parts of both accelerations are the accelerations of the body
        points at the origins of A and B. In RBDA, the linear part is a - P(vO) w instead of a.
        """
        return np.concatenate([a[:1], self.E @ (a[1:] + spin(v[:1], a[:1]) @ self.r)])

    def force(self, f: Array) -> Array:
        """Return X* f, the force vector f (3,) or (3, k) transformed from A to B coordinates."""
        n, f2 = f[:1], f[1:]
        return np.concatenate([n - perp(self.r).T @ f2, self.E @ f2])

    @property
    def T(self) -> "_Transpose":
        """X^T, which transforms a force vector from B to A coordinates: `X.T @ f`."""
        return _Transpose(self)

    def inverse(self) -> "Transform":
        """Return X^-1, the transform from B to A coordinates."""
        return Transform(self.E.T, -(self.E @ self.r))

    def matrix(self) -> Array:
        """Return the 3x3 matrix of X."""
        return np.block([[np.ones((1, 1)), np.zeros((1, 2))], [self.E @ perp(self.r), self.E]])


@dataclass(frozen=True, eq=False)
class _Transpose:
    X: Transform

    def __matmul__(self, f: Array) -> Array:
        """Transform a force vector from B to A coordinates.

        With the couple n and the force g, X^T [n; g] = [n + P(r)^T E^T g; E^T g].
        """
        f2 = self.X.E.T @ f[1:]
        return np.concatenate([f[:1] + perp(self.X.r).T @ f2, f2])


def xpln(theta: Any, r: ArrayLike) -> Transform:
    """Return the transform to a frame with origin `r` (2,) [m], rotated by `theta` [rad].

    Source: RBDA Table A.1; Xpln.
    """
    return Transform(rz(theta), np.asarray(r))


def xlt(r: ArrayLike) -> Transform:
    """Return the transform to a parallel frame with its origin at `r` (2,) [m]."""
    return Transform(np.eye(2), np.asarray(r))


def identity() -> Transform:
    """Return the identity transform."""
    return xlt(np.zeros(2))


def zero() -> Array:
    """Return the zero motion vector."""
    return np.zeros(3)


def uniform_field(g: Array) -> Array:
    """Return the motion vector [0; g] (3,) of a uniform acceleration field g (2,) [m/s^2]."""
    return np.concatenate([np.zeros(1), g])


@dataclass(frozen=True, eq=False)
class RigidInertia:
    """Inertia of a rigid body in the plane (RBDA Eq 2.78).

        matrix = [[I, P(h)^T], [P(h), m 1]]

    m [kg] is the mass and h = m c (2,) the first moment [kg m]. I is the rotational inertia about
    the *origin* of the frame [kg m^2]. `mcI` creates an inertia from the centre of mass and the
    rotational inertia about the centre of mass.
    """

    m: Any
    h: Array
    I: Any

    def __matmul__(self, v: Array) -> Array:
        """Return the momentum [I w + h x vO; m vO + P(h) w] for v = [w; vO], (3,) or (3, k)."""
        w, v2 = v[:1], v[1:]
        return np.concatenate([self.I * w + perp(self.h).T @ v2, self.m * v2 + perp(self.h) @ w])

    def __add__(self, other: "RigidInertia") -> "RigidInertia":
        """Return the inertia of two rigidly connected bodies in their common frame."""
        return RigidInertia(self.m + other.m, self.h + other.h, self.I + other.I)

    def transform_to_parent(self, X: Transform) -> "RigidInertia":
        """Return X^T I X, the inertia transformed from B to A coordinates."""
        h, r = X.E.T @ self.h, X.r
        return RigidInertia(self.m, h + self.m * r, self.I + 2.0 * r @ h + self.m * (r @ r))

    def force(self, v: Array, a: Array) -> Array:
        """Return the force on a body with the velocity v and the acceleration [wd; a].

            [I wd + h x a; m a + W h]

        W is `spin(w, wd)` for the angular part w of v. The linear part a is the acceleration of the
        body point at the origin, as in `Transform.carry`. RBDA computes the same force from its
        planar acceleration A: f = I A + v x* I v.
        """
        wd, a_lin, W = a[:1], a[1:], spin(v[:1], a[:1])
        return np.concatenate([self.I * wd + perp(self.h).T @ a_lin, self.m * a_lin + W @ self.h])

    def matrix(self) -> Array:
        """Return the 3x3 matrix of the inertia."""
        return self.articulated_inertia().matrix()

    def articulated_inertia(self) -> "ArticulatedInertia":
        """Return the inertia as an articulated-body inertia."""
        return ArticulatedInertia(self.m * np.eye(2), perp(self.h), np.array([[self.I]]))


def mcI(m: Any, c: ArrayLike, I_C: Any) -> RigidInertia:
    """Return the inertia of a body in the plane (RBDA Eq 2.78; mcIp).

    The function does not check the values; `PlanarModel` rejects unphysical values.

    Args:
        m: Mass [kg].
        c: Centre of mass (2,) [m].
        I_C: Rotational inertia about the centre of mass [kg m^2].
    """
    c = np.asarray(c)
    return RigidInertia(m, m * c, I_C + m * (c @ c))


@dataclass(frozen=True, eq=False)
class ArticulatedInertia:
    """Articulated-body inertia in the plane: symmetric, with 6 parameters (RBDA 7.1).

        I^A = [[I, H^T], [H, M]]

    M is (2, 2), H (2, 1), I (1, 1).
    """

    M: Array
    H: Array
    I: Array

    def __matmul__(self, a: Array) -> Array:
        """Return I^A a for an acceleration a (3,), or for k accelerations (3, k).

        With a = [wd; b], the result is [I wd + H^T b; M b + H wd].
        """
        wd, b = a[:1], a[1:]
        return np.concatenate([self.I @ wd + self.H.T @ b, self.M @ b + self.H @ wd])

    def __add__(self, other: "ArticulatedInertia") -> "ArticulatedInertia":
        """Return the articulated-body inertia of two bodies with rigidly connected handles."""
        return ArticulatedInertia(self.M + other.M, self.H + other.H, self.I + other.I)

    def __sub__(self, other: "ArticulatedInertia") -> "ArticulatedInertia":
        return ArticulatedInertia(self.M - other.M, self.H - other.H, self.I - other.I)

    def transform_to_parent(self, X: Transform) -> "ArticulatedInertia":
        """Return X^T I X: transform the articulated-body inertia I from B to A coordinates."""
        P = perp(X.r)
        M, H = _turned_symmetric(X.E, self.M), X.E.T @ self.H
        MP = M @ P
        return ArticulatedInertia(M, H + MP, self.I + P.T @ (2 * H + MP))

    def matrix(self) -> Array:
        """Return the 3x3 matrix of the inertia."""
        return np.block([[self.I, self.H.T], [self.H, self.M]])


def outer(U: Array, W: Array) -> ArticulatedInertia:
    """Return U W^T as an articulated-body inertia; U and W are (3, k), and U W^T is symmetric."""
    return ArticulatedInertia(_symmetric(U[1:] @ W[1:].T), U[1:] @ W[:1].T, U[:1] @ W[:1].T)
