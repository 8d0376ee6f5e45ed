"""Ground of triangles."""

from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike

from rigidblocks.algebra.frozen import read_only
from rigidblocks.algebra.spatial import Array
from rigidblocks.model.shapes import Surface


@dataclass(frozen=True, eq=False)  # eq=False: arrays have no single truth value
class TriangleMesh(Surface):
    """Ground of triangles: `vertices` (n, 3) [m] and the numbers of three of them for each of
    `triangles` (m, 3), counter-clockwise as seen from outside.

    What is behind a triangle is in the ground, as far as half the smallest length of what touches
    it. The mesh may end anywhere. Soft contact of points does not have it.

    Raises ValueError for triangles without an area, and where two of them go along an edge the same
    way: more than two meet there, or one is turned over.
    """

    vertices: ArrayLike
    triangles: ArrayLike

    def __post_init__(self) -> None:
        x, t = np.array(self.vertices, dtype=float), np.array(self.triangles)
        if x.ndim != 2 or x.shape[1] != 3 or not len(x) or not np.all(np.isfinite(x)):
            raise ValueError(f"a mesh needs finite vertices (n, 3), not of shape {x.shape}")
        if t.ndim != 2 or t.shape[1] != 3 or not len(t) or not np.issubdtype(t.dtype, np.integer):
            raise ValueError(
                "the triangles of a mesh are numbers of vertices (m, 3), not of shape "
                f"{t.shape} and type {t.dtype}"
            )
        if t.min() < 0 or t.max() >= len(x):
            raise ValueError(
                f"the triangles of a mesh of {len(x)} vertices have numbers {t.min()} to {t.max()}"
            )
        a, b, c = (x[t[:, k]] for k in range(3))
        area = np.linalg.norm(np.cross(b - a, c - a), axis=1) / 2
        if np.any(flat := area <= 1e-12 * _longest(a, b, c) ** 2):
            raise ValueError(f"triangle {int(np.argmax(flat))} of a mesh has no area")
        object.__setattr__(self, "vertices", read_only(x))
        object.__setattr__(self, "triangles", read_only(t))
        object.__setattr__(self, "_beyond", read_only(_beyond(t)))

    @property
    def beyond(self) -> Array:
        """The triangles (m, 3) beyond the edges from each corner to the next; -1 for none."""
        found: Array = vars(self)["_beyond"]
        return found

    @property
    def faces(self) -> Array:
        """The corners (m, 3, 3) [m] of the triangles."""
        faces: Array = np.asarray(self.vertices)[np.asarray(self.triangles)]
        return faces

    def gap(self, p: Array) -> NoReturn:
        del p
        raise TypeError("a triangle mesh is for rigid contact: take RigidContactPlant")


def _longest(a: Array, b: Array, c: Array) -> Any:
    return np.max([np.linalg.norm(d, axis=1) for d in (b - a, c - b, a - c)], axis=0)


def _beyond(triangles: Array) -> Array:
    """The triangles beyond the edges."""
    edges = dict[tuple[int, int], int]()
    for k, triangle in enumerate(triangles.tolist()):
        for i in range(3):
            edge = (triangle[i], triangle[(i + 1) % 3])
            if edge in edges:
                raise ValueError(
                    f"triangles {edges[edge]} and {k} of a mesh both go from vertex {edge[0]} to "
                    f"{edge[1]}: more than two meet there, or one is turned over"
                )
            edges[edge] = k
    return np.array(
        [
            [edges.get((triangle[(i + 1) % 3], triangle[i]), -1) for i in range(3)]
            for triangle in triangles.tolist()
        ]
    )
