"""The shapes of bodies and of the ground, and where they touch (RBDA 11.6).

A body touches with points: the corners of a box, points on the rims of a cylinder, a set of points, or the centre of a
sphere with its radius about it. What it touches is a surface: a plane, a sphere, a box or a height field. The gap of a
point is its distance to the surface, negative inside, and the normal is a unit vector out of the surface. All positions are
in the coordinates of the surface [m]; the functions take one point (3,) or many (..., 3), floats or traced.
"""

import abc
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from rigidblocks.scalar import clip, less, maximum, select
from rigidblocks.spatial import Array, Transform, identity

LARGEST_FIELD = 1024  # nodes: a traced height field reads each of them


class Contact(NamedTuple):
    """Where points of a body are against a surface.

    `depth` (...) [m] is how far the body is inside, negative outside; `normal` (..., 3) the unit vector out of the surface;
    `point` (..., 3) [m] the point of the body that is deepest.
    """

    depth: Any
    normal: Array
    point: Array


class Surface(abc.ABC):
    """What points can touch."""

    @abc.abstractmethod
    def gap(self, p: Array) -> tuple[Any, Array]:
        """The distance (...) [m] of the points (..., 3) to the surface, negative inside, and the unit normals (..., 3)."""


class Shape(abc.ABC):
    """The part of a body that touches: points, and how far it reaches around each of them, in the body's coordinates."""

    @property
    @abc.abstractmethod
    def points(self) -> Array:
        """The points (n, 3) [m]."""

    @property
    def reach(self) -> float:
        """The radius of the sphere about each point [m]."""
        return 0.0

    @abc.abstractmethod
    def moved(self, X: Transform) -> "Shape":
        """The same shape in other coordinates, to which X takes those of the body."""


def contact(surface: Surface, p: Array, radius: Any = 0.0) -> Contact:
    """The contact of points (..., 3) [m], each with a sphere of `radius` (...) [m] about it, with a surface.

    depth = radius - gap,  point = p - radius normal
    """
    gap, normal = surface.gap(p)
    return Contact(radius - gap, normal, p - np.asarray(radius)[..., None] * normal)


def plane_gap(p: Array, normal: Array, offset: Any) -> tuple[Any, Array]:
    """The gap n.p - offset to the plane with the unit normal (3,), and the normal."""
    gap = p[..., 0] * normal[0] + p[..., 1] * normal[1] + p[..., 2] * normal[2] - offset
    return gap, np.broadcast_to(normal, np.shape(p))


def sphere_gap(p: Array, centre: Array, radius: Any) -> tuple[Any, Array]:
    """The gap |p - c| - radius to a sphere, and the normal (p - c) / |p - c|; in the very centre the normal is z.

    With the position of a sphere of another body as p, and its radius in `contact`, this is the contact of two spheres.
    """
    r = p - centre
    distance, n = _direction(r, radius * 1e-12)
    return distance - radius, n


def box_gap(p: Array, half: Array) -> tuple[Any, Array]:
    """The gap to the box |x| <= half[0], |y| <= half[1], |z| <= half[2], and the normal; inside it is the nearest face's."""
    q = np.abs(p) - half
    side = select(less(p, 0.0), -1.0, 1.0)
    outside = maximum(q, 0.0)
    distance, away = _direction(outside, 1e-12 * np.max(half))
    deepest = maximum(maximum(q[..., 0], q[..., 1]), q[..., 2])
    x_face = less(q[..., 1], q[..., 0])  # which face is nearest, for a point inside
    x_face = select(less(q[..., 2], q[..., 0]), x_face, False)
    y_face = select(less(q[..., 2], q[..., 1]), select(x_face, 0.0, 1.0), 0.0)
    x_face = select(x_face, 1.0, 0.0)
    face = np.stack([x_face, y_face, 1.0 - x_face - y_face], axis=-1)
    inside = less(deepest, 1e-12 * np.max(half))
    return select(inside, deepest, distance), side * select(np.asarray(inside)[..., None], face, away)


def field_gap(p: Array, first: Array, spacing: Array, heights: Array) -> tuple[Any, Array]:
    """The gap (z - h(x, y)) n_z to a height field, and the normal n of the field below or above the point.

    h is bilinear between the nodes, h = sum of w_i(x) w_j(y) h_ij with the weights max(0, 1 - |x - x_i| / dx), and level
    beyond the edge. The gap is exact for a plane field, and to first order in it otherwise.
    """
    weights, slopes = zip(*(_hats(p[..., k], first[k], spacing[k], heights.shape[k]) for k in range(2)), strict=True)
    along_y = weights[0] @ heights
    h = (along_y * weights[1]).sum(axis=-1)
    h_x = ((slopes[0] @ heights) * weights[1]).sum(axis=-1)
    h_y = (along_y * slopes[1]).sum(axis=-1)
    n_z = 1.0 / _sqrt(1.0 + h_x * h_x + h_y * h_y)
    return (p[..., 2] - h) * n_z, np.stack([-h_x * n_z, -h_y * n_z, n_z], axis=-1)


def hull_vertices(points: ArrayLike, normal: ArrayLike) -> tuple[int, ...]:
    """Which of the points (n, 3) of an edge or a face in contact suffice: the vertices of their convex hull (RBDA 11.6).

    The points share the contact normal (3,). The normal of any other point is positively dependent on those of the
    vertices, so it adds nothing to the constraint. Of an edge the two ends remain, of points that coincide one. The
    vertices go round the normal counter-clockwise. These are numbers, not traced; a zero normal is refused with ValueError.
    """
    p, n = np.asarray(points, dtype=float), unit_normal(normal)
    along = np.cross(n, np.eye(3)[np.argmin(np.abs(n))])
    along /= np.linalg.norm(along)
    uv = np.stack([p @ along, p @ np.cross(n, along)], axis=-1)
    dust = 1e-12 * max(float(np.ptp(uv, axis=0).max()), 1e-300)
    order = [int(k) for k in np.lexsort((uv[:, 1], uv[:, 0]))]
    lower, upper = _half_hull(uv, order, dust), _half_hull(uv, order[::-1], dust)
    hull = dict.fromkeys([*lower[:-1], *upper[:-1]] or order[:1])
    return tuple(hull)


def unit_normal(normal: ArrayLike) -> Array:
    """The unit vector along `normal` (3,); raises ValueError for a zero one and what is not finite."""
    n = np.asarray(normal, dtype=float)
    length = float(np.linalg.norm(n)) if n.shape == (3,) else 0.0
    if not (np.isfinite(length) and length > 0):
        raise ValueError(f"a normal must be a finite vector of 3 components that is not zero, not {n.tolist()}")
    return n / length


@dataclass(frozen=True, eq=False)  # eq=False: arrays have no single truth value
class Plane(Surface):
    """The half-space below the plane through `point` (3,) [m] with the `normal` (3,), of any length, upward."""

    normal: ArrayLike = (0.0, 0.0, 1.0)
    point: ArrayLike = (0.0, 0.0, 0.0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "normal", unit_normal(self.normal))
        object.__setattr__(self, "point", _vector(self.point, "the point of a plane"))

    def gap(self, p: Array) -> tuple[Any, Array]:
        normal = np.asarray(self.normal)
        return plane_gap(p, normal, normal @ self.point)


@dataclass(frozen=True, eq=False)
class Sphere(Surface, Shape):
    """A ball with `radius` [m] around `centre` (3,) [m]."""

    radius: float
    centre: ArrayLike = (0.0, 0.0, 0.0)

    def __post_init__(self) -> None:
        _check_positive(self.radius, "the radius of a sphere")
        object.__setattr__(self, "centre", _vector(self.centre, "the centre of a sphere"))

    @property
    def points(self) -> Array:
        return np.asarray(self.centre)[None, :]

    @property
    def reach(self) -> float:
        return self.radius

    def moved(self, X: Transform) -> "Sphere":
        return Sphere(self.radius, X.E @ (self.centre - X.r))

    def gap(self, p: Array) -> tuple[Any, Array]:
        return sphere_gap(p, np.asarray(self.centre), self.radius)


@dataclass(frozen=True, eq=False)
class Box(Surface, Shape):
    """A box with `sides` (3,) [m] around the origin of its frame; `placement` takes the body's coordinates to the frame's.

    As a shape it touches with its eight corners.
    """

    sides: ArrayLike
    placement: Transform = field(default_factory=identity)

    def __post_init__(self) -> None:
        _check_positive(_vector(self.sides, "the sides of a box"), "the sides of a box")
        object.__setattr__(self, "sides", _vector(self.sides, "the sides of a box"))

    @property
    def points(self) -> Array:
        signs = np.stack(np.meshgrid([-1.0, 1.0], [-1.0, 1.0], [-1.0, 1.0], indexing="ij"), axis=-1).reshape(8, 3)
        return _placed(signs * self.sides / 2, self.placement)

    def moved(self, X: Transform) -> "Box":
        return Box(self.sides, self.placement @ X.inverse())

    def gap(self, p: Array) -> tuple[Any, Array]:
        X = self.placement
        gap, n = box_gap((p - X.r) @ X.E.T, np.asarray(self.sides) / 2)
        return gap, n @ X.E


@dataclass(frozen=True, eq=False)
class Cylinder(Shape):
    """A cylinder with `radius` and `height` [m] along the z axis of its frame, around the origin: `rim` points on each edge.

    The frame is as in `Box`. The circles in contact, which need a point everywhere (RBDA Figure 11.7 d), become polygons.
    """

    radius: float
    height: float
    rim: int = 8
    placement: Transform = field(default_factory=identity)

    def __post_init__(self) -> None:
        _check_positive(self.radius, "the radius of a cylinder")
        _check_positive(self.height, "the height of a cylinder")
        if self.rim < 3:
            raise ValueError(f"a cylinder needs at least 3 points on each edge, not {self.rim}")

    @property
    def points(self) -> Array:
        angle = 2 * np.pi * np.arange(self.rim) / self.rim
        circle = self.radius * np.stack([np.cos(angle), np.sin(angle)], axis=-1)
        edges = [np.column_stack([circle, np.full(self.rim, z)]) for z in (-self.height / 2, self.height / 2)]
        return _placed(np.concatenate(edges), self.placement)

    def moved(self, X: Transform) -> "Cylinder":
        return Cylinder(self.radius, self.height, self.rim, self.placement @ X.inverse())


@dataclass(frozen=True, eq=False)
class PointSet(Shape):
    """Points at the `positions` (n, 3) [m], in the body's coordinates; two that coincide are refused: they share a force."""

    positions: ArrayLike

    def __post_init__(self) -> None:
        points = np.array(self.positions, dtype=float)
        if points.ndim != 2 or points.shape[1] != 3 or not len(points) or not np.all(np.isfinite(points)):
            raise ValueError(f"a point set needs finite points (n, 3), at least one, not {points.tolist()}")
        if len(np.unique(points, axis=0)) < len(points):
            raise ValueError(f"a point set has two points in one place: {points.tolist()}")
        points.setflags(write=False)
        object.__setattr__(self, "positions", points)

    @property
    def points(self) -> Array:
        return np.asarray(self.positions)

    def moved(self, X: Transform) -> "PointSet":
        return PointSet((self.points - X.r) @ X.E.T)


@dataclass(frozen=True, eq=False)
class HeightField(Surface):
    """The ground below z = h(x, y), with `heights[i, j]` [m] at (x, y) = first + (i dx, j dy), bilinear in between.

    `first` (2,) and `spacing` (2,) = (dx, dy) in m; level beyond the edge. At most 1,024 nodes: all are in the code of a
    traced field, once for each point that touches it, and that many under four points take a compiler some ten seconds.
    """

    heights: ArrayLike
    spacing: ArrayLike
    first: ArrayLike = (0.0, 0.0)

    def __post_init__(self) -> None:
        heights, spacing = np.array(self.heights, dtype=float), np.array(self.spacing, dtype=float)
        if heights.ndim != 2 or min(heights.shape) < 2 or not np.all(np.isfinite(heights)):
            raise ValueError(f"a height field needs finite heights on at least 2 by 2 nodes, not of shape {heights.shape}")
        if heights.size > LARGEST_FIELD:
            raise ValueError(f"a height field has at most {LARGEST_FIELD} nodes, not {heights.shape}: take a coarser grid")
        if spacing.shape != (2,) or not np.all(np.isfinite(spacing)) or np.any(spacing <= 0):
            raise ValueError(f"the spacing of a height field is two positive numbers, not {spacing.tolist()}")
        if np.shape(self.first) != (2,) or not np.all(np.isfinite(self.first)):
            raise ValueError(f"the first node of a height field has two finite coordinates, not {self.first}")
        for name, value in (("heights", heights), ("spacing", spacing), ("first", np.array(self.first, dtype=float))):
            object.__setattr__(self, name, value)

    def gap(self, p: Array) -> tuple[Any, Array]:
        return field_gap(p, np.asarray(self.first), np.asarray(self.spacing), np.asarray(self.heights))


def _hats(x: Any, first: float, spacing: float, count: int) -> tuple[Array, Array]:
    """The weights (..., count) of the nodes at x, and their derivatives by x; beyond the edge x is moved to it."""
    s = (x - first) / spacing
    node = np.arange(float(count))
    apart = np.asarray(clip(s, 0.0, count - 1.0))[..., None] - node
    weights = maximum(0.0, 1.0 - np.abs(apart))
    s = np.asarray(s)[..., None]
    behind, ahead = less(s, node), less(s, node + 1.0)  # in the cells before and behind the node
    rising = select(less(s, node - 1.0), 0.0, select(behind, 1.0, 0.0)) * (node > 0)
    falling = select(behind, 0.0, select(ahead, 1.0, 0.0)) * (node < count - 1)
    return weights, (rising - falling) / spacing


def _direction(r: Array, dust: float) -> tuple[Any, Array]:
    """The length of vectors (..., 3) and the unit vectors along them; z, and `dust`, where they are not longer than that."""
    squared = r[..., 0] * r[..., 0] + r[..., 1] * r[..., 1] + r[..., 2] * r[..., 2]
    length = _sqrt(maximum(squared, dust * dust))  # never zero, so that its derivative exists
    vanishes = less(squared, dust * dust)
    return length, select(np.asarray(vanishes)[..., None], np.array([0.0, 0.0, 1.0]), r / np.asarray(length)[..., None])


def _sqrt(a: Any) -> Any:
    """The square root of numbers of which some may be traced."""
    return _sqrt_each(a) if np.asarray(a).dtype == object else np.sqrt(a)


_sqrt_each = np.frompyfunc(np.sqrt, 1, 1)


def _half_hull(uv: Array, order: list[int], dust: float) -> list[int]:
    """The vertices of one half of the convex hull, by Andrew's monotone chain."""
    hull: list[int] = []
    for k in order:
        while len(hull) > 1 and _turn(uv[hull[-2]], uv[hull[-1]], uv[k]) <= dust * np.ptp(uv, axis=0).max():
            hull.pop()
        if not hull or np.abs(uv[k] - uv[hull[-1]]).max() > dust:
            hull.append(k)
    return hull


def _turn(a: Array, b: Array, c: Array) -> float:
    """Twice the area of the triangle, positive when it goes counter-clockwise."""
    return float((b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]))


def _placed(points: Array, placement: Transform) -> Array:
    """Points (n, 3) of a frame in the coordinates that `placement` takes to the frame's."""
    placed: Array = placement.r + points @ placement.E
    return placed


def _vector(value: ArrayLike, what: str) -> Array:
    array = np.array(value, dtype=float)
    if array.shape != (3,) or not np.all(np.isfinite(array)):
        raise ValueError(f"{what} must be 3 finite numbers, not {array.tolist()}")
    return array


def _check_positive(value: ArrayLike, what: str) -> None:
    array = np.asarray(value, dtype=float)
    if not (np.all(np.isfinite(array)) and np.all(array > 0)):
        raise ValueError(f"{what} must be positive, not {array.tolist()} m")
