"""Convex hulls of points: triangles of the surface, and the graph of neighbouring vertices.

The hull graph contains the neighbours of each vertex. `c/contact/shapes.h` finds a support vertex
by hill climbing from vertex to vertex. On a convex polytope, a vertex without a higher neighbour is
the highest one.
"""

from functools import lru_cache
from itertools import chain

import numpy as np

from rigidblocks.spatial.spatial import Array

START_CELLS = 4  # number of cells along each edge of a cube face; found by trial
# largest rounding error of a determinant, relative to the product of the three edge lengths
ROUNDING = 1e-14
SHORT_EDGE = 1e-6  # shortest edge of a hull with a graph, relative to the extent of the hull


def hull_graph(vertices: Array) -> Array:
    """Return start vertices and neighbour lists of the convex hull of `vertices` (n, 3) [m].

    The result is one read-only array, which concatenates three lists: the start vertex for each
    direction in `start_directions`, n + 1 offsets, and the neighbours. The neighbours of vertex i
    begin at offset i in the last list and end before offset i + 1. Points that are not vertices of
    the hull have no neighbours. If an edge is shorter than `SHORT_EDGE` times the size of the hull,
    the result is empty.

    Raises:
        ValueError: There are no points, a coordinate is not finite, or all points lie in one plane.
    """
    return _cached_graph(_checked_points(vertices).tobytes())


def _checked_points(vertices: Array) -> Array:
    """Return the points (n, 3); raise ValueError for no points and for infinite coordinates."""
    points = np.asarray(vertices, dtype=float)
    if points.ndim != 2 or points.shape[1] != 3 or not len(points):
        raise ValueError(
            "a hull needs points with finite coordinates of shape (n, 3), not an array of shape "
            f"{points.shape}"
        )
    if not np.isfinite(points).all():
        k = int(np.flatnonzero(~np.isfinite(points).all(axis=1))[0])
        raise ValueError(
            "a hull needs points with finite coordinates of shape (n, 3); point "
            f"{k} is {points[k].tolist()}"
        )
    return points


@lru_cache(maxsize=1024)
def _cached_graph(data: bytes) -> Array:
    graph = _graph(np.frombuffer(data).reshape(-1, 3))
    graph.flags.writeable = False
    return graph


def _graph(vertices: Array) -> Array:
    n, size = len(vertices), float(np.ptp(vertices, axis=0).max())
    neighbours: list[set[int]] = [set() for _ in range(n)]
    for triangle in hull_triangles(vertices):
        for i in triangle:
            neighbours[i] |= set(triangle) - {i}
    corners = [k for k in range(n) if neighbours[k]]
    for k in corners:
        edges = vertices[sorted(neighbours[k])] - vertices[k]
        if np.linalg.norm(edges, axis=1).min() < SHORT_EDGE * size:
            return np.zeros(0)
    highest = (vertices[corners] @ start_directions().T).argmax(axis=0)
    ends = np.cumsum([0, *map(len, neighbours)])
    lists = list(chain.from_iterable(map(sorted, neighbours)))
    return np.concatenate([np.array(corners)[highest], ends, lists]).astype(float)


def start_directions() -> Array:
    """Return the central direction (3,) of each cell of the six faces of a cube.

    The cells are sorted by the axis of the face, by its sign (positive first), and by the
    coordinates along the next two axes in cyclic order.
    """
    ticks = (2.0 * np.arange(START_CELLS) + 1.0) / START_CELLS - 1.0
    return np.array(
        [
            np.roll([sign, u, v], axis)
            for axis in range(3)
            for sign in (1.0, -1.0)
            for u in ticks
            for v in ticks
        ]
    )


def hull_triangles(vertices: Array) -> list[tuple[int, int, int]]:
    """Return the triangles of the convex hull of points (n, 3), counter-clockwise from outside.

    The incremental algorithm adds one point after the other. For each new point, it removes the
    visible triangles. It then connects the point to the edges of the hole. Orientations are exact:
    a determinant that rounding errors could change is computed with integers.

    Raises:
        ValueError: There are no points, a coordinate is not finite, or all points lie in one plane.
    """
    vertices = _checked_points(vertices)
    points = vertices - vertices.mean(axis=0)
    order = np.argsort(-np.linalg.norm(points, axis=1), kind="stable").tolist()
    exact = _integers(vertices)
    start = _first_tetrahedron(vertices, exact, order)
    i, j, k, m = start
    if _volume(exact, i, j, k, m) > 0:
        j, k = k, j
    faces = np.array([(i, j, k), (i, k, m), (i, m, j), (j, m, k)])
    for point in order:
        if point in start:
            continue
        visible = _visible(vertices, exact, faces, point)
        if not visible.any():
            continue
        edges = faces[visible][:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2).tolist()
        inner = {(b, a) for a, b in edges}
        rim = [(a, b, point) for a, b in edges if (a, b) not in inner]
        faces = np.vstack([faces[~visible], np.array(rim)])
    return [(int(a), int(b), int(c)) for a, b, c in faces]


def _integers(vertices: Array) -> list[list[int]]:
    """Return the coordinates as exact integers, all multiplied by the same power of two."""
    pairs = [[float(x).as_integer_ratio() for x in point] for point in vertices]
    whole = max(d for point in pairs for _, d in point)
    return [[n * (whole // d) for n, d in point] for point in pairs]


def _volume(exact: list[list[int]], i: int, j: int, k: int, m: int) -> int:
    """Return the exact determinant of the edges from i to j, k and m.

    `exact` contains the integer coordinates of the vertices. The determinant is positive if m is on
    the outer side of the triangle i, j, k.
    """
    (a, b, c), (d, e, f), (g, h, o) = (
        [x - y for x, y in zip(exact[p], exact[i], strict=True)] for p in (j, k, m)
    )
    return a * (e * o - f * h) + b * (f * g - d * o) + c * (d * h - e * g)


def _visible(vertices: Array, exact: list[list[int]], faces: Array, point: int) -> Array:
    """Return a mask of the faces that are visible from the vertex with the index `point`."""
    corner = vertices[faces[:, 0]]
    a, b, c = (
        vertices[faces[:, 1]] - corner,
        vertices[faces[:, 2]] - corner,
        vertices[point] - corner,
    )
    volume = np.einsum("ij,ij->i", np.cross(a, b), c)
    lengths = [np.abs(x).sum(axis=1) for x in (a, b, c)]
    bound = ROUNDING * lengths[0] * lengths[1] * lengths[2]
    visible: Array = volume > 0.0
    for k in np.flatnonzero(np.abs(volume) <= bound):
        i, j, m = faces[k].tolist()
        visible[k] = _volume(exact, i, j, m, point) > 0
    return visible


def _first_tetrahedron(
    vertices: Array, exact: list[list[int]], order: list[int]
) -> tuple[int, int, int, int]:
    """Return four points with a nonzero volume; each is the farthest from the previous ones."""
    i = order[0]
    arm = vertices - vertices[i]
    j = int(np.linalg.norm(arm, axis=1).argmax())
    area = np.cross(arm[j], arm)
    k = int(np.linalg.norm(area, axis=1).argmax())
    m = int(np.abs(arm @ area[k]).argmax())
    if _volume(exact, i, j, k, m) == 0:
        raise ValueError("the vertices of a hull are all in one plane, so the hull has no volume")
    return i, j, k, m
