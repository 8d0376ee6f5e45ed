"""Distances of points to surfaces, and the normals there (RBDA 11.6).

All positions are in the coordinates of the surface [m]; the functions take one point (3,) or many
(..., 3), floats or traced.
"""

from typing import Any

import numpy as np

from rigidblocks.algebra.scalar import clip, less, maximum, select
from rigidblocks.algebra.spatial import Array


def plane_gap(p: Array, normal: Array, offset: Any) -> tuple[Any, Array]:
    """The gap n.p - offset to the plane with the unit normal (3,), and the normal."""
    gap = p[..., 0] * normal[0] + p[..., 1] * normal[1] + p[..., 2] * normal[2] - offset
    return gap, np.broadcast_to(normal, np.shape(p))


def sphere_gap(p: Array, centre: Array, radius: Any) -> tuple[Any, Array]:
    """The gap |p - c| - radius to a sphere, and the normal (p - c) / |p - c|; in the very centre
    the normal is z.

    With the position of a sphere of another body as p, and its radius in `contact`, this is the
    contact of two spheres.
    """
    r = p - centre
    distance, n = _direction(r, radius * 1e-12)
    return distance - radius, n


def box_gap(p: Array, half: Array) -> tuple[Any, Array]:
    """The gap to the box |x| <= half[0], |y| <= half[1], |z| <= half[2], and the normal; inside it
    is the nearest face's.
    """
    q = np.abs(p) - half
    side = select(less(p, 0.0), -1.0, 1.0)
    outside = maximum(q, 0.0)
    distance, away = _direction(outside, 1e-12 * np.max(half))
    deepest = maximum(maximum(q[..., 0], q[..., 1]), q[..., 2])
    inside = less(deepest, 1e-12 * np.max(half))
    return select(inside, deepest, distance), side * select(
        np.asarray(inside)[..., None], _nearest_face(q), away
    )


def _nearest_face(q: Array) -> Array:
    """The unit vector across the face of a box that is nearest to points inside, q beyond each."""
    x_face = select(less(q[..., 2], q[..., 0]), less(q[..., 1], q[..., 0]), False)
    y_face = select(less(q[..., 2], q[..., 1]), select(x_face, 0.0, 1.0), 0.0)
    x_face = select(x_face, 1.0, 0.0)
    return np.stack([x_face, y_face, 1.0 - x_face - y_face], axis=-1)


def field_gap(p: Array, first: Array, spacing: Array, heights: Array) -> tuple[Any, Array]:
    """The gap (z - h(x, y)) n_z to a height field, and the normal n of the field below or above the
    point.

    h is bilinear between the nodes, h = sum of w_i(x) w_j(y) h_ij with the weights max(0, 1 - |x -
    x_i| / dx), and level beyond the edge. The gap is exact for a plane field, and to first order in
    it otherwise.
    """
    weights, slopes = zip(
        *(_hats(p[..., k], first[k], spacing[k], heights.shape[k]) for k in range(2)), strict=True
    )
    along_y = weights[0] @ heights
    h = (along_y * weights[1]).sum(axis=-1)
    h_x = ((slopes[0] @ heights) * weights[1]).sum(axis=-1)
    h_y = (along_y * slopes[1]).sum(axis=-1)
    n_z = 1.0 / _sqrt(1.0 + h_x * h_x + h_y * h_y)
    return (p[..., 2] - h) * n_z, np.stack([-h_x * n_z, -h_y * n_z, n_z], axis=-1)


def _hats(x: Any, first: float, spacing: float, count: int) -> tuple[Array, Array]:
    """The weights (..., count) of the nodes at x, and their derivatives by x; beyond the edge x is
    moved to it.
    """
    s = (x - first) / spacing
    node = np.arange(float(count))
    apart = np.asarray(clip(s, 0.0, count - 1.0))[..., None] - node
    weights = maximum(0.0, 1.0 - np.abs(apart))
    s = np.asarray(s)[..., None]
    behind, ahead = less(s, node), less(s, node + 1.0)  # in the cells before and behind the node
    rising = select(less(s, node - 1.0), 0.0, select(behind, 1.0, 0.0)) * (node > 0)
    falling = select(behind, 0.0, select(ahead, 1.0, 0.0)) * (node < count - 1)
    return weights, (rising - falling) / spacing


def _direction(r: Array, dust: float) -> tuple[Any, Array]:
    """The length of vectors (..., 3) and the unit vectors along them; z, and `dust`, where they are
    not longer than that.
    """
    squared = r[..., 0] * r[..., 0] + r[..., 1] * r[..., 1] + r[..., 2] * r[..., 2]
    length = _sqrt(maximum(squared, dust * dust))  # never zero, so that its derivative exists
    vanishes = less(squared, dust * dust)
    return length, select(
        np.asarray(vanishes)[..., None],
        np.array([0.0, 0.0, 1.0]),
        r / np.asarray(length)[..., None],
    )


def _sqrt(a: Any) -> Any:
    """The square root of numbers of which some may be traced."""
    return _sqrt_each(a) if np.asarray(a).dtype == object else np.sqrt(a)


_sqrt_each = np.frompyfunc(np.sqrt, 1, 1)
