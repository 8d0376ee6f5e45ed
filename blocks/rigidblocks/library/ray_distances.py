"""Distances along rays from a point to simple shapes, as floats or traced values.

A ray starts at p (3,) and has the unit direction d (3,), both in the coordinates of the shape. The
distance is the smallest t >= 0 for which p + t d is on the surface of the shape, also if the ray
starts inside. It is `NO_HIT` if the ray misses the shape.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from rigidblocks.robot_description.robot_description import Obstacle
from rigidblocks.spatial.scalar import maximum, minimum, select
from rigidblocks.spatial.spatial import Array

NO_HIT = 1e300  # m
_LEAST = 1e-15  # smallest component of a direction or discriminant that counts, as in MuJoCo


def ray_distance(obstacle: Obstacle, p: Array, d: Array) -> Any:
    """Return the distance along a ray to an obstacle [m], or `NO_HIT`.

    Args:
        obstacle: The obstacle; its sizes are radii and half lengths.
        p: The start (3,) of the ray in the coordinates of the obstacle [m].
        d: The unit vector (3,) along the ray.
    """
    size = obstacle.size
    match obstacle.kind:
        case "plane":
            return _plane(size, p, d)
        case "sphere":
            return _nearest(_roots(d, p, size[0] ** 2))
        case "ellipsoid":
            scale = 1.0 / np.array(size)
            return _nearest(_roots(d * scale, p * scale, 1.0))
        case "capsule":
            return _nearest([*_side(size, p, d), *_ends(size, p, d)])
        case "cylinder":
            return _nearest([*_side(size, p, d), *_caps(size, p, d)])
    return _nearest(_faces(size, p, d))


Hit = tuple[Any, Any]  # distance, and the conditions under which it counts


def _nearest(hits: Sequence[Hit]) -> Any:
    best: Any = NO_HIT
    for t, margin in hits:
        valid = minimum(t, margin) >= 0.0
        best = minimum(best, select(valid, t, NO_HIT))
    return best


def _safe(x: Any) -> Any:
    return select(abs(x) < _LEAST, _LEAST, x)


def _roots(d: Array, p: Array, square: float) -> list[Hit]:
    """Return the roots t of |p + t d|^2 = square, with their discriminant as margin."""
    a, b, c = d @ d, d @ p, p @ p - square
    margin = b * b - a * c - _LEAST
    root = np.sqrt(maximum(margin + _LEAST, 0.0))
    a = maximum(a, _LEAST)
    return [((-b - root) / a, margin), ((-b + root) / a, margin)]


def _side(size: Sequence[float], p: Array, d: Array) -> Iterator[Hit]:
    """Yield the hits of the side of a cylinder with the radius and the half length `size`."""
    radius, half = size[:2]
    for t, margin in _roots(d[:2], p[:2], radius**2):
        yield t, minimum(margin, half - abs(p[2] + t * d[2]))


def _ends(size: Sequence[float], p: Array, d: Array) -> Iterator[Hit]:
    """Yield the hits of the two half spheres of a capsule."""
    radius, half = size[:2]
    for sign in (1.0, -1.0):
        centre = np.array([0.0, 0.0, sign * half])
        for t, margin in _roots(d, p - centre, radius**2):
            yield t, minimum(margin, sign * (p[2] + t * d[2]) - half)


def _caps(size: Sequence[float], p: Array, d: Array) -> Iterator[Hit]:
    """Yield the hits of the two flat ends of a cylinder."""
    radius, half = size[:2]
    for sign in (1.0, -1.0):
        t = (sign * half - p[2]) / _safe(d[2])
        x, y = p[0] + t * d[0], p[1] + t * d[1]
        yield t, radius**2 - (x * x + y * y)


def _faces(size: Sequence[float], p: Array, d: Array) -> list[Hit]:
    """Return the hits of the faces of a box with the half lengths `size`."""
    hits = []
    for k, half in enumerate(size):
        one, two = (k + 1) % 3, (k + 2) % 3
        for sign in (1.0, -1.0):
            t = (sign * half - p[k]) / _safe(d[k])
            margin = minimum(
                size[one] - abs(p[one] + t * d[one]), size[two] - abs(p[two] + t * d[two])
            )
            hits.append((t, margin))
    return hits


def _plane(size: Sequence[float], p: Array, d: Array) -> Any:
    """Return the distance to a plane z = 0 from above; a size of 0 is an infinite length."""
    t = -p[2] / _safe(d[2])
    margin: Any = -d[2] - _LEAST
    for k in (0, 1):
        if size[k] > 0:
            margin = minimum(margin, size[k] - abs(p[k] + t * d[k]))
    return _nearest([(t, margin)])
