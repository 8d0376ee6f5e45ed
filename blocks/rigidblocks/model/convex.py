"""Convex shapes that touch all over: capsules, ellipsoids and hulls of points."""

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike

from rigidblocks.algebra.frozen import read_only
from rigidblocks.algebra.spatial import Array, Transform, identity
from rigidblocks.model.shapes import Shape, check_positive, checked_placement, placed

MOST_VERTICES = 256  # of a convex hull


@dataclass(frozen=True, eq=False)  # eq=False: arrays have no single truth value
class Capsule(Shape):
    """All points within `radius` [m] of a line of `height` [m] along the z axis of its frame,
    around the origin; `placement` takes the body's coordinates to the frame's.

    As points it touches with the two ends of the line.
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
        return placed(np.array([[0.0, 0.0, -half], [0.0, 0.0, half]]), self.placement)

    @property
    def reach(self) -> float:
        return self.radius

    def moved(self, X: Transform) -> "Capsule":
        return replace(self, placement=self.placement @ X.inverse())


@dataclass(frozen=True, eq=False)
class Ellipsoid(Shape):
    """An ellipsoid with the semi-axes (3,) [m] along the axes of its frame, around the origin;
    `placement` is as in `Capsule`.

    As points it touches with the six ends of its axes.
    """

    semi_axes: ArrayLike
    placement: Transform = field(default_factory=identity)

    def __post_init__(self) -> None:
        axes = np.array(self.semi_axes, dtype=float)
        if axes.shape != (3,):
            raise ValueError(f"an ellipsoid has 3 semi-axes, not of shape {axes.shape}")
        check_positive(axes, "the semi-axes of an ellipsoid")
        object.__setattr__(self, "semi_axes", read_only(axes))
        object.__setattr__(self, "placement", checked_placement(self.placement, "an ellipsoid"))

    @property
    def points(self) -> Array:
        ends = np.diag(np.asarray(self.semi_axes))
        return placed(np.concatenate([ends, -ends]), self.placement)

    def moved(self, X: Transform) -> "Ellipsoid":
        return replace(self, placement=self.placement @ X.inverse())


@dataclass(frozen=True, eq=False)
class ConvexHull(Shape):
    """The convex hull of the `vertices` (n, 3) [m], at least 4 that are not in a plane and at most
    256, in the body's coordinates.

    Take the vertices of the hull alone: points inside it cost time, and change nothing.
    """

    vertices: ArrayLike

    def __post_init__(self) -> None:
        vertices = np.array(self.vertices, dtype=float)
        if vertices.ndim != 2 or vertices.shape[1] != 3 or not np.all(np.isfinite(vertices)):
            raise ValueError(
                f"the vertices of a hull are n finite points (n, 3), not of shape {vertices.shape}"
            )
        if not 4 <= len(vertices) <= MOST_VERTICES:
            raise ValueError(
                f"a hull needs 4 to {MOST_VERTICES} vertices, not {len(vertices)}; of a mesh take "
                "those of its hull, or every so many"
            )
        spread = np.linalg.svd(vertices - vertices.mean(axis=0), compute_uv=False)
        if not spread[2] > 1e-6 * spread[0]:
            raise ValueError("the vertices of a hull are all in one plane, so it has no volume")
        object.__setattr__(self, "vertices", read_only(vertices))

    @property
    def points(self) -> Array:
        return np.asarray(self.vertices)

    def moved(self, X: Transform) -> "ConvexHull":
        return replace(self, vertices=(self.points - X.r) @ X.E.T)
