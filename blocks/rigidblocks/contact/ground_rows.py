"""Ground of triangles as rows of numbers, which the C of contact reads (`c/contact/ground.h`)."""

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.model.mesh import TriangleMesh
from rigidblocks.model.shapes import HeightField

FIELD, MESH = 7, 8
AROUND = 1e3  # of a field's sides: how far the level ground around it goes


def field_row(field: HeightField) -> Array:
    """The row of a height field."""
    heights, spacing = np.asarray(field.heights), np.asarray(field.spacing)
    around = AROUND * float(((np.array(heights.shape) - 1) * spacing).max())
    head = [FIELD, 0, 0, 0, 0, 0, np.inf, 0, *heights.shape]
    return np.array([*head, *np.asarray(field.first), *spacing, around, *heights.ravel()])


def mesh_row(mesh: TriangleMesh) -> tuple[Array, Array]:
    """The row of a mesh and its middle, about which its vertices are."""
    vertices, triangles = np.asarray(mesh.vertices), np.asarray(mesh.triangles)
    low, high = vertices.min(axis=0), vertices.max(axis=0)
    middle = (low + high) / 2
    corner, size, count, starts, lists = _grid(mesh.faces - middle)
    row = [
        np.array([MESH, *(high - middle), 0, 0, np.inf, 0, len(vertices), len(triangles), *count]),
        corner,
        size,
        (vertices - middle).ravel(),
        np.hstack([triangles, mesh.beyond]).ravel(),
        starts,
        lists,
    ]
    return np.concatenate(row), middle


def _grid(faces: Array) -> tuple[Array, Array, Array, Array, Array]:
    """The corner, size and number of the cells of a grid with about one triangle each; where their
    lists start, and the lists one after the other.
    """
    low, high = faces.min(axis=1)[:, :2], faces.max(axis=1)[:, :2]
    corner = low.min(axis=0)
    sides = np.maximum(high.max(axis=0) - corner, 1e-9)
    size = max(float(np.sqrt(sides.prod() / len(faces))), float(sides.max() / len(faces)))
    count = np.maximum(np.ceil(sides / size).astype(int), 1)
    cell = sides / count
    first, last = (
        np.clip(np.floor((x - corner) / cell).astype(int), 0, count - 1) for x in (low, high)
    )
    cells = _cells(first, last, count)
    starts = np.cumsum([0, *map(len, cells)])
    return corner, cell, count, starts, np.array([k for one in cells for k in one])


def _cells(first: Array, last: Array, count: Array) -> list[list[int]]:
    """The triangles of each cell, where those of a triangle are from its first to its last."""
    cells: list[list[int]] = [[] for _ in range(int(count.prod()))]
    for k, ((i0, j0), (i1, j1)) in enumerate(zip(first.tolist(), last.tolist(), strict=True)):
        for i in range(i0, i1 + 1):
            for j in range(j0, j1 + 1):
                cells[i * int(count[1]) + j].append(k)
    return cells
