"""Shapes as rows of numbers, which the C of contact reads (`c/contact/shape.h`)."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike

from rigidblocks.algebra.spatial import Array, Transform, identity
from rigidblocks.contact.ground_rows import field_row, mesh_row
from rigidblocks.model.convex import Capsule, ConvexHull, Ellipsoid
from rigidblocks.model.mesh import TriangleMesh
from rigidblocks.model.shapes import (
    Box,
    Cylinder,
    HeightField,
    Plane,
    PointSet,
    Shape,
    Sphere,
    Surface,
)

POINT, SEGMENT, BOX, CYLINDER, ELLIPSOID, HULL, HALF_SPACE = range(7)


def shape_rows(shape: Shape | Surface) -> Iterator[tuple[Array, Transform]]:
    """The rows of a shape, each with the transform from the body's coordinates to those of its
    frame: one row, but as many as there are points in a `PointSet`.

    Raises TypeError for a shape that has no row.
    """
    match shape:
        case Sphere():
            yield _row(POINT, (0, 0, 0), shape.radius, 2 * shape.radius), _at(shape.centre)
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
            yield row, _at(middle)
        case PointSet():
            for point in shape.points:
                yield _row(POINT, (0, 0, 0), 0.0, 0.0), _at(point)
        case _:
            raise TypeError(
                f"rigid contact knows spheres, capsules, boxes, cylinders, ellipsoids, convex "
                f"hulls, point sets, planes, height fields and triangle meshes, not {shape!r}"
            )


def _row(kind: int, half: ArrayLike, radius: float, size: float, vertices: ArrayLike = ()) -> Array:
    flat = np.ravel(np.asarray(vertices, dtype=float))
    return np.array([kind, *np.asarray(half, dtype=float), radius, flat.size // 3, size, 0, *flat])


def _at(point: ArrayLike) -> Transform:
    return Transform(np.eye(3), np.asarray(point, dtype=float))


def _plane(plane: Plane) -> Transform:
    """The frame with z along the normal, in whose xy plane the surface is."""
    z = np.asarray(plane.normal)
    x = np.cross(z, np.eye(3)[np.argmin(np.abs(z))])
    x = x / np.linalg.norm(x)
    return Transform(np.array([x, np.cross(z, x), z]), np.asarray(plane.point))


def _hull(vertices: Array) -> tuple[Array, Transform]:
    """Around the middle of the vertices, the size being the least width along their main axes."""
    middle = (vertices.min(axis=0) + vertices.max(axis=0)) / 2
    around = vertices - middle
    axes = np.linalg.svd(around - around.mean(axis=0))[2]
    width = float(np.ptp(around @ axes.T, axis=0).min())
    return _row(HULL, (0, 0, 0), 0.0, width, around), Transform(identity().E, middle)
