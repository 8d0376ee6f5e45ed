"""Displacement vectors: how far apart two frames are, as the motion vector that carries one to the
other (RBDA A.1, A.2).

If X takes A to B coordinates, u is the constant velocity that carries frame A to frame B in one
time unit, [rad; m]. The functions approximate u, exactly for a pure translation and else with an
error that vanishes with the angle between A and B. They are not for large angles: a half turn,
which leaves E symmetric, looks like none.
"""

import numpy as np

from rigidblocks.algebra import planar, spatial
from rigidblocks.algebra.spatial import Array, skew


def displacement(X: spatial.Transform) -> Array:
    """The displacement v (6,) from A to B, an invariant of X: v = X v = X^-1 v (RBDA Table A.2;
    XtoV).

        v = [a(E); a(L)] / 2,   a(E) = [E23 - E32; E31 - E13; E12 - E21],   L = -E rx

    Its angular part is u's times sin(theta) / theta.
    """
    return np.concatenate([_axial(X.E), _axial(-X.E @ skew(X.r))]) / 2


def _axial(A: Array) -> Array:
    """The vector whose cross product matrix is A^T - A."""
    return np.array([A[1, 2] - A[2, 1], A[2, 0] - A[0, 2], A[0, 1] - A[1, 0]])


def planar_displacement(X: planar.Transform) -> Array:
    """The planar displacement v (3,) from A to B, an invariant of X: v = X v = X^-1 v (RBDA Table
    A.1; XtoVp).

        v = [X23; (X31 + X22 X31 + X23 X21) / 2; (-X21 - X22 X21 + X23 X31) / 2]

    u is v asin(X23) / X23 where the angle is within 90 degrees; beyond them the principal arc sine
    is another angle.
    """
    c, s = X.E[0]
    x21, x31 = X.E @ planar.perp(X.r)[:, 0]
    return np.array([s, (x31 + c * x31 + s * x21) / 2, (-x21 - c * x21 + s * x31) / 2])


def rough_planar_displacement(X: planar.Transform) -> Array:
    """The planar displacement [X23; X31; -X21] (3,), which takes less work and is no invariant
    (RBDA Table A.1).
    """
    x21, x31 = X.E @ planar.perp(X.r)[:, 0]
    return np.array([X.E[0, 1], x31, -x21])
