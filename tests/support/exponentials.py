"""Transforms as exponentials of velocities, by SciPy's matrix exponential."""

import numpy as np
from scipy.linalg import expm

from rigidblocks.algebra import planar
from rigidblocks.algebra.spatial import Transform, crm


def moved(u):
    """The transform from A to B where A travels to B at the constant velocity u: X = exp(-u x)
    (RBDA Eq 2.45).
    """
    M = expm(-crm(u))
    E = M[:3, :3]
    rx = -E.T @ M[3:, :3]
    return Transform(E, np.array([rx[2, 1], rx[0, 2], rx[1, 0]]))


def planar_moved(u):
    """The same in the plane."""
    M = expm(-planar.crm(u))
    E = M[1:, 1:]
    x, y = E.T @ M[1:, 0]
    return planar.Transform(E, np.array([y, -x]))
