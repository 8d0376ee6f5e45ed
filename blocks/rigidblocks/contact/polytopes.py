"""Boxes and hulls by their faces, as rows of numbers that the C of pressure reads
(`c/soft/pressure.h`).
"""

from itertools import combinations

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.contact.shape_rows import BOX, HULL

MOST_CORNERS = 64  # of a hull that has a pressure
MOST_SIDES = 12  # of a face in one piece


def polytope_row(row: Array) -> Array | None:
    """The planes and faces of a shape of this row (`shape_rows`), in its frame; None where it is no
    box, and no hull of at most 64 vertices.
    """
    if row[0] == BOX:
        signs = np.array(np.meshgrid(*[(-1, 1)] * 3)).reshape(3, 8).T
        corners = signs * row[1:4]
    elif row[0] == HULL and row[5] <= MOST_CORNERS:
        corners = row[8:].reshape(-1, 3)
    else:
        return None
    planes = _planes(corners)
    faces, areas = [], []
    for k, plane in enumerate(planes):
        loop = _loop(corners, plane)
        areas.append(_area(loop, plane[:3]))
        faces += [np.array([k, len(piece), *piece.ravel()]) for piece in _pieces(loop)]
    return np.concatenate([[len(planes), len(faces), max(areas)], planes.ravel(), *faces])


def _planes(corners: Array) -> Array:
    """The unit normals outward and the distances (n, 4) of the planes with all corners on one
    side.
    """
    a, b, c = (corners[list(k)] for k in zip(*combinations(range(len(corners)), 3), strict=True))
    n = np.cross(b - a, c - a)
    length = np.linalg.norm(n, axis=1)
    size = float(np.ptp(corners, axis=0).max())
    wide = length > 1e-9 * size**2
    n, a = n[wide] / length[wide, None], a[wide]
    height = n @ corners.T - np.sum(n * a, axis=1)[:, None]
    dust = 1e-9 * size
    below, above = (height < dust).all(axis=1), (height > -dust).all(axis=1)
    n = np.where(above[:, None], -n, n)[below ^ above]
    return np.array([[*normal, (corners @ normal).max()] for normal in _distinct(n)])


def _distinct(normals: Array) -> list[Array]:
    """The first of those that are alike, in their order."""
    found = np.unique(np.round(normals, 7), axis=0, return_index=True)[1]
    kept: list[Array] = []
    for normal in normals[np.sort(found)]:
        if all(normal @ other < 1 - 1e-12 for other in kept):
            kept.append(normal)
    return kept


def _loop(corners: Array, plane: Array) -> Array:
    """The corners (n, 3) on a plane, counter-clockwise about its normal."""
    n, s = plane[:3], plane[3]
    on = corners[corners @ n > s - 1e-9 * np.ptp(corners, axis=0).max()]
    u = np.cross(n, np.eye(3)[np.argmin(np.abs(n))])
    v, arm = np.cross(n, u), on - on.mean(axis=0)
    return np.asarray(on[np.argsort(np.arctan2(arm @ v, arm @ u), kind="stable")])


def _area(loop: Array, n: Array) -> float:
    return float(n @ np.cross(loop, np.roll(loop, -1, axis=0)).sum(axis=0)) / 2


def _pieces(loop: Array) -> list[Array]:
    """Convex parts of a face that have few corners."""
    if len(loop) <= MOST_SIDES:
        return [loop]
    first, rest = loop[:MOST_SIDES], loop[[0, *range(MOST_SIDES - 1, len(loop))]]
    return [first, *_pieces(rest)]
