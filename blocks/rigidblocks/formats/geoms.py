"""The geoms of a model that MuJoCo compiled as shapes, each with its friction."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from rigidblocks.algebra.rotation import quaternion_rotation
from rigidblocks.algebra.spatial import Array, Transform
from rigidblocks.model.convex import MOST_VERTICES, Capsule, ConvexHull, Ellipsoid
from rigidblocks.model.material import Material
from rigidblocks.model.shapes import Box, Cylinder, Plane, Shape, Sphere

PLANE = 0  # mjtGeom


def shapes(m: Any, body: int, warnings: list[str]) -> tuple[list[Shape], list[Shape]]:
    """What is seen of a body of the model, and what it touches with; in a warning what is left
    out.
    """
    seen, touching = list[Shape](), list[Shape]()
    for g in _geoms(m, body):
        touches = bool(_touches(m)[g])
        try:
            shape = _shape(m, g, touches)
        except ValueError as error:
            warnings.append(f"geom {g} is left out: {error}")
            continue
        if shape is not None:
            seen.append(shape)
            if touches:
                touching.append(shape)
    return seen, touching


def planes(m: Any, body: int) -> list[Plane]:
    """The planes of a body of the model that touch something."""
    found = []
    for g in _geoms(m, body):
        if m.geom_type[g] == PLANE and _touches(m)[g]:
            X = placement(m.geom_pos[g], m.geom_quat[g])
            found.append(Plane(X.E[2], X.r, material=_material(m, g)))
    return found


def pairs_apart(m: Any) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """The pairs of bodies of the model with geoms of which none touch each other, and those of
    which some do and others do not, though all touch something.

    By MuJoCo's rule: contype of one and conaffinity of the other have a bit in common, and no
    <exclude> names the bodies; or a <pair> names the geoms.
    """
    one = (m.geom_contype[:, None] & m.geom_conaffinity[None, :]) != 0
    allowed = _of_bodies(m, one | one.T)
    there, possible = allowed
    for signature in m.exclude_signature.tolist():
        there[signature >> 16, signature & 0xFFFF] = there[signature & 0xFFFF, signature >> 16] = 0
    named = np.zeros_like(one)
    named[m.pair_geom1, m.pair_geom2] = named[m.pair_geom2, m.pair_geom1] = True
    there = there + _of_bodies(m, named)[0]
    pairs = [(i, j) for i, j in zip(*np.nonzero(np.triu(possible, 1)), strict=True)]
    none = [(int(i), int(j)) for i, j in pairs if not there[i, j]]
    return none, [(int(i), int(j)) for i, j in pairs if 0 < there[i, j] < possible[i, j]]


def _of_bodies(m: Any, allowed: Array) -> tuple[Array, Array]:
    """How many pairs of geoms of two bodies (nbody, nbody) are allowed, and how many there are."""
    touching = _touches(m)
    of = np.zeros((m.nbody, len(touching)))
    of[m.geom_bodyid, np.arange(len(touching))] = touching
    count = of.sum(axis=1)
    return of @ allowed @ of.T, np.outer(count, count)


def _touches(m: Any) -> Array:
    """Which geoms touch anything."""
    touching: Array = (m.geom_contype != 0) | (m.geom_conaffinity != 0)
    touching[m.pair_geom1] = touching[m.pair_geom2] = True
    return touching


def placement(r: Array, q: Array) -> Transform:
    """The transform to a frame at r (3,) [m] with the quaternion q (4,), of any length."""
    E = quaternion_rotation(q / np.linalg.norm(q))
    return Transform(E, np.array(r))


def _geoms(m: Any, body: int) -> Iterator[int]:
    first = int(m.body_geomadr[body])
    yield from range(first, first + int(m.body_geomnum[body]))


def _shape(m: Any, g: int, touches: bool) -> Shape | None:
    """The solid of a geom; none for planes, height fields and meshes that touch nothing."""
    size, X = m.geom_size[g].tolist(), placement(m.geom_pos[g], m.geom_quat[g])
    material = _material(m, g) if touches else None
    match int(m.geom_type[g]):  # mjtGeom
        case 2:
            return Sphere(size[0], X.r, material=material)
        case 3:
            return Capsule(size[0], 2 * size[1], X, material=material)
        case 4:
            return Ellipsoid(size, X, material=material)
        case 5:
            return Cylinder(size[0], 2 * size[1], placement=X, material=material)
        case 6:
            return Box(2 * m.geom_size[g], X, material=material)
        case 7 if touches:
            return ConvexHull(X.r + _hull(m, int(m.geom_dataid[g])) @ X.E, material=material)
    return None


def _material(m: Any, g: int) -> Material:
    """The friction of a geom: sliding, unless no geom of the model has any, for of two that touch
    the one with more counts; torsional and rolling [m] where its own contacts have them.
    """
    sliding, torsional, rolling = m.geom_friction[g].tolist()
    dimensions = int(m.geom_condim[g])
    return Material(
        mu=sliding if np.max(m.geom_condim) > 1 else 0.0,
        torsional=torsional if dimensions > 3 else 0.0,
        rolling=rolling if dimensions > 4 else 0.0,
    )


def _hull(m: Any, mesh: int) -> Array:
    """The vertices (n, 3) of the convex hull with which a mesh touches; where they are more than a
    hull may have, those farthest in as many directions all around.
    """
    vertices = np.asarray(m.mesh_vert, float)[int(m.mesh_vertadr[mesh]) :]
    if (at := int(m.mesh_graphadr[mesh])) < 0:
        vertices = vertices[: int(m.mesh_vertnum[mesh])]
    else:
        count = int(m.mesh_graph[at])
        vertices = vertices[m.mesh_graph[at + 2 + count : at + 2 + 2 * count]]
    if len(vertices) <= MOST_VERTICES:
        return vertices
    alike = vertices / np.ptp(vertices, axis=0).clip(min=1e-12)  # as wide in all directions
    farthest = (alike @ _directions(MOST_VERTICES).T).argmax(axis=0)
    return np.asarray(vertices[np.unique(farthest)])


def _directions(n: int) -> Array:
    """n unit vectors (n, 3) that are evenly spread: on a spiral by the golden angle."""
    z = 1.0 - (2.0 * np.arange(n) + 1.0) / n
    phi = np.pi * (3.0 - np.sqrt(5.0)) * np.arange(n)
    radius = np.sqrt(1.0 - z * z)
    return np.stack([radius * np.cos(phi), radius * np.sin(phi), z], axis=1)
