"""The ground that robots touch: level ground is the floor of the scene, all other is drawn."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rigidblocks.algebra.spatial import Array
from rigidblocks.model.mesh import TriangleMesh
from rigidblocks.model.shapes import HeightField, Plane, Shape, Surface
from rigidblocks.system.system import System
from rigidblocks.view.solids import Solid, of_shapes

STONE = (0.62, 0.66, 0.70)
LEVEL = 1e-9  # 1 - the cosine of the slope of what is level
FINE, WIDE = 32, 4.0  # cells along a height field; sides of a plane in lengths of the robot


def grounds(block: Any) -> Sequence[Surface | Shape]:
    """What is at rest that a block touches, or a part of a system does."""
    if isinstance(block, System):
        return [one for part in block.parts.values() for one in grounds(part.component)]
    block = getattr(block, "plant", block)  # of a world
    ground = getattr(block, "ground", ())
    many = ground if isinstance(ground, tuple) else (ground,)
    return [one for one in many if isinstance(one, Surface | Shape)]


def level_ground(robot: Any, up: ArrayLike) -> dict[str, Any]:
    """How high the floor is, as the script of a page reads it, where a robot has level ground."""
    heights = [
        float(np.asarray(one.normal) @ np.asarray(one.point))
        for one in grounds(robot)
        if isinstance(one, Plane) and _is_level(one, up)
    ]
    return {"ground": max(heights)} if heights else {}


def ground_solids(block: Any, up: ArrayLike, size: float) -> Iterator[Solid]:
    """The solids of all ground that is not level; a plane is a square beside a robot of this size
    [m].
    """
    for one in grounds(block):
        if isinstance(one, Shape):
            yield from of_shapes([one], -1, STONE)
        elif isinstance(one, HeightField):
            yield Solid("mesh", -1, (), STONE, points=_field(one))
        elif isinstance(one, TriangleMesh):
            yield Solid("mesh", -1, (), STONE, points=one.faces.reshape(-1, 9))
        elif isinstance(one, Plane) and not _is_level(one, up):
            yield Solid("mesh", -1, (), STONE, points=_square(one, WIDE * size), opacity=0.6)


def _is_level(plane: Plane, up: ArrayLike) -> bool:
    return float(np.asarray(plane.normal) @ np.asarray(up)) > 1.0 - LEVEL


def _square(plane: Plane, side: float) -> Array:
    """Two triangles (2, 9) of a plane around the point of it that is nearest to the base."""
    n = np.asarray(plane.normal, dtype=float)
    middle = n * float(n @ np.asarray(plane.point))
    a = np.cross(n, np.eye(3)[np.argmin(abs(n))])
    a = a / np.linalg.norm(a) * side / 2
    b = np.cross(n, a)
    corners = [middle - a - b, middle + a - b, middle + a + b, middle - a + b]
    return np.concatenate([corners[k] for k in (0, 1, 2, 0, 2, 3)]).reshape(2, 9)


def _field(field: HeightField) -> Array:
    """The triangles (n, 9) of a height field, of at most 32 by 32 cells."""
    heights = np.asarray(field.heights, dtype=float)
    first, spacing = np.asarray(field.first), np.asarray(field.spacing)
    rows, columns = (np.unique(np.linspace(0, n - 1, FINE + 1).astype(int)) for n in heights.shape)
    x, y = first[0] + spacing[0] * rows, first[1] + spacing[1] * columns
    X, Y = np.meshgrid(x, y, indexing="ij")
    p = np.stack([X, Y, heights[np.ix_(rows, columns)]], axis=-1)
    a, b, c, d = p[:-1, :-1], p[1:, :-1], p[1:, 1:], p[:-1, 1:]
    halves = [np.concatenate(three, axis=-1).reshape(-1, 9) for three in ((a, b, c), (a, c, d))]
    return np.concatenate(halves)
