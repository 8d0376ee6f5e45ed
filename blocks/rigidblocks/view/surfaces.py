"""The surfaces of solids as triangles, for pictures that are drawn here and not in a browser."""

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.view.solids import Solid

SIDES, PIECES = 14, 8  # around an axis and along it, so that triangles are small


def triangles(solid: Solid) -> Array:
    """The triangles (n, 3, 3) [m] of a solid in its own coordinates, their corners anti-clockwise
    from outside; those of a rod of unit length.
    """
    size = solid.size
    match solid.kind:
        case "mesh":
            return np.asarray(solid.points, dtype=float).reshape(-1, 3, 3)
        case "box":
            return _box(np.array(size))
        case "sphere":
            return turned(_capsule(size[0], 0.0))
        case "ellipsoid":
            return np.asarray(turned(_capsule(1.0, 0.0)) * np.array(size))
        case "capsule":
            return turned(_capsule(size[0], size[1]))
        case "cylinder":
            return turned(_cylinder(size[0], size[1]))
        case _:
            return turned(_cylinder(size[0], 1.0))


def turned(profile: Array) -> Array:
    """The surface that the profile (k, 2) of radius and z, upward, makes around z."""
    angle = 2 * np.pi * np.arange(SIDES + 1) / SIDES
    r, z = profile.T[..., None]
    rings = np.stack([r * np.cos(angle), r * np.sin(angle), z + 0 * angle], axis=-1)
    a, b = rings[:-1, :-1], rings[:-1, 1:]
    c, d = rings[1:, :-1], rings[1:, 1:]
    both = np.concatenate([np.stack([a, b, c], axis=2), np.stack([c, b, d], axis=2)])
    flat = both.reshape(-1, 3, 3)
    areas = np.linalg.norm(np.cross(flat[:, 1] - flat[:, 0], flat[:, 2] - flat[:, 0]), axis=1)
    return np.asarray(flat[areas > 0])


def _capsule(radius: float, height: float) -> Array:
    angle = np.linspace(0.0, np.pi / 2, 6)
    cap = radius * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    up = np.array([0.0, height / 2])
    low, high = cap[::-1] * np.array([1.0, -1.0]) - up, cap + up
    return np.concatenate([low, _side(radius, height)[1:-1] if height else low[:0], high])


def _cylinder(radius: float, height: float) -> Array:
    ends = np.array([[0.0, -height / 2], [0.0, height / 2]])
    return np.concatenate([ends[:1], _side(radius, height), ends[1:]])


def _side(radius: float, height: float) -> Array:
    z = np.linspace(-height / 2, height / 2, PIECES + 1)
    return np.stack([np.full(len(z), radius), z], axis=1)


def _box(sides: Array) -> Array:
    """Each face in squares of four by four."""
    found = []
    s = np.linspace(-0.5, 0.5, 5)
    for axis in range(3):
        u, v = np.eye(3)[(axis + 1) % 3], np.eye(3)[(axis + 2) % 3]
        for end in (-0.5, 0.5):
            grid = end * np.eye(3)[axis] + s[:, None, None] * u * (2 * end) + s[None, :, None] * v
            a, b, c, d = grid[:-1, :-1], grid[1:, :-1], grid[:-1, 1:], grid[1:, 1:]
            found += [np.stack([a, b, c], axis=2), np.stack([c, b, d], axis=2)]
    return np.asarray(np.concatenate(found).reshape(-1, 3, 3) * sides)
