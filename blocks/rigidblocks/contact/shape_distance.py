"""Distance and contact points of two shapes.

The functions use the C code of plants with rigid contact (`c/contact`).
"""

import ctypes
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from rigidblocks.block.external_functions import address
from rigidblocks.common.compiler import shared_library
from rigidblocks.contact.shape_tables import HALF_SPACE, shape_rows
from rigidblocks.robot.shapes import Shape, Surface
from rigidblocks.spatial.spatial import Array, Transform
from rigidblocks.tracing.ccode import c_text

GEOMETRY = (
    "shapes.h",
    "gjk_epa.h",
    "narrow_phase.h",
    "manifold.h",
)


class Proximity(NamedTuple):
    """Signed distance of two shapes A and B, with normal and closest points.

    `gap` [m] is the signed distance along `normal`, negative if the shapes overlap. The unit vector
    `normal` (3,) points from B to A. `on_a` and `on_b` (3,) [m] are the closest points of A and B,
    or the deepest points if the shapes overlap. All vectors are in base coordinates.
    """

    gap: float
    normal: Array
    on_a: Array
    on_b: Array


class ContactPoints(NamedTuple):
    """Contact points of two shapes A and B.

    The unit vector `normal` (3,) points from B to A. `point` (n, 3) [m] are the midpoints between
    the surfaces. `gap` (n,) [m] is the distance along the normal at each point, n <= 4.
    """

    normal: Array
    point: Array
    gap: Array


def proximity(a: Shape | Surface, X_a: Transform, b: Shape | Surface, X_b: Transform) -> Proximity:
    """Return the signed distance, normal and closest points of two shapes, in base coordinates.

    The result is exact except for rounding errors. Some pairs of shapes have a closed form. Other
    pairs use the GJK algorithm. Overlapping shapes also use the EPA algorithm, and curved shapes
    Newton's method. If several normals or points are equally close, the function returns one.

    Args:
        a: Shape A.
        X_a: Transform from base coordinates to the coordinates of the body of A.
        b: Shape B.
        X_b: Transform from base coordinates to the coordinates of the body of B.

    Raises:
        TypeError: The C code does not support a shape (`contact.shape_tables`).
        ValueError: Both shapes are planes, or a shape is a set of several points or primitives, a
            height field or a triangle mesh.
    """
    out, (row_a, row_b), poses = np.zeros(10), _rows(a, b), np.zeros(24)
    poses[:12], poses[12:] = _pose(row_a[1], X_a), _pose(row_b[1], X_b)
    _library().rb_shapes_proximity(
        address(row_a[0]), address(row_b[0]), address(poses), 1, address(out)
    )
    return Proximity(float(out[0]), out[1:4], out[4:7], out[7:10])


def contact_points(
    a: Shape | Surface, X_a: Transform, b: Shape | Surface, X_b: Transform, margin: float = 0.0
) -> ContactPoints:
    """Return up to four points at which two shapes touch or are closer than `margin`.

    For boxes, the separating axes determine the faces and edges in contact. If two shapes touch
    without overlap, the normal is the limit of the normal for decreasing overlap.

    Args:
        a: Shape A.
        X_a: Transform from base coordinates to the coordinates of the body of A.
        b: Shape B.
        X_b: Transform from base coordinates to the coordinates of the body of B.
        margin: Largest gap [m] of a contact point.

    Raises:
        TypeError, ValueError: As in `proximity`.
    """
    out, (row_a, row_b), poses = np.zeros(19), _rows(a, b), np.zeros(24)
    poses[:12], poses[12:] = _pose(row_a[1], X_a), _pose(row_b[1], X_b)
    library = _library()
    n = library.rb_shapes_collide(
        address(row_a[0]),
        address(row_b[0]),
        address(poses),
        ctypes.c_double(margin),
        address(out),
    )
    points = out[3 : 3 + 4 * n].reshape(n, 4)
    return ContactPoints(out[:3], points[:, :3], points[:, 3])


@cache
def _library() -> Any:
    sources = {name: c_text(f"contact/{name}") for name in (*GEOMETRY, "proximity.c")}
    library = ctypes.CDLL(str(shared_library(sources, "proximity.c")))
    library.rb_shapes_proximity.restype = None
    return library


def _rows(a: Shape | Surface, b: Shape | Surface) -> tuple[tuple[Array, Transform], ...]:
    found = []
    for shape in (a, b):
        rows = list(shape_rows(shape))
        if len(rows) > 1:
            raise ValueError(
                f"a {type(shape).__name__} of {len(rows)} points or primitives is not supported; "
                "call the function for each of them"
            )
        found += rows
    if any(row[0] > HALF_SPACE for row, _ in found):
        raise ValueError("distances to height fields and triangle meshes are not supported")
    if all(row[0] == HALF_SPACE for row, _ in found):
        raise ValueError("the distance between two planes is not supported")
    return tuple(found)


def _pose(X_shape: Transform, X: Transform) -> Array:
    """Return the pose (12,) of a shape in base coordinates: rotation matrix, then position.

    `X_shape` transforms body to shape coordinates, and X base to body coordinates.
    """
    whole = X_shape @ X
    return np.concatenate([whole.E.T.ravel(), whole.r])
