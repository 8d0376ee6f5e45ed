"""Distances along rays to shapes, triangles and height fields.

The NumPy functions test all shapes. The C code (`c/algorithms/ray_casting.h`) uses the same
formulas. It finds the shapes near the ray with a tree of bounding boxes (`RayScene.tree`).
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np

from rigidblocks.robot.shapes import (
    CONE_SIDES,
    Box,
    Capsule,
    Cone,
    Cylinder,
    Ellipsoid,
    Plane,
    Shape,
    Sphere,
)
from rigidblocks.spatial.spatial import Array, Transform, identity, xlt

NO_HIT = 1e300  # [m] distance if the ray misses all shapes
_EPSILON = 1e-15  # smallest component of a direction, or ratio of discriminant to a
KINDS = ("plane", "sphere", "capsule", "ellipsoid", "cylinder", "box", "height_field")
_NO_POINTS = np.zeros((0, 3))
_LEAF = 4  # largest number of items in a leaf of the tree; found by trial
_FEW = 4  # a scene with at most this number of items has no tree
_DEEPEST = 30  # from this depth, a box is divided in the middle of its items


@dataclass(frozen=True, eq=False)  # eq=False: comparing arrays returns an array
class Obstacle:
    """Shape that the ray of a range sensor can hit.

    Attributes:
        kind: "plane", "sphere", "capsule", "ellipsoid", "cylinder", "box", "mesh" or
            "height_field". The axis of the shape is the z axis.
        size: Radii and half-extents [m]. A height field has the half-extents along x and y, the
            factor of the heights, and the depth of its base.
        body: Index of the body that carries the shape, -1 for the base.
        placement: Transform from body to shape coordinates.
        vertices: Corners (n, 3) of the triangles of a mesh [m].
        triangles: Three vertex indices (m, 3) for each triangle of a mesh.
        heights: Heights (rows, columns) of a height field, from 0 to 1; the rows are along y.
    """

    kind: str
    size: tuple[float, ...]
    body: int
    placement: Transform
    vertices: Array = field(default_factory=lambda: _NO_POINTS)
    triangles: Array = field(default_factory=lambda: np.zeros((0, 3), int))
    heights: Array = field(default_factory=lambda: np.zeros((0, 0), np.float32))


def obstacle_of(shape: Shape | Plane) -> Obstacle:
    """Return a collision shape as an obstacle; the caller sets the field `body`, which is -1.

    A cone becomes the mesh of its inscribed pyramid, as in contact.

    Raises:
        TypeError: Rays do not support the shape.
    """
    match shape:
        case Plane():
            normal = np.asarray(shape.normal)
            x = np.cross(np.eye(3)[np.argmin(np.abs(normal))], normal)
            x = x / np.linalg.norm(x)
            X = Transform(np.array([x, np.cross(normal, x), normal]), np.asarray(shape.point))
            return Obstacle("plane", (0.0, 0.0), -1, X)
        case Sphere():
            return Obstacle("sphere", (shape.radius,), -1, xlt(np.asarray(shape.centre)))
        case Box():
            return Obstacle("box", _halves(shape.sides), -1, shape.placement)
        case Cylinder() | Capsule():
            kind = "cylinder" if isinstance(shape, Cylinder) else "capsule"
            return Obstacle(kind, (shape.radius, shape.height / 2), -1, shape.placement)
        case Ellipsoid():
            axes = tuple(np.asarray(shape.semi_axes).tolist())
            return Obstacle("ellipsoid", axes, -1, shape.placement)
        case Cone():
            first = np.arange(CONE_SIDES)
            second, apex = np.roll(first, -1), np.full(CONE_SIDES, CONE_SIDES)
            sides = np.column_stack([first, second, apex])
            base = np.column_stack([0 * first, second, first])[1:-1]
            triangles = np.vstack([sides, base])
            return Obstacle("mesh", (), -1, identity(), shape.points, triangles)
    raise TypeError(f"rays do not support shapes of type {type(shape).__name__}")


def _halves(sides: Any) -> tuple[float, ...]:
    return tuple((np.asarray(sides) / 2).tolist())


class RayBox(NamedTuple):
    """Node of a bounding box tree.

    Attributes:
        lower: Lower corner (3,) [m] in single precision, rounded down.
        upper: Upper corner (3,) [m] in single precision, rounded up.
        following: Index of the first item for a leaf, or of the second child for an inner node.
        size: Number of items for a leaf, or 0 for an inner node.
    """

    lower: Array
    upper: Array
    following: int
    size: int


@dataclass(frozen=True, eq=False)
class RayScene:
    """Shapes that are fixed to one body, in the coordinates of the body."""

    obstacles: tuple[Obstacle, ...]

    @cached_property
    def shapes(self) -> tuple[Obstacle, ...]:
        """Shapes other than meshes; planes are first."""
        shapes = [one for one in self.obstacles if one.kind != "mesh"]
        return tuple(sorted(shapes, key=lambda one: one.kind != "plane"))

    @property
    def planes(self) -> int:
        """Number of planes."""
        return sum(one.kind == "plane" for one in self.shapes)

    @cached_property
    def _mesh(self) -> tuple[Array, Array]:
        vertices, triangles, count = [_NO_POINTS], [np.zeros((0, 3), int)], 0
        for one in self.obstacles:
            if one.kind == "mesh":
                X = one.placement
                vertices.append(one.vertices @ X.E + X.r)
                triangles.append(one.triangles + count)
                count += len(one.vertices)
        return np.concatenate(vertices), np.concatenate(triangles)

    @property
    def vertices(self) -> Array:
        """Corners (n, 3) of all triangles [m]."""
        return self._mesh[0]

    @property
    def triangles(self) -> Array:
        """Three vertex indices (m, 3) for each triangle."""
        return self._mesh[1]

    @cached_property
    def name(self) -> str:
        """Identifier with a digest of the shapes."""
        digest = hashlib.sha256(repr((self.vertices.shape, self.triangles.shape)).encode())
        digest.update(np.ascontiguousarray(self.vertices).tobytes())
        digest.update(np.ascontiguousarray(self.triangles, np.int64).tobytes())
        for one in self.shapes:
            values = np.concatenate([one.size, one.placement.E.ravel(), one.placement.r])
            digest.update(repr((one.kind, one.heights.shape)).encode())
            digest.update(values.astype(float).tobytes())
            digest.update(np.ascontiguousarray(one.heights, np.float32).tobytes())
        return f"scene_{digest.hexdigest()[:16]}"

    @cached_property
    def tree(self) -> tuple[list[RayBox], list[int]]:
        """Bounding boxes in depth-first order, and the order of the items.

        The items are the triangles and then the shapes, without the planes. A scene with few items
        has no boxes.
        """
        corners = self.vertices[self.triangles]
        lower = [corners.min(axis=1)] if len(corners) else []
        upper = [corners.max(axis=1)] if len(corners) else []
        for one in self.shapes[self.planes :]:
            low, high = _bounds(one)
            lower.append(low[None])
            upper.append(high[None])
        items = np.arange(len(self.triangles) + len(self.shapes) - self.planes)
        if len(items) <= _FEW:
            return [], []
        numbers = np.where(items < len(self.triangles), items, items + self.planes)
        return _build_tree(np.concatenate(lower), np.concatenate(upper), numbers)

    def nearest_hit(self, p: Array, d: Array) -> tuple[float, Array]:
        """Return the distance to the nearest surface [m], and the normal of the surface (3,).

        The normal is not normalized. Without a hit, the distance is `NO_HIT` and the normal zero.

        Args:
            p: Start of the ray (3,) in body coordinates [m].
            d: Unit vector along the ray (3,) in body coordinates.
        """
        best, normal = NO_HIT, np.zeros(3)
        if len(self.triangles):
            best, normal = _nearest_triangle(self.vertices[self.triangles], p, d)
        for one in self.shapes:
            X = one.placement
            if one.kind == "sphere":
                t, n = _sphere(one.size[0], p - X.r, d)
            else:
                t, n = _shape(one, _turn(X.E, p - X.r), _turn(X.E, d))
                n = X.E.T @ n
            if t < best:
                best, normal = t, n
        return best, normal


@dataclass(frozen=True, eq=False)
class RayFan:
    """Rays from the origin of a sensor to the shapes of one scene.

    Attributes:
        scene: Shapes.
        directions: Unit vectors along the rays (n, 3), in sensor coordinates.
        start: Distance from the sensor at which the rays start [m]. The rays do not hit surfaces
            that are nearer.
    """

    scene: RayScene
    directions: Array
    start: float = 0.0

    @cached_property
    def name(self) -> str:
        """Identifier with a digest of the scene and the directions."""
        data = np.append(self.directions, self.start).tobytes()
        return f"rays_{hashlib.sha256(self.scene.name.encode() + data).hexdigest()[:16]}"

    def distances(self, x: Array) -> Array:
        """Return the distances (n,) [m]; `NO_HIT` for rays without a hit.

        Args:
            x: Pose (12,) of the sensor: the position (3,) in body coordinates [m], and the rows of
                the rotation matrix (3, 3) from sensor to body coordinates.
        """
        return self.hits(x)[:, 0]

    def hits(self, x: Array) -> Array:
        """Return a row (7,) for each ray: distance t, vector N / (N . d) and hit point.

        N is the normal of the surface, and d is the direction of the ray. The derivative of t with
        respect to the start point of the ray is -N / (N . d). All vectors are in body coordinates.
        For a ray without a hit, the two vectors are zero. x (12,) is as in `distances`.
        """
        x = np.asarray(x, float)
        p, R, rows = x[:3], x[3:].reshape(3, 3), np.zeros((len(self.directions), 7))
        for row, direction in zip(rows, np.asarray(self.directions, float), strict=True):
            d = _turn(R, direction)
            t, n = self.scene.nearest_hit(p + self.start * d, d)
            row[0] = t
            if t < NO_HIT:
                row[0] = t = t + self.start
                along = n @ d
                row[1:4] = n / along if along else 0.0
                row[4:] = p + t * d
        return rows


def cast_rays(fan: RayFan, p: Array, R: Array) -> Any:
    """Return the distances (n,) of the rays of a sensor [m]; `NO_HIT` for rays without a hit.

    Args:
        fan: Rays and shapes.
        p: Position of the sensor (3,) in body coordinates [m], which may be traced.
        R: Rotation matrix (3, 3) from sensor to body coordinates, which may be traced.
    """
    x = np.concatenate([p, np.ravel(R)])
    for element in x:
        if hasattr(element, "cast_rays"):
            return element.cast_rays(fan, x)
    return fan.distances(x)


@lru_cache(maxsize=1024)
def group_by_body(obstacles: tuple[Obstacle, ...]) -> dict[int, RayScene]:
    """Group obstacles by the body that carries them; return one scene per body index."""
    groups: dict[int, list[Obstacle]] = {}
    for one in obstacles:
        groups.setdefault(one.body, []).append(one)
    return {body: RayScene(tuple(some)) for body, some in groups.items()}


# ---- tree of bounding boxes ----


def _bounds(obstacle: Obstacle) -> tuple[Array, Array]:
    """Return the lower and the upper corner (3,) of the bounding box of a shape [m]."""
    low, high = _local_bounds(obstacle)
    E = obstacle.placement.E
    centre = obstacle.placement.r + E.T @ ((low + high) / 2)
    half = np.abs(E.T) @ ((high - low) / 2)
    margin = 1e-9 * (1.0 + np.abs(centre) + half)
    return centre - half - margin, centre + half + margin


def _local_bounds(obstacle: Obstacle) -> tuple[Array, Array]:
    size = obstacle.size
    match obstacle.kind:
        case "sphere":
            half = np.full(3, size[0])
        case "capsule":
            half = np.array([size[0], size[0], size[0] + size[1]])
        case "cylinder":
            half = np.array([size[0], size[0], size[1]])
        case "height_field":
            return np.array([-size[0], -size[1], -size[3]]), np.array(size[:3])
        case _:
            half = np.array(size)
    return -half, half


def _build_tree(lower: Array, upper: Array, numbers: Array) -> tuple[list[RayBox], list[int]]:
    """Return the boxes in depth-first order, and the item numbers in the order of the leaves.

    The function divides the items of a box into two groups along one axis, on which the centres of
    the items extend farthest. The division minimizes the surface area heuristic (`_best_cut`).

    Args:
        lower: Lower corners (n, 3) of the items [m].
        upper: Upper corners (n, 3) of the items [m].
        numbers: Item numbers (n,), in the order of the corners.
    """
    boxes, order = list[RayBox](), list[int]()
    down, up = np.float32(-np.inf), np.float32(np.inf)

    def add(items: Array, depth: int) -> None:
        low, high = lower[items].min(axis=0), upper[items].max(axis=0)
        bounds = (
            np.nextafter(low.astype(np.float32), down),
            np.nextafter(high.astype(np.float32), up),
        )
        if len(items) <= _LEAF:
            boxes.append(RayBox(*bounds, len(order), len(items)))
            order.extend(numbers[items].tolist())
            return
        index = len(boxes)
        boxes.append(RayBox(*bounds, 0, 0))
        centres = lower[items] + upper[items]
        items = items[np.argsort(centres[:, np.argmax(np.ptp(centres, axis=0))], kind="stable")]
        cut = len(items) // 2 if depth >= _DEEPEST else _best_cut(lower[items], upper[items])
        add(items[:cut], depth + 1)
        boxes[index] = RayBox(*bounds, len(boxes), 0)
        add(items[cut:], depth + 1)

    add(np.arange(len(lower)), 0)
    return boxes, order


def _best_cut(lower: Array, upper: Array) -> int:
    """Return the size of the first group for the best division of a list of boxes into two groups.

    `lower` and `upper` (n, 3) are the corners of the boxes in order. The best division minimizes
    the surface area heuristic: the sum over both groups of surface area times number of boxes. The
    surface is that of the bounding box of the group.
    """
    first = np.maximum.accumulate(upper) - np.minimum.accumulate(lower)
    last = np.maximum.accumulate(upper[::-1]) - np.minimum.accumulate(lower[::-1])
    count = np.arange(1, len(lower))
    cost = count * _surface(first)[:-1] + (count * _surface(last)[:-1])[::-1]
    return int(np.argmin(cost)) + 1


def _surface(extent: Array) -> Array:
    x, y, z = extent.T
    return np.asarray(x * y + y * z + z * x)


# ---- rays in the coordinates of a shape; each function returns the distance and the normal ----

Hit = tuple[float, Array]
_MISS: Hit = (NO_HIT, np.zeros(3))
_AXES = np.eye(3)


def _dot(a: Array, b: Array) -> Any:
    """Return the inner products of vectors a and b (..., 3), summed in the order of the C code."""
    return a[..., 0] * b[..., 0] + a[..., 1] * b[..., 1] + a[..., 2] * b[..., 2]


def _turn(E: Array, v: Array) -> Array:
    return np.asarray(_dot(E, v))


def _safe(x: float) -> float:
    return _EPSILON if abs(x) < _EPSILON else x


def _quadratic(a: float, b: float, c: float) -> tuple[float, ...]:
    """Return the solutions of a t^2 + 2 b t + c = 0, the smaller one first."""
    square = b * b - a * c
    if a < _EPSILON or square < _EPSILON * a:
        return ()
    root, inverse = float(np.sqrt(square)), 1.0 / a
    return (-b - root) * inverse, (-b + root) * inverse


def _smallest(times: Iterable[float]) -> float:
    return min((t for t in times if t >= 0.0), default=NO_HIT)


def _shape(one: Obstacle, p: Array, d: Array) -> Hit:
    size = one.size
    match one.kind:
        case "plane":
            return _plane(size, p, d)
        case "capsule":
            return _capsule(size, p, d)
        case "cylinder":
            return _cylinder(size, p, d)
        case "box":
            return _box(np.array(size), p, d)
        case "height_field":
            return _height_field(one, p, d)
    scale = 1.0 / np.array(size)
    q, e = p * scale, d * scale
    t = _smallest(_quadratic(_dot(e, e), _dot(e, q), _dot(q, q) - 1.0))
    return t, (q + t * e) * scale if t < NO_HIT else np.zeros(3)


def _sphere(radius: float, p: Array, d: Array) -> Hit:
    t = _smallest(_quadratic(_dot(d, d), _dot(d, p), _dot(p, p) - radius * radius))
    return t, p + t * d if t < NO_HIT else np.zeros(3)


def _plane(size: Sequence[float], p: Array, d: Array) -> Hit:
    """Intersect the ray p + t d with the plane z = 0; a ray from below misses it.

    size[0] and size[1] are the half extents along x and y, or 0 for an infinite extent.
    """
    if d[2] > -_EPSILON:
        return _MISS
    t = float(-p[2] / d[2])
    if t < 0.0 or any(size[k] > 0 and abs(p[k] + t * d[k]) > size[k] for k in (0, 1)):
        return _MISS
    return t, _AXES[2]


def _capsule(size: Sequence[float], p: Array, d: Array) -> Hit:
    """Intersect the ray p + t d with a capsule of the radius size[0] and half length size[1]."""
    radius, half = size[:2]
    found = [
        (t, np.array([p[0] + t * d[0], p[1] + t * d[1], 0.0]))
        for t in _quadratic(*_cylinder_coefficients(radius, p, d))
        if abs(p[2] + t * d[2]) <= half
    ]
    for sign in (1.0, -1.0):
        s = np.array([p[0], p[1], p[2] - sign * half])
        ends = _quadratic(_dot(d, d), _dot(d, s), _dot(s, s) - radius * radius)
        found += [(t, s + t * d) for t in ends if sign * (p[2] + t * d[2]) >= half]
    hits = [(float(t), n) for t, n in found if t >= 0.0]
    return min(hits, key=lambda hit: hit[0], default=_MISS)


def _cylinder_coefficients(radius: float, p: Array, d: Array) -> tuple[float, float, float]:
    """Return a, b and c of a t^2 + 2 b t + c = 0 for the distances t to an infinite cylinder.

    The ray is p + t d, and the axis of the cylinder is z.
    """
    x, y = p[0], p[1]
    return d[0] * d[0] + d[1] * d[1], d[0] * x + d[1] * y, x * x + y * y - radius * radius


def _cylinder(size: Sequence[float], p: Array, d: Array) -> Hit:
    """Intersect the ray p + t d with a cylinder of the radius size[0] and half length size[1]."""
    radius, half = size[:2]
    a, b, c = _cylinder_coefficients(radius, p, d)
    parallel = a < _EPSILON
    side = (-NO_HIT, NO_HIT) if parallel else _quadratic(a, b, c)
    if not side or (parallel and c > 0.0):
        return _MISS
    scale = 1.0 / _safe(d[2])
    ends = sorted([(-half - p[2]) * scale, (half - p[2]) * scale])
    near, far = max(ends[0], side[0]), min(ends[1], side[1])
    if near > far or far < 0.0:
        return _MISS
    t = float(near if near >= 0.0 else far)
    if t in ends:
        return t, _AXES[2]
    return t, np.array([p[0] + t * d[0], p[1] + t * d[1], 0.0])


def _slabs(half: Array, p: Array, d: Array) -> tuple[float, float, int, int] | None:
    """Return the two distances t at which the ray p + t d enters and leaves a box.

    The result also contains the axes of the two faces. It is None if the line misses the box.
    """
    scale = 1.0 / np.array([_safe(one) for one in d])
    a, b = (-half - p) * scale, (half - p) * scale
    near, far = np.minimum(a, b), np.maximum(a, b)
    i, j = int(np.argmax(near)), int(np.argmin(far))
    return (float(near[i]), float(far[j]), i, j) if near[i] <= far[j] else None


def _box(half: Array, p: Array, d: Array) -> Hit:
    found = _slabs(half, p, d)
    if found is None or found[1] < 0.0:
        return _MISS
    near, far, i, j = found
    return (near, _AXES[i]) if near >= 0.0 else (far, _AXES[j])


def _nearest_triangle(corners: Array, p: Array, d: Array) -> Hit:
    """Intersect the ray p + t d with triangles (n, 3, 3), which it can hit from both sides.

    A shear makes the ray parallel to a coordinate axis. The ray hits a triangle if the signed areas
    that it forms with the three edges have no opposite signs. The method is watertight: no ray
    passes between triangles with a common edge (Woop, Benthin and Wald, 2013).
    """
    k = int(np.argmax(np.abs(d[::-1])))
    z = 2 - k  # the last of equal components, as in the C code
    x, y = (z + 1) % 3, (z + 2) % 3
    height = corners[..., z] - p[z]
    X = (corners[..., x] - p[x] - d[x] / d[z] * height).T
    Y = (corners[..., y] - p[y] - d[y] / d[z] * height).T
    areas = np.stack([X[k] * Y[m] - Y[k] * X[m] for k, m in ((2, 1), (0, 2), (1, 0))])
    inside = ~(np.any(areas < 0.0, axis=0) & np.any(areas > 0.0, axis=0))
    if not np.any(inside):
        return _MISS
    a, b, c = np.moveaxis(corners[inside], 1, 0)
    normal = _cross(b - a, c - a)
    along = _dot(normal, d)
    flat = along == 0.0
    t = np.where(flat, NO_HIT, _dot(a - p, normal) / np.where(flat, 1.0, along))
    t = np.where(t < 0.0, NO_HIT, t)
    k = int(np.argmin(t))
    return (float(t[k]), normal[k]) if t[k] < NO_HIT else _MISS


def _cross(a: Array, b: Array) -> Array:
    x, y, z = a.T
    u, v, w = b.T
    return np.stack([y * w - z * v, z * u - x * w, x * v - y * u], axis=-1)


def _height_field(obstacle: Obstacle, p: Array, d: Array) -> Hit:
    """Intersect the ray p + t d with the surface, the sides and the base of a height field."""
    X, Y, top, depth = obstacle.size
    z = top * np.asarray(obstacle.heights, float)
    rows, columns = z.shape
    x = 2.0 * X / (columns - 1) * np.arange(columns) - X
    y = 2.0 * Y / (rows - 1) * np.arange(rows) - Y
    grid = np.stack([*np.meshgrid(x, y), z], axis=-1)
    a, b, c, e = grid[:-1, :-1], grid[:-1, 1:], grid[1:, 1:], grid[1:, :-1]
    cells = np.stack([np.stack([a, b, c], axis=2), np.stack([a, c, e], axis=2)])
    hits = [_nearest_triangle(cells.reshape(-1, 3, 3), p, d)]
    half = np.array([X, Y, depth / 2])
    hits.append(_box(half, p + np.array([0.0, 0.0, depth / 2]), d))
    hits += _sides(obstacle.size, z, p, d)
    return min(hits, key=lambda hit: hit[0])


def _sides(size: Sequence[float], z: Array, p: Array, d: Array) -> Iterator[Hit]:
    for side in range(4):
        k, m = side // 2, 1 - side // 2
        t = float(((size[k] if side % 2 else -size[k]) - p[k]) / _safe(d[k]))
        across, height = p[m] + t * d[m], p[2] + t * d[2]
        if t < 0.0 or abs(across) > size[m] or not 0.0 <= height <= size[2]:
            continue
        end = -1 if side % 2 else 0
        edge = z[end] if k else z[:, end]
        grid = np.linspace(-size[m], size[m], len(edge))
        if height < np.interp(across, grid, edge):
            yield t, _AXES[k]
