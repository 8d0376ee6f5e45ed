"""Shapes, contact materials and fluid drag of a compiled MuJoCo model (mjModel)."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from rigidblocks.robot.material import Material
from rigidblocks.robot.robot_description import (
    BodyDrag,
)
from rigidblocks.robot.shapes import (
    MOST_VERTICES,
    Box,
    Capsule,
    ConvexHull,
    Cylinder,
    Ellipsoid,
    Plane,
    Shape,
    Sphere,
)
from rigidblocks.spatial.rigid_motion import (
    quaternion_rotation,
)
from rigidblocks.spatial.spatial import Array, Transform

PLANE = 0  # mjtGeom


def shapes(m: Any, body: int, warnings: list[str]) -> tuple[list[Shape], list[Shape]]:
    """Return the visual and collision shapes of a body; add a warning for each ignored geom."""
    seen, touching = list[Shape](), list[Shape]()
    for g in _geoms(m, body):
        touches = bool(_contact_mask(m)[g])
        try:
            shape = _shape(m, g, touches)
        except ValueError as error:
            warnings.append(f"geom {g} is ignored: {error}")
            continue
        if shape is not None:
            seen.append(shape)
            if touches:
                touching.append(shape)
    return seen, touching


def planes(m: Any, body: int) -> list[Plane]:
    """Return the plane geoms of a body, except planes that cannot have contacts."""
    found = []
    for g in _geoms(m, body):
        if m.geom_type[g] == PLANE and _contact_mask(m)[g]:
            X = placement(m.geom_pos[g], m.geom_quat[g])
            found.append(Plane(X.E[2], X.r, material=_material(m, g)))
    return found


def excluded_geom_pairs(m: Any) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Return two lists of body pairs: pairs without contacts, and pairs with restricted contacts.

    The contacts of a body pair are restricted if only some of its geom pairs can have contacts. The
    function ignores geoms that cannot have contacts. MuJoCo allows a contact of two geoms if a
    <pair> lists the geoms. It also allows a contact if `contype` of one geom and `conaffinity` of
    the other geom have a common bit, unless an <exclude> lists the two bodies.
    """
    one = (m.geom_contype[:, None] & m.geom_conaffinity[None, :]) != 0
    allowed = _geom_pair_counts(m, one | one.T)
    there, possible = allowed
    for signature in m.exclude_signature.tolist():
        there[signature >> 16, signature & 0xFFFF] = there[signature & 0xFFFF, signature >> 16] = 0
    named = np.zeros_like(one)
    named[m.pair_geom1, m.pair_geom2] = named[m.pair_geom2, m.pair_geom1] = True
    there = there + _geom_pair_counts(m, named)[0]
    pairs = [(i, j) for i, j in zip(*np.nonzero(np.triu(possible, 1)), strict=True)]
    none = [(int(i), int(j)) for i, j in pairs if not there[i, j]]
    return none, [(int(i), int(j)) for i, j in pairs if 0 < there[i, j] < possible[i, j]]


def _geom_pair_counts(m: Any, allowed: Array) -> tuple[Array, Array]:
    """Return the numbers of allowed geom pairs and of all geom pairs for each body pair.

    Both results have the shape (nbody, nbody).
    """
    touching = _contact_mask(m)
    of = np.zeros((m.nbody, len(touching)))
    of[m.geom_bodyid, np.arange(len(touching))] = touching
    count = of.sum(axis=1)
    return of @ allowed @ of.T, np.outer(count, count)


def _contact_mask(m: Any) -> Array:
    """Return a mask of the geoms that can have contacts."""
    touching: Array = (m.geom_contype != 0) | (m.geom_conaffinity != 0)
    touching[m.pair_geom1] = touching[m.pair_geom2] = True
    return touching


def placement(r: Array, q: Array) -> Transform:
    """Return the transform to a frame at r (3,) [m] with the quaternion q (4,) of any norm."""
    E = quaternion_rotation(q / np.linalg.norm(q))
    return Transform(E, np.array(r))


def _geoms(m: Any, body: int) -> Iterator[int]:
    first = int(m.body_geomadr[body])
    yield from range(first, first + int(m.body_geomnum[body]))


def _shape(m: Any, g: int, touches: bool) -> Shape | None:
    """Return the shape of geom g; `touches` is True if the geom can have contacts.

    The result is None for planes, and for height fields and meshes without contacts.
    """
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
        case 1 | 8 if touches:
            raise ValueError(
                "contact with height fields and signed distance functions is not supported"
            )
    return None


def _material(m: Any, g: int) -> Material:
    """Return the material of geom g: sliding, torsional [m] and rolling [m] friction.

    MuJoCo applies the larger `condim` of the two geoms to a contact. Sliding friction is therefore
    zero only if every `condim` of the model is 1. Torsional friction applies if the `condim` of
    this geom is above 3, and rolling friction if it is above 4.
    """
    sliding, torsional, rolling = m.geom_friction[g].tolist()
    dimensions = int(m.geom_condim[g])
    return Material(
        mu=sliding if np.max(m.geom_condim) > 1 else 0.0,
        torsional=torsional if dimensions > 3 else 0.0,
        rolling=rolling if dimensions > 4 else 0.0,
    )


def _hull(m: Any, mesh: int) -> Array:
    """Return the vertices (n, 3) of the convex hull of a mesh.

    If the hull has more than `MOST_VERTICES` vertices, the function selects the extreme vertex for
    each of `MOST_VERTICES` directions.
    """
    vertices = np.asarray(m.mesh_vert, float)[int(m.mesh_vertadr[mesh]) :]
    if (at := int(m.mesh_graphadr[mesh])) < 0:
        vertices = vertices[: int(m.mesh_vertnum[mesh])]
    else:
        count = int(m.mesh_graph[at])
        vertices = vertices[m.mesh_graph[at + 2 + count : at + 2 + 2 * count]]
    if len(vertices) <= MOST_VERTICES:
        return vertices
    alike = vertices / np.ptp(vertices, axis=0).clip(min=1e-12)  # equal extent along all axes
    farthest = (alike @ _directions(MOST_VERTICES).T).argmax(axis=0)
    return np.asarray(vertices[np.unique(farthest)])


def _directions(n: int) -> Array:
    """Return n evenly distributed unit vectors (n, 3) on a golden-angle (Fibonacci) spiral."""
    z = 1.0 - (2.0 * np.arange(n) + 1.0) / n
    phi = np.pi * (3.0 - np.sqrt(5.0)) * np.arange(n)
    radius = np.sqrt(1.0 - z * z)
    return np.stack([radius * np.cos(phi), radius * np.sin(phi), z], axis=1)


def box_drags(m: Any, links: Sequence[str]) -> list[tuple[str, BodyDrag]]:
    """Return the drag of the bodies in a fluid at rest, by the MuJoCo inertia-box model.

    A body has the drag of a box with the same mass and moments of inertia. The box has the sides b
    with the mean d, and the fluid the density rho and the viscosity beta. The coefficients are:

        linear:     3 pi d beta (force)             pi d^3 beta (moment)
        quadratic:  rho b_j b_k / 2 (force)         rho b_i (b_j^4 + b_k^4) / 64 (moment)

    The quadratic coefficients are for the principal axis i; j and k are the other two axes.

    Source:
        MuJoCo documentation, Computation, Fluid forces, Inertia model.
    """
    rho, beta = float(m.opt.density), float(m.opt.viscosity)
    found: list[tuple[str, BodyDrag]] = []
    if not (rho or beta):
        return found
    for b in range(1, m.nbody):
        mass, I = float(m.body_mass[b]), m.body_inertia[b]
        if mass <= _LEAST_MASS:
            continue
        box = np.sqrt(np.maximum(I.sum() - 2.0 * I, _LEAST_MASS) / mass * 6.0)
        d, area, edge = box.mean(), np.prod(box) / box, box**4
        linear = np.repeat([np.pi * d**3 * beta, 3.0 * np.pi * d * beta], 3)
        quadratic = np.concatenate([rho * box * (edge.sum() - edge) / 64.0, rho * area / 2.0])
        X = placement(m.body_ipos[b], m.body_iquat[b])
        found.append(
            (
                links[b],
                BodyDrag(links[b], -1, X, tuple(linear.tolist()), tuple(quadratic.tolist())),
            )
        )
    return found


_LEAST_MASS = 1e-15  # mjMINVAL of MuJoCo
