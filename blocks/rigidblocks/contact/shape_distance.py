"""The distance of two shapes, and where they touch, by the same C that a plant in rigid contact
runs (`c/contact`).
"""

import ctypes
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from rigidblocks.algebra.spatial import Array, Transform
from rigidblocks.contact.shape_rows import HALF_SPACE, shape_rows
from rigidblocks.model.shapes import Shape, Surface
from rigidblocks.tracing.ccode import c_text
from rigidblocks.tracing.compiler import shared_library

GEOMETRY = (
    "vector.h",
    "shape.h",
    "gjk.h",
    "edges.h",
    "epa.h",
    "polish.h",
    "proximity.h",
    "boxes.h",
    "manifold.h",
)


class Proximity(NamedTuple):
    """How near two shapes are: `gap` [m], negative where they overlap, by which B could move along
    -n until they touch; the unit `normal` (3,) out of B towards A; and the points of A and of B
    (3,) [m] that are closest, or deepest.
    """

    gap: float
    normal: Array
    on_a: Array
    on_b: Array


class ContactPoints(NamedTuple):
    """Where two shapes touch: the unit `normal` (3,) out of B towards A, `point` (n, 3) [m] in the
    middle between the surfaces, and `gap` (n,) [m] along the normal at each, n <= 4.
    """

    normal: Array
    point: Array
    gap: Array


def proximity(a: Shape | Surface, X_a: Transform, b: Shape | Surface, X_b: Transform) -> Proximity:
    """The signed distance of two shapes, of which X_a and X_b take base coordinates to those of
    their bodies; all results are in base coordinates.

    In closed form where there is one, by GJK and, where the shapes overlap, EPA else, with Newton's
    method where one of them is curved: to rounding. Where several normals or points are as good it
    is one of them. Raises TypeError for a shape without a row
    (`contact.shape_rows`), and ValueError for two planes and for a set of several points.
    """
    out, (row_a, row_b), poses = np.zeros(10), _rows(a, b), np.zeros(24)
    poses[:12], poses[12:] = _pose(row_a[1], X_a), _pose(row_b[1], X_b)
    _library().shapes_proximity(_at(row_a[0]), _at(row_b[0]), _at(poses), 1, _at(out))
    return Proximity(float(out[0]), out[1:4], out[4:7], out[7:10])


def contact_points(
    a: Shape | Surface, X_a: Transform, b: Shape | Surface, X_b: Transform, margin: float = 0.0
) -> ContactPoints:
    """Where two shapes touch, or are closer than `margin` [m]: up to four points. Arguments and
    errors are those of `proximity`.

    Boxes touch with faces and edges, by their separating axes; of two shapes that only just touch
    the normal is that of a small overlap.
    """
    out, (row_a, row_b), poses = np.zeros(19), _rows(a, b), np.zeros(24)
    poses[:12], poses[12:] = _pose(row_a[1], X_a), _pose(row_b[1], X_b)
    library = _library()
    n = library.shapes_collide(
        _at(row_a[0]), _at(row_b[0]), _at(poses), ctypes.c_double(margin), _at(out)
    )
    points = out[3 : 3 + 4 * n].reshape(n, 4)
    return ContactPoints(out[:3], points[:, :3], points[:, 3])


@cache
def _library() -> Any:
    sources = {name: c_text(f"contact/{name}") for name in (*GEOMETRY, "proximity.c")}
    library = ctypes.CDLL(str(shared_library(sources, "proximity.c")))
    library.shapes_proximity.restype = None
    return library


def _rows(a: Shape | Surface, b: Shape | Surface) -> tuple[tuple[Array, Transform], ...]:
    found = []
    for shape in (a, b):
        rows = list(shape_rows(shape))
        if len(rows) > 1:
            raise ValueError(f"take the points one by one: a set of {len(rows)} has no distance")
        found += rows
    if any(row[0] > HALF_SPACE for row, _ in found):
        raise ValueError("height fields and triangle meshes are ground: no distance is measured")
    if all(row[0] == HALF_SPACE for row, _ in found):
        raise ValueError("two planes have no distance")
    return tuple(found)


def _pose(own: Transform, X: Transform) -> Array:
    """The rotation, by rows, and the place of the shape's frame in base coordinates."""
    whole = own @ X
    return np.concatenate([whole.E.T.ravel(), whole.r])


def _at(array: Array) -> Any:
    return ctypes.c_void_p(array.ctypes.data)
