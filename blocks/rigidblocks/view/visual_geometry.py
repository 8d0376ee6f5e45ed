"""Solids that represent a model and the ground, and meshes of a robot file."""

import warnings
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from rigidblocks.common.optional_imports import install_command
from rigidblocks.common.xml_reader import Element, numbers, parse_xml
from rigidblocks.cosim.graph.system import System
from rigidblocks.robot.joints import Joint
from rigidblocks.robot.robot_description import RobotDescription
from rigidblocks.robot.shapes import (
    Box,
    Capsule,
    ConvexHull,
    Cylinder,
    Ellipsoid,
    HeightField,
    Plane,
    PointSet,
    Polyhedron,
    Polyline,
    Shape,
    Sphere,
    Surface,
    TriangleMesh,
)
from rigidblocks.robot.tree import Tree
from rigidblocks.robot_description.load import find_file, read_file
from rigidblocks.spatial.rigid_motion import placement
from rigidblocks.spatial.spatial import Array, Transform, identity, xlt

PALETTE = (
    (0.13, 0.45, 0.65),
    (0.90, 0.55, 0.16),
    (0.30, 0.62, 0.42),
    (0.78, 0.29, 0.32),
    (0.49, 0.40, 0.66),
    (0.24, 0.66, 0.70),
    (0.62, 0.52, 0.36),
    (0.85, 0.47, 0.62),
)
METAL, DARK = (0.56, 0.60, 0.64), (0.20, 0.24, 0.28)
MOST_CORNERS = 40  # maximum number of vertices of a drawn convex hull
THIN = 0.045  # radius of a rod, relative to the length of a typical link


@dataclass(frozen=True, eq=False)
class Solid:
    """Box, sphere, cylinder, capsule, ellipsoid or mesh on a body, or rod between two bodies.

    - `body` is the index of the body, -1 for the base.
    - `size` [m] contains the sides of a box, the semi-axes of an ellipsoid, or the radius of a
      sphere or rod. For other solids, it contains the radius and the height along z.
    - `placement` transforms body coordinates to solid coordinates.
    - A rod extends from the point `start` on the body to the point `end` on the body `other`.
    - `points` (n, 9) [m] are the triangles of a mesh, in solid coordinates.
    - `layer` is the name of the page layer that shows the solid. Initially the page shows only the
      layer "links".
    - `opacity` is 1 for an opaque solid.
    - `aside` is True if the solid may extend beyond the camera view.
    """

    kind: str
    body: int
    size: tuple[float, ...]
    colour: tuple[float, float, float]
    placement: Transform = field(default_factory=identity)
    layer: str = "links"
    other: int = -1
    start: Any = (0.0, 0.0, 0.0)
    end: Any = (0.0, 0.0, 0.0)
    points: Any = None
    opacity: float = 1.0
    aside: bool = False


def solids(model: Tree, bare: Collection[int] | None = None) -> tuple[Solid, ...]:
    """Return the solids of all bodies of a model.

    The page layer "links" shows the visual shapes of a body. If a body has none, the layer shows
    its contact shapes, except point sets. If these shapes are only spheres, or no shape exists, the
    layer also shows rods from the joint of the body to its child joints and loop joints. The page
    layer "contact shapes" shows all contact shapes.

    If some bodies have meshes, `bare` contains the indices of the bodies whose meshes cannot be
    read. For all other bodies, the layer "links" then shows only the visual shapes.
    """
    appearance = getattr(model, "appearance", ()) or ((),) * model.nb
    contact = getattr(model, "contact", ()) or ((),) * model.nb
    radius = THIN * usual_length(model)
    found: list[Solid] = []
    for i in range(model.nb):
        colour = PALETTE[i % len(PALETTE)]
        bulky = tuple(one for one in contact[i] if not isinstance(one, PointSet))
        is_seen = bare is not None and i not in bare
        seen = appearance[i] or (() if is_seen else bulky)
        found += shape_solids(seen, i, colour, dot=radius / 2)
        is_whole = any(not isinstance(one, Sphere) for one in seen)
        if not (is_seen or is_whole):
            # the radii differ, so only the larger of two balls at one point is visible
            found += _link(model, i, (1.0 - 0.02 * (i % 4)) * radius, colour)
        found += shape_solids(contact[i], i, PALETTE[3], "contact shapes", radius / 2)
    found += _base(model, radius) if bare is None else ()
    return tuple(found)


def shape_solids(
    shapes: Sequence[Shape],
    body: int,
    colour: tuple[float, float, float],
    layer: str = "links",
    dot: float = 0.01,
) -> Iterator[Solid]:
    """Yield the solids that represent shapes on a body; points are balls of radius `dot` [m]."""
    for shape in shapes:
        match shape:
            case Box() | Cylinder() | Sphere() | Capsule() | Ellipsoid():
                yield Solid(
                    type(shape).__name__.lower(),
                    body,
                    _size(shape),
                    colour,
                    _shape_placement(shape),
                    layer,
                )
            case PointSet():
                for point in shape.points:
                    yield Solid("sphere", body, (dot,), colour, xlt(point), layer)
            case ConvexHull():
                yield Solid("mesh", body, (), colour, layer=layer, points=_hull(shape.points))
            case Polyhedron():
                corners = shape.points[shape.faces].reshape(-1, 9)
                yield Solid("mesh", body, (), colour, layer=layer, points=corners)
            case Polyline():
                for a, b in pairwise(shape.points):
                    ends = {"other": body, "start": a, "end": b}
                    yield Solid("rod", body, (dot / 2,), colour, layer=layer, **ends)
            case _:
                others = [one for one in shape.primitives() if one is not shape]
                yield from shape_solids(others, body, colour, layer, dot)


def _size(shape: Box | Cylinder | Sphere | Capsule | Ellipsoid) -> tuple[float, ...]:
    match shape:
        case Box():
            return tuple(np.ravel(shape.sides).tolist())
        case Ellipsoid():
            return tuple(np.ravel(shape.semi_axes).tolist())
        case Sphere():
            return (float(shape.radius),)
    return float(shape.radius), float(shape.height)


def _shape_placement(shape: Box | Cylinder | Sphere | Capsule | Ellipsoid) -> Transform:
    return xlt(np.asarray(shape.centre)) if isinstance(shape, Sphere) else shape.placement


def _hull(points: Array) -> Array:
    """Return the triangles (n, 9) of the convex hull of points (k, 3).

    If k exceeds `MOST_CORNERS`, the function first selects this number of points. It selects them
    one by one, always the point farthest from the points selected before. A triangle of three of
    these points belongs to the hull if all of them are on one side of its plane.
    """
    chosen = [0]
    distance = np.full(len(points), np.inf)
    while len(chosen) < min(len(points), MOST_CORNERS):
        distance = np.minimum(distance, np.linalg.norm(points - points[chosen[-1]], axis=1))
        chosen.append(int(np.argmax(distance)))
    points = points[chosen]
    corners = np.array(list(combinations(range(len(points)), 3)))
    a, b, c = np.moveaxis(points[corners], 1, 0)
    normal = np.cross(b - a, c - a)
    height = normal @ points.T - np.sum(normal * a, axis=1)[:, None]
    least = 1e-9 * float(np.ptp(points, axis=0).max()) ** 3
    one, other = (height > least).any(axis=1), (height < -least).any(axis=1)
    return np.asarray(points[corners[one != other]].reshape(-1, 9))


def spatial_transform(X: Any) -> Transform:
    """Convert a planar transform to the equivalent spatial transform in the plane z = 0."""
    if len(X.r) == 3:
        return Transform(np.asarray(X.E), np.asarray(X.r))
    E = np.eye(3)
    E[:2, :2] = X.E
    return Transform(E, np.append(X.r, 0.0))


def usual_length(model: Tree) -> float:
    """Return the length of a typical link [m].

    A body contributes the distance from its origin to each child joint and loop joint. It also
    contributes twice the distance from its origin to its centre of mass. The length is the median
    of the nonzero distances, or 1 m if all distances are zero.
    """
    far = [float(np.linalg.norm(p)) for i in range(model.nb) for p in places_on(model, i)]
    far += [2.0 * float(np.linalg.norm(centre_of_mass(model, i))) for i in range(model.nb)]
    far = [x for x in far if x > 1e-6]
    return float(np.median(far)) if far else 1.0


def places_on(model: Tree, body: int) -> list[Array]:
    """Return the positions (3,) [m] of the child joints and loop joints on a body."""
    places = [
        spatial_transform(X).r for p, X in zip(model.parent, model.Xtree, strict=True) if p == body
    ]
    for loop in model.loops:
        places += [spatial_transform(loop.Xp).r] if loop.predecessor == body else []
        places += [spatial_transform(loop.Xs).r] if loop.successor == body else []
    return places


def centre_of_mass(model: Tree, body: int) -> Array:
    """Return the centre of mass of a body (3,) [m], or the origin of a body without mass."""
    inertia = model.inertia[body]
    if model.body_names[body] in model.massless or not inertia.m > 0:
        return np.zeros(3)
    c = np.asarray(inertia.h, dtype=float) / inertia.m
    return np.append(c, np.zeros(3 - len(c)))


def _link(
    model: Tree, body: int, radius: float, colour: tuple[float, float, float]
) -> Iterator[Solid]:
    """Yield the solids of a body without shapes: rods, and a ball at the joint."""
    places, centre = places_on(model, body), centre_of_mass(model, body)
    if moves_body_origin(model.joint[body]):
        X, parent = spatial_transform(model.Xtree[body]), model.parent[body]
        yield Solid("rod", parent, (0.6 * radius,), METAL, other=body, start=X.r)
    is_empty = model.body_names[body] in model.massless
    if not any(np.linalg.norm(p) > radius for p in places):
        places = [*places, 2.0 * centre]
    for p in places:
        if np.linalg.norm(p) > 1e-9:
            yield _capsule(body, np.zeros(3), p, radius, colour)
    if not is_empty:
        yield Solid("sphere", body, (1.5 * radius,), colour)


def _capsule(
    body: int, a: Array, b: Array, radius: float, colour: tuple[float, float, float]
) -> Solid:
    along = Cylinder.from_ends(a, b, radius)
    return Solid("capsule", body, (radius, float(along.height)), colour, along.placement)


def axis_of(joint: Joint) -> Array | None:
    """Return the axis (3,) of a one-degree-of-freedom joint in joint coordinates, or None."""
    if joint.nv != 1 or joint.nq != 1:
        return None
    S = np.asarray(joint.jcalc(np.zeros(1), np.zeros(1)).S, dtype=float).ravel()
    if len(S) == 3:  # planar motion subspace, rows [w; vx; vy]
        axis = np.array([0.0, 0.0, 1.0]) if S[0] else np.append(S[1:], 0.0)
    else:
        axis = S[:3] if np.any(S[:3]) else S[3:]
    size = float(np.linalg.norm(axis))
    return axis / size if size else None


def moves_body_origin(joint: Joint) -> bool:
    """Return True if a joint with one or two degrees of freedom moves the origin of its body."""
    if joint.nv > 2 or joint.nq != joint.nv or not joint.nv:
        return False
    return bool(np.any(joint.jcalc(np.full(joint.nq, 0.1), np.zeros(joint.nv)).XJ.r))


def _base(model: Tree, radius: float) -> Iterator[Solid]:
    """Yield a metallic ball at each joint that connects a body to the base.

    Floating bases and bodies with shapes have no ball.
    """
    shown = getattr(model, "appearance", ())
    for i, (parent, X) in enumerate(zip(model.parent, model.Xtree, strict=True)):
        if parent < 0 and model.joint[i].nv <= 2 and not (shown and shown[i]):
            place = spatial_transform(X).r
            yield Solid("sphere", -1, (1.7 * radius,), METAL, xlt(place))
    for loop in model.loops:
        for body, X in ((loop.predecessor, loop.Xp), (loop.successor, loop.Xs)):
            if body < 0:
                yield Solid("sphere", -1, (1.7 * radius,), METAL, xlt(spatial_transform(X).r))


STONE = (0.62, 0.66, 0.70)
LEVEL = 1e-9  # maximum 1 - cos(slope) of a horizontal plane; found by trial
FINE, WIDE = 32, 4.0  # maximum cells per side of a height field; side of a plane / robot length


def grounds(block: Any) -> Sequence[Surface | Shape]:
    """Return the ground surfaces of a block, or of all parts of a system."""
    if isinstance(block, System):
        return [one for part in block.parts.values() for one in grounds(part.component)]
    block = getattr(block, "plant", block)  # the block of a world contains the plant
    ground = getattr(block, "ground", ())
    many = ground if isinstance(ground, tuple) else (ground,)
    return [one for one in many if isinstance(one, Surface | Shape)]


def level_ground(robot: Any, up: ArrayLike) -> dict[str, Any]:
    """Return {"ground": height [m]} for the highest horizontal plane; {} without such a plane."""
    heights = [
        float(np.asarray(one.normal) @ np.asarray(one.point))
        for one in grounds(robot)
        if isinstance(one, Plane) and _is_level(one, up)
    ]
    return {"ground": max(heights)} if heights else {}


def ground_solids(block: Any, up: ArrayLike, size: float) -> Iterator[Solid]:
    """Yield the solids of the ground surfaces that are not horizontal planes.

    A sloping plane is a square whose side is proportional to the robot length `size` [m].
    """
    for one in grounds(block):
        if isinstance(one, Shape):
            yield from shape_solids([one], -1, STONE)
        elif isinstance(one, HeightField):
            yield Solid("mesh", -1, (), STONE, points=_height_field_triangles(one))
        elif isinstance(one, TriangleMesh):
            yield Solid("mesh", -1, (), STONE, points=one.faces.reshape(-1, 9))
        elif isinstance(one, Plane) and not _is_level(one, up):
            yield Solid("mesh", -1, (), STONE, points=_square(one, WIDE * size), opacity=0.6)


def _is_level(plane: Plane, up: ArrayLike) -> bool:
    return float(np.asarray(plane.normal) @ np.asarray(up)) > 1.0 - LEVEL


def _square(plane: Plane, side: float) -> Array:
    """Return a square in a plane as two triangles (2, 9).

    The centre of the square is the point of the plane nearest to the base origin.
    """
    n = np.asarray(plane.normal, dtype=float)
    middle = n * float(n @ np.asarray(plane.point))
    a = np.cross(n, np.eye(3)[np.argmin(abs(n))])
    a = a / np.linalg.norm(a) * side / 2
    b = np.cross(n, a)
    corners = [middle - a - b, middle + a - b, middle + a + b, middle - a + b]
    return np.concatenate([corners[k] for k in (0, 1, 2, 0, 2, 3)]).reshape(2, 9)


def _height_field_triangles(field: HeightField) -> Array:
    """Return the triangles (n, 9) of a height field, reduced to at most 32 x 32 cells."""
    heights = np.asarray(field.heights, dtype=float)
    first, spacing = np.asarray(field.first), np.asarray(field.spacing)
    rows, columns = (np.unique(np.linspace(0, n - 1, FINE + 1).astype(int)) for n in heights.shape)
    x, y = first[0] + spacing[0] * rows, first[1] + spacing[1] * columns
    X, Y = np.meshgrid(x, y, indexing="ij")
    p = np.stack([X, Y, heights[np.ix_(rows, columns)]], axis=-1)
    a, b, c, d = p[:-1, :-1], p[1:, :-1], p[1:, 1:], p[:-1, 1:]
    halves = [np.concatenate(three, axis=-1).reshape(-1, 9) for three in ((a, b, c), (a, c, d))]
    return np.concatenate(halves)


MOST, LEAST = 80_000, 400  # maximum triangles of a robot; each mesh may have at least 400
# grid offset in cells, so that points on a plane of symmetry are not on a cell boundary, where
# rounding errors would determine the cell
OFFSET = 0.37
DARKEST = 0.14  # minimum colour component, because shading is not visible on black solids
LOOKS = ("bind_material", "library_effects", "library_materials", "library_images")
PLAIN = (0.80, 0.82, 0.84)


class Meshes(NamedTuple):
    """Triangle meshes of a robot, and indices of the bodies whose meshes cannot be read."""

    solids: tuple[Solid, ...] = ()
    incomplete: frozenset[int] = frozenset()


NO_MESHES = Meshes()


def meshes(robot: RobotDescription, path: Path, packages: Sequence[str | Path] = ()) -> Meshes:
    """Load the meshes of the links in a URDF file.

    For other file formats, the result has no meshes. The total number of triangles is at most about
    80,000. The function warns if a mesh is missing or invalid, or if trimesh is not installed.

    Args:
        robot: Description of the robot.
        path: Path of the robot file.
        packages: Folders with packages (`robot_description.load`).
    """
    if path.suffix != ".urdf":
        return NO_MESHES
    named = list(_mesh_elements(parse_xml(read_file(path), path), robot))
    try:
        import trimesh  # noqa: F401
    except ImportError:
        if named:
            warnings.warn(
                "meshes are not shown, because trimesh is not installed: "
                f"`{install_command('trimesh')}`",
                stacklevel=3,
            )
        return Meshes(incomplete=frozenset(body for _, _, _, body, _ in named))
    limit = max(LEAST, MOST // max(len(named), 1))
    missing, found = dict[str, int](), list[Solid]()
    for name, scale, colour, body, X in named:
        file = find_file(name, path, packages)
        triangles = None if file is None else _triangles(file, limit)
        if triangles is None or not len(triangles):
            missing[name] = body
        else:
            points = triangles * scale
            found.append(Solid("mesh", body, (), colour, X, points=points.reshape(-1, 9)))
    if missing:
        first = next(iter(missing))
        text = f"{len(missing)} of {len(named)} meshes cannot be read, such as {first}"
        if first.startswith("package://"):
            text += "; set the package folders by --packages or ROS_PACKAGE_PATH"
        warnings.warn(text, stacklevel=3)
    return Meshes(tuple(found), frozenset(missing.values()))


def simplify_mesh(triangles: Array, limit: int) -> Array:
    """Return at most `limit` triangles that approximate a mesh of triangles (n, 3, 3).

    The function merges all corners in the same grid cell into one corner (vertex clustering). It
    tests grids from fine to coarse, and selects the first one with at most `limit` triangles.
    """
    if len(triangles) <= limit:
        return triangles
    corners = triangles.reshape(-1, 3)
    low, size = corners.min(axis=0), float(np.ptp(corners, axis=0).max()) or 1.0
    cells = int(np.sqrt(limit)) + 2
    while cells > 2:
        cell = np.floor((corners - low) / size * cells + OFFSET).astype(np.int64) @ [
            1,
            2**20,
            2**40,
        ]
        _, which = np.unique(cell, return_inverse=True)
        counts = np.bincount(which)
        merged = np.stack([np.bincount(which, c) / counts for c in corners.T], axis=1)
        faces = which.reshape(-1, 3)
        kept = (faces != np.roll(faces, 1, axis=1)).all(axis=1)
        faces = _unique_triangles(faces[kept])
        if len(faces) <= limit:
            return np.asarray(merged[faces])
        cells = int(cells * 0.8)
    return triangles[:0]


def _unique_triangles(faces: Array) -> Array:
    """Return the distinct triangles in `faces`, each with the smallest corner index first."""
    first = np.argmin(faces, axis=1)
    rolled = np.take_along_axis(faces, (first[:, None] + np.arange(3)) % 3, axis=1)
    _, kept = np.unique(rolled @ [1, 2**21, 2**42], return_index=True)
    return np.asarray(rolled[kept])


def _mesh_elements(
    root: Element, robot: RobotDescription
) -> Iterator[tuple[str, Array, tuple[float, float, float], int, Transform]]:
    """Yield tuples (file, scale, colour, body index, placement) of the meshes in a URDF file."""
    colours = {one.get("name"): _colour(one) for one in root.iterchildren("material")}
    for link in root.iterchildren("link"):
        place = robot.frames.get(link.get("name", ""))
        for visual in link.iterchildren("visual"):
            for mesh in visual.iterfind("geometry/mesh"):
                if place is None:
                    continue
                origin, material = visual.find("origin"), visual.find("material")
                X = place.placement
                if origin is not None:
                    r, rpy = (numbers(origin, k, 3, [0.0] * 3) for k in ("xyz", "rpy"))
                    X = placement(r, rpy) @ X
                colour = None
                if material is not None:
                    colour = _colour(material) or colours.get(material.get("name"))
                scale = np.array(numbers(mesh, "scale", 3, [1.0] * 3))
                yield mesh.get("filename", ""), scale, colour or PLAIN, place.body, X


def _colour(material: Element) -> tuple[float, float, float] | None:
    colour = material.find("color")
    if colour is None:
        return None
    r, g, b, _ = numbers(colour, "rgba", 4)
    return (max(r, DARKEST), max(g, DARKEST), max(b, DARKEST))


def _triangles(file: Path, limit: int) -> Array | None:
    """Read at most `limit` triangles (n, 3, 3) of a mesh file; None if it cannot be read."""
    import trimesh

    try:
        if file.suffix.lower() == ".dae":
            scene: Any = trimesh.load(_collada(file), "dae", force="scene", process=False)
        else:
            scene = trimesh.load(file, force="scene", process=False)
        mesh = (
            scene.to_geometry() if hasattr(scene, "to_geometry") else scene.dump(concatenate=True)
        )
        triangles = np.asarray(mesh.triangles, dtype=float)
    except Exception:  # mesh readers raise different exceptions for damaged files
        return None
    finite = np.isfinite(triangles).all(axis=(1, 2))
    return simplify_mesh(triangles[finite], limit)


def _collada(file: Path) -> BytesIO:
    """Return a COLLADA file without materials, because invalid materials prevent reading."""
    from lxml import etree

    parser = etree.XMLParser(resolve_entities=False, no_network=True, huge_tree=True)
    root = etree.fromstring(file.read_bytes(), parser)
    etree.strip_elements(root, *(f"{{*}}{name}" for name in LOOKS), with_tail=False)
    return BytesIO(etree.tostring(root))
