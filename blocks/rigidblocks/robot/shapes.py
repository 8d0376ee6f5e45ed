"""Visual and collision shapes of bodies, and ground surfaces (RBDA 11.6).

In point contact, the contact points of a body touch a surface: a plane, a sphere, a box or a height
field. The contact points are the corners of a box, points on the rims of a cylinder, or a point
set. A sphere has one contact point, the centre, and a radius. The gap is the signed distance of a
contact point to the surface, negative inside. The normal is the outward unit normal of the surface.

The gap functions accept one point (3,) or many points (..., 3), in surface coordinates [m]. The
coordinates are floats or traced scalars.

In rigid contact, capsules, ellipsoids, convex hulls and triangle meshes use their whole surface.
Polylines and polyhedra are only visual.
"""

import abc
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import inf, isfinite
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import ArrayLike

from rigidblocks.common.arrays import is_frozen, read_only
from rigidblocks.robot.material import Material
from rigidblocks.spatial.scalar import clip, is_traced, less, maximum, select, square_root
from rigidblocks.spatial.spatial import Array, Transform, check_frame, identity, xlt


def hull_vertices(points: ArrayLike, normal: ArrayLike) -> tuple[int, ...]:
    """Return the indices of the contact points that are convex hull vertices (RBDA 11.6).

    The points (n, 3) of an edge or a face share the contact `normal` (3,). The contact constraint
    of any other point is redundant: it is a positive combination of the vertex constraints. An edge
    has two vertices. Several coinciding points count as one vertex. The vertices are
    counter-clockwise about the normal. The arguments must not be traced.

    Raises:
        ValueError: The normal is zero.
    """
    p, n = np.asarray(points, dtype=float), unit_normal(normal)
    along = np.cross(n, np.eye(3)[np.argmin(np.abs(n))])
    along /= np.linalg.norm(along)
    uv = np.stack([p @ along, p @ np.cross(n, along)], axis=-1)
    tolerance = 1e-12 * max(float(np.ptp(uv, axis=0).max()), 1e-300)
    order = [int(k) for k in np.lexsort((uv[:, 1], uv[:, 0]))]
    lower, upper = _half_hull(uv, order, tolerance), _half_hull(uv, order[::-1], tolerance)
    hull = dict.fromkeys([*lower[:-1], *upper[:-1]] or order[:1])
    return tuple(hull)


def unit_normal(normal: ArrayLike) -> Array:
    """Return the unit vector (3,) along `normal` (3,).

    If the length of `normal` is 1 within rounding error, the result is a copy of `normal`.

    Raises:
        ValueError: The normal is zero or not finite.
    """
    n = np.asarray(normal, dtype=float)
    length = float(np.linalg.norm(n)) if n.shape == (3,) else 0.0
    if not (np.isfinite(length) and length > 0):
        raise ValueError(
            f"a normal must be a finite nonzero vector with 3 components, not {n.tolist()}"
        )
    return n.copy() if abs(length - 1.0) < 1e-15 else n / length


def _half_hull(uv: Array, order: list[int], tolerance: float) -> list[int]:
    """Return the vertex indices of one half of a convex hull (Andrew's monotone chain).

    `order` lists the indices of the points uv (n, 2) from left to right for the lower half, and
    from right to left for the upper half.
    """
    hull: list[int] = []
    for k in order:
        while (
            len(hull) > 1
            and _turn(uv[hull[-2]], uv[hull[-1]], uv[k]) <= tolerance * np.ptp(uv, axis=0).max()
        ):
            hull.pop()
        if not hull or np.abs(uv[k] - uv[hull[-1]]).max() > tolerance:
            hull.append(k)
    return hull


def _turn(a: Array, b: Array, c: Array) -> float:
    """Return twice the signed area of the triangle a, b, c; positive if counter-clockwise."""
    return float((b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]))


def plane_gap(p: Array, normal: Array, offset: Any) -> tuple[Any, Array]:
    """Return the gap to a plane, and the normal of the plane.

        gap = n . p - offset

    `normal` is the unit normal n (3,), and `offset` [m] is n . r for every point r of the plane.
    """
    gap = p[..., 0] * normal[0] + p[..., 1] * normal[1] + p[..., 2] * normal[2] - offset
    return gap, np.broadcast_to(normal, np.shape(p))


def sphere_gap(p: Array, centre: Array, radius: Any) -> tuple[Any, Array]:
    """Return the gap to a sphere, and the outward unit normal.

        gap = |p - c| - radius,    n = (p - c) / |p - c|

    At the centre the normal is z. For the contact of two spheres, p is the centre of the other
    sphere, whose radius is passed to `contact`.
    """
    r = p - centre
    distance, n = _direction(r, radius * 1e-12)
    return distance - radius, n


def box_gap(p: Array, half: Array) -> tuple[Any, Array]:
    """Return the gap to a box, and the outward unit normal.

    The box is |x| <= half[0], |y| <= half[1], |z| <= half[2]. Inside the box, the normal is the
    outward normal of the nearest face.
    """
    q = np.abs(p) - half
    side = select(less(p, 0.0), -1.0, 1.0)
    outside = maximum(q, 0.0)
    distance, away = _direction(outside, 1e-12 * np.max(half))
    deepest = maximum(maximum(q[..., 0], q[..., 1]), q[..., 2])
    inside = less(deepest, 1e-12 * np.max(half))
    return select(inside, deepest, distance), side * select(
        np.asarray(inside)[..., None], _nearest_face(q), away
    )


def _nearest_face(q: Array) -> Array:
    """Return the unit normal of the box face that is nearest to a point in the box.

    The elements of q (..., 3) are the gaps |p_k| - half_k along the three axes.
    """
    x_face = select(less(q[..., 2], q[..., 0]), less(q[..., 1], q[..., 0]), False)
    y_face = select(less(q[..., 2], q[..., 1]), select(x_face, 0.0, 1.0), 0.0)
    x_face = select(x_face, 1.0, 0.0)
    return np.stack([x_face, y_face, 1.0 - x_face - y_face], axis=-1)


def field_gap(p: Array, first: Array, spacing: Array, heights: Array) -> tuple[Any, Array]:
    """Return the gap to a height field, and the unit normal n of the field.

        gap = (z - h(x, y)) n_z
        h(x, y) = sum of w_i(x) w_j(y) h_ij,    w_i(x) = max(0, 1 - |x - x_i| / dx)

    h_ij is the element [i, j] of `heights`, x_i is the x coordinate of node i, and dx is the
    spacing along x. h is bilinear between the nodes and constant beyond the edge. n is evaluated at
    the coordinates (x, y) of p. The gap is exact for a planar field. For other fields, the error of
    the gap is of second order in the gap.

    Args:
        p: Points (..., 3).
        first: Coordinates (2,) of the node [0, 0] along x and y [m].
        spacing: Distances (2,) between adjacent nodes along x and y [m].
        heights: Heights of the nodes (rows along x, columns along y) [m].
    """
    weights, slopes = zip(
        *(_hat_functions(p[..., k], first[k], spacing[k], heights.shape[k]) for k in range(2)),
        strict=True,
    )
    along_y = weights[0] @ heights
    h = (along_y * weights[1]).sum(axis=-1)
    h_x = ((slopes[0] @ heights) * weights[1]).sum(axis=-1)
    h_y = (along_y * slopes[1]).sum(axis=-1)
    n_z = 1.0 / square_root(1.0 + h_x * h_x + h_y * h_y)
    return (p[..., 2] - h) * n_z, np.stack([-h_x * n_z, -h_y * n_z, n_z], axis=-1)


def _hat_functions(x: Any, first: float, spacing: float, count: int) -> tuple[Array, Array]:
    """Return the weights w_i(x) of `count` nodes at first + i spacing, and dw_i/dx."""
    s = (x - first) / spacing
    node = np.arange(float(count))
    offset = np.asarray(clip(s, 0.0, count - 1.0))[..., None] - node
    weights = maximum(0.0, 1.0 - np.abs(offset))
    s = np.asarray(s)[..., None]
    in_previous_cell = less(s, node)  # also true in all earlier cells
    in_next_cell = less(s, node + 1.0)
    rising = select(less(s, node - 1.0), 0.0, select(in_previous_cell, 1.0, 0.0)) * (node > 0)
    falling = select(in_previous_cell, 0.0, select(in_next_cell, 1.0, 0.0)) * (node < count - 1)
    return weights, (rising - falling) / spacing


def _direction(r: Array, tolerance: float) -> tuple[Any, Array]:
    """Return the lengths (...) and the unit vectors (..., 3) of the vectors r (..., 3).

    For a vector shorter than `tolerance`, the function returns the length `tolerance` and the
    direction z.
    """
    squared = r[..., 0] * r[..., 0] + r[..., 1] * r[..., 1] + r[..., 2] * r[..., 2]
    length = square_root(
        maximum(squared, tolerance * tolerance)
    )  # never zero, so its derivative exists
    vanishes = less(squared, tolerance * tolerance)
    return length, select(
        np.asarray(vanishes)[..., None],
        np.array([0.0, 0.0, 1.0]),
        r / np.asarray(length)[..., None],
    )


LARGEST_FIELD = 1024  # maximum number of nodes, because a trace evaluates every node


class Contact(NamedTuple):
    """Contact of body points with a surface.

    Attributes:
        depth: The penetration depth (...) [m], negative outside.
        normal: The outward unit normal (..., 3) of the surface.
        point: The deepest point (..., 3) [m] of the body.
    """

    depth: Any
    normal: Array
    point: Array


@dataclass(frozen=True, eq=False)
class Surface(abc.ABC):
    """Base class of surfaces for point contact; rigid contact uses the properties in `material`."""

    material: Material | None = field(default=None, kw_only=True)

    @abc.abstractmethod
    def gap(self, p: Array) -> tuple[Any, Array]:
        """Return the signed distance (...) [m] to the surface and the unit normals (..., 3).

        The distance of the points (..., 3) is negative inside.
        """


@dataclass(frozen=True, eq=False)
class Shape(abc.ABC):
    """Visual or collision shape of a body, in body coordinates.

    For point contact, `points` are the centres of the contact spheres, and `reach` is their radius.
    `material` contains the contact properties.
    """

    material: Material | None = field(default=None, kw_only=True)

    @property
    @abc.abstractmethod
    def points(self) -> Array:
        """The contact points (n, 3) [m] in body coordinates."""

    @property
    def reach(self) -> float:
        """The radius [m] of the sphere around each contact point."""
        return 0.0

    def primitives(self) -> "Sequence[Shape]":
        """Return the shapes of this module whose union is this shape, in body coordinates.

        A subclass in your own code overrides this method. The contact solvers, the
        web pages and the exported robot files then use these shapes.
        """
        return (self,)

    @abc.abstractmethod
    def transform(self, X: Transform) -> "Shape":
        """Return the shape in new coordinates; X is the transform from body to new coordinates."""


def contact(surface: Surface, p: Array, radius: Any = 0.0) -> Contact:
    """Return the contact of points with a surface.

        depth = radius - gap,  point = p - radius normal

    Args:
        surface: The surface.
        p: The points (..., 3) [m].
        radius: The radius (...) [m] of the sphere around each point.
    """
    gap, normal = surface.gap(p)
    return Contact(radius - gap, normal, p - np.asarray(radius)[..., None] * normal)


@dataclass(frozen=True, eq=False)  # eq=False: comparing arrays returns an array
class Plane(Surface):
    """Half-space below a plane.

    The plane contains `point` (3,) [m]; `normal` (3,), of any length, points upward.
    """

    normal: ArrayLike = (0.0, 0.0, 1.0)
    point: ArrayLike = (0.0, 0.0, 0.0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "normal", read_only(unit_normal(self.normal)))
        object.__setattr__(self, "point", _vector(self.point, "the point of a plane"))

    def transform(self, X: Transform) -> "Plane":
        """Return the plane in new coordinates; X is the transform from body to new coordinates."""
        return replace(self, normal=X.E @ self.normal, point=X.E @ (self.point - X.r))

    def gap(self, p: Array) -> tuple[Any, Array]:
        normal = np.asarray(self.normal)
        return plane_gap(p, normal, normal @ self.point)


@dataclass(frozen=True, eq=False)
class Sphere(Surface, Shape):
    """Ball with the radius `radius` [m] and the centre `centre` (3,) [m]."""

    radius: float
    centre: ArrayLike = (0.0, 0.0, 0.0)

    def __post_init__(self) -> None:
        check_positive(self.radius, "the radius of a sphere")
        object.__setattr__(self, "centre", _vector(self.centre, "the centre of a sphere"))

    @property
    def points(self) -> Array:
        return np.asarray(self.centre)[None, :]

    @property
    def reach(self) -> float:
        return self.radius

    def transform(self, X: Transform) -> "Sphere":
        return replace(self, centre=X.E @ (self.centre - X.r))

    def gap(self, p: Array) -> tuple[Any, Array]:
        return sphere_gap(p, np.asarray(self.centre), self.radius)


@dataclass(frozen=True, eq=False)
class Box(Surface, Shape):
    """Box with `sides` (3,) [m], centred at the origin of its frame.

    `placement` is the transform from body to frame coordinates. As a body shape, the box has eight
    contact points, its corners.
    """

    sides: ArrayLike
    placement: Transform = field(default_factory=identity)

    def __post_init__(self) -> None:
        sides = _vector(self.sides, "the sides of a box")
        check_positive(sides, "the sides of a box")
        object.__setattr__(self, "sides", sides)
        object.__setattr__(self, "placement", checked_placement(self.placement, "a box"))

    @classmethod
    def from_corners(cls, low: ArrayLike, high: ArrayLike) -> "Box":
        """Return the box between two opposite corners (3,) [m], with edges along the body axes."""
        low, high = _vector(low, "a corner of a box"), _vector(high, "a corner of a box")
        return cls(high - low, xlt((low + high) / 2))

    @property
    def points(self) -> Array:
        signs = np.stack(
            np.meshgrid([-1.0, 1.0], [-1.0, 1.0], [-1.0, 1.0], indexing="ij"), axis=-1
        ).reshape(8, 3)
        return points_from_frame(signs * self.sides / 2, self.placement)

    def transform(self, X: Transform) -> "Box":
        return replace(self, placement=self.placement @ X.inverse())

    def gap(self, p: Array) -> tuple[Any, Array]:
        X = self.placement
        gap, n = box_gap((p - X.r) @ X.E.T, np.asarray(self.sides) / 2)
        return gap, n @ X.E


@dataclass(frozen=True, eq=False)
class Cylinder(Shape):
    """Cylinder with `radius` and `height` [m] along the z axis of its frame, centred at the origin.

    The contact points are `rim` points on each circular edge (RBDA Figure 11.7 d). `placement` is
    the transform from body to frame coordinates.

    Raises:
        ValueError: A size is not positive, or `rim` is below 3.
    """

    radius: float
    height: float
    rim: int = 8
    placement: Transform = field(default_factory=identity)

    def __post_init__(self) -> None:
        check_positive(self.radius, "the radius of a cylinder")
        check_positive(self.height, "the height of a cylinder")
        if self.rim < 3:
            raise ValueError(f"a cylinder needs at least 3 points on each edge, not {self.rim}")
        object.__setattr__(self, "placement", checked_placement(self.placement, "a cylinder"))

    @classmethod
    def from_ends(cls, start: ArrayLike, end: ArrayLike, radius: float, rim: int = 8) -> "Cylinder":
        """Return the cylinder with `radius` [m] whose axis connects two points (3,) [m]."""
        start, end = _vector(start, "an end of a cylinder"), _vector(end, "an end of a cylinder")
        height = float(np.linalg.norm(end - start))
        check_positive(height, "the height of a cylinder")
        z = (end - start) / height
        x = np.cross(z, np.eye(3)[np.argmin(np.abs(z))])
        x = x / np.linalg.norm(x)
        E = np.array([x, np.cross(z, x), z])
        return cls(radius, height, rim, Transform(E, (start + end) / 2))

    @property
    def points(self) -> Array:
        angle = 2 * np.pi * np.arange(self.rim) / self.rim
        circle = self.radius * np.stack([np.cos(angle), np.sin(angle)], axis=-1)
        edges = [
            np.column_stack([circle, np.full(self.rim, z)])
            for z in (-self.height / 2, self.height / 2)
        ]
        return points_from_frame(np.concatenate(edges), self.placement)

    def transform(self, X: Transform) -> "Cylinder":
        return replace(self, placement=self.placement @ X.inverse())


@dataclass(frozen=True, eq=False)
class PointSet(Shape):
    """Contact points at the `positions` (n, 3) [m] in body coordinates.

    Raises:
        ValueError: The positions are not finite points (n, 3), or two points coincide, so that
            their forces are not unique.
    """

    positions: ArrayLike

    def __post_init__(self) -> None:
        points = np.array(self.positions, dtype=float)
        if points.ndim != 2 or points.shape[1] != 3 or not len(points):
            raise ValueError(
                "a point set needs one or more points as an array (n, 3), not an array "
                f"{points.shape}"
            )
        if not np.all(np.isfinite(points)):
            k = int(np.argmin(np.isfinite(points).all(axis=1)))
            raise ValueError(f"a point set needs finite points; point {k} is {points[k].tolist()}")
        if len(np.unique(points, axis=0)) < len(points):
            raise ValueError(f"two points of a point set coincide: {points.tolist()}")
        object.__setattr__(self, "positions", read_only(points))

    @property
    def points(self) -> Array:
        return np.asarray(self.positions)

    def transform(self, X: Transform) -> "PointSet":
        return replace(self, positions=(self.points - X.r) @ X.E.T)


@dataclass(frozen=True, eq=False)
class HeightField(Surface):
    """Ground below the surface z = h(x, y).

    `heights[i, j]` [m] is the height at (x, y) = first + (i dx, j dy). `first` (2,) and `spacing`
    (2,) = (dx, dy) are in m. The height is constant beyond the edge. Compliant contact
    interpolates bilinearly. Rigid contact divides each cell into two triangles, along the diagonal
    from the node with the lowest indices to the opposite node.

    Compliant contact is traced and allows at most 1,024 nodes. The generated code contains all
    nodes once per contact point. With four contact points and 1,024 nodes, compiling this code
    takes about ten seconds. Rigid contact reads the nodes from tables of any size.

    Raises:
        ValueError: The heights are not a finite matrix with at least 2 by 2 nodes, or the spacing
            is not positive.
    """

    heights: ArrayLike
    spacing: ArrayLike
    first: ArrayLike = (0.0, 0.0)

    def __post_init__(self) -> None:
        heights, spacing, first = (
            np.array(value, dtype=float) for value in (self.heights, self.spacing, self.first)
        )
        _check_heights(heights)
        if spacing.shape != (2,) or not np.all(np.isfinite(spacing)) or np.any(spacing <= 0):
            raise ValueError(
                f"the spacing of a height field must be two positive numbers, not "
                f"{spacing.tolist()}"
            )
        if first.shape != (2,) or not np.all(np.isfinite(first)):
            raise ValueError(
                f"the first node of a height field needs two finite coordinates, not {self.first}"
            )
        for name, value in (("heights", heights), ("spacing", spacing), ("first", first)):
            object.__setattr__(self, name, read_only(value))

    def gap(self, p: Array) -> tuple[Any, Array]:
        heights = np.asarray(self.heights)
        if is_traced(p) and heights.size > LARGEST_FIELD:
            raise ValueError(
                f"compliant contact supports height fields of at most {LARGEST_FIELD} nodes, not "
                f"of shape {heights.shape}; use a coarser grid or rigid contact"
            )
        return field_gap(p, np.asarray(self.first), np.asarray(self.spacing), heights)


def _check_heights(heights: Array) -> None:
    if heights.ndim != 2 or min(heights.shape) < 2:
        raise ValueError(
            "a height field needs the heights of at least 2 by 2 nodes as a matrix, not an array "
            f"{heights.shape}"
        )
    if not np.all(np.isfinite(heights)):
        i, j = (int(k) for k in np.argwhere(~np.isfinite(heights))[0])
        raise ValueError(
            f"the heights of a height field must be finite; heights[{i}, {j}] is {heights[i, j]}"
        )


def points_from_frame(points: Array, placement: Transform) -> Array:
    """Transform points (n, 3) from frame coordinates to body coordinates.

    `placement` is the transform in the opposite direction, from body to frame coordinates.
    """
    placed: Array = placement.r + points @ placement.E
    return placed


def _vector(value: ArrayLike, subject: str) -> Array:
    array = np.array(value, dtype=float)
    if array.shape != (3,) or not all(map(isfinite, array.tolist())):
        raise ValueError(f"{subject} must be 3 finite numbers, not {array.tolist()}")
    return read_only(array)


def checked_placement(X: Transform, shape: str) -> Transform:
    """Check the placement of a shape and return a read-only copy.

    Raises:
        TypeError: X is not a `Transform`.
        ValueError: E is not a rotation, or a value is not finite.
    """
    if not isinstance(X, Transform):
        raise TypeError(f"the placement of {shape} must be a spatial.Transform, not {X!r}")
    check_frame(X, f"the placement of {shape}")
    return X if is_frozen(X.E, X.r) else Transform(read_only(X.E), read_only(X.r))


def check_positive(value: ArrayLike, subject: str) -> None:
    """Raise ValueError unless all values are positive and finite."""
    if type(value) is float and 0.0 < value < inf:
        return
    array = np.asarray(value, dtype=float)
    if not all(isfinite(size) and size > 0.0 for size in array.ravel().tolist()):
        raise ValueError(f"{subject} must be positive, not {array.tolist()} m")


MOST_VERTICES = 256  # maximum number of vertices of a convex hull


@dataclass(frozen=True, eq=False)  # eq=False: comparing arrays returns an array
class Capsule(Shape):
    """Capsule: all points within `radius` [m] of a segment of length `height` [m].

    The segment is on the z axis of the capsule's frame, centred at the origin. `placement` is the
    transform from body to frame coordinates. In point contact, the contact points are the two ends
    of the segment.
    """

    radius: float
    height: float
    placement: Transform = field(default_factory=identity)

    def __post_init__(self) -> None:
        check_positive(self.radius, "the radius of a capsule")
        check_positive(self.height, "the height of a capsule")
        object.__setattr__(self, "placement", checked_placement(self.placement, "a capsule"))

    @property
    def points(self) -> Array:
        half = self.height / 2
        return points_from_frame(np.array([[0.0, 0.0, -half], [0.0, 0.0, half]]), self.placement)

    @property
    def reach(self) -> float:
        return self.radius

    def transform(self, X: Transform) -> "Capsule":
        return replace(self, placement=self.placement @ X.inverse())


@dataclass(frozen=True, eq=False)
class Ellipsoid(Shape):
    """Ellipsoid with the semi-axes (3,) [m] along the axes of its frame, centred at the origin.

    `placement` is the transform from body to frame coordinates. In point contact, the contact
    points are the six ends of the axes.

    Raises:
        ValueError: A semi-axis is not positive.
    """

    semi_axes: ArrayLike
    placement: Transform = field(default_factory=identity)

    def __post_init__(self) -> None:
        axes = np.array(self.semi_axes, dtype=float)
        if axes.shape != (3,):
            raise ValueError(f"the semi-axes of an ellipsoid need shape (3,), not {axes.shape}")
        check_positive(axes, "the semi-axes of an ellipsoid")
        object.__setattr__(self, "semi_axes", read_only(axes))
        object.__setattr__(self, "placement", checked_placement(self.placement, "an ellipsoid"))

    @property
    def points(self) -> Array:
        ends = np.diag(np.asarray(self.semi_axes))
        return points_from_frame(np.concatenate([ends, -ends]), self.placement)

    def transform(self, X: Transform) -> "Ellipsoid":
        return replace(self, placement=self.placement @ X.inverse())


@dataclass(frozen=True, eq=False)
class ConvexHull(Shape):
    """Convex hull of the `vertices` (n, 3) [m], in body coordinates.

    The shape has 4 to 256 vertices, which are not coplanar. Pass only the vertices of the hull:
    points inside the hull have no effect on the shape but increase the computing time.

    Raises:
        ValueError: The vertices are not finite, too few, too many, or in one plane.
    """

    vertices: ArrayLike

    def __post_init__(self) -> None:
        vertices = np.array(self.vertices, dtype=float)
        if vertices.ndim != 2 or vertices.shape[1] != 3:
            raise ValueError(
                f"a hull needs its vertices as an array (n, 3), not an array {vertices.shape}"
            )
        _check_finite(vertices, "a hull")
        if not 4 <= len(vertices) <= MOST_VERTICES:
            raise ValueError(
                f"a hull needs 4 to {MOST_VERTICES} vertices, not {len(vertices)}; reduce the "
                "vertices of a mesh to its hull, or take a subset"
            )
        spread = np.linalg.svd(vertices - vertices.mean(axis=0), compute_uv=False)
        if not spread[2] > 1e-6 * spread[0]:
            raise ValueError(
                "the vertices of a hull are all in one plane, so the hull has no volume"
            )
        object.__setattr__(self, "vertices", read_only(vertices))

    @property
    def points(self) -> Array:
        return np.asarray(self.vertices)

    def transform(self, X: Transform) -> "ConvexHull":
        return replace(self, vertices=(self.points - X.r) @ X.E.T)


CONE_SIDES = 32  # the largest distance from a cone to its hull is 0.5 % of the radius


@dataclass(frozen=True, eq=False)
class Cone(Shape):
    """Cone with the `radius` [m] of its base and its `height` [m], centred on the z axis.

    The base is at z = -height / 2 of the cone's frame, the apex at z = height / 2. `placement` is
    the transform from body to frame coordinates. Contact and drawing use the inscribed
    pyramid with 32 sides.

    Raises:
        ValueError: The radius or the height is not positive.
    """

    radius: float
    height: float
    placement: Transform = field(default_factory=identity)

    def __post_init__(self) -> None:
        check_positive(self.radius, "the radius of a cone")
        check_positive(self.height, "the height of a cone")
        object.__setattr__(self, "placement", checked_placement(self.placement, "a cone"))

    @property
    def points(self) -> Array:
        angles, half = 2 * np.pi / CONE_SIDES * np.arange(CONE_SIDES), self.height / 2
        x, y = self.radius * np.cos(angles), self.radius * np.sin(angles)
        base = np.stack([x, y, np.full(CONE_SIDES, -half)], axis=1)
        return points_from_frame(np.vstack([base, [0.0, 0.0, half]]), self.placement)

    def primitives(self) -> tuple[Shape]:
        return (ConvexHull(self.points, material=self.material),)

    def transform(self, X: Transform) -> "Cone":
        return replace(self, placement=self.placement @ X.inverse())


@dataclass(frozen=True, eq=False)  # eq=False: comparing arrays returns an array
class Polyline(Shape):
    """Line through the `vertices` (n, 3) [m] in order, in body coordinates.

    The drawing instruction `line` of the package spatial_v1 lists indices of vertices V. In Python,
    pass the indexed vertices, for example `Polyline(V[[0, 1, 2, 0, 3]])`.
    """

    vertices: ArrayLike

    def __post_init__(self) -> None:
        object.__setattr__(self, "vertices", _check_vertices(self.vertices, 2, "a line"))

    @property
    def points(self) -> Array:
        return np.asarray(self.vertices)

    def transform(self, X: Transform) -> "Polyline":
        return replace(self, vertices=(self.points - X.r) @ X.E.T)


@dataclass(frozen=True, eq=False)
class Polyhedron(Shape):
    """Polyhedron with the `vertices` (n, 3) [m] in body coordinates.

    Each face is a convex polygon. Its vertex indices begin at 0 and are counter-clockwise as seen
    from outside. The attribute `faces` (m, 3) contains the faces as triangles. The class
    replaces the drawing instruction `face` of the package spatial_v1.

    Raises:
        ValueError: The vertices are not finite, a face is invalid, or no face is given.
    """

    vertices: ArrayLike
    faces: Any

    def __post_init__(self) -> None:
        vertices = _check_vertices(self.vertices, 3, "a polyhedron")
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

    def transform(self, X: Transform) -> "Polyhedron":
        return replace(self, vertices=(self.points - X.r) @ X.E.T)


def _triangles(face: Sequence[int], n: int) -> list[tuple[int, int, int]]:
    corners = [int(k) for k in face]
    if len(set(corners)) < 3 or list(face) != corners or not all(0 <= k < n for k in corners):
        raise ValueError(
            f"a face needs at least 3 vertex indices from 0 to {n - 1}, not {list(face)}"
        )
    return [(corners[0], a, b) for a, b in pairwise(corners[1:])]


def _check_finite(vertices: Array, subject: str) -> None:
    if not np.all(np.isfinite(vertices)):
        k = int(np.argmin(np.isfinite(vertices).all(axis=1)))
        raise ValueError(f"{subject} needs finite vertices; vertex {k} is {vertices[k].tolist()}")


def _check_vertices(values: ArrayLike, minimum: int, subject: str) -> Array:
    vertices = np.array(values, dtype=float)
    if vertices.ndim != 2 or vertices.shape[1] != 3 or len(vertices) < minimum:
        raise ValueError(
            f"{subject} needs at least {minimum} vertices as an array (n, 3), not an array "
            f"{vertices.shape}"
        )
    _check_finite(vertices, subject)
    return read_only(vertices)


@dataclass(frozen=True, eq=False)  # eq=False: comparing arrays returns an array
class TriangleMesh(Surface):
    """Ground that consists of triangles, for rigid contact only.

    `vertices` (n, 3) [m] are the corners. `triangles` (m, 3) contains three vertex indices for each
    triangle, counter-clockwise as seen from outside. The ground is solid on the inner side of each
    triangle, to a depth of half the smallest dimension of the touching shape. The mesh need not be
    closed.

    Raises:
        ValueError: A triangle has no area, or two triangles traverse an edge in the same direction.
            The second error means that one triangle is reversed, or that more than two triangles
            share the edge.
    """

    vertices: ArrayLike
    triangles: ArrayLike

    def __post_init__(self) -> None:
        x, t = np.array(self.vertices, dtype=float), np.array(self.triangles)
        if x.ndim != 2 or x.shape[1] != 3 or not len(x):
            raise ValueError(f"a mesh needs vertices as an array (n, 3), not an array {x.shape}")
        _check_finite(x, "a mesh")
        if t.ndim != 2 or t.shape[1] != 3 or not len(t) or not np.issubdtype(t.dtype, np.integer):
            raise ValueError(
                "the triangles of a mesh must be integer vertex indices of shape (m, 3), not of "
                f"shape {t.shape} and type {t.dtype}"
            )
        if t.min() < 0 or t.max() >= len(x):
            raise ValueError(
                f"the vertex indices of a mesh must be 0 to {len(x) - 1}, but are {t.min()} to "
                f"{t.max()}"
            )
        a, b, c = (x[t[:, k]] for k in range(3))
        area = np.linalg.norm(np.cross(b - a, c - a), axis=1) / 2
        if np.any(flat := area <= 1e-12 * _longest(a, b, c) ** 2):
            raise ValueError(f"triangle {int(np.argmax(flat))} of a mesh has no area")
        object.__setattr__(self, "vertices", read_only(x))
        object.__setattr__(self, "triangles", read_only(t))
        object.__setattr__(self, "_adjacent_triangles", read_only(_adjacent_triangles(t)))

    @property
    def adjacent_triangles(self) -> Array:
        """Index of the adjacent triangle at each edge (m, 3); -1 at an edge of the boundary."""
        found: Array = vars(self)["_adjacent_triangles"]
        return found

    @property
    def faces(self) -> Array:
        """Corners (m, 3, 3) [m] of the triangles."""
        faces: Array = np.asarray(self.vertices)[np.asarray(self.triangles)]
        return faces

    def gap(self, p: Array) -> NoReturn:
        del p
        raise TypeError("compliant contact does not support a triangle mesh; use RigidContactPlant")


def _longest(a: Array, b: Array, c: Array) -> Any:
    return np.max([np.linalg.norm(d, axis=1) for d in (b - a, c - b, a - c)], axis=0)


def _adjacent_triangles(triangles: Array) -> Array:
    """Return the index of the adjacent triangle at each edge (m, 3); -1 at the boundary."""
    edges = dict[tuple[int, int], int]()
    for k, triangle in enumerate(triangles.tolist()):
        for i in range(3):
            edge = (triangle[i], triangle[(i + 1) % 3])
            if edge in edges:
                raise ValueError(
                    f"triangles {edges[edge]} and {k} of a mesh both traverse the edge from vertex "
                    f"{edge[0]} to {edge[1]}: a triangle is reversed, or more "
                    "than two triangles share the edge"
                )
            edges[edge] = k
    return np.array(
        [
            [edges.get((triangle[(i + 1) % 3], triangle[i]), -1) for i in range(3)]
            for triangle in triangles.tolist()
        ]
    )
