"""Where users of other libraries look: screws of motion and force vectors (RBDA 2.5), and matrices
of homogeneous coordinates (RBDA 2.8). In numbers.
"""

from typing import NamedTuple

import numpy as np

from rigidblocks.algebra.spatial import Array, Transform


class Screw(NamedTuple):
    """A motion or force vector as a line and what is along it.

    `direction` (3,) is of unit length, `point` (3,) [m] that of the axis nearest to the origin, and
    `pitch` [m/rad] what there is along the axis for each turn or unit of force about or on it;
    `size` is the length of the angular velocity or the force. A free vector, of translation or a
    couple, has no axis but an infinite pitch: its point is the origin and its size its length.
    """

    direction: Array
    point: Array
    pitch: float
    size: float


def motion_screw(v: Array) -> Screw:
    """The screw of a motion vector [w; v_O]: a turn about an axis and a slide along it (RBDA Eq
    2.10).

    pitch = w . v_O / w . w. Raises ValueError for the zero vector, which has no direction.
    """
    return _screw(v[:3], v[3:])


def force_screw(f: Array) -> Screw:
    """The screw of a force vector [n_O; f]: a force on a line and a couple about it, a wrench (RBDA
    Eq 2.10).

    pitch = f . n_O / f . f. Raises ValueError for the zero vector.
    """
    return _screw(f[3:], f[:3])


def of_motion_screw(screw: Screw) -> Array:
    """The motion vector [w; v_O] (6,) of a screw."""
    return np.concatenate(_vectors(screw))


def of_force_screw(screw: Screw) -> Array:
    """The force vector [n_O; f] (6,) of a screw."""
    return np.concatenate(_vectors(screw)[::-1])


def homogeneous(X: Transform) -> Array:
    """The matrix (4, 4) that takes homogeneous coordinates of points from A to B (RBDA Eq 2.28).

        T = [[E, -E r], [0, 1]]

    The pose of B in A, which others call T, is its inverse: `homogeneous(X.inverse())`.
    """
    T = np.eye(4)
    T[:3, :3], T[:3, 3] = X.E, -(X.E @ X.r)
    return T


def of_homogeneous(T: Array) -> Transform:
    """The transform of a matrix as `homogeneous` has it.

    Raises ValueError where T is no matrix of a rigid motion.
    """
    T = np.asarray(T, dtype=float)
    if T.shape != (4, 4) or np.any(T[3] != [0, 0, 0, 1]):
        raise ValueError(f"a matrix of homogeneous coordinates has the last row 0 0 0 1: {T}")
    E = T[:3, :3]
    if np.abs(E @ E.T - np.eye(3)).max() > 1e-9 or np.linalg.det(E) < 0:
        raise ValueError(f"the first rows and columns must be a rotation, not {E.tolist()}")
    return Transform(E, -(E.T @ T[:3, 3]))


def _screw(s: Array, s_O: Array) -> Screw:
    size = float(np.linalg.norm(s))
    if size == 0.0:
        free = float(np.linalg.norm(s_O))
        if free == 0.0:
            raise ValueError("the zero vector has no screw: it has neither axis nor direction")
        return Screw(s_O / free, np.zeros(3), np.inf, free)
    e = s / size
    # P with OP x s = s_O - h s, normal to s
    return Screw(e, np.cross(e, s_O) / size, float(e @ s_O) / size, size)


def _vectors(screw: Screw) -> tuple[Array, Array]:
    """s and s_O."""
    s = screw.direction * screw.size
    if np.isinf(screw.pitch):
        return np.zeros(3), s
    return s, np.cross(screw.point, s) + screw.pitch * s
