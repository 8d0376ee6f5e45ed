"""Shapes to be drawn that are made of vertices: lines through them and faces between them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rigidblocks.algebra.frozen import read_only
from rigidblocks.algebra.spatial import Array, Transform
from rigidblocks.model.shapes import Shape


@dataclass(frozen=True, eq=False)  # eq=False: arrays have no single truth value
class Polyline(Shape):
    """A line through the `vertices` (n, 3) [m], one after the other, in the body's coordinates: for
    `line` of spatial_v1, `Polyline(V[[0, 1, 2, 0, 3]])`.
    """

    vertices: ArrayLike

    def __post_init__(self) -> None:
        object.__setattr__(self, "vertices", _checked(self.vertices, 2, "a line"))

    @property
    def points(self) -> Array:
        return np.asarray(self.vertices)

    def moved(self, X: Transform) -> "Polyline":
        return replace(self, vertices=(self.points - X.r) @ X.E.T)


@dataclass(frozen=True, eq=False)
class Polyhedron(Shape):
    """Faces between the `vertices` (n, 3) [m], in the body's coordinates, as `face` of spatial_v1.

    Each face is a convex polygon: the numbers of its vertices, counted from 0, anti-clockwise as
    seen from outside. They are kept as triangles, `faces` (m, 3).
    """

    vertices: ArrayLike
    faces: Any

    def __post_init__(self) -> None:
        vertices = _checked(self.vertices, 3, "a polyhedron")
        triangles = [corners for face in self.faces for corners in _triangles(face, len(vertices))]
        if not triangles:
            raise ValueError("a polyhedron needs at least one face")
        faces = np.array(triangles)
        faces.setflags(write=False)
        object.__setattr__(self, "vertices", vertices)
        object.__setattr__(self, "faces", faces)

    @property
    def points(self) -> Array:
        return np.asarray(self.vertices)

    def moved(self, X: Transform) -> "Polyhedron":
        return replace(self, vertices=(self.points - X.r) @ X.E.T)


def _triangles(face: Sequence[int], n: int) -> list[tuple[int, int, int]]:
    corners = [int(k) for k in face]
    if len(set(corners)) < 3 or list(face) != corners or not all(0 <= k < n for k in corners):
        raise ValueError(
            f"a face needs at least 3 of the {n} vertices, by their numbers from 0, not "
            f"{list(face)}"
        )
    return [(corners[0], a, b) for a, b in pairwise(corners[1:])]


def _checked(values: ArrayLike, least: int, what: str) -> Array:
    vertices = np.array(values, dtype=float)
    is_many = vertices.ndim == 2 and vertices.shape[1] == 3 and len(vertices) >= least
    if not is_many or not np.all(np.isfinite(vertices)):
        raise ValueError(
            f"{what} has finite vertices (n, 3), at least {least}, not of shape {vertices.shape}"
        )
    return read_only(vertices)
