"""The vertices of a face in contact (RBDA 11.6)."""

import numpy as np
from numpy.typing import ArrayLike

from rigidblocks.algebra.spatial import Array


def hull_vertices(points: ArrayLike, normal: ArrayLike) -> tuple[int, ...]:
    """Which of the points (n, 3) of an edge or a face in contact suffice: the vertices of their
    convex hull (RBDA 11.6).

    The points share the contact normal (3,). The normal of any other point is positively dependent
    on those of the vertices, so it adds nothing to the constraint. Of an edge the two ends remain,
    of points that coincide one. The vertices go round the normal counter-clockwise. These are
    numbers, not traced; a zero normal is refused with ValueError.
    """
    p, n = np.asarray(points, dtype=float), unit_normal(normal)
    along = np.cross(n, np.eye(3)[np.argmin(np.abs(n))])
    along /= np.linalg.norm(along)
    uv = np.stack([p @ along, p @ np.cross(n, along)], axis=-1)
    dust = 1e-12 * max(float(np.ptp(uv, axis=0).max()), 1e-300)
    order = [int(k) for k in np.lexsort((uv[:, 1], uv[:, 0]))]
    lower, upper = _half_hull(uv, order, dust), _half_hull(uv, order[::-1], dust)
    hull = dict.fromkeys([*lower[:-1], *upper[:-1]] or order[:1])
    return tuple(hull)


def unit_normal(normal: ArrayLike) -> Array:
    """The unit vector along `normal` (3,), one of length 1 to the last digits as it is; raises
    ValueError for a zero one and what is not finite.
    """
    n = np.asarray(normal, dtype=float)
    length = float(np.linalg.norm(n)) if n.shape == (3,) else 0.0
    if not (np.isfinite(length) and length > 0):
        raise ValueError(
            f"a normal must be a finite vector of 3 components that is not zero, not {n.tolist()}"
        )
    return n.copy() if abs(length - 1.0) < 1e-15 else n / length


def _half_hull(uv: Array, order: list[int], dust: float) -> list[int]:
    """The vertices of one half of the convex hull, by Andrew's monotone chain."""
    hull: list[int] = []
    for k in order:
        while (
            len(hull) > 1
            and _turn(uv[hull[-2]], uv[hull[-1]], uv[k]) <= dust * np.ptp(uv, axis=0).max()
        ):
            hull.pop()
        if not hull or np.abs(uv[k] - uv[hull[-1]]).max() > dust:
            hull.append(k)
    return hull


def _turn(a: Array, b: Array, c: Array) -> float:
    """Twice the area of the triangle, positive when it goes counter-clockwise."""
    return float((b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]))
