"""The shapes of bodies and of the ground: what is drawn, and where they touch (RBDA 11.6).

A body touches with points: the corners of a box, points on the rims of a cylinder, a set of points,
or the centre of a sphere with its radius about it. What it touches is a surface: a plane, a sphere,
a box or a height field. The gap of a point is its distance to the surface, negative inside, and the
normal is a unit vector out of the surface. All positions are in the coordinates of the surface [m];
the functions take one point (3,) or many (..., 3), floats or traced.
"""

import abc
from dataclasses import dataclass, field, replace
from math import inf, isfinite
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from rigidblocks.algebra.frames import check_frame
from rigidblocks.algebra.frozen import is_frozen, read_only
from rigidblocks.algebra.scalar import is_traced
from rigidblocks.algebra.spatial import Array, Transform, identity, xlt
from rigidblocks.model.gaps import box_gap, field_gap, plane_gap, sphere_gap
from rigidblocks.model.hull import unit_normal
from rigidblocks.model.material import Material

LARGEST_FIELD = 1024  # nodes: a traced height field reads each of them


class Contact(NamedTuple):
    """Where points of a body are against a surface.

    `depth` (...) [m] is how far the body is inside, negative outside; `normal` (..., 3) the unit
    vector out of the surface; `point` (..., 3) [m] the point of the body that is deepest.
    """

    depth: Any
    normal: Array
    point: Array


@dataclass(frozen=True, eq=False)
class Surface(abc.ABC):
    """What points can touch; `material` is what rigid contact knows of it."""

    material: Material | None = field(default=None, kw_only=True)

    @abc.abstractmethod
    def gap(self, p: Array) -> tuple[Any, Array]:
        """The distance (...) [m] of the points (..., 3) to the surface, negative inside, and the
        unit normals (..., 3).
        """


@dataclass(frozen=True, eq=False)
class Shape(abc.ABC):
    """A part of a body, to be drawn and to touch with: points, and how far it reaches around each
    of them, in the body's coordinates; `material` as in `Surface`.
    """

    material: Material | None = field(default=None, kw_only=True)

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
    """The contact of points (..., 3) [m], each with a sphere of `radius` (...) [m] about it, with a
    surface.

    depth = radius - gap,  point = p - radius normal
    """
    gap, normal = surface.gap(p)
    return Contact(radius - gap, normal, p - np.asarray(radius)[..., None] * normal)


@dataclass(frozen=True, eq=False)  # eq=False: arrays have no single truth value
class Plane(Surface):
    """The half-space below the plane through `point` (3,) [m] with the `normal` (3,), of any
    length, upward.
    """

    normal: ArrayLike = (0.0, 0.0, 1.0)
    point: ArrayLike = (0.0, 0.0, 0.0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "normal", unit_normal(self.normal))
        object.__setattr__(self, "point", _vector(self.point, "the point of a plane"))

    def moved(self, X: Transform) -> "Plane":
        """The same plane in other coordinates, to which X takes those of the body."""
        return replace(self, normal=X.E @ self.normal, point=X.E @ (self.point - X.r))

    def gap(self, p: Array) -> tuple[Any, Array]:
        normal = np.asarray(self.normal)
        return plane_gap(p, normal, normal @ self.point)


@dataclass(frozen=True, eq=False)
class Sphere(Surface, Shape):
    """A ball with `radius` [m] around `centre` (3,) [m]."""

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

    def moved(self, X: Transform) -> "Sphere":
        return replace(self, centre=X.E @ (self.centre - X.r))

    def gap(self, p: Array) -> tuple[Any, Array]:
        return sphere_gap(p, np.asarray(self.centre), self.radius)


@dataclass(frozen=True, eq=False)
class Box(Surface, Shape):
    """A box with `sides` (3,) [m] around the origin of its frame; `placement` takes the body's
    coordinates to the frame's.

    As a shape it touches with its eight corners.
    """

    sides: ArrayLike
    placement: Transform = field(default_factory=identity)

    def __post_init__(self) -> None:
        sides = _vector(self.sides, "the sides of a box")
        check_positive(sides, "the sides of a box")
        object.__setattr__(self, "sides", sides)
        object.__setattr__(self, "placement", checked_placement(self.placement, "a box"))

    @classmethod
    def between(cls, low: ArrayLike, high: ArrayLike) -> "Box":
        """The box between two corners (3,) [m], along the axes of the body."""
        low, high = _vector(low, "a corner of a box"), _vector(high, "a corner of a box")
        return cls(high - low, xlt((low + high) / 2))

    @property
    def points(self) -> Array:
        signs = np.stack(
            np.meshgrid([-1.0, 1.0], [-1.0, 1.0], [-1.0, 1.0], indexing="ij"), axis=-1
        ).reshape(8, 3)
        return placed(signs * self.sides / 2, self.placement)

    def moved(self, X: Transform) -> "Box":
        return replace(self, placement=self.placement @ X.inverse())

    def gap(self, p: Array) -> tuple[Any, Array]:
        X = self.placement
        gap, n = box_gap((p - X.r) @ X.E.T, np.asarray(self.sides) / 2)
        return gap, n @ X.E


@dataclass(frozen=True, eq=False)
class Cylinder(Shape):
    """A cylinder with `radius` and `height` [m] along the z axis of its frame, around the origin:
    `rim` points on each edge.

    The frame is as in `Box`. The circles in contact, which need a point everywhere (RBDA Figure
    11.7 d), become polygons.
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
    def between(cls, start: ArrayLike, end: ArrayLike, radius: float, rim: int = 8) -> "Cylinder":
        """The cylinder with `radius` [m] around the line between two points (3,) [m]."""
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
        return placed(np.concatenate(edges), self.placement)

    def moved(self, X: Transform) -> "Cylinder":
        return replace(self, placement=self.placement @ X.inverse())


@dataclass(frozen=True, eq=False)
class PointSet(Shape):
    """Points at the `positions` (n, 3) [m], in the body's coordinates; two that coincide are
    refused: they share a force.
    """

    positions: ArrayLike

    def __post_init__(self) -> None:
        points = np.array(self.positions, dtype=float)
        if (
            points.ndim != 2
            or points.shape[1] != 3
            or not len(points)
            or not np.all(np.isfinite(points))
        ):
            raise ValueError(
                f"a point set needs finite points (n, 3), at least one, not {points.tolist()}"
            )
        if len(np.unique(points, axis=0)) < len(points):
            raise ValueError(f"a point set has two points in one place: {points.tolist()}")
        object.__setattr__(self, "positions", read_only(points))

    @property
    def points(self) -> Array:
        return np.asarray(self.positions)

    def moved(self, X: Transform) -> "PointSet":
        return replace(self, positions=(self.points - X.r) @ X.E.T)


@dataclass(frozen=True, eq=False)
class HeightField(Surface):
    """The ground below z = h(x, y), with `heights[i, j]` [m] at (x, y) = first + (i dx, j dy),
    bilinear in between; to rigid contact two triangles in each cell, cut from its first node to the
    opposite one.

    `first` (2,) and `spacing` (2,) = (dx, dy) in m; level beyond the edge. Soft contact is traced,
    with at most 1,024 nodes: all are in its code, once for each point that touches the field, and
    that many under four points take a compiler some ten seconds. Rigid contact reads them in
    tables, as many as there are.
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
                f"the spacing of a height field is two positive numbers, not {spacing.tolist()}"
            )
        if first.shape != (2,) or not np.all(np.isfinite(first)):
            raise ValueError(
                f"the first node of a height field has two finite coordinates, not {self.first}"
            )
        for name, value in (("heights", heights), ("spacing", spacing), ("first", first)):
            object.__setattr__(self, name, read_only(value))

    def gap(self, p: Array) -> tuple[Any, Array]:
        heights = np.asarray(self.heights)
        if is_traced(p) and heights.size > LARGEST_FIELD:
            raise ValueError(
                f"a height field of soft contact has at most {LARGEST_FIELD} nodes, not "
                f"{heights.shape}: take a coarser grid, or rigid contact"
            )
        return field_gap(p, np.asarray(self.first), np.asarray(self.spacing), heights)


def _check_heights(heights: Array) -> None:
    if heights.ndim != 2 or min(heights.shape) < 2 or not np.all(np.isfinite(heights)):
        raise ValueError(
            "a height field needs finite heights on at least 2 by 2 nodes, not of shape "
            f"{heights.shape}"
        )


def placed(points: Array, placement: Transform) -> Array:
    """Points (n, 3) of a frame in the coordinates that `placement` takes to the frame's."""
    placed: Array = placement.r + points @ placement.E
    return placed


def _vector(value: ArrayLike, what: str) -> Array:
    array = np.array(value, dtype=float)
    if array.shape != (3,) or not all(map(isfinite, array.tolist())):
        raise ValueError(f"{what} must be 3 finite numbers, not {array.tolist()}")
    return read_only(array)


def checked_placement(X: Transform, shape: str) -> Transform:
    """A read-only copy; raises ValueError where E is no rotation or anything is not finite."""
    if not isinstance(X, Transform):
        raise TypeError(f"the placement of {shape} must be a spatial.Transform, not {X!r}")
    check_frame(X, f"the placement of {shape}")
    return X if is_frozen(X.E, X.r) else Transform(read_only(X.E), read_only(X.r))


def check_positive(value: ArrayLike, what: str) -> None:
    """Raises ValueError for numbers that are not all positive and finite."""
    if type(value) is float and 0.0 < value < inf:
        return
    array = np.asarray(value, dtype=float)
    if not all(isfinite(size) and size > 0.0 for size in array.ravel().tolist()):
        raise ValueError(f"{what} must be positive, not {array.tolist()} m")
