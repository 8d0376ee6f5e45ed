"""Tables of shapes and materials for the C contact solver, as arrays and as C code.

`c/contact/shapes.h` and `c/contact/terrain.h` read the shape tables, and `c/contact/time_step.h`
reads the material tables. Additional tables contain the planes and faces of polytopes for the
pressure model of `c/contact/compliant_forces.h`.

The hull graph contains the neighbours of each vertex of a convex hull. `c/contact/shapes.h` finds a
support vertex, which is the farthest vertex in a given direction, by hill climbing along edges. On
a convex polytope, a vertex is a support vertex if none of its neighbours is farther.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain, combinations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rigidblocks.robot.material import Material, static_friction
from rigidblocks.robot.model import Model
from rigidblocks.robot.shapes import (
    Box,
    Capsule,
    ConvexHull,
    Cylinder,
    Ellipsoid,
    HeightField,
    Plane,
    PointSet,
    Shape,
    Sphere,
    Surface,
    TriangleMesh,
)
from rigidblocks.spatial.spatial import Array, RigidInertia, Transform, identity

FIELD, MESH = 7, 8
# width of the level margin of a height field, relative to its longer side; found by trial
FIELD_MARGIN = 1e3


def field_row(field: HeightField) -> Array:
    """Return the shape table row of a height field."""
    heights, spacing = np.asarray(field.heights), np.asarray(field.spacing)
    around = FIELD_MARGIN * float(((np.array(heights.shape) - 1) * spacing).max())
    head = [FIELD, 0, 0, 0, 0, 0, np.inf, 0, *heights.shape]
    return np.array([*head, *np.asarray(field.first), *spacing, around, *heights.ravel()])


def mesh_row(mesh: TriangleMesh) -> tuple[Array, Array]:
    """Return the shape table row of a mesh, and the centre (3,) [m] of its bounding box."""
    vertices, triangles = np.asarray(mesh.vertices), np.asarray(mesh.triangles)
    low, high = vertices.min(axis=0), vertices.max(axis=0)
    middle = (low + high) / 2
    corner, size, count, starts, lists = _grid(mesh.faces - middle)
    row = [
        np.array([MESH, *(high - middle), 0, 0, np.inf, 0, len(vertices), len(triangles), *count]),
        corner,
        size,
        (vertices - middle).ravel(),
        np.hstack([triangles, mesh.adjacent_triangles]).ravel(),
        starts,
        lists,
    ]
    return np.concatenate(row), middle


def _grid(faces: Array) -> tuple[Array, Array, Array, Array, Array]:
    """Return a horizontal grid over the triangles `faces` (n, 3, 3), with about n cells.

    Returns:
        The corner (2,) [m] of the grid, the cell size (2,) [m], the number of cells (2,), the start
        index of each cell in the list of triangles, and the list of triangles, cell by cell.
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
    """Return the indices of the triangles in each grid cell.

    Triangle i covers the cells `first[i]` to `last[i]`. `count` (2,) is the number of cells.
    """
    cells: list[list[int]] = [[] for _ in range(int(count.prod()))]
    for k, ((i0, j0), (i1, j1)) in enumerate(zip(first.tolist(), last.tolist(), strict=True)):
        for i in range(i0, i1 + 1):
            for j in range(j0, j1 + 1):
                cells[i * int(count[1]) + j].append(k)
    return cells


MOST_CORNERS = 64  # maximum number of vertices of a hull with pressure; found by trial
MOST_SIDES = 12  # maximum number of sides of a convex face piece; found by trial


def polytope_row(row: Array) -> Array | None:
    """Return the planes and faces of a box or of a hull of at most 64 vertices.

    `row` is a table row from `shape_rows`. The result is in shape coordinates. It is None for other
    shapes.
    """
    if row[0] == BOX:
        signs = np.array(np.meshgrid(*[(-1, 1)] * 3)).reshape(3, 8).T
        corners = signs * row[1:4]
    elif row[0] == HULL and row[5] <= MOST_CORNERS:
        corners = _hull_vertices(row)
    else:
        return None
    planes = _planes(corners)
    faces, areas = [], []
    for k, plane in enumerate(planes):
        loop = _face_corners(corners, plane)
        areas.append(_area(loop, plane[:3]))
        faces += [np.array([k, len(piece), *piece.ravel()]) for piece in _convex_pieces(loop)]
    return np.concatenate([[len(planes), len(faces), max(areas)], planes.ravel(), *faces])


def _planes(corners: Array) -> Array:
    """Return the face planes (n, 4) of a convex hull from its corners (k, 3).

    A plane consists of the unit outward normal and the distance from the origin.
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
    return np.array([[*normal, (corners @ normal).max()] for normal in _distinct_normals(n)])


def _distinct_normals(normals: Array) -> list[Array]:
    """Return the distinct unit normals, in the order of their first occurrence."""
    found = np.unique(np.round(normals, 7), axis=0, return_index=True)[1]
    kept: list[Array] = []
    for normal in normals[np.sort(found)]:
        if all(normal @ other < 1 - 1e-12 for other in kept):
            kept.append(normal)
    return kept


def _face_corners(corners: Array, plane: Array) -> Array:
    """Return the corners (n, 3) that lie on a plane, counter-clockwise about the plane normal."""
    n, s = plane[:3], plane[3]
    on = corners[corners @ n > s - 1e-9 * np.ptp(corners, axis=0).max()]
    u = np.cross(n, np.eye(3)[np.argmin(np.abs(n))])
    v, arm = np.cross(n, u), on - on.mean(axis=0)
    return np.asarray(on[np.argsort(np.arctan2(arm @ v, arm @ u), kind="stable")])


def _area(loop: Array, n: Array) -> float:
    return float(n @ np.cross(loop, np.roll(loop, -1, axis=0)).sum(axis=0)) / 2


def _convex_pieces(loop: Array) -> list[Array]:
    """Divide a convex face with the corners `loop` (n, 3) into convex pieces.

    A piece has at most `MOST_SIDES` corners.
    """
    if len(loop) <= MOST_SIDES:
        return [loop]
    first, rest = loop[:MOST_SIDES], loop[[0, *range(MOST_SIDES - 1, len(loop))]]
    return [first, *_convex_pieces(rest)]


POINT, SEGMENT, BOX, CYLINDER, ELLIPSOID, HULL, HALF_SPACE = range(7)


def shape_rows(shape: Shape | Surface) -> Iterator[tuple[Array, Transform]]:
    """Yield the table rows of a shape, with the transform from body to shape coordinates.

    A shape has one row; a `PointSet` has one row for each point. A shape that consists of
    primitives (`Shape.primitives`) has the rows of its primitives.

    Raises:
        TypeError: The contact solver does not support the shape.
    """
    match shape:
        case Sphere():
            yield _row(POINT, (0, 0, 0), shape.radius, 2 * shape.radius), _translation(shape.centre)
        case Capsule():
            half = (0, 0, shape.height / 2)
            yield _row(SEGMENT, half, shape.radius, 2 * shape.radius), shape.placement
        case Box():
            sides = np.asarray(shape.sides)
            yield _row(BOX, sides / 2, 0.0, sides.min()), shape.placement
        case Cylinder():
            r, h = shape.radius, shape.height
            yield _row(CYLINDER, (r, r, h / 2), 0.0, min(2 * r, h)), shape.placement
        case Ellipsoid():
            axes = np.asarray(shape.semi_axes)
            yield _row(ELLIPSOID, axes, 0.0, 2 * axes.min()), shape.placement
        case ConvexHull():
            yield _hull(shape.points)
        case Plane():
            yield _row(HALF_SPACE, (0, 0, 0), 0.0, np.inf), _plane(shape)
        case HeightField():
            yield field_row(shape), identity()
        case TriangleMesh():
            row, middle = mesh_row(shape)
            yield row, _translation(middle)
        case PointSet():
            for point in shape.points:
                yield _row(POINT, (0, 0, 0), 0.0, 0.0), _translation(point)
        case Shape() if (primitives := shape.primitives()) and primitives[0] is not shape:
            for primitive in primitives:
                yield from shape_rows(primitive)
        case _:
            raise TypeError(
                f"unsupported contact shape {shape!r}; expected a sphere, capsule, box, cylinder, "
                f"ellipsoid, convex hull, point set, plane, height field or triangle mesh"
            )


def _row(kind: int, half: ArrayLike, radius: float, size: float, vertices: ArrayLike = ()) -> Array:
    """Return the table row of a shape.

    The row contains the shape type `kind`, the half-extents `half` (3,) [m], `radius` [m], the
    vertex count, the smallest width `size` [m], a zero and the `vertices` (n, 3) [m]. The zero
    means that the row has no hull graph.
    """
    flat = np.ravel(np.asarray(vertices, dtype=float))
    return np.array([kind, *np.asarray(half, dtype=float), radius, flat.size // 3, size, 0, *flat])


def _translation(point: ArrayLike) -> Transform:
    return Transform(np.eye(3), np.asarray(point, dtype=float))


def _plane(plane: Plane) -> Transform:
    """Return the transform to a frame with its origin on a plane and z along the normal."""
    z = np.asarray(plane.normal)
    x = np.cross(z, np.eye(3)[np.argmin(np.abs(z))])
    x = x / np.linalg.norm(x)
    return Transform(np.array([x, np.cross(z, x), z]), np.asarray(plane.point))


def _hull(vertices: Array) -> tuple[Array, Transform]:
    """Return the table row of a hull, and the transform from body to shape coordinates.

    The origin of the shape coordinates is the centre of the bounding box. The row contains the
    half-extents of the bounding box, the smallest width of the hull along the principal axes of its
    vertices, the vertices and the hull graph (`hull_graph`).
    """
    middle = (vertices.min(axis=0) + vertices.max(axis=0)) / 2
    around = vertices - middle
    axes = np.linalg.svd(around - around.mean(axis=0), full_matrices=False)[2]
    width = float(np.ptp(around @ axes.T, axis=0).min())
    row, graph = _row(HULL, np.abs(around).max(axis=0), 0.0, width, around), hull_graph(around)
    row[7] = len(row) if len(graph) else 0
    return np.concatenate([row, graph]), Transform(identity().E, middle)


def _hull_vertices(row: Array) -> Array:
    """Return the vertices (n, 3) [m] of the table row of a hull."""
    return row[8 : 8 + 3 * int(row[5])].reshape(-1, 3)


MOST_ON_STACK = 2**15  # largest workspace [bytes] on the stack; a stack may have only 128 kB


def scene_tables(model: Model, ground: Sequence[Shape | Surface]) -> str:
    """Return the C tables of the bodies of a model and of all shapes.

    The shapes are the field `contact` of the model and the fixed shapes `ground`.
    """
    centres = [body_centre(body) for body in model.inertia]
    rows = list(placed_rows(model, ground, centres))
    inertias = [central_inertia(body) for body in model.inertia]
    isotropic = [np.ptp(np.linalg.eigvalsh(I)) <= 1e-12 * np.trace(I) for I in inertias]
    return "\n".join(
        [
            table("double", "RB_MASS", [body.m for body in model.inertia]),
            table("double", "RB_CENTRE", centres),
            table("double", "RB_INERTIA", [I.ravel() for I in inertias]),
            table("double", "RB_INVERSE_INERTIA", [_inverse(I).ravel() for I in inertias]),
            table("int", "RB_ISOTROPIC", map(int, isotropic)),
            shape_tables(rows),
            table("double", "RB_SHAPE_REACH", [_bounding_radius(row, X) for _, row, X in rows]),
        ]
    )


def _inverse(I: Array) -> Array:
    """Return the symmetric inverse of a rotational inertia (3, 3), or zeros if it is singular."""
    if np.linalg.matrix_rank(I) < 3:
        return np.zeros((3, 3))
    inverse = np.linalg.inv(I)
    return 0.5 * (inverse + inverse.T)


def shape_tables(rows: Sequence[tuple[int, Array, Transform]]) -> str:
    """Return the C tables of the shapes that `placed_rows` yields."""
    starts = np.cumsum([0, *(len(row) for _, row, _ in rows)])[:-1]
    kinds = {int(row[0]) for _, row, _ in rows}
    if kinds & {FIELD, MESH}:
        kinds.add(SEGMENT)  # the C code treats terrain edges as segments
    return "\n".join(
        [
            f"#define RB_KINDS_PRESENT {sum(1 << kind for kind in kinds)}",
            table("double", "RB_SHAPE_TABLE", np.concatenate([row for _, row, _ in rows])),
            table("int", "RB_SHAPE_AT", map(int, starts)),
            table("int", "RB_SHAPE_BODY", [body for body, _, _ in rows]),
            table("double", "RB_SHAPE_POSE", [np.array([*X.E.T.ravel(), *X.r]) for *_, X in rows]),
        ]
    )


def shape_count(model: Model, ground: Sequence[Shape | Surface]) -> int:
    """Return the number of shape table rows of the model and the ground."""
    return len(list(placed_rows(model, ground, [np.zeros(3)] * model.nb)))


def placed_rows(
    model: Model, ground: Sequence[Shape | Surface], centres: Sequence[Array]
) -> Iterator[tuple[int, Array, Transform]]:
    """Yield the body index, the shape table row and the frame of each shape.

    The origin of the frame is relative to the centre (3,) of the body, in body coordinates. The
    body index is `nb` for fixed shapes.
    """
    for i, shapes in enumerate(model.contact):
        for shape in shapes:
            for row, X in shape_rows(shape):
                yield i, row, Transform(X.E, X.r - centres[i])
    for surface in ground:
        for row, X in shape_rows(surface):
            yield model.nb, row, X


def body_centre(body: RigidInertia) -> Array:
    """Return the centre of mass of a body, or the origin for a massless body."""
    return np.asarray(body.h / body.m if body.m > 0 else np.zeros(3))


def central_inertia(body: RigidInertia) -> Array:
    """Return the rotational inertia (3, 3) of a body about the centre of mass."""
    c = body_centre(body)
    return np.asarray(body.I - body.m * (c @ c * np.eye(3) - np.outer(c, c)))


def _bounding_radius(row: Array, X: Transform) -> float:
    """Return the radius [m] of a sphere about the body centre of mass that contains a shape.

    `row` is the table row of the shape, and X the shape frame relative to the centre of mass. The
    radius is zero for planes, height fields and meshes.
    """
    kind, half, radius = int(row[0]), row[1:4], row[4]
    if kind in (HALF_SPACE, FIELD, MESH):
        return 0.0
    if kind == HULL:
        far = float(np.linalg.norm(_hull_vertices(row), axis=1).max())
    elif kind == CYLINDER:
        far = float(np.hypot(half[0], half[2]))
    else:
        far = float(half[2] if kind == SEGMENT else np.linalg.norm(half))
    return float(np.linalg.norm(X.r)) + far + float(radius)


def workspace_text(size: int) -> str:
    """Return the C definition of RB_LARGE_SCENE: 1 if `size` [bytes] exceeds the stack limit.

    See `c/kernel/workspace.h`.
    """
    return f"#define RB_LARGE_SCENE {int(size > MOST_ON_STACK)}"


def table(kind: str, name: str, rows: Iterable[object]) -> str:
    """Return the definition of a C array of type `kind`, with an element or row per item."""
    values = [np.asarray(row) for row in rows]
    width = f"[{values[0].size}]" if values[0].ndim else ""
    texts = (
        "{" + ", ".join(map(number_text, value)) + "}" if value.ndim else number_text(value[()])
        for value in values
    )
    return f"static const {kind} {name}[{len(values)}]{width} = {{{', '.join(texts)}}};"


def number_text(value: object) -> str:
    """Return the C literal of a number; infinite values become 1e300 or -1e300."""
    if isinstance(value, int | np.integer):
        return str(int(value))
    number = float(value)  # type: ignore[arg-type]
    return repr(number) if np.isfinite(number) else ("1e300" if number > 0 else "-1e300")


MaterialPair = tuple[str, str, Material]
COEFFICIENTS = ("mu", "mu_static", "e", "torsional", "rolling")


@dataclass(frozen=True, eq=False)
class MaterialTables:
    """C tables of the materials of bodies, shapes and material pairs.

    The tables list three groups of materials, in this order. The first group belongs to the bodies
    and the ground and applies to shapes without a material. The second group contains the distinct
    materials of shapes. The third group contains the materials of the material pairs `pairs`.
    """

    model: Model
    ground: tuple[Shape | Surface, ...]
    pairs: tuple[MaterialPair, ...]

    @cached_property
    def shapes(self) -> tuple[tuple[int, Shape | Surface], ...]:
        """All shapes, each with its body index; the body index of a fixed shape is nb."""
        own = [(i, shape) for i, shapes in enumerate(self.model.contact) for shape in shapes]
        return (*own, *((self.model.nb, surface) for surface in self.ground))

    @cached_property
    def shape_materials(self) -> tuple[Material, ...]:
        """Distinct materials of the shapes, in the order of their first occurrence."""
        return tuple(dict.fromkeys(s.material for _, s in self.shapes if s.material is not None))

    @property
    def bodies(self) -> int:
        """Number of default materials: one for each body and one for the ground."""
        return self.model.nb + 1

    @cached_property
    def pair_materials(self) -> tuple[tuple[int, int, Material], ...]:
        """Indices of the two materials of each material pair, and the material that replaces them.

        Several materials can have the same name; a named pair then gives several index pairs.
        """
        places: dict[str, list[int]] = {}
        for k, material in enumerate(self.shape_materials):
            places.setdefault(material.name, []).append(self.bodies + k)
        found: dict[tuple[int, int], Material] = {}
        for a, b, material in self.pairs:
            for name in (a, b):
                if not name or name not in places:
                    raise ValueError(
                        f"unknown material '{name}' in `material_pairs`; shapes of model "
                        f"'{self.model.name}' and of `ground` have the materials "
                        f"{', '.join(filter(None, places)) or '(none has a name)'}"
                    )
            for i in places[a]:
                for j in places[b]:
                    if (key := (min(i, j), max(i, j))) in found:
                        raise ValueError(f"`material_pairs` lists the pair ('{a}', '{b}') twice")
                    found[key] = material
        return tuple((i, j, material) for (i, j), material in found.items())

    def coefficient_values(self, name: str, body_values: Any) -> Array:
        """Return the coefficient `name` of all materials, in the order of the material table.

        `body_values` contains the values of the bodies and the ground, as a scalar or (nb + 1,).
        """
        first = np.broadcast_to(np.asarray(body_values, dtype=float), (self.bodies,))
        others = [*self.shape_materials, *(material for *_, material in self.pair_materials)]
        rest = [static_friction(m) if name == "mu_static" else getattr(m, name) for m in others]
        return np.array([*first, *rest])

    def text(self) -> str:
        """Return the C tables: number of materials, material of each shape, material pairs."""
        n, pairs = self.bodies + len(self.shape_materials), self.pair_materials
        keys = [float(i * n + j) for i, j, _ in pairs]
        return "\n".join(
            [
                f"enum {{ RB_MATERIALS = {n}, RB_NAMED_PAIRS = {len(keys)} }};",
                table("int", "RB_SHAPE_MATERIAL", list(self._row_materials())),
                table("double", "RB_NAMED_PAIR", [*keys, 0.0]),
            ]
        )

    def _row_materials(self) -> Iterator[int]:
        """Yield the index of the material of each shape table row."""
        for body, shape in self.shapes:
            at = (
                body
                if shape.material is None
                else self.bodies + self.shape_materials.index(shape.material)
            )
            yield from (at for _ in shape_rows(shape))


def check_material_pairs(pairs: Sequence[MaterialPair]) -> tuple[MaterialPair, ...]:
    """Convert the material pairs to a tuple, and check their types.

    Raises:
        TypeError: A pair does not consist of two names and a material.
    """
    for pair in pairs:
        if len(pair) != 3 or not isinstance(pair[2], Material):
            raise TypeError(
                "an element of `material_pairs` must be two names and a Material, such as "
                f"('rubber', 'ice', Material(mu=0.1)), not {pair!r}"
            )
    return tuple((str(a), str(b), material) for a, b, material in pairs)


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
    """Return the points (n, 3); raise ValueError if none exist or a coordinate is not finite."""
    points = np.asarray(vertices, dtype=float)
    if points.ndim != 2 or points.shape[1] != 3 or not len(points):
        raise ValueError(
            f"a hull needs one or more points as an array (n, 3), not an array {points.shape}"
        )
    if not np.isfinite(points).all():
        k = int(np.flatnonzero(~np.isfinite(points).all(axis=1))[0])
        raise ValueError(f"a hull needs finite points; point {k} is {points[k].tolist()}")
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
    """Return a mask of the faces that are visible from the vertex with the index `point`.

    `exact` contains the integer coordinates of the vertices.
    """
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
    """Return the indices of four vertices that span a tetrahedron with a nonzero volume.

    The first vertex is order[0]. The second is the farthest from the first, the third from the line
    through both, and the fourth from the plane through all three. `order` contains the vertex
    indices by decreasing distance from the mean, `exact` the integer coordinates.
    """
    i = order[0]
    arm = vertices - vertices[i]
    j = int(np.linalg.norm(arm, axis=1).argmax())
    area = np.cross(arm[j], arm)
    k = int(np.linalg.norm(area, axis=1).argmax())
    m = int(np.abs(arm @ area[k]).argmax())
    if _volume(exact, i, j, k, m) == 0:
        raise ValueError("the vertices of a hull are all in one plane, so the hull has no volume")
    return i, j, k, m
