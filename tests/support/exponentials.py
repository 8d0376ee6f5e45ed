"""Transforms as exponentials of velocities, by SciPy's matrix exponential."""

import numpy as np
from scipy.linalg import expm

from rigidblocks.spatial import planar
from rigidblocks.spatial.spatial import Transform, crm


def moved(u):
    """Return the transform from A to B if A moves to B at the constant velocity u.

    X = exp(-u x) (RBDA Eq 2.45)
    """
    M = expm(-crm(u))
    E = M[:3, :3]
    rx = -E.T @ M[3:, :3]
    return Transform(E, np.array([rx[2, 1], rx[0, 2], rx[1, 0]]))


def planar_moved(u):
    """Return the same transform in the plane."""
    M = expm(-planar.crm(u))
    E = M[1:, 1:]
    x, y = E.T @ M[1:, 0]
    return planar.Transform(E, np.array([y, -x]))
